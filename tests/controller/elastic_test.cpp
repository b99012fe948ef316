// Elastic Jobs: what is written when their size changes, and what lost writes and restarts make of it. What is right is
// kueue_semantics 2.10 and user_pains A14.
#include <catch2/catch.hpp>

#include "drills.h"
#include "muster/controller/names.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using sim::Text;
using std::chrono::seconds;

// As the policy muster-jobs-elastic leaves it; there are no policies here.
Json Elastic(int pods) {
  Json job = {{"metadata", {{"annotations", {{"kueue.x-k8s.io/elastic-job", "true"}}}}},
              {"spec", {{"completions", nullptr}, {"parallelism", pods}}}};
  job["spec"]["template"]["spec"]["schedulingGates"] = {{{"name", "kueue.x-k8s.io/elastic-job"}}};
  return job;
}
void Scale(World& world, const std::string& name, int pods) {
  world.Patch("jobs", "team", name, {{"spec", {{"parallelism", pods}}}});
}
// Pods that no gate holds, and those that one holds.
std::pair<int, int> PodsOf(const World& world, const std::string& job) {
  std::pair<int, int> counts;
  for (const Json& pod : world.List("pods", "team")) {
    if (Text(At(pod, "metadata", "ownerReferences")[0]["name"]) != job) continue;
    ++(At(pod, "spec", "schedulingGates").empty() ? counts.first : counts.second);
  }
  return counts;
}
// By the status of the ClusterQueue: what is reserved.
std::string Usage(const World& world) {
  const Json flavors = At(world.Get("clusterqueues", "", "cq"), "status", "flavorsReservation");
  return flavors.is_array() && !flavors.empty() ? Text(At(flavors[0], "resources")[0]["total"]) : "";
}
int64_t Admitted(const World& world, const std::string& job) {
  const Json record =
      sim::ParseJson(Text(At(world.Get("jobs", "team", job), "metadata", "annotations", "muster.dev/admission")))
          .value_or(Json());
  return record.is_object() ? sim::Number(record["podSets"][0]["count"]) : -1;
}
std::vector<Json> WorkloadsOf(const World& world, const std::string& job, bool replaced) {
  std::vector<Json> out;
  for (Json& workload : world.List("workloads", "team")) {
    const bool is_replaced = ConditionOf(workload, "Finished") == "True/WorkloadSliceReplaced";
    if (Text(At(workload, "metadata", "ownerReferences")[0]["name"]) == job && is_replaced == replaced) {
      out.push_back(std::move(workload));
    }
  }
  return out;
}

class Stage {
 public:
  explicit Stage(const std::string& cpu) {
    muster = &world.Start();
    world.MakeQueues(cpu);
  }
  void Run(int pods) {
    world.MakeJob("train", 1, 100000, "lq", Elastic(pods));
    REQUIRE(world.RunUntil([&] { return PodsOf(world, "train") == std::pair(pods, 0); }));
    world.RunFor(seconds(5));
  }
  World world;
  Process* muster = nullptr;
};

}  // namespace

