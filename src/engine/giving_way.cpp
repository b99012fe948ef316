// Gangs that were moved, and start after the one they were moved for.
//
// Without a topology nobody tells the pod scheduler which nodes are whose. Their pods would find the nodes that they
// came from as good as those that they are to go to, and take from the other gang what they were stopped for. Once its
// pods are on nodes, only their own places are left for them.
#include "engine_impl.h"
#include "obstacles.h"

namespace muster::engine {

WallTime EngineSet::Impl::GivesWayUntil(const WorkloadState& workload) const {
  return workload.room->until - options_.keep_room_for / 2;
}

const WorkloadState* EngineSet::Impl::GivesWayTo(const WorkloadState& workload) const {
  const auto keeps_room = [](const WorkloadState& of) { return of.room != nullptr && !of.room->future.has_value(); };
  if (!machines_.on() || !WasMoved(workload) || !keeps_room(workload)) return nullptr;
  if (workload.room->chosen->HasTopology()) return nullptr;
  if (GivesWayUntil(workload) <= now_) return nullptr;
  const WorkloadState* mover = FindWorkload(workload.last_eviction->preemptor_uid);
  if (mover == nullptr) return nullptr;
  if (mover->claim == nullptr) return keeps_room(*mover) ? mover : nullptr;
  return !mover->claim->leaving && mover->claim->machines.Unbound() > 0 ? mover : nullptr;
}

std::shared_ptr<const Reason> EngineSet::Impl::ReasonToGiveWay(const WorkloadState& workload) const {
  const WorkloadState* mover = GivesWayTo(workload);
  if (mover == nullptr) return nullptr;
  return MakeReason(ReasonCode::kWaitingForPodsReady, {ObjectObstacle(ObstacleKind::kGivesWay)}, {BlockerOf(*mover)});
}

bool EngineSet::Impl::GiveWay(WorkloadState* workload) {
  if (GivesWayTo(*workload) == nullptr) return false;
  // Aside, since in a StrictFIFO queue the other one may be behind it.
  workload->waiting_in->waiting.BackOff(&workload->ticket, GivesWayUntil(*workload));
  gives_way_.insert(workload);
  SetReason(workload, ReasonToGiveWay(*workload));
  forest_.Refresh(workload->waiting_in);
  return true;
}

void EngineSet::Impl::EndGivingWay() {
  absl::erase_if(gives_way_, [this](WorkloadState* workload) {
    if (GivesWayTo(*workload) != nullptr) return false;
    if (workload->ticket.place() == queue::Place::kBackingOff) {  // else its time was over
      workload->waiting_in->waiting.EndBackOff(&workload->ticket);
    }
    // Its like, for whom no room is kept, may have been found not to fit meanwhile.
    forest_.RequestFlush(workload->waiting_in->tree);
    forest_.Refresh(workload->waiting_in);
    return true;
  });
}

}  // namespace muster::engine
