// Who may use how much: amounts by hand, with the formulas of kueue_semantics 5.1.
#include "muster/quota/ledger.h"

#include <catch2/catch.hpp>

namespace muster::quota {

namespace {

constexpr FlavorResource kCpu{FlavorId{0}, ResourceId{0}};
constexpr FlavorResource kGpu{FlavorId{0}, ResourceId{1}};

Limits Quota(int64_t nominal, std::optional<int64_t> borrowing = std::nullopt,
             std::optional<int64_t> lending = std::nullopt) {
  Limits limits;
  limits.nominal = Amount{nominal};
  if (borrowing.has_value()) limits.borrowing_limit = Amount{*borrowing};
  if (lending.has_value()) limits.lending_limit = Amount{*lending};
  return limits;
}

struct Tree {
  Ledger ledger;

  NodeId Cohort(NodeId parent = kNoNode) { return ledger.AddNode(parent, Ledger::Kind::kCohort); }
  CellId Queue(NodeId parent, const Limits& limits, FlavorResource fr = kCpu) {
    const CellId cell = ledger.Cell(ledger.AddNode(parent, Ledger::Kind::kClusterQueue), fr);
    ledger.SetLimits(cell, limits);
    return cell;
  }
  int64_t Free(CellId cell) const { return ledger.Available(cell, Book::kActual).value; }
  int64_t Most(CellId cell) const { return ledger.PotentialAvailable(cell).value; }
};

}  // namespace

TEST_CASE("a queue that stands alone has its nominal quota, whatever its limits") {
  Tree tree;
  const CellId q = tree.Queue(kNoNode, Quota(10, 5, 3));
  CHECK(tree.Free(q) == 10);
  CHECK(tree.Most(q) == 10);
  tree.ledger.TakeBoth(q, Amount{4});
  CHECK(tree.Free(q) == 6);
  CHECK(tree.ledger.Fits(q, Amount{6}));
  CHECK_FALSE(tree.ledger.Fits(q, Amount{7}));
  // Lowered below what is used: nothing new fits, and what is left is not negative.
  tree.ledger.SetLimits(q, Quota(1));
  CHECK(tree.Free(q) == 0);
  CHECK(tree.ledger.Usage(q, Book::kActual) == Amount{4});
  tree.ledger.ReleaseBoth(q, Amount{4});
  CHECK(tree.Free(q) == 1);
  tree.ledger.Validate();
}

TEST_CASE("in a flat cohort a queue borrows what others do not use, and no more") {
  Tree tree;
  const NodeId cohort = tree.Cohort();
  const CellId a = tree.Queue(cohort, Quota(10));
  const CellId b = tree.Queue(cohort, Quota(6));
  CHECK(tree.Free(a) == 16);
  tree.ledger.TakeBoth(a, Amount{12});  // 2 borrowed
  CHECK(tree.Free(b) == 4);
  CHECK(tree.Free(a) == 4);
  CHECK(tree.ledger.Borrows(a, Amount{0}, Book::kActual));
  CHECK_FALSE(tree.ledger.Borrows(b, Amount{6}, Book::kActual));
  tree.ledger.TakeBoth(b, Amount{4});
  CHECK(tree.Free(a) == 0);
  CHECK(tree.Free(b) == 0);
  tree.ledger.Validate();
}

TEST_CASE("a borrowing limit is of what is above the queue's own quota") {
  Tree tree;
  const NodeId cohort = tree.Cohort();
  const CellId a = tree.Queue(cohort, Quota(10, 3));
  tree.Queue(cohort, Quota(20));
  CHECK(tree.Free(a) == 13);
  CHECK(tree.Most(a) == 13);
  tree.ledger.TakeBoth(a, Amount{11});
  CHECK(tree.Free(a) == 2);
  tree.ledger.SetLimits(a, Quota(10, 0));
  CHECK(tree.Free(a) == 0);  // it is above already
  tree.ledger.SetLimits(a, Quota(10));
  CHECK(tree.Free(a) == 19);  // no limit at all: 30 less 11
}

TEST_CASE("a lending limit keeps the rest for the queue itself, used or not") {
  Tree tree;
  const NodeId cohort = tree.Cohort();
  const CellId lender = tree.Queue(cohort, Quota(10, std::nullopt, 4));
  const CellId other = tree.Queue(cohort, Quota(2));
  CHECK(tree.Free(other) == 6);             // 2 and the 4 that are lent
  CHECK(tree.Free(lender) == 12);           // 6 kept, 4 lent, 2 of the other
  tree.ledger.TakeBoth(lender, Amount{6});  // of what it keeps: nobody else has less
  CHECK(tree.Free(other) == 6);
  tree.ledger.TakeBoth(lender, Amount{3});
  CHECK(tree.Free(other) == 3);
  tree.ledger.TakeBoth(other, Amount{3});
  CHECK(tree.Free(lender) == 0);  // 1 of its own is lent away
  tree.ledger.Validate();
}

TEST_CASE("a limit below nominal and one above it lend the smaller of both") {
  Tree tree;
  const NodeId cohort = tree.Cohort();
  const CellId lender = tree.Queue(cohort, Quota(5, std::nullopt, 50));
  const CellId none = tree.Queue(cohort, Quota(5, std::nullopt, 0));
  const CellId other = tree.Queue(cohort, Quota(0));
  CHECK(tree.Free(other) == 5);
  CHECK(tree.Free(none) == 10);
  CHECK(tree.Free(lender) == 5);
}

// Root (own 2) over left (own 4, borrowing 3) and right (lending 5); two queues left, one right.
TEST_CASE("quota of cohorts adds up the tree, and limits hold at each level") {
  Tree tree;
  const NodeId root = tree.Cohort();
  const NodeId left = tree.Cohort(root);
  const NodeId right = tree.Cohort(root);
  const CellId a = tree.Queue(left, Quota(1));
  const CellId b = tree.Queue(left, Quota(3));
  const CellId c = tree.Queue(right, Quota(8));
  tree.ledger.SetLimits(tree.ledger.Cell(root, kCpu), Quota(2));
  tree.ledger.SetLimits(tree.ledger.Cell(left, kCpu), Quota(4, 3));
  tree.ledger.SetLimits(tree.ledger.Cell(right, kCpu), Quota(0, std::nullopt, 5));
  // left: 4+1+3 = 8, and 3 more may be borrowed of the root's 2+8+5 = 15.
  CHECK(tree.ledger.SubtreeQuota(tree.ledger.Cell(left, kCpu)) == Amount{8});
  CHECK(tree.ledger.SubtreeQuota(tree.ledger.Cell(root, kCpu)) == Amount{15});
  CHECK(tree.Most(a) == 11);
  CHECK(tree.Free(a) == 11);
  // right: 8, of which 3 are kept; with all of the root's: 3 + 15.
  CHECK(tree.Free(c) == 18);
  tree.ledger.TakeBoth(c, Amount{9});  // 3 of its own, 6 of the root's
  CHECK(tree.Free(a) == 9);            // 15 - 6
  tree.ledger.TakeBoth(b, Amount{9});
  CHECK(tree.Free(a) == 0);
  CHECK(tree.Free(c) == 0);
  tree.ledger.ReleaseBoth(c, Amount{9});
  CHECK(tree.Free(a) == 2);  // left may have 11
  CHECK(tree.Free(c) == 9);  // 3 kept, and 15 - 9
  tree.ledger.Validate();
}

TEST_CASE("how far up a request borrows is the height of the smallest subtree with room") {
  Tree tree;
  const NodeId root = tree.Cohort();
  const NodeId left = tree.Cohort(root);
  const NodeId right = tree.Cohort(root);
  const CellId a = tree.Queue(left, Quota(4));
  tree.Queue(left, Quota(4));
  tree.Queue(right, Quota(4));
  CHECK(tree.ledger.Height(left) == 1);
  CHECK(tree.ledger.Height(root) == 2);
  const auto level = [&](int64_t amount) { return tree.ledger.LevelOf(a, Amount{amount}, Book::kActual); };
  CHECK(level(4).height == 0);
  CHECK(level(4).may_reclaim);
  CHECK(level(8).height == 1);
  CHECK(level(8).may_reclaim);
  CHECK(level(9).height == 2);
  CHECK_FALSE(level(9).may_reclaim);
  const CellId alone = tree.Queue(kNoNode, Quota(1));
  CHECK(tree.ledger.LevelOf(alone, Amount{5}, Book::kActual).height == 0);
  CHECK_FALSE(tree.ledger.LevelOf(alone, Amount{5}, Book::kActual).may_reclaim);
}

TEST_CASE("heights follow when nodes come and go") {
  Tree tree;
  const NodeId root = tree.Cohort();
  CHECK(tree.ledger.Height(root) == 0);
  const NodeId below = tree.Cohort(root);
  const NodeId queue = tree.ledger.AddNode(below, Ledger::Kind::kClusterQueue);
  CHECK(tree.ledger.Height(root) == 2);
  tree.ledger.RemoveNode(queue);
  CHECK(tree.ledger.Height(below) == 0);
  CHECK(tree.ledger.Height(root) == 1);
  tree.ledger.RemoveNode(below);
  CHECK(tree.ledger.Height(root) == 0);
  tree.ledger.Validate();
}

TEST_CASE("a node that goes takes its quota out of all above it") {
  Tree tree;
  const NodeId root = tree.Cohort();
  const NodeId child = tree.Cohort(root);
  tree.ledger.SetLimits(tree.ledger.Cell(child, kCpu), Quota(6));
  const CellId a = tree.Queue(root, Quota(2));
  CHECK(tree.Free(a) == 8);
  tree.ledger.RemoveNode(child);
  CHECK(tree.Free(a) == 2);
  CHECK(tree.Most(a) == 2);
  tree.ledger.Validate();
}

TEST_CASE("unlimited quota is unlimited for as long as it is there, and not after") {
  Tree tree;
  const NodeId cohort = tree.Cohort();
  const CellId a = tree.Queue(cohort, Quota(1));
  const CellId b = tree.Queue(cohort, {Amount::Unlimited(), std::nullopt, std::nullopt});
  CHECK(tree.ledger.Available(a, Book::kActual) == Amount::Unlimited());
  tree.ledger.TakeBoth(a, Amount{1'000'000});
  CHECK(tree.ledger.Available(a, Book::kActual) == Amount::Unlimited());
  tree.ledger.SetLimits(b, Quota(2));
  CHECK(tree.Free(a) == 0);
  tree.ledger.ReleaseBoth(a, Amount{1'000'000});
  CHECK(tree.Free(a) == 3);
  tree.ledger.Validate();
}

TEST_CASE("sums beyond 64 bits saturate, and come back when parts are taken out") {
  Tree tree;
  const NodeId cohort = tree.Cohort();
  const Amount huge{INT64_MAX - 1};
  const CellId a = tree.Queue(cohort, {huge, std::nullopt, std::nullopt});
  const CellId b = tree.Queue(cohort, {huge, std::nullopt, std::nullopt});
  CHECK(tree.Most(a) == INT64_MAX);
  tree.ledger.SetLimits(b, Quota(0));
  CHECK(tree.ledger.PotentialAvailable(a) == huge);
  CHECK(tree.ledger.PotentialAvailable(b) == huge);
  tree.ledger.Validate();
}

TEST_CASE("resources of one queue share nothing") {
  Tree tree;
  const NodeId cohort = tree.Cohort();
  const NodeId queue = tree.ledger.AddNode(cohort, Ledger::Kind::kClusterQueue);
  const CellId cpu = tree.ledger.Cell(queue, kCpu);
  const CellId gpu = tree.ledger.Cell(queue, kGpu);
  tree.ledger.SetLimits(cpu, Quota(4));
  tree.ledger.SetLimits(gpu, Quota(2));
  tree.ledger.TakeBoth(cpu, Amount{4});
  CHECK(tree.Free(gpu) == 2);
  CHECK(tree.ledger.FindCell(queue, {FlavorId{9}, ResourceId{0}}) == kNoCell);
  tree.ledger.ReleaseBoth(cpu, Amount{4});
}

TEST_CASE("what does not fit in one of the two books does not fit") {
  Tree tree;
  const CellId q = tree.Queue(kNoNode, Quota(10));
  tree.ledger.Take(q, Amount{6}, Book::kActual);
  tree.ledger.Take(q, Amount{8}, Book::kPlanned);
  CHECK(tree.ledger.Fits(q, Amount{2}));
  CHECK_FALSE(tree.ledger.Fits(q, Amount{3}));
  tree.ledger.Release(q, Amount{8}, Book::kPlanned);
  CHECK(tree.ledger.Fits(q, Amount{4}));
  CHECK_FALSE(tree.ledger.Fits(q, Amount{5}));
  tree.ledger.Release(q, Amount{6}, Book::kActual);
}

TEST_CASE("what a scope takes is there again when it ends") {
  Tree tree;
  const CellId q = tree.Queue(kNoNode, Quota(10));
  {
    ScopedTake scope(&tree.ledger);
    for (const Book book : kBooks) scope.Take(q, Amount{4}, book);
    scope.Take(q, Amount{5}, Book::kPlanned);
    CHECK(tree.ledger.Available(q, Book::kActual) == Amount{6});
    CHECK(tree.ledger.Available(q, Book::kPlanned) == Amount{1});
  }
  CHECK(tree.ledger.Available(q, Book::kPlanned) == Amount{10});
  CHECK(tree.Free(q) == 10);
}

TEST_CASE("a summand that was unlimited leaves the others as they were") {
  ExactSum sum;
  sum.Add(Amount{5});
  sum.Add(Amount::Unlimited());
  CHECK(sum.Value() == Amount::Unlimited());
  sum.Add(Amount{INT64_MAX - 1});
  sum.Add(Amount{INT64_MAX - 1});
  sum.Remove(Amount::Unlimited());
  CHECK(sum.Value() == Amount::Unlimited());  // by its size
  sum.Remove(Amount{INT64_MAX - 1});
  sum.Remove(Amount{INT64_MAX - 1});
  CHECK(sum.Value() == Amount{5});
  sum.Remove(Amount{5});
  CHECK(sum.IsZero());
  sum.Remove(Amount{1});
  CHECK(sum.IsNegative());
}

// By hand: root has 4 + 1 lent of 5; `own` uses 3 of its 4.
TEST_CASE("what does not fit is told by the first limit in its way, in either book") {
  Tree tree;
  const NodeId root = tree.Cohort();
  const CellId own = tree.Queue(root, Quota(4));
  const CellId other = tree.Queue(root, Quota(5, std::nullopt, 1));  // keeps 4
  const NodeId root_node = root;
  tree.ledger.TakeBoth(own, Amount{3});
  const auto why_not = [&](CellId cell, int64_t amount) {
    REQUIRE_FALSE(tree.ledger.Fits(cell, Amount{amount}));
    return tree.ledger.WhyNot(cell, Amount{amount});
  };
  // 2 are free in the root; 4 more would be, if all were lent.
  Shortage shortage = why_not(own, 3);
  CHECK(shortage.bound == Bound::kLendingLimit);
  CHECK((shortage.node == root_node && shortage.limit == Amount{4}));
  CHECK(why_not(own, 6).bound == Bound::kLendingLimit);
  shortage = why_not(own, 7);
  CHECK(shortage.bound == Bound::kQuota);
  CHECK((shortage.node == root_node && shortage.limit == Amount{5} && shortage.used == Amount{3}));
  // What it keeps for itself is its own, and helps it before all else: 4 + 2 are free for it.
  CHECK(tree.ledger.Fits(other, Amount{6}));
  CHECK(why_not(other, 7).bound == Bound::kQuota);
  // In the planned book alone.
  tree.ledger.Take(own, Amount{2}, Book::kPlanned);
  CHECK(why_not(own, 1).bound == Bound::kLendingLimit);
  tree.ledger.TakeBoth(other, Amount{4});
  shortage = why_not(own, 1);
  CHECK(shortage.bound == Bound::kQuota);
  CHECK(shortage.used == Amount{5});
  tree.ledger.Validate();
}

TEST_CASE("a borrowing limit is told by how much was borrowed, before anything above it") {
  Tree tree;
  const NodeId root = tree.Cohort();
  const NodeId inner = tree.Cohort(root);
  const CellId queue = tree.Queue(inner, Quota(2, 3));
  tree.Queue(root, Quota(10));
  tree.ledger.SetLimits(tree.ledger.Cell(inner, kCpu), Quota(0, 1));
  tree.ledger.TakeBoth(queue, Amount{3});
  Shortage shortage = tree.ledger.WhyNot(queue, Amount{1});
  CHECK(shortage.bound == Bound::kBorrowingLimit);
  CHECK((shortage.node == inner && shortage.limit == Amount{1} && shortage.used == Amount{1}));
  shortage = tree.ledger.WhyNot(queue, Amount{3});
  CHECK((shortage.bound == Bound::kBorrowingLimit && shortage.limit == Amount{3} && shortage.used == Amount{1}));
  CHECK(shortage.node != inner);
  CHECK(tree.ledger.WhyNever(queue, Amount{4}).node == inner);  // 2 + 1
  CHECK(tree.ledger.WhyNever(queue, Amount{6}).limit == Amount{3});
}

TEST_CASE("what can never fit is told by quota, or by what others do not lend") {
  Tree tree;
  const NodeId root = tree.Cohort();
  const CellId own = tree.Queue(root, Quota(4));
  const CellId other = tree.Queue(root, Quota(5, std::nullopt, 1));
  CHECK(tree.ledger.WhyNever(own, Amount{9}).bound == Bound::kLendingLimit);
  CHECK(tree.ledger.WhyNever(own, Amount{10}).bound == Bound::kQuota);
  CHECK(tree.ledger.WhyNever(own, Amount{10}).limit == Amount{5});
  CHECK(tree.ledger.WhyNever(other, Amount{10}).bound == Bound::kQuota);
  const CellId alone = tree.Queue(kNoNode, Quota(2, 1, 1));
  CHECK(tree.ledger.WhyNever(alone, Amount{3}).bound == Bound::kQuota);
  // All but one is lent.
  tree.ledger.SetLimits(other, Quota(5, std::nullopt, 4));
  CHECK(tree.ledger.WhyNever(own, Amount{9}).bound == Bound::kLendingLimit);
  CHECK(tree.ledger.WhyNever(own, Amount{9}).limit == Amount{1});
  // Unlimited quota that is not lent.
  tree.ledger.SetLimits(other, Limits{Amount::Unlimited(), std::nullopt, Amount{1}});
  CHECK(tree.ledger.WhyNever(own, Amount{1'000'000}).bound == Bound::kLendingLimit);
  tree.ledger.Validate();
}

}  // namespace muster::quota
