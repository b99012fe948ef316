#include "placement.h"

#include <algorithm>
#include <map>

#include "obstacles.h"

namespace muster::engine {

std::vector<std::vector<size_t>> PodSetGroups(const Workload& workload) {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < workload.pod_sets.size(); ++i) {
    const std::string& name = workload.pod_sets[i].topology.group;
    const auto known = std::find_if(groups.begin(), groups.end(), [&](const std::vector<size_t>& group) {
      return !name.empty() && workload.pod_sets[group.front()].topology.group == name;
    });
    if (known == groups.end()) {
      groups.push_back({i});
    } else {
      known->push_back(i);
    }
  }
  return groups;
}

// ---- which flavors ------------------------------------------------------------------------------

bool TopologyPlacer::IsTopologyOnly(const ClusterQueueState& queue) const {
  return !queue.flavors.empty() && std::all_of(queue.flavors.begin(), queue.flavors.end(), [this](FlavorId flavor) {
    const ResourceFlavor* known = catalog_->FindFlavor(flavor);
    return known != nullptr && !known->topology_name.empty();
  });
}

bool TopologyPlacer::AsksForTopology(const ClusterQueueState& queue, const PodSet& pod_set) const {
  return pod_set.topology.IsExplicit() || IsTopologyOnly(queue);
}

const gang::FlavorNodes* TopologyPlacer::FlavorNodesOf(FlavorId flavor) const {
  return book_->FindFlavor(catalog_->FlavorName(flavor));
}

std::optional<Obstacle> TopologyPlacer::WhyNotFlavor(const WorkloadState& workload, const ClusterQueueState& queue,
                                                     size_t index, const ResourceFlavor& flavor,
                                                     const GroupState& group) const {
  const PodSet& pod_set = workload.spec.pod_sets[index];
  if (!pod_set.topology.IsExplicit()) {
    if (flavor.topology_name.empty() || IsTopologyOnly(queue)) return std::nullopt;
    return FlavorObstacle(ObstacleKind::kFlavorOnlyTopology, pod_set.name, flavor.name);
  }
  if (flavor.topology_name.empty()) {
    // It may still have quota for what the pods do not ask of nodes.
    const auto& asked = pod_set.shape->OnNode();
    const bool needed = std::any_of(group.resources.begin(), group.resources.end(), [&](ResourceId resource) {
      return asked.contains(catalog_->ResourceName(resource));
    });
    if (!needed) return std::nullopt;
    return FlavorObstacle(ObstacleKind::kFlavorWithoutTopology, pod_set.name, flavor.name);
  }
  if (book_->FindFlavor(flavor.name) != nullptr && book_->HasLevels(flavor.name, pod_set.topology)) return std::nullopt;
  return FlavorObstacle(ObstacleKind::kTopologyLevelMissing, pod_set.name, flavor.name);
}

std::optional<gang::PlacementProblem> TopologyPlacer::FlavorOf(const std::vector<size_t>& members,
                                                               const Assignment& assignment, FlavorId* flavor) const {
  std::optional<FlavorId> found;
  gang::PlacementProblem problem;
  for (const size_t member : members) {
    for (const ResourceChoice& resource : assignment.pod_sets[member].resources) {
      if (book_->FindFlavor(catalog_->FlavorName(resource.flavor)) == nullptr) continue;
      if (found.has_value() && *found != resource.flavor) {
        problem.kind = gang::PlacementProblem::Kind::kSeveral;
        return problem;
      }
      found = resource.flavor;
    }
  }
  if (!found.has_value()) {
    problem.kind = gang::PlacementProblem::Kind::kNoTopology;
    return problem;
  }
  *flavor = *found;
  return std::nullopt;
}

// ---- places -------------------------------------------------------------------------------------

