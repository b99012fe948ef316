// How long to wait after a failure: the waits double, are stretched at random by up to their own length, and
// start over after two minutes without failure.
//
// Source: k8s.io/client-go tools/cache reflector.go.
// Threading: needs external synchronisation.
#pragma once

#include <algorithm>

#include "muster/core/clock.h"

namespace muster::k8s {

class Backoff {
 public:
  Backoff(Duration min, Duration max) : min_(min), max_(max) {}

  // To be called once for each failure. `first_free`: the first one after health costs no wait.
  Duration Next(MonoTime now, Random* random, bool first_free) {
    if (now >= healthy_at_) step_ = 0;
    Duration wait(0);
    if (step_ > 0 || !first_free) {
      wait = min_;
      for (int i = 1; i < step_ && wait < max_; ++i) wait *= 2;
      wait = random->Jitter(std::min(wait, max_), 100);
    }
    step_ = std::max(step_, wait > Duration(0) ? 1 : 0) + 1;
    healthy_at_ = now + wait + kHealth;
    return wait;
  }

 private:
  static constexpr Duration kHealth = std::chrono::minutes(2);
  Duration min_;
  Duration max_;
  int step_ = 0;
  MonoTime healthy_at_{};
};

}  // namespace muster::k8s
