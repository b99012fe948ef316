// Workloads without a Job: they queue by their own spec, their status holds the record (kueue_semantics 0.3, 0.4, 5.4;
// record.md).
#include <catch2/catch.hpp>

#include "drills.h"
#include "each_write.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Fault;
using sim::FaultRule;
using sim::Json;
using sim::Text;

Json LoneWorkload(const std::string& name, int pods, const std::string& queue = "lq") {
  Json workload = Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload",
    "metadata":{"namespace":"team"},"spec":{"active":true,"podSets":[{"name":"main",
    "template":{"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]}}}]}})");
  workload["metadata"]["name"] = name;
  workload["spec"]["queueName"] = queue;
  workload["spec"]["podSets"][0]["count"] = pods;
  return workload;
}

Json Of(const World& world, const std::string& name) { return world.Get("workloads", "team", name); }

// "Status/Reason: message"
std::string ConditionOf(const World& world, const std::string& name, const std::string& type) {
  const Json workload = Of(world, name);
  const Json& condition = sim::FindCondition(At(workload, "status", "conditions"), type);
  if (condition.is_null()) return "";
  return Text(sim::Get(condition, "status")) + "/" + Text(sim::Get(condition, "reason")) + ": " +
         Text(sim::Get(condition, "message"));
}

bool Admitted(const World& world, const std::string& name) { return sim::HasCondition(Of(world, name), "Admitted"); }

// Somebody whose work it was says that it is over.
void Finish(World& world, const std::string& name) {
  Json conditions = At(Of(world, name), "status", "conditions");
  conditions.push_back({{"type", "Finished"},
                        {"status", "True"},
                        {"reason", "Succeeded"},
                        {"message", "done"},
                        {"lastTransitionTime", "2026-01-01T00:00:00Z"}});
  world.Patch("workloads", "team", name, {{"status", {{"conditions", conditions}}}}, "status");
}

std::set<std::string> EventReasons(const World& world, const std::string& name) {
  std::set<std::string> out;
  for (const Json& event : world.List("events", "team")) {
    if (Text(At(event, "regarding", "name")) == name) out.insert(Text(sim::Get(event, "reason")));
  }
  return out;
}

// What all Workloads that are admitted at once ask for, by what the API server has stored at any moment.
class Auditor {
 public:
  Auditor(World* world, int64_t cpus) : cpus_(cpus) {
    world->store.Subscribe([this](const sim::Change& change) {
      if (change.kind->plural != "workloads") return;
      const std::string name = Text(At(*change.object, "metadata", "name"));
      held_.erase(name);
      const bool holds = change.type != sim::Change::Type::kDeleted &&
                         sim::HasCondition(*change.object, "QuotaReserved") &&
                         !sim::HasCondition(*change.object, "Finished");
      if (holds) held_[name] = sim::Number(At(*change.object, "spec", "podSets")[0]["count"]);
      int64_t sum = 0;
      for (const auto& [workload, pods] : held_) sum += pods;
      REQUIRE(sum <= cpus_);
    });
  }

 private:
  int64_t cpus_;
  std::map<std::string, int64_t> held_;
};

TEST_CASE("A Workload without a Job is admitted by its status, and names its claim") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  world.RunFor(std::chrono::seconds(5));
  const size_t before = world.server.writes().size();
  world.Create(LoneWorkload("lone", 3));
  REQUIRE(world.RunUntil([&] { return Admitted(world, "lone"); }, std::chrono::seconds(1)));
  CHECK(ConditionOf(world, "lone", "QuotaReserved") == "True/QuotaReserved: Quota reserved in ClusterQueue cq");
  CHECK(ConditionOf(world, "lone", "Admitted") == "True/Admitted: The workload is admitted");
  CHECK(At(Of(world, "lone"), "status", "admission").dump() ==
        R"({"clusterQueue":"cq","podSetAssignments":[{"count":3,"flavors":{"cpu":"f"},"name":"main",)"
        R"("resourceUsage":{"cpu":"3"}}]})");
  CHECK(Text(At(Of(world, "lone"), "metadata", "labels", "muster.dev/record")) == "workload");
  CHECK_FALSE(Text(At(Of(world, "lone"), "metadata", "annotations", "muster.dev/claim")).empty());
  REQUIRE(world.RunUntil([&] { return Reserving(world) == 1; }));
  world.RunFor(std::chrono::seconds(10));
  // The claim, then the admission.
  const std::map<std::string, int> writes = world.Writes(before);
  CHECK(writes.at("patch workloads") == 1);
  CHECK(writes.at("patch workloads/status") == 1);
  CHECK(EventReasons(world, "lone") == std::set<std::string>{"QuotaReserved", "Admitted"});
  CHECK(muster.telemetry.admitted == 1);
  ComesToRest(world, muster);
}

TEST_CASE("A Workload without a Job holds its quota until it is finished or deleted") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  Auditor auditor(&world, 4);
  world.Create(LoneWorkload("lone", 3));
  REQUIRE(world.RunUntil([&] { return Admitted(world, "lone"); }));
  world.Create(LoneWorkload("next", 2));
  REQUIRE(world.RunUntil([&] { return !ConditionOf(world, "next", "QuotaReserved").empty(); }));
  CHECK(
      ConditionOf(world, "next", "QuotaReserved") ==
      "False/WaitingForQuota: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, "
      "1 more needed");
  CHECK(At(Of(world, "next"), "status", "resourceRequests").dump() == R"([{"name":"main","resources":{"cpu":"2"}}])");
  world.RunFor(std::chrono::minutes(5));
  CHECK_FALSE(Admitted(world, "next"));
  SECTION("finished") {
    Finish(world, "lone");
    REQUIRE(world.RunUntil([&] { return Admitted(world, "next"); }));
    CHECK(muster.telemetry.finished == 1);
  }
  SECTION("deleted") {
    world.Delete("workloads", "team", "lone");
    REQUIRE(world.RunUntil([&] { return Admitted(world, "next"); }));
  }
  ComesToRest(world, muster);
}

TEST_CASE("Workloads without a Job and Jobs share a queue") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.MakeJob("train", 3, 30);
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("train"), "Admitted"); }));
  world.Create(LoneWorkload("lone", 2));
  world.RunFor(std::chrono::seconds(10));
  CHECK_FALSE(Admitted(world, "lone"));
  REQUIRE(world.RunUntil([&] { return Admitted(world, "lone"); }));
  CHECK(world.Finished("train"));
  world.MakeJob("other", 3, 5);
  world.RunFor(std::chrono::seconds(30));
  CHECK_FALSE(world.Finished("other"));
  world.Delete("workloads", "team", "lone");
  REQUIRE(world.RunUntil([&] { return world.Finished("other"); }));
}

