// Looks whether the CRDs still convert by Kueue's webhook, which goes away with Kueue: what is stored in another
// version than the one that is asked for cannot be read then.
//
// Source: docs/hand-over.md.
// Threading: used from the executor only.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"

namespace muster::controller {

// Names of the CRDs whose objects Muster reads, in order.
std::vector<std::string> ReadCrds();

class ConversionCheck {
 public:
  ConversionCheck(Environment env, k8s::Client* client) : env_(env), client_(client) {}
  ~ConversionCheck();
  ConversionCheck(const ConversionCheck&) = delete;
  ConversionCheck& operator=(const ConversionCheck&) = delete;

  // Asks from here on, time and again.
  void Start() { Look(); }
  // In words, with the remedy; empty: there is none, or it may not be asked.
  const std::string& problem() const { return problem_; }

 private:
  void Look();
  void Seen(const std::string& crd, const k8s::Result& result);

  Environment env_;
  k8s::Client* client_;
  std::vector<std::string> found_;  // in this round
  size_t outstanding_ = 0;
  std::string problem_;
  Executor::TimerId timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
