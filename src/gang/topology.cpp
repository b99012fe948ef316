#include "muster/gang/topology.h"

#include <algorithm>
#include <tuple>

#include "balanced_placement.h"
#include "domain_room.h"
#include "muster/core/check.h"

namespace muster::gang {

void AddToHash(const TopologyRequest& request, StateHash* hash) {
  hash->Add(request.required).Add(request.preferred).Add(static_cast<int64_t>(request.unconstrained));
  hash->Add(request.group).Add(static_cast<int64_t>(request.slices.size()));
  for (const SliceConstraint& slice : request.slices) hash->Add(slice.topology).Add(static_cast<int64_t>(slice.size));
}

void AddToHash(const TopologyAssignment& assignment, StateHash* hash) {
  for (const std::string& level : assignment.levels) hash->Add(level);
  for (const TopologyDomain& domain : assignment.domains) {
    for (const std::string& value : domain.values) hash->Add(value);
    hash->Add(static_cast<int64_t>(domain.count));
  }
}

DomainTree::DomainTree(std::vector<std::string> levels, std::vector<std::vector<std::string>> leaves)
    : levels_(std::move(levels)), values_(std::move(leaves)), children_(levels_.size()) {
  MUSTER_CHECK(!levels_.empty());
  // A leaf begins a domain at each level from the first at which it differs from the leaf before it.
  for (size_t leaf = 0; leaf < values_.size(); ++leaf) {
    MUSTER_CHECK(values_[leaf].size() == depth());
    size_t differs = 0;
    if (leaf > 0) {
      while (differs < depth() && values_[leaf][differs] == values_[leaf - 1][differs]) ++differs;
      MUSTER_CHECK(differs < depth() && values_[leaf - 1][differs] < values_[leaf][differs]);
    }
    for (size_t level = differs; level < depth(); ++level) {
      children_[level].push_back(level + 1 == depth() ? leaf : children_[level + 1].size());
    }
  }
  for (size_t level = 0; level < depth(); ++level) {
    children_[level].push_back(level + 1 == depth() ? values_.size() : children_[level + 1].size());
  }
}

std::optional<size_t> DomainTree::LevelOf(std::string_view label) const {
  const auto it = std::find(levels_.begin(), levels_.end(), label);
  if (it == levels_.end()) return std::nullopt;
  return static_cast<size_t>(it - levels_.begin());
}

std::pair<size_t, size_t> DomainTree::LeavesOf(size_t level, size_t domain) const {
  size_t first = domain;
  size_t last = domain + 1;
  for (; level + 1 < depth(); ++level) {
    first = children_[level][first];
    last = children_[level][last];
  }
  return {first, last};
}

namespace {

using Mode = PlacementRequest::Mode;

int64_t Units(int64_t pods, int64_t size) { return (pods + size - 1) / size; }

// A domain as one that may be picked, with its room in units.
struct Candidate {
  size_t domain = 0;
  int64_t slices = 0;
  int64_t pods = 0;
  bool leader = false;
  int64_t units = 0;
  int64_t units_with_leader = 0;
};

class Placer {
 public:
  Placer(const DomainTree& tree, const std::vector<LeafRoom>& rooms, const PlacementRequest& request)
      : tree_(tree), request_(request), rooms_(tree.depth()), inner_(tree.depth(), 1) {
    size_ = request.slices.empty() ? 1 : request.slices.front().size;
    slice_level_ = request.slices.empty() ? tree.depth() - 1 : request.slices.front().level;
    MUSTER_CHECK(size_ > 0 && request.level <= slice_level_ && slice_level_ < tree.depth());
    for (size_t i = 1; i < request.slices.size(); ++i) {
      const SliceLayer& layer = request.slices[i];
      const SliceLayer& outer = request.slices[i - 1];
      MUSTER_CHECK(layer.level > outer.level && layer.level < tree.depth() && outer.size % layer.size == 0);
      // The levels between two layers hold whole slices of the inner one, too.
      for (size_t level = outer.level + 1; level <= layer.level; ++level) inner_[level] = layer.size;
    }
    Fill(rooms);
  }

