// Queues that are stopped, edited, deleted, missing or malformed, while Jobs wait and run.
// What is right is kueue_semantics sections 1.3, 4 and 7.
#include <catch2/catch.hpp>

#include "stage.h"

namespace muster::scenarios {
namespace {

SCENARIO_ON_WORLDS(held, "A held ClusterQueue starts nobody new and stops nobody") {
  stage.MakeQueue({.quotas = {{.nominal = 4}}});
  stage.Submit({.name = "running"});
  stage.AwaitRunning("running");
  stage.EditClusterQueue("cq", {{"stopPolicy", "Hold"}});
  stage.Submit({.name = "waiting"});
  stage.AwaitWaiting("waiting", "Suspended");
  stage.Check("held");
  CHECK_FALSE(stage.Suspended("running"));
  stage.EditClusterQueue("cq", {{"stopPolicy", "None"}});
  stage.AwaitRunning("waiting");
  CHECK(stage.Starts("running") == 1);
}

SCENARIO_ON_WORLDS(drained, "A drained ClusterQueue stops its gangs, gives the templates back, and starts them again") {
  stage.MakeQueue({.quotas = {{.nominal = 4}}});
  const Json created = stage.Submit({.name = "train", .pods = 2});
  stage.AwaitRunning("train");
  stage.EditClusterQueue("cq", {{"stopPolicy", "HoldAndDrain"}});
  stage.AwaitStopped("train");
  CHECK(At(stage.Job("train"), "spec", "template") == At(created, "spec", "template"));
  stage.Await("the eviction shows", [&] {
    return stage.Condition("train", "Evicted") == "True/ClusterQueueStopped" &&
           stage.Condition("train", "QuotaReserved") == "False/Suspended";
  });
  stage.Check("drained");
  stage.EditClusterQueue("cq", {{"stopPolicy", "None"}});
  stage.AwaitRunning("train");
  CHECK(stage.Starts("train") == 2);
  CHECK(stage.Condition("train", "Requeued") == "True/ClusterQueueRestarted");
}

SCENARIO_ON_WORLDS(default_queue,
                   "A LocalQueue named default takes the Jobs that name none, but not while it is held") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}, .local_queue = "default"});
  const Json labels = {{"team", "research"}};  // a Job without any shows its template's
  int probes = 0;
  // Policies hear of a queue a little after it was made or edited.
  const auto await_taken = [&](bool taken) {
    stage.Await(taken ? "it takes Jobs" : "it takes none", [&] {
      const Json job =
          stage.Probe({.name = "probe-" + std::to_string(++probes), .queue = "", .spec = {{"suspend", true}}});
      return At(job, "metadata", "labels").contains("kueue.x-k8s.io/queue-name") == taken;
    });
  };
  await_taken(true);
  stage.Submit({.name = "train", .queue = "", .labels = labels});
  stage.AwaitRunning("train");
  CHECK(stage.FlavorOf("train") == "a");
  stage.Submit({.name = "next", .queue = "", .labels = labels});
  stage.AwaitWaiting("next");
  stage.EditLocalQueue("default", {{"stopPolicy", "Hold"}});
  await_taken(false);
  stage.Submit({.name = "plain", .seconds = "0.2", .queue = "", .labels = labels});
  stage.Await("it ends", [&] { return sim::HasCondition(stage.Job("plain"), "Complete"); });
  CHECK(stage.Workload("plain").is_null());
  stage.EditLocalQueue("default", {{"stopPolicy", "None"}});
  stage.Delete(stage.JobPath("train"));
  stage.AwaitRunning("next");
}

SCENARIO_ON_WORLDS(local_held, "A held LocalQueue starts nobody new; its neighbours go on") {
  stage.MakeQueue({.quotas = {{.nominal = 4}}});
  stage.MakeLocalQueue("other", "cq");
  stage.Submit({.name = "running"});
  stage.AwaitRunning("running");
  stage.EditLocalQueue("lq", {{"stopPolicy", "Hold"}});
  stage.Submit({.name = "waiting"});
  stage.AwaitWaiting("waiting", "Suspended");
  stage.Submit({.name = "neighbour", .queue = "other"});
  stage.AwaitRunning("neighbour");
  stage.Check("held");
  stage.EditLocalQueue("lq", {{"stopPolicy", "None"}});
  stage.AwaitRunning("waiting");
  CHECK(stage.Starts("running") == 1);
}

