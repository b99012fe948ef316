// Whom a preemptor evicts. Expected victims are derived by hand from the rules (kueue_semantics 6.2); letters and
// numbers in names of tests are those of the users' complaints that they answer.
#include <catch2/catch.hpp>

#include "cluster.h"

namespace muster::engine {

namespace {

using Uids = std::vector<std::string>;
using Place = WorkloadView::Place;

ClusterQueue Preempting(ClusterQueue queue, PreemptionPolicy within,
                        PreemptionPolicy reclaim = PreemptionPolicy::kNever,
                        std::optional<int32_t> borrow_threshold = std::nullopt) {
  queue.within_cluster_queue = within;
  queue.reclaim_within_cohort = reclaim;
  if (borrow_threshold.has_value()) {
    queue.borrow_within_cohort = {PreemptionPolicy::kLowerPriority, borrow_threshold};
  }
  return queue;
}

Cohort CpuCohort(const std::string& name, const std::string& parent, int64_t nominal) {
  Cohort cohort;
  cohort.name = name;
  cohort.parent = parent;
  cohort.resource_groups = CpuQueue("", "", nominal).resource_groups;
  return cohort;
}

}  // namespace

TEST_CASE("in its own queue the lowest priority goes first, then who was admitted last, and no more than needed") {
  Cluster cluster;
  cluster.AddQueue(Preempting(CpuQueue("q", "", 6), PreemptionPolicy::kLowerPriority));
  cluster.Submit(Gang("old", "q", 2, 1, 1));
  REQUIRE(cluster.Run(At(100)) == Uids{"old"});
  cluster.Submit(Gang("new", "q", 2, 2, 1));
  REQUIRE(cluster.Run(At(101)) == Uids{"new"});
  cluster.Submit(Gang("equal", "q", 2, 3, 5));
  REQUIRE(cluster.Run(At(102)) == Uids{"equal"});

  cluster.Submit(Gang("high", "q", 2, 4, 5));
  CHECK(cluster.Run(At(103)).empty());
  REQUIRE(cluster.Preempted() == Uids{"new for high"});
  const Evict evict = cluster.Evictions()[0];
  CHECK(evict.reason == EvictionReason::kInClusterQueue);
  CHECK(evict.claim == cluster.claims["new"]);
  CHECK(evict.preemptor_cluster_queue == "q");
  CHECK(evict.preemptor_priority == 5);
  CHECK(evict.priority == 1);

  const std::optional<Reason> reason = cluster.HoldOf("high");
  REQUIRE(reason.has_value());
  CHECK(reason->code == ReasonCode::kWaitingForPreemptedWorkloads);
  CHECK(WaitCodeOf(*reason) == WaitCode::kPendingPreemption);
  REQUIRE(reason->obstacles.size() == 2);
  CHECK(reason->obstacles[0].missing == Amount{2});
  CHECK(reason->obstacles[1].count == 1);
  CHECK(reason->blockers == std::vector{Blocker{"new", "ns", "new"}});

  cluster.LeaveAll();
  CHECK(cluster.Run(At(104)) == Uids{"high"});
  CHECK(cluster.PlaceOf("new") == Place::kParked);
}

TEST_CASE("of equal priority only those go that queued later, where the policy says so") {
  Cluster cluster;
  cluster.AddQueue(Preempting(CpuQueue("q", "", 4), PreemptionPolicy::kLowerOrNewerEqualPriority));
  cluster.Submit(Gang("older", "q", 2, 10));
  cluster.Submit(Gang("newer", "q", 2, 30));
  REQUIRE(cluster.Run() == Uids{"older", "newer"});
  cluster.Submit(Gang("middle", "q", 2, 20));
  cluster.Run();
  CHECK(cluster.Preempted() == Uids{"newer for middle"});
}

TEST_CASE("B6: of borrowers of one priority the newest are reclaimed") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("a", "cohort", 4));
  cluster.AddQueue(Preempting(CpuQueue("b", "cohort", 4), PreemptionPolicy::kNever, PreemptionPolicy::kAny));
  for (int i = 0; i < 6; ++i) {
    const std::string uid = "a" + std::to_string(i);
    cluster.Submit(Gang(uid, "a", 1, 1 + i));
    REQUIRE(cluster.Run(At(100 + i)) == Uids{uid});
  }
  cluster.Submit(Gang("b", "b", 4, 50));
  cluster.Run(At(200));
  CHECK(cluster.Preempted() == Uids{"a5 for b", "a4 for b"});
  CHECK(cluster.Evictions()[0].reason == EvictionReason::kInCohortReclamation);
}

