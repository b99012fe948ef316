// Muster as it is deployed: the program, with the rights it ships with, against a real control plane, and a proxy
// between the two. What happened is read from the API server: its objects, a watch of every Job, its audit log.
//
// Threading: one thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "fixture/cluster.h"
#include "fixture/muster.h"
#include "fixture/proxy.h"

namespace muster::campaign {

using cluster::ApiClient;
using cluster::ApiResponse;
using cluster::Json;

inline constexpr std::string_view kMusterUser = "system:serviceaccount:muster-system:muster";

// Every Job of the cluster at every moment, as a watch of the administrator's tells it.
class JobWatch {
 public:
  explicit JobWatch(ApiClient& api);

  // As it was seen last; null if it never was.
  Json Job(const std::string& ns, const std::string& name) const;
  // How often the Job went from suspended to running; -1 if it was never seen.
  int Starts(const std::string& ns, const std::string& name) const;
  // Of all Jobs of the namespace.
  int Starts(const std::string& ns) const;
  // The most GPUs that Jobs of this namespace had at one moment: those started and not ended, and those suspended
  // whose pods are still there.
  int64_t MostGpus(const std::string& ns) const;
  // Why the watch ended; empty while it goes on.
  std::string End() const;

 private:
  struct Seen {
    Json job;
    bool suspended = false;
    int starts = 0;
    int64_t gpus = 0;  // now
  };
  void Take(const Json& line);

  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::string, Seen>> jobs_;  // by namespace and name
  std::map<std::string, int64_t> most_;
  std::string end_;
  std::unique_ptr<ApiClient::Watch> watch_;
};

// A Job that runs until World::LetEnd: what happens meanwhile may take as long as the machine needs.
inline constexpr const char* kUntilLet = "36000";

struct JobSpec {
  std::string name;
  int pods = 1;  // of one GPU each
  std::string run_seconds = "1";
  std::string queue = "lq";
  bool suspend = true;
  std::string priority = "";  // a class of World::MakeClass
};

// How soon a lease that nobody renews is taken over.
enum class Lease : uint8_t {
  kShipped,  // 15 s, and 4 more that a predecessor's writes may take
  kHasty,    // within seconds, so that a test can kill often
};

// What the API server's objects and /metrics say at about one moment.
struct Snapshot {
  std::map<std::string, std::vector<Json>> jobs;       // by namespace
  std::map<std::string, std::vector<Json>> workloads;  // by namespace
  std::map<std::string, Json> cluster_queues;          // by name
  std::map<std::string, Json> local_queues;            // `lq`, by namespace
  std::string metrics;
};

class World {
 public:
  World();

  cluster::Cluster& cluster() { return *cluster_; }
  cluster::FaultProxy& proxy() { return *proxy_; }
  ApiClient& admin() { return cluster_->Api(); }
  ApiClient& user() { return *user_; }
  const JobWatch& watched() const { return *watched_; }
  cluster::Muster& muster() { return *muster_; }

  // Muster anew, behind the proxy; it listens, and has not asked for the lease yet.
  void Start(Lease lease);
  // SIGKILL; what it had sent may still be on its way.
  void Kill() { muster_->process().Kill(); }
  // SIGTERM; the rules of the proxy end too.
  void Stop();
  // A process that ended by itself is started again, as a kubelet would: one that lost its lease ends.
  void KeepRunning();
  // How often KeepRunning had to.
  int restarts() const { return restarts_; }
  // A second Muster, past the proxy.
  std::unique_ptr<cluster::Muster> StartAnother(Lease lease);
  static bool Leads(const cluster::Muster& muster);
  // Eventually, with KeepRunning at each look.
  bool Await(const std::function<bool()>& holds, std::chrono::seconds patience = std::chrono::minutes(4));

  // A namespace and a ClusterQueue of one name, with so many GPUs, and the LocalQueue `lq`.
  void MakeQueue(const std::string& ns, int gpus);
  // Another LocalQueue of the same ClusterQueue.
  void MakeLocalQueue(const std::string& ns, const std::string& name);
  // A WorkloadPriorityClass.
  void MakeClass(const std::string& name, int value);
  void PatchClusterQueue(const std::string& name, const std::string& spec);
  void Drain(const std::string& cluster_queue) {
    PatchClusterQueue(cluster_queue, R"({"stopPolicy": "HoldAndDrain"})");
  }
  void Reopen(const std::string& cluster_queue) { PatchClusterQueue(cluster_queue, R"({"stopPolicy": "None"})"); }
  void Submit(const std::string& ns, const JobSpec& spec);
  // The pods that the Job has end by themselves, at once.
  void LetEnd(const std::string& ns, const std::string& name);

  Json Job(const std::string& ns, const std::string& name);
  bool Ended(const std::string& ns, const std::string& name);
  bool Running(const std::string& ns, const std::string& name);  // started, with all its pods
  bool Waiting(const std::string& ns, const std::string& name);  // suspended
  // Stopped and restored: no pods, no record, and the Workload shows the eviction.
  bool Restored(const std::string& ns, const std::string& name);
  // The Workload of the Job; null without one.
  Json Workload(const std::string& ns, const std::string& job);
  Json Condition(const std::string& ns, const std::string& job, std::string_view type);
  // How often the Workload says the Job was evicted.
  static int64_t Evictions(const Json& workload);
  // All the Jobs of the namespace, but those named, are complete, and the watch has seen it.
  bool AwaitEnd(const std::string& ns, const std::vector<std::string>& but = {});

  Snapshot Look();
  // What ClusterQueue, LocalQueue, Workloads and /metrics say, against a count from the Jobs themselves: empty where
  // they agree, else the first difference.
  static std::string Recount(const Snapshot& seen, const std::string& ns);
  // The same, once Muster had time to tell; fails the test.
  void CheckRecount(const std::vector<std::string>& namespaces);

  // Writes of Muster's that the server accepted in this namespace, events apart, by key and name of the object.
  std::map<std::string, int> Writes(const std::string& ns);

 private:
  std::unique_ptr<cluster::Cluster> cluster_;
  std::unique_ptr<cluster::FaultProxy> proxy_;
  std::unique_ptr<ApiClient> user_;
  std::unique_ptr<JobWatch> watched_;
  std::unique_ptr<cluster::Muster> muster_;
  Lease lease_ = Lease::kShipped;
  int restarts_ = 0;
};

// One control plane for all tests, each with namespaces of its own, and its own process of Muster's.
World& Shared();

// Muster for one test.
struct Run {
  explicit Run(Lease lease = Lease::kShipped) { Shared().Start(lease); }
  ~Run() { Shared().Stop(); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
};

// The whole campaign, for hours rather than minutes.
bool Long();

// The writes of Muster's about one Job.
cluster::Match StartPatch(const std::string& ns, const std::string& job);
cluster::Match StopPatch(const std::string& ns, const std::string& job);
cluster::Match RestorePatch(const std::string& ns, const std::string& job);
cluster::Match WorkloadCreate(const std::string& ns, const std::string& job);
cluster::Match WorkloadStatus(const std::string& ns, const std::string& job);
cluster::Match LeaseUpdate();

}  // namespace muster::campaign
