// The queue, which parks and wakes classes by one mark, against one that does it ticket by ticket.
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <deque>
#include <optional>
#include <set>
#include <string>

#include "muster/queue/waiting_queue.h"

namespace muster::queue {

namespace {

WallTime At(int64_t seconds) { return {seconds * 1'000'000'000}; }

// Each ticket has its place; a set says which equivalences failed.
struct Model {
  struct Entry {
    Ticket* ticket;
    Place place;
    bool misfit = false;
  };
  std::vector<Entry> entries;
  std::set<uint64_t> failed;
  std::array<int64_t, 3> consumed{};  // by lane; all weigh the same, or one weighs nothing
  std::optional<uint32_t> weightless;
  Strategy strategy = Strategy::kBestEffortFIFO;

  Place EntryPlace(const Ticket* ticket) const {
    return strategy == Strategy::kBestEffortFIFO && failed.contains(ticket->equivalence) ? Place::kParked
                                                                                         : Place::kActive;
  }
  Ticket* Head() const {
    Ticket* head = nullptr;
    for (const Entry& entry : entries) {
      if (entry.place == Place::kActive && (head == nullptr || Before(entry.ticket, head))) head = entry.ticket;
    }
    return head;
  }
  bool Before(const Ticket* a, const Ticket* b) const {
    const auto key = [this](const Ticket* ticket) {
      const bool last = weightless == ticket->lane;
      return std::pair(last, last ? 0 : consumed[ticket->lane]);
    };
    return key(a) != key(b) ? key(a) < key(b) : Earlier()(a, b);
  }
  Entry* Find(const Ticket* ticket) {
    return &*std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.ticket == ticket; });
  }
};

struct Pair {
  WaitingQueue queue;
  Model model;
  std::deque<std::string> uids;
  std::deque<Ticket> tickets;
  int64_t now = 100;

  void Push() {
    uids.push_back("w" + std::to_string(uids.size()));
    Ticket* ticket = &tickets.emplace_back();
    ticket->uid = uids.back();
    ticket->equivalence = *rc::gen::inRange<uint64_t>(0, 4);
    ticket->priority = static_cast<int64_t>(ticket->equivalence % 2);
    ticket->queue_time = At(*rc::gen::inRange(0, 5));
    ticket->lane = *rc::gen::inRange<uint32_t>(0, 3);
    if (*rc::gen::inRange(0, 5) == 0) ticket->not_before = At(now + *rc::gen::inRange(1, 4));
    queue.Push(ticket, At(now));
    const bool backs_off = ticket->not_before > At(now);
    model.entries.push_back({ticket, backs_off ? Place::kBackingOff : model.EntryPlace(ticket)});
  }
  void Remove() {
    if (model.entries.empty()) return;
    const auto at = *rc::gen::inRange<size_t>(0, model.entries.size());
    queue.Remove(model.entries[at].ticket);
    model.entries.erase(model.entries.begin() + static_cast<int64_t>(at));
  }
  void Park() {
    Ticket* head = queue.Head();
    if (head == nullptr) return;
    if (*rc::gen::inRange(0, 3) == 0) {
      queue.ParkMisfit(head);
      model.Find(head)->misfit = true;
    } else {
      queue.Park(head);
    }
    model.Find(head)->place = Place::kParked;
  }
  void ParkEquivalents() {
    Ticket* head = queue.Head();
    if (head == nullptr || model.strategy == Strategy::kStrictFIFO) return;
    queue.ParkEquivalents(head, *rc::gen::element<uint8_t>(1, 2));
    model.failed.insert(head->equivalence);
    for (Model::Entry& entry : model.entries) {
      if (entry.place == Place::kActive && entry.ticket->equivalence == head->equivalence) entry.place = Place::kParked;
    }
  }
  void Wake() {
    const bool selective = *rc::gen::arbitrary<bool>();
    const auto refused = *rc::gen::inRange<uint32_t>(0, 3);
    std::function<bool(uint32_t)> eligible;
    if (selective) eligible = [refused](uint32_t lane) { return lane != refused; };
    bool any = false;
    for (Model::Entry& entry : model.entries) {
      if (entry.place != Place::kParked || entry.misfit || (selective && entry.ticket->lane == refused)) continue;
      entry.place = Place::kActive;
      any = true;
    }
    model.failed.clear();
    RC_ASSERT(queue.Wake(eligible) == any);
  }
  void PassTime() {
    now += *rc::gen::inRange(0, 4);
    queue.ReleaseDue(At(now));
    for (Model::Entry& entry : model.entries) {
      if (entry.place == Place::kBackingOff && entry.ticket->not_before <= At(now)) {
        entry.place = model.EntryPlace(entry.ticket);
      }
    }
  }
  void ChangeStrategy() {
    model.strategy = model.strategy == Strategy::kStrictFIFO ? Strategy::kBestEffortFIFO : Strategy::kStrictFIFO;
    queue.SetStrategy(model.strategy);
    model.failed.clear();
    for (Model::Entry& entry : model.entries) {
      if (entry.misfit) entry.place = Place::kActive;
      entry.misfit = false;
    }
  }

  void Consume() {
    const auto lane = *rc::gen::inRange<uint32_t>(0, 3);
    model.consumed[lane] = *rc::gen::inRange<int64_t>(0, 3);
    if (model.weightless == lane) model.weightless.reset();
    ConsumedShare share{static_cast<uint64_t>(model.consumed[lane]), 1};
    if (!model.weightless.has_value() && *rc::gen::inRange(0, 4) == 0) {
      model.weightless = lane;
      share.weight_nanos = 0;
    } else if (*rc::gen::arbitrary<bool>()) {
      share = {share.consumed * 3, 3};  // the same fraction
    }
    queue.SetLaneShare(lane, share);
  }

  void Compare() const {
    queue.Validate();
    RC_ASSERT(queue.Head() == model.Head());
    Counts total;
    std::array<Counts, 3> lanes;
    for (const Model::Entry& entry : model.entries) {
      RC_ASSERT(entry.ticket->place() == entry.place);
      for (Counts* counts : {&total, &lanes[entry.ticket->lane]}) {
        ++(entry.place == Place::kActive ? counts->active : counts->inadmissible);
      }
    }
    RC_ASSERT(queue.counts() == total);
    for (uint32_t lane = 0; lane < lanes.size(); ++lane) RC_ASSERT(queue.CountsOfLane(lane) == lanes[lane]);
    const std::vector<Ticket*> order = queue.InOrder();
    RC_ASSERT(order.size() == model.entries.size());
    RC_ASSERT(std::is_sorted(order.begin(), order.end(),
                             [this](const Ticket* a, const Ticket* b) { return model.Before(a, b); }));
  }
};

}  // namespace

TEST_CASE("parking and waking by class is the same as ticket by ticket") {
  CHECK(rc::check([] {
    Pair pair;
    const int steps = *rc::gen::inRange(1, 60);
    for (int i = 0; i < steps; ++i) {
      switch (*rc::gen::inRange(0, 13)) {
        case 12:
          pair.Consume();
          break;
        case 0:
          pair.Remove();
          break;
        case 1:
          pair.Park();
          break;
        case 2:
        case 3:
          pair.ParkEquivalents();
          break;
        case 4:
          pair.Wake();
          break;
        case 5:
          pair.PassTime();
          break;
        case 6:
          if (*rc::gen::inRange(0, 4) == 0) pair.ChangeStrategy();
          break;
        default:
          pair.Push();
      }
      pair.Compare();
    }
  }));
}

}  // namespace muster::queue
