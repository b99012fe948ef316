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

int64_t WholeSeconds(Duration d) { return std::chrono::duration_cast<std::chrono::seconds>(d).count(); }

}  // namespace

WorkloadController::WorkloadController(Deps deps)
    : deps_(std::move(deps)),
      writer_(deps_.env, deps_.client, this, deps_.workload_returned),
      reservations_(deps_.env, deps_.client, deps_.workload_returned) {}

WorkloadController::~WorkloadController() = default;

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
  Entry& entry = entries_[uid];
  if (entry.workload == nullptr) entry.queued_since = workload->meta.creation;
  entry.workload = workload;
  writer_.Observe(uid, std::move(workload));
  if (!leading()) return;
  writer_.Touch(uid, Urgency::kLeisure);
  Reconcile(&entry);
}

void WorkloadController::WorkloadLeft(const std::string& uid) {
  const auto it = entries_.find(uid);
  if (it == entries_.end()) return;
  const bool told = it->second.told.has_value();
  entries_.erase(it);
  writer_.Forget(uid);
  if (told && leading()) Apply(engine::WorkloadDeleted{uid});
}

void WorkloadController::CatalogChanged(const std::string& ns) {
  if (!leading()) return;
  for (auto& [uid, entry] : entries_) {
    if (ns.empty() || entry.workload->meta.ns == ns) Reconcile(&entry);
  }
}

void WorkloadController::QueueChanged(const std::string& ns, const std::string& local_queue,
                                      const std::string& cluster_queue) {
  if (!leading()) return;
  for (auto& [uid, entry] : entries_) {
    const Workload& workload = *entry.workload;
    const bool hit = local_queue.empty()
                         ? deps_.catalog->ClusterQueueOf(workload.meta.ns, workload.spec.queue_name) == cluster_queue
                         : workload.meta.ns == ns && workload.spec.queue_name == local_queue;
    if (hit) writer_.Touch(uid, Urgency::kLeisure);
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

bool WorkloadController::AnyRecord() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const auto& e) { return HoldsQuota(*e.second.workload); });
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
  const auto job = workload.meta.labels.find(kJobUidLabel);
  return workload.meta.Controller() == nullptr && job != workload.meta.labels.end() && !deps_.job_exists(job->second);
}

