// Gangs whose pods do not get ready, or do not recover: what their Workloads tell, when they are stopped, and when they
// are tried again. What is right is kueue_semantics 7.1 and 4.1, user_pains F7 and H2, and docs/kueue-compatibility.md.
#include "muster/controller/pods_ready.h"

#include <catch2/catch.hpp>

#include "each_write.h"
#include "muster/core/time.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using sim::Number;
using sim::Text;
using std::chrono::minutes;
using std::chrono::seconds;

Json Condition(const World& world, const std::string& job, const std::string& type) {
  const Json workload = world.WorkloadOf(job);
  return sim::FindCondition(At(workload, "status", "conditions"), type);
}
// "Status/Reason"
std::string ConditionOf(const World& world, const std::string& job, const std::string& type) {
  const Json condition = Condition(world, job, type);
  if (condition.is_null()) return "";
  return Text(sim::Get(condition, "status")) + "/" + Text(sim::Get(condition, "reason"));
}
std::string MessageOf(const World& world, const std::string& job, const std::string& type) {
  return Text(sim::Get(Condition(world, job, type), "message"));
}
std::string NameOf(const World& world, const std::string& job) {
  return Text(At(world.WorkloadOf(job), "metadata", "name"));
}
bool Active(const World& world, const std::string& job) {
  return sim::Flag(At(world.WorkloadOf(job), "spec", "active"), true);
}
int64_t Evictions(const World& world, const std::string& job, const std::string& reason, const std::string& cause) {
  const Json workload = world.WorkloadOf(job);
  for (const Json& count : At(workload, "status", "schedulingStats", "evictions")) {
    if (Text(sim::Get(count, "reason")) == reason && Text(sim::Get(count, "underlyingCause")) == cause) {
      return Number(sim::Get(count, "count"));
    }
  }
  return 0;
}

