// Whether the places of some admissions are right: what the reference is known to get wrong is not to be matched, and
// nothing of it may ever come out of the engine.
//
// Source: oracle category 11 and the faults listed with it.
// Threading: not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/engine/engine.h"
#include "muster/gang/topology_book.h"

namespace muster::cli {

class PlaceJudge {
 public:
  // Reads of an event what concerns places.
  void Apply(const engine::Event& event);

  using Admissions = std::vector<std::pair<const engine::Workload*, engine::Admission>>;
  // The rule that they break; nothing: none.
  std::optional<std::string> FaultOf(const Admissions& admissions);

 private:
  // The pods may not be on some node that they have a place on.
  bool MayNotBeThere(const gang::PlacedPodSet& placed) const;

  // What is held in one domain of one flavor, and on which nodes it can be.
  struct Demand {
    std::set<std::string> nodes;  // by name
    std::map<std::string, int64_t> amounts;
  };
  std::set<std::string> NodesOf(const gang::PlacedPodSet& placed, const gang::TopologyDomain& domain) const;
  // Exact: whatever some of the demands ask for together, the nodes that they can be on have together.
  bool HasRoom(const std::vector<gang::PlacedPodSet>& places) const;
  bool HasRoom(const std::vector<const Demand*>& linked) const;
  int64_t FreeOfStrangers(const std::string& node, const std::string& resource) const;

  std::map<std::string, gang::Topology, std::less<>> topologies_;
  std::map<std::string, engine::ResourceFlavor, std::less<>> flavors_;  // with a topology
  std::map<std::string, gang::Node, std::less<>> nodes_;
  std::map<std::string, engine::PodPlaced, std::less<>> pods_;  // of nobody here
};

}  // namespace muster::cli
