// Who goes for whom with fair sharing: by hand after kueue_semantics 6.3, users' pains B3, B11 and B17, and random
// trees in which evictions must come to an end.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "cluster.h"
#include "draws.h"

namespace muster::engine {

namespace {

using Names = std::vector<std::string>;

EngineOptions Fair(std::vector<PreemptionStrategy> strategies = FairSharing{}.preemption_strategies) {
  EngineOptions options;
  options.fair_sharing.emplace().preemption_strategies = std::move(strategies);
  return options;
}

const char* ReasonName(EvictionReason reason) {
  if (reason == EvictionReason::kInClusterQueue) return "own";
  if (reason == EvictionReason::kInCohortReclamation) return "reclaim";
  return reason == EvictionReason::kInCohortFairSharing ? "fair" : "other";
}

// Claims back whatever its policy lets it.
ClusterQueue Greedy(const std::string& name, const std::string& cohort, int64_t nominal, int64_t weight_halves = 2) {
  ClusterQueue queue = CpuQueue(name, cohort, nominal);
  queue.reclaim_within_cohort = PreemptionPolicy::kAny;
  queue.fair_weight = {weight_halves * 500'000'000};
  return queue;
}

Cohort WithQuota(const std::string& name, int64_t nominal, const std::string& parent = "") {
  Cohort cohort;
  cohort.name = name;
  cohort.parent = parent;
  cohort.resource_groups = CpuQueue("", "", nominal).resource_groups;
  return cohort;
}

// The pods of whoever is told to go are gone at once.
struct World : Cluster {
  using Cluster::Cluster;

