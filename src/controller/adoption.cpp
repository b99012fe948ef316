#include "muster/controller/adoption.h"

#include <algorithm>
#include <utility>

#include "muster/controller/names.h"
#include "muster/controller/projection.h"
#include "muster/controller/reason_text.h"
#include "text.h"

namespace muster::controller {
namespace {

using engine::ClaimState;

// Sequence numbers of claims that were found without an id; the engine's own count from one.
constexpr uint64_t kAdoptedSequence = uint64_t{1} << 62;

bool OwnedBy(const Workload& workload, const Job& job) {
  const k8s::OwnerReference* owner = workload.meta.Controller();
  return owner != nullptr && owner->uid == job.meta.uid;
}

void SetEviction(const Eviction& eviction, Held* held) {
  held->evicted = DecidedReason(eviction.shown_reason(), eviction.preemption_reason);
  held->preemptor_uid = eviction.preemptor_uid;
  held->evicted_at = eviction.at;
}

std::optional<Held> FromRecord(const Job& job, bool strict) {
  const Record& record = *job.record;
  Held held;
  held.claim = record.claim;
  held.admission = record.admission;
  held.reserved_at = record.reserved_at;
  held.local_queue = record.local_queue;
  if (record.state == Record::State::kStarted) {
    held.state = job.status.active > 0 ? ClaimState::kActive : ClaimState::kWritten;
    return held;
  }
  if (PodsGone(job, strict)) return std::nullopt;
  held.state = ClaimState::kLeaving;
  if (record.eviction.has_value()) SetEviction(*record.eviction, &held);
  return held;
}

// Its template shows that it was started with this Workload's admission, by Kueue: a start of Muster's leaves a record,
// and without one the template is only what its user wrote.
bool WasStarted(const Job& job, const Workload& workload) {
  if (workload.meta.annotations.contains(kClaimAnnotation)) return false;
  const auto it = job.view.annotations.find(kWorkloadAnnotation);
  return it != job.view.annotations.end() && it->second == workload.meta.name;
}

// A running Job is admitted where its Workload says so. So is one that somebody suspended after its start; and where
// the Workload says that it is being evicted, the suspended one still holds its quota: so Kueue leaves it between the
// stop and its end.
std::optional<Held> FromWorkload(const Job& job, const Workload& workload) {
  const auto& conditions = workload.status.conditions;
  const bool evicted = k8s::IsTrue(conditions, "Evicted");
  if (!k8s::IsTrue(conditions, "Admitted")) return std::nullopt;
  if (job.suspend ? !evicted && !WasStarted(job, workload) : evicted) return std::nullopt;
  auto held = FindHeld(workload);
  if (!held.ok() || !held->has_value()) return std::nullopt;
  if (!evicted && job.status.active > 0) (*held)->state = ClaimState::kActive;
  return **std::move(held);
}

// Its Job is still to be started.
std::optional<Held> Reserved(const Workload& workload) {
  auto held = FindHeld(workload);
  if (!held.ok() || !held->has_value()) return std::nullopt;
  (*held)->started = false;
  return **std::move(held);
}

// The record is of an admission that is over and could not be taken away yet; the Workload has a later one.
std::optional<Held> ReservedSince(const Job& job, const Workload& workload) {
  const bool over =
      job.suspend && job.record->state == Record::State::kStopped && job.record->claim < ClaimOf(workload);
  return over && OwnedBy(workload, job) && IsRecordHolder(workload) ? Reserved(workload) : std::nullopt;
}

Amount UsageOf(const engine::PodSetAssignment& pod_set, std::string_view resource) {
  for (const auto& [name, amount] : pod_set.usage) {
    if (name == resource) return amount;
  }
  return {0};
}

std::string Differs(std::string_view resource, Amount recorded, Amount asked) {
  return Cat("the record holds ", FormatAmount(resource, recorded), " of ", resource, ", and the Job asks for ",
             FormatAmount(resource, asked));
}

}  // namespace

bool ShowsAdmission(const Workload* workload, const Job& job) {
  if (workload == nullptr || job.record == nullptr || !OwnedBy(*workload, job)) return false;
  return workload->status.admission == ToApi(job.record->admission);
}

std::string RecordDoubt(const Job& job, const Workload* workload, const gang::Shape& shape, bool ignore_undeclared) {
  const Record& record = *job.record;
  if (ShowsAdmission(workload, job)) return "";
  if (record.admission.pod_sets.size() != 1 || record.admission.pod_sets.front().name != kJobPodSet) {
    return Cat("a Job has one pod set, ", kJobPodSet, ", and the record another");
  }
  const engine::PodSetAssignment& pod_set = record.admission.pod_sets.front();
  // A stop sets the counts back to what they were before a partial admission.
  const bool started = record.state == Record::State::kStarted;
  // What runs and was scaled meanwhile holds its quota until it is stopped.
  const bool runs = started && !job.suspend;
  const int32_t pods = CurrentShape(job).pod_count();
  if (!runs && pods != record.pod_count() && (started || pods < record.pod_count())) {
    return Cat("the record is for ", record.pod_count(), " pods, and the Job has ", pods);
  }
  if (const int32_t left = PodsLeft(job, CurrentShape(job)); !runs && started && left > pod_set.count) {
    return Cat("the record admits ", pod_set.count, " pods, and ", left, " of the Job's can still run");
  }
  for (const auto& [resource, amount] : shape.requests) {
    const Amount asked = amount * pod_set.count;
    const bool undeclared = ignore_undeclared && UsageOf(pod_set, resource) == Amount{0};
    if (!undeclared && UsageOf(pod_set, resource) != asked) return Differs(resource, UsageOf(pod_set, resource), asked);
  }
  for (const auto& [resource, amount] : pod_set.usage) {
    const bool asked_for = std::any_of(shape.requests.begin(), shape.requests.end(),
                                       [&name = resource](const auto& r) { return r.first == name; });
    const Amount asked{resource == "pods" ? pod_set.count : 0};
    if (!asked_for && amount != asked) return Differs(resource, amount, asked);
  }
  return "";
}

absl::StatusOr<std::optional<Held>> FindHeld(const Workload& workload) {
  if (!HoldsQuota(workload)) return std::optional<Held>();
  auto admission = FromApi(*workload.status.admission);
  if (!admission.ok()) return admission.status();
  Held held;
  held.state = k8s::IsTrue(workload.status.conditions, "Evicted") ? ClaimState::kLeaving : ClaimState::kWritten;
  held.admission = *std::move(admission);
  held.reserved_at = k8s::FindCondition(workload.status.conditions, "QuotaReserved")->last_transition;
  held.local_queue = workload.spec.queue_name;
  held.claim = ClaimOf(workload);
  if (const k8s::Condition* admitted = k8s::FindCondition(workload.status.conditions, "Admitted");
      admitted == nullptr || admitted->status != "True") {
    held.admitted = false;
  } else if (admitted->last_transition > held.reserved_at) {
    held.admitted_at = admitted->last_transition;
  }
  if (const auto eviction = ShownEviction(workload.status); eviction.has_value()) {
    SetEviction(*eviction, &held);
  }
  return std::optional<Held>(std::move(held));
}

engine::PastEviction ToPastEviction(const Eviction& eviction, std::string preemptor_uid) {
  const auto reason = DecidedReason(eviction.shown_reason(), eviction.preemption_reason);
  return {eviction.at, std::move(preemptor_uid), reason == engine::EvictionReason::kDefragmentation};
}

engine::HeldClaim ToHeldClaim(const Held& held) {
  engine::HeldClaim out;
  out.id = held.claim;
  out.state = held.state;
  out.admission = held.admission;
  out.reserved_at = held.reserved_at;
  out.admitted = held.admitted;
  out.evicted = held.evicted;
  out.preemptor_uid = held.preemptor_uid;
  out.evicted_at = held.evicted_at;
  return out;
}

bool IsRecordHolder(const Workload& workload) {
  const auto label = workload.meta.labels.find(kRecordHolderLabel);
  return label != workload.meta.labels.end() && label->second == kHeldByWorkload;
}

void AdoptedClaims::Begin(uint64_t epoch) {
  epoch_ = epoch;
  count_ = 0;
  owners_.clear();
}

engine::ClaimId AdoptedClaims::Adopt(engine::ClaimId found, const std::string& uid) {
  if (!found.IsSet()) return New();
  const auto [owner, is_first] = owners_.emplace(found, uid);
  return is_first || owner->second == uid ? found : New();
}

engine::ClaimId AdoptedClaims::New() { return {epoch_, kAdoptedSequence + ++count_}; }

namespace {

std::optional<Held> FindShown(const Job& job, const Workload* workload, bool wait_for_terminating_pods) {
  if (job.record != nullptr) {
    auto held = FromRecord(job, wait_for_terminating_pods);
    return held.has_value() || workload == nullptr ? held : ReservedSince(job, *workload);
  }
  if (workload == nullptr || !OwnedBy(*workload, job)) return std::nullopt;
  const bool holder = workload->meta.name == job.prebuilt() || IsRecordHolder(*workload);
  return !job.suspend || !holder || WasStarted(job, *workload) ? FromWorkload(job, *workload) : Reserved(*workload);
}

}  // namespace

std::optional<Held> FindHeld(const Job& job, const Workload* workload, bool wait_for_terminating_pods) {
  std::optional<Held> held = FindShown(job, workload, wait_for_terminating_pods);
  // A Workload may say for a while yet that it is being evicted. Of a Job that has a record of a stop, or is deleted,
  // nothing is left to be done then: taken as held it would be out at once, and found again.
  const bool left = job.record == nullptr && !job.deleting();
  const bool leaves = held.has_value() && held->state == ClaimState::kLeaving;
  if (leaves && !left && PodsGone(job, wait_for_terminating_pods)) return std::nullopt;
  return held;
}

}  // namespace muster::controller
