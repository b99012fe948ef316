// The engine: what happened goes in with Apply, what should be done comes out of RunPass and Decide. No
// I/O, no clock, no randomness, no threads: the same events in the same order give the same decisions,
// byte for byte.
//
// An EngineSet routes events to one engine a cohort tree; trees share no quota. Objects may be applied in
// any order: a workload whose queue is not known yet waits for it.
//
// Passes are visible (kueue_semantics 5.2): each active ClusterQueue nominates its head against the usage
// as it was at the start of the pass, then the entries are processed in order on the running usage; losers
// meet the next heads in the next pass. Passes are never merged, since that would change outcomes.
//
// An engine that is told of the same objects, in whatever order, holds the same claims and waits with the same
// workloads. Not in the objects, and so lost with a process:
//   claims that no write has made true yet: their workloads are decided on again, as is their growth;
//   evictions that were decided and not begun: they are decided again;
//   until when room is kept for a preemptor: its time begins anew, if those that make it are still leaving;
//   back-off after a refused start: it is tried at once;
//   how far a scan of flavors came, and who is parked: each is looked at once more;
//   which reasons were told: they are told again, and are the same;
//   on which machines the pods were to go that are not bound yet: they get places anew, before anybody else;
//   since when a gang lacks places: its time begins anew;
//   since when a gang waits for machines, and which are reserved for it: likewise;
//   where a gang that is moved was to go: it gets a place, and first, once it waits;
//   what LocalQueues have consumed since their status was written.
//
// Threading: needs external synchronisation (one owner). Views returned are values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "muster/core/time.h"
#include "muster/engine/fair_sharing.h"
#include "muster/engine/machines_view.h"
#include "muster/engine/objects.h"
#include "muster/engine/reason.h"
#include "muster/gang/machine_room.h"
#include "muster/gang/node.h"
#include "muster/gang/topology_book.h"

