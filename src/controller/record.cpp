#include "muster/controller/record.h"

#include <algorithm>
#include <initializer_list>

#include "json_parts.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"
#include "text.h"

namespace muster::controller {
namespace {

using k8s::JsonValue;
using k8s::JsonWriter;

constexpr int64_t kVersion = 1;

// ---- writing ------------------------------------------------------------------------------------

void WriteMapIfAny(std::string_view key, const Labels& map, JsonWriter* out) {
  if (!map.empty()) out->Key(key).Map(map);
}

void WriteAdmission(const engine::Admission& admission, JsonWriter* out) {
  out->Key("podSets").StartArray();
  for (const engine::PodSetAssignment& pod_set : admission.pod_sets) {
    out->StartObject().Field("name", pod_set.name).Field("count", pod_set.count);
    out->Key("flavors").StartObject();
    for (const auto& [resource, flavor] : pod_set.flavors) out->Field(resource, flavor);
    out->EndObject();
    out->Key("usage").StartObject();
    for (const auto& [resource, amount] : pod_set.usage) out->Field(resource, amount.value);
    out->EndObject().EndObject();
  }
  out->EndArray();
}

void WriteInjected(const Injection& injected, JsonWriter* out) {
  out->Key("injected").StartObject();
  WriteMapIfAny("labels", injected.labels, out);
  WriteMapIfAny("annotations", injected.annotations, out);
  WriteMapIfAny("nodeSelector", injected.node_selector, out);
  if (!injected.tolerations.empty()) {
    out->Key("tolerations");
    WriteTolerations(injected.tolerations, out);
  }
  if (!injected.scheduling_gates.empty()) {
    out->Key("schedulingGates").StartArray();
    for (const std::string& gate : injected.scheduling_gates) out->String(gate);
    out->EndArray();
  }
  out->EndObject();
}

void WriteTimedOut(const TimedOutFlavors& timed_out, JsonWriter* out) {
  out->Key("timedOut").StartObject().Field("until", FormatMicroTime(timed_out.until)).Key("flavors").StartArray();
  for (const TimedOutFlavor& entry : timed_out.flavors) {
    out->StartObject().Field("podSet", entry.pod_set).Field("flavor", entry.flavor).Field("count", entry.count);
    out->Field("last", FormatMicroTime(entry.last)).EndObject();
  }
  out->EndArray().EndObject();
}

void WriteEviction(const Eviction& eviction, JsonWriter* out) {
  out->Key("eviction").StartObject();
  out->Field("reason", eviction.reason).Field("message", eviction.message);
  if (!eviction.underlying_cause.empty()) out->Field("underlyingCause", eviction.underlying_cause);
  if (!eviction.preemption_reason.empty()) out->Field("preemptionReason", eviction.preemption_reason);
  if (!eviction.preemptor_uid.empty()) out->Field("preemptor", eviction.preemptor_uid);
  out->Field("at", FormatMicroTime(eviction.at));
  if (eviction.past_execution_seconds != 0) out->Field("pastExecutionSeconds", eviction.past_execution_seconds);
  if (eviction.requeue_at.IsSet()) out->Field("requeueAt", FormatMicroTime(eviction.requeue_at));
  if (eviction.requeue_count != 0) out->Field("requeueCount", eviction.requeue_count);
  if (!eviction.timed_out.flavors.empty()) WriteTimedOut(eviction.timed_out, out);
  out->Key("totals");
  WriteEvictionCounts(eviction.totals, out);
  out->EndObject();
}

// ---- reading ------------------------------------------------------------------------------------

void CheckKeys(JsonValue object, std::initializer_list<std::string_view> known) {
  object.ForEachField([known](std::string_view key, JsonValue value) {
    if (std::find(known.begin(), known.end(), key) == known.end()) value.Fail("unknown key");
  });
}

std::string RequiredString(JsonValue object, std::string_view key) {
  const std::string text = object[key].String();
  if (text.empty()) object.Fail(Cat("\"", key, "\" is missing"));
  return text;
}

engine::PodSetAssignment ReadPodSet(JsonValue value) {
  CheckKeys(value, {"name", "count", "flavors", "usage"});
  engine::PodSetAssignment out;
  out.name = RequiredString(value, "name");
  if (!value["count"].present()) value.Fail("\"count\" is missing");
  out.count = value["count"].Count();
  for (auto& [resource, flavor] : value["flavors"].Map()) out.flavors.emplace_back(resource, flavor);
  value["usage"].ForEachField([&out](std::string_view resource, JsonValue amount) {
    if (amount.Int() < 0) amount.Fail("negative");
    out.usage.emplace_back(std::string(resource), Amount{amount.Int()});
  });
  std::sort(out.usage.begin(), out.usage.end());
  return out;
}

Injection ReadInjected(JsonValue value) {
  CheckKeys(value, {"labels", "annotations", "nodeSelector", "tolerations", "schedulingGates"});
  Injection out;
  out.labels = value["labels"].Map();
  out.annotations = value["annotations"].Map();
  out.node_selector = value["nodeSelector"].Map();
  out.tolerations = ReadTolerations(value["tolerations"]);
  value["schedulingGates"].ForEach([&out](JsonValue gate) { out.scheduling_gates.push_back(gate.String()); });
  return out;
}

TimedOutFlavors ReadTimedOut(JsonValue value) {
  CheckKeys(value, {"until", "flavors"});
  TimedOutFlavors out;
  out.until = value["until"].Time();
  value["flavors"].ForEach([&out](JsonValue entry) {
    CheckKeys(entry, {"podSet", "flavor", "count", "last"});
    out.flavors.push_back({RequiredString(entry, "podSet"), RequiredString(entry, "flavor"), entry["count"].Count(),
                           entry["last"].Time()});
  });
  return out;
}

Eviction ReadEviction(JsonValue value) {
  CheckKeys(value, {"reason", "message", "underlyingCause", "preemptionReason", "preemptor", "at",
                    "pastExecutionSeconds", "requeueAt", "requeueCount", "timedOut", "totals"});
  Eviction out;
  out.reason = RequiredString(value, "reason");
  out.message = value["message"].String();
  out.underlying_cause = value["underlyingCause"].String();
  out.preemption_reason = value["preemptionReason"].String();
  out.preemptor_uid = value["preemptor"].String();
  out.at = value["at"].Time();
  out.past_execution_seconds = value["pastExecutionSeconds"].Count();
  out.requeue_at = value["requeueAt"].Time();
  out.requeue_count = value["requeueCount"].Count();
  if (value["timedOut"].present()) out.timed_out = ReadTimedOut(value["timedOut"]);
  out.totals = ReadEvictionCounts(value["totals"]);
  return out;
}

Record::State ReadState(JsonValue root) {
  const std::string state = root["state"].String();
  if (state == "started") return Record::State::kStarted;
  if (state != "stopped") root.Fail(Cat("state \"", state, "\" is neither started nor stopped"));
  return Record::State::kStopped;
}

WrittenRequests ReadRequests(JsonValue value) {
  WrittenRequests out;
  value.ForEachField([&out](std::string_view resource, JsonValue amount) {
    if (amount.Int() < 0) amount.Fail("negative");
    out.emplace(resource, Amount{amount.Int()});
  });
  return out;
}

Record ReadRecord(JsonValue root) {
  CheckKeys(root, {"v",
                   "claim",
                   "uid",
                   "state",
                   "clusterQueue",
                   "localQueue",
                   "reservedAt",
                   "admittedAt",
                   "podSets",
                   "placed",
                   "injected",
                   "parallelism",
                   "completions",
                   "pods",
                   "requests",
                   "maxExecutionSeconds",
                   "pastExecutionSeconds",
                   "slice",
                   "resumed",
                   "eviction"});
  Record out;
  out.state = ReadState(root);
  const std::string claim = root["claim"].String();
  const std::optional<engine::ClaimId> id = engine::ClaimId::Parse(claim);
  if (!id.has_value() || !id->IsSet()) root.Fail(Cat("claim \"", claim, "\" is not a claim id"));
  out.claim = id.value_or(engine::ClaimId{});
  out.job_uid = root["uid"].String();
  out.local_queue = RequiredString(root, "localQueue");
  out.admission.cluster_queue = RequiredString(root, "clusterQueue");
  out.reserved_at = root["reservedAt"].Time();
  out.admitted_at = root["admittedAt"].Time();
  root["podSets"].ForEach([&out](JsonValue pod_set) { out.admission.pod_sets.push_back(ReadPodSet(pod_set)); });
  if (out.admission.pod_sets.empty()) root.Fail("\"podSets\" is missing or empty");
  out.placed = root["placed"].Bool();
  out.injected = ReadInjected(root["injected"]);
  out.parallelism = root["parallelism"].OptionalCount();
  out.completions = root["completions"].OptionalCount();
  out.pods = root["pods"].OptionalCount();
  if (root["requests"].present()) out.requests = ReadRequests(root["requests"]);
  out.max_execution_seconds = root["maxExecutionSeconds"].OptionalCount();
  out.past_execution_seconds = root["pastExecutionSeconds"].OptionalCount();
  if (root["slice"].present()) out.slice = root["slice"].Int();
  out.resumed = root["resumed"].OptionalCount().value_or(0);
  if (root["eviction"].present()) out.eviction = ReadEviction(root["eviction"]);
  return out;
}

}  // namespace

std::string Eviction::shown_reason() const {
  return reason == kDeactivated && !underlying_cause.empty() ? Cat(reason, "DueTo", underlying_cause) : reason;
}

int32_t Record::pod_count() const { return pods.value_or(admission.pod_sets.front().count); }

std::string EncodeRecord(const Record& record) {
  JsonWriter out;
  out.StartObject().Field("v", kVersion);
  out.Field("claim", record.claim.ToString()).Field("uid", record.job_uid);
  out.Field("state", record.state == Record::State::kStarted ? "started" : "stopped");
  out.Field("clusterQueue", record.admission.cluster_queue).Field("localQueue", record.local_queue);
  out.Field("reservedAt", FormatMicroTime(record.reserved_at));
  if (record.admitted_at.IsSet()) out.Field("admittedAt", FormatMicroTime(record.admitted_at));
  WriteAdmission(record.admission, &out);
  if (record.placed) out.Field("placed", true);
  WriteInjected(record.injected, &out);
  if (record.parallelism.has_value()) out.Field("parallelism", *record.parallelism);
  if (record.completions.has_value()) out.Field("completions", *record.completions);
  if (record.pods.has_value()) out.Field("pods", *record.pods);
  if (record.requests.has_value()) {
    out.Key("requests").StartObject();
    for (const auto& [resource, amount] : *record.requests) out.Field(resource, amount.value);
    out.EndObject();
  }
  if (record.max_execution_seconds.has_value()) out.Field("maxExecutionSeconds", *record.max_execution_seconds);
  if (record.past_execution_seconds.has_value()) out.Field("pastExecutionSeconds", *record.past_execution_seconds);
  if (record.slice.has_value()) out.Field("slice", *record.slice);
  if (record.resumed != 0) out.Field("resumed", record.resumed);
  if (record.eviction.has_value()) WriteEviction(*record.eviction, &out);
  out.EndObject();
  return out.Take();
}

absl::StatusOr<std::optional<Record>> DecodeRecord(std::string_view text, std::string_view job_uid) {
  k8s::JsonDocument document(text);
  const JsonValue root = document.root();
  if (!root.IsObject())
    return absl::InvalidArgumentError(Cat("annotation ", "muster.dev/admission: not a JSON object"));
  // A copied record counts as none whatever else it says, also that of a version to come.
  const std::string uid = root["uid"].String();
  if (const absl::Status s = document.Finish("annotation muster.dev/admission"); !s.ok()) return s;
  if (uid != job_uid) return std::optional<Record>();
  if (root["v"].Int() != kVersion) {
    return absl::InvalidArgumentError(
        Cat("annotation muster.dev/admission: version ", root["v"].Int(), " is not known"));
  }
  Record record = ReadRecord(root);
  if (const absl::Status s = document.Finish("annotation muster.dev/admission"); !s.ok()) return s;
  return std::optional<Record>(std::move(record));
}

}  // namespace muster::controller
