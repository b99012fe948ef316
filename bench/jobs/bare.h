// A ceiling: a client with the same watches as a controller's and no decisions. Each new Job is started by
// one patch at once; on demand its Workload is created and its status written as well. What a controller
// reaches is to be read as a share of this.
//
// Threading: used from the executor only.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "load.h"
#include "muster/k8s_client/client.h"
#include "muster/k8s_client/informer.h"

namespace muster::bench {

class BareClient {
 public:
  // Starts the Jobs in `ns`, of `pods` pods each. `all_writes`: Workload create and status patch too, after the start.
  BareClient(Environment env, k8s::Client* client, std::string ns, int pods, bool all_writes);
  void Start();
  bool synced() const;
  int failed() const { return failed_; }

 private:
  void StartJob(const WatchedJob& job);
  void CreateWorkload(const std::string& name, const std::string& uid);
  void PatchStatus(const std::string& name, const std::string& body);

  Environment env_;
  k8s::Client* client_;
  std::string ns_;
  int pods_;
  bool all_writes_;
  int failed_ = 0;
  std::set<std::string> seen_;
  k8s::Informer<WatchedJob> jobs_;
  std::vector<std::unique_ptr<k8s::Informer<WatchedWorkload>>> others_;  // read, and not used
};

}  // namespace muster::bench
