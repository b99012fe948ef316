#include "workload_controller.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "muster/controller/names.h"
#include "muster/controller/reason_text.h"
#include "muster/core/log_fields.h"
#include "muster/k8s_client/lease.h"
#include "text.h"

namespace muster::controller {
namespace {

using engine::ClaimState;
using Urgency = WorkloadWriter::Urgency;

std::string Fields(const Workload& workload,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> more = {}) {
  return LogFields({{"namespace", workload.meta.ns}, {"workload", workload.meta.name}}) + LogFields(more);
}

QueueIndex::Queue QueueOf(const Workload& workload) { return {workload.meta.ns, workload.spec.queue_name}; }

// Of the Job that it is, or was, made for; empty: none.
const std::string& JobUidOf(const Workload& workload) {
  static const std::string kNone;
  const auto label = workload.meta.labels.find(kJobUidLabel);
  return label == workload.meta.labels.end() ? kNone : label->second;
}
// Of the annotation muster.dev/movable, where it says neither yes nor no; else empty.
std::string BadMark(const Workload& workload) {
  const auto mark = workload.meta.annotations.find(kMovableAnnotation);
  const bool good = mark == workload.meta.annotations.end() || mark->second.empty() || mark->second == "true" ||
                    mark->second == "false";
  return good ? std::string() : mark->second;
}
// The engine answers at once.
constexpr Duration kDecidedWithin = std::chrono::seconds(1);

int64_t WholeSeconds(Duration d) { return std::chrono::duration_cast<std::chrono::seconds>(d).count(); }

k8s::ObjectReference Reference(const Workload& workload) {
  return {"kueue.x-k8s.io/v1beta2", "Workload", workload.meta.ns, workload.meta.name, workload.meta.uid};
}

}  // namespace

WorkloadController::WorkloadController(Deps deps)
    : deps_(std::move(deps)),
      told_reasons_(
          deps_.env, [this](const std::string& uid) { return ToldReasons::NextIn(entries_, uid); },
          [this](const std::string& uid) { return RenewNumbers(uid); }),
      writer_(deps_.env, deps_.client, this, deps_.workload_returned),
      reservations_(deps_.env, deps_.client, deps_.workload_returned) {}

WorkloadController::~WorkloadController() {
  for (auto& [uid, entry] : entries_) deps_.env.executor->Cancel(entry.timer);
}

// ---- intake -------------------------------------------------------------------------------------

WorkloadController::Entry* WorkloadController::Find(const std::string& uid) {
  const auto it = entries_.find(uid);
  return it == entries_.end() ? nullptr : &it->second;
}

void WorkloadController::Apply(engine::Event event) {
  engine_->Apply(event);
  deps_.decide();
}

void WorkloadController::WorkloadChanged(std::shared_ptr<const Workload> workload) {
  const std::string uid = workload->meta.uid;
  const auto it = entries_.try_emplace(uid).first;
  Entry& entry = it->second;
  if (entry.workload == nullptr) entry.queued_since = workload->meta.creation;
  Unindex(it->first, entry);
  if (const std::string mark = BadMark(*workload);
      !mark.empty() && (entry.workload == nullptr || BadMark(*entry.workload) != mark)) {
    std::string why = Cat("annotation ", kMovableAnnotation, ": \"", mark,
                          "\" must be \"true\" or \"false\"; it counts as \"false\"");
    spdlog::warn("a mark of a workload cannot be read{}", Fields(*workload, {{"error", why}}));
    if (leading()) Event(*workload, kWorkloadReporter, "Warning", "Misconfigured", "Read", std::move(why));
  }
  entry.workload = workload;
  by_queue_.Add(QueueOf(*workload), it->first);
  if (const std::string& job = JobUidOf(*workload); !job.empty()) by_job_[job].insert(uid);
  writer_.Observe(uid, std::move(workload));
  if (!leading()) return;
  writer_.Touch(uid, Urgency::kLeisure);
  Reconcile(&entry);
}

void WorkloadController::WorkloadLeft(const std::string& uid) {
  const auto it = entries_.find(uid);
  if (it == entries_.end()) return;
  const bool told = it->second.told.has_value();
  deps_.env.executor->Cancel(it->second.timer);
  Unindex(it->first, it->second);
  entries_.erase(it);
  writer_.Forget(uid);
  if (told && leading()) Apply(engine::WorkloadDeleted{uid});
}

void WorkloadController::CatalogChanged(const std::string& ns) {
  if (!leading()) return;
  if (!ns.empty()) {
    for (const std::string& uid : by_queue_.OfNamespace(ns)) Reconcile(Find(uid));
    return;
  }
  for (auto& [uid, entry] : entries_) Reconcile(&entry);
}

void WorkloadController::QueueChanged(const QueueIndex::Queue& queue) {
  if (!leading()) return;
  for (const std::string& uid : by_queue_.Of(queue)) writer_.Touch(uid, Urgency::kLeisure);
}

void WorkloadController::JobChanged(const std::string& job_uid) {
  const auto it = by_job_.find(job_uid);
  if (it == by_job_.end() || !leading()) return;
  const std::set<std::string> uids = it->second;
  for (const std::string& uid : uids) {
    writer_.Touch(uid, Urgency::kLeisure);
    Reconcile(Find(uid));
  }
}

void WorkloadController::Unindex(const std::string& uid, const Entry& entry) {
  if (entry.workload == nullptr) return;
  by_queue_.Remove(QueueOf(*entry.workload), uid);
  const auto it = by_job_.find(JobUidOf(*entry.workload));
  if (it == by_job_.end()) return;
  it->second.erase(uid);
  if (it->second.empty()) by_job_.erase(it);
}

void WorkloadController::ChecksChanged(const std::string& cluster_queue) {
  if (!leading()) return;
  for (auto& [uid, entry] : entries_) {
    if (Queue(entry).cluster_queue != cluster_queue) continue;
    writer_.Touch(uid, Urgency::kLeisure);
    Reconcile(&entry);
  }
}

void WorkloadController::Lead(engine::EngineSet* engine) {
  engine_ = engine;
  writer_.Open();
  for (auto& [uid, entry] : entries_) {
    if (const k8s::Condition* requeued = k8s::FindCondition(entry.workload->status.conditions, "Requeued");
        requeued != nullptr) {
      entry.queued_since = requeued->last_transition;
    }
    entry.finished = k8s::IsTrue(entry.workload->status.conditions, "Finished");
    Reconcile(&entry);
    writer_.Touch(uid, Urgency::kLeisure);
  }
}

uint64_t WorkloadController::HighestTerm() const {
  uint64_t highest = 0;
  for (const auto& [uid, entry] : entries_) {
    const engine::ClaimId claim = ClaimOf(*entry.workload);
    if (claim.epoch <= k8s::kTermMax) highest = std::max(highest, claim.epoch);
  }
  return highest;
}

// ---- the order of things ------------------------------------------------------------------------

bool WorkloadController::IsOrphan(const Workload& workload) const {
  const std::string& job = JobUidOf(workload);
  return workload.meta.Controller() == nullptr && !job.empty() && !deps_.job_exists(job);
}

void WorkloadController::Reconcile(Entry* entry) {
  if (!leading()) return;
  const Workload& workload = *entry->workload;
  if (entry->eviction.has_value() && ShowsEviction(workload.status, *entry->eviction)) entry->eviction.reset();
  // What came of a reservation that is under way is told when it is over.
  if (entry->claim.has_value() && entry->claim->state == ClaimState::kPlanned) return;
  if (k8s::IsTrue(workload.status.conditions, "Finished")) {
    Finish(entry);
  } else if (IsOrphan(workload) || (workload.meta.Controller() == nullptr && deps_.job_counts(workload))) {
    Untell(entry);
  } else if (entry->claim.has_value()) {
    ReconcileClaim(entry);
  } else if (!Adopt(entry)) {
    const bool queues =
        !workload.meta.deletion.IsSet() && workload.meta.Controller() == nullptr && !workload.templates.empty();
    queues ? Tell(entry, std::nullopt) : Untell(entry);
    if (queues) ShowBackOffEnd(entry);
  }
}

// RETURNS: whether its status shows quota as held, whoever reserved it.
bool WorkloadController::Adopt(Entry* entry) {
  const Workload& workload = *entry->workload;
  const std::string& uid = workload.meta.uid;
  auto held = FindHeld(workload);
  if (!held.ok()) {
    if (entry->problem != held.status().message()) {
      entry->problem = std::string(held.status().message());
      spdlog::error("the admission of a workload cannot be read{}", Fields(workload, {{"error", entry->problem}}));
    }
    Untell(entry);
    return true;
  }
  entry->problem.clear();
  if (!held->has_value()) return false;
  (*held)->claim = deps_.adopted->Adopt((*held)->claim, uid);
  Claim claim;
  claim.state = (*held)->state;
  claim.admission = (*held)->admission;
  claim.reserved_at = (*held)->reserved_at;
  claim.admitted = (*held)->admitted;
  claim.admitted_at = (*held)->admitted_at;
  if (claim.state == ClaimState::kLeaving) claim.eviction = ShownEviction(workload.status);
  for (int tries = 0; tries < 2; ++tries) {
    claim.id = (*held)->claim;
    entry->claim = claim;
    if (claim.eviction.has_value()) WatchEviction(entry);
    Tell(entry, *held);
    if (engine_->ViewWorkload(uid)->claim == claim.id) break;
    // It was given up before, and turned out to be true after all.
    (*held)->claim = deps_.adopted->New();
  }
  spdlog::info("a workload is found admitted{}", Fields(workload, {{"clusterQueue", claim.admission.cluster_queue},
                                                                   {"claim", entry->claim->id.ToString()}}));
  EvictIfTimeOver(entry);
  return true;
}

// Tells the engine of the Workload as it is, if that is news to it.
void WorkloadController::Tell(Entry* entry, const std::optional<Held>& held) {
  const Workload& object = *entry->workload;
  Told now;
  now.generation = object.meta.generation;
  if (const auto gate = object.meta.annotations.find(kAdmissionGatedByAnnotation);
      gate != object.meta.annotations.end()) {
    now.gated_by = gate->second;
  }
  now.preemption_gates = ClosedGates(object.preemption_gates, object.status.preemption_gates);
  now.reclaimable_pods = object.status.reclaimable_pods;
  now.not_before = entry->not_before;
  if (const auto& requeue = object.status.requeue_state; requeue.has_value()) {
    now.not_before = std::max(now.not_before, requeue->requeue_at);
  }
  now.queue_time = QueueTime(object.meta.creation, object.status);
  now.catalog = deps_.catalog->version;
  now.holds = entry->claim.has_value();
  now.movable = IsMovable(object);
  if (entry->told == now && !held.has_value()) return;
  if (entry->told.has_value() && !entry->told->gated_by.empty() && now.gated_by.empty() && !now.holds) {
    entry->reason = engine::Reason{};
    Event(object, kWorkloadReporter, "Normal", kGateClearedEvent, "Queue", std::string(kGateClearedNote));
    writer_.Touch(object.meta.uid, Urgency::kLeisure);
  }
  entry->told = now;
  const engine::Admission* admitted = entry->claim.has_value() ? &entry->claim->admission : nullptr;
  entry->prepared = std::make_shared<const Prepared>(
      PrepareWorkload(object, admitted, *deps_.catalog, deps_.options->requests, &shapes_));
  engine::Workload workload = entry->prepared->workload;
  workload.not_before = now.not_before;
  if (held.has_value()) {
    workload.held = ToHeldClaim(*held);
    workload.held->preemptor_uid = deps_.queues_as(held->preemptor_uid);
    workload.held->pods_ready = true;
  } else if (!entry->claim.has_value()) {
    const auto eviction = ShownEviction(object.status);
    if (eviction.has_value())
      workload.last_eviction = ToPastEviction(*eviction, deps_.queues_as(eviction->preemptor_uid));
  }
  Apply(engine::WorkloadChanged{std::move(workload)});
}

void WorkloadController::Untell(Entry* entry) {
  entry->claim.reset();
  if (!entry->told.has_value()) return;
  entry->told.reset();
  Apply(engine::WorkloadDeleted{entry->workload->meta.uid});
}

void WorkloadController::ReconcileClaim(Entry* entry) {
  const Workload& workload = *entry->workload;
  Claim& claim = *entry->claim;
  if (claim.state != ClaimState::kLeaving && k8s::IsTrue(workload.status.conditions, "Evicted")) NoteEvicted(entry);
  if (!HoldsQuota(workload)) {
    // Also where an owner gives back what nobody asked it for.
    GiveBack(entry);
    return;
  }
  Tell(entry, std::nullopt);
  EvictIfTimeOver(entry);
  ReconcileChecks(entry);
}

// ---- admission ----------------------------------------------------------------------------------

bool WorkloadController::Decided(const engine::Decision& decision) {
  Entry* entry = Find(std::visit([](const auto& d) { return d.uid; }, decision));
  if (entry == nullptr) return false;
  if (const auto* admit = std::get_if<engine::Admit>(&decision)) {
    HandleAdmit(entry, *admit);
  } else if (const auto* evict = std::get_if<engine::Evict>(&decision)) {
    HandleEvict(entry, *evict);
  } else if (const auto* replace = std::get_if<engine::Replace>(&decision)) {
    HandleReplace(entry, *replace);
  } else if (const auto* withdraw = std::get_if<engine::Withdraw>(&decision)) {
    HandleWithdraw(entry, *withdraw);
  } else if (const auto* hold = std::get_if<engine::Hold>(&decision)) {
    HandleHold(entry, *hold);
  }
  return true;
}

void WorkloadController::HandleReplace(Entry* entry, const engine::Replace& replace) {
  if (!entry->claim.has_value() || entry->claim->id != replace.claim) return;
  entry->claim->admission = replace.admission;
  entry->claim->replaced = true;
  spdlog::info("pods of a workload get other places, since their node has failed{}",
               Fields(*entry->workload, {{"node", replace.hostname}}));
  writer_.Touch(replace.uid, Urgency::kNow);
}

void WorkloadController::HandleAdmit(Entry* entry, const engine::Admit& admit) {
  Claim claim;
  claim.id = admit.claim;
  claim.admission = admit.admission;
  claim.reserved_at = deps_.env.clock->Now();
  claim.checks = admit.checks;
  entry->claim = std::move(claim);
  if (!entry->told.has_value() || entry->workload->meta.generation != admit.generation) {
    DropClaim(entry, {}, "");
    return;
  }
  ReservationOrder order;
  order.workload = entry->workload;
  order.claim = entry->claim->id;
  order.admission = entry->claim->admission;
  order.reserved_at = entry->claim->reserved_at;
  order.checks = entry->claim->checks;
  order.eviction = entry->eviction;
  entry->reservation =
      reservations_.Reserve(std::move(order), [this, uid = admit.uid, id = admit.claim](const ReservationEnd& end) {
        Entry* found = Find(uid);
        if (found == nullptr || !leading() || !found->claim.has_value() || found->claim->id != id) return;
        Reserved(found, end);
      });
}

void WorkloadController::Reserved(Entry* entry, const ReservationEnd& end) {
  switch (end.how) {
    case ReservationEnd::How::kShown:
      break;
    case ReservationEnd::How::kChanged:
      return DropClaim(entry, {}, "");
    case ReservationEnd::How::kRefused: {
      const Duration wait = std::max(entry->backoff.Next(), end.wait);
      spdlog::warn("the admission of a workload was refused{}", Fields(*entry->workload, {{"error", end.message}}));
      Event(*entry->workload, kAdmissionReporter, "Warning", "AdmissionRefused", "Admit", end.message);
      return DropClaim(entry, deps_.env.clock->Now() + wait, end.message);
    }
  }
  Claim& claim = *entry->claim;
  const Workload& workload = *entry->workload;
  claim.state = ClaimState::kWritten;
  entry->backoff.Reset();
  entry->not_before = {};
  entry->reason.reset();
  Apply(engine::ClaimWritten{workload.meta.uid, claim.id});
  // Whether its owner will ever tell of pods is not known: nobody waits for them.
  Apply(engine::ClaimPodsReady{workload.meta.uid, claim.id, true});
  const std::string& cluster_queue = claim.admission.cluster_queue;
  const Duration waited = claim.reserved_at - entry->queued_since;
  const int64_t seconds = WholeSeconds(waited + std::chrono::milliseconds(500));
  Event(workload, kAdmissionReporter, "Normal", "QuotaReserved", "Admit",
        Cat("Quota reserved in ClusterQueue ", cluster_queue, ", wait time since queued was ", seconds, "s"));
  deps_.telemetry->QuotaReserved(Queue(*entry), waited);
  if (claim.checks.empty()) NoteAdmitted(entry);
  Reconcile(entry);
}

void WorkloadController::NoteAdmitted(Entry* entry) {
  Claim& claim = *entry->claim;
  const Workload& workload = *entry->workload;
  claim.admitted = true;
  const bool later = claim.admitted_at.IsSet();
  const Duration checked = later ? claim.admitted_at - claim.reserved_at : Duration(0);
  const std::string& cluster_queue = claim.admission.cluster_queue;
  Event(workload, later ? kWorkloadReporter : kAdmissionReporter, "Normal", "Admitted", "Admit",
        Cat("Admitted by ClusterQueue ", cluster_queue, ", wait time since reservation was ",
            WholeSeconds(checked + std::chrono::milliseconds(500)), "s"));
  deps_.telemetry->Admitted(Queue(*entry), claim.reserved_at + checked - entry->queued_since, checked);
  spdlog::info("a workload is admitted{}", Fields(workload, {{"clusterQueue", cluster_queue},
                                                             {"localQueue", workload.spec.queue_name},
                                                             {"claim", claim.id.ToString()}}));
}

// ---- checks -------------------------------------------------------------------------------------

std::optional<CheckNames> WorkloadController::ChecksOf(const Entry& entry) const {
  const bool holds = entry.claim.has_value() && entry.claim->state != ClaimState::kPlanned;
  return deps_.catalog->ChecksOf(Queue(entry).cluster_queue, holds ? &entry.claim->admission : nullptr);
}

// REQUIRES: it holds quota. One that another controller owns is left to whoever admitted it.
void WorkloadController::ReconcileChecks(Entry* entry) {
  Claim& claim = *entry->claim;
  const Workload& workload = *entry->workload;
  const std::string& uid = workload.meta.uid;
  const std::optional<CheckNames> names = ChecksOf(*entry);
  if (claim.state == ClaimState::kLeaving || claim.eviction.has_value() || claim.withdrawn.has_value() ||
      deps_.options->release || workload.meta.Controller() != nullptr) {
    return;
  }
  const k8s::Condition* admitted = k8s::FindCondition(workload.status.conditions, "Admitted");
  if (!claim.admitted && admitted != nullptr && admitted->status == "True") {
    claim.admitted_at = std::max(admitted->last_transition, claim.reserved_at);
    Apply(engine::ClaimAdmitted{uid, claim.id});
    NoteAdmitted(entry);
  }
  if (!names.has_value()) return;
  const CheckStates& states = workload.status.checks;
  const CheckVerdict verdict = names->empty() ? CheckVerdict::kReady : Judge(states, *names);
  if (verdict == CheckVerdict::kRejected) {
    Eviction eviction;
    eviction.reason = kDeactivated;
    eviction.underlying_cause = kAdmissionCheck;
    eviction.message = DeactivationMessage(StateText(states, *names, kCheckRejected));
    OrderEviction(entry, std::move(eviction));
  } else if (verdict == CheckVerdict::kRetry) {
    Eviction eviction;
    eviction.reason = kAdmissionCheck;
    eviction.message = RetryMessage(states, *names);
    eviction.requeue_at = RetryTime(states, *names);
    OrderEviction(entry, std::move(eviction));
  } else {
    writer_.Touch(uid, !claim.admitted && verdict == CheckVerdict::kReady ? Urgency::kNow : Urgency::kLeisure);
  }
}

// The Workload tells that it was the last that was waited for, also where there is no room yet.
void WorkloadController::ShowBackOffEnd(Entry* entry) {
  const auto& requeue = entry->workload->status.requeue_state;
  const WallTime at = requeue.has_value() ? requeue->requeue_at : WallTime{};
  if (!at.IsSet()) return;
  const Duration left = std::max(Duration(0), at - deps_.env.clock->Now());
  deps_.env.executor->PostAt(deps_.env.clock->Mono() + left,
                             [this, alive = std::weak_ptr<bool>(alive_), uid = entry->workload->meta.uid] {
                               if (!alive.expired() && Find(uid) != nullptr) writer_.Touch(uid, Urgency::kLeisure);
                             });
}

void WorkloadController::DropClaim(Entry* entry, WallTime not_before, std::string message) {
  const engine::ClaimId id = entry->claim->id;
  entry->claim.reset();
  Apply(engine::ClaimRefused{entry->workload->meta.uid, id, not_before, std::move(message)});
  writer_.Touch(entry->workload->meta.uid, Urgency::kLeisure);
  Reconcile(entry);
}

void WorkloadController::HandleHold(Entry* entry, const engine::Hold& hold) {
  engine::Reason reason = hold.reason;
  HideForeign(entry->workload->meta.ns, &reason);
  if (!told_reasons_.IsAnother(entry->reason, reason)) return;
  entry->reason = std::move(reason);
  if (const std::optional<HoldEvent> event = EventOf(hold.reason); event.has_value()) {
    Event(*entry->workload, event->reporter, event->type, event->reason, "Hold", ReasonMessage(hold.reason));
  }
  writer_.Touch(hold.uid, Urgency::kLeisure);
}

bool WorkloadController::RenewNumbers(const std::string& uid) {
  Entry* entry = Find(uid);
  if (!leading() || !ToldReasons::TakeNumbers(engine_->ViewWorkload(uid), entry->workload->meta.ns, &entry->reason)) {
    return false;
  }
  writer_.Touch(uid, Urgency::kLeisure);
  return true;
}

// ---- the end of an admission --------------------------------------------------------------------

void WorkloadController::HandleEvict(Entry* entry, const engine::Evict& evict) {
  if (!entry->claim.has_value() || entry->claim->id != evict.claim) return;
  // A former process may have come no further than to deactivate it.
  const bool over = evict.reason == engine::EvictionReason::kDeactivated && TimeLeft(*entry) == Duration(0);
  OrderEviction(entry,
                over ? TimeOverEviction() : deps_.evictions->Describe(evict, entry->claim->admission.cluster_queue),
                evict);
}

void WorkloadController::OrderEviction(Entry* entry, Eviction eviction, const std::optional<engine::Evict>& decision) {
  if (entry->claim->eviction.has_value()) return;
  Claim& claim = *entry->claim;
  const WorkloadStatus& status = entry->workload->status;
  const bool again = claim.refused.has_value() && claim.refused->reason == eviction.reason &&
                     claim.refused->preemptor_uid == eviction.preemptor_uid;
  eviction.at = again ? claim.refused->at : deps_.env.clock->Now();
  claim.refused.reset();
  claim.decision = decision;
  eviction.past_execution_seconds = status.past_execution_seconds;
  eviction.totals = CountEviction(status.evictions, eviction.reason, eviction.underlying_cause);
  const WallTime since = claim.admitted_at.IsSet() ? claim.admitted_at : claim.reserved_at;
  const int64_t ran = claim.admitted ? WholeSeconds(eviction.at - since) : 0;
  claim.past_execution_seconds = AddClamped(status.past_execution_seconds, std::max<int64_t>(0, ran));
  claim.eviction = std::move(eviction);
  if (!again) WatchEviction(entry);
  writer_.Touch(entry->workload->meta.uid, Urgency::kNow);
}

// Of the time that it may run over all its admissions. RETURNS: nothing: it may run for ever, or does not run.
std::optional<Duration> WorkloadController::TimeLeft(const Entry& entry) const {
  const Workload& workload = *entry.workload;
  const k8s::Condition* admitted = k8s::FindCondition(workload.status.conditions, "Admitted");
  if (!workload.spec.max_execution_seconds.has_value() || admitted == nullptr || admitted->status != "True") {
    return std::nullopt;
  }
  const int64_t left = *workload.spec.max_execution_seconds - workload.status.past_execution_seconds;
  const WallTime until = admitted->last_transition + SecondsClamped(std::max<int64_t>(0, left));
  return std::max(Duration(0), until - deps_.env.clock->Now());
}

void WorkloadController::EvictIfTimeOver(Entry* entry) {
  const std::optional<Duration> left = TimeLeft(*entry);
  deps_.env.executor->Cancel(std::exchange(entry->timer, 0));
  if (!left.has_value() || entry->claim->state == ClaimState::kLeaving || entry->workload->meta.deletion.IsSet() ||
      deps_.options->release) {
    return;
  }
  if (*left == Duration(0)) return OrderEviction(entry, TimeOverEviction());
  entry->timer = deps_.env.executor->PostAt(deps_.env.clock->Mono() + *left, [this, uid = entry->workload->meta.uid] {
    Entry* due = Find(uid);
    if (due == nullptr) return;
    due->timer = 0;
    Reconcile(due);
  });
}

void WorkloadController::WatchEviction(Entry* entry) {
  Claim& claim = *entry->claim;
  claim.watched = deps_.evictions->Watch(*claim.eviction, claim.admission.cluster_queue, Reference(*entry->workload));
}

void WorkloadController::HandleWithdraw(Entry* entry, const engine::Withdraw& withdraw) {
  // Nothing of it runs, so that its owner need not stop anything either.
  if (!entry->claim.has_value() || entry->claim->id != withdraw.claim || entry->claim->eviction.has_value() ||
      entry->claim->admitted) {
    return;
  }
  entry->claim->withdrawn = withdraw.reason;
  writer_.Touch(withdraw.uid, Urgency::kNow);
}

// The Workload shows the eviction.
void WorkloadController::NoteEvicted(Entry* entry) {
  Claim& claim = *entry->claim;
  claim.state = ClaimState::kLeaving;
  entry->reason.reset();
  Apply(engine::ClaimLeaving{entry->workload->meta.uid, claim.id});
  if (!claim.eviction.has_value()) return;  // somebody else's
  const Eviction& eviction = *claim.eviction;
  if (eviction.underlying_cause == kMaxExecTimeExceeded) {
    Event(*entry->workload, kWorkloadReporter, "Warning", kMaxExecTimeExceeded, "Evict",
          TimeOverNote(entry->workload->spec.max_execution_seconds.value_or(0)));
  }
  const std::string& uid = entry->workload->meta.uid;
  deps_.evictions->Note(eviction, Queue(*entry), PartyOf(*entry), PodsHeld(claim.admission, entry->prepared.get()),
                        claim.decision, [this, &uid](const Evictions::Event& event) { Tell(uid, event); });
  spdlog::info("a workload is evicted{}", Fields(*entry->workload, {{"clusterQueue", claim.admission.cluster_queue},
                                                                    {"reason", eviction.reason},
                                                                    {"message", eviction.message}}));
}

// The Workload shows no reservation any more: its quota is free, and it waits again.
void WorkloadController::GiveBack(Entry* entry) {
  const Claim claim = *std::exchange(entry->claim, std::nullopt);
  const WallTime now = deps_.env.clock->Now();
  entry->queued_since = now;
  entry->reason.reset();
  entry->eviction = claim.eviction;
  if (claim.eviction.has_value() && ShowsEviction(entry->workload->status, *claim.eviction)) entry->eviction.reset();
  Apply(engine::ClaimGone{entry->workload->meta.uid, claim.id});
  if (claim.eviction.has_value()) {
    deps_.telemetry->EvictionDone(Queue(*entry), claim.eviction->reason, now - claim.eviction->at);
  }
  spdlog::info("a workload is out, its quota is free{}",
               Fields(*entry->workload, {{"clusterQueue", claim.admission.cluster_queue}}));
  writer_.Touch(entry->workload->meta.uid, Urgency::kLeisure);
  Reconcile(entry);
}

void WorkloadController::Finish(Entry* entry) {
  if (!std::exchange(entry->finished, true) && entry->claim.has_value()) {
    const Claim& claim = *entry->claim;
    const WallTime since = claim.admitted_at.IsSet() ? claim.admitted_at : claim.reserved_at;
    const Duration ran = claim.admitted ? deps_.env.clock->Now() - since : Duration(0);
    deps_.telemetry->Finished(Queue(*entry),
                              AddClamped(SecondsClamped(entry->workload->status.past_execution_seconds), ran));
    spdlog::info("a workload has finished{}", Fields(*entry->workload));
  }
  Untell(entry);
}

// ---- what the Workload says ---------------------------------------------------------------------

bool WorkloadController::IsOf(const k8s::ObjectMeta& workload, const std::string& uid) const {
  return workload.uid == uid && !JobOf(workload).has_value();
}

WorkloadFacts WorkloadController::Facts(const Entry& entry) const {
  using State = WorkloadFacts::State;
  const Workload& workload = *entry.workload;
  WorkloadFacts facts;
  facts.active = workload.active;
  facts.local_queue_stopped = deps_.catalog->LocalQueueStopped(workload.meta.ns, workload.spec.queue_name);
  facts.cluster_queue_stopped = deps_.catalog->ClusterQueueStopped(workload.meta.ns, workload.spec.queue_name);
  facts.checks = ChecksOf(entry);
  if (entry.claim.has_value()) {
    const Claim& claim = *entry.claim;
    const bool own = workload.meta.Controller() == nullptr;
    facts.eviction = claim.eviction;
    if (own && claim.eviction.has_value()) {
      facts.past_execution_seconds = claim.past_execution_seconds;
      return facts;
    }
    if (claim.withdrawn.has_value()) {
      facts.reason = claim.withdrawn;
      return facts;
    }
    if (!own) {
      // What it shows of its admission is not Muster's to tell: it may only be reserved.
      facts.state = State::kEvicting;
      return facts;
    }
    facts.state = State::kAdmitted;
    facts.admission = claim.admission;
    facts.reserved_at = claim.reserved_at;
    facts.admitted_at = deps_.env.clock->Now();
    if (!claim.admitted) TellChecks(claim.admission, workload.status, &facts);
    return facts;
  }
  facts.eviction = entry.eviction;
  if (entry.reason.has_value() && WorthShowing(*entry.reason, workload.status)) facts.reason = entry.reason;
  const bool told = entry.reason.has_value() && !entry.reason->obstacles.empty() && !deps_.options->release;
  if (told) facts.waits_for = entry.reason;
  if (entry.prepared != nullptr) facts.requests = entry.prepared->requests;
  return facts;
}

// What holds quota says so already, and is left as it is until it is evicted, but for its checks.
bool WorkloadController::TellsWhileHolding(const Entry& entry) const {
  const Claim& claim = *entry.claim;
  if (claim.eviction.has_value() || claim.withdrawn.has_value()) return true;
  if (claim.state != ClaimState::kWritten || entry.workload->meta.Controller() != nullptr) return false;
  if (claim.replaced && entry.workload->status.admission != ToApi(claim.admission)) return true;
  const std::optional<CheckNames> names = ChecksOf(entry);
  return names.has_value() && (!claim.admitted || !names->empty() || !entry.workload->status.checks.empty());
}

std::optional<WantedWorkload> WorkloadController::Want(const std::string& uid) {
  Entry* entry = Find(uid);
  if (entry == nullptr || !leading() || !entry->problem.empty()) return std::nullopt;
  const Workload& workload = *entry->workload;
  WantedWorkload wanted;
  wanted.key = workload.meta.key();
  wanted.create = false;
  wanted.spec = workload.spec;
  if (IsOrphan(workload)) {
    wanted.facts.state = WorkloadFacts::State::kFinished;
    wanted.facts.finished_reason = "OwnerNotFound";
    wanted.facts.finished_message = "The workload's owner no longer exists";
    return wanted;
  }
  if (!entry->told.has_value() || (entry->claim.has_value() && !TellsWhileHolding(*entry))) return std::nullopt;
  wanted.facts = Facts(*entry);
  if (entry->claim.has_value() && entry->claim->eviction.has_value()) {
    const Eviction& eviction = *entry->claim->eviction;
    wanted.deactivate = eviction.reason == kDeactivated && !eviction.underlying_cause.empty() &&
                        !TellsOfEviction(workload.status, eviction);
    if (wanted.deactivate) wanted.facts.active = false;
  }
  return wanted;
}

void WorkloadController::WorkloadRefused(const std::string& uid, const std::string& message) {
  const Entry* entry = Find(uid);
  if (entry == nullptr) return;
  spdlog::warn("the status of a workload was refused{}", Fields(*entry->workload, {{"error", message}}));
}

std::string WorkloadController::NameOf(const std::string& uid) const {
  const auto it = entries_.find(uid);
  return it == entries_.end() ? std::string() : it->second.workload->meta.key().ToString();
}

std::optional<Party> WorkloadController::FindParty(const std::string& uid) const {
  const auto it = entries_.find(uid);
  return it == entries_.end() ? std::nullopt : std::optional(PartyOf(it->second));
}

Party WorkloadController::PartyOf(const Entry& entry) {
  Party out;
  out.workload_uid = entry.workload->meta.uid;
  out.workload = entry.workload->meta.key().ToString();
  return out;
}

void WorkloadController::Tell(const std::string& uid, const Evictions::Event& event) {
  const Entry* entry = Find(uid);
  if (entry == nullptr) return;
  Event(*entry->workload, event.reporter, event.type, event.reason, event.action, event.message);
}

// Where that was to show an eviction, the engine decides again: it may not be wanted any more.
void WorkloadController::WorkloadFailed(const std::string& uid) {
  Entry* entry = Find(uid);
  if (entry == nullptr || !leading() || !entry->claim.has_value()) return;
  Claim& claim = *entry->claim;
  if (claim.state == ClaimState::kLeaving || !claim.eviction.has_value() || !claim.decision.has_value()) return;
  claim.refused = std::exchange(claim.eviction, std::nullopt);
  Apply(engine::EvictionRefused{uid, claim.id, {}});
  deps_.env.executor->PostAt(deps_.env.clock->Mono() + kDecidedWithin,
                             [this, alive = std::weak_ptr<bool>(alive_), uid, id = claim.id] {
                               Entry* found = alive.expired() ? nullptr : Find(uid);
                               if (found == nullptr || !found->claim.has_value() || found->claim->id != id) return;
                               if (found->claim->refused.has_value()) found->claim->watched.reset();
                               found->claim->refused.reset();
                             });
}

engine::QueueRef WorkloadController::Queue(const Entry& entry) const {
  const Workload& workload = *entry.workload;
  engine::QueueRef out;
  out.ns = workload.meta.ns;
  out.local_queue = workload.spec.queue_name;
  out.cluster_queue = entry.claim.has_value() ? entry.claim->admission.cluster_queue
                                              : deps_.catalog->ClusterQueueOf(out.ns, out.local_queue);
  if (workload.spec.priority_class.has_value()) out.priority_class = workload.spec.priority_class->name;
  return out;
}

void WorkloadController::Event(const Workload& workload, std::string_view reporter, std::string_view type,
                               std::string_view reason, std::string_view action, std::string message) {
  deps_.events->Record(Reference(workload), reporter, type, reason, action, std::move(message));
}

}  // namespace muster::controller
