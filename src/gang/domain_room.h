// What the domains of a topology can hold, and what each of them gets, on the way from leaves to a placement.
//
// Threading: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::gang {

// What a domain can hold.
struct DomainRoom {
  int64_t pods = 0;
  int64_t pods_with_leader = 0;
  int64_t slices = 0;  // of the outermost layer; 0 below its level
  int64_t slices_with_leader = 0;
  bool leader = false;
};
using RoomsByLevel = std::vector<std::vector<DomainRoom>>;  // by level, by domain

// What a domain gets.
struct Pick {
  size_t domain = 0;
  int64_t units = 0;
  bool leader = false;
  int64_t pods = 0;
};

}  // namespace muster::gang
