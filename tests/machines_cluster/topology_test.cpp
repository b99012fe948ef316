// Gangs with places in racks, where what they stand on changes: nodes that fail, and Topologies that are made anew. The
// faults are the K cases of user_pains (j).
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <set>
#include <thread>
#include <vector>

#include "fixture/text.h"
#include "team.h"

namespace muster::cluster {
namespace {

Gang InRack(int pods, int gpus) { return cluster::InRack({.pods = pods, .each = Gpus(gpus)}); }

void CheckWaits(Team* team, const std::string& job, const std::string& why) {
  Eventually([&] { return team->WaitsFor(job).find(why) != std::string::npos; }, std::chrono::seconds(20));
  CHECK_THAT(team->WaitsFor(job), Catch::Contains(why));
}

int IndexOf(const Team& team, const std::string& node, int nodes) {
  for (int i = 0; i < nodes; ++i) {
    if (team.Node(i) == node) return i;
  }
  FAIL("no node of the team: " << node);
  return -1;
}

// As `kubectl drain` does: the node takes no pods, and the Job's are deleted.
void Drain(Team* team, const std::string& job, int node) {
  team->Cordon(node);
  for (const auto& [pod, on] : team->Nodes(job)) {
    if (on == team->Node(node)) team->DeletePod(pod);
  }
}

std::set<std::string> NodesOf(Team* team, const std::string& job) {
  std::set<std::string> nodes;
  for (const auto& [pod, on] : team->Nodes(job)) nodes.insert(on);
  return nodes;
}

// Two gangs of one node each, and one node more.
class Crossed {
 public:
  Crossed(Teams* teams, int number)
      : team_(teams->Add(Ground::Shared(), Cat("crossed-", number), {Gpus(4), Gpus(4), Gpus(4)}, {.racks = true})) {}

  void Start() {
    ++round_;
    for (const std::string& gang : Both()) team_.Create(gang, InRack(1, 4));
  }
  void Fail() {
    REQUIRE(Eventually([&] { return BothRun(); }));
    for (const std::string& gang : Both()) failed_.push_back(IndexOf(team_, *NodesOf(&team_, gang).begin(), 3));
    for (const int node : failed_) team_.Cordon(node);
    for (size_t i = 0; i < 2; ++i) Drain(&team_, Both()[i], failed_[i]);
  }
  // It has the only node that is left, and the other is stopped.
  void CheckOneStays() {
    CAPTURE(team_.Node(0));
    REQUIRE(Eventually([&] { return Settled(Both()[0], Both()[1]) || Settled(Both()[1], Both()[0]); }));
    const auto evictions = [&] {
      return team_.Evictions(Both()[0], "NodeFailures") + team_.Evictions(Both()[1], "NodeFailures");
    };
    CHECK(Eventually([&] { return evictions() == 1; }));
  }
  void Recover() {
    for (const int node : failed_) team_.Cordon(node, false);
    failed_.clear();
  }
  void CheckBothRun() {
    REQUIRE(Eventually([&] { return BothRun(); }));
  }

 private:
  std::array<std::string, 2> Both() const { return {Cat("a-", round_), Cat("b-", round_)}; }
  bool BothRun() { return team_.Runs(Both()[0], 1) && team_.Runs(Both()[1], 1); }
  bool Settled(const std::string& stays, const std::string& goes) {
    const std::string spare = team_.Node(3 - failed_[0] - failed_[1]);
    return team_.Runs(stays, 1) && NodesOf(&team_, stays) == std::set<std::string>{spare} && team_.Suspended(goes) &&
           team_.HasNoPods(goes);
  }

