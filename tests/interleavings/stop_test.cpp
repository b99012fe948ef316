// Stop any thread at any step: all others still complete. And the same test, run on a book behind a lock, must see
// that they do not. No spares are kept here, so that AddressSanitizer sees what is read after it was freed.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "explorer.h"
#include "machine_book_impl.h"
#include "workload.h"

namespace muster::gang {
namespace {

using explore::ExploredAtomics;
using explore::Program;
using explore::Ran;
using ExploredBook = BasicMachineBook<ExploredAtomics>;

// The same operations behind a lock that spins.
class LockedBook {
 public:
  explicit LockedBook(MachineBookOptions options) : book_(options) {}

  template <typename F>
  auto Locked(F work) {
    while (locked_.exchange(true)) {
    }
    auto result = work();
    locked_.store(false);
    return result;
  }

  class User {
   public:
    explicit User(LockedBook* book) : book_(book), user_(&book->book_) {}
    Outcome Place(const GangRequest& request, Claim* claim) {
      return book_->Locked([&] { return user_.Place(request, claim); });
    }
    Outcome Release(Claim* claim) {
      return book_->Locked([&] { return user_.Release(claim); });
    }
    Outcome Edit(std::span<const MachineEdit> edits) {
      return book_->Locked([&] { return user_.Edit(edits); });
    }
    Outcome Reserve(const GangPlacement& placement, Book books, Claim* claim) {
      return book_->Locked([&] { return user_.Reserve(placement, books, claim); });
    }
    Outcome Start(Claim* claim) {
      return book_->Locked([&] { return user_.Start(claim); });
    }
    Outcome Leave(Claim* claim) {
      return book_->Locked([&] { return user_.Leave(claim); });
    }
    int64_t FreeGpus() {
      return book_->Locked([&] { return user_.Read().Room(Book::kFree, {0}, kGpu); });
    }

   private:
    LockedBook* book_;
    MachineBook::User user_;
  };

 private:
  MachineBook book_;
  ExploredAtomics::Atomic<bool> locked_{false};
};

int64_t FreeGpus(ExploredBook::User* user) { return user->Read().Room(Book::kFree, {0}, kGpu); }
int64_t FreeGpus(LockedBook::User* user) { return user->FreeGpus(); }

// What each of three threads does. All that is taken is given back.
enum class Work : uint8_t {
  kPlaces,  // a gang is placed and released, a machine grows
  kClaims,  // a planned claim is started and left; its places are reserved again; a machine grows
};

template <typename User>
void Do(Work work, User* user, Claim* claim) {
  if (work == Work::kPlaces) {
    if (user->Place(Gang(2, 1), claim).done()) user->Release(claim);
  } else if (user->Place(Gang(1, 1, Book::kPlanned), claim).done()) {
    const GangPlacement places = claim->placement;
    if (user->Start(claim).done()) user->Leave(claim);
    user->Release(claim);
    if (user->Reserve(places, Book::kBoth, claim).done()) user->Release(claim);
  }
  user->Edit(std::vector{AdjustMachine(0, 1)});
}

template <typename BookType>
Program MakeProgram(MachineBookOptions options, Work work, int64_t* free_at_end) {
  struct State {
    explicit State(MachineBookOptions given) : book(given) {}
    BookType book;
    std::vector<std::unique_ptr<typename BookType::User>> users;
    std::vector<Claim> claims = std::vector<Claim>(3);
  };
  auto state = std::make_shared<State>(options);
  for (int i = 0; i < 3; ++i) state->users.push_back(std::make_unique<typename BookType::User>(&state->book));
  state->users[0]->Edit(std::vector{PutMachine(0, 4)});
  Program program;
  for (size_t i = 0; i < 3; ++i) {
    program.threads.push_back([state, work, i] { Do(work, state->users[i].get(), &state->claims[i]); });
  }
  program.end = [state, free_at_end] { *free_at_end = FreeGpus(state->users[0].get()); };
  return program;
}

constexpr uint64_t kStepsMax = 5'000;  // of those who go on; a whole run without stops takes some hundreds

struct Tried {
  uint64_t runs = 0;
  uint64_t stuck = 0;  // runs in which somebody who was not stopped did not complete
  uint64_t wrong = 0;  // runs after which, with everybody gone on to the end, the book was not as it should be
};

// Who is stopped, and how they come there.
struct Stops {
  Work work = Work::kPlaces;
  int first = 0;
  std::optional<int> second{};
  // All take turns from the beginning, so that nobody is stopped in a book that only he has touched. Otherwise the
  // first goes on alone up to where he is stopped.
  bool in_turn = false;
};

class Turns {
 public:
  Turns(const Stops& stops, uint64_t stop_first, uint64_t stop_second)
      : stops_(stops), stop_first_(stop_first), stop_second_(stop_second) {}

