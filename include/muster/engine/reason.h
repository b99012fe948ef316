// Why a workload waits: a value, never a text. The controller turns it into conditions, events and metric
// labels.
//
// Source: kueue_semantics 1.6 (reasons of QuotaReserved=False), 5.3, 5.6.
// Threading: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/core/amount.h"

namespace muster::engine {

// The reason of the QuotaReserved=False condition; the names are Kueue's.
enum class ReasonCode : uint8_t {
  kPendingEvaluation,
  kNoMatchingFlavor,
  kWaitingForQuota,
  kExceedsMaxQuota,
  kWaitingForPreemptedWorkloads,
  kTopologyPlacementFailed,
  kMisconfigured,
  kSuspended,
  kAdmissionGated,
  kDeactivated,
};

// What exactly stands in the way; several may hold at once, one a flavor and resource.
enum class ObstacleKind : uint8_t {
  kAdmissionGated,        // object = who holds it back
  kLocalQueueMissing,     // object
  kLocalQueueStopped,     // object
  kClusterQueueMissing,   // object
  kClusterQueueInactive,  // object
  kNamespaceMismatch,     // object = the ClusterQueue
  kResourceNotCovered,    // pod_set, resource
  kFlavorNotFound,        // pod_set, flavor
  kUntoleratedTaint,      // pod_set, flavor, object = the taint "key=value:effect"
  kAffinityMismatch,      // pod_set, flavor
  kExceedsMaximum,        // pod_set, flavor, resource; amounts: requested, assumed, limit
  kInsufficientUnused,    // pod_set, flavor, resource; amounts: requested, missing
  kNoRoom,                // pod_set, flavor: the machines of the flavor have no place for it
  kLostToAnother,         // nominated, but another workload of the pass took the room
  kBehindStrictHead,      // object = uid of the StrictFIFO head it waits behind
  kEquivalentFailed,      // a workload of the same shape just failed
  kStartRefused,          // object = the API server's message; the write will be tried again
  kBackingOff,            // not_before has not come
  kRequestsExceedLimits,  // object = field and values
  kLimitRange,            // object = field and values
};

struct Obstacle {
  ObstacleKind kind = ObstacleKind::kInsufficientUnused;
  std::string pod_set;
  std::string flavor;
  std::string resource;
  std::string object;
  Amount requested;  // this pod set's own request
  Amount assumed;    // what earlier pod sets of the same workload take of it
  Amount limit;      // the most it could ever have
  Amount missing;    // what would have to be freed
  friend bool operator==(const Obstacle&, const Obstacle&) = default;
};

struct Reason {
  ReasonCode code = ReasonCode::kPendingEvaluation;
  std::vector<Obstacle> obstacles;
  // Workloads (uid) that hold what is missing, or stand before this one; at most a handful.
  std::vector<std::string> blockers;
  friend bool operator==(const Reason&, const Reason&) = default;
};

}  // namespace muster::engine
