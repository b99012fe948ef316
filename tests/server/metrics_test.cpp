// Names, labels and buckets are Kueue's (kueue_semantics 8.1); the values are counted by hand from the small
// cluster that each case sets up.

#include "muster/server/metrics.h"

#include <absl/strings/str_split.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "metrics_world.h"
#include "muster/engine/engine.h"

namespace muster::server {
namespace {

using engine::CpuQueue;
using engine::Gang;
using std::chrono::milliseconds;
using std::chrono::seconds;

engine::QueueRef Ref(const std::string& queue, const std::string& priority_class = "") {
  return {queue, "ns", queue, priority_class};
}

// a in "leaf", under "middle", which has no queue of its own, under "root", which is only named as a parent.
TEST_CASE("cohorts have their parent and the root of their tree, queues or not") {
  World world;
  world.cluster.AddQueue(CpuQueue("a", "leaf", 4000));
  for (const auto& [name, parent] :
       std::vector<std::pair<std::string, std::string>>{{"leaf", "middle"}, {"middle", "root"}}) {
    engine::Cohort cohort;
    cohort.name = name;
    cohort.parent = parent;
    world.cluster.Apply(engine::CohortChanged{cohort});
  }
  CHECK(Lines(world.metrics, "kueue_cluster_queue_info") ==
        "kueue_cluster_queue_info{cluster_queue=\"a\",parent_cohort=\"leaf\",root_cohort=\"root\",replica_role="
        "\"leader\"} 1\n");
  CHECK(Lines(world.metrics, "kueue_cohort_info") ==
        "kueue_cohort_info{cohort=\"leaf\",parent_cohort=\"middle\",root_cohort=\"root\",replica_role=\"leader\"} 1\n"
        "kueue_cohort_info{cohort=\"middle\",parent_cohort=\"root\",root_cohort=\"root\",replica_role=\"leader\"} 1\n"
        "kueue_cohort_info{cohort=\"root\",parent_cohort=\"\",root_cohort=\"root\",replica_role=\"leader\"} 1\n");
}

// kueue_semantics 8.1: only with fair sharing; NaN for who borrows with weight 0.
TEST_CASE("weighted shares are those of the engine, unrounded") {
  engine::EngineOptions options;
  options.fair_sharing.emplace();
  World world({}, options);
  world.cluster.AddQueue(CpuQueue("a", "team", 1000));
  world.cluster.AddQueue(CpuQueue("b", "team", 7000));
  engine::ClusterQueue zero = CpuQueue("z", "team", 0);
  zero.fair_weight = {0};
  world.cluster.AddQueue(zero);
  world.cluster.Submit(Gang("w", "a", 1500));
  world.cluster.Submit(Gang("x", "z", 1));
  CHECK(world.cluster.Run().size() == 2);
  CHECK(Lines(world.metrics, "kueue_cluster_queue_weighted_share") ==
        "kueue_cluster_queue_weighted_share{cluster_queue=\"a\",cohort=\"team\",replica_role=\"leader\"} 62.5\n"
        "kueue_cluster_queue_weighted_share{cluster_queue=\"b\",cohort=\"team\",replica_role=\"leader\"} 0\n"
        "kueue_cluster_queue_weighted_share{cluster_queue=\"z\",cohort=\"team\",replica_role=\"leader\"} Nan\n");
  CHECK(Lines(world.metrics, "kueue_cohort_weighted_share") ==
        "kueue_cohort_weighted_share{cohort=\"team\",replica_role=\"leader\"} 0\n");
  World classical;
  classical.cluster.AddQueue(CpuQueue("a", "team", 1000));
  CHECK(Lines(classical.metrics, "kueue_cluster_queue_weighted_share").empty());
  CHECK(Lines(classical.metrics, "kueue_cohort_weighted_share").empty());
}

// kueue_semantics 8.1, 9.12: with a half-life of one interval an admission adds half of what it asks for.
TEST_CASE("what LocalQueues have consumed is told where it decides who goes first") {
  engine::EngineOptions options;
  options.admission_fair_sharing.emplace().usage_half_life_time = std::chrono::minutes(5);
  World world(MetricsOptions{}, options);
  engine::ClusterQueue queue = CpuQueue("a", "", 5000);
  queue.usage_based_admission = true;
  world.cluster.AddQueue(queue);
  world.cluster.AddQueue(CpuQueue("b", "", 5000));
  world.cluster.Submit(Gang("w", "a", 3000));
  CHECK(world.cluster.Run().size() == 1);
  const std::string metric = "kueue_local_queue_admission_fair_sharing_usage";
  const std::string labels = "{name=\"a\",namespace=\"ns\",cluster_queue=\"a\",replica_role=\"leader\"}";
  CHECK(Lines(world.metrics, metric) == metric + labels + " 1.5\n");
}

// user_pains A20, F4, F6
TEST_CASE("queue gauges show the engine as it is at the scrape") {
  World world({.cluster_queue_resources = true, .local_queues = true});
  // 4 and 2 cpus; `a` may borrow 1.5 of the 2, and does borrow 1.
  world.cluster.AddQueue(CpuQueue("a", "team", 4000, 1500));
  world.cluster.AddQueue(CpuQueue("b", "team", 2000, std::nullopt, 1800));
  engine::ClusterQueue broken = CpuQueue("c", "", 1000);
  broken.resource_groups[0].flavors[0].flavor = "missing";
  world.cluster.AddQueue(broken);
  world.cluster.Submit(Gang("runs", "a", 5000));
  world.cluster.Submit(Gang("waits", "a", 1000, 2));
  world.cluster.Submit(Gang("too-big", "b", 9000));  // more than the 6 cpus there are
  CHECK(world.cluster.Run() == std::vector<std::string>{"runs"});

  CHECK(Lines(world.metrics, "kueue_pending_workloads") ==
        "kueue_pending_workloads{cluster_queue=\"a\",status=\"active\",replica_role=\"leader\"} 0\n"
        "kueue_pending_workloads{cluster_queue=\"a\",status=\"inadmissible\",replica_role=\"leader\"} 1\n"
        "kueue_pending_workloads{cluster_queue=\"b\",status=\"active\",replica_role=\"leader\"} 0\n"
        "kueue_pending_workloads{cluster_queue=\"b\",status=\"inadmissible\",replica_role=\"leader\"} 1\n"
        "kueue_pending_workloads{cluster_queue=\"c\",status=\"active\",replica_role=\"leader\"} 0\n"
        "kueue_pending_workloads{cluster_queue=\"c\",status=\"inadmissible\",replica_role=\"leader\"} 0\n");
  CHECK(Lines(world.metrics, "kueue_unadmitted_workloads") ==
        "kueue_unadmitted_workloads{cluster_queue=\"a\",reason=\"NoReservation\",underlying_cause=\"WaitingForQuota\","
        "replica_role=\"leader\"} 1\n"
        "kueue_unadmitted_workloads{cluster_queue=\"b\",reason=\"NoReservation\",underlying_cause=\"ExceedsMaxQuota\","
        "replica_role=\"leader\"} 1\n");
  CHECK(Lines(world.metrics, "kueue_reserving_active_workloads") ==
        "kueue_reserving_active_workloads{cluster_queue=\"a\",replica_role=\"leader\"} 1\n"
        "kueue_reserving_active_workloads{cluster_queue=\"b\",replica_role=\"leader\"} 0\n"
        "kueue_reserving_active_workloads{cluster_queue=\"c\",replica_role=\"leader\"} 0\n");
  CHECK(Lines(world.metrics, "kueue_admitted_active_workloads{cluster_queue=\"a\"") ==
        "kueue_admitted_active_workloads{cluster_queue=\"a\",replica_role=\"leader\"} 1\n");
  CHECK(Lines(world.metrics, "kueue_cluster_queue_status{cluster_queue=\"c\"") ==
        "kueue_cluster_queue_status{cluster_queue=\"c\",status=\"pending\",replica_role=\"leader\"} 1\n"
        "kueue_cluster_queue_status{cluster_queue=\"c\",status=\"active\",replica_role=\"leader\"} 0\n"
        "kueue_cluster_queue_status{cluster_queue=\"c\",status=\"terminating\",replica_role=\"leader\"} 0\n");
  CHECK(Lines(world.metrics, "kueue_cluster_queue_status{cluster_queue=\"a\",status=\"active\"") ==
        "kueue_cluster_queue_status{cluster_queue=\"a\",status=\"active\",replica_role=\"leader\"} 1\n");
  CHECK(
      Lines(world.metrics, "kueue_cluster_queue_info") ==
      "kueue_cluster_queue_info{cluster_queue=\"a\",parent_cohort=\"team\",root_cohort=\"team\",replica_role="
      "\"leader\"} 1\n"
      "kueue_cluster_queue_info{cluster_queue=\"b\",parent_cohort=\"team\",root_cohort=\"team\",replica_role="
      "\"leader\"} 1\n"
      "kueue_cluster_queue_info{cluster_queue=\"c\",parent_cohort=\"\",root_cohort=\"\",replica_role=\"leader\"} 1\n");
  CHECK(Lines(world.metrics, "kueue_cohort_info") ==
        "kueue_cohort_info{cohort=\"team\",parent_cohort=\"\",root_cohort=\"team\",replica_role=\"leader\"} 1\n");
  const std::string a = "{cohort=\"team\",cluster_queue=\"a\",flavor=\"f\",resource=\"cpu\",replica_role=\"leader\"} ";
  const std::string b = "{cohort=\"team\",cluster_queue=\"b\",flavor=\"f\",resource=\"cpu\",replica_role=\"leader\"} ";
  CHECK(Lines(world.metrics, "kueue_cluster_queue_resource_reservation{cohort=\"team\"") ==
        "kueue_cluster_queue_resource_reservation" + a + "5\nkueue_cluster_queue_resource_reservation" + b + "0\n");
  CHECK(Lines(world.metrics, "kueue_cluster_queue_resource_usage{cohort=\"team\",cluster_queue=\"a\"") ==
        "kueue_cluster_queue_resource_usage" + a + "5\n");
  CHECK(Lines(world.metrics, "kueue_cluster_queue_nominal_quota{cohort=\"team\"") ==
        "kueue_cluster_queue_nominal_quota" + a + "4\nkueue_cluster_queue_nominal_quota" + b + "2\n");
  CHECK(Lines(world.metrics, "kueue_cluster_queue_borrowing_limit{cohort=\"team\"") ==
        "kueue_cluster_queue_borrowing_limit" + a + "1.5\nkueue_cluster_queue_borrowing_limit" + b + "+Inf\n");
  CHECK(Lines(world.metrics, "kueue_cluster_queue_lending_limit{cohort=\"team\",cluster_queue=\"a\"") ==
        "kueue_cluster_queue_lending_limit" + a + "+Inf\n");
}

// One node has room for one of two pods, and goes before they come.
TEST_CASE("gangs that lack places on machines are counted by their queue") {
  engine::EngineOptions options;
  options.machines = true;
  World world({}, options);
  world.cluster.AddQueue(CpuQueue("a", "", 10));
  gang::Node node = CpuNode("n1", 2);
  world.cluster.Apply(engine::NodeChanged{node});
  world.cluster.Submit(Gang("w", "a", 2));
  CHECK(world.cluster.Run().size() == 1);
  const std::string line = "muster_workloads_lacking_places{cluster_queue=\"a\",replica_role=\"leader\"} ";
  CHECK(Lines(world.metrics, "muster_workloads_lacking_places") == line + "0\n");
  node.unschedulable = true;
  world.cluster.Apply(engine::NodeChanged{node});
  world.cluster.Run(engine::At(101));
  CHECK(Lines(world.metrics, "muster_workloads_lacking_places") == line + "1\n");
}

// b and c own 2 each, and a runs 4 of theirs, 2 of them with too high a priority to be reclaimed. b gets the others; c,
// which would have taken the same, is skipped.
TEST_CASE("preemptors that lost to others in the last run are counted by their queue") {
  World world;
  world.cluster.AddQueue(CpuQueue("a", "team", 0));
  for (const std::string name : {"b", "c"}) {
    engine::ClusterQueue queue = CpuQueue(name, "team", 2);
    queue.reclaim_within_cohort = engine::PreemptionPolicy::kLowerPriority;
    world.cluster.AddQueue(queue);
  }
  world.cluster.Submit(Gang("safe", "a", 2, 1, 9));
  world.cluster.Submit(Gang("victim", "a", 2, 2));
  while (!world.cluster.Run().empty()) {
  }
  world.cluster.Submit(Gang("first", "b", 2, 3, 5));
  world.cluster.Submit(Gang("second", "c", 2, 4, 5));
  world.cluster.Run();
  const auto skips = [&world](const std::string& queue) {
    return Lines(world.metrics, "kueue_admission_cycle_preemption_skips{cluster_queue=\"" + queue + "\"");
  };
  const auto line = [](const std::string& queue, const std::string& value) {
    return "kueue_admission_cycle_preemption_skips{cluster_queue=\"" + queue + "\",replica_role=\"leader\"} " + value +
           "\n";
  };
  CHECK(skips("a") == line("a", "0"));
  CHECK(skips("b") == line("b", "0"));
  CHECK(skips("c") == line("c", "1"));
}

TEST_CASE("local queues have series of their own") {
  World world;
  world.cluster.AddQueue(CpuQueue("a", "", 4000));
  world.cluster.Submit(Gang("runs", "a", 2500));
  world.cluster.Submit(Gang("waits", "a", 2000, 2));
  world.cluster.Run();
  const std::string q = "{name=\"a\",namespace=\"ns\",";
  CHECK(Lines(world.metrics, "kueue_local_queue") ==
        "kueue_local_queue_pending_workloads" + q + "status=\"active\",replica_role=\"leader\"} 0\n" +
            "kueue_local_queue_pending_workloads" + q + "status=\"inadmissible\",replica_role=\"leader\"} 1\n" +
            "kueue_local_queue_unadmitted_workloads" + q +
            "cluster_queue=\"a\",reason=\"NoReservation\",underlying_cause=\"WaitingForQuota\",replica_role=\"leader\"}"
            " 1\n" +
            "kueue_local_queue_finished_workloads" + q + "replica_role=\"leader\"} 0\n" +
            "kueue_local_queue_reserving_active_workloads" + q + "replica_role=\"leader\"} 1\n" +
            "kueue_local_queue_admitted_active_workloads" + q + "replica_role=\"leader\"} 1\n" +
            "kueue_local_queue_status" + q + "active=\"True\",replica_role=\"leader\"} 1\n" +
            "kueue_local_queue_status" + q + "active=\"False\",replica_role=\"leader\"} 0\n" +
            "kueue_local_queue_status" + q + "active=\"Unknown\",replica_role=\"leader\"} 0\n" +
            "kueue_local_queue_resource_reservation" + q +
            "flavor=\"f\",resource=\"cpu\",replica_role=\"leader\"} 2.5\n" + "kueue_local_queue_resource_usage" + q +
            "flavor=\"f\",resource=\"cpu\",replica_role=\"leader\"} 2.5\n");
}

TEST_CASE("series that are not asked for are not there") {
  World world({.cluster_queue_resources = false, .local_queues = false});
  world.cluster.AddQueue(CpuQueue("a", "", 4000));
  world.metrics.QuotaReserved(Ref("a"), seconds(1));
  const std::string text = RenderMetrics(world.metrics.Collect());
  CHECK(text.find("local_queue") == std::string::npos);
  CHECK(text.find("nominal_quota") == std::string::npos);
  CHECK(text.find("kueue_quota_reserved_workloads_total{") != std::string::npos);
}

TEST_CASE("what Telemetry reports is counted under Kueue's names") {
  World world;
  world.role = ReplicaRole::kStandalone;
  world.cluster.AddQueue(CpuQueue("a", "", 4000));
  Metrics& m = world.metrics;
  m.AdmissionAttempt(true, milliseconds(3));
  m.AdmissionAttempt(false, milliseconds(30));
  m.AdmissionAttempt(false, milliseconds(30));
  m.QuotaReserved(Ref("a", "high"), seconds(7));
  m.Admitted(Ref("a", "high"), seconds(7), Duration::zero());
  m.Evicted(Ref("a", "high"), "Preempted", "", 4, true);
  m.Evicted(Ref("a", "high"), "Preempted", "", 4, false);
  m.Preempted("a", "InCohortReclamation");
  m.Preempted("a", "InCohortReclamation");
  m.TargetsRecomputed({"a", engine::RecomputedTargets::kNewTargets, 2});
  m.TargetsRecomputed({"a", engine::RecomputedTargets::kNewTargets, 1});
  m.TargetsRecomputed({"a", engine::RecomputedTargets::kDeferredFit, 1});
  m.TargetsRecomputed({"a", engine::RecomputedTargets::kSkipped, 5});
  m.SliceReplaced(Ref("a"));
  m.EvictionDone(Ref("a"), "Preempted", seconds(4));
  m.PodsReady(Ref("a", "high"), seconds(9), seconds(2));
  m.ReadyPodsEvicted(Ref("a"), "PodsReadyTimeout", "WaitForRecovery", seconds(30));
  m.Finished(Ref("a"), seconds(60));
  m.WorkloadCreated("Job.batch", milliseconds(15));
  m.Write("jobs", "patch", 200, milliseconds(9));
  m.Write("jobs", "patch", 200, milliseconds(9));
  m.Write("workloads/status", "patch", 0, seconds(4));
  m.EventDropped();

  const std::string role = "replica_role=\"standalone\"} ";
  CHECK(Lines(m, "kueue_admission_attempts_total") == "kueue_admission_attempts_total{result=\"inadmissible\"," + role +
                                                          "2\n" + "kueue_admission_attempts_total{result=\"success\"," +
                                                          role + "1\n");
  for (const std::string name : {"quota_reserved_workloads_total", "admitted_workloads_total"}) {
    CHECK(Lines(m, "kueue_" + name) ==
          "kueue_" + name + "{cluster_queue=\"a\",priority_class=\"high\"," + role + "1\n");
    CHECK(Lines(m, "kueue_local_queue_" + name) ==
          "kueue_local_queue_" + name + "{name=\"a\",namespace=\"ns\",priority_class=\"high\"," + role + "1\n");
  }
  const std::string evicted = "reason=\"Preempted\",underlying_cause=\"\",priority_class=\"high\"," + role;
  CHECK(Lines(m, "kueue_evicted_workloads_total") ==
        "kueue_evicted_workloads_total{cluster_queue=\"a\"," + evicted + "2\n");
  CHECK(Lines(m, "kueue_evicted_workloads_once_total") ==
        "kueue_evicted_workloads_once_total{cluster_queue=\"a\"," + evicted + "1\n");
  CHECK(Lines(m, "kueue_preempted_workloads_total") ==
        "kueue_preempted_workloads_total{preempting_cluster_queue=\"a\",reason=\"InCohortReclamation\"," + role +
            "2\n");
  CHECK(Lines(m, "muster_evicted_pods_total") ==
        "muster_evicted_pods_total{cluster_queue=\"a\",reason=\"Preempted\",underlying_cause=\"\"," + role + "8\n");
  const std::string recomputed = "kueue_preemption_target_recomputations_total{cluster_queue=\"a\",result=\"";
  CHECK(Lines(m, "kueue_preemption_target_recomputations_total") == recomputed + "deferred_fit\"," + role + "1\n" +
                                                                        recomputed + "new_targets\"," + role + "3\n" +
                                                                        recomputed + "skipped\"," + role + "5\n");
  CHECK(Lines(m, "kueue_replaced_workload_slices_total") ==
        "kueue_replaced_workload_slices_total{cluster_queue=\"a\"," + role + "1\n");
  CHECK(Lines(m, "kueue_workload_eviction_latency_seconds_sum") ==
        "kueue_workload_eviction_latency_seconds_sum{cluster_queue=\"a\",reason=\"Preempted\"," + role + "4\n");
  for (const auto& [name, sum] :
       {std::pair{"ready_wait_time_seconds_sum", "9"}, std::pair{"admitted_until_ready_wait_time_seconds_sum", "2"}}) {
    CHECK(Lines(m, std::string("kueue_") + name) ==
          std::string("kueue_") + name + "{cluster_queue=\"a\",priority_class=\"high\"," + role + sum + "\n");
    CHECK(Lines(m, std::string("kueue_local_queue_") + name) ==
          std::string("kueue_local_queue_") + name + "{name=\"a\",namespace=\"ns\",priority_class=\"high\"," + role +
              sum + "\n");
  }
  CHECK(Lines(m, "kueue_pods_ready_to_evicted_time_seconds_sum") ==
        "kueue_pods_ready_to_evicted_time_seconds_sum{cluster_queue=\"a\",reason=\"PodsReadyTimeout\","
        "underlying_cause=\"WaitForRecovery\"," +
            role + "30\n");
  CHECK(Lines(m, "kueue_finished_workloads_total") ==
        "kueue_finished_workloads_total{cluster_queue=\"a\",priority_class=\"\"," + role + "1\n");
  CHECK(Lines(m, "kueue_execution_time_seconds_sum") ==
        "kueue_execution_time_seconds_sum{cluster_queue=\"a\",priority_class=\"\"," + role + "60\n");
  CHECK(Lines(m, "kueue_workload_creation_latency_seconds_count") ==
        "kueue_workload_creation_latency_seconds_count{job_kind=\"Job.batch\"," + role + "1\n");
  CHECK(Lines(m, "muster_api_writes_total") ==
        "muster_api_writes_total{resource=\"jobs\",verb=\"patch\",code=\"200\"," + role + "2\n" +
            "muster_api_writes_total{resource=\"workloads/status\",verb=\"patch\",code=\"0\"," + role + "1\n");
  CHECK(Lines(m, "muster_events_dropped_total") == "muster_events_dropped_total{" + role + "1\n");
  CHECK(Lines(m, "muster_informer") == "muster_informer_objects{kind=\"Job\"," + role + "7\n" +
                                           "muster_informer_lists_total{kind=\"Job\"," + role + "3\n" +
                                           "muster_informer_watch_cuts_total{kind=\"Job\"," + role + "5\n");
  CHECK(Lines(m, "muster_standing_problems") == "muster_standing_problems{" + role + "2\n");
  CHECK(Lines(m, "muster_unwritten_claims") == "muster_unwritten_claims{" + role + "0\n");
}

// user_pains F2
TEST_CASE("histograms have Kueue's buckets, upper bounds included") {
  World world;
  world.cluster.AddQueue(CpuQueue("a", "", 4000));
  const engine::QueueRef queue{"a", "", "", ""};  // of no LocalQueue
  for (const Duration wait : {Duration(seconds(1)), Duration(milliseconds(1001)), Duration(seconds(5)),
                              Duration(seconds(20480)), Duration(seconds(99999)), Duration(-seconds(3))}) {
    world.metrics.QuotaReserved(queue, wait);
    world.metrics.Admitted(queue, wait, wait);
  }
  const std::string labels = "{cluster_queue=\"a\",priority_class=\"\",replica_role=\"leader\",le=\"";
  // Kueue's: 1, then 2.5 doubled; and further, to 7.6 days.
  const std::pair<const char*, int> kExpected[] = {
      {"1", 2},     {"2.5", 3},   {"5", 4},     {"10", 4},     {"20", 4},     {"40", 4},     {"80", 4},
      {"160", 4},   {"320", 4},   {"640", 4},   {"1280", 4},   {"2560", 4},   {"5120", 4},   {"10240", 4},
      {"20480", 5}, {"40960", 5}, {"81920", 5}, {"163840", 6}, {"327680", 6}, {"655360", 6}, {"+Inf", 6}};
  for (const std::string name : {"quota_reserved_wait_time", "admission_wait_time", "admission_checks_wait_time"}) {
    const std::string metric = "kueue_" + name + "_seconds_bucket";
    std::string buckets;
    for (const auto& [bound, count] : kExpected) {
      buckets += metric + labels + bound + "\"} " + std::to_string(count) + "\n";
    }
    CHECK(Lines(world.metrics, metric) == buckets);
  }
  // 1 + 1.001 + 5 + 20480 + 99999; what is negative counts as 0.
  CHECK(Lines(world.metrics, "kueue_quota_reserved_wait_time_seconds_sum") ==
        "kueue_quota_reserved_wait_time_seconds_sum{cluster_queue=\"a\",priority_class=\"\",replica_role=\"leader\"} "
        "120486.001\n");
}

// "team" is under "all"; b is in "all" alone. Counted by hand. user_pains A2, A3: what goes takes its quota along.
TEST_CASE("cohorts sum up quota, what is held, and who was admitted below them") {
  World world;
  world.cluster.AddQueue(CpuQueue("a", "team", 4000));
  world.cluster.AddQueue(CpuQueue("b", "all", 2000, std::nullopt, 500));
  engine::Cohort team;
  team.name = "team";
  team.parent = "all";
  world.cluster.Apply(engine::CohortChanged{team});
  world.cluster.Submit(Gang("one", "a", 3000));
  world.cluster.Submit(Gang("two", "b", 1500));
  REQUIRE(world.cluster.Run().size() == 2);
  world.metrics.Admitted(Ref("a", "high"), seconds(1), seconds(0));
  world.metrics.Admitted(Ref("b"), seconds(1), seconds(0));
  const auto of = [](const std::string& cohort) {
    return "{cohort=\"" + cohort + "\",flavor=\"f\",resource=\"cpu\",replica_role=\"leader\"} ";
  };
  // 4 of "team", and what b lends.
  CHECK(Lines(world.metrics, "kueue_cohort_subtree_quota") ==
        "kueue_cohort_subtree_quota" + of("all") + "4.5\nkueue_cohort_subtree_quota" + of("team") + "4\n");
  CHECK(Lines(world.metrics, "kueue_cohort_subtree_resource_reservations") ==
        "kueue_cohort_subtree_resource_reservations" + of("all") + "4.5\nkueue_cohort_subtree_resource_reservations" +
            of("team") + "3\n");
  CHECK(Lines(world.metrics, "kueue_cohort_subtree_admitted_active_workloads") ==
        "kueue_cohort_subtree_admitted_active_workloads{cohort=\"all\",replica_role=\"leader\"} 2\n"
        "kueue_cohort_subtree_admitted_active_workloads{cohort=\"team\",replica_role=\"leader\"} 1\n");
  const std::string total = "kueue_cohort_subtree_admitted_workloads_total";
  CHECK(Lines(world.metrics, total) ==
        total + "{cohort=\"all\",priority_class=\"\",replica_role=\"leader\"} 1\n" + total +
            "{cohort=\"all\",priority_class=\"high\",replica_role=\"leader\"} 1\n" + total +
            "{cohort=\"team\",priority_class=\"high\",replica_role=\"leader\"} 1\n");
  // "team" goes with its last queue and its object: nothing of it is left, and its quota and work are not "all"'s.
  world.cluster.Finish("one");
  world.cluster.Apply(engine::LocalQueueDeleted{"ns", "a"});
  world.cluster.Apply(engine::ClusterQueueDeleted{"a"});
  world.cluster.Apply(engine::CohortDeleted{"team"});
  CHECK(RenderMetrics(world.metrics.Collect()).find("\"team\"") == std::string::npos);
  CHECK(Lines(world.metrics, "kueue_cohort_subtree_quota") == "kueue_cohort_subtree_quota" + of("all") + "0.5\n");
  CHECK(Lines(world.metrics, "kueue_cohort_subtree_admitted_active_workloads") ==
        "kueue_cohort_subtree_admitted_active_workloads{cohort=\"all\",replica_role=\"leader\"} 1\n");
}

// user_pains F10
TEST_CASE("those who wait are counted by the first thing in their way, with or without a queue") {
  World world;
  world.cluster.AddQueue(CpuQueue("a", "", 4000));
  world.cluster.Submit(Gang("runs", "a", 3000, 1));
  for (const char* uid : {"x", "y", "z"}) world.cluster.Submit(Gang(uid, "a", 2000, 2));
  world.cluster.Submit(Gang("huge", "a", 5000, 3));
  world.cluster.Submit(Gang("lost", "nowhere", 1));
  REQUIRE(world.cluster.Run().size() == 1);
  const auto of = [](const std::string& queue, const std::string& code) {
    return "muster_waiting_workloads{cluster_queue=\"" + queue + "\",code=\"" + code + "\",replica_role=\"leader\"} ";
  };
  CHECK(Lines(world.metrics, "muster_waiting_workloads") ==
        of("", "LocalQueueMissing") + "1\n" + of("a", "QuotaInUse") + "3\n" + of("a", "NeverFits") + "1\n");
  CHECK(Lines(world.metrics, "muster_oldest_waiting_timestamp_seconds") ==
        "muster_oldest_waiting_timestamp_seconds{cluster_queue=\"a\",replica_role=\"leader\"} 2\n");
  CHECK(Lines(world.metrics, "kueue_cluster_queue_resource_pending") ==
        "kueue_cluster_queue_resource_pending{cluster_queue=\"a\",resource=\"cpu\",replica_role=\"leader\"} 11\n");
  const std::string hashes = "kueue_pending_scheduling_hashes{cluster_queue=\"a\",status=";
  CHECK(Lines(world.metrics, "kueue_pending_scheduling_hashes") ==
        hashes + "\"active\",replica_role=\"leader\"} 0\n" + hashes + "\"inadmissible\",replica_role=\"leader\"} 2\n");
}

TEST_CASE("finished Workloads that still exist are counted by the queues that still exist") {
  World world;
  world.cluster.AddQueue(CpuQueue("a", "", 4000));
  world.finished.by_cluster_queue = {{"a", 3}, {"gone", 5}};
  world.finished.by_local_queue = {{{"ns", "a"}, 4}, {{"other", "a"}, 6}};
  CHECK(Lines(world.metrics, "kueue_finished_workloads{") ==
        "kueue_finished_workloads{cluster_queue=\"a\",replica_role=\"leader\"} 3\n");
  CHECK(Lines(world.metrics, "kueue_local_queue_finished_workloads{") ==
        "kueue_local_queue_finished_workloads{name=\"a\",namespace=\"ns\",replica_role=\"leader\"} 4\n");
}

// A new leader's engine is filled from the objects: what it shows does not depend on what the old one counted.
TEST_CASE("after a restart or a change of leader the gauges are as they were before it") {
  World before({.cluster_queue_resources = true, .local_queues = true});
  World after({.cluster_queue_resources = true, .local_queues = true});
  engine::Workload held = Gang("runs", "a", 3000, 1);
  for (World* world : {&before, &after}) {
    world->cluster.AddQueue(CpuQueue("a", "team", 4000));
    world->cluster.AddQueue(CpuQueue("b", "team", 1000));
    world->cluster.Submit(held);
    if (world == &before) {
      REQUIRE(world->cluster.Run().size() == 1);
      // As its record will tell the next leader.
      const engine::WorkloadView view = *before.cluster.engine.ViewWorkload("runs");
      held.held = engine::HeldClaim{view.claim, engine::ClaimState::kWritten, view.admission, engine::At(100)};
    }
    world->cluster.Submit(Gang("waits", "b", 3000, 2));
    world->cluster.Submit(Gang("lost", "nowhere", 1));
    CHECK(world->cluster.Run().empty());
  }
  const auto gauges = [](World* world) {
    std::string out;
    for (const std::string& line :
         std::vector<std::string>(absl::StrSplit(RenderMetrics(world->metrics.Collect()), '\n'))) {
      if (line.find("cluster_queue") != std::string::npos || line.find("cohort") != std::string::npos ||
          line.find("local_queue") != std::string::npos) {
        out += line + "\n";
      }
    }
    return out;
  };
  CHECK_FALSE(gauges(&before).empty());
  CHECK(gauges(&after) == gauges(&before));
}

// user_pains B7
TEST_CASE("what is evicted and not gone is counted, with the time since when") {
  World world;
  world.cluster.AddQueue(CpuQueue("a", "", 4000));
  world.evicting["a"] = {2, WallTime{1'500'000'000}};
  world.evicting["gone"] = {1, WallTime{1'000'000'000}};
  CHECK(Lines(world.metrics, "muster_evicting_workloads") ==
        "muster_evicting_workloads{cluster_queue=\"a\",replica_role=\"leader\"} 2\n");
  CHECK(Lines(world.metrics, "muster_oldest_eviction_timestamp_seconds") ==
        "muster_oldest_eviction_timestamp_seconds{cluster_queue=\"a\",replica_role=\"leader\"} 1.5\n");
}

// user_pains F14
TEST_CASE("the series of a queue go away with it, and nothing else does") {
  World world;
  world.cluster.AddQueue(CpuQueue("a", "", 4000));
  world.cluster.AddQueue(CpuQueue("b", "", 4000));
  for (const std::string queue : {"a", "b"}) {
    world.metrics.QuotaReserved(Ref(queue), seconds(1));
    world.metrics.Admitted(Ref(queue), seconds(1), seconds(0));
    world.metrics.Evicted(Ref(queue), "Preempted", "", 4, true);
    world.metrics.Preempted(queue, "InClusterQueue");
    world.metrics.TargetsRecomputed({queue, engine::RecomputedTargets::kSkipped, 1});
    world.metrics.EvictionDone(Ref(queue), "Preempted", seconds(1));
    world.evicting[queue].workloads = 1;
    world.metrics.Finished(Ref(queue), seconds(1));
  }
  world.metrics.AdmissionAttempt(true, seconds(1));
  const auto names = [](const std::string& text, const std::string& queue) {
    std::set<std::string> out;
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
      if (line.find("\"" + queue + "\"") != std::string::npos) out.insert(line.substr(0, line.find('{')));
    }
    return out;
  };
  const std::string before = RenderMetrics(world.metrics.Collect());
  CHECK(names(before, "a") == names(before, "b"));

  world.cluster.Apply(engine::LocalQueueDeleted{"ns", "a"});
  world.cluster.Apply(engine::ClusterQueueDeleted{"a"});
  world.metrics.Sweep();
  const std::string after = RenderMetrics(world.metrics.Collect());
  CHECK(names(after, "a").empty());
  CHECK(names(after, "b") == names(before, "b"));
  CHECK(Lines(world.metrics, "kueue_admission_attempts_total") ==
        "kueue_admission_attempts_total{result=\"success\",replica_role=\"leader\"} 1\n");
}

TEST_CASE("before the engine knows anything, what is counted stays") {
  World world;
  world.known = false;
  world.role = ReplicaRole::kFollower;
  world.metrics.QuotaReserved(Ref("a"), seconds(1));
  CHECK(Lines(world.metrics, "kueue_quota_reserved_workloads_total") ==
        "kueue_quota_reserved_workloads_total{cluster_queue=\"a\",priority_class=\"\",replica_role=\"follower\"} 1\n");
  CHECK(Lines(world.metrics, "kueue_pending_workloads") == "");
}

TEST_CASE("build_info has no role, and every family has a help text and a type") {
  World world;
  CHECK(Lines(world.metrics, "kueue_build_info") ==
        "kueue_build_info{git_version=\"v1\",git_commit=\"abc\",build_date=\"today\",go_version=\"\",compiler=\"gcc\","
        "platform=\"linux/amd64\"} 1\n");
  world.cluster.AddQueue(CpuQueue("a\"\\\n", "", 4000));
  const std::string text = RenderMetrics(world.metrics.Collect());
  CHECK(text.find("{cluster_queue=\"a\\\"\\\\\\n\",") != std::string::npos);
  for (const auto& family : world.metrics.Collect()) {
    CAPTURE(family.name);
    CHECK(!family.help.empty());
    CHECK(family.help.find_first_of("\n\\") == std::string::npos);  // the serializer does not escape it
    CHECK((family.name.starts_with("kueue_") || family.name.starts_with("muster_")));
  }
}

TEST_CASE("docs/metrics.md names every metric there can be") {
  engine::EngineOptions options;
  options.fair_sharing.emplace();
  options.admission_fair_sharing.emplace();
  options.machines = true;
  World world({.cluster_queue_resources = true, .local_queues = true}, options);
  engine::ClusterQueue queue = CpuQueue("a", "team", 4000);
  queue.usage_based_admission = true;
  queue.resource_groups[0].covered_resources.emplace_back("nvidia.com/gpu");
  queue.resource_groups[0].flavors[0].resources.push_back({"nvidia.com/gpu", Amount{8}, std::nullopt, std::nullopt});
  world.cluster.AddQueue(queue);
  engine::Cohort team;
  team.name = "team";
  team.resource_groups = queue.resource_groups;
  world.cluster.Apply(engine::CohortChanged{team});
  world.cluster.Apply(engine::NodeChanged{CpuNode("n1", 2000)});
  world.cluster.Submit(Gang("runs", "a", 1000));
  world.cluster.Submit(Gang("waits", "a", 3000));
  world.cluster.Run();
  Metrics& m = world.metrics;
  m.AdmissionAttempt(true, seconds(1));
  m.QuotaReserved(Ref("a"), seconds(1));
  m.Admitted(Ref("a"), seconds(1), seconds(1));
  m.Evicted(Ref("a"), "Preempted", "", 4, true);
  m.Preempted("a", "InClusterQueue");
  m.TargetsRecomputed({"a", engine::RecomputedTargets::kSkipped, 1});
  m.SliceReplaced(Ref("a"));
  m.EvictionDone(Ref("a"), "Preempted", seconds(1));
  world.evicting["a"].workloads = 1;
  m.PodsReady(Ref("a"), seconds(1), seconds(1));
  m.ReadyPodsEvicted(Ref("a"), "Preempted", "", seconds(1));
  m.Finished(Ref("a"), seconds(1));
  m.WorkloadCreated("Job.batch", seconds(1));
  m.Write("jobs", "patch", 200, seconds(1));
  m.EventDropped();
  std::ifstream in(std::string(MUSTER_SOURCE_DIR) + "/docs/metrics.md");
  const std::string page{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  size_t named = 0;
  for (const auto& family : m.Collect()) {
    CAPTURE(family.name);
    CHECK(page.find("`" + family.name + "`") != std::string::npos);
    ++named;
  }
  // And it names no other: each stands there in full once.
  std::set<std::string> on_page;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(page, '`'))) {
    const bool name = part.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos;
    if (name && (part.starts_with("kueue_") || (part.starts_with("muster_") && part != "muster_")))
      on_page.insert(part);
  }
  CHECK(on_page.size() == named);
}

}  // namespace
}  // namespace muster::server
