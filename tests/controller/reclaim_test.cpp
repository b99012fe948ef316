// Pods that have ended give their quota back before their gang does. The Job controller is played by the test.
// What is right is kueue_semantics 2.8 and user_pains A11, H14 and H17.
#include <catch2/catch.hpp>

#include "muster/core/time.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using sim::Text;

class Stage {
 public:
  explicit Stage(const std::string& cpu) : world(1, false) {
    world.Start();
    world.MakeQueues(cpu);
  }

  void Submit(const std::string& name, int parallelism, int completions, const Json& spec = Json::object()) {
    Json job = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"team",
      "labels":{"kueue.x-k8s.io/queue-name":"lq"}},"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never",
      "containers":[{"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}})");
    job["metadata"]["name"] = name;
    job["spec"]["parallelism"] = parallelism;
    job["spec"]["completions"] = completions;
    job["spec"].update(spec);
    world.Create(std::move(job));
  }
  bool Runs(const std::string& name) const {
    return !sim::Flag(At(world.Get("jobs", "team", name), "spec", "suspend"), true);
  }
  void AwaitRun(const std::string& name) {
    INFO(name);
    REQUIRE(world.RunUntil([&] { return Runs(name); }));
    world.RunFor(std::chrono::seconds(3));
  }
  // What the Job controller reports.
  void Report(const std::string& name, int active, int succeeded, const Json& more = Json::object()) {
    Json status = {{"active", active}, {"ready", active}, {"succeeded", succeeded}, {"terminating", 0}};
    status.update(more);
    if (Runs(name)) {
      const Json started = At(world.Get("jobs", "team", name), "status", "startTime");
      status["startTime"] = started.is_null() ? Json(FormatTime(world.executor.Now())) : started;
    } else {
      status["startTime"] = nullptr;
      const std::string now = FormatTime(world.executor.Now());
      status["conditions"] = {{{"type", "Suspended"},
                               {"status", "True"},
                               {"reason", "JobSuspended"},
                               {"message", "Job suspended"},
                               {"lastProbeTime", now},
                               {"lastTransitionTime", now}}};
    }
    world.Patch("jobs", "team", name, {{"status", status}}, "status");
    world.RunFor(std::chrono::seconds(3));
  }
  std::string Usage() const {
    const Json queue = world.Get("clusterqueues", "", "cq");
    const Json& flavors = At(queue, "status", "flavorsReservation");
    return flavors.is_array() && !flavors.empty() ? Text(At(flavors[0], "resources")[0]["total"]) : "";
  }
  std::string Reclaimable(const std::string& name) const {
    const Json list = At(world.WorkloadOf(name), "status", "reclaimablePods");
    return list.is_null() || list.empty() ? "" : list.dump();
  }
  std::set<std::string> Events(const std::string& reason) const {
    std::set<std::string> out;
    for (const Json& event : world.List("events", "team")) {
      if (Text(sim::Get(event, "reason")) == reason) {
        out.insert(Text(At(event, "regarding", "name")) + ": " + Text(sim::Get(event, "note")));
      }
    }
    return out;
  }
  void Restart() {
    world.Kill(*world.processes.back());
    world.Start();
    world.RunFor(std::chrono::seconds(10));
  }

  World world;
};

// H14: usage is min(parallelism, what is left).
TEST_CASE("What the ended pods of a gang held goes to those who wait, and a restart finds the same") {
  Stage stage("3");
  stage.Submit("train", 3, 10);
  stage.AwaitRun("train");
  stage.Submit("next", 1, 1);
  stage.Report("train", 3, 7);
  CHECK(stage.Usage() == "3");
  CHECK_FALSE(stage.Runs("next"));
  stage.Report("train", 2, 8);
  CHECK(stage.Reclaimable("train") == R"([{"count":1,"name":"main"}])");
  CHECK(stage.Runs("next"));
  CHECK(stage.Usage() == "3");
  // The admission is what it was.
  CHECK(At(stage.world.WorkloadOf("train"), "status", "admission", "podSetAssignments")[0]["count"] == 3);
  stage.Restart();
  CHECK(stage.Usage() == "3");
  stage.Report("train", 1, 9);
  CHECK(stage.Usage() == "2");
  stage.Restart();
  CHECK(stage.Usage() == "2");
  CHECK(stage.Reclaimable("train") == R"([{"count":2,"name":"main"}])");
  const size_t before = stage.world.server.writes().size();
  stage.world.RunFor(std::chrono::minutes(2));
  CHECK(stage.world.Writes(before).empty());
}

