#include "plan.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace muster::cli::model {

namespace {

using engine::FungibilityPolicy;
using engine::FungibilityPreference;
using engine::PreemptionPolicy;

using engine::ReasonCode;

struct Rank {
  Mode mode = Mode::kNoFit;
  int borrow = 0;
  ReasonCode code = ReasonCode::kWaitingForQuota;  // where the mode is kNoFit
};

// The worse a reason, the longer it will last.
int SeverityOf(ReasonCode code) {
  return code == ReasonCode::kNoMatchingFlavor ? 2 : code == ReasonCode::kExceedsMaxQuota ? 1 : 0;
}

bool IsBetter(const Rank& a, const Rank& b, FungibilityPreference preference) {
  for (const Mode worst : {Mode::kNoFit, Mode::kNoCandidates}) {
    if (a.mode == worst || b.mode == worst) {
      if (a.mode != b.mode) return b.mode == worst;
    }
  }
  if (preference == FungibilityPreference::kPreemptionOverBorrowing) {
    return a.borrow != b.borrow ? a.borrow < b.borrow : a.mode > b.mode;
  }
  return a.mode != b.mode ? a.mode > b.mode : a.borrow < b.borrow;
}

bool LooksFurther(const Rank& rank, const engine::ClusterQueue& spec) {
  if (rank.mode == Mode::kNoFit || rank.mode == Mode::kNoCandidates) return true;
  if (rank.mode != Mode::kFit && spec.when_can_preempt == FungibilityPolicy::kTryNextFlavor) return true;
  return rank.borrow > 0 && spec.when_can_borrow == FungibilityPolicy::kTryNextFlavor;
}

// One try with given counts.
class Attempt {
 public:
  Attempt(const State& state, const Books& books, const Gang& gang, int queue, const std::vector<int>& start,
          const Plan* chosen)
      : state_(state), books_(books), gang_(gang), queue_(queue), start_(start), chosen_(chosen) {}

  Plan Run(const std::vector<int32_t>& counts);

 private:
  const engine::ClusterQueue& spec() const { return state_.SpecOf(queue_); }
  std::vector<std::pair<std::string, Amount>> RequestsOf(size_t index) const;
  std::optional<size_t> GroupOf(const std::string& resource) const;
  bool AssignPodSet(size_t index);
  bool Suits(size_t index, const std::string& flavor) const;
  Rank RankOf(const engine::FlavorQuotas& flavor, const std::map<std::string, Amount>& requests, std::set<Fr>* lacking,
              int* borrow) const;
  Rank RankOf(Fr fr, Amount amount) const;

  struct Found {
    Rank rank;
    int borrow = 0;
    int tried = Scan::kLast;
    std::string flavor;
    std::set<Fr> lacking;
  };
  Found FindFlavor(size_t index, size_t group, const std::map<std::string, Amount>& requests) const;

  const State& state_;
  const Books& books_;
  const Gang& gang_;
  int queue_;
  const std::vector<int>& start_;
  const Plan* chosen_;
  Plan out_;
};

Plan Attempt::Run(const std::vector<int32_t>& counts) {
  out_.counts = counts;
  out_.flavors.resize(counts.size());
  out_.tried.assign(counts.size() * spec().resource_groups.size(), Scan::kNone);
  for (size_t i = 0; i < counts.size(); ++i) {
    if (AssignPodSet(i)) continue;
    out_.mode = Mode::kNoFit;
    break;
  }
  if (out_.NeedsOthersToGo()) {
    out_.code = ReasonCode::kWaitingForQuota;
    out_.victims = FindVictims(state_, books_, gang_, queue_, out_.needs, out_.lacking);
  }
  return out_;
}

// By name, `pods` at the end.
std::vector<std::pair<std::string, Amount>> Attempt::RequestsOf(size_t index) const {
  std::vector<std::pair<std::string, Amount>> requests;
  for (const auto& [resource, amount] : gang_.spec.pod_sets[index].shape->requests) {
    requests.emplace_back(resource, amount * out_.counts[index]);
  }
  if (GroupOf("pods").has_value()) requests.emplace_back("pods", Amount{out_.counts[index]});
  return requests;
}

std::optional<size_t> Attempt::GroupOf(const std::string& resource) const {
  const std::vector<engine::ResourceGroup>& groups = spec().resource_groups;
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::vector<std::string>& covered = groups[g].covered_resources;
    if (std::find(covered.begin(), covered.end(), resource) != covered.end()) return g;
  }
  return std::nullopt;
}

