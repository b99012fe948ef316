// The parts of a tree: cohorts, ClusterQueues, LocalQueues and the workloads in them.
//
// Objects may name others that are not known yet; such a name has a state too, with `exists` unset, so that
// what waits for it is found when it comes. A state nobody refers to is dropped.
//
// Threading: owned by the EngineSet.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "catalog.h"
#include "decay.h"
#include "muster/core/time.h"
#include "muster/engine/engine.h"
#include "muster/engine/objects.h"
#include "muster/engine/reason.h"
#include "muster/gang/machine_room.h"
#include "muster/gang/topology_book.h"
#include "muster/queue/consumed_share.h"
#include "muster/queue/waiting_queue.h"
#include "muster/quota/exact_sum.h"
#include "muster/quota/fair_share.h"
#include "muster/quota/ledger.h"
#include "namespace_quotas.h"

namespace muster::engine {

struct Assignment;
struct ClusterQueueState;
struct CohortState;
struct LocalQueueState;
struct Tree;
struct WorkloadState;

struct ByName {
  template <typename T>
  bool operator()(const T* a, const T* b) const {
    return a->name < b->name;
  }
};

// How far the flavors of each pod set and resource group were tried when an attempt failed, so that the
// next one goes on instead of starting over (kueue_semantics 5.6, LastAssignment).
struct ScanProgress {
  static constexpr int16_t kNone = -2;  // nothing known: start at the first flavor
  static constexpr int16_t kLast = -1;  // the last flavor was reached: start at the first again

  // By pod set, then group; empty: nothing is known.
  std::vector<int16_t> tried;
  uint64_t pass = 0;        // when it was recorded
  uint64_t generation = 0;  // of the queue's capacity, then

  bool HasUntried() const {
    for (const int16_t index : tried) {
      if (index >= 0) return true;
    }
    return false;
  }
};

// From where attempts have started since the tree last changed. Starting from there again changes nothing; but who lost
// to others of a pass may find that they are not looked at any more: so it is tried once more from there.
struct ScanHistory {
  uint64_t tree_version = 0;
  absl::flat_hash_set<uint64_t> starts;
  absl::flat_hash_set<uint64_t> lost;
};

// Why a claim is to go, and for whom.
struct ClaimEviction {
  EvictionReason reason = EvictionReason::kDeactivated;
  WallTime at;                // when that was decided
  std::string preemptor_uid;  // empty unless preempted; as are the next two
  std::string preemptor_queue;
  int32_t preemptor_priority = 0;
  bool issued = false;             // the decision is out
  WallTime not_before;             // when it may be issued again
  std::vector<std::string> nodes;  // that failed, if it is for these
};

// Of room on machines that others will leave.
struct FutureMachines {
  int64_t count = 0;
  WallTime free_at;  // when all who run there will have ended at the latest; unset: nobody knows
};

// Room in the planned book, kept for a workload that waits for others to leave.
struct Room {
  std::vector<std::pair<FlavorResource, Amount>> usage;
  std::vector<gang::PlacedPodSet> places;
  std::shared_ptr<const Assignment> chosen;  // with the flavors that it is in
  int32_t borrow = 0;                        // how far up it borrows for it
  WallTime until;                            // unset: for as long as it waits
  std::optional<gang::Reservation> machines{};
  PodsToCome to_come{};
  std::optional<FutureMachines> future{};  // nobody was told to go for it
};

struct Claim {
  explicit Claim(gang::Reservation reserved) : machines(std::move(reserved)) {}

