#include "conformance_places.h"

#include <algorithm>
#include <numeric>

namespace muster::cli {

void PlaceJudge::Apply(const engine::Event& event) {
  if (const auto* topology = std::get_if<engine::TopologyChanged>(&event)) {
    topologies_[topology->topology.name] = topology->topology;
  } else if (const auto* flavor = std::get_if<engine::FlavorChanged>(&event)) {
    if (topologies_.contains(flavor->flavor.topology_name)) flavors_[flavor->flavor.name] = flavor->flavor;
  } else if (const auto* node = std::get_if<engine::NodeChanged>(&event)) {
    nodes_[node->node.name] = node->node;
  } else if (const auto* placed = std::get_if<engine::PodPlaced>(&event)) {
    pods_[placed->key] = *placed;
  } else if (const auto* gone = std::get_if<engine::PodGone>(&event)) {
    pods_.erase(gone->key);
  }
}

std::set<std::string> PlaceJudge::NodesOf(const gang::PlacedPodSet& placed, const gang::TopologyDomain& domain) const {
  const engine::ResourceFlavor& flavor = flavors_.find(placed.flavor)->second;
  const std::vector<std::string>& levels = topologies_.find(flavor.topology_name)->second.levels;
  std::set<std::string> nodes;
  for (const auto& [name, node] : nodes_) {
    const auto has = [&labels = node.labels](const std::string& key) { return labels.contains(key); };
    bool inside = node.ready && !node.unschedulable && std::all_of(levels.begin(), levels.end(), has);
    for (const auto& [key, value] : flavor.node_labels) inside = inside && has(key) && node.labels.at(key) == value;
    for (size_t i = 0; inside && i < placed.assignment.levels.size(); ++i) {
      inside = node.labels.at(placed.assignment.levels[i]) == domain.values[i];
    }
    if (inside) nodes.insert(name);
  }
  return nodes;
}

bool PlaceJudge::MayNotBeThere(const gang::PlacedPodSet& placed) const {
  const gang::TopologyAssignment& assignment = placed.assignment;
  if (assignment.levels.empty() || assignment.levels.back() != gang::kHostnameLabel) return false;
  const std::vector<gang::Toleration>& tolerations = flavors_.find(placed.flavor)->second.tolerations;
  const gang::Shape& shape = *placed.shape;
  return std::any_of(assignment.domains.begin(), assignment.domains.end(), [&](const gang::TopologyDomain& domain) {
    const std::set<std::string> nodes = NodesOf(placed, domain);
    return nodes.empty() || std::any_of(nodes.begin(), nodes.end(), [&](const std::string& name) {
             const gang::Node& node = nodes_.at(name);
             return gang::FirstUntolerated(node.taints, shape.tolerations, tolerations) != nullptr ||
                    !gang::SelectsNode(shape, node.labels) || !gang::AffinityAdmitsNode(shape, name, node.labels);
           });
  });
}

int64_t PlaceJudge::FreeOfStrangers(const std::string& node, const std::string& resource) const {
  const auto allocatable = nodes_.at(node).allocatable.find(resource);
  int64_t free = allocatable == nodes_.at(node).allocatable.end() ? 0 : allocatable->second.value;
  for (const auto& [key, pod] : pods_) {
    if (pod.node != node) continue;
    const auto request = pod.requests.find(resource);
    free -= resource == "pods" ? 1 : request == pod.requests.end() ? 0 : request->second.value;
  }
  return std::max<int64_t>(0, free);
}

// Hall's condition, over all subsets. Demands that share no node are no matter to each other.
bool PlaceJudge::HasRoom(const std::vector<gang::PlacedPodSet>& places) const {
  std::map<std::pair<std::string, std::vector<std::string>>, Demand> demands;
  for (const gang::PlacedPodSet& placed : places) {
    for (const gang::TopologyDomain& domain : placed.assignment.domains) {
      Demand& demand = demands[{placed.flavor, domain.values}];
      demand.nodes = NodesOf(placed, domain);
      demand.amounts["pods"] += domain.count;
      for (const auto& [resource, amount] : placed.shape->OnNode()) {
        if (resource != "pods") demand.amounts[resource] += amount.value * domain.count;
      }
    }
  }
  std::vector<const Demand*> left;
  for (const auto& [key, demand] : demands) left.push_back(&demand);
  while (!left.empty()) {
    std::vector<const Demand*> linked = {left.back()};
    left.pop_back();
    for (size_t i = 0; i < linked.size(); ++i) {
      const auto apart = std::partition(left.begin(), left.end(), [&](const Demand* other) {
        return std::none_of(other->nodes.begin(), other->nodes.end(),
                            [&](const std::string& node) { return linked[i]->nodes.contains(node); });
      });
      linked.insert(linked.end(), apart, left.end());
      left.erase(apart, left.end());
    }
    if (!HasRoom(linked)) return false;
  }
  return true;
}

bool PlaceJudge::HasRoom(const std::vector<const Demand*>& linked) const {
  for (uint64_t some = 1; some < uint64_t{1} << linked.size(); ++some) {
    Demand sum;
    for (size_t i = 0; i < linked.size(); ++i) {
      if ((some >> i & 1) == 0) continue;
      sum.nodes.insert(linked[i]->nodes.begin(), linked[i]->nodes.end());
      for (const auto& [resource, amount] : linked[i]->amounts) sum.amounts[resource] += amount;
    }
    for (const auto& [resource, amount] : sum.amounts) {
      int64_t free = 0;
      for (const std::string& node : sum.nodes) free += FreeOfStrangers(node, resource);
      if (amount > free) return false;
    }
  }
  return true;
}

std::optional<std::string> PlaceJudge::FaultOf(const Admissions& admissions) {
  std::vector<gang::PlacedPodSet> places;
  for (const auto& [workload, admission] : admissions) {
    for (size_t i = 0; i < admission.pod_sets.size() && i < workload->pod_sets.size(); ++i) {
      const engine::PodSetAssignment& assigned = admission.pod_sets[i];
      if (!assigned.topology.has_value()) continue;
      const auto flavor = std::find_if(assigned.flavors.begin(), assigned.flavors.end(),
                                       [this](const auto& entry) { return flavors_.contains(entry.second); });
      if (flavor == assigned.flavors.end()) continue;
      places.push_back({flavor->second, workload->pod_sets[i].shape, *assigned.topology});
      const std::vector<gang::TopologyDomain>& domains = assigned.topology->domains;
      const int64_t pods =
          std::accumulate(domains.begin(), domains.end(), int64_t{0},
                          [](int64_t sum, const gang::TopologyDomain& domain) { return sum + domain.count; });
      // What was there from the start is the reference's.
      if (workload->held.has_value() && workload->held->admission == admission) continue;
      if (pods != assigned.count) return "a gang that is no multiple of the slice size has places for all its pods";
      if (MayNotBeThere(places.back())) return "a leader's own selector, affinity and tolerations count";
    }
  }
  if (!HasRoom(places)) return "nobody is given room that somebody else has";
  return std::nullopt;
}

}  // namespace muster::cli
