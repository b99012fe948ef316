#include "mixed_search.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "fit_scan.h"
#include "mixed_repair.h"

namespace muster::gang {

namespace {

// What few rounds do not place, exchanges of mixes do sooner than more rounds.
constexpr int kRounds = 4;
// Steps for one machine's mix in a round: more are worth little, since the next machine differs.
constexpr int64_t kStepsInRound = 512;
// The last resort tries everything; with more machines than this, or more steps for one's mixes, it would not end.
constexpr size_t kExhaustiveMachines = 256;
constexpr int64_t kStepsForAll = 20'000;
constexpr size_t kMaxShapes = 64;
// A first look takes in so many times the places that each shape needs, on so many machines at least: where there is
// plenty, the rest need not be looked at.
constexpr int64_t kPlentyPlaces = 4;
constexpr int64_t kPlentyMachines = 64;
constexpr int kRoundsOfFirstLook = 3;

using Counts = PodCounts;

// Pod sets of one shape are one, as far as the search goes.
struct Shape {
  const PodSetRequest* pod_set = nullptr;
  int64_t count = 0;
  std::vector<int64_t> needs;  // by resource, as the search numbers them
  int64_t alone = 0;           // how many would have a place if there were nothing else
  int64_t price = 0;
};

struct Candidate {
  MachineIndex machine;
  uint64_t admits = 0;  // a bit a shape that has a place here
  int wide = 0;         // how many those are
  __int128 worth = 0;   // its room at the scarcest resources' prices
};

class Packing {
 public:
  Packing(const BookSnapshot& book, const GangRequest& request) : book_(book), request_(request) {}

  SearchResult Run();

 private:
  void Merge();
  // The machines that have a place for some shape: all, or of each shape until there is plenty.
  enum class Extent { kPlenty, kAll };
  void Gather(Extent extent);
  // Gathers, sets prices, and goes round. RETURNS: the fewest pods that stayed over, `pods` at most.
  int64_t Pack(Extent extent, int64_t pods);
  void SetPrices();
  bool Provable() const;
  Counts Wanted() const;

  // Pods of shape `k` that fit into `room`, at most `left`.
  int64_t Most(size_t k, const int64_t* room, int64_t left) const;
  void TakeRoom(size_t k, int64_t pods, int64_t* room) const;
  __int128 ValueOf(const Counts& mix) const;

  // Calls visit(mix) for each mix of what is left that cannot be added to. The first is found in a step a shape.
  // RETURNS: whether there were `steps` enough for all.
  template <typename F>
  bool ForEachMix(size_t at, const Counts& left, int64_t steps, F visit);
  template <typename F>
  bool Extend(size_t at, size_t i, const Counts& left, F& visit);
  bool IsFull(size_t at, const Counts& left) const;

  // Fills machine after machine. RETURNS: pods that stayed over.
  int64_t Round();
  // Exchanges mixes of the last round. RETURNS: the fewest pods of `left` and any other attempt that stayed over.
  int64_t Repair(int64_t left);
  std::vector<MixGroup> GroupMachines(std::vector<size_t>* group_of);
  // RETURNS: whether a packing was found; `complete_` says whether a no is proven.
  bool TryEverything(size_t at, Counts* left);
  bool Hopeless(size_t at, const Counts& left) const;
  void SumSuffixes();

  void Write(SearchResult* result) const;
  bool OutOfSteps() const { return steps_ - steps_of_first_look_ >= request_.step_limit; }

  const BookSnapshot& book_;
  const GangRequest& request_;
  std::vector<MachineResource> resources_;
  std::vector<Shape> shapes_;
  std::vector<size_t> shape_of_;  // by pod set
  std::vector<size_t> by_price_;  // shapes, the dearest for its size first
  std::vector<Candidate> candidates_;
  std::vector<int64_t> rooms_;  // [candidate][resource]
  std::vector<__int128> total_;
  std::vector<__int128> demand_;
  std::vector<Counts> mixes_;  // by candidate
  bool saw_all_ = false;       // no machine with a place is missing among the candidates
  bool cannot_fit_ = false;    // proven
  int64_t steps_ = 0;
  int64_t steps_of_first_look_ = 0;

