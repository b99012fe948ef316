// Objects whose numbers are out of range: Kubernetes has counts and priorities as int32, quotas from 0 up.
#include "muster/controller/decode.h"

#include <catch2/catch.hpp>
#include <string>

#include "muster/controller/job.h"
#include "muster/controller/priority.h"
#include "muster/controller/workload.h"

namespace muster::controller {
namespace {

using k8s::JsonDocument;

// The error of decoding `json` with `decode`; empty where it is fine.
template <typename F>
std::string ErrorOf(const std::string& json, F decode) {
  JsonDocument document(json);
  decode(document.root());
  const absl::Status status = document.Finish("it");
  return std::string(status.message());
}

std::string WorkloadError(const std::string& spec, const std::string& status = "{}") {
  gang::ShapeTable shapes;
  return ErrorOf(R"({"metadata":{"name":"w","namespace":"n"},"spec":)" + spec + R"(,"status":)" + status + "}",
                 [&](k8s::JsonValue object) { DecodeWorkloadObject(object, {}, &shapes); });
}

std::string QueueError(const std::string& spec) {
  return ErrorOf(R"({"metadata":{"name":"q"},"spec":)" + spec + "}",
                 [](k8s::JsonValue object) { DecodeClusterQueue(object); });
}

std::string JobError(const std::string& spec, const std::string& status = "{}") {
  TextTable texts;
  const auto job =
      DecodeJob(R"({"metadata":{"name":"j","namespace":"n","uid":"u"},"spec":)" + spec + R"(,"status":)" + status + "}",
                &texts, false);
  return std::string(job.status().message());
}

std::string QuotaSpec(const std::string& quota) {
  return R"({"resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[{"name":"cpu",)" +
         quota + "}]}]}]}";
}

TEST_CASE("the greatest and least numbers of 32 bits are read as they are") {
  gang::ShapeTable shapes;
  JsonDocument document(R"({"spec":{"priority":-2147483648,"podSets":[{"count":2147483647,"minCount":0}]}})");
  const engine::Workload workload = DecodeWorkloadObject(document.root(), {}, &shapes);
  REQUIRE(document.Finish("w").ok());
  CHECK(workload.priority == INT32_MIN);
  CHECK(workload.pod_sets.at(0).count == INT32_MAX);
  CHECK(workload.pod_sets.at(0).min_count == 0);
}

TEST_CASE("a number of a Workload that is out of range is refused with field and value") {
  CHECK(WorkloadError(R"({"priority":2147483648})") ==
        "it: spec.priority: must be an integer of 32 bits, got 2147483648");
  CHECK(WorkloadError(R"({"priority":-2147483649})") ==
        "it: spec.priority: must be an integer of 32 bits, got -2147483649");
  CHECK(WorkloadError(R"({"podSets":[{"count":4294967297}]})") ==
        "it: spec.podSets[0].count: must be an integer of 32 bits, got 4294967297");
  CHECK(WorkloadError(R"({"podSets":[{"count":1},{"count":-1}]})") ==
        "it: spec.podSets[1].count: must be a number from 0 up, got -1");
  CHECK(WorkloadError(R"({"podSets":[{"count":1,"minCount":-5}]})") ==
        "it: spec.podSets[0].minCount: must be a number from 0 up, got -5");
  CHECK(WorkloadError("{}", R"({"reclaimablePods":[{"name":"main","count":9999999999}]})") ==
        "it: status.reclaimablePods[0].count: must be an integer of 32 bits, got 9999999999");
  const auto admission = [](k8s::JsonValue root) { DecodeAdmission(root["admission"]); };
  CHECK(ErrorOf(R"({"admission":{"podSetAssignments":[{"count":-2}]}})", admission) ==
        "it: admission.podSetAssignments[0].count: must be a number from 0 up, got -2");
}

TEST_CASE("a number of a Job that is out of range is refused with the Job, field and value") {
  CHECK(JobError(R"({"parallelism":2147483648})") ==
        "Job n/j: spec.parallelism: must be an integer of 32 bits, got 2147483648");
  CHECK(JobError(R"({"parallelism":-1})") == "Job n/j: spec.parallelism: must be a number from 0 up, got -1");
  CHECK(JobError(R"({"completions":-1})") == "Job n/j: spec.completions: must be a number from 0 up, got -1");
  for (const char* field : {"active", "ready", "succeeded", "terminating"}) {
    CHECK(JobError("{}", std::string(R"({")") + field + R"(":-7})") ==
          std::string("Job n/j: status.") + field + ": must be a number from 0 up, got -7");
  }
}

TEST_CASE("a priority class above 32 bits is refused, not cut") {
  const auto over = DecodePriorityClass(R"({"metadata":{"name":"p"},"value":4294967296})");
  CHECK(over.status().message() == "priority class p: value: must be an integer of 32 bits, got 4294967296");
  const auto most = DecodePriorityClass(R"({"metadata":{"name":"p"},"value":2147483647})");
  REQUIRE(most.ok());
  CHECK(most->value == INT32_MAX);
}

TEST_CASE("a flavor is autoscaled where its annotation says true") {
  const auto autoscaled = [](const std::string& annotations) {
    JsonDocument document(R"({"metadata":{"name":"f","annotations":)" + annotations + "}}");
    return DecodeResourceFlavor(document.root()).autoscaled;
  };
  CHECK(autoscaled(R"({"muster.dev/autoscaled":"true"})"));
  CHECK_FALSE(autoscaled(R"({"muster.dev/autoscaled":"no"})"));
  CHECK_FALSE(autoscaled("{}"));
}

// user_pains J3; component-helpers' PodRequests has the same rules.
TEST_CASE("a pod that is resized in place takes the greater of what it asks for and what it has") {
  const auto cpu_of = [](const std::string& asked, const std::string& status) {
    JsonDocument document(
        R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"other","resources":{"requests":{"cpu":"1"}}},)"
        R"({"name":"main","resources":{"requests":{"cpu":")" +
        asked + R"("}}}]},"status":)" + status + "}");
    const auto requests = DecodePodRequests(document.root());
    REQUIRE(document.Finish("pod").ok());
    return requests.at("cpu").value;
  };
  const std::string has = R"({"name":"main","resources":{"requests":{"cpu":"2"}},"allocatedResources":{"cpu":"2"}})";
  const std::string statuses = R"({"containerStatuses":[)" + has + "]";
  CHECK(cpu_of("2", "{}") == 3000);
  CHECK(cpu_of("4", statuses + "}") == 5000);  // it is to have more
  CHECK(cpu_of("1", statuses + "}") == 3000);  // it has more yet
  // What its node can never give is not taken.
  CHECK(cpu_of("64",
               statuses + R"(,"conditions":[{"type":"PodResizePending","status":"True","reason":"Infeasible"}]})") ==
        3000);
  CHECK(
      cpu_of("64", statuses + R"(,"conditions":[{"type":"PodResizePending","status":"True","reason":"Deferred"}]})") ==
      65000);
  CHECK(cpu_of("4", R"({"containerStatuses":[{"name":"main"}]})") == 5000);
}

