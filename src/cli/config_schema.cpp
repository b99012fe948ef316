#include "config_schema.h"

#include <unordered_map>

namespace muster::cli {
namespace {

using enum FieldType;
using enum FieldSupport;

constexpr std::string_view kNoWebhook = "Muster has no webhook";
constexpr std::string_view kOneLoop = "one thread serves all kinds";
constexpr std::string_view kNoHeads = "the status of a ClusterQueue lists no Workloads, as in v1beta2";
constexpr std::string_view kNoPods = "pods are not queued";

// Shape of metav1.LabelSelector below `path`; its fields share the path's support.
#define MUSTER_SELECTOR(path, support, detail)                                                               \
  {path, kObject, support, detail}, {path ".matchLabels", kMap, support, detail},                            \
      {path ".matchLabels{}", kString, support, detail}, {path ".matchExpressions", kList, support, detail}, \
      {path ".matchExpressions[]", kObject, support, detail},                                                \
      {path ".matchExpressions[].key", kString, support, detail},                                            \
      {path ".matchExpressions[].operator", kString, support, detail, "In|NotIn|Exists|DoesNotExist"},       \
      {path ".matchExpressions[].values", kList, support, detail}, {                                         \
    path ".matchExpressions[].values[]", kString, support, detail                                            \
  }

constexpr Field kFields[] = {
    {"", kObject},
    {"apiVersion", kString},
    {"kind", kString},
    {"namespace", kString},

    {"manageJobsWithoutQueueName", kBool},
    MUSTER_SELECTOR("managedJobsNamespaceSelector", kUsed, ""),

    {"health", kObject},
    {"health.healthProbeBindAddress", kString},
    {"health.readinessEndpointName", kString},
    {"health.livenessEndpointName", kString},

    {"metrics", kObject},
    {"metrics.bindAddress", kString},
    {"metrics.enableClusterQueueResources", kBool},
    {"metrics.localQueueMetrics", kObject},
    {"metrics.localQueueMetrics.enable", kBool},
    MUSTER_SELECTOR("metrics.localQueueMetrics.localQueueSelector", kUnsupported, ""),
    {"metrics.customLabels", kList, kUnsupported},
    {"metrics.customLabels[]", kObject, kUnsupported},
    {"metrics.customLabels[].name", kString, kUnsupported},
    {"metrics.customLabels[].sourceLabelKey", kString, kUnsupported},
    {"metrics.customLabels[].sourceAnnotationKey", kString, kUnsupported},
    {"metrics.customLabels[].sourceKind", kString, kUnsupported, "", "Cohort|LocalQueue|ClusterQueue|Workload"},
    {"metrics.customLabels[].trackedValues", kList, kUnsupported},
    {"metrics.customLabels[].trackedValues[]", kString, kUnsupported},

    {"leaderElection", kObject},
    {"leaderElection.leaderElect", kBool},
    {"leaderElection.leaseDuration", kDuration},
    {"leaderElection.renewDeadline", kDuration},
    {"leaderElection.retryPeriod", kDuration},
    {"leaderElection.resourceLock", kString, kUsed, "", "leases"},
    {"leaderElection.resourceName", kString},
    {"leaderElection.resourceNamespace", kString},

    {"clientConnection", kObject},
    {"clientConnection.qps", kNumber},
    {"clientConnection.burst", kInt},

    {"integrations", kObject},
    {"integrations.frameworks", kList},
    {"integrations.frameworks[]", kString},
    {"integrations.externalFrameworks", kList, kUnsupported},
    {"integrations.externalFrameworks[]", kString, kUnsupported},
    {"integrations.labelKeysToCopy", kList},
    {"integrations.labelKeysToCopy[]", kString},
    {"integrations.podOptions", kObject, kNoEffect, kNoPods, "", true},
    MUSTER_SELECTOR("integrations.podOptions.namespaceSelector", kNoEffect, kNoPods),
    MUSTER_SELECTOR("integrations.podOptions.podSelector", kNoEffect, kNoPods),

    {"controller", kObject},
    {"controller.groupKindConcurrency", kMap, kNoEffect, kOneLoop},
    {"controller.groupKindConcurrency{}", kInt, kNoEffect, kOneLoop},
    {"controller.cacheSyncTimeout", kInt, kNoEffect, "Muster waits for its caches, and is not ready until then"},

    {"webhook", kObject, kNoEffect, kNoWebhook},
    {"webhook.port", kInt, kNoEffect, kNoWebhook},
    {"webhook.host", kString, kNoEffect, kNoWebhook},
    {"webhook.certDir", kString, kNoEffect, kNoWebhook},
    {"internalCertManagement", kObject, kNoEffect, kNoWebhook},
    {"internalCertManagement.enable", kBool, kNoEffect, kNoWebhook},
    {"internalCertManagement.webhookServiceName", kString, kNoEffect, kNoWebhook},
    {"internalCertManagement.webhookSecretName", kString, kNoEffect, kNoWebhook},

    {"pprofBindAddress", kString, kUnsupported, "0"},
    {"tls", kObject},
    {"tls.minVersion", kString},
    {"tls.cipherSuites", kList},
    {"tls.cipherSuites[]", kString},
    {"tls.curvePreferences", kList},
    {"tls.curvePreferences[]", kInt},
    {"visibilityServer", kObject},
    {"visibilityServer.bindAddress", kString, kUnsupported},
    {"visibilityServer.bindPort", kInt, kUnsupported},

    {"queueVisibility", kObject, kNoEffect, kNoHeads, "", true},
    {"queueVisibility.clusterQueues", kObject, kNoEffect, kNoHeads, "", true},
    {"queueVisibility.clusterQueues.maxCount", kInt, kNoEffect, kNoHeads, "", true},
    {"queueVisibility.updateIntervalSeconds", kInt, kNoEffect, kNoHeads, "", true},

    {"waitForPodsReady", kObject},
    {"waitForPodsReady.enable", kBool, kUsed, "", "", true},
    {"waitForPodsReady.timeout", kDuration},
    {"waitForPodsReady.blockAdmission", kBool},
    {"waitForPodsReady.recoveryTimeout", kDuration},
    {"waitForPodsReady.requeuingStrategy", kObject},
    {"waitForPodsReady.requeuingStrategy.timestamp", kString, kUsed, "", "Creation|Eviction"},
    {"waitForPodsReady.requeuingStrategy.backoffLimitCount", kInt},
    {"waitForPodsReady.requeuingStrategy.backoffBaseSeconds", kInt},
    {"waitForPodsReady.requeuingStrategy.backoffMaxSeconds", kInt},

    // In v1beta2 its presence turns it on, in v1beta1 `enable` does.
    {"fairSharing", kObject},
    {"fairSharing.enable", kBool, kUsed, "", "", true},
    {"fairSharing.preemptionStrategies", kList},
    {"fairSharing.preemptionStrategies[]", kString, kUsed, "", "LessThanOrEqualToFinalShare|LessThanInitialShare"},
    {"admissionFairSharing", kObject},
    {"admissionFairSharing.usageHalfLifeTime", kDuration},
    {"admissionFairSharing.usageSamplingInterval", kDuration},
    {"admissionFairSharing.resourceWeights", kMap},
    {"admissionFairSharing.resourceWeights{}", kNumber},

    {"resources", kObject},
    {"resources.quotaCheckStrategy", kString, kUsed, "", "BlockUndeclared|IgnoreUndeclared"},
    {"resources.excludeResourcePrefixes", kList},
    {"resources.excludeResourcePrefixes[]", kString},
    {"resources.transformations", kList},
    {"resources.transformations[]", kObject},
    {"resources.transformations[].input", kString},
    {"resources.transformations[].strategy", kString, kUsed, "", "Retain|Replace"},
    {"resources.transformations[].multiplyBy", kString},
    {"resources.transformations[].outputs", kMap},
    {"resources.transformations[].outputs{}", kQuantity},
    {"resources.deviceClassMappings", kList, kUnsupported},
    {"resources.deviceClassMappings[]", kObject, kUnsupported},
    {"resources.deviceClassMappings[].name", kString, kUnsupported},
    {"resources.deviceClassMappings[].deviceClassNames", kList, kUnsupported},
    {"resources.deviceClassMappings[].deviceClassNames[]", kString, kUnsupported},
    {"resources.deviceClassMappings[].sources", kList, kUnsupported},
    {"resources.deviceClassMappings[].sources[]", kAny, kUnsupported},

    {"multiKueue", kObject},
    {"multiKueue.gcInterval", kDuration, kUnsupported},
    {"multiKueue.origin", kString, kUnsupported},
    {"multiKueue.workerLostTimeout", kDuration, kUnsupported},
    {"multiKueue.dispatcherName", kString, kUnsupported},
    {"multiKueue.externalFrameworks", kList, kUnsupported},
    {"multiKueue.externalFrameworks[]", kObject, kUnsupported},
    {"multiKueue.externalFrameworks[].name", kString, kUnsupported},
    {"multiKueue.clusterProfile", kAny, kUnsupported},
    {"multiKueue.incrementalDispatcherConfig", kObject, kUnsupported},
    {"multiKueue.incrementalDispatcherConfig.stepSize", kInt, kUnsupported},

    {"objectRetentionPolicies", kObject},
    {"objectRetentionPolicies.workloads", kObject},
    {"objectRetentionPolicies.workloads.afterFinished", kDuration},
    {"objectRetentionPolicies.workloads.afterDeactivatedByKueue", kDuration},

    {"featureGates", kMap},
    {"featureGates{}", kBool},

    {"muster", kObject},
    {"muster.allowedStarters", kList},
    {"muster.allowedStarters[]", kString},
    {"muster.deciders", kInt},
    {"muster.defragmentAfter", kDuration},
    {"muster.kueueNamespace", kString},
    {"muster.machines", kObject},
    {"muster.machines.enable", kBool},
    {"muster.machines.placeTimeout", kDuration},
    {"muster.machines.reserveAfter", kDuration},
    {"muster.metricsCertDir", kString},
    {"muster.parents", kList},
    {"muster.parents[]", kObject},
    {"muster.parents[].user", kString},
    {"muster.parents[].group", kString},
    {"muster.parents[].kind", kString},
    {"muster.passOverTimedOutFlavors", kDuration},
    {"muster.plainHTTPMetrics", kBool},
    {"muster.waitForTerminatingPods", kBool},
};

#undef MUSTER_SELECTOR

}  // namespace

std::span<const Field> ConfigFields() { return kFields; }

const Field* FindConfigField(std::string_view path) {
  static const auto& by_path = *[] {
    auto* map = new std::unordered_map<std::string_view, const Field*>();
    for (const Field& field : ConfigFields()) map->emplace(field.path, &field);
    return map;
  }();
  const auto it = by_path.find(path);
  return it == by_path.end() ? nullptr : it->second;
}

}  // namespace muster::cli
