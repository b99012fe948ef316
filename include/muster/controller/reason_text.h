// Why a workload waits, in the reference's words, and in Muster's own.
//
// Source: kueue_semantics 1.6, 4.6, 5.3, 5.6; the golden cases and oracle category 10.
// Threading: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "muster/engine/engine.h"
#include "muster/engine/reason.h"

namespace muster::controller {

// What a condition's message can hold, in bytes; longer texts are cut and end in " ...".
inline constexpr size_t kConditionMessageMax = 32768;

// The message of the condition QuotaReserved=False.
std::string ReasonMessage(const engine::Reason& reason);

// The message of the condition muster.dev/Waiting: the first thing in the way with its numbers and names, and what
// clears it. Who may read the Workload may read it: a blocker is named where its name is set.
std::string WaitMessage(const engine::Reason& reason);

// Whether two reasons tell a user the same thing apart from numbers and blockers: then the second may be told later, and
// is not worth an Event.
bool SameKind(const engine::Reason& a, const engine::Reason& b);

// The message of one that may not preempt, and would have to; and whether a reason says so.
inline constexpr std::string_view kPreemptionGatedMessage = "Workload requires preemption, but it's gated";
bool IsPreemptionGated(const engine::Reason& reason);

// Whether the workload was looked at by a pass, in contrast to one that never reached a queue.
bool WasEvaluated(const engine::Reason& reason);

// Takes away what those who may read a Workload in `ns` need not know: the names of Jobs elsewhere.
void HideForeign(std::string_view ns, engine::Reason* reason);

// The Event on the Workload that such a reason is worth; nothing where it is none.
struct HoldEvent {
  std::string_view reporter;
  std::string_view type;
  std::string reason;
};
// The Event of a workload whose admission gate is cleared.
inline constexpr std::string_view kGateClearedEvent = "AdmissionGateCleared";
inline constexpr std::string_view kGateClearedNote = "Admission gate cleared, workload is now admissible";

std::optional<HoldEvent> EventOf(const engine::Reason& reason);

// The reason and message of the Evicted condition.
std::string_view EvictedReason(engine::EvictionReason reason);
// Of the Preempted condition; empty where nobody preempted.
std::string_view PreemptedReason(engine::EvictionReason reason);
// The other way round. RETURNS: nothing where no engine decides on evictions for that reason.
std::optional<engine::EvictionReason> DecidedReason(std::string_view evicted_reason, std::string_view preempted_reason);
// As messages about preemption have it.
std::string_view UidOrUnknown(std::string_view uid);
struct EvictionFacts {
  // Of a preemption.
  std::string preemptor_workload_uid;
  std::string preemptor_job_uid;
  std::string preemptor_path;  // as of Catalog::QueuePath
  std::string preemptee_path;
  // Of kNodeFailures, as of engine::Evict.
  std::vector<std::string> nodes{};
  int64_t without_place = 0;
};
std::string EvictedMessage(engine::EvictionReason reason, const EvictionFacts& facts);
// The uid by which the engine knows the preemptor that such a message names: of its Job, else of its Workload. Empty:
// it names none.
std::string PreemptorIn(std::string_view evicted_message);

// At most `max` bytes, whole UTF-8 characters; what is cut ends in " ...".
std::string Truncated(std::string text, size_t max);

}  // namespace muster::controller
