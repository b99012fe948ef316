// What Kubernetes does with pods once they are objects, in virtual time: a scheduler that binds each to any node that
// would take it, the kubelets that run and end them, and what becomes of pods whose node is gone or not ready. It works
// on the store as the real ones do, each of its steps a while after what it follows from.
//
// Which of the nodes that would do gets a pod, and which pod is next, is chance: pods of a gang end up where others of
// other gangs were to go, as they do under the real scheduler. A pod that asks for nothing special is bound if the node
// is ready, not cordoned, its labels and taints allow it, and what the pods there ask for leaves room for it.
//
// How long a pod takes to start, run and die is read from its annotations, as in controllers.h. One with a finalizer
// that is deleted goes once it has ended, as after its grace period; deleted without one it is gone at once.
//
// Source: kube-scheduler's NodeResourcesFit, NodeAffinity (nodeSelector alone), TaintToleration, NodeUnschedulable;
// kube-controller-manager's pod garbage collector and taint eviction.
// Threading: one thread, that of the executor.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "muster/sim/executor.h"
#include "muster/sim/json.h"
#include "muster/sim/server.h"
#include "muster/sim/store.h"

namespace muster::sim {

struct NodesOptions {
  Latency bind{std::chrono::milliseconds(5), std::chrono::milliseconds(200)};  // from one binding to the next
  // That one of ten bindings takes instead.
  Latency late_bind{std::chrono::milliseconds(200), std::chrono::seconds(5)};
  Latency collect{std::chrono::seconds(1), std::chrono::seconds(40)};  // until pods of a node that is gone are deleted
  Latency evict{std::chrono::seconds(2), std::chrono::seconds(60)};    // likewise, of one that is not ready
};

// Of a pod or a node, by resource, in thousandths. Whole numbers and those with `m` alone are read.
using Amounts = std::map<std::string, int64_t>;
// All containers together, with one of "pods".
Amounts RequestsOfPod(const Json& pod);
Amounts AllocatableOf(const Json& node);
bool HasEnded(const Json& pod);

class SimNodes {
 public:
  SimNodes(SimExecutor* executor, SimStore* store, NodesOptions options);
  SimNodes(const SimNodes&) = delete;
  SimNodes& operator=(const SimNodes&) = delete;

  // Nothing happens until they go on.
  void SetPaused(bool paused) { source_->SetPaused(paused); }

 private:
  struct PodName {
    std::string ns;
    std::string name;
    std::string uid;
  };
  Duration Draw(const Latency& latency);
  void After(Duration delay, Executor::Task task) { source_->PostAt(executor_->Mono() + delay, std::move(task)); }
  Target TargetOf(const PodName& pod, const std::string& subresource = "") const;
  // Null where it is gone.
  JsonPtr Find(const PodName& pod) const;
  JsonPtr NodeOf(const Json& pod) const;

  void OnChange(const Change& change);
  void OnPod(const Json& pod);
  void OnNode(const Change& change);

  void Wake();
  void Bind();
  std::vector<std::string> NodesFor(const Json& pod) const;
  void Begin(const PodName& name);
  void End(const PodName& name);
  void Stop(const PodName& name);
  void SetPhase(const PodName& name, const std::string& phase);
  void Remove(const PodName& name);
  void LosePods(const std::string& node);
  void EvictPods(const std::string& node);
  std::vector<JsonPtr> PodsOn(const std::string& node) const;

  SimExecutor* executor_;
  SimStore* store_;
  NodesOptions options_;
  std::unique_ptr<SimSource> source_;
  SeededRandom random_;
  const Kind* pods_;
  const Kind* nodes_;
  bool awake_ = false;
  std::set<std::string> begun_;    // uids of pods that kubelets know
  std::set<std::string> stopped_;  // likewise, that they are to stop
};

}  // namespace muster::sim
