// Policies on Muster's own kinds: what the CRDs' rules cannot say within their cost budget, and the fields of a
// ClusterQueue that v1beta1 and v1beta2 name differently (twins). Muster reads the v1beta2 name.

#include <absl/strings/str_cat.h>

#include "policies/policy.h"

namespace muster::controller {
namespace {

PolicySpec OnQueues(std::string name, std::string resource, std::vector<std::string> operations) {
  PolicySpec spec;
  spec.name = std::move(name);
  spec.group = "kueue.x-k8s.io";
  spec.versions = {"v1beta1", "v1beta2"};
  spec.operations = std::move(operations);
  spec.resources = {std::move(resource)};
  return spec;
}

// A variable that collects what is wrong as one text, so that every place is named and not only the first.
Rule Empty(const std::string& variable) {
  return {absl::StrCat("variables.", variable, " == ''"), absl::StrCat("variables.", variable)};
}

NamedExpression SpecChanged() { return {"spec-changed", "oldObject == null || object.?spec != oldObject.?spec"}; }

// A twin is a name that the version of the request does not use. One that was stored before, or is absent because
// the client does not know it, follows the other name; one that was written now is left for the validating policy
// to judge.
std::vector<NamedExpression> TwinVariables() {
  return {
      {"v1", "object.apiVersion == 'kueue.x-k8s.io/v1beta1'"},
      {"old", "oldObject == null ? {} : oldObject.?spec.orValue({})"},
      {"own", "variables.v1 ? object.spec.?cohort.orValue('') : object.spec.?cohortName.orValue('')"},
      {"twin", "variables.v1 ? object.spec.?cohortName.orValue('') : object.spec.?cohort.orValue('')"},
      {"oldOwn", "variables.v1 ? variables.old.?cohort.orValue('') : variables.old.?cohortName.orValue('')"},
      {"oldTwin", "variables.v1 ? variables.old.?cohortName.orValue('') : variables.old.?cohort.orValue('')"},
      {"twinWritten", "variables.twin != '' && variables.twin != variables.oldTwin"},
      // An object from before this policy may have one name alone; it then counts for both.
      {"cohort", "variables.own != '' || variables.oldOwn != '' ? variables.own : variables.oldTwin"},
      // v1beta1 has two forms of checks: names, which run for all flavors, and v1beta2's strategy.
      {"names", "object.spec.?admissionChecks.orValue([])"},
      {"oldNames", "variables.old.?admissionChecks.orValue([])"},
      {"checks", "object.spec.?admissionChecksStrategy.?admissionChecks.orValue([])"},
      {"oldChecks", "variables.old.?admissionChecksStrategy.?admissionChecks.orValue([])"},
      {"checkNames",
       R"(variables.checks.all(c, c.?onFlavors.orValue([]).size() == 0) ?
  variables.checks.map(c, c.name) : [])"},
      {"checksFromNames",
       R"(variables.oldNames.size() > 0 && variables.checks == variables.oldChecks &&
variables.checkNames == variables.oldNames)"},
      {"newNames",
       R"(variables.v1 ?
  (variables.names.size() > 0 && variables.names == variables.oldNames && variables.checks.size() > 0 &&
   variables.checks != variables.oldChecks ? variables.checkNames : variables.names) :
  (variables.names.size() > 0 && variables.names != variables.oldNames ? variables.names :
   variables.oldNames.size() > 0 ? variables.checkNames : []))"},
      {"newChecks",
       R"(variables.v1 && variables.names.size() > 0 && (variables.checks.size() == 0 || variables.checksFromNames) ?
  variables.names.map(n, {'name': n}) :
variables.v1 && variables.names.size() == 0 && variables.checksFromNames ? [] : variables.checks)"},
  };
}

PolicySpec Twins() {
  PolicySpec spec = OnQueues("muster-clusterqueue-twins", "clusterqueues", {"CREATE", "UPDATE"});
  spec.conditions = {{"spec", "has(object.spec)"}};
  spec.variables = TwinVariables();
  spec.json_patch = R"((variables.twinWritten ? [] : variables.cohort != '' ?
  [JSONPatch{op: "add", path: "/spec/cohort", value: variables.cohort},
   JSONPatch{op: "add", path: "/spec/cohortName", value: variables.cohort}] :
  (has(object.spec.cohort) ? [JSONPatch{op: "remove", path: "/spec/cohort"}] : []) +
  (has(object.spec.cohortName) ? [JSONPatch{op: "remove", path: "/spec/cohortName"}] : [])) +
(variables.newNames.size() > 0 ?
  [JSONPatch{op: "add", path: "/spec/admissionChecks", value: variables.newNames}] :
  has(object.spec.admissionChecks) ? [JSONPatch{op: "remove", path: "/spec/admissionChecks"}] : []) +
(variables.newChecks.size() > 0 ?
  [JSONPatch{op: "add", path: "/spec/admissionChecksStrategy",
             value: {"admissionChecks": variables.newChecks}}] :
  variables.v1 && has(object.spec.admissionChecksStrategy) ?
    [JSONPatch{op: "remove", path: "/spec/admissionChecksStrategy"}] : []) +
(variables.v1 && object.spec.?flavorFungibility.?whenCanBorrow.orValue('') == 'Borrow' ?
  [JSONPatch{op: "add", path: "/spec/flavorFungibility/whenCanBorrow", value: "MayStopSearch"}] : []) +
(variables.v1 && object.spec.?flavorFungibility.?whenCanPreempt.orValue('') == 'Preempt' ?
  [JSONPatch{op: "add", path: "/spec/flavorFungibility/whenCanPreempt", value: "MayStopSearch"}] : []))";
  return spec;
}

