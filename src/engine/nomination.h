// What the head of a queue could have, in view of the room that is kept for preemptors.
//
// Kept room binds those who come after the preemptor, and whoever lost his claim to it, or to somebody who has lost his
// to it: three who take precedence over each other in a circle would go round for ever. Who comes before it may have
// the room: a workload that stands before it in the same queue; of another queue one that does not borrow where the
// preemptor does, or else has the higher priority, the earlier queue time, the smaller uid. How far up the tree they
// borrow is no matter, unlike in a pass: one that is admitted since it borrows less, and evicted at once since its
// priority is lower, would go round for ever.
//
// Who was moved gives way to nobody: he had it all, and made room for another.
//
// Room on machines that small gangs will leave for a big one is kept likewise (tree_pass_machines.cpp). What will have
// ended before all of it can be free may have those machines, too, though no quota that is kept.
//
// Source: design decision 4 (two books); kueue_semantics 5.2.
// Threading: needs external synchronisation with the tree's owner.
#pragma once

#include <vector>

#include "assigner.h"
#include "forest.h"
#include "placement.h"
#include "state.h"

namespace muster::engine {

class PassHost;

struct Nomination {
  Assignment assignment;
  // It goes on waiting for its victims, in the room that is kept for it.
  bool keeps = false;
  // Whose rooms do not bind it; its own among them.
  std::vector<WorkloadState*> free_of;
  // Whose machines do not bind it, since it will have left them in time.
  std::vector<WorkloadState*> backfills;
};

// Room of some workloads taken out of the planned book, for the length of a scope; as far as it is in it.
class WithoutRooms {
 public:
  // `machines_of`: of these, machines alone.
  WithoutRooms(Tree* tree, const std::vector<WorkloadState*>& whose,
               const std::vector<WorkloadState*>& machines_of = {});
  ~WithoutRooms();
  WithoutRooms(const WithoutRooms&) = delete;
  WithoutRooms& operator=(const WithoutRooms&) = delete;

 private:
  Tree* tree_;
  std::vector<const Room*> lifted_;
  std::vector<const Room*> in_namespaces_;  // of those, with what they keep of ResourceQuotas
  quota::Removal removal_;
  WithoutPlaces places_;
  LiftedMachines machines_;
};

// Victims taken out of the planned book, for the length of a scope.
class WithoutVictims {
 public:
  WithoutVictims(Tree* tree, const std::vector<Victim>& victims);
  WithoutVictims(const WithoutVictims&) = delete;
  WithoutVictims& operator=(const WithoutVictims&) = delete;

 private:
  quota::Removal removal_;
  WithoutPlaces places_;
  LiftedMachines machines_;
};

// What is kept for it still fits, next to everything else. REQUIRES: room is kept for it.
bool RoomHolds(Tree* tree, WorkloadState* workload);

// Gives up room that is kept for it and does not fit any more.
Nomination Nominate(const PassHost& host, Forest* forest, Tree* tree, const Assigner& assigner, WorkloadState* workload,
                    ClusterQueueState* queue, WallTime now);

}  // namespace muster::engine