bool TopologyPlacer::Place(const WorkloadState& workload, const ClusterQueueState& queue, gang::PlaceView view,
                           Assignment* assignment) const {
  // Those that get their places in one flavor.
  std::vector<std::pair<FlavorId, std::vector<size_t>>> by_flavor;
  const auto fail = [&](size_t pod_set, std::string flavor, gang::PlacementProblem problem) {
    Obstacle obstacle =
        FlavorObstacle(ObstacleKind::kNoPlacement, workload.spec.pod_sets[pod_set].name, std::move(flavor));
    problem.pod_set = obstacle.pod_set;
    obstacle.placement = std::move(problem);
    assignment->obstacles.push_back(std::move(obstacle));
    return false;
  };
  for (PodSetChoice& choice : assignment->pod_sets) choice.topology.reset();
  for (const std::vector<size_t>& members : PodSetGroups(workload.spec)) {
    std::vector<size_t> placed;
    for (const size_t member : members) {
      if (assignment->pod_sets[member].count > 0 && AsksForTopology(queue, workload.spec.pod_sets[member])) {
        placed.push_back(member);
      }
    }
    if (placed.empty()) continue;
    FlavorId flavor;
    if (std::optional<gang::PlacementProblem> problem = FlavorOf(members, *assignment, &flavor)) {
      return fail(placed.front(), "", *std::move(problem));
    }
    const auto known =
        std::find_if(by_flavor.begin(), by_flavor.end(), [&](const auto& entry) { return entry.first == flavor; });
    if (known == by_flavor.end()) {
      by_flavor.emplace_back(flavor, std::move(placed));
    } else {
      known->second.insert(known->second.end(), placed.begin(), placed.end());
    }
  }
  std::vector<gang::PlacedPodSet> taken;
  bool fits = true;
  for (const auto& [flavor, members] : by_flavor) {
    std::vector<gang::PodSetToPlace> wanted;
    for (const size_t member : members) {
      const PodSet& pod_set = workload.spec.pod_sets[member];
      wanted.push_back({pod_set.name, pod_set.shape, assignment->pod_sets[member].count, pod_set.topology});
    }
    const std::string& name = catalog_->FlavorName(flavor);
    gang::Placement placement = book_->Place(name, wanted, view);
    if (placement.problem.has_value()) {
      const auto blamed = std::find_if(members.begin(), members.end(), [&](size_t member) {
        return workload.spec.pod_sets[member].name == placement.problem->pod_set;
      });
      fits = fail(blamed == members.end() ? members.front() : *blamed, name, *std::move(placement.problem));
      break;
    }
    for (size_t i = 0; i < members.size(); ++i) {
      PodSetChoice& choice = assignment->pod_sets[members[i]];
      choice.topology = std::move(placement.assignments[i]);
      choice.topology_flavor = flavor;
      // What the next flavor has may be on the same nodes.
      if (view == gang::PlaceView::kEmpty || !choice.topology.has_value()) continue;
      taken.push_back({name, wanted[i].shape, *choice.topology});
      for (const gang::PlaceBook book : gang::kPlaceBooks) book_->Take(taken.back(), book);
    }
  }
  for (const gang::PlacedPodSet& place : taken) {
    for (const gang::PlaceBook book : gang::kPlaceBooks) book_->Release(place, book);
  }
  return fits;
}

bool TopologyPlacer::StillFits(const WorkloadState& workload, const Assignment& assignment,
                               gang::PlaceView view) const {
  const std::vector<gang::PlacedPodSet> places = PlacesOf(workload, assignment);
  return places.empty() || book_->Fits(places, view);
}

std::vector<gang::PlacedPodSet> TopologyPlacer::PlacesOf(const WorkloadState& workload,
                                                         const Assignment& assignment) const {
  std::vector<gang::PlacedPodSet> places;
  for (size_t i = 0; i < assignment.pod_sets.size(); ++i) {
    const PodSetChoice& choice = assignment.pod_sets[i];
    if (!choice.topology.has_value()) continue;
    places.push_back({catalog_->FlavorName(choice.topology_flavor), workload.spec.pod_sets[i].shape, *choice.topology});
  }
  return places;
}

std::vector<gang::PlacedPodSet> TopologyPlacer::PlacesOf(const WorkloadState& workload,
                                                         const Admission& admission) const {
  std::vector<gang::PlacedPodSet> places;
  for (const PodSetAssignment& assigned : admission.pod_sets) {
    if (!assigned.topology.has_value() || assigned.flavors.empty()) continue;
    const auto pod_set = std::find_if(workload.spec.pod_sets.begin(), workload.spec.pod_sets.end(),
                                      [&](const PodSet& candidate) { return candidate.name == assigned.name; });
    if (pod_set == workload.spec.pod_sets.end()) continue;
    const auto flavor = std::find_if(assigned.flavors.begin(), assigned.flavors.end(),
                                     [this](const auto& entry) { return book_->FindFlavor(entry.second) != nullptr; });
    const std::string& name = flavor == assigned.flavors.end() ? assigned.flavors.front().second : flavor->second;
    places.push_back({name, pod_set->shape, *assigned.topology});
  }
  return places;
}