  Team& team_;
  int round_ = 0;
  std::vector<int> failed_;  // nodes of a and of b
};

}  // namespace

// J5
TEST_CASE("A pod in place of one on a failed node goes to another, or waits with its whole gang until there is one") {
  Team team(Ground::Shared(), "replaced", {Gpus(4), Gpus(4), Gpus(4)}, {.racks = true});
  team.Create("gang", InRack(2, 4));
  REQUIRE(Eventually([&] { return team.Runs("gang", 2); }));
  const auto drain_one = [&] {
    const int node = IndexOf(team, *NodesOf(&team, "gang").begin(), 3);
    Drain(&team, "gang", node);
    return node;
  };
  const int first = drain_one();
  REQUIRE(Eventually([&] { return team.Runs("gang", 2) && !NodesOf(&team, "gang").contains(team.Node(first)); }));
  CHECK(team.Evictions("gang", "NodeFailures") == 0);
  const int second = drain_one();
  REQUIRE(Eventually([&] { return team.Evictions("gang", "NodeFailures") == 1; }));
  REQUIRE(Eventually([&] { return team.Suspended("gang") && team.HasNoPods("gang"); }));
  Ground::Shared().CheckRest();  // for longer than a gang may lack places
  CHECK(team.Suspended("gang"));
  CHECK(team.Evictions("gang", "NodeFailures") == 1);
  team.Cordon(second, false);
  REQUIRE(Eventually([&] { return team.Runs("gang", 2) && !NodesOf(&team, "gang").contains(team.Node(first)); }));
}

// J6
TEST_CASE("Two gangs whose nodes fail at once never get the same place") {
  Teams teams;
  std::vector<Crossed> pairs;
  for (int i = 0; i < 17; ++i) pairs.emplace_back(&teams, i);
  const auto each = [&](void (Crossed::*step)()) {
    for (Crossed& pair : pairs) (pair.*step)();
  };
  for (int round = 0; round < 3; ++round) {  // 51 races
    CAPTURE(round);
    each(&Crossed::Start);
    each(&Crossed::Fail);
    each(&Crossed::CheckOneStays);
    each(&Crossed::Recover);
    each(&Crossed::CheckBothRun);
    for (const char* gang : {"a-", "b-"}) teams.Delete(Cat(gang, round + 1));
  }
}

// J8
TEST_CASE("What runs keeps its places when its Topology, or its flavor, is made anew, with a level more too") {
  Ground& ground = Ground::Shared();
  Team team(ground, "rearranged", {Gpus(4), Gpus(4)}, {.racks = true});
  team.Create("runs", InRack(1, 3));
  REQUIRE(Eventually([&] { return team.Runs("runs", 1); }));
  const std::map<std::string, std::string> nodes = team.Nodes("runs");
  const std::string used = nodes.begin()->second;
  const std::string kueue = "/apis/kueue.x-k8s.io/v1beta2/";
  const auto active = [&] {
    return ground.api().Get(kueue + "clusterqueues/rearranged").json.At("status/conditions").Find("type", "Active");
  };
  std::vector<std::string> levels = {kRackLabel, kHostnameLabel};
  SECTION("the Topology") {
    SECTION("as it was") {}
    SECTION("with a level more") {
      for (const int node : {0, 1}) team.PatchNode(node, R"({"metadata": {"labels": {"example.com/block": "b"}}})");
      levels.insert(levels.begin(), "example.com/block");
    }
    REQUIRE(ground.api().Delete(kueue + "topologies/rearranged").ok());
    REQUIRE(Eventually([&] { return active()["reason"].Str() == "TopologyNotFound"; }));
    REQUIRE(ground.cluster().ApplyText(TopologyOf("rearranged", levels)).ok());
  }
  SECTION("the flavor") {
    const Json flavor = ground.api().Get(kueue + "resourceflavors/rearranged").json;
    REQUIRE(ground.api().Delete(kueue + "resourceflavors/rearranged").ok());
    REQUIRE(Eventually([&] { return active()["reason"].Str() == "FlavorNotFound"; }));
    REQUIRE(ground.cluster()
                .ApplyText("apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: rearranged}\n"
                           "spec: {nodeLabels: {muster.dev/team: rearranged}, topologyName: rearranged}\n")
                .ok());
  }
  REQUIRE(Eventually([&] { return active()["status"].Str() == "True"; }));
  // One GPU is left beside it, and four are on the other node.
  team.Create("five", InRack(1, 5));
  team.Create("twos", InRack(3, 2));
  CheckWaits(&team, "twos",
             "2 of 3 pods have a place: the largest free block of nvidia.com/gpu on flavor rearranged is 1");
  team.Create("two", InRack(2, 2));
  REQUIRE(Eventually([&] { return team.Runs("two", 2); }));
  CHECK_FALSE(NodesOf(&team, "two").contains(used));
  team.Create("one", InRack(1, 1));
  REQUIRE(Eventually([&] { return team.Runs("one", 1); }));
  CHECK(NodesOf(&team, "one") == std::set<std::string>{used});
  CHECK(team.Nodes("runs") == nodes);
  CHECK(team.Suspended("twos"));
}

// J11
TEST_CASE("The pod sets of one gang have places beside each other, or none of them has") {
  Team team(Ground::Shared(), "combined", {Gpus(4), Gpus(4)}, {.racks = true});
  // Each pod set alone has room on either node, and so have both, if the smaller pods do not go to the driver's node.
  const auto create = [&](const std::string& name, int workers_of) {
    team.CreateWorkload(name, {{"driver", InRack(1, 3)}, {"workers", InRack(2, workers_of)}});
  };
  const auto condition = [&](const std::string& name, const char* type) { return team.Condition(name, type); };
  create("conflicting", 3);
  REQUIRE(Eventually([&] { return condition("conflicting", "QuotaReserved")["status"].Str() == "False"; }));
  CHECK(condition("conflicting", "QuotaReserved")["message"].Str().find("pod set workers") != std::string::npos);
  create("fitting", 2);
  REQUIRE(Eventually([&] { return condition("fitting", "Admitted")["status"].Str() == "True"; }));
  // One GPU is left, on the driver's node.
  team.Create("two", InRack(1, 2));
  team.Create("one", InRack(1, 1));
  REQUIRE(Eventually([&] { return team.Runs("one", 1); }));
  CheckWaits(&team, "two",
             "0 of 1 pods have a place: the largest free block of nvidia.com/gpu on flavor combined is 1");
  team.DeleteWorkload("fitting");
  team.DeleteWorkload("conflicting");
  REQUIRE(Eventually([&] { return team.Runs("two", 1); }));
}

}  // namespace muster::cluster
