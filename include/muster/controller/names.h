// The labels, annotations and generated names that users and other tools know Muster's objects by. All but
// those under muster.dev are Kueue's.
//
// Source: kueue_semantics 1.10, 2.2.
// Threading: constants and pure functions.
#pragma once

#include <string>
#include <string_view>

namespace muster::controller {

// Labels and annotations of a Job.
inline constexpr std::string_view kQueueNameLabel = "kueue.x-k8s.io/queue-name";
inline constexpr std::string_view kPriorityClassLabel = "kueue.x-k8s.io/priority-class";
inline constexpr std::string_view kMaxExecTimeLabel = "kueue.x-k8s.io/max-exec-time-seconds";
inline constexpr std::string_view kPrebuiltWorkloadName = "kueue.x-k8s.io/prebuilt-workload-name";
inline constexpr std::string_view kMinParallelismAnnotation = "kueue.x-k8s.io/job-min-parallelism";
inline constexpr std::string_view kCompletionsEqualParallelismAnnotation =
    "kueue.x-k8s.io/job-completions-equal-parallelism";
inline constexpr std::string_view kElasticJobAnnotation = "kueue.x-k8s.io/elastic-job";
inline constexpr std::string_view kAdmissionGatedByAnnotation = "kueue.x-k8s.io/admission-gated-by";
inline constexpr std::string_view kProvisioningRequestPrefix = "provreq.kueue.x-k8s.io/";
inline constexpr std::string_view kRecordAnnotation = "muster.dev/admission";

// On Workloads.
inline constexpr std::string_view kJobUidLabel = "kueue.x-k8s.io/job-uid";
inline constexpr std::string_view kKueueFinalizer = "kueue.x-k8s.io/resource-in-use";
// Which object holds the record of its admission.
inline constexpr std::string_view kRecordHolderLabel = "muster.dev/record";
inline constexpr std::string_view kHeldByJob = "job";
inline constexpr std::string_view kHeldByWorkload = "workload";
inline constexpr std::string_view kClaimAnnotation = "muster.dev/claim";
// The value of the WorkloadPriorityClass when somebody set another spec.priority: that one counts until the class is
// edited.
inline constexpr std::string_view kPriorityEditAnnotation = "muster.dev/priority-set-over";
inline constexpr std::string_view kWaitingCondition = "muster.dev/Waiting";

// On pod templates.
inline constexpr std::string_view kPodSetLabel = "kueue.x-k8s.io/podset";
inline constexpr std::string_view kLocalQueueNameLabel = "kueue.x-k8s.io/local-queue-name";
inline constexpr std::string_view kClusterQueueNameLabel = "kueue.x-k8s.io/cluster-queue-name";
inline constexpr std::string_view kWorkloadAnnotation = "kueue.x-k8s.io/workload";

// The one pod set of a Job.
inline constexpr std::string_view kJobPodSet = "main";

// Reporting controllers of events.
inline constexpr std::string_view kAdmissionReporter = "kueue-admission";
inline constexpr std::string_view kWorkloadReporter = "kueue-workload-controller";
inline constexpr std::string_view kJobReporter = "batch/job-kueue-controller";
inline constexpr std::string_view kObjectReporter = "muster.dev/controller";  // on what cannot be read

// The name of the Workload made for an owner: deterministic, so that creating it twice meets itself.
std::string WorkloadName(std::string_view kind, std::string_view group, std::string_view owner_name,
                         std::string_view owner_uid);

// A DNS-1123 label: at most 63 of [a-z0-9-], beginning and ending alphanumeric.
bool IsDnsLabel(std::string_view text);
// What may stand as a label's value: empty, or at most 63 of [A-Za-z0-9_.-], beginning and ending alphanumeric.
bool IsLabelValue(std::string_view text);

}  // namespace muster::controller