TEST_CASE("Pods that run again take their quota back at once, and the excess is told") {
  Stage stage("3");
  stage.Submit("train", 3, 3, {{"completionMode", "Indexed"}});
  stage.AwaitRun("train");
  stage.Report("train", 1, 2, {{"completedIndexes", "0,2"}});
  CHECK(stage.Usage() == "1");
  stage.Submit("small", 1, 1);
  stage.AwaitRun("small");
  stage.Report("small", 1, 0);
  CHECK(stage.Usage() == "2");
  SECTION("seen running, whatever the other counts say") { stage.Report("train", 3, 2); }
  SECTION("counted anew") { stage.Report("train", 3, 0, {{"completedIndexes", nullptr}}); }
  CHECK(stage.Usage() == "4");
  CHECK(stage.Reclaimable("train").empty());
  CHECK(stage.Runs("train"));
  CHECK(stage.Events("ReclaimedPodsRunAgain") ==
        std::set<std::string>{"train: 2 more pods run than were left: their quota is taken back, even where that "
                              "exceeds the quota of ClusterQueue cq"});
  // Nobody gets in on what is not free, before or after a restart.
  stage.Submit("late", 1, 1);
  stage.world.RunFor(std::chrono::seconds(5));
  CHECK_FALSE(stage.Runs("late"));
  stage.Restart();
  CHECK(stage.Usage() == "4");
  CHECK_FALSE(stage.Runs("late"));
  stage.Report("train", 1, 2, {{"completedIndexes", "0,2"}});
  CHECK(stage.Runs("late"));
  CHECK(stage.Usage() == "3");
}

// H17: three of five indexes are done, two are needed.
TEST_CASE("An evicted gang asks only for what is left of it, and runs on as it was made") {
  Stage stage("5");
  stage.Submit("train", 5, 5);
  stage.AwaitRun("train");
  stage.Report("train", 2, 3);
  CHECK(stage.Usage() == "2");
  stage.world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
  REQUIRE(stage.world.RunUntil([&] { return !stage.Runs("train"); }));
  CHECK(stage.Usage() == "2");
  stage.Report("train", 0, 3);
  CHECK(stage.Usage() == "0");
  CHECK(stage.Reclaimable("train") == R"([{"count":3,"name":"main"}])");
  Json quota = At(stage.world.Get("clusterqueues", "", "cq"), "spec", "resourceGroups");
  quota[0]["flavors"][0]["resources"][0]["nominalQuota"] = "2";
  stage.world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}, {"resourceGroups", quota}}}});
  stage.AwaitRun("train");
  CHECK(stage.Usage() == "2");
  CHECK(At(stage.world.Get("jobs", "team", "train"), "spec", "parallelism") == 5);
  // Of the five pods that the Workload asks for.
  CHECK(stage.Reclaimable("train") == R"([{"count":3,"name":"main"}])");
  CHECK(At(stage.world.WorkloadOf("train"), "status", "admission", "podSetAssignments")[0]["count"] == 2);
  stage.Report("train", 2, 3);
  SECTION("also for the next process") { stage.Restart(); }
  SECTION("also for one that finds its record gone") {
    stage.world.Kill(*stage.world.processes.back());
    stage.world.Patch("jobs", "team", "train", {{"metadata", {{"annotations", {{"muster.dev/admission", nullptr}}}}}});
    stage.world.Start();
    stage.world.RunFor(std::chrono::seconds(10));
  }
  CHECK(stage.Runs("train"));
  CHECK(stage.Usage() == "2");
  stage.Report("train", 1, 4);
  CHECK(stage.Usage() == "1");
  stage.world.processes.back()->controller->engine()->Validate();
}

TEST_CASE("A Job that is scaled while it runs gives nothing back before it is stopped") {
  Stage stage("3");
  stage.Submit("train", 3, 3);
  stage.AwaitRun("train");
  stage.Submit("next", 1, 1);
  stage.world.Patch("jobs", "team", "train", {{"spec", {{"parallelism", 1}}}});
  REQUIRE(stage.world.RunUntil([&] { return !stage.Runs("train"); }));
  stage.world.RunFor(std::chrono::seconds(5));
  CHECK(stage.Usage() == "3");
  CHECK_FALSE(stage.Runs("next"));
  stage.Report("train", 0, 0);
  CHECK(stage.Runs("next"));
}

}  // namespace
}  // namespace muster::controller
