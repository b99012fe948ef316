// What users, crashes and time do to Jobs in each state.
// What is right is kueue_semantics section 2, and docs/kueue-compatibility.md where Muster differs.
#include <catch2/catch.hpp>

#include "stage.h"

namespace muster::scenarios {
namespace {

SCENARIO_ON_WORLDS(deleted_waiting, "A waiting Job that is deleted leaves the queue") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}, .strategy = "StrictFIFO"});
  stage.Submit({.name = "running"});
  stage.AwaitRunning("running");
  stage.Submit({.name = "large", .pods = 2});
  stage.AwaitWaiting("large");
  stage.NextSecond();
  stage.Submit({.name = "small"});
  stage.AwaitWaiting("small", "");
  stage.Delete(stage.JobPath("large"));
  stage.AwaitRunning("small");
}

SCENARIO_ON_WORLDS(deleted_running, "A running Job that is deleted gives its quota back, and its Workload goes") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  stage.Submit({.name = "one", .pods = 2});
  stage.AwaitRunning("one");
  const std::string workload = "/apis/kueue.x-k8s.io/v1beta2/namespaces/" + stage.ns() + "/workloads/" +
                               Text(At(stage.Workload("one"), "metadata", "name"));
  stage.Submit({.name = "two", .pods = 2});
  stage.AwaitWaiting("two");
  stage.Delete(stage.JobPath("one"));
  stage.AwaitRunning("two");
  stage.AwaitGone(workload);
}

SCENARIO_ON_WORLDS(deleted_foreground, "A Job that is deleted in the foreground gives its quota back too") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  stage.Submit({.name = "one", .pods = 2});
  stage.AwaitRunning("one");
  stage.Submit({.name = "two", .pods = 2});
  stage.AwaitWaiting("two");
  stage.Delete(stage.JobPath("one"), "Foreground");
  stage.AwaitGone(stage.JobPath("one"));
  stage.AwaitRunning("two");
}

SCENARIO_ON_WORLDS(deleted_finished, "A finished Job that is deleted takes its Workload along") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  stage.Submit({.name = "one", .seconds = "0.2"});
  stage.AwaitFinished("one");
  stage.Delete(stage.JobPath("one"));
  stage.Await("its Workload is gone", [&] {
    return stage.List("/apis/kueue.x-k8s.io/v1beta2/namespaces/" + stage.ns() + "/workloads").empty();
  });
}

// user_pains H18
SCENARIO_ON_WORLDS(ttl, "A Job that is removed as it ends frees its quota") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  stage.Submit({.name = "one", .pods = 2, .seconds = "0.5", .spec = {{"ttlSecondsAfterFinished", 0}}});
  stage.Await("it was started", [&] { return stage.Starts("one") == 1; });
  stage.Submit({.name = "two", .pods = 2});
  stage.AwaitRunning("two");
  stage.AwaitGone(stage.JobPath("one"));
}

SCENARIO_ON_WORLDS(fails, "A Job whose pods fail is finished as failed, and frees its quota") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.Submit({.name = "bad", .seconds = "0.2", .exit_code = "1"});
  stage.AwaitFinished("bad", "Failed");
  stage.Submit({.name = "good"});
  stage.AwaitRunning("good");
}

SCENARIO_ON_WORLDS(same_name, "A Job that is made again under its name is another Job") {
  stage.MakeQueue({.quotas = {{.nominal = 3}}});
  const Json first = stage.Submit({.name = "train", .pods = 2});
  stage.AwaitRunning("train");
  stage.Delete(stage.JobPath("train"));
  stage.AwaitGone(stage.JobPath("train"));
  const Json second = stage.Submit({.name = "train", .pods = 3});
  stage.AwaitRunning("train");
  CHECK(At(first, "metadata", "uid") != At(second, "metadata", "uid"));
  CHECK(stage.Starts("train") == 2);
  stage.Await("the first one's Workload is gone", [&] {
    return stage.List("/apis/kueue.x-k8s.io/v1beta2/namespaces/" + stage.ns() + "/workloads").size() == 1;
  });
}

SCENARIO_ON_WORLDS(copied_record, "A manifest copied from a running Job queues like any other") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.Submit({.name = "train"});
  stage.AwaitRunning("train");
  const Json running = stage.Job("train");
  Json copy = Stage::JobObject({.name = "copy"});
  copy["metadata"]["annotations"] = At(running, "metadata", "annotations");
  copy["spec"]["suspend"] = false;
  stage.Post(stage.JobsPath(), copy);
  stage.AwaitWaiting("copy");
  CHECK(stage.Starts("copy") == 0);
}

