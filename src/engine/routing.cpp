// Events on objects, and where each workload waits because of them.
#include <algorithm>
#include <utility>

#include "engine_impl.h"
#include "muster/core/check.h"
#include "muster/core/hash.h"
#include "obstacles.h"

namespace muster::engine {

namespace {

std::shared_ptr<const Reason> OneObstacle(ReasonCode code, ObstacleKind kind, std::string object) {
  return MakeReason(code, {ObjectObstacle(kind, std::move(object))});
}

// Reasons that come from where a workload is, not from an attempt to admit it.
bool IsOfPlace(const Reason& reason) {
  if (reason.code == ReasonCode::kDeactivated) return true;
  if (reason.obstacles.empty()) return false;
  switch (reason.obstacles.front().kind) {
    case ObstacleKind::kAdmissionGated:
    case ObstacleKind::kLocalQueueMissing:
    case ObstacleKind::kLocalQueueStopped:
    case ObstacleKind::kLocalQueueMisconfigured:
    case ObstacleKind::kClusterQueueMissing:
    case ObstacleKind::kClusterQueueInactive:
    case ObstacleKind::kOriginalQueue:
    case ObstacleKind::kStartRefused:
    case ObstacleKind::kBackingOff:
    case ObstacleKind::kBehindStrictHead:
    case ObstacleKind::kGivesWay:
      return true;
    case ObstacleKind::kNamespaceMismatch:
    case ObstacleKind::kResourceNotCovered:
    case ObstacleKind::kFlavorNotFound:
    case ObstacleKind::kUntoleratedTaint:
    case ObstacleKind::kNodeSelectorMismatch:
    case ObstacleKind::kNodeAffinityMismatch:
    case ObstacleKind::kExceedsMaximum:
    case ObstacleKind::kInsufficientUnused:
    case ObstacleKind::kNoRoom:
    case ObstacleKind::kPreemptionGated:
    case ObstacleKind::kPendingPreemption:
    case ObstacleKind::kDeferredFit:
    case ObstacleKind::kOverlappingTargets:
    case ObstacleKind::kVictimSearchEnded:
    case ObstacleKind::kFlavorOnlyTopology:
    case ObstacleKind::kFlavorWithoutTopology:
    case ObstacleKind::kTopologyLevelMissing:
    case ObstacleKind::kNoPlacement:
    case ObstacleKind::kLostToAnother:
    case ObstacleKind::kRequestsExceedLimits:
    case ObstacleKind::kLimitRange:
    case ObstacleKind::kRuntimeClassMissing:
    case ObstacleKind::kOriginalFlavor:
    case ObstacleKind::kFlavorTimedOut:
    case ObstacleKind::kPodsNotReady:
    case ObstacleKind::kResourceQuota:
    case ObstacleKind::kResourceQuotaUnset:
    case ObstacleKind::kChecksPending:
      return false;
  }
  return false;
}

bool SamePodSets(const Workload& a, const Workload& b) {
  return std::equal(a.pod_sets.begin(), a.pod_sets.end(), b.pod_sets.begin(), b.pod_sets.end(),
                    [](const PodSet& x, const PodSet& y) {
                      return x.name == y.name && x.count == y.count && x.min_count == y.min_count &&
                             x.topology == y.topology && (x.shape == y.shape || *x.shape == *y.shape);
                    });
}

bool MayQueue(const Workload& workload) { return workload.active && workload.gated_by.empty(); }

bool AsksForMore(const Workload& before, const Workload& now) {
  if (before.pod_sets.size() != now.pod_sets.size()) return true;
  for (size_t i = 0; i < now.pod_sets.size(); ++i) {
    const PodSet& a = before.pod_sets[i];
    const PodSet& b = now.pod_sets[i];
    if (a.name != b.name || a.count < b.count || *a.shape != *b.shape || a.topology != b.topology) return true;
  }
  return false;
}

// `by_time`: for how long it may run makes a difference.
uint64_t EquivalenceOf(const WorkloadState& workload, bool by_time) {
  muster::StateHash hash;
  hash.Add(static_cast<int64_t>(workload.spec.priority));
  for (size_t i = 0; i < workload.spec.pod_sets.size(); ++i) {
    const PodSet& pod_set = workload.spec.pod_sets[i];
    hash.Add(pod_set.name).Add(static_cast<int64_t>(workload.shapes[i]->hash));
    hash.Add(static_cast<int64_t>(pod_set.count)).Add(static_cast<int64_t>(pod_set.min_count.value_or(-1)));
    gang::AddToHash(pod_set.topology, &hash);
    // What ResourceQuotas refuse in one namespace they let in in another.
    if (pod_set.shape->charge.has_value()) hash.Add(workload.spec.ns);
  }
  hash.Add(static_cast<int64_t>(workload.spec.invalid.size()));
  for (const std::string& gate : workload.spec.preemption_gates) hash.Add(gate);
  for (const FlavorTimeOuts& entry : workload.spec.timed_out) {
    hash.Add(entry.pod_set).Add(entry.flavor).Add(static_cast<int64_t>(entry.count));
  }
  if (by_time) hash.Add(workload.spec.max_execution.value_or(Duration::max()).count());
  // It is bound to flavors of its own, and never evicts itself.
  if (workload.grows != nullptr) hash.Add(workload.spec.uid);
  return hash.value();
}

}  // namespace

// ---- flavors, cohorts, namespaces -----------------------------------------------------------------

void EngineSet::Impl::Apply(const FlavorChanged& event) {
  if (!catalog_.SetFlavor(event.flavor)) return;
  UpdateTopologyOf(event.flavor.name);
  machines_.SetFlavor(event.flavor.name, {event.flavor.node_labels, event.flavor.tolerations, event.flavor.autoscaled,
                                          event.flavor.node_taints});
  forest_.FlavorChanged(catalog_.Flavor(event.flavor.name));
}

void EngineSet::Impl::Apply(const FlavorDeleted& event) {
  if (!catalog_.RemoveFlavor(event.name)) return;
  UpdateTopologyOf(event.name);
  machines_.RemoveFlavor(event.name);
  ForgetFitFailures(event.name);
  forest_.FlavorChanged(catalog_.Flavor(event.name));
}

void EngineSet::Impl::Apply(const CohortChanged& event) {
  ++quota_version_;
  forest_.SetCohort(event.cohort);
}

void EngineSet::Impl::Apply(const CohortDeleted& event) {
  ++quota_version_;
  forest_.RemoveCohort(event.name);
}

void EngineSet::Impl::Apply(const AdmissionCheckChanged& event) {
  if (catalog_.SetCheck(event.check)) forest_.CheckChanged(event.check.name);
}

void EngineSet::Impl::Apply(const AdmissionCheckDeleted& event) {
  if (catalog_.RemoveCheck(event.name)) forest_.CheckChanged(event.name);
}

void EngineSet::Impl::Apply(const NamespaceChanged& event) {
  if (!catalog_.SetNamespace(event.ns)) return;
  for (ClusterQueueState* queue : forest_.selective_queues()) {
    if (queue->waiting.HasParked() && NamespaceMatches(*queue, event.ns.name)) forest_.RequestFlush(queue->tree);
    TellStrangers(queue);
  }
}

void EngineSet::Impl::Apply(const NamespaceDeleted& event) { catalog_.RemoveNamespace(event.name); }

// ---- ClusterQueues ------------------------------------------------------------------------------

void EngineSet::Impl::Apply(const ClusterQueueChanged& event) {
  ClusterQueueState* queue = forest_.Queue(event.queue.name);
  const bool is_new = !queue->exists;
  ++quota_version_;
  const bool selects_anew = is_new || queue->spec.namespace_selector != event.queue.namespace_selector;
  forest_.SetQueue(event.queue);
  if (selects_anew) TellStrangers(queue);
  for (LocalQueueState* local : queue->local_queues) {
    MarkChanged(*local);  // its flavors are those of the ClusterQueue
    UpdateTracking(local);
    if (is_new) RouteAll(local);
  }
  CheckEvictions(queue);
}

void EngineSet::Impl::Apply(const ClusterQueueDeleted& event) {
  ClusterQueueState* queue = forest_.FindQueue(event.name);
  if (queue == nullptr || !queue->exists) return;
  ++quota_version_;
  for (queue::Ticket* ticket : queue->waiting.InOrder()) Unqueue(OfTicket(ticket));
  forest_.RemoveQueue(queue);
  for (LocalQueueState* local : queue->local_queues) {
    MarkChanged(*local);
    UpdateTracking(local);
    RouteAll(local);
  }
  CheckEvictions(queue);
  forest_.DropIfUnused(queue);
}

// ---- LocalQueues --------------------------------------------------------------------------------

LocalQueueState* EngineSet::Impl::GetLocalQueue(const std::string& ns, const std::string& name) {
  std::unique_ptr<LocalQueueState>& slot = local_queues_[{ns, name}];
  if (slot == nullptr) {
    slot = std::make_unique<LocalQueueState>();
    slot->ns = ns;
    slot->name = name;
    if (free_lanes_.empty()) {
      slot->lane = static_cast<uint32_t>(lanes_.size());
      lanes_.push_back(slot.get());
    } else {
      slot->lane = free_lanes_.back();
      free_lanes_.pop_back();
      lanes_[slot->lane] = slot.get();
    }
  }
  return slot.get();
}

LocalQueueState* EngineSet::Impl::FindLocalQueue(const std::string& ns, const std::string& name) const {
  const auto it = local_queues_.find({ns, name});
  return it == local_queues_.end() ? nullptr : it->second.get();
}

void EngineSet::Impl::DropIfUnused(LocalQueueState* queue) {
  if (queue->exists || !queue->workloads.empty()) return;
  MUSTER_CHECK(queue->cluster_queue == nullptr);
  if (queue->changed) {
    std::erase(changed_local_queues_, queue);
    changed_local_queues_gone_.emplace_back(queue->ns, queue->name);
  }
  lanes_[queue->lane] = nullptr;
  free_lanes_.push_back(queue->lane);
  local_queues_.erase({queue->ns, queue->name});
}

void EngineSet::Impl::PointTo(LocalQueueState* queue, std::string_view cluster_queue) {
  ClusterQueueState* old = queue->cluster_queue;
  ClusterQueueState* target = cluster_queue.empty() ? nullptr : forest_.Queue(cluster_queue);
  if (old == target) return;
  if (old != nullptr) {
    old->waiting.SetLaneShare(queue->lane, {});
    old->local_queues.back()->cluster_queue_index = queue->cluster_queue_index;
    std::swap(old->local_queues[queue->cluster_queue_index], old->local_queues.back());
    old->local_queues.pop_back();
  }
  queue->cluster_queue = target;
  if (target != nullptr) {
    queue->cluster_queue_index = target->local_queues.size();
    target->local_queues.push_back(queue);
  }
}

void EngineSet::Impl::Apply(const LocalQueueChanged& event) {
  LocalQueueState* queue = GetLocalQueue(event.queue.ns, event.queue.name);
  // What it has consumed changes with each own write of its status.
  queue->spec.consumed = event.queue.consumed;
  if (queue->exists && queue->spec == event.queue) return;
  ClusterQueueState* old = queue->cluster_queue;
  queue->exists = true;
  queue->spec = event.queue;
  PointTo(queue, event.queue.cluster_queue);
  UpdateTracking(queue);
  MarkChanged(*queue);
  RouteAll(queue);
  CheckEvictions(queue);
  if (old == nullptr || old == queue->cluster_queue) return;
  if (queue->cluster_queue != nullptr && queue->cluster_queue->tree != nullptr) {
    forest_.RequestFlush(queue->cluster_queue->tree);
  }
  forest_.DropIfUnused(old);
}

void EngineSet::Impl::Apply(const LocalQueueDeleted& event) {
  LocalQueueState* queue = FindLocalQueue(event.ns, event.name);
  if (queue == nullptr || !queue->exists) return;
  queue->exists = false;
  queue->spec = LocalQueue{};
  UpdateTracking(queue);
  MarkChanged(*queue);
  RouteAll(queue);
  CheckEvictions(queue);
  ClusterQueueState* old = queue->cluster_queue;
  PointTo(queue, "");
  if (old != nullptr) forest_.DropIfUnused(old);
  DropIfUnused(queue);
}

void EngineSet::Impl::MarkChanged(const LocalQueueState& queue) {
  if (!std::exchange(queue.changed, true)) changed_local_queues_.push_back(&queue);
}

void EngineSet::Impl::Join(WorkloadState* workload, LocalQueueState* queue) {
  workload->local_queue = queue;
  workload->local_queue_index = queue->workloads.size();
  queue->workloads.push_back(workload);
  if (workload->claim != nullptr) CountInLocalQueue(workload, 1);
  CountWaiting(workload);
}

void EngineSet::Impl::Leave(WorkloadState* workload) {
  LocalQueueState* queue = workload->local_queue;
  if (workload->claim != nullptr) {
    CountInLocalQueue(workload, -1);
    if (admission_shares_.has_value()) admission_shares_->Leave(workload);
    ShareChanged(queue);
  }
  SetCounted(workload, std::nullopt);
  queue->workloads.back()->local_queue_index = workload->local_queue_index;
  std::swap(queue->workloads[workload->local_queue_index], queue->workloads.back());
  queue->workloads.pop_back();
  workload->local_queue = nullptr;
  MarkChanged(*queue);
  DropIfUnused(queue);
}

void EngineSet::Impl::CountInLocalQueue(WorkloadState* workload, int sign) {
  LocalQueueState* queue = workload->local_queue;
  queue->reserving += sign;
  for (const auto& [fr, amount] : workload->claim->usage) {
    quota::ExactSum& sum = queue->usage[fr];
    if (sign > 0) {
      sum.Add(amount);
    } else {
      sum.Remove(amount);
    }
    if (sum.IsZero()) queue->usage.erase(fr);
  }
  MarkChanged(*queue);
}

std::optional<std::pair<ReasonCode, WaitCode>> EngineSet::Impl::WaitsFor(const WorkloadState& workload) {
  if (workload.claim != nullptr || !workload.spec.active) return std::nullopt;
  if (workload.reason == nullptr) return std::pair(ReasonCode::kPendingEvaluation, WaitCode::kPendingEvaluation);
  return std::pair(workload.reason->code, WaitCodeOf(*workload.reason));
}

void EngineSet::Impl::CountWaiting(WorkloadState* workload) { SetCounted(workload, WaitsFor(*workload)); }

void EngineSet::Impl::SetCounted(WorkloadState* workload, std::optional<std::pair<ReasonCode, WaitCode>> counted) {
  if (workload->counted == counted) return;
  WaitCounts& counts = workload->local_queue->waiting;
  const auto add = [&counts](const std::optional<std::pair<ReasonCode, WaitCode>>& of, int64_t n) {
    if (!of.has_value()) return;
    counts.by_reason[static_cast<size_t>(of->first)] += n;
    counts.by_code[static_cast<size_t>(of->second)] += n;
  };
  add(workload->counted, -1);
  add(counted, 1);
  workload->counted = counted;
}

// ---- workloads ----------------------------------------------------------------------------------

bool EngineSet::Impl::QueuesAlike(const Workload& a, const Workload& b) {
  return a.ns == b.ns && a.local_queue == b.local_queue && a.priority == b.priority && a.queue_time == b.queue_time &&
         a.active == b.active && a.gated_by == b.gated_by && a.preemption_gates == b.preemption_gates &&
         a.not_before == b.not_before && a.max_execution == b.max_execution && a.invalid == b.invalid &&
         a.elastic == b.elastic && a.growth_queue_time == b.growth_queue_time && a.timed_out == b.timed_out &&
         a.movable == b.movable && SamePodSets(a, b);
}

void EngineSet::Impl::Apply(const WorkloadChanged& event) {
  const Workload& spec = event.workload;
  std::unique_ptr<WorkloadState>& slot = workloads_[spec.uid];
  const bool is_new = slot == nullptr;
  if (is_new) slot = std::make_unique<WorkloadState>();
  WorkloadState* workload = slot.get();
  const bool alike = !is_new && QueuesAlike(workload->spec, spec);
  if (alike) {
    workload->spec.generation = spec.generation;
    workload->spec.name = spec.name;
    workload->spec.priority_class = spec.priority_class;
    if (MayAdopt(*workload, spec)) AdoptHeld(workload, *spec.held);
    if (workload->growth != nullptr) NoteSize(workload);
    return;
  }
  Change(workload, spec, is_new);
}

void EngineSet::Impl::Change(WorkloadState* workload, const Workload& spec, bool is_new) {
  const bool priority_changed = !is_new && workload->spec.priority != spec.priority;
  if (workload->waiting_in != nullptr) Unqueue(workload);
  const bool moves = is_new || workload->spec.ns != spec.ns || workload->spec.local_queue != spec.local_queue;
  if (moves && !is_new) {
    if (workload->claim == nullptr) WakeAfter(*workload);
    Leave(workload);
  }
  // A back-off after a refused start is the engine's own; it lasts until its time whatever the object says.
  const WallTime own_back_off = workload->start_refused.empty() ? WallTime{} : workload->spec.not_before;
  const bool might_queue = !is_new && MayQueue(workload->spec);
  const bool becomes_movable = spec.movable && !is_new && !workload->spec.movable && workload->claim != nullptr;
  if (workload->claim != nullptr) {
    forest_.Unlist(workload);
    // What is kept for when it comes back would be of no use to it.
    if (AsksForMore(workload->spec, spec)) forest_.TakeOnward(workload);
  }
  workload->spec = spec;
  if (workload->claim != nullptr) forest_.List(workload);
  workload->spec.held.reset();
  if (workload->claim == nullptr) workload->spec.not_before = std::max(spec.not_before, own_back_off);
  workload->shapes.clear();
  for (const PodSet& pod_set : spec.pod_sets) workload->shapes.push_back(catalog_.Compile(pod_set.shape));
  const uint64_t equivalence = EquivalenceOf(*workload, options_.reserve_after > Duration(0));
  if (equivalence != workload->ticket.equivalence) workload->scan = {};
  workload->ticket.equivalence = equivalence;
  if (moves) Join(workload, GetLocalQueue(spec.ns, spec.local_queue));
  if (workload->claim != nullptr) {
    UpdateClaimUsage(workload);
    CheckEviction(workload);
    NoteSize(workload);
  } else if (MayAdopt(*workload, spec)) {
    AdoptHeld(workload, *spec.held);
  } else if (is_new && spec.last_eviction.has_value()) {
    workload->last_eviction = spec.last_eviction;
    NotePromise(spec.last_eviction->preemptor_uid, spec.last_eviction->at);
    if (spec.last_eviction->moved) NotePromise(spec.uid, spec.last_eviction->at);
  }
  Route(workload);
  if (workload->grows == nullptr) NoteOutside(*workload);
  const bool withdrawn = might_queue && !MayQueue(spec) && workload->claim == nullptr;
  if (priority_changed || withdrawn || becomes_movable) WakeAfter(*workload);
}

void EngineSet::Impl::Apply(const WorkloadDeleted& event) {
  WorkloadState* workload = FindWorkload(event.uid);
  if (workload == nullptr) return;
  sizes_due_.erase(workload);
  if (workload->waiting_in != nullptr) Unqueue(workload);
  if (workload->claim != nullptr) DropClaim(workload);
  WakeAfter(*workload);
  NoteOutside(*workload);
  Leave(workload);
  reasons_changed_.erase(workload);
  promises_.erase(event.uid);
  workloads_.erase(event.uid);
}

void EngineSet::Impl::NoteOutside(const WorkloadState& workload) {
  const ClusterQueueState* queue = workload.local_queue->cluster_queue;
  if (queue != nullptr && queue->tree != nullptr) ++queue->tree->outside;
}

void EngineSet::Impl::WakeAfter(const WorkloadState& workload) {
  const LocalQueueState* local = workload.local_queue;
  if (!local->exists || local->spec.stop_policy != StopPolicy::kNone || local->cluster_queue == nullptr) return;
  if (local->cluster_queue->tree != nullptr) forest_.RequestFlush(local->cluster_queue->tree);
}

// ---- routing ------------------------------------------------------------------------------------

void EngineSet::Impl::RouteAll(LocalQueueState* queue) {
  // In the order of uids, so that nothing depends on the order of arrival.
  std::vector<WorkloadState*> workloads = queue->workloads;
  std::sort(workloads.begin(), workloads.end(), ByUid());
  for (WorkloadState* workload : workloads) Route(workload);
}

ClusterQueueState* EngineSet::Impl::WaitingPlace(const WorkloadState& workload,
                                                 std::shared_ptr<const Reason>* why) const {
  const LocalQueueState* local = workload.local_queue;
  if (!workload.spec.active) {
    *why = MakeReason(ReasonCode::kDeactivated);
  } else if (!workload.spec.gated_by.empty()) {
    *why = OneObstacle(ReasonCode::kAdmissionGated, ObstacleKind::kAdmissionGated, workload.spec.gated_by);
  } else if (!local->exists) {
    *why = OneObstacle(ReasonCode::kMisconfigured, ObstacleKind::kLocalQueueMissing, local->name);
  } else if (!local->spec.misconfigured.empty()) {
    Obstacle obstacle = ObjectObstacle(ObstacleKind::kLocalQueueMisconfigured, local->name);
    obstacle.names = {local->spec.misconfigured};
    *why = MakeReason(ReasonCode::kMisconfigured, {std::move(obstacle)});
  } else if (local->spec.stop_policy != StopPolicy::kNone) {
    *why = OneObstacle(ReasonCode::kSuspended, ObstacleKind::kLocalQueueStopped, local->name);
  } else if (local->cluster_queue == nullptr || !local->cluster_queue->exists) {
    *why = OneObstacle(ReasonCode::kMisconfigured, ObstacleKind::kClusterQueueMissing, local->spec.cluster_queue);
  } else if (workload.grows != nullptr && workload.grows->claim->queue != local->cluster_queue) {
    *why = OneObstacle(ReasonCode::kNoMatchingFlavor, ObstacleKind::kOriginalQueue,
                       workload.grows->claim->admission.cluster_queue);
  } else {
    return local->cluster_queue;
  }
  return nullptr;
}

void EngineSet::Impl::Route(WorkloadState* workload) {
  if (workload->claim != nullptr) return;
  const LocalQueueState* local = workload->local_queue;
  std::shared_ptr<const Reason> why;
  ClusterQueueState* target = WaitingPlace(*workload, &why);
  if (workload->waiting_in != nullptr && workload->waiting_in != target) Unqueue(workload);
  if (target == nullptr) {
    SetReason(workload, std::move(why));
    MarkChanged(*local);  // without a ClusterQueue it counts them all
  } else if (workload->waiting_in == nullptr) {
    Enqueue(workload, target);
  }
  CountWaiting(workload);
}

void EngineSet::Impl::Enqueue(WorkloadState* workload, ClusterQueueState* queue) {
  queue::Ticket& ticket = workload->ticket;
  ticket.priority = workload->spec.priority;
  ticket.queue_time = workload->spec.queue_time;
  ticket.uid = workload->spec.uid;
  ticket.owner = workload;
  ticket.not_before = workload->spec.not_before;
  ticket.lane = workload->local_queue->lane;
  queue->waiting.Push(&ticket, now_);
  workload->waiting_in = queue;
  if (promises_.contains(workload->spec.uid)) queue->tree->restore_rooms = true;
  CountPending(*workload, queue, 1);
  GiveQueueReason(workload, queue);
  forest_.Refresh(queue);
  DrainTouchedLanes(queue);
}

void EngineSet::Impl::Unqueue(WorkloadState* workload) {
  ClusterQueueState* queue = workload->waiting_in;
  if (workload->room != nullptr) {
    forest_.GiveUpRoom(workload);
    forest_.RequestFlush(queue->tree);
  }
  workload->room_spent = false;
  forest_.ForgetPreemptor(queue, workload);
  gives_way_.erase(workload);
  queue->waiting.Remove(&workload->ticket);
  workload->waiting_in = nullptr;
  CountPending(*workload, queue, -1);
  workload->scan_history.reset();
  forest_.Refresh(queue);
  DrainTouchedLanes(queue);
}

void EngineSet::Impl::CountPending(const WorkloadState& workload, ClusterQueueState* queue, int sign) {
  const auto count = [queue, sign](ResourceId resource, Amount amount) {
    quota::ExactSum& sum = queue->pending[resource];
    if (sign > 0) {
      sum.Add(amount);
    } else {
      sum.Remove(amount);
    }
    if (sum.IsZero()) queue->pending.erase(resource);
  };
  for (size_t i = 0; i < workload.shapes.size(); ++i) {
    const int32_t pods = workload.spec.pod_sets[i].count;
    for (const auto& [resource, amount] : workload.shapes[i]->requests) count(resource, amount * pods);
    count(catalog_.pods(), Amount{pods});
  }
}

void EngineSet::Impl::GiveQueueReason(WorkloadState* workload, ClusterQueueState* queue) {
  if (!queue->active) {
    SetReason(workload, queue->inactive_reason);
    return;
  }
  if (gives_way_.contains(workload)) return SetReason(workload, ReasonToGiveWay(*workload));
  if (workload->ticket.place() == queue::Place::kBackingOff) {
    const bool refused = !workload->start_refused.empty();
    SetReason(workload,
              OneObstacle(ReasonCode::kPendingEvaluation,
                          refused ? ObstacleKind::kStartRefused : ObstacleKind::kBackingOff, workload->start_refused));
    return;
  }
  if (workload->ticket.place() == queue::Place::kParked) {
    // What its like were told is about one that the queue takes.
    if (!NamespaceMatches(*queue, workload->spec.ns)) return SetReason(workload, ReasonOfParked(*queue, *workload));
    const auto bypass = queue->bypass.find(workload->ticket.equivalence);
    const bool of_place = workload->reason != nullptr && IsOfPlace(*workload->reason);
    if (bypass != queue->bypass.end() && (of_place || bypass->second.failed_uid != workload->spec.uid)) {
      SetReason(workload, bypass->second.reason);
    } else if (of_place) {
      SetReason(workload, ReasonOfParked(*queue, *workload));
    }  // else it was told when it was looked at
    return;
  }
  // A head that waits is not looked at because somebody comes behind it.
  if (queue->blocked_head != nullptr && queue->blocked_head == queue->waiting.Head() &&
      queue->blocked_head != &workload->ticket) {
    SetReason(workload, BehindStrictHead(*OfTicket(queue->blocked_head)));
    return;
  }
  if (workload->reason != nullptr && IsOfPlace(*workload->reason)) {
    SetReason(workload, nullptr);  // as if it had come only now
  }
}

// What keeps it parked though its queue is active again; null: nothing that would not be looked at anew.
std::shared_ptr<const Reason> EngineSet::Impl::ReasonOfParked(const ClusterQueueState& queue,
                                                              const WorkloadState& workload) const {
  if (!NamespaceMatches(queue, workload.spec.ns)) {
    return OneObstacle(ReasonCode::kMisconfigured, ObstacleKind::kNamespaceMismatch, queue.name);
  }
  return workload.spec.invalid.empty() ? nullptr : MakeReason(ReasonCode::kMisconfigured, workload.spec.invalid);
}

void EngineSet::Impl::TellStrangers(ClusterQueueState* queue) {
  if (!queue->selective || !queue->active) return;
  for (queue::Ticket* ticket : queue->waiting.InOrder()) {
    WorkloadState* workload = OfTicket(ticket);
    if (ticket->place() != queue::Place::kParked || NamespaceMatches(*queue, workload->spec.ns)) continue;
    SetReason(workload, ReasonOfParked(*queue, *workload));
  }
}

void EngineSet::Impl::UpdateReasonsOfQueues() {
  for (ClusterQueueState* queue : forest_.TakeActivityChanges()) {
    for (const LocalQueueState* local : queue->local_queues) MarkChanged(*local);
    // What they were told is replaced now.
    queue->waiting.ForgetTold();
    for (queue::Ticket* ticket : queue->waiting.InOrder()) GiveQueueReason(OfTicket(ticket), queue);
  }
}

void EngineSet::Impl::DrainTouchedLanes(ClusterQueueState* queue) {
  for (const uint32_t lane : queue->waiting.TakeTouchedLanes()) {
    if (lane < lanes_.size() && lanes_[lane] != nullptr) MarkChanged(*lanes_[lane]);
  }
}

void EngineSet::Impl::AfterEvent() {
  SettleSizes();
  WakeByNamespaceQuotas();
  UpdateReasonsOfQueues();
}

}  // namespace muster::engine
