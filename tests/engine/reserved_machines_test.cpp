// Machines that are reserved for a gang which waits for nothing else. All numbers are worked out by hand from the nodes
// and times of each case.
#include <catch2/catch.hpp>
#include <deque>

#include "on_machines.h"

namespace muster::engine {

namespace {

using Uids = std::vector<std::string>;
using Place = WorkloadView::Place;
using std::chrono::seconds;

EngineOptions Reserving(Duration after) {
  EngineOptions options = WithMachines();
  options.reserve_after = after;
  return options;
}

// One that is stopped after so long.
Workload Limited(Workload workload, Duration most) {
  workload.max_execution = most;
  return workload;
}

WaitCode CodeOf(const Cluster& cluster, const std::string& uid) {
  return WaitCodeOf(cluster.engine.ViewWorkload(uid)->reason);
}

}  // namespace

// Six small gangs run at any time on three nodes of two, and whenever one ends another is there to take its place; a
// minute is what each runs. A gang of two whole nodes comes.
TEST_CASE("small gangs that come one after the other do not keep a big one from its machines for ever") {
  const bool reserves = GENERATE(false, true);
  const auto strategy = GENERATE(QueueingStrategy::kBestEffortFIFO, QueueingStrategy::kStrictFIFO);
  CAPTURE(reserves);
  OnMachines cluster(Reserving(reserves ? seconds(320) : seconds(0)));
  ClusterQueue big = PoolQueue("big", {"a"});
  big.queueing_strategy = strategy;
  cluster.AddQueue(big);
  cluster.AddQueue(PoolQueue("small", {"a"}));
  for (const char* name : {"n1", "n2", "n3"}) cluster.AddNode(name, "a", 2);
  std::deque<std::string> running;
  int64_t now = 100;
  int number = 0;
  const auto submit = [&] { cluster.Submit(Big("s" + std::to_string(++number), "small", 1, 1, now)); };
  for (int i = 0; i < 8; ++i) submit();
  int started_beside = 0;
  int64_t begun = 0;
  for (int tick = 0; tick < 100 && begun == 0; ++tick, now += 10) {
    if (tick == 1) cluster.Submit(Big("big", "big", 2, 2, now));
    if (running.size() == 6 || tick > 1) {
      if (!running.empty()) cluster.Finish(running.front());
      if (!running.empty()) running.pop_front();
      submit();
    }
    const bool reserved =
        tick > 1 && cluster.engine.ViewWorkload("big")->place != Place::kHolding && cluster.ObstacleOf("big").count > 0;
    for (const std::string& uid : cluster.Run(At(now))) {
      if (uid == "big") {
        begun = now;
      } else {
        running.push_back(uid);
        started_beside += reserved ? 1 : 0;
      }
    }
    REQUIRE(running.size() <= 6);
  }
  if (!reserves) {
    CHECK(begun == 0);
    CHECK(running.size() == 6);
    return;
  }
  // Its time is over at 430; then the four that run on its nodes go, of six of which one ends every ten seconds.
  CHECK(begun >= 110 + 320 + 30);
  CHECK(begun <= 110 + 320 + 60);
  // The others went on on the third node.
  CHECK(started_beside >= 1);
  CHECK(running.size() == 2);
}

TEST_CASE("those are reserved that have the fewest pods, and the others are for everybody") {
  OnMachines cluster(Reserving(seconds(60)));
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.AddQueue(PoolQueue("s", {"a"}));
  // Each is the only one with room when its first gang comes.
  const auto fill = [&](const std::string& node, int gangs) {
    cluster.AddNode(node, "a", 4);
    for (int i = 0; i < gangs; ++i) cluster.Submit(Big(node + "-" + std::to_string(i), "s", 1, 2));
    cluster.Submit(Big(node + "-all", "s", 1, 4 - 2 * gangs));
    REQUIRE(cluster.Run().size() == static_cast<size_t>(gangs) + 1);
  };
  fill("n1", 1);
  fill("n2", 0);
  fill("n3", 1);
  cluster.Submit(Big("big", "q", 2, 3, 2));
  CHECK(cluster.Run(At(200)).empty());
  CHECK(cluster.ObstacleOf("big").count == 0);
  CHECK(cluster.engine.NextDue() == At(260));
  CHECK(cluster.Run(At(259)).empty());
  CHECK(cluster.ObstacleOf("big").count == 0);
  // n2 has one pod; of n1 and n3, with two each, the first.
  CHECK(cluster.Run(At(260)).empty());
  Obstacle obstacle = cluster.ObstacleOf("big");
  CHECK(obstacle.kind == ObstacleKind::kNoRoom);
  CHECK(obstacle.count == 2);
  CHECK_FALSE(obstacle.until.IsSet());
  CHECK(CodeOf(cluster, "big") == WaitCode::kNoRoom);
  // What is beyond its three on n2 and n1 is everybody's.
  cluster.Finish("n2-all");
  cluster.Submit(Big("one", "s", 1, 1, 3));
  CHECK(cluster.Run(At(270)) == Uids{"one"});
  cluster.Submit(Big("two", "s", 1, 2, 4));
  CHECK(cluster.Run(At(270)).empty());
  CHECK(CodeOf(cluster, "two") == WaitCode::kRoomKept);
  CHECK(cluster.ObstacleOf("two").machines->kept);
  // n3 is not reserved.
  cluster.Finish("n3-0");
  CHECK(cluster.Run(At(280)) == Uids{"two"});
  cluster.Finish("n1-0");
  CHECK(cluster.Run(At(290)).empty());
  cluster.Finish("n1-all");
  CHECK(cluster.Run(At(300)) == Uids{"big"});
}

TEST_CASE("who will have ended in time may run on machines that are reserved, but takes no quota that is kept") {
  OnMachines cluster(Reserving(seconds(10)));
  cluster.AddQueue(PoolQueue("q", {"a"}, 6));
  cluster.AddQueue(PoolQueue("s", {"a"}));
  cluster.AddNode("n1", "a", 2);
  cluster.AddNode("n2", "a", 2);
  // One on each node: the second has no room for both.
  cluster.Submit(Limited(Big("r1", "q", 1, 1), seconds(100)));
  cluster.Submit(Limited(Big("x", "s", 1, 1), seconds(100)));
  cluster.Submit(Limited(Big("r2", "q", 1, 1, 2), seconds(50)));
  CHECK(cluster.Run(At(100)).size() == 3);
  cluster.Finish("x");
  cluster.Submit(Big("big", "q", 2, 2, 3));
  CHECK(cluster.Run(At(100)).empty());
  CHECK(cluster.Run(At(110)).empty());
  CHECK(cluster.ObstacleOf("big").count == 2);
  CHECK(cluster.ObstacleOf("big").until == At(200));
  CHECK(cluster.HoldOf("big").has_value());
  cluster.Submit(Big("endless", "s", 1, 1, 4));
  cluster.Submit(Limited(Big("long", "s", 1, 1, 5), seconds(91)));
  cluster.Submit(Limited(Big("no-quota", "q", 1, 1, 6), seconds(5)));
  CHECK(cluster.Run(At(110)).empty());
  CHECK(CodeOf(cluster, "endless") == WaitCode::kRoomKept);
  CHECK(CodeOf(cluster, "long") == WaitCode::kRoomKept);
  CHECK(CodeOf(cluster, "no-quota") == WaitCode::kRoomKept);
  // The second would end at 201 where it began a second later.
  cluster.Submit(Limited(Big("short", "s", 1, 1, 7), seconds(90)));
  cluster.Submit(Limited(Big("shorter", "s", 1, 1, 8), seconds(90)));
  CHECK(cluster.Run(At(110)) == Uids{"short", "shorter"});
  CHECK(cluster.ObstacleOf("big").count == 2);
  for (const char* uid : {"r1", "r2", "short"}) cluster.Finish(uid);
  // There is quota beside what is kept by now, and five seconds are left.
  CHECK(cluster.Run(At(190)) == Uids{"no-quota"});
  cluster.Finish("no-quota");
  CHECK(cluster.Run(At(195)).empty());
  cluster.Finish("shorter");
  CHECK(cluster.Run(At(200)) == Uids{"big"});
}

TEST_CASE("what is reserved is free again once nobody waits for it") {
  OnMachines cluster(Reserving(seconds(10)));
  ClusterQueue queue = PoolQueue("q", {"a"});
  cluster.AddQueue(queue);
  cluster.AddQueue(PoolQueue("s", {"a"}));
  cluster.AddNode("n1", "a", 4);
  cluster.Submit(Big("runs", "s", 1, 2));
  CHECK(cluster.Run(At(100)) == Uids{"runs"});
  cluster.Submit(Big("big", "q", 1, 4, 2));
  CHECK(cluster.Run(At(100)).empty());
  CHECK(cluster.Run(At(110)).empty());
  cluster.Submit(Big("small", "s", 1, 2, 3));
  CHECK(cluster.Run(At(110)).empty());
  CHECK(CodeOf(cluster, "small") == WaitCode::kRoomKept);
  SECTION("it is deleted") { cluster.Finish("big"); }
  SECTION("it is deactivated") {
    Workload big = Big("big", "q", 1, 4, 2);
    big.active = false;
    cluster.Submit(big);
  }
  SECTION("its queue is stopped") {
    queue.stop_policy = StopPolicy::kHold;
    cluster.AddQueue(queue);
  }
  SECTION("it asks for more than the node has") { cluster.Submit(Big("big", "q", 1, 5, 2)); }
  SECTION("it starts elsewhere") {
    cluster.AddNode("n2", "a", 4);
    CHECK(cluster.Run(At(120)) == Uids{"big", "small"});
    return;
  }
  SECTION("the node is cordoned") {
    gang::Node node = PoolNode("n1", "a", 4);
    node.unschedulable = true;
    cluster.Apply(NodeChanged{node});
    cluster.AddNode("n2", "a", 2);  // of the pod that was to go to n1
    cluster.AddNode("n3", "a", 2);
    CHECK(cluster.Run(At(120)) == Uids{"small"});
    CHECK(cluster.ObstacleOf("big").count == 0);
    return;
  }
  CHECK(cluster.Run(At(120)) == Uids{"small"});
}

TEST_CASE("in a flavor the first of those who wait has machines reserved, then the next") {
  OnMachines cluster(Reserving(seconds(10)));
  for (const char* name : {"p", "q", "s"}) cluster.AddQueue(PoolQueue(name, {"a"}));
  cluster.AddNode("n1", "a", 4);
  cluster.AddNode("n2", "a", 4);
  cluster.Submit(Big("r1", "s", 1, 3));
  cluster.Submit(Big("r2", "s", 1, 3));
  CHECK(cluster.Run(At(100)).size() == 2);
  cluster.Submit(Big("second", "p", 1, 4, 3));
  cluster.Submit(Big("first", "q", 1, 4, 2));
  CHECK(cluster.Run(At(100)).empty());
  CHECK(cluster.Run(At(110)).empty());
  CHECK(cluster.ObstacleOf("first").count == 1);
  CHECK(cluster.ObstacleOf("second").count == 0);
  // Of two that are alike, n1: what is free on n2 is everybody's.
  cluster.Submit(Limited(Big("one", "s", 1, 1, 4), seconds(1000)));
  cluster.Submit(Big("another", "s", 1, 1, 5));
  CHECK(cluster.Run(At(111)) == Uids{"one"});
  cluster.Finish("another");
  cluster.Finish("r1");
  cluster.Finish("r2");
  CHECK(cluster.Run(At(120)) == Uids{"first"});
  // n2, since it is known when that will be free.
  CHECK(cluster.ObstacleOf("second").count == 1);
  CHECK(cluster.ObstacleOf("second").until == At(111 + 1000));
  cluster.Submit(Big("late", "s", 1, 1, 6));
  CHECK(cluster.Run(At(130)).empty());
  cluster.Finish("one");
  CHECK(cluster.Run(At(140)) == Uids{"second"});
}

TEST_CASE("one who may have others go for it does not wait for what they leave") {
  OnMachines cluster(Reserving(seconds(10)));
  ClusterQueue queue = PoolQueue("q", {"a"});
  queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
  cluster.AddQueue(queue);
  cluster.AddNode("n1", "a", 4);
  cluster.Submit(Big("runs", "q", 1, 2, 1, 5));
  CHECK(cluster.Run(At(100)) == Uids{"runs"});
  cluster.Submit(Big("big", "q", 1, 4, 2, 3));
  CHECK(cluster.Run(At(100)).empty());
  CHECK(cluster.Run(At(110)).empty());
  CHECK(cluster.ObstacleOf("big").count == 1);
  // Its priority is raised above that of the one who runs.
  cluster.Submit(Big("big", "q", 1, 4, 2, 7));
  CHECK(cluster.Run(At(111)).empty());
  CHECK(cluster.Preempted() == Uids{"runs for big"});
  cluster.LeaveAll();
  CHECK(cluster.Run(At(112)) == Uids{"big"});
}

}  // namespace muster::engine
