// Whether the pods of a gang are ready, how long that may take, and when a gang is tried again of which they were not.
//
// Source: kueue_semantics 7.1, 2.8, 4.1, 4.2.
// Threading: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "muster/core/time.h"
#include "muster/k8s_client/object.h"

namespace muster::controller {

// waitForPodsReady of the configuration; the defaults are those of v1beta2.
struct WaitForPodsReadyOptions {
  // From the admission until all pods are ready for the first time.
  Duration timeout = std::chrono::minutes(30);
  // From the loss of a pod until all are ready again; 0: for ever.
  Duration recovery_timeout = std::chrono::minutes(30);
  // Nobody is admitted while the pods of another are not all ready.
  bool block_admission = false;
  // What was evicted for it queues as if it had come then; false: as when it was created.
  bool queue_since_eviction = true;
  Duration backoff_base = std::chrono::minutes(1);
  Duration backoff_max = std::chrono::hours(1);
  // How often it is queued again before it is deactivated; unset: without end.
  std::optional<int32_t> backoff_limit_count;
};

inline constexpr std::string_view kPodsReadyTimeout = "PodsReadyTimeout";
inline constexpr std::string_view kRequeuingLimitExceeded = "RequeuingLimitExceeded";
inline constexpr std::string_view kPodsReadyCondition = "PodsReady";

// How far the pods are, as the condition PodsReady tells.
struct PodsReady {
  enum class Phase : uint8_t {
    kWaitForStart,     // never were all ready since the admission
    kStarted,          // all are
    kWaitForRecovery,  // all were, and one is not any more
    kRecovered,        // all are again
  };
  Phase phase = Phase::kWaitForStart;
  WallTime since;  // when it last became ready, or not ready; of kWaitForStart the admission

  bool ready() const { return phase == Phase::kStarted || phase == Phase::kRecovered; }
  std::string_view reason() const;
  std::string_view message() const;
  friend bool operator==(const PodsReady&, const PodsReady&) = default;
};

// What follows on it once all pods are `ready`, or not.
PodsReady Next(const PodsReady& now, bool ready, WallTime at);

// What a condition tells; kWaitForStart where there is none. `admitted_at`: the admission that it is of.
PodsReady PodsReadyOf(const k8s::Condition* condition, WallTime admitted_at);

// When the gang has to be evicted if nothing changes; unset: never.
WallTime PodsReadyDeadline(const PodsReady& now, WallTime admitted_at, const WaitForPodsReadyOptions& options);

// How long a gang is kept out of the queue after it was evicted for the `count`th time: the base doubled each time, up
// to the maximum. REQUIRES: count >= 1.
Duration RequeueDelay(int32_t count, const WaitForPodsReadyOptions& options);

}  // namespace muster::controller
