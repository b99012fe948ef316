// What is seen of machines: room by flavor, quota that no node can serve, and causes why gangs do not fit. All numbers
// are worked out by hand from the nodes of each case.
#include <catch2/catch.hpp>

#include "on_machines.h"

namespace muster::engine {

namespace {

using Uids = std::vector<std::string>;

constexpr const char* kGpu = "nvidia.com/gpu";

gang::Node GpuNode(const std::string& name, const std::string& pool, int64_t gpus, int64_t pods = 100) {
  gang::Node node = PoolNode(name, pool, 100'000, pods);
  node.allocatable[kGpu] = Amount{gpus};
  return node;
}

ResourceGroup GpuGroup(const std::vector<std::string>& flavors, int64_t gpus) {
  ResourceGroup group{{kGpu, "cpu"}, {}};
  for (const std::string& flavor : flavors) {
    group.flavors.push_back(
        {flavor,
         {{kGpu, Amount{gpus}, std::nullopt, std::nullopt}, {"cpu", Amount{10'000}, std::nullopt, std::nullopt}}});
  }
  return group;
}

ClusterQueue GpuQueue(const std::string& name, const std::vector<std::string>& flavors, int64_t gpus) {
  ClusterQueue queue = CpuQueue(name, "", 0);
  queue.resource_groups = {GpuGroup(flavors, gpus)};
  return queue;
}

Workload GpuGang(const std::string& uid, const std::string& queue, int32_t pods, int64_t gpus, int32_t priority = 0) {
  gang::Shape shape;
  shape.requests[kGpu] = Amount{gpus};
  Workload workload = Gang(uid, queue, pods, 1, priority);
  workload.pod_sets[0].shape = std::make_shared<const gang::Shape>(shape);
  return workload;
}

FlavorRoomView RoomOf(const EngineSet& engine, const std::string& flavor, const std::string& resource) {
  for (FlavorRoomView& view : engine.ViewFlavorRoom()) {
    if (view.flavor == flavor && view.resource == resource) return view;
  }
  FAIL(flavor << " " << resource);
  return {};
}

std::string Told(const UnservedQuota& of) {
  return of.cluster_queue + of.cohort + " " + of.field + " " + of.flavor + " " + of.resource + " " +
         std::to_string(of.nominal.value) + " of " + std::to_string(of.allocatable.value) + " on " +
         std::to_string(of.nodes);
}

Uids Unserved(const EngineSet& engine) {
  Uids out;
  for (const UnservedQuota& of : *engine.UnservedQuotas()) out.push_back(Told(of));
  return out;
}

Uids Failures(const EngineSet& engine) {
  Uids out;
  for (const FitFailures& of : engine.ViewFitFailures()) {
    out.push_back(of.flavor + " " + std::string(Name(of.cause)) + " " + of.resource + " " + std::to_string(of.count));
  }
  return out;
}

}  // namespace

TEST_CASE("the room of a flavor is what gangs could take of its nodes now") {
  OnMachines cluster;
  ResourceFlavor flavor = Pool("a");
  flavor.node_taints = {{"dedicated", "gangs", "NoSchedule"}};
  cluster.Apply(FlavorChanged{flavor});
  cluster.AddQueue(GpuQueue("q", {"a"}, 40));
  Cohort cohort;
  cohort.name = "team";
  cohort.resource_groups = {GpuGroup({"a"}, 6)};
  cluster.Apply(CohortChanged{cohort});
  cluster.Apply(NodeChanged{GpuNode("n1", "a", 8)});
  cluster.Apply(NodeChanged{GpuNode("n2", "a", 8)});
  gang::Node cordoned = GpuNode("n3", "a", 8);
  cordoned.unschedulable = true;
  cluster.Apply(NodeChanged{cordoned});
  gang::Node broken = GpuNode("n4", "a", 8);
  broken.taints = {{"gpu", "broken", "NoSchedule"}};
  cluster.Apply(NodeChanged{broken});
  gang::Node dedicated = GpuNode("n5", "a", 8, 1);
  dedicated.taints = {{"dedicated", "gangs", "NoSchedule"}};
  cluster.Apply(NodeChanged{dedicated});
  cluster.Apply(NodeChanged{GpuNode("other", "b", 8)});
  cluster.Apply(PodPlaced{"ns/stranger", "n2", {{kGpu, Amount{2}}}});
  // Only n1 has seven, for who tolerates nothing and with the stranger on n2.
  Workload workload = GpuGang("w", "q", 1, 7);
  gang::Shape shape = *workload.pod_sets[0].shape;
  shape.tolerations = {{"dedicated", "Exists", "", "", false, 0}};
  SECTION("who tolerates the flavor's taint gets that node") {
    cluster.Apply(NodeDeleted{"n1"});
    workload.pod_sets[0].shape = std::make_shared<const gang::Shape>(shape);
    cluster.Submit(workload);
    CHECK(cluster.Run() == Uids{"w"});
    const FlavorRoomView gpus = RoomOf(cluster.engine, "a", kGpu);
    // n2 has 6, and n5 one without a pod slot for it.
    CHECK(gpus.free == Amount{7});
    CHECK(gpus.pods == std::vector<int64_t>{6, 3, 1, 0, 0});
    return;
  }
  cluster.Submit(workload);
  CHECK(cluster.Run() == Uids{"w"});
  const FlavorRoomView gpus = RoomOf(cluster.engine, "a", kGpu);
  CHECK(gpus.nodes == 5);
  CHECK(gpus.nominal == Amount{46});
  CHECK(gpus.allocatable == Amount{40});
  // 1 on n1, 6 on n2, 8 on n5.
  CHECK(gpus.free == Amount{15});
  CHECK(gpus.largest_free == Amount{8});
  // n5 has one pod slot: 1 + 6 + 1 single ones, 3 + 1 of two, 1 + 1 of four, 1 of eight.
  CHECK(gpus.pods == std::vector<int64_t>{8, 4, 2, 1, 0});
  const FlavorRoomView cpu = RoomOf(cluster.engine, "a", "cpu");
  CHECK(cpu.free == Amount{300'000});
  CHECK(cpu.largest_free == Amount{100'000});
  CHECK(cpu.allocatable == Amount{500'000});
  CHECK(cpu.pods.empty());
  // Of b nobody has quota.
  CHECK(cluster.engine.ViewFlavorRoom().size() == 2);

  // All that is told goes with the flavor, with the quota, and with the last node.
  SECTION("flavor") { cluster.Apply(FlavorDeleted{"a"}); }
  SECTION("quota") {
    cluster.Apply(CohortDeleted{"team"});
    cluster.Apply(ClusterQueueDeleted{"q"});
  }
  SECTION("nodes") {
    for (const char* node : {"n1", "n2", "n3", "n4", "n5", "other"}) cluster.Apply(NodeDeleted{node});
  }
  CHECK(cluster.engine.ViewFlavorRoom().empty());
}

TEST_CASE("what others leave is not free before they have left, and what is kept is nobody's") {
  OnMachines cluster;
  ClusterQueue queue = GpuQueue("q", {"a"}, 40);
  queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
  cluster.AddQueue(queue);
  cluster.Apply(NodeChanged{GpuNode("n1", "a", 8)});
  cluster.Submit(GpuGang("low", "q", 1, 2));
  CHECK(cluster.Run() == Uids{"low"});
  const auto free = [&] { return RoomOf(cluster.engine, "a", kGpu).free; };
  CHECK(free() == Amount{6});
  cluster.Submit(GpuGang("high", "q", 1, 7, 1));
  CHECK(cluster.Run().empty());
  REQUIRE(cluster.Preempted() == Uids{"low for high"});
  // Of the six one is left beside the seven that are kept, of which two are still held.
  CHECK(free() == Amount{1});
  cluster.LeaveAll();
  CHECK(cluster.Run() == Uids{"high"});
  CHECK(free() == Amount{1});
}

TEST_CASE("nothing is told of machines that are not looked at") {
  Cluster cluster;
  cluster.Apply(FlavorChanged{Pool("a")});
  cluster.AddQueue(GpuQueue("q", {"a"}, 40));
  cluster.Apply(NodeChanged{GpuNode("n1", "a", 8)});
  CHECK(cluster.engine.ViewFlavorRoom().empty());
  CHECK(cluster.engine.UnservedQuotas()->empty());
}

TEST_CASE("quota that the nodes of a flavor could not serve is told with its field") {
  EngineOptions options = WithMachines();
  options.derived_resources = {"credits"};
  OnMachines cluster(options);
  ResourceFlavor autoscaled = Pool("later");
  autoscaled.autoscaled = true;
  cluster.Apply(FlavorChanged{autoscaled});
  ClusterQueue queue = GpuQueue("q", {"a", "later", "b"}, 16);
  queue.resource_groups.insert(queue.resource_groups.begin(), ResourceGroup{{"memory", "credits"}, {}});
  queue.resource_groups[0].flavors.push_back(
      {"a",
       {{"memory", Amount{1}, std::nullopt, std::nullopt}, {"credits", Amount{1'000}, std::nullopt, std::nullopt}}});
  cluster.AddQueue(queue);
  Cohort cohort;
  cohort.name = "team";
  cohort.resource_groups = {GpuGroup({"a"}, 17)};
  cluster.Apply(CohortChanged{cohort});
  // Nothing is known of any machine.
  CHECK(Unserved(cluster.engine).empty());

  cluster.Apply(NodeChanged{GpuNode("n1", "a", 8)});
  cluster.Apply(NodeChanged{GpuNode("n2", "a", 7)});
  const Uids of_b = {"q spec.resourceGroups[1].flavors[2].resources[0].nominalQuota b nvidia.com/gpu 16 of 0 on 0",
                     "q spec.resourceGroups[1].flavors[2].resources[1].nominalQuota b cpu 10000 of 0 on 0"};
  const std::string memory = "q spec.resourceGroups[0].flavors[0].resources[0].nominalQuota a memory 1 of 0 on 2";
  CHECK(Unserved(cluster.engine) ==
        Uids{memory, "q spec.resourceGroups[1].flavors[0].resources[0].nominalQuota a nvidia.com/gpu 16 of 15 on 2",
             of_b[0], of_b[1],
             "team spec.resourceGroups[0].flavors[0].resources[0].nominalQuota a nvidia.com/gpu 17 of 15 on 2"});

  // What is on nodes, and whether they take pods, is no matter of it; nothing is counted again for that.
  const auto told = cluster.engine.UnservedQuotas();
  gang::Node closed = GpuNode("n2", "a", 7);
  closed.ready = false;
  closed.unschedulable = true;
  cluster.Apply(NodeChanged{closed});
  cluster.Apply(PodPlaced{"ns/stranger", "n1", {{kGpu, Amount{2}}}});
  CHECK(cluster.engine.UnservedQuotas() == told);

  // The device that was lost is back; then another is.
  closed.allocatable[kGpu] = Amount{8};
  closed.allocatable["memory"] = Amount{5};
  cluster.Apply(NodeChanged{closed});
  CHECK(Unserved(cluster.engine) ==
        Uids{of_b[0], of_b[1],
             "team spec.resourceGroups[0].flavors[0].resources[0].nominalQuota a nvidia.com/gpu 17 of 16 on 2"});
  cluster.Apply(NodeChanged{GpuNode("n3", "b", 16)});
  cluster.Apply(CohortDeleted{"team"});
  CHECK(Unserved(cluster.engine).empty());
  cluster.Apply(NodeDeleted{"n3"});
  CHECK(Unserved(cluster.engine) == of_b);
  cluster.Apply(ClusterQueueDeleted{"q"});
  CHECK(Unserved(cluster.engine).empty());
}

TEST_CASE("attempts that end without places are counted by what is in the way") {
  OnMachines cluster;
  cluster.AddQueue(GpuQueue("q", {"a"}, 40));
  gang::Node node = GpuNode("n1", "a", 8, 3);
  Workload workload = GpuGang("w", "q", 2, 4);
  gang::Shape shape = *workload.pod_sets[0].shape;
  std::string failure;
  SECTION("none") {}
  SECTION("devices") {
    shape.requests[kGpu] = Amount{5};
    failure = "a Resource nvidia.com/gpu 1";
  }
  SECTION("pods a node") {
    shape.requests[kGpu] = Amount{1};
    workload.pod_sets[0].count = 4;
    failure = "a PodsPerNode  1";
  }
  SECTION("labels of the flavor") {
    node.labels["pool"] = "b";
    failure = "a Node  1";
  }
  SECTION("selector") {
    shape.node_selector["zone"] = "z1";
    failure = "a NodeSelector  1";
  }
  SECTION("affinity") {
    shape.required_affinity.push_back({{{"zone", Requirement::Operator::kExists, {}}}, {}});
    failure = "a NodeAffinity  1";
  }
  SECTION("taint") {
    node.taints.push_back({"gpu", "broken", "NoSchedule"});
    failure = "a Taint  1";
  }
  SECTION("cordon") {
    node.unschedulable = true;
    failure = "a Unschedulable  1";
  }
  SECTION("not ready, and its taint is tolerated") {
    node.ready = false;
    node.taints.push_back({"gpu", "broken", "NoSchedule"});
    shape.tolerations.push_back({"gpu", "Exists", "", "", false, 0});
    failure = "a Unschedulable  1";
  }
  SECTION("of several nodes, that is told which comes furthest") {
    gang::Node other = GpuNode("n2", "a", 8);
    other.labels["zone"] = "z1";
    other.unschedulable = true;
    cluster.Apply(NodeChanged{other});
    shape.node_selector["zone"] = "z1";
    failure = "a Unschedulable  1";
  }
  cluster.Apply(NodeChanged{node});
  workload.pod_sets[0].shape = std::make_shared<const gang::Shape>(shape);
  cluster.Submit(workload);
  CHECK(cluster.Run() == (failure.empty() ? Uids{"w"} : Uids{}));
  CHECK(Failures(cluster.engine) == (failure.empty() ? Uids{} : Uids{failure}));
}

TEST_CASE("an attempt counts once for each flavor and cause, and all goes with the flavor") {
  OnMachines cluster;
  cluster.AddQueue(GpuQueue("q", {"a", "b"}, 40));
  cluster.Apply(NodeChanged{GpuNode("n1", "a", 8)});
  cluster.Apply(NodeChanged{GpuNode("n2", "b", 8)});
  cluster.Submit(GpuGang("w", "q", 2, 8));
  CHECK(cluster.Run().empty());
  CHECK(Failures(cluster.engine) == Uids{"a Resource nvidia.com/gpu 1", "b Resource nvidia.com/gpu 1"});
  // At rest nobody tries; with more room somebody does.
  CHECK(cluster.Run().empty());
  CHECK(Failures(cluster.engine).at(0) == "a Resource nvidia.com/gpu 1");
  cluster.Apply(NodeChanged{GpuNode("n3", "a", 4)});
  CHECK(cluster.Run().empty());
  CHECK(Failures(cluster.engine) == Uids{"a Resource nvidia.com/gpu 2", "b Resource nvidia.com/gpu 2"});
  cluster.Apply(FlavorDeleted{"a"});
  CHECK(Failures(cluster.engine) == Uids{"b Resource nvidia.com/gpu 2"});
}

}  // namespace muster::engine
