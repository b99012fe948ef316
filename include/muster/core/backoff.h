// How long to wait before the next try: doubles with every failure, up to a bound. What is added at random, and when
// it starts over, is the caller's.
//
// Threading: values.
#pragma once

#include <algorithm>

#include "muster/core/time.h"

namespace muster {

class Backoff {
 public:
  Backoff(Duration first, Duration most) : first_(first), most_(most), next_(first) {}
  Duration Next() {
    const Duration now = next_;
    next_ = std::min(next_ * 2, most_);
    return now;
  }
  void Reset() { next_ = first_; }

 private:
  Duration first_;
  Duration most_;
  Duration next_;
};

}  // namespace muster
