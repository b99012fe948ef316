// The state behind EngineSet: workloads and LocalQueues, and the ways between them and the trees.
//
// Threading: owned by the EngineSet.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "admission_shares.h"
#include "assigner.h"
#include "catalog.h"
#include "deciders.h"
#include "forest.h"
#include "machines.h"
#include "muster/core/string_map.h"
#include "muster/engine/engine.h"
#include "placement.h"
#include "state.h"
#include "tree_pass.h"

namespace muster::engine {

struct QuotaOnMachines;
struct TreeRun;
using TreeRuns = std::vector<std::unique_ptr<TreeRun>>;

class EngineSet::Impl final : private PassHost {
 public:
  explicit Impl(EngineOptions options);

  void BeginTurn() { forest_.BeginTurn(); }
  void Apply(const FlavorChanged& event);
  void Apply(const FlavorDeleted& event);
  void Apply(const CohortChanged& event);
  void Apply(const CohortDeleted& event);
  void Apply(const AdmissionCheckChanged& event);
  void Apply(const AdmissionCheckDeleted& event);
  void Apply(const ClusterQueueChanged& event);
  void Apply(const ClusterQueueDeleted& event);
  void Apply(const LocalQueueChanged& event);
  void Apply(const LocalQueueDeleted& event);
  void Apply(const NamespaceChanged& event);
  void Apply(const NamespaceDeleted& event);
  void Apply(const TopologyChanged& event);
  void Apply(const TopologyDeleted& event);
  void Apply(const NodeChanged& event);
  void Apply(const NodeDeleted& event);
  void Apply(const PodPlaced& event);
  void Apply(const PodGone& event);
  void Apply(const NamespaceQuotaChanged& event) { namespace_quotas_.Set(event.quota); }
  void Apply(const NamespaceQuotaDeleted& event) { namespace_quotas_.Remove(event.ns, event.name); }
  void Apply(const PodsCounted& event);
  void Apply(const WorkloadChanged& event);
  void Apply(const WorkloadDeleted& event);
  void Apply(const ClaimWritten& event);
  void Apply(const ClaimAdmitted& event);
  void Apply(const ClaimRefused& event);
  void Apply(const ClaimActive& event);
  void Apply(const GrowthWritten& event);
  void Apply(const GrowthRefused& event);
  void Apply(const PlaceFailed& event);
  void Apply(const ClaimPodsReady& event);
  void Apply(const ClaimLeaving& event);
  void Apply(const ClaimGone& event);
  void Apply(const EvictionRefused& event);
  // To be called after each event.
  void AfterEvent();

  PassResult RunPass(WallTime now);
  std::vector<Decision> Decide(WallTime now);
  WallTime NextDue() const;

  ClusterQueueView ViewClusterQueue(const std::string& name) const;
  LocalQueueView ViewLocalQueue(const std::string& ns, const std::string& name) const;
  std::vector<std::string> ClusterQueueNames() const;
  std::vector<CohortView> ViewCohorts() const;
  CohortView ViewCohort(const std::string& name) const;
  std::vector<std::string> CohortNames() const;
  std::vector<std::pair<std::string, std::string>> LocalQueueNames() const;
  std::optional<WorkloadView> ViewWorkload(const std::string& uid) const;
  PendingView ViewPending(const std::string& cluster_queue) const;
  WaitCounts WaitingWithoutLocalQueue() const;
  std::vector<std::string> CohortsOf(const std::string& cluster_queue) const;
  ChangedQueues TakeChangedQueues();
  std::vector<TargetRecomputations> TakeTargetRecomputations();
  int64_t unwritten_claims() const { return unwritten_claims_; }
  gang::RoomCounts MachineCounts() const { return machines_.counts(); }
  std::vector<FlavorRoomView> ViewFlavorRoom() const;
  std::shared_ptr<const std::vector<UnservedQuota>> UnservedQuotas() const;
  std::vector<FitFailures> ViewFitFailures() const;
  std::vector<HolderOnNode> HoldersOn(std::string_view hostname) const;
  std::vector<std::string> HostsWithPlaces() const { return forest_.HostsWithPlaces(); }
  uint64_t StateHash() const;
  void Validate() const;

 private:
  using LocalQueueKey = std::pair<std::string, std::string>;
  // Those that may not be told yet come last. REQUIRES: all hold claims.
  struct ByEvictionTime {
    static WallTime Of(const WorkloadState& workload) {
      const std::optional<ClaimEviction>& eviction = workload.claim->eviction;
      return eviction.has_value() ? eviction->not_before : WallTime{};
    }
    bool operator()(const WorkloadState* a, const WorkloadState* b) const {
      return Of(*a) != Of(*b) ? Of(*a) < Of(*b) : a->spec.uid < b->spec.uid;
    }
  };

