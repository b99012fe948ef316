#include "assigner.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "muster/core/check.h"
#include "obstacles.h"

namespace muster::engine {

using Requests = std::vector<std::pair<ResourceId, Amount>>;

// One attempt with given counts, under way.
struct Assigner::Attempt {
  const WorkloadState* workload = nullptr;
  const ClusterQueueState* queue = nullptr;
  const ScanProgress* start = nullptr;
  Assignment out;
};

struct Assigner::GroupChoice {
  Mode mode = Mode::kNoFit;
  int32_t borrow = 0;
  std::vector<ResourceChoice> resources;
  int16_t tried = ScanProgress::kLast;
  ReasonCode code = ReasonCode::kNoMatchingFlavor;  // where the mode is kNoFit
};

namespace {

// The worse a reason, the longer it will last.
int Severity(ReasonCode code) {
  switch (code) {
    case ReasonCode::kNoMatchingFlavor:
      return 4;
    case ReasonCode::kExceedsMaxQuota:
      return 3;
    case ReasonCode::kWaitingForQuota:
      return 2;
    case ReasonCode::kTopologyPlacementFailed:
      return 1;
    case ReasonCode::kPendingEvaluation:
    case ReasonCode::kWaitingForPreemptedWorkloads:
    case ReasonCode::kMisconfigured:
    case ReasonCode::kSuspended:
    case ReasonCode::kAdmissionGated:
    case ReasonCode::kDeactivated:
      return 0;
  }
  return 0;
}

// `a` is to be chosen rather than `b`.
bool Preferred(Mode a, int32_t a_borrow, Mode b, int32_t b_borrow, FungibilityPreference preference) {
  for (const Mode worst : {Mode::kNoFit, Mode::kNoCandidates}) {
    if ((a == worst) != (b == worst)) return b == worst;
  }
  switch (preference) {
    case FungibilityPreference::kUnset:
    case FungibilityPreference::kBorrowingOverPreemption:
      return a != b ? a > b : a_borrow < b_borrow;
    case FungibilityPreference::kPreemptionOverBorrowing:
      return a_borrow != b_borrow ? a_borrow < b_borrow : a > b;
  }
  return false;
}

bool TriesNextFlavor(const ClusterQueue& spec, Mode mode, int32_t borrow) {
  switch (mode) {
    case Mode::kNoFit:
    case Mode::kNoCandidates:
      return true;
    case Mode::kPreempt:
    case Mode::kReclaim:
      if (spec.when_can_preempt == FungibilityPolicy::kTryNextFlavor) return true;
      break;
    case Mode::kFit:
      break;
  }
  return borrow > 0 && spec.when_can_borrow == FungibilityPolicy::kTryNextFlavor;
}

Amount AmountIn(const std::vector<std::pair<quota::CellId, Amount>>& usage, quota::CellId cell) {
  for (const auto& [known, amount] : usage) {
    if (known == cell) return amount;
  }
  return {};
}

void AddTo(std::vector<std::pair<quota::CellId, Amount>>* usage, quota::CellId cell, Amount amount) {
  for (auto& [known, sum] : *usage) {
    if (known == cell) {
      sum += amount;
      return;
    }
  }
  usage->emplace_back(cell, amount);
}

Requests TotalRequests(const WorkloadState& workload, const ClusterQueueState& queue, size_t index, int32_t count,
                       ResourceId pods) {
  Requests total;
  for (const auto& [resource, amount] : workload.shapes[index]->requests) total.emplace_back(resource, amount * count);
  if (queue.group_of.contains(pods)) total.emplace_back(pods, Amount{count});
  return total;
}

size_t ScanIndex(const ClusterQueueState& queue, size_t pod_set, size_t group) {
  return pod_set * queue.groups.size() + group;
}

// Which limit is in the way, and of whom.
void SetBound(const quota::Shortage& shortage, const ClusterQueueState& queue, Obstacle* obstacle) {
  obstacle->bound = shortage.bound;
  obstacle->bound_limit = shortage.limit;
  obstacle->used = shortage.used;
  obstacle->object = queue.name;
  if (shortage.node == queue.node) return;
  const CohortState* cohort = queue.cohort;
  while (cohort->node != shortage.node) cohort = cohort->parent;
  obstacle->of_cohort = true;
  obstacle->object = cohort->name;
}

std::vector<int32_t> FullCounts(const Workload& workload) {
  std::vector<int32_t> counts;
  counts.reserve(workload.pod_sets.size());
  for (const PodSet& pod_set : workload.pod_sets) counts.push_back(pod_set.count);
  return counts;
}

}  // namespace

Assignment Assigner::Assign(const WorkloadState& workload, const ClusterQueueState& queue,
                            const ScanProgress& start) const {
  const std::vector<int32_t> full = FullCounts(workload.spec);
  Assignment whole = AssignCounts(workload, queue, full, start);
  if (whole.mode == Mode::kFit) return whole;
  std::vector<int64_t> spare(full.size());
  int64_t total = 0;
  for (size_t i = 0; i < full.size(); ++i) {
    const std::optional<int32_t>& least = workload.spec.pod_sets[i].min_count;
    if (least.has_value()) spare[i] = std::max<int64_t>(0, int64_t{full[i]} - *least);
    total += spare[i];
  }
  if (total == 0) return whole;
  // Wide enough for the product of any two counts.
  __extension__ using Wide = __int128;
  // The smallest reduction i of [0, total] that fits, as if more pods never fit where fewer do not.
  Assignment best;
  best.mode = Mode::kNoFit;
  int64_t low = 0;
  int64_t high = total + 1;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    std::vector<int32_t> counts = full;
    for (size_t k = 0; k < counts.size(); ++k) counts[k] -= static_cast<int32_t>(Wide{spare[k]} * middle / total);
    Assignment attempt = AssignCounts(workload, queue, counts, start);
    const bool fits = attempt.mode == Mode::kFit;
    if (fits) best = std::move(attempt);
    if (fits) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return best.mode == Mode::kFit ? best : whole;
}

Assignment Assigner::AssignCounts(const WorkloadState& workload, const ClusterQueueState& queue,
                                  const std::vector<int32_t>& counts, const ScanProgress& start) const {
  Attempt attempt;
  attempt.workload = &workload;
  attempt.queue = &queue;
  attempt.start = &start;
  attempt.out.scan.tried.assign(counts.size() * queue.groups.size(), ScanProgress::kNone);
  attempt.out.pod_sets.resize(counts.size());
  for (size_t i = 0; i < counts.size(); ++i) attempt.out.pod_sets[i].count = counts[i];
  for (size_t i = 0; i < counts.size(); ++i) {
    if (AssignPodSet(&attempt, i)) continue;
    attempt.out.mode = Mode::kNoFit;
    break;
  }
  if (attempt.out.mode != Mode::kFit && attempt.out.mode != Mode::kNoFit) {
    attempt.out.code = ReasonCode::kWaitingForQuota;
  }
  return std::move(attempt.out);
}

// RETURNS: false where some resource of it gets no flavor at all.
bool Assigner::AssignPodSet(Attempt* attempt, size_t index) const {
  const ClusterQueueState& queue = *attempt->queue;
  PodSetChoice& choice = attempt->out.pod_sets[index];
  const Requests requests = TotalRequests(*attempt->workload, queue, index, choice.count, catalog_->pods());
  std::vector<GroupChoice> found(queue.groups.size());
  std::vector<bool> decided(queue.groups.size(), false);
  bool ok = true;
  for (const auto& [resource, amount] : requests) {
    const auto group = queue.group_of.find(resource);
    if (group == queue.group_of.end()) {
      if (amount == Amount{0} || ignore_undeclared_) continue;
      Obstacle obstacle =
          FlavorObstacle(ObstacleKind::kResourceNotCovered, attempt->workload->spec.pod_sets[index].name, "");
      obstacle.resource = catalog_->ResourceName(resource);
      obstacle.requested = amount;
      obstacle.object = queue.name;
      attempt->out.obstacles.push_back(std::move(obstacle));
      attempt->out.code = ReasonCode::kNoMatchingFlavor;
      ok = false;
      break;
    }
    if (decided[group->second]) continue;
    decided[group->second] = true;
    found[group->second] = FindFlavor(attempt, index, group->second, requests);
    if (found[group->second].mode != Mode::kNoFit) continue;
    if (Severity(found[group->second].code) > Severity(attempt->out.code)) {
      attempt->out.code = found[group->second].code;
    }
    ok = false;
    break;
  }
  if (!ok) return false;
  for (size_t g = 0; g < found.size(); ++g) {
    if (!decided[g]) continue;
    attempt->out.mode = std::min(attempt->out.mode, found[g].mode);
    attempt->out.borrow = std::max(attempt->out.borrow, found[g].borrow);
    attempt->out.scan.tried[ScanIndex(queue, index, g)] = found[g].tried;
    for (const ResourceChoice& resource : found[g].resources) {
      AddTo(&attempt->out.usage, resource.cell, resource.amount);
      choice.resources.push_back(resource);
    }
  }
  return true;
}

Assigner::GroupChoice Assigner::FindFlavor(Attempt* attempt, size_t index, size_t group_index,
                                           const Requests& requests) const {
  const ClusterQueueState& queue = *attempt->queue;
  const GroupState& group = queue.groups[group_index];
  size_t first = 0;
  const size_t at = ScanIndex(queue, index, group_index);
  if (at < attempt->start->tried.size() && attempt->start->tried[at] >= 0) {
    first = static_cast<size_t>(attempt->start->tried[at]) + 1;
  }
  GroupChoice best;
  const size_t obstacles_before = attempt->out.obstacles.size();
  std::optional<ReasonCode> code;
  int16_t tried = ScanProgress::kLast;
  for (size_t i = first; i < group.flavors.size(); ++i) {
    tried = i + 1 == group.flavors.size() ? ScanProgress::kLast : static_cast<int16_t>(i);
    GroupChoice choice;
    if (FlavorSuits(attempt, index, group.flavors[i])) {
      choice = TryFlavor(attempt, index, group, group.flavors[i], requests);
    }
    if (choice.mode == Mode::kNoFit) {
      if (!code.has_value() || Severity(choice.code) < Severity(*code)) code = choice.code;
      continue;
    }
    if (!TriesNextFlavor(queue.spec, choice.mode, choice.borrow)) {
      best = std::move(choice);
      break;
    }
    if (Preferred(choice.mode, choice.borrow, best.mode, best.borrow, queue.spec.preference)) best = std::move(choice);
  }
  best.tried = tried;
  // What stood in the way of flavors before the one that fits is in nobody's way.
  if (best.mode == Mode::kFit) attempt->out.obstacles.resize(obstacles_before);
  if (best.mode == Mode::kNoFit) best.code = code.value_or(ReasonCode::kNoMatchingFlavor);
  return best;
}

bool Assigner::FlavorSuits(Attempt* attempt, size_t index, const FlavorOption& option) const {
  const ResourceFlavor* flavor = catalog_->FindFlavor(option.flavor);
  const gang::Shape& shape = *attempt->workload->shapes[index]->shape;
  const std::string& pod_set = attempt->workload->spec.pod_sets[index].name;
  const std::string& name = catalog_->FlavorName(option.flavor);
  if (flavor == nullptr) {
    attempt->out.obstacles.push_back(FlavorObstacle(ObstacleKind::kFlavorNotFound, pod_set, name));
    return false;
  }
  if (const gang::Taint* taint = gang::FirstUntolerated(flavor->node_taints, shape.tolerations, flavor->tolerations)) {
    attempt->out.obstacles.push_back(FlavorObstacle(ObstacleKind::kUntoleratedTaint, pod_set, name,
                                                    absl::StrCat(taint->key, "=", taint->value, ":", taint->effect)));
    return false;
  }
  if (const std::string* key = gang::MismatchedSelector(shape, flavor->node_labels)) {
    attempt->out.obstacles.push_back(FlavorObstacle(ObstacleKind::kNodeSelectorMismatch, pod_set, name,
                                                    absl::StrCat(*key, "=", shape.node_selector.find(*key)->second)));
    return false;
  }
  if (!gang::MatchesAffinity(shape, flavor->node_labels)) {
    attempt->out.obstacles.push_back(FlavorObstacle(ObstacleKind::kNodeAffinityMismatch, pod_set, name));
    return false;
  }
  return true;
}

Assigner::GroupChoice Assigner::TryFlavor(Attempt* attempt, size_t index, const GroupState& group,
                                          const FlavorOption& option, const Requests& requests) const {
  GroupChoice choice;
  Mode worst = Mode::kFit;
  int32_t worst_borrow = 0;
  for (size_t r = 0; r < group.resources.size(); ++r) {
    const ResourceId resource = group.resources[r];
    const auto request =
        std::find_if(requests.begin(), requests.end(), [&](const auto& entry) { return entry.first == resource; });
    if (request == requests.end()) continue;
    const auto [mode, borrow] = FitsQuota(attempt, index, option.cells[r], request->second);
    if (Preferred(worst, worst_borrow, mode, borrow, attempt->queue->spec.preference)) {
      worst = mode;
      worst_borrow = borrow;
    }
    if (mode == Mode::kNoFit) {
      choice.code = attempt->out.obstacles.back().kind == ObstacleKind::kExceedsMaximum ? ReasonCode::kExceedsMaxQuota
                                                                                        : ReasonCode::kWaitingForQuota;
      return choice;
    }
    choice.borrow = std::max(choice.borrow, borrow);
    choice.resources.push_back({resource, option.flavor, option.cells[r], request->second, mode});
  }
  if (worst == Mode::kFit && !HasRoom(attempt, index, option.flavor)) {
    choice.code = ReasonCode::kTopologyPlacementFailed;
    choice.resources.clear();
    return choice;
  }
  choice.mode = worst;
  return choice;
}

std::pair<Mode, int32_t> Assigner::FitsQuota(Attempt* attempt, size_t index, quota::CellId cell, Amount amount) const {
  const ClusterQueueState& queue = *attempt->queue;
  const Amount assumed = AmountIn(attempt->out.usage, cell);
  const Amount value = assumed + amount;
  const FlavorResource fr = ledger_->flavor_resource(cell);
  Obstacle obstacle;
  obstacle.pod_set = attempt->workload->spec.pod_sets[index].name;
  obstacle.flavor = catalog_->FlavorName(fr.flavor);
  obstacle.resource = catalog_->ResourceName(fr.resource);
  obstacle.requested = amount;
  obstacle.assumed = assumed;
  const Amount potential = ledger_->PotentialAvailable(cell);
  if (value > potential) {
    obstacle.kind = ObstacleKind::kExceedsMaximum;
    obstacle.limit = potential;
    SetBound(ledger_->WhyNever(cell, value), queue, &obstacle);
    attempt->out.obstacles.push_back(std::move(obstacle));
    return {Mode::kNoFit, 0};
  }
  const quota::BorrowLevel level = ledger_->LevelOf(cell, value, quota::Book::kActual);
  if (ledger_->Fits(cell, value)) return {Mode::kFit, level.height};
  obstacle.kind = ObstacleKind::kInsufficientUnused;
  obstacle.missing =
      value - std::min(ledger_->Available(cell, quota::Book::kActual), ledger_->Available(cell, quota::Book::kPlanned));
  SetBound(ledger_->WhyNot(cell, value), queue, &obstacle);
  attempt->out.obstacles.push_back(std::move(obstacle));
  if (value <= ledger_->limits(cell).nominal || level.may_reclaim ||
      queue.spec.borrow_within_cohort.policy != PreemptionPolicy::kNever) {
    const VictimSearch::Answer answer = victims_->Simulate(*attempt->workload, queue, cell, value, level);
    return {answer.mode, answer.level.height};
  }
  return {Mode::kNoFit, 0};
}

bool Assigner::HasRoom(Attempt* attempt, size_t index, FlavorId flavor) const {
  const std::string& name = catalog_->FlavorName(flavor);
  gang::WhatIf what_if;
  for (size_t i = 0; i < index; ++i) {
    const std::vector<ResourceChoice>& resources = attempt->out.pod_sets[i].resources;
    const bool shares = std::any_of(resources.begin(), resources.end(),
                                    [&](const ResourceChoice& resource) { return resource.flavor == flavor; });
    if (shares) what_if.taken.push_back({attempt->workload->spec.pod_sets[i].shape, attempt->out.pod_sets[i].count});
  }
  const PodSet& pod_set = attempt->workload->spec.pod_sets[index];
  const gang::FitAnswer answer = room_->Fit({pod_set.shape, attempt->out.pod_sets[index].count}, name, what_if);
  switch (answer.verdict) {
    case gang::FitAnswer::Verdict::kUnchecked:
    case gang::FitAnswer::Verdict::kFits:
      return true;
    case gang::FitAnswer::Verdict::kDoesNotFit:
    case gang::FitAnswer::Verdict::kNotFound:
      attempt->out.obstacles.push_back(FlavorObstacle(ObstacleKind::kNoRoom, pod_set.name, name));
      return false;
  }
  return true;
}

}  // namespace muster::engine
