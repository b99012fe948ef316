// Jobs on flavors with a Topology: nodes and pods as they are watched, places on the Workload, and pods that are let go
// to them. Places are worked out by hand from kueue_semantics 9.9.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "drills.h"
#include "muster/core/time.h"
#include "nodes_and_pods.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using sim::Text;
using std::chrono::seconds;

std::string Active(const World& world) {
  const Json queue = world.Get("clusterqueues", "", "cq");
  const Json& condition = sim::FindCondition(At(queue, "status", "conditions"), "Active");
  if (condition.is_null()) return "";
  return Text(sim::Get(condition, "status")) + "/" + Text(sim::Get(condition, "reason")) + ": " +
         Text(sim::Get(condition, "message"));
}

// "n2:2 n3:1" of what the Workload says.
std::string Places(const World& world, const std::string& job) {
  const Json workload = world.WorkloadOf(job);
  const Json& sets = At(workload, "status", "admission", "podSetAssignments");
  if (!sets.is_array() || sets.empty()) return "none";
  const Json& slices = At(sets[0], "topologyAssignment", "slices");
  return slices.is_array() ? slices.dump() : "none";
}

bool WatchesNodes(const Process& process) {
  const std::vector<Health::Informer> informers = process.controller->health().informers;
  return std::any_of(informers.begin(), informers.end(), [](const auto& informer) { return informer.kind == "Node"; });
}

// Where a pod may run; empty: it waits behind its gate.
std::string PlaceOf(const Json& pod) {
  const Json& gates = At(pod, "spec", "schedulingGates");
  if (gates.is_array() && !gates.empty()) return "";
  return Text(At(pod, "spec", "nodeSelector", kHost));
}

// The pod of that rank; null where there is none.
Json PodOf(const World& world, const std::string& job, int index) {
  for (const Json& pod : world.List("pods", "team")) {
    const Json& labels = At(pod, "metadata", "labels");
    if (Text(At(labels, "job-name")) == job &&
        Text(At(labels, "batch.kubernetes.io/job-completion-index")) == std::to_string(index)) {
      return pod;
    }
  }
  return nullptr;
}
std::string PlaceOf(const World& world, const std::string& job, int index) { return PlaceOf(PodOf(world, job, index)); }

void DeletePod(World& world, const Json& pod) { world.Delete("pods", "team", Text(At(pod, "metadata", "name"))); }

// kueue_semantics 1.3
TEST_CASE("A ClusterQueue waits for the Topology of its flavor") {
  World world;
  world.MakeQueues("100");
  Process& process = world.Start();
  REQUIRE(world.RunUntil([&] { return Active(world) == "True/Ready: Can admit new workloads"; }));
  CHECK_FALSE(WatchesNodes(process));
  world.Patch("resourceflavors", "", "f", {{"spec", {{"topologyName", "racks"}}}});
  const std::string missing =
      "False/TopologyNotFound: Can't admit new workloads: there is no Topology \"racks\" for TAS flavor \"f\".";
  CHECK(world.RunUntil([&] { return Active(world) == missing; }));
  CHECK_FALSE(WatchesNodes(process));
  MakeTopology(world);
  CHECK(world.RunUntil([&] { return Active(world) == "True/Ready: Can admit new workloads"; }));
  CHECK(WatchesNodes(process));
  world.Delete("topologies", "", "racks");
  CHECK(world.RunUntil([&] { return Active(world) == missing; }));
}

TEST_CASE("A Job gets its places in one rack, and each pod its own by rank") {
  World world;
  MakePlaces(world);
  world.Start();
  world.MakeJob("a", 3, 600, "lq", Asks("required-topology", "rack"));
  REQUIRE(world.RunUntil([&] { return Started(world, "a"); }));
  const Json workload = world.WorkloadOf("a");
  CHECK(At(workload, "spec", "podSets")[0]["topologyRequest"]["required"] == "rack");
  CHECK(At(workload, "metadata", "labels", "muster.dev/record") == "workload");
  const Json assignment = At(workload, "status", "admission", "podSetAssignments")[0]["topologyAssignment"];
  CHECK(assignment["levels"] == Json::array({kHost}));
  CHECK(assignment["slices"] ==
        Json::parse(R"([{"domainCount":2,"valuesPerLevel":[{"individual":{"prefix":"n","roots":["2","3"]}}],
                         "podCounts":{"individual":[2,1]}}])"));
  const Json gates = At(world.Get("jobs", "team", "a"), "spec", "template", "spec", "schedulingGates");
  CHECK(gates == Json::parse(R"([{"name":"kueue.x-k8s.io/topology"}])"));
  CHECK(world.RunUntil([&] {
    return PlaceOf(world, "a", 0) == "n2" && PlaceOf(world, "a", 1) == "n2" && PlaceOf(world, "a", 2) == "n3";
  }));
  // What it holds is no longer free: r1 has two places, r2 one.
  world.MakeJob("b", 3, 600, "lq", Asks("required-topology", "rack"));
  world.MakeJob("c", 2, 600, "lq", Asks("required-topology", "rack"));
  CHECK(world.RunUntil([&] { return Started(world, "c"); }));
  CHECK_FALSE(Started(world, "b"));
}