TEST_CASE("B12: ties on priority and time are broken by uid, whatever the order of arrival") {
  for (const bool reversed : {false, true}) {
    Cluster cluster;
    cluster.AddQueue(Preempting(CpuQueue("q", "", 3), PreemptionPolicy::kLowerPriority));
    Uids uids = {"x", "y", "z"};
    if (reversed) std::reverse(uids.begin(), uids.end());
    for (const std::string& uid : uids) cluster.Submit(Gang(uid, "q", 1, 1));
    REQUIRE(cluster.Run() == Uids{"x", "y", "z"});
    cluster.Submit(Gang("high", "q", 2, 5, 1));
    cluster.Run(At(101));
    CHECK(cluster.Preempted() == Uids{"x for high", "y for high"});
  }
}

TEST_CASE("B16: a gang goes as a whole, though less of it would do; what is left over is for others") {
  Cluster cluster;
  cluster.AddQueue(Preempting(CpuQueue("q", "", 4), PreemptionPolicy::kLowerPriority));
  cluster.Submit(Gang("gang", "q", 4, 1));
  REQUIRE(cluster.Run() == Uids{"gang"});
  cluster.Submit(Gang("small", "q", 1, 2, 1));
  cluster.Run();
  REQUIRE(cluster.Preempted() == Uids{"gang for small"});
  cluster.LeaveAll();
  cluster.Submit(Gang("next", "q", 3, 3));
  CHECK(cluster.Run() == Uids{"small", "next"});
  CHECK(cluster.PlaceOf("gang") == Place::kParked);
}

TEST_CASE("victims that turn out not to be needed stay") {
  Cluster cluster;
  cluster.AddQueue(Preempting(CpuQueue("q", "", 6), PreemptionPolicy::kLowerPriority));
  cluster.Submit(Gang("large", "q", 4, 1, 1));
  REQUIRE(cluster.Run(At(100)) == Uids{"large"});
  cluster.Submit(Gang("small", "q", 2, 2, 0));
  REQUIRE(cluster.Run(At(101)) == Uids{"small"});
  // The small one is the first candidate and not enough; with the large one gone, it may stay after all.
  cluster.Submit(Gang("high", "q", 4, 3, 2));
  cluster.Run(At(102));
  CHECK(cluster.Preempted() == Uids{"large for high"});
}

TEST_CASE("B19: a full cluster does not keep the owner of quota from reclaiming it") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("a", "cohort", 160));
  cluster.AddQueue(Preempting(CpuQueue("b", "cohort", 160), PreemptionPolicy::kNever, PreemptionPolicy::kAny));
  for (int i = 0; i < 40; ++i) cluster.Submit(Gang("a" + std::to_string(100 + i), "a", 8, 1 + i));
  REQUIRE(cluster.Run().size() == 40);
  cluster.Submit(Gang("b", "b", 8, 99));
  cluster.Run(At(101));
  REQUIRE(cluster.Evictions().size() == 1);
  cluster.LeaveAll();
  CHECK(cluster.Run(At(102)) == Uids{"b"});
}

