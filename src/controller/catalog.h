// The cluster's objects that Jobs are judged by, as far as the controller needs them itself.
//
// Threading: needs external synchronisation.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "muster/controller/decode.h"
#include "muster/controller/pod_template.h"
#include "muster/controller/priority.h"
#include "muster/core/labels.h"
#include "muster/engine/objects.h"

namespace muster::controller {

struct Catalog {
  FlavorMap flavors;
  std::map<std::string, engine::ClusterQueue, std::less<>> cluster_queues;
  std::map<std::pair<std::string, std::string>, engine::LocalQueue> local_queues;  // (namespace, name)
  std::map<std::string, Labels, std::less<>> namespaces;
  std::map<std::string, engine::Cohort, std::less<>> cohorts;
  std::map<std::string, std::map<std::string, WatchedLimitRange>, std::less<>> limit_ranges;  // namespace, name
  std::map<std::string, WatchedRuntimeClass, std::less<>> runtime_classes;
  PriorityClasses workload_priority_classes;
  PriorityClasses pod_priority_classes;
  // Counts changes of what a workload's requests, priority or being managed depend on.
  uint64_t version = 1;

  // Empty: the LocalQueue does not exist.
  std::string ClusterQueueOf(const std::string& ns, const std::string& local_queue) const;
  // By its stop policy, or because it does not exist.
  bool LocalQueueStopped(const std::string& ns, const std::string& name) const;
  bool ClusterQueueStopped(const std::string& ns, const std::string& local_queue) const;
  // "/cohort/queue" or "/queue", as messages about preemption name it.
  std::string QueuePath(const std::string& cluster_queue) const;
};

}  // namespace muster::controller
