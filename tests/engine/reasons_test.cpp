// Why each workload waits: one stable code, the numbers, who is in the way; and the counts by code.
// The amounts are counted by hand; formulas: kueue_semantics 5.1. user_pains G1.
#include <catch2/catch.hpp>

#include "cluster.h"

namespace muster::engine {

namespace {

// What the engine says now, and what it said last; both have the same code.
Reason ReasonOf(Cluster* cluster, const std::string& uid) {
  cluster->engine.Validate();
  return cluster->engine.ViewWorkload(uid)->reason;
}
WaitCode CodeOf(Cluster* cluster, const std::string& uid) { return WaitCodeOf(ReasonOf(cluster, uid)); }
Obstacle ObstacleOf(Cluster* cluster, const std::string& uid) {
  const Reason reason = ReasonOf(cluster, uid);
  REQUIRE(DecisiveObstacle(reason) != nullptr);
  return *DecisiveObstacle(reason);
}
int64_t Counted(const Cluster& cluster, const std::string& queue, WaitCode code) {
  return cluster.engine.ViewLocalQueue("ns", queue).waiting.by_code[static_cast<size_t>(code)];
}
int64_t AllCounted(const Cluster& cluster, const std::string& queue) {
  int64_t sum = 0;
  for (const int64_t n : cluster.engine.ViewLocalQueue("ns", queue).waiting.by_code) sum += n;
  return sum;
}

Cohort CohortUnder(const std::string& name, const std::string& parent) {
  Cohort cohort;
  cohort.name = name;
  cohort.parent = parent;
  return cohort;
}

}  // namespace

TEST_CASE("quota in use names the ClusterQueue or the Cohort, how much is used, and who holds it") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("alone", "", 4));
  cluster.AddQueue(CpuQueue("a", "team", 4));
  cluster.AddQueue(CpuQueue("b", "team", 2));
  cluster.Submit(Gang("runs", "alone", 3, 1));
  cluster.Submit(Gang("borrows", "a", 5, 1));
  REQUIRE(cluster.Run(At(100)).size() == 2);
  cluster.Submit(Gang("one", "alone", 2, 2));
  cluster.Submit(Gang("two", "b", 2, 2));
  CHECK(cluster.Run(At(101)).empty());
  const Obstacle one = ObstacleOf(&cluster, "one");
  CHECK(CodeOf(&cluster, "one") == WaitCode::kQuotaInUse);
  CHECK(one.object == "alone");
  CHECK_FALSE(one.of_cohort);
  CHECK((one.bound_limit == Amount{4} && one.used == Amount{3} && one.missing == Amount{1}));
  CHECK(ReasonOf(&cluster, "one").blockers == std::vector<Blocker>{{"runs", "ns", "runs"}});
  // 6 of the cohort less 5 that are borrowed: 1 is left of the 2 asked for.
  const Obstacle two = ObstacleOf(&cluster, "two");
  CHECK(CodeOf(&cluster, "two") == WaitCode::kQuotaInUse);
  CHECK((two.object == "team" && two.of_cohort));
  CHECK((two.bound_limit == Amount{6} && two.used == Amount{5} && two.missing == Amount{1}));
  CHECK(ReasonOf(&cluster, "two").blockers == std::vector<Blocker>{{"borrows", "ns", "borrows"}});
  CHECK(Counted(cluster, "alone", WaitCode::kQuotaInUse) == 1);
  cluster.Finish("runs");
  REQUIRE(cluster.Run(At(102)).size() == 1);
  CHECK(AllCounted(cluster, "alone") == 0);
}