TEST_CASE("Pods of strangers take room until they have ended, and nodes count only while they can be used") {
  World world;
  MakePlaces(world);
  world.Create(Json::parse(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","namespace":"team"},"spec":{
    "nodeName":"n2","initContainers":[{"name":"i","resources":{"requests":{"cpu":"1500m"}}}],
    "containers":[{"name":"c","resources":{"requests":{"cpu":"500m"}}}]}})"));
  world.Patch("pods", "team", "x", {{"status", {{"phase", "Running"}}}}, "status");
  world.Start();
  // The init container takes more than half of n2.
  world.MakeJob("a", 4, 600, "lq", Asks("required-topology", "rack"));
  world.RunFor(seconds(5));
  CHECK_FALSE(Started(world, "a"));
  world.Patch("nodes", "", "n3", {{"spec", {{"unschedulable", true}}}});
  world.RunFor(seconds(1));
  world.Patch("pods", "team", "x", {{"status", {{"phase", "Succeeded"}}}}, "status");
  world.RunFor(seconds(5));
  CHECK_FALSE(Started(world, "a"));
  world.Patch("nodes", "", "n3", {{"spec", {{"unschedulable", nullptr}}}});
  CHECK(world.RunUntil([&] { return Started(world, "a"); }));
}

TEST_CASE("A Job without a request gets places where all flavors of its queue have a Topology, and says so") {
  World world;
  MakePlaces(world);
  world.Start();
  world.MakeJob("a", 5, 600);
  REQUIRE(world.RunUntil([&] { return Started(world, "a"); }));
  CHECK(Places(world, "a") != "none");
  const Json job = world.Get("jobs", "team", "a");
  CHECK(At(job, "spec", "template", "metadata", "annotations", "kueue.x-k8s.io/podset-unconstrained-topology") ==
        "true");
}

TEST_CASE("Places outlive Muster, and go with the admission") {
  World world;
  MakePlaces(world);
  Process& first = world.Start();
  world.MakeJob("a", 3, 600, "lq", Asks("required-topology", "rack"));
  REQUIRE(world.RunUntil([&] { return Started(world, "a"); }));
  world.RunFor(seconds(5));
  const std::string places = Places(world, "a");
  world.Kill(first);
  Process& second = world.Launch();
  REQUIRE(world.RunUntil([&] { return second.controller->health().leading; }));
  world.RunFor(seconds(5));
  CHECK(Places(world, "a") == places);
  const std::string uid = Text(At(world.Get("jobs", "team", "a"), "metadata", "uid"));
  const auto view = second.controller->engine()->ViewWorkload(uid);
  REQUIRE(view.has_value());
  REQUIRE(view->admission.pod_sets.size() == 1);
  REQUIRE(view->admission.pod_sets[0].topology.has_value());
  CHECK(view->admission.pod_sets[0].topology->domains == std::vector<gang::TopologyDomain>{{{"n2"}, 2}, {{"n3"}, 1}});
  // Of a pod that comes now.
  DeletePod(world, PodOf(world, "a", 2));
  MakePod(world, "a", 2);
  CHECK(world.RunUntil([&] { return PlaceOf(world, "a", 2) == "n3"; }));
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
  CHECK(world.RunUntil([&] {
    const Json job = world.Get("jobs", "team", "a");
    return !Started(world, "a") && At(job, "spec", "template", "spec", "schedulingGates").is_null() &&
           At(job, "metadata", "annotations", "muster.dev/admission").is_null();
  }));
  CHECK(Places(world, "a") == "none");
}