TEST_CASE("B20: an earlier job of another member that cannot start is in no reclaimer's way") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("a", "cohort", 2));
  cluster.AddQueue(Preempting(CpuQueue("b", "cohort", 2), PreemptionPolicy::kNever, PreemptionPolicy::kAny));
  cluster.AddQueue(CpuQueue("c", "cohort", 0));
  cluster.Submit(Gang("borrower", "c", 4, 1));
  REQUIRE(cluster.Run() == Uids{"borrower"});
  cluster.Submit(Gang("stuck", "a", 2, 2));
  cluster.Submit(Gang("owner", "b", 2, 3));
  cluster.Run();
  CHECK(cluster.Preempted() == Uids{"borrower for owner"});
}

TEST_CASE("who uses no more than its nominal quota is never reclaimed from") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("a", "cohort", 4));
  cluster.AddQueue(Preempting(CpuQueue("b", "cohort", 4), PreemptionPolicy::kNever, PreemptionPolicy::kAny));
  cluster.Submit(Gang("a", "a", 4, 1));
  cluster.Submit(Gang("b", "b", 2, 2));
  REQUIRE(cluster.Run().size() == 2);
  cluster.Submit(Gang("more", "b", 4, 3, 9));
  cluster.Run();
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.HoldOf("more")->code == ReasonCode::kWaitingForQuota);
}

TEST_CASE("borrowing within the cohort takes those of lower priority, up to the threshold") {
  for (const int32_t threshold : {0, 1}) {
    Cluster cluster;
    cluster.AddQueue(CpuQueue("a", "cohort", 2));
    cluster.AddQueue(CpuQueue("spare", "cohort", 4));
    cluster.AddQueue(
        Preempting(CpuQueue("b", "cohort", 2), PreemptionPolicy::kNever, PreemptionPolicy::kLowerPriority, threshold));
    cluster.Submit(Gang("borrower", "a", 6, 1, 1));
    REQUIRE(cluster.Run() == Uids{"borrower"});
    // It needs 4, of which 2 are to be borrowed.
    cluster.Submit(Gang("high", "b", 4, 2, 5));
    cluster.Run();
    if (threshold == 0) {
      CHECK(cluster.Evictions().empty());
    } else {
      REQUIRE(cluster.Preempted() == Uids{"borrower for high"});
      CHECK(cluster.Evictions()[0].reason == EvictionReason::kInCohortReclaimWhileBorrowing);
    }
  }
}

TEST_CASE("within the quota of its own subtree it reclaims from outside whatever the priority") {
  Cluster cluster;
  cluster.Apply(CohortChanged{CpuCohort("left", "root", 4)});
  cluster.Apply(CohortChanged{CpuCohort("right", "root", 0)});
  // The queue has no quota itself; its cohort has.
  cluster.AddQueue(Preempting(CpuQueue("owner", "left", 0), PreemptionPolicy::kNever, PreemptionPolicy::kAny));
  cluster.AddQueue(CpuQueue("guest", "right", 0));
  cluster.Submit(Gang("guest", "guest", 4, 1, 9));
  REQUIRE(cluster.Run() == Uids{"guest"});
  cluster.Submit(Gang("owner", "owner", 4, 2, 0));
  cluster.Run();
  REQUIRE(cluster.Preempted() == Uids{"guest for owner"});
  CHECK(cluster.Evictions()[0].reason == EvictionReason::kInCohortReclamation);
}

