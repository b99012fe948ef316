// Claims: who holds what, from the decision until the pods are gone.
#include <algorithm>

#include "engine_impl.h"
#include "muster/core/check.h"
#include "muster/engine/totals.h"

namespace muster::engine {

namespace {

bool IsUnwritten(const Claim& claim) { return claim.state == ClaimState::kPlanned; }

}  // namespace

// ---- events -------------------------------------------------------------------------------------

void EngineSet::Impl::Apply(const ClaimWritten& event) {
  WorkloadState* workload = FindHolder(event.uid, event.claim);
  if (workload == nullptr || workload->claim->state != ClaimState::kPlanned) return;
  SetClaimState(workload, ClaimState::kWritten);
}

void EngineSet::Impl::Apply(const ClaimRefused& event) {
  WorkloadState* workload = FindHolder(event.uid, event.claim);
  // Once something shows that it was applied, a refusal can only be of a repetition.
  if (workload == nullptr || workload->claim->state != ClaimState::kPlanned) return;
  DropClaim(workload);
  workload->spec.not_before = std::max(workload->spec.not_before, event.not_before);
  workload->start_refused = event.message;
  WakeAfter(*workload);
  Route(workload);
}

void EngineSet::Impl::Apply(const ClaimActive& event) {
  WorkloadState* workload = FindHolder(event.uid, event.claim);
  if (workload == nullptr || workload->claim->state > ClaimState::kActive) return;
  SetClaimState(workload, ClaimState::kActive);
}

void EngineSet::Impl::Apply(const ClaimLeaving& event) {
  WorkloadState* workload = FindHolder(event.uid, event.claim);
  if (workload == nullptr) return;
  SetClaimState(workload, ClaimState::kLeaving);
}

void EngineSet::Impl::Apply(const ClaimGone& event) {
  WorkloadState* workload = FindHolder(event.uid, event.claim);
  if (workload == nullptr) return;
  DropClaim(workload);
  WakeAfter(*workload);
  Route(workload);
}

// ---- taking and giving back ---------------------------------------------------------------------

std::vector<std::pair<FlavorResource, Amount>> EngineSet::Impl::UsageOf(const Workload& spec,
                                                                        const Admission& admission) {
  std::vector<std::pair<FlavorResource, Amount>> usage;
  for (const PodSetAssignment& assigned : admission.pod_sets) {
    const auto pod_set = std::find_if(spec.pod_sets.begin(), spec.pod_sets.end(),
                                      [&](const PodSet& candidate) { return candidate.name == assigned.name; });
    const int32_t needed = pod_set == spec.pod_sets.end() ? assigned.count : pod_set->count;
    for (const auto& [resource, amount] : StillHeld(assigned, needed).second) {
      const auto flavor = std::find_if(assigned.flavors.begin(), assigned.flavors.end(),
                                       [&resource = resource](const auto& entry) { return entry.first == resource; });
      if (flavor == assigned.flavors.end()) continue;
      const FlavorResource fr{catalog_.Flavor(flavor->second), catalog_.Resource(resource)};
      const auto known = std::find_if(usage.begin(), usage.end(), [&](const auto& entry) { return entry.first == fr; });
      if (known == usage.end()) {
        usage.emplace_back(fr, amount);
      } else {
        known->second += amount;
      }
    }
  }
  return usage;
}

Admission EngineSet::Impl::MakeAdmission(const WorkloadState& workload, const ClusterQueueState& queue,
                                         const Assignment& assignment) const {
  Admission admission;
  admission.cluster_queue = queue.name;
  for (size_t i = 0; i < assignment.pod_sets.size(); ++i) {
    const PodSetChoice& choice = assignment.pod_sets[i];
    PodSetAssignment assigned;
    assigned.name = workload.spec.pod_sets[i].name;
    assigned.count = choice.count;
    for (const ResourceChoice& resource : choice.resources) {
      const std::string& name = catalog_.ResourceName(resource.resource);
      assigned.flavors.emplace_back(name, catalog_.FlavorName(resource.flavor));
      assigned.usage.emplace_back(name, resource.amount);
    }
    std::sort(assigned.flavors.begin(), assigned.flavors.end());
    std::sort(assigned.usage.begin(), assigned.usage.end());
    admission.pod_sets.push_back(std::move(assigned));
  }
  return admission;
}

bool EngineSet::Impl::MayAdopt(const WorkloadState& workload, const Workload& spec) {
  return workload.claim == nullptr && spec.held.has_value() && spec.held->id != workload.last_gone;
}

void EngineSet::Impl::AdoptHeld(WorkloadState* workload, const HeldClaim& held) {
  MUSTER_CHECK_MSG(held.id.IsSet(), workload->spec.uid);
  if (workload->waiting_in != nullptr) Unqueue(workload);
  workload->claim = std::make_unique<Claim>();
  workload->claim->id = held.id;
  workload->claim->state = held.state;
  workload->claim->admission = held.admission;
  workload->claim->reserved_at = held.reserved_at;
  workload->claim->usage = UsageOf(workload->spec, workload->claim->admission);
  forest_.Attach(workload, forest_.Queue(held.admission.cluster_queue));
  CountInLocalQueue(workload, 1);
  SetReason(workload, nullptr);
  workload->reported_hash = 0;
  CheckEviction(workload);
}

void EngineSet::Impl::DropClaim(WorkloadState* workload) {
  if (IsUnwritten(*workload->claim)) --unwritten_claims_;
  evictions_due_.erase(workload);
  CountInLocalQueue(workload, -1);
  Tree* tree = workload->claim->queue->tree;
  forest_.Detach(workload);
  if (tree != nullptr) forest_.RequestFlush(tree);
  workload->last_gone = workload->claim->id;
  workload->claim.reset();
}

void EngineSet::Impl::UpdateClaimUsage(WorkloadState* workload) {
  std::vector<std::pair<FlavorResource, Amount>> usage = UsageOf(workload->spec, workload->claim->admission);
  if (usage == workload->claim->usage) return;
  CountInLocalQueue(workload, -1);
  forest_.ChangeUsage(workload, std::move(usage));
  CountInLocalQueue(workload, 1);
  WakeAfter(*workload);
}

void EngineSet::Impl::SetClaimState(WorkloadState* workload, ClaimState state) {
  Claim* claim = workload->claim.get();
  if (claim->state == state) return;
  if (IsUnwritten(*claim)) --unwritten_claims_;
  claim->state = state;
  MUSTER_CHECK(!IsUnwritten(*claim));
  forest_.MarkChanged(claim->queue);
  MarkChanged(*workload->local_queue);
  CheckEviction(workload);
}

// ---- evictions by policy ------------------------------------------------------------------------

std::optional<EvictionReason> EngineSet::Impl::EvictionDue(const WorkloadState& workload) const {
  const Claim* claim = workload.claim.get();
  // A start whose write has no answer yet is evicted when it has one.
  if (claim == nullptr || claim->eviction_issued) return std::nullopt;
  if (claim->state != ClaimState::kWritten && claim->state != ClaimState::kActive) return std::nullopt;
  if (!workload.spec.active) return EvictionReason::kDeactivated;
  if (claim->queue->exists && claim->queue->spec.stop_policy == StopPolicy::kHoldAndDrain) {
    return EvictionReason::kClusterQueueStopped;
  }
  const LocalQueueState* local = workload.local_queue;
  if (local->exists && local->spec.stop_policy == StopPolicy::kHoldAndDrain) return EvictionReason::kLocalQueueStopped;
  return std::nullopt;
}

void EngineSet::Impl::CheckEviction(WorkloadState* workload) {
  if (EvictionDue(*workload).has_value()) evictions_due_.insert(workload);
}

void EngineSet::Impl::CheckEvictions(ClusterQueueState* queue) {
  if (queue->spec.stop_policy != StopPolicy::kHoldAndDrain) return;
  for (WorkloadState* holder : queue->holders) CheckEviction(holder);
}

void EngineSet::Impl::CheckEvictions(LocalQueueState* queue) {
  if (queue->spec.stop_policy != StopPolicy::kHoldAndDrain) return;
  for (WorkloadState* workload : queue->workloads) CheckEviction(workload);
}

}  // namespace muster::engine
