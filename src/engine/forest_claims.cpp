// What claims, and the room that is kept for preemptors, take of a tree.
#include <algorithm>
#include <utility>

#include "forest.h"
#include "muster/core/check.h"

namespace muster::engine {

bool Forest::Leaves(const Claim& claim) { return claim.eviction.has_value() || claim.state == ClaimState::kLeaving; }

void Forest::Book(WorkloadState* holder, bool take) {
  const Claim& claim = *holder->claim;
  Tree* tree = claim.queue->tree;
  for (const auto& [fr, amount] : claim.usage) {
    const quota::CellId cell = tree->ledger.Cell(claim.queue->node, fr);
    if (take) {
      tree->ledger.Take(cell, amount, quota::Book::kActual);
    } else {
      tree->ledger.Release(cell, amount, quota::Book::kActual);
    }
  }
  if (!claim.leaving) {
    BookPlanned(*claim.queue, claim.usage, take);
  } else if (take) {
    tree->leaving.insert(holder);
  } else {
    tree->leaving.erase(holder);
  }
  if (claim.onward != nullptr) BookPlanned(*claim.queue, claim.onward->usage, take);
  ++tree->version;
  claim.queue->capacity_generation = ++generation_;
}

void Forest::BookPlanned(const ClusterQueueState& queue, const std::vector<std::pair<FlavorResource, Amount>>& usage,
                         bool take) {
  quota::Ledger& ledger = queue.tree->ledger;
  for (const auto& [fr, amount] : usage) {
    const quota::CellId cell = ledger.Cell(queue.node, fr);
    if (take) {
      ledger.Take(cell, amount, quota::Book::kPlanned);
    } else {
      ledger.Release(cell, amount, quota::Book::kPlanned);
    }
  }
}

void Forest::BookPlaces(const std::vector<gang::PlacedPodSet>& places, gang::PlaceBook book, bool take) {
  for (const gang::PlacedPodSet& place : places) {
    booked_places_ += take ? 1 : -1;
    if (take) {
      topologies_->Take(place, book);
    } else {
      topologies_->Release(place, book);
    }
  }
}

void Forest::ListPlaces(WorkloadState* workload, bool add) {
  for (const gang::PlacedPodSet& place : workload->claim->places) {
    const gang::TopologyAssignment& assignment = place.assignment;
    if (assignment.levels.size() != 1 || assignment.levels.front() != gang::kHostnameLabel) continue;
    for (const gang::TopologyDomain& domain : assignment.domains) {
      auto& holders = on_host_[domain.values.back()];
      if (add) {
        holders.insert(workload);
      } else {
        holders.erase(workload);
      }
      if (holders.empty()) on_host_.erase(domain.values.back());
    }
  }
}

const absl::btree_set<WorkloadState*, ByUid>* Forest::HoldersOn(std::string_view hostname) const {
  const auto it = on_host_.find(hostname);
  return it == on_host_.end() ? nullptr : &it->second;
}

std::vector<std::string> Forest::HostsWithPlaces() const {
  std::vector<std::string> hosts;
  for (const auto& [host, holders] : on_host_) hosts.push_back(host);
  std::sort(hosts.begin(), hosts.end());
  return hosts;
}

void Forest::SetPlaces(WorkloadState* workload, std::vector<gang::PlacedPodSet> places) {
  Claim* claim = workload->claim.get();
  for (const bool take : {false, true}) {
    if (take) claim->places = std::move(places);
    ListPlaces(workload, take);
    BookPlaces(claim->places, gang::PlaceBook::kActual, take);
    if (!claim->leaving) BookPlaces(claim->places, gang::PlaceBook::kPlanned, take);
  }
}

void Forest::BookOutsideTrees(const WorkloadState& workload, const Room& room, bool take) {
  BookPlaces(room.places, gang::PlaceBook::kPlanned, take);
  const PodsToCome none{workload.spec.ns, {}};
  namespace_quotas_->Plan(take ? none : room.to_come, take ? room.to_come : none);
}

void Forest::KeepRoom(WorkloadState* workload, Room room) {
  GiveUpRoom(workload);
  ClusterQueueState* queue = workload->waiting_in;
  workload->room = std::make_unique<Room>(std::move(room));
  BookPlanned(*queue, workload->room->usage, true);
  BookOutsideTrees(*workload, *workload->room, true);
  queue->keeping.insert(workload);
  queue->tree->keeping.insert(workload);
  if (workload->room->future.has_value()) reserving_.insert(workload);
  if (WasMoved(*workload)) queue->waiting.SetFirst(&workload->ticket, true);
  Refresh(queue);
}

void Forest::KeepOnward(WorkloadState* workload, Room room) {
  Claim* claim = workload->claim.get();
  MUSTER_CHECK(claim->leaving && claim->onward == nullptr);
  claim->onward = std::make_unique<Room>(std::move(room));
  if (claim->queue->tree != nullptr) BookPlanned(*claim->queue, claim->onward->usage, true);
  BookOutsideTrees(*workload, *claim->onward, true);
}

std::unique_ptr<Room> Forest::TakeOnward(WorkloadState* workload) {
  Claim* claim = workload->claim.get();
  if (claim->onward == nullptr) return nullptr;
  if (claim->queue->tree != nullptr) BookPlanned(*claim->queue, claim->onward->usage, false);
  BookOutsideTrees(*workload, *claim->onward, false);
  return std::move(claim->onward);
}

void Forest::GiveUpRoom(WorkloadState* workload) {
  if (workload->room == nullptr) return;
  MUSTER_CHECK(!workload->waiting_in->tree->lifted_rooms.contains(workload->room.get()));
  ClusterQueueState* queue = workload->waiting_in;
  BookPlanned(*queue, workload->room->usage, false);
  BookOutsideTrees(*workload, *workload->room, false);
  queue->keeping.erase(workload);
  queue->tree->keeping.erase(workload);
  reserving_.erase(workload);
  workload->room.reset();
  queue->waiting.SetFirst(&workload->ticket, queue->preemptor == workload);
  Refresh(queue);
}

void Forest::LoseRoom(WorkloadState* workload) {
  Tree* tree = workload->waiting_in->tree;
  GiveUpRoom(workload);
  workload->room_lost_in = turn_;
  tree->restore_rooms = true;  // in another turn
  RequestFlush(tree);
}

void Forest::GiveUpRooms(ClusterQueueState* queue) {
  if (queue->keeping.empty()) return;
  while (!queue->keeping.empty()) GiveUpRoom(*queue->keeping.begin());
  RequestFlush(queue->tree);
}

bool Forest::MayUseRoom(const WorkloadState& workload) {
  const queue::WaitingQueue& waiting = workload.waiting_in->waiting;
  const queue::Ticket* head = waiting.Head();
  return waiting.strategy() != queue::Strategy::kStrictFIFO || head == &workload.ticket ||
         workload.ticket.place() == queue::Place::kBackingOff || WasMoved(workload) ||
         (head != nullptr && WasMoved(*static_cast<const WorkloadState*>(head->owner)));
}

void Forest::GiveUpUselessRooms(ClusterQueueState* queue) {
  const auto useless = [queue] {
    return std::find_if(queue->keeping.begin(), queue->keeping.end(),
                        [](const WorkloadState* workload) { return !MayUseRoom(*workload); });
  };
  for (auto it = useless(); it != queue->keeping.end(); it = useless()) LoseRoom(*it);
}

void Forest::Attach(WorkloadState* workload, ClusterQueueState* queue) {
  Claim* claim = workload->claim.get();
  claim->queue = queue;
  claim->queue_index = queue->holders.size();
  claim->leaving = Leaves(*claim);
  claim->machines.SetLeaving(claim->leaving);
  queue->holders.push_back(workload);
  List(workload);
  MarkChanged(queue);
  if (queue->tree != nullptr) Book(workload, true);
}

void Forest::Detach(WorkloadState* workload) {
  Claim* claim = workload->claim.get();
  ClusterQueueState* queue = claim->queue;
  Unlist(workload);
  if (queue->tree != nullptr) {
    Book(workload, false);
    Gained(queue->tree);
  }
  WorkloadState* last = queue->holders.back();
  last->claim->queue_index = claim->queue_index;
  queue->holders[claim->queue_index] = last;
  queue->holders.pop_back();
  claim->queue = nullptr;
  MarkChanged(queue);
  DropIfUnused(queue);
}

void Forest::ChangeUsage(WorkloadState* workload, std::vector<std::pair<FlavorResource, Amount>> usage) {
  Claim* claim = workload->claim.get();
  MarkChanged(claim->queue);
  if (claim->queue->tree == nullptr) {
    claim->usage = std::move(usage);
    return;
  }
  Book(workload, false);
  claim->usage = std::move(usage);
  Book(workload, true);
}

void Forest::Unlist(WorkloadState* workload) {
  if (!workload->claim->leaving) MUSTER_CHECK(workload->claim->queue->preemptible.erase(workload) == 1);
}

void Forest::List(WorkloadState* workload) {
  if (!workload->claim->leaving) workload->claim->queue->preemptible.insert(workload);
}

bool Forest::UpdateLeaving(WorkloadState* workload) {
  Claim* claim = workload->claim.get();
  const bool leaving = Leaves(*claim);
  if (leaving == claim->leaving) return false;
  BookPlaces(claim->places, gang::PlaceBook::kPlanned, !leaving);
  claim->machines.SetLeaving(leaving);
  Tree* tree = claim->queue->tree;
  Unlist(workload);
  if (tree != nullptr) Book(workload, false);
  claim->leaving = leaving;
  List(workload);
  if (tree != nullptr) Book(workload, true);
  return true;
}

void Forest::SetPreemptor(ClusterQueueState* queue, WorkloadState* workload) {
  if (queue->preemptor == workload || queue->waiting.strategy() != queue::Strategy::kBestEffortFIFO) return;
  // Who comes back into its room is first by that, and takes nobody's place.
  const auto comes_back = [](const WorkloadState* one) { return one->room != nullptr && WasMoved(*one); };
  if (comes_back(workload)) return;
  WorkloadState* former = queue->preemptor;
  if (former != nullptr && !comes_back(former)) queue->waiting.SetFirst(&former->ticket, false);
  queue->preemptor = workload;
  queue->waiting.SetFirst(&workload->ticket, true);
}

void Forest::ForgetPreemptor(ClusterQueueState* queue, const WorkloadState* workload) {
  if (queue->preemptor != workload || workload == nullptr) return;
  queue->waiting.SetFirst(&queue->preemptor->ticket, false);
  queue->preemptor = nullptr;
}

}  // namespace muster::engine