  PlacementResult Run() {
    PlacementResult result;
    std::vector<Pick> picks;
    size_t level = request_.level;
    if (std::optional<BalancedStart> balanced = BeginBalanced()) {
      level = balanced->level;
      picks = std::move(balanced->picks);
    } else if (Begin(&level, &picks)) {
      for (; level < slice_level_; ++level) picks = GoDown(level, picks);
    } else {
      Explain(level, &result);
      return result;
    }
    Trim(request_.count, size_, &picks);
    for (; level + 1 < tree_.depth(); ++level) picks = GoDownEach(level, picks);
    result.fits = true;
    std::sort(picks.begin(), picks.end(), [](const Pick& a, const Pick& b) { return a.domain < b.domain; });
    for (const Pick& pick : picks) {
      if (pick.pods > 0) result.pods.emplace_back(pick.domain, pick.pods);
      if (pick.leader) result.leader = pick.domain;
    }
    return result;
  }

 private:
  bool best_fit() const { return request_.mode != Mode::kUnconstrained; }
  int64_t wanted() const { return Units(request_.count, size_); }

  void Fill(const std::vector<LeafRoom>& leaves) {
    const size_t last = tree_.depth() - 1;
    rooms_[last].resize(tree_.leaves());
    for (size_t leaf = 0; leaf < tree_.leaves(); ++leaf) {
      DomainRoom& room = rooms_[last][leaf];
      room.pods = leaves[leaf].pods;
      room.leader = request_.leader && leaves[leaf].leader;
      room.pods_with_leader = request_.leader ? leaves[leaf].pods_with_leader : room.pods;
      if (last == slice_level_) FillSlices(&room);
    }
    for (size_t level = last; level-- > 0;) {
      rooms_[level].resize(tree_.DomainsAt(level));
      for (size_t domain = 0; domain < rooms_[level].size(); ++domain) FillParent(level, domain);
    }
  }

  void FillSlices(DomainRoom* room) const {
    room->slices = room->pods / size_;
    room->slices_with_leader = room->pods_with_leader / size_;
  }

  // The leader goes where it costs the least.
  void FillParent(size_t level, size_t domain) {
    DomainRoom& room = rooms_[level][domain];
    std::optional<int64_t> pods_lost;
    std::optional<int64_t> slices_lost;
    const int64_t unit = inner_[level + 1];
    const auto [first, last] = tree_.ChildrenOf(level, domain);
    for (size_t i = first; i < last; ++i) {
      const DomainRoom& child = rooms_[level + 1][i];
      const int64_t pods = child.pods / unit * unit;
      room.pods += pods;
      room.slices += child.slices;
      if (request_.leader && !child.leader) continue;
      room.leader = room.leader || child.leader;
      const int64_t lost = pods - child.pods_with_leader / unit * unit;
      pods_lost = std::min(pods_lost.value_or(lost), lost);
      const int64_t lost_slices = child.slices - child.slices_with_leader;
      slices_lost = std::min(slices_lost.value_or(lost_slices), lost_slices);
    }
    room.pods_with_leader = pods_lost.has_value() ? room.pods - *pods_lost : 0;
    room.slices_with_leader = slices_lost.has_value() ? room.slices - *slices_lost : 0;
    if (level == slice_level_) FillSlices(&room);
  }

  std::optional<BalancedStart> BeginBalanced() const {
    const bool asked = request_.balanced && request_.mode == Mode::kPreferred;
    if (!asked || request_.slices.size() > 1 || request_.count % size_ != 0) return std::nullopt;
    return Balance(tree_, rooms_, request_.level, slice_level_, wanted(), request_.leader);
  }

