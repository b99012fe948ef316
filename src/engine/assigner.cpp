#include "assigner.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>

#include "machines.h"
#include "muster/core/check.h"
#include "muster/engine/totals.h"
#include "obstacles.h"
#include "placement.h"

namespace muster::engine {

using Requests = std::vector<std::pair<ResourceId, Amount>>;

// One attempt with given counts, under way.
struct Assigner::Attempt {
  const WorkloadState* workload = nullptr;
  const ClusterQueueState* queue = nullptr;
  const ScanProgress* start = nullptr;
  const Assignment* chosen = nullptr;  // whose flavors are the only ones; null: all
  bool empty_machines = false;         // as if no gang were on any, nor in topologies
  bool search_ended = false;
  Assignment out;
};

struct Assigner::GroupChoice {
  Mode mode = Mode::kNoFit;  // of the worst of its resources
  int32_t mode_borrow = 0;   // of that one
  int32_t borrow = 0;        // the highest of all
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
    case ReasonCode::kWaitingForPodsReady:
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

// Of all pods of one pod set.
Requests TotalRequests(const WorkloadState& workload, const ClusterQueueState& queue, size_t index, int32_t count,
                       ResourceId pods) {
  Requests total;
  for (const auto& [resource, amount] : workload.shapes[index]->requests) total.emplace_back(resource, amount * count);
  if (queue.group_of.contains(pods)) total.emplace_back(pods, Amount{count});
  return total;
}

void AddAll(const Requests& more, Requests* sum) {
  for (const auto& [resource, amount] : more) {
    const auto known = std::find_if(sum->begin(), sum->end(),
                                    [&resource = resource](const auto& entry) { return entry.first == resource; });
    if (known == sum->end()) {
      sum->emplace_back(resource, amount);
    } else {
      known->second += amount;
    }
  }
}

// A choice for several pod sets together, as one for each that asks for the resource.
void GiveToEach(const ResourceChoice& chosen, const std::vector<size_t>& members, const std::vector<Requests>& own,
                Assignment* out) {
  for (size_t i = 0; i < members.size(); ++i) {
    for (const auto& [resource, amount] : own[i]) {
      if (resource != chosen.resource) continue;
      ResourceChoice choice = chosen;
      choice.amount = amount;
      out->pod_sets[members[i]].resources.push_back(choice);
    }
  }
}

// What it keeps while it waits for more.
Amount HeldByOriginal(const WorkloadState& workload, FlavorResource fr) {
  if (workload.grows == nullptr) return {};
  for (const auto& [of, amount] : workload.grows->claim->usage) {
    if (of == fr) return amount;
  }
  return {};
}

size_t ScanIndex(const ClusterQueueState& queue, size_t pod_set, size_t group) {
  return pod_set * queue.groups.size() + group;
}

Obstacle NoRoom(const gang::GangToSeat& gang, const gang::RoomAnswer& answer) {
  const gang::PodSetToSeat& pods = gang[answer.pod_set];
  Obstacle obstacle = FlavorObstacle(ObstacleKind::kNoRoom, pods.name, absl::StrJoin(pods.flavors, ", "));
  obstacle.machines = answer.problem;
  return obstacle;
}

// Evictions would have to make room: each of what it asks for may be what is in the way.
void LowerToPreempt(const gang::GangToSeat& gang, const gang::RoomAsker& room, Assignment* assignment) {
  for (size_t i = 0; i < gang.size(); ++i) {
    if (!room.Checks(gang[i].flavors)) continue;
    for (ResourceChoice& resource : assignment->pod_sets[i].resources) {
      resource.mode = std::min(resource.mode, Mode::kPreempt);
    }
  }
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

// How often pods of one of them were not ready in time there, at most.
int32_t TimeOutsOf(const Workload& workload, const std::vector<size_t>& members, const std::string& flavor) {
  int32_t most = 0;
  for (const FlavorTimeOuts& entry : workload.timed_out) {
    if (entry.flavor != flavor) continue;
    const bool of_member = std::any_of(members.begin(), members.end(),
                                       [&](size_t member) { return workload.pod_sets[member].name == entry.pod_set; });
    if (of_member) most = std::max(most, entry.count);
  }
  return most;
}

bool Chose(const PodSetChoice& choice, const FlavorOption& option) {
  return std::any_of(choice.resources.begin(), choice.resources.end(),
                     [&option](const ResourceChoice& resource) { return resource.flavor == option.flavor; });
}

std::vector<int32_t> FullCounts(const Workload& workload) {
  std::vector<int32_t> counts;
  counts.reserve(workload.pod_sets.size());
  for (const PodSet& pod_set : workload.pod_sets) counts.push_back(pod_set.count);
  return counts;
}

// A ResourceQuota is in the way, and no flavor helps.
void Refuse(Obstacle obstacle, Assignment* assignment) {
  assignment->mode = Mode::kNoFit;
  assignment->refused_by_namespace = true;
  if (obstacle.kind == ObstacleKind::kResourceQuotaUnset) {
    assignment->code = ReasonCode::kMisconfigured;
  } else {
    const bool never = obstacle.requested > obstacle.limit;
    assignment->code = never ? ReasonCode::kExceedsMaxQuota : ReasonCode::kWaitingForQuota;
  }
  assignment->obstacles = {std::move(obstacle)};
}

}  // namespace

Assignment Assigner::Assign(const WorkloadState& workload, const ClusterQueueState& queue,
                            const ScanProgress& start) const {
  Assignment assignment = AssignMost(workload, queue, start, nullptr);
  size_t more = 0;
  for (const GroupState& group : queue.groups) more += group.flavors.size();
  // Flavors with quota and no place are passed over.
  for (; more > 0 && !assignment.IsPossible() && assignment.without_places && assignment.scan.HasUntried(); --more) {
    std::vector<Obstacle> obstacles = std::move(assignment.obstacles);
    const ScanProgress next = std::move(assignment.scan);
    assignment = AssignMost(workload, queue, next, nullptr);
    if (assignment.mode == Mode::kFit) continue;
    obstacles.insert(obstacles.end(), assignment.obstacles.begin(), assignment.obstacles.end());
    assignment.obstacles = std::move(obstacles);
  }
  return assignment;
}

Assignment Assigner::AssignOnEmptyMachines(const WorkloadState& workload, const ClusterQueueState& queue,
                                           const ScanProgress& start) const {
  return AssignCounts(workload, queue, FullCounts(workload.spec), start, nullptr, true);
}

std::optional<Assignment> Assigner::AssignmentOf(const WorkloadState& holder) const {
  const Claim& claim = *holder.claim;
  Assignment out;
  if (claim.admission.pod_sets.size() != holder.spec.pod_sets.size()) return std::nullopt;
  for (size_t i = 0; i < holder.spec.pod_sets.size(); ++i) {
    const PodSetAssignment& assigned = claim.admission.pod_sets[i];
    if (assigned.name != holder.spec.pod_sets[i].name) return std::nullopt;
    const auto [count, totals] = StillHeld(assigned, holder.spec.pod_sets[i].count);
    PodSetChoice choice{count, {}, {}, {}};
    for (const auto& [resource, amount] : totals) {
      const auto flavor = std::find_if(assigned.flavors.begin(), assigned.flavors.end(),
                                       [&resource = resource](const auto& entry) { return entry.first == resource; });
      if (flavor == assigned.flavors.end()) continue;
      const FlavorResource fr = catalog_->Find(flavor->second, resource);
      const quota::CellId cell = ledger_->FindCell(claim.queue->node, fr);
      if (cell == quota::kNoCell) return std::nullopt;
      choice.resources.push_back({fr.resource, fr.flavor, cell, amount, Mode::kFit});
      AddTo(&out.usage, cell, amount);
    }
    out.pod_sets.push_back(std::move(choice));
  }
  return out;
}

Assignment Assigner::AssignAgain(const WorkloadState& workload, const ClusterQueueState& queue,
                                 const Assignment& chosen) const {
  return AssignMost(workload, queue, {}, &chosen);
}

Assignment Assigner::AssignMost(const WorkloadState& workload, const ClusterQueueState& queue,
                                const ScanProgress& start, const Assignment* chosen) const {
  const std::vector<int32_t> full = FullCounts(workload.spec);
  Assignment whole = AssignCounts(workload, queue, full, start, chosen);
  if (whole.IsPossible()) return whole;
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
  std::optional<Assignment> best;
  int64_t low = 0;
  int64_t high = total + 1;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    std::vector<int32_t> counts = full;
    for (size_t k = 0; k < counts.size(); ++k) counts[k] -= static_cast<int32_t>(Wide{spare[k]} * middle / total);
    Assignment attempt = AssignCounts(workload, queue, counts, start, chosen);
    if (attempt.IsPossible()) {
      best = std::move(attempt);
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return best.has_value() ? *std::move(best) : whole;
}

Assignment Assigner::Reassign(const WorkloadState& workload, const ClusterQueueState& queue,
                              const Assignment& chosen) const {
  std::vector<int32_t> counts;
  for (const PodSetChoice& choice : chosen.pod_sets) counts.push_back(choice.count);
  return AssignCounts(workload, queue, counts, {}, &chosen);
}

Assignment Assigner::AssignCounts(const WorkloadState& workload, const ClusterQueueState& queue,
                                  const std::vector<int32_t>& counts, const ScanProgress& start,
                                  const Assignment* chosen, bool empty_machines) const {
  Attempt attempt;
  attempt.chosen = chosen;
  attempt.empty_machines = empty_machines;
  attempt.workload = &workload;
  attempt.queue = &queue;
  attempt.start = &start;
  attempt.out.scan.tried.assign(counts.size() * queue.groups.size(), ScanProgress::kNone);
  attempt.out.pod_sets.resize(counts.size());
  for (size_t i = 0; i < counts.size(); ++i) attempt.out.pod_sets[i].count = counts[i];
  // Nobody is to go for room that the namespace would not let it use.
  if (auto refusal = namespaces_->Refusal(workload.spec, counts); refusal.has_value()) {
    Refuse(*std::move(refusal), &attempt.out);
    return std::move(attempt.out);
  }
  for (const std::vector<size_t>& members : PodSetGroups(workload.spec)) {
    if (AssignPodSets(&attempt, members)) continue;
    attempt.out.mode = Mode::kNoFit;
    break;
  }
  if (attempt.out.mode != Mode::kNoFit) PlaceInTopologies(&attempt);
  const bool machines_alone = attempt.out.mode != Mode::kNoFit && PlaceOnMachines(&attempt);
  attempt.out.preemption.ended = attempt.search_ended;
  if (attempt.out.NeedsOthersToGo()) FindVictims(workload, queue, &attempt.out);
  if (machines_alone && !attempt.out.IsPossible()) {
    // It keeps no quota from others.
    attempt.out.mode = Mode::kNoFit;
    attempt.out.code = ReasonCode::kTopologyPlacementFailed;
  }
  if (!attempt.out.preemption.Found() && attempt.out.preemption.ended) {
    Obstacle obstacle = ObjectObstacle(ObstacleKind::kVictimSearchEnded, queue.name);
    obstacle.count = victims_->steps_max();
    attempt.out.obstacles.push_back(std::move(obstacle));
  }
  return std::move(attempt.out);
}

void Assigner::FindVictims(const WorkloadState& workload, const ClusterQueueState& queue,
                           Assignment* assignment) const {
  assignment->code = ReasonCode::kWaitingForQuota;
  VictimQuery query{&workload, &queue, assignment->usage, {}, nullptr};
  for (const PodSetChoice& choice : assignment->pod_sets) {
    for (const ResourceChoice& resource : choice.resources) {
      const FlavorResource fr = ledger_->flavor_resource(resource.cell);
      if (resource.mode == Mode::kFit ||
          std::find(query.needed.begin(), query.needed.end(), fr) != query.needed.end()) {
        continue;
      }
      query.needed.push_back(fr);
    }
  }
  const bool ended = assignment->preemption.ended;
  PlacesOfAssignment places(placer_, machines_, &workload, &queue, *assignment);
  if (assignment->HasPlaces()) query.places = &places;
  assignment->preemption = victims_->Find(query);
  assignment->preemption.ended = assignment->preemption.ended || ended;
  if (!assignment->HasTopology() || !assignment->preemption.Found()) return;
  // Where it goes once they have left.
  for (const Victim& victim : assignment->preemption.victims) places.Move(*victim.workload, true);
  placer_->Place(workload, queue, gang::PlaceView::kPlanned, assignment);
  for (const Victim& victim : assignment->preemption.victims) places.Move(*victim.workload, false);
}

// Quota alone may be enough, and the nodes not; then others would have to go, if that helped.
void Assigner::PlaceInTopologies(Attempt* attempt) const {
  const size_t obstacles_before = attempt->out.obstacles.size();
  if (attempt->out.mode == Mode::kFit) {
    const auto view = attempt->empty_machines ? gang::PlaceView::kEmpty : gang::PlaceView::kBoth;
    if (placer_->Place(*attempt->workload, *attempt->queue, view, &attempt->out)) return;
    attempt->out.mode = Mode::kPreempt;
    attempt->out.without_places = true;
  }
  const size_t obstacles_now = attempt->out.obstacles.size();
  if (placer_->Place(*attempt->workload, *attempt->queue, gang::PlaceView::kEmpty, &attempt->out)) {
    // Where there is quota enough, it may still be that only others' places are in the way.
    for (size_t i = 0; i < attempt->out.pod_sets.size(); ++i) {
      if (!placer_->AsksForTopology(*attempt->queue, attempt->workload->spec.pod_sets[i])) continue;
      for (ResourceChoice& resource : attempt->out.pod_sets[i].resources) {
        resource.mode = std::min(resource.mode, Mode::kPreempt);
      }
    }
    return;
  }
  attempt->out.mode = Mode::kNoFit;
  attempt->out.without_places = true;
  attempt->out.code = ReasonCode::kTopologyPlacementFailed;
  // What is said of the nodes as they are says more.
  if (obstacles_now > obstacles_before) attempt->out.obstacles.resize(obstacles_now);
}

// As in topologies.
bool Assigner::PlaceOnMachines(Attempt* attempt) const {
  gang::RoomAsker* room = machines_->room();
  if (!room->on()) return false;
  Assignment* out = &attempt->out;
  const gang::GangToSeat gang = machines_->PodsOf(*attempt->workload, *out);
  const size_t obstacles_before = out->obstacles.size();
  if (out->mode == Mode::kFit) {
    const auto view = attempt->empty_machines ? gang::RoomView::kEmpty : gang::RoomView::kBoth;
    const gang::RoomAnswer answer = room->Ask(gang, view);
    out->on_machines = answer.checked;
    if (answer.fits) return false;
    out->obstacles.push_back(NoRoom(gang, answer));
    out->mode = Mode::kPreempt;
    out->without_places = true;
  }
  const gang::RoomAnswer empty = room->Ask(gang, gang::RoomView::kEmpty);
  out->on_machines = empty.checked;
  if (!empty.fits) {
    if (out->obstacles.size() == obstacles_before) out->obstacles.push_back(NoRoom(gang, empty));
    out->mode = Mode::kNoFit;
    out->without_places = true;
    out->code = ReasonCode::kTopologyPlacementFailed;
    return true;
  }
  const bool quota_fits = std::all_of(out->pod_sets.begin(), out->pod_sets.end(), [](const PodSetChoice& choice) {
    return std::all_of(choice.resources.begin(), choice.resources.end(),
                       [](const ResourceChoice& resource) { return resource.mode == Mode::kFit; });
  });
  if (quota_fits || !room->Fits(gang, gang::RoomView::kPlanned)) LowerToPreempt(gang, *room, out);
  out->without_places = out->without_places || quota_fits;
  return quota_fits;
}

// RETURNS: false where some resource of them gets no flavor at all.
bool Assigner::AssignPodSets(Attempt* attempt, const std::vector<size_t>& members) const {
  const ClusterQueueState& queue = *attempt->queue;
  const size_t index = members.front();
  std::vector<Requests> own;
  Requests requests;
  for (const size_t member : members) {
    own.push_back(
        TotalRequests(*attempt->workload, queue, member, attempt->out.pod_sets[member].count, catalog_->pods()));
    AddAll(own.back(), &requests);
  }
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
    found[group->second] = FindFlavor(attempt, members, group->second, requests);
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
    for (const size_t member : members) attempt->out.scan.tried[ScanIndex(queue, member, g)] = found[g].tried;
    for (const ResourceChoice& resource : found[g].resources) {
      AddTo(&attempt->out.usage, resource.cell, resource.amount);
      GiveToEach(resource, members, own, &attempt->out);
    }
  }
  return true;
}

Assigner::GroupChoice Assigner::FindFlavor(Attempt* attempt, const std::vector<size_t>& members, size_t group_index,
                                           const Requests& requests) const {
  const size_t index = members.front();
  const ClusterQueueState& queue = *attempt->queue;
  const GroupState& group = queue.groups[group_index];
  size_t first = 0;
  const size_t at = ScanIndex(queue, index, group_index);
  if (at < attempt->start->tried.size() && attempt->start->tried[at] >= 0) {
    first = static_cast<size_t>(attempt->start->tried[at]) + 1;
  }
  const std::vector<bool> passed_over = PassedOver(attempt, members, group);
  size_t end = group.flavors.size();
  while (!passed_over.empty() && passed_over[end - 1]) --end;
  if (first >= end) first = 0;
  GroupChoice best;
  const size_t obstacles_before = attempt->out.obstacles.size();
  std::optional<ReasonCode> code;
  int16_t tried = ScanProgress::kLast;
  for (size_t i = first; i < end; ++i) {
    tried = i + 1 == end ? ScanProgress::kLast : static_cast<int16_t>(i);
    if (!passed_over.empty() && passed_over[i]) continue;
    if (attempt->chosen != nullptr && !Chose(attempt->chosen->pod_sets[index], group.flavors[i])) continue;
    GroupChoice choice;
    const bool suits = std::all_of(members.begin(), members.end(), [&](size_t member) {
      return FlavorSuits(attempt, member, group, group.flavors[i]);
    });
    if (suits) {
      choice = TryFlavor(attempt, members, group, group.flavors[i], requests);
    }
    if (choice.mode == Mode::kNoFit) {
      if (!code.has_value() || Severity(choice.code) < Severity(*code)) code = choice.code;
      continue;
    }
    if (!TriesNextFlavor(queue.spec, choice.mode, choice.mode_borrow)) {
      best = std::move(choice);
      break;
    }
    if (Preferred(choice.mode, choice.mode_borrow, best.mode, best.mode_borrow, queue.spec.preference)) {
      best = std::move(choice);
    }
  }
  best.tried = tried;
  for (size_t i = 0; first == 0 && i < passed_over.size(); ++i) {
    if (!passed_over[i]) continue;
    const std::string& flavor = catalog_->FlavorName(group.flavors[i].flavor);
    const Workload& spec = attempt->workload->spec;
    attempt->out.obstacles.push_back(FlavorObstacle(ObstacleKind::kFlavorTimedOut, spec.pod_sets[index].name, flavor));
    attempt->out.obstacles.back().count = TimeOutsOf(spec, members, flavor);
  }
  // What stood in the way of flavors before the one that fits is in nobody's way.
  if (best.mode == Mode::kFit) attempt->out.obstacles.resize(obstacles_before);
  if (best.mode == Mode::kNoFit) best.code = code.value_or(ReasonCode::kNoMatchingFlavor);
  return best;
}

// Of what they could have, that which they were out of time with more often than with another: so all are tried in
// turn, and the first again once none is left that was tried less.
std::vector<bool> Assigner::PassedOver(Attempt* attempt, const std::vector<size_t>& members,
                                       const GroupState& group) const {
  const WorkloadState& workload = *attempt->workload;
  if (workload.spec.timed_out.empty() || workload.grows != nullptr || attempt->chosen != nullptr) return {};
  std::vector<int32_t> counts;
  std::optional<int32_t> least;
  for (const FlavorOption& option : group.flavors) {
    counts.push_back(TimeOutsOf(workload.spec, members, catalog_->FlavorName(option.flavor)));
    if (least.has_value() && counts.back() >= *least) continue;
    if (CouldHave(attempt, members, group, option)) least = counts.back();
  }
  if (!least.has_value()) return {};
  std::vector<bool> passed_over;
  for (const int32_t count : counts) passed_over.push_back(count > *least);
  return passed_over;
}

// Whether there could be quota and machines for the fewest pods that would do, if nobody else was there.
bool Assigner::CouldHave(Attempt* attempt, const std::vector<size_t>& members, const GroupState& group,
                         const FlavorOption& option) const {
  const WorkloadState& workload = *attempt->workload;
  const size_t obstacles_before = attempt->out.obstacles.size();
  const bool suits = std::all_of(members.begin(), members.end(),
                                 [&](size_t member) { return FlavorSuits(attempt, member, group, option); });
  attempt->out.obstacles.resize(obstacles_before);
  if (!suits) return false;
  Assignment fewest = attempt->out;
  std::vector<Requests> requests;
  for (size_t i = 0; i < fewest.pod_sets.size(); ++i) {
    int32_t& count = fewest.pod_sets[i].count;
    count = std::min(count, workload.spec.pod_sets[i].min_count.value_or(count));
    requests.push_back(TotalRequests(workload, *attempt->queue, i, count, catalog_->pods()));
  }
  for (const quota::CellId cell : option.cells) {
    const ResourceId resource = ledger_->flavor_resource(cell).resource;
    Amount sum;
    for (size_t i = 0; i < requests.size(); ++i) {
      const std::vector<ResourceChoice>& chosen = fewest.pod_sets[i].resources;
      const bool counts = std::find(members.begin(), members.end(), i) != members.end() ||
                          std::any_of(chosen.begin(), chosen.end(), [&](const auto& c) { return c.cell == cell; });
      for (const auto& [asked, amount] : requests[i]) sum += counts && asked == resource ? amount : Amount{};
    }
    if (sum > ledger_->PotentialAvailable(cell)) return false;
  }
  gang::RoomAsker* room = machines_->room();
  return !room->on() ||
         room->Fits(machines_->PodsWith(workload, fewest, members, option.flavor), gang::RoomView::kEmpty);
}

// Pods that are added to a claim have the flavors of those that it is for.
bool Assigner::IsOfOriginal(Attempt* attempt, size_t index, const GroupState& group, const std::string& flavor) const {
  const PodSetAssignment& original = attempt->workload->grows->claim->admission.pod_sets[index];
  for (const ResourceId resource : group.resources) {
    const std::string& name = catalog_->ResourceName(resource);
    const auto had = std::find_if(original.flavors.begin(), original.flavors.end(),
                                  [&name](const auto& entry) { return entry.first == name; });
    if (had == original.flavors.end() || had->second == flavor) continue;
    Obstacle obstacle = FlavorObstacle(ObstacleKind::kOriginalFlavor, original.name, flavor, had->second);
    obstacle.resource = name;
    attempt->out.obstacles.push_back(std::move(obstacle));
    return false;
  }
  return true;
}

bool Assigner::FlavorSuits(Attempt* attempt, size_t index, const GroupState& group, const FlavorOption& option) const {
  const ResourceFlavor* flavor = catalog_->FindFlavor(option.flavor);
  const gang::Shape& shape = *attempt->workload->shapes[index]->shape;
  const std::string& pod_set = attempt->workload->spec.pod_sets[index].name;
  const std::string& name = catalog_->FlavorName(option.flavor);
  if (flavor == nullptr) {
    attempt->out.obstacles.push_back(FlavorObstacle(ObstacleKind::kFlavorNotFound, pod_set, name));
    return false;
  }
  if (attempt->workload->grows != nullptr && !IsOfOriginal(attempt, index, group, name)) return false;
  if (std::optional<Obstacle> obstacle =
          placer_->WhyNotFlavor(*attempt->workload, *attempt->queue, index, *flavor, group)) {
    attempt->out.obstacles.push_back(*std::move(obstacle));
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

Assigner::GroupChoice Assigner::TryFlavor(Attempt* attempt, const std::vector<size_t>& members, const GroupState& group,
                                          const FlavorOption& option, const Requests& requests) const {
  const size_t index = members.front();
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
  if (machines_->room()->on()) worst = ModeOnMachines(attempt, members, option, choice, worst);
  if (worst == Mode::kNoFit) {
    choice.code = ReasonCode::kTopologyPlacementFailed;
    choice.resources.clear();
    return choice;
  }
  choice.mode = worst;
  choice.mode_borrow = worst_borrow;
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
  const Amount held = HeldByOriginal(*attempt->workload, fr);
  if (value + held > potential) {
    obstacle.kind = ObstacleKind::kExceedsMaximum;
    obstacle.assumed += held;
    obstacle.limit = potential;
    SetBound(ledger_->WhyNever(cell, value + held), queue, &obstacle);
    attempt->out.obstacles.push_back(std::move(obstacle));
    return {Mode::kNoFit, 0};
  }
  const quota::BorrowLevel level = ledger_->LevelOf(cell, value, quota::Book::kPlanned);
  if (ledger_->Fits(cell, value)) return {Mode::kFit, level.height};
  obstacle.kind = ObstacleKind::kInsufficientUnused;
  obstacle.missing =
      value - std::min(ledger_->Available(cell, quota::Book::kActual), ledger_->Available(cell, quota::Book::kPlanned));
  obstacle.kept = value <= ledger_->Available(cell, quota::Book::kActual);
  SetBound(ledger_->WhyNot(cell, value), queue, &obstacle);
  attempt->out.obstacles.push_back(std::move(obstacle));
  if (value <= ledger_->limits(cell).nominal || level.may_reclaim || victims_->PreemptsWhileBorrowing(queue.spec)) {
    const VictimSearch::Outlook outlook = victims_->Simulate(*attempt->workload, queue, cell, value);
    attempt->search_ended = attempt->search_ended || outlook.ended;
    return {outlook.mode, outlook.level.height};
  }
  return {Mode::kNoFit, 0};
}

Mode Assigner::ModeOnMachines(Attempt* attempt, const std::vector<size_t>& members, const FlavorOption& option,
                              const GroupChoice& choice, Mode mode) const {
  gang::RoomAsker* room = machines_->room();
  gang::GangToSeat gang = machines_->PodsWith(*attempt->workload, attempt->out, members, option.flavor);
  if (mode == Mode::kFit) {
    const auto view = attempt->empty_machines ? gang::RoomView::kEmpty : gang::RoomView::kBoth;
    const gang::RoomAnswer answer = room->Ask(gang, view);
    if (answer.fits) return mode;
    attempt->out.obstacles.push_back(NoRoom(gang, answer));
    attempt->out.without_places = true;
  }
  const gang::RoomAnswer empty = room->Ask(gang, gang::RoomView::kEmpty);
  if (!empty.fits) {
    if (mode != Mode::kFit) attempt->out.obstacles.push_back(NoRoom(gang, empty));
    return Mode::kNoFit;
  }
  return mode == Mode::kFit ? ModeByEviction(attempt, choice, std::move(gang)) : mode;
}

// There is quota, and others are on the machines.
Mode Assigner::ModeByEviction(Attempt* attempt, const GroupChoice& choice, gang::GangToSeat gang) const {
  PlacesOnMachines places(machines_->room(), std::move(gang));
  VictimQuery query{attempt->workload, attempt->queue, {}, {}, &places};
  for (const ResourceChoice& resource : choice.resources) {
    query.request.emplace_back(resource.cell, AmountIn(attempt->out.usage, resource.cell) + resource.amount);
    query.needed.push_back(ledger_->flavor_resource(resource.cell));
  }
  const VictimAnswer answer = victims_->Find(query);
  attempt->search_ended = attempt->search_ended || answer.ended;
  if (!answer.Found()) return Mode::kNoFit;
  const bool own = answer.waits_in_own_queue ||
                   std::any_of(answer.victims.begin(), answer.victims.end(),
                               [&](const Victim& victim) { return victim.workload->claim->queue == attempt->queue; });
  return own ? Mode::kPreempt : Mode::kReclaim;
}

}  // namespace muster::engine
