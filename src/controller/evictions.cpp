#include "evictions.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "muster/controller/names.h"
#include "muster/controller/reason_text.h"
#include "muster/core/log_fields.h"
#include "text.h"

namespace muster::controller {
namespace {

// Pods are given 30 seconds to end, unless they ask for more.
constexpr Duration kOverdue = std::chrono::minutes(5);

std::string Priorities(const engine::Evict& evict) {
  return Cat("; preemptor effective priority: ", evict.preemptor_priority, " (base: ", evict.preemptor_priority,
             ", boost: 0); preemptee effective priority: ", evict.priority, " (base: ", evict.priority, ", boost: 0)");
}

}  // namespace

Evictions::~Evictions() {
  for (Watched& watched : watched_) deps_.env.executor->Cancel(watched.timer);
}

Eviction Evictions::Describe(const engine::Evict& evict, const std::string& cluster_queue) const {
  EvictionFacts facts;
  if (const std::optional<Party> preemptor = deps_.find(evict.preemptor_uid); preemptor.has_value()) {
    facts.preemptor_workload_uid = preemptor->workload_uid;
    facts.preemptor_job_uid = preemptor->job_uid;
  }
  facts.preemptor_path = deps_.catalog->QueuePath(evict.preemptor_cluster_queue);
  facts.preemptee_path = deps_.catalog->QueuePath(cluster_queue);
  facts.nodes = evict.nodes;
  facts.without_place = evict.without_place;
  Eviction out;
  out.reason = EvictedReason(evict.reason);
  out.message = EvictedMessage(evict.reason, facts);
  out.preemption_reason = PreemptedReason(evict.reason);
  out.preemptor_uid = evict.preemptor_uid;
  out.at = deps_.env.clock->Now();
  return out;
}

void Evictions::Note(const Eviction& eviction, const engine::QueueRef& queue, const Party& victim, int64_t pods,
                     const std::optional<engine::Evict>& decision, const Emit& emit) const {
  const auto count = std::find_if(eviction.totals.begin(), eviction.totals.end(), [&eviction](const auto& c) {
    return c.reason == eviction.reason && c.underlying_cause == eviction.underlying_cause;
  });
  deps_.telemetry->Evicted(queue, eviction.reason, eviction.underlying_cause, pods,
                           count != eviction.totals.end() && count->count == 1);
  if (eviction.underlying_cause == kAdmissionCheck) {
    emit({kWorkloadReporter, "Warning", "AdmissionCheckRejected", "Evict", RejectionMessage(eviction.message)});
  }
  const bool preempted = !eviction.preemption_reason.empty();
  emit({preempted ? kAdmissionReporter : kWorkloadReporter, "Normal", Cat("EvictedDueTo", eviction.shown_reason()),
        "Evict", eviction.message});
  if (!preempted) return;
  const bool known = decision.has_value() && decision->preemptor_uid == eviction.preemptor_uid;
  const std::string priorities = known ? Priorities(*decision) : std::string();
  emit({kAdmissionReporter, "Normal", "Preempted", "Preempt", Cat(eviction.message, priorities)});
  if (!known) return;
  deps_.telemetry->Preempted(decision->preemptor_cluster_queue, eviction.preemption_reason);
  deps_.tell(decision->preemptor_uid,
             {kAdmissionReporter, "Normal", "PreemptedWorkload", "Preempt",
              Cat("Preempted workload ", victim.workload, " (UID: ", UidOrUnknown(victim.workload_uid),
                  ") in ClusterQueue ", queue.cluster_queue, priorities)});
}

std::shared_ptr<void> Evictions::Watch(const Eviction& eviction, const std::string& cluster_queue,
                                       k8s::ObjectReference object) {
  const auto it = watched_.insert(
      watched_.end(), {eviction.at, eviction.shown_reason(), cluster_queue, std::move(object), Executor::TimerId(0)});
  const Duration left = std::max(Duration(0), it->at + kOverdue - deps_.env.clock->Now());
  it->timer = deps_.env.executor->PostAt(deps_.env.clock->Mono() + left, [this, it] {
    it->timer = 0;
    TellOverdue(*it);
  });
  return {nullptr, [this, it, alive = std::weak_ptr<bool>(alive_)](void*) {
            if (alive.expired()) return;
            deps_.env.executor->Cancel(it->timer);
            watched_.erase(it);
          }};
}

void Evictions::TellOverdue(const Watched& watched) const {
  const std::string since = FormatTime(watched.at);
  spdlog::warn("what was evicted long ago still holds its quota{}", LogFields({{"kind", watched.object.kind},
                                                                               {"namespace", watched.object.ns},
                                                                               {"name", watched.object.name},
                                                                               {"clusterQueue", watched.cluster_queue},
                                                                               {"reason", watched.reason},
                                                                               {"since", since}}));
  deps_.events->Record(watched.object, kWorkloadReporter, "Warning", "EvictionOverdue", "Evict",
                       Cat("Evicted at ", since, " (", watched.reason, "), and not gone: its quota in ClusterQueue ",
                           watched.cluster_queue, " is not free before its pods have ended"));
}

std::map<std::string, EvictingCount> Evictions::Counts() const {
  std::map<std::string, EvictingCount> out;
  for (const Watched& watched : watched_) {
    EvictingCount& count = out[watched.cluster_queue];
    if (count.workloads++ == 0 || watched.at < count.oldest) count.oldest = watched.at;
  }
  return out;
}

}  // namespace muster::controller
