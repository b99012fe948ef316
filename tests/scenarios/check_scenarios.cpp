// Two-phase admission (kueue_semantics 5.5): quota is reserved, and the Job starts once the AdmissionChecks of its
// ClusterQueue are ready. The scenario plays their controllers.
#include <catch2/catch.hpp>

#include "muster/core/time.h"
#include "stage.h"

namespace muster::scenarios {
namespace {

const std::string kChecks = "/apis/kueue.x-k8s.io/v1beta2/admissionchecks";

std::string CheckName(const Stage& stage, const std::string& name) { return stage.ns() + "-" + name; }

void SetActive(Stage& stage, const std::string& name, bool active) {
  const Json condition = {{"type", "Active"},
                          {"status", active ? "True" : "False"},
                          {"reason", "Scenario"},
                          {"message", ""},
                          {"lastTransitionTime", FormatTime(stage.world().Now())}};
  stage.Patch(kChecks + "/" + CheckName(stage, name) + "/status",
              {{"status", {{"conditions", Json::array({condition})}}}});
}

void MakeCheck(Stage& stage, const std::string& name) {
  stage.Post(kChecks, {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                       {"kind", "AdmissionCheck"},
                       {"metadata", {{"name", CheckName(stage, name)}}},
                       {"spec", {{"controllerName", "example.com/scenario"}}}});
  SetActive(stage, name, true);
}

Json Asks(const Stage& stage, const std::vector<std::string>& names) {
  Json list = Json::array();
  for (const std::string& name : names) list.push_back({{"name", CheckName(stage, name)}});
  return {{"admissionChecksStrategy", {{"admissionChecks", list}}}};
}

std::string ActiveReason(Stage& stage, const std::string& queue) {
  const Json object = stage.Get(stage.ClusterQueue(queue));
  return Text(sim::Get(sim::FindCondition(At(object, "status", "conditions"), "Active"), "reason"));
}

// The checks that "cq" asks for, which are there: a Job that comes next finds them known.
void AskForChecks(Stage& stage, const Json& spec) {
  stage.EditClusterQueue("cq", spec);
  stage.Await("the checks of cq are known", [&] { return ActiveReason(stage, "cq") == "Ready"; });
}

// One ClusterQueue "cq" of so many cpus that asks for the check "budget".
void MakeBudgetedQueue(Stage& stage, int cpus) {
  MakeCheck(stage, "budget");
  stage.MakeQueue({.quotas = {{.nominal = cpus}}});
  AskForChecks(stage, Asks(stage, {"budget"}));
}

// What the Workload of the Job says of the check; null: nothing.
Json State(Stage& stage, const std::string& job, const std::string& check) {
  const Json workload = stage.Workload(job);
  for (const Json& state : At(workload, "status", "admissionChecks")) {
    if (Text(sim::Get(state, "name")) == CheckName(stage, check)) return state;
  }
  return Json();
}
std::string StateName(Stage& stage, const std::string& job, const std::string& check) {
  return Text(sim::Get(State(stage, job, check), "state"));
}

// As a controller does that knows of its own check only: all else in the list stays. Where somebody else writes at the
// same time, it does it again.
void Answer(Stage& stage, const std::string& job, const std::string& check, const std::string& state,
            const Json& more = Json::object()) {
  stage.Await("the check " + check + " of " + job + " is " + state, [&] {
    const Json workload = stage.Workload(job);
    Json list = At(workload, "status", "admissionChecks");
    bool found = false;
    for (Json& item : list) {
      if (Text(sim::Get(item, "name")) != CheckName(stage, check)) continue;
      item["state"] = state;
      item["message"] = "";
      item["lastTransitionTime"] = FormatTime(stage.world().Now());
      item.merge_patch(more);
      found = true;
    }
    if (!found) return false;
    const std::string target = "/apis/kueue.x-k8s.io/v1beta2/namespaces/" + stage.ns() + "/workloads/" +
                               Text(At(workload, "metadata", "name")) + "/status";
    const Json patch = {{"metadata", {{"resourceVersion", At(workload, "metadata", "resourceVersion")}}},
                        {"status", {{"admissionChecks", list}}}};
    return stage.world().Call("PATCH", target, patch.dump(), kMergePatch).ok();
  });
}

void AwaitReserved(Stage& stage, const std::string& job, const std::string& check = "budget") {
  stage.Await(job + " is reserved and waits for its check", [&] {
    return stage.Condition(job, "QuotaReserved") == "True/QuotaReserved" &&
           stage.Condition(job, "Admitted") == "False/UnsatisfiedAdmissionChecks" &&
           StateName(stage, job, check) == "Pending";
  });
}

Json Template(Stage& stage, const std::string& job) { return At(stage.Job(job), "spec", "template"); }

SCENARIO_ON_WORLDS(check_ready, "A Job starts once its check is ready, with what the check wants in its pods") {
  MakeBudgetedQueue(stage, 2);
  stage.Submit({.name = "train", .pods = 2});
  AwaitReserved(stage, "train");
  CHECK(stage.Suspended("train"));
  CHECK(stage.Condition("train", "muster.dev/Waiting") == "True/AdmissionCheck");
  CHECK(stage.Message("train", "muster.dev/Waiting").find(CheckName(stage, "budget") + " (Pending)") !=
        std::string::npos);
  stage.Submit({.name = "other"});
  stage.AwaitWaiting("other");
  stage.AwaitUsage("cq", 0);  // reserved is not used
  stage.Check("reserved");
  const Json update = {{"name", "main"},
                       {"labels", {{"team.example/paid", "yes"}}},
                       {"annotations", {{"team.example/order", "7"}}},
                       {"nodeSelector", {{"muster.dev/flavor", "a"}}},
                       {"tolerations", Json::array({{{"key", "paid"}, {"operator", "Exists"}}})}};
  Answer(stage, "train", "budget", "Ready", {{"podSetUpdates", Json::array({update})}});
  stage.AwaitRunning("train");
  CHECK(Text(At(Template(stage, "train"), "metadata", "labels", "team.example/paid")) == "yes");
  CHECK(Text(At(Template(stage, "train"), "metadata", "annotations", "team.example/order")) == "7");
  CHECK(At(Template(stage, "train"), "spec", "tolerations").size() == 1);
  stage.AwaitUsage("cq", 2);
  stage.Check("admitted");
  // Stopped, nothing of it is left, and the check has to be passed again.
  const std::string workload = Text(At(stage.Workload("train"), "metadata", "name"));
  const std::string path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/" + stage.ns() + "/workloads/" + workload;
  stage.Patch(path, {{"spec", {{"active", false}}}});
  stage.AwaitStopped("train");
  CHECK(At(Template(stage, "train"), "metadata", "labels", "team.example/paid").is_null());
  CHECK(At(Template(stage, "train"), "metadata", "annotations", "team.example/order").is_null());
  CHECK(At(Template(stage, "train"), "spec", "tolerations").is_null());
  CHECK(StateName(stage, "train", "budget") == "Pending");
  AwaitReserved(stage, "other");
}

// user_pains C13
SCENARIO_ON_WORLDS(check_retries, "A check that retries gives the quota back for as long as it says, each time") {
  MakeBudgetedQueue(stage, 1);
  stage.Submit({.name = "train"});
  for (int round = 1; round <= 3; ++round) {
    AwaitReserved(stage, "train");
    Answer(stage, "train", "budget", "Retry", {{"message", "no machines"}, {"requeueAfterSeconds", 3}});
    stage.Await("its quota is free", [&] {
      return stage.Condition("train", "QuotaReserved").starts_with("False/") &&
             stage.Condition("train", "Evicted") == "True/AdmissionCheck" &&
             StateName(stage, "train", "budget") == "Pending";
    });
    CHECK(Number(sim::Get(State(stage, "train", "budget"), "retryCount")) == round);
    CHECK(stage.Message("train", "Evicted") ==
          "Evicted due to AdmissionCheck in Retry state: \"" + CheckName(stage, "budget") + "\" (no machines)");
  }
  AwaitReserved(stage, "train");
  CHECK(stage.Condition("train", "Requeued") == "True/BackoffFinished");
  CHECK(At(stage.Workload("train"), "status", "requeueState", "requeueAt").is_null());
  stage.Check("reserved for the fourth time");
  Answer(stage, "train", "budget", "Ready");
  stage.AwaitRunning("train");
  // Also while it runs.
  Answer(stage, "train", "budget", "Retry", {{"message", "node lost"}, {"requeueAfterSeconds", 3600}});
  stage.AwaitStopped("train");
  stage.AwaitWaiting("train", "PendingEvaluation");
  stage.Submit({.name = "next"});
  AwaitReserved(stage, "next");
}

SCENARIO_ON_WORLDS(check_rejected,
                   "A check that rejects takes the Job out of its queue, until somebody wants it again") {
  MakeBudgetedQueue(stage, 1);
  stage.Submit({.name = "train"});
  AwaitReserved(stage, "train");
  stage.NextSecond();
  stage.Submit({.name = "other"});
  stage.AwaitWaiting("other");
  Answer(stage, "train", "budget", "Rejected", {{"message", "over budget"}});
  stage.AwaitWaiting("train", "Deactivated");
  CHECK(stage.Condition("train", "Evicted") == "True/DeactivatedDueToAdmissionCheck");
  CHECK_FALSE(Flag(At(stage.Workload("train"), "spec", "active"), true));
  AwaitReserved(stage, "other");
  stage.Check("rejected");
  Answer(stage, "other", "budget", "Ready");
  stage.AwaitRunning("other");
  Answer(stage, "other", "budget", "Rejected", {{"message", "over budget by now"}});
  stage.AwaitStopped("other");
  const std::string workload = Text(At(stage.Workload("train"), "metadata", "name"));
  const std::string path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/" + stage.ns() + "/workloads/" + workload;
  stage.Patch(path, {{"spec", {{"active", true}}}});
  AwaitReserved(stage, "train");
  Answer(stage, "train", "budget", "Ready");
  stage.AwaitRunning("train");
}

SCENARIO_ON_WORLDS(check_flavors, "A check for one flavor holds up only who gets that one") {
  MakeCheck(stage, "scarce");
  stage.MakeQueue({.quotas = {{.flavor = "a", .nominal = 1}, {.flavor = "b", .nominal = 1}}});
  const Json rule = {{"name", CheckName(stage, "scarce")}, {"onFlavors", Json::array({"b"})}};
  AskForChecks(stage, {{"admissionChecksStrategy", {{"admissionChecks", Json::array({rule})}}}});
  stage.Submit({.name = "first"});
  stage.AwaitRunning("first");
  CHECK(stage.FlavorOf("first") == "a");
  stage.Submit({.name = "second"});
  AwaitReserved(stage, "second", "scarce");
  stage.Check("one runs, one is reserved");
  Answer(stage, "second", "scarce", "Ready");
  stage.AwaitRunning("second");
  CHECK(stage.FlavorOf("second") == "b");
  CHECK(State(stage, "first", "scarce").is_null());
}

SCENARIO_ON_WORLDS(check_conflict, "What a check wants against the template's will fails the Job, with the names") {
  MakeBudgetedQueue(stage, 1);
  stage.Submit({.name = "train", .spec = {{"template", {{"metadata", {{"labels", {{"team.example/paid", "no"}}}}}}}}});
  AwaitReserved(stage, "train");
  const Json update = {{"name", "main"}, {"labels", {{"team.example/paid", "yes"}}}};
  Answer(stage, "train", "budget", "Ready", {{"podSetUpdates", Json::array({update})}});
  stage.AwaitFinished("train", "FailedToStart");
  CHECK(stage.Message("train", "Finished") ==
        "invalid admission check PodSetUpdate: conflict for labels[team.example/paid]: \"no\" is there, and "
        "AdmissionCheck " +
            CheckName(stage, "budget") + " wants \"yes\"");
  CHECK(stage.Suspended("train"));
  stage.Submit({.name = "next"});
  AwaitReserved(stage, "next");
}

SCENARIO_ON_WORLDS(check_edits, "Checks come and go while work waits and runs") {
  MakeCheck(stage, "budget");
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  stage.Submit({.name = "runs"});
  stage.AwaitRunning("runs");
  stage.EditClusterQueue("cq", Asks(stage, {"budget"}));
  // What runs goes on, and its Workload tells of the check.
  stage.Await("the check is listed", [&] { return StateName(stage, "runs", "budget") == "Pending"; });
  stage.Submit({.name = "waits"});
  AwaitReserved(stage, "waits");
  stage.Check("one runs, one is reserved");
  // Another one: both have to be ready.
  MakeCheck(stage, "second");
  stage.EditClusterQueue("cq", Asks(stage, {"budget", "second"}));
  AwaitReserved(stage, "waits", "second");
  Answer(stage, "waits", "budget", "Ready");
  // Its controller goes away: what is reserved stays, nobody else comes in.
  SetActive(stage, "budget", false);
  stage.Await("the queue says so", [&] { return ActiveReason(stage, "cq") == "AdmissionCheckInactive"; });
  CHECK(stage.Condition("waits", "QuotaReserved") == "True/QuotaReserved");
  CHECK(stage.Suspended("waits"));
  // The one that is missing is not asked for any more.
  stage.EditClusterQueue("cq", Asks(stage, {"budget"}));
  stage.AwaitRunning("waits");
  stage.EditClusterQueue("cq", {{"admissionChecksStrategy", nullptr}});
  stage.Await("nothing is listed", [&] { return State(stage, "runs", "budget").is_null(); });
  CHECK_FALSE(stage.Suspended("runs"));
}

SCENARIO_ON_WORLDS(check_stop, "A queue on hold takes back what is reserved, and leaves what is admitted") {
  MakeBudgetedQueue(stage, 2);
  stage.Submit({.name = "runs"});
  AwaitReserved(stage, "runs");
  Answer(stage, "runs", "budget", "Ready");
  stage.AwaitRunning("runs");
  stage.Submit({.name = "waits"});
  AwaitReserved(stage, "waits");
  stage.EditClusterQueue("cq", {{"stopPolicy", "Hold"}});
  stage.AwaitWaiting("waits", "Suspended");
  CHECK(stage.Condition("waits", "Evicted").empty());
  CHECK_FALSE(stage.Suspended("runs"));
  stage.Check("on hold");
  stage.EditClusterQueue("cq", {{"stopPolicy", "None"}});
  AwaitReserved(stage, "waits");
}

SCENARIO_ON_WORLDS(check_crash, "A reservation outlives Muster, and a check that gets ready meanwhile starts the Job") {
  MakeBudgetedQueue(stage, 1);
  stage.Submit({.name = "train"});
  AwaitReserved(stage, "train");
  stage.Crash();
  stage.NextSecond();
  stage.Submit({.name = "other"});
  stage.AwaitWaiting("other");
  AwaitReserved(stage, "train");
  stage.Crash([&] { Answer(stage, "train", "budget", "Ready"); });
  stage.AwaitRunning("train");
  CHECK(stage.Starts("train") == 1);
}

SCENARIO_ON_WORLDS(check_deleted, "A check that is in use stays until no queue asks for it") {
  MakeBudgetedQueue(stage, 1);
  const std::string path = kChecks + "/" + CheckName(stage, "budget");
  stage.Await("it is kept", [&] { return !At(stage.Get(path), "metadata", "finalizers").empty(); });
  stage.Delete(path);
  CHECK_FALSE(stage.Get(path).is_null());
  stage.EditClusterQueue("cq", {{"admissionChecksStrategy", nullptr}});
  stage.AwaitGone(path);
  stage.EditClusterQueue("cq", Asks(stage, {"budget"}));
  stage.Await("the queue says so", [&] { return ActiveReason(stage, "cq") == "AdmissionCheckNotFound"; });
  stage.Submit({.name = "train"});
  stage.AwaitWaiting("train", "Suspended");
  MakeCheck(stage, "budget");
  AwaitReserved(stage, "train");
}

}  // namespace
}  // namespace muster::scenarios
