// Late surprises: a gang that was admitted loses places on machines. It gets the next ones, or goes whole once its time
// is over, and does not go round. All numbers are worked out by hand from the nodes of each case.
//
// Source: user_pains D2, D8, D11, J4; the time is EngineOptions::place_timeout, a minute.
#include <catch2/catch.hpp>

#include "on_machines.h"

namespace muster::engine {

namespace {

using Uids = std::vector<std::string>;
using Place = WorkloadView::Place;

PodPlaced Bound(const std::string& uid, int index, const std::string& node, int64_t cpu) {
  return {"ns/" + uid + "-" + std::to_string(index), node, {{"cpu", Amount{cpu}}}, uid, "main"};
}

PodPlaced Stranger(const std::string& name, const std::string& node, int64_t cpu) {
  return {"ns/" + name, node, {{"cpu", Amount{cpu}}}};
}

// Nodes of four each, as one queue without quota to speak of sees them.
class FourEach : public OnMachines {
 public:
  explicit FourEach(const Uids& nodes, EngineOptions options = WithMachines()) : OnMachines(options) {
    AddQueue(PoolQueue("q", {"a"}));
    for (const std::string& name : nodes) AddNode(name, "a", 4);
  }
  void Cordon(const std::string& name, bool cordoned = true) {
    gang::Node node = PoolNode(name, "a", 4);
    node.unschedulable = cordoned;
    Apply(NodeChanged{node});
  }
  int64_t Lacking() const { return engine.ViewClusterQueue("q").lacking_places; }
  // "uid without n" for each that was told to go for that in the last run.
  Uids Stopped() const {
    Uids out;
    for (const Evict& evict : Evictions()) {
      CHECK(evict.reason == EvictionReason::kNodeFailures);
      out.push_back(evict.uid + " without " + std::to_string(evict.without_place));
    }
    return out;
  }
};

EngineOptions WithPlaceTimeout(Duration timeout) {
  EngineOptions options = WithMachines();
  options.place_timeout = timeout;
  return options;
}

}  // namespace

TEST_CASE("a place that is lost before a pod is bound there is replaced by the next one") {
  FourEach cluster({"n1", "n2"});
  cluster.Submit(Big("w", "q", 1, 4));
  CHECK(cluster.Run() == Uids{"w"});  // n1
  SECTION("the node is cordoned") { cluster.Cordon("n1"); }
  SECTION("it is not ready") {
    gang::Node node = PoolNode("n1", "a", 4);
    node.ready = false;
    cluster.Apply(NodeChanged{node});
  }
  SECTION("it gets a taint") {
    gang::Node node = PoolNode("n1", "a", 4);
    node.taints.push_back({"gpu", "broken", "NoSchedule"});
    cluster.Apply(NodeChanged{node});
  }
  SECTION("it has less than before") { cluster.AddNode("n1", "a", 3); }
  SECTION("a stranger takes the room") { cluster.Apply(Stranger("s", "n1", 1)); }
  SECTION("the node goes") { cluster.Apply(NodeDeleted{"n1"}); }
  // n2 is its place now, before anybody else's.
  cluster.Submit(Big("other", "q", 1, 4, 2, 100));
  CHECK(cluster.Run(At(101)).empty());
  CHECK(cluster.ObstacleOf("other").machines->placed == 0);
  CHECK(cluster.Lacking() == 0);
  CHECK(cluster.Run(At(1000)).empty());
  CHECK(cluster.Stopped().empty());
  cluster.AddNode("n3", "a", 4);
  CHECK(cluster.Run(At(1001)) == Uids{"other"});
}

TEST_CASE("only as many places move as a stranger's pod takes, and the room that is left stays theirs") {
  FourEach cluster({"n1", "n2"});
  cluster.Submit(Big("w", "q", 4, 1));
  CHECK(cluster.Run() == Uids{"w"});  // all on n1
  cluster.Apply(Stranger("s", "n1", 2));
  // Two on n1 still, two on n2, where two more are left.
  cluster.Submit(Big("three", "q", 3, 1, 2));
  cluster.Submit(Big("two", "q", 2, 1, 3));
  CHECK(cluster.Run(At(101)) == Uids{"two"});
}

TEST_CASE("who gets no other place goes whole when its time is over, once, and comes back with all its places") {
  FourEach cluster({"n1", "n2"});
  cluster.Submit(Big("w", "q", 2, 4));
  CHECK(cluster.Run(At(100)) == Uids{"w"});
  cluster.Apply(Bound("w", 0, "n2", 4));
  cluster.Apply(NodeDeleted{"n1"});
  CHECK(cluster.Run(At(101)).empty());
  CHECK(cluster.Lacking() == 1);
  CHECK(cluster.engine.NextDue() == At(161));
  CHECK(cluster.Run(At(160)).empty());
  CHECK(cluster.Stopped().empty());
  CHECK(cluster.Run(At(161)).empty());
  CHECK(cluster.Stopped() == Uids{"w without 1"});
  // It was told; nobody says it again.
  CHECK(cluster.Run(At(1000)).empty());
  CHECK(cluster.Stopped().empty());
  cluster.Leave("w");
  CHECK(cluster.Lacking() == 0);
  CHECK(cluster.Run(At(1001)).empty());
  CHECK(cluster.PlaceOf("w") == Place::kParked);
  // Its pod is not gone yet: n2 is nobody's.
  CHECK(cluster.ObstacleOf("w").machines == Problem(0, 2, 4, 0, "n2"));
  cluster.Apply(PodGone{"ns/w-0"});
  CHECK(cluster.Run(At(1002)).empty());
  CHECK(cluster.ObstacleOf("w").machines == Problem(1, 2, 4, 0, "n2"));
  cluster.Submit(Big("small", "q", 1, 1, 2));
  CHECK(cluster.Run(At(1002)) == Uids{"small"});  // what it held is for others while it waits
  cluster.Finish("small");
  CHECK(cluster.Run(At(1003)).empty());
  cluster.AddNode("n3", "a", 4);
  CHECK(cluster.Run(At(1004)) == Uids{"w"});
  CHECK(cluster.Run(At(9999)).empty());
  CHECK(cluster.Stopped().empty());
}

TEST_CASE("a place in time ends it, and the next loss has all the time again") {
  FourEach cluster({"n1"});
  cluster.Submit(Big("w", "q", 1, 4));
  CHECK(cluster.Run(At(100)) == Uids{"w"});
  cluster.Cordon("n1");
  CHECK(cluster.Run(At(110)).empty());
  CHECK(cluster.Lacking() == 1);
  cluster.Cordon("n1", false);
  CHECK(cluster.Run(At(169)).empty());
  CHECK(cluster.Lacking() == 0);
  CHECK_FALSE(cluster.engine.NextDue().IsSet());
  cluster.Cordon("n1");
  CHECK(cluster.Run(At(170)).empty());
  CHECK(cluster.Run(At(229)).empty());
  CHECK(cluster.Stopped().empty());
  CHECK(cluster.Run(At(230)).empty());
  CHECK(cluster.Stopped() == Uids{"w without 1"});
}

// J4: a blip of a node under pods that stay is nothing to them.
TEST_CASE("pods that are bound lose nothing by what becomes of their node") {
  FourEach cluster({"n1"});
  cluster.Submit(Big("w", "q", 1, 4));
  CHECK(cluster.Run(At(100)) == Uids{"w"});
  cluster.Apply(Bound("w", 0, "n1", 4));
  cluster.Cordon("n1");
  cluster.Apply(Stranger("s", "n1", 4));  // even so: what runs is a fact
  CHECK(cluster.Run(At(101)).empty());
  CHECK(cluster.Run(At(1000)).empty());
  CHECK(cluster.Lacking() == 0);
  CHECK(cluster.Stopped().empty());
}

// D8
TEST_CASE("a gang that a drain and a stranger strand below its size goes whole") {
  FourEach cluster({"n1", "n2", "n3"});
  cluster.Submit(Big("w", "q", 2, 4));
  CHECK(cluster.Run(At(100)) == Uids{"w"});
  cluster.Apply(Bound("w", 0, "n1", 4));
  cluster.Apply(Bound("w", 1, "n2", 4));
  cluster.Cordon("n2");
  cluster.Apply(PodGone{"ns/w-1"});
  CHECK(cluster.Run(At(101)).empty());
  CHECK(cluster.Lacking() == 0);  // n3 is for the pod that comes again
  cluster.Apply(Stranger("s", "n3", 4));
  CHECK(cluster.Run(At(102)).empty());
  CHECK(cluster.Lacking() == 1);
  SECTION("it regains the slot") {
    cluster.Apply(PodGone{"ns/s"});
    cluster.Submit(Big("thief", "q", 1, 4, 0, 100));
    CHECK(cluster.Run(At(103)).empty());
    CHECK(cluster.Lacking() == 0);
    cluster.Apply(Bound("w", 1, "n3", 4));
    CHECK(cluster.Run(At(1000)).empty());
    CHECK(cluster.Stopped().empty());
  }
  SECTION("it does not") {
    CHECK(cluster.Run(At(162)).empty());
    CHECK(cluster.Stopped() == Uids{"w without 1"});
  }
}

TEST_CASE("pods that the scheduler spreads over another gang's place: that gets what they left, or goes") {
  FourEach cluster({"n1", "n2"});
  cluster.Submit(Big("two", "q", 2, 2, 1));
  cluster.Submit(Big("four", "q", 1, 4, 2));
  CHECK(cluster.Run(At(100)) == Uids{"two", "four"});  // n1 and n2
  cluster.Apply(Bound("two", 0, "n2", 2));
  SECTION("both are there: n1 is free") {
    cluster.Apply(Bound("two", 1, "n2", 2));
    CHECK(cluster.Run(At(101)).empty());
    CHECK(cluster.Lacking() == 0);
    cluster.Submit(Big("x", "q", 1, 1, 3));
    CHECK(cluster.Run(At(102)).empty());
  }
  SECTION("one on each: no node has four") {
    cluster.Apply(Bound("two", 1, "n1", 2));
    CHECK(cluster.Run(At(101)).empty());
    CHECK(cluster.Lacking() == 1);
    CHECK(cluster.Run(At(161)).empty());
    CHECK(cluster.Stopped() == Uids{"four without 1"});
    cluster.Leave("four");
    // It waits until the other has ended: no pair of pods that go round.
    for (int64_t s = 162; s < 2000; s += 100) {
      CHECK(cluster.Run(At(s)).empty());
      CHECK(cluster.Stopped().empty());
    }
    cluster.Finish("two");
    for (const char* pod : {"ns/two-0", "ns/two-1"}) cluster.Apply(PodGone{pod});
    CHECK(cluster.Run(At(2000)) == Uids{"four"});
  }
}

TEST_CASE("the stop is told again while it is wanted where its write was refused") {
  FourEach cluster({"n1"});
  cluster.Submit(Big("w", "q", 1, 4));
  CHECK(cluster.Run(At(100)) == Uids{"w"});
  cluster.Apply(NodeDeleted{"n1"});
  cluster.AddNode("n2", "a", 2);
  CHECK(cluster.Run(At(101)).empty());
  CHECK(cluster.Run(At(161)).empty());
  REQUIRE(cluster.Stopped() == Uids{"w without 1"});
  cluster.Apply(EvictionRefused{"w", cluster.claims["w"], At(170)});
  CHECK(cluster.Run(At(169)).empty());
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.Run(At(170)).empty());
  CHECK(cluster.Evictions().size() == 1);
}