TEST_CASE("An evicted Workload without a Job is out at once, says so, and queues again") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  Auditor auditor(&world, 4);
  world.Create(LoneWorkload("lone", 3));
  REQUIRE(world.RunUntil([&] { return Admitted(world, "lone"); }));
  world.RunFor(std::chrono::seconds(20));
  SECTION("its ClusterQueue is drained") {
    world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
    REQUIRE(world.RunUntil([&] { return Reserving(world) == 0; }));
    CHECK(ConditionOf(world, "lone", "Evicted") == "True/ClusterQueueStopped: The ClusterQueue is stopped");
    CHECK(ConditionOf(world, "lone", "Requeued") == "False/ClusterQueueStopped: The ClusterQueue is stopped");
    CHECK(muster.telemetry.evicted["ClusterQueueStopped"] == 1);
    world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
  }
  SECTION("it is deactivated") {
    world.Patch("workloads", "team", "lone", {{"spec", {{"active", false}}}});
    REQUIRE(world.RunUntil([&] { return Reserving(world) == 0; }));
    CHECK(ConditionOf(world, "lone", "Evicted") == "True/Deactivated: The workload is deactivated");
    CHECK(EventReasons(world, "lone").contains("EvictedDueToDeactivated"));
    world.RunFor(std::chrono::seconds(30));
    CHECK_FALSE(Admitted(world, "lone"));
    world.Patch("workloads", "team", "lone", {{"spec", {{"active", true}}}});
  }
  CHECK(ConditionOf(world, "lone", "Admitted").starts_with("False/NoReservation"));
  CHECK(At(Of(world, "lone"), "status", "admission").is_null());
  CHECK(At(Of(world, "lone"), "status", "schedulingStats", "evictions")[0]["count"] == 1);
  CHECK(sim::Number(At(Of(world, "lone"), "status", "accumulatedPastExecutionTimeSeconds")) >= 20);
  REQUIRE(world.RunUntil([&] { return Admitted(world, "lone"); }));
  CHECK(ConditionOf(world, "lone", "Evicted").starts_with("False/QuotaReserved: Previously: "));
  ComesToRest(world, muster);
  CHECK(muster.telemetry.admitted == 2);
}

