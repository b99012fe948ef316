// Muster as it is deployed: the program, with the rights it ships with, against a real control plane, and a proxy
// between the two. What happened is read from the API server: its objects, a watch of every Job, its audit log.
//
// Threading: one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "fixture/cluster.h"
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

  // How often the Job went from suspended to running.
  int Starts(const std::string& ns, const std::string& name) const;
  // The most GPUs that Jobs of this namespace had at one moment: those started and not ended, and those suspended
  // whose pods are still there.
  int64_t MostGpus(const std::string& ns) const;
  // Why the watch ended; empty while it goes on.
  std::string End() const;

 private:
  struct Seen {
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

struct JobSpec {
  std::string name;
  int pods = 1;  // of one GPU each
  std::string run_seconds = "1";
  std::string queue = "lq";
  bool suspend = true;
};

class World {
 public:
  World();

  cluster::Cluster& cluster() { return *cluster_; }
  cluster::FaultProxy& proxy() { return *proxy_; }
  ApiClient& admin() { return cluster_->Api(); }
  ApiClient& user() { return *user_; }
  const JobWatch& watched() const { return *watched_; }

  // Muster anew, from its first request on. Start waits until it holds the lease.
  void Start();
  void Kill() { muster_->Kill(); }
  // SIGTERM; the rules of the proxy end too.
  void Stop();
  // A process that ended by itself is started again, as a kubelet would: one that lost its lease ends.
  void KeepRunning();
  // Eventually, with KeepRunning at each look.
  bool Await(const std::function<bool()>& holds, std::chrono::seconds patience = std::chrono::minutes(4));

  // A namespace and a ClusterQueue of one name, with so many GPUs, and the LocalQueue `lq`.
  void MakeQueue(const std::string& ns, int gpus);
  void PatchClusterQueue(const std::string& name, const std::string& spec);
  void Submit(const std::string& ns, const JobSpec& spec);

  Json Job(const std::string& ns, const std::string& name);
  bool Ended(const std::string& ns, const std::string& name);
  bool Running(const std::string& ns, const std::string& name);  // started, with all its pods
  bool Waiting(const std::string& ns, const std::string& name);  // suspended
  // The Workload of the Job; null without one.
  Json Workload(const std::string& ns, const std::string& job);
  Json Condition(const std::string& ns, const std::string& job, std::string_view type);
  // All the Jobs of the namespace, but those named, are complete.
  bool AwaitEnd(const std::string& ns, const std::vector<std::string>& but = {});

  // What ClusterQueue, LocalQueue and Workloads say, against a count from the Jobs themselves: empty where they
  // agree, else the first difference.
  std::string Recount(const std::string& ns);
  // The same, once Muster had time to tell; fails the test.
  void CheckRecount(const std::string& ns);

  // Writes of Muster's that the server accepted in this namespace, events apart, by key and name of the object.
  std::map<std::string, int> Writes(const std::string& ns);

 private:
  std::unique_ptr<cluster::Cluster> cluster_;
  std::unique_ptr<cluster::FaultProxy> proxy_;
  std::unique_ptr<ApiClient> user_;
  std::unique_ptr<JobWatch> watched_;
  std::string kubeconfig_;
  std::string config_;
  std::unique_ptr<cluster::Process> muster_;
};

// One control plane for all tests, each with namespaces of its own, and its own process of Muster's.
World& Shared();

// Muster for one test.
struct Run {
  Run() { Shared().Start(); }
  ~Run() { Shared().Stop(); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
};

// The writes of Muster's about one Job.
cluster::Match StartPatch(const std::string& ns, const std::string& job);
cluster::Match StopPatch(const std::string& ns, const std::string& job);
cluster::Match RestorePatch(const std::string& ns, const std::string& job);
cluster::Match WorkloadCreate(const std::string& ns, const std::string& job);
cluster::Match WorkloadStatus(const std::string& ns, const std::string& job);
cluster::Match LeaseUpdate();

}  // namespace muster::campaign
