// The kinds of objects that Muster reads or writes.
//
// Threading: constants.
#pragma once

#include "muster/k8s_client/object.h"

namespace muster::k8s {

inline constexpr Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};
inline constexpr Resource kLimitRanges{"", "v1", "limitranges", "LimitRange", true};
inline constexpr Resource kResourceQuotas{"", "v1", "resourcequotas", "ResourceQuota", true};
inline constexpr Resource kNodes{"", "v1", "nodes", "Node", false};
inline constexpr Resource kPods{"", "v1", "pods", "Pod", true};
inline constexpr Resource kEvents{"events.k8s.io", "v1", "events", "Event", true};
inline constexpr Resource kJobs{"batch", "v1", "jobs", "Job", true};
inline constexpr Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease", true};
inline constexpr Resource kRuntimeClasses{"node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false};
inline constexpr Resource kPriorityClasses{"scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false};
inline constexpr Resource kMutatingAdmissionPolicies{"admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies",
                                                     "MutatingAdmissionPolicy", false};
inline constexpr Resource kMutatingAdmissionPolicyBindings{
    "admissionregistration.k8s.io", "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", false};
inline constexpr Resource kValidatingAdmissionPolicies{
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", false};
inline constexpr Resource kValidatingAdmissionPolicyBindings{"admissionregistration.k8s.io", "v1",
                                                             "validatingadmissionpolicybindings",
                                                             "ValidatingAdmissionPolicyBinding", false};
inline constexpr Resource kMutatingWebhookConfigurations{
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", false};
inline constexpr Resource kValidatingWebhookConfigurations{
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", false};

inline constexpr Resource kCustomResourceDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                                     "CustomResourceDefinition", false};

inline constexpr Resource kResourceFlavors{"kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", false};
inline constexpr Resource kClusterQueues{"kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", false};
inline constexpr Resource kAdmissionChecks{"kueue.x-k8s.io", "v1beta2", "admissionchecks", "AdmissionCheck", false};
inline constexpr Resource kLocalQueues{"kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue", true};
inline constexpr Resource kCohorts{"kueue.x-k8s.io", "v1beta2", "cohorts", "Cohort", false};
inline constexpr Resource kTopologies{"kueue.x-k8s.io", "v1beta2", "topologies", "Topology", false};
inline constexpr Resource kWorkloads{"kueue.x-k8s.io", "v1beta2", "workloads", "Workload", true};
inline constexpr Resource kWorkloadPriorityClasses{"kueue.x-k8s.io", "v1beta2", "workloadpriorityclasses",
                                                   "WorkloadPriorityClass", false};

}  // namespace muster::k8s
