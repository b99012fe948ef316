#include "muster/controller/job.h"

#include <absl/strings/numbers.h>

#include <algorithm>

#include "json_parts.h"
#include "muster/controller/names.h"
#include "muster/controller/topology_request.h"
#include "muster/core/hash.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"
#include "text.h"

namespace muster::controller {
namespace {

using k8s::JsonValue;

JobStatus ReadStatus(JsonValue status) {
  JobStatus out;
  out.active = status["active"].Count();
  out.ready = status["ready"].Count();
  out.succeeded = status["succeeded"].Count();
  out.terminating = status["terminating"].Count();
  out.uncounted_succeeded = static_cast<int32_t>(status["uncountedTerminatedPods"]["succeeded"].size());
  out.ended = out.succeeded;
  out.start_time = status["startTime"].Time();
  out.conditions = k8s::DecodeConditions(status["conditions"]);
  return out;
}

using Range = std::pair<int64_t, int64_t>;  // first and last

// Adds the ranges of "0-2,5". What is no range is passed over: only the job controller writes them.
void ReadRanges(std::string_view text, std::vector<Range>* out) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view range = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t dash = std::min(range.find('-'), range.size());
    int64_t first = 0;
    int64_t last = 0;
    if (!absl::SimpleAtoi(std::string(range.substr(0, dash)), &first)) continue;
    if (dash == range.size()) {
      last = first;
    } else if (!absl::SimpleAtoi(std::string(range.substr(dash + 1)), &last)) {
      continue;
    }
    if (first >= 0 && last >= first) out->emplace_back(first, last);
  }
}

// How many of the indexes below `completions` have completed or failed for good.
int32_t EndedIndexes(JsonValue status, int32_t completions) {
  std::vector<Range> ranges;
  ReadRanges(status["completedIndexes"].String(), &ranges);
  ReadRanges(status["failedIndexes"].String(), &ranges);
  std::sort(ranges.begin(), ranges.end());
  int64_t ended = 0;
  int64_t next = 0;  // all before are counted
  for (const auto& [first, last] : ranges) {
    const int64_t from = std::max(next, first);
    const int64_t to = std::min<int64_t>(last, completions - 1) + 1;
    if (to > from) ended += to - from;
    next = std::max(next, to);
  }
  return static_cast<int32_t>(ended);
}

TemplateView ReadView(JsonValue pod_template) {
  TemplateView out;
  out.labels = pod_template["metadata"]["labels"].Map();
  out.annotations = pod_template["metadata"]["annotations"].Map();
  out.node_selector = pod_template["spec"]["nodeSelector"].Map();
  out.tolerations = ReadTolerations(pod_template["spec"]["tolerations"]);
  pod_template["spec"]["schedulingGates"].ForEach(
      [&out](JsonValue gate) { out.scheduling_gates.push_back(gate["name"].String()); });
  return out;
}

std::string SpecRest(JsonValue spec) {
  k8s::JsonWriter out;
  out.StartObject();
  spec.ForEachField([&out](std::string_view key, JsonValue value) {
    const bool injected = key == "nodeSelector" || key == "tolerations" || key == "schedulingGates";
    if (!injected && value.present()) out.Key(key).Raw(value.Raw());
  });
  out.EndObject();
  return out.Take();
}

uint64_t ContainersHash(JsonValue spec) {
  StateHash hash;
  hash.Add(static_cast<int64_t>(CanonicalHash(spec["containers"])));
  hash.Add(static_cast<int64_t>(CanonicalHash(spec["initContainers"])));
  return hash.value();
}

void ReadRecordOf(Job* job) {
  const auto it = job->meta.annotations.find(kRecordAnnotation);
  if (it == job->meta.annotations.end()) return;
  auto record = DecodeRecord(it->second, job->meta.uid);
  if (!record.ok()) {
    job->record_problem = std::string(record.status().message());
  } else if (record->has_value()) {
    job->record = std::make_shared<const Record>(**std::move(record));
  }
}

std::string_view Find(const Labels& map, std::string_view key) {
  const auto it = map.find(key);
  return it == map.end() ? std::string_view() : std::string_view(it->second);
}

}  // namespace

SharedText TextTable::Intern(std::string text) {
  // Sweeping all once in a while keeps the cost of a text that nobody shares constant.
  if (++since_sweep_ > 1024 + texts_.size()) {
    since_sweep_ = 0;
    for (auto& [hash, slot] : texts_) std::erase_if(slot, [](const auto& weak) { return weak.expired(); });
    std::erase_if(texts_, [](const auto& entry) { return entry.second.empty(); });
  }
  auto& slot = texts_[StateHash().Add(std::string_view(text)).value()];
  for (const auto& weak : slot) {
    if (SharedText known = weak.lock(); known != nullptr && *known == text) return known;
  }
  auto added = std::make_shared<const std::string>(std::move(text));
  slot.push_back(added);
  return added;
}