  // Until nothing more happens. RETURNS: who went, as "VICTIM REASON for PREEMPTOR", in order.
  Names Settle() {
    Names evicted;
    for (int round = 0; round < 200; ++round) {
      const bool admitted = !Run(At(++now)).empty();
      const std::vector<Evict> evictions = Evictions();
      for (const Evict& evict : evictions) {
        evicted.push_back(evict.uid + " " + ReasonName(evict.reason) + " for " + evict.preemptor_uid);
        Apply(ClaimLeaving{evict.uid, evict.claim});
        Apply(ClaimGone{evict.uid, evict.claim});
      }
      if (!admitted && evictions.empty()) return evicted;
    }
    evicted.emplace_back("goes on for ever");
    return evicted;
  }
  Names SubmitAndSettle(const Workload& workload) {
    Submit(workload);
    return Settle();
  }
  static bool Ended(const Names& evicted) { return evicted.empty() || evicted.back() != "goes on for ever"; }
  bool Holds(const std::string& uid) const { return PlaceOf(uid) == WorkloadView::Place::kHolding; }
  int64_t now = 100;
};

}  // namespace

TEST_CASE("B3: two queues of equal weight do not evict each other for ever") {
  using enum PreemptionStrategy;
  for (const auto& strategies : {std::vector{kLessThanOrEqualToFinalShare}, std::vector{kLessThanInitialShare},
                                 std::vector{kLessThanOrEqualToFinalShare, kLessThanInitialShare}}) {
    World world(Fair(strategies));
    world.Apply(CohortChanged{WithQuota("c", 8)});
    world.AddQueue(Greedy("p1", "c", 0));
    world.AddQueue(Greedy("p2", "c", 0));
    for (const char* uid : {"a1", "a2", "a3", "a4"}) CHECK(world.SubmitAndSettle(Gang(uid, "p1", 2)).empty());
    CHECK(world.SubmitAndSettle(Gang("six", "p2", 6, 2)).empty());
    CHECK(world.SubmitAndSettle(Gang("five", "p2", 5, 3)).empty());
    // 4/8 on both sides in the end. Those that came last go.
    CHECK(world.SubmitAndSettle(Gang("four", "p2", 4, 4)) == Names{"a4 fair for four", "a3 fair for four"});
    CHECK(world.Holds("four"));
    CHECK(world.SubmitAndSettle(Gang("three", "p2", 3, 5)).empty());
    CHECK(world.Settle().empty());
    for (const char* uid : {"six", "five", "three", "a3", "a4"}) CHECK_FALSE(world.Holds(uid));
  }
}

TEST_CASE("B11: what belongs to a queue is claimed back whatever else it borrows") {
  World world(Fair());
  const auto with_gpu = [](ClusterQueue queue, int64_t nominal) {
    queue.resource_groups[0].covered_resources.emplace_back("gpu");
    queue.resource_groups[0].flavors[0].resources.push_back({"gpu", Amount{nominal}, std::nullopt, std::nullopt});
    return queue;
  };
  const auto asking = [](const std::string& uid, const std::string& queue, const std::string& resource,
                         int64_t amount) {
    Workload workload = Gang(uid, queue, 1);
    gang::Shape shape;
    shape.requests[resource] = Amount{amount};
    workload.pod_sets[0].shape = std::make_shared<const gang::Shape>(std::move(shape));
    return workload;
  };
  world.AddQueue(with_gpu(Greedy("lender", "c", 10), 0));
  world.AddQueue(with_gpu(Greedy("a", "c", 0), 5));
  world.AddQueue(with_gpu(Greedy("b", "c", 0), 0));
  CHECK(world.SubmitAndSettle(asking("cpus", "a", "cpu", 10)).empty());  // 10 of 10: a share of 1
  CHECK(world.SubmitAndSettle(asking("gpus", "b", "gpu", 4)).empty());   // 4 of 5
  CHECK(world.SubmitAndSettle(asking("mine", "a", "gpu", 3)) == Names{"gpus reclaim for mine"});
  CHECK(world.Holds("mine"));
  // Above its own quota its share counts, and it is the greater one.
  world.Finish("mine");
  CHECK(world.Settle().empty());
  CHECK(world.Holds("gpus"));
  CHECK(world.SubmitAndSettle(asking("more", "a", "gpu", 5)) == Names{"gpus reclaim for more"});
}

TEST_CASE("B17: whoever is furthest above pays first") {
  World world(Fair());
  world.Apply(CohortChanged{WithQuota("c", 14)});
  for (const int64_t over : {1, 4, 9}) {
    const std::string queue = "q" + std::to_string(over);
    world.AddQueue(Greedy(queue, "c", 0));
    for (int64_t i = 0; i < over; ++i) world.Submit(Gang(queue + "-" + std::to_string(i), queue, 1, i));
  }
  world.AddQueue(Greedy("new", "c", 0));
  CHECK(world.Settle().empty());
  CHECK(world.SubmitAndSettle(Gang("w", "new", 3)).size() == 3);
  CHECK(world.Reserved("q9") == Amount{6});
  CHECK(world.SubmitAndSettle(Gang("x", "new", 1)).size() == 1);
  CHECK(world.Reserved("q9") == Amount{5});
  CHECK(world.Reserved("q4") == Amount{4});
}

TEST_CASE("shares are by weight: the greater share pays, not the greater usage") {
  World world(Fair());
  world.Apply(CohortChanged{WithQuota("c", 9)});
  world.AddQueue(Greedy("heavy", "c", 0, 6));  // 6/9/3
  world.AddQueue(Greedy("light", "c", 0, 2));  // 3/9
  world.AddQueue(Greedy("new", "c", 0, 2));
  for (int i = 0; i < 6; ++i) world.Submit(Gang("h" + std::to_string(i), "heavy", 1));
  for (int i = 0; i < 3; ++i) world.Submit(Gang("l" + std::to_string(i), "light", 1));
  CHECK(world.Settle().empty());
  world.Submit(Gang("w", "new", 1));
  const Names evicted = world.Settle();
  REQUIRE(evicted.size() == 1);
  CHECK(evicted[0].starts_with("l"));
}

TEST_CASE("with weight 0 a queue takes from nobody but its like, and pays before all others") {
  World world(Fair());
  world.Apply(CohortChanged{WithQuota("c", 4)});
  world.AddQueue(Greedy("zero", "c", 0, 0));
  world.AddQueue(Greedy("one", "c", 0));
  world.AddQueue(Greedy("new", "c", 0));
  for (const char* uid : {"z1", "z2"}) CHECK(world.SubmitAndSettle(Gang(uid, "zero", 1)).empty());
  for (const char* uid : {"a1", "a2"}) CHECK(world.SubmitAndSettle(Gang(uid, "one", 1)).empty());
  CHECK(world.SubmitAndSettle(Gang("z3", "zero", 1, 9)).empty());
  CHECK(world.SubmitAndSettle(Gang("w", "new", 1)) == Names{"z2 fair for w"});
}

TEST_CASE("the strategies differ for a victim that is large") {
  using enum PreemptionStrategy;
  const auto evicted_by = [](const std::vector<PreemptionStrategy>& strategies) {
    World world(Fair(strategies));
    world.Apply(CohortChanged{WithQuota("c", 8)});
    world.AddQueue(Greedy("a", "c", 0));
    world.AddQueue(Greedy("b", "c", 0));
    CHECK(world.SubmitAndSettle(Gang("large", "a", 6)).empty());
    return world.SubmitAndSettle(Gang("w", "b", 5));
  };
  // Without it `a` has nothing, and `b` 5/8; with it `a` has 6/8.
  CHECK(evicted_by({kLessThanOrEqualToFinalShare}).empty());
  CHECK(evicted_by({kLessThanInitialShare}) == Names{"large fair for w"});
  CHECK(evicted_by({kLessThanOrEqualToFinalShare, kLessThanInitialShare}) == Names{"large fair for w"});
}

TEST_CASE("shares are compared below the lowest cohort above both") {
  World world(Fair());
  world.Apply(CohortChanged{WithQuota("root", 8)});
  for (const char* name : {"left", "right"}) {
    world.Apply(CohortChanged{WithQuota(name, 0, "root")});
  }
  world.AddQueue(Greedy("l1", "left", 0));
  world.AddQueue(Greedy("l2", "left", 0));
  world.AddQueue(Greedy("r", "right", 0));
  for (int i = 0; i < 4; ++i) world.Submit(Gang("r" + std::to_string(i), "r", 1));
  for (int i = 0; i < 4; ++i) world.Submit(Gang("l" + std::to_string(i), "l1", 1));
  CHECK(world.Settle().empty());
  // `left` has its half, so l2 gets nothing of what `right` has, but half of what l1 has.
  world.Submit(Gang("w", "l2", 2));
  const Names evicted = world.Settle();
  REQUIRE(evicted.size() == 2);
  CHECK((evicted[0].starts_with("l") && evicted[1].starts_with("l")));
  CHECK(world.Reserved("r") == Amount{4});
}

TEST_CASE("policies say who may go at all") {
  for (const bool same_priority : {false, true}) {
    World world(Fair());
    world.Apply(CohortChanged{WithQuota("c", 4)});
    ClusterQueue cautious = Greedy("b", "c", 0);
    cautious.reclaim_within_cohort = PreemptionPolicy::kLowerPriority;
    cautious.within_cluster_queue = PreemptionPolicy::kLowerPriority;
    world.AddQueue(Greedy("a", "c", 0));
    world.AddQueue(cautious);
    for (int i = 0; i < 4; ++i) world.Submit(Gang("a" + std::to_string(i), "a", 1));
    CHECK(world.Settle().empty());
    const Names evicted = world.SubmitAndSettle(Gang("w", "b", 1, 1, same_priority ? 0 : 1));
    CHECK(evicted.size() == (same_priority ? 0 : 1));
  }
}

// ---- no end is a fault ----------------------------------------------------------------------------

// Each eviction lowers, below the lowest cohort above both, the greater of two shares, or is of a lower priority within
// a queue, or takes back what is the preemptor's own: none of these can go round.
TEST_CASE("in any tree and with any policies evictions come to an end") {
  CHECK(rc::check([] {
    using enum PreemptionPolicy;
    const auto strategies =
        *rc::gen::element(std::vector{PreemptionStrategy::kLessThanOrEqualToFinalShare},
                          std::vector{PreemptionStrategy::kLessThanInitialShare}, FairSharing{}.preemption_strategies);
    World world(Fair(strategies));
    const int cohorts = Draw(1, 4);
    for (int i = 0; i < cohorts; ++i) {
      const std::string parent = i == 0 ? "" : "c" + std::to_string(Draw(0, i));
      Cohort cohort = WithQuota("c" + std::to_string(i), Draw<int64_t>(0, 9), parent);
      cohort.fair_weight = {Draw<int64_t>(0, 4) * 500'000'000};
      world.Apply(CohortChanged{cohort});
    }
    const int queues = Draw(2, 6);
    for (int i = 0; i < queues; ++i) {
      const std::string cohort = "c" + std::to_string(Draw(0, cohorts));
      const int64_t nominal = Draw<int64_t>(0, 5);
      ClusterQueue queue = Greedy("q" + std::to_string(i), cohort, nominal, Draw<int64_t>(0, 5));
      queue.reclaim_within_cohort = *rc::gen::element(kAny, kAny, kLowerPriority, kNever);
      queue.within_cluster_queue = *rc::gen::element(kNever, kLowerPriority, kLowerOrNewerEqualPriority);
      if (OneIn(3)) queue.queueing_strategy = QueueingStrategy::kStrictFIFO;
      world.AddQueue(queue);
    }
    const int workloads = Draw(1, 20);
    for (int i = 0; i < workloads; ++i) {
      const std::string queue = "q" + std::to_string(Draw(0, queues));
      const int pods = Draw(1, 7);
      world.Submit(Gang("w" + std::to_string(i), queue, pods, i, Draw(0, 3)));
      if (OneIn(2)) continue;
      const Names evicted = world.Settle();
      RC_ASSERT(World::Ended(evicted));
    }
    const Names evicted = world.Settle();
    RC_ASSERT(World::Ended(evicted));
  }));
}

}  // namespace muster::engine
