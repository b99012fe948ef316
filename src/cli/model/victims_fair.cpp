#include <algorithm>
#include <deque>

#include "plan.h"

namespace muster::cli::model {

namespace {

using engine::EvictionReason;
using engine::PreemptionPolicy;
using engine::PreemptionStrategy;

class Search {
 public:
  Search(const State& state, const Books& books, const Gang& preemptor, int queue, const Amounts& needs,
         const std::set<Fr>& lacking)
      : state_(state),
        books_(books),
        preemptor_(preemptor),
        queue_(queue),
        needs_(needs),
        lacking_(lacking),
        planned_(books.planned) {}

  Victims Run();

 private:
  const engine::ClusterQueue& spec() const { return state_.SpecOf(queue_); }
  int ParentOf(int node) const { return state_.tree.node(node).parent; }
  bool IsAbovePreemptor(int cohort) const;
  bool FirstRound(bool within_nominal);
  bool SecondRound();
  int NextQueue();  // whose first candidate is to be tried; -1: none
  int Descend(int cohort);
  bool IsOpen(int queue) const;
  bool Take(int queue, EvictionReason reason);  // RETURNS: whether the preemptor fits now
  bool Allows(PreemptionStrategy strategy, int queue, const Gang& victim) const;
  // The children of the lowest cohort above both, on the preemptor's side and on the other.
  std::pair<int, int> SidesOf(int queue) const;

