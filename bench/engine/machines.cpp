#include "machines.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string>
#include <vector>

#include "muster/core/check.h"
#include "muster/core/clock.h"
#include "world.h"

namespace muster::bench {
namespace {

constexpr int kQueues = 10;
constexpr int64_t kGi = int64_t{1} << 30;

gang::Node NodeOf(int index, int flavors) {
  gang::Node node;
  node.name = absl::StrCat("node-", index);
  node.labels = {{"pool", absl::StrCat("pool-", index % flavors)}};
  node.ready = true;
  node.allocatable = {
      {"cpu", Amount{128'000}}, {"memory", Amount{1024 * kGi}}, {"nvidia.com/gpu", Amount{8}}, {"pods", Amount{110}}};
  return node;
}

void AddQueues(int flavors, engine::EngineSet* engine) {
  engine::ResourceGroup group{{"cpu", "memory", "nvidia.com/gpu"}, {}};
  for (int i = 0; i < flavors; ++i) {
    const std::string flavor = absl::StrCat("flavor-", i);
    engine->Apply(engine::FlavorChanged{{flavor, {{"pool", absl::StrCat("pool-", i)}}, {}, {}, ""}});
    group.flavors.push_back({flavor,
                             {{"cpu", Amount{1'000'000}, std::nullopt, std::nullopt},
                              {"memory", Amount{10'000 * kGi}, std::nullopt, std::nullopt},
                              {"nvidia.com/gpu", Amount{100'000}, std::nullopt, std::nullopt}}});
  }
  for (int i = 0; i < kQueues; ++i) {
    engine::ClusterQueue queue;
    queue.name = QueueName(i);
    queue.namespace_selector = LabelSelector{};
    queue.resource_groups = {group};
    engine->Apply(engine::ClusterQueueChanged{queue});
  }
}

}  // namespace

MachinesCost MeasureMachines(int nodes, int flavors, int times) {
  engine::EngineOptions options;
  options.machines = true;
  engine::EngineSet engine(options);
  SeededRandom random(1);
  AddQueues(flavors, &engine);
  for (int i = 0; i < nodes; ++i) {
    engine.Apply(engine::NodeChanged{NodeOf(i, flavors)});
    const auto gpus = static_cast<int64_t>(random.Below(9));
    engine.Apply(engine::PodPlaced{
        absl::StrCat("pod-", i), absl::StrCat("node-", i), {{"nvidia.com/gpu", Amount{gpus}}, {"cpu", Amount{1'000}}}});
  }
  engine.Decide(WallTime{1});
  MachinesCost cost;
  cost.nodes = nodes;
  cost.flavors = flavors;
  std::vector<Duration> took;
  for (int i = 0; i < times; ++i) {
    const Duration start = ProcessorTime();
    const auto room = engine.ViewFlavorRoom();
    took.push_back(ProcessorTime() - start);
    MUSTER_CHECK(room.size() == static_cast<size_t>(flavors) * 3);
  }
  std::sort(took.begin(), took.end());
  cost.room_p50 = took[took.size() / 2];
  cost.room_p99 = took[took.size() * 99 / 100];
  gang::Node fewer = NodeOf(0, flavors);
  fewer.allocatable["nvidia.com/gpu"] = Amount{7};
  engine.Apply(engine::NodeChanged{fewer});
  const Duration start = ProcessorTime();
  (void)engine.UnservedQuotas();
  cost.quotas = ProcessorTime() - start;
  return cost;
}

}  // namespace muster::bench
