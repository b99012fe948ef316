// What the Workload of a Job says, and the events about both.
#include <spdlog/spdlog.h>

#include <utility>

#include "job_controller.h"
#include "log.h"
#include "muster/controller/names.h"
#include "muster/controller/reason_text.h"
#include "muster/k8s_client/resources.h"
#include "text.h"

namespace muster::controller {
namespace {

using engine::ClaimState;
using Urgency = WorkloadWriter::Urgency;

// The garbage collector deletes a Workload soon after its Job.
constexpr Duration kOrphanGrace = std::chrono::seconds(3);

bool ShowsReason(const Workload* workload, const engine::Reason& reason) {
  if (workload == nullptr) return false;
  const k8s::Condition* shown = k8s::FindCondition(workload->status.conditions, "QuotaReserved");
  return shown != nullptr && shown->status == "False" && shown->reason == engine::Name(reason.code);
}

}  // namespace

void JobController::TouchWorkload(const Entry& entry, Urgency urgency) {
  workloads_.Touch(entry.job->meta.uid, urgency);
}

void JobController::HandleHold(const engine::Hold& hold) {
  Entry* entry = Find(hold.uid);
  if (entry == nullptr) return;
  engine::Reason reason = hold.reason;
  HideForeign(entry->job->meta.ns, &reason);
  if (hold.growth) {
    entry->growth_reason = std::move(reason);
    TouchWorkload(*entry, Urgency::kLeisure);
    return;
  }
  if (!told_reasons_.IsAnother(entry->reason, reason)) return;
  // What a former process has told is not told again.
  const bool told = !entry->reason.has_value() && ShowsReason(workloads_.Known(hold.uid).get(), reason);
  entry->reason = std::move(reason);
  TouchWorkload(*entry, Urgency::kLeisure);
  if (told) return;
  if (const std::optional<HoldEvent> event = EventOf(hold.reason); event.has_value()) {
    QueueWorkloadEvent(entry, {event->reporter, event->type, event->reason, "Hold", ReasonMessage(hold.reason)});
  }
}

bool JobController::RenewNumbers(const std::string& uid) {
  Entry* entry = Find(uid);
  if (!leading() || !ToldReasons::TakeNumbers(engine_->ViewWorkload(uid), entry->job->meta.ns, &entry->reason)) {
    return false;
  }
  TouchWorkload(*entry, Urgency::kLeisure);
  return true;
}

// The Workload holds the places; what the Job's record is completed with is the same.
void JobController::HandleReplace(const engine::Replace& replace) {
  Entry* entry = Find(replace.uid);
  if (entry == nullptr || !entry->claim.has_value() || entry->claim->record.claim != replace.claim) return;
  entry->claim->record.admission = replace.admission;
  if (const Record* record = entry->job->record.get(); record != nullptr && record->claim == replace.claim) {
    auto completed = std::make_shared<Record>(*record);
    completed->admission = replace.admission;
    auto job = std::make_shared<Job>(*entry->job);
    job->record = std::move(completed);
    entry->job = std::move(job);
  }
  spdlog::info("pods of a job get other places, since their node has failed{}",
               JobFields(*entry->job, {{"node", replace.hostname}}));
  TouchWorkload(*entry, Urgency::kNow);
}

Priority JobController::PriorityOf(const Entry& entry) const {
  return EffectivePriority(entry.prepared->priority, workloads_.Known(entry.job->meta.uid).get(),
                           entry.priority_set_over);
}

// REQUIRES: the writer knows `now`.
void JobController::NotePriorityEdit(Entry* entry, const Workload* before, const Workload& now) {
  if (entry->prepared == nullptr || workloads_.Wrote(entry->job->meta.uid, now.spec.priority)) return;
  const Priority& of_job = entry->prepared->priority;
  if (IsPriorityEdit(of_job, before, now)) entry->priority_set_over = of_job.value;
}

// What the Workload has to tell the next process of that, if anything.
std::string JobController::PriorityNote(const Entry& entry) const {
  const auto known = workloads_.Known(entry.job->meta.uid);
  const int32_t of_class = entry.prepared->priority.value;
  return known != nullptr && PriorityOf(entry).value != of_class && known->spec.priority != of_class &&
                 entry.prepared->priority.ref == known->spec.priority_class &&
                 entry.prepared->priority.ref.has_value() &&
                 entry.prepared->priority.ref->kind == kWorkloadPriorityClass
             ? std::to_string(of_class)
             : std::string();
}

// A class that is deleted takes nothing from those that came with it.
void JobController::KeepPriority(const Entry& entry, Prepared* prepared) const {
  const auto known = workloads_.Known(entry.job->meta.uid);
  if (known == nullptr || !known->spec.priority_class.has_value()) return;
  const PriorityClassRef& had = *known->spec.priority_class;
  if (had.kind != kWorkloadPriorityClass || had.name != entry.job->Label(kPriorityClassLabel)) return;
  prepared->priority = {known->spec.priority, had};
  prepared->workload.priority_class = had.name;
  prepared->problem = absl::OkStatus();
}

// What of the gang has to have quota: pods that have ended and are not made again give theirs back.
int32_t JobController::NeededPods(const Entry& entry) const {
  const Job& job = *entry.job;
  if (!entry.claim.has_value()) {
    const JobShape original = OriginalShape(job);
    return original.pod_count() - ReclaimablePods(job, original);
  }
  const Record& record = entry.claim->record;
  if (record.admission.pod_sets.empty()) return 0;
  const JobShape now = CurrentShape(job);
  if (Resizes(entry)) {
    // What it was scaled down by is free once the record says so: until then it may be scaled up again, and its pods
    // run on what is recorded.
    return now.pod_count() < record.admission.pod_sets.front().count ? PodsAllowed(entry) : PodsLeft(job, now);
  }
  const int32_t admitted = record.admission.pod_sets.front().count;
  const int32_t active = job.status.active;
  // Counts of a Job that was edited say nothing of what was admitted.
  const int32_t left = now.pod_count() < record.pod_count() ? admitted : PodsLeft(job, now);
  const int32_t needed = std::min(admitted, std::max(left, active));
  if (entry.claim->state == ClaimState::kLeaving) {
    // The stop has set the counts back, and no pods are made.
    const bool told = entry.told.has_value() && entry.told->holds;
    return told ? std::min(needed, std::max(entry.told->pods, active)) : needed;
  }
  return RunsAsAdmitted(job, record, false) ? needed : admitted;
}

// REQUIRES: the engine was told of the Job.
void JobController::SayIfGateCleared(Entry* entry, const Job& told_of) {
  if (entry->claim.has_value() || told_of.Annotation(kAdmissionGatedByAnnotation).empty() ||
      !entry->job->Annotation(kAdmissionGatedByAnnotation).empty()) {
    return;
  }
  entry->reason = engine::Reason{};
  QueueWorkloadEvent(
      entry, {kWorkloadReporter, "Normal", std::string(kGateClearedEvent), "Queue", std::string(kGateClearedNote)});
}

// What was free for others is taken again: better to show that the quota is exceeded than to admit more on it.
void JobController::SayPodsRunAgain(const Entry& entry, int32_t more) {
  const Job& job = *entry.job;
  if (!RunsAsAdmitted(job, entry.claim->record, false)) return;
  const std::string& queue = entry.claim->record.admission.cluster_queue;
  spdlog::warn("pods of a job run again whose quota was given back{}",
               JobFields(job, {{"clusterQueue", queue}, {"pods", std::to_string(more)}}));
  JobEvent(job, "Warning", "ReclaimedPodsRunAgain", "Reclaim",
           Cat(more,
               " more pods run than were left: their quota is taken back, even where that exceeds the quota of "
               "ClusterQueue ",
               queue));
}

WorkloadFacts JobController::Facts(const Entry& entry) const {
  using State = WorkloadFacts::State;
  const Job& job = *entry.job;
  const auto known = workloads_.Known(job.meta.uid);
  WorkloadFacts facts;
  facts.active = IsActive(entry);
  facts.past_execution_seconds = CountedSeconds(entry);
  // What runs at once by the admission and is not needed any more: the Job's counts may be larger than that. The
  // reference sets parallelism to what is admitted where less may be, and counts from there.
  int32_t done = 0;
  if (!entry.claim.has_value()) {
    done = ReclaimablePods(job, OriginalShape(job));
  } else if (const Record& record = entry.claim->record; !record.admission.pod_sets.empty()) {
    const bool whole = job.Annotation(kMinParallelismAnnotation).empty();
    // What it was scaled down by is not done, but gone.
    const int32_t gone = Resizes(entry) ? std::max(0, record.pod_count() - CurrentShape(job).pod_count()) : 0;
    done = (whole ? record.pod_count() : record.admission.pod_sets.front().count) - NeededPods(entry) - gone;
  }
  facts.reclaimable_pods.emplace();
  if (done > 0) facts.reclaimable_pods->emplace(kJobPodSet, done);
  if (deps_.options->wait_for_pods_ready.has_value()) {
    facts.pods_ready = entry.claim.has_value() ? entry.claim->pods_ready : PodsReady{};
  }
  const std::string queue(job.queue_name());
  facts.local_queue_stopped = deps_.catalog->LocalQueueStopped(job.meta.ns, queue);
  facts.cluster_queue_stopped = deps_.catalog->ClusterQueueStopped(job.meta.ns, queue);
  facts.checks = ChecksOf(entry);
  if (const k8s::Condition* outcome = job.Outcome(); outcome != nullptr) {
    facts.state = State::kFinished;
    if (facts.pods_ready.has_value()) facts.pods_ready = entry.end.has_value() ? entry.end->pods_ready : std::nullopt;
    facts.finished_reason = job.Succeeded() ? "Succeeded" : "Failed";
    facts.finished_message = outcome->message;
    if (entry.end.has_value()) {
      facts.admission = entry.end->admission;
      facts.reserved_at = entry.end->reserved_at;
      facts.eviction = entry.end->eviction;
    }
  } else if (entry.failed) {
    facts.state = State::kFinished;
    facts.pods_ready.reset();
    facts.finished_reason = entry.failure_reason;
    facts.finished_message = entry.failure;
  } else if (entry.claim.has_value() && (entry.claim->state != ClaimState::kPlanned || entry.claim->reserved)) {
    AddHeld(*entry.claim, known.get(), &facts);
    if (facts.state == State::kAdmitted) facts.waits_for = WhyNotMore(entry);
  } else {
    AddWaiting(entry, known.get(), &facts);
  }
  return facts;
}

void JobController::AddHeld(const Claim& claim, const Workload* known, WorkloadFacts* facts) const {
  using State = WorkloadFacts::State;
  if (claim.reserved && claim.state == ClaimState::kLeaving) {
    // It is the Workload that gives the quota back.
    facts->eviction = claim.eviction;
    facts->reason = claim.withdrawn;
    return;
  }
  facts->state = claim.state == ClaimState::kLeaving ? State::kEvicting : State::kAdmitted;
  facts->admission = claim.record.admission;
  facts->reserved_at = claim.record.reserved_at;
  facts->admitted_at = claim.record.admitted_at;
  facts->eviction = claim.record.eviction;
  if (claim.reserved && !claim.admitted && known != nullptr) {
    facts->admitted_at = deps_.env.clock->Now();
    TellChecks(claim.record.admission, known->status, facts);
  }
}

void JobController::AddWaiting(const Entry& entry, const Workload* known, WorkloadFacts* facts) const {
  const Job& job = *entry.job;
  if (job.record != nullptr) facts->eviction = job.record->eviction;
  if (facts->eviction.has_value() && known != nullptr && IsOlderThanShown(*facts->eviction, known->status)) {
    facts->eviction.reset();
  }
  if (entry.reason.has_value() && WorthShowing(*entry.reason, known == nullptr ? WorkloadStatus() : known->status)) {
    facts->reason = entry.reason;
  }
  // Kueue would leave the condition there for ever.
  const bool told = entry.reason.has_value() && !entry.reason->obstacles.empty() && !deps_.options->release;
  if (told) facts->waits_for = entry.reason;
  if (entry.prepared != nullptr) facts->requests = entry.prepared->requests;
}

bool JobController::TellsWhilePlanned(const Entry& entry) const {
  const Claim& claim = *entry.claim;
  return claim.on_workload && entry.reservation == nullptr && !(claim.reserved && claim.admitted);
}

std::optional<WantedWorkload> JobController::Want(const std::string& job_uid) {
  if (const auto it = departed_.find(job_uid); it != departed_.end()) return it->second;
  Entry* entry = Find(job_uid);
  if (entry == nullptr || !leading() || entry->prepared == nullptr) return std::nullopt;
  // While the start is on its way there is nothing to tell, but of checks.
  const bool planned = entry->claim.has_value() && entry->claim->state == ClaimState::kPlanned;
  if (planned && !TellsWhilePlanned(*entry)) return std::nullopt;
  if (!entry->problem.empty() && !entry->claim.has_value() && !entry->failed) return std::nullopt;
  const Job& job = *entry->job;
  WantedWorkload wanted;
  wanted.key = {job.meta.ns, entry->workload};
  if (const auto known = workloads_.Known(job_uid); known != nullptr) wanted.key = known->meta.key();
  // What has ended gets no Workload any more, unless it ran under an admission that has not been shown yet.
  const bool ended = job.Outcome() != nullptr;
  wanted.create = !job.deleting() && !(entry->failed && entry->workload_seen) &&
                  !(ended && (entry->adopted_finished || entry->workload_seen || !entry->end.has_value()));
  // One that has left its queue has no need of another.
  if (!entry->claim.has_value() && !entry->end.has_value() && !IsQueued(job)) wanted.create = false;
  if (job.prebuilt().empty()) {
    wanted.spec =
        ProjectSpec(job, PriorityOf(*entry), entry->prepared->min_count, entry->prepared->max_execution_seconds);
  } else if (const auto known = workloads_.Known(job_uid); known != nullptr && known->meta.name == entry->workload) {
    wanted.create = false;
    wanted.remove_others = false;
    wanted.spec = known->spec;
    wanted.spec.queue_name = entry->prepared->workload.local_queue;
    wanted.spec.priority = PriorityOf(*entry).value;
    wanted.spec.priority_class = entry->prepared->priority.ref;
  } else {
    return std::nullopt;
  }
  if (entry->claim.has_value() && (!planned || entry->claim->reserved)) {
    wanted.spec.queue_name = entry->claim->record.local_queue;
    wanted.claim = entry->claim->record.claim;
  }
  if (Resizes(*entry)) {
    wanted.resizes = true;
    wanted.spec.pod_sets.front().count = entry->claim->record.pod_count();
  }
  wanted.facts = Facts(*entry);
  wanted.deactivate = OwesDeactivation(*entry);
  if (job.prebuilt().empty()) wanted.gated_by = job.Annotation(kAdmissionGatedByAnnotation);
  wanted.priority_note = PriorityNote(*entry);
  wanted.body = [this, job_uid]() -> std::optional<WorkloadBody> {
    Entry* found = Find(job_uid);
    return found == nullptr ? std::nullopt : Body(found);
  };
  return wanted;
}

std::optional<WorkloadBody> JobController::Body(Entry* entry) {
  Job job = *entry->job;
  job.spec_rest = entry->spec_rest;
  if (job.spec_rest == nullptr) {
    ReadTemplate(entry);
    return std::nullopt;
  }
  WorkloadBody body;
  body.ns = job.meta.ns;
  body.name = entry->workload;
  const bool on_workload = entry->claim.has_value() && entry->claim->on_workload;
  body.labels = ProjectLabels(job, deps_.options->label_keys_to_copy, on_workload ? kHeldByWorkload : kHeldByJob);
  body.annotations = ProjectAnnotations(job, entry->claim.has_value() ? entry->claim->record.claim : engine::ClaimId{});
  body.owner = {"batch/v1", "Job", job.meta.name, job.meta.uid};
  body.spec = ProjectSpec(job, PriorityOf(*entry), entry->prepared->min_count, entry->prepared->max_execution_seconds);
  if (entry->claim.has_value()) body.spec.queue_name = entry->claim->record.local_queue;
  if (Resizes(*entry)) body.spec.pod_sets.front().count = entry->claim->record.pod_count();
  AddSliceAnnotations(*entry, &body.annotations);
  body.texts = ProjectTexts(job);
  if (entry->workload_seen) entry->spec_rest = nullptr;  // for a change of pod sets, which is rare
  body.active = !OwesDeactivation(*entry);
  return body;
}

// Kept is only the template of a Job that was seen suspended, while its Workload was about to be created.
void JobController::ReadTemplate(Entry* entry) {
  if (std::exchange(entry->reading_template, true)) return;
  const std::string uid = entry->job->meta.uid;
  deps_.client->Get(k8s::kJobs, entry->job->meta.key(),
                    [this, alive = std::weak_ptr<bool>(alive_), uid](k8s::Result result) {
                      if (alive.expired()) return;
                      Entry* found = Find(uid);
                      if (found == nullptr) return;
                      found->reading_template = false;
                      if (result.ok()) {
                        auto job = DecodeJob(result.body, deps_.texts, true);
                        if (job.ok() && job->meta.uid == uid) found->spec_rest = job->spec_rest;
                      }
                      TouchWorkload(*found, result.ok() ? Urgency::kNow : Urgency::kLeisure);
                    });
}

bool JobController::IsOf(const k8s::ObjectMeta& workload, const std::string& job_uid) const {
  const std::optional<JobRef> job = JobOf(workload);
  return job.has_value() && (job->uid == job_uid || workload.uid == job_uid);
}

bool JobController::IsExpected(const k8s::ObjectMeta& workload, const std::string& job_uid) const {
  const auto it = entries_.find(job_uid);
  // Of a Job that is gone, or was not seen yet, whichever there is.
  return it == entries_.end() || workload.name == it->second.workload;
}

void JobController::WorkloadKnown(const std::string& job_uid) {
  Entry* entry = Find(job_uid);
  if (entry == nullptr) return;
  entry->workload_seen = true;
  entry->spec_rest = nullptr;
  FinishReplaced(entry);
  if (leading()) SendWorkloadEvents(entry);
}

void JobController::WorkloadCreated(const std::string& job_uid) {
  const Entry* entry = Find(job_uid);
  if (entry == nullptr) return;
  const Job& job = *entry->job;
  JobEvent(job, "Normal", "CreatedWorkload", "Create", Cat("Created Workload: ", job.meta.ns, "/", entry->workload));
  deps_.telemetry->WorkloadCreated("Job", deps_.env.clock->Now() - job.meta.creation);
}

void JobController::WorkloadUpdated(const std::string& job_uid, bool priority_only) {
  const Entry* entry = Find(job_uid);
  const auto known = workloads_.Known(job_uid);
  if (entry == nullptr || known == nullptr) return;
  JobEvent(
      *entry->job, "Normal", "UpdatedWorkload", "Update",
      Cat(priority_only ? "Updated workload priority class: " : "Updated not matching Workload for suspended job: ",
          known->meta.key().ToString()));
}

void JobController::WorkloadRemoved(const std::string& job_uid, const k8s::ObjectKey& key) {
  const Entry* entry = Find(job_uid);
  if (entry == nullptr) return;
  spdlog::warn("a workload that was not the job's own is deleted{}",
               JobFields(*entry->job, {{"workload", key.ToString()}}));
  JobEvent(*entry->job, "Normal", "DeletedWorkload", "Delete", Cat("Deleted not matching Workload: ", key.ToString()));
}

void JobController::WorkloadRefused(const std::string& job_uid, const std::string& message) {
  Entry* entry = Find(job_uid);
  if (entry == nullptr) return;
  if (deps_.options->release) refusals_[job_uid] = message;
  spdlog::warn("the workload of a job was refused{}", JobFields(*entry->job, {{"error", message}}));
  JobEvent(*entry->job, "Warning", "WorkloadRefused", "Create", message);
  const bool waits_for_it = entry->claim.has_value() && entry->claim->state == ClaimState::kPlanned &&
                            entry->claim->on_workload && !entry->claim->reserved && entry->reservation == nullptr;
  if (waits_for_it && !entry->busy) RefuseStart(entry, Duration(0), message);
}

// ---- events -------------------------------------------------------------------------------------

void JobController::JobEvent(const Job& job, std::string_view type, std::string_view reason, std::string_view action,
                             std::string message) {
  deps_.events->Record({"batch/v1", "Job", job.meta.ns, job.meta.name, job.meta.uid}, kJobReporter, type, reason,
                       action, std::move(message));
}

void JobController::QueueWorkloadEvent(Entry* entry, WorkloadEvent event) {
  constexpr size_t kMax = 16;
  if (entry->workload_events.size() < kMax) entry->workload_events.push_back(std::move(event));
  SendWorkloadEvents(entry);
}

void JobController::SendWorkloadEvents(Entry* entry) {
  const auto known = workloads_.Known(entry->job->meta.uid);
  if (known == nullptr) return;
  for (WorkloadEvent& event : entry->workload_events) {
    deps_.events->Record({"kueue.x-k8s.io/v1beta2", "Workload", known->meta.ns, known->meta.name, known->meta.uid},
                         event.reporter, event.type, event.reason, event.action, std::move(event.message));
  }
  entry->workload_events.clear();
}

std::optional<Party> JobController::FindParty(const std::string& uid) const {
  const auto it = entries_.find(uid);
  return it == entries_.end() ? std::nullopt : std::optional(PartyOf(it->second));
}

Party JobController::PartyOf(const Entry& entry) const {
  const auto known = workloads_.Known(entry.job->meta.uid);
  Party out;
  out.job_uid = entry.job->meta.uid;
  if (known != nullptr) out.workload_uid = known->meta.uid;
  out.workload = Cat(entry.job->meta.ns, "/", entry.workload);
  return out;
}

bool JobController::Tell(const std::string& uid, const WorkloadEvent& event) {
  Entry* entry = Find(uid);
  if (entry != nullptr) QueueWorkloadEvent(entry, event);
  return entry != nullptr;
}

engine::QueueRef JobController::Queue(const Entry& entry) const {
  engine::QueueRef out;
  out.ns = entry.job->meta.ns;
  out.local_queue = entry.job->queue_name();
  out.cluster_queue = entry.claim.has_value() ? entry.claim->record.admission.cluster_queue
                                              : deps_.catalog->ClusterQueueOf(out.ns, out.local_queue);
  if (entry.prepared != nullptr && entry.prepared->priority.ref.has_value()) {
    out.priority_class = entry.prepared->priority.ref->name;
  }
  return out;
}

// ---- the Job is gone ----------------------------------------------------------------------------

// What it came to is known from its last state. Its Workload normally goes with it; one that stays is told how the
// Job ended.
void JobController::Depart(Entry entry) {
  const std::string uid = entry.job->meta.uid;
  const auto known = workloads_.Known(uid);
  if (entry.job->Outcome() != nullptr && !entry.finished && leading() && entry.claim.has_value()) {
    deps_.telemetry->Finished(Queue(entry), AddClamped(SecondsClamped(PastExecutionSeconds(entry)),
                                                       deps_.env.clock->Now() - entry.claim->record.executing_since()));
  }
  if (known == nullptr || known->meta.deletion.IsSet() || k8s::IsTrue(known->status.conditions, "Finished")) {
    workloads_.Forget(uid);
    return;
  }
  WantedWorkload wanted;
  wanted.key = known->meta.key();
  wanted.create = false;
  const Boxed<Claim>& claim = entry.claim;
  if (claim.has_value() && (claim->state != ClaimState::kPlanned || claim->reserved)) {
    entry.end = End{claim->record.admission, claim->record.reserved_at, claim->record.executing_since(),
                    claim->record.eviction, claim->pods_ready};
  }
  wanted.facts = Facts(entry);
  if (entry.job->Outcome() == nullptr) {
    wanted.facts.state = WorkloadFacts::State::kFinished;
    wanted.facts.finished_reason = "OwnerNotFound";
    wanted.facts.finished_message = "The workload's owner no longer exists";
    if (!entry.end.has_value()) wanted.facts.admission.reset();
  }
  departed_.insert_or_assign(uid, std::move(wanted));
  deps_.env.executor->PostAt(deps_.env.clock->Mono() + kOrphanGrace, [this, alive = std::weak_ptr<bool>(alive_), uid] {
    if (!alive.expired() && departed_.contains(uid)) workloads_.Touch(uid, Urgency::kNow);
  });
}

}  // namespace muster::controller
