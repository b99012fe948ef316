// What happens while victims are leaving: their room is kept for whom they leave, and nobody is evicted for it again.
// Expected values are counted by hand; letters and numbers in names of tests are those of the users' complaints.
#include <catch2/catch.hpp>
#include <set>

#include "cluster.h"

namespace muster::engine {

namespace {

using Uids = std::vector<std::string>;
using Place = WorkloadView::Place;

ClusterQueue Preempting(const std::string& name, const std::string& cohort, int64_t nominal) {
  ClusterQueue queue = CpuQueue(name, cohort, nominal);
  queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
  queue.reclaim_within_cohort = PreemptionPolicy::kAny;
  return queue;
}

// One queue of 4; `low` holds 3 of it and was told to go for `high`, who needs 4.
struct OneWaits : Cluster {
  explicit OneWaits(EngineOptions options = {}) : Cluster(options) {
    AddQueue(Preempting("q", "", 4));
    Submit(Gang("low", "q", 3, 1));
    Run(At(100));
    Submit(Gang("high", "q", 4, 2, 5));
    Run(At(101));
    REQUIRE(Preempted() == Uids{"low for high"});
    Stop("low");
  }
};

}  // namespace

TEST_CASE("B14: who comes after a preemptor does not take what it waits for, nor what was free already") {
  for (const QueueingStrategy strategy : {QueueingStrategy::kBestEffortFIFO, QueueingStrategy::kStrictFIFO}) {
    Cluster cluster;
    ClusterQueue queue = Preempting("q", "", 4);
    queue.queueing_strategy = strategy;
    cluster.AddQueue(queue);
    cluster.Submit(Gang("low", "q", 3, 1));
    REQUIRE(cluster.Run(At(100)) == Uids{"low"});
    cluster.Submit(Gang("high", "q", 4, 2, 5));
    cluster.Run(At(101));
    REQUIRE(cluster.Preempted() == Uids{"low for high"});
    cluster.Stop("low");
    cluster.Submit(Gang("small", "q", 1, 3));
    CHECK(cluster.Run(At(102)).empty());
    CHECK(cluster.Evictions().empty());
    if (strategy == QueueingStrategy::kBestEffortFIFO) {
      CHECK(WaitCodeOf(*cluster.HoldOf("small")) == WaitCode::kRoomKept);
    } else {
      CHECK(WaitCodeOf(*cluster.HoldOf("small")) == WaitCode::kBehindStrictHead);
    }
    const std::optional<KeptRoom> room = cluster.engine.ViewWorkload("high")->kept_room;
    REQUIRE(room.has_value());
    CHECK(*room == KeptRoom{{"low"}, At(101 + 15 * 60)});
    cluster.Leave("low");
    CHECK(cluster.Run(At(103)) == Uids{"high"});
  }
}

TEST_CASE("who waits with fewer pods starts with them once their room is free, though it could preempt for more") {
  Cluster cluster;
  cluster.AddQueue(Preempting("q", "", 10));
  cluster.Submit(Gang("low", "q", 4, 1));
  cluster.Submit(Gang("urgent", "q", 6, 1, 9));
  REQUIRE(cluster.Run(At(100)).size() == 2);
  Workload fewer = Gang("fewer", "q", 10, 2, 5);
  fewer.pod_sets[0].min_count = 1;
  cluster.Submit(fewer);
  cluster.Run(At(101));
  REQUIRE(cluster.Preempted() == Uids{"low for fewer"});
  cluster.Stop("low");
  // By now it could have all of its pods, but others are first in what is not kept for it.
  cluster.Finish("urgent");
  cluster.Submit(Gang("other", "q", 6, 3));
  CHECK(cluster.Run(At(102)) == Uids{"other"});
  cluster.Leave("low");
  CHECK(cluster.Run(At(103)) == Uids{"fewer"});
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.engine.ViewWorkload("fewer")->admission.pod_sets.at(0).count == 4);
}

