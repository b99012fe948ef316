// spec.preemptionGates and status.preemptionGates of a Workload: what must open before it may evict others for itself.
// Whoever named a gate opens it; an eviction closes all of them again.
//
// Source: kueue_semantics 1.6, 5.2, 6.4.
// Threading: values and pure functions.
#pragma once

#include <string>
#include <vector>

#include "muster/core/time.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"

namespace muster::controller {

struct PreemptionGate {
  std::string name;
  bool open = false;
  WallTime last_transition;
  friend bool operator==(const PreemptionGate&, const PreemptionGate&) = default;
};
using PreemptionGates = std::vector<PreemptionGate>;

// Of the spec.
std::vector<std::string> ReadGateNames(k8s::JsonValue list);
// Of the status.
PreemptionGates ReadPreemptionGates(k8s::JsonValue list);
void WritePreemptionGates(const PreemptionGates& gates, k8s::JsonWriter* out);

// Those of `names` that are not open, sorted. One that only the spec has is closed, so that a Workload can be created
// with it.
std::vector<std::string> ClosedGates(const std::vector<std::string>& names, const PreemptionGates& gates);
// After an eviction.
PreemptionGates CloseAll(PreemptionGates gates, WallTime now);

}  // namespace muster::controller
