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
#include "muster/core/time.h"
#include "muster/engine/engine.h"
#include "muster/engine/objects.h"
#include "muster/engine/reason.h"
#include "muster/queue/waiting_queue.h"
#include "muster/quota/exact_sum.h"
#include "muster/quota/ledger.h"

namespace muster::engine {

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

// From where attempts have started since the tree last changed. Starting from there again changes nothing.
struct ScanHistory {
  uint64_t tree_version = 0;
  absl::flat_hash_set<uint64_t> starts;
};

struct Claim {
  ClaimId id;
  ClaimState state = ClaimState::kPlanned;
  Admission admission;
  WallTime reserved_at;
  bool eviction_issued = false;
  ClusterQueueState* queue = nullptr;  // where it is (or, if that does not exist, will be) booked
  size_t queue_index = 0;              // in its `holders`
  // What is booked now: the admission, less what is not needed any more. Never more than the admission; what was given
  // back is booked again if its pods run after all, even where it is another's by now.
  std::vector<std::pair<FlavorResource, Amount>> usage;
};

struct WorkloadState {
  Workload spec;                         // without `held`: what it holds is `claim`
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
  std::string start_refused;  // message of the last refusal, until its back-off is over

  std::shared_ptr<const Reason> reason;  // null: never looked at
  // As counted in its LocalQueue; unset: it does not wait.
  std::optional<std::pair<ReasonCode, WaitCode>> counted;
  uint64_t reason_hash = 0;
  uint64_t reported_hash = 0;   // of the reason in the last Hold
  bool reason_changed = false;  // is in the list of those to report
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
  // When the tree's parked workloads are to be looked at again, whatever happens; unset: they need not.
  WallTime recheck_at;
  std::vector<WorkloadState*> holders;  // whose claims are booked here
  std::vector<LocalQueueState*> local_queues;
  uint64_t capacity_generation = 0;  // grows whenever a claim of this queue changes
  // A StrictFIFO head that does not fit, and cannot until the tree gains something.
  const queue::Ticket* blocked_head = nullptr;
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
  std::string name;  // of the root
  bool of_cohort = false;
  bool on_cycle = false;
  quota::Ledger ledger;
  absl::btree_set<ClusterQueueState*, ByName> queues;
  // In no order: what is done for one of them has no effect on another.
  absl::flat_hash_set<ClusterQueueState*> ready;    // active, with a head that may be looked at
  absl::flat_hash_set<ClusterQueueState*> parked;   // with parked workloads
  absl::flat_hash_set<ClusterQueueState*> blocked;  // with a blocked head
  // Parked workloads are to be looked at again at the next pass.
  bool flush_requested = false;
  uint64_t version = 0;           // grows with each change of usage or quota
  uint64_t quota_generation = 0;  // grows with each change of quota
};

struct ByRoot {
  bool operator()(const Tree* a, const Tree* b) const {
    return a->name != b->name ? a->name < b->name : a->of_cohort < b->of_cohort;
  }
};

}  // namespace muster::engine
