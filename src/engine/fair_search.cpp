#include "fair_search.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <optional>

namespace muster::engine {

namespace {

using quota::FairShare;
using quota::NodeId;

// The candidates of one ClusterQueue that are still to be tried, in the order in which they are to go.
struct Pool {
  const ClusterQueueState* queue = nullptr;
  std::vector<WorkloadState*> listed;  // of a second round; else they come from the queue's list
  size_t next = 0;
  std::optional<CandidateList> candidates;
  WorkloadState* first = nullptr;  // null: none are left
};

class Search final : private quota::Alongside {
 public:
  Search(Tree* tree, const FairSharing& sharing, const VictimQuery& query, int64_t steps)
      : tree_(tree),
        sharing_(sharing),
        query_(query),
        steps_left_(steps),
        removal_(&tree->ledger, query.places == nullptr ? nullptr : this) {}

  VictimAnswer Run();

 private:
  void Move(size_t index, bool out) override { query_.places->Move(*taken_[index].workload, out); }
  bool Fits() override { return query_.places->Fits(); }

  const ClusterQueue& spec() const { return query_.queue->spec; }
  bool IsOwn(const ClusterQueueState& queue) const { return &queue == query_.queue; }

  // ---- what is left to be tried
  void CollectPools();
  void AddPool(const ClusterQueueState& queue);
  void Advance(Pool* pool);  // to the next one that policy allows
  void BeginSecondRound();

  // ---- where to take from
  Pool* NextPool();
  // Null: nothing is to be had below it, now or later.
  Pool* Descend(const CohortState& cohort);
  Pool* BestQueue(const CohortState& cohort, FairShare* share);
  const CohortState* BestCohort(const CohortState& cohort, FairShare* share);
  FairShare ShareOf(NodeId node);

  // ---- taking
  bool FirstRound();
  bool SecondRound();
  bool TakeByStrategy(Pool* pool);
  // RETURNS: whether the preemptor fits now, and the search is over.
  bool Take(Pool* pool, EvictionReason reason);
  bool WithinNominal() const;
  bool Allows(PreemptionStrategy strategy, const ClusterQueueState& target, const WorkloadState& victim);
  // The children of the lowest cohort above both the preemptor and `target`, on either side.
  std::pair<NodeId, NodeId> SidesOf(const ClusterQueueState& target) const;
  FairShare ShareWithout(NodeId side, const WorkloadState& victim);
  void ForgetShares(const ClusterQueueState& queue);
  // What the preemptor asks for counts as taken, in all shares.
  void Count(bool taken);