TEST_CASE("a victim that comes back does not take the room it was evicted from, though it borrows less") {
  Cluster cluster;
  // `a` lends all it has; the preemptor in `b` borrows, so in a pass of equals the victim would come first.
  cluster.AddQueue(CpuQueue("a", "cohort", 2));
  cluster.AddQueue(CpuQueue("spare", "cohort", 3));
  ClusterQueue b = Preempting("b", "cohort", 0);
  b.borrow_within_cohort = {PreemptionPolicy::kLowerPriority, std::nullopt};
  cluster.AddQueue(b);
  cluster.Submit(Gang("victim", "a", 3, 1));
  REQUIRE(cluster.Run(At(100)) == Uids{"victim"});
  cluster.Submit(Gang("high", "b", 4, 2, 5));
  cluster.Run(At(101));
  REQUIRE(cluster.Preempted() == Uids{"victim for high"});
  cluster.LeaveAll();
  CHECK(cluster.Run(At(102)) == Uids{"high"});
  CHECK(cluster.PlaceOf("victim") == Place::kParked);
}

TEST_CASE("who claims back less than he is given is not evicted for the rest by whom he evicted") {
  Cluster cluster;
  cluster.AddQueue(Preempting("owner", "cohort", 3));
  ClusterQueue guest = Preempting("guest", "cohort", 1);
  guest.borrow_within_cohort = {PreemptionPolicy::kLowerPriority, std::nullopt};
  cluster.AddQueue(guest);
  cluster.Submit(Gang("guest", "guest", 4, 1, 2));
  REQUIRE(cluster.Run(At(100)) == Uids{"guest"});
  // Of its pods one is within the quota of 3, for which others may have to go; once they have, there is room for two.
  Workload owner = Gang("owner", "owner", 4, 2, 1);
  owner.pod_sets[0].shape = CpuShape(2);
  owner.pod_sets[0].min_count = 1;
  cluster.Submit(owner);
  cluster.Run(At(101));
  REQUIRE(cluster.Preempted() == Uids{"guest for owner"});
  cluster.LeaveAll();
  REQUIRE(cluster.Run(At(102)) == Uids{"owner"});
  CHECK(cluster.engine.ViewWorkload("owner")->admission.pod_sets[0].count == 2);
  cluster.Run(At(103));
  CHECK(cluster.Preempted().empty());
  cluster.Finish("owner");
  CHECK(cluster.Run(At(104)) == Uids{"guest"});
}

TEST_CASE("of three who take precedence over each other in a circle, none is evicted twice") {
  Cluster cluster;
  ClusterQueue a = Preempting("a", "cohort", 3);
  a.borrow_within_cohort = {PreemptionPolicy::kLowerPriority, std::nullopt};
  cluster.AddQueue(a);
  cluster.AddQueue(CpuQueue("b", "cohort", 1));
  cluster.Submit(Gang("early", "b", 4, 1, 2));
  REQUIRE(cluster.Run(At(100)) == Uids{"early"});
  cluster.Submit(Gang("owner", "a", 2, 2, 1));
  cluster.Run(At(101));
  REQUIRE(cluster.Preempted() == Uids{"early for owner"});
  cluster.LeaveAll();
  REQUIRE(cluster.Run(At(102)) == Uids{"owner"});
  cluster.Submit(Gang("later", "a", 4, 3, 2));
  cluster.Run(At(103));
  REQUIRE(cluster.Preempted() == Uids{"owner for later"});
  cluster.LeaveAll();
  // "early" would stand before "later", and would have to go for "owner" once more.
  CHECK(cluster.Run(At(104)) == Uids{"later"});
  cluster.Run(At(105));
  CHECK(cluster.Preempted().empty());
  cluster.Finish("later");
  CHECK(cluster.Run(At(106)) == Uids{"owner"});  // it borrows less
}

