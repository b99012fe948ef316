// Which flavor a gang gets: order, suitability, fungibility, several pod sets and groups, partial admission.
//
// Rules: kueue_semantics 5.6 (flavors), 5.7 (fewer pods), 3.2 (the resource pods).
#include <catch2/catch.hpp>

#include "cluster.h"

namespace muster::engine {

namespace {

using Uids = std::vector<std::string>;

// One group of cpu with the flavors a, b, ... of the given quotas.
ClusterQueue TwoFlavors(const std::string& name, const std::string& cohort, int64_t a, int64_t b) {
  ClusterQueue queue = CpuQueue(name, cohort, 0);
  queue.resource_groups = {{{"cpu"},
                            {{"a", {{"cpu", Amount{a}, std::nullopt, std::nullopt}}},
                             {"b", {{"cpu", Amount{b}, std::nullopt, std::nullopt}}}}}};
  return queue;
}

struct Flavored : Cluster {
  Flavored() {
    for (const char* name : {"a", "b"}) Apply(FlavorChanged{ResourceFlavor{name, {{"type", name}}, {}, {}, ""}});
  }
  // Flavors of the gang's pod sets, in the order of resources.
  std::vector<std::string> FlavorsOf(const std::string& uid) const {
    std::vector<std::string> flavors;
    const std::optional<WorkloadView> view = engine.ViewWorkload(uid);
    for (const PodSetAssignment& pod_set : view->admission.pod_sets) {
      for (const auto& [resource, flavor] : pod_set.flavors) flavors.push_back(flavor);
    }
    return flavors;
  }
};

gang::ShapePtr ShapeOf(gang::Shape shape) { return std::make_shared<const gang::Shape>(std::move(shape)); }

std::vector<ObstacleKind> KindsOf(const std::optional<Reason>& reason) {
  std::vector<ObstacleKind> kinds;
  REQUIRE(reason.has_value());
  for (const Obstacle& obstacle : reason->obstacles) kinds.push_back(obstacle.kind);
  return kinds;
}

}  // namespace

TEST_CASE("the first flavor with room is taken, in the order of the spec") {
  Flavored cluster;
  cluster.AddQueue(TwoFlavors("q", "", 4, 4));
  cluster.Submit(Gang("one", "q", 3, 1));
  cluster.Submit(Gang("two", "q", 2, 2));
  CHECK(cluster.Run() == Uids{"one", "two"});
  CHECK(cluster.FlavorsOf("one") == Uids{"a"});
  CHECK(cluster.FlavorsOf("two") == Uids{"b"});
  // A pod set is never split over flavors.
  cluster.Submit(Gang("three", "q", 3, 3));
  CHECK(cluster.Run().empty());
  CHECK(KindsOf(cluster.HoldOf("three")) ==
        std::vector<ObstacleKind>{ObstacleKind::kInsufficientUnused, ObstacleKind::kInsufficientUnused});
}

TEST_CASE("by default a flavor is borrowed before the next is tried; TryNextFlavor tries it first") {
  const bool next = GENERATE(false, true);
  Flavored cluster;
  ClusterQueue queue = TwoFlavors("q", "c", 1, 4);
  if (next) queue.when_can_borrow = FungibilityPolicy::kTryNextFlavor;
  cluster.AddQueue(queue);
  cluster.AddQueue(TwoFlavors("lender", "c", 4, 0));
  cluster.Submit(Gang("w", "q", 2));
  REQUIRE(cluster.Run() == Uids{"w"});
  CHECK(cluster.FlavorsOf("w") == (next ? Uids{"b"} : Uids{"a"}));
}

TEST_CASE("taints and labels keep a gang from a flavor, and both reasons are named") {
  Flavored cluster;
  cluster.Apply(FlavorChanged{ResourceFlavor{"a", {}, {{"gpu", "", "NoSchedule"}}, {}, ""}});
  cluster.AddQueue(TwoFlavors("q", "", 4, 4));
  Workload w = Gang("w", "q", 2);
  gang::Shape shape;
  shape.requests["cpu"] = Amount{1};
  shape.node_selector["type"] = "other";
  w.pod_sets[0].shape = ShapeOf(shape);
  cluster.Submit(w);
  CHECK(cluster.Run().empty());
  CHECK(cluster.HoldOf("w")->code == ReasonCode::kNoMatchingFlavor);
  CHECK(KindsOf(cluster.HoldOf("w")) ==
        std::vector<ObstacleKind>{ObstacleKind::kUntoleratedTaint, ObstacleKind::kNodeSelectorMismatch});
  // The flavor's own toleration is injected into the pods, so it counts; nothing else has to happen.
  gang::Toleration toleration;
  toleration.key = "gpu";
  toleration.op = "Exists";
  cluster.Apply(FlavorChanged{ResourceFlavor{"a", {}, {{"gpu", "", "NoSchedule"}}, {toleration}, ""}});
  CHECK(cluster.Run() == Uids{"w"});
  CHECK(cluster.FlavorsOf("w") == Uids{"a"});
}

TEST_CASE("a queue with a flavor that does not exist is inactive until it does") {
  Cluster cluster;
  cluster.AddQueue(TwoFlavors("q", "", 4, 4));
  cluster.Submit(Gang("w", "q", 1));
  CHECK(cluster.Run().empty());
  const std::vector<Inactivity> inactive = cluster.engine.ViewClusterQueue("q").inactive;
  CHECK(inactive == std::vector<Inactivity>{{InactiveReason::kFlavorNotFound, {"a", "b"}}});
  for (const char* name : {"a", "b"}) cluster.Apply(FlavorChanged{ResourceFlavor{name, {}, {}, {}, ""}});
  CHECK(cluster.Run() == Uids{"w"});
  cluster.Apply(FlavorDeleted{"b"});
  CHECK_FALSE(cluster.engine.ViewClusterQueue("q").active);
  CHECK(cluster.PlaceOf("w") == WorkloadView::Place::kHolding);
}

// user_pains A10, G10
TEST_CASE("a resource that no group covers is in the way, unless none of it is asked for") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 4));
  for (const int64_t gpus : {0, 1}) {
    Workload w = Gang("w" + std::to_string(gpus), "q", 1);
    gang::Shape shape;
    shape.requests["cpu"] = Amount{1};
    shape.requests["nvidia.com/gpu"] = Amount{gpus};
    w.pod_sets[0].shape = ShapeOf(shape);
    cluster.Submit(w);
  }
  CHECK(cluster.Run() == Uids{"w0"});
  CHECK(cluster.HoldOf("w1")->code == ReasonCode::kNoMatchingFlavor);
  CHECK(cluster.HoldOf("w1")->obstacles.at(0).resource == "nvidia.com/gpu");
}

