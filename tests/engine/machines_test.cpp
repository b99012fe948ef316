// Gangs on machines: who starts where, who waits for a node, and what is held meanwhile. All numbers are worked out by
// hand from the nodes of each case.
#include <catch2/catch.hpp>

#include "on_machines.h"

namespace muster::engine {

namespace {

using Uids = std::vector<std::string>;
using Place = WorkloadView::Place;

}  // namespace

// user_pains K: the sum fits, but no node does.
TEST_CASE("a gang whose sum fits waits where no node has room for one of its pods") {
  OnMachines cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  for (const char* name : {"n1", "n2", "n3"}) cluster.AddNode(name, "a", 6);
  cluster.AddNode("n4", "a", 8);
  cluster.Submit(Big("w", "q", 3, 8));
  CHECK(cluster.Run().empty());
  CHECK(cluster.PlaceOf("w") == Place::kParked);
  const Obstacle obstacle = cluster.ObstacleOf("w");
  CHECK(obstacle.kind == ObstacleKind::kNoRoom);
  CHECK(obstacle.flavor == "a");
  // One pod has n4; then the three others have 6 each.
  CHECK(obstacle.machines == Problem(1, 3, 8, 6, "n1"));
  CHECK(cluster.engine.ViewWorkload("w")->reason.code == ReasonCode::kTopologyPlacementFailed);
  // It holds nothing: another takes the node that it would have.
  cluster.Submit(Big("other", "q", 1, 8, 2));
  CHECK(cluster.Run() == Uids{"other"});
  // One node more is not enough, and two are, with the one that comes free.
  cluster.AddNode("n5", "a", 8);
  cluster.AddNode("n6", "a", 8);
  CHECK(cluster.Run().empty());
  CHECK(cluster.ObstacleOf("w").machines == Problem(2, 3, 8, 6, "n1"));
  cluster.Finish("other");
  CHECK(cluster.Run() == Uids{"w"});
}

TEST_CASE("a flavor with quota and without room is passed over") {
  OnMachines cluster;
  ClusterQueue queue = PoolQueue("q", {"a", "b"});
  cluster.AddNode("n1", "a", 4);
  cluster.AddNode("n2", "b", 8);
  const bool stop = GENERATE(false, true);
  CAPTURE(stop);
  if (stop) queue.when_can_preempt = FungibilityPolicy::kMayStopSearch;
  cluster.AddQueue(queue);
  cluster.Submit(Big("first", "q", 1, 3, 1));
  cluster.Submit(Big("second", "q", 2, 3, 2));
  cluster.Submit(Big("third", "q", 2, 2, 3));
  CHECK(cluster.Run() == Uids{"first", "second"});
  CHECK(cluster.FlavorOf("first") == "a");
  CHECK(cluster.FlavorOf("second") == "b");
  // n1 has 1 left, n2 has 2.
  const Reason reason = cluster.engine.ViewWorkload("third")->reason;
  REQUIRE(reason.obstacles.size() == 2);
  CHECK(reason.obstacles[0].machines == Problem(0, 2, 2, 1, "n1"));
  CHECK(reason.obstacles[1].machines == Problem(1, 2, 2, 0, "n2"));
}

TEST_CASE("pod sets of one gang share machines, and all of them have places or none") {
  OnMachines cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.AddNode("n1", "a", 8);
  cluster.AddNode("n2", "a", 4);
  Workload workload = Big("w", "q", 1, 5);
  workload.pod_sets.push_back(workload.pod_sets[0]);
  workload.pod_sets[1].name = "workers";
  workload.pod_sets[1].count = 2;
  workload.pod_sets[1].shape = CpuShape(4);
  cluster.Submit(workload);
  // Each alone has places: the first on n1; both of the second on n1, or one on n2.
  CHECK(cluster.Run().empty());
  const Obstacle obstacle = cluster.ObstacleOf("w");
  CHECK(obstacle.pod_set == "workers");
  CHECK(obstacle.machines == Problem(1, 2, 4, 3, "n1"));
  cluster.AddNode("n3", "a", 4);
  CHECK(cluster.Run() == Uids{"w"});
}

TEST_CASE("one node in two flavors is one machine") {
  OnMachines cluster;
  cluster.Apply(FlavorChanged{ResourceFlavor{"all", {}, {}, {}, ""}});
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.AddQueue(PoolQueue("r", {"all"}));
  cluster.AddNode("n1", "a", 8);
  cluster.Submit(Big("one", "q", 1, 5, 1));
  cluster.Submit(Big("two", "r", 1, 5, 2));
  CHECK(cluster.Run() == Uids{"one"});
  CHECK(cluster.ObstacleOf("two").machines == Problem(0, 1, 5, 3, "n1"));
  // And what the one gives back, the other gains.
  cluster.Finish("one");
  CHECK(cluster.Run() == Uids{"two"});
}

TEST_CASE("selector, required affinity, taints, cordons, readiness and pod slots keep pods away") {
  OnMachines cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  gang::Node node = PoolNode("n1", "a", 8, 2);
  gang::Shape shape;
  shape.requests["cpu"] = Amount{1};
  int32_t pods = 1;
  bool fits = false;
  SECTION("nothing in the way") { fits = true; }
  SECTION("selector") { shape.node_selector["zone"] = "z1"; }
  SECTION("selector that matches") {
    shape.node_selector["zone"] = node.labels["zone"] = "z1";
    fits = true;
  }
  SECTION("affinity") { shape.required_affinity.push_back({{{"zone", Requirement::Operator::kExists, {}}}, {}}); }
  SECTION("affinity to names") {
    shape.required_affinity.push_back({{}, {{"metadata.name", Requirement::Operator::kIn, {"n1"}}}});
    fits = true;
  }
  SECTION("affinity to other names") {
    shape.required_affinity.push_back({{}, {{"metadata.name", Requirement::Operator::kIn, {"n2"}}}});
  }
  SECTION("taint") { node.taints.push_back({"gpu", "yes", "NoSchedule"}); }
  SECTION("taint that is only a wish") {
    node.taints.push_back({"gpu", "yes", "PreferNoSchedule"});
    fits = true;
  }
  SECTION("tolerated by the pod") {
    node.taints.push_back({"gpu", "yes", "NoSchedule"});
    shape.tolerations.push_back({"gpu", "Exists", "", "", false, 0});
    fits = true;
  }
  SECTION("tolerated by the flavor") {
    node.taints.push_back({"gpu", "yes", "NoSchedule"});
    ResourceFlavor flavor = Pool("a");
    flavor.tolerations.push_back({"gpu", "Exists", "", "", false, 0});
    cluster.Apply(FlavorChanged{flavor});
    fits = true;
  }
  SECTION("cordoned") { node.unschedulable = true; }
  SECTION("not ready") { node.ready = false; }
  SECTION("pod slots") { pods = 3; }
  SECTION("a resource that no node has") {
    shape.node_requests = shape.requests;
    shape.node_requests->emplace("nvidia.com/gpu", Amount{1});
  }
  cluster.Apply(NodeChanged{node});
  Workload workload = Gang("w", "q", pods);
  workload.pod_sets[0].shape = std::make_shared<const gang::Shape>(shape);
  cluster.Submit(workload);
  CHECK(cluster.Run() == (fits ? Uids{"w"} : Uids{}));
}

TEST_CASE("strangers' pods take room, and give it back when they go") {
  OnMachines cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.Apply(PodPlaced{"ns/early", "n1", {{"cpu", Amount{3}}}});  // before its node
  cluster.AddNode("n1", "a", 8);
  cluster.Apply(PodPlaced{"ns/late", "n1", {{"cpu", Amount{2}}}});
  cluster.Submit(Big("w", "q", 1, 6));
  CHECK(cluster.Run().empty());
  CHECK(cluster.ObstacleOf("w").machines == Problem(0, 1, 6, 3, "n1"));
  cluster.Apply(PodGone{"ns/late"});
  CHECK(cluster.Run().empty());
  CHECK(cluster.ObstacleOf("w").machines == Problem(0, 1, 6, 5, "n1"));
  cluster.Apply(PodGone{"ns/early"});
  CHECK(cluster.Run() == Uids{"w"});
}

TEST_CASE("machines are not looked at for autoscaled flavors, nor while no flavor has a node") {
  OnMachines cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.Submit(Big("unknown", "q", 1, 50));
  CHECK(cluster.Run() == Uids{"unknown"});
  // Any node of any flavor, and a flavor without one has no room.
  cluster.AddNode("n1", "b", 8);
  cluster.Submit(Big("w", "q", 1, 5, 2));
  CHECK(cluster.Run().empty());
  CHECK(cluster.ObstacleOf("w").machines == gang::RoomProblem{0, 1, "", {}, {}, "", true, gang::RoomLack::kNode});
  ResourceFlavor flavor = Pool("a");
  flavor.autoscaled = true;
  cluster.Apply(FlavorChanged{flavor});
  CHECK(cluster.Run() == Uids{"w"});
  cluster.Apply(FlavorChanged{Pool("a")});
  cluster.Submit(Big("x", "q", 1, 5, 3));
  CHECK(cluster.Run().empty());
  cluster.Apply(NodeDeleted{"n1"});
  CHECK(cluster.Run() == Uids{"x"});
}

TEST_CASE("the oldest goes first for a node that comes, across trees") {
  OnMachines cluster;
  for (const char* name : {"q", "r", "s"}) cluster.AddQueue(PoolQueue(name, {"a"}));
  cluster.AddNode("n1", "a", 1);
  cluster.Submit(Big("young", "q", 1, 4, 3));
  cluster.Submit(Big("old", "r", 1, 4, 1));
  cluster.Submit(Big("urgent", "s", 1, 4, 4, 10));
  CHECK(cluster.Run().empty());
  // At rest nothing is looked at.
  CHECK_FALSE(cluster.engine.RunPass(At(101)).more);
  cluster.AddNode("n2", "a", 4);
  CHECK(cluster.Run() == Uids{"urgent"});
  cluster.AddNode("n3", "a", 4);
  CHECK(cluster.Run() == Uids{"old"});
  cluster.AddNode("n4", "a", 4);
  CHECK(cluster.Run() == Uids{"young"});
}

TEST_CASE("each admission reserves its places, as one change of the book") {
  OnMachines cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  for (int i = 0; i < 100; ++i) cluster.AddNode("n" + std::to_string(i), "a", 4);
  CHECK(cluster.Run().empty());
  const gang::RoomCounts before = cluster.engine.MachineCounts();
  CHECK(before.nodes == 100);
  CHECK(before.commits == 1);  // all nodes at once
  CHECK(before.reservations == 0);
  size_t admitted = 0;
  for (int i = 0; i < 30; ++i) cluster.Submit(Big("w" + std::to_string(i), "q", 4, 3, i));
  admitted += cluster.Run().size();
  CHECK(admitted == 25);  // of four nodes each
  const gang::RoomCounts after = cluster.engine.MachineCounts();
  CHECK(after.reservations == admitted);
  CHECK(after.commits - before.commits == admitted);
  cluster.Finish("w0");
  CHECK(cluster.Run().size() == 1);
  // What was given back, and the next reservation.
  CHECK(cluster.engine.MachineCounts().commits - after.commits == 2);
  CHECK(cluster.engine.MachineCounts().reservations == admitted + 1);
}

namespace {

void CheckTaken(const Cluster& cluster, uint64_t reservations, uint64_t kept) {
  CHECK(cluster.engine.MachineCounts().reservations == reservations);
  CHECK(cluster.engine.MachineCounts().kept == kept);
}

}  // namespace

TEST_CASE("reservations are counted by decisions: of starts, refused ones too, and of growth; kept rooms apart") {
  OnMachines cluster;
  ClusterQueue queue = PoolQueue("q", {"a"});
  queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
  cluster.AddQueue(queue);
  cluster.AddNode("n1", "a", 4);
  cluster.AddNode("n2", "a", 4);
  Workload elastic = Big("e", "q", 2, 2);
  elastic.elastic = true;
  cluster.Submit(elastic);
  CHECK(cluster.Run() == Uids{"e"});
  CheckTaken(cluster, 1, 0);
  elastic.pod_sets[0].count = 3;
  ++elastic.generation;
  cluster.Submit(elastic);
  CHECK(cluster.Run() == Uids{"e+"});
  CheckTaken(cluster, 2, 0);
  // There is room for one pod more, not for two.
  elastic.pod_sets[0].count = 5;
  ++elastic.generation;
  cluster.Submit(elastic);
  CHECK(cluster.Run().empty());
  CheckTaken(cluster, 2, 0);

  // That one is somebody's whose start is refused, and decided again.
  cluster.Submit(Big("r", "q", 1, 2, 2));
  cluster.last = cluster.engine.Decide(At(101));
  REQUIRE(cluster.last.size() == 1);
  cluster.Apply(ClaimRefused{"r", std::get<Admit>(cluster.last[0]).claim, {}, ""});
  CHECK(cluster.Run(At(102)) == Uids{"r"});
  CheckTaken(cluster, 4, 0);

  // Room is kept for whom r leaves, and becomes its own later.
  cluster.Submit(Big("urgent", "q", 1, 2, 3, 10));
  CHECK(cluster.Run(At(103)).empty());
  CHECK(cluster.Preempted() == Uids{"r for urgent"});
  CheckTaken(cluster, 4, 1);
  cluster.Leave("r");
  CHECK(cluster.Run(At(104)) == Uids{"urgent"});
  CheckTaken(cluster, 5, 1);
}

TEST_CASE("what an admission took that others' pods kept back is not counted, and without machines nothing is") {
  EngineOptions options = WithMachines();
  options.block_admission = true;
  OnMachines cluster(options);
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.AddNode("n1", "a", 4);
  cluster.Submit(Big("first", "q", 1, 1, 1));
  cluster.Submit(Big("second", "q", 1, 1, 2));
  CHECK(cluster.Run() == Uids{"first"});
  CheckTaken(cluster, 1, 0);
  cluster.Submit(Big("third", "q", 1, 1, 3));
  CHECK(cluster.Run().empty());
  CheckTaken(cluster, 1, 0);
  cluster.Apply(ClaimPodsReady{"first", cluster.claims.at("first"), true});
  CHECK(cluster.Run() == Uids{"second"});
  CheckTaken(cluster, 2, 0);

  OnMachines unchecked{EngineOptions{}};
  unchecked.AddQueue(PoolQueue("q", {"a"}));
  unchecked.AddNode("n1", "a", 4);
  unchecked.Submit(Big("first", "q", 1, 1, 1));
  CHECK(unchecked.Run() == Uids{"first"});
  CheckTaken(unchecked, 0, 0);
}

TEST_CASE("partial admission takes as many pods as have places") {
  OnMachines cluster;
  cluster.AddQueue(PoolQueue("q", {"a"}));
  cluster.AddNode("n1", "a", 8);
  Workload workload = Big("w", "q", 10, 3);
  workload.pod_sets[0].min_count = 1;
  cluster.Submit(workload);
  CHECK(cluster.Run() == Uids{"w"});
  CHECK(cluster.engine.ViewWorkload("w")->admission.pod_sets[0].count == 2);
}

}  // namespace muster::engine
