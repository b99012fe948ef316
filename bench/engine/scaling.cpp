#include "scaling.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_cat.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "muster/core/clock.h"
#include "world.h"

namespace muster::bench {
namespace {

// The same choices in each run.
constexpr uint64_t kSeed = 1;

int64_t ResidentKib() {
  int64_t size = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE) / 1024;
}

// Gangs of one pod that run and wait; time goes on by a millisecond with each arrival.
class FullWorld {
 public:
  World world;

  void Submit(int queue, const gang::ShapePtr& shape) {
    const std::string uid = world.Submit(queue, ++number_, 1, shape, 0, Now());
    gangs_.emplace(uid, Gang{queue, shape, 0});
  }
  // RETURNS: those that started.
  std::vector<std::string> Decide() {
    std::vector<std::string> started;
    for (const Decided::Change& change : world.Decide(Now()).changes) {
      gangs_.at(change.uid).index = running_.size();
      running_.push_back(change.uid);
      started.push_back(change.uid);
    }
    return started;
  }
  void Turn() {
    const std::string uid = running_[random_.Below(running_.size())];
    const size_t index = gangs_.at(uid).index;
    gangs_.at(running_.back()).index = index;
    std::swap(running_[index], running_.back());
    running_.pop_back();
    gangs_.erase(uid);
    world.Finish(uid);
    for (const std::string& started : Decide()) {
      const Gang& gang = gangs_.at(started);
      Submit(gang.queue, gang.shape);
    }
    Decide();
  }

 private:
  struct Gang {
    int queue = 0;
    gang::ShapePtr shape;
    size_t index = 0;  // in running_
  };
  WallTime Now() const { return WallTime{(number_ + 1) * 1'000'000}; }

  SeededRandom random_{kSeed};
  absl::flat_hash_map<std::string, Gang> gangs_;
  std::vector<std::string> running_;
  int64_t number_ = 0;
};

void Measure(FullWorld* full, int turns, TurnCost* cost) {
  constexpr int kWarmUp = 10;  // what was built is told once why it waits
  constexpr Duration kLongest = std::chrono::seconds(10);
  for (int i = 0; i < kWarmUp; ++i) full->Turn();
  std::vector<Duration> took;
  const Duration start = ProcessorTime();
  for (Duration now = start; static_cast<int>(took.size()) < turns && now - start < kLongest;) {
    full->Turn();
    const Duration end = ProcessorTime();
    took.push_back(end - now);
    now = end;
  }
  cost->resident_kib = ResidentKib();
  std::sort(took.begin(), took.end());
  cost->mean = std::accumulate(took.begin(), took.end(), Duration(0)) / static_cast<int64_t>(took.size());
  cost->p50 = took[took.size() / 2];
  cost->p99 = took[took.size() * 99 / 100];
}

}  // namespace

TurnCost MeasureQueues(int queues, int queues_per_cohort, int turns) {
  constexpr int kRunning = 4;
  constexpr int kWaiting = 2;
  FullWorld full;
  const gang::ShapePtr shape = full.world.Shape(Amount{1000});
  for (int i = 0; i < queues; ++i) {
    full.world.AddQueue(i, absl::StrCat("cohort-", i / queues_per_cohort), {.nominal = Amount{1000 * kRunning}});
  }
  for (int round = 0; round < kRunning + kWaiting; ++round) {
    for (int i = 0; i < queues; ++i) full.Submit(i, shape);
    full.Decide();
  }
  TurnCost cost;
  cost.queues = queues;
  cost.waiting = int64_t{queues} * kWaiting;
  cost.shapes = 1;
  Measure(&full, turns, &cost);
  return cost;
}

TurnCost MeasureWaiting(int64_t waiting, int shapes, int turns) {
  constexpr int kQueues = 10;
  constexpr int kRunning = 100;  // a queue
  FullWorld full;
  std::vector<gang::ShapePtr> sizes;
  // Within a factor of two, so that the room of one is room for about one.
  for (int i = 0; i < shapes; ++i) sizes.push_back(full.world.Shape(Amount{1000 + 1000 * i / shapes}));
  for (int i = 0; i < kQueues; ++i) full.world.AddQueue(i, "cohort", {.nominal = Amount{1500 * kRunning}});
  for (int64_t i = 0; i < waiting + int64_t{kQueues} * kRunning; ++i) {
    const int64_t queue = i % kQueues;
    const int64_t size = shapes < kQueues ? i % shapes : i / kQueues % (shapes / kQueues) * kQueues + queue;
    full.Submit(static_cast<int>(queue), sizes[static_cast<size_t>(size)]);
    if (i % 1000 == 999) full.Decide();
  }
  full.Decide();
  TurnCost cost;
  cost.queues = kQueues;
  cost.waiting = waiting;
  cost.shapes = shapes;
  Measure(&full, turns, &cost);
  return cost;
}

}  // namespace muster::bench
