// Gangs that are moved so that another finds its places (defragmentation.h says who).
#include <utility>

#include "defragmentation.h"
#include "tree_pass.h"

namespace muster::engine {

namespace {

// There is quota, and others are where it would be.
bool LacksPlacesAlone(const Assignment& assignment) {
  return !assignment.IsPossible() && assignment.without_places && !assignment.refused_by_namespace;
}

}  // namespace

bool TreePass::IsDueToMoveOthers(const Entry& entry) {
  WorkloadState* workload = entry.workload;
  if (defragment_after_ == Duration::zero() || workload->grows != nullptr || !LacksPlacesAlone(entry.assignment)) {
    return false;
  }
  if (!workload->spec.preemption_gates.empty() || !Forest::MayUseRoom(*workload)) return false;
  // It could keep no room. A time that is over begins anew only for others than those who were waited for.
  const bool spent = workload->room_spent && !tree_->leaving.empty();
  if (keep_room_for_ == Duration::zero() || spent || workload->room_lost_in == forest_->turn()) return false;
  return IsCrowdedFor(entry, defragment_after_, workload->moved_nobody_at);
}

bool TreePass::MoveOthers(Entry* entry) {
  if (!IsDueToMoveOthers(*entry)) return false;
  WorkloadState* workload = entry->workload;
  std::optional<MovePlan> plan;
  {
    const WithoutRooms without(tree_, entry->free_of);
    MoveSearch search(host_, tree_, assigner_, placer_, machines_);
    plan = search.Find(*workload, *entry->queue);
    // A search costs much: not at each change.
    if (!plan.has_value() && !search.some_start()) workload->moved_nobody_at = now_;
  }
  if (!plan.has_value()) return false;
  plan->assignment.obstacles = std::move(entry->assignment.obstacles);
  entry->assignment = std::move(plan->assignment);
  for (const MovePlan::Moved& moved : plan->moved) {
    TellToGo({moved.workload, EvictionReason::kDefragmentation}, entry);
  }
  StartWaiting(entry, true);
  const WallTime until = now_ + keep_room_for_;
  forest_->KeepRoom(workload, MakeRoom(*workload, entry->assignment, until, std::move(plan->machines)));
  for (MovePlan::Moved& moved : plan->moved) {
    Room onward = MakeRoom(*moved.workload, moved.there, {}, std::move(moved.machines));
    // Until its pods are gone ResourceQuotas count them.
    onward.to_come = {moved.workload->spec.ns, {}};
    forest_->KeepOnward(moved.workload, std::move(onward));
  }
  WaitForVictims(entry);
  RecheckRooms(entry->free_of);
  return true;
}

}  // namespace muster::engine
