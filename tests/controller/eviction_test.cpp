// When an evicted gang's quota is free, and what is left of many evictions. The numbers of user_pains stand at each.
#include <catch2/catch.hpp>

#include "drills.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using sim::Text;

void Activate(World& world, const std::string& job, bool active) {
  world.Patch("workloads", "team", Text(At(world.WorkloadOf(job), "metadata", "name")),
              {{"spec", {{"active", active}}}});
}

// H8: pods that take a minute to stop.
TEST_CASE("The quota of an evicted gang is free once no pod is active, or, if so configured, none terminating") {
  const bool strict = GENERATE(false, true);
  CAPTURE(strict);
  World world;
  Options options = World::DefaultOptions();
  options.wait_for_terminating_pods = strict;
  world.Start("", options);
  world.MakeQueues("4");
  world.MakeJob("victim", 4, 600);
  world.Patch(
      "jobs", "team", "victim",
      {{"spec", {{"template", {{"metadata", {{"annotations", {{"muster.dev/termination-seconds", "60"}}}}}}}}}});
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("victim"), "Admitted"); }));
  world.RunFor(std::chrono::seconds(5));
  world.MakeJob("successor", 4, 10);
  world.RunFor(std::chrono::seconds(2));
  REQUIRE(Suspended(world, "successor"));
  const MonoTime evicted = world.executor.Mono();
  Activate(world, "victim", false);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "successor"); }, std::chrono::minutes(2)));
  const Duration waited = world.executor.Mono() - evicted;
  const Json status = At(world.Get("jobs", "team", "victim"), "status");
  CHECK(sim::Number(sim::Get(status, "active")) == 0);
  if (strict) {
    CHECK(sim::Number(sim::Get(status, "terminating")) == 0);
    CHECK(waited >= std::chrono::seconds(60));
  } else {
    CHECK(sim::Number(sim::Get(status, "terminating")) == 4);
    CHECK(waited < std::chrono::seconds(10));
  }
}

// B7
TEST_CASE("What is evicted and does not go is counted, and named after five minutes, by the next process too") {
  World world;
  Process* muster = &world.Start();
  world.MakeQueues("4");
  world.MakeJob("train", 4, 3600);
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("train"), "Admitted"); }));
  world.RunFor(std::chrono::seconds(5));
  CHECK(muster->controller->evicting().empty());
  // Nobody sees to its end.
  world.controllers->SetPaused(true);
  const WallTime evicted = world.executor.Now();
  Activate(world, "train", false);
  REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
  const auto told = [&] {
    std::vector<std::string> notes;
    for (const Json& event : world.List("events", "team")) {
      if (Text(sim::Get(event, "reason")) != "EvictionOverdue") continue;
      CHECK(Text(sim::Get(event, "type")) == "Warning");
      CHECK(Text(At(event, "regarding", "name")) == "train");
      notes.push_back(Text(sim::Get(event, "note")));
    }
    return notes;
  };
  const auto check_counts = [&] {
    const std::map<std::string, EvictingCount> counts = muster->controller->evicting();
    REQUIRE(counts.size() == 1);
    CHECK(counts.at("cq").workloads == 1);
    CHECK(counts.at("cq").oldest - evicted < std::chrono::seconds(2));
  };
  check_counts();
  world.RunFor(std::chrono::minutes(4));
  CHECK(told().empty());
  world.Kill(*muster);
  muster = &world.Start();
  world.RunFor(std::chrono::minutes(2));
  check_counts();
  const std::string uid = Text(At(world.Get("jobs", "team", "train"), "metadata", "uid"));
  CHECK(muster->controller->engine()->ViewWorkload(uid)->evicted == engine::EvictionReason::kDeactivated);
  REQUIRE(told().size() == 1);
  CHECK_THAT(told()[0], Catch::StartsWith("Evicted at ") && Catch::Contains("(Deactivated)") &&
                            Catch::Contains("its quota in ClusterQueue cq"));
  world.controllers->SetPaused(false);
  REQUIRE(world.RunUntil([&] { return muster->controller->evicting().empty() && Reserving(world) == 0; }));
}

