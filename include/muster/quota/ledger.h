// Who may use how much, and who uses it: the quotas and the usage of one tree of cohorts.
//
// A node is a ClusterQueue (a leaf) or a Cohort; a cell is one (flavor, resource) of a node. Usage is
// booked on the cells of ClusterQueues. What an ancestor is charged follows from what its children use
// beyond the quota that they do not lend; it is kept up to date on each change, in a number of steps equal
// to the depth of the tree, whatever the number of nodes.
//
// Two books are kept. The actual book has what is used. The planned book has what will be used once the
// evictions under way are done, and the workloads they make room for have started. A workload must fit in
// both.
//
// Source: kueue_semantics 5.1.
// Units: Amount's.
// Threading: needs external synchronisation (one writer, the tree's owner).
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "muster/core/amount.h"
#include "muster/quota/bound.h"
#include "muster/quota/exact_sum.h"
#include "muster/quota/flavor_resource.h"

namespace muster::quota {

enum class Book : uint8_t { kActual, kPlanned };
inline constexpr std::array<Book, 2> kBooks = {Book::kActual, Book::kPlanned};

struct Limits {
  Amount nominal;
  std::optional<Amount> borrowing_limit;  // above the node's own subtree quota; absent: no limit
  std::optional<Amount> lending_limit;    // of the subtree quota; absent: all may be lent
  friend bool operator==(const Limits&, const Limits&) = default;
};

using NodeId = uint32_t;
using CellId = uint32_t;
inline constexpr NodeId kNoNode = UINT32_MAX;
inline constexpr CellId kNoCell = UINT32_MAX;

// How far up the tree a request has to borrow.
struct BorrowLevel {
  // 0: within its own quota. Else the height of the smallest subtree that has room for it.
  int32_t height = 0;
  // That subtree is not the whole tree, so what others borrow from it could be claimed back.
  bool may_reclaim = false;
};

// Why an amount does not fit: the first limit in its way, from the ClusterQueue up.
struct Shortage {
  Bound bound = Bound::kQuota;
  NodeId node = kNoNode;  // whose limit it is; of quota and lending limits the root of the tree
  // kQuota: all quota of the tree that is lent to `node`, and its own. kBorrowingLimit: that limit.
  // kLendingLimit: what others keep for themselves by their lending limits (where usage counts: and do not use).
  Amount limit;
  Amount used;  // of the quota, or of the borrowing limit
};

class Ledger {
 public:
  enum class Kind : uint8_t { kClusterQueue, kCohort };

  // REQUIRES: `parent` is a cohort of this ledger, or kNoNode.
  NodeId AddNode(NodeId parent, Kind kind);
  // REQUIRES: it has no children and nothing is booked on it.
  void RemoveNode(NodeId node);

  // The cell, made together with those of all ancestors where it does not exist.
  CellId Cell(NodeId node, FlavorResource fr);
  // kNoCell where the node has none.
  CellId FindCell(NodeId node, FlavorResource fr) const;
  void SetLimits(CellId cell, const Limits& limits);
  const Limits& limits(CellId cell) const { return cells_[cell].limits; }
  // Grows whenever what could be used at all may have changed: with limits and with nodes. Never zero.
  uint64_t limits_version() const { return limits_version_; }
  // fairSharing.weight, in units of 1/1'000'000'000. REQUIRES: >= 0.
  void SetWeight(NodeId node, int64_t nanos) { nodes_[node].weight_nanos = nanos; }
  int64_t Weight(NodeId node) const { return nodes_[node].weight_nanos; }
  FlavorResource flavor_resource(CellId cell) const { return cells_[cell].fr; }

  // REQUIRES: a cell of a ClusterQueue; amount >= 0.
  void Take(CellId cell, Amount amount, Book book);
  // REQUIRES: as above, and it was taken.
  void Release(CellId cell, Amount amount, Book book);
  void TakeBoth(CellId cell, Amount amount);
  void ReleaseBoth(CellId cell, Amount amount);

