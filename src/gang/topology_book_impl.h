// The state behind TopologyBook.
//
// Threading: as TopologyBook.
#pragma once

#include <absl/container/btree_map.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "muster/core/string_map.h"
#include "muster/gang/topology_book.h"

namespace muster::gang {

// Sums of products of two amounts do not overflow it.
__extension__ using Wide = __int128;
using WideAmounts = std::vector<Wide>;                       // by resource; beyond the end: none
using Requests = std::vector<std::pair<uint32_t, int64_t>>;  // by resource

inline Wide At(const WideAmounts& amounts, uint32_t resource) {
  return resource < amounts.size() ? amounts[resource] : Wide{0};
}

inline void AddTo(WideAmounts* amounts, uint32_t resource, Wide value) {
  if (resource >= amounts->size()) amounts->resize(resource + 1);
  (*amounts)[resource] += value;
}

inline bool IsZero(const WideAmounts& amounts) {
  return std::all_of(amounts.begin(), amounts.end(), [](Wide value) { return value == 0; });
}

struct FlavorState;

struct NodeState {
  Node node;
  bool known = false;
  WideAmounts allocatable;
  WideAmounts pods;  // what pods in no claim take
  int64_t pod_count = 0;
  // While the trees are up to date: in which leaves it is, by flavor.
  std::vector<std::pair<FlavorState*, size_t>> leaves;
};

// What claims hold in one domain.
struct Usage {
  std::string flavor;
  std::vector<std::string> levels;
  std::vector<std::string> values;
  WideAmounts held[2];  // by PlaceBook
  // While the trees are up to date: the nodes it can be on, and the leaf that it is of.
  std::vector<NodeState*> nodes;
  FlavorState* tree = nullptr;
  size_t leaf = 0;
};

// Usage of another flavor's domain (or of another arrangement) that is or may be on nodes of this leaf.
struct Overlap {
  const Usage* usage = nullptr;
  bool whole = false;              // all of its nodes are here
  std::vector<NodeState*> shared;  // else: those that are
};

struct Leaf {
  std::vector<NodeState*> nodes;  // by name
  WideAmounts base;               // allocatable less pods
  const Usage* own = nullptr;
  std::vector<Overlap> overlaps;
};

struct FlavorState {
  std::string name;
  FlavorNodes spec;
  bool by_hostname = false;
  DomainTree tree;
  std::vector<Leaf> leaves;
  // By the values that assignments name.
  std::map<std::vector<std::string>, size_t> leaf_of;

  std::vector<std::string> AssignedLevels() const {
    if (by_hostname) return {spec.topology.levels.back()};
    return spec.topology.levels;
  }
  std::vector<std::string> AssignedValues(size_t leaf) const {
    const std::vector<std::string>& values = tree.ValuesOf(leaf);
    if (by_hostname) return {values.back()};
    return values;
  }
};

// One pod set, or a leader with its workers.
struct Group {
  const PodSetToPlace* workers = nullptr;
  size_t index = 0;
  const PodSetToPlace* leader = nullptr;
  size_t leader_index = 0;
};

class TopologyBook::Impl {
 public:
  explicit Impl(bool balanced) : balanced_(balanced) {}
  bool SetNode(const Node& node);
  bool RemoveNode(std::string_view name);
  bool SetPod(std::string_view key, std::string_view node, const std::map<std::string, Amount, std::less<>>& requests);
  bool RemovePod(std::string_view key);
  const Node* FindNode(std::string_view hostname) const;
  std::vector<std::string> FlavorsOfNode(std::string_view name) const;
  std::vector<std::string> Overlapping(std::string_view flavor);
  std::vector<std::vector<std::string>> DomainsOf(const PlacedPodSet& placed, const std::vector<std::string>& levels);
  void AddToHash(StateHash* hash) const;
  const std::string* NodeOfPod(std::string_view key) const;
  bool SetFlavor(std::string_view name, FlavorNodes spec);
  bool RemoveFlavor(std::string_view name);
  const FlavorNodes* FindFlavor(std::string_view name) const;
  bool HasFlavors() const { return !flavors_.empty(); }
  void Change(const PlacedPodSet& placed, PlaceBook book, int sign);
  bool HasLevels(std::string_view flavor, const TopologyRequest& request) const;
  Placement Place(std::string_view flavor, const std::vector<PodSetToPlace>& pod_sets, PlaceView view);
  std::optional<std::vector<TopologyAssignment>> Replace(std::string_view flavor,
                                                         const std::vector<PodSetToPlace>& pod_sets,
                                                         const std::vector<TopologyAssignment>& held,
                                                         std::string_view hostname);
  bool Fits(const std::vector<PlacedPodSet>& placed, PlaceView view);
  void Validate(const std::vector<PlacedPodSet>& placed, PlaceBook book) const;

