// Recorded concurrent histories are linearizable, and the versions are an order that shows it.

#include "history.h"

#include <sched.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <latch>
#include <memory>
#include <random>
#include <thread>

#include "machine_book_impl.h"
#include "workload.h"

namespace muster::gang {
namespace {

// Gives the processor away now and then, so that threads meet in the middle of operations on few processors, too.
thread_local uint64_t t_noise = 0;
void MaybeYield() {
  t_noise = t_noise * 6364136223846793005u + 1442695040888963407u;
  if ((t_noise >> 60) == 0) sched_yield();
}

struct YieldingAtomics {
  template <typename T>
  class Atomic : public std::atomic<T> {
   public:
    using std::atomic<T>::atomic;
    T load(std::memory_order order) const {
      MaybeYield();
      return std::atomic<T>::load(order);
    }
    bool compare_exchange_strong(T& expected, T value, std::memory_order ok, std::memory_order failed) {
      MaybeYield();
      return std::atomic<T>::compare_exchange_strong(expected, value, ok, failed);
    }
  };
};

using YieldingBook = BasicMachineBook<YieldingAtomics>;

// Two chunks.
constexpr std::array<uint32_t, 3> kMachines = {0, 1, kChunkMachines};

int Times() { return std::getenv("MUSTER_LONG") != nullptr ? 10 : 1; }

struct Campaign {
  uint64_t seed = 0;
  size_t threads = 2;
  size_t operations = 6;  // of each
  MachineBookOptions options;
};

struct Result {
  PlainBook begin;
  std::vector<Recorded> history;
  bool sums = false;
  uint64_t lost_races = 0;
  uint64_t published = 0;
  uint64_t rebased = 0;
};

Result Record(const Campaign& campaign) {
  YieldingBook book(campaign.options);
  Result result;
  {
    YieldingBook::User user(&book);
    user.Edit(
        std::vector{PutMachine(kMachines[0], 4), PutMachine(kMachines[1], 3, 10, 1), PutMachine(kMachines[2], 2)});
    result.begin = PlainOf(user.Read(), kMachines.back() + 1);
  }
  std::atomic<int64_t> clock{0};
  std::vector<std::unique_ptr<Worker<YieldingBook>>> workers;
  for (size_t i = 0; i < campaign.threads; ++i) {
    workers.push_back(std::make_unique<Worker<YieldingBook>>(
        &book, std::vector<uint32_t>(kMachines.begin(), kMachines.end()), [&clock] { return ++clock; }));
  }
  std::latch start(static_cast<std::ptrdiff_t>(campaign.threads));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < campaign.threads; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937_64 random(campaign.seed * 31 + i);
      t_noise = random();
      start.arrive_and_wait();
      for (size_t n = 0; n < campaign.operations; ++n) workers[i]->Random(&random);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& worker : workers) {
    result.history.insert(result.history.end(), worker->history().begin(), worker->history().end());
    result.lost_races += worker->user().counts().lost_races;
    result.published += worker->user().counts().published;
    result.rebased += worker->user().counts().rebased;
  }
  result.sums = Recount(workers[0]->user().Read());
  return result;
}

TEST_CASE("Histories of 2 to 8 threads are linearizable", "[linearizability]") {
  uint64_t histories = 0;
  uint64_t lost_races = 0;
  uint64_t published = 0;
  uint64_t rebased = 0;
  uint64_t overlaps = 0;
  std::array<uint64_t, 2> reserved{};  // refused, done
  for (int round = 0; round < 150 * Times(); ++round) {
    for (size_t threads = 2; threads <= 8; ++threads) {
      for (const uint32_t patience : {0u, 1u, 8u}) {
        Campaign campaign{++histories, threads, 40 / threads, {patience, round % 2 == 0 ? 1u : 64u}};
        if (campaign.operations > 8) campaign.operations = 8;
        const Result result = Record(campaign);
        lost_races += result.lost_races;
        published += result.published;
        rebased += result.rebased;
        for (const Recorded& operation : result.history) {
          const bool reserves = operation.kind == Recorded::Kind::kStep && operation.step.must_fit &&
                                Has(operation.step.take, Book::kPlanned);
          if (reserves) ++reserved[operation.outcome.done() ? 1 : 0];
        }
        for (size_t i = 1; i < result.history.size(); ++i) {
          overlaps += result.history[i].end - result.history[i].begin > 1 ? 1 : 0;
        }
        INFO("history " << campaign.seed << ", " << threads << " threads, patience " << patience);
        REQUIRE(result.sums);
        REQUIRE(VersionsAreAnOrder(result.begin, result.history));
        REQUIRE(IsLinearizable(result.begin, result.history));
      }
    }
  }
  CHECK(histories >= 3000);
  // They did meet: otherwise this would show nothing.
  CHECK(lost_races > 20);
  CHECK(published > 100);
  CHECK(overlaps > 100);
  CHECK(rebased > 0);
  for (const uint64_t times : reserved) CHECK(times > 30);
}

TEST_CASE("The checker refuses what no order explains", "[linearizability]") {
  // Two machines with 2 GPUs each; a gang of 4 pods of 1.
  PlainBook begin;
  begin.machines.resize(1);
  begin.machines[0] = {true, true, 0, 0, {10, 2}, {10, 2}, {10, 2}};
  const auto place = [](int64_t from, int64_t to, bool fits, int64_t placed) {
    Recorded note;
    note.kind = Recorded::Kind::kPlace;
    note.begin = from;
    note.end = to;
    note.request = Gang(2, 1);
    note.outcome.verdict = fits ? Outcome::Verdict::kDone : Outcome::Verdict::kDoesNotFit;
    note.outcome.placed = placed;
    if (fits) note.outcome.placement = {{PodNeeds({{kGpu, 1}}), {{{0}, 0, {0}, 2}}}};
    return note;
  };
  CHECK(IsLinearizable(begin, {place(1, 4, true, 2), place(2, 3, false, 0)}));
  CHECK(IsLinearizable(begin, {place(1, 2, true, 2), place(3, 4, false, 0)}));
  // Both got it.
  CHECK_FALSE(IsLinearizable(begin, {place(1, 4, true, 2), place(2, 3, true, 2)}));
  // Neither did.
  CHECK_FALSE(IsLinearizable(begin, {place(1, 4, false, 0), place(2, 3, false, 0)}));
  // A no before anything was taken.
  CHECK_FALSE(IsLinearizable(begin, {place(1, 2, false, 0), place(3, 4, true, 2)}));
  // A no that counts what is there wrongly: half of the other's pods.
  CHECK_FALSE(IsLinearizable(begin, {place(1, 4, true, 2), place(2, 3, false, 1)}));
  // A snapshot that never was: one of the two pods.
  Recorded read;
  read.begin = 1;
  read.end = 5;
  read.seen = begin;
  read.seen.machines[0].free = read.seen.machines[0].planned = {9, 1};
  CHECK_FALSE(IsLinearizable(begin, {place(2, 3, true, 2), read}));
  read.seen.machines[0].free = read.seen.machines[0].planned = {8, 0};
  CHECK(IsLinearizable(begin, {place(2, 3, true, 2), read}));
  // A stale one: it began after the reservation had ended.
  read.begin = 4;
  read.seen = begin;
  CHECK_FALSE(IsLinearizable(begin, {place(2, 3, true, 2), read}));
}

}  // namespace
}  // namespace muster::gang
