// Workloads that people make: beside a Job's own, for a Job, and without one.
// What is right is kueue_semantics 0.4, 2.5, 5.4 and 7.2, and docs/kueue-compatibility.md where Muster differs.
#include <catch2/catch.hpp>

#include "stage.h"

namespace muster::scenarios {
namespace {

// Pods as those of a Job of that name.
Json WorkloadObject(const std::string& name, int pods) {
  Json pod_template = At(Stage::JobObject({.name = name, .pods = pods}), "spec", "template");
  pod_template.erase("metadata");
  return {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
          {"kind", "Workload"},
          {"metadata", {{"name", name}}},
          {"spec",
           {{"queueName", "lq"},
            {"podSets", Json::array({{{"name", "main"}, {"count", pods}, {"template", pod_template}}})}}}};
}

std::string Workloads(Stage& stage) { return "/apis/kueue.x-k8s.io/v1beta2/namespaces/" + stage.ns() + "/workloads"; }

// "True/Admitted"
std::string ConditionOf(Stage& stage, const std::string& workload, const std::string& type) {
  const Json object = stage.Get(Workloads(stage) + "/" + workload);
  const Json& condition = sim::FindCondition(At(object, "status", "conditions"), type);
  if (condition.is_null()) return "";
  return Text(sim::Get(condition, "status")) + "/" + Text(sim::Get(condition, "reason"));
}

void AwaitCondition(Stage& stage, const std::string& workload, const std::string& type, const std::string& value) {
  stage.Await(workload + " is " + type + " " + value, [&] { return ConditionOf(stage, workload, type) == value; });
}

void FinishWorkload(Stage& stage, const std::string& workload) {
  const std::string path = Workloads(stage) + "/" + workload;
  Json conditions = At(stage.Get(path), "status", "conditions");
  conditions.push_back({{"type", "Finished"},
                        {"status", "True"},
                        {"reason", "Succeeded"},
                        {"message", "done"},
                        {"lastTransitionTime", "2026-01-01T00:00:00Z"}});
  stage.Patch(path + "/status", {{"status", {{"conditions", conditions}}}});
}

const Json kNames = {{"kueue.x-k8s.io/prebuilt-workload-name", "made"}};

SCENARIO_ON_WORLDS(second_workload, "A second Workload of a running Job is deleted, and the Job runs on") {
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  const Json job = stage.Submit({.name = "train"});
  stage.AwaitRunning("train");
  Json second = WorkloadObject("second", 1);
  second["spec"]["active"] = false;
  second["metadata"]["ownerReferences"] = Json::array({{{"apiVersion", "batch/v1"},
                                                        {"kind", "Job"},
                                                        {"name", "train"},
                                                        {"uid", At(job, "metadata", "uid")},
                                                        {"controller", true}}});
  stage.Post(Workloads(stage), second);
  stage.AwaitGone(Workloads(stage) + "/second");
  stage.Check("the second is gone, and the Job runs");
  stage.Crash([&] { stage.Post(Workloads(stage), second); });
  stage.AwaitGone(Workloads(stage) + "/second");
  stage.AwaitRunning("train");
  CHECK(stage.Starts("train") == 1);
}

SCENARIO_ON_WORLDS(lone_workload, "A Workload without a Job holds its quota until it is finished, crash or not") {
  stage.MakeQueue({.quotas = {{.nominal = 3}}});
  stage.Post(Workloads(stage), WorkloadObject("lone", 2));
  AwaitCondition(stage, "lone", "Admitted", "True/Admitted");
  stage.Submit({.name = "train", .pods = 2});
  stage.AwaitWaiting("train");
  stage.Check("the Job waits for the Workload");
  stage.Crash();
  stage.Submit({.name = "fits"});
  stage.AwaitRunning("fits");  // it decides again
  CHECK(stage.Starts("train") == 0);
  CHECK(ConditionOf(stage, "lone", "Admitted") == "True/Admitted");
  FinishWorkload(stage, "lone");
  stage.AwaitRunning("train");
}

SCENARIO_ON_WORLDS(lone_waits, "A Workload without a Job waits for quota, and leaves the queue when it is deleted") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}, .strategy = "StrictFIFO"});
  stage.Submit({.name = "train"});
  stage.AwaitRunning("train");
  stage.Post(Workloads(stage), WorkloadObject("lone", 2));
  AwaitCondition(stage, "lone", "QuotaReserved", "False/WaitingForQuota");
  stage.NextSecond();
  stage.Submit({.name = "behind"});
  stage.AwaitWaiting("behind", "");
  stage.Delete(Workloads(stage) + "/lone");
  stage.AwaitRunning("behind");
}