  Tree* tree_;
  const FairSharing& sharing_;
  const VictimQuery& query_;
  int64_t steps_left_;
  std::vector<Victim> taken_;
  quota::Removal removal_;  // of those
  absl::flat_hash_map<const ClusterQueueState*, Pool> pools_;
  absl::flat_hash_set<const CohortState*> done_;
  absl::flat_hash_set<const CohortState*> path_;  // above the preemptor
  absl::flat_hash_map<NodeId, FairShare> shares_;
  std::vector<WorkloadState*> refused_;  // by the first strategy, in the order they were tried
};

VictimAnswer Search::Run() {
  VictimAnswer answer;
  if (AnsweredByLeaving(*tree_, query_, &answer)) return answer;
  for (const CohortState* at = query_.queue->cohort; at != nullptr; at = at->parent) path_.insert(at);
  CollectPools();
  if (pools_.empty()) {
    answer.ended = steps_left_ <= 0;
    return answer;
  }
  Count(true);
  const bool fits = FirstRound() || (sharing_.preemption_strategies.size() > 1 && SecondRound());
  Count(false);
  if (fits) {
    for (const size_t target : removal_.FillBack(query_.request, true)) answer.victims.push_back(taken_[target]);
  }
  answer.ended = !fits && steps_left_ <= 0;
  return answer;
}

void Search::Count(bool taken) {
  for (const auto& [cell, amount] : query_.request) {
    if (taken) {
      tree_->ledger.Take(cell, amount, quota::Book::kPlanned);
    } else {
      tree_->ledger.Release(cell, amount, quota::Book::kPlanned);
    }
  }
}

// ---- what is left to be tried ---------------------------------------------------------------------

void Search::CollectPools() {
  if (spec().within_cluster_queue != PreemptionPolicy::kNever) AddPool(*query_.queue);
  if (query_.queue->cohort == nullptr || spec().reclaim_within_cohort == PreemptionPolicy::kNever) return;
  for (const ClusterQueueState* queue : tree_->queues) {
    if (--steps_left_ <= 0) return;
    if (IsOwn(*queue) || !queue->active) continue;
    if (!quota::WithinQuota(tree_->ledger, queue->node, query_.needed)) AddPool(*queue);
  }
}

void Search::AddPool(const ClusterQueueState& queue) {
  Pool pool{&queue, {}, 0, CandidateList(queue), nullptr};
  Advance(&pool);
  if (pool.first != nullptr) pools_.emplace(&queue, std::move(pool));
}

void Search::Advance(Pool* pool) {
  pool->first = nullptr;
  if (!pool->listed.empty()) {
    if (pool->next < pool->listed.size()) pool->first = pool->listed[pool->next++];
    return;
  }
  const PreemptionPolicy policy = IsOwn(*pool->queue) ? spec().within_cluster_queue : spec().reclaim_within_cohort;
  CandidateList& candidates = *pool->candidates;
  while (candidates.first() != nullptr && steps_left_-- > 0) {
    WorkloadState* candidate = candidates.first();
    // From here on all are too high.
    if (candidates.by_priority() && policy != PreemptionPolicy::kAny &&
        candidate->spec.priority > query_.preemptor->spec.priority) {
      return;
    }
    candidates.Next();
    if (PolicyAllows(policy, *query_.preemptor, *candidate) && Uses(*candidate, query_.needed)) {
      pool->first = candidate;
      return;
    }
  }
}

void Search::BeginSecondRound() {
  pools_.clear();
  done_.clear();
  for (WorkloadState* workload : refused_) {
    Pool& pool = pools_[workload->claim->queue];
    pool.queue = workload->claim->queue;
    pool.listed.push_back(workload);
  }
  for (auto& [queue, pool] : pools_) Advance(&pool);
}

// ---- where to take from -----------------------------------------------------------------------------

FairShare Search::ShareOf(NodeId node) {
  const auto known = shares_.find(node);
  if (known != shares_.end()) return known->second;
  const FairShare share = tree_->shares.Of(node, quota::Book::kPlanned);
  shares_.emplace(node, share);
  return share;
}

void Search::ForgetShares(const ClusterQueueState& queue) {
  shares_.erase(queue.node);
  for (const CohortState* at = queue.cohort; at != nullptr; at = at->parent) shares_.erase(at->node);
}

Pool* Search::NextPool() {
  const CohortState* root = query_.queue->cohort;
  if (root == nullptr) {
    const auto own = pools_.find(query_.queue);
    return own == pools_.end() || own->second.first == nullptr ? nullptr : &own->second;
  }
  while (root->parent != nullptr) root = root->parent;
  while (!done_.contains(root) && steps_left_ > 0) {
    if (Pool* pool = Descend(*root); pool != nullptr) return pool;
  }
  return nullptr;
}

Pool* Search::BestQueue(const CohortState& cohort, FairShare* share) {
  Pool* best = nullptr;
  for (const ClusterQueueState* queue : cohort.queues) {
    --steps_left_;
    const auto it = pools_.find(queue);
    if (it == pools_.end()) continue;
    const FairShare own = ShareOf(queue->node);
    // Who borrows nothing any more, or nothing of what is needed, is out for good: all others only ever use less.
    if (it->second.first == nullptr ||
        (!IsOwn(*queue) && (own.IsZero() || quota::WithinQuota(tree_->ledger, queue->node, query_.needed)))) {
      pools_.erase(it);
      continue;
    }
    if (best == nullptr || *share < own || (*share == own && VictimOrder()(it->second.first, best->first))) {
      best = &it->second;
      *share = own;
    }
  }
  return best;
}

const CohortState* Search::BestCohort(const CohortState& cohort, FairShare* share) {
  const CohortState* best = nullptr;
  for (const CohortState* child : cohort.children) {
    --steps_left_;
    if (done_.contains(child)) continue;
    const FairShare own = ShareOf(child->node);
    if (own.IsZero() && !path_.contains(child)) {
      done_.insert(child);
      continue;
    }
    if (best == nullptr || *share < own || (*share == own && best->name < child->name)) {
      best = child;
      *share = own;
    }
  }
  return best;
}

Pool* Search::Descend(const CohortState& cohort) {
  FairShare queue_share;
  FairShare cohort_share;
  Pool* queue = BestQueue(cohort, &queue_share);
  const CohortState* child = BestCohort(cohort, &cohort_share);
  if (queue == nullptr && child == nullptr) {
    done_.insert(&cohort);
    return nullptr;
  }
  return child != nullptr && (queue == nullptr || cohort_share >= queue_share) ? Descend(*child) : queue;
}

// ---- taking -----------------------------------------------------------------------------------------

bool Search::WithinNominal() const { return quota::WithinQuota(tree_->ledger, query_.queue->node, query_.needed); }

bool Search::FirstRound() {
  // As it is before anybody goes: what it only then could do without borrowing is not its own.
  const bool within_nominal = WithinNominal();
  while (Pool* pool = NextPool()) {
    if (IsOwn(*pool->queue)) {
      if (Take(pool, EvictionReason::kInClusterQueue)) return true;
    } else if (within_nominal) {
      if (Take(pool, EvictionReason::kInCohortReclamation)) return true;
    } else if (TakeByStrategy(pool)) {
      return true;
    }
  }
  return false;
}

bool Search::TakeByStrategy(Pool* pool) {
  const auto [own_side, target_side] = SidesOf(*pool->queue);
  if (ShareOf(own_side).IsInfinite() && !ShareOf(target_side).IsInfinite()) {
    pool->first = nullptr;
    return false;
  }
  for (; pool->first != nullptr; Advance(pool)) {
    if (Allows(sharing_.preemption_strategies.front(), *pool->queue, *pool->first)) {
      return Take(pool, EvictionReason::kInCohortFairSharing);
    }
    refused_.push_back(pool->first);
  }
  return false;
}

bool Search::SecondRound() {
  BeginSecondRound();
  while (Pool* pool = NextPool()) {
    const bool allowed = Allows(sharing_.preemption_strategies.back(), *pool->queue, *pool->first);
    if (allowed && Take(pool, EvictionReason::kInCohortFairSharing)) return true;
    pool->first = nullptr;  // at most one of each queue
  }
  return false;
}

bool Search::Take(Pool* pool, EvictionReason reason) {
  WorkloadState* victim = pool->first;
  taken_.push_back({victim, reason});
  removal_.Remove(BookedBy(*victim));
  ForgetShares(*pool->queue);
  Advance(pool);
  Count(false);
  const bool fits = removal_.Fits(query_.request, true);
  Count(true);
  return fits;
}

bool Search::Allows(PreemptionStrategy strategy, const ClusterQueueState& target, const WorkloadState& victim) {
  // Others of its queue may have come in since, so that shares would have it go back and forth for ever.
  if (WasEvictedFor(*query_.preemptor, victim)) return false;
  const auto [own_side, target_side] = SidesOf(target);
  switch (strategy) {
    case PreemptionStrategy::kLessThanOrEqualToFinalShare:
      return ShareOf(own_side) <= ShareWithout(target_side, victim);
    case PreemptionStrategy::kLessThanInitialShare:
      return ShareOf(own_side) < ShareOf(target_side);
  }
  return false;
}

std::pair<NodeId, NodeId> Search::SidesOf(const ClusterQueueState& target) const {
  NodeId target_side = target.node;
  const CohortState* common = target.cohort;
  for (; !path_.contains(common); common = common->parent) target_side = common->node;
  NodeId own_side = query_.queue->node;
  for (const CohortState* at = query_.queue->cohort; at != common; at = at->parent) own_side = at->node;
  return {own_side, target_side};
}

FairShare Search::ShareWithout(NodeId side, const WorkloadState& victim) {
  quota::Removal without(&tree_->ledger);
  without.Remove(BookedBy(victim));
  return tree_->shares.Of(side, quota::Book::kPlanned);
}

}  // namespace

VictimAnswer FairSearch::Find(const VictimQuery& query) const {
  return Search(tree_, sharing_, query, steps_max_).Run();
}

}  // namespace muster::engine
