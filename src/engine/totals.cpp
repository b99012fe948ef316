#include "muster/engine/totals.h"

#include <algorithm>

namespace muster::engine {

Totals TotalRequests(const gang::Shape& shape, int32_t count, bool covers_pods) {
  Totals totals;
  for (const auto& [resource, amount] : shape.requests) totals.emplace_back(resource, amount * count);
  if (covers_pods) {
    const std::pair<std::string, Amount> pods("pods", Amount{count});
    totals.insert(std::lower_bound(totals.begin(), totals.end(), pods), pods);
  }
  return totals;
}

std::pair<int32_t, Totals> StillHeld(const PodSetAssignment& assignment, int32_t needed) {
  const int32_t count = std::min(assignment.count, std::max(needed, 0));
  Totals totals = assignment.usage;
  for (auto& [resource, amount] : totals) {
    amount = std::max(amount, Amount{0});
    if (count < assignment.count && !amount.IsUnlimited()) amount = Amount{amount.value / assignment.count} * count;
  }
  return {count, std::move(totals)};
}

}  // namespace muster::engine