SCENARIO_ON_WORLDS(local_drained, "A drained LocalQueue stops its own gangs only") {
  stage.MakeQueue({.quotas = {{.nominal = 4}}});
  stage.MakeLocalQueue("other", "cq");
  stage.Submit({.name = "mine", .pods = 2});
  stage.Submit({.name = "neighbour", .queue = "other"});
  stage.AwaitRunning("mine");
  stage.AwaitRunning("neighbour");
  stage.EditLocalQueue("lq", {{"stopPolicy", "HoldAndDrain"}});
  stage.AwaitStopped("mine");
  stage.Await("the eviction shows", [&] { return stage.Condition("mine", "Evicted") == "True/LocalQueueStopped"; });
  CHECK(stage.Starts("neighbour") == 1);
  CHECK_FALSE(stage.Suspended("neighbour"));
}

SCENARIO_ON_WORLDS(quota_up, "More quota starts who waits for it") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.Submit({.name = "train", .pods = 3});
  stage.AwaitWaiting("train", "ExceedsMaxQuota");
  stage.SetQuota("cq", {{.nominal = 3}});
  stage.AwaitRunning("train");
}

SCENARIO_ON_WORLDS(quota_down, "Less quota stops nobody, and nobody new starts above it") {
  stage.MakeQueue({.quotas = {{.nominal = 4}}});
  stage.Submit({.name = "running", .pods = 3});
  stage.AwaitRunning("running");
  stage.SetQuota("cq", {{.nominal = 2}});
  stage.Submit({.name = "waiting", .pods = 1});
  stage.AwaitWaiting("waiting");
  stage.Check("3 of 2 are used");
  stage.Delete(stage.JobPath("running"));
  stage.AwaitRunning("waiting");
}

SCENARIO_ON_WORLDS(flavor_added, "A flavor that is added to a queue serves who waits") {
  stage.MakeQueue({.quotas = {{.flavor = "a", .nominal = 1}}});
  stage.Submit({.name = "one"});
  stage.AwaitRunning("one");
  stage.Submit({.name = "two"});
  stage.AwaitWaiting("two");
  stage.SetQuota("cq", {{.flavor = "a", .nominal = 1}, {.flavor = "b", .nominal = 1}});
  stage.AwaitRunning("two");
  CHECK(stage.FlavorOf("two") == "b");
}

SCENARIO_ON_WORLDS(joins_cohort, "A queue that joins a cohort borrows, and one that leaves cannot") {
  stage.MakeQueue({.name = "poor", .quotas = {{.nominal = 1}}, .local_queue = "poor"});
  stage.MakeQueue({.name = "rich", .quotas = {{.nominal = 4}}, .cohort = "all", .local_queue = "rich"});
  stage.Submit({.name = "one", .pods = 3, .queue = "poor"});
  stage.AwaitWaiting("one", "ExceedsMaxQuota");
  stage.EditClusterQueue("poor", {{"cohortName", stage.CohortName("all")}});
  stage.AwaitRunning("one");
  stage.EditClusterQueue("poor", {{"cohortName", nullptr}});
  stage.Submit({.name = "two", .pods = 4, .queue = "rich"});
  stage.AwaitRunning("two");  // what poor uses too much is poor's alone
  stage.Submit({.name = "three", .queue = "poor"});
  stage.AwaitWaiting("three");
}

SCENARIO_ON_WORLDS(deleted_cluster_queue, "A Job of a deleted ClusterQueue waits until there is one again") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.Submit({.name = "first"});
  stage.AwaitRunning("first");
  stage.Submit({.name = "second"});
  stage.AwaitWaiting("second");
  stage.DeleteClusterQueue("cq");
  stage.AwaitWaiting("second", "Misconfigured");
  CHECK(stage.Message("second", "QuotaReserved") == "ClusterQueue " + stage.ns() + "-cq doesn't exist");
  stage.Check("without a queue");
  CHECK(stage.Starts("first") == 1);
  stage.MakeClusterQueue({.quotas = {{.nominal = 2}}});
  stage.AwaitRunning("second");
}

