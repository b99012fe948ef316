// A gang whose pods do not get ready, or do not recover, is stopped and queued again after a pause that grows; after so
// many times it is deactivated. How often, and until when it pauses, is in the record of the stop, then in the
// Workload; since when pods are ready or not, in the Workload's condition alone.
#include <algorithm>

#include "job_controller.h"
#include "muster/controller/names.h"
#include "text.h"

namespace muster::controller {
namespace {

using engine::ClaimState;
using Urgency = WorkloadWriter::Urgency;

constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr std::string_view kLimitExceeded =
    "The workload is deactivated due to exceeding the maximum number of re-queuing retries";

// As the API stores it; else a process that reads it there would be early.
WallTime NextWholeSecond(WallTime t) {
  const WallTime up = t + Duration(kNanosPerSecond - 1);
  return {up.unix_nanos - up.unix_nanos % kNanosPerSecond};
}

// The Workload tells of the admission that began then.
bool ShowsReservation(const Workload* workload, const Record& record) {
  if (workload == nullptr || workload->status.admission != ToApi(record.admission)) return false;
  const k8s::Condition* reserved = k8s::FindCondition(workload->status.conditions, "QuotaReserved");
  return reserved != nullptr && reserved->status == "True" &&
         reserved->last_transition.unix_nanos / kNanosPerSecond == record.reserved_at.unix_nanos / kNanosPerSecond;
}

}  // namespace

// Of a gang that another process may have started. REQUIRES: a claim with its record.
PodsReady JobController::FoundPodsReady(const Entry& entry) const {
  const Record& record = entry.claim->record;
  const auto known = workloads_.Known(entry.job->meta.uid);
  if (!ShowsReservation(known.get(), record)) return {PodsReady::Phase::kWaitForStart, record.executing_since()};
  return PodsReadyOf(k8s::FindCondition(known->status.conditions, kPodsReadyCondition), record.executing_since());
}

// REQUIRES: the gang runs.
void JobController::SeePodsReady(Entry* entry) {
  if (!deps_.options->wait_for_pods_ready.has_value()) return;
  Claim& claim = *entry->claim;
  const PodsReady before = claim.pods_ready;
  const WallTime now = deps_.env.clock->Now();
  claim.pods_ready = Next(before, AllPodsReady(*entry->job), now);
  if (claim.pods_ready == before) return;
  Apply(engine::ClaimPodsReady{entry->job->meta.uid, claim.record.claim, claim.pods_ready.ready()});
  if (claim.pods_ready.phase == PodsReady::Phase::kStarted) {
    deps_.telemetry->PodsReady(Queue(*entry), now - entry->queued_since, now - entry->claim->record.executing_since());
  }
  TouchWorkload(*entry, Urgency::kLeisure);
}

// RETURNS: true: the pods have had their time, and the gang is being stopped.
bool JobController::StopIfNotReady(Entry* entry) {
  const auto& options = deps_.options->wait_for_pods_ready;
  if (!options.has_value() || entry->job->deleting() || deps_.options->release) return false;
  const PodsReady& state = entry->claim->pods_ready;
  const WallTime deadline = PodsReadyDeadline(state, entry->claim->record.executing_since(), *options);
  if (!deadline.IsSet()) return false;
  const WallTime now = deps_.env.clock->Now();
  if (now < deadline) {
    WaitsUntil(entry, deps_.env.clock->Mono() + (deadline - now));
    return false;
  }
  const int32_t count = RequeueCount(*entry) + 1;
  const Duration delay = RequeueDelay(count, *options);
  const WallTime next = NextWholeSecond(now + delay);
  TimedOutFlavors timed_out;
  if (const Duration most = deps_.options->pass_over_timed_out; most > Duration(0)) {
    const Record& record = entry->claim->record;
    timed_out = AddTimeOut(TimedOut(*entry), record.admission, record.reserved_at, now, next + most);
  }
  if (options->backoff_limit_count.has_value() && count > *options->backoff_limit_count) {
    Eviction last = NewEviction(*entry, std::string(kDeactivated), std::string(kLimitExceeded),
                                std::string(kRequeuingLimitExceeded));
    last.timed_out = std::move(timed_out);
    OrderStop(entry, std::move(last));
    return true;
  }
  Eviction eviction = NewEviction(*entry, std::string(kPodsReadyTimeout),
                                  Cat("Exceeded the PodsReady timeout ", entry->job->meta.ns, "/", entry->workload),
                                  std::string(state.reason()));
  eviction.requeue_count = count;
  if (delay > Duration(0)) eviction.requeue_at = next;
  eviction.timed_out = std::move(timed_out);
  OrderStop(entry, std::move(eviction));
  return true;
}

// Of its record, unless the Workload shows a later one; null: none.
const Eviction* JobController::UnshownEviction(const Entry& entry) const {
  const Record* record = entry.claim.has_value() ? &entry.claim->record : entry.job->record.get();
  if (record == nullptr || !record->eviction.has_value()) return nullptr;
  const auto known = workloads_.Known(entry.job->meta.uid);
  return known != nullptr && IsOlderThanShown(*record->eviction, known->status) ? nullptr : &*record->eviction;
}

// How often the gang was queued again since its pods did not get ready.
int32_t JobController::RequeueCount(const Entry& entry) const {
  if (const Eviction* last = UnshownEviction(entry); last != nullptr) return last->requeue_count;
  const auto known = workloads_.Known(entry.job->meta.uid);
  return known == nullptr || !known->status.requeue_state.has_value() ? 0 : known->status.requeue_state->count;
}

// With which flavors.
TimedOutFlavors JobController::TimedOut(const Entry& entry) const {
  if (const Eviction* last = UnshownEviction(entry); last != nullptr) {
    return last->requeue_count > 0 ? last->timed_out : TimedOutFlavors();
  }
  const auto known = workloads_.Known(entry.job->meta.uid);
  return known == nullptr ? TimedOutFlavors() : ShownTimedOut(known->status);
}

// What the engine is to go by; it is told again when that is forgotten.
std::vector<engine::FlavorTimeOuts> JobController::PassesOver(Entry* entry) {
  if (entry->claim.has_value() || deps_.options->pass_over_timed_out <= Duration(0)) return {};
  const TimedOutFlavors timed_out = TimedOut(*entry);
  const WallTime now = deps_.env.clock->Now();
  if (now < timed_out.until) WaitsUntil(entry, deps_.env.clock->Mono() + (timed_out.until - now));
  return Remembered(timed_out, now);
}

// The eviction that a Job which holds nothing waits after.
std::optional<Eviction> JobController::LastEviction(const Entry& entry) const {
  const auto known = workloads_.Known(entry.job->meta.uid);
  if (const Record* record = entry.job->record.get();
      record != nullptr && record->eviction.has_value() &&
      (known == nullptr || !IsOlderThanShown(*record->eviction, known->status))) {
    return record->eviction;
  }
  return known == nullptr ? std::nullopt : ShownEviction(known->status);
}

std::optional<engine::PastEviction> JobController::PastEviction(const Entry& entry) const {
  if (entry.claim.has_value()) return std::nullopt;
  const std::optional<Eviction> eviction = LastEviction(entry);
  if (!eviction.has_value()) return std::nullopt;
  return ToPastEviction(*eviction, QueuesAs(eviction->preemptor_uid));
}

// Until when it is not to be tried again, and what it is ordered by among equals. REQUIRES: no claim.
JobController::Turn JobController::TurnOf(const Entry& entry) const {
  Turn turn{entry.not_before, {}};
  const std::optional<Eviction> eviction = LastEviction(entry);
  if (!eviction.has_value()) return turn;
  turn.not_before = std::max(turn.not_before, eviction->requeue_at);
  const auto& options = deps_.options->wait_for_pods_ready;
  const bool timed_out = eviction->reason == kPodsReadyTimeout && options.has_value() && options->queue_since_eviction;
  if (timed_out || eviction->reason == kAdmissionCheck) {
    // Whole seconds, as the Workload shows it to the next process.
    turn.queue_time = {eviction->at.unix_nanos - eviction->at.unix_nanos % kNanosPerSecond};
  }
  return turn;
}

// Sees to it that the Workload tells of the end of the pause.
void JobController::AwaitRequeue(Entry* entry) {
  const auto known = workloads_.Known(entry->job->meta.uid);
  const std::optional<Eviction> eviction = LastEviction(*entry);
  if (!eviction.has_value() || !eviction->requeue_at.IsSet()) return;
  const Duration wait = eviction->requeue_at - deps_.env.clock->Now();
  if (wait > Duration(0)) {
    WaitsUntil(entry, deps_.env.clock->Mono() + wait);
  } else if (known != nullptr && known->status.requeue_state.has_value() &&
             known->status.requeue_state->requeue_at.IsSet()) {
    TouchWorkload(*entry, Urgency::kLeisure);
  }
}

}  // namespace muster::controller