  // Where it starts, and with what: one domain that takes all, or several of one level.
  bool Begin(size_t* level, std::vector<Pick>* picks) const {
    while (true) {
      if (const std::optional<size_t> domain = Tightest(*level)) {
        *picks = {{*domain, wanted(), request_.leader, 0}};
        return true;
      }
      if (request_.mode == Mode::kRequired) return false;
      if (*level == 0 || request_.mode == Mode::kUnconstrained) break;
      --*level;
    }
    std::vector<size_t> all(tree_.DomainsAt(*level));
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    const std::optional<std::vector<Pick>> several = Spread(Slices(*level, all), wanted(), request_.leader);
    if (several.has_value()) *picks = *several;
    return several.has_value();
  }

  // The domain of that level that has the least room of those that take everything.
  std::optional<size_t> Tightest(size_t level) const {
    std::optional<size_t> best;
    const std::vector<DomainRoom>& rooms = rooms_[level];
    for (size_t i = 0; i < rooms.size(); ++i) {
      if (rooms[i].slices_with_leader < wanted() || (request_.leader && !rooms[i].leader)) continue;
      if (!best.has_value() || std::tie(rooms[i].slices_with_leader, rooms[i].pods_with_leader) <
                                   std::tie(rooms[*best].slices_with_leader, rooms[*best].pods_with_leader)) {
        best = i;
      }
    }
    return best;
  }

  std::vector<Candidate> Slices(size_t level, const std::vector<size_t>& domains) const {
    std::vector<Candidate> candidates;
    candidates.reserve(domains.size());
    for (const size_t domain : domains) {
      const DomainRoom& room = rooms_[level][domain];
      candidates.push_back({domain, room.slices, room.pods, room.leader, room.slices, room.slices_with_leader});
    }
    Sort(&candidates);
    return candidates;
  }

  void Sort(std::vector<Candidate>* candidates) const {
    std::sort(candidates->begin(), candidates->end(), [this](const Candidate& a, const Candidate& b) {
      if (a.slices != b.slices) return best_fit() ? a.slices > b.slices : a.slices < b.slices;
      return std::tie(a.pods, a.domain) < std::tie(b.pods, b.domain);
    });
  }

  // Takes candidates in their order until all units and the leader have a place; the last of them is the tightest that
  // does. Those that can take the leader come before the others until it has its place, so that workers are with it.
  std::optional<std::vector<Pick>> Spread(std::vector<Candidate> candidates, int64_t units, bool leader) const {
    if (!leader) return SpreadPods(candidates, units);
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return std::make_tuple(!a.leader, -a.units_with_leader, a.domain) <
             std::make_tuple(!b.leader, -b.units_with_leader, b.domain);
    });
    if (std::optional<std::vector<Pick>> picks = SpreadWithLeader(candidates, units)) return picks;
    return SpreadAroundLeader(std::move(candidates), units);
  }

  std::optional<std::vector<Pick>> SpreadPods(const std::vector<Candidate>& candidates, int64_t units) const {
    std::vector<Pick> picks;
    for (size_t i = 0; i < candidates.size() && units > 0; ++i) {
      size_t chosen = i;
      if (candidates[i].units >= units && best_fit()) {
        for (size_t k = i + 1; k < candidates.size(); ++k) {
          if (candidates[k].units >= units && candidates[k].units < candidates[chosen].units) chosen = k;
        }
      }
      const int64_t taken = std::min(units, candidates[chosen].units);
      if (taken > 0) picks.push_back({candidates[chosen].domain, taken, false, 0});
      units -= taken;
    }
    if (units > 0) return std::nullopt;
    return picks;
  }

  // The leader in the first candidate, or in the tightest that takes everything with it.
  std::optional<std::vector<Pick>> SpreadWithLeader(const std::vector<Candidate>& candidates, int64_t units) const {
    if (candidates.empty() || !candidates.front().leader) return std::nullopt;
    const Candidate* host = &candidates.front();
    if (host->units_with_leader >= units && best_fit()) {
      for (const Candidate& candidate : candidates) {
        if (candidate.leader && candidate.units_with_leader >= units &&
            candidate.units_with_leader < host->units_with_leader) {
          host = &candidate;
        }
      }
    }
    const int64_t taken = std::min(units, host->units_with_leader);
    return Continue({{host->domain, taken, true, 0}}, {candidates.begin() + 1, candidates.end()}, units - taken);
  }

