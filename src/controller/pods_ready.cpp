#include "muster/controller/pods_ready.h"

#include <algorithm>

#include "muster/core/check.h"

namespace muster::controller {

std::string_view PodsReady::reason() const {
  switch (phase) {
    case Phase::kWaitForStart:
      return "WaitForStart";
    case Phase::kStarted:
      return "Started";
    case Phase::kWaitForRecovery:
      return "WaitForRecovery";
    case Phase::kRecovered:
      return "Recovered";
  }
  CheckFailed(__FILE__, __LINE__, "known phase");
}

std::string_view PodsReady::message() const {
  switch (phase) {
    case Phase::kWaitForStart:
      return "Not all pods are ready or succeeded";
    case Phase::kWaitForRecovery:
      return "At least one pod has failed, waiting for recovery";
    case Phase::kStarted:
    case Phase::kRecovered:
      return "All pods reached readiness and the workload is running";
  }
  CheckFailed(__FILE__, __LINE__, "known phase");
}

PodsReady Next(const PodsReady& now, bool ready, WallTime at) {
  if (now.ready() == ready) return now;
  if (!ready) return {PodsReady::Phase::kWaitForRecovery, at};
  const bool recovers = now.phase == PodsReady::Phase::kWaitForRecovery;
  return {recovers ? PodsReady::Phase::kRecovered : PodsReady::Phase::kStarted, at};
}

PodsReady PodsReadyOf(const k8s::Condition* condition, WallTime admitted_at) {
  using Phase = PodsReady::Phase;
  if (condition == nullptr) return {Phase::kWaitForStart, admitted_at};
  if (condition->status == "True") {
    return {condition->reason == "Recovered" ? Phase::kRecovered : Phase::kStarted, condition->last_transition};
  }
  if (condition->reason == "WaitForRecovery") return {Phase::kWaitForRecovery, condition->last_transition};
  return {Phase::kWaitForStart, admitted_at};
}

WallTime PodsReadyDeadline(const PodsReady& now, WallTime admitted_at, const WaitForPodsReadyOptions& options) {
  if (now.phase == PodsReady::Phase::kWaitForStart) return admitted_at + options.timeout;
  const bool recovers = now.phase == PodsReady::Phase::kWaitForRecovery && options.recovery_timeout > Duration(0);
  return recovers ? now.since + options.recovery_timeout : WallTime{};
}

Duration RequeueDelay(int32_t count, const WaitForPodsReadyOptions& options) {
  Duration delay = options.backoff_base;
  for (int32_t i = 1; i < count && delay > Duration(0) && delay < options.backoff_max; ++i) {
    delay = AddClamped(delay, delay);
  }
  return std::min(delay, options.backoff_max);
}

}  // namespace muster::controller
