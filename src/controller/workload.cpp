#include "muster/controller/workload.h"

#include <algorithm>
#include <limits>

#include "json_parts.h"
#include "muster/controller/decode.h"
#include "muster/controller/job.h"
#include "muster/controller/names.h"
#include "muster/controller/topology_assignment.h"
#include "muster/controller/topology_request.h"
#include "muster/core/check.h"
#include "muster/core/hash.h"
#include "muster/core/quantity.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"
#include "text.h"

namespace muster::controller {
namespace {

using k8s::JsonValue;
using k8s::JsonWriter;

constexpr std::string_view kApiVersion = "kueue.x-k8s.io/v1beta2";

// ---- reading ------------------------------------------------------------------------------------

WorkloadPodSet ReadPodSet(JsonValue value) {
  WorkloadPodSet out;
  out.name = value["name"].String();
  out.count = value["count"].Count(1);
  out.min_count = value["minCount"].OptionalCount();
  const JsonValue spec = value["template"]["spec"];
  StateHash hash;
  hash.Add(static_cast<int64_t>(CanonicalHash(spec["containers"])));
  hash.Add(static_cast<int64_t>(CanonicalHash(spec["initContainers"])));
  out.containers_hash = hash.value();
  out.tolerations = ReadTolerations(spec["tolerations"]);
  out.topology = DecodeTopologyRequest(value["topologyRequest"]);
  return out;
}

WorkloadSpec ReadSpec(JsonValue spec) {
  WorkloadSpec out;
  out.queue_name = spec["queueName"].String();
  out.priority = spec["priority"].Int32();
  if (const JsonValue ref = spec["priorityClassRef"]; ref.present()) {
    out.priority_class = {ref["group"].String(), ref["kind"].String(), ref["name"].String()};
  }
  out.max_execution_seconds = spec["maximumExecutionTimeSeconds"].OptionalCount();
  spec["podSets"].ForEach([&out](JsonValue pod_set) { out.pod_sets.push_back(ReadPodSet(pod_set)); });
  return out;
}

ResourceList ReadResources(JsonValue value) {
  ResourceList out;
  value.ForEachField([&out](std::string_view key, JsonValue v) { out.emplace(std::string(key), v.Scalar()); });
  return out;
}

WorkloadStatus ReadStatus(JsonValue status) {
  WorkloadStatus out;
  out.conditions = k8s::DecodeConditions(status["conditions"]);
  if (const JsonValue admission = status["admission"]; admission.present())
    out.admission = DecodeWorkloadAdmission(admission);
  status["resourceRequests"].ForEach([&out](JsonValue item) {
    out.resource_requests.push_back({item["name"].String(), ReadResources(item["resources"])});
  });
  out.reclaimable_pods = DecodeReclaimablePods(status["reclaimablePods"]);
  out.checks = ReadCheckStates(status["admissionChecks"]);
  out.evictions = ReadEvictionCounts(status["schedulingStats"]["evictions"]);
  out.past_execution_seconds = status["accumulatedPastExecutionTimeSeconds"].Count();
  if (const JsonValue requeue = status["requeueState"]; requeue.present()) {
    out.requeue_state = RequeueState{requeue["count"].Count(), requeue["requeueAt"].Time()};
  }
  out.preemption_gates = ReadPreemptionGates(status["preemptionGates"]);
  return out;
}

// Its name says so.
bool MadeFromJob(const k8s::ObjectMeta& workload) {
  const std::optional<JobRef> job = JobOf(workload);
  return job.has_value() && WorkloadName("Job", "batch", job->name, job->uid) == workload.name;
}

// ---- writing ------------------------------------------------------------------------------------

void WriteStrings(const std::map<std::string, std::string>& map, JsonWriter* out) {
  out->StartObject();
  for (const auto& [key, value] : map) out->Field(key, value);
  out->EndObject();
}

// The rest of the pod spec is spliced in unparsed: `{...}` without its closing brace, then the two of our own.
std::string PodSpec(const PodSetText& text, const std::vector<gang::Toleration>& tolerations) {
  JsonWriter own;
  own.StartObject();
  if (!text.node_selector.empty()) own.Key("nodeSelector").Map(text.node_selector);
  if (!tolerations.empty()) {
    own.Key("tolerations");
    WriteTolerations(tolerations, &own);
  }
  if (!text.scheduling_gates.empty()) {
    own.Key("schedulingGates");
    WriteSchedulingGates(text.scheduling_gates, &own);
  }
  std::string own_text = own.EndObject().Take();
  if (text.spec_rest.empty() || text.spec_rest == "{}") return own_text;
  if (own_text == "{}") return text.spec_rest;
  std::string out = text.spec_rest;
  MUSTER_CHECK(out.back() == '}');
  out.back() = ',';
  return out.append(own_text, 1);
}

void WritePodSets(const WorkloadSpec& spec, const std::vector<PodSetText>& texts, JsonWriter* out) {
  MUSTER_CHECK(spec.pod_sets.size() == texts.size());
  out->Key("podSets").StartArray();
  for (size_t i = 0; i < texts.size(); ++i) {
    const WorkloadPodSet& pod_set = spec.pod_sets[i];
    out->StartObject().Field("name", pod_set.name).Field("count", pod_set.count);
    if (pod_set.min_count.has_value()) out->Field("minCount", *pod_set.min_count);
    out->Key("template").StartObject().Key("metadata").StartObject();
    if (!texts[i].labels.empty()) out->Key("labels").Map(texts[i].labels);
    if (!texts[i].annotations.empty()) out->Key("annotations").Map(texts[i].annotations);
    out->EndObject();
    out->Key("spec").Raw(PodSpec(texts[i], pod_set.tolerations)).EndObject();
    out->Key("topologyRequest");
    WriteTopologyRequest(pod_set.topology, kCompletionIndexLabel, out);
    out->EndObject();
  }
  out->EndArray();
}

void WriteRequeueState(const std::optional<RequeueState>& state, JsonWriter* out) {
  if (!state.has_value()) {
    out->Null();
    return;
  }
  out->StartObject();
  if (state->count > 0) out->Field("count", state->count);
  out->Key("requeueAt");
  state->requeue_at.IsSet() ? out->String(FormatTime(state->requeue_at)) : out->Null();
  out->EndObject();
}

void WritePriorityClass(const PriorityClassRef& ref, JsonWriter* out) {
  out->StartObject().Field("group", ref.group).Field("kind", ref.kind).Field("name", ref.name).EndObject();
}

void WriteAdmission(const WorkloadAdmission& admission, JsonWriter* out) {
  out->StartObject().Field("clusterQueue", admission.cluster_queue);
  out->Key("podSetAssignments").StartArray();
  for (const AdmittedPodSet& pod_set : admission.pod_sets) {
    out->StartObject().Field("name", pod_set.name);
    if (!pod_set.flavors.empty()) {
      out->Key("flavors");
      WriteStrings(pod_set.flavors, out);
    }
    if (!pod_set.usage.empty()) {
      out->Key("resourceUsage");
      WriteStrings(pod_set.usage, out);
    }
    out->Field("count", pod_set.count);
    if (pod_set.topology.has_value()) {
      out->Key("topologyAssignment");
      EncodeTopologyAssignment(*pod_set.topology, out);
    }
    out->EndObject();
  }
  out->EndArray().EndObject();
}

void WriteReclaimablePods(const PodCounts& counts, JsonWriter* out) {
  if (counts.empty()) {
    out->Null();
    return;
  }
  out->StartArray();
  for (const auto& [pod_set, count] : counts) {
    out->StartObject().Field("name", pod_set).Field("count", count).EndObject();
  }
  out->EndArray();
}

void WriteRequests(const std::vector<PodSetRequests>& requests, JsonWriter* out) {
  if (requests.empty()) {
    out->Null();
    return;
  }
  out->StartArray();
  for (const PodSetRequests& pod_set : requests) {
    out->StartObject().Field("name", pod_set.name).Key("resources");
    WriteStrings(pod_set.resources, out);
    out->EndObject();
  }
  out->EndArray();
}

}  // namespace

WorkloadAdmission DecodeWorkloadAdmission(JsonValue value) {
  WorkloadAdmission out;
  out.cluster_queue = value["clusterQueue"].String();
  value["podSetAssignments"].ForEach([&out](JsonValue item) {
    AdmittedPodSet pod_set;
    pod_set.name = item["name"].String("main");
    pod_set.count = item["count"].Count();
    pod_set.usage = ReadResources(item["resourceUsage"]);
    pod_set.flavors = ReadResources(item["flavors"]);
    if (const JsonValue topology = item["topologyAssignment"]; topology["slices"].present()) {
      pod_set.topology = DecodeTopologyAssignment(topology);
    }
    out.pod_sets.push_back(std::move(pod_set));
  });
  return out;
}

std::optional<JobRef> JobOf(const k8s::ObjectMeta& workload) {
  if (const k8s::OwnerReference* owner = workload.Controller(); owner != nullptr) {
    if (!owner->api_version.starts_with("batch/") || owner->kind != "Job") return std::nullopt;
    return JobRef{owner->name, owner->uid};
  }
  constexpr std::string_view kPrefix = "job-";
  constexpr size_t kHash = 6;  // "-01234"
  const auto label = workload.labels.find(kJobUidLabel);
  const std::string& name = workload.name;
  if (label == workload.labels.end() || !name.starts_with(kPrefix) || name.size() <= kPrefix.size() + kHash) {
    return std::nullopt;
  }
  JobRef job{name.substr(kPrefix.size(), name.size() - kPrefix.size() - kHash), label->second};
  if (WorkloadName("Job", "batch", job.name, job.uid) != name) return std::nullopt;
  return job;
}

bool HoldsQuota(const Workload& workload) {
  const auto& conditions = workload.status.conditions;
  return k8s::IsTrue(conditions, "QuotaReserved") && workload.status.admission.has_value() &&
         !k8s::IsTrue(conditions, "Finished");
}

bool ShowsPlaces(const Workload& workload) {
  if (!HoldsQuota(workload) || !workload.status.admission.has_value()) return false;
  const std::vector<AdmittedPodSet>& pod_sets = workload.status.admission->pod_sets;
  return std::any_of(pod_sets.begin(), pod_sets.end(),
                     [](const auto& pod_set) { return pod_set.topology.has_value(); });
}

engine::ClaimId ClaimOf(const Workload& workload) {
  const auto named = workload.meta.annotations.find(kClaimAnnotation);
  if (named == workload.meta.annotations.end()) return {};
  return engine::ClaimId::Parse(named->second).value_or(engine::ClaimId{});
}

absl::StatusOr<Workload> DecodeWorkload(std::string_view json) {
  k8s::JsonDocument document(json);
  const JsonValue root = document.root();
  Workload out;
  out.meta = k8s::DecodeMeta(root);
  out.active = root["spec"]["active"].Bool(true);
  out.spec = ReadSpec(root["spec"]);
  out.status = ReadStatus(root["status"]);
  out.preemption_gates = ReadGateNames(root["spec"]["preemptionGates"]);
  if (!MadeFromJob(out.meta)) out.templates = DecodePodSets(root["spec"]["podSets"]);
  if (const absl::Status s = document.Finish(Cat("Workload ", out.meta.key().ToString())); !s.ok()) return s;
  return out;
}

std::string EncodeWorkload(const WorkloadBody& body) {
  JsonWriter out;
  out.StartObject().Field("apiVersion", kApiVersion).Field("kind", "Workload");
  out.Key("metadata").StartObject().Field("name", body.name).Field("namespace", body.ns);
  if (!body.labels.empty()) out.Key("labels").Map(body.labels);
  if (!body.annotations.empty()) out.Key("annotations").Map(body.annotations);
  out.Key("ownerReferences").StartArray().StartObject();
  out.Field("apiVersion", body.owner.api_version).Field("kind", body.owner.kind).Field("name", body.owner.name);
  out.Field("uid", body.owner.uid).Field("controller", true).Field("blockOwnerDeletion", true);
  out.EndObject().EndArray().EndObject();
  out.Key("spec").StartObject().Field("active", body.active);
  // An empty name is no name, and refused.
  if (!body.spec.queue_name.empty()) out.Field("queueName", body.spec.queue_name);
  WritePodSets(body.spec, body.texts, &out);
  out.Field("priority", body.spec.priority);
  if (body.spec.priority_class.has_value()) {
    out.Key("priorityClassRef");
    WritePriorityClass(*body.spec.priority_class, &out);
  }
  if (body.spec.max_execution_seconds.has_value()) {
    out.Field("maximumExecutionTimeSeconds", *body.spec.max_execution_seconds);
  }
  return out.EndObject().EndObject().Take();
}

std::string EncodeSpecPatch(const Workload& known, const WorkloadSpec& wanted, const std::vector<PodSetText>& texts) {
  JsonWriter out;
  out.StartObject().Key("metadata").StartObject().Field("uid", known.meta.uid);
  out.EndObject().Key("spec").StartObject();
  if (known.spec.queue_name != wanted.queue_name) {
    out.Key("queueName");
    wanted.queue_name.empty() ? out.Null() : out.String(wanted.queue_name);
  }
  if (known.spec.priority != wanted.priority) out.Field("priority", wanted.priority);
  if (known.spec.priority_class != wanted.priority_class) {
    out.Key("priorityClassRef");
    wanted.priority_class.has_value() ? WritePriorityClass(*wanted.priority_class, &out) : void(out.Null());
  }
  if (known.spec.max_execution_seconds != wanted.max_execution_seconds) {
    out.Key("maximumExecutionTimeSeconds");
    wanted.max_execution_seconds.has_value() ? out.Int(*wanted.max_execution_seconds) : out.Null();
  }
  if (known.spec.pod_sets != wanted.pod_sets) WritePodSets(wanted, texts, &out);
  return out.EndObject().EndObject().Take();
}

std::string EncodeDeactivation(const Workload& known) {
  JsonWriter out;
  out.StartObject().Key("metadata").StartObject().Field("uid", known.meta.uid).EndObject();
  return out.Key("spec").StartObject().Field("active", false).EndObject().EndObject().Take();
}

bool HasKueueFinalizer(const Workload& workload) {
  const std::vector<std::string>& all = workload.meta.finalizers;
  return std::find(all.begin(), all.end(), kKueueFinalizer) != all.end();
}

std::string EncodeMetaPatch(const Workload& known, const Labels& annotations, const Labels& labels) {
  JsonWriter out;
  out.StartObject().Key("metadata").StartObject();
  out.Field("uid", known.meta.uid).Field("resourceVersion", known.meta.resource_version);
  if (HasKueueFinalizer(known)) {
    out.Key("finalizers").StartArray();
    for (const std::string& finalizer : known.meta.finalizers) {
      if (finalizer != kKueueFinalizer) out.String(finalizer);
    }
    out.EndArray();
  }
  if (!annotations.empty()) {
    out.Key("annotations").StartObject();
    for (const auto& [key, value] : annotations) {
      out.Key(key);
      value.empty() ? out.Null() : out.String(value);
    }
    out.EndObject();
  }
  if (!labels.empty()) out.Key("labels").Map(labels);
  return out.EndObject().EndObject().Take();
}

std::string EncodeStatusPatch(const Workload& known, const WorkloadStatus& wanted) {
  const WorkloadStatus& from = known.status;
  if (from == wanted) return "";
  JsonWriter out;
  out.StartObject().Key("metadata").StartObject();
  out.Field("uid", known.meta.uid).Field("resourceVersion", known.meta.resource_version).EndObject();
  out.Key("status").StartObject();
  if (from.conditions != wanted.conditions) out.Key("conditions").Conditions(wanted.conditions);
  if (from.admission != wanted.admission) {
    out.Key("admission");
    wanted.admission.has_value() ? WriteAdmission(*wanted.admission, &out) : void(out.Null());
  }
  if (from.resource_requests != wanted.resource_requests) {
    out.Key("resourceRequests");
    WriteRequests(wanted.resource_requests, &out);
  }
  if (from.reclaimable_pods != wanted.reclaimable_pods) {
    out.Key("reclaimablePods");
    WriteReclaimablePods(wanted.reclaimable_pods, &out);
  }
  if (from.checks != wanted.checks) {
    out.Key("admissionChecks");
    WriteCheckStates(wanted.checks, &out);
  }
  if (from.evictions != wanted.evictions) {
    out.Key("schedulingStats").StartObject().Key("evictions");
    WriteEvictionCounts(wanted.evictions, &out);
    out.EndObject();
  }
  if (from.past_execution_seconds != wanted.past_execution_seconds) {
    out.Field("accumulatedPastExecutionTimeSeconds", wanted.past_execution_seconds);
    // The name it has in v1beta1, misspelt there.
    out.Field("accumulatedPastExexcutionTimeSeconds", wanted.past_execution_seconds);
  }
  if (from.requeue_state != wanted.requeue_state) {
    out.Key("requeueState");
    WriteRequeueState(wanted.requeue_state, &out);
  }
  if (from.preemption_gates != wanted.preemption_gates) {
    out.Key("preemptionGates");
    WritePreemptionGates(wanted.preemption_gates, &out);
  }
  return out.EndObject().EndObject().Take();
}

WorkloadAdmission ToApi(const engine::Admission& admission) {
  WorkloadAdmission out;
  out.cluster_queue = admission.cluster_queue;
  for (const engine::PodSetAssignment& pod_set : admission.pod_sets) {
    AdmittedPodSet to;
    to.name = pod_set.name;
    to.count = pod_set.count;
    to.topology = pod_set.topology;
    for (const auto& [resource, flavor] : pod_set.flavors) to.flavors.emplace(resource, flavor);
    for (const auto& [resource, amount] : pod_set.usage) to.usage.emplace(resource, FormatAmount(resource, amount));
    out.pod_sets.push_back(std::move(to));
  }
  return out;
}

absl::StatusOr<engine::Admission> FromApi(const WorkloadAdmission& admission) {
  engine::Admission out;
  out.cluster_queue = admission.cluster_queue;
  for (const AdmittedPodSet& pod_set : admission.pod_sets) {
    engine::PodSetAssignment to;
    to.name = pod_set.name;
    to.count = pod_set.count;
    to.topology = pod_set.topology;
    to.flavors.assign(pod_set.flavors.begin(), pod_set.flavors.end());
    for (const auto& [resource, text] : pod_set.usage) {
      auto quantity = muster::Quantity::Parse(text);
      if (!quantity.ok()) {
        return absl::InvalidArgumentError(Cat("status.admission.podSetAssignments[", pod_set.name, "].resourceUsage[",
                                              resource, "]: ", std::string(quantity.status().message())));
      }
      to.usage.emplace_back(resource, quantity->ToAmount(resource));
    }
    out.pod_sets.push_back(std::move(to));
  }
  return out;
}

}  // namespace muster::controller
