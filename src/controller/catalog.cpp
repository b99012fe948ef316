#include "catalog.h"

#include "text.h"

namespace muster::controller {

std::string Catalog::ClusterQueueOf(const std::string& ns, const std::string& local_queue) const {
  const auto it = local_queues.find({ns, local_queue});
  return it == local_queues.end() ? std::string() : it->second.cluster_queue;
}

bool Catalog::LocalQueueStopped(const std::string& ns, const std::string& name) const {
  const auto it = local_queues.find({ns, name});
  return it == local_queues.end() || it->second.stop_policy != engine::StopPolicy::kNone;
}

bool Catalog::ClusterQueueStopped(const std::string& ns, const std::string& local_queue) const {
  const auto queue = cluster_queues.find(ClusterQueueOf(ns, local_queue));
  return queue == cluster_queues.end() || queue->second.stop_policy != engine::StopPolicy::kNone;
}

std::string Catalog::QueuePath(const std::string& cluster_queue) const {
  const auto it = cluster_queues.find(cluster_queue);
  if (it == cluster_queues.end() || it->second.cohort.empty()) return Cat("/", cluster_queue);
  return Cat("/", it->second.cohort, "/", cluster_queue);
}

}  // namespace muster::controller
