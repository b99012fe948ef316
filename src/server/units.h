// Amounts in the units people use: whole cpus, bytes, devices.
//
// Threading: pure.
#pragma once

#include <limits>
#include <string_view>

#include "muster/core/amount.h"

namespace muster::server {

inline double ToUnits(std::string_view resource, Amount amount) {
  if (amount.IsUnlimited()) return std::numeric_limits<double>::infinity();
  const auto value = static_cast<double>(amount.value);
  return resource == "cpu" ? value / 1000 : value;
}

}  // namespace muster::server
