// What one gang would get, and who would have to go for it: flavors, counts and victims, by the rules alone.
//
// Source: kueue_semantics 5.6, 5.7, 6.
// Threading: pure functions.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "state.h"

namespace muster::cli::model {

// From worst to best. All between kNoFit and kFit need somebody else to go first.
enum class Mode { kNoFit, kNoCandidates, kPreempt, kReclaim, kFit };

struct Target {
  const Gang* gang = nullptr;
  engine::EvictionReason reason = engine::EvictionReason::kInClusterQueue;
};

struct Victims {
  std::vector<Target> targets;  // in the order in which they are to go
  bool waits = false;           // those who are leaving are enough, and of them it might evict some
  bool waits_in_own = false;    // some of those are in its own ClusterQueue
  bool Found() const { return waits || !targets.empty(); }
};

// Who has to go so that `needs` fit in `queue`; each uses some of `lacking`.
Victims FindVictims(const State& state, const Books& books, const Gang& preemptor, int queue, const Amounts& needs,
                    const std::set<Fr>& lacking);
Victims FindClassical(const State& state, const Books& books, const Gang& preemptor, int queue, const Amounts& needs,
                      const std::set<Fr>& lacking);
Victims FindFair(const State& state, const Books& books, const Gang& preemptor, int queue, const Amounts& needs,
                 const std::set<Fr>& lacking);
// Whom it might evict by `policy` among those in `from`: in the order in which they are to go.
std::vector<const Gang*> Candidates(const State& state, const Books& books, const Gang& preemptor, int from,
                                    engine::PreemptionPolicy policy, const std::set<Fr>& lacking);
bool Uses(const State& state, const Gang& gang, const std::set<Fr>& any);
// Once it fits: of those that are gone from `planned`, who must stay away; the last one must.
std::vector<Target> FillBack(const State& state, Usage planned, const std::vector<Target>& taken, int queue,
                             const Amounts& needs, bool may_borrow);
bool FitsIn(const Usage& usage, int queue, const Amounts& needs, bool may_borrow);

struct Plan {
  Mode mode = Mode::kFit;  // the worst of all
  int borrow = 0;          // the highest of all
  // Why it waits, unless it fits.
  engine::ReasonCode code = engine::ReasonCode::kWaitingForQuota;
  std::vector<int32_t> counts;
  std::vector<std::map<std::string, std::string>> flavors;  // by pod set: resource -> flavor
  Amounts needs;
  std::set<Fr> lacking;  // of those, what does not fit
  std::vector<int> tried;
  Victims victims;

  bool NeedsOthersToGo() const { return mode != Mode::kNoFit && mode != Mode::kFit; }
  bool IsPossible() const { return mode == Mode::kFit || victims.Found(); }
};

// `start`: where the scan of flavors goes on; empty: from the first.
Plan MakePlan(const State& state, const Books& books, const Gang& gang, int queue, const std::vector<int>& start);
// With the counts and flavors of `chosen`.
Plan PlanAgain(const State& state, const Books& books, const Gang& gang, int queue, const Plan& chosen);

}  // namespace muster::cli::model