size_t TextTable::size() const {
  size_t n = 0;
  for (const auto& [hash, slot] : texts_) {
    n += static_cast<size_t>(std::count_if(slot.begin(), slot.end(), [](const auto& w) { return !w.expired(); }));
  }
  return n;
}

std::string_view Job::Label(std::string_view key) const { return Find(meta.labels, key); }
std::string_view Job::Annotation(std::string_view key) const { return Find(meta.annotations, key); }
std::string_view Job::queue_name() const { return Label(kQueueNameLabel); }
std::string_view Job::prebuilt() const {
  const std::string_view named = Annotation(kPrebuiltWorkloadName);
  return named.empty() ? Label(kPrebuiltWorkloadName) : named;
}

bool Job::elastic() const { return Annotation(kElasticJobAnnotation) == "true"; }

const k8s::Condition* Job::Outcome() const {
  for (const k8s::Condition& condition : status.conditions) {
    if (condition.status == "True" && (condition.type == "Complete" || condition.type == "Failed")) return &condition;
  }
  return nullptr;
}

bool Job::Succeeded() const { return k8s::IsTrue(status.conditions, "Complete"); }

absl::StatusOr<Job> DecodeJob(std::string_view json, TextTable* texts, bool keep_template) {
  k8s::JsonDocument document(json);
  const JsonValue root = document.root();
  Job job;
  job.meta = k8s::DecodeMeta(root);
  const JsonValue spec = root["spec"];
  job.suspend = spec["suspend"].Bool();
  job.parallelism = spec["parallelism"].Count(1);
  job.completions = spec["completions"].OptionalCount();
  job.indexed = spec["completionMode"].String() == "Indexed";
  job.managed_by = spec["managedBy"].String();
  job.status = ReadStatus(root["status"]);
  if (job.indexed) job.status.ended = EndedIndexes(root["status"], job.completions.value_or(job.parallelism));
  const JsonValue pod_template = spec["template"];
  job.view = ReadView(pod_template);
  job.template_has_metadata = pod_template["metadata"].present();
  pod_template["spec"]["schedulingGates"].ForEach(
      [&job](JsonValue gate) { job.gated = job.gated || gate["name"].String() == kElasticJobAnnotation; });
  job.pod = DecodePodTemplate(pod_template);
  job.containers_hash = ContainersHash(pod_template["spec"]);
  // A running Job's template is needed only if its Workload is missing; then the Job is read again.
  if (job.suspend || keep_template) job.spec_rest = texts->Intern(SpecRest(pod_template["spec"]));
  if (const absl::Status s = document.Finish(Cat("Job ", job.meta.key().ToString())); !s.ok()) return s;
  ReadRecordOf(&job);
  return job;
}

int32_t JobShape::pod_count() const {
  return completions.has_value() ? std::min(parallelism, *completions) : parallelism;
}

JobShape OriginalShape(const Job& job) {
  JobShape out{job.view, job.parallelism, job.completions};
  if (job.void_record != nullptr) out.view = Restore(job.view, job.void_record->injected);
  if (job.record == nullptr) return out;
  out.view = Restore(job.view, job.record->injected);
  // Until the stop, the counts of a partly admitted Job are those of its admission.
  if (job.record->state == Record::State::kStarted) {
    if (job.record->parallelism.has_value()) out.parallelism = *job.record->parallelism;
    if (job.record->completions.has_value()) out.completions = *job.record->completions;
  }
  return out;
}

JobShape CurrentShape(const Job& job) { return {{}, job.parallelism, job.completions}; }

int32_t PodsLeft(const Job& job, const JobShape& shape) {
  const int32_t pods = shape.pod_count();
  // Of a single pod nothing can be given back before the end.
  if (pods <= 1 || job.status.ended <= 0) return pods;
  const int32_t left = shape.completions.value_or(shape.parallelism) - job.status.ended;
  return std::clamp(left, 0, pods);
}

int32_t ReclaimablePods(const Job& job, const JobShape& shape) {
  const int32_t pods = shape.pod_count();
  return pods - std::max(PodsLeft(job, shape), std::clamp(job.status.active, 0, pods));
}

bool AllPodsReady(const Job& job) {
  const int64_t there = int64_t{job.status.succeeded} + job.status.ready + job.status.uncounted_succeeded;
  const int32_t pods = CurrentShape(job).pod_count();
  // Those that gates hold cannot be ready.
  const bool held_back = job.record != nullptr && HoldsPodsBack(job) && !job.record->admission.pod_sets.empty();
  return there >= (held_back ? std::min(pods, job.record->admission.pod_sets.front().count) : pods);
}

