// What a LocalQueue has consumed, by its weight: of those that share a ClusterQueue, who has less goes first.
//
// Source: kueue_semantics 9.12.
// Threading: values.
#pragma once

#include <compare>
#include <cstdint>

#include "muster/core/product.h"

namespace muster::queue {

struct ConsumedShare {
  Wide consumed = 0;          // in any unit that all have in common
  uint64_t weight_nanos = 1;  // 0: above all others, whatever it has consumed

  friend std::strong_ordering operator<=>(const ConsumedShare& a, const ConsumedShare& b) {
    if ((a.weight_nanos == 0) != (b.weight_nanos == 0)) {
      return a.weight_nanos == 0 ? std::strong_ordering::greater : std::strong_ordering::less;
    }
    if (a.weight_nanos == 0) return std::strong_ordering::equal;
    return Product(a.consumed, b.weight_nanos) <=> Product(b.consumed, a.weight_nanos);
  }
  friend bool operator==(const ConsumedShare& a, const ConsumedShare& b) { return std::is_eq(a <=> b); }
};

}  // namespace muster::queue