  // While mixes are made:
  int64_t mix_steps_ = 0;
  std::vector<int64_t> room_;
  Counts mix_;

  // While everything is tried:
  std::vector<Counts> alone_from_;  // by candidate: what it and all after it could take of each shape alone
  std::vector<std::vector<__int128>> room_from_;
  absl::flat_hash_set<std::vector<int64_t>> failed_;
  bool complete_ = true;
};

// ---- the problem --------------------------------------------------------------------------------

void Packing::Merge() {
  for (const PodSetRequest& pod_set : request_.pod_sets) {
    const auto same = std::find_if(shapes_.begin(), shapes_.end(), [&](const Shape& shape) {
      return shape.pod_set->per_pod == pod_set.per_pod && shape.pod_set->filter == pod_set.filter;
    });
    shape_of_.push_back(static_cast<size_t>(same - shapes_.begin()));
    if (same == shapes_.end()) shapes_.push_back({&pod_set, 0, {}, 0, 0});
    int64_t& count = shapes_[shape_of_.back()].count;
    if (__builtin_add_overflow(count, std::max(pod_set.count, int64_t{0}), &count)) {
      count = std::numeric_limits<int64_t>::max();
    }
    for (const Need& need : pod_set.per_pod) {
      if (std::find(resources_.begin(), resources_.end(), need.resource) == resources_.end()) {
        resources_.push_back(need.resource);
      }
    }
  }
  for (Shape& shape : shapes_) {
    for (const MachineResource resource : resources_) {
      int64_t amount = 0;
      for (const Need& need : shape.pod_set->per_pod) {
        if (need.resource == resource) amount = need.amount;
      }
      shape.needs.push_back(amount);
    }
  }
}

void Packing::Gather(Extent extent) {
  candidates_.clear();
  rooms_.clear();
  saw_all_ = true;
  std::vector<int32_t> index(size_t{book_.chunks()} * kChunkMachines, -1);
  for (size_t k = 0; k < shapes_.size(); ++k) {
    Shape& shape = shapes_[k];
    shape.alone = 0;
    int64_t machines = 0;
    __int128 places = 0;
    ForEachMachineThatFits(
        book_, *shape.pod_set, request_.books, request_.origin,
        [&](MachineIndex machine, const Chunk& chunk, uint32_t slot, int64_t pods) {
          int32_t& at = index[machine.value];
          if (extent == Extent::kPlenty && ++machines > kPlentyMachines &&
              places >= __int128{kPlentyPlaces} * shape.count) {
            saw_all_ = false;
            return false;
          }
          if (at < 0) {
            at = static_cast<int32_t>(candidates_.size());
            candidates_.push_back({machine, 0, 0, 0});
            for (const MachineResource resource : resources_) {
              rooms_.push_back(std::max(int64_t{0}, chunk.Room(request_.books, resource.value, slot)));
            }
          }
          candidates_[static_cast<size_t>(at)].admits |= uint64_t{1} << k;
          ++candidates_[static_cast<size_t>(at)].wide;
          places += std::min(pods, shape.count);
          shape.alone += std::min(pods, shape.count - shape.alone);
          return true;
        });
  }
  mixes_.assign(candidates_.size(), {});
  total_.assign(resources_.size(), 0);
  demand_.assign(resources_.size(), 0);
  for (size_t i = 0; i < rooms_.size(); ++i) total_[i % resources_.size()] += rooms_[i];
  for (const Shape& shape : shapes_) {
    for (size_t r = 0; r < resources_.size(); ++r) demand_[r] += __int128{shape.needs[r]} * shape.count;
  }
}

// Each shape by itself, and the sums: what fails here cannot fit. A shape that lacks places was looked for everywhere.
bool Packing::Provable() const {
  for (const Shape& shape : shapes_) {
    if (shape.alone < shape.count) return true;
  }
  for (size_t r = 0; r < resources_.size(); ++r) {
    if (saw_all_ && demand_[r] > total_[r]) return true;
  }
  return false;
}

Counts Packing::Wanted() const {
  Counts wanted;
  for (const Shape& shape : shapes_) wanted.push_back(shape.count);
  return wanted;
}

// A pod's price: its share of each resource, the more the scarcer that is, and more if its shape has few places.
void Packing::SetPrices() {
  std::vector<__int128> weight;  // of a 2^40th of all there is
  for (size_t r = 0; r < resources_.size(); ++r) {
    const __int128 ratio = total_[r] == 0 ? 0 : std::min(__int128{1024}, (demand_[r] << 10) / total_[r]);
    weight.push_back(ratio * ratio * ratio);
  }
  for (Shape& shape : shapes_) {
    __int128 price = 1;
    for (size_t r = 0; r < resources_.size(); ++r) {
      if (total_[r] == 0) continue;
      const __int128 share = std::min(__int128{1} << 40, (__int128{shape.needs[r]} << 40) / total_[r]);
      price += (share * weight[r]) >> 30;
    }
    const __int128 tight = shape.alone == 0 ? 0 : std::min(__int128{256}, (__int128{shape.count} << 8) / shape.alone);
    price = price * (256 + tight) >> 8;
    shape.price = static_cast<int64_t>(std::min(price, __int128{1} << 50));
  }
  for (size_t i = 0; i < candidates_.size(); ++i) {
    for (size_t r = 0; r < resources_.size(); ++r) {
      candidates_[i].worth +=
          total_[r] == 0 ? 0 : ((__int128{rooms_[i * resources_.size() + r]} << 40) / total_[r]) * weight[r];
    }
  }
  // Machines that few shapes can use first, and small ones; what is left for later is then of use to most.
  std::vector<size_t> order(candidates_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Candidate& one = candidates_[a];
    const Candidate& other = candidates_[b];
    return one.wide != other.wide ? one.wide < other.wide : one.worth < other.worth;
  });
  std::vector<Candidate> candidates;
  std::vector<int64_t> rooms;
  for (const size_t i : order) {
    candidates.push_back(candidates_[i]);
    rooms.insert(rooms.end(), rooms_.begin() + static_cast<std::ptrdiff_t>(i * resources_.size()),
                 rooms_.begin() + static_cast<std::ptrdiff_t>((i + 1) * resources_.size()));
  }
  candidates_ = std::move(candidates);
  rooms_ = std::move(rooms);
}

// ---- mixes --------------------------------------------------------------------------------------

int64_t Packing::Most(size_t k, const int64_t* room, int64_t left) const {
  int64_t pods = left;
  for (size_t r = 0; r < resources_.size() && pods > 0; ++r) {
    if (shapes_[k].needs[r] > 0) pods = std::min(pods, room[r] / shapes_[k].needs[r]);
  }
  return pods;
}

void Packing::TakeRoom(size_t k, int64_t pods, int64_t* room) const {
  for (size_t r = 0; r < resources_.size(); ++r) room[r] -= pods * shapes_[k].needs[r];
}

__int128 Packing::ValueOf(const Counts& mix) const {
  __int128 value = 0;
  for (size_t k = 0; k < mix.size(); ++k) value += __int128{mix[k]} * shapes_[k].price;
  return value;
}

// No pod of what is left has room beside the mix.
bool Packing::IsFull(size_t at, const Counts& left) const {
  for (size_t k = 0; k < shapes_.size(); ++k) {
    const bool admitted = (candidates_[at].admits >> k & 1) != 0;
    if (admitted && left[k] > mix_[k] && Most(k, room_.data(), 1) > 0) return false;
  }
  return true;
}

template <typename F>
bool Packing::Extend(size_t at, size_t i, const Counts& left, F& visit) {
  ++steps_;
  if (i == by_price_.size()) {
    if (IsFull(at, left)) visit(mix_);
    return --mix_steps_ > 0;
  }
  const size_t k = by_price_[i];
  const bool admitted = (candidates_[at].admits >> k & 1) != 0;
  const int64_t most = admitted ? Most(k, room_.data(), left[k]) : 0;
  // The last one takes what it can: fewer would not be full.
  const int64_t least = i + 1 == by_price_.size() ? most : 0;
  for (int64_t pods = most; pods >= least; --pods) {
    TakeRoom(k, pods, room_.data());
    mix_[k] = pods;
    const bool go_on = Extend(at, i + 1, left, visit) && --mix_steps_ > 0;
    mix_[k] = 0;
    TakeRoom(k, -pods, room_.data());
    if (!go_on) return false;
  }
  return true;
}

template <typename F>
bool Packing::ForEachMix(size_t at, const Counts& left, int64_t steps, F visit) {
  mix_steps_ = steps;
  const auto room = rooms_.begin() + static_cast<std::ptrdiff_t>(at * resources_.size());
  room_.assign(room, room + static_cast<std::ptrdiff_t>(resources_.size()));
  mix_.assign(shapes_.size(), 0);
  return Extend(at, 0, left, visit);
}

// ---- rounds -------------------------------------------------------------------------------------

int64_t Packing::Round() {
  Counts left = Wanted();
  int64_t pods_left = std::accumulate(left.begin(), left.end(), int64_t{0});
  by_price_.resize(shapes_.size());
  std::iota(by_price_.begin(), by_price_.end(), size_t{0});
  std::stable_sort(by_price_.begin(), by_price_.end(),
                   [&](size_t a, size_t b) { return shapes_[a].price > shapes_[b].price; });
  for (size_t at = 0; at < candidates_.size(); ++at) {
    mixes_[at].clear();
    if (pods_left == 0) continue;
    __int128 best = -1;
    // Out of steps, the first mix will do: a round is always brought to its end.
    ForEachMix(at, left, OutOfSteps() ? 1 : kStepsInRound, [&](const Counts& mix) {
      const __int128 value = ValueOf(mix);
      if (value > best) {
        best = value;
        mixes_[at] = mix;
      }
    });
    for (size_t k = 0; k < mixes_[at].size(); ++k) {
      left[k] -= mixes_[at][k];
      pods_left -= mixes_[at][k];
    }
  }
  for (size_t k = 0; k < shapes_.size(); ++k) {
    // What stayed over is worth more than it seemed.
    if (left[k] > 0) shapes_[k].price += shapes_[k].price / 4 + 1;
  }
  return pods_left;
}

// ---- repair -------------------------------------------------------------------------------------

std::vector<MixGroup> Packing::GroupMachines(std::vector<size_t>* group_of) {
  const Counts wanted = Wanted();
  const size_t shapes = shapes_.size();
  std::vector<MixGroup> groups;
  absl::flat_hash_map<std::vector<int64_t>, size_t> known;
  for (size_t at = 0; at < candidates_.size(); ++at) {
    std::vector<int64_t> pods;
    const bool all = ForEachMix(at, wanted, OutOfSteps() ? 1 : kStepsInRound,
                                [&](const Counts& mix) { pods.insert(pods.end(), mix.begin(), mix.end()); });
    std::vector<int64_t> key = pods;
    if (!all) {
      // Machines that have these in common may differ in what was not listed, and that is in the group, too.
      const auto room = rooms_.begin() + static_cast<std::ptrdiff_t>(at * resources_.size());
      key.insert(key.end(), room, room + static_cast<std::ptrdiff_t>(resources_.size()));
      key.push_back(static_cast<int64_t>(candidates_[at].admits));
    }
    key.push_back(all ? 1 : 0);
    const auto [same, is_new] = known.try_emplace(std::move(key), groups.size());
    if (is_new) {
      const size_t mixes = pods.size() / shapes;
      groups.push_back({shapes, std::move(pods), Counts(mixes, 0), all});
    }
    group_of->push_back(same->second);
    MixGroup& group = groups[same->second];
    // The mix of a round had only what was left; one that cannot be added to holds it, if all were looked at.
    const Counts& before = mixes_[at];
    size_t i = 0;
    while (i < group.machines.size() && !std::equal(before.begin(), before.end(), group.Mix(i), std::less_equal<>())) {
      ++i;
      ++steps_;
    }
    if (i == group.machines.size()) {
      group.pods.insert(group.pods.end(), before.begin(), before.end());
      group.machines.push_back(0);
    }
    ++group.machines[i];
  }
  return groups;
}

int64_t Packing::Repair(int64_t left) {
  int64_t most = 0;  // that all mixes could hold, as the repair counts them
  for (const Shape& shape : shapes_) most += shape.count;
  if (__builtin_mul_overflow(most, static_cast<int64_t>(candidates_.size()), &most)) return left;
  std::vector<size_t> group_of;
  std::vector<MixGroup> groups = GroupMachines(&group_of);
  Counts prices;
  for (const Shape& shape : shapes_) prices.push_back(shape.price);
  MixRepair repair(&groups, Wanted(), std::move(prices));
  const int64_t steps = request_.step_limit - (steps_ - steps_of_first_look_);
  const MixRepair::End end = repair.Run(candidates_.size() <= kExhaustiveMachines ? steps / 2 : steps);
  steps_ += repair.steps();
  cannot_fit_ = end == MixRepair::End::kCannotBe;
  if (end != MixRepair::End::kWhole) return std::min(left, repair.missing());
  for (size_t at = 0; at < candidates_.size(); ++at) {
    MixGroup& group = groups[group_of[at]];
    const auto mix = std::find_if(group.machines.begin(), group.machines.end(), [](int64_t some) { return some > 0; });
    --*mix;
    const int64_t* pods = group.Mix(static_cast<size_t>(mix - group.machines.begin()));
    mixes_[at].assign(pods, pods + shapes_.size());
  }
  return 0;
}

// ---- everything ---------------------------------------------------------------------------------

void Packing::SumSuffixes() {
  alone_from_.assign(candidates_.size() + 1, Counts(shapes_.size(), 0));
  room_from_.assign(candidates_.size() + 1, std::vector<__int128>(resources_.size(), 0));
  for (size_t at = candidates_.size(); at-- > 0;) {
    const int64_t* room = rooms_.data() + at * resources_.size();
    for (size_t k = 0; k < shapes_.size(); ++k) {
      const bool admitted = (candidates_[at].admits >> k & 1) != 0;
      const int64_t here = admitted ? Most(k, room, shapes_[k].count) : 0;
      alone_from_[at][k] = std::min(shapes_[k].count, alone_from_[at + 1][k]) + here;
    }
    for (size_t r = 0; r < resources_.size(); ++r) room_from_[at][r] = room_from_[at + 1][r] + room[r];
  }
}

bool Packing::Hopeless(size_t at, const Counts& left) const {
  for (size_t k = 0; k < left.size(); ++k) {
    if (left[k] > alone_from_[at][k]) return true;
  }
  for (size_t r = 0; r < resources_.size(); ++r) {
    __int128 wanted = 0;
    for (size_t k = 0; k < left.size(); ++k) wanted += __int128{left[k]} * shapes_[k].needs[r];
    if (wanted > room_from_[at][r]) return true;
  }
  return false;
}

bool Packing::TryEverything(size_t at, Counts* left) {
  if (std::all_of(left->begin(), left->end(), [](int64_t pods) { return pods == 0; })) {
    for (; at < candidates_.size(); ++at) mixes_[at].clear();
    return true;
  }
  if (Hopeless(at, *left)) return false;  // also at the end, where nothing has room
  if (OutOfSteps()) {
    complete_ = false;
    return false;
  }
  std::vector<int64_t> key = *left;
  key.push_back(static_cast<int64_t>(at));
  if (failed_.contains(key)) return false;
  std::vector<Counts> mixes;
  const bool all = ForEachMix(at, *left, kStepsForAll, [&](const Counts& mix) { mixes.push_back(mix); });
  std::stable_sort(mixes.begin(), mixes.end(),
                   [&](const Counts& a, const Counts& b) { return ValueOf(a) > ValueOf(b); });
  for (const Counts& mix : mixes) {
    mixes_[at] = mix;
    for (size_t k = 0; k < mix.size(); ++k) (*left)[k] -= mix[k];
    if (TryEverything(at + 1, left)) return true;
    for (size_t k = 0; k < mix.size(); ++k) (*left)[k] += mix[k];
  }
  complete_ &= all;
  failed_.insert(std::move(key));
  return false;
}

// ---- the answer ---------------------------------------------------------------------------------

void Packing::Write(SearchResult* result) const {
  std::vector<Counts> mixes = mixes_;
  for (size_t set = 0; set < request_.pod_sets.size(); ++set) {
    const PodSetRequest& pod_set = request_.pod_sets[set];
    PodSetPlaces places{pod_set.per_pod, {}};
    int64_t left = std::max(pod_set.count, int64_t{0});
    for (size_t at = 0; at < candidates_.size() && left > 0; ++at) {
      if (mixes[at].empty()) continue;
      int64_t& here = mixes[at][shape_of_[set]];
      const int64_t taken = std::min(here, left);
      if (taken == 0) continue;
      here -= taken;
      left -= taken;
      places.places.push_back(book_.PlaceOn(candidates_[at].machine, taken));
    }
    result->placement.push_back(std::move(places));
  }
  result->verdict = SearchResult::Verdict::kFits;
}

int64_t Packing::Pack(Extent extent, int64_t pods) {
  Gather(extent);
  cannot_fit_ = Provable();
  SetPrices();
  int64_t left = pods;
  const int rounds = saw_all_ ? kRounds : kRoundsOfFirstLook;
  for (int round = 0; round < rounds && left > 0 && !OutOfSteps(); ++round) {
    left = std::min(left, Round());
    if (cannot_fit_) break;  // only to know how many do have a place
  }
  return left;
}

SearchResult Packing::Run() {
  SearchResult result;
  Merge();
  if (shapes_.size() > kMaxShapes) {
    result.verdict = SearchResult::Verdict::kNotFound;
    return result;
  }
  int64_t pods = 0;
  for (const Shape& shape : shapes_) {
    if (__builtin_add_overflow(pods, shape.count, &pods)) return result;  // no cluster has room for so many
  }
  int64_t left = Pack(Extent::kPlenty, pods);
  if (left > 0 && !saw_all_ && !cannot_fit_) {
    steps_of_first_look_ = steps_;
    left = Pack(Extent::kAll, left);
  }
  // All machines are candidates by now.
  if (left > 0 && !cannot_fit_ && !OutOfSteps()) left = Repair(left);
  result.placed = pods - left;
  bool found = left == 0;
  if (!found && !cannot_fit_ && candidates_.size() <= kExhaustiveMachines) {
    SumSuffixes();
    Counts wanted = Wanted();
    found = TryEverything(0, &wanted);
  } else {
    complete_ = cannot_fit_;
  }
  result.steps = steps_;
  if (found) {
    result.placed = pods;
    Write(&result);
  } else if (!complete_) {
    result.verdict = SearchResult::Verdict::kNotFound;
  }
  return result;
}

}  // namespace

SearchResult SearchSeveralShapes(const BookSnapshot& book, const GangRequest& request) {
  return Packing(book, request).Run();
}

}  // namespace muster::gang
