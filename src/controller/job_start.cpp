// Starting a gang, and keeping it started.
#include <spdlog/spdlog.h>

#include <cinttypes>
#include <cstdio>
#include <utility>

#include "job_controller.h"
#include "log.h"
#include "muster/controller/names.h"
#include "muster/controller/topology_request.h"
#include "muster/k8s_client/resources.h"
#include "text.h"

namespace muster::controller {
namespace {

using engine::ClaimState;
using Urgency = WorkloadWriter::Urgency;

// How often a running gang that somebody else suspended is started again before it is stopped.
constexpr int32_t kResumesMax = 3;
constexpr Duration kSuspendedByOthersPause = std::chrono::minutes(1);
// A job controller from 1.36 on clears the start time of a suspended Job within a fraction of this.
constexpr Duration kStartTimeGrace = std::chrono::seconds(2);

std::string Seconds(Duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(d + std::chrono::milliseconds(500)).count());
}

bool CarriesClaim(const Job& job, engine::ClaimId claim, Record::State state) {
  return job.record != nullptr && job.record->claim == claim && job.record->state == state;
}

}  // namespace

void JobController::HandleAdmit(const engine::Admit& admit) {
  Entry* entry = Find(admit.uid);
  if (entry == nullptr) {
    Apply(engine::WorkloadDeleted{admit.uid});
    return;
  }
  Claim claim;
  claim.state = ClaimState::kPlanned;
  claim.record.claim = admit.claim;
  claim.record.job_uid = admit.uid;
  claim.record.local_queue = entry->prepared->workload.local_queue;
  claim.record.admission = admit.admission;
  claim.record.reserved_at = deps_.env.clock->Now();
  claim.basis = entry->told_of;
  claim.record.placed = HasPlaces(admit.admission);
  claim.on_workload = !entry->job->prebuilt().empty() || !admit.checks.empty() || claim.record.placed;
  claim.checks = admit.checks;
  const bool current = entry->told.has_value() && entry->told->generation == admit.generation;
  entry->claim = std::move(claim);
  if (!current) {
    DropClaim(entry, {}, "");
  } else {
    Reconcile(entry);
  }
}

void JobController::ReconcilePlanned(Entry* entry) {
  const Job& job = *entry->job;
  const engine::ClaimId id = entry->claim->record.claim;
  if (CarriesClaim(job, id, Record::State::kStarted)) {
    Started(entry);  // the watch was faster than the answer
    return;
  }
  if (entry->claim->on_workload && !entry->claim->reserved) {
    ReserveOnWorkload(entry);
    return;
  }
  if (entry->claim->reserved && !KeepReserved(entry)) return;
  // Counts, requests or queue may be others than those that were decided on.
  const bool stands = StartStillFits(*entry->claim->basis, job) && job.status.active == 0 && !job.deleting() &&
                      !entry->claim->eviction.has_value();
  if (entry->claim->unsure.has_value()) {
    ReconcileUnsure(entry, stands);
  } else if (!stands) {
    DropClaim(entry, {}, "");
  } else if (UnlockTemplate(entry)) {
    SendStart(entry);
  }
}

// A start is out whose outcome nobody knows. The claim may go once it cannot be applied any more: as soon as the
// generation has moved on, which it tests; else after its time, if the Job then shows nothing of it. Labels and
// annotations do not count here, they may change back.
void JobController::ReconcileUnsure(Entry* entry, bool stands) {
  UnsureStart& unsure = *entry->claim->unsure;
  if (entry->job->meta.generation != unsure.generation) {
    DropClaim(entry, {}, "");
    return;
  }
  if (!stands && !unsure.given_up) {
    unsure.given_up = true;
    unsure.message.clear();
  }
  const MonoTime now = deps_.env.clock->Mono();
  if (now >= unsure.landed_by) {
    Refresh(entry, [this, id = entry->claim->record.claim](Entry* e) { StartConcluded(e, id); });
  } else if (unsure.given_up || now >= unsure.repeat_until) {
    WaitsUntil(entry, unsure.landed_by);
  } else if (UnlockTemplate(entry)) {
    SendStart(entry);  // the same claim again: should the first still arrive, the second meets its record
  }
}

