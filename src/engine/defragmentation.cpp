#include "defragmentation.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "tree_pass.h"

namespace muster::engine {

namespace {

// Questions about places that one search asks, at most: each is one look at all nodes of a flavor.
constexpr int64_t kStepsMax = 4000;

// Places in topologies that are taken in the planned book, for the length of a scope.
class PlannedPlaces {
 public:
  explicit PlannedPlaces(gang::TopologyBook* book) : book_(book) {}
  ~PlannedPlaces() {
    for (const gang::PlacedPodSet& place : taken_) book_->Release(place, gang::PlaceBook::kPlanned);
  }
  PlannedPlaces(const PlannedPlaces&) = delete;
  PlannedPlaces& operator=(const PlannedPlaces&) = delete;

  void Take(const std::vector<gang::PlacedPodSet>& places) {
    for (const gang::PlacedPodSet& place : places) book_->Take(place, gang::PlaceBook::kPlanned);
    taken_.insert(taken_.end(), places.begin(), places.end());
  }

 private:
  gang::TopologyBook* book_;
  std::vector<gang::PlacedPodSet> taken_;
};

void Cancel(MovePlan* plan) {
  plan->machines.Cancel();
  for (MovePlan::Moved& moved : plan->moved) moved.machines.Cancel();
}

// The node labels whose values tell the domains apart that are to be emptied for the pod set.
std::vector<std::string> LevelsToEmpty(const gang::TopologyRequest& request, const gang::Topology& topology) {
  std::string level = request.required;
  if (level.empty() && !request.slices.empty()) level = request.slices.front().topology;
  const auto at = std::find(topology.levels.begin(), topology.levels.end(), level);
  return at == topology.levels.end() ? topology.levels : std::vector<std::string>(topology.levels.begin(), at + 1);
}

}  // namespace

std::optional<MovePlan> MoveSearch::Find(const WorkloadState& workload, const ClusterQueueState& queue) {
  candidates_ = CandidatesFor(workload);
  if (candidates_.empty()) return std::nullopt;
  steps_left_ = kStepsMax;
  size_t flavors = 1;
  for (const GroupState& group : queue.groups) flavors += group.flavors.size();
  ScanProgress start;
  for (; flavors > 0; --flavors) {
    const Assignment wanted = assigner_->AssignOnEmptyMachines(workload, queue, start);
    if (wanted.mode == Mode::kFit && wanted.HasPlaces()) {
      if (std::optional<MovePlan> plan = FindIn(workload, queue, wanted)) return plan;
    }
    if (!wanted.scan.HasUntried()) break;
    start = wanted.scan;
  }
  return std::nullopt;
}

std::vector<MoveSearch::Candidate> MoveSearch::CandidatesFor(const WorkloadState& workload) {
  std::vector<Candidate> candidates;
  for (const ClusterQueueState* queue : tree_->queues) {
    if (!queue->active) continue;
    for (WorkloadState* holder : queue->preemptible) {
      const Claim& claim = *holder->claim;
      const bool settled = claim.admitted && !claim.withdrawn && holder->growth == nullptr &&
                           !claim.before_growth.has_value() && claim.failed_hosts.empty() &&
                           !claim.lacking_since.IsSet();
      if (!holder->spec.movable || !settled || workload.preempted.contains(holder->spec.uid)) continue;
      if (host_->HadToGoFor(workload, *holder) || !host_->ComesBack(*holder)) continue;
      if (claim.state == ClaimState::kPlanned) {  // it would be started only to be stopped
        some_start_ = true;
        continue;
      }
      std::optional<Assignment> held = assigner_->AssignmentOf(*holder);
      if (!held.has_value()) continue;
      Candidate candidate{holder, *std::move(held), 0};
      for (const PodSetChoice& choice : candidate.held.pod_sets) candidate.pods += choice.count;
      candidates.push_back(std::move(candidate));
    }
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.pods != b.pods ? a.pods < b.pods : VictimOrder()(a.workload, b.workload);
  });
  return candidates;
}

std::optional<MovePlan> MoveSearch::FindIn(const WorkloadState& workload, const ClusterQueueState& queue,
                                           const Assignment& wanted) {
  PlacesOfAssignment places(placer_, machines_, &workload, &queue, wanted);
  Group best;
  for (const Group& set : SetsOf(GroupsFor(workload, wanted), &places)) {
    if (steps_left_ <= 0) break;
    const Group moved = Fewest(set, &places);
    if (moved.empty() || (!best.empty() && PodsOf(best) <= PodsOf(moved))) continue;
    std::optional<MovePlan> plan = Plan(workload, queue, wanted, moved, &places);
    if (!plan.has_value()) continue;
    Cancel(&*plan);
    best = moved;
  }
  if (best.empty()) return std::nullopt;
  return Plan(workload, queue, wanted, best, &places);
}

