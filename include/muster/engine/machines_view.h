// What people see of machines: their room by flavor, quota that they cannot serve, and why gangs found no place.
//
// Threading: values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/amount.h"

namespace muster::engine {

// Of pods that ask for so many devices each.
inline constexpr std::array<int64_t, 5> kDeviceCounts = {1, 2, 4, 8, 16};

// A resource that some ClusterQueue or Cohort has quota of in that flavor, on the nodes that have the flavor's labels.
// A node of two flavors is in both.
struct FlavorRoomView {
  std::string flavor;
  std::string resource;
  int64_t nodes = 0;
  Amount nominal;      // of all ClusterQueues and Cohorts
  Amount allocatable;  // of all these nodes, whatever is on them
  // Of those that are ready, not cordoned, and without taints but those that the flavor names or tolerates: what nobody
  // has, and is kept for nobody; and the most of it on one node.
  Amount free;
  Amount largest_free;
  // Of an extended resource (devices), in the order of kDeviceCounts: how many pods that ask for so many, and nothing
  // else, would have places now. So a gang of as many starts, and one more pod would be too many.
  std::vector<int64_t> pods;
};

// Quota that the nodes of its flavor could not serve if they were empty. Flavors that are autoscaled have none, nor has
// any while no flavor has a node.
struct UnservedQuota {
  std::string cluster_queue;  // empty: of a Cohort
  std::string cohort;         // empty: of a ClusterQueue
  std::string field;          // "spec.resourceGroups[0].flavors[1].resources[0].nominalQuota"
  std::string flavor;
  std::string resource;
  Amount nominal;
  Amount allocatable;  // of all nodes of the flavor; less than `nominal`
  int64_t nodes = 0;   // of the flavor
};

// In the way of a gang that was looked at and did not fit.
enum class FitFailureCause : uint8_t {
  kResource,       // `resource` has too little room on too many nodes
  kPodsPerNode,    // likewise pod slots
  kNode,           // no node has the labels of the flavor
  kNodeSelector,   // none of those suits the pods' own,
  kNodeAffinity,   // or what they require,
  kTaint,          // or all such have taints that they do not tolerate,
  kUnschedulable,  // or are cordoned or not ready
  kTopology,       // no domain of the topology has room
  kTopologyLevel,  // the topology has not the levels asked for
  kSearchEnded,    // the search for places ended before it was proven that there are none
};
std::string_view Name(FitFailureCause cause);  // "PodsPerNode"

struct FitFailures {
  std::string flavor;  // empty: of pods that ask for nothing that a flavor has
  FitFailureCause cause = FitFailureCause::kResource;
  std::string resource;  // of kResource
  uint64_t count = 0;    // attempts to admit somebody that ended so, ever; each counts once
  friend bool operator==(const FitFailures&, const FitFailures&) = default;
};

}  // namespace muster::engine
