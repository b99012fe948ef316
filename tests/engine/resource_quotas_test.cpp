// ResourceQuotas of namespaces: a gang starts only where all of its pods get in, with what is to come of others. All
// numbers are worked out by hand from the quotas of each case.
//
// Source: user_pains D9.
#include <catch2/catch.hpp>

#include "on_machines.h"

namespace muster::engine {

namespace {

using Uids = std::vector<std::string>;
using Place = WorkloadView::Place;

constexpr char kCpu[] = "requests.cpu";

// A pod of so much cpu.
gang::ShapePtr ChargedShape(int64_t cpu, const std::string& priority_class = "") {
  gang::Shape shape;
  shape.requests["cpu"] = Amount{cpu};
  gang::PodCharge& charge = shape.charge.emplace();
  charge.amounts = {{"pods", Amount{1}}, {kCpu, Amount{cpu}}};
  charge.unset = {"limits.cpu"};
  charge.priority_class = priority_class;
  return std::make_shared<const gang::Shape>(std::move(shape));
}

Workload Charged(const std::string& uid, const std::string& queue, int32_t pods, int64_t created = 1,
                 int32_t priority = 0) {
  Workload workload = Gang(uid, queue, pods, created, priority);
  workload.pod_sets[0].shape = ChargedShape(1);
  return workload;
}

NamespaceQuota Quota(int64_t hard, int64_t used = 0, const std::string& limit = kCpu) {
  return {"ns", "team-quota", {{limit, Amount{hard}, Amount{used}}}, {}};
}

class InNamespace : public OnMachines {
 public:
  explicit InNamespace(EngineOptions options = WithMachines()) : OnMachines(options) { AddNode("n1", "a", 1000, 1000); }
  void SetQuota(const NamespaceQuota& quota) { Apply(NamespaceQuotaChanged{quota}); }
  void SetUsed(int64_t hard, int64_t used) { SetQuota(Quota(hard, used)); }
  void SetCounted(const std::string& uid, int64_t pods) { Apply(PodsCounted{uid, "main", pods}); }
  // requested, used, to come, hard
  std::vector<int64_t> Numbers(const std::string& uid) const {
    const Obstacle obstacle = ObstacleOf(uid);
    REQUIRE(obstacle.kind == ObstacleKind::kResourceQuota);
    CHECK(obstacle.object == "team-quota");
    return {obstacle.requested.value, obstacle.used.value, obstacle.assumed.value, obstacle.limit.value};
  }
};

using Numbers = std::vector<int64_t>;

}  // namespace

TEST_CASE("a gang of eight does not start where its namespace lets in four, and does once that is raised") {
  InNamespace cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.SetQuota(Quota(4));
  cluster.Submit(Charged("w", "q", 8));
  CHECK(cluster.Run().empty());
  CHECK(cluster.PlaceOf("w") == Place::kParked);
  CHECK(cluster.Numbers("w") == Numbers{8, 0, 0, 4});
  CHECK(cluster.ObstacleOf("w").resource == kCpu);
  const Reason reason = cluster.engine.ViewWorkload("w")->reason;
  CHECK(reason.code == ReasonCode::kExceedsMaxQuota);
  CHECK(WaitCodeOf(reason) == WaitCode::kResourceQuota);
  CHECK(cluster.Reserved("q") == Amount{0});
  SECTION("raised, but not by enough") {
    cluster.SetQuota(Quota(7));
    CHECK(cluster.Run().empty());
    CHECK(cluster.Numbers("w") == Numbers{8, 0, 0, 7});
    cluster.SetQuota(Quota(8));
    CHECK(cluster.Run() == Uids{"w"});
  }
  SECTION("deleted") {
    cluster.Apply(NamespaceQuotaDeleted{"ns", "team-quota"});
    CHECK(cluster.Run() == Uids{"w"});
  }
  SECTION("it limits something else from now on") {
    cluster.SetQuota(Quota(4, 0, "requests.nvidia.com/gpu"));
    CHECK(cluster.Run() == Uids{"w"});
  }
  SECTION("the gang becomes smaller") {
    cluster.Submit(Charged("w", "q", 4));
    CHECK(cluster.Run() == Uids{"w"});
  }
  SECTION("another quota of the namespace is in the way too") {
    NamespaceQuota pods = Quota(6, 1, "pods");
    pods.name = "count-quota";
    cluster.SetQuota(pods);
    cluster.SetQuota(Quota(8));
    CHECK(cluster.Run().empty());
    CHECK(cluster.ObstacleOf("w").object == "count-quota");
    CHECK(cluster.ObstacleOf("w").resource == "pods");
    pods.limits[0].hard = Amount{9};
    cluster.SetQuota(pods);
    CHECK(cluster.Run() == Uids{"w"});
  }
}

TEST_CASE("what is to come of a gang that was admitted is counted until it is used, and no longer") {
  InNamespace cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.SetQuota(Quota(6));
  cluster.Submit(Charged("first", "q", 4, 1));
  cluster.Submit(Charged("second", "q", 4, 2));
  cluster.Submit(Charged("third", "q", 2, 3));
  // Decided at once: the third is behind who does not fit, and fits beside the first.
  CHECK(cluster.Run() == Uids{"first", "third"});
  // When it was looked at only the first was to come.
  CHECK(cluster.Numbers("second") == Numbers{4, 0, 4, 6});
  CHECK(cluster.engine.ViewWorkload("second")->reason.code == ReasonCode::kWaitingForQuota);
  // Its pods come, and are counted there before they are known here: for a while they count twice.
  cluster.Finish("third");
  cluster.SetUsed(6, 4);
  cluster.Submit(Charged("small", "q", 2, 4));
  CHECK(cluster.Run().empty());
  CHECK(cluster.Numbers("small") == Numbers{2, 4, 4, 6});
  cluster.SetCounted("first", 3);
  CHECK(cluster.Run().empty());
  CHECK(cluster.Numbers("small") == Numbers{2, 4, 1, 6});
  cluster.SetCounted("first", 4);
  CHECK(cluster.Run() == Uids{"small"});
  // A pod that failed is to come again, as soon as it is gone here.
  cluster.SetCounted("first", 3);
  cluster.SetUsed(6, 3);
  CHECK(cluster.Run().empty());
  CHECK(cluster.Numbers("second") == Numbers{4, 3, 3, 6});
  // The gang ends, and what it used is used until the API server says otherwise.
  cluster.Finish("first");
  cluster.SetCounted("first", 0);
  CHECK(cluster.Run().empty());
  CHECK(cluster.Numbers("second") == Numbers{4, 3, 2, 6});
  cluster.SetUsed(6, 0);
  CHECK(cluster.Run() == Uids{"second"});
}

TEST_CASE("a gang that is stopped makes no more pods, and what is no longer needed does not come") {
  InNamespace cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.SetQuota(Quota(4));
  cluster.Submit(Charged("first", "q", 4, 1));
  CHECK(cluster.Run() == Uids{"first"});
  cluster.Submit(Charged("second", "q", 2, 2));
  CHECK(cluster.Run().empty());
  SECTION("stopped before any pod came") {
    cluster.Stop("first");
    CHECK(cluster.Run() == Uids{"second"});
    cluster.Apply(ClaimGone{"first", cluster.claims.at("first")});
    CHECK(cluster.Run().empty());
    CHECK(cluster.Numbers("first") == Numbers{4, 0, 2, 4});
  }
  SECTION("its start was refused") {
    cluster.Finish("first");
    CHECK(cluster.Run() == Uids{"second"});
  }
  SECTION("two of its pods are done") {
    Workload fewer = Charged("first", "q", 2, 1);
    cluster.Submit(fewer);
    CHECK(cluster.Run() == Uids{"second"});
  }
}

TEST_CASE("another process counts what is to come of gangs that it finds, and not what is used already") {
  InNamespace cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.SetQuota(Quota(6, 3));
  cluster.SetCounted("found", 3);  // told before the gang itself
  Workload found = Charged("found", "q", 4);
  found.held = HeldClaim{{7, 7}, ClaimState::kActive, {}, At(1)};
  found.held->admission = {"q", {{"main", 4, {{"cpu", "a"}}, {{"cpu", Amount{4}}}}}};
  cluster.Submit(found);
  cluster.Submit(Charged("three", "q", 3, 2));
  cluster.Submit(Charged("two", "q", 2, 3));
  CHECK(cluster.Run() == Uids{"two"});
  CHECK(cluster.Numbers("three") == Numbers{3, 3, 1, 6});  // before the other was admitted
}

TEST_CASE(
    "who is refused stands in nobody's way, but at the head of a strict queue, and elsewhere its like may start") {
  InNamespace cluster;
  cluster.Apply(NamespaceChanged{Namespace{"other", {}}});
  const bool strict = GENERATE(false, true);
  CAPTURE(strict);
  ClusterQueue queue = PoolQueue("q", {"a"});
  if (strict) queue.queueing_strategy = QueueingStrategy::kStrictFIFO;
  cluster.AddQueue(queue);
  LocalQueue elsewhere = LocalTo("q");
  elsewhere.ns = "other";
  cluster.Apply(LocalQueueChanged{elsewhere});
  cluster.SetQuota(Quota(4));
  cluster.Submit(Charged("refused", "q", 8, 1));
  Workload alike = Charged("alike", "q", 8, 2);
  alike.ns = "other";
  cluster.Submit(alike);
  cluster.Submit(Charged("small", "q", 1, 3));
  CHECK(cluster.Run() == (strict ? Uids{} : Uids{"alike", "small"}));
  cluster.SetQuota(Quota(9));
  CHECK(cluster.Run() == (strict ? Uids{"refused", "alike", "small"} : Uids{"refused"}));
}

TEST_CASE("queues of several trees lead from one namespace, and share what it lets in") {
  InNamespace cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.AddQueue(PoolQueue("r", {"a"}, 1000, "cohort"));
  cluster.SetQuota(Quota(4));
  cluster.Submit(Charged("one", "q", 3, 1));
  cluster.Submit(Charged("two", "r", 3, 2));
  const Uids first = cluster.Run();
  REQUIRE(first.size() == 1);
  const std::string second = first[0] == "one" ? "two" : "one";
  CHECK(cluster.Numbers(second) == Numbers{3, 0, 3, 4});
  cluster.Finish(first[0]);
  CHECK(cluster.Run() == Uids{second});
}

TEST_CASE("nobody is evicted for room that the namespace would not let the gang use") {
  InNamespace cluster;
  ClusterQueue queue = PoolQueue("q", {"a"}, 4);
  queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
  cluster.AddQueue(queue);
  cluster.Submit(Gang("low", "q", 4, 1));
  CHECK(cluster.Run() == Uids{"low"});
  cluster.SetQuota(Quota(2));
  cluster.Submit(Charged("high", "q", 3, 2, 10));
  CHECK(cluster.Run().empty());
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.Numbers("high") == Numbers{3, 0, 0, 2});
  cluster.SetQuota(Quota(3));
  CHECK(cluster.Run().empty());
  CHECK(cluster.Preempted() == Uids{"low for high"});

