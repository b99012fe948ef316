// One object, two versions: what is written in either reads right in the other, what would be lost silently is refused,
// and no field of a status is dropped.

#include <catch2/catch.hpp>

#include "fixture/text.h"
#include "world.h"

namespace muster::config_test {
namespace {

using Catch::Contains;
using cluster::Cat;

std::string Queue(std::string_view version, const std::string& name, const std::string& spec,
                  const std::string& metadata = "") {
  return Cat("{apiVersion: kueue.x-k8s.io/", version, ", kind: ClusterQueue, metadata: {name: ", name, metadata,
             "}, spec: {", spec, "}}");
}

// The twins of a stored ClusterQueue, in one line: "cohort|cohortName|admissionChecks|admissionChecksStrategy".
std::string Twins(const Json& object) {
  const Json spec = object["spec"];
  const auto show = [](const Json& value) { return value.IsNull() ? std::string("-") : value.Dump(); };
  return Cat(spec["cohort"].Str("-"), "|", spec["cohortName"].Str("-"), "|", show(spec["admissionChecks"]), "|",
             show(spec["admissionChecksStrategy"]["admissionChecks"]));
}

// A ClusterQueue that lives for one test case.
class Stored {
 public:
  Stored(std::string name, std::string_view version, const std::string& spec) : name_(std::move(name)) {
    const ApiResponse response = Create(Shared().admin(), Kueue(version, "clusterqueues"), Queue(version, name_, spec));
    INFO(response.text);
    REQUIRE(response.status == 201);
  }
  ~Stored() { Shared().admin().Delete(Path(kV2)); }
  Stored(const Stored&) = delete;
  Stored& operator=(const Stored&) = delete;

  std::string Path(std::string_view version) const { return Cat(Kueue(version, "clusterqueues"), "/", name_); }
  std::string Patched(std::string_view version, const std::string& spec) {
    return Result(Patch(Shared().admin(), Path(version), Cat(R"({"spec": )", spec, "}")));
  }
  std::string Replaced(std::string_view version, const std::string& spec) {
    const std::string revision = Shared().admin().Get(Path(version)).json.At("metadata/resourceVersion").Str();
    return Result(Replace(Shared().admin(), Path(version),
                          Queue(version, name_, spec, Cat(", resourceVersion: '", revision, "'"))));
  }
  std::string Applied(std::string_view version, const std::string& manager, const std::string& spec) {
    return Result(ServerSideApply(Shared().admin(), Path(version), Queue(version, name_, spec), manager));
  }
  // As both versions show it.
  std::string Now() {
    const std::string v1 = Twins(Shared().admin().Get(Path(kV1)).json);
    CHECK(v1 == Twins(Shared().admin().Get(Path(kV2)).json));
    return v1;
  }

