#include "muster/gang/book_snapshot.h"

#include <algorithm>
#include <limits>

#include "book_editor.h"

namespace muster::gang {

Needs PodNeeds(std::vector<Need> amounts) {
  amounts.push_back({kPodSlots, 1});
  std::sort(amounts.begin(), amounts.end(), [](const Need& a, const Need& b) { return a.resource < b.resource; });
  Needs needs;
  for (const Need& need : amounts) {
    if (need.amount <= 0) continue;
    if (!needs.empty() && needs.back().resource == need.resource) {
      needs.back().amount = std::min(kMaxAmount, needs.back().amount + std::min(need.amount, kMaxAmount));
    } else {
      needs.push_back({need.resource, std::min(need.amount, kMaxAmount)});
    }
  }
  return needs;
}

void OwnSpine::Append(const Chunk* chunk, Spine* spine) {
  if (spine->chunks % kSegmentChunks == 0) spine->segments.push_back(&segments_.emplace_back());
  segments_.back().chunks[spine->chunks++ % kSegmentChunks] = chunk;
}

const Chunk* BookSnapshot::Find(MachineIndex machine) const {
  const uint32_t at = machine.value / kChunkMachines;
  if (at >= spine.size()) return nullptr;
  return (spine[at]->block->present >> (machine.value % kChunkMachines) & 1) != 0 ? spine[at] : nullptr;
}

uint32_t BookSnapshot::Incarnation(MachineIndex machine) const {
  const uint32_t at = machine.value / kChunkMachines;
  return at < spine.size() ? spine[at]->block->incarnation[machine.value % kChunkMachines] : 0;
}

int64_t BookSnapshot::Room(Book books, MachineIndex machine, MachineResource resource) const {
  const Chunk* chunk = Find(machine);
  MUSTER_CHECK(chunk != nullptr);
  return chunk->Room(books, resource.value, machine.value % kChunkMachines);
}

MachinePlace BookSnapshot::PlaceOn(MachineIndex machine, int64_t pods) const {
  const Chunk* chunk = Find(machine);
  MUSTER_CHECK(chunk != nullptr);
  const uint32_t slot = machine.value % kChunkMachines;
  return {machine, chunk->block->incarnation[slot], chunk->block->machine_class[slot], pods};
}

int64_t BookSnapshot::Capacity(MachineIndex machine, MachineResource resource) const {
  const Chunk* chunk = Find(machine);
  MUSTER_CHECK(chunk != nullptr);
  if (resource.value >= chunk->resources) return 0;
  return chunk->block->capacity[size_t{resource.value} * kChunkMachines + machine.value % kChunkMachines];
}

bool Recount(const BookSnapshot& book) {
  absl::InlinedVector<BookSnapshot::Total, 4> totals(book.totals.size());
  uint64_t machines = 0;
  for (const Chunk* chunk : book.spine) {
    if (chunk->stale != 0) return false;
    Chunk copy = *chunk;
    copy.stale = ~uint64_t{0};
    Summarize(&copy);
    if (copy.greatest != chunk->greatest || chunk->resources > totals.size()) return false;
    for (uint32_t slot = 0; slot < kChunkMachines; ++slot) {
      if ((chunk->block->present >> slot & 1) == 0) continue;
      ++machines;
      for (uint32_t r = 0; r < chunk->resources; ++r) {
        totals[r].free += chunk->Room(Book::kFree, r, slot);
        totals[r].planned += chunk->Room(Book::kPlanned, r, slot);
      }
    }
  }
  for (size_t r = 0; r < totals.size(); ++r) totals[r].gained_at = book.totals[r].gained_at;
  return totals == book.totals && machines == book.machines;
}

}  // namespace muster::gang