TEST_CASE("pods are counted where the queue has quota for them") {
  Cluster cluster;
  ClusterQueue queue = CpuQueue("q", "", 100);
  queue.resource_groups[0].covered_resources.push_back("pods");
  queue.resource_groups[0].flavors[0].resources.push_back({"pods", Amount{3}, std::nullopt, std::nullopt});
  cluster.AddQueue(queue);
  cluster.Submit(Gang("four", "q", 4, 1));
  cluster.Submit(Gang("three", "q", 3, 2));
  CHECK(cluster.Run() == Uids{"three"});
  CHECK(cluster.HoldOf("four")->code == ReasonCode::kExceedsMaxQuota);
  CHECK(cluster.HoldOf("four")->obstacles.at(0).limit == Amount{3});
}

TEST_CASE("pod sets of one gang count together, and the second sees what the first takes") {
  Flavored cluster;
  cluster.AddQueue(TwoFlavors("q", "", 4, 4));
  Workload w = Gang("w", "q", 3);
  PodSet more = w.pod_sets[0];
  more.name = "workers";
  more.count = 2;
  w.pod_sets.push_back(more);
  cluster.Submit(w);
  CHECK(cluster.Run() == Uids{"w"});
  CHECK(cluster.FlavorsOf("w") == Uids{"a", "b"});
  // All or nothing: with 4 and 1 left in all, 5 more do not fit.
  w.uid = "again";
  w.pod_sets[1].count = 3;
  cluster.Submit(w);
  CHECK(cluster.Run().empty());
}

TEST_CASE("groups are decided one by one, each with a flavor of its own") {
  Flavored cluster;
  ClusterQueue queue = CpuQueue("q", "", 4);
  queue.resource_groups.push_back({{"gpu"}, {{"a", {{"gpu", Amount{1}, std::nullopt, std::nullopt}}}}});
  cluster.AddQueue(queue);
  Workload w = Gang("w", "q", 1);
  gang::Shape shape;
  shape.requests["cpu"] = Amount{2};
  shape.requests["gpu"] = Amount{1};
  w.pod_sets[0].shape = ShapeOf(shape);
  cluster.Submit(w);
  CHECK(cluster.Run() == Uids{"w"});
  CHECK(cluster.FlavorsOf("w") == Uids{"f", "a"});  // cpu, gpu
  w.uid = "again";
  cluster.Submit(w);
  CHECK(cluster.Run().empty());
  CHECK(cluster.HoldOf("again")->obstacles.at(0).resource == "gpu");
  CHECK(cluster.HoldOf("again")->obstacles.at(0).missing == Amount{1});
}

