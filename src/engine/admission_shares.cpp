#include "admission_shares.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "muster/core/check.h"

namespace muster::engine {

namespace {

// Whole units of cpu are a thousand times its base unit.
constexpr uint64_t kBasePerUnit = 1000;
constexpr int64_t kOneNanos = 1'000'000'000;
// What is less than half a base unit is nothing.
constexpr FineAmount kNothing = FineAmount{1} << (kFineBits - 1);

Wide SaturatingSum(Wide a, Wide b) {
  Wide out = 0;
  return __builtin_add_overflow(a, b, &out) ? ~Wide{0} : out;
}

Wide SaturatingProduct(Wide a, uint64_t b) {
  Wide out = 0;
  return __builtin_mul_overflow(a, Wide{b}, &out) ? ~Wide{0} : out;
}

}  // namespace

bool AdmissionShares::ByDue::operator()(const LocalQueueState* a, const LocalQueueState* b) const {
  return std::tie(a->consumption.due, a->ns, a->name) < std::tie(b->consumption.due, b->ns, b->name);
}

AdmissionShares::AdmissionShares(const AdmissionFairSharing& config, Catalog* catalog)
    : catalog_(catalog), decay_(config.usage_half_life_time), interval_(config.usage_sampling_interval) {
  MUSTER_CHECK(interval_ > Duration(0));
  for (const auto& [resource, weight] : config.resource_weights) {
    MUSTER_CHECK_MSG(weight >= 0, resource);
    weights_.emplace_back(catalog_->Resource(resource), weight);
  }
}

// ---- following ----------------------------------------------------------------------------------

void AdmissionShares::Track(LocalQueueState* queue) {
  MUSTER_CHECK(!queue->consumption.tracked);
  queue->consumption = {};
  queue->consumption.tracked = true;
  if (const std::optional<ConsumedResources>& found = queue->spec.consumed; found.has_value()) {
    queue->consumption.sampled_at = found->as_of;
    for (const auto& [resource, amount] : found->amounts) {
      if (amount > Amount{0}) queue->consumption.consumed[catalog_->Resource(resource)] = Fine(amount);
    }
  }
  // At once: time has passed since.
  SetDue(queue, WallTime{1});
}

void AdmissionShares::Untrack(LocalQueueState* queue) {
  MUSTER_CHECK(queue->consumption.tracked);
  SetDue(queue, {});
  queue->consumption = {};
  for (WorkloadState* workload : queue->workloads) {
    if (workload->claim != nullptr) workload->claim->entry_penalty.clear();
  }
}

void AdmissionShares::SetDue(LocalQueueState* queue, WallTime due) {
  if (queue->consumption.due.IsSet()) due_.erase(queue);
  queue->consumption.due = due;
  if (due.IsSet()) due_.insert(queue);
}

void AdmissionShares::Sample(LocalQueueState* queue, WallTime now) {
  Consumption& state = queue->consumption;
  const Duration elapsed = state.sampled_at.IsSet() ? std::max(now - state.sampled_at, Duration(0)) : Duration(0);
  state.sampled_at = now;
  absl::btree_map<ResourceId, FineAmount> in_use;
  for (const auto& [fr, amount] : queue->usage) in_use[fr.resource] += Fine(amount.Value());
  for (const auto& [resource, amount] : in_use) state.consumed.try_emplace(resource);
  for (auto it = state.consumed.begin(); it != state.consumed.end();) {
    const auto used = in_use.find(it->first);
    it->second = decay_.After(it->second, used == in_use.end() ? 0 : used->second, elapsed);
    const bool gone = it->second < kNothing && used == in_use.end();
    it = gone ? state.consumed.erase(it) : std::next(it);
  }
  SetDue(queue, state.consumed.empty() ? WallTime{} : now + interval_);
}

std::vector<LocalQueueState*> AdmissionShares::SampleDue(WallTime now) {
  std::vector<LocalQueueState*> sampled;
  while (!due_.empty() && (*due_.begin())->consumption.due <= now) {
    sampled.push_back(*due_.begin());
    Sample(sampled.back(), now);
  }
  std::sort(sampled.begin(), sampled.end(), [](const LocalQueueState* a, const LocalQueueState* b) {
    return std::tie(a->ns, a->name) < std::tie(b->ns, b->name);
  });
  return sampled;
}

WallTime AdmissionShares::NextDue() const { return due_.empty() ? WallTime{} : (*due_.begin())->consumption.due; }

// ---- admissions ---------------------------------------------------------------------------------

void AdmissionShares::Follow(LocalQueueState* queue, WallTime now) {
  if (queue->consumption.due.IsSet()) return;
  queue->consumption.sampled_at = now;
  SetDue(queue, now + interval_);
}

void AdmissionShares::Enter(WorkloadState* workload, const std::vector<std::pair<FlavorResource, Amount>>& usage,
                            WallTime now) {
  LocalQueueState* queue = workload->local_queue;
  if (!queue->consumption.tracked) return;
  Sample(queue, now);
  Follow(queue, now);
  for (const auto& [fr, amount] : usage) {
    const FineAmount penalty = decay_.Part(Fine(amount), interval_);
    if (penalty == 0) continue;
    workload->claim->entry_penalty.emplace_back(fr.resource, penalty);
    queue->consumption.penalty[fr.resource] += penalty;
  }
}

void AdmissionShares::Settle(WorkloadState* workload) {
  for (const auto& [resource, amount] : workload->claim->entry_penalty) {
    workload->local_queue->consumption.consumed[resource] += amount;
  }
  Leave(workload);
}

void AdmissionShares::Leave(WorkloadState* workload) {
  auto& pending = workload->local_queue->consumption.penalty;
  for (const auto& [resource, amount] : workload->claim->entry_penalty) {
    const auto it = pending.find(resource);
    MUSTER_CHECK(it != pending.end() && it->second >= amount);
    it->second -= amount;
    if (it->second == 0) pending.erase(it);
  }
  workload->claim->entry_penalty.clear();
}

// ---- reading ------------------------------------------------------------------------------------

uint64_t AdmissionShares::WeightOf(ResourceId resource) const {
  int64_t weight = kOneNanos;
  for (const auto& [known, configured] : weights_) {
    if (known == resource) weight = configured;
  }
  const bool milli = catalog_->ResourceName(resource) == "cpu";
  return static_cast<uint64_t>(weight) * (milli ? 1 : kBasePerUnit);
}

queue::ConsumedShare AdmissionShares::ShareOf(const LocalQueueState& queue) const {
  queue::ConsumedShare share;
  share.weight_nanos = static_cast<uint64_t>(queue.spec.fair_weight.nanos);
  for (const auto* part : {&queue.consumption.consumed, &queue.consumption.penalty}) {
    for (const auto& [resource, amount] : *part) {
      share.consumed = SaturatingSum(share.consumed, SaturatingProduct(amount, WeightOf(resource)));
    }
  }
  return share;
}

LocalQueueConsumption AdmissionShares::ViewOf(const LocalQueueState& queue) const {
  LocalQueueConsumption view;
  view.resources.as_of = queue.consumption.sampled_at;
  for (const auto& [resource, amount] : queue.consumption.consumed) {
    view.resources.amounts.emplace_back(catalog_->ResourceName(resource), Coarse(amount));
  }
  std::sort(view.resources.amounts.begin(), view.resources.amounts.end());
  const queue::ConsumedShare share = ShareOf(queue);
  view.numerator = share.consumed;
  view.denominator = (Wide{share.weight_nanos} << kFineBits) * kBasePerUnit;
  return view;
}

void AdmissionShares::Validate(const LocalQueueState& queue) const {
  absl::btree_map<ResourceId, FineAmount> penalty;
  for (const WorkloadState* workload : queue.workloads) {
    if (workload->claim == nullptr) continue;
    for (const auto& [resource, amount] : workload->claim->entry_penalty) penalty[resource] += amount;
    const bool unwritten = workload->claim->state == ClaimState::kPlanned || workload->claim->before_growth.has_value();
    MUSTER_CHECK_MSG(unwritten || workload->claim->entry_penalty.empty(), queue.name);
  }
  MUSTER_CHECK_MSG(penalty == queue.consumption.penalty, queue.name);
  MUSTER_CHECK_MSG(queue.consumption.tracked || queue.consumption.consumed.empty(), queue.name);
  MUSTER_CHECK_MSG(queue.share == (queue.consumption.tracked ? ShareOf(queue) : queue::ConsumedShare{}), queue.name);
  auto* key = const_cast<LocalQueueState*>(&queue);
  MUSTER_CHECK_MSG(due_.contains(key) == queue.consumption.due.IsSet(), queue.name);
}

}  // namespace muster::engine
