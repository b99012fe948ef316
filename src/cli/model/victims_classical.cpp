#include <algorithm>

#include "plan.h"

namespace muster::cli::model {

namespace {

using engine::EvictionReason;
using engine::PreemptionPolicy;

bool PolicyAllows(PreemptionPolicy policy, const Gang& preemptor, const Gang& candidate) {
  const int32_t own = preemptor.spec.priority;
  const int32_t other = candidate.spec.priority;
  switch (policy) {
    case PreemptionPolicy::kNever:
      return false;
    case PreemptionPolicy::kLowerPriority:
      return own > other;
    case PreemptionPolicy::kLowerOrNewerEqualPriority:
      return own > other || (own == other && preemptor.spec.queue_time < candidate.spec.queue_time);
    case PreemptionPolicy::kAny:
      return true;
  }
  return false;
}

enum class Kind { kHierarchical, kOthers, kOwn };

struct Candidate {
  const Gang* gang = nullptr;
  int common = -1;  // the lowest cohort above both
  Kind kind = Kind::kOwn;
};

class Search {
 public:
  Search(const State& state, const Books& books, const Gang& preemptor, int queue, const Amounts& needs,
         const std::set<Fr>& lacking)
      : state_(state), preemptor_(preemptor), queue_(queue), needs_(needs), lacking_(lacking), books_(books) {}

  Victims Run() {
    Collect();
    Victims victims;
    for (const bool may_borrow : Attempts()) {
      victims.targets = Try(may_borrow);
      if (!victims.targets.empty()) break;
    }
    return victims;
  }

 private:
  const engine::ClusterQueue& spec() const { return state_.SpecOf(queue_); }
  void Collect();
  // ClusterQueues below the cohort, but those in `seen`, with all cohorts on the way above their quota.
  void CollectBelow(int cohort, int common, int seen, Kind kind);
  void AddFrom(int from, int common, Kind kind, PreemptionPolicy policy);
  std::vector<bool> Attempts() const;
  std::vector<Target> Try(bool may_borrow) const;
  bool IsStillAbove(const Usage& planned, const Candidate& candidate) const;
  bool MayGoWhileBorrowing(const Gang& gang) const;
  EvictionReason ReasonOf(const Candidate& candidate) const;

  const State& state_;
  const Gang& preemptor_;
  int queue_;
  const Amounts& needs_;
  const std::set<Fr>& lacking_;
  const Books& books_;
  std::vector<Candidate> candidates_;
};

void Search::AddFrom(int from, int common, Kind kind, PreemptionPolicy policy) {
  for (const Gang* gang : Candidates(state_, books_, preemptor_, from, policy, lacking_)) {
    candidates_.push_back({gang, common, kind});
  }
}

void Search::CollectBelow(int cohort, int common, int seen, Kind kind) {
  for (const int child : state_.tree.node(cohort).children) {
    if (child == seen || child == queue_ || books_.planned.WithinQuota(child, lacking_)) continue;
    if (!state_.tree.node(child).is_queue) {
      CollectBelow(child, common, seen, kind);
    } else if (state_.IsActive(child)) {
      AddFrom(child, common, kind, spec().reclaim_within_cohort);
    }
  }
}

void Search::Collect() {
  AddFrom(queue_, -1, Kind::kOwn, spec().within_cluster_queue);
  if (spec().reclaim_within_cohort != PreemptionPolicy::kNever) {
    Amounts rest = needs_;
    const auto fits_at = [&](int node) {
      bool fits = true;
      for (auto& [fr, amount] : rest) {
        fits = fits && !books_.planned.Borrows(node, fr, amount);
        amount = std::max(Amount{0}, amount - books_.planned.LocalAvailable(node, fr));
      }
      return fits;
    };
    bool advantage = fits_at(queue_);
    int seen = queue_;
    for (int at = state_.tree.node(queue_).parent; at >= 0; at = state_.tree.node(at).parent) {
      CollectBelow(at, at, seen, advantage ? Kind::kHierarchical : Kind::kOthers);
      advantage = fits_at(at) || advantage;
      seen = at;
    }
  }
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.kind != b.kind ? a.kind < b.kind : GoesBefore(*a.gang, *b.gang);
  });
}

std::vector<bool> Search::Attempts() const {
  const auto has = [this](Kind kind) {
    return std::any_of(candidates_.begin(), candidates_.end(), [&](const Candidate& one) { return one.kind == kind; });
  };
  const bool borrows = spec().borrow_within_cohort.policy != PreemptionPolicy::kNever;
  const bool under_nominal = std::all_of(lacking_.begin(), lacking_.end(), [this](Fr fr) {
    return books_.planned.Used(queue_, fr) < state_.tree.QuotaOf(queue_, fr).nominal;
  });
  if (!has(Kind::kHierarchical) && !has(Kind::kOthers)) return {true};
  if (!borrows && !under_nominal) return {true};
  if (!borrows && !has(Kind::kHierarchical)) return {false, true};
  return {true, false};
}