// A Job of one cpu a pod.
void Submit(World& world, const std::string& name, int pods, const std::map<std::string, std::string>& plan) {
  Json job = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"team",
    "labels":{"kueue.x-k8s.io/queue-name":"lq"}},"spec":{"suspend":true,
    "template":{"metadata":{"annotations":{"muster.dev/run-seconds":"36000"}},"spec":{"restartPolicy":"Never",
    "containers":[{"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}})");
  job["metadata"]["name"] = name;
  job["spec"]["parallelism"] = pods;
  job["spec"]["completions"] = pods;
  job["spec"]["backoffLimit"] = 100;
  for (const auto& [key, value] : plan) job["spec"]["template"]["metadata"]["annotations"]["muster.dev/" + key] = value;
  world.Create(std::move(job));
}

const std::map<std::string, std::string> kNever = {{"start-seconds", "1000000"}};

Options Waiting(WaitForPodsReadyOptions wait) {
  Options options = World::DefaultOptions();
  options.wait_for_pods_ready = wait;
  return options;
}

WaitForPodsReadyOptions Short() {
  WaitForPodsReadyOptions wait;
  wait.timeout = seconds(60);
  wait.recovery_timeout = seconds(20);
  wait.backoff_base = seconds(30);
  wait.backoff_max = seconds(100);
  return wait;
}

// RETURNS: how long it took until the Job was suspended, or not any more.
Duration Until(World& world, const std::string& job, bool suspended) {
  const WallTime from = world.executor.Now();
  REQUIRE(world.RunUntil([&] { return Suspended(world, job) == suspended; }, minutes(60)));
  return world.executor.Now() - from;
}

bool About(Duration d, int64_t wanted) { return d > seconds(wanted - 2) && d < seconds(wanted + 3); }

// ---- the rules ------------------------------------------------------------------------------------

TEST_CASE("The pause before a gang is queued again doubles, up to its maximum") {
  WaitForPodsReadyOptions wait;  // kueue_semantics 1.9: 60 s and an hour
  CHECK(RequeueDelay(1, wait) == seconds(60));
  CHECK(RequeueDelay(2, wait) == seconds(120));
  CHECK(RequeueDelay(6, wait) == seconds(1920));
  CHECK(RequeueDelay(7, wait) == seconds(3600));
  CHECK(RequeueDelay(2'000'000'000, wait) == seconds(3600));
  wait.backoff_base = Duration(0);
  CHECK(RequeueDelay(2'000'000'000, wait) == Duration(0));
  wait.backoff_base = SecondsClamped(2'000'000'000);
  wait.backoff_max = SecondsClamped(2'147'483'647);
  CHECK(RequeueDelay(40, wait) == seconds(2'147'483'647));
}

TEST_CASE("What is told of pods follows from whether all are ready, and from what was told before") {
  using Phase = PodsReady::Phase;
  const WallTime t1{1'000'000'000}, t2{2'000'000'000};
  const PodsReady start{Phase::kWaitForStart, t1};
  CHECK(Next(start, false, t2) == start);
  CHECK(Next(start, true, t2) == PodsReady{Phase::kStarted, t2});
  CHECK(Next({Phase::kStarted, t1}, true, t2) == PodsReady{Phase::kStarted, t1});
  CHECK(Next({Phase::kStarted, t1}, false, t2) == PodsReady{Phase::kWaitForRecovery, t2});
  CHECK(Next({Phase::kWaitForRecovery, t1}, true, t2) == PodsReady{Phase::kRecovered, t2});
  CHECK(Next({Phase::kRecovered, t1}, false, t2) == PodsReady{Phase::kWaitForRecovery, t2});
  // Whoever reads a condition goes on with what it tells.
  for (const Phase phase : {Phase::kWaitForStart, Phase::kStarted, Phase::kWaitForRecovery, Phase::kRecovered}) {
    const PodsReady told{phase, t1};
    k8s::Condition condition;
    condition.status = told.ready() ? "True" : "False";
    condition.reason = told.reason();
    condition.last_transition = t1;
    CHECK(PodsReadyOf(&condition, t1) == told);
  }
  CHECK(PodsReadyOf(nullptr, t2) == PodsReady{Phase::kWaitForStart, t2});
}

// ---- what is told ---------------------------------------------------------------------------------

// Golden case pods-ready.
TEST_CASE("A Workload tells whether its pods are ready, and whether they were before") {
  World world;
  Process& muster = world.Start("", Waiting(Short()));
  world.MakeQueues("4");
  // Each pod fails after half an hour, and is made again ten seconds later.
  Submit(world, "train", 2, {{"start-seconds", "5"}, {"run-seconds", "1800"}, {"exit-code", "1"}});
  REQUIRE(world.RunUntil([&] { return ConditionOf(world, "train", "PodsReady") == "False/WaitForStart"; }));
  CHECK(MessageOf(world, "train", "PodsReady") == "Not all pods are ready or succeeded");
  REQUIRE(world.RunUntil([&] { return ConditionOf(world, "train", "PodsReady") == "True/Started"; }));
  CHECK(MessageOf(world, "train", "PodsReady") == "All pods reached readiness and the workload is running");
  REQUIRE(
      world.RunUntil([&] { return ConditionOf(world, "train", "PodsReady") == "False/WaitForRecovery"; }, minutes(40)));
  CHECK(MessageOf(world, "train", "PodsReady") == "At least one pod has failed, waiting for recovery");
  REQUIRE(world.RunUntil([&] { return ConditionOf(world, "train", "PodsReady") == "True/Recovered"; }));
  CHECK(MessageOf(world, "train", "PodsReady") == "All pods reached readiness and the workload is running");
  // F7: one sample an admission.
  CHECK(muster.telemetry.ready.size() == 1);
  REQUIRE(muster.telemetry.until_ready.size() == 1);
  CHECK(muster.telemetry.until_ready[0] >= seconds(5));
  CHECK(muster.telemetry.until_ready[0] < seconds(8));
  CHECK(muster.telemetry.ready[0] >= muster.telemetry.until_ready[0]);
  CHECK_FALSE(Suspended(world, "train"));
}

TEST_CASE("Of a Workload that merely waits nothing is told, and without the setting of none") {
  World world;
  const bool on = GENERATE(true, false);
  world.Start("", on ? Waiting(Short()) : World::DefaultOptions());
  world.MakeQueues("2");
  Submit(world, "runs", 2, {});
  world.RunFor(seconds(30));
  // Its admission, and the readiness of its pods.
  CHECK(world.Writes().at("patch workloads/status") == (on ? 2 : 1));
  const size_t before = world.server.writes().size();
  Submit(world, "waits", 2, {});
  world.RunFor(seconds(30));
  CHECK(ConditionOf(world, "runs", "PodsReady") == (on ? "True/Started" : ""));
  // It was told that quota is missing, and the other rides along.
  CHECK(ConditionOf(world, "waits", "PodsReady") == (on ? "False/WaitForStart" : ""));
  CHECK(world.Writes(before).at("patch workloads/status") == 1);
}

TEST_CASE("A Workload that is evicted tells of its pods as they were, until it is out") {
  World world;
  Process& muster = world.Start("", Waiting(Short()));
  world.MakeQueues("4");
  Submit(world, "train", 2, {{"termination-seconds", "20"}});
  REQUIRE(world.RunUntil([&] { return ConditionOf(world, "train", "PodsReady") == "True/Started"; }));
  world.RunFor(seconds(30));
  world.Patch("workloads", "team", NameOf(world, "train"), {{"spec", {{"active", false}}}});
  REQUIRE(world.RunUntil([&] { return ConditionOf(world, "train", "Evicted") == "True/Deactivated"; }));
  if (ConditionOf(world, "train", "Admitted") == "True/Admitted") {
    CHECK(ConditionOf(world, "train", "PodsReady") == "True/Started");
  }
  REQUIRE(world.RunUntil([&] { return ConditionOf(world, "train", "QuotaReserved") == "False/Deactivated"; }));
  CHECK(ConditionOf(world, "train", "PodsReady") == "False/WaitForStart");
  REQUIRE(muster.telemetry.ready_to_evicted.size() == 1);
  CHECK(About(muster.telemetry.ready_to_evicted[0], 30));
}

// ---- time-outs ------------------------------------------------------------------------------------

// Golden case pods-ready-timeout.
TEST_CASE("A gang whose pods do not get ready is queued again after pauses, then deactivated, and begins anew") {
  World world;
  WaitForPodsReadyOptions wait = Short();
  wait.backoff_limit_count = 2;
  Process& muster = world.Start("", Waiting(wait));
  world.MakeQueues("2");
  Submit(world, "stuck", 2, kNever);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "stuck"); }));
  CHECK(About(Until(world, "stuck", true), 60));
  world.RunFor(seconds(10));
  CHECK(ConditionOf(world, "stuck", "Evicted") == "True/PodsReadyTimeout");
  CHECK(MessageOf(world, "stuck", "Evicted") == "Exceeded the PodsReady timeout team/" + NameOf(world, "stuck"));
  CHECK(ConditionOf(world, "stuck", "QuotaReserved").starts_with("False/"));
  CHECK(ConditionOf(world, "stuck", "Requeued") == "False/PodsReadyTimeout");
  CHECK(Number(At(world.WorkloadOf("stuck"), "status", "requeueState", "count")) == 1);
  CHECK(At(world.WorkloadOf("stuck"), "status", "requeueState", "requeueAt").is_string());
  CHECK(Evictions(world, "stuck", "PodsReadyTimeout", "WaitForStart") == 1);
  CHECK(muster.telemetry.evicted_for["WaitForStart"] == 1);
  // Somebody else has the quota meanwhile. 30 s from the eviction.
  CHECK(Number(At(world.Get("clusterqueues", "", "cq"), "status", "reservingWorkloads")) == 0);
  CHECK(About(Until(world, "stuck", false), 20));
  world.RunFor(seconds(5));
  CHECK(ConditionOf(world, "stuck", "Evicted") == "False/QuotaReserved");
  CHECK(ConditionOf(world, "stuck", "Requeued") == "True/BackoffFinished");
  CHECK(MessageOf(world, "stuck", "Requeued") == "The workload backoff was finished");
  CHECK(At(world.WorkloadOf("stuck"), "status", "requeueState").dump() == R"({"count":1})");
  CHECK(ConditionOf(world, "stuck", "PodsReady") == "False/WaitForStart");
  // The second time the pause is twice as long.
  CHECK(About(Until(world, "stuck", true), 55));
  CHECK(About(Until(world, "stuck", false), 60));
  CHECK(About(Until(world, "stuck", true), 60));
  world.RunFor(seconds(10));
  CHECK_FALSE(Active(world, "stuck"));
  CHECK(ConditionOf(world, "stuck", "Evicted") == "True/DeactivatedDueToRequeuingLimitExceeded");
  CHECK(MessageOf(world, "stuck", "Evicted") ==
        "The workload is deactivated due to exceeding the maximum number of re-queuing retries");
  CHECK(ConditionOf(world, "stuck", "DeactivationTarget").empty());
  CHECK(At(world.WorkloadOf("stuck"), "status", "requeueState").is_null());
  CHECK(Evictions(world, "stuck", "PodsReadyTimeout", "WaitForStart") == 2);
  CHECK(Evictions(world, "stuck", "Deactivated", "RequeuingLimitExceeded") == 1);
  const size_t before = world.server.writes().size();
  world.RunFor(minutes(30));
  CHECK(world.Writes(before).empty());
  world.Patch("workloads", "team", NameOf(world, "stuck"), {{"spec", {{"active", true}}}});
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "stuck"); }));
  CHECK(About(Until(world, "stuck", true), 60));
  world.RunFor(seconds(5));
  CHECK(Active(world, "stuck"));
  CHECK(Number(At(world.WorkloadOf("stuck"), "status", "requeueState", "count")) == 1);
}

TEST_CASE("A Workload tells that its pause is over though its quota is taken") {
  World world;
  world.Start("", Waiting(Short()));
  world.MakeQueues("2");
  Submit(world, "stuck", 2, kNever);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "stuck"); }));
  Submit(world, "next", 2, {});
  Until(world, "stuck", true);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "next"); }));
  world.RunFor(seconds(20));
  CHECK(ConditionOf(world, "stuck", "Requeued") == "False/PodsReadyTimeout");
  world.RunFor(seconds(15));
  CHECK(ConditionOf(world, "stuck", "Requeued") == "True/BackoffFinished");
  CHECK(At(world.WorkloadOf("stuck"), "status", "requeueState").dump() == R"({"count":1})");
  CHECK(ConditionOf(world, "stuck", "QuotaReserved") == "False/WaitingForQuota");
  const size_t before = world.server.writes().size();
  world.RunFor(minutes(10));
  CHECK(world.Writes(before).empty());
}

