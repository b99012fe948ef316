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

void EngineSet::Impl::Apply(const ClaimAdmitted& event) {
  WorkloadState* workload = FindHolder(event.uid, event.claim);
  if (workload == nullptr || workload->claim->state > ClaimState::kActive) return;
  NoteAdmitted(workload);
  if (workload->claim->state == ClaimState::kPlanned) SetClaimState(workload, ClaimState::kWritten);
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
  NoteAdmitted(workload);
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
  const ClusterQueueState* left = workload->claim->queue;
  std::unique_ptr<Room> onward = forest_.TakeOnward(workload);
  DropClaim(workload);
  WakeAfter(*workload);
  Route(workload);
  if (onward == nullptr || workload->waiting_in == nullptr || workload->waiting_in != left) return;
  if (!workload->waiting_in->active) return;
  onward->until = now_ + options_.keep_room_for;
  // Its former pods may be counted yet.
  const std::vector<PodSet>& pod_sets = workload->spec.pod_sets;
  for (size_t i = 0; i < std::min(pod_sets.size(), onward->chosen->pod_sets.size()); ++i) {
    const int64_t counted = namespace_quotas_.Counted(workload->spec.uid, pod_sets[i].name);
    onward->to_come.Add(pod_sets[i], onward->chosen->pod_sets[i].count - counted);
  }
  forest_.KeepRoom(workload, std::move(*onward));
}

void EngineSet::Impl::Apply(const EvictionRefused& event) {
  WorkloadState* workload = FindHolder(event.uid, event.claim);
  if (workload == nullptr || workload->claim->state == ClaimState::kLeaving) return;
  std::optional<ClaimEviction>& eviction = workload->claim->eviction;
  if (!eviction.has_value() || !eviction->issued) return;
  eviction->issued = false;
  eviction->not_before = event.not_before;
  evictions_due_.insert(workload);
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
    assigned.topology = choice.topology;
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
  workload->claim =
      std::make_unique<Claim>(machines_.Adopt(workload->spec.uid, machine_placer_.PodsOf(*workload, held.admission)));
  workload->claim->id = held.id;
  workload->claim->state = held.state;
  workload->claim->admission = held.admission;
  workload->claim->reserved_at = held.reserved_at;
  if (held.evicted.has_value()) {
    workload->claim->eviction = ClaimEviction{*held.evicted, held.evicted_at, held.preemptor_uid, "", 0, true, {}, {}};
  }
  workload->claim->pods_ready = held.pods_ready;
  workload->claim->admitted = held.admitted || held.state == ClaimState::kActive;
  workload->claim->usage = UsageOf(workload->spec, workload->claim->admission);
  if (workload->claim->eviction.has_value()) ListVictim(workload, true);
  ClusterQueueState* queue = forest_.Queue(held.admission.cluster_queue);
  forest_.Attach(workload, queue);
  forest_.SetPlaces(workload, placer_.PlacesOf(*workload, held.admission));
  FollowPodsToCome(workload);
  if (held.evicted.has_value()) NotePromise(held.preemptor_uid, held.evicted_at);
  CountInLocalQueue(workload, 1);
  if (workload->local_queue->consumption.tracked) admission_shares_->Follow(workload->local_queue, now_);
  CheckPodsReady(workload);
  SetReason(workload, nullptr);
  workload->reported_hash = 0;
  CheckEviction(workload);
  NoteSize(workload);
}

void EngineSet::Impl::DropClaim(WorkloadState* workload) {
  RemoveGrowth(workload);
  if (IsUnwritten(*workload->claim)) {
    --unwritten_claims_;
  } else {
    promises_.erase(workload->spec.uid);
  }
  if (workload->claim->before_growth.has_value()) --unwritten_claims_;
  forest_.TakeOnward(workload);
  evictions_due_.erase(workload);
  replacements_due_.erase(workload);
  SetLackingSince(workload, {});
  if (workload->claim->eviction.has_value()) ListVictim(workload, false);
  CountInLocalQueue(workload, -1);
  if (admission_shares_.has_value()) admission_shares_->Leave(workload);
  const std::vector<gang::PlacedPodSet> places = workload->claim->places;
  forest_.SetPlaces(workload, {});
  GainedPlaces(places);
  namespace_quotas_.Plan(workload->claim->to_come, {workload->spec.ns, {}});
  Tree* tree = workload->claim->queue->tree;
  if (const std::optional<ClaimEviction>& eviction = workload->claim->eviction; eviction.has_value()) {
    const bool moved = eviction->reason == EvictionReason::kDefragmentation;
    workload->last_eviction = PastEviction{eviction->at, eviction->preemptor_uid, moved};
    if (moved) NotePromise(workload->spec.uid, now_);
  }
  forest_.Detach(workload);
  if (tree != nullptr) forest_.RequestFlush(tree);
  workload->last_gone = workload->claim->id;
  workload->claim.reset();
  ShareChanged(workload->local_queue);
  CheckPodsReady(workload);
}

