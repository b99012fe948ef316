// Admissions that wait until the pods of all who were admitted are ready.
//
// Source: kueue_semantics 7.1 (blockAdmission), 5.2.
#include <algorithm>

#include "engine_impl.h"
#include "obstacles.h"

namespace muster::engine {

namespace {

// Who would be looked at first; null: nobody.
const queue::Ticket* BestHead(const Tree& tree) {
  const queue::Ticket* best = nullptr;
  for (const ClusterQueueState* queue : tree.ready) {
    const queue::Ticket* head = queue->waiting.Head();
    if (best == nullptr || queue::Earlier()(head, best)) best = head;
  }
  return best;
}

}  // namespace

void EngineSet::Impl::Apply(const ClaimPodsReady& event) {
  WorkloadState* workload = FindHolder(event.uid, event.claim);
  if (workload == nullptr) return;
  workload->claim->pods_ready = event.ready;
  CheckPodsReady(workload);
}

void EngineSet::Impl::CheckPodsReady(const WorkloadState* workload) {
  if (!options_.block_admission) return;
  if (workload->claim != nullptr && IsWaitedFor(*workload->claim)) {
    unready_.insert(workload);
    return;
  }
  if (unready_.erase(workload) == 0 || !unready_.empty() || !std::exchange(admission_blocked_, false)) return;
  for (const auto& [name, queue] : forest_.queues()) {
    if (queue->tree != nullptr) forest_.RequestFlush(queue->tree);
  }
}

std::shared_ptr<const Reason> EngineSet::Impl::AdmissionBlocked() {
  if (unready_.empty()) return nullptr;
  admission_blocked_ = true;
  std::vector<Blocker> blockers;
  for (const WorkloadState* workload : unready_) {
    if (blockers.size() == kBlockersMax) break;
    blockers.push_back(BlockerOf(*workload));
  }
  return MakeReason(ReasonCode::kWaitingForPodsReady, {ObjectObstacle(ObstacleKind::kPodsNotReady)},
                    std::move(blockers));
}

// Where only one is admitted at a time, the trees whose names come last would never have their turn: as in the
// reference, the order of the heads counts over all trees.
std::vector<Tree*> EngineSet::Impl::TreesInTurn() {
  std::vector<Tree*> trees(forest_.active_trees().begin(), forest_.active_trees().end());
  if (!trees.empty()) {
    for (Tree* tree : forest_.resting_trees()) {
      if (!forest_.active_trees().contains(tree)) trees.push_back(tree);
    }
  }
  if (!options_.block_admission) return trees;
  std::vector<std::pair<const queue::Ticket*, Tree*>> turns;
  for (Tree* tree : trees) {
    if (tree->flush_requested) TreePass::Flush(tree, &forest_, this);
    turns.emplace_back(BestHead(*tree), tree);
  }
  std::stable_sort(turns.begin(), turns.end(), [](const auto& a, const auto& b) {
    if (a.first == nullptr || b.first == nullptr) return a.first != nullptr && b.first == nullptr;
    return queue::Earlier()(a.first, b.first);
  });
  std::transform(turns.begin(), turns.end(), trees.begin(), [](const auto& turn) { return turn.second; });
  return trees;
}

}  // namespace muster::engine
