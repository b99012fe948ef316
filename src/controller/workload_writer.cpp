#include "workload_writer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "muster/controller/names.h"
#include "muster/k8s_client/resources.h"

namespace muster::controller {
namespace {

constexpr int kInFlightMax = 16;
// A Job that is admitted at once needs no write that says it waits.
constexpr Duration kLeisure = std::chrono::milliseconds(300);
// A name taken by somebody else's object does not come free soon.
constexpr int kUnprocessable = 422;
constexpr int kForbidden = 403;
constexpr int kConflict = 409;
constexpr int kNotFound = 404;

bool ShowsQuota(const Workload& workload) { return k8s::IsTrue(workload.status.conditions, "QuotaReserved"); }

bool WasResized(const Workload& known, const WantedWorkload& wanted) {
  const auto& had = known.spec.pod_sets;
  const auto& has = wanted.spec.pod_sets;
  return wanted.resizes && had.size() == 1 && has.size() == 1 && had.front().count != has.front().count;
}

std::string_view AnnotationOf(const Workload& workload, std::string_view key) {
  const auto it = workload.meta.annotations.find(key);
  return it == workload.meta.annotations.end() ? std::string_view() : it->second;
}

// A claim that the Workload names and no longer stands for, and a gate that is another by now. A Workload that was
// created while its Job waited names no claim, and is not written once more for that.
Labels StaleAnnotations(const Workload& known, const std::optional<WantedWorkload>& wanted) {
  Labels stale;
  if (!wanted.has_value()) return stale;
  const std::string_view claim = AnnotationOf(known, kClaimAnnotation);
  if (wanted->claim.IsSet() && !claim.empty() && claim != wanted->claim.ToString()) {
    stale.emplace(kClaimAnnotation, wanted->claim.ToString());
  }
  if (wanted->gated_by.has_value() && *wanted->gated_by != AnnotationOf(known, kAdmissionGatedByAnnotation)) {
    stale.emplace(kAdmissionGatedByAnnotation, *wanted->gated_by);
  }
  if (wanted->priority_note.has_value() && *wanted->priority_note != AnnotationOf(known, kPriorityEditAnnotation)) {
    stale.emplace(kPriorityEditAnnotation, *wanted->priority_note);
  }
  return stale;
}

// A gang may run again, in another queue, before its eviction was shown. The queue may only change while no quota is
// shown: that of the admission which is over is taken back first.
WorkloadFacts NextFacts(const Workload& known, const WantedWorkload& wanted) {
  WorkloadFacts facts = wanted.facts;
  const bool of_another_queue = wanted.claim.IsSet() && known.spec.queue_name != wanted.spec.queue_name;
  if (facts.state != WorkloadFacts::State::kAdmitted || !of_another_queue || !ShowsQuota(known)) return facts;
  facts.state = WorkloadFacts::State::kPending;
  facts.admission.reset();
  facts.waits_for.reset();
  return facts;
}

}  // namespace

WorkloadWriter::WorkloadWriter(Environment env, k8s::Client* client, WorkloadSource* source, Returned returned)
    : env_(env), client_(client), source_(source), returned_(std::move(returned)) {}

WorkloadWriter::~WorkloadWriter() {
  for (auto& [uid, entry] : entries_) env_.executor->Cancel(entry.timer);
}

WorkloadWriter::Entry* WorkloadWriter::Find(const std::string& holder) {
  const auto it = entries_.find(holder);
  return it == entries_.end() ? nullptr : &it->second;
}

std::shared_ptr<const Workload> WorkloadWriter::Known(const std::string& holder) const {
  const auto it = entries_.find(holder);
  return it == entries_.end() ? nullptr : it->second.known;
}

bool WorkloadWriter::Wrote(const std::string& holder, int32_t priority) const {
  const auto it = entries_.find(holder);
  return it != entries_.end() && it->second.sent_priority == priority;
}

bool WorkloadWriter::Settled(const std::string& holder) const {
  const auto it = entries_.find(holder);
  if (it == entries_.end()) return true;
  const Entry& entry = it->second;
  return !entry.busy && !entry.dirty && !entry.queued && entry.timer == 0;
}

void WorkloadWriter::ForEach(const std::function<void(const std::string& holder, const Workload&)>& visit) const {
  for (const auto& [uid, entry] : entries_) {
    if (entry.known != nullptr) visit(uid, *entry.known);
    for (const Ptr& other : entry.others) visit(uid, *other);
  }
}

void WorkloadWriter::Touch(const std::string& holder, Urgency urgency) {
  if (!open_) return;
  Entry& entry = entries_[holder];
  entry.dirty = true;
  if (entry.busy || entry.queued) return;
  if (urgency == Urgency::kNow) {
    env_.executor->Cancel(std::exchange(entry.timer, 0));
    Queue(holder, &entry);
  } else if (entry.timer == 0) {
    Delay(holder, &entry, kLeisure);
  }
}

void WorkloadWriter::Observe(const std::string& holder, std::shared_ptr<const Workload> workload) {
  Entry& entry = entries_[holder];
  const std::string& name = workload->meta.name;
  const auto same = std::find_if(entry.others.begin(), entry.others.end(),
                                 [&name](const Ptr& other) { return other->meta.name == name; });
  bool readable_again = false;
  if (entry.known != nullptr && entry.known->meta.name == name) {
    const bool first = entry.known->meta.uid != workload->meta.uid;
    entry.known = std::move(workload);
    readable_again = entry.progress.unreadable();
    entry.progress.Changed();
    if (first) source_->WorkloadKnown(holder);
  } else if (same != entry.others.end()) {
    *same = std::move(workload);
  } else {
    entry.others.push_back(std::move(workload));
  }
  Choose(holder, &entry);
  if (readable_again) Touch(holder, Urgency::kNow);
}

bool WorkloadWriter::Deleted(const std::string& holder, const std::string& workload_uid) {
  Entry* entry = Find(holder);
  if (entry == nullptr) return false;
  const auto is_gone = [&workload_uid](const Ptr& workload) { return workload->meta.uid == workload_uid; };
  entry->removing.erase(workload_uid);
  if (std::erase_if(entry->others, is_gone) > 0) return true;
  if (entry->known == nullptr || !is_gone(entry->known)) return false;
  entry->known = nullptr;
  entry->progress.Changed();
  Choose(holder, entry);
  return false;
}

std::vector<std::shared_ptr<const Workload>> WorkloadWriter::GiveUpOthers(const std::string& holder,
                                                                          const std::string& name) {
  std::vector<Ptr> given_up;
  Entry* entry = Find(holder);
  if (entry == nullptr) return given_up;
  if (entry->known != nullptr && entry->known->meta.name != name) {
    given_up.push_back(std::exchange(entry->known, nullptr));
    entry->progress.Changed();
  }
  std::erase_if(entry->others, [&](const Ptr& other) {
    if (other->meta.name != name) given_up.push_back(other);
    return other->meta.name != name;
  });
  Choose(holder, entry);
  return given_up;
}

int WorkloadWriter::Rank(const Workload& workload, const std::string& holder) const {
  if (source_->IsExpected(workload.meta, holder)) return 2;
  // Whoever may create Workloads may not write their status. What Muster itself has admitted carries a claim, and was
  // no Job's then.
  const bool claimed = workload.meta.annotations.contains(kClaimAnnotation);
  return !claimed && k8s::FindCondition(workload.status.conditions, "QuotaReserved") != nullptr ? 1 : 0;
}

void WorkloadWriter::Choose(const std::string& holder) {
  if (Entry* entry = Find(holder); entry != nullptr) Choose(holder, entry);
}

void WorkloadWriter::Choose(const std::string& holder, Entry* entry) {
  if (entry->known != nullptr && Rank(*entry->known, holder) == 0) {
    entry->others.push_back(std::exchange(entry->known, nullptr));
    entry->progress.Changed();
  }
  if (entry->others.empty()) return;
  const auto order = [this, &holder](const Ptr& w) {
    return std::tuple(-Rank(*w, holder), w->meta.creation, w->meta.name);
  };
  const auto best = std::min_element(entry->others.begin(), entry->others.end(),
                                     [&order](const Ptr& a, const Ptr& b) { return order(a) < order(b); });
  if (best == entry->others.end() || Rank(**best, holder) == 0) return;
  if (entry->known != nullptr && order(entry->known) < order(*best)) return;
  Ptr former = std::exchange(entry->known, *best);
  entry->others.erase(best);
  if (former != nullptr) entry->others.push_back(std::move(former));
  entry->progress.Changed();
  source_->WorkloadKnown(holder);
}

void WorkloadWriter::Forget(const std::string& holder) {
  const auto it = entries_.find(holder);
  if (it == entries_.end()) return;
  env_.executor->Cancel(it->second.timer);
  entries_.erase(it);
}

void WorkloadWriter::Queue(const std::string& holder, Entry* entry) {
  entry->queued = true;
  ready_.push_back(holder);
  SchedulePump();
}

void WorkloadWriter::Delay(const std::string& holder, Entry* entry, Duration delay) {
  env_.executor->Cancel(entry->timer);
  entry->timer = env_.executor->PostAt(env_.clock->Mono() + delay, [this, holder] {
    Entry* due = Find(holder);
    if (due == nullptr) return;
    due->timer = 0;
    if (!due->busy && !due->queued) Queue(holder, due);
  });
}

void WorkloadWriter::SchedulePump() {
  if (std::exchange(pump_posted_, true)) return;
  env_.executor->Post([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    pump_posted_ = false;
    Pump();
  });
}

void WorkloadWriter::Pump() {
  while (in_flight_ < std::min(kInFlightMax, client_->yielding_slots()) && !ready_.empty()) {
    const std::string uid = std::move(ready_.front());
    ready_.pop_front();
    Entry* entry = Find(uid);
    if (entry == nullptr || !entry->queued) continue;
    entry->queued = false;
    Sync(uid, entry);
  }
}

void WorkloadWriter::Sync(const std::string& holder, Entry* entry) {
  entry->dirty = false;
  std::optional<WantedWorkload> wanted = source_->Want(holder);
  RemoveOthers(holder, entry, wanted.has_value() && wanted->remove_others);
  if (entry->progress.unreadable()) return;
  if (entry->known == nullptr) {
    if (wanted.has_value() && wanted->create) Create(holder, entry, *wanted);
    return;
  }
  const Workload& known = *entry->known;
  const bool deleting = known.meta.deletion.IsSet();
  if (!wanted.has_value() && !deleting) return;
  const Labels stale = StaleAnnotations(known, wanted);
  if (HasKueueFinalizer(known) || !stale.empty()) {
    // Nobody else takes the finalizer away any more; and the status is never told under another claim's id.
    WantedWorkload leave;
    leave.key = known.meta.key();
    leave.create = false;
    return Patch(holder, entry, wanted.value_or(leave), EncodeMetaPatch(known, stale), std::nullopt);
  }
  if (deleting) return;
  if (wanted->deactivate && known.active) {
    return Patch(holder, entry, *wanted, EncodeDeactivation(known), std::nullopt);
  }
  if (wanted->facts.state != WorkloadFacts::State::kFinished &&
      (NeedsSpecPatch(known.spec, wanted->spec, ShowsQuota(known)) || WasResized(known, *wanted))) {
    PatchSpec(holder, entry, *wanted);
    return;
  }
  const WorkloadStatus status =
      ProjectStatus(known.status, known.meta.generation, NextFacts(known, *wanted), env_.clock->Now());
  std::string body = EncodeStatusPatch(known, status);
  if (body.empty()) return;
  Sent(entry);
  client_->Patch(k8s::Lane::kWorkload, k8s::kWorkloads, known.meta.key(), "status", k8s::PatchType::kMergePatch,
                 std::move(body),
                 [this, alive = std::weak_ptr<bool>(alive_), holder, w = *std::move(wanted)](k8s::Result result) {
                   if (!alive.expired()) Answered(holder, w, false, result);
                 });
}

// Beside the writes to the Job's own, which must not wait for it. All that are known, since one may be kept for long.
void WorkloadWriter::RemoveOthers(const std::string& holder, Entry* entry, bool wanted) {
  for (const Ptr& other : entry->others) {
    if (other->meta.deletion.IsSet() ? !HasKueueFinalizer(*other) : !wanted) continue;
    std::string& acted_on = entry->removing[other->meta.uid];
    if (acted_on == other->meta.resource_version) continue;
    if (in_flight_ >= kInFlightMax) {
      if (entry->timer == 0) Delay(holder, entry, kLeisure);
      return;
    }
    acted_on = other->meta.resource_version;
    Remove(holder, *other);
  }
}

void WorkloadWriter::Remove(const std::string& holder, const Workload& other) {
  const bool deleted = !other.meta.deletion.IsSet();
  ++in_flight_;
  auto on_answer = [this, alive = std::weak_ptr<bool>(alive_), holder, meta = other.meta,
                    deleted](const k8s::Result& result) {
    if (!alive.expired()) RemoveAnswered(holder, meta, deleted, result);
  };
  if (deleted) {
    client_->Delete(k8s::Lane::kWorkload, k8s::kWorkloads, other.meta.key(), other.meta.uid, "Background",
                    std::move(on_answer));
  } else {
    client_->Patch(k8s::Lane::kWorkload, k8s::kWorkloads, other.meta.key(), "", k8s::PatchType::kMergePatch,
                   EncodeMetaPatch(other, {}), std::move(on_answer));
  }
}

void WorkloadWriter::RemoveAnswered(const std::string& holder, const k8s::ObjectMeta& other, bool deleted,
                                    const k8s::Result& result) {
  --in_flight_;
  SchedulePump();
  if (result.ok() && deleted) source_->WorkloadRemoved(holder, other.key());
  if (result.code == kForbidden) source_->WorkloadRefused(holder, result.message);
  Entry* entry = Find(holder);
  if (entry == nullptr) return;
  // What came of it, and what is left to do, the watch tells.
  if (!result.ok() && result.code != kNotFound && result.code != kConflict) {
    entry->removing.erase(other.uid);
    if (entry->timer == 0) Delay(holder, entry, env_.random->Jitter(entry->backoff.Next(), 20));
  }
}

void WorkloadWriter::Create(const std::string& holder, Entry* entry, const WantedWorkload& wanted) {
  const std::optional<WorkloadBody> body = wanted.body();
  if (!body.has_value()) return;
  Sent(entry);
  entry->sent_priority = body->spec.priority;
  client_->Create(k8s::Lane::kWorkload, k8s::kWorkloads, body->ns, EncodeWorkload(*body),
                  [this, alive = std::weak_ptr<bool>(alive_), holder, wanted](k8s::Result result) {
                    if (!alive.expired()) Answered(holder, wanted, true, result);
                  });
}

void WorkloadWriter::PatchSpec(const std::string& holder, Entry* entry, const WantedWorkload& wanted) {
  const Workload& known = *entry->known;
  WorkloadSpec spec = wanted.spec;
  if (ShowsQuota(known)) {
    // Only the priority may change now, and the size of an elastic one.
    spec = known.spec;
    spec.priority = wanted.spec.priority;
    spec.priority_class = wanted.spec.priority_class;
    if (WasResized(known, wanted)) spec.pod_sets.front().count = wanted.spec.pod_sets.front().count;
  }
  if (spec.priority != known.spec.priority) entry->sent_priority = spec.priority;
  std::vector<PodSetText> texts;
  if (spec.pod_sets != known.spec.pod_sets) {
    std::optional<WorkloadBody> body = wanted.body();
    if (!body.has_value()) return;
    texts = std::move(body->texts);
  }
  // Of another queue alone nothing is told.
  std::optional<bool> told_as_priority;
  if (!texts.empty()) {
    if (!ShowsQuota(known)) told_as_priority = false;
  } else if (spec.priority != known.spec.priority || spec.priority_class != known.spec.priority_class) {
    told_as_priority = true;
  }
  Patch(holder, entry, wanted, EncodeSpecPatch(known, spec, texts), told_as_priority);
}

void WorkloadWriter::Patch(const std::string& holder, Entry* entry, const WantedWorkload& wanted, std::string body,
                           std::optional<bool> priority_only) {
  Sent(entry);
  client_->Patch(k8s::Lane::kWorkload, k8s::kWorkloads, entry->known->meta.key(), "", k8s::PatchType::kMergePatch,
                 std::move(body),
                 [this, alive = std::weak_ptr<bool>(alive_), holder, wanted, priority_only](k8s::Result result) {
                   if (alive.expired()) return;
                   if (result.ok() && priority_only.has_value()) source_->WorkloadUpdated(holder, *priority_only);
                   Answered(holder, wanted, false, result);
                 });
}

void WorkloadWriter::Sent(Entry* entry) {
  entry->busy = true;
  entry->progress.Sent(entry->known == nullptr ? std::string() : entry->known->meta.resource_version);
  ++in_flight_;
}

void WorkloadWriter::Answered(const std::string& holder, const WantedWorkload& wanted, bool create,
                              const k8s::Result& result) {
  --in_flight_;
  SchedulePump();
  Entry* entry = Find(holder);
  if (entry == nullptr) return;
  entry->busy = false;
  if (result.ok()) {
    Learn(holder, entry, result.body, create);
    return;
  }
  if (result.code == kConflict) {
    Fetch(holder, wanted.key);
    return;
  }
  if (result.code == kNotFound && !create) {
    // Deleted meanwhile; the watch will say so. If it was only the watch that was behind, a create meets it.
    entry->known = nullptr;
  }
  if (result.code == kUnprocessable || result.code == kForbidden || (result.code == kNotFound && create)) {
    source_->WorkloadRefused(holder, result.message);
  }
  Failed(holder, entry, result);
}

void WorkloadWriter::Failed(const std::string& holder, Entry* entry, const k8s::Result& result) {
  entry->dirty = true;
  source_->WorkloadFailed(holder);
  const Duration wait = std::max(entry->backoff.Next(), result.retry_after.value_or(Duration(0)));
  Delay(holder, entry, env_.random->Jitter(wait, 20));
}

void WorkloadWriter::Fetch(const std::string& holder, const k8s::ObjectKey& key) {
  Entry* entry = Find(holder);
  entry->busy = true;
  ++in_flight_;
  client_->Get(k8s::kWorkloads, key, [this, alive = std::weak_ptr<bool>(alive_), holder](k8s::Result result) {
    if (!alive.expired()) Fetched(holder, result);
  });
}

void WorkloadWriter::Fetched(const std::string& holder, const k8s::Result& result) {
  --in_flight_;
  SchedulePump();
  Entry* entry = Find(holder);
  if (entry == nullptr) return;
  entry->busy = false;
  if (result.code == kNotFound) {
    entry->known = nullptr;
    Failed(holder, entry, result);
    return;
  }
  if (!result.ok()) {
    Failed(holder, entry, result);
    return;
  }
  Learn(holder, entry, result.body, false);
}

void WorkloadWriter::Learn(const std::string& holder, Entry* entry, const std::string& json, bool created) {
  const k8s::ObjectMeta meta = k8s::ReadMeta(json);
  if (!meta.resource_version.empty() && !source_->IsOf(meta, holder)) {
    source_->WorkloadRefused(holder, "the name " + meta.key().ToString() + " is taken by another owner");
    Failed(holder, entry, {});
    return;
  }
  returned_(json);
  entry = Find(holder);
  if (created && entry != nullptr && entry->known != nullptr && entry->known->meta.uid == meta.uid) {
    source_->WorkloadCreated(holder);
    entry = Find(holder);
  }
  if (entry == nullptr) return;
  switch (
      entry->progress.Answered(entry->known == nullptr ? std::string() : entry->known->meta.resource_version, json)) {
    case WriteProgress::Step::kMoved:
      // The status follows the create, and what changed meanwhile follows the status.
      entry->backoff.Reset();
      Touch(holder, Urgency::kNow);
      break;
    case WriteProgress::Step::kNone:
      Failed(holder, entry, {});
      break;
    case WriteProgress::Step::kUnreadable:
      break;
  }
}

}  // namespace muster::controller
