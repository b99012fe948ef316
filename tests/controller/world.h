// A cluster in memory with Muster in it: the whole Controller on the real client, informers and leader election,
// over the simulated API server, in virtual time.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "muster/controller/controller.h"
#include "muster/k8s_client/client.h"
#include "muster/sim/controllers.h"
#include "muster/sim/executor.h"
#include "muster/sim/input_log.h"
#include "muster/sim/json.h"
#include "muster/sim/server.h"
#include "muster/sim/store.h"

namespace muster::controller {

// Counts what is reported.
class CountingTelemetry final : public engine::Telemetry {
 public:
  void AdmissionAttempt(bool, Duration) override { ++attempts; }
  void QuotaReserved(const engine::QueueRef&, Duration wait) override {
    ++reserved;
    reserved_after.push_back(wait);
  }
  void Admitted(const engine::QueueRef&, Duration wait, Duration) override {
    ++admitted;
    admitted_after.push_back(wait);
  }
  void Evicted(const engine::QueueRef&, const std::string& reason, const std::string& cause, int64_t pods,
               bool) override {
    ++evicted[reason];
    pods_evicted += pods;
    ++evicted_for[cause];
  }
  void Preempted(const std::string& queue, const std::string& reason) override { ++preempted[queue + " " + reason]; }
  void TargetsRecomputed(const engine::TargetRecomputations& made) override {
    recomputed[made.cluster_queue + " " + std::string(engine::Name(made.result))] += made.count;
  }
  void SliceReplaced(const engine::QueueRef& queue) override { ++slices_replaced[queue.cluster_queue]; }
  void EvictionDone(const engine::QueueRef&, const std::string&, Duration) override { ++evictions_done; }
  void PodsReady(const engine::QueueRef&, Duration wait, Duration since_admission) override {
    ready.push_back(wait);
    until_ready.push_back(since_admission);
  }
  void ReadyPodsEvicted(const engine::QueueRef&, const std::string&, const std::string&, Duration ready_for) override {
    ready_to_evicted.push_back(ready_for);
  }
  void Finished(const engine::QueueRef&, Duration) override { ++finished; }
  void WorkloadCreated(const std::string&, Duration) override { ++workloads_created; }
  void Write(const std::string&, const std::string&, int, Duration) override { ++writes; }
  void EventDropped() override { ++events_dropped; }

  int attempts = 0;
  int reserved = 0;
  int admitted = 0;
  std::vector<Duration> reserved_after;  // since the creation or the last requeue, as is the next
  std::vector<Duration> admitted_after;
  std::map<std::string, int> evicted;
  std::map<std::string, int> evicted_for;  // by underlying cause
  int64_t pods_evicted = 0;
  std::vector<Duration> ready;
  std::vector<Duration> until_ready;
  std::vector<Duration> ready_to_evicted;
  std::map<std::string, int> preempted;        // by "queue reason"
  std::map<std::string, int64_t> recomputed;   // by "queue result"
  std::map<std::string, int> slices_replaced;  // by ClusterQueue
  int evictions_done = 0;
  int finished = 0;
  int workloads_created = 0;
  int writes = 0;
  int events_dropped = 0;
};

// One run of Muster's process.
struct Process {
  std::string identity;
  std::unique_ptr<sim::SimSource> source;
  SeededRandom random{1};
  std::unique_ptr<k8s::Transport> transport;
  std::unique_ptr<k8s::Client> client;
  CountingTelemetry telemetry;
  std::unique_ptr<Controller> controller;
  bool lost_leadership = false;
};

class World {
 public:
  static constexpr const char* kMuster = "system:serviceaccount:muster-system:muster";

  explicit World(uint64_t seed = 1, bool play_controllers = true, sim::ServerOptions server_options = {},
                 sim::ControllerOptions controller_options = {});
  ~World();

  // `identity` empty: leader election off.
  Process& Launch(const std::string& identity = "", Options options = DefaultOptions());
  // The same. The first one without election decides when this returns, if it comes to that within a minute.
  Process& Start(const std::string& identity = "", Options options = DefaultOptions());
  // As SIGKILL.
  void Kill(Process& process);
  static Options DefaultOptions();

  // Each aborts the test where the server refuses.
  sim::Json Create(sim::Json object);
  void Patch(const std::string& plural, const std::string& ns, const std::string& name, const sim::Json& merge,
             const std::string& subresource = "");
  void Delete(const std::string& plural, const std::string& ns, const std::string& name,
              const std::string& propagation = "Background");
  // Null where it does not exist.
  sim::Json Get(const std::string& plural, const std::string& ns, const std::string& name) const;
  std::vector<sim::Json> List(const std::string& plural, const std::string& ns = "") const;

  void RunFor(Duration d) { executor.RunFor(d); }
  bool RunUntil(absl::FunctionRef<bool()> predicate, Duration timeout = std::chrono::seconds(60)) {
    return executor.RunUntil(predicate, timeout);
  }

  // A flavor "f", ClusterQueue "cq" with `cpu` of it, LocalQueue "lq" in namespace "team". Where somebody leads, they
  // are known to it when this returns.
  void MakeQueues(const std::string& cpu);
  // Until a queue is shown to be active as it is now, so that its flavors and checks are known too: which of two
  // watches is ahead is chance, and a Job that comes next might be seen before them.
  void AwaitActive(const std::string& plural, const std::string& ns, const std::string& name);
  // A suspended Job of `pods` pods of 1 cpu each that run for `seconds`.
  // `merge`: what it has beside that.
  sim::Json MakeJob(const std::string& name, int pods, int seconds, const std::string& queue = "lq",
                    const sim::Json& merge = sim::Json::object());
  bool Finished(const std::string& name) const;
  sim::Json WorkloadOf(const std::string& job) const;

  // Writes by Muster since `from`, by "verb resource".
  std::map<std::string, int> Writes(size_t from = 0) const;

  sim::SimExecutor executor;
  sim::SimStore store;
  sim::SimServer server;
  std::unique_ptr<sim::SimControllers> controllers;
  std::vector<std::unique_ptr<Process>> processes;
  uint64_t seed;

 private:
  sim::Target TargetOf(const std::string& plural, const std::string& ns, const std::string& name,
                       const std::string& subresource = "") const;
};

}  // namespace muster::controller
