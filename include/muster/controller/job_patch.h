// The writes to a Job, as request bodies. Each is one JSON Patch that the API server applies whole or not at
// all, with a `test` for everything that the decision behind it read: uid, generation, spec.suspend, and labels
// and annotations, whose change leaves the generation alone. Tests instead of a resourceVersion, because the job
// controller touches the Job's status a few milliseconds after creation.
//
// An absent key is tested as null; where its whole map is absent, the map is, since a test below a missing parent
// is an error.
//
// Source: record.md; kueue_semantics 2.6, 2.7.
// Threading: pure functions.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "muster/controller/check_state.h"
#include "muster/controller/job.h"
#include "muster/controller/pod_template.h"
#include "muster/controller/record.h"

namespace muster::controller {

// A patch, and the record that the Job carries once it is applied.
struct JobPatch {
  std::string body;
  Record record;
};

struct StartOrder {
  engine::ClaimId claim;
  engine::Admission admission;
  WallTime reserved_at;
  std::string local_queue;
  std::string workload;          // name
  std::optional<int64_t> slice;  // as of Record
  WallTime admitted_at;          // as of Record
  // Whose checks are ready, with what their controllers want the pods to have.
  CheckStates checks;
  CheckNames check_names;
  int64_t past_execution_seconds = 0;
  // A former eviction that the Workload may not show yet.
  std::optional<Eviction> eviction;
};

// Unsuspends the Job with the assigned flavors injected and the record written; takes back what a former
// admission injected, all in one. REQUIRES: job.suspend.
// ON FAILURE: NotFound (a flavor is gone), FailedPrecondition (the template contradicts a flavor or a check;
// permanent).
absl::StatusOr<JobPatch> BuildStart(const Job& job, const StartOrder& order, const FlavorMap& flavors);

// Whether a start that was built on `basis` would still pass its own tests on `now`, record included, and no more pods
// than then can run.
bool StartStillFits(const Job& basis, const Job& now);

// Suspends the Job, sets its counts back, and turns the record into a stopped one. The template stays injected:
// it cannot be edited before the job controller has let go. REQUIRES: a record.
JobPatch BuildStop(const Job& job, const Record& record, const Eviction& eviction);

// Suspends a Job that runs without admission.
std::string BuildSuspend(const Job& job);

// Takes back what was injected, and removes the record. REQUIRES: a stopped record, TemplateEditable(job).
std::string BuildRestore(const Job& job);

// Starts a running gang again that somebody else suspended. REQUIRES: a started record, job.suspend.
JobPatch BuildResume(const Job& job);

// Writes the admission of other counts into a running Job's record; of more pods: `grows`. REQUIRES: a started record.
JobPatch BuildSize(const Job& job, const engine::Admission& admission, bool grows);

// Writes a running Job's record again that somebody else removed or spoiled.
std::string BuildRecordAgain(const Job& job, const Record& record);

// Takes the record away, and leaves all else as it is.
std::string BuildRelease(const Job& job);

// Merge patch of the status: servers up to 1.35 keep the start time of a suspended Job, and with it the template
// locked, until somebody clears it.
std::string BuildClearStartTime(const Job& job);

}  // namespace muster::controller
