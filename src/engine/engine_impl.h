// The state behind EngineSet: workloads and LocalQueues, and the ways between them and the trees.
//
// Threading: owned by the EngineSet.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assigner.h"
#include "catalog.h"
#include "forest.h"
#include "muster/core/string_map.h"
#include "muster/engine/engine.h"
#include "state.h"
#include "tree_pass.h"

namespace muster::engine {

class EngineSet::Impl final : private PassHost {
 public:
  Impl(EngineOptions options, const gang::Room* room);

  void Apply(const FlavorChanged& event);
  void Apply(const FlavorDeleted& event);
  void Apply(const CohortChanged& event);
  void Apply(const CohortDeleted& event);
  void Apply(const ClusterQueueChanged& event);
  void Apply(const ClusterQueueDeleted& event);
  void Apply(const LocalQueueChanged& event);
  void Apply(const LocalQueueDeleted& event);
  void Apply(const NamespaceChanged& event);
  void Apply(const NamespaceDeleted& event);
  void Apply(const WorkloadChanged& event);
  void Apply(const WorkloadDeleted& event);
  void Apply(const ClaimWritten& event);
  void Apply(const ClaimRefused& event);
  void Apply(const ClaimActive& event);
  void Apply(const ClaimLeaving& event);
  void Apply(const ClaimGone& event);
  // To be called after each event.
  void AfterEvent();

  PassResult RunPass(WallTime now);
  std::vector<Decision> Decide(WallTime now);
  WallTime NextDue() const { return forest_.NextDue(); }

  ClusterQueueView ViewClusterQueue(const std::string& name) const;
  LocalQueueView ViewLocalQueue(const std::string& ns, const std::string& name) const;
  std::vector<std::string> ClusterQueueNames() const;
  std::vector<CohortView> ViewCohorts() const;
  std::vector<std::string> CohortNames() const;
  std::vector<std::pair<std::string, std::string>> LocalQueueNames() const;
  std::optional<WorkloadView> ViewWorkload(const std::string& uid) const;
  PendingView ViewPending(const std::string& cluster_queue) const;
  WaitCounts WaitingWithoutLocalQueue() const;
  std::vector<std::string> CohortsOf(const std::string& cluster_queue) const;
  ChangedQueues TakeChangedQueues();
  int64_t unwritten_claims() const { return unwritten_claims_; }
  uint64_t StateHash() const;
  void Validate() const;

 private:
  using LocalQueueKey = std::pair<std::string, std::string>;
  struct ByUid {
    bool operator()(const WorkloadState* a, const WorkloadState* b) const { return a->spec.uid < b->spec.uid; }
  };

  // PassHost
  WorkloadState* OfTicket(const queue::Ticket* ticket) override;
  bool NamespaceMatches(const ClusterQueueState& queue, const WorkloadState& workload) override;
  bool LaneMatches(const ClusterQueueState& queue, uint32_t lane) override;
  void OnAdmit(WorkloadState* workload, ClusterQueueState* queue, const Assignment& assignment) override;
  void SetReason(WorkloadState* workload, std::shared_ptr<const Reason> reason) override;

  WorkloadState* FindWorkload(std::string_view uid) const;
  // The workload, if `claim` is the one it holds; else null: the event is late.
  WorkloadState* FindHolder(std::string_view uid, ClaimId claim) const;

  // ---- LocalQueues (routing.cpp)
  LocalQueueState* GetLocalQueue(const std::string& ns, const std::string& name);
  LocalQueueState* FindLocalQueue(const std::string& ns, const std::string& name) const;
  void DropIfUnused(LocalQueueState* queue);
  void PointTo(LocalQueueState* queue, std::string_view cluster_queue);
  void Join(WorkloadState* workload, LocalQueueState* queue);
  void Leave(WorkloadState* workload);
  void CountInLocalQueue(WorkloadState* workload, int sign);
  void MarkChanged(const LocalQueueState& queue);
  // What a workload is to be counted for; unset where it does not wait.
  static std::optional<std::pair<ReasonCode, WaitCode>> WaitsFor(const WorkloadState& workload);
  // To be called whenever that may have changed.
  static void CountWaiting(WorkloadState* workload);
  static void SetCounted(WorkloadState* workload, std::optional<std::pair<ReasonCode, WaitCode>> counted);

