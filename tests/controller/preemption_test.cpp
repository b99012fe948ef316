// Preemption as the objects show it: what becomes of a victim and of whom it makes room for, whichever object holds
// the record; writes that fail, and processes that die, in the middle of it. What is shown is kueue_semantics 6.4 and
// 7.2; the numbers of user_pains stand at each.
#include <catch2/catch.hpp>

#include "drills.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Fault;
using sim::Json;
using sim::Text;

constexpr const char* kStops = R"("op":"add","path":"/spec/suspend","value":true)";

// Queue "cq", where higher priorities preempt lower ones, and WorkloadPriorityClasses "low" (1) and "high" (9).
void MakePreempting(World& world, const std::string& cpu) {
  world.MakeQueues(cpu);
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"preemption", {{"withinClusterQueue", "LowerPriority"}}}}}});
  for (const auto& [name, value] : {std::pair("low", 1), std::pair("middle", 5), std::pair("high", 9)}) {
    world.Create({{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                  {"kind", "WorkloadPriorityClass"},
                  {"metadata", {{"name", name}}},
                  {"value", value}});
  }
}

// Its pods take `dying` seconds to end once they are told to.
Json MakeJob(World& world, const std::string& name, const std::string& priority, int pods, int seconds = 600,
             int dying = 0) {
  const Json annotations = {{"muster.dev/termination-seconds", std::to_string(dying)}};
  return world.MakeJob(name, pods, seconds, "lq",
                       {{"metadata", {{"labels", {{"kueue.x-k8s.io/priority-class", priority}}}}},
                        {"spec", {{"template", {{"metadata", {{"annotations", annotations}}}}}}}});
}

bool Runs(const World& world, const std::string& job) {
  const Json now = world.Get("jobs", "team", job);
  return !now.is_null() && !sim::Flag(At(now, "spec", "suspend")) &&
         sim::Number(At(now, "status", "active")) == sim::Number(At(now, "spec", "parallelism"));
}
void AwaitRuns(World& world, const std::string& job) {
  INFO(job << " runs");
  REQUIRE(world.RunUntil([&] { return Runs(world, job) && sim::HasCondition(world.WorkloadOf(job), "Admitted"); },
                         std::chrono::minutes(10)));
}
std::string Uid(const World& world, const std::string& job) {
  return Text(At(world.Get("jobs", "team", job), "metadata", "uid"));
}

// "reason: note" of each Event on that object, once for each time it was told.
std::multiset<std::string> EventsOn(const World& world, const std::string& kind, const std::string& name) {
  std::multiset<std::string> out;
  for (const Json& event : world.List("events", "team")) {
    if (Text(At(event, "regarding", "kind")) != kind || Text(At(event, "regarding", "name")) != name) continue;
    const int64_t times = sim::Number(At(event, "series", "count"), 1);
    for (int64_t i = 0; i < times; ++i) {
      out.insert(Text(sim::Get(event, "reason")) + ": " + Text(sim::Get(event, "note")));
    }
  }
  return out;
}
int CountEvents(const World& world, const std::string& reason) {
  int count = 0;
  for (const Json& event : world.List("events", "team")) {
    if (Text(sim::Get(event, "reason")) == reason) {
      count += static_cast<int>(sim::Number(At(event, "series", "count"), 1));
    }
  }
  return count;
}

// No more pods than the queue has quota for, those that have started and not ended, or were not told to end; looked at
// after each commit.
class Quota {
 public:
  Quota(World* world, int64_t cpus) {
    world->store.Subscribe([this, cpus](const sim::Change& change) {
      if (change.kind->plural != "jobs") return;
      const Json& job = *change.object;
      const std::string uid = Text(At(job, "metadata", "uid"));
      held_.erase(uid);
      const bool ended = sim::HasCondition(job, "Complete") || sim::HasCondition(job, "Failed");
      if (change.type == sim::Change::Type::kDeleted || ended) return;
      const int64_t active = sim::Number(At(job, "status", "active"));
      const bool runs = !sim::Flag(At(job, "spec", "suspend"));
      if (runs || active > 0) held_[uid] = runs ? sim::Number(At(job, "spec", "parallelism")) : active;
      int64_t sum = 0;
      for (const auto& [holder, pods] : held_) sum += pods;
      REQUIRE(sum <= cpus);
    });
  }

