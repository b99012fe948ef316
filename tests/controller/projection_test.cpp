#include "muster/controller/projection.h"

#include <catch2/catch.hpp>

#include "test_jobs.h"

namespace muster::controller {
namespace {

using State = WorkloadFacts::State;

constexpr WallTime kThen{1'767'225'600'000'000'000};
WallTime After(int seconds) { return kThen + std::chrono::seconds(seconds); }

WorkloadFacts Admitted() {
  WorkloadFacts facts;
  facts.state = State::kAdmitted;
  facts.admission = BlueAdmission(2);
  facts.reserved_at = After(10);
  return facts;
}

Eviction StoppedAt(int seconds, std::string reason = "ClusterQueueStopped",
                   std::string message = "The ClusterQueue is stopped") {
  Eviction out;
  out.reason = std::move(reason);
  out.message = std::move(message);
  out.at = After(seconds);
  out.totals = {{out.reason, "", 1}};
  return out;
}

// "Type=Status/Reason: message", sorted by type.
std::vector<std::string> Told(const WorkloadStatus& status) {
  std::vector<std::string> out;
  for (const k8s::Condition& c : status.conditions) {
    out.push_back(c.type + "=" + c.status + "/" + c.reason + ": " + c.message);
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Projects, and proves on the way that doing it again, later and at a later generation, changes nothing.
WorkloadStatus Project(const WorkloadStatus& known, const WorkloadFacts& facts, WallTime now, int64_t generation = 1) {
  WorkloadStatus once = ProjectStatus(known, generation, facts, now);
  CHECK(ProjectStatus(once, generation + 1, facts, now + std::chrono::seconds(100)) == once);
  return once;
}

const std::string kReserved = "QuotaReserved=True/QuotaReserved: Quota reserved in ClusterQueue cq";
const std::string kAdmitted = "Admitted=True/Admitted: The workload is admitted";
const std::string kNotAdmitted = "Admitted=False/NoReservation: The workload has no reservation";

// Golden case simple-run-complete.
TEST_CASE("An admitted Workload shows its reservation, and a finished one how it ended") {
  const WorkloadStatus admitted = Project({}, Admitted(), After(11));
  CHECK(Told(admitted) == std::vector<std::string>{kAdmitted, kReserved});
  REQUIRE(admitted.admission.has_value());
  CHECK(admitted.admission->pod_sets[0].usage == ResourceList{{"cpu", "2"}});
  CHECK(admitted.conditions[0].last_transition == After(10));

  WorkloadFacts facts = Admitted();
  facts.state = State::kFinished;
  facts.finished_reason = "Succeeded";
  facts.finished_message = "Reached expected number of succeeded pods";
  const std::string finished = "Finished=True/Succeeded: Reached expected number of succeeded pods";
  CHECK(Told(Project(admitted, facts, After(20))) == std::vector<std::string>{kAdmitted, finished, kReserved});
  // A Job that ends before its Workload was written needs no state in between.
  CHECK(Told(Project({}, facts, After(20))) == std::vector<std::string>{kAdmitted, finished, kReserved});
}

TEST_CASE("What is finished stays as it was") {
  WorkloadFacts facts;
  facts.state = State::kFinished;
  facts.finished_reason = "FailedToStart";
  facts.finished_message = "why";
  const WorkloadStatus finished = Project({}, facts, After(1));
  CHECK(ProjectStatus(finished, 1, Admitted(), After(2)) == finished);
}

// Golden cases strict-fifo (Job three), insufficient-quota, queue-missing.
TEST_CASE("A waiting Workload tells why once something is in its way") {
  WorkloadFacts facts;
  facts.requests = {{"main", {{"cpu", "2"}}}};
  CHECK(Project({}, facts, After(1)) == WorkloadStatus{});

  engine::Obstacle missing;
  missing.kind = engine::ObstacleKind::kLocalQueueMissing;
  missing.object = "lq";
  facts.reason = engine::Reason{engine::ReasonCode::kMisconfigured, {missing}, {}};
  const WorkloadStatus no_queue = Project({}, facts, After(1));
  CHECK(Told(no_queue) ==
        std::vector<std::string>{kNotAdmitted, "QuotaReserved=False/Misconfigured: LocalQueue lq doesn't exist"});
  CHECK(no_queue.resource_requests.empty());

  engine::Obstacle quota;
  quota.kind = engine::ObstacleKind::kInsufficientUnused;
  quota.pod_set = "main";
  quota.flavor = "f";
  quota.resource = "cpu";
  quota.missing = Amount{1000};
  facts.reason = engine::Reason{engine::ReasonCode::kWaitingForQuota, {quota}, {}};
  const WorkloadStatus waiting = Project(no_queue, facts, After(2));
  CHECK(waiting.resource_requests == facts.requests);
  CHECK(k8s::FindCondition(waiting.conditions, "QuotaReserved")->reason == "WaitingForQuota");
  // Still False: only the reason changed.
  CHECK(k8s::FindCondition(waiting.conditions, "QuotaReserved")->last_transition == After(1));

  const WorkloadStatus admitted = Project(waiting, Admitted(), After(11));
  CHECK(admitted.resource_requests.empty());
  CHECK(Told(admitted) == std::vector<std::string>{kAdmitted, kReserved});
}

TEST_CASE("A condition of Muster's own tells what a Workload waits for, and is there only while it waits") {
  WorkloadFacts facts;
  engine::Obstacle missing;
  missing.kind = engine::ObstacleKind::kLocalQueueMissing;
  missing.object = "lq";
  facts.waits_for = engine::Reason{engine::ReasonCode::kMisconfigured, {missing}, {}};
  const WorkloadStatus waiting = Project({}, facts, After(1));
  CHECK(Told(waiting) == std::vector<std::string>{
                             "muster.dev/Waiting=True/LocalQueueMissing: LocalQueue lq doesn't exist; cleared when it "
                             "is created"});
  CHECK(Project(waiting, facts, After(9)) == waiting);
  WorkloadFacts off = facts;
  off.active = false;
  for (const WorkloadFacts& next : {Admitted(), WorkloadFacts{}, off}) {
    CHECK(k8s::FindCondition(Project(waiting, next, After(2)).conditions, "muster.dev/Waiting") == nullptr);
  }
}

// Golden case clusterqueue-holdanddrain.
TEST_CASE("An eviction is shown while pods go, after they are gone, and after the next reservation") {
  const std::string evicted = "Evicted=True/ClusterQueueStopped: The ClusterQueue is stopped";
  WorkloadFacts facts = Admitted();
  facts.state = State::kEvicting;
  facts.eviction = StoppedAt(30);
  const WorkloadStatus leaving = Project(Project({}, Admitted(), After(11)), facts, After(30));
  CHECK(Told(leaving) == std::vector<std::string>{kAdmitted, evicted, kReserved});
  CHECK(leaving.admission.has_value());
  CHECK_FALSE(ShowsEviction(leaving, *facts.eviction));

  engine::Obstacle stopped;
  stopped.kind = engine::ObstacleKind::kClusterQueueInactive;
  stopped.object = "cq";
  facts.state = State::kPending;
  facts.cluster_queue_stopped = true;
  facts.past_execution_seconds = 20;
  facts.reason = engine::Reason{engine::ReasonCode::kSuspended, {stopped}, {}};
  const std::vector<std::string> out = {kNotAdmitted, evicted,
                                        "QuotaReserved=False/Suspended: ClusterQueue cq is inactive",
                                        "Requeued=False/ClusterQueueStopped: The ClusterQueue is stopped"};
  const WorkloadStatus pending = Project(leaving, facts, After(35));
  CHECK(Told(pending) == out);
  CHECK_FALSE(pending.admission.has_value());
  CHECK(pending.evictions == facts.eviction->totals);
  CHECK(pending.past_execution_seconds == 20);
  CHECK(ShowsEviction(pending, *facts.eviction));
  // The same, when no state in between was written.
  CHECK(Told(Project({}, facts, After(35))) == out);

  WorkloadFacts again = Admitted();
  again.reserved_at = After(50);
  const std::vector<std::string> restarted = {
      kAdmitted, "Evicted=False/QuotaReserved: Previously: The ClusterQueue is stopped", kReserved,
      "Requeued=True/ClusterQueueRestarted: The ClusterQueue was restarted after being stopped"};
  CHECK(Told(Project(pending, again, After(51))) == restarted);
  // Restarted before the eviction was ever written: the record still tells of it.
  again.eviction = StoppedAt(30);
  again.past_execution_seconds = 20;
  const WorkloadStatus skipped = Project(Project({}, Admitted(), After(11)), again, After(51));
  CHECK(Told(skipped) == restarted);
  CHECK(skipped.evictions == again.eviction->totals);
}

// Golden case real-evict-restore.
TEST_CASE("A deactivated Workload that ran says so, and is reactivated with a condition") {
  WorkloadFacts facts;
  facts.active = false;
  facts.eviction = StoppedAt(30, "Deactivated", "The workload is deactivated");
  const WorkloadStatus off = Project(Project({}, Admitted(), After(11)), facts, After(35));
  CHECK(Told(off) == std::vector<std::string>{kNotAdmitted, "Evicted=True/Deactivated: The workload is deactivated",
                                              "QuotaReserved=False/Deactivated: The workload is deactivated",
                                              "Requeued=False/Deactivated: The workload is deactivated"});
  const WorkloadStatus on = Project(off, Admitted(), After(60));
  CHECK(Told(on) == std::vector<std::string>{kAdmitted,
                                             "Evicted=False/QuotaReserved: Previously: The workload is deactivated",
                                             kReserved, "Requeued=True/Reactivated: The workload was reactivated"});
}

// Golden cases max-exec-time and reactivate-after-max-exec, of which the second hangs in the reference.
TEST_CASE("A Workload whose time is over tells so until somebody activates it, and begins anew") {
  const std::string why = "The workload is deactivated due to exceeding the maximum execution time";
  const std::string target =
      "DeactivationTarget=True/MaximumExecutionTimeExceeded: exceeding the maximum execution time";
  const std::string evicted = "Evicted=True/DeactivatedDueToMaximumExecutionTimeExceeded: " + why;
  Eviction over = StoppedAt(30, "Deactivated", TimeOverEviction().message);
  over.underlying_cause = kMaxExecTimeExceeded;
  over.totals = {{"Deactivated", "MaximumExecutionTimeExceeded", 1}};
  WorkloadFacts facts = Admitted();
  facts.state = State::kEvicting;
  facts.active = false;
  facts.eviction = over;
  const WorkloadStatus leaving = Project(Project({}, Admitted(), After(11)), facts, After(30));
  CHECK(Told(leaving) == std::vector<std::string>{kAdmitted, target, evicted, kReserved});
  CHECK(TellsOfEviction(leaving, over));
  CHECK(TellsTimeOver(leaving));

  facts = {};
  facts.active = false;
  facts.eviction = over;
  facts.past_execution_seconds = 20;
  const WorkloadStatus off = Project(leaving, facts, After(35));
  CHECK(Told(off) == std::vector<std::string>{kNotAdmitted, target, evicted,
                                              "QuotaReserved=False/Deactivated: The workload is deactivated",
                                              "Requeued=False/DeactivatedDueToMaximumExecutionTimeExceeded: " + why});
  CHECK(off.past_execution_seconds == 20);
  CHECK(off.evictions == over.totals);

  WorkloadFacts waiting;
  const WorkloadStatus on = Project(off, waiting, After(60));
  CHECK(on.past_execution_seconds == 0);
  CHECK_FALSE(TellsTimeOver(on));
  CHECK(k8s::FindCondition(on.conditions, "Requeued")->reason == "Reactivated");
  // Started before anybody wrote that it waited.
  const WorkloadStatus started = Project(off, Admitted(), After(60));
  CHECK(started.past_execution_seconds == 0);
  CHECK(Told(started) == std::vector<std::string>{kAdmitted, "Evicted=False/QuotaReserved: Previously: " + why,
                                                  kReserved,
                                                  "Requeued=True/Reactivated: The workload was reactivated"});
}

// Golden case active-false-pending.
TEST_CASE("A Workload deactivated while it waits counts one eviction and needs no requeueing") {
  WorkloadFacts facts;
  facts.active = false;
  const WorkloadStatus off = Project({}, facts, After(5));
  CHECK(Told(off) == std::vector<std::string>{kNotAdmitted, "Evicted=True/Deactivated: The workload is deactivated",
                                              "QuotaReserved=False/Deactivated: The workload is deactivated"});
  CHECK(off.evictions == std::vector<EvictionCount>{{"Deactivated", "", 1}});
}

// Golden case preemption.
TEST_CASE("A preempted Workload is requeued at once, each time") {
  WorkloadFacts facts;
  facts.eviction = StoppedAt(30, "Preempted", "for another");
  facts.eviction->preemption_reason = "InClusterQueue";
  const WorkloadStatus first = Project(Project({}, Admitted(), After(11)), facts, After(31));
  CHECK(Told(first) == std::vector<std::string>{kNotAdmitted, "Evicted=True/Preempted: for another",
                                                "Preempted=True/InClusterQueue: for another",
                                                "QuotaReserved=False/PendingEvaluation: for another",
                                                "Requeued=True/Preempted: for another"});
  WorkloadFacts again = Admitted();
  again.reserved_at = After(40);
  const WorkloadStatus second = Project(first, again, After(41));
  CHECK_THAT(Told(second),
             Catch::VectorContains(std::string("Preempted=False/QuotaReserved: Previously: for another")));
  facts.eviction->at = After(60);
  facts.eviction->message = "for a third";
  facts.eviction->totals = CountEviction(first.evictions, "Preempted", "");
  const WorkloadStatus third = Project(second, facts, After(61));
  CHECK_THAT(Told(third), Catch::VectorContains(std::string("Requeued=True/Preempted: for a third")));
  CHECK(third.evictions == std::vector<EvictionCount>{{"Preempted", "", 2}});
}

TEST_CASE("Conditions of others are left alone") {
  WorkloadStatus known;
  known.conditions = {{"Custom", "True", "Theirs", "text", After(1), 1}};
  CHECK_THAT(Told(Project(known, Admitted(), After(11))),
             Catch::VectorContains(std::string("Custom=True/Theirs: text")));
}

TEST_CASE("The spec of a Workload follows its Job's original template, not what was injected") {
  JobJson json;
  json.counts = R"("parallelism":3,"completions":2)";
  json.tolerations = R"([{"key":"own","operator":"Exists"}])";
  json.template_annotations = R"({"note":"x"})";
  const Job job = MustDecode(json);
  const WorkloadSpec spec = ProjectSpec(job, {7, PriorityClassRef{"g", "k", "n"}}, 1, 60);
  CHECK(spec.queue_name == "lq");
  CHECK(spec.pod_sets[0].count == 2);
  const std::vector<PodSetText> texts = ProjectTexts(job);
  CHECK(texts[0].labels == Labels{{"batch.kubernetes.io/job-name", "train"}});
  CHECK(texts[0].annotations == Labels{{"note", "x"}});

  WorkloadBody body;
  body.ns = "team";
  body.name = "job-train-0d852";
  body.labels = ProjectLabels(job, {"kueue.x-k8s.io/queue-name", "absent"}, "job");
  body.annotations = ProjectAnnotations(job, {1, 2});
  body.owner = {"batch/v1", "Job", "train", "job-uid"};
  body.spec = spec;
  body.texts = texts;
  const auto read = DecodeWorkload(EncodeWorkload(body));
  INFO(read.status().ToString());
  REQUIRE(read.ok());
  CHECK(read->spec == spec);
  CHECK(read->meta.Controller()->uid == "job-uid");
  CHECK(read->meta.labels == Labels{{"kueue.x-k8s.io/job-uid", "job-uid"},
                                    {"kueue.x-k8s.io/queue-name", "lq"},
                                    {"muster.dev/record", "job"}});
  CHECK(read->meta.annotations == Labels{{"muster.dev/claim", "1-2"}});
  CHECK_FALSE(NeedsSpecPatch(read->spec, spec, false));
}

TEST_CASE("While quota is held only the priority of a Workload follows its Job") {
  WorkloadSpec known;
  known.queue_name = "lq";
  WorkloadSpec wanted = known;
  wanted.queue_name = "lq2";
  CHECK(NeedsSpecPatch(known, wanted, false));
  CHECK_FALSE(NeedsSpecPatch(known, wanted, true));
  wanted.priority = 5;
  CHECK(NeedsSpecPatch(known, wanted, true));
}

TEST_CASE("A status patch holds what differs, the version it was made for, and all conditions") {
  Workload known;
  known.meta.uid = "u";
  known.meta.resource_version = "12";
  CHECK(EncodeStatusPatch(known, known.status).empty());
  const WorkloadStatus admitted = ProjectStatus({}, 1, Admitted(), After(11));
  const std::string patch = EncodeStatusPatch(known, admitted);
  CHECK_THAT(patch, Catch::Contains(R"("resourceVersion":"12")") && Catch::Contains(R"("clusterQueue":"cq")") &&
                        Catch::Contains(R"("type":"QuotaReserved")") && !Catch::Contains("schedulingStats"));
  known.status = admitted;
  WorkloadStatus pending = admitted;
  pending.admission.reset();
  CHECK_THAT(EncodeStatusPatch(known, pending), Catch::Contains(R"("admission":null)"));
}

}  // namespace
}  // namespace muster::controller
