#include "job_controller.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "log.h"
#include "muster/controller/names.h"
#include "muster/controller/reason_text.h"
#include "muster/controller/topology_request.h"
#include "muster/core/check.h"
#include "muster/k8s_client/resources.h"
#include "text.h"

namespace muster::controller {
namespace {

using engine::ClaimState;
using Urgency = WorkloadWriter::Urgency;

constexpr int kNotFound = 404;
constexpr Duration kAskPause = std::chrono::seconds(1);
constexpr Duration kGonePause = std::chrono::seconds(5);
// A stop must not wait long for its next try.
constexpr Duration kRepeatMax = std::chrono::seconds(15);

QueueIndex::Queue QueueOf(const Job& job) { return {job.meta.ns, std::string(job.queue_name())}; }

bool SameLabels(const Job& a, const Job& b) {
  return &a == &b || (a.meta.labels == b.meta.labels && a.meta.annotations == b.meta.annotations);
}

}  // namespace

JobController::JobController(Deps deps)
    : deps_(std::move(deps)),
      told_reasons_(
          deps_.env, [this](const std::string& uid) { return ToldReasons::NextIn(entries_, uid); },
          [this](const std::string& uid) { return RenewNumbers(uid); }),
      workloads_(deps_.env, deps_.client, this, deps_.workload_returned),
      reservations_(deps_.env, deps_.client, deps_.workload_returned) {}

JobController::~JobController() {
  for (auto& [uid, entry] : entries_) deps_.env.executor->Cancel(entry.timer);
}

// ---- intake -------------------------------------------------------------------------------------

JobController::Entry* JobController::Find(const std::string& uid) {
  const auto it = entries_.find(uid);
  return it == entries_.end() ? nullptr : &it->second;
}

bool JobController::IsQueued(const Job& job) const {
  return IsManaged(job, *deps_.catalog, *deps_.options) && RunByJobController(job);
}

void JobController::Apply(engine::Event event) {
  engine_->Apply(event);
  deps_.decide();
}

void JobController::JobChanged(std::shared_ptr<const Job> job) {
  const std::string uid = job->meta.uid;
  departed_.erase(uid);
  const auto it = entries_.try_emplace(uid).first;
  Entry& entry = it->second;
  const bool is_new = entry.job == nullptr;
  if (is_new || entry.job->queue_name() != job->queue_name()) {
    if (!is_new) by_queue_.Remove(QueueOf(*entry.job), it->first);
    by_queue_.Add(QueueOf(*job), it->first);
  }
  if (is_new) entry.queued_since = job->meta.creation;
  // While this process leads, it is its own writes that change the slice.
  const bool resized = !leading() && job->record != nullptr && job->record->slice != entry.slice;
  const bool renamed = is_new || resized || entry.job->prebuilt() != job->prebuilt();
  if (renamed) ForgetPrebuilt(entry);
  entry.job = std::move(job);
  if (renamed) {
    entry.failed = false;  // of another Workload
    NameWorkload(&entry);
  }
  entry.wait_until = {};  // what failed before may not fail now
  if (SharedText text = std::exchange(arriving_template_, nullptr); text != nullptr) {
    entry.spec_rest = leading() && workloads_.Known(uid) == nullptr ? std::move(text) : nullptr;
  }
  CompleteRecord(&entry);
  Reconcile(&entry);
}

void JobController::TakeTemplate(Job* job) { arriving_template_ = std::exchange(job->spec_rest, nullptr); }

void JobController::JobDeleted(const Job& last) {
  const auto it = entries_.find(last.meta.uid);
  if (it == entries_.end()) return;
  ForgetPrebuilt(it->second);
  by_queue_.Remove(QueueOf(*it->second.job), it->first);
  Entry entry = std::move(it->second);
  entries_.erase(it);
  deps_.env.executor->Cancel(std::exchange(entry.timer, 0));
  entry.job = std::make_shared<const Job>(last);
  if (leading()) CatchUp(&entry);
  if (entry.told.has_value() && leading()) Apply(engine::WorkloadDeleted{last.meta.uid});
  deps_.claim_changed(last.meta.uid);
  refusals_.erase(last.meta.uid);
  Depart(std::move(entry));
}

void JobController::WorkloadChanged(std::shared_ptr<const Workload> workload) {
  const std::optional<JobRef> job = JobOf(workload->meta);
  if (!job.has_value()) return;
  if (IsReplaced(*workload)) return;
  if (const std::string holder = HolderOf(workload->meta, job->uid); holder != job->uid) {
    return workloads_.Observe(holder, workload);
  }
  const std::string& uid = job->uid;
  const bool stuck = workload->meta.deletion.IsSet() && HasKueueFinalizer(*workload);
  const auto before = workloads_.Known(uid);
  if (Entry* of = Find(uid); of != nullptr && !of->slice.has_value()) TakeSliceName(workload->meta, of);
  workloads_.Observe(uid, workload);
  Entry* entry = Find(uid);
  // Others that name the Job say nothing about it.
  if (entry != nullptr && workloads_.Known(uid) == workload) {
    NotePriorityEdit(entry, before.get(), *workload);
    if (TimeWasReset(*workload) && !OwesDeactivation(*entry)) entry->past_execution_seconds = 0;
  }
  if (entry != nullptr || stuck) workloads_.Touch(uid, Urgency::kLeisure);
  if (entry == nullptr) return;
  // Quota that a prebuilt one brings along is counted at once, whatever is under way: it counted as the Workload's own
  // until now.
  const Job& now = *entry->job;
  const bool brings = leading() && !entry->claim.has_value() && now.record == nullptr && !now.prebuilt().empty() &&
                      !entry->finished && now.Outcome() == nullptr && IsManaged(now, *deps_.catalog, *deps_.options);
  if (!brings || !AdoptHeld(entry)) Reconcile(entry);
}

void JobController::WorkloadDeleted(const Workload& last) {
  const std::optional<JobRef> job = JobOf(last.meta);
  if (!job.has_value()) return;
  const std::string& uid = job->uid;
  if (replaced_.erase(last.meta.uid) > 0) {
    departed_.erase(last.meta.uid);
    workloads_.Forget(last.meta.uid);
    return;
  }
  const bool was_another = workloads_.Deleted(uid, last.meta.uid);
  // Of a Job that is gone nothing is left now.
  if (Find(uid) == nullptr && workloads_.Known(uid) == nullptr) {
    departed_.erase(uid);
    workloads_.Forget(uid);
  }
  Entry* entry = Find(uid);
  // One that names another Job's uid is taken away by the garbage collector.
  if (entry == nullptr || was_another || job->name != entry->job->meta.name) return;
  // What was deactivated since its time was over begins anew with another Workload.
  if (TellsTimeOver(last.status)) entry->past_execution_seconds = 0;
  if (!entry->job->prebuilt().empty()) entry->failed = false;
  if (!leading() || entry->finished || entry->job->deleting()) return;
  if (!entry->claim.has_value() || entry->claim->state == ClaimState::kLeaving) {
    TouchWorkload(*entry, Urgency::kLeisure);
    return;
  }
  // It may have gone along with its Job, whose deletion comes by another watch.
  if (entry->busy) {
    entry->workload_deleted = true;
    return;
  }
  AskWhyDeleted(entry);
}

void JobController::WorkloadLeft(const Workload& workload) {
  const auto label = workload.meta.labels.find(kJobUidLabel);
  if (label == workload.meta.labels.end()) return;
  const std::string& uid = label->second;
  const auto known = workloads_.Known(uid);
  const bool was_another = workloads_.Deleted(uid, workload.meta.uid);
  if (was_another || known == nullptr || known->meta.uid != workload.meta.uid) return;
  if (Entry* entry = Find(uid); entry != nullptr) {
    TouchWorkload(*entry, Urgency::kLeisure);
    return;
  }
  departed_.erase(uid);
  workloads_.Forget(uid);
}

void JobController::AskWhyDeleted(Entry* entry) {
  entry->workload_deleted = false;
  Refresh(entry, [this](Entry* e) {
    if (e->job->deleting() || e->job->Outcome() != nullptr || !e->claim.has_value()) return;
    spdlog::info("a job is stopped since its workload was deleted{}", JobFields(*e->job));
    OrderStop(e, NewEviction(*e, "WorkloadDeleted", "Workload is deleted"));
  });
}

void JobController::CatalogChanged(const std::string& ns) {
  if (!leading()) return;
  if (!ns.empty()) {
    for (const std::string& uid : by_queue_.OfNamespace(ns)) Reconcile(Find(uid));
    return;
  }
  for (auto& [uid, entry] : entries_) Reconcile(&entry);
}

void JobController::QueueChanged(const QueueIndex::Queue& queue) {
  if (!leading()) return;
  for (const std::string& uid : by_queue_.Of(queue)) {
    const Entry& entry = *Find(uid);
    if (!entry.finished && !entry.claim.has_value()) TouchWorkload(entry, Urgency::kLeisure);
  }
}

// ---- leading ------------------------------------------------------------------------------------

void JobController::Lead(engine::EngineSet* engine) {
  engine_ = engine;
  workloads_.Open();
  for (auto& [uid, entry] : entries_) {
    entry.adopted_finished = entry.job->Outcome() != nullptr;
    CompleteRecord(&entry);
    CountStopped(&entry);
    if (const auto known = workloads_.Known(uid); known != nullptr) {
      entry.workload_seen = true;
      if (const k8s::Condition* requeued = k8s::FindCondition(known->status.conditions, "Requeued");
          requeued != nullptr) {
        entry.queued_since = requeued->last_transition;
      }
      if (const k8s::Condition* finished = k8s::FindCondition(known->status.conditions, "Finished");
          finished != nullptr && finished->status == "True" && entry.job->Outcome() == nullptr) {
        entry.failed = true;
        entry.failure_reason = finished->reason;
        entry.failure = finished->message;
      }
    }
  }
  CollectTaken();
  // Held claims first: nothing is decided before all of them are known.
  for (auto& [uid, entry] : entries_) Reconcile(&entry);
  std::vector<std::string> stuck;
  workloads_.ForEach([this, &stuck](const std::string& uid, const Workload& workload) {
    // What is finished stays as it was.
    const bool finished = k8s::IsTrue(workload.status.conditions, "Finished");
    if (!finished && Find(uid) == nullptr && !departed_.contains(uid)) orphans_.push_back(uid);
    if (workload.meta.deletion.IsSet() && HasKueueFinalizer(workload)) stuck.push_back(uid);
  });
  AskForOwner();
  for (const std::string& uid : stuck) workloads_.Touch(uid, Urgency::kLeisure);
  for (const auto& [uid, wanted] : departed_) workloads_.Touch(uid, Urgency::kLeisure);
  for (auto& [uid, entry] : entries_) TouchWorkload(entry, Urgency::kLeisure);
}

// A Workload whose Job is not known: the Job is gone, or it exists and cannot be read. One is asked for at a time.
void JobController::AskForOwner() {
  if (orphans_.empty() || !leading()) return;
  const std::string uid = orphans_.front();
  const auto known = workloads_.Known(uid);
  const std::optional<JobRef> job = known == nullptr ? std::nullopt : JobOf(known->meta);
  if (!job.has_value() || known->meta.deletion.IsSet() || Find(uid) != nullptr) {
    orphans_.pop_front();
    return AskForOwner();
  }
  deps_.client->Get(k8s::Lane::kWorkload, k8s::kJobs, {known->meta.ns, job->name},
                    [this, alive = std::weak_ptr<bool>(alive_), uid](k8s::Result result) {
                      if (alive.expired() || !leading()) return;
                      if (!result.ok() && result.code != kNotFound) {
                        const Duration wait = std::max(kGonePause, result.retry_after.value_or(Duration(0)));
                        deps_.env.executor->PostAt(deps_.env.clock->Mono() + wait,
                                                   [this, alive] { alive.expired() ? void() : AskForOwner(); });
                        return;
                      }
                      orphans_.pop_front();
                      const bool exists = result.ok() && k8s::ReadMeta(result.body).uid == uid;
                      if (!exists && Find(uid) == nullptr) DeclareOrphan(uid);
                      AskForOwner();
                    });
}

void JobController::DeclareOrphan(const std::string& uid) {
  const auto known = workloads_.Known(uid);
  if (known == nullptr) return;
  WantedWorkload wanted;
  wanted.key = known->meta.key();
  wanted.create = false;
  wanted.facts.state = WorkloadFacts::State::kFinished;
  wanted.facts.finished_reason = "OwnerNotFound";
  wanted.facts.finished_message = "The workload's owner no longer exists";
  departed_.emplace(uid, std::move(wanted));
  workloads_.Touch(uid, Urgency::kLeisure);
}

uint64_t JobController::HighestTerm() const {
  uint64_t highest = 0;
  // Runs without election count in other numbers, which no term comes near.
  const auto see = [&highest](engine::ClaimId claim) {
    if (claim.epoch <= k8s::kTermMax) highest = std::max(highest, claim.epoch);
  };
  for (const auto& [uid, entry] : entries_) {
    if (entry.job->record != nullptr) see(entry.job->record->claim);
  }
  workloads_.ForEach([&see](const std::string&, const Workload& workload) { see(ClaimOf(workload)); });
  return highest;
}

void JobController::Decided(const engine::Decision& decision) {
  if (const auto* admit = std::get_if<engine::Admit>(&decision)) return HandleAdmit(*admit);
  if (const auto* evict = std::get_if<engine::Evict>(&decision)) return HandleEvict(*evict);
  if (const auto* grow = std::get_if<engine::Grow>(&decision)) return HandleGrow(*grow);
  if (const auto* replace = std::get_if<engine::Replace>(&decision)) return HandleReplace(*replace);
  if (const auto* withdraw = std::get_if<engine::Withdraw>(&decision)) return HandleWithdraw(*withdraw);
  if (const auto* hold = std::get_if<engine::Hold>(&decision)) HandleHold(*hold);
}

void JobController::HandleEvict(const engine::Evict& evict) {
  Entry* entry = Find(evict.uid);
  if (entry == nullptr || !entry->claim.has_value() || entry->claim->record.claim != evict.claim) return;
  Claim& claim = *entry->claim;
  if (claim.eviction.has_value()) return;
  Eviction eviction = deps_.evictions->Describe(evict, claim.record.admission.cluster_queue);
  CompleteEviction(*entry, &eviction);
  OrderStop(entry, std::move(eviction), evict);
}

// ---- the order of things ------------------------------------------------------------------------

bool JobController::WaitsUntil(Entry* entry, MonoTime when) {
  if (deps_.env.clock->Mono() >= when) return false;
  if (entry->timer != 0 && entry->timer_due <= when) return true;
  deps_.env.executor->Cancel(entry->timer);
  entry->timer_due = when;
  const std::string uid = entry->job->meta.uid;
  entry->timer = deps_.env.executor->PostAt(when, [this, uid] {
    Entry* due = Find(uid);
    if (due == nullptr) return;
    due->timer = 0;
    Reconcile(due);
  });
  return true;
}

void JobController::Wake(Entry* entry, Duration delay) {
  deps_.env.executor->Cancel(std::exchange(entry->timer, 0));
  entry->wait_until = deps_.env.clock->Mono() + delay;
  WaitsUntil(entry, entry->wait_until);
}

void JobController::Reconcile(Entry* entry) {
  if (!leading() || entry->busy || entry->reservation != nullptr || WaitsUntil(entry, entry->wait_until)) return;
  const Job& job = *entry->job;
  const bool managed = IsManaged(job, *deps_.catalog, *deps_.options);
  SayRecordProblem(entry);
  if (managed && !RunByJobController(job) && !entry->claim.has_value()) {
    LeaveToOthers(entry);
  } else if (!managed && !entry->claim.has_value()) {
    ReconcileUnmanaged(entry);
  } else if (job.Outcome() != nullptr) {
    Finish(entry);
  } else if (!entry->claim.has_value()) {
    ReconcileFree(entry);
  } else if (entry->workload_deleted) {
    AskWhyDeleted(entry);
  } else {
    ReconcileClaim(entry);
  }
}

// Not Muster's to queue, or no longer: what it was admitted to before counts until it is gone, or others would be
// given its quota. Where no policy guards the record, the Workload has to show the same.
void JobController::ReconcileUnmanaged(Entry* entry) {
  const bool admitted =
      entry->job->record != nullptr && (InManagedNamespace(*entry->job, *deps_.catalog, *deps_.options) ||
                                        ShowsAdmission(workloads_.Known(entry->job->meta.uid).get(), *entry->job));
  const bool ended = entry->job->Outcome() != nullptr;
  if (admitted && ended) return Finish(entry);
  // A stopped Job that runs again outside of Muster's reach is its user's.
  const auto started = [entry] { return entry->job->record->state == Record::State::kStarted; };
  if (admitted && (started() || entry->job->suspend) && AdoptHeld(entry)) return;
  Untell(entry);
  if (!ended && entry->job->suspend && !entry->job->deleting()) RestoreIfShown(entry);
}

// Another controller runs its pods, which does not do what starts and stops rely on.
void JobController::LeaveToOthers(Entry* entry) {
  const Job& job = *entry->job;
  if (job.Outcome() == nullptr && !job.deleting()) {
    ReportProblem(entry, absl::UnimplementedError(Cat("spec.managedBy: \"", job.managed_by,
                                                      "\": Jobs of other controllers are not queued or started")));
  }
  ReconcileUnmanaged(entry);
}

void JobController::ReconcileFree(Entry* entry) {
  if (AdoptHeld(entry)) return;
  const Job& job = *entry->job;
  if (!job.suspend) {
    Untell(entry);
    if (!job.deleting()) SuspendUnadmitted(entry);
    return;
  }
  // What still runs belongs to nobody's claim: it has to be gone before the Job may start.
  if (job.status.active != 0 || job.deleting() || entry->failed) {
    Untell(entry);
    return;
  }
  if (!job.prebuilt().empty() && !HasPrebuilt(entry)) {
    Untell(entry);
    if (!entry->busy) RestoreIfShown(entry);
    return;
  }
  Tell(entry, std::nullopt);
  AwaitRequeue(entry);
  if (!entry->busy && entry->reservation == nullptr) RestoreIfShown(entry);
}

void JobController::ReconcileClaim(Entry* entry) {
  switch (entry->claim->state) {
    case ClaimState::kPlanned:
      if (entry->claim->reserved) Tell(entry, std::nullopt);
      return ReconcilePlanned(entry);
    case ClaimState::kWritten:
    case ClaimState::kActive:
      SeeSizeWritten(entry);
      if (const Record* record = entry->job->record.get(); record != nullptr &&
                                                           record->claim == entry->claim->record.claim &&
                                                           record->admission != entry->claim->record.admission) {
        DisbelieveRecord(entry, "it differs from the admission that it was written for");
      }
      Tell(entry, std::nullopt);
      return ReconcileRunning(entry);
    case ClaimState::kLeaving:
      Tell(entry, std::nullopt);
      return ReconcileLeaving(entry);
    case ClaimState::kGone:
      break;
  }
  CheckFailed(__FILE__, __LINE__, "a claim in memory is not gone");
}

Prepared JobController::PrepareOf(const Job& job) {
  Prepared out = PrepareWorkload(job, *deps_.catalog, deps_.options->requests, &shapes_);
  if (const auto known = workloads_.Known(job.meta.uid); known != nullptr && known->meta.name == job.prebuilt()) {
    TakeFromPrebuilt(job, *known, *deps_.catalog, deps_.options->requests, &shapes_, &out);
  }
  return out;
}

bool JobController::Prepare(Entry* entry) {
  const Job& job = *entry->job;
  Prepared prepared = PrepareOf(job);
  if (absl::IsNotFound(prepared.problem)) KeepPriority(*entry, &prepared);
  const bool good = prepared.problem.ok();
  if (good) {
    entry->problem.clear();
  } else {
    ReportProblem(entry, prepared.problem);
  }
  entry->prepared = std::make_shared<const Prepared>(std::move(prepared));
  return good;
}

void JobController::ReportProblem(Entry* entry, const absl::Status& problem) {
  const std::string message(problem.message());
  if (entry->problem == message) return;
  entry->problem = message;
  spdlog::warn("a job cannot be queued{}", JobFields(*entry->job, {{"error", message}}));
  JobEvent(*entry->job, "Warning", absl::IsNotFound(problem) ? "WorkloadPriorityClassNotFound" : "ErrWorkloadCompose",
           "Queue", message);
}

// Tells the engine of the Job as it is, if that is news to it.
void JobController::Tell(Entry* entry, const std::optional<Held>& held) {
  const Job& job = *entry->job;
  const Turn turn = entry->claim.has_value() ? Turn{entry->not_before, {}} : TurnOf(*entry);
  Told now{job.meta.generation,
           IsActive(*entry),
           turn.not_before,
           turn.queue_time,
           deps_.catalog->version,
           job.deleting(),
           entry->claim.has_value(),
           NeededPods(*entry),
           Resizes(*entry),
           GrowthQueueTime(entry),
           entry->prepared == nullptr ? 0 : PriorityOf(*entry).value,
           0,
           {},
           {},
           PassesOver(entry)};
  if (const auto known = workloads_.Known(job.meta.uid); known != nullptr) {
    now.preemption_gates = ClosedGates(known->preemption_gates, known->status.preemption_gates);
    if (known->meta.name == job.prebuilt()) {
      now.prebuilt_generation = known->meta.generation;
      now.prebuilt_annotations = known->meta.annotations;
    }
  }
  const std::shared_ptr<const Job> told_of = std::exchange(entry->told_of, entry->job);
  if (entry->told == now && SameLabels(*told_of, job) && !held.has_value()) return;
  if (entry->told.has_value() && entry->told->holds && now.holds && !now.resizes && entry->told->pods < now.pods) {
    SayPodsRunAgain(*entry, now.pods - entry->told->pods);
  }
  if (entry->told.has_value()) SayIfGateCleared(entry, *told_of);
  const bool good = Prepare(entry);
  if (!good && !entry->claim.has_value() && !held.has_value()) {
    Untell(entry);
    return;
  }
  now.priority = PriorityOf(*entry).value;
  entry->told = std::move(now);
  engine::Workload workload = AsTold(*entry);
  if (held.has_value()) {
    workload.held = ToHeldClaim(*held);
    workload.held->preemptor_uid = QueuesAs(held->preemptor_uid);
    workload.held->pods_ready = entry->claim->pods_ready.ready();
  }
  TouchWorkload(*entry, Urgency::kLeisure);
  Apply(engine::WorkloadChanged{std::move(workload)});
}

engine::Workload JobController::AsTold(const Entry& entry) const {
  const Told& told = *entry.told;
  engine::Workload workload = entry.prepared->workload;
  workload.active = told.active;
  workload.priority = told.priority;
  workload.preemption_gates = told.preemption_gates;
  workload.timed_out = told.timed_out;
  workload.not_before = told.not_before;
  if (told.queue_time.IsSet()) workload.queue_time = told.queue_time;
  workload.last_eviction = PastEviction(entry);
  if (entry.claim.has_value()) {
    // What runs counts where it was admitted and for what, whatever the Job says by now, until its pods are gone.
    workload.local_queue = entry.claim->record.local_queue;
    workload.pod_sets.front().count = told.pods;
    workload.elastic = told.resizes;
    workload.growth_queue_time = told.growth_queue_time;
  }
  return workload;
}

void JobController::Untell(Entry* entry) {
  if (!entry->told.has_value()) return;
  entry->told.reset();
  entry->told_of.reset();
  Apply(engine::WorkloadDeleted{entry->job->meta.uid});
}

// RETURNS: whether the objects show the Job as admitted; it then has a claim.
bool JobController::AdoptHeld(Entry* entry) {
  const auto known = workloads_.Known(entry->job->meta.uid);
  const bool strict = deps_.options->wait_for_terminating_pods;
  const auto held = [&] { return FindHeld(*entry->job, known.get(), strict); };
  if (!held().has_value()) return false;
  if (const Job& job = *entry->job; job.record != nullptr && held()->started) {
    const Prepared prepared = PrepareOf(job);
    if (std::string doubt = RecordDoubt(job, known.get(), *prepared.workload.pod_sets.front().shape,
                                        deps_.options->ignore_undeclared_resources);
        !doubt.empty()) {
      DisbelieveRecord(entry, std::move(doubt));
    } else if (job.suspend && job.status.active == 0 && !ShowsAdmission(known.get(), job)) {
      // Nothing of it runs and nothing else tells of it: a record that merely fits would be a way past the queue.
      return false;
    }
  }
  if (auto found = held(); found.has_value()) {
    Adopt(entry, *std::move(found));
    return true;
  }
  return false;
}

// Where its pods go stands on the Workload; the record says that there is something.
void JobController::CompleteRecord(Entry* entry) {
  const Record* record = entry->job->record.get();
  if (record == nullptr || !record->placed || HasPlaces(record->admission)) return;
  engine::Admission whole;
  if (entry->claim.has_value() && entry->claim->record.claim == record->claim) {
    whole = entry->claim->record.admission;
  } else if (const auto known = workloads_.Known(entry->job->meta.uid);
             known != nullptr && known->status.admission.has_value()) {
    if (auto shown = FromApi(*known->status.admission); shown.ok()) whole = *std::move(shown);
  }
  // It may be that of another admission.
  engine::Admission bare = whole;
  for (engine::PodSetAssignment& pod_set : bare.pod_sets) pod_set.topology.reset();
  if (bare != record->admission) return;
  auto completed = std::make_shared<Record>(*record);
  completed->admission = std::move(whole);
  auto job = std::make_shared<Job>(*entry->job);
  job->record = std::move(completed);
  entry->job = std::move(job);
}

// From here on the record counts as none. The next write that starts or stops the Job replaces it.
void JobController::DisbelieveRecord(Entry* entry, std::string why) {
  auto job = std::make_shared<Job>(*entry->job);
  job->void_record = std::exchange(job->record, nullptr);
  job->record_problem = Cat("annotation ", kRecordAnnotation, ": ", why);
  entry->job = std::move(job);
  SayRecordProblem(entry);
}

void JobController::SayRecordProblem(Entry* entry) {
  const Job& job = *entry->job;
  if (job.record_problem.empty() || job.record_problem == entry->record_problem || job.Outcome() != nullptr) return;
  entry->record_problem = job.record_problem;
  spdlog::error("the admission record of a job counts as none{}", JobFields(job, {{"error", job.record_problem}}));
  JobEvent(job, "Warning", "AdmissionRecordInvalid", "Admit", job.record_problem);
}

void JobController::Adopt(Entry* entry, Held held) {
  const Job& job = *entry->job;
  const std::string& uid = job.meta.uid;
  // A start is of the term in which it is made: the API server lets no other through (muster-fence).
  held.claim = held.started ? deps_.adopted->Adopt(held.claim, uid) : deps_.adopted->New();
  TellHeld(entry, held);
  if (engine_->ViewWorkload(uid)->claim != held.claim) {
    // It was given up before, and turned out to be true after all.
    held.claim = deps_.adopted->New();
    TellHeld(entry, held);
  }
  Claim& claim = *entry->claim;
  if (held.state == ClaimState::kLeaving && claim.record.eviction.has_value()) {
    claim.eviction = claim.record.eviction;
    claim.evicted_at = claim.eviction->at;
    WatchEviction(entry);
  }
  spdlog::info("a job is found admitted{}",
               JobFields(job, {{"clusterQueue", held.admission.cluster_queue}, {"claim", held.claim.ToString()}}));
  // A former process may have died before the Workload was replaced.
  if (entry->slice.has_value()) ReplaceSlice(entry);
  TouchWorkload(*entry, Urgency::kLeisure);
  Reconcile(entry);
}

void JobController::TellHeld(Entry* entry, const Held& held) {
  Claim claim;
  claim.state = held.state;
  // Only its Workload tells of it: the start is still to come.
  claim.reserved = !held.started && held.state != ClaimState::kLeaving;
  claim.on_workload = claim.reserved;
  claim.admitted = held.admitted;
  if (claim.reserved) claim.state = ClaimState::kPlanned;
  claim.record = entry->job->record != nullptr && held.started ? *entry->job->record : LostRecord(*entry, held);
  claim.record.claim = held.claim;
  entry->claim = std::move(claim);
  entry->claim->pods_ready = FoundPodsReady(*entry);
  Tell(entry, held);
  deps_.claim_changed(entry->job->meta.uid);
  deps_.size_changed(entry->job->meta.uid);
}

Record JobController::LostRecord(const Entry& entry, const Held& held) const {
  const Job& job = *entry.job;
  Record record;
  record.claim = held.claim;
  record.job_uid = job.meta.uid;
  record.local_queue = held.local_queue;
  record.admission = held.admission;
  record.placed = HasPlaces(held.admission);
  record.reserved_at = held.reserved_at;
  record.requests = RequestsOf(job.pod);
  record.past_execution_seconds = PastExecutionSeconds(entry);
  record.admitted_at = held.admitted_at;
  const auto known = workloads_.Known(job.meta.uid);
  if (held.state == ClaimState::kLeaving && known != nullptr) record.eviction = ShownEviction(known->status);
  if (held.admission.pod_sets.empty() || known == nullptr) return record;
  const engine::PodSetAssignment& assignment = held.admission.pod_sets.front();
  // What was injected is what would be injected and is there now.
  if (auto wanted = MakeInjection(assignment, held.admission.cluster_queue, held.local_queue, known->meta.name,
                                  deps_.catalog->flavors);
      wanted.ok() &&
      AddUpdates(known->status.checks, ChecksOf(entry).value_or(CheckNames()), assignment.name, {}, &*wanted).ok()) {
    Labels asked = job.view.annotations;
    asked.erase(std::string(kUnconstrainedTopologyAnnotation));
    AddPlaces(assignment, asked, &*wanted);
    if (HoldsPodsBack(job)) wanted->labels.emplace(kElasticPodLabel, "true");
    TemplateView without = Restore(job.view, *wanted);
    if (auto again = Inject(without, *wanted); again.ok() && again->result == job.view) record.injected = again->added;
  }
  if (!known->spec.pod_sets.empty() && known->spec.pod_sets.front().count > assignment.count) {
    // Fewer were admitted than asked for: not all fitted, or others had ended before.
    const int32_t asked = known->spec.pod_sets.front().count;
    (CurrentShape(job).pod_count() == asked ? record.pods : record.parallelism) = asked;
  }
  return record;
}

void JobController::Finish(Entry* entry) {
  if (entry->finished) return;
  entry->finished = true;
  CatchUp(entry);
  const Job& job = *entry->job;
  const WallTime now = deps_.env.clock->Now();
  if (entry->claim.has_value()) {
    // An eviction that was ordered and never made was none.
    const Record& record = entry->claim->record;
    entry->end =
        End{record.admission, record.reserved_at, record.executing_since(), record.eviction, entry->claim->pods_ready};
  } else if (job.record != nullptr) {
    entry->end =
        End{job.record->admission, job.record->reserved_at, job.record->executing_since(), job.record->eviction, {}};
  }
  const int64_t past = PastExecutionSeconds(*entry);
  const engine::QueueRef queue = Queue(*entry);
  if (entry->prepared == nullptr) Prepare(entry);  // it had ended before it was ever told of
  entry->claim.reset();
  Untell(entry);
  deps_.claim_changed(job.meta.uid);
  TouchWorkload(*entry, Urgency::kNow);
  const auto known = workloads_.Known(job.meta.uid);
  const bool known_finished = known != nullptr && k8s::IsTrue(known->status.conditions, "Finished");
  if (known_finished || (known == nullptr && (entry->adopted_finished || !entry->end.has_value()))) return;
  JobEvent(job, "Normal", "FinishedWorkload", "Finish",
           Cat("Workload '", job.meta.ns, "/", entry->workload, "' is declared finished"));
  if (entry->end.has_value()) {
    deps_.telemetry->Finished(queue, AddClamped(SecondsClamped(past), now - entry->end->since));
  }
  spdlog::info("a job has finished{}", JobFields(job, {{"outcome", job.Succeeded() ? "succeeded" : "failed"}}));
}

// ---- requests -----------------------------------------------------------------------------------

k8s::Client::Done JobController::Callback(Entry* entry, OnAnswer on_answer) {
  entry->busy = true;
  return [this, alive = std::weak_ptr<bool>(alive_), uid = entry->job->meta.uid,
          on_answer = std::move(on_answer)](k8s::Result result) {
    if (alive.expired()) return;
    Entry* found = Find(uid);
    if (found == nullptr || !leading()) return;
    found->busy = false;
    on_answer(found, result);
  };
}

void JobController::Send(Entry* entry, std::string body, OnAnswer on_answer) {
  const k8s::ObjectKey key = entry->job->meta.key();
  deps_.client->Patch(k8s::Lane::kStart, k8s::kJobs, key, "", k8s::PatchType::kJsonPatch, std::move(body),
                      Callback(entry, std::move(on_answer)));
}

JobController::Entry* JobController::AcceptAnswer(Entry* entry, const k8s::Result& result) {
  const std::string uid = entry->job->meta.uid;
  // Not Reconcile yet: the caller knows what the answer belongs to.
  entry->busy = true;
  deps_.job_returned(result.body);
  Entry* found = Find(uid);
  if (found != nullptr) found->busy = false;
  return found;
}

void JobController::Continue(Entry* entry, const k8s::Result& result) {
  if (!result.ok()) {
    Refresh(entry, [this](Entry* e) { Wake(e, std::min(e->backoff.Next(), kRepeatMax)); });
    return;
  }
  entry->backoff.Reset();
  if (Entry* found = AcceptAnswer(entry, result); found != nullptr) Reconcile(found);
}

void JobController::Refresh(Entry* entry, std::function<void(Entry*)> then) {
  const k8s::ObjectKey key = entry->job->meta.key();
  auto on_answer = [this, then](Entry* e, const k8s::Result& result) {
    if (result.ok()) {
      Entry* found = AcceptAnswer(e, result);
      if (found == nullptr) return;
      then(found);
      Reconcile(found);
      return;
    }
    // Where the Job is gone the watch will say so. Until then, and where there was no answer, ask again.
    const Duration wait =
        result.code == kNotFound ? kGonePause : std::max(kAskPause, result.retry_after.value_or(Duration(0)));
    e->busy = true;
    deps_.env.executor->PostAt(deps_.env.clock->Mono() + wait,
                               [this, alive = std::weak_ptr<bool>(alive_), uid = e->job->meta.uid, then] {
                                 if (alive.expired()) return;
                                 Entry* again = Find(uid);
                                 if (again == nullptr || !leading()) return;
                                 again->busy = false;
                                 Refresh(again, then);
                               });
  };
  deps_.client->Get(k8s::kJobs, key, Callback(entry, std::move(on_answer)));
}

}  // namespace muster::controller
