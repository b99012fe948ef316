// What machines there are, what is on them, and how Topologies arrange them: Nodes, pods on them and Topologies as
// events of the engine; and what namespaces let in (resource_quotas.h).
//
// There are many nodes and pods, so they are watched only where somebody asks for them: machines are checked, or a
// ResourceFlavor has a Topology; with them the pods of gangs that no node has yet. Nothing is told of nodes before all
// pods on them are known: they would look empty.
//
// Threading: used from the executor only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "catalog.h"
#include "informers.h"
#include "muster/engine/engine.h"
#include "resource_quotas.h"
#include "watched_machines.h"

namespace muster::controller {

// Pods by gang.
using PodsByGang = std::map<std::string, std::set<k8s::ObjectKey>>;

class MachineWatch {
 public:
  struct Deps {
    InformerDeps informers;
    Catalog* catalog = nullptr;  // keeps its Topologies
    bool check_machines = false;
    // While nobody leads here, events are dropped.
    std::function<void(engine::Event event)> apply;
    // Of the Workload of that name, whose pods no batch Job controls; empty: there is none.
    std::function<std::string(const k8s::ObjectKey& key)> uid_of_workload;
    // Pods of the gang have come, changed or gone; `gang`: as of GangOf.
    std::function<void(const std::string& gang)> gang_changed;
    // The engine was told of all nodes and pods; from then on, of this node.
    std::function<void()> all_told;
    std::function<void(const std::string& hostname)> node_changed;
  };

  explicit MachineWatch(Deps deps);

  // Its informers may start from here on: those that ForEach visits now are started by the caller.
  void Start();
  // A ResourceFlavor has come or changed.
  void FlavorChanged() { Look(); }
  // Somebody has places in a topology, which may be gone by now: the pods of that gang are still to be let go to them.
  void Need();
  // The engine is new and knows of nothing: it is told of nodes and pods. REQUIRES: it knows all claims.
  void Lead();

  template <typename Visit>
  void ForEach(Visit visit) const {
    visit("Topology", *topologies_);
    quotas_.ForEach(visit);
    if (!needed_) return;
    visit("Node", *nodes_);
    visit("Pod", *pods_);
    visit("UnboundPod", *unbound_);
  }

  // The pods of the gang that no node has yet, and those that are on one. One that was just bound is among the former
  // until the watch of the latter shows it.
  std::vector<std::shared_ptr<const UnboundPod>> Unbound(const std::string& gang) const;
  std::vector<std::shared_ptr<const WatchedPod>> Bound(const std::string& gang) const;
  // Under which uid the engine knows the gang; empty: it does not.
  std::string UidOf(const std::string& gang) const;
  // A gang that lacks places, in whatever flavor, is stopped in time (muster.machines).
  bool looks_at_all() const { return deps_.check_machines; }
  // Null where it is not known.
  std::shared_ptr<const WatchedNode> FindNode(const std::string& name) const { return nodes_->Get({"", name}); }
  // Given a pod that an own write returned.
  void PodReturned(const std::string& json) { unbound_->Observe(json); }

 private:
  ResourceQuotas::Deps QuotaDeps();
  void WatchTopologies(const InformerDeps& deps);
  void WatchNodes(const InformerDeps& deps);
  void WatchPods(const InformerDeps& deps);
  void WatchUnbound(const InformerDeps& deps);
  void PodChanged(const GangPod& pod, const GangPod* previous, PodsByGang* index);
  void GangChanged(const std::string& gang);
  void Tell(engine::Event event, const gang::Node& node);
  void LeftUnbound(const UnboundPod& last);
  void Look();
  void AwaitComplete();
  void TellAll();
  void Tell(const WatchedPod& pod);

  Deps deps_;
  gang::ShapeTable shapes_;
  Informer<WatchedTopology> topologies_;
  Informer<WatchedNode> nodes_;
  Informer<WatchedPod> pods_;
  Informer<UnboundPod> unbound_;
  ResourceQuotas quotas_;
  PodsByGang bound_of_;
  PodsByGang unbound_of_;
  std::map<std::string, std::shared_ptr<const UnboundPod>> in_transit_;  // by uid: in none of the two watches
  bool running_ = false;
  bool needed_ = false;
  bool complete_ = false;  // all nodes and pods have been seen
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
