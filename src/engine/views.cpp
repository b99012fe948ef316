// The read side: values for status, metrics and explanations.
#include <algorithm>
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
  view.active = target->active && !view.stopped;
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

std::vector<CohortView> EngineSet::Impl::ViewCohorts() const {
  std::vector<CohortView> views;
  for (const auto& [name, cohort] : forest_.cohorts()) {
    const CohortState* parent = cohort->declared_parent;
    views.push_back({name, parent == nullptr ? std::string() : parent->name, cohort->tree->name});
  }
  return views;
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
  if (workload->reason != nullptr) view.reason = *workload->reason;
  const ClusterQueueState* queue = workload->waiting_in;
  if (queue == nullptr) return view;
  view.cluster_queue = queue->name;
  view.place =
      workload->ticket.place() == queue::Place::kActive ? WorkloadView::Place::kActive : WorkloadView::Place::kParked;
  // What has not been looked at has no reason of its own, but may have one in front of it: the head of now.
  const queue::Ticket* head = queue->waiting.Head();
  const std::vector<Obstacle>& obstacles = view.reason.obstacles;
  if (queue->active && queue->waiting.strategy() == queue::Strategy::kStrictFIFO && head != nullptr &&
      head != &workload->ticket && (obstacles.empty() || obstacles.front().kind == ObstacleKind::kBehindStrictHead)) {
    view.reason = *BehindStrictHead(*head);
  }
  return view;
}

std::map<ReasonCode, int64_t> EngineSet::Impl::WaitingByReason(const std::string& ns, const std::string& name) const {
  const LocalQueueState* queue = FindLocalQueue(ns, name);
  MUSTER_CHECK_MSG(queue != nullptr && queue->exists, name);
  std::map<ReasonCode, int64_t> counts;
  for (const WorkloadState* workload : queue->workloads) {
    if (workload->waiting_in == nullptr) continue;
    ++counts[workload->reason == nullptr ? ReasonCode::kPendingEvaluation : workload->reason->code];
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
