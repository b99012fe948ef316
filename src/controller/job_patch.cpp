#include "muster/controller/job_patch.h"

#include <algorithm>
#include <array>
#include <utility>

#include "json_parts.h"
#include "json_patch.h"
#include "muster/controller/names.h"
#include "muster/controller/topology_request.h"
#include "muster/core/check.h"

namespace muster::controller {
namespace {

using k8s::JsonWriter;

// What an admission is decided on, apart from the spec.
constexpr std::array kLabelsRead = {kQueueNameLabel, kPriorityClassLabel, kMaxExecTimeLabel, kPrebuiltWorkloadName};
constexpr std::array kAnnotationsRead = {kMinParallelismAnnotation, kCompletionsEqualParallelismAnnotation,
                                         kElasticJobAnnotation,     kAdmissionGatedByAnnotation,
                                         kPrebuiltWorkloadName,     kRecordAnnotation};

template <size_t N>
void TestKeys(std::string_view parent, const Labels& map, const std::array<std::string_view, N>& keys,
              JsonPatch* patch) {
  if (map.empty()) {
    patch->TestNull(Pointer({"metadata", parent}));
    return;
  }
  for (const std::string_view key : keys) {
    const auto it = map.find(key);
    const std::string path = Pointer({"metadata", parent, key});
    it == map.end() ? patch->TestNull(path) : patch->TestText(path, it->second);
  }
}

void TestIdentity(const Job& job, JsonPatch* patch) { patch->TestText("/metadata/uid", job.meta.uid); }

void TestSpec(const Job& job, JsonPatch* patch) {
  patch->TestInt("/metadata/generation", job.meta.generation);
  // An absent `suspend` is false; the API server fills it in.
  if (job.suspend) patch->TestBool("/spec/suspend", true);
}

template <size_t N>
bool SameKeys(const Labels& a, const Labels& b, const std::array<std::string_view, N>& keys) {
  return a.empty() == b.empty() && std::all_of(keys.begin(), keys.end(), [&](std::string_view key) {
           const auto in_a = a.find(key);
           const auto in_b = b.find(key);
           return in_a == a.end() || in_b == b.end() ? in_a == a.end() && in_b == b.end()
                                                     : in_a->second == in_b->second;
         });
}

// The record is the one that the decision knew.
void TestRecord(const Job& job, JsonPatch* patch) {
  TestKeys("annotations", job.meta.annotations, std::array{kRecordAnnotation}, patch);
}

void SetRecord(const Job& job, const Record& record, JsonPatch* patch) {
  const std::string text = EncodeRecord(record);
  if (!job.meta.annotations.empty()) {
    patch->AddText(Pointer({"metadata", "annotations", kRecordAnnotation}), text);
    return;
  }
  JsonWriter map;
  map.StartObject().Field(kRecordAnnotation, text).EndObject();
  patch->AddRaw("/metadata/annotations", map.Take());
}

// Kueue would take it away itself, at the end of the stop that it had begun.
void DropKueueMark(const Job& job, JsonPatch* patch) {
  if (job.meta.annotations.contains(kKueueStoppingAnnotation)) {
    patch->Remove(Pointer({"metadata", "annotations", kKueueStoppingAnnotation}));
  }
}

// Turns one map into another, key by key; a map that does not exist yet is added whole.
void PatchMap(const std::string& path, const Labels& from, const Labels& to, JsonPatch* patch) {
  if (from == to) return;
  if (from.empty()) {
    JsonWriter map;
    map.Map(to);
    patch->AddRaw(path, map.Take());
    return;
  }
  for (const auto& [key, value] : from) {
    if (!to.contains(key)) patch->Remove(path + Pointer({key}));
  }
  for (const auto& [key, value] : to) {
    const auto it = from.find(key);
    if (it == from.end() || it->second != value) patch->AddText(path + Pointer({key}), value);
  }
}

void PatchList(std::string_view path, bool empty, std::string_view list, JsonPatch* patch) {
  empty ? patch->Remove(path) : patch->AddRaw(path, list);
}

void PatchTemplate(const Job& job, const TemplateView& to, JsonPatch* patch) {
  const TemplateView& from = job.view;
  if (!job.template_has_metadata && (from.labels != to.labels || from.annotations != to.annotations)) {
    patch->AddRaw("/spec/template/metadata", "{}");
  }
  PatchMap("/spec/template/metadata/labels", from.labels, to.labels, patch);
  PatchMap("/spec/template/metadata/annotations", from.annotations, to.annotations, patch);
  PatchMap("/spec/template/spec/nodeSelector", from.node_selector, to.node_selector, patch);
  if (from.tolerations != to.tolerations) {
    JsonWriter list;
    WriteTolerations(to.tolerations, &list);
    PatchList("/spec/template/spec/tolerations", to.tolerations.empty(), list.Take(), patch);
  }
  if (from.scheduling_gates != to.scheduling_gates) {
    JsonWriter list;
    WriteSchedulingGates(to.scheduling_gates, &list);
    PatchList("/spec/template/spec/schedulingGates", to.scheduling_gates.empty(), list.Take(), patch);
  }
}

void PatchCounts(const Job& job, int32_t parallelism, std::optional<int32_t> completions, JsonPatch* patch) {
  if (parallelism != job.parallelism) patch->AddInt("/spec/parallelism", parallelism);
  if (completions.has_value() && completions != job.completions) patch->AddInt("/spec/completions", *completions);
}

}  // namespace

absl::StatusOr<JobPatch> BuildStart(const Job& job, const StartOrder& order, const FlavorMap& flavors) {
  MUSTER_CHECK(job.suspend);
  MUSTER_CHECK(order.admission.pod_sets.size() == 1);
  const engine::PodSetAssignment& assignment = order.admission.pod_sets.front();
  auto wanted = MakeInjection(assignment, order.admission.cluster_queue, order.local_queue, order.workload, flavors);
  if (!wanted.ok()) return wanted.status();
  const JobShape original = OriginalShape(job);
  if (job.elastic()) wanted->labels.emplace(kElasticPodLabel, "true");
  if (const absl::Status s = AddUpdates(order.checks, order.check_names, assignment.name, original.view, &*wanted);
      !s.ok()) {
    return s;
  }
  AddPlaces(assignment, original.view.annotations, &*wanted);
  auto injected = Inject(original.view, *wanted);
  if (!injected.ok()) return injected.status();

  Record record;
  record.claim = order.claim;
  record.job_uid = job.meta.uid;
  record.local_queue = order.local_queue;
  record.admission = order.admission;
  record.placed = HasPlaces(order.admission);
  record.reserved_at = order.reserved_at;
  record.admitted_at = order.admitted_at;
  record.injected = std::move(injected->added);
  record.requests = RequestsOf(job.pod);
  record.max_execution_seconds = WantedMaxExecutionSeconds(job);
  record.past_execution_seconds = order.past_execution_seconds;
  record.eviction = order.eviction;
  record.slice = order.slice;
  int32_t parallelism = original.parallelism;
  std::optional<int32_t> completions = original.completions;
  // Fewer than can still run: a partial admission.
  if (assignment.count < PodsLeft(job, original)) {
    record.parallelism = original.parallelism;
    parallelism = assignment.count;
    if (CompletionsFollowParallelism(job)) {
      record.completions = original.completions;
      completions = assignment.count;
    }
  }
  if (const JobShape started{{}, parallelism, completions}; started.pod_count() != assignment.count) {
    record.pods = started.pod_count();
  }

  JsonPatch patch;
  TestIdentity(job, &patch);
  TestSpec(job, &patch);
  TestKeys("labels", job.meta.labels, kLabelsRead, &patch);
  TestKeys("annotations", job.meta.annotations, kAnnotationsRead, &patch);
  SetRecord(job, record, &patch);
  DropKueueMark(job, &patch);
  PatchTemplate(job, injected->result, &patch);
  PatchCounts(job, parallelism, completions, &patch);
  patch.AddBool("/spec/suspend", false);
  return JobPatch{patch.Take(), std::move(record)};
}

bool StartStillFits(const Job& basis, const Job& now) {
  return basis.meta.uid == now.meta.uid && basis.meta.generation == now.meta.generation &&
         basis.suspend == now.suspend && basis.status.ended <= now.status.ended &&
         SameKeys(basis.meta.labels, now.meta.labels, kLabelsRead) &&
         SameKeys(basis.meta.annotations, now.meta.annotations, kAnnotationsRead);
}

JobPatch BuildStop(const Job& job, const Record& record, const Eviction& eviction) {
  Record stopped = record;
  stopped.state = Record::State::kStopped;
  stopped.eviction = eviction;
  // Read from the record and not from the Job: a stop that is repeated finds the counts already set back.
  const int32_t parallelism = stopped.parallelism.value_or(job.parallelism);
  const std::optional<int32_t> completions = stopped.completions;
  stopped.parallelism.reset();
  stopped.completions.reset();

  JsonPatch patch;
  TestIdentity(job, &patch);
  TestRecord(job, &patch);
  SetRecord(job, stopped, &patch);
  DropKueueMark(job, &patch);
  PatchCounts(job, parallelism, completions, &patch);
  patch.AddBool("/spec/suspend", true);
  return {patch.Take(), std::move(stopped)};
}

std::string BuildSuspend(const Job& job) {
  JsonPatch patch;
  TestIdentity(job, &patch);
  TestRecord(job, &patch);
  return patch.AddBool("/spec/suspend", true).Take();
}

std::string BuildRestore(const Job& job) {
  MUSTER_CHECK(job.record != nullptr || job.void_record != nullptr);
  JsonPatch patch;
  TestIdentity(job, &patch);
  TestSpec(job, &patch);
  TestRecord(job, &patch);
  patch.Remove(Pointer({"metadata", "annotations", kRecordAnnotation}));
  const JobShape original = OriginalShape(job);
  PatchTemplate(job, original.view, &patch);
  PatchCounts(job, original.parallelism, original.completions, &patch);
  return patch.Take();
}

JobPatch BuildResume(const Job& job) {
  MUSTER_CHECK(job.record != nullptr);
  Record record = *job.record;
  ++record.resumed;
  JsonPatch patch;
  TestIdentity(job, &patch);
  TestSpec(job, &patch);
  // While it is suspended its queue may change, which the generation does not show.
  TestKeys("labels", job.meta.labels, std::array{kQueueNameLabel}, &patch);
  TestRecord(job, &patch);
  SetRecord(job, record, &patch);
  patch.AddBool("/spec/suspend", false);
  return {patch.Take(), std::move(record)};
}

JobPatch BuildSize(const Job& job, const engine::Admission& admission, bool grows) {
  MUSTER_CHECK(job.record != nullptr);
  Record record = *job.record;
  record.admission = admission;
  record.pods.reset();
  if (const int32_t pods = CurrentShape(job).pod_count(); pods != record.pod_count()) record.pods = pods;
  if (grows) record.slice = job.meta.generation;
  JsonPatch patch;
  TestIdentity(job, &patch);
  TestSpec(job, &patch);
  TestKeys("labels", job.meta.labels, kLabelsRead, &patch);
  TestKeys("annotations", job.meta.annotations, kAnnotationsRead, &patch);
  SetRecord(job, record, &patch);
  return {patch.Take(), std::move(record)};
}

std::string BuildRecordAgain(const Job& job, const Record& record) {
  JsonPatch patch;
  TestIdentity(job, &patch);
  TestSpec(job, &patch);
  TestRecord(job, &patch);
  SetRecord(job, record, &patch);
  return patch.Take();
}

std::string BuildRelease(const Job& job) {
  JsonPatch patch;
  TestIdentity(job, &patch);
  TestRecord(job, &patch);
  patch.Remove(Pointer({"metadata", "annotations", kRecordAnnotation}));
  return patch.Take();
}

std::string BuildClearStartTime(const Job& job) {
  JsonWriter out;
  out.StartObject().Key("metadata").StartObject();
  out.Field("uid", job.meta.uid).Field("resourceVersion", job.meta.resource_version).EndObject();
  out.Key("status").StartObject().Key("startTime").Null().EndObject();
  return out.EndObject().Take();
}

}  // namespace muster::controller
