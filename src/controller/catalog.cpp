#include "catalog.h"

#include <algorithm>

#include "text.h"

namespace muster::controller {

void Catalog::PutLocalQueue(const QueueKey& key, const engine::LocalQueue& queue) {
  DropLocalQueue(key);
  local_queues.emplace(key, queue);
  local_queues_of[queue.cluster_queue].insert(key);
}

void Catalog::DropLocalQueue(const QueueKey& key) {
  const auto it = local_queues.find(key);
  if (it == local_queues.end()) return;
  const auto of = local_queues_of.find(it->second.cluster_queue);
  of->second.erase(key);
  if (of->second.empty()) local_queues_of.erase(of);
  local_queues.erase(it);
}

std::set<Catalog::QueueKey> Catalog::QueuesMeant(const std::string& ns, const std::string& local_queue,
                                                 const std::string& cluster_queue) const {
  if (!local_queue.empty()) return {{ns, local_queue}};
  const auto it = local_queues_of.find(cluster_queue);
  return it == local_queues_of.end() ? std::set<QueueKey>() : it->second;
}

std::string Catalog::ClusterQueueOf(const std::string& ns, const std::string& local_queue) const {
  const auto it = local_queues.find({ns, local_queue});
  return it == local_queues.end() ? std::string() : it->second.cluster_queue;
}

std::optional<CheckNames> Catalog::ChecksOf(const std::string& cluster_queue,
                                            const engine::Admission* admission) const {
  const auto it = cluster_queues.find(cluster_queue);
  if (it == cluster_queues.end()) return std::nullopt;
  return engine::ApplicableChecks(it->second, admission);
}

void Catalog::TellAll(engine::EngineSet* engine) const {
  for (const auto& [name, labels] : namespaces) engine->Apply(engine::NamespaceChanged{{name, labels}});
  for (const auto& [name, topology] : topologies) engine->Apply(engine::TopologyChanged{topology});
  for (const auto& [name, flavor] : flavors) engine->Apply(engine::FlavorChanged{flavor});
  for (const auto& [name, cohort] : cohorts) engine->Apply(engine::CohortChanged{cohort});
  for (const auto& [name, check] : admission_checks) engine->Apply(engine::AdmissionCheckChanged{check});
  for (const auto& [name, queue] : cluster_queues) engine->Apply(engine::ClusterQueueChanged{queue});
  for (const auto& [key, queue] : local_queues) engine->Apply(engine::LocalQueueChanged{queue});
}

bool Catalog::AsksFor(const std::string& check) const {
  return std::any_of(cluster_queues.begin(), cluster_queues.end(), [&check](const auto& queue) {
    const std::vector<engine::AdmissionCheckRule>& rules = queue.second.admission_checks;
    return std::any_of(rules.begin(), rules.end(), [&check](const auto& rule) { return rule.name == check; });
  });
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
  std::string path = Cat("/", cluster_queue);
  const auto it = cluster_queues.find(cluster_queue);
  std::string cohort = it == cluster_queues.end() ? std::string() : it->second.cohort;
  // No more than there are, since they may form a cycle.
  for (size_t left = cohorts.size() + 1; !cohort.empty() && left > 0; --left) {
    path = Cat("/", cohort, path);
    const auto parent = cohorts.find(cohort);
    cohort = parent == cohorts.end() ? std::string() : parent->second.parent;
  }
  return path;
}

engine::EngineOptions EngineOptionsOf(const Options& options) {
  engine::EngineOptions out;
  out.machines = options.check_machines;
  out.place_timeout = options.place_timeout;
  out.balanced_placement = options.balanced_placement;
  out.reserve_after = options.reserve_after;
  out.defragment_after = options.defragment_after;
  out.deciders = options.deciders;
  for (const gang::Transformation& transformation : options.requests.transformations) {
    for (const auto& [resource, amount] : transformation.outputs) out.derived_resources.insert(resource);
  }
  out.unwritten_claims_max = options.unwritten_claims_max;
  out.ignore_undeclared_resources = options.ignore_undeclared_resources;
  out.fair_sharing = options.fair_sharing;
  out.admission_fair_sharing = options.admission_fair_sharing;
  out.block_admission = options.wait_for_pods_ready.has_value() && options.wait_for_pods_ready->block_admission;
  return out;
}

}  // namespace muster::controller