// H2: its quota is free, and it is queued again.
TEST_CASE("A gang that does not recover in its time is stopped, gives its quota back and is queued again") {
  World world;
  WaitForPodsReadyOptions wait = Short();
  const bool forever = GENERATE(false, true);
  wait.recovery_timeout = forever ? Duration(0) : Duration(seconds(5));
  Process& muster = world.Start("", Waiting(wait));
  world.MakeQueues("4");
  // A pod fails after 100 s, and the next is made 10 s later.
  Submit(world, "train", 2, {{"run-seconds", "100"}, {"exit-code", "1"}});
  REQUIRE(
      world.RunUntil([&] { return ConditionOf(world, "train", "PodsReady") == "False/WaitForRecovery"; }, minutes(5)));
  if (forever) {
    REQUIRE(world.RunUntil([&] { return ConditionOf(world, "train", "PodsReady") == "True/Recovered"; }));
    CHECK(Evictions(world, "train", "PodsReadyTimeout", "WaitForRecovery") == 0);
    return;
  }
  CHECK(About(Until(world, "train", true), 5));
  world.RunFor(seconds(5));
  CHECK(ConditionOf(world, "train", "Evicted") == "True/PodsReadyTimeout");
  CHECK(ConditionOf(world, "train", "Admitted") == "False/NoReservation");
  CHECK(ConditionOf(world, "train", "PodsReady") == "False/WaitForStart");
  CHECK(muster.telemetry.evicted_for["WaitForRecovery"] == 1);
  CHECK(Number(At(world.Get("clusterqueues", "", "cq"), "status", "reservingWorkloads")) == 0);
  CHECK(About(Until(world, "train", false), 25));
}

