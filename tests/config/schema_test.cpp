// The CRDs and the policies on Muster's own kinds: what is accepted, what is refused and with which words, what is
// defaulted, and what kubectl shows.

#include <absl/strings/ascii.h>

#include <catch2/catch.hpp>

#include "fixture/text.h"
#include "world.h"

namespace muster::config_test {
namespace {

using Catch::Contains;
using cluster::Cat;
using cluster::Eventually;

std::string Object(std::string_view kind, std::string_view body, std::string_view version = kV2) {
  return Cat("{apiVersion: kueue.x-k8s.io/", version, ", kind: ", kind, ", metadata: {name: object}, ", body, "}");
}
std::string PathOf(std::string_view kind, std::string_view version = kV2) {
  std::string plural = absl::AsciiStrToLower(std::string(kind)) + (kind.ends_with("ss") ? "es" : "s");
  if (kind == "Topology") plural = "topologies";
  const bool in_namespace = kind == "LocalQueue" || kind == "Workload";
  return Kueue(version, plural, in_namespace ? "team" : "");
}

// One group of one flavor; `resources` is a YAML list.
std::string Groups(std::string_view covered, std::string_view resources) {
  return Cat("resourceGroups: [{coveredResources: ", covered, ", flavors: [{name: f, resources: ", resources, "}]}]");
}
std::string Quota(std::string_view quota) { return Groups("[cpu]", Cat("[{name: cpu, ", quota, "}]")); }
std::string PodSets(std::string_view entries) {
  return Cat("spec: {podSets: [{template: {spec: {containers: []}}, ", entries, "}]}");
}

struct Bad {
  const char* kind;
  std::string body;
  const char* message;  // names the field and the value
};

std::vector<Bad> BadQuotas(const char* kind, const char* parent) {
  const std::string with = Cat("spec: {", parent, ": x, ");
  const std::string alone = "spec: {";
  return {
      {kind, alone + Quota("nominalQuota: -1") + "}",
       "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: -1"},
      {kind, alone + Quota("nominalQuota: '-1'") + "}",
       "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: \"-1\""},
      {kind, alone + Quota("nominalQuota: 4x") + "}", ".nominalQuota: Invalid value: \"4x\""},
      // Nothing can be counted in such numbers.
      {kind, alone + Quota("nominalQuota: '1e-99999999999'") + "}", ".nominalQuota: Invalid value: \"1e-99999999999\""},
      {kind, alone + Quota("nominalQuota: '1e9999'") + "}", ".nominalQuota: Invalid value: \"1e9999\""},
      {kind, alone + Quota("nominalQuota: '" + std::string(65, '9') + "'") + "}",
       ".nominalQuota: Too long: may not be more than 64 bytes"},
      {kind, alone + Quota("nominalQuota: 1.5") + "}", ".nominalQuota in body must be of type integer,string"},
      {kind, alone + Quota("borrowingLimit: 1") + "}", ".resources[0].nominalQuota: Required value"},
      {kind, with + Quota("nominalQuota: 1, borrowingLimit: '-2'") + "}", ".borrowingLimit: Invalid value: \"-2\""},
      {kind, with + Quota("nominalQuota: 1, lendingLimit: -2") + "}", ".lendingLimit: Invalid value: -2"},
      {kind, alone + Groups("[]", "[{name: cpu, nominalQuota: 1}]") + "}",
       "spec.resourceGroups[0].coveredResources: Invalid value"},
      {kind, alone + Groups("[a/b/c]", "[{name: a/b/c, nominalQuota: 1}]") + "}",
       "spec.resourceGroups[0].coveredResources[0]: Invalid value: \"a/b/c\""},
      {kind, alone + "resourceGroups: [{coveredResources: [cpu], flavors: []}]}",
       "spec.resourceGroups[0].flavors: Invalid value"},
      {kind, alone + Groups("[cpu, memory]", "[{name: cpu, nominalQuota: 1}]") + "}",
       "each flavor must list exactly the coveredResources of its group"},
      {kind, alone + Groups("[cpu, memory]", "[{name: memory, nominalQuota: 1}, {name: cpu, nominalQuota: 1}]") + "}",
       "spec.resourceGroups.flavors[f].resources: [memory, cpu] must be the coveredResources of the group in the same "
       "order, [cpu, memory]"},
      {kind, alone + Groups("[cpu]", "[{name: memory, nominalQuota: 1}]") + "}",
       "spec.resourceGroups.flavors[f].resources: [memory] must be"},
      {kind,
       alone +
           "resourceGroups: [{coveredResources: [cpu], flavors: [{name: Big_One, resources: [{name: cpu, nominalQuota: "
           "1}]}]}]}",
       "spec.resourceGroups[0].flavors[0].name: Invalid value: \"Big_One\""},
      {kind,
       alone +
           "resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 1}]}, "
           "{name: f, resources: [{name: cpu, nominalQuota: 1}]}]}]}",
       "spec.resourceGroups[0].flavors[1]: Duplicate value"},
      {kind,
       alone + "resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: "
               "1}]}]}, "
               "{coveredResources: [cpu], flavors: [{name: g, resources: [{name: cpu, nominalQuota: 1}]}]}]}",
       "spec.resourceGroups.coveredResources: cpu is in more than one group"},
      {kind,
       alone + "resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: "
               "1}]}]}, "
               "{coveredResources: [memory], flavors: [{name: f, resources: [{name: memory, nominalQuota: 1}]}]}]}",
       "spec.resourceGroups.flavors: f is in more than one group"},
      {kind, "spec: {fairSharing: {weight: '-1'}}", "spec.fairSharing.weight: Invalid value: \"-1\""},
      {kind, "spec: {fairSharing: {weight: 1n}}", "spec.fairSharing.weight: 1n must be 0 or greater than 1n"},
      {kind, Cat("spec: {", parent, ": No_Name}"), "Invalid value: \"No_Name\""},
  };
}

const std::vector<Bad>& BadClusterQueues() {
  static const std::vector<Bad> cases = {
      {"ClusterQueue", "spec: {" + Quota("nominalQuota: 4, borrowingLimit: 1") + "}",
       "spec.resourceGroups: Invalid value: borrowingLimit and lendingLimit need spec.cohortName"},
      {"ClusterQueue", "spec: {" + Quota("nominalQuota: 4, lendingLimit: 1") + "}",
       "borrowingLimit and lendingLimit need spec.cohortName"},
      {"ClusterQueue", "spec: {cohortName: x, " + Quota("nominalQuota: '4', lendingLimit: 4001m") + "}",
       "spec.resourceGroups.flavors[f].resources[cpu].lendingLimit: 4001m must not exceed nominalQuota, 4"},
      {"ClusterQueue", "spec: {queueingStrategy: Lifo}", "spec.queueingStrategy: Unsupported value: \"Lifo\""},
      {"ClusterQueue", "spec: {stopPolicy: Drain}", "spec.stopPolicy: Unsupported value: \"Drain\""},
      {"ClusterQueue", "spec: {preemption: {withinClusterQueue: Any}}",
       "spec.preemption.withinClusterQueue: Unsupported value: \"Any\""},
      {"ClusterQueue", "spec: {preemption: {reclaimWithinCohort: Always}}",
       "spec.preemption.reclaimWithinCohort: Unsupported value: \"Always\""},
      {"ClusterQueue", "spec: {preemption: {borrowWithinCohort: {policy: LowerPriority}}}",
       "spec.preemption.borrowWithinCohort: Invalid value: borrowWithinCohort.policy LowerPriority needs a "
       "reclaimWithinCohort other than Never"},
      {"ClusterQueue", "spec: {preemption: {reclaimWithinCohort: Any, borrowWithinCohort: {policy: Any}}}",
       "spec.preemption.borrowWithinCohort.policy: Unsupported value: \"Any\""},
      {"ClusterQueue", "spec: {flavorFungibility: {whenCanBorrow: Borrow}}",
       "spec.flavorFungibility.whenCanBorrow: Unsupported value: \"Borrow\""},
      {"ClusterQueue", "spec: {flavorFungibility: {preference: BorrowingOverPreemption}}",
       "spec.flavorFungibility.preference: Invalid value: preference BorrowingOverPreemption needs whenCanBorrow and "
       "whenCanPreempt to be TryNextFlavor"},
      {"ClusterQueue", "spec: {namespaceSelector: {matchExpressions: [{key: a, operator: Equals, values: [b]}]}}",
       "spec.namespaceSelector.matchExpressions[0].operator: Unsupported value: \"Equals\""},
      {"ClusterQueue", "spec: {namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}",
       "spec.namespaceSelector.matchExpressions[0].values: Invalid value: operator In needs values"},
      {"ClusterQueue", "spec: {namespaceSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}",
       "operator Exists takes no values"},
      {"ClusterQueue", "spec: {namespaceSelector: {matchLabels: {a: b c}}}",
       "spec.namespaceSelector.matchLabels.a: Invalid value: \"b c\""},
      {"ClusterQueue", "spec: {admissionChecksStrategy: {}}",
       "spec.admissionChecksStrategy.admissionChecks: Required value"},
      {"ClusterQueue", "spec: {admissionChecksStrategy: {admissionChecks: [{name: c, onFlavors: [g]}]}}",
       "spec.admissionChecksStrategy.admissionChecks[c].onFlavors: g is not a flavor of this ClusterQueue"},
      {"ClusterQueue", "spec: {admissionScope: {admissionMode: Sometimes}}",
       "spec.admissionScope.admissionMode: Unsupported value: \"Sometimes\""},
      {"ClusterQueue", "spec: {concurrentAdmissionPolicy: {migration: {mode: TryPreferredFlavors}}}",
       "spec.concurrentAdmissionPolicy needs exactly one resource group"},
      {"ClusterQueue",
       "spec: {queueingStrategy: StrictFIFO, concurrentAdmissionPolicy: {migration: {mode: TryPreferredFlavors}}, " +
           Quota("nominalQuota: 1") + "}",
       "spec.queueingStrategy must not be StrictFIFO"},
      {"ClusterQueue",
       "spec: {concurrentAdmissionPolicy: {migration: {mode: TryPreferredFlavors, constraints: "
       "{lastAcceptableFlavorName: g}}}, " +
           Quota("nominalQuota: 1") + "}",
       "lastAcceptableFlavorName: g is not a flavor of this ClusterQueue"},
      {"ClusterQueue",
       "spec: {concurrentAdmissionPolicy: {migration: {mode: RetainFirstAdmission, constraints: "
       "{lastAcceptableFlavorName: f}}}, " +
           Quota("nominalQuota: 1") + "}",
       "constraints: needs mode TryPreferredFlavors, not RetainFirstAdmission"},
  };
  return cases;
}

const std::vector<Bad>& BadOthers() {
  static const std::vector<Bad> cases = {
      {"Cohort", "spec: {" + Quota("nominalQuota: 4, lendingLimit: 1") + "}",
       "spec.resourceGroups: Invalid value: borrowingLimit and lendingLimit need spec.parentName"},
      {"LocalQueue", "spec: {clusterQueue: No_Such}", "spec.clusterQueue: Invalid value: \"No_Such\""},
      {"LocalQueue", "spec: {}", "spec.clusterQueue: Required value"},
      {"LocalQueue", "status: {}", "spec: Required value"},
      {"LocalQueue", "spec: {clusterQueue: a, stopPolicy: Pause}", "spec.stopPolicy: Unsupported value: \"Pause\""},
      {"LocalQueue", "spec: {clusterQueue: a, fairSharing: {weight: 0.5n}}",
       "spec.fairSharing.weight: 0.5n must be 0 or greater than 1n"},
      {"ResourceFlavor", "spec: {topologyName: racks}",
       "spec.topologyName needs at least one entry in spec.nodeLabels"},
      {"ResourceFlavor", "spec: {nodeLabels: {a: -b}}", "spec.nodeLabels.a: Invalid value: \"-b\""},
      {"ResourceFlavor", "spec: {nodeLabels: {-a: b}}", "spec.nodeLabels: -a cannot be the key of a label"},
      {"ResourceFlavor", "spec: {nodeLabels: {a: '1', b: '1', c: '1', d: '1', e: '1', f: '1', g: '1', h: '1', i: '1'}}",
       "spec.nodeLabels: Too many: 9"},
      {"ResourceFlavor", "spec: {nodeTaints: [{key: a, effect: Never}]}",
       "spec.nodeTaints[0].effect: Unsupported value: \"Never\""},
      {"ResourceFlavor", "spec: {nodeTaints: [{key: a b, effect: NoSchedule}]}",
       "spec.nodeTaints[0].key: Invalid value: \"a b\""},
      {"ResourceFlavor", "spec: {nodeTaints: [{key: a, effect: NoSchedule}, {key: a, value: b, effect: NoSchedule}]}",
       "spec.nodeTaints must not hold two taints of the same key and effect"},
      {"ResourceFlavor", "spec: {tolerations: [{operator: Equal, value: x}]}",
       "spec.tolerations[0].operator: Invalid value: operator must be Exists where the key is empty"},
      {"ResourceFlavor", "spec: {tolerations: [{key: a, operator: Exists, value: x}]}",
       "spec.tolerations[0].value: Invalid value: value must be empty where operator is Exists, but is x"},
      {"ResourceFlavor", "spec: {tolerations: [{key: a, effect: NoSchedule, tolerationSeconds: 5}]}",
       "spec.tolerations[0].effect: Invalid value: tolerationSeconds needs the effect NoExecute"},
      {"ResourceFlavor", "spec: {tolerations: [{key: a, operator: Like}]}",
       "spec.tolerations[0].operator: Unsupported value: \"Like\""},
      // kueue_semantics 1.7.
      {"Topology", "spec: {}", "spec.levels: Required value"},
      {"Topology", "spec: {levels: []}", "spec.levels: Invalid value"},
      {"Topology", "spec: {levels: [{}]}", "spec.levels[0].nodeLabel: Required value"},
      {"Topology", "spec: {levels: [{nodeLabel: a b}]}", "spec.levels[0].nodeLabel: Invalid value: \"a b\""},
      {"Topology", "spec: {levels: [{nodeLabel: rack}, {nodeLabel: rack}]}",
       "spec.levels: Invalid value: spec.levels must not hold the same nodeLabel twice"},
      {"Topology", "spec: {levels: [{nodeLabel: kubernetes.io/hostname}, {nodeLabel: rack}]}",
       "kubernetes.io/hostname can only be the lowest level, the last of spec.levels"},
      {"Topology",
       "spec: {levels: [{nodeLabel: a}, {nodeLabel: b}, {nodeLabel: c}, {nodeLabel: d}, {nodeLabel: e}, {nodeLabel: "
       "f}, {nodeLabel: g}, {nodeLabel: h}, {nodeLabel: i}, {nodeLabel: j}, {nodeLabel: k}, {nodeLabel: l}, "
       "{nodeLabel: m}, {nodeLabel: n}, {nodeLabel: o}, {nodeLabel: p}, {nodeLabel: q}]}",
       "spec.levels: Too many: 17"},
      {"WorkloadPriorityClass", "description: none", "value: Required value"},
      {"WorkloadPriorityClass", "value: 2147483648", "value: Invalid value: 2147483648"},
      {"Workload", "spec: {podSets: []}", "spec.podSets: Invalid value"},
      {"Workload", "spec: {podSets: [{name: main, count: 1}]}", "spec.podSets[0].template: Required value"},
      {"Workload", PodSets("name: Main"), "spec.podSets[0].name: Invalid value: \"Main\""},
      {"Workload", PodSets("count: -1"), "spec.podSets[0].count: Invalid value: -1"},
      {"Workload", PodSets("count: 2147483648"), "spec.podSets[0].count: Invalid value: 2147483648"},
      {"Workload", PodSets("count: 2, minCount: 3"),
       "spec.podSets[0].minCount: Invalid value: minCount must not exceed count"},
      {"Workload", PodSets("count: 2, minCount: 0"), "spec.podSets[0].minCount: Invalid value: 0"},
      {"Workload",
       "spec: {podSets: [{name: a, count: 2, minCount: 1, template: {}}, {name: b, count: 2, minCount: 1, template: "
       "{}}]}",
       "spec.podSets: Invalid value: at most one of spec.podSets may have a minCount"},
      {"Workload", "spec: {podSets: [{template: {}}], queueName: Bad_Name}",
       "spec.queueName: Invalid value: \"Bad_Name\""},
      {"Workload", "spec: {podSets: [{template: {}}], maximumExecutionTimeSeconds: 0}",
       "spec.maximumExecutionTimeSeconds: Invalid value: 0"},
      {"Workload",
       "spec: {podSets: [{template: {}}], priorityClassRef: {group: kueue.x-k8s.io, kind: WorkloadPriorityClass, name: "
       "p}}",
       "spec.priority: Invalid value: spec.priority must be set where spec.priorityClassRef is"},
      {"Workload",
       "spec: {podSets: [{template: {}}], priority: 1, priorityClassRef: {group: kueue.x-k8s.io, kind: PriorityClass, "
       "name: p}}",
       "spec.priorityClassRef.kind: Invalid value: kind PriorityClass is not of group kueue.x-k8s.io"},
      {"Workload", "spec: {podSets: [{template: {}}], preemptionGates: [{name: ''}]}",
       "spec.preemptionGates[0].name: Invalid value: \"\""},
      {"Workload", "spec: {podSets: [{template: {}}], preemptionGates: [{name: a}, {name: a}]}",
       "spec.preemptionGates[1]: Duplicate value"},
      {"Workload",
       "spec: {podSets: [{template: {}}], preemptionGates: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}, "
       "{name: f}, {name: g}, {name: h}, {name: i}]}",
       "spec.preemptionGates: Too many: 9: must have at most 8 items"},
  };
  return cases;
}

void CheckRefused(const std::vector<Bad>& cases, std::string_view version) {
  World& world = Shared();
  for (const Bad& bad : cases) {
    INFO(bad.kind << " " << version << " " << bad.body);
    CHECK_THAT(
        Refusal(Create(world.admin(), PathOf(bad.kind, version), Object(bad.kind, bad.body, version), "dryRun=All")),
        Contains(bad.message));
  }
}

// user_pains A17
TEST_CASE("wrong objects are refused, and the message names the field and its value") {
  CheckRefused(BadQuotas("ClusterQueue", "cohortName"), kV2);
  CheckRefused(BadQuotas("Cohort", "parentName"), kV2);
  CheckRefused(BadClusterQueues(), kV2);
  CheckRefused(BadOthers(), kV2);
}

TEST_CASE("v1beta1 is as strict where its fields are the same") {
  CheckRefused(BadQuotas("ClusterQueue", "cohort"), kV1);
  CheckRefused(BadQuotas("Cohort", "parentName"), kV1);
  CheckRefused(BadOthers(), kV1);
}

TEST_CASE("unknown fields are refused by strict clients and dropped for others") {
  World& world = Shared();
  const std::string yaml = Object("ClusterQueue", "spec: {chort: x}");
  const ApiResponse strict = Create(world.admin(), PathOf("ClusterQueue"), yaml, "dryRun=All");
  CHECK(strict.status == 400);
  CHECK_THAT(strict.json["message"].Str(), Contains("unknown field \"spec.chort\""));
}

TEST_CASE("objects at the edge of what is allowed are accepted in both versions") {
  World& world = Shared();
  for (const std::string_view version : {kV1, kV2}) {
    const std::string cohort = version == kV1 ? "cohort: x" : "cohortName: x";
    for (const std::string& spec : {
             std::string(),
             cohort + ", " + Quota("nominalQuota: 0, borrowingLimit: 0, lendingLimit: 0"),
             cohort + ", " + Quota("nominalQuota: '4', lendingLimit: 4000m"),
             Quota("nominalQuota: '1.5'"),
             Quota("nominalQuota: '2e3'"),
             Quota("nominalQuota: 100Ei"),
             Groups("[cpu, nvidia.com/gpu, pods]",
                    "[{name: cpu, nominalQuota: 1}, {name: nvidia.com/gpu, nominalQuota: 1}, {name: pods, "
                    "nominalQuota: 1}]"),
             std::string("fairSharing: {weight: 0}"),
             std::string("fairSharing: {weight: 2n}"),
             std::string("namespaceSelector: {}"),
             std::string("namespaceSelector: {matchExpressions: [{key: a, operator: NotIn, values: [b]}, {key: a.b/c, "
                         "operator: Exists}]}"),
             std::string("preemption: {reclaimWithinCohort: LowerPriority, borrowWithinCohort: {policy: LowerPriority, "
                         "maxPriorityThreshold: -5}, withinClusterQueue: LowerOrNewerEqualPriority}"),
             std::string("flavorFungibility: {whenCanBorrow: TryNextFlavor, whenCanPreempt: TryNextFlavor, preference: "
                         "PreemptionOverBorrowing}"),
             "admissionChecksStrategy: {admissionChecks: [{name: c, onFlavors: [f]}]}, " + Quota("nominalQuota: 1"),
         }) {
      Accept(world.admin(), PathOf("ClusterQueue", version), Object("ClusterQueue", "spec: {" + spec + "}", version));
    }
    Accept(world.admin(), PathOf("ClusterQueue", version), Object("ClusterQueue", "spec: {}", version));
    // A Cohort may lend more than its own quota: what is below it counts too.
    Accept(world.admin(), PathOf("Cohort", version),
           Object("Cohort", "spec: {parentName: top, " + Quota("nominalQuota: 1, lendingLimit: 5") + "}", version));
    Accept(world.admin(), PathOf("ResourceFlavor", version), Object("ResourceFlavor", "spec: {}", version));
    Accept(
        world.admin(), PathOf("ResourceFlavor", version),
        Object("ResourceFlavor",
               "spec: {nodeLabels: {example.com/kind: a.B_9, plain: ''}, nodeTaints: [{key: a, effect: NoSchedule}, "
               "{key: a, effect: NoExecute}], tolerations: [{operator: Exists}, {key: a, value: b, effect: NoExecute, "
               "tolerationSeconds: 5}], topologyName: racks}",
               version));
    Accept(world.admin(), PathOf("Topology", version),
           Object("Topology", "spec: {levels: [{nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]}",
                  version));
    Accept(world.admin(), PathOf("LocalQueue", version),
           Object("LocalQueue", "spec: {clusterQueue: a.b, stopPolicy: HoldAndDrain, fairSharing: {weight: 500m}}",
                  version));
    Accept(world.admin(), PathOf("WorkloadPriorityClass", version),
           Object("WorkloadPriorityClass", "value: -2147483648, description: low", version));
  }
}

// The limits of kueue_semantics 1.3 together: 16 groups, 256 flavors and 256 resources in all. The policies must not
// run out of their own budget before.
TEST_CASE("the largest ClusterQueue is judged, not cut short") {
  World& world = Shared();
  const auto queue = [](int extra_flavors) {
    std::string groups;
    for (int g = 0; g < 16; ++g) {
      std::string covered, flavors, resources;
      for (int r = 0; r < 16; ++r) {
        const std::string name = Cat("r", g, "-", r);
        covered += (r ? ", " : "") + name;
        resources +=
            Cat(r ? ", " : "", "{name: ", name, ", nominalQuota: '5', borrowingLimit: '1', lendingLimit: '4'}");
      }
      for (int f = 0; f < 16 + (g == 0 ? extra_flavors : 0); ++f) {
        flavors += Cat(f ? ", " : "", "{name: f", g, "-", f, ", resources: [", resources, "]}");
      }
      groups += Cat(g ? ", " : "", "{coveredResources: [", covered, "], flavors: [", flavors, "]}");
    }
    return Object("ClusterQueue", Cat("spec: {cohortName: x, resourceGroups: [", groups, "]}"));
  };
  Accept(world.admin(), PathOf("ClusterQueue"), queue(0));
  CHECK_THAT(Refusal(Create(world.admin(), PathOf("ClusterQueue"), queue(1), "dryRun=All")),
             Contains("spec.resourceGroups: 257 flavors in all groups; 256 is the most"));
}

TEST_CASE("a group has at most 512 pairs of flavor and resource, and a queue 256 resources") {
  World& world = Shared();
  const auto group = [](int number, int flavors, int resources) {
    std::string covered, quotas, list;
    for (int r = 0; r < resources; ++r) {
      const std::string name = Cat("r", number, "-", r);
      covered += (r ? ", " : "") + name;
      quotas += Cat(r ? ", " : "", "{name: ", name, ", nominalQuota: 1}");
    }
    for (int f = 0; f < flavors; ++f)
      list += Cat(f ? ", " : "", "{name: f", number, "-", f, ", resources: [", quotas, "]}");
    return Cat("{coveredResources: [", covered, "], flavors: [", list, "]}");
  };
  const auto create = [&](const std::string& groups) {
    return Refusal(Create(world.admin(), PathOf("ClusterQueue"),
                          Object("ClusterQueue", Cat("spec: {resourceGroups: [", groups, "]}")), "dryRun=All"));
  };
  CHECK_THAT(create(group(0, 8, 64)), Contains("accepted"));
  CHECK_THAT(create(group(0, 9, 64)),
             Contains("spec.resourceGroups: the group of r0-0 has 576 pairs of flavor and resource; 512 is the most"));
  std::string groups = group(0, 1, 52);
  for (int g = 1; g < 5; ++g) groups += ", " + group(g, 1, 51);
  CHECK_THAT(create(groups), Contains("accepted"));
  CHECK_THAT(create(groups + ", " + group(5, 1, 1)),
             Contains("spec.resourceGroups: 257 covered resources in all groups; 256 is the most"));
}

TEST_CASE("defaults are filled in") {
  World& world = Shared();
  for (const std::string_view version : {kV1, kV2}) {
    const ApiResponse queue =
        Create(world.admin(), PathOf("ClusterQueue", version),
               Object("ClusterQueue", "spec: {namespaceSelector: {}, fairSharing: {}}", version), "dryRun=All");
    INFO(queue.text);
    CHECK(queue.json["spec"].At("queueingStrategy").Str() == "BestEffortFIFO");
    CHECK(queue.json["spec"].At("stopPolicy").Str() == "None");
    CHECK(queue.json["spec"].At("flavorFungibility/whenCanBorrow").Str() == "MayStopSearch");
    CHECK(queue.json["spec"].At("flavorFungibility/whenCanPreempt").Str() == "TryNextFlavor");
    CHECK(queue.json["spec"].At("preemption/reclaimWithinCohort").Str() == "Never");
    CHECK(queue.json["spec"].At("preemption/borrowWithinCohort/policy").Str() == "Never");
    CHECK(queue.json["spec"].At("preemption/withinClusterQueue").Str() == "Never");
    CHECK(queue.json["spec"].At("fairSharing/weight").Int() == 1);
    // Nothing and everything are not the same selector.
    CHECK_FALSE(queue.json["spec"]["namespaceSelector"].IsNull());
    const ApiResponse without = Create(world.admin(), PathOf("ClusterQueue", version),
                                       Object("ClusterQueue", "spec: {}", version), "dryRun=All");
    CHECK(without.json["spec"]["namespaceSelector"].IsNull());

    const ApiResponse local = Create(world.admin(), PathOf("LocalQueue", version),
                                     Object("LocalQueue", "spec: {clusterQueue: q}", version), "dryRun=All");
    CHECK(local.json.At("spec/stopPolicy").Str() == "None");
    const ApiResponse workload = Create(world.admin(), PathOf("Workload", version),
                                        Object("Workload", "spec: {podSets: [{template: {}}]}", version), "dryRun=All");
    CHECK(workload.json.At("spec/active").Bool());
    CHECK(workload.json.At("spec/podSets/0/name").Str() == "main");
    CHECK(workload.json.At("spec/podSets/0/count").Int() == 1);
  }
}

TEST_CASE("what is immutable stays, and the message says what it stays at") {
  World& world = Shared();
  const std::string local = Kueue(kV2, "localqueues/fixed", "spare");
  REQUIRE(
      Create(world.admin(), Kueue(kV2, "localqueues", "spare"),
             "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: fixed}, spec: {clusterQueue: a}}")
          .status == 201);
  CHECK_THAT(Refusal(Patch(world.admin(), local, R"({"spec": {"clusterQueue": "b"}})")),
             Contains("spec.clusterQueue") && Contains("spec.clusterQueue is immutable: it stays a"));
  CHECK_THAT(Refusal(Patch(world.admin(), local, R"({"spec": {"clusterQueue": null}})")),
             Contains("spec.clusterQueue: Required value"));
  CHECK(Patch(world.admin(), local, R"({"spec": {"stopPolicy": "Hold"}})").ok());

  const std::string flavor = Kueue(kV2, "resourceflavors/fixed");
  REQUIRE(
      Create(world.admin(), Kueue(kV2, "resourceflavors"),
             "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: fixed}, spec: {nodeLabels: "
             "{a: b}, topologyName: racks}}")
          .status == 201);
  CHECK_THAT(Refusal(Patch(world.admin(), flavor, R"({"spec": {"topologyName": "rows"}})")),
             Contains("spec.topologyName is immutable once set: it stays racks"));
  CHECK_THAT(Refusal(Patch(world.admin(), flavor, R"({"spec": {"topologyName": null}})")), Contains("it stays racks"));

  const auto levels = [](std::string_view first, std::string_view last) {
    return Cat(R"({"spec": {"levels": [{"nodeLabel": ")", first, R"("}, {"nodeLabel": ")", last, R"("}]}})");
  };
  REQUIRE(Create(world.admin(), Kueue(kV2, "topologies"),
                 "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Topology, metadata: {name: fixed}, spec: {levels: "
                 "[{nodeLabel: row}, {nodeLabel: kubernetes.io/hostname}]}}")
              .status == 201);
  const std::string topology = Kueue(kV2, "topologies/fixed");
  CHECK_THAT(Refusal(Patch(world.admin(), topology, levels("row", "rack"))),
             Contains("spec.levels can be changed only where kubernetes.io/hostname is and stays the lowest level"));
  CHECK(Patch(world.admin(), topology, levels("rack", "kubernetes.io/hostname")).ok());

  const std::string queue = Kueue(kV2, "clusterqueues/fixed");
  REQUIRE(
      Create(world.admin(), Kueue(kV2, "clusterqueues"),
             Cat("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: fixed}, spec: {",
                 Quota("nominalQuota: 1"), ", concurrentAdmissionPolicy: {migration: {mode: RetainFirstAdmission}}}}"))
          .status == 201);
  CHECK_THAT(Refusal(Patch(world.admin(), queue, R"({"spec": {"concurrentAdmissionPolicy": null}})")),
             Contains("spec.concurrentAdmissionPolicy is immutable"));
}

TEST_CASE("a Workload that holds quota keeps its queue, pod sets and class") {
  World& world = Shared();
  const std::string path = Kueue(kV2, "workloads/held", "team");
  REQUIRE(
      Create(
          world.admin(), Kueue(kV2, "workloads", "team"),
          "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: held}, spec: {queueName: lq, "
          "priority: "
          "5, maximumExecutionTimeSeconds: 60, priorityClassRef: {group: kueue.x-k8s.io, kind: WorkloadPriorityClass, "
          "name: p}, podSets: [{count: 2, template: {spec: {containers: [{name: c}]}}}]}}")
          .status == 201);
  const auto held = [](const char* status, const char* assignments) {
    return Cat(R"({"status": {"conditions": [{"type": "QuotaReserved", "status": ")", status,
               R"(", "reason": "QuotaReserved", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
               {"type": "Admitted", "status": ")",
               status, R"(", "reason": "Admitted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
               "admission": {"clusterQueue": "q", "podSetAssignments": [)",
               assignments, "]}}}");
  };
  // Free to change before.
  CHECK(Patch(world.admin(), path, R"({"spec": {"queueName": "other"}})").ok());
  CHECK(Patch(world.admin(), path, R"({"spec": {"queueName": "lq"}})").ok());
  CHECK_THAT(Refusal(world.muster->MergePatch(path + "/status", held("True", ""))),
             Contains("status.admission.podSetAssignments must have one entry for each of spec.podSets"));
  REQUIRE(world.muster->MergePatch(path + "/status", held("True", R"({"name": "main", "count": 2})")).ok());

  const std::pair<const char*, const char*> cases[] = {
      {R"({"spec": {"queueName": "other"}})", "spec.queueName is immutable while the Workload holds quota"},
      {R"({"spec": {"maximumExecutionTimeSeconds": 90}})",
       "spec.maximumExecutionTimeSeconds is immutable while the Workload is admitted"},
      {R"({"spec": {"priorityClassRef": null}})", "spec.priorityClassRef is immutable while the Workload holds quota"},
      {R"({"spec": {"podSets": [{"name": "main", "count": 3, "template": {"spec": {"containers": [{"name": "c"}]}}}]}})",
       "spec.podSets: cannot change while the Workload holds quota in q"},
      {R"({"spec": {"podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": [{"name": "d"}]}}}]}})",
       "spec.podSets: cannot change while the Workload holds quota in q"},
  };
  for (const auto& [patch, message] : cases) {
    INFO(patch);
    CHECK_THAT(Refusal(Patch(world.admin(), path, patch)), Contains(message));
  }
  CHECK(Patch(world.admin(), path, R"({"spec": {"priority": 7}})").ok());
  CHECK(Patch(world.admin(), path, R"({"spec": {"priorityClassRef": {"name": "other"}}})").ok());
  CHECK(Patch(world.admin(), path, R"({"spec": {"active": false}})").ok());
  REQUIRE(world.muster->MergePatch(path + "/status", held("False", R"({"name": "main", "count": 2})")).ok());
  CHECK(Patch(world.admin(), path, R"({"spec": {"queueName": "other"}})").ok());
}

TEST_CASE("nobody but Muster reserves quota for a Workload, admits it, or names its claim; others may give it back") {
  World& world = Shared();
  const std::string path = Kueue(kV2, "workloads/lone", "team");
  const auto lone = [](const char* metadata) {
    return Cat("{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: lone", metadata,
               "}, spec: {queueName: lq, podSets: [{count: 2, template: {spec: {containers: [{name: c}]}}}]}}");
  };
  CHECK_THAT(
      Refusal(Create(world.admin(), Kueue(kV2, "workloads", "team"), lone(", annotations: {muster.dev/claim: 7-1}"))),
      Contains("metadata.annotations[muster.dev/claim]: is written by Muster alone; remove it"));
  REQUIRE(Create(world.admin(), Kueue(kV2, "workloads", "team"), lone("")).status == 201);
  const auto status = [](const char* reserved, const char* admitted, const char* flavor) {
    return Cat(R"({"status": {"conditions": [{"type": "QuotaReserved", "status": ")", reserved,
               R"(", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
               {"type": "Admitted", "status": ")",
               admitted, R"(", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
               "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": 2,
               "flavors": {"cpu": ")",
               flavor, R"("}}]}}})");
  };
  const std::string at = path + "/status";
  CHECK_THAT(Refusal(Patch(world.admin(), at, status("True", "False", "f"))),
             Contains("status.conditions[QuotaReserved]: cannot become True"));
  CHECK_THAT(Refusal(Patch(world.admin(), at, status("False", "True", "f"))),
             Contains("status.conditions[Admitted]: cannot become True"));
  CHECK(Patch(world.admin(), at, status("False", "False", "f")).ok());
  REQUIRE(world.muster->MergePatch(path, R"({"metadata": {"annotations": {"muster.dev/claim": "7-2"}}})").ok());
  REQUIRE(world.muster->MergePatch(at, status("True", "True", "f")).ok());
  CHECK_THAT(Refusal(Patch(world.admin(), path, R"({"metadata": {"annotations": {"muster.dev/claim": "9-1"}}})")),
             Contains("metadata.annotations[muster.dev/claim]: is written by Muster alone; keep the stored value"));
  CHECK_THAT(Refusal(Patch(world.admin(), at, status("True", "True", "g"))),
             Contains("status.admission: cannot change while quota is reserved"));
  CHECK(Patch(world.admin(), at, R"({"status": {"reclaimablePods": [{"name": "main", "count": 1}]}})").ok());
  // Whose quota that is does not change meanwhile, but for the garbage collector.
  const auto owner = [](const char* uid, bool controller) {
    return Cat(R"({"metadata": {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": ")",
               uid, R"(", "controller": )", controller ? "true" : "false", "}]}}");
  };
  const std::string job_label = R"({"metadata": {"labels": {"kueue.x-k8s.io/job-uid": "u-1"}}})";
  CHECK_THAT(Refusal(Patch(world.admin(), path, owner("u-1", true))),
             Contains("metadata.ownerReferences: the controller cannot change from \"\" to \"u-1\" while the Workload "
                      "holds quota"));
  CHECK(Patch(world.admin(), path, owner("u-2", false)).ok());
  CHECK_THAT(Refusal(Patch(world.admin(), path, job_label)),
             Contains("metadata.labels[kueue.x-k8s.io/job-uid]: cannot change from \"\" to \"u-1\""));
  REQUIRE(world.muster->MergePatch(path, owner("u-1", true)).ok());
  REQUIRE(world.muster->MergePatch(path, job_label).ok());
  const std::string no_owner = R"({"metadata": {"ownerReferences": null}})";
  CHECK_THAT(Refusal(Patch(world.admin(), path, no_owner)), Contains("cannot change from \"u-1\" to \"\""));
  CHECK_THAT(Refusal(Patch(world.admin(), path, owner("u-3", true))),
             Contains("cannot change from \"u-1\" to \"u-3\""));
  CHECK_THAT(Refusal(Patch(world.admin(), path, R"({"metadata": {"labels": {"kueue.x-k8s.io/job-uid": null}}})")),
             Contains("cannot change from \"u-1\" to \"\""));
  const auto collector = ClientAs(*world.cluster, "system:serviceaccount:kube-system:generic-garbage-collector");
  CHECK_THAT(Refusal(Patch(*collector, path, owner("u-3", true))), Contains("metadata.ownerReferences"));
  CHECK(Patch(*collector, path, no_owner).ok());
  CHECK(Patch(world.admin(), at, status("False", "False", "f")).ok());
  CHECK(Patch(world.admin(), path, owner("u-4", true)).ok());
}

