// Queue objects that passed the schema and cannot be read all the same: each says so itself, or by those that depend on
// it; nothing else is affected; mended, it is as if nothing had been.
#include <catch2/catch.hpp>

#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using sim::Text;

constexpr const char* kAbsurd = "1e-99999999999999999999";

// "Status/Reason: message"
std::string ActiveOf(const Json& object) {
  const Json& condition = sim::FindCondition(At(object, "status", "conditions"), "Active");
  if (condition.is_null()) return "";
  return Text(sim::Get(condition, "status")) + "/" + Text(sim::Get(condition, "reason")) + ": " +
         Text(sim::Get(condition, "message"));
}
std::string WaitOf(const World& world, const std::string& job) {
  return Text(
      sim::Get(sim::FindCondition(At(world.WorkloadOf(job), "status", "conditions"), "muster.dev/Waiting"), "reason"));
}
Json Quotas(const std::string& quota, const std::string& flavor) {
  return {{{"coveredResources", {"cpu"}},
           {"flavors", {{{"name", flavor}, {"resources", {{{"name", "cpu"}, {"nominalQuota", quota}}}}}}}}};
}
// "Kind/name: note" of the Events on what cannot be read.
std::set<std::string> Told(const World& world) {
  std::set<std::string> out;
  for (const Json& event : world.List("events")) {
    if (Text(sim::Get(event, "reason")) != "Misconfigured") continue;
    CHECK(Text(sim::Get(event, "type")) == "Warning");
    out.insert(Text(At(event, "regarding", "kind")) + "/" + Text(At(event, "regarding", "name")) + ": " +
               Text(sim::Get(event, "note")));
  }
  return out;
}

