// Jobs where machines are looked at: what is lost after the start. Engine and book are tested on their own; here the
// objects say what becomes of it.
//
// Source: user_pains D2, D8; the numbers are worked out by hand from the nodes of each case.
#include <catch2/catch.hpp>

#include "drills.h"
#include "nodes_and_pods.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using sim::Text;
using std::chrono::seconds;

Options WithMachines() {
  Options options = World::DefaultOptions();
  options.check_machines = true;
  options.place_timeout = seconds(20);
  return options;
}

bool Waits(const World& world, const std::string& job, const std::string& why) {
  return Suspended(world, job) && MessageOf(world.WorkloadOf(job), "QuotaReserved").find(why) != std::string::npos;
}

int EventsOf(const World& world, const std::string& reason) {
  int count = 0;
  for (const Json& event : world.List("events", "team")) count += Text(sim::Get(event, "reason")) == reason ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("A gang that a drain strands goes whole, says so, and starts again where all of it has room") {
  World world;
  world.MakeQueues("100");
  MakeNode(world, "n1", "r", 1);
  MakeNode(world, "n2", "r", 1);
  Process* muster = &world.Start("", WithMachines());
  world.MakeJob("train", 2, 600);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  MakePod(world, "train", 0, true, "n1");
  MakePod(world, "train", 1, true, "n2");
  world.RunFor(seconds(60));
  REQUIRE_FALSE(Suspended(world, "train"));
  // As `kubectl drain` does; the pod comes again, and is on no node.
  world.Patch("nodes", "", "n2", {{"spec", {{"unschedulable", true}}}});
  world.Delete("pods", "team", "train-1");
  const MonoTime drained = world.executor.Mono();
  REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
  const Duration waited = world.executor.Mono() - drained;
  CHECK(waited >= seconds(20));
  CHECK(waited < seconds(25));
  REQUIRE(world.RunUntil([&] { return ConditionOf(world.WorkloadOf("train"), "Evicted") == "True/NodeFailures"; }));
  CHECK(MessageOf(world.WorkloadOf("train"), "Evicted") == "No node had a place for 1 of its pods for too long");
  REQUIRE(world.RunUntil([&] { return ConditionOf(world.WorkloadOf("train"), "Requeued") == "True/NodeFailures"; }));
  CHECK(EventsOf(world, "EvictedDueToNodeFailures") == 1);
  CHECK(muster->telemetry.evicted.at("NodeFailures") == 1);
  world.Delete("pods", "team", "train-0");  // as the job controller does of a suspended Job
  REQUIRE(world.RunUntil([&] { return Waits(world, "train", "of 2 pods have a place"); }));
  REQUIRE(world.RunUntil([&] { return Reserving(world) == 0; }));

  // Another process sees the same, and nobody goes round.
  world.Kill(*muster);
  muster = &world.Start("", WithMachines());
  world.RunFor(std::chrono::minutes(10));
  CHECK(Suspended(world, "train"));
  CHECK(EvictionsIn(world.WorkloadOf("train")) == 1);
  CHECK(muster->telemetry.evicted.empty());
  MakeNode(world, "n3", "r", 1);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  MakePod(world, "train", 0, true, "n1");
  MakePod(world, "train", 1, true, "n3");
  world.RunFor(std::chrono::minutes(2));
  CHECK_FALSE(Suspended(world, "train"));
  CHECK(EvictionsIn(world.WorkloadOf("train")) == 1);
}

TEST_CASE("A stranger's pod in the room of a gang that has started: it waits for its time, and stays if the pod goes") {
  World world;
  world.MakeQueues("100");
  MakeNode(world, "n1", "r", 2);
  world.Start("", WithMachines());
  world.MakeJob("train", 2, 600);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  MakePod(world, "train", 0, true, "n1");
  world.Create(Json::parse(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","namespace":"team"},"spec":{
    "nodeName":"n1","containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}})"));
  world.RunFor(seconds(15));
  REQUIRE_FALSE(Suspended(world, "train"));
  const bool goes = GENERATE(false, true);
  CAPTURE(goes);
  if (goes) world.Delete("pods", "team", "x");
  world.RunFor(seconds(15));
  CHECK(Suspended(world, "train") == !goes);
}

// What a kubelet writes of its node every few minutes: the time, and which images it has.
TEST_CASE("Heartbeats of nodes make nobody look at anything") {
  World world;
  world.MakeQueues("100");
  MakeNode(world, "n1", "r", 2);
  Process& muster = world.Start("", WithMachines());
  world.MakeJob("waits", 3, 600);
  REQUIRE(world.RunUntil([&] { return Waits(world, "waits", "2 of 3 pods have a place"); }));
  world.RunFor(std::chrono::minutes(2));
  const auto searches = [&] { return muster.controller->engine()->MachineCounts().searches; };
  const uint64_t searched = searches();
  const int writes = muster.telemetry.writes;
  const auto ready = [](const std::string& heartbeat) {
    Json condition = Json::parse(R"({"type":"Ready","status":"True"})");
    condition["lastHeartbeatTime"] = heartbeat;
    return Json{{"status",
                 {{"conditions", Json::array({condition})},
                  {"images", Json::array({{{"names", {"train:" + heartbeat}}, {"sizeBytes", 7}}})}}}};
  };
  for (int minute = 10; minute < 60; ++minute) {
    world.Patch("nodes", "", "n1", ready("2026-01-01T00:" + std::to_string(minute) + ":00Z"), "status");
    world.RunFor(seconds(1));
  }
  CHECK(searches() == searched);
  CHECK(muster.telemetry.writes == writes);
  // As soon as there is news in one of them:
  Json news = ready("2026-01-01T01:00:00Z");
  news["status"]["allocatable"] = {{"cpu", "3"}, {"pods", "100"}};
  world.Patch("nodes", "", "n1", news, "status");
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "waits"); }));
  CHECK(searches() > searched);
}

