// What nodes have, and what becomes of them: devices, pod slots, cordons, taints, readiness, and nodes that two flavors
// share. The faults are the K cases of user_pains (i) and (j).
#include <catch2/catch.hpp>
#include <thread>

#include "fixture/text.h"
#include "team.h"

namespace muster::cluster {
namespace {

bool Waits(Team* team, const std::string& job, const std::string& why) {
  return Eventually([&] { return team->WaitsFor(job).find(why) != std::string::npos; });
}

// Twice as long as a gang may lack places.
void Settle() { std::this_thread::sleep_for(std::chrono::seconds(4)); }

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

// J1
TEST_CASE("A node takes as many pods as it may, whatever else it has") {
  Amounts three = Gpus(8);
  three["pods"] = "3";
  Team team(Ground::Shared(), "slots", {three});
  team.Create("two", {.pods = 2});
  REQUIRE(Eventually([&] { return team.Runs("two", 2); }));
  team.Create("more", {.pods = 2});
  REQUIRE(Waits(&team, "more", "1 of 2 pods have a place: the largest free block of pods on flavor slots is 0"));
  team.AddNode(three);
  REQUIRE(Eventually([&] { return team.Runs("more", 2); }));
}

// J2, J13: nor do the others suffer by it.
TEST_CASE("Nodes that are cordoned or tainted have no room, and the others have") {
  Team team(Ground::Shared(), "unusable", {Gpus(4), Gpus(4), Gpus(4)});
  team.Cordon(0);
  team.PatchNode(1, R"({"spec": {"taints": [{"key": "gpu", "value": "broken", "effect": "NoSchedule"}]}})");
  team.Create("two", {.pods = 2, .each = Gpus(4)});
  REQUIRE(Waits(&team, "two", "1 of 2 pods have a place"));
  team.Create("one", {.pods = 1, .each = Gpus(4)});
  REQUIRE(Eventually([&] { return team.Runs("one", 1); }));
  CHECK(team.Nodes("one").begin()->second == team.Node(2));
  team.PatchNode(1, R"({"spec": {"taints": null}})");
  team.Cordon(0, false);
  REQUIRE(Eventually([&] { return team.Runs("two", 2); }));
}

// J2, J4
TEST_CASE("A node that is not ready for a while keeps its pods in the books, and takes no new ones") {
  Ground& ground = Ground::Shared();
  Team team(ground, "blip", {Gpus(4)});
  team.Create("gang", {.pods = 2});
  REQUIRE(Eventually([&] { return team.Runs("gang", 2); }));
  const std::map<std::string, std::string> nodes = team.Nodes("gang");
  ground.cluster().Part(Component::kKwok).Pause();  // it would say at once that it is ready
  const ApiResponse patched =
      ground.api().Call("PATCH", Cat("/api/v1/nodes/", team.Node(0), "/status"),
                        R"({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Blip"}]}})",
                        "application/strategic-merge-patch+json");
  INFO(patched.text);
  REQUIRE(patched.ok());
  team.Create("late", {.pods = 1});
  REQUIRE(Waits(&team, "late", "0 of 1 pods have a place"));
  Settle();
  CHECK(team.Nodes("gang") == nodes);
  CHECK(team.Evictions("gang", "NodeFailures") == 0);
  ground.cluster().Part(Component::kKwok).Resume();
  REQUIRE(Eventually([&] { return team.Runs("late", 1); }));
  CHECK(team.Nodes("gang") == nodes);
  // Two of four are the gang's still, and one is the other's.
  team.Create("last", {.pods = 2});
  REQUIRE(Waits(&team, "last", "1 of 2 pods have a place"));
}

// J9
TEST_CASE("A node that two flavors have is given once") {
  Ground& ground = Ground::Shared();
  Team owner(ground, "owner", {Gpus(4)});
  Team guest(ground, "guest", {}, {.nodes_of = "owner"});
  owner.Create("three", {.pods = 3});
  REQUIRE(Eventually([&] { return owner.Runs("three", 3); }));
  guest.Create("two", {.pods = 2});
  REQUIRE(Waits(&guest, "two", "1 of 2 pods have a place"));
  owner.Delete("three");
  REQUIRE(Eventually([&] { return guest.Runs("two", 2); }));
}

// J12
TEST_CASE("Gangs of two queues that come at once are both served where there is room for both") {
  Ground& ground = Ground::Shared();
  Team left(ground, "left", {Gpus(2), Gpus(2)});
  Team right(ground, "right", {}, {.nodes_of = "left"});
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    const Gang brief = {.pods = 2, .annotations = {{"muster.dev/run-seconds", "600"}}};
    const std::string job = Cat("gang-", round);
    ApiResponse created;
    std::thread other([&] { created = right.TryCreate(job, brief); });
    const ApiResponse created_too = left.TryCreate(job, brief);
    other.join();
    REQUIRE((created.status == 201 && created_too.status == 201));
    REQUIRE(Eventually([&] { return left.Runs(job, 2) && right.Runs(job, 2); }));
    left.Delete(job);
    right.Delete(job);
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
  Team team(ground, "several", {of("4", "8"), of("4", "8")},
            {.quota = of("1000", "1000"), .preemption = "LowerPriority"});
  // On one node the GPUs are taken, and most of its cpu by another; on the other node one has all.
  team.Create("gpus", {.pods = 1, .each = of("4", "2")});
  REQUIRE(Eventually([&] { return team.Runs("gpus", 1); }));
  const bool first = team.Nodes("gpus").begin()->second == team.Node(0);
  team.Cordon(first ? 1 : 0);
  team.Create("cpus", {.pods = 1, .each = of("0", "6")});
  REQUIRE(Eventually([&] { return team.Runs("cpus", 1); }));
  // 4 GPUs and 7 cpus are nowhere, and on that node only without both.
  team.Create("urgent", {.pods = 1, .each = of("4", "7"), .priority = "urgent"});
  REQUIRE(Eventually([&] { return team.Runs("urgent", 1); }));
  CHECK(team.Suspended("gpus"));
  CHECK(team.Suspended("cpus"));
  CHECK(team.Evictions("gpus", "Preempted") == 1);
  CHECK(team.Evictions("cpus", "Preempted") == 1);
}

}  // namespace muster::cluster
