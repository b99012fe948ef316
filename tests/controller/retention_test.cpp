// What is over is kept for as long as the configuration says; Workloads whose Job is gone, and Jobs made again.
// What is right is kueue_semantics 2.4, 2.8 and 1.9, user_pains H7, H10 and H18.
#include <catch2/catch.hpp>

#include "drills.h"
#include "muster/controller/names.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Fault;
using sim::FaultRule;
using sim::Json;
using sim::Text;
using std::chrono::minutes;
using std::chrono::seconds;

Options Keep(std::optional<Duration> after_finished, std::optional<Duration> after_deactivated = std::nullopt) {
  Options options = World::DefaultOptions();
  options.retention = {after_finished, after_deactivated};
  return options;
}
std::string Notes(const World& world, const std::string& kind, const std::string& reason) {
  std::string out;
  for (const Json& event : world.List("events", "team")) {
    if (Text(sim::Get(event, "reason")) == reason && Text(At(event, "regarding", "kind")) == kind) {
      out += Text(sim::Get(event, "note")) + "\n";
    }
  }
  return out;
}
size_t Workloads(const World& world) { return world.List("workloads", "team").size(); }

TEST_CASE("A finished Workload is deleted when its time is over, and not made again") {
  World world;
  Process& muster = world.Start("", Keep(minutes(10)));
  world.MakeQueues("4");
  world.MakeJob("done", 1, 5);
  world.MakeJob("running", 1, 7200);
  REQUIRE(world.RunUntil([&] { return world.Finished("done"); }));
  world.RunFor(minutes(9));
  CHECK(Workloads(world) == 2);
  SECTION("by the process that saw the end") { world.RunFor(seconds(70)); }
  SECTION("by the next one, which counts from the end too") {
    world.Kill(muster);
    world.Start("", Keep(minutes(10)));
    world.RunFor(seconds(70));
  }
  SECTION("at once, where it was over while nobody looked") {
    world.Kill(muster);
    world.RunFor(minutes(30));
    world.Start("", Keep(minutes(10)));
    world.RunFor(seconds(15));
  }
  CHECK(Workloads(world) == 1);
  CHECK(world.Finished("done"));
  CHECK(Notes(world, "Workload", "Deleted") == "Deleted finished workload due to elapsed retention\n");
  const size_t before = world.server.writes().size();
  world.RunFor(minutes(30));
  CHECK(world.Writes(before).empty());
  world.Kill(*world.processes.back());
  world.Start("", Keep(minutes(10)));
  world.RunFor(minutes(5));
  CHECK(Workloads(world) == 1);
  CHECK_FALSE(Suspended(world, "running"));
}

TEST_CASE("What nobody set a time for is kept") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.MakeJob("done", 1, 5);
  REQUIRE(world.RunUntil([&] { return world.Finished("done"); }));
  world.RunFor(std::chrono::hours(48));
  CHECK(Workloads(world) == 1);
}

TEST_CASE("Many Workloads that are over are deleted a few at a time, and what is refused is tried again") {
  World world;
  world.Start("", Keep(seconds(0)));
  world.MakeQueues("100");
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"delete"};
  rule.times = 5;
  rule.fault.kind = Fault::Kind::kAnswer;
  world.server.faults().Add(rule);
  for (int i = 0; i < 30; ++i) world.MakeJob("job-" + std::to_string(i), 1, 5);
  REQUIRE(world.RunUntil([&] { return world.Finished("job-29"); }));
  world.RunFor(seconds(20));
  CHECK(Workloads(world) == 5);
  world.RunFor(seconds(70));
  CHECK(Workloads(world) == 0);
  CHECK(world.Writes()["create workloads"] == 30);
}

