// What users and administrators run into: objects of others that must stay as they are, names as long as they may be,
// objects that are deleted or changed at the wrong time. The numbers of user_pains stand at each.
#include <catch2/catch.hpp>

#include "stage.h"

namespace muster::scenarios {
namespace {

// G4: suspended by its user, and no queue named.
SCENARIO_ON_WORLDS(untouched, "A Job without a queue name is not written to") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  const Json made = stage.Submit({.name = "plain", .queue = "", .spec = {{"suspend", true}}});
  stage.Await("the job controller has seen it", [&] {
    return !sim::FindCondition(At(stage.Job("plain"), "status", "conditions"), "Suspended").is_null();
  });
  const Json seen = stage.Job("plain");
  stage.Submit({.name = "queued"});
  stage.AwaitRunning("queued");
  CHECK(At(stage.Job("plain"), "metadata", "resourceVersion") == At(seen, "metadata", "resourceVersion"));
  CHECK(At(seen, "spec") == At(made, "spec"));
}

// G8: labels of the ResourceFlavor itself, as Helm puts them on.
SCENARIO_ON_WORLDS(flavor_labels, "Of a flavor only the labels of its nodes are asked for") {
  const std::string name = stage.ns() + "-own";
  stage.Post("/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
             {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
              {"kind", "ResourceFlavor"},
              {"metadata", {{"name", name}, {"labels", {{"app.kubernetes.io/managed-by", "Helm"}}}}},
              {"spec", {{"nodeLabels", {{"muster.dev/flavor", "a"}}}}}});
  stage.MakeQueue({.quotas = {{.flavor = name, .nominal = 1}}});
  stage.Submit({.name = "train"});
  stage.AwaitRunning("train");
  CHECK(At(stage.Job("train"), "spec", "template", "spec", "nodeSelector") == Json{{"muster.dev/flavor", "a"}});
}

// G10
SCENARIO_ON_WORLDS(empty_queue, "A queue without resources is accepted, and admits nobody who asks for any") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.EditClusterQueue("cq", {{"resourceGroups", nullptr}});
  stage.Submit({.name = "train"});
  stage.AwaitWaiting("train", "NoMatchingFlavor");
  stage.SetQuota("cq", {{.nominal = 1}});
  stage.AwaitRunning("train");
}

// G12: one that has finished is no reason to stay, and one that waits is none.
SCENARIO_ON_WORLDS(deleted_unused, "A queue that nobody uses is gone at once, though Jobs wait in it or have ended") {
  stage.MakeQueue({.name = "ended", .quotas = {{.nominal = 1}}, .local_queue = "ended"});
  stage.MakeQueue({.name = "waits", .quotas = {{.nominal = 1}}, .local_queue = "waits"});
  stage.Submit({.name = "done", .seconds = "0.2", .queue = "ended"});
  stage.AwaitFinished("done");
  stage.Submit({.name = "huge", .pods = 2, .queue = "waits"});
  stage.AwaitWaiting("huge", "ExceedsMaxQuota");
  for (const char* queue : {"ended", "waits"}) {
    stage.DeleteClusterQueue(queue);
    CHECK(stage.Get(stage.ClusterQueue(queue)).is_null());
  }
  stage.AwaitWaiting("huge", "Misconfigured");
  CHECK(stage.Condition("done", "Finished") == "True/Succeeded");
}

// G14: the longest names that the API server takes for each.
SCENARIO_ON_WORLDS(long_names, "Names as long as they may be work, and stay distinct") {
  const std::string queue = std::string(63 - stage.ns().size() - 1, 'q');
  const std::string local(63, 'l');
  stage.MakeQueue({.name = queue, .quotas = {{.nominal = 2}}, .local_queue = local});
  // They differ in their last letter only.
  const std::string stem(62, 'j');
  for (const char* end : {"a", "b"}) {
    stage.Submit({.name = stem + end, .queue = local});
    stage.AwaitRunning(stem + end);
  }
  CHECK(At(stage.Workload(stem + "a"), "metadata", "name") != At(stage.Workload(stem + "b"), "metadata", "name"));
}