// A second set of queues, "other", beside cq and lq.
void MakeOther(World& world) {
  // Where Events about cluster-scoped objects go.
  world.Create({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", "default"}}}});
  world.MakeQueues("4");
  for (const char* name : {"g", "h"}) {
    world.Create({{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                  {"kind", "ResourceFlavor"},
                  {"metadata", {{"name", name}}},
                  {"spec", Json::object()}});
  }
  world.Create({{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                {"kind", "ClusterQueue"},
                {"metadata", {{"name", "other"}}},
                {"spec", {{"namespaceSelector", Json::object()}, {"resourceGroups", Quotas("4", "g")}}}});
  world.Create({{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                {"kind", "LocalQueue"},
                {"metadata", {{"name", "other"}, {"namespace", "team"}}},
                {"spec", {{"clusterQueue", "other"}}}});
}

// From here on `spoil` makes cq (or lq) unusable; jobs in "other" start, and after `mend` all do.
template <typename Spoil, typename Mend, typename Says>
void Check(const std::string& told, const std::string& code, Spoil spoil, Mend mend, Says says) {
  World world;
  Process& muster = world.Start();
  MakeOther(world);
  world.MakeJob("runs", 1, 36000);
  REQUIRE(world.RunUntil([&] { return At(world.Get("jobs", "team", "runs"), "spec", "suspend") == false; }));
  spoil(world);
  CHECK(world.RunUntil([&] { return says(world); }));
  world.MakeJob("waits", 1, 5);
  world.MakeJob("goes", 1, 5, "other");
  CHECK(world.RunUntil([&] { return world.Finished("goes") && WaitOf(world, "waits") == code; }));
  world.RunFor(std::chrono::seconds(30));
  CHECK(At(world.Get("jobs", "team", "waits"), "spec", "suspend") == true);
  // What runs goes on, and is counted.
  CHECK(At(world.Get("jobs", "team", "runs"), "spec", "suspend") == false);
  CHECK(sim::Number(At(world.Get("clusterqueues", "", "cq"), "status", "reservingWorkloads")) == 1);
  CHECK(Told(world) == std::set<std::string>{told});
  REQUIRE(muster.controller->health().problems.size() == 1);
  // "Kind/name: field: ..." is "cannot be read: Kind [namespace/]name: field: ...".
  CHECK_THAT(muster.controller->health().problems[0],
             Catch::StartsWith("cannot be read: ") && Catch::Contains(told.substr(told.find(": ") + 2)));
  const size_t before = world.server.writes().size();
  world.RunFor(std::chrono::minutes(5));
  CHECK(world.Writes(before).empty());
  mend(world);
  CHECK(world.RunUntil([&] { return world.Finished("waits"); }));
  CHECK(muster.controller->health().problems.empty());
  CHECK(world.RunUntil([&] {
    return ActiveOf(world.Get("clusterqueues", "", "cq")) == "True/Ready: Can admit new workloads" &&
           ActiveOf(world.Get("localqueues", "team", "lq")) == "True/Ready: Can submit new workloads to localQueue";
  }));
  muster.controller->engine()->Validate();
}

TEST_CASE("A ClusterQueue with an absurd quota is inactive with field and value, until it is mended") {
  const std::string why =
      "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: \"" + std::string(kAbsurd) + "\" is not a quantity";
  Check(
      "ClusterQueue/cq: " + why, "ClusterQueueMisconfigured",
      [](World& world) {
        world.Patch("clusterqueues", "", "cq", {{"spec", {{"resourceGroups", Quotas(kAbsurd, "f")}}}});
      },
      [](World& world) {
        world.Patch("clusterqueues", "", "cq", {{"spec", {{"resourceGroups", Quotas("4", "f")}}}});
      },
      [&why](World& world) {
        return ActiveOf(world.Get("clusterqueues", "", "cq")) ==
                   "False/Misconfigured: Can't admit new workloads: cannot read " + why + "." &&
               ActiveOf(world.Get("localqueues", "team", "lq")) ==
                   "False/ClusterQueueIsInactive: Can't submit new workloads to clusterQueue";
      });
}

TEST_CASE("A LocalQueue with an absurd weight is inactive with field and value, until it is mended") {
  const std::string why = "spec.fairSharing.weight: \"" + std::string(kAbsurd) + "\" is not a quantity";
  const auto weigh = [](World& world, const char* weight) {
    world.Patch("localqueues", "team", "lq", {{"spec", {{"fairSharing", {{"weight", weight}}}}}});
  };
  Check(
      "LocalQueue/lq: " + why, "LocalQueueMisconfigured", [&](World& world) { weigh(world, kAbsurd); },
      [&](World& world) { weigh(world, "1"); },
      [&why](World& world) {
        return ActiveOf(world.Get("localqueues", "team", "lq")) ==
               "False/Misconfigured: Can't submit new workloads to localQueue: cannot read " + why;
      });
}

TEST_CASE("A Cohort that cannot be read makes the ClusterQueues in it inactive, and they name it") {
  const std::string why = "spec.fairSharing.weight: \"" + std::string(kAbsurd) + "\" is not a quantity";
  const auto weigh = [](World& world, const char* weight) {
    world.Patch("cohorts", "", "all", {{"spec", {{"fairSharing", {{"weight", weight}}}}}});
  };
  Check(
      "Cohort/all: " + why, "ClusterQueueMisconfigured",
      [&](World& world) {
        world.Create({{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                      {"kind", "Cohort"},
                      {"metadata", {{"name", "all"}}},
                      {"spec", Json::object()}});
        world.Patch("clusterqueues", "", "cq", {{"spec", {{"cohortName", "all"}}}});
        weigh(world, kAbsurd);
      },
      [&](World& world) { weigh(world, "1"); },
      [&why](World& world) {
        return ActiveOf(world.Get("clusterqueues", "", "cq")) ==
               "False/CohortMisconfigured: Can't admit new workloads: cannot read Cohort all: " + why + ".";
      });
}

TEST_CASE("A ResourceFlavor that cannot be read makes the ClusterQueues with it inactive, and they name it") {
  const std::string why = "spec.tolerations[0].tolerationSeconds: must be an integer of 64 bits, got \"long\"";
  const auto tolerate = [](World& world, const Json& tolerations) {
    world.Patch("resourceflavors", "", "f", {{"spec", {{"tolerations", tolerations}}}});
  };
  Check(
      "ResourceFlavor/f: " + why, "ClusterQueueMisconfigured",
      [&](World& world) {
        tolerate(world, Json::parse(R"([{"key":"x","operator":"Exists","tolerationSeconds":"long"}])"));
      },
      [&](World& world) { tolerate(world, nullptr); },
      [&why](World& world) {
        return ActiveOf(world.Get("clusterqueues", "", "cq")) ==
               "False/FlavorMisconfigured: Can't admit new workloads: cannot read ResourceFlavor f: " + why + ".";
      });
}

TEST_CASE("A process that comes to lead tells of what it cannot read, and finds the same state as the one before") {
  World world;
  MakeOther(world);
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"resourceGroups", Quotas(kAbsurd, "f")}}}});
  world.Create(Json::parse(R"({"apiVersion":"v1","kind":"LimitRange","metadata":{"namespace":"team","name":"limits"},
      "spec":{"limits":[{"type":"Container","max":{"cpu":"much"}}]}})"));
  world.Start("a");
  CHECK(world.RunUntil([&] { return Told(world).size() == 2; }));
  CHECK(
      Told(world).contains("LimitRange/limits: LimitRange team/limits: spec.limits[0].max.cpu: \"much\" is not a "
                           "quantity"));
  CHECK(world.RunUntil(
      [&] { return ActiveOf(world.Get("clusterqueues", "", "cq")).starts_with("False/Misconfigured"); }));
}

// What the API server takes for a quantity is one (see Quantity): no queue is lost for it.
TEST_CASE("A quantity that is merely absurd is read, up to what can be counted") {
  World world;
  world.Start();
  MakeOther(world);
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"resourceGroups", Quotas("1e999999", "f")}}}});
  world.Patch("clusterqueues", "", "other", {{"spec", {{"resourceGroups", Quotas("1e-99999999999", "g")}}}});
  world.RunFor(std::chrono::seconds(1));  // Jobs come by another watch
  world.MakeJob("goes", 1000, 5);
  world.MakeJob("waits", 1, 5, "other");
  CHECK(world.RunUntil([&] { return world.Finished("goes") && WaitOf(world, "waits") == "NeverFits"; }));
}

}  // namespace
}  // namespace muster::controller
