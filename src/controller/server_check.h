// Which Kubernetes this is, as far as Muster does things differently or cannot do them. Asked at the start, and now and
// then afterwards, since API servers are upgraded under way.
//
// Source: tried on 1.36; release notes of 1.30 to 1.36.
// Threading: used from the executor only.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"

namespace muster::controller {

class ServerCheck {
 public:
  ServerCheck(Environment env, k8s::Client* client);
  ~ServerCheck();
  ServerCheck(const ServerCheck&) = delete;
  ServerCheck& operator=(const ServerCheck&) = delete;

  void Start();
  // Up to 1.35 a suspended Job keeps its start time, and its template is locked by it. False while not known.
  bool keeps_start_time() const { return keeps_start_time_; }
  // MutatingAdmissionPolicy v1 is served: from 1.36 on, unless it was turned off. Unset: not known.
  std::optional<bool> mutating_policies() const { return mutating_policies_; }
  // What does not work here, in words; empty: nothing that is known.
  const std::string& problem() const { return problem_; }

 private:
  void AskVersion();
  void AskPolicies();
  void Judge();

  Environment env_;
  k8s::Client* client_;
  std::string version_;  // "1.33"
  int minor_ = 0;        // 0: not known
  bool keeps_start_time_ = false;
  std::optional<bool> mutating_policies_;
  std::string problem_;
  Executor::TimerId version_timer_ = 0;
  Executor::TimerId policies_timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