  SECTION("what it is to use is not for others of the namespace meanwhile") {
    cluster.AddQueue(PoolQueue("r", {"b"}));
    cluster.AddNode("n2", "b", 10);
    cluster.Submit(Charged("late", "r", 1, 3));
    CHECK(cluster.Run().empty());
    CHECK(cluster.Numbers("late") == Numbers{1, 0, 3, 3});
    cluster.LeaveAll();
    cluster.Leave("low");
    CHECK(cluster.Run() == Uids{"high"});
    CHECK(cluster.Numbers("late") == Numbers{1, 0, 3, 3});
  }
  SECTION("it gives up the room that it waits for once the namespace refuses it") {
    cluster.Submit(Gang("next", "q", 4, 3));
    cluster.SetQuota(Quota(3, 1));
    cluster.Finish("low");
    CHECK(cluster.Run() == Uids{"next"});
    CHECK(cluster.Numbers("high") == Numbers{3, 1, 0, 3});
    CHECK_FALSE(cluster.engine.ViewWorkload("high")->kept_room.has_value());
  }
}

TEST_CASE("a gang that may start with fewer pods starts with as many as get in") {
  InNamespace cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.SetQuota(Quota(7, 2));
  Workload workload = Charged("w", "q", 8);
  workload.pod_sets[0].min_count = 2;
  cluster.Submit(workload);
  CHECK(cluster.Run() == Uids{"w"});
  CHECK(cluster.engine.ViewWorkload("w")->admission.pod_sets[0].count == 5);
}

