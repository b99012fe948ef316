// What nodes have, and what becomes of them: devices, pod slots, cordons, taints, readiness, and nodes that two flavors
// share. The faults are the K cases of user_pains (i) and (j).
#include <atomic>
#include <catch2/catch.hpp>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "fixture/text.h"
#include "team.h"

namespace muster::cluster {
namespace {

bool Waits(Team* team, const std::string& job, const std::string& why) {
  return Eventually([&] { return team->WaitsFor(job).find(why) != std::string::npos; });
}

// Two teams with the same nodes, each with a flavor of its own.
struct Pair {
  Team& left;
  Team& right;
};

// Their races: fifty, all pairs at once.
constexpr int kPairs = 10;
constexpr int kRounds = 5;

std::vector<Pair> Pairs(Teams* teams, const std::vector<Amounts>& nodes, bool racks) {
  std::vector<Pair> pairs;
  for (int i = 0; i < kPairs; ++i) {
    const std::string left = Cat("left-", i);
    Team& owner = teams->Add(Ground::Shared(), left, nodes, {.racks = racks});
    pairs.push_back({owner, teams->Add(Ground::Shared(), Cat("right-", i), {}, {.nodes_of = left, .racks = racks})});
  }
  return pairs;
}

// From two sides at once.
void CreateInBoth(const std::vector<Pair>& pairs, const std::string& job, const Gang& gang) {
  std::atomic<size_t> created = 0;
  std::thread other([&] {
    for (const Pair& pair : pairs) created += pair.right.TryCreate(job, gang).status == 201 ? 1 : 0;
  });
  for (const Pair& pair : pairs) created += pair.left.TryCreate(job, gang).status == 201 ? 1 : 0;
  other.join();
  REQUIRE(created == 2 * pairs.size());
}

// Before Muster looks at either. It does not stand still for longer than two requests last, or it would lose its lease.
void CreateUnseenInBoth(const std::vector<Pair>& pairs, const std::string& job, const Gang& gang) {
  for (const Pair& pair : pairs) {
    const Still still(&Ground::Shared().muster().process());
    CreateInBoth({pair}, job, gang);
  }
}

}  // namespace

// (i), MIG: profiles are devices of their own, whatever cards they are cut from.
TEST_CASE("MIG profiles are told apart: a gang of large ones does not start on nodes with small ones left") {
  const std::string small = "nvidia.com/mig-1g.10gb";
  const std::string large = "nvidia.com/mig-7g.80gb";
  Team team(Ground::Shared(), "mig", {{{small, "7"}, {large, "1"}}, {{small, "14"}}},
            {.quota = {{small, "100"}, {large, "100"}}});
  team.Create("two-large", {.pods = 2, .each = {{large, "1"}}});
  REQUIRE(Waits(&team, "two-large",
                "1 of 2 pods have a place: the largest free block of nvidia.com/mig-7g.80gb on flavor mig is 0"));
  team.Create("small", {.pods = 3, .each = {{small, "7"}}});
  REQUIRE(Eventually([&] { return team.Runs("small", 3); }));
  CHECK(team.Suspended("two-large"));
  team.AddNode({{large, "1"}});
  REQUIRE(Eventually([&] { return team.Runs("two-large", 2); }));
}

// I8
TEST_CASE("A node that loses a device takes no pod for all of them, and smaller ones still") {
  Team team(Ground::Shared(), "faulty", {Gpus(8)});
  team.PatchNode(0, R"({"status": {"allocatable": {"nvidia.com/gpu": "7"}}})", "/status");
  team.Create("eight", {.pods = 1, .each = Gpus(8)});
  REQUIRE(
      Waits(&team, "eight", "the largest free block of nvidia.com/gpu on flavor faulty is 7, on node " + team.Node(0)));
  team.Create("four", {.pods = 1, .each = Gpus(4)});
  REQUIRE(Eventually([&] { return team.Runs("four", 1); }));
  team.Delete("four");
  team.PatchNode(0, R"({"status": {"allocatable": {"nvidia.com/gpu": "8"}}})", "/status");
  REQUIRE(Eventually([&] { return team.Runs("eight", 1); }));
}

// I9: quota is free when no pod is active; the device is when the pod has gone.
TEST_CASE("The devices of an evicted gang are nobody's until its pods are gone") {
  Ground& ground = Ground::Shared();
  REQUIRE(ground.cluster()
              .ApplyText("apiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\nmetadata: {name: urgent}\n"
                         "value: 1000\n")
              .ok());
  Team team(ground, "dying", {Gpus(4)}, {.quota = Gpus(4), .preemption = "LowerPriority"});
  team.Create("victim", {.pods = 2,
                         .each = Gpus(2),
                         .annotations = {{"muster.dev/run-seconds", "600"}, {"muster.dev/termination-seconds", "5"}}});
  REQUIRE(Eventually([&] { return team.Runs("victim", 2); }));
  team.Create("urgent", {.pods = 1, .each = Gpus(4), .priority = "urgent"});
  REQUIRE(Eventually([&] { return team.Suspended("victim"); }));
  // Of its pods none is active once they are to go, and each is on the node for five seconds more.
  REQUIRE(Eventually([&] {
    const bool started = !team.Suspended("urgent");  // asked first: pods are gone before it starts, not after
    if (started) CHECK(team.HasNoPods("victim"));
    return started;
  }));
  REQUIRE(Eventually([&] { return team.Runs("urgent", 1); }));
  CHECK(team.Suspended("victim"));
}

// (i), shared GPUs: the shares of a time-sliced card are devices of their own name.
TEST_CASE("Shares of a GPU and whole ones are told apart, and neither is room for the other") {
  const std::string whole = "nvidia.com/gpu";
  const std::string shared = "nvidia.com/gpu.shared";
  Team team(Ground::Shared(), "shares", {{{whole, "4"}, {shared, "4"}}, {{shared, "8"}}, {{whole, "2"}}},
            {.quota = {{whole, "100"}, {shared, "100"}}});
  // With a pod of each on the only node that can have it, two whole ones are left on one node and four shares on
  // another.
  team.Create("wholes", {.pods = 2, .each = {{whole, "4"}}});
  team.Create("shares", {.pods = 2, .each = {{shared, "6"}}});
  REQUIRE(Waits(&team, "wholes",
                "1 of 2 pods have a place: the largest free block of nvidia.com/gpu on flavor shares is 2, on node " +
                    team.Node(2)));
  REQUIRE(Waits(&team, "shares",
                "1 of 2 pods have a place: the largest free block of nvidia.com/gpu.shared on flavor shares is 4, on "
                "node " +
                    team.Node(0)));
  // A pod of both goes where both are, and takes of each what it asks for.
  team.Create("both", {.pods = 1, .each = {{whole, "3"}, {shared, "3"}}});
  REQUIRE(Eventually([&] { return team.Runs("both", 1); }));
  CHECK(team.Nodes("both").begin()->second == team.Node(0));
  team.Create("nine", {.pods = 9, .each = {{shared, "1"}}});
  REQUIRE(Eventually([&] { return team.Runs("nine", 9); }));
  team.Create("one", {.pods = 1, .each = {{shared, "1"}}});
  REQUIRE(Waits(&team, "one", "the largest free block of nvidia.com/gpu.shared on flavor shares is 0"));
  team.Create("three", {.pods = 3, .each = {{whole, "1"}}});
  REQUIRE(Eventually([&] { return team.Runs("three", 3); }));
  for (const char* job : {"both", "nine", "three"}) team.Delete(job);
  CHECK(team.Suspended("wholes"));
  CHECK(team.Suspended("shares"));
  team.AddNode({{whole, "4"}, {shared, "6"}});
  REQUIRE(Eventually([&] { return team.Runs("wholes", 2) && team.Runs("shares", 2); }));
}

// J1. A Job has one pod set, so that two in one gang are a Workload that somebody made; it comes without pods.
TEST_CASE("A node takes as many pods as it may, whatever else it has, those of all pod sets of a gang together") {
  const bool racks = GENERATE(false, true);
  Amounts three = Gpus(8);
  three["pods"] = "3";
  Team team(Ground::Shared(), racks ? "slots-in-rack" : "slots", {three}, {.racks = racks});
  team.Create("two", InRack({.pods = 2}, racks));
  REQUIRE(Eventually([&] { return team.Runs("two", 2); }));
  team.Create("more", InRack({.pods = 2}, racks));
  REQUIRE(Waits(&team, "more", "1 of 2 pods have a place: the largest free block of pods on flavor "));
  team.AddNode(three);
  REQUIRE(Eventually([&] { return team.Runs("more", 2); }));
  team.Delete("more");
  team.Delete("two");

  // Two pods of each set, and three slots on one node.
  team.Cordon(1);
  team.CreateWorkload("roles", {{"a", InRack({.pods = 2}, racks)}, {"b", InRack({.pods = 2}, racks)}});
  REQUIRE(Eventually([&] {
    const std::string told = team.Condition("roles", "QuotaReserved")["message"].Str();
    return told.find("1 of 2 pods have a place") != std::string::npos && told.find("pod set b") != std::string::npos;
  }));
  team.Cordon(1, false);
  REQUIRE(Eventually([&] { return team.Condition("roles", "Admitted")["status"].Str() == "True"; }));
  // Of six slots two are left.
  team.Create("three", InRack({.pods = 3}, racks));
  REQUIRE(Waits(&team, "three", "2 of 3 pods have a place"));
  team.Create("pair", InRack({.pods = 2}, racks));
  REQUIRE(Eventually([&] { return team.Runs("pair", 2); }));
  team.DeleteWorkload("roles");
  REQUIRE(Eventually([&] { return team.Runs("three", 3); }));
}

// J2, J13: nor do the others suffer by it.
TEST_CASE("Nodes that are cordoned or tainted have no room, and the others have") {
  const bool racks = GENERATE(false, true);
  Team team(Ground::Shared(), racks ? "unusable-in-rack" : "unusable", {Gpus(4), Gpus(4), Gpus(4)}, {.racks = racks});
  team.Cordon(0);
  team.PatchNode(1, R"({"spec": {"taints": [{"key": "gpu", "value": "broken", "effect": "NoSchedule"}]}})");
  team.Create("two", InRack({.pods = 2, .each = Gpus(4)}, racks));
  REQUIRE(Waits(&team, "two", "1 of 2 pods have a place"));
  team.Create("one", InRack({.pods = 1, .each = Gpus(4)}, racks));
  REQUIRE(Eventually([&] { return team.Runs("one", 1); }));
  CHECK(team.Nodes("one").begin()->second == team.Node(2));
  team.PatchNode(1, R"({"spec": {"taints": null}})");
  team.Cordon(0, false);
  REQUIRE(Eventually([&] { return team.Runs("two", 2); }));
}

// J2, J4
TEST_CASE("A node that is not ready for a while keeps its pods in the books, and takes no new ones") {
  Ground& ground = Ground::Shared();
  const bool racks = GENERATE(false, true);
  Team team(ground, racks ? "blip-in-rack" : "blip", {Gpus(4)}, {.racks = racks});
  team.Create("gang", InRack({.pods = 2}, racks));
  REQUIRE(Eventually([&] { return team.Runs("gang", 2); }));
  const std::map<std::string, std::string> nodes = team.Nodes("gang");
  const auto assignment = [&] { return team.WorkloadOf("gang").At("status/admission/podSetAssignments").Dump(); };
  const std::string assigned = assignment();
  CHECK((assigned.find(team.Node(0)) != std::string::npos) == racks);
  ground.cluster().Part(Component::kKwok).Pause();  // it would say at once that it is ready
  const ApiResponse patched =
      ground.api().Call("PATCH", Cat("/api/v1/nodes/", team.Node(0), "/status"),
                        R"({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Blip"}]}})",
                        "application/strategic-merge-patch+json");
  INFO(patched.text);
  REQUIRE(patched.ok());
  team.Create("late", InRack({.pods = 1}, racks));
  REQUIRE(Waits(&team, "late", "0 of 1 pods have a place"));
  // For longer than a gang may lack places, and not for so long that pods leave a node which is not heard of.
  static_assert(Ground::kRestPatience < std::chrono::seconds(300), "what pods tolerate, unless they say otherwise");
  ground.CheckRest();
  CHECK(team.Nodes("gang") == nodes);
  CHECK(assignment() == assigned);
  CHECK(team.Evictions("gang", "NodeFailures") == 0);
  ground.cluster().Part(Component::kKwok).Resume();
  REQUIRE(Eventually([&] { return team.Runs("late", 1); }));
  CHECK(team.Nodes("gang") == nodes);
  CHECK(assignment() == assigned);
  // Two of four are the gang's still, and one is the other's.
  team.Create("last", InRack({.pods = 2}, racks));
  REQUIRE(Waits(&team, "last", "1 of 2 pods have a place"));
}

