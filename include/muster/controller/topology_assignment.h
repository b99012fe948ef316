// topologyAssignment of a Workload's admission: v1beta2 form, in which values that domains share are written once.
//
// A slice is a run of domains. Of each level it has one value for all of them, or a root for each with a common prefix
// and suffix; likewise one number of pods, or one for each.
//
// Source: kueue_semantics 9.9.6.
// Threading: pure functions.
#pragma once

#include "muster/gang/topology.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"

namespace muster::controller {

// What one slice may have at most.
inline constexpr size_t kSliceDomainsMax = 100'000;

void EncodeTopologyAssignment(const gang::TopologyAssignment& assignment, k8s::JsonWriter* out);

// Reports what cannot be read to the document: lists that are not as long as there are domains or levels.
gang::TopologyAssignment DecodeTopologyAssignment(k8s::JsonValue assignment);

}  // namespace muster::controller