  // The leader where it costs the least: if that is not enough, nothing is.
  std::optional<std::vector<Pick>> SpreadAroundLeader(std::vector<Candidate> candidates, int64_t units) const {
    size_t host = candidates.size();
    const auto cost = [&](size_t i) { return candidates[i].units - candidates[i].units_with_leader; };
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].leader && (host == candidates.size() || cost(i) < cost(host))) host = i;
    }
    if (host == candidates.size()) return std::nullopt;
    const int64_t taken = std::min(units, candidates[host].units_with_leader);
    std::vector<Pick> picks = {{candidates[host].domain, taken, true, 0}};
    candidates.erase(candidates.begin() + static_cast<ptrdiff_t>(host));
    return Continue(std::move(picks), std::move(candidates), units - taken);
  }

  std::optional<std::vector<Pick>> Continue(std::vector<Pick> picks, std::vector<Candidate> rest, int64_t units) const {
    Sort(&rest);
    const std::optional<std::vector<Pick>> more = SpreadPods(rest, units);
    if (!more.has_value()) return std::nullopt;
    picks.insert(picks.end(), more->begin(), more->end());
    return picks;
  }

  // Above the slice level: the fewest of all children together, whichever parent they are of.
  std::vector<Pick> GoDown(size_t level, const std::vector<Pick>& picks) const {
    std::vector<size_t> children;
    for (const Pick& pick : picks) {
      const auto [first, last] = tree_.ChildrenOf(level, pick.domain);
      for (size_t child = first; child < last; ++child) children.push_back(child);
    }
    const std::optional<std::vector<Pick>> below = Spread(Slices(level + 1, children), wanted(), request_.leader);
    MUSTER_CHECK(below.has_value());
    return *below;
  }

  // From the slice level down, or where domains are balanced: what a domain got stays in it.
  std::vector<Pick> GoDownEach(size_t level, const std::vector<Pick>& picks) const {
    const bool above = level < slice_level_;
    const int64_t unit = above ? size_ : inner_[level + 1];
    std::vector<Pick> all;
    for (const Pick& pick : picks) {
      std::vector<Candidate> candidates;
      const auto [first, last] = tree_.ChildrenOf(level, pick.domain);
      for (size_t child = first; child < last; ++child) {
        const DomainRoom& room = rooms_[level + 1][child];
        // Pods of an upper domain need not be whole slices.
        const int64_t units = above ? room.slices : room.pods / unit;
        const int64_t with_leader = above ? room.slices_with_leader : room.pods_with_leader / unit;
        candidates.push_back({child, room.slices, room.pods, room.leader, units, with_leader});
      }
      Sort(&candidates);
      std::optional<std::vector<Pick>> below = Spread(std::move(candidates), Units(pick.pods, unit), pick.leader);
      MUSTER_CHECK(below.has_value());
      Trim(pick.pods, unit, &*below);
      all.insert(all.end(), below->begin(), below->end());
    }
    return all;
  }

  // Units become pods; the last one may be smaller.
  static void Trim(int64_t pods, int64_t unit, std::vector<Pick>* picks) {
    for (Pick& pick : *picks) {
      pick.pods = std::min(pods, pick.units * unit);
      pods -= pick.pods;
    }
  }

  void Explain(size_t level, PlacementResult* result) const {
    result->wanted = wanted();
    const std::vector<DomainRoom>& rooms = rooms_[level];
    if (rooms.empty()) return;
    size_t best = 0;
    for (size_t i = 1; i < rooms.size(); ++i) {
      if (std::make_tuple(rooms[i].leader, rooms[i].slices_with_leader, rooms[i].slices) >
          std::make_tuple(rooms[best].leader, rooms[best].slices_with_leader, rooms[best].slices)) {
        best = i;
      }
    }
    if (request_.mode == Mode::kRequired) {
      result->fit = rooms[best].slices;
    } else {
      for (const DomainRoom& room : rooms) result->fit += room.slices;
    }
    // All pods have a place, but their leader has none.
    if (result->fit >= result->wanted) result->fit = 0;
    if (request_.slices.size() < 2) return;
    for (const SliceLayer& layer : request_.slices) {
      int64_t fit = 0;
      size_t first = best;
      size_t last = best + 1;
      for (size_t at = level; at < layer.level; ++at) {
        first = tree_.ChildrenOf(at, first).first;
        last = tree_.ChildrenOf(at, last - 1).second;
      }
      for (size_t i = first; i < last; ++i) fit += rooms_[layer.level][i].pods / layer.size;
      result->layers.emplace_back(fit, Units(request_.count, layer.size));
    }
  }

  const DomainTree& tree_;
  const PlacementRequest& request_;
  RoomsByLevel rooms_;
  std::vector<int64_t> inner_;  // by level: the size of what a domain of it must hold whole
  int64_t size_ = 1;
  size_t slice_level_ = 0;
};

