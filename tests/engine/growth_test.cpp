// Elastic workloads: what a claim holds while its pod counts change, and what more of them wait for
// (kueue_semantics 2.10).
#include <algorithm>
#include <catch2/catch.hpp>

#include "cluster.h"

namespace muster::engine {

using Uids = std::vector<std::string>;

namespace {

Workload Elastic(const std::string& uid, const std::string& queue, int32_t pods, int64_t created = 1,
                 int32_t priority = 0) {
  Workload workload = Gang(uid, queue, pods, created, priority);
  workload.elastic = true;
  return workload;
}

int32_t HeldBy(const Cluster& cluster, const std::string& uid) {
  return cluster.engine.ViewWorkload(uid)->admission.pod_sets.at(0).count;
}

ReasonCode WaitsFor(const Cluster& cluster, const std::string& uid) {
  const std::optional<Reason> growth = cluster.engine.ViewWorkload(uid)->growth;
  REQUIRE(growth.has_value());
  return growth->code;
}

const Grow& LastGrow(const Cluster& cluster) { return std::get<Grow>(cluster.last.back()); }

ClusterQueue TwoFlavors(int64_t f, int64_t g) {
  ClusterQueue queue = CpuQueue("q", "", f);
  queue.resource_groups[0].flavors.push_back(
      FlavorQuotas{"g", {ResourceQuota{"cpu", Amount{g}, std::nullopt, std::nullopt}}});
  return queue;
}

}  // namespace

TEST_CASE("usage is the newest accepted size at every step, and two sizes never count together") {
  struct Step {
    int32_t pods;      // that it is scaled to
    int64_t reserved;  // with 2 of another, of 8
    bool waits;
  };
  const std::vector<Step> steps = {{3, 5, false}, {6, 8, false}, {4, 6, false}, {7, 6, true}, {6, 8, false},
                                   {9, 8, true},  {0, 2, false}, {1, 3, false}, {1, 3, false}};
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 8));
  cluster.Submit(Gang("other", "q", 2));
  cluster.Submit(Elastic("a", "q", 3));
  cluster.Run();
  for (const Step& step : steps) {
    CAPTURE(step.pods);
    cluster.Submit(Elastic("a", "q", step.pods));
    cluster.Run();
    CHECK(cluster.Reserved("q") == Amount{step.reserved});
    CHECK(HeldBy(cluster, "a") == step.reserved - 2);
    CHECK(cluster.engine.ViewWorkload("a")->growth.has_value() == step.waits);
    CHECK(cluster.engine.ViewClusterQueue("q").pending_inadmissible == (step.waits ? 1 : 0));
    CHECK(cluster.engine.ViewClusterQueue("q").reserving == 2);
  }
}

TEST_CASE("more pods wait while the old size goes on holding its quota, and come in one step") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Elastic("a", "q", 4));
  cluster.Submit(Gang("b", "q", 6));
  REQUIRE(cluster.Run() == Uids{"a", "b"});
  Workload bigger = Elastic("a", "q", 7);
  bigger.generation = 2;
  cluster.Submit(bigger);
  CHECK(cluster.Run().empty());
  const auto hold = std::find_if(cluster.last.begin(), cluster.last.end(),
                                 [](const Decision& decision) { return std::holds_alternative<Hold>(decision); });
  REQUIRE(hold != cluster.last.end());
  CHECK(std::get<Hold>(*hold).uid == "a");
  CHECK(std::get<Hold>(*hold).growth);
  CHECK(std::get<Hold>(*hold).reason.obstacles.at(0).requested == Amount{3});  // 7 - 4
  CHECK(std::get<Hold>(*hold).reason.obstacles.at(0).missing == Amount{3});
  // Those in its way; it is not in its own.
  CHECK(cluster.engine.ViewWorkload("a")->growth->blockers == std::vector<Blocker>{{"b", "ns", "b"}});
  CHECK(cluster.Reserved("q") == Amount{10});

  cluster.Finish("b");
  cluster.last = cluster.engine.Decide(At(101));
  REQUIRE(cluster.last.size() == 1);
  CHECK(LastGrow(cluster).uid == "a");
  CHECK(LastGrow(cluster).generation == 2);
  CHECK(LastGrow(cluster).claim == cluster.claims.at("a"));
  CHECK(LastGrow(cluster).admission.pod_sets ==
        std::vector{PodSetAssignment{"main", 7, {{"cpu", "f"}}, {{"cpu", Amount{7}}}}});
  CHECK(cluster.Reserved("q") == Amount{7});
  CHECK(cluster.engine.unwritten_claims() == 1);
  CHECK_FALSE(cluster.engine.ViewWorkload("a")->growth.has_value());
  cluster.Apply(GrowthWritten{"a", cluster.claims.at("a")});
  CHECK(cluster.engine.unwritten_claims() == 0);
  CHECK(cluster.Reserved("q") == Amount{7});
}