TEST_CASE("of many who hold what is missing the newest few are named") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 6));
  for (int i = 0; i < 6; ++i) {
    cluster.Submit(Gang("r" + std::to_string(i), "q", 1, i));
    REQUIRE(cluster.Run(At(100 + i)).size() == 1);
  }
  cluster.Submit(Gang("waits", "q", 1, 9));
  REQUIRE(cluster.Run(At(200)).empty());
  std::vector<std::string> names;
  for (const Blocker& blocker : ReasonOf(&cluster, "waits").blockers) names.push_back(blocker.name);
  CHECK(names == std::vector<std::string>{"r5", "r4", "r3", "r2"});
}

TEST_CASE("a borrowing limit is told from quota that is used up, at whatever level it is") {
  Cluster cluster;
  const bool at_queue = GENERATE(true, false);
  // "poor" may borrow 1 of the 8; or the cohort it is in may.
  cluster.AddQueue(CpuQueue("poor", "inner", 2, at_queue ? std::optional<int64_t>(1) : std::nullopt));
  cluster.AddQueue(CpuQueue("rich", "outer", 8));
  Cohort inner = CohortUnder("inner", "outer");
  if (!at_queue) {
    ResourceQuota quota{"cpu", Amount{0}, Amount{1}, std::nullopt};
    inner.resource_groups = {ResourceGroup{{"cpu"}, {FlavorQuotas{"f", {quota}}}}};
  }
  cluster.Apply(CohortChanged{inner});
  cluster.Submit(Gang("runs", "poor", 2, 1));
  REQUIRE(cluster.Run().size() == 1);
  cluster.Submit(Gang("over", "poor", 2, 2));
  cluster.Submit(Gang("never", "poor", 4, 3));
  CHECK(cluster.Run().empty());
  CHECK(CodeOf(&cluster, "over") == WaitCode::kBorrowingLimit);
  const Obstacle over = ObstacleOf(&cluster, "over");
  CHECK(over.object == (at_queue ? "poor" : "inner"));
  CHECK(over.of_cohort != at_queue);
  CHECK((over.bound_limit == Amount{1} && over.used == Amount{0} && over.missing == Amount{1}));
  CHECK(CodeOf(&cluster, "never") == WaitCode::kNeverFits);
  const Obstacle never = ObstacleOf(&cluster, "never");
  CHECK((never.limit == Amount{3} && never.bound == quota::Bound::kBorrowingLimit));
  CHECK(never.object == (at_queue ? "poor" : "inner"));
}

TEST_CASE("what others keep for themselves by a lending limit is told, as long as that would help") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("poor", "all", 1));
  cluster.AddQueue(CpuQueue("rich", "all", 4, std::nullopt, 1));  // keeps 3
  cluster.Submit(Gang("runs", "poor", 2, 1));
  REQUIRE(cluster.Run().size() == 1);
  cluster.Submit(Gang("now", "poor", 1, 2));
  cluster.Submit(Gang("more", "poor", 5, 3));
  cluster.Submit(Gang("huge", "poor", 6, 4));
  CHECK(cluster.Run().empty());
  CHECK(CodeOf(&cluster, "now") == WaitCode::kLendingLimit);
  const Obstacle now = ObstacleOf(&cluster, "now");
  CHECK((now.object == "all" && now.of_cohort && now.bound_limit == Amount{3} && now.missing == Amount{1}));
  // 5 = 1 + 1 + 3: possible, if only "rich" lent all; 6 is not.
  CHECK(CodeOf(&cluster, "more") == WaitCode::kNeverFits);
  CHECK(ObstacleOf(&cluster, "more").bound == quota::Bound::kLendingLimit);
  CHECK(ObstacleOf(&cluster, "huge").bound == quota::Bound::kQuota);
  CHECK(ObstacleOf(&cluster, "huge").bound_limit == Amount{2});
  // "rich" uses its own: nothing is kept back any more, so it is the quota that is used up.
  cluster.Submit(Gang("owner", "rich", 3, 1));
  REQUIRE(cluster.Run().size() == 1);
  cluster.Submit(Gang("late", "poor", 1, 9, 1));
  CHECK(cluster.Run().empty());
  CHECK(CodeOf(&cluster, "late") == WaitCode::kQuotaInUse);
}