 private:
  std::map<std::string, int64_t> held_;
};

const std::string kPaths = "; preemptor path: /cq; preemptee path: /cq";
const std::string kPriorities =
    "; preemptor effective priority: 9 (base: 9, boost: 0); preemptee effective priority: 1 (base: 1, boost: 0)";

// What the recording "preemption" shows, and what comes after it.
TEST_CASE("Who is preempted, by whom and why stands on the victim, its Job and its preemptor") {
  World world;
  Process& muster = world.Start();
  MakePreempting(world, "4");
  MakeJob(world, "victim", "low", 3, 30);
  AwaitRuns(world, "victim");
  world.RunFor(std::chrono::seconds(5));
  MakeJob(world, "urgent", "high", 2, 20);
  AwaitRuns(world, "urgent");
  world.RunFor(std::chrono::seconds(3));
  const Json victim = world.WorkloadOf("victim");
  const Json urgent = world.WorkloadOf("urgent");
  // The Workload of the preemptor was not there yet when its victims were chosen.
  const std::string message = "Preempted to accommodate a workload (UID: UNKNOWN, JobUID: " + Uid(world, "urgent") +
                              ") due to prioritization in the ClusterQueue" + kPaths;
  CHECK(ConditionOf(victim, "Evicted") == "True/Preempted");
  CHECK(MessageOf(victim, "Evicted") == message);
  CHECK(ConditionOf(victim, "Preempted") == "True/InClusterQueue");
  CHECK(MessageOf(victim, "Preempted") == message);
  CHECK(ConditionOf(victim, "Requeued") == "True/Preempted");
  CHECK(MessageOf(victim, "Requeued") == message);
  CHECK(ConditionOf(victim, "QuotaReserved") == "False/WaitingForQuota");
  CHECK(At(victim, "status", "schedulingStats", "evictions").dump() ==
        R"([{"count":1,"reason":"Preempted","underlyingCause":""}])");
  const std::string victim_name = Text(At(victim, "metadata", "name"));
  const auto on_victim = EventsOn(world, "Workload", victim_name);
  CHECK(on_victim.count("EvictedDueToPreempted: " + message) == 1);
  CHECK(on_victim.count("Preempted: " + message + kPriorities) == 1);
  CHECK(EventsOn(world, "Workload", Text(At(urgent, "metadata", "name")))
            .count("PreemptedWorkload: Preempted workload team/" + victim_name +
                   " (UID: " + Text(At(victim, "metadata", "uid")) + ") in ClusterQueue cq" + kPriorities) == 1);
  CHECK(EventsOn(world, "Job", "victim").count("Stopped: " + message) == 1);
  CHECK(muster.telemetry.evicted == std::map<std::string, int>{{"Preempted", 1}});
  CHECK(muster.telemetry.preempted == std::map<std::string, int>{{"cq InClusterQueue", 1}});
  CHECK(muster.telemetry.evictions_done == 1);

  // Started again: what was said of it is over.
  AwaitRuns(world, "victim");
  world.RunFor(std::chrono::seconds(3));
  const Json again = world.WorkloadOf("victim");
  CHECK(ConditionOf(again, "Evicted") == "False/QuotaReserved");
  CHECK(MessageOf(again, "Evicted") == "Previously: " + message);
  CHECK(ConditionOf(again, "Preempted") == "False/QuotaReserved");
  CHECK(MessageOf(again, "Preempted") == "Previously: " + message);
  REQUIRE(
      world.RunUntil([&] { return world.Finished("victim") && world.Finished("urgent"); }, std::chrono::minutes(10)));
  ComesToRest(world, muster);
}

