// Who is looked at when: both queueing strategies, parking by class, waking, and what the waiting are told.
//
// Rules: kueue_semantics 4.4 (requeue after a failed attempt), 4.5 (what wakes), 4.6 (LocalQueues), 5.2 (passes).
#include <algorithm>
#include <catch2/catch.hpp>

#include "cluster.h"

namespace muster::engine {

namespace {

using Uids = std::vector<std::string>;
using Place = WorkloadView::Place;

ClusterQueue Strict(ClusterQueue queue) {
  queue.queueing_strategy = QueueingStrategy::kStrictFIFO;
  return queue;
}

Obstacle OneObstacle(const std::optional<Reason>& reason) {
  REQUIRE(reason.has_value());
  REQUIRE(reason->obstacles.size() == 1);
  return reason->obstacles.front();
}

size_t HoldsIn(const std::vector<Decision>& decisions) {
  return static_cast<size_t>(std::count_if(decisions.begin(), decisions.end(), [](const Decision& decision) {
    return std::holds_alternative<Hold>(decision);
  }));
}

}  // namespace

TEST_CASE("BestEffortFIFO passes over a head that does not fit; StrictFIFO does not") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("best", "", 4));
  cluster.AddQueue(Strict(CpuQueue("strict", "", 4)));
  for (const char* queue : {"best", "strict"}) {
    cluster.Submit(Gang(std::string(queue) + "-big", queue, 5, 1));
    cluster.Submit(Gang(std::string(queue) + "-small", queue, 2, 2));
  }
  CHECK(cluster.Run() == Uids{"best-small"});
  CHECK(cluster.PlaceOf("best-big") == Place::kParked);
  CHECK(cluster.PlaceOf("strict-big") == Place::kActive);
  CHECK(cluster.HoldOf("strict-big")->code == ReasonCode::kExceedsMaxQuota);
}

// kueue_semantics 4.8
TEST_CASE("a gated workload is in no queue, blocks nobody, and comes in when it is let go") {
  Cluster cluster;
  cluster.AddQueue(Strict(CpuQueue("q", "", 4)));
  Workload gated = Gang("gated", "q", 4, 1);
  gated.gated_by = "example.com/review";
  cluster.Submit(gated);
  cluster.Submit(Gang("next", "q", 2, 2));
  CHECK(cluster.Run() == Uids{"next"});
  CHECK(cluster.PlaceOf("gated") == Place::kUnqueued);
  CHECK(cluster.HoldOf("gated")->code == ReasonCode::kAdmissionGated);
  CHECK(OneObstacle(cluster.HoldOf("gated")).object == "example.com/review");
  CHECK(cluster.engine.ViewClusterQueue("q").pending_active == 0);
  gated.gated_by = "";
  cluster.Submit(gated);
  cluster.Submit(Gang("last", "q", 1, 3));
  CHECK(cluster.Run().empty());
  CHECK(cluster.HoldOf("gated")->code == ReasonCode::kWaitingForQuota);
  // A strict head that is gated lets the others go; one that runs is not stopped.
  gated.gated_by = "example.com/review";
  cluster.Submit(gated);
  Workload next = Gang("next", "q", 2, 2);
  next.gated_by = "example.com/review";
  cluster.Submit(next);
  CHECK(cluster.Run() == Uids{"last"});
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.Reserved("q") == Amount{3});
}

