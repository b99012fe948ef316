// Which of its gang's places each pod gets.
//
// Pods that have ranks go by them: rank 0 to the first place of the first domain, and so on, so that neighbours in rank
// are neighbours in the topology. Where ranks are missing, or are not those of the assignment, a pod gets the first
// place that is free.
//
// Source: kueue_semantics 9.9.5.
// Threading: pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/gang/topology.h"

namespace muster::controller {

struct PodToPlace {
  std::string name;
  std::optional<int64_t> rank;
  // It waits for a place; else it has one, in that domain of the assignment; unset: in none of them.
  bool waits = false;
  std::optional<size_t> domain;
};

// RETURNS: for each pod that waits its domain, where there is one; for others what they have.
std::vector<std::optional<size_t>> ChoosePlaces(const gang::TopologyAssignment& assignment,
                                                const std::vector<PodToPlace>& pods);

}  // namespace muster::controller