 private:
  // Of leaves of the flavor that is being placed: what pod sets placed before take.
  using Assumed = std::map<size_t, WideAmounts>;
  using UsageKey = std::tuple<std::string, std::vector<std::string>, std::vector<std::string>>;

  struct PodState {
    std::string node;
    Requests requests;
    friend bool operator==(const PodState&, const PodState&) = default;
  };

  uint32_t Resource(std::string_view name);
  Requests Compile(const std::map<std::string, Amount, std::less<>>& amounts);
  // With the one `pods` that each pod takes.
  Requests CompilePod(const Shape& shape);
  NodeState* GetNode(std::string_view name);
  void DropIfUnused(std::string_view name);
  void CountPod(const PodState& pod, int sign);
  static void Recount(Leaf* leaf);
  void Refresh();
  void Build(FlavorState* flavor);
  void Resolve(Usage* usage);
  Usage* GetUsage(const PlacedPodSet& placed, const std::vector<std::string>& values);
  static Wide Free(const Leaf& leaf, uint32_t resource, PlaceView view);
  static Wide FreeIn(const Leaf& leaf, uint32_t resource, PlaceBook book);
  static Wide Clipped(const Overlap& overlap, uint32_t resource, PlaceBook book);

  std::optional<PlacementProblem> Translate(const FlavorState& flavor, const PodSetToPlace& pod_set,
                                            PlacementRequest* request) const;
  static bool IsExcluded(const FlavorState& flavor, const Leaf& leaf, const Shape& shape, Exclusions* exclusions);
  std::vector<LeafRoom> Rooms(const FlavorState& flavor, const Group& group, PlaceView view, const Assumed& assumed,
                              Exclusions* exclusions);
  // In which leaves pods that lost their node may be, and by which request; what was asked for becomes what is left of
  // it. `stay`: those of the pod set that have their places still; `group`: of all pod sets placed with it.
  struct Confined {
    PlacementRequest request;
    size_t first = 0, last = 0;  // leaves, as [first, last)
  };
  static Confined Confine(const FlavorState& flavor, PlacementRequest request, bool required,
                          const std::map<size_t, int64_t>& stay, const std::map<size_t, int64_t>& group);
  // All of its domains but that of the node are usable nodes.
  static bool AllKnown(const FlavorState& flavor, const TopologyAssignment& held, std::string_view hostname);
  // Those of the assignment by leaf, without the node; what is on unusable nodes is left out.
  static std::map<size_t, int64_t> LeavesOf(const FlavorState& flavor, const TopologyAssignment& held,
                                            std::string_view hostname);
  std::optional<PlacementProblem> PlaceGroup(const FlavorState& flavor, const Group& group, PlaceView view,
                                             Assumed* assumed, Placement* placement);
  void Assume(const PodSetToPlace& pod_set, const std::vector<std::pair<size_t, int64_t>>& pods, Assumed* assumed);
  static TopologyAssignment Assignment(const FlavorState& flavor, const std::vector<std::pair<size_t, int64_t>>& pods);

  bool balanced_;
  StringMap<uint32_t> resources_;
  std::vector<std::string> resource_names_;
  absl::btree_map<std::string, std::unique_ptr<NodeState>, std::less<>> nodes_;
  StringMap<PodState> pods_;
  absl::btree_map<std::string, std::unique_ptr<FlavorState>, std::less<>> flavors_;
  std::map<UsageKey, std::unique_ptr<Usage>> usages_;
  bool stale_ = false;  // trees are to be built again
};

}  // namespace muster::gang