TEST_CASE("a start without an answer is not stopped before it has one") {
  FourEach cluster({"n1"});
  cluster.Submit(Big("w", "q", 1, 4));
  const std::vector<Decision> decided = cluster.engine.Decide(At(100));
  REQUIRE(decided.size() == 1);
  const ClaimId claim = std::get<Admit>(decided[0]).claim;
  cluster.Cordon("n1");
  CHECK(cluster.Run(At(101)).empty());
  CHECK(cluster.Run(At(161)).empty());
  CHECK(cluster.Evictions().empty());
  cluster.Apply(ClaimWritten{"w", claim});
  CHECK(cluster.Run(At(162)).empty());
  CHECK(cluster.Stopped() == Uids{"w without 1"});
}

TEST_CASE("a gang lacks places for as long as the configuration says") {
  FourEach cluster({"n1"}, WithPlaceTimeout(Duration(0)));
  cluster.Submit(Big("w", "q", 1, 4));
  CHECK(cluster.Run(At(100)) == Uids{"w"});
  cluster.Cordon("n1");
  CHECK(cluster.Run(At(101)).empty());
  CHECK(cluster.Lacking() == 1);
  CHECK_FALSE(cluster.engine.NextDue().IsSet());
  CHECK(cluster.Run(At(1'000'000)).empty());
  CHECK(cluster.Evictions().empty());
}

