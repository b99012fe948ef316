// The ledger, which keeps sums up to date, against the formulas of kueue_semantics 5.1 worked out from
// scratch, on random trees and orders of changes.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <vector>

#include "muster/quota/ledger.h"

namespace muster::quota {

namespace {

constexpr FlavorResource kCpu{FlavorId{0}, ResourceId{0}};

// Small enough that nothing saturates; the ends of the range are in ledger_test.
struct ModelNode {
  NodeId parent = kNoNode;
  bool is_queue = false;
  int64_t nominal = 0;
  std::optional<int64_t> borrowing, lending;
  int64_t taken = 0;
};

struct Model {
  std::map<NodeId, ModelNode> nodes;

  int64_t Subtree(NodeId id) const {
    int64_t sum = nodes.at(id).nominal;
    for (const auto& [child, node] : nodes) {
      if (node.parent == id) sum += Subtree(child) - Local(child);
    }
    return sum;
  }
  int64_t Local(NodeId id) const {
    const auto& lending = nodes.at(id).lending;
    return lending.has_value() ? std::max<int64_t>(0, Subtree(id) - *lending) : 0;
  }
  int64_t Usage(NodeId id) const {
    if (nodes.at(id).is_queue) return nodes.at(id).taken;
    int64_t sum = 0;
    for (const auto& [child, node] : nodes) {
      if (node.parent == id) sum += std::max<int64_t>(0, Usage(child) - Local(child));
    }
    return sum;
  }
  int64_t LocalAvailable(NodeId id) const { return std::max<int64_t>(0, Local(id) - Usage(id)); }
  int64_t Available(NodeId id) const {
    const ModelNode& node = nodes.at(id);
    if (node.parent == kNoNode) return Subtree(id) - Usage(id);
    int64_t from_parent = Available(node.parent);
    if (node.borrowing.has_value()) {
      from_parent = std::min(from_parent,
                             (Subtree(id) - Local(id)) - std::max<int64_t>(0, Usage(id) - Local(id)) + *node.borrowing);
    }
    return LocalAvailable(id) + from_parent;
  }
  int64_t Potential(NodeId id) const {
    const ModelNode& node = nodes.at(id);
    if (node.parent == kNoNode) return Subtree(id);
    const int64_t all = Local(id) + Potential(node.parent);
    return node.borrowing.has_value() ? std::min(all, Subtree(id) + *node.borrowing) : all;
  }
  int32_t Height(NodeId id) const {
    int32_t height = 0;
    for (const auto& [child, node] : nodes) {
      if (node.parent == id) height = std::max(height, node.is_queue ? 1 : Height(child) + 1);
    }
    return height;
  }
  BorrowLevel Level(NodeId id, int64_t amount) const {
    NodeId at = nodes.at(id).parent;
    if (at == kNoNode) return {0, false};
    if (Usage(id) + amount <= Subtree(id)) return {0, true};
    int64_t remaining = amount - LocalAvailable(id);
    while (nodes.at(at).parent != kNoNode && Usage(at) + remaining > Subtree(at)) {
      remaining -= LocalAvailable(at);
      at = nodes.at(at).parent;
    }
    return {Height(at), nodes.at(at).parent != kNoNode};
  }
  bool HasChildren(NodeId id) const {
    return std::any_of(nodes.begin(), nodes.end(), [id](const auto& entry) { return entry.second.parent == id; });
  }
};

NodeId AnyNode(const Model& model, bool queue) {
  std::vector<NodeId> candidates;
  for (const auto& [id, node] : model.nodes) {
    if (node.is_queue == queue) candidates.push_back(id);
  }
  return candidates.empty() ? kNoNode : *rc::gen::elementOf(candidates);
}

std::optional<int64_t> AnyLimit() {
  if (*rc::gen::inRange(0, 2) == 0) return std::nullopt;
  return *rc::gen::inRange<int64_t>(0, 20);
}

void SetLimits(Ledger* ledger, Model* model, NodeId id) {
  ModelNode& node = model->nodes.at(id);
  node.nominal = *rc::gen::inRange<int64_t>(0, 20);
  node.borrowing = AnyLimit();
  node.lending = AnyLimit();
  Limits limits;
  limits.nominal = Amount{node.nominal};
  if (node.borrowing.has_value()) limits.borrowing_limit = Amount{*node.borrowing};
  if (node.lending.has_value()) limits.lending_limit = Amount{*node.lending};
  ledger->SetLimits(ledger->Cell(id, kCpu), limits);
}

void AddNode(Ledger* ledger, Model* model) {
  const bool queue = *rc::gen::inRange(0, 2) == 0;
  const NodeId parent = *rc::gen::inRange(0, 6) == 0 ? kNoNode : AnyNode(*model, false);
  const NodeId id = ledger->AddNode(parent, queue ? Ledger::Kind::kClusterQueue : Ledger::Kind::kCohort);
  ModelNode node;
  node.parent = parent;
  node.is_queue = queue;
  model->nodes[id] = node;
  SetLimits(ledger, model, id);
}

void ChangeUsage(Ledger* ledger, Model* model) {
  const NodeId id = AnyNode(*model, true);
  if (id == kNoNode) return;
  ModelNode& node = model->nodes.at(id);
  const CellId cell = ledger->Cell(id, kCpu);
  if (*rc::gen::inRange(0, 2) == 0) {
    const int64_t amount = *rc::gen::inRange<int64_t>(0, 30);  // more than fits at times, as claims that were found
    ledger->TakeBoth(cell, Amount{amount});
    node.taken += amount;
  } else {
    const int64_t amount = *rc::gen::inRange<int64_t>(0, node.taken + 1);
    ledger->ReleaseBoth(cell, Amount{amount});
    node.taken -= amount;
  }
}

void RemoveNode(Ledger* ledger, Model* model) {
  const NodeId id = AnyNode(*model, *rc::gen::inRange(0, 2) == 0);
  if (id == kNoNode || model->HasChildren(id)) return;
  if (model->nodes.at(id).is_queue) {
    ledger->ReleaseBoth(ledger->Cell(id, kCpu), Amount{model->nodes.at(id).taken});
  }
  ledger->RemoveNode(id);
  model->nodes.erase(id);
}

void Compare(const Ledger& ledger, const Model& model) {
  ledger.Validate();
  const int64_t amount = *rc::gen::inRange<int64_t>(0, 30);
  for (const auto& [id, node] : model.nodes) {
    const CellId cell = ledger.FindCell(id, kCpu);
    RC_ASSERT(cell != kNoCell);
    RC_ASSERT(ledger.SubtreeQuota(cell) == Amount{model.Subtree(id)});
    RC_ASSERT(ledger.Height(id) == model.Height(id));
    RC_ASSERT(ledger.PotentialAvailable(cell) == Amount{model.Potential(id)});
    const int64_t available = std::max<int64_t>(0, model.Available(id));
    for (const Book book : kBooks) {
      RC_ASSERT(ledger.Usage(cell, book) == Amount{model.Usage(id)});
      RC_ASSERT(ledger.Available(cell, book) == Amount{available});
    }
    RC_ASSERT(ledger.Fits(cell, Amount{amount}) == (amount <= available));
    if (!node.is_queue) continue;
    const BorrowLevel level = ledger.LevelOf(cell, Amount{amount}, Book::kActual);
    const BorrowLevel expected = model.Level(id, amount);
    RC_ASSERT(level.height == expected.height);
    RC_ASSERT(level.may_reclaim == expected.may_reclaim);
  }
}

}  // namespace

TEST_CASE("whatever changes in whatever order, the ledger has what the formulas say") {
  CHECK(rc::check([] {
    Ledger ledger;
    Model model;
    const int steps = *rc::gen::inRange(1, 40);
    for (int i = 0; i < steps; ++i) {
      switch (*rc::gen::inRange(0, 7)) {
        case 0:
        case 1:
          AddNode(&ledger, &model);
          break;
        case 2:
          if (const NodeId id = AnyNode(model, *rc::gen::inRange(0, 2) == 0); id != kNoNode) {
            SetLimits(&ledger, &model, id);
          }
          break;
        case 3:
          RemoveNode(&ledger, &model);
          break;
        default:
          ChangeUsage(&ledger, &model);
      }
      Compare(ledger, model);
    }
  }));
}

}  // namespace muster::quota