TEST_CASE("While its victims leave, a preemptor says how many it waits for, and their quota is nobody else's") {
  World world;
  Process& muster = world.Start();
  Quota quota(&world, 4);
  MakePreempting(world, "4");
  MakeJob(world, "one", "low", 2);
  MakeJob(world, "two", "low", 2);
  AwaitRuns(world, "one");
  AwaitRuns(world, "two");
  // The job controller says nothing of their end for a while.
  world.controllers->SetPaused(true);
  MakeJob(world, "urgent", "high", 4, 20);
  REQUIRE(world.RunUntil([&] {
    return ConditionOf(world.WorkloadOf("urgent"), "QuotaReserved") == "False/WaitingForPreemptedWorkloads";
  }));
  CHECK(
      MessageOf(world.WorkloadOf("urgent"), "QuotaReserved") ==
      "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 4 more needed. Pending "
      "the preemption of 2 workload(s)");
  REQUIRE(world.RunUntil([&] { return Suspended(world, "one") && Suspended(world, "two"); }));
  CHECK(ConditionOf(world.WorkloadOf("one"), "QuotaReserved") == "True/QuotaReserved");
  world.RunFor(std::chrono::minutes(2));
  CHECK(Suspended(world, "urgent"));
  MakeJob(world, "small", "middle", 1, 5);
  world.RunFor(std::chrono::seconds(10));
  CHECK(Suspended(world, "small"));
  world.controllers->SetPaused(false);
  AwaitRuns(world, "urgent");
  CHECK(muster.telemetry.evicted == std::map<std::string, int>{{"Preempted", 2}});
  REQUIRE(world.RunUntil([&] { return world.Finished("urgent"); }, std::chrono::minutes(10)));
}

// B8: each stop is made to fail in each way.
TEST_CASE("A stop for a preemptor that fails, is lost or answered late is made again, and counts once") {
  for (const Way& way : AllWays()) {
    DYNAMIC_SECTION(way.Name()) {
      World world;
      Process& muster = world.Start();
      Quota quota(&world, 4);
      MakePreempting(world, "4");
      MakeJob(world, "victim", "low", 3);
      AwaitRuns(world, "victim");
      world.RunFor(std::chrono::seconds(2));
      const auto id = world.server.faults().Add(Strike(way, "patch", "jobs", 2, kStops));
      MakeJob(world, "urgent", "high", 2, 20);
      AwaitRuns(world, "urgent");
      CHECK(world.server.faults().hits(id) >= 1);
      REQUIRE(world.RunUntil([&] { return world.Finished("urgent"); }, std::chrono::minutes(10)));
      AwaitRuns(world, "victim");
      CHECK(EvictionsIn(world.WorkloadOf("victim")) == 1);
      CHECK(muster.telemetry.evicted == std::map<std::string, int>{{"Preempted", 1}});
      CHECK(muster.telemetry.preempted == std::map<std::string, int>{{"cq InClusterQueue", 1}});
      CHECK(CountEvents(world, "Preempted") == 1);
      CHECK(CountEvents(world, "PreemptedWorkload") == 1);
      CHECK(CountEvents(world, "Stopped") == 1);
    }
  }
}

// B8: the victim is gone before the stop comes through.
TEST_CASE("A victim that goes by itself before it is stopped makes the same room") {
  enum class Goes { kEnds, kIsDeleted, kIsSuspended, kIsDeactivated };
  const Goes goes = GENERATE(Goes::kEnds, Goes::kIsDeleted, Goes::kIsSuspended, Goes::kIsDeactivated);
  CAPTURE(static_cast<int>(goes));
  World world;
  Process& muster = world.Start();
  Quota quota(&world, 4);
  MakePreempting(world, "4");
  MakeJob(world, "victim", "low", 3, goes == Goes::kEnds ? 20 : 600);
  AwaitRuns(world, "victim");
  const auto id = world.server.faults().Add(Strike({Fault::Kind::kAnswer, 500}, "patch", "jobs", -1, kStops));
  MakeJob(world, "urgent", "high", 2, 20);
  REQUIRE(world.RunUntil([&] { return world.server.faults().hits(id) > 0; }));
  switch (goes) {
    case Goes::kEnds:
      REQUIRE(world.RunUntil([&] { return world.Finished("victim"); }));
      break;
    case Goes::kIsDeleted:
      world.Delete("jobs", "team", "victim");
      break;
    case Goes::kIsSuspended:
      world.Patch("jobs", "team", "victim", {{"spec", {{"suspend", true}}}});
      world.RunFor(std::chrono::seconds(1));
      world.server.faults().Remove(id);
      break;
    case Goes::kIsDeactivated:
      world.Patch("workloads", "team", Text(At(world.WorkloadOf("victim"), "metadata", "name")),
                  {{"spec", {{"active", false}}}});
      world.RunFor(std::chrono::seconds(1));
      world.server.faults().Remove(id);
      break;
  }
  AwaitRuns(world, "urgent");
  const bool stopped = goes == Goes::kIsSuspended || goes == Goes::kIsDeactivated;
  CHECK(muster.telemetry.evicted ==
        (stopped ? std::map<std::string, int>{{"Preempted", 1}} : std::map<std::string, int>{}));
  if (stopped) CHECK(EvictionsIn(world.WorkloadOf("victim")) == 1);
  if (goes == Goes::kEnds) CHECK_FALSE(sim::HasCondition(world.WorkloadOf("victim"), "Evicted"));
  world.server.faults().Clear();
  REQUIRE(world.RunUntil([&] { return world.Finished("urgent"); }, std::chrono::minutes(10)));
  if (goes == Goes::kIsSuspended) AwaitRuns(world, "victim");
}

