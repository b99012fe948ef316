// The cluster's objects that Jobs are judged by, as far as the controller needs them itself.
//
// Threading: needs external synchronisation.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "muster/controller/check_state.h"
#include "muster/controller/decode.h"
#include "muster/controller/options.h"
#include "muster/controller/pod_template.h"
#include "muster/controller/priority.h"
#include "muster/core/labels.h"
#include "muster/engine/engine.h"
#include "muster/engine/objects.h"

namespace muster::controller {

struct Catalog {
  FlavorMap flavors;
  std::map<std::string, engine::ClusterQueue, std::less<>> cluster_queues;
  std::map<std::string, engine::AdmissionCheck, std::less<>> admission_checks;
  using QueueKey = std::pair<std::string, std::string>;  // namespace and name
  std::map<QueueKey, engine::LocalQueue> local_queues;
  std::map<std::string, std::set<QueueKey>, std::less<>> local_queues_of;  // by ClusterQueue
  std::map<std::string, Labels, std::less<>> namespaces;
  std::map<std::string, engine::Cohort, std::less<>> cohorts;
  std::map<std::string, gang::Topology, std::less<>> topologies;
  std::map<std::string, std::map<std::string, WatchedLimitRange>, std::less<>> limit_ranges;  // namespace, name
  std::map<std::string, WatchedRuntimeClass, std::less<>> runtime_classes;
  PriorityClasses workload_priority_classes;
  PriorityClasses pod_priority_classes;
  bool charges_pods = false;  // ResourceQuotas are looked at
  // Counts changes of what a workload's requests, priority or being managed depend on.
  uint64_t version = 1;

  // Keep `local_queues` and the index over it in step.
  void PutLocalQueue(const QueueKey& key, const engine::LocalQueue& queue);
  void DropLocalQueue(const QueueKey& key);

  // Empty: the LocalQueue does not exist.
  std::string ClusterQueueOf(const std::string& ns, const std::string& local_queue) const;
  // That LocalQueue, or where none is named all of the ClusterQueue.
  std::set<QueueKey> QueuesMeant(const std::string& ns, const std::string& local_queue,
                                 const std::string& cluster_queue) const;
  // The checks that apply to what waits in it, or has this admission. Unset: the ClusterQueue does not exist.
  std::optional<CheckNames> ChecksOf(const std::string& cluster_queue, const engine::Admission* admission) const;
  // All that decisions are made by.
  void TellAll(engine::EngineSet* engine) const;
  // Whether any ClusterQueue asks for the check.
  bool AsksFor(const std::string& check) const;
  // By its stop policy, or because it does not exist.
  bool LocalQueueStopped(const std::string& ns, const std::string& name) const;
  bool ClusterQueueStopped(const std::string& ns, const std::string& local_queue) const;
  // "/topmost/.../cohort/queue" or "/queue", as messages about preemption name it.
  std::string QueuePath(const std::string& cluster_queue) const;
};

// Without the epoch.
engine::EngineOptions EngineOptionsOf(const Options& options);

}  // namespace muster::controller
