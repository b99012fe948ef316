#include "muster/controller/topology_request.h"

#include <absl/strings/numbers.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "muster/controller/names.h"
#include "muster/k8s_client/json_reader.h"
#include "text.h"

namespace muster::controller {
namespace {

constexpr size_t kLevelMax = 63;
constexpr size_t kLayersMax = 3;

// Any of them asks for a topology by itself.
constexpr std::array kRequests = {kRequiredTopologyAnnotation, kPreferredTopologyAnnotation,
                                  kUnconstrainedTopologyAnnotation, kSliceTopologyAnnotation,
                                  kSliceConstraintsAnnotation};

std::string_view Get(const Labels& map, std::string_view key) {
  const auto it = map.find(key);
  return it == map.end() ? std::string_view() : std::string_view(it->second);
}

absl::Status Wrong(std::string_view annotation, std::string_view value, std::string_view why) {
  return absl::InvalidArgumentError(Cat("annotation ", annotation, ": \"", value, "\" ", why));
}

bool IsOneOf(std::string_view value, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), value) != words.end();
}

// A label's key: a name, with or without the DNS subdomain before it.
bool IsLabelKey(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string_view name = slash == std::string_view::npos ? text : text.substr(slash + 1);
  if (name.empty() || !IsLabelValue(name)) return false;
  if (slash == std::string_view::npos) return true;
  std::string_view domain = text.substr(0, slash);
  for (;;) {
    const size_t dot = domain.find('.');
    if (!IsDnsLabel(domain.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    domain.remove_prefix(dot + 1);
  }
}

absl::Status CheckLevel(std::string_view annotation, std::string_view value) {
  if (value.size() > kLevelMax) return Wrong(annotation, value, "is longer than 63 bytes");
  return IsLabelKey(value) ? absl::OkStatus() : Wrong(annotation, value, "is not the key of a label");
}

absl::Status CheckSize(std::string_view annotation, std::string_view value, int64_t size, int32_t pods) {
  if (size < 1) return Wrong(annotation, value, "is not a number above 0");
  return size <= pods ? absl::OkStatus() : Wrong(annotation, value, Cat("is more than there are pods, ", pods));
}

absl::Status ReadLevel(const Labels& annotations, std::string_view annotation, std::string* out) {
  if (!annotations.contains(annotation)) return absl::OkStatus();
  *out = Get(annotations, annotation);
  return CheckLevel(annotation, *out);
}

absl::Status ReadSlice(const Labels& annotations, int32_t pods, gang::TopologyRequest* out) {
  const bool has_level = annotations.contains(kSliceTopologyAnnotation);
  if (has_level != annotations.contains(kSliceSizeAnnotation)) {
    const std::string_view there = has_level ? kSliceTopologyAnnotation : kSliceSizeAnnotation;
    return Wrong(there, Get(annotations, there),
                 Cat("needs ", has_level ? kSliceSizeAnnotation : kSliceTopologyAnnotation, " beside it"));
  }
  if (!has_level) return absl::OkStatus();
  gang::SliceConstraint slice;
  if (absl::Status s = ReadLevel(annotations, kSliceTopologyAnnotation, &slice.topology); !s.ok()) return s;
  const std::string_view size = Get(annotations, kSliceSizeAnnotation);
  if (!absl::SimpleAtoi(std::string(size), &slice.size)) slice.size = 0;
  if (absl::Status s = CheckSize(kSliceSizeAnnotation, size, slice.size, pods); !s.ok()) return s;
  out->slices.push_back(std::move(slice));
  return absl::OkStatus();
}

// A JSON list of {"topology", "size"}.
absl::Status ReadLayers(const Labels& annotations, int32_t pods, gang::TopologyRequest* out) {
  const std::string_view text = Get(annotations, kSliceConstraintsAnnotation);
  if (!annotations.contains(kSliceConstraintsAnnotation)) return absl::OkStatus();
  if (!out->slices.empty()) {
    return Wrong(kSliceConstraintsAnnotation, text, Cat("cannot be beside ", kSliceTopologyAnnotation));
  }
  k8s::JsonDocument document(text);
  if (!document.root().IsArray()) return Wrong(kSliceConstraintsAnnotation, text, "is not a JSON list");
  document.root().ForEach([out](k8s::JsonValue layer) {
    out->slices.push_back({layer["topology"].String(), layer["size"].Count()});
  });
  if (!document.problem().empty()) return Wrong(kSliceConstraintsAnnotation, text, document.problem());
  if (out->slices.empty() || out->slices.size() > kLayersMax) {
    return Wrong(kSliceConstraintsAnnotation, text, "does not have from 1 to 3 entries");
  }
  for (const gang::SliceConstraint& slice : out->slices) {
    absl::Status status = CheckLevel(kSliceConstraintsAnnotation, slice.topology);
    status.Update(CheckSize(kSliceConstraintsAnnotation, text, slice.size, pods));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<gang::TopologyRequest> ReadTopologyRequest(const Labels& annotations, int32_t pods) {
  gang::TopologyRequest out;
  absl::Status status = ReadLevel(annotations, kRequiredTopologyAnnotation, &out.required);
  status.Update(ReadLevel(annotations, kPreferredTopologyAnnotation, &out.preferred));
  if (annotations.contains(kUnconstrainedTopologyAnnotation)) {
    const std::string_view value = Get(annotations, kUnconstrainedTopologyAnnotation);
    out.unconstrained = IsOneOf(value, {"true", "True", "TRUE", "t", "T", "1"});
    if (!out.unconstrained && !IsOneOf(value, {"false", "False", "FALSE", "f", "F", "0"})) {
      status.Update(Wrong(kUnconstrainedTopologyAnnotation, value, "is neither true nor false"));
    }
  }
  if (const int asked = (out.required.empty() ? 0 : 1) + (out.preferred.empty() ? 0 : 1) + (out.unconstrained ? 1 : 0);
      asked > 1) {
    const std::string_view first = out.required.empty() ? kPreferredTopologyAnnotation : kRequiredTopologyAnnotation;
    status.Update(Wrong(first, Get(annotations, first),
                        "cannot be beside another of required, preferred and "
                        "unconstrained"));
  }
  status.Update(ReadSlice(annotations, pods, &out));
  status.Update(ReadLayers(annotations, pods, &out));
  if (annotations.contains(kPodSetGroupAnnotation)) {
    status.Update(Wrong(kPodSetGroupAnnotation, Get(annotations, kPodSetGroupAnnotation),
                        "makes no group: that takes two pod sets, and a Job has one"));
  }
  if (!status.ok()) return status;
  return out;
}

void WriteTopologyRequest(const gang::TopologyRequest& request, std::string_view index_label, k8s::JsonWriter* out) {
  out->StartObject();
  if (!request.required.empty()) out->Field("required", request.required);
  if (!request.preferred.empty()) out->Field("preferred", request.preferred);
  if (request.unconstrained) out->Field("unconstrained", true);
  if (!request.group.empty()) out->Field("podSetGroupName", request.group);
  if (request.slices.size() == 1) {
    out->Field("podSetSliceRequiredTopology", request.slices.front().topology);
    out->Field("podSetSliceSize", request.slices.front().size);
  } else if (!request.slices.empty()) {
    out->Key("podsetSliceRequiredTopologyConstraints").StartArray();
    for (const gang::SliceConstraint& slice : request.slices) {
      out->StartObject().Field("topology", slice.topology).Field("size", slice.size).EndObject();
    }
    out->EndArray();
  }
  if (!index_label.empty()) out->Field("podIndexLabel", index_label);
  out->EndObject();
}

bool HasPlaces(const engine::Admission& admission) {
  return std::any_of(admission.pod_sets.begin(), admission.pod_sets.end(),
                     [](const engine::PodSetAssignment& pod_set) { return pod_set.topology.has_value(); });
}

void AddPlaces(const engine::PodSetAssignment& assignment, const Labels& annotations, Injection* wanted) {
  if (!assignment.topology.has_value()) return;
  wanted->scheduling_gates.emplace_back(kTopologyGate);
  const bool asks = std::any_of(kRequests.begin(), kRequests.end(),
                                [&annotations](std::string_view key) { return annotations.contains(key); });
  if (!asks) wanted->annotations.emplace(kUnconstrainedTopologyAnnotation, "true");
}

}  // namespace muster::controller
