// Late surprises: what is lost after a gang was admitted and before its pods are on nodes, or from under them. The gang
// gets the next places, or is stopped whole in two seconds (MachinesConfig), and does not go round.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "fixture/text.h"
#include "team.h"

namespace muster::cluster {
namespace {

// While it stands still, what happens happens between decision and binding.
Process* Scheduler(Ground* ground) { return &ground->cluster().Part(Component::kScheduler); }

double Lacking(const Team& team, const std::string& queue) {
  return team.ground().muster().Metric("muster_workloads_lacking_places", {{"cluster_queue", queue}}).value_or(-1);
}

double Stopped(const Team& team, const std::string& queue) {
  return team.ground()
      .muster()
      .Metric("kueue_evicted_workloads_total", {{"cluster_queue", queue}, {"reason", "NodeFailures"}})
      .value_or(0);
}

// It was stopped for want of places, once, and waits for as many as that.
void CheckStoppedOnce(Team* team, const std::string& job, const std::string& why) {
  // A scheduler that was stopped may still bind to a node that has gone meanwhile; such a pod is deleted by the pod
  // garbage collector alone, which comes every 20 s to what it has missed for 40 s.
  const bool gone = Eventually([&] { return team->HasNoPods(job); }, std::chrono::seconds(150));
  if (!gone) {
    const std::string left = team->ground().api().Get(team->Path("pods")).json["items"].Dump();
    FAIL("left: " << left << "\nof: " << team->Job(job).Dump() << "\n" << team->ground().Diagnosis());
  }
  std::string told;
  const bool waits = Eventually([&] {
    told = team->WaitsFor(job);
    return told.find(why) != std::string::npos;
  });
  INFO("told: " << told);
  REQUIRE(waits);
  const Json evicted = team->WorkloadOf(job).At("status/conditions").Find("type", "Evicted");
  CHECK(evicted["reason"].Str() == "NodeFailures");
  team->ground().CheckRest();  // for longer than a gang may lack places
  CHECK(team->Suspended(job));
  CHECK(team->Evictions(job, "NodeFailures") == 1);
}

}  // namespace

TEST_CASE("A node that is cordoned between decision and binding: the gang has the next one before anybody else") {
  Ground& ground = Ground::Shared();
  Team team(ground, "moved", {Gpus(4), Gpus(4), Gpus(4)});
  {
    const Still still(Scheduler(&ground));
    team.Create("pair", {.pods = 2, .each = Gpus(4)});
    REQUIRE(Eventually([&] { return team.Nodes("pair").size() == 2; }));
    team.Cordon(0);
    team.Create("late", {.pods = 1, .each = Gpus(4)});
    REQUIRE(Eventually([&] { return team.WaitsFor("late").find("0 of 1 pods have a place") != std::string::npos; }));
  }
  REQUIRE(Eventually([&] { return team.Runs("pair", 2); }));
  CHECK(team.Evictions("pair", "NodeFailures") == 0);
  team.Cordon(0, false);
  REQUIRE(Eventually([&] { return team.Runs("late", 1); }));
}

TEST_CASE("A node that is lost between decision and binding, without another: the gang is stopped whole, once") {
  Ground& ground = Ground::Shared();
  Team team(ground, "lost", {Gpus(4), Gpus(4)});
  {
    const Still still(Scheduler(&ground));
    team.Create("pair", {.pods = 2, .each = Gpus(4)});
    REQUIRE(Eventually([&] { return team.Nodes("pair").size() == 2; }));
    team.DeleteNode(1);
    REQUIRE(Eventually([&] { return Lacking(team, "lost") == 1; }, std::chrono::seconds(20)));
  }
  CheckStoppedOnce(&team, "pair", "1 of 2 pods have a place");
  CHECK(Lacking(team, "lost") == 0);
  CHECK(Stopped(team, "lost") == 1);
  team.AddNode(Gpus(4));
  REQUIRE(Eventually([&] { return team.Runs("pair", 2); }));
}

TEST_CASE("A stranger's pod that takes the room between decision and binding") {
  Ground& ground = Ground::Shared();
  Team team(ground, "taken", {Gpus(4)});
  {
    const Still still(Scheduler(&ground));
    team.Create("gang", {.pods = 4});
    REQUIRE(Eventually([&] { return team.Nodes("gang").size() == 4; }));
    team.CreateBare("stranger", Gpus(1), 0);
    // Before the scheduler binds what it has not seen to be too much: kwok, unlike a kubelet, takes it.
    REQUIRE(Eventually([&] { return team.Suspended("gang"); }));
  }
  CheckStoppedOnce(&team, "gang", "3 of 4 pods have a place");
  team.DeletePod("stranger");
  REQUIRE(Eventually([&] { return team.Runs("gang", 4); }));
}

// D8, D11
TEST_CASE(
    "A gang that a drain and a stranger strand below its size is stopped whole; with a place in time it goes on") {
  Ground& ground = Ground::Shared();
  Team team(ground, "drained", {Gpus(4), Gpus(4), Gpus(4)});
  team.Create("gang", {.pods = 2, .each = Gpus(4)});
  REQUIRE(Eventually([&] { return team.Runs("gang", 2); }));
  const auto drain = [&](bool stranger) {
    const std::map<std::string, std::string> pods = team.Nodes("gang");
    int spare = 0;
    for (int node = 0; node < 3; ++node) {
      bool used = false;
      for (const auto& [pod, on] : pods) used = used || on == team.Node(node);
      if (!used) spare = node;
    }
    if (stranger) team.CreateBare("stranger", Gpus(4), spare);
    const auto& [pod, on] = *pods.begin();
    for (int node = 0; node < 3; ++node) {
      if (on == team.Node(node)) team.Cordon(node);
    }
    team.DeletePod(pod);
  };
  drain(false);
  REQUIRE(Eventually([&] { return team.Runs("gang", 2); }));
  CHECK(team.Evictions("gang", "NodeFailures") == 0);
  for (int node = 0; node < 3; ++node) team.Cordon(node, false);
  drain(true);
  CheckStoppedOnce(&team, "gang", " of 2 pods have a place");
  team.DeletePod("stranger");
  REQUIRE(Eventually([&] { return team.Runs("gang", 2); }));
}

// A pod that was let go to a node has its name, and can be bound to no other.
TEST_CASE("A node that is lost after a pod was let go to it: the gang is stopped whole, and has other nodes") {
  const bool gone = GENERATE(false, true);
  CAPTURE(gone);
  Ground& ground = Ground::Shared();
  Team team(ground, gone ? "let-go-gone" : "let-go", {Gpus(4), Gpus(4), Gpus(4)}, {.racks = true});
  const auto let_go = [&](const std::string& pod) {
    const Json spec = team.Pod(pod)["spec"];
    const std::string node = spec["nodeSelector"][kHostnameLabel].Str();
    return spec["schedulingGates"].Items().empty() ? node : std::string();
  };
  int lost = -1;
  {
    const Still still(Scheduler(&ground));
    team.Create("pair", InRack({.pods = 2, .each = Gpus(4)}));
    REQUIRE(Eventually([&] {
      const std::map<std::string, std::string> pods = team.Nodes("pair");
      return pods.size() == 2 &&
             std::all_of(pods.begin(), pods.end(), [&](const auto& pod) { return !let_go(pod.first).empty(); });
    }));
    const std::string on = let_go(team.Nodes("pair").begin()->first);
    for (int node = 0; node < 3; ++node) {
      if (team.Node(node) == on) lost = node;
    }
    if (gone) {
      team.DeleteNode(lost);
    } else {
      team.Cordon(lost);
    }
    REQUIRE(Eventually([&] { return team.Evictions("pair", "NodeFailures") == 1; }, std::chrono::seconds(20)));
  }
  REQUIRE(Eventually([&] { return team.Runs("pair", 2); }));
  for (const auto& [pod, node] : team.Nodes("pair")) CHECK(node != team.Node(lost));
  CHECK(team.Evictions("pair", "NodeFailures") == 1);
}

// D8. The job controller takes seconds to make another pod, so that the stranger has the node in most rounds; what is
// raced is its coming with all that Muster does of the deletion and the cordon.
TEST_CASE("A stranger that races with a drained gang's pod for the last node: the gang is whole, or goes whole") {
  constexpr int kTeams = 10;
  constexpr int kRounds = 5;
  const Teams teams(Ground::Shared(), "contested", kTeams, {Gpus(4), Gpus(4), Gpus(4)});
  int stayed = 0;
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const std::string gang = Cat("gang-", round);
    const std::string stranger = Cat("stranger-", round);
    for (Team* team : teams) team->Create(gang, {.pods = 2, .each = Gpus(4)});
    std::vector<int> drained;
    for (Team* team : teams) {
      REQUIRE(Eventually([&] { return team->Runs(gang, 2); }));
      const std::string on = team->Nodes(gang).begin()->second;
      for (int node = 0; node < 3; ++node) {
        if (team->Node(node) == on) drained.push_back(node);
      }
      team->Cordon(drained.back());
    }
    std::atomic<int> done = 0;
    std::vector<std::thread> threads;
    int turn = round;
    for (Team* team : teams) {
      // Before the pod is deleted, and into each part of what follows.
      threads.emplace_back([&, team, pod = team->Nodes(gang).begin()->first, turn] {
        const auto create = [&] { done += team->TryCreateBare(stranger, Gpus(4)).status == 201 ? 1 : 0; };
        if (turn == 0) create();
        done += team->ground().api().Delete(team->Path("pods/" + pod) + "?gracePeriodSeconds=0").ok() ? 1 : 0;
        std::this_thread::sleep_for(std::chrono::milliseconds(turn * 6));
        if (turn != 0) create();
      });
      turn += kRounds;
    }
    for (std::thread& thread : threads) thread.join();
    REQUIRE(done == 2 * kTeams);
    for (Team* team : teams) {
      const auto took = [&] { return !team->Pod(stranger).At("spec/nodeName").Str().empty(); };
      const auto gone = [&] { return took() && team->Suspended(gang) && team->HasNoPods(gang); };
      REQUIRE(Eventually([&] { return team->Runs(gang, 2) || gone(); }));
      const bool stays = team->Runs(gang, 2);
      stayed += stays ? 1 : 0;
      CHECK(took() != stays);
      CHECK(Eventually([&] { return team->Evictions(gang, "NodeFailures") == (stays ? 0 : 1); }));
    }
    for (Team* team : teams) team->DeletePod(stranger);
    auto node = drained.begin();
    for (Team* team : teams) {
      REQUIRE(Eventually([&] { return team->Runs(gang, 2); }));
      team->Cordon(*node++, false);
    }
    teams.Delete(gang);
  }
  CHECK(stayed < kTeams * kRounds);
}

