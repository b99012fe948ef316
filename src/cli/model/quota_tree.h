// Trees of cohorts and what is in use in them, as plain as the rules are: each figure is summed up from the
// ClusterQueues whenever it is asked for. It shares no code with the ledger that the engine counts with.
//
// Source: kueue_semantics 5.1, 5.8.
// Units: Amount's. Threading: values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/core/amount.h"
#include "muster/engine/objects.h"

namespace muster::cli::model {

// A (flavor, resource), by number.
using Fr = int;
using Amounts = std::map<Fr, Amount>;

struct Quota {
  Amount nominal{};
  std::optional<Amount> borrowing_limit{};
  std::optional<Amount> lending_limit{};
};

struct Node {
  std::string name;
  bool is_queue = false;
  bool on_cycle = false;  // a cohort above it is its own parent
  int parent = -1;
  std::vector<int> children;  // sorted by name, ClusterQueues first
  std::map<Fr, Quota> quotas;
  int64_t weight_nanos = 0;
};

// Of a weight that is 0 it is infinite, unless nothing is borrowed.
struct Share {
  Amount borrowed{};
  Amount lendable{1};
  int64_t weight_nanos = 1;
  bool IsZero() const { return borrowed == Amount{0}; }
  bool IsInfinite() const { return weight_nanos == 0 && !IsZero(); }
};
bool Less(const Share& a, const Share& b);

class QuotaTree {
 public:
  // Everything anew. A cohort that is only named has no quota.
  void Build(const std::map<std::string, engine::ClusterQueue>& queues,
             const std::map<std::string, engine::Cohort>& cohorts);

  Fr Intern(const std::string& flavor, const std::string& resource);
  Fr FrOf(const std::string& flavor, const std::string& resource) const;  // REQUIRES: it was interned
  const std::pair<std::string, std::string>& NameOf(Fr fr) const { return names_[static_cast<size_t>(fr)]; }
  int frs() const { return static_cast<int>(names_.size()); }
  int size() const { return static_cast<int>(nodes_.size()); }
  const Node& node(int index) const { return nodes_[static_cast<size_t>(index)]; }
  int QueueOf(const std::string& name) const;  // -1: there is none
  int RootOf(int node) const;
  std::vector<int> QueuesBelow(int node) const;  // sorted by name

  Quota QuotaOf(int node, Fr fr) const;
  Amount Subtree(int node, Fr fr) const;
  Amount Local(int node, Fr fr) const;  // what its parent never sees of that
  Amount Potential(int node, Fr fr) const;
  int Height(int cohort) const;

 private:
  int AddNode(const std::string& name, bool is_queue);
  void AddQuotas(int node, const std::vector<engine::ResourceGroup>& groups);

  std::vector<Node> nodes_;
  std::map<std::string, int> queues_;
  std::map<std::string, int> cohorts_;
  std::map<std::pair<std::string, std::string>, Fr> frs_;
  std::vector<std::pair<std::string, std::string>> names_;
};

// How far up the tree something is borrowed, by the height of the cohort; and whether others of the tree are beyond it.
struct Level {
  int height = 0;
  bool may_reclaim = false;
};

class Usage {
 public:
  // REQUIRES: the tree outlives it.
  explicit Usage(const QuotaTree* tree) : tree_(tree), own_(static_cast<size_t>(tree->size())) {}

  void Add(int queue, const Amounts& amounts);
  void Remove(int queue, const Amounts& amounts);

  Amount Used(int node, Fr fr) const;
  Amount LocalAvailable(int node, Fr fr) const;
  Amount Available(int queue, Fr fr) const;
  bool Borrows(int node, Fr fr, Amount more) const;
  // It uses no more of each than it has, and is lent from below.
  bool WithinQuota(int node, const std::set<Fr>& frs) const;
  bool Fits(int queue, const Amounts& amounts) const;
  Level LevelOf(int queue, Fr fr, Amount more) const;
  Share ShareOf(int node) const;

 private:
  Amount AvailableAt(int node, Fr fr) const;  // may be negative

  const QuotaTree* tree_;
  std::vector<Amounts> own_;  // by node; of ClusterQueues
};

}  // namespace muster::cli::model
