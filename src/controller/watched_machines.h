// Nodes, pods on them and Topologies as informers hold them: no more than is used, since there are many.
//
// Threading: pure functions; the table needs external synchronisation.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/engine/engine.h"
#include "muster/gang/node.h"
#include "muster/gang/shape.h"
#include "muster/gang/topology_book.h"
#include "muster/k8s_client/object.h"

namespace muster::controller {

struct WatchedTopology {
  k8s::ObjectMeta meta;
  gang::Topology topology;
  std::string misconfigured;
};

// `meta` holds name, uid and version alone; likewise below.
struct WatchedNode {
  k8s::ObjectMeta meta;
  gang::Node node;
};

// Of which gang a pod is part.
struct GangPod {
  k8s::ObjectMeta meta;
  std::string job_uid;        // of the batch Job that controls it; empty: none does
  std::string workload_name;  // of one without such a Job; empty: it names none
  std::string pod_set;
  std::optional<int64_t> rank;  // completion index
  bool terminating = false;
};

// One that is on a node and has not ended.
struct WatchedPod : GangPod {
  std::string node;
  gang::ShapePtr shape;  // of which only the requests are set
};

// One that no node has yet.
struct UnboundPod : GangPod {
  std::optional<int64_t> gate;  // where in its list the gate of the topology stands; unset: it is lifted
  Labels node_selector;
};

// Which gang the pod is part of: the Job's uid, or "namespace/name" of the Workload; empty: none.
std::string GangOf(const GangPod& pod);

// Its label; empty: it has none.
std::string HostnameOf(const gang::Node& node);

absl::StatusOr<WatchedTopology> DecodeWatchedTopology(std::string_view json);
absl::StatusOr<WatchedNode> DecodeWatchedNode(std::string_view json);
absl::StatusOr<WatchedPod> DecodeWatchedPod(std::string_view json, gang::ShapeTable* shapes);
absl::StatusOr<UnboundPod> DecodeUnboundPod(std::string_view json);

// What takes room there.
engine::PodPlaced ToPodPlaced(const WatchedPod& pod, std::string workload);
bool TakesTheSame(const WatchedPod& a, const WatchedPod& b);

}  // namespace muster::controller