void WorkloadController::Reconcile(Entry* entry) {
  if (!leading()) return;
  const Workload& workload = *entry->workload;
  if (entry->eviction.has_value() && ShowsEviction(workload.status, *entry->eviction)) entry->eviction.reset();
  // What came of a reservation that is under way is told when it is over.
  if (entry->claim.has_value() && entry->claim->state == ClaimState::kPlanned) return;
  if (k8s::IsTrue(workload.status.conditions, "Finished")) {
    Finish(entry);
  } else if (IsOrphan(workload)) {
    Untell(entry);
  } else if (entry->claim.has_value()) {
    ReconcileClaim(entry);
  } else if (!Adopt(entry)) {
    const bool queues =
        !workload.meta.deletion.IsSet() && workload.meta.Controller() == nullptr && !workload.templates.empty();
    queues ? Tell(entry, std::nullopt) : Untell(entry);
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
  if (claim.state == ClaimState::kLeaving) claim.eviction = EvictionOf(workload.status);
  for (int tries = 0; tries < 2; ++tries) {
    claim.id = (*held)->claim;
    entry->claim = claim;
    Tell(entry, *held);
    if (engine_->ViewWorkload(uid)->claim == claim.id) break;
    // It was given up before, and turned out to be true after all.
    (*held)->claim = deps_.adopted->New();
  }
  spdlog::info("a workload is found admitted{}", Fields(workload, {{"clusterQueue", claim.admission.cluster_queue},
                                                                   {"claim", entry->claim->id.ToString()}}));
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
  now.reclaimable_pods = object.status.reclaimable_pods;
  now.not_before = entry->not_before;
  now.catalog = deps_.catalog->version;
  now.holds = entry->claim.has_value();
  if (entry->told == now && !held.has_value()) return;
  entry->told = std::move(now);
  const engine::Admission* admitted = entry->claim.has_value() ? &entry->claim->admission : nullptr;
  entry->prepared = std::make_shared<const Prepared>(
      PrepareWorkload(object, admitted, *deps_.catalog, deps_.options->requests, &shapes_));
  engine::Workload workload = entry->prepared->workload;
  workload.not_before = entry->not_before;
  if (held.has_value()) {
    workload.held = engine::HeldClaim{held->claim, held->state, held->admission, held->reserved_at};
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
}

// ---- admission ----------------------------------------------------------------------------------

bool WorkloadController::Decided(const engine::Decision& decision) {
  Entry* entry = Find(std::visit([](const auto& d) { return d.uid; }, decision));
  if (entry == nullptr) return false;
  if (const auto* admit = std::get_if<engine::Admit>(&decision)) {
    HandleAdmit(entry, *admit);
  } else if (const auto* evict = std::get_if<engine::Evict>(&decision)) {
    HandleEvict(entry, *evict);
  } else {
    HandleHold(entry, std::get<engine::Hold>(decision));
  }
  return true;
}

void WorkloadController::HandleAdmit(Entry* entry, const engine::Admit& admit) {
  Claim claim;
  claim.id = admit.claim;
  claim.admission = admit.admission;
  claim.reserved_at = deps_.env.clock->Now();
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
  const std::string& cluster_queue = claim.admission.cluster_queue;
  const Duration waited = claim.reserved_at - entry->queued_since;
  const int64_t seconds = WholeSeconds(waited + std::chrono::milliseconds(500));
  Event(workload, kAdmissionReporter, "Normal", "QuotaReserved", "Admit",
        Cat("Quota reserved in ClusterQueue ", cluster_queue, ", wait time since queued was ", seconds, "s"));
  Event(workload, kAdmissionReporter, "Normal", "Admitted", "Admit",
        Cat("Admitted by ClusterQueue ", cluster_queue, ", wait time since reservation was 0s"));
  deps_.telemetry->QuotaReserved(Queue(*entry), waited);
  deps_.telemetry->Admitted(Queue(*entry), waited, Duration(0));
  spdlog::info("a workload is admitted{}", Fields(workload, {{"clusterQueue", cluster_queue},
                                                             {"localQueue", workload.spec.queue_name},
                                                             {"claim", claim.id.ToString()}}));
  Reconcile(entry);
}

void WorkloadController::DropClaim(Entry* entry, WallTime not_before, std::string message) {
  const engine::ClaimId id = entry->claim->id;
  entry->claim.reset();
  Apply(engine::ClaimRefused{entry->workload->meta.uid, id, not_before, std::move(message)});
  writer_.Touch(entry->workload->meta.uid, Urgency::kLeisure);
  Reconcile(entry);
}

void WorkloadController::HandleHold(Entry* entry, const engine::Hold& hold) {
  if (entry->reason.has_value() && SameKind(*entry->reason, hold.reason)) return;
  entry->reason = hold.reason;
  HideForeign(entry->workload->meta.ns, &*entry->reason);
  if (const std::optional<HoldEvent> event = EventOf(hold.reason); event.has_value()) {
    Event(*entry->workload, event->reporter, event->type, event->reason, "Hold", ReasonMessage(hold.reason));
  }
  writer_.Touch(hold.uid, Urgency::kLeisure);
}

// ---- the end of an admission --------------------------------------------------------------------

void WorkloadController::HandleEvict(Entry* entry, const engine::Evict& evict) {
  if (!entry->claim.has_value() || entry->claim->id != evict.claim || entry->claim->eviction.has_value()) return;
  Claim& claim = *entry->claim;
  const WorkloadStatus& status = entry->workload->status;
  Eviction eviction;
  eviction.reason = std::string(EvictedReason(evict.reason));
  eviction.message = EvictedMessage(evict.reason, {});
  eviction.preemption_reason = PreemptedReason(evict.reason);
  eviction.preemptor_uid = evict.preemptor_uid;
  eviction.at = deps_.env.clock->Now();
  eviction.past_execution_seconds = status.past_execution_seconds;
  eviction.totals = CountEviction(status.evictions, eviction.reason, eviction.underlying_cause);
  claim.past_execution_seconds =
      AddClamped(status.past_execution_seconds, std::max<int64_t>(0, WholeSeconds(eviction.at - claim.reserved_at)));
  claim.eviction = std::move(eviction);
  writer_.Touch(evict.uid, Urgency::kNow);
}

// The Workload shows the eviction.
void WorkloadController::NoteEvicted(Entry* entry) {
  Claim& claim = *entry->claim;
  claim.state = ClaimState::kLeaving;
  entry->reason.reset();
  Apply(engine::ClaimLeaving{entry->workload->meta.uid, claim.id});
  if (!claim.eviction.has_value()) return;  // somebody else's
  const Eviction& eviction = *claim.eviction;
  const auto count = std::find_if(eviction.totals.begin(), eviction.totals.end(), [&eviction](const auto& c) {
    return c.reason == eviction.reason && c.underlying_cause == eviction.underlying_cause;
  });
  deps_.telemetry->Evicted(Queue(*entry), eviction.reason, eviction.underlying_cause,
                           count != eviction.totals.end() && count->count == 1);
  const bool preempted = !eviction.preemption_reason.empty();
  Event(*entry->workload, preempted ? kAdmissionReporter : kWorkloadReporter, "Normal",
        Cat("EvictedDueTo", eviction.shown_reason()), "Evict", eviction.message);
  if (preempted) Event(*entry->workload, kAdmissionReporter, "Normal", "Preempted", "Preempt", eviction.message);
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
    const Duration ran = deps_.env.clock->Now() - entry->claim->reserved_at;
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
  if (entry.claim.has_value()) {
    facts.eviction = entry.claim->eviction;
    if (workload.meta.Controller() == nullptr) {
      facts.past_execution_seconds = entry.claim->past_execution_seconds;
      return facts;
    }
    facts.state = State::kEvicting;
    facts.admission = entry.claim->admission;
    facts.reserved_at = entry.claim->reserved_at;
    return facts;
  }
  facts.eviction = entry.eviction;
  if (entry.reason.has_value() && WorthShowing(*entry.reason, workload.status)) facts.reason = entry.reason;
  const bool told = entry.reason.has_value() && !entry.reason->obstacles.empty() && !deps_.options->release;
  if (told) facts.waits_for = entry.reason;
  if (entry.prepared != nullptr) facts.requests = entry.prepared->requests;
  return facts;
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
  // What holds quota says so already, and is left as it is until it is evicted.
  if (!entry->told.has_value() || (entry->claim.has_value() && !entry->claim->eviction.has_value())) {
    return std::nullopt;
  }
  wanted.facts = Facts(*entry);
  return wanted;
}

void WorkloadController::WorkloadRefused(const std::string& uid, const std::string& message) {
  const Entry* entry = Find(uid);
  if (entry == nullptr) return;
  spdlog::warn("the status of a workload was refused{}", Fields(*entry->workload, {{"error", message}}));
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
  deps_.events->Record({"kueue.x-k8s.io/v1beta2", "Workload", workload.meta.ns, workload.meta.name, workload.meta.uid},
                       reporter, type, reason, action, std::move(message));
}

}  // namespace muster::controller
