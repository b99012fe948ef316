// Who waits for room on machines, and is woken when some is gained that could matter.
//
// Protocol. A waiter says at which version its search failed. It is linked in, then the book's root is loaded again:
// if a resource that it asks for was gained since that version, it must look again; else it sleeps. Whoever gains swaps
// the root, then loads the list of waiters, and wakes those for whom a pod has a place on a machine that gained. All
// four are sequentially consistent, so either the waiter sees the gain or the gainer sees the waiter: no wake-up is
// lost. A gainer that stops between the swap and the waking is covered by the next commit of anybody: it sees that
// not all is told up to the version that it began with, and goes by resource instead of by machine.
//
// Order: higher priority first, then earlier queue time, then smaller id, across all cohort trees. All who are eligible
// are woken, in that order, since the oldest may not be able to use the room (its quota may be gone), and a decider
// that has stopped must not keep the rest asleep.
//
// The list is immutable and swapped as a whole, so parking takes time with the number of waiters: park one for each
// distinct need of a tree, the oldest, not each gang.
//
// Threading: safe for concurrent use, each caller with a participant of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "muster/core/epoch.h"
#include "muster/gang/book_snapshot.h"
#include "muster/gang/machine_search.h"

namespace muster::gang {

struct Waiter {
  uint64_t id = 0;
  int64_t priority = 0;
  int64_t queue_time_ns = 0;
  std::vector<PodSetRequest> pod_sets;
  Book books = Book::kBoth;
  // Called on the thread of whoever gained, once, and must not block: it posts to where the waiter lives. May still be
  // under way when Unpark returns, so it owns what it needs.
  std::function<void()> wake;
};

// A waiter that is parked. Opaque: goes back to Unpark.
class ParkingTicket {
 public:
  virtual ~ParkingTicket() = default;
  virtual bool woken() const = 0;
};

template <typename Atomics, typename Participant>
class ParkingLot {
  template <typename T>
  using Atomic = typename Atomics::template Atomic<T>;

 public:
  ParkingLot() = default;
  ParkingLot(const ParkingLot&) = delete;
  ParkingLot& operator=(const ParkingLot&) = delete;
  // Nobody may be parked.
  ~ParkingLot();

  // Links the waiter in. The caller then looks at the book again, see above.
  std::unique_ptr<ParkingTicket> Park(Participant* participant, size_t pin, Waiter waiter, uint64_t searched);
  void Unpark(Participant* participant, size_t pin, std::unique_ptr<ParkingTicket> ticket);

  // After a commit: wakes who may be able to use what was gained on these machines.
  struct Commit {
    const BookSnapshot* before = nullptr;
    const BookSnapshot* now = nullptr;  // what it led to, or a later one
    uint64_t version = 0;               // what it led to
  };
  void Tell(Participant* participant, size_t pin, std::span<const MachineIndex> gained, const Commit& commit);
  // Nobody is parked: there is nobody to tell.
  bool empty() const;

 private:
  struct Parked {
    Parked(uint64_t born, Waiter who, uint64_t version) : birth(born), waiter(std::move(who)), searched(version) {}
    uint64_t birth;
    Waiter waiter;
    uint64_t searched;
    Atomic<bool> woken{false};
  };
  struct List {
    uint64_t birth = 0;
    std::vector<Parked*> waiters;
  };
  class Ticket;

  static bool Before(const Waiter& a, const Waiter& b);
  template <typename F>
  void Change(Participant* participant, size_t pin, F edit);

  Atomic<const List*> list_{nullptr};
  // Everybody was told of what was gained up to this version.
  Atomic<uint64_t> told_{0};
};

// Whether a resource that these ask for was gained after `version`.
bool GainedSince(const BookSnapshot& book, const Waiter& waiter, uint64_t version);
// Whether one of its pods has a place on one of the machines.
bool CouldUse(const BookSnapshot& book, const Waiter& waiter, std::span<const MachineIndex> machines);

}  // namespace muster::gang
