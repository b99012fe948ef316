// Asks the API server once whom it takes this process for: the admission policies let one user start Jobs, and a Muster
// that runs as somebody else, an administrator say, would have each start refused.
//
// Threading: used from the executor only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/controller/policies.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"

namespace muster::controller {

class IdentityCheck {
 public:
  IdentityCheck(Environment env, k8s::Client* client, PolicyOptions policies)
      : env_(env), client_(client), policies_(std::move(policies)) {}
  ~IdentityCheck();
  IdentityCheck(const IdentityCheck&) = delete;
  IdentityCheck& operator=(const IdentityCheck&) = delete;

  void Start();
  // In words, with the remedy; empty: there is none, or the API server does not say.
  const std::string& problem() const { return problem_; }

 private:
  void Answered(const k8s::HttpResponse& response);

  Environment env_;
  k8s::Client* client_;
  PolicyOptions policies_;
  std::string problem_;
  Executor::TimerId timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
