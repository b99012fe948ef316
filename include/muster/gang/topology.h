// Where the pods of a gang go in a hierarchy of domains (blocks, racks, nodes): the placement alone, over numbers of
// pods that fit each lowest domain. What a node has and who may use it is topology_book.h.
//
// The rules: a domain holds as many pods as its children together, in whole slices from the slice level up. Placement
// starts at the level asked for, in the one domain that fits best; preferred goes up a level at a time and ends in as
// few domains of the top as do; unconstrained starts with the domains that have the least room. Then it goes down a
// level at a time, and takes as few domains as do.
//
// Where the reference leaves places out, this does not: a gang that is no multiple of the slice size ends in one
// smaller slice, and a leader finds a domain wherever there is one.
//
// Source: KEP 2724; kueue_semantics 9.9.4; oracle category 11.
// Threading: values and pure functions; no floating point, the same input gives the same output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/core/hash.h"

namespace muster::gang {

inline constexpr std::string_view kHostnameLabel = "kubernetes.io/hostname";

// ---- as the API has it ---------------------------------------------------------------------------

// Each so many pods in one domain of that level.
struct SliceConstraint {
  std::string topology;  // node label of the level
  int32_t size = 0;
  friend bool operator==(const SliceConstraint&, const SliceConstraint&) = default;
};

// What a pod set asks for. At most one of the first three; none of anything: it asks for nothing.
struct TopologyRequest {
  std::string required;   // all pods in one domain of this level
  std::string preferred;  // if possible
  bool unconstrained = false;
  std::vector<SliceConstraint> slices;  // from the outermost layer in
  std::string group;                    // pod sets of one group are placed together
  friend bool operator==(const TopologyRequest&, const TopologyRequest&) = default;

  bool IsExplicit() const { return !required.empty() || !preferred.empty() || unconstrained || !slices.empty(); }
};

struct TopologyDomain {
  std::vector<std::string> values;  // of the assignment's levels
  int32_t count = 0;                // pods; at least one
  friend bool operator==(const TopologyDomain&, const TopologyDomain&) = default;
};

struct TopologyAssignment {
  std::vector<std::string> levels;      // node labels
  std::vector<TopologyDomain> domains;  // by the values of all levels of the topology
  friend bool operator==(const TopologyAssignment&, const TopologyAssignment&) = default;
};

void AddToHash(const TopologyRequest& request, StateHash* hash);
void AddToHash(const TopologyAssignment& assignment, StateHash* hash);

// ---- the tree of domains -------------------------------------------------------------------------

// Domains are numbers within their level, in the order of their values from the top level down.
class DomainTree {
 public:
  DomainTree() = default;
  // `leaves`: values of all levels; sorted, each once. REQUIRES: at least one level.
  DomainTree(std::vector<std::string> levels, std::vector<std::vector<std::string>> leaves);

  const std::vector<std::string>& levels() const { return levels_; }
  size_t depth() const { return levels_.size(); }
  // By node label.
  std::optional<size_t> LevelOf(std::string_view label) const;
  size_t DomainsAt(size_t level) const { return children_[level].size() - 1; }
  size_t leaves() const { return values_.size(); }
  const std::vector<std::string>& ValuesOf(size_t leaf) const { return values_[leaf]; }
  // Of a domain that is not a leaf: the numbers of its children in the next level, as [first, last).
  std::pair<size_t, size_t> ChildrenOf(size_t level, size_t domain) const {
    return {children_[level][domain], children_[level][domain + 1]};
  }
  // Of any domain: its leaves, as [first, last).
  std::pair<size_t, size_t> LeavesOf(size_t level, size_t domain) const;

 private:
  std::vector<std::string> levels_;
  std::vector<std::vector<std::string>> values_;
  // By level, by domain: its first child; one more entry at the end. Of the leaves: themselves.
  std::vector<std::vector<size_t>> children_;
};

// ---- placement -----------------------------------------------------------------------------------

// Each so many pods in one domain of that level.
struct SliceLayer {
  size_t level = 0;
  int64_t size = 1;
};

struct PlacementRequest {
  enum class Mode : uint8_t { kRequired, kPreferred, kUnconstrained };
  Mode mode = Mode::kUnconstrained;
  int64_t count = 0;    // pods, without the leader
  bool leader = false;  // one more pod of another kind, in the same domain (required) or near
  // Of kPreferred: spread evenly, where it has to be spread (TASBalancedPlacement).
  bool balanced = false;
  size_t level = 0;
  // From the outermost in, each at a lower level than the one before and of a size that divides that one's; the first
  // not above `level`. Empty: single pods.
  std::vector<SliceLayer> slices;
};

// How many pods have a place in a leaf.
struct LeafRoom {
  int64_t pods = 0;
  bool leader = false;           // the leader has one
  int64_t pods_with_leader = 0;  // beside the leader; as `pods` where it has none
};

struct PlacementResult {
  bool fits = false;
  // (leaf, pods) by leaf; no leaf with none.
  std::vector<std::pair<size_t, int64_t>> pods;
  std::optional<size_t> leader;

  // Where it does not fit: how many units (slices, or pods where a slice is one) of how many have a place, at most.
  int64_t fit = 0;
  int64_t wanted = 0;
  // With several layers: the same for each of them, in the domain that holds the most.
  std::vector<std::pair<int64_t, int64_t>> layers;
};

// REQUIRES: `rooms` has an entry for each leaf; the request's levels exist.
PlacementResult Place(const DomainTree& tree, const std::vector<LeafRoom>& rooms, const PlacementRequest& request);

}  // namespace muster::gang
