#include "workload_writer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "muster/controller/names.h"
#include "muster/core/log_fields.h"
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

}  // namespace

WorkloadWriter::WorkloadWriter(Environment env, k8s::Client* client, WorkloadSource* source, Returned returned)
    : env_(env), client_(client), source_(source), returned_(std::move(returned)) {}

WorkloadWriter::~WorkloadWriter() {
  for (auto& [uid, entry] : entries_) env_.executor->Cancel(entry.timer);
}

WorkloadWriter::Entry* WorkloadWriter::Find(const std::string& job_uid) {
  const auto it = entries_.find(job_uid);
  return it == entries_.end() ? nullptr : &it->second;
}

std::shared_ptr<const Workload> WorkloadWriter::Known(const std::string& job_uid) const {
  const auto it = entries_.find(job_uid);
  return it == entries_.end() ? nullptr : it->second.known;
}

bool WorkloadWriter::Wrote(const std::string& job_uid, int32_t priority) const {
  const auto it = entries_.find(job_uid);
  return it != entries_.end() && it->second.sent_priority == priority;
}

bool WorkloadWriter::Settled(const std::string& job_uid) const {
  const auto it = entries_.find(job_uid);
  if (it == entries_.end()) return true;
  const Entry& entry = it->second;
  return !entry.busy && !entry.dirty && !entry.queued && entry.timer == 0;
}

void WorkloadWriter::ForEachKnown(const std::function<void(const std::string& job_uid, const Workload&)>& visit) const {
  for (const auto& [uid, entry] : entries_) {
    if (entry.known != nullptr) visit(uid, *entry.known);
  }
}

void WorkloadWriter::Touch(const std::string& job_uid, Urgency urgency) {
  if (!open_) return;
  Entry& entry = entries_[job_uid];
  entry.dirty = true;
  if (entry.busy || entry.queued) return;
  if (urgency == Urgency::kNow) {
    env_.executor->Cancel(std::exchange(entry.timer, 0));
    Queue(job_uid, &entry);
  } else if (entry.timer == 0) {
    Delay(job_uid, &entry, kLeisure);
  }
}

void WorkloadWriter::Observe(const std::string& job_uid, std::shared_ptr<const Workload> workload) {
  Entry& entry = entries_[job_uid];
  const bool first = entry.known == nullptr || entry.known->meta.uid != workload->meta.uid;
  entry.known = std::move(workload);
  const bool readable_again = std::exchange(entry.unreadable, false);
  if (first) source_->WorkloadKnown(job_uid);
  if (readable_again) Touch(job_uid, Urgency::kNow);
}

void WorkloadWriter::Deleted(const std::string& job_uid, const std::string& workload_uid) {
  Entry* entry = Find(job_uid);
  if (entry == nullptr || entry->known == nullptr || entry->known->meta.uid != workload_uid) return;
  entry->known = nullptr;
  entry->unreadable = false;
}

void WorkloadWriter::Forget(const std::string& job_uid) {
  const auto it = entries_.find(job_uid);
  if (it == entries_.end()) return;
  env_.executor->Cancel(it->second.timer);
  entries_.erase(it);
}

void WorkloadWriter::Queue(const std::string& job_uid, Entry* entry) {
  entry->queued = true;
  ready_.push_back(job_uid);
  SchedulePump();
}