TEST_CASE("Who made way for a Job that is gone before the stop was made runs on") {
  World world;
  Process& muster = world.Start();
  MakePreempting(world, "4");
  MakeJob(world, "victim", "low", 3, 60);
  AwaitRuns(world, "victim");
  const auto id = world.server.faults().Add(Strike({Fault::Kind::kAnswer, 500}, "patch", "jobs", -1, kStops));
  MakeJob(world, "urgent", "high", 2, 20);
  REQUIRE(world.RunUntil([&] { return world.server.faults().hits(id) > 0; }));
  world.Delete("jobs", "team", "urgent");
  world.RunFor(std::chrono::seconds(1));
  world.server.faults().Clear();
  REQUIRE(world.RunUntil([&] { return world.Finished("victim"); }, std::chrono::minutes(5)));
  CHECK(muster.telemetry.evicted.empty());
  CHECK(EvictionsIn(world.WorkloadOf("victim")) == 0);
  ComesToRest(world, muster);
}

// ---- whatever holds the record ------------------------------------------------------------------

// A Workload without a Job of that class's value.
Json LoneWorkload(World& world, const std::string& name, const std::string& priority, int pods) {
  const int64_t value = sim::Number(sim::Get(world.Get("workloadpriorityclasses", "", priority), "value"));
  Json workload = Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload",
    "metadata":{"namespace":"team"},"spec":{"active":true,"queueName":"lq","podSets":[{"name":"main",
    "template":{"spec":{"restartPolicy":"Never","containers":[
      {"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}]}})");
  workload["metadata"]["name"] = name;
  workload["spec"]["podSets"][0]["count"] = pods;
  workload["spec"]["priority"] = value;
  workload["spec"]["priorityClassRef"] = {
      {"group", "kueue.x-k8s.io"}, {"kind", "WorkloadPriorityClass"}, {"name", priority}};
  return workload;
}

TEST_CASE("Workloads without a Job are preempted and preempt as Jobs do") {
  World world;
  Process& muster = world.Start();
  MakePreempting(world, "4");
  const auto lone = [&](const std::string& name) { return world.Get("workloads", "team", name); };
  world.Create(LoneWorkload(world, "victim", "low", 3));
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(lone("victim"), "Admitted"); }));
  const std::optional<Way> way =
      GENERATE(as<std::optional<Way>>(), std::nullopt, Way{Fault::Kind::kAnswer, 500}, Way{Fault::Kind::kAnswer, 422},
               Way{Fault::Kind::kAnswer, 409}, Way{Fault::Kind::kLoseRequest, 0}, Way{Fault::Kind::kLoseAnswer, 0},
               Way{Fault::Kind::kHang, 0});
  CAPTURE(way.has_value() ? way->Name() : "");
  // Of the write that shows the eviction.
  if (way.has_value()) world.server.faults().Add(Strike(*way, "patch", "workloads/status", 2, "Preempted to"));
  world.Create(LoneWorkload(world, "urgent", "middle", 2));
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(lone("urgent"), "Admitted"); }, std::chrono::minutes(5)));
  const std::string message =
      "Preempted to accommodate a workload (UID: " + Text(At(lone("urgent"), "metadata", "uid")) +
      ", JobUID: UNKNOWN) due to prioritization in the ClusterQueue" + kPaths;
  CHECK(ConditionOf(lone("victim"), "Evicted") == "True/Preempted");
  CHECK(MessageOf(lone("victim"), "Evicted") == message);
  CHECK(ConditionOf(lone("victim"), "Preempted") == "True/InClusterQueue");
  REQUIRE(world.RunUntil([&] { return ConditionOf(lone("victim"), "Requeued") == "True/Preempted"; }));
  CHECK(EvictionsIn(lone("victim")) == 1);
  CHECK(muster.telemetry.evicted == std::map<std::string, int>{{"Preempted", 1}});
  CHECK(muster.telemetry.preempted == std::map<std::string, int>{{"cq InClusterQueue", 1}});
  CHECK(muster.telemetry.evictions_done == 1);
  CHECK(muster.controller->evicting().empty());
  world.RunFor(std::chrono::seconds(5));
  CHECK(CountEvents(world, "Preempted") == 1);
  CHECK(CountEvents(world, "PreemptedWorkload") == 1);
  // A Job takes the room of a Workload too, and the other way round.
  MakeJob(world, "job", "high", 4, 20);
  AwaitRuns(world, "job");
  CHECK(ConditionOf(lone("urgent"), "Evicted") == "True/Preempted");
  REQUIRE(world.RunUntil([&] { return world.Finished("job"); }, std::chrono::minutes(5)));
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(lone("urgent"), "Admitted"); }));
  CHECK(ConditionOf(lone("urgent"), "Evicted") == "False/QuotaReserved");
  ComesToRest(world, muster);
}

