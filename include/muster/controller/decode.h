// From the JSON of API objects to what the engine works on: decoded, defaulted, amounts in base units.
//
// Decoders take a place in a document and report what they cannot read to it; the caller asks the document's
// Finish. Both API versions are read: the names of v1beta2, and those of v1beta1 where they differ.
//
// Source: kueue_semantics 1.2-1.6, 3.
// Threading: pure functions.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/engine/engine.h"
#include "muster/engine/objects.h"
#include "muster/gang/requests.h"
#include "muster/gang/shape.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/object.h"

namespace muster::controller {

// ---- queue objects: the whole object -------------------------------------------------------------

engine::ResourceFlavor DecodeResourceFlavor(k8s::JsonValue object);
engine::ClusterQueue DecodeClusterQueue(k8s::JsonValue object);
engine::Cohort DecodeCohort(k8s::JsonValue object);
engine::LocalQueue DecodeLocalQueue(k8s::JsonValue object);
engine::Namespace DecodeNamespace(k8s::JsonValue object);

gang::Topology DecodeTopology(k8s::JsonValue object);
gang::Node DecodeNode(k8s::JsonValue object);
// A pod that takes room on a node; nothing: it is on none, or has ended.
std::optional<engine::PodPlaced> DecodePlacedPod(k8s::JsonValue object);

// ---- parts ---------------------------------------------------------------------------------------

// An absent selector is not an empty one: the caller asks present() first where that matters.
LabelSelector DecodeLabelSelector(k8s::JsonValue selector);
std::vector<gang::Toleration> DecodeTolerations(k8s::JsonValue tolerations);
std::vector<gang::Taint> DecodeTaints(k8s::JsonValue taints);
// {resource: quantity}.
gang::ResourceList DecodeResourceList(k8s::JsonValue list);
// A quantity as whole base units of `resource`; absent: zero.
Amount DecodeAmount(k8s::JsonValue quantity, std::string_view resource);

// ---- pods ----------------------------------------------------------------------------------------

// podSets[].topologyRequest.
gang::TopologyRequest DecodeTopologyRequest(k8s::JsonValue request);

// What of a pod template decides where and whether it fits.
struct PodTemplate {
  gang::PodResources resources;
  Labels node_selector;
  std::vector<gang::NodeSelectorTerm> required_affinity;
  std::vector<gang::Toleration> tolerations;
  std::string priority_class_name;
  // Beside its resources and priority class, what scopes of ResourceQuotas ask for.
  bool active_deadline = false;
  bool cross_namespace_affinity = false;
};

// `pod_template`: {metadata, spec}.
PodTemplate DecodePodTemplate(k8s::JsonValue pod_template);
// What a pod that exists takes on its node: while it is resized in place, the greater of what it asks for and what it
// has; what it asks for in vain does not count.
// Source: k8s.io/component-helpers resource.PodRequests with UseStatusResources.
std::map<std::string, Amount, std::less<>> DecodePodRequests(k8s::JsonValue pod);

// What else decides how much a pod asks for.
struct RequestContext {
  gang::RequestConfig config;
  gang::LimitRangeSummary limits;                      // of the namespace
  const gang::ResourceList* class_overhead = nullptr;  // of the RuntimeClass; null: it does not exist
  bool charged = false;                                // ResourceQuotas are looked at
  std::string default_priority_class{};                // of pods that name none
};

struct ShapedPod {
  gang::Shape shape;
  std::vector<engine::Obstacle> invalid;  // kRequestsExceedLimits, kLimitRange, kRuntimeClassMissing
};
ShapedPod MakeShape(const PodTemplate& pod, const RequestContext& context, std::string_view pod_set);

struct WatchedLimitRange {
  k8s::ObjectMeta meta;
  gang::LimitRange range;
};
struct WatchedRuntimeClass {
  k8s::ObjectMeta meta;
  gang::ResourceList overhead;  // empty: none
};
struct WatchedResourceQuota {
  k8s::ObjectMeta meta;
  engine::NamespaceQuota quota;
};
WatchedLimitRange DecodeLimitRange(k8s::JsonValue object);
WatchedRuntimeClass DecodeRuntimeClass(k8s::JsonValue object);
// ON FAILURE: the status names object, field and value.
absl::StatusOr<WatchedLimitRange> DecodeLimitRange(std::string_view json);
absl::StatusOr<WatchedRuntimeClass> DecodeRuntimeClass(std::string_view json);
// What the API server enforces: its limits are those of the status, where the spec has them too and is not stricter.
absl::StatusOr<WatchedResourceQuota> DecodeResourceQuota(std::string_view json);

// ---- Workloads -----------------------------------------------------------------------------------

struct PodSetTemplate {
  std::string name;
  int32_t count = 1;
  std::optional<int32_t> min_count;
  PodTemplate pod;
  gang::TopologyRequest topology{};
};

// spec.podSets of a Workload.
std::vector<PodSetTemplate> DecodePodSets(k8s::JsonValue pod_sets);
// status.admission; `resourceUsage` is the total of all pods.
engine::Admission DecodeAdmission(k8s::JsonValue admission);
// status.reclaimablePods: pods that are done, by pod set.
std::map<std::string, int32_t, std::less<>> DecodeReclaimablePods(k8s::JsonValue reclaimable);

// A Workload object as the engine's, without `held`; each pod set's count is less its reclaimable pods, and
// its shape is interned in `shapes`. The uid is the object's own.
engine::Workload DecodeWorkloadObject(k8s::JsonValue object, const RequestContext& context, gang::ShapeTable* shapes);

}  // namespace muster::controller