// user_pains C2
TEST_CASE("who waits behind a strict head is told so, with the head's name") {
  Cluster cluster;
  cluster.AddQueue(Strict(CpuQueue("q", "", 4)));
  cluster.Submit(Gang("running", "q", 3, 1));
  REQUIRE(cluster.Run() == Uids{"running"});
  cluster.Submit(Gang("head", "q", 4, 2));
  cluster.Submit(Gang("small", "q", 1, 3));
  CHECK(cluster.Run().empty());
  CHECK(cluster.HoldOf("head")->code == ReasonCode::kWaitingForQuota);
  const std::optional<Reason> behind = cluster.HoldOf("small");
  CHECK(OneObstacle(behind).kind == ObstacleKind::kBehindStrictHead);
  CHECK(OneObstacle(behind).object == "head");
  CHECK(behind->code == ReasonCode::kPendingEvaluation);
  CHECK(behind->blockers == std::vector<Blocker>{{"head", "ns", "head"}});
  // One that comes while the head is known not to fit is told at once; nobody is told twice.
  cluster.Submit(Gang("late", "q", 1, 4));
  CHECK(cluster.Run().empty());
  CHECK(OneObstacle(cluster.HoldOf("late")).object == "head");
  CHECK(HoldsIn(cluster.last) == 1);
}

TEST_CASE("a new strict head is named to those behind it when they are asked for, and to the old one in a Hold") {
  Cluster cluster;
  cluster.AddQueue(Strict(CpuQueue("q", "", 4)));
  cluster.Submit(Gang("running", "q", 3, 1));
  REQUIRE(cluster.Run() == Uids{"running"});
  cluster.Submit(Gang("old", "q", 4, 2));
  cluster.Submit(Gang("small", "q", 1, 3));
  REQUIRE(cluster.Run().empty());
  cluster.Submit(Gang("first", "q", 4, 9, 100));
  REQUIRE(cluster.Run().empty());
  CHECK(OneObstacle(cluster.HoldOf("old")).object == "first");
  CHECK_FALSE(cluster.HoldOf("small").has_value());  // what it waits for is of the same kind as before
  CHECK(OneObstacle(cluster.engine.ViewWorkload("small")->reason).object == "first");
  cluster.Finish("first");
  REQUIRE(cluster.Run().empty());
  CHECK(cluster.HoldOf("old")->code == ReasonCode::kWaitingForQuota);
  cluster.Finish("running");
  CHECK(cluster.Run() == Uids{"old"});
}

TEST_CASE("a strict queue that was stopped tells its waiting again where they stand") {
  Cluster cluster;
  ClusterQueue queue = Strict(CpuQueue("q", "", 4));
  cluster.AddQueue(queue);
  cluster.Submit(Gang("head", "q", 5, 1));
  cluster.Submit(Gang("small", "q", 1, 2));
  REQUIRE(cluster.Run().empty());
  queue.stop_policy = StopPolicy::kHold;
  queue.generation = 2;
  cluster.Apply(ClusterQueueChanged{queue});
  REQUIRE(cluster.Run().empty());
  CHECK(OneObstacle(cluster.HoldOf("small")).kind == ObstacleKind::kClusterQueueInactive);
  queue.stop_policy = StopPolicy::kNone;
  queue.generation = 3;
  cluster.Apply(ClusterQueueChanged{queue});
  REQUIRE(cluster.Run().empty());
  CHECK(OneObstacle(cluster.HoldOf("small")).kind == ObstacleKind::kBehindStrictHead);
  CHECK(cluster.HoldOf("head")->code == ReasonCode::kExceedsMaxQuota);
}

// user_pains G11
TEST_CASE("a queue that becomes BestEffortFIFO lets those behind the head pass, and back") {
  Cluster cluster;
  ClusterQueue queue = Strict(CpuQueue("q", "", 4));
  cluster.AddQueue(queue);
  cluster.Submit(Gang("head", "q", 5, 1));
  cluster.Submit(Gang("a", "q", 3, 2));
  cluster.Submit(Gang("b", "q", 3, 3));
  REQUIRE(cluster.Run().empty());
  queue.queueing_strategy = QueueingStrategy::kBestEffortFIFO;
  queue.generation = 2;
  cluster.Apply(ClusterQueueChanged{queue});
  CHECK(cluster.Run() == Uids{"a"});
  CHECK(OneObstacle(cluster.HoldOf("b")).kind == ObstacleKind::kInsufficientUnused);
  queue = Strict(queue);
  queue.generation = 3;
  cluster.Apply(ClusterQueueChanged{queue});
  cluster.Finish("a");
  CHECK(cluster.Run().empty());
  CHECK(OneObstacle(cluster.HoldOf("b")).kind == ObstacleKind::kBehindStrictHead);
}