TEST_CASE("A Job with a prebuilt Workload is preempted and preempts as others do") {
  World world;
  Process& muster = world.Start();
  Quota quota(&world, 4);
  MakePreempting(world, "4");
  const auto make = [&](const std::string& name, const std::string& priority, int pods, int seconds) {
    world.Create(LoneWorkload(world, name + "-workload", priority, pods));
    world.MakeJob(name, pods, seconds, "lq",
                  {{"metadata",
                    {{"labels", {{"kueue.x-k8s.io/priority-class", priority}}},
                     {"annotations", {{"kueue.x-k8s.io/prebuilt-workload-name", name + "-workload"}}}}}});
  };
  const auto own = [&](const std::string& name) { return world.Get("workloads", "team", name + "-workload"); };
  // Held up between its reservation and its start, or running.
  const bool reserved_only = GENERATE(false, true);
  CAPTURE(reserved_only);
  sim::FaultPlan::RuleId held_up = 0;
  if (reserved_only) {
    held_up = world.server.faults().Add(Strike({Fault::Kind::kLoseRequest, 0}, "patch", "jobs", -1));
  }
  make("victim", "low", 3, 60);
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(own("victim"), "Admitted"); }, std::chrono::minutes(5)));
  if (!reserved_only) {
    REQUIRE(world.RunUntil([&] { return Runs(world, "victim"); }));
    world.RunFor(std::chrono::seconds(5));
  }
  make("urgent", "high", 2, 20);
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(own("urgent"), "Admitted"); }, std::chrono::minutes(5)));
  if (reserved_only) world.server.faults().Remove(held_up);
  REQUIRE(world.RunUntil([&] { return Runs(world, "urgent"); }, std::chrono::minutes(5)));
  CHECK(ConditionOf(own("victim"), "Evicted") == "True/Preempted");
  // Whether the preemptor was its Job's already when that was decided, is chance.
  CHECK_THAT(MessageOf(own("victim"), "Evicted"),
             Catch::StartsWith("Preempted to accommodate a workload (UID: " +
                               Text(At(own("urgent"), "metadata", "uid")) + ", JobUID: ") &&
                 Catch::EndsWith(") due to prioritization in the ClusterQueue" + kPaths));
  CHECK(EvictionsIn(own("victim")) == 1);
  REQUIRE(
      world.RunUntil([&] { return world.Finished("victim") && world.Finished("urgent"); }, std::chrono::minutes(10)));
  CHECK(muster.telemetry.evicted == std::map<std::string, int>{{"Preempted", 1}});
  ComesToRest(world, muster);
}

// ---- restarts -----------------------------------------------------------------------------------

