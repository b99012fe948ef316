// What assignments and admissions ask of machines.
//
// Source: design decision 5.
// Threading: as the RoomAsker behind it.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "assigner.h"
#include "catalog.h"
#include "muster/gang/machine_room.h"
#include "state.h"

namespace muster::engine {

class MachinePlacer {
 public:
  MachinePlacer(const Catalog* catalog, gang::RoomAsker* room) : catalog_(catalog), room_(room) {}

  // Of all pod sets, in their order; none where machines are not looked at.
  gang::GangToSeat PodsOf(const WorkloadState& workload, const Assignment& assignment) const;
  gang::GangToSeat PodsOf(const WorkloadState& workload, const Admission& admission) const;
  // Of the pod sets that have flavors, and of `members` as if they had that one.
  gang::GangToSeat PodsWith(const WorkloadState& workload, const Assignment& assignment,
                            const std::vector<size_t>& members, FlavorId flavor) const;

  // Takes the places that an admission needs. Of more pods of a gang that runs they are kept, for its claim to take
  // over. RETURNS: nothing where there are none (any more).
  std::optional<gang::Reservation> Reserve(const WorkloadState& workload, const Assignment& assignment) const;
  std::optional<gang::Reservation> Keep(const WorkloadState& workload, const Assignment& assignment) const {
    return room_->Keep(workload.spec.uid, PodsOf(workload, assignment));
  }
  // Of what others will leave.
  std::optional<gang::FutureRoom> KeepFuture(const WorkloadState& workload, const Assignment& assignment,
                                             const gang::GangEnds& ends) const {
    return room_->KeepFuture(workload.spec.uid, PodsOf(workload, assignment), ends);
  }
  // The machines have places for it in what is planned.
  bool FitsPlanned(const WorkloadState& workload, const Assignment& assignment) const {
    return room_->Fits(PodsOf(workload, assignment), gang::RoomView::kPlanned);
  }

  // From now on it is that one who asks.
  void Ask(gang::RoomAsker* room) { room_ = room; }
  gang::RoomAsker* room() const { return room_; }

 private:
  gang::PodSetToSeat PodsOf(const WorkloadState& workload, const PodSetChoice& choice, size_t index) const;

  const Catalog* catalog_;
  gang::RoomAsker* room_;
};

// What its claim has in the planned book of machines counts as nobody's, or as its own again.
inline void MoveOnMachines(const WorkloadState& workload, bool out, gang::RoomAsker* room) {
  if (out) {
    room->Lift(workload.claim->machines);
  } else {
    room->PutBack(workload.claim->machines);
  }
}

// For the search for victims: would these pods have places, in what is planned?
class PlacesOnMachines final : public PlaceQuery {
 public:
  PlacesOnMachines(gang::RoomAsker* room, gang::GangToSeat gang) : room_(room), gang_(std::move(gang)) {}

  void Move(const WorkloadState& claim, bool out) override { MoveOnMachines(claim, out, room_); }
  bool Fits() override { return room_->Fits(gang_, gang::RoomView::kPlanned); }

 private:
  gang::RoomAsker* room_;
  gang::GangToSeat gang_;
};

// Planned amounts of machines that count as nobody's, for the length of a scope.
class LiftedMachines {
 public:
  explicit LiftedMachines(gang::RoomAsker* room) : room_(room) {}
  ~LiftedMachines() {
    for (const gang::Reservation* reservation : lifted_) room_->PutBack(*reservation);
  }
  LiftedMachines(const LiftedMachines&) = delete;
  LiftedMachines& operator=(const LiftedMachines&) = delete;

  void Lift(const gang::Reservation& reservation) {
    room_->Lift(reservation);
    lifted_.push_back(&reservation);
  }

 private:
  gang::RoomAsker* room_;
  std::vector<const gang::Reservation*> lifted_;
};

}  // namespace muster::engine