TEST_CASE("Where the Workload with the places is gone, the gang is stopped and gets others") {
  World world;
  MakePlaces(world);
  Process& first = world.Start();
  world.MakeJob("a", 3, 600, "lq", Asks("required-topology", "rack"));
  REQUIRE(world.RunUntil([&] { return Started(world, "a"); }));
  world.RunFor(seconds(5));
  world.Kill(first);
  const std::string old = Text(At(world.WorkloadOf("a"), "metadata", "uid"));
  world.Delete("workloads", "team", Text(At(world.WorkloadOf("a"), "metadata", "name")));
  Process& second = world.Launch();
  CHECK(world.RunUntil([&] { return second.controller->health().leading && !Started(world, "a"); }));
  CHECK(world.RunUntil([&] { return Started(world, "a") && Places(world, "a") != "none"; }));
  CHECK(Text(At(world.WorkloadOf("a"), "metadata", "uid")) != old);
}

// A Workload without a Job, of so many pods in one rack.
void MakeLone(World& world, int pods) {
  Json workload = Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload",
    "metadata":{"namespace":"team","name":"lone"},"spec":{"active":true,"queueName":"lq","podSets":[
      {"name":"workers","topologyRequest":{"required":"rack"},
       "template":{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}}]}})");
  workload["spec"]["podSets"][0]["count"] = pods;
  world.Create(std::move(workload));
}

TEST_CASE("Pods of a Workload without a Job get its places") {
  World world;
  MakePlaces(world);
  world.Start();
  MakeLone(world, 4);
  for (const char* name : {"w-b", "w-c", "w-a", "w-d"}) {
    Json pod = Json::parse(R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"team",
      "labels":{"kueue.x-k8s.io/podset":"workers"},"annotations":{"kueue.x-k8s.io/workload":"lone"}},
      "spec":{"schedulingGates":[{"name":"other"},{"name":"kueue.x-k8s.io/topology"}],"containers":[{"name":"c"}]}})");
    pod["metadata"]["name"] = name;
    world.Create(pod);
    world.Patch("pods", "team", name, {{"status", {{"phase", "Pending"}}}}, "status");
  }
  const auto place = [&](const char* name) {
    return Text(At(world.Get("pods", "team", name), "spec", "nodeSelector", kHost));
  };
  CHECK(world.RunUntil(
      [&] { return place("w-a") == "n2" && place("w-b") == "n2" && place("w-c") == "n3" && place("w-d") == "n3"; }));
  // Somebody else's gate is not Muster's to lift.
  CHECK(At(world.Get("pods", "team", "w-a"), "spec", "schedulingGates") == Json::parse(R"([{"name":"other"}])"));
}

// Two watches show it, and which of them is ahead is chance.
TEST_CASE("A pod that is just being bound keeps its place from others") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    World world(seed);
    MakePlaces(world);
    world.Start();
    Json asks = Asks("required-topology", "rack");
    asks["spec"]["completionMode"] = "NonIndexed";
    world.MakeJob("a", 4, 600, "lq", asks);
    REQUIRE(world.RunUntil([&] { return Started(world, "a"); }));
    world.RunFor(seconds(5));
    for (const Json& pod : world.List("pods", "team")) DeletePod(world, pod);
    world.RunFor(seconds(10));
    std::map<std::string, int> on;
    for (int i = 0; i < 4; ++i) {
      const std::string pod = "a-" + std::to_string(i);
      const auto place = [&] { return PlaceOf(world.Get("pods", "team", pod)); };
      MakePod(world, "a", i, false);
      REQUIRE(world.RunUntil([&] { return !place().empty(); }, seconds(30)));
      ++on[place()];
      world.Patch("pods", "team", pod, {{"spec", {{"nodeName", place()}}}});
    }
    CHECK(on == std::map<std::string, int>{{"n2", 2}, {"n3", 2}});
  }
}

TEST_CASE("A pod that could not be given its place is tried again, and one that is gone leaves it to the next") {
  World world;
  MakePlaces(world);
  world.Start();
  sim::FaultRule rule;
  rule.fault.kind = sim::Fault::Kind::kAnswer;
  rule.fault.status = 500;
  rule.verbs = {"patch"};
  rule.resource = "pods";
  rule.times = 4;
  world.server.faults().Add(rule);
  world.MakeJob("a", 3, 600, "lq", Asks("required-topology", "rack"));
  CHECK(world.RunUntil([&] {
    return PlaceOf(world, "a", 0) == "n2" && PlaceOf(world, "a", 1) == "n2" && PlaceOf(world, "a", 2) == "n3";
  }));
  DeletePod(world, PodOf(world, "a", 1));
  MakePod(world, "a", 1);
  CHECK(world.RunUntil([&] { return PlaceOf(world, "a", 1) == "n2"; }));
}

