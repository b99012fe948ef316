// A Job that is moved so that another finds its places, whatever happens to the process meanwhile. Places are counted
// by hand: rack r1 is node n1 of 2 cpus, r2 is n2 and n3.
#include <catch2/catch.hpp>

#include "each_write.h"
#include "nodes_and_pods.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using std::chrono::minutes;
using std::chrono::seconds;

Options Defragmenting() {
  Options options = World::DefaultOptions();
  options.defragment_after = seconds(2);
  return options;
}

Json InRack(bool movable) {
  Json merge = Asks("required-topology", "rack");
  if (movable) merge["metadata"] = {{"annotations", {{"muster.dev/movable", "true"}}}};
  return merge;
}

// How many pods of the Job have their places on each node, as the Workload shows them.
Json PodsByNode(const World& world, const std::string& job) {
  const Json workload = world.WorkloadOf(job);
  const Json& sets = At(workload, "status", "admission", "podSetAssignments");
  return sets.is_array() && !sets.empty() ? At(sets[0], "topologyAssignment", "slices") : Json();
}

// `x` (2 pods) is in r2, and r1 is free; `hero` needs both nodes of r2. There is quota for these two. When `x` is told
// to go, `late` comes, for which there would be quota, and room in r1.
class Life {
 public:
  explicit Life(World* world) : world_(world) { world_->MakeJob("filler", 2, 3600, "lq", InRack(false)); }

  void Step() {
    if (step_ == 0 && Started(*world_, "filler")) {
      world_->MakeJob("x", 2, 3600, "lq", InRack(true));
      ++step_;
    } else if (step_ == 1 && Started(*world_, "x")) {
      world_->Delete("jobs", "team", "filler");
      world_->MakeJob("hero", 4, 3600, "lq", InRack(false));
      ++step_;
    } else if (step_ == 2 && Suspended(*world_, "x")) {
      world_->MakeJob("late", 2, 3600, "lq", InRack(false));
      ++step_;
    }
  }
  bool Over() const { return step_ == 3 && Started(*world_, "x") && Started(*world_, "hero"); }
  void Check(Process& process) {
    process.controller->engine()->Validate();
    CHECK(PodsByNode(*world_, "x") ==
          Json::parse(R"([{"domainCount":1,"valuesPerLevel":[{"universal":"n1"}],"podCounts":{"universal":2}}])"));
    CHECK(PodsByNode(*world_, "hero") ==
          Json::parse(R"([{"domainCount":2,"valuesPerLevel":[{"individual":{"prefix":"n","roots":["2","3"]}}],
                           "podCounts":{"universal":2}}])"));
    CHECK(EvictionsIn(world_->WorkloadOf("x"), "Preempted") == 1);
    CHECK(EvictionsIn(world_->WorkloadOf("hero")) == 0);
    CHECK(Suspended(*world_, "late"));
  }

 private:
  World* world_;
  int step_ = 0;
};

}  // namespace

TEST_CASE("A Job that is marked movable is started elsewhere for another that needs its rack, and told why") {
  World world;
  MakePlaces(world, "6");
  Process& process = world.Start("", Defragmenting());
  Life life(&world);
  std::string why;
  REQUIRE(world.RunUntil([&] {
    life.Step();
    const std::string now = ConditionOf(world.WorkloadOf("x"), "Preempted");
    if (now.starts_with("True")) why = now;
    return life.Over();
  }));
  CHECK(why == "True/Defragmentation");
  CHECK(process.telemetry.preempted == std::map<std::string, int>{{"cq Defragmentation", 1}});
  world.RunFor(seconds(10));
  life.Check(process);
  // It may not be moved for one more: `late` waits for quota, and gets it.
  world.Delete("jobs", "team", "hero");
  CHECK(world.RunUntil([&] { return Started(world, "late"); }));
}

TEST_CASE("A mark that says neither yes nor no is told of, and its Job is not queued") {
  World world;
  world.Start();
  world.MakeQueues("6");
  Json merge = {{"metadata", {{"annotations", {{"muster.dev/movable", "yes"}}}}}};
  world.MakeJob("a", 1, 100, "lq", merge);
  std::string note;
  CHECK(world.RunUntil([&] {
    for (const Json& event : world.List("events", "team")) {
      if (sim::Text(sim::Get(event, "reason")) == "ErrWorkloadCompose") note = sim::Text(sim::Get(event, "note"));
    }
    return !note.empty();
  }));
  CHECK(note == R"(annotation muster.dev/movable: "yes" must be "true" or "false")");
  world.RunFor(seconds(5));
  CHECK(Suspended(world, "a"));
  world.Patch("jobs", "team", "a", {{"metadata", {{"annotations", {{"muster.dev/movable", "false"}}}}}});
  CHECK(world.RunUntil([&] { return Started(world, "a"); }));
}