 private:
  static std::string Result(const ApiResponse& response) {
    return response.ok() ? Twins(response.json) : Refusal(response);
  }
  std::string name_;
};

TEST_CASE("a cohort written in one version reads in the other") {
  CHECK(Stored("one", kV1, "cohort: a").Now() == "a|a|-|-");
  CHECK(Stored("two", kV2, "cohortName: a").Now() == "a|a|-|-");
  CHECK(Stored("none", kV2, "").Now() == "-|-|-|-");
  Stored queue("moves", kV1, "cohort: a");
  CHECK(queue.Patched(kV2, R"({"cohortName": "b"})") == "b|b|-|-");
  CHECK(queue.Patched(kV1, R"({"cohort": "c"})") == "c|c|-|-");
  CHECK(queue.Patched(kV1, R"({"cohort": null})") == "-|-|-|-");
  CHECK(queue.Patched(kV1, R"({"cohort": "d"})") == "d|d|-|-");
  CHECK(queue.Patched(kV2, R"({"cohortName": null})") == "-|-|-|-");
}

TEST_CASE("a client that knows one name only does not lose or revive the other") {
  Stored queue("typed", kV2, "cohortName: a");
  CHECK(queue.Replaced(kV1, "cohort: b") == "b|b|-|-");
  CHECK(queue.Replaced(kV2, "cohortName: c") == "c|c|-|-");
  // It read both and changed the one it knows.
  CHECK(queue.Replaced(kV2, "cohort: c, cohortName: d") == "d|d|-|-");
  CHECK(queue.Replaced(kV1, "cohort: e, cohortName: d") == "e|e|-|-");
  CHECK(queue.Replaced(kV2, "cohort: e, cohortName: e, stopPolicy: Hold") == "e|e|-|-");
  CHECK(queue.Replaced(kV1, "") == "-|-|-|-");
}

TEST_CASE("the other version's name is refused rather than dropped") {
  World& world = Shared();
  const auto create = [&](std::string_view version, const char* spec) {
    return Refusal(Create(world.admin(), Kueue(version, "clusterqueues"), Queue(version, "wrong", spec), "dryRun=All"));
  };
  CHECK_THAT(
      create(kV2, "cohort: a"),
      Contains("spec.cohort: \"a\" is the v1beta1 name of spec.cohortName; in v1beta2 write spec.cohortName alone"));
  CHECK_THAT(create(kV1, "cohortName: a"),
             Contains("spec.cohortName: \"a\" is the v1beta2 name of spec.cohort; in v1beta1 write spec.cohort"));
  CHECK_THAT(create(kV2, "cohort: a, cohortName: b"),
             Contains("spec.cohort: \"a\" is the v1beta1 name of spec.cohortName, which is \"b\""));
  CHECK_THAT(create(kV1, "cohort: a, cohortName: b"),
             Contains("spec.cohortName: \"b\" is the v1beta2 name of spec.cohort, which is \"a\""));
  // As written by a backup: both, and the same.
  CHECK_THAT(create(kV2, "cohort: a, cohortName: a"), Contains("accepted"));
  CHECK_THAT(
      create(kV2, "admissionChecks: [c]"),
      Contains("spec.admissionChecks: [c] is a v1beta1 field; in v1beta2 write spec.admissionChecksStrategy alone"));
  CHECK_THAT(
      create(kV1, "admissionChecks: [c], admissionChecksStrategy: {admissionChecks: [{name: d}]}"),
      Contains("spec.admissionChecks: [c] cannot be set beside spec.admissionChecksStrategy, [d]; write one of them"));

  Stored queue("kept", kV2, "cohortName: a");
  CHECK_THAT(queue.Patched(kV2, R"({"cohort": "b"})"), Contains("spec.cohort: \"b\""));
  CHECK_THAT(queue.Patched(kV1, R"({"cohortName": "b"})"), Contains("spec.cohortName: \"b\""));
  CHECK(queue.Now() == "a|a|-|-");
}

TEST_CASE("checks by name and checks by strategy are kept in step") {
  const std::string both = R"(|["c","d"]|[{"name":"c"},{"name":"d"}])";
  CHECK(Stored("names", kV1, "admissionChecks: [c, d]").Now() == "-|-" + both);
  // Only what a client wrote is there: a strategy does not bring names along.
  CHECK(Stored("strategy", kV2, "admissionChecksStrategy: {admissionChecks: [{name: c}]}").Now() ==
        R"(-|-|-|[{"name":"c"}])");
  CHECK(Stored("strategy-1", kV1, "admissionChecksStrategy: {admissionChecks: [{name: c}]}").Now() ==
        R"(-|-|-|[{"name":"c"}])");
  CHECK(Stored("empty", kV1, "admissionChecksStrategy: {}").Now() == "-|-|-|-");

  Stored queue("changes", kV1, "admissionChecks: [c, d]");
  CHECK(queue.Patched(kV1, R"({"admissionChecks": ["c"]})") == R"(-|-|["c"]|[{"name":"c"}])");
  CHECK(queue.Patched(kV2, R"({"admissionChecksStrategy": {"admissionChecks": [{"name": "e"}]}})") ==
        R"(-|-|["e"]|[{"name":"e"}])");
  // A v1beta2 client that does not know the names leaves them out.
  CHECK(queue.Replaced(kV2, "admissionChecksStrategy: {admissionChecks: [{name: e}]}, stopPolicy: Hold") ==
        R"(-|-|["e"]|[{"name":"e"}])");
  // For some flavors only: that has no form in names.
  CHECK(queue.Patched(kV2, R"({"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources":
        [{"name": "cpu", "nominalQuota": 1}]}]}], "admissionChecksStrategy": {"admissionChecks": [{"name": "e", "onFlavors":
        ["f"]}]}})") == R"(-|-|-|[{"name":"e","onFlavors":["f"]}])");
  CHECK_THAT(queue.Patched(kV1, R"({"admissionChecks": ["x"]})"), Contains("cannot be set beside"));
  CHECK(queue.Patched(kV1, R"({"stopPolicy": "None"})") == R"(-|-|-|[{"name":"e","onFlavors":["f"]}])");
}

