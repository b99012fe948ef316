// Selectors, tolerations, quantities: what several kinds of object have in common.

#include "muster/controller/decode.h"
#include "muster/core/quantity.h"

namespace muster::controller {

using k8s::JsonValue;

namespace {

std::vector<std::string> DecodeStrings(JsonValue list) {
  std::vector<std::string> strings;
  list.ForEach([&](JsonValue item) { strings.push_back(item.String()); });
  return strings;
}

// Node selectors have two operators more than label selectors.
Requirement DecodeRequirement(JsonValue value, bool of_nodes) {
  using Operator = Requirement::Operator;
  Requirement requirement;
  requirement.key = value["key"].String();
  requirement.values = DecodeStrings(value["values"]);
  const std::string op = value["operator"].String();
  if (op == "In") {
    requirement.op = Operator::kIn;
  } else if (op == "NotIn") {
    requirement.op = Operator::kNotIn;
  } else if (op == "Exists") {
    requirement.op = Operator::kExists;
  } else if (op == "DoesNotExist") {
    requirement.op = Operator::kDoesNotExist;
  } else if (of_nodes && op == "Gt") {
    requirement.op = Operator::kGt;
  } else if (of_nodes && op == "Lt") {
    requirement.op = Operator::kLt;
  } else {
    value["operator"].Fail("\"" + op + "\" is not an operator");
  }
  return requirement;
}

std::vector<Requirement> DecodeRequirements(JsonValue list, bool of_nodes) {
  std::vector<Requirement> requirements;
  list.ForEach([&](JsonValue item) { requirements.push_back(DecodeRequirement(item, of_nodes)); });
  return requirements;
}

Quantity DecodeQuantity(JsonValue value) {
  absl::StatusOr<Quantity> quantity = Quantity::Parse(value.Scalar());
  if (quantity.ok()) return *std::move(quantity);
  value.Fail(std::string(quantity.status().message()));
  return {};
}

gang::ResourceRequirements DecodeRequirementsOfResources(JsonValue resources) {
  return {DecodeResourceList(resources["requests"]), DecodeResourceList(resources["limits"])};
}

std::vector<gang::Container> DecodeContainers(JsonValue list) {
  std::vector<gang::Container> containers;
  list.ForEach([&](JsonValue item) {
    gang::Container container;
    container.name = item["name"].String();
    container.resources = DecodeRequirementsOfResources(item["resources"]);
    container.restartable = item["restartPolicy"].String() == "Always";
    containers.push_back(std::move(container));
  });
  return containers;
}

}  // namespace

LabelSelector DecodeLabelSelector(JsonValue selector) {
  return {selector["matchLabels"].Map(), DecodeRequirements(selector["matchExpressions"], false)};
}

std::vector<gang::Toleration> DecodeTolerations(JsonValue tolerations) {
  std::vector<gang::Toleration> decoded;
  tolerations.ForEach([&](JsonValue item) {
    gang::Toleration toleration;
    toleration.key = item["key"].String();
    toleration.op = item["operator"].String();
    toleration.value = item["value"].String();
    toleration.effect = item["effect"].String();
    const std::optional<int64_t> seconds = item["tolerationSeconds"].OptionalInt();
    toleration.has_toleration_seconds = seconds.has_value();
    toleration.toleration_seconds = seconds.value_or(0);
    decoded.push_back(std::move(toleration));
  });
  return decoded;
}

std::vector<gang::Taint> DecodeTaints(JsonValue taints) {
  std::vector<gang::Taint> decoded;
  taints.ForEach([&](JsonValue item) {
    decoded.push_back({item["key"].String(), item["value"].String(), item["effect"].String()});
  });
  return decoded;
}

gang::ResourceList DecodeResourceList(JsonValue list) {
  gang::ResourceList resources;
  list.ForEachField([&](std::string_view name, JsonValue value) {
    resources.insert_or_assign(std::string(name), DecodeQuantity(value));
  });
  return resources;
}

Amount DecodeAmount(JsonValue quantity, std::string_view resource) {
  return quantity.present() ? DecodeQuantity(quantity).ToAmount(resource) : Amount{};
}

namespace {

// As the scope CrossNamespacePodAffinity has it.
bool ReachesOtherNamespaces(JsonValue affinity) {
  bool reaches = false;
  const auto see = [&reaches](JsonValue term) {
    bool names_some = false;
    term["namespaces"].ForEach([&names_some](JsonValue) { names_some = true; });
    reaches = reaches || names_some || term["namespaceSelector"].present();
  };
  for (const std::string_view kind : {"podAffinity", "podAntiAffinity"}) {
    affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"].ForEach(see);
    affinity[kind]["preferredDuringSchedulingIgnoredDuringExecution"].ForEach(
        [&see](JsonValue weighted) { see(weighted["podAffinityTerm"]); });
  }
  return reaches;
}

}  // namespace

PodTemplate DecodePodTemplate(JsonValue pod_template) {
  const JsonValue spec = pod_template["spec"];
  PodTemplate pod;
  pod.resources.containers = DecodeContainers(spec["containers"]);
  pod.resources.init_containers = DecodeContainers(spec["initContainers"]);
  if (spec["resources"].present()) pod.resources.pod_level = DecodeRequirementsOfResources(spec["resources"]);
  pod.resources.overhead = DecodeResourceList(spec["overhead"]);
  pod.resources.runtime_class = spec["runtimeClassName"].String();
  pod.node_selector = spec["nodeSelector"].Map();
  const JsonValue required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
  required["nodeSelectorTerms"].ForEach([&](JsonValue term) {
    pod.required_affinity.push_back(
        {DecodeRequirements(term["matchExpressions"], true), DecodeRequirements(term["matchFields"], true)});
  });
  pod.tolerations = DecodeTolerations(spec["tolerations"]);
  pod.priority_class_name = spec["priorityClassName"].String();
  pod.active_deadline = spec["activeDeadlineSeconds"].OptionalInt().has_value();
  pod.cross_namespace_affinity = ReachesOtherNamespaces(spec["affinity"]);
  return pod;
}

namespace {

engine::Obstacle Invalid(engine::ObstacleKind kind, std::string_view pod_set, const gang::ResourceProblem& problem) {
  engine::Obstacle obstacle;
  obstacle.kind = kind;
  obstacle.pod_set = pod_set;
  obstacle.field = problem.field;
  obstacle.resource = problem.resource;
  obstacle.requested = problem.value.ToAmount(problem.resource);
  obstacle.limit = problem.limit.ToAmount(problem.resource);
  obstacle.below = problem.below;
  obstacle.object = problem.limit_range;
  return obstacle;
}

}  // namespace

ShapedPod MakeShape(const PodTemplate& pod, const RequestContext& context, std::string_view pod_set) {
  gang::PodResources resources = pod.resources;
  gang::AdjustResources(&resources, context.limits, context.class_overhead);
  ShapedPod shaped;
  const gang::ResourceList requests = gang::PodRequests(resources);
  shaped.shape.requests = gang::ToAmounts(gang::Configure(requests, context.config));
  if (auto on_node = gang::ToAmounts(requests); on_node != shaped.shape.requests) {
    shaped.shape.node_requests = std::move(on_node);
  }
  shaped.shape.node_selector = pod.node_selector;
  shaped.shape.required_affinity = pod.required_affinity;
  shaped.shape.tolerations = pod.tolerations;
  if (context.charged) {
    gang::PodCharge& charge = shaped.shape.charge.emplace(gang::ChargeOf(resources));
    charge.terminating = pod.active_deadline;
    charge.cross_namespace_affinity = pod.cross_namespace_affinity;
    charge.priority_class = pod.priority_class_name.empty() ? context.default_priority_class : pod.priority_class_name;
  }
  for (const gang::ResourceProblem& problem : gang::RequestsAboveLimits(resources)) {
    shaped.invalid.push_back(Invalid(engine::ObstacleKind::kRequestsExceedLimits, pod_set, problem));
  }
  for (const gang::ResourceProblem& problem : gang::OutsideLimitRange(resources, context.limits)) {
    shaped.invalid.push_back(Invalid(engine::ObstacleKind::kLimitRange, pod_set, problem));
  }
  if (!resources.runtime_class.empty() && context.class_overhead == nullptr) {
    engine::Obstacle& missing = shaped.invalid.emplace_back();
    missing.kind = engine::ObstacleKind::kRuntimeClassMissing;
    missing.pod_set = pod_set;
    missing.object = resources.runtime_class;
  }
  return shaped;
}

// ---- LimitRange, RuntimeClass --------------------------------------------------------------------

WatchedLimitRange DecodeLimitRange(JsonValue object) {
  WatchedLimitRange decoded;
  decoded.meta = k8s::DecodeMeta(object);
  object["spec"]["limits"].ForEach([&](JsonValue item) {
    gang::LimitRangeItem limit;
    limit.type = item["type"].String();
    limit.max = DecodeResourceList(item["max"]);
    limit.min = DecodeResourceList(item["min"]);
    limit.default_limits = DecodeResourceList(item["default"]);
    limit.default_requests = DecodeResourceList(item["defaultRequest"]);
    decoded.range.push_back(std::move(limit));
  });
  return decoded;
}

WatchedRuntimeClass DecodeRuntimeClass(JsonValue object) {
  return {k8s::DecodeMeta(object), DecodeResourceList(object["overhead"]["podFixed"])};
}

absl::StatusOr<WatchedLimitRange> DecodeLimitRange(std::string_view json) {
  k8s::JsonDocument document(json);
  WatchedLimitRange decoded = DecodeLimitRange(document.root());
  absl::Status status = document.Finish("LimitRange " + decoded.meta.key().ToString());
  if (!status.ok()) return status;
  return decoded;
}

absl::StatusOr<WatchedRuntimeClass> DecodeRuntimeClass(std::string_view json) {
  k8s::JsonDocument document(json);
  WatchedRuntimeClass decoded = DecodeRuntimeClass(document.root());
  absl::Status status = document.Finish("RuntimeClass " + decoded.meta.key().ToString());
  if (!status.ok()) return status;
  return decoded;
}

}  // namespace muster::controller
