// Admissions that the Workload shows first: it is prebuilt, or the ClusterQueue has AdmissionChecks. The write that
// shows the reservation is the record of it; the Job starts once every check is ready, and the Workload shows that too.
// A check that is to be tried again or was rejected ends the admission at any time, also while the gang runs.
//
// Source: record.md; kueue_semantics 2.4, 5.5, 7.2, 7.3.
#include <spdlog/spdlog.h>

#include <utility>

#include "job_controller.h"
#include "log.h"
#include "muster/controller/names.h"

namespace muster::controller {
namespace {

using engine::ClaimState;
using Urgency = WorkloadWriter::Urgency;

// What the Workload shows is this admission, and no older one.
bool ShowsAsRunning(const WorkloadStatus& status, const Record& record) {
  const std::vector<k8s::Condition>& conditions = status.conditions;
  return k8s::IsTrue(conditions, "Admitted") && !k8s::IsTrue(conditions, "Evicted") &&
         status.admission == ToApi(record.admission) &&
         (!record.eviction.has_value() || status.evictions == record.eviction->totals);
}

}  // namespace

// ---- the reservation ----------------------------------------------------------------------------

void JobController::ReserveOnWorkload(Entry* entry) {
  const Claim& claim = *entry->claim;
  const Job& job = *entry->job;
  const auto known = workloads_.Known(job.meta.uid);
  const bool own = job.prebuilt().empty();
  if (claim.eviction.has_value() || job.deleting() || (own && !StartStillFits(*claim.basis, job)) ||
      (!own && (known == nullptr || known->meta.name != entry->workload))) {
    DropClaim(entry, {}, "");
    return;
  }
  if (known == nullptr || (own && (!StillDescribes(*entry, *known) || HoldsQuota(*known)))) {
    // It has to be made first, or changed; what comes of that is seen by WorkloadChanged.
    TouchWorkload(*entry, Urgency::kNow);
    return;
  }
  SendReservation(entry, known);
}

void JobController::SendReservation(Entry* entry, std::shared_ptr<const Workload> workload) {
  const Claim& claim = *entry->claim;
  ReservationOrder order;
  order.workload = std::move(workload);
  order.claim = claim.record.claim;
  order.admission = claim.record.admission;
  order.reserved_at = claim.record.reserved_at;
  order.checks = claim.checks;
  const Record* record = entry->job->record.get();
  if (record != nullptr && record->eviction.has_value() && !ShowsEviction(order.workload->status, *record->eviction)) {
    order.eviction = record->eviction;
  }
  entry->reservation =
      reservations_.Reserve(std::move(order), [this, uid = entry->job->meta.uid](const ReservationEnd& end) {
        Entry* found = Find(uid);
        if (found == nullptr || !leading()) return;
        found->reservation.reset();
        ReservationEnded(found, end);
      });
}

void JobController::ReservationEnded(Entry* entry, const ReservationEnd& end) {
  switch (end.how) {
    case ReservationEnd::How::kChanged:
      return DropClaim(entry, {}, "");
    case ReservationEnd::How::kRefused:
      return RefuseStart(entry, end.wait, end.message);
    case ReservationEnd::How::kShown:
      break;
  }
  Claim& claim = *entry->claim;
  claim.reserved = true;
  entry->backoff.Reset();
  entry->not_before = {};
  entry->reason.reset();
  entry->check_message.clear();
  Apply(engine::ClaimWritten{entry->job->meta.uid, claim.record.claim});
  NoteReserved(entry);
  if (claim.checks.empty()) NoteAdmitted(entry);
  Reconcile(entry);
}

bool JobController::KeepReserved(Entry* entry) {
  Claim& claim = *entry->claim;
  // What may still be applied comes first.
  if (claim.unsure.has_value()) return true;
  const auto known = workloads_.Known(entry->job->meta.uid);
  if (known == nullptr || !HoldsQuota(*known)) {
    if (claim.eviction.has_value()) NoteEviction(entry);
    Release(entry);
    return false;
  }
  if (claim.eviction.has_value()) {
    GiveBack(entry, {});
    return false;
  }
  if (entry->job->deleting() || deps_.options->release) return false;
  const bool prebuilt = !entry->job->prebuilt().empty();
  // Its Workload names the former queue for as long as it holds quota; what was made here differs by its own queue.
  if (const std::string_view queue = entry->job->queue_name();
      prebuilt && !queue.empty() && queue != claim.record.local_queue) {
    spdlog::info("a reservation is given back, its job has gone to another queue{}",
                 JobFields(*entry->job, {{"clusterQueue", claim.record.admission.cluster_queue}}));
    GiveBack(entry, {});
    return false;
  }
  if (!StillDescribes(*entry, *known)) {
    if (prebuilt) Fail(entry, "OutOfSync", "The prebuilt workload is out of sync with its user job");
    GiveBack(entry, {});
    return false;
  }
  // It was decided on the Workload: what else changes of the Job changes nothing.
  claim.basis = entry->job;
  return !FailsChecks(entry) && (claim.admitted || PassesChecks(entry));
}

void JobController::GiveBack(Entry* entry, WallTime not_before) {
  Claim& claim = *entry->claim;
  claim.state = ClaimState::kLeaving;
  claim.basis.reset();
  claim.unsure.reset();
  entry->not_before = not_before;
  entry->reason.reset();
  Apply(engine::ClaimLeaving{entry->job->meta.uid, claim.record.claim});
  if (claim.eviction.has_value()) NoteEviction(entry);
  TouchWorkload(*entry, Urgency::kNow);
}

void JobController::HandleWithdraw(const engine::Withdraw& withdraw) {
  Entry* entry = Find(withdraw.uid);
  if (entry == nullptr || !entry->claim.has_value()) return;
  Claim& claim = *entry->claim;
  if (claim.record.claim != withdraw.claim || claim.state != ClaimState::kPlanned || !claim.reserved ||
      claim.unsure.has_value() || claim.eviction.has_value() || claim.admitted) {
    return;
  }
  claim.withdrawn = withdraw.reason;
  spdlog::info("a reservation is taken back, its queue is stopped or gone{}",
               JobFields(*entry->job, {{"clusterQueue", claim.record.admission.cluster_queue}}));
  GiveBack(entry, {});
}

// ---- checks -------------------------------------------------------------------------------------

std::optional<CheckNames> JobController::ChecksOf(const Entry& entry) const {
  const engine::Admission* admission = nullptr;
  if (entry.claim.has_value() && (entry.claim->reserved || entry.claim->state != ClaimState::kPlanned)) {
    admission = &entry.claim->record.admission;
  }
  const std::string queue = admission != nullptr ? admission->cluster_queue : Queue(entry).cluster_queue;
  return deps_.catalog->ChecksOf(queue, admission);
}

void JobController::ChecksChanged(const std::string& cluster_queue) {
  if (!leading()) return;
  for (auto& [uid, entry] : entries_) {
    if (entry.finished || Queue(entry).cluster_queue != cluster_queue) continue;
    TouchWorkload(entry, Urgency::kLeisure);
    Reconcile(&entry);
  }
}

bool JobController::FailsChecks(Entry* entry) {
  const Claim& claim = *entry->claim;
  const auto known = workloads_.Known(entry->job->meta.uid);
  const std::optional<CheckNames> names = ChecksOf(*entry);
  if (known == nullptr || !names.has_value() || names->empty() || entry->job->deleting() || deps_.options->release ||
      claim.eviction.has_value() || (!claim.reserved && !ShowsAsRunning(known->status, claim.record))) {
    return false;
  }
  const CheckStates& states = known->status.checks;
  switch (Judge(states, *names)) {
    case CheckVerdict::kReady:
    case CheckVerdict::kPending:
      return false;
    case CheckVerdict::kRejected:
      OrderStop(entry, NewEviction(*entry, std::string(kDeactivated),
                                   DeactivationMessage(StateText(states, *names, kCheckRejected)),
                                   std::string(kAdmissionCheck)));
      return true;
    case CheckVerdict::kRetry:
      break;
  }
  Eviction eviction = NewEviction(*entry, std::string(kAdmissionCheck), RetryMessage(states, *names));
  eviction.requeue_at = RetryTime(states, *names);
  OrderStop(entry, std::move(eviction));
  return true;
}

bool JobController::PassesChecks(Entry* entry) {
  Claim& claim = *entry->claim;
  const auto known = workloads_.Known(entry->job->meta.uid);
  if (const k8s::Condition* admitted = k8s::FindCondition(known->status.conditions, "Admitted");
      admitted != nullptr && admitted->status == "True") {
    claim.record.admitted_at = std::max(admitted->last_transition, claim.record.reserved_at);
    Apply(engine::ClaimAdmitted{entry->job->meta.uid, claim.record.claim});
    NoteAdmitted(entry);
    spdlog::info("all checks of a job are ready{}",
                 JobFields(*entry->job, {{"clusterQueue", claim.record.admission.cluster_queue}}));
    return true;
  }
  SayPendingChecks(entry, *known);
  const std::optional<CheckNames> names = ChecksOf(*entry);
  const bool ready = names.has_value() && Judge(known->status.checks, *names) == CheckVerdict::kReady;
  TouchWorkload(*entry, ready ? Urgency::kNow : Urgency::kLeisure);
  // It may take long: until then nothing is left of an earlier admission.
  RestoreIfShown(entry);
  return false;
}

void JobController::SayPendingChecks(Entry* entry, const Workload& workload) {
  std::string message = PendingText(workload.status.checks, ChecksOf(*entry).value_or(CheckNames()));
  if (message == entry->check_message) return;
  entry->check_message = message;
  if (!message.empty()) {
    JobEvent(*entry->job, "Normal", "UpdatedAdmissionCheck", "Check", std::move(message));
  }
}

}  // namespace muster::controller
