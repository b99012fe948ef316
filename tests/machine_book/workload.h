// Random operations on a small machine book, recorded.
//
// Threading: a Worker is used by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "history.h"
#include "muster/gang/machine_book.h"

namespace muster::gang {

inline constexpr MachineResource kGpu{1};

inline MachineEdit PutMachine(uint32_t machine, int64_t gpus, int64_t slots = 10, uint32_t machine_class = 0,
                              bool open = true) {
  return {MachineEdit::Kind::kPut, {machine}, {machine_class}, open, {{kPodSlots, slots}, {kGpu, gpus}}};
}

inline MachineEdit AdjustMachine(uint32_t machine, int64_t gpus) {
  return {MachineEdit::Kind::kAdjust, {machine}, {0}, true, {{kGpu, gpus}}};
}

inline MachineEdit RemoveMachine(uint32_t machine) { return {MachineEdit::Kind::kRemove, {machine}, {0}, true, {}}; }

inline GangRequest Gang(int64_t pods, int64_t gpus_each, Book books = Book::kBoth, ClassFilter filter = {}) {
  GangRequest request;
  request.pod_sets.push_back({PodNeeds({{kGpu, gpus_each}}), pods, std::move(filter)});
  request.books = books;
  return request;
}

// One user of the book, that does what it is told and notes it. `clock` gives a later time at each call.
template <typename BookType>
class Worker {
 public:
  // `machines`: which there are, or may come; ascending.
  Worker(BookType* book, std::vector<uint32_t> machines, std::function<int64_t()> clock)
      : user_(book), machines_(std::move(machines)), clock_(std::move(clock)) {}

  const std::vector<Recorded>& history() const { return history_; }
  typename BookType::User& user() { return user_; }
  std::vector<Claim>& claims() { return claims_; }

  Outcome Place(const GangRequest& request) {
    Recorded& note = Begin(Recorded::Kind::kPlace);
    note.request = request;
    Claim claim;
    note.outcome = user_.Place(request, &claim);
    note.outcome.placement = claim.placement;
    End(&note);
    if (note.outcome.done()) claims_.push_back(std::move(claim));
    return note.outcome;
  }
  Outcome Reserve(const GangPlacement& placement, Book books) {
    Recorded& note = BeginStep(placement, {nullptr, books, Book::kNone, true});
    Claim claim;
    note.outcome = user_.Reserve(placement, books, &claim);
    End(&note);
    if (note.outcome.done()) claims_.push_back(std::move(claim));
    return note.outcome;
  }
  Outcome Start(size_t claim) {
    Recorded& note = BeginStep(claims_[claim].placement, {nullptr, Book::kFree, Book::kNone, true});
    note.outcome = user_.Start(&claims_[claim]);
    End(&note);
    return note.outcome;
  }
  void Leave(size_t claim) {
    Recorded& note = BeginStep(claims_[claim].placement, {nullptr, Book::kNone, Book::kPlanned, false});
    note.outcome = user_.Leave(&claims_[claim]);
    End(&note);
  }
  void Release(size_t claim) {
    Recorded& note = BeginStep(claims_[claim].placement, {nullptr, Book::kNone, claims_[claim].held, false});
    released_ = claims_[claim].placement;
    note.outcome = user_.Release(&claims_[claim]);
    End(&note);
    claims_.erase(claims_.begin() + static_cast<std::ptrdiff_t>(claim));
  }
  void Edit(const std::vector<MachineEdit>& edits) {
    Recorded& note = Begin(Recorded::Kind::kEdit);
    note.edits = edits;
    note.outcome = user_.Edit(edits);
    End(&note);
  }
  void Read() {
    Recorded& note = Begin(Recorded::Kind::kRead);
    const BookSnapshot& book = user_.Read();
    note.outcome.version = book.version;
    note.seen = PlainOf(book, machines_.back() + 1);
    user_.EndRead();
    End(&note);
  }

  // Something that makes sense now.
  void Random(std::mt19937_64* random) {
    const auto draw = [&](uint64_t n) { return static_cast<uint32_t>((*random)() % n); };
    const auto machine = [&] { return machines_[draw(machines_.size())]; };
    const auto books = [&] { return draw(4) == 0 ? Book::kPlanned : Book::kBoth; };
    const uint32_t what = draw(100);
    if (what < 28 || (what < 60 && claims_.empty()) || (what >= 60 && what < 67 && released_.empty())) {
      const ClassFilter filter = draw(4) == 0 ? ClassFilter({MachineClass{1}}) : ClassFilter();
      GangRequest request = Gang(1 + draw(4), 1 + draw(3), books(), filter);
      request.origin = machine() / kChunkMachines;
      Place(request);
    } else if (what >= 60 && what < 67) {
      // Where it was, which may be gone, of another class, or somebody else's by now.
      Reserve(released_, books());
    } else if (what < 60) {
      const size_t claim = draw(claims_.size());
      const Book held = claims_[claim].held;
      if (held == Book::kPlanned && draw(2) == 0) {
        Start(claim);
      } else if (held == Book::kBoth && draw(3) == 0) {
        Leave(claim);
      } else {
        Release(claim);
      }
    } else if (what < 76) {
      Edit({PutMachine(machine(), draw(5), 10, draw(2), draw(6) != 0)});
    } else if (what < 82) {
      Edit({AdjustMachine(machine(), int64_t{draw(4)} - 2), AdjustMachine(machine(), 1)});
    } else if (what < 88) {
      Edit({RemoveMachine(machine())});
    } else {
      Read();
    }
  }

 private:
  Recorded& Begin(Recorded::Kind kind) {
    history_.emplace_back();
    history_.back().kind = kind;
    history_.back().begin = clock_();
    return history_.back();
  }
  Recorded& BeginStep(const GangPlacement& placement, ClaimStep step) {
    Recorded& note = Begin(Recorded::Kind::kStep);
    note.placement = placement;
    note.step = step;
    return note;
  }
  void End(Recorded* note) { note->end = clock_(); }

  typename BookType::User user_;
  std::vector<uint32_t> machines_;
  std::function<int64_t()> clock_;
  std::vector<Recorded> history_;
  std::vector<Claim> claims_;
  GangPlacement released_;  // what it gave back last
};

}  // namespace muster::gang
