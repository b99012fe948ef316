// How many finished Workloads there still are, by queue.
//
// Threading: used from the executor only.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "muster/controller/controller.h"
#include "muster/controller/workload.h"
#include "muster/k8s_client/object.h"

namespace muster::controller {

class FinishedWorkloads {
 public:
  void Observe(const Workload& workload);
  void Forget(const k8s::ObjectKey& workload);
  const FinishedCounts& counts() const { return counts_; }

 private:
  struct Queues {
    std::string cluster_queue;  // empty: it was never admitted
    std::string local_queue;
  };
  void Count(const k8s::ObjectKey& workload, const Queues& queues, int sign);

  std::map<k8s::ObjectKey, Queues> finished_;
  FinishedCounts counts_;
};

}  // namespace muster::controller