// A check that was removed must not stay in force under the other name.
TEST_CASE("a removed check is gone in both versions, however it is removed") {
  const std::string names = "admissionChecks: [c]";
  {
    Stored queue("by-patch", kV1, names);
    CHECK(queue.Patched(kV1, R"({"admissionChecks": null})") == "-|-|-|-");
  }
  {
    Stored queue("by-put", kV1, names);
    CHECK(queue.Replaced(kV1, "") == "-|-|-|-");
  }
  {
    Stored queue("by-v2", kV1, names);
    CHECK(queue.Patched(kV2, R"({"admissionChecksStrategy": null})") == "-|-|-|-");
  }
  {
    Stored queue("by-v2-put", kV1, names);
    CHECK(queue.Replaced(kV2, "") == "-|-|-|-");
  }
}

TEST_CASE("server-side apply owns what it wrote, and takes it away again") {
  {
    Stored queue("applied", kV2, "");
    CHECK(queue.Applied(kV1, "gitops", "cohort: a, admissionChecks: [c]") == R"(a|a|["c"]|[{"name":"c"}])");
    CHECK(queue.Applied(kV1, "gitops", "cohort: a, admissionChecks: [c]") == R"(a|a|["c"]|[{"name":"c"}])");
    CHECK(queue.Applied(kV1, "gitops", "cohort: b") == "b|b|-|-");
    CHECK(queue.Applied(kV1, "gitops", "") == "-|-|-|-");
  }
  {
    Stored queue("applied-2", kV2, "");
    CHECK(queue.Applied(kV2, "gitops", "cohortName: a") == "a|a|-|-");
    // The same manager goes on in the other version.
    CHECK(queue.Applied(kV1, "gitops", "cohort: b") == "b|b|-|-");
    CHECK(queue.Applied(kV2, "gitops", "cohortName: c") == "c|c|-|-");
    CHECK(queue.Applied(kV2, "gitops", "") == "-|-|-|-");
  }
}

TEST_CASE("v1beta1's words for fungibility are stored as v1beta2's") {
  World& world = Shared();
  Stored queue("words", kV1, "flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: Preempt}");
  for (const std::string_view version : {kV1, kV2}) {
    const Json spec = world.admin().Get(queue.Path(version)).json["spec"];
    CHECK(spec.At("flavorFungibility/whenCanBorrow").Str() == "MayStopSearch");
    CHECK(spec.At("flavorFungibility/whenCanPreempt").Str() == "MayStopSearch");
  }
  // Half of it, with the default for the rest.
  Stored half("half", kV1, "flavorFungibility: {whenCanPreempt: Preempt}");
  const Json spec = world.admin().Get(half.Path(kV2)).json["spec"];
  CHECK(spec.At("flavorFungibility/whenCanBorrow").Str() == "MayStopSearch");
  CHECK(spec.At("flavorFungibility/whenCanPreempt").Str() == "MayStopSearch");
}

