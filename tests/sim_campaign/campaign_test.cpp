// The whole of Muster on the simulated API server, while chance does what it likes: writes are lost, repeated, refused,
// late, or applied without an answer; processes die between any two of their inputs; watches are cut, stall and have to
// be listed anew; users edit and delete Jobs, administrators queues; Jobs preempt others, whose pods take time to end;
// users resize elastic Jobs. At every moment no gang is started twice or above its quota, and nobody is evicted twice
// for the same preemptor; and when faults end everything comes to rest, and all that is said is true.
//
// A seed is a whole history. MUSTER_SEED=N plays that one alone; MUSTER_LONG plays ten times as many.
#include "campaign.h"

#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <cstdio>

namespace muster::sim_campaign {
namespace {

Outcome PlaySeed(uint64_t seed) {
  INFO("replay with MUSTER_SEED=" << seed);
  ClusterOptions options;
  options.replicas = 1 + seed / 4 % 2;
  options.muster.wait_for_pods_ready = PodsReadyOf(seed);
  options.muster.wait_for_terminating_pods = seed / 16 % 2 == 1;
  Cluster cluster(seed, options);
  ChaosOptions things;
  things.edits_jobs = seed % 4 == 1 || seed % 4 == 3;
  things.edits_queues = seed % 4 == 2 || seed % 4 == 3;
  Chaos chaos(&cluster, things);
  return Play(&cluster, &chaos, {});
}

TEST_CASE(
    "Whatever fails and whatever is edited meanwhile, no gang starts twice or above quota, and all is told right") {
  Outcome sum;
  if (!PlaySeeds(MUSTER_SEEDS, PlaySeed, &sum)) return;
  std::printf("%d processes died, %d Jobs were preempted, %d grew and %d shrank, and %d waited when faults ended\n",
              sum.deaths, sum.stops, sum.growths, sum.shrinks, sum.waited);
  CHECK(sum.deaths > 0);
  CHECK(sum.waited > 0);
  CHECK(sum.stops > 0);
  CHECK(sum.growths > 0);
  CHECK(sum.shrinks > 0);
}

TEST_CASE("A seed plays the same each time") {
  spdlog::set_level(spdlog::level::off);
  for (uint64_t seed = 4; seed <= 7; ++seed) {
    const Outcome first = PlaySeed(seed);
    const Outcome second = PlaySeed(seed);
    CHECK(first.trace == second.trace);
    CHECK(first.state == second.state);
  }
}

}  // namespace
}  // namespace muster::sim_campaign
