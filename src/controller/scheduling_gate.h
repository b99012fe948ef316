// Scheduling gates of pods: which there are, and how one of them is lifted.
//
// Source: KEP-3521.
// Threading: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "json_patch.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/object.h"

namespace muster::controller {

// Where the gate stands among those of the pod; nothing where the pod does not have it.
std::optional<int64_t> FindSchedulingGate(k8s::JsonValue pod, std::string_view gate);

// Lifts the gate that was found at `index`. The API server refuses it where the pod of that name is another by now, or
// another gate has come to stand there.
void LiftSchedulingGate(const k8s::ObjectMeta& pod, int64_t index, std::string_view gate, JsonPatch* patch);

}  // namespace muster::controller
