// What is seen of the machines from outside: one look at the book as it is, without a question or a change.
#include <algorithm>
#include <bit>

#include "fit_scan.h"
#include "machine_room_impl.h"
#include "muster/core/check.h"
#include "room_asker_impl.h"

namespace muster::gang {

namespace {

Amount Clamped(__int128 sum) {
  return {static_cast<int64_t>(std::min(sum, static_cast<__int128>(Amount::Unlimited().value)))};
}

// What is summed up of one resource.
struct Column {
  MachineResource resource;
  const std::vector<int64_t>* sizes = nullptr;
  FlavorRoom* out = nullptr;
  __int128 free = 0;

  void Add(const Chunk& chunk, uint32_t slot) {
    const int64_t slots = std::max(int64_t{0}, chunk.Room(Book::kBoth, kPodSlots.value, slot));
    const int64_t room = std::max(int64_t{0}, chunk.Room(Book::kBoth, resource.value, slot));
    free += room;
    out->largest = std::max(out->largest, Amount{room});
    for (size_t i = 0; i < sizes->size(); ++i) out->pods[i] += std::min(slots, room / (*sizes)[i]);
  }
};

}  // namespace

std::optional<FlavorFacts> MachineRoomImpl::FactsOf(std::string_view flavor, std::string_view resource) const {
  const auto record = flavors_.find(flavor);
  if (!on_ || record == flavors_.end() || !HasNodes()) return std::nullopt;
  const FlavorRecord& of = record->second;
  const auto sum = of.allocatable.find(resource);
  return FlavorFacts{of.machines.autoscaled, of.nodes, sum == of.allocatable.end() ? Amount{} : Clamped(sum->second)};
}

std::vector<FlavorRoom> MachineRoomImpl::RoomOf(std::string_view flavor, const std::vector<std::string>& resources,
                                                const std::vector<int64_t>& sizes) {
  const auto record = flavors_.find(flavor);
  MUSTER_CHECK(record != flavors_.end());
  std::vector<FlavorRoom> out(resources.size(), {{}, {}, std::vector<int64_t>(sizes.size())});
  std::vector<Column> columns;
  for (size_t i = 0; i < resources.size(); ++i) {
    const auto known = resource_ids_.find(resources[i]);
    if (known != resource_ids_.end()) columns.push_back({known->second, &sizes, &out[i]});
  }
  const ClassFilter& filter = own_->FilterOf(record->second.tolerant, {record->first});
  for (const Chunk* chunk : user_.Read().spine) {
    for (uint64_t rest = AdmittedMachines(*chunk->block, filter); rest != 0; rest &= rest - 1) {
      const auto slot = static_cast<uint32_t>(std::countr_zero(rest));
      for (Column& column : columns) column.Add(*chunk, slot);
    }
  }
  for (const Column& column : columns) column.out->free = Clamped(column.free);
  return out;
}

}  // namespace muster::gang