// G15: what an administrator keeps in a repository is what is in the cluster.
SCENARIO_ON_WORLDS(specs_kept, "Nothing rewrites the specs of queues and flavors") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}, .cohort = "all"});
  const std::vector<std::string> paths = {stage.ClusterQueue("cq"), stage.LocalQueue("lq"),
                                          "/apis/kueue.x-k8s.io/v1beta2/resourceflavors/a"};
  std::vector<Json> before;
  for (const std::string& path : paths) before.push_back(stage.Get(path));
  stage.Submit({.name = "train", .seconds = "0.2"});
  stage.AwaitFinished("train");
  stage.Crash();
  stage.Submit({.name = "again", .seconds = "0.2"});
  stage.AwaitFinished("again");
  for (size_t i = 0; i < paths.size(); ++i) {
    const Json after = stage.Get(paths[i]);
    CHECK(At(after, "spec") == At(before[i], "spec"));
    CHECK(At(after, "metadata", "generation") == At(before[i], "metadata", "generation"));
    CHECK(At(after, "metadata", "labels") == At(before[i], "metadata", "labels"));
    CHECK_FALSE(At(after, "metadata").contains("finalizers"));
  }
}

// G16
SCENARIO_ON_WORLDS(namespace_goes, "A namespace goes with what runs and waits in it, and gives the quota back") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  stage.Submit({.name = "running", .pods = 2});
  stage.AwaitRunning("running");
  stage.Submit({.name = "waiting", .pods = 2});
  stage.AwaitWaiting("waiting");
  stage.Delete("/api/v1/namespaces/" + stage.ns());
  stage.AwaitGone("/api/v1/namespaces/" + stage.ns());
  stage.AwaitUsage("cq", 0);
  stage.Await("nobody waits", [&] {
    const Json status = sim::Get(stage.Get(stage.ClusterQueue("cq")), "status");
    return Number(sim::Get(status, "pendingWorkloads"), -1) == 0 &&
           Number(sim::Get(status, "reservingWorkloads"), -1) == 0;
  });
}

// G18: the flavor's toleration, which says Equal, and the Job's, which leaves it out, are the same to the API server.
SCENARIO_ON_WORLDS(same_toleration, "A toleration that Job and flavor both have is there once, and the Job starts") {
  stage.MakeQueue({.quotas = {{.flavor = "tainted", .nominal = 1}}});
  const Json own = Json::array({{{"key", "dedicated"}, {"value", "batch"}, {"effect", "NoSchedule"}}});
  const Json made = stage.Submit({.name = "train", .spec = {{"template", {{"spec", {{"tolerations", own}}}}}}});
  stage.AwaitRunning("train");
  CHECK(At(stage.Job("train"), "spec", "template", "spec", "tolerations").size() == 1);
  stage.EditClusterQueue("cq", {{"stopPolicy", "HoldAndDrain"}});
  stage.AwaitStopped("train");
  CHECK(At(stage.Job("train"), "spec", "template") == At(made, "spec", "template"));
}

// H1
SCENARIO_ON_WORLDS(restart_counts,
                   "After a restart what has ended holds nothing, well or badly, and what runs is counted") {
  stage.MakeQueue({.quotas = {{.nominal = 5}}});
  for (int i = 0; i < 3; ++i) {
    const std::string name = "ended-" + std::to_string(i);
    stage.Submit({.name = name, .seconds = "0.2", .exit_code = i == 0 ? "1" : "0"});
    stage.AwaitFinished(name, i == 0 ? "Failed" : "Succeeded");
  }
  for (const char* name : {"one", "two"}) {
    stage.Submit({.name = name, .pods = 2});
    stage.AwaitRunning(name);
  }
  stage.Crash();
  stage.Submit({.name = "last"});
  stage.AwaitRunning("last");  // 2 + 2 + 1 of 5
  stage.AwaitUsage("cq", 5);
  stage.Submit({.name = "too-much"});
  stage.AwaitWaiting("too-much");
  CHECK(stage.Starts("one") == 1);
  CHECK(stage.Starts("ended-0") == 1);
}