SCENARIO_ON_WORLDS(relabelled, "A waiting Job moves with its label to another queue") {
  stage.MakeQueue({.name = "full", .quotas = {{.nominal = 1}}, .local_queue = "full"});
  stage.MakeQueue({.name = "free", .quotas = {{.flavor = "b", .nominal = 1}}, .local_queue = "free"});
  stage.Submit({.name = "one", .queue = "full"});
  stage.AwaitRunning("one");
  stage.Submit({.name = "two", .queue = "full"});
  stage.AwaitWaiting("two");
  stage.Patch(stage.JobPath("two"), {{"metadata", {{"labels", {{"kueue.x-k8s.io/queue-name", "free"}}}}}});
  stage.AwaitRunning("two");
  CHECK(stage.FlavorOf("two") == "b");
}

SCENARIO_ON_WORLDS(hands_off, "Nobody else starts a queued Job, writes its record, or moves it while it runs") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.Submit({.name = "one"});
  stage.AwaitRunning("one");
  stage.Submit({.name = "two"});
  stage.AwaitWaiting("two");
  const auto refused = [&](const std::string& job, const Json& merge) {
    const Response response = stage.world().Call("PATCH", stage.JobPath(job), merge.dump(), kMergePatch);
    INFO(response.code << " " << response.body);
    CHECK(response.code == 422);
    CHECK(Text(sim::Get(response.body, "reason")) == "Invalid");
  };
  refused("two", {{"spec", {{"suspend", false}}}});
  refused("two", {{"metadata", {{"annotations", {{"muster.dev/admission", "{}"}}}}}});
  refused("one", {{"metadata", {{"annotations", {{"muster.dev/admission", nullptr}}}}}});
  refused("one", {{"metadata", {{"labels", {{"kueue.x-k8s.io/queue-name", "other"}}}}}});
  CHECK(stage.Starts("two") == 0);
}

SCENARIO_ON_WORLDS(user_suspends, "A running gang that a user suspends keeps its place and is started again") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.Submit({.name = "train"});
  stage.AwaitRunning("train");
  stage.Submit({.name = "next"});
  stage.AwaitWaiting("next");
  stage.Patch(stage.JobPath("train"), {{"spec", {{"suspend", true}}}});
  stage.Await("it was started again", [&] { return stage.Starts("train") == 2; });
  stage.AwaitRunning("train");
  CHECK(stage.Starts("next") == 0);
  CHECK(stage.Condition("train", "Evicted").empty());
}

SCENARIO_ON_WORLDS(deactivated, "A deactivated gang is stopped and makes room; active again, it queues") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  const Json created = stage.Submit({.name = "train"});
  stage.AwaitRunning("train");
  const std::string workload = "/apis/kueue.x-k8s.io/v1beta2/namespaces/" + stage.ns() + "/workloads/" +
                               Text(At(stage.Workload("train"), "metadata", "name"));
  stage.Patch(workload, {{"spec", {{"active", false}}}});
  stage.AwaitStopped("train");
  CHECK(At(stage.Job("train"), "spec", "template") == At(created, "spec", "template"));
  stage.Submit({.name = "next"});
  stage.AwaitRunning("next");
  CHECK(stage.Condition("train", "Evicted") == "True/Deactivated");
  stage.Check("the next one runs instead");
  stage.Patch(workload, {{"spec", {{"active", true}}}});
  stage.AwaitWaiting("train");
  stage.Delete(stage.JobPath("next"));
  stage.AwaitRunning("train");
  CHECK(stage.Starts("train") == 2);
}

SCENARIO_ON_WORLDS(reclaimed, "What has ended of a gang makes room before the rest of it ends, also after a crash") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  stage.Submit({.name = "train", .pods = 2, .seconds = "10", .spec = {{"completions", 3}}});
  stage.AwaitRunning("train");
  stage.Submit({.name = "next"});
  stage.AwaitWaiting("next");
  // Two of three pods have ended: one is left to run.
  stage.AwaitRunning("next");
  CHECK(stage.Condition("train", "Finished").empty());
  stage.Await("the Workload tells of it", [&] {
    return At(stage.Workload("train"), "status", "reclaimablePods") == Json::parse(R"([{"name": "main", "count": 1}])");
  });
  stage.Crash();
  stage.AwaitFinished("train");
  CHECK(stage.Starts("train") == 1);
  CHECK(stage.Starts("next") == 1);
}

