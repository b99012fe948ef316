#include "muster/controller/rights.h"

#include <algorithm>

#include "conversion_check.h"
#include "muster/controller/names.h"
#include "muster/k8s_client/resources.h"
#include "text.h"

namespace muster::controller {

std::string ToString(const Right& right) {
  const size_t slash = std::min(right.resource.find('/'), right.resource.size());
  std::string out = Cat(right.verb, " ", right.resource.substr(0, slash));
  if (!right.group.empty()) out += Cat(".", right.group);
  out += right.resource.substr(slash);
  if (!right.name.empty()) out += Cat(" ", right.name);
  if (!right.ns.empty()) out += Cat(" in namespace ", right.ns);
  return out;
}

std::vector<Right> RequiredRights(const Options& options) {
  std::vector<Right> out;
  const auto add = [&out](const k8s::Resource& resource, const char* subresource, std::vector<const char*> verbs,
                          const std::string& ns = "", const std::string& name = "") {
    for (const char* verb : verbs) {
      out.push_back({verb, std::string(resource.group), Cat(resource.plural, subresource), ns, name});
    }
  };
  const std::vector<const char*> kRead = {"get", "list", "watch"};
  for (const k8s::Resource* watched :
       {&k8s::kNamespaces, &k8s::kLimitRanges, &k8s::kRuntimeClasses, &k8s::kPriorityClasses,
        &k8s::kWorkloadPriorityClasses, &k8s::kResourceFlavors, &k8s::kAdmissionChecks, &k8s::kCohorts,
        &k8s::kTopologies, &k8s::kNodes, &k8s::kPods, &k8s::kClusterQueues, &k8s::kLocalQueues, &k8s::kWorkloads,
        &k8s::kJobs}) {
    add(*watched, "", kRead);
  }
  if (options.check_machines) add(k8s::kResourceQuotas, "", kRead);
  add(k8s::kPods, "", {"patch"});
  add(k8s::kJobs, "", {"patch"});
  add(k8s::kJobs, "/status", {"patch"});
  add(k8s::kJobs, "/finalizers", {"update"});
  if (options.retention.after_deactivated.has_value()) add(k8s::kJobs, "", {"delete"});
  add(k8s::kWorkloads, "", {"create", "patch", "delete"});
  add(k8s::kAdmissionChecks, "", {"patch"});
  for (const k8s::Resource* shown : {&k8s::kWorkloads, &k8s::kClusterQueues, &k8s::kLocalQueues, &k8s::kCohorts}) {
    add(*shown, "/status", {"patch"});
  }
  add(k8s::kEvents, "", {"create", "patch"});
  if (options.leader_elect) add(k8s::kLeases, "", {"get", "create", "update"}, options.lease.ns);
  for (const k8s::Resource* policy : {&k8s::kMutatingAdmissionPolicies, &k8s::kMutatingAdmissionPolicyBindings,
                                      &k8s::kValidatingAdmissionPolicies, &k8s::kValidatingAdmissionPolicyBindings}) {
    if (options.check_policies) add(*policy, "", {"get"});
  }
  // To see Kueue.
  add(k8s::kLeases, "", {"get"}, options.kueue_namespace, std::string(kKueueLeaseName));
  for (const k8s::Resource* webhooks : {&k8s::kMutatingWebhookConfigurations, &k8s::kValidatingWebhookConfigurations}) {
    add(*webhooks, "", {"list"});
  }
  for (const std::string& crd : ReadCrds()) add(k8s::kCustomResourceDefinitions, "", {"get"}, "", crd);
  return out;
}

}  // namespace muster::controller
