// How much of what others would lend it a ClusterQueue or Cohort borrows: its weighted dominant resource share.
//
// A node borrows of a resource what it uses above its own subtree quota, summed over all flavors; what can be
// lent to it is what its parent could ever use of that resource. Its ratio is the greatest over all resources of
// borrowed / lendable, and its share that ratio divided by its weight. The root of a tree has no share: it
// borrows from nobody.
//
// Shares are fractions of integers and compared exactly; a decision never depends on rounding.
//
// Source: kueue_semantics 5.8.
// Threading: FairShare is a value; FairShares needs external synchronisation (with its ledger).
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "muster/quota/ledger.h"

namespace muster::quota {

class FairShare {
 public:
  // Borrows nothing.
  FairShare() = default;
  // REQUIRES: nothing is negative; lendable > 0. Weight in units of 1/1'000'000'000.
  FairShare(Amount borrowed, Amount lendable, int64_t weight_nanos);

  bool IsZero() const { return borrowed_ == 0; }
  // Of weight 0, and borrows: it is above everybody of another weight, and among its like the ratio decides.
  bool IsInfinite() const { return borrowed_ != 0 && weight_nanos_ == 0; }

  // Equivalent where the shares are the same fraction.
  friend std::weak_ordering operator<=>(const FairShare& a, const FairShare& b);
  friend bool operator==(const FairShare& a, const FairShare& b) { return std::is_eq(a <=> b); }

  // In thousandths as Kueue shows it in a status: rounded up; INT64_MAX if infinite.
  int64_t Rounded() const;
  uint64_t borrowed() const { return borrowed_; }
  uint64_t lendable() const { return lendable_; }
  uint64_t weight_nanos() const { return weight_nanos_; }

 private:
  uint64_t borrowed_ = 0;
  uint64_t lendable_ = 1;
  uint64_t weight_nanos_ = 1;
};

// The shares of the nodes of one tree.
class FairShares {
 public:
  using Usage = std::vector<std::pair<CellId, Amount>>;

  // REQUIRES: the ledger outlives it.
  explicit FairShares(const Ledger* ledger) : ledger_(ledger) {}

  // As if `extra` were used beside what the book says. REQUIRES: `extra` are cells of `node`, each once.
  FairShare Of(NodeId node, Book book, std::span<const std::pair<CellId, Amount>> extra = {});
  // What `usage`, if it came on top in a node's cells, would add to those of the node's parent; zeros too.
  // REQUIRES: the node has a parent.
  Usage Lift(std::span<const std::pair<CellId, Amount>> usage, Book book) const;
  // `usage` on top is above the node's own subtree quota, in some cell of it.
  bool Borrows(std::span<const std::pair<CellId, Amount>> usage, Book book) const;

 private:
  using ByResource = std::vector<std::pair<ResourceId, Amount>>;
  // What the children of a cohort may use at most; kept until limits change.
  struct Lendable {
    uint64_t version = 0;
    ByResource amounts;
  };

  const ByResource& LendableBy(NodeId cohort);

  const Ledger* ledger_;
  std::vector<Lendable> lendable_;  // by node
  ByResource borrowed_;             // of the node at hand
};

}  // namespace muster::quota
