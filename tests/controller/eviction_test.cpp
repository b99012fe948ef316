// When an evicted gang's quota is free, and what is left of many evictions. The numbers of user_pains stand at each.
#include <catch2/catch.hpp>

#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using sim::Text;

bool Suspended(const World& world, const std::string& job) {
  return sim::Flag(At(world.Get("jobs", "team", job), "spec", "suspend"));
}

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
