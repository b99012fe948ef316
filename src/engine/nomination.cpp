#include "nomination.h"

#include <algorithm>
#include <utility>

#include "tree_pass.h"

namespace muster::engine {

namespace {

quota::CellAmounts RoomOf(const WorkloadState& workload) {
  const ClusterQueueState& queue = *workload.waiting_in;
  quota::CellAmounts amounts;
  amounts.reserve(workload.room->usage.size());
  for (const auto& [fr, amount] : workload.room->usage) {
    amounts.emplace_back(queue.tree->ledger.FindCell(queue.node, fr), amount);
  }
  return amounts;
}

// Whether the room of `preemptor` is open to `workload`, if that borrows or not.
bool IsOpenTo(const PassHost& host, const WorkloadState& workload, bool borrows, const WorkloadState& preemptor) {
  if (&workload == &preemptor || WasMoved(preemptor) || host.HadToGoFor(workload, preemptor)) return false;
  if (workload.waiting_in == preemptor.waiting_in) {
    return workload.waiting_in->waiting.StandsBefore(&workload.ticket, &preemptor.ticket);
  }
  const bool preemptor_borrows = preemptor.room->borrow > 0;
  return borrows != preemptor_borrows ? preemptor_borrows : queue::Earlier()(&workload.ticket, &preemptor.ticket);
}

std::vector<WorkloadState*> OpenTo(const PassHost& host, const Tree& tree, const WorkloadState& workload,
                                   bool borrows) {
  std::vector<WorkloadState*> open;
  for (WorkloadState* preemptor : tree.keeping) {
    if (IsOpenTo(host, workload, borrows, *preemptor)) open.push_back(preemptor);
  }
  return open;
}

// Those whose machines it may have: it will have left before they can have them, or stands before them. In its own tree
// the latter goes by what is open to it.
std::vector<WorkloadState*> BackfillsOf(const Forest& forest, const WorkloadState& workload, WallTime now) {
  std::vector<WorkloadState*> backfills;
  if (workload.grows != nullptr) return backfills;  // it is seated again, where nothing is lifted
  const std::optional<Duration>& most = workload.spec.max_execution;
  for (WorkloadState* keeper : forest.reserving()) {
    if (keeper == &workload) continue;
    const WallTime free_at = keeper->room->future->free_at;
    const bool ends_first = most.has_value() && free_at.IsSet() && now + *most <= free_at;
    const bool elsewhere = keeper->waiting_in->tree != workload.waiting_in->tree;
    if (ends_first || (elsewhere && queue::Earlier()(&workload.ticket, &keeper->ticket))) backfills.push_back(keeper);
  }
  return backfills;
}

// Of some pod set.
bool HasFewerPods(const Assignment& assignment, const Assignment& than) {
  return !std::ranges::equal(assignment.pod_sets, than.pod_sets, std::ranges::greater_equal(), &PodSetChoice::count,
                             &PodSetChoice::count);
}

// With the rooms that are open to it, where that is of use.
void NominateInOpenRooms(const PassHost& host, Tree* tree, const Assigner& assigner, WorkloadState* workload,
                         ClusterQueueState* queue, Nomination* nomination) {
  std::vector<WorkloadState*> open = OpenTo(host, *tree, *workload, false);
  if (open.empty()) return;
  Assignment assignment;
  const auto assign = [&] {
    const WithoutRooms without(tree, open);
    assignment = assigner.Assign(*workload, *queue, workload->scan);
  };
  assign();
  if (assignment.borrow > 0) {
    // That does not say that it would borrow with less room, but then it can do without.
    std::vector<WorkloadState*> fewer = OpenTo(host, *tree, *workload, true);
    if (fewer.empty()) return;
    if (fewer != open) {
      open = std::move(fewer);
      assign();
    }
  }
  const bool better =
      assignment.mode == Mode::kFit || (assignment.preemption.Found() && !nomination->assignment.preemption.Found());
  if (!better) return;
  nomination->assignment = std::move(assignment);
}

}  // namespace

WithoutRooms::WithoutRooms(Tree* tree, const std::vector<WorkloadState*>& whose,
                           const std::vector<WorkloadState*>& machines_of)
    : tree_(tree), removal_(&tree->ledger), places_(tree->topologies), machines_(tree->machines) {
  for (const WorkloadState* workload : whose) {
    if (workload->room == nullptr || !tree_->lifted_rooms.insert(workload->room.get()).second) continue;
    removal_.Remove(RoomOf(*workload));
    places_.Remove(workload->room->places);
    if (workload->room->machines.has_value()) machines_.Lift(*workload->room->machines);
    tree_->namespaces.Lift(workload->room->to_come);
    in_namespaces_.push_back(workload->room.get());
    lifted_.push_back(workload->room.get());
  }
  for (const WorkloadState* workload : machines_of) {
    if (workload->room == nullptr || !workload->room->future.has_value()) continue;
    if (!tree_->lifted_rooms.insert(workload->room.get()).second) continue;
    machines_.Lift(*workload->room->machines);
    lifted_.push_back(workload->room.get());
  }
}

WithoutRooms::~WithoutRooms() {
  for (const Room* room : in_namespaces_) tree_->namespaces.PutBack(room->to_come);
  for (const Room* room : lifted_) tree_->lifted_rooms.erase(room);
}

WithoutVictims::WithoutVictims(Tree* tree, const std::vector<Victim>& victims)
    : removal_(&tree->ledger), places_(tree->topologies), machines_(tree->machines) {
  for (const Victim& victim : victims) {
    removal_.Remove(BookedBy(*victim.workload));
    places_.Remove(victim.workload->claim->places);
    machines_.Lift(victim.workload->claim->machines);
  }
}

bool RoomHolds(Tree* tree, WorkloadState* workload) {
  const WithoutRooms without(tree, {workload});
  return quota::FitsPlanned(tree->ledger, RoomOf(*workload), true) &&
         tree->topologies->Fits(workload->room->places, gang::PlaceView::kPlanned) &&
         (!workload->room->machines.has_value() || tree->machines->Holds(*workload->room->machines));
}

Nomination Nominate(const PassHost& host, Forest* forest, Tree* tree, const Assigner& assigner, WorkloadState* workload,
                    ClusterQueueState* queue, WallTime now) {
  Nomination nomination;
  if (workload->room != nullptr) {
    {
      const WithoutRooms without(tree, {workload});
      nomination.assignment = assigner.Assign(*workload, *queue, workload->scan);
      if (nomination.assignment.mode != Mode::kFit && workload->scan.HasUntried()) {
        // The room may be in a flavor that the scan has passed; and while it waits there, the scan stands still.
        nomination.assignment = assigner.Assign(*workload, *queue, {});
      }
      const bool fewer = !nomination.assignment.preemption.victims.empty() &&
                         HasFewerPods(*workload->room->chosen, nomination.assignment);
      if (nomination.assignment.mode != Mode::kFit && (WasMoved(*workload) || fewer)) {
        // With as many pods as it had, and in the flavors that it had: that is kept for it. Or with as many as others
        // went for, though more would fit if further ones went: while it waits, none are told to.
        Assignment there = assigner.Reassign(*workload, *queue, *workload->room->chosen);
        if (there.mode == Mode::kFit) nomination.assignment = std::move(there);
      }
      const bool lacks_places = workload->room->chosen->HasTopology() || nomination.assignment.without_places;
      if (nomination.assignment.mode != Mode::kFit && lacks_places) {
        // A scan of flavors ends at one that has quota and no places; the room may be in a later one.
        Assignment there = assigner.AssignAgain(*workload, *queue, *workload->room->chosen);
        if (there.mode == Mode::kFit) nomination.assignment = std::move(there);
      }
    }
    // Nobody was told to go for what others will leave: some may be by now.
    const bool may_preempt = workload->room->future.has_value() && workload->spec.preemption_gates.empty() &&
                             !nomination.assignment.preemption.victims.empty();
    // What a ResourceQuota counts of one that was moved may be its own pods, which are gone.
    const bool refused = nomination.assignment.refused_by_namespace && !WasMoved(*workload);
    nomination.keeps =
        nomination.assignment.mode != Mode::kFit && !refused && !may_preempt && RoomHolds(tree, workload);
    if (nomination.keeps) return nomination;
    if (nomination.assignment.mode == Mode::kFit) {
      nomination.free_of = OpenTo(host, *tree, *workload, nomination.assignment.borrow > 0);
      nomination.free_of.push_back(workload);
      return nomination;
    }
    forest->LoseRoom(workload);
    nomination = {};
  }
  nomination.assignment = assigner.Assign(*workload, *queue, workload->scan);
  if (nomination.assignment.mode != Mode::kFit && !tree->keeping.empty()) {
    NominateInOpenRooms(host, tree, assigner, workload, queue, &nomination);
  }
  nomination.free_of = OpenTo(host, *tree, *workload, nomination.assignment.borrow > 0);
  if (nomination.assignment.mode == Mode::kFit || nomination.assignment.preemption.Found()) return nomination;
  std::vector<WorkloadState*> backfills = BackfillsOf(*forest, *workload, now);
  if (backfills.empty()) return nomination;
  const WithoutRooms without(tree, nomination.free_of, backfills);
  Assignment assignment = assigner.Assign(*workload, *queue, workload->scan);
  if (assignment.mode != Mode::kFit) return nomination;
  nomination.assignment = std::move(assignment);
  nomination.backfills = std::move(backfills);
  return nomination;
}

}  // namespace muster::engine