TEST_CASE("taint, selector and affinity are told apart, each with what it is about") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 4));
  const auto wait_with = [&cluster](const std::string& uid, const gang::Shape& wanted) {
    Workload workload = Gang(uid, "q", 1);
    gang::Shape shape = wanted;
    shape.requests["cpu"] = Amount{1};
    workload.pod_sets[0].shape = std::make_shared<const gang::Shape>(std::move(shape));
    cluster.Submit(workload);
    CHECK(cluster.Run().empty());
  };
  cluster.Apply(FlavorChanged{ResourceFlavor{"f", {{"zone", "a"}}, {}, {}, ""}});
  gang::Shape selects;
  selects.node_selector = {{"zone", "b"}};
  wait_with("selects", selects);
  CHECK(CodeOf(&cluster, "selects") == WaitCode::kNodeSelectorMismatch);
  CHECK(ObstacleOf(&cluster, "selects").object == "zone=b");
  gang::Shape prefers;
  prefers.required_affinity = {{{Requirement{"zone", Requirement::Operator::kIn, {"b"}}}, {}}};
  wait_with("prefers", prefers);
  CHECK(CodeOf(&cluster, "prefers") == WaitCode::kNodeAffinityMismatch);
  cluster.Apply(FlavorChanged{ResourceFlavor{"f", {}, {{"gpu", "x", "NoSchedule"}}, {}, ""}});
  wait_with("plain", {});
  CHECK(CodeOf(&cluster, "plain") == WaitCode::kUntoleratedTaint);
  CHECK(ObstacleOf(&cluster, "plain").object == "gpu=x:NoSchedule");
}

TEST_CASE("of several flavors the code is that of the one that may come free first") {
  Cluster cluster;
  for (const char* name : {"small", "full"}) {
    cluster.Apply(FlavorChanged{ResourceFlavor{name, {}, {}, {}, ""}});
  }
  ClusterQueue queue = CpuQueue("q", "", 0);
  queue.resource_groups[0].flavors = {{"small", {{"cpu", Amount{1}, std::nullopt, std::nullopt}}},
                                      {"full", {{"cpu", Amount{4}, std::nullopt, std::nullopt}}}};
  cluster.AddQueue(queue);
  cluster.Submit(Gang("runs", "q", 3, 1));
  REQUIRE(cluster.Run().size() == 1);
  cluster.Submit(Gang("waits", "q", 2, 2));
  CHECK(cluster.Run().empty());
  CHECK(CodeOf(&cluster, "waits") == WaitCode::kQuotaInUse);
  CHECK(ObstacleOf(&cluster, "waits").flavor == "full");
}

