// Topologies, nodes and the pods on them: what the books of places are told, and who is woken by it.
#include <algorithm>

#include "engine_impl.h"

namespace muster::engine {

void EngineSet::Impl::Apply(const TopologyChanged& event) {
  if (catalog_.SetTopology(event.topology)) TopologyOfFlavorsChanged(event.topology.name);
}

void EngineSet::Impl::Apply(const TopologyDeleted& event) {
  if (catalog_.RemoveTopology(event.name)) TopologyOfFlavorsChanged(event.name);
}

void EngineSet::Impl::TopologyOfFlavorsChanged(const std::string& topology) {
  for (const auto& flavor : catalog_.flavors()) {
    if (flavor == nullptr || flavor->topology_name != topology) continue;
    UpdateTopologyOf(flavor->name);
    forest_.FlavorChanged(catalog_.Flavor(flavor->name));
  }
}

void EngineSet::Impl::UpdateTopologyOf(const std::string& name) {
  const ResourceFlavor* flavor = catalog_.FindFlavor(catalog_.Flavor(name));
  const gang::Topology* topology = flavor == nullptr ? nullptr : catalog_.FindTopology(flavor->topology_name);
  const bool has = topology != nullptr && !topology->levels.empty();
  const bool had = topologies_.FindFlavor(name) != nullptr;
  const bool changed = has ? topologies_.SetFlavor(name, {*topology, flavor->node_labels, flavor->tolerations})
                           : topologies_.RemoveFlavor(name);
  if (!changed || had == has) return;
  // Of several flavors of a pod set, the one with a topology is where its places are.
  for (const auto& [queue_name, queue] : forest_.queues()) {
    for (WorkloadState* holder : queue->holders) {
      forest_.SetPlaces(holder, placer_.PlacesOf(*holder, holder->claim->admission));
    }
  }
}

void EngineSet::Impl::Apply(const NodeChanged& event) {
  machines_.SetNode(event.node);
  if (topologies_.SetNode(event.node)) GainedOnNode(event.node.name);
  forest_.MachinesLost();  // perhaps
}

// Others may have more room where nodes overlap, but never more than they had.
void EngineSet::Impl::Apply(const NodeDeleted& event) {
  machines_.RemoveNode(event.name);
  topologies_.RemoveNode(event.name);
  forest_.MachinesLost();
}

// Where the pods of a claim go in topologies was counted when it was made.
bool EngineSet::Impl::IsCountedByClaim(const PodPlaced& pod) const {
  const auto it = workloads_.find(pod.workload);
  if (it == workloads_.end() || it->second->claim == nullptr) return false;
  const std::vector<PodSetAssignment>& pod_sets = it->second->claim->admission.pod_sets;
  return std::any_of(pod_sets.begin(), pod_sets.end(), [&pod](const PodSetAssignment& assigned) {
    return assigned.name == pod.pod_set && assigned.topology.has_value();
  });
}

void EngineSet::Impl::Apply(const PodPlaced& event) {
  machines_.SetPod(event.key, {event.node, event.requests, event.workload, event.pod_set});
  if (IsCountedByClaim(event)) return ForgetStranger(event.key);
  const std::string* known = topologies_.NodeOfPod(event.key);
  const std::string before = known == nullptr ? std::string() : *known;
  if (!topologies_.SetPod(event.key, event.node, event.requests)) return;
  if (!before.empty()) GainedOnNode(before);
}

void EngineSet::Impl::Apply(const PodGone& event) {
  machines_.RemovePod(event.key);
  ForgetStranger(event.key);
}

void EngineSet::Impl::ForgetStranger(const std::string& key) {
  const std::string* known = topologies_.NodeOfPod(key);
  if (known == nullptr) return;
  const std::string node = *known;
  topologies_.RemovePod(key);
  GainedOnNode(node);
}

void EngineSet::Impl::GainedOnNode(std::string_view node) {
  for (const std::string& flavor : topologies_.FlavorsOfNode(node)) forest_.FlavorGained(catalog_.Flavor(flavor));
}

// The nodes are everybody's: trees that share nothing else may gain by it.
void EngineSet::Impl::GainedPlaces(const std::vector<gang::PlacedPodSet>& places) {
  for (const gang::PlacedPodSet& place : places) {
    for (const std::string& flavor : topologies_.Overlapping(place.flavor)) {
      forest_.FlavorGained(catalog_.Flavor(flavor));
    }
  }
}

// ---- nodes that fail under gangs -----------------------------------------------------------------

std::vector<HolderOnNode> EngineSet::Impl::HoldersOn(std::string_view hostname) const {
  std::vector<HolderOnNode> out;
  const auto* holders = forest_.HoldersOn(hostname);
  if (holders == nullptr) return out;
  const gang::Node* node = topologies_.FindNode(hostname);
  for (const WorkloadState* holder : *holders) {
    HolderOnNode& on_node = out.emplace_back();
    on_node.uid = holder->spec.uid;
    on_node.claim = holder->claim->id;
    on_node.gone = node == nullptr;
    if (node == nullptr) continue;
    on_node.unfit = !node->ready || node->unschedulable;
    for (const gang::PlacedPodSet& place : holder->claim->places) {
      const gang::FlavorNodes* flavor = topologies_.FindFlavor(place.flavor);
      const bool here =
          std::any_of(place.assignment.domains.begin(), place.assignment.domains.end(),
                      [&](const gang::TopologyDomain& domain) { return domain.values.back() == hostname; });
      if (!here || flavor == nullptr) continue;
      const gang::Taint* taint = gang::FirstUntolerated(node->taints, place.shape->tolerations, flavor->tolerations);
      on_node.unfit = on_node.unfit || taint != nullptr;
    }
  }
  return out;
}

void EngineSet::Impl::Apply(const PlaceFailed& event) {
  WorkloadState* workload = FindHolder(event.uid, event.claim);
  const auto* holders = forest_.HoldersOn(event.hostname);
  if (workload == nullptr || holders == nullptr || !holders->contains(workload)) return;
  workload->claim->failed_hosts.insert(event.hostname);
  replacements_due_.insert(workload);
}

void EngineSet::Impl::ReplacePlaces(std::vector<Decision>* decisions) {
  for (WorkloadState* workload : std::vector<WorkloadState*>(replacements_due_.begin(), replacements_due_.end())) {
    Claim* claim = workload->claim.get();
    if (claim->state == ClaimState::kPlanned) continue;  // once there is something to change
    replacements_due_.erase(workload);
    if (claim->leaving || claim->irreplaceable) continue;
    const std::string& host = *claim->failed_hosts.begin();
    std::optional<Admission> other;
    if (claim->failed_hosts.size() == 1) other = placer_.Replaced(*workload, claim->admission, host);
    if (!other.has_value()) {
      claim->irreplaceable = true;
      CheckEviction(workload);
      continue;
    }
    decisions->push_back(Replace{workload->spec.uid, claim->id, *other, host});
    claim->admission = *std::move(other);
    claim->failed_hosts.clear();
    const std::vector<gang::PlacedPodSet> before = claim->places;
    forest_.SetPlaces(workload, placer_.PlacesOf(*workload, claim->admission));
    GainedPlaces(before);
    // The machines are to be those of the new places; bound pods keep what they have.
    claim->machines.ReleaseQuietly();
    claim->machines = machines_.Adopt(workload->spec.uid, machine_placer_.PodsOf(*workload, claim->admission));
    SetLackingSince(workload, {});
    lacking_unsure_.insert(workload->spec.uid);
  }
}

void EngineSet::Impl::NoteNeededPods(WorkloadState* workload) {
  std::vector<std::pair<std::string, int64_t>> needed;
  for (const gang::PodSetToSeat& pods : machine_placer_.PodsOf(*workload, workload->claim->admission)) {
    needed.emplace_back(pods.name, pods.count);
  }
  workload->claim->machines.SetNeeded(needed);
  FollowPodsToCome(workload);
}

void EngineSet::Impl::WakeByMachines() {
  for (const std::string& flavor : machines_.TakeGained()) forest_.MachinesGained(catalog_.Flavor(flavor));
}

void EngineSet::Impl::ValidatePlaces() const {
  std::vector<gang::PlacedPodSet> actual;
  std::vector<gang::PlacedPodSet> planned;
  const auto add = [](const std::vector<gang::PlacedPodSet>& places, std::vector<gang::PlacedPodSet>* to) {
    to->insert(to->end(), places.begin(), places.end());
  };
  for (const auto& [uid, workload] : workloads_) {
    if (workload->room != nullptr) add(workload->room->places, &planned);
    if (workload->claim == nullptr) continue;
    add(workload->claim->places, &actual);
    if (!workload->claim->leaving) add(workload->claim->places, &planned);
    if (workload->claim->onward != nullptr) add(workload->claim->onward->places, &planned);
  }
  topologies_.Validate(actual, gang::PlaceBook::kActual);
  topologies_.Validate(planned, gang::PlaceBook::kPlanned);
}

}  // namespace muster::engine
