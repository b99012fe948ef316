#include <set>

#include "muster/core/check.h"
#include "topology_book_impl.h"

namespace muster::gang {

namespace {

bool HasLabels(const Node& node, const Labels& labels) {
  return std::all_of(labels.begin(), labels.end(), [&](const auto& entry) {
    const auto it = node.labels.find(entry.first);
    return it != node.labels.end() && it->second == entry.second;
  });
}

bool IsUsable(const NodeState& state) { return state.known && state.node.ready && !state.node.unschedulable; }

// The values of the levels; nothing where one is missing.
std::optional<std::vector<std::string>> LevelValues(const Node& node, const std::vector<std::string>& levels) {
  std::vector<std::string> values;
  values.reserve(levels.size());
  for (const std::string& level : levels) {
    const auto it = node.labels.find(level);
    if (it == node.labels.end()) return std::nullopt;
    values.push_back(it->second);
  }
  return values;
}

}  // namespace

// ---- nodes and pods -----------------------------------------------------------------------------

uint32_t TopologyBook::Impl::Resource(std::string_view name) {
  const auto [it, inserted] = resources_.try_emplace(std::string(name), static_cast<uint32_t>(resource_names_.size()));
  if (inserted) resource_names_.emplace_back(name);
  return it->second;
}

Requests TopologyBook::Impl::Compile(const std::map<std::string, Amount, std::less<>>& amounts) {
  Requests requests;
  requests.reserve(amounts.size());
  for (const auto& [name, amount] : amounts) requests.emplace_back(Resource(name), amount.value);
  return requests;
}

Requests TopologyBook::Impl::CompilePod(const Shape& shape) {
  std::map<std::string, Amount, std::less<>> amounts = shape.OnNode();
  amounts.insert_or_assign("pods", Amount{1});
  return Compile(amounts);
}

NodeState* TopologyBook::Impl::GetNode(std::string_view name) {
  const auto it = nodes_.find(name);
  if (it != nodes_.end()) return it->second.get();
  auto state = std::make_unique<NodeState>();
  state->node.name = name;
  return nodes_.emplace(std::string(name), std::move(state)).first->second.get();
}

void TopologyBook::Impl::DropIfUnused(std::string_view name) {
  const auto it = nodes_.find(name);
  if (it != nodes_.end() && !it->second->known && it->second->pod_count == 0) nodes_.erase(it);
}

void TopologyBook::Impl::Recount(Leaf* leaf) {
  leaf->base.clear();
  for (const NodeState* node : leaf->nodes) {
    for (uint32_t i = 0; i < node->allocatable.size(); ++i) AddTo(&leaf->base, i, node->allocatable[i]);
    for (uint32_t i = 0; i < node->pods.size(); ++i) AddTo(&leaf->base, i, -node->pods[i]);
  }
}

bool TopologyBook::Impl::SetNode(const Node& node) {
  NodeState* state = GetNode(node.name);
  if (state->known && state->node == node) return false;
  stale_ = stale_ || !state->known || state->node.labels != node.labels || state->node.ready != node.ready ||
           state->node.unschedulable != node.unschedulable;
  state->known = true;
  state->node = node;
  state->allocatable.clear();
  for (const auto& [resource, amount] : Compile(node.allocatable)) AddTo(&state->allocatable, resource, amount);
  if (!stale_) {
    for (const auto& [flavor, leaf] : state->leaves) Recount(&flavor->leaves[leaf]);
  }
  return true;
}

bool TopologyBook::Impl::RemoveNode(std::string_view name) {
  const auto it = nodes_.find(name);
  if (it == nodes_.end() || !it->second->known) return false;
  it->second->known = false;
  it->second->allocatable.clear();
  // The trees still point to it.
  stale_ = true;
  Refresh();
  DropIfUnused(name);
  return true;
}

void TopologyBook::Impl::CountPod(const PodState& pod, int sign) {
  NodeState* node = GetNode(pod.node);
  for (const auto& [resource, amount] : pod.requests) AddTo(&node->pods, resource, Wide{amount} * sign);
  node->pod_count += sign;
  if (!stale_) {
    for (const auto& [flavor, leaf] : node->leaves) Recount(&flavor->leaves[leaf]);
  }
  DropIfUnused(pod.node);
}

bool TopologyBook::Impl::SetPod(std::string_view key, std::string_view node,
                                const std::map<std::string, Amount, std::less<>>& requests) {
  std::map<std::string, Amount, std::less<>> amounts = requests;
  amounts.insert_or_assign("pods", Amount{1});
  PodState state{std::string(node), Compile(amounts)};
  const auto it = pods_.find(key);
  if (it != pods_.end()) {
    if (it->second == state) return false;
    CountPod(it->second, -1);
    it->second = state;
  } else {
    pods_.emplace(std::string(key), state);
  }
  CountPod(state, 1);
  return true;
}

bool TopologyBook::Impl::RemovePod(std::string_view key) {
  const auto it = pods_.find(key);
  if (it == pods_.end()) return false;
  CountPod(it->second, -1);
  pods_.erase(it);
  return true;
}

const Node* TopologyBook::Impl::FindNode(std::string_view hostname) const {
  const auto is_it = [hostname](const auto& entry) {
    const Labels& labels = entry.second->node.labels;
    const auto label = labels.find(kHostnameLabel);
    return entry.second->known && label != labels.end() && label->second == hostname;
  };
  // Most nodes are called as their label says.
  auto it = nodes_.find(hostname);
  if (it == nodes_.end() || !is_it(*it)) it = std::find_if(nodes_.begin(), nodes_.end(), is_it);
  return it == nodes_.end() ? nullptr : &it->second->node;
}

std::vector<std::string> TopologyBook::Impl::FlavorsOfNode(std::string_view name) const {
  std::vector<std::string> found;
  const auto it = nodes_.find(name);
  if (it == nodes_.end() || !it->second->known) return found;
  for (const auto& [flavor, state] : flavors_) {
    if (HasLabels(it->second->node, state->spec.node_labels)) found.push_back(flavor);
  }
  return found;
}

std::vector<std::string> TopologyBook::Impl::Overlapping(std::string_view name) {
  Refresh();
  const auto flavor = flavors_.find(name);
  if (flavor == flavors_.end()) return {};
  std::set<std::string> found = {flavor->first};
  for (const Leaf& leaf : flavor->second->leaves) {
    for (const NodeState* node : leaf.nodes) {
      for (const auto& [other, index] : node->leaves) found.insert(other->name);
    }
  }
  return {found.begin(), found.end()};
}

std::vector<std::vector<std::string>> TopologyBook::Impl::DomainsOf(const PlacedPodSet& placed,
                                                                    const std::vector<std::string>& levels) {
  Refresh();
  std::set<std::vector<std::string>> found;
  for (const TopologyDomain& domain : placed.assignment.domains) {
    for (const NodeState* node : GetUsage(placed, domain.values)->nodes) {
      std::optional<std::vector<std::string>> values = LevelValues(node->node, levels);
      if (values.has_value()) found.insert(*std::move(values));
    }
  }
  return {found.begin(), found.end()};
}

void TopologyBook::Impl::AddToHash(StateHash* hash) const {
  const auto add = [&](const WideAmounts& amounts) {
    std::map<std::string_view, Wide> sorted;
    for (uint32_t i = 0; i < amounts.size(); ++i) {
      if (amounts[i] != 0) sorted.emplace(resource_names_[i], amounts[i]);
    }
    for (const auto& [resource, amount] : sorted) {
      hash->Add(resource).Add(static_cast<int64_t>(amount >> 64)).Add(static_cast<int64_t>(amount));
    }
  };
  for (const auto& [name, state] : nodes_) {
    hash->Add(name).Add(static_cast<int64_t>(state->known)).Add(state->pod_count);
    add(state->pods);
    if (!state->known) continue;
    add(state->allocatable);
    hash->Add(static_cast<int64_t>(state->node.ready)).Add(static_cast<int64_t>(state->node.unschedulable));
    for (const auto& [key, value] : state->node.labels) hash->Add(key).Add(value);
    for (const Taint& taint : state->node.taints) hash->Add(taint.key).Add(taint.value).Add(taint.effect);
  }
}

const std::string* TopologyBook::Impl::NodeOfPod(std::string_view key) const {
  const auto it = pods_.find(key);
  return it == pods_.end() ? nullptr : &it->second.node;
}

// ---- flavors ------------------------------------------------------------------------------------

bool TopologyBook::Impl::SetFlavor(std::string_view name, FlavorNodes spec) {
  std::unique_ptr<FlavorState>& slot = flavors_[std::string(name)];
  if (slot != nullptr && slot->spec == spec) return false;
  if (slot == nullptr) slot = std::make_unique<FlavorState>();
  slot->name = name;
  slot->spec = std::move(spec);
  MUSTER_CHECK(!slot->spec.topology.levels.empty());
  slot->by_hostname = slot->spec.topology.levels.back() == kHostnameLabel;
  stale_ = true;
  return true;
}

bool TopologyBook::Impl::RemoveFlavor(std::string_view name) {
  const auto it = flavors_.find(name);
  if (it == flavors_.end()) return false;
  stale_ = true;
  flavors_.erase(it);
  Refresh();
  return true;
}

const FlavorNodes* TopologyBook::Impl::FindFlavor(std::string_view name) const {
  const auto it = flavors_.find(name);
  return it == flavors_.end() ? nullptr : &it->second->spec;
}

void TopologyBook::Impl::Refresh() {
  if (!std::exchange(stale_, false)) return;
  for (auto& [name, node] : nodes_) node->leaves.clear();
  for (auto& [name, flavor] : flavors_) Build(flavor.get());
  std::erase_if(usages_,
                [](const auto& entry) { return IsZero(entry.second->held[0]) && IsZero(entry.second->held[1]); });
  for (auto& [key, usage] : usages_) Resolve(usage.get());
}

void TopologyBook::Impl::Build(FlavorState* flavor) {
  const std::vector<std::string>& levels = flavor->spec.topology.levels;
  std::map<std::vector<std::string>, std::vector<NodeState*>> leaves;
  StringMap<std::vector<std::string>> of_hostname;
  for (auto& [name, node] : nodes_) {
    if (!IsUsable(*node) || !HasLabels(node->node, flavor->spec.node_labels)) continue;
    std::optional<std::vector<std::string>> values = LevelValues(node->node, levels);
    if (!values.has_value()) continue;
    // Nodes of one hostname are one leaf, since nothing else tells them apart.
    if (flavor->by_hostname) *values = of_hostname.try_emplace(values->back(), *values).first->second;
    leaves[*values].push_back(node.get());
  }
  std::vector<std::vector<std::string>> values;
  flavor->leaves.clear();
  for (auto& [key, nodes] : leaves) {
    for (NodeState* node : nodes) node->leaves.emplace_back(flavor, values.size());
    values.push_back(key);
    flavor->leaves.push_back({std::move(nodes), {}, nullptr, {}});
    Recount(&flavor->leaves.back());
  }
  flavor->tree = DomainTree(levels, std::move(values));
  flavor->leaf_of.clear();
  for (size_t leaf = 0; leaf < flavor->leaves.size(); ++leaf) flavor->leaf_of[flavor->AssignedValues(leaf)] = leaf;
}

// ---- usage --------------------------------------------------------------------------------------

void TopologyBook::Impl::Resolve(Usage* usage) {
  usage->nodes.clear();
  usage->tree = nullptr;
  const auto flavor = flavors_.find(usage->flavor);
  const FlavorState* known = flavor == flavors_.end() ? nullptr : flavor->second.get();
  if (known != nullptr && known->AssignedLevels() == usage->levels) {
    if (const auto leaf = known->leaf_of.find(usage->values); leaf != known->leaf_of.end()) {
      usage->tree = flavor->second.get();
      usage->leaf = leaf->second;
      usage->nodes = known->leaves[leaf->second].nodes;
      flavor->second->leaves[leaf->second].own = usage;
    }
  } else {
    for (auto& [name, node] : nodes_) {
      if (!IsUsable(*node) || (known != nullptr && !HasLabels(node->node, known->spec.node_labels))) continue;
      if (LevelValues(node->node, usage->levels) == usage->values) usage->nodes.push_back(node.get());
    }
  }
  std::map<std::pair<FlavorState*, size_t>, std::vector<NodeState*>> shared;
  for (NodeState* node : usage->nodes) {
    for (const auto& leaf : node->leaves) shared[leaf].push_back(node);
  }
  for (auto& [leaf, nodes] : shared) {
    if (leaf.first == usage->tree && leaf.second == usage->leaf) continue;
    const bool whole = nodes.size() == usage->nodes.size();
    leaf.first->leaves[leaf.second].overlaps.push_back({usage, whole, std::move(nodes)});
  }
}

Usage* TopologyBook::Impl::GetUsage(const PlacedPodSet& placed, const std::vector<std::string>& values) {
  std::unique_ptr<Usage>& slot = usages_[{placed.flavor, placed.assignment.levels, values}];
  if (slot == nullptr) {
    slot = std::make_unique<Usage>();
    slot->flavor = placed.flavor;
    slot->levels = placed.assignment.levels;
    slot->values = values;
    if (!stale_) Resolve(slot.get());
  }
  return slot.get();
}

void TopologyBook::Impl::Change(const PlacedPodSet& placed, PlaceBook book, int sign) {
  const Requests requests = CompilePod(*placed.shape);
  for (const TopologyDomain& domain : placed.assignment.domains) {
    Usage* usage = GetUsage(placed, domain.values);
    for (const auto& [resource, amount] : requests) {
      AddTo(&usage->held[static_cast<size_t>(book)], resource, Wide{amount} * domain.count * sign);
    }
  }
}

Wide TopologyBook::Impl::Clipped(const Overlap& overlap, uint32_t resource, PlaceBook book) {
  const Wide held = At(overlap.usage->held[static_cast<size_t>(book)], resource);
  if (overlap.whole) return held;
  Wide room = 0;
  for (const NodeState* node : overlap.shared) {
    room += std::max(Wide{0}, At(node->allocatable, resource) - At(node->pods, resource));
  }
  return std::min(held, room);
}

Wide TopologyBook::Impl::FreeIn(const Leaf& leaf, uint32_t resource, PlaceBook book) {
  Wide free = At(leaf.base, resource);
  if (leaf.own != nullptr) free -= At(leaf.own->held[static_cast<size_t>(book)], resource);
  for (const Overlap& overlap : leaf.overlaps) free -= Clipped(overlap, resource, book);
  return free;
}

Wide TopologyBook::Impl::Free(const Leaf& leaf, uint32_t resource, PlaceView view) {
  switch (view) {
    case PlaceView::kBoth:
      return std::min(FreeIn(leaf, resource, PlaceBook::kActual), FreeIn(leaf, resource, PlaceBook::kPlanned));
    case PlaceView::kPlanned:
      return FreeIn(leaf, resource, PlaceBook::kPlanned);
    case PlaceView::kEmpty:
      return At(leaf.base, resource);
  }
  CheckFailed(__FILE__, __LINE__, "known view");
}

bool TopologyBook::Impl::Fits(const std::vector<PlacedPodSet>& placed, PlaceView view) {
  Refresh();
  const auto change = [&](int sign) {
    for (const PlacedPodSet& one : placed) {
      for (const PlaceBook book : kPlaceBooks) Change(one, book, sign);
    }
  };
  change(1);
  bool fits = true;
  for (const PlacedPodSet& one : placed) {
    const Requests requests = CompilePod(*one.shape);
    for (const TopologyDomain& domain : one.assignment.domains) {
      const Usage* usage = GetUsage(one, domain.values);
      if (usage->tree == nullptr) {
        fits = false;
        continue;
      }
      const Leaf& leaf = usage->tree->leaves[usage->leaf];
      fits = fits && std::all_of(requests.begin(), requests.end(), [&](const auto& request) {
               return request.second == 0 || Free(leaf, request.first, view) >= 0;
             });
    }
  }
  change(-1);
  return fits;
}

void TopologyBook::Impl::Validate(const std::vector<PlacedPodSet>& placed, PlaceBook book) const {
  std::map<UsageKey, WideAmounts> counted;
  for (const PlacedPodSet& one : placed) {
    for (const TopologyDomain& domain : one.assignment.domains) {
      WideAmounts& held = counted[{one.flavor, one.assignment.levels, domain.values}];
      for (const auto& [name, amount] : one.shape->OnNode()) {
        if (name != "pods") AddTo(&held, resources_.find(name)->second, Wide{amount.value} * domain.count);
      }
      AddTo(&held, resources_.find("pods")->second, domain.count);
    }
  }
  for (const auto& [key, usage] : usages_) {
    const auto expected = counted.find(key);
    const WideAmounts& held = usage->held[static_cast<size_t>(book)];
    const size_t size = std::max(held.size(), expected == counted.end() ? 0 : expected->second.size());
    for (uint32_t i = 0; i < size; ++i) {
      MUSTER_CHECK(At(held, i) == (expected == counted.end() ? Wide{0} : At(expected->second, i)));
    }
    if (expected != counted.end()) counted.erase(expected);
  }
  for (const auto& [key, held] : counted) MUSTER_CHECK(IsZero(held));
}

}  // namespace muster::gang