TEST_CASE("An elastic Job grows by one write, and its Workload is replaced by another") {
  Stage stage("6");
  World& world = stage.world;
  stage.Run(3);
  CHECK(Usage(world) == "3");
  const Json first = WorkloadsOf(world, "train", false).at(0);
  const size_t before = world.server.writes().size();
  Scale(world, "train", 6);
  const int64_t generation = sim::Number(At(world.Get("jobs", "team", "train"), "metadata", "generation"));
  REQUIRE(world.RunUntil([&] { return PodsOf(world, "train") == std::pair(6, 0); }));
  world.RunFor(seconds(10));
  CHECK(Usage(world) == "6");
  CHECK(Admitted(world, "train") == 6);
  CHECK_FALSE(Suspended(world, "train"));
  std::map<std::string, int> writes = world.Writes(before);
  CHECK(writes["patch jobs"] == 1);
  CHECK(writes["patch pods"] == 3);
  CHECK(stage.muster->telemetry.slices_replaced["cq"] == 1);

  const std::vector<Json> now = WorkloadsOf(world, "train", false);
  REQUIRE(now.size() == 1);
  const std::string uid = Text(At(world.Get("jobs", "team", "train"), "metadata", "uid"));
  CHECK(Text(At(now[0], "metadata", "name")) == WorkloadName("Job", "batch", "train", uid, std::to_string(generation)));
  const std::string first_name = Text(At(first, "metadata", "name"));
  const Json& notes = At(now[0], "metadata", "annotations");
  CHECK(Text(sim::Get(notes, "kueue.x-k8s.io/workload-slice-replacement-for")) == "team/" + first_name);
  CHECK(Text(sim::Get(notes, "kueue.x-k8s.io/workload-slice-name")) == first_name);
  CHECK(At(now[0], "spec", "podSets")[0]["count"] == 6);
  CHECK(At(now[0], "status", "admission", "podSetAssignments")[0]["count"] == 6);
  CHECK(ConditionOf(now[0], "Admitted") == "True/Admitted");
  const std::vector<Json> old = WorkloadsOf(world, "train", true);
  REQUIRE(old.size() == 1);
  CHECK(Text(At(old[0], "metadata", "name")) == first_name);
  CHECK(MessageOf(old[0], "Finished") ==
        "Replaced to accommodate a workload (UID: " + Text(At(now[0], "metadata", "uid")) + ", JobUID: " + uid +
            ") due to workload slice aggregation");
  ComesToRest(world, *stage.muster);
}

TEST_CASE("An elastic Job that shrinks frees its quota once the record says so, and the Workload follows") {
  Stage stage("6");
  World& world = stage.world;
  stage.Run(6);
  world.MakeJob("next", 2, 1000);
  world.RunFor(seconds(5));
  CHECK(Suspended(world, "next"));
  Scale(world, "train", 4);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "next"); }));
  world.RunFor(seconds(10));
  CHECK(Usage(world) == "6");
  CHECK(Admitted(world, "train") == 4);
  CHECK(PodsOf(world, "train") == std::pair(4, 0));
  const std::vector<Json> now = WorkloadsOf(world, "train", false);
  REQUIRE(now.size() == 1);
  CHECK(At(now[0], "spec", "podSets")[0]["count"] == 4);
  CHECK(At(now[0], "status", "admission", "podSetAssignments")[0]["count"] == 4);
  CHECK(WorkloadsOf(world, "train", true).empty());
  // What another has by now is asked for like anything else.
  Scale(world, "train", 5);
  world.RunFor(seconds(10));
  CHECK(PodsOf(world, "train") == std::pair(4, 1));
  CHECK(Usage(world) == "6");
  CHECK(ConditionOf(WorkloadsOf(world, "train", false).at(0), "muster.dev/Waiting") == "True/QuotaInUse");
  ComesToRest(world, *stage.muster);
}

// Until then its pods run on what is recorded, and nobody else can have had any of it.
TEST_CASE("An elastic Job that is scaled down, and up again before that is recorded, keeps what it had") {
  Stage stage("6");
  World& world = stage.world;
  stage.Run(5);
  // More pods would wait for ever.
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "Hold"}}}});
  world.RunFor(seconds(5));
  world.server.faults().Add(Strike({sim::Fault::Kind::kDelayRequest, 0}, "patch", "jobs", 1));
  Scale(world, "train", 4);
  world.RunFor(seconds(1));
  REQUIRE(Admitted(world, "train") == 5);
  CHECK(stage.muster->controller->engine()->ViewClusterQueue("cq").usage.at(0).reserved == Amount{5000});
  Scale(world, "train", 5);
  world.RunFor(seconds(30));
  CHECK(PodsOf(world, "train") == std::pair(5, 0));
  CHECK(Usage(world) == "5");
  CHECK(Admitted(world, "train") == 5);
  CHECK_FALSE(ConditionOf(WorkloadsOf(world, "train", false).at(0), "muster.dev/Waiting").starts_with("True"));
  CHECK(Pending(world) == 0);
  Scale(world, "train", 4);
  world.RunFor(seconds(30));
  CHECK(PodsOf(world, "train") == std::pair(4, 0));
  CHECK(Usage(world) == "4");
  CHECK(Admitted(world, "train") == 4);
  ComesToRest(world, *stage.muster);
}