TEST_CASE("A Job that Muster deactivated is deleted when its time is over, and a user's is not") {
  World world;
  world.Start("", Keep(std::nullopt, minutes(10)));
  world.MakeQueues("4");
  for (const char* name : {"over", "again", "off"}) {
    Json job = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"team",
      "labels":{"kueue.x-k8s.io/queue-name":"lq"}},"spec":{"suspend":true,
      "template":{"metadata":{"annotations":{"muster.dev/run-seconds":"3600"}},"spec":{"restartPolicy":"Never",
      "containers":[{"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}})");
    job["metadata"]["name"] = name;
    if (std::string(name) != "off") job["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "30";
    world.Create(std::move(job));
  }
  const auto set_active = [&](const std::string& job, bool active) {
    world.Patch("workloads", "team", Text(At(world.WorkloadOf(job), "metadata", "name")),
                {{"spec", {{"active", active}}}});
  };
  world.RunFor(seconds(10));
  set_active("off", false);
  world.RunFor(minutes(2));
  REQUIRE(Suspended(world, "over"));
  REQUIRE(Suspended(world, "off"));
  set_active("again", true);
  world.RunFor(minutes(10));
  CHECK(world.Get("jobs", "team", "over").is_null());
  CHECK_FALSE(world.Get("jobs", "team", "off").is_null());
  // Its time began anew when it was stopped for the second time.
  CHECK_FALSE(world.Get("jobs", "team", "again").is_null());
  CHECK(Workloads(world) == 2);
  CHECK(Notes(world, "Job", "Deleted") == "Deleted job: deactivation retention period expired\n");
  world.RunFor(minutes(3));
  CHECK(world.Get("jobs", "team", "again").is_null());
  world.RunFor(std::chrono::hours(24));
  CHECK_FALSE(world.Get("jobs", "team", "off").is_null());
}

TEST_CASE("A Job that was deactivated and then taken out of its queue is its user's, and is not deleted") {
  World world;
  world.Start("", Keep(std::nullopt, minutes(10)));
  world.MakeQueues("4");
  Json job = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"team","name":"over",
    "labels":{"kueue.x-k8s.io/queue-name":"lq","kueue.x-k8s.io/max-exec-time-seconds":"30"}},"spec":{"suspend":true,
    "template":{"metadata":{"annotations":{"muster.dev/run-seconds":"7200"}},"spec":{"restartPolicy":"Never",
    "containers":[{"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}})");
  world.Create(std::move(job));
  world.RunFor(minutes(2));
  REQUIRE(Suspended(world, "over"));
  world.Patch("jobs", "team", "over", {{"metadata", {{"labels", {{"kueue.x-k8s.io/queue-name", nullptr}}}}}});
  world.RunFor(seconds(5));
  world.Patch("jobs", "team", "over", {{"spec", {{"suspend", false}}}});
  REQUIRE_FALSE(Suspended(world, "over"));
  world.RunFor(minutes(30));
  CHECK(sim::Number(At(world.Get("jobs", "team", "over"), "status", "active")) == 1);
  CHECK(Notes(world, "Job", "Deleted").empty());
}

// H18: both may delete first, and neither error repeats.
TEST_CASE("Retention and ttlSecondsAfterFinished do not get in each other's way") {
  World world;
  world.Start("", Keep(seconds(10)));
  world.MakeQueues("4");
  for (int i = 0; i < 5; ++i) {
    const std::string name = "ttl-" + std::to_string(i);
    world.Patch("jobs", "team", Text(At(world.MakeJob(name, 1, 5), "metadata", "name")),
                {{"spec", {{"ttlSecondsAfterFinished", 8 + i}}}});
  }
  world.RunFor(minutes(2));
  CHECK(world.List("jobs", "team").empty());
  CHECK(Workloads(world) == 0);
  const size_t before = world.server.writes().size();
  world.RunFor(minutes(5));
  CHECK(world.Writes(before).empty());
}

// Golden case delete-orphan: the Workload stays, and says that its owner is gone.
TEST_CASE("A Workload whose Job went without it is finished, and kept as long as others") {
  World world;
  Process& muster = world.Start("", Keep(minutes(10)));
  world.MakeQueues("2");
  world.MakeJob("gone", 2, 3600);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "gone"); }));
  world.RunFor(seconds(5));
  SECTION("while Muster looks") { world.Delete("jobs", "team", "gone", "Orphan"); }
  SECTION("while nobody looks") {
    world.Kill(muster);
    world.Delete("jobs", "team", "gone", "Orphan");
    world.RunFor(seconds(5));
    world.Start("", Keep(minutes(10)));
  }
  REQUIRE(world.RunUntil([&] {
    const auto all = world.List("workloads", "team");
    return all.size() == 1 && Text(sim::Get(sim::FindCondition(At(all[0], "status", "conditions"), "Finished"),
                                            "reason")) == "OwnerNotFound";
  }));
  // Its quota is free.
  world.MakeJob("next", 2, 5);
  REQUIRE(world.RunUntil([&] { return world.Finished("next"); }));
  world.RunFor(minutes(11));
  CHECK(Workloads(world) == 0);
}

// H7: whatever state it is in and however it is deleted, nothing is held and nothing is stuck.
TEST_CASE("A Job that is deleted in any state leaves nothing behind") {
  const std::string propagation = GENERATE("Background", "Foreground", "Orphan");
  const std::string state = GENERATE("waits", "runs", "leaves", "is deactivated", "is finished");
  INFO(state << ", " << propagation);
  World world;
  world.Start();
  world.MakeQueues("2");
  world.MakeJob("blocker", 2, 3600);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "blocker"); }));
  world.MakeJob("train", 2, state == "is finished" ? 5 : 3600);
  world.RunFor(seconds(5));
  if (state != "waits") {
    world.Delete("jobs", "team", "blocker");
    REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
    world.RunFor(seconds(3));
  }
  const std::string workload = Text(At(world.WorkloadOf("train"), "metadata", "name"));
  if (state == "leaves") {
    world.controllers->SetPaused(true);
    world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
    REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
  } else if (state == "is deactivated") {
    world.Patch("workloads", "team", workload, {{"spec", {{"active", false}}}});
    REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
    world.RunFor(seconds(5));
  } else if (state == "is finished") {
    REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
    world.RunFor(seconds(3));
  }
  world.Delete("jobs", "team", "train", propagation);
  if (state == "leaves") {
    world.controllers->SetPaused(false);
    world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
  }
  REQUIRE(world.RunUntil([&] { return world.Get("jobs", "team", "train").is_null(); }));
  world.RunFor(seconds(10));
  const Json left = world.Get("workloads", "team", workload);
  CHECK(left.is_null() == (propagation != "Orphan"));
  if (!left.is_null()) {
    CHECK(sim::HasCondition(left, "Finished"));
    CHECK(At(left, "metadata", "finalizers").is_null());
  }
  if (state == "waits") world.Delete("jobs", "team", "blocker");
  world.MakeJob("next", 2, 5);
  REQUIRE(world.RunUntil([&] { return world.Finished("next"); }));
  world.RunFor(seconds(5));
  CHECK(At(world.Get("clusterqueues", "", "cq"), "status", "reservingWorkloads") == 0);
  CHECK(At(world.Get("clusterqueues", "", "cq"), "status", "pendingWorkloads") == 0);
  world.processes[0]->controller->engine()->Validate();
}

