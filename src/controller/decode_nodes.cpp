// Topology, Node, Pod: where gangs may go.
#include "muster/controller/decode.h"
#include "muster/controller/job.h"

namespace muster::controller {

using k8s::JsonValue;

gang::Topology DecodeTopology(JsonValue object) {
  gang::Topology topology;
  topology.name = object["metadata"]["name"].String();
  object["spec"]["levels"].ForEach([&](JsonValue level) { topology.levels.push_back(level["nodeLabel"].String()); });
  return topology;
}

gang::Node DecodeNode(JsonValue object) {
  gang::Node node;
  node.name = object["metadata"]["name"].String();
  node.labels = object["metadata"]["labels"].Map();
  node.taints = DecodeTaints(object["spec"]["taints"]);
  node.unschedulable = object["spec"]["unschedulable"].Bool(false);
  object["status"]["conditions"].ForEach([&](JsonValue condition) {
    if (condition["type"].String() == "Ready") node.ready = condition["status"].String() == "True";
  });
  node.allocatable = gang::ToAmounts(DecodeResourceList(object["status"]["allocatable"]));
  return node;
}

namespace {

bool IsResizeInfeasible(JsonValue pod) {
  bool infeasible = false;
  pod["status"]["conditions"].ForEach([&infeasible](JsonValue condition) {
    infeasible = infeasible || (condition["type"].String() == "PodResizePending" &&
                                condition["status"].String() == "True" && condition["reason"].String() == "Infeasible");
  });
  return infeasible;
}

// `statuses`: of these containers, among others.
void TakeStatuses(JsonValue statuses, bool infeasible, std::vector<gang::Container>* containers) {
  statuses.ForEach([&](JsonValue status) {
    if (!status["resources"].present()) return;
    const std::string name = status["name"].String();
    for (gang::Container& container : *containers) {
      if (container.name != name) continue;
      gang::ResourceList& requests = container.resources.requests;
      if (infeasible) requests.clear();
      gang::KeepGreater(&requests, DecodeResourceList(status["resources"]["requests"]));
      gang::KeepGreater(&requests, DecodeResourceList(status["allocatedResources"]));
    }
  });
}

}  // namespace

std::map<std::string, Amount, std::less<>> DecodePodRequests(JsonValue pod) {
  PodTemplate as_is = DecodePodTemplate(pod);
  const bool infeasible = IsResizeInfeasible(pod);
  TakeStatuses(pod["status"]["containerStatuses"], infeasible, &as_is.resources.containers);
  TakeStatuses(pod["status"]["initContainerStatuses"], infeasible, &as_is.resources.init_containers);
  return RequestsOf(as_is);
}

std::optional<engine::PodPlaced> DecodePlacedPod(JsonValue object) {
  const std::string node = object["spec"]["nodeName"].String();
  const std::string phase = object["status"]["phase"].String();
  if (node.empty() || phase == "Succeeded" || phase == "Failed") return std::nullopt;
  engine::PodPlaced placed;
  placed.key = k8s::DecodeMeta(object).key().ToString();
  placed.node = node;
  placed.requests = DecodePodRequests(object);
  return placed;
}

gang::TopologyRequest DecodeTopologyRequest(JsonValue request) {
  gang::TopologyRequest decoded;
  decoded.required = request["required"].String();
  decoded.preferred = request["preferred"].String();
  decoded.unconstrained = request["unconstrained"].Bool(false);
  decoded.group = request["podSetGroupName"].String();
  request["podsetSliceRequiredTopologyConstraints"].ForEach([&](JsonValue layer) {
    decoded.slices.push_back({layer["topology"].String(), layer["size"].Count()});
  });
  const JsonValue slices = request["podSetSliceRequiredTopology"];
  if (decoded.slices.empty() && slices.present()) {
    decoded.slices.push_back({slices.String(), request["podSetSliceSize"].Count()});
  }
  return decoded;
}

}  // namespace muster::controller
