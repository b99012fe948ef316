// Jobs in namespaces with a ResourceQuota, whose status the tests write as the API server does. The engine is tested on
// its own; here the objects say what is used, and which pods there are.
//
// Source: user_pains D9; the numbers are worked out by hand from the quotas of each case.
#include <catch2/catch.hpp>

#include "drills.h"
#include "nodes_and_pods.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::Json;
using sim::Text;
using std::chrono::seconds;

Options WithMachines(bool on = true) {
  Options options = World::DefaultOptions();
  options.check_machines = on;
  return options;
}

// Of requests.cpu; what the status says counts.
void SetStatus(World& world, int hard, int used) {
  world.Patch(
      "resourcequotas", "team", "team-quota",
      {{"status",
        {{"hard", {{"requests.cpu", std::to_string(hard)}}}, {"used", {{"requests.cpu", std::to_string(used)}}}}}},
      "status");
}

void MakeQuota(World& world, int hard, int used = 0) {
  world.Create({{"apiVersion", "v1"},
                {"kind", "ResourceQuota"},
                {"metadata", {{"name", "team-quota"}, {"namespace", "team"}}},
                {"spec", {{"hard", {{"requests.cpu", std::to_string(hard)}}}}}});
  SetStatus(world, hard, used);
  world.RunFor(seconds(1));  // Jobs come by another watch
}

void Raise(World& world, int hard, int used) {
  world.Patch("resourcequotas", "team", "team-quota", {{"spec", {{"hard", {{"requests.cpu", std::to_string(hard)}}}}}});
  SetStatus(world, hard, used);
}

std::string Waits(const World& world, const std::string& job) {
  const Json workload = world.WorkloadOf(job);
  return Suspended(world, job) ? ConditionOf(workload, "muster.dev/Waiting") : "";
}

std::string Reserved(const World& world, const std::string& job) {
  return MessageOf(world.WorkloadOf(job), "QuotaReserved");
}

}  // namespace

TEST_CASE("A Job that its namespace's ResourceQuota would cut waits, is told so, and starts once it is raised") {
  World world;
  world.MakeQueues("100");
  MakeNode(world, "n1", "r", 100);
  Process* muster = &world.Start("", WithMachines());
  MakeQuota(world, 4);
  world.MakeJob("train", 8, 5);
  REQUIRE(world.RunUntil([&] { return Waits(world, "train") == "True/ResourceQuota"; }));
  CHECK(ConditionOf(world.WorkloadOf("train"), "QuotaReserved") == "False/ExceedsMaxQuota");
  CHECK(Reserved(world, "train") ==
        "exceeded quota: team-quota, requested: requests.cpu=8, used: requests.cpu=0, limited: requests.cpu=4");
  CHECK(Reserving(world) == 0);
  // Those behind it that get in start.
  world.MakeJob("small", 3, 5);
  REQUIRE(world.RunUntil([&] { return world.Finished("small"); }));
  const bool anew = GENERATE(false, true);
  CAPTURE(anew);
  if (anew) {
    world.Kill(*muster);
    muster = &world.Start("", WithMachines());
    world.RunFor(seconds(30));
    CHECK(Waits(world, "train") == "True/ResourceQuota");
  }
  // The API server enforces what the status says.
  world.Patch("resourcequotas", "team", "team-quota", {{"spec", {{"hard", {{"requests.cpu", "8"}}}}}});
  world.RunFor(seconds(30));
  CHECK(Suspended(world, "train"));
  SetStatus(world, 8, 0);
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
  ComesToRest(world, *muster);
}

