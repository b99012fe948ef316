// What bench-capacity and bench-gang have in common: the resources of their machines, and how their times are told.
//
// Threading: pure functions.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/gang/book_snapshot.h"

namespace muster::bench {

using SteadyClock = std::chrono::steady_clock;

inline constexpr gang::MachineResource kGpu{1};
inline constexpr gang::MachineResource kCpu{2};
inline constexpr gang::MachineResource kMemory{3};
inline constexpr int64_t kGi = int64_t{1} << 30;

// Zero of no values.
inline double Percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  const auto at = static_cast<size_t>(percent / 100 * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

}  // namespace muster::bench
