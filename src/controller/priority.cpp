#include "muster/controller/priority.h"

#include "muster/controller/names.h"
#include "muster/k8s_client/json_reader.h"
#include "text.h"

namespace muster::controller {
namespace {

constexpr std::string_view kWorkloadGroup = "kueue.x-k8s.io";
constexpr std::string_view kPodGroup = "scheduling.k8s.io";

Priority FromPodClass(const PriorityClass& from) {
  return {from.value, PriorityClassRef{std::string(kPodGroup), "PriorityClass", from.meta.name}};
}

}  // namespace

const PriorityClass* GlobalDefault(const PriorityClasses& pod_classes) {
  const PriorityClass* out = nullptr;
  for (const auto& [name, candidate] : pod_classes) {
    if (candidate.global_default && (out == nullptr || candidate.value < out->value)) out = &candidate;
  }
  return out;
}

absl::StatusOr<PriorityClass> DecodePriorityClass(std::string_view json) {
  k8s::JsonDocument document(json);
  PriorityClass out;
  out.meta = k8s::DecodeMeta(document.root());
  out.value = document.root()["value"].Int32();
  out.global_default = document.root()["globalDefault"].Bool();
  if (const absl::Status s = document.Finish(Cat("priority class ", out.meta.name)); !s.ok()) return s;
  return out;
}

absl::StatusOr<Priority> ResolvePriority(const Job& job, const PriorityClasses& workload_classes,
                                         const PriorityClasses& pod_classes) {
  if (const std::string_view name = job.Label(kPriorityClassLabel); !name.empty()) {
    const auto it = workload_classes.find(name);
    if (it == workload_classes.end()) {
      return absl::NotFoundError(Cat("WorkloadPriorityClass \"", name, "\" not found"));
    }
    return Priority{it->second.value, PriorityClassRef{std::string(kWorkloadGroup), std::string(kWorkloadPriorityClass),
                                                       std::string(name)}};
  }
  if (!job.pod.priority_class_name.empty()) {
    const auto it = pod_classes.find(job.pod.priority_class_name);
    return it == pod_classes.end() ? Priority{} : FromPodClass(it->second);
  }
  const PriorityClass* global = GlobalDefault(pod_classes);
  return global == nullptr ? Priority{} : FromPodClass(*global);
}

}  // namespace muster::controller