// The scale up comes right behind the write, before Muster has seen what came of it: it may never see the small count
// with the small record. Of the 6 there is one for the fifth pod, whoever has it meanwhile.
TEST_CASE("However the record of a scale-down fails, pods that are asked for again are counted and start") {
  // Else the fifth pod is gone by then.
  const bool at_once = GENERATE(true, false);
  for (const Way& way : AllWays()) {
    CAPTURE(at_once, way.Name());
    Stage stage("6");
    World& world = stage.world;
    stage.Run(5);
    world.server.faults().Add(Strike(way, "patch", "jobs", 1));
    Scale(world, "train", 4);
    const bool recorded = world.RunUntil(
        [&] { return Admitted(world, "train") == 4 && (at_once || PodsOf(world, "train") == std::pair(4, 0)); },
        seconds(1));
    const bool applied = way.kind == sim::Fault::Kind::kApplyAndAnswer || way.kind == sim::Fault::Kind::kLoseAnswer ||
                         way.kind == sim::Fault::Kind::kHang || way.kind == sim::Fault::Kind::kDelayAnswer;
    if (applied) REQUIRE(recorded);
    Scale(world, "train", 5);
    for (int i = 0; i < 60; ++i) {
      world.RunFor(seconds(1));
      if (!at_once) CHECK(PodsOf(world, "train").first <= Admitted(world, "train"));
      stage.muster->controller->engine()->Validate();
    }
    CHECK(PodsOf(world, "train") == std::pair(5, 0));
    CHECK(Usage(world) == "5");
    CHECK(Admitted(world, "train") == 5);
    CHECK(stage.muster->controller->engine()->ViewClusterQueue("cq").usage.at(0).reserved == Amount{5000});
    CHECK_FALSE(ConditionOf(WorkloadsOf(world, "train", false).at(0), "muster.dev/Waiting").starts_with("True"));
    Scale(world, "train", 4);
    world.RunFor(seconds(30));
    CHECK(PodsOf(world, "train") == std::pair(4, 0));
    CHECK(Usage(world) == "4");
    CHECK(Admitted(world, "train") == 4);
    CHECK(stage.muster->telemetry.evicted.empty());
    ComesToRest(world, *stage.muster);
  }
}

TEST_CASE("However the write of a growth fails, the pods are counted once and start once") {
  for (const Way& way : AllWays()) {
    for (const int times : {1, 3}) {
      CAPTURE(way.Name(), times);
      Stage stage("6");
      World& world = stage.world;
      stage.Run(2);
      world.server.faults().Add(Strike(way, "patch", "jobs", times, "slice"));
      Scale(world, "train", 5);
      for (int i = 0; i < 120 && PodsOf(world, "train").first < 5; ++i) {
        world.RunFor(seconds(1));
        // Nothing runs above what the record admits.
        CHECK(PodsOf(world, "train").first <= Admitted(world, "train"));
        stage.muster->controller->engine()->Validate();
      }
      CHECK(PodsOf(world, "train") == std::pair(5, 0));
      world.RunFor(seconds(10));
      CHECK(Usage(world) == "5");
      CHECK(Admitted(world, "train") == 5);
      CHECK(stage.muster->telemetry.evicted.empty());
      CHECK(stage.muster->controller->engine()->unwritten_claims() == 0);
      CHECK(WorkloadsOf(world, "train", false).size() == 1);
    }
  }
}

TEST_CASE("A process that dies while a Job is resized is followed by one that finds the same") {
  const bool full = GENERATE(false, true);
  const int killed_after_ms = GENERATE(0, 5, 20, 60, 200, 1000, 3000);
  CAPTURE(full, killed_after_ms);
  Stage stage("6");
  World& world = stage.world;
  stage.Run(3);
  if (full) world.MakeJob("other", 2, 100000);
  world.RunFor(seconds(5));
  Scale(world, "train", 5);
  world.RunFor(std::chrono::milliseconds(killed_after_ms));
  world.Kill(*stage.muster);
  Process& next = world.Start();
  world.RunFor(seconds(30));
  CHECK(Usage(world) == "5");
  CHECK(PodsOf(world, "train") == (full ? std::pair(3, 2) : std::pair(5, 0)));
  CHECK(Admitted(world, "train") == (full ? 3 : 5));
  CHECK_FALSE(Suspended(world, "train"));
  CHECK(WorkloadsOf(world, "train", false).size() == 1);
  if (full) {
    world.Delete("jobs", "team", "other");
    REQUIRE(world.RunUntil([&] { return PodsOf(world, "train") == std::pair(5, 0); }));
    world.RunFor(seconds(10));
    CHECK(Usage(world) == "5");
  }
  ComesToRest(world, next);
}