// J9
TEST_CASE("A node that two flavors have is given once, also to gangs that come at once") {
  const bool racks = GENERATE(false, true);
  Teams teams;
  const std::vector<Pair> pairs = Pairs(&teams, {Gpus(4)}, racks);
  const Gang three = InRack({.pods = 3}, racks);
  // Sixty races with both.
  for (int round = 0; round < 3; ++round) {
    CAPTURE(racks, round);
    const std::string job = Cat("gang-", round);
    CreateInBoth(pairs, job, three);
    std::vector<std::pair<Team*, std::string>> won;
    std::vector<std::pair<Team*, std::string>> lost;
    for (const auto& [left, right] : pairs) {
      Team* sides[] = {&left, &right};
      REQUIRE(Eventually([&] { return sides[0]->Runs(job, 3) || sides[1]->Runs(job, 3); }));
      const bool left_won = sides[0]->Runs(job, 3);
      Team& loser = *sides[left_won ? 1 : 0];
      REQUIRE(Waits(&loser, job, "1 of 3 pods have a place"));
      CHECK(loser.Suspended(job));
      CHECK(loser.HasNoPods(job));
      CHECK(loser.Evictions(job, "NodeFailures") == 0);
      won.emplace_back(sides[left_won ? 0 : 1], job);
      lost.emplace_back(&loser, job);
    }
    DeleteJobs(won);
    for (const auto& of : lost) REQUIRE(Eventually([&] { return of.first->Runs(job, 3); }));
    DeleteJobs(lost);
  }
}

