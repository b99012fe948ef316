// Who is moved so that a gang finds its places, and where to.
//
// A gang may have quota and no places although there is room enough: each rack, or each node, has some of it. Then
// gangs that may be moved (Workload::movable) go elsewhere for it, all of whose pods have other places: of the same
// flavors, as they were given, so that their quota goes along. What the gang gets, and where each of them goes, is
// planned together, and kept: nobody is stopped in vain, and each of them comes back.
//
// Tried are the gangs of one domain after the other, of the level that is to hold the gang or its slices (else of the
// lowest, else nodes), and of the cheapest domains together; of each of these as few gangs as will do. The cheapest of
// what was found is moved, by the number of pods that are stopped. It is no proof that nothing else would do.
//
// Nothing goes round: each move is the start of one more gang, and ends nobody else's. Whose room is lost meanwhile (a
// node fails) leaves those alone for whom it went, and those for whom these had gone (PassHost::HadToGoFor).
//
// Source: kueue#4474 and #8826 for the demand; the consolidation of other schedulers, which moves what all fits again.
// Threading: needs external synchronisation; nobody nominates meanwhile.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "assigner.h"
#include "machines.h"
#include "placement.h"
#include "state.h"

namespace muster::engine {

class PassHost;

struct MovePlan {
  struct Moved {
    WorkloadState* workload = nullptr;
    Assignment there;
    gang::Reservation machines;  // kept for it there
  };

  Assignment assignment;  // of the gang that others are moved for
  gang::Reservation machines;
  std::vector<Moved> moved;  // in the order in which they found their places
};

class MoveSearch {
 public:
  // REQUIRES: all outlive this.
  MoveSearch(const PassHost* host, Tree* tree, const Assigner* assigner, const TopologyPlacer* placer,
             const MachinePlacer* machines)
      : host_(host), tree_(tree), assigner_(assigner), placer_(placer), machines_(machines) {}

  // For all pods of the workload, which waits in `queue`, in the first of its flavors where that helps. Books are as
  // they were, but for the reservations that are returned. RETURNS: nothing where nobody is to be moved.
  std::optional<MovePlan> Find(const WorkloadState& workload, const ClusterQueueState& queue);
  // Others could be moved but for their start, which is not written yet.
  bool some_start() const { return some_start_; }

 private:
  // Who may be moved.
  struct Candidate {
    WorkloadState* workload = nullptr;
    Assignment held;  // without places
    int64_t pods = 0;
  };
  // Of candidates, by index; sorted, each once.
  using Group = std::vector<size_t>;

  std::vector<Candidate> CandidatesFor(const WorkloadState& workload);
  std::optional<MovePlan> FindIn(const WorkloadState& workload, const ClusterQueueState& queue,
                                 const Assignment& wanted);
  // By domain.
  std::vector<Group> GroupsFor(const WorkloadState& workload, const Assignment& wanted) const;
  // Each of them alone, and the first of them together, as many as it takes; each set once.
  std::vector<Group> SetsOf(std::vector<Group> groups, PlaceQuery* places);
  // Those that have to go so that it fits, of those that may; nobody where it does not.
  Group Fewest(const Group& of, PlaceQuery* places);
  bool Fits(PlaceQuery* places);
  // What comes of it if these are moved. RETURNS: nothing where some have no other places.
  std::optional<MovePlan> Plan(const WorkloadState& workload, const ClusterQueueState& queue, const Assignment& wanted,
                               const Group& moved, PlaceQuery* places);
  int64_t PodsOf(const Group& group) const;
  void Move(const Group& group, bool out, PlaceQuery* places) const;

  const PassHost* host_;
  Tree* tree_;
  const Assigner* assigner_;
  const TopologyPlacer* placer_;
  const MachinePlacer* machines_;
  std::vector<Candidate> candidates_;
  int64_t steps_left_ = 0;
  bool some_start_ = false;
};

}  // namespace muster::engine
