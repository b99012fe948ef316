// Gangs that are moved so that another finds its places. Who is where, and what is free, is counted by hand from the
// nodes of each case.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "draws.h"
#include "on_machines.h"

namespace muster::engine {

namespace {

using Uids = std::vector<std::string>;
using Place = WorkloadView::Place;
using std::chrono::seconds;

EngineOptions Defragmenting(bool machines, Duration after = seconds(10)) {
  EngineOptions options;
  options.machines = machines;
  options.defragment_after = after;
  return options;
}

Workload Movable(Workload workload) {
  workload.movable = true;
  return workload;
}

Workload InOneRack(Workload workload) {
  workload.pod_sets[0].topology.required = "rack";
  return workload;
}

// Racks r1 {n1, n2} and r2 {n3, n4} of 4 cpu a node; flavor `t` has them, and queue `q` quota of it.
class Racks : public Cluster {
 public:
  explicit Racks(const EngineOptions& options, int64_t quota = 100,
                 QueueingStrategy strategy = QueueingStrategy::kBestEffortFIFO)
      : Cluster(options) {
    Apply(TopologyChanged{{"topo", {"rack", std::string(gang::kHostnameLabel)}}});
    Apply(FlavorChanged{{"t", {{"pool", "t"}}, {}, {}, "topo"}});
    for (const auto& [name, rack] : {std::pair("n1", "r1"), {"n2", "r1"}, {"n3", "r2"}, {"n4", "r2"}}) {
      SetNode(name, rack, 4);
    }
    ClusterQueue queue = PoolQueue("q", {"t"}, quota);
    queue.queueing_strategy = strategy;
    AddQueue(queue);
  }
  void SetNode(const std::string& name, const std::string& rack, int64_t cpu) {
    gang::Node node = PoolNode(name, "t", cpu);
    node.labels.emplace("rack", rack);
    node.labels.emplace(std::string(gang::kHostnameLabel), name);
    Apply(NodeChanged{node});
  }
  // "r1:4"; of a gang in several racks "r1:4 r2:1".
  std::string RackOf(const std::string& uid) const {
    std::map<std::string, int32_t> pods;
    const Admission admission = engine.ViewWorkload(uid)->admission;
    REQUIRE(admission.pod_sets.size() == 1);
    for (const gang::TopologyDomain& domain : admission.pod_sets[0].topology->domains) {
      pods[domain.values.back() <= "n2" ? "r1" : "r2"] += domain.count;
    }
    std::string text;
    for (const auto& [rack, count] : pods) text += (text.empty() ? "" : " ") + rack + ":" + std::to_string(count);
    return text;
  }
  // Both racks are half used: r1 by `x` (3 pods), r2 by `y` (4).
  void HalfUsed(bool x_movable, bool y_movable) {
    const auto mark = [](Workload workload, bool movable) { return movable ? Movable(workload) : workload; };
    Submit(mark(InOneRack(Gang("x", "q", 3, 1)), x_movable));
    REQUIRE(Run(At(100)) == Uids{"x"});
    Submit(InOneRack(Gang("filler", "q", 5, 2)));  // so that `y` has to go to the other rack
    REQUIRE(Run(At(100)) == Uids{"filler"});
    Submit(mark(InOneRack(Gang("y", "q", 4, 3)), y_movable));
    REQUIRE(Run(At(100)) == Uids{"y"});
    Finish("filler");
    REQUIRE(RackOf("x") == "r1:3");
    REQUIRE(RackOf("y") == "r2:4");
  }
  // And `x` has been told to go for `hero`, which needs a whole rack.
  void MoveX() {
    HalfUsed(true, true);
    Submit(InOneRack(Gang("hero", "q", 8, 4)));
    Run(At(110));
    Run(At(120));
    REQUIRE(Preempted() == Uids{"x for hero"});
  }
};

}  // namespace

// r1 has 5 free and r2 4: of 8 pods in one rack 3 or 4 are in the way, which have places in the other one.
TEST_CASE("the cheaper of two gangs is moved so that a third has a rack for itself") {
  const bool machines = GENERATE(false, true);
  const auto strategy = GENERATE(QueueingStrategy::kBestEffortFIFO, QueueingStrategy::kStrictFIFO);
  CAPTURE(machines, strategy);
  // 3 + 4 + 8 pods, and no quota for one more.
  Racks cluster(Defragmenting(machines), 15, strategy);
  cluster.HalfUsed(true, true);
  cluster.Submit(InOneRack(Gang("hero", "q", 8, 4)));
  // Not before its time.
  CHECK(cluster.Run(At(110)).empty());
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.engine.NextDue() == At(120));
  CHECK(cluster.Run(At(120)).empty());
  REQUIRE(cluster.Preempted() == Uids{"x for hero"});
  CHECK(cluster.Evictions()[0].reason == EvictionReason::kDefragmentation);
  REQUIRE(cluster.HoldOf("hero").has_value());
  CHECK(cluster.HoldOf("hero")->code == ReasonCode::kWaitingForPreemptedWorkloads);
  // Its quota and its next places are nobody else's, whoever comes: r2 has one place left, and there is no quota.
  cluster.Submit(Gang("small", "q", 1, 5));
  CHECK(cluster.Run(At(121)).empty());
  cluster.Stop("x");
  CHECK(cluster.Run(At(122)).empty());
  cluster.Leave("x");
  CHECK(cluster.Run(At(123)) == Uids{"x", "hero"});
  CHECK(cluster.RackOf("x") == "r2:3");
  CHECK(cluster.RackOf("hero") == "r1:8");
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.PlaceOf("small") != Place::kHolding);
  cluster.Finish("y");
  CHECK(cluster.Run(At(124)) == Uids{"small"});
}

