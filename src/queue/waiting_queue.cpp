#include "muster/queue/waiting_queue.h"

#include <algorithm>

#include "muster/core/check.h"

namespace muster::queue {

WaitingQueue::Class* WaitingQueue::ClassOf(const Ticket& ticket) {
  std::unique_ptr<Class>& slot = classes_[{ticket.equivalence, ticket.lane}];
  if (slot == nullptr) {
    slot = std::make_unique<Class>();
    slot->equivalence = ticket.equivalence;
    slot->lane = ticket.lane;
    by_equivalence_[ticket.equivalence].push_back(slot.get());
  }
  return slot.get();
}

void WaitingQueue::DropIfEmpty(Class* cls) {
  if (!cls->active.empty() || !cls->parked.empty()) return;
  const auto it = by_equivalence_.find(cls->equivalence);
  std::erase(it->second, cls);
  if (it->second.empty()) by_equivalence_.erase(it);
  classes_.erase({cls->equivalence, cls->lane});
}

template <typename F>
void WaitingQueue::ChangeActive(Class* cls, F change) {
  if (!cls->active.empty()) heads_.erase(cls);
  change();
  if (!cls->active.empty()) heads_.insert(cls);
}

void WaitingQueue::Count(uint32_t lane, int64_t active, int64_t inadmissible) {
  total_.active += active;
  total_.inadmissible += inadmissible;
  touched_.insert(lane);
  Counts& counts = lanes_[lane];
  counts.active += active;
  counts.inadmissible += inadmissible;
  if (counts == Counts{}) lanes_.erase(lane);
}

// ---- membership ---------------------------------------------------------------------------------

void WaitingQueue::Push(Ticket* ticket, WallTime now) {
  MUSTER_CHECK(ticket->place_ == Place::kOut);
  if (ticket->not_before > now) {
    ticket->place_ = Place::kBackingOff;
    backing_off_.insert(ticket);
    Count(ticket->lane, 0, 1);
    return;
  }
  Enter(ticket);
}

void WaitingQueue::Enter(Ticket* ticket) {
  Class* cls = ClassOf(*ticket);
  MarkUntold(cls, ticket);
  if (strategy_ == Strategy::kBestEffortFIFO && bypassed_.contains(ticket->equivalence)) {
    ticket->place_ = Place::kParked;
    cls->parked.insert(ticket);
    parked_classes_.insert(cls);
    Count(ticket->lane, 0, 1);
    return;
  }
  ticket->place_ = Place::kActive;
  ChangeActive(cls, [&] { cls->active.insert(ticket); });
  Count(ticket->lane, 1, 0);
}

void WaitingQueue::Remove(Ticket* ticket) {
  const Place place = ticket->place_;
  ticket->place_ = Place::kOut;
  switch (place) {
    case Place::kOut:
      MUSTER_CHECK_MSG(false, "removed a ticket that is in no queue");
      return;
    case Place::kBackingOff:
      MUSTER_CHECK(backing_off_.erase(ticket) == 1);
      Count(ticket->lane, 0, -1);
      return;
    case Place::kActive: {
      Class* cls = ClassOf(*ticket);
      ForgetUntold(cls, ticket);
      ChangeActive(cls, [&] { MUSTER_CHECK(cls->active.erase(ticket) == 1); });
      Count(ticket->lane, -1, 0);
      DropIfEmpty(cls);
      return;
    }
    case Place::kParked: {
      Class* cls = ClassOf(*ticket);
      ForgetUntold(cls, ticket);
      MUSTER_CHECK(cls->parked.erase(ticket) == 1);
      if (cls->parked.empty()) parked_classes_.erase(cls);
      Count(ticket->lane, 0, -1);
      DropIfEmpty(cls);
      return;
    }
  }
}

Ticket* WaitingQueue::Head() const { return heads_.empty() ? nullptr : *(*heads_.begin())->active.begin(); }

// ---- parking and waking -------------------------------------------------------------------------

void WaitingQueue::Park(Ticket* ticket) {
  MUSTER_CHECK(ticket->place_ == Place::kActive);
  Class* cls = ClassOf(*ticket);
  ChangeActive(cls, [&] { MUSTER_CHECK(cls->active.erase(ticket) == 1); });
  ticket->place_ = Place::kParked;
  cls->parked.insert(ticket);
  parked_classes_.insert(cls);
  Count(ticket->lane, -1, 1);
}

void WaitingQueue::MoveAllToParked(Class* cls) {
  if (cls->active.empty()) return;
  const auto moved = static_cast<int64_t>(cls->active.size());
  ChangeActive(cls, [&] {
    for (Ticket* ticket : cls->active) ticket->place_ = Place::kParked;
    if (cls->parked.size() < cls->active.size()) cls->parked.swap(cls->active);
    cls->parked.insert(cls->active.begin(), cls->active.end());
    cls->active.clear();
  });
  parked_classes_.insert(cls);
  Count(cls->lane, -moved, moved);
}

std::vector<Ticket*> WaitingQueue::ParkEquivalents(Ticket* ticket, uint8_t note) {
  MUSTER_CHECK(ticket->place_ == Place::kActive && strategy_ == Strategy::kBestEffortFIFO);
  bypassed_.insert(ticket->equivalence);
  std::vector<Ticket*> told;
  for (Class* cls : by_equivalence_.at(ticket->equivalence)) {
    MoveAllToParked(cls);
    if (cls->note != note) {
      cls->note = note;
      told.insert(told.end(), cls->parked.begin(), cls->parked.end());
    } else {
      told.insert(told.end(), cls->untold.begin(), cls->untold.end());
    }
    for (Ticket* member : cls->untold) member->untold_index_ = -1;
    cls->untold.clear();
  }
  std::erase(told, ticket);
  std::sort(told.begin(), told.end(), Earlier());
  return told;
}

bool WaitingQueue::Wake(const std::function<bool(uint32_t lane)>& eligible) {
  bypassed_.clear();
  const std::vector<Class*> classes(parked_classes_.begin(), parked_classes_.end());
  bool any = false;
  for (Class* cls : classes) {
    if (!eligible(cls->lane)) continue;
    any = true;
    parked_classes_.erase(cls);
    const auto moved = static_cast<int64_t>(cls->parked.size());
    ChangeActive(cls, [&] {
      for (Ticket* ticket : cls->parked) ticket->place_ = Place::kActive;
      if (cls->active.size() < cls->parked.size()) cls->active.swap(cls->parked);
      cls->active.insert(cls->parked.begin(), cls->parked.end());
      cls->parked.clear();
    });
    Count(cls->lane, moved, -moved);
  }
  return any;
}

bool WaitingQueue::ReleaseDue(WallTime now) {
  bool any = false;
  while (!backing_off_.empty() && (*backing_off_.begin())->not_before <= now) {
    Ticket* ticket = *backing_off_.begin();
    backing_off_.erase(backing_off_.begin());
    Count(ticket->lane, 0, -1);
    Enter(ticket);
    any = true;
  }
  return any;
}

WallTime WaitingQueue::NextDue() const {
  return backing_off_.empty() ? WallTime{} : (*backing_off_.begin())->not_before;
}

void WaitingQueue::MarkUntold(Class* cls, Ticket* ticket) {
  ticket->untold_index_ = static_cast<int64_t>(cls->untold.size());
  cls->untold.push_back(ticket);
}

void WaitingQueue::ForgetUntold(Class* cls, Ticket* ticket) {
  if (ticket->untold_index_ < 0) return;
  const auto index = static_cast<size_t>(ticket->untold_index_);
  cls->untold[index] = cls->untold.back();
  cls->untold[index]->untold_index_ = ticket->untold_index_;
  cls->untold.pop_back();
  ticket->untold_index_ = -1;
}

// ---- read side ----------------------------------------------------------------------------------

Counts WaitingQueue::CountsOfLane(uint32_t lane) const {
  const auto it = lanes_.find(lane);
  return it == lanes_.end() ? Counts{} : it->second;
}

std::vector<uint32_t> WaitingQueue::TakeTouchedLanes() {
  std::vector<uint32_t> lanes(touched_.begin(), touched_.end());
  touched_.clear();
  return lanes;
}

std::vector<Ticket*> WaitingQueue::InOrder() const {
  std::vector<Ticket*> all(backing_off_.begin(), backing_off_.end());
  for (const auto& [key, cls] : classes_) {
    all.insert(all.end(), cls->active.begin(), cls->active.end());
    all.insert(all.end(), cls->parked.begin(), cls->parked.end());
  }
  std::sort(all.begin(), all.end(), Earlier());
  return all;
}

void WaitingQueue::Validate() const {
  Counts total;
  absl::flat_hash_map<uint32_t, Counts> lanes;
  const auto count = [&](uint32_t lane, int64_t active, int64_t inadmissible) {
    for (Counts* counts : {&total, &lanes[lane]}) {
      counts->active += active;
      counts->inadmissible += inadmissible;
    }
  };
  size_t with_head = 0;
  for (const auto& [key, cls] : classes_) {
    MUSTER_CHECK(!cls->active.empty() || !cls->parked.empty());
    if (!cls->active.empty()) {
      ++with_head;
      MUSTER_CHECK(heads_.contains(cls.get()));
    }
    MUSTER_CHECK(parked_classes_.contains(cls.get()) == !cls->parked.empty());
    for (const Ticket* ticket : cls->active) MUSTER_CHECK(ticket->place_ == Place::kActive);
    for (const Ticket* ticket : cls->parked) MUSTER_CHECK(ticket->place_ == Place::kParked);
    if (strategy_ == Strategy::kBestEffortFIFO && bypassed_.contains(cls->equivalence)) {
      MUSTER_CHECK(cls->active.empty());
    }
    count(cls->lane, static_cast<int64_t>(cls->active.size()), static_cast<int64_t>(cls->parked.size()));
  }
  for (const Ticket* ticket : backing_off_) {
    MUSTER_CHECK(ticket->place_ == Place::kBackingOff);
    count(ticket->lane, 0, 1);
  }
  MUSTER_CHECK(heads_.size() == with_head && total == total_ && lanes == lanes_);
}

}  // namespace muster::queue
