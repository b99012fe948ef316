#include "recordings.h"

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

bool Preempts(const Json& cluster_queue) {
  for (const char* when : {"withinClusterQueue", "reclaimWithinCohort"}) {
    if (Text(At(cluster_queue, "spec", "preemption", when), "Never") != "Never") return true;
  }
  return Text(At(cluster_queue, "spec", "preemption", "borrowWithinCohort", "policy"), "Never") != "Never";
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

std::string NotServed(const Json& recording) {
  if (!At(recording, "kueueConfig", "waitForPodsReady").is_null()) return "waitForPodsReady";
  for (const Json& step : Get(recording, "steps")) {
    for (const Json& op : At(step, "do", "ops")) {
      // A whole object, or what is changed of one.
      const Json& object = op.contains("object") ? Get(op, "object") : Get(op, "patch");
      const std::string kind = Text(Get(op.contains("object") ? object : op, "kind"));
      const Json& spec = Get(object, "spec");
      if (kind == "AdmissionCheck" || !Get(spec, "admissionChecks").is_null() ||
          !Get(spec, "admissionChecksStrategy").is_null()) {
        return "admission checks";
      }
      if (kind == "ClusterQueue" && Preempts(object)) return "preemption";
    }
  }
  return "";
}

bool HasJobController(const Json& recording) { return Text(Get(recording, "jobController")) == "real"; }

}  // namespace muster::golden
