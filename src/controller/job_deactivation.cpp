// A gang that Muster itself takes out of its queue: the time it may run is over. It is stopped with the reason in its
// record; then its Workload's spec.active becomes false, so that it does not queue before somebody sets it to true.
#include <algorithm>

#include "job_controller.h"
#include "muster/controller/names.h"

namespace muster::controller {
namespace {

using engine::ClaimState;

bool IsOwn(const std::optional<Eviction>& eviction) {
  return eviction.has_value() && eviction->reason == kDeactivated && !eviction->underlying_cause.empty();
}

}  // namespace

int64_t JobController::PastExecutionSeconds(const Entry& entry) const {
  if (entry.claim.has_value() && entry.claim->record.past_execution_seconds.has_value()) {
    return *entry.claim->record.past_execution_seconds;
  }
  if (const auto counted = CountedSeconds(entry); counted.has_value()) return *counted;
  const auto known = workloads_.Known(entry.job->meta.uid);
  if (known == nullptr || TimeWasReset(*known)) return 0;
  return known->status.past_execution_seconds;
}

// The time is the Workload's: a Job that is given another prebuilt one begins anew. One that Muster makes again is the
// same to its user.
std::optional<int64_t> JobController::CountedSeconds(const Entry& entry) const {
  const auto known = workloads_.Known(entry.job->meta.uid);
  const bool another = known != nullptr && known->meta.uid != entry.past_workload && !entry.job->prebuilt().empty();
  return another ? std::nullopt : entry.past_execution_seconds;
}

void JobController::CountSeconds(Entry* entry, int64_t seconds) {
  const auto known = workloads_.Known(entry->job->meta.uid);
  entry->past_execution_seconds = seconds;
  entry->past_workload = known == nullptr ? std::string() : known->meta.uid;
}

int64_t JobController::MaxExecutionSecondsOf(const Entry& entry) const {
  return entry.claim->record.max_execution_seconds.value_or(WantedMaxExecutionSeconds(*entry.job));
}

// Whether the Workload was told not to be active by Muster, and does not show it yet.
bool JobController::OwesDeactivation(const Entry& entry) const {
  const std::optional<Eviction>* eviction = nullptr;
  if (entry.claim.has_value()) {
    const Claim& claim = *entry.claim;
    if (claim.state == ClaimState::kLeaving) eviction = claim.reserved ? &claim.eviction : &claim.record.eviction;
  } else if (entry.job->record != nullptr) {
    eviction = &entry.job->record->eviction;
  }
  if (eviction == nullptr || !IsOwn(*eviction)) return false;
  const auto known = workloads_.Known(entry.job->meta.uid);
  return known == nullptr || !TellsOfEviction(known->status, **eviction);
}

bool JobController::IsOut(const std::string& job_uid, const std::string& workload_uid) const {
  const auto it = entries_.find(job_uid);
  if (it == entries_.end()) return false;
  const Entry& entry = it->second;
  const auto known = workloads_.Known(job_uid);
  return known != nullptr && known->meta.uid == workload_uid && !known->active && !entry.claim.has_value() &&
         entry.job->suspend && entry.job->status.active == 0 && IsManaged(*entry.job, *deps_.catalog, *deps_.options);
}

bool JobController::IsActive(const Entry& entry) const {
  const auto known = workloads_.Known(entry.job->meta.uid);
  return (known == nullptr || known->active) && !OwesDeactivation(entry);
}

// RETURNS: true: the gang has run for as long as it may, over all its admissions, and is being stopped.
bool JobController::StopIfTimeOver(Entry* entry) {
  const Record& record = entry->claim->record;
  const int64_t limit = MaxExecutionSecondsOf(*entry);
  if (limit == 0 || entry->job->deleting() || deps_.options->release) return false;
  const int64_t left = std::max<int64_t>(0, limit - PastExecutionSeconds(*entry));
  const Duration wait = record.executing_since() + SecondsClamped(left) - deps_.env.clock->Now();
  if (wait > Duration(0)) {
    WaitsUntil(entry, deps_.env.clock->Mono() + wait);
    return false;
  }
  const Eviction over = TimeOverEviction();
  OrderStop(entry, NewEviction(*entry, over.reason, over.message, over.underlying_cause));
  return true;
}

// A gang that a predecessor stopped, and whose Workload does not tell yet how long it had run: until the stop at least.
void JobController::CountStopped(Entry* entry) {
  const Record* record = entry->job->record.get();
  if (record == nullptr || record->state != Record::State::kStopped || !record->eviction.has_value()) return;
  const auto known = workloads_.Known(entry->job->meta.uid);
  if (known != nullptr && ShowsEviction(known->status, *record->eviction)) return;
  const Duration ran = std::max(Duration(0), record->eviction->at - record->executing_since());
  CountSeconds(entry, AddClamped(record->eviction->past_execution_seconds,
                                 std::chrono::duration_cast<std::chrono::seconds>(ran).count()));
}

}  // namespace muster::controller
