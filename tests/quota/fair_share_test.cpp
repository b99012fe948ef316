// Weighted shares: amounts by hand, with the formulas of kueue_semantics 5.8.
#include "muster/quota/fair_share.h"

#include <catch2/catch.hpp>

namespace muster::quota {

namespace {

constexpr int64_t kOne = 1'000'000'000;  // a weight of 1
constexpr FlavorResource kCpuA{FlavorId{0}, ResourceId{0}};
constexpr FlavorResource kCpuB{FlavorId{1}, ResourceId{0}};
constexpr FlavorResource kGpu{FlavorId{0}, ResourceId{1}};

FairShare Share(int64_t borrowed, int64_t lendable, int64_t weight_nanos = kOne) {
  return {Amount{borrowed}, Amount{lendable}, weight_nanos};
}

struct Tree {
  Ledger ledger;
  FairShares shares{&ledger};

  NodeId Cohort(NodeId parent = kNoNode) { return ledger.AddNode(parent, Ledger::Kind::kCohort); }
  NodeId Queue(NodeId parent) { return ledger.AddNode(parent, Ledger::Kind::kClusterQueue); }
  void Quota(NodeId node, FlavorResource fr, int64_t nominal, std::optional<int64_t> lending = std::nullopt) {
    Limits limits;
    limits.nominal = Amount{nominal};
    if (lending.has_value()) limits.lending_limit = Amount{*lending};
    ledger.SetLimits(ledger.Cell(node, fr), limits);
  }
  void Use(NodeId node, FlavorResource fr, int64_t amount) { ledger.TakeBoth(ledger.Cell(node, fr), Amount{amount}); }
  int64_t Of(NodeId node) { return shares.Of(node, Book::kActual).Rounded(); }
};

}  // namespace

TEST_CASE("a share is what is borrowed of what can be lent, in thousandths, by weight") {
  CHECK(FairShare().Rounded() == 0);
  CHECK(Share(0, 10, 0).Rounded() == 0);
  CHECK(Share(2, 10).Rounded() == 200);
  CHECK(Share(2, 10, 2 * kOne).Rounded() == 100);
  CHECK(Share(2, 10, kOne / 2).Rounded() == 400);
  CHECK(Share(1, 9).Rounded() == 112);  // 111.1
  CHECK(Share(1, INT64_MAX).Rounded() == 1);
  CHECK(Share(INT64_MAX, 1, 1).Rounded() == INT64_MAX);
  CHECK(Share(2, 10, 0).Rounded() == INT64_MAX);
}

TEST_CASE("shares are compared as fractions, not as rounded numbers") {
  CHECK(Share(1, 3) == Share(2, 6));
  CHECK(Share(1, 3, 3 * kOne) == Share(1, 9));
  CHECK(Share(333, 1000) < Share(1, 3));
  // x/(x+1) and (x-1)/x differ by 1 in 2^124.
  constexpr int64_t kHuge = int64_t{1} << 62;
  CHECK(Share(kHuge - 1, kHuge) < Share(kHuge, kHuge + 1));
  CHECK(Share(kHuge - 1, kHuge, INT64_MAX) < Share(kHuge, kHuge + 1, INT64_MAX));
  CHECK(Share(1, INT64_MAX) < Share(2, INT64_MAX));
  CHECK(FairShare() < Share(1, INT64_MAX, INT64_MAX));
}

TEST_CASE("with weight 0 whoever borrows is above all others, and among its like the ratio decides") {
  CHECK(Share(0, 5, 0) == FairShare());
  CHECK(Share(1, 1000, 0) > Share(1000, 1, 1));
  CHECK(Share(1, 1000, 0) < Share(1, 999, 0));
  CHECK(Share(1, 1000, 0) == Share(2, 2000, 0));
}

TEST_CASE("a queue borrows what it uses above its own quota, of what its parent could ever use") {
  Tree tree;
  const NodeId cohort = tree.Cohort();
  const NodeId a = tree.Queue(cohort);
  const NodeId b = tree.Queue(cohort);
  tree.Quota(a, kCpuA, 6);
  tree.Quota(b, kCpuA, 4);
  CHECK(tree.Of(a) == 0);
  tree.Use(a, kCpuA, 6);
  CHECK(tree.Of(a) == 0);
  tree.Use(a, kCpuA, 2);
  CHECK(tree.Of(a) == 200);  // 2 of 10
  CHECK(tree.Of(b) == 0);
  CHECK(tree.Of(cohort) == 0);  // nobody is above it
  tree.ledger.SetWeight(a, kOne / 2);
  CHECK(tree.Of(a) == 400);
  tree.Quota(b, kCpuA, 14);
  CHECK(tree.Of(a) == 200);  // 2 of 20, by 1/2
}

TEST_CASE("flavors of one resource are added up, and the greatest of all resources counts") {
  Tree tree;
  const NodeId cohort = tree.Cohort();
  const NodeId a = tree.Queue(cohort);
  const NodeId b = tree.Queue(cohort);
  tree.Quota(a, kCpuA, 1);
  tree.Quota(a, kCpuB, 3);
  tree.Quota(b, kCpuA, 9);
  tree.Quota(b, kCpuB, 2);
  tree.Quota(b, kGpu, 4);
  tree.Use(a, kCpuA, 3);     // 2 borrowed; the 3 of the other flavor are unused, and make nothing good
  CHECK(tree.Of(a) == 134);  // 2 of 15
  tree.Use(a, kGpu, 1);
  CHECK(tree.Of(a) == 250);  // 1 of 4
}

TEST_CASE("what nobody could lend does not count") {
  Tree tree;
  const NodeId cohort = tree.Cohort();
  const NodeId a = tree.Queue(cohort);
  tree.Quota(a, kCpuA, 0);
  tree.Use(a, kCpuA, 5);  // held from when there was quota
  CHECK(tree.Of(a) == 0);
  tree.Quota(cohort, kGpu, 2);
  tree.Use(a, kGpu, 1);
  CHECK(tree.Of(a) == 500);
}

TEST_CASE("what could be lent is bounded by limits above, and unlimited amounts stay so") {
  Tree tree;
  const NodeId root = tree.Cohort();
  const NodeId left = tree.Cohort(root);
  const NodeId right = tree.Cohort(root);
  const NodeId a = tree.Queue(left);
  const NodeId b = tree.Queue(right);
  tree.Quota(a, kCpuA, 2);
  tree.Quota(b, kCpuA, 10, 6);  // lends 6 of its 10
  tree.Use(a, kCpuA, 4);
  CHECK(tree.Of(a) == 250);     // 2 of 8
  CHECK(tree.Of(left) == 250);  // 4 - 2, of 8 in the root
  Limits limits;
  limits.borrowing_limit = Amount{3};
  tree.ledger.SetLimits(tree.ledger.Cell(left, kCpuA), limits);
  CHECK(tree.Of(a) == 400);  // 2 of the 5 that `left` can use
  tree.Quota(b, kCpuA, INT64_MAX);
  CHECK(tree.Of(left) == 1);  // 2 of 2^63-1
}

TEST_CASE("what comes on top is counted at each level, less what a lending limit keeps") {
  Tree tree;
  const NodeId root = tree.Cohort();
  const NodeId left = tree.Cohort(root);
  const NodeId a = tree.Queue(left);
  tree.Quota(a, kCpuA, 5, 2);  // keeps 3 for itself
  tree.Quota(root, kCpuA, 8);
  tree.Use(a, kCpuA, 1);
  const CellId cell = tree.ledger.FindCell(a, kCpuA);
  const FairShares::Usage usage = {{cell, Amount{6}}};
  CHECK(tree.shares.Borrows(usage, Book::kActual));
  CHECK_FALSE(tree.shares.Borrows(FairShares::Usage{{cell, Amount{4}}}, Book::kActual));
  // 1 + 6 - 5 borrowed; `left` could use 2 + 8.
  CHECK(tree.shares.Of(a, Book::kActual, usage) == Share(2, 10));
  const FairShares::Usage lifted = tree.shares.Lift(usage, Book::kActual);
  REQUIRE(lifted.size() == 1);
  CHECK(lifted[0].first == tree.ledger.FindCell(left, kCpuA));
  CHECK(lifted[0].second == Amount{4});  // 2 of the 6 are still free of what it keeps
  CHECK(tree.shares.Of(left, Book::kActual, lifted) == Share(2, 10));
  CHECK(tree.shares.Lift(FairShares::Usage{{cell, Amount{2}}}, Book::kActual)[0].second == Amount{0});
}

}  // namespace muster::quota
