#include "muster/queue/waiting_queue.h"

#include <algorithm>

#include "muster/core/check.h"

namespace muster::queue {

namespace {
using Members = absl::btree_set<Ticket*, InQueueOrder>;
}  // namespace

// The members of one class in one lane.
struct WaitingLane {
  WaitingClass* cls = nullptr;
  uint32_t lane = 0;
  ConsumedShare share;
  Members open;   // parked if the class is, else active
  Members aside;  // parked one by one
};

struct WaitingClass {
  struct ByFirst {
    bool operator()(const WaitingLane* a, const WaitingLane* b) const {
      return InQueueOrder()(*a->open.begin(), a->share, *b->open.begin(), b->share);
    }
  };

  uint64_t equivalence = 0;
  bool parked = false;  // and those that come are parked, too
  absl::flat_hash_map<uint32_t, std::unique_ptr<WaitingLane>> lanes;
  absl::btree_set<WaitingLane*, ByFirst> heads;  // lanes with open members
  absl::flat_hash_set<WaitingLane*> with_aside;
  int64_t open = 0;             // members, over all lanes
  std::vector<Ticket*> untold;  // open members
  uint8_t note = 0;             // of the last ParkEquivalents; 0: none

  WaitingLane* First() const { return *heads.begin(); }
  Ticket* Head() const { return *First()->open.begin(); }
};

Place Ticket::place() const {
  switch (home_) {
    case Home::kNone:
      return Place::kOut;
    case Home::kOpen:
      return in_->cls->parked ? Place::kParked : Place::kActive;
    case Home::kAside:
    case Home::kMisfits:
      return Place::kParked;
    case Home::kBackingOff:
      return Place::kBackingOff;
  }
  return Place::kOut;
}

bool WaitingQueue::ByHead::operator()(const WaitingClass* a, const WaitingClass* b) const {
  return WaitingClass::ByFirst()(a->First(), b->First());
}

bool InQueueOrder::operator()(const Ticket* a, const Ticket* b) const {
  return a->first_ != b->first_ ? a->first_ : Earlier()(a, b);
}

bool InQueueOrder::operator()(const Ticket* a, const ConsumedShare& a_share, const Ticket* b,
                              const ConsumedShare& b_share) const {
  if (a->first_ != b->first_) return a->first_;
  return a_share != b_share ? a_share < b_share : Earlier()(a, b);
}

WaitingQueue::WaitingQueue() = default;
WaitingQueue::~WaitingQueue() = default;

// ---- structure ----------------------------------------------------------------------------------

WaitingLane* WaitingQueue::LaneFor(const Ticket& ticket) {
  std::unique_ptr<WaitingClass>& cls = classes_[ticket.equivalence];
  if (cls == nullptr) {
    cls = std::make_unique<WaitingClass>();
    cls->equivalence = ticket.equivalence;
  }
  std::unique_ptr<WaitingLane>& lane = cls->lanes[ticket.lane];
  if (lane == nullptr) {
    lane = std::make_unique<WaitingLane>();
    lane->cls = cls.get();
    lane->lane = ticket.lane;
    lane->share = ShareOf(ticket.lane);
    lanes_[ticket.lane].lanes.insert(lane.get());
  }
  return lane.get();
}

void WaitingQueue::DropIfEmpty(WaitingLane* lane) {
  if (!lane->open.empty() || !lane->aside.empty()) return;
  WaitingClass* cls = lane->cls;
  const auto total = lanes_.find(lane->lane);
  total->second.lanes.erase(lane);
  if (total->second.lanes.empty() && total->second.outside == 0) lanes_.erase(total);
  cls->lanes.erase(lane->lane);
  // A parked class is remembered without members, so that those who come are parked.
  if (cls->lanes.empty() && !cls->parked) classes_.erase(cls->equivalence);
}

template <typename F>
void WaitingQueue::ChangeClass(WaitingClass* cls, F change) {
  if (!cls->parked && !cls->heads.empty()) heads_.erase(cls);
  change();
  if (!cls->parked && !cls->heads.empty()) heads_.insert(cls);
}

template <typename F>
void WaitingQueue::ChangeOpen(WaitingLane* lane, F change) {
  WaitingClass* cls = lane->cls;
  ChangeClass(cls, [&] {
    if (!lane->open.empty()) cls->heads.erase(lane);
    change();
    if (!lane->open.empty()) cls->heads.insert(lane);
  });
}

void WaitingQueue::CountMembers(const WaitingClass& cls, int64_t open, int64_t aside) {
  (cls.parked ? total_.inadmissible : total_.active) += open;
  total_.inadmissible += aside;
}

void WaitingQueue::CountOutside(uint32_t lane, int64_t change) {
  const auto it = lanes_.try_emplace(lane).first;
  it->second.outside += change;
  total_.inadmissible += change;
  if (it->second.outside == 0 && it->second.lanes.empty()) lanes_.erase(it);
}

void WaitingQueue::SetParked(WaitingClass* cls, bool parked) {
  if (cls->parked == parked) return;
  CountMembers(*cls, -cls->open, 0);
  ChangeClass(cls, [&] { cls->parked = parked; });
  CountMembers(*cls, cls->open, 0);
}

// ---- shares -------------------------------------------------------------------------------------

const ConsumedShare& WaitingQueue::ShareOf(uint32_t lane) const {
  static constexpr ConsumedShare kNothing;
  const auto it = shares_.find(lane);
  return it == shares_.end() ? kNothing : it->second;
}

bool WaitingQueue::SetLaneShare(uint32_t lane, const ConsumedShare& share) {
  if (ShareOf(lane) == share) return false;
  if (share == ConsumedShare{}) {
    shares_.erase(lane);
  } else {
    shares_.insert_or_assign(lane, share);
  }
  const auto it = lanes_.find(lane);
  if (it == lanes_.end()) return true;
  for (WaitingLane* members : it->second.lanes) {
    ChangeOpen(members, [&] { members->share = share; });
  }
  return true;
}

bool WaitingQueue::StandsBefore(const Ticket* a, const Ticket* b) const {
  if (shares_.empty()) return InQueueOrder()(a, b);
  return InQueueOrder()(a, ShareOf(a->lane), b, ShareOf(b->lane));
}

void WaitingQueue::Sort(std::vector<Ticket*>* tickets) const {
  std::sort(tickets->begin(), tickets->end(), [this](const Ticket* a, const Ticket* b) { return StandsBefore(a, b); });
}

// ---- membership ---------------------------------------------------------------------------------

void WaitingQueue::Push(Ticket* ticket, WallTime now) {
  MUSTER_CHECK(ticket->home_ == Ticket::Home::kNone);
  touched_.insert(ticket->lane);
  if (ticket->not_before <= now) {
    Enter(ticket);
    return;
  }
  StartBackOff(ticket);
}

void WaitingQueue::Enter(Ticket* ticket) {
  WaitingLane* lane = LaneFor(*ticket);
  ticket->home_ = Ticket::Home::kOpen;
  ticket->in_ = lane;
  ChangeOpen(lane, [&] { lane->open.insert(ticket); });
  ++lane->cls->open;
  CountMembers(*lane->cls, 1, 0);
  MarkUntold(ticket);
}

// REQUIRES: it is open.
void WaitingQueue::TakeOut(Ticket* ticket) {
  WaitingLane* lane = ticket->in_;
  ForgetUntold(ticket);
  ChangeOpen(lane, [&] { MUSTER_CHECK(lane->open.erase(ticket) == 1); });
  --lane->cls->open;
  CountMembers(*lane->cls, -1, 0);
}

void WaitingQueue::Remove(Ticket* ticket) {
  touched_.insert(ticket->lane);
  WaitingLane* lane = ticket->in_;
  switch (ticket->home_) {
    case Ticket::Home::kNone:
      MUSTER_CHECK_MSG(false, "removed a ticket that is in no queue");
      return;
    case Ticket::Home::kBackingOff:
      MUSTER_CHECK(backing_off_.erase(ticket) == 1);
      CountOutside(ticket->lane, -1);
      break;
    case Ticket::Home::kMisfits:
      MUSTER_CHECK(misfits_.erase(ticket) == 1);
      CountOutside(ticket->lane, -1);
      break;
    case Ticket::Home::kOpen:
      TakeOut(ticket);
      DropIfEmpty(lane);
      break;
    case Ticket::Home::kAside:
      MUSTER_CHECK(lane->aside.erase(ticket) == 1);
      CountMembers(*lane->cls, 0, -1);
      if (lane->aside.empty()) {
        lane->cls->with_aside.erase(lane);
        if (!lane->cls->parked && lane->cls->with_aside.empty()) to_wake_.erase(lane->cls);
      }
      DropIfEmpty(lane);
      break;
  }
  ticket->home_ = Ticket::Home::kNone;
  ticket->in_ = nullptr;
  ticket->first_ = false;
}

void WaitingQueue::SetFirst(Ticket* ticket, bool first) {
  MUSTER_CHECK(ticket->home_ != Ticket::Home::kNone);
  if (ticket->first_ == first) return;
  const auto reorder = [ticket, first](Members* members) {
    MUSTER_CHECK(members->erase(ticket) == 1);
    ticket->first_ = first;
    members->insert(ticket);
  };
  switch (ticket->home_) {
    case Ticket::Home::kNone:
    case Ticket::Home::kBackingOff:
      ticket->first_ = first;
      return;
    case Ticket::Home::kOpen:
      ChangeOpen(ticket->in_, [&] { reorder(&ticket->in_->open); });
      return;
    case Ticket::Home::kAside:
      reorder(&ticket->in_->aside);
      return;
    case Ticket::Home::kMisfits:
      reorder(&misfits_);
      return;
  }
}

Ticket* WaitingQueue::Head() const { return heads_.empty() ? nullptr : (*heads_.begin())->Head(); }

void WaitingQueue::SetStrategy(Strategy strategy) {
  if (strategy == strategy_) return;
  strategy_ = strategy;
  const std::vector<WaitingClass*> classes(to_wake_.begin(), to_wake_.end());
  for (WaitingClass* cls : classes) {
    if (!cls->parked) continue;
    for (const auto& [lane, members] : cls->lanes) MoveToAside(members.get());
    SetParked(cls, false);
    if (!cls->with_aside.empty()) continue;
    to_wake_.erase(cls);
    classes_.erase(cls->equivalence);
  }
  // A misfit is passed over or not, as the strategy says.
  const std::vector<Ticket*> misfits(misfits_.begin(), misfits_.end());
  misfits_.clear();
  for (Ticket* ticket : misfits) {
    CountOutside(ticket->lane, -1);
    Enter(ticket);
  }
  ForgetTold();
}

// ---- parking and waking -------------------------------------------------------------------------

void WaitingQueue::Park(Ticket* ticket) {
  MUSTER_CHECK(ticket->place() == Place::kActive);
  WaitingLane* lane = ticket->in_;
  TakeOut(ticket);
  ticket->home_ = Ticket::Home::kAside;
  lane->aside.insert(ticket);
  lane->cls->with_aside.insert(lane);
  to_wake_.insert(lane->cls);
  CountMembers(*lane->cls, 0, 1);
}

void WaitingQueue::ParkMisfit(Ticket* ticket) {
  MUSTER_CHECK(ticket->place() == Place::kActive);
  WaitingLane* lane = ticket->in_;
  TakeOut(ticket);
  DropIfEmpty(lane);
  ticket->home_ = Ticket::Home::kMisfits;
  ticket->in_ = nullptr;
  misfits_.insert(ticket);
  CountOutside(ticket->lane, 1);
}

std::vector<Ticket*> WaitingQueue::ParkEquivalents(Ticket* ticket, uint8_t note) {
  MUSTER_CHECK(ticket->place() == Place::kActive && strategy_ == Strategy::kBestEffortFIFO && note != 0);
  WaitingClass* cls = ticket->in_->cls;
  SetParked(cls, true);
  to_wake_.insert(cls);
  std::vector<Ticket*> told;
  if (cls->note == note) {
    told = cls->untold;
  } else {
    for (const auto& [lane, members] : cls->lanes) {
      told.insert(told.end(), members->open.begin(), members->open.end());
    }
  }
  cls->note = note;
  ClearUntold(cls);
  std::erase(told, ticket);
  Sort(&told);
  return told;
}

void WaitingQueue::MoveToAside(WaitingLane* lane) {
  if (lane->open.empty()) return;
  const auto moved = static_cast<int64_t>(lane->open.size());
  for (Ticket* ticket : lane->open) {
    ForgetUntold(ticket);
    ticket->home_ = Ticket::Home::kAside;
  }
  ChangeOpen(lane, [&] {
    if (lane->aside.size() < lane->open.size()) lane->aside.swap(lane->open);
    lane->aside.insert(lane->open.begin(), lane->open.end());
    lane->open.clear();
  });
  lane->cls->with_aside.insert(lane);
  lane->cls->open -= moved;
  CountMembers(*lane->cls, -moved, moved);
}

void WaitingQueue::MoveToOpen(WaitingLane* lane) {
  const auto moved = static_cast<int64_t>(lane->aside.size());
  for (Ticket* ticket : lane->aside) {
    ticket->home_ = Ticket::Home::kOpen;
    MarkUntold(ticket);
  }
  ChangeOpen(lane, [&] {
    if (lane->open.size() < lane->aside.size()) lane->open.swap(lane->aside);
    lane->open.insert(lane->aside.begin(), lane->aside.end());
    lane->aside.clear();
  });
  lane->cls->with_aside.erase(lane);
  lane->cls->open += moved;
  CountMembers(*lane->cls, moved, -moved);
}

bool WaitingQueue::Wake(const std::function<bool(uint32_t lane)>& eligible) {
  const std::vector<WaitingClass*> classes(to_wake_.begin(), to_wake_.end());
  bool any = false;
  for (WaitingClass* cls : classes) {
    const std::vector<WaitingLane*> aside(cls->with_aside.begin(), cls->with_aside.end());
    if (cls->parked) {
      if (eligible != nullptr) {
        for (const auto& [lane, members] : cls->lanes) {
          if (!eligible(lane)) MoveToAside(members.get());
        }
      }
      any = any || cls->open > 0;
      SetParked(cls, false);
    }
    for (WaitingLane* lane : aside) {
      if (eligible != nullptr && !eligible(lane->lane)) continue;
      any = true;
      MoveToOpen(lane);
    }
    if (!cls->with_aside.empty()) continue;
    to_wake_.erase(cls);
    if (cls->lanes.empty()) classes_.erase(cls->equivalence);
  }
  return any;
}

void WaitingQueue::BackOff(Ticket* ticket, WallTime until) {
  MUSTER_CHECK(ticket->place() == Place::kActive && until.IsSet());
  WaitingLane* lane = ticket->in_;
  TakeOut(ticket);
  DropIfEmpty(lane);
  ticket->in_ = nullptr;
  ticket->not_before = until;
  StartBackOff(ticket);
}

void WaitingQueue::StartBackOff(Ticket* ticket) {
  ticket->home_ = Ticket::Home::kBackingOff;
  backing_off_.insert(ticket);
  CountOutside(ticket->lane, 1);
}

void WaitingQueue::EndBackOff(Ticket* ticket) {
  MUSTER_CHECK(backing_off_.erase(ticket) == 1);
  CountOutside(ticket->lane, -1);
  Enter(ticket);
}

bool WaitingQueue::ReleaseDue(WallTime now) {
  bool any = false;
  while (!backing_off_.empty() && (*backing_off_.begin())->not_before <= now) {
    EndBackOff(*backing_off_.begin());
    any = true;
  }
  return any;
}

WallTime WaitingQueue::NextDue() const {
  return backing_off_.empty() ? WallTime{} : (*backing_off_.begin())->not_before;
}

// ---- who was told -------------------------------------------------------------------------------

void WaitingQueue::MarkUntold(Ticket* ticket) {
  if (ticket->untold_index_ >= 0) return;
  WaitingClass* cls = ticket->in_->cls;
  ticket->untold_index_ = static_cast<int64_t>(cls->untold.size());
  cls->untold.push_back(ticket);
  with_untold_.insert(cls);
}

void WaitingQueue::ForgetUntold(Ticket* ticket) {
  if (ticket->untold_index_ < 0) return;
  WaitingClass* cls = ticket->in_->cls;
  const auto index = static_cast<size_t>(ticket->untold_index_);
  cls->untold[index] = cls->untold.back();
  cls->untold[index]->untold_index_ = ticket->untold_index_;
  cls->untold.pop_back();
  ticket->untold_index_ = -1;
  if (cls->untold.empty()) with_untold_.erase(cls);
}

void WaitingQueue::ClearUntold(WaitingClass* cls) {
  for (Ticket* ticket : cls->untold) ticket->untold_index_ = -1;
  cls->untold.clear();
  with_untold_.erase(cls);
}

std::vector<Ticket*> WaitingQueue::TakeUntold(const Ticket* head) {
  MUSTER_CHECK(head != nullptr && head == Head());
  std::vector<Ticket*> told;
  const std::vector<WaitingClass*> classes(with_untold_.begin(), with_untold_.end());
  for (WaitingClass* cls : classes) {
    if (cls->parked) continue;
    told.insert(told.end(), cls->untold.begin(), cls->untold.end());
    ClearUntold(cls);
  }
  // The head has a reason of its own, though it may have been told another before: it is told again once another stands
  // before it.
  std::erase(told, head);
  MarkUntold(Head());
  Sort(&told);
  return told;
}

void WaitingQueue::ForgetTold() {
  for (const auto& [equivalence, cls] : classes_) {
    cls->note = 0;
    for (const auto& [lane, members] : cls->lanes) {
      for (Ticket* ticket : members->open) MarkUntold(ticket);
    }
  }
}

// ---- read side ----------------------------------------------------------------------------------

Counts WaitingQueue::CountsOfLane(uint32_t lane) const {
  const auto it = lanes_.find(lane);
  if (it == lanes_.end()) return {};
  Counts counts{0, it->second.outside};
  for (const WaitingLane* members : it->second.lanes) {
    (members->cls->parked ? counts.inadmissible : counts.active) += static_cast<int64_t>(members->open.size());
    counts.inadmissible += static_cast<int64_t>(members->aside.size());
  }
  return counts;
}

Counts WaitingQueue::EquivalenceCounts() const {
  Counts counts;
  counts.active = static_cast<int64_t>(heads_.size());
  absl::flat_hash_set<uint64_t> inadmissible;
  for (const WaitingClass* cls : to_wake_) {
    if (!cls->lanes.empty()) inadmissible.insert(cls->equivalence);
  }
  for (const Ticket* ticket : backing_off_) inadmissible.insert(ticket->equivalence);
  for (const Ticket* ticket : misfits_) inadmissible.insert(ticket->equivalence);
  counts.inadmissible = static_cast<int64_t>(inadmissible.size());
  return counts;
}

WallTime WaitingQueue::OldestQueueTime() const {
  WallTime oldest;
  const auto see = [&oldest](const Ticket* ticket) {
    if (!oldest.IsSet() || ticket->queue_time < oldest) oldest = ticket->queue_time;
  };
  for (const auto& [equivalence, cls] : classes_) {
    for (const auto& [lane, members] : cls->lanes) {
      for (const Members* some : {&members->open, &members->aside}) {
        for (const Ticket* ticket : *some) {
          see(ticket);
          if (!ticket->first_) break;
        }
      }
    }
  }
  for (const Ticket* ticket : backing_off_) see(ticket);
  for (const Ticket* ticket : misfits_) see(ticket);
  return oldest;
}

std::vector<uint32_t> WaitingQueue::TakeTouchedLanes() {
  std::vector<uint32_t> lanes(touched_.begin(), touched_.end());
  touched_.clear();
  return lanes;
}

std::vector<Ticket*> WaitingQueue::InOrder() const {
  std::vector<Ticket*> all(backing_off_.begin(), backing_off_.end());
  all.insert(all.end(), misfits_.begin(), misfits_.end());
  for (const auto& [equivalence, cls] : classes_) {
    for (const auto& [lane, members] : cls->lanes) {
      all.insert(all.end(), members->open.begin(), members->open.end());
      all.insert(all.end(), members->aside.begin(), members->aside.end());
    }
  }
  Sort(&all);
  return all;
}

void WaitingQueue::ValidateClass(const WaitingClass& cls, Counts* total) const {
  auto* key = const_cast<WaitingClass*>(&cls);
  int64_t open = 0;
  int64_t aside = 0;
  size_t with_head = 0;
  for (const auto& [lane, members] : cls.lanes) {
    MUSTER_CHECK(members->lane == lane && members->cls == key && lanes_.at(lane).lanes.contains(members.get()));
    MUSTER_CHECK(!members->open.empty() || !members->aside.empty());
    MUSTER_CHECK(members->share == ShareOf(lane));
    for (const Ticket* ticket : members->open) {
      MUSTER_CHECK(ticket->home_ == Ticket::Home::kOpen && ticket->in_ == members.get());
    }
    for (const Ticket* ticket : members->aside) {
      MUSTER_CHECK(ticket->home_ == Ticket::Home::kAside && ticket->in_ == members.get());
      MUSTER_CHECK(ticket->untold_index_ < 0);
    }
    if (!members->open.empty()) {
      ++with_head;
      MUSTER_CHECK(cls.heads.contains(members.get()));
    }
    MUSTER_CHECK(cls.with_aside.contains(members.get()) == !members->aside.empty());
    open += static_cast<int64_t>(members->open.size());
    aside += static_cast<int64_t>(members->aside.size());
  }
  MUSTER_CHECK(cls.heads.size() == with_head && cls.open == open);
  MUSTER_CHECK(!cls.parked || strategy_ == Strategy::kBestEffortFIFO);
  MUSTER_CHECK(to_wake_.contains(key) == (cls.parked || !cls.with_aside.empty()));
  MUSTER_CHECK(with_untold_.contains(key) == !cls.untold.empty());
  for (size_t i = 0; i < cls.untold.size(); ++i) {
    MUSTER_CHECK(cls.untold[i]->untold_index_ == static_cast<int64_t>(i) && cls.untold[i]->in_->cls == key);
  }
  (cls.parked ? total->inadmissible : total->active) += open;
  total->inadmissible += aside;
}

void WaitingQueue::Validate() const {
  Counts total;
  size_t with_head = 0;
  for (const auto& [equivalence, cls] : classes_) {
    MUSTER_CHECK(cls->parked || !cls->lanes.empty());
    if (!cls->parked && !cls->heads.empty()) {
      ++with_head;
      MUSTER_CHECK(heads_.contains(cls.get()));
    }
    ValidateClass(*cls, &total);
  }
  absl::flat_hash_map<uint32_t, int64_t> outside;
  for (const Ticket* ticket : backing_off_) {
    MUSTER_CHECK(ticket->home_ == Ticket::Home::kBackingOff);
    ++outside[ticket->lane];
  }
  for (const Ticket* ticket : misfits_) {
    MUSTER_CHECK(ticket->home_ == Ticket::Home::kMisfits);
    ++outside[ticket->lane];
  }
  for (const auto& [lane, count] : outside) MUSTER_CHECK(lanes_.at(lane).outside == count);
  total.inadmissible += static_cast<int64_t>(backing_off_.size() + misfits_.size());
  Counts by_lane;
  for (const auto& [lane, entry] : lanes_) {
    MUSTER_CHECK(entry.outside > 0 || !entry.lanes.empty());
    const Counts counts = CountsOfLane(lane);
    by_lane.active += counts.active;
    by_lane.inadmissible += counts.inadmissible;
  }
  MUSTER_CHECK(heads_.size() == with_head && total == total_ && by_lane == total_);
}

}  // namespace muster::queue