std::vector<NamedExpression> GroupVariables() {
  return {
      {"groups", "object.?spec.?resourceGroups.orValue([])"},
      {"disorder",
       R"(variables.groups.map(g, g.flavors.filter(f, f.resources.map(r, r.name) != g.coveredResources).map(f,
  'spec.resourceGroups.flavors[' + f.name + '].resources: [' + f.resources.map(r, r.name).join(', ') +
  '] must be the coveredResources of the group in the same order, [' + g.coveredResources.join(', ') + ']'
).join('; ')).filter(text, text != '').join('; '))"},
      {"resourcesTwice",
       R"(variables.groups.map(g, g.coveredResources.filter(r,
  !variables.groups.exists_one(h, r in h.coveredResources) &&
  variables.groups.filter(h, r in h.coveredResources)[0] == g).map(r,
  'spec.resourceGroups.coveredResources: ' + r + ' is in more than one group'
).join('; ')).filter(text, text != '').join('; '))"},
      {"flavorsTwice",
       R"(variables.groups.map(g, g.flavors.filter(f,
  !variables.groups.exists_one(h, h.flavors.exists(other, other.name == f.name)) &&
  variables.groups.filter(h, h.flavors.exists(other, other.name == f.name))[0] == g).map(f,
  'spec.resourceGroups.flavors: ' + f.name + ' is in more than one group'
).join('; ')).filter(text, text != '').join('; '))"},
      {"weight", "string(object.?spec.?fairSharing.?weight.orValue(1))"},
  };
}

std::vector<Rule> GroupRules() {
  return {
      Empty("disorder"),
      Empty("resourcesTwice"),
      Empty("flavorsTwice"),
      {R"(quantity(variables.weight).compareTo(quantity('0')) == 0 ||
quantity(variables.weight).isGreaterThan(quantity('1n')))",
       "'spec.fairSharing.weight: ' + variables.weight + ' must be 0 or greater than 1n'"},
  };
}

std::vector<NamedExpression> ClusterQueueVariables() {
  return {
      {"v1", "object.apiVersion == 'kueue.x-k8s.io/v1beta1'"},
      {"cohort", "object.?spec.?cohort.orValue('')"},
      {"cohortName", "object.?spec.?cohortName.orValue('')"},
      {"oldCohortName", "oldObject == null ? '' : oldObject.?spec.?cohortName.orValue('')"},
      {"names", "object.?spec.?admissionChecks.orValue([])"},
      {"checks", "object.?spec.?admissionChecksStrategy.?admissionChecks.orValue([])"},
      {"lent",
       R"(variables.groups.map(g, g.flavors.map(f, f.resources.filter(r, has(r.lendingLimit) &&
  quantity(string(r.lendingLimit)).isGreaterThan(quantity(string(r.nominalQuota)))).map(r,
  'spec.resourceGroups.flavors[' + f.name + '].resources[' + r.name + '].lendingLimit: ' +
  string(r.lendingLimit) + ' must not exceed nominalQuota, ' + string(r.nominalQuota)
).join('; ')).filter(text, text != '').join('; ')).filter(text, text != '').join('; '))"},
      {"flavorNames", "variables.groups.map(g, g.flavors.map(f, f.name))"},
      {"flavorCount", "variables.flavorNames.map(names, names.size()).sum()"},
      {"resourceCount", "variables.groups.map(g, g.coveredResources.size()).sum()"},
      {"tooMany",
       R"(variables.groups.filter(g, g.flavors.size() * g.coveredResources.size() > 512).map(g,
  'spec.resourceGroups: the group of ' + g.coveredResources[0] + ' has ' +
  string(g.flavors.size() * g.coveredResources.size()) + ' pairs of flavor and resource; 512 is the most'
).join('; '))"},
      {"unknownFlavors",
       R"(variables.checks.map(c, c.?onFlavors.orValue([]).filter(f, !variables.flavorNames.exists(names, f in names)).map(f,
  'spec.admissionChecksStrategy.admissionChecks[' + c.name + '].onFlavors: ' + f +
  ' is not a flavor of this ClusterQueue'
).join('; ')).filter(text, text != '').join('; '))"},
      {"migration", "object.?spec.?concurrentAdmissionPolicy.?migration.orValue({})"},
      {"lastFlavor", "variables.migration.?constraints.?lastAcceptableFlavorName.orValue('')"},
  };
}

