// Flavors with which pods were not ready in time: which others go first, and when they do not.
//
// Rules: user_pains I6, docs/configuration.md (muster.passOverTimedOutFlavors). There is no such thing in the
// reference.
#include <catch2/catch.hpp>

#include "cluster.h"
#include "on_machines.h"

namespace muster::engine {

namespace {

using Uids = std::vector<std::string>;
using Counts = std::vector<std::pair<std::string, int32_t>>;

// A ClusterQueue `q` of a, b, c with these quotas, in that order.
struct Stock : Cluster {
  explicit Stock(const std::vector<int64_t>& quotas, PreemptionPolicy preemption = PreemptionPolicy::kNever) {
    ClusterQueue queue = CpuQueue("q", "", 0);
    queue.within_cluster_queue = preemption;
    queue.resource_groups = {{{"cpu"}, {}}};
    const std::vector<std::string> names = {"a", "b", "c"};
    for (size_t i = 0; i < quotas.size(); ++i) {
      Apply(FlavorChanged{ResourceFlavor{names[i], {{"type", names[i]}}, {}, {}, ""}});
      queue.resource_groups[0].flavors.push_back({names[i], {{"cpu", Amount{quotas[i]}, std::nullopt, std::nullopt}}});
    }
    AddQueue(queue);
  }
  std::string FlavorOf(const std::string& uid, size_t pod_set = 0) const {
    return engine.ViewWorkload(uid)->admission.pod_sets.at(pod_set).flavors.at(0).second;
  }
};

Workload TimedOut(Workload workload, const Counts& counts) {
  for (const auto& [flavor, count] : counts) workload.timed_out.push_back({"main", flavor, count});
  return workload;
}

std::vector<std::pair<ObstacleKind, std::string>> ObstaclesOf(const std::optional<Reason>& reason) {
  REQUIRE(reason.has_value());
  std::vector<std::pair<ObstacleKind, std::string>> out;
  for (const Obstacle& obstacle : reason->obstacles) out.emplace_back(obstacle.kind, obstacle.flavor);
  return out;
}

}  // namespace

TEST_CASE("the flavor with which it was out of time least goes first, of several the first") {
  const auto chosen = [](const Counts& counts) {
    Stock cluster({4, 4, 4});
    cluster.Submit(TimedOut(Gang("w", "q", 4), counts));
    REQUIRE(cluster.Run() == Uids{"w"});
    return cluster.FlavorOf("w");
  };
  CHECK(chosen({}) == "a");
  CHECK(chosen({{"a", 1}}) == "b");
  CHECK(chosen({{"b", 1}}) == "a");
  CHECK(chosen({{"a", 1}, {"b", 1}}) == "c");
  CHECK(chosen({{"a", 1}, {"b", 1}, {"c", 1}}) == "a");  // the round begins anew
  CHECK(chosen({{"a", 2}, {"b", 1}, {"c", 1}}) == "b");
  CHECK(chosen({{"a", 2}, {"c", 3}}) == "b");
  CHECK(chosen({{"of another queue", 7}}) == "a");
}

TEST_CASE("it waits for the others while these are in use, evicts nobody for what is passed over, and says so") {
  Stock cluster({4, 4}, PreemptionPolicy::kLowerPriority);
  cluster.Submit(Gang("low", "q", 4, 1, 0));
  REQUIRE(cluster.Run() == Uids{"low"});
  REQUIRE(cluster.FlavorOf("low") == "a");
  cluster.Submit(Gang("high", "q", 4, 2, 9));
  REQUIRE(cluster.Run() == Uids{"high"});
  REQUIRE(cluster.FlavorOf("high") == "b");
  // In `a` it could preempt "low", in `b` nobody.
  cluster.Submit(TimedOut(Gang("w", "q", 4, 3, 5), {{"a", 2}}));
  CHECK(cluster.Run().empty());
  CHECK(cluster.Preempted().empty());
  const std::optional<Reason> reason = cluster.HoldOf("w");
  CHECK(ObstaclesOf(reason) == std::vector<std::pair<ObstacleKind, std::string>>{
                                   {ObstacleKind::kInsufficientUnused, "b"}, {ObstacleKind::kFlavorTimedOut, "a"}});
  CHECK(reason->code == ReasonCode::kWaitingForQuota);
  CHECK(reason->obstacles.back().count == 2);
  CHECK(WaitCodeOf(*reason) == WaitCode::kQuotaInUse);
  // `a` is free, and it waits all the same until that is forgotten.
  cluster.Finish("low");
  CHECK(cluster.Run().empty());
  cluster.Submit(Gang("w", "q", 4, 3, 5));
  CHECK(cluster.Run() == Uids{"w"});
  CHECK(cluster.FlavorOf("w") == "a");
}

TEST_CASE("where others can be preempted it takes theirs in a flavor that is not passed over") {
  Stock cluster({4, 4}, PreemptionPolicy::kLowerPriority);
  cluster.Submit(Gang("one", "q", 4, 1));
  cluster.Submit(Gang("two", "q", 4, 2));
  REQUIRE(cluster.Run() == Uids{"one", "two"});
  cluster.Submit(TimedOut(Gang("w", "q", 4, 3, 5), {{"a", 1}}));
  CHECK(cluster.Run().empty());
  CHECK(cluster.Preempted() == Uids{"two for w"});
  cluster.LeaveAll();
  CHECK(cluster.Run() == Uids{"w"});
  CHECK(cluster.FlavorOf("w") == "b");
}

TEST_CASE("who waits like it and was in time has what it passes over") {
  Stock cluster({4, 4});
  cluster.Submit(Gang("holder", "q", 4, 1));
  cluster.Submit(Gang("other", "q", 4, 2));
  REQUIRE(cluster.Run() == Uids{"holder", "other"});
  cluster.Submit(TimedOut(Gang("w", "q", 4, 3), {{"a", 1}}));
  cluster.Submit(Gang("x", "q", 4, 4));
  REQUIRE(cluster.Run().empty());
  cluster.Finish("holder");
  CHECK(cluster.Run() == Uids{"x"});
  CHECK(cluster.FlavorOf("x") == "a");
}

TEST_CASE("what it could never have instead keeps it from no flavor") {
  // Too small for it.
  Stock small({4, 3});
  small.Submit(TimedOut(Gang("w", "q", 4), {{"a", 1}}));
  CHECK(small.Run() == Uids{"w"});
  CHECK(small.FlavorOf("w") == "a");
  // Tainted; and not the one that it selects.
  Stock tainted({4, 4, 4});
  tainted.Apply(FlavorChanged{ResourceFlavor{"b", {{"type", "b"}}, {{"spot", "", "NoSchedule"}}, {}, ""}});
  Workload picky = TimedOut(Gang("w", "q", 4), {{"a", 3}});
  gang::Shape shape = *picky.pod_sets[0].shape;
  shape.required_affinity.push_back({{{"type", Requirement::Operator::kNotIn, {"c"}}}, {}});
  picky.pod_sets[0].shape = std::make_shared<const gang::Shape>(std::move(shape));
  tainted.Submit(picky);
  CHECK(tainted.Run() == Uids{"w"});
  CHECK(tainted.FlavorOf("w") == "a");
  // And with the taint gone, `b` goes first.
  tainted.Apply(FlavorChanged{ResourceFlavor{"b", {{"type", "b"}}, {}, {}, ""}});
  picky.uid = "again";
  tainted.Submit(picky);
  CHECK(tainted.Run() == Uids{"again"});
  CHECK(tainted.FlavorOf("again") == "b");
}

TEST_CASE("as many pods as another flavor has room for go there, where fewer would do") {
  Stock cluster({8, 3});
  Workload w = TimedOut(Gang("w", "q", 8), {{"a", 1}});
  w.pod_sets[0].min_count = 2;
  cluster.Submit(w);
  REQUIRE(cluster.Run() == Uids{"w"});
  CHECK(cluster.FlavorOf("w") == "b");
  CHECK(cluster.engine.ViewWorkload("w")->admission.pod_sets.at(0).count == 3);
  // Not fewer than would do.
  w.uid = "again";
  w.pod_sets[0].min_count = 4;
  cluster.Submit(w);
  REQUIRE(cluster.Run() == Uids{"again"});
  CHECK(cluster.FlavorOf("again") == "a");
  CHECK(cluster.engine.ViewWorkload("again")->admission.pod_sets.at(0).count == 8);
}

TEST_CASE("each pod set passes over its own, and another sees what the first takes") {
  Stock cluster({6, 3});
  Workload w = TimedOut(Gang("w", "q", 3), {{"a", 1}});
  PodSet more = w.pod_sets[0];
  more.name = "workers";
  more.count = 2;
  w.pod_sets.push_back(more);
  cluster.Submit(w);
  REQUIRE(cluster.Run() == Uids{"w"});
  CHECK(cluster.FlavorOf("w", 0) == "b");
  CHECK(cluster.FlavorOf("w", 1) == "a");
  // Of `b` there are 3: with the first pod set there, the second can never have it, and keeps to `a`.
  cluster.Finish("w");
  w.uid = "again";
  w.timed_out.push_back({"workers", "a", 1});
  cluster.Submit(w);
  REQUIRE(cluster.Run() == Uids{"again"});
  CHECK(cluster.FlavorOf("again", 0) == "b");
  CHECK(cluster.FlavorOf("again", 1) == "a");
}

// The search for a flavor has reached its end at the last that is not passed over.
TEST_CASE("flavors at the end of the list that are passed over are no flavors to go on with") {
  Stock cluster({4, 4, 4});
  cluster.Submit(Gang("one", "q", 4, 1));
  cluster.Submit(Gang("two", "q", 4, 2));
  REQUIRE(cluster.Run() == Uids{"one", "two"});
  cluster.Submit(TimedOut(Gang("w", "q", 4, 3), {{"c", 1}}));
  CHECK(cluster.Run().empty());
  CHECK(cluster.HoldOf("w")->code == ReasonCode::kWaitingForQuota);
  CHECK(ObstaclesOf(cluster.HoldOf("w")) ==
        std::vector<std::pair<ObstacleKind, std::string>>{{ObstacleKind::kInsufficientUnused, "a"},
                                                          {ObstacleKind::kInsufficientUnused, "b"},
                                                          {ObstacleKind::kFlavorTimedOut, "c"}});
  cluster.Finish("one");
  CHECK(cluster.Run() == Uids{"w"});
  CHECK(cluster.FlavorOf("w") == "a");
}

TEST_CASE("machines that could never hold it are no flavor to go to, and such as are in use are") {
  OnMachines cluster;
  cluster.AddNode("a1", "a", 8);
  cluster.AddNode("b1", "b", 2);
  cluster.AddQueue(PoolQueue("q", {"a", "b"}));
  cluster.Submit(TimedOut(Big("w", "q", 1, 4, 1), {{"a", 1}}));
  REQUIRE(cluster.Run() == Uids{"w"});
  CHECK(cluster.FlavorOf("w") == "a");
  cluster.Finish("w");
  cluster.AddNode("b2", "b", 4);
  cluster.Submit(TimedOut(Big("on-b", "q", 1, 4, 2), {{"a", 1}}));
  REQUIRE(cluster.Run() == Uids{"on-b"});
  CHECK(cluster.FlavorOf("on-b") == "b");
  cluster.Submit(TimedOut(Big("waits", "q", 1, 4, 3), {{"a", 1}}));
  CHECK(cluster.Run().empty());
  CHECK(cluster.ObstacleOf("waits").kind == ObstacleKind::kNoRoom);
  CHECK(cluster.ObstacleOf("waits").flavor == "b");
  SECTION("once they are free, it has them") {
    cluster.Finish("on-b");
    CHECK(cluster.Run() == Uids{"waits"});
    CHECK(cluster.FlavorOf("waits") == "b");
  }
  SECTION("once they are gone, nothing is passed over for them") {
    if (GENERATE(true, false)) {
      cluster.Apply(NodeDeleted{"b2"});
    } else {
      cluster.AddNode("b2", "elsewhere", 4);
    }
    CHECK(cluster.Run() == Uids{"waits"});
    CHECK(cluster.FlavorOf("waits") == "a");
  }
}

TEST_CASE("more pods of what runs have its flavor, whatever it was out of time with") {
  Stock cluster({8, 8});
  Workload w = Gang("w", "q", 2);
  w.elastic = true;
  cluster.Submit(w);
  REQUIRE(cluster.Run() == Uids{"w"});
  w = TimedOut(w, {{"a", 1}});
  w.pod_sets[0].count = 5;
  cluster.Submit(w);
  CHECK(cluster.Run() == Uids{"w+"});
  CHECK(cluster.FlavorOf("w") == "a");
}

}  // namespace muster::engine