// Pods that take 20 s to end, which hold their quota until then; the process dies at each write of it, and is back
// soon. Small comes meanwhile, and would fit into what is free already.
TEST_CASE("Whenever the process dies, a preemptor gets the room that was made for it, and each victim goes once") {
  for (int point = 0; point < 16; ++point) {
    for (const bool applied : {false, true}) {
      DYNAMIC_SECTION("write " << point << (applied ? ", after" : ", before")) {
        World world(static_cast<uint64_t>(point) + 1);
        Quota quota(&world, 5);
        Options options = World::DefaultOptions();
        options.wait_for_terminating_pods = true;
        Process* muster = &world.Start("", options);
        MakePreempting(world, "5");
        for (const char* name : {"one", "two"}) {
          MakeJob(world, name, "low", 2, 100, 20);
          AwaitRuns(world, name);
        }
        world.RunFor(std::chrono::seconds(5));
        const WriteCounter writes(&world, applied ? sim::SimServer::Phase::kApplied : sim::SimServer::Phase::kSent);
        MakeJob(world, "urgent", "high", 5, 30);
        world.RunUntil([&] { return writes.seen() > point; }, std::chrono::seconds(25));
        world.Kill(*muster);
        MakeJob(world, "small", "middle", 1, 5);
        world.RunFor(std::chrono::seconds(2));
        muster = &world.Start("", options);
        int small_first = 0;
        REQUIRE(world.RunUntil(
            [&] {
              if (!Suspended(world, "small")) ++small_first;
              return Runs(world, "urgent");
            },
            std::chrono::minutes(3)));
        CHECK(small_first == 0);
        REQUIRE(world.RunUntil(
            [&] {
              return world.Finished("urgent") && world.Finished("small") && world.Finished("one") &&
                     world.Finished("two");
            },
            std::chrono::minutes(20)));
        for (const char* name : {"one", "two"}) {
          INFO(name);
          CHECK(EvictionsIn(world.WorkloadOf(name)) == 1);
        }
        CHECK(EvictionsIn(world.WorkloadOf("urgent")) == 0);
        ComesToRest(world, *muster);
        CHECK(Reserving(world) == 0);
      }
    }
  }
}

// Nothing of the decision is in the objects but the victims' records.
TEST_CASE("A preemptor that waits for its victims waits for the same after a restart") {
  World world;
  Options options = World::DefaultOptions();
  options.wait_for_terminating_pods = true;
  Process* muster = &world.Start("", options);
  MakePreempting(world, "4");
  MakeJob(world, "one", "low", 2, 600, 120);
  MakeJob(world, "two", "low", 2, 600);
  AwaitRuns(world, "one");
  AwaitRuns(world, "two");
  MakeJob(world, "urgent", "high", 3, 20);
  REQUIRE(world.RunUntil([&] { return Suspended(world, "one") && Suspended(world, "two") && Reserving(world) == 1; }));
  for (int i = 0; i < 3; ++i) {
    world.Kill(*muster);
    world.RunFor(std::chrono::seconds(2));
    muster = &world.Start("", options);
    world.RunFor(std::chrono::seconds(15));
    CHECK(Suspended(world, "urgent"));
    CHECK(Suspended(world, "two"));  // it would fit
    CHECK(ConditionOf(world.WorkloadOf("urgent"), "QuotaReserved") == "False/WaitingForPreemptedWorkloads");
    const std::optional<engine::WorkloadView> view = muster->controller->engine()->ViewWorkload(Uid(world, "urgent"));
    REQUIRE(view.has_value());
    REQUIRE(view->kept_room.has_value());
    CHECK(view->kept_room->victims == std::vector<std::string>{Uid(world, "one")});
  }
  AwaitRuns(world, "urgent");
  CHECK(EvictionsIn(world.WorkloadOf("one")) == 1);
  CHECK(EvictionsIn(world.WorkloadOf("two")) == 1);
}

