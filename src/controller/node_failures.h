// Finds the places of gangs whose node has failed, and tells the engine, which finds others or evicts the gang.
//
// A node that is gone has failed. One that is not ready or cordoned, or has a taint that the pods do not tolerate, has
// failed for a gang once none of its pods runs there any more, or was let go to it: pods that are being deleted do not
// count. A pod that was let go to a node that is gone can be bound to no other: where all machines are looked at, the
// place is not replaced while there is one, so that the gang lacks it, and goes whole when its time is over.
//
// Source: kueue_semantics 9.9.7.
// Threading: used from the executor only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "machine_watch.h"
#include "muster/engine/engine.h"
#include "ungater.h"

namespace muster::controller {

class NodeFailures {
 public:
  struct Deps {
    const MachineWatch* machines = nullptr;
    const std::unique_ptr<engine::EngineSet>* engine = nullptr;  // null while nobody leads here
    std::function<void(engine::Event event)> apply;
    // "namespace/name" of the Workload without a Job that has this uid; empty: it is none.
    std::function<std::string(const std::string& uid)> name_of_workload;
    const Ungater* ungater = nullptr;
  };

  explicit NodeFailures(Deps deps) : deps_(std::move(deps)) {}

  // The engine has been told of all nodes and pods.
  void AllTold();
  // The node of that hostname has come, changed or gone, as the engine has been told.
  void NodeChanged(const std::string& hostname);
  // Pods of the gang have come, changed or gone; `gang`: as of GangOf.
  void GangChanged(const std::string& gang);
  // The node has failed for the workload, or will once no pod of it runs there.
  bool Fails(const std::string& uid, const std::string& hostname) const;

 private:
  void Look(const std::string& hostname, const engine::HolderOnNode& holder);
  // `gang`: as of GangOf.
  bool RunsOn(const std::string& hostname, const std::string& gang) const;
  // Pods of it wait to be bound to that node, or will once a write has its answer.
  bool LetGoTo(const std::string& hostname, const std::string& gang) const;

  Deps deps_;
  // By uid: hostnames of nodes on which pods of it were running, or which they waited for, when it was last looked at.
  std::map<std::string, std::set<std::string>> suspects_;
};

}  // namespace muster::controller
