#include "muster/controller/check_state.h"

#include <algorithm>

#include "json_parts.h"
#include "muster/controller/reason_text.h"
#include "text.h"

namespace muster::controller {
namespace {

using k8s::JsonValue;
using k8s::JsonWriter;

// Of an eviction's message, which goes into conditions, Events and the Job's record.
constexpr size_t kTextMax = 4096;
constexpr int64_t kNanosPerSecond = 1'000'000'000;

const CheckState* Find(const CheckStates& states, std::string_view name) {
  const auto it = std::find_if(states.begin(), states.end(), [name](const CheckState& s) { return s.name == name; });
  return it == states.end() ? nullptr : &*it;
}

template <typename Visit>
void ForEachIn(const CheckStates& states, const CheckNames& names, std::string_view state, Visit visit) {
  for (const std::string& name : names) {
    const CheckState* known = Find(states, name);
    if (known != nullptr && known->state == state) visit(*known);
  }
}

bool AnyIn(const CheckStates& states, const CheckNames& names, std::string_view state) {
  bool any = false;
  ForEachIn(states, names, state, [&any](const CheckState&) { any = true; });
  return any;
}

// As the API stores it.
WallTime WholeSeconds(WallTime t) { return {t.unix_nanos / kNanosPerSecond * kNanosPerSecond}; }

absl::Status Conflict(const CheckState& check, std::string_view what, std::string_view key, std::string_view is,
                      std::string_view wanted) {
  return absl::FailedPreconditionError(Cat("invalid admission check PodSetUpdate: conflict for ", what, "[", key,
                                           "]: \"", is, "\" is there, and AdmissionCheck ", check.name, " wants \"",
                                           wanted, "\""));
}

absl::Status AddMap(const CheckState& check, std::string_view what, const Labels& update, const Labels& base,
                    Labels* wanted) {
  for (const auto& [key, value] : update) {
    for (const Labels* map : {&base, static_cast<const Labels*>(wanted)}) {
      const auto it = map->find(key);
      if (it != map->end() && it->second != value) return Conflict(check, what, key, it->second, value);
    }
    wanted->emplace(key, value);
  }
  return absl::OkStatus();
}

absl::Status AddUpdate(const CheckState& check, const TemplateView& update, const TemplateView& base,
                       Injection* wanted) {
  if (auto s = AddMap(check, "labels", update.labels, base.labels, &wanted->labels); !s.ok()) return s;
  if (auto s = AddMap(check, "annotations", update.annotations, base.annotations, &wanted->annotations); !s.ok()) {
    return s;
  }
  if (auto s = AddMap(check, "nodeSelector", update.node_selector, base.node_selector, &wanted->node_selector);
      !s.ok()) {
    return s;
  }
  for (const gang::Toleration& toleration : update.tolerations) {
    std::vector<gang::Toleration>& list = wanted->tolerations;
    if (std::find(list.begin(), list.end(), toleration) == list.end()) list.push_back(toleration);
  }
  return absl::OkStatus();
}

}  // namespace

CheckStates ReadCheckStates(JsonValue list) {
  CheckStates out;
  list.ForEach([&out](JsonValue item) {
    CheckState& state = out.emplace_back();
    state.name = item["name"].String();
    state.state = item["state"].String();
    state.message = item["message"].String();
    state.last_transition = item["lastTransitionTime"].Time();
    state.requeue_after_seconds = item["requeueAfterSeconds"].OptionalCount();
    state.retry_count = item["retryCount"].OptionalCount();
    const JsonValue updates = item["podSetUpdates"];
    if (!updates.present()) return;
    state.updates_text = updates.Raw();
    updates.ForEach([&state](JsonValue update) {
      state.updates.push_back({update["name"].String("main"),
                               {update["labels"].Map(), update["annotations"].Map(), update["nodeSelector"].Map(),
                                ReadTolerations(update["tolerations"])}});
    });
  });
  return out;
}

void WriteCheckStates(const CheckStates& states, JsonWriter* out) {
  if (states.empty()) {
    out->Null();
    return;
  }
  out->StartArray();
  for (const CheckState& state : states) {
    out->StartObject().Field("name", state.name).Field("state", state.state).Field("message", state.message);
    out->Field("lastTransitionTime", FormatTime(state.last_transition));
    if (state.requeue_after_seconds.has_value()) out->Field("requeueAfterSeconds", *state.requeue_after_seconds);
    if (state.retry_count.has_value()) out->Field("retryCount", *state.retry_count);
    if (!state.updates_text.empty()) out->Key("podSetUpdates").Raw(state.updates_text);
    out->EndObject();
  }
  out->EndArray();
}

CheckStates InStep(const CheckStates& states, const CheckNames& names, WallTime now) {
  CheckStates out;
  for (const std::string& name : names) {
    if (const CheckState* known = Find(states, name); known != nullptr) {
      out.push_back(*known);
    } else {
      CheckState& added = out.emplace_back();
      added.name = name;
      added.state = kCheckPending;
      added.last_transition = WholeSeconds(now);
    }
  }
  return out;
}

CheckStates SetBack(CheckStates states, WallTime now) {
  for (CheckState& state : states) {
    if (state.state == kCheckPending) continue;
    if (state.state == kCheckRetry) state.retry_count = state.retry_count.value_or(0) + 1;
    state.message = Cat("Reset to Pending after eviction. Previously: ", state.state);
    state.state = kCheckPending;
    state.last_transition = WholeSeconds(now);
  }
  return states;
}

CheckVerdict Judge(const CheckStates& states, const CheckNames& names) {
  if (AnyIn(states, names, kCheckRejected)) return CheckVerdict::kRejected;
  if (AnyIn(states, names, kCheckRetry)) return CheckVerdict::kRetry;
  const bool ready = std::all_of(names.begin(), names.end(), [&states](const std::string& name) {
    const CheckState* state = Find(states, name);
    return state != nullptr && state->state == kCheckReady;
  });
  return ready ? CheckVerdict::kReady : CheckVerdict::kPending;
}

std::string StateText(const CheckStates& states, const CheckNames& names, std::string_view state) {
  std::string list;
  int count = 0;
  ForEachIn(states, names, state, [&](const CheckState& check) {
    const std::string message = check.message.empty() ? std::string() : Cat(" (", check.message, ")");
    list += Cat(count++ == 0 ? "" : "; ", "\"", check.name, "\"", message);
  });
  return Truncated(Cat(count > 1 ? "AdmissionChecks" : "AdmissionCheck", " in ", state, " state: ", list), kTextMax);
}

std::string RetryMessage(const CheckStates& states, const CheckNames& names) {
  return Cat("Evicted due to ", StateText(states, names, kCheckRetry));
}

std::string PendingText(const CheckStates& states, const CheckNames& names) {
  std::string out;
  ForEachIn(states, names, kCheckPending, [&out](const CheckState& check) {
    if (!check.message.empty()) out += Cat(out.empty() ? "" : "; ", check.name, ": ", check.message);
  });
  return out;
}

WallTime RetryTime(const CheckStates& states, const CheckNames& names) {
  WallTime at;
  ForEachIn(states, names, kCheckRetry, [&at](const CheckState& check) {
    const int32_t seconds = check.requeue_after_seconds.value_or(0);
    if (seconds > 0) at = std::max(at, check.last_transition + std::chrono::seconds(seconds));
  });
  return at;
}

engine::Reason WaitsForChecks(const CheckStates& states, const CheckNames& names, const std::string& cluster_queue) {
  engine::Obstacle obstacle;
  obstacle.kind = engine::ObstacleKind::kChecksPending;
  obstacle.object = cluster_queue;
  for (const std::string& name : names) {
    const CheckState* state = Find(states, name);
    if (state == nullptr || state->state != kCheckReady) {
      obstacle.names.push_back(Cat(name, " (", state == nullptr ? kCheckPending : std::string_view(state->state), ")"));
    }
  }
  engine::Reason reason;
  reason.obstacles.push_back(std::move(obstacle));
  return reason;
}

absl::Status AddUpdates(const CheckStates& states, const CheckNames& names, std::string_view pod_set,
                        const TemplateView& base, Injection* wanted) {
  absl::Status status;
  ForEachIn(states, names, kCheckReady, [&](const CheckState& check) {
    for (const PodSetUpdate& update : check.updates) {
      if (update.name == pod_set && status.ok()) status = AddUpdate(check, update.view, base, wanted);
    }
  });
  return status;
}

}  // namespace muster::controller
