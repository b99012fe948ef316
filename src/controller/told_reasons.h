// Why somebody waits is told at once when it is another reason, and by and by when only numbers or names in it have
// changed: in a long queue these change for everybody whenever anybody leaves, and each write costs what a start costs.
//
// Source: user_pains G1; design: what a write costs.
// Threading: used from the executor only.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "muster/core/clock.h"
#include "muster/engine/engine.h"

namespace muster::controller {

class ToldReasons {
 public:
  // Those who wait are gone through from so long after numbers changed, once a pause, so many of them each time, until
  // all were seen since the last change; of those whose numbers are others by now, so many are told.
  static constexpr Duration kDelay = std::chrono::seconds(5);
  static constexpr Duration kPause = std::chrono::seconds(1);
  static constexpr int kLooksMax = 200;
  static constexpr int kWritesMax = 10;

  // Who waits and was told why, and comes next after this uid; empty: nobody does.
  using Next = std::function<std::string(const std::string& uid)>;
  // Has the numbers told if they have changed. RETURNS: whether they have.
  using Renew = std::function<bool(const std::string& uid)>;

  ToldReasons(Environment env, Next next, Renew renew) : env_(env), next_(std::move(next)), renew_(std::move(renew)) {}
  ~ToldReasons() { env_.executor->Cancel(timer_); }
  ToldReasons(const ToldReasons&) = delete;
  ToldReasons& operator=(const ToldReasons&) = delete;

  // As of Next: of entries by uid, each with the optional `reason` that was told.
  template <typename Entries>
  static std::string NextIn(const Entries& entries, const std::string& uid) {
    const auto next = std::find_if(entries.upper_bound(uid), entries.end(),
                                   [](const auto& entry) { return entry.second.reason.has_value(); });
    return next == entries.end() ? std::string() : next->first;
  }

  // Somebody who was told `told` last, if anything, waits for `reason` now.
  // RETURNS: whether that is to be told at once.
  bool IsAnother(const std::optional<engine::Reason>& told, const engine::Reason& reason);
  // Whether `view` has other numbers than were told, for the same reason; `told` then has them.
  // `ns`: of who waits.
  static bool TakeNumbers(const std::optional<engine::WorkloadView>& view, const std::string& ns,
                          std::optional<engine::Reason>* told);

 private:
  void Wait(Duration delay);
  void Look();

  Environment env_;
  Next next_;
  Renew renew_;
  std::string last_;    // who was looked at
  bool again_ = false;  // numbers have changed since it began
  Executor::TimerId timer_ = 0;
};

}  // namespace muster::controller
