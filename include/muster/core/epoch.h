// When memory that a lock-free structure has unlinked may be freed: once nobody can be reading it any more.
//
// A clock of eras ticks with each batch of unlinked objects. An object's life is the interval from the era in which
// it was made to the one in which it was unlinked. Who wants to follow a shared pointer publishes the era, loads the
// pointer, and is done if the era is still the same; an object is freed when its life holds no published era.
//
// Protocol.
//   Protect  e = era; loop { pin = e; p = *source; if era == e: done; e = era }
//   Retire   (after the unlinking) death = era++; from time to time: read all pins, free what none of them meets
// Why that is right. (1) p was made before it was linked, so its birth is no later than the era that is read after
// it: birth <= e, by the second look at the clock. (2) If p had been unlinked and retired before e was published,
// e would be later than its death, and whoever sees such an e sees the unlinking too, so it would not have loaded p:
// e <= death. (3) A scan that misses the pin came before it in the one order of all sequentially consistent
// operations, so the unlinking came before the load, which then does not give p.
//
// Progress. Retire, Clear and scans are wait-free but for memory allocation. Protect is lock-free: it repeats only
// because somebody else has ended an operation in between. Joining is lock-free.
//
// Memory. A participant that stops for ever, at whatever step, holds back nobody. It can pin, for each of its kPins
// pins, the objects that were alive in one era, which is one snapshot of the structure, plus what was unlinked within
// that era: one batch a participant at most, since each ends the era that it unlinked in. Beside what pins hold back,
// a participant keeps at most `scan_batch` objects, or twice what the last scan could not free, and the batch at hand.
// (With epoch-based reclamation in the narrow sense, one stopped reader holds back everything; hence intervals.)
//
// Sources: Fraser, "Practical lock-freedom" (2004), for epochs; Ramalhete and Correia, "Hazard Eras" (SPAA 2017) and
// Wen et al., "Interval-based memory reclamation" (PPoPP 2018), for eras and lifetimes; the argument for persistent
// structures with one root is the latter's POIBR.
//
// Threading: a Participant is used by one thread at a time; everything else is safe for concurrent use. Participants
// must be gone before the domain.
#pragma once

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "muster/core/check.h"

namespace muster {

// An object that cannot be reached any more by those who come now.
struct Garbage {
  uint64_t birth = 0;  // the era when it was made
  void* object = nullptr;
  void (*destroy)(void*) = nullptr;
};

template <typename T>
void DestroyGarbage(void* dead) {
  delete static_cast<T*>(dead);
}

template <typename T>
Garbage GarbageOf(const T* object, uint64_t birth) {
  return {birth, const_cast<T*>(object), &DestroyGarbage<T>};
}

// `Shared` is what each participant shows to the others beside its pins; it outlives the participant, and the next
// one that takes over the record finds it as it was left.
template <typename Atomics, typename Shared>
class EpochDomain {
  template <typename T>
  using Atomic = typename Atomics::template Atomic<T>;

 public:
  static constexpr size_t kPins = 4;

 private:
  static constexpr uint64_t kNone = 0;  // eras begin with 1

  struct Retired {
    Garbage garbage;
    uint64_t death = 0;
  };

  // On cache lines of its own: pins are written at each operation.
  struct alignas(128) Record {
    std::array<Atomic<uint64_t>, kPins> pins{};
    Atomic<bool> taken{true};
    Record* next = nullptr;
    // Of whoever has taken the record:
    std::vector<Retired> retired;
    size_t scan_at = 0;

    Shared shared;
  };

 public:
  explicit EpochDomain(size_t scan_batch = 64) : scan_batch_(scan_batch) {}
  EpochDomain(const EpochDomain&) = delete;
  EpochDomain& operator=(const EpochDomain&) = delete;
  ~EpochDomain() {
    // Nobody else is left, so the order of this load is of no matter.
    Record* record = head_.load(std::memory_order_acquire);
    while (record != nullptr) {
      for (const Retired& dead : record->retired) dead.garbage.destroy(dead.garbage.object);
      delete std::exchange(record, record->next);
    }
  }

  class Participant {
   public:
    explicit Participant(EpochDomain* domain) : domain_(domain), record_(domain->Join()) {}
    Participant(const Participant&) = delete;
    Participant& operator=(const Participant&) = delete;
    ~Participant() {
      for (size_t pin = 0; pin < kPins; ++pin) Clear(pin);
      Scan([](const Garbage&) { return false; });
      // release: the next owner (acquire in Join) finds the list of what is still to be freed.
      record_->taken.store(false, std::memory_order_release);
    }

    // The era that an object made now is born in.
    uint64_t Now() const {
      // acquire: pairs with the tick in Retire; any older era would be right as well, only less precise.
      return domain_->era_.load(std::memory_order_acquire);
    }

