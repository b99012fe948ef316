#include "muster/engine/reason.h"

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
    case InactiveReason::kAdmissionChecks:
      return WaitCode::kAdmissionCheck;
    case InactiveReason::kUnsupported:
      return WaitCode::kUnsupported;
  }
  CheckFailed(__FILE__, __LINE__, "known inactive reason");
}

WaitCode CodeOf(const Obstacle& obstacle) {
  switch (obstacle.kind) {
    case ObstacleKind::kAdmissionGated:
      return WaitCode::kAdmissionGated;
    case ObstacleKind::kLocalQueueMissing:
      return WaitCode::kLocalQueueMissing;
    case ObstacleKind::kLocalQueueStopped:
      return WaitCode::kLocalQueueStopped;
    case ObstacleKind::kLocalQueueMisconfigured:
      return WaitCode::kLocalQueueMisconfigured;
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
      return CodeOfShortage(obstacle.bound);
    case ObstacleKind::kNoRoom:
      return WaitCode::kNoRoom;
    case ObstacleKind::kLostToAnother:
      return WaitCode::kLostToAnother;
    case ObstacleKind::kBehindStrictHead:
      return WaitCode::kBehindStrictHead;
    case ObstacleKind::kStartRefused:
      return WaitCode::kStartRefused;
    case ObstacleKind::kBackingOff:
      return WaitCode::kBackingOff;
    case ObstacleKind::kRequestsExceedLimits:
      return WaitCode::kRequestsAboveLimits;
    case ObstacleKind::kLimitRange:
      return WaitCode::kOutsideLimitRange;
    case ObstacleKind::kRuntimeClassMissing:
      return WaitCode::kRuntimeClassMissing;
  }
  CheckFailed(__FILE__, __LINE__, "known obstacle kind");
}

// Whether the code of a reason with several obstacles comes from this one.
bool Gives(const Obstacle& obstacle, ReasonCode code) {
  switch (code) {
    case ReasonCode::kNoMatchingFlavor:
      return obstacle.kind == ObstacleKind::kResourceNotCovered || obstacle.kind == ObstacleKind::kFlavorNotFound ||
             obstacle.kind == ObstacleKind::kUntoleratedTaint || obstacle.kind == ObstacleKind::kNodeSelectorMismatch ||
             obstacle.kind == ObstacleKind::kNodeAffinityMismatch;
    case ReasonCode::kWaitingForQuota:
      return obstacle.kind == ObstacleKind::kInsufficientUnused || obstacle.kind == ObstacleKind::kLostToAnother;
    case ReasonCode::kExceedsMaxQuota:
      return obstacle.kind == ObstacleKind::kExceedsMaximum;
    case ReasonCode::kTopologyPlacementFailed:
      return obstacle.kind == ObstacleKind::kNoRoom;
    case ReasonCode::kPendingEvaluation:
    case ReasonCode::kWaitingForPreemptedWorkloads:
    case ReasonCode::kMisconfigured:
    case ReasonCode::kSuspended:
    case ReasonCode::kAdmissionGated:
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

std::string_view Name(WaitCode code) {
  switch (code) {
    case WaitCode::kPendingEvaluation:
      return "PendingEvaluation";
    case WaitCode::kQuotaInUse:
      return "QuotaInUse";
    case WaitCode::kBorrowingLimit:
      return "BorrowingLimit";
    case WaitCode::kLendingLimit:
      return "LendingLimit";
    case WaitCode::kNeverFits:
      return "NeverFits";
    case WaitCode::kResourceNotCovered:
      return "ResourceNotCovered";
    case WaitCode::kFlavorMissing:
      return "FlavorMissing";
    case WaitCode::kUntoleratedTaint:
      return "UntoleratedTaint";
    case WaitCode::kNodeSelectorMismatch:
      return "NodeSelectorMismatch";
    case WaitCode::kNodeAffinityMismatch:
      return "NodeAffinityMismatch";
    case WaitCode::kNoRoom:
      return "NoRoom";
    case WaitCode::kLostToAnother:
      return "LostToAnother";
    case WaitCode::kBehindStrictHead:
      return "BehindStrictHead";
    case WaitCode::kNamespaceMismatch:
      return "NamespaceMismatch";
    case WaitCode::kLocalQueueMissing:
      return "LocalQueueMissing";
    case WaitCode::kLocalQueueStopped:
      return "LocalQueueStopped";
    case WaitCode::kLocalQueueMisconfigured:
      return "LocalQueueMisconfigured";
    case WaitCode::kClusterQueueMissing:
      return "ClusterQueueMissing";
    case WaitCode::kClusterQueueStopped:
      return "ClusterQueueStopped";
    case WaitCode::kClusterQueueTerminating:
      return "ClusterQueueTerminating";
    case WaitCode::kClusterQueueMisconfigured:
      return "ClusterQueueMisconfigured";
    case WaitCode::kAdmissionCheck:
      return "AdmissionCheck";
    case WaitCode::kUnsupported:
      return "Unsupported";
    case WaitCode::kStartRefused:
      return "StartRefused";
    case WaitCode::kBackingOff:
      return "BackingOff";
    case WaitCode::kRequestsAboveLimits:
      return "RequestsAboveLimits";
    case WaitCode::kOutsideLimitRange:
      return "OutsideLimitRange";
    case WaitCode::kRuntimeClassMissing:
      return "RuntimeClassMissing";
    case WaitCode::kAdmissionGated:
      return "AdmissionGated";
    case WaitCode::kDeactivated:
      return "Deactivated";
  }
  CheckFailed(__FILE__, __LINE__, "known code");
}

}  // namespace muster::engine
