// Every order of the atomic steps of two or three operations, on the template that ships.
//
// Two operations: all orders, up to such that differ only in steps that commute. Where two threads do two each, where
// somebody does two that are published for others first, and for three threads: as many orders as each case states,
// many more with MUSTER_LONG, depth first; what was not run to the end is then named. Under AddressSanitizer, where a
// snapshot that is read after it was freed ends the run, as many as one in ten of them.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "explorer.h"
#include "history.h"
#include "machine_book_impl.h"
#include "workload.h"

namespace muster::gang {
namespace {

using explore::Explore;
using explore::Explored;
using explore::ExploredAtomics;
using explore::Program;
using ExploredBook = BasicMachineBook<ExploredAtomics>;
using ExploredWorker = Worker<ExploredBook>;

constexpr size_t kMachines = 2;

// What a thread does; it holds one claim on machine 0 (2 GPUs, both books) and one planned on machine 1 to begin with.
struct Act {
  std::string name;
  std::function<void(ExploredWorker*)> run;
  bool two = false;  // operations in one
};

const std::vector<Act>& Acts() {
  static const std::vector<Act> acts = {
      {"place", [](ExploredWorker* w) { w->Place(Gang(2, 1)); }},
      {"place and release",
       [](ExploredWorker* w) {
         if (w->Place(Gang(1, 1)).done()) w->Release(2);
       },
       true},
      {"plan", [](ExploredWorker* w) { w->Place(Gang(1, 2, Book::kPlanned)); }},
      {"release", [](ExploredWorker* w) { w->Release(0); }},
      {"leave", [](ExploredWorker* w) { w->Leave(0); }},
      {"start", [](ExploredWorker* w) { w->Start(1); }},
      {"reserve",
       [](ExploredWorker* w) {
         GangPlacement last = w->claims()[0].placement;
         last[0].per_pod = PodNeeds({{kGpu, 1}});
         w->Reserve(last, Book::kBoth);
       }},
      {"reserve in vain", [](ExploredWorker* w) { w->Reserve(w->claims()[0].placement, Book::kBoth); }},
      {"read", [](ExploredWorker* w) { w->Read(); }},
      {"put", [](ExploredWorker* w) { w->Edit({PutMachine(0, 7, 10, 1)}); }},
      {"adjust",
       [](ExploredWorker* w) {
         w->Edit({AdjustMachine(0, -1), AdjustMachine(1, 1)});
       }},
      {"remove", [](ExploredWorker* w) { w->Edit({RemoveMachine(0)}); }},
  };
  return acts;
}

template <typename BookType>
struct WorldOf {
  BookType book;
  std::vector<std::unique_ptr<Worker<BookType>>> workers;
  PlainBook begin;
  int64_t now = 0;

  WorldOf(MachineBookOptions options, size_t threads) : book(options) {
    typename BookType::User user(&book);
    // Room for one more pod of 1 GPU than the claims take, on each machine.
    const auto gpus = static_cast<int64_t>(2 * threads + 1);
    user.Edit(std::vector{PutMachine(0, gpus), PutMachine(1, gpus)});
    for (size_t i = 0; i < threads; ++i) {
      Join({0, 1});
      Hold({0}, Book::kBoth);
      Hold({1}, Book::kPlanned);
    }
    begin = PlainOf(user.Read(), kMachines);
  }

 protected:
  explicit WorldOf(MachineBookOptions options) : book(options) {}
  void Join(std::vector<uint32_t> machines) {
    workers.push_back(std::make_unique<Worker<BookType>>(&book, std::move(machines), [this] { return ++now; }));
  }
  // The last worker gets a claim of 2 GPUs.
  void Hold(MachineIndex machine, Book books) {
    typename BookType::User& user = workers.back()->user();
    const GangPlacement placement = {{PodNeeds({{kGpu, 2}}), {user.Read().PlaceOn(machine, 1)}}};
    user.EndRead();
    MUSTER_CHECK(user.Reserve(placement, books, &workers.back()->claims().emplace_back()).done());
  }

