// Gangs that were moved, and start after the one they were moved for.
//
// Without a topology nobody tells the pod scheduler which nodes are whose. Their pods would find the nodes that they
// came from as good as those that they are to go to, and take from the other gang what they were stopped for. Once its
// pods are on nodes, only their own places are left for them.
#include "engine_impl.h"
#include "obstacles.h"

namespace muster::engine {

const WorkloadState* EngineSet::Impl::GivesWayTo(const WorkloadState& workload) const {
  if (!machines_.on() || !WasMoved(workload) || workload.room == nullptr) return nullptr;
  if (workload.room->chosen->HasTopology()) return nullptr;
  const WorkloadState* mover = FindWorkload(workload.last_eviction->preemptor_uid);
  if (mover == nullptr) return nullptr;
  if (mover->claim == nullptr) return mover->room != nullptr ? mover : nullptr;
  return !mover->claim->leaving && mover->claim->machines.Unbound() > 0 ? mover : nullptr;
}

std::shared_ptr<const Reason> EngineSet::Impl::ReasonToGiveWay(const WorkloadState& workload) const {
  const WorkloadState* mover = GivesWayTo(workload);
  if (mover == nullptr) return nullptr;
  return MakeReason(ReasonCode::kWaitingForPodsReady, {ObjectObstacle(ObstacleKind::kGivesWay)}, {BlockerOf(*mover)});
}

bool EngineSet::Impl::GiveWay(WorkloadState* workload) {
  if (GivesWayTo(*workload) == nullptr) return false;
  // Aside, since in a StrictFIFO queue the other one may be behind it. For no longer than its room is kept.
  workload->waiting_in->waiting.BackOff(&workload->ticket, workload->room->until);
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
      forest_.Refresh(workload->waiting_in);
    }
    return true;
  });
}

}  // namespace muster::engine
