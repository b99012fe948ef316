// Other places for pods whose node has failed.
#include <algorithm>

#include "muster/core/check.h"
#include "topology_book_impl.h"

namespace muster::gang {

namespace {

// The domain of each level that has the leaf, as its leaves.
std::pair<size_t, size_t> DomainAround(const DomainTree& tree, size_t level, size_t leaf) {
  for (size_t domain = 0; domain < tree.DomainsAt(level); ++domain) {
    const auto [first, last] = tree.LeavesOf(level, domain);
    if (first <= leaf && leaf < last) return {first, last};
  }
  CheckFailed(__FILE__, __LINE__, "a leaf is in a domain of each level");
}

// The domain whose slices the lost pods complete: each domain holds whole ones, and one may end in the smaller last
// slice. RETURNS: its leaves; nothing where they are whole slices themselves.
std::optional<std::pair<size_t, size_t>> Incomplete(const DomainTree& tree, const SliceLayer& layer, int64_t lost,
                                                    int64_t rest, const std::map<size_t, int64_t>& stay) {
  std::optional<std::pair<size_t, size_t>> with_rest;
  for (size_t domain = 0; domain < tree.DomainsAt(layer.level); ++domain) {
    const auto [first, last] = tree.LeavesOf(layer.level, domain);
    int64_t pods = 0;
    for (auto it = stay.lower_bound(first); it != stay.end() && it->first < last; ++it) pods += it->second;
    if (pods % layer.size == 0) continue;
    if (lost % layer.size == 0 && pods % layer.size == rest) continue;  // the smaller last one itself
    if ((pods + lost) % layer.size == 0) return std::pair{first, last};
    if (rest != 0 && (pods + lost) % layer.size == rest) with_rest = {first, last};
  }
  return with_rest;
}

}  // namespace

bool TopologyBook::Impl::AllKnown(const FlavorState& flavor, const TopologyAssignment& held,
                                  std::string_view hostname) {
  return std::all_of(held.domains.begin(), held.domains.end(), [&](const TopologyDomain& domain) {
    return domain.values.back() == hostname || flavor.leaf_of.contains(domain.values);
  });
}

std::map<size_t, int64_t> TopologyBook::Impl::LeavesOf(const FlavorState& flavor, const TopologyAssignment& held,
                                                       std::string_view hostname) {
  std::map<size_t, int64_t> leaves;
  for (const TopologyDomain& domain : held.domains) {
    const auto leaf = flavor.leaf_of.find(domain.values);
    if (domain.values.back() != hostname && leaf != flavor.leaf_of.end()) leaves[leaf->second] += domain.count;
  }
  return leaves;
}

TopologyBook::Impl::Confined TopologyBook::Impl::Confine(const FlavorState& flavor, PlacementRequest request,
                                                         bool required, const std::map<size_t, int64_t>& stay,
                                                         const std::map<size_t, int64_t>& group) {
  const DomainTree& tree = flavor.tree;
  Confined confined{request, 0, tree.leaves()};
  std::vector<SliceLayer> whole;
  int64_t total = request.count;
  for (const auto& [leaf, pods] : stay) total += pods;
  if (required && !group.empty()) {
    std::tie(confined.first, confined.last) = DomainAround(tree, request.level, group.begin()->first);
  }
  for (const SliceLayer& layer : request.slices) {
    const auto incomplete = Incomplete(tree, layer, request.count, total % layer.size, stay);
    if (!incomplete.has_value()) {
      whole.push_back(layer);
      continue;
    }
    std::tie(confined.first, confined.last) = *incomplete;
    confined.request.mode = PlacementRequest::Mode::kRequired;
    confined.request.level = layer.level;
    whole.clear();  // what is around one slice is as it was
  }
  confined.request.slices = std::move(whole);
  return confined;
}

std::optional<std::vector<TopologyAssignment>> TopologyBook::Impl::Replace(std::string_view name,
                                                                           const std::vector<PodSetToPlace>& pod_sets,
                                                                           const std::vector<TopologyAssignment>& held,
                                                                           std::string_view hostname) {
  Refresh();
  const auto found = flavors_.find(name);
  MUSTER_CHECK_MSG(found != flavors_.end() && found->second->by_hostname, std::string(name));
  const FlavorState& flavor = *found->second;
  std::vector<TopologyAssignment> replaced = held;
  Assumed assumed;
  for (size_t i = 0; i < pod_sets.size(); ++i) {
    const auto is_lost = [&](const TopologyDomain& domain) { return domain.values.back() == hostname; };
    const auto lost = std::find_if(held[i].domains.begin(), held[i].domains.end(), is_lost);
    if (lost == held[i].domains.end()) continue;
    PodSetToPlace pods = pod_sets[i];
    pods.count = lost->count;
    PlacementRequest request;
    if (Translate(flavor, pods, &request).has_value()) return std::nullopt;
    // Where pods run on nodes that are not usable any more, nobody knows in which domain the others have to be.
    const bool confines = request.mode == PlacementRequest::Mode::kRequired ||
                          std::any_of(request.slices.begin(), request.slices.end(),
                                      [](const SliceLayer& layer) { return layer.size > 1; });
    if (confines && !AllKnown(flavor, held[i], hostname)) return std::nullopt;
    const std::map<size_t, int64_t> stay = LeavesOf(flavor, held[i], hostname);
    std::map<size_t, int64_t> group = stay;
    for (size_t k = 0; k < pod_sets.size(); ++k) {
      if (pods.request.group.empty() || pod_sets[k].request.group != pods.request.group) continue;
      group.merge(LeavesOf(flavor, replaced[k], hostname));
    }
    const Confined confined = Confine(flavor, request, !pods.request.required.empty(), stay, group);
    Exclusions exclusions;
    std::vector<LeafRoom> rooms = Rooms(flavor, {&pods, i, nullptr, 0}, PlaceView::kBoth, assumed, &exclusions);
    for (size_t leaf = 0; leaf < rooms.size(); ++leaf) {
      const bool inside = confined.first <= leaf && leaf < confined.last;
      if (!inside || flavor.AssignedValues(leaf).back() == hostname) rooms[leaf] = {};
    }
    const PlacementResult result = gang::Place(flavor.tree, rooms, confined.request);
    if (!result.fits) return std::nullopt;
    Assume(pods, result.pods, &assumed);
    // By leaf; a node that is not usable any more stays before what was after it.
    std::vector<TopologyDomain>& domains = replaced[i].domains;
    std::erase_if(domains, is_lost);
    for (const auto& [leaf, count] : result.pods) {
      const auto at = std::find_if(domains.begin(), domains.end(), [&, leaf = leaf](const TopologyDomain& domain) {
        const auto known = flavor.leaf_of.find(domain.values);
        return known != flavor.leaf_of.end() && known->second >= leaf;
      });
      const std::vector<std::string> values = flavor.AssignedValues(leaf);
      if (at != domains.end() && at->values == values) {
        at->count += static_cast<int32_t>(count);
      } else {
        domains.insert(at, {values, static_cast<int32_t>(count)});
      }
    }
  }
  return replaced;
}

}  // namespace muster::gang
