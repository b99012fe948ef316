// Gangs that are moved so that another has the rack, or the node, that it needs. The fault is user_pains J14. Who is
// where, and what it costs to move whom, is counted by hand from the nodes of each case.
#include <absl/strings/str_replace.h>

#include <catch2/catch.hpp>
#include <set>

#include "fixture/text.h"
#include "team.h"

namespace muster::cluster {
namespace {

std::string Config() {
  const std::string config =
      absl::StrReplaceAll(MachinesConfig(true), {{"  machines:", "  defragmentAfter: 1s\n  machines:"}});
  REQUIRE(config != MachinesConfig(true));
  return config;
}

Gang Movable(Gang gang) {
  gang.job_annotations = {{"muster.dev/movable", "true"}};
  return gang;
}

Gang InRack(int pods) {
  return {.pods = pods,
          .each = Gpus(1),
          .annotations = {{"muster.dev/run-seconds", "600"}, {"kueue.x-k8s.io/podset-required-topology", kRackLabel}}};
}

// Racks of two nodes with 4 GPUs each, numbered 0 and 1, and 2 and 3. The first has `x` (3 pods), the other `y` (4);
// there is quota for these and a gang of 8.
class HalfUsed {
 public:
  HalfUsed(Ground& ground, const std::string& name) : team_(ground, name, {}, {.quota = Gpus(15), .racks = true}) {
    team_.AddNodes(2, Gpus(4), "a");
    team_.AddNodes(2, Gpus(4), "b");
    Start("x", Movable(InRack(3)));
    Start("filler", InRack(5));  // so that `y` has to go to the other rack
    Start("y", Movable(InRack(4)));
    team_.Delete("filler");
    x_was_on_ = RackOf("x");
    REQUIRE(x_was_on_ != RackOf("y"));
  }

  Team& team() { return team_; }
  std::string x_was_on() const { return x_was_on_; }
  // Of all its pods; empty: they are in none, or in several.
  std::string RackOf(const std::string& job) {
    std::set<std::string> racks;
    for (const auto& [pod, node] : team_.Nodes(job)) {
      const bool first = node == team_.Node(0) || node == team_.Node(1);
      racks.insert(node.empty() ? "" : first ? "a" : "b");
    }
    return racks.size() == 1 ? *racks.begin() : "";
  }
  // `x` is told to go, and `late` comes, for which there would be quota once that has gone. Where it was stopped and
  // started again between two looks, its Workload says so still.
  void AwaitMove() {
    REQUIRE(Eventually([&] { return team_.Suspended("x") || team_.Evictions("x", "Preempted") >= 1; }));
    team_.Create("late", InRack(1));
  }
  // The gang has the rack that `x` had, which runs where `y` is; `late` has had nothing of theirs.
  void CheckMoved() {
    const bool moved = Eventually([&] { return team_.Runs("hero", 8) && team_.Runs("x", 3); });
    if (!moved) FAIL(team_.ground().Diagnosis());
    CHECK(RackOf("hero") == x_was_on_);
    CHECK(RackOf("x") == RackOf("y"));
    CHECK(Eventually([&] { return team_.Evictions("x", "Preempted") == 1; }));
    CHECK(team_.Evictions("y", "Preempted") == 0);
    CHECK(team_.Evictions("hero", "Preempted") == 0);
    CHECK(team_.Suspended("late"));
  }

 private:
  void Start(const std::string& job, const Gang& gang) {
    team_.Create(job, gang);
    REQUIRE(Eventually([&] { return team_.Runs(job, static_cast<size_t>(gang.pods)); }));
  }

  Team team_;
  std::string x_was_on_;
};

}  // namespace

TEST_CASE("The cheaper of two gangs moves to the other rack, so that a third has one for itself") {
  Ground ground({.config = Config()});
  HalfUsed half(ground, "half");
  Team& team = half.team();
  team.Create("hero", InRack(8));
  half.AwaitMove();
  half.CheckMoved();
  CHECK(ground.muster().Metric("kueue_preempted_workloads_total",
                               {{"preempting_cluster_queue", "half"}, {"reason", "Defragmentation"}}) == 1);
  // There is quota for `late` once somebody has ended.
  team.Delete("y");
  REQUIRE(Eventually([&] { return team.Runs("late", 1); }));
}

// Between the eviction and the new start there is nothing but what the objects say.
TEST_CASE("A service that starts anew while a gang is moved brings it back, before those who came later") {
  Ground ground({.config = Config()});
  HalfUsed half(ground, "anew");
  Team& team = half.team();
  team.Create("hero", InRack(8));
  half.AwaitMove();
  ground.Restart({.config = Config()});
  half.CheckMoved();
}

// No topology: 2 of 4 GPUs are free on each of two nodes, and a pod needs 4.
TEST_CASE("A pod that needs a whole node gets one, and the one that may be moved goes to the other") {
  Ground ground({.config = Config()});
  Team team(ground, "nodes", {Gpus(4)});
  const auto start = [&team](const std::string& job, const Gang& gang) {
    team.Create(job, gang);
    REQUIRE(Eventually([&] { return team.Runs(job, 1); }));
  };
  start("stays", {.each = Gpus(2)});
  start("filler", {.each = Gpus(2)});
  team.AddNode(Gpus(4));
  start("moves", Movable({.each = Gpus(2)}));
  team.Delete("filler");
  const std::string whole = team.Nodes("moves").begin()->second;
  REQUIRE(whole == team.Node(1));
  team.Create("hero", {.each = Gpus(4)});
  REQUIRE(Eventually([&] { return team.Runs("hero", 1) && team.Runs("moves", 1); }));
  CHECK(team.Nodes("hero").begin()->second == whole);
  CHECK(team.Nodes("moves").begin()->second == team.Node(0));
  CHECK(Eventually([&] { return team.Evictions("moves", "Preempted") == 1; }));
  CHECK(team.Evictions("stays", "Preempted") == 0);
}

}  // namespace muster::cluster
