#include "machines.h"

#include <algorithm>
#include <utility>

#include "muster/engine/totals.h"

namespace muster::engine {

namespace {

void SortUnique(std::vector<std::string>* names) {
  std::sort(names->begin(), names->end());
  names->erase(std::unique(names->begin(), names->end()), names->end());
}

}  // namespace

gang::PodSetToSeat MachinePlacer::PodsOf(const WorkloadState& workload, const PodSetChoice& choice,
                                         size_t index) const {
  const PodSet& pod_set = workload.spec.pod_sets[index];
  gang::PodSetToSeat pods{pod_set.name, pod_set.shape, choice.count, {}, choice.topology};
  for (const ResourceChoice& resource : choice.resources) pods.flavors.push_back(catalog_->FlavorName(resource.flavor));
  SortUnique(&pods.flavors);
  return pods;
}

gang::GangToSeat MachinePlacer::PodsOf(const WorkloadState& workload, const Assignment& assignment) const {
  gang::GangToSeat gang;
  if (!room_->on()) return gang;
  for (size_t i = 0; i < assignment.pod_sets.size(); ++i) gang.push_back(PodsOf(workload, assignment.pod_sets[i], i));
  return gang;
}

gang::GangToSeat MachinePlacer::PodsOf(const WorkloadState& workload, const Admission& admission) const {
  gang::GangToSeat gang;
  if (!room_->on()) return gang;
  for (const PodSetAssignment& assigned : admission.pod_sets) {
    const auto pod_set = std::find_if(workload.spec.pod_sets.begin(), workload.spec.pod_sets.end(),
                                      [&](const PodSet& candidate) { return candidate.name == assigned.name; });
    if (pod_set == workload.spec.pod_sets.end()) continue;
    gang::PodSetToSeat pods{
        assigned.name, pod_set->shape, StillHeld(assigned, pod_set->count).first, {}, assigned.topology};
    for (const auto& [resource, flavor] : assigned.flavors) pods.flavors.push_back(flavor);
    SortUnique(&pods.flavors);
    gang.push_back(std::move(pods));
  }
  return gang;
}

std::optional<gang::Reservation> MachinePlacer::Reserve(const WorkloadState& workload,
                                                        const Assignment& assignment) const {
  const gang::GangToSeat gang = PodsOf(workload, assignment);
  if (workload.grows == nullptr) return room_->Reserve(workload.spec.uid, gang);
  return room_->ReserveMore(workload.spec.uid, gang);
}

gang::GangToSeat MachinePlacer::PodsWith(const WorkloadState& workload, const Assignment& assignment,
                                         const std::vector<size_t>& members, FlavorId flavor) const {
  gang::GangToSeat gang;
  for (size_t i = 0; i < assignment.pod_sets.size(); ++i) {
    gang::PodSetToSeat pods = PodsOf(workload, assignment.pod_sets[i], i);
    if (std::find(members.begin(), members.end(), i) != members.end()) {
      pods.flavors.push_back(catalog_->FlavorName(flavor));
      SortUnique(&pods.flavors);
    } else if (pods.flavors.empty()) {
      continue;
    }
    gang.push_back(std::move(pods));
  }
  return gang;
}

}  // namespace muster::engine
