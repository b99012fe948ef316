// Stopping a gang, waiting until it is gone, and restoring its Job.
#include <spdlog/spdlog.h>

#include <utility>

#include "job_controller.h"
#include "log.h"
#include "muster/controller/names.h"
#include "text.h"

namespace muster::controller {
namespace {

using engine::ClaimState;
using Urgency = WorkloadWriter::Urgency;

// A stop must not wait long for its next try.
constexpr Duration kRepeatMax = std::chrono::seconds(15);
// The engine answers at once.
constexpr Duration kDecidedWithin = std::chrono::seconds(1);

int64_t WholeSeconds(Duration d) { return std::chrono::duration_cast<std::chrono::seconds>(d).count(); }

}  // namespace

Eviction JobController::NewEviction(const Entry& entry, std::string reason, std::string message,
                                    std::string cause) const {
  Eviction out;
  out.reason = std::move(reason);
  out.message = std::move(message);
  out.underlying_cause = std::move(cause);
  out.at = deps_.env.clock->Now();
  CompleteEviction(entry, &out);
  return out;
}

void JobController::CompleteEviction(const Entry& entry, Eviction* eviction) const {
  // What the record still carries is newer than what the Workload shows.
  const auto known = workloads_.Known(entry.job->meta.uid);
  std::vector<EvictionCount> totals;
  if (known != nullptr) totals = known->status.evictions;
  if (entry.claim.has_value() && entry.claim->record.eviction.has_value()) {
    totals = entry.claim->record.eviction->totals;
  }
  eviction->past_execution_seconds = PastExecutionSeconds(entry);
  eviction->totals = CountEviction(std::move(totals), eviction->reason, eviction->underlying_cause);
  // Whoever is deactivated begins anew.
  if (eviction->reason == kDeactivated) return;
  eviction->requeue_count = RequeueCount(entry);
  eviction->timed_out = TimedOut(entry);
}

void JobController::OrderStop(Entry* entry, Eviction eviction, const std::optional<engine::Evict>& decision) {
  if (!entry->claim.has_value() || entry->claim->state == ClaimState::kLeaving || entry->claim->eviction.has_value()) {
    return;
  }
  Claim& claim = *entry->claim;
  // The same again: it is one eviction, which takes long.
  const bool again = claim.refused.has_value() && claim.refused->reason == eviction.reason &&
                     claim.refused->preemptor_uid == eviction.preemptor_uid;
  claim.refused.reset();
  claim.decision = decision;
  if (!again) claim.evicted_at = eviction.at;
  claim.eviction = std::move(eviction);
  if (!again) WatchEviction(entry);
  Reconcile(entry);
}

void JobController::WatchEviction(Entry* entry) {
  const k8s::ObjectMeta& job = entry->job->meta;
  Claim& claim = *entry->claim;
  claim.watched = deps_.evictions->Watch(*claim.eviction, claim.record.admission.cluster_queue,
                                         {"batch/v1", "Job", job.ns, job.name, job.uid});
}

void JobController::SendStop(Entry* entry) {
  Claim& claim = *entry->claim;
  if (!claim.eviction.has_value()) claim.eviction = NewEviction(*entry, "NotAdmitted", "Not admitted by cluster queue");
  Send(entry, BuildStop(*entry->job, claim.record, *claim.eviction).body, [this](Entry* e, const k8s::Result& result) {
    if (!result.ok()) {
      spdlog::warn("the stop of a job was not accepted{}",
                   JobFields(*e->job, {{"code", std::to_string(result.code)}, {"error", result.message}}));
      Refresh(e, [this](Entry* again) { StopFailed(again); });
      return;
    }
    Continue(e, result);
  });
}

// The Job was read after a stop that failed, whatever the reason. Reconcile follows, and finds it if it was made all
// the same. If not, the engine decides again where it did so before: the stop may not be wanted any more.
void JobController::StopFailed(Entry* entry) {
  const Duration wait = std::min(entry->backoff.Next(), kRepeatMax);
  if (!entry->claim.has_value()) return;
  Claim& claim = *entry->claim;
  const Record* record = entry->job->record.get();
  const bool stopped =
      record != nullptr && record->claim == claim.record.claim && record->state == Record::State::kStopped;
  const bool runs = claim.state == ClaimState::kWritten || claim.state == ClaimState::kActive;
  if (!runs || stopped || !claim.eviction.has_value() || !claim.decision.has_value()) {
    Wake(entry, wait);
    return;
  }
  claim.refused = std::exchange(claim.eviction, std::nullopt);
  claim.refused_until = deps_.env.clock->Mono() + wait + kDecidedWithin;
  deps_.size_changed(entry->job->meta.uid);
  Apply(engine::EvictionRefused{entry->job->meta.uid, claim.record.claim, deps_.env.clock->Now() + wait});
}

// RETURNS: whether an eviction whose stop failed may still be decided again.
bool JobController::AwaitsDecision(Entry* entry) {
  Claim& claim = *entry->claim;
  if (!claim.refused.has_value()) return false;
  if (WaitsUntil(entry, claim.refused_until)) return true;
  claim.refused.reset();
  claim.watched.reset();
  return false;
}

// The Job shows the stop.
void JobController::Stopped(Entry* entry) {
  NoteStopped(entry);
  Reconcile(entry);
}

void JobController::NoteStopped(Entry* entry) {
  Claim& claim = *entry->claim;
  const Job& job = *entry->job;
  claim.state = ClaimState::kLeaving;
  claim.size_write.reset();
  // Its write can not be applied any more: it tests the record.
  if (claim.growth.has_value()) RefuseGrowth(entry, {}, "");
  claim.record = *job.record;
  claim.eviction = claim.record.eviction;
  entry->backoff.Reset();
  entry->reason.reset();
  Apply(engine::ClaimLeaving{job.meta.uid, claim.record.claim});
  if (claim.eviction.has_value()) NoteEviction(entry);
  TouchWorkload(*entry, Urgency::kLeisure);
}

void JobController::NoteEviction(Entry* entry) {
  const Eviction& eviction = *entry->claim->eviction;
  if (const Claim& claim = *entry->claim; claim.pods_ready.ready()) {
    deps_.telemetry->ReadyPodsEvicted(Queue(*entry), eviction.reason, eviction.underlying_cause,
                                      eviction.at - claim.pods_ready.since);
  }
  if (eviction.underlying_cause == kMaxExecTimeExceeded) {
    QueueWorkloadEvent(entry, {kWorkloadReporter, "Warning", std::string(kMaxExecTimeExceeded), "Evict",
                               TimeOverNote(MaxExecutionSecondsOf(*entry))});
  }
  deps_.evictions->Note(eviction, Queue(*entry), PartyOf(*entry),
                        PodsHeld(entry->claim->record.admission, entry->prepared.get()), entry->claim->decision,
                        [this, entry](WorkloadEvent event) { QueueWorkloadEvent(entry, std::move(event)); });
  spdlog::info("a job is stopped{}",
               JobFields(*entry->job, {{"clusterQueue", entry->claim->record.admission.cluster_queue},
                                       {"reason", eviction.reason},
                                       {"preemptionReason", eviction.preemption_reason},
                                       {"message", eviction.message}}));
}

void JobController::ReconcileLeaving(Entry* entry) {
  const Job& job = *entry->job;
  if (!job.suspend) {
    // Somebody let it run again without an admission.
    if (!job.deleting()) SendStop(entry);
    return;
  }
  if (entry->claim->reserved) {
    const auto known = workloads_.Known(job.meta.uid);
    if (job.status.active == 0 && (known == nullptr || !HoldsQuota(*known))) Release(entry);
    return;
  }
  if (job.record == nullptr && !job.deleting()) {
    SendStop(entry);  // without it nobody knows what to take out of the template
    return;
  }
  if (PodsGone(job, deps_.options->wait_for_terminating_pods)) Release(entry);
}

// The pods are gone: the quota is free, and the Job waits again.
void JobController::Release(Entry* entry) {
  const Claim claim = *std::exchange(entry->claim, std::nullopt);
  const Job& job = *entry->job;
  const WallTime now = deps_.env.clock->Now();
  const auto known = workloads_.Known(job.meta.uid);
  const int64_t before = claim.eviction.has_value() ? claim.eviction->past_execution_seconds
                         : known != nullptr         ? known->status.past_execution_seconds
                                                    : 0;
  const bool executed = !claim.on_workload || !claim.reserved || claim.admitted;
  const int64_t ran = executed ? WholeSeconds(now - claim.record.executing_since()) : 0;
  CountSeconds(entry, AddClamped(before, std::max<int64_t>(0, ran)));
  entry->queued_since = claim.eviction.has_value() ? std::max(now, claim.eviction->requeue_at) : now;
  entry->reason.reset();
  Apply(engine::ClaimGone{job.meta.uid, claim.record.claim});
  deps_.claim_changed(job.meta.uid);
  if (claim.eviction.has_value()) {
    deps_.telemetry->EvictionDone(Queue(*entry), claim.eviction->reason, now - claim.evicted_at);
    if (!claim.reserved) JobEvent(job, "Normal", "Stopped", "Stop", claim.eviction->message);
  }
  spdlog::info("a job is out, its quota is free{}",
               JobFields(job, {{"clusterQueue", claim.record.admission.cluster_queue}}));
  TouchWorkload(*entry, Urgency::kNow);
  Reconcile(entry);
}

// A Job that names a queue runs though nobody admitted it: the policies that keep that from happening are missing,
// or it ran before they came. The last resort, since its pods have begun by now.
void JobController::SuspendUnadmitted(Entry* entry) {
  const bool known = workloads_.Known(entry->job->meta.uid) != nullptr;
  Send(entry, BuildSuspend(*entry->job), [this, known](Entry* e, const k8s::Result& result) {
    if (result.ok()) {
      spdlog::warn("a job ran without admission, it is suspended{}", JobFields(*e->job));
      JobEvent(*e->job, "Normal", "Stopped", "Stop",
               known ? "Not admitted by cluster queue" : "Missing Workload; unable to restore pod templates");
    }
    Continue(e, result);
  });
}

// The record of a Job that waits goes away with its injection, once the Workload tells of the eviction; so does one
// that counts as none (AdoptHeld). A start in the meantime does
// the same on the way.
void JobController::RestoreIfShown(Entry* entry) {
  const Job& job = *entry->job;
  if (job.record == nullptr && job.void_record == nullptr) return;
  const auto known = workloads_.Known(job.meta.uid);
  bool told = job.record == nullptr || !job.record->eviction.has_value() ||
              (known != nullptr && ShowsEviction(known->status, *job.record->eviction));
  // It may have been reserved again since.
  const bool reserved = entry->claim.has_value() && entry->claim->reserved;
  if (reserved && known != nullptr && job.record != nullptr && job.record->eviction.has_value()) {
    told = TellsOfEviction(known->status, *job.record->eviction);
  }
  // A prebuilt one that is gone, or another by now, does not come to show it.
  const bool another = !job.prebuilt().empty() && (known == nullptr || known->meta.name != entry->workload);
  if (!another && (known == nullptr || !told)) return;
  if (!UnlockTemplate(entry)) return;
  Send(entry, BuildRestore(job), [this](Entry* e, const k8s::Result& result) { Continue(e, result); });
}

}  // namespace muster::controller
