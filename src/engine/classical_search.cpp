#include "classical_search.h"

#include <algorithm>
#include <optional>

namespace muster::engine {

namespace {

// Why a candidate may be taken.
enum class Variant : uint8_t { kOwnQueue, kHierarchical, kWhileBorrowing, kWithoutBorrowing };

EvictionReason ReasonOf(Variant variant) {
  switch (variant) {
    case Variant::kOwnQueue:
      return EvictionReason::kInClusterQueue;
    case Variant::kHierarchical:
    case Variant::kWithoutBorrowing:
      return EvictionReason::kInCohortReclamation;
    case Variant::kWhileBorrowing:
      return EvictionReason::kInCohortReclaimWhileBorrowing;
  }
  return EvictionReason::kInClusterQueue;
}

// The candidates of one ClusterQueue.
struct Source {
  const ClusterQueueState* queue = nullptr;
  // The lowest cohort that is above both it and the preemptor; null: the preemptor's own queue.
  const CohortState* common = nullptr;
};

// The candidates of several ClusterQueues in one order.
struct Group {
  bool hierarchical = false;
  std::vector<Source> sources;
};

class Search final : private quota::Alongside {
 public:
  Search(Tree* tree, const VictimQuery& query, int64_t steps) : tree_(tree), query_(query), steps_left_(steps) {}

  VictimAnswer Run() {
    VictimAnswer answer;
    if (AnsweredByLeaving(*tree_, query_, &answer)) return answer;
    CollectSources();
    for (const bool may_borrow : Attempts()) {
      if (Attempt(may_borrow, &answer.victims)) break;
    }
    answer.ended = answer.victims.empty() && steps_left_ <= 0;
    return answer;
  }

 private:
  struct Cursor {
    explicit Cursor(const Source& of) : source(of), candidates(*of.queue) {}
    Source source;
    CandidateList candidates;
  };
  struct Later {
    bool operator()(const Cursor& a, const Cursor& b) const {
      return VictimOrder()(b.candidates.first(), a.candidates.first());
    }
  };

  void Move(size_t index, bool out) override { query_.places->Move(*taken_[index].workload, out); }
  bool Fits() override { return query_.places->Fits(); }

  const ClusterQueue& spec() const { return query_.queue->spec; }
  PreemptionPolicy PolicyFor(const Source& source) const {
    return source.common == nullptr ? spec().within_cluster_queue : spec().reclaim_within_cohort;
  }

  void CollectSources();
  void CollectBelow(const CohortState& cohort, const CohortState& common, const CohortState* seen, Group* group);
  // The request fits in the quota of the node; takes from it what the node has for itself alone.
  bool TakeOwn(quota::NodeId node, quota::CellAmounts* rest) const;
  std::vector<bool> Attempts();
  bool UnderNominal() const;
  bool Attempt(bool may_borrow, std::vector<Victim>* victims);
  // RETURNS: whether the request fits now, and the search is over.
  bool TakeFrom(const Group& group, bool may_borrow);
  bool HasAny(const Group& group);
  // Moves on to the next one that policy allows; false: there is none.
  bool Seek(Cursor* cursor);
  // Its queue, and all above it that the preemptor is not below, still use more than their quota.
  bool StillAbove(const Source& source) const;
  // One who claims back what is his may be given more than that, with fewer pods than he asked for in the first place:
  // those who had to go for him do not take it from him again while they borrow, or that would go on for ever.
  Variant VariantOf(const Group& group, const Source& source, const WorkloadState& candidate) const;

