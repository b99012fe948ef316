// Which domains the pods of a workload get.
#include <absl/strings/str_cat.h>

#include <limits>

#include "muster/core/check.h"
#include "topology_book_impl.h"

namespace muster::gang {

namespace {

std::string Text(const Taint& taint) {
  return taint.value.empty() ? absl::StrCat(taint.key, ":", taint.effect)
                             : absl::StrCat(taint.key, "=", taint.value, ":", taint.effect);
}

std::vector<Group> GroupsOf(const std::vector<PodSetToPlace>& pod_sets) {
  std::vector<Group> groups;
  std::vector<bool> done(pod_sets.size(), false);
  for (size_t i = 0; i < pod_sets.size(); ++i) {
    if (done[i]) continue;
    Group group{&pod_sets[i], i, nullptr, 0};
    std::vector<size_t> others;
    for (size_t k = i + 1; k < pod_sets.size() && !pod_sets[i].request.group.empty(); ++k) {
      if (pod_sets[k].request.group == pod_sets[i].request.group && pod_sets[k].count > 0) others.push_back(k);
    }
    if (others.size() == 1 && pod_sets[i].count > 0 && std::min(pod_sets[i].count, pod_sets[others[0]].count) == 1) {
      group.leader = &pod_sets[others[0]];
      group.leader_index = others[0];
      if (group.leader->count > group.workers->count) {
        std::swap(group.leader, group.workers);
        std::swap(group.leader_index, group.index);
      }
      done[others[0]] = true;
    }
    groups.push_back(group);
  }
  return groups;
}

// How many pods there is room for; of what there is the least.
struct PodCount {
  int64_t pods = std::numeric_limits<int32_t>::max();
  std::optional<uint32_t> scarcest;
};

template <typename FreeOf>
PodCount CountPods(const Requests& requests, FreeOf free_of) {
  PodCount count;
  for (const auto& [resource, amount] : requests) {
    if (amount <= 0) continue;
    const Wide fit = std::max(Wide{0}, free_of(resource) / amount);
    if (fit >= count.pods) continue;
    count.pods = static_cast<int64_t>(fit);
    count.scarcest = resource;
  }
  return count;
}

PlacementProblem LevelProblem(PlacementProblem::Kind kind, const FlavorState& flavor, const PodSetToPlace& pod_set,
                              std::string level) {
  PlacementProblem problem;
  problem.kind = kind;
  problem.pod_set = pod_set.name;
  problem.topology = flavor.spec.topology.name;
  problem.level = std::move(level);
  return problem;
}

}  // namespace

// ---- requests -----------------------------------------------------------------------------------

std::optional<PlacementProblem> TopologyBook::Impl::Translate(const FlavorState& flavor, const PodSetToPlace& pod_set,
                                                              PlacementRequest* request) const {
  using Kind = PlacementProblem::Kind;
  const TopologyRequest& asked = pod_set.request;
  const DomainTree& tree = flavor.tree;
  request->count = pod_set.count;
  request->level = tree.depth() - 1;
  request->balanced = balanced_;
  if (!asked.required.empty() || !asked.preferred.empty()) {
    request->mode = asked.required.empty() ? PlacementRequest::Mode::kPreferred : PlacementRequest::Mode::kRequired;
    const std::string& level = asked.required.empty() ? asked.preferred : asked.required;
    const std::optional<size_t> found = tree.LevelOf(level);
    if (!found.has_value()) return LevelProblem(Kind::kNoLevel, flavor, pod_set, level);
    request->level = *found;
  } else if (!asked.slices.empty()) {
    request->level = 0;
  }
  for (const SliceConstraint& slice : asked.slices) {
    const std::optional<size_t> level = tree.LevelOf(slice.topology);
    if (!level.has_value()) return LevelProblem(Kind::kNoLevel, flavor, pod_set, slice.topology);
    const bool first = request->slices.empty();
    if (first ? *level < request->level : *level <= request->slices.back().level) {
      return LevelProblem(Kind::kSlicesAbove, flavor, pod_set, slice.topology);
    }
    if (slice.size <= 0 || (!first && request->slices.back().size % slice.size != 0)) {
      PlacementProblem problem = LevelProblem(Kind::kSliceSize, flavor, pod_set, slice.topology);
      problem.size = slice.size;
      return problem;
    }
    request->slices.push_back({*level, slice.size});
  }
  if (flavor.leaves.empty()) return LevelProblem(Kind::kNoDomains, flavor, pod_set, tree.levels()[request->level]);
  return std::nullopt;
}

// ---- room ---------------------------------------------------------------------------------------

// RETURNS: whether pods of the shape may not be there.
bool TopologyBook::Impl::IsExcluded(const FlavorState& flavor, const Leaf& leaf, const Shape& shape,
                                    Exclusions* exclusions) {
  if (!flavor.by_hostname) return false;
  for (const NodeState* node : leaf.nodes) {
    if (const Taint* taint = FirstUntolerated(node->node.taints, shape.tolerations, flavor.spec.tolerations)) {
      if (exclusions != nullptr) ++exclusions->taints[Text(*taint)];
      return true;
    }
    if (!SelectsNode(shape, node->node.labels)) {
      if (exclusions != nullptr) ++exclusions->node_selector;
      return true;
    }
    if (!AffinityAdmitsNode(shape, node->node.name, node->node.labels)) {
      if (exclusions != nullptr) ++exclusions->affinity;
      return true;
    }
  }
  return false;
}

std::vector<LeafRoom> TopologyBook::Impl::Rooms(const FlavorState& flavor, const Group& group, PlaceView view,
                                                const Assumed& assumed, Exclusions* exclusions) {
  const Requests requests = CompilePod(*group.workers->shape);
  const Requests of_leader = group.leader == nullptr ? Requests{} : CompilePod(*group.leader->shape);
  std::vector<LeafRoom> rooms(flavor.leaves.size());
  exclusions->domains = static_cast<int64_t>(rooms.size());
  for (size_t i = 0; i < rooms.size(); ++i) {
    const Leaf& leaf = flavor.leaves[i];
    const auto taken = assumed.find(i);
    const auto free = [&](uint32_t resource) {
      return Free(leaf, resource, view) - (taken == assumed.end() ? Wide{0} : At(taken->second, resource));
    };
    LeafRoom& room = rooms[i];
    const bool excluded = IsExcluded(flavor, leaf, *group.workers->shape, exclusions);
    if (!excluded) {
      const PodCount count = CountPods(requests, free);
      room.pods = count.pods;
      if (count.pods == 0) ++exclusions->resources[resource_names_[*count.scarcest]];
    }
    room.pods_with_leader = room.pods;
    if (group.leader == nullptr || IsExcluded(flavor, leaf, *group.leader->shape, nullptr)) continue;
    room.leader = CountPods(of_leader, free).pods > 0;
    if (!room.leader || excluded) continue;
    room.pods_with_leader = CountPods(requests, [&](uint32_t resource) {
                              Wide left = free(resource);
                              for (const auto& [of, amount] : of_leader) left -= of == resource ? amount : 0;
                              return left;
                            }).pods;
  }
  return rooms;
}

// ---- placement ----------------------------------------------------------------------------------

TopologyAssignment TopologyBook::Impl::Assignment(const FlavorState& flavor,
                                                  const std::vector<std::pair<size_t, int64_t>>& pods) {
  TopologyAssignment assignment;
  assignment.levels = flavor.AssignedLevels();
  for (const auto& [leaf, count] : pods) {
    assignment.domains.push_back({flavor.AssignedValues(leaf), static_cast<int32_t>(count)});
  }
  return assignment;
}

void TopologyBook::Impl::Assume(const PodSetToPlace& pod_set, const std::vector<std::pair<size_t, int64_t>>& pods,
                                Assumed* assumed) {
  const Requests requests = CompilePod(*pod_set.shape);
  for (const auto& [leaf, count] : pods) {
    for (const auto& [resource, amount] : requests) AddTo(&(*assumed)[leaf], resource, Wide{amount} * count);
  }
}

std::optional<PlacementProblem> TopologyBook::Impl::PlaceGroup(const FlavorState& flavor, const Group& group,
                                                               PlaceView view, Assumed* assumed, Placement* placement) {
  PlacementRequest request;
  if (std::optional<PlacementProblem> problem = Translate(flavor, *group.workers, &request)) return problem;
  request.leader = group.leader != nullptr;
  Exclusions exclusions;
  const std::vector<LeafRoom> rooms = Rooms(flavor, group, view, *assumed, &exclusions);
  const PlacementResult result = gang::Place(flavor.tree, rooms, request);
  if (!result.fits) {
    PlacementProblem problem = LevelProblem(PlacementProblem::Kind::kNoFit, flavor, *group.workers, "");
    problem.fit = result.fit;
    problem.wanted = result.wanted;
    problem.slices = !request.slices.empty() && request.slices.front().size > 1;
    problem.layers = result.layers;
    if (!result.layers.empty()) {
      for (const SliceConstraint& slice : group.workers->request.slices) problem.layer_levels.push_back(slice.topology);
    }
    problem.exclusions = std::move(exclusions);
    return problem;
  }
  Assume(*group.workers, result.pods, assumed);
  placement->assignments[group.index] = Assignment(flavor, result.pods);
  if (result.leader.has_value()) {
    Assume(*group.leader, {{*result.leader, 1}}, assumed);
    placement->assignments[group.leader_index] = Assignment(flavor, {{*result.leader, 1}});
  }
  return std::nullopt;
}

Placement TopologyBook::Impl::Place(std::string_view name, const std::vector<PodSetToPlace>& pod_sets, PlaceView view) {
  Refresh();
  Placement placement;
  placement.assignments.resize(pod_sets.size());
  const auto flavor = flavors_.find(name);
  MUSTER_CHECK_MSG(flavor != flavors_.end(), std::string(name));
  Assumed assumed;
  for (const Group& group : GroupsOf(pod_sets)) {
    if (group.workers->count == 0) continue;
    placement.problem = PlaceGroup(*flavor->second, group, view, &assumed, &placement);
    if (placement.problem.has_value()) break;
  }
  return placement;
}

bool TopologyBook::Impl::HasLevels(std::string_view name, const TopologyRequest& request) const {
  const auto flavor = flavors_.find(name);
  MUSTER_CHECK_MSG(flavor != flavors_.end(), std::string(name));
  const std::vector<std::string>& levels = flavor->second->spec.topology.levels;
  const auto has = [&](const std::string& level) {
    return level.empty() || std::find(levels.begin(), levels.end(), level) != levels.end();
  };
  return has(request.required) && has(request.preferred) &&
         std::all_of(request.slices.begin(), request.slices.end(),
                     [&](const SliceConstraint& slice) { return has(slice.topology); });
}

void AddToHash(const PlacementProblem& problem, StateHash* hash) {
  hash->Add(static_cast<int64_t>(problem.kind)).Add(problem.pod_set).Add(problem.topology).Add(problem.level);
  hash->Add(problem.size).Add(problem.fit).Add(problem.wanted).Add(static_cast<int64_t>(problem.slices));
  for (const auto& [fit, wanted] : problem.layers) hash->Add(fit).Add(wanted);
  for (const std::string& level : problem.layer_levels) hash->Add(level);
  const Exclusions& excluded = problem.exclusions;
  hash->Add(excluded.domains).Add(excluded.node_selector).Add(excluded.affinity);
  for (const auto* counts : {&excluded.taints, &excluded.resources}) {
    hash->Add(static_cast<int64_t>(counts->size()));
    for (const auto& [name, count] : *counts) hash->Add(name).Add(count);
  }
}

// ---- the public face ----------------------------------------------------------------------------

TopologyBook::TopologyBook(bool balanced) : impl_(std::make_unique<Impl>(balanced)) {}
TopologyBook::~TopologyBook() = default;

bool TopologyBook::SetNode(const Node& node) { return impl_->SetNode(node); }
bool TopologyBook::RemoveNode(std::string_view name) { return impl_->RemoveNode(name); }
bool TopologyBook::SetPod(std::string_view key, std::string_view node,
                          const std::map<std::string, Amount, std::less<>>& requests) {
  return impl_->SetPod(key, node, requests);
}
bool TopologyBook::RemovePod(std::string_view key) { return impl_->RemovePod(key); }
const Node* TopologyBook::FindNode(std::string_view hostname) const { return impl_->FindNode(hostname); }
std::vector<std::string> TopologyBook::FlavorsOfNode(std::string_view node) const { return impl_->FlavorsOfNode(node); }
std::vector<std::string> TopologyBook::Overlapping(std::string_view flavor) { return impl_->Overlapping(flavor); }
std::vector<std::vector<std::string>> TopologyBook::DomainsOf(const PlacedPodSet& placed,
                                                              const std::vector<std::string>& levels) {
  return impl_->DomainsOf(placed, levels);
}
void TopologyBook::AddToHash(StateHash* hash) const { impl_->AddToHash(hash); }
const std::string* TopologyBook::NodeOfPod(std::string_view key) const { return impl_->NodeOfPod(key); }
bool TopologyBook::SetFlavor(std::string_view name, FlavorNodes flavor) {
  return impl_->SetFlavor(name, std::move(flavor));
}
bool TopologyBook::RemoveFlavor(std::string_view name) { return impl_->RemoveFlavor(name); }
bool TopologyBook::HasFlavors() const { return impl_->HasFlavors(); }
const FlavorNodes* TopologyBook::FindFlavor(std::string_view name) const { return impl_->FindFlavor(name); }
void TopologyBook::Change(const PlacedPodSet& placed, PlaceBook book, int sign) { impl_->Change(placed, book, sign); }
bool TopologyBook::HasLevels(std::string_view flavor, const TopologyRequest& request) const {
  return impl_->HasLevels(flavor, request);
}
Placement TopologyBook::Place(std::string_view flavor, const std::vector<PodSetToPlace>& pod_sets, PlaceView view) {
  return impl_->Place(flavor, pod_sets, view);
}
std::optional<std::vector<TopologyAssignment>> TopologyBook::Replace(std::string_view flavor,
                                                                     const std::vector<PodSetToPlace>& pod_sets,
                                                                     const std::vector<TopologyAssignment>& held,
                                                                     std::string_view hostname) {
  return impl_->Replace(flavor, pod_sets, held, hostname);
}
bool TopologyBook::Fits(const std::vector<PlacedPodSet>& placed, PlaceView view) { return impl_->Fits(placed, view); }
void TopologyBook::Validate(const std::vector<PlacedPodSet>& placed, PlaceBook book) const {
  impl_->Validate(placed, book);
}

}  // namespace muster::gang