// ---- kubectl

std::string Kubectl(std::vector<std::string> args, const std::string& input = "") {
  const absl::StatusOr<cluster::Output> output = Shared().cluster->Kubectl(std::move(args), input);
  REQUIRE(output.ok());
  INFO(output->err);
  REQUIRE(output->exit_code == 0);
  return output->out;
}

// The names in the header line; columns are two or more spaces apart.
std::vector<std::string> Columns(const std::string& table) {
  std::vector<std::string> names;
  const std::string line = table.substr(0, table.find('\n'));
  for (size_t from = line.find_first_not_of(' '); from != std::string::npos;) {
    const size_t to = line.find("  ", from);
    std::string name = line.substr(from, to == std::string::npos ? to : to - from);
    names.push_back(name.substr(0, name.find_last_not_of(' ') + 1));
    from = to == std::string::npos ? to : line.find_first_not_of(' ', to);
  }
  return names;
}

TEST_CASE("kubectl shows Kueue's columns, in both versions and by Kueue's short names") {
  World& world = Shared();
  using Names = std::vector<std::string>;
  REQUIRE(
      Create(world.admin(), Kueue(kV1, "clusterqueues"),
             "{apiVersion: kueue.x-k8s.io/v1beta1, kind: ClusterQueue, metadata: {name: shown}, spec: {cohort: pool}}")
          .status == 201);
  REQUIRE(world.muster->MergePatch(Kueue(kV2, "clusterqueues/shown/status"), R"({"status": {"pendingWorkloads": 3}})")
              .ok());
  REQUIRE(Create(world.admin(), Kueue(kV2, "localqueues", "team"),
                 "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: shown}, spec: {clusterQueue: "
                 "shown}}")
              .status == 201);
  REQUIRE(
      Create(world.admin(), Kueue(kV2, "workloads", "team"),
             "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: shown}, spec: {queueName: shown, "
             "podSets: [{template: {}}]}}")
          .status == 201);
  REQUIRE(Create(world.admin(), Kueue(kV2, "workloadpriorityclasses"),
                 "{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: shown}, value: 7}")
              .status == 201);
  for (const auto& [kind, resource] :
       {std::pair("Cohort", "cohorts"), std::pair("ResourceFlavor", "resourceflavors")}) {
    REQUIRE(Create(world.admin(), Kueue(kV2, resource),
                   Cat("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ", kind, ", metadata: {name: shown}, spec: {}}"))
                .status == 201);
  }
  for (const std::string_view version : {kV1, kV2}) {
    const auto get = [&](const char* resource, std::vector<std::string> more = {}) {
      std::vector<std::string> args = {"get", Cat(resource, ".", version, ".kueue.x-k8s.io"), "-n", "team"};
      args.insert(args.end(), more.begin(), more.end());
      return Kubectl(args);
    };
    CHECK(Columns(get("clusterqueues")) == Names{"NAME", "COHORT", "PENDING WORKLOADS"});
    CHECK(Columns(get("clusterqueues", {"-o", "wide"})) ==
          Names{"NAME", "COHORT", "STRATEGY", "PENDING WORKLOADS", "ADMITTED WORKLOADS"});
    CHECK_THAT(get("clusterqueues"), Catch::Matches("[^]*shown +pool +3\n[^]*"));
    CHECK(Columns(get("localqueues")) == Names{"NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS"});
    CHECK(Columns(get("workloads")) == Names{"NAME", "QUEUE", "RESERVED IN", "ADMITTED", "FINISHED", "AGE"});
    CHECK(Columns(get("workloadpriorityclasses")) == Names{"NAME", "VALUE"});
    CHECK(Columns(get("resourceflavors")) == Names{"NAME", "AGE"});
    CHECK(Columns(get("cohorts")) == Names{"NAME", "AGE"});
  }
  for (const char* name : {"cq", "lq", "queue", "queues", "rf", "flavor", "flavors", "co", "wpc", "kwl",
                           "kueueworkload", "kueueworkloads"}) {
    INFO(name);
    CHECK_FALSE(Kubectl({"get", name, "-A", "-o", "name"}).empty());
  }
}