bool Attempt::AssignPodSet(size_t index) {
  const std::vector<std::pair<std::string, Amount>> requests = RequestsOf(index);
  std::map<size_t, std::map<std::string, Amount>> asked;  // by group
  for (const auto& [resource, amount] : requests) {
    if (const std::optional<size_t> group = GroupOf(resource)) asked[*group][resource] = amount;
  }
  std::map<size_t, Found> found;
  for (const auto& [resource, amount] : requests) {
    const std::optional<size_t> group = GroupOf(resource);
    if (!group.has_value()) {
      if (amount == Amount{0}) continue;
      out_.code = ReasonCode::kNoMatchingFlavor;
      return false;
    }
    if (found.contains(*group)) continue;
    const Found& here = found[*group] = FindFlavor(index, *group, asked[*group]);
    if (here.rank.mode != Mode::kNoFit) continue;
    out_.code = here.rank.code;
    return false;
  }
  for (const auto& [group, here] : found) {
    out_.mode = std::min(out_.mode, here.rank.mode);
    out_.borrow = std::max(out_.borrow, here.borrow);
    out_.tried[index * spec().resource_groups.size() + group] = here.tried;
    out_.lacking.insert(here.lacking.begin(), here.lacking.end());
    for (const auto& [resource, amount] : asked[group]) {
      out_.flavors[index][resource] = here.flavor;
      out_.needs[state_.tree.FrOf(here.flavor, resource)] += amount;
    }
  }
  return true;
}

Attempt::Found Attempt::FindFlavor(size_t index, size_t group, const std::map<std::string, Amount>& requests) const {
  const std::vector<engine::FlavorQuotas>& flavors = spec().resource_groups[group].flavors;
  const size_t at = index * spec().resource_groups.size() + group;
  const size_t first = at < start_.size() && start_[at] >= 0 ? static_cast<size_t>(start_[at]) + 1 : 0;
  Found best;
  int tried = Scan::kLast;
  std::optional<ReasonCode> code;  // the least severe
  const auto note = [&code](ReasonCode other) {
    if (!code.has_value() || SeverityOf(other) < SeverityOf(*code)) code = other;
  };
  for (size_t i = first; i < flavors.size(); ++i) {
    const std::string& flavor = flavors[i].flavor;
    tried = i + 1 == flavors.size() ? Scan::kLast : static_cast<int>(i);
    if (chosen_ != nullptr && chosen_->flavors[index].at(requests.begin()->first) != flavor) continue;
    if (!Suits(index, flavor)) {
      note(ReasonCode::kNoMatchingFlavor);
      continue;
    }
    Found here;
    here.flavor = flavor;
    here.rank = RankOf(flavors[i], requests, &here.lacking, &here.borrow);
    if (here.rank.mode == Mode::kNoFit) {
      note(here.rank.code);
      continue;
    }
    const bool further = LooksFurther(here.rank, spec());
    if (!further || IsBetter(here.rank, best.rank, spec().preference)) best = here;
    if (!further) break;
  }
  best.tried = tried;
  if (best.rank.mode == Mode::kNoFit) best.rank.code = code.value_or(ReasonCode::kNoMatchingFlavor);
  return best;
}

bool Attempt::Suits(size_t index, const std::string& name) const {
  const auto flavor = state_.flavors.find(name);
  if (flavor == state_.flavors.end()) return false;
  const gang::Shape& shape = *gang_.spec.pod_sets[index].shape;
  return gang::FirstUntolerated(flavor->second.node_taints, shape.tolerations, flavor->second.tolerations) == nullptr &&
         gang::MismatchedSelector(shape, flavor->second.node_labels) == nullptr &&
         gang::MatchesAffinity(shape, flavor->second.node_labels);
}

