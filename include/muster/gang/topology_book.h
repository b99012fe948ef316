// What is free in the domains of each flavor with a topology, and where the pods of a workload would go.
//
// A flavor has the nodes that carry its node labels and all level labels, are ready and not cordoned. A lowest domain
// has what its nodes have, less what pods that are in no claim take of them, less what claims hold. Where the lowest
// level is the hostname, taints, selector and required affinity of a pod keep it from a node; a leader's own keep the
// leader.
//
// A claim holds amounts in domains, not on nodes, unless the lowest level is the hostname. A domain of another flavor
// that has all the nodes of such a domain counts them whole; one that has some of them counts the worst case: all of it
// is on those, as far as they can hold it. So flavors that overlap never give the same room twice.
//
// Source: kueue_semantics 9.9.1-9.9.4; oracle category 11. Units: Amount's.
// Threading: needs external synchronisation.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/core/string_map.h"
#include "muster/gang/node.h"
#include "muster/gang/shape.h"
#include "muster/gang/topology.h"

namespace muster::gang {

struct Topology {
  std::string name;
  std::vector<std::string> levels;  // node labels, the widest first
  friend bool operator==(const Topology&, const Topology&) = default;
};

// The nodes of a flavor, and how they are arranged.
struct FlavorNodes {
  Topology topology;
  Labels node_labels;
  std::vector<Toleration> tolerations;
  friend bool operator==(const FlavorNodes&, const FlavorNodes&) = default;
};

// One pod set in search of a place.
struct PodSetToPlace {
  std::string name;
  ShapePtr shape;
  int64_t count = 0;
  TopologyRequest request;  // of nothing: as if unconstrained
};

// One pod set in its place.
struct PlacedPodSet {
  std::string flavor;
  ShapePtr shape;
  TopologyAssignment assignment;
};

// Why lowest domains have no place for even one pod.
struct Exclusions {
  int64_t domains = 0;  // all
  int64_t node_selector = 0;
  int64_t affinity = 0;
  std::map<std::string, int64_t, std::less<>> taints;     // "key=value:effect"
  std::map<std::string, int64_t, std::less<>> resources;  // that run out first
  friend bool operator==(const Exclusions&, const Exclusions&) = default;
};

struct PlacementProblem {
  enum class Kind : uint8_t {
    kNoFit,        // fit, wanted, slices, layers, exclusions
    kNoLevel,      // level
    kNoDomains,    // level
    kSlicesAbove,  // level: of the slices, which is above that of the pod set, or of a layer not below the one before
    kSliceSize,    // level, size: of a layer, that is not positive or does not divide that of the layer before
    kNoTopology,   // the flavor has none that is known
    kSeveral,      // resources of the pod set come from several flavors with a topology
  };
  Kind kind = Kind::kNoFit;
  std::string pod_set;
  std::string topology;
  std::string level;
  int64_t size = 0;
  int64_t fit = 0;
  int64_t wanted = 0;
  bool slices = false;                              // fit and wanted are slices, not pods
  std::vector<std::pair<int64_t, int64_t>> layers;  // (fit, wanted) of several layers of slices
  std::vector<std::string> layer_levels;            // of those
  Exclusions exclusions;
  friend bool operator==(const PlacementProblem&, const PlacementProblem&) = default;
};

void AddToHash(const PlacementProblem& problem, StateHash* hash);

struct Placement {
  std::optional<PlacementProblem> problem;
  // By pod set, as given; of one with no pods: none.
  std::vector<std::optional<TopologyAssignment>> assignments;
};

// As the ledger of quota has them: what is taken, and what will be once those that leave have left, and those that room
// is kept for have come.
enum class PlaceBook : uint8_t { kActual, kPlanned };
inline constexpr PlaceBook kPlaceBooks[] = {PlaceBook::kActual, PlaceBook::kPlanned};

// What counts as taken.
enum class PlaceView : uint8_t {
  kBoth,     // what is in either book
  kPlanned,  // what is in that
  kEmpty,    // nothing
};

class TopologyBook {
 public:
  // `balanced`: gangs that would rather be in one domain, and are spread, are spread evenly (TASBalancedPlacement).
  explicit TopologyBook(bool balanced = false);
  ~TopologyBook();
  TopologyBook(const TopologyBook&) = delete;
  TopologyBook& operator=(const TopologyBook&) = delete;

  // ---- nodes, and pods on them that no claim here stands for. RETURNS: whether anything changed.
  bool SetNode(const Node& node);
  bool RemoveNode(std::string_view name);
  // `key`: any unique name of the pod. A pod on a node that is not known counts once that comes.
  bool SetPod(std::string_view key, std::string_view node, const std::map<std::string, Amount, std::less<>>& requests);
  bool RemovePod(std::string_view key);
  // The node of that hostname, whether or not it is fit for use; null: there is none.
  const Node* FindNode(std::string_view hostname) const;
  // The flavors that have the node now, whether or not it is fit for use; sorted.
  std::vector<std::string> FlavorsOfNode(std::string_view node) const;
  // The flavors that have usable nodes in common with this one; itself among them while it is known. Sorted.
  std::vector<std::string> Overlapping(std::string_view flavor);
  // The values of these node labels on the nodes that the places are, or may be, on; of nodes that have all of them;
  // sorted.
  std::vector<std::vector<std::string>> DomainsOf(const PlacedPodSet& placed, const std::vector<std::string>& levels);
  // Where the pod is; null where it is not known.
  const std::string* NodeOfPod(std::string_view key) const;

  // ---- flavors with a topology. RETURNS: whether anything changed.
  bool SetFlavor(std::string_view name, FlavorNodes flavor);
  bool RemoveFlavor(std::string_view name);
  const FlavorNodes* FindFlavor(std::string_view name) const;  // null: not known
  bool HasFlavors() const;

  // ---- what claims hold; each Take is ended by one equal Release
  void Take(const PlacedPodSet& placed, PlaceBook book) { Change(placed, book, 1); }
  void Release(const PlacedPodSet& placed, PlaceBook book) { Change(placed, book, -1); }

  // ---- questions
  // Whether the flavor has all levels that the request names. REQUIRES: FindFlavor
  bool HasLevels(std::string_view flavor, const TopologyRequest& request) const;
  // Places all of them in the flavor.
  Placement Place(std::string_view flavor, const std::vector<PodSetToPlace>& pod_sets, PlaceView view);
  // Other places for the pods that `held` has on the node of that hostname, and all else as it is: in the domain that
  // is asked for, and where a slice loses some of its pods, in the domain of that slice. `held`: by pod set, taken in
  // both books. The lowest level must be the hostname. RETURNS: by pod set; nothing where there are no such places.
  // Source: kueue_semantics 9.9.7.
  std::optional<std::vector<TopologyAssignment>> Replace(std::string_view flavor,
                                                         const std::vector<PodSetToPlace>& pod_sets,
                                                         const std::vector<TopologyAssignment>& held,
                                                         std::string_view hostname);
  // Whether all of them together have room where they are put, beside what is held.
  bool Fits(const std::vector<PlacedPodSet>& placed, PlaceView view);

  // Nodes and pods; what claims hold is in these.
  void AddToHash(StateHash* hash) const;
  // Aborts where what a book holds is not `placed`, which are all that was taken there and not released.
  void Validate(const std::vector<PlacedPodSet>& placed, PlaceBook book) const;

 private:
  class Impl;
  void Change(const PlacedPodSet& placed, PlaceBook book, int sign);

  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::gang
