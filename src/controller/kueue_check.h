// Whether Kueue's own controller is at work on this cluster. Two controllers of one set of queues would start and
// stop each other's Jobs, so Muster does not stand for leadership while Kueue's lease is held.
//
// Threading: used from the executor only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"

namespace muster::controller {

class KueueCheck {
 public:
  KueueCheck(Environment env, k8s::Client* client, std::string ns, std::string own_identity);
  ~KueueCheck();
  KueueCheck(const KueueCheck&) = delete;
  KueueCheck& operator=(const KueueCheck&) = delete;

  // Asks until the lease is not held; then calls `clear`, once.
  void Start(std::function<void()> clear);
  // In words; empty: Kueue is not at work.
  const std::string& problem() const { return problem_; }

 private:
  void Look();
  void Seen(const k8s::Result& result);

  Environment env_;
  k8s::Client* client_;
  std::string ns_;
  std::string own_identity_;
  std::function<void()> clear_;
  std::string problem_;
  Executor::TimerId timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
