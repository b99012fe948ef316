// A resource of a flavor, the unit in which quota is given and used.
//
// Threading: values.
#pragma once

#include <compare>
#include <utility>

#include "muster/core/interner.h"

namespace muster::quota {

struct FlavorTag;
struct ResourceTag;
using FlavorId = Id<FlavorTag>;
using ResourceId = Id<ResourceTag>;

struct FlavorResource {
  FlavorId flavor;
  ResourceId resource;
  friend constexpr auto operator<=>(FlavorResource, FlavorResource) = default;
  template <typename H>
  friend H AbslHashValue(H h, FlavorResource fr) {
    return H::combine(std::move(h), fr.flavor, fr.resource);
  }
};

}  // namespace muster::quota