TEST_CASE("of one BestEffortFIFO queue the preemptor stays first, whatever comes") {
  Cluster cluster;
  cluster.AddQueue(Preempting("a", "cohort", 4));
  cluster.AddQueue(CpuQueue("b", "cohort", 4));
  cluster.Submit(Gang("first", "b", 4, 1));
  REQUIRE(cluster.Run(At(100)) == Uids{"first"});
  cluster.Submit(Gang("second", "b", 4, 2));
  REQUIRE(cluster.Run(At(101)) == Uids{"second"});
  cluster.Submit(Gang("owner", "a", 4, 3, 1));
  cluster.Run(At(102));
  REQUIRE(cluster.Preempted() == Uids{"second for owner"});
  cluster.Stop("second");
  // Of the same queue, of higher priority: but who waits for victims stays first in a BestEffortFIFO queue.
  cluster.Submit(Gang("higher", "a", 4, 4, 9));
  cluster.Run(At(103));
  CHECK(cluster.Evictions().empty());
  cluster.Leave("second");
  CHECK(cluster.Run(At(104)) == Uids{"owner"});
  // Then the higher one evicts it, as the policy of the queue says: once its start has an answer.
  cluster.Run(At(105));
  CHECK(cluster.Preempted() == Uids{"owner for higher"});
}

namespace {

// `low` holds the quota of `poor`, `high` needs that of both queues, and would evict it. In the next pass of the same
// run `own` is looked at, which is within the quota of `rich`: what a borrower waits for is open to it.
struct RoomTaken : Cluster {
  RoomTaken() {
    ClusterQueue poor = Preempting("poor", "cohort", 2);
    poor.borrow_within_cohort = {PreemptionPolicy::kLowerPriority, std::nullopt};
    AddQueue(poor);
    AddQueue(CpuQueue("rich", "cohort", 4));
    Submit(Gang("low", "poor", 2, 1));
    REQUIRE(Run(At(100)) == Uids{"low"});
    Submit(Gang("high", "poor", 6, 2, 5));
    Submit(Gang("never", "rich", 7, 3, 9));
    Submit(Gang("own", "rich", 1, 4));
  }
};

}  // namespace

TEST_CASE("nobody is evicted for room that others take before the eviction is told to anybody") {
  RoomTaken cluster;
  CHECK(cluster.Run(At(101)) == Uids{"own"});
  CHECK(cluster.Preempted().empty());
  CHECK_FALSE(cluster.engine.ViewWorkload("low")->evicted.has_value());
  CHECK(cluster.HoldOf("high")->code == ReasonCode::kWaitingForQuota);
  CHECK(cluster.Run(At(102)).empty());
  CHECK(cluster.Preempted().empty());
  // What stayed is evicted, once, when that helps.
  cluster.Finish("own");
  CHECK(cluster.Run(At(103)).empty());
  CHECK(cluster.Preempted() == Uids{"low for high"});
  cluster.LeaveAll();
  CHECK(cluster.Run(At(104)) == Uids{"high"});
}

TEST_CASE("an eviction that has become of use to another stands, though its preemptor has lost the room") {
  RoomTaken cluster;
  // Of 6, "own" takes 1: 5 are left once "low" has gone, and 3 before that.
  cluster.Submit(Gang("second", "poor", 4, 5, 4));
  CHECK(cluster.Run(At(101)) == Uids{"own"});
  CHECK(cluster.Preempted() == Uids{"low for high"});
  cluster.LeaveAll();
  CHECK(cluster.Run(At(102)) == Uids{"second"});
}