  Tree* tree_;
  const VictimQuery& query_;
  int64_t steps_left_;
  Group hierarchical_{true, {}};
  Group others_;
  Group own_;
  std::vector<Victim> taken_;
  std::optional<quota::Removal> removal_;  // of those
};

void Search::CollectSources() {
  const ClusterQueueState& queue = *query_.queue;
  if (spec().within_cluster_queue != PreemptionPolicy::kNever) own_.sources.push_back({&queue, nullptr});
  if (queue.cohort == nullptr || spec().reclaim_within_cohort == PreemptionPolicy::kNever) return;
  quota::CellAmounts rest = query_.request;
  bool advantage = TakeOwn(queue.node, &rest);
  const CohortState* seen = nullptr;
  for (const CohortState* cohort = queue.cohort; cohort != nullptr; cohort = cohort->parent) {
    CollectBelow(*cohort, *cohort, seen, advantage ? &hierarchical_ : &others_);
    if (TakeOwn(cohort->node, &rest)) advantage = true;
    seen = cohort;
  }
}

void Search::CollectBelow(const CohortState& cohort, const CohortState& common, const CohortState* seen, Group* group) {
  for (const CohortState* child : cohort.children) {
    --steps_left_;
    if (child == seen || quota::WithinQuota(tree_->ledger, child->node, query_.needed)) continue;
    CollectBelow(*child, common, seen, group);
  }
  for (const ClusterQueueState* queue : cohort.queues) {
    --steps_left_;
    if (queue == query_.queue || !queue->active) continue;
    if (quota::WithinQuota(tree_->ledger, queue->node, query_.needed)) continue;
    group->sources.push_back({queue, &common});
  }
}

bool Search::TakeOwn(quota::NodeId node, quota::CellAmounts* rest) const {
  const quota::Ledger& ledger = tree_->ledger;
  bool fits = true;
  for (auto& [cell, amount] : *rest) {
    const quota::CellId here = ledger.FindCell(node, ledger.flavor_resource(cell));
    if (ledger.Borrows(here, amount, quota::Book::kPlanned)) fits = false;
    amount = std::max(Amount{0}, amount - ledger.LocalAvailable(here, quota::Book::kPlanned));
  }
  return fits;
}

bool Search::UnderNominal() const {
  const quota::Ledger& ledger = tree_->ledger;
  return std::all_of(query_.needed.begin(), query_.needed.end(), [&](FlavorResource fr) {
    const quota::CellId cell = ledger.FindCell(query_.queue->node, fr);
    return ledger.Usage(cell, quota::Book::kPlanned) < ledger.limits(cell).nominal;
  });
}

std::vector<bool> Search::Attempts() {
  const bool hierarchical = HasAny(hierarchical_);
  const bool others = hierarchical || HasAny(others_);
  const bool borrows = spec().borrow_within_cohort.policy != PreemptionPolicy::kNever;
  if (!others || (!borrows && !UnderNominal())) return {true};
  if (!borrows && !hierarchical) return {false, true};
  return {true, false};
}

bool Search::HasAny(const Group& group) {
  return std::any_of(group.sources.begin(), group.sources.end(), [this](const Source& source) {
    Cursor cursor(source);
    return Seek(&cursor);
  });
}

bool Search::Seek(Cursor* cursor) {
  const PreemptionPolicy policy = PolicyFor(cursor->source);
  CandidateList& candidates = cursor->candidates;
  for (; candidates.first() != nullptr; candidates.Next()) {
    if (--steps_left_ <= 0) return false;
    const WorkloadState& candidate = *candidates.first();
    // From here on all are too high.
    if (candidates.by_priority() && policy != PreemptionPolicy::kAny &&
        candidate.spec.priority > query_.preemptor->spec.priority) {
      return false;
    }
    if (PolicyAllows(policy, *query_.preemptor, candidate) && Uses(candidate, query_.needed)) return true;
  }
  return false;
}

bool Search::StillAbove(const Source& source) const {
  if (quota::WithinQuota(tree_->ledger, source.queue->node, query_.needed)) return false;
  for (const CohortState* at = source.queue->cohort; at != source.common; at = at->parent) {
    if (quota::WithinQuota(tree_->ledger, at->node, query_.needed)) return false;
  }
  return true;
}

Variant Search::VariantOf(const Group& group, const Source& source, const WorkloadState& candidate) const {
  if (source.common == nullptr) return Variant::kOwnQueue;
  if (group.hierarchical) return Variant::kHierarchical;
  const BorrowWithinCohort& borrow = spec().borrow_within_cohort;
  const int32_t priority = candidate.spec.priority;
  const bool allowed = borrow.policy != PreemptionPolicy::kNever && priority < query_.preemptor->spec.priority &&
                       priority <= borrow.max_priority_threshold.value_or(priority) &&
                       !WasEvictedFor(*query_.preemptor, candidate);
  return allowed ? Variant::kWhileBorrowing : Variant::kWithoutBorrowing;
}

bool Search::TakeFrom(const Group& group, bool may_borrow) {
  std::vector<Cursor> heap;
  for (const Source& source : group.sources) {
    Cursor cursor(source);
    if (Seek(&cursor)) heap.push_back(std::move(cursor));
  }
  std::make_heap(heap.begin(), heap.end(), Later());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), Later());
    Cursor& cursor = heap.back();
    WorkloadState* candidate = cursor.candidates.first();
    // It only ever uses less while others are taken, so the rest of its queue is out too.
    if (cursor.source.common != nullptr && !StillAbove(cursor.source)) {
      heap.pop_back();
      continue;
    }
    const Variant variant = VariantOf(group, cursor.source, *candidate);
    const bool too_high = may_borrow && variant == Variant::kWithoutBorrowing;
    if (too_high && cursor.candidates.by_priority() && !WasEvictedFor(*query_.preemptor, *candidate)) {
      heap.pop_back();  // as are those that follow
      continue;
    }
    if (!too_high) {
      taken_.push_back({candidate, ReasonOf(variant)});
      removal_->Remove(BookedBy(*candidate));
      if (removal_->Fits(query_.request, may_borrow)) return true;
    }
    cursor.candidates.Next();
    if (Seek(&cursor)) {
      std::push_heap(heap.begin(), heap.end(), Later());
    } else {
      heap.pop_back();
    }
  }
  return false;
}

bool Search::Attempt(bool may_borrow, std::vector<Victim>* victims) {
  removal_.emplace(&tree_->ledger, query_.places == nullptr ? nullptr : static_cast<quota::Alongside*>(this));
  taken_.clear();
  for (const Group* group : {&hierarchical_, &others_, &own_}) {
    if (!TakeFrom(*group, may_borrow)) continue;
    for (const size_t target : removal_->FillBack(query_.request, may_borrow)) victims->push_back(taken_[target]);
    removal_.reset();
    return true;
  }
  removal_.reset();
  return false;
}

}  // namespace

VictimAnswer ClassicalSearch::Find(const VictimQuery& query) const { return Search(tree_, query, steps_max_).Run(); }

}  // namespace muster::engine
