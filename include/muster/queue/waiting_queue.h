// The workloads that wait in one ClusterQueue: which of them is the head, and which are parked.
//
// Equal workloads (same equivalence, same lane) are kept together in one class. What holds for one of them
// holds for all, so a class is parked and woken as a whole: that costs the same for one member as for a
// hundred thousand.
//
// Order (kueue_semantics 4.1): higher priority, earlier queue time, smaller uid.
// Threading: needs external synchronisation.
#pragma once

#include <absl/container/btree_set.h>
#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "muster/core/time.h"

namespace muster::queue {

enum class Strategy : uint8_t { kBestEffortFIFO, kStrictFIFO };

enum class Place : uint8_t {
  kOut,
  kActive,      // to be looked at in its turn
  kParked,      // known not to fit until something changes
  kBackingOff,  // not before a time
};

class WaitingQueue;

// One waiting workload as the queue sees it. Owned by its workload; the address must not change while it is
// in a queue, nor may the fields above the line.
struct Ticket {
  int64_t priority = 0;
  WallTime queue_time;
  std::string_view uid;      // points into the workload
  WallTime not_before;       // unset: at once
  uint64_t equivalence = 0;  // equal for workloads that fit, or fail to, alike
  uint32_t lane = 0;         // LocalQueue

  // ---- kept by the queue
  Place place() const { return place_; }

 private:
  friend class WaitingQueue;
  Place place_ = Place::kOut;
  int64_t untold_index_ = -1;
};

struct Earlier {
  bool operator()(const Ticket* a, const Ticket* b) const {
    if (a->priority != b->priority) return a->priority > b->priority;
    if (a->queue_time != b->queue_time) return a->queue_time < b->queue_time;
    return a->uid < b->uid;
  }
};

struct Counts {
  int64_t active = 0;
  int64_t inadmissible = 0;  // parked or backing off
  friend bool operator==(const Counts&, const Counts&) = default;
};

class WaitingQueue {
 public:
  WaitingQueue() = default;
  WaitingQueue(const WaitingQueue&) = delete;
  WaitingQueue& operator=(const WaitingQueue&) = delete;

  // With StrictFIFO nobody is ever passed over for being like another that failed. A change forgets which
  // equivalences failed.
  void SetStrategy(Strategy strategy) {
    if (strategy != strategy_) bypassed_.clear();
    strategy_ = strategy;
  }
  Strategy strategy() const { return strategy_; }

  // Takes `ticket` in: to back off, if its time has not come; parked, if its like is known not to fit
  // (BestEffortFIFO); else to be looked at. REQUIRES: it is in no queue.
  void Push(Ticket* ticket, WallTime now);
  // REQUIRES: it is in this queue.
  void Remove(Ticket* ticket);

  // The first of the active ones; null if none.
  Ticket* Head() const;
  // REQUIRES: it is active.
  void Park(Ticket* ticket);
  // Parks `ticket` and with it every active one of the same equivalence; those that come later are parked
  // on arrival, until Wake. `note` says why (any small number). RETURNS: the members other than `ticket`
  // who have not been returned with this note before.
  std::vector<Ticket*> ParkEquivalents(Ticket* ticket, uint8_t note);
  bool IsBypassed(uint64_t equivalence) const { return bypassed_.contains(equivalence); }

  // Makes every parked workload active whose lane is `eligible`, and forgets which equivalences failed.
  // RETURNS: whether any became active.
  bool Wake(const std::function<bool(uint32_t lane)>& eligible);
  // Takes in those whose time has come. RETURNS: whether there were any.
  bool ReleaseDue(WallTime now);
  // When the next back-off ends; unset: never.
  WallTime NextDue() const;

  bool HasParked() const { return !parked_classes_.empty() || !bypassed_.empty(); }
  Counts counts() const { return total_; }
  Counts CountsOfLane(uint32_t lane) const;
  bool empty() const { return total_ == Counts{}; }
  // Lanes whose counts have changed since the last call.
  std::vector<uint32_t> TakeTouchedLanes();
  // Every ticket in queue order, whatever its place. Linear.
  std::vector<Ticket*> InOrder() const;

  // Recounts, and aborts on any difference.
  void Validate() const;

 private:
  using Members = absl::btree_set<Ticket*, Earlier>;
  struct Class {
    uint64_t equivalence = 0;
    uint32_t lane = 0;
    Members active;
    Members parked;
    std::vector<Ticket*> untold;  // not yet returned by ParkEquivalents
    uint8_t note = 0;             // of the last ParkEquivalents; 0: none
  };
  struct ByHead {
    bool operator()(const Class* a, const Class* b) const { return Earlier()(*a->active.begin(), *b->active.begin()); }
  };
  struct ByDue {
    bool operator()(const Ticket* a, const Ticket* b) const {
      if (a->not_before != b->not_before) return a->not_before < b->not_before;
      return a->uid < b->uid;
    }
  };
  struct ByKey {
    bool operator()(const Class* a, const Class* b) const {
      return a->equivalence != b->equivalence ? a->equivalence < b->equivalence : a->lane < b->lane;
    }
  };

  Class* ClassOf(const Ticket& ticket);
  void Enter(Ticket* ticket);
  // Runs `change`, which may alter the active members of `cls`, and keeps the order of heads true.
  template <typename F>
  void ChangeActive(Class* cls, F change);
  void SetPlace(Ticket* ticket, Place place);
  void Count(uint32_t lane, int64_t active, int64_t inadmissible);
  void MoveAllToParked(Class* cls);
  void MarkUntold(Class* cls, Ticket* ticket);
  void ForgetUntold(Class* cls, Ticket* ticket);
  void DropIfEmpty(Class* cls);

  Strategy strategy_ = Strategy::kBestEffortFIFO;
  absl::flat_hash_map<std::pair<uint64_t, uint32_t>, std::unique_ptr<Class>> classes_;
  absl::flat_hash_map<uint64_t, std::vector<Class*>> by_equivalence_;
  absl::btree_set<Class*, ByHead> heads_;          // classes with active members
  absl::btree_set<Class*, ByKey> parked_classes_;  // classes with parked members
  absl::btree_set<Ticket*, ByDue> backing_off_;
  absl::flat_hash_set<uint64_t> bypassed_;
  absl::flat_hash_map<uint32_t, Counts> lanes_;
  Counts total_;
  absl::btree_set<uint32_t> touched_;
};

}  // namespace muster::queue
