// An executor with the system's clock, run until a test has what it waits for.
//
// Threading: one thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <utility>

#include "muster/core/clock.h"
#include "muster/k8s_client/connection.h"

namespace muster::testing {

// Timers go off when the test says so, and not before: a slow machine cannot make a time-out come early.
class HeldTimers final : public Executor {
 public:
  explicit HeldTimers(Executor* inner) : inner_(inner) {}
  void Post(Task task) override { inner_->Post(std::move(task)); }
  TimerId PostAt(MonoTime /*when*/, Task task) override {
    timers_.emplace(++last_id_, std::move(task));
    return last_id_;
  }
  void Cancel(TimerId id) override { timers_.erase(id); }
  void GoOff() {
    for (auto& [id, task] : std::exchange(timers_, {})) inner_->Post(std::move(task));
  }

 private:
  Executor* const inner_;
  TimerId last_id_ = 0;
  std::map<TimerId, Task> timers_;
};

class Loop {
 public:
  Environment env() { return {&clock_, &random_, &executor_}; }
  // The same, with the timers of the test.
  Environment env(HeldTimers* timers) { return {&clock_, &random_, timers}; }
  k8s::AsioExecutor* executor() { return &executor_; }

  // RETURNS: whether `done` became true; gives up after half a minute.
  bool RunUntil(std::function<bool()> done) {
    done_ = std::move(done);
    reached_ = false;
    give_up_ = clock_.Mono() + std::chrono::seconds(30);
    Poll();
    executor_.Run();
    return reached_;
  }
  void RunFor(Duration d) {
    const MonoTime end = clock_.Mono() + d;
    RunUntil([this, end] { return clock_.Mono() >= end; });
  }

 private:
  void Poll() {
    reached_ = done_();
    if (reached_ || clock_.Mono() > give_up_) {
      executor_.Stop();
    } else {
      executor_.PostAt(clock_.Mono() + std::chrono::milliseconds(1), [this] { Poll(); });
    }
  }

  SystemClock clock_;
  SeededRandom random_{1};
  k8s::AsioExecutor executor_;
  std::function<bool()> done_;
  bool reached_ = false;
  MonoTime give_up_;
};

}  // namespace muster::testing