SCENARIO_ON_WORLDS(time_over,
                   "A gang whose time is over is stopped and makes room; active again, it has its time anew") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.Submit({.name = "train", .labels = {{"kueue.x-k8s.io/max-exec-time-seconds", "4"}}});
  stage.AwaitRunning("train");
  stage.Submit({.name = "next"});
  stage.AwaitStopped("train");
  stage.AwaitRunning("next");
  stage.Await("it is deactivated", [&] {
    return stage.Condition("train", "QuotaReserved") == "False/Deactivated" &&
           stage.Condition("train", "Evicted") == "True/DeactivatedDueToMaximumExecutionTimeExceeded";
  });
  stage.Check("the next one runs instead");
  const Json workload = stage.Workload("train");
  CHECK(At(workload, "spec", "active") == false);
  CHECK(Number(At(workload, "status", "accumulatedPastExecutionTimeSeconds")) >= 4);
  stage.Crash();
  stage.Delete(stage.JobPath("next"));
  stage.Patch(
      "/apis/kueue.x-k8s.io/v1beta2/namespaces/" + stage.ns() + "/workloads/" + Text(At(workload, "metadata", "name")),
      {{"spec", {{"active", true}}}});
  stage.AwaitRunning("train");
  CHECK(stage.Starts("train") == 2);
  stage.AwaitStopped("train");
}

SCENARIO_ON_WORLDS(workload_deleted, "A Workload that a user deletes stops its Job, which queues again") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.Submit({.name = "train"});
  stage.AwaitRunning("train");
  const Json first = stage.Workload("train");
  stage.Delete("/apis/kueue.x-k8s.io/v1beta2/namespaces/" + stage.ns() + "/workloads/" +
               Text(At(first, "metadata", "name")));
  stage.Await("it was started again", [&] { return stage.Starts("train") == 2; });
  stage.AwaitRunning("train");
  CHECK(At(stage.Workload("train"), "metadata", "uid") != At(first, "metadata", "uid"));
}

SCENARIO_ON_WORLDS(not_queued, "A Job without a queue name is left alone") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.Submit({.name = "plain", .pods = 3, .seconds = "0.2", .queue = ""});
  stage.Await("it ends", [&] { return sim::HasCondition(stage.Job("plain"), "Complete"); });
  stage.Submit({.name = "queued"});
  stage.AwaitRunning("queued");
  CHECK(stage.Workload("plain").is_null());
  CHECK(stage.FlavorOf("plain").empty());
}

SCENARIO_ON_WORLDS(restart_waiting, "After a crash who waited still waits, and starts when room comes") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.Submit({.name = "running"});
  stage.AwaitRunning("running");
  stage.Submit({.name = "waiting"});
  stage.AwaitWaiting("waiting");
  stage.Crash();
  stage.MakeQueue({.name = "other", .quotas = {{.nominal = 1}}, .local_queue = "other"});
  stage.Submit({.name = "elsewhere", .queue = "other"});
  stage.AwaitRunning("elsewhere");  // it decides again
  CHECK(stage.Starts("running") == 1);
  CHECK(stage.Starts("waiting") == 0);
  stage.Delete(stage.JobPath("running"));
  stage.AwaitRunning("waiting");
}

SCENARIO_ON_WORLDS(restart_meanwhile, "What happened while Muster was down is known after its start") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  stage.Submit({.name = "ends", .seconds = "1"});
  stage.Submit({.name = "deleted"});
  stage.AwaitRunning("deleted");
  stage.Await("it runs", [&] { return !stage.Suspended("ends"); });
  stage.Crash([&] {
    stage.Delete(stage.JobPath("deleted"));
    stage.Submit({.name = "submitted", .pods = 2});
    stage.Await("it ends", [&] { return sim::HasCondition(stage.Job("ends"), "Complete"); });
    CHECK(stage.Suspended("submitted"));
  });
  stage.AwaitRunning("submitted");
  stage.AwaitFinished("ends");
  CHECK(stage.Starts("submitted") == 1);
}

SCENARIO_ON_WORLDS(restart_stopped, "A gang that was stopped before a crash starts again, as it was made") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  const Json created = stage.Submit({.name = "train", .pods = 2});
  stage.AwaitRunning("train");
  stage.EditClusterQueue("cq", {{"stopPolicy", "HoldAndDrain"}});
  stage.Await("it is stopped", [&] { return stage.Suspended("train"); });
  stage.Crash();
  stage.AwaitStopped("train");
  CHECK(At(stage.Job("train"), "spec", "template") == At(created, "spec", "template"));
  stage.Await("the eviction shows", [&] { return stage.Condition("train", "Evicted") == "True/ClusterQueueStopped"; });
  stage.EditClusterQueue("cq", {{"stopPolicy", "None"}});
  stage.AwaitRunning("train");
  CHECK(stage.Starts("train") == 2);
}

}  // namespace
}  // namespace muster::scenarios
