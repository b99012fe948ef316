// The protocol of parking_lot.h, for whichever atomics.
#pragma once

#include <algorithm>
#include <tuple>
#include <utility>

#include "muster/core/check.h"
#include "muster/gang/parking_lot.h"

namespace muster::gang {

template <typename Atomics, typename Participant>
class ParkingLot<Atomics, Participant>::Ticket final : public ParkingTicket {
 public:
  explicit Ticket(Parked* parked) : parked_(parked) {}
  bool woken() const override {
    // acquire: pairs with the exchange in Tell; what was gained is then seen as well.
    return parked_->woken.load(std::memory_order_acquire);
  }
  Parked* parked() const { return parked_; }

 private:
  Parked* parked_;
};

template <typename Atomics, typename Participant>
ParkingLot<Atomics, Participant>::~ParkingLot() {
  // Nobody else is left, so any order would do.
  const List* list = list_.load(std::memory_order_acquire);
  MUSTER_CHECK(list == nullptr || list->waiters.empty());
  delete list;
}

template <typename Atomics, typename Participant>
bool ParkingLot<Atomics, Participant>::Before(const Waiter& a, const Waiter& b) {
  return std::tuple(-a.priority, a.queue_time_ns, a.id) < std::tuple(-b.priority, b.queue_time_ns, b.id);
}

template <typename Atomics, typename Participant>
bool ParkingLot<Atomics, Participant>::empty() const {
  // seq_cst: after the swap of the root, see parking_lot.h.
  return list_.load(std::memory_order_seq_cst) == nullptr;
}

// Swaps the list for one that `edit` has changed.
template <typename Atomics, typename Participant>
template <typename F>
void ParkingLot<Atomics, Participant>::Change(Participant* participant, size_t pin, F edit) {
  while (true) {  // repeats only if somebody else has parked or left
    const List* old = participant->Protect(pin, list_);
    auto next = std::make_unique<List>();
    if (old != nullptr) next->waiters = old->waiters;
    edit(&next->waiters);
    next->birth = participant->Now();
    if (next->waiters.empty()) next.reset();
    const List* expected = old;
    // seq_cst: comes before our next look at the book's root; release, so that the waiter is seen whole.
    if (list_.compare_exchange_strong(expected, next.get(), std::memory_order_seq_cst, std::memory_order_relaxed)) {
      (void)next.release();
      participant->Clear(pin);
      if (old == nullptr) return;
      const Garbage garbage[] = {GarbageOf(old, old->birth)};
      participant->Retire(garbage);
      return;
    }
  }
}

template <typename Atomics, typename Participant>
std::unique_ptr<ParkingTicket> ParkingLot<Atomics, Participant>::Park(Participant* participant, size_t pin,
                                                                      Waiter waiter, uint64_t searched) {
  auto* parked = new Parked(participant->Now(), std::move(waiter), searched);
  Change(participant, pin, [&](std::vector<Parked*>* waiters) {
    const auto at = std::upper_bound(waiters->begin(), waiters->end(), parked,
                                     [](const Parked* a, const Parked* b) { return Before(a->waiter, b->waiter); });
    waiters->insert(at, parked);
  });
  return std::make_unique<Ticket>(parked);
}

template <typename Atomics, typename Participant>
void ParkingLot<Atomics, Participant>::Unpark(Participant* participant, size_t pin,
                                              std::unique_ptr<ParkingTicket> ticket) {
  Parked* parked = static_cast<Ticket&>(*ticket).parked();
  Change(participant, pin, [&](std::vector<Parked*>* waiters) {
    const auto at = std::find(waiters->begin(), waiters->end(), parked);
    MUSTER_CHECK(at != waiters->end());
    waiters->erase(at);
  });
  const Garbage garbage[] = {GarbageOf(parked, parked->birth)};
  participant->Retire(garbage);
}

template <typename Atomics, typename Participant>
void ParkingLot<Atomics, Participant>::Tell(Participant* participant, size_t pin, std::span<const MachineIndex> gained,
                                            const Commit& commit) {
  // acquire: pairs with the release below: those that were told of are awake.
  uint64_t told = told_.load(std::memory_order_acquire);
  // Somebody before us has swapped but not told yet, or never will: then what it gained is told here, too.
  const bool all = told < commit.before->version;
  const List* list = all || !gained.empty() ? participant->Protect(pin, list_) : nullptr;
  if (list != nullptr) {
    for (Parked* parked : list->waiters) {
      const bool eligible = (all && GainedSince(*commit.before, parked->waiter, parked->searched)) ||
                            CouldUse(*commit.now, parked->waiter, gained);
      // acq_rel: only one wakes, and who is woken sees the gain.
      if (eligible && !parked->woken.exchange(true, std::memory_order_acq_rel)) parked->waiter.wake();
    }
  }
  participant->Clear(pin);
  // Not further than our own commit: later ones are told by those who made them.
  while (told < commit.version) {  // repeats only if somebody else has told of more
    // release: as above; acquire on failure for the same reason.
    if (told_.compare_exchange_strong(told, commit.version, std::memory_order_release, std::memory_order_acquire))
      return;
  }
}

}  // namespace muster::gang
