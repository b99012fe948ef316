// Recorded cases on the simulator: what users see of Jobs, Workloads, queues and Events equals what the reference
// showed, step by step.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "player.h"
#include "sim_world.h"

namespace muster::golden {
namespace {

struct Outcome {
  std::vector<std::string> findings;
  std::set<std::string> rules_used;
};

Outcome Play(const Json& recording, uint64_t seed) {
  const auto world = scenarios::NewSimWorldWithoutJobController(seed, ConfigOf(recording));
  const Pace pace{.look = std::chrono::milliseconds(500), .still = std::chrono::milliseconds(4000)};
  const std::vector<Json> recordings = {recording};
  const std::vector<Player> players = PlayAll(world.get(), recordings, pace);
  return {players.front().findings(), players.front().rules_used()};
}

TEST_CASE("What users see on the simulator equals the recordings, and no rule about differences is idle") {
  const uint64_t seeds = std::getenv("MUSTER_LONG") == nullptr ? 3 : 30;
  std::set<std::string> used;
  for (const Json& recording : Recordings()) {
    // Pods are no objects in the simulator.
    if (HasJobController(recording)) continue;
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      INFO("seed " << seed);
      Outcome outcome = Play(recording, seed);
      for (const std::string& finding : outcome.findings) FAIL_CHECK(finding);
      used.merge(outcome.rules_used);
    }
  }
  for (const Rule& rule : Rules()) {
    INFO(rule.documented);
    CHECK(used.contains(rule.documented));
  }
}

TEST_CASE("What differs from a recording is found and named") {
  Json recording = Recordings().front();  // one Job runs to its end; it is created in step 1
  Json& then = recording["steps"][1]["then"];
  then["workloads"][0]["status"]["conditions"][0]["message"] = "another";
  then["workloads"][0]["spec"]["priority"] = 7;
  then["jobs"][0]["spec"]["template"]["spec"]["nodeSelector"] = Json::object();
  then["clusterQueues"][0]["status"]["pendingWorkloads"] = 5;
  then["localQueues"][0]["status"]["flavorsUsage"] = Json::array();
  then["events"][3]["reason"] = "Begun";
  std::vector<std::string> findings = Play(recording, 1).findings;
  std::erase_if(findings, [](const std::string& f) { return !f.starts_with("simple-run-complete step 1 "); });
  const char* const named[] = {
      "status/conditions/Admitted/message: wanted \"another\", found \"The workload is admitted\"",
      "spec/priority: wanted 7, found 0",
      "spec/template/spec/nodeSelector/example.com/tier: wanted nothing, found \"std\"",
      "pendingWorkloads: wanted 5, found 0",
      "localQueues/lq/status/flavorsUsage: wanted [], found",
      "Begun|Admitted by clusterQueue simple-run-complete-cq|batch/job-kueue-controller: wanted 1",
      "Started|Admitted by clusterQueue simple-run-complete-cq|batch/job-kueue-controller: wanted none"};
  for (const char* text : named) {
    INFO(text);
    CHECK(std::count_if(findings.begin(), findings.end(),
                        [&](const std::string& finding) { return finding.find(text) != std::string::npos; }) == 1);
  }
  CHECK(findings.size() == std::size(named));
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