TEST_CASE("A Job whose stop is first seen with its deletion was evicted all the same, and leaves nothing behind") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("2");
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"preemption", {{"withinClusterQueue", "LowerPriority"}}}}}});
  world.AwaitActive("clusterqueues", "", "cq");
  world.Create({{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                {"kind", "WorkloadPriorityClass"},
                {"metadata", {{"name", "urgent"}}},
                {"value", 100}});
  world.MakeJob("train", 2, 3600);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(seconds(3));
  FaultRule stop;
  stop.user = World::kMuster;
  stop.verbs = {"patch"};
  stop.resource = "jobs";
  stop.times = -1;
  stop.fault.kind = Fault::Kind::kHoldAnswer;
  FaultRule blind = stop;
  blind.verbs = {"watch", "list"};
  blind.fault.kind = Fault::Kind::kRefuse;
  Fault cut;
  cut.kind = Fault::Kind::kCut;
  world.MakeJob("urgent", 2, 5, "lq", {{"metadata", {{"labels", {{"kueue.x-k8s.io/priority-class", "urgent"}}}}}});
  const auto held = world.server.faults().Add(stop);
  const auto refused = world.server.faults().Add(blind);
  world.server.BreakWatches("jobs", cut);
  REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
  world.Delete("jobs", "team", "train");
  REQUIRE(world.RunUntil([&] { return world.Get("jobs", "team", "train").is_null(); }));
  CHECK(muster.telemetry.pods_evicted == 0);
  world.server.faults().Remove(refused);
  world.RunFor(minutes(1));
  CHECK(muster.telemetry.pods_evicted == 2);
  world.server.Release(held);
  world.server.faults().Remove(held);
  REQUIRE(world.RunUntil([&] { return world.Finished("urgent"); }));
  CHECK(Notes(world, "Workload", "PreemptedWorkload").find("Preempted workload team/job-train-") == 0);
  world.RunFor(seconds(5));
  CHECK(Workloads(world) == 1);
  CHECK(At(world.Get("clusterqueues", "", "cq"), "status", "reservingWorkloads") == 0);
  muster.controller->engine()->Validate();
}

TEST_CASE("A Job that is made again under its name has nothing to do with the first one's Workload") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("2");
  const std::string first = Text(At(world.MakeJob("train", 2, 3600), "metadata", "uid"));
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(seconds(5));
  const auto again = [&](const std::string& propagation) {
    world.Delete("jobs", "team", "train", propagation);
    world.RunUntil([&] { return world.Get("jobs", "team", "train").is_null(); });
    world.MakeJob("train", 2, 30);
  };
  SECTION("while Muster looks") { again("Background"); }
  SECTION("orphaned, while Muster looks") { again("Orphan"); }
  SECTION("while nobody looks") {
    world.Kill(muster);
    again("Background");
    world.Start();
  }
  SECTION("orphaned, while nobody looks") {
    world.Kill(muster);
    again("Orphan");
    world.Start();
  }
  const std::string second = Text(At(world.Get("jobs", "team", "train"), "metadata", "uid"));
  REQUIRE(second != first);
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, minutes(5)));
  world.RunFor(seconds(10));
  CHECK(Text(At(world.WorkloadOf("train"), "metadata", "name")) == WorkloadName("Job", "batch", "train", second));
  CHECK(sim::HasCondition(world.WorkloadOf("train"), "Finished"));
  CHECK(sim::Number(At(world.Get("clusterqueues", "", "cq"), "status", "reservingWorkloads"), -1) == 0);
}

}  // namespace
}  // namespace muster::controller
