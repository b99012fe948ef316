// Metrics of machines. The values are worked out by hand from the nodes of the case.
#include <catch2/catch.hpp>

#include "metrics_world.h"

namespace muster::server {
namespace {

using engine::CpuQueue;
using engine::Gang;

std::string Series(const std::string& name, const std::string& labels, const std::string& value) {
  return name + "{" + labels + ",replica_role=\"leader\"} " + value + "\n";
}

}  // namespace

TEST_CASE("the room of machines, quota beyond them and failures to fit have series, which go with their flavor") {
  engine::EngineOptions options;
  options.machines = true;
  World world({}, options);
  engine::ClusterQueue queue = CpuQueue("q", "", 64'000);
  queue.resource_groups[0].covered_resources.emplace_back("nvidia.com/gpu");
  queue.resource_groups[0].flavors[0].resources.push_back({"nvidia.com/gpu", Amount{20}, std::nullopt, std::nullopt});
  world.cluster.AddQueue(queue);
  engine::Cohort team;
  team.name = "team";
  team.resource_groups = {{{"cpu"}, {{"f", {{"cpu", Amount{65'500}, std::nullopt, std::nullopt}}}}}};
  world.cluster.Apply(engine::CohortChanged{team});
  for (const char* name : {"n1", "n2"}) {
    gang::Node node = CpuNode(name, 32'000);
    node.allocatable["nvidia.com/gpu"] = Amount{8};
    world.cluster.Apply(engine::NodeChanged{node});
  }
  // Three devices of n1, and half a cpu.
  world.cluster.Apply(engine::PodPlaced{"ns/x", "n1", {{"nvidia.com/gpu", Amount{3}}, {"cpu", Amount{500}}}});
  gang::Shape shape;
  shape.requests["nvidia.com/gpu"] = Amount{8};
  engine::Workload workload = Gang("w", "q", 2);
  workload.pod_sets[0].shape = std::make_shared<const gang::Shape>(shape);
  world.cluster.Submit(workload);
  CHECK(world.cluster.Run().empty());

  const std::string cpu = "flavor=\"f\",resource=\"cpu\"";
  const std::string gpu = "flavor=\"f\",resource=\"nvidia.com/gpu\"";
  const std::string flavor = "muster_flavor_";
  CHECK(Lines(world.metrics, "muster_flavor_") ==
        Series(flavor + "nodes", "flavor=\"f\"", "2") + Series(flavor + "nominal_quota", cpu, "129.5") +
            Series(flavor + "nominal_quota", gpu, "20") + Series(flavor + "allocatable", cpu, "64") +
            Series(flavor + "allocatable", gpu, "16") + Series(flavor + "free", cpu, "63.5") +
            Series(flavor + "free", gpu, "13") + Series(flavor + "largest_free_block", cpu, "32") +
            Series(flavor + "largest_free_block", gpu, "8") +
            Series(flavor + "room_pods", gpu + ",devices=\"1\"", "13") +
            Series(flavor + "room_pods", gpu + ",devices=\"2\"", "6") +
            Series(flavor + "room_pods", gpu + ",devices=\"4\"", "3") +
            Series(flavor + "room_pods", gpu + ",devices=\"8\"", "1") +
            Series(flavor + "room_pods", gpu + ",devices=\"16\"", "0"));
  CHECK(Lines(world.metrics, "muster_cluster_queue_unserved_quota") ==
        Series("muster_cluster_queue_unserved_quota", "cluster_queue=\"q\"," + gpu, "4"));
  CHECK(Lines(world.metrics, "muster_cohort_unserved_quota") ==
        Series("muster_cohort_unserved_quota", "cohort=\"team\"," + cpu, "1.5"));
  CHECK(Lines(world.metrics, "muster_fit_failures_total") ==
        Series("muster_fit_failures_total", "flavor=\"f\",cause=\"Resource\",resource=\"nvidia.com/gpu\"", "1"));

  // One that fits: five devices of n1 or eight of n2.
  CHECK(Lines(world.metrics, "muster_machine_reservations") ==
        "muster_machine_reservations_total{replica_role=\"leader\"} 0\n");
  shape.requests["nvidia.com/gpu"] = Amount{5};
  workload = Gang("fits", "q", 2);
  workload.pod_sets[0].shape = std::make_shared<const gang::Shape>(shape);
  world.cluster.Submit(workload);
  CHECK(world.cluster.Run() == std::vector<std::string>{"fits"});
  CHECK(Lines(world.metrics, "muster_machine_reservations") ==
        "muster_machine_reservations_total{replica_role=\"leader\"} 1\n");

  world.cluster.Apply(engine::FlavorDeleted{"f"});
  for (const char* name : {"muster_flavor_", "muster_cluster_queue_unserved", "muster_cohort_", "muster_fit_"}) {
    CHECK(Lines(world.metrics, name).empty());
  }
}

TEST_CASE("where machines are not looked at, admissions reserve none") {
  World world;
  world.cluster.AddQueue(CpuQueue("q", "", 64'000));
  world.cluster.Apply(engine::NodeChanged{CpuNode("n1", 32'000)});
  world.cluster.Submit(Gang("w", "q", 2));
  CHECK(world.cluster.Run() == std::vector<std::string>{"w"});
  CHECK(Lines(world.metrics, "muster_machine_reservations") ==
        "muster_machine_reservations_total{replica_role=\"leader\"} 0\n");
}

}  // namespace muster::server