TEST_CASE("fewer pods make room for others at once") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Elastic("a", "q", 8));
  cluster.Submit(Gang("b", "q", 5));
  REQUIRE(cluster.Run() == Uids{"a"});
  cluster.Submit(Elastic("a", "q", 5));
  CHECK(cluster.Run() == Uids{"b"});
  // What was given back is another's now.
  cluster.Submit(Elastic("a", "q", 8));
  CHECK(cluster.Run().empty());
  CHECK(cluster.Reserved("q") == Amount{10});
  CHECK(WaitsFor(cluster, "a") == ReasonCode::kWaitingForQuota);
}

TEST_CASE("what is not elastic has its quota back when its pods run again") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Gang("a", "q", 8));
  cluster.Run();
  cluster.Submit(Gang("a", "q", 5));
  CHECK(cluster.Reserved("q") == Amount{5});
  cluster.Submit(Gang("a", "q", 9));
  CHECK(cluster.Reserved("q") == Amount{8});
  CHECK_FALSE(cluster.engine.ViewWorkload("a")->growth.has_value());
}

TEST_CASE("more pods have the flavor of those that are there") {
  Cluster cluster;
  cluster.Apply(FlavorChanged{ResourceFlavor{"g", {}, {}, {}, ""}});
  cluster.AddQueue(TwoFlavors(4, 10));
  cluster.Submit(Elastic("a", "q", 3));
  REQUIRE(cluster.Run() == Uids{"a"});
  cluster.Submit(Elastic("a", "q", 5));
  CHECK(cluster.Run().empty());
  CHECK(WaitsFor(cluster, "a") == ReasonCode::kExceedsMaxQuota);
  cluster.AddQueue(TwoFlavors(5, 10));
  cluster.Submit(Gang("b", "q", 2, 2, 1));
  REQUIRE(cluster.Run() == Uids{"b"});
  CHECK(WaitsFor(cluster, "a") == ReasonCode::kWaitingForQuota);
  const std::vector<Obstacle> obstacles = cluster.engine.ViewWorkload("a")->growth->obstacles;
  REQUIRE(obstacles.size() == 2);
  CHECK(obstacles[0].kind == ObstacleKind::kInsufficientUnused);
  CHECK(obstacles[1].kind == ObstacleKind::kOriginalFlavor);
  CHECK(obstacles[1].flavor == "g");
  CHECK(obstacles[1].object == "f");
  // Its like that has no pods yet may have the other flavor.
  cluster.Submit(Gang("c", "q", 2, 3));
  CHECK(cluster.Run() == Uids{"c"});
  cluster.Finish("b");
  CHECK(cluster.Run() == Uids{"a+"});

  ClusterQueue without = TwoFlavors(5, 10);
  without.resource_groups[0].flavors.erase(without.resource_groups[0].flavors.begin());
  cluster.AddQueue(without);
  cluster.Submit(Elastic("a", "q", 6));
  cluster.Run();
  CHECK(WaitsFor(cluster, "a") == ReasonCode::kNoMatchingFlavor);
}

