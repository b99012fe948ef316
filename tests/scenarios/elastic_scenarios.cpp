// Elastic Jobs: their size changes while they run. What is right is kueue_semantics 2.10 and user_pains A14.
#include <catch2/catch.hpp>

#include "stage.h"

namespace muster::scenarios {
namespace {

const Json kElastic = {{"kueue.x-k8s.io/elastic-job", "true"}};

// Pods of 1 cpu each, as many as can be, that do not end by themselves.
void SubmitElastic(Stage& stage, const std::string& name, int pods) {
  stage.Submit({.name = name,
                .pods = pods,
                .seconds = "3600",
                .annotations = kElastic,
                .spec = {{"completions", nullptr}, {"parallelism", pods}}});
}

void Scale(Stage& stage, const std::string& name, int pods) {
  stage.Patch(stage.JobPath(name), {{"spec", {{"parallelism", pods}}}});
}

// A14: 3 -> 6 -> 4, and then out, of 6.
SCENARIO_ON_WORLDS(resized, "An elastic Job is charged for its newest admitted size at every step, and never twice") {
  stage.MakeQueue({.quotas = {{.nominal = 6}}});
  SubmitElastic(stage, "train", 3);
  stage.AwaitRunning("train");
  stage.AwaitPods("train", 3, 0);
  stage.AwaitUsage("cq", 3);
  Scale(stage, "train", 6);
  stage.AwaitUsage("cq", 6);
  stage.AwaitPods("train", 6, 0);
  stage.AwaitTold("WorkloadSliceReplaced");
  stage.Check("three more");
  stage.Submit({.name = "next", .pods = 2});
  stage.AwaitWaiting("next");
  Scale(stage, "train", 4);
  stage.AwaitRunning("next");
  stage.AwaitUsage("cq", 6);
  stage.AwaitPods("train", 4, 0);
  stage.Check("two fewer");
  CHECK(stage.Starts("train") == 1);
  CHECK(stage.Evictions("train") == 0);
  stage.EditClusterQueue("cq", {{"stopPolicy", "HoldAndDrain"}});
  stage.AwaitStopped("train");
  stage.AwaitUsage("cq", 0);
  stage.Delete(stage.JobPath("next"));
  stage.EditClusterQueue("cq", {{"stopPolicy", "None"}});
  stage.AwaitRunning("train");
  stage.AwaitUsage("cq", 4);
  stage.AwaitPods("train", 4, 0);
}

// A14: more pods wait, and those that run go on.
SCENARIO_ON_WORLDS(grows_later, "More pods of an elastic Job are held while quota is full, and start when it is free") {
  stage.MakeQueue({.quotas = {{.nominal = 5}}});
  SubmitElastic(stage, "train", 2);
  stage.AwaitRunning("train");
  stage.Submit({.name = "other", .pods = 2});
  stage.AwaitRunning("other");
  Scale(stage, "train", 4);
  stage.AwaitPods("train", 2, 2);
  stage.Await("it says why", [&] { return stage.Condition("train", "muster.dev/Waiting") == "True/QuotaInUse"; });
  stage.AwaitUsage("cq", 4);
  stage.Check("held");
  stage.Crash();
  stage.AwaitUsage("cq", 4);
  stage.AwaitPods("train", 2, 2);
  stage.Delete(stage.JobPath("other"));
  stage.AwaitUsage("cq", 4);
  stage.AwaitPods("train", 4, 0);
  stage.Await("it waits no more", [&] { return stage.Condition("train", "muster.dev/Waiting").empty(); });
  CHECK(stage.Starts("train") == 1);
  CHECK(stage.Evictions("train") == 0);
}

// What cannot be had any more is not asked for.
SCENARIO_ON_WORLDS(wish_withdrawn, "An elastic Job that takes its wish for more pods back runs on as before") {
  stage.MakeQueue({.quotas = {{.nominal = 3}}});
  SubmitElastic(stage, "train", 2);
  stage.AwaitRunning("train");
  Scale(stage, "train", 9);
  stage.Await("it says why", [&] { return stage.Condition("train", "muster.dev/Waiting") == "True/NeverFits"; });
  stage.AwaitPods("train", 2, 7);
  Scale(stage, "train", 2);
  stage.AwaitPods("train", 2, 0);
  stage.Await("it waits no more", [&] { return stage.Condition("train", "muster.dev/Waiting").empty(); });
  Scale(stage, "train", 3);
  stage.AwaitPods("train", 3, 0);
  stage.AwaitUsage("cq", 3);
  CHECK(stage.Starts("train") == 1);
}

}  // namespace
}  // namespace muster::scenarios