TEST_CASE("nobody is moved who may not be, or without the option, or where there is no other place") {
  for (const bool machines : {false, true}) {
    CAPTURE(machines);
    SECTION(machines ? "not marked, on machines" : "not marked") {
      Racks cluster(Defragmenting(machines));
      cluster.HalfUsed(false, true);  // `y` is, and goes: r1 has 5 places free
      cluster.Submit(InOneRack(Gang("hero", "q", 8, 4)));
      cluster.Run(At(110));
      cluster.Run(At(120));
      CHECK(cluster.Preempted() == Uids{"y for hero"});
    }
    SECTION(machines ? "nobody is marked, on machines" : "nobody is marked") {
      Racks cluster(Defragmenting(machines));
      cluster.HalfUsed(false, false);
      cluster.Submit(InOneRack(Gang("hero", "q", 8, 4)));
      cluster.Run(At(110));
      cluster.Run(At(120));
      CHECK(cluster.Evictions().empty());
      // One is marked while it runs.
      cluster.Submit(Movable(InOneRack(Gang("x", "q", 3, 1))));
      // Who searched in vain does so again no sooner than after the same time.
      cluster.Run(At(121));
      CHECK(cluster.Evictions().empty());
      cluster.Run(At(130));
      CHECK(cluster.Preempted() == Uids{"x for hero"});
    }
    SECTION(machines ? "off, on machines" : "off") {
      Racks cluster(Defragmenting(machines, seconds(0)));
      cluster.HalfUsed(true, true);
      cluster.Submit(InOneRack(Gang("hero", "q", 8, 4)));
      cluster.Run(At(110));
      cluster.Run(At(10'000));
      CHECK(cluster.Evictions().empty());
    }
    SECTION(machines ? "no place, on machines" : "no place") {
      Racks cluster(Defragmenting(machines));
      cluster.HalfUsed(true, true);
      // r2 has two places left, and r1 five: neither 3 nor 4 pods could go, but for one rack being empty.
      cluster.Submit(InOneRack(Gang("z", "q", 2, 4)));
      REQUIRE(cluster.Run(At(100)) == Uids{"z"});
      REQUIRE(cluster.RackOf("z") == "r2:2");
      cluster.Submit(InOneRack(Gang("hero", "q", 8, 5)));
      cluster.Run(At(110));
      cluster.Run(At(120));
      CHECK(cluster.Evictions().empty());
      REQUIRE(cluster.engine.ViewWorkload("hero")->place != Place::kHolding);
      // One that ends makes room.
      cluster.Finish("z");
      cluster.Run(At(121));
      CHECK(cluster.engine.NextDue() == At(130));
      cluster.Run(At(130));
      CHECK(cluster.Preempted() == Uids{"x for hero"});
    }
  }
}

// `x` takes four of the five places that come free in r1, though `hero` waits for two in one rack: it would have three
// there, and one in r2.
TEST_CASE("a gang whose start is not written yet is not moved") {
  Racks cluster(Defragmenting(GENERATE(false, true)));
  for (const auto& [uid, pods] : {std::pair("a", 3), {"b", 7}, {"filler", 5}}) {
    cluster.Submit(InOneRack(Gang(uid, "q", pods, 1)));
    REQUIRE(cluster.Run(At(100)) == Uids{uid});
  }
  REQUIRE(cluster.RackOf("a") == "r1:3");
  REQUIRE(cluster.RackOf("b") == "r2:7");
  cluster.Submit(InOneRack(Gang("hero", "q", 2, 2)));
  cluster.Submit(Movable(Gang("x", "q", 4, 3, 9)));
  REQUIRE(cluster.Run(At(100)).empty());
  cluster.Finish("filler");
  CHECK(cluster.Run(At(115)) == Uids{"x"});
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.RackOf("x") == "r1:4");
  // By now it is.
  cluster.Run(At(116));
  CHECK(cluster.Preempted() == Uids{"x for hero"});
  cluster.LeaveAll();
  CHECK(cluster.Run(At(117)) == Uids{"x", "hero"});
  CHECK(cluster.RackOf("hero") == "r1:2");
  CHECK(cluster.RackOf("x") == "r1:3 r2:1");
}

// r1 has four gangs of one pod each, r2 one of three: each of the four is cheaper than that, and all together dearer.
TEST_CASE("what counts is what all together cost") {
  Racks cluster(Defragmenting(GENERATE(false, true)));
  for (const char* uid : {"s1", "s2", "s3", "s4"}) cluster.Submit(Movable(InOneRack(Gang(uid, "q", 1, 1))));
  cluster.Run(At(100));
  cluster.Submit(InOneRack(Gang("filler", "q", 4, 2)));
  cluster.Run(At(100));
  cluster.Submit(Movable(InOneRack(Gang("t", "q", 3, 3))));
  cluster.Run(At(100));
  cluster.Finish("filler");
  REQUIRE(cluster.RackOf("s4") == "r1:1");
  REQUIRE(cluster.RackOf("t") == "r2:3");
  cluster.Submit(InOneRack(Gang("hero", "q", 8, 4)));
  cluster.Run(At(110));
  cluster.Run(At(120));
  CHECK(cluster.Preempted() == Uids{"t for hero"});
  cluster.LeaveAll();
  CHECK(cluster.Run(At(121)) == Uids{"t", "hero"});
  CHECK(cluster.RackOf("t") == "r1:3");
}

TEST_CASE("whoever preempts by policy goes on doing so, and moves nobody") {
  Racks cluster(Defragmenting(false));
  ClusterQueue queue = PoolQueue("q", {"t"}, 100);
  queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
  cluster.Apply(ClusterQueueChanged{queue});
  cluster.HalfUsed(true, true);
  cluster.Submit(InOneRack(Gang("hero", "q", 8, 4, 1)));
  cluster.Run(At(110));
  REQUIRE(cluster.Evictions().size() == 1);
  CHECK(cluster.Evictions()[0].reason == EvictionReason::kInClusterQueue);
}

TEST_CASE("a gang that is moved comes back though its new start is refused at first, or its mover is gone") {
  const bool gone = GENERATE(false, true);
  Racks cluster(Defragmenting(true));
  cluster.MoveX();
  if (gone) {
    cluster.Finish("hero");
    cluster.LeaveAll();
    CHECK(cluster.Run(At(121)) == Uids{"x"});
    return;
  }
  cluster.LeaveAll();
  cluster.last = cluster.engine.Decide(At(121));
  const auto admitted = std::find_if(cluster.last.begin(), cluster.last.end(), [](const Decision& decision) {
    const auto* admit = std::get_if<Admit>(&decision);
    return admit != nullptr && admit->uid == "x";
  });
  REQUIRE(admitted != cluster.last.end());
  cluster.Apply(ClaimRefused{"x", std::get<Admit>(*admitted).claim, At(130), "no"});
  // r2 has y's four pods, and three are to come: two more have no place there yet.
  cluster.Submit(InOneRack(Gang("small", "q", 2, 5, 9)));
  CHECK(cluster.Run(At(122)).empty());
  CHECK(cluster.Run(At(130)) == Uids{"x"});
  CHECK(cluster.RackOf("x") == "r2:3");
}

// `x` has pods that are counted until it has left: 8 + 3 + 3 pods are more than the ResourceQuota lets in.
TEST_CASE("a ResourceQuota that still counts the pods of a gang that is moved takes neither room away") {
  Racks cluster(Defragmenting(true));
  const auto charged = [](Workload workload) {
    gang::Shape shape = *workload.pod_sets[0].shape;
    shape.charge.emplace().amounts = {{"pods", Amount{1}}};
    workload.pod_sets[0].shape = std::make_shared<const gang::Shape>(std::move(shape));
    return workload;
  };
  const auto quota = [&](int64_t used) {
    cluster.Apply(NamespaceQuotaChanged{NamespaceQuota{"ns", "team", {{"pods", Amount{11}, Amount{used}}}, {}}});
  };
  cluster.Submit(charged(Movable(InOneRack(Gang("x", "q", 3, 1)))));
  REQUIRE(cluster.Run(At(100)) == Uids{"x"});
  cluster.Apply(PodsCounted{"x", "main", 3});
  quota(3);
  cluster.Submit(InOneRack(Gang("filler", "q", 5, 2)));
  REQUIRE(cluster.Run(At(100)) == Uids{"filler"});
  cluster.Submit(InOneRack(Gang("y", "q", 4, 3)));
  REQUIRE(cluster.Run(At(100)) == Uids{"y"});
  cluster.Finish("filler");
  cluster.Submit(charged(InOneRack(Gang("hero", "q", 8, 4))));
  cluster.Run(At(110));
  CHECK(cluster.Run(At(120)).empty());
  REQUIRE(cluster.Preempted() == Uids{"x for hero"});
  CHECK(cluster.engine.ViewWorkload("hero")->kept_room.has_value());
  cluster.Stop("x");
  CHECK(cluster.Run(At(121)).empty());
  CHECK(cluster.engine.ViewWorkload("hero")->kept_room.has_value());
  // Its pods are gone, and their ResourceQuota is told later: 3 and 8 are all that it allows.
  cluster.Leave("x");
  CHECK(cluster.Run(At(122)) == Uids{"hero"});
  CHECK(cluster.engine.ViewWorkload("x")->kept_room.has_value());
  cluster.Apply(PodsCounted{"x", "main", 0});
  quota(0);
  CHECK(cluster.Run(At(123)) == Uids{"x"});
  CHECK(cluster.RackOf("x") == "r2:3");
}

// `x` was to go to n4, and stands before `urgent` for as long as that is kept for it. Of r1 two places are left: enough
// for `urgent`, and for nobody else.
TEST_CASE("one that is moved and loses its place to a node that fails does not hold up its StrictFIFO queue") {
  Racks cluster(Defragmenting(true), 100, QueueingStrategy::kStrictFIFO);
  cluster.MoveX();
  cluster.Stop("x");
  cluster.Apply(NodeDeleted{"n4"});
  cluster.SetNode("n1", "r1", 2);
  cluster.SetNode("n2", "r1", 0);
  cluster.Leave("x");
  cluster.Submit(InOneRack(Gang("urgent", "q", 1, 5, 9)));
  CHECK(cluster.Run(At(121)) == Uids{"urgent"});
}

// The pods of `x` take longer to leave than room is kept; `small` is in r1 by then.
TEST_CASE("a gang whose time was over has others moved again") {
  Racks cluster(Defragmenting(true));
  cluster.MoveX();
  cluster.Stop("x");
  CHECK(cluster.Run(At(120 + 900)).empty());
  // r2 has y's four pods, and three are to come: two more have no place there yet.
  cluster.Submit(Movable(InOneRack(Gang("small", "q", 2, 5))));
  REQUIRE(cluster.Run(At(1030)) == Uids{"small"});
  REQUIRE(cluster.RackOf("small") == "r1:2");
  cluster.SetNode("n5", "r2", 2);
  cluster.Leave("x");
  CHECK(cluster.Run(At(1100)) == Uids{"x"});
  // Whoever is in its way by now has a place in r2.
  bool started = false;
  for (int64_t now = 1101; now < 1110 && !started; ++now) {
    cluster.LeaveAll();
    cluster.Run(At(now));
    started = cluster.PlaceOf("hero") == Place::kHolding;
  }
  CHECK(started);
  CHECK(cluster.RackOf("hero") == "r1:8");
  CHECK(cluster.RackOf("x") == "r2:3");
  CHECK(cluster.RackOf("small") == "r2:2");
}

TEST_CASE("one that asks for more pods while it is moved is kept no room of no use") {
  Racks cluster(Defragmenting(true));
  cluster.MoveX();
  cluster.Stop("x");
  cluster.Submit(Movable(InOneRack(Gang("x", "q", 6, 1))));
  cluster.Leave("x");
  // r2 has four places, which are nobody's; `x` would need six.
  cluster.Submit(InOneRack(Gang("small", "q", 4, 5)));
  std::vector<std::string> started = cluster.Run(At(121));
  std::sort(started.begin(), started.end());
  CHECK(started == Uids{"hero", "small"});
}

TEST_CASE("what is kept for one that is moved ends with its time, and with its claim") {
  Racks cluster(Defragmenting(true));
  cluster.MoveX();
  cluster.Submit(InOneRack(Gang("small", "q", 4, 5)));
  REQUIRE(cluster.Run(At(121)).empty());
  // It has ended while it was being stopped.
  cluster.Stop("x");
  cluster.Finish("x");
  CHECK(cluster.Run(At(122)) == Uids{"hero", "small"});
}

TEST_CASE("after a restart one that was moved comes back before others") {
  const bool x_first = GENERATE(false, true);
  Racks cluster(Defragmenting(true));
  cluster.Submit(InOneRack(Gang("y", "q", 4, 1)));
  REQUIRE(cluster.Run(At(100)) == Uids{"y"});
  REQUIRE(cluster.RackOf("y") == "r1:4");
  Workload x = Movable(InOneRack(Gang("x", "q", 3, 5)));
  x.last_eviction = PastEviction{At(118), "hero", true};
  if (x_first) cluster.Submit(x);
  cluster.Submit(InOneRack(Gang("hero", "q", 8, 4)));
  if (!x_first) cluster.Submit(x);
  cluster.Submit(InOneRack(Gang("small", "q", 2, 2, 9)));
  CHECK(cluster.Run(At(120)) == Uids{"hero", "x"});
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.RackOf("x") == "r1:3");
  CHECK(cluster.RackOf("hero") == "r2:8");
}

