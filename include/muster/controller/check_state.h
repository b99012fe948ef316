// status.admissionChecks of a Workload: how far each AdmissionCheck has come, as its controller writes it at any time.
// Muster adds what is missing, takes away what does not apply, and sets all back once the Workload is evicted; all else
// is the controllers'.
//
// Source: kueue_semantics 1.6, 2.4, 2.6, 5.5; golden cases.
// Threading: values and pure functions.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/controller/pod_template.h"
#include "muster/core/labels.h"
#include "muster/core/time.h"
#include "muster/engine/reason.h"
#include "muster/gang/shape.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"

namespace muster::controller {

inline constexpr std::string_view kCheckPending = "Pending";
inline constexpr std::string_view kCheckReady = "Ready";
inline constexpr std::string_view kCheckRetry = "Retry";
inline constexpr std::string_view kCheckRejected = "Rejected";

// What the pods of one pod set get besides.
struct PodSetUpdate {
  std::string name;  // of the pod set
  TemplateView view;
  friend bool operator==(const PodSetUpdate&, const PodSetUpdate&) = default;
};

struct CheckState {
  std::string name;
  std::string state;
  std::string message;
  WallTime last_transition;
  std::optional<int32_t> requeue_after_seconds;
  std::optional<int32_t> retry_count;
  std::vector<PodSetUpdate> updates;
  std::string updates_text;  // JSON, as it was written; empty: none
  friend bool operator==(const CheckState&, const CheckState&) = default;
};
using CheckStates = std::vector<CheckState>;
// Of checks that apply, sorted.
using CheckNames = std::vector<std::string>;

CheckStates ReadCheckStates(k8s::JsonValue list);
void WriteCheckStates(const CheckStates& states, k8s::JsonWriter* out);

// One for each of `names` and no other, by name: those that are new are Pending.
CheckStates InStep(const CheckStates& states, const CheckNames& names, WallTime now);
// After an eviction: all are Pending again, and a retry was counted.
CheckStates SetBack(CheckStates states, WallTime now);

// What all of them together come to; what is not known yet is pending.
enum class CheckVerdict : uint8_t { kReady, kPending, kRetry, kRejected };
CheckVerdict Judge(const CheckStates& states, const CheckNames& names);
// `AdmissionChecks in Retry state: "a" (its message); "b"`.
std::string StateText(const CheckStates& states, const CheckNames& names, std::string_view state);
// "Evicted due to AdmissionCheck in Retry state: ...".
std::string RetryMessage(const CheckStates& states, const CheckNames& names);
// `a: its message; b: its message`, of those that are pending and say something.
std::string PendingText(const CheckStates& states, const CheckNames& names);
// When those that are to be tried again may be; unset: at once.
WallTime RetryTime(const CheckStates& states, const CheckNames& names);
// Why what is reserved in the ClusterQueue is not admitted.
engine::Reason WaitsForChecks(const CheckStates& states, const CheckNames& names, const std::string& cluster_queue);

// Adds to `wanted`, which the pods of `pod_set` get, what the checks want them to have. `base`: the template as its
// user wrote it. ON FAILURE: FailedPrecondition that names check, key and both values where two contradict.
absl::Status AddUpdates(const CheckStates& states, const CheckNames& names, std::string_view pod_set,
                        const TemplateView& base, Injection* wanted);

}  // namespace muster::controller