TEST_CASE("queues that are missing, stopped or not in order each have a code, and the counts follow") {
  Cluster cluster;
  cluster.Submit(Gang("w", "q", 1));
  CHECK(cluster.Run().empty());
  CHECK(CodeOf(&cluster, "w") == WaitCode::kLocalQueueMissing);
  CHECK(cluster.engine.WaitingWithoutLocalQueue().by_code[static_cast<size_t>(WaitCode::kLocalQueueMissing)] == 1);
  LocalQueue local = LocalTo("q");
  const auto becomes = [&cluster](WaitCode code) {
    CHECK(cluster.Run().empty());
    CHECK(CodeOf(&cluster, "w") == code);
    CHECK(WaitCodeOf(*cluster.HoldOf("w")) == code);
    CHECK(Counted(cluster, "q", code) == 1);
    CHECK(AllCounted(cluster, "q") == 1);
  };
  cluster.Apply(LocalQueueChanged{local});
  becomes(WaitCode::kClusterQueueMissing);
  CHECK(cluster.engine.WaitingWithoutLocalQueue() == WaitCounts{});
  local.stop_policy = StopPolicy::kHold;
  cluster.Apply(LocalQueueChanged{local});
  becomes(WaitCode::kLocalQueueStopped);
  local.stop_policy = StopPolicy::kNone;
  local.misconfigured = "spec.fairSharing.weight: \"x\" is not a quantity";
  cluster.Apply(LocalQueueChanged{local});
  becomes(WaitCode::kLocalQueueMisconfigured);
  CHECK(ObstacleOf(&cluster, "w").names == std::vector<std::string>{local.misconfigured});
  CHECK(cluster.engine.ViewLocalQueue("ns", "q").misconfigured == local.misconfigured);
  local.misconfigured.clear();
  cluster.Apply(LocalQueueChanged{local});
  ClusterQueue queue = CpuQueue("q", "", 4);
  queue.resource_groups[0].flavors[0].flavor = "later";
  cluster.Apply(ClusterQueueChanged{queue});
  becomes(WaitCode::kFlavorMissing);
  CHECK(ObstacleOf(&cluster, "w").names == std::vector<std::string>{"later"});
  queue.stop_policy = StopPolicy::kHold;
  ++queue.generation;
  cluster.Apply(ClusterQueueChanged{queue});
  becomes(WaitCode::kClusterQueueStopped);
  queue.terminating = true;
  cluster.Apply(ClusterQueueChanged{queue});
  becomes(WaitCode::kClusterQueueTerminating);
  queue = CpuQueue("q", "", 4);
  queue.admission_checks = {{"budget", {}}};
  cluster.Apply(ClusterQueueChanged{queue});
  becomes(WaitCode::kAdmissionCheck);
  queue = CpuQueue("q", "", 4);
  cluster.Apply(FlavorChanged{ResourceFlavor{"f", {}, {}, {}, "topology", ""}});
  cluster.Apply(ClusterQueueChanged{queue});
  becomes(WaitCode::kTopologyMissing);
  cluster.Apply(FlavorChanged{ResourceFlavor{"f", {}, {}, {}, ""}});
  queue.namespace_selector = LabelSelector{{{"team", "a"}}, {}};
  cluster.Apply(ClusterQueueChanged{queue});
  becomes(WaitCode::kNamespaceMismatch);
  queue.namespace_selector = LabelSelector{};
  cluster.Apply(ClusterQueueChanged{queue});
  CHECK(cluster.Run().size() == 1);
  CHECK(AllCounted(cluster, "q") == 0);
}

TEST_CASE("who is parked is told when its queue does not take its namespace any more, or does again") {
  Cluster cluster;
  ClusterQueue queue = CpuQueue("q", "", 4);
  cluster.AddQueue(queue);
  cluster.Submit(Gang("holds", "q", 4, 1));
  REQUIRE(cluster.Run().size() == 1);
  cluster.Submit(Gang("waits", "q", 1, 2));
  cluster.Run();
  CHECK(WaitCodeOf(*cluster.HoldOf("waits")) == WaitCode::kQuotaInUse);
  queue.namespace_selector = LabelSelector{{{"team", "a"}}, {}};
  cluster.Apply(ClusterQueueChanged{queue});
  cluster.Run();
  REQUIRE(cluster.HoldOf("waits").has_value());
  CHECK(WaitCodeOf(*cluster.HoldOf("waits")) == WaitCode::kNamespaceMismatch);
  cluster.Apply(NamespaceChanged{Namespace{"ns", {{"team", "a"}}}});
  cluster.Run();
  REQUIRE(cluster.HoldOf("waits").has_value());
  CHECK(WaitCodeOf(*cluster.HoldOf("waits")) == WaitCode::kQuotaInUse);
  cluster.Apply(NamespaceChanged{Namespace{"ns", {}}});
  cluster.Run();
  REQUIRE(cluster.HoldOf("waits").has_value());
  CHECK(WaitCodeOf(*cluster.HoldOf("waits")) == WaitCode::kNamespaceMismatch);
}

