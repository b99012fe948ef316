// The whole of Muster on the simulated API server, while chance does what it likes: writes are lost, repeated, refused,
// late, or applied without an answer; processes die between any two of their inputs; watches are cut, stall and have to
// be listed anew; users edit and delete Jobs, administrators queues. At every moment no gang is started twice or above
// its quota; and when faults end everything comes to rest, and all that is said is true.
//
// A seed is a whole history. MUSTER_SEED=N plays that one alone; MUSTER_LONG plays ten times as many.
#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>

#include "chaos.h"
#include "cluster.h"
#include "rest.h"

namespace muster::sim_campaign {
namespace {

constexpr int kThings = 60;
// No cache is further behind where watches do not stall: 30 s is the longest pause between two tries of a list, and a
// decision that has not left within 2 s does not leave any more.
constexpr Duration kLagMax = std::chrono::seconds(90);

ChaosOptions OptionsOf(uint64_t seed) {
  ChaosOptions options;
  options.edits_jobs = seed % 4 == 1 || seed % 4 == 3;
  options.edits_queues = seed % 4 == 2 || seed % 4 == 3;
  return options;
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

// Jobs that are no more, though nobody deleted them and they had not ended.
std::vector<std::string> Lost(const Cluster& cluster, const std::set<std::string>& deleted) {
  std::vector<std::string> lost;
  for (const Json& line : cluster.job_lines()) {
    const Json& job = Get(line, "object");
    if (Text(Get(line, "type")) != "DELETED" || deleted.contains(Text(At(job, "metadata", "uid")))) continue;
    if (!sim::HasCondition(job, "Complete") && !sim::HasCondition(job, "Failed")) {
      lost.push_back("Job " + Text(At(job, "metadata", "name")) + " went before it had ended");
    }
  }
  return lost;
}

// Type, status and reason of each condition of each Workload; but what stands first in the way of one that waits, by
// muster.dev/Waiting, may be in another part of the scan of flavors.
std::set<std::string> ToldIn(const Cluster& cluster) {
  std::set<std::string> told;
  for (const Json& workload : cluster.List("workloads")) {
    for (const Json& condition : At(workload, "status", "conditions")) {
      if (Text(Get(condition, "type")) == "muster.dev/Waiting") continue;
      std::string text = Text(At(workload, "metadata", "name"));
      for (const char* key : {"type", "status", "reason"}) text += " " + Text(Get(condition, key));
      told.insert(std::move(text));
    }
  }
  return told;
}

// Whoever comes now finds everything in the objects: nothing is decided anew. The numbers in a message may be fresher,
// and the flavors those of another part of the scan; nothing else is said again.
void JudgeReplacement(Cluster& cluster, const std::function<void()>& rest) {
  const size_t written = cluster.server.writes().size();
  const std::set<std::string> told = ToldIn(cluster);
  cluster.Replace();
  rest();
  std::set<std::string> now = ToldIn(cluster);
  for (const std::string& text : told) {
    if (now.erase(text) == 0) FAIL_CHECK("a new process does not say any more: " << text);
  }
  for (const std::string& text : now) FAIL_CHECK("a new process says: " << text);
  for (size_t i = written; i < cluster.server.writes().size(); ++i) {
    const sim::WriteRecord& write = cluster.server.writes()[i];
    if (write.user != Cluster::kMuster || write.resource == "leases" || write.resource == "workloads/status") continue;
    FAIL_CHECK("a new process wrote " << write.verb << " " << write.resource << " " << write.name << " " << write.body);
  }
}

struct Outcome {
  uint64_t trace = 0;
  uint64_t state = 0;
  int deaths = 0;
  int waited = 0;
};

Outcome Play(uint64_t seed, const ChaosOptions& options) {
  INFO("replay with MUSTER_SEED=" << seed);
  Cluster cluster(seed, 1 + seed / 4 % 2);
  Chaos chaos(&cluster, options);
  chaos.MakeQueues();
  chaos.Happen(kThings);
  chaos.End();
  Outcome outcome;
  const auto rest = [&](const std::string& when) {
    INFO(when);
    if (!cluster.AwaitRest()) FAIL("no rest\n" << cluster.Diagnostics());
    Rest found(&cluster, chaos.without_workload());
    const std::string text = Joined(found.Findings());
    if (!text.empty()) FAIL_CHECK(text);
    return found.waiting();
  };
  outcome.waited = rest("once faults have ended");
  JudgeReplacement(cluster, [&] { rest("with new processes"); });
  chaos.Repair();
  if (const int left = rest("once there is room for all"); left > 0) FAIL_CHECK(left << " Jobs wait without need");
  const auto lag = options.edits_queues ? std::optional(kLagMax) : std::nullopt;
  const std::string broken = Joined(cluster.Findings(lag)) + Joined(Lost(cluster, chaos.deleted()));
  if (!broken.empty()) FAIL_CHECK(broken);
  if (!options.edits_jobs && !options.edits_queues) {
    for (const auto& [job, starts] : scenarios::StartsOf(cluster.job_lines())) {
      if (starts != 1) FAIL_CHECK("Job " << job << " was started " << starts << " times");
    }
  }
  outcome.trace = cluster.executor.trace_hash();
  outcome.state = cluster.store.StateHash();
  outcome.deaths = cluster.deaths();
  return outcome;
}

TEST_CASE(
    "Whatever fails and whatever is edited meanwhile, no gang starts twice or above quota, and all is told right") {
  if (const char* given = std::getenv("MUSTER_SEED")) {
    const uint64_t seed = std::strtoull(given, nullptr, 10);
    Play(seed, OptionsOf(seed));
    return;
  }
  spdlog::set_level(spdlog::level::off);  // a replay tells everything
  const uint64_t seeds = std::getenv("MUSTER_LONG") == nullptr ? MUSTER_SEEDS : 10 * MUSTER_SEEDS;
  int deaths = 0;
  int waited = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const Outcome outcome = Play(seed, OptionsOf(seed));
    deaths += outcome.deaths;
    waited += outcome.waited;
  }
  std::printf("%d processes died, and %d Jobs were waiting when faults ended\n", deaths, waited);
  CHECK(deaths > 0);
  CHECK(waited > 0);
}

TEST_CASE("A seed plays the same each time") {
  spdlog::set_level(spdlog::level::off);
  for (uint64_t seed = 4; seed <= 7; ++seed) {
    const Outcome first = Play(seed, OptionsOf(seed));
    const Outcome second = Play(seed, OptionsOf(seed));
    CHECK(first.trace == second.trace);
    CHECK(first.state == second.state);
  }
}

}  // namespace
}  // namespace muster::sim_campaign
