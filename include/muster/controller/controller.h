// The service without its process: informers, the engine, the writers and leadership, wired together on one
// executor. What it does for one Job is in job_controller.h, the record it writes in record.h.
//
// Threading: used from the executor only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/controller/options.h"
#include "muster/core/clock.h"
#include "muster/engine/engine.h"
#include "muster/engine/telemetry.h"
#include "muster/k8s_client/client.h"

namespace muster::controller {

// What health endpoints and readiness need to know.
struct Health {
  bool synced = false;
  bool leading = false;
  bool lease_healthy = true;
  std::vector<std::string> not_synced;  // kinds without a complete list yet
  struct Informer {
    std::string kind;
    int64_t lists = 0;  // more than one: it had to list again
    int64_t watch_cuts = 0;
    int64_t objects = 0;  // that it knows
  };
  std::vector<Informer> informers;
  // Standing problems in words: policies missing or changed, missing rights, Kueue's lease alive, ...
  std::vector<std::string> problems;
  // Of Options::release: Jobs that still carry a record; unset: not known yet.
  std::optional<size_t> release_left;
};

// Finished Workloads that still exist.
struct FinishedCounts {
  std::map<std::string, int64_t> by_cluster_queue;                        // that they were admitted to
  std::map<std::pair<std::string, std::string>, int64_t> by_local_queue;  // (namespace, name)
};

// What is evicted and still holds its quota.
struct EvictingCount {
  int64_t workloads = 0;
  WallTime oldest;  // since when the one of them is evicted that takes longest
};

class Controller {
 public:
  // REQUIRES: what the pointers point to outlives it. `lost_leadership`: the process must exit.
  Controller(Environment env, k8s::Client* client, Options options, engine::Telemetry* telemetry,
             std::function<void(std::string why)> lost_leadership);
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  void Start();
  // Stops deciding, lets writes in flight end, releases the lease, then calls `done`.
  void Stop(std::function<void()> done);

  Health health() const;
  // The read side for metrics and explanations; null before the first complete state.
  const engine::EngineSet* engine() const;
  const FinishedCounts& finished() const;
  std::map<std::string, EvictingCount> evicting() const;  // by ClusterQueue

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::controller
