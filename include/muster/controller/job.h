// A batch/v1 Job as the controller sees it: only the fields in use, decoded once for each state that the API
// server shows.
//
// Source: kueue_semantics 2.1, 2.2, 2.8.
// Threading: values and pure functions.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/controller/decode.h"
#include "muster/controller/pod_template.h"
#include "muster/controller/record.h"
#include "muster/k8s_client/object.h"

namespace muster::controller {

using SharedText = std::shared_ptr<const std::string>;

// Keeps one copy of each distinct text that somebody still uses: a thousand Jobs from one template share it.
//
// Threading: needs external synchronisation.
class TextTable {
 public:
  SharedText Intern(std::string text);
  // Distinct texts in use.
  size_t size() const;

 private:
  std::map<uint64_t, std::vector<std::weak_ptr<const std::string>>> texts_;
  size_t since_sweep_ = 0;
};

struct JobStatus {
  int32_t active = 0;
  int32_t ready = 0;
  int32_t succeeded = 0;
  int32_t terminating = 0;
  // Finished pods that are not in `succeeded` yet.
  int32_t uncounted_succeeded = 0;
  // Of the pods that the Job is made of, those that have ended and are not made again: what has succeeded; of an
  // Indexed Job, indexes that have completed or failed for good.
  int32_t ended = 0;
  WallTime start_time;
  std::vector<k8s::Condition> conditions;
};

struct Job {
  k8s::ObjectMeta meta;
  bool suspend = false;
  int32_t parallelism = 1;
  std::optional<int32_t> completions;
  bool indexed = false;
  std::string managed_by;
  JobStatus status;

  // The template as it is now, injected or not.
  TemplateView view;
  bool template_has_metadata = false;
  bool gated = false;  // its template has the scheduling gate of elastic Jobs
  PodTemplate pod;
  // Of containers and init containers, whatever the order of their keys.
  uint64_t containers_hash = 0;
  // The rest of template.spec, without nodeSelector, tolerations and schedulingGates; null where it was not kept.
  SharedText spec_rest;

  // The record, where the Job carries one of its own that can be read.
  std::shared_ptr<const Record> record;
  // One that counts as none, since it does not agree with the Job: what it says was injected has to go all the same.
  std::shared_ptr<const Record> void_record;
  // Why there is none although the annotation exists; empty: there is none, or it is another Job's.
  std::string record_problem;

  std::string_view Label(std::string_view key) const;
  std::string_view Annotation(std::string_view key) const;
  std::string_view queue_name() const;
  // The Workload that its user made for it; empty: it gets one.
  std::string_view prebuilt() const;

  // Asks to be resized while it runs.
  bool elastic() const;
  bool Suspended() const { return suspend; }
  // Complete or Failed; null while neither is true.
  const k8s::Condition* Outcome() const;
  bool Succeeded() const;
  bool deleting() const { return meta.deletion.IsSet(); }
};

// Keeps the template's text of a suspended Job; of another only if told to. ON FAILURE: names Job, field and value.
absl::StatusOr<Job> DecodeJob(std::string_view json, TextTable* texts, bool keep_template = false);

// What the Job would be without its record's injection: the template and the pod counts that its user gave it.
struct JobShape {
  TemplateView view;
  int32_t parallelism = 1;
  std::optional<int32_t> completions;
  // Pods that run at once.
  int32_t pod_count() const;
};
JobShape OriginalShape(const Job& job);
// As it is, partial admission and all; without the template.
JobShape CurrentShape(const Job& job);

// Pods that can still run at once in this shape, since others have ended for good.
int32_t PodsLeft(const Job& job, const JobShape& shape);
// Pods of the shape that are not needed any more. One that is seen to run is needed, whatever the other counts say.
// Where the shape allows for more pods than can ever be needed (parallelism above completions), the reference counts
// from parallelism, and gives back what still runs.
int32_t ReclaimablePods(const Job& job, const JobShape& shape);

// The name that the Job's Workload has or will have.
std::string WorkloadNameOf(const Job& job);
// Of the Workload made for it; `slice` as of Record.
std::string SliceName(const Job& job, std::optional<int64_t> slice);

// As many pods are ready, or have succeeded, as the Job runs at once, or as are admitted of an elastic one.
bool AllPodsReady(const Job& job);

// What one pod asks for by the template alone, whatever its namespace adds.
WrittenRequests RequestsOf(const PodTemplate& pod);
// Whether the Job has as many pods as when it was started, of which no more than `record` admits can run, and each
// asks for what it asked for then, for as long as then. The template's other parts are not compared, nor what stands
// beside it, a LimitRange say: what runs may go on running. `resizes`: it may have any number of pods, since gates hold
// those that are not admitted.
bool RunsAsAdmitted(const Job& job, const Record& record, bool resizes);
// Gates hold the pods that are not admitted, and somebody is there to take them away: as a start of Muster's leaves it.
bool HoldsPodsBack(const Job& job);

// Bounds and values that users state on labels and annotations. ON FAILURE: names key and value.
absl::StatusOr<std::optional<int32_t>> MinParallelism(const Job& job);
absl::StatusOr<std::optional<int64_t>> MaxExecutionSeconds(const Job& job);
// As a record has it: 0 where there is no limit, or none that can be read.
int64_t WantedMaxExecutionSeconds(const Job& job);
// What its pods ask of a topology. ON FAILURE: names annotation and value.
absl::StatusOr<gang::TopologyRequest> TopologyRequestOf(const Job& job);
// Whether completions follow parallelism on partial admission.
bool CompletionsFollowParallelism(const Job& job);

// No pod of the Job runs any more, as far as a job controller that has seen the suspension can tell. `strict`:
// nor terminates.
bool PodsGone(const Job& job, bool strict);
// The API server lets the template of this Job be edited.
bool TemplateEditable(const Job& job);

// A hash of a JSON value that does not depend on the order of keys or on spacing.
uint64_t CanonicalHash(k8s::JsonValue value);

}  // namespace muster::controller