namespace muster::engine {

// ---- events -------------------------------------------------------------------------------------

struct FlavorChanged {
  ResourceFlavor flavor;
};
struct FlavorDeleted {
  std::string name;
};
struct CohortChanged {
  Cohort cohort;
};
struct CohortDeleted {
  std::string name;
};
struct AdmissionCheckChanged {
  AdmissionCheck check;
};
struct AdmissionCheckDeleted {
  std::string name;
};
struct ClusterQueueChanged {
  ClusterQueue queue;
};
struct ClusterQueueDeleted {
  std::string name;
};
struct LocalQueueChanged {
  LocalQueue queue;
};
struct LocalQueueDeleted {
  std::string ns, name;
};
struct NamespaceChanged {
  Namespace ns;
};
struct NamespaceDeleted {
  std::string name;
};
struct TopologyChanged {
  gang::Topology topology;
};
struct TopologyDeleted {
  std::string name;
};
struct NodeChanged {
  gang::Node node;
};
struct NodeDeleted {
  std::string name;
};
// A pod on a node; not sent of one that has ended. `key`: any unique name of it.
struct PodPlaced {
  std::string key;
  std::string node;
  std::map<std::string, Amount, std::less<>> requests;
  std::string workload{};  // uid of the workload whose gang it is part of; empty: a stranger
  std::string pod_set{};
};
struct PodGone {
  std::string key;
};
struct NamespaceQuotaChanged {
  NamespaceQuota quota;
};
struct NamespaceQuotaDeleted {
  std::string ns, name;
};
// So many pods of that pod set exist and are not being deleted, and the ResourceQuotas of their namespace have been
// seen to count them as used. 0 until it is told.
struct PodsCounted {
  std::string uid;
  std::string pod_set;
  int64_t pods = 0;
};
// Creates or replaces. A workload that holds a claim keeps it whatever changes; `held` is read only where
// the engine holds none for it yet, and never where it names the claim that was last seen to go: such an
// object is late. A WorkloadChanged equal to what is known changes nothing.
struct WorkloadChanged {
  Workload workload;
};
// The object is gone, with its pods: whatever it held is free.
struct WorkloadDeleted {
  std::string uid;
};

// Outcomes of writes and observations of pods. Those that name a claim which is not the workload's current
// one are ignored: they are late.
// The API server shows the claim. One with checks is only reserved by that, and holds its quota; it is admitted by
// ClaimAdmitted or ClaimActive.
struct ClaimWritten {
  std::string uid;
  ClaimId claim;
};
// All its checks are ready, and the API server shows it as admitted.
struct ClaimAdmitted {
  std::string uid;
  ClaimId claim;
};
// The start was refused or never applied: the claim is dropped, the workload may be tried again from
// not_before on; `message` becomes its kStartRefused obstacle (empty: decide again at once, no obstacle).
struct ClaimRefused {
  std::string uid;
  ClaimId claim;
  WallTime not_before;
  std::string message;
};
struct ClaimActive {
  std::string uid;
  ClaimId claim;
};
// The gang is being stopped. It holds its quota until ClaimGone.
struct ClaimLeaving {
  std::string uid;
  ClaimId claim;
};
// The answer to Grow. Written: the API server shows the counts. Refused: it never will; not tried again before
// `not_before`, and `message` as of ClaimRefused.
struct GrowthWritten {
  std::string uid;
  ClaimId claim;
};
struct GrowthRefused {
  std::string uid;
  ClaimId claim;
  WallTime not_before;
  std::string message;
};
// Whether all pods of the gang are ready or have succeeded. Of a claim that is new nobody has said so.
struct ClaimPodsReady {
  std::string uid;
  ClaimId claim;
  bool ready = false;
};
// The node of that hostname has failed for the pods that the claim has places for there: it is gone, or none of them
// runs on it any more and none may. They get other places (Replace), or the gang is evicted. Ignored where it has none
// there.
struct PlaceFailed {
  std::string uid;
  ClaimId claim;
  std::string hostname;
};
// Its pods are inactive: the quota is free, and the workload queues again if it still exists and may.
struct ClaimGone {
  std::string uid;
  ClaimId claim;
};

// The write of an eviction was refused, or never applied: the same Evict comes again, from not_before on (unset: at
// once), while it is still wanted. Where it is not, since the preemptor has started elsewhere or is gone, the gang
// stays.
struct EvictionRefused {
  std::string uid;
  ClaimId claim;
  WallTime not_before;
};

using Event =
    std::variant<FlavorChanged, FlavorDeleted, CohortChanged, CohortDeleted, AdmissionCheckChanged,
                 AdmissionCheckDeleted, ClusterQueueChanged, ClusterQueueDeleted, LocalQueueChanged, LocalQueueDeleted,
                 NamespaceChanged, NamespaceDeleted, TopologyChanged, TopologyDeleted, NodeChanged, NodeDeleted,
                 PodPlaced, PodGone, NamespaceQuotaChanged, NamespaceQuotaDeleted, PodsCounted, WorkloadChanged,
                 WorkloadDeleted, ClaimWritten, ClaimAdmitted, ClaimRefused, ClaimActive, GrowthWritten, GrowthRefused,
                 PlaceFailed, ClaimPodsReady, ClaimLeaving, ClaimGone, EvictionRefused>;

// ---- decisions ----------------------------------------------------------------------------------

struct Admit {
  std::string uid;
  int64_t generation = 0;  // of the Workload that was decided on
  ClaimId claim;           // kPlanned until ClaimWritten or ClaimRefused
  Admission admission;
  // Those of the ClusterQueue that apply to the admission, by name: not empty: quota is reserved first.
  std::vector<std::string> checks;
};

// An elastic workload may have the pods that it has more than it was admitted with. `admission` is all that its claim
// holds from now on, until GrowthWritten or GrowthRefused. Checks are not asked: REQUIRES of who says that it is
// elastic: none apply.
struct Grow {
  std::string uid;
  int64_t generation = 0;
  ClaimId claim;
  Admission admission;
};

// Pods of the claim have other places than on the node that failed: `admission` is all that it holds from now on.
struct Replace {
  std::string uid;
  ClaimId claim;
  Admission admission;
  std::string hostname;  // of that node
};

// Once for each claim, unless EvictionRefused asks for it again.
struct Evict {
  std::string uid;
  ClaimId claim;
  EvictionReason reason = EvictionReason::kDeactivated;
  std::string preemptor_uid;  // empty unless preempted; as are the next three
  std::string preemptor_cluster_queue;
  int32_t preemptor_priority = 0;    // when it was decided
  int32_t priority = 0;              // of the one that goes, then
  std::vector<std::string> nodes{};  // kNodeFailures: hostnames of those that failed under places in a topology
  int64_t without_place = 0;         // kNodeFailures: pods that are on no machine, and have no place on any
};

// A reservation that was not admitted is taken back: its queue was stopped, or is gone. That is no eviction.
struct Withdraw {
  std::string uid;
  ClaimId claim;
  Reason reason;  // why it will wait
};

// The workload waits, and its reason is new or has changed.
struct Hold {
  std::string uid;
  int64_t generation = 0;
  Reason reason;
  bool growth = false;  // it holds a claim, and waits for more pods
};

using Decision = std::variant<Admit, Grow, Replace, Evict, Withdraw, Hold>;

// What came of looking anew for workloads to preempt, since some of the first choice had been told to go for another in
// the same pass.
enum class RecomputedTargets : uint8_t {
  kNewTargets,   // others are to go too
  kDeferredFit,  // what those leave is enough
  kSkipped,      // neither: nobody is left to preempt
};
std::string_view Name(RecomputedTargets result);  // "new_targets"

struct TargetRecomputations {
  std::string cluster_queue;
  RecomputedTargets result = RecomputedTargets::kSkipped;
  int64_t count = 0;
  friend bool operator==(const TargetRecomputations&, const TargetRecomputations&) = default;
};

struct PassResult {
  std::vector<Decision> decisions;  // admissions and evictions in the order they were decided
  // True where another pass could decide something without any further event.
  bool more = false;
};

// ---- read side ----------------------------------------------------------------------------------

struct FlavorUsage {
  std::string flavor;
  std::string resource;
  Amount nominal;
  std::optional<Amount> borrowing_limit;
  std::optional<Amount> lending_limit;
  Amount reserved;  // by every claim that is not gone
  Amount used;      // by those of them that are admitted
  Amount borrowed;  // what of `reserved` is above nominal; 0 in a queue without cohort
};

// One reason for which a ClusterQueue admits nothing.
struct Inactivity {
  InactiveReason reason = InactiveReason::kStopped;
  // The missing flavors, the checks, or the cohorts of the cycle. Of what cannot be read, one text for each object,
  // with the field and its value. Of missing Topologies: "name" for TAS flavor "flavor".
  std::vector<std::string> names;
  friend bool operator==(const Inactivity&, const Inactivity&) = default;
};

struct CohortQuota {
  std::string flavor;
  std::string resource;
  Amount quota;     // its own, and what all below lend it
  Amount reserved;  // by all ClusterQueues below it
  friend bool operator==(const CohortQuota&, const CohortQuota&) = default;
};

struct CohortView {
  std::string name;
  std::string parent;                             // as declared; empty: none
  std::string root;                               // of its tree; a cohort on a cycle is the root of its own
  int64_t admitted = 0;                           // in all ClusterQueues below it
  std::vector<CohortQuota> quotas;                // sorted by flavor and resource
  std::optional<WeightedShare> weighted_share{};  // with fair sharing
  friend bool operator==(const CohortView&, const CohortView&) = default;
};

struct ClusterQueueView {
  std::string name;
  std::string cohort;
  std::string root_cohort;  // of the tree of `cohort`
  bool active = false;
  std::vector<Inactivity> inactive;  // why not, in Kueue's order of precedence
  int64_t pending_active = 0;        // waiting and to be looked at
  int64_t pending_inadmissible = 0;  // parked
  int64_t reserving = 0;
  int64_t admitted = 0;
  int64_t lacking_places = 0;  // of those that reserve: pods of theirs are on no machine, and have no place on any
  // Its preemptors that lost to others of their passes, in the last run of the engine that looked at its heads.
  int64_t preemption_skips = 0;
  std::vector<FlavorUsage> usage;                 // in the order of the spec: groups, flavors, resources
  std::optional<WeightedShare> weighted_share{};  // with fair sharing
};

// What waits in a ClusterQueue, as metrics show it.
struct PendingView {
  // Distinct equivalences among those that are to be looked at, and among the others.
  int64_t equivalences_active = 0;
  int64_t equivalences_inadmissible = 0;
  WallTime oldest;  // since when the one has waited that has waited longest; unset: nobody waits
  // Asked for by all together, of each covered resource and each other that is asked for; sorted by resource.
  std::vector<std::pair<std::string, Amount>> resources;
};

struct LocalQueueView {
  std::string ns;
  std::string name;
  std::string cluster_queue;
  bool active = false;
  bool stopped = false;       // its own stop policy
  std::string misconfigured;  // what of its spec cannot be read
  bool cluster_queue_exists = false;
  int64_t pending_active = 0;
  int64_t pending_inadmissible = 0;
  int64_t reserving = 0;
  int64_t admitted = 0;
  WaitCounts waiting;              // all that hold nothing and are not deactivated
  std::vector<FlavorUsage> usage;  // nominal and limits are not set
  // Where it decides who goes first (admissionScope UsageBasedAdmissionFairSharing).
  std::optional<LocalQueueConsumption> consumption{};
};

// Room that is kept for a workload until those have left whom it preempted.
struct KeptRoom {
  std::vector<std::string> victims;  // uids of those that have not left yet, sorted
  WallTime until;                    // unset: it is not kept any more, its time is over
  friend bool operator==(const KeptRoom&, const KeptRoom&) = default;
};

// A claim with places on one node.
struct HolderOnNode {
  std::string uid;
  ClaimId claim;
  bool gone = false;   // the node is not there
  bool unfit = false;  // it is not ready or cordoned, or has a taint that the pods do not tolerate
  friend bool operator==(const HolderOnNode&, const HolderOnNode&) = default;
};

// All that is known of why one workload waits, or what it holds.
struct WorkloadView {
  enum class Place : uint8_t { kUnqueued, kActive, kParked, kHolding };
  Place place = Place::kUnqueued;
  std::string cluster_queue;  // empty where it has none
  // Of waiting; meaningless while holding. With the numbers of the last attempt of it or its like; blockers by now.
  Reason reason;
  ClaimId claim;
  ClaimState claim_state = ClaimState::kGone;
  Admission admission;                    // while holding
  WallTime reserved_at;                   // while holding
  std::optional<EvictionReason> evicted;  // while holding: it was told to go
  std::string preemptor_uid;              // and for whom, if for somebody
  std::optional<KeptRoom> kept_room;      // of a preemptor that waits
  std::optional<Reason> growth{};         // while holding: it waits for more pods, and why
};

// Queues whose view may have changed. A LocalQueue is not among them for workloads that were only parked or
// woken: its pending ones are as many as before.
struct ChangedQueues {
  std::vector<std::string> cluster_queues;                        // sorted
  std::vector<std::pair<std::string, std::string>> local_queues;  // (namespace, name), sorted
  std::vector<std::string> cohorts;                               // sorted; only with fair sharing
};

struct EngineOptions {
  // The leader's term, part of each claim id. Never zero.
  uint64_t epoch = 1;
  // Admissions without an answer from the API server, over all trees. At the limit no pass is run until
  // answers come: back-pressure instead of an unbounded backlog. One pass may go beyond it by one workload a
  // queue.
  int64_t unwritten_claims_max = 2000;
  // A resource that no group of a ClusterQueue covers keeps nobody out of it, and is not counted
  // (quotaCheckStrategy IgnoreUndeclared).
  bool ignore_undeclared_resources = false;
  // Who borrows less of its fair share goes first, and may evict who borrows more; unset: classical preemption.
  std::optional<FairSharing> fair_sharing;
  // Unset: what LocalQueues consumed is not looked at.
  std::optional<AdmissionFairSharing> admission_fair_sharing;
  // How long the room that a preemptor frees is kept for it; then it competes like others. 0: never kept.
  Duration keep_room_for = std::chrono::minutes(15);
  // Workloads that one search for victims looks at or tries, at most. Where that ends it, the reason says so.
  int64_t victim_search_steps_max = 200'000;
  // Nobody is admitted while the pods of another are not all ready (waitForPodsReady.blockAdmission; kueue_semantics
  // 7.1), in whichever tree. All else goes on: evictions, and the search for what each workload waits for. A gang that
  // is being stopped is not waited for.
  bool block_admission = false;
  // A gang starts only where every member has a place on a machine that is known (design decision 5). Off: quota alone
  // decides, and topologies where there are some.
  bool machines = false;
  // Resources that are made of others (transformations): quota of them is in no machine's units.
  std::set<std::string, std::less<>> derived_resources{};
  // How long a gang that holds a claim may lack places on machines; then it is told to go, and queues again. It lacks
  // some where a node, or the room that was reserved on it, was lost before a pod was bound there, or where a pod has
  // gone and its room with it; and only while no other machine has places for the gang. 0: for ever.
  Duration place_timeout = std::chrono::minutes(1);
  // Gangs that prefer a topology, and do not fit in one domain, are spread evenly (TASBalancedPlacement).
  bool balanced_placement = false;
  // A gang that has quota and for so long no places on machines, since others are there, is to have the next: machines
  // are reserved for it, as many as it needs, at most once in each flavor, and what small gangs leave there is not for
  // the next small ones, but for those that will have ended before all machines can be free. 0: never.
  Duration reserve_after{0};
  // A gang that has quota and for so long no places, in topologies or on machines, since others are where it would be,
  // has some of those moved who are `movable`: the cheapest that it finds who all have places elsewhere, of the same
  // flavors and in the same tree. They are evicted (kDefragmentation), and their quota and new places are kept for them
  // until they have started again, at most for `keep_room_for`. 0: nobody is ever moved. Without `keep_room_for`
  // neither.
  Duration defragment_after{0};
  // Threads that nominate in a pass: those of several trees at once, on what there is before any of them decides. How
  // many there are changes no decision. 1: the caller alone; more wait, while nothing is decided. REQUIRES: at least 1
  int deciders = 1;
};

class EngineSet {
 public:
  explicit EngineSet(EngineOptions options);
  ~EngineSet();
  EngineSet(const EngineSet&) = delete;
  EngineSet& operator=(const EngineSet&) = delete;

