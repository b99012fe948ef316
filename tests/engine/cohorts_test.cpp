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
  return cluster.engine.ViewClusterQueue(queue).inactive_reasons;
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

}  // namespace muster::engine