// It starts anew with each process, so that one which is new does not stop what it has only just seen.
TEST_CASE("A process that finds a stranded gang gives it the whole time") {
  World world;
  world.MakeQueues("100");
  MakeNode(world, "n1", "r", 2);
  Process& first = world.Start("", WithMachines());
  world.MakeJob("train", 2, 600);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  MakePod(world, "train", 0, true, "n1");
  world.Patch("nodes", "", "n1", {{"spec", {{"unschedulable", true}}}});
  world.RunFor(seconds(15));
  world.Kill(first);
  Process& second = world.Start("", WithMachines());
  REQUIRE(world.RunUntil([&] { return second.controller->health().leading; }));
  const MonoTime leads = world.executor.Mono();
  REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
  CHECK(world.executor.Mono() - leads >= seconds(20));
  CHECK(world.executor.Mono() - leads < seconds(25));
}

// G1: a figure that is told must not be an old one for long; and a long queue must not write itself to death.
TEST_CASE("How many pods have a place is told anew when it changes, without an Event, and of a long queue bit by bit") {
  constexpr int kGangs = 60;
  World world;
  world.MakeQueues("1000");
  MakeNode(world, "n1", "r", 1);
  world.Start("", WithMachines());
  const auto name = [](int i) { return "train" + std::to_string(i); };
  for (int i = 0; i < kGangs; ++i) world.MakeJob(name(i), 3, 600);
  const auto told = [&](const std::string& why) {
    int count = 0;
    for (int i = 0; i < kGangs; ++i) count += Waits(world, name(i), why) ? 1 : 0;
    return count;
  };
  REQUIRE(world.RunUntil([&] { return told("1 of 3 pods have a place") == kGangs; }));
  world.RunFor(seconds(10));
  const int events = EventsOf(world, "TopologyPlacementFailed");
  CHECK(events == kGangs);

  MakeNode(world, "n2", "r", 1);
  world.RunFor(seconds(4));
  CHECK(told("2 of 3 pods have a place") == 0);
  int most = 0;
  for (int second = 0; second < 12; ++second) {
    WriteCounter writes(&world, sim::SimServer::Phase::kApplied);
    world.RunFor(seconds(1));
    most = std::max(most, writes.seen());
  }
  for (int i = 0; i < kGangs; ++i) {
    CAPTURE(i, MessageOf(world.WorkloadOf(name(i)), "QuotaReserved"));
    CHECK(Waits(world, name(i), "2 of 3 pods have a place"));
  }
  CHECK(most >= 10);
  CHECK(most <= 15);  // with those of the queue's status and the lease
  CHECK(EventsOf(world, "TopologyPlacementFailed") == events);
}

