// Machines that are reserved for a gang that waits for nothing else. Small gangs that come after it would take what
// others of them leave, one after the other, so that it would never begin. It gets machines of its own: nobody new
// comes there, but who will have left in time, until what runs there has ended. All others go on elsewhere.
//
// Source: Lifka, "The ANL/IBM SP scheduling system" (1995), for a reservation of the first with backfill around it.
#include <algorithm>
#include <utility>

#include "muster/core/check.h"
#include "obstacles.h"
#include "tree_pass.h"

namespace muster::engine {

namespace {

// Others are where it would be.
bool IsCrowdedOut(const Assignment& assignment) {
  return assignment.mode == Mode::kNoFit &&
         std::any_of(assignment.obstacles.begin(), assignment.obstacles.end(), [](const Obstacle& obstacle) {
           return obstacle.kind == ObstacleKind::kNoRoom && obstacle.machines->lack == gang::RoomLack::kResource;
         });
}

}  // namespace

std::vector<Entry*> TreePass::DueForMachines() {
  std::vector<Entry*> due;
  if (reserve_after_ == Duration::zero()) return due;
  for (Entry& entry : entries_) {
    WorkloadState* workload = entry.workload;
    if (entry.keeps || workload->grows != nullptr || !IsCrowdedOut(entry.assignment)) continue;
    if (IsCrowdedFor(entry, reserve_after_)) due.push_back(&entry);
  }
  return due;
}

bool TreePass::IsCrowdedFor(const Entry& entry, Duration duration, WallTime not_before) {
  WallTime* since = &entry.workload->crowded_since;
  if (!since->IsSet()) *since = now_;
  const WallTime when = std::max(*since, not_before) + duration;
  if (when <= now_) return true;
  forest_->RecheckForMachines(entry.queue, when);
  return false;
}

bool TreePass::ReserveMachinesAhead(Entry* entry) {
  WorkloadState* workload = entry->workload;
  if (!Forest::MayUseRoom(*workload)) return false;
  const Assignment assignment = assigner_->AssignOnEmptyMachines(*workload, *entry->queue);
  if (assignment.mode != Mode::kFit || assignment.HasTopology()) return false;
  std::optional<gang::FutureRoom> future =
      machines_->KeepFuture(*workload, assignment, [this](const std::string& uid) { return host_->EndOf(uid); });
  if (!future.has_value()) return false;
  Room room = MakeRoom(*workload, assignment, {}, std::move(future->places));
  room.future = {future->machines, future->free_at};
  forest_->KeepRoom(workload, std::move(room));
  entry->keeps = true;
  return true;
}

// It stays where it is in its queue: nobody was told to go for it.
void TreePass::WaitForMachines(Entry* entry) {
  WorkloadState* workload = entry->workload;
  std::vector<Obstacle> obstacles = entry->assignment.obstacles;
  for (Obstacle& obstacle : obstacles) {
    if (obstacle.kind != ObstacleKind::kNoRoom) continue;
    obstacle.count = workload->room->future->count;
    obstacle.until = workload->room->future->free_at;
  }
  host_->SetReason(workload, MakeReason(entry->assignment.code, std::move(obstacles)));
  workload->scan = {};
  workload->scan_history.reset();
  if (entry->queue->waiting.strategy() == queue::Strategy::kBestEffortFIFO) {
    progress_ = true;
    entry->queue->waiting.Park(&workload->ticket);
    forest_->Refresh(entry->queue);
  } else {
    TellThoseBehind(entry->queue);
    BlockBehind(*entry);
  }
}

}  // namespace muster::engine