  // PassHost
  WorkloadState* OfTicket(const queue::Ticket* ticket) override;
  bool NamespaceMatches(const ClusterQueueState& queue, const WorkloadState& workload) override;
  bool LaneMatches(const ClusterQueueState& queue, uint32_t lane) override;
  void OnAdmit(WorkloadState* workload, ClusterQueueState* queue, const Assignment& assignment,
               gang::Reservation machines) override;
  std::vector<const WorkloadState*> VictimsOf(const WorkloadState& preemptor) const override;
  std::vector<std::pair<WorkloadState*, WallTime>> Promised(const Tree& tree) override;
  void OnPreempt(const Victim& victim, const WorkloadState& preemptor, const ClusterQueueState& queue) override;
  void OnNominate(ClusterQueueState* queue) override;
  void OnNoFit(const std::vector<Obstacle>& obstacles) override;
  bool ComesBack(const WorkloadState& workload) const override;
  WallTime EndOf(const std::string& uid) const override;
  bool HadToGoFor(const WorkloadState& workload, const WorkloadState& preemptor) const override;
  void OnPreemptionSkipped(ClusterQueueState* queue) override { ++queue->preemption_skips; }
  void OnTargetsRecomputed(const ClusterQueueState& queue, RecomputedTargets result) override {
    ++recomputations_[{queue.name, result}];
  }
  void SetReason(WorkloadState* workload, std::shared_ptr<const Reason> reason) override;
  std::shared_ptr<const Reason> AdmissionBlocked() override;

  // Whoever waits, or holds a claim, under that uid. RETURNS: null: nobody.
  WorkloadState* FindPreemptor(std::string_view uid) const;
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

  // ---- what LocalQueues consume (consumption.cpp)
  // Follows what the queue consumes from now on, or no longer.
  void UpdateTracking(LocalQueueState* queue);
  // Tells its ClusterQueue what it has consumed.
  void ShareChanged(LocalQueueState* queue);
  void SampleConsumption();
  std::optional<LocalQueueConsumption> ConsumptionView(const LocalQueueState& queue) const;

  // ---- waiting (routing.cpp)
  // The same as far as queueing is concerned: a parked workload stays parked.
  static bool QueuesAlike(const Workload& a, const Workload& b);
  // The workload becomes what `spec` says.
  void Change(WorkloadState* workload, const Workload& spec, bool is_new);
  // Puts the workload where it belongs now: into a queue, or nowhere with a reason why.
  void Route(WorkloadState* workload);
  // Where it may wait. RETURNS: null where it may not, and why in `*why`.
  ClusterQueueState* WaitingPlace(const WorkloadState& workload, std::shared_ptr<const Reason>* why) const;
  void RouteAll(LocalQueueState* queue);
  void Enqueue(WorkloadState* workload, ClusterQueueState* queue);
  void Unqueue(WorkloadState* workload);
  void CountPending(const WorkloadState& workload, ClusterQueueState* queue, int sign);
  void GiveQueueReason(WorkloadState* workload, ClusterQueueState* queue);
  std::shared_ptr<const Reason> ReasonOfParked(const ClusterQueueState& queue, const WorkloadState& workload) const;
  bool NamespaceMatches(const ClusterQueueState& queue, const std::string& ns) const;
  // Those that are parked in a queue which does not take their namespace stay so, and are not looked at to be told.
  void TellStrangers(ClusterQueueState* queue);
  // What a workload that leaves makes possible for others.
  void WakeAfter(const WorkloadState& workload);
  // It has come, changed or gone, which nobody decided here.
  static void NoteOutside(const WorkloadState& workload);
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
  // Why its queues, its own object or its machines want it to go. REQUIRES: it holds a claim.
  std::optional<EvictionReason> EvictionByPolicy(const WorkloadState& workload) const;
  // What is to be issued for it as soon as its time has come.
  std::optional<ClaimEviction> EvictionDue(const WorkloadState& workload) const;
  // Every change of why a claim is to go.
  void SetEviction(WorkloadState* workload, std::optional<ClaimEviction> eviction);
  void ListVictim(WorkloadState* workload, bool add);
  void NoteLeaving(WorkloadState* workload);
  void NoteAdmitted(WorkloadState* workload);
  // Unset: it may stay, or is to be evicted.
  std::optional<Reason> WithdrawalDue(const WorkloadState& workload) const;
  void CheckEviction(WorkloadState* workload);
  void CheckEvictions(ClusterQueueState* queue);
  void CheckEvictions(LocalQueueState* queue);
  Admission MakeAdmission(const WorkloadState& workload, const ClusterQueueState& queue,
                          const Assignment& assignment) const;

