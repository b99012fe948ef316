// Nodes, and pods of strangers on them: what happens to them, and what there must be room for at rest.
//
// Threading: one thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "chaos.h"
#include "cluster.h"
#include "muster/sim/nodes.h"
#include "rest.h"

namespace muster::machines_campaign {

using sim::At;
using sim::Flag;
using sim::Get;
using sim::Json;
using sim::Number;
using sim::Text;

struct MachinesOptions {
  std::string topology;  // of all flavors, with racks and nodes; empty: there is none
  bool changes = true;   // nodes come, go and change; otherwise pods of strangers alone do
  // Gangs are stopped whose pods are not ready in time: then no Job waits for its old pods to have gone, which can take
  // longer each time.
  bool stops_unready = false;
};

class Machines final : public sim_campaign::Places {
 public:
  Machines(sim_campaign::Cluster* cluster, MachinesOptions options);

  void AddTo(sim_campaign::Chaos* chaos);
  // What Jobs ask for where there are machines.
  void ShapeJob(Json* job);
  // The nodes to begin with, and the Topology.
  void Make();
  // Kubelets work again. What is cordoned or gone stays so.
  void End();
  // Nothing is cordoned, and there is room for all at once in each rack of each flavor.
  void Repair();

  bool Fit(const Json& job, int64_t pods, const std::string& flavor) const override;
  bool Explains(const std::string& problem) const override;
  std::vector<std::string> Findings(const sim_campaign::Process& leader) const override;
  // What was broken since the beginning.
  std::vector<std::string> Broken() const;

  // What happened; a campaign that makes nothing happen tells nothing.
  int bound() const { return bound_; }
  int node_failures() const { return static_cast<int>(failures_.size()); }

 private:
  using Amounts = sim::Amounts;
  struct Failure {
    std::string job;
    MonoTime at;
    bool at_rest = false;  // nothing had happened to nodes and strangers for long
  };
  uint64_t Below(uint64_t bound) { return random_.Below(bound); }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  std::string AnyOf(const std::vector<std::string>& names) { return names[Below(names.size())]; }
  // Empty: there is none.
  std::string AnyNode();
  void MakeNode(const std::string& name, const std::string& flavor, const std::string& rack, Json allocatable);
  void SetReady(const std::string& name, bool ready);

  void AddNode();
  void RemoveNode();
  void Cordon();
  void Drain();
  void LoseReady();
  void Resize();
  void Relabel();
  void DeletePod();
  void AddStranger();
  void RemoveStranger();

  void Observe(const sim::Change& change);
  void ObservePod(const sim::Change& change);
  void ObserveJob(const sim::Change& change);
  Amounts TakenOn(const std::string& node) const;
  bool IsOpen(const Json& node, const std::string& flavor) const;
  void RecountFlavor(const sim_campaign::Process& leader, const std::string& flavor,
                     std::vector<std::string>* findings) const;
  void LookAtPods(const Json& job, std::vector<std::string>* findings) const;

  sim_campaign::Cluster* cluster_;
  MachinesOptions options_;
  SeededRandom random_;
  int nodes_made_ = 0;
  int strangers_made_ = 0;
  int bound_ = 0;
  MonoTime changed_;  // when something last happened to nodes, or to pods of strangers
  std::vector<Failure> failures_;
  std::set<std::string> failed_claims_;
  std::vector<std::string> broken_;
};

}  // namespace muster::machines_campaign