// Five of four cpus never fit; that is so for the stranger too, and not what it waits for.
TEST_CASE("who is parked along with its like is told that its queue does not take its namespace") {
  Cluster cluster;
  ClusterQueue queue = CpuQueue("q", "", 4);
  queue.namespace_selector = LabelSelector{{{"team", "a"}}, {}};
  cluster.AddQueue(queue);
  cluster.Apply(NamespaceChanged{Namespace{"good", {{"team", "a"}}}});
  LocalQueue good = LocalTo("q");
  good.ns = "good";
  cluster.Apply(LocalQueueChanged{good});
  Workload taken = Gang("taken", "q", 5, 1);
  taken.ns = "good";
  cluster.Submit(taken);
  if (GENERATE(false, true)) CHECK(cluster.Run().empty());  // it is parked before the other comes
  cluster.Submit(Gang("stranger", "q", 5, 2));
  CHECK(cluster.Run().empty());
  CHECK(WaitCodeOf(cluster.engine.ViewWorkload("taken")->reason) == WaitCode::kNeverFits);
  REQUIRE(cluster.HoldOf("stranger").has_value());
  CHECK(WaitCodeOf(*cluster.HoldOf("stranger")) == WaitCode::kNamespaceMismatch);
  CHECK(WaitCodeOf(cluster.engine.ViewWorkload("stranger")->reason) == WaitCode::kNamespaceMismatch);
  cluster.Apply(NamespaceChanged{Namespace{"ns", {{"team", "a"}}}});
  CHECK(cluster.Run().empty());
  CHECK(WaitCodeOf(cluster.engine.ViewWorkload("stranger")->reason) == WaitCode::kNeverFits);
}

TEST_CASE(
    "what cannot be read of a queue, flavor or cohort makes the queues that depend on it inactive, and no others") {
  Cluster cluster;
  cluster.Apply(FlavorChanged{ResourceFlavor{"g", {}, {}, {}, ""}});
  ClusterQueue other = CpuQueue("other", "outer", 4);
  other.resource_groups[0].flavors[0].flavor = "g";
  cluster.AddQueue(other);
  cluster.AddQueue(CpuQueue("in", "inner", 4));
  cluster.AddQueue(CpuQueue("alone", "", 4));
  cluster.Apply(CohortChanged{CohortUnder("inner", "outer")});
  const auto why = [&cluster](const std::string& queue) { return cluster.engine.ViewClusterQueue(queue).inactive; };
  const std::vector<Inactivity> none;

  ClusterQueue queue = CpuQueue("in", "inner", 4);
  queue.misconfigured = "spec.x: bad";
  cluster.Apply(ClusterQueueChanged{queue});
  CHECK(why("in") == std::vector<Inactivity>{{InactiveReason::kMisconfigured, {"spec.x: bad"}}});
  CHECK((why("other") == none && why("alone") == none));
  cluster.Apply(ClusterQueueChanged{CpuQueue("in", "inner", 4)});
  CHECK(why("in") == none);

  cluster.Apply(FlavorChanged{ResourceFlavor{"f", {}, {}, {}, "", "spec.y: bad"}});
  const std::vector<Inactivity> flavor = {{InactiveReason::kFlavorMisconfigured, {"ResourceFlavor f: spec.y: bad"}}};
  CHECK((why("in") == flavor && why("alone") == flavor && why("other") == none));
  cluster.Apply(FlavorChanged{ResourceFlavor{"f", {}, {}, {}, ""}});
  CHECK((why("in") == none && why("alone") == none));

  Cohort inner = CohortUnder("inner", "outer");
  inner.misconfigured = "spec.z: bad";
  cluster.Apply(CohortChanged{inner});
  const std::vector<Inactivity> cohort = {{InactiveReason::kCohortMisconfigured, {"Cohort inner: spec.z: bad"}}};
  CHECK((why("in") == cohort && why("other") == none && why("alone") == none));
  cluster.Submit(Gang("w", "in", 1));
  CHECK(cluster.Run().empty());
  CHECK(CodeOf(&cluster, "w") == WaitCode::kClusterQueueMisconfigured);
  // A queue that comes below it later depends on it, too.
  cluster.Apply(ClusterQueueChanged{CpuQueue("alone", "inner", 4)});
  CHECK(why("alone") == cohort);
  cluster.Apply(CohortDeleted{"inner"});
  CHECK((why("in") == none && why("alone") == none));
  CHECK(cluster.Run().size() == 1);
  cluster.Apply(CohortChanged{inner});
  CHECK(why("in") == cohort);
  CHECK(cluster.PlaceOf("w") == WorkloadView::Place::kHolding);
  cluster.Apply(CohortChanged{CohortUnder("inner", "outer")});
  CHECK(why("in") == none);
}