  void Apply(const Event& event);

  // One pass over every tree that has something to look at. Trees are visited in the order of their roots'
  // names. Evictions and withdrawals that stop policies and deactivation ask for come alone, in a result of their own,
  // before any pass: what they free is known before anything is decided on it.
  PassResult RunPass(WallTime now);

  // Passes until none could decide more, or `unwritten_claims_max` is reached. Decisions in order; of several Holds of
  // one workload only the last, and no preemption whose room others took in a later pass.
  std::vector<Decision> Decide(WallTime now);

  // The earliest time at which something becomes due without any event; unset: never.
  WallTime NextDue() const;

  ClusterQueueView ViewClusterQueue(const std::string& name) const;                     // REQUIRES: it was applied
  LocalQueueView ViewLocalQueue(const std::string& ns, const std::string& name) const;  // REQUIRES: as above
  std::vector<std::string> ClusterQueueNames() const;                                   // sorted
  // Every cohort that exists or is named by a ClusterQueue or as a parent, by name.
  std::vector<CohortView> ViewCohorts() const;
  CohortView ViewCohort(const std::string& name) const;                      // REQUIRES: one of those
  std::vector<std::string> CohortNames() const;                              // of those
  std::vector<std::pair<std::string, std::string>> LocalQueueNames() const;  // sorted
  std::optional<WorkloadView> ViewWorkload(const std::string& uid) const;
  // Takes time with the number of distinct shapes that wait, not of workloads. REQUIRES: it was applied
  PendingView ViewPending(const std::string& cluster_queue) const;
  // Those that wait for LocalQueues that do not exist.
  WaitCounts WaitingWithoutLocalQueue() const;
  // The cohorts that a ClusterQueue is in, from the nearest up.
  std::vector<std::string> CohortsOf(const std::string& cluster_queue) const;
  // Since the last call.
  ChangedQueues TakeChangedQueues();
  // Likewise, by ClusterQueue and result.
  std::vector<TargetRecomputations> TakeTargetRecomputations();
  int64_t unwritten_claims() const;
  // How much machines were asked for, and what was given of them.
  gang::RoomCounts MachineCounts() const;
  // The room of all flavors that there is quota for, by flavor and resource. One look at all machines for each flavor.
  std::vector<FlavorRoomView> ViewFlavorRoom() const;
  // The same object until it may have changed.
  std::shared_ptr<const std::vector<UnservedQuota>> UnservedQuotas() const;
  std::vector<FitFailures> ViewFitFailures() const;  // sorted by flavor, cause and resource

  // Whose claims have places on the node of that hostname, by uid; and all hostnames of which somebody has, sorted.
  std::vector<HolderOnNode> HoldersOn(std::string_view hostname) const;
  std::vector<std::string> HostsWithPlaces() const;

  // Canonical: equal states give equal hashes in every process.
  uint64_t StateHash() const;
  // Recounts usage, queue membership and counters from the claims, and aborts on any difference.
  void Validate() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::engine
