// What each operation does to the book, one at a time. Expected amounts are counted by hand.

#include <catch2/catch.hpp>

#include "muster/gang/machine_book.h"
#include "workload.h"

namespace muster::gang {
namespace {

struct Fixture {
  MachineBook book;
  MachineBook::User user{&book};

  explicit Fixture(std::vector<MachineEdit> edits) { user.Edit(edits); }
  int64_t Free(uint32_t machine) { return user.Read().Room(Book::kFree, {machine}, kGpu); }
  int64_t Planned(uint32_t machine) { return user.Read().Room(Book::kPlanned, {machine}, kGpu); }
  bool Sums() { return Recount(user.Read()); }
};

TEST_CASE("A gang takes what its pods need, in both books, and gives it back") {
  Fixture f({PutMachine(0, 4), PutMachine(1, 8), PutMachine(2, 3)});
  Claim claim;
  // 4 / 2 + 8 / 2 + 3 / 2 = 7 pods of 2 GPUs.
  const Outcome outcome = f.user.Place(Gang(7, 2), &claim);
  CHECK(outcome.done());
  CHECK(outcome.placed == 7);
  CHECK(claim.held == Book::kBoth);
  CHECK(f.Free(0) == 0);
  CHECK(f.Free(1) == 0);
  CHECK(f.Free(2) == 1);
  CHECK(f.Planned(2) == 1);
  CHECK(f.user.Read().Room(Book::kFree, {1}, kPodSlots) == 6);
  CHECK(f.Sums());
  const uint64_t before = f.user.Read().version;
  CHECK(f.user.Release(&claim).version == before + 1);
  CHECK(claim.held == Book::kNone);
  CHECK(f.Free(0) == 4);
  CHECK(f.Free(1) == 8);
  CHECK(f.Free(2) == 3);
  CHECK(f.Sums());
}

TEST_CASE("A gang that does not fit whole takes nothing, and the book stays the same version") {
  Fixture f({PutMachine(0, 4), PutMachine(1, 8), PutMachine(2, 3)});
  const uint64_t before = f.user.Read().version;
  Claim claim;
  const Outcome outcome = f.user.Place(Gang(8, 2), &claim);
  CHECK(outcome.verdict == Outcome::Verdict::kDoesNotFit);
  CHECK(outcome.placed == 7);
  CHECK(outcome.version == before);
  CHECK(claim.held == Book::kNone);
  CHECK(f.user.Read().version == before);
  CHECK(f.user.counts().commits == 1);  // the machines
}

TEST_CASE("The sum fits but no machine does: the reason has the largest free block and where it is") {
  Fixture f({PutMachine(0, 4), PutMachine(1, 4), PutMachine(2, 6, 10, 1)});
  Claim claim;
  CHECK(f.user.Place(Gang(1, 8), &claim).placed == 0);
  const Missing missing = WhatIsMissing(f.user.Read(), Gang(1, 8).pod_sets[0], Book::kBoth);
  CHECK(missing.admitted == 3);
  CHECK(missing.with_place == 0);
  CHECK(missing.pods == 0);
  REQUIRE(missing.shortages.size() == 2);
  CHECK(missing.shortages[0].resource == kPodSlots);
  CHECK(missing.shortages[0].machines_without == 0);
  CHECK(missing.shortages[1].largest == 6);
  CHECK(missing.shortages[1].largest_on == MachineIndex{2});
  CHECK(missing.shortages[1].needed == 8);
  CHECK(missing.shortages[1].total == 14);
  CHECK(missing.shortages[1].machines_without == 3);
  // Of class 0 alone the largest is 4.
  const Missing of_class =
      WhatIsMissing(f.user.Read(), Gang(3, 3, Book::kBoth, ClassFilter({MachineClass{0}})).pod_sets[0], Book::kBoth);
  CHECK(of_class.admitted == 2);
  CHECK(of_class.pods == 2);
  CHECK(of_class.shortages[1].largest == 4);
}

TEST_CASE("Pod slots, classes and cordons count") {
  Fixture f({PutMachine(0, 8, 2), PutMachine(1, 8, 3, 1), PutMachine(2, 8, 10, 2, false)});
  Claim claim;
  CHECK(f.user.Place(Gang(6, 1), &claim).placed == 5);
  CHECK(f.user.Place(Gang(3, 1, Book::kBoth, ClassFilter({MachineClass{0}})), &claim).placed == 2);
  CHECK(f.user.Place(Gang(1, 1, Book::kBoth, ClassFilter({MachineClass{2}})), &claim).placed == 0);
  // Class 65 has the bit of class 1 in the chunk's summary, and is still not class 1.
  CHECK(f.user.Place(Gang(1, 1, Book::kBoth, ClassFilter({MachineClass{65}})), &claim).placed == 0);
  f.user.Edit(std::vector{PutMachine(2, 8, 10, 2, true)});
  CHECK(f.user.Place(Gang(8, 1, Book::kBoth, ClassFilter({MachineClass{2}})), &claim).done());
}

TEST_CASE("A placement found elsewhere is reserved whole or not at all") {
  Fixture f({PutMachine(0, 4), PutMachine(1, 4)});
  const BookSnapshot& book = f.user.Read();
  const Needs two = PodNeeds({{kGpu, 2}});
  const GangPlacement placement = {{two, {book.PlaceOn({0}, 1), book.PlaceOn({1}, 2)}},
                               {PodNeeds({{kGpu, 1}}), {book.PlaceOn({0}, 2)}}};
  Claim claim;
  CHECK(f.user.Reserve(placement, Book::kBoth, &claim).done());
  CHECK(f.Free(0) == 0);
  CHECK(f.Free(1) == 0);
  Claim other;
  CHECK(f.user.Reserve(placement, Book::kBoth, &other).verdict == Outcome::Verdict::kConflict);
  f.user.Release(&claim);
  // One GPU less on machine 1: the first place would still fit, the second does not, so neither is taken.
  f.user.Edit(std::vector{AdjustMachine(1, -1)});
  CHECK(f.user.Reserve(placement, Book::kBoth, &other).verdict == Outcome::Verdict::kConflict);
  CHECK(f.Free(0) == 4);
  CHECK(f.Free(1) == 3);
  CHECK(other.held == Book::kNone);
  CHECK(f.Sums());
}

TEST_CASE("A place is worth nothing on a machine that changed its class, was cordoned, or is another one by now") {
  Fixture f({PutMachine(0, 4)});
  GangPlacement placement = {{PodNeeds({{kGpu, 1}}), {f.user.Read().PlaceOn({0}, 1)}}};
  Claim claim;
  const auto reserve = [&] { return f.user.Reserve(placement, Book::kBoth, &claim).done(); };
  f.user.Edit(std::vector{PutMachine(0, 4, 10, 7)});
  CHECK_FALSE(reserve());
  f.user.Edit(std::vector{PutMachine(0, 4, 10, 0, false)});
  CHECK_FALSE(reserve());
  f.user.Edit(std::vector{RemoveMachine(0), PutMachine(0, 4)});
  CHECK_FALSE(reserve());
  placement.front().places.front() = f.user.Read().PlaceOn({0}, 1);
  CHECK(reserve());
  // And the other way round: what is released on a machine that is gone does not make its successor larger.
  f.user.Edit(std::vector{RemoveMachine(0)});
  CHECK_FALSE(f.user.Read().Contains({0}));
  f.user.Edit(std::vector{PutMachine(0, 2)});
  f.user.Release(&claim);
  CHECK(f.Free(0) == 2);
  CHECK(f.Sums());
}

TEST_CASE("Room promised to a preemptor cannot be taken by somebody else") {
  Fixture f({PutMachine(0, 8)});
  Claim victim;
  Claim preemptor;
  Claim thief;
  REQUIRE(f.user.Place(Gang(1, 8), &victim).done());
  // The victim's room is still planned for it, so nobody can plan on it.
  CHECK_FALSE(f.user.Place(Gang(1, 8, Book::kPlanned), &preemptor).done());
  f.user.Leave(&victim);
  CHECK(f.Free(0) == 0);
  CHECK(f.Planned(0) == 8);
  CHECK(f.user.Place(Gang(1, 8, Book::kPlanned), &preemptor).done());
  CHECK(f.Planned(0) == 0);
  CHECK(f.user.Start(&preemptor).verdict == Outcome::Verdict::kConflict);
  CHECK(preemptor.held == Book::kPlanned);
  f.user.Release(&victim);
  CHECK(f.Free(0) == 8);
  CHECK_FALSE(f.user.Place(Gang(1, 1), &thief).done());
  CHECK(f.Sums());
  CHECK(f.user.Start(&preemptor).done());
  CHECK(f.Free(0) == 0);
  CHECK(f.Planned(0) == 0);
  f.user.Release(&preemptor);
  CHECK(f.Free(0) == 8);
  CHECK(f.Planned(0) == 8);
  CHECK(f.Sums());
}

TEST_CASE("A machine that shrinks below what is taken has negative room: nothing new fits, nobody is harmed") {
  Fixture f({PutMachine(0, 8)});
  Claim claim;
  REQUIRE(f.user.Place(Gang(3, 2), &claim).done());
  f.user.Edit(std::vector{PutMachine(0, 4)});
  CHECK(f.Free(0) == -2);
  Claim other;
  CHECK(f.user.Place(Gang(1, 1), &other).placed == 0);
  // Who asks for none of what is lacking still fits.
  GangRequest slots_only = Gang(2, 0);
  CHECK(slots_only.pod_sets[0].per_pod.size() == 1);
  CHECK(f.user.Place(slots_only, &other).done());
  f.user.Release(&claim);
  CHECK(f.Free(0) == 4);
  CHECK(f.Sums());
}

TEST_CASE("What runs is booked whatever there is, and amounts beyond all measure do no harm") {
  Fixture f({PutMachine(0, 2)});
  Claim claim;
  const GangPlacement placement = {{PodNeeds({{kGpu, 3}, {MachineResource{5}, 1}}), {f.user.Read().PlaceOn({0}, 1)}}};
  CHECK(f.user.Occupy(placement, &claim).done());
  CHECK(f.Free(0) == -1);
  CHECK(f.user.Read().Room(Book::kFree, {0}, {5}) == -1);
  f.user.Release(&claim);
  CHECK(f.Free(0) == 2);
  const int64_t huge = std::numeric_limits<int64_t>::max();
  CHECK(f.user.Place(Gang(huge, huge), &claim).placed == 0);
  CHECK(f.user.Place(Gang(huge, 1), &claim).placed == 2);
  f.user.Edit(std::vector{PutMachine(1, huge, huge)});
  CHECK(f.Free(1) == kMaxAmount);
  CHECK(f.user.Place(Gang(huge, huge), &claim).placed == 1);
  CHECK(f.Sums());
}

TEST_CASE("One change can hold edits and claims; a step that must fit and does not undoes all of it") {
  Fixture f({PutMachine(0, 4), PutMachine(1, 4)});
  Claim claim;
  REQUIRE(f.user.Place(Gang(1, 4), &claim).done());  // on machine 0
  const GangPlacement moved = {{PodNeeds({{kGpu, 4}}), {f.user.Read().PlaceOn({1}, 1)}}};
  const std::vector<ClaimStep> steps = {{&claim.placement, Book::kNone, Book::kBoth, false},
                                        {&moved, Book::kBoth, Book::kNone, true}};
  const uint64_t before = f.user.Read().version;
  CHECK_FALSE(f.user.Apply(std::vector{AdjustMachine(1, -1)}, steps).done());
  CHECK(f.user.Read().version == before);
  CHECK(f.Free(0) == 0);
  CHECK(f.Free(1) == 4);
  CHECK(f.user.Apply(std::vector{AdjustMachine(0, -1)}, steps).version == before + 1);
  CHECK(f.Free(0) == 3);
  CHECK(f.Free(1) == 0);
  CHECK(f.Sums());
}

TEST_CASE("An adjustment of a machine that is not there is nothing; a removed one leaves no trace in the sums") {
  Fixture f({PutMachine(0, 4), PutMachine(130, 4)});  // two chunks further on
  CHECK(f.user.Read().machines == 2);
  CHECK(f.user.Read().totals[kGpu.value].free == 8);
  f.user.Edit(std::vector{AdjustMachine(7, 3), AdjustMachine(500, 3), RemoveMachine(9), RemoveMachine(900)});
  CHECK(f.user.Read().totals[kGpu.value].free == 8);
  f.user.Edit(std::vector{RemoveMachine(130)});
  CHECK(f.user.Read().machines == 1);
  CHECK(f.user.Read().totals[kGpu.value].free == 4);
  CHECK(f.user.Read().totals[kPodSlots.value].free == 10);
  CHECK(f.Sums());
}

TEST_CASE("A search may begin anywhere and finds the same") {
  std::vector<MachineEdit> edits;
  for (uint32_t i = 0; i < 200; ++i) edits.push_back(PutMachine(i, i % 4));
  Fixture f(edits);
  for (uint32_t origin = 0; origin < 9; ++origin) {
    GangRequest request = Gang(100, 2);  // 50 machines with 2, 50 with 3
    request.origin = origin;
    CHECK(Search(f.user.Read(), request).verdict == SearchResult::Verdict::kFits);
    request.pod_sets[0].count = 101;
    CHECK(Search(f.user.Read(), request).placed == 100);
  }
}

TEST_CASE("A snapshot stays as it was while others change the book") {
  Fixture f({PutMachine(0, 4)});
  const BookSnapshot& snapshot = f.user.Read();
  MachineBook::User other(&f.book);
  for (int i = 0; i < 200; ++i) {
    Claim claim;
    REQUIRE(other.Place(Gang(2, 2), &claim).done());
    other.Release(&claim);
  }
  CHECK(snapshot.version == 1);
  CHECK(snapshot.Room(Book::kFree, {0}, kGpu) == 4);
  CHECK(Recount(snapshot));
  // The pin holds back one snapshot, not the 400 that followed: a root, a segment
  // and a chunk a commit, of which at most 64 wait.
  CHECK(other.unfreed() <= 64 + 3);
}

}  // namespace
}  // namespace muster::gang
