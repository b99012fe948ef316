// What a start, and what runs after it, was decided on: a Job that is another by then, and a start of which nobody
// knows whether it was applied.
#include <catch2/catch.hpp>

#include "drills.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Fault;
using sim::FaultRule;
using sim::Json;
using sim::Text;
using std::chrono::seconds;

constexpr const char* kNoMatch =
    "NoMatchingWorkload: No matching Workload; restoring pod templates according to existent Workload";

// "Status/Reason: message"
std::string ConditionOf(const World& world, const std::string& job, const std::string& type) {
  const Json workload = world.WorkloadOf(job);
  const Json& condition = sim::FindCondition(At(workload, "status", "conditions"), type);
  if (condition.is_null()) return "";
  return Text(sim::Get(condition, "status")) + "/" + Text(sim::Get(condition, "reason")) + ": " +
         Text(sim::Get(condition, "message"));
}
// The notes of all Events about a Job for a reason.
std::string Notes(const World& world, const std::string& job, const std::string& reason) {
  std::string out;
  for (const Json& event : world.List("events", "team")) {
    if (Text(sim::Get(event, "reason")) == reason && Text(At(event, "regarding", "name")) == job) {
      out += Text(sim::Get(event, "note")) + "\n";
    }
  }
  return out;
}
// Made so that its parallelism alone says how many pods it has.
void MakeScalable(World& world, const std::string& name, int parallelism, int run_seconds, int completions = 2000) {
  Json job = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"team",
    "annotations":{"note":"of a user"},"labels":{"kueue.x-k8s.io/queue-name":"lq"}},"spec":{"suspend":true,"template":{"metadata":
    {"annotations":{}},"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"work:1",
    "resources":{"requests":{"cpu":"1"}}}]}}}})");
  job["metadata"]["name"] = name;
  job["spec"]["parallelism"] = parallelism;
  job["spec"]["completions"] = completions;
  job["spec"]["template"]["metadata"]["annotations"]["muster.dev/run-seconds"] = std::to_string(run_seconds);
  world.Create(std::move(job));
}

// Kueue: a running Job whose pod count is not its Workload's is stopped (kueue_semantics 2.5).
// user_pains H13
TEST_CASE("A running gang that is scaled up is stopped, and runs again when all of it fits") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  MakeScalable(world, "train", 1, 3000);
  REQUIRE(world.RunUntil([&] { return ConditionOf(world, "train", "Admitted").starts_with("True"); }));
  world.RunFor(seconds(5));
  world.Patch("jobs", "team", "train", {{"spec", {{"parallelism", 1000}}}});
  REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }, seconds(1)));
  world.RunFor(seconds(20));
  CHECK(Suspended(world, "train"));
  CHECK(ConditionOf(world, "train", "Evicted") == std::string("True/") + kNoMatch);
  CHECK_THAT(ConditionOf(world, "train", "QuotaReserved"), Catch::StartsWith("False/ExceedsMaxQuota"));
  CHECK_THAT(Notes(world, "train", "Stopped"), Catch::Contains("No matching Workload"));
  CHECK(muster.telemetry.evicted["NoMatchingWorkload"] == 1);
  CHECK(sim::Number(At(world.WorkloadOf("train"), "spec", "podSets").at(0).at("count")) == 1000);
  CHECK(sim::Number(At(world.Get("jobs", "team", "train"), "spec", "parallelism")) == 1000);
  world.Patch("jobs", "team", "train", {{"spec", {{"parallelism", 3}}}});
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(seconds(5));
  CHECK(sim::Number(At(world.WorkloadOf("train"), "status", "admission", "podSetAssignments").at(0).at("count")) == 3);
  muster.controller->engine()->Validate();
}

TEST_CASE("What a gang gives back by being scaled down it does not take back from those who got it") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  MakeScalable(world, "train", 4, 3000);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  MakeScalable(world, "other", 3, 3000);
  world.RunFor(seconds(5));
  world.Patch("jobs", "team", "train", {{"spec", {{"parallelism", 1}}}});
  // Nothing is free before the pods of the first admission are gone.
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "other") && !Suspended(world, "train"); }));
  world.RunFor(seconds(5));
  world.Patch("jobs", "team", "train", {{"spec", {{"parallelism", 4}}}});
  world.RunFor(seconds(20));
  CHECK(Suspended(world, "train"));
  CHECK_FALSE(Suspended(world, "other"));
  CHECK_THAT(ConditionOf(world, "train", "QuotaReserved"), Catch::StartsWith("False/WaitingForQuota"));
  muster.controller->engine()->Validate();
}