// user_pains C6
TEST_CASE("equals are parked with the first that failed, and told why") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 4));
  cluster.Submit(Gang("running", "q", 3, 1));
  REQUIRE(cluster.Run() == Uids{"running"});
  for (const char* uid : {"a", "b", "c"}) cluster.Submit(Gang(uid, "q", 2, 2));
  cluster.Submit(Gang("other", "q", 1, 3));
  CHECK(cluster.Run() == Uids{"other"});
  CHECK(OneObstacle(cluster.HoldOf("a")).kind == ObstacleKind::kInsufficientUnused);
  CHECK(OneObstacle(cluster.HoldOf("a")).missing == Amount{1});  // 2 - (4 - 3)
  for (const char* uid : {"b", "c"}) {
    CHECK(cluster.PlaceOf(uid) == Place::kParked);
    CHECK(cluster.HoldOf(uid) == cluster.HoldOf("a"));
  }
  // So is one that comes while they are parked, without being looked at.
  cluster.Submit(Gang("late", "q", 2, 9));
  CHECK(cluster.Run().empty());
  CHECK(cluster.PlaceOf("late") == Place::kParked);
  CHECK(OneObstacle(cluster.HoldOf("late")).missing == Amount{1});
  // What makes room for one of them wakes all, and the first takes it.
  cluster.Finish("running");
  CHECK(cluster.Run() == Uids{"a"});
  CHECK(cluster.PlaceOf("b") == Place::kParked);
}

// user_pains A19
TEST_CASE("one gang ends, and exactly one more starts") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 2));
  for (int i = 0; i < 20; ++i) cluster.Submit(Gang("w" + std::to_string(10 + i), "q", 1, i));
  Uids running = cluster.Run();
  CHECK(running == Uids{"w10", "w11"});
  for (int i = 2; i < 20; ++i) {
    // Now the older, now the newer of the two.
    const auto ends = running.begin() + i % 2;
    cluster.Finish(*ends);
    running.erase(ends);
    const Uids next = cluster.Run();
    CHECK(next == Uids{"w" + std::to_string(10 + i)});
    running.insert(running.end(), next.begin(), next.end());
    CHECK(cluster.Reserved("q") == Amount{2});
  }
}

// user_pains C16
TEST_CASE("a head from a namespace that is not selected blocks nobody, until it is") {
  const bool strict = GENERATE(false, true);
  Cluster cluster;
  ClusterQueue queue = CpuQueue("q", "", 4);
  queue.namespace_selector = LabelSelector{{{"team", "a"}}, {}};
  cluster.AddQueue(strict ? Strict(queue) : queue);
  cluster.Apply(NamespaceChanged{Namespace{"good", {{"team", "a"}}}});
  LocalQueue good = LocalTo("q");
  good.ns = "good";
  cluster.Apply(LocalQueueChanged{good});
  cluster.Submit(Gang("stranger", "q", 1, 1));
  Workload friendly = Gang("friend", "q", 1, 2);
  friendly.ns = "good";
  cluster.Submit(friendly);
  CHECK(cluster.Run() == Uids{"friend"});
  CHECK(cluster.HoldOf("stranger")->code == ReasonCode::kMisconfigured);
  CHECK(OneObstacle(cluster.HoldOf("stranger")).kind == ObstacleKind::kNamespaceMismatch);
  cluster.Finish("friend");
  CHECK(cluster.Run().empty());
  cluster.Apply(NamespaceChanged{Namespace{"ns", {{"team", "a"}}}});
  CHECK(cluster.Run() == Uids{"stranger"});
}

