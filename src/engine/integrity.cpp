// The canonical hash of a state, and the recount of everything that is kept up to date step by step.
#include <algorithm>
#include <map>

#include "engine_impl.h"
#include "muster/core/check.h"
#include "muster/core/hash.h"

namespace muster::engine {

namespace {

using Hash = muster::StateHash;

void Add(Hash* hash, const std::optional<Amount>& amount) {
  hash->Add(static_cast<int64_t>(amount.has_value())).Add(amount.value_or(Amount{}).value);
}

void Add(Hash* hash, const LabelSelector& selector) {
  for (const auto& [key, value] : selector.match_labels) hash->Add(key).Add(value);
  for (const Requirement& requirement : selector.match_expressions) {
    hash->Add(requirement.key).Add(static_cast<int64_t>(requirement.op));
    for (const std::string& value : requirement.values) hash->Add(value);
  }
}

void Add(Hash* hash, const std::vector<ResourceGroup>& groups) {
  for (const ResourceGroup& group : groups) {
    for (const std::string& resource : group.covered_resources) hash->Add(resource);
    for (const FlavorQuotas& flavor : group.flavors) {
      hash->Add(flavor.flavor);
      for (const ResourceQuota& quota : flavor.resources) {
        hash->Add(quota.resource).Add(quota.nominal.value);
        Add(hash, quota.borrowing_limit);
        Add(hash, quota.lending_limit);
      }
    }
  }
}

void Add(Hash* hash, const ResourceFlavor& flavor) {
  hash->Add(flavor.name).Add(flavor.topology_name).Add(flavor.misconfigured);
  hash->Add(static_cast<int64_t>(flavor.autoscaled));
  for (const auto& [key, value] : flavor.node_labels) hash->Add(key).Add(value);
  for (const gang::Taint& taint : flavor.node_taints) hash->Add(taint.key).Add(taint.value).Add(taint.effect);
  for (const gang::Toleration& toleration : flavor.tolerations) {
    hash->Add(toleration.key).Add(toleration.op).Add(toleration.value).Add(toleration.effect);
    hash->Add(toleration.toleration_seconds);
  }
}

void Add(Hash* hash, const AdmissionCheck& check) {
  hash->Add(check.name).Add(check.controller_name).Add(static_cast<int64_t>(check.active));
}

void Add(Hash* hash, const ClusterQueue& queue) {
  hash->Add(queue.name).Add(queue.generation).Add(static_cast<int64_t>(queue.terminating)).Add(queue.cohort);
  Add(hash, queue.resource_groups);
  hash->Add(static_cast<int64_t>(queue.queueing_strategy));
  hash->Add(static_cast<int64_t>(queue.namespace_selector.has_value()));
  if (queue.namespace_selector.has_value()) Add(hash, *queue.namespace_selector);
  hash->Add(static_cast<int64_t>(queue.when_can_borrow)).Add(static_cast<int64_t>(queue.when_can_preempt));
  hash->Add(static_cast<int64_t>(queue.preference)).Add(static_cast<int64_t>(queue.reclaim_within_cohort));
  hash->Add(static_cast<int64_t>(queue.borrow_within_cohort.policy));
  hash->Add(static_cast<int64_t>(queue.borrow_within_cohort.max_priority_threshold.value_or(0)));
  hash->Add(static_cast<int64_t>(queue.within_cluster_queue)).Add(static_cast<int64_t>(queue.stop_policy));
  hash->Add(queue.fair_weight.nanos).Add(static_cast<int64_t>(queue.usage_based_admission)).Add(queue.misconfigured);
  for (const AdmissionCheckRule& check : queue.admission_checks) {
    hash->Add(check.name);
    for (const std::string& flavor : check.on_flavors) hash->Add(flavor);
  }
}

void Add(Hash* hash, const Admission& admission) {
  hash->Add(admission.cluster_queue);
  for (const PodSetAssignment& pod_set : admission.pod_sets) {
    hash->Add(pod_set.name).Add(static_cast<int64_t>(pod_set.count));
    for (const auto& [resource, flavor] : pod_set.flavors) hash->Add(resource).Add(flavor);
    for (const auto& [resource, amount] : pod_set.usage) hash->Add(resource).Add(amount.value);
    if (pod_set.topology.has_value()) gang::AddToHash(*pod_set.topology, hash);
  }
}

void Add(Hash* hash, const Room& room) {
  hash->Add(static_cast<int64_t>(room.borrow)).Add(room.until.unix_nanos);
  hash->Add(room.future.has_value() ? room.future->count : int64_t{-1});
  for (const auto& [fr, amount] : room.usage) hash->Add(amount.value);
}

void Add(Hash* hash, const Claim& claim) {
  hash->Add(static_cast<int64_t>(claim.id.epoch)).Add(static_cast<int64_t>(claim.id.sequence));
  hash->Add(static_cast<int64_t>(claim.state)).Add(claim.reserved_at.unix_nanos);
  hash->Add(static_cast<int64_t>(claim.eviction.has_value()));
  if (claim.eviction.has_value()) {
    const ClaimEviction& eviction = *claim.eviction;
    hash->Add(static_cast<int64_t>(eviction.reason)).Add(eviction.preemptor_uid).Add(eviction.not_before.unix_nanos);
    hash->Add(static_cast<int64_t>(eviction.issued));
  }
  hash->Add(static_cast<int64_t>(claim.pods_ready)).Add(static_cast<int64_t>(claim.irreplaceable));
  for (const std::string& host : claim.failed_hosts) hash->Add(host);
  hash->Add(static_cast<int64_t>(claim.withdrawn)).Add(static_cast<int64_t>(claim.admitted));
  if (claim.onward != nullptr) Add(hash, *claim.onward);
  Add(hash, claim.admission);
  if (claim.before_growth.has_value()) Add(hash, *claim.before_growth);
}

void Add(Hash* hash, const Workload& spec) {
  hash->Add(spec.uid).Add(spec.ns).Add(spec.name).Add(spec.local_queue).Add(spec.generation);
  hash->Add(static_cast<int64_t>(spec.priority)).Add(spec.priority_class).Add(spec.queue_time.unix_nanos);
  hash->Add(static_cast<int64_t>(spec.active)).Add(spec.gated_by).Add(spec.not_before.unix_nanos);
  hash->Add(static_cast<int64_t>(spec.movable))
      .Add(static_cast<int64_t>(spec.elastic))
      .Add(spec.growth_queue_time.unix_nanos);
  hash->Add(spec.max_execution.has_value() ? spec.max_execution->count() : int64_t{-1});
  for (const PodSet& pod_set : spec.pod_sets) {
    hash->Add(pod_set.name).Add(static_cast<int64_t>(pod_set.count));
    hash->Add(static_cast<int64_t>(pod_set.min_count.value_or(-1)));
    gang::AddToHash(*pod_set.shape, hash);
    gang::AddToHash(pod_set.topology, hash);
  }
  hash->Add(static_cast<int64_t>(spec.invalid.size()));
  for (const std::string& gate : spec.preemption_gates) hash->Add(gate);
  for (const FlavorTimeOuts& entry : spec.timed_out) {
    hash->Add(entry.pod_set).Add(entry.flavor).Add(static_cast<int64_t>(entry.count));
  }
}

void Add(Hash* hash, const WorkloadState& workload) {
  Add(hash, workload.spec);
  hash->Add(static_cast<int64_t>(workload.claim != nullptr));
  if (workload.claim != nullptr) {
    Add(hash, *workload.claim);
    if (workload.growth != nullptr) Add(hash, *workload.growth);
    return;
  }
  hash->Add(workload.waiting_in == nullptr ? std::string_view() : workload.waiting_in->name);
  hash->Add(static_cast<int64_t>(workload.ticket.place())).Add(workload.start_refused);
  hash->Add(workload.last_eviction.has_value() ? workload.last_eviction->preemptor_uid : "");
  hash->Add(static_cast<int64_t>(WasMoved(workload)));
  hash->Add(static_cast<int64_t>(workload.room_spent));
  if (workload.room != nullptr) Add(hash, *workload.room);
  for (const int16_t index : workload.scan.tried) hash->Add(static_cast<int64_t>(index));
  hash->Add(static_cast<int64_t>(workload.reason_hash));
}

}  // namespace

uint64_t EngineSet::Impl::StateHash() const {
  Hash hash;
  hash.Add(static_cast<int64_t>(options_.epoch)).Add(static_cast<int64_t>(sequence_)).Add(unwritten_claims_);
  std::map<std::string_view, const ResourceFlavor*> flavors;
  for (const auto& flavor : catalog_.flavors()) {
    if (flavor != nullptr) flavors.emplace(flavor->name, flavor.get());
  }
  for (const auto& [name, flavor] : flavors) Add(&hash, *flavor);
  std::map<std::string_view, const Labels*> namespaces;
  for (const auto& [name, labels] : catalog_.namespaces()) namespaces.emplace(name, &labels);
  for (const auto& [name, labels] : namespaces) {
    hash.Add(name);
    for (const auto& [key, value] : *labels) hash.Add(key).Add(value);
  }
  std::map<std::string_view, const AdmissionCheck*> checks;
  for (const auto& [name, check] : catalog_.checks()) checks.emplace(name, &check);
  for (const auto& [name, check] : checks) Add(&hash, *check);
  for (const auto& [name, topology] : catalog_.topologies()) {
    hash.Add(name);
    for (const std::string& level : topology.levels) hash.Add(level);
  }
  topologies_.AddToHash(&hash);
  machines_.AddToHash(&hash);
  namespace_quotas_.AddToHash(&hash);
  for (const auto& [name, cohort] : forest_.cohorts()) {
    hash.Add(name).Add(static_cast<int64_t>(cohort->exists)).Add(cohort->spec.parent);
    Add(&hash, cohort->spec.resource_groups);
    hash.Add(cohort->spec.fair_weight.nanos).Add(cohort->spec.misconfigured);
  }
  for (const auto& [name, queue] : forest_.queues()) {
    if (!queue->exists) continue;
    Add(&hash, queue->spec);
    hash.Add(queue->stall_ends.unix_nanos).Add(queue->recheck_at.unix_nanos).Add(queue->reserve_at.unix_nanos);
    hash.Add(static_cast<int64_t>(queue->tree->flush_requested && queue->waiting.HasParked()));
  }
  for (const auto& [key, queue] : local_queues_) {
    if (!queue->exists) continue;
    hash.Add(key.first).Add(key.second).Add(queue->spec.cluster_queue);
    hash.Add(static_cast<int64_t>(queue->spec.stop_policy)).Add(queue->spec.fair_weight.nanos);
    hash.Add(queue->spec.misconfigured);
    if (queue->consumption.tracked) {
      const ConsumedResources consumed = admission_shares_->ViewOf(*queue).resources;
      hash.Add(consumed.as_of.unix_nanos);
      for (const auto& [resource, amount] : consumed.amounts) hash.Add(resource).Add(amount.value);
    }
  }
  std::map<std::string_view, const WorkloadState*> workloads;
  for (const auto& [uid, workload] : workloads_) workloads.emplace(uid, workload.get());
  for (const auto& [uid, workload] : workloads) Add(&hash, *workload);
  return hash.value();
}

// ---- recount ------------------------------------------------------------------------------------

void EngineSet::Impl::ValidateWorkload(const WorkloadState& workload) const {
  const std::string& uid = workload.spec.uid;
  const LocalQueueState* local = workload.local_queue;
  MUSTER_CHECK_MSG(local != nullptr && local->ns == workload.spec.ns && local->name == workload.spec.local_queue, uid);
  MUSTER_CHECK_MSG(local->workloads[workload.local_queue_index] == &workload, uid);
  MUSTER_CHECK_MSG(workload.shapes.size() == workload.spec.pod_sets.size(), uid);
  const bool queued = workload.ticket.place() != queue::Place::kOut;
  MUSTER_CHECK_MSG(queued == (workload.waiting_in != nullptr), uid);
  if (const Claim* claim = workload.claim.get()) {
    MUSTER_CHECK_MSG(!queued && claim->state != ClaimState::kGone, uid);
    MUSTER_CHECK_MSG(claim->queue->holders[claim->queue_index] == &workload, uid);
    MUSTER_CHECK_MSG(claim->queue->name == claim->admission.cluster_queue, uid);
    for (const auto& [fr, amount] : claim->usage) MUSTER_CHECK_MSG(amount >= Amount{0}, uid);
    MUSTER_CHECK_MSG((options_.block_admission && IsWaitedFor(*claim)) == unready_.contains(&workload), uid);
    MUSTER_CHECK_MSG(workload.growth == nullptr || (!claim->leaving && !claim->before_growth.has_value()), uid);
    const bool timed =
        claim->lacking_since.IsSet() && options_.place_timeout > Duration(0) && LackingDue(*claim) > now_;
    MUSTER_CHECK_MSG(!timed || lacking_.contains(&workload), uid);
    return;
  }
  MUSTER_CHECK_MSG(workload.growth == nullptr, uid);
  const ClusterQueueState* target = local->cluster_queue;
  const bool elsewhere = workload.grows != nullptr && workload.grows->claim->queue != target;
  const bool may_queue = workload.spec.active && workload.spec.gated_by.empty() && local->exists &&
                         local->spec.stop_policy == StopPolicy::kNone && local->spec.misconfigured.empty() &&
                         target != nullptr && target->exists && !elsewhere;
  MUSTER_CHECK_MSG(queued == may_queue && (!queued || workload.waiting_in == target), uid);
}

void EngineSet::Impl::ValidateLocalQueue(const LocalQueueState& queue) const {
  MUSTER_CHECK_MSG(lanes_[queue.lane] == &queue, queue.name);
  if (admission_shares_.has_value()) admission_shares_->Validate(queue);
  MUSTER_CHECK_MSG(queue.exists || !queue.workloads.empty(), queue.name);
  int64_t reserving = 0;
  absl::flat_hash_map<FlavorResource, quota::ExactSum> usage;
  WaitCounts waiting;
  for (const WorkloadState* workload : queue.workloads) {
    MUSTER_CHECK_MSG(workload->counted == WaitsFor(*workload), workload->spec.uid);
    if (workload->counted.has_value()) {
      ++waiting.by_reason[static_cast<size_t>(workload->counted->first)];
      ++waiting.by_code[static_cast<size_t>(workload->counted->second)];
    }
    if (workload->claim == nullptr) continue;
    ++reserving;
    for (const auto& [fr, amount] : workload->claim->usage) usage[fr].Add(amount);
  }
  absl::erase_if(usage, [](const auto& entry) { return entry.second.IsZero(); });
  MUSTER_CHECK_MSG(reserving == queue.reserving && usage == queue.usage && waiting == queue.waiting, queue.name);
}

void EngineSet::Impl::ValidatePending(const ClusterQueueState& queue) const {
  absl::flat_hash_map<ResourceId, quota::ExactSum> pending;
  for (const queue::Ticket* ticket : queue.waiting.InOrder()) {
    const auto* workload = static_cast<const WorkloadState*>(ticket->owner);
    for (size_t i = 0; i < workload->shapes.size(); ++i) {
      const int32_t pods = workload->spec.pod_sets[i].count;
      for (const auto& [resource, amount] : workload->shapes[i]->requests) pending[resource].Add(amount * pods);
      pending[catalog_.pods()].Add(Amount{pods});
    }
  }
  absl::erase_if(pending, [](const auto& entry) { return entry.second.IsZero(); });
  MUSTER_CHECK_MSG(pending == queue.pending, queue.name);
}

void EngineSet::Impl::Validate() const {
  forest_.Validate();
  ValidatePlaces();
  for (const WorkloadState* workload : gives_way_) {
    MUSTER_CHECK_MSG(workload->waiting_in != nullptr && workload->ticket.place() != queue::Place::kOut,
                     workload->spec.uid);
  }
  machines_.Validate();
  ValidatePodsToCome();
  int64_t unwritten = 0;
  int64_t waiting = 0;
  int64_t holding = 0;
  for (const auto& [uid, workload] : workloads_) {
    MUSTER_CHECK_MSG(workload->spec.uid == uid, uid);
    ValidateWorkload(*workload);
    if (workload->waiting_in != nullptr) ++waiting;
    if (const WorkloadState* growth = workload->growth.get(); growth != nullptr) {
      MUSTER_CHECK_MSG(growth->grows == workload.get() && growth->claim == nullptr, uid);
      ValidateWorkload(*growth);
      if (growth->waiting_in != nullptr) ++waiting;
    }
    if (workload->claim == nullptr) continue;
    ++holding;
    if (workload->claim->state == ClaimState::kPlanned) ++unwritten;
    if (workload->claim->before_growth.has_value()) ++unwritten;
  }
  MUSTER_CHECK(unready_.size() <= static_cast<size_t>(holding) && sizes_due_.empty());
  for (const auto& [key, queue] : local_queues_) ValidateLocalQueue(*queue);
  for (const auto& [name, queue] : forest_.queues()) {
    ValidatePending(*queue);
    const queue::Counts counts = queue->waiting.counts();
    waiting -= counts.active + counts.inadmissible;
    holding -= static_cast<int64_t>(queue->holders.size());
    const int64_t lacking =
        std::count_if(queue->holders.begin(), queue->holders.end(),
                      [](const WorkloadState* holder) { return holder->claim->lacking_since.IsSet(); });
    MUSTER_CHECK_MSG(lacking == queue->lacking_places, name);
  }
  MUSTER_CHECK(unwritten == unwritten_claims_ && waiting == 0 && holding == 0);
}

}  // namespace muster::engine
