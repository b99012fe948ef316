// Gangs that meet each other and strangers on nodes: each of them runs whole or holds nothing. The faults are those of
// user_pains (d); what is raced is raced fifty times, by ten teams at once.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "fixture/text.h"
#include "team.h"

namespace muster::cluster {
namespace {

// So often each, all teams at once.
constexpr int kTeams = 10;
constexpr int kRounds = 5;

// A gang whose pods end as soon as they run.
Gang Brief(int pods, int gpus) {
  return {.pods = pods,
          .each = Gpus(gpus),
          .annotations = {{"muster.dev/start-seconds", "0.05"}, {"muster.dev/run-seconds", "0.2"}}};
}

}  // namespace

// D4: with pods of both on the nodes, none would end.
TEST_CASE("Two gangs that each need all nodes run one after the other, however they come") {
  const Teams teams(Ground::Shared(), "interleaved", kTeams, {Gpus(2), Gpus(2)});
  // Long enough to be looked at many times.
  const Gang all = {.pods = 4, .annotations = {{"muster.dev/start-seconds", "0.05"}, {"muster.dev/run-seconds", "1"}}};
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const std::string a = Cat("a-", round);
    const std::string b = Cat("b-", round);
    // From two sides at once.
    std::atomic<int> created = 0;
    const auto create = [&](const std::string& job) {
      for (Team* team : teams) created += team->TryCreate(job, all).status == 201 ? 1 : 0;
    };
    std::thread other([&] { create(b); });
    create(a);
    other.join();
    REQUIRE(created == 2 * kTeams);
    REQUIRE(Eventually(
        [&] {
          return teams.All([&](Team& team) {
            // A gang that has pods before and after has them in between.
            const bool before = !team.HasNoPods(a);
            const bool between = before && !team.HasNoPods(b);
            CHECK_FALSE((between && !team.HasNoPods(a)));
            return team.Completed(a) && team.Completed(b);
          });
        },
        std::chrono::minutes(3)));
    for (Team* team : teams) {
      CHECK(team->Evictions(a, "NodeFailures") + team->Evictions(b, "NodeFailures") == 0);
    }
  }
}

// D2, J3
TEST_CASE("What pods of no queue take is not there for gangs, until they end") {
  Team team(Ground::Shared(), "strangers", {Gpus(8), Gpus(8)}, {.quota = Gpus(16)});
  team.CreateBare("stranger", Gpus(4));
  REQUIRE(Eventually([&] { return team.Pod("stranger").At("status/phase").Str() == "Running"; }));
  team.Create("gang", {.pods = 16});
  REQUIRE(Eventually([&] { return team.WaitsFor("gang").find("12 of 16 pods have a place") != std::string::npos; }));
  CHECK(team.HasNoPods("gang"));
  // D6: what it would have is for others meanwhile.
  team.Create("small", Brief(12, 1));
  REQUIRE(Eventually([&] { return team.Completed("small"); }));
  CHECK(team.Suspended("gang"));
  team.DeletePod("stranger");
  REQUIRE(Eventually([&] { return !team.Suspended("gang"); }, std::chrono::seconds(20)));
  REQUIRE(Eventually([&] { return team.Runs("gang", 16); }));
}

// J3. No kubelet is there: what the pod has is what the test says in its stead.
TEST_CASE("What a pod of no queue takes follows its resize in place, once its node has done that") {
  const auto cpu = [](int count) { return Amounts{{"cpu", std::to_string(count)}}; };
  Team team(Ground::Shared(), "stretched", {cpu(8)}, {.quota = cpu(100)});
  team.CreateBare("stranger", cpu(4));
  REQUIRE(Eventually([&] { return team.Pod("stranger").At("status/phase").Str() == "Running"; }));
  const auto patch = [&](const std::string& subresource, const std::string& body) {
    const ApiResponse response = team.ground().api().Call("PATCH", team.Path("pods/stranger" + subresource), body,
                                                          "application/strategic-merge-patch+json");
    INFO(response.text);
    REQUIRE(response.ok());
  };
  const auto main = [](int count) {
    return Cat(R"([{"name": "main", "resources": {"requests": {"cpu": ")", count, R"("}, "limits": {"cpu": ")", count,
               R"("}}}])");
  };
  const auto give = [&](int count) {
    patch("/status", Cat(R"({"status": {"containerStatuses": )", main(count), "}}"));
  };
  const auto ask = [&](int count) { patch("/resize", Cat(R"({"spec": {"containers": )", main(count), "}}")); };
  give(4);
  team.Create("gang", {.pods = 1, .each = cpu(6)});
  REQUIRE(Eventually([&] { return team.WaitsFor("gang").find("is 4, on node") != std::string::npos; }));
  ask(2);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  CHECK(team.Suspended("gang"));
  give(2);
  REQUIRE(Eventually([&] { return !team.Suspended("gang"); }));
  REQUIRE(Eventually([&] { return team.Runs("gang", 1); }));
  team.Delete("gang");
  // What it asks for is taken at once.
  ask(3);
  team.Create("again", {.pods = 1, .each = cpu(6)});
  REQUIRE(Eventually([&] { return team.WaitsFor("again").find("is 5, on node") != std::string::npos; }));
}