  // ---- room that is promised to preemptors (promises.cpp)
  // Somebody was evicted for it, as the victim's objects show.
  void NotePromise(const std::string& preemptor_uid, WallTime eviction);

  // ---- those that were moved, and start after the one they were moved for (giving_way.cpp)
  bool GiveWay(WorkloadState* workload) override;
  // For whom; null: for nobody, or no longer.
  const WorkloadState* GivesWayTo(const WorkloadState& workload) const;
  // Before its room is nobody's: who waited in vain starts nevertheless. REQUIRES: room is kept for it
  WallTime GivesWayUntil(const WorkloadState& workload) const;
  std::shared_ptr<const Reason> ReasonToGiveWay(const WorkloadState& workload) const;
  // Those wait in their turn again who need not do so any more.
  void EndGivingWay();

  // ---- more and fewer pods of elastic workloads (growth.cpp)
  // To be called whenever what it holds, or should hold, may have changed; what follows from that happens once no pass
  // is under way.
  void NoteSize(WorkloadState* workload);
  void SettleSizes();
  // What it holds and waits for follows its pod counts. `refused`: the answer to its growth, if it was that.
  void Resize(WorkloadState* workload, const GrowthRefused* refused = nullptr);
  void RemoveGrowth(WorkloadState* workload);
  void OnGrow(WorkloadState* growth, const ClusterQueueState& queue, const Assignment& assignment,
              gang::Reservation machines);
  // RETURNS: the workload whose growth is answered; null: none.
  WorkloadState* EndGrowth(std::string_view uid, ClaimId claim);
  void Rebook(WorkloadState* workload);

  // ---- admissions that wait for the pods of others (pods_ready.cpp)
  // To be called after each change of a claim.
  void CheckPodsReady(const WorkloadState* workload);
  std::vector<Tree*> TreesInTurn();

  // ---- topologies (topologies.cpp)
  void TopologyOfFlavorsChanged(const std::string& topology);
  // What the book knows of the flavor follows what the objects say.
  void UpdateTopologyOf(const std::string& flavor);
  // Those whose flavors have nodes in common with these may gain by it.
  void GainedPlaces(const std::vector<gang::PlacedPodSet>& places);
  void GainedOnNode(std::string_view node);
  // Those whose nodes have failed get other places, or are to be evicted.
  void ReplacePlaces(std::vector<Decision>* decisions);
  bool IsCountedByClaim(const PodPlaced& pod) const;
  void ForgetStranger(const std::string& key);
  void ValidatePlaces() const;

  // ---- machines (topologies.cpp)
  void NoteNeededPods(WorkloadState* workload);
  // Those whose flavors have machines with more room look again.
  void WakeByMachines();

  // ---- ResourceQuotas (pods_to_come.cpp)
  // To be called after each change of its claim's state, admission or needed pods.
  void FollowPodsToCome(WorkloadState* workload);
  PodsToCome PodsToComeOf(const WorkloadState& workload) const;
  // Those look again whose namespaces may let them in now.
  void WakeByNamespaceQuotas();
  void ValidatePodsToCome() const;

  // ---- machines as seen from outside (machine_views.cpp)
  std::vector<QuotaOnMachines> QuotasOnMachines() const;
  void ForgetFitFailures(const std::string& flavor);

  // ---- gangs that lack places on machines (lacking_places.cpp)
  struct ByLackingTime {
    bool operator()(const WorkloadState* a, const WorkloadState* b) const {
      const WallTime x = a->claim->lacking_since;
      const WallTime y = b->claim->lacking_since;
      return x != y ? x < y : a->spec.uid < b->spec.uid;
    }
  };
  void FollowLackingPlaces();
  // Those are told to go whose time is over.
  void StopLackingPlaces();
  void SetLackingSince(WorkloadState* workload, WallTime since);
  // When it is to go. REQUIRES: it lacks places
  WallTime LackingDue(const Claim& claim) const { return claim.lacking_since + options_.place_timeout; }

  // ---- passes (engine_set.cpp)
  // One who was told to go has room where it is, beside all that is planned.
  bool MayStay(WorkloadState* victim);
  // One pass without the Holds.
  PassResult RunOnePass(WallTime now);
  std::vector<std::unique_ptr<gang::RoomAsker>> MakeAskers();
  void RunTrees();
  // Those of one tree after the other, or of several at once: nothing changes meanwhile.
  void NominateAll(std::span<const std::unique_ptr<TreeRun>> runs);
  // Some of its queues, or of those who hold claims or are kept room for in them, are in topologies.
  bool LooksInTopologies(const Tree& tree) const;
  void TakeHolds(std::vector<Decision>* decisions);
  // And withdrawals.
  void IssueEvictions(std::vector<Decision>* decisions);
  void Issue(WorkloadState* workload, std::vector<Decision>* decisions);
  bool AtClaimLimit() const { return unwritten_claims_ >= options_.unwritten_claims_max; }