// D11. The test makes the pods, as the controller of some other kind of job would.
TEST_CASE("A gang of two roles that loses a pod of one goes whole, where that has no place any more") {
  Team team(Ground::Shared(), "roles", {Gpus(4), Gpus(4)});
  team.CreateWorkload("gang", {{"a", {.pods = 2, .each = Gpus(2)}}, {"b", {.pods = 1, .each = Gpus(4)}}});
  REQUIRE(Eventually([&] { return team.Condition("gang", "Admitted")["status"].Str() == "True"; }));
  for (const char* pod : {"a-0", "a-1"}) team.CreatePodOf("gang", "a", pod, Gpus(2), 0);
  team.CreatePodOf("gang", "b", "b-0", Gpus(4), 1);
  for (const char* pod : {"a-0", "a-1", "b-0"}) {
    REQUIRE(Eventually([&] { return team.Pod(pod).At("status/phase").Str() == "Running"; }));
  }
  // While there is a place for it, its room is nobody else's, and the gang stays.
  team.DeletePod("b-0");
  team.Create("other", {.pods = 1, .each = Gpus(4)});
  REQUIRE(Eventually([&] { return team.WaitsFor("other").find("0 of 1 pods have a place") != std::string::npos; }));
  team.ground().CheckRest();  // for longer than a gang may lack places
  CHECK(team.Condition("gang", "Evicted")["status"].Str() != "True");
  team.CreatePodOf("gang", "b", "b-1", Gpus(4), 1);
  REQUIRE(Eventually([&] { return team.Pod("b-1").At("status/phase").Str() == "Running"; }));
  team.Cordon(1);
  team.DeletePod("b-1");
  REQUIRE(Eventually([&] { return team.Condition("gang", "Evicted")["reason"].Str() == "NodeFailures"; }));
  team.DeleteWorkload("gang");
}

