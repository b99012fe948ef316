// Which flavor each resource of each pod set would get, and how: the one fit query of the engine. It reads
// the tree as it is and changes nothing.
//
// Source: kueue_semantics 5.6, 5.7.
// Threading: needs external synchronisation with the tree's owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "muster/gang/machine_room.h"
#include "state.h"
#include "victims.h"

namespace muster::engine {

struct ResourceChoice {
  ResourceId resource;
  FlavorId flavor;
  quota::CellId cell = quota::kNoCell;
  Amount amount;  // of all pods
  Mode mode = Mode::kNoFit;
};

struct PodSetChoice {
  int32_t count = 0;
  std::optional<gang::TopologyAssignment> topology{};
  FlavorId topology_flavor{};  // while that is there
  std::vector<ResourceChoice> resources;
};

struct Assignment {
  Mode mode = Mode::kFit;  // the worst of all
  int32_t borrow = 0;      // the highest of all
  std::vector<PodSetChoice> pod_sets;
  std::vector<std::pair<quota::CellId, Amount>> usage;  // each cell once
  ScanProgress scan;
  ReasonCode code = ReasonCode::kPendingEvaluation;  // unless it fits
  std::vector<Obstacle> obstacles;
  bool without_places = false;        // there is quota, perhaps once others have gone, and no place
  bool refused_by_namespace = false;  // a ResourceQuota of its namespace would not let all pods in
  bool on_machines = false;           // some pod set is to have places on machines that are known
  // Between kNoFit and kFit: who has to go.
  VictimAnswer preemption;

  // Some pod set has a place, or would have one if nothing was taken.
  bool HasPlaces() const { return on_machines || HasTopology(); }
  bool HasTopology() const {
    return std::any_of(pod_sets.begin(), pod_sets.end(),
                       [](const PodSetChoice& choice) { return choice.topology.has_value(); });
  }
  // It fits, or can be made to by evictions.
  bool IsPossible() const { return mode == Mode::kFit || preemption.Found(); }
  bool NeedsOthersToGo() const { return mode != Mode::kNoFit && mode != Mode::kFit; }
};

class MachinePlacer;
class TopologyPlacer;

class Assigner {
 public:
  Assigner(const Catalog* catalog, const quota::Ledger* ledger, const VictimSearch* victims,
           const TopologyPlacer* placer, const MachinePlacer* machines, const NamespaceAsker* namespaces,
           bool ignore_undeclared)
      : catalog_(catalog),
        ledger_(ledger),
        victims_(victims),
        placer_(placer),
        machines_(machines),
        namespaces_(namespaces),
        ignore_undeclared_(ignore_undeclared) {}

  // For the whole workload; if that is impossible and its pod sets allow it, for the greatest number of pods
  // that fits, or can be made to by evictions. `start`: where to go on with the scan of flavors.
  Assignment Assign(const WorkloadState& workload, const ClusterQueueState& queue, const ScanProgress& start) const;
  // As if no gang were on any machine, nor in any topology.
  Assignment AssignOnEmptyMachines(const WorkloadState& workload, const ClusterQueueState& queue,
                                   const ScanProgress& start = {}) const;
  // What its claim holds, without places. RETURNS: nothing where its pod sets or flavors are others by now.
  std::optional<Assignment> AssignmentOf(const WorkloadState& holder) const;
  // Anew, with the flavors of `chosen`.
  Assignment AssignAgain(const WorkloadState& workload, const ClusterQueueState& queue, const Assignment& chosen) const;
  // Anew, with the counts and the flavors of `chosen`.
  Assignment Reassign(const WorkloadState& workload, const ClusterQueueState& queue, const Assignment& chosen) const;

 private:
  struct Attempt;
  struct GroupChoice;

  Assignment AssignMost(const WorkloadState& workload, const ClusterQueueState& queue, const ScanProgress& start,
                        const Assignment* chosen) const;
  Assignment AssignCounts(const WorkloadState& workload, const ClusterQueueState& queue,
                          const std::vector<int32_t>& counts, const ScanProgress& start,
                          const Assignment* chosen = nullptr, bool empty_machines = false) const;
  void FindVictims(const WorkloadState& workload, const ClusterQueueState& queue, Assignment* assignment) const;
  // Those of one group together; they get the same flavors.
  bool AssignPodSets(Attempt* attempt, const std::vector<size_t>& members) const;
  GroupChoice FindFlavor(Attempt* attempt, const std::vector<size_t>& members, size_t group,
                         const std::vector<std::pair<ResourceId, Amount>>& requests) const;
  bool IsOfOriginal(Attempt* attempt, size_t index, const GroupState& group, const std::string& flavor) const;
  // Of the group's flavors; empty: none is.
  std::vector<bool> PassedOver(Attempt* attempt, const std::vector<size_t>& members, const GroupState& group) const;
  bool CouldHave(Attempt* attempt, const std::vector<size_t>& members, const GroupState& group,
                 const FlavorOption& option) const;
  bool FlavorSuits(Attempt* attempt, size_t index, const GroupState& group, const FlavorOption& option) const;
  void PlaceInTopologies(Attempt* attempt) const;
  // RETURNS: whether machines alone are in the way.
  bool PlaceOnMachines(Attempt* attempt) const;
  GroupChoice TryFlavor(Attempt* attempt, const std::vector<size_t>& members, const GroupState& group,
                        const FlavorOption& option, const std::vector<std::pair<ResourceId, Amount>>& requests) const;
  std::pair<Mode, int32_t> FitsQuota(Attempt* attempt, size_t index, quota::CellId cell, Amount amount) const;
  // What is left of the mode that quota allows, in view of the flavor's machines.
  Mode ModeOnMachines(Attempt* attempt, const std::vector<size_t>& members, const FlavorOption& option,
                      const GroupChoice& choice, Mode mode) const;
  Mode ModeByEviction(Attempt* attempt, const GroupChoice& choice, gang::GangToSeat gang) const;

  const Catalog* catalog_;
  const quota::Ledger* ledger_;
  const VictimSearch* victims_;
  const TopologyPlacer* placer_;
  const MachinePlacer* machines_;
  const NamespaceAsker* namespaces_;
  bool ignore_undeclared_;  // resources that no group covers are nobody's concern
};

}  // namespace muster::engine