std::vector<MoveSearch::Group> MoveSearch::GroupsFor(const WorkloadState& workload, const Assignment& wanted) const {
  std::map<std::vector<std::string>, std::set<size_t>> in_domain;
  const auto add = [&](std::vector<std::string> domain, size_t candidate) {
    in_domain[std::move(domain)].insert(candidate);
  };
  bool on_nodes = false;
  for (size_t i = 0; i < wanted.pod_sets.size(); ++i) {
    if (!wanted.pod_sets[i].topology.has_value()) {
      on_nodes = on_nodes || wanted.on_machines;
      continue;
    }
    const gang::FlavorNodes* flavor = placer_->FlavorNodesOf(wanted.pod_sets[i].topology_flavor);
    if (flavor == nullptr) continue;
    const std::vector<std::string> levels = LevelsToEmpty(workload.spec.pod_sets[i].topology, flavor->topology);
    for (size_t c = 0; c < candidates_.size(); ++c) {
      for (const gang::PlacedPodSet& place : candidates_[c].workload->claim->places) {
        for (std::vector<std::string>& domain : tree_->topologies->DomainsOf(place, levels)) add(std::move(domain), c);
      }
    }
  }
  for (size_t c = 0; on_nodes && c < candidates_.size(); ++c) {
    for (std::string& node : candidates_[c].workload->claim->machines.Nodes()) add({"", std::move(node)}, c);
  }
  std::vector<Group> groups;
  for (const auto& [domain, members] : in_domain) groups.emplace_back(members.begin(), members.end());
  std::stable_sort(groups.begin(), groups.end(),
                   [this](const Group& a, const Group& b) { return PodsOf(a) < PodsOf(b); });
  return groups;
}

std::vector<MoveSearch::Group> MoveSearch::SetsOf(std::vector<Group> groups, PlaceQuery* places) {
  // How many of the cheapest domains have to be emptied together: more never make less room.
  const auto first = [&groups](size_t count) {
    std::set<size_t> members;
    for (size_t i = 0; i < count; ++i) members.insert(groups[i].begin(), groups[i].end());
    return Group(members.begin(), members.end());
  };
  size_t low = 1;
  size_t high = groups.size() + 1;
  while (low < high && steps_left_ > 0) {
    const size_t middle = low + (high - low) / 2;
    const Group together = first(middle);
    Move(together, true, places);
    const bool fits = Fits(places);
    Move(together, false, places);
    if (fits) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (low == high && low <= groups.size()) groups.push_back(first(low));
  std::set<Group> seen;
  std::vector<Group> sets;
  for (Group& group : groups) {
    if (seen.insert(group).second) sets.push_back(std::move(group));
  }
  return sets;
}

MoveSearch::Group MoveSearch::Fewest(const Group& of, PlaceQuery* places) {
  Group moved;
  Move(of, true, places);
  if (Fits(places)) {
    // Those that cost most stay first.
    for (auto it = of.rbegin(); it != of.rend(); ++it) {
      Move({*it}, false, places);
      if (Fits(places)) continue;
      Move({*it}, true, places);
      moved.push_back(*it);
    }
    Move(moved, false, places);
    std::reverse(moved.begin(), moved.end());
  } else {
    Move(of, false, places);
  }
  return moved;
}

bool MoveSearch::Fits(PlaceQuery* places) { return steps_left_-- > 0 && places->Fits(); }

std::optional<MovePlan> MoveSearch::Plan(const WorkloadState& workload, const ClusterQueueState& queue,
                                         const Assignment& wanted, const Group& moved, PlaceQuery* places) {
  steps_left_ -= 1 + static_cast<int64_t>(moved.size());
  Move(moved, true, places);
  PlannedPlaces taken(tree_->topologies);
  Assignment assignment = wanted;
  std::optional<gang::Reservation> machines;
  if (placer_->Place(workload, queue, gang::PlaceView::kPlanned, &assignment)) {
    machines = machines_->Keep(workload, assignment);
  }
  std::optional<MovePlan> plan;
  if (machines.has_value()) {
    taken.Take(placer_->PlacesOf(workload, assignment));
    plan.emplace(MovePlan{std::move(assignment), *std::move(machines), {}});
  }
  // The largest first.
  for (auto it = moved.rbegin(); plan.has_value() && it != moved.rend(); ++it) {
    const Candidate& candidate = candidates_[*it];
    Assignment there = candidate.held;
    std::optional<gang::Reservation> elsewhere;
    if (placer_->Place(*candidate.workload, *candidate.workload->claim->queue, gang::PlaceView::kPlanned, &there)) {
      elsewhere = machines_->Keep(*candidate.workload, there);
    }
    if (!elsewhere.has_value()) {
      Cancel(&*plan);
      plan.reset();
      break;
    }
    taken.Take(placer_->PlacesOf(*candidate.workload, there));
    plan->moved.push_back({candidate.workload, std::move(there), *std::move(elsewhere)});
  }
  Move(moved, false, places);
  return plan;
}

int64_t MoveSearch::PodsOf(const Group& group) const {
  int64_t pods = 0;
  for (const size_t candidate : group) pods += candidates_[candidate].pods;
  return pods;
}

void MoveSearch::Move(const Group& group, bool out, PlaceQuery* places) const {
  for (const size_t candidate : group) places->Move(*candidates_[candidate].workload, out);
}

}  // namespace muster::engine
