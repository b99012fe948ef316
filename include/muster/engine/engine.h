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
// An engine that is told of the same objects, in whatever order, holds the same claims and waits with the same workloads.
// Not in the objects, and so lost with a process:
//   claims that no write has made true yet: their workloads are decided on again;
//   evictions that were decided and not begun: they are decided again;
//   back-off after a refused start: it is tried at once;
//   how far a scan of flavors came, and who is parked: each is looked at once more;
//   which reasons were told: they are told again, and are the same.
//
// Threading: needs external synchronisation (one owner). Views returned are values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "muster/core/time.h"
#include "muster/engine/objects.h"
#include "muster/engine/reason.h"
#include "muster/gang/room.h"

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
struct ClaimWritten {
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
// Its pods are inactive: the quota is free, and the workload queues again if it still exists and may.
struct ClaimGone {
  std::string uid;
  ClaimId claim;
};

using Event =
    std::variant<FlavorChanged, FlavorDeleted, CohortChanged, CohortDeleted, ClusterQueueChanged, ClusterQueueDeleted,
                 LocalQueueChanged, LocalQueueDeleted, NamespaceChanged, NamespaceDeleted, WorkloadChanged,
                 WorkloadDeleted, ClaimWritten, ClaimRefused, ClaimActive, ClaimLeaving, ClaimGone>;

// ---- decisions ----------------------------------------------------------------------------------

struct Admit {
  std::string uid;
  int64_t generation = 0;  // of the Workload that was decided on
  ClaimId claim;           // kPlanned until ClaimWritten or ClaimRefused
  Admission admission;
};

enum class EvictionReason : uint8_t {
  kInClusterQueue,
  kInCohortReclamation,
  kInCohortFairSharing,
  kInCohortReclaimWhileBorrowing,
  kClusterQueueStopped,
  kLocalQueueStopped,
  kDeactivated,
};

struct Evict {
  std::string uid;
  ClaimId claim;
  EvictionReason reason = EvictionReason::kDeactivated;
  std::string preemptor_uid;  // empty unless preempted
};

// The workload waits, and its reason is new or has changed.
struct Hold {
  std::string uid;
  int64_t generation = 0;
  Reason reason;
};

using Decision = std::variant<Admit, Evict, Hold>;

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
  Amount used;      // by those of them that are admitted (all, until two-phase admission exists)
  Amount borrowed;  // what of `reserved` is above nominal; 0 in a queue without cohort
};

// One reason for which a ClusterQueue admits nothing.
struct Inactivity {
  InactiveReason reason = InactiveReason::kStopped;
  // The missing flavors, the cohorts of the cycle, or the fields that are not supported. Of what cannot be read, one
  // text for each object, with the field and its value.
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
  std::string parent;               // as declared; empty: none
  std::string root;                 // of its tree; a cohort on a cycle is the root of its own
  int64_t admitted = 0;             // in all ClusterQueues below it
  std::vector<CohortQuota> quotas;  // sorted by flavor and resource
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
  std::vector<FlavorUsage> usage;  // in the order of the spec: groups, flavors, resources
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
  Admission admission;  // while holding
};

// Queues whose view may have changed. A LocalQueue is not among them for workloads that were only parked or
// woken: its pending ones are as many as before.
struct ChangedQueues {
  std::vector<std::string> cluster_queues;                        // sorted
  std::vector<std::pair<std::string, std::string>> local_queues;  // (namespace, name), sorted
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
};

class EngineSet {
 public:
  // REQUIRES: `room` outlives the set.
  EngineSet(EngineOptions options, const gang::Room* room);
  ~EngineSet();
  EngineSet(const EngineSet&) = delete;
  EngineSet& operator=(const EngineSet&) = delete;

  void Apply(const Event& event);

  // One pass over every tree that has something to look at. Trees are visited in the order of their roots'
  // names. Evictions that stop policies and deactivation ask for come alone, in a result of their own, before
  // any pass: what they free is known before anything is decided on it.
  PassResult RunPass(WallTime now);

  // Passes until none could decide more, or `unwritten_claims_max` is reached. Decisions in order; of
  // several Holds of one workload only the last.
  std::vector<Decision> Decide(WallTime now);

  // The earliest time at which something becomes due without any event; unset: never.
  WallTime NextDue() const;

  ClusterQueueView ViewClusterQueue(const std::string& name) const;                     // REQUIRES: it was applied
  LocalQueueView ViewLocalQueue(const std::string& ns, const std::string& name) const;  // REQUIRES: as above
  std::vector<std::string> ClusterQueueNames() const;                                   // sorted
  // Every cohort that exists or is named by a ClusterQueue or as a parent, by name.
  std::vector<CohortView> ViewCohorts() const;
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
  int64_t unwritten_claims() const;

  // Canonical: equal states give equal hashes in every process.
  uint64_t StateHash() const;
  // Recounts usage, queue membership and counters from the claims, and aborts on any difference.
  void Validate() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::engine
