#include "campaign.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

namespace muster::sim_campaign {
namespace {

constexpr int kThings = 60;
// No cache is further behind where watches do not stall: 30 s is the longest pause between two tries of a list, and a
// decision that has not left within 2 s does not leave any more.
constexpr Duration kLagMax = std::chrono::seconds(90);

Json RecordOf(const Json& job) {
  return sim::ParseJson(Text(At(job, "metadata", "annotations", "muster.dev/admission"))).value_or(Json());
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

struct Life {
  int starts = 0;
  int stops = 0;
  // While it ran.
  int growths = 0;
  int shrinks = 0;
};

// What became of each Job, by uid. A stop is one with its record; the same gang may have to be suspended more than once
// for it.
std::map<std::string, Life> LivesIn(const Cluster& cluster) {
  std::map<std::string, Life> lives;
  std::map<std::string, bool> ran;
  std::set<std::string> stopped;                                 // claims
  std::map<std::string, std::pair<std::string, int64_t>> sizes;  // claim and admitted pods
  for (const Json& line : cluster.job_lines()) {
    const Json& job = Get(line, "object");
    const std::string uid = Text(At(job, "metadata", "uid"));
    const bool runs = !Flag(At(job, "spec", "suspend")) && Text(Get(line, "type")) != "DELETED";
    Life& life = lives[uid];
    if (runs && !std::exchange(ran[uid], true)) ++life.starts;
    if (!runs) ran[uid] = false;
    const Json record = RecordOf(job);
    const std::string claim = Text(Get(record, "claim"));
    if (Text(Get(record, "state")) == "stopped" && stopped.insert(claim).second) ++life.stops;
    if (!runs || !record.is_object()) continue;
    const int64_t pods = Number(Get(record["podSets"][0], "count"));
    const auto [before, pods_before] = std::exchange(sizes[uid], {claim, pods});
    if (before != claim) continue;
    life.growths += pods > pods_before ? 1 : 0;
    life.shrinks += pods < pods_before ? 1 : 0;
  }
  return lives;
}

// Who was evicted twice for the same preemptor, though that had not had quota in between, to start or to have its
// checks done (which may send it back): whoever led, and whether or not its start was refused. The record of an
// eviction stands on its Job for a while: it counts when it is first seen.
std::vector<std::string> EvictedTwice(const Cluster& cluster) {
  std::vector<std::string> out;
  std::set<std::pair<std::string, std::string>> evicted;  // victim and preemptor
  std::set<std::string> seen;                             // claims
  const auto had_quota = [&evicted](const std::string& uid) {
    std::erase_if(evicted, [&uid](const auto& e) { return e.second == uid; });
  };
  auto reservation = cluster.reservations().begin();
  for (size_t i = 0; i < cluster.job_lines().size(); ++i) {
    for (; reservation != cluster.reservations().end() && reservation->first <= i; ++reservation) {
      had_quota(reservation->second);
    }
    const Json& job = Get(cluster.job_lines()[i], "object");
    const std::string uid = Text(At(job, "metadata", "uid"));
    if (!Flag(At(job, "spec", "suspend"))) had_quota(uid);
    const Json record = RecordOf(job);
    const std::string preemptor = Text(At(record, "eviction", "preemptor"));
    if (Text(Get(record, "state")) != "stopped" || preemptor.empty()) continue;
    if (!seen.insert(Text(Get(record, "claim"))).second) continue;
    if (!evicted.emplace(uid, preemptor).second) {
      out.push_back("Job " + Text(At(job, "metadata", "name")) + " was evicted twice for " + preemptor);
    }
  }
  return out;
}

// What Workloads are told: type, status and reason of each condition. `alike`: as of Rest. What stands first in the way
// of one that waits, by muster.dev/Waiting, may be in another part of the scan of flavors.
std::set<std::string> ToldIn(const Cluster& cluster, const Rest::Alike& alike) {
  std::set<std::string> told;
  for (const Json& workload : cluster.List("workloads")) {
    const std::string name = Text(At(workload, "metadata", "name"));
    const auto reasons = alike.find(name);
    for (const Json& condition : At(workload, "status", "conditions")) {
      if (Text(Get(condition, "type")) == "muster.dev/Waiting") continue;
      std::string text = name;
      for (const char* key : {"type", "status", "reason"}) {
        const std::string value = Text(Get(condition, key));
        text += " " + (reasons != alike.end() && reasons->second.contains(value) ? "one of several" : value);
      }
      told.insert(std::move(text));
    }
  }
  return told;
}

// Whoever comes now finds everything in the objects: nothing is decided anew. The numbers in a message may be fresher,
// and the flavors, or the first of several reasons, those of another part of the scan; nothing else is said again.
void JudgeReplacement(Cluster& cluster, const Rest::Alike& alike, const std::function<void()>& rest) {
  const size_t written = cluster.server.writes().size();
  const std::set<std::string> told = ToldIn(cluster, alike);
  cluster.Replace();
  rest();
  std::set<std::string> now = ToldIn(cluster, alike);
  for (const std::string& text : told) {
    if (now.erase(text) == 0) FAIL_CHECK("a new process does not say any more: " << text);
  }
  for (const std::string& text : now) FAIL_CHECK("a new process says: " << text);
  for (size_t i = written; i < cluster.server.writes().size(); ++i) {
    const sim::WriteRecord& write = cluster.server.writes()[i];
    if (write.user != Cluster::kMuster || write.resource == "leases" || write.resource == "workloads/status") continue;
    if (write.resource == "events" && alike.contains(write.name.substr(0, write.name.rfind('.')))) continue;
    FAIL_CHECK("a new process wrote " << write.verb << " " << write.resource << " " << write.name << " " << write.body);
  }
}

void Judge(const Cluster& cluster, const Chaos& chaos, bool counts_evictions, Outcome* outcome) {
  const ChaosOptions& options = chaos.options();
  const auto lag = options.edits_queues ? std::optional(kLagMax) : std::nullopt;
  const std::string broken = Joined(cluster.Findings(lag)) + Joined(Lost(cluster, chaos.deleted()));
  if (!broken.empty()) FAIL_CHECK(broken);
  const std::map<std::string, Life> lives = LivesIn(cluster);
  for (const auto& [uid, life] : lives) {
    outcome->growths += life.growths;
    outcome->shrinks += life.shrinks;
  }
  if (options.edits_jobs || options.edits_queues) return;
  for (const auto& [uid, life] : lives) {
    outcome->stops += life.stops;
    // Who is stopped in its last moments may have ended all the same.
    if (life.starts < std::max(1, life.stops) || life.starts > life.stops + 1) {
      FAIL_CHECK("Job " << uid << " was started " << life.starts << " times, and stopped " << life.stops << " times");
    }
  }
  if (!counts_evictions) return;
  if (const std::string twice = Joined(EvictedTwice(cluster)); !twice.empty()) FAIL_CHECK(twice);
}

}  // namespace

Outcome& Outcome::operator+=(const Outcome& other) {
  trace = other.trace;
  state = other.state;
  deaths += other.deaths;
  waited += other.waited;
  stops += other.stops;
  growths += other.growths;
  shrinks += other.shrinks;
  return *this;
}

Outcome Play(Cluster* cluster, Chaos* chaos, const Beside& beside) {
  const auto call = [](const std::function<void()>& what) {
    if (what) what();
  };
  chaos->MakeQueues();
  call(beside.begin);
  chaos->Happen(kThings);
  chaos->End();
  call(beside.end);
  Outcome outcome;
  Rest::Alike alike;
  const auto rest = [&](const std::string& when) {
    INFO(when);
    if (!cluster->AwaitRest()) FAIL("no rest\n" << cluster->Diagnostics());
    Rest found(cluster, chaos->without_workload(), beside.places);
    const std::string text = Joined(found.Findings());
    if (!text.empty()) FAIL_CHECK(text);
    alike = found.alike();
    return found.waiting();
  };
  outcome.waited = rest("once faults have ended");
  JudgeReplacement(*cluster, Rest::Alike(alike), [&] { rest("with new processes"); });
  chaos->Repair();
  call(beside.repair);
  if (const int left = rest("once there is room for all"); left > 0) FAIL_CHECK(left << " Jobs wait without need");
  Judge(*cluster, *chaos, beside.places == nullptr, &outcome);
  outcome.trace = cluster->executor.trace_hash();
  outcome.state = cluster->store.StateHash();
  outcome.deaths = cluster->deaths();
  return outcome;
}

bool PlaySeeds(uint64_t seeds, const std::function<Outcome(uint64_t seed)>& play, Outcome* sum) {
  if (const char* given = std::getenv("MUSTER_SEED")) {
    std::printf("trace %016" PRIx64 ", whatever compiled it\n", play(std::strtoull(given, nullptr, 10)).trace);
    return false;
  }
  spdlog::set_level(spdlog::level::off);  // a replay tells everything
  if (std::getenv("MUSTER_LONG") != nullptr) seeds *= 10;
  for (uint64_t seed = 1; seed <= seeds; ++seed) *sum += play(seed);
  return true;
}

std::optional<controller::WaitForPodsReadyOptions> PodsReadyOf(uint64_t seed) {
  if (seed / 8 % 2 == 0) return std::nullopt;
  controller::WaitForPodsReadyOptions options;
  if (seed % 4 != 0) {
    options.timeout = std::chrono::seconds(10);
    options.recovery_timeout = std::chrono::seconds(10);
    options.backoff_base = std::chrono::seconds(1);
    options.backoff_max = std::chrono::seconds(5);
    options.block_admission = seed % 4 == 1;
  }
  return options;
}

}  // namespace muster::sim_campaign
