#include <algorithm>

#include "muster/engine/objects.h"

namespace muster::engine {

namespace {

bool IsAssigned(const Admission& admission, const std::string& flavor) {
  return std::any_of(admission.pod_sets.begin(), admission.pod_sets.end(), [&](const PodSetAssignment& pod_set) {
    return std::any_of(pod_set.flavors.begin(), pod_set.flavors.end(),
                       [&](const auto& assigned) { return assigned.second == flavor; });
  });
}

}  // namespace

std::vector<std::string> ApplicableChecks(const ClusterQueue& queue, const Admission* admission) {
  std::vector<std::string> names;
  for (const AdmissionCheckRule& rule : queue.admission_checks) {
    const bool applies = rule.on_flavors.empty() ||
                         (admission != nullptr &&
                          std::any_of(rule.on_flavors.begin(), rule.on_flavors.end(),
                                      [&](const std::string& flavor) { return IsAssigned(*admission, flavor); }));
    if (applies) names.push_back(rule.name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace muster::engine
