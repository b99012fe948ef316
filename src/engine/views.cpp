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

}  // namespace

std::vector<FlavorUsage> EngineSet::Impl::UsageView(const ClusterQueueState& queue,
                                                    const LocalQueueState* local) const {
  std::vector<FlavorUsage> usage;
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
  view.admitted = view.reserving;
  view.usage = UsageView(*queue, nullptr);
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
  view.reserving = queue->reserving;
  view.admitted = queue->reserving;
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

std::vector<CohortView> EngineSet::Impl::ViewCohorts() const {
  struct Below {
    int64_t admitted = 0;
    Sums reserved;
  };
  // What a ClusterQueue holds is held in each cohort above it.
  absl::flat_hash_map<const CohortState*, Below> below;
  for (const auto& [name, queue] : forest_.queues()) {
    for (const CohortState* cohort = queue->cohort; cohort != nullptr; cohort = cohort->parent) {
      Below& sums = below[cohort];
      sums.admitted += static_cast<int64_t>(queue->holders.size());
      const quota::Ledger& ledger = queue->tree->ledger;
      ledger.ForEachCell(queue->node, [&](quota::CellId cell) {
        sums.reserved[ledger.flavor_resource(cell)].Add(ledger.Usage(cell, quota::Book::kActual));
      });
    }
  }
  std::vector<CohortView> views;
  for (const auto& [name, cohort] : forest_.cohorts()) {
    const CohortState* parent = cohort->declared_parent;
    const Below& sums = below[cohort.get()];
    views.push_back({name, parent == nullptr ? std::string() : parent->name, cohort->tree->name, sums.admitted,
                     QuotasOf(*cohort, sums.reserved)});
  }
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
    return view;
  }
  view.reason = LiveReason(*workload);
  const ClusterQueueState* queue = workload->waiting_in;
  if (queue == nullptr) return view;
  view.cluster_queue = queue->name;
  view.place =
      workload->ticket.place() == queue::Place::kActive ? WorkloadView::Place::kActive : WorkloadView::Place::kParked;
  return view;
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
    return *BehindStrictHead(*FindWorkload(head->uid));
  }
  // Its like may have been looked at since.
  if (const auto bypass = queue->bypass.find(workload.ticket.equivalence);
      bypass != queue->bypass.end() && workload.ticket.place() == queue::Place::kParked) {
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
  const auto see = [&holders, fr](const ClusterQueueState& queue) {
    for (const WorkloadState* holder : queue.holders) {
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

ChangedQueues EngineSet::Impl::TakeChangedQueues() {
  ChangedQueues changed;
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

}  // namespace muster::engine