void EngineSet::Impl::UpdateClaimUsage(WorkloadState* workload) {
  NoteNeededPods(workload);
  if (UsageOf(workload->spec, workload->claim->admission) == workload->claim->usage) return;
  Rebook(workload);
  if (Tree* tree = workload->claim->queue->tree; tree != nullptr) forest_.Gained(tree);
  WakeAfter(*workload);
}

void EngineSet::Impl::Rebook(WorkloadState* workload) {
  CountInLocalQueue(workload, -1);
  forest_.ChangeUsage(workload, UsageOf(workload->spec, workload->claim->admission));
  CountInLocalQueue(workload, 1);
}

void EngineSet::Impl::NoteAdmitted(WorkloadState* workload) {
  if (std::exchange(workload->claim->admitted, true)) return;
  forest_.MarkChanged(workload->claim->queue);
  MarkChanged(*workload->local_queue);
  CheckEviction(workload);
  NoteSize(workload);
}

void EngineSet::Impl::SetClaimState(WorkloadState* workload, ClaimState state) {
  Claim* claim = workload->claim.get();
  if (claim->state == state) return;
  if (IsUnwritten(*claim)) {
    --unwritten_claims_;
    if (admission_shares_.has_value()) admission_shares_->Settle(workload);
    workload->last_eviction.reset();
    promises_.erase(workload->spec.uid);
    // From now on it may be moved.
    if (workload->spec.movable && options_.defragment_after > Duration::zero()) WakeAfter(*workload);
  }
  claim->state = state;
  MUSTER_CHECK(!IsUnwritten(*claim));
  if (state == ClaimState::kLeaving) {
    evictions_due_.erase(workload);
    if (claim->eviction.has_value()) claim->eviction->issued = true;
    NoteLeaving(workload);
    FollowPodsToCome(workload);
  }
  CheckPodsReady(workload);
  forest_.MarkChanged(claim->queue);
  MarkChanged(*workload->local_queue);
  CheckEviction(workload);
  NoteSize(workload);
}

// ---- evictions by policy ------------------------------------------------------------------------

std::optional<EvictionReason> EngineSet::Impl::EvictionByPolicy(const WorkloadState& workload) const {
  const ClusterQueueState* queue = workload.claim->queue;
  if (!workload.spec.active) return EvictionReason::kDeactivated;
  if (workload.claim->irreplaceable) return EvictionReason::kNodeFailures;
  // What has been leaving for another reason is not looked at for places: they are sought anew if it stays.
  const std::optional<ClaimEviction>& current = workload.claim->eviction;
  const bool followed = !current.has_value() || current->reason == EvictionReason::kNodeFailures;
  const bool lacks = followed && workload.claim->lacking_since.IsSet() && options_.place_timeout > Duration(0);
  if (lacks && LackingDue(*workload.claim) <= now_) return EvictionReason::kNodeFailures;
  if (!workload.claim->admitted) return std::nullopt;  // withdrawn, where it may not stay
  if (queue->exists && queue->spec.stop_policy == StopPolicy::kHoldAndDrain) {
    return EvictionReason::kClusterQueueStopped;
  }
  const LocalQueueState* local = workload.local_queue;
  if (local->exists && local->spec.stop_policy == StopPolicy::kHoldAndDrain) return EvictionReason::kLocalQueueStopped;
  return std::nullopt;
}

std::optional<ClaimEviction> EngineSet::Impl::EvictionDue(const WorkloadState& workload) const {
  const Claim* claim = workload.claim.get();
  // A start whose write has no answer yet is evicted when it has one; as is what grows.
  if (claim == nullptr || claim->before_growth.has_value() ||
      (claim->state != ClaimState::kWritten && claim->state != ClaimState::kActive)) {
    return std::nullopt;
  }
  if (claim->eviction.has_value()) {
    if (claim->eviction->issued) return std::nullopt;
    const WorkloadState* preemptor = FindPreemptor(claim->eviction->preemptor_uid);
    if (preemptor != nullptr && preemptor->waiting_in != nullptr) return claim->eviction;
  }
  const std::optional<EvictionReason> reason = EvictionByPolicy(workload);
  if (!reason.has_value()) return std::nullopt;
  ClaimEviction eviction;
  eviction.reason = *reason;
  eviction.at = now_;
  if (*reason == EvictionReason::kNodeFailures) {
    eviction.nodes.assign(claim->failed_hosts.begin(), claim->failed_hosts.end());
  }
  return eviction;
}