TEST_CASE("kubectl apply of a v1beta1 manifest is stable, and follows the manifest") {
  World& world = Shared();
  const auto apply = [&](const std::string& spec) {
    absl::StatusOr<cluster::Output> output =
        world.cluster->Kubectl({"apply", "--validate=strict", "-f", "-"}, Queue(kV1, "manifest", spec));
    REQUIRE(output.ok());
    INFO(output->err);
    REQUIRE(output->exit_code == 0);
    return output->out;
  };
  CHECK_THAT(apply("cohort: a, admissionChecks: [c]"), Contains("created"));
  CHECK_THAT(apply("cohort: a, admissionChecks: [c]"), Contains("unchanged"));
  const auto now = [&] { return Twins(world.admin().Get(Kueue(kV2, "clusterqueues/manifest")).json); };
  CHECK(now() == R"(a|a|["c"]|[{"name":"c"}])");
  apply("cohort: b");
  CHECK(now() == "b|b|-|-");
  apply("");
  CHECK(now() == "-|-|-|-");
}

// ---- every other kind: the same object, read in both versions

// user_pains G3
TEST_CASE("each kind written in either version reads the same in the other") {
  World& world = Shared();
  struct Sample {
    const char* kind;
    const char* resource;
    const char* ns;
    const char* body;
    const char* field;  // of the object, to look at
    const char* value;
  };
  const Sample samples[] = {
      {"ResourceFlavor", "resourceflavors", "", "spec: {nodeLabels: {a: b}}", "spec/nodeLabels/a", "b"},
      {"Cohort", "cohorts", "", "spec: {parentName: top}", "spec/parentName", "top"},
      {"LocalQueue", "localqueues", "spare", "spec: {clusterQueue: q}", "spec/clusterQueue", "q"},
      {"WorkloadPriorityClass", "workloadpriorityclasses", "", "value: 3, description: some", "description", "some"},
      {"Workload", "workloads", "spare", "spec: {queueName: lq, podSets: [{template: {spec: {nodeName: node}}}]}",
       "spec/podSets/0/template/spec/nodeName", "node"},
  };
  for (const Sample& s : samples) {
    for (const auto& [from, to] : {std::pair(kV1, kV2), std::pair(kV2, kV1)}) {
      INFO(s.kind << " " << from << " to " << to);
      const ApiResponse created = Create(
          world.admin(), Kueue(from, s.resource, s.ns),
          Cat("{apiVersion: kueue.x-k8s.io/", from, ", kind: ", s.kind, ", metadata: {name: both}, ", s.body, "}"));
      INFO(created.text);
      REQUIRE(created.status == 201);
      const Json read = world.admin().Get(Kueue(to, Cat(s.resource, "/both"), s.ns)).json;
      CHECK(read.At(s.field).Str() == s.value);
      CHECK(read["spec"].Dump() == created.json["spec"].Dump());
      CHECK(world.admin().Delete(Kueue(kV2, Cat(s.resource, "/both"), s.ns)).ok());
    }
  }
}

// ---- status: everything that Kueue writes is kept as it was written

