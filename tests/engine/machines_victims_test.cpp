// Who is told to go for a gang that needs machines and quota: the fewest, or nobody. "The fewest" is by inclusion:
// candidates are taken in the order of the search until it fits, then each that it fits without is let stay, so that
// no part of those who go would have been enough. Another set, of fewer others, may have been.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "draws.h"
#include "on_machines.h"

namespace muster::engine {
namespace {

using Uids = std::vector<std::string>;

struct Situation {
  int64_t quota = 0;
  std::vector<int64_t> nodes;     // cpus of each
  std::vector<Workload> running;  // those who find room
  std::vector<Workload> others;   // of a queue that nobody here may preempt
  Workload urgent;
};

Situation AnySituation() {
  const auto draw = [](int from, int to) { return Draw(from, to); };
  Situation any;
  any.quota = draw(4, 25);
  for (int i = draw(1, 6); i > 0; --i) any.nodes.push_back(draw(1, 9));
  for (int i = draw(1, 8); i > 0; --i) {
    any.running.push_back(Big("r" + std::to_string(i), "q", draw(1, 4), draw(1, 5), draw(1, 9), draw(0, 3)));
  }
  // Nobody of these preempts another of them.
  std::stable_sort(any.running.begin(), any.running.end(),
                   [](const Workload& a, const Workload& b) { return a.priority > b.priority; });
  for (int i = draw(0, 3); i > 0; --i) any.others.push_back(Big("o" + std::to_string(i), "o", 1, draw(1, 4), i));
  any.urgent = Big("urgent", "q", draw(1, 4), draw(1, 7), 20, 9);
  return any;
}

struct Played {
  Uids ran;       // before the urgent one came, of those that it may preempt
  bool admitted;  // the urgent one, at once
  Uids victims;
};

// All who find room run; then `gone` are no more, nor what they held, and the urgent one comes.
Played Play(const Situation& situation, const std::set<std::string>& gone) {
  OnMachines cluster;
  ClusterQueue queue = PoolQueue("q", {"a"}, situation.quota);
  queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
  cluster.AddQueue(queue);
  cluster.AddQueue(PoolQueue("o", {"a"}));
  for (size_t i = 0; i < situation.nodes.size(); ++i) {
    cluster.AddNode("n" + std::to_string(i), "a", situation.nodes[i]);
  }
  Played played;
  const auto run = [&cluster](const Workload& workload) {
    cluster.Submit(workload);
    const bool runs = cluster.Run(At(100)) == Uids{workload.uid};
    RC_ASSERT(cluster.Evictions().empty());
    if (!runs) cluster.Finish(workload.uid);
    return runs;
  };
  for (const Workload& workload : situation.others) run(workload);
  for (const Workload& workload : situation.running) {
    if (run(workload)) played.ran.push_back(workload.uid);
  }
  for (const std::string& uid : gone) cluster.Finish(uid);
  cluster.Submit(situation.urgent);
  played.admitted = cluster.Run(At(101)) == Uids{"urgent"};
  for (const Evict& evict : cluster.Evictions()) played.victims.push_back(evict.uid);
  return played;
}

// What the tests below have met.
struct Met {
  int admitted = 0;
  int one = 0;
  int several = 0;
  int spared = 0;  // some of those that could have gone did not
  int in_vain = 0;
};

void CheckVictims(Met* met) {
  const Situation situation = AnySituation();
  const Played played = Play(situation, {});
  if (played.admitted) {
    RC_ASSERT(played.victims.empty());
    ++met->admitted;
    return;
  }
  if (played.victims.empty()) {
    // Not even without all of them.
    RC_ASSERT(!Play(situation, {played.ran.begin(), played.ran.end()}).admitted);
    met->in_vain += played.ran.empty() ? 0 : 1;
    return;
  }
  const std::set<std::string> victims(played.victims.begin(), played.victims.end());
  RC_ASSERT(Play(situation, victims).admitted);
  for (const std::string& victim : played.victims) {
    std::set<std::string> part = victims;
    part.erase(victim);
    RC_ASSERT(!Play(situation, part).admitted);
  }
  ++(victims.size() == 1 ? met->one : met->several);
  met->spared += victims.size() < played.ran.size() ? 1 : 0;
}

}  // namespace

TEST_CASE("whoever goes for machines and quota, no part of them would have been enough; and nobody goes in vain") {
  Met met;
  CHECK(rc::check([&met] {
    for (int i = 0; i < 10; ++i) CheckVictims(&met);
  }));
  CHECK(met.admitted > 50);
  CHECK(met.one > 50);
  CHECK(met.several > 20);
  CHECK(met.spared > 20);
  CHECK(met.in_vain > 20);
}

}  // namespace muster::engine
