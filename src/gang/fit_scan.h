// The pass over all machines that every search begins with.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "muster/gang/machine_search.h"

namespace muster::gang {

// How many such pods have a place on one machine at the same time.
inline int64_t PodsThatFit(const Chunk& chunk, uint32_t slot, const Needs& per_pod, Book books) {
  int64_t pods = std::numeric_limits<int64_t>::max();
  for (const Need& need : per_pod) {
    const int64_t room = chunk.Room(books, need.resource.value, slot);
    if (room < need.amount) return 0;
    pods = std::min(pods, room / need.amount);
  }
  return pods;
}

// The machines that are open and of a class that will do.
inline uint64_t AdmittedMachines(const MachineBlock& block, const ClassFilter& filter) {
  if (!filter.Meets(block.classes)) return 0;
  uint64_t machines = block.open;
  if (filter.admits_all()) return machines;
  for (uint64_t rest = machines; rest != 0; rest &= rest - 1) {
    const int slot = std::countr_zero(rest);
    if (!filter.Admits(block.machine_class[static_cast<size_t>(slot)])) machines &= ~(uint64_t{1} << slot);
  }
  return machines;
}

// Of `machines`, those that have room for one pod.
inline uint64_t WithPlace(const Chunk& chunk, uint64_t machines, const Needs& per_pod, Book books) {
  for (const Need& need : per_pod) {
    if (need.resource.value >= chunk.resources) return 0;
    if (chunk.Greatest(books, need.resource.value) < need.amount) return 0;
  }
  for (const Need& need : per_pod) {
    if (machines == 0) return 0;
    uint64_t enough = 0;
    if (chunk.planned.empty() || books != Book::kBoth) {
      const int64_t* column = chunk.Column(books, need.resource.value);
      for (uint32_t i = 0; i < kChunkMachines; ++i) enough |= uint64_t{column[i] >= need.amount} << i;
    } else {
      const int64_t* free = chunk.Column(Book::kFree, need.resource.value);
      const int64_t* planned = chunk.Column(Book::kPlanned, need.resource.value);
      for (uint32_t i = 0; i < kChunkMachines; ++i) {
        enough |= uint64_t{free[i] >= need.amount && planned[i] >= need.amount} << i;
      }
    }
    machines &= enough;
  }
  return machines;
}

// Calls visit(machine, chunk, slot, pods) for each machine with a place, beginning with chunk `origin`, until that is
// false.
template <typename F>
void ForEachMachineThatFits(const BookSnapshot& book, const PodSetRequest& pod_set, Book books, uint32_t origin,
                            F visit) {
  const uint32_t chunks = book.chunks();
  for (uint32_t i = 0; i < chunks; ++i) {
    const uint32_t at = (origin % chunks + i) % chunks;
    const Chunk& chunk = *book.spine[at];
    uint64_t machines = AdmittedMachines(*chunk.block, pod_set.filter);
    if (machines != 0) machines = WithPlace(chunk, machines, pod_set.per_pod, books);
    for (; machines != 0; machines &= machines - 1) {
      const auto slot = static_cast<uint32_t>(std::countr_zero(machines));
      const int64_t pods = PodsThatFit(chunk, slot, pod_set.per_pod, books);
      if (!visit(MachineIndex{at * kChunkMachines + slot}, chunk, slot, pods)) return;
    }
  }
}

}  // namespace muster::gang
