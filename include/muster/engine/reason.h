// Why a workload waits: a value, never a text. The controller turns it into conditions, events and metric
// labels.
//
// Source: kueue_semantics 1.6 (reasons of QuotaReserved=False), 5.3, 5.6.
// Threading: values and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/amount.h"
#include "muster/core/time.h"
#include "muster/gang/machine_room.h"
#include "muster/gang/topology_book.h"
#include "muster/quota/bound.h"

namespace muster::engine {

// The reason of the QuotaReserved=False condition; the names are Kueue's.
enum class ReasonCode : uint8_t {
  kPendingEvaluation,
  kNoMatchingFlavor,
  kWaitingForQuota,
  kExceedsMaxQuota,
  kWaitingForPreemptedWorkloads,
  kWaitingForPodsReady,
  kTopologyPlacementFailed,
  kMisconfigured,
  kSuspended,
  kAdmissionGated,
  kDeactivated,
};
inline constexpr size_t kReasonCodes = static_cast<size_t>(ReasonCode::kDeactivated) + 1;

// Why a ClusterQueue admits nothing; in Kueue's order of precedence, with what Muster adds.
enum class InactiveReason : uint8_t {
  kTerminating,
  kStopped,
  kMisconfigured,  // its own spec cannot be read
  kFlavorNotFound,
  kFlavorMisconfigured,  // the spec of a flavor of its cannot be read
  kAdmissionCheckNotFound,
  kAdmissionCheckInactive,
  kMultipleMultiKueueChecks,
  kMultiKueueCheckPerFlavor,
  kMultiKueueWithProvisioningRequest,
  kTopologyNotFound,
  kCohortCycle,
  kCohortMisconfigured,  // likewise of a cohort that it is in
};

// What exactly stands in the way; several may hold at once, one a flavor and resource.
enum class ObstacleKind : uint8_t {
  kAdmissionGated,           // object = who holds it back
  kLocalQueueMissing,        // object
  kLocalQueueStopped,        // object
  kLocalQueueMisconfigured,  // object, names = the field and its value
  kClusterQueueMissing,      // object
  kClusterQueueInactive,     // object, inactive, names = as of the Inactivity
  kNamespaceMismatch,        // object = the ClusterQueue
  kResourceNotCovered,       // pod_set, resource, requested; object = the ClusterQueue
  kFlavorNotFound,           // pod_set, flavor
  kUntoleratedTaint,         // pod_set, flavor, object = the taint "key=value:effect"
  kNodeSelectorMismatch,     // pod_set, flavor, object = what is selected, "key=value"
  kNodeAffinityMismatch,     // pod_set, flavor
  kExceedsMaximum,           // pod_set, flavor, resource; amounts: requested, assumed, limit; the bound
  kInsufficientUnused,       // pod_set, flavor, resource; amounts: requested, assumed, missing; the bound
  kNoRoom,                   // pod_set, flavor, machines: those of the flavor have no place for it; count = nodes that
                             // are reserved for it, until = when these are free at the latest (unset: nobody knows)
  kPreemptionGated,          // others would have to go, and it may not preempt; names = the gates that are closed
  kPendingPreemption,        // count = workloads that have to leave first, until = how long room is kept (unset: not)
  kDeferredFit,              // likewise; it fits once those have left that others preempted in the same pass
  kOverlappingTargets,       // another workload of the pass preempts some of the same; object = the ClusterQueue
  kVictimSearchEnded,        // count = steps after which the search for workloads to preempt was given up
  kFlavorOnlyTopology,       // pod_set, flavor: asks for no topology, and the flavor has one
  kFlavorWithoutTopology,    // pod_set, flavor: the other way round
  kTopologyLevelMissing,     // pod_set, flavor: its topology has not the levels asked for
  kNoPlacement,              // pod_set, flavor, placement: its topology has no place for it
  kLostToAnother,            // nominated, but another workload of the pass took the room; object = the ClusterQueue
  kBehindStrictHead,         // object = uid of the StrictFIFO head it waits behind, who is the one blocker
  kStartRefused,             // object = the API server's message; the write will be tried again
  kBackingOff,               // not_before has not come
  kRequestsExceedLimits,     // pod_set, field, resource; amounts: requested, limit
  kLimitRange,               // likewise; object = the LimitRange
  kRuntimeClassMissing,      // pod_set, object
  kOriginalFlavor,           // pod_set, flavor, resource; object = the flavor of the pods that it has already
  kFlavorTimedOut,      // pod_set, flavor; count = how often its pods were not ready in time there: others go first
  kOriginalQueue,       // its LocalQueue leads elsewhere; object = the ClusterQueue that holds its pods
  kPodsNotReady,        // it fits; admissions wait until the pods of the blockers are ready
  kGivesWay,            // it was moved for the one blocker, whose pods go to their nodes first
  kResourceQuota,       // object = the ResourceQuota, resource as its limit is named; amounts: requested by the gang,
                        // limit = hard, used, assumed = of pods that are to come of others
  kResourceQuotaUnset,  // object, pod_set, resource: likewise, and some container says nothing of it
  kChecksPending,       // quota is reserved; object = the ClusterQueue, names = the checks with state and message
};

struct Obstacle {
  ObstacleKind kind = ObstacleKind::kInsufficientUnused;
  std::string pod_set;
  std::string flavor;
  std::string resource;
  std::string object;
  Amount requested;  // this pod set's own request; of a field, its value
  Amount assumed;    // what earlier pod sets of the same workload take of it
  Amount limit;      // the most it could ever have, or may have
  Amount missing;    // what would have to be freed
  // The first quota or limit in the way, from the ClusterQueue up: that of the ClusterQueue or Cohort `object`.
  quota::Bound bound = quota::Bound::kQuota;
  bool of_cohort = false;
  Amount bound_limit;  // as of quota::Shortage
  Amount used;         // likewise
  std::string field;   // "containers[0].resources.requests"
  bool below = false;  // of kLimitRange: `limit` is a minimum
  bool kept = false;   // of kInsufficientUnused: as much is free, but kept for preemptors
  int64_t count = 0;
  WallTime until;
  InactiveReason inactive = InactiveReason::kStopped;
  std::vector<std::string> names;
  std::optional<gang::PlacementProblem> placement{};  // why there is no place
  std::optional<gang::RoomProblem> machines{};        // likewise, on the machines of the flavor
  friend bool operator==(const Obstacle&, const Obstacle&) = default;
};

// A workload that is in the way of another.
struct Blocker {
  std::string uid;
  std::string ns;
  std::string name;
  friend bool operator==(const Blocker&, const Blocker&) = default;
};

struct Reason {
  ReasonCode code = ReasonCode::kPendingEvaluation;
  std::vector<Obstacle> obstacles;
  // Those who hold what is missing, or stand before this one; at most a handful.
  std::vector<Blocker> blockers;
  friend bool operator==(const Reason&, const Reason&) = default;
};

// The first thing in the way, finer than the reason of the condition: one for each waiting workload. Scripts and
// alerts use the names that the controller gives them, so none is ever renamed.
enum class WaitCode : uint8_t {
  kPendingEvaluation,
  kQuotaInUse,
  kBorrowingLimit,
  kLendingLimit,
  kNeverFits,
  kResourceNotCovered,
  kFlavorMissing,
  kUntoleratedTaint,
  kNodeSelectorMismatch,
  kNodeAffinityMismatch,
  kNoRoom,
  kPendingPreemption,
  kPreemptionGated,
  kRoomKept,
  kFlavorOnlyTopology,
  kFlavorWithoutTopology,
  kTopologyLevelMissing,
  kNoPlacement,
  kLostToAnother,
  kBehindStrictHead,
  kNamespaceMismatch,
  kLocalQueueMissing,
  kLocalQueueStopped,
  kLocalQueueMisconfigured,
  kClusterQueueMissing,
  kClusterQueueStopped,
  kClusterQueueTerminating,
  kClusterQueueMisconfigured,  // or a flavor or cohort of its
  kAdmissionCheck,
  kTopologyMissing,
  kStartRefused,
  kBackingOff,
  kRequestsAboveLimits,
  kOutsideLimitRange,
  kRuntimeClassMissing,
  kPodsNotReady,
  kAdmissionGated,
  kDeactivated,
  kOriginalFlavor,
  kOriginalQueue,
  kResourceQuota,
};
inline constexpr size_t kWaitCodes = static_cast<size_t>(WaitCode::kResourceQuota) + 1;

// The obstacle that `reason.code` comes from; null where there is none.
const Obstacle* DecisiveObstacle(const Reason& reason);
WaitCode WaitCodeOf(const Reason& reason);

// As conditions and metrics have them: "WaitingForQuota", "QuotaInUse".
std::string_view Name(ReasonCode code);
std::string_view Name(WaitCode code);

// How many wait, by why.
struct WaitCounts {
  std::array<int64_t, kReasonCodes> by_reason{};
  std::array<int64_t, kWaitCodes> by_code{};
  friend bool operator==(const WaitCounts&, const WaitCounts&) = default;
};

}  // namespace muster::engine
