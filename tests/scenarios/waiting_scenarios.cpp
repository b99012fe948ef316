// Who starts and who waits: order, strategies, flavors, cohorts, reasons.
// What is right is kueue_semantics sections 4 and 5, with the numbers counted by hand.
#include <catch2/catch.hpp>

#include "stage.h"

namespace muster::scenarios {
namespace {

SCENARIO_ON_WORLDS(fits, "A Job that fits starts whole, with its flavor, and ends") {
  stage.MakeQueue({.quotas = {{.nominal = 4}}});
  stage.Submit({.name = "train", .pods = 4, .seconds = "1"});
  stage.AwaitFinished("train");
  CHECK(stage.FlavorOf("train") == "a");
  CHECK(stage.Condition("train", "QuotaReserved") == "True/QuotaReserved");
  CHECK(stage.Condition("train", "Admitted") == "True/Admitted");
  CHECK(Number(At(stage.Job("train"), "status", "succeeded")) == 4);
  // The Events of Kueue (kueue_semantics 8.2).
  const std::set<std::string> told = {"Normal Job/train CreatedWorkload", "Normal Job/train Started",
                                      "Normal Job/train FinishedWorkload", "Normal Workload/of a Job QuotaReserved",
                                      "Normal Workload/of a Job Admitted"};
  stage.Await("every Event is there", [&] { return stage.Events() == told; });
  CHECK(stage.Starts("train") == 1);
}

SCENARIO_ON_WORLDS(in_turn, "Jobs that fit one at a time run one after the other, each once") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  for (const char* name : {"one", "two", "three"}) stage.Submit({.name = name, .pods = 2, .seconds = "0.5"});
  for (const char* name : {"one", "two", "three"}) {
    stage.AwaitFinished(name);
    CHECK(stage.Starts(name) == 1);
  }
}

SCENARIO_ON_WORLDS(waits, "A Job that does not fit waits with its reason, and starts when room comes") {
  stage.MakeQueue({.quotas = {{.nominal = 4}}});
  stage.Submit({.name = "first", .pods = 3});
  stage.AwaitRunning("first");
  stage.Submit({.name = "second", .pods = 3});
  stage.AwaitWaiting("second");
  // 4 - 3 = 1 is free of the 3 that it asks for.
  CHECK(stage.Message("second", "QuotaReserved") ==
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor a, 2 more needed");
  CHECK(stage.Suspended("second"));
  CHECK(stage.FlavorOf("second").empty());
  stage.Check("one runs, one waits");
  stage.Delete(stage.JobPath("first"));
  stage.AwaitRunning("second");
  CHECK(stage.Starts("second") == 1);
}

SCENARIO_ON_WORLDS(never_fits, "A Job larger than the queue waits for ever and holds up nobody") {
  stage.MakeQueue({.quotas = {{.nominal = 4}}});
  stage.Submit({.name = "huge", .pods = 5});
  stage.AwaitWaiting("huge", "ExceedsMaxQuota");
  stage.Submit({.name = "small", .pods = 4});
  stage.AwaitRunning("small");
  CHECK(stage.Starts("huge") == 0);
}

// G10
SCENARIO_ON_WORLDS(uncovered, "A Job that asks for a resource without quota waits and says so") {
  stage.MakeQueue({.quotas = {{.nominal = 4}}});
  Json job = Stage::JobObject({.name = "gpu"});
  job["spec"]["template"]["spec"]["containers"][0]["resources"] = {{"requests", {{"nvidia.com/gpu", "1"}}},
                                                                   {"limits", {{"nvidia.com/gpu", "1"}}}};
  stage.Post(stage.JobsPath(), job);
  stage.AwaitWaiting("gpu", "NoMatchingFlavor");
  CHECK(stage.Message("gpu", "QuotaReserved") ==
        "couldn't assign flavors to pod set main: resource nvidia.com/gpu unavailable in ClusterQueue");
}

SCENARIO_ON_WORLDS(two_resources, "Each resource of a flavor has its own quota") {
  stage.MakeQueue({.quotas = {{.nominal = 8}, {.nominal = 1, .resource = "nvidia.com/gpu"}}});
  Json job = Stage::JobObject({.name = "gpu"});
  job["spec"]["template"]["spec"]["containers"][0]["resources"] = {
      {"requests", {{"cpu", "1"}, {"nvidia.com/gpu", "1"}}}, {"limits", {{"nvidia.com/gpu", "1"}}}};
  stage.Post(stage.JobsPath(), job);
  stage.AwaitRunning("gpu");
  job["metadata"]["name"] = "second-gpu";
  stage.Post(stage.JobsPath(), job);
  stage.AwaitWaiting("second-gpu");
  stage.Submit({.name = "cpu", .pods = 7});
  stage.AwaitRunning("cpu");  // 1 + 7 = 8
}

SCENARIO_ON_WORLDS(two_local_queues, "LocalQueues of one ClusterQueue share its quota, and each counts its own") {
  stage.MakeQueue({.quotas = {{.nominal = 4}}});
  stage.MakeLocalQueue("other", "cq");
  stage.Submit({.name = "one", .pods = 3});
  stage.AwaitRunning("one");
  stage.Submit({.name = "two", .queue = "other"});
  stage.AwaitRunning("two");
  stage.Submit({.name = "three", .queue = "other"});
  stage.AwaitWaiting("three");
  stage.Check("4 of 4 are used");
  const Json other = stage.Get(stage.LocalQueue("other"));
  CHECK(Number(At(other, "status", "pendingWorkloads")) == 1);
  CHECK(Number(At(other, "status", "admittedWorkloads")) == 1);
  CHECK(Number(At(stage.Get(stage.LocalQueue("lq")), "status", "admittedWorkloads")) == 1);
}

SCENARIO_ON_WORLDS(two_cluster_queues, "ClusterQueues without cohort do not help each other") {
  stage.MakeQueue({.name = "full", .quotas = {{.nominal = 1}}, .local_queue = "full"});
  stage.MakeQueue({.name = "idle", .quotas = {{.nominal = 8}}, .local_queue = "idle"});
  stage.Submit({.name = "big", .pods = 2, .queue = "full"});
  stage.AwaitWaiting("big", "ExceedsMaxQuota");
  stage.Submit({.name = "small", .pods = 2, .queue = "idle"});
  stage.AwaitRunning("small");
  CHECK(stage.Starts("big") == 0);
}

SCENARIO_ON_WORLDS(borrows, "A queue borrows what its cohort does not use") {
  stage.MakeQueue({.name = "poor", .quotas = {{.nominal = 2}}, .cohort = "all", .local_queue = "poor"});
  stage.MakeQueue({.name = "rich", .quotas = {{.nominal = 4}}, .cohort = "all", .local_queue = "rich"});
  stage.Submit({.name = "borrower", .pods = 5, .queue = "poor"});
  stage.AwaitRunning("borrower");
  stage.Submit({.name = "owner", .pods = 2, .queue = "rich"});
  stage.AwaitWaiting("owner");  // 6 - 5 = 1 is left
  stage.Check("5 of 6 are used");
  const Json usage = At(stage.Get(stage.ClusterQueue("poor")), "status", "flavorsUsage");
  CHECK(usage == Json::parse(R"([{"name":"a","resources":[{"name":"cpu","total":"5","borrowed":"3"}]}])"));
  stage.Delete(stage.JobPath("borrower"));
  stage.AwaitRunning("owner");
}

SCENARIO_ON_WORLDS(borrowing_limit, "A borrowing limit holds while the cohort has room") {
  stage.MakeQueue(
      {.name = "poor", .quotas = {{.nominal = 2, .borrowing_limit = 1}}, .cohort = "all", .local_queue = "poor"});
  stage.MakeQueue({.name = "rich", .quotas = {{.nominal = 8}}, .cohort = "all", .local_queue = "rich"});
  stage.Submit({.name = "over", .pods = 4, .queue = "poor"});
  stage.AwaitWaiting("over", "ExceedsMaxQuota");  // 4 > 2 + 1
  stage.Submit({.name = "within", .pods = 3, .queue = "poor"});
  stage.AwaitRunning("within");
  stage.Submit({.name = "more", .queue = "poor"});
  stage.AwaitWaiting("more");
  CHECK(stage.Starts("over") == 0);
}

SCENARIO_ON_WORLDS(lending_limit, "A lending limit keeps quota for its owner") {
  stage.MakeQueue({.name = "poor", .quotas = {{.nominal = 1}}, .cohort = "all", .local_queue = "poor"});
  stage.MakeQueue(
      {.name = "rich", .quotas = {{.nominal = 4, .lending_limit = 1}}, .cohort = "all", .local_queue = "rich"});
  stage.Submit({.name = "over", .pods = 3, .queue = "poor"});
  stage.AwaitWaiting("over", "ExceedsMaxQuota");  // 1 + 1 lent
  stage.Submit({.name = "within", .pods = 2, .queue = "poor"});
  stage.AwaitRunning("within");
  stage.Submit({.name = "owner", .pods = 3, .queue = "rich"});
  stage.AwaitRunning("owner");  // 4 - 1 lent out
}

SCENARIO_ON_WORLDS(best_effort, "BestEffortFIFO lets a small Job pass a large one that waits") {
  stage.MakeQueue({.quotas = {{.nominal = 4}}});
  stage.Submit({.name = "running", .pods = 2});
  stage.AwaitRunning("running");
  stage.Submit({.name = "large", .pods = 4});
  stage.AwaitWaiting("large");
  stage.Submit({.name = "small", .pods = 2});
  stage.AwaitRunning("small");
  CHECK(stage.Starts("large") == 0);
}

SCENARIO_ON_WORLDS(strict, "StrictFIFO keeps a small Job behind a large one that waits") {
  stage.MakeQueue({.quotas = {{.nominal = 4}}, .strategy = "StrictFIFO"});
  stage.Submit({.name = "running", .pods = 2});
  stage.AwaitRunning("running");
  stage.Submit({.name = "large", .pods = 4});
  stage.AwaitWaiting("large");
  stage.NextSecond();
  stage.Submit({.name = "small", .pods = 2});
  stage.AwaitWaiting("small", "");
  stage.Check("the small one waits behind");
  CHECK(stage.Starts("small") == 0);
  stage.Delete(stage.JobPath("large"));
  stage.AwaitRunning("small");
}

SCENARIO_ON_WORLDS(gated, "A Job with an admission gate waits, out of the others' way, until the gate is gone") {
  const char* const gate = "kueue.x-k8s.io/admission-gated-by";
  stage.MakeQueue({.quotas = {{.nominal = 2}}, .strategy = "StrictFIFO"});
  stage.Submit({.name = "gated", .pods = 2, .annotations = {{gate, "example.com/review"}}});
  stage.AwaitWaiting("gated", "AdmissionGated");
  CHECK(stage.Message("gated", "QuotaReserved") == "Admission is gated by: example.com/review");
  stage.Submit({.name = "next"});
  stage.AwaitRunning("next");
  stage.Check("the next one runs");
  stage.Crash();
  stage.Patch(stage.JobPath("gated"), {{"metadata", {{"annotations", {{gate, nullptr}}}}}});
  stage.AwaitWaiting("gated");
  CHECK_FALSE(At(stage.Workload("gated"), "metadata", "annotations").contains(gate));
  stage.Delete(stage.JobPath("next"));
  stage.AwaitRunning("gated");
}

SCENARIO_ON_WORLDS(priorities, "The Job of the higher priority goes first, whoever came first") {
  stage.MakeClass("low", 10);
  stage.MakeClass("high", 100);
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  stage.Submit({.name = "running", .pods = 2});
  stage.AwaitRunning("running");
  stage.Submit({.name = "early", .pods = 2, .priority = "low"});
  stage.AwaitWaiting("early");
  stage.Submit({.name = "late", .pods = 2, .priority = "high"});
  stage.AwaitWaiting("late");
  stage.Delete(stage.JobPath("running"));
  stage.AwaitRunning("late");
  CHECK(stage.Starts("early") == 0);
  CHECK(Number(At(stage.Workload("late"), "spec", "priority")) == 100);
}

SCENARIO_ON_WORLDS(flavors, "Flavors are taken in order, and each Job gets its own one's labels") {
  stage.MakeQueue({.quotas = {{.flavor = "b", .nominal = 2}, {.flavor = "a", .nominal = 3}}});
  stage.Submit({.name = "one", .pods = 2});
  stage.AwaitRunning("one");
  CHECK(stage.FlavorOf("one") == "b");
  stage.Submit({.name = "two", .pods = 2});
  stage.AwaitRunning("two");
  CHECK(stage.FlavorOf("two") == "a");
  stage.Submit({.name = "three", .pods = 2});
  stage.AwaitWaiting("three");
  stage.Check("both flavors are full");
}

SCENARIO_ON_WORLDS(tolerations, "A flavor brings its tolerations along with its labels, and pods run on its machines") {
  stage.MakeQueue({.quotas = {{.flavor = "tainted", .nominal = 2}}});
  stage.Submit({.name = "train", .pods = 2});
  stage.AwaitRunning("train");
  CHECK(stage.FlavorOf("train") == "tainted");
  CHECK(At(stage.Job("train"), "spec", "template", "spec", "tolerations") ==
        Json::parse(R"([{"key":"dedicated","operator":"Equal","value":"batch","effect":"NoSchedule"}])"));
}

SCENARIO_ON_WORLDS(node_selector, "A Job that asks for a flavor's label gets that flavor, and waits for it") {
  stage.MakeQueue({.quotas = {{.flavor = "a", .nominal = 2}, {.flavor = "b", .nominal = 2}}});
  const Json wants_b = {{"template", {{"spec", {{"nodeSelector", {{"muster.dev/flavor", "b"}}}}}}}};
  stage.Submit({.name = "one", .pods = 2, .spec = wants_b});
  stage.AwaitRunning("one");
  stage.Submit({.name = "two", .pods = 2, .spec = wants_b});
  stage.AwaitWaiting("two");
  CHECK(stage.FlavorOf("one") == "b");
}

SCENARIO_ON_WORLDS(partial, "A Job that allows it starts with fewer pods, and is itself again after it is stopped") {
  stage.MakeQueue({.quotas = {{.nominal = 3}}});
  stage.Submit({.name = "train", .pods = 5, .annotations = {{"kueue.x-k8s.io/job-min-parallelism", "2"}}});
  stage.AwaitRunning("train");
  CHECK(Number(At(stage.Job("train"), "spec", "parallelism")) == 3);
  stage.Check("three of five");
  stage.EditClusterQueue("cq", {{"stopPolicy", "HoldAndDrain"}});
  stage.AwaitStopped("train");
  CHECK(Number(At(stage.Job("train"), "spec", "parallelism")) == 5);
}

}  // namespace
}  // namespace muster::scenarios