TEST_CASE("a growth that is refused gives its quota back, and is tried again from its time on") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Elastic("a", "q", 4));
  cluster.Run();
  cluster.Submit(Elastic("a", "q", 7));
  cluster.last = cluster.engine.Decide(At(101));
  const ClaimId claim = LastGrow(cluster).claim;
  CHECK(cluster.Reserved("q") == Amount{7});
  cluster.Apply(GrowthRefused{"a", claim, At(110), "denied"});
  CHECK(cluster.Reserved("q") == Amount{4});
  CHECK(cluster.engine.unwritten_claims() == 0);
  CHECK(cluster.Run(At(105)).empty());
  CHECK(cluster.engine.ViewWorkload("a")->growth->obstacles.at(0).kind == ObstacleKind::kStartRefused);
  CHECK(cluster.engine.ViewWorkload("a")->growth->obstacles.at(0).object == "denied");
  CHECK(cluster.engine.NextDue() == At(110));
  // Late.
  cluster.Apply(GrowthWritten{"a", claim});
  CHECK(cluster.Reserved("q") == Amount{4});
  CHECK(cluster.Run(At(110)) == Uids{"a+"});
  CHECK(cluster.Reserved("q") == Amount{7});
}

TEST_CASE("a claim that is smaller before its growth is answered is that small whatever the answer") {
  const bool written = GENERATE(false, true);
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Elastic("a", "q", 4));
  cluster.Run();
  cluster.Submit(Elastic("a", "q", 7));
  cluster.last = cluster.engine.Decide(At(101));
  cluster.Submit(Elastic("a", "q", 2));
  CHECK(cluster.Reserved("q") == Amount{2});
  if (written) {
    cluster.Apply(GrowthWritten{"a", cluster.claims.at("a")});
  } else {
    cluster.Apply(GrowthRefused{"a", cluster.claims.at("a"), {}, ""});
  }
  CHECK(cluster.Run().empty());
  CHECK(HeldBy(cluster, "a") == 2);
  CHECK(cluster.Reserved("q") == Amount{2});
}

TEST_CASE("more pods preempt others, and never those of their own workload") {
  ClusterQueue queue = CpuQueue("q", "", 10);
  queue.within_cluster_queue = PreemptionPolicy::kLowerOrNewerEqualPriority;
  Cluster cluster;
  cluster.AddQueue(queue);
  // The growth is older than its own workload was in the queue.
  Workload a = Elastic("a", "q", 4, 50, 1);
  a.growth_queue_time = At(10);
  cluster.Submit(a);
  cluster.Submit(Gang("b", "q", 6));
  REQUIRE(cluster.Run() == Uids{"a", "b"});
  a.pod_sets[0].count = 9;
  cluster.Submit(a);
  CHECK(cluster.Run().empty());
  CHECK(cluster.Preempted() == Uids{"b for a"});
  CHECK(cluster.engine.ViewWorkload("a")->kept_room->victims == Uids{"b"});
  cluster.LeaveAll();
  CHECK(cluster.Run() == Uids{"a+"});
  cluster.Submit(Gang("vip", "q", 1, 1, 5));
  REQUIRE(cluster.Run() == Uids{"vip"});
  a.pod_sets[0].count = 10;
  cluster.Submit(a);
  CHECK(cluster.Run().empty());
  CHECK(cluster.Preempted().empty());
  CHECK(WaitsFor(cluster, "a") == ReasonCode::kWaitingForQuota);
  CHECK(cluster.Reserved("q") == Amount{10});
}