std::vector<Rule> ClusterQueueRules() {
  return {
      {"variables.cohort == '' || variables.cohort == variables.cohortName",
       R"(!variables.v1 ?
  'spec.cohort: "' + variables.cohort + '" is the v1beta1 name of spec.cohortName' +
  (variables.cohortName == '' ? '' : ', which is "' + variables.cohortName + '"') +
  '; in v1beta2 write spec.cohortName alone' :
variables.cohortName == '' ?
  'spec.cohort: "' + variables.cohort + '" needs the MutatingAdmissionPolicy muster-clusterqueue-twins; ' +
  'without it write spec.cohortName in v1beta2' :
  'spec.cohortName: "' + variables.cohortName + '" is the v1beta2 name of spec.cohort, which is "' +
  variables.cohort + '"; in v1beta1 write spec.cohort alone')"},
      {R"(!variables.v1 || variables.cohort != '' || variables.cohortName == '' ||
variables.cohortName == variables.oldCohortName)",
       R"('spec.cohortName: "' + variables.cohortName + '" is the v1beta2 name of spec.cohort; in v1beta1 write spec.cohort')"},
      {R"(variables.names.size() == 0 || (variables.checks.map(c, c.name) == variables.names &&
  variables.checks.all(c, c.?onFlavors.orValue([]).size() == 0)))",
       R"(variables.v1 && variables.checks.size() == 0 ?
  'spec.admissionChecks: [' + variables.names.join(', ') + '] needs the MutatingAdmissionPolicy ' +
  'muster-clusterqueue-twins; without it write spec.admissionChecksStrategy' :
variables.v1 ?
  'spec.admissionChecks: [' + variables.names.join(', ') + '] cannot be set beside ' +
  'spec.admissionChecksStrategy, [' + variables.checks.map(c, c.name).join(', ') + ']; write one of them' :
  'spec.admissionChecks: [' + variables.names.join(', ') + '] is a v1beta1 field; in v1beta2 write ' +
  'spec.admissionChecksStrategy alone')"},
      Empty("lent"),
      {"variables.flavorCount <= 256",
       "'spec.resourceGroups: ' + string(variables.flavorCount) + ' flavors in all groups; 256 is the most'"},
      {"variables.resourceCount <= 256",
       "'spec.resourceGroups: ' + string(variables.resourceCount) + ' covered resources in all groups; 256 is the "
       "most'"},
      Empty("tooMany"),
      Empty("unknownFlavors"),
      {R"(!variables.migration.?constraints.hasValue() ||
variables.migration.?mode.orValue('') == 'TryPreferredFlavors')",
       R"('spec.concurrentAdmissionPolicy.migration.constraints: needs mode TryPreferredFlavors, not ' +
variables.migration.?mode.orValue(''))"},
      {"variables.lastFlavor == '' || variables.flavorNames.exists(names, variables.lastFlavor in names)",
       R"('spec.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName: ' + variables.lastFlavor +
' is not a flavor of this ClusterQueue')"},
  };
}

PolicySpec ClusterQueues() {
  PolicySpec spec = OnQueues("muster-clusterqueues", "clusterqueues", {"CREATE", "UPDATE"});
  spec.conditions = {SpecChanged()};
  spec.variables = GroupVariables();
  for (NamedExpression& v : ClusterQueueVariables()) spec.variables.push_back(std::move(v));
  spec.rules = ClusterQueueRules();
  for (Rule& rule : GroupRules()) spec.rules.push_back(std::move(rule));
  return spec;
}