// Nodes n1 and n2 of 4 cpu, in no topology: 2 are free on each, and the pods that run are bound. `y` has been moved
// from n2 to n1 for `hero`; `small` may take what is nobody's.
class HalfUsedNodes : public OnMachines {
 public:
  explicit HalfUsedNodes(QueueingStrategy strategy = QueueingStrategy::kBestEffortFIFO)
      : OnMachines(Defragmenting(true)) {
    ClusterQueue queue = PoolQueue("q", {"a"});
    queue.queueing_strategy = strategy;
    AddQueue(queue);
    AddNode("n1", "a", 4);
    Submit(Big("x", "q", 1, 2, 1));
    REQUIRE(Run(At(100)) == Uids{"x"});
    Bind("x", "n1", 2);
    Submit(Big("filler", "q", 1, 2, 1));
    REQUIRE(Run(At(100)) == Uids{"filler"});
    AddNode("n2", "a", 4);
    Submit(Movable(Big("y", "q", 1, 2, 2)));
    REQUIRE(Run(At(100)) == Uids{"y"});
    Bind("y", "n2", 2);
    Finish("filler");
    Submit(Big("hero", "q", 1, 4, 3));
    REQUIRE(Run(At(110)).empty());
    REQUIRE(Run(At(120)).empty());
    REQUIRE(Preempted() == Uids{"y for hero"});
    Submit(Big("small", "q", 1, 1, 4));
    REQUIRE(Run(At(121)).empty());
    // Its pods are gone from n2 only some time after its claim.
    Leave("y");
    REQUIRE(Run(At(122)).empty());
  }
  void Bind(const std::string& uid, const std::string& node, int64_t cpu) {
    Apply(PodPlaced{"ns/" + uid + "-0", node, {{"cpu", Amount{cpu}}, {"pods", Amount{1}}}, uid, "main"});
  }
};

