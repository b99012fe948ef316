// A token bucket as client-go's: full at the start, refilled at `qps`, never above `burst`. Time is counted
// in whole nanoseconds of credit, so nothing is rounded away.
//
// Threading: needs external synchronisation.
#pragma once

#include <algorithm>

#include "muster/core/time.h"

namespace muster::k8s {

class TokenBucket {
 public:
  // qps zero or negative: no limit.
  TokenBucket(double qps, int burst, MonoTime now)
      : price_(qps > 0 ? static_cast<int64_t>(std::clamp(1e9 / qps, 1.0, 3.6e12)) : 0),
        full_(price_ * std::max(1, burst)),
        credit_(full_),
        at_(now) {}

  // Takes one token if more than `keep` are there. RETURNS: zero where taken, else how long until it can be.
  Duration Take(MonoTime now, int keep) {
    if (price_ == 0) return Duration(0);
    const int64_t passed = std::max<int64_t>(0, (now - at_).count());
    at_ = std::max(at_, now);
    credit_ = passed >= full_ - credit_ ? full_ : credit_ + passed;
    const int64_t needed = std::min(full_, price_ * (int64_t{1} + keep));
    if (credit_ < needed) return Duration(needed - credit_);
    credit_ -= price_;
    return Duration(0);
  }

 private:
  int64_t price_;  // nanoseconds of credit a token costs; zero: unlimited
  int64_t full_;
  int64_t credit_;
  MonoTime at_;
};

}  // namespace muster::k8s