TEST_CASE("an elastic gang grows by what gets in") {
  InNamespace cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.SetQuota(Quota(6));
  Workload workload = Charged("w", "q", 4);
  workload.elastic = true;
  cluster.Submit(workload);
  CHECK(cluster.Run() == Uids{"w"});
  cluster.SetCounted("w", 4);
  cluster.SetUsed(6, 4);
  workload.pod_sets[0].count = 7;
  cluster.Submit(workload);
  CHECK(cluster.Run().empty());
  const std::optional<Reason> why = cluster.engine.ViewWorkload("w")->growth;
  REQUIRE(why.has_value());
  CHECK(WaitCodeOf(*why) == WaitCode::kResourceQuota);
  workload.pod_sets[0].count = 6;
  cluster.Submit(workload);
  CHECK(cluster.Run() == Uids{"w+"});
  // Two are to come.
  cluster.Submit(Charged("late", "q", 1, 2));
  CHECK(cluster.Run().empty());
  CHECK(cluster.Numbers("late") == Numbers{1, 4, 2, 6});
}

TEST_CASE("a quota counts the pods of its scopes, and wants them to say what it limits") {
  InNamespace cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  NamespaceQuota quota = Quota(4);
  Requirement urgent{std::string(gang::kPriorityClassScope), Requirement::Operator::kIn, {"urgent"}};
  quota.scopes = {{gang::QuotaScopeKind::kPriorityClass, urgent}};
  cluster.SetQuota(quota);
  Workload other = Charged("other", "q", 8, 1);
  other.pod_sets[0].shape = ChargedShape(1, "usual");
  Workload counted = Charged("counted", "q", 8, 2);
  counted.pod_sets[0].shape = ChargedShape(1, "urgent");
  cluster.Submit(other);
  cluster.Submit(counted);
  CHECK(cluster.Run() == Uids{"other"});
  CHECK(cluster.Numbers("counted") == Numbers{8, 0, 0, 4});

  cluster.SetQuota(Quota(100, 0, "limits.cpu"));
  cluster.Submit(Charged("silent", "q", 1, 3));
  CHECK(cluster.Run().empty());
  const Obstacle obstacle = cluster.ObstacleOf("silent");
  CHECK(obstacle.kind == ObstacleKind::kResourceQuotaUnset);
  CHECK(obstacle.resource == "limits.cpu");
  CHECK(cluster.engine.ViewWorkload("silent")->reason.code == ReasonCode::kMisconfigured);
  cluster.Apply(NamespaceQuotaDeleted{"ns", "team-quota"});
  CHECK(cluster.Run() == Uids{"counted", "silent"});
}

}  // namespace muster::engine
