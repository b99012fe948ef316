#include "recordings.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

namespace muster::golden {
namespace {

std::string Unzipped(const std::string& path) {
  FILE* pipe = ::popen(std::string("zcat '").append(path).append("'").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  char buffer[65536];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
  REQUIRE(::pclose(pipe) == 0);
  return out;
}

}  // namespace

std::vector<Json> Recordings() {
  const std::string text = Unzipped(MUSTER_SOURCE_DIR "/tests/golden/jobs.jsonl.gz");
  std::vector<Json> out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    REQUIRE(end != std::string::npos);
    out.push_back(Json::parse(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return out;
}

std::string ConfigOf(const Json& recording) {
  const Json& config = Get(recording, "kueueConfig");
  std::string out;
  for (const auto& [key, value] : config.items()) out += key + ": " + value.dump() + "\n";
  return out;
}

bool HasJobController(const Json& recording) { return Text(Get(recording, "jobController")) == "real"; }

bool IsMoment(const Json& recording, const Json& step) {
  const bool starts_in_time = !ConfigOf(recording).empty();
  const Json& workloads = At(step, "then", "workloads");
  return std::any_of(workloads.begin(), workloads.end(), [&](const Json& workload) {
    if (At(workload, "status", "requeueState", "requeueAt").is_string()) return true;
    if (!sim::HasCondition(workload, "Admitted") || !Flag(At(workload, "spec", "active"))) return false;
    return !At(workload, "spec", "maximumExecutionTimeSeconds").is_null() ||
           (starts_in_time && !sim::HasCondition(workload, "PodsReady"));
  });
}

bool HasMoments(const Json& recording) {
  const Json& steps = Get(recording, "steps");
  return std::any_of(steps.begin(), steps.end(), [&](const Json& step) { return IsMoment(recording, step); });
}

}  // namespace muster::golden
