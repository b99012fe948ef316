// Which flavor each resource of each pod set would get, and how: the one fit query of the engine. It reads
// the tree as it is and changes nothing.
//
// Source: kueue_semantics 5.6, 5.7.
// Threading: needs external synchronisation with the tree's owner.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "muster/gang/room.h"
#include "state.h"

namespace muster::engine {

// From worst to best. All between kNoFit and kFit need somebody else to go first.
enum class Mode : uint8_t { kNoFit, kNoCandidates, kPreempt, kReclaim, kFit };

// Would evictions make room for this much in one cell? The place of preemption policies.
class VictimSearch {
 public:
  struct Answer {
    Mode mode = Mode::kNoCandidates;  // kNoCandidates, kPreempt or kReclaim
    quota::BorrowLevel level;         // once the victims are gone
  };
  virtual ~VictimSearch() = default;
  virtual Answer Simulate(const WorkloadState& workload, const ClusterQueueState& queue, quota::CellId cell,
                          Amount amount, quota::BorrowLevel level) const = 0;
};

// Nobody is ever evicted for another.
class NoVictims final : public VictimSearch {
 public:
  Answer Simulate(const WorkloadState&, const ClusterQueueState&, quota::CellId, Amount,
                  quota::BorrowLevel level) const override {
    return {Mode::kNoCandidates, level};
  }
};

struct ResourceChoice {
  ResourceId resource;
  FlavorId flavor;
  quota::CellId cell = quota::kNoCell;
  Amount amount;  // of all pods
  Mode mode = Mode::kNoFit;
};

struct PodSetChoice {
  int32_t count = 0;
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
};

class Assigner {
 public:
  Assigner(const Catalog* catalog, const quota::Ledger* ledger, const gang::Room* room, const VictimSearch* victims,
           bool ignore_undeclared)
      : catalog_(catalog), ledger_(ledger), room_(room), victims_(victims), ignore_undeclared_(ignore_undeclared) {}

  // For the whole workload; if that is impossible and its pod sets allow it, for the greatest number of pods
  // that fits. `start`: where to go on with the scan of flavors.
  Assignment Assign(const WorkloadState& workload, const ClusterQueueState& queue, const ScanProgress& start) const;

 private:
  struct Attempt;
  struct GroupChoice;

  Assignment AssignCounts(const WorkloadState& workload, const ClusterQueueState& queue,
                          const std::vector<int32_t>& counts, const ScanProgress& start) const;
  bool AssignPodSet(Attempt* attempt, size_t index) const;
  GroupChoice FindFlavor(Attempt* attempt, size_t index, size_t group,
                         const std::vector<std::pair<ResourceId, Amount>>& requests) const;
  bool FlavorSuits(Attempt* attempt, size_t index, const FlavorOption& option) const;
  GroupChoice TryFlavor(Attempt* attempt, size_t index, const GroupState& group, const FlavorOption& option,
                        const std::vector<std::pair<ResourceId, Amount>>& requests) const;
  std::pair<Mode, int32_t> FitsQuota(Attempt* attempt, size_t index, quota::CellId cell, Amount amount) const;
  bool HasRoom(Attempt* attempt, size_t index, FlavorId flavor) const;

  const Catalog* catalog_;
  const quota::Ledger* ledger_;
  const gang::Room* room_;
  const VictimSearch* victims_;
  bool ignore_undeclared_;  // resources that no group covers are nobody's concern
};

}  // namespace muster::engine
