// Who is woken by what, and in which order.

#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "muster/gang/machine_book.h"
#include "workload.h"

namespace muster::gang {
namespace {

struct Lot {
  MachineBook book;
  MachineBook::User user{&book};
  MachineBook::User other{&book};
  std::vector<std::unique_ptr<ParkingTicket>> tickets;
  std::string woken;  // in this order

  ~Lot() {
    for (auto& ticket : tickets) user.Unpark(std::move(ticket));
  }
  void Park(char name, int64_t priority, int64_t time, const GangRequest& request) {
    Waiter waiter;
    waiter.id = static_cast<uint64_t>(name);
    waiter.priority = priority;
    waiter.queue_time_ns = time;
    waiter.pod_sets = request.pod_sets;
    waiter.books = request.books;
    waiter.wake = [this, name] { woken += name; };
    const uint64_t version = user.Read().version;
    user.EndRead();
    auto ticket = user.Park(std::move(waiter), version);
    REQUIRE(ticket != nullptr);
    tickets.push_back(std::move(ticket));
  }
  void Edit(const MachineEdit& edit) { other.Edit(std::vector{edit}); }
};

TEST_CASE("A gain wakes those who could use it: priority first, then the oldest, whoever parked them") {
  Lot lot;
  lot.Edit(PutMachine(0, 0));
  lot.Edit(PutMachine(1, 0, 10, 1));
  lot.Park('a', 0, 30, Gang(1, 1));
  lot.Park('b', 0, 20, Gang(8, 2));  // a gang of many: one machine more may be the one that it lacks
  lot.Park('c', 5, 40, Gang(1, 2));
  lot.Park('d', 9, 10, Gang(1, 4));                                               // too large for what is gained
  lot.Park('e', 9, 10, Gang(1, 1, Book::kBoth, ClassFilter({MachineClass{1}})));  // of another class
  lot.Edit(AdjustMachine(0, 2));
  CHECK(lot.woken == "cba");
  // Each is woken once.
  lot.Edit(AdjustMachine(0, 1));
  CHECK(lot.woken == "cba");
  lot.Edit(AdjustMachine(1, 1));
  CHECK(lot.woken == "cbae");
  lot.Edit(AdjustMachine(0, 1));
  CHECK(lot.woken == "cbaed");
}

TEST_CASE("A loss, a gain of something else, and a gain in the other book wake nobody; opening a machine does") {
  Lot lot;
  lot.Edit(PutMachine(0, 4, 10, 0, false));
  lot.Edit(PutMachine(1, 8));
  Claim victim;
  REQUIRE(lot.other.Place(Gang(1, 8), &victim).done());
  lot.Park('a', 0, 1, Gang(1, 2));
  lot.Park('p', 0, 2, Gang(1, 8, Book::kPlanned));
  lot.Edit(AdjustMachine(0, -1));
  lot.Edit({MachineEdit::Kind::kAdjust, {1}, {0}, true, {{kPodSlots, 5}}});
  CHECK(lot.woken.empty());
  // The victim is told to leave: there is room to plan with, not to start on.
  lot.other.Leave(&victim);
  CHECK(lot.woken == "p");
  lot.Edit(PutMachine(0, 3));
  CHECK(lot.woken == "pa");
  lot.other.Release(&victim);
}

TEST_CASE("Who parks after a gain that its search has not seen is told to look again") {
  Lot lot;
  lot.Edit(PutMachine(0, 0));
  Waiter waiter;
  waiter.pod_sets = Gang(1, 1).pod_sets;
  waiter.wake = [] {};
  const uint64_t searched = lot.user.Read().version;
  lot.user.EndRead();
  lot.Edit(AdjustMachine(0, 1));
  CHECK(lot.user.Park(waiter, searched) == nullptr);
  // Nothing was gained since this one.
  auto ticket = lot.user.Park(waiter, searched + 1);
  REQUIRE(ticket != nullptr);
  CHECK_FALSE(ticket->woken());
  lot.user.Unpark(std::move(ticket));
}

// Trees that take turns on one machine: if a wake-up were lost, they would sleep for ever.
TEST_CASE("Trees that wait for each other's room all get their turns", "[stress]") {
  constexpr int kTurns = 300;
  MachineBook book;
  {
    MachineBook::User user(&book);
    user.Edit(std::vector{PutMachine(0, 2)});
  }
  std::vector<int> turns(4, 0);
  std::vector<std::thread> trees;
  for (size_t tree = 0; tree < 4; ++tree) {
    trees.emplace_back([&, tree] {
      struct Bell {
        std::mutex mutex;
        std::condition_variable rung;
        bool awake = false;
      };
      MachineBook::User user(&book);
      const GangRequest request = Gang(1, 2);
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
      while (turns[tree] < kTurns && std::chrono::steady_clock::now() < deadline) {
        Claim claim;
        const Outcome outcome = user.Place(request, &claim);
        if (outcome.done()) {
          ++turns[tree];
          std::this_thread::yield();
          user.Release(&claim);
          continue;
        }
        auto bell = std::make_shared<Bell>();
        Waiter waiter;
        waiter.id = tree;
        waiter.pod_sets = request.pod_sets;
        waiter.wake = [bell] {
          const std::lock_guard lock(bell->mutex);
          bell->awake = true;
          bell->rung.notify_one();
        };
        auto ticket = user.Park(std::move(waiter), outcome.version);
        if (ticket == nullptr) continue;
        {
          std::unique_lock lock(bell->mutex);
          bell->rung.wait_until(lock, deadline, [&] { return bell->awake; });
        }
        user.Unpark(std::move(ticket));
      }
    });
  }
  for (std::thread& tree : trees) tree.join();
  CHECK(turns == std::vector<int>(4, kTurns));
}

}  // namespace
}  // namespace muster::gang