TEST_CASE("room that a borrower waits for is open to those who are within their quota") {
  Cluster cluster;
  cluster.AddQueue(Preempting("owner", "cohort", 4));
  cluster.AddQueue(CpuQueue("guest", "cohort", 0));
  ClusterQueue borrower = Preempting("borrower", "cohort", 0);
  borrower.borrow_within_cohort = {PreemptionPolicy::kLowerPriority, std::nullopt};
  cluster.AddQueue(borrower);
  cluster.Submit(Gang("guest", "guest", 4, 1));
  REQUIRE(cluster.Run(At(100)) == Uids{"guest"});
  cluster.Submit(Gang("borrower", "borrower", 4, 2, 5));
  cluster.Run(At(101));
  REQUIRE(cluster.Preempted() == Uids{"guest for borrower"});
  cluster.Stop("guest");
  cluster.Submit(Gang("owner", "owner", 4, 3));
  CHECK(cluster.Run(At(102)).empty());
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.engine.ViewWorkload("owner")->kept_room.has_value());
  cluster.Leave("guest");
  CHECK(cluster.Run(At(103)) == Uids{"owner"});
  CHECK(cluster.PlaceOf("borrower") == Place::kParked);
}

TEST_CASE("B13: another preemptor is first given what the leaving leave open") {
  Cluster cluster;
  cluster.AddQueue(Preempting("q", "", 4));
  cluster.Submit(Gang("gang", "q", 3, 1));
  cluster.Submit(Gang("single", "q", 1, 2));
  REQUIRE(cluster.Run(At(100)).size() == 2);
  cluster.Submit(Gang("one", "q", 2, 3, 5));
  cluster.Run(At(101));
  // The single one is the newer, of 1; both were taken, and the single one was put back.
  REQUIRE(cluster.Preempted() == Uids{"gang for one"});
  cluster.Stop("gang");
  // 3 will be free, of which 2 are kept.
  cluster.Submit(Gang("two", "q", 1, 4, 5));
  cluster.Run(At(102));
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.HoldOf("two")->code == ReasonCode::kWaitingForPreemptedWorkloads);
  cluster.Submit(Gang("three", "q", 1, 5, 5));
  cluster.Run(At(103));
  CHECK(cluster.Preempted() == Uids{"single for three"});
  cluster.Leave("gang");
  const Uids started = cluster.Run(At(104));
  CHECK(std::set<std::string>(started.begin(), started.end()) == std::set<std::string>{"one", "two"});
  cluster.Leave("single");
  CHECK(cluster.Run(At(105)) == Uids{"three"});
}

TEST_CASE("B7: preemptors of one queue do not wait for each other, and a victim that never dies delays only one") {
  Cluster cluster;
  cluster.AddQueue(Preempting("q", "", 20));
  Uids victims;
  for (int i = 0; i < 20; ++i) {
    victims.push_back("low" + std::to_string(10 + i));
    cluster.Submit(Gang(victims.back(), "q", 1, 1 + i));
  }
  REQUIRE(cluster.Run(At(100)).size() == 20);
  for (int i = 0; i < 20; ++i) cluster.Submit(Gang("high" + std::to_string(10 + i), "q", 1, 50 + i, 1));
  cluster.Run(At(101));
  CHECK(cluster.Evictions().size() == 20);
  for (const std::string& uid : victims) cluster.Stop(uid);
  cluster.Run(At(102));
  CHECK(cluster.Evictions().empty());
  for (const std::string& uid : victims) {
    if (uid != "low10") cluster.Leave(uid);
  }
  // The first of the preemptors waits for the one that stays, and takes the room of another.
  CHECK(cluster.Run(At(220)).size() == 19);
  CHECK(cluster.PlaceOf("high29") == Place::kParked);
  cluster.Leave("low10");
  CHECK(cluster.Run(At(300)) == Uids{"high29"});
}

TEST_CASE("two preemptors of one pass after the same victim: the second waits for what the first leaves of it") {
  Cluster cluster;
  cluster.AddQueue(Preempting("a", "cohort", 2));
  cluster.AddQueue(Preempting("b", "cohort", 2));
  cluster.AddQueue(CpuQueue("guest", "cohort", 0));
  cluster.Submit(Gang("guest", "guest", 4, 1));
  REQUIRE(cluster.Run(At(100)) == Uids{"guest"});
  cluster.Submit(Gang("first", "a", 2, 2));
  cluster.Submit(Gang("second", "b", 2, 3));
  cluster.Run(At(101));
  CHECK(cluster.Preempted() == Uids{"guest for first"});
  const std::optional<Reason> reason = cluster.HoldOf("second");
  REQUIRE(reason.has_value());
  CHECK(reason->code == ReasonCode::kWaitingForPreemptedWorkloads);
  CHECK(DecisiveObstacle(*reason)->kind == ObstacleKind::kDeferredFit);
  cluster.LeaveAll();
  CHECK(cluster.Run(At(102)) == Uids{"first", "second"});
}

