// Recounts what the trees keep up to date.
#include <algorithm>
#include <array>

#include "forest.h"
#include "muster/core/check.h"

namespace muster::engine {

// What is booked is what the claims say; in the planned book, of those that stay.
void Forest::ValidateBooks(const ClusterQueueState& queue) {
  const Tree* tree = queue.tree;
  absl::flat_hash_map<FlavorResource, std::array<quota::ExactSum, 2>> expected;
  size_t preemptible = 0;
  for (WorkloadState* holder : queue.holders) {
    const Claim& claim = *holder->claim;
    MUSTER_CHECK(claim.queue == &queue && claim.leaving == Leaves(claim));
    MUSTER_CHECK(tree->leaving.contains(holder) == claim.leaving);
    MUSTER_CHECK(queue.preemptible.contains(holder) != claim.leaving);
    if (!claim.leaving) ++preemptible;
    for (const auto& [fr, amount] : claim.usage) {
      expected[fr][0].Add(amount);
      if (!claim.leaving) expected[fr][1].Add(amount);
    }
    if (claim.onward == nullptr) continue;
    MUSTER_CHECK(claim.leaving && claim.eviction->reason == EvictionReason::kDefragmentation);
    for (const auto& [fr, amount] : claim.onward->usage) expected[fr][1].Add(amount);
  }
  MUSTER_CHECK(queue.preemptible.size() == preemptible);
  for (WorkloadState* keeper : queue.keeping) {
    MUSTER_CHECK(keeper->waiting_in == &queue && tree->keeping.contains(keeper));
    for (const auto& [fr, amount] : keeper->room->usage) expected[fr][1].Add(amount);
  }
  tree->ledger.ForEachCell(queue.node, [&](quota::CellId cell) {
    const auto& sums = expected[tree->ledger.flavor_resource(cell)];
    MUSTER_CHECK(tree->ledger.Usage(cell, quota::Book::kActual) == sums[0].Value());
    MUSTER_CHECK(tree->ledger.Usage(cell, quota::Book::kPlanned) == sums[1].Value());
  });
  for (const auto& [fr, sums] : expected) {
    MUSTER_CHECK((sums[0].IsZero() && sums[1].IsZero()) || tree->ledger.FindCell(queue.node, fr) != quota::kNoCell);
  }
}

void Forest::Validate() const {
  for (const auto& [name, cohort] : cohorts_) {
    MUSTER_CHECK(cohort->on_cycle == !CycleThrough(cohort.get()).empty());
    MUSTER_CHECK(cohort->parent == (cohort->on_cycle ? nullptr : cohort->declared_parent));
    MUSTER_CHECK((cohort->own_tree != nullptr) == (cohort->parent == nullptr));
    MUSTER_CHECK(cohort->tree == (cohort->parent == nullptr ? cohort->own_tree.get() : cohort->parent->tree));
    if (cohort->own_tree != nullptr) {
      MUSTER_CHECK(cohort->own_tree->on_cycle == cohort->on_cycle);
      cohort->own_tree->ledger.Validate();
    }
  }
  for (const auto& [name, queue] : queues_) {
    queue->waiting.Validate();
    MUSTER_CHECK(queue->exists == (queue->tree != nullptr));
    if (!queue->exists) {
      MUSTER_CHECK(queue->waiting.empty() && !queue->active);
      continue;
    }
    const Tree* tree = queue->tree;
    if (queue->own_tree != nullptr) queue->own_tree->ledger.Validate();
    auto* key = queue.get();
    MUSTER_CHECK(!queue->changed ||
                 std::find(changed_queues_.begin(), changed_queues_.end(), key) != changed_queues_.end());
    MUSTER_CHECK(tree->queues.contains(key));
    MUSTER_CHECK(tree->parked.contains(key) == queue->waiting.HasParked());
    MUSTER_CHECK(tree->blocked.contains(key) == (queue->blocked_head != nullptr));
    MUSTER_CHECK(tree->ready.contains(key) ==
                 (queue->active && queue->waiting.Head() != nullptr && queue->blocked_head == nullptr));
    ValidateBooks(*queue);
  }
}

}  // namespace muster::engine
