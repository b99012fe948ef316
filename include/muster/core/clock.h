// The outside world that decisions must not read by themselves: time, chance, and "later". Each is an
// interface, so that the same code runs against the operating system and inside the simulator.
#pragma once

#include <absl/functional/any_invocable.h>

#include <cstdint>

#include "muster/core/time.h"

namespace muster {

// Threading: safe for concurrent use.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual WallTime Now() const = 0;
  virtual MonoTime Mono() const = 0;
};

// Threading: needs external synchronisation.
class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t Next() = 0;

  // RETURNS: a number in [0, bound). REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  // RETURNS: `base` stretched by a random factor in [1, 1 + fraction_percent/100].
  Duration Jitter(Duration base, int fraction_percent) {
    int64_t spread = 0;
    if (__builtin_mul_overflow(base.count() / 100, int64_t{fraction_percent}, &spread)) spread = INT64_MAX;
    if (spread <= 0) return base;
    return AddClamped(base, Duration(static_cast<int64_t>(Below(static_cast<uint64_t>(spread) + 1))));
  }
};

// Runs callbacks one at a time; what is posted from one thread runs in the order posted. Everything that a
// controller owns is touched only from its executor.
//
// Threading: Post, PostAt and Cancel are safe for concurrent use; callbacks never overlap.
class Executor {
 public:
  using Task = absl::AnyInvocable<void()>;
  // Zero is no timer.
  using TimerId = uint64_t;

  virtual ~Executor() = default;
  virtual void Post(Task task) = 0;
  // Runs `task` once Mono() >= when, unless cancelled before. RETURNS: an id never used again.
  virtual TimerId PostAt(MonoTime when, Task task) = 0;
  // No effect if the task has run or the id is zero. After the return, on the executor's own thread, the
  // task is certain not to run.
  virtual void Cancel(TimerId id) = 0;
};

// What every component is given.
struct Environment {
  Clock* clock = nullptr;
  Random* random = nullptr;
  Executor* executor = nullptr;
};

// The operating system's clocks.
class SystemClock final : public Clock {
 public:
  WallTime Now() const override;
  MonoTime Mono() const override;
};

// splitmix64; the seed gives the sequence.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  // Seeded from the operating system.
  static SeededRandom FromSystem();
  uint64_t Next() override;

 private:
  uint64_t state_;
};

}  // namespace muster
