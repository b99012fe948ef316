// The workloads that wait in one ClusterQueue: which of them is the head, and which are parked.
//
// Equal workloads (same equivalence) are one class. What holds for one of them holds for all, so a class is
// parked and woken as a whole, by one mark: that costs the same for one member as for a hundred thousand.
// Within a class they are kept by lane, since the LocalQueue's namespace decides who may be woken.
//
// Order (kueue_semantics 4.1): those set first; higher priority, earlier queue time, smaller uid. Where lanes were
// given shares (kueue_semantics 9.12), the smaller share goes before the priority.
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
#include "muster/queue/consumed_share.h"

namespace muster::queue {

enum class Strategy : uint8_t { kBestEffortFIFO, kStrictFIFO };

enum class Place : uint8_t {
  kOut,
  kActive,      // to be looked at in its turn
  kParked,      // known not to fit until something changes
  kBackingOff,  // not before a time
};

class WaitingQueue;
struct WaitingClass;
struct WaitingLane;

// One waiting workload as the queue sees it. Owned by its workload; the address must not change while it is
// in a queue, nor may the fields above the line.
struct Ticket {
  int64_t priority = 0;
  WallTime queue_time;
  std::string_view uid;      // points into the workload
  WallTime not_before;       // unset: at once
  uint64_t equivalence = 0;  // equal for workloads that fit, or fail to, alike
  uint32_t lane = 0;         // LocalQueue
  void* owner = nullptr;     // the workload, for whoever put it in; the queue does not look at it

  // ---- kept by the queue
  Place place() const;

 private:
  friend class WaitingQueue;
  friend struct InQueueOrder;
  enum class Home : uint8_t { kNone, kOpen, kAside, kMisfits, kBackingOff };
  Home home_ = Home::kNone;
  WaitingLane* in_ = nullptr;  // with kOpen and kAside
  int64_t untold_index_ = -1;
  bool first_ = false;
};

struct Earlier {
  bool operator()(const Ticket* a, const Ticket* b) const {
    if (a->priority != b->priority) return a->priority > b->priority;
    if (a->queue_time != b->queue_time) return a->queue_time < b->queue_time;
    return a->uid < b->uid;
  }
};

// As they stand in a queue.
struct InQueueOrder {
  // Of one lane.
  bool operator()(const Ticket* a, const Ticket* b) const;
  // Of any two, with what their lanes have consumed.
  bool operator()(const Ticket* a, const ConsumedShare& a_share, const Ticket* b, const ConsumedShare& b_share) const;
};

struct Counts {
  int64_t active = 0;
  int64_t inadmissible = 0;  // parked or backing off
  friend bool operator==(const Counts&, const Counts&) = default;
};

class WaitingQueue {
 public:
  WaitingQueue();
  ~WaitingQueue();
  WaitingQueue(const WaitingQueue&) = delete;
  WaitingQueue& operator=(const WaitingQueue&) = delete;

  // With StrictFIFO nobody is ever passed over for being like another that failed. A change forgets which
  // equivalences failed, and who was told why it waits; the parked stay parked until Wake, but for misfits.
  void SetStrategy(Strategy strategy);
  Strategy strategy() const { return strategy_; }

  // What the lane has consumed; a lane that was given nothing has consumed nothing. RETURNS: whether that is a change.
  bool SetLaneShare(uint32_t lane, const ConsumedShare& share);
  // Takes `ticket` in: to back off, if its time has not come; parked, if its like is known not to fit
  // (BestEffortFIFO); else to be looked at. REQUIRES: it is in no queue.
  void Push(Ticket* ticket, WallTime now);
  // REQUIRES: it is in this queue.
  void Remove(Ticket* ticket);
  // It stands before all that are not set first, until it is removed or set back. REQUIRES: it is in this queue.
  void SetFirst(Ticket* ticket, bool first);

  // REQUIRES: both are in this queue.
  bool StandsBefore(const Ticket* a, const Ticket* b) const;
  // The first of the active ones; null if none.
  Ticket* Head() const;
  // Alone, until Wake. REQUIRES: it is active.
  void Park(Ticket* ticket);
  // Until it is removed: nothing but a change of its own helps it. REQUIRES: it is active.
  void ParkMisfit(Ticket* ticket);
  // Parks `ticket` and with it every active one of the same equivalence; those that come later are parked
  // on arrival, until Wake. `note` says why (any number but 0). RETURNS: the members other than `ticket`
  // who have not been returned with this note before.
  std::vector<Ticket*> ParkEquivalents(Ticket* ticket, uint8_t note);

