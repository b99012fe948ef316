// Machines as seen from outside: what a scrape and the readiness page of a service tell that looks at real nodes.
// Numbers are worked out by hand from the nodes of the case.
#include <catch2/catch.hpp>

#include "fixture/text.h"
#include "team.h"

namespace muster::cluster {
namespace {

constexpr const char* kGpu = "nvidia.com/gpu";
constexpr const char* kMissing = "example.com/fpga";

using Labels = std::map<std::string, std::string>;

}  // namespace

// user_pains I10, and why nobody starts though half of all is free.
TEST_CASE("Metrics tell of a flavor what is free, for whom, and which quota no node can serve") {
  Ground ground;
  Team team(ground, "seen", {Gpus(8), Gpus(8)}, {.quota = {{kGpu, "20"}, {kMissing, "1"}}});
  const auto metric = [&](const std::string& name, Labels labels = {}) {
    labels.insert({"flavor", "seen"});
    labels.insert({"resource", kGpu});
    return ground.muster().Metric(name, labels);
  };
  team.CreateBare("stranger", Gpus(3), 0);
  REQUIRE(Eventually([&] { return metric("muster_flavor_free") == 13; }));
  team.Create("big", {.pods = 2, .each = Gpus(8)});
  REQUIRE(Eventually([&] { return team.WaitsFor("big").find("1 of 2 pods have a place") != std::string::npos; }));
  CHECK(metric("muster_flavor_allocatable") == 16);
  CHECK(metric("muster_flavor_nominal_quota") == 20);
  CHECK(metric("muster_flavor_largest_free_block") == 8);
  CHECK(metric("muster_flavor_room_pods", {{"devices", "8"}}) == 1);
  CHECK(metric("muster_flavor_room_pods", {{"devices", "2"}}) == 6);  // two beside the stranger, four on the other
  CHECK(metric("muster_cluster_queue_unserved_quota", {{"cluster_queue", "seen"}}) == 4);
  CHECK(metric("muster_cluster_queue_unserved_quota", {{"resource", kMissing}}) == 1);
  REQUIRE(Eventually([&] { return metric("muster_fit_failures_total", {{"cause", "Resource"}}).value_or(0) >= 1; }));
  CHECK_FALSE(metric("muster_fit_failures_total", {{"cause", "Unschedulable"}, {"resource", ""}}).has_value());
  CHECK(ground.muster()
            .HealthText("/readyz?verbose")
            .find("quota that no node can serve: ClusterQueue seen: spec.resourceGroups[0].flavors[0].resources[0]."
                  "nominalQuota: 1 of example.com/fpga: no node of ResourceFlavor seen has example.com/fpga") !=
        std::string::npos);

  // What a gang takes is free for nobody.
  team.Create("one", {.pods = 1, .each = Gpus(8)});
  REQUIRE(Eventually([&] { return team.Runs("one", 1); }));
  CHECK(metric("muster_flavor_free") == 5);
  CHECK(metric("muster_flavor_room_pods", {{"devices", "8"}}) == 0);
  team.Delete("one");
  REQUIRE(Eventually([&] { return metric("muster_flavor_free") == 13; }));
  team.Cordon(1);
  REQUIRE(Eventually([&] { return metric("muster_flavor_free") == 5; }));
  CHECK(metric("muster_flavor_allocatable") == 16);

  // All of it goes with the flavor.
  REQUIRE(ground.api().Delete("/apis/kueue.x-k8s.io/v1beta2/resourceflavors/seen").ok());
  REQUIRE(Eventually([&] { return !metric("muster_flavor_free").has_value(); }));
  for (const char* name : {"muster_flavor_room_pods", "muster_flavor_nominal_quota",
                           "muster_cluster_queue_unserved_quota", "muster_fit_failures_total"}) {
    CAPTURE(name);
    CHECK_FALSE(ground.muster().Metric(name, {{"flavor", "seen"}}).has_value());
  }
}

}  // namespace muster::cluster
