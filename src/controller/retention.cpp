#include "retention.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "muster/controller/names.h"
#include "muster/core/log_fields.h"
#include "muster/k8s_client/resources.h"

namespace muster::controller {
namespace {

constexpr int kInFlightMax = 8;
constexpr Duration kRetry = std::chrono::minutes(1);
constexpr int kNotFound = 404;
constexpr int kConflict = 409;

// The cause of a deactivation by Muster; a user's own has none.
constexpr std::string_view kDeactivatedDueTo = "DeactivatedDueTo";

const k8s::Condition* IfTrue(const Workload& workload, std::string_view type) {
  const k8s::Condition* condition = k8s::FindCondition(workload.status.conditions, type);
  return condition != nullptr && condition->status == "True" ? condition : nullptr;
}

}  // namespace

Retention::Retention(Environment env, k8s::Client* client, k8s::EventRecorder* events, RetentionOptions options,
                     IsOut is_out)
    : env_(env), client_(client), events_(events), options_(options), is_out_(std::move(is_out)) {}

Retention::~Retention() { env_.executor->Cancel(timer_); }

void Retention::Open() {
  open_ = true;
  Arm();
}

std::optional<Retention::Item> Retention::ItemOf(const Workload& workload) const {
  const std::optional<JobRef> job = JobOf(workload.meta);
  if (!job.has_value() || workload.meta.deletion.IsSet()) return std::nullopt;
  Item item;
  item.workload_uid = workload.meta.uid;
  if (const k8s::Condition* finished = IfTrue(workload, "Finished"); finished != nullptr) {
    if (!options_.after_finished.has_value()) return std::nullopt;
    item.due = finished->last_transition + *options_.after_finished;
    item.object = {"kueue.x-k8s.io/v1beta2", "Workload", workload.meta.ns, workload.meta.name, workload.meta.uid};
    return item;
  }
  const k8s::Condition* evicted = IfTrue(workload, "Evicted");
  if (!options_.after_deactivated.has_value() || evicted == nullptr || workload.active ||
      !evicted->reason.starts_with(kDeactivatedDueTo) || IfTrue(workload, "QuotaReserved") != nullptr) {
    return std::nullopt;
  }
  item.due = evicted->last_transition + *options_.after_deactivated;
  item.job = true;
  item.object = {"batch/v1", "Job", workload.meta.ns, job->name, job->uid};
  return item;
}

void Retention::Observe(const Workload& workload) {
  const k8s::ObjectKey key = workload.meta.key();
  std::optional<Item> item = ItemOf(workload);
  if (const auto known = items_.find(key); known != items_.end() && item.has_value() &&
                                           known->second.due == item->due && known->second.job == item->job &&
                                           known->second.object.uid == item->object.uid) {
    return;
  }
  Drop(key);
  if (!item.has_value()) return;
  Add(key, *std::move(item));
  Arm();
}

void Retention::Add(const k8s::ObjectKey& workload, Item item) {
  due_.emplace(item.due, workload);
  items_.emplace(workload, std::move(item));
}

void Retention::Deleted(const Workload& last) { Drop(last.meta.key()); }

void Retention::Drop(const k8s::ObjectKey& workload) {
  const auto it = items_.find(workload);
  if (it == items_.end()) return;
  due_.erase({it->second.due, workload});
  items_.erase(it);
}

void Retention::Arm() {
  if (!open_ || due_.empty() || in_flight_ >= kInFlightMax) return;
  const Duration wait = std::max(due_.begin()->first - env_.clock->Now(), Duration(0));
  env_.executor->Cancel(timer_);
  timer_ = env_.executor->PostAt(env_.clock->Mono() + wait, [this] {
    timer_ = 0;
    Flush();
  });
}

void Retention::Flush() {
  while (in_flight_ < kInFlightMax && !due_.empty() && due_.begin()->first <= env_.clock->Now()) {
    const k8s::ObjectKey key = due_.begin()->second;
    Item item = items_.at(key);
    Drop(key);
    if (item.job && !is_out_(item.object.uid, item.workload_uid)) {
      // Runs, or is nobody's of ours any more: it stays for as long as that is so.
      item.due = env_.clock->Now() + kRetry;
      Add(key, std::move(item));
      continue;
    }
    Delete(key, std::move(item));
  }
  Arm();
}

void Retention::Delete(const k8s::ObjectKey& workload, Item item) {
  ++in_flight_;
  const k8s::Resource& resource = item.job ? k8s::kJobs : k8s::kWorkloads;
  const k8s::ObjectKey key{item.object.ns, item.object.name};
  const std::string uid = item.object.uid;
  client_->Delete(
      k8s::Lane::kWorkload, resource, key, uid, "Background",
      [this, alive = std::weak_ptr<bool>(alive_), workload, item = std::move(item)](const k8s::Result& result) {
        if (!alive.expired()) Answered(workload, item, result);
      });
}

void Retention::Answered(const k8s::ObjectKey& workload, const Item& item, const k8s::Result& result) {
  --in_flight_;
  if (result.ok()) {
    spdlog::info("deleted since the time to keep it is over{}",
                 LogFields({{"kind", item.object.kind}, {"namespace", item.object.ns}, {"name", item.object.name}}));
    item.job ? events_->Record(item.object, kJobReporter, "Normal", "Deleted", "Delete",
                               "Deleted job: deactivation retention period expired")
             : events_->Record(item.object, kWorkloadReporter, "Normal", "Deleted", "Delete",
                               "Deleted finished workload due to elapsed retention");
  } else if (result.code != kNotFound && result.code != kConflict && !items_.contains(workload)) {
    // Gone, or another object under this name: somebody was faster. All else is tried again.
    spdlog::warn("what is to be deleted is still there{}", LogFields({{"kind", item.object.kind},
                                                                      {"namespace", item.object.ns},
                                                                      {"name", item.object.name},
                                                                      {"error", result.message}}));
    Item again = item;
    again.due = env_.clock->Now() + std::max(kRetry, result.retry_after.value_or(Duration(0)));
    Add(workload, std::move(again));
  }
  Arm();
}

}  // namespace muster::controller