TEST_CASE("C8: a flavor whose holders may not be evicted does not outrank one that fits by borrowing") {
  Cluster cluster;
  cluster.Apply(FlavorChanged{ResourceFlavor{"g", {}, {}, {}, ""}});
  ClusterQueue two = Preempting(CpuQueue("two", "cohort", 2), PreemptionPolicy::kLowerPriority);
  two.resource_groups[0].flavors.push_back({"g", {ResourceQuota{"cpu", Amount{0}, std::nullopt, std::nullopt}}});
  two.preference = FungibilityPreference::kPreemptionOverBorrowing;
  two.when_can_borrow = FungibilityPolicy::kTryNextFlavor;
  cluster.AddQueue(two);
  ClusterQueue lender = CpuQueue("lender", "cohort", 0);
  lender.resource_groups[0].flavors.push_back({"g", {ResourceQuota{"cpu", Amount{2}, std::nullopt, std::nullopt}}});
  cluster.AddQueue(lender);
  cluster.Submit(Gang("high", "two", 2, 1, 9));
  REQUIRE(cluster.Run() == Uids{"high"});
  cluster.Submit(Gang("low", "two", 2, 2, 0));
  REQUIRE(cluster.Run() == Uids{"low"});
  CHECK(cluster.engine.ViewWorkload("low")->admission.pod_sets[0].flavors ==
        std::vector<std::pair<std::string, std::string>>{{"cpu", "g"}});
}

TEST_CASE("A10: what is asked for at zero needs no room, so nobody is evicted for it") {
  Cluster cluster;
  ClusterQueue queue = Preempting(CpuQueue("q", "cohort", 4), PreemptionPolicy::kLowerPriority);
  queue.resource_groups[0].covered_resources.push_back("gpu");
  queue.resource_groups[0].flavors[0].resources.push_back({"gpu", Amount{2}, std::nullopt, std::nullopt});
  cluster.AddQueue(queue);
  Workload gpus = Gang("gpus", "q", 2, 1);
  gang::Shape shape;
  shape.requests["gpu"] = Amount{1};
  gpus.pod_sets[0].shape = std::make_shared<const gang::Shape>(shape);
  cluster.Submit(gpus);
  REQUIRE(cluster.Run() == Uids{"gpus"});
  // The quota of it is lowered under use.
  queue.generation = 2;
  queue.resource_groups[0].flavors[0].resources[1].nominal = Amount{1};
  cluster.Apply(ClusterQueueChanged{queue});
  Workload none = Gang("none", "q", 1, 2, 5);
  shape.requests["cpu"] = Amount{1};
  shape.requests["gpu"] = Amount{0};
  none.pod_sets[0].shape = std::make_shared<const gang::Shape>(shape);
  cluster.Submit(none);
  CHECK(cluster.Run() == Uids{"none"});
  CHECK(cluster.Evictions().empty());
}

TEST_CASE("an end of the search is told, and nobody is evicted") {
  EngineOptions options;
  options.victim_search_steps_max = 20;
  Cluster cluster(options);
  cluster.AddQueue(Preempting(CpuQueue("q", "", 40), PreemptionPolicy::kLowerPriority));
  for (int i = 0; i < 40; ++i) cluster.Submit(Gang("w" + std::to_string(100 + i), "q", 1, 1 + i));
  REQUIRE(cluster.Run().size() == 40);
  cluster.Submit(Gang("high", "q", 40, 50, 1));
  cluster.Run();
  CHECK(cluster.Evictions().empty());
  const std::optional<Reason> reason = cluster.HoldOf("high");
  REQUIRE(reason.has_value());
  CHECK(reason->code == ReasonCode::kWaitingForQuota);
  CHECK(reason->obstacles.back().kind == ObstacleKind::kVictimSearchEnded);
  CHECK(reason->obstacles.back().count == 20);
}

TEST_CASE("queues that have nobody to evict count for the end of the search as well") {
  const bool fair = GENERATE(false, true);
  const int idle = GENERATE(5, 30);
  CAPTURE(fair, idle);
  EngineOptions options;
  options.victim_search_steps_max = 20;
  if (fair) options.fair_sharing.emplace();
  Cluster cluster(options);
  cluster.AddQueue(Preempting(CpuQueue("owner", "c", 1), PreemptionPolicy::kNever, PreemptionPolicy::kAny));
  for (int i = 0; i < idle; ++i) cluster.AddQueue(CpuQueue("idle" + std::to_string(100 + i), "c", 0));
  cluster.AddQueue(CpuQueue("last", "c", 0));
  cluster.Submit(Gang("guest", "last", 1, 1));
  REQUIRE(cluster.Run() == Uids{"guest"});
  cluster.Submit(Gang("own", "owner", 1, 2));
  CHECK(cluster.Run(At(101)).empty());
  if (idle == 5) {
    CHECK(cluster.Preempted() == Uids{"guest for own"});
  } else {
    CHECK(cluster.Evictions().empty());
    REQUIRE(cluster.HoldOf("own").has_value());
    CHECK(cluster.HoldOf("own")->obstacles.back().kind == ObstacleKind::kVictimSearchEnded);
  }
}

