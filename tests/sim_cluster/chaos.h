// What may happen to a cluster, drawn from a seed: queues, Jobs, and everything that users, administrators, networks
// and machines do to them.
//
// Threading: one thread.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "check_controller.h"
#include "cluster.h"

namespace muster::sim_campaign {

struct ChaosOptions {
  bool faults = true;
  bool edits_jobs = false;
  bool edits_queues = false;
  std::string topology;  // of all flavors; empty: they have none
  // What each Job has besides; unset: nothing.
  std::function<void(Json* job)> shape_job;
};

class Chaos {
 public:
  Chaos(Cluster* cluster, ChaosOptions options);

  // Something else that may happen.
  void Add(int weight, std::function<void()> happen);
  // The queues to begin with: a forest of cohorts without cycles.
  void MakeQueues();
  // So many things happen, one after the other.
  void Happen(int things);
  // Faults end, and everybody works again.
  void End();
  // Every queue exists, is open to all, and has room for everything at once.
  void Repair();

  const ChaosOptions& options() const { return options_; }
  // The uids of Jobs that somebody deleted.
  const std::set<std::string>& deleted() const { return deleted_; }
  // The uids of Jobs whose Workload somebody deleted.
  const std::set<std::string>& without_workload() const { return without_workload_; }
  // As for Jobs that never end by themselves.
  static bool IsEndless(const Json& job);
  // As for Jobs whose size users change while they run.
  static bool IsElastic(const Json& job);

 private:
  struct Thing {
    int weight = 0;
    std::function<void()> happen;
  };
  void Add(int weight, void (Chaos::*happen)()) {
    Add(weight, [this, happen] { (this->*happen)(); });
  }
  uint64_t Below(uint64_t bound) { return random_.Below(bound); }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  std::string AnyOf(const std::vector<std::string>& names) { return names[Below(names.size())]; }
  std::string AnyNamespace() { return AnyOf({"team-a", "team-b"}); }
  std::string AnyQueue(const char* prefix) { return prefix + std::to_string(Below(kQueues)); }
  std::string AnyCohort() { return "c" + std::to_string(Below(kCohorts)); }
  std::pair<std::string, std::string> AnyJob();
  std::string AnyPropagation() { return AnyOf({"Background", "Foreground", "Orphan"}); }
  size_t AnyReplica() { return Below(2); }

  Json AnyResource(const std::string& name, uint64_t most, bool limits);
  Json AnyGroups(bool limits);
  Json AnyChecks();
  Json AnyPreemption();
  Json AnyQueueSpec();
  Json AnyCohortSpec(const std::string& parent);
  void AddFaults();
  void MakeQueue(const std::string& name);
  void MakeLocalQueue(const std::string& ns, const std::string& name);
  void MakeFlavor(const std::string& name);
  Json AnyJobObject(const std::string& ns, const std::string& name);

  void Submit();
  void ResizeJob();
  // Faults.
  void Kill();
  void Pause();
  void BreakWatches();
  void Compact();
  void GoDown();
  void PauseControllers();
  void StrikeNext();
  // Jobs.
  void DeleteJob();
  void ScaleJob();
  void SuspendJob();
  void RelabelJob();
  void RaisePriority();
  void Deactivate();
  void DeleteWorkload();
  // Queues.
  void EditQuota();
  void EditQueue();
  void RecreateQueue();
  void EditCohort();
  void DeleteCohort();
  void StopLocalQueue();
  void RecreateLocalQueue();
  void RecreateFlavor();
  void RelabelNamespace();

  static constexpr uint64_t kQueues = 4;
  static constexpr uint64_t kCohorts = 3;

  Cluster* cluster_;
  ChaosOptions options_;
  SeededRandom random_;
  CheckController checks_;
  std::vector<Thing> things_;
  int weight_ = 0;
  int jobs_ = 0;
  std::set<std::string> deleted_;
  std::set<std::string> without_workload_;
};

}  // namespace muster::sim_campaign
