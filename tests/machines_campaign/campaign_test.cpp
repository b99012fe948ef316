// As tests/sim_campaign, where Muster looks at machines (muster.machines.enable): nodes come, go, are cordoned, lose
// their readiness and shrink, strangers' pods take room, and pods are objects that a scheduler binds wherever they may
// go, so that those of one gang end up in the places of another. Half of the histories have a topology of racks.
//
// At every moment what sim_campaign judges. At rest each gang that has started has all its pods on nodes, and no other
// has any; nobody waits who would fit; what Muster tells of the machines is what nodes and pods are; and nobody loses
// its places while nothing changes.
//
// A seed is a whole history. MUSTER_SEED=N plays that one alone; MUSTER_LONG plays ten times as many.
#include "campaign.h"

#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <cstdio>

#include "machines.h"

namespace muster::machines_campaign {
namespace {

using sim_campaign::Outcome;

struct Sum {
  int bound = 0;
  int node_failures = 0;
};

// Adds to `sum`.
Outcome PlaySeed(uint64_t seed, Sum* sum) {
  INFO("replay with MUSTER_SEED=" << seed);
  sim_campaign::ClusterOptions options;
  options.replicas = 1 + seed / 4 % 2;
  options.muster.check_machines = true;
  options.muster.place_timeout = std::chrono::seconds(20);
  options.muster.wait_for_pods_ready = sim_campaign::PodsReadyOf(seed);
  options.muster.wait_for_terminating_pods = seed / 16 % 2 == 1;
  sim_campaign::Cluster cluster(seed, options);
  const std::string topology = seed / 2 % 2 == 1 ? "racks" : "";
  Machines machines(&cluster, {topology, seed % 5 != 0, options.muster.wait_for_pods_ready.has_value()});
  sim_campaign::ChaosOptions things;
  things.edits_jobs = seed % 4 == 1 || seed % 4 == 3;
  things.edits_queues = seed % 8 == 2 || seed % 8 == 7;
  things.topology = topology;
  things.shape_job = [&machines](Json* job) { machines.ShapeJob(job); };
  sim_campaign::Chaos chaos(&cluster, things);
  machines.AddTo(&chaos);
  sim_campaign::Beside beside;
  beside.begin = [&machines] { machines.Make(); };
  beside.end = [&machines] { machines.End(); };
  beside.repair = [&machines] { machines.Repair(); };
  beside.places = &machines;
  const Outcome outcome = sim_campaign::Play(&cluster, &chaos, beside);
  for (const std::string& broken : machines.Broken()) FAIL_CHECK(broken);
  sum->bound += machines.bound();
  sum->node_failures += machines.node_failures();
  return outcome;
}

TEST_CASE("Whatever becomes of nodes and wherever pods go, gangs run whole or not at all, and nobody goes round") {
  Sum sum;
  Outcome of;
  if (!sim_campaign::PlaySeeds(
          MUSTER_SEEDS, [&sum](uint64_t seed) { return PlaySeed(seed, &sum); }, &of))
    return;
  std::printf("%d processes died, %d pods were bound, %d gangs lost their places, %d were stopped, %d waited at rest\n",
              of.deaths, sum.bound, sum.node_failures, of.stops, of.waited);
  CHECK(of.deaths > 0);
  CHECK(of.waited > 0);
  CHECK(of.stops > 0);
  CHECK(of.growths > 0);
  CHECK(sum.bound > 0);
  CHECK(sum.node_failures > 0);
}

TEST_CASE("A seed plays the same each time") {
  spdlog::set_level(spdlog::level::off);
  for (uint64_t seed = 5; seed <= 6; ++seed) {
    Sum sum;
    const Outcome first = PlaySeed(seed, &sum);
    const Outcome second = PlaySeed(seed, &sum);
    CHECK(first.trace == second.trace);
    CHECK(first.state == second.state);
  }
}

}  // namespace
}  // namespace muster::machines_campaign