// The scheduler does not know who is to be where: until the other has n2, it would find that as good as n1 for `y`.
TEST_CASE("on machines alone a gang is moved so that another has a whole node, and starts once that has it") {
  HalfUsedNodes cluster(GENERATE(QueueingStrategy::kBestEffortFIFO, QueueingStrategy::kStrictFIFO));
  REQUIRE(cluster.HoldOf("y").has_value());
  CHECK(cluster.HoldOf("y")->obstacles.at(0).kind == ObstacleKind::kGivesWay);
  CHECK(cluster.HoldOf("y")->blockers.at(0).uid == "hero");
  cluster.Apply(PodGone{"ns/y-0"});
  CHECK(cluster.Run(At(123)) == Uids{"hero"});
  cluster.Bind("hero", "n2", 4);
  CHECK(cluster.Run(At(124)) == Uids{"y"});
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.PlaceOf("small") != Place::kHolding);
}

// The one that is like `y` finds no room, and so its like are passed over until something changes.
TEST_CASE("a gang that was moved is not taken for its like, which waits") {
  HalfUsedNodes cluster;
  cluster.Submit(Big("like", "q", 1, 2, 4));
  cluster.Apply(PodGone{"ns/y-0"});
  REQUIRE(cluster.Run(At(123)) == Uids{"hero"});
  CHECK(cluster.Run(At(124)).empty());
  cluster.Bind("hero", "n2", 4);
  CHECK(cluster.Run(At(125)) == Uids{"y"});
}