TEST_CASE("Workloads can be selected by the ClusterQueue that they hold quota in") {
  World& world = Shared();
  for (const char* name : {"here", "there"}) {
    REQUIRE(Create(world.admin(), Kueue(kV2, "workloads", "spare"),
                   Cat("{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: ", name,
                       "}, spec: {podSets: [{template: {}}]}}"))
                .status == 201);
    REQUIRE(world.muster
                ->MergePatch(
                    Kueue(kV2, Cat("workloads/", name, "/status"), "spare"),
                    Cat(R"({"status": {"admission": {"clusterQueue": "in-)", name, R"(", "podSetAssignments": []}}})"))
                .ok());
  }
  for (const std::string_view version : {kV1, kV2}) {
    const Json list =
        world.admin()
            .Get(Kueue(version, "workloads", "spare") + "?fieldSelector=status.admission.clusterQueue%3Din-here")
            .json;
    REQUIRE(list["items"].Items().size() == 1);
    CHECK(list.At("items/0/metadata/name").Str() == "here");
  }
}

TEST_CASE("deprecated versions say so") {
  const absl::StatusOr<cluster::Output> output =
      Shared().cluster->Kubectl({"get", "clusterqueues.v1beta1.kueue.x-k8s.io", "-o", "name"});
  REQUIRE(output.ok());
  CHECK_THAT(output->err, Contains("kueue.x-k8s.io/v1beta1 ClusterQueue is deprecated; use v1beta2"));
}

