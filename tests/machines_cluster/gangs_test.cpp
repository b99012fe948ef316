// Gangs that meet each other and strangers on nodes: each of them runs whole or holds nothing. The faults are those of
// user_pains (d); what is raced is raced fifty times.
#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>

#include "fixture/text.h"
#include "team.h"

namespace muster::cluster {
namespace {

constexpr int kRounds = 50;

// A gang whose pods end as soon as they run.
Gang Brief(int pods, int gpus) {
  return {.pods = pods,
          .each = Gpus(gpus),
          .annotations = {{"muster.dev/start-seconds", "0.05"}, {"muster.dev/run-seconds", "0.2"}}};
}

// Of the pods of a Job that runs all are on nodes before long; one that waits has none.
bool WholeOrNothing(Team* team, const std::string& job, size_t pods) {
  return Eventually(
      [&] { return team->Completed(job) || (team->Suspended(job) ? team->HasNoPods(job) : team->Runs(job, pods)); },
      std::chrono::seconds(30));
}

}  // namespace

// D4: with pods of both on the nodes, none would end.
TEST_CASE("Two gangs that each need all nodes run one after the other, however they come") {
  Team team(Ground::Shared(), "interleaved", {Gpus(2), Gpus(2)});
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const std::string a = Cat("a-", round);
    const std::string b = Cat("b-", round);
    // From two sides at once.
    ApiResponse created;
    std::thread other([&] { created = team.TryCreate(b, Brief(4, 1)); });
    const ApiResponse created_too = team.TryCreate(a, Brief(4, 1));
    other.join();
    REQUIRE((created.status == 201 && created_too.status == 201));
    REQUIRE(Eventually([&] { return team.Completed(a) && team.Completed(b); }));
    // The second began when the first was done, or its pods would have waited for a node.
    const auto span = [&](const std::string& job) {
      return std::pair(team.Job(job).At("status/startTime").Str(), team.Job(job).At("status/completionTime").Str());
    };
    const auto first = std::min(span(a), span(b));
    const auto second = std::max(span(a), span(b));
    CHECK(second.first >= first.second);
    CHECK(team.Evictions(a, "NodeFailures") + team.Evictions(b, "NodeFailures") == 0);
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
  const SteadyTime gone = std::chrono::steady_clock::now();
  REQUIRE(Eventually([&] { return !team.Suspended("gang"); }));
  CHECK(std::chrono::steady_clock::now() - gone < std::chrono::seconds(2));
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
  Team team(ground, "handed", {Gpus(4)}, {.quota = Gpus(4), .preemption = "LowerPriority"});
  const auto remove = [&](const std::string& job) {
    REQUIRE(ground.api().Delete(team.Path("jobs/" + job) + "?propagationPolicy=Background").ok());
  };
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const std::string low = Cat("low-", round);
    const std::string urgent = Cat("urgent-", round);
    team.Create(low, {.pods = 4});
    REQUIRE(Eventually([&] { return team.Runs(low, 4); }));
    team.Create(urgent, {.pods = 2, .each = Gpus(2), .priority = "urgent"});
    // Into each part of the hand-over; one, the other, or both.
    std::this_thread::sleep_for(std::chrono::milliseconds(round * 5));
    if (round % 3 != 0) remove(low);
    if (round % 3 != 1) remove(urgent);
    if (round % 3 == 0) {
      // It has all that it had, or has it again.
      REQUIRE(Eventually([&] { return team.Runs(low, 4); }));
      remove(low);
    }
    if (round % 3 == 1) {
      REQUIRE(Eventually([&] { return team.Runs(urgent, 2); }));
      remove(urgent);
    }
    REQUIRE(Eventually([&] { return team.HasNoPods(low) && team.HasNoPods(urgent); }));
  }
  const auto counts = [&] {
    const Json status = ground.api().Get("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/handed").json["status"];
    return std::pair(status["reservingWorkloads"].Int(), status["pendingWorkloads"].Int());
  };
  REQUIRE(Eventually([&] { return counts() == std::pair<int64_t, int64_t>(0, 0); }));
  team.Create("all", {.pods = 1, .each = Gpus(4)});
  REQUIRE(Eventually([&] { return team.Runs("all", 1); }));
}

TEST_CASE("A pod of no queue that races with a gang: the gang runs whole or waits, whoever wins") {
  Team team(Ground::Shared(), "raced", {Gpus(4)});
  int won = 0;
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const std::string gang = Cat("gang-", round);
    const std::string stranger = Cat("stranger-", round);
    ApiResponse created;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(round * 6));  // into each part of a start
      created = team.TryCreateBare(stranger, Gpus(1));
    });
    const ApiResponse created_too =
        team.TryCreate(gang, {.pods = 4, .annotations = {{"muster.dev/run-seconds", "600"}}});
    other.join();
    REQUIRE((created.status == 201 && created_too.status == 201));
    const auto on_node = [&] { return !team.Pod(stranger).At("spec/nodeName").Str().empty(); };
    // Three of four have a node where the stranger came in between: that gang is stopped, and waits.
    REQUIRE(
        Eventually([&] { return team.Runs(gang, 4) != (on_node() && team.Suspended(gang) && team.HasNoPods(gang)); }));
    if (team.Runs(gang, 4)) {
      ++won;
      CHECK_FALSE(on_node());
    } else {
      // And starts when it has gone.
      team.DeletePod(stranger);
      REQUIRE(Eventually([&] { return team.Runs(gang, 4); }));
    }
    CHECK(team.Evictions(gang, "NodeFailures") <= 1);
    team.ground().api().Delete(team.Path("pods/" + stranger) + "?gracePeriodSeconds=0");
    team.Delete(gang);
  }
  CHECK(won > 0);
}

// D5
TEST_CASE("A gang of two nodes has no pod anywhere while there is one, however often the other changes hands") {
  Team team(Ground::Shared(), "late", {Gpus(4), Gpus(4)});
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const std::string single = Cat("single-", round);
    const std::string pair = Cat("pair-", round);
    team.Create(single, Brief(1, 4));
    team.Create(pair, Brief(2, 4));
    REQUIRE(WholeOrNothing(&team, pair, 2));
    REQUIRE(Eventually([&] { return team.Completed(single) && team.Completed(pair); }));
    CHECK(team.Evictions(pair, "NodeFailures") == 0);
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
  std::this_thread::sleep_for(std::chrono::seconds(4));  // twice as long as a gang may lack places
  CHECK(team.Nodes("gang") == nodes);
  CHECK(team.Evictions("gang", "NodeFailures") == 0);
  team.Cordon(1, false);
  REQUIRE(Eventually([&] { return team.Runs("one", 1); }));
  CHECK(team.Nodes("one").begin()->second == team.Node(1));
}

}  // namespace muster::cluster