constexpr char kWorkloadStatus[] = R"({
  "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "Quota reserved in ClusterQueue q",
    "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 3}],
  "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": 2, "flavors": {"cpu": "f", "example.com/x": "g"},
    "resourceUsage": {"cpu": "2", "example.com/x": 4}, "delayedTopologyRequest": "Pending",
    "topologyAssignment": {"levels": ["rack", "kubernetes.io/hostname"], "slices": [{"domainCount": 2,
      "podCounts": {"individual": [1, 1]}, "valuesPerLevel": [{"universal": "r1"},
      {"individual": {"prefix": "node-", "suffix": "x", "roots": ["1", "2"]}}]}]}}]},
  "requeueState": {"count": 2, "requeueAt": "2026-01-01T00:00:00Z"},
  "reclaimablePods": [{"name": "main", "count": 1}],
  "admissionChecks": [{"name": "c", "state": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    "requeueAfterSeconds": 5, "retryCount": 1, "podSetUpdates": [{"name": "main", "labels": {"a": "b"}, "annotations": {"a": "b"},
    "nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute",
    "tolerationSeconds": 3}]}]}],
  "resourceRequests": [{"name": "main", "resources": {"cpu": "2"}}],
  "accumulatedPastExecutionTimeSeconds": 30,
  "schedulingStats": {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]},
  "nominatedClusterNames": ["w1", "w2"],
  "unhealthyNodes": [{"name": "n1"}],
  "preemptionGates": [{"name": "kueue.x-k8s.io/multikueue", "position": "Closed", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
})";

constexpr char kQueueStatus[] = R"({
  "conditions": [{"type": "Active", "status": "True", "reason": "Ready", "message": "Can admit new workloads",
    "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}],
  "pendingWorkloads": 1, "reservingWorkloads": 2, "admittedWorkloads": 3,
  "flavorsReservation": [{"name": "f", "resources": [{"name": "cpu", "total": "3", "borrowed": "1"}]}],
  "flavorsUsage": [{"name": "f", "resources": [{"name": "cpu", "total": "3", "borrowed": "1"}]}],
  "fairSharing": {"weightedShare": 7}
})";

constexpr char kLocalQueueStatus[] = R"({
  "conditions": [{"type": "Active", "status": "True", "reason": "Ready", "message": "Can submit new workloads to localQueue",
    "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}],
  "pendingWorkloads": 1, "reservingWorkloads": 2, "admittedWorkloads": 3,
  "flavorsReservation": [{"name": "f", "resources": [{"name": "cpu", "total": "3"}]}],
  "flavorsUsage": [{"name": "f", "resources": [{"name": "cpu", "total": "3"}]}],
  "fairSharing": {"weightedShare": 7, "admissionFairSharingStatus": {"consumedResources": {"cpu": "12"},
    "lastUpdate": "2026-01-01T00:00:00Z"}}
})";

// Members of `wanted`, at any depth, that `found` lacks or has otherwise.
void Compare(const Json& wanted, const Json& found, const std::string& path) {
  INFO(path);
  if (!wanted.Members().empty()) {
    for (const auto& [key, value] : wanted.Members()) Compare(value, found[key], Cat(path, ".", key));
    CHECK(found.Members().size() == wanted.Members().size());
  } else if (!wanted.Items().empty()) {
    REQUIRE(found.Items().size() == wanted.Items().size());
    for (size_t i = 0; i < wanted.Items().size(); ++i)
      Compare(wanted.Items()[i], found.Items()[i], Cat(path, "[", i, "]"));
  } else {
    CHECK(found.Dump() == wanted.Dump());
  }
}

// A client with v1beta1's types: it sends the fields it knows, and nothing else.
constexpr char kWorkloadStatusOfV1[] = R"({
  "conditions": [{"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota", "message": "seen",
    "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 3}],
  "admission": {"clusterQueue": "q", "podSetAssignments": [
    {"name": "other", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}},
    {"name": "main", "count": 2, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "2"},
     "topologyAssignment": {"levels": ["rack"], "domains": [{"values": ["r1"], "count": 2}]}}]}
})";
constexpr char kTopologyStatus[] = R"({
  "admission": {"clusterQueue": "q", "podSetAssignments": [
    {"name": "main", "count": 2, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "2"},
     "topologyAssignment": {"levels": ["rack"], "slices": [{"domainCount": 1, "podCounts": {"universal": 2},
       "valuesPerLevel": [{"universal": "r1"}]}]}},
    {"name": "other", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}}]},
  "accumulatedPastExecutionTimeSeconds": 30, "accumulatedPastExexcutionTimeSeconds": 30,
  "preemptionGates": [{"name": "kueue.x-k8s.io/multikueue", "position": "Closed", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
})";