// J12: of equal gangs the one that looks second gets what the first has left, not what it had left itself.
TEST_CASE("Gangs of two queues that come at once, each of a rack's size, have a rack each") {
  Teams teams;
  const std::vector<Pair> pairs = Pairs(&teams, {}, true);
  for (const Pair& pair : pairs) {
    for (const char* rack : {"a", "b"}) pair.left.AddNodes(2, Gpus(2), rack);
  }
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const std::string job = Cat("gang-", round);
    (round % 2 == 0 ? CreateUnseenInBoth : CreateInBoth)(pairs, job, InRack({.pods = 4}));
    for (const Pair& pair : pairs) {
      REQUIRE(Eventually([&] { return pair.left.Runs(job, 4) && pair.right.Runs(job, 4); }));
      // Its first two nodes are those of rack a.
      const auto rack_of = [&](Team& team) {
        std::set<bool> in_a;
        for (const auto& [pod, node] : team.Nodes(job)) {
          in_a.insert(node == pair.left.Node(0) || node == pair.left.Node(1));
        }
        return in_a;
      };
      const std::set<bool> left = rack_of(pair.left);
      const std::set<bool> right = rack_of(pair.right);
      CHECK(left.size() == 1);
      CHECK(right.size() == 1);
      CHECK(left != right);
      CHECK(pair.left.Evictions(job, "NodeFailures") + pair.right.Evictions(job, "NodeFailures") == 0);
    }
    teams.Delete(job);
  }
}