TEST_CASE("room is kept for a while, and then no more; the preemptor still starts when its victim leaves") {
  EngineOptions options;
  options.keep_room_for = std::chrono::seconds(60);
  OneWaits cluster(options);
  CHECK(cluster.engine.NextDue() == At(161));
  cluster.Submit(Gang("small", "q", 1, 3));
  CHECK(cluster.Run(At(160)).empty());
  CHECK(cluster.Run(At(161)) == Uids{"small"});
  const std::optional<Reason> reason = cluster.HoldOf("high");
  REQUIRE(reason.has_value());
  CHECK(reason->code == ReasonCode::kWaitingForPreemptedWorkloads);
  CHECK_FALSE(DecisiveObstacle(*reason)->until.IsSet());
  CHECK_FALSE(cluster.engine.ViewWorkload("high")->kept_room->until.IsSet());
  // Nobody is told to go a second time.
  CHECK(cluster.Run(At(200)).empty());
  cluster.Leave("low");
  cluster.Run(At(201));
  CHECK(cluster.Preempted() == Uids{"small for high"});
  cluster.LeaveAll();
  CHECK(cluster.Run(At(202)) == Uids{"high"});
}

TEST_CASE("a victim that ends by itself makes the same room") {
  OneWaits cluster;
  cluster.Finish("low");
  CHECK(cluster.Run(At(102)) == Uids{"high"});
}

TEST_CASE("the room of a preemptor that is gone, or deactivated, is for others; its victims leave all the same") {
  for (const bool deleted : {true, false}) {
    OneWaits cluster;
    cluster.Submit(Gang("small", "q", 1, 3));
    REQUIRE(cluster.Run(At(102)).empty());
    if (deleted) {
      cluster.Finish("high");
    } else {
      Workload high = Gang("high", "q", 4, 2, 5);
      high.active = false;
      cluster.Submit(high);
    }
    CHECK(cluster.Run(At(103)) == Uids{"small"});
    CHECK(cluster.engine.ViewWorkload("low")->evicted == EvictionReason::kInClusterQueue);
    cluster.Leave("low");
    CHECK(cluster.Run(At(104)) == Uids{"low"});
  }
}

TEST_CASE("a preemptor whose priority changes keeps its room, as far as those leave whom it preempted") {
  OneWaits cluster;
  cluster.Submit(Gang("high", "q", 4, 2, 7));
  cluster.Submit(Gang("small", "q", 1, 3));
  CHECK(cluster.Run(At(102)).empty());
  CHECK(cluster.Evictions().empty());
  REQUIRE(cluster.engine.ViewWorkload("high")->kept_room.has_value());
  CHECK(cluster.engine.ViewWorkload("high")->kept_room->until == At(101 + 15 * 60));
  cluster.Leave("low");
  CHECK(cluster.Run(At(103)) == Uids{"high"});
}

TEST_CASE("B8: an eviction whose write was refused is issued again, and once only") {
  Cluster cluster;
  cluster.AddQueue(Preempting("q", "", 4));
  cluster.Submit(Gang("low", "q", 4, 1));
  REQUIRE(cluster.Run(At(100)) == Uids{"low"});
  cluster.Submit(Gang("high", "q", 4, 2, 5));
  cluster.Run(At(101));
  REQUIRE(cluster.Preempted() == Uids{"low for high"});
  cluster.Apply(EvictionRefused{"low", cluster.claims["low"], At(110)});
  cluster.Run(At(105));
  CHECK(cluster.Evictions().empty());
  cluster.Run(At(110));
  CHECK(cluster.Preempted() == Uids{"low for high"});
  cluster.Run(At(111));
  CHECK(cluster.Evictions().empty());
  cluster.LeaveAll();
  cluster.Leave("low");
  CHECK(cluster.Run(At(112)) == Uids{"high"});
}