TEST_CASE("a ClusterQueue as Kueue's users have it is accepted unchanged") {
  World& world = Shared();
  const std::string yaml = R"(apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: gpu-training}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors:
    - name: h100-flavor
      resources:
      - {name: "nvidia.com/gpu", nominalQuota: 32}
  preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}
)";
  Kubectl({"apply", "--validate=strict", "-f", "-"}, yaml);
  CHECK_THAT(Kubectl({"apply", "--validate=strict", "-f", "-"}, yaml), Contains("unchanged"));
  const Json spec = world.admin().Get(Kueue(kV2, "clusterqueues/gpu-training")).json["spec"];
  CHECK(spec.At("resourceGroups/0/flavors/0/resources/0/nominalQuota").Int() == 32);
  CHECK(spec.At("resourceGroups/0/coveredResources/0").Str() == "nvidia.com/gpu");
  CHECK(spec.At("preemption/reclaimWithinCohort").Str() == "Any");
  CHECK(spec.At("preemption/withinClusterQueue").Str() == "LowerPriority");
}

TEST_CASE("the samples are accepted, and a second time change nothing") {
  const std::string samples = Cat(MUSTER_SOURCE_DIR, "/config/samples");
  Kubectl({"apply", "--validate=strict", "-f", samples});
  // Once the API server knows the samples' default queue, their Job waits in it.
  const std::string again = Kubectl({"apply", "--validate=strict", "-f", samples});
  CHECK_THAT(again, !Contains("created") && !Contains("configured"));
  CHECK(Shared().admin().Get(Cat(Jobs("research"), "/train")).json.At("spec/suspend").Bool());
  CHECK(Shared().admin().Get("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/muster").ok());
}

TEST_CASE("the hand-over to Kueue takes the place of the service") {
  const std::string applied =
      Kubectl({"apply", "--dry-run=server", "--validate=strict", "-k", Cat(MUSTER_SOURCE_DIR, "/config/release")});
  CHECK_THAT(applied, Contains("deployment.apps/muster configured"));
}

TEST_CASE("config/default is applied again without a change by its owner") {
  const absl::StatusOr<cluster::Output> rendered =
      Shared().cluster->Kubectl({"kustomize", Cat(MUSTER_SOURCE_DIR, "/config/default")});
  REQUIRE(rendered.ok());
  const auto revision = [] {
    return Shared()
        .admin()
        .Get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io")
        .json.At("metadata/generation")
        .Int();
  };
  const int64_t before = revision();
  CHECK(Shared().cluster->ApplyText(rendered->out).ok());
  CHECK(revision() == before);
}

}  // namespace
}  // namespace muster::config_test
