// What becomes of the places of a gang when its pods are bound and gone, when it is evicted for another, and when a
// node goes. All numbers are worked out by hand.
#include <catch2/catch.hpp>

#include "on_machines.h"

namespace muster::engine {

namespace {

using Uids = std::vector<std::string>;
using Place = WorkloadView::Place;

PodPlaced Bound(const std::string& uid, int index, const std::string& node, int64_t cpu) {
  return {"ns/" + uid + "-" + std::to_string(index), node, {{"cpu", Amount{cpu}}}, uid, "main"};
}

ClusterQueue Preempting(const std::string& name, const Uids& flavors) {
  ClusterQueue queue = PoolQueue(name, flavors);
  queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
  return queue;
}

// How many pods of so much would have places in flavor a now, one gang after the other.
int64_t Room(OnMachines* cluster, int64_t cpu) {
  int64_t pods = 0;
  while (true) {
    const std::string uid = "probe-" + std::to_string(pods);
    cluster->Submit(Big(uid, "probe", 1, cpu, 1000 + pods, -1000));
    const bool fits = cluster->Run() == Uids{uid};
    if (!fits) {
      cluster->Finish(uid);
      break;
    }
    ++pods;
  }
  for (int64_t i = 0; i < pods; ++i) cluster->Finish("probe-" + std::to_string(i));
  return pods;
}

}  // namespace

TEST_CASE("a bound pod takes its room where it is, and a place of its gang is free wherever that was") {
  OnMachines cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.AddQueue(PoolQueue("probe", {"a"}));
  for (const char* name : {"n1", "n2", "n3"}) cluster.AddNode(name, "a", 4);
  cluster.Submit(Big("w", "q", 2, 4));
  CHECK(cluster.Run() == Uids{"w"});
  CHECK(Room(&cluster, 4) == 1);
  // Planned on n1 and n2. The scheduler prefers n3 and n2.
  cluster.Apply(Bound("w", 0, "n3", 4));
  CHECK(Room(&cluster, 4) == 1);
  cluster.Apply(Bound("w", 1, "n2", 4));
  CHECK(Room(&cluster, 4) == 1);
  cluster.Submit(Big("other", "q", 1, 4, 2));
  CHECK(cluster.Run() == Uids{"other"});
  CHECK(Room(&cluster, 1) == 0);
  // A pod that has gone leaves its room to the one that comes for it.
  cluster.Apply(PodGone{"ns/w-1"});
  CHECK(Room(&cluster, 1) == 0);
  // None comes: two pods were needed, and one is.
  Workload half = Big("w", "q", 1, 4);
  cluster.Submit(half);
  CHECK(Room(&cluster, 4) == 1);
  cluster.Finish("w");
  // Its other pod is still there.
  CHECK(Room(&cluster, 4) == 1);
  cluster.Apply(PodGone{"ns/w-0"});
  CHECK(Room(&cluster, 4) == 2);
}

TEST_CASE("pods that ask for more than their shape says are a fact, and amounts below zero let nobody in") {
  OnMachines cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.AddQueue(PoolQueue("probe", {"a"}));
  cluster.AddNode("n1", "a", 8);
  cluster.Submit(Big("w", "q", 2, 4));
  CHECK(cluster.Run() == Uids{"w"});
  cluster.Apply(PodPlaced{"ns/stranger", "n1", {{"cpu", Amount{4}}}});
  cluster.Apply(Bound("w", 0, "n1", 4));
  cluster.Apply(Bound("w", 1, "n1", 6));
  CHECK(Room(&cluster, 1) == 0);
  cluster.Apply(PodGone{"ns/stranger"});
  CHECK(Room(&cluster, 1) == 0);  // 10 of 8
  // The pod that was too big is gone; what its gang needs for it is 4, so 8 of 8.
  cluster.Apply(PodGone{"ns/w-1"});
  CHECK(Room(&cluster, 1) == 0);
  cluster.Finish("w");
  CHECK(Room(&cluster, 4) == 1);
}

TEST_CASE("a node that goes, or is cordoned, between decision and binding: the gang gets the next place") {
  OnMachines cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.AddQueue(PoolQueue("probe", {"a"}));
  for (const char* name : {"n1", "n2", "n3"}) cluster.AddNode(name, "a", 4);
  cluster.Submit(Big("w", "q", 2, 4));
  CHECK(cluster.Run() == Uids{"w"});
  cluster.Apply(NodeDeleted{"n1"});
  CHECK(Room(&cluster, 1) == 0);  // n2 and n3
  cluster.Apply(NodeDeleted{"n2"});
  CHECK(Room(&cluster, 1) == 0);
  // It lacks one place, and gets it before others do.
  cluster.Submit(Big("other", "q", 1, 4, 0, 100));
  cluster.AddNode("n4", "a", 4);
  CHECK(cluster.Run().empty());
  cluster.AddNode("n5", "a", 4);
  CHECK(cluster.Run() == Uids{"other"});
}

TEST_CASE("the fewest go whose machines make room, and the room is the preemptor's once their pods are gone") {
  OnMachines cluster;
  cluster.AddQueue(Preempting("q", {"a"}));
  cluster.AddQueue(PoolQueue("probe", {"a"}));
  cluster.AddNode("n1", "a", 8);
  cluster.AddNode("n2", "a", 8);
  cluster.Submit(Big("small", "q", 1, 3, 1));
  CHECK(cluster.Run(At(100)) == Uids{"small"});  // n1
  cluster.Submit(Big("big", "q", 1, 6, 2));
  CHECK(cluster.Run(At(101)) == Uids{"big"});  // n2: n1 has 5
  cluster.Submit(Big("late", "q", 1, 2, 3));
  CHECK(cluster.Run(At(102)) == Uids{"late"});  // n1, which has 3 left
  cluster.Apply(Bound("big", 0, "n2", 6));
  // 7 are free nowhere. Without `late`, which is to go first, n1 has 5; without `big` n2 has 8, so `late` may stay.
  cluster.Submit(Big("urgent", "q", 1, 7, 4, 10));
  CHECK(cluster.Run(At(103)).empty());
  CHECK(cluster.Preempted() == Uids{"big for urgent"});
  CHECK(cluster.HoldOf("urgent")->code == ReasonCode::kWaitingForPreemptedWorkloads);
  CHECK(Room(&cluster, 1) == 4);  // 3 on n1, and of the 2 on n2 all but the one that is kept
  // Its quota is free, and its pod is not gone.
  cluster.Leave("big");
  CHECK(cluster.Run(At(104)).empty());
  CHECK(cluster.PlaceOf("urgent") != Place::kHolding);
  cluster.Apply(PodGone{"ns/big-0"});
  CHECK(cluster.Run(At(105)) == Uids{"urgent"});
}

TEST_CASE("nobody is evicted where that makes no room") {
  OnMachines cluster;
  cluster.AddQueue(Preempting("q", {"a"}));
  cluster.AddNode("n1", "a", 8);
  cluster.Submit(Big("high", "q", 1, 4, 1, 20));
  cluster.Submit(Big("low", "q", 1, 4, 2));
  CHECK(cluster.Run() == Uids{"high", "low"});
  cluster.Submit(Big("urgent", "q", 1, 5, 3, 10));
  CHECK(cluster.Run().empty());
  CHECK(cluster.Preempted().empty());
  CHECK(cluster.PlaceOf("urgent") == Place::kParked);
  CHECK(cluster.ObstacleOf("urgent").kind == ObstacleKind::kNoRoom);
  // And where it would never fit, not even alone.
  cluster.Submit(Big("huge", "q", 1, 9, 4, 100));
  CHECK(cluster.Run().empty());
  CHECK(cluster.Preempted().empty());
}

TEST_CASE("a flavor with room is taken rather than one where others would have to go") {
  OnMachines cluster;
  cluster.AddQueue(Preempting("q", {"a", "b"}));
  cluster.AddNode("n1", "a", 8);
  cluster.AddNode("n2", "b", 8);
  cluster.Submit(Big("low", "q", 1, 6, 1));
  CHECK(cluster.Run() == Uids{"low"});
  cluster.Submit(Big("urgent", "q", 1, 6, 2, 10));
  CHECK(cluster.Run() == Uids{"urgent"});
  CHECK(cluster.Preempted().empty());
  CHECK(cluster.FlavorOf("urgent") == "b");
  // Both are full now.
  cluster.Submit(Big("next", "q", 1, 6, 3, 5));
  CHECK(cluster.Run().empty());
  CHECK(cluster.Preempted() == Uids{"low for next"});
}

TEST_CASE("machine room that is kept for a preemptor is nobody else's, of whatever tree") {
  OnMachines cluster;
  cluster.AddQueue(Preempting("q", {"a"}));
  cluster.AddQueue(PoolQueue("r", {"a"}));
  cluster.AddNode("n1", "a", 8);
  cluster.Submit(Big("low", "q", 2, 4, 1));
  CHECK(cluster.Run() == Uids{"low"});
  cluster.Submit(Big("urgent", "q", 1, 6, 2, 10));
  CHECK(cluster.Run().empty());
  CHECK(cluster.Preempted() == Uids{"low for urgent"});
  cluster.Submit(Big("thief", "r", 1, 3, 3));
  cluster.Submit(Big("modest", "r", 1, 2, 4));
  CHECK(cluster.Run().empty());  // nothing is free yet
  cluster.Leave("low");
  CHECK(cluster.Run() == Uids{"urgent", "modest"});
  CHECK(cluster.PlaceOf("thief") == Place::kParked);
}

TEST_CASE("who runs already when the engine comes has its places before anybody is admitted") {
  const bool nodes_first = GENERATE(false, true);
  CAPTURE(nodes_first);
  OnMachines cluster;
  const auto add_nodes = [&] {
    for (const char* name : {"n3", "n1", "n2"}) cluster.AddNode(name, "a", 4);
  };
  cluster.AddQueue(PoolQueue("q", {"a"}));
  if (nodes_first) add_nodes();
  cluster.Apply(Bound("running", 0, "n2", 4));
  Workload running = Big("running", "q", 2, 4);
  PodSetAssignment pods{"main", 2, {{"cpu", "a"}}, {{"cpu", Amount{8}}}};
  running.held = HeldClaim{{7, 1}, ClaimState::kActive, {"q", {pods}}, At(50)};
  cluster.Submit(running);
  cluster.Submit(Big("w", "q", 2, 4, 2));
  cluster.Submit(Big("x", "q", 1, 4, 3));
  if (!nodes_first) add_nodes();
  // n2 is taken and one of the others is the second pod's.
  CHECK(cluster.Run() == Uids{"x"});
}

}  // namespace muster::engine