// H4
SCENARIO_ON_WORLDS(deactivated_anywhere,
                   "Deactivated while it waits, while it is stopped or while Muster is down: no quota") {
  const auto activate = [&](const std::string& job, bool active) {
    stage.Patch("/apis/kueue.x-k8s.io/v1beta2/namespaces/" + stage.ns() + "/workloads/" +
                    Text(At(stage.Workload(job), "metadata", "name")),
                {{"spec", {{"active", active}}}});
  };
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  stage.Submit({.name = "down", .pods = 2});
  stage.AwaitRunning("down");
  stage.Submit({.name = "pending", .pods = 2});
  stage.AwaitWaiting("pending");
  activate("pending", false);
  stage.Await("it says so", [&] { return stage.Condition("pending", "Evicted") == "True/Deactivated"; });
  stage.Crash([&] { activate("down", false); });
  stage.AwaitStopped("down");
  stage.AwaitUsage("cq", 0);
  CHECK(stage.Starts("pending") == 0);
  stage.Submit({.name = "evicting", .pods = 2});
  stage.AwaitRunning("evicting");
  stage.EditClusterQueue("cq", {{"stopPolicy", "HoldAndDrain"}});
  stage.Await("it is stopped", [&] { return stage.Suspended("evicting"); });
  activate("evicting", false);
  stage.AwaitStopped("evicting");
  stage.EditClusterQueue("cq", {{"stopPolicy", "None"}});
  stage.Submit({.name = "last", .pods = 2});
  stage.AwaitRunning("last");
  stage.Delete(stage.JobPath("last"));
  stage.AwaitUsage("cq", 0);
  activate("pending", true);
  stage.AwaitRunning("pending");
  CHECK(stage.Starts("evicting") == 1);
  CHECK(stage.Starts("down") == 1);
}

// H13: of two that wait, the first is scaled, and is still the first.
SCENARIO_ON_WORLDS(scaled_waiting, "A Job that is scaled while it waits keeps its place") {
  stage.MakeQueue({.quotas = {{.nominal = 3}}});
  stage.Submit({.name = "running", .pods = 3});
  stage.AwaitRunning("running");
  stage.Submit({.name = "first", .pods = 2, .spec = {{"completions", 3}}});
  stage.AwaitWaiting("first");
  stage.NextSecond();
  stage.Submit({.name = "second", .pods = 3});
  stage.AwaitWaiting("second");
  stage.Patch(stage.JobPath("first"), {{"spec", {{"parallelism", 3}}}});
  stage.Await("the Workload has three pods", [&] {
    const Json sets = At(stage.Workload("first"), "spec", "podSets");
    return sets.is_array() && !sets.empty() && Number(sim::Get(sets[0], "count")) == 3;
  });
  stage.Delete(stage.JobPath("running"));
  stage.AwaitRunning("first");
  stage.AwaitUsage("cq", 3);
  CHECK(stage.Starts("second") == 0);
}

// H19: held by somebody's finalizer.
SCENARIO_ON_WORLDS(dying, "A Job that is being deleted is not started, whoever finds it") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.Submit({.name = "running"});
  stage.AwaitRunning("running");
  Json job = Stage::JobObject({.name = "dying"});
  job["metadata"]["finalizers"] = Json::array({"example.com/hold"});
  stage.Post(stage.JobsPath(), job);
  stage.AwaitWaiting("dying");
  stage.Crash([&] {
    stage.Delete(stage.JobPath("dying"));
    stage.Delete(stage.JobPath("running"));
  });
  stage.Submit({.name = "next"});
  stage.AwaitRunning("next");
  stage.Delete(stage.JobPath("next"));
  stage.AwaitUsage("cq", 0);
  stage.world().Pass(std::chrono::seconds(2));
  CHECK(stage.Suspended("dying"));
  CHECK(stage.Starts("dying") == 0);
  stage.Patch(stage.JobPath("dying"), {{"metadata", {{"finalizers", nullptr}}}});
  stage.AwaitGone(stage.JobPath("dying"));
}

}  // namespace
}  // namespace muster::scenarios
