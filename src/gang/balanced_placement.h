// Balanced placement: a gang that would rather be in one domain, and has to spread over several below it, is spread
// evenly, so that none of its members waits for a few that are far from the others.
//
// Source: KEP-2724 (balanced placement).
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "domain_room.h"
#include "muster/gang/topology.h"

namespace muster::gang {

struct BalancedStart {
  size_t level = 0;
  std::vector<Pick> picks;  // units are slices; what a domain gets stays in it
};

// Of all placements within one parent of the domains of the level asked for, one whose domain with the fewest slices
// has the most, in the fewest domains of that level. The domains that are balanced are one level below the one asked
// for, or those themselves where slices are. `slices`: at `slice_level`.
// RETURNS: nothing where none leaves each domain at least one slice, or what was found does not take all.
std::optional<BalancedStart> Balance(const DomainTree& tree, const RoomsByLevel& rooms, size_t level,
                                     size_t slice_level, int64_t slices, bool leader);

}  // namespace muster::gang
