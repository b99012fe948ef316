// The admission record: where an admission is written down, as the annotation muster.dev/admission of the Job
// itself. The write that starts a gang writes it, the write that stops the gang replaces it, and it goes away
// once the template is restored and the Workload shows the eviction. A crash at any point in between finds all
// it needs here.
//
// The text is JSON with a version. Reading is strict: an unknown version, key or a wrong type is an error, since
// guessing at an admission is worse than stopping a gang.
//
// Threading: values and pure functions.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/controller/pod_template.h"
#include "muster/controller/timed_out_flavors.h"
#include "muster/core/amount.h"
#include "muster/core/time.h"
#include "muster/engine/objects.h"

namespace muster::controller {

// status.schedulingStats.evictions[]: how often a workload was evicted, by reason and cause.
struct EvictionCount {
  std::string reason;
  std::string underlying_cause;
  int64_t count = 0;
  friend bool operator==(const EvictionCount&, const EvictionCount&) = default;
};

// Reasons and causes of evictions that decide what follows.
inline constexpr std::string_view kDeactivated = "Deactivated";
inline constexpr std::string_view kMaxExecTimeExceeded = "MaximumExecutionTimeExceeded";
// A reason where a check is to be tried again, the cause of a deactivation where one was rejected.
inline constexpr std::string_view kAdmissionCheck = "AdmissionCheck";

// What is known of the last eviction. Totals are absolute, so that writing them twice counts once.
struct Eviction {
  std::string reason;   // "ClusterQueueStopped", "Preempted", ...
  std::string message;  // of the conditions and events
  std::string underlying_cause;
  std::string preemption_reason;  // of the Preempted condition; empty unless preempted
  std::string preemptor_uid;      // of the preemptor's Job
  WallTime at;
  // Execution before the admission that ended with this eviction, in whole seconds.
  int64_t past_execution_seconds = 0;
  // Not to be tried again before this time; unset: at once.
  WallTime requeue_at;
  // How often it was queued again since its pods did not get ready; this eviction counts.
  int32_t requeue_count = 0;
  // With which flavors; what counts as long as that does.
  TimedOutFlavors timed_out{};
  std::vector<EvictionCount> totals;  // including this eviction
  // The reason of the conditions and events, which name the cause of a deactivation.
  std::string shown_reason() const;
  // Muster deactivated it because it had run for as long as it may.
  bool IsTimeOver() const { return reason == kDeactivated && underlying_cause == kMaxExecTimeExceeded; }
  friend bool operator==(const Eviction&, const Eviction&) = default;
};

// Resource -> what one pod asks for, in base units.
using WrittenRequests = std::map<std::string, Amount, std::less<>>;

struct Record {
  enum class State : uint8_t { kStarted, kStopped };

  State state = State::kStarted;
  engine::ClaimId claim;
  std::string job_uid;
  std::string local_queue;
  engine::Admission admission;
  // The pods have places in topologies. They are too many for an annotation: the admission has them where the Workload
  // that tells of them is known.
  bool placed = false;
  WallTime reserved_at;
  // When all its checks were ready; unset: as it was reserved.
  WallTime admitted_at;
  // Since when it counts as executing.
  WallTime executing_since() const { return admitted_at.IsSet() ? admitted_at : reserved_at; }
  // What the start added to the template and has to be taken away again.
  Injection injected;
  // What the start changed parallelism and completions from; unset where it left them alone.
  std::optional<int32_t> parallelism;
  std::optional<int32_t> completions;
  // The Job's pod count as it was started; unset: that of the admission. It is higher where pods had ended before.
  std::optional<int32_t> pods;
  // What one pod asks for by its template as it was admitted; unset: not known.
  std::optional<WrittenRequests> requests;
  // How long the gang may run over all its admissions; 0: for ever; unset: not known.
  std::optional<int64_t> max_execution_seconds;
  // How long it had run in the admissions before this one; unset: not known.
  std::optional<int64_t> past_execution_seconds;
  // The Job's generation when it last was given more pods while it ran: its Workload is named by it. Unset: it never
  // was.
  std::optional<int64_t> slice;
  // How often somebody else suspended the running gang and it was started again.
  int32_t resumed = 0;
  // Of a stopped record: its eviction. Of a started one: a former eviction that the Workload may not show yet.
  std::optional<Eviction> eviction;
  // The pod count that the Job has while it runs under this record. REQUIRES: an admission with a pod set.
  int32_t pod_count() const;
  friend bool operator==(const Record&, const Record&) = default;
};

std::string EncodeRecord(const Record& record);

// RETURNS: nothing where the record names another Job's uid (it was copied with a manifest).
// ON FAILURE: InvalidArgument that names the key and value.
absl::StatusOr<std::optional<Record>> DecodeRecord(std::string_view text, std::string_view job_uid);

}  // namespace muster::controller