TEST_CASE("who is found running without places has them in time, or goes") {
  FourEach cluster({"n1"});
  Workload running = Big("running", "q", 2, 4);
  PodSetAssignment pods{"main", 2, {{"cpu", "a"}}, {{"cpu", Amount{8}}}};
  running.held = HeldClaim{{7, 1}, ClaimState::kActive, {"q", {pods}}, At(50)};
  cluster.Submit(running);
  cluster.Apply(Bound("running", 0, "n1", 4));
  CHECK(cluster.Run(At(100)).empty());
  CHECK(cluster.Lacking() == 1);
  CHECK(cluster.Run(At(160)).empty());
  CHECK(cluster.Stopped() == Uids{"running without 1"});
}

// `w` lacks a place since 101, is to leave for another at 110, and that is gone.
class ToStayAfterAll : public OnMachines {
 public:
  ToStayAfterAll() {
    ClusterQueue queue = PoolQueue("q", {"a"});
    queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
    AddQueue(queue);
    for (const char* name : {"n1", "n2"}) AddNode(name, "a", 4);
    Submit(Big("w", "q", 2, 4));
    CHECK(Run(At(100)) == Uids{"w"});
    Apply(Bound("w", 0, "n2", 4));
    Apply(NodeDeleted{"n1"});
    CHECK(Run(At(101)).empty());
    Submit(Big("urgent", "q", 1, 4, 2, 10));
    CHECK(Run(At(110)).empty());
    CHECK(Preempted() == Uids{"w for urgent"});
    Finish("urgent");
  }
};