TEST_CASE("a gang whose start has no answer yet is told to go once it has one") {
  Cluster cluster;
  cluster.AddQueue(Preempting(CpuQueue("q", "", 2), PreemptionPolicy::kLowerPriority));
  cluster.Submit(Gang("low", "q", 2, 1));
  const std::vector<Decision> first = cluster.engine.Decide(At(100));
  REQUIRE(first.size() == 1);
  const ClaimId claim = std::get<Admit>(first[0]).claim;
  cluster.Submit(Gang("high", "q", 2, 2, 1));
  cluster.Run(At(101));
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.engine.ViewWorkload("low")->preemptor_uid == "high");
  cluster.Apply(ClaimWritten{"low", claim});
  cluster.Run(At(102));
  CHECK(cluster.Preempted() == Uids{"low for high"});
}

namespace {

// a has nothing of its own, and holds what b and c own; both want it back in one pass, b first.
struct Reclaimers : Cluster {
  explicit Reclaimers(const std::vector<Workload>& holders) {
    AddQueue(CpuQueue("a", "cohort", 0));
    for (const std::string queue : {"b", "c"}) {
      AddQueue(Preempting(CpuQueue(queue, "cohort", 2), PreemptionPolicy::kNever, PreemptionPolicy::kLowerPriority));
    }
    int64_t at = 50;
    for (const Workload& holder : holders) {
      Submit(holder);
      REQUIRE(Run(At(at++)) == Uids{holder.uid});
    }
    Submit(Gang("b1", "b", 2, 10, 5));
    Submit(Gang("c1", "c", 2, 11, 5));
    Run(At(100));
  }
};

int64_t Skips(const Cluster& cluster, const std::string& queue) {
  return cluster.engine.ViewClusterQueue(queue).preemption_skips;
}

}  // namespace

TEST_CASE("of two who want one victim the second takes another, waits with the first, or is skipped") {
  using Made = std::vector<TargetRecomputations>;
  SECTION("another") {
    Reclaimers cluster({Gang("a1", "a", 2, 1), Gang("a2", "a", 2, 2)});
    CHECK(cluster.Preempted() == Uids{"a2 for b1", "a1 for c1"});
    CHECK(cluster.engine.TakeTargetRecomputations() == Made{{"c", RecomputedTargets::kNewTargets, 1}});
    CHECK(cluster.engine.TakeTargetRecomputations().empty());
    CHECK(Skips(cluster, "c") == 0);
  }
  SECTION("none: what the one leaves is enough for both") {
    Reclaimers cluster({Gang("a1", "a", 4, 1)});
    CHECK(cluster.Preempted() == Uids{"a1 for b1"});
    CHECK(cluster.engine.TakeTargetRecomputations() == Made{{"c", RecomputedTargets::kDeferredFit, 1}});
    CHECK(Skips(cluster, "c") == 0);
  }
  SECTION("none: the other has too high a priority") {
    Reclaimers cluster({Gang("a1", "a", 2, 1, 9), Gang("a2", "a", 2, 2)});
    CHECK(cluster.Preempted() == Uids{"a2 for b1"});
    CHECK(cluster.engine.TakeTargetRecomputations() == Made{{"c", RecomputedTargets::kSkipped, 1}});
    CHECK(Skips(cluster, "b") == 0);
    CHECK(Skips(cluster, "c") == 1);
    // Looked at again, it has nobody to preempt: that is no skip.
    cluster.LeaveAll();
    CHECK(cluster.Run(At(101)) == Uids{"b1"});
    CHECK(Skips(cluster, "c") == 0);
    CHECK(cluster.engine.TakeTargetRecomputations().empty());
  }
}

