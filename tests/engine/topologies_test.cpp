// Flavors with a topology in the engine: who gets which place, who waits for one, and who goes for one. Places are
// worked out by hand from kueue_semantics 9.9.
#include <catch2/catch.hpp>

#include "cluster.h"

namespace muster::engine {

namespace {

using Uids = std::vector<std::string>;

gang::Node Machine(const std::string& name, const std::string& rack, int64_t cpu) {
  gang::Node node;
  node.name = name;
  node.labels = {{"pool", "t"}, {"rack", rack}, {std::string(gang::kHostnameLabel), name}};
  node.ready = true;
  node.allocatable = {{"cpu", Amount{cpu}}, {"pods", Amount{100}}};
  return node;
}

ResourceFlavor WithTopology(const std::string& name) { return {name, {{"pool", "t"}}, {}, {}, "topo"}; }

Workload Placed(Workload workload, const std::string& required) {
  workload.pod_sets[0].topology.required = required;
  return workload;
}

// Racks r1 {n1: 4 cpu, n2: 4} and r2 {n3: 6}; flavor `t` has them. Quota is ample.
class Machines : public Cluster {
 public:
  explicit Machines(EngineOptions options = {}) : Cluster(options) {
    Apply(TopologyChanged{{"topo", {"rack", std::string(gang::kHostnameLabel)}}});
    Apply(FlavorChanged{WithTopology("t")});
    Apply(NodeChanged{Machine("n1", "r1", 4)});
    Apply(NodeChanged{Machine("n2", "r1", 4)});
    Apply(NodeChanged{Machine("n3", "r2", 6)});
  }
  static ClusterQueue Queue(const std::string& name, const std::vector<std::string>& flavors = {"t"},
                            const std::string& cohort = "") {
    ClusterQueue queue = CpuQueue(name, cohort, 100);
    queue.resource_groups[0].flavors.clear();
    for (const std::string& flavor : flavors) {
      queue.resource_groups[0].flavors.push_back(
          FlavorQuotas{flavor, {ResourceQuota{"cpu", Amount{100}, std::nullopt, std::nullopt}}});
    }
    return queue;
  }
  // "n1:4 n2:1"; empty where it has no place.
  std::string Where(const std::string& uid) const {
    const std::optional<gang::TopologyAssignment> topology =
        engine.ViewWorkload(uid)->admission.pod_sets.at(0).topology;
    std::string text;
    if (!topology.has_value()) return text;
    for (const gang::TopologyDomain& domain : topology->domains) {
      text += (text.empty() ? "" : " ") + domain.values.back() + ":" + std::to_string(domain.count);
    }
    return text;
  }
};

}  // namespace

TEST_CASE("a gang gets its places in one rack, and its like waits until there is one") {
  Machines cluster;
  cluster.AddQueue(Machines::Queue("q"));
  cluster.Submit(Placed(Gang("a", "q", 7, 1), "rack"));
  cluster.Submit(Placed(Gang("b", "q", 7, 2), "rack"));
  CHECK(cluster.Run() == Uids{"a"});
  CHECK(cluster.Where("a") == "n1:4 n2:3");
  const std::optional<Reason> reason = cluster.HoldOf("b");
  REQUIRE(reason.has_value());
  // Others' places are in the way: without them there would be room.
  CHECK(reason->code == ReasonCode::kWaitingForQuota);
  CHECK(WaitCodeOf(*reason) == WaitCode::kNoPlacement);
  const Obstacle* obstacle = DecisiveObstacle(*reason);
  REQUIRE(obstacle != nullptr);
  REQUIRE(obstacle->placement.has_value());
  CHECK(obstacle->flavor == "t");
  CHECK(obstacle->placement->fit == 6);
  CHECK(obstacle->placement->wanted == 7);
  CHECK(obstacle->placement->exclusions.resources == std::map<std::string, int64_t, std::less<>>{{"cpu", 1}});
  // One more node in the other rack.
  cluster.Apply(NodeChanged{Machine("n4", "r2", 1)});
  CHECK(cluster.Run() == Uids{"b"});
  CHECK(cluster.Where("b") == "n3:6 n4:1");
}

TEST_CASE("a gang for which there is no place even in an empty cluster") {
  Machines cluster;
  cluster.AddQueue(Machines::Queue("q"));
  cluster.Submit(Placed(Gang("a", "q", 9), "rack"));
  CHECK(cluster.Run().empty());
  REQUIRE(cluster.HoldOf("a").has_value());
  CHECK(cluster.HoldOf("a")->code == ReasonCode::kTopologyPlacementFailed);
}

TEST_CASE("where all flavors have a topology, whoever asks for none is placed all the same") {
  Machines cluster;
  cluster.AddQueue(Machines::Queue("q"));
  cluster.Submit(Gang("a", "q", 5));
  CHECK(cluster.Run() == Uids{"a"});
  CHECK(cluster.Where("a") == "n3:5");
}

TEST_CASE("who asks for a topology gets a flavor with one, and who does not, one without") {
  Machines cluster;
  cluster.AddQueue(Machines::Queue("q", {"t", "f"}));
  cluster.Submit(Gang("plain", "q", 1, 1));
  cluster.Submit(Placed(Gang("placed", "q", 1, 2), "rack"));
  cluster.Submit(Placed(Gang("nowhere", "q", 1, 3), "zone"));
  CHECK(cluster.Run() == Uids{"plain", "placed"});
  CHECK(cluster.Where("plain").empty());
  CHECK(cluster.engine.ViewWorkload("plain")->admission.pod_sets[0].flavors[0].second == "f");
  CHECK(cluster.Where("placed") == "n3:1");
  const std::optional<Reason> reason = cluster.HoldOf("nowhere");
  REQUIRE(reason.has_value());
  CHECK(reason->code == ReasonCode::kNoMatchingFlavor);
  REQUIRE(reason->obstacles.size() == 2);
  CHECK(reason->obstacles[0].kind == ObstacleKind::kTopologyLevelMissing);
  CHECK(reason->obstacles[1].kind == ObstacleKind::kFlavorWithoutTopology);
}

TEST_CASE("a topology that is not known keeps the queues of its flavors inactive") {
  Machines cluster;
  cluster.AddQueue(Machines::Queue("q"));
  CHECK(cluster.engine.ViewClusterQueue("q").active);
  cluster.Apply(TopologyDeleted{"topo"});
  CHECK_FALSE(cluster.engine.ViewClusterQueue("q").active);
}

TEST_CASE("pod sets get their places in the flavors that each was given") {
  Machines cluster;
  gang::Node gpu = Machine("g1", "r3", 8);
  gpu.labels["pool"] = "g";
  cluster.Apply(NodeChanged{gpu});
  cluster.Apply(FlavorChanged{ResourceFlavor{"g", {{"pool", "g"}}, {}, {}, "topo"}});
  cluster.AddQueue(Machines::Queue("q", {"t", "g"}));
  Workload workload = Placed(Gang("a", "q", 2), "rack");
  PodSet trainers = workload.pod_sets[0];
  trainers.name = "trainers";
  gang::Shape on_gpu_nodes = *trainers.shape;
  on_gpu_nodes.node_selector = {{"pool", "g"}};
  trainers.shape = std::make_shared<const gang::Shape>(std::move(on_gpu_nodes));
  workload.pod_sets.push_back(trainers);
  cluster.Submit(workload);
  CHECK(cluster.Run() == Uids{"a"});
  CHECK(cluster.Where("a") == "n3:2");
  const Admission admission = cluster.engine.ViewWorkload("a")->admission;
  REQUIRE(admission.pod_sets.size() == 2);
  CHECK(admission.pod_sets[1].flavors[0].second == "g");
  REQUIRE(admission.pod_sets[1].topology.has_value());
  CHECK(admission.pod_sets[1].topology->domains == std::vector<gang::TopologyDomain>{gang::TopologyDomain{{"g1"}, 2}});
}

TEST_CASE("what a flavor gains is told to each of its queues, also beside one on a cycle of cohorts") {
  // In whatever order the queues of a flavor are gone through, the one on the cycle is not the last of them once.
  for (const std::string on_cycle : {"a", "b", "c"}) {
    const bool by_node = GENERATE(true, false);
    CAPTURE(on_cycle, by_node);
    Machines cluster;
    const ResourceFlavor plain{"f", {}, {}, {}, ""};
    ResourceFlavor tainted = plain;
    tainted.node_taints = {{"maintenance", "", "NoSchedule"}};
    cluster.Apply(FlavorChanged{tainted});
    Cohort cohort;
    cohort.name = cohort.parent = "loop";
    cluster.Apply(CohortChanged{cohort});
    Uids waiting;
    for (const std::string name : {"a", "b", "c"}) {
      cluster.AddQueue(Machines::Queue(name, {by_node ? "t" : "f"}, name == on_cycle ? "loop" : ""));
      if (name == on_cycle) continue;
      const Workload gang = Gang("of-" + name, name, 9);
      cluster.Submit(by_node ? Placed(gang, "rack") : gang);
      waiting.push_back("of-" + name);
    }
    CHECK(cluster.Run().empty());
    if (by_node) {
      cluster.Apply(NodeChanged{Machine("n4", "r2", 20)});
    } else {
      cluster.Apply(FlavorChanged{plain});
    }
    CHECK(cluster.Run() == waiting);
  }
}

TEST_CASE("nodes are shared by trees that share no quota, and nobody gets the same room in one pass") {
  Machines cluster;
  cluster.AddQueue(Machines::Queue("a"));
  cluster.AddQueue(Machines::Queue("b"));
  cluster.Submit(Placed(Gang("second", "a", 8, 2), "rack"));
  cluster.Submit(Placed(Gang("first", "b", 8, 1), "rack"));
  // Whoever came first goes first, whatever its queue is called.
  CHECK(cluster.Run() == Uids{"first"});
  cluster.Finish("first");
  CHECK(cluster.Run() == Uids{"second"});
}

TEST_CASE("who loses its place to another tree is looked at again at once, and then who comes after it") {
  const auto strategy = GENERATE(QueueingStrategy::kStrictFIFO, QueueingStrategy::kBestEffortFIFO);
  EngineOptions options;
  options.machines = GENERATE(false, true);
  Machines cluster(options);
  ClusterQueue queue = Machines::Queue("a");
  queue.queueing_strategy = strategy;
  cluster.AddQueue(queue);
  cluster.AddQueue(Machines::Queue("b"));
  // Of both heads, r1 has room for one; of the third, r2 has.
  cluster.Submit(Placed(Gang("first", "b", 8, 1), "rack"));
  cluster.Submit(Placed(Gang("second", "a", 8, 2), "rack"));
  cluster.Submit(Placed(Gang("third", "a", 6, 3), "rack"));
  const bool strict = strategy == QueueingStrategy::kStrictFIFO;
  CHECK(cluster.Run() == (strict ? Uids{"first"} : Uids{"first", "third"}));
  REQUIRE(cluster.HoldOf("second").has_value());
  CHECK(WaitCodeOf(*cluster.HoldOf("second")) != WaitCode::kLostToAnother);
}

TEST_CASE("what a strict head keeps for itself in each pass, it keeps from other trees too") {
  Machines cluster;
  ClusterQueue strict = Machines::Queue("a");
  strict.queueing_strategy = QueueingStrategy::kStrictFIFO;
  cluster.AddQueue(strict);
  cluster.AddQueue(Machines::Queue("b"));
  cluster.Submit(Placed(Gang("runs", "b", 7, 1), "rack"));
  CHECK(cluster.Run() == Uids{"runs"});
  CHECK(cluster.Where("runs") == "n1:4 n2:3");
  // In an empty cluster it would have the same places, and nobody may be preempted for it.
  cluster.Submit(Placed(Gang("head", "a", 7, 2), "rack"));
  CHECK(cluster.Run().empty());
  // By now b's tree alone has anything new to look at. The tightest place would be the last one of n2.
  cluster.Submit(Placed(Gang("small", "b", 1, 3), "rack"));
  CHECK(cluster.Run() == Uids{"small"});
  CHECK(cluster.Where("small") == "n3:1");
  cluster.Finish("runs");
  CHECK(cluster.Run() == Uids{"head"});
  CHECK(cluster.Where("head") == "n1:4 n2:3");
}

TEST_CASE("a pod that nobody here stands for takes room, and its end is a gain") {
  Machines cluster;
  cluster.AddQueue(Machines::Queue("q"));
  cluster.Apply(PodPlaced{"ns/stranger", "n1", {{"cpu", Amount{1}}}});
  cluster.Submit(Placed(Gang("a", "q", 8), "rack"));
  CHECK(cluster.Run().empty());
  cluster.Apply(PodGone{"ns/stranger"});
  CHECK(cluster.Run() == Uids{"a"});
}

TEST_CASE("a pod of a gang with places takes nothing beside them, and one of a gang without does") {
  Machines cluster;
  cluster.AddQueue(Machines::Queue("q"));
  cluster.Submit(Placed(Gang("a", "q", 4), "rack"));
  CHECK(cluster.Run() == Uids{"a"});
  REQUIRE(cluster.Where("a") == "n3:4");
  cluster.Apply(PodPlaced{"ns/a-0", "n3", {{"cpu", Amount{1}}}, "a", "main"});
  cluster.Submit(Placed(Gang("b", "q", 2, 2), "rack"));
  CHECK(cluster.Run() == Uids{"b"});
  CHECK(cluster.Where("b") == "n3:2");
  // One that the claim knows nothing of, and one of a gang that nobody here admitted.
  cluster.Apply(PodPlaced{"ns/a-other", "n1", {{"cpu", Amount{1}}}, "a", "other"});
  cluster.Apply(PodPlaced{"ns/x-0", "n2", {{"cpu", Amount{1}}}, "x", "main"});
  cluster.Submit(Placed(Gang("c", "q", 7, 3), "rack"));
  CHECK(cluster.Run().empty());
  cluster.Submit(Placed(Gang("d", "q", 6, 4), "rack"));
  CHECK(cluster.Run() == Uids{"d"});
}

TEST_CASE("what an object shows as held counts, whatever comes first") {
  for (const bool nodes_first : {true, false}) {
    Cluster cluster;
    Workload held = Placed(Gang("a", "q", 8), "rack");
    held.held = HeldClaim{{7, 1}, ClaimState::kActive, {}, At(1)};
    held.held->admission.cluster_queue = "q";
    held.held->admission.pod_sets = {{"main", 8, {{"cpu", "t"}}, {{"cpu", Amount{8}}}}};
    held.held->admission.pod_sets[0].topology =
        gang::TopologyAssignment{{std::string(gang::kHostnameLabel)}, {{{"n1"}, 4}, {{"n2"}, 4}}};
    const auto machines = [&] {
      cluster.Apply(TopologyChanged{{"topo", {"rack", std::string(gang::kHostnameLabel)}}});
      cluster.Apply(FlavorChanged{WithTopology("t")});
      cluster.Apply(NodeChanged{Machine("n1", "r1", 4)});
      cluster.Apply(NodeChanged{Machine("n2", "r1", 4)});
      cluster.AddQueue(Machines::Queue("q"));
    };
    if (nodes_first) machines();
    cluster.Submit(held);
    if (!nodes_first) machines();
    cluster.Submit(Placed(Gang("b", "q", 1, 2), "rack"));
    CHECK(cluster.Run().empty());
    cluster.Apply(ClaimGone{"a", {7, 1}});
    CHECK(cluster.Run() == Uids{"a"});
  }
}

TEST_CASE("those go whose places are needed, though there is quota enough") {
  Machines cluster;
  ClusterQueue queue = Machines::Queue("q");
  queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
  cluster.AddQueue(queue);
  cluster.Submit(Placed(Gang("wide", "q", 8, 1, 0), "rack"));   // r1
  cluster.Submit(Placed(Gang("small", "q", 2, 2, 1), "rack"));  // r2
  REQUIRE(cluster.Run() == Uids{"small", "wide"});
  cluster.Submit(Placed(Gang("high", "q", 7, 3, 10), "rack"));
  CHECK(cluster.Run().empty());
  // Only r1 can hold 7.
  const std::vector<Evict> evictions = cluster.Evictions();
  REQUIRE(evictions.size() == 1);
  CHECK(evictions[0].uid == "wide");
  CHECK(evictions[0].preemptor_uid == "high");
  // The places are kept for it, though they are not free yet.
  cluster.Submit(Placed(Gang("late", "q", 1, 4, 0), std::string(gang::kHostnameLabel)));
  CHECK(cluster.Run() == Uids{"late"});
  CHECK(cluster.Where("late") == "n3:1");
  cluster.Apply(ClaimLeaving{"wide", cluster.claims["wide"]});
  cluster.Apply(ClaimGone{"wide", cluster.claims["wide"]});
  CHECK(cluster.Run() == Uids{"high"});
  CHECK(cluster.Where("high") == "n1:4 n2:3");
}

TEST_CASE("fewer pods where not all have a place, if the gang allows it") {
  Machines cluster;
  cluster.AddQueue(Machines::Queue("q"));
  Workload partial = Placed(Gang("a", "q", 12), "rack");
  partial.pod_sets[0].min_count = 4;
  cluster.Submit(partial);
  CHECK(cluster.Run() == Uids{"a"});
  CHECK(cluster.Where("a") == "n1:4 n2:4");
}

TEST_CASE("pod sets of one group get one flavor and one rack") {
  Machines cluster;
  cluster.AddQueue(Machines::Queue("q"));
  Workload workload = Placed(Gang("a", "q", 1), "rack");
  workload.pod_sets[0].name = "leader";
  workload.pod_sets[0].topology.group = "g";
  PodSet workers = workload.pod_sets[0];
  workers.name = "workers";
  workers.count = 7;
  workload.pod_sets.push_back(workers);
  cluster.Submit(workload);
  CHECK(cluster.Run() == Uids{"a"});
  const Admission admission = cluster.engine.ViewWorkload("a")->admission;
  REQUIRE(admission.pod_sets.size() == 2);
  CHECK(admission.pod_sets[0].usage[0].second == Amount{1});
  CHECK(admission.pod_sets[1].usage[0].second == Amount{7});
  int32_t pods = 0;
  for (const PodSetAssignment& pod_set : admission.pod_sets) {
    for (const gang::TopologyDomain& domain : pod_set.topology->domains) {
      CHECK((domain.values[0] == "n1" || domain.values[0] == "n2"));
      pods += domain.count;
    }
  }
  CHECK(pods == 8);
}

// kueue_semantics 9.9.7, 5.2
TEST_CASE("pods whose node has failed get other places in their rack, which are no one else's") {
  Machines cluster;
  cluster.AddQueue(Machines::Queue("q"));
  cluster.Submit(Placed(Gang("a", "q", 5, 1), "rack"));
  CHECK(cluster.Run() == Uids{"a"});
  CHECK(cluster.Where("a") == "n3:5");
  cluster.Apply(NodeChanged{Machine("n4", "r2", 5)});
  CHECK(cluster.engine.HostsWithPlaces() == Uids{"n3"});
  CHECK(cluster.engine.HoldersOn("n3") == std::vector{HolderOnNode{"a", cluster.claims.at("a"), false, false}});
  gang::Node down = Machine("n3", "r2", 6);
  down.ready = false;
  cluster.Apply(NodeChanged{down});
  CHECK(cluster.engine.HoldersOn("n3") == std::vector{HolderOnNode{"a", cluster.claims.at("a"), false, true}});
  cluster.Apply(PlaceFailed{"a", cluster.claims.at("a"), "n3"});
  // It comes first: the next gang would need the same node.
  cluster.Submit(Placed(Gang("b", "q", 5, 0), "rack"));
  CHECK(cluster.Run() == Uids{"b"});
  REQUIRE(cluster.last.size() >= 2);
  const auto* replace = std::get_if<Replace>(&cluster.last.front());
  REQUIRE(replace != nullptr);
  CHECK(replace->uid == "a");
  CHECK(replace->hostname == "n3");
  CHECK(replace->admission == cluster.engine.ViewWorkload("a")->admission);
  CHECK(cluster.Where("a") == "n4:5");
  CHECK(cluster.Where("b") == "n1:4 n2:1");
  CHECK(cluster.engine.HoldersOn("n3").empty());
  // Said twice, it is not done twice.
  cluster.Apply(PlaceFailed{"a", cluster.claims.at("a"), "n3"});
  CHECK(cluster.Run().empty());
  CHECK(cluster.last.empty());
  CHECK(cluster.Where("a") == "n4:5");
}

TEST_CASE("a node with a taint is unfit for those whose pods do not tolerate it") {
  Machines cluster;
  cluster.AddQueue(Machines::Queue("q"));
  gang::Shape bold = *CpuShape(1);
  gang::Toleration toleration;
  toleration.key = "maintenance";
  toleration.op = "Exists";
  bold.tolerations.push_back(toleration);
  Workload tolerant = Placed(Gang("tolerant", "q", 1, 1), "rack");
  tolerant.pod_sets[0].shape = std::make_shared<const gang::Shape>(bold);
  cluster.Submit(tolerant);
  cluster.Submit(Placed(Gang("shy", "q", 1, 2), "rack"));
  CHECK(cluster.Run() == Uids{"tolerant", "shy"});
  CHECK(cluster.Where("tolerant") == "n3:1");
  CHECK(cluster.Where("shy") == "n3:1");
  gang::Node tainted = Machine("n3", "r2", 6);
  tainted.taints = {{"maintenance", "", "NoSchedule"}};
  cluster.Apply(NodeChanged{tainted});
  CHECK(cluster.engine.HoldersOn("n3") ==
        std::vector{HolderOnNode{"shy", cluster.claims.at("shy"), false, true},
                    HolderOnNode{"tolerant", cluster.claims.at("tolerant"), false, false}});
}

TEST_CASE(
    "a gang that has no other places when its node fails is evicted, and so is one that loses two nodes at once") {
  Machines cluster;
  cluster.AddQueue(Machines::Queue("q"));
  cluster.Submit(Placed(Gang("whole", "q", 8, 1), "rack"));
  CHECK(cluster.Run() == Uids{"whole"});
  CHECK(cluster.Where("whole") == "n1:4 n2:4");
  cluster.Apply(NodeDeleted{"n2"});
  CHECK(cluster.engine.HoldersOn("n2") == std::vector{HolderOnNode{"whole", cluster.claims.at("whole"), true, false}});
  cluster.Apply(PlaceFailed{"whole", cluster.claims.at("whole"), "n2"});
  CHECK(cluster.Run().empty());
  REQUIRE(cluster.Evictions().size() == 1);
  CHECK(cluster.Evictions()[0].reason == EvictionReason::kNodeFailures);
  CHECK(cluster.Evictions()[0].nodes == Uids{"n2"});
  CHECK(cluster.Evictions()[0].preemptor_uid.empty());
  // Nothing is left of the failure once it is gone: with the node back it starts again.
  cluster.LeaveAll();
  CHECK(cluster.Run().empty());
  cluster.Apply(NodeChanged{Machine("n2", "r1", 4)});
  CHECK(cluster.Run() == Uids{"whole"});
  CHECK(cluster.Where("whole") == "n1:4 n2:4");

  cluster.Apply(NodeChanged{Machine("n5", "r1", 8)});
  for (const char* node : {"n1", "n2"}) cluster.Apply(PlaceFailed{"whole", cluster.claims.at("whole"), node});
  CHECK(cluster.Run().empty());
  REQUIRE(cluster.Evictions().size() == 1);
  CHECK(cluster.Evictions()[0].nodes == Uids{"n1", "n2"});
}

TEST_CASE("a node that fails before the start is written is replaced after it") {
  Machines cluster;
  cluster.AddQueue(Machines::Queue("q"));
  cluster.Submit(Placed(Gang("a", "q", 2, 1), "rack"));
  const std::vector<Decision> decided = cluster.engine.Decide(At(1));
  REQUIRE(decided.size() == 1);
  const ClaimId claim = std::get<Admit>(decided[0]).claim;
  CHECK(cluster.Where("a") == "n3:2");
  cluster.Apply(NodeChanged{Machine("n4", "r2", 2)});
  cluster.Apply(NodeDeleted{"n3"});
  cluster.Apply(PlaceFailed{"a", claim, "n3"});
  CHECK(cluster.engine.Decide(At(2)).empty());
  cluster.Apply(ClaimWritten{"a", claim});
  const std::vector<Decision> then = cluster.engine.Decide(At(3));
  REQUIRE(then.size() == 1);
  CHECK(std::get<Replace>(then[0]).hostname == "n3");
  CHECK(cluster.Where("a") == "n4:2");
}

TEST_CASE("a node that fails under a gang that is to leave, and stays after all, is replaced then") {
  Machines cluster;
  ClusterQueue queue = Machines::Queue("q");
  queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
  cluster.AddQueue(queue);
  cluster.Submit(Placed(Gang("w", "q", 5, 1), "rack"));
  CHECK(cluster.Run() == Uids{"w"});
  CHECK(cluster.Where("w") == "n3:5");
  cluster.Apply(NodeChanged{Machine("n4", "r2", 5)});
  cluster.Submit(Placed(Gang("high", "q", 11, 2, 10), "rack"));
  CHECK(cluster.Run().empty());
  CHECK(cluster.Preempted() == Uids{"w for high"});
  cluster.Apply(NodeDeleted{"n3"});
  cluster.Apply(PlaceFailed{"w", cluster.claims.at("w"), "n3"});
  CHECK(cluster.Run().empty());
  CHECK(cluster.Where("w") == "n3:5");
  cluster.Finish("high");
  cluster.Apply(EvictionRefused{"w", cluster.claims.at("w"), {}});
  CHECK(cluster.Run().empty());
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.Where("w") == "n4:5");
}