  // ---- waiting (routing.cpp)
  // Puts the workload where it belongs now: into a queue, or nowhere with a reason why.
  void Route(WorkloadState* workload);
  void RouteAll(LocalQueueState* queue);
  void Enqueue(WorkloadState* workload, ClusterQueueState* queue);
  void Unqueue(WorkloadState* workload);
  void CountPending(const WorkloadState& workload, ClusterQueueState* queue, int sign);
  void GiveQueueReason(WorkloadState* workload, ClusterQueueState* queue);
  std::shared_ptr<const Reason> ReasonOfParked(const ClusterQueueState& queue, const WorkloadState& workload) const;
  bool NamespaceMatches(const ClusterQueueState& queue, const std::string& ns) const;
  // What a workload that leaves makes possible for others.
  void WakeAfter(const WorkloadState& workload);
  // After a change of active queues.
  void UpdateReasonsOfQueues();
  void DrainTouchedLanes(ClusterQueueState* queue);

  // ---- claims (claims.cpp)
  static bool MayAdopt(const WorkloadState& workload, const Workload& spec);
  void AdoptHeld(WorkloadState* workload, const HeldClaim& held);
  void DropClaim(WorkloadState* workload);
  void UpdateClaimUsage(WorkloadState* workload);
  // What of the admission is held while so many pods are needed as `spec` says.
  std::vector<std::pair<FlavorResource, Amount>> UsageOf(const Workload& spec, const Admission& admission);
  void SetClaimState(WorkloadState* workload, ClaimState state);
  std::optional<EvictionReason> EvictionDue(const WorkloadState& workload) const;
  void CheckEviction(WorkloadState* workload);
  void CheckEvictions(ClusterQueueState* queue);
  void CheckEvictions(LocalQueueState* queue);
  Admission MakeAdmission(const WorkloadState& workload, const ClusterQueueState& queue,
                          const Assignment& assignment) const;

  // ---- passes (engine_set.cpp)
  // One pass without the Holds.
  PassResult RunOnePass(WallTime now);
  void TakeHolds(std::vector<Decision>* decisions);
  void IssueEvictions(std::vector<Decision>* decisions);
  bool AtClaimLimit() const { return unwritten_claims_ >= options_.unwritten_claims_max; }

  std::vector<FlavorUsage> UsageView(const ClusterQueueState& queue, const LocalQueueState* local) const;
  Reason LiveReason(const WorkloadState& workload) const;
  // Those whose claims are in the way of the obstacle, the newest first.
  std::vector<Blocker> HoldersOf(const WorkloadState& workload, const Obstacle& obstacle) const;
  using Sums = absl::flat_hash_map<FlavorResource, quota::ExactSum>;
  std::vector<CohortQuota> QuotasOf(const CohortState& cohort, const Sums& reserved) const;

  // ---- checks (integrity.cpp)
  void ValidateWorkload(const WorkloadState& workload) const;
  void ValidateLocalQueue(const LocalQueueState& queue) const;
  void ValidatePending(const ClusterQueueState& queue) const;

  EngineOptions options_;
  const gang::Room* room_;
  Catalog catalog_;
  Forest forest_{&catalog_};
  NoVictims victims_;
  StringMap<std::unique_ptr<WorkloadState>> workloads_;
  absl::btree_map<LocalQueueKey, std::unique_ptr<LocalQueueState>> local_queues_;
  std::vector<LocalQueueState*> lanes_;
  std::vector<uint32_t> free_lanes_;
  absl::btree_set<WorkloadState*, ByUid> evictions_due_;
  absl::btree_set<WorkloadState*, ByUid> reasons_changed_;
  std::vector<const LocalQueueState*> changed_local_queues_;  // in no order
  std::vector<LocalQueueKey> changed_local_queues_gone_;      // of them, those that are gone
  std::vector<Decision>* decisions_ = nullptr;  // of the pass under way
  WallTime now_;
  uint64_t pass_ = 0;
  uint64_t sequence_ = 0;
  int64_t unwritten_claims_ = 0;
};

}  // namespace muster::engine