    // RETURNS: what `source` points to, which is not freed before the pin is cleared or used again.
    template <typename T>
    T* Protect(size_t pin, const Atomic<T*>& source) {
      // acquire: pairs with the tick in Retire, see (2) above.
      uint64_t era = domain_->era_.load(std::memory_order_acquire);
      while (true) {  // ends unless the clock has ticked: then somebody else's operation has ended
        // seq_cst, both: a scan that misses the pin has come before it, and its unlinking before our load. See (3).
        record_->pins[pin].store(era, std::memory_order_seq_cst);
        T* object = source.load(std::memory_order_seq_cst);
        // acquire: as above; not reordered with the load before it, which is an acquire, too.
        const uint64_t now = domain_->era_.load(std::memory_order_acquire);
        if (now == era) return object;
        era = now;
      }
    }

    void Clear(size_t pin) {
      // release: our reads of what was pinned come before whatever a scan does that sees this.
      record_->pins[pin].store(kNone, std::memory_order_release);
    }

    // Takes over what has been unlinked. REQUIRES: by sequentially consistent operations.
    void Retire(std::span<const Garbage> unlinked) {
      Retire(unlinked, [](const Garbage&) { return false; });
    }
    // As above; `keep` is called for each object that nobody can be reading any more, and says whether it takes it.
    template <typename F>
    void Retire(std::span<const Garbage> unlinked, F keep) {
      if (unlinked.empty()) return;
      // acq_rel: whoever reads a later era sees the unlinking (release), and we see those of earlier eras (acquire).
      const uint64_t death = domain_->era_.fetch_add(1, std::memory_order_acq_rel);
      for (const Garbage& garbage : unlinked) record_->retired.push_back({garbage, death});
      if (record_->retired.size() >= std::max(record_->scan_at, domain_->scan_batch_)) Scan(keep);
    }

    // Objects that wait to be freed by this participant.
    size_t unfreed() const { return record_->retired.size(); }
    Shared& shared() { return record_->shared; }

   private:
    template <typename F>
    void Scan(F keep) {
      absl::InlinedVector<uint64_t, 16> pinned;
      domain_->ForEachRecord([&](const Record& record) {
        for (const Atomic<uint64_t>& pin : record.pins) {
          // seq_cst: see (3). Also an acquire, which pairs with Clear: the reads before it are over.
          const uint64_t era = pin.load(std::memory_order_seq_cst);
          if (era != kNone) pinned.push_back(era);
        }
      });
      std::sort(pinned.begin(), pinned.end());
      std::vector<Retired>& retired = record_->retired;
      const auto dead = std::partition(retired.begin(), retired.end(), [&](const Retired& object) {
        const auto first = std::lower_bound(pinned.begin(), pinned.end(), object.garbage.birth);
        return first != pinned.end() && *first <= object.death;
      });
      for (auto it = dead; it != retired.end(); ++it) {
        if (!keep(it->garbage)) it->garbage.destroy(it->garbage.object);
      }
      retired.erase(dead, retired.end());
      // A scan costs as much as what it leaves, so the next one waits until there is as much again.
      record_->scan_at = 2 * retired.size();
    }

    EpochDomain* domain_;
    Record* record_;
  };

  // Calls for each that takes part or has taken part.
  template <typename F>
  void ForEachShared(F visit) const {
    ForEachRecord([&](const Record& record) { visit(record.shared); });
  }

 private:
  template <typename F>
  void ForEachRecord(F visit) const {
    // seq_cst: a scan must not miss the record of somebody who has pinned; acquire alone would let it read an old head.
    for (const Record* record = head_.load(std::memory_order_seq_cst); record != nullptr; record = record->next) {
      visit(*record);
    }
  }

  Record* Join() {
    // acquire: pairs with the push below; the record's fields are there.
    for (Record* record = head_.load(std::memory_order_acquire); record != nullptr; record = record->next) {
      bool taken = false;
      // acquire: pairs with the release of whoever had it; nothing to see on failure.
      if (record->taken.compare_exchange_strong(taken, true, std::memory_order_acquire, std::memory_order_relaxed)) {
        return record;
      }
    }
    auto* record = new Record;
    // acquire: so that record->next, which readers follow, is whole.
    record->next = head_.load(std::memory_order_acquire);
    // seq_cst: comes before our first pin in the order that scans rely on; release is part of it.
    while (!head_.compare_exchange_strong(record->next, record, std::memory_order_seq_cst, std::memory_order_acquire)) {
    }
    return record;
  }

  const size_t scan_batch_;
  Atomic<uint64_t> era_{1};
  Atomic<Record*> head_{nullptr};
};

}  // namespace muster
