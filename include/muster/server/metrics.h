// Metrics under Kueue's names, labels and buckets, so that its dashboards work; Muster's own begin with
// muster_. Counters and histograms are plain numbers that Telemetry adds to; what can be seen from the
// engine (queue lengths, usage) is never kept, but read from it at each scrape.
//
// Each series but build_info carries replica_role: leader, follower or standalone. The series of a
// ClusterQueue, LocalQueue or Cohort go away with it, at the next Sweep.
//
// Source: kueue_semantics 8.1. docs/metrics.md lists them.
// Threading: used from the executor only; MetricsHandler's rendering runs on the server's thread.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/core/clock.h"
#include "muster/engine/engine.h"
#include "muster/engine/telemetry.h"
#include "muster/server/http_server.h"

namespace muster::server {

enum class ReplicaRole : uint8_t { kLeader, kFollower, kStandalone };

struct MetricsOptions {
  bool cluster_queue_resources = false;  // quotas and usage by flavor and resource
  bool local_queues = true;
};

struct BuildInfo {
  std::string version;
  std::string commit;
  std::string date;
  std::string compiler;
  std::string platform;
};

// How the cache of one kind is kept up to date.
struct InformerCounts {
  std::string kind;
  int64_t lists = 0;
  int64_t watch_cuts = 0;
  int64_t objects = 0;  // that it knows
};

// Finished Workloads that still exist, by queue.
struct FinishedCounts {
  std::map<std::string, int64_t> by_cluster_queue;
  std::map<std::pair<std::string, std::string>, int64_t> by_local_queue;  // (namespace, name)
};

// Workloads of a ClusterQueue that are evicted and still hold their quota.
struct EvictingCount {
  int64_t workloads = 0;
  WallTime oldest;  // since when the one of them is evicted that takes longest
};

// Asked at each scrape.
struct MetricsSource {
  std::function<const engine::EngineSet*()> engine;  // null: not known yet
  std::function<ReplicaRole()> role;
  std::function<int64_t()> problems;  // how many are standing; /debug/readyz has them in words
  std::function<std::vector<InformerCounts>()> informers;
  std::function<FinishedCounts()> finished;
  std::function<std::map<std::string, EvictingCount>()> evicting;  // by ClusterQueue
};

class Metrics final : public engine::Telemetry, public prometheus::Collectable {
 public:
  Metrics(MetricsOptions options, BuildInfo build, MetricsSource source);
  ~Metrics() override;

  void AdmissionAttempt(bool admitted, Duration took) override;
  void QuotaReserved(const engine::QueueRef& queue, Duration wait) override;
  void Admitted(const engine::QueueRef& queue, Duration wait, Duration checks_wait) override;
  void Evicted(const engine::QueueRef& queue, const std::string& reason, const std::string& underlying_cause,
               int64_t pods, bool first_for_reason) override;
  void Preempted(const std::string& preempting_cluster_queue, const std::string& reason) override;
  void TargetsRecomputed(const engine::TargetRecomputations& made) override;
  void SliceReplaced(const engine::QueueRef& queue) override;
  void EvictionDone(const engine::QueueRef& queue, const std::string& reason, Duration took) override;
  void PodsReady(const engine::QueueRef& queue, Duration wait, Duration since_admission) override;
  void ReadyPodsEvicted(const engine::QueueRef& queue, const std::string& reason, const std::string& underlying_cause,
                        Duration ready_for) override;
  void Finished(const engine::QueueRef& queue, Duration execution) override;
  void WorkloadCreated(const std::string& job_kind, Duration latency) override;
  void Write(const std::string& resource, const std::string& verb, int code, Duration took) override;
  void EventDropped() override;

  // Forgets the series of queues that are gone. Collect does it too.
  void Sweep();

  // Families without a sample are left out.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Prometheus' text format, version 0.0.4.
// Threading: pure.
std::string RenderMetrics(const std::vector<prometheus::MetricFamily>& families);

// Collects on the executor, renders on the server's thread. REQUIRES: `metrics` outlives the executor's tasks.
Handler MetricsHandler(Executor* executor, const Metrics* metrics);

}  // namespace muster::server
