// Runs lock-free code one atomic step at a time, in every order that makes a difference.
//
// The threads of a program are fibers; ExploredAtomics stops each before each atomic operation, and a scheduler says
// who takes the next step. Explore() tries all orders, up to such that differ only in steps that commute: dynamic
// partial order reduction (Flanagan and Godefroid, POPL 2005) with sleep sets (Godefroid 1996). The memory is
// sequentially consistent here; what weaker orders could do is for ThreadSanitizer and for the comments in the code.
//
// Threading: one exploration at a time, on one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace muster::explore {

struct Program {
  // Runs before the threads, and after them; their atomic operations are no steps.
  std::function<void()> begin;
  std::vector<std::function<void()>> threads;
  std::function<void()> end;
};

struct Explored {
  uint64_t orders = 0;     // that were run to their end
  uint64_t redundant = 0;  // that were broken off: another one stands for them
  uint64_t steps = 0;      // of the longest order
  bool all = true;         // false: `orders_max` was reached
};

// Runs a fresh program for each order.
Explored Explore(const std::function<Program()>& make, uint64_t orders_max);

// Who takes the next step: one of `running` (never empty), given how many steps each thread has taken; or -1: nobody,
// the rest is stopped for good.
using Scheduler = std::function<int(const std::vector<int>& running, const std::vector<uint64_t>& steps)>;

struct Ran {
  std::vector<bool> completed;  // before the scheduler said -1
  std::vector<uint64_t> steps;
};

// Runs one order. Afterwards, whoever was stopped goes on to its end, one after the other, so that nothing leaks.
Ran Run(const Program& program, const Scheduler& scheduler);

// Before an atomic operation on `object`. No step outside of the threads of a program.
void Step(const void* object, bool writes);

// The operations of std::atomic, each a step. Orders are ignored: there is only one thread.
struct ExploredAtomics {
  template <typename T>
  class Atomic {
   public:
    Atomic() = default;
    // As std::atomic: may be initialised by a value.
    Atomic(T value) : value_(value) {}  // NOLINT
    Atomic(const Atomic&) = delete;
    Atomic& operator=(const Atomic&) = delete;

    template <typename... Order>
    T load(Order...) const {
      Step(this, false);
      return value_;
    }
    template <typename... Order>
    void store(T value, Order...) {
      Step(this, true);
      value_ = value;
    }
    template <typename... Order>
    T exchange(T value, Order...) {
      Step(this, true);
      const T old = value_;
      value_ = value;
      return old;
    }
    template <typename... Order>
    bool compare_exchange_strong(T& expected, T value, Order...) {
      Step(this, true);
      const bool equal = value_ == expected;
      if (equal) {
        value_ = value;
      } else {
        expected = value_;
      }
      return equal;
    }
    template <typename... Order>
    T fetch_add(T value, Order...) {
      Step(this, true);
      const T old = value_;
      value_ = static_cast<T>(value_ + value);
      return old;
    }
    template <typename... Order>
    T fetch_sub(T value, Order...) {
      Step(this, true);
      const T old = value_;
      value_ = static_cast<T>(value_ - value);
      return old;
    }

   private:
    T value_{};
  };
};

}  // namespace muster::explore