  // Makes every parked workload active whose lane is `eligible` (null: all), and forgets which equivalences
  // failed. RETURNS: whether any became active.
  bool Wake(const std::function<bool(uint32_t lane)>& eligible);
  // Until then, as if it had come so. REQUIRES: it is active; `until` is in the future.
  void BackOff(Ticket* ticket, WallTime until);
  // Its time has come. REQUIRES: it backs off.
  void EndBackOff(Ticket* ticket);
  // Takes in those whose time has come. RETURNS: whether there were any.
  bool ReleaseDue(WallTime now);
  // When the next back-off ends; unset: never.
  WallTime NextDue() const;

  // RETURNS: the active ones other than the head who were never returned from here or ParkEquivalents since they
  // became active, were the head here, or since ForgetTold; in queue order. REQUIRES: `head` is the head.
  std::vector<Ticket*> TakeUntold(const Ticket* head);
  void ForgetTold();

  // Wake would change something.
  bool HasParked() const { return !to_wake_.empty(); }
  Counts counts() const { return total_; }
  Counts CountsOfLane(uint32_t lane) const;
  bool empty() const { return total_ == Counts{}; }
  // Distinct equivalences of those; one that has members of both kinds counts for both. Takes time with their number.
  Counts EquivalenceCounts() const;
  // The earliest queue time of all; unset where nobody waits. Takes time with the number of classes and lanes, and of
  // those that back off, are misfits, or are set first. REQUIRES: equals are of one priority.
  WallTime OldestQueueTime() const;
  // Lanes into which a ticket came, or out of which one went, since the last call.
  std::vector<uint32_t> TakeTouchedLanes();
  // Every ticket in queue order, whatever its place. Linear.
  std::vector<Ticket*> InOrder() const;

  // Recounts, and aborts on any difference.
  void Validate() const;

 private:
  struct ByHead {
    bool operator()(const WaitingClass* a, const WaitingClass* b) const;
  };
  struct ByDue {
    bool operator()(const Ticket* a, const Ticket* b) const {
      if (a->not_before != b->not_before) return a->not_before < b->not_before;
      return a->uid < b->uid;
    }
  };
  // What of a lane is in no class, and in which classes the rest is.
  struct LaneTotal {
    absl::flat_hash_set<WaitingLane*> lanes;
    int64_t outside = 0;
  };

  const ConsumedShare& ShareOf(uint32_t lane) const;
  void Sort(std::vector<Ticket*>* tickets) const;
  WaitingLane* LaneFor(const Ticket& ticket);
  void Enter(Ticket* ticket);
  void StartBackOff(Ticket* ticket);
  void TakeOut(Ticket* ticket);
  // Runs `change`, which may alter the open members of `lane`, and keeps the order of heads true.
  template <typename F>
  void ChangeOpen(WaitingLane* lane, F change);
  template <typename F>
  void ChangeClass(WaitingClass* cls, F change);
  void MoveToAside(WaitingLane* lane);
  void MoveToOpen(WaitingLane* lane);
  void SetParked(WaitingClass* cls, bool parked);
  void CountOutside(uint32_t lane, int64_t change);
  void CountMembers(const WaitingClass& cls, int64_t open, int64_t aside);
  void MarkUntold(Ticket* ticket);
  void ForgetUntold(Ticket* ticket);
  void ClearUntold(WaitingClass* cls);
  void DropIfEmpty(WaitingLane* lane);
  void ValidateClass(const WaitingClass& cls, Counts* total) const;

  Strategy strategy_ = Strategy::kBestEffortFIFO;
  absl::flat_hash_map<uint64_t, std::unique_ptr<WaitingClass>> classes_;
  absl::btree_set<WaitingClass*, ByHead> heads_;  // classes that are not parked and have open members
  absl::flat_hash_set<WaitingClass*> to_wake_;    // classes that are parked or have members aside
  absl::flat_hash_set<WaitingClass*> with_untold_;
  absl::btree_set<Ticket*, ByDue> backing_off_;
  absl::btree_set<Ticket*, InQueueOrder> misfits_;
  absl::flat_hash_map<uint32_t, LaneTotal> lanes_;
  absl::flat_hash_map<uint32_t, ConsumedShare> shares_;  // of lanes; with or without members
  Counts total_;
  absl::btree_set<uint32_t> touched_;
};

}  // namespace muster::queue