TEST_CASE("What was evicted for its pods queues as if it had come then, or as before") {
  World world;
  WaitForPodsReadyOptions wait = Short();
  wait.queue_since_eviction = GENERATE(true, false);
  wait.backoff_base = Duration(0);
  world.Start("", Waiting(wait));
  world.MakeQueues("2");
  Submit(world, "stuck", 2, kNever);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "stuck"); }));
  world.RunFor(seconds(10));
  Submit(world, "later", 2, kNever);
  Until(world, "stuck", true);
  // Who has the quota next?
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "stuck") || !Suspended(world, "later"); }));
  CHECK(Suspended(world, "stuck") == wait.queue_since_eviction);
}

// ---- blockAdmission -------------------------------------------------------------------------------

TEST_CASE("While the pods of one gang are not ready others wait for them, and no longer than they may take") {
  World world;
  WaitForPodsReadyOptions wait = Short();
  wait.block_admission = true;
  Process& muster = world.Start("", Waiting(wait));
  world.MakeQueues("8");
  Submit(world, "slow", 2, {{"start-seconds", "30"}});
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "slow"); }));
  world.RunFor(seconds(2));
  Submit(world, "next", 2, kNever);
  world.RunFor(seconds(2));
  Submit(world, "last", 2, {});
  Submit(world, "huge", 9, {});
  world.RunFor(seconds(10));
  CHECK(ConditionOf(world, "next", "QuotaReserved") == "False/WaitingForPodsReady");
  CHECK(MessageOf(world, "next", "QuotaReserved") == "waiting for all admitted workloads to be in PodsReady condition");
  CHECK(ConditionOf(world, "next", "muster.dev/Waiting") == "True/PodsNotReady");
  CHECK(MessageOf(world, "next", "muster.dev/Waiting") ==
        "it fits, but the pods of Job slow are not ready yet; cleared when they are, or have had their time");
  CHECK(ConditionOf(world, "huge", "QuotaReserved") == "False/ExceedsMaxQuota");
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "next"); }));
  world.RunFor(seconds(2));
  CHECK(ConditionOf(world, "slow", "PodsReady") == "True/Started");
  CHECK(Suspended(world, "last"));
  if (GENERATE(false, true)) {
    // Another process waits for the same pods.
    world.Kill(muster);
    world.RunFor(seconds(5));
    world.Start("", Waiting(wait));
  }
  world.RunFor(seconds(20));
  CHECK(Suspended(world, "last"));
  // The one that never gets ready has its 60 s.
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "last"); }, minutes(2)));
  world.RunFor(seconds(5));
  CHECK(Evictions(world, "next", "PodsReadyTimeout", "WaitForStart") == 1);
}