std::string WorkloadNameOf(const Job& job) {
  if (const std::string_view name = job.prebuilt(); !name.empty()) return std::string(name);
  return SliceName(job, job.record == nullptr ? std::nullopt : job.record->slice);
}

std::string SliceName(const Job& job, std::optional<int64_t> slice) {
  return WorkloadName("Job", "batch", job.meta.name, job.meta.uid,
                      slice.has_value() ? std::to_string(*slice) : std::string());
}

WrittenRequests RequestsOf(const PodTemplate& pod) {
  gang::PodResources resources = pod.resources;
  gang::AdjustResources(&resources, gang::LimitRangeSummary(), nullptr);
  return gang::ToAmounts(gang::PodRequests(resources));
}

bool RunsAsAdmitted(const Job& job, const Record& record, bool resizes) {
  if (record.admission.pod_sets.size() != 1 || (job.elastic() && job.gated && !HoldsPodsBack(job))) return false;
  const JobShape now = CurrentShape(job);
  const bool as_many =
      record.pod_count() == now.pod_count() && PodsLeft(job, now) <= record.admission.pod_sets.front().count;
  return (resizes || as_many) &&
         record.max_execution_seconds.value_or(WantedMaxExecutionSeconds(job)) == WantedMaxExecutionSeconds(job) &&
         (!record.requests.has_value() || *record.requests == RequestsOf(job.pod));
}

bool HoldsPodsBack(const Job& job) { return job.gated && job.view.labels.contains(kElasticPodLabel); }

absl::StatusOr<std::optional<int32_t>> MinParallelism(const Job& job) {
  const std::string_view text = job.Annotation(kMinParallelismAnnotation);
  if (text.empty()) return std::optional<int32_t>();
  int32_t value = 0;
  const int32_t count = OriginalShape(job).pod_count();
  if (!absl::SimpleAtoi(std::string(text), &value) || value <= 0 || value >= count) {
    return absl::InvalidArgumentError(Cat("annotation ", kMinParallelismAnnotation, ": \"", text,
                                          "\" is not a number between 1 and ", count - 1,
                                          ", one less than the Job's pod count"));
  }
  return std::optional<int32_t>(value);
}

absl::StatusOr<std::optional<int64_t>> MaxExecutionSeconds(const Job& job) {
  const std::string_view text = job.Label(kMaxExecTimeLabel);
  if (text.empty()) return std::optional<int64_t>();
  int32_t value = 0;
  if (!absl::SimpleAtoi(std::string(text), &value) || value <= 0) {
    return absl::InvalidArgumentError(Cat("label ", kMaxExecTimeLabel, ": \"", text, "\" is not a number above 0"));
  }
  return std::optional<int64_t>(value);
}

int64_t WantedMaxExecutionSeconds(const Job& job) {
  const auto seconds = MaxExecutionSeconds(job);
  return seconds.ok() ? seconds->value_or(0) : 0;
}

absl::StatusOr<gang::TopologyRequest> TopologyRequestOf(const Job& job) {
  const JobShape shape = OriginalShape(job);
  return ReadTopologyRequest(shape.view.annotations, shape.pod_count());
}

bool CompletionsFollowParallelism(const Job& job) {
  return job.indexed && job.Annotation(kCompletionsEqualParallelismAnnotation) == "true";
}

bool PodsGone(const Job& job, bool strict) {
  if (!job.suspend || job.status.active != 0) return false;
  if (strict && job.status.terminating != 0) return false;
  return k8s::IsTrue(job.status.conditions, "Suspended");
}

bool TemplateEditable(const Job& job) { return job.suspend && !job.status.start_time.IsSet(); }

uint64_t CanonicalHash(JsonValue value) {
  StateHash hash;
  if (value.IsObject()) {
    std::map<std::string, uint64_t, std::less<>> fields;
    value.ForEachField([&fields](std::string_view key, JsonValue field) {
      if (field.present()) fields.insert_or_assign(std::string(key), CanonicalHash(field));
    });
    hash.Add("{");
    for (const auto& [key, field] : fields) hash.Add(std::string_view(key)).Add(static_cast<int64_t>(field));
  } else if (value.IsArray()) {
    hash.Add("[");
    value.ForEach([&hash](JsonValue item) { hash.Add(static_cast<int64_t>(CanonicalHash(item))); });
  } else if (value.present()) {
    hash.Add(std::string_view(value.Raw()));
  }
  return hash.value();
}

}  // namespace muster::controller
