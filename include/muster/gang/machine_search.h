// Whether all pods of a gang have a place in one snapshot of the machine book, and where.
//
// One shape of pods: exact, both ways, in one pass over the chunks; those whose greatest room or classes rule them
// out are skipped. Several shapes: bin packing of vectors, for which no fast exact way is known. First each shape by
// itself and the sums are asked, which proves most of what does not fit; then machine after machine is filled with the
// dearest mix of what is left, where a pod's price is the share of the scarcest resources that it takes, and pods that
// stayed over grow dearer for the next round. This is tried on the first machines that have plenty of places for each
// shape before it is tried on all. What then stays over is made room for by exchanges of machines' mixes
// (mixed_repair.h), whose prices prove some of what does not fit. Last, where steps are left and machines few, every
// mix that cannot be added to is tried, which proves the rest. Filling a machine up is never wrong: a pod of a later
// machine that would still fit can be moved forward. The answer is then fits, proven not to fit, or not found within
// the steps.
//
// Source: design, decision 5; Panigrahy et al., "Heuristics for vector bin packing" (2011) for prices by scarcity;
// Gilmore and Gomory (1961) for mixes as the unit of choice.
// Threading: pure functions of an immutable snapshot; deterministic.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/gang/book_snapshot.h"

namespace muster::gang {

// Which classes of machines will do.
class ClassFilter {
 public:
  // Every class.
  ClassFilter() = default;
  explicit ClassFilter(const std::vector<MachineClass>& classes);

  bool Admits(MachineClass machine_class) const {
    const size_t word = machine_class.value / 64;
    return all_ || (word < bits_.size() && (bits_[word] >> (machine_class.value % 64) & 1) != 0);
  }
  bool admits_all() const { return all_; }
  friend bool operator==(const ClassFilter&, const ClassFilter&) = default;
  // May admit a class of those that `classes` (as in MachineBlock) stands for.
  bool Meets(uint64_t classes) const { return all_ || (folded_ & classes) != 0; }

 private:
  bool all_ = true;
  uint64_t folded_ = 0;
  std::vector<uint64_t> bits_;
};

struct PodSetRequest {
  Needs per_pod;
  int64_t count = 0;
  ClassFilter filter;
};

struct GangRequest {
  std::vector<PodSetRequest> pod_sets;
  // A gang that starts must have room in both books; one that plans to follow those who leave, in the planned one.
  // REQUIRES: kBoth or kPlanned.
  Book books = Book::kBoth;
  // The chunk to begin with, modulo their number: deciders that begin apart meet less. No part of the answer whether
  // a gang of one shape fits.
  uint32_t origin = 0;
  // Of a search for several shapes, one a mix that is looked at; a million take some tens of milliseconds.
  int64_t step_limit = 1'000'000;
};

struct SearchResult {
  enum class Verdict : uint8_t {
    kFits,
    kDoesNotFit,  // proven
    kNotFound,    // the steps were used up
  };
  Verdict verdict = Verdict::kDoesNotFit;
  GangPlacement placement;  // whole if it fits, else empty
  // Pods that have a place at the same time; of several shapes, in the best attempt.
  int64_t placed = 0;
  int64_t steps = 0;
  uint64_t version = 0;  // of the snapshot
};

SearchResult Search(const BookSnapshot& book, const GangRequest& request);

// What one resource lacks for one pod of a pod set, over the machines that its filter admits.
struct Shortage {
  MachineResource resource;
  int64_t needed = 0;
  int64_t largest = 0;            // the largest free block of it
  MachineIndex largest_on;        // meaningless if no machine is admitted
  __int128 total = 0;             // free of it on all of them, machines below zero not counted
  uint64_t machines_without = 0;  // which have less than one pod needs of it
};

struct Missing {
  uint64_t admitted = 0;            // machines that are open and of an admitted class
  uint64_t with_place = 0;          // of those, where at least one pod fits
  int64_t pods = 0;                 // how many of the pod set would have a place, were it alone
  std::vector<Shortage> shortages;  // of each resource that is asked for
};

// For a reason that can be read: "3 of 8 pods have a place: the largest free block is 6". One pass over all machines.
Missing WhatIsMissing(const BookSnapshot& book, const PodSetRequest& pod_set, Book books);

// Whether one pod would have a place on this machine.
bool HasPlace(const BookSnapshot& book, const PodSetRequest& pod_set, Book books, MachineIndex machine);

}  // namespace muster::gang