TEST_CASE("What a Workload shows as admitted counts after a restart, whoever admitted it") {
  World world;
  Process& first = world.Start();
  world.MakeQueues("4");
  Auditor auditor(&world, 4);
  world.Create(LoneWorkload("lone", 3));
  REQUIRE(world.RunUntil([&] { return Admitted(world, "lone"); }));
  const std::string claim = Text(At(Of(world, "lone"), "metadata", "annotations", "muster.dev/claim"));
  world.Kill(first);
  SECTION("as Muster left it") {}
  SECTION("as Kueue leaves it") {
    world.Patch("workloads", "team", "lone",
                {{"metadata",
                  {{"annotations", {{"muster.dev/claim", nullptr}}},
                   {"labels", {{"muster.dev/record", nullptr}}},
                   {"finalizers", {"kueue.x-k8s.io/resource-in-use"}}}}});
  }
  SECTION("under a claim that another names too") {
    Json other = LoneWorkload("other", 1);
    other["metadata"]["annotations"] = {{"muster.dev/claim", claim}};
    world.Create(other);
    world.Patch("workloads", "team", "other", {{"status", At(Of(world, "lone"), "status")}}, "status");
    Json admission = At(Of(world, "other"), "status", "admission");
    admission["podSetAssignments"][0]["count"] = 1;
    admission["podSetAssignments"][0]["resourceUsage"]["cpu"] = "1";
    world.Patch("workloads", "team", "other", {{"status", {{"admission", admission}}}}, "status");
  }
  world.Create(LoneWorkload("next", 2));
  Process& second = world.Start();
  world.RunFor(std::chrono::minutes(1));
  CHECK(Admitted(world, "lone"));
  CHECK_FALSE(Admitted(world, "next"));
  second.controller->engine()->Validate();
  world.Delete("workloads", "team", "lone");
  REQUIRE(world.RunUntil([&] { return Of(world, "lone").is_null() && Admitted(world, "next"); }));
}

TEST_CASE("A Workload of a kind that Muster does not know counts while it is admitted, and is not admitted anew") {
  World world;
  Process& first = world.Start();
  world.MakeQueues("4");
  world.Kill(first);
  const auto owned = [&world](const std::string& name) {
    Json workload = LoneWorkload(name, 3);
    workload["metadata"]["ownerReferences"] = Json::array({{{"apiVersion", "jobset.x-k8s.io/v1alpha2"},
                                                            {"kind", "JobSet"},
                                                            {"name", name},
                                                            {"uid", "uid-" + name},
                                                            {"controller", true}}});
    world.Create(workload);
  };
  owned("waits");
  owned("runs");
  world.Patch("workloads", "team", "runs", {{"status", Json::parse(R"({"admission":{"clusterQueue":"cq",
    "podSetAssignments":[{"name":"main","count":3,"flavors":{"cpu":"f"},"resourceUsage":{"cpu":"3"}}]},
    "conditions":[{"type":"QuotaReserved","status":"True","reason":"QuotaReserved","message":"m",
    "lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Admitted","status":"True","reason":"Admitted","message":"m",
    "lastTransitionTime":"2026-01-01T00:00:00Z"}]})")}},
              "status");
  const Json before = Of(world, "runs");
  world.Start();
  world.MakeJob("train", 2, 5);
  world.RunFor(std::chrono::minutes(1));
  CHECK_FALSE(world.Finished("train"));
  CHECK(Of(world, "runs") == before);
  CHECK(sim::Get(Of(world, "waits"), "status").is_null());
  world.Delete("workloads", "team", "runs");
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
  CHECK(Pending(world) == 0);
}