  int operator()(const std::vector<int>& running, const std::vector<uint64_t>& steps) {
    std::vector<int> may_run;
    bool others = false;  // besides those who are to be stopped
    for (const int thread : running) {
      const uint64_t taken = steps[static_cast<size_t>(thread)];
      if (thread == stops_.first && taken < stop_first_ && !stops_.in_turn) return thread;
      if (thread == stops_.first && taken >= stop_first_) continue;
      if (thread == stops_.second && taken >= stop_second_) continue;
      others |= thread != stops_.first && thread != stops_.second;
      may_run.push_back(thread);
    }
    // Once all others have completed, those are left where they are.
    if (!others || ++turn_ > kStepsMax) return -1;
    return may_run[turn_ % may_run.size()];
  }

 private:
  const Stops stops_;
  const uint64_t stop_first_;
  const uint64_t stop_second_;
  uint64_t turn_ = 0;
};

// Each of those is stopped after each number of its steps, or one in so many. The others must all complete.
template <typename BookType>
Tried StopEverywhere(MachineBookOptions options, const Stops& stops, uint64_t every = MUSTER_ONE_OF) {
  Tried tried;
  bool first_in_time = true;  // it was stopped before the others were done
  for (uint64_t stop_first = 0; first_in_time; stop_first += every) {
    bool second_in_time = true;
    for (uint64_t stop_second = 0; second_in_time; stop_second += every) {
      int64_t free = 0;
      const Program program = MakeProgram<BookType>(options, stops.work, &free);
      const Ran ran = explore::Run(program, Turns(stops, stop_first, stop_second));
      ++tried.runs;
      for (int thread = 0; thread < 3; ++thread) {
        if (thread != stops.first && thread != stops.second && !ran.completed[static_cast<size_t>(thread)]) {
          ++tried.stuck;
          break;
        }
      }
      if (free != 4 + 3) ++tried.wrong;  // all claims were released, each thread added one
      const auto stopped_at = [&](int thread, uint64_t stop) {
        const auto t = static_cast<size_t>(thread);
        return !ran.completed[t] && ran.steps[t] >= stop;
      };
      first_in_time = stopped_at(stops.first, stop_first);
      second_in_time = stops.second.has_value() && stopped_at(*stops.second, stop_second);
    }
  }
  return tried;
}

TEST_CASE("Stop any thread at any step: all others still complete", "[stop]") {
  const Work work = GENERATE(Work::kPlaces, Work::kClaims);
  const bool in_turn = GENERATE(false, true);
  for (const uint32_t patience : {8u, 1u, 0u}) {
    for (int thread = 0; thread < 3; ++thread) {
      const Tried tried = StopEverywhere<ExploredBook>({patience, 1, 0}, {work, thread, std::nullopt, in_turn});
      INFO("work " << static_cast<int>(work) << (in_turn ? ", in turn" : "") << ", patience " << patience << ", thread "
                   << thread << ": " << tried.runs << " runs");
      CHECK(tried.runs > 20 / MUSTER_ONE_OF);
      CHECK(tried.stuck == 0);
      CHECK(tried.wrong == 0);
    }
  }
}

TEST_CASE("Stop any two threads at any steps: the third still completes", "[stop]") {
  const Work work = GENERATE(Work::kPlaces, Work::kClaims);
  const bool in_turn = GENERATE(false, true);
  // Some 10,000 runs each.
  if (work == Work::kClaims && std::getenv("MUSTER_LONG") == nullptr) return;
  for (const uint32_t patience : {8u, 0u}) {
    const Tried tried = StopEverywhere<ExploredBook>({patience, 1, 0}, {work, 0, 1, in_turn});
    INFO("work " << static_cast<int>(work) << (in_turn ? ", in turn" : "") << ", patience " << patience << ": "
                 << tried.runs << " runs");
    CHECK(tried.runs > 400 / (MUSTER_ONE_OF * MUSTER_ONE_OF));
    CHECK(tried.stuck == 0);
    CHECK(tried.wrong == 0);
  }
}

TEST_CASE("A book behind a lock fails the same test", "[stop]") {
  const Work work = GENERATE(Work::kPlaces, Work::kClaims);
  const bool in_turn = GENERATE(false, true);
  const Tried tried = StopEverywhere<LockedBook>({}, {work, 0, std::nullopt, in_turn}, 1);
  CHECK(tried.stuck > 0);
  CHECK(tried.stuck < tried.runs);  // stopped outside of the lock, it holds up nobody
  CHECK(tried.wrong == 0);
}
// A reader that stops for ever while it holds a snapshot, and a committer that stops in the middle: what they hold back
// is bounded, however long the others go on.
TEST_CASE("What a stopped thread holds back does not grow", "[stop]") {
  constexpr int kRounds = 300;
  for (uint64_t stop = 0; stop < 30; ++stop) {
    auto book = std::make_shared<ExploredBook>(MachineBookOptions{8, 4, 0});
    auto stopped = std::make_shared<ExploredBook::User>(book.get());
    auto going = std::make_shared<ExploredBook::User>(book.get());
    going->Edit(std::vector{PutMachine(0, 4), PutMachine(70, 4)});
    size_t most = 0;
    Program program;
    program.threads.push_back([stopped] {
      stopped->Read();
      Claim claim;
      if (stopped->Place(Gang(1, 1), &claim).done()) stopped->Release(&claim);
    });
    program.threads.push_back([going, &most] {
      for (int i = 0; i < kRounds; ++i) {
        Claim claim;
        if (going->Place(Gang(5, 1), &claim).done()) going->Release(&claim);
        most = std::max(most, going->unfreed());
      }
    });
    const Ran ran = explore::Run(program, [&](const std::vector<int>& running, const std::vector<uint64_t>& steps) {
      if (running.front() == 0 && steps[0] < stop) return 0;
      return running.back() == 1 ? 1 : -1;
    });
    INFO("stopped after " << stop << " steps");
    CHECK(ran.completed[1]);
    // Three pins hold back a snapshot each: at most a root, a segment and two chunks, and the batch that was unlinked
    // in the same era by another; then as much again until the next scan, or the four of a batch, and the batch at
    // hand.
    CHECK(most <= 2 * 3 * (4 + 4) + 4);
    stopped->EndRead();
  }
}

// Whoever stops between the swap and the waking is covered by the next commit, of whatever it is.
TEST_CASE("A gainer that stops before it wakes anybody keeps nobody asleep", "[stop]") {
  int covered = 0;
  for (uint64_t stop = 0; stop < 40; ++stop) {
    struct State {
      ExploredBook book{MachineBookOptions{8, 1, 0}};
      ExploredBook::User gainer{&book};
      ExploredBook::User next{&book};
      ExploredBook::User waiter{&book};
      Claim claim;
      std::unique_ptr<ParkingTicket> ticket;
    };
    auto state = std::make_shared<State>();
    state->gainer.Edit(std::vector{PutMachine(0, 2), PutMachine(1, 0)});
    REQUIRE(state->gainer.Place(Gang(1, 2), &state->claim).done());
    Waiter who;
    who.pod_sets = Gang(1, 1).pod_sets;
    who.wake = [] {};
    state->ticket = state->waiter.Park(std::move(who), state->waiter.Read().version);
    state->waiter.EndRead();
    bool gained = false;
    bool woken = false;
    explore::Program program;
    program.threads.push_back([state] { state->gainer.Release(&state->claim); });
    program.threads.push_back([state, &gained, &woken] {
      gained = state->next.Read().Room(Book::kFree, {0}, kGpu) > 0;
      state->next.EndRead();
      state->next.Edit(std::vector{AdjustMachine(1, -1)});
      woken = state->ticket->woken();
    });
    explore::Run(program, [&](const std::vector<int>& running, const std::vector<uint64_t>& steps) {
      if (running.front() == 0 && steps[0] < stop) return 0;
      return running.back() == 1 ? 1 : -1;
    });
    INFO("stopped after " << stop << " steps");
    CHECK(woken == gained);
    covered += gained ? 1 : 0;
    state->waiter.Unpark(std::move(state->ticket));
  }
  CHECK(covered > 1);
}

}  // namespace
}  // namespace muster::gang
