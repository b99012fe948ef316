// The read side: values for status, metrics and explanations.
#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "engine_impl.h"
#include "muster/core/check.h"
#include "obstacles.h"

namespace muster::engine {

namespace {

// One that is gone may have come back under the same name.
template <typename T>
void SortUnique(std::vector<T>* items) {
  std::sort(items->begin(), items->end());
  items->erase(std::unique(items->begin(), items->end()), items->end());
}

int64_t Unadmitted(const std::vector<WorkloadState*>& workloads) {
  return std::count_if(workloads.begin(), workloads.end(), [](const WorkloadState* workload) {
    return workload->claim != nullptr && !workload->claim->admitted;
  });
}

}  // namespace

std::vector<FlavorUsage> EngineSet::Impl::UsageView(const ClusterQueueState& queue,
                                                    const LocalQueueState* local) const {
  std::vector<FlavorUsage> usage;
  Sums unadmitted;
  for (const WorkloadState* workload : local != nullptr ? local->workloads : queue.holders) {
    if (workload->claim == nullptr || workload->claim->admitted) continue;
    for (const auto& [fr, amount] : workload->claim->usage) unadmitted[fr].Add(amount);
  }
  for (const GroupState& group : queue.groups) {
    for (const FlavorOption& flavor : group.flavors) {
      for (size_t r = 0; r < group.resources.size(); ++r) {
        FlavorUsage entry;
        entry.flavor = catalog_.FlavorName(flavor.flavor);
        entry.resource = catalog_.ResourceName(group.resources[r]);
        if (local != nullptr) {
          const auto sum = local->usage.find(FlavorResource{flavor.flavor, group.resources[r]});
          if (sum != local->usage.end()) entry.reserved = sum->second.Value();
        } else {
          const quota::Limits& limits = queue.tree->ledger.limits(flavor.cells[r]);
          entry.nominal = limits.nominal;
          entry.borrowing_limit = limits.borrowing_limit;
          entry.lending_limit = limits.lending_limit;
          entry.reserved = queue.tree->ledger.Usage(flavor.cells[r], quota::Book::kActual);
          // What a queue without cohort uses above a lowered quota is borrowed from nobody.
          if (queue.cohort != nullptr) entry.borrowed = std::max(Amount{0}, entry.reserved - entry.nominal);
        }
        entry.used = entry.reserved;
        if (const auto sum = unadmitted.find(FlavorResource{flavor.flavor, group.resources[r]});
            sum != unadmitted.end() && !entry.reserved.IsUnlimited()) {
          entry.used = entry.reserved - sum->second.Value();
        }
        usage.push_back(std::move(entry));
      }
    }
  }
  return usage;
}

ClusterQueueView EngineSet::Impl::ViewClusterQueue(const std::string& name) const {
  const ClusterQueueState* queue = forest_.FindQueue(name);
  MUSTER_CHECK_MSG(queue != nullptr && queue->exists, name);
  ClusterQueueView view;
  view.name = queue->name;
  view.cohort = queue->spec.cohort;
  if (queue->cohort != nullptr) view.root_cohort = queue->tree->name;
  view.active = queue->active;
  view.inactive = queue->inactive;
  const queue::Counts counts = queue->waiting.counts();
  // Nobody looks at the workloads of an inactive queue.
  view.pending_active = queue->active ? counts.active : 0;
  view.pending_inadmissible = counts.active + counts.inadmissible - view.pending_active;
  view.reserving = static_cast<int64_t>(queue->holders.size());
  view.admitted = view.reserving - Unadmitted(queue->holders);
  view.lacking_places = queue->lacking_places;
  view.preemption_skips = queue->preemption_skips;
  view.usage = UsageView(*queue, nullptr);
  view.weighted_share = ShareView(queue->tree, queue->node);
  return view;
}

LocalQueueView EngineSet::Impl::ViewLocalQueue(const std::string& ns, const std::string& name) const {
  const LocalQueueState* queue = FindLocalQueue(ns, name);
  MUSTER_CHECK_MSG(queue != nullptr && queue->exists, name);
  LocalQueueView view;
  view.ns = queue->ns;
  view.name = queue->name;
  view.cluster_queue = queue->spec.cluster_queue;
  view.stopped = queue->spec.stop_policy != StopPolicy::kNone;
  view.misconfigured = queue->spec.misconfigured;
  view.waiting = queue->waiting;
  view.consumption = ConsumptionView(*queue);
  view.reserving = queue->reserving;
  view.admitted = queue->reserving - Unadmitted(queue->workloads);
  const ClusterQueueState* target = queue->cluster_queue;
  view.cluster_queue_exists = target != nullptr && target->exists;
  if (!view.cluster_queue_exists) {
    view.pending_inadmissible = std::count_if(
        queue->workloads.begin(), queue->workloads.end(),
        [](const WorkloadState* workload) { return workload->claim == nullptr && workload->spec.active; });
    return view;
  }
  view.active = target->active && !view.stopped && view.misconfigured.empty();
  const queue::Counts counts = target->waiting.CountsOfLane(queue->lane);
  view.pending_active = target->active ? counts.active : 0;
  view.pending_inadmissible = counts.active + counts.inadmissible - view.pending_active;
  view.usage = UsageView(*target, queue);
  return view;
}

std::vector<std::string> EngineSet::Impl::ClusterQueueNames() const {
  std::vector<std::string> names;
  for (const auto& [name, queue] : forest_.queues()) {
    if (queue->exists) names.push_back(name);
  }
  return names;
}

std::vector<CohortQuota> EngineSet::Impl::QuotasOf(const CohortState& cohort, const Sums& reserved) const {
  std::vector<CohortQuota> quotas;
  const quota::Ledger& ledger = cohort.tree->ledger;
  ledger.ForEachCell(cohort.node, [&](quota::CellId cell) {
    const FlavorResource fr = ledger.flavor_resource(cell);
    const auto sum = reserved.find(fr);
    quotas.push_back({catalog_.FlavorName(fr.flavor), catalog_.ResourceName(fr.resource), ledger.SubtreeQuota(cell),
                      sum == reserved.end() ? Amount{} : sum->second.Value()});
  });
  std::sort(quotas.begin(), quotas.end(), [](const CohortQuota& a, const CohortQuota& b) {
    return std::tie(a.flavor, a.resource) < std::tie(b.flavor, b.resource);
  });
  return quotas;
}

std::optional<WeightedShare> EngineSet::Impl::ShareView(Tree* tree, quota::NodeId node) const {
  if (!options_.fair_sharing.has_value()) return std::nullopt;
  const quota::FairShare share = tree->shares.Of(node, quota::Book::kActual);
  return WeightedShare{share.Rounded(), share.borrowed(), share.lendable(), share.weight_nanos()};
}

CohortView EngineSet::Impl::ViewCohort(const CohortState& cohort, const Below& below) const {
  const CohortState* parent = cohort.declared_parent;
  return {cohort.name,
          parent == nullptr ? std::string() : parent->name,
          cohort.tree->name,
          below.admitted,
          QuotasOf(cohort, below.reserved),
          ShareView(cohort.tree, cohort.node)};
}

CohortView EngineSet::Impl::ViewCohort(const std::string& name) const {
  const CohortState* cohort = forest_.FindCohort(name);
  MUSTER_CHECK_MSG(cohort != nullptr, name);
  Below below;
  std::vector<const CohortState*> open = {cohort};
  while (!open.empty()) {
    const CohortState* at = open.back();
    open.pop_back();
    open.insert(open.end(), at->children.begin(), at->children.end());
    for (const ClusterQueueState* queue : at->queues) AddBelow(*queue, &below);
  }
  return ViewCohort(*cohort, below);
}

void EngineSet::Impl::AddBelow(const ClusterQueueState& queue, Below* below) {
  below->admitted += static_cast<int64_t>(queue.holders.size()) - Unadmitted(queue.holders);
  const quota::Ledger& ledger = queue.tree->ledger;
  for (const auto& [fr, cell] : ledger.Cells(queue.node)) {
    below->reserved[fr].Add(ledger.Usage(cell, quota::Book::kActual));
  }
}

std::vector<CohortView> EngineSet::Impl::ViewCohorts() const {
  // What a ClusterQueue holds is held in each cohort above it.
  absl::flat_hash_map<const CohortState*, Below> below;
  for (const auto& [name, queue] : forest_.queues()) {
    for (const CohortState* cohort = queue->cohort; cohort != nullptr; cohort = cohort->parent) {
      AddBelow(*queue, &below[cohort]);
    }
  }
  std::vector<CohortView> views;
  for (const auto& [name, cohort] : forest_.cohorts()) views.push_back(ViewCohort(*cohort, below[cohort.get()]));
  return views;
}

std::vector<std::string> EngineSet::Impl::CohortNames() const {
  std::vector<std::string> names;
  for (const auto& [name, cohort] : forest_.cohorts()) names.push_back(name);
  return names;
}

std::vector<std::string> EngineSet::Impl::CohortsOf(const std::string& cluster_queue) const {
  std::vector<std::string> names;
  const ClusterQueueState* queue = forest_.FindQueue(cluster_queue);
  if (queue == nullptr) return names;
  for (const CohortState* cohort = queue->cohort; cohort != nullptr; cohort = cohort->parent) {
    names.push_back(cohort->name);
  }
  return names;
}

std::vector<std::pair<std::string, std::string>> EngineSet::Impl::LocalQueueNames() const {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [key, queue] : local_queues_) {
    if (queue->exists) names.push_back(key);
  }
  return names;
}