TEST_CASE("A mark of a Workload without a Job that says neither yes nor no is told of once, and counts as no") {
  World world;
  world.Start();
  world.MakeQueues("6");
  Json workload = Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload",
    "metadata":{"namespace":"team","name":"w","annotations":{"muster.dev/movable":"yes"}},
    "spec":{"active":true,"queueName":"lq","podSets":[{"name":"main","count":1,
    "template":{"spec":{"restartPolicy":"Never","containers":[
      {"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}]}})");
  world.Create(workload);
  world.RunFor(seconds(30));
  std::vector<std::string> notes;
  for (const Json& event : world.List("events", "team")) {
    const bool of_it = sim::Text(At(event, "regarding", "kind")) == "Workload";
    if (of_it && sim::Text(sim::Get(event, "reason")) == "Misconfigured") {
      notes.push_back(sim::Text(sim::Get(event, "note")));
      CHECK(At(event, "series").is_null());
    }
  }
  CHECK(notes == std::vector<std::string>{
                     R"(annotation muster.dev/movable: "yes" must be "true" or "false"; it counts as "false")"});
  CHECK(ConditionOf(world.Get("workloads", "team", "w"), "Admitted") == "True/Admitted");
}

// As in Life: `x` is in r2, r1 is free again, and `hero` needs r2.
TEST_CASE("Whether a Job with a prebuilt Workload may be moved is its own to say, else its Workload's") {
  const std::string of_job = GENERATE("", "false");
  const std::string of_workload = GENERATE("true", "yes");
  CAPTURE(of_job, of_workload);
  World world;
  MakePlaces(world, "6");
  Process& process = world.Start("", Defragmenting());
  world.MakeJob("filler", 2, 3600, "lq", InRack(false));
  REQUIRE(world.RunUntil([&] { return Started(world, "filler"); }));
  Json workload = Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload",
    "metadata":{"namespace":"team","name":"of-x","annotations":{}},
    "spec":{"active":true,"queueName":"nowhere","podSets":[{"name":"main","count":2,
    "topologyRequest":{"required":"rack"},"template":{"spec":{"restartPolicy":"Never","containers":[
      {"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}]}})");
  workload["metadata"]["annotations"]["muster.dev/movable"] = of_workload;
  world.Create(workload);
  Json merge = InRack(false);
  merge["metadata"]["annotations"]["kueue.x-k8s.io/prebuilt-workload-name"] = "of-x";
  if (!of_job.empty()) merge["metadata"]["annotations"]["muster.dev/movable"] = of_job;
  world.MakeJob("x", 2, 3600, "lq", merge);
  const bool bad = of_job.empty() && of_workload == "yes";
  CHECK(world.RunUntil([&] { return Started(world, "x"); }, seconds(20)) == !bad);
  std::string note;
  for (const Json& event : world.List("events", "team")) {
    if (sim::Text(sim::Get(event, "reason")) == "ErrWorkloadCompose") note = sim::Text(sim::Get(event, "note"));
  }
  if (bad) {
    CHECK(note == R"(annotation muster.dev/movable: "yes" must be "true" or "false")");
    return;
  }
  world.Delete("jobs", "team", "filler");
  world.MakeJob("hero", 4, 3600, "lq", InRack(false));
  world.RunFor(minutes(1));
  const bool moved = of_job.empty();
  CHECK(Started(world, "hero") == moved);
  CHECK(Started(world, "x"));
  CHECK(process.telemetry.preempted["cq Defragmentation"] == (moved ? 1 : 0));
}

TEST_CASE("A process that dies at any write of a move, and the one after it, bring both to their places") {
  const auto play = [](int point, sim::SimServer::Phase phase) {
    World world(static_cast<uint64_t>(point) + 1);
    MakePlaces(world, "6");
    Process& first = world.Start("", Defragmenting());
    Life life(&world);
    const WriteCounter writes(&world, phase);
    world.RunUntil(
        [&] {
          life.Step();
          return writes.seen() > point || life.Over();
        },
        minutes(5));
    if (writes.seen() <= point) return false;
    world.Kill(first);
    world.RunFor(seconds(6));
    Process& second = world.Start("", Defragmenting());
    CHECK(world.RunUntil(
        [&] {
          life.Step();
          return life.Over();
        },
        minutes(5)));
    world.RunFor(seconds(20));
    life.Check(second);
    return true;
  };
  // Four starts of two writes, a stop, and what Workloads tell of them.
  CHECK(PlayEachWrite(play) >= 20);
}

}  // namespace muster::controller