// Who is admitted ends, until all have.
void AllFinish(World& world, const std::vector<std::string>& names) {
  REQUIRE(world.RunUntil(
      [&] {
        size_t finished = 0;
        for (const std::string& name : names) {
          if (sim::HasCondition(Of(world, name), "Finished")) {
            ++finished;
          } else if (Admitted(world, name)) {
            Finish(world, name);
          }
        }
        return finished == names.size();
      },
      std::chrono::hours(1)));
}

TEST_CASE("Every write of an admission on a Workload may fail in every way") {
  FailEachWrite<Auditor>({{"patch", "workloads"}, {"patch", "workloads/status"}}, [](World& world, Process&, Auditor&) {
    for (const char* name : {"one", "two", "three"}) world.Create(LoneWorkload(name, 2));
    AllFinish(world, {"one", "two", "three"});
  });
}

TEST_CASE("A Muster that dies at any write of an admission on a Workload finds what it did") {
  DieAtEachWrite<Auditor>(12, [](World& world, Auditor&, const AwaitDeath& await_death) {
    for (const char* name : {"one", "two", "three"}) world.Create(LoneWorkload(name, 2));
    await_death(std::chrono::seconds(5), [] {});
    Process& second = world.Start();
    REQUIRE(world.RunUntil([&] { return Reserving(world) == 2; }));
    CHECK(Pending(world) == 1);
    ComesToRest(world, second);
    AllFinish(world, {"one", "two", "three"});
  });
}

TEST_CASE("A Workload that changes while it is admitted is decided on again") {
  World world;
  Auditor auditor(&world, 4);
  world.Start();
  world.MakeQueues("4");
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"patch"};
  rule.resource = "workloads/status";
  rule.fault.kind = Fault::Kind::kDelayRequest;
  rule.fault.delay = std::chrono::seconds(1);
  world.server.faults().Add(rule);
  world.Create(LoneWorkload("lone", 2));
  REQUIRE(world.RunUntil(
      [&] { return !Text(At(Of(world, "lone"), "metadata", "annotations", "muster.dev/claim")).empty(); }));
  Json pod_sets = At(Of(world, "lone"), "spec", "podSets");
  pod_sets[0]["count"] = 3;
  world.Patch("workloads", "team", "lone", {{"spec", {{"podSets", pod_sets}}}});
  REQUIRE(world.RunUntil([&] { return Admitted(world, "lone"); }));
  CHECK(At(Of(world, "lone"), "status", "admission", "podSetAssignments")[0]["count"] == 3);
}

TEST_CASE("Pods that are done give back what they held") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.Create(LoneWorkload("lone", 4));
  REQUIRE(world.RunUntil([&] { return Admitted(world, "lone"); }));
  world.Create(LoneWorkload("next", 3));
  world.RunFor(std::chrono::seconds(10));
  CHECK_FALSE(Admitted(world, "next"));
  world.Patch("workloads", "team", "lone",
              {{"status", {{"reclaimablePods", Json::array({{{"name", "main"}, {"count", 3}}})}}}}, "status");
  REQUIRE(world.RunUntil([&] { return Admitted(world, "next"); }));
}

TEST_CASE("A Workload that its Job let go says that its owner is gone") {
  World world;
  world.Start();
  world.MakeQueues("4");
  Json orphan = LoneWorkload("orphan", 1);
  orphan["metadata"]["labels"] = {{"kueue.x-k8s.io/job-uid", "uid-of-a-job-that-is-gone"}};
  world.Create(orphan);
  REQUIRE(world.RunUntil([&] {
    return ConditionOf(world, "orphan", "Finished") == "True/OwnerNotFound: The workload's owner no longer exists";
  }));
  CHECK_FALSE(Admitted(world, "orphan"));
}