std::optional<WorkloadView> EngineSet::Impl::ViewWorkload(const std::string& uid) const {
  const WorkloadState* workload = FindWorkload(uid);
  if (workload == nullptr) return std::nullopt;
  WorkloadView view;
  if (workload->claim != nullptr) {
    view.place = WorkloadView::Place::kHolding;
    view.cluster_queue = workload->claim->admission.cluster_queue;
    view.claim = workload->claim->id;
    view.claim_state = workload->claim->state;
    view.admission = workload->claim->admission;
    view.reserved_at = workload->claim->reserved_at;
    if (const std::optional<ClaimEviction>& eviction = workload->claim->eviction; eviction.has_value()) {
      view.evicted = eviction->reason;
      view.preemptor_uid = eviction->preemptor_uid;
    }
    if (workload->growth != nullptr) {
      view.growth = LiveReason(*workload->growth);
      view.kept_room = KeptRoomOf(*workload->growth);
    }
    return view;
  }
  view.reason = LiveReason(*workload);
  const ClusterQueueState* queue = workload->waiting_in;
  if (queue == nullptr) return view;
  view.cluster_queue = queue->name;
  view.kept_room = KeptRoomOf(*workload);
  view.place =
      workload->ticket.place() == queue::Place::kActive ? WorkloadView::Place::kActive : WorkloadView::Place::kParked;
  return view;
}

