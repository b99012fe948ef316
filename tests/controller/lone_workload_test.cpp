// Workloads without a Job: they queue by their own spec, their status holds the record (kueue_semantics 0.3, 0.4, 5.4;
// record.md).
#include <catch2/catch.hpp>

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

int64_t Reserving(const World& world) {
  return sim::Number(At(world.Get("clusterqueues", "", "cq"), "status", "reservingWorkloads"), -1);
}
int64_t Pending(const World& world) {
  return sim::Number(At(world.Get("clusterqueues", "", "cq"), "status", "pendingWorkloads"), -1);
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

void AtRest(World& world, Process& muster) {
  world.RunFor(std::chrono::minutes(1));
  muster.controller->engine()->Validate();
  const size_t before = world.server.writes().size();
  world.RunFor(std::chrono::minutes(2));
  std::map<std::string, int> writes = world.Writes(before);
  writes.erase("update leases");
  CHECK(writes.empty());
}

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
  AtRest(world, muster);
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
  AtRest(world, muster);
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
  AtRest(world, muster);
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

TEST_CASE("Every write of an admission on a Workload may fail in every way") {
  const char* const resources[] = {"workloads", "workloads/status"};
  struct Way {
    Fault::Kind kind;
    int status;
  };
  const Way ways[] = {{Fault::Kind::kRefuse, 0},           {Fault::Kind::kAnswer, 409},
                      {Fault::Kind::kAnswer, 422},         {Fault::Kind::kAnswer, 429},
                      {Fault::Kind::kAnswer, 500},         {Fault::Kind::kAnswer, 403},
                      {Fault::Kind::kApplyAndAnswer, 500}, {Fault::Kind::kLoseRequest, 0},
                      {Fault::Kind::kLoseAnswer, 0},       {Fault::Kind::kHang, 0},
                      {Fault::Kind::kDelayRequest, 0},     {Fault::Kind::kDelayAnswer, 0}};
  for (const std::string resource : resources) {
    for (const Way& way : ways) {
      DYNAMIC_SECTION(resource << " way " << static_cast<int>(way.kind) << " " << way.status) {
        World world;
        Auditor auditor(&world, 4);
        Process& muster = world.Start();
        world.MakeQueues("4");
        FaultRule rule;
        rule.user = World::kMuster;
        rule.verbs = {"patch"};
        rule.resource = resource;
        rule.times = 3;
        rule.fault.kind = way.kind;
        rule.fault.status = way.status;
        rule.fault.delay = std::chrono::seconds(3);
        const auto id = world.server.faults().Add(rule);
        for (const char* name : {"one", "two", "three"}) world.Create(LoneWorkload(name, 2));
        int finished = 0;
        REQUIRE(world.RunUntil(
            [&] {
              for (const char* name : {"one", "two", "three"}) {
                if (!Admitted(world, name) || sim::HasCondition(Of(world, name), "Finished")) continue;
                Finish(world, name);
                ++finished;
              }
              return finished == 3;
            },
            std::chrono::hours(1)));
        CHECK(world.server.faults().hits(id) == 3);
        AtRest(world, muster);
        CHECK(Reserving(world) == 0);
        CHECK(Pending(world) == 0);
      }
    }
  }
}

TEST_CASE("A Muster that dies at any write of an admission on a Workload finds what it did") {
  for (int writes = 1; writes <= 8; ++writes) {
    DYNAMIC_SECTION("after write " << writes) {
      World world;
      Auditor auditor(&world, 4);
      Process& first = world.Start();
      world.MakeQueues("4");
      world.RunFor(std::chrono::seconds(3));
      const size_t before = world.server.writes().size();
      for (const char* name : {"one", "two", "three"}) world.Create(LoneWorkload(name, 2));
      const auto made = [&] {
        int sum = 0;
        for (const auto& [what, count] : world.Writes(before))
          sum += what.find("workloads") == std::string::npos ? 0 : count;
        return sum;
      };
      world.RunUntil([&] { return made() >= writes; }, std::chrono::seconds(5));
      world.Kill(first);
      Process& second = world.Start();
      REQUIRE(world.RunUntil([&] { return Reserving(world) == 2; }));
      CHECK(Pending(world) == 1);
      AtRest(world, second);
      for (const char* name : {"one", "two", "three"}) {
        if (Admitted(world, name)) world.Delete("workloads", "team", name);
      }
      REQUIRE(world.RunUntil([&] { return Reserving(world) == 1 && Pending(world) == 0; }));
      AtRest(world, second);
    }
  }
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

}  // namespace
}  // namespace muster::controller