// Everything outside of one domain is full.
std::vector<LeafRoom> Only(const DomainTree& tree, size_t level, size_t domain, const std::vector<LeafRoom>& rooms) {
  std::vector<LeafRoom> out(rooms.size());
  const auto [first, last] = tree.LeavesOf(level, domain);
  for (size_t leaf = first; leaf < last; ++leaf) out[leaf] = rooms[leaf];
  return out;
}

// The whole slices, then the smaller one in what they leave.
PlacementResult PlaceInTwo(const DomainTree& tree, std::vector<LeafRoom> rooms, const PlacementRequest& request) {
  PlacementRequest whole = request;
  const int64_t rest = request.count % request.slices.front().size;
  whole.count -= rest;
  PlacementResult result = Placer(tree, rooms, whole).Run();
  if (!result.fits) return result;
  for (const auto& [leaf, pods] : result.pods) {
    rooms[leaf].pods -= pods;
    rooms[leaf].pods_with_leader = std::max<int64_t>(0, rooms[leaf].pods_with_leader - pods);
  }
  if (result.leader.has_value()) rooms[*result.leader].pods = rooms[*result.leader].pods_with_leader;
  PlacementRequest smaller = request;
  smaller.count = rest;
  smaller.leader = false;
  smaller.slices = {{request.slices.front().level, rest}};
  const PlacementResult last = Placer(tree, rooms, smaller).Run();
  if (!last.fits) return last;
  result.pods.insert(result.pods.end(), last.pods.begin(), last.pods.end());
  std::sort(result.pods.begin(), result.pods.end());
  std::vector<std::pair<size_t, int64_t>> merged;
  for (const auto& [leaf, pods] : result.pods) {
    if (merged.empty() || merged.back().first != leaf) merged.emplace_back(leaf, 0);
    merged.back().second += pods;
  }
  result.pods = std::move(merged);
  return result;
}

}  // namespace

PlacementResult Place(const DomainTree& tree, const std::vector<LeafRoom>& rooms, const PlacementRequest& request) {
  MUSTER_CHECK(rooms.size() == tree.leaves());
  PlacementResult result = Placer(tree, rooms, request).Run();
  // With several layers the smaller slice takes the place of a whole one.
  if (result.fits || request.slices.size() != 1 || request.count % request.slices.front().size == 0) return result;
  if (request.mode != Mode::kRequired) {
    PlacementResult other = PlaceInTwo(tree, rooms, request);
    return other.fits ? other : result;
  }
  for (size_t domain = 0; domain < tree.DomainsAt(request.level); ++domain) {
    PlacementResult other = PlaceInTwo(tree, Only(tree, request.level, domain, rooms), request);
    if (other.fits) return other;
  }
  return result;
}

}  // namespace muster::gang
