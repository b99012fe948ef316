// Edits of waiting and running Jobs and their Workloads: priority, activity, queue.
// What is right is kueue_semantics 2.3, 2.5 and 7.3, user_pains C14, H4 and H13.
#include <catch2/catch.hpp>

#include "drills.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using sim::Text;
using std::chrono::seconds;

constexpr const char* kClassLabel = "kueue.x-k8s.io/priority-class";

std::string ConditionOf(const World& world, const std::string& job, const std::string& type) {
  const Json workload = world.WorkloadOf(job);
  const Json& condition = sim::FindCondition(At(workload, "status", "conditions"), type);
  if (condition.is_null()) return "";
  return Text(sim::Get(condition, "status")) + "/" + Text(sim::Get(condition, "reason"));
}
void MakeClass(World& world, const std::string& name, int value) {
  world.Create({{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                {"kind", "WorkloadPriorityClass"},
                {"metadata", {{"name", name}}},
                {"value", value}});
}
void SetClass(World& world, const std::string& job, const Json& name) {
  world.Patch("jobs", "team", job, {{"metadata", {{"labels", {{kClassLabel, name}}}}}});
}
void PatchWorkload(World& world, const std::string& job, const Json& spec) {
  world.Patch("workloads", "team", Text(At(world.WorkloadOf(job), "metadata", "name")), {{"spec", spec}});
}
int64_t PriorityOf(const World& world, const std::string& job) {
  return sim::Number(At(world.WorkloadOf(job), "spec", "priority"), -1);
}

// A queue for one pod, which `running` has for `run_seconds`; `first` and `second` wait in this order.
struct Line {
  explicit Line(int run_seconds) {
    world.Start();
    world.MakeQueues("1");
    world.MakeJob("running", 1, run_seconds);
    REQUIRE(world.RunUntil([&] { return !Suspended(world, "running"); }));
    world.MakeJob("first", 1, 600);
    world.RunFor(seconds(2));
    world.MakeJob("second", 1, 600);
    world.RunFor(seconds(5));
    REQUIRE(ConditionOf(world, "first", "QuotaReserved") == "False/WaitingForQuota");
  }
  void Restart() {
    world.Kill(*world.processes.back());
    world.Start();
    world.RunFor(seconds(10));
  }
  std::string Next() {
    REQUIRE(world.RunUntil([&] { return !Suspended(world, "first") || !Suspended(world, "second"); },
                           std::chrono::minutes(5)));
    return Suspended(world, "first") ? "second" : "first";
  }
  World world;
};

TEST_CASE("Who waits moves with every change of its priority") {
  Line line(60);
  World& world = line.world;
  SECTION("left alone, the older one is first") { CHECK(line.Next() == "first"); }
  SECTION("a class that is given") {
    MakeClass(world, "high", 100);
    SetClass(world, "second", "high");
    CHECK(line.Next() == "second");
    CHECK(PriorityOf(world, "second") == 100);
    CHECK(Text(At(world.WorkloadOf("second"), "spec", "priorityClassRef", "name")) == "high");
  }
  SECTION("another class") {
    MakeClass(world, "high", 100);
    MakeClass(world, "low", -5);
    SetClass(world, "second", "high");
    world.RunFor(seconds(2));
    SetClass(world, "second", "low");
    CHECK(line.Next() == "first");
    CHECK(PriorityOf(world, "second") == -5);
  }
  SECTION("a class whose value changes") {
    MakeClass(world, "team", -1);
    SetClass(world, "second", "team");
    world.RunFor(seconds(2));
    world.Patch("workloadpriorityclasses", "", "team", {{"value", 7}});
    CHECK(line.Next() == "second");
    CHECK(PriorityOf(world, "second") == 7);
  }
  SECTION("a class whose value changed while nobody looked") {
    MakeClass(world, "team", -1);
    SetClass(world, "second", "team");
    world.RunFor(seconds(2));
    world.Kill(*world.processes.back());
    world.Patch("workloadpriorityclasses", "", "team", {{"value", 7}});
    world.Start();
    CHECK(line.Next() == "second");
  }
  SECTION("the Workload's own, set by hand") {
    PatchWorkload(world, "second", {{"priority", 9}});
    CHECK(line.Next() == "second");
    CHECK(PriorityOf(world, "second") == 9);
  }
  SECTION("the same, known to the next process") {
    PatchWorkload(world, "second", {{"priority", 9}});
    line.Restart();
    CHECK(PriorityOf(world, "second") == 9);
    CHECK(line.Next() == "second");
  }
  SECTION("by hand over a class, also for the next process") {
    MakeClass(world, "low", -5);
    SetClass(world, "second", "low");
    world.RunFor(seconds(2));
    PatchWorkload(world, "second", {{"priority", 9}});
    world.RunFor(seconds(2));
    line.Restart();
    CHECK(PriorityOf(world, "second") == 9);
    CHECK(line.Next() == "second");
  }
  SECTION("by hand over a class, until that is edited") {
    MakeClass(world, "low", -5);
    SetClass(world, "second", "low");
    world.RunFor(seconds(2));
    PatchWorkload(world, "second", {{"priority", 9}});
    world.RunFor(seconds(2));
    world.Patch("workloadpriorityclasses", "", "low", {{"value", -6}});
    CHECK(line.Next() == "first");
    CHECK(PriorityOf(world, "second") == -6);
    CHECK_FALSE(At(world.WorkloadOf("second"), "metadata", "annotations").contains("muster.dev/priority-set-over"));
  }
  SECTION("by hand and then by a class") {
    PatchWorkload(world, "second", {{"priority", 9}});
    MakeClass(world, "low", -5);
    SetClass(world, "second", "low");
    CHECK(line.Next() == "first");
    CHECK(PriorityOf(world, "second") == -5);
  }
}

TEST_CASE("A class that is deleted takes nothing from those who wait with it") {
  Line line(60);
  World& world = line.world;
  MakeClass(world, "high", 100);
  SetClass(world, "second", "high");
  world.RunFor(seconds(2));
  world.Delete("workloadpriorityclasses", "", "high");
  SECTION("for this process") {}
  SECTION("for the next one") { line.Restart(); }
  CHECK(line.Next() == "second");
  CHECK(PriorityOf(world, "second") == 100);
}

TEST_CASE("The class of a running gang may change, and its kind may not") {
  World world;
  world.Start();
  world.MakeQueues("4");
  MakeClass(world, "low", 1);
  MakeClass(world, "high", 100);
  world.MakeJob("classed", 1, 600);
  SetClass(world, "classed", "low");
  world.MakeJob("plain", 1, 600);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "classed") && !Suspended(world, "plain"); }));
  world.RunFor(seconds(5));
  SetClass(world, "classed", "high");
  SetClass(world, "plain", "high");
  world.RunFor(seconds(5));
  CHECK(PriorityOf(world, "classed") == 100);
  // Kueue leaves a reserved Workload without a class alone (kueue_semantics 2.3), and the API would refuse it.
  CHECK(PriorityOf(world, "plain") == 0);
  CHECK(At(world.WorkloadOf("plain"), "spec", "priorityClassRef").is_null());
  const size_t before = world.server.writes().size();
  world.RunFor(std::chrono::minutes(3));
  CHECK(world.Writes(before).empty());
  CHECK_FALSE(Suspended(world, "classed"));
  CHECK_FALSE(Suspended(world, "plain"));
}

