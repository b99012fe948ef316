// A tree of cohorts and the formulas of its quota (kueue_semantics 5.1), worked out from scratch at each question.
//
// Threading: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "muster/sim/json.h"

namespace muster::scenarios {

class QuotaTree {
 public:
  using Amounts = std::map<std::string, int64_t>;  // by "flavor/resource"
  using Usage = std::map<std::string, Amounts>;    // by ClusterQueue
  struct Node {
    std::string parent;  // a cohort; empty: none
    Amounts nominal;
    Amounts borrowing;  // absent: no limit
    Amounts lending;
    bool deleted = false;
  };

  // A ClusterQueue or a Cohort as the API server stores it; amounts are whole numbers.
  static Node Read(const sim::Json& object);

  void AddQueue(const std::string& name, const Node& node) { queues_[name] = node; }
  // Cohorts that are only named need not be added.
  void AddCohort(const std::string& name, const Node& node) { cohorts_[name] = node; }
  void SetUsage(const Usage* usage) { usage_ = usage; }

  bool HasQueue(const std::string& name) const { return queues_.contains(name); }
  // REQUIRES below: the queue is there, and a usage was set.
  // Some cohort above the queue is above itself: nothing starts.
  bool OnCycle(const std::string& queue) const;
  // What a queue may still take, less than nothing where too much is in use, and the most it could ever have.
  int64_t Available(const std::string& queue, const std::string& key) const;
  int64_t Potential(const std::string& queue, const std::string& key) const;
  // Why that queue has too much of it, in words; empty if it has not.
  std::string Excess(const std::string& queue, const std::string& key) const;

 private:
  // A ClusterQueue and a Cohort may have one name.
  struct Place {
    bool queue = false;
    std::string name;
  };
  const Node& At(const Place& place) const;
  Place Parent(const Place& place) const { return {false, At(place).parent}; }
  bool IsRoot(const Place& place) const { return At(place).parent.empty(); }
  template <typename F>
  int64_t SumOfChildren(const std::string& cohort, F amount) const;
  int64_t Subtree(const Place& place, const std::string& key) const;
  int64_t Local(const Place& place, const std::string& key) const;
  int64_t Used(const Place& place, const std::string& key) const;
  int64_t AvailableAt(const Place& place, const std::string& key) const;
  int64_t PotentialAt(const Place& place, const std::string& key) const;

  std::map<std::string, Node> queues_;
  std::map<std::string, Node> cohorts_;
  const Usage* usage_ = nullptr;
};

}  // namespace muster::scenarios