// H6: more often than a gang may be late (MachinesConfig).
TEST_CASE("A gang that machines fail again and again is queued each time, and runs when they are back") {
  Team team(Ground::Shared(), "unlucky", {Gpus(4)});
  team.Create("gang", {.pods = 1, .each = Gpus(4)});
  for (int times = 1; times <= 3; ++times) {
    CAPTURE(times);
    REQUIRE(Eventually([&] { return team.Runs("gang", 1); }));
    team.Cordon(0);
    team.DeletePod(team.Nodes("gang").begin()->first);
    REQUIRE(Eventually([&] { return team.Evictions("gang", "NodeFailures") == times; }));
    REQUIRE(Eventually([&] { return team.WaitsFor("gang").find("0 of 1 pods have a place") != std::string::npos; }));
    CHECK(team.WorkloadOf("gang").At("spec/active").Bool(true));
    team.Cordon(0, false);
  }
  REQUIRE(Eventually([&] { return team.Runs("gang", 1); }));
}

TEST_CASE("Another process stops what it finds stranded") {
  Ground ground;
  Team team(ground, "found", {Gpus(4), Gpus(4)});
  team.Create("gang", {.pods = 2, .each = Gpus(4)});
  REQUIRE(Eventually([&] { return team.Runs("gang", 2); }));
  ground.muster().process().Kill();
  const std::string pod = team.Nodes("gang").begin()->first;
  for (int node = 0; node < 2; ++node) {
    if (team.Nodes("gang").begin()->second == team.Node(node)) team.Cordon(node);
  }
  team.DeletePod(pod);
  ground.Restart({.config = MachinesConfig(true)});
  // The lease of the one that was killed ends after 15 s, and its writes after 6 s more.
  CheckStoppedOnce(&team, "gang", " of 2 pods have a place");
}

}  // namespace muster::cluster