// J15
TEST_CASE("Preemption goes on until a node has all that the pod asks for") {
  Ground& ground = Ground::Shared();
  REQUIRE(ground.cluster()
              .ApplyText("apiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\nmetadata: {name: urgent}\n"
                         "value: 1000\n")
              .ok());
  const auto of = [](const char* gpus, const char* cpu) { return Amounts{{"nvidia.com/gpu", gpus}, {"cpu", cpu}}; };
  const bool racks = GENERATE(false, true);
  Team team(ground, racks ? "several-in-rack" : "several", {of("4", "8"), of("4", "8")},
            {.quota = of("1000", "1000"), .preemption = "LowerPriority", .racks = racks});
  // On one node the GPUs are taken, and most of its cpu by another; on the other node one has all.
  team.Create("gpus", InRack({.pods = 1, .each = of("4", "2")}, racks));
  REQUIRE(Eventually([&] { return team.Runs("gpus", 1); }));
  const bool first = team.Nodes("gpus").begin()->second == team.Node(0);
  team.Cordon(first ? 1 : 0);
  team.Create("cpus", InRack({.pods = 1, .each = of("0", "6")}, racks));
  REQUIRE(Eventually([&] { return team.Runs("cpus", 1); }));
  // 4 GPUs and 7 cpus are nowhere, and on that node only without both.
  team.Create("urgent", InRack({.pods = 1, .each = of("4", "7"), .priority = "urgent"}, racks));
  REQUIRE(Eventually([&] { return team.Runs("urgent", 1); }));
  CHECK(team.Suspended("gpus"));
  CHECK(team.Suspended("cpus"));
  CHECK(team.Evictions("gpus", "Preempted") == 1);
  CHECK(team.Evictions("cpus", "Preempted") == 1);
}

}  // namespace muster::cluster
