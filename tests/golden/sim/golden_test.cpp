// Recorded cases on the simulator: what users see of Jobs, Workloads, queues and Events equals what the reference
// showed, step by step.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "player.h"
#include "sim_world.h"

namespace muster::golden {
namespace {

TEST_CASE("A case is left out for what its objects ask for and is not served") {
  std::map<std::string, int> counts;
  for (const Json& recording : Recordings()) ++counts[NotServed(recording)];
  // Counted by hand, in the titles of the recordings.
  CHECK(counts ==
        std::map<std::string, int>{{"", 48}, {"admission checks", 4}, {"preemption", 2}, {"waitForPodsReady", 2}});
}

TEST_CASE("What users see on the simulator equals the recordings, and no rule about differences is idle") {
  std::set<std::string> used;
  for (const Json& recording : Recordings()) {
    // Pods are no objects in the simulator.
    if (!NotServed(recording).empty() || HasJobController(recording)) continue;
    const auto world = scenarios::NewSimWorldWithoutJobController(1);
    const Pace pace{.look = std::chrono::milliseconds(500), .still = std::chrono::milliseconds(4000)};
    const std::vector<Player> players = PlayAll(world.get(), {recording}, pace);
    for (const std::string& finding : players.front().findings()) FAIL_CHECK(finding);
    used.insert(players.front().rules_used().begin(), players.front().rules_used().end());
  }
  for (const Rule& rule : Rules()) {
    INFO(rule.documented);
    CHECK(used.contains(rule.documented));
  }
}

TEST_CASE("Each rule about differences stands on the page that tells users") {
  std::ifstream in(MUSTER_SOURCE_DIR "/docs/kueue-compatibility.md");
  const std::string page{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  for (const Rule& rule : Rules()) {
    INFO(rule.documented);
    CHECK(page.find(rule.documented) != std::string::npos);
  }
}

}  // namespace
}  // namespace muster::golden
