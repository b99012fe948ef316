#include "preemption.h"

#include <algorithm>
#include <vector>

#include "muster/core/clock.h"
#include "world.h"

namespace muster::bench {
namespace {

constexpr int kQueues = 10;
constexpr int kPriorities = 100;

PreemptionCost::Quantiles QuantilesOf(std::vector<Duration> took) {
  std::sort(took.begin(), took.end());
  return {took[took.size() / 2], took[took.size() * 99 / 100]};
}

}  // namespace

PreemptionCost MeasurePreemption(int64_t running, int turns) {
  World world;
  SeededRandom random(1);
  const gang::ShapePtr shape = world.Shape(Amount{1000});
  for (int i = 0; i < kQueues; ++i) {
    world.AddQueue(i, "cohort",
                   {.nominal = Amount{running * 1000 / kQueues},
                    .reclaim_within_cohort = engine::PreemptionPolicy::kAny,
                    .within_cluster_queue = engine::PreemptionPolicy::kLowerPriority});
  }
  int64_t number = 0;
  const auto now = [&number] { return WallTime{(number + 1) * 1'000'000}; };
  while (number < running) {
    const int queue = static_cast<int>(number % (kQueues - 1));
    const auto priority = static_cast<int32_t>(random.Below(kPriorities));
    world.Submit(queue, ++number, 1, shape, priority, now());
    if (number % 1000 == 0) world.Decide(now());
  }
  world.Decide(now());
  PreemptionCost cost;
  cost.running = running;
  std::vector<Duration> searches;
  std::vector<Duration> wholes;
  for (int i = 0; i < turns; ++i) {
    const int queue = i % 2 == 0 ? kQueues - 1 : static_cast<int>(random.Below(kQueues - 1));
    const auto pods = static_cast<int32_t>(1 + random.Below(100));
    const std::string uid = world.Submit(queue, ++number, pods, shape, kPriorities, now());
    const Duration start = ProcessorTime();
    const Decided decided = world.Decide(now());
    wholes.push_back(ProcessorTime() - start);
    searches.push_back(decided.first);
    for (const Decided::Change& change : decided.changes) cost.victims += change.starts ? 0 : 1;
    world.Finish(uid);
    world.Decide(now());
  }
  cost.preemptions = turns;
  cost.search = QuantilesOf(std::move(searches));
  cost.whole = QuantilesOf(std::move(wholes));
  return cost;
}

}  // namespace muster::bench
