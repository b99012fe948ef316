#include "muster/controller/preemption_gates.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace muster::controller {
namespace {

constexpr std::string_view kOpen = "Open";
constexpr std::string_view kClosed = "Closed";

}  // namespace

std::vector<std::string> ReadGateNames(k8s::JsonValue list) {
  std::vector<std::string> out;
  list.ForEach([&out](k8s::JsonValue item) { out.push_back(item["name"].String()); });
  return out;
}

PreemptionGates ReadPreemptionGates(k8s::JsonValue list) {
  PreemptionGates out;
  list.ForEach([&out](k8s::JsonValue item) {
    out.push_back({item["name"].String(), item["position"].String() == kOpen, item["lastTransitionTime"].Time()});
  });
  return out;
}

void WritePreemptionGates(const PreemptionGates& gates, k8s::JsonWriter* out) {
  out->StartArray();
  for (const PreemptionGate& gate : gates) {
    out->StartObject().Field("name", gate.name).Field("position", gate.open ? kOpen : kClosed);
    out->Field("lastTransitionTime", FormatTime(gate.last_transition)).EndObject();
  }
  out->EndArray();
}

std::vector<std::string> ClosedGates(const std::vector<std::string>& names, const PreemptionGates& gates) {
  std::vector<std::string> closed;
  for (const std::string& name : names) {
    const bool open = std::any_of(gates.begin(), gates.end(),
                                  [&name](const PreemptionGate& gate) { return gate.name == name && gate.open; });
    if (!open) closed.push_back(name);
  }
  std::sort(closed.begin(), closed.end());
  return closed;
}

PreemptionGates CloseAll(PreemptionGates gates, WallTime now) {
  for (PreemptionGate& gate : gates) {
    if (std::exchange(gate.open, false)) gate.last_transition = now;
  }
  return gates;
}

}  // namespace muster::controller
