// How long the API server takes to list what a controller has to know: all Jobs and all Workloads, both at once, in
// pages. Nothing is read of them.
//
// Threading: used from the executor only.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "muster/k8s_client/client.h"
#include "muster/k8s_client/informer.h"

namespace muster::bench {

struct ListResult {
  int64_t jobs = 0;
  int64_t workloads = 0;
  int64_t bytes = 0;
  Duration took{0};
};

class Lists {
 public:
  Lists(Environment env, k8s::Client* client, std::function<void(ListResult)> done);
  void Start();

 private:
  class Kind final : public k8s::Reflector::Sink {
   public:
    Kind(Environment env, k8s::Client* client, const k8s::Resource& resource, std::function<void()> listed);
    void Start() { reflector_.Start(); }

    void Upsert(std::string_view json) override;
    void Delete(std::string_view) override {}
    void BeginList() override { objects = bytes = 0; }
    void EndList(std::string_view) override { listed_(); }
    void AbortList() override {}

    int64_t objects = 0;
    int64_t bytes = 0;

   private:
    std::function<void()> listed_;
    k8s::Reflector reflector_;
  };

  void Listed();

  Environment env_;
  std::function<void(ListResult)> done_;
  MonoTime begun_{};
  int left_ = 2;
  Kind jobs_;
  Kind workloads_;
};

}  // namespace muster::bench
