// What happened, for whoever counts it. The controller reports, the server's metrics implement it.
//
// Threading: called on the controller's executor only.
#pragma once

#include <cstdint>
#include <string>

#include "muster/core/time.h"

namespace muster::engine {

struct TargetRecomputations;  // engine.h

struct QueueRef {
  std::string cluster_queue;
  std::string ns;  // of the LocalQueue
  std::string local_queue;
  std::string priority_class;  // empty: none
};

class Telemetry {
 public:
  virtual ~Telemetry() = default;

  // One engine run with something to decide on. `admitted`: it admitted or evicted anybody.
  virtual void AdmissionAttempt(bool admitted, Duration took) = 0;
  // The start was accepted by the API server. Waits are from the creation or the last requeue.
  virtual void QuotaReserved(const QueueRef& queue, Duration wait) = 0;
  virtual void Admitted(const QueueRef& queue, Duration wait, Duration checks_wait) = 0;
  // `pods`: those of the gang that had not ended.
  virtual void Evicted(const QueueRef& queue, const std::string& reason, const std::string& underlying_cause,
                       int64_t pods, bool first_for_reason) = 0;
  // Of an eviction that made room for another: whose ClusterQueue that is, and the reason of the condition Preempted.
  virtual void Preempted(const std::string& preempting_cluster_queue, const std::string& reason) = 0;
  virtual void TargetsRecomputed(const TargetRecomputations& made) = 0;
  virtual void EvictionDone(const QueueRef& queue, const std::string& reason, Duration took) = 0;
  // All its pods are ready for the first time since its admission: since the creation or the last requeue, and since
  // the admission.
  virtual void PodsReady(const QueueRef& queue, Duration wait, Duration since_admission) = 0;
  // An eviction of a gang whose pods were ready, for so long.
  virtual void ReadyPodsEvicted(const QueueRef& queue, const std::string& reason, const std::string& underlying_cause,
                                Duration ready_for) = 0;
  // More pods of a gang that runs were admitted, in place of fewer.
  virtual void SliceReplaced(const QueueRef& queue) = 0;
  virtual void Finished(const QueueRef& queue, Duration execution) = 0;
  // Job creation until its Workload object exists.
  virtual void WorkloadCreated(const std::string& job_kind, Duration latency) = 0;
  // One API write: the kind ("jobs", "workloads/status", ...), the verb and the HTTP status (0: no answer).
  virtual void Write(const std::string& resource, const std::string& verb, int code, Duration took) = 0;
  virtual void EventDropped() = 0;
};

}  // namespace muster::engine
