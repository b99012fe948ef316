#include "muster/quota/ledger.h"

#include <algorithm>

#include "muster/core/check.h"

namespace muster::quota {

namespace {

constexpr size_t kActualIndex = static_cast<size_t>(Book::kActual);
constexpr size_t kPlannedIndex = static_cast<size_t>(Book::kPlanned);

// a − b where that is positive, else 0; unlimited − unlimited is 0 here: all of it is lent, or kept.
Amount Excess(Amount a, Amount b) { return a > b ? a - b : Amount{0}; }

}  // namespace

// ---- structure ----------------------------------------------------------------------------------

NodeId Ledger::AddNode(NodeId parent, Kind kind) {
  ++limits_version_;
  NodeId id = static_cast<NodeId>(nodes_.size());
  if (free_nodes_.empty()) {
    nodes_.emplace_back();
  } else {
    id = free_nodes_.back();
    free_nodes_.pop_back();
  }
  Node& node = nodes_[id];
  node = Node{};
  node.parent = parent;
  node.kind = kind;
  node.alive = true;
  if (parent != kNoNode) {
    MUSTER_CHECK(nodes_[parent].alive && nodes_[parent].kind == Kind::kCohort);
    if (kind == Kind::kCohort) {
      nodes_[parent].cohorts.push_back(id);
    } else {
      ++nodes_[parent].queues;
    }
    RecomputeHeights(parent);
  }
  return id;
}

void Ledger::RemoveNode(NodeId id) {
  ++limits_version_;
  Node& node = nodes_[id];
  MUSTER_CHECK(node.alive && node.cohorts.empty() && node.queues == 0);
  for (const auto& [fr, cell] : node.cells) {
    SetLimits(cell, {});
    MUSTER_CHECK(cells_[cell].usage[kActualIndex].IsZero() && cells_[cell].usage[kPlannedIndex].IsZero());
    cells_[cell] = CellState{};
    free_cells_.push_back(cell);
  }
  const NodeId parent = node.parent;
  const Kind kind = node.kind;
  node = Node{};
  free_nodes_.push_back(id);
  if (parent == kNoNode) return;
  if (kind == Kind::kCohort) {
    std::erase(nodes_[parent].cohorts, id);
  } else {
    --nodes_[parent].queues;
  }
  RecomputeHeights(parent);
}

void Ledger::RecomputeHeights(NodeId from) {
  for (NodeId id = from; id != kNoNode; id = nodes_[id].parent) {
    Node& node = nodes_[id];
    int32_t height = node.queues > 0 ? 1 : 0;
    for (const NodeId child : node.cohorts) height = std::max(height, nodes_[child].height + 1);
    if (height == node.height) return;
    node.height = height;
  }
}

CellId Ledger::Cell(NodeId node, FlavorResource fr) {
  CellId first = kNoCell;
  CellId below = kNoCell;
  for (NodeId at = node; at != kNoNode; at = nodes_[at].parent) {
    const auto it = nodes_[at].cells.find(fr);
    const bool exists = it != nodes_[at].cells.end();
    CellId id = exists ? it->second : kNoCell;
    if (!exists) {
      ++limits_version_;
      if (free_cells_.empty()) {
        id = static_cast<CellId>(cells_.size());
        cells_.emplace_back();
      } else {
        id = free_cells_.back();
        free_cells_.pop_back();
      }
      cells_[id].node = at;
      cells_[id].fr = fr;
      nodes_[at].cells.emplace(fr, id);
    }
    if (below != kNoCell) cells_[below].parent = id;
    if (first == kNoCell) first = id;
    if (exists) break;
    below = id;
  }
  return first;
}

CellId Ledger::FindCell(NodeId node, FlavorResource fr) const {
  const auto it = nodes_[node].cells.find(fr);
  return it == nodes_[node].cells.end() ? kNoCell : it->second;
}

void Ledger::ForEachCell(NodeId node, const std::function<void(CellId)>& visit) const {
  for (const auto& [fr, cell] : nodes_[node].cells) visit(cell);
}

// ---- amounts ------------------------------------------------------------------------------------

Amount Ledger::LocalQuota(const CellState& cell) {
  return cell.limits.lending_limit.has_value() ? Excess(cell.subtree.Value(), *cell.limits.lending_limit) : Amount{0};
}

Amount Ledger::LocalAvailable(const CellState& cell, Book book) {
  return Excess(LocalQuota(cell), UsageOf(cell, book));
}

Ledger::Share Ledger::ShareOf(const CellState& cell) {
  Share share;
  const Amount subtree = cell.subtree.Value();
  share.lent = cell.limits.lending_limit.has_value() ? std::min(subtree, *cell.limits.lending_limit) : subtree;
  const Amount local = LocalQuota(cell);
  share.kept = local + cell.kept.Value();
  for (const Book book : kBooks) {
    const auto i = static_cast<size_t>(book);
    share.used[i] = Excess(UsageOf(cell, book), local);
    share.kept_free[i] = Excess(local, UsageOf(cell, book)) + cell.kept_free[i].Value();
  }
  return share;
}

void Ledger::AddShare(const Share& share, CellState* parent) {
  parent->subtree.Add(share.lent);
  parent->kept.Add(share.kept);
  for (size_t i = 0; i < share.used.size(); ++i) {
    parent->usage[i].Add(share.used[i]);
    parent->kept_free[i].Add(share.kept_free[i]);
  }
}

void Ledger::RemoveShare(const Share& share, CellState* parent) {
  parent->subtree.Remove(share.lent);
  parent->kept.Remove(share.kept);
  for (size_t i = 0; i < share.used.size(); ++i) {
    parent->usage[i].Remove(share.used[i]);
    parent->kept_free[i].Remove(share.kept_free[i]);
  }
}

void Ledger::Propagate(CellId id, Share before) {
  while (cells_[id].parent != kNoCell) {
    const Share after = ShareOf(cells_[id]);
    if (before == after) return;
    const CellId parent_id = cells_[id].parent;
    CellState& parent = cells_[parent_id];
    const Share parent_before = ShareOf(parent);
    RemoveShare(before, &parent);
    AddShare(after, &parent);
    id = parent_id;
    before = parent_before;
  }
}

void Ledger::SetLimits(CellId id, const Limits& limits) {
  CellState& cell = cells_[id];
  if (cell.limits == limits) return;
  ++limits_version_;
  const Share before = ShareOf(cell);
  cell.subtree.Remove(cell.limits.nominal);
  cell.subtree.Add(limits.nominal);
  cell.limits = limits;
  Propagate(id, before);
}

void Ledger::Take(CellId id, Amount amount, Book book) {
  MUSTER_CHECK(amount >= Amount{0});
  const Share before = ShareOf(cells_[id]);
  cells_[id].usage[static_cast<size_t>(book)].Add(amount);
  Propagate(id, before);
}

void Ledger::Release(CellId id, Amount amount, Book book) {
  const Share before = ShareOf(cells_[id]);
  cells_[id].usage[static_cast<size_t>(book)].Remove(amount);
  MUSTER_CHECK(!cells_[id].usage[static_cast<size_t>(book)].IsNegative());
  Propagate(id, before);
}

void Ledger::TakeBoth(CellId cell, Amount amount) {
  for (const Book book : kBooks) Take(cell, amount, book);
}

void Ledger::ReleaseBoth(CellId cell, Amount amount) {
  for (const Book book : kBooks) Release(cell, amount, book);
}

// available(n) = localAvailable(n) + min(available(parent), borrowing bound of n), unrolled from the leaf up:
// `below` is what the nodes passed so far still have for themselves.
Amount Ledger::Available(CellId id, Book book) const {
  Amount below;
  Amount least = Amount::Unlimited();
  while (true) {
    const CellState& cell = cells_[id];
    if (cell.parent == kNoCell) {
      least = std::min(least, below + (cell.subtree.Value() - UsageOf(cell, book)));
      return std::max(least, Amount{0});
    }
    below += LocalAvailable(cell, book);
    if (cell.limits.borrowing_limit.has_value()) {
      const Share share = ShareOf(cell);
      least =
          std::min(least, below + (share.lent - share.used[static_cast<size_t>(book)] + *cell.limits.borrowing_limit));
    }
    id = cell.parent;
  }
}

Amount Ledger::PotentialAvailable(CellId id) const {
  Amount below;
  Amount least = Amount::Unlimited();
  while (true) {
    const CellState& cell = cells_[id];
    const Amount subtree = cell.subtree.Value();
    if (cell.parent == kNoCell) return std::min(least, below + subtree);
    if (cell.limits.borrowing_limit.has_value()) {
      least = std::min(least, below + subtree + *cell.limits.borrowing_limit);
    }
    below += LocalQuota(cell);
    id = cell.parent;
  }
}

bool Ledger::Fits(CellId cell, Amount amount) const {
  return amount <= Available(cell, Book::kActual) && amount <= Available(cell, Book::kPlanned);
}

Shortage Ledger::WhyNot(CellId id, Amount amount) const {
  const Book book = amount > Available(id, Book::kActual) ? Book::kActual : Book::kPlanned;
  const auto i = static_cast<size_t>(book);
  Amount own;  // unused by the nodes on the way, and theirs alone
  while (true) {
    const CellState& cell = cells_[id];
    const Amount rest = amount - own;
    if (cell.parent == kNoCell) {
      const Amount free = cell.subtree.Value() - UsageOf(cell, book);
      const Amount kept = cell.kept_free[i].Value() - own;
      if (kept > Amount{0} && rest - free <= kept) return {Bound::kLendingLimit, cell.node, kept, Amount{0}};
      return {Bound::kQuota, cell.node, cell.subtree.Value(), UsageOf(cell, book)};
    }
    own += LocalAvailable(cell, book);
    if (const std::optional<Amount>& limit = cell.limits.borrowing_limit; limit.has_value()) {
      const Share share = ShareOf(cell);
      if (amount - own > share.lent - share.used[i] + *limit) {
        return {Bound::kBorrowingLimit, cell.node, *limit, Excess(share.used[i], share.lent)};
      }
    }
    id = cell.parent;
  }
}

Shortage Ledger::WhyNever(CellId id, Amount amount) const {
  Amount own;
  while (true) {
    const CellState& cell = cells_[id];
    const Amount reach = own + cell.subtree.Value();
    if (cell.parent == kNoCell) {
      const Amount kept = cell.kept.Value() - own;
      if (kept > Amount{0} && amount - reach <= kept) return {Bound::kLendingLimit, cell.node, kept, Amount{0}};
      return {Bound::kQuota, cell.node, cell.subtree.Value(), Amount{0}};
    }
    if (const std::optional<Amount>& limit = cell.limits.borrowing_limit; limit.has_value()) {
      if (amount > reach + *limit) return {Bound::kBorrowingLimit, cell.node, *limit, Amount{0}};
    }
    own += LocalQuota(cell);
    id = cell.parent;
  }
}

bool Ledger::Borrows(CellId cell, Amount amount, Book book) const {
  return Usage(cell, book) + amount > SubtreeQuota(cell);
}

BorrowLevel Ledger::LevelOf(CellId id, Amount amount, Book book) const {
  const CellState& own = cells_[id];
  if (own.parent == kNoCell) return {0, false};
  if (!Borrows(id, amount, book)) return {0, true};
  Amount remaining = amount - LocalAvailable(own, book);
  CellId at = own.parent;
  while (true) {
    const CellState& cell = cells_[at];
    const int32_t height = nodes_[cell.node].height;
    if (cell.parent == kNoCell) return {height, false};
    if (!Borrows(at, remaining, book)) return {height, true};
    remaining -= LocalAvailable(cell, book);
    at = cell.parent;
  }
}

// ---- checks -------------------------------------------------------------------------------------

void Ledger::ValidateCell(CellId id, const CellState& expected) const {
  const CellState& cell = cells_[id];
  MUSTER_CHECK(cell.subtree == expected.subtree);
  MUSTER_CHECK(cell.usage == expected.usage);
  MUSTER_CHECK(cell.kept == expected.kept && cell.kept_free == expected.kept_free);
  for (const Book book : kBooks) MUSTER_CHECK(!cell.usage[static_cast<size_t>(book)].IsNegative());
}

void Ledger::Validate() const {
  // Sums of the children's shares, by parent cell.
  std::vector<CellState> sums(cells_.size());
  for (CellId id = 0; id < cells_.size(); ++id) {
    const CellState& cell = cells_[id];
    if (cell.node == kNoNode) continue;
    const Node& node = nodes_[cell.node];
    MUSTER_CHECK(node.alive && node.cells.at(cell.fr) == id);
    MUSTER_CHECK((cell.parent == kNoCell) == (node.parent == kNoNode));
    sums[id].subtree.Add(cell.limits.nominal);
    if (cell.parent == kNoCell) continue;
    MUSTER_CHECK(cells_[cell.parent].node == node.parent && cells_[cell.parent].fr == cell.fr);
    AddShare(ShareOf(cell), &sums[cell.parent]);
  }
  for (CellId id = 0; id < cells_.size(); ++id) {
    if (cells_[id].node == kNoNode) continue;
    // What a leaf uses is known to the owner of the claims only.
    if (nodes_[cells_[id].node].kind == Kind::kClusterQueue) sums[id].usage = cells_[id].usage;
    ValidateCell(id, sums[id]);
  }
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    const Node& node = nodes_[id];
    if (!node.alive) continue;
    int32_t height = node.queues > 0 ? 1 : 0;
    for (const NodeId child : node.cohorts) {
      MUSTER_CHECK(nodes_[child].alive && nodes_[child].parent == id);
      height = std::max(height, nodes_[child].height + 1);
    }
    MUSTER_CHECK(node.height == height);
  }
}

ScopedTake::~ScopedTake() {
  for (auto it = taken_.rbegin(); it != taken_.rend(); ++it) ledger_->Release(it->cell, it->amount, it->book);
}

void ScopedTake::Take(CellId cell, Amount amount, Book book) {
  ledger_->Take(cell, amount, book);
  taken_.push_back({cell, amount, book});
}

}  // namespace muster::quota