// user_pains I10
TEST_CASE("Quota of what no node has is a standing problem, named with object, field and value while it lasts") {
  World world;
  world.MakeQueues("100");
  Options options = WithMachines();
  options.requests.transformations = {{"nvidia.com/gpu", true, "", {{"credits", *Quantity::Parse("10")}}}};
  Process& muster = world.Start("", options);
  const auto problems = [&muster] { return muster.controller->health().problems; };
  REQUIRE(world.RunUntil([&] { return muster.controller->health().leading; }));
  // Nothing is known of machines: not that there are none.
  world.RunFor(seconds(5));
  CHECK(problems().empty());
  MakeNode(world, "n1", "r", 2);
  world.RunFor(seconds(5));
  CHECK(problems().empty());
  world.Create(Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ResourceFlavor","metadata":{"name":"g"},
    "spec":{"nodeLabels":{"tier":"gpu"}}})"));
  for (const char* name : {"gpus", "more-gpus"}) {
    Json queue = Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ClusterQueue","spec":{
      "namespaceSelector":{},"queueingStrategy":"BestEffortFIFO","stopPolicy":"None","resourceGroups":[
        {"coveredResources":["cpu","nvidia.com/gpu","credits"],"flavors":[
          {"name":"f","resources":[{"name":"cpu","nominalQuota":"1"},{"name":"nvidia.com/gpu","nominalQuota":"8"},
                                   {"name":"credits","nominalQuota":"80"}]},
          {"name":"g","resources":[{"name":"cpu","nominalQuota":"1500m"},{"name":"nvidia.com/gpu","nominalQuota":"0"},
                                   {"name":"credits","nominalQuota":"0"}]}]}]}})");
    queue["metadata"]["name"] = name;
    world.Create(std::move(queue));
  }
  world.RunFor(seconds(5));
  const std::string remedy =
      R"(; nodes that come once pods wait: annotate the flavor with muster.dev/autoscaled: "true")";
  const std::string no_device =
      "quota that no node can serve: ClusterQueue gpus: "
      "spec.resourceGroups[0].flavors[0].resources[1].nominalQuota: 8 of nvidia.com/gpu: no node of ResourceFlavor f "
      "has nvidia.com/gpu (and 1 more such quotas)" +
      remedy;
  const std::string no_node =
      "quota that no node can serve: ClusterQueue gpus: "
      "spec.resourceGroups[0].flavors[1].resources[0].nominalQuota: 1500m of cpu: no node has the labels of "
      "ResourceFlavor g (and 1 more such quotas)" +
      remedy;
  CHECK(problems() == std::vector<std::string>{no_device, no_node});
  world.Patch("resourceflavors", "", "g", {{"metadata", {{"annotations", {{"muster.dev/autoscaled", "true"}}}}}});
  world.RunFor(seconds(5));
  CHECK(problems() == std::vector<std::string>{no_device});
  world.Patch("nodes", "", "n1", {{"status", {{"allocatable", {{"nvidia.com/gpu", "1"}}}}}}, "status");
  world.RunFor(seconds(5));
  CHECK(problems().empty());
}

// Its first gang ends at 300 at the latest; who will have ended by then may run beside it, and nobody else.
TEST_CASE("Nodes that are reserved for a Job are named in its condition, and others run there only for as long") {
  World world;
  world.MakeQueues("100");
  MakeNode(world, "n1", "r", 2);
  Options options = WithMachines();
  options.reserve_after = seconds(30);
  world.Start("", options);
  const auto limited = [](const char* seconds) {
    return Json{{"metadata", {{"labels", {{"kueue.x-k8s.io/max-exec-time-seconds", seconds}}}}}};
  };
  world.MakeJob("runs", 1, 600, "lq", limited("300"));
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "runs"); }));
  const MonoTime started = world.executor.Mono();
  world.MakeJob("big", 2, 600);
  world.RunFor(seconds(20));
  CHECK(MessageOf(world.WorkloadOf("big"), "QuotaReserved").find("reserved for it") == std::string::npos);
  REQUIRE(
      world.RunUntil([&] { return Waits(world, "big", "1 node(s) are reserved for it, and free at the latest at "); }));
  CHECK(world.executor.Mono() - started >= seconds(30));
  world.MakeJob("endless", 1, 600);
  world.MakeJob("long", 1, 600, "lq", limited("290"));
  REQUIRE(world.RunUntil([&] { return Waits(world, "long", "as much is free, and kept for others"); }));
  REQUIRE(world.RunUntil([&] { return Waits(world, "endless", "as much is free, and kept for others"); }));
  world.MakeJob("short", 1, 600, "lq", limited("60"));
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "short"); }));
  // Both are stopped when their time is over, and the first of those who wait has the node.
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "big"); }, std::chrono::minutes(6)));
  CHECK(Suspended(world, "endless"));
  CHECK(Suspended(world, "long"));
  CHECK(world.executor.Mono() - started >= seconds(300));
  CHECK(world.executor.Mono() - started < seconds(320));
}

}  // namespace muster::controller