SCENARIO_ON_WORLDS(lone_evicted, "A Workload without a Job is out at once when it is evicted, and queues again") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  stage.Post(Workloads(stage), WorkloadObject("lone", 2));
  AwaitCondition(stage, "lone", "Admitted", "True/Admitted");
  stage.Patch(Workloads(stage) + "/lone", {{"spec", {{"active", false}}}});
  AwaitCondition(stage, "lone", "QuotaReserved", "False/Deactivated");
  stage.Submit({.name = "train", .pods = 2});
  stage.AwaitRunning("train");
  stage.Check("the Job runs instead");
  stage.Patch(Workloads(stage) + "/lone", {{"spec", {{"active", true}}}});
  AwaitCondition(stage, "lone", "QuotaReserved", "False/WaitingForQuota");
  stage.Delete(stage.JobPath("train"));
  AwaitCondition(stage, "lone", "Admitted", "True/Admitted");
}

SCENARIO_ON_WORLDS(prebuilt, "A Job takes the Workload that was made for it, and starts once that is admitted") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  stage.Submit({.name = "first", .pods = 2});
  stage.AwaitRunning("first");
  stage.Submit({.name = "train", .pods = 2, .annotations = kNames});
  stage.Await("the missing Workload is told of",
              [&] { return stage.Events().contains("Warning Job/train ErrWorkloadCompose"); });
  stage.Post(Workloads(stage), WorkloadObject("made", 2));
  stage.AwaitWaiting("train");
  stage.Check("it waits with its Workload");
  stage.Delete(stage.JobPath("first"));
  stage.AwaitRunning("train");
  CHECK(stage.Starts("train") == 1);
  CHECK(Text(At(stage.Workload("train"), "metadata", "name")) == "made");
}

SCENARIO_ON_WORLDS(prebuilt_admitted, "A Job whose Workload was admitted before starts with that quota, crash or not") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  stage.Post(Workloads(stage), WorkloadObject("made", 2));
  AwaitCondition(stage, "made", "Admitted", "True/Admitted");
  stage.Crash([&] { stage.Submit({.name = "train", .pods = 2, .annotations = kNames}); });
  stage.AwaitRunning("train");
  stage.Crash();
  stage.Submit({.name = "next"});
  stage.AwaitWaiting("next");
  CHECK(stage.Starts("train") == 1);
  CHECK(stage.Starts("next") == 0);
  stage.Delete(stage.JobPath("train"));
  stage.AwaitRunning("next");
  stage.AwaitGone(Workloads(stage) + "/made");
}

SCENARIO_ON_WORLDS(prebuilt_deactivated, "A deactivated prebuilt Workload stops its Job; active again, it starts") {
  stage.IsToldByChance("ErrWorkloadCompose");
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.Post(Workloads(stage), WorkloadObject("made", 1));
  const Json created = stage.Submit({.name = "train", .annotations = kNames});
  stage.AwaitRunning("train");
  stage.Patch(Workloads(stage) + "/made", {{"spec", {{"active", false}}}});
  stage.AwaitStopped("train");
  CHECK(At(stage.Job("train"), "spec", "template") == At(created, "spec", "template"));
  CHECK(stage.Condition("train", "Evicted") == "True/Deactivated");
  stage.Patch(Workloads(stage) + "/made", {{"spec", {{"active", true}}}});
  stage.AwaitRunning("train");
  CHECK(stage.Starts("train") == 2);
}

SCENARIO_ON_WORLDS(prebuilt_out_of_sync, "A Job that its prebuilt Workload does not fit never starts") {
  stage.MakeQueue({.quotas = {{.nominal = 3}}});
  Json made = WorkloadObject("made", 1);
  made["spec"]["queueName"] = "none";
  stage.Post(Workloads(stage), made);
  AwaitCondition(stage, "made", "QuotaReserved", "False/Misconfigured");
  stage.Submit({.name = "train", .pods = 2, .annotations = kNames});
  stage.AwaitFinished("train", "OutOfSync");
  stage.Submit({.name = "other", .pods = 3});
  stage.AwaitRunning("other");
  CHECK(stage.Starts("train") == 0);
}

}  // namespace
}  // namespace muster::scenarios
