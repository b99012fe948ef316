#include "muster/gang/machine_search.h"

#include <algorithm>

#include "fit_scan.h"
#include "mixed_search.h"
#include "muster/core/check.h"

namespace muster::gang {

ClassFilter::ClassFilter(const std::vector<MachineClass>& classes) : all_(false) {
  for (const MachineClass machine_class : classes) {
    const size_t word = machine_class.value / 64;
    if (bits_.size() <= word) bits_.resize(word + 1, 0);
    const uint64_t bit = uint64_t{1} << (machine_class.value % 64);
    bits_[word] |= bit;
    folded_ |= bit;
  }
}

namespace {

SearchResult SearchOneShape(const BookSnapshot& book, const GangRequest& request) {
  SearchResult result;
  const PodSetRequest& pod_set = request.pod_sets.front();
  PodSetPlaces found{pod_set.per_pod, {}};
  int64_t left = std::max(pod_set.count, int64_t{0});
  if (left > 0) {
    ForEachMachineThatFits(
        book, pod_set, request.books, request.origin,
        [&](MachineIndex machine, const Chunk& chunk, uint32_t slot, int64_t pods) {
          const int64_t taken = std::min(pods, left);
          found.places.push_back({machine, chunk.block->incarnation[slot], chunk.block->machine_class[slot], taken});
          left -= taken;
          return left > 0;
        });
  }
  result.steps = book.chunks();
  result.placed = std::max(pod_set.count, int64_t{0}) - left;
  if (left > 0) return result;
  result.verdict = SearchResult::Verdict::kFits;
  result.placement.push_back(std::move(found));
  return result;
}

}  // namespace

SearchResult Search(const BookSnapshot& book, const GangRequest& request) {
  SearchResult result;
  switch (request.pod_sets.size()) {
    case 0:
      result.verdict = SearchResult::Verdict::kFits;
      break;
    case 1:
      result = SearchOneShape(book, request);
      break;
    default:
      result = SearchSeveralShapes(book, request);
  }
  result.version = book.version;
  return result;
}

Missing WhatIsMissing(const BookSnapshot& book, const PodSetRequest& pod_set, Book books) {
  Missing missing;
  for (const Need& need : pod_set.per_pod) missing.shortages.push_back({need.resource, need.amount, 0, {}, 0, 0});
  for (uint32_t at = 0; at < book.chunks(); ++at) {
    const Chunk& chunk = *book.spine[at];
    for (uint64_t machines = AdmittedMachines(*chunk.block, pod_set.filter); machines != 0; machines &= machines - 1) {
      const auto slot = static_cast<uint32_t>(std::countr_zero(machines));
      for (Shortage& shortage : missing.shortages) {
        const int64_t room = chunk.Room(books, shortage.resource.value, slot);
        if (missing.admitted == 0 || room > shortage.largest) {
          shortage.largest = room;
          shortage.largest_on = {at * kChunkMachines + slot};
        }
        if (room > 0) shortage.total += room;
        if (room < shortage.needed) ++shortage.machines_without;
      }
      ++missing.admitted;
      const int64_t pods = PodsThatFit(chunk, slot, pod_set.per_pod, books);
      if (pods > 0) ++missing.with_place;
      missing.pods = std::min(std::max(pod_set.count, int64_t{0}), missing.pods + std::min(pods, pod_set.count));
    }
  }
  return missing;
}

bool HasPlace(const BookSnapshot& book, const PodSetRequest& pod_set, Book books, MachineIndex machine) {
  const Chunk* chunk = book.Find(machine);
  if (chunk == nullptr) return false;
  const uint32_t slot = machine.value % kChunkMachines;
  return (chunk->block->open >> slot & 1) != 0 && pod_set.filter.Admits(chunk->block->machine_class[slot]) &&
         PodsThatFit(*chunk, slot, pod_set.per_pod, books) > 0;
}

}  // namespace muster::gang
