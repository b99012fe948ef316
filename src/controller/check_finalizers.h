// Keeps the finalizer kueue.x-k8s.io/resource-in-use on AdmissionChecks that a ClusterQueue asks for, as the reference
// does: one that is deleted stays until none does, and its controller goes on with what waits for it.
//
// Source: kueue_semantics 1.7.
// Threading: used from the executor only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "muster/core/backoff.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"

namespace muster::controller {

class CheckFinalizers {
 public:
  // `in_use`: whether a ClusterQueue asks for the check. `returned` is given the objects that requests return; they
  // come back by Observe.
  CheckFinalizers(Environment env, k8s::Client* client, std::function<bool(const std::string& name)> in_use,
                  std::function<void(const std::string& json)> returned)
      : env_(env), client_(client), in_use_(std::move(in_use)), returned_(std::move(returned)) {}

  // Until then nothing is written.
  void Open();
  void Observe(const k8s::ObjectMeta& check);
  void Deleted(const std::string& name) { entries_.erase(name); }
  // Which are in use may have changed.
  void TouchAll();

 private:
  struct Entry {
    k8s::ObjectMeta meta;
    bool busy = false;
    bool waits = false;  // before the next try
    Backoff backoff{std::chrono::milliseconds(500), std::chrono::seconds(60)};
  };

  void Touch(const std::string& name);
  void Answered(const std::string& name, const k8s::Result& result);

  Environment env_;
  k8s::Client* client_;
  std::function<bool(const std::string& name)> in_use_;
  std::function<void(const std::string& json)> returned_;
  bool open_ = false;
  std::map<std::string, Entry> entries_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