std::optional<KeptRoom> EngineSet::Impl::KeptRoomOf(const WorkloadState& workload) const {
  const std::vector<const WorkloadState*> victims = VictimsOf(workload);
  const bool keeps = workload.room != nullptr && !workload.room->future.has_value();
  if (victims.empty() && !keeps) return std::nullopt;
  KeptRoom kept;
  for (const WorkloadState* victim : victims) kept.victims.push_back(victim->spec.uid);
  if (keeps) kept.until = workload.room->until;
  return kept;
}

Reason EngineSet::Impl::LiveReason(const WorkloadState& workload) const {
  Reason reason = workload.reason == nullptr ? Reason{} : *workload.reason;
  const ClusterQueueState* queue = workload.waiting_in;
  if (queue == nullptr || !queue->active) return reason;
  // What has not been looked at has no reason of its own, but may have one in front of it: the head of now.
  const queue::Ticket* head = queue->waiting.Head();
  const bool unseen = reason.obstacles.empty() || reason.obstacles.front().kind == ObstacleKind::kBehindStrictHead;
  if (queue->waiting.strategy() == queue::Strategy::kStrictFIFO && head != nullptr && head != &workload.ticket &&
      unseen) {
    return *BehindStrictHead(*static_cast<const WorkloadState*>(head->owner));
  }
  // Its like may have been looked at since.
  if (const auto bypass = queue->bypass.find(workload.ticket.equivalence);
      bypass != queue->bypass.end() && workload.ticket.place() == queue::Place::kParked &&
      NamespaceMatches(*queue, workload.spec.ns)) {
    reason = *bypass->second.reason;
  }
  const Obstacle* obstacle = DecisiveObstacle(reason);
  if (obstacle != nullptr && obstacle->kind == ObstacleKind::kInsufficientUnused) {
    reason.blockers = HoldersOf(workload, *obstacle);
  }
  return reason;
}