TEST_CASE("those behind a strict head, backing off, or looked at by nobody yet are counted as what they are") {
  Cluster cluster;
  ClusterQueue queue = CpuQueue("q", "", 4);
  queue.queueing_strategy = QueueingStrategy::kStrictFIFO;
  cluster.AddQueue(queue);
  cluster.Submit(Gang("head", "q", 5, 1));
  cluster.Submit(Gang("small", "q", 1, 2));
  CHECK(Counted(cluster, "q", WaitCode::kPendingEvaluation) == 2);
  CHECK(cluster.Run().empty());
  CHECK(Counted(cluster, "q", WaitCode::kNeverFits) == 1);
  CHECK(Counted(cluster, "q", WaitCode::kBehindStrictHead) == 1);
  Workload later = Gang("later", "q", 1, 3);
  later.not_before = At(500);
  cluster.Submit(later);
  CHECK(Counted(cluster, "q", WaitCode::kBackingOff) == 1);
  Workload off = Gang("small", "q", 1, 2);
  off.active = false;
  cluster.Submit(off);
  CHECK(AllCounted(cluster, "q") == 2);  // what is deactivated does not wait
  CHECK(CodeOf(&cluster, "small") == WaitCode::kDeactivated);
  cluster.Finish("head");
  cluster.Finish("later");
  CHECK(AllCounted(cluster, "q") == 0);
}

TEST_CASE("whoever is the head of a strict queue again and is overtaken again is told so each time") {
  Cluster cluster;
  ClusterQueue queue = CpuQueue("q", "", 4);
  queue.queueing_strategy = QueueingStrategy::kStrictFIFO;
  cluster.AddQueue(queue);
  cluster.Submit(Gang("holds", "q", 4, 1));
  REQUIRE(cluster.Run() == std::vector<std::string>{"holds"});
  const auto told = [&cluster](const std::string& uid) {
    CHECK(cluster.Run().empty());
    REQUIRE(cluster.HoldOf(uid).has_value());
    return WaitCodeOf(*cluster.HoldOf(uid));
  };
  cluster.Submit(Gang("old", "q", 2, 5));
  CHECK(told("old") == WaitCode::kQuotaInUse);
  for (const char* urgent : {"first", "second"}) {
    cluster.Submit(Gang(urgent, "q", 2, 9, 1));
    CHECK(told("old") == WaitCode::kBehindStrictHead);
    cluster.Finish(urgent);
    CHECK(told("old") == WaitCode::kQuotaInUse);
  }
}

TEST_CASE("a workload of many equals has the numbers of the last that was looked at") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Gang("big", "q", 6, 1));
  cluster.Submit(Gang("small", "q", 2, 1));
  REQUIRE(cluster.Run().size() == 2);
  for (const char* uid : {"a", "b", "c"}) cluster.Submit(Gang(uid, "q", 8, 2));
  CHECK(cluster.Run().empty());
  CHECK(ObstacleOf(&cluster, "c").missing == Amount{6});  // 8 - (10 - 8)
  cluster.Finish("small");
  CHECK(cluster.Run().empty());
  for (const char* uid : {"a", "b", "c"}) {
    CHECK(ObstacleOf(&cluster, uid).missing == Amount{4});
    CHECK_FALSE(cluster.HoldOf("c").has_value());  // fresh numbers are no news
  }
}