// Once the victim has left, only its Workload tells for whom. The first of the preemptor's queue can never start, so
// that the victim's queue has its turn before the preemptor has.
TEST_CASE("A victim that waits is not started before its preemptor, though that is refused or the process dies") {
  for (const bool dies : {false, true}) {
    DYNAMIC_SECTION((dies ? "the process dies" : "the start is refused")) {
      World world;
      Process* muster = &world.Start();
      MakePreempting(world, "0");
      world.Patch("clusterqueues", "", "cq", {{"spec", {{"cohortName", "cohort"}}}});
      Json own = world.Get("clusterqueues", "", "cq");
      own["metadata"] = {{"name", "own"}};
      own["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "4";
      own["spec"]["preemption"] = {{"reclaimWithinCohort", "Any"}};
      world.Create(own);
      Json local = world.Get("localqueues", "team", "lq");
      local["metadata"] = {{"name", "own"}, {"namespace", "team"}};
      local["spec"]["clusterQueue"] = "own";
      world.Create(local);
      MakeJob(world, "victim", "low", 4, 100);
      AwaitRuns(world, "victim");
      const Json is_high = {{"metadata", {{"labels", {{"kueue.x-k8s.io/priority-class", "high"}}}}}};
      world.MakeJob("never", 5, 20, "own", is_high);
      sim::FaultRule starts = Strike({Fault::Kind::kAnswer, 422}, "patch", "jobs", dies ? -1 : 2);
      starts.name = "owner";
      const auto id = world.server.faults().Add(starts);
      world.MakeJob("owner", 4, 20, "own");
      REQUIRE(world.RunUntil([&] { return world.server.faults().hits(id) > 0 && Suspended(world, "victim"); }));
      if (dies) {
        world.Kill(*muster);
        world.server.faults().Clear();
        muster = &world.Start();
      }
      bool victim_ran = false;
      REQUIRE(world.RunUntil([&] {
        victim_ran = victim_ran || !Suspended(world, "victim");
        return Runs(world, "owner");
      }));
      CHECK_FALSE(victim_ran);
      REQUIRE(
          world.RunUntil([&] { return world.Finished("owner") && world.Finished("victim"); }, std::chrono::minutes(5)));
      CHECK(EvictionsIn(world.WorkloadOf("victim")) == 1);
      ComesToRest(world, *muster);
    }
  }
}

// Before its Job took it, the Workload preempted by itself, and the victims' records name it.
TEST_CASE("A preemptor that its Job has taken since waits for the same victims after a restart") {
  World world;
  Options options = World::DefaultOptions();
  options.wait_for_terminating_pods = true;
  Process* muster = &world.Start("", options);
  MakePreempting(world, "4");
  MakeJob(world, "one", "low", 2, 600, 120);
  MakeJob(world, "two", "low", 2, 600);
  AwaitRuns(world, "one");
  AwaitRuns(world, "two");
  world.Create(LoneWorkload(world, "own", "high", 3));
  REQUIRE(world.RunUntil([&] { return Suspended(world, "one") && Suspended(world, "two") && Reserving(world) == 1; }));
  world.MakeJob("urgent", 3, 20, "lq",
                {{"metadata",
                  {{"labels", {{"kueue.x-k8s.io/priority-class", "high"}}},
                   {"annotations", {{"kueue.x-k8s.io/prebuilt-workload-name", "own"}}}}}});
  const auto own = [&] { return world.Get("workloads", "team", "own"); };
  REQUIRE(world.RunUntil([&] { return !At(own(), "metadata", "ownerReferences").is_null(); }));
  for (int i = 0; i < 2; ++i) {
    world.Kill(*muster);
    world.RunFor(std::chrono::seconds(2));
    muster = &world.Start("", options);
    world.RunFor(std::chrono::seconds(15));
    CHECK(Suspended(world, "urgent"));
    CHECK(Suspended(world, "two"));  // it would fit
    CHECK(ConditionOf(own(), "QuotaReserved") == "False/WaitingForPreemptedWorkloads");
    const std::optional<engine::WorkloadView> view = muster->controller->engine()->ViewWorkload(Uid(world, "urgent"));
    REQUIRE(view.has_value());
    REQUIRE(view->kept_room.has_value());
    CHECK(view->kept_room->victims == std::vector<std::string>{Uid(world, "one")});
  }
  REQUIRE(world.RunUntil([&] { return Runs(world, "urgent"); }, std::chrono::minutes(5)));
  CHECK(EvictionsIn(world.WorkloadOf("one")) == 1);
  CHECK(EvictionsIn(world.WorkloadOf("two")) == 1);
}

// ---- gates --------------------------------------------------------------------------------------

constexpr const char* kGate = "example.com/gate";
const std::string kGated = "Workload requires preemption, but it's gated";

Json NamedGates() {
  const Json gate = {{"name", kGate}};
  return Json::array({gate});
}
void OpenGate(World& world, const std::string& workload) {
  Json gates = NamedGates();
  gates[0]["position"] = "Open";
  gates[0]["lastTransitionTime"] = "2026-01-01T00:00:00Z";
  world.Patch("workloads", "team", workload, {{"status", {{"preemptionGates", gates}}}}, "status");
}

// kueue_semantics 5.2, 5.4, 6.4.
TEST_CASE("A Workload with a closed preemption gate evicts nobody until it is open; an eviction closes it again") {
  World world;
  Process* muster = &world.Start();
  Quota quota(&world, 4);
  MakePreempting(world, "4");
  MakeJob(world, "victim", "low", 3);
  AwaitRuns(world, "victim");
  Json gated = LoneWorkload(world, "gated", "high", 2);
  gated["spec"]["preemptionGates"] = NamedGates();
  world.Create(gated);
  const auto own = [&] { return world.Get("workloads", "team", "gated"); };
  REQUIRE(world.RunUntil([&] { return ConditionOf(own(), "BlockedOnPreemptionGates") == "True/PreemptionGated"; }));
  CHECK(MessageOf(own(), "BlockedOnPreemptionGates") == kGated);
  CHECK(ConditionOf(own(), "QuotaReserved") == "False/AdmissionGated");
  CHECK(MessageOf(own(), "QuotaReserved") == kGated);
  CHECK(ConditionOf(own(), "muster.dev/Waiting") == "True/PreemptionGated");
  CHECK_THAT(MessageOf(own(), "muster.dev/Waiting"), Catch::Contains(kGate));
  world.RunFor(std::chrono::seconds(5));
  CHECK(EventsOn(world, "Workload", "gated").contains("AdmissionGated: " + kGated));
  world.Kill(*muster);
  muster = &world.Start();
  world.RunFor(std::chrono::minutes(1));
  CHECK(Runs(world, "victim"));
  CHECK(muster->telemetry.evicted.empty());

  OpenGate(world, "gated");
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(own(), "Admitted"); }, std::chrono::minutes(5)));
  CHECK(ConditionOf(world.WorkloadOf("victim"), "Preempted") == "True/InClusterQueue");
  CHECK_THAT(ConditionOf(own(), "BlockedOnPreemptionGates"), Catch::StartsWith("False/"));
  CHECK(MessageOf(own(), "BlockedOnPreemptionGates") == "Previously: " + kGated);

  world.Patch("workloads", "team", "gated", {{"spec", {{"active", false}}}});
  AwaitRuns(world, "victim");
  const Json gates = At(own(), "status", "preemptionGates");
  REQUIRE(gates.size() == 1);
  CHECK(Text(sim::Get(gates[0], "position")) == "Closed");
  CHECK(Text(sim::Get(gates[0], "lastTransitionTime")) > "2026-01-01T00:00:00Z");
  world.Patch("workloads", "team", "gated", {{"spec", {{"active", true}}}});
  REQUIRE(world.RunUntil([&] { return ConditionOf(own(), "BlockedOnPreemptionGates") == "True/PreemptionGated"; }));
  world.RunFor(std::chrono::seconds(30));
  CHECK(Runs(world, "victim"));
  ComesToRest(world, *muster);
}

