// What a pod template asks of the topology that its pods are placed by, in annotations; and what an admission with
// places adds to the template.
//
// Source: kueue_semantics 1.10, 2.6, 9.9.1.
// Threading: pure functions.
#pragma once

#include <absl/status/statusor.h>

#include "muster/controller/pod_template.h"
#include "muster/core/labels.h"
#include "muster/gang/topology.h"
#include "muster/k8s_client/json_writer.h"

namespace muster::controller {

// `annotations`: of a pod template of which there are `pods`, the one pod set of its workload.
// ON FAILURE: InvalidArgument that names annotation and value.
absl::StatusOr<gang::TopologyRequest> ReadTopologyRequest(const Labels& annotations, int32_t pods);

// podSets[].topologyRequest of a Workload. `index_label`: of the pods' ranks; empty: they have none.
void WriteTopologyRequest(const gang::TopologyRequest& request, std::string_view index_label, k8s::JsonWriter* out);

// Whether pods of it have places in topologies.
bool HasPlaces(const engine::Admission& admission);

// The scheduling gate behind which pods wait for their place. Where the template asks for no topology, the annotation
// by which others tell that its pods have places all the same. Nothing where the pod set has none.
void AddPlaces(const engine::PodSetAssignment& assignment, const Labels& annotations, Injection* wanted);

}  // namespace muster::controller