// user_pains F10
TEST_CASE("what waits is summed up by resource, by kind, and by age") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 4));
  const auto pending = [&cluster] { return cluster.engine.ViewPending("q"); };
  using Resources = std::vector<std::pair<std::string, Amount>>;
  CHECK(pending().resources == Resources{{"cpu", Amount{0}}});
  CHECK_FALSE(pending().oldest.IsSet());
  cluster.Submit(Gang("runs", "q", 3, 1));
  REQUIRE(cluster.Run().size() == 1);
  CHECK(pending().resources == Resources{{"cpu", Amount{0}}});
  cluster.Submit(Gang("a", "q", 2, 7));
  cluster.Submit(Gang("b", "q", 2, 5));
  cluster.Submit(Gang("c", "q", 4, 6, 100));
  Workload gpu = Gang("gpu", "q", 2, 8);
  gang::Shape shape;
  shape.requests["gpu"] = Amount{3};
  gpu.pod_sets[0].shape = std::make_shared<const gang::Shape>(shape);
  cluster.Submit(gpu);
  CHECK(pending().resources == Resources{{"cpu", Amount{8}}, {"gpu", Amount{6}}});
  CHECK(pending().equivalences_active == 3);
  CHECK(pending().equivalences_inadmissible == 0);
  CHECK(pending().oldest == At(5));
  REQUIRE(cluster.Run().empty());
  CHECK(pending().equivalences_active == 0);
  CHECK(pending().equivalences_inadmissible == 3);
  // Told again and again, it is counted once.
  for (int i = 0; i < 10; ++i) {
    LocalQueue local = LocalTo("q");
    local.stop_policy = i % 2 == 0 ? StopPolicy::kHold : StopPolicy::kNone;
    cluster.Apply(LocalQueueChanged{local});
  }
  CHECK(pending().resources == Resources{{"cpu", Amount{8}}, {"gpu", Amount{6}}});
  cluster.Finish("b");
  CHECK(pending().oldest == At(6));
  cluster.Finish("gpu");
  CHECK(pending().resources == Resources{{"cpu", Amount{6}}});
  cluster.Finish("runs");
  CHECK(cluster.Run() == std::vector<std::string>{"c"});
  CHECK(pending().resources == Resources{{"cpu", Amount{2}}});
}

TEST_CASE("a cohort sums up what is below it") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("a", "inner", 4));
  cluster.AddQueue(CpuQueue("b", "outer", 2, std::nullopt, 1));
  cluster.Apply(CohortChanged{CohortUnder("inner", "outer")});
  cluster.Submit(Gang("one", "a", 3));
  cluster.Submit(Gang("two", "b", 2));
  REQUIRE(cluster.Run().size() == 2);
  const std::vector<CohortView> views = cluster.engine.ViewCohorts();
  REQUIRE(views.size() == 2);
  CHECK(views[0] == CohortView{"inner", "outer", "outer", 1, {{"f", "cpu", Amount{4}, Amount{3}}}});
  // 4 + 1 of the 2 is lent; 3 + 2 are held.
  CHECK(views[1] == CohortView{"outer", "", "outer", 2, {{"f", "cpu", Amount{5}, Amount{5}}}});
  CHECK(cluster.engine.CohortsOf("a") == std::vector<std::string>{"inner", "outer"});
  CHECK(cluster.engine.CohortsOf("b") == std::vector<std::string>{"outer"});
  CHECK(cluster.engine.CohortNames() == std::vector<std::string>{"inner", "outer"});
}

}  // namespace muster::engine