// user_pains G3
TEST_CASE("a v1beta1 client that replaces a Workload's status takes nothing away that it does not know") {
  World& world = Shared();
  const std::string v1 = Kueue(kV1, "workloads/replaced", "spare");
  REQUIRE(Create(*world.muster, Kueue(kV2, "workloads", "spare"),
                 "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: replaced}, spec: {podSets: "
                 "[{name: main, count: 2, template: {}}, {name: other, count: 1, template: {}}]}}")
              .status == 201);
  const auto reset = [&] {
    const ApiResponse written = world.muster->MergePatch(Cat(Kueue(kV2, "workloads/replaced", "spare"), "/status"),
                                                         Cat(R"({"status": )", kTopologyStatus, "}"));
    INFO(written.text);
    REQUIRE(written.ok());
  };
  // As a typed client does: what it does not know, the server does not get, and what the server does not know is
  // dropped.
  const auto put = [&](const std::string& status) {
    const Json now = world.admin().Get(v1).json;
    const ApiResponse answer = world.admin().Call(
        "PUT", Cat(v1, "/status"),
        Cat(R"({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": )", now["metadata"].Dump(),
            R"(, "spec": )", now["spec"].Dump(), R"(, "status": )", status, "}"),
        "application/json");
    INFO(answer.text);
    REQUIRE(answer.ok());
    return world.admin().Get(Kueue(kV2, "workloads/replaced", "spare")).json["status"];
  };
  const absl::StatusOr<Json> parsed = Json::Parse(kTopologyStatus);
  REQUIRE(parsed.ok());
  const Json wanted = *parsed;
  REQUIRE(cluster::Eventually([&] {
    reset();
    return !put("{}")["preemptionGates"].IsNull();  // the policy is known by now
  }));
  reset();
  Json status = put(kWorkloadStatusOfV1);
  CHECK(status.At("conditions/0/message").Str() == "seen");
  Compare(wanted["preemptionGates"], status["preemptionGates"], "status.preemptionGates");
  Compare(wanted.At("admission/podSetAssignments/0/topologyAssignment"),
          status.At("admission/podSetAssignments/1/topologyAssignment"), "topologyAssignment");
  CHECK(status.At("admission/podSetAssignments/0/topologyAssignment").IsNull());
  // It knows the execution time under another name, and left that out: it is gone, under both.
  CHECK(status["accumulatedPastExecutionTimeSeconds"].IsNull());
  reset();
  status = put(R"({"accumulatedPastExexcutionTimeSeconds": 45})");
  CHECK(status["accumulatedPastExecutionTimeSeconds"].Dump() == "45");
  CHECK(status["admission"].IsNull());  // that it knows, and took away
  // A time that only v1beta2's name has stays.
  reset();
  REQUIRE(world.admin()
              .MergePatch(Cat(Kueue(kV2, "workloads/replaced", "spare"), "/status"),
                          R"({"status": {"accumulatedPastExexcutionTimeSeconds": null}})")
              .ok());
  CHECK(put("{}")["accumulatedPastExecutionTimeSeconds"].Dump() == "30");
  Compare(wanted["preemptionGates"], put("{}")["preemptionGates"], "status.preemptionGates");
  // In its own version a client can take away what it likes.
  const ApiResponse cleared = world.admin().MergePatch(Cat(Kueue(kV2, "workloads/replaced", "spare"), "/status"),
                                                       R"({"status": {"preemptionGates": null}})");
  REQUIRE(cleared.ok());
  CHECK(cleared.json.At("status/preemptionGates").IsNull());
}

