// The condition Active of a ClusterQueue, in the reference's words (kueue_semantics 1.3); the last two reasons are
// Muster's own.
#include "muster/controller/queue_status.h"

#include <catch2/catch.hpp>

#include "world.h"

namespace muster::controller {
namespace {

using engine::InactiveReason;

std::string Active(const std::vector<engine::Inactivity>& inactive) {
  engine::ClusterQueueView view;
  view.name = "cq";
  view.active = inactive.empty();
  view.inactive = inactive;
  const QueueStatus status = ProjectStatus(QueueStatus{}, 1, view, WallTime{1'000'000'000});
  REQUIRE(status.conditions.size() == 1);
  const k8s::Condition& active = status.conditions[0];
  CHECK(active.type == "Active");
  return active.status + "/" + active.reason + ": " + active.message;
}

TEST_CASE("An inactive ClusterQueue tells each reason with what it is about") {
  const engine::Inactivity stopped{InactiveReason::kStopped, {}};
  const engine::Inactivity missing{InactiveReason::kFlavorNotFound, {"on-demand", "spot"}};
  const engine::Inactivity cycle{InactiveReason::kCohortCycle, {"a", "b"}};
  const engine::Inactivity unsupported{InactiveReason::kUnsupported, {"spec.admissionChecksStrategy", "spec.other"}};
  CHECK(Active({}) == "True/Ready: Can admit new workloads");
  CHECK(Active({{InactiveReason::kTerminating, {}}, missing}) ==
        "False/Terminating: Can't admit new workloads; clusterQueue is terminating");
  CHECK(Active({missing}) ==
        "False/FlavorNotFound: Can't admit new workloads: references missing ResourceFlavor(s): on-demand,spot.");
  CHECK(Active({stopped, missing}) ==
        "False/Stopped: Can't admit new workloads: is stopped, references missing ResourceFlavor(s): on-demand,spot.");
  CHECK(Active({missing, cycle, unsupported}) ==
        "False/FlavorNotFound: Can't admit new workloads: references missing ResourceFlavor(s): on-demand,spot, its "
        "cohorts form a cycle: a, b, uses what is not supported: spec.admissionChecksStrategy, spec.other.");
}

TEST_CASE("What cannot be read is told with object, field and value") {
  CHECK(Active({{InactiveReason::kMisconfigured, {"spec.x: \"1e\" is not a quantity"}}}) ==
        "False/Misconfigured: Can't admit new workloads: cannot read spec.x: \"1e\" is not a quantity.");
  CHECK(Active({{InactiveReason::kFlavorMisconfigured, {"ResourceFlavor f: spec.y: bad"}}}) ==
        "False/FlavorMisconfigured: Can't admit new workloads: cannot read ResourceFlavor f: spec.y: bad.");
  CHECK(Active({{InactiveReason::kCohortMisconfigured, {"Cohort a: spec.z: bad", "Cohort b: spec.z: bad"}}}) ==
        "False/CohortMisconfigured: Can't admit new workloads: cannot read Cohort a: spec.z: bad, Cohort b: spec.z: "
        "bad.");
}

TEST_CASE("A status that somebody has spoilt counts as none and is written whole") {
  const QueueStatus spoilt = DecodeQueueStatus(R"({"status":{"pendingWorkloads":-1,"reservingWorkloads":2}})");
  CHECK_FALSE(spoilt.legible);
  engine::ClusterQueueView view;
  view.name = "cq";
  view.active = true;
  const QueueObject known{{}, spoilt};
  const QueueStatus wanted = ProjectStatus(spoilt, 1, view, WallTime{1'000'000'000});
  const std::string patch = EncodeStatusPatch(known, wanted, true);
  for (const char* field : {"conditions", "flavorsReservation", "flavorsUsage", "pendingWorkloads",
                            "reservingWorkloads", "admittedWorkloads"}) {
    CHECK_THAT(patch, Catch::Contains(field));
  }
  CHECK(DecodeQueueStatus(R"({"status":{"pendingWorkloads":1}})").legible);
}

// Through the engine: of several reasons each has its own names.
TEST_CASE("A stopped ClusterQueue without its flavors names them") {
  World world(1, false);
  world.Start();
  world.MakeQueues("4");
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "Hold"}}}});
  world.Delete("resourceflavors", "", "f");
  CHECK(world.RunUntil([&] {
    const sim::Json conditions = sim::At(world.Get("clusterqueues", "", "cq"), "status", "conditions");
    return conditions.is_array() && conditions.size() == 1 &&
           sim::Text(sim::Get(conditions[0], "message")) ==
               "Can't admit new workloads: is stopped, references missing ResourceFlavor(s): f.";
  }));
}

}  // namespace
}  // namespace muster::controller
