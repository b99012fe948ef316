// Many gangs of all sizes on many nodes: at rest none is on nodes in part, and the books are what the objects say. With
// MUSTER_LONG as many as the issue asks for; otherwise fewer, so that it takes no more than two minutes.
#include <absl/strings/str_replace.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "fixture/text.h"
#include "team.h"

namespace muster::cluster {
namespace {

constexpr int kGpusOfNode = 10;

struct Counted {
  std::map<std::string, int64_t> bound;    // pods by Job
  std::map<std::string, int64_t> unbound;  // likewise
  std::map<std::string, int64_t> taken;    // GPUs by node
  int64_t gpus = 0;
};

// From all pods of the team, a page at a time.
Counted CountPods(Team* team) {
  Counted out;
  std::string next;
  do {
    const Json page = team->ground().api().Get(team->Path("pods") + "?limit=500&continue=" + next).json;
    for (const Json& pod : page["items"].Items()) {
      const std::string phase = pod.At("status/phase").Str();
      if (phase == "Succeeded" || phase == "Failed") continue;
      const std::string job = pod.At("metadata/labels")["batch.kubernetes.io/job-name"].Str();
      const std::string node = pod.At("spec/nodeName").Str();
      ++(node.empty() ? out.unbound : out.bound)[job];
      if (node.empty()) continue;
      const int64_t gpus = std::atoll(pod.At("spec/containers/0/resources/requests")["nvidia.com/gpu"].Str().c_str());
      out.taken[node] += gpus;
      out.gpus += gpus;
    }
    next = page.At("metadata/continue").Str();
  } while (!next.empty());
  return out;
}

}  // namespace

TEST_CASE("Gangs of all sizes on many nodes: whole or not at all, and nothing is counted twice or lost") {
  const bool many = std::getenv("MUSTER_LONG") != nullptr;
  const int nodes = many ? 1000 : 40;
  const int all = nodes * kGpusOfNode;
  const auto patience = many ? std::chrono::minutes(60) : std::chrono::minutes(5);
  const std::string config =
      absl::StrReplaceAll(MachinesConfig(true), {{"metrics:\n", "metrics:\n  enableClusterQueueResources: true\n"}});
  Ground ground({.config = config});
  Team team(ground, "many", {}, {.quota = Gpus(100'000)});
  team.AddNodes(nodes, Gpus(kGpusOfNode));
  // A fifth of all is wanted by single pods, and each size divides what those above it leave: at rest all are taken,
  // whoever came first, and some gang of the greatest size waits.
  const std::map<std::string, std::string> for_long{{"muster.dev/run-seconds", "36000"}};
  std::map<std::string, int64_t> sizes;
  const auto create = [&](int size, int count) {
    for (int i = 0; i < count; ++i) {
      const std::string job = Cat("of-", size, "-", i);
      sizes[job] = size;
      team.Create(job, {.pods = size, .annotations = for_long});
    }
  };
  create(1, all / 5);
  create(20, all * 3 / 10 / 20);
  create(many ? 500 : 100, many ? 11 : 3);
  Counted counted;
  const auto metric = [&](const char* name) { return ground.muster().Metric(name, {{"cluster_queue", "many"}}); };
  const auto on_machines = [&](const char* name) {
    return ground.muster().Metric(name, {{"flavor", "many"}, {"resource", "nvidia.com/gpu"}});
  };
  const auto check_full = [&] {
    REQUIRE(Eventually(
        [&] {
          counted = CountPods(&team);
          return counted.gpus == all && counted.unbound.empty();
        },
        patience, std::chrono::seconds(2)));
    for (const auto& [job, size] : sizes) {
      CAPTURE(job);
      CHECK(team.Suspended(job) == !counted.bound.contains(job));
      if (counted.bound.contains(job)) CHECK(counted.bound.at(job) == size);
    }
    for (const auto& [node, gpus] : counted.taken) CHECK(gpus == kGpusOfNode);
    CHECK(metric("kueue_cluster_queue_resource_usage") == static_cast<double>(all));
    CHECK(metric("kueue_admitted_active_workloads") == static_cast<double>(counted.bound.size()));
    CHECK(metric("muster_workloads_lacking_places") == 0.0);
    CHECK(on_machines("muster_flavor_allocatable") == static_cast<double>(all));
    CHECK(on_machines("muster_flavor_free") == 0.0);
    CHECK(metric("kueue_evicted_workloads_total").value_or(0) == 0.0);
  };
  check_full();
  // The book of machines says so too; and when all have gone, one gang has every node whole.
  team.Create("whole", {.pods = all, .annotations = for_long});
  REQUIRE(Eventually([&] {
    return team.WaitsFor("whole").find(Cat("0 of ", all,
                                           " pods have a place: the largest free block of "
                                           "nvidia.com/gpu on flavor many is 0")) != std::string::npos;
  }));
  for (const auto& [job, size] : sizes) {
    REQUIRE(ground.api().Delete(team.Path("jobs/" + job) + "?propagationPolicy=Background").ok());
  }
  sizes = {{"whole", all}};
  check_full();
  CHECK(ground.api().Delete(team.Path("jobs/whole") + "?propagationPolicy=Background").ok());
  REQUIRE(Eventually([&] { return CountPods(&team).gpus == 0; }, patience, std::chrono::seconds(2)));
  CHECK(Eventually([&] { return on_machines("muster_flavor_free") == static_cast<double>(all); }));
  CHECK(on_machines("muster_flavor_allocatable") == static_cast<double>(all));
  CHECK(metric("kueue_cluster_queue_resource_usage").value_or(0) == 0.0);
  CHECK(metric("kueue_admitted_active_workloads") == 0.0);
  ground.CheckRest();
}

}  // namespace muster::cluster
