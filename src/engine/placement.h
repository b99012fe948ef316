// Where the pods of an assignment go in the topologies of its flavors.
//
// Source: kueue_semantics 9.9.1, 9.9.2, 9.9.4.
// Threading: needs external synchronisation with the owner of the topology book.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "assigner.h"
#include "catalog.h"
#include "machines.h"
#include "muster/gang/topology_book.h"
#include "state.h"

namespace muster::engine {

class TopologyPlacer {
 public:
  TopologyPlacer(const Catalog* catalog, gang::TopologyBook* book) : catalog_(catalog), book_(book) {}

  // Why the pod set may not have the flavor for the resources of the group, as far as topology goes; nothing: it may.
  std::optional<Obstacle> WhyNotFlavor(const WorkloadState& workload, const ClusterQueueState& queue, size_t pod_set,
                                       const ResourceFlavor& flavor, const GroupState& group) const;

  // Finds a place for each pod set that is to have one.
  // RETURNS: whether all have one; if not, what is in the way is among the obstacles.
  bool Place(const WorkloadState& workload, const ClusterQueueState& queue, gang::PlaceView view,
             Assignment* assignment) const;
  // The pod set is to have a place.
  bool AsksForTopology(const ClusterQueueState& queue, const PodSet& pod_set) const;

  // Null where it has no topology that is known.
  const gang::FlavorNodes* FlavorNodesOf(FlavorId flavor) const;

  // Whether the places that were found are still free, all together.
  bool StillFits(const WorkloadState& workload, const Assignment& assignment, gang::PlaceView view) const;

  // The places of an assignment, and those of an admission.
  std::vector<gang::PlacedPodSet> PlacesOf(const WorkloadState& workload, const Assignment& assignment) const;
  std::vector<gang::PlacedPodSet> PlacesOf(const WorkloadState& workload, const Admission& admission) const;

  // The admission with other places for the pods that it has on the node of that hostname, or without places there
  // that no pod needs any more; nothing where there are none.
  std::optional<Admission> Replaced(const WorkloadState& workload, const Admission& admission,
                                    std::string_view hostname) const;

  gang::TopologyBook* book() const { return book_; }

 private:
  bool IsTopologyOnly(const ClusterQueueState& queue) const;
  // The one flavor with a topology that the members' resources have.
  std::optional<gang::PlacementProblem> FlavorOf(const std::vector<size_t>& members, const Assignment& assignment,
                                                 FlavorId* flavor) const;

  const Catalog* catalog_;
  gang::TopologyBook* book_;
};

// For the search for victims: would the assignment have places, in topologies and on machines, with what is planned?
class PlacesOfAssignment final : public PlaceQuery {
 public:
  PlacesOfAssignment(const TopologyPlacer* placer, const MachinePlacer* machines, const WorkloadState* workload,
                     const ClusterQueueState* queue, const Assignment& assignment)
      : placer_(placer),
        machines_(machines),
        workload_(workload),
        queue_(queue),
        attempt_(assignment),
        topology_(assignment.HasTopology()) {}

  void Move(const WorkloadState& claim, bool out) override;
  bool Fits() override;

 private:
  const TopologyPlacer* placer_;
  const MachinePlacer* machines_;
  const WorkloadState* workload_;
  const ClusterQueueState* queue_;
  Assignment attempt_;
  bool topology_;
};

// Places taken out of the planned book, for the length of a scope.
class WithoutPlaces {
 public:
  explicit WithoutPlaces(gang::TopologyBook* book) : book_(book) {}
  ~WithoutPlaces() {
    for (const gang::PlacedPodSet& place : out_) book_->Take(place, gang::PlaceBook::kPlanned);
  }
  WithoutPlaces(const WithoutPlaces&) = delete;
  WithoutPlaces& operator=(const WithoutPlaces&) = delete;

  void Remove(const std::vector<gang::PlacedPodSet>& places) {
    for (const gang::PlacedPodSet& place : places) book_->Release(place, gang::PlaceBook::kPlanned);
    out_.insert(out_.end(), places.begin(), places.end());
  }

 private:
  gang::TopologyBook* book_;
  std::vector<gang::PlacedPodSet> out_;
};

// Pod sets by group, in order; one that is in no group is one of its own. Those of a group get the same flavors.
std::vector<std::vector<size_t>> PodSetGroups(const Workload& workload);

}  // namespace muster::engine
