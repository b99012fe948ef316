#include "feature_gates.h"

namespace muster::cli {

namespace {

using enum GateBehaviour;

constexpr FeatureGate kGates[] = {
    {"AdmissionFairSharing", kOn},
    {"AdmissionGatedBy", kOn},
    {"AssignQueueLabelsForPods", kOn},
    {"CleanupProvisioningRequestsOnEviction", kEither},
    {"ConcurrentAdmission", kOff},
    {"CustomMetricLabels", kOff},
    {"DeferRayServiceFinalizationForRedisCleanup", kEither},
    {"DisableWaitForPodsReady", kSwitch},
    {"ElasticJobsViaWorkloadSlices", kOn},
    {"ElasticJobsViaWorkloadSlicesWithTAS", kOff},
    {"FailureRecoveryPolicy", kOff},
    {"FairSharingPreemptWithinNominal", kEither},
    {"FairSharingPrioritizeNonBorrowing", kEither},
    {"FastQuotaReleaseInPodIntegration", kEither},
    {"FinishOrphanedWorkloads", kEither},
    {"FlavorFungibility", kOn},
    {"FlavorFungibilityPreserveScanProgress", kEither},
    {"KueueDRAIntegration", kOff},
    {"KueueDRAIntegrationConsumableCapacity", kOff},
    {"KueueDRAIntegrationExtendedResource", kOff},
    {"KueueDRAIntegrationPartitionableDevices", kOff},
    {"KueueDRARejectWorkloadsWhenDRADisabled", kEither},
    {"LWSImmutableGroupSize", kEither},
    {"LocalQueueMetrics", kOn},
    {"ManagedJobsNamespaceSelectorAlwaysRespected", kOn},
    {"MetricForWorkloadCreationLatency", kOn},
    {"MetricsForCohorts", kEither},
    {"MultiKueue", kOff},
    {"MultiKueueAdaptersForCustomJobs", kOff},
    {"MultiKueueClusterProfile", kOff},
    {"MultiKueueIncrementalDispatcherConfig", kOff},
    {"MultiKueueIncrementalDispatcherRespectConfigOrder", kOff},
    {"MultiKueueKubeConfigPathValidation", kEither},
    {"MultiKueueManagerQuotaAutomation", kOff},
    {"MultiKueueOrchestratedPreemption", kOff},
    {"MultiKueueRemoteSpecSync", kOff},
    {"PartialAdmission", kOn},
    {"PodIntegrationValidateGroupOwner", kEither},
    {"PriorityBoost", kOff},
    {"PrioritizePreemptorWorkloads", kOff},
    {"PrioritySortingWithinCohort", kOn},
    {"QuotaCheckStrategy", kOn},
    {"ReclaimablePods", kOn},
    {"RecomputeAssignmentUponPreemptionTargetsOverlap", kEither},
    {"RejectUpdatesToCQWithInvalidOnFlavors", kEither},
    {"RemoveFinalizersWithStrictPatch", kEither},
    {"SchedulerLibraryIntegration", kOff},
    {"SchedulingEquivalenceHashing", kEither},
    {"ShortWorkloadNames", kOff},
    {"SkipAncestorCheckForDeletedWorkloads", kEither},
    {"SkipReassignmentForPodOwnedWorkloads", kEither},
    {"SparkApplicationIntegration", kOff},
    {"TASAssignmentsEncodingByHostnamePrefix", kEither},
    {"TASBalancedPlacement", kSwitch},
    {"TASCacheNodeMatchResults", kEither},
    {"TASCacheTopologyTree", kEither},
    {"TASCachingRemainingResources", kEither},
    {"TASFailedNodeReplacement", kOn},
    {"TASFailedNodeReplacementFailFast", kOn},
    {"TASHandleOverlappingFlavors", kOn},
    {"TASMultiLayerTopology", kOn},
    {"TASProfileMixed", kOn},
    {"TASRecomputeAssignmentWithinSchedulingCycle", kEither},
    {"TASReplaceNodeDueToNotReadyOverFixedTime", kOff},
    {"TASReplaceNodeOnNodeTaints", kOn},
    {"TASReplaceNodeOnPodTermination", kOn},
    {"TASRespectNodeAffinityPreferred", kOff},
    {"TASValidateWorkloadSliceSize", kEither},
    {"TLSOptions", kEither},
    {"TopologyAwareScheduling", kOn},
    {"UnadmittedWorkloadsExplicitStatus", kEither},
    {"UnadmittedWorkloadsObservability", kOn},
    {"ValidateRayAndSparkJobUpdates", kEither},
    {"VectorizedResourceRequests", kEither},
    {"VisibilityOnDemand", kOff},
    {"WorkloadIdentifierAnnotations", kOn},
    {"WorkloadPriorityClassDefaulting", kOn},
    {"WorkloadRequestUseMergePatch", kEither},
    {"WorkloadValidateResourcesAreNonNegative", kOn},
    {"WorkloadValidationForPodSetMetadata", kEither},
};

}  // namespace

const std::vector<FeatureGate>& FeatureGates() {
  static const auto& gates = *new std::vector<FeatureGate>(std::begin(kGates), std::end(kGates));
  return gates;
}

}  // namespace muster::cli