TEST_CASE("A gang that is scaled while Muster is down is stopped when it is back") {
  World world;
  Process& first = world.Start();
  world.MakeQueues("4");
  MakeScalable(world, "train", 2, 3000);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(seconds(5));
  world.Kill(first);
  world.Patch("jobs", "team", "train", {{"spec", {{"parallelism", 400}}}});
  world.Start();
  world.RunFor(seconds(20));
  CHECK(Suspended(world, "train"));
  CHECK(ConditionOf(world, "train", "Evicted") == std::string("True/") + kNoMatch);
}

TEST_CASE("A suspended gang that is changed is not resumed on what it was admitted with") {
  World world;
  Process& first = world.Start();
  world.MakeQueues("4");
  MakeScalable(world, "train", 2, 3000);
  REQUIRE(world.RunUntil([&] { return ConditionOf(world, "train", "Admitted").starts_with("True"); }));
  world.RunFor(seconds(5));
  SECTION("more pods") { world.Patch("jobs", "team", "train", {{"spec", {{"suspend", true}, {"parallelism", 400}}}}); }
  SECTION("larger pods, changed while Muster was down") {
    world.Kill(first);
    world.Patch("jobs", "team", "train", {{"spec", {{"suspend", true}}}});
    world.RunFor(seconds(5));
    Json containers = At(world.Get("jobs", "team", "train"), "spec", "template", "spec", "containers");
    containers[0]["resources"]["requests"]["cpu"] = "100";
    world.Patch("jobs", "team", "train", {{"spec", {{"template", {{"spec", {{"containers", containers}}}}}}}});
    world.Start();
  }
  world.RunFor(seconds(20));
  CHECK(Suspended(world, "train"));
  CHECK(ConditionOf(world, "train", "Evicted") == std::string("True/") + kNoMatch);
  CHECK_THAT(ConditionOf(world, "train", "QuotaReserved"), Catch::StartsWith("False/ExceedsMaxQuota"));
  CHECK(Reserving(world) == 0);
}

TEST_CASE("A Job that was changed after the decision is decided on again, not started as it is now") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  world.RunFor(seconds(3));
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"patch"};
  rule.resource = "jobs";
  rule.fault.kind = Fault::Kind::kAnswer;
  rule.fault.status = 500;
  rule.times = -1;
  const auto id = world.server.faults().Add(rule);
  MakeScalable(world, "train", 4, 5);
  REQUIRE(world.RunUntil([&] { return world.server.faults().hits(id) == 1; }));
  world.RunFor(std::chrono::milliseconds(200));
  // What would be sent next could be applied.
  world.server.faults().Remove(id);
  world.Patch("jobs", "team", "train", {{"spec", {{"parallelism", 400}}}});
  world.RunFor(seconds(60));
  CHECK(Suspended(world, "train"));
  CHECK(muster.telemetry.admitted == 0);
  CHECK(sim::Number(At(world.Get("jobs", "team", "train"), "spec", "parallelism")) == 400);
  CHECK_THAT(ConditionOf(world, "train", "QuotaReserved"), Catch::StartsWith("False/ExceedsMaxQuota"));
}

// As with somebody's webhook of failurePolicy Fail that is down.
TEST_CASE("A start that the API server cannot carry out gives its quota to others, and says why it waits") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.RunFor(seconds(3));
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"patch"};
  rule.resource = "jobs";
  rule.name = "bad";
  rule.times = -1;
  rule.fault.kind = GENERATE(Fault::Kind::kAnswer, Fault::Kind::kLoseRequest, Fault::Kind::kDelayRequest);
  rule.fault.status = 500;
  rule.fault.delay = seconds(30);
  const auto id = world.server.faults().Add(rule);
  world.MakeJob("bad", 4, 5);
  REQUIRE(world.RunUntil([&] { return world.server.faults().hits(id) == 1; }));
  world.MakeJob("good", 4, 5);
  REQUIRE(world.RunUntil([&] { return world.Finished("good"); }, seconds(60)));
  CHECK(Suspended(world, "bad"));
  REQUIRE(world.RunUntil(
      [&] { return ConditionOf(world, "bad", "QuotaReserved").find("The start was refused") != std::string::npos; }));
  CHECK_FALSE(Notes(world, "bad", "StartRefused").empty());
  world.server.faults().Remove(id);
  REQUIRE(world.RunUntil([&] { return world.Finished("bad"); }, std::chrono::minutes(10)));
}