void EngineSet::Impl::ListVictim(WorkloadState* workload, bool add) {
  const std::string& preemptor = workload->claim->eviction->preemptor_uid;
  if (preemptor.empty()) return;
  auto& victims = victims_of_[preemptor];
  if (add) {
    victims.insert(workload);
  } else {
    victims.erase(workload);
  }
  if (victims.empty()) victims_of_.erase(preemptor);
}

void EngineSet::Impl::SetEviction(WorkloadState* workload, std::optional<ClaimEviction> eviction) {
  std::optional<ClaimEviction>& current = workload->claim->eviction;
  evictions_due_.erase(workload);
  if (current.has_value()) ListVictim(workload, false);
  current = std::move(eviction);
  if (current.has_value()) ListVictim(workload, true);
  if (!current.has_value() || current->reason != EvictionReason::kDefragmentation) forest_.TakeOnward(workload);
  NoteLeaving(workload);
}

// The room of those that leave is planned with: others may be able to do with it.
void EngineSet::Impl::NoteLeaving(WorkloadState* workload) {
  Tree* tree = workload->claim->queue->tree;
  const bool changed = forest_.UpdateLeaving(workload);
  if (changed) NoteSize(workload);
  if (changed && !workload->claim->leaving) {
    // Places may have been lost meanwhile.
    lacking_unsure_.insert(workload->spec.uid);
    if (!workload->claim->failed_hosts.empty()) replacements_due_.insert(workload);
  }
  if (!changed || tree == nullptr) return;
  tree->flush_when_idle = true;
  forest_.active_trees().insert(tree);
}

std::vector<const WorkloadState*> EngineSet::Impl::VictimsOf(const WorkloadState& preemptor) const {
  const auto victims = victims_of_.find(preemptor.spec.uid);
  if (victims == victims_of_.end()) return {};
  return {victims->second.begin(), victims->second.end()};
}

// Source: kueue_semantics 7.4.
std::optional<Reason> EngineSet::Impl::WithdrawalDue(const WorkloadState& workload) const {
  const Claim* claim = workload.claim.get();
  if (claim == nullptr || claim->eviction.has_value() || claim->withdrawn || claim->admitted ||
      claim->state != ClaimState::kWritten || !workload.spec.active) {
    return std::nullopt;
  }
  const ClusterQueueState* holder = claim->queue;
  const LocalQueueState* local = workload.local_queue;
  const bool stays = holder->exists && !holder->spec.terminating && holder->spec.stop_policy == StopPolicy::kNone &&
                     local->exists && local->spec.stop_policy == StopPolicy::kNone;
  if (stays) return std::nullopt;
  std::shared_ptr<const Reason> why;
  const ClusterQueueState* target = WaitingPlace(workload, &why);
  if (target != nullptr) why = target->inactive_reason;
  return why == nullptr ? Reason{} : *why;
}

void EngineSet::Impl::CheckEviction(WorkloadState* workload) {
  const Claim* claim = workload->claim.get();
  if (claim == nullptr || claim->state == ClaimState::kPlanned || claim->state == ClaimState::kLeaving) return;
  if (claim->before_growth.has_value()) return;
  if (EvictionDue(*workload).has_value() || (claim->eviction.has_value() && !claim->eviction->issued) ||
      WithdrawalDue(*workload).has_value()) {
    evictions_due_.insert(workload);
  }
}

void EngineSet::Impl::CheckEvictions(ClusterQueueState* queue) {
  if (queue->exists && !queue->spec.terminating && queue->spec.stop_policy == StopPolicy::kNone) return;
  for (WorkloadState* holder : queue->holders) CheckEviction(holder);
}

void EngineSet::Impl::CheckEvictions(LocalQueueState* queue) {
  if (queue->exists && queue->spec.stop_policy == StopPolicy::kNone) return;
  for (WorkloadState* workload : queue->workloads) CheckEviction(workload);
}

}  // namespace muster::engine
