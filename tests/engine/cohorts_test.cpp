// Trees of cohorts: how they merge, split, form cycles and go away, and what that does to what is booked.
//
// Amounts are counted by hand with the formulas of kueue_semantics 5.1; cycles are those of 1.4.
#include <catch2/catch.hpp>

#include "cluster.h"

namespace muster::engine {

namespace {

using Uids = std::vector<std::string>;

Cohort CohortOf(const std::string& name, const std::string& parent, std::optional<int64_t> nominal = std::nullopt) {
  Cohort cohort;
  cohort.name = name;
  cohort.parent = parent;
  if (nominal.has_value()) {
    cohort.resource_groups = {{{"cpu"}, {{"f", {{"cpu", Amount{*nominal}, std::nullopt, std::nullopt}}}}}};
  }
  return cohort;
}

bool IsActive(const Cluster& cluster, const std::string& queue) {
  return cluster.engine.ViewClusterQueue(queue).active;
}

std::vector<InactiveReason> WhyInactive(const Cluster& cluster, const std::string& queue) {
  std::vector<InactiveReason> out;
  for (const Inactivity& why : cluster.engine.ViewClusterQueue(queue).inactive) out.push_back(why.reason);
  return out;
}

const std::vector<InactiveReason> kOnCycle = {InactiveReason::kCohortCycle};

// Cohorts c0 -> c1 -> ... -> c0, each with a queue q0, q1, ... of 10 in which 4 are used.
struct Ring : Cluster {
  explicit Ring(int length) {
    for (int i = 0; i < length; ++i) {
      const std::string at = std::to_string(i);
      AddQueue(CpuQueue("q" + at, "c" + at, 10));
      Submit(Gang("w" + at, "q" + at, 4));
    }
    REQUIRE(Run().size() == static_cast<size_t>(length));
    for (int i = 0; i < length; ++i) {
      Apply(CohortChanged{CohortOf("c" + std::to_string(i), "c" + std::to_string((i + 1) % length))});
    }
  }
};

}  // namespace

TEST_CASE("a queue on a cycle names the cohorts of the cycle that there is now") {
  Ring cluster(2);
  const auto names = [&cluster] { return cluster.engine.ViewClusterQueue("q0").inactive.at(0).names; };
  CHECK(names() == std::vector<std::string>{"c0", "c1"});
  cluster.Apply(CohortChanged{CohortOf("between", "c0")});
  cluster.Apply(CohortChanged{CohortOf("c1", "between")});
  CHECK(names() == std::vector<std::string>{"c0", "c1", "between"});
}

TEST_CASE("queues on a cycle of cohorts of any length decide nothing, and keep what is booked") {
  const int length = GENERATE(1, 2, 3, 5);
  Ring cluster(length);
  for (int i = 0; i < length; ++i) {
    const std::string queue = "q" + std::to_string(i);
    CHECK(WhyInactive(cluster, queue) == kOnCycle);
    CHECK(cluster.Reserved(queue) == Amount{4});
    cluster.Submit(Gang("late" + std::to_string(i), queue, 1));
  }
  CHECK(cluster.Run().empty());
}

TEST_CASE("a cohort on a cycle of any length can be deleted, and the rest decides again") {
  const int length = GENERATE(1, 2, 3, 5);
  Ring cluster(length);
  for (int i = 0; i < length; ++i) cluster.Submit(Gang("late" + std::to_string(i), "q" + std::to_string(i), 6));
  REQUIRE(cluster.Run().empty());
  cluster.Apply(CohortDeleted{"c0"});
  for (int i = 0; i < length; ++i) CHECK(IsActive(cluster, "q" + std::to_string(i)));
  CHECK(cluster.Run().size() == static_cast<size_t>(length));
}

TEST_CASE("a cohort that is its own parent is forgotten once nothing refers to it") {
  Cluster cluster;
  const uint64_t before = cluster.engine.StateHash();
  cluster.Apply(CohortChanged{CohortOf("c", "c")});
  cluster.Apply(CohortDeleted{"c"});
  CHECK(cluster.engine.StateHash() == before);
  cluster.Apply(CohortChanged{CohortOf("c", "c")});
  cluster.Apply(CohortChanged{CohortOf("c", "")});
  cluster.AddQueue(CpuQueue("q", "c", 3));
  cluster.Submit(Gang("w", "q", 3));
  CHECK(cluster.Run() == Uids{"w"});
}

TEST_CASE("a queue that changes cohort takes what it uses along") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "left", 4));
  cluster.AddQueue(CpuQueue("l", "left", 4));
  cluster.AddQueue(CpuQueue("r", "right", 4));
  cluster.Submit(Gang("big", "q", 6, 1));
  REQUIRE(cluster.Run() == Uids{"big"});
  cluster.Submit(Gang("wl", "l", 4, 2));
  cluster.Submit(Gang("wr", "r", 4, 3));
  REQUIRE(cluster.Run() == Uids{"wr"});
  cluster.Submit(Gang("wr2", "r", 3, 4));
  REQUIRE(cluster.Run().empty());
  // 2 of the 4 that l has were lent. Now q borrows them from nobody: right has 8 and 10 in use.
  cluster.Apply(ClusterQueueChanged{CpuQueue("q", "right", 4)});
  CHECK(cluster.Run() == Uids{"wl"});
  CHECK(cluster.Reserved("q") == Amount{6});
  cluster.Finish("big");
  CHECK(cluster.Run() == Uids{"wr2"});
}

