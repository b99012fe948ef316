// Teams on one real control plane with the service that looks at machines, as it ships: kwok's nodes, the real
// scheduler, the real job controller. Each team has a namespace, a flavor with nodes of its own, and a ClusterQueue, so
// that tests do not meet; what they start goes with the team.
//
// Threading: one thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fixture/muster.h"

namespace muster::cluster {

// Amounts by resource, as Kubernetes writes them.
using Amounts = std::map<std::string, std::string>;

Amounts Gpus(int count);

// YAML of a Topology.
std::string TopologyOf(const std::string& name, const std::vector<std::string>& levels);
inline constexpr char kHostnameLabel[] = "kubernetes.io/hostname";

// The shipped configuration, with or without machines. Gangs that lack places are stopped after two seconds; a gang
// whose pods do not get ready in half an hour may try once more.
std::string MachinesConfig(bool enable);

class Ground {
 public:
  explicit Ground(const MusterOptions& options = {.config = MachinesConfig(true)});
  // One for all tests that need no other.
  static Ground& Shared();

  Cluster& cluster() { return *cluster_; }
  ApiClient& api() { return cluster_->Api(); }
  Muster& muster() { return *muster_; }
  // Ends the service, and starts it anew with these.
  void Restart(const MusterOptions& options);
  bool Runs();
  bool LooksAtMachines() const { return looks_at_machines_; }
  // At rest nothing is written but the leader's lease: before long none is in two windows of three seconds each, one
  // after the other. It lasts six seconds at least.
  void CheckRest();
  static constexpr std::chrono::seconds kRestPatience = std::chrono::minutes(3);
  // How the service is, for those who find that it does not do what it should.
  std::string Diagnosis();

 private:
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Muster> muster_;
  bool looks_at_machines_ = false;
};

struct Gang {
  int pods = 1;
  Amounts each = Gpus(1);
  std::map<std::string, std::string> annotations = {{"muster.dev/run-seconds", "600"}};  // of its pods: see stages/
  std::string priority = {};  // a WorkloadPriorityClass; empty: none
  std::map<std::string, std::string> job_annotations = {};
};

// The same, all of it in one rack; where `racks` is false, anywhere.
Gang InRack(Gang gang, bool racks = true);

struct TeamOptions {
  Amounts quota = Gpus(1000);
  std::string preemption = "Never";  // withinClusterQueue
  std::string nodes_of = {};         // its flavor has the nodes of that team; empty: its own
  bool racks = false;                // its flavor has a Topology: racks (kRackLabel), and nodes in them
};

inline constexpr char kRackLabel[] = "example.com/rack";

// A process that stands still for the length of a scope.
class Still {
 public:
  explicit Still(Process* process) : process_(process) { process_->Pause(); }
  ~Still() { process_->Resume(); }
  Still(const Still&) = delete;
  Still& operator=(const Still&) = delete;

 private:
  Process* process_;
};

class Team {
 public:
  // Its queue is active, and its nodes are ready.
  Team(Ground& ground, std::string name, const std::vector<Amounts>& nodes, const TeamOptions& options = {});
  // Its Jobs, pods and nodes are gone. Unless the test has failed, what Muster counts is what the objects say, before
  // and after: in the status of the ClusterQueue, and free of its nodes.
  ~Team() { End({this}); }
  // So for all of these, which need not wait for each other; it is done once for each.
  static void End(const std::vector<Team*>& teams);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  Ground& ground() const { return ground_; }
  // The name of its i-th node.
  std::string Node(int i) const;
  // Nodes more, whose names go on from the last; in that rack.
  void AddNode(const Amounts& amounts, const std::string& rack = "r") { AddNodes(1, amounts, rack); }
  void AddNodes(int count, const Amounts& amounts, const std::string& rack = "r");
  void Cordon(int node, bool cordoned = true);
  void DeleteNode(int node);
  // A merge patch of it, or of that subresource ("/status").
  void PatchNode(int node, const std::string& patch, const std::string& subresource = "");

  // ---- Jobs
  void Create(const std::string& job, const Gang& gang);
  // Checks nothing, so that any thread may call it.
  ApiResponse TryCreate(const std::string& job, const Gang& gang);
  void Delete(const std::string& job);  // and waits until its pods are gone
  Json Job(const std::string& job);
  bool Suspended(const std::string& job);
  Json WorkloadOf(const std::string& job);
  // Why it waits: what the condition QuotaReserved of its Workload says; empty: it does not wait.
  std::string WaitsFor(const std::string& job);
  // By name the node that each pod of the Job is on which has not ended; of one that is on none: empty.
  std::map<std::string, std::string> Nodes(const std::string& job);
  bool Runs(const std::string& job, size_t pods);  // so many are on nodes, and no other is there
  bool HasNoPods(const std::string& job) { return Nodes(job).empty(); }
  bool Completed(const std::string& job);
  // How often it was evicted, by what its Workload says.
  int64_t Evictions(const std::string& job, const std::string& reason);

  // ---- Workloads without a Job
  // With a pod set of each.
  void CreateWorkload(const std::string& workload, const std::vector<std::pair<std::string, Gang>>& pod_sets);
  void DeleteWorkload(const std::string& workload);
  Json Condition(const std::string& workload, const std::string& type);
  // One of its pods, on that node at once.
  void CreatePodOf(const std::string& workload, const std::string& pod_set, const std::string& pod,
                   const Amounts& amounts, int node);

  // ---- pods that no queue has
  // On that node at once, or where the scheduler puts it.
  void CreateBare(const std::string& pod, const Amounts& amounts, int node = -1);
  // As TryCreate.
  ApiResponse TryCreateBare(const std::string& pod, const Amounts& amounts, int node = -1);
  Json Pod(const std::string& pod);
  void DeletePod(const std::string& pod);

  std::string Path(const std::string& of) const;

 private:
  // Whether Muster counts the Workloads as they are; otherwise says what it counts, and what there is.
  std::string Miscounted();
  // Likewise, where nothing is left but nodes.
  std::string Leaked();
  // Either of them, where it does not get right in time.
  void Check(std::string (Team::*wrong)());

  Ground& ground_;
  const std::string name_;
  const Amounts quota_;
  const bool owns_nodes_;
  int pools_ = 0;
  std::vector<std::string> nodes_;
  bool ended_ = false;
};

// Deletes all of them, and then waits until none has pods.
void DeleteJobs(const std::vector<std::pair<Team*, std::string>>& jobs);

// They play the same at once, and end at once: fifty rounds last no longer than a few.
class Teams {
 public:
  Teams() = default;
  // Teams alike, NAME-0 and on, each with such nodes.
  Teams(Ground& ground, const std::string& name, int count, const std::vector<Amounts>& nodes,
        const TeamOptions& options = {});
  ~Teams() { Team::End(all_); }
  Teams(const Teams&) = delete;
  Teams& operator=(const Teams&) = delete;

  Team& Add(Ground& ground, const std::string& name, const std::vector<Amounts>& nodes,
            const TeamOptions& options = {});
  // As that of each, all at once.
  void Delete(const std::string& job) const;
  std::vector<Team*>::const_iterator begin() const { return all_.begin(); }
  std::vector<Team*>::const_iterator end() const { return all_.end(); }
  // Asks each, whatever the others say.
  bool All(const std::function<bool(Team& team)>& holds) const;

 private:
  std::vector<std::unique_ptr<Team>> teams_;
  std::vector<Team*> all_;
};

}  // namespace muster::cluster