TEST_CASE("pod sets in two flavors that share nodes do not both get the last room when their node fails") {
  Machines cluster;
  cluster.Apply(FlavorChanged{WithTopology("u")});
  ClusterQueue queue = Machines::Queue("q", {"t", "u"});
  queue.resource_groups[0].flavors[0].resources[0].nominal = Amount{2};
  cluster.AddQueue(queue);
  cluster.Submit(Placed(Gang("full", "q", 8, 0), "rack"));
  CHECK(cluster.Run() == Uids{"full"});
  CHECK(cluster.Where("full") == "n1:4 n2:4");
  Workload both = Placed(Gang("w", "q", 2), "rack");
  both.pod_sets.push_back(both.pod_sets[0]);
  both.pod_sets[1].name = "more";
  cluster.Submit(both);
  CHECK(cluster.Run() == Uids{"w"});
  const auto flavor = [&](size_t pod_set) {
    return cluster.engine.ViewWorkload("w")->admission.pod_sets.at(pod_set).flavors.at(0).second;
  };
  CHECK(flavor(0) == "t");
  CHECK(flavor(1) == "u");
  CHECK(cluster.Where("w") == "n3:2");
  // The only other node of the rack has room for three of the four.
  cluster.Apply(NodeChanged{Machine("n4", "r2", 3)});
  cluster.Apply(NodeDeleted{"n3"});
  cluster.Apply(PlaceFailed{"w", cluster.claims.at("w"), "n3"});
  CHECK(cluster.Run().empty());
  REQUIRE(cluster.Evictions().size() == 1);
  CHECK(cluster.Evictions()[0].reason == EvictionReason::kNodeFailures);
}

TEST_CASE("a node on which all of a gang's pods have ended takes nothing with it") {
  Machines cluster;
  cluster.AddQueue(Machines::Queue("q"));
  cluster.Submit(Placed(Gang("w", "q", 8, 1), "rack"));
  CHECK(cluster.Run() == Uids{"w"});
  CHECK(cluster.Where("w") == "n1:4 n2:4");
  cluster.Submit(Placed(Gang("w", "q", 4, 1), "rack"));  // the other four have ended
  CHECK(cluster.Run().empty());
  cluster.Apply(NodeDeleted{"n1"});
  cluster.Apply(PlaceFailed{"w", cluster.claims.at("w"), "n1"});
  CHECK(cluster.Run().empty());
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.Where("w") == "n2:4");
}

}  // namespace muster::engine
