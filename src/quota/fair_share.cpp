#include "muster/quota/fair_share.h"

#include <algorithm>
#include <limits>

#include "muster/core/check.h"
#include "muster/core/product.h"

namespace muster::quota {

namespace {

constexpr uint64_t kPermille = 1000;
constexpr uint64_t kNanos = 1'000'000'000;

void AddTo(std::vector<std::pair<ResourceId, Amount>>* sums, ResourceId resource, Amount amount) {
  const auto it = std::find_if(sums->begin(), sums->end(), [&](const auto& entry) { return entry.first == resource; });
  if (it == sums->end()) {
    sums->emplace_back(resource, amount);
  } else {
    it->second += amount;
  }
}

Amount AmountOf(std::span<const std::pair<CellId, Amount>> usage, CellId cell) {
  for (const auto& [known, amount] : usage) {
    if (known == cell) return amount;
  }
  return {};
}

}  // namespace

FairShare::FairShare(Amount borrowed, Amount lendable, int64_t weight_nanos)
    : borrowed_(static_cast<uint64_t>(borrowed.value)),
      lendable_(static_cast<uint64_t>(lendable.value)),
      weight_nanos_(static_cast<uint64_t>(weight_nanos)) {
  MUSTER_CHECK(borrowed >= Amount{0} && lendable > Amount{0} && weight_nanos >= 0);
}

std::weak_ordering operator<=>(const FairShare& a, const FairShare& b) {
  if (a.IsInfinite() != b.IsInfinite()) {
    return a.IsInfinite() ? std::weak_ordering::greater : std::weak_ordering::less;
  }
  const uint64_t a_weight = a.IsInfinite() ? 1 : std::max<uint64_t>(a.weight_nanos_, 1);
  const uint64_t b_weight = b.IsInfinite() ? 1 : std::max<uint64_t>(b.weight_nanos_, 1);
  return Product(Wide{a.borrowed_} * b.lendable_, b_weight) <=> Product(Wide{b.borrowed_} * a.lendable_, a_weight);
}

int64_t FairShare::Rounded() const {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (IsInfinite()) return static_cast<int64_t>(kMost);
  if (IsZero()) return 0;
  const Wide above = Wide{borrowed_} * (kPermille * kNanos);
  const Wide below = Wide{lendable_} * weight_nanos_;
  const Wide share = (above + below - 1) / below;
  return static_cast<int64_t>(std::min<Wide>(share, kMost));
}

const FairShares::ByResource& FairShares::LendableBy(NodeId cohort) {
  if (cohort >= lendable_.size()) lendable_.resize(cohort + 1);
  Lendable& known = lendable_[cohort];
  if (known.version == ledger_->limits_version()) return known.amounts;
  known.version = ledger_->limits_version();
  known.amounts.clear();
  NodeId root = cohort;
  while (ledger_->Parent(root) != kNoNode) root = ledger_->Parent(root);
  for (const auto& [fr, cell] : ledger_->Cells(root)) {
    // A node without a cell of its own can use what its parent can.
    CellId nearest = kNoCell;
    for (NodeId at = cohort; nearest == kNoCell; at = ledger_->Parent(at)) nearest = ledger_->FindCell(at, fr);
    AddTo(&known.amounts, fr.resource, ledger_->PotentialAvailable(nearest));
  }
  return known.amounts;
}

FairShare FairShares::Of(NodeId node, Book book, std::span<const std::pair<CellId, Amount>> extra) {
  const NodeId parent = ledger_->Parent(node);
  if (parent == kNoNode) return {};
  borrowed_.clear();
  for (const auto& [fr, cell] : ledger_->Cells(node)) {
    const Amount used = ledger_->Usage(cell, book) + AmountOf(extra, cell);
    const Amount quota = ledger_->SubtreeQuota(cell);
    if (used > quota) AddTo(&borrowed_, fr.resource, used - quota);
  }
  if (borrowed_.empty()) return {};
  const int64_t weight = ledger_->Weight(node);
  FairShare most;
  for (const auto& [resource, lendable] : LendableBy(parent)) {
    if (lendable <= Amount{0}) continue;
    for (const auto& [candidate, borrowed] : borrowed_) {
      if (candidate == resource) most = std::max(most, FairShare(borrowed, lendable, weight));
    }
  }
  return most;
}

FairShares::Usage FairShares::Lift(std::span<const std::pair<CellId, Amount>> usage, Book book) const {
  Usage lifted;
  for (const auto& [cell, amount] : usage) {
    const Amount above = std::max(amount - ledger_->LocalAvailable(cell, book), Amount{0});
    lifted.emplace_back(ledger_->ParentCell(cell), above);
  }
  return lifted;
}

bool FairShares::Borrows(std::span<const std::pair<CellId, Amount>> usage, Book book) const {
  return std::any_of(usage.begin(), usage.end(),
                     [&](const auto& entry) { return ledger_->Borrows(entry.first, entry.second, book); });
}

}  // namespace muster::quota