  const State& state_;
  const Books& books_;
  const Gang& preemptor_;
  int queue_;
  const Amounts& needs_;
  const std::set<Fr>& lacking_;
  Usage planned_;  // with the preemptor in it
  std::map<int, std::deque<const Gang*>> pools_;
  std::set<int> done_;  // cohorts in which nobody is left
  std::vector<const Gang*> refused_;
  std::vector<Target> taken_;
};

Victims Search::Run() {
  const auto add = [this](int from, PreemptionPolicy policy) {
    const std::vector<const Gang*> candidates = Candidates(state_, books_, preemptor_, from, policy, lacking_);
    pools_[from].assign(candidates.begin(), candidates.end());
  };
  add(queue_, spec().within_cluster_queue);
  for (const int other : state_.tree.QueuesBelow(state_.tree.RootOf(queue_))) {
    if (other == queue_ || !state_.IsActive(other) || planned_.WithinQuota(other, lacking_)) continue;
    add(other, spec().reclaim_within_cohort);
  }
  planned_.Add(queue_, needs_);
  const bool within_nominal = planned_.WithinQuota(queue_, lacking_);
  const bool two = state_.fair_sharing->preemption_strategies.size() > 1;
  Victims victims;
  if (!FirstRound(within_nominal) && !(two && SecondRound())) return victims;
  planned_.Remove(queue_, needs_);
  victims.targets = FillBack(state_, planned_, taken_, queue_, needs_, true);
  return victims;
}

bool Search::IsAbovePreemptor(int cohort) const {
  int at = queue_;
  while (at >= 0 && at != cohort) at = ParentOf(at);
  return at == cohort;
}

bool Search::IsOpen(int queue) const {
  const auto pool = pools_.find(queue);
  if (pool == pools_.end() || pool->second.empty()) return false;
  return queue == queue_ || (!planned_.ShareOf(queue).IsZero() && !planned_.WithinQuota(queue, lacking_));
}

int Search::Descend(int cohort) {
  int queue = -1;
  int child = -1;
  Share queue_share;
  Share child_share;
  for (const int node : state_.tree.node(cohort).children) {
    const Share share = planned_.ShareOf(node);
    if (state_.tree.node(node).is_queue) {
      if (!IsOpen(node)) continue;
      const bool equal = queue >= 0 && !Less(share, queue_share) && !Less(queue_share, share);
      if (queue < 0 || Less(queue_share, share) ||
          (equal && GoesBefore(*pools_.at(node).front(), *pools_.at(queue).front()))) {
        queue = node;
        queue_share = share;
      }
    } else if (!done_.contains(node) && (!share.IsZero() || IsAbovePreemptor(node))) {
      // Of equals the last by name.
      if (child < 0 || !Less(share, child_share)) {
        child = node;
        child_share = share;
      }
    }
  }
  if (queue < 0 && child < 0) done_.insert(cohort);
  return child >= 0 && (queue < 0 || !Less(child_share, queue_share)) ? Descend(child) : queue;
}

int Search::NextQueue() {
  const int root = state_.tree.RootOf(queue_);
  if (root == queue_) return IsOpen(queue_) ? queue_ : -1;
  while (!done_.contains(root)) {
    if (const int queue = Descend(root); queue >= 0) return queue;
  }
  return -1;
}

bool Search::FirstRound(bool within_nominal) {
  const PreemptionStrategy first = state_.fair_sharing->preemption_strategies.front();
  for (int queue = NextQueue(); queue >= 0; queue = NextQueue()) {
    std::deque<const Gang*>& pool = pools_.at(queue);
    if (queue == queue_ || within_nominal) {
      if (Take(queue, queue == queue_ ? EvictionReason::kInClusterQueue : EvictionReason::kInCohortReclamation)) {
        return true;
      }
      continue;
    }
    const auto [own_side, other_side] = SidesOf(queue);
    if (planned_.ShareOf(own_side).IsInfinite() && !planned_.ShareOf(other_side).IsInfinite()) {
      pool.clear();
      continue;
    }
    while (!pool.empty() && !Allows(first, queue, *pool.front())) {
      refused_.push_back(pool.front());
      pool.pop_front();
    }
    if (!pool.empty() && Take(queue, EvictionReason::kInCohortFairSharing)) return true;
  }
  return false;
}

bool Search::SecondRound() {
  pools_.clear();
  done_.clear();
  for (const Gang* gang : refused_) pools_[state_.HeldIn(*gang)].push_back(gang);
  const PreemptionStrategy last = state_.fair_sharing->preemption_strategies.back();
  for (int queue = NextQueue(); queue >= 0; queue = NextQueue()) {
    if (Allows(last, queue, *pools_.at(queue).front()) && Take(queue, EvictionReason::kInCohortFairSharing)) {
      return true;
    }
    pools_.at(queue).clear();  // at most one of each
  }
  return false;
}

bool Search::Take(int queue, EvictionReason reason) {
  const Gang* victim = pools_.at(queue).front();
  pools_.at(queue).pop_front();
  taken_.push_back({victim, reason});
  planned_.Remove(queue, state_.AmountsOf(*victim));
  Usage without = planned_;
  without.Remove(queue_, needs_);
  return FitsIn(without, queue_, needs_, true);
}

bool Search::Allows(PreemptionStrategy strategy, int queue, const Gang& victim) const {
  // Who was evicted for it does not evict it by its share.
  if (preemptor_.evicted_for == victim.spec.uid) return false;
  const auto [own_side, other_side] = SidesOf(queue);
  const Share own = planned_.ShareOf(own_side);
  if (strategy == PreemptionStrategy::kLessThanInitialShare) return Less(own, planned_.ShareOf(other_side));
  Usage without = planned_;
  without.Remove(queue, state_.AmountsOf(victim));
  return !Less(without.ShareOf(other_side), own);
}

std::pair<int, int> Search::SidesOf(int queue) const {
  int other_side = queue;
  while (!IsAbovePreemptor(ParentOf(other_side))) other_side = ParentOf(other_side);
  int own_side = queue_;
  while (ParentOf(own_side) != ParentOf(other_side)) own_side = ParentOf(own_side);
  return {own_side, other_side};
}

}  // namespace

Victims FindFair(const State& state, const Books& books, const Gang& preemptor, int queue, const Amounts& needs,
                 const std::set<Fr>& lacking) {
  return Search(state, books, preemptor, queue, needs, lacking).Run();
}

}  // namespace muster::cli::model