TEST_CASE("A request that contradicts itself is told, and the Job waits") {
  World world;
  MakePlaces(world);
  world.Start();
  Json asks = Asks("required-topology", "rack");
  asks["spec"]["template"]["metadata"]["annotations"]["kueue.x-k8s.io/podset-preferred-topology"] = "rack";
  world.MakeJob("a", 3, 600, "lq", asks);
  const auto told = [&] {
    for (const Json& event : world.List("events", "team")) {
      if (Text(At(event, "reason")) == "ErrWorkloadCompose" &&
          Text(At(event, "note")).find("kueue.x-k8s.io/podset-required-topology: \"rack\"") != std::string::npos) {
        return true;
      }
    }
    return false;
  };
  CHECK(world.RunUntil(told));
  CHECK_FALSE(Started(world, "a"));
}

// kueue_semantics 9.9.7
TEST_CASE("Pods whose node fails get another in their rack, and the gang is stopped where there is none") {
  World world;
  MakePlaces(world);
  MakeNode(world, "n4", "r2", 2);
  world.Start();
  world.MakeJob("a", 3, 600, "lq", Asks("required-topology", "rack"));
  REQUIRE(world.RunUntil([&] {
    return PlaceOf(world, "a", 0) == "n2" && PlaceOf(world, "a", 1) == "n2" && PlaceOf(world, "a", 2) == "n3";
  }));
  // Cordoned: its pods run on, and keep their places.
  const Json pod = PodOf(world, "a", 2);
  world.Patch("pods", "team", Text(At(pod, "metadata", "name")), {{"spec", {{"nodeName", "n3"}}}});
  world.Patch("nodes", "", "n3", {{"spec", {{"unschedulable", true}}}});
  const std::string before = Places(world, "a");
  world.RunFor(seconds(10));
  CHECK(Places(world, "a") == before);
  // Drained.
  DeletePod(world, pod);
  MakePod(world, "a", 2);
  CHECK(world.RunUntil([&] { return PlaceOf(world, "a", 2) == "n4"; }));
  CHECK(world.RunUntil([&] { return Places(world, "a") != before; }));
  CHECK(Places(world, "a") ==
        Json::parse(R"([{"domainCount":2,"valuesPerLevel":[{"individual":{"prefix":"n","roots":["2","4"]}}],
                         "podCounts":{"individual":[2,1]}}])")
            .dump());
  CHECK(Started(world, "a"));
  // Now the rack has only one place left.
  world.Delete("nodes", "", "n2");
  REQUIRE(world.RunUntil([&] { return !Started(world, "a"); }));
  CHECK(world.RunUntil([&] {
    const Json workload = world.WorkloadOf("a");
    const Json& evicted = sim::FindCondition(At(workload, "status", "conditions"), "Evicted");
    return Text(sim::Get(evicted, "reason")) == "NodeFailures" &&
           Text(sim::Get(evicted, "message")) ==
               "Workload was evicted as there was no replacement for unhealthy node(s): n2";
  }));
  // It is decided on anew once there is room.
  MakeNode(world, "n5", "r2", 2);
  CHECK(world.RunUntil([&] { return Started(world, "a"); }));
}

TEST_CASE("No pod is let go to a node that is being drained") {
  World world;
  MakePlaces(world);
  MakeNode(world, "n4", "r2", 2);
  world.Start();
  world.MakeJob("a", 3, 600, "lq", Asks("required-topology", "rack"));
  REQUIRE(world.RunUntil([&] {
    return PlaceOf(world, "a", 0) == "n2" && PlaceOf(world, "a", 1) == "n2" && PlaceOf(world, "a", 2) == "n3";
  }));
  for (const int rank : {0, 1}) {
    world.Patch("pods", "team", Text(At(PodOf(world, "a", rank), "metadata", "name")),
                {{"spec", {{"nodeName", "n2"}}}});
  }
  world.Patch("nodes", "", "n2", {{"spec", {{"unschedulable", true}}}});
  world.RunFor(seconds(5));
  // A disruption budget lets one of its pods go at a time.
  DeletePod(world, PodOf(world, "a", 0));
  MakePod(world, "a", 0);
  world.RunFor(seconds(10));
  CHECK(PlaceOf(world, "a", 0).empty());
  DeletePod(world, PodOf(world, "a", 1));
  MakePod(world, "a", 1);
  CHECK(world.RunUntil([&] { return PlaceOf(world, "a", 0) == "n4" && PlaceOf(world, "a", 1) == "n4"; }));
  CHECK(Started(world, "a"));
}