// The Job was read when no start of this claim could be applied any more.
void JobController::StartConcluded(Entry* entry, engine::ClaimId claim) {
  if (!entry->claim.has_value() || entry->claim->record.claim != claim || !entry->claim->unsure.has_value() ||
      CarriesClaim(*entry->job, claim, Record::State::kStarted)) {
    return;
  }
  const std::string message = entry->claim->unsure->message;
  entry->claim->unsure.reset();
  message.empty() ? DropClaim(entry, {}, "") : RefuseStart(entry, Duration(0), message);
}

bool JobController::UnlockTemplate(Entry* entry) {
  if (TemplateEditable(*entry->job)) {
    entry->suspended_since = {};
    return true;
  }
  const MonoTime now = deps_.env.clock->Mono();
  if (entry->suspended_since == MonoTime{}) entry->suspended_since = now;
  const bool overdue = now - entry->suspended_since >= kStartTimeGrace;
  if (!PodsGone(*entry->job, false) || (!overdue && !deps_.keeps_start_time())) {
    WaitsUntil(entry, entry->suspended_since + kStartTimeGrace);
    return false;
  }
  deps_.client->Patch(k8s::Lane::kStart, k8s::kJobs, entry->job->meta.key(), "status", k8s::PatchType::kMergePatch,
                      BuildClearStartTime(*entry->job),
                      Callback(entry, [this](Entry* e, const k8s::Result& result) { Continue(e, result); }));
  return false;
}

void JobController::SendStart(Entry* entry) {
  const Job& job = *entry->job;
  const Claim& claim = *entry->claim;
  StartOrder order;
  order.claim = claim.record.claim;
  order.admission = claim.record.admission;
  order.reserved_at = claim.record.reserved_at;
  order.local_queue = claim.record.local_queue;
  order.workload = entry->workload;
  order.slice = entry->slice;
  order.past_execution_seconds = PastExecutionSeconds(*entry);
  order.admitted_at = claim.record.admitted_at;
  const auto known = workloads_.Known(job.meta.uid);
  if (job.record != nullptr && job.record->eviction.has_value() &&
      (known == nullptr || !ShowsEviction(known->status, *job.record->eviction))) {
    order.eviction = job.record->eviction;
  }
  if (claim.reserved && known != nullptr) {
    order.checks = known->status.checks;
    order.check_names = ChecksOf(*entry).value_or(CheckNames());
  }
  auto patch = BuildStart(job, order, deps_.catalog->flavors);
  if (absl::IsFailedPrecondition(patch.status())) {
    FailToStart(entry, std::string(patch.status().message()));
    return;
  }
  if (!patch.ok()) {
    RefuseStart(entry, Duration(0), std::string(patch.status().message()));
    return;
  }
  Send(entry, std::move(patch->body),
       [this, id = order.claim, basis = entry->job](Entry* e, const k8s::Result& result) {
         StartAnswered(e, id, basis, result);
       });
}

void JobController::StartAnswered(Entry* entry, engine::ClaimId claim, std::shared_ptr<const Job> basis,
                                  const k8s::Result& result) {
  if (result.ok()) {
    Continue(entry, result);
    return;
  }
  if (result.outcome == k8s::Outcome::kNotSent) {
    RefuseStart(entry, Duration(0), result.message);
    return;
  }
  if (result.outcome == k8s::Outcome::kUnknown && entry->claim.has_value() && entry->claim->record.claim == claim) {
    std::optional<UnsureStart>& unsure = entry->claim->unsure;
    if (!unsure.has_value()) {
      unsure.emplace();
      unsure->repeat_until = result.landed_by;
    }
    unsure->generation = basis->meta.generation;
    unsure->landed_by = result.landed_by;
    unsure->message = result.code == 0 ? Cat("no answer: ", result.message) : Cat(result.code, ": ", result.message);
  }
  Refresh(entry, [this, claim, basis, result](Entry* e) { StartVerified(e, claim, *basis, result); });
}

// The Job was read after a start that was refused or never answered. Whatever the reason given, what the Job
// shows decides.
void JobController::StartVerified(Entry* entry, engine::ClaimId claim, const Job& basis, const k8s::Result& first) {
  if (!entry->claim.has_value() || entry->claim->record.claim != claim || entry->claim->state != ClaimState::kPlanned) {
    return;
  }
  const Job& job = *entry->job;
  if (CarriesClaim(job, claim, Record::State::kStarted)) return;  // Reconcile follows and finds it
  if (!StartStillFits(basis, job)) {
    // Reconcile follows and gives the claim up.
    spdlog::info("a job changed before it was started, it is decided on again{}", JobFields(job));
  } else if (first.outcome == k8s::Outcome::kUnknown) {
    Wake(entry, entry->backoff.Next());
  } else {
    RefuseStart(entry, first.retry_after.value_or(Duration(0)), first.message);
  }
}

