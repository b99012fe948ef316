#include "muster/sim/executor.h"

#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "muster/core/check.h"
#include "muster/core/hash.h"

namespace muster::sim {
namespace {

constexpr uint64_t kOwnSource = 0;
// A world that runs this many tasks without time passing is stuck in a loop.
constexpr int64_t kTasksAtOneInstantMax = 10'000'000;

}  // namespace

class SimExecutor::Impl {
 public:
  Impl(SimExecutor* owner, uint64_t seed, WallTime start)
      : seed_(seed), start_(start), order_(Random("order")), clock_(owner), random_(Random("environment")) {
    sources_.emplace(kOwnSource, Source{"executor", {}, false});
  }
  ~Impl() {
    // Tasks own things whose destructors may call Cancel: take the containers away from under them first.
    const auto timers = std::exchange(timers_, {});
    const auto sources = std::exchange(sources_, {});
  }

  uint64_t AddSource(std::string name) {
    const uint64_t id = next_source_++;
    sources_.emplace(id, Source{std::move(name), {}, false});
    return id;
  }

  void CloseSource(uint64_t id) {
    const auto it = sources_.find(id);
    if (it == sources_.end()) return;
    const Source dead = std::move(it->second);
    sources_.erase(it);
    std::vector<Task> dropped;
    for (auto timer = timers_.begin(); timer != timers_.end();) {
      if (timer->second.source != id) {
        ++timer;
        continue;
      }
      due_.erase({timer->second.when, timer->first});
      dropped.push_back(std::move(timer->second.task));
      timer = timers_.erase(timer);
    }
  }

  bool HasSource(uint64_t id) const { return sources_.contains(id); }
  void SetPaused(uint64_t id, bool paused) {
    const auto it = sources_.find(id);
    if (it != sources_.end()) it->second.paused = paused;
  }

  void Post(uint64_t source, Task task) {
    const auto it = sources_.find(source);
    if (it != sources_.end()) it->second.ready.push_back(Ready{0, std::move(task)});
  }

  TimerId PostAt(uint64_t source, MonoTime when, Task task) {
    const TimerId id = next_timer_++;
    if (!sources_.contains(source)) return id;
    timers_.emplace(id, Timer{source, when, std::move(task)});
    due_.insert({when, id});
    return id;
  }

  void Cancel(TimerId id) {
    const auto it = timers_.find(id);
    if (it == timers_.end()) return;
    due_.erase({it->second.when, id});
    const Timer dead = std::move(it->second);
    timers_.erase(it);
  }

  bool Step(MonoTime until) {
    MUSTER_CHECK_MSG(!running_, "a task must not run the executor");
    while (true) {
      MakeDueReady();
      const std::vector<uint64_t> runnable = Runnable();
      if (!runnable.empty()) {
        if (RunOne(runnable[runnable.size() == 1 ? 0 : order_.Below(runnable.size())])) return true;
        continue;  // it was cancelled meanwhile
      }
      if (due_.empty() || due_.begin()->first > until) return false;
      now_ = due_.begin()->first;
      at_this_instant_ = 0;
    }
  }

  void AdvanceTo(MonoTime when) {
    if (when <= now_) return;
    now_ = when;
    at_this_instant_ = 0;
  }

  bool idle() const {
    for (const auto& [id, source] : sources_) {
      if (!source.ready.empty() && !source.paused) return false;
    }
    return due_.empty();
  }

  MonoTime now() const { return now_; }
  WallTime wall() const { return start_ + Duration(now_.nanos); }
  SeededRandom Random(std::string_view label) const {
    return SeededRandom(StateHash().Add(static_cast<int64_t>(seed_)).Add(label).value());
  }
  SimClock* clock() { return &clock_; }
  SeededRandom* random() { return &random_; }
  int64_t steps() const { return steps_; }
  uint64_t trace_hash() const { return trace_.value(); }

 private:
  // A task posted, or (id not zero) a timer that fell due and is still in timers_ unless cancelled.
  struct Ready {
    TimerId timer;
    Task task;
  };
  struct Source {
    std::string name;
    std::deque<Ready> ready;
    bool paused;
  };
  struct Timer {
    uint64_t source;
    MonoTime when;
    Task task;
  };

  void MakeDueReady() {
    while (!due_.empty() && due_.begin()->first <= now_) {
      const TimerId id = due_.begin()->second;
      due_.erase(due_.begin());
      sources_.at(timers_.at(id).source).ready.push_back(Ready{id, nullptr});
    }
  }

