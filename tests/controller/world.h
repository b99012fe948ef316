// A cluster in memory with Muster in it: the whole Controller on the real client, informers and leader election,
// over the simulated API server, in virtual time.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "muster/controller/controller.h"
#include "muster/gang/room.h"
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
  void QuotaReserved(const engine::QueueRef&, Duration) override { ++reserved; }
  void Admitted(const engine::QueueRef&, Duration, Duration) override { ++admitted; }
  void Evicted(const engine::QueueRef&, const std::string& reason, const std::string&, bool) override {
    ++evicted[reason];
  }
  void EvictionDone(const engine::QueueRef&, const std::string&, Duration) override { ++evictions_done; }
  void Finished(const engine::QueueRef&, Duration) override { ++finished; }
  void WorkloadCreated(const std::string&, Duration) override { ++workloads_created; }
  void Write(const std::string&, const std::string&, int, Duration) override { ++writes; }
  void EventDropped() override { ++events_dropped; }

  int attempts = 0;
  int reserved = 0;
  int admitted = 0;
  std::map<std::string, int> evicted;
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
  gang::UncheckedRoom room;
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

  // A flavor "f", ClusterQueue "cq" with `cpu` of it, LocalQueue "lq" in namespace "team".
  void MakeQueues(const std::string& cpu);
  // A suspended Job of `pods` pods of 1 cpu each that run for `seconds`.
  sim::Json MakeJob(const std::string& name, int pods, int seconds, const std::string& queue = "lq");
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