  ClaimId id;
  ClaimState state = ClaimState::kPlanned;
  Admission admission;
  WallTime reserved_at;
  std::optional<ClaimEviction> eviction;
  bool leaving = false;  // it counts as gone in the planned book
  bool pods_ready = false;
  bool admitted = true;                // false: reserved, its checks are still to be passed
  bool withdrawn = false;              // the decision to take the reservation back is out
  ClusterQueueState* queue = nullptr;  // where it is (or, if that does not exist, will be) booked
  size_t queue_index = 0;              // in its `holders`
  // What is booked now: the admission, less what is not needed any more. Never more than the admission; what was given
  // back is booked again if its pods run after all, even where it is another's by now.
  std::vector<std::pair<FlavorResource, Amount>> usage;
  // What it adds to its LocalQueue's consumption until its admission is written.
  std::vector<std::pair<ResourceId, FineAmount>> entry_penalty;
  // What is taken of topologies for it.
  std::vector<gang::PlacedPodSet> places;
  // Of nodes that its places are on: those that have failed, by hostname, until it has others.
  absl::btree_set<std::string> failed_hosts;
  bool irreplaceable = false;  // it has no others
  // And of machines: there is no claim without.
  gang::Reservation machines;
  WallTime lacking_since;  // places on machines; unset: it lacks none
  PodsToCome to_come;      // as ResourceQuotas are to count them
  // The admission without the pods that were added to it, while the write that adds them has no answer.
  std::optional<Admission> before_growth{};
  // Of one that is moved: what is kept for it until it waits, so that it comes back. Nobody else may have that.
  std::unique_ptr<Room> onward{};
};

// Where admissions wait for the pods of others: whether they wait for this one's. What is being stopped will never have
// its pods ready.
inline bool IsWaitedFor(const Claim& claim) { return claim.state < ClaimState::kLeaving && !claim.pods_ready; }

struct WorkloadState {
  Workload spec;  // without `held`: what it holds is `claim`
  // Of an elastic workload that has more pods than its claim is for: the difference. It waits under the same uid as a
  // workload of its own and never holds a claim: what it gets is added to that of `grows`.
  std::unique_ptr<WorkloadState> growth;
  WorkloadState* grows = nullptr;
  std::vector<CompiledShapePtr> shapes;  // of the pod sets
  LocalQueueState* local_queue = nullptr;
  size_t local_queue_index = 0;  // in its `workloads`
  // Where it waits; null: nowhere, or it holds a claim.
  ClusterQueueState* waiting_in = nullptr;
  queue::Ticket ticket;
  std::unique_ptr<Claim> claim;
  ClaimId last_gone;  // an object that still shows this one is late
  ScanProgress scan;
  std::unique_ptr<ScanHistory> scan_history;
  std::unique_ptr<Room> room;  // only while it waits; of one that is moved and leaves: `claim->onward`
  bool room_spent = false;     // the time was over for which room is kept for it
  uint64_t room_lost_in = 0;   // the forest's turn in which its room last went to others; 0: none
  WallTime crowded_since;      // when it first had quota and no places, since its last admission; unset: never
  WallTime moved_nobody_at;    // when nobody was found last who could be moved for it
  // Whom it preempted, by uid, since anything changed in its tree that nobody decided here: not again before that, or
  // preemptors could go round for ever.
  absl::flat_hash_set<std::string> preempted;
  uint64_t preempted_at = 0;                  // `outside` of the tree, then
  std::optional<PastEviction> last_eviction;  // that ended its last claim; until it has started again
  std::string start_refused;                  // message of the last refusal, until its back-off is over