TEST_CASE("cohorts that get a common parent share their quota, and not when they part") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("a", "left", 4));
  cluster.AddQueue(CpuQueue("b", "right", 4));
  cluster.Submit(Gang("w", "a", 6));
  REQUIRE(cluster.Run().empty());
  CHECK(cluster.HoldOf("w")->code == ReasonCode::kExceedsMaxQuota);
  cluster.Apply(CohortChanged{CohortOf("left", "root")});
  cluster.Apply(CohortChanged{CohortOf("right", "root")});
  CHECK(cluster.Run() == Uids{"w"});
  cluster.Submit(Gang("v", "b", 3));
  REQUIRE(cluster.Run().empty());  // 8 in all, 6 in use
  cluster.Apply(CohortChanged{CohortOf("right", "")});
  CHECK(cluster.Run() == Uids{"v"});
  CHECK(cluster.Reserved("a") == Amount{6});  // above its own quota, and left to run
}

// user_pains A2
TEST_CASE("deleting an idle member shrinks the cohort, and what runs above it runs on") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("a", "c", 5));
  cluster.AddQueue(CpuQueue("b", "c", 5));
  cluster.Submit(Gang("running", "a", 7, 1));
  REQUIRE(cluster.Run() == Uids{"running"});
  cluster.Apply(ClusterQueueDeleted{"b"});
  cluster.Submit(Gang("j", "a", 8, 2));
  CHECK(cluster.Run().empty());
  CHECK(cluster.HoldOf("j")->code == ReasonCode::kExceedsMaxQuota);
  CHECK(cluster.HoldOf("j")->obstacles.at(0).limit == Amount{5});
  CHECK(cluster.Reserved("a") == Amount{7});
}

// user_pains A3
TEST_CASE("deleting a child cohort takes its own quota out of its ancestors") {
  Cluster cluster;
  cluster.Apply(CohortChanged{CohortOf("root", "")});
  cluster.Apply(CohortChanged{CohortOf("child", "root", 6)});
  cluster.AddQueue(CpuQueue("a", "root", 2));
  cluster.Apply(CohortDeleted{"child"});
  cluster.Submit(Gang("j", "a", 5));
  CHECK(cluster.Run().empty());
  CHECK(cluster.HoldOf("j")->obstacles.at(0).limit == Amount{2});
}

TEST_CASE("a deleted cohort goes on without quota or parent while queues name it") {
  Cluster cluster;
  cluster.Apply(CohortChanged{CohortOf("c", "root", 3)});
  cluster.Apply(CohortChanged{CohortOf("root", "", 10)});
  cluster.AddQueue(CpuQueue("a", "c", 2));
  cluster.AddQueue(CpuQueue("b", "c", 2));
  cluster.Apply(CohortDeleted{"c"});
  cluster.Submit(Gang("five", "a", 5, 1));
  cluster.Submit(Gang("four", "a", 4, 2));
  CHECK(cluster.Run() == Uids{"four"});
  CHECK(cluster.HoldOf("five")->obstacles.at(0).limit == Amount{4});
}

// user_pains A6
TEST_CASE("a cohort's own quota adds to what its members have, and is not a cap") {
  Cluster cluster;
  cluster.Apply(CohortChanged{CohortOf("c", "", 4)});
  cluster.AddQueue(CpuQueue("a", "c", 2));
  cluster.AddQueue(CpuQueue("b", "c", 2));
  cluster.Submit(Gang("wa", "a", 4, 1));
  cluster.Submit(Gang("wb", "b", 4, 2));
  CHECK(cluster.Run() == Uids{"wa", "wb"});
}

// user_pains A5
TEST_CASE("quota that is lowered below what is used is not shown as borrowed where there is nobody to borrow from") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 9));
  cluster.Submit(Gang("w", "q", 3));
  REQUIRE(cluster.Run() == Uids{"w"});
  cluster.Apply(ClusterQueueChanged{CpuQueue("q", "", 1)});
  const FlavorUsage usage = cluster.engine.ViewClusterQueue("q").usage.at(0);
  CHECK(usage.reserved == Amount{3});
  CHECK(usage.nominal == Amount{1});
  CHECK(usage.borrowed == Amount{0});
  cluster.Submit(Gang("more", "q", 1));
  CHECK(cluster.Run().empty());
}

// user_pains A17
TEST_CASE("a quota entry that its group does not cover counts for nothing") {
  Cluster cluster;
  Cohort cohort = CohortOf("c", "");
  cohort.resource_groups = {{{"memory"}, {{"f", {{"cpu", Amount{50}, std::nullopt, std::nullopt}}}}}};
  cluster.Apply(CohortChanged{cohort});
  cluster.AddQueue(CpuQueue("q", "c", 2));
  cluster.Submit(Gang("w", "q", 3));
  CHECK(cluster.Run().empty());
  CHECK(cluster.HoldOf("w")->obstacles.at(0).limit == Amount{2});
}

TEST_CASE("a cohort moves from one cycle to another, and the first is mended") {
  Ring cluster(3);
  // c0 -> c1 -> c2 -> c0 becomes c0 <-> c2, with c1 hanging off c2.
  cluster.Apply(CohortChanged{CohortOf("c0", "c2")});
  CHECK(WhyInactive(cluster, "q0") == kOnCycle);
  CHECK(WhyInactive(cluster, "q2") == kOnCycle);
  CHECK(WhyInactive(cluster, "q1") == kOnCycle);  // below a cycle nothing is decided either
  cluster.Apply(CohortChanged{CohortOf("c2", "")});
  for (const char* queue : {"q0", "q1", "q2"}) CHECK(IsActive(cluster, queue));
  cluster.Submit(Gang("big", "q0", 18));  // 30 in all, 12 in use
  CHECK(cluster.Run() == Uids{"big"});
}

}  // namespace muster::engine