  std::vector<FlavorUsage> UsageView(const ClusterQueueState& queue, const LocalQueueState* local) const;
  std::optional<KeptRoom> KeptRoomOf(const WorkloadState& workload) const;
  Reason LiveReason(const WorkloadState& workload) const;
  // Those whose claims are in the way of the obstacle, the newest first.
  std::vector<Blocker> HoldersOf(const WorkloadState& workload, const Obstacle& obstacle) const;
  using Sums = absl::flat_hash_map<FlavorResource, quota::ExactSum>;
  // Of the ClusterQueues below a cohort.
  struct Below {
    int64_t admitted = 0;
    Sums reserved;
  };
  static void AddBelow(const ClusterQueueState& queue, Below* below);
  CohortView ViewCohort(const CohortState& cohort, const Below& below) const;
  std::vector<CohortQuota> QuotasOf(const CohortState& cohort, const Sums& reserved) const;
  std::optional<WeightedShare> ShareView(Tree* tree, quota::NodeId node) const;
  void MarkChangedShares(ChangedQueues* changed);

  // ---- checks (integrity.cpp)
  void ValidateWorkload(const WorkloadState& workload) const;
  void ValidateLocalQueue(const LocalQueueState& queue) const;
  void ValidatePending(const ClusterQueueState& queue) const;

  EngineOptions options_;
  Catalog catalog_;
  gang::MachineRoom machines_{options_.machines};
  gang::TopologyBook topologies_{options_.balanced_placement};
  NamespaceQuotas namespace_quotas_;
  Forest forest_{&catalog_, &topologies_, &namespace_quotas_};
  TopologyPlacer placer_{&catalog_, &topologies_};
  Deciders deciders_{options_.deciders};
  const std::vector<std::unique_ptr<gang::RoomAsker>> askers_ = MakeAskers();  // by decider
  MachinePlacer machine_placer_{&catalog_, askers_.front().get()};             // outside of passes
  std::optional<AdmissionShares> admission_shares_;                            // with admission fair sharing
  StringMap<std::unique_ptr<WorkloadState>> workloads_;
  absl::btree_map<LocalQueueKey, std::unique_ptr<LocalQueueState>> local_queues_;
  std::vector<LocalQueueState*> lanes_;
  std::vector<uint32_t> free_lanes_;
  absl::btree_set<WorkloadState*, ByEvictionTime> evictions_due_;
  absl::btree_set<const WorkloadState*, ByLackingTime> lacking_;  // whose time to lack places is not over yet
  absl::btree_set<std::string> lacking_unsure_;                   // uids of those that may lack some now, or no more
  absl::btree_set<WorkloadState*, ByUid> reasons_changed_;
  absl::btree_set<WorkloadState*, ByUid> sizes_due_;         // those of NoteSize
  absl::btree_set<WorkloadState*, ByUid> replacements_due_;  // with failed hosts
  // With block_admission: whose pods are waited for, and whether anybody was not admitted because of that.
  absl::btree_set<const WorkloadState*, ByUid> unready_;
  bool admission_blocked_ = false;
  std::vector<const LocalQueueState*> changed_local_queues_;                            // in no order
  std::vector<LocalQueueKey> changed_local_queues_gone_;                                // of them, those that are gone
  absl::btree_map<std::pair<std::string, RecomputedTargets>, int64_t> recomputations_;  // until they are taken
  // By preemptor: whom it has preempted, and who has not left yet. The preemptor need not be known.
  StringMap<absl::btree_set<WorkloadState*, ByUid>> victims_of_;
  // By preemptor: when it last evicted anybody, if it has not started since. It need not be known.
  StringMap<WallTime> promises_;
  absl::btree_set<WorkloadState*, ByUid> gives_way_;  // that wait aside
  std::vector<Decision>* decisions_ = nullptr;        // of the pass under way
  WallTime now_;
  uint64_t run_ = 0;  // of one pass or more
  uint64_t pass_ = 0;
  uint64_t refusals_before_pass_ = 0;  // by machines
  uint64_t sequence_ = 0;
  int64_t unwritten_claims_ = 0;

  // Of what machines_view.h tells.
  uint64_t quota_version_ = 1;
  mutable std::pair<uint64_t, uint64_t> unserved_as_of_;  // versions of quotas and nodes
  mutable std::shared_ptr<const std::vector<UnservedQuota>> unserved_;
  std::map<std::tuple<std::string, FitFailureCause, std::string>, uint64_t> fit_failures_;  // as in FitFailures
};

}  // namespace muster::engine