TEST_CASE("with a closed preemption gate nobody is evicted for it; it starts where there is room, or once it may") {
  const QueueingStrategy strategy = GENERATE(QueueingStrategy::kBestEffortFIFO, QueueingStrategy::kStrictFIFO);
  Cluster cluster;
  ClusterQueue queue = Preempting(CpuQueue("q", "", 4), PreemptionPolicy::kLowerPriority);
  queue.queueing_strategy = strategy;
  cluster.AddQueue(queue);
  cluster.Submit(Gang("low", "q", 3, 1));
  REQUIRE(cluster.Run() == Uids{"low"});
  Workload gated = Gang("gated", "q", 2, 2, 5);
  gated.preemption_gates = {"first", "second"};
  cluster.Submit(gated);
  CHECK(cluster.Run().empty());
  CHECK(cluster.Preempted().empty());
  const std::optional<Reason> reason = cluster.HoldOf("gated");
  REQUIRE(reason.has_value());
  CHECK(reason->code == ReasonCode::kAdmissionGated);
  CHECK(WaitCodeOf(*reason) == WaitCode::kPreemptionGated);
  CHECK(DecisiveObstacle(*reason)->names == std::vector<std::string>{"first", "second"});
  CHECK(Skips(cluster, "q") == 0);
  // Nothing is kept for it: what fits beside it starts, where that may pass it.
  cluster.Submit(Gang("small", "q", 1, 3));
  const bool passes = strategy == QueueingStrategy::kBestEffortFIFO;
  CHECK(cluster.Run() == (passes ? Uids{"small"} : Uids{}));
  CHECK_FALSE(cluster.engine.RunPass(At(101)).more);

  SECTION("one gate open, then both") {
    gated.preemption_gates = {"second"};
    cluster.Submit(gated);
    cluster.Run(At(102));
    CHECK(cluster.Preempted().empty());
    gated.preemption_gates = {};
    cluster.Submit(gated);
    cluster.Run(At(103));
    CHECK(cluster.Preempted() == Uids{"low for gated"});
  }
  SECTION("room") {
    cluster.Finish("low");
    CHECK(cluster.Run(At(102)) == (passes ? Uids{"gated"} : Uids{"gated", "small"}));
  }
  SECTION("one like it without gates is not taken for its like") {
    Workload open = Gang("open", "q", 2, 1, 5);
    cluster.Submit(open);
    cluster.Run(At(102));
    CHECK(cluster.Preempted() == Uids{"low for open"});
  }
}

TEST_CASE("a gate that is closed keeps nobody from waiting for those who go for others") {
  Cluster cluster;
  cluster.AddQueue(Preempting(CpuQueue("q", "", 4), PreemptionPolicy::kLowerPriority));
  cluster.Submit(Gang("low", "q", 4, 1));
  REQUIRE(cluster.Run() == Uids{"low"});
  cluster.Submit(Gang("high", "q", 2, 2, 5));
  cluster.Run(At(101));
  REQUIRE(cluster.Preempted() == Uids{"low for high"});
  Workload gated = Gang("gated", "q", 2, 3, 5);
  gated.preemption_gates = {"gate"};
  cluster.Submit(gated);
  cluster.Run(At(102));
  CHECK(cluster.HoldOf("gated")->code == ReasonCode::kWaitingForPreemptedWorkloads);
  cluster.Leave("low");
  Uids admitted = cluster.Run(At(103));
  std::sort(admitted.begin(), admitted.end());
  CHECK(admitted == Uids{"gated", "high"});
}

}  // namespace muster::engine
