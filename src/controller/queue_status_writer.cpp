#include "queue_status_writer.h"

#include <utility>
#include <vector>

namespace muster::controller {
namespace {

constexpr Duration kBatch = std::chrono::seconds(1);
constexpr int kConflict = 409;
constexpr int kNotFound = 404;

}  // namespace

QueueStatusWriter::QueueStatusWriter(Environment env, k8s::Client* client, const k8s::Resource& resource,
                                     QueueKind kind, Project project, Returned returned)
    : env_(env),
      client_(client),
      resource_(resource),
      kind_(kind),
      project_(std::move(project)),
      returned_(std::move(returned)) {}

QueueStatusWriter::~QueueStatusWriter() { env_.executor->Cancel(timer_); }

void QueueStatusWriter::Observe(std::shared_ptr<const QueueObject> object) {
  const k8s::ObjectKey key = object->meta.key();
  Entry& entry = entries_[key];
  entry.known = std::move(object);
  entry.progress.Changed();
  Touch(key);
}

void QueueStatusWriter::Deleted(const k8s::ObjectKey& key) {
  entries_.erase(key);
  dirty_.erase(key);
}

void QueueStatusWriter::Touch(const k8s::ObjectKey& key) {
  const auto it = entries_.find(key);
  if (!open_ || it == entries_.end()) return;
  dirty_.insert(key);
  Arm(std::max(env_.clock->Mono() + kBatch, it->second.not_before));
}

void QueueStatusWriter::Arm(MonoTime when) {
  if (timer_ != 0 && due_ <= when) return;
  env_.executor->Cancel(timer_);
  due_ = when;
  timer_ = env_.executor->PostAt(when, [this] {
    timer_ = 0;
    Flush();
  });
}

void QueueStatusWriter::Flush() {
  const MonoTime now = env_.clock->Mono();
  std::vector<k8s::ObjectKey> due;
  MonoTime next{INT64_MAX};
  for (const k8s::ObjectKey& key : dirty_) {
    Entry& entry = entries_.at(key);
    if (entry.busy) continue;
    if (entry.not_before > now) {
      next = std::min(next, entry.not_before);
    } else {
      due.push_back(key);
    }
  }
  for (const k8s::ObjectKey& key : due) {
    dirty_.erase(key);
    Sync(key, &entries_.at(key));
  }
  if (next.nanos != INT64_MAX) Arm(next);
}

void QueueStatusWriter::Sync(const k8s::ObjectKey& key, Entry* entry) {
  if (entry->progress.unreadable()) return;
  const std::optional<QueueStatus> wanted = project_(*entry->known);
  if (!wanted.has_value()) return;
  std::string body = EncodeStatusPatch(*entry->known, *wanted, kind_);
  if (body.empty()) return;
  entry->busy = true;
  entry->progress.Sent(entry->known->meta.resource_version);
  client_->Patch(k8s::Lane::kStatus, resource_, key, "status", k8s::PatchType::kMergePatch, std::move(body),
                 [this, alive = std::weak_ptr<bool>(alive_), key](k8s::Result result) {
                   if (!alive.expired()) Answered(key, result);
                 });
}

void QueueStatusWriter::Answered(const k8s::ObjectKey& key, const k8s::Result& result) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;
  it->second.busy = false;
  if (result.code == kConflict) {
    it->second.busy = true;
    client_->Get(resource_, key, [this, alive = std::weak_ptr<bool>(alive_), key](k8s::Result got) {
      if (!alive.expired()) Fetched(key, got);
    });
    return;
  }
  if (!result.ok()) {
    Failed(key, result);
    return;
  }
  Fetched(key, result);
}

void QueueStatusWriter::Fetched(const k8s::ObjectKey& key, const k8s::Result& result) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;
  it->second.busy = false;
  if (!result.ok()) {
    Failed(key, result);
    return;
  }
  returned_(result.body);
  const auto again = entries_.find(key);
  if (again == entries_.end()) return;
  Entry& entry = again->second;
  switch (entry.progress.Answered(entry.known->meta.resource_version, result.body)) {
    case WriteProgress::Step::kMoved:
      entry.backoff.Reset();
      Touch(key);
      break;
    case WriteProgress::Step::kNone:
      Failed(key, result);
      break;
    case WriteProgress::Step::kUnreadable:
      break;
  }
}

void QueueStatusWriter::Failed(const k8s::ObjectKey& key, const k8s::Result& result) {
  // Deleted: the watch will say so.
  if (result.code == kNotFound) return;
  Entry& entry = entries_.at(key);
  const Duration wait = std::max(entry.backoff.Next(), result.retry_after.value_or(Duration(0)));
  entry.not_before = env_.clock->Mono() + env_.random->Jitter(wait, 20);
  dirty_.insert(key);
  Arm(entry.not_before);
}

}  // namespace muster::controller