// ---- restarts -------------------------------------------------------------------------------------

TEST_CASE("Another process tells of pods as its predecessor did, and counts no time twice") {
  World world;
  Process& first = world.Start("", Waiting(Short()));
  world.MakeQueues("4");
  Submit(world, "ready", 2, {});
  Submit(world, "stuck", 2, kNever);
  REQUIRE(world.RunUntil([&] { return ConditionOf(world, "ready", "PodsReady") == "True/Started"; }));
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "stuck"); }));
  world.RunFor(seconds(20));
  const Json told = Condition(world, "ready", "PodsReady");
  const size_t before = world.server.writes().size();
  world.Kill(first);
  world.RunFor(seconds(10));
  Process& second = world.Start("", Waiting(Short()));
  world.RunFor(seconds(5));
  CHECK(Condition(world, "ready", "PodsReady") == told);
  CHECK(world.Writes(before).empty());
  CHECK(second.telemetry.ready.empty());
  // 60 s from the admission.
  CHECK(About(Until(world, "stuck", true), 24));
}

// 15 s are left of the pause when the process dies.
TEST_CASE("The pause and the count outlive the process, wherever they are written") {
  World world;
  WaitForPodsReadyOptions wait = Short();
  wait.backoff_limit_count = 1;
  Process& first = world.Start("", Waiting(wait));
  world.MakeQueues("2");
  Submit(world, "stuck", 2, kNever);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "stuck"); }));
  Until(world, "stuck", true);
  const bool at_once = GENERATE(true, false);  // the Job's record alone tells of it
  if (!at_once) world.RunFor(seconds(15));
  world.Kill(first);
  CHECK(At(world.Get("jobs", "team", "stuck"), "metadata", "annotations").contains("muster.dev/admission") == at_once);
  world.Start("", Waiting(wait));
  CHECK(About(Until(world, "stuck", false), at_once ? 30 : 15));
  world.RunFor(seconds(5));
  CHECK(Number(At(world.WorkloadOf("stuck"), "status", "requeueState", "count")) == 1);
  CHECK(About(Until(world, "stuck", true), 55));
  world.RunFor(seconds(5));
  CHECK_FALSE(Active(world, "stuck"));
}

