// How long a gang may run, over all its admissions; and Workloads that are deactivated and activated again.
// What is right is kueue_semantics 7.3 and 7.5, user_pains H15, and docs/kueue-compatibility.md.
#include <catch2/catch.hpp>

#include "drills.h"
#include "muster/core/time.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using sim::Text;

// "Status/Reason"
std::string ConditionOf(const World& world, const std::string& job, const std::string& type) {
  const Json workload = world.WorkloadOf(job);
  const Json& condition = sim::FindCondition(At(workload, "status", "conditions"), type);
  if (condition.is_null()) return "";
  return Text(sim::Get(condition, "status")) + "/" + Text(sim::Get(condition, "reason"));
}
bool Active(const World& world, const std::string& job) {
  return sim::Flag(At(world.WorkloadOf(job), "spec", "active"), true);
}
int64_t PastSeconds(const World& world, const std::string& job) {
  return sim::Number(At(world.WorkloadOf(job), "status", "accumulatedPastExecutionTimeSeconds"));
}
std::string NameOf(const World& world, const std::string& job) {
  return Text(At(world.WorkloadOf(job), "metadata", "name"));
}

void Submit(World& world, const std::string& name, const std::string& limit) {
  Json job = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"team",
    "labels":{"kueue.x-k8s.io/queue-name":"lq"}},"spec":{"suspend":true,"parallelism":2,"completions":2,
    "template":{"metadata":{"annotations":{"muster.dev/run-seconds":"600"}},"spec":{"restartPolicy":"Never",
    "containers":[{"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}})");
  job["metadata"]["name"] = name;
  job["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = limit;
  world.Create(std::move(job));
}

void Stop(World& world, const char* policy) {
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", policy}}}});
}

// RETURNS: how long the Job that runs now runs on.
Duration RunsOn(World& world, const std::string& job) {
  const WallTime from = world.executor.Now();
  REQUIRE(world.RunUntil([&] { return Suspended(world, job); }, std::chrono::minutes(20)));
  return world.executor.Now() - from;
}

TEST_CASE("A gang is stopped and deactivated when its time is over; active again, it has all of it anew") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  Submit(world, "train", "60");
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  CHECK(At(world.WorkloadOf("train"), "spec", "maximumExecutionTimeSeconds") != 0);
  const Duration first = RunsOn(world, "train");
  CHECK(first > std::chrono::seconds(59));
  CHECK(first < std::chrono::seconds(61));
  world.RunFor(std::chrono::seconds(10));
  CHECK_FALSE(Active(world, "train"));
  CHECK(ConditionOf(world, "train", "Evicted") == "True/DeactivatedDueToMaximumExecutionTimeExceeded");
  CHECK(ConditionOf(world, "train", "QuotaReserved") == "False/Deactivated");
  CHECK(PastSeconds(world, "train") >= 60);
  CHECK(muster.telemetry.evicted["Deactivated"] == 1);
  std::set<std::string> notes;
  for (const Json& event : world.List("events", "team")) {
    if (Text(At(event, "regarding", "kind")) == "Workload") notes.insert(Text(sim::Get(event, "note")));
  }
  CHECK(notes.contains("The maximum execution time (60s) exceeded"));
  const size_t before = world.server.writes().size();
  world.RunFor(std::chrono::minutes(5));
  CHECK(Suspended(world, "train"));
  CHECK(world.Writes(before).empty());

  SECTION("and runs for as long again") {}
  SECTION("also after a restart") {
    world.Kill(muster);
    world.Start();
    world.RunFor(std::chrono::seconds(10));
    CHECK_FALSE(Active(world, "train"));
  }
  SECTION("also where another process starts it") {
    world.Kill(muster);
    world.Patch("workloads", "team", NameOf(world, "train"), {{"spec", {{"active", true}}}});
    world.Start();
  }
  world.Patch("workloads", "team", NameOf(world, "train"), {{"spec", {{"active", true}}}});
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(std::chrono::seconds(5));
  CHECK(ConditionOf(world, "train", "DeactivationTarget").empty());
  CHECK(ConditionOf(world, "train", "Requeued") == "True/Reactivated");
  CHECK(PastSeconds(world, "train") == 0);
  const Duration second = RunsOn(world, "train");
  CHECK(second > std::chrono::seconds(50));
  CHECK(second < std::chrono::seconds(61));
  world.RunFor(std::chrono::seconds(10));
  CHECK_FALSE(Active(world, "train"));
  CHECK(At(world.WorkloadOf("train"), "status", "schedulingStats", "evictions")[0]["count"] == 2);
}

// H15: limit 60 s, evicted at 40 s, admitted again: 20 s left, also for another process.
TEST_CASE("The time that a gang has run counts over evictions and restarts") {
  const bool again = GENERATE(false, true);  // a crash in the second admission too
  World world;
  world.Start();
  world.MakeQueues("4");
  Submit(world, "train", "60");
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  const auto restart = [&] {
    world.Kill(*world.processes.back());
    world.Start();
  };
  SECTION("evicted, then at rest") {
    world.RunFor(std::chrono::seconds(40));
    Stop(world, "HoldAndDrain");
    world.RunFor(std::chrono::seconds(10));
    CHECK(PastSeconds(world, "train") >= 40);
  }
  SECTION("a crash while it runs") {
    world.RunFor(std::chrono::seconds(20));
    restart();
    world.RunFor(std::chrono::seconds(20));
    Stop(world, "HoldAndDrain");
    world.RunFor(std::chrono::seconds(10));
  }
  SECTION("a crash before the Workload tells of the eviction") {
    world.RunFor(std::chrono::seconds(40));
    Stop(world, "HoldAndDrain");
    REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
    world.Kill(*world.processes.back());
    world.RunFor(std::chrono::seconds(10));
    world.Start();
    world.RunFor(std::chrono::seconds(10));
    CHECK(PastSeconds(world, "train") >= 39);
  }
  Stop(world, "None");
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  if (again) {
    world.RunFor(std::chrono::seconds(5));
    restart();
  }
  const Duration rest = RunsOn(world, "train");
  CHECK(rest > std::chrono::seconds(10));
  CHECK(rest < std::chrono::seconds(22));
  world.RunFor(std::chrono::seconds(10));
  CHECK_FALSE(Active(world, "train"));
}

TEST_CASE("A gang whose time is over while somebody has it suspended is not started again first") {
  World world;
  world.Start();
  world.MakeQueues("4");
  Submit(world, "train", "60");
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(std::chrono::seconds(50));
  world.controllers->SetPaused(true);  // its pods stay for a while
  world.Patch("jobs", "team", "train", {{"spec", {{"suspend", true}}}});
  world.RunFor(std::chrono::seconds(15));
  world.controllers->SetPaused(false);
  CHECK_FALSE(world.RunUntil([&] { return !Suspended(world, "train"); }, std::chrono::minutes(2)));
  CHECK(ConditionOf(world, "train", "Evicted") == "True/DeactivatedDueToMaximumExecutionTimeExceeded");
}

TEST_CASE("A time that was over while nobody looked ends the gang at the next start") {
  World world;
  world.Start();
  world.MakeQueues("4");
  Submit(world, "train", "60");
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.Kill(*world.processes.back());
  world.RunFor(std::chrono::minutes(3));
  world.Start();
  CHECK(RunsOn(world, "train") < std::chrono::seconds(10));
}

TEST_CASE("A gang that was stopped since its time was over is not active, wherever the process dies") {
  // After each of the writes that follow the end of its time.
  for (size_t writes = 1; writes <= 4; ++writes) {
    INFO(writes << " writes");
    World world;
    Process& muster = world.Start();
    world.MakeQueues("4");
    Submit(world, "train", "30");
    REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
    world.RunFor(std::chrono::seconds(25));
    const size_t before = world.server.writes().size();
    const auto made = [&] {
      size_t sum = 0;
      for (const auto& [what, count] : world.Writes(before)) sum += static_cast<size_t>(count);
      return sum;
    };
    REQUIRE(world.RunUntil([&] { return made() >= writes; }));
    world.Kill(muster);
    world.RunFor(std::chrono::seconds(5));
    world.Start();
    world.RunFor(std::chrono::minutes(2));
    CHECK(Suspended(world, "train"));
    CHECK_FALSE(Active(world, "train"));
    CHECK(ConditionOf(world, "train", "QuotaReserved") == "False/Deactivated");
    CHECK(At(world.WorkloadOf("train"), "status", "schedulingStats", "evictions")[0]["count"] == 1);
    CHECK_FALSE(At(world.Get("jobs", "team", "train"), "metadata", "annotations").contains("muster.dev/admission"));
  }
}

TEST_CASE("Another limit, given while the Job is suspended, holds for what is left") {
  World world;
  world.Start();
  world.MakeQueues("4");
  Submit(world, "train", "600");
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(std::chrono::seconds(40));
  Stop(world, "HoldAndDrain");
  world.RunFor(std::chrono::seconds(10));
  world.Patch("jobs", "team", "train", {{"metadata", {{"labels", {{"kueue.x-k8s.io/max-exec-time-seconds", "50"}}}}}});
  world.RunFor(std::chrono::seconds(5));
  CHECK(At(world.WorkloadOf("train"), "spec", "maximumExecutionTimeSeconds") == 50);
  Stop(world, "None");
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  const Duration rest = RunsOn(world, "train");
  CHECK(rest > std::chrono::seconds(5));
  CHECK(rest < std::chrono::seconds(12));
}

// kueue_semantics 2.5: without the policy that refuses it, such a Job is no longer what was admitted.
TEST_CASE("A running gang whose limit is changed is stopped, and decided on again") {
  World world;
  world.Start();
  world.MakeQueues("4");
  Submit(world, "train", "600");
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(std::chrono::seconds(10));
  world.Patch("jobs", "team", "train",
              {{"metadata", {{"labels", {{"kueue.x-k8s.io/max-exec-time-seconds", nullptr}}}}}});
  REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(std::chrono::seconds(10));
  CHECK(ConditionOf(world, "train", "Evicted") == "False/QuotaReserved");
  CHECK(At(world.WorkloadOf("train"), "status", "schedulingStats", "evictions")[0]["reason"] == "NoMatchingWorkload");
  CHECK(world.RunUntil([&] { return world.Finished("train"); }, std::chrono::minutes(30)));
}

}  // namespace
}  // namespace muster::controller
