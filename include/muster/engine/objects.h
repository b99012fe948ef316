// The queue objects as the engine sees them: decoded, defaulted, amounts in base units. Field meanings are
// those of the API fields of the same name (kueue_semantics 1.2-1.5).
//
// Threading: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/core/amount.h"
#include "muster/core/labels.h"
#include "muster/core/time.h"
#include "muster/engine/fair_sharing.h"
#include "muster/engine/reason.h"
#include "muster/gang/pod_charge.h"
#include "muster/gang/shape.h"
#include "muster/gang/topology.h"

namespace muster::engine {

struct ResourceFlavor {
  std::string name;
  Labels node_labels;
  std::vector<gang::Taint> node_taints;
  std::vector<gang::Toleration> tolerations;
  std::string topology_name;
  std::string misconfigured{};  // the first field that cannot be read, and its value; empty: none
  bool autoscaled = false;      // machines come once pods wait for them: what there is keeps nobody out
  friend bool operator==(const ResourceFlavor&, const ResourceFlavor&) = default;
};

struct ResourceQuota {
  std::string resource;
  Amount nominal;
  std::optional<Amount> borrowing_limit;  // absent: no limit
  std::optional<Amount> lending_limit;    // absent: all of nominal may be lent
  friend bool operator==(const ResourceQuota&, const ResourceQuota&) = default;
};

struct FlavorQuotas {
  std::string flavor;
  std::vector<ResourceQuota> resources;
  friend bool operator==(const FlavorQuotas&, const FlavorQuotas&) = default;
};

struct ResourceGroup {
  std::vector<std::string> covered_resources;
  std::vector<FlavorQuotas> flavors;  // in the order they are tried
  friend bool operator==(const ResourceGroup&, const ResourceGroup&) = default;
};

enum class StopPolicy : uint8_t { kNone, kHold, kHoldAndDrain };
enum class QueueingStrategy : uint8_t { kBestEffortFIFO, kStrictFIFO };
enum class PreemptionPolicy : uint8_t { kNever, kLowerPriority, kLowerOrNewerEqualPriority, kAny };
enum class FungibilityPolicy : uint8_t { kMayStopSearch, kTryNextFlavor };
enum class FungibilityPreference : uint8_t { kUnset, kBorrowingOverPreemption, kPreemptionOverBorrowing };

// fairSharing.weight, exact: the quantity in nano units (1 = 1'000'000'000); never negative.
struct FairWeight {
  int64_t nanos = 1'000'000'000;
  friend bool operator==(FairWeight, FairWeight) = default;
};

struct BorrowWithinCohort {
  PreemptionPolicy policy = PreemptionPolicy::kNever;  // kNever or kLowerPriority
  std::optional<int32_t> max_priority_threshold;
  friend bool operator==(const BorrowWithinCohort&, const BorrowWithinCohort&) = default;
};

struct AdmissionCheck {
  std::string name;
  std::string controller_name;
  bool active = false;  // by its condition Active
  friend bool operator==(const AdmissionCheck&, const AdmissionCheck&) = default;
};

struct AdmissionCheckRule {
  std::string name;
  std::vector<std::string> on_flavors;  // empty: all
  friend bool operator==(const AdmissionCheckRule&, const AdmissionCheckRule&) = default;
};

struct ClusterQueue {
  std::string name;
  int64_t generation = 0;
  bool terminating = false;
  std::string cohort;  // empty: stands alone
  std::vector<ResourceGroup> resource_groups;
  QueueingStrategy queueing_strategy = QueueingStrategy::kBestEffortFIFO;
  std::optional<LabelSelector> namespace_selector;  // absent: matches no namespace
  FungibilityPolicy when_can_borrow = FungibilityPolicy::kMayStopSearch;
  FungibilityPolicy when_can_preempt = FungibilityPolicy::kTryNextFlavor;
  FungibilityPreference preference = FungibilityPreference::kUnset;
  PreemptionPolicy reclaim_within_cohort = PreemptionPolicy::kNever;
  BorrowWithinCohort borrow_within_cohort;
  PreemptionPolicy within_cluster_queue = PreemptionPolicy::kNever;
  std::vector<AdmissionCheckRule> admission_checks;
  StopPolicy stop_policy = StopPolicy::kNone;
  FairWeight fair_weight;
  // admissionScope UsageBasedAdmissionFairSharing: of equals, those go first whose LocalQueue has consumed less.
  bool usage_based_admission = false;
  std::string misconfigured{};  // as above; an amount that cannot be read is zero
  friend bool operator==(const ClusterQueue&, const ClusterQueue&) = default;
};

struct Cohort {
  std::string name;
  std::string parent;  // empty: root
  std::vector<ResourceGroup> resource_groups;
  FairWeight fair_weight;
  std::string misconfigured{};  // as above
  friend bool operator==(const Cohort&, const Cohort&) = default;
};

struct LocalQueue {
  std::string ns;
  std::string name;
  std::string cluster_queue;
  StopPolicy stop_policy = StopPolicy::kNone;
  FairWeight fair_weight;
  // As its status says. Read only where the engine knows of nothing that it consumed.
  std::optional<ConsumedResources> consumed{};
  std::string misconfigured{};  // as above
  friend bool operator==(const LocalQueue&, const LocalQueue&) = default;
};

struct Namespace {
  std::string name;
  Labels labels;
  friend bool operator==(const Namespace&, const Namespace&) = default;
};

// One limit of a ResourceQuota, as the API server enforces it.
struct NamespaceQuotaLimit {
  std::string name;  // as in spec.hard: "requests.cpu", "pods"
  Amount hard;
  Amount used;  // as its status says
  friend bool operator==(const NamespaceQuotaLimit&, const NamespaceQuotaLimit&) = default;
};

// A ResourceQuota, which limits what pods of one namespace ask for; not to be mixed up with the quota of a
// ClusterQueue.
struct NamespaceQuota {
  std::string ns;
  std::string name;
  std::vector<NamespaceQuotaLimit> limits;  // sorted by name
  std::vector<gang::QuotaScope> scopes;     // it counts the pods that all of them match
  friend bool operator==(const NamespaceQuota&, const NamespaceQuota&) = default;
};

// Identifies one admission of one workload. `epoch` is the leader's term, so that no two leaders ever give
// the same id; zero epoch and sequence is no claim.
struct ClaimId {
  uint64_t epoch = 0;
  uint64_t sequence = 0;
  friend auto operator<=>(const ClaimId&, const ClaimId&) = default;
  bool IsSet() const { return epoch != 0 || sequence != 0; }
  // "epoch-sequence", as written in records.
  std::string ToString() const;
  static std::optional<ClaimId> Parse(std::string_view text);
};

// The life of a claim. It holds quota from kPlanned until it is kGone, and passes the states in this
// order; only a refused write goes from kPlanned to kGone at once.
enum class ClaimState : uint8_t {
  kPlanned,  // decided; the write that makes it true has no answer yet
  kWritten,  // the API server has it
  kActive,   // pods were seen
  kLeaving,  // stopped; pods may still run
  kGone,
};

struct PodSetAssignment {
  std::string name;
  int32_t count = 0;
  std::vector<std::pair<std::string, std::string>> flavors;  // resource -> flavor, sorted by resource
  std::vector<std::pair<std::string, Amount>> usage;         // resource -> total of all pods, sorted by resource
  std::optional<gang::TopologyAssignment> topology{};        // where the pods go; absent: wherever the scheduler likes
  friend bool operator==(const PodSetAssignment&, const PodSetAssignment&) = default;
};

struct Admission {
  std::string cluster_queue;
  std::vector<PodSetAssignment> pod_sets;  // in the order of the workload's pod sets
  friend bool operator==(const Admission&, const Admission&) = default;
};

// The checks of the ClusterQueue that have to be passed, sorted by name. `admission` null: what is known before there
// is one, those for all flavors; else also those for a flavor that was assigned. Source: kueue_semantics 5.5.
std::vector<std::string> ApplicableChecks(const ClusterQueue& queue, const Admission* admission);

struct PodSet {
  std::string name;
  int32_t count = 0;                 // pods still needed (after reclaimable pods)
  std::optional<int32_t> min_count;  // partial admission
  gang::ShapePtr shape;              // never null
  gang::TopologyRequest topology{};
};

enum class EvictionReason : uint8_t {
  kInClusterQueue,
  kInCohortReclamation,
  kInCohortFairSharing,
  kInCohortReclaimWhileBorrowing,
  kClusterQueueStopped,
  kLocalQueueStopped,
  kDeactivated,
  kNodeFailures,     // nodes that it has places on have failed, and there are no others, or were none for too long
  kDefragmentation,  // it has places elsewhere, and somebody who waits only where it is
};

// An admission that the objects already show: found at start-up, or made true by others.
struct HeldClaim {
  ClaimId id;                               // REQUIRES: set, and of no other workload
  ClaimState state = ClaimState::kWritten;  // kWritten, kActive or kLeaving
  Admission admission;
  WallTime reserved_at;
  bool pods_ready = false;  // as of ClaimPodsReady
  // Why it is leaving, where an engine decided so; for whom, where it was preempted: the room that it frees is kept for
  // that workload again; and since when.
  std::optional<EvictionReason> evicted{};
  std::string preemptor_uid{};
  WallTime evicted_at{};
  bool admitted = true;  // false: reserved, and its checks are still to be passed
};

// How a workload lost its last claim. Objects tell the time in whole seconds, so that finer differences say nothing.
struct PastEviction {
  WallTime at;
  std::string preemptor_uid;  // empty unless preempted
  bool moved = false;         // by kDefragmentation
};

// Its pods were not ready in time with that flavor, `count` times.
struct FlavorTimeOuts {
  std::string pod_set;
  std::string flavor;
  int32_t count = 0;
  friend bool operator==(const FlavorTimeOuts&, const FlavorTimeOuts&) = default;
};

// One gang. Identified by `uid`; everything else may change from one WorkloadChanged to the next.
struct Workload {
  std::string uid;  // of the queued object (a Job's uid); the last tie-break of the queue order
  std::string ns;
  std::string name;  // for messages
  std::string local_queue;
  int64_t generation = 0;  // of the object that was decoded; echoed in decisions
  int32_t priority = 0;
  std::string priority_class;
  WallTime queue_time;   // orders equals; the creation time unless an eviction set it later
  bool active = true;    // false: deactivated, must not be queued
  std::string gated_by;  // who holds it back: must not be queued before they let go; empty: nobody
  // Those of its gates that are closed, sorted: it must not evict others for itself; empty: it may.
  std::vector<std::string> preemption_gates;
  // Not to be tried before this time (a back-off); unset: at once.
  WallTime not_before;
  // It is stopped when it has run for so long since its admission, if not before; unset: it may run for ever.
  std::optional<Duration> max_execution{};
  // While it holds a claim its pod counts may change (kueue_semantics 2.10): what it has fewer is free for good, what
  // it has more waits like a workload of its own, and is added to the claim. Not where its places in topologies would
  // have to follow: there it is as if it were not elastic.
  bool elastic = false;
  WallTime growth_queue_time{};  // of the pods that it has more; unset: its own
  std::vector<PodSet> pod_sets;
  // What was found wrong with it while it was decoded (kRequestsExceedLimits, kLimitRange, kRuntimeClassMissing): it
  // is never admitted like this, and waits as kMisconfigured.
  std::vector<Obstacle> invalid;
  std::optional<HeldClaim> held;
  // Of one that holds nothing, as its objects show it: what is kept for its preemptor is not for it. Looked at when the
  // workload is first told of; from then on the engine knows better.
  std::optional<PastEviction> last_eviction{};
  // Sorted by pod set and flavor. Of the flavors that a pod set could have, if need be once others have left, those are
  // passed over in which it was out of time more often than in another. Not looked at for more pods of what runs.
  std::vector<FlavorTimeOuts> timed_out{};
  // It may be stopped and started elsewhere, so that another finds its places (EngineOptions::defragment_after).
  bool movable = false;
};

}  // namespace muster::engine
