// Late surprises: what is lost after a gang was admitted and before its pods are on nodes, or from under them. The gang
// gets the next places, or is stopped whole in two seconds (MachinesConfig), and does not go round.
#include <catch2/catch.hpp>
#include <thread>

#include "fixture/text.h"
#include "team.h"

namespace muster::cluster {
namespace {

// The scheduler stands still: what happens meanwhile happens between decision and binding.
class NoBinding {
 public:
  explicit NoBinding(Ground* ground) : scheduler_(ground->cluster().Part(Component::kScheduler)) { scheduler_.Pause(); }
  ~NoBinding() { scheduler_.Resume(); }
  NoBinding(const NoBinding&) = delete;
  NoBinding& operator=(const NoBinding&) = delete;

 private:
  Process& scheduler_;
};

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
  REQUIRE(Eventually([&] { return team->HasNoPods(job); }, std::chrono::seconds(150)));
  std::string told;
  const bool waits = Eventually([&] {
    told = team->WaitsFor(job);
    return told.find(why) != std::string::npos;
  });
  INFO("told: " << told);
  REQUIRE(waits);
  const Json evicted = team->WorkloadOf(job).At("status/conditions").Find("type", "Evicted");
  CHECK(evicted["reason"].Str() == "NodeFailures");
  std::this_thread::sleep_for(std::chrono::seconds(5));  // more than two times that a gang may lack places
  CHECK(team->Suspended(job));
  CHECK(team->Evictions(job, "NodeFailures") == 1);
}

}  // namespace

TEST_CASE("A node that is cordoned between decision and binding: the gang has the next one before anybody else") {
  Ground& ground = Ground::Shared();
  Team team(ground, "moved", {Gpus(4), Gpus(4), Gpus(4)});
  {
    NoBinding still(&ground);
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
    NoBinding still(&ground);
    team.Create("pair", {.pods = 2, .each = Gpus(4)});
    REQUIRE(Eventually([&] { return team.Nodes("pair").size() == 2; }));
    team.DeleteNode(1);
    REQUIRE(Eventually([&] { return Lacking(team, "lost") == 1; }, std::chrono::seconds(2)));
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
    NoBinding still(&ground);
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
