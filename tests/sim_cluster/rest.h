// What must be true of a cluster at rest, counted anew from its objects.
//
// Threading: one thread.
#pragma once

#include <prometheus/metric_family.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chaos.h"
#include "cluster.h"
#include "quota_tree.h"

namespace muster::sim_campaign {

// What there is besides quota that a gang needs.
class Places {
 public:
  virtual ~Places() = default;
  // So many pods of the Job, which waits, would have places on the nodes of the flavor.
  virtual bool Fit(const Json& job, int64_t pods, const std::string& flavor) const = 0;
  // A standing problem that is as it should be.
  virtual bool Explains(const std::string& problem) const = 0;
  // What is not as it must be, in words. `leader`: what Muster's process says is to be true.
  virtual std::vector<std::string> Findings(const Process& leader) const = 0;
};

// The sum of the samples with these labels; nothing where there is none.
std::optional<double> Sample(const std::vector<prometheus::MetricFamily>& families, const std::string& name,
                             const std::map<std::string, std::string>& labels);

// Of how many pods a gang is.
int64_t PodsOf(const Json& job);

class Rest {
 public:
  // `places`: null: quota is all that is needed.
  // `without_workload`: uids of Jobs whose Workload was deleted; one that has ended gets no other.
  // REQUIRES: `cluster` rests, and somebody leads.
  Rest(const Cluster* cluster, const std::set<std::string>& without_workload, const Places* places);

  // RETURNS: what is not as it must be, in words:
  //   each Job has ended, runs whole (those that never end), or waits as it was made, with a reason that is true; of an
  //   elastic one those pods run that are admitted, and all that fit are;
  //   each has one Workload that says the same, and what is left of deleted ones is finished;
  //   the status of queues and the metrics are what a recount gives, and nothing stands in the way of Muster's work.
  std::vector<std::string> Findings();
  // Jobs that wait.
  int waiting() const { return waiting_; }
  // Workloads of which several reasons are true, by name. Which of them is told depends on where the scan of flavors
  // began; or, in a StrictFIFO queue that does not take their namespace, on whether somebody stood before them when
  // they were looked at.
  using Alike = std::map<std::string, std::set<std::string>>;
  const Alike& alike() const { return alike_; }

 private:
  struct Waiting {
    Json job;
    Json workload;
    std::string name;
    std::string local_queue;  // "namespace/name"
    std::string cluster_queue;
    // Of a gang that runs: what its further pods ask for, by "flavor/resource".
    std::map<std::string, int64_t> more{};
    int64_t more_pods = 0;
  };
  struct Counts {
    int pending = 0;
    int holding = 0;
  };
  enum class Fit { kFits, kNoPlaces, kFull, kNever };
  // With as few pods as it is content with. `nothing_free`: no flavor has all that it wants of something it could have.
  struct Room {
    Fit fit = Fit::kNever;
    bool full = false;       // some flavor lacks something that may come back
    bool never = false;      // some flavor never has enough of something
    bool no_places = false;  // some flavor has no places, whatever its quota
  };

  void Report(const std::string& what) { findings_.push_back(what); }
  void ReadObjects();
  void LookAtJob(const Json& job);
  void LookAtEnd(const std::string& name, const Json& workload);
  void LookAtRunning(const std::string& name, const Json& job, const Json& workload);
  int64_t LookAtSize(const std::string& name, const Json& job, const Json& workload, const Json& record);
  void LookAtWaiting(const std::string& name, const Json& job, const Json& workload);
  void LookAtOrphans();
  std::string WhyNotQueued(const Waiting& waiting) const;
  bool BesideStrictHead(const Waiting& waiting) const;
  static bool IsPartial(const Waiting& waiting);
  bool IsToldByScan(const Waiting& waiting) const;
  bool IsStrict(const std::string& cluster_queue) const;
  bool TakesNamespace(const Waiting& waiting) const;
  bool IsInactive(const std::string& cluster_queue) const;
  Room RoomFor(const Waiting& waiting) const;
  bool TellsDeactivation(const Json& job, const Json& workload) const;
  void LookAtReasons();
  void LookAtGrowing(const Waiting& waiting);
  std::string WrongReason(const Waiting& waiting) const;
  static std::string Unless(const Waiting& waiting, const std::vector<std::string>& reasons);
  static int64_t PriorityOf(const Waiting& waiting);
  std::string RootOf(const std::string& cluster_queue) const;
  void RecountQueues();
  void RecountUsage(const std::string& name, const Json& queue);
  void RecountMetrics();
  void Expect(const std::string& what, double expected, double actual);

  const Cluster* cluster_;
  const std::set<std::string>& without_workload_;
  const Places* places_;
  std::vector<std::string> findings_;
  std::map<std::string, Json> queues_;        // ClusterQueues by name
  std::map<std::string, Json> local_queues_;  // by "namespace/name"
  std::map<std::string, Json> flavors_;
  std::map<std::string, Json> namespaces_;
  std::map<std::string, std::vector<Json>> workloads_;  // by the uid of the Job that owns them
  std::map<std::string, Json> made_;                    // Jobs as they were created, by uid
  scenarios::QuotaTree tree_;
  scenarios::QuotaTree::Usage usage_;
  std::vector<Waiting> queued_;
  std::vector<Waiting> growing_;  // those that run and wait for more pods
  std::map<std::string, Counts> by_queue_;
  std::map<std::string, Counts> by_local_queue_;
  std::map<std::string, int> strict_;  // Jobs that wait, by StrictFIFO ClusterQueue
  Alike alike_;
  int waiting_ = 0;
};

}  // namespace muster::sim_campaign
