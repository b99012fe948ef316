#include "muster/engine/reason.h"

#include <iterator>
#include <utility>

#include "muster/core/check.h"

namespace muster::engine {

namespace {

WaitCode CodeOfShortage(quota::Bound bound) {
  switch (bound) {
    case quota::Bound::kQuota:
      return WaitCode::kQuotaInUse;
    case quota::Bound::kBorrowingLimit:
      return WaitCode::kBorrowingLimit;
    case quota::Bound::kLendingLimit:
      return WaitCode::kLendingLimit;
  }
  CheckFailed(__FILE__, __LINE__, "known bound");
}

WaitCode CodeOfInactivity(InactiveReason reason) {
  switch (reason) {
    case InactiveReason::kTerminating:
      return WaitCode::kClusterQueueTerminating;
    case InactiveReason::kStopped:
      return WaitCode::kClusterQueueStopped;
    case InactiveReason::kFlavorNotFound:
      return WaitCode::kFlavorMissing;
    case InactiveReason::kMisconfigured:
    case InactiveReason::kFlavorMisconfigured:
    case InactiveReason::kCohortCycle:
    case InactiveReason::kCohortMisconfigured:
      return WaitCode::kClusterQueueMisconfigured;
    case InactiveReason::kAdmissionCheckNotFound:
    case InactiveReason::kAdmissionCheckInactive:
    case InactiveReason::kMultipleMultiKueueChecks:
    case InactiveReason::kMultiKueueCheckPerFlavor:
    case InactiveReason::kMultiKueueWithProvisioningRequest:
      return WaitCode::kAdmissionCheck;
    case InactiveReason::kTopologyNotFound:
      return WaitCode::kTopologyMissing;
  }
  CheckFailed(__FILE__, __LINE__, "known inactive reason");
}

WaitCode CodeOfTopology(ObstacleKind kind) {
  if (kind == ObstacleKind::kFlavorOnlyTopology) return WaitCode::kFlavorOnlyTopology;
  if (kind == ObstacleKind::kFlavorWithoutTopology) return WaitCode::kFlavorWithoutTopology;
  return kind == ObstacleKind::kTopologyLevelMissing ? WaitCode::kTopologyLevelMissing : WaitCode::kNoPlacement;
}

// Of what the pods ask for, wherever they would go.
WaitCode CodeOfRequests(ObstacleKind kind) {
  if (kind == ObstacleKind::kRequestsExceedLimits) return WaitCode::kRequestsAboveLimits;
  if (kind == ObstacleKind::kLimitRange) return WaitCode::kOutsideLimitRange;
  return kind == ObstacleKind::kRuntimeClassMissing ? WaitCode::kRuntimeClassMissing : WaitCode::kResourceQuota;
}

WaitCode CodeOfLocalQueue(ObstacleKind kind) {
  if (kind == ObstacleKind::kLocalQueueMissing) return WaitCode::kLocalQueueMissing;
  return kind == ObstacleKind::kLocalQueueStopped ? WaitCode::kLocalQueueStopped : WaitCode::kLocalQueueMisconfigured;
}

WaitCode CodeOf(const Obstacle& obstacle) {
  switch (obstacle.kind) {
    case ObstacleKind::kAdmissionGated:
      return WaitCode::kAdmissionGated;
    case ObstacleKind::kLocalQueueMissing:
    case ObstacleKind::kLocalQueueStopped:
    case ObstacleKind::kLocalQueueMisconfigured:
      return CodeOfLocalQueue(obstacle.kind);
    case ObstacleKind::kClusterQueueMissing:
      return WaitCode::kClusterQueueMissing;
    case ObstacleKind::kClusterQueueInactive:
      return CodeOfInactivity(obstacle.inactive);
    case ObstacleKind::kNamespaceMismatch:
      return WaitCode::kNamespaceMismatch;
    case ObstacleKind::kResourceNotCovered:
      return WaitCode::kResourceNotCovered;
    case ObstacleKind::kFlavorNotFound:
      return WaitCode::kFlavorMissing;
    case ObstacleKind::kUntoleratedTaint:
      return WaitCode::kUntoleratedTaint;
    case ObstacleKind::kNodeSelectorMismatch:
      return WaitCode::kNodeSelectorMismatch;
    case ObstacleKind::kNodeAffinityMismatch:
      return WaitCode::kNodeAffinityMismatch;
    case ObstacleKind::kExceedsMaximum:
      return WaitCode::kNeverFits;
    case ObstacleKind::kInsufficientUnused:
      return obstacle.kept ? WaitCode::kRoomKept : CodeOfShortage(obstacle.bound);
    case ObstacleKind::kPreemptionGated:
      return WaitCode::kPreemptionGated;
    case ObstacleKind::kPendingPreemption:
    case ObstacleKind::kDeferredFit:
      return WaitCode::kPendingPreemption;
    case ObstacleKind::kVictimSearchEnded:
    case ObstacleKind::kFlavorTimedOut:  // those that go first are the ones that are waited for
      return WaitCode::kQuotaInUse;
    case ObstacleKind::kNoRoom:
      return obstacle.machines.has_value() && obstacle.machines->kept ? WaitCode::kRoomKept : WaitCode::kNoRoom;
    case ObstacleKind::kFlavorOnlyTopology:
    case ObstacleKind::kFlavorWithoutTopology:
    case ObstacleKind::kTopologyLevelMissing:
    case ObstacleKind::kNoPlacement:
      return CodeOfTopology(obstacle.kind);
    case ObstacleKind::kOverlappingTargets:
    case ObstacleKind::kLostToAnother:
      return WaitCode::kLostToAnother;
    case ObstacleKind::kBehindStrictHead:
      return WaitCode::kBehindStrictHead;
    case ObstacleKind::kStartRefused:
      return WaitCode::kStartRefused;
    case ObstacleKind::kBackingOff:
      return WaitCode::kBackingOff;
    case ObstacleKind::kRequestsExceedLimits:
    case ObstacleKind::kLimitRange:
    case ObstacleKind::kRuntimeClassMissing:
    case ObstacleKind::kResourceQuota:
    case ObstacleKind::kResourceQuotaUnset:
      return CodeOfRequests(obstacle.kind);
    case ObstacleKind::kOriginalFlavor:
      return WaitCode::kOriginalFlavor;
    case ObstacleKind::kOriginalQueue:
      return WaitCode::kOriginalQueue;
    case ObstacleKind::kPodsNotReady:
    case ObstacleKind::kGivesWay:
      return WaitCode::kPodsNotReady;
    case ObstacleKind::kChecksPending:
      return WaitCode::kAdmissionCheck;
  }
  CheckFailed(__FILE__, __LINE__, "known obstacle kind");
}

// Whether the code of a reason with several obstacles comes from this one.
bool Gives(const Obstacle& obstacle, ReasonCode code) {
  switch (code) {
    case ReasonCode::kNoMatchingFlavor:
      return obstacle.kind == ObstacleKind::kResourceNotCovered || obstacle.kind == ObstacleKind::kFlavorNotFound ||
             obstacle.kind == ObstacleKind::kUntoleratedTaint || obstacle.kind == ObstacleKind::kNodeSelectorMismatch ||
             obstacle.kind == ObstacleKind::kNodeAffinityMismatch ||
             obstacle.kind == ObstacleKind::kFlavorOnlyTopology ||
             obstacle.kind == ObstacleKind::kFlavorWithoutTopology ||
             obstacle.kind == ObstacleKind::kTopologyLevelMissing || obstacle.kind == ObstacleKind::kOriginalFlavor;
    case ReasonCode::kWaitingForQuota:
      return obstacle.kind == ObstacleKind::kInsufficientUnused || obstacle.kind == ObstacleKind::kLostToAnother ||
             obstacle.kind == ObstacleKind::kOverlappingTargets || obstacle.kind == ObstacleKind::kNoPlacement ||
             obstacle.kind == ObstacleKind::kResourceQuota;
    case ReasonCode::kWaitingForPreemptedWorkloads:
      return obstacle.kind == ObstacleKind::kPendingPreemption || obstacle.kind == ObstacleKind::kDeferredFit;
    case ReasonCode::kExceedsMaxQuota:
      return obstacle.kind == ObstacleKind::kExceedsMaximum || obstacle.kind == ObstacleKind::kResourceQuota;
    case ReasonCode::kTopologyPlacementFailed:
      return obstacle.kind == ObstacleKind::kNoRoom || obstacle.kind == ObstacleKind::kNoPlacement;
    case ReasonCode::kAdmissionGated:
      return obstacle.kind == ObstacleKind::kAdmissionGated || obstacle.kind == ObstacleKind::kPreemptionGated;
    case ReasonCode::kPendingEvaluation:
    case ReasonCode::kWaitingForPodsReady:
    case ReasonCode::kMisconfigured:
    case ReasonCode::kSuspended:
    case ReasonCode::kDeactivated:
      return true;
  }
  CheckFailed(__FILE__, __LINE__, "known reason code");
}

}  // namespace

const Obstacle* DecisiveObstacle(const Reason& reason) {
  for (const Obstacle& obstacle : reason.obstacles) {
    if (Gives(obstacle, reason.code)) return &obstacle;
  }
  return reason.obstacles.empty() ? nullptr : &reason.obstacles.front();
}

WaitCode WaitCodeOf(const Reason& reason) {
  if (reason.code == ReasonCode::kDeactivated) return WaitCode::kDeactivated;
  const Obstacle* obstacle = DecisiveObstacle(reason);
  return obstacle == nullptr ? WaitCode::kPendingEvaluation : CodeOf(*obstacle);
}

std::string_view Name(ReasonCode code) {
  switch (code) {
    case ReasonCode::kPendingEvaluation:
      return "PendingEvaluation";
    case ReasonCode::kNoMatchingFlavor:
      return "NoMatchingFlavor";
    case ReasonCode::kWaitingForQuota:
      return "WaitingForQuota";
    case ReasonCode::kExceedsMaxQuota:
      return "ExceedsMaxQuota";
    case ReasonCode::kWaitingForPreemptedWorkloads:
      return "WaitingForPreemptedWorkloads";
    case ReasonCode::kWaitingForPodsReady:
      return "WaitingForPodsReady";
    case ReasonCode::kTopologyPlacementFailed:
      return "TopologyPlacementFailed";
    case ReasonCode::kMisconfigured:
      return "Misconfigured";
    case ReasonCode::kSuspended:
      return "Suspended";
    case ReasonCode::kAdmissionGated:
      return "AdmissionGated";
    case ReasonCode::kDeactivated:
      return "Deactivated";
  }
  CheckFailed(__FILE__, __LINE__, "known code");
}

namespace {

// In the order of the codes.
constexpr std::pair<WaitCode, std::string_view> kWaitCodeNames[] = {
    {WaitCode::kPendingEvaluation, "PendingEvaluation"},
    {WaitCode::kQuotaInUse, "QuotaInUse"},
    {WaitCode::kBorrowingLimit, "BorrowingLimit"},
    {WaitCode::kLendingLimit, "LendingLimit"},
    {WaitCode::kNeverFits, "NeverFits"},
    {WaitCode::kResourceNotCovered, "ResourceNotCovered"},
    {WaitCode::kFlavorMissing, "FlavorMissing"},
    {WaitCode::kUntoleratedTaint, "UntoleratedTaint"},
    {WaitCode::kNodeSelectorMismatch, "NodeSelectorMismatch"},
    {WaitCode::kNodeAffinityMismatch, "NodeAffinityMismatch"},
    {WaitCode::kNoRoom, "NoRoom"},
    {WaitCode::kPendingPreemption, "PendingPreemption"},
    {WaitCode::kPreemptionGated, "PreemptionGated"},
    {WaitCode::kRoomKept, "RoomKept"},
    {WaitCode::kFlavorOnlyTopology, "FlavorOnlyTopology"},
    {WaitCode::kFlavorWithoutTopology, "FlavorWithoutTopology"},
    {WaitCode::kTopologyLevelMissing, "TopologyLevelMissing"},
    {WaitCode::kNoPlacement, "NoPlacement"},
    {WaitCode::kLostToAnother, "LostToAnother"},
    {WaitCode::kBehindStrictHead, "BehindStrictHead"},
    {WaitCode::kNamespaceMismatch, "NamespaceMismatch"},
    {WaitCode::kLocalQueueMissing, "LocalQueueMissing"},
    {WaitCode::kLocalQueueStopped, "LocalQueueStopped"},
    {WaitCode::kLocalQueueMisconfigured, "LocalQueueMisconfigured"},
    {WaitCode::kClusterQueueMissing, "ClusterQueueMissing"},
    {WaitCode::kClusterQueueStopped, "ClusterQueueStopped"},
    {WaitCode::kClusterQueueTerminating, "ClusterQueueTerminating"},
    {WaitCode::kClusterQueueMisconfigured, "ClusterQueueMisconfigured"},
    {WaitCode::kAdmissionCheck, "AdmissionCheck"},
    {WaitCode::kTopologyMissing, "TopologyMissing"},
    {WaitCode::kStartRefused, "StartRefused"},
    {WaitCode::kBackingOff, "BackingOff"},
    {WaitCode::kRequestsAboveLimits, "RequestsAboveLimits"},
    {WaitCode::kOutsideLimitRange, "OutsideLimitRange"},
    {WaitCode::kRuntimeClassMissing, "RuntimeClassMissing"},
    {WaitCode::kPodsNotReady, "PodsNotReady"},
    {WaitCode::kAdmissionGated, "AdmissionGated"},
    {WaitCode::kDeactivated, "Deactivated"},
    {WaitCode::kOriginalFlavor, "OriginalFlavor"},
    {WaitCode::kOriginalQueue, "OriginalClusterQueue"},
    {WaitCode::kResourceQuota, "ResourceQuota"},
};

constexpr bool EachAtItsPlace() {
  for (size_t i = 0; i < std::size(kWaitCodeNames); ++i) {
    if (static_cast<size_t>(kWaitCodeNames[i].first) != i) return false;
  }
  return std::size(kWaitCodeNames) == kWaitCodes;
}
static_assert(EachAtItsPlace());

}  // namespace

std::string_view Name(WaitCode code) { return kWaitCodeNames[static_cast<size_t>(code)].second; }

}  // namespace muster::engine