std::vector<Blocker> EngineSet::Impl::HoldersOf(const WorkloadState& workload, const Obstacle& obstacle) const {
  const ClusterQueueState& own = *workload.waiting_in;
  const FlavorResource fr = catalog_.Find(obstacle.flavor, obstacle.resource);
  std::vector<const WorkloadState*> holders;
  const auto see = [&holders, &workload, fr](const ClusterQueueState& queue) {
    for (const WorkloadState* holder : queue.holders) {
      if (holder == workload.grows) continue;
      const auto& usage = holder->claim->usage;
      if (std::any_of(usage.begin(), usage.end(), [fr](const auto& entry) { return entry.first == fr; })) {
        holders.push_back(holder);
      }
    }
  };
  if (obstacle.of_cohort) {
    for (const ClusterQueueState* queue : own.tree->queues) see(*queue);
  } else {
    see(own);
  }
  std::sort(holders.begin(), holders.end(), [](const WorkloadState* a, const WorkloadState* b) {
    return std::make_pair(b->claim->reserved_at, std::string_view(a->spec.uid)) <
           std::make_pair(a->claim->reserved_at, std::string_view(b->spec.uid));
  });
  std::vector<Blocker> blockers;
  for (const WorkloadState* holder : holders) {
    if (blockers.size() == kBlockersMax) break;
    blockers.push_back(BlockerOf(*holder));
  }
  return blockers;
}

PendingView EngineSet::Impl::ViewPending(const std::string& cluster_queue) const {
  const ClusterQueueState* queue = forest_.FindQueue(cluster_queue);
  MUSTER_CHECK_MSG(queue != nullptr && queue->exists, cluster_queue);
  PendingView view;
  const queue::Counts equivalences = queue->waiting.EquivalenceCounts();
  view.equivalences_active = queue->active ? equivalences.active : 0;
  view.equivalences_inadmissible = equivalences.inadmissible + equivalences.active - view.equivalences_active;
  view.oldest = queue->waiting.OldestQueueTime();
  std::map<std::string, Amount> resources;
  for (const auto& [resource, group] : queue->group_of) resources.emplace(catalog_.ResourceName(resource), Amount{});
  for (const auto& [resource, sum] : queue->pending) {
    // Every pod is one; it counts only where there is quota for pods.
    if (resource != catalog_.pods() || queue->group_of.contains(resource)) {
      resources[catalog_.ResourceName(resource)] = sum.Value();
    }
  }
  view.resources.assign(resources.begin(), resources.end());
  return view;
}

WaitCounts EngineSet::Impl::WaitingWithoutLocalQueue() const {
  WaitCounts counts;
  for (const auto& [key, queue] : local_queues_) {
    if (queue->exists) continue;
    for (size_t i = 0; i < kReasonCodes; ++i) counts.by_reason[i] += queue->waiting.by_reason[i];
    for (size_t i = 0; i < kWaitCodes; ++i) counts.by_code[i] += queue->waiting.by_code[i];
  }
  return counts;
}

// Shares change with the usage of what is below, and with any quota in the tree.
void EngineSet::Impl::MarkChangedShares(ChangedQueues* changed) {
  if (forest_.TakeQuotasChanged()) {
    for (const auto& [name, queue] : forest_.queues()) {
      if (queue->exists) forest_.MarkChanged(queue.get());
    }
    changed->cohorts = CohortNames();
    return;
  }
  for (const ClusterQueueState* queue : forest_.changed_queues()) {
    for (const CohortState* cohort = queue->cohort; cohort != nullptr; cohort = cohort->parent) {
      changed->cohorts.push_back(cohort->name);
    }
  }
  SortUnique(&changed->cohorts);
}

ChangedQueues EngineSet::Impl::TakeChangedQueues() {
  ChangedQueues changed;
  if (options_.fair_sharing.has_value()) MarkChangedShares(&changed);
  for (ClusterQueueState* queue : forest_.TakeChangedQueues(&changed.cluster_queues)) {
    DrainTouchedLanes(queue);
    changed.cluster_queues.push_back(queue->name);
  }
  changed.local_queues = std::exchange(changed_local_queues_gone_, {});
  for (const LocalQueueState* queue : std::exchange(changed_local_queues_, {})) {
    queue->changed = false;
    changed.local_queues.emplace_back(queue->ns, queue->name);
  }
  SortUnique(&changed.cluster_queues);
  SortUnique(&changed.local_queues);
  return changed;
}

std::vector<TargetRecomputations> EngineSet::Impl::TakeTargetRecomputations() {
  std::vector<TargetRecomputations> taken;
  for (const auto& [key, count] : std::exchange(recomputations_, {})) taken.push_back({key.first, key.second, count});
  return taken;
}

std::string_view Name(RecomputedTargets result) {
  switch (result) {
    case RecomputedTargets::kNewTargets:
      return "new_targets";
    case RecomputedTargets::kDeferredFit:
      return "deferred_fit";
    case RecomputedTargets::kSkipped:
      return "skipped";
  }
  CheckFailed(__FILE__, __LINE__, "known result");
}

}  // namespace muster::engine