// D10
TEST_CASE("Whoever is deleted while a gang makes room for another leaves nothing reserved") {
  Ground& ground = Ground::Shared();
  REQUIRE(ground.cluster()
              .ApplyText("apiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\nmetadata: {name: urgent}\n"
                         "value: 1000\n")
              .ok());
  const Teams teams(ground, "handed", kTeams, {Gpus(4)}, {.quota = Gpus(4), .preemption = "LowerPriority"});
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const std::string low = Cat("low-", round);
    const std::string urgent = Cat("urgent-", round);
    for (Team* team : teams) team->Create(low, {.pods = 4});
    for (Team* team : teams) REQUIRE(Eventually([&] { return team->Runs(low, 4); }));
    // Into each part of the hand-over; one, the other, or both.
    const auto removes_low = [](int turn) { return turn % 3 != 0; };
    const auto removes_urgent = [](int turn) { return turn % 3 != 1; };
    std::atomic<int> failed = 0;
    const auto remove = [&](Team* team, const std::string& job) {
      failed += ground.api().Delete(team->Path("jobs/" + job) + "?propagationPolicy=Background").ok() ? 0 : 1;
    };
    std::vector<std::thread> threads;
    int turn = round;
    for (Team* team : teams) {
      threads.emplace_back([&, team, turn] {
        const Gang gang = {.pods = 2, .each = Gpus(2), .priority = "urgent"};
        failed += team->TryCreate(urgent, gang).status == 201 ? 0 : 1;
        std::this_thread::sleep_for(std::chrono::milliseconds(turn * 5));
        if (removes_low(turn)) remove(team, low);
        if (removes_urgent(turn)) remove(team, urgent);
      });
      turn += kRounds;
    }
    for (std::thread& thread : threads) thread.join();
    turn = round;
    for (Team* team : teams) {
      CAPTURE(turn);
      // Who stays has all that it had, or has it again.
      if (!removes_low(turn)) REQUIRE(Eventually([&] { return team->Runs(low, 4); }));
      if (!removes_urgent(turn)) REQUIRE(Eventually([&] { return team->Runs(urgent, 2); }));
      if (!removes_low(turn)) remove(team, low);
      if (!removes_urgent(turn)) remove(team, urgent);
      turn += kRounds;
    }
    REQUIRE(failed == 0);
    REQUIRE(Eventually(
        [&] { return teams.All([&](Team& team) { return team.HasNoPods(low) && team.HasNoPods(urgent); }); }));
  }
  for (Team* team : teams) {
    team->Create("all", {.pods = 1, .each = Gpus(4)});
    REQUIRE(Eventually([&] { return team->Runs("all", 1); }));
  }
}

TEST_CASE("A pod of no queue that races with a gang: the gang runs whole or waits, whoever wins") {
  const Teams teams(Ground::Shared(), "raced", kTeams, {Gpus(4)});
  int won = 0;
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const std::string gang = Cat("gang-", round);
    const std::string stranger = Cat("stranger-", round);
    std::atomic<int> created = 0;
    std::vector<std::thread> threads;
    int turn = 0;
    for (Team* team : teams) {
      // Before all, into each part of a start, and once the gang's pods are in the scheduler's line: each side wins
      // some, however fast this machine is.
      threads.emplace_back([&, team, turn] {
        const auto come = [&] { created += team->TryCreateBare(stranger, Gpus(1)).status == 201 ? 1 : 0; };
        if (turn == 0) come();
        created += team->TryCreate(gang, {.pods = 4}).status == 201 ? 1 : 0;
        if (turn == kTeams - 1) {
          Eventually([&] { return team->Nodes(gang).size() == 4; });
        } else {
          std::this_thread::sleep_for(std::chrono::milliseconds((turn * kRounds + round) * 6));
        }
        if (turn != 0) come();
      });
      ++turn;
    }
    for (std::thread& thread : threads) thread.join();
    REQUIRE(created == 2 * kTeams);
    std::vector<Team*> lost;
    for (Team* team : teams) {
      const auto on_node = [&] { return !team->Pod(stranger).At("spec/nodeName").Str().empty(); };
      // Three of four have a node where the stranger came in between: that gang is stopped, and waits.
      REQUIRE(Eventually(
          [&] { return team->Runs(gang, 4) != (on_node() && team->Suspended(gang) && team->HasNoPods(gang)); }));
      if (team->Runs(gang, 4)) {
        ++won;
        CHECK_FALSE(on_node());
      } else {
        lost.push_back(team);
      }
    }
    // It starts when the stranger has gone.
    for (Team* team : lost) team->DeletePod(stranger);
    for (Team* team : lost) REQUIRE(Eventually([&] { return team->Runs(gang, 4); }));
    for (Team* team : teams) {
      CHECK(team->Evictions(gang, "NodeFailures") <= 1);
      team->ground().api().Delete(team->Path("pods/" + stranger) + "?gracePeriodSeconds=0");
    }
    teams.Delete(gang);
  }
  // Each side, or it was no race.
  CHECK(won > 0);
  CHECK(won < kRounds * kTeams);
}

