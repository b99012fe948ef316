// What all pods of a pod set ask for, or hold.
//
// Source: kueue_semantics 3.2, 3.3.
// Threading: pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "muster/engine/objects.h"

namespace muster::engine {

// Resource -> total, in the order of the names.
using Totals = std::vector<std::pair<std::string, Amount>>;

// Of `count` pods of that shape; with `pods` = count where the ClusterQueue has quota for pods.
Totals TotalRequests(const gang::Shape& shape, int32_t count, bool covers_pods);

// What an admitted pod set still holds while only `needed` of its pods are needed: its share of what it was
// given, never more. RETURNS: the number of pods that count, and their totals.
std::pair<int32_t, Totals> StillHeld(const PodSetAssignment& assignment, int32_t needed);

}  // namespace muster::engine
