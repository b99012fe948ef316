#include "muster/controller/projection.h"

#include <algorithm>
#include <array>

#include "muster/controller/names.h"
#include "muster/controller/reason_text.h"
#include "text.h"

namespace muster::controller {
namespace {

using State = WorkloadFacts::State;

constexpr std::string_view kNoReservation = "The workload has no reservation";
constexpr std::string_view kDeactivatedMessage = "The workload is deactivated";
constexpr std::string_view kGateCleared = "AdmissionGatedBy cleared, waiting for quota reservation";
constexpr std::string_view kDueTo = " due to ";
constexpr std::string_view kDeactivationTarget = "DeactivationTarget";
constexpr std::string_view kBlockedOnGates = "BlockedOnPreemptionGates";

// Labels that the job controller puts on templates; what names a single Job's pods by uid is not the user's.
constexpr std::array<std::string_view, 3> kControllerLabels = {"job-name", "controller-uid",
                                                               "batch.kubernetes.io/controller-uid"};

constexpr int64_t kNanosPerSecond = 1'000'000'000;
int64_t Seconds(WallTime t) { return t.unix_nanos / kNanosPerSecond; }
// As the API stores it; else a state would differ from itself once it was written and read.
WallTime WholeSeconds(WallTime t) { return {Seconds(t) * kNanosPerSecond}; }

// One status under construction.
class Draft {
 public:
  Draft(const WorkloadStatus& known, int64_t generation) : status_(known), generation_(generation) {}

  WorkloadStatus& status() { return status_; }
  const k8s::Condition* Find(std::string_view type) const { return k8s::FindCondition(status_.conditions, type); }
  bool IsTrue(std::string_view type) const { return k8s::IsTrue(status_.conditions, type); }

  // A condition that says the same already keeps its observedGeneration: a new generation alone is no news.
  void Set(std::string_view type, bool value, std::string_view reason, std::string_view message, WallTime at) {
    const std::string_view status = value ? "True" : "False";
    if (const k8s::Condition* known = Find(type);
        known != nullptr && known->status == status && known->reason == reason && known->message == message) {
      return;
    }
    k8s::Condition wanted;
    wanted.type = type;
    wanted.status = status;
    wanted.reason = reason;
    wanted.message = message;
    wanted.observed_generation = generation_;
    k8s::SetCondition(&status_.conditions, std::move(wanted), WholeSeconds(at));
  }

  void Remove(std::string_view type) {
    std::erase_if(status_.conditions, [type](const k8s::Condition& c) { return c.type == type; });
  }