// user_pains D9
TEST_CASE("of a ResourceQuota what the API server enforces is read, with its scopes") {
  const auto quota = DecodeResourceQuota(
      R"({"metadata":{"name":"q","namespace":"n"},"spec":{"hard":{"requests.cpu":"4","limits.cpu":"8","pods":"10",
      "requests.nvidia.com/gpu":"2","services":"1"},"scopes":["NotBestEffort","VolumeAttributesClass"],"scopeSelector":{
      "matchExpressions":[{"scopeName":"PriorityClass","operator":"NotIn","values":["low"]}]}},"status":{"hard":{
      "requests.cpu":"6","limits.cpu":"7500m","pods":"10","requests.memory":"1Gi"},"used":{"requests.cpu":"1500m",
      "pods":"3"}}})");
  REQUIRE(quota.ok());
  // Raised and not yet enforced; lowered, which may be enforced at any time; new, and not enforced; no longer limited.
  CHECK(quota->quota.limits == std::vector<engine::NamespaceQuotaLimit>{
                                   {"limits.cpu", {7500}, {0}}, {"pods", {10}, {3}}, {"requests.cpu", {4000}, {1500}}});
  using Kind = gang::QuotaScopeKind;
  REQUIRE(quota->quota.scopes.size() == 3);
  CHECK(quota->quota.scopes[0].kind == Kind::kNotBestEffort);
  CHECK(quota->quota.scopes[1].kind == Kind::kOfNoPod);
  CHECK(quota->quota.scopes[2].kind == Kind::kPriorityClass);
  CHECK(quota->quota.scopes[2].priority_classes.op == Requirement::Operator::kNotIn);
  CHECK(quota->quota.scopes[2].priority_classes.values == std::vector<std::string>{"low"});
  CHECK_FALSE(DecodeResourceQuota(R"({"metadata":{"name":"q"},"spec":{"hard":{"pods":"few"}},
      "status":{"hard":{"pods":"10"}}})")
                  .ok());
}

TEST_CASE("pod affinity that reaches other namespaces is seen, and a deadline") {
  const auto pod_of = [](const std::string& spec) {
    JsonDocument document(R"({"spec":)" + spec + "}");
    const PodTemplate pod = DecodePodTemplate(document.root());
    REQUIRE(document.Finish("pod").ok());
    return pod;
  };
  CHECK_FALSE(pod_of("{}").active_deadline);
  CHECK(pod_of(R"({"activeDeadlineSeconds":5})").active_deadline);
  CHECK_FALSE(pod_of(R"({"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
      {"topologyKey":"z"}]}}})")
                  .cross_namespace_affinity);
  CHECK(pod_of(R"({"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
      {"topologyKey":"z","namespaces":["n"]}]}}})")
            .cross_namespace_affinity);
  CHECK(pod_of(R"({"affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[
      {"weight":1,"podAffinityTerm":{"topologyKey":"z","namespaceSelector":{}}}]}}})")
            .cross_namespace_affinity);
}

TEST_CASE("a quota below zero is refused in every field") {
  CHECK(QueueError(QuotaSpec(R"("nominalQuota":"-1")")) ==
        "it: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: must not be negative, got -1");
  CHECK(QueueError(QuotaSpec(R"("nominalQuota":1,"borrowingLimit":"-500m")")) ==
        "it: spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit: must not be negative, got -500m");
  CHECK(QueueError(QuotaSpec(R"("nominalQuota":1,"lendingLimit":-3)")) ==
        "it: spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: must not be negative, got -3");
  CHECK(QueueError(QuotaSpec(R"("nominalQuota":0,"borrowingLimit":0,"lendingLimit":0)")).empty());
  CHECK(QueueError(R"({"preemption":{"borrowWithinCohort":{"maxPriorityThreshold":3000000000}}})") ==
        "it: spec.preemption.borrowWithinCohort.maxPriorityThreshold: must be an integer of 32 bits, got 3000000000");
}

}  // namespace
}  // namespace muster::controller