PolicySpec Cohorts() {
  PolicySpec spec = OnQueues("muster-cohorts", "cohorts", {"CREATE", "UPDATE"});
  spec.conditions = {SpecChanged()};
  spec.variables = GroupVariables();
  spec.rules = GroupRules();
  return spec;
}

PolicySpec LocalQueues() {
  PolicySpec spec = OnQueues("muster-localqueues", "localqueues", {"CREATE", "UPDATE"});
  spec.conditions = {SpecChanged()};
  spec.variables = {{"weight", "string(object.?spec.?fairSharing.?weight.orValue(1))"}};
  spec.rules = {GroupRules().back()};
  return spec;
}

PolicySpec ResourceFlavors() {
  PolicySpec spec = OnQueues("muster-resourceflavors", "resourceflavors", {"CREATE", "UPDATE"});
  spec.conditions = {SpecChanged()};
  spec.variables = {{"badKeys",
                     R"(object.?spec.?nodeLabels.orValue({}).filter(key, key.size() > 317 || !key.matches(
  '^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?' +
  '([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$')))"}};
  spec.rules = {{"variables.badKeys.size() == 0",
                 "'spec.nodeLabels: ' + variables.badKeys.join(', ') + ' cannot be the key of a label'"}};
  return spec;
}

// CEL: whether a condition of `object`, which may be null, is true.
std::string IsTrue(std::string_view object, std::string_view condition) {
  return absl::StrCat(std::string(object), " != null && ", std::string(object),
                      ".?status.?conditions.orValue([]).exists(c,\n  c.type == '", std::string(condition),
                      "' && c.status == 'True')");
}

// CEL: the uid of the controller owner of `object`, which may be null; empty: it has none.
std::string ControllerUid(std::string_view object) {
  const std::string name(object);
  return absl::StrCat(name, " == null ? '' :\n  ", name,
                      ".metadata.?ownerReferences.orValue([]).filter(o, o.?controller.orValue(false)).map(o, "
                      "o.uid).join(',')");
}

// With credentials of its own, or with those of the controller manager that it is a part of.
constexpr char kFromGarbageCollector[] =
    "request.userInfo.username in\n  ['system:serviceaccount:kube-system:generic-garbage-collector', "
    "'system:kube-controller-manager']";

// Only what others write: Muster creates Workloads, and that costs nothing here.
PolicySpec Workloads(const PolicyOptions& options) {
  PolicySpec spec = OnQueues("muster-workloads", "workloads", {"CREATE", "UPDATE"});
  spec.conditions = {{"others", FromOthers(options)}};
  spec.variables = {
      {"reserved", IsTrue("oldObject", "QuotaReserved")},
      {"owner", ControllerUid("object")},
      {"oldOwner", ControllerUid("oldObject")},
      {"job", "object.metadata.?labels[?'kueue.x-k8s.io/job-uid'].orValue('')"},
      {"oldJob", "oldObject == null ? '' : oldObject.metadata.?labels[?'kueue.x-k8s.io/job-uid'].orValue('')"},
      {"claim", "object.metadata.?annotations[?'muster.dev/claim'].orValue('')"},
      {"oldClaim", "oldObject == null ? '' : oldObject.metadata.?annotations[?'muster.dev/claim'].orValue('')"}};
  spec.rules = {
      {"!variables.reserved || object.spec.podSets == oldObject.spec.podSets",
       R"('spec.podSets: cannot change while the Workload holds quota in ' +
oldObject.?status.?admission.?clusterQueue.orValue('a ClusterQueue'))"},
      {"variables.claim == variables.oldClaim",
       R"('metadata.annotations[muster.dev/claim]: is written by Muster alone; ' +
(oldObject == null ? 'remove it from the manifest' : 'keep the stored value'))"},
      // Whose quota it is. Dependents of what is deleted are let go by the garbage collector.
      {absl::StrCat("!variables.reserved || variables.owner == variables.oldOwner ||\n(variables.owner == '' && ",
                    kFromGarbageCollector, ")"),
       R"('metadata.ownerReferences: the controller cannot change from "' + variables.oldOwner + '" to "' +
variables.owner + '" while the Workload holds quota')"},
      {"!variables.reserved || variables.job == variables.oldJob",
       R"('metadata.labels[kueue.x-k8s.io/job-uid]: cannot change from "' + variables.oldJob + '" to "' +
variables.job + '" while the Workload holds quota')"}};
  return spec;
}

// What a Workload shows as reserved counts. Others may give quota back, and say that the work is over.
PolicySpec WorkloadAdmission(const PolicyOptions& options) {
  PolicySpec spec = OnQueues("muster-workload-admission", "workloads/status", {"UPDATE"});
  spec.conditions = {{"others", FromOthers(options)}};
  spec.variables = {{"reserved", IsTrue("object", "QuotaReserved")},
                    {"wasReserved", IsTrue("oldObject", "QuotaReserved")},
                    {"admitted", IsTrue("object", "Admitted")},
                    {"wasAdmitted", IsTrue("oldObject", "Admitted")}};
  spec.rules = {{"!variables.reserved || variables.wasReserved",
                 "'status.conditions[QuotaReserved]: cannot become True, quota is reserved by Muster alone'"},
                {"!variables.admitted || variables.wasAdmitted",
                 "'status.conditions[Admitted]: cannot become True, Workloads are admitted by Muster alone'"},
                {R"(!variables.reserved || !variables.wasReserved ||
object.?status.?admission == oldObject.?status.?admission)",
                 "'status.admission: cannot change while quota is reserved'"}};
  return spec;
}