TEST_CASE("a gang that was moved starts though the one that it was moved for does not") {
  HalfUsedNodes cluster(GENERATE(QueueingStrategy::kBestEffortFIFO, QueueingStrategy::kStrictFIFO));
  cluster.Apply(PodGone{"ns/y-0"});
  SECTION("it is deleted while it waits") {
    cluster.Finish("hero");
    CHECK(cluster.Run(At(123)) == Uids{"y", "small"});
  }
  SECTION("it is deleted before its pods are on nodes") {
    REQUIRE(cluster.Run(At(123)) == Uids{"hero"});
    cluster.Finish("hero");
    CHECK(cluster.Run(At(124)) == Uids{"y", "small"});
  }
  SECTION("its node goes before its pods are there, and it is stopped") {
    REQUIRE(cluster.Run(At(123)) == Uids{"hero"});
    cluster.Apply(NodeDeleted{"n2"});
    CHECK(cluster.Run(At(124)).empty());
    CHECK(cluster.Run(At(124 + 60)) == Uids{"y"});
    REQUIRE(cluster.Evictions().size() == 1);
    CHECK(cluster.Evictions()[0].reason == EvictionReason::kNodeFailures);
  }
  // Half as long as room is kept for it, since the run before that in which its claim was gone.
  SECTION("nothing becomes of its pods, and the time is over") {
    REQUIRE(cluster.Run(At(123)) == Uids{"hero"});
    CHECK(cluster.Run(At(121 + 449)).empty());
    CHECK(cluster.Run(At(121 + 450)) == Uids{"y"});
    CHECK(cluster.PlaceOf("small") != Place::kHolding);
  }
}