// H4: no quota, and never admitted until it is active again.
TEST_CASE("What is deactivated holds nothing and is not started, whenever that comes") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("2");
  const auto reserving = [&] {
    return sim::Number(At(world.Get("clusterqueues", "", "cq"), "status", "reservingWorkloads"), -1);
  };
  const auto run = [&] {
    world.MakeJob("train", 2, 60);
    REQUIRE(world.RunUntil([&] { return ConditionOf(world, "train", "Admitted") == "True/Admitted"; }));
    world.RunFor(seconds(5));
  };
  SECTION("while it waits") {
    world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "Hold"}}}});
    world.RunFor(seconds(3));
    world.MakeJob("train", 2, 60);
    world.RunFor(seconds(3));
    PatchWorkload(world, "train", {{"active", false}});
    world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
  }
  SECTION("while it runs") {
    run();
    PatchWorkload(world, "train", {{"active", false}});
  }
  SECTION("while it is being evicted") {
    run();
    world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
    REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
    PatchWorkload(world, "train", {{"active", false}});
    world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
  }
  SECTION("while nobody looks") {
    run();
    world.Kill(muster);
    PatchWorkload(world, "train", {{"active", false}});
    world.Start();
  }
  world.RunFor(seconds(30));
  CHECK(Suspended(world, "train"));
  CHECK(reserving() == 0);
  CHECK(ConditionOf(world, "train", "QuotaReserved") == "False/Deactivated");
  world.MakeJob("other", 2, 5);
  REQUIRE(world.RunUntil([&] { return world.Finished("other"); }));
  world.RunFor(std::chrono::minutes(2));
  CHECK(Suspended(world, "train"));
  PatchWorkload(world, "train", {{"active", true}});
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, std::chrono::minutes(5)));
}

