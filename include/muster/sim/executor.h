// Virtual time. A SimExecutor runs every task of a simulated world on one thread and moves its clock to the
// next timer as soon as nothing is due, so hours pass in milliseconds and a run is repeatable from its seed.
//
// Tasks come from sources: the product, each connection, each simulated controller. Within a source, tasks
// run in the order posted and timers in the order (due, set). Which source goes next among those that have
// something due at the same instant is drawn from the seed, as threads and sockets would interleave.
//
// Threading: one thread for everything, unlike other executors. Tasks may post, but not run the executor.
#pragma once

#include <absl/functional/any_invocable.h>
#include <absl/functional/function_ref.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "muster/core/clock.h"

namespace muster::sim {

class SimExecutor;

// The executor's time, shown `skew` ahead on the wall.
class SimClock final : public Clock {
 public:
  explicit SimClock(const SimExecutor* executor) : executor_(executor) {}
  WallTime Now() const override;
  MonoTime Mono() const override;
  // The wall clock jumps; the monotonic one does not.
  void set_skew(Duration skew) { skew_ = skew; }

 private:
  const SimExecutor* executor_;
  Duration skew_{0};
};

// One stream of tasks: what runs on it runs in the order posted. A process under test gets sources of its
// own, so that it can be paused and killed.
class SimSource final : public Executor {
 public:
  ~SimSource() override;
  void Post(Task task) override;
  TimerId PostAt(MonoTime when, Task task) override;
  void Cancel(TimerId id) override;

  // Nothing of this source runs until resumed; time passes, and what falls due piles up.
  void SetPaused(bool paused);
  // As SIGKILL: what waits is destroyed unrun, and what is posted from here on too.
  void Close();
  bool closed() const;
  const std::string& name() const { return name_; }

 private:
  friend class SimExecutor;
  SimSource(SimExecutor* executor, uint64_t id, std::string name);
  SimExecutor* executor_;
  uint64_t id_;
  std::string name_;
};

class SimExecutor final : public Executor {
 public:
  // 2026-01-01T00:00:00Z.
  static constexpr WallTime kStart{1'767'225'600LL * 1'000'000'000};

  explicit SimExecutor(uint64_t seed, WallTime start = kStart);
  ~SimExecutor() override;
  SimExecutor(const SimExecutor&) = delete;
  SimExecutor& operator=(const SimExecutor&) = delete;

  // Tasks of the executor's own source, which is never closed.
  void Post(Task task) override;
  TimerId PostAt(MonoTime when, Task task) override;
  void Cancel(TimerId id) override;

  // The executor outlives it.
  std::unique_ptr<SimSource> NewSource(std::string name);
  SimClock* clock();
  // A stream of random numbers of its own: the same seed and label give the same numbers, whatever else draws.
  SeededRandom NewRandom(std::string_view label) const;
  // Clock, a random stream and this executor: what a component under test needs.
  Environment env();

  // Runs one task. Where none is due, time moves to the next timer first, if that is not after `until`.
  // RETURNS: false if there was nothing to run.
  bool Step(MonoTime until = MonoTime{INT64_MAX});
  // All that is due now, and what it posts. No time passes.
  void RunReady();
  // Until neither task nor timer is left, letting time pass; at most `limit`. RETURNS: whether it got there.
  bool RunUntilIdle(Duration limit = std::chrono::hours(24));
  // Runs what falls due within `d`; afterwards the clock shows exactly `d` more.
  void RunFor(Duration d);
  // Runs until `predicate` holds; it is asked before the first and after each task. RETURNS: false if it
  // still does not hold `timeout` later; the clock then shows that time.
  bool RunUntil(absl::FunctionRef<bool()> predicate, Duration timeout);

  MonoTime Mono() const;
  WallTime Now() const;
  // Tasks run so far: the number of a crash point.
  int64_t steps() const;
  // Of which source ran when. Two runs that agree here took the same path.
  uint64_t trace_hash() const;

 private:
  friend class SimSource;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::sim
