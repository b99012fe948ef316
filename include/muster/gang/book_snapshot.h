// One state of the machine book: every machine's room at one moment. Immutable once it is published.
//
// Two amounts of each resource on each machine: `free` is what no claim holds now, `planned` what no claim will hold
// once those that leave have left and those that they leave for have come. Pod slots are a resource like any other,
// number 0. An amount is negative where capacity shrank below what is taken: nothing new fits there, and nobody is
// harmed.
//
// Layout: a spine of segments of 16 pointers to chunks of 64 machines; a chunk holds one column an amount, so that a
// search reads what it asks for and nothing else. Versions share the segments and chunks that they do not differ in, so
// that a version is small, and most of the spine stays in the cache of whoever read the one before. What claims never
// change (class, capacity) is apart from the room, and the planned column exists only where it differs.
//
// Units: Amount's (milli-cpu, bytes, whole devices). An amount above kMaxAmount counts as that.
// Source: design of the capacity model, decisions 3 and 4.
// Threading: immutable.
#pragma once

#include <absl/container/inlined_vector.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "muster/core/interner.h"

namespace muster::gang {

struct MachineResourceTag;
struct MachineClassTag;
struct MachineTag;
using MachineResource = Id<MachineResourceTag>;
// What selectors, affinity and taints can tell apart: machines of a class are the same to them. The book does not
// know what is behind it.
using MachineClass = Id<MachineClassTag>;
// Dense, given by whoever knows the machines' names.
using MachineIndex = Id<MachineTag>;

inline constexpr MachineResource kPodSlots{0};
inline constexpr int64_t kMaxAmount = int64_t{1} << 50;  // sums over a machine's pods stay far from overflow
inline constexpr uint32_t kMaxMachines = 1 << 20;
inline constexpr uint32_t kMaxResources = 1 << 10;

struct Need {
  MachineResource resource;
  int64_t amount = 0;
  friend bool operator==(const Need&, const Need&) = default;
};
// Ascending by resource, without zeros.
using Needs = absl::InlinedVector<Need, 4>;

// Needs of one pod: one slot, and `amounts` in any order; what is not positive is left out.
Needs PodNeeds(std::vector<Need> amounts);

// Which of the two books.
enum class Book : uint8_t { kNone = 0, kFree = 1, kPlanned = 2, kBoth = 3 };
constexpr bool Has(Book set, Book one) { return (static_cast<uint8_t>(set) & static_cast<uint8_t>(one)) != 0; }

// Pods on one machine, as a search saw it.
struct MachinePlace {
  MachineIndex machine;
  uint32_t incarnation = 0;    // tells it from a machine of the same index that was removed before
  MachineClass machine_class;  // a reservation finds no place where this has changed
  int64_t pods = 0;
  friend bool operator==(const MachinePlace&, const MachinePlace&) = default;
};

struct PodSetPlaces {
  Needs per_pod;
  std::vector<MachinePlace> places;
  friend bool operator==(const PodSetPlaces&, const PodSetPlaces&) = default;
};
// Of a whole gang, by pod set.
using GangPlacement = std::vector<PodSetPlaces>;

inline constexpr uint32_t kChunkMachines = 64;

// What claims do not change.
struct MachineBlock {
  uint64_t birth = 0;
  uint64_t present = 0;  // a bit a machine
  uint64_t open = 0;     // present, and takes new pods
  uint64_t classes = 0;  // bit c mod 64 is set if a machine that is open has class c
  std::array<MachineClass, kChunkMachines> machine_class{};
  std::array<uint32_t, kChunkMachines> incarnation{};
  std::vector<int64_t> capacity;  // [resource][machine], as many resources as the chunk has
};

struct Chunk {
  uint64_t birth = 0;
  uint32_t resources = 0;
  // While it is made: whose greatest is to be found again, a bit a resource; the last one stands for all that follow.
  uint64_t stale = ~uint64_t{0};
  const MachineBlock* block = nullptr;
  // Greatest room of a machine that is open, of each resource: in both books, then in the planned one.
  absl::InlinedVector<int64_t, 8> greatest;
  std::vector<int64_t> free;     // [resource][machine]
  std::vector<int64_t> planned;  // the same; empty: equal to `free`