// A circle of moves would take the same decisions for ever; a move in vain would leave somebody waiting.
TEST_CASE("random gangs: a move is the start of one more gang, and everybody who is moved comes back at once") {
  const bool machines = GENERATE(false, true);
  int moves = 0;
  const bool holds = rc::check([machines, &moves] {
    Racks cluster(Defragmenting(machines, seconds(5)));
    int64_t now = 100;
    int next = 0;
    std::vector<std::string> running;
    const auto forget = [&running](const std::string& uid) { std::erase(running, uid); };
    const int steps = Draw(20, 60);
    for (int step = 0; step < steps; ++step, now += Draw(1, 8)) {
      if (!running.empty() && OneIn(4)) {
        const std::string uid = *rc::gen::elementOf(running);
        forget(uid);
        cluster.Finish(uid);
      } else {
        Workload gang = Gang("g" + std::to_string(++next), "q", Draw(1, 9), now);
        if (!OneIn(3)) gang = InOneRack(gang);
        if (!OneIn(3)) gang = Movable(gang);
        cluster.Submit(gang);
      }
      for (const std::string& uid : cluster.Run(At(now))) running.push_back(uid);
      std::vector<std::string> back;
      std::set<std::string> heroes;
      for (const Evict& evict : cluster.Evictions()) {
        RC_ASSERT(evict.reason == EvictionReason::kDefragmentation);
        back.push_back(evict.uid);
        heroes.insert(evict.preemptor_uid);
        forget(evict.uid);
      }
      if (back.empty()) continue;
      ++moves;
      cluster.LeaveAll();
      const std::vector<std::string> admitted = cluster.Run(At(now));
      RC_ASSERT(cluster.Evictions().empty());
      for (const std::string& uid : back) RC_ASSERT(std::ranges::find(admitted, uid) != admitted.end());
      for (const std::string& uid : heroes) RC_ASSERT(std::ranges::find(admitted, uid) != admitted.end());
      running.insert(running.end(), admitted.begin(), admitted.end());
    }
  });
  CHECK(holds);
  CHECK(moves > 0);
}

}  // namespace muster::engine