TEST_CASE("A start that can still be applied keeps its quota, whatever becomes of its Job meanwhile") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  world.RunFor(seconds(3));
  std::optional<sim::ApiRequest> first;
  world.server.SetObserver([&](const sim::ApiRequest& request, sim::SimServer::Phase at) {
    if (at == sim::SimServer::Phase::kSent && request.verb == "patch" && request.Resource() == "jobs" && !first) {
      first = request;
    }
  });
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"patch"};
  rule.resource = "jobs";
  rule.name = "slow";
  rule.times = -1;
  rule.fault.kind = Fault::Kind::kLoseRequest;
  const auto id = world.server.faults().Add(rule);
  MakeScalable(world, "slow", 4, 30, 4);
  REQUIRE(world.RunUntil([&] { return first.has_value(); }));
  world.MakeJob("other", 4, 5);
  const auto relabel = [&](const char* queue) {
    world.Patch("jobs", "team", "slow", {{"metadata", {{"labels", {{"kueue.x-k8s.io/queue-name", queue}}}}}});
  };
  SECTION("it gets an annotation that nobody reads") {
    world.Patch("jobs", "team", "slow", {{"metadata", {{"annotations", {{"tool", "was here"}}}}}});
  }
  SECTION("it leaves its queue and comes back") {
    relabel("elsewhere");
    world.RunFor(seconds(1));
    relabel("lq");
  }
  world.RunFor(seconds(2));
  // It was held up, not lost: the server applies it now.
  REQUIRE(world.store.Patch(World::kMuster, first->target, sim::PatchKind::kJsonPatch, first->body).ok());
  world.server.faults().Remove(id);
  CHECK_FALSE(Suspended(world, "slow"));
  CHECK(Suspended(world, "other"));
  world.RunFor(seconds(10));
  CHECK(Suspended(world, "other"));
  REQUIRE(world.RunUntil([&] { return world.Finished("slow") && world.Finished("other"); }));
  CHECK(muster.telemetry.admitted == 2);
}

// The Job controller is played here: it keeps the start time, as those before Kubernetes 1.36 do.
TEST_CASE("What is due soon is not put off by what is due later") {
  World world(1, false);
  world.Start();
  world.MakeQueues("4");
  world.MakeJob("train", 2, 5);
  REQUIRE(world.RunUntil([&] { return ConditionOf(world, "train", "Admitted").starts_with("True"); }));
  const std::string now = FormatTime(world.executor.Now());
  world.Patch("jobs", "team", "train", {{"status", {{"active", 2}, {"startTime", now}}}}, "status");
  world.RunFor(seconds(1));
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"patch"};
  rule.resource = "jobs";
  rule.times = 3;
  rule.fault.kind = Fault::Kind::kAnswer;
  rule.fault.status = 500;
  world.server.faults().Add(rule);
  rule.times = 1;
  rule.fault.kind = Fault::Kind::kApplyAndAnswer;
  const auto applied = world.server.faults().Add(rule);
  world.Patch("workloads", "team", Text(At(world.WorkloadOf("train"), "metadata", "name")),
              {{"spec", {{"active", false}}}});
  // The next try would come 8 s after this one.
  REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
  REQUIRE(world.server.faults().hits(applied) == 1);
  world.RunFor(std::chrono::milliseconds(500));
  Json condition = {{"type", "Suspended"}, {"status", "True"}, {"reason", "JobSuspended"}, {"lastTransitionTime", now}};
  world.Patch("jobs", "team", "train", {{"status", {{"active", 0}, {"conditions", Json::array({condition})}}}},
              "status");
  // Two seconds of grace, then the start time is cleared and the template restored.
  CHECK(world.RunUntil(
      [&] {
        return !At(world.Get("jobs", "team", "train"), "metadata", "annotations").contains("muster.dev/admission");
      },
      seconds(4)));
}

TEST_CASE("A Job of another controller is left alone, and told so by name") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.RunFor(seconds(3));
  for (const bool suspended : {true, false}) {
    Json job = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"team",
      "labels":{"kueue.x-k8s.io/queue-name":"lq"}},"spec":{"managedBy":"example.com/elsewhere","template":{"spec":
      {"restartPolicy":"Never","containers":[{"name":"main","image":"work:1","resources":{"requests":{"cpu":"3"}}}]}}}})");
    job["metadata"]["name"] = suspended ? "waits" : "runs";
    job["spec"]["suspend"] = suspended;
    world.Create(job);
  }
  world.MakeJob("own", 4, 5);
  REQUIRE(world.RunUntil([&] { return world.Finished("own"); }));
  CHECK(Suspended(world, "waits"));
  CHECK_FALSE(Suspended(world, "runs"));
  for (const char* name : {"waits", "runs"}) {
    CHECK(world.WorkloadOf(name).is_null());
    CHECK_THAT(Notes(world, name, "ErrWorkloadCompose"),
               Catch::Contains("spec.managedBy") && Catch::Contains("example.com/elsewhere"));
  }
}

}  // namespace
}  // namespace muster::controller
