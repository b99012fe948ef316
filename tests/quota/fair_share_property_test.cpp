// Shares against the formulas of kueue_semantics 5.8 worked out from scratch, and their order against one of exact
// fractions, on random trees.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "muster/quota/fair_share.h"

namespace muster::quota {

namespace {

// Small numbers: products of six of them fit.
struct Fraction {
  int64_t above = 0;
  int64_t below = 1;  // 0: infinite
  bool operator<(const Fraction& other) const { return above * other.below < other.above * below; }
};

struct Cell {
  int64_t nominal = 0;
  int64_t lending = 1000;  // more than there is
  int64_t used = 0;        // of a queue
};

struct Node {
  NodeId parent = kNoNode;
  int64_t weight = 1;
  std::map<FlavorResource, Cell> cells;
};

constexpr FlavorResource Fr(uint32_t flavor, uint32_t resource) { return {FlavorId{flavor}, ResourceId{resource}}; }
const std::vector<FlavorResource> kAll = {Fr(0, 0), Fr(1, 0), Fr(0, 1), Fr(1, 1)};

struct Model {
  std::map<NodeId, Node> nodes;

  std::vector<NodeId> Children(NodeId id) const {
    std::vector<NodeId> children;
    for (const auto& [child, node] : nodes) {
      if (node.parent == id) children.push_back(child);
    }
    return children;
  }
  const Cell& At(NodeId id, FlavorResource fr) const {
    static const Cell kNone;
    const auto& cells = nodes.at(id).cells;
    const auto it = cells.find(fr);
    return it == cells.end() ? kNone : it->second;
  }
  int64_t Subtree(NodeId id, FlavorResource fr) const {
    int64_t sum = At(id, fr).nominal;
    for (const NodeId child : Children(id)) sum += Subtree(child, fr) - Local(child, fr);
    return sum;
  }
  int64_t Local(NodeId id, FlavorResource fr) const {
    return std::max<int64_t>(0, Subtree(id, fr) - At(id, fr).lending);
  }
  int64_t Usage(NodeId id, FlavorResource fr) const {
    int64_t sum = At(id, fr).used;
    for (const NodeId child : Children(id)) sum += std::max<int64_t>(0, Usage(child, fr) - Local(child, fr));
    return sum;
  }
  int64_t Potential(NodeId id, FlavorResource fr) const {
    const NodeId parent = nodes.at(id).parent;
    return parent == kNoNode ? Subtree(id, fr) : Local(id, fr) + Potential(parent, fr);
  }
  // Times 1000, before the weight.
  Fraction Ratio(NodeId id) const {
    Fraction most;
    const NodeId parent = nodes.at(id).parent;
    if (parent == kNoNode) return most;
    for (const uint32_t resource : {0u, 1u}) {
      int64_t borrowed = 0;
      int64_t lendable = 0;
      for (const uint32_t flavor : {0u, 1u}) {
        const FlavorResource fr = Fr(flavor, resource);
        borrowed += std::max<int64_t>(0, Usage(id, fr) - Subtree(id, fr));
        lendable += Potential(parent, fr);
      }
      const Fraction ratio{1000 * borrowed, lendable};
      if (lendable > 0 && most < ratio) most = ratio;
    }
    return most;
  }
  int64_t Rounded(NodeId id) const {
    const Fraction ratio = Ratio(id);
    if (ratio.above == 0) return 0;
    const int64_t below = ratio.below * nodes.at(id).weight;
    return below == 0 ? INT64_MAX : (ratio.above + below - 1) / below;
  }
  bool Less(NodeId a, NodeId b) const {
    Fraction x = Ratio(a);
    Fraction y = Ratio(b);
    const bool x_infinite = x.above > 0 && nodes.at(a).weight == 0;
    const bool y_infinite = y.above > 0 && nodes.at(b).weight == 0;
    if (x_infinite != y_infinite) return y_infinite;
    if (!x_infinite && x.above > 0) x.below *= nodes.at(a).weight;
    if (!y_infinite && y.above > 0) y.below *= nodes.at(b).weight;
    return x < y;
  }
};

void Grow(Ledger* ledger, Model* model) {
  const int count = *rc::gen::inRange(2, 9);
  std::vector<NodeId> cohorts;
  for (int i = 0; i < count; ++i) {
    const bool queue = i > 0 && *rc::gen::inRange(0, 3) > 0;
    const NodeId parent = i == 0 ? kNoNode : *rc::gen::elementOf(cohorts);
    const NodeId id = ledger->AddNode(parent, queue ? Ledger::Kind::kClusterQueue : Ledger::Kind::kCohort);
    if (!queue) cohorts.push_back(id);
    Node& node = model->nodes[id];
    node.parent = parent;
    node.weight = *rc::gen::inRange<int64_t>(0, 4);
    ledger->SetWeight(id, node.weight * 1'000'000'000);
    for (const FlavorResource fr : kAll) {
      if (*rc::gen::inRange(0, 3) == 0) continue;  // not every node has every cell
      Cell& cell = node.cells[fr];
      cell.nominal = *rc::gen::inRange<int64_t>(0, 10);
      Limits limits;
      limits.nominal = Amount{cell.nominal};
      if (*rc::gen::inRange(0, 2) == 0) {
        cell.lending = *rc::gen::inRange<int64_t>(0, 10);
        limits.lending_limit = Amount{cell.lending};
      }
      ledger->SetLimits(ledger->Cell(id, fr), limits);
      if (!queue) continue;
      cell.used = *rc::gen::inRange<int64_t>(0, 20);
      ledger->TakeBoth(ledger->Cell(id, fr), Amount{cell.used});
    }
  }
}

void Compare(FairShares* shares, const Model& model) {
  for (const auto& [a, node] : model.nodes) {
    const FairShare share = shares->Of(a, Book::kActual);
    RC_ASSERT(share.Rounded() == model.Rounded(a));
    for (const auto& [b, other] : model.nodes) {
      const FairShare against = shares->Of(b, Book::kActual);
      RC_ASSERT((share < against) == model.Less(a, b));
      RC_ASSERT((share == against) == (!model.Less(a, b) && !model.Less(b, a)));
    }
  }
}

}  // namespace

TEST_CASE("in any tree shares are what the formulas say, also after limits have changed") {
  CHECK(rc::check([] {
    Ledger ledger;
    FairShares shares(&ledger);
    Model model;
    Grow(&ledger, &model);
    Compare(&shares, model);
    for (auto& [id, node] : model.nodes) {
      for (auto& [fr, cell] : node.cells) {
        cell.nominal = *rc::gen::inRange<int64_t>(0, 10);
        cell.lending = 1000;
        ledger.SetLimits(ledger.Cell(id, fr), Limits{Amount{cell.nominal}, std::nullopt, std::nullopt});
      }
    }
    Compare(&shares, model);
  }));
}

TEST_CASE("usage on top gives the share that it would have once it is taken") {
  CHECK(rc::check([] {
    Ledger ledger;
    FairShares shares(&ledger);
    Model model;
    Grow(&ledger, &model);
    for (const auto& [id, node] : model.nodes) {
      if (!model.Children(id).empty() || ledger.Height(id) > 0 || node.cells.empty()) continue;
      FairShares::Usage usage;
      for (const auto& [fr, cell] : node.cells) {
        usage.emplace_back(ledger.Cell(id, fr), Amount{*rc::gen::inRange<int64_t>(0, 10)});
      }
      std::vector<FairShare> expected;
      {
        ScopedTake taken(&ledger);
        for (const auto& [cell, amount] : usage) taken.Take(cell, amount, Book::kActual);
        for (NodeId at = id; at != kNoNode; at = ledger.Parent(at)) expected.push_back(shares.Of(at, Book::kActual));
      }
      size_t level = 0;
      for (NodeId at = id; at != kNoNode; at = ledger.Parent(at)) {
        RC_ASSERT(shares.Of(at, Book::kActual, usage) == expected[level++]);
        if (ledger.Parent(at) != kNoNode) usage = shares.Lift(usage, Book::kActual);
      }
    }
  }));
}

}  // namespace muster::quota
