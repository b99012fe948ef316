// Admission fair sharing: what the LocalQueues of a ClusterQueue have consumed, and who of them goes first.
//
// A LocalQueue's consumption follows its usage with a half-life: after one half-life it is half way between what it
// was and what is in use. It is brought up to date every sampling interval, and when a workload is admitted. A
// workload that is admitted adds what it would have added in one interval at once, so that a burst of workloads is
// not admitted from one queue before anything was sampled: as a penalty until its admission is written, and as
// consumption from then on.
//
// Source: kueue_semantics 9.12.
// Threading: owned by the EngineSet.
#pragma once

#include <absl/container/btree_set.h>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "catalog.h"
#include "decay.h"
#include "muster/engine/fair_sharing.h"
#include "muster/queue/consumed_share.h"
#include "state.h"

namespace muster::engine {

class AdmissionShares {
 public:
  // REQUIRES: the catalog outlives it.
  AdmissionShares(const AdmissionFairSharing& config, Catalog* catalog);

  // Begins with what `spec.consumed` has, or forgets everything. REQUIRES: it is a change.
  void Track(LocalQueueState* queue);
  void Untrack(LocalQueueState* queue);

  // Brings those up to date whose time has come. RETURNS: which; sorted by namespace and name.
  std::vector<LocalQueueState*> SampleDue(WallTime now);
  // When the next one is due; unset: none has anything to follow.
  WallTime NextDue() const;

  // Something is in use in it from now on. REQUIRES: tracked.
  void Follow(LocalQueueState* queue, WallTime now);
  // The workload is being admitted, or more pods of it, with this usage; to be called before that counts.
  void Enter(WorkloadState* workload, const std::vector<std::pair<FlavorResource, Amount>>& usage, WallTime now);
  // That is written.
  void Settle(WorkloadState* workload);
  // It is gone, and if its admission was not written, as if it had never been.
  void Leave(WorkloadState* workload);

  // REQUIRES: tracked.
  queue::ConsumedShare ShareOf(const LocalQueueState& queue) const;
  LocalQueueConsumption ViewOf(const LocalQueueState& queue) const;

  void Validate(const LocalQueueState& queue) const;

 private:
  struct ByDue {
    bool operator()(const LocalQueueState* a, const LocalQueueState* b) const;
  };

  void Sample(LocalQueueState* queue, WallTime now);
  void SetDue(LocalQueueState* queue, WallTime due);
  uint64_t WeightOf(ResourceId resource) const;

  Catalog* catalog_;
  Decay decay_;
  Duration interval_;
  std::vector<std::pair<ResourceId, int64_t>> weights_;
  absl::btree_set<LocalQueueState*, ByDue> due_;
};

}  // namespace muster::engine
