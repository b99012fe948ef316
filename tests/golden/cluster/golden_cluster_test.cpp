// Recorded cases on a real control plane, many side by side: see ../README.md.
#include <catch2/catch.hpp>

#include "player.h"
#include "real_world.h"

namespace muster::golden {
namespace {

std::vector<Json> Served(bool with_job_controller, bool with_config = false) {
  std::vector<Json> out;
  for (Json& recording : Recordings()) {
    if (HasJobController(recording) == with_job_controller && ConfigOf(recording).empty() != with_config) {
      out.push_back(std::move(recording));
    }
  }
  return out;
}

void Compare(scenarios::World* world, const std::vector<Json>& recordings) {
  std::vector<std::string> findings;
  for (const Player& player : PlayAll(world, recordings, Pace{})) {
    findings.insert(findings.end(), player.findings().begin(), player.findings().end());
  }
  for (const std::string& finding : findings) FAIL_CHECK(finding);
  if (!findings.empty()) WARN(world->Diagnostics());
}

TEST_CASE("What users see on a real API server equals the recordings, the job controller played as it was then") {
  std::vector<Json> recordings = Served(false);
  CHECK(recordings.size() == 52);
  const auto world = scenarios::NewRealWorldWithoutJobController();
  // What is shown for a moment only would be missed among all the others, on a busy machine.
  std::vector<Json> of_moments = recordings;
  std::erase_if(of_moments, [](const Json& recording) { return !HasMoments(recording); });
  CHECK(!of_moments.empty());
  Compare(world.get(), of_moments);
  std::erase_if(recordings, HasMoments);
  Compare(world.get(), recordings);

  // Those of another configuration, which is one.
  const std::vector<Json> others = Served(false, true);
  REQUIRE(others.size() == 2);
  REQUIRE(ConfigOf(others[0]) == ConfigOf(others[1]));
  world->KillMuster();
  world->Configure(ConfigOf(others[0]));
  world->StartMuster();
  Compare(world.get(), others);
}

TEST_CASE("What users see beside the real job controller and scheduler equals the recordings") {
  const std::vector<Json> recordings = Served(true);
  CHECK(recordings.size() == 2);
  const auto world = scenarios::NewRealWorldOfLastingPods({{"example.com/tier", "std"}});
  Compare(world.get(), recordings);
}

}  // namespace
}  // namespace muster::golden