  std::vector<uint64_t> Runnable() const {
    std::vector<uint64_t> ids;
    for (const auto& [id, source] : sources_) {
      if (!source.ready.empty() && !source.paused) ids.push_back(id);
    }
    return ids;
  }

  bool RunOne(uint64_t source_id) {
    Source& source = sources_.at(source_id);
    Ready next = std::move(source.ready.front());
    source.ready.pop_front();
    if (next.timer != 0) {
      const auto it = timers_.find(next.timer);
      if (it == timers_.end()) return false;
      next.task = std::move(it->second.task);
      timers_.erase(it);
    }
    ++steps_;
    MUSTER_CHECK_MSG(++at_this_instant_ < kTasksAtOneInstantMax, "no end of tasks at one instant; now " + source.name);
    trace_.Add(now_.nanos).Add(source.name);
    running_ = true;
    next.task();
    running_ = false;
    return true;
  }

  uint64_t seed_;
  WallTime start_;
  SeededRandom order_;
  SimClock clock_;
  SeededRandom random_;
  MonoTime now_;
  std::map<uint64_t, Source> sources_;
  std::map<TimerId, Timer> timers_;  // those due and not yet run included
  std::set<std::pair<MonoTime, TimerId>> due_;
  uint64_t next_source_ = kOwnSource + 1;
  TimerId next_timer_ = 1;
  int64_t steps_ = 0;
  int64_t at_this_instant_ = 0;
  StateHash trace_;
  bool running_ = false;
};

WallTime SimClock::Now() const { return executor_->Now() + skew_; }
MonoTime SimClock::Mono() const { return executor_->Mono(); }

SimSource::SimSource(SimExecutor* executor, uint64_t id, std::string name)
    : executor_(executor), id_(id), name_(std::move(name)) {}
SimSource::~SimSource() { Close(); }
void SimSource::Post(Task task) { executor_->impl_->Post(id_, std::move(task)); }
Executor::TimerId SimSource::PostAt(MonoTime when, Task task) {
  return executor_->impl_->PostAt(id_, when, std::move(task));
}
void SimSource::Cancel(TimerId id) { executor_->impl_->Cancel(id); }
void SimSource::SetPaused(bool paused) { executor_->impl_->SetPaused(id_, paused); }
void SimSource::Close() { executor_->impl_->CloseSource(id_); }
bool SimSource::closed() const { return !executor_->impl_->HasSource(id_); }

SimExecutor::SimExecutor(uint64_t seed, WallTime start) : impl_(std::make_unique<Impl>(this, seed, start)) {}
SimExecutor::~SimExecutor() = default;
void SimExecutor::Post(Task task) { impl_->Post(kOwnSource, std::move(task)); }
Executor::TimerId SimExecutor::PostAt(MonoTime when, Task task) {
  return impl_->PostAt(kOwnSource, when, std::move(task));
}
void SimExecutor::Cancel(TimerId id) { impl_->Cancel(id); }

std::unique_ptr<SimSource> SimExecutor::NewSource(std::string name) {
  const uint64_t id = impl_->AddSource(name);
  return std::unique_ptr<SimSource>(new SimSource(this, id, std::move(name)));
}
SimClock* SimExecutor::clock() { return impl_->clock(); }
SeededRandom SimExecutor::NewRandom(std::string_view label) const { return impl_->Random(label); }
Environment SimExecutor::env() { return {impl_->clock(), impl_->random(), this}; }

bool SimExecutor::Step(MonoTime until) { return impl_->Step(until); }
void SimExecutor::RunReady() {
  while (impl_->Step(impl_->now())) {
  }
}
bool SimExecutor::RunUntilIdle(Duration limit) {
  const MonoTime end = Mono() + limit;
  while (impl_->Step(end)) {
  }
  return impl_->idle();
}
void SimExecutor::RunFor(Duration d) {
  const MonoTime end = Mono() + d;
  while (impl_->Step(end)) {
  }
  impl_->AdvanceTo(end);
}
bool SimExecutor::RunUntil(absl::FunctionRef<bool()> predicate, Duration timeout) {
  const MonoTime end = Mono() + timeout;
  while (!predicate()) {
    if (impl_->Step(end)) continue;
    impl_->AdvanceTo(end);
    return predicate();
  }
  return true;
}

MonoTime SimExecutor::Mono() const { return impl_->now(); }
WallTime SimExecutor::Now() const { return impl_->wall(); }
int64_t SimExecutor::steps() const { return impl_->steps(); }
uint64_t SimExecutor::trace_hash() const { return impl_->trace_hash(); }

}  // namespace muster::sim
