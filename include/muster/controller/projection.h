// What a Workload should look like: a pure function of what it looks like now and of what the controller knows.
// Doing it twice changes nothing, so a writer may compare, write, and compare again at any time, and skip any
// number of states in between without losing what must stay visible of them (evictions, execution time).
//
// Source: design decision 6; kueue_semantics 1.6, 2.4, 5.3, 5.4, 7.2-7.4; golden cases.
// Threading: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/controller/job.h"
#include "muster/controller/pods_ready.h"
#include "muster/controller/workload.h"
#include "muster/engine/reason.h"

namespace muster::controller {

struct WorkloadFacts {
  enum class State : uint8_t {
    kPending,   // holds nothing
    kReserved,  // holds its quota, and has checks to pass before it may run
    kAdmitted,  // holds its quota and runs, or is about to
    kEvicting,  // is being stopped and holds its quota until its pods are gone
    kFinished,
  };
  State state = State::kPending;
  bool active = true;  // spec.active
  // Of kPending: why, as the reference shows it; unset while nobody looked at it.
  std::optional<engine::Reason> reason;
  // Of kPending and kReserved: why, for the condition muster.dev/Waiting; unset where nothing but its turn is waited
  // for. Of kAdmitted: why more pods wait.
  std::optional<engine::Reason> waits_for;
  // Of kPending: what it asks for.
  std::vector<PodSetRequests> requests;
  // The AdmissionChecks that apply, sorted; unset: not known, they stay as they are.
  std::optional<CheckNames> checks;
  // Of kReserved, kAdmitted and kEvicting, and of kFinished where it was admitted.
  std::optional<engine::Admission> admission;
  WallTime reserved_at;
  WallTime admitted_at;  // unset: as it was reserved
  // The last eviction, as long as the record has it.
  std::optional<Eviction> eviction;
  // Seconds executed in all admissions that have ended; unset: as the Workload says.
  std::optional<int64_t> past_execution_seconds;
  // By pod set; unset: as the Workload says.
  std::optional<PodCounts> reclaimable_pods;
  // Whether its pods are ready; of kPending only that somebody waits for that. Unset: as the Workload says.
  std::optional<PodsReady> pods_ready;
  bool cluster_queue_stopped = false;
  bool local_queue_stopped = false;
  // Of kFinished: the condition.
  std::string finished_reason;
  std::string finished_message;
};

// Makes the facts of an admission those of a reservation, where not all checks are ready and the Workload does not show
// it as admitted. REQUIRES: facts->checks is set as it will be.
void TellChecks(const engine::Admission& admission, const WorkloadStatus& known, WorkloadFacts* facts);

WorkloadStatus ProjectStatus(const WorkloadStatus& known, int64_t generation, const WorkloadFacts& facts, WallTime now);

// The eviction of what has run for as long as it may: reason, cause and message alone. And the note of its Event.
Eviction TimeOverEviction();
std::string TimeOverNote(int64_t limit_seconds);
// "Deactivated due to ...", of the message of a deactivation.
std::string RejectionMessage(std::string_view deactivation);
// "The workload is deactivated due to ...".
std::string DeactivationMessage(std::string_view why);

// Whether the Workload was deactivated by Muster because the time it may run was over, and was not admitted since.
bool TellsTimeOver(const WorkloadStatus& status);
// The same, and somebody has activated it again: its time counts from zero.
bool TimeWasReset(const Workload& workload);

// Whether the Workload tells of this eviction, or of a later one.
bool TellsOfEviction(const WorkloadStatus& status, const Eviction& eviction);
// A workload that merely waits for its turn has no condition until something was in its way once.
bool WorthShowing(const engine::Reason& reason, const WorkloadStatus& known);

// Whether the Workload tells of this eviction, or of a later one, and does not show the quota as held.
bool ShowsEviction(const WorkloadStatus& status, const Eviction& eviction);

// Since when a Workload stands in its queue that was created then (kueue_semantics 4.1).
WallTime QueueTime(WallTime created, const WorkloadStatus& status);
// Whether the Workload tells of a later one.
bool IsOlderThanShown(const Eviction& eviction, const WorkloadStatus& status);

// With which flavors its pods were not ready in time. None since it was deactivated: it begins anew, though the
// condition stays for those who ask why.
TimedOutFlavors ShownTimedOut(const WorkloadStatus& status);

// The eviction that the Workload tells of; what only a record says of it is unset. RETURNS: nothing where it tells of
// none, or of one that has ended.
std::optional<Eviction> ShownEviction(const WorkloadStatus& status);

// The totals with one more eviction.
std::vector<EvictionCount> CountEviction(std::vector<EvictionCount> totals, const std::string& reason,
                                         const std::string& underlying_cause);

struct Priority {
  int32_t value = 0;
  std::optional<PriorityClassRef> ref;
  friend bool operator==(const Priority&, const Priority&) = default;
};

// The priority that counts: the Workload's, as it was given by whomever. Its WorkloadPriorityClass overrules that with
// each edit of its own; and while quota is reserved the kind of class stays. `known`: the Workload; may be null.
// `set_over`: the class's value that somebody is known to have overruled since.
Priority EffectivePriority(const Priority& of_job, const Workload* known, std::optional<int32_t> set_over);
// Somebody has changed the priority of a Workload that had its class's. `before` may be null.
bool IsPriorityEdit(const Priority& of_job, const Workload* before, const Workload& now);

WorkloadSpec ProjectSpec(const Job& job, const Priority& priority, std::optional<int32_t> min_count,
                         std::optional<int64_t> max_execution_seconds);

// The template's texts as the Workload has them: without what the job controller and an admission added.
// REQUIRES: job.spec_rest.
std::vector<PodSetText> ProjectTexts(const Job& job);

// A spec that differs from the Workload's in what the reference compares.
// `shows_quota`: its status tells of reserved quota, so that only the priority may change.
bool NeedsSpecPatch(const WorkloadSpec& known, const WorkloadSpec& wanted, bool shows_quota);

// Labels and annotations that the Workload of a Job is created with.
// `holder`: kHeldByJob or kHeldByWorkload.
Labels ProjectLabels(const Job& job, const std::vector<std::string>& keys_to_copy, std::string_view holder);
Labels ProjectAnnotations(const Job& job, engine::ClaimId claim);

}  // namespace muster::controller