TEST_CASE("Of a stop that fails, what is no longer wanted is not tried again") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  world.MakeJob("train", 4, 60);
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("train"), "Admitted"); }));
  const Way way = GENERATE(from_range(AllWays()));
  CAPTURE(way.Name());
  const bool applied = way.kind == sim::Fault::Kind::kApplyAndAnswer || way.kind == sim::Fault::Kind::kLoseAnswer ||
                       way.kind == sim::Fault::Kind::kHang || way.kind == sim::Fault::Kind::kDelayRequest ||
                       way.kind == sim::Fault::Kind::kDelayAnswer;
  if (applied) return;
  const auto stops = Strike(way, "patch", "jobs", 1, R"("op":"add","path":"/spec/suspend","value":true)");
  const auto id = world.server.faults().Add(stops);
  const auto drain = [&](bool drained) {
    world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", drained ? "HoldAndDrain" : "None"}}}});
  };
  drain(true);
  REQUIRE(world.RunUntil([&] { return world.server.faults().hits(id) == 1; }));
  drain(false);
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, std::chrono::minutes(5)));
  CHECK(muster.telemetry.evicted.empty());
  CHECK(muster.controller->evicting().empty());
  CHECK(EvictionsIn(world.WorkloadOf("train")) == 0);
  ComesToRest(world, muster);
}

// F5, F8, G13
TEST_CASE("After many evictions the texts are as short as after one, and each counts once for the whole gang") {
  constexpr int kRounds = 20;
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  world.MakeJob("train", 4, 600);
  std::string after_one;
  for (int round = 1; round <= kRounds; ++round) {
    REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("train"), "Admitted"); }));
    world.RunFor(std::chrono::seconds(5));
    const bool drained = round % 2 == 0;
    drained ? world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}})
            : Activate(world, "train", false);
    REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
    world.RunFor(std::chrono::seconds(5));
    std::string texts;
    const Json conditions = At(world.WorkloadOf("train"), "status", "conditions");
    for (const Json& condition : conditions) {
      texts += Text(sim::Get(condition, "message")) + "\n";
    }
    CHECK(texts.find("Previously: Previously") == std::string::npos);
    if (round == 2) after_one = texts;
    if (drained && round > 2) CHECK(texts == after_one);
    drained ? world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}})
            : Activate(world, "train", true);
  }
  CHECK(muster.telemetry.evicted == std::map<std::string, int>{{"ClusterQueueStopped", 10}, {"Deactivated", 10}});
  CHECK(muster.telemetry.pods_evicted == int64_t{kRounds} * 4);
  const Json counts = At(world.WorkloadOf("train"), "status", "schedulingStats", "evictions");
  REQUIRE(counts.size() == 2);
  for (const Json& count : counts) CHECK(sim::Number(sim::Get(count, "count")) == 10);
}

TEST_CASE("A queue that was stopped and is made anew counts as started again, and not before") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.MakeJob("train", 4, 600);
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("train"), "Admitted"); }));
  const auto requeued = [&] {
    const Json workload = world.WorkloadOf("train");
    const Json& condition = sim::FindCondition(At(workload, "status", "conditions"), "Requeued");
    return condition.is_null() ? "" : Text(sim::Get(condition, "status")) + "/" + Text(sim::Get(condition, "reason"));
  };
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
  REQUIRE(world.RunUntil([&] { return requeued() == "False/ClusterQueueStopped"; }));
  world.RunFor(std::chrono::seconds(5));
  Json queue = world.Get("clusterqueues", "", "cq");
  world.Delete("clusterqueues", "", "cq");
  world.RunFor(std::chrono::seconds(5));
  CHECK(requeued() == "False/ClusterQueueStopped");
  queue["metadata"] = {{"name", "cq"}};
  queue["spec"]["stopPolicy"] = "Hold";
  world.Create(queue);
  world.RunFor(std::chrono::seconds(5));
  CHECK(requeued() == "False/ClusterQueueStopped");
  world.Delete("clusterqueues", "", "cq");
  queue["metadata"] = {{"name", "cq"}};
  queue["spec"]["stopPolicy"] = "None";
  world.Create(queue);
  REQUIRE(world.RunUntil([&] { return requeued() == "True/ClusterQueueRestarted"; }));
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
}

}  // namespace
}  // namespace muster::controller
