// Places for whole gangs, on the book as it is or as it would be.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "fit_scan.h"
#include "room_asker_impl.h"

namespace muster::gang {

namespace {

int64_t PodsOn(const std::vector<MachinePlace>& places) {
  return std::accumulate(places.begin(), places.end(), int64_t{0},
                         [](int64_t sum, const MachinePlace& place) { return sum + place.pods; });
}

// Takes what was found there.
void TakeFound(const Needs& needs, std::vector<MachinePlace> places, Book books, BookEditor* scratch) {
  const GangPlacement placement{{needs, std::move(places)}};
  const bool fits = scratch->Apply({&placement, books, Book::kNone, true});
  MUSTER_CHECK(fits);
}

}  // namespace

RoomAskerImpl::RoomAskerImpl(MachineRoomImpl* room) : room_(room), user_(&room->book_) {
  room_->askers_.push_back(this);
}

RoomAskerImpl::~RoomAskerImpl() { std::erase(room_->askers_, this); }

// ---- books --------------------------------------------------------------------------------------

const BookSnapshot& RoomAskerImpl::Root() {
  if (trial_ == nullptr) root_ = &user_.Read();
  return *root_;
}

const BookSnapshot& RoomAskerImpl::Present() {
  if (lifted_.empty()) return Root();
  if (trial_ == nullptr) {
    const BookSnapshot& root = Root();
    trial_ = std::make_unique<BookEditor>(root, 0);
    for (const Holding* holding : lifted_) MoveOnTrial(*holding, true);
  }
  return trial_->Current();
}

const BookSnapshot& RoomAskerImpl::Empty() {
  if (empty_ != nullptr && empty_as_of_ == room_->capacity_version_) return empty_->book;
  const BookSnapshot& root = Root();
  empty_ = std::make_unique<SomeBook>();
  empty_as_of_ = room_->capacity_version_;
  empty_->book.machines = root.machines;
  for (const Chunk* chunk : root.spine) {
    const MachineBlock& block = empty_->blocks.emplace_back(*chunk->block);
    Chunk& empty = empty_->chunks.emplace_back();
    empty.resources = chunk->resources;
    empty.block = &block;
    empty.free = block.capacity;
    Summarize(&empty);
    empty_->spine.Append(&empty, &empty_->book.spine);
  }
  empty_->book.totals.resize(root.totals.size());
  return empty_->book;
}

void RoomAskerImpl::Lift(const Holding* holding) {
  lifted_.push_back(holding);
  if (trial_ != nullptr) MoveOnTrial(*holding, true);
}

void RoomAskerImpl::PutBack(const Holding* holding) {
  lifted_.erase(std::find(lifted_.begin(), lifted_.end(), holding));
  if (lifted_.empty()) {
    trial_.reset();
  } else if (trial_ != nullptr) {
    MoveOnTrial(*holding, false);
  }
}

// ---- questions ----------------------------------------------------------------------------------

RoomAnswer RoomAskerImpl::Ask(const GangToSeat& gang, RoomView view, bool explain) {
  if (!room_->on_) return {};
  room_->Mention(gang);
  room_->Flush();
  const BookSnapshot& book = view == RoomView::kEmpty ? Empty() : Present();
  const Book books = view == RoomView::kPlanned ? Book::kPlanned : Book::kBoth;
  RoomAnswer answer = Seat(gang, book, books, explain).answer;
  if (!answer.fits && explain && view != RoomView::kEmpty) answer.problem.kept = FitsWithoutKept(gang, books);
  return answer;
}

bool RoomAskerImpl::FitsWithoutKept(const GangToSeat& gang, Book books) {
  std::vector<const Holding*> kept;
  for (const auto& [holding, owned] : room_->kept_) {
    if (std::find(lifted_.begin(), lifted_.end(), holding) == lifted_.end()) kept.push_back(holding);
  }
  if (kept.empty()) return false;
  for (const Holding* holding : kept) Lift(holding);
  const bool fits = Seat(gang, Present(), books, false).answer.fits;
  for (const Holding* holding : kept) PutBack(holding);
  return fits;
}

bool RoomAskerImpl::Holds(const Holding& holding) {
  room_->Flush();
  if (holding.future) return FutureHolds(holding);
  const BookSnapshot& book = Present();
  BookEditor scratch(book, 0);
  GangPlacement placement;
  for (const Holding::Part& part : holding.parts) {
    if (part.places.empty() || !room_->Checks(part.pods.flavors)) continue;
    const ClassFilter& filter = FilterOf(part.pods.shape, part.pods.flavors);
    placement.push_back({part.needs, {}});
    for (const MachinePlace& place : part.places) {
      if (!MachineRoomImpl::IsThere(book, place)) return false;
      placement.back().places.push_back(book.PlaceOn(place.machine, place.pods));
      if (!filter.Admits(placement.back().places.back().machine_class)) return false;
    }
  }
  return scratch.Apply({&placement, Book::kPlanned, Book::kNone, true});
}

// REQUIRES: all flavors are known; all that the shape looks at was mentioned, and is in the book.
const ClassFilter& RoomAskerImpl::FilterOf(const ShapePtr& shape, const std::vector<std::string>& flavors) {
  constexpr size_t kFiltersMax = 4096;  // of shapes that have gone; made again when asked for
  if (filters_.size() >= kFiltersMax) filters_.clear();
  CachedFilter& cached = filters_[{shape, flavors}];
  if (cached.version == room_->classes_version_) return cached.filter;
  const std::vector<const ClassRecord*>& classes = room_->classes_;
  std::vector<MachineClass> admitted;
  for (uint32_t id = 0; id < classes.size(); ++id) {
    if (classes[id] != nullptr && !room_->LackOf(*classes[id], *shape, flavors).has_value()) admitted.push_back({id});
  }
  cached = {room_->classes_version_, ClassFilter(admitted)};
  return cached.filter;
}

// ---- places -------------------------------------------------------------------------------------

std::vector<RoomAskerImpl::Wanted> RoomAskerImpl::WantedOf(const GangToSeat& gang) {
  std::vector<Wanted> wanted;
  for (size_t i = 0; i < gang.size(); ++i) {
    const PodSetToSeat& pods = gang[i];
    if (pods.count <= 0 || !room_->Checks(pods.flavors)) continue;
    wanted.push_back({i,
                      &pods,
                      {room_->NeedsOf(pods.shape->OnNode()), pods.count, FilterOf(pods.shape, pods.flavors)},
                      pods.topology.has_value() ? &*pods.topology : nullptr});
  }
  return wanted;
}

RoomAskerImpl::Seating RoomAskerImpl::Seat(const GangToSeat& gang, const BookSnapshot& book, Book books, bool explain) {
  Seating out;
  out.placement.resize(gang.size());
  const std::vector<Wanted> wanted = WantedOf(gang);
  if (wanted.empty()) return out;
  out.answer.checked = true;
  const auto fail = [&](bool proven) {
    ++refusals_;
    if (!explain) {
      out.answer.fits = false;
      return out;
    }
    Seating in_turn = SeatInTurn(wanted, book, books, proven);
    in_turn.placement.resize(gang.size());
    return in_turn;
  };
  // Those that have their domains first: where they go is settled.
  BookEditor scratch(book, 0);
  bool settled = false;
  GangRequest request;
  request.books = books;
  std::vector<size_t> asked;
  for (const Wanted& pods : wanted) {
    if (pods.topology == nullptr) {
      request.pod_sets.push_back(pods.request);
      asked.push_back(pods.at);
      continue;
    }
    std::vector<MachinePlace> places = SeatInDomains(pods, settled ? scratch.Current() : book, books);
    if (PodsOn(places) < pods.request.count) return fail(wanted.size() == 1);
    TakeFound(pods.request.per_pod, places, books, &scratch);
    settled = true;
    out.placement[pods.at] = {pods.request.per_pod, std::move(places)};
  }
  if (asked.empty()) return out;
  ++searches_;
  SearchResult found = Search(settled ? scratch.Current() : book, request);
  if (found.verdict != SearchResult::Verdict::kFits) {
    return fail(!settled && found.verdict == SearchResult::Verdict::kDoesNotFit);
  }
  for (size_t i = 0; i < asked.size(); ++i) out.placement[asked[i]] = std::move(found.placement[i]);
  return out;
}

RoomAskerImpl::Seating RoomAskerImpl::SeatInTurn(const std::vector<Wanted>& wanted, const BookSnapshot& book,
                                                 Book books, bool proven) {
  Seating out;
  out.placement.resize(wanted.back().at + 1);
  out.answer.checked = true;
  BookEditor scratch(book, 0);
  for (const Wanted& pods : wanted) {
    std::vector<MachinePlace> places = SeatSome(pods, scratch.Current(), books);
    const int64_t placed = PodsOn(places);
    TakeFound(pods.request.per_pod, places, books, &scratch);
    out.placement[pods.at] = {pods.request.per_pod, std::move(places)};
    if (placed == pods.request.count) continue;
    out.answer.fits = false;
    out.answer.pod_set = pods.at;
    out.answer.problem = ProblemOf(pods, scratch.Current(), books, placed);
    out.answer.problem.proven = proven;
    break;
  }
  return out;
}

std::vector<MachinePlace> RoomAskerImpl::SeatSome(const Wanted& wanted, const BookSnapshot& book, Book books) {
  if (wanted.topology != nullptr) return SeatInDomains(wanted, book, books);
  GangRequest request;
  request.books = books;
  request.pod_sets = {wanted.request};
  ++searches_;
  SearchResult found = Search(book, request);
  if (found.verdict != SearchResult::Verdict::kFits) {
    request.pod_sets[0].count = found.placed;
    found = Search(book, request);
  }
  return found.placement.empty() ? std::vector<MachinePlace>() : std::move(found.placement[0].places);
}

std::vector<MachinePlace> RoomAskerImpl::SeatInDomains(const Wanted& wanted, const BookSnapshot& book, Book books) {
  std::map<std::vector<std::string>, std::vector<MachineIndex>> machines;
  for (const auto& [name, record] : room_->nodes_) {
    if (!record.known || !record.machine.has_value()) continue;
    std::vector<std::string> values;
    for (const std::string& level : wanted.topology->levels) {
      const auto label = record.node.labels.find(level);
      if (label != record.node.labels.end()) values.push_back(label->second);
    }
    if (values.size() == wanted.topology->levels.size()) machines[std::move(values)].push_back(*record.machine);
  }
  std::vector<MachinePlace> places;
  int64_t left = wanted.request.count;
  for (const TopologyDomain& domain : wanted.topology->domains) {
    int64_t here = std::min<int64_t>(domain.count, left);
    for (const MachineIndex machine : machines[domain.values]) {
      if (here == 0 || !HasPlace(book, wanted.request, books, machine)) continue;
      const uint32_t slot = machine.value % kChunkMachines;
      const int64_t pods = std::min(here, PodsThatFit(*book.Find(machine), slot, wanted.request.per_pod, books));
      places.push_back(book.PlaceOn(machine, pods));
      here -= pods;
      left -= pods;
    }
  }
  return places;
}

// Of what is asked for, the resource that most machines lack; of equals the later name, pod slots last.
RoomProblem RoomAskerImpl::ProblemOf(const Wanted& wanted, const BookSnapshot& book, Book books, int64_t placed) {
  RoomProblem problem;
  problem.placed = placed;
  problem.wanted = wanted.request.count;
  const Missing missing = WhatIsMissing(book, wanted.request, books);
  if (missing.admitted == 0) {
    problem.lack = room_->WhyNoMachine(*wanted.pods);
    return problem;
  }
  if (wanted.topology != nullptr) problem.lack = RoomLack::kDomain;
  const auto rank = [this](const Shortage& shortage) {
    return std::tuple(shortage.machines_without, shortage.resource != kPodSlots,
                      std::string_view(room_->NameOf(shortage.resource)));
  };
  const auto worst = std::max_element(missing.shortages.begin(), missing.shortages.end(),
                                      [&](const Shortage& a, const Shortage& b) { return rank(a) < rank(b); });
  problem.resource = room_->NameOf(worst->resource);
  problem.needed = Amount{worst->needed};
  problem.largest = Amount{std::max(worst->largest, int64_t{0})};
  problem.node = room_->machine_names_[worst->largest_on.value];
  return problem;
}

void AddToHash(const RoomProblem& problem, StateHash* hash) {
  hash->Add(problem.placed).Add(problem.wanted).Add(problem.resource).Add(problem.needed.value);
  hash->Add(problem.largest.value).Add(problem.node).Add(static_cast<int64_t>(problem.proven));
  hash->Add(static_cast<int64_t>(problem.lack)).Add(static_cast<int64_t>(problem.kept));
}

}  // namespace muster::gang
