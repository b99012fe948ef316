#include "finished_workloads.h"

namespace muster::controller {

void FinishedWorkloads::Observe(const Workload& workload) {
  const k8s::ObjectKey key = workload.meta.key();
  Forget(key);
  if (!k8s::IsTrue(workload.status.conditions, "Finished")) return;
  const auto& admission = workload.status.admission;
  const Queues queues{admission.has_value() ? admission->cluster_queue : std::string(), workload.spec.queue_name};
  Count(key, queues, 1);
  finished_.emplace(key, queues);
}

void FinishedWorkloads::Forget(const k8s::ObjectKey& workload) {
  const auto it = finished_.find(workload);
  if (it == finished_.end()) return;
  Count(workload, it->second, -1);
  finished_.erase(it);
}

void FinishedWorkloads::Count(const k8s::ObjectKey& workload, const Queues& queues, int sign) {
  const auto add = [sign](auto* counts, const auto& key) {
    if (((*counts)[key] += sign) == 0) counts->erase(key);
  };
  if (!queues.cluster_queue.empty()) add(&counts_.by_cluster_queue, queues.cluster_queue);
  add(&counts_.by_local_queue, std::pair(workload.ns, queues.local_queue));
}

}  // namespace muster::controller