TEST_CASE("a workload that is wrong in itself is parked until it changes, whatever becomes free") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 4));
  Workload wrong = Gang("wrong", "q", 1, 1);
  Obstacle above;
  above.kind = ObstacleKind::kRequestsExceedLimits;
  wrong.invalid = {above};
  cluster.Submit(wrong);
  cluster.Submit(Gang("a", "q", 4, 2));
  cluster.Submit(Gang("b", "q", 4, 3));
  CHECK(cluster.Run() == Uids{"a"});
  CHECK(cluster.HoldOf("wrong")->code == ReasonCode::kMisconfigured);
  cluster.Finish("a");
  CHECK(cluster.Run() == Uids{"b"});
  CHECK_FALSE(cluster.HoldOf("wrong").has_value());
  wrong.invalid.clear();
  wrong.generation = 2;
  cluster.Submit(wrong);
  cluster.Finish("b");
  CHECK(cluster.Run() == Uids{"wrong"});
}

TEST_CASE("a stop policy of a LocalQueue takes its workloads out, and they come back") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 4));
  LocalQueue local = LocalTo("q");
  local.stop_policy = StopPolicy::kHold;
  cluster.Apply(LocalQueueChanged{local});
  cluster.Submit(Gang("a", "q", 1));
  CHECK(cluster.Run().empty());
  CHECK(cluster.PlaceOf("a") == Place::kUnqueued);
  CHECK(OneObstacle(cluster.HoldOf("a")).kind == ObstacleKind::kLocalQueueStopped);
  local.stop_policy = StopPolicy::kNone;
  cluster.Apply(LocalQueueChanged{local});
  CHECK(cluster.Run() == Uids{"a"});
  local.stop_policy = StopPolicy::kHoldAndDrain;
  cluster.Apply(LocalQueueChanged{local});
  cluster.Run();
  REQUIRE(cluster.Evictions().size() == 1);
  CHECK(cluster.Evictions()[0].reason == EvictionReason::kLocalQueueStopped);
}

// user_pains C14
TEST_CASE("priorities that are edited decide who is next") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 2));
  cluster.Submit(Gang("running", "q", 2, 1));
  REQUIRE(cluster.Run() == Uids{"running"});
  cluster.Submit(Gang("a", "q", 2, 2));
  cluster.Submit(Gang("b", "q", 2, 3));
  REQUIRE(cluster.Run().empty());
  cluster.Submit(Gang("b", "q", 2, 3, 10));
  cluster.Finish("running");
  CHECK(cluster.Run() == Uids{"b"});
}

// user_pains H4
TEST_CASE("a deactivated workload waits for nothing, and frees what it held") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 2));
  Workload a = Gang("a", "q", 2, 1);
  cluster.Submit(a);
  REQUIRE(cluster.Run() == Uids{"a"});
  a.active = false;
  cluster.Submit(a);
  cluster.Run();
  REQUIRE(cluster.Evictions().size() == 1);
  CHECK(cluster.Evictions()[0].reason == EvictionReason::kDeactivated);
  cluster.Apply(ClaimGone{"a", cluster.claims["a"]});
  CHECK(cluster.Run().empty());
  CHECK(cluster.Reserved("q") == Amount{0});
  CHECK(cluster.PlaceOf("a") == Place::kUnqueued);
  a.active = true;
  cluster.Submit(a);
  CHECK(cluster.Run() == Uids{"a"});
}

TEST_CASE("a deleted queue leaves its workloads waiting for it, and what runs booked when it comes back") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 4));
  cluster.Submit(Gang("a", "q", 3, 1));
  REQUIRE(cluster.Run() == Uids{"a"});
  cluster.Submit(Gang("b", "q", 2, 2));
  cluster.Apply(ClusterQueueDeleted{"q"});
  CHECK(cluster.Run().empty());
  CHECK(OneObstacle(cluster.HoldOf("b")).kind == ObstacleKind::kClusterQueueMissing);
  cluster.Apply(ClusterQueueChanged{CpuQueue("q", "", 4)});
  CHECK(cluster.Reserved("q") == Amount{3});
  CHECK(cluster.Run().empty());
  cluster.Finish("a");
  CHECK(cluster.Run() == Uids{"b"});
}