// Killed before or after each write that it makes on the way; the next process finds everything.
TEST_CASE("The process may be killed at any write on the way from a time-out to the deactivation") {
  WaitForPodsReadyOptions wait = Short();
  wait.backoff_limit_count = 1;
  const auto play = [&wait](int point, sim::SimServer::Phase phase) {
    World world(static_cast<uint64_t>(point) + 1);
    Process& first = world.Start("", Waiting(wait));
    world.MakeQueues("2");
    const WriteCounter writes(&world, phase);
    std::vector<std::pair<bool, WallTime>> turns;  // suspended or not since when
    world.store.Subscribe([&](const sim::Change& change) {
      if (change.kind->plural != "jobs" || change.type == sim::Change::Type::kDeleted) return;
      const bool suspended = sim::Flag(At(*change.object, "spec", "suspend"));
      if (turns.empty() ? !suspended : turns.back().first != suspended) {
        turns.emplace_back(suspended, world.executor.Now());
      }
    });
    Submit(world, "stuck", 2, kNever);
    if (!world.RunUntil([&] { return writes.seen() > point; }, minutes(5))) return false;
    world.Kill(first);
    world.RunFor(seconds(6));
    Process& second = world.Start("", Waiting(wait));
    CHECK(world.RunUntil([&] { return turns.size() == 4 && !Active(world, "stuck"); }, minutes(20)));
    world.RunFor(seconds(20));
    second.controller->engine()->Validate();
    CHECK(ConditionOf(world, "stuck", "Evicted") == "True/DeactivatedDueToRequeuingLimitExceeded");
    CHECK(ConditionOf(world, "stuck", "QuotaReserved") == "False/Deactivated");
    CHECK(Evictions(world, "stuck", "PodsReadyTimeout", "WaitForStart") == 1);
    CHECK(Evictions(world, "stuck", "Deactivated", "RequeuingLimitExceeded") == 1);
    // Started, stopped after 60 s, started after a pause of 30 s, stopped after 60 s: and no sooner, whoever looked.
    REQUIRE(turns.size() == 4);
    CHECK(turns[1].second - turns[0].second > seconds(59));
    CHECK(turns[2].second - turns[1].second > seconds(29));
    CHECK(turns[3].second - turns[2].second > seconds(59));
    CHECK(turns[3].second - turns[0].second < seconds(180));
    return true;
  };
  const int points = PlayEachWrite(play);
  // Start, Workload, status, stop, status, restoration; start, status, stop, deactivation, status and restoration: some
  // of the writes of a status may be one, and each was met before and after.
  CHECK(points >= 18);
}

}  // namespace
}  // namespace muster::controller
