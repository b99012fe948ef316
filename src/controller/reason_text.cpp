#include "muster/controller/reason_text.h"

#include <algorithm>
#include <vector>

#include "muster/core/check.h"
#include "muster/core/quantity.h"
#include "text.h"

namespace muster::controller {
namespace {

using engine::EvictionReason;
using engine::Obstacle;
using engine::ObstacleKind;
using engine::Reason;
using engine::ReasonCode;

constexpr size_t kConditionMessageMax = 32768;

std::string Quantity(const Obstacle& o, Amount amount) { return FormatAmount(o.resource, amount); }

// An obstacle in the way of one pod set, to be listed behind "couldn't assign flavors to pod set".
std::string PodSetText(const Obstacle& o) {
  switch (o.kind) {
    case ObstacleKind::kResourceNotCovered:
      return Cat("resource ", o.resource, " unavailable in ClusterQueue");
    case ObstacleKind::kFlavorNotFound:
      return Cat("flavor ", o.flavor, " not found");
    case ObstacleKind::kUntoleratedTaint:
      return Cat("untolerated taint ", o.object, " in flavor ", o.flavor);
    case ObstacleKind::kAffinityMismatch:
      return Cat("flavor ", o.flavor, " doesn't match node affinity");
    case ObstacleKind::kExceedsMaximum:
      return Cat("insufficient quota for ", o.resource, " in flavor ", o.flavor,
                 ", previously considered podsets requests (", Quantity(o, o.assumed), ") + current podset request (",
                 Quantity(o, o.requested), ") > maximum capacity (", Quantity(o, o.limit), ")");
    case ObstacleKind::kInsufficientUnused:
      return Cat("insufficient unused quota for ", o.resource, " in flavor ", o.flavor, ", ", Quantity(o, o.missing),
                 " more needed");
    case ObstacleKind::kNoRoom:
      return Cat("the machines of flavor ", o.flavor, " have no place for all pods");
    case ObstacleKind::kAdmissionGated:
    case ObstacleKind::kLocalQueueMissing:
    case ObstacleKind::kLocalQueueStopped:
    case ObstacleKind::kClusterQueueMissing:
    case ObstacleKind::kClusterQueueInactive:
    case ObstacleKind::kNamespaceMismatch:
    case ObstacleKind::kLostToAnother:
    case ObstacleKind::kBehindStrictHead:
    case ObstacleKind::kEquivalentFailed:
    case ObstacleKind::kStartRefused:
    case ObstacleKind::kBackingOff:
    case ObstacleKind::kRequestsExceedLimits:
    case ObstacleKind::kLimitRange:
      return "";
  }
  CheckFailed(__FILE__, __LINE__, "known obstacle kind");
}

// An obstacle in the way of the whole workload: a message of its own.
std::string WholeText(const Obstacle& o) {
  switch (o.kind) {
    case ObstacleKind::kAdmissionGated:
      return Cat("Admission is gated by: ", o.object);
    case ObstacleKind::kLocalQueueMissing:
      return Cat("LocalQueue ", o.object, " doesn't exist");
    case ObstacleKind::kLocalQueueStopped:
      return Cat("LocalQueue ", o.object, " is inactive");
    case ObstacleKind::kClusterQueueMissing:
      return Cat("ClusterQueue ", o.object, " doesn't exist");
    case ObstacleKind::kClusterQueueInactive:
      return Cat("ClusterQueue ", o.object, " is inactive");
    case ObstacleKind::kNamespaceMismatch:
      return "workload namespace doesn't match ClusterQueue selector";
    case ObstacleKind::kLostToAnother:
      return "Workload no longer fits after processing another workload";
    case ObstacleKind::kBehindStrictHead:
      return "Workload is pending evaluation in the scheduling queue";
    case ObstacleKind::kEquivalentFailed:
      return "Bypassed scheduling evaluation because an equivalent workload recently failed";
    case ObstacleKind::kStartRefused:
      return Cat("The start was refused and will be tried again: ", o.object);
    case ObstacleKind::kBackingOff:
      return "Workload is backing off before the next attempt";
    case ObstacleKind::kRequestsExceedLimits:
      return Cat("resources validation failed: ", o.object);
    case ObstacleKind::kLimitRange:
      return Cat("resources didn't satisfy LimitRange constraints: ", o.object);
    case ObstacleKind::kResourceNotCovered:
    case ObstacleKind::kFlavorNotFound:
    case ObstacleKind::kUntoleratedTaint:
    case ObstacleKind::kAffinityMismatch:
    case ObstacleKind::kExceedsMaximum:
    case ObstacleKind::kInsufficientUnused:
    case ObstacleKind::kNoRoom:
      return "";
  }
  CheckFailed(__FILE__, __LINE__, "known obstacle kind");
}

std::string PodSetMessages(const std::vector<Obstacle>& obstacles) {
  std::vector<std::string> order;
  for (const Obstacle& o : obstacles) {
    if (!PodSetText(o).empty() && std::find(order.begin(), order.end(), o.pod_set) == order.end()) {
      order.push_back(o.pod_set);
    }
  }
  std::string out;
  for (const std::string& pod_set : order) {
    std::vector<std::string> texts;
    for (const Obstacle& o : obstacles) {
      if (o.pod_set == pod_set) texts.push_back(PodSetText(o));
    }
    std::sort(texts.begin(), texts.end());
    out += Cat(out.empty() ? "" : "; ", "couldn't assign flavors to pod set ", pod_set, ": ");
    bool first = true;
    for (const std::string& text : texts) {
      if (text.empty()) continue;
      out += Cat(first ? "" : ", ", text);
      first = false;
    }
  }
  return out;
}

std::string_view PreemptionText(EvictionReason reason) {
  switch (reason) {
    case EvictionReason::kInClusterQueue:
      return "prioritization in the ClusterQueue";
    case EvictionReason::kInCohortReclamation:
      return "reclamation within the cohort";
    case EvictionReason::kInCohortFairSharing:
      return "Fair Sharing within the cohort";
    case EvictionReason::kInCohortReclaimWhileBorrowing:
      return "reclamation within the cohort while borrowing";
    case EvictionReason::kClusterQueueStopped:
    case EvictionReason::kLocalQueueStopped:
    case EvictionReason::kDeactivated:
      return "";
  }
  CheckFailed(__FILE__, __LINE__, "known eviction reason");
}

std::string_view OrUnknown(const std::string& uid) { return uid.empty() ? std::string_view("UNKNOWN") : uid; }

}  // namespace

std::string_view ReasonName(ReasonCode code) {
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
  CheckFailed(__FILE__, __LINE__, "known reason code");
}

std::string ReasonMessage(const Reason& reason) {
  std::string out;
  for (const Obstacle& o : reason.obstacles) {
    const std::string text = WholeText(o);
    if (!text.empty()) out += Cat(out.empty() ? "" : "; ", text);
  }
  // What stands in the way of the whole workload comes first: nothing else matters until it is cleared.
  if (out.empty()) out = PodSetMessages(reason.obstacles);
  if (out.empty() && reason.code == ReasonCode::kDeactivated) out = "The workload is deactivated";
  if (out.empty()) out = "Workload is pending evaluation in the scheduling queue";
  return Truncated(std::move(out), kConditionMessageMax);
}

bool SameKind(const Reason& a, const Reason& b) {
  return a.code == b.code && std::equal(a.obstacles.begin(), a.obstacles.end(), b.obstacles.begin(), b.obstacles.end(),
                                        [](const Obstacle& x, const Obstacle& y) {
                                          return x.kind == y.kind && x.pod_set == y.pod_set && x.flavor == y.flavor &&
                                                 x.resource == y.resource && x.object == y.object;
                                        });
}

bool WasEvaluated(const Reason& reason) {
  if (reason.obstacles.empty()) return false;
  return std::none_of(reason.obstacles.begin(), reason.obstacles.end(), [](const Obstacle& o) {
    return o.kind == ObstacleKind::kAdmissionGated || o.kind == ObstacleKind::kLocalQueueMissing ||
           o.kind == ObstacleKind::kLocalQueueStopped || o.kind == ObstacleKind::kClusterQueueMissing ||
           o.kind == ObstacleKind::kClusterQueueInactive;
  });
}

std::string_view EvictedReason(EvictionReason reason) {
  switch (reason) {
    case EvictionReason::kInClusterQueue:
    case EvictionReason::kInCohortReclamation:
    case EvictionReason::kInCohortFairSharing:
    case EvictionReason::kInCohortReclaimWhileBorrowing:
      return "Preempted";
    case EvictionReason::kClusterQueueStopped:
      return "ClusterQueueStopped";
    case EvictionReason::kLocalQueueStopped:
      return "LocalQueueStopped";
    case EvictionReason::kDeactivated:
      return "Deactivated";
  }
  CheckFailed(__FILE__, __LINE__, "known eviction reason");
}

std::string_view PreemptedReason(EvictionReason reason) {
  switch (reason) {
    case EvictionReason::kInClusterQueue:
      return "InClusterQueue";
    case EvictionReason::kInCohortReclamation:
      return "InCohortReclamation";
    case EvictionReason::kInCohortFairSharing:
      return "InCohortFairSharing";
    case EvictionReason::kInCohortReclaimWhileBorrowing:
      return "InCohortReclaimWhileBorrowing";
    case EvictionReason::kClusterQueueStopped:
    case EvictionReason::kLocalQueueStopped:
    case EvictionReason::kDeactivated:
      return "";
  }
  CheckFailed(__FILE__, __LINE__, "known eviction reason");
}

std::string EvictedMessage(EvictionReason reason, const PreemptionParties& parties) {
  const std::string_view preemption = PreemptionText(reason);
  if (!preemption.empty()) {
    return Cat("Preempted to accommodate a workload (UID: ", OrUnknown(parties.preemptor_workload_uid),
               ", JobUID: ", OrUnknown(parties.preemptor_job_uid), ") due to ", preemption,
               "; preemptor path: ", parties.preemptor_path, "; preemptee path: ", parties.preemptee_path);
  }
  if (reason == EvictionReason::kClusterQueueStopped) return "The ClusterQueue is stopped";
  if (reason == EvictionReason::kLocalQueueStopped) return "The LocalQueue is stopped";
  return "The workload is deactivated";
}

std::string Truncated(std::string text, size_t max) {
  static constexpr std::string_view kSuffix = " ...";
  if (text.size() <= max) return text;
  size_t end = max - kSuffix.size();
  // Not inside a character: continuation bytes are 10xxxxxx.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text.append(kSuffix);
}

}  // namespace muster::controller