TEST_CASE("a refused eviction that nobody wants any more is dropped, and the gang stays") {
  Cluster cluster;
  cluster.AddQueue(Preempting("q", "", 4));
  cluster.Submit(Gang("low", "q", 4, 1));
  REQUIRE(cluster.Run(At(100)) == Uids{"low"});
  cluster.Submit(Gang("high", "q", 4, 2, 5));
  cluster.Run(At(101));
  cluster.Finish("high");
  cluster.Apply(EvictionRefused{"low", cluster.claims["low"], {}});
  cluster.Run(At(102));
  CHECK(cluster.Evictions().empty());
  CHECK_FALSE(cluster.engine.ViewWorkload("low")->evicted.has_value());
  // It may be somebody else's victim now.
  cluster.Submit(Gang("other", "q", 4, 3, 5));
  cluster.Run(At(103));
  CHECK(cluster.Preempted() == Uids{"low for other"});
}

TEST_CASE("after a restart the room is kept again, whatever comes first, and nobody is told to go again") {
  for (const bool victim_first : {true, false}) {
    Cluster cluster;
    cluster.AddQueue(Preempting("q", "", 4));
    Workload low = Gang("low", "q", 3, 1);
    low.held = HeldClaim{{7, 3},
                         ClaimState::kLeaving,
                         {"q", {PodSetAssignment{"main", 3, {{"cpu", "f"}}, {{"cpu", Amount{3}}}}}},
                         At(50),
                         false,
                         EvictionReason::kInClusterQueue,
                         "high",
                         At(90)};
    if (victim_first) cluster.Submit(low);
    cluster.Submit(Gang("high", "q", 4, 2, 5));
    cluster.Submit(Gang("small", "q", 1, 3));
    if (!victim_first) cluster.Submit(low);
    CHECK(cluster.Run(At(100)).empty());
    CHECK(cluster.Evictions().empty());
    CHECK(cluster.engine.ViewWorkload("high")->kept_room == KeptRoom{{"low"}, At(90 + 15 * 60)});
    cluster.Apply(ClaimGone{"low", {7, 3}});
    CHECK(cluster.Run(At(101)) == Uids{"high"});
  }
}

namespace {

// `owner` claims back what `guest` had borrowed; then the API server refuses its start, and asks to wait until 120.
struct StartRefused : Cluster {
  explicit StartRefused(QueueingStrategy strategy, WallTime not_before) {
    ClusterQueue own = Preempting("own", "cohort", 4);
    own.queueing_strategy = strategy;
    AddQueue(own);
    AddQueue(CpuQueue("borrowing", "cohort", 0));
    Submit(Gang("guest", "borrowing", 4, 1));
    REQUIRE(Run(At(100)) == Uids{"guest"});
    Submit(Gang("owner", "own", 4, 2));
    Run(At(101));
    REQUIRE(Preempted() == Uids{"guest for owner"});
    LeaveAll();
    last = engine.Decide(At(102));
    REQUIRE(last.size() >= 1);
    const auto* admit = std::get_if<Admit>(&last.front());
    REQUIRE(admit != nullptr);
    REQUIRE(admit->uid == "owner");
    Apply(ClaimRefused{"owner", admit->claim, not_before, "no"});
  }
};

// `owner` waits behind one that can never start, so that the guest is looked at first; all know what was before.
struct Restarted : Cluster {
  Restarted(std::optional<PastEviction> of_guest, std::optional<PastEviction> of_owner, bool owner_first) {
    AddQueue(Preempting("own", "cohort", 4));
    AddQueue(CpuQueue("borrowing", "cohort", 0));
    Workload guest = Gang("guest", "borrowing", 4, 1);
    guest.last_eviction = of_guest;
    Workload owner = Gang("owner", "own", 4, 2);
    owner.last_eviction = of_owner;
    if (owner_first) Submit(owner);
    Submit(guest);
    if (!owner_first) Submit(owner);
    Submit(Gang("never", "own", 5, 3, 9));
  }
};

}  // namespace

