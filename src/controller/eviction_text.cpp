// Why an admission ended, in conditions and Events.
#include "muster/controller/reason_text.h"
#include "muster/core/check.h"
#include "text.h"

namespace muster::controller {

using engine::EvictionReason;

namespace {

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
    case EvictionReason::kDefragmentation:
      return "defragmentation, since its pods have other places";
    case EvictionReason::kClusterQueueStopped:
    case EvictionReason::kLocalQueueStopped:
    case EvictionReason::kDeactivated:
    case EvictionReason::kNodeFailures:
      return "";
  }
  CheckFailed(__FILE__, __LINE__, "known eviction reason");
}

constexpr std::string_view kPreemptedFor = "Preempted to accommodate a workload (UID: ";
constexpr std::string_view kJobUid = ", JobUID: ";
constexpr std::string_view kDueTo = ") due to ";
constexpr std::string_view kUnknown = "UNKNOWN";

// One node, where there were no other places, or several that failed at once.
std::string NodeFailuresText(const EvictionFacts& facts) {
  if (facts.nodes.empty()) {
    const std::string pods = facts.without_place > 0 ? std::to_string(facts.without_place) : "some";
    return Cat("No node had a place for ", pods, " of its pods for too long");
  }
  std::string names;
  for (const std::string& node : facts.nodes) names += Cat(names.empty() ? "" : ", ", node);
  if (facts.nodes.size() > 1) {
    return Cat("Workload eviction triggered due to multiple TAS assigned node failures, including: ", names);
  }
  return Cat("Workload was evicted as there was no replacement for unhealthy node(s): ", names);
}

}  // namespace

std::string_view EvictedReason(EvictionReason reason) {
  switch (reason) {
    case EvictionReason::kInClusterQueue:
    case EvictionReason::kInCohortReclamation:
    case EvictionReason::kInCohortFairSharing:
    case EvictionReason::kInCohortReclaimWhileBorrowing:
    case EvictionReason::kDefragmentation:
      return "Preempted";
    case EvictionReason::kClusterQueueStopped:
      return "ClusterQueueStopped";
    case EvictionReason::kLocalQueueStopped:
      return "LocalQueueStopped";
    case EvictionReason::kDeactivated:
      return "Deactivated";
    case EvictionReason::kNodeFailures:
      return "NodeFailures";
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
    case EvictionReason::kDefragmentation:
      return "Defragmentation";
    case EvictionReason::kClusterQueueStopped:
    case EvictionReason::kLocalQueueStopped:
    case EvictionReason::kDeactivated:
    case EvictionReason::kNodeFailures:
      return "";
  }
  CheckFailed(__FILE__, __LINE__, "known eviction reason");
}

std::optional<EvictionReason> DecidedReason(std::string_view evicted_reason, std::string_view preempted_reason) {
  for (const EvictionReason reason :
       {EvictionReason::kInClusterQueue, EvictionReason::kInCohortReclamation, EvictionReason::kInCohortFairSharing,
        EvictionReason::kInCohortReclaimWhileBorrowing, EvictionReason::kClusterQueueStopped,
        EvictionReason::kLocalQueueStopped, EvictionReason::kDeactivated, EvictionReason::kNodeFailures,
        EvictionReason::kDefragmentation}) {
    if (EvictedReason(reason) == evicted_reason && PreemptedReason(reason) == preempted_reason) return reason;
  }
  return std::nullopt;
}

std::string_view UidOrUnknown(std::string_view uid) { return uid.empty() ? kUnknown : uid; }

std::string EvictedMessage(EvictionReason reason, const EvictionFacts& facts) {
  const std::string_view preemption = PreemptionText(reason);
  if (!preemption.empty()) {
    return Cat(kPreemptedFor, UidOrUnknown(facts.preemptor_workload_uid), kJobUid,
               UidOrUnknown(facts.preemptor_job_uid), kDueTo, preemption, "; preemptor path: ", facts.preemptor_path,
               "; preemptee path: ", facts.preemptee_path);
  }
  if (reason == EvictionReason::kClusterQueueStopped) return "The ClusterQueue is stopped";
  if (reason == EvictionReason::kLocalQueueStopped) return "The LocalQueue is stopped";
  if (reason == EvictionReason::kNodeFailures) return NodeFailuresText(facts);
  return "The workload is deactivated";
}

std::string PreemptorIn(std::string_view evicted_message) {
  const size_t job = evicted_message.find(kJobUid);
  const size_t end = evicted_message.find(kDueTo);
  if (!evicted_message.starts_with(kPreemptedFor) || job == std::string_view::npos || end == std::string_view::npos ||
      job + kJobUid.size() > end) {
    return "";
  }
  const std::string_view job_uid = evicted_message.substr(job + kJobUid.size(), end - job - kJobUid.size());
  const std::string_view workload_uid = evicted_message.substr(kPreemptedFor.size(), job - kPreemptedFor.size());
  const std::string_view uid = job_uid == kUnknown ? workload_uid : job_uid;
  return uid == kUnknown ? std::string() : std::string(uid);
}

}  // namespace muster::controller