// D5
TEST_CASE("A gang of two nodes has no pod anywhere while there is one, however often the other changes hands") {
  const Teams teams(Ground::Shared(), "late", kTeams, {Gpus(4), Gpus(4)});
  const Gang single = {.pods = 1, .each = Gpus(4)};
  const auto name = [](int round, int hand) { return Cat("single-", round, "-", hand); };
  // Three changes of hands each, in all teams: 60.
  for (int round = 0; round < 2; ++round) {
    CAPTURE(round);
    const std::string pair = Cat("pair-", round);
    const auto check_waits = [&] {
      for (Team* team : teams) {
        REQUIRE(Eventually([&] { return team->WaitsFor(pair).find("1 of 2 pods have a place") != std::string::npos; }));
        CHECK(team->Suspended(pair));
        CHECK(team->HasNoPods(pair));
      }
    };
    const auto take = [&](int hand) {
      for (Team* team : teams) team->Create(name(round, hand), single);
      for (Team* team : teams) REQUIRE(Eventually([&] { return team->Runs(name(round, hand), 1); }));
    };
    take(0);
    for (Team* team : teams) team->Create(pair, Brief(2, 4));
    check_waits();
    for (int hand = 1; hand <= 3; ++hand) {
      // Who came later takes the node that is free, and then the other is free.
      take(hand);
      for (Team* team : teams) CHECK((team->Suspended(pair) && team->HasNoPods(pair)));
      teams.Delete(name(round, hand - 1));
      check_waits();
    }
    teams.Delete(name(round, 3));
    for (Team* team : teams) {
      REQUIRE(Eventually([&] { return team->Completed(pair); }));
      CHECK(team->Evictions(pair, "NodeFailures") == 0);
    }
  }
}

// D13
TEST_CASE("A gang that is made smaller while it waits needs places for as many pods as it has now") {
  Team team(Ground::Shared(), "resized", {Gpus(4)});
  team.Create("gang", {.pods = 8});
  REQUIRE(Eventually([&] { return team.WaitsFor("gang").find("4 of 8 pods have a place") != std::string::npos; }));
  const auto resize = [&](int pods) {
    const ApiResponse response = team.ground().api().MergePatch(
        team.Path("jobs/gang"), Cat(R"({"spec": {"parallelism": )", pods, R"(, "completions": )", pods, "}}"));
    INFO(response.text);
    REQUIRE(response.ok());
  };
  resize(5);
  REQUIRE(Eventually([&] { return team.WaitsFor("gang").find("4 of 5 pods have a place") != std::string::npos; }));
  CHECK(team.HasNoPods("gang"));
  resize(4);
  REQUIRE(Eventually([&] { return team.Runs("gang", 4); }));
}

TEST_CASE("Cordoning nodes under a gang that runs does nothing to it, and gives nobody their room") {
  Team team(Ground::Shared(), "cordoned", {Gpus(4), Gpus(4)});
  team.Create("gang", {.pods = 2, .each = Gpus(3)});
  REQUIRE(Eventually([&] { return team.Runs("gang", 2); }));
  const std::map<std::string, std::string> nodes = team.Nodes("gang");
  for (const int node : {0, 1}) team.Cordon(node);
  team.Create("one", {.pods = 1});
  REQUIRE(Eventually([&] { return team.WaitsFor("one").find("0 of 1 pods have a place") != std::string::npos; }));
  Ground::Shared().CheckRest();  // for longer than a gang may lack places
  CHECK(team.Nodes("gang") == nodes);
  CHECK(team.Evictions("gang", "NodeFailures") == 0);
  team.Cordon(1, false);
  REQUIRE(Eventually([&] { return team.Runs("one", 1); }));
  CHECK(team.Nodes("one").begin()->second == team.Node(1));
}

}  // namespace muster::cluster
