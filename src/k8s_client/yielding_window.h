// How many writes that can wait (Workloads, queue status, Events) may be on their way beside starts and stops.
//
// Starts are what users wait for, and an API server that is busy answers all writes more slowly. So while starts come
// back clearly later than they can, what can wait yields: its window is halved, as TCP's is; while they come back in
// time it grows again by one for each. It never closes, and the longer it is held small the wider its floor gets, so
// that a server that is always busy keeps nobody's Workload from being told. Without starts all of it is open.
// Delay as the sign of congestion is LEDBAT's way (RFC 6817).
//
// Threading: needs external synchronisation.
#pragma once

#include <algorithm>

#include "muster/core/time.h"

namespace muster::k8s {

class YieldingWindow {
 public:
  // REQUIRES: `max` > 0.
  explicit YieldingWindow(int max) : max_(max), window_(max) {}

  // A start or stop came back.
  void Foreground(MonoTime left, MonoTime back) {
    if (back - last_ > kQuiet) Open();
    last_ = back;
    const Duration took = back - left;
    if (back - fastest_since_ > kMemory || fastest_since_ == MonoTime{}) {
      older_fastest_ = fastest_;
      fastest_ = took;
      fastest_since_ = back;
    }
    fastest_ = std::min(fastest_, took);
    smoothed_ = smoothed_ == Duration(0) ? took : smoothed_ + (took - smoothed_) / 4;
    if (smoothed_ <= 2 * std::min(fastest_, older_fastest_) + kTolerance) {
      window_ = std::min(max_, window_ + 1);
      if (window_ == max_) squeezed_since_ = {};
    } else if (back - halved_ >= smoothed_) {
      halved_ = back;
      window_ = std::max(1, window_ / 2);
      if (squeezed_since_ == MonoTime{}) squeezed_since_ = back;
    }
  }

  int Slots(MonoTime now) const {
    if (squeezed_since_ == MonoTime{} || now - last_ > kQuiet) return max_;
    const auto floor = 1 + (now - squeezed_since_) / kWiden;
    return static_cast<int>(std::clamp<int64_t>(floor, window_, max_));
  }

 private:
  static constexpr Duration kQuiet = std::chrono::milliseconds(200);    // no starts for so long: none are about
  static constexpr Duration kTolerance = std::chrono::milliseconds(5);  // of a start's time: noise
  static constexpr Duration kMemory = std::chrono::seconds(30);         // for how fast a start can be
  static constexpr Duration kWiden = std::chrono::seconds(2);           // of being held small, for one slot more

  void Open() {
    window_ = max_;
    squeezed_since_ = {};
    smoothed_ = Duration(0);
  }

  int max_;
  int window_;
  MonoTime last_;
  MonoTime halved_;
  MonoTime squeezed_since_;  // unset: not held small
  MonoTime fastest_since_;
  Duration fastest_ = Duration::max() / 4;
  Duration older_fastest_ = Duration::max() / 4;
  Duration smoothed_{0};
};

}  // namespace muster::k8s
