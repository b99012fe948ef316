// A cluster in memory: the simulated API server with its controllers and admission policies, and one or two processes
// of Muster on it, which are started again whenever they end, as a kubelet would.
//
// Threading: one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "judge.h"
#include "muster/controller/controller.h"
#include "muster/k8s_client/client.h"
#include "muster/server/metrics.h"
#include "muster/sim/controllers.h"
#include "muster/sim/executor.h"
#include "muster/sim/input_log.h"
#include "muster/sim/nodes.h"
#include "muster/sim/server.h"
#include "muster/sim/store.h"

namespace muster::sim_campaign {

using sim::At;
using sim::Flag;
using sim::Get;
using sim::Json;
using sim::Number;
using sim::Text;

// One run of Muster's process.
struct Process {
  std::unique_ptr<sim::SimSource> source;
  SeededRandom random{1};
  sim::InputLog log{60};
  std::unique_ptr<k8s::Transport> transport;
  std::unique_ptr<k8s::Client> client;
  std::unique_ptr<server::Metrics> metrics;
  std::unique_ptr<controller::Controller> controller;
  int64_t dies_at = -1;  // so many inputs; negative: it lives on
  bool ended = false;    // it gave up by itself

  ~Process();
};

struct ClusterOptions {
  size_t replicas = 1;         // processes of Muster, of which one leads
  controller::Options muster;  // but for what the cluster itself sets
};

class Cluster {
 public:
  static constexpr const char* kMuster = "system:serviceaccount:muster-system:muster";

  // Where Muster looks at machines, pods are objects, and somebody binds and runs them.
  Cluster(uint64_t seed, ClusterOptions options);
  ~Cluster();

  // Lets time pass; processes die where they were told to, and come back.
  void Run(Duration time);
  bool RunUntil(const std::function<bool()>& holds, Duration limit);
  // The process is killed once it has taken so many more inputs: answers and lines of watches.
  void KillAfter(size_t replica, int64_t inputs);
  void SetPaused(size_t replica, bool paused);
  // Kills all processes, and starts others in their place.
  void Replace();
  size_t replicas() const { return processes_.size(); }
  // Those killed, by chance or by themselves.
  int deaths() const { return deaths_; }
  // Null while nobody leads.
  const Process* Leader() const;

  // Until Muster has written nothing for longer than any pause that it makes by itself. RETURNS: whether it came.
  bool AwaitRest();

  // As an administrator, past all faults. RETURNS: whether it was accepted; chance may ask for what makes no sense.
  bool Create(Json object);
  bool Patch(const std::string& plural, const std::string& ns, const std::string& name, const Json& merge,
             const std::string& subresource = "");
  bool Delete(const std::string& plural, const std::string& ns, const std::string& name,
              const std::string& propagation = "Background");
  // Null where it does not exist.
  Json Find(const std::string& plural, const std::string& ns, const std::string& name) const;
  std::vector<Json> List(const std::string& plural) const;

  // Every version of every Job since the beginning, as lines of a watch.
  const std::vector<Json>& job_lines() const { return job_lines_; }
  // The uid of each Job whose Workload came to show a reservation of quota, with the number of lines before that.
  const std::vector<std::pair<size_t, std::string>>& reservations() const { return reservations_; }
  // When the condition Evicted of a Workload last became true, or got another reason.
  struct EvictionTold {
    bool active = true;  // the Workload, in the version that told it
    Duration late{0};    // since it was deactivated, if it was not active
  };
  const EvictionTold& eviction_told(const std::string& uid) const { return evictions_told_.at(uid); }
  // What was broken. With `lag`, a start may go by what the queues were like so long ago.
  std::vector<std::string> Findings(std::optional<Duration> lag) const;
  // What Muster's processes heard last.
  std::string Diagnostics() const;

  sim::SimExecutor executor;
  sim::SimStore store;
  sim::SimServer server;
  sim::SimControllers controllers;
  std::optional<sim::SimNodes> nodes;

 private:
  struct Commit {
    int64_t version = 0;
    MonoTime at;
  };
  void Observe(const sim::Change& change);
  void ObserveWorkload(const sim::Change& change);
  // Logs what became of a Job or a Workload.
  void Tell(const sim::Change& change) const;
  void Start(size_t replica);
  void Die(size_t replica, Duration down);
  void LookAtProcesses();
  sim::Target TargetOf(const std::string& plural, const std::string& ns, const std::string& name) const;

  SeededRandom random_;
  scenarios::Judge judge_;
  std::vector<Json> job_lines_;
  std::vector<std::pair<size_t, std::string>> reservations_;
  std::vector<Commit> commits_;
  std::map<std::string, MonoTime> deactivated_;         // when it was last, by uid of the Workload
  std::map<std::string, EvictionTold> evictions_told_;  // by uid of the Workload
  std::vector<std::unique_ptr<Process>> processes_;
  int runs_ = 0;
  controller::Options muster_;
  int deaths_ = 0;
};

}  // namespace muster::sim_campaign