// H13, kueue_semantics 2.5: a waiting Job that is edited keeps its place, and its Workload follows.
TEST_CASE("A waiting Job that is edited keeps its place") {
  Line line(60);
  World& world = line.world;
  const std::string name = Text(At(world.WorkloadOf("first"), "metadata", "name"));
  world.Patch("jobs", "team", "first", {{"spec", {{"parallelism", 2}}}});
  world.RunFor(seconds(2));
  world.Patch("jobs", "team", "first", {{"spec", {{"parallelism", 1}}}});
  SECTION("") {}
  SECTION("with another template") {
    world.Patch("jobs", "team", "first", {{"spec", {{"template", {{"spec", {{"nodeSelector", {{"disk", "ssd"}}}}}}}}}});
  }
  CHECK(line.Next() == "first");
  CHECK(Text(At(world.WorkloadOf("first"), "metadata", "name")) == name);
}

// It would hold quota of a queue that it does not name, and the policies would keep it there for as long as it runs.
TEST_CASE("A gang that is moved to another queue while it is suspended is stopped, and starts from there") {
  World world;
  Process* muster = &world.Start();
  world.MakeQueues("4");
  world.Create(Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"LocalQueue",
    "metadata":{"name":"next","namespace":"team"},"spec":{"clusterQueue":"cq","stopPolicy":"None"}})"));
  world.AwaitActive("localqueues", "team", "next");
  world.MakeJob("train", 2, 600);
  REQUIRE(world.RunUntil([&] { return ConditionOf(world, "train", "Admitted") == "True/Admitted"; }));
  world.RunFor(seconds(5));
  const auto suspend = [&] { world.Patch("jobs", "team", "train", {{"spec", {{"suspend", true}}}}); };
  const auto move = [&] {
    world.Patch("jobs", "team", "train", {{"metadata", {{"labels", {{"kueue.x-k8s.io/queue-name", "next"}}}}}});
  };
  SECTION("while Muster was down") {
    world.Kill(*muster);
    suspend();
    world.RunFor(seconds(5));
    move();
    muster = &world.Start();
  }
  SECTION("while it is being started again") {
    world.server.faults().Add(Strike({sim::Fault::Kind::kDelayRequest, 0}, "patch", "jobs", 1, "resumed"));
    suspend();
    world.RunFor(seconds(1));
    REQUIRE(Suspended(world, "train"));
    move();
  }
  world.RunFor(seconds(30));
  CHECK_FALSE(Suspended(world, "train"));
  CHECK(muster->telemetry.evicted["JobSuspended"] == 1);
  CHECK(Text(At(world.Get("jobs", "team", "train"), "spec", "template", "metadata", "labels",
                "kueue.x-k8s.io/local-queue-name")) == "next");
  CHECK(Text(At(world.WorkloadOf("train"), "spec", "queueName")) == "next");
  const auto reserving = [&](const std::string& queue) {
    return sim::Number(At(world.Get("localqueues", "team", queue), "status", "reservingWorkloads"), -1);
  };
  CHECK(reserving("lq") == 0);
  CHECK(reserving("next") == 1);
}

}  // namespace
}  // namespace muster::controller