  const int64_t* Column(Book book, uint32_t resource) const {
    const std::vector<int64_t>& amounts = book == Book::kPlanned && !planned.empty() ? planned : free;
    return amounts.data() + size_t{resource} * kChunkMachines;
  }
  // What a pod could take of it: in both books, in one of them, or (kNone) not asked for.
  int64_t Room(Book books, uint32_t resource, uint32_t slot) const {
    if (resource >= resources) return 0;
    const size_t at = size_t{resource} * kChunkMachines + slot;
    const int64_t in_planned = planned.empty() ? free[at] : planned[at];
    if (books == Book::kFree) return free[at];
    return books == Book::kPlanned || in_planned < free[at] ? in_planned : free[at];
  }
  // No machine of the chunk has more room.
  int64_t Greatest(Book books, uint32_t resource) const {
    if (resource >= resources) return 0;
    return greatest[books == Book::kBoth ? resource : resources + resource];
  }
};

inline constexpr uint32_t kSegmentChunks = 16;

struct SpineSegment {
  uint64_t birth = 0;
  std::array<const Chunk*, kSegmentChunks> chunks{};
};

// The chunks in their order.
struct Spine {
  absl::InlinedVector<const SpineSegment*, 10> segments;
  uint32_t chunks = 0;

  uint32_t size() const { return chunks; }
  // REQUIRES: below size().
  const Chunk* operator[](uint32_t at) const { return segments[at / kSegmentChunks]->chunks[at % kSegmentChunks]; }

  class Iterator {
   public:
    Iterator(const Spine* spine, uint32_t at) : spine_(spine), at_(at) {}
    const Chunk* operator*() const { return (*spine_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const Spine* spine_;
    uint32_t at_;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, chunks}; }
};

// A spine of chunks that somebody else owns, for a book that nobody shares.
class OwnSpine {
 public:
  OwnSpine() = default;
  OwnSpine(const OwnSpine&) = delete;
  OwnSpine& operator=(const OwnSpine&) = delete;
  void Append(const Chunk* chunk, Spine* spine);

 private:
  std::deque<SpineSegment> segments_;
};

// What one operation that others carried out for its owner came to; see machine_book.h.
struct HelpedOutcome;

struct BookSnapshot {
  // Of the last operation in it: each operation has a version of its own, in the order in which they took effect.
  uint64_t version = 0;
  uint64_t birth = 0;
  Spine spine;
  // Sums over the machines that are present, as each commit carried them on: they tell a snapshot that never was.
  struct Total {
    __int128 free = 0;
    __int128 planned = 0;
    // The version that last made more of it free, in either book, on any machine.
    uint64_t gained_at = 0;
    friend bool operator==(const Total&, const Total&) = default;
  };
  absl::InlinedVector<Total, 4> totals;  // by resource
  uint64_t machines = 0;
  absl::InlinedVector<const HelpedOutcome*, 2> outcomes;

  uint32_t chunks() const { return spine.size(); }
  // Null where there is none, or it is not present.
  const Chunk* Find(MachineIndex machine) const;
  bool Contains(MachineIndex machine) const { return Find(machine) != nullptr; }
  uint32_t Incarnation(MachineIndex machine) const;
  // REQUIRES: present.
  int64_t Room(Book books, MachineIndex machine, MachineResource resource) const;
  MachinePlace PlaceOn(MachineIndex machine, int64_t pods) const;
  int64_t Capacity(MachineIndex machine, MachineResource resource) const;
  uint64_t GainedAt(MachineResource resource) const {
    return resource.value < totals.size() ? totals[resource.value].gained_at : 0;
  }
};

// Counts totals and summaries again from the machines. RETURNS: whether they are what the snapshot says.
bool Recount(const BookSnapshot& book);

}  // namespace muster::gang
