#include "muster/sim/kinds.h"

#include <algorithm>
#include <utility>

namespace muster::sim {
namespace {

using Generation = Kind::Generation;

Kind BuiltIn(std::string group, std::string version, std::string plural, std::string kind, bool namespaced,
             bool status_subresource, Generation generation) {
  Kind result;
  result.group = std::move(group);
  result.plural = std::move(plural);
  result.kind = std::move(kind);
  result.versions = {std::move(version)};
  result.namespaced = namespaced;
  result.status_subresource = status_subresource;
  result.generation = generation;
  return result;
}

}  // namespace

bool Kind::Serves(std::string_view version) const { return std::ranges::find(versions, version) != versions.end(); }

Kind CustomKind(std::string group, std::string plural, std::string kind, std::vector<std::string> versions,
                bool namespaced, bool status_subresource) {
  Kind result;
  result.group = std::move(group);
  result.plural = std::move(plural);
  result.kind = std::move(kind);
  result.versions = std::move(versions);
  result.namespaced = namespaced;
  result.status_subresource = status_subresource;
  result.custom = true;
  result.generation = Generation::kAllButStatus;
  result.update_needs_version = true;
  return result;
}

std::vector<Kind> DefaultKinds() {
  const std::string admission = "admissionregistration.k8s.io";
  const std::string kueue = "kueue.x-k8s.io";
  const std::vector<std::string> betas = {"v1beta2", "v1beta1"};
  std::vector<Kind> kinds = {
      BuiltIn("", "v1", "namespaces", "Namespace", false, true, Generation::kNone),
      BuiltIn("", "v1", "configmaps", "ConfigMap", true, false, Generation::kNone),
      BuiltIn("", "v1", "limitranges", "LimitRange", true, false, Generation::kNone),
      BuiltIn("", "v1", "resourcequotas", "ResourceQuota", true, true, Generation::kNone),
      BuiltIn("", "v1", "nodes", "Node", false, true, Generation::kNone),
      BuiltIn("", "v1", "pods", "Pod", true, true, Generation::kNone),
      BuiltIn("batch", "v1", "jobs", "Job", true, true, Generation::kSpec),
      BuiltIn("coordination.k8s.io", "v1", "leases", "Lease", true, false, Generation::kNone),
      BuiltIn("events.k8s.io", "v1", "events", "Event", true, false, Generation::kNone),
      BuiltIn("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false, false, Generation::kNone),
      BuiltIn("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false, false, Generation::kFixed),
      BuiltIn(admission, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", false, false, Generation::kSpec),
      BuiltIn(admission, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", false, false,
              Generation::kSpec),
      BuiltIn(admission, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", false, true,
              Generation::kSpec),
      BuiltIn(admission, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", false, false,
              Generation::kSpec),
      BuiltIn(admission, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", false, false,
              Generation::kAllButStatus),
      BuiltIn(admission, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", false, false,
              Generation::kAllButStatus),
      BuiltIn("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false, true,
              Generation::kSpec),
      CustomKind(kueue, "workloads", "Workload", betas, true),
      CustomKind(kueue, "clusterqueues", "ClusterQueue", betas, false),
      CustomKind(kueue, "localqueues", "LocalQueue", betas, true),
      CustomKind(kueue, "cohorts", "Cohort", betas, false),
      CustomKind(kueue, "admissionchecks", "AdmissionCheck", betas, false),
      CustomKind(kueue, "resourceflavors", "ResourceFlavor", betas, false, /*status_subresource=*/false),
      CustomKind(kueue, "topologies", "Topology", betas, false, /*status_subresource=*/false),
      CustomKind(kueue, "workloadpriorityclasses", "WorkloadPriorityClass", betas, false, /*status_subresource=*/false),
  };
  const auto create_on_update = {"leases", "runtimeclasses", "events", "limitranges"};
  for (Kind& kind : kinds) {
    if (kind.plural == "jobs") kind.orphans_by_default = true;
    kind.create_on_update = std::ranges::count(create_on_update, kind.plural) > 0;
    kind.update_needs_version =
        kind.custom || kind.group == admission || kind.plural == "leases" || kind.plural == "runtimeclasses";
  }
  return kinds;
}

}  // namespace muster::sim