// The quota goes to others, and the start is tried again after a pause, `wait` at least.
void JobController::RefuseStart(Entry* entry, Duration wait, const std::string& message) {
  if (entry->claim->unsure.has_value()) {
    // An earlier try may still be applied.
    entry->claim->unsure->given_up = true;
    entry->claim->unsure->message = message;
    Reconcile(entry);
    return;
  }
  const WallTime not_before = deps_.env.clock->Now() + std::max(entry->backoff.Next(), wait);
  spdlog::warn("the start of a job was refused{}", JobFields(*entry->job, {{"error", message}}));
  JobEvent(*entry->job, "Warning", "StartRefused", "Start", message);
  DropClaim(entry, not_before, message);
}

void JobController::Started(Entry* entry) {
  NoteStarted(entry);
  Reconcile(entry);
}

void JobController::NoteStarted(Entry* entry) {
  Claim& claim = *entry->claim;
  const Job& job = *entry->job;
  claim.state = ClaimState::kWritten;
  claim.record = *job.record;
  claim.basis.reset();
  claim.pods_ready = {PodsReady::Phase::kWaitForStart, claim.record.executing_since()};
  claim.unsure.reset();
  entry->backoff.Reset();
  entry->not_before = {};
  Apply(engine::ClaimWritten{job.meta.uid, claim.record.claim});
  deps_.size_changed(job.meta.uid);
  const std::string& cluster_queue = claim.record.admission.cluster_queue;
  JobEvent(job, "Normal", "Started", "Start", Cat("Admitted by clusterQueue ", cluster_queue));
  if (!std::exchange(claim.reserved, false)) {
    NoteReserved(entry);
    NoteAdmitted(entry);
  }
  spdlog::info("a job is started{}", JobFields(job, {{"clusterQueue", cluster_queue},
                                                     {"localQueue", claim.record.local_queue},
                                                     {"claim", claim.record.claim.ToString()}}));
  TouchWorkload(*entry, Urgency::kNow);
}

void JobController::NoteReserved(Entry* entry) {
  const Record& record = entry->claim->record;
  const std::string& cluster_queue = record.admission.cluster_queue;
  const Duration waited = record.reserved_at - entry->queued_since;
  QueueWorkloadEvent(entry, {kAdmissionReporter, "Normal", "QuotaReserved", "Admit",
                             Cat("Quota reserved in ClusterQueue ", cluster_queue, ", wait time since queued was ",
                                 Seconds(waited), "s")});
  deps_.telemetry->QuotaReserved(Queue(*entry), waited);
}

void JobController::NoteAdmitted(Entry* entry) {
  Claim& claim = *entry->claim;
  claim.admitted = true;
  const Record& record = claim.record;
  const Duration checked = record.executing_since() - record.reserved_at;
  // Whose write tells of it: that of the reservation, or one for itself.
  const bool later = record.admitted_at.IsSet();
  QueueWorkloadEvent(entry, {later ? kWorkloadReporter : kAdmissionReporter, "Normal", "Admitted", "Admit",
                             Cat("Admitted by ClusterQueue ", record.admission.cluster_queue,
                                 ", wait time since reservation was ", Seconds(checked), "s")});
  deps_.telemetry->Admitted(Queue(*entry), record.executing_since() - entry->queued_since, checked);
}

// An end may be seen before the answer to the write that came before it.
void JobController::CatchUp(Entry* entry) {
  if (!entry->claim.has_value()) return;
  const Claim& claim = *entry->claim;
  const engine::ClaimId id = claim.record.claim;
  const bool stopped = CarriesClaim(*entry->job, id, Record::State::kStopped);
  if (claim.state == ClaimState::kPlanned && (stopped || CarriesClaim(*entry->job, id, Record::State::kStarted))) {
    NoteStarted(entry);
  }
  if (stopped && (claim.state == ClaimState::kWritten || claim.state == ClaimState::kActive)) NoteStopped(entry);
}

void JobController::DropClaim(Entry* entry, WallTime not_before, std::string message) {
  if (entry->claim->reserved) {
    GiveBack(entry, not_before);
    return;
  }
  const std::string uid = entry->job->meta.uid;
  const engine::ClaimId id = entry->claim->record.claim;
  entry->claim.reset();
  Apply(engine::ClaimRefused{uid, id, not_before, std::move(message)});
  deps_.claim_changed(uid);
  TouchWorkload(*entry, Urgency::kLeisure);
  Reconcile(entry);
}

