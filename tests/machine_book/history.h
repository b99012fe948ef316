// What threads did to a machine book, when, and what they were told; and whether there is one order of all of it that
// a plain, sequential book would have answered in the same way.
//
// The checker is Wing and Gong's (1993) search with Lowe's memory of states that led nowhere (2017). It knows nothing
// of the book's versions; that versions are such an order is checked apart.
//
// Threading: values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/gang/machine_book.h"

namespace muster::gang {

// One machine of the sequential book. Two resources beside pod slots would add nothing: it has slots and one more.
struct PlainMachine {
  bool present = false;
  bool open = false;
  uint32_t incarnation = 0;
  uint32_t machine_class = 0;
  std::array<int64_t, 2> capacity{};
  std::array<int64_t, 2> free{};
  std::array<int64_t, 2> planned{};
  friend bool operator==(const PlainMachine&, const PlainMachine&) = default;
};

struct PlainBook {
  std::vector<PlainMachine> machines;
  friend bool operator==(const PlainBook&, const PlainBook&) = default;
  std::string Key() const;
};

// REQUIRES: no machine or resource outside of what a PlainBook knows.
PlainBook PlainOf(const BookSnapshot& book, size_t machines);

struct Recorded {
  enum class Kind : uint8_t { kPlace, kStep, kEdit, kRead };
  Kind kind = Kind::kRead;
  int64_t begin = 0;
  int64_t end = 0;
  GangRequest request;             // kPlace, of one pod set
  GangPlacement placement;         // kStep
  ClaimStep step;                  // kStep; its own pointer is not used
  std::vector<MachineEdit> edits;  // kEdit
  Outcome outcome;
  PlainBook seen;  // kRead
};

// RETURNS: the state after it, or nothing if a sequential book in this state would not have answered so.
std::optional<PlainBook> Apply(const PlainBook& before, const Recorded& operation);

// REQUIRES: at most 64 operations.
bool IsLinearizable(const PlainBook& begin, const std::vector<Recorded>& history);

// Whether the order of the versions is such an order: changes by their version, everything else in between.
bool VersionsAreAnOrder(const PlainBook& begin, const std::vector<Recorded>& history);

}  // namespace muster::gang