  std::shared_ptr<const Reason> reason;  // null: never looked at
  // As counted in its LocalQueue; unset: it does not wait.
  std::optional<std::pair<ReasonCode, WaitCode>> counted;
  uint64_t reason_hash = 0;
  uint64_t reported_hash = 0;   // of the reason in the last Hold
  bool reason_changed = false;  // is in the list of those to report
};

// It lost its last claim to that preemptor, and has not started since.
inline bool WasEvictedFor(const WorkloadState& workload, const WorkloadState& preemptor) {
  return workload.last_eviction.has_value() && workload.last_eviction->preemptor_uid == preemptor.spec.uid;
}

// It was moved, and waits to come back.
inline bool WasMoved(const WorkloadState& workload) {
  return workload.last_eviction.has_value() && workload.last_eviction->moved;
}

// Those that are to go first: lower priority, reserved later (unset: just now), smaller uid. REQUIRES: all hold claims.
struct VictimOrder {
  bool operator()(const WorkloadState* a, const WorkloadState* b) const {
    if (a->spec.priority != b->spec.priority) return a->spec.priority < b->spec.priority;
    const WallTime x = a->claim->reserved_at;
    const WallTime y = b->claim->reserved_at;
    if (x != y) return x.IsSet() && y.IsSet() ? x > y : !x.IsSet();
    return a->spec.uid < b->spec.uid;
  }
};
using VictimOrderSet = absl::btree_set<WorkloadState*, VictimOrder>;

struct ByUid {
  bool operator()(const WorkloadState* a, const WorkloadState* b) const {
    return a->spec.uid != b->spec.uid ? a->spec.uid < b->spec.uid : (a->grows != nullptr) < (b->grows != nullptr);
  }
};

// REQUIRES: room is kept for all of them.
struct ByRoomEnd {
  bool operator()(const WorkloadState* a, const WorkloadState* b) const {
    const WallTime x = a->room->until;
    const WallTime y = b->room->until;
    if (x != y) return x.IsSet() && y.IsSet() ? x < y : x.IsSet();
    return a->spec.uid < b->spec.uid;
  }
};

// What a LocalQueue has consumed, where that decides who goes first (admission_shares.h).
struct Consumption {
  bool tracked = false;
  WallTime sampled_at;  // unset: not yet
  WallTime due;         // as in the index of those to be sampled
  absl::btree_map<ResourceId, FineAmount> consumed;
  absl::btree_map<ResourceId, FineAmount> penalty;  // of admissions that are not written yet
};

struct LocalQueueState {
  std::string ns;
  std::string name;
  uint32_t lane = 0;
  bool exists = false;
  LocalQueue spec;
  ClusterQueueState* cluster_queue = nullptr;
  size_t cluster_queue_index = 0;  // in its `local_queues`
  std::vector<WorkloadState*> workloads;
  mutable bool changed = false;  // is in the list of those whose view may have changed
  absl::flat_hash_map<FlavorResource, quota::ExactSum> usage;
  int64_t reserving = 0;
  WaitCounts waiting;
  Consumption consumption;
  queue::ConsumedShare share;  // of what it has consumed; nothing where that is not looked at
};

// One flavor of a resource group; `cells` in the order of the group's resources.
struct FlavorOption {
  FlavorId flavor;
  std::vector<quota::CellId> cells;
};

struct GroupState {
  std::vector<ResourceId> resources;
  std::vector<FlavorOption> flavors;
};

// Why workloads of an equivalence are passed over: what the one was told that was looked at.
struct Bypass {
  std::shared_ptr<const Reason> reason;
  std::string failed_uid;
};

struct ClusterQueueState {
  std::string name;
  bool exists = false;
  bool changed = false;  // is in the list of those whose view may have changed
  ClusterQueue spec;
  CohortState* cohort = nullptr;
  size_t cohort_index = 0;         // in its `queues`
  Tree* tree = nullptr;            // null until it exists
  std::unique_ptr<Tree> own_tree;  // if it stands alone
  quota::NodeId node = quota::kNoNode;
  std::vector<GroupState> groups;
  absl::flat_hash_map<ResourceId, size_t> group_of;
  std::vector<FlavorId> flavors;  // that it refers to

  // Its namespace selector does not match everything.
  bool selective = false;
  bool waits_for_machines = false;  // somebody in it may, since they last gained
  bool passes_over = false;         // somebody in it may pass over flavors, since machines were last lost
  bool active = false;
  std::vector<Inactivity> inactive;
  std::shared_ptr<const Reason> inactive_reason;  // of all that wait in it; null while it is active