 private:
  WorkloadStatus status_;
  int64_t generation_;
};

constexpr std::string_view kUnsatisfied = "The workload has not all checks ready";

void ShowWaiting(const std::optional<engine::Reason>& reason, WallTime now, Draft* draft) {
  if (reason.has_value()) {
    draft->Set(kWaitingCondition, true, engine::Name(engine::WaitCodeOf(*reason)), WaitMessage(*reason), now);
  } else {
    draft->Remove(kWaitingCondition);
  }
}

void ShowReservation(const WorkloadFacts& facts, Draft* draft) {
  WorkloadStatus& status = draft->status();
  status.admission = ToApi(*facts.admission);
  status.resource_requests.clear();
  draft->Set("QuotaReserved", true, "QuotaReserved",
             Cat("Quota reserved in ClusterQueue ", facts.admission->cluster_queue), facts.reserved_at);
  if (facts.state == State::kReserved) {
    draft->Set("Admitted", false, "UnsatisfiedAdmissionChecks", kUnsatisfied, facts.reserved_at);
  } else {
    draft->Set("Admitted", true, "Admitted", "The workload is admitted",
               facts.admitted_at.IsSet() ? facts.admitted_at : facts.reserved_at);
  }
}

std::string Previously(std::string_view message) { return Cat("Previously: ", message); }

// Since another reason holds.
void EndBlockedOnGates(std::string_view reason, WallTime at, Draft* draft) {
  const k8s::Condition* blocked = draft->Find(kBlockedOnGates);
  if (blocked != nullptr && blocked->status == "True") {
    draft->Set(kBlockedOnGates, false, reason, Previously(blocked->message), at);
  }
}

// What others decided for the reservation that ends; they decide again for the next.
void SetBackOthers(WallTime now, WorkloadStatus* status) {
  status->checks = SetBack(std::move(status->checks), now);
  status->preemption_gates = CloseAll(std::move(status->preemption_gates), WholeSeconds(now));
}

void ShowEvicted(const Eviction& eviction, WallTime now, Draft* draft) {
  WorkloadStatus& status = draft->status();
  // Once, as it is shown: what check controllers write from then on is for the next reservation.
  if (status.evictions != eviction.totals) SetBackOthers(now, &status);
  status.evictions = eviction.totals;
  status.requeue_state.reset();
  if (eviction.requeue_count > 0 || eviction.requeue_at.IsSet()) {
    status.requeue_state = {eviction.requeue_count, eviction.requeue_at};
  }
  draft->Set("Evicted", true, eviction.shown_reason(), eviction.message, eviction.at);
  if (!eviction.timed_out.flavors.empty()) {
    draft->Set(kFlavorsTimedOutCondition, true, kPodsReadyTimeout, TimedOutMessage(eviction.timed_out), eviction.at);
  } else if (eviction.reason == kPodsReadyTimeout) {
    draft->Remove(kFlavorsTimedOutCondition);  // the configuration does not ask for it any more
  }
  if (eviction.reason == kDeactivated && eviction.underlying_cause == kMaxExecTimeExceeded) {
    const std::string_view message = eviction.message;
    const size_t why = message.find(kDueTo);
    draft->Set(kDeactivationTarget, true, eviction.underlying_cause,
               why == std::string_view::npos ? message : message.substr(why + kDueTo.size()), eviction.at);
  }
  if (!eviction.preemption_reason.empty()) {
    draft->Set("Preempted", true, eviction.preemption_reason, eviction.message, eviction.at);
  }
}

// The eviction was shown, and a later reservation too.
bool ShowsEndedEviction(const Eviction& eviction, const Draft& draft, const WorkloadStatus& status) {
  const k8s::Condition* evicted = draft.Find("Evicted");
  return status.evictions == eviction.totals && evicted != nullptr && evicted->status == "False" &&
         evicted->message == Previously(eviction.message);
}

// Active again. The reference leaves the condition there, and so deactivates the Workload at once again.
void EndDeactivation(Draft* draft) {
  if (TellsTimeOver(draft->status())) draft->status().past_execution_seconds = 0;
  draft->Remove(kDeactivationTarget);
}

// A reservation ends what an eviction said.
void EndEviction(const WorkloadFacts& facts, Draft* draft) {
  EndDeactivation(draft);
  EndBlockedOnGates("QuotaReserved", facts.reserved_at, draft);
  for (const std::string_view type : {"Evicted", "Preempted"}) {
    const k8s::Condition* condition = draft->Find(type);
    if (condition == nullptr || condition->status != "True") continue;
    draft->Set(type, false, "QuotaReserved", Previously(condition->message), facts.reserved_at);
  }
}

// Whether the Requeued condition was set after the eviction, not by an earlier one.
bool RequeuedAfter(const k8s::Condition* requeued, const Eviction& eviction) {
  return requeued != nullptr && Seconds(requeued->last_transition) >= Seconds(eviction.at);
}

// The pause after an eviction is over: by its time, or by an admission.
bool PauseIsOver(const WorkloadFacts& facts, WallTime now, Draft* draft) {
  std::optional<RequeueState>& state = draft->status().requeue_state;
  if (!state.has_value() || !state->requeue_at.IsSet()) return true;
  if (facts.state == State::kPending && now < state->requeue_at) return false;
  state->requeue_at = {};
  if (state->count == 0) state.reset();
  return true;
}

void ShowRequeued(const WorkloadFacts& facts, WallTime now, Draft* draft) {
  const bool pause_is_over = PauseIsOver(facts, now, draft);
  if (facts.eviction.has_value() && !RequeuedAfter(draft->Find("Requeued"), *facts.eviction)) {
    const Eviction& eviction = *facts.eviction;
    const bool at_once = eviction.reason == "Preempted" || eviction.reason == "NodeFailures";
    draft->Set("Requeued", at_once, eviction.shown_reason(), eviction.message, now);
  }
  const k8s::Condition* requeued = draft->Find("Requeued");
  if (requeued == nullptr || requeued->status == "True") return;
  const std::string reason = requeued->reason;
  if (reason.starts_with(kDeactivated) && facts.active) {
    draft->Set("Requeued", true, "Reactivated", "The workload was reactivated", now);
  } else if ((reason == kPodsReadyTimeout || reason == kAdmissionCheck) && pause_is_over) {
    draft->Set("Requeued", true, "BackoffFinished", "The workload backoff was finished", now);
  } else if (reason == "ClusterQueueStopped" && !facts.cluster_queue_stopped) {
    draft->Set("Requeued", true, "ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped", now);
  } else if (reason == "LocalQueueStopped" && !facts.local_queue_stopped) {
    draft->Set("Requeued", true, "LocalQueueRestarted", "The LocalQueue was restarted after being stopped", now);
  }
}

// `reserved`: the condition until now; may be null. After a gate its end is told of until something else is in the way.
std::string PendingMessage(const engine::Reason& reason, const k8s::Condition* reserved) {
  const bool was_gated =
      reserved != nullptr && ((reserved->reason == engine::Name(engine::ReasonCode::kAdmissionGated) &&
                               reserved->message != kPreemptionGatedMessage) ||
                              reserved->message == kGateCleared);
  return was_gated && reason.code == engine::ReasonCode::kPendingEvaluation ? std::string(kGateCleared)
                                                                            : ReasonMessage(reason);
}

void ShowPending(const WorkloadFacts& facts, WallTime now, Draft* draft) {
  WorkloadStatus& status = draft->status();
  if (facts.eviction.has_value()) ShowEvicted(*facts.eviction, now, draft);
  // Deactivated while it waited: an eviction too, though nothing had to be stopped.
  if (!facts.active && !draft->IsTrue("Evicted")) {
    SetBackOthers(now, &status);
    status.evictions = CountEviction(std::move(status.evictions), std::string(kDeactivated), "");
    draft->Set("Evicted", true, kDeactivated, kDeactivatedMessage, now);
  }
  if (facts.active) EndDeactivation(draft);
  const k8s::Condition* evicted = draft->Find("Evicted");
  const std::string evicted_message = evicted == nullptr ? std::string() : evicted->message;
  const k8s::Condition* reserved = draft->Find("QuotaReserved");
  const bool had_quota = reserved != nullptr && reserved->status == "True";
  status.admission.reset();
  if (!facts.active) {
    status.requeue_state.reset();
    EndBlockedOnGates(kDeactivated, now, draft);
    draft->Set("QuotaReserved", false, kDeactivated, kDeactivatedMessage, now);
  } else if (facts.reason.has_value()) {
    draft->Set("QuotaReserved", false, engine::Name(facts.reason->code), PendingMessage(*facts.reason, reserved), now);
    if (IsPreemptionGated(*facts.reason)) {
      draft->Set(kBlockedOnGates, true, "PreemptionGated", kPreemptionGatedMessage, now);
    } else {
      EndBlockedOnGates(engine::Name(facts.reason->code), now, draft);
    }
    if (WasEvaluated(*facts.reason)) status.resource_requests = facts.requests;
  } else if (had_quota || facts.eviction.has_value()) {
    if (reserved == nullptr || had_quota) {
      draft->Set("QuotaReserved", false, engine::Name(engine::ReasonCode::kPendingEvaluation), evicted_message, now);
    }
  }
  ShowWaiting(facts.active ? facts.waits_for : std::nullopt, now, draft);
  if (draft->Find("QuotaReserved") != nullptr) draft->Set("Admitted", false, "NoReservation", kNoReservation, now);
  ShowRequeued(facts, now, draft);
}

// Of what waits it is said beside something else only: it is no news that would be worth a write.
void ShowPodsReady(const WorkloadFacts& facts, WallTime now, Draft* draft) {
  if (!facts.pods_ready.has_value()) return;
  const std::vector<k8s::Condition>& told = draft->status().conditions;
  const bool alone = std::all_of(told.begin(), told.end(), [](const auto& c) { return c.type == kWaitingCondition; });
  if (facts.state == State::kPending && alone) return;
  const PodsReady& state = *facts.pods_ready;
  draft->Set(kPodsReadyCondition, state.ready(), state.reason(), state.message(),
             facts.state == State::kPending || !state.since.IsSet() ? now : state.since);
}

bool FromWorkloadClass(const Priority& priority) {
  return priority.ref.has_value() && priority.ref->kind == kWorkloadPriorityClass;
}

}  // namespace

WorkloadStatus ProjectStatus(const WorkloadStatus& known, int64_t generation, const WorkloadFacts& facts,
                             WallTime now) {
  Draft draft(known, generation);
  // What is finished stays as it was at its end.
  if (draft.IsTrue("Finished") && facts.state != State::kFinished) return known;
  if (facts.past_execution_seconds.has_value()) draft.status().past_execution_seconds = *facts.past_execution_seconds;
  if (facts.reclaimable_pods.has_value() && facts.state != State::kFinished) {
    draft.status().reclaimable_pods = *facts.reclaimable_pods;
  }
  if (facts.state != State::kPending) {
    const bool waits = facts.state == State::kReserved || facts.state == State::kAdmitted;
    ShowWaiting(waits ? facts.waits_for : std::nullopt, now, &draft);
  }
  if (facts.checks.has_value() && facts.state != State::kFinished) {
    draft.status().checks = InStep(draft.status().checks, *facts.checks, now);
  }
  switch (facts.state) {
    case State::kPending:
      ShowPending(facts, now, &draft);
      break;
    case State::kReserved:
    case State::kAdmitted:
    case State::kFinished:
      if (facts.eviction.has_value() && !ShowsEndedEviction(*facts.eviction, draft, known)) {
        ShowEvicted(*facts.eviction, now, &draft);
      }
      if (facts.admission.has_value()) {
        EndEviction(facts, &draft);
        ShowRequeued(facts, now, &draft);
        ShowReservation(facts, &draft);
      }
      break;
    case State::kEvicting:
      if (facts.admission.has_value()) ShowReservation(facts, &draft);
      if (facts.eviction.has_value()) ShowEvicted(*facts.eviction, now, &draft);
      break;
  }
  ShowPodsReady(facts, now, &draft);
  if (facts.state == State::kFinished) {
    draft.Set("Finished", true, facts.finished_reason, facts.finished_message, now);
  }
  return std::move(draft.status());
}

Eviction TimeOverEviction() {
  Eviction out;
  out.reason = kDeactivated;
  out.underlying_cause = kMaxExecTimeExceeded;
  out.message = Cat(kDeactivatedMessage, kDueTo, "exceeding the maximum execution time");
  return out;
}

std::string TimeOverNote(int64_t limit_seconds) {
  return Cat("The maximum execution time (", limit_seconds, "s) exceeded");
}

void TellChecks(const engine::Admission& admission, const WorkloadStatus& known, WorkloadFacts* facts) {
  // Without its ClusterQueue nobody knows what it waits for.
  const bool ready = facts->checks.has_value() && Judge(known.checks, *facts->checks) == CheckVerdict::kReady;
  if (ready || k8s::IsTrue(known.conditions, "Admitted")) return;
  facts->state = State::kReserved;
  if (facts->checks.has_value()) {
    facts->waits_for = WaitsForChecks(known.checks, *facts->checks, admission.cluster_queue);
  }
}

std::string RejectionMessage(std::string_view deactivation) {
  const size_t why = deactivation.find(kDueTo);
  return Cat("Deactivated", why == std::string_view::npos ? std::string_view() : deactivation.substr(why));
}

std::string DeactivationMessage(std::string_view why) { return Cat(kDeactivatedMessage, kDueTo, why); }

bool TellsTimeOver(const WorkloadStatus& status) {
  const k8s::Condition* target = k8s::FindCondition(status.conditions, kDeactivationTarget);
  return target != nullptr && target->status == "True" && target->reason == kMaxExecTimeExceeded;
}

bool TimeWasReset(const Workload& workload) {
  // While the quota is held the eviction is on its way: nobody has looked at it yet.
  return workload.active && TellsTimeOver(workload.status) && !k8s::IsTrue(workload.status.conditions, "QuotaReserved");
}

bool TellsOfEviction(const WorkloadStatus& status, const Eviction& eviction) {
  return (status.evictions == eviction.totals || IsOlderThanShown(eviction, status)) &&
         k8s::FindCondition(status.conditions, "Evicted") != nullptr;
}

bool WorthShowing(const engine::Reason& reason, const WorkloadStatus& known) {
  if (reason.code != engine::ReasonCode::kPendingEvaluation) return true;
  // The eviction that it backs off from says so.
  if (!reason.obstacles.empty() && reason.obstacles.front().kind == engine::ObstacleKind::kBackingOff) return false;
  for (const engine::Obstacle& o : reason.obstacles) {
    if (o.kind != engine::ObstacleKind::kBehindStrictHead && o.kind != engine::ObstacleKind::kLostToAnother) {
      return true;
    }
  }
  return k8s::FindCondition(known.conditions, "QuotaReserved") != nullptr;
}

bool ShowsEviction(const WorkloadStatus& status, const Eviction& eviction) {
  const k8s::Condition* reserved = k8s::FindCondition(status.conditions, "QuotaReserved");
  return TellsOfEviction(status, eviction) && reserved != nullptr && reserved->status == "False";
}

WallTime QueueTime(WallTime created, const WorkloadStatus& status) {
  const k8s::Condition* evicted = k8s::FindCondition(status.conditions, "Evicted");
  const bool by_check = evicted != nullptr && evicted->status == "True" && evicted->reason == kAdmissionCheck;
  return by_check ? evicted->last_transition : created;
}

bool IsOlderThanShown(const Eviction& eviction, const WorkloadStatus& status) {
  const auto sum = [](const std::vector<EvictionCount>& totals) {
    int64_t all = 0;
    for (const EvictionCount& entry : totals) all += entry.count;
    return all;
  };
  return sum(eviction.totals) < sum(status.evictions);
}

TimedOutFlavors ShownTimedOut(const WorkloadStatus& status) {
  const k8s::Condition* told = k8s::FindCondition(status.conditions, kFlavorsTimedOutCondition);
  const bool counts = status.requeue_state.has_value() && status.requeue_state->count > 0;
  return told == nullptr || !counts ? TimedOutFlavors() : ReadTimedOutMessage(told->message);
}

std::optional<Eviction> ShownEviction(const WorkloadStatus& status) {
  const k8s::Condition* evicted = k8s::FindCondition(status.conditions, "Evicted");
  if (evicted == nullptr || evicted->status != "True") return std::nullopt;
  Eviction out;
  out.reason = evicted->reason;
  out.message = evicted->message;
  out.at = evicted->last_transition;
  out.past_execution_seconds = status.past_execution_seconds;
  out.totals = status.evictions;
  if (status.requeue_state.has_value()) {
    out.requeue_count = status.requeue_state->count;
    out.requeue_at = status.requeue_state->requeue_at;
  }
  out.timed_out = ShownTimedOut(status);
  if (const k8s::Condition* preempted = k8s::FindCondition(status.conditions, "Preempted");
      preempted != nullptr && preempted->status == "True") {
    out.preemption_reason = preempted->reason;
    out.preemptor_uid = PreemptorIn(out.message);
  }
  return out;
}

std::vector<EvictionCount> CountEviction(std::vector<EvictionCount> totals, const std::string& reason,
                                         const std::string& underlying_cause) {
  for (EvictionCount& entry : totals) {
    if (entry.reason == reason && entry.underlying_cause == underlying_cause) {
      ++entry.count;
      return totals;
    }
  }
  totals.push_back({reason, underlying_cause, 1});
  return totals;
}

Priority EffectivePriority(const Priority& of_job, const Workload* known, std::optional<int32_t> set_over) {
  if (known == nullptr) return of_job;
  Priority shown{known->spec.priority, known->spec.priority_class};
  if (of_job.ref == shown.ref) {
    const auto note = known->meta.annotations.find(kPriorityEditAnnotation);
    const bool overruled = set_over == of_job.value ||
                           (note != known->meta.annotations.end() && note->second == std::to_string(of_job.value));
    return FromWorkloadClass(of_job) && !overruled ? of_job : shown;
  }
  const bool reserved = k8s::IsTrue(known->status.conditions, "QuotaReserved");
  return reserved && !(FromWorkloadClass(of_job) && FromWorkloadClass(shown)) ? shown : of_job;
}

bool IsPriorityEdit(const Priority& of_job, const Workload* before, const Workload& now) {
  return before != nullptr && FromWorkloadClass(of_job) && before->meta.uid == now.meta.uid &&
         before->spec.priority_class == of_job.ref && now.spec.priority_class == of_job.ref &&
         before->spec.priority == of_job.value && now.spec.priority != of_job.value;
}

WorkloadSpec ProjectSpec(const Job& job, const Priority& priority, std::optional<int32_t> min_count,
                         std::optional<int64_t> max_execution_seconds) {
  const JobShape shape = OriginalShape(job);
  WorkloadSpec out;
  out.queue_name = job.queue_name();
  out.priority = priority.value;
  out.priority_class = priority.ref;
  out.max_execution_seconds = max_execution_seconds;
  WorkloadPodSet pod_set;
  pod_set.name = kJobPodSet;
  pod_set.count = shape.pod_count();
  pod_set.min_count = min_count;
  pod_set.containers_hash = job.containers_hash;
  pod_set.tolerations = shape.view.tolerations;
  pod_set.topology = TopologyRequestOf(job).value_or(gang::TopologyRequest());
  out.pod_sets.push_back(std::move(pod_set));
  return out;
}

std::vector<PodSetText> ProjectTexts(const Job& job) {
  const TemplateView view = OriginalShape(job).view;
  PodSetText text;
  text.labels = view.labels;
  for (const std::string_view key : kControllerLabels) {
    if (const auto it = text.labels.find(key); it != text.labels.end()) text.labels.erase(it);
  }
  text.annotations = view.annotations;
  text.node_selector = view.node_selector;
  text.scheduling_gates = view.scheduling_gates;
  text.spec_rest = *job.spec_rest;
  return {std::move(text)};
}

bool NeedsSpecPatch(const WorkloadSpec& known, const WorkloadSpec& wanted, bool shows_quota) {
  if (known.priority != wanted.priority || known.priority_class != wanted.priority_class) return true;
  // The rest may not change while quota is reserved.
  if (shows_quota) return false;
  return known != wanted;
}

Labels ProjectLabels(const Job& job, const std::vector<std::string>& keys_to_copy, std::string_view holder) {
  Labels out;
  for (const std::string& key : keys_to_copy) {
    if (const auto it = job.meta.labels.find(key); it != job.meta.labels.end()) out.insert(*it);
  }
  if (IsLabelValue(job.meta.uid)) out.insert_or_assign(std::string(kJobUidLabel), job.meta.uid);
  out.insert_or_assign(std::string(kRecordHolderLabel), std::string(holder));
  return out;
}

Labels ProjectAnnotations(const Job& job, engine::ClaimId claim) {
  Labels out;
  for (const auto& [key, value] : job.meta.annotations) {
    if (std::string_view(key).starts_with(kProvisioningRequestPrefix) || key == kAdmissionGatedByAnnotation ||
        key == kElasticJobAnnotation) {
      out.emplace(key, value);
    }
  }
  if (claim.IsSet()) out.insert_or_assign(std::string(kClaimAnnotation), claim.ToString());
  return out;
}

}  // namespace muster::controller