// In the order of the ClusterQueue: the first that never fits says why.
Rank Attempt::RankOf(const engine::FlavorQuotas& flavor, const std::map<std::string, Amount>& requests,
                     std::set<Fr>* lacking, int* borrow) const {
  Rank worst{Mode::kFit, 0};
  for (const engine::ResourceQuota& quota : flavor.resources) {
    const auto request = requests.find(quota.resource);
    if (request == requests.end()) continue;
    const Fr fr = state_.tree.FrOf(flavor.flavor, quota.resource);
    const auto assumed = out_.needs.find(fr);
    const Rank rank = RankOf(fr, request->second + (assumed == out_.needs.end() ? Amount{0} : assumed->second));
    if (rank.mode == Mode::kNoFit) return rank;
    if (rank.mode != Mode::kFit) lacking->insert(fr);
    *borrow = std::max(*borrow, rank.borrow);
    if (IsBetter(worst, rank, spec().preference)) worst = rank;
  }
  return worst;
}

Rank Attempt::RankOf(Fr fr, Amount amount) const {
  if (amount > state_.tree.Potential(queue_, fr)) return {Mode::kNoFit, 0, ReasonCode::kExceedsMaxQuota};
  const Level level = books_.planned.LevelOf(queue_, fr, amount);
  if (books_.Fits(queue_, {{fr, amount}})) return {Mode::kFit, level.height};
  const bool may_preempt_borrowing = state_.fair_sharing.has_value()
                                         ? spec().reclaim_within_cohort != PreemptionPolicy::kNever
                                         : spec().borrow_within_cohort.policy != PreemptionPolicy::kNever;
  if (amount > state_.tree.QuotaOf(queue_, fr).nominal && !level.may_reclaim && !may_preempt_borrowing) {
    return {Mode::kNoFit, 0};
  }
  const Victims victims = FindVictims(state_, books_, gang_, queue_, {{fr, amount}}, {fr});
  Usage after = books_.planned;
  bool own = victims.waits_in_own;
  for (const Target& target : victims.targets) {
    after.Remove(state_.HeldIn(*target.gang), state_.AmountsOf(*target.gang));
    own = own || state_.HeldIn(*target.gang) == queue_;
  }
  const int height = after.LevelOf(queue_, fr, amount).height;
  if (!victims.Found()) return {Mode::kNoCandidates, height};
  return {own ? Mode::kPreempt : Mode::kReclaim, height};
}

std::vector<int32_t> FullCounts(const Gang& gang) {
  std::vector<int32_t> counts;
  for (const engine::PodSet& pod_set : gang.spec.pod_sets) counts.push_back(pod_set.count);
  return counts;
}

}  // namespace

Plan MakePlan(const State& state, const Books& books, const Gang& gang, int queue, const std::vector<int>& start) {
  const auto with = [&](const std::vector<int32_t>& counts) {
    return Attempt(state, books, gang, queue, start, nullptr).Run(counts);
  };
  const std::vector<int32_t> full = FullCounts(gang);
  Plan whole = with(full);
  if (whole.IsPossible()) return whole;
  std::vector<int64_t> spare;
  int64_t total = 0;
  for (const engine::PodSet& pod_set : gang.spec.pod_sets) {
    spare.push_back(pod_set.min_count.has_value() ? std::max(0, pod_set.count - *pod_set.min_count) : 0);
    total += spare.back();
  }
  // The smallest reduction that is found by halving, as the reference does, though fewer pods need not fit where more
  // do.
  std::optional<Plan> best;
  for (int64_t low = 0, high = total + 1; total > 0 && low < high;) {
    const int64_t middle = (low + high) / 2;
    std::vector<int32_t> counts = full;
    for (size_t k = 0; k < counts.size(); ++k) counts[k] -= static_cast<int32_t>(spare[k] * middle / total);
    Plan plan = with(counts);
    if (plan.IsPossible()) {
      best = std::move(plan);
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return best.has_value() ? *best : whole;
}

Plan PlanAgain(const State& state, const Books& books, const Gang& gang, int queue, const Plan& chosen) {
  return Attempt(state, books, gang, queue, {}, &chosen).Run(chosen.counts);
}

}  // namespace muster::cli::model
