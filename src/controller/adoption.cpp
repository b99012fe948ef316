#include "muster/controller/adoption.h"

#include "muster/controller/names.h"

namespace muster::controller {
namespace {

using engine::ClaimState;

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
  return held;
}

std::optional<Held> FromWorkload(const Job& job, const Workload& workload) {
  const auto& conditions = workload.status.conditions;
  const k8s::OwnerReference* owner = workload.meta.Controller();
  if (owner == nullptr || owner->uid != job.meta.uid) return std::nullopt;
  if (!k8s::IsTrue(conditions, "QuotaReserved") || !k8s::IsTrue(conditions, "Admitted") ||
      k8s::IsTrue(conditions, "Evicted") || k8s::IsTrue(conditions, "Finished") ||
      !workload.status.admission.has_value()) {
    return std::nullopt;
  }
  auto admission = FromApi(*workload.status.admission);
  if (!admission.ok()) return std::nullopt;
  Held held;
  held.state = job.status.active > 0 ? ClaimState::kActive : ClaimState::kWritten;
  held.admission = *std::move(admission);
  held.reserved_at = k8s::FindCondition(conditions, "QuotaReserved")->last_transition;
  held.local_queue = workload.spec.queue_name;
  if (const auto it = workload.meta.annotations.find(kClaimAnnotation); it != workload.meta.annotations.end()) {
    held.claim = engine::ClaimId::Parse(it->second).value_or(engine::ClaimId{});
  }
  return held;
}

}  // namespace

std::optional<Held> FindHeld(const Job& job, const Workload* workload, bool wait_for_terminating_pods) {
  if (job.record != nullptr) return FromRecord(job, wait_for_terminating_pods);
  if (!job.suspend && workload != nullptr) return FromWorkload(job, *workload);
  return std::nullopt;
}

}  // namespace muster::controller
