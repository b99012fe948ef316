#include "muster/quota/removal.h"

#include <algorithm>
#include <numeric>

namespace muster::quota {

bool FitsPlanned(const Ledger& ledger, const CellAmounts& request, bool may_borrow) {
  return std::all_of(request.begin(), request.end(), [&](const auto& entry) {
    const auto& [cell, amount] = entry;
    return amount <= ledger.Available(cell, Book::kPlanned) &&
           (may_borrow || !ledger.Borrows(cell, amount, Book::kPlanned));
  });
}

bool WithinQuota(const Ledger& ledger, NodeId node, const std::vector<FlavorResource>& of) {
  return std::all_of(of.begin(), of.end(), [&](FlavorResource fr) {
    const CellId cell = ledger.FindCell(node, fr);
    return cell == kNoCell || ledger.Usage(cell, Book::kPlanned) <= ledger.SubtreeQuota(cell);
  });
}

Removal::~Removal() { Clear(); }

void Removal::Book(size_t index, bool out) {
  Entry* entry = &removed_[index];
  if (entry->out == out) return;
  if (alongside_ != nullptr) alongside_->Move(index, out);
  entry->out = out;
  for (const auto& [cell, amount] : entry->claim) {
    if (out) {
      ledger_->Release(cell, amount, Book::kPlanned);
    } else {
      ledger_->Take(cell, amount, Book::kPlanned);
    }
  }
}

void Removal::Remove(CellAmounts claim) {
  removed_.push_back({std::move(claim), false});
  Book(removed_.size() - 1, true);
}

void Removal::Clear() {
  for (size_t i = 0; i < removed_.size(); ++i) Book(i, false);
  removed_.clear();
}

std::vector<size_t> Removal::FillBack(const CellAmounts& request, bool may_borrow) {
  std::vector<size_t> targets(removed_.size());
  std::iota(targets.begin(), targets.end(), size_t{0});
  for (size_t i = targets.size(); i-- > 0;) {
    if (i + 1 == removed_.size()) continue;  // without the last one it did not fit
    Book(i, false);
    if (!Fits(request, may_borrow)) {
      Book(i, true);
      continue;
    }
    targets[i] = targets.back();
    targets.pop_back();
  }
  return targets;
}

}  // namespace muster::quota
