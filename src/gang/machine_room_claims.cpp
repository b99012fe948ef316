// What gangs hold, and how it follows what is known of them and of their pods.
#include <algorithm>
#include <limits>

#include "machine_room_impl.h"
#include "muster/core/check.h"
#include "room_asker_impl.h"

namespace muster::gang {

namespace {

Book Without(Book books, Book others) {
  return static_cast<Book>(static_cast<uint8_t>(books) & ~static_cast<uint8_t>(others));
}

int64_t PodsOn(const std::vector<MachinePlace>& places) {
  int64_t pods = 0;
  for (const MachinePlace& place : places) pods += place.pods;
  return pods;
}

void AddPlace(const MachinePlace& place, std::vector<MachinePlace>* places) {
  const auto known = std::find_if(places->begin(), places->end(),
                                  [&](const MachinePlace& other) { return other.machine == place.machine; });
  if (known == places->end()) {
    places->push_back(place);
  } else {
    known->pods += place.pods;
  }
}

}  // namespace

template <typename F>
void MachineRoomImpl::ForEachHeld(const Holding& holding, F visit) const {
  for (const Holding::Part& part : holding.parts) {
    for (const MachinePlace& place : part.places) visit(part.needs, place, holding.books);
  }
  const auto pods = holding.is_claim() ? pods_of_.find(holding.workload) : pods_of_.end();
  if (pods == pods_of_.end()) return;
  for (const std::string& key : pods->second) {
    const PodRecord& pod = pods_.at(key);
    if (!pod.left_over) visit(pod.needs, pod.place, pod.books);
  }
}

bool MachineRoomImpl::IsThere(const BookSnapshot& book, const MachinePlace& place) {
  return book.Contains(place.machine) && book.Incarnation(place.machine) == place.incarnation;
}

void RoomAskerImpl::MoveOnTrial(const Holding& holding, bool out) {
  StepBatch moves;
  room_->ForEachHeld(holding, [&](const Needs& needs, const MachinePlace& place, Book books) {
    if (!Has(books, Book::kPlanned)) return;
    moves.Add(needs, place, out ? Book::kNone : Book::kPlanned, out ? Book::kPlanned : Book::kNone);
  });
  std::vector<ClaimStep> steps;
  moves.AddTo(&steps);
  for (const ClaimStep& step : steps) MUSTER_CHECK(trial_->Apply(step));
}

// ---- changes of the book ------------------------------------------------------------------------

std::vector<MachineEdit> MachineRoomImpl::EditsOf(const std::set<std::string>& nodes) {
  std::vector<MachineEdit> edits;
  for (const std::string& name : nodes) {
    NodeRecord* node = FindNode(name);
    if (node == nullptr) continue;
    if (!node->known && !node->machine.has_value()) {
      DropIfUnused(name);
      continue;
    }
    SetClass(node);
    MachineEdit edit;
    if (!node->known) {
      edit.kind = MachineEdit::Kind::kRemove;
      edit.machine = *node->machine;
      free_machines_.insert(node->machine->value);
      node->machine.reset();
      DropIfUnused(name);
    } else {
      if (!node->machine.has_value()) node->machine = NewMachine(name);
      edit.machine = *node->machine;
      edit.machine_class = node->machine_class;
      edit.open = node->node.ready && !node->node.unschedulable;
      for (const auto& [resource, amount] : node->node.allocatable) (void)Resource(resource);
      edit.amounts = CapacityOf(*node);
    }
    edits.push_back(std::move(edit));
  }
  return edits;
}

MachineIndex MachineRoomImpl::NewMachine(const std::string& name) {
  MachineIndex machine{static_cast<uint32_t>(machine_names_.size())};
  if (free_machines_.empty()) {
    machine_names_.emplace_back();
  } else {
    machine = {*free_machines_.begin()};
    free_machines_.erase(free_machines_.begin());
  }
  machine_names_[machine.value] = name;
  return machine;
}

std::vector<Need> MachineRoomImpl::CapacityOf(const NodeRecord& node) const {
  std::vector<Need> amounts;
  for (const auto& [resource, amount] : node.node.allocatable) {
    const auto id = resource_ids_.find(resource);
    if (id == resource_ids_.end()) continue;  // one too many
    const auto taken = node.strangers.find(id->second);
    const Amount left = taken == node.strangers.end() ? amount : amount - taken->second;
    amounts.push_back({id->second, std::clamp(left.value, int64_t{0}, kMaxAmount)});
  }
  return amounts;
}

MachineRoomImpl::MachineState MachineRoomImpl::StateOf(const BookSnapshot& book, MachineIndex machine) {
  MachineState state;
  const Chunk* chunk = book.Find(machine);
  const uint32_t slot = machine.value % kChunkMachines;
  if (chunk == nullptr || (chunk->block->open >> slot & 1) == 0) return state;
  state.open = true;
  state.machine_class = chunk->block->machine_class[slot];
  // What is free now may be kept for somebody, who gains by it.
  for (uint32_t r = 0; r < chunk->resources; ++r) {
    for (const Book books : {Book::kFree, Book::kBoth}) state.room.push_back(chunk->Room(books, r, slot));
  }
  return state;
}

bool MachineRoomImpl::Change(std::span<const MachineEdit> edits, std::span<const ClaimStep> steps, bool quiet) {
  if (edits.empty() && steps.empty()) return true;
  MUSTER_CHECK(!shared_);
  for (RoomAskerImpl* asker : askers_) asker->Renew();
  std::map<uint32_t, MachineState> before;
  const auto note = [&](MachineIndex machine) {
    if (!quiet && !before.contains(machine.value)) before.emplace(machine.value, StateOf(Root(), machine));
  };
  for (const MachineEdit& edit : edits) note(edit.machine);
  for (const ClaimStep& step : steps) {
    for (const PodSetPlaces& pods : *step.placement) {
      for (const MachinePlace& place : pods.places) note(place.machine);
    }
  }
  if (!user_.Apply(edits, steps).done()) return false;
  if (!edits.empty()) ++capacity_version_;
  for (const auto& [machine, was] : before) {
    const MachineState now = StateOf(Root(), {machine});
    const bool other_class = now.machine_class != was.machine_class;
    bool short_of_some = !now.open || other_class;
    for (size_t r = 0; r < now.room.size(); r += 2) short_of_some = short_of_some || now.room[r] < 0;
    if (short_of_some) suspects_.insert(machine);
    bool gained = now.open && (!was.open || other_class);
    for (size_t r = 0; r < now.room.size() && !gained; ++r) {
      gained = now.room[r] > (r < was.room.size() ? was.room[r] : int64_t{0});
    }
    if (!gained) continue;
    gained_.insert(machine);
    ++gains_;
  }
  return true;
}

void MachineRoomImpl::Flush() {
  if (dirty_nodes_.empty() && relabeled_nodes_.empty() && dirty_workloads_.empty() && given_.empty()) return;
  MUSTER_CHECK(!shared_);
  const uint64_t gains_before = gains_;
  const std::set<std::string> nodes = std::exchange(dirty_nodes_, {});
  std::set<std::string> relabeled = std::exchange(relabeled_nodes_, {});
  std::erase_if(relabeled, [&](const std::string& name) { return nodes.contains(name); });
  (void)Change(EditsOf(relabeled), {}, true);
  (void)Change(EditsOf(nodes), {}, false);
  std::set<std::string> dirty = std::exchange(dirty_workloads_, {});
  StepBatch moves = std::exchange(given_, {});
  for (const std::string& workload : dirty) Reconcile(workload, &moves);
  std::vector<ClaimStep> steps;
  moves.AddTo(&steps);
  (void)Change({}, steps, false);
  dirty.merge(VoidPlaces(std::exchange(suspects_, {})));
  suspects_.clear();
  if (gains_ > gains_before) dirty.insert(missing_.begin(), missing_.end());
  for (const std::string& workload : dirty) {
    const auto claim = claims_.find(workload);
    if (claim != claims_.end()) SeatMissing(claim->second.get());
  }
}

// ---- what follows what --------------------------------------------------------------------------

void MachineRoomImpl::Reconcile(const std::string& workload, StepBatch* steps) {
  const auto found = claims_.find(workload);
  Holding* claim = found == claims_.end() ? nullptr : found->second.get();
  const std::vector<MachineIndex> bound = ReconcilePods(workload, claim, steps);
  if (claim == nullptr) return;
  const Book books = claim->leaving ? Book::kFree : Book::kBoth;
  for (Holding::Part& part : claim->parts) ReconcilePart(*claim, bound, books, &part, steps);
  claim->books = books;
}

std::vector<MachineIndex> MachineRoomImpl::ReconcilePods(const std::string& workload, const Holding* claim,
                                                         StepBatch* steps) {
  std::vector<MachineIndex> bound;
  const auto pods = pods_of_.find(workload);
  if (pods == pods_of_.end()) return bound;
  const BookSnapshot& book = Root();
  for (const std::string& key : pods->second) {
    PodRecord& pod = pods_.at(key);
    if (pod.books != Book::kNone && !IsThere(book, pod.place)) pod.books = Book::kNone;
    const NodeRecord* node = FindNode(pod.pod.node);
    if (node == nullptr || !node->known || !node->machine.has_value()) continue;
    // Pods of gangs that are not admitted here are strangers' pods.
    const bool stays = !pod.left_over && (claim == nullptr || !claim->leaving);
    const Book books = stays ? Book::kBoth : Book::kFree;
    if (pod.books == Book::kNone) {
      pod.place = book.PlaceOn(*node->machine, 1);
      bound.push_back(*node->machine);
    }
    steps->Add(pod.needs, pod.place, Without(books, pod.books), Without(pod.books, books));
    pod.books = books;
  }
  return bound;
}

void MachineRoomImpl::ReconcilePart(const Holding& claim, const std::vector<MachineIndex>& bound, Book books,
                                    Holding::Part* part, StepBatch* steps) {
  const BookSnapshot& book = Root();
  const auto is_gone = [&](const MachinePlace& place) { return !IsThere(book, place); };
  std::erase_if(part->places, is_gone);
  std::erase_if(part->vacated, is_gone);
  int64_t have = PodsOn(part->places);
  int64_t target = 0;
  if (Checks(part->pods.flavors)) target = std::max(int64_t{0}, part->pods.count - BoundPods(claim, part->pods.name));
  if (claim.leaving) target = std::min(target, have);
  const auto give = [&](MachinePlace* place, int64_t pods) {
    MachinePlace given = *place;
    given.pods = pods;
    steps->Add(part->needs, given, Book::kNone, claim.books);
    place->pods -= pods;
    have -= pods;
  };
  // Where its pods are bound now, first.
  for (const MachineIndex machine : bound) {
    const auto place = std::find_if(part->places.begin(), part->places.end(), [&](const MachinePlace& other) {
      return other.machine == machine && other.pods > 0;
    });
    if (place != part->places.end() && have > target) give(&*place, 1);
  }
  for (auto place = part->places.rbegin(); place != part->places.rend() && have > target; ++place) {
    give(&*place, std::min(place->pods, have - target));
  }
  std::erase_if(part->places, [](const MachinePlace& place) { return place.pods == 0; });
  for (const MachinePlace& place : part->places) {
    steps->Add(part->needs, place, Without(books, claim.books), Without(claim.books, books));
  }
  for (const MachinePlace& place : part->vacated) {
    if (have >= target) break;
    steps->Add(part->needs, place, books, Book::kNone);
    AddPlace(place, &part->places);
    ++have;
  }
  part->vacated.clear();
  part->missing = target - have;
}

namespace {

// It is bound, and of the claim that there is.
bool CountsFor(const PodRecord& pod, const std::string& pod_set) {
  return !pod.left_over && pod.books != Book::kNone && pod.pod.pod_set == pod_set;
}

}  // namespace

int64_t MachineRoomImpl::BoundPods(const Holding& claim, const std::string& pod_set) const {
  const auto pods = pods_of_.find(claim.workload);
  if (pods == pods_of_.end()) return 0;
  return std::count_if(pods->second.begin(), pods->second.end(),
                       [&](const std::string& key) { return CountsFor(pods_.at(key), pod_set); });
}

TopologyAssignment MachineRoomImpl::LeftInDomains(const Holding& claim, const Holding::Part& part) const {
  TopologyAssignment left = *part.pods.topology;
  const auto take = [&](const std::string& node, int64_t count) {
    const auto record = nodes_.find(node);
    if (record == nodes_.end()) return;
    const Labels& labels = record->second.node.labels;
    const auto is_in = [&](const TopologyDomain& domain) {
      for (size_t i = 0; i < left.levels.size(); ++i) {
        const auto label = labels.find(left.levels[i]);
        if (label == labels.end() || label->second != domain.values[i]) return false;
      }
      return true;
    };
    const auto domain = std::find_if(left.domains.begin(), left.domains.end(), is_in);
    if (domain == left.domains.end()) return;
    domain->count = static_cast<int32_t>(std::max<int64_t>(0, domain->count - count));
  };
  for (const MachinePlace& place : part.places) take(machine_names_[place.machine.value], place.pods);
  if (const auto pods = pods_of_.find(claim.workload); pods != pods_of_.end()) {
    for (const std::string& key : pods->second) {
      const PodRecord& pod = pods_.at(key);
      if (CountsFor(pod, part.pods.name)) take(pod.pod.node, 1);
    }
  }
  return left;
}

void MachineRoomImpl::SeatMissing(Holding* claim) {
  bool lacks = false;
  for (Holding::Part& part : claim->parts) {
    if (part.missing <= 0) continue;
    PodSetToSeat pods = part.pods;
    pods.count = part.missing;
    if (pods.topology.has_value()) pods.topology = LeftInDomains(*claim, part);
    const GangToSeat gang{std::move(pods)};
    for (const RoomAskerImpl::Wanted& wanted : own_->WantedOf(gang)) {
      const GangPlacement placement{{part.needs, own_->SeatSome(wanted, Root(), Book::kBoth)}};
      const ClaimStep step{&placement, Book::kBoth, Book::kNone, true};
      if (placement[0].places.empty() || !Change({}, {&step, 1}, true)) continue;
      for (const MachinePlace& place : placement[0].places) AddPlace(place, &part.places);
      part.missing -= PodsOn(placement[0].places);
    }
    lacks = lacks || part.missing > 0;
  }
  SetLacks(claim->workload, lacks);
}

void MachineRoomImpl::SetLacks(const std::string& workload, bool lacks) {
  const bool changed = lacks ? missing_.insert(workload).second : missing_.erase(workload) > 0;
  // There and back again is no change.
  if (changed && !lack_changed_.insert(workload).second) lack_changed_.erase(workload);
}

// Who is leaving loses first, then the greater uid: any order would do that is the same in each process.
std::set<std::string> MachineRoomImpl::VoidPlaces(const std::set<uint32_t>& machines) {
  std::set<std::string> losers;
  if (machines.empty()) return losers;
  std::vector<Holding*> claims;
  for (auto claim = claims_.rbegin(); claim != claims_.rend(); ++claim) claims.push_back(claim->second.get());
  std::stable_partition(claims.begin(), claims.end(), [](const Holding* claim) { return claim->leaving; });
  for (Holding* claim : claims) {
    for (Holding::Part& part : claim->parts) {
      for (MachinePlace& place : part.places) {
        if (!machines.contains(place.machine.value) || !IsThere(Root(), place)) continue;
        const int64_t pods = PodsWithoutRoom(part, place);
        if (pods == 0) continue;
        MachinePlace voided = place;
        voided.pods = pods;
        StepBatch given;
        given.Add(part.needs, voided, Book::kNone, claim->books);
        std::vector<ClaimStep> steps;
        given.AddTo(&steps);
        (void)Change({}, steps, false);
        place.pods -= pods;
        if (!claim->leaving) part.missing += pods;
        losers.insert(claim->workload);
      }
      std::erase_if(part.places, [](const MachinePlace& place) { return place.pods == 0; });
    }
  }
  return losers;
}

int64_t MachineRoomImpl::PodsWithoutRoom(const Holding::Part& part, const MachinePlace& place) {
  const BookSnapshot& book = Root();
  const Chunk& chunk = *book.Find(place.machine);
  const uint32_t slot = place.machine.value % kChunkMachines;
  const ClassFilter& filter = own_->FilterOf(part.pods.shape, part.pods.flavors);
  if ((chunk.block->open >> slot & 1) == 0 || !filter.Admits(chunk.block->machine_class[slot])) return place.pods;
  int64_t pods = 0;
  for (const Need& need : part.needs) {
    const int64_t lacks = -book.Room(Book::kFree, place.machine, need.resource);
    if (lacks > 0) pods = std::max(pods, (lacks + need.amount - 1) / need.amount);
  }
  return std::min(pods, place.pods);
}

// ---- reservations -------------------------------------------------------------------------------

std::unique_ptr<Reservation::Holding> MachineRoomImpl::MakeHolding(std::string_view workload, const GangToSeat& gang,
                                                                   Purpose purpose) {
  auto holding = std::make_unique<Holding>();
  holding->workload = std::string(workload);
  holding->purpose = purpose;
  holding->books = holding->is_claim() ? Book::kBoth : Book::kPlanned;
  for (const PodSetToSeat& pods : gang) {
    holding->parts.push_back({pods, NeedsOf(pods.shape->OnNode()), {}, {}, 0});
  }
  return holding;
}

Reservation MachineRoomImpl::Register(std::unique_ptr<Holding> holding) {
  Holding* held = holding.get();
  if (held->is_claim()) {
    const bool is_new = claims_.emplace(held->workload, std::move(holding)).second;
    MUSTER_CHECK_MSG(is_new, held->workload);
  } else {
    kept_.emplace(held, std::move(holding));
  }
  return {this, held};
}

std::optional<Reservation> RoomAskerImpl::Take(std::string_view workload, const GangToSeat& gang, Purpose purpose) {
  if (!room_->on_) return Reservation(room_, nullptr);
  room_->Mention(gang);
  room_->Flush();
  std::unique_ptr<Holding> holding = room_->MakeHolding(workload, gang, purpose);
  Seating seating;
  do {  // again where somebody else was first
    seating = Seat(gang, Present(), holding->books, true);
    if (!seating.answer.fits) return std::nullopt;
  } while (!TakePlaces(seating.placement, holding->books));
  for (size_t i = 0; i < gang.size(); ++i) holding->parts[i].places = std::move(seating.placement[i].places);
  if (holding->is_claim()) room_->SetLeftOver(holding->workload, true);
  ++room_->Taken(purpose);
  return room_->Register(std::move(holding));
}

// One change, in which what is lifted is not there.
bool RoomAskerImpl::TakePlaces(const GangPlacement& placement, Book books) {
  const bool any =
      std::any_of(placement.begin(), placement.end(), [](const auto& pods) { return !pods.places.empty(); });
  if (!any) return true;
  StepBatch out;
  StepBatch back;
  for (const Holding* holding : lifted_) {
    room_->ForEachHeld(*holding, [&](const Needs& needs, const MachinePlace& place, Book held) {
      if (!Has(held, Book::kPlanned)) return;
      out.Add(needs, place, Book::kNone, Book::kPlanned);
      back.Add(needs, place, Book::kPlanned, Book::kNone);
    });
  }
  std::vector<ClaimStep> steps;
  out.AddTo(&steps);
  steps.push_back({&placement, books, Book::kNone, true});
  back.AddTo(&steps);
  return room_->Change({}, steps, true);
}

// Whether the pods that it has now are of an admission before the present one.
void MachineRoomImpl::SetLeftOver(const std::string& workload, bool left_over) {
  const auto pods = pods_of_.find(workload);
  if (pods == pods_of_.end()) return;
  for (const std::string& key : pods->second) pods_.at(key).left_over = left_over;
}

std::vector<std::string> MachineRoomImpl::NodesOf(const Holding& holding) const {
  std::set<std::string> nodes;
  for (const Holding::Part& part : holding.parts) {
    for (const MachinePlace& place : part.places) nodes.insert(machine_names_[place.machine.value]);
  }
  if (const auto pods = pods_of_.find(holding.workload); holding.is_claim() && pods != pods_of_.end()) {
    for (const std::string& key : pods->second) nodes.insert(pods_.at(key).pod.node);
  }
  return {nodes.begin(), nodes.end()};
}

Reservation MachineRoomImpl::Adopt(std::string_view workload, const GangToSeat& gang) {
  if (!on_) return {this, nullptr};
  Mention(gang);
  dirty_workloads_.insert(std::string(workload));
  SetLeftOver(std::string(workload), false);
  return Register(MakeHolding(workload, gang, Purpose::kClaim));
}

void MachineRoomImpl::Release(Holding* holding, bool quiet) {
  StepBatch given;
  StepBatch* to = quiet ? &given : &given_;
  for (const Holding::Part& part : holding->parts) {
    for (const MachinePlace& place : part.places) to->Add(part.needs, place, Book::kNone, holding->books);
  }
  std::vector<ClaimStep> steps;
  given.AddTo(&steps);
  (void)Change({}, steps, true);
  if (holding->is_claim()) {
    dirty_workloads_.insert(holding->workload);
    SetLacks(holding->workload, false);
    SetLeftOver(holding->workload, true);
    claims_.erase(claims_.find(holding->workload));
  } else {
    kept_.erase(holding);
  }
}

void MachineRoomImpl::SetLeaving(Holding* holding, bool leaving) {
  if (std::exchange(holding->leaving, leaving) != leaving) dirty_workloads_.insert(holding->workload);
}

void MachineRoomImpl::SetNeeded(Holding* holding, const std::vector<std::pair<std::string, int64_t>>& pods) {
  for (const auto& [name, count] : pods) {
    for (Holding::Part& part : holding->parts) {
      if (part.pods.name != name || std::exchange(part.pods.count, count) == count) continue;
      dirty_workloads_.insert(holding->workload);
    }
  }
}

// ---- checks -------------------------------------------------------------------------------------

void MachineRoomImpl::AddToHash(StateHash* hash) const {
  for (const auto& [key, pod] : pods_) {
    if (pod.pod.workload.empty()) continue;
    hash->Add(key).Add(pod.pod.node).Add(pod.pod.workload).Add(pod.pod.pod_set);
    hash->Add(static_cast<int64_t>(pod.left_over)).Add(static_cast<int64_t>(pod.books));
    for (const auto& [resource, amount] : pod.pod.requests) hash->Add(resource).Add(amount.value);
  }
  for (const auto& [uid, claim] : claims_) {
    hash->Add(uid).Add(static_cast<int64_t>(claim->books));
    for (const Holding::Part& part : claim->parts) {
      hash->Add(part.missing);
      std::map<std::string_view, int64_t> places;
      for (const MachinePlace& place : part.places) places[machine_names_[place.machine.value]] += place.pods;
      for (const auto& [node, pods] : places) hash->Add(node).Add(pods);
    }
  }
}

void MachineRoomImpl::Validate() const {
  const BookSnapshot& book = user_.Read();
  MUSTER_CHECK(Recount(book));
  std::map<std::pair<uint32_t, MachineResource>, std::pair<int64_t, int64_t>> held;  // free, planned
  const auto add = [&](const Needs& needs, const MachinePlace& place, Book books) {
    if (!IsThere(book, place)) return;
    for (const Need& need : needs) {
      auto& [free, planned] = held[{place.machine.value, need.resource}];
      if (Has(books, Book::kFree)) free += need.amount * place.pods;
      if (Has(books, Book::kPlanned)) planned += need.amount * place.pods;
    }
  };
  const auto add_places = [&](const Holding& holding) {
    for (const Holding::Part& part : holding.parts) {
      for (const MachinePlace& place : part.places) add(part.needs, place, holding.books);
    }
  };
  for (const auto& [uid, claim] : claims_) add_places(*claim);
  for (const auto& [key, kept] : kept_) add_places(*kept);
  for (const auto& [key, pod] : pods_) {
    if (pod.books != Book::kNone) add(pod.needs, pod.place, pod.books);
  }
  given_.ForEach([&](const Needs& needs, const MachinePlace& place, Book, Book give) { add(needs, place, give); });
  uint64_t machines = 0;
  for (const auto& [name, node] : nodes_) {
    if (!node.machine.has_value()) continue;
    ++machines;
    MUSTER_CHECK_MSG(machine_names_[node.machine->value] == name && book.Contains(*node.machine), name);
    std::map<MachineResource, int64_t> capacity;
    for (const Need& need : CapacityOf(node)) capacity[need.resource] = need.amount;
    for (const auto& [resource_name, resource] : resource_ids_) {
      const int64_t there = book.Capacity(*node.machine, resource);
      if (!dirty_nodes_.contains(name)) MUSTER_CHECK_MSG(there == capacity[resource], name);
      const auto& [free, planned] = held[{node.machine->value, resource}];
      MUSTER_CHECK_MSG(book.Room(Book::kFree, *node.machine, resource) == there - free, name);
      MUSTER_CHECK_MSG(book.Room(Book::kPlanned, *node.machine, resource) == there - planned, name);
    }
  }
  MUSTER_CHECK(machines == book.machines);
  for (const RoomAskerImpl* asker : askers_) MUSTER_CHECK(!asker->lifts());
  ValidateFacts();
}

}  // namespace muster::gang