TEST_CASE("what a gang frees wakes the others, also where its LocalQueue is on hold or gone") {
  const bool deleted = GENERATE(false, true);
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 4));
  LocalQueue other = LocalTo("q");
  other.name = "other";
  cluster.Apply(LocalQueueChanged{other});
  Workload first = Gang("first", "q", 4, 1);
  first.local_queue = "other";
  cluster.Submit(first);
  REQUIRE(cluster.Run() == Uids{"first"});
  cluster.Submit(Gang("next", "q", 4, 2));
  REQUIRE(cluster.Run().empty());
  if (deleted) {
    cluster.Apply(LocalQueueDeleted{"ns", "other"});
  } else {
    other.stop_policy = StopPolicy::kHold;
    cluster.Apply(LocalQueueChanged{other});
  }
  REQUIRE(cluster.Run().empty());
  cluster.Finish("first");
  CHECK(cluster.Run() == Uids{"next"});
}

TEST_CASE("who was looked at in vain is told so again once its LocalQueue is back") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 4));
  cluster.Submit(Gang("big", "q", 6, 1));
  REQUIRE(cluster.Run().empty());
  REQUIRE(cluster.HoldOf("big")->code == ReasonCode::kExceedsMaxQuota);
  cluster.Apply(LocalQueueDeleted{"ns", "q"});
  REQUIRE(cluster.Run().empty());
  REQUIRE(WaitCodeOf(*cluster.HoldOf("big")) == WaitCode::kLocalQueueMissing);
  cluster.Apply(LocalQueueChanged{LocalTo("q")});
  REQUIRE(cluster.Run().empty());
  REQUIRE(cluster.HoldOf("big").has_value());
  CHECK(cluster.HoldOf("big")->code == ReasonCode::kExceedsMaxQuota);
}

TEST_CASE("a reason that comes back within one run is not told again") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("a", "cohort", 1));
  cluster.AddQueue(CpuQueue("b", "cohort", 0));
  cluster.Submit(Gang("holder", "a", 1, 1));
  const std::vector<Decision> decisions = cluster.engine.Decide(At(100));
  REQUIRE(decisions.size() == 1);
  cluster.Submit(Gang("waiting", "b", 1, 2));
  REQUIRE(cluster.Run().empty());
  REQUIRE(cluster.HoldOf("waiting").has_value());
  // The holder's start is refused, and it is admitted again at once: in that pass the other loses to it, in the next
  // it waits for the same as before.
  cluster.Apply(ClaimRefused{"holder", std::get<Admit>(decisions.front()).claim, {}, ""});
  REQUIRE(cluster.Run() == Uids{"holder"});
  CHECK_FALSE(cluster.HoldOf("waiting").has_value());
}

TEST_CASE("who was parked without a look at every flavor is looked at again by itself") {
  Cluster cluster;
  ResourceFlavor second;
  second.name = "g";
  cluster.Apply(FlavorChanged{second});
  cluster.AddQueue(CpuQueue("owner", "cohort", 3));
  cluster.AddQueue(CpuQueue("guest", "cohort", 0));
  ClusterQueue two = CpuQueue("two", "cohort", 0);
  two.resource_groups[0].flavors.push_back({"g", {ResourceQuota{"cpu", Amount{0}, std::nullopt, std::nullopt}}});
  cluster.AddQueue(two);
  cluster.Submit(Gang("running", "guest", 1, 1));
  REQUIRE(cluster.Run() == Uids{"running"});
  CHECK_FALSE(cluster.engine.NextDue().IsSet());
  // The large one keeps for its pass what is free of its own quota, so the small one loses flavor f; in the next pass it
  // goes on with g, of which there is none.
  cluster.Submit(Gang("large", "owner", 3, 2));
  cluster.Submit(Gang("small", "two", 1, 3));
  REQUIRE(cluster.Run(At(100)).empty());
  CHECK(cluster.PlaceOf("small") == Place::kParked);
  CHECK(cluster.engine.NextDue() == At(110));
}

}  // namespace muster::engine
