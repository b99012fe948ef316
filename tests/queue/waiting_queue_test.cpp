// Order, parking and waking of what waits in one ClusterQueue, as kueue_semantics 4.1-4.5 have it.
#include "muster/queue/waiting_queue.h"

#include <catch2/catch.hpp>
#include <deque>
#include <string>

namespace muster::queue {

namespace {

using Uids = std::vector<std::string>;

WallTime At(int64_t seconds) { return {seconds * 1'000'000'000}; }

struct World {
  WaitingQueue queue;
  std::deque<std::string> uids;  // tickets point into them
  std::deque<Ticket> tickets;

  Ticket* Make(const std::string& uid, uint64_t equivalence, int64_t created = 1, int64_t priority = 0,
               uint32_t lane = 0) {
    uids.push_back(uid);
    Ticket& ticket = tickets.emplace_back();
    ticket.uid = uids.back();
    ticket.equivalence = equivalence;
    ticket.queue_time = At(created);
    ticket.priority = priority;
    ticket.lane = lane;
    return &ticket;
  }
  Ticket* Push(const std::string& uid, uint64_t equivalence, int64_t created = 1, int64_t priority = 0,
               uint32_t lane = 0) {
    Ticket* ticket = Make(uid, equivalence, created, priority, lane);
    queue.Push(ticket, At(100));
    queue.Validate();
    return ticket;
  }
  std::string Head() const { return queue.Head() == nullptr ? "" : std::string(queue.Head()->uid); }
};

Uids UidsOf(const std::vector<Ticket*>& tickets) {
  Uids uids;
  for (const Ticket* ticket : tickets) uids.emplace_back(ticket->uid);
  return uids;
}

const std::function<bool(uint32_t)> kAll;

}  // namespace

// kueue_semantics 9.12
TEST_CASE("who comes from the lane that has consumed less by its weight goes first, whatever its priority") {
  World world;
  world.Push("high", 1, 1, 9, 0);
  world.Push("early", 2, 1, 0, 1);
  world.Push("late", 2, 2, 0, 2);
  CHECK(world.queue.SetLaneShare(0, {6, 2}));
  CHECK(world.queue.SetLaneShare(1, {5, 1}));
  CHECK(world.queue.SetLaneShare(2, {4, 1}));
  world.queue.Validate();
  CHECK(UidsOf(world.queue.InOrder()) == Uids{"high", "late", "early"});
  CHECK(world.Head() == "high");
  CHECK_FALSE(world.queue.SetLaneShare(0, {9, 3}));
  CHECK(world.queue.SetLaneShare(0, {0, 0}));  // of weight 0: behind all others
  CHECK(UidsOf(world.queue.InOrder()) == Uids{"late", "early", "high"});
  CHECK(world.Head() == "late");
  // Those that come later are in their lane's place, and parked ones come back to it.
  Ticket* first = world.Push("first", 3, 9, 0, 2);
  CHECK(world.Head() == "late");
  world.queue.Park(world.queue.Head());
  CHECK(world.Head() == "first");
  world.queue.Remove(first);
  CHECK(world.Head() == "early");
  world.queue.Wake(kAll);
  CHECK(world.Head() == "late");
  for (const uint32_t lane : {0u, 1u, 2u}) world.queue.SetLaneShare(lane, {});
  world.queue.Validate();
  CHECK(UidsOf(world.queue.InOrder()) == Uids{"high", "early", "late"});
}

TEST_CASE("the head has the highest priority, then the earliest time, then the smallest uid") {
  World world;
  world.Push("d", 1, 5, 0);
  world.Push("c", 2, 4, 0);
  world.Push("b", 3, 4, 0);
  world.Push("a", 4, 9, 7);
  CHECK(UidsOf(world.queue.InOrder()) == Uids{"a", "b", "c", "d"});
  for (const char* uid : {"a", "b", "c", "d"}) {
    CHECK(world.Head() == uid);
    world.queue.Remove(world.queue.Head());
    world.queue.Validate();
  }
  CHECK(world.queue.Head() == nullptr);
  CHECK(world.queue.empty());
}

TEST_CASE("the head of several classes is found in one class and across lanes") {
  World world;
  world.Push("c", 1, 3, 0, 7);
  Ticket* a = world.Push("a", 1, 1, 0, 8);
  world.Push("b", 2, 2, 0, 7);
  CHECK(world.Head() == "a");
  world.queue.Remove(a);
  CHECK(world.Head() == "b");
  CHECK(world.queue.CountsOfLane(7) == Counts{2, 0});
  CHECK(world.queue.CountsOfLane(8) == Counts{0, 0});
}

TEST_CASE("equals are parked with the one that failed, and those that come later too, until woken") {
  World world;
  Ticket* a = world.Push("a", 1, 1);
  Ticket* b = world.Push("b", 1, 2);
  Ticket* c = world.Push("c", 1, 3, 0, 5);
  world.Push("other", 2, 4);
  CHECK(UidsOf(world.queue.ParkEquivalents(a, 1)) == Uids{"b", "c"});
  world.queue.Validate();
  CHECK(world.Head() == "other");
  for (const Ticket* ticket : {a, b, c}) CHECK(ticket->place() == Place::kParked);
  CHECK(world.queue.counts() == Counts{1, 3});
  const Ticket* late = world.Push("late", 1, 0);
  CHECK(late->place() == Place::kParked);
  CHECK(world.queue.CountsOfLane(5) == Counts{0, 1});
  CHECK(world.queue.Wake(kAll));
  world.queue.Validate();
  CHECK(world.Head() == "late");
  CHECK(world.queue.counts() == Counts{5, 0});
  CHECK_FALSE(world.queue.HasParked());
}

TEST_CASE("a class that failed is remembered when its last member has left") {
  World world;
  Ticket* a = world.Push("a", 1);
  CHECK(world.queue.ParkEquivalents(a, 1).empty());
  world.queue.Remove(a);
  world.queue.Validate();
  CHECK(world.queue.HasParked());
  CHECK(world.Push("b", 1)->place() == Place::kParked);
  CHECK(world.queue.Wake(kAll));
  CHECK(world.Push("c", 1)->place() == Place::kActive);
}

TEST_CASE("each is told once for each note") {
  World world;
  Ticket* a = world.Push("a", 1, 1);
  world.Push("b", 1, 2);
  CHECK(UidsOf(world.queue.ParkEquivalents(a, 1)) == Uids{"b"});
  world.queue.Wake(kAll);
  Ticket* c = world.Push("c", 1, 3);
  CHECK(UidsOf(world.queue.ParkEquivalents(a, 1)) == Uids{"c"});
  world.queue.Wake(kAll);
  CHECK(world.queue.ParkEquivalents(a, 1).empty());
  world.queue.Wake(kAll);
  CHECK(UidsOf(world.queue.ParkEquivalents(a, 2)) == Uids{"b", "c"});
  world.queue.Wake(kAll);
  world.queue.Remove(c);
  world.queue.ForgetTold();
  world.queue.Validate();
  CHECK(UidsOf(world.queue.ParkEquivalents(a, 2)) == Uids{"b"});
}

TEST_CASE("one that is parked alone leaves its equals where they are") {
  World world;
  Ticket* a = world.Push("a", 1, 1);
  world.Push("b", 1, 2);
  world.queue.Park(a);
  world.queue.Validate();
  CHECK(a->place() == Place::kParked);
  CHECK(world.Head() == "b");
  CHECK(world.queue.counts() == Counts{1, 1});
  CHECK(world.queue.Wake(kAll));
  CHECK(world.Head() == "a");
}

TEST_CASE("only lanes that are eligible are woken, but nobody is passed over any more") {
  World world;
  Ticket* a = world.Push("a", 1, 1, 0, 1);
  Ticket* b = world.Push("b", 1, 2, 0, 2);
  Ticket* c = world.Push("c", 2, 3, 0, 2);
  world.queue.ParkEquivalents(a, 1);
  world.queue.Park(c);
  const auto only = [](uint32_t lane) { return [lane](uint32_t other) { return lane == other; }; };
  CHECK(world.queue.Wake(only(1)));
  world.queue.Validate();
  CHECK(a->place() == Place::kActive);
  CHECK(b->place() == Place::kParked);
  CHECK(c->place() == Place::kParked);
  CHECK(world.Push("d", 1, 4, 0, 2)->place() == Place::kActive);
  CHECK(world.queue.Wake(only(2)));
  CHECK(b->place() == Place::kActive);
  CHECK(c->place() == Place::kActive);
  CHECK_FALSE(world.queue.Wake(kAll));
}

TEST_CASE("a misfit stays parked until it is removed") {
  World world;
  Ticket* a = world.Push("a", 1, 1);
  world.queue.ParkMisfit(a);
  world.queue.Validate();
  CHECK(a->place() == Place::kParked);
  CHECK_FALSE(world.queue.HasParked());
  CHECK_FALSE(world.queue.Wake(kAll));
  CHECK(world.queue.counts() == Counts{0, 1});
  world.queue.Remove(a);
  world.queue.Push(a, At(100));
  CHECK(a->place() == Place::kActive);
  // The other strategy does not pass over misfits.
  world.queue.ParkMisfit(a);
  world.queue.SetStrategy(Strategy::kStrictFIFO);
  world.queue.Validate();
  CHECK(world.Head() == "a");
}

TEST_CASE("a back-off ends at its time, and equals that failed meanwhile count") {
  World world;
  Ticket* late = world.Make("late", 1);
  late->not_before = At(105);
  world.queue.Push(late, At(100));
  Ticket* a = world.Push("a", 1);
  CHECK(late->place() == Place::kBackingOff);
  CHECK(world.queue.counts() == Counts{1, 1});
  CHECK(world.queue.NextDue() == At(105));
  CHECK_FALSE(world.queue.ReleaseDue(At(104)));
  world.queue.ParkEquivalents(a, 1);
  CHECK(world.queue.ReleaseDue(At(105)));
  world.queue.Validate();
  CHECK(late->place() == Place::kParked);
  CHECK_FALSE(world.queue.NextDue().IsSet());
}

TEST_CASE("a change of strategy forgets which equals failed; the parked stay until woken") {
  World world;
  Ticket* a = world.Push("a", 1, 1);
  world.Push("b", 1, 2);
  world.queue.ParkEquivalents(a, 1);
  world.queue.SetStrategy(Strategy::kStrictFIFO);
  world.queue.Validate();
  CHECK(a->place() == Place::kParked);
  CHECK(world.Push("c", 1, 3)->place() == Place::kActive);
  CHECK(world.queue.Wake(kAll));
  CHECK(world.Head() == "a");
}

TEST_CASE("all but the head are told once that they wait behind it") {
  World world;
  world.queue.SetStrategy(Strategy::kStrictFIFO);
  Ticket* a = world.Push("a", 1, 2);
  world.Push("b", 2, 3);
  world.Push("c", 1, 4);
  CHECK(UidsOf(world.queue.TakeUntold(a)) == Uids{"b", "c"});
  CHECK(world.queue.TakeUntold(a).empty());
  world.Push("d", 3, 5);
  CHECK(UidsOf(world.queue.TakeUntold(a)) == Uids{"d"});
  // A new head: the old one had a reason of its own, and now waits behind.
  Ticket* first = world.Push("first", 1, 1);
  CHECK(UidsOf(world.queue.TakeUntold(first)) == Uids{"a"});
  world.queue.ForgetTold();
  world.queue.Validate();
  CHECK(UidsOf(world.queue.TakeUntold(first)) == Uids{"a", "b", "c", "d"});
  // The old one is the head once more, and then again it is not.
  world.queue.Remove(first);
  CHECK(world.queue.TakeUntold(a).empty());
  const Ticket* next = world.Push("next", 1, 1);
  CHECK(UidsOf(world.queue.TakeUntold(next)) == Uids{"a"});
  world.queue.Validate();
}

TEST_CASE("a lane is touched when tickets come or go, not when they are parked") {
  World world;
  Ticket* a = world.Push("a", 1, 1, 0, 3);
  world.Push("b", 1, 2, 0, 4);
  CHECK(world.queue.TakeTouchedLanes() == std::vector<uint32_t>{3, 4});
  world.queue.ParkEquivalents(a, 1);
  world.queue.Wake(kAll);
  CHECK(world.queue.TakeTouchedLanes().empty());
  world.queue.Remove(a);
  CHECK(world.queue.TakeTouchedLanes() == std::vector<uint32_t>{3});
}

}  // namespace muster::queue