// Its selector names the node, so that no other can have it: another place would be of no use to it.
TEST_CASE("With machines, a pod that was let go to a node which is gone takes its gang along, unless it goes in time") {
  World world;
  MakePlaces(world);
  MakeNode(world, "n4", "r2", 2);
  Options options = World::DefaultOptions();
  options.check_machines = true;
  options.place_timeout = seconds(20);
  world.Start("", options);
  world.MakeJob("a", 3, 600, "lq", Asks("required-topology", "rack"));
  REQUIRE(world.RunUntil([&] {
    return PlaceOf(world, "a", 0) == "n2" && PlaceOf(world, "a", 1) == "n2" && PlaceOf(world, "a", 2) == "n3";
  }));
  for (const int rank : {0, 1}) {
    world.Patch("pods", "team", Text(At(PodOf(world, "a", rank), "metadata", "name")),
                {{"spec", {{"nodeName", "n2"}}}});
  }
  world.RunFor(seconds(5));
  const std::string before = Places(world, "a");
  world.Delete("nodes", "", "n3");
  const MonoTime lost = world.executor.Mono();
  world.RunFor(seconds(10));
  CHECK(Places(world, "a") == before);
  CHECK(Started(world, "a"));
  SECTION("it goes in time") {
    DeletePod(world, PodOf(world, "a", 2));
    MakePod(world, "a", 2);
    CHECK(world.RunUntil([&] { return PlaceOf(world, "a", 2) == "n4"; }));
    world.RunFor(seconds(60));
    CHECK(Started(world, "a"));
  }
  SECTION("it stays") {
    REQUIRE(world.RunUntil([&] { return !Started(world, "a"); }));
    CHECK(world.executor.Mono() - lost >= seconds(20));
    CHECK(world.executor.Mono() - lost < seconds(25));
    CHECK(world.RunUntil([&] { return ConditionOf(world.WorkloadOf("a"), "Evicted") == "True/NodeFailures"; }));
    CHECK(MessageOf(world.WorkloadOf("a"), "Evicted") == "No node had a place for 1 of its pods for too long");
    for (const Json& pod : world.List("pods", "team")) DeletePod(world, pod);
    REQUIRE(world.RunUntil([&] { return Started(world, "a"); }));
    CHECK(Places(world, "a").find(R"("roots":["2","4"])") != std::string::npos);
  }
}

TEST_CASE("A Workload without a Job shows the places that a failed node is replaced by") {
  World world;
  MakePlaces(world);
  world.Start();
  MakeLone(world, 2);
  const auto shown = [&] { return world.Get("workloads", "team", "lone").dump(); };
  REQUIRE(world.RunUntil([&] { return shown().find("\"n1\"") != std::string::npos; }));
  MakeNode(world, "m1", "r1", 2);
  world.RunFor(seconds(5));
  world.Delete("nodes", "", "n1");
  CHECK(world.RunUntil([&] { return shown().find("\"m1\"") != std::string::npos; }));
  CHECK(shown().find("\"n1\"") == std::string::npos);
}

TEST_CASE("A node that is gone while nobody led is replaced by the next leader") {
  World world;
  MakePlaces(world);
  Process& first = world.Start();
  world.MakeJob("a", 1, 600, "lq", Asks("required-topology", "rack"));
  REQUIRE(world.RunUntil([&] { return PlaceOf(world, "a", 0) == "n1"; }));
  world.Kill(first);
  world.Delete("nodes", "", "n1");
  DeletePod(world, PodOf(world, "a", 0));
  Process& second = world.Launch();
  REQUIRE(world.RunUntil([&] { return second.controller->health().leading; }));
  MakePod(world, "a", 0);
  CHECK(world.RunUntil([&] { return PlaceOf(world, "a", 0) == "n2"; }));
  CHECK(Started(world, "a"));
}

}  // namespace
}  // namespace muster::controller
