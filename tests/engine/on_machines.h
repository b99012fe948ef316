// Engine tests on machines that are known.
#pragma once

#include <catch2/catch.hpp>

#include "cluster.h"

namespace muster::engine {

inline EngineOptions WithMachines() {
  EngineOptions options;
  options.machines = true;
  return options;
}

inline gang::Node PoolNode(const std::string& name, const std::string& pool, int64_t cpu, int64_t pods = 100) {
  gang::Node node;
  node.name = name;
  node.labels = {{"pool", pool}};
  node.ready = true;
  node.allocatable = {{"cpu", Amount{cpu}}, {"pods", Amount{pods}}};
  return node;
}

inline ResourceFlavor Pool(const std::string& name) { return {name, {{"pool", name}}, {}, {}, ""}; }

// A ClusterQueue with these flavors, of each so much.
inline ClusterQueue PoolQueue(const std::string& name, const std::vector<std::string>& flavors, int64_t nominal = 1000,
                              const std::string& cohort = "") {
  ClusterQueue queue = CpuQueue(name, cohort, 0);
  queue.resource_groups = {{{"cpu"}, {}}};
  for (const std::string& flavor : flavors) {
    queue.resource_groups[0].flavors.push_back({flavor, {{"cpu", Amount{nominal}, std::nullopt, std::nullopt}}});
  }
  return queue;
}

// `pods` pods of `cpu` each.
inline Workload Big(const std::string& uid, const std::string& queue, int32_t pods, int64_t cpu, int64_t created = 1,
                    int32_t priority = 0) {
  Workload workload = Gang(uid, queue, pods, created, priority);
  workload.pod_sets[0].shape = CpuShape(cpu);
  return workload;
}

// Flavors a and b have the nodes of their pools; quota is ample.
class OnMachines : public Cluster {
 public:
  explicit OnMachines(EngineOptions options = WithMachines()) : Cluster(options) {
    Apply(FlavorChanged{Pool("a")});
    Apply(FlavorChanged{Pool("b")});
  }
  void AddNode(const std::string& name, const std::string& pool, int64_t cpu, int64_t pods = 100) {
    Apply(NodeChanged{PoolNode(name, pool, cpu, pods)});
  }
  std::string FlavorOf(const std::string& uid) const {
    return engine.ViewWorkload(uid)->admission.pod_sets.at(0).flavors.at(0).second;
  }
  // The first obstacle of the reason that it was told last.
  Obstacle ObstacleOf(const std::string& uid) const {
    const Reason reason = engine.ViewWorkload(uid)->reason;
    const Obstacle* obstacle = DecisiveObstacle(reason);
    REQUIRE(obstacle != nullptr);
    return *obstacle;
  }
};

inline gang::RoomProblem Problem(int64_t placed, int64_t wanted, int64_t needed, int64_t largest,
                                 const std::string& node) {
  return {placed, wanted, "cpu", Amount{needed}, Amount{largest}, node, true};
}

}  // namespace muster::engine