TEST_CASE("An elastic Job that was evicted comes back in its newest size, and as the newest of its Workloads") {
  Stage stage("6");
  World& world = stage.world;
  stage.Run(3);
  Scale(world, "train", 5);
  REQUIRE(world.RunUntil([&] { return PodsOf(world, "train") == std::pair(5, 0); }));
  world.RunFor(seconds(5));
  const std::string name = Text(At(WorkloadsOf(world, "train", false).at(0), "metadata", "name"));
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
  REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
  world.RunFor(seconds(10));
  CHECK(Usage(world) == "0");
  if (GENERATE(false, true)) {
    world.Kill(*stage.muster);
    stage.muster = &world.Start();
  }
  Scale(world, "train", 4);
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
  REQUIRE(world.RunUntil([&] { return PodsOf(world, "train") == std::pair(4, 0); }));
  world.RunFor(seconds(10));
  CHECK(Usage(world) == "4");
  const std::vector<Json> now = WorkloadsOf(world, "train", false);
  REQUIRE(now.size() == 1);
  CHECK(Text(At(now[0], "metadata", "name")) == name);
  CHECK(EvictionsIn(now[0], "ClusterQueueStopped") == 1);
  ComesToRest(world, *stage.muster);
}

// What the checks have passed is another size.
TEST_CASE("Where checks apply an elastic Job is stopped and decided on again") {
  Stage stage("6");
  World& world = stage.world;
  stage.Run(3);
  world.Create(Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"AdmissionCheck",
    "metadata":{"name":"budget"},"spec":{"controllerName":"example.com/budget"}})"));
  world.Patch("clusterqueues", "", "cq",
              {{"spec", {{"admissionChecksStrategy", {{"admissionChecks", {{{"name", "budget"}}}}}}}}});
  world.RunFor(seconds(5));
  CHECK_FALSE(Suspended(world, "train"));
  Scale(world, "train", 5);
  REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
  world.RunFor(seconds(10));
  CHECK(stage.muster->telemetry.evicted["NoMatchingWorkload"] == 1);
  CHECK(Usage(world) == "0");
}

TEST_CASE("What an elastic Job must not have, or lacks, is named") {
  World world;
  world.Start();
  world.MakeQueues("6");
  const auto problem = [&](const std::string& name) {
    std::string notes;
    world.RunUntil([&] {
      for (const Json& event : world.List("events", "team")) {
        const bool told =
            Text(sim::Get(event, "reason")) == "ErrWorkloadCompose" && Text(At(event, "regarding", "name")) == name;
        if (told) notes = Text(sim::Get(event, "note"));
      }
      return !notes.empty();
    });
    return notes;
  };
  Json least = Elastic(3);
  least["metadata"]["annotations"]["kueue.x-k8s.io/job-min-parallelism"] = "2";
  world.MakeJob("least", 1, 100, "lq", least);
  CHECK(problem("least") ==
        "annotation kueue.x-k8s.io/job-min-parallelism: \"2\" cannot be used together with kueue.x-k8s.io/elastic-job");
  Json ungated = Elastic(3);
  ungated["spec"].erase("template");
  world.MakeJob("ungated", 1, 100, "lq", ungated);
  CHECK(
      problem("ungated") ==
      "spec.template.spec.schedulingGates: kueue.x-k8s.io/elastic-job is missing; the policy muster-jobs-elastic adds "
      "it to elastic Jobs that are made with a queue name");
  world.RunFor(seconds(10));
  CHECK(Suspended(world, "least"));
  CHECK(Suspended(world, "ungated"));
}

}  // namespace muster::controller
