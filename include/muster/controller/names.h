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
// The scheduling gate of such a Job's pods has the same name.
inline constexpr std::string_view kElasticJobAnnotation = "kueue.x-k8s.io/elastic-job";
inline constexpr std::string_view kAdmissionGatedByAnnotation = "kueue.x-k8s.io/admission-gated-by";
inline constexpr std::string_view kProvisioningRequestPrefix = "provreq.kueue.x-k8s.io/";
inline constexpr std::string_view kRecordAnnotation = "muster.dev/admission";
// On Jobs and Workloads, "true": as engine::Workload::movable.
inline constexpr std::string_view kMovableAnnotation = "muster.dev/movable";
// Kueue's mark of a stop that is under way.
inline constexpr std::string_view kKueueStoppingAnnotation = "kueue.x-k8s.io/stopping";

// On Workloads.
inline constexpr std::string_view kJobUidLabel = "kueue.x-k8s.io/job-uid";
inline constexpr std::string_view kKueueFinalizer = "kueue.x-k8s.io/resource-in-use";
// Which object holds the record of its admission.
inline constexpr std::string_view kRecordHolderLabel = "muster.dev/record";
inline constexpr std::string_view kHeldByJob = "job";
inline constexpr std::string_view kHeldByWorkload = "workload";
inline constexpr std::string_view kClaimAnnotation = "muster.dev/claim";
// Of an elastic Job that was given more pods: the Workload before it, and the first of them.
inline constexpr std::string_view kSliceReplacementAnnotation = "kueue.x-k8s.io/workload-slice-replacement-for";
inline constexpr std::string_view kSliceNameAnnotation = "kueue.x-k8s.io/workload-slice-name";
// As `slice` of the record, for when there is none.
inline constexpr std::string_view kSliceAnnotation = "muster.dev/slice";
inline constexpr std::string_view kSliceReplaced = "WorkloadSliceReplaced";
// The value of the WorkloadPriorityClass when somebody set another spec.priority: that one counts until the class is
// edited.
inline constexpr std::string_view kPriorityEditAnnotation = "muster.dev/priority-set-over";
inline constexpr std::string_view kWaitingCondition = "muster.dev/Waiting";
inline constexpr std::string_view kFlavorsTimedOutCondition = "muster.dev/FlavorsTimedOut";

// On ResourceFlavors: "true": nodes come when pods need them, so that those that are there say little.
inline constexpr std::string_view kAutoscaledAnnotation = "muster.dev/autoscaled";

// The Lease of Kueue's leader election, and of Muster's, each in its own namespace.
inline constexpr std::string_view kKueueLeaseName = "c1f6bfd2.kueue.x-k8s.io";

// On pod templates.
inline constexpr std::string_view kPodSetLabel = "kueue.x-k8s.io/podset";
inline constexpr std::string_view kLocalQueueNameLabel = "kueue.x-k8s.io/local-queue-name";
inline constexpr std::string_view kClusterQueueNameLabel = "kueue.x-k8s.io/cluster-queue-name";
inline constexpr std::string_view kWorkloadAnnotation = "kueue.x-k8s.io/workload";
// Of elastic Jobs: whose pods are watched.
inline constexpr std::string_view kElasticPodLabel = "muster.dev/elastic";

inline constexpr std::string_view kRequiredTopologyAnnotation = "kueue.x-k8s.io/podset-required-topology";
inline constexpr std::string_view kPreferredTopologyAnnotation = "kueue.x-k8s.io/podset-preferred-topology";
inline constexpr std::string_view kUnconstrainedTopologyAnnotation = "kueue.x-k8s.io/podset-unconstrained-topology";
inline constexpr std::string_view kSliceTopologyAnnotation = "kueue.x-k8s.io/podset-slice-required-topology";
inline constexpr std::string_view kSliceSizeAnnotation = "kueue.x-k8s.io/podset-slice-size";
inline constexpr std::string_view kSliceConstraintsAnnotation =
    "kueue.x-k8s.io/podset-slice-required-topology-constraints";
inline constexpr std::string_view kPodSetGroupAnnotation = "kueue.x-k8s.io/podset-group-name";
// A scheduling gate: the pod waits for its place.
inline constexpr std::string_view kTopologyGate = "kueue.x-k8s.io/topology";
// Of the pods of an Indexed Job.
inline constexpr std::string_view kCompletionIndexLabel = "batch.kubernetes.io/job-completion-index";

// The one pod set of a Job.
inline constexpr std::string_view kJobPodSet = "main";

// Reporting controllers of events.
inline constexpr std::string_view kAdmissionReporter = "kueue-admission";
inline constexpr std::string_view kWorkloadReporter = "kueue-workload-controller";
inline constexpr std::string_view kJobReporter = "batch/job-kueue-controller";
inline constexpr std::string_view kObjectReporter = "muster.dev/controller";  // on what cannot be read

// The name of the Workload made for an owner: deterministic, so that creating it twice meets itself. `slice`: of those
// of one owner, which; empty: the first.
std::string WorkloadName(std::string_view kind, std::string_view group, std::string_view owner_name,
                         std::string_view owner_uid, std::string_view slice = {});

// A DNS-1123 label: at most 63 of [a-z0-9-], beginning and ending alphanumeric.
bool IsDnsLabel(std::string_view text);
// What may stand as a label's value: empty, or at most 63 of [A-Za-z0-9_.-], beginning and ending alphanumeric.
bool IsLabelValue(std::string_view text);

}  // namespace muster::controller