  Amount SubtreeQuota(CellId cell) const { return cells_[cell].subtree.Value(); }
  Amount Usage(CellId cell, Book book) const { return UsageOf(cells_[cell], book); }
  // What could still be taken now, by borrowing too. Never negative.
  Amount Available(CellId cell, Book book) const;
  // What of that nobody else could take: quota that the node does not lend, and does not use.
  Amount LocalAvailable(CellId cell, Book book) const { return LocalAvailable(cells_[cell], book); }
  // What could be taken if nobody used anything.
  Amount PotentialAvailable(CellId cell) const;
  // `amount` more fits now, in both books.
  bool Fits(CellId cell, Amount amount) const;
  // REQUIRES: `amount` more does not fit.
  Shortage WhyNot(CellId cell, Amount amount) const;
  // Likewise, as if nobody used anything. REQUIRES: amount > PotentialAvailable(cell).
  Shortage WhyNever(CellId cell, Amount amount) const;
  // `amount` more is above the node's own quota.
  bool Borrows(CellId cell, Amount amount, Book book) const;
  BorrowLevel LevelOf(CellId cell, Amount amount, Book book) const;

  // 0 for a ClusterQueue and for a cohort without children; else one more than its highest child cohort.
  int32_t Height(NodeId node) const { return nodes_[node].height; }
  NodeId Parent(NodeId node) const { return nodes_[node].parent; }
  CellId ParentCell(CellId cell) const { return cells_[cell].parent; }  // kNoCell of a root's
  // In no order.
  const absl::flat_hash_map<FlavorResource, CellId>& Cells(NodeId node) const { return nodes_[node].cells; }
  void ForEachCell(NodeId node, const std::function<void(CellId)>& visit) const;

  // Recounts every cohort's cells and every height from the leaves, and aborts on any difference.
  void Validate() const;

 private:
  struct CellState {
    NodeId node = kNoNode;
    CellId parent = kNoCell;
    FlavorResource fr;
    Limits limits;
    ExactSum subtree;               // own nominal and what the children lend
    std::array<ExactSum, 2> usage;  // leaf: what was taken; cohort: what the children take from it
    // What all below keep for themselves by lending limits, and what of that is unused.
    ExactSum kept;
    std::array<ExactSum, 2> kept_free;
  };
  struct Node {
    NodeId parent = kNoNode;
    Kind kind = Kind::kClusterQueue;
    bool alive = false;
    int32_t height = 0;
    int64_t weight_nanos = 1'000'000'000;
    std::vector<NodeId> cohorts;  // children that are cohorts
    int64_t queues = 0;           // children that are ClusterQueues
    absl::flat_hash_map<FlavorResource, CellId> cells;
  };
  // What a cell adds to its parent's.
  struct Share {
    Amount lent;
    std::array<Amount, 2> used;
    Amount kept;
    std::array<Amount, 2> kept_free;
    friend bool operator==(const Share&, const Share&) = default;
  };

  static Amount UsageOf(const CellState& cell, Book book) { return cell.usage[static_cast<size_t>(book)].Value(); }
  static Amount LocalQuota(const CellState& cell);
  static Amount LocalAvailable(const CellState& cell, Book book);
  static Share ShareOf(const CellState& cell);
  // Adds `share` to the sums of a parent, or takes it out again.
  static void AddShare(const Share& share, CellState* parent);
  static void RemoveShare(const Share& share, CellState* parent);
  // Carries a change of `cell`, whose share was `before`, up to the root.
  void Propagate(CellId cell, Share before);
  void RecomputeHeights(NodeId from);
  void ValidateCell(CellId id, const CellState& expected) const;

  std::vector<Node> nodes_;
  std::vector<NodeId> free_nodes_;
  std::vector<CellState> cells_;
  std::vector<CellId> free_cells_;
  uint64_t limits_version_ = 1;
};

// Amounts taken for the length of a scope: what a pass assumes, and a search tries.
class ScopedTake {
 public:
  explicit ScopedTake(Ledger* ledger) : ledger_(ledger) {}
  ~ScopedTake();
  ScopedTake(const ScopedTake&) = delete;
  ScopedTake& operator=(const ScopedTake&) = delete;

  // Until the scope ends.
  void Take(CellId cell, Amount amount, Book book);

 private:
  struct Taken {
    CellId cell;
    Amount amount;
    Book book;
  };
  Ledger* ledger_;
  std::vector<Taken> taken_;
};

}  // namespace muster::quota
