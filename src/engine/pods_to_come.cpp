// What ResourceQuotas are to count of gangs that are admitted, and who is woken by them.
#include <algorithm>
#include <utility>

#include "engine_impl.h"
#include "muster/core/check.h"
#include "muster/engine/totals.h"

namespace muster::engine {

void EngineSet::Impl::Apply(const PodsCounted& event) {
  namespace_quotas_.SetCounted(event.uid, event.pod_set, event.pods);
  WorkloadState* workload = FindWorkload(event.uid);
  if (workload != nullptr && workload->claim != nullptr) FollowPodsToCome(workload);
}

// What is being stopped makes no pods any more.
PodsToCome EngineSet::Impl::PodsToComeOf(const WorkloadState& workload) const {
  PodsToCome to_come{workload.spec.ns, {}};
  if (workload.claim->state >= ClaimState::kLeaving) return to_come;
  for (const PodSetAssignment& assigned : workload.claim->admission.pod_sets) {
    const auto pod_set = std::find_if(workload.spec.pod_sets.begin(), workload.spec.pod_sets.end(),
                                      [&](const PodSet& candidate) { return candidate.name == assigned.name; });
    if (pod_set == workload.spec.pod_sets.end()) continue;
    const int64_t needed = StillHeld(assigned, pod_set->count).first;
    to_come.Add(*pod_set, needed - namespace_quotas_.Counted(workload.spec.uid, assigned.name));
  }
  return to_come;
}

void EngineSet::Impl::FollowPodsToCome(WorkloadState* workload) {
  PodsToCome now = PodsToComeOf(*workload);
  namespace_quotas_.Plan(workload->claim->to_come, now);
  workload->claim->to_come = std::move(now);
}

void EngineSet::Impl::WakeByNamespaceQuotas() {
  for (const std::string& ns : namespace_quotas_.TakeEased()) {
    for (auto it = local_queues_.lower_bound({ns, ""}); it != local_queues_.end() && it->first.first == ns; ++it) {
      const ClusterQueueState* queue = it->second->cluster_queue;
      if (queue != nullptr && queue->tree != nullptr) forest_.RequestFlush(queue->tree);
    }
  }
}

void EngineSet::Impl::ValidatePodsToCome() const {
  std::vector<PodsToCome> planned;
  for (const auto& [uid, workload] : workloads_) {
    for (const WorkloadState* waits : {workload.get(), workload->growth.get()}) {
      if (waits != nullptr && waits->room != nullptr) planned.push_back(waits->room->to_come);
    }
    if (workload->claim == nullptr) continue;
    planned.push_back(PodsToComeOf(*workload));
    if (workload->claim->onward != nullptr) planned.push_back(workload->claim->onward->to_come);
  }
  namespace_quotas_.Validate(planned);
}

}  // namespace muster::engine