bool Search::IsStillAbove(const Usage& planned, const Candidate& candidate) const {
  for (int at = state_.HeldIn(*candidate.gang); at != candidate.common; at = state_.tree.node(at).parent) {
    if (planned.WithinQuota(at, lacking_)) return false;
  }
  return true;
}

bool Search::MayGoWhileBorrowing(const Gang& gang) const {
  const engine::BorrowWithinCohort& borrow = spec().borrow_within_cohort;
  return borrow.policy != PreemptionPolicy::kNever && gang.spec.priority < preemptor_.spec.priority &&
         (!borrow.max_priority_threshold.has_value() || gang.spec.priority <= *borrow.max_priority_threshold) &&
         preemptor_.evicted_for != gang.spec.uid;
}

EvictionReason Search::ReasonOf(const Candidate& candidate) const {
  if (candidate.kind == Kind::kOwn) return EvictionReason::kInClusterQueue;
  return candidate.kind == Kind::kOthers && MayGoWhileBorrowing(*candidate.gang)
             ? EvictionReason::kInCohortReclaimWhileBorrowing
             : EvictionReason::kInCohortReclamation;
}

std::vector<Target> Search::Try(bool may_borrow) const {
  Usage planned = books_.planned;
  std::vector<Target> taken;
  for (const Candidate& candidate : candidates_) {
    if (candidate.kind != Kind::kOwn && !IsStillAbove(planned, candidate)) continue;
    if (may_borrow && candidate.kind == Kind::kOthers && !MayGoWhileBorrowing(*candidate.gang)) continue;
    taken.push_back({candidate.gang, ReasonOf(candidate)});
    planned.Remove(state_.HeldIn(*candidate.gang), state_.AmountsOf(*candidate.gang));
    if (!FitsIn(planned, queue_, needs_, may_borrow)) continue;
    return FillBack(state_, planned, taken, queue_, needs_, may_borrow);
  }
  return {};
}

}  // namespace

bool FitsIn(const Usage& usage, int queue, const Amounts& needs, bool may_borrow) {
  return usage.Fits(queue, needs) && (may_borrow || std::none_of(needs.begin(), needs.end(), [&](const auto& need) {
                                        return usage.Borrows(queue, need.first, need.second);
                                      }));
}

std::vector<Target> FillBack(const State& state, Usage planned, const std::vector<Target>& taken, int queue,
                             const Amounts& needs, bool may_borrow) {
  std::vector<Target> targets = taken;
  for (size_t i = taken.size() - 1; i-- > 0;) {
    const Gang& gang = *taken[i].gang;
    Usage with = planned;
    with.Add(state.HeldIn(gang), state.AmountsOf(gang));
    if (!FitsIn(with, queue, needs, may_borrow)) continue;
    planned = with;
    targets[i] = targets.back();
    targets.pop_back();
  }
  return targets;
}

bool Uses(const State& state, const Gang& gang, const std::set<Fr>& any) {
  const Amounts amounts = state.AmountsOf(gang);
  return std::any_of(any.begin(), any.end(), [&](Fr fr) { return amounts.contains(fr); });
}

std::vector<const Gang*> Candidates(const State& state, const Books& books, const Gang& preemptor, int from,
                                    PreemptionPolicy policy, const std::set<Fr>& lacking) {
  std::vector<const Gang*> candidates;
  for (const auto& [uid, gang] : state.gangs) {
    if (state.HeldIn(gang) != from || books.leaving.contains(&gang)) continue;
    if (!PolicyAllows(policy, preemptor, gang) || !Uses(state, gang, lacking)) continue;
    if (preemptor.preempted.contains(uid)) continue;
    candidates.push_back(&gang);
  }
  std::sort(candidates.begin(), candidates.end(), [](const Gang* a, const Gang* b) { return GoesBefore(*a, *b); });
  return candidates;
}

Victims FindVictims(const State& state, const Books& books, const Gang& preemptor, int queue, const Amounts& needs,
                    const std::set<Fr>& lacking) {
  if (!FitsIn(books.planned, queue, needs, true)) {
    return (state.fair_sharing.has_value() ? FindFair : FindClassical)(state, books, preemptor, queue, needs, lacking);
  }
  // Those who are leaving are enough.
  Victims victims;
  const engine::ClusterQueue& spec = state.SpecOf(queue);
  for (const Gang* gang : books.leaving) {
    const bool own = state.HeldIn(*gang) == queue;
    const PreemptionPolicy policy = own ? spec.within_cluster_queue : spec.reclaim_within_cohort;
    if (!PolicyAllows(policy, preemptor, *gang) || !Uses(state, *gang, lacking)) continue;
    victims.waits = true;
    victims.waits_in_own = victims.waits_in_own || own;
  }
  return victims;
}

Victims FindClassical(const State& state, const Books& books, const Gang& preemptor, int queue, const Amounts& needs,
                      const std::set<Fr>& lacking) {
  return Search(state, books, preemptor, queue, needs, lacking).Run();
}

}  // namespace muster::cli::model
