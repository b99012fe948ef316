// A small language for engine tests: queues and workloads in one line each, and the answers of API server
// and pods played by the test.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "muster/engine/engine.h"
#include "muster/gang/shape.h"

namespace muster::engine {

inline WallTime At(int64_t seconds) { return WallTime{seconds * 1'000'000'000}; }

// One group of one flavor `f` with the one resource cpu.
inline ClusterQueue CpuQueue(const std::string& name, const std::string& cohort, int64_t nominal,
                             std::optional<int64_t> borrowing = std::nullopt,
                             std::optional<int64_t> lending = std::nullopt) {
  ClusterQueue queue;
  queue.name = name;
  queue.generation = 1;
  queue.cohort = cohort;
  queue.namespace_selector = LabelSelector{};
  ResourceQuota quota{"cpu", Amount{nominal}, std::nullopt, std::nullopt};
  if (borrowing.has_value()) quota.borrowing_limit = Amount{*borrowing};
  if (lending.has_value()) quota.lending_limit = Amount{*lending};
  queue.resource_groups = {ResourceGroup{{"cpu"}, {FlavorQuotas{"f", {quota}}}}};
  return queue;
}

inline LocalQueue LocalTo(const std::string& cluster_queue) {
  LocalQueue queue;
  queue.ns = "ns";
  queue.name = cluster_queue;
  queue.cluster_queue = cluster_queue;
  return queue;
}

inline gang::ShapePtr CpuShape(int64_t cpu) {
  gang::Shape shape;
  shape.requests["cpu"] = Amount{cpu};
  return std::make_shared<const gang::Shape>(std::move(shape));
}

// `pods` pods of one cpu unit each, waiting in the LocalQueue of the same name as its ClusterQueue.
inline Workload Gang(const std::string& uid, const std::string& queue, int32_t pods, int64_t created = 1,
                     int32_t priority = 0) {
  Workload workload;
  workload.uid = uid;
  workload.ns = "ns";
  workload.name = uid;
  workload.local_queue = queue;
  workload.generation = 1;
  workload.priority = priority;
  workload.queue_time = At(created);
  PodSet pod_set;
  pod_set.name = "main";
  pod_set.count = pods;
  pod_set.shape = CpuShape(1);
  workload.pod_sets.push_back(std::move(pod_set));
  return workload;
}

// The engine, validated after each event, with helpers that play the outside world.
class Cluster {
 public:
  explicit Cluster(EngineOptions options = {}) : engine(options) {
    Apply(FlavorChanged{ResourceFlavor{"f", {}, {}, {}, ""}});
    Apply(NamespaceChanged{Namespace{"ns", {}}});
  }

  void Apply(const Event& event) {
    engine.Apply(event);
    engine.Validate();
  }
  void AddQueue(const ClusterQueue& queue) {
    Apply(ClusterQueueChanged{queue});
    Apply(LocalQueueChanged{LocalTo(queue.name)});
  }
  void Submit(const Workload& workload) { Apply(WorkloadChanged{workload}); }

  // Decides; every start succeeds at once. RETURNS: who was admitted, in order; with a + those that got more pods.
  std::vector<std::string> Run(WallTime now = At(100)) {
    std::vector<std::string> admitted;
    last = engine.Decide(now);
    engine.Validate();
    for (const Decision& decision : last) {
      if (const auto* admit = std::get_if<Admit>(&decision)) {
        admitted.push_back(admit->uid);
        claims[admit->uid] = admit->claim;
        Apply(ClaimWritten{admit->uid, admit->claim});
      }
      if (const auto* grow = std::get_if<Grow>(&decision)) {
        admitted.push_back(grow->uid + "+");
        Apply(GrowthWritten{grow->uid, grow->claim});
      }
    }
    return admitted;
  }
  // Its pods are done and its object is gone.
  void Finish(const std::string& uid) { Apply(WorkloadDeleted{uid}); }

  std::vector<Evict> Evictions() const {
    std::vector<Evict> evictions;
    for (const Decision& decision : last) {
      if (const auto* evict = std::get_if<Evict>(&decision)) evictions.push_back(*evict);
    }
    return evictions;
  }
  // "uid for preemptor", in the order of the decisions.
  std::vector<std::string> Preempted() const {
    std::vector<std::string> preempted;
    for (const Evict& evict : Evictions()) preempted.push_back(evict.uid + " for " + evict.preemptor_uid);
    return preempted;
  }
  // It was told to go: the write has arrived, its pods still run.
  void Stop(const std::string& uid) { Apply(ClaimLeaving{uid, claims.at(uid)}); }
  // Its pods are gone, and it queues again.
  void Leave(const std::string& uid) {
    Stop(uid);
    Apply(ClaimGone{uid, claims.at(uid)});
  }
  // All that were told to go in the last run are gone at once.
  void LeaveAll() {
    for (const Evict& evict : Evictions()) Leave(evict.uid);
  }
  std::optional<Reason> HoldOf(const std::string& uid) const {
    std::optional<Reason> reason;
    for (const Decision& decision : last) {
      if (const auto* hold = std::get_if<Hold>(&decision); hold != nullptr && hold->uid == uid) reason = hold->reason;
    }
    return reason;
  }
  WorkloadView::Place PlaceOf(const std::string& uid) const { return engine.ViewWorkload(uid)->place; }
  Amount Reserved(const std::string& queue) const { return engine.ViewClusterQueue(queue).usage.at(0).reserved; }

  EngineSet engine;
  std::vector<Decision> last;
  std::map<std::string, ClaimId> claims;
};

}  // namespace muster::engine
