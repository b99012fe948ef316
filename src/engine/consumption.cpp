// What LocalQueues have consumed, as the order of those who wait in their ClusterQueue.
#include "engine_impl.h"

namespace muster::engine {

void EngineSet::Impl::UpdateTracking(LocalQueueState* queue) {
  if (!admission_shares_.has_value()) return;
  const ClusterQueueState* target = queue->cluster_queue;
  const bool tracked = queue->exists && target != nullptr && target->exists && target->spec.usage_based_admission;
  if (tracked && !queue->consumption.tracked) admission_shares_->Track(queue);
  if (!tracked && queue->consumption.tracked) admission_shares_->Untrack(queue);
  ShareChanged(queue);
}

void EngineSet::Impl::ShareChanged(LocalQueueState* queue) {
  if (!admission_shares_.has_value()) return;
  queue->share = queue->consumption.tracked ? admission_shares_->ShareOf(*queue) : queue::ConsumedShare{};
  if (queue->cluster_queue == nullptr) return;
  if (queue->cluster_queue->waiting.SetLaneShare(queue->lane, queue->share)) forest_.Refresh(queue->cluster_queue);
}

void EngineSet::Impl::SampleConsumption() {
  if (!admission_shares_.has_value()) return;
  for (LocalQueueState* queue : admission_shares_->SampleDue(now_)) {
    ShareChanged(queue);
    MarkChanged(*queue);
  }
}

std::optional<LocalQueueConsumption> EngineSet::Impl::ConsumptionView(const LocalQueueState& queue) const {
  // Before the first pass there is no time to which it could be told.
  if (!queue.consumption.tracked || !queue.consumption.sampled_at.IsSet()) return std::nullopt;
  return admission_shares_->ViewOf(queue);
}

}  // namespace muster::engine