// Of three pods, whose quota a process before this one reserved; a JobSet of the same name owns it.
void MakeReservedOfJobSet(World& world, const std::string& name) {
  Json workload = LoneWorkload(name, 3);
  workload["metadata"]["ownerReferences"] = Json::array({{{"apiVersion", "jobset.x-k8s.io/v1alpha2"},
                                                          {"kind", "JobSet"},
                                                          {"name", name},
                                                          {"uid", "uid-" + name},
                                                          {"controller", true}}});
  world.Create(workload);
  world.Patch("workloads", "team", name, {{"status", Json::parse(R"({"admission":{"clusterQueue":"cq",
    "podSetAssignments":[{"name":"main","count":3,"flavors":{"cpu":"f"},"resourceUsage":{"cpu":"3"}}]},
    "conditions":[{"type":"QuotaReserved","status":"True","reason":"QuotaReserved","message":"m",
    "lastTransitionTime":"2026-01-01T00:00:00Z"}]})")}},
              "status");
}

// Its owner has to give the quota back, and is asked to by the condition Evicted.
TEST_CASE("A Workload of another kind that was only reserved is evicted without being shown as admitted") {
  World world;
  Process& first = world.Start();
  world.MakeQueues("4");
  world.Kill(first);
  MakeReservedOfJobSet(world, "checks");
  world.Start();
  REQUIRE(world.RunUntil([&] { return Reserving(world) == 1; }));
  world.Patch("workloads", "team", "checks", {{"spec", {{"active", false}}}});
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(Of(world, "checks"), "Evicted"); }));
  world.RunFor(std::chrono::seconds(5));
  CHECK_FALSE(Admitted(world, "checks"));
  CHECK(ConditionOf(world, "checks", "QuotaReserved") == "True/QuotaReserved: m");
  CHECK(Reserving(world) == 1);
}

// kueue_semantics 7.4: a reservation is no eviction, and nobody has to stop anything for it.
TEST_CASE("The reservation of a Workload of another kind is taken back where its queue is stopped or goes") {
  World world;
  Process& first = world.Start();
  world.MakeQueues("4");
  world.Kill(first);
  MakeReservedOfJobSet(world, "reserved");
  Process& muster = world.Start();
  REQUIRE(world.RunUntil([&] { return Reserving(world) == 1; }));
  const auto [kind, policy] = GENERATE(table<std::string, std::string>({{"clusterqueues", "Hold"},
                                                                        {"clusterqueues", "HoldAndDrain"},
                                                                        {"localqueues", "Hold"},
                                                                        {"localqueues", "HoldAndDrain"}}));
  CAPTURE(kind, policy);
  const bool local = kind == "localqueues";
  world.Patch(kind, local ? "team" : "", local ? "lq" : "cq", {{"spec", {{"stopPolicy", policy}}}});
  REQUIRE(world.RunUntil([&] { return Reserving(world) == 0; }));
  CHECK(ConditionOf(world, "reserved", "QuotaReserved") ==
        (local ? "False/Suspended: LocalQueue lq is inactive" : "False/Suspended: ClusterQueue cq is inactive"));
  CHECK(sim::Get(sim::Get(Of(world, "reserved"), "status"), "admission").is_null());
  CHECK_FALSE(sim::HasCondition(Of(world, "reserved"), "Evicted"));
  CHECK(muster.telemetry.evicted.empty());
  world.RunFor(std::chrono::seconds(5));
  const Json after = Of(world, "reserved");
  world.RunFor(std::chrono::minutes(1));
  CHECK(Of(world, "reserved") == after);
}