void JobController::FailToStart(Entry* entry, const std::string& message) {
  if (entry->claim->unsure.has_value()) {
    RefuseStart(entry, Duration(0), message);
    return;
  }
  Fail(entry, "FailedToStart", message);
  DropClaim(entry, {}, "");
}

void JobController::Fail(Entry* entry, std::string reason, std::string message) {
  spdlog::warn("a job can never be started{}", JobFields(*entry->job, {{"reason", reason}, {"error", message}}));
  entry->failed = true;
  entry->failure_reason = std::move(reason);
  entry->failure = std::move(message);
  TouchWorkload(*entry, Urgency::kNow);
}

// ---- running ------------------------------------------------------------------------------------

void JobController::ReconcileRunning(Entry* entry) {
  Claim& claim = *entry->claim;
  const Job& job = *entry->job;
  if (CarriesClaim(job, claim.record.claim, Record::State::kStopped)) {
    Stopped(entry);  // an own stop whose answer was lost
    return;
  }
  if (claim.eviction.has_value()) {
    SendStop(entry);
    return;
  }
  if (StopIfChanged(entry)) return;
  SeePodsReady(entry);
  if (StopIfTimeOver(entry) || StopIfNotReady(entry) || FailsChecks(entry) || TakeBack(entry)) return;
  const bool may_stop = AwaitsDecision(entry);
  if (!CarriesClaim(job, claim.record.claim, Record::State::kStarted)) {
    if (!deps_.options->release) WriteRecordAgain(entry);
    return;
  }
  if (job.suspend) {
    if (!may_stop) Resume(entry);
    return;
  }
  claim.record = *job.record;
  if (claim.state == ClaimState::kWritten && job.status.active > 0) {
    claim.state = ClaimState::kActive;
    Apply(engine::ClaimActive{job.meta.uid, claim.record.claim});
  }
  ReconcileSize(entry);
}

bool JobController::StopIfChanged(Entry* entry) {
  const Record& record = entry->claim->record;
  // Of a Workload that is gone: nobody knows any more where pods that are still to come belong.
  const bool lost_places = record.placed && !HasPlaces(record.admission);
  const bool as_admitted = RunsAsAdmitted(*entry->job, record, Resizes(*entry)) && !lost_places;
  if (entry->job->deleting() || as_admitted) return false;
  OrderStop(entry, NewEviction(*entry, "NoMatchingWorkload",
                               "No matching Workload; restoring pod templates according to existent Workload"));
  return true;
}

void JobController::WriteRecordAgain(Entry* entry) {
  if (entry->job->deleting()) return;
  spdlog::warn("a job runs without its admission record, which is written again{}", JobFields(*entry->job));
  Send(entry, BuildRecordAgain(*entry->job, entry->claim->record),
       [this](Entry* e, const k8s::Result& result) { Continue(e, result); });
}

// Somebody else suspended the running gang. Its claim stays, and it is started again once its pods are gone, or
// the old pods would run on under a new start.
void JobController::Resume(Entry* entry) {
  const Job& job = *entry->job;
  if (job.deleting()) return;
  // It would run on the quota of a queue that it does not name any more, and could not be moved again.
  if (!job.queue_name().empty() && job.queue_name() != job.record->local_queue) {
    OrderStop(entry, NewEviction(*entry, "JobSuspended",
                                 Cat("The Job was suspended and moved from LocalQueue \"", job.record->local_queue,
                                     "\" to \"", job.queue_name(), "\" while it was admitted")));
    return;
  }
  const bool altered = !StillInjected(job.view, job.record->injected);
  if (job.record->resumed >= kResumesMax || altered) {
    entry->not_before = deps_.env.clock->Now() + kSuspendedByOthersPause;
    OrderStop(entry, NewEviction(*entry, "JobSuspended",
                                 altered ? "The Job was suspended and its template changed while it was admitted"
                                         : "The Job was suspended again and again while it was admitted"));
    return;
  }
  if (!PodsGone(job, false)) return;
  spdlog::warn("a job was suspended by somebody else while admitted, it is started again{}", JobFields(job));
  Send(entry, BuildResume(job).body, [this](Entry* e, const k8s::Result& result) { Continue(e, result); });
}

}  // namespace muster::controller
