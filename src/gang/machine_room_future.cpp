// Room that is kept of what others will leave: for a gang that small ones would else never let begin.
//
// It is taken in the planned book whether it is there or not, so that this goes below zero, and nobody new fits on
// those machines until what runs there has gone down to leave the gang its places. What is beyond these is everybody's
// all the while.
#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>

#include "fit_scan.h"
#include "machine_room_impl.h"
#include "muster/core/check.h"
#include "room_asker_impl.h"

namespace muster::gang {

namespace {

constexpr WallTime kNever{std::numeric_limits<int64_t>::max()};

}  // namespace

std::vector<MachineRoomImpl::Occupants> MachineRoomImpl::MachinesByEnd(const GangEnds& ends) const {
  const BookSnapshot& book = user_.Read();
  std::map<uint32_t, Occupants> by_machine;
  for (uint32_t at = 0; at < book.chunks(); ++at) {
    for (uint64_t rest = book.spine[at]->block->open; rest != 0; rest &= rest - 1) {
      const uint32_t machine = at * kChunkMachines + static_cast<uint32_t>(std::countr_zero(rest));
      by_machine.emplace(machine, Occupants{{machine}, {}, 0});
    }
  }
  std::map<std::string_view, WallTime> known;
  const auto add = [&](const std::string& workload, const MachinePlace& place) {
    const auto machine = by_machine.find(place.machine.value);
    if (machine == by_machine.end() || !IsThere(book, place)) return;
    const auto [end, is_new] = known.try_emplace(workload);
    if (is_new) {
      end->second = ends(workload);
      if (!end->second.IsSet()) end->second = kNever;
    }
    machine->second.end = std::max(machine->second.end, end->second);
    machine->second.pods += place.pods;
  };
  for (const auto& [uid, claim] : claims_) {
    for (const Holding::Part& part : claim->parts) {
      for (const MachinePlace& place : part.places) add(uid, place);
    }
  }
  for (const auto& [key, pod] : pods_) {
    if (pod.books != Book::kNone) add(pod.pod.workload, pod.place);
  }
  std::vector<Occupants> machines;
  for (const auto& [machine, occupants] : by_machine) machines.push_back(occupants);
  std::sort(machines.begin(), machines.end(), [](const Occupants& a, const Occupants& b) {
    return std::tuple(a.end, a.pods, a.machine.value) < std::tuple(b.end, b.pods, b.machine.value);
  });
  return machines;
}

std::unique_ptr<SomeBook> MachineRoomImpl::EmptyButKept(const std::vector<Occupants>& machines, size_t count,
                                                        const Holding* except) {
  const BookSnapshot& root = Root();
  auto out = std::make_unique<SomeBook>();
  std::vector<uint64_t> open(root.chunks());
  for (size_t i = 0; i < count; ++i) {
    const uint32_t machine = machines[i].machine.value;
    open[machine / kChunkMachines] |= uint64_t{1} << (machine % kChunkMachines);
  }
  out->book.machines = root.machines;
  for (uint32_t at = 0; at < root.chunks(); ++at) {
    const Chunk& chunk = *root.spine[at];
    MachineBlock& block = out->blocks.emplace_back(*chunk.block);
    block.open &= open[at];
    Chunk& empty = out->chunks.emplace_back();
    empty.resources = chunk.resources;
    empty.block = &block;
    empty.free = block.capacity;
  }
  for (const auto& [kept, owned] : kept_) {
    if (kept == except) continue;
    for (const Holding::Part& part : kept->parts) {
      for (const MachinePlace& place : part.places) {
        if (!IsThere(root, place)) continue;
        Chunk& chunk = out->chunks[place.machine.value / kChunkMachines];
        for (const Need& need : part.needs) {
          if (need.resource.value >= chunk.resources) continue;
          const size_t at = size_t{need.resource.value} * kChunkMachines + place.machine.value % kChunkMachines;
          chunk.free[at] -= need.amount * place.pods;
        }
      }
    }
  }
  for (Chunk& chunk : out->chunks) {
    Summarize(&chunk);
    out->spine.Append(&chunk, &out->book.spine);
  }
  out->book.totals.resize(root.totals.size());
  return out;
}

bool MachineRoomImpl::KeepsFutureIn(const GangToSeat& gang) const {
  return std::any_of(kept_.begin(), kept_.end(), [&](const auto& kept) {
    if (!kept.first->future) return false;
    for (const Holding::Part& part : kept.first->parts) {
      for (const PodSetToSeat& pods : gang) {
        const bool shares = std::any_of(pods.flavors.begin(), pods.flavors.end(), [&](const std::string& flavor) {
          return std::binary_search(part.pods.flavors.begin(), part.pods.flavors.end(), flavor);
        });
        if (shares) return true;
      }
    }
    return false;
  });
}

std::optional<FutureRoom> RoomAskerImpl::KeepFuture(std::string_view workload, const GangToSeat& gang,
                                                    const GangEnds& ends) {
  if (!room_->on_) return std::nullopt;
  room_->Mention(gang);
  room_->Flush();
  const bool placed = std::any_of(gang.begin(), gang.end(), [](const auto& pods) { return pods.topology.has_value(); });
  if (placed || room_->KeepsFutureIn(gang)) return std::nullopt;
  std::vector<MachineRoomImpl::Occupants> machines = room_->MachinesByEnd(ends);
  // Whoever waits there for others to leave needs their room, and what is booked below zero would hide it.
  std::set<uint32_t> awaited;
  for (const auto& [kept, owned] : room_->kept_) {
    if (kept->future) continue;
    for (const Holding::Part& part : kept->parts) {
      for (const MachinePlace& place : part.places) awaited.insert(place.machine.value);
    }
  }
  std::erase_if(machines,
                [&](const MachineRoomImpl::Occupants& occupants) { return awaited.contains(occupants.machine.value); });
  // The fewest of them, from the first on, that would do.
  const auto seat = [&](size_t count) {
    const std::unique_ptr<SomeBook> empty = room_->EmptyButKept(machines, count, nullptr);
    return Seat(gang, empty->book, Book::kBoth, false);
  };
  Seating found = seat(machines.size());
  if (!found.answer.checked || !found.answer.fits) return std::nullopt;
  size_t too_few = 0;
  for (size_t enough = machines.size(); too_few + 1 < enough;) {
    const size_t middle = too_few + (enough - too_few) / 2;
    Seating fewer = seat(middle);
    if (fewer.answer.fits) {
      found = std::move(fewer);
      enough = middle;
    } else {
      too_few = middle;
    }
  }
  std::unique_ptr<Holding> holding = room_->MakeHolding(workload, gang, Purpose::kWaiting);
  holding->future = true;
  const ClaimStep step{&found.placement, Book::kPlanned, Book::kNone, false};
  (void)room_->Change({}, {&step, 1}, true);
  std::set<uint32_t> used;
  for (size_t i = 0; i < gang.size(); ++i) {
    holding->parts[i].places = std::move(found.placement[i].places);
    for (const MachinePlace& place : holding->parts[i].places) used.insert(place.machine.value);
  }
  WallTime free_at;
  for (const MachineRoomImpl::Occupants& occupants : machines) {
    if (used.contains(occupants.machine.value)) free_at = std::max(free_at, occupants.end);
  }
  ++room_->Taken(Purpose::kWaiting);
  return FutureRoom{room_->Register(std::move(holding)), static_cast<int64_t>(used.size()),
                    free_at == kNever ? WallTime{} : free_at};
}

bool RoomAskerImpl::FutureHolds(const Holding& holding) {
  const BookSnapshot& root = Root();
  std::vector<MachineRoomImpl::Occupants> machines;
  GangPlacement placement;
  for (const Holding::Part& part : holding.parts) {
    if (part.places.empty() || !room_->Checks(part.pods.flavors)) continue;
    const ClassFilter& filter = FilterOf(part.pods.shape, part.pods.flavors);
    placement.push_back({part.needs, {}});
    for (const MachinePlace& place : part.places) {
      const Chunk* chunk = root.Find(place.machine);
      if (chunk == nullptr || !MachineRoomImpl::IsThere(root, place)) return false;
      const uint32_t slot = place.machine.value % kChunkMachines;
      const bool open = (chunk->block->open >> slot & 1) != 0;
      if (!open || !filter.Admits(chunk->block->machine_class[slot])) return false;
      placement.back().places.push_back(root.PlaceOn(place.machine, place.pods));
      machines.push_back({place.machine, {}, 0});
    }
  }
  const std::unique_ptr<SomeBook> empty = room_->EmptyButKept(machines, machines.size(), &holding);
  BookEditor scratch(empty->book, 0);
  return scratch.Apply({&placement, Book::kPlanned, Book::kNone, true});
}

}  // namespace muster::gang
