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
  const engine::Inactivity topology{InactiveReason::kTopologyNotFound,
                                    {R"("rows" for TAS flavor "a")", R"("racks" for TAS flavor "b")"}};
  CHECK(Active({}) == "True/Ready: Can admit new workloads");
  CHECK(Active({{InactiveReason::kTerminating, {}}, missing}) ==
        "False/Terminating: Can't admit new workloads; clusterQueue is terminating");
  CHECK(Active({missing}) ==
        "False/FlavorNotFound: Can't admit new workloads: references missing ResourceFlavor(s): on-demand,spot.");
  CHECK(Active({stopped, missing}) ==
        "False/Stopped: Can't admit new workloads: is stopped, references missing ResourceFlavor(s): on-demand,spot.");
  CHECK(Active({missing, cycle}) ==
        "False/FlavorNotFound: Can't admit new workloads: references missing ResourceFlavor(s): on-demand,spot, its "
        "cohorts form a cycle: a, b.");
  // kueue_semantics 1.3.
  CHECK(Active({topology}) ==
        "False/TopologyNotFound: Can't admit new workloads: there is no Topology \"rows\" for TAS flavor \"a\", there "
        "is no Topology \"racks\" for TAS flavor \"b\".");
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
  const std::string patch = EncodeStatusPatch(known, wanted, QueueKind::kClusterQueue);
  for (const char* field : {"conditions", "flavorsReservation", "flavorsUsage", "pendingWorkloads",
                            "reservingWorkloads", "admittedWorkloads"}) {
    CHECK_THAT(patch, Catch::Contains(field));
  }
  CHECK(DecodeQueueStatus(R"({"status":{"pendingWorkloads":1}})").legible);
}

// kueue_semantics 5.8: rounded up by the engine; nothing without fair sharing.
TEST_CASE("The weighted share is written where there is one, and taken away where there is none any more") {
  engine::CohortView cohort;
  QueueObject known;
  CHECK(EncodeStatusPatch(known, ProjectStatus(known.status, cohort), QueueKind::kCohort).empty());
  cohort.weighted_share = engine::WeightedShare{.permille = 125};
  QueueStatus status = ProjectStatus(known.status, cohort);
  CHECK_THAT(EncodeStatusPatch(known, status, QueueKind::kCohort),
             Catch::EndsWith(R"("status":{"fairSharing":{"weightedShare":125}}})"));
  known.status = DecodeQueueStatus(R"({"status":{"fairSharing":{"weightedShare":125}}})");
  CHECK(EncodeStatusPatch(known, status, QueueKind::kCohort).empty());
  CHECK_THAT(EncodeStatusPatch(known, ProjectStatus(known.status, engine::CohortView{}), QueueKind::kCohort),
             Catch::EndsWith(R"("status":{"fairSharing":null}})"));

  engine::ClusterQueueView queue;
  queue.active = true;
  queue.weighted_share = engine::WeightedShare{.permille = INT64_MAX};
  status = ProjectStatus(QueueStatus{}, 1, queue, WallTime{1'000'000'000});
  CHECK_THAT(EncodeStatusPatch({}, status, QueueKind::kClusterQueue),
             Catch::Contains(R"("fairSharing":{"weightedShare":9223372036854775807})"));
}

// kueue_semantics 9.12
TEST_CASE("What a LocalQueue has consumed is kept in its status, and written when it has changed") {
  engine::LocalQueueView view;
  view.active = view.cluster_queue_exists = true;
  view.consumption.emplace();
  view.consumption->resources = {{{"cpu", Amount{1500}}, {"memory", Amount{2048}}}, WallTime{90'500'000'000}};
  const QueueStatus first = ProjectStatus(QueueStatus{}, 1, view, WallTime{91'000'000'000});
  CHECK_THAT(EncodeStatusPatch({}, first, QueueKind::kLocalQueue),
             Catch::Contains(R"("fairSharing":{"weightedShare":0,"admissionFairSharingStatus":{"consumedResources":)"
                             R"({"cpu":"1500m","memory":"2Ki"},"lastUpdate":"1970-01-01T00:01:30Z"}})"));
  QueueObject known{{}, first};
  view.consumption->resources.as_of = WallTime{390'000'000'000};
  CHECK(EncodeStatusPatch(known, ProjectStatus(first, 1, view, WallTime{391'000'000'000}), QueueKind::kLocalQueue)
            .empty());
  // A resource that is consumed no more is taken away.
  view.consumption->resources.amounts = {{"cpu", Amount{750}}};
  CHECK_THAT(
      EncodeStatusPatch(known, ProjectStatus(first, 1, view, WallTime{391'000'000'000}), QueueKind::kLocalQueue),
      Catch::Contains(R"("consumedResources":{"cpu":"750m","memory":null},"lastUpdate":"1970-01-01T00:06:30Z"}})"));
  view.consumption.reset();
  CHECK_THAT(EncodeStatusPatch(known, ProjectStatus(first, 1, view, WallTime{391'000'000'000}), QueueKind::kLocalQueue),
             Catch::Contains(R"("fairSharing":null)"));
}

TEST_CASE("What a LocalQueue has consumed is read from its status, and what is spoilt of it is put right") {
  const char* status = R"({"status":{"fairSharing":{"weightedShare":0,"admissionFairSharingStatus":{)"
                       R"("consumedResources":{"gpu":3,"cpu":"1.5","memory":"much"},)"
                       R"("lastUpdate":"1970-01-01T00:01:30Z"}}}})";
  const QueueStatus known = DecodeQueueStatus(status);
  CHECK(known.legible);
  REQUIRE(known.consumed.has_value());
  CHECK(*known.consumed ==
        engine::ConsumedResources{{{"cpu", Amount{1500}}, {"gpu", Amount{3}}, {"memory", Amount::Lowest()}},
                                  WallTime{90'000'000'000}});
  engine::LocalQueueView view;
  view.consumption.emplace();
  view.consumption->resources = {{{"cpu", Amount{1500}}, {"gpu", Amount{3}}}, WallTime{90'000'000'000}};
  CHECK_THAT(
      EncodeStatusPatch({{}, known}, ProjectStatus(known, 1, view, WallTime{91'000'000'000}), QueueKind::kLocalQueue),
      Catch::Contains(R"("consumedResources":{"cpu":"1500m","gpu":"3","memory":null})"));
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