void WorkloadWriter::Delay(const std::string& job_uid, Entry* entry, Duration delay) {
  env_.executor->Cancel(entry->timer);
  entry->timer = env_.executor->PostAt(env_.clock->Mono() + delay, [this, job_uid] {
    Entry* due = Find(job_uid);
    if (due == nullptr) return;
    due->timer = 0;
    if (!due->busy && !due->queued) Queue(job_uid, due);
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

void WorkloadWriter::Sync(const std::string& job_uid, Entry* entry) {
  entry->dirty = false;
  if (entry->unreadable) return;
  std::optional<WantedWorkload> wanted = source_->Want(job_uid);
  if (entry->known == nullptr) {
    if (wanted.has_value() && wanted->create) Create(job_uid, entry, *wanted);
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
    return Patch(job_uid, entry, wanted.value_or(leave), EncodeMetaPatch(known, stale), std::nullopt);
  }
  if (deleting) return;
  if (wanted->deactivate && known.active) {
    return Patch(job_uid, entry, *wanted, EncodeDeactivation(known), std::nullopt);
  }
  if (wanted->facts.state != WorkloadFacts::State::kFinished &&
      NeedsSpecPatch(known.spec, wanted->spec, ShowsQuota(known))) {
    PatchSpec(job_uid, entry, *wanted);
    return;
  }
  const WorkloadStatus status = ProjectStatus(known.status, known.meta.generation, wanted->facts, env_.clock->Now());
  std::string body = EncodeStatusPatch(known, status);
  if (body.empty()) return;
  Sent(entry);
  client_->Patch(k8s::Lane::kWorkload, k8s::kWorkloads, known.meta.key(), "status", k8s::PatchType::kMergePatch,
                 std::move(body),
                 [this, alive = std::weak_ptr<bool>(alive_), job_uid, w = *std::move(wanted)](k8s::Result result) {
                   if (!alive.expired()) Answered(job_uid, w, false, result);
                 });
}

void WorkloadWriter::Create(const std::string& job_uid, Entry* entry, const WantedWorkload& wanted) {
  const std::optional<WorkloadBody> body = wanted.body();
  if (!body.has_value()) return;
  Sent(entry);
  entry->sent_priority = body->spec.priority;
  client_->Create(k8s::Lane::kWorkload, k8s::kWorkloads, body->ns, EncodeWorkload(*body),
                  [this, alive = std::weak_ptr<bool>(alive_), job_uid, wanted](k8s::Result result) {
                    if (!alive.expired()) Answered(job_uid, wanted, true, result);
                  });
}

void WorkloadWriter::PatchSpec(const std::string& job_uid, Entry* entry, const WantedWorkload& wanted) {
  const Workload& known = *entry->known;
  WorkloadSpec spec = wanted.spec;
  if (ShowsQuota(known)) {
    // Only the priority may change now.
    spec = known.spec;
    spec.priority = wanted.spec.priority;
    spec.priority_class = wanted.spec.priority_class;
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
    told_as_priority = false;
  } else if (spec.priority != known.spec.priority || spec.priority_class != known.spec.priority_class) {
    told_as_priority = true;
  }
  Patch(job_uid, entry, wanted, EncodeSpecPatch(known, spec, texts), told_as_priority);
}

void WorkloadWriter::Patch(const std::string& job_uid, Entry* entry, const WantedWorkload& wanted, std::string body,
                           std::optional<bool> priority_only) {
  Sent(entry);
  client_->Patch(k8s::Lane::kWorkload, k8s::kWorkloads, entry->known->meta.key(), "", k8s::PatchType::kMergePatch,
                 std::move(body),
                 [this, alive = std::weak_ptr<bool>(alive_), job_uid, wanted, priority_only](k8s::Result result) {
                   if (alive.expired()) return;
                   if (result.ok() && priority_only.has_value()) source_->WorkloadUpdated(job_uid, *priority_only);
                   Answered(job_uid, wanted, false, result);
                 });
}

void WorkloadWriter::Sent(Entry* entry) {
  entry->busy = true;
  entry->sent_version = entry->known == nullptr ? std::string() : entry->known->meta.resource_version;
  ++in_flight_;
}

void WorkloadWriter::Answered(const std::string& job_uid, const WantedWorkload& wanted, bool create,
                              const k8s::Result& result) {
  --in_flight_;
  SchedulePump();
  Entry* entry = Find(job_uid);
  if (entry == nullptr) return;
  entry->busy = false;
  if (result.ok()) {
    Learn(job_uid, entry, result.body, create);
    return;
  }
  if (result.code == kConflict) {
    Fetch(job_uid, wanted.key);
    return;
  }
  if (result.code == kNotFound && !create) {
    // Deleted meanwhile; the watch will say so. If it was only the watch that was behind, a create meets it.
    entry->known = nullptr;
  }
  if (result.code == kUnprocessable || result.code == kForbidden || (result.code == kNotFound && create)) {
    source_->WorkloadRefused(job_uid, result.message);
  }
  Failed(job_uid, entry, result);
}

void WorkloadWriter::Failed(const std::string& job_uid, Entry* entry, const k8s::Result& result) {
  entry->dirty = true;
  const Duration wait = std::max(entry->backoff.Next(), result.retry_after.value_or(Duration(0)));
  Delay(job_uid, entry, env_.random->Jitter(wait, 20));
}

void WorkloadWriter::Fetch(const std::string& job_uid, const k8s::ObjectKey& key) {
  Entry* entry = Find(job_uid);
  entry->busy = true;
  ++in_flight_;
  client_->Get(k8s::kWorkloads, key, [this, alive = std::weak_ptr<bool>(alive_), job_uid](k8s::Result result) {
    if (!alive.expired()) Fetched(job_uid, result);
  });
}

void WorkloadWriter::Fetched(const std::string& job_uid, const k8s::Result& result) {
  --in_flight_;
  SchedulePump();
  Entry* entry = Find(job_uid);
  if (entry == nullptr) return;
  entry->busy = false;
  if (result.code == kNotFound) {
    entry->known = nullptr;
    Failed(job_uid, entry, result);
    return;
  }
  if (!result.ok()) {
    Failed(job_uid, entry, result);
    return;
  }
  Learn(job_uid, entry, result.body, false);
}

void WorkloadWriter::Learn(const std::string& job_uid, Entry* entry, const std::string& json, bool created) {
  auto decoded = DecodeWorkload(json);
  if (!decoded.ok()) {
    spdlog::error("a workload that was written cannot be read{}",
                  LogFields({{"error", std::string(decoded.status().message())}}));
    // A state that was not taken, and the watch has brought no later one: any write would meet it. An answer that is
    // no object at all tells nothing.
    entry->unreadable = entry->known != nullptr && entry->known->meta.resource_version == entry->sent_version &&
                        !k8s::ReadMeta(json).resource_version.empty();
    if (!entry->unreadable) Failed(job_uid, entry, {});
    return;
  }
  if (const std::optional<JobRef> job = JobOf(decoded->meta); !job.has_value() || job->uid != job_uid) {
    source_->WorkloadRefused(job_uid, "the name " + decoded->meta.key().ToString() + " is taken by another owner");
    Failed(job_uid, entry, {});
    return;
  }
  returned_(json);
  if (created) source_->WorkloadCreated(job_uid);
  entry = Find(job_uid);
  if (entry == nullptr) return;
  if (entry->known != nullptr && entry->known->meta.resource_version == entry->sent_version) {
    Failed(job_uid, entry, {});  // refused, or without effect, though nothing has changed
    return;
  }
  // The status follows the create, and what changed meanwhile follows the status.
  entry->backoff.Reset();
  Touch(job_uid, Urgency::kNow);
}

}  // namespace muster::controller
