// Flavors that are out of stock: there is quota, and no node comes for the pods (user_pains I6).
#include <catch2/catch.hpp>

#include "fixture/text.h"
#include "team.h"

namespace muster::cluster {
namespace {

// Quota alone decides. Pods have twenty seconds to get ready, and the next start follows a second after the stop.
std::string Config(const std::string& pass_over) {
  return Cat(ShippedConfig(),
             "waitForPodsReady:\n  timeout: 20s\n"
             "  requeuingStrategy: {backoffBaseSeconds: 1, backoffMaxSeconds: 1}\n"
             "muster: {passOverTimedOutFlavors: ",
             pass_over, "}\n");
}

// The team's ClusterQueue has two GPUs of each of these, in that order; each has the nodes of the rack of its name.
void MakeStock(Team* team, const std::string& name) {
  Ground& ground = team->ground();
  std::string flavors;
  std::string quotas;
  for (const std::string flavor : {"reserved", "on-demand", "spot"}) {
    flavors += Cat("apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: ", flavor,
                   "}\nspec: {nodeLabels: {muster.dev/team: ", name, ", ", kRackLabel, ": ", flavor, "}}\n---\n");
    quotas += Cat(quotas.empty() ? "" : ",", R"({"name":")", flavor,
                  R"(","resources":[{"name":"nvidia.com/gpu","nominalQuota":2}]})");
  }
  const absl::Status applied = ground.cluster().ApplyText(flavors);
  INFO(applied);
  REQUIRE(applied.ok());
  const std::string queue = Cat("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/", name);
  const ApiResponse patched = ground.api().MergePatch(
      queue, Cat(R"({"spec":{"resourceGroups":[{"coveredResources":["nvidia.com/gpu"],"flavors":[)", quotas, "]}]}}"));
  INFO(patched.text);
  REQUIRE(patched.ok());
  REQUIRE(Eventually([&] {
    const Json now = ground.api().Get(queue).json;
    const Json active = now.At("status/conditions").Find("type", "Active");
    return active["status"].Str() == "True" &&
           active["observedGeneration"].Int() == now.At("metadata/generation").Int();
  }));
}

// The flavor whose nodes its pods may go to; empty: it does not run.
std::string FlavorOf(Team* team, const std::string& job) {
  const Json now = team->Job(job);
  return now.At("spec/suspend").Bool() ? std::string() : now.At("spec/template/spec/nodeSelector")[kRackLabel].Str();
}

std::string Told(Team* team, const std::string& job) {
  return team->WorkloadOf(job).At("status/conditions").Find("type", "muster.dev/FlavorsTimedOut")["message"].Str();
}

}  // namespace

// I6. Reserved machines and such of the spot market are sold out, though there is quota of both.
TEST_CASE("A gang whose pods get no nodes of a flavor starts with the next, and with the first again later") {
  Ground ground({.config = Config("45s")});
  Team team(ground, "stock", {});
  team.AddNode(Gpus(2), "on-demand");
  MakeStock(&team, "stock");

  team.Create("first", {.pods = 2});
  REQUIRE(Eventually([&] { return FlavorOf(&team, "first") == "reserved"; }));
  REQUIRE(Eventually([&] { return team.Evictions("first", "PodsReadyTimeout") == 1; }));
  // Another process goes on with what this one has written, at once: the first gives its lease back.
  ground.muster().process().Terminate();
  ground.Restart({.config = Config("45s")});
  REQUIRE(Eventually([&] { return team.Runs("first", 2); }));
  CHECK(FlavorOf(&team, "first") == "on-demand");
  CHECK_THAT(Told(&team, "first"), Catch::StartsWith("main on reserved: 1 time(s), last at "));
  CHECK_THAT(Told(&team, "first"), Catch::Contains("; other flavors go first until "));

  // On-demand is in use, so that the second comes to spot, and then waits for on-demand.
  team.Create("second", {.pods = 2});
  REQUIRE(Eventually([&] { return FlavorOf(&team, "second") == "reserved"; }));
  REQUIRE(Eventually([&] { return FlavorOf(&team, "second") == "spot"; }));
  REQUIRE(Eventually([&] { return team.Evictions("second", "PodsReadyTimeout") == 2; }));
  CHECK_THAT(Told(&team, "second"),
             Catch::Contains("main on reserved: 1 time(s)") && Catch::Contains("main on spot: 1 time(s)"));
  REQUIRE(Eventually([&] {
    return team.WaitsFor("second").find(
               "flavor reserved is passed over since its pods were not ready in time there (once), flavor spot is "
               "passed over since its pods were not ready in time there (once), insufficient unused quota for "
               "nvidia.com/gpu in flavor on-demand, 2 more needed") != std::string::npos;
  }));
  // Nodes of the first come back meanwhile, and once its time-outs are forgotten it has them.
  team.AddNode(Gpus(2), "reserved");
  CHECK(team.Suspended("second"));
  REQUIRE(Eventually([&] { return team.Runs("second", 2); }, std::chrono::minutes(2)));
  CHECK(FlavorOf(&team, "second") == "reserved");
  CHECK(team.Evictions("second", "PodsReadyTimeout") == 2);
  CHECK(team.Evictions("first", "PodsReadyTimeout") == 1);
}

// As in the reference.
TEST_CASE("Where the configuration does not ask for it, a gang is started with the same flavor again") {
  Ground ground({.config = Config("0s")});
  Team team(ground, "stock", {});
  team.AddNode(Gpus(2), "on-demand");
  MakeStock(&team, "stock");
  team.Create("stuck", {.pods = 2});
  for (int64_t times = 1; times <= 2; ++times) {
    REQUIRE(Eventually([&] { return FlavorOf(&team, "stuck") == "reserved"; }));
    REQUIRE(Eventually([&] { return team.Evictions("stuck", "PodsReadyTimeout") == times; }));
  }
  REQUIRE(Eventually([&] { return FlavorOf(&team, "stuck") == "reserved"; }));
  CHECK(Told(&team, "stuck").empty());
}

}  // namespace muster::cluster