TEST_CASE("what is preempted while it grows is told when the growth has its answer") {
  ClusterQueue queue = CpuQueue("q", "", 10);
  queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
  Cluster cluster;
  cluster.AddQueue(queue);
  cluster.Submit(Elastic("a", "q", 4));
  cluster.Run();
  cluster.Submit(Elastic("a", "q", 7));
  cluster.last = cluster.engine.Decide(At(101));
  REQUIRE(LastGrow(cluster).uid == "a");
  cluster.Submit(Gang("vip", "q", 10, 5, 7));
  CHECK(cluster.Run().empty());
  CHECK(cluster.Evictions().empty());
  cluster.Apply(GrowthWritten{"a", cluster.claims.at("a")});
  CHECK(cluster.Run().empty());
  CHECK(cluster.Preempted() == Uids{"a for vip"});
  // What leaves does not grow.
  cluster.Submit(Elastic("a", "q", 9));
  CHECK_FALSE(cluster.engine.ViewWorkload("a")->growth.has_value());
  cluster.Leave("a");
  CHECK(cluster.Run() == Uids{"vip"});
  // It waits whole now, with its new size.
  CHECK(cluster.engine.ViewWorkload("a")->reason.obstacles.at(0).requested == Amount{9});
}

TEST_CASE("a workload that is preempted in the pass in which it could grow does not grow") {
  ClusterQueue low = CpuQueue("low", "c", 4);
  ClusterQueue high = CpuQueue("high", "c", 6);
  high.reclaim_within_cohort = PreemptionPolicy::kAny;
  Cluster cluster;
  cluster.AddQueue(low);
  cluster.AddQueue(high);
  cluster.Submit(Elastic("a", "low", 6));
  REQUIRE(cluster.Run() == Uids{"a"});  // borrows 2
  cluster.Submit(Elastic("a", "low", 8));
  cluster.Submit(Gang("b", "high", 6));
  CHECK(cluster.Run().empty());
  CHECK(cluster.Preempted() == Uids{"a for b"});
  CHECK(cluster.Reserved("low") == Amount{6});
}

TEST_CASE("more pods wait in the order of their own time, and go where their workload was admitted") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.AddQueue(CpuQueue("p", "", 10));
  cluster.Submit(Elastic("a", "q", 4, 1));
  cluster.Submit(Gang("b", "q", 6, 2));
  REQUIRE(cluster.Run() == Uids{"a", "b"});
  Workload a = Elastic("a", "q", 7, 1);
  a.growth_queue_time = At(60);
  cluster.Submit(Gang("c", "q", 5, 50));
  cluster.Submit(a);
  CHECK(cluster.Run().empty());
  cluster.Finish("b");
  CHECK(cluster.Run() == Uids{"c"});

  LocalQueue elsewhere = LocalTo("q");
  elsewhere.cluster_queue = "p";
  cluster.Apply(LocalQueueChanged{elsewhere});
  CHECK(cluster.Run().empty());
  CHECK(cluster.engine.ViewWorkload("a")->growth->obstacles.at(0).kind == ObstacleKind::kOriginalQueue);
  CHECK(cluster.engine.ViewWorkload("a")->growth->obstacles.at(0).object == "q");
}

TEST_CASE("a new process finds the same claim, and waits for the same pods") {
  Cluster old;
  old.AddQueue(CpuQueue("q", "", 10));
  old.Submit(Elastic("a", "q", 4));
  old.Submit(Gang("b", "q", 6));
  old.Run();
  old.Submit(Elastic("a", "q", 7));
  old.Run();
  // As the record has it.
  const auto restart = [](const Admission& admission) {
    Workload a = Elastic("a", "q", 7);
    a.held = HeldClaim{ClaimId{1, 1}, ClaimState::kActive, admission, At(100)};
    Cluster cluster;
    cluster.Submit(a);
    cluster.AddQueue(CpuQueue("q", "", 10));
    return cluster.engine.ViewWorkload("a");
  };
  const Admission admission = old.engine.ViewWorkload("a")->admission;
  CHECK(admission.pod_sets.at(0).count == 4);
  CHECK(restart(admission)->admission == admission);
  CHECK(restart(admission)->growth.has_value());
  old.Finish("b");
  REQUIRE(old.Run() == Uids{"a+"});
  const Admission grown = old.engine.ViewWorkload("a")->admission;
  CHECK(restart(grown)->admission == grown);
  CHECK_FALSE(restart(grown)->growth.has_value());
}

}  // namespace muster::engine
