// Whose pods have places on nodes starts, and who has not is told what there is. Numbers are worked out by hand from
// the nodes of each case.
#include <catch2/catch.hpp>

#include "team.h"

namespace muster::cluster {
namespace {

constexpr int kAll = 4;   // GPUs of a node
constexpr int kHalf = 2;  // that somebody else has

// Two nodes of four GPUs, of each of which a pod of no queue has two.
void MakeFragments(Team* team) {
  team->CreateBare("left", Gpus(kHalf), 0);
  team->CreateBare("right", Gpus(kHalf), 1);
}

}  // namespace

// user_pains D2, D3: the sum fits, and no node does.
TEST_CASE("A pod of four waits while two nodes have two free each, and quota alone would have let it start") {
  Ground ground;
  Team team(ground, "fragments", {Gpus(kAll), Gpus(kAll)}, {.quota = Gpus(2 * kAll)});
  MakeFragments(&team);
  team.Create("whole", {.pods = 1, .each = Gpus(kAll)});
  // It names the emptier node; of two that are alike the first.
  REQUIRE(Eventually([&] {
    return team.WaitsFor("whole").find(
               "0 of 1 pods have a place: the largest free block of nvidia.com/gpu on flavor "
               "fragments is 2, on node fragments-0-0; 4 needed") != std::string::npos;
  }));
  CHECK(team.Suspended("whole"));
  // It holds nothing: who asks for less starts behind it.
  team.Create("small", {.pods = 2, .each = Gpus(kHalf)});
  REQUIRE(Eventually([&] { return team.Runs("small", 2); }));
  CHECK(team.Suspended("whole"));
  team.Delete("small");
  CHECK(team.Suspended("whole"));
  team.DeletePod("right");
  REQUIRE(Eventually([&] { return team.Runs("whole", 1); }));
  CHECK(team.Nodes("whole").begin()->second == team.Node(1));

  // The same with machines off: quota has four of eight GPUs left, and its pod waits for a node.
  team.Delete("whole");
  ground.Restart({.config = MachinesConfig(false)});
  team.CreateBare("again", Gpus(kHalf), 1);
  team.Create("unseen", {.pods = 1, .each = Gpus(kAll)});
  REQUIRE(Eventually([&] { return !team.Suspended("unseen") && team.Nodes("unseen").size() == 1; }));
  CHECK(team.Nodes("unseen").begin()->second.empty());
}

}  // namespace muster::cluster
