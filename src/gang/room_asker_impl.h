// The state behind RoomAsker.
//
// Threading: as RoomAsker.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "book_editor.h"
#include "machine_room_impl.h"
#include "muster/gang/machine_book.h"
#include "muster/gang/machine_room.h"

namespace muster::gang {

class RoomAskerImpl {
 public:
  using Holding = Reservation::Holding;

  // One pod set, as a search takes it.
  struct Wanted {
    size_t at = 0;
    const PodSetToSeat* pods = nullptr;
    PodSetRequest request;
    const TopologyAssignment* topology = nullptr;
  };

  explicit RoomAskerImpl(MachineRoomImpl* room);
  ~RoomAskerImpl();
  RoomAskerImpl(const RoomAskerImpl&) = delete;
  RoomAskerImpl& operator=(const RoomAskerImpl&) = delete;

  MachineRoomImpl* room() const { return room_; }

  // ---- questions (machine_room_seats.cpp)
  RoomAnswer Ask(const GangToSeat& gang, RoomView view, bool explain);
  void Lift(const Holding* holding);
  void PutBack(const Holding* holding);
  bool Holds(const Holding& holding);

  // ---- what gangs are to hold (machine_room_claims.cpp, machine_room_future.cpp)
  std::optional<Reservation> Take(std::string_view workload, const GangToSeat& gang, Purpose purpose);
  std::optional<FutureRoom> KeepFuture(std::string_view workload, const GangToSeat& gang, const GangEnds& ends);

  // ---- for the room
  const ClassFilter& FilterOf(const ShapePtr& shape, const std::vector<std::string>& flavors);
  std::vector<Wanted> WantedOf(const GangToSeat& gang);
  // As many pods as have a place, where they are to be.
  std::vector<MachinePlace> SeatSome(const Wanted& wanted, const BookSnapshot& book, Book books);
  // The book has changed.
  void Renew() { trial_.reset(); }
  bool lifts() const { return !lifted_.empty(); }
  uint64_t searches() const { return searches_; }
  uint64_t refusals() const { return refusals_; }

 private:
  // Places for a whole gang: by pod set, as given.
  struct Seating {
    RoomAnswer answer;
    GangPlacement placement;
  };
  struct FilterKey {
    ShapePtr shape;
    std::vector<std::string> flavors;
    friend bool operator<(const FilterKey& a, const FilterKey& b) {
      return a.shape != b.shape ? a.shape.get() < b.shape.get() : a.flavors < b.flavors;
    }
  };
  struct CachedFilter {
    uint64_t version = 0;
    ClassFilter filter;
  };

  // ---- books
  const BookSnapshot& Root();
  // With what is lifted out of it.
  const BookSnapshot& Present();
  // Without gangs.
  const BookSnapshot& Empty();
  void MoveOnTrial(const Holding& holding, bool out);

  // ---- places
  // `explain`: where they do not fit, the answer says why.
  Seating Seat(const GangToSeat& gang, const BookSnapshot& book, Book books, bool explain);
  // Pod set after pod set, as many as there are places for; says what is in the way of the first that lacks some.
  Seating SeatInTurn(const std::vector<Wanted>& wanted, const BookSnapshot& book, Book books, bool proven);
  std::vector<MachinePlace> SeatInDomains(const Wanted& wanted, const BookSnapshot& book, Book books);
  // Would it, if nothing were kept for others?
  bool FitsWithoutKept(const GangToSeat& gang, Book books);
  RoomProblem ProblemOf(const Wanted& wanted, const BookSnapshot& book, Book books, int64_t placed);
  bool FutureHolds(const Holding& holding);
  bool TakePlaces(const GangPlacement& placement, Book books);

  MachineRoomImpl* const room_;
  MachineBook::User user_;
  std::map<FilterKey, CachedFilter> filters_;
  std::vector<const Holding*> lifted_;
  const BookSnapshot* root_ = nullptr;  // that `trial_` is made of
  std::unique_ptr<BookEditor> trial_;   // never published
  std::unique_ptr<SomeBook> empty_;
  uint64_t empty_as_of_ = 0;  // version of capacities
  uint64_t searches_ = 0;
  uint64_t refusals_ = 0;
};

}  // namespace muster::gang