 public:
  // What there is in the end belongs to what was seen. RETURNS: what is wrong; empty: nothing.
  std::string Judge() {
    workers[0]->Read();
    std::vector<Recorded> history;
    for (const auto& worker : workers) {
      history.insert(history.end(), worker->history().begin(), worker->history().end());
    }
    if (!IsLinearizable(begin, history)) return "not linearizable";
    if (!VersionsAreAnOrder(begin, history)) return "versions are no order";
    if (!Recount(workers[0]->user().Read())) return "the sums are wrong";
    return "";
  }
};

using World = WorldOf<ExploredBook>;

// Explores the acts against each other. RETURNS: how it went; `wrong` gets the first fault.
Explored ExploreActs(const std::vector<const Act*>& acts, MachineBookOptions options, uint64_t orders_max,
                     std::string* wrong) {
  return Explore(
      [&acts, options, wrong] {
        auto world = std::make_shared<World>(options, acts.size());
        Program program;
        for (size_t i = 0; i < acts.size(); ++i) {
          program.threads.push_back([world, i, act = acts[i]] { act->run(world->workers[i].get()); });
        }
        program.end = [world, wrong] {
          if (wrong->empty()) *wrong = world->Judge();
        };
        return program;
      },
      orders_max);
}

const bool is_long = std::getenv("MUSTER_LONG") != nullptr;

constexpr bool kAll = MUSTER_ONE_OF == 1;  // orders are explored, where they can be
// As many orders as are run, where all are too many.
uint64_t OrdersMax(uint64_t in_short) { return (is_long ? 100'000 : in_short) / MUSTER_ONE_OF; }

TEST_CASE("All orders of any two operations are linearizable", "[explore]") {
  uint64_t orders = 0;
  for (const uint32_t patience : {8u, 0u}) {
    for (size_t a = 0; a < Acts().size(); ++a) {
      for (size_t b = a; b < Acts().size(); ++b) {
        std::string wrong;
        // Without scans: what is freed when has a case of its own below.
        const MachineBookOptions options{patience, 64};
        // With patience 0 all is published for others, some 9,000 orders of two; with somebody who does two, millions.
        const bool too_many = patience == 0 ? Acts()[a].two || Acts()[b].two : Acts()[a].two && Acts()[b].two;
        const bool many = patience == 0 || too_many;
        const uint64_t orders_max = OrdersMax(many ? 1'000 : 20'000);
        const Explored explored = ExploreActs({&Acts()[a], &Acts()[b]}, options, orders_max, &wrong);
        INFO(Acts()[a].name << " and " << Acts()[b].name << ", patience " << patience << ": " << explored.orders
                            << " orders, " << explored.redundant << " broken off, " << explored.steps << " steps");
        CHECK(wrong.empty());
        if (kAll && (!many || (is_long && !too_many))) CHECK(explored.all);
        if (is_long && !explored.all) {
          WARN("not all orders: " << Acts()[a].name << " and " << Acts()[b].name << ", patience " << patience);
        }
        orders += explored.orders;
      }
    }
  }
  CHECK(orders > 20'000 / MUSTER_ONE_OF);
}

// Two chunks, of which each thread has one: it holds a claim in both books there, and a planned one.
constexpr uint32_t kFar = kChunkMachines;

struct ApartWorld : World {
  explicit ApartWorld(MachineBookOptions options) : World(options) {
    ExploredBook::User user(&book);
    user.Edit(std::vector{PutMachine(0, 5), PutMachine(kFar, 5)});
    for (const uint32_t machine : {0U, kFar}) {
      Join({0, kFar});
      Hold({machine}, Book::kBoth);
      Hold({machine}, Book::kPlanned);
    }
    begin = PlainOf(user.Read(), kFar + 1);
  }
  uint64_t Rebased() {
    uint64_t rebased = 0;
    for (const auto& worker : workers) rebased += worker->user().counts().rebased;
    return rebased;
  }
};

GangRequest GangFrom(uint32_t origin, int64_t pods, Book books = Book::kBoth) {
  GangRequest request = Gang(pods, 1, books);
  request.origin = origin;
  return request;
}

struct ActApart {
  std::string name;
  std::function<void(ExploredWorker*, uint32_t thread)> run;
  bool changes = true;  // claims alone, and in its own chunk alone
};

const std::vector<ActApart>& ActsApart() {
  static const std::vector<ActApart> acts = {
      {"place", [](ExploredWorker* w, uint32_t thread) { w->Place(GangFrom(thread, 1)); }},
      {"plan", [](ExploredWorker* w, uint32_t thread) { w->Place(GangFrom(thread, 1, Book::kPlanned)); }},
      {"release", [](ExploredWorker* w, uint32_t) { w->Release(0); }},
      {"leave", [](ExploredWorker* w, uint32_t) { w->Leave(0); }},
      {"start", [](ExploredWorker* w, uint32_t) { w->Start(1); }},
      {"place in both chunks", [](ExploredWorker* w, uint32_t thread) { w->Place(GangFrom(thread, 2)); }, false},
      {"place in vain", [](ExploredWorker* w, uint32_t thread) { w->Place(GangFrom(thread, 9)); }, false},
      {"read", [](ExploredWorker* w, uint32_t) { w->Read(); }, false},
      {"adjust",
       [](ExploredWorker* w, uint32_t) {
         w->Edit({AdjustMachine(0, 1), AdjustMachine(kFar, -1)});
       },
       false},
      {"remove", [](ExploredWorker* w, uint32_t) { w->Edit({RemoveMachine(0)}); }, false},
      {"put", [](ExploredWorker* w, uint32_t) { w->Edit({PutMachine(kFar - 1, 3)}); }, false},
  };
  return acts;
}

TEST_CASE("All orders of any two operations in different chunks are linearizable", "[explore]") {
  // What is replaced is kept until the end; is made the next version of as soon as nobody can see it; or is freed then.
  const MachineBookOptions options =
      GENERATE(MachineBookOptions{8, 64}, MachineBookOptions{8, 1}, MachineBookOptions{8, 1, 0});
  for (const ActApart& a : ActsApart()) {
    for (const ActApart& b : ActsApart()) {
      std::string wrong;
      uint64_t rebased = 0;
      const Explored explored = Explore(
          [&] {
            auto world = std::make_shared<ApartWorld>(options);
            Program program;
            program.threads.push_back([world, &a] { a.run(world->workers[0].get(), 0); });
            program.threads.push_back([world, &b] { b.run(world->workers[1].get(), 1); });
            program.end = [world, &wrong, &rebased] {
              if (wrong.empty()) wrong = world->Judge();
              rebased += world->Rebased();
            };
            return program;
          },
          OrdersMax(20'000));
      INFO(a.name << " and " << b.name << ": " << explored.orders << " orders, " << rebased << " rebased");
      CHECK(wrong.empty());
      if (!kAll) continue;
      CHECK(explored.all);
      // In some order either of them loses, and in that its chunk stands as it was.
      if (a.changes && b.changes) CHECK(rebased > 1);
    }
  }
}

TEST_CASE("Orders of three operations are linearizable", "[explore]") {
  const auto act = [](const std::string& name) {
    for (const Act& one : Acts()) {
      if (one.name == name) return &one;
    }
    abort();
  };
  // How many orders there are, with those that are broken off; 0: too many.
  const std::vector<std::pair<std::vector<const Act*>, uint64_t>> triples = {
      {{act("place"), act("place"), act("read")}, 146},
      {{act("place"), act("release"), act("remove")}, 27'797},
      {{act("leave"), act("plan"), act("start")}, 3'395},
      {{act("place"), act("adjust"), act("place and release")}, 0},
      {{act("reserve"), act("reserve"), act("put")}, 6'976},
  };
  for (const auto& [triple, of_all] : triples) {
    std::string wrong;
    const uint64_t orders_max = OrdersMax(4'000);
    const Explored explored = ExploreActs(triple, {8, 64}, orders_max, &wrong);
    const std::string names = triple[0]->name + ", " + triple[1]->name + ", " + triple[2]->name;
    INFO(names << ": " << explored.orders);
    CHECK(wrong.empty());
    if (kAll) CHECK(explored.all == (of_all > 0 && of_all <= orders_max));
    if (explored.all) CHECK(explored.orders + explored.redundant == of_all);
    if (is_long && !explored.all) WARN("not all orders: " << names);
  }
}

// A root whose swap does not look at what is there: who loses a race does not know it.
struct BlindAtomics {
  // What was swapped away, of which nobody may know any more: for ever, or it would be a leak.
  static std::vector<const BookSnapshot*>& Lost() {
    static auto* const lost = new std::vector<const BookSnapshot*>;
    return *lost;
  }
  template <typename T>
  class Atomic : public ExploredAtomics::Atomic<T> {
   public:
    using ExploredAtomics::Atomic<T>::Atomic;
    template <typename... Order>
    bool compare_exchange_strong(T& expected, T value, Order... order) {
      if constexpr (std::is_same_v<T, const BookSnapshot*>) {
        Lost().push_back(this->exchange(value));
        return true;
      } else {
        return ExploredAtomics::Atomic<T>::compare_exchange_strong(expected, value, order...);
      }
    }
  };
};

struct Judged {
  Explored explored;
  uint64_t objections = 0;
};

// Two threads that do the same, in all orders.
template <typename Atomics>
Judged JudgeTwice(const std::function<void(Worker<BasicMachineBook<Atomics>>*)>& act) {
  using BookType = BasicMachineBook<Atomics>;
  // For ever: both who swapped a broken book's root would free the one before.
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  Judged judged;
  judged.explored = Explore(
      [&] {
        auto world = std::make_shared<WorldOf<BookType>>(MachineBookOptions{8, 64}, 2);
        if constexpr (std::is_same_v<Atomics, BlindAtomics>) kept->push_back(world);
        Program program;
        for (const auto& worker : world->workers) {
          program.threads.push_back([world, act, who = worker.get()] { act(who); });
        }
        program.end = [world, &judged] { judged.objections += world->Judge().empty() ? 0 : 1; };
        return program;
      },
      20'000);
  return judged;
}

template <typename Atomics>
std::vector<Judged> JudgeEach() {
  using WorkerType = Worker<BasicMachineBook<Atomics>>;
  return {JudgeTwice<Atomics>([](WorkerType* w) { w->Place(Gang(2, 1)); }),  // there is room for one of them
          JudgeTwice<Atomics>([](WorkerType* w) { w->Release(0); }),
          JudgeTwice<Atomics>([](WorkerType* w) { w->Start(1); }),
          JudgeTwice<Atomics>([](WorkerType* w) { w->Edit({AdjustMachine(0, 1)}); })};
}

TEST_CASE("On the book with a swap that loses updates, the exploration finds them, and the judge objects",
          "[explore]") {
  for (const Judged& judged : JudgeEach<BlindAtomics>()) {
    CHECK(judged.explored.all);
    CHECK(judged.objections > 0);
    CHECK(judged.objections < judged.explored.orders);  // not where one comes after the other
  }
  for (const Judged& judged : JudgeEach<ExploredAtomics>()) {
    CHECK(judged.explored.all);
    CHECK(judged.objections == 0);
  }
}

// How many orders there are is known here.
TEST_CASE("The exploration runs each order once", "[explore]") {
  bool lost = false;
  const Explored explored = Explore(
      [&lost] {
        auto room = std::make_shared<ExploredAtomics::Atomic<int>>(2);
        Program program;
        for (int i = 0; i < 2; ++i) {
          program.threads.push_back([room] { room->store(room->load() - 1); });
        }
        program.end = [room, &lost] { lost |= room->load() != 0; };
        return program;
      },
      1000);
  CHECK(lost);
  CHECK(explored.all);
  // Of the six orders, only loads commute with each other: one after the other, two ways; both loads first, two ways.
  CHECK(explored.orders == 4);
}

// ---- reclamation --------------------------------------------------------------------------------

struct Thing {
  uint64_t birth = 0;
  bool alive = true;
};

struct Nothing {};
using ExploredDomain = EpochDomain<ExploredAtomics, Nothing>;

TEST_CASE("Nothing is freed while it is read, in any order of a reader and two writers", "[explore]") {
  bool read_dead = false;
  bool leaked = false;
  const Explored explored = Explore(
      [&] {
        struct State {
          // Freed with the program only, so that a late reader can tell.
          std::vector<std::unique_ptr<Thing>> things;
          ExploredDomain domain{1};
          ExploredAtomics::Atomic<const Thing*> root{nullptr};
          std::vector<std::unique_ptr<ExploredDomain::Participant>> participants;
          const Thing* Make(ExploredDomain::Participant* participant) {
            const uint64_t birth = participant->Now();  // a step: others may make things meanwhile
            things.push_back(std::make_unique<Thing>(Thing{birth, true}));
            return things.back().get();
          }
        };
        auto state = std::make_shared<State>();
        for (int i = 0; i < 3; ++i) {
          state->participants.push_back(std::make_unique<ExploredDomain::Participant>(&state->domain));
        }
        state->root.store(state->Make(state->participants[0].get()));
        Program program;
        for (size_t i = 0; i < 2; ++i) {
          program.threads.push_back([state, self = state->participants[i].get()] {
            const Thing* made = state->Make(self);
            const Thing* old = state->root.exchange(made);
            // Marked only.
            const Garbage garbage[] = {{old->birth, const_cast<Thing*>(old), [](void* dead) {
                                          static_cast<Thing*>(dead)->alive = false;
                                          static_cast<Thing*>(dead)->birth = 0;
                                        }}};
            self->Retire(garbage);
          });
        }
        program.threads.push_back([state, &read_dead, self = state->participants[2].get()] {
          const Thing* thing = self->Protect(0, state->root);
          explore::Step(nullptr, false);
          read_dead |= !thing->alive;
          self->Clear(0);
        });
        program.end = [state, &leaked] {
          state->participants.clear();
          size_t alive = 0;
          for (const auto& thing : state->things) alive += thing->alive ? 1 : 0;
          leaked |= alive != 1;  // what the root points to
        };
        return program;
      },
      50'000);
  CHECK_FALSE(read_dead);
  CHECK_FALSE(leaked);
  INFO(explored.orders << " orders");
  CHECK(explored.orders > 100);
}

// ---- parking ------------------------------------------------------------------------------------

TEST_CASE("No wake-up is lost, in any order of parking and gaining", "[explore]") {
  for (const bool helped : {false, true}) {
    bool slept_through = false;
    int looked_again = 0;
    int woken = 0;
    const Explored explored = Explore(
        [&] {
          struct State {
            ExploredBook book;
            ExploredBook::User releaser{&book};
            ExploredBook::User waiter{&book};
            Claim claim;
            std::unique_ptr<ParkingTicket> ticket;
            bool called = false;
            explicit State(MachineBookOptions options) : book(options) {}
            ~State() {
              if (ticket != nullptr) waiter.Unpark(std::move(ticket));
            }
          };
          auto state = std::make_shared<State>(MachineBookOptions{helped ? 0u : 8u, 1, 0});
          state->releaser.Edit(std::vector{PutMachine(0, 2)});
          MUSTER_CHECK(state->releaser.Place(Gang(1, 2), &state->claim).done());
          const uint64_t searched = state->releaser.Read().version;
          state->releaser.EndRead();
          Program program;
          program.threads.push_back([state] { state->releaser.Release(&state->claim); });
          program.threads.push_back([state, searched] {
            Waiter who;
            who.pod_sets = Gang(1, 1).pod_sets;
            who.wake = [state_raw = state.get()] { state_raw->called = true; };
            state->ticket = state->waiter.Park(std::move(who), searched);
          });
          program.end = [state, &slept_through, &looked_again, &woken] {
            if (state->ticket == nullptr) {
              ++looked_again;
            } else if (state->called) {
              ++woken;
              slept_through |= !state->ticket->woken();
            } else {
              slept_through = true;
            }
          };
          return program;
        },
        50'000);
    INFO(explored.orders << " orders");
    CHECK_FALSE(slept_through);
    CHECK(looked_again + woken > 100);
    if (helped) continue;
    CHECK(looked_again > 0);
    CHECK(woken > 0);
    CHECK(explored.all);
  }
}

}  // namespace
}  // namespace muster::gang