// A preemptor may have its victim stay.
TEST_CASE("who was to leave for another and stays lacks what it lacks by then") {
  ToStayAfterAll cluster;
  CHECK(cluster.Run(At(111)).empty());
  const bool gained = GENERATE(false, true);
  CAPTURE(gained);
  if (gained) cluster.AddNode("n3", "a", 4);
  cluster.Apply(EvictionRefused{"w", cluster.claims["w"], {}});
  CHECK(cluster.Run(At(112)).empty());
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.engine.ViewClusterQueue("q").lacking_places == (gained ? 0 : 1));
  CHECK(cluster.Run(At(160)).empty());
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.Run(At(161)).empty());
  CHECK(cluster.Evictions().size() == (gained ? 0 : 1));
}

TEST_CASE("what was to leave for another and stays has all the time from then on") {
  ToStayAfterAll cluster;
  cluster.AddNode("n3", "a", 4);
  // By now its time would be over.
  cluster.Apply(EvictionRefused{"w", cluster.claims["w"], {}});
  CHECK(cluster.Run(At(165)).empty());
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.engine.ViewClusterQueue("q").lacking_places == 0);
}

// Nodes of four in a topology of hosts, on which `w` has one pod of two each.
class OnHosts : public FourEach {
 public:
  OnHosts() : FourEach({}) {
    for (const char* name : {"n1", "n2"}) AddHost(name);
    Apply(TopologyChanged{{"hosts", {std::string(gang::kHostnameLabel)}}});
    Apply(FlavorChanged{ResourceFlavor{"a", {{"pool", "a"}}, {}, {}, "hosts"}});
    for (const char* node : {"n1", "n2"}) Apply(Stranger(std::string("on-") + node, node, 2));
    Workload gang = Big("w", "q", 2, 2);
    gang.pod_sets[0].topology.unconstrained = true;
    Submit(gang);
    REQUIRE(Run() == Uids{"w"});
    REQUIRE(Hosts() == Uids{"n1", "n2"});
  }
  void AddHost(const std::string& name) {
    gang::Node node = PoolNode(name, "a", 4);
    node.labels.emplace(gang::kHostnameLabel, name);
    Apply(NodeChanged{node});
  }
  Uids Hosts() const {
    Uids hosts;
    const Admission admission = engine.ViewWorkload("w")->admission;
    for (const gang::TopologyDomain& domain : admission.pod_sets.at(0).topology->domains) {
      hosts.push_back(domain.values.back() + (domain.count == 1 ? "" : ":" + std::to_string(domain.count)));
    }
    return hosts;
  }
};

TEST_CASE("a pod that is to go to one host has no place on another where its gang has one already") {
  OnHosts cluster;
  cluster.Apply(PodGone{"ns/on-n1"});
  cluster.Apply(Stranger("late", "n2", 2));
  CHECK(cluster.Run().empty());
  CHECK(cluster.Lacking() == 1);
  cluster.Apply(PodGone{"ns/late"});
  CHECK(cluster.Run().empty());
  CHECK(cluster.Lacking() == 0);
}

TEST_CASE("where a failed node is replaced the machines follow") {
  OnHosts cluster;
  cluster.Apply(Bound("w", 0, "n1", 2));
  cluster.AddHost("n3");
  CHECK(cluster.Run().empty());
  cluster.Apply(NodeDeleted{"n2"});
  cluster.Apply(PlaceFailed{"w", cluster.claims.at("w"), "n2"});
  CHECK(cluster.Run().empty());
  CHECK(cluster.Hosts() == Uids{"n1", "n3"});
  CHECK(cluster.Lacking() == 0);
  // What the new place takes is nobody else's.
  cluster.Submit(Big("other", "q", 1, 4, 2));
  CHECK(cluster.Run().empty());
  cluster.Finish("w");
  CHECK(cluster.Run() == Uids{"other"});
}

}  // namespace muster::engine
