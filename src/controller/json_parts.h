// Pieces of JSON that several writers and readers share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/controller/record.h"
#include "muster/gang/shape.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"

namespace muster::controller {

void WriteToleration(const gang::Toleration& toleration, k8s::JsonWriter* out);
void WriteTolerations(const std::vector<gang::Toleration>& tolerations, k8s::JsonWriter* out);
gang::Toleration ReadToleration(k8s::JsonValue value);
std::vector<gang::Toleration> ReadTolerations(k8s::JsonValue list);

// schedulingGates of a pod.
void WriteSchedulingGates(const std::vector<std::string>& gates, k8s::JsonWriter* out);

// schedulingStats.evictions.
void WriteEvictionCounts(const std::vector<EvictionCount>& counts, k8s::JsonWriter* out);
std::vector<EvictionCount> ReadEvictionCounts(k8s::JsonValue list);

}  // namespace muster::controller