TEST_CASE("a preemptor whose start is refused keeps its room: its victim is not started before it, to go once more") {
  for (const QueueingStrategy strategy : {QueueingStrategy::kBestEffortFIFO, QueueingStrategy::kStrictFIFO}) {
    StartRefused cluster(strategy, At(120));
    CHECK(cluster.Run(At(103)).empty());
    CHECK(cluster.engine.ViewWorkload("owner")->kept_room == KeptRoom{{}, At(101 + 15 * 60)});
    CHECK(WaitCodeOf(*cluster.HoldOf("guest")) == WaitCode::kRoomKept);
    // Nor is one that comes behind it in its queue.
    cluster.Submit(Gang("behind", "own", 1, 3));
    CHECK(cluster.Run(At(104)).empty());
    CHECK(cluster.Run(At(120)) == Uids{"owner"});
    CHECK(cluster.Evictions().empty());
  }
}

TEST_CASE("whoever is refused for long keeps no room for ever") {
  StartRefused cluster(QueueingStrategy::kBestEffortFIFO, At(5000));
  CHECK(cluster.Run(At(101 + 15 * 60 - 1)).empty());
  CHECK(cluster.Run(At(101 + 15 * 60)) == Uids{"guest"});
}

TEST_CASE("once its start was accepted a preemptor has had what it was promised") {
  StartRefused cluster(QueueingStrategy::kBestEffortFIFO, At(120));
  REQUIRE(cluster.Run(At(120)) == Uids{"owner"});
  // It is stopped by others, and to be tried again later.
  Workload owner = Gang("owner", "own", 4, 2);
  owner.not_before = At(200);
  cluster.Submit(owner);
  cluster.Leave("owner");
  CHECK(cluster.Run(At(130)) == Uids{"guest"});
}

TEST_CASE("after a restart a victim that waits is not started before its preemptor") {
  for (const bool owner_first : {true, false}) {
    Restarted cluster(PastEviction{At(990), "owner"}, {}, owner_first);
    CHECK(cluster.Run(At(1000)) == Uids{"owner"});
    CHECK(cluster.Evictions().empty());
  }
}

TEST_CASE("after a restart no room is kept for whom nobody was evicted, long ago, or who has started since") {
  for (const bool owner_first : {true, false}) {
    for (const auto& [of_guest, of_owner] : {
             std::pair<PastEviction, std::optional<PastEviction>>{{At(990), ""}, std::nullopt},
             {{At(990), "another"}, std::nullopt},
             {{At(1000 - 15 * 60), "owner"}, std::nullopt},
             {{At(990), "owner"}, PastEviction{At(991), ""}},
         }) {
      Restarted cluster(of_guest, of_owner, owner_first);
      CHECK(cluster.Run(At(1000)) == Uids{"guest"});
      CHECK(cluster.Preempted() == Uids{});
      cluster.Run(At(1001));
      CHECK(cluster.Preempted() == Uids{"guest for owner"});
    }
  }
}

// Nothing of it is anybody else's while the queue is taken from its tree and put into another.
TEST_CASE("a preemptor whose queue moves to a cohort keeps its room") {
  OneWaits cluster;
  cluster.Apply(ClusterQueueChanged{Preempting("q", "c", 4)});
  CHECK(cluster.Run(At(102)).empty());
  cluster.Submit(Gang("small", "q", 1, 3));
  CHECK(cluster.Run(At(103)).empty());
  CHECK(WaitCodeOf(*cluster.HoldOf("small")) == WaitCode::kRoomKept);
  cluster.Leave("low");
  CHECK(cluster.Run(At(104)) == Uids{"high"});
}

}  // namespace muster::engine