// kueue_semantics 7.5; active again it has all of its time anew (docs/kueue-compatibility.md).
TEST_CASE("A Workload without a Job is out when its time is over, and inactive") {
  World world;
  Process* muster = &world.Start();
  world.MakeQueues("4");
  Json workload = LoneWorkload("lone", 3);
  workload["spec"]["maximumExecutionTimeSeconds"] = 60;
  world.Create(workload);
  REQUIRE(world.RunUntil([&] { return Admitted(world, "lone"); }));
  world.RunFor(std::chrono::seconds(20));
  SECTION("in one admission") {}
  SECTION("over a restart") {
    world.Kill(*muster);
    muster = &world.Start();
  }
  SECTION("over two admissions") {
    world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
    REQUIRE(world.RunUntil([&] { return !Admitted(world, "lone"); }));
    world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
    REQUIRE(world.RunUntil([&] { return Admitted(world, "lone"); }));
  }
  world.RunFor(std::chrono::seconds(36));
  CHECK(Admitted(world, "lone"));
  world.RunFor(std::chrono::seconds(8));
  CHECK_FALSE(sim::Flag(At(Of(world, "lone"), "spec", "active"), true));
  CHECK(ConditionOf(world, "lone", "Evicted") ==
        "True/DeactivatedDueToMaximumExecutionTimeExceeded: The workload is deactivated due to exceeding the maximum "
        "execution time");
  CHECK(ConditionOf(world, "lone", "DeactivationTarget") ==
        "True/MaximumExecutionTimeExceeded: exceeding the maximum execution time");
  CHECK(EventReasons(world, "lone").contains("MaximumExecutionTimeExceeded"));
  CHECK(muster->telemetry.evicted["Deactivated"] == 1);
  REQUIRE(world.RunUntil([&] { return Reserving(world) == 0; }));
  ComesToRest(world, *muster);
  CHECK_FALSE(Admitted(world, "lone"));
  world.Patch("workloads", "team", "lone", {{"spec", {{"active", true}}}});
  REQUIRE(world.RunUntil([&] { return Admitted(world, "lone"); }));
  world.RunFor(std::chrono::seconds(56));
  CHECK(Admitted(world, "lone"));
  world.RunFor(std::chrono::seconds(8));
  CHECK_FALSE(Admitted(world, "lone"));
  CHECK_FALSE(sim::Flag(At(Of(world, "lone"), "spec", "active"), true));
}

TEST_CASE("A process that dies as the time of a Workload without a Job ends leaves it to the next one") {
  for (size_t writes = 1; writes <= 3; ++writes) {
    INFO(writes << " writes");
    World world;
    Process& muster = world.Start();
    world.MakeQueues("4");
    Json workload = LoneWorkload("lone", 3);
    workload["spec"]["maximumExecutionTimeSeconds"] = 30;
    world.Create(workload);
    REQUIRE(world.RunUntil([&] { return Admitted(world, "lone"); }));
    world.RunFor(std::chrono::seconds(25));
    const size_t before = world.server.writes().size();
    const auto made = [&] {
      size_t sum = 0;
      for (const auto& [what, count] : world.Writes(before)) sum += static_cast<size_t>(count);
      return sum;
    };
    REQUIRE(world.RunUntil([&] { return made() >= writes; }));
    world.Kill(muster);
    world.Start();
    world.RunFor(std::chrono::minutes(1));
    CHECK_FALSE(Admitted(world, "lone"));
    CHECK_FALSE(sim::Flag(At(Of(world, "lone"), "spec", "active"), true));
    CHECK(ConditionOf(world, "lone", "QuotaReserved").starts_with("False/Deactivated"));
    CHECK(At(Of(world, "lone"), "status", "schedulingStats", "evictions")[0]["count"] == 1);
  }
}

TEST_CASE("A Workload without a Job whose gate is cleared says so, and waits for its turn") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"queueingStrategy", "StrictFIFO"}}}});
  world.Create(LoneWorkload("big", 9));
  Json gated = LoneWorkload("gated", 1);
  gated["metadata"]["annotations"] = {{"kueue.x-k8s.io/admission-gated-by", "example.com/a"}};
  world.RunFor(std::chrono::seconds(2));
  world.Create(gated);
  REQUIRE(world.RunUntil([&] {
    return ConditionOf(world, "gated", "QuotaReserved") == "False/AdmissionGated: Admission is gated by: example.com/a";
  }));
  world.Patch("workloads", "team", "gated",
              {{"metadata", {{"annotations", {{"kueue.x-k8s.io/admission-gated-by", nullptr}}}}}});
  world.RunFor(std::chrono::seconds(3));
  CHECK(ConditionOf(world, "gated", "QuotaReserved") ==
        "False/PendingEvaluation: AdmissionGatedBy cleared, waiting for quota reservation");
  CHECK(EventReasons(world, "gated").contains("AdmissionGateCleared"));
}

}  // namespace
}  // namespace muster::controller