TEST_CASE("Of Jobs that are decided on at once one takes what the namespace lets in, and its pods are counted once") {
  World world;
  world.MakeQueues("100");
  MakeNode(world, "n1", "r", 100);
  world.Start("", WithMachines());
  MakeQuota(world, 6);
  world.MakeJob("first", 4, 600);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "first"); }));
  world.MakeJob("second", 4, 600);
  REQUIRE(world.RunUntil([&] { return Waits(world, "second") == "True/ResourceQuota"; }));
  CHECK(Reserved(world, "second") ==
        "exceeded quota: team-quota, requested: requests.cpu=4, used: requests.cpu=4, limited: requests.cpu=6");
  // The API server counts each pod before it stores it.
  for (int i = 0; i < 4; ++i) {
    SetStatus(world, 6, i + 1);
    MakePod(world, "first", i, true, i < 2 ? "n1" : "");
  }
  world.RunFor(seconds(1));
  world.MakeJob("small", 2, 600);
  const MonoTime made = world.executor.Mono();
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "small"); }));
  // As long as one watch may be behind another.
  CHECK(world.executor.Mono() - made >= seconds(3));
  CHECK(world.executor.Mono() - made < seconds(6));
  // All is used or to come: 4 and 2.
  world.RunFor(seconds(60));
  CHECK(Suspended(world, "second"));
  // A pod that is being deleted is used still, and another is to come in its place.
  Raise(world, 8, 4);
  world.Patch("pods", "team", "first-3", {{"metadata", {{"finalizers", Json::array({"example.com/keep"})}}}});
  world.Delete("pods", "team", "first-3");
  world.RunFor(seconds(1));
  world.MakeJob("late", 2, 600);
  REQUIRE(world.RunUntil([&] { return Waits(world, "late") == "True/ResourceQuota"; }));
  CHECK(Reserved(world, "late") ==
        "exceeded quota: team-quota, requested: requests.cpu=2, used: requests.cpu=7, limited: requests.cpu=8");
}

TEST_CASE("A ResourceQuota that goes lets in who waits for it, and one of a scope counts its pods alone") {
  World world;
  world.MakeQueues("100");
  MakeNode(world, "n1", "r", 100);
  world.Start("", WithMachines());
  MakeQuota(world, 4);
  world.MakeJob("train", 8, 5);
  REQUIRE(world.RunUntil([&] { return Waits(world, "train") == "True/ResourceQuota"; }));
  SECTION("deleted") { world.Delete("resourcequotas", "team", "team-quota"); }
  SECTION("replaced by one for pods of a priority class that the Job's have not") {
    world.Delete("resourcequotas", "team", "team-quota");
    world.Create(
        Json::parse(R"({"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"urgent","namespace":"team"},
      "spec":{"hard":{"requests.cpu":"4"},"scopeSelector":{"matchExpressions":[
        {"scopeName":"PriorityClass","operator":"In","values":["urgent"]}]}}})"));
    world.Patch("resourcequotas", "team", "urgent",
                Json::parse(R"({"status":{"hard":{"requests.cpu":"4"},"used":{"requests.cpu":"4"}}})"), "status");
  }
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
}

TEST_CASE("Pods that do not say what a ResourceQuota limits never get in, so that the Job does not start") {
  World world;
  world.MakeQueues("100");
  MakeNode(world, "n1", "r", 100);
  world.Start("", WithMachines());
  world.Create(Json::parse(R"({"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"limits","namespace":"team"},
    "spec":{"hard":{"limits.cpu":"100"}}})"));
  world.Patch("resourcequotas", "team", "limits",
              Json::parse(R"({"status":{"hard":{"limits.cpu":"100"},"used":{"limits.cpu":"0"}}})"), "status");
  world.RunFor(seconds(1));
  world.MakeJob("train", 1, 5);
  REQUIRE(world.RunUntil([&] { return Waits(world, "train") == "True/ResourceQuota"; }));
  CHECK(ConditionOf(world.WorkloadOf("train"), "QuotaReserved") == "False/Misconfigured");
  CHECK(Reserved(world, "train") == "failed quota: limits: must specify limits.cpu in pod set main");
  // A LimitRange says it for them.
  world.Create(Json::parse(R"({"apiVersion":"v1","kind":"LimitRange","metadata":{"namespace":"team","name":"usual"},
    "spec":{"limits":[{"type":"Container","default":{"cpu":"2"}}]}})"));
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
}

TEST_CASE("Where machines are not looked at, nor are ResourceQuotas") {
  World world;
  world.MakeQueues("100");
  Process& muster = world.Start("", WithMachines(false));
  MakeQuota(world, 4);
  world.MakeJob("train", 8, 5);
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
  const Health health = muster.controller->health();
  for (const auto& informer : health.informers) CHECK(std::string(informer.kind) != "ResourceQuota");
}

}  // namespace muster::controller