TEST_CASE("with a least count the greatest number of pods that fits is admitted") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 9));
  cluster.Submit(Gang("small", "q", 3, 1));
  REQUIRE(cluster.Run() == Uids{"small"});
  Workload big = Gang("big", "q", 20, 2);
  big.pod_sets[0].min_count = 4;
  cluster.Submit(big);
  CHECK(cluster.Run() == Uids{"big"});
  CHECK(cluster.engine.ViewWorkload("big")->admission.pod_sets.at(0).count == 6);
  CHECK(cluster.Reserved("q") == Amount{9});
  cluster.Finish("small");
  CHECK(cluster.Reserved("q") == Amount{6});
  // What is free is usable at once, and below the least count nothing is admitted.
  Workload other = Gang("other", "q", 5, 3);
  other.pod_sets[0].min_count = 4;
  cluster.Submit(other);
  CHECK(cluster.Run().empty());
  cluster.Submit(Gang("three", "q", 3, 4));
  CHECK(cluster.Run() == Uids{"three"});
}

TEST_CASE("the greatest counts are searched without overflow") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 5));
  Workload w = Gang("w", "q", INT32_MAX);
  w.pod_sets[0].min_count = 0;
  for (int i = 0; i < 17; ++i) {
    PodSet more = w.pod_sets[0];
    more.name = "set" + std::to_string(i);
    w.pod_sets.push_back(more);
  }
  cluster.Submit(w);
  REQUIRE(cluster.Run() == Uids{"w"});
  CHECK(cluster.Reserved("q") <= Amount{5});
}

TEST_CASE("what it asks for is never more than 64 bits can hold") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 5));
  ClusterQueue open = CpuQueue("open", "", 0);
  open.resource_groups[0].flavors[0].resources[0].nominal = Amount::Unlimited();
  cluster.AddQueue(open);
  for (const char* queue : {"q", "open"}) {
    Workload w = Gang(std::string("in-") + queue, queue, INT32_MAX);
    w.pod_sets[0].shape = CpuShape(INT64_MAX / 2);
    cluster.Submit(w);
  }
  CHECK(cluster.Run() == Uids{"in-open"});
  CHECK(cluster.HoldOf("in-q")->code == ReasonCode::kExceedsMaxQuota);
  CHECK(cluster.Reserved("open") == Amount::Unlimited());
  cluster.Finish("in-open");
  CHECK(cluster.Reserved("open") == Amount{0});
}

// user_pains G10
TEST_CASE("with IgnoreUndeclared a resource that no group covers keeps nobody out, and is not counted") {
  EngineOptions options;
  options.ignore_undeclared_resources = true;
  Cluster cluster(options);
  cluster.AddQueue(CpuQueue("q", "", 4));
  Workload w = Gang("w", "q", 1);
  gang::Shape shape;
  shape.requests["cpu"] = Amount{3};
  shape.requests["nvidia.com/gpu"] = Amount{8};
  w.pod_sets[0].shape = ShapeOf(shape);
  cluster.Submit(w);
  REQUIRE(cluster.Run() == Uids{"w"});
  const std::optional<WorkloadView> view = cluster.engine.ViewWorkload("w");
  CHECK(view->admission.pod_sets.at(0).usage == std::vector<std::pair<std::string, Amount>>{{"cpu", Amount{3}}});
  w.uid = "more";
  cluster.Submit(w);
  CHECK(cluster.Run().empty());  // of what is covered there is not enough
}

// In its first pass "needs4", which cannot start, keeps all that is free of `a` for itself, and is parked. "one" loses
// to it there, does not fit in `b` in the second, and has the free 2 of `a` before it in the third.
TEST_CASE("who lost to one that is not looked at any more is tried once more from its first flavor") {
  Flavored cluster;
  cluster.AddQueue(TwoFlavors("big", "c", 4, 0));
  ClusterQueue strict = TwoFlavors("strict", "c", 0, 0);
  strict.queueing_strategy = QueueingStrategy::kStrictFIFO;
  cluster.AddQueue(strict);
  cluster.Submit(Gang("holder", "big", 2, 1));
  REQUIRE(cluster.Run() == Uids{"holder"});
  cluster.Submit(Gang("needs4", "big", 4, 2, 5));
  cluster.Submit(Gang("one", "strict", 1, 3));
  CHECK(cluster.Run() == Uids{"one"});
  CHECK(cluster.FlavorsOf("one") == Uids{"a"});
}

}  // namespace muster::engine