TEST_CASE("a v1beta1 client that replaces a Workload does not take its preemption gates away") {
  World& world = Shared();
  const std::string v1 = Kueue(kV1, "workloads/gated", "spare");
  const std::string v2 = Kueue(kV2, "workloads/gated", "spare");
  REQUIRE(Create(world.admin(), Kueue(kV2, "workloads", "spare"),
                 "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: gated}, spec: {podSets: "
                 "[{name: main, count: 2, template: {}}], preemptionGates: [{name: a.example/b}, {name: c}]}}")
              .status == 201);
  const std::string gates = world.admin().Get(v2).json.At("spec/preemptionGates").Dump();
  REQUIRE(gates == R"([{"name":"a.example/b"},{"name":"c"}])");
  REQUIRE(cluster::Eventually([&] {
    REQUIRE(world.admin().MergePatch(v2, Cat(R"({"spec": {"preemptionGates": )", gates, "}}")).ok());
    const Json now = world.admin().Get(v1).json;
    const ApiResponse answer = world.admin().Call(
        "PUT", v1,
        Cat(R"({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": )", now["metadata"].Dump(),
            R"(, "spec": {"priority": 7, "podSets": )", now.At("spec/podSets").Dump(), "}}"),
        "application/json");
    INFO(answer.text);
    REQUIRE(answer.ok());
    const Json spec = world.admin().Get(v2).json["spec"];
    CHECK(spec["priority"].Dump() == "7");
    return spec["preemptionGates"].Dump() == gates;  // else the policy is not known yet
  }));
  // What it does name is its own choice; and in its own version a client can take away what it likes.
  REQUIRE(world.admin().MergePatch(v1, R"({"spec": {"preemptionGates": [{"name": "c"}]}})").ok());
  CHECK(world.admin().Get(v2).json.At("spec/preemptionGates").Dump() == R"([{"name":"c"}])");
  REQUIRE(world.admin().MergePatch(v2, R"({"spec": {"preemptionGates": null}})").ok());
  CHECK(world.admin().Get(v2).json.At("spec/preemptionGates").IsNull());
}

TEST_CASE("no field of a status is lost in either version, and Muster may write those it has to") {
  World& world = Shared();
  const std::string workload =
      "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: full}, spec: {podSets: "
      "[{count: 2, template: {}}]}}";
  REQUIRE(Create(*world.muster, Kueue(kV2, "workloads", "spare"), workload).status == 201);
  REQUIRE(
      Create(
          world.admin(), Kueue(kV2, "localqueues", "spare"),
          "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: full}, spec: {clusterQueue: full}}")
          .status == 201);
  Stored queue("full", kV2, "");
  REQUIRE(Create(world.admin(), Kueue(kV2, "cohorts"),
                 "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: full}, spec: {}}")
              .status == 201);
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"workloads/full", "spare", kWorkloadStatus},
      {"clusterqueues/full", "", kQueueStatus},
      {"localqueues/full", "spare", kLocalQueueStatus},
      {"cohorts/full", "", R"({"fairSharing": {"weightedShare": 9}})"},
  };
  for (const auto& [resource, ns, text] : cases) {
    INFO(resource);
    // A Cohort's status is only for fair sharing.
    ApiClient& writer = std::string_view(resource) == "cohorts/full" ? world.admin() : *world.muster;
    const ApiResponse written = writer.MergePatch(Cat(Kueue(kV2, resource, ns), "/status?fieldValidation=Strict"),
                                                  Cat(R"({"status": )", text, "}"));
    INFO(written.text);
    REQUIRE(written.ok());
    const absl::StatusOr<Json> wanted = Json::Parse(text);
    REQUIRE(wanted.ok());
    for (const std::string_view version : {kV1, kV2}) {
      Compare(*wanted, world.admin().Get(Kueue(version, resource, ns)).json["status"], "status");
    }
  }
}

}  // namespace
}  // namespace muster::config_test