namespace {

// What `after` has in its domains, and `before` has not.
gang::TopologyAssignment Added(const gang::TopologyAssignment& before, gang::TopologyAssignment after) {
  for (gang::TopologyDomain& domain : after.domains) {
    for (const gang::TopologyDomain& had : before.domains) {
      if (had.values == domain.values) domain.count -= had.count;
    }
  }
  std::erase_if(after.domains, [](const gang::TopologyDomain& domain) { return domain.count <= 0; });
  return after;
}

// Where some of the pods have ended, the other domains may have a place for each that is left.
void DropIfNotNeeded(int32_t pods, std::string_view hostname, gang::TopologyAssignment* assignment) {
  const auto is_it = [hostname](const gang::TopologyDomain& domain) { return domain.values.back() == hostname; };
  int64_t elsewhere = 0;
  for (const gang::TopologyDomain& domain : assignment->domains) elsewhere += is_it(domain) ? 0 : domain.count;
  if (elsewhere > 0 && elsewhere >= pods) std::erase_if(assignment->domains, is_it);
}

}  // namespace

std::optional<Admission> TopologyPlacer::Replaced(const WorkloadState& workload, const Admission& admission,
                                                  std::string_view hostname) const {
  struct Held {
    std::vector<gang::PodSetToPlace> pods;
    std::vector<gang::TopologyAssignment> assignments;
    std::vector<gang::TopologyAssignment*> results;
  };
  Admission out = admission;
  std::map<std::string, Held> by_flavor;
  for (PodSetAssignment& assigned : out.pod_sets) {
    if (!assigned.topology.has_value() || assigned.topology->levels != std::vector{std::string(gang::kHostnameLabel)}) {
      continue;
    }
    const auto pod_set = std::find_if(workload.spec.pod_sets.begin(), workload.spec.pod_sets.end(),
                                      [&](const PodSet& candidate) { return candidate.name == assigned.name; });
    const auto flavor = std::find_if(assigned.flavors.begin(), assigned.flavors.end(),
                                     [this](const auto& entry) { return book_->FindFlavor(entry.second) != nullptr; });
    if (pod_set == workload.spec.pod_sets.end() || flavor == assigned.flavors.end() ||
        book_->FindFlavor(flavor->second)->topology.levels.back() != gang::kHostnameLabel) {
      return std::nullopt;
    }
    DropIfNotNeeded(pod_set->count, hostname, &*assigned.topology);
    Held& held = by_flavor[flavor->second];
    held.pods.push_back({pod_set->name, pod_set->shape, assigned.count, pod_set->topology});
    held.assignments.push_back(*assigned.topology);
    held.results.push_back(&*assigned.topology);
  }
  // What one flavor's pods get, the next one's may not: the flavors may share nodes.
  std::vector<gang::PlacedPodSet> taken;
  bool all = true;
  for (const auto& [flavor, held] : by_flavor) {
    auto replaced = book_->Replace(flavor, held.pods, held.assignments, hostname);
    all = replaced.has_value();
    if (!all) break;
    for (size_t i = 0; i < held.results.size(); ++i) {
      taken.push_back({flavor, held.pods[i].shape, Added(held.assignments[i], replaced->at(i))});
      for (const gang::PlaceBook book : gang::kPlaceBooks) book_->Take(taken.back(), book);
      *held.results[i] = std::move(replaced->at(i));
    }
  }
  for (const gang::PlacedPodSet& place : taken) {
    for (const gang::PlaceBook book : gang::kPlaceBooks) book_->Release(place, book);
  }
  if (!all) return std::nullopt;
  return out;
}

void PlacesOfAssignment::Move(const WorkloadState& claim, bool out) {
  for (const gang::PlacedPodSet& place : claim.claim->places) {
    if (out) {
      placer_->book()->Release(place, gang::PlaceBook::kPlanned);
    } else {
      placer_->book()->Take(place, gang::PlaceBook::kPlanned);
    }
  }
  MoveOnMachines(claim, out, machines_->room());
}

bool PlacesOfAssignment::Fits() {
  attempt_.obstacles.clear();
  if (topology_ && !placer_->Place(*workload_, *queue_, gang::PlaceView::kPlanned, &attempt_)) {
    return false;
  }
  return !attempt_.on_machines || machines_->FitsPlanned(*workload_, attempt_);
}

}  // namespace muster::engine