SCENARIO_ON_WORLDS(deleted_local_queue,
                   "A deleted LocalQueue leaves running gangs alone and keeps the others waiting") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.Submit({.name = "first"});
  stage.AwaitRunning("first");
  stage.Submit({.name = "second"});
  stage.AwaitWaiting("second");
  stage.Delete(stage.LocalQueue("lq"));
  stage.AwaitWaiting("second", "Misconfigured");
  CHECK(stage.Message("second", "QuotaReserved") == "LocalQueue lq doesn't exist");
  CHECK_FALSE(stage.Suspended("first"));
  stage.Check("without a queue");
  stage.Delete(stage.JobPath("first"));
  stage.MakeLocalQueue("lq", "cq");
  stage.AwaitRunning("second");
}

SCENARIO_ON_WORLDS(no_local_queue, "A Job waits for a LocalQueue that does not exist yet") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}, .local_queue = ""});
  stage.Submit({.name = "train"});
  stage.AwaitWaiting("train", "Misconfigured");
  stage.MakeLocalQueue("lq", "cq");
  stage.AwaitRunning("train");
}

SCENARIO_ON_WORLDS(no_cluster_queue, "A LocalQueue waits for its ClusterQueue, and says so") {
  stage.MakeLocalQueue("lq", "cq");
  stage.Submit({.name = "train"});
  stage.AwaitWaiting("train", "Misconfigured");
  stage.Check("no ClusterQueue");
  const Json active = sim::FindCondition(At(stage.Get(stage.LocalQueue("lq")), "status", "conditions"), "Active");
  CHECK(Text(sim::Get(active, "reason")) == "ClusterQueueDoesNotExist");
  stage.MakeClusterQueue({.quotas = {{.nominal = 1}}});
  stage.AwaitRunning("train");
}

// user_pains C12
SCENARIO_ON_WORLDS(no_flavor, "A ClusterQueue is inactive until its flavor exists") {
  const std::string flavor = stage.ns() + "-late";
  stage.MakeQueue({.quotas = {{.flavor = flavor, .nominal = 1}}});
  stage.Submit({.name = "train"});
  stage.AwaitWaiting("train", "Suspended");
  const Json active = sim::FindCondition(At(stage.Get(stage.ClusterQueue("cq")), "status", "conditions"), "Active");
  CHECK(Text(sim::Get(active, "reason")) == "FlavorNotFound");
  stage.Post("/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
             {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
              {"kind", "ResourceFlavor"},
              {"metadata", {{"name", flavor}}},
              {"spec", {{"nodeLabels", {{"muster.dev/flavor", "a"}}}}}});
  stage.AwaitRunning("train");
  CHECK(stage.FlavorOf("train") == "a");
}

SCENARIO_ON_WORLDS(malformed, "A queue that asks for a check that does not exist is inactive by name, and the others go on") {
  stage.MakeQueue({.name = "odd", .quotas = {{.nominal = 4}}, .local_queue = "odd"});
  const Json check = {{"name", "budget"}};
  stage.EditClusterQueue("odd", {{"admissionChecksStrategy", {{"admissionChecks", Json::array({check})}}}});
  stage.MakeQueue({.name = "good", .quotas = {{.nominal = 4}}, .local_queue = "good"});
  stage.Await("the queue says so", [&] {
    const Json queue = stage.Get(stage.ClusterQueue("odd"));
    return Text(sim::Get(sim::FindCondition(At(queue, "status", "conditions"), "Active"), "reason")) ==
           "AdmissionCheckNotFound";
  });
  stage.Submit({.name = "stuck", .queue = "odd"});
  stage.AwaitWaiting("stuck", "Suspended");
  stage.Submit({.name = "train", .queue = "good"});
  stage.AwaitRunning("train");
  stage.Check("one queue works");
  stage.EditClusterQueue("odd", {{"admissionChecksStrategy", nullptr}});
  stage.AwaitRunning("stuck");
}

SCENARIO_ON_WORLDS(namespaces, "A namespace that the ClusterQueue does not want waits until it gets the label") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}, .namespace_selector = {{"matchLabels", {{"team", "research"}}}}});
  stage.Submit({.name = "train"});
  stage.AwaitWaiting("train", "Misconfigured");
  CHECK(stage.Message("train", "QuotaReserved") == "workload namespace doesn't match ClusterQueue selector");
  stage.Patch("/api/v1/namespaces/" + stage.ns(), {{"metadata", {{"labels", {{"team", "research"}}}}}});
  stage.AwaitRunning("train");
}

}  // namespace
}  // namespace muster::scenarios