  queue::WaitingQueue waiting;
  absl::flat_hash_map<ResourceId, quota::ExactSum> pending;  // what those that wait ask for
  absl::flat_hash_map<uint64_t, Bypass> bypass;
  WallTime due;  // as in the index of due queues
  // A head that passes leave where it is although nothing changes, and until when it may stay there.
  const queue::Ticket* stalled_head = nullptr;
  WallTime stall_ends;
  bool stall_lost = false;  // it loses to others
  // When its parked workloads are to be looked at again, whatever happens; unset: they need not. And that it is so far.
  WallTime recheck_at;
  bool recheck_due = false;
  WallTime reserve_at;                  // when somebody in it may have machines reserved; unset: nobody
  std::vector<WorkloadState*> holders;  // whose claims are booked here
  VictimOrderSet preemptible;           // of those, who are not leaving
  int64_t lacking_places = 0;           // of them, who lack places on machines
  // Who last preempted others, and waits for them to leave: the first of a BestEffortFIFO queue.
  WorkloadState* preemptor = nullptr;
  absl::btree_set<WorkloadState*, ByRoomEnd> keeping;  // those that wait in it for whom room is kept
  std::vector<LocalQueueState*> local_queues;
  uint64_t capacity_generation = 0;  // grows whenever a claim of this queue changes
  // A StrictFIFO head that does not fit, and cannot until the tree gains something.
  const queue::Ticket* blocked_head = nullptr;
  uint64_t looked_at_in = 0;     // the last run of the engine that looked at its heads
  int64_t preemption_skips = 0;  // in that run
};

struct CohortState {
  std::string name;
  bool exists = false;
  Cohort spec;
  CohortState* declared_parent = nullptr;
  int64_t declared_children = 0;
  // As declared, but null for those on a cycle: each of them is the root of a tree that decides nothing.
  CohortState* parent = nullptr;
  bool on_cycle = false;
  std::vector<CohortState*> children;
  std::vector<ClusterQueueState*> queues;
  Tree* tree = nullptr;
  std::unique_ptr<Tree> own_tree;  // of a root
  quota::NodeId node = quota::kNoNode;
  std::vector<quota::CellId> limited;  // cells that have quota from this cohort's spec
};

// One tree of cohorts, or one ClusterQueue without cohort: all that shares quota, and nothing else.
struct Tree {
  Tree(std::string of_root, gang::TopologyBook* topology_book, NamespaceQuotas* namespace_quotas)
      : name(std::move(of_root)), topologies(topology_book), namespaces(namespace_quotas) {}

  std::string name;  // of the root
  bool of_cohort = false;
  bool on_cycle = false;
  quota::Ledger ledger;
  quota::FairShares shares{&ledger};
  gang::TopologyBook* topologies;                 // that all trees share
  NamespaceAsker namespaces;                      // what is lifted for it is for no other tree
  gang::RoomAsker* machines = nullptr;            // likewise; of the pass under way
  absl::flat_hash_set<const Room*> lifted_rooms;  // of any tree: not in the books, as far as this one sees
  absl::btree_set<ClusterQueueState*, ByName> queues;
  // In no order: what is done for one of them has no effect on another.
  absl::flat_hash_set<ClusterQueueState*> ready;    // active, with a head that may be looked at
  absl::flat_hash_set<ClusterQueueState*> parked;   // with parked workloads
  absl::flat_hash_set<ClusterQueueState*> blocked;  // with a blocked head
  absl::btree_set<WorkloadState*, ByUid> leaving;   // whose claims are in this tree
  absl::btree_set<WorkloadState*, ByUid> keeping;   // those for whom room is kept
  // There may be preemptors without the room that was promised to them: found so, moved, or their start was refused.
  bool restore_rooms = false;
  uint64_t outside = 0;  // grows with each change of workloads and quotas that nobody decided here
  // Parked workloads are to be looked at again at the next pass.
  bool flush_requested = false;
  // Likewise, as soon as passes decide nothing more: somebody is leaving who was not.
  bool flush_when_idle = false;
  uint64_t version = 0;           // grows with each change of usage or quota
  uint64_t quota_generation = 0;  // grows with each change of quota
};

struct ByRoot {
  bool operator()(const Tree* a, const Tree* b) const {
    return a->name != b->name ? a->name < b->name : a->of_cohort < b->of_cohort;
  }
};

}  // namespace muster::engine