// A client of v1beta1 does not know the preemption gates of a Workload, and leaves them out when it replaces that.
PolicySpec WorkloadGates() {
  PolicySpec spec = OnQueues("muster-workload-gates", "workloads", {"UPDATE"});
  spec.versions = {"v1beta1"};
  spec.exact_version = true;
  spec.conditions = {{"gates", "has(oldObject.spec.preemptionGates) && !has(object.spec.preemptionGates)"}};
  spec.json_patch = R"([JSONPatch{op: "add", path: "/spec/preemptionGates", value: oldObject.spec.preemptionGates}])";
  return spec;
}

// A client of v1beta1 does not know some fields of a Workload's status, and leaves them out when it replaces the
// status; of the execution time it knows another name. Muster writes v1beta2, both names, and pays nothing here.
PolicySpec WorkloadStatus() {
  PolicySpec spec = OnQueues("muster-workload-status", "workloads/status", {"UPDATE"});
  spec.versions = {"v1beta1"};
  spec.exact_version = true;
  spec.conditions = {{"old-status", "has(oldObject.status)"}};
  spec.variables = {
      {"new", "object.?status.orValue({})"},
      {"gates", "!has(variables.new.preemptionGates) && has(oldObject.status.preemptionGates)"},
      // Written under the name that v1beta1 has; removed under it; else what was there.
      {"time",
       R"(variables.new.?accumulatedPastExexcutionTimeSeconds.or(
  has(oldObject.status.accumulatedPastExexcutionTimeSeconds) ? optional.none() :
  variables.new.?accumulatedPastExecutionTimeSeconds.or(oldObject.status.?accumulatedPastExecutionTimeSeconds)))"},
      {"assignments", "variables.new.?admission.?podSetAssignments.orValue([])"},
      {"oldAssignments", "oldObject.status.?admission.?podSetAssignments.orValue([])"},
      // Pod sets whose topology kept its levels and lost its domains, which v1beta1 has in a form of its own.
      {"bare",
       R"(variables.assignments.filter(a, has(a.topologyAssignment) && !has(a.topologyAssignment.slices) &&
  variables.oldAssignments.exists(o, o.name == a.name && has(o.topologyAssignment) &&
    has(o.topologyAssignment.slices) && o.topologyAssignment.levels == a.topologyAssignment.levels)))"},
  };
  spec.json_patch = R"((has(object.status) ? [] : [JSONPatch{op: "add", path: "/status", value: {}}]) +
(variables.gates ?
  [JSONPatch{op: "add", path: "/status/preemptionGates", value: oldObject.status.preemptionGates}] : []) +
(variables.time.hasValue() ?
  [JSONPatch{op: "add", path: "/status/accumulatedPastExecutionTimeSeconds", value: variables.time.value()}] :
has(variables.new.accumulatedPastExecutionTimeSeconds) ?
  [JSONPatch{op: "remove", path: "/status/accumulatedPastExecutionTimeSeconds"}] : []) +
variables.bare.map(a, JSONPatch{
  op: "add",
  path: "/status/admission/podSetAssignments/" + string(variables.assignments.indexOf(a)) + "/topologyAssignment/slices",
  value: variables.oldAssignments.filter(o, o.name == a.name)[0].topologyAssignment.slices}))";
  return spec;
}

}  // namespace

std::vector<PolicySpec> QueuePolicies(const PolicyOptions& options) {
  return {Twins(),
          ClusterQueues(),
          Cohorts(),
          LocalQueues(),
          ResourceFlavors(),
          Workloads(options),
          WorkloadAdmission(options),
          WorkloadGates(),
          WorkloadStatus()};
}

}  // namespace muster::controller
