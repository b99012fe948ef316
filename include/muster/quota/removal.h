// What would fit if some claims were gone: as much of a search for victims as needs amounts only.
//
// All of it is about the planned book, in which those that are leaving have left already: a search never asks for more
// than they leave open.
//
// Source: kueue_semantics 6.1, 6.2.
// Threading: needs external synchronisation with the ledger's owner.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "muster/quota/ledger.h"

namespace muster::quota {

// Amounts of cells of ClusterQueues, each cell once.
using CellAmounts = std::vector<std::pair<CellId, Amount>>;

// All of `request` fits in the planned book; without borrowing: within the own quota.
bool FitsPlanned(const Ledger& ledger, const CellAmounts& request, bool may_borrow);

// The node uses no more than it has and is lent from below, of each of these.
bool WithinQuota(const Ledger& ledger, NodeId node, const std::vector<FlavorResource>& of);

// What claims hold elsewhere, and comes and goes with them.
class Alongside {
 public:
  virtual ~Alongside() = default;
  // `index`: of the claim, in the order of Remove.
  virtual void Move(size_t index, bool out) = 0;
  // There is enough elsewhere, too.
  virtual bool Fits() = 0;
};

// Claims taken out of the planned book, one by one. At the end of the scope the book is as it was.
class Removal {
 public:
  // `alongside` may be null.
  explicit Removal(Ledger* ledger, Alongside* alongside = nullptr) : ledger_(ledger), alongside_(alongside) {}
  ~Removal();
  Removal(const Removal&) = delete;
  Removal& operator=(const Removal&) = delete;

  // REQUIRES: it is booked.
  void Remove(CellAmounts claim);
  // Puts back all of them.
  void Clear();
  // Once `request` fits: puts back those that need not be gone for it, from the second last to the first.
  // RETURNS: the numbers, in the order of Remove, of those that stay removed, in the order in which they are to go.
  std::vector<size_t> FillBack(const CellAmounts& request, bool may_borrow);
  // `request` fits, and what there has to be elsewhere.
  bool Fits(const CellAmounts& request, bool may_borrow) const {
    return FitsPlanned(*ledger_, request, may_borrow) && (alongside_ == nullptr || alongside_->Fits());
  }
  size_t size() const { return removed_.size(); }

 private:
  struct Entry {
    CellAmounts claim;
    bool out = true;
  };
  void Book(size_t index, bool out);

  Ledger* ledger_;
  Alongside* alongside_;
  std::vector<Entry> removed_;
};

}  // namespace muster::quota
