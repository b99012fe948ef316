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

int64_t WholeSeconds(Duration d) { return std::chrono::duration_cast<std::chrono::seconds>(d).count(); }

}  // namespace

Eviction JobController::NewEviction(const Entry& entry, std::string reason, std::string message,
                                    std::string cause) const {
  Eviction out;
  out.reason = std::move(reason);
  out.message = std::move(message);
  out.underlying_cause = std::move(cause);
  out.at = deps_.env.clock->Now();
  // What the record still carries is newer than what the Workload shows.
  const auto known = workloads_.Known(entry.job->meta.uid);
  std::vector<EvictionCount> totals;
  if (known != nullptr) totals = known->status.evictions;
  if (entry.claim.has_value() && entry.claim->record.eviction.has_value()) {
    totals = entry.claim->record.eviction->totals;
  }
  out.past_execution_seconds = PastExecutionSeconds(entry);
  out.totals = CountEviction(std::move(totals), out.reason, out.underlying_cause);
  return out;
}

void JobController::OrderStop(Entry* entry, Eviction eviction) {
  if (!entry->claim.has_value() || entry->claim->state == ClaimState::kLeaving || entry->claim->eviction.has_value()) {
    return;
  }
  entry->claim->evicted_at = eviction.at;
  entry->claim->eviction = std::move(eviction);
  Reconcile(entry);
}

void JobController::SendStop(Entry* entry) {
  Claim& claim = *entry->claim;
  if (!claim.eviction.has_value()) claim.eviction = NewEviction(*entry, "NotAdmitted", "Not admitted by cluster queue");
  Send(entry, BuildStop(*entry->job, claim.record, *claim.eviction).body, [this](Entry* e, const k8s::Result& result) {
    if (!result.ok()) {
      spdlog::warn("the stop of a job was not accepted{}",
                   JobFields(*e->job, {{"code", std::to_string(result.code)}, {"error", result.message}}));
    }
    Continue(e, result);
  });
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
  const auto count = std::find_if(eviction.totals.begin(), eviction.totals.end(), [&eviction](const auto& c) {
    return c.reason == eviction.reason && c.underlying_cause == eviction.underlying_cause;
  });
  deps_.telemetry->Evicted(Queue(*entry), eviction.reason, eviction.underlying_cause,
                           count != eviction.totals.end() && count->count == 1);
  if (eviction.underlying_cause == kMaxExecTimeExceeded) {
    QueueWorkloadEvent(entry, {kWorkloadReporter, "Warning", std::string(kMaxExecTimeExceeded), "Evict",
                               Cat("The maximum execution time (", MaxExecutionSecondsOf(*entry), "s) exceeded")});
  }
  const bool preempted = !eviction.preemption_reason.empty();
  QueueWorkloadEvent(entry, {preempted ? kAdmissionReporter : kWorkloadReporter, "Normal",
                             Cat("EvictedDueTo", eviction.shown_reason()), "Evict", eviction.message});
  if (preempted) {
    QueueWorkloadEvent(entry, {kAdmissionReporter, "Normal", "Preempted", "Preempt", eviction.message});
  }
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
  entry->past_execution_seconds =
      AddClamped(before, std::max<int64_t>(0, WholeSeconds(now - claim.record.reserved_at)));
  entry->queued_since = now;
  entry->reason.reset();
  Apply(engine::ClaimGone{job.meta.uid, claim.record.claim});
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
  const bool told = job.record == nullptr || !job.record->eviction.has_value() ||
                    (known != nullptr && ShowsEviction(known->status, *job.record->eviction));
  // A prebuilt one that is gone does not come to show it.
  if (known == nullptr ? job.prebuilt().empty() : !told) return;
  if (!UnlockTemplate(entry)) return;
  Send(entry, BuildRestore(job), [this](Entry* e, const k8s::Result& result) { Continue(e, result); });
}

}  // namespace muster::controller