TEST_CASE("A gate that somebody gives to the Workload of a Job holds that too") {
  World world;
  Process& muster = world.Start();
  MakePreempting(world, "4");
  MakeJob(world, "victim", "low", 3);
  AwaitRuns(world, "victim");
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "Hold"}}}});
  world.RunFor(std::chrono::seconds(2));  // two watches are not in step
  MakeJob(world, "urgent", "high", 2, 20);
  REQUIRE(world.RunUntil([&] { return !world.WorkloadOf("urgent").is_null(); }));
  const std::string name = Text(At(world.WorkloadOf("urgent"), "metadata", "name"));
  world.Patch("workloads", "team", name, {{"spec", {{"preemptionGates", NamedGates()}}}});
  world.RunFor(std::chrono::seconds(5));
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
  REQUIRE(world.RunUntil(
      [&] { return ConditionOf(world.WorkloadOf("urgent"), "BlockedOnPreemptionGates") == "True/PreemptionGated"; }));
  world.RunFor(std::chrono::seconds(30));
  CHECK(Runs(world, "victim"));
  // There is room without anybody's going: then it needs no gate.
  const bool opened = GENERATE(true, false);
  CAPTURE(opened);
  opened ? OpenGate(world, name) : world.Delete("jobs", "team", "victim");
  AwaitRuns(world, "urgent");
  CHECK(muster.telemetry.preempted.size() == (opened ? 1 : 0));
  REQUIRE(world.RunUntil([&] { return world.Finished("urgent"); }, std::chrono::minutes(5)));
  ComesToRest(world, muster);
}

}  // namespace
}  // namespace muster::controller
