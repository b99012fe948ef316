#include "scheduling_gate.h"

#include <string>

#include "text.h"

namespace muster::controller {

std::optional<int64_t> FindSchedulingGate(k8s::JsonValue pod, std::string_view gate) {
  std::optional<int64_t> found;
  int64_t index = 0;
  pod["spec"]["schedulingGates"].ForEach([&](k8s::JsonValue candidate) {
    if (candidate["name"].String() == gate) found = index;
    ++index;
  });
  return found;
}

void LiftSchedulingGate(const k8s::ObjectMeta& pod, int64_t index, std::string_view gate, JsonPatch* patch) {
  const std::string path = Cat("/spec/schedulingGates/", index);
  patch->TestText("/metadata/uid", pod.uid).TestText(path + "/name", gate).Remove(path);
}

}  // namespace muster::controller
