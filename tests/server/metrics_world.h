// Metrics of an engine with a few queues, as a scrape shows them.
#pragma once

#include <absl/strings/str_split.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cluster.h"
#include "muster/server/metrics.h"

namespace muster::server {

// The lines of the text format whose metric begins with `prefix`, without comments.
inline std::string Lines(const Metrics& metrics, const std::string& prefix) {
  std::string out;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(RenderMetrics(metrics.Collect()), '\n'))) {
    if (line.starts_with(prefix)) out += line + "\n";
  }
  return out;
}

struct World {
  explicit World(MetricsOptions options = {}, engine::EngineOptions engine_options = {})
      : cluster(std::move(engine_options)),
        metrics(options, {"v1", "abc", "today", "gcc", "linux/amd64"},
                {[this] { return engine(); }, [this] { return role; }, [] { return int64_t{2}; },
                 [] {
                   return std::vector<InformerCounts>{{"Job", 3, 5, 7}};
                 },
                 [this] { return finished; }, [this] { return evicting; }}) {}
  const engine::EngineSet* engine() const { return known ? &cluster.engine : nullptr; }

  engine::Cluster cluster;
  ReplicaRole role = ReplicaRole::kLeader;
  bool known = true;
  FinishedCounts finished;
  std::map<std::string, EvictingCount> evicting;
  Metrics metrics;
};

inline gang::Node CpuNode(const std::string& name, int64_t cpu) {
  gang::Node node;
  node.name = name;
  node.ready = true;
  node.allocatable = {{"cpu", Amount{cpu}}, {"pods", Amount{10'000}}};
  return node;
}

}  // namespace muster::server
