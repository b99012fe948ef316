#include "victims.h"

#include <algorithm>

namespace muster::engine {

namespace {

bool PrioritiesAllow(PreemptionPolicy policy, const Workload& a, const Workload& b) {
  switch (policy) {
    case PreemptionPolicy::kNever:
      return false;
    case PreemptionPolicy::kLowerPriority:
      return a.priority > b.priority;
    case PreemptionPolicy::kLowerOrNewerEqualPriority:
      return a.priority > b.priority || (a.priority == b.priority && a.queue_time < b.queue_time);
    case PreemptionPolicy::kAny:
      return true;
  }
  return false;
}

}  // namespace

// What costs most comes last: this is asked of all that run.
bool PolicyAllows(PreemptionPolicy policy, const WorkloadState& preemptor, const WorkloadState& workload) {
  if (preemptor.grows == &workload) return false;  // its own pods
  if (!PrioritiesAllow(policy, preemptor.spec, workload.spec)) return false;
  return workload.claim->leaving || preemptor.preempted.empty() || !preemptor.preempted.contains(workload.spec.uid);
}

// Those to go later come first: a heap has the last of an order on top.
struct CandidateList::ByShare {
  bool operator()(const WorkloadState* a, const WorkloadState* b) const {
    const auto order = a->local_queue->share <=> b->local_queue->share;
    return std::is_eq(order) ? VictimOrder()(b, a) : std::is_lt(order);
  }
};

CandidateList::CandidateList(const ClusterQueueState& queue)
    : at_(queue.preemptible.begin()), end_(queue.preemptible.end()) {
  by_share_ = queue.spec.usage_based_admission &&
              std::any_of(queue.local_queues.begin(), queue.local_queues.end(),
                          [](const LocalQueueState* local) { return local->share != queue::ConsumedShare{}; });
  if (by_share_) {
    heap_.assign(at_, end_);
    std::make_heap(heap_.begin(), heap_.end(), ByShare());
  }
  Next();
}

void CandidateList::Next() {
  first_ = nullptr;
  if (!by_share_) {
    if (at_ != end_) first_ = *at_++;
  } else if (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), ByShare());
    first_ = heap_.back();
    heap_.pop_back();
  }
}

bool Uses(const WorkloadState& workload, const std::vector<FlavorResource>& of) {
  return std::any_of(workload.claim->usage.begin(), workload.claim->usage.end(),
                     [&of](const auto& entry) { return std::find(of.begin(), of.end(), entry.first) != of.end(); });
}

quota::CellAmounts BookedBy(const WorkloadState& workload) {
  const ClusterQueueState& queue = *workload.claim->queue;
  quota::CellAmounts booked;
  booked.reserve(workload.claim->usage.size());
  for (const auto& [fr, amount] : workload.claim->usage) {
    booked.emplace_back(queue.tree->ledger.FindCell(queue.node, fr), amount);
  }
  return booked;
}

bool AnsweredByLeaving(const Tree& tree, const VictimQuery& query, VictimAnswer* answer) {
  if (!quota::FitsPlanned(tree.ledger, query.request, true)) return false;
  if (query.places != nullptr && !query.places->Fits()) return false;
  const ClusterQueue& spec = query.queue->spec;
  for (const WorkloadState* leaving : tree.leaving) {
    const bool own = leaving->claim->queue == query.queue;
    const PreemptionPolicy policy = own ? spec.within_cluster_queue : spec.reclaim_within_cohort;
    if (!PolicyAllows(policy, *query.preemptor, *leaving) || !Uses(*leaving, query.needed)) continue;
    answer->waits = true;
    answer->waits_in_own_queue = answer->waits_in_own_queue || own;
  }
  return true;
}

VictimSearch::Outlook VictimSearch::Simulate(const WorkloadState& preemptor, const ClusterQueueState& queue,
                                             quota::CellId cell, Amount amount) const {
  quota::Ledger& ledger = tree_->ledger;
  const VictimAnswer answer = Find({&preemptor, &queue, {{cell, amount}}, {ledger.flavor_resource(cell)}, nullptr});
  Outlook outlook;
  outlook.ended = answer.ended;
  quota::Removal removal(&ledger);
  bool own = answer.waits_in_own_queue;
  for (const Victim& victim : answer.victims) {
    removal.Remove(BookedBy(*victim.workload));
    own = own || victim.workload->claim->queue == &queue;
  }
  outlook.level = ledger.LevelOf(cell, amount, quota::Book::kPlanned);
  if (answer.Found()) outlook.mode = own ? Mode::kPreempt : Mode::kReclaim;
  return outlook;
}

}  // namespace muster::engine
