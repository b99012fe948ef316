// Who waits is looked at again when, and only when, what it waits for changes; and nobody waits behind one who cannot
// go. What is right is kueue_semantics sections 4 and 5.6; the numbers of user_pains stand at each.
#include <catch2/catch.hpp>

#include "stage.h"

namespace muster::scenarios {
namespace {

const std::string kFlavors = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors";

Json OwnFlavor(const Stage& stage, const std::string& name) {
  return {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
          {"kind", "ResourceFlavor"},
          {"metadata", {{"name", stage.ns() + "-" + name}}},
          {"spec", {{"nodeLabels", {{"muster.dev/flavor", "a"}}}}}};
}

// C3: the strict queue's head waits for 1 of the 2 that are its own, and keeps it, unless it could claim it back.
SCENARIO_ON_WORLDS(strict_keeps, "A strict head keeps what is its own, or lends it where it may reclaim it") {
  const auto make = [&](const std::string& name, const std::string& reclaim) {
    const std::string cohort = name + "-all";
    stage.MakeQueue({.name = name + "-strict",
                     .quotas = {{.nominal = 2}},
                     .cohort = cohort,
                     .strategy = "StrictFIFO",
                     .local_queue = name + "-strict"});
    stage.EditClusterQueue(name + "-strict", {{"preemption", {{"reclaimWithinCohort", reclaim}}}});
    stage.MakeQueue(
        {.name = name + "-other", .quotas = {{.nominal = 0}}, .cohort = cohort, .local_queue = name + "-other"});
    stage.Submit({.name = name + "-runs", .queue = name + "-strict"});
    stage.AwaitRunning(name + "-runs");
    stage.Submit({.name = name + "-head", .pods = 2, .queue = name + "-strict"});
    stage.AwaitWaiting(name + "-head");
    stage.NextSecond();  // both would borrow: the older one goes first
    stage.Submit({.name = name + "-borrower", .queue = name + "-other"});
  };
  make("never", "Never");
  stage.AwaitWaiting("never-borrower");
  make("any", "Any");
  stage.AwaitRunning("any-borrower");
  CHECK(stage.Starts("never-borrower") == 0);
}

// C6: three whose selector no flavor has, and a good one behind them.
SCENARIO_ON_WORLDS(mismatched, "Those that no flavor matches hold up nobody, and say so") {
  stage.MakeQueue({.quotas = {{.flavor = "a", .nominal = 1}, {.flavor = "b", .nominal = 1}}});
  const Json nowhere = {{"template", {{"spec", {{"nodeSelector", {{"muster.dev/flavor", "none"}}}}}}}};
  for (const char* name : {"one", "two", "three"}) {
    stage.Submit({.name = name, .spec = nowhere});
    stage.NextSecond();
  }
  stage.Submit({.name = "good"});
  stage.AwaitRunning("good");
  for (const char* name : {"one", "two", "three"}) {
    stage.AwaitWaiting(name, "NoMatchingFlavor");
    CHECK(stage.Starts(name) == 0);
  }
}

// C10, C12: nothing else happens when the taint goes; a Job like the first, made later, is treated as the first is.
SCENARIO_ON_WORLDS(taint_goes, "A flavor that loses its taint lets those start who waited for that") {
  Json flavor = OwnFlavor(stage, "tainted");
  flavor["spec"]["nodeTaints"] = Json::array({{{"key", "x"}, {"value", "y"}, {"effect", "NoSchedule"}}});
  stage.Post(kFlavors, flavor);
  stage.MakeQueue({.quotas = {{.flavor = stage.ns() + "-tainted", .nominal = 2}}});
  stage.Submit({.name = "first"});
  stage.AwaitWaiting("first", "NoMatchingFlavor");
  stage.Submit({.name = "second"});
  stage.AwaitWaiting("second", "NoMatchingFlavor");
  stage.Patch(kFlavors + "/" + stage.ns() + "-tainted", {{"spec", {{"nodeTaints", nullptr}}}});
  stage.AwaitRunning("first");
  stage.AwaitRunning("second");
}

// C11
SCENARIO_ON_WORLDS(label_goes, "A namespace that loses its label keeps what runs, and starts nobody new") {
  const auto label = [&](const Json& value) {
    stage.Patch("/api/v1/namespaces/" + stage.ns(), {{"metadata", {{"labels", {{"team", value}}}}}});
  };
  stage.MakeQueue({.quotas = {{.nominal = 2}}, .namespace_selector = {{"matchLabels", {{"team", "research"}}}}});
  stage.Submit({.name = "first"});
  stage.AwaitWaiting("first", "Misconfigured");
  label("research");
  stage.AwaitRunning("first");
  label(nullptr);
  stage.world().Pass(std::chrono::seconds(1));
  stage.Submit({.name = "second"});
  stage.AwaitWaiting("second", "Misconfigured");
  CHECK_FALSE(stage.Suspended("first"));
  CHECK(stage.Starts("second") == 0);
}

// C14: the value of a class is raised; then the other, which had none, gets a higher one.
SCENARIO_ON_WORLDS(priority_edits, "Priorities that are edited decide who is next") {
  stage.MakeClass("rising", 0);
  stage.MakeClass("highest", 100);
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.Submit({.name = "running"});
  stage.AwaitRunning("running");
  for (const auto& [name, priority] :
       std::map<std::string, std::string>{{"a-plain", ""}, {"b-rising", "rising"}, {"c-late", ""}}) {
    stage.Submit({.name = name, .priority = priority});
    stage.AwaitWaiting(name);
    stage.NextSecond();
  }
  stage.Patch(stage.Class("rising"), {{"value", 10}});
  stage.Await("the Workload has the new value",
              [&] { return Number(At(stage.Workload("b-rising"), "spec", "priority")) == 10; });
  stage.Delete(stage.JobPath("running"));
  stage.AwaitRunning("b-rising");
  stage.Patch(stage.JobPath("c-late"),
              {{"metadata", {{"labels", {{"kueue.x-k8s.io/priority-class", stage.ClassName("highest")}}}}}});
  stage.Await("the Workload has its class",
              [&] { return Number(At(stage.Workload("c-late"), "spec", "priority")) == 100; });
  stage.Delete(stage.JobPath("b-rising"));
  stage.AwaitRunning("c-late");
  CHECK(stage.Starts("a-plain") == 0);
}

// C17: one that waits is charged nothing.
SCENARIO_ON_WORLDS(waits_for_free, "Who waits takes nothing from others") {
  stage.MakeQueue({.quotas = {{.nominal = 4}, {.nominal = 1, .resource = "nvidia.com/gpu"}}});
  Json job = Stage::JobObject({.name = "gpu", .cpu = 4});
  job["spec"]["template"]["spec"]["containers"][0]["resources"] = {
      {"requests", {{"cpu", "4"}, {"nvidia.com/gpu", "2"}}}, {"limits", {{"nvidia.com/gpu", "2"}}}};
  stage.Post(stage.JobsPath(), job);
  stage.AwaitWaiting("gpu", "ExceedsMaxQuota");
  stage.AwaitUsage("cq", 0);
  stage.Submit({.name = "cpu", .pods = 4});
  stage.AwaitRunning("cpu");
}

// F13, G11: two wait behind each other, then nobody is strict any more, and back.
SCENARIO_ON_WORLDS(strategy_edits, "The strategy of a queue in use can be changed; a strict head counts as waiting") {
  stage.MakeQueue({.quotas = {{.nominal = 3}}, .strategy = "StrictFIFO"});
  stage.Submit({.name = "running", .pods = 2});
  stage.AwaitRunning("running");
  stage.Submit({.name = "head", .pods = 2});
  stage.AwaitWaiting("head");
  stage.NextSecond();
  stage.Submit({.name = "behind"});
  stage.AwaitWaiting("behind", "");
  stage.Await("both are counted", [&] {
    return Number(At(stage.Get(stage.ClusterQueue("cq")), "status", "pendingWorkloads")) == 2 &&
           Number(At(stage.Get(stage.LocalQueue("lq")), "status", "pendingWorkloads")) == 2;
  });
  stage.EditClusterQueue("cq", {{"queueingStrategy", "BestEffortFIFO"}});
  stage.AwaitRunning("behind");
  stage.Delete(stage.JobPath("behind"));
  stage.AwaitUsage("cq", 2);
  stage.EditClusterQueue("cq", {{"queueingStrategy", "StrictFIFO"}});
  stage.Submit({.name = "last"});
  stage.AwaitWaiting("last", "");
  stage.Delete(stage.JobPath("running"));
  stage.AwaitRunning("head");
  stage.AwaitRunning("last");
}

}  // namespace
}  // namespace muster::scenarios
