#include "balanced_placement.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "muster/core/product.h"

namespace muster::gang {

namespace {

// The exact choice of domains looks at so many states at most; where there are more, the greedy one is taken.
constexpr int64_t kStatesMax = 100'000;

struct Domain {
  size_t index = 0;
  DomainRoom room;
  std::vector<Domain> children;  // of those that are balanced none
};

struct Greedy {
  std::vector<const Domain*> chosen;  // in their order; the first has the leader
  // The most slices that each of them can have: an equal share, or what the last has room for.
  int64_t threshold = 0;
  // Likewise if the last one had to have the leader.
  int64_t threshold_with_leader = 0;
};

bool BeforeWithLeader(const Domain* a, const Domain* b) {
  return std::make_tuple(!a->room.leader, -a->room.slices_with_leader, a->index) <
         std::make_tuple(!b->room.leader, -b->room.slices_with_leader, b->index);
}

bool BeforeWithout(const Domain* a, const Domain* b) {
  return std::make_tuple(-a->room.slices, a->room.pods, a->index) <
         std::make_tuple(-b->room.slices, b->room.pods, b->index);
}

// The fewest domains that take all. RETURNS: nothing where all together do not.
std::optional<Greedy> ChooseGreedily(std::vector<const Domain*> domains, int64_t slices, bool leader) {
  Greedy out;
  int64_t left = slices;
  std::optional<int64_t> least;
  if (leader) {
    const auto host = std::min_element(domains.begin(), domains.end(), BeforeWithLeader);
    if (host == domains.end() || !(*host)->room.leader) return std::nullopt;
    out.chosen.push_back(*host);
    left -= (*host)->room.slices_with_leader;
    least = (*host)->room.slices_with_leader;
    domains.erase(host);
  }
  // Few of many are taken: those that come first are on top of a heap.
  const auto comes_later = [](const Domain* a, const Domain* b) { return BeforeWithout(b, a); };
  std::make_heap(domains.begin(), domains.end(), comes_later);
  const Domain* last = nullptr;
  while (left > 0 && !domains.empty() && domains.front()->room.slices > 0) {
    last = domains.front();
    out.chosen.push_back(last);
    left -= last->room.slices;
    std::pop_heap(domains.begin(), domains.end(), comes_later);
    domains.pop_back();
  }
  if (left > 0 || out.chosen.empty()) return std::nullopt;
  if (last != nullptr) least = std::min(least.value_or(last->room.slices), last->room.slices);
  out.threshold = std::min(slices / static_cast<int64_t>(out.chosen.size()), *least);
  out.threshold_with_leader = out.threshold;
  if (leader && last != nullptr) out.threshold_with_leader = std::min(out.threshold, last->room.slices_with_leader);
  return out;
}

std::vector<const Domain*> Pointers(const std::vector<Domain>& domains) {
  std::vector<const Domain*> out;
  out.reserve(domains.size());
  for (const Domain& domain : domains) out.push_back(&domain);
  return out;
}

std::vector<const Domain*> Children(const std::vector<const Domain*>& domains) {
  std::vector<const Domain*> out;
  for (const Domain* domain : domains) {
    for (const Domain& child : domain->children) out.push_back(&child);
  }
  return out;
}

// What cannot have that many slices has none; what cannot have them beside the leader does not have the leader.
void DropBelow(int64_t threshold, DomainRoom* room) {
  if (room->slices < threshold) *room = {};
  if (room->slices_with_leader < threshold) {
    room->leader = false;
    room->slices_with_leader = 0;
  }
}

void Prune(int64_t threshold, bool leader, std::vector<Domain>* domains) {
  for (Domain& domain : *domains) {
    if (!domain.children.empty()) {
      DomainRoom sum;
      std::optional<int64_t> lost;
      for (Domain& child : domain.children) {
        DropBelow(threshold, &child.room);
        sum.pods += child.room.pods;
        sum.slices += child.room.slices;
        if (leader && !child.room.leader) continue;
        sum.leader = child.room.leader || sum.leader;
        const int64_t lost_here = child.room.slices - child.room.slices_with_leader;
        lost = std::min(lost.value_or(lost_here), lost_here);
      }
      sum.slices_with_leader = lost.has_value() ? sum.slices - *lost : 0;
      domain.room = sum;
    }
    DropBelow(threshold, &domain.room);
  }
}

// How unevenly the room in a domain is spread over its children: the chance that two pods of it are in the same child,
// as a fraction.
struct Unevenness {
  Wide same = 0;
  Wide all = 1;
};

Unevenness UnevennessOf(const Domain& domain) {
  Wide same = 0;
  Wide total = 0;
  for (const Domain& child : domain.children) {
    const auto pods = static_cast<Wide>(child.room.pods);
    same += pods * pods;
    total += pods;
  }
  if (total == 0) return {};
  return {same, total * total};
}

void SortByEvenness(std::vector<const Domain*>* domains) {
  std::map<const Domain*, Unevenness> of;
  for (const Domain* domain : *domains) of[domain] = UnevennessOf(*domain);
  std::sort(domains->begin(), domains->end(), [&of](const Domain* a, const Domain* b) {
    const auto rank = [](const Domain* d) { return std::make_tuple(!d->room.leader, -d->room.slices_with_leader); };
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    const Unevenness& left = of.at(a);
    const Unevenness& right = of.at(b);
    if (left.same * right.all != right.same * left.all) return left.same * right.all < right.same * left.all;
    return a->index < b->index;
  });
}

// Of the sets of so many domains as the greedy choice has, the first that takes all with the least room left over.
class TightestSet {
 public:
  TightestSet(const std::vector<const Domain*>& domains, size_t count, int64_t slices, bool leader)
      : domains_(domains), steps_(count + 1) {
    steps_[0].emplace(State{leader, slices}, Step{});
  }

  std::vector<const Domain*> Choose() {
    for (size_t d = 0; d < domains_.size(); ++d) {
      for (size_t count = steps_.size() - 1; count > 0; --count) Extend(d, count);
    }
    // Keys are in order of what is left: the last at or below none leaves the least over.
    const Steps& last = steps_.back();
    auto best = last.upper_bound(State{false, 0});
    if (best == last.begin()) return {};
    --best;
    if (best->first.leader || best->first.left > 0) return {};
    std::vector<const Domain*> chosen;
    State state = best->first;
    for (size_t count = steps_.size() - 1; count > 0; --count) {
      const Step& step = steps_[count].at(state);
      chosen.push_back(domains_[step.domain]);
      state = step.before;
    }
    std::reverse(chosen.begin(), chosen.end());
    return chosen;
  }

 private:
  struct State {
    bool leader = false;  // has no place yet
    int64_t left = 0;     // slices without a place; below zero: room that is left over
    friend auto operator<=>(const State&, const State&) = default;
  };
  struct Step {
    State before;
    size_t domain = 0;
  };
  using Steps = std::map<State, Step>;

  void Extend(size_t d, size_t count) {
    const DomainRoom& room = domains_[d]->room;
    for (const auto& [before, unused] : steps_[count - 1]) {
      if (!before.leader && before.left <= 0) continue;
      if (before.leader && room.leader) {
        steps_[count].try_emplace({false, before.left - room.slices_with_leader}, Step{before, d});
      }
      if (room.slices > 0) steps_[count].try_emplace({before.leader, before.left - room.slices}, Step{before, d});
    }
  }

  const std::vector<const Domain*>& domains_;
  std::vector<Steps> steps_;  // by how many domains are chosen
};

// In the order in which they are to be preferred. RETURNS: none where all together do not take all.
std::vector<const Domain*> ChooseTightest(const std::vector<const Domain*>& domains, int64_t slices, bool leader) {
  const std::optional<Greedy> greedy = ChooseGreedily(domains, slices, leader);
  if (!greedy.has_value()) return {};
  const auto count = static_cast<int64_t>(greedy->chosen.size());
  if (static_cast<int64_t>(domains.size()) * count > kStatesMax / std::max<int64_t>(slices, 1)) return greedy->chosen;
  return TightestSet(domains, greedy->chosen.size(), slices, leader).Choose();
}

// Each gets the threshold, and what is left goes to the first that have room.
std::optional<std::vector<Pick>> Share(std::vector<const Domain*> domains, int64_t threshold, int64_t slices,
                                       bool leader) {
  std::sort(domains.begin(), domains.end(), BeforeWithLeader);
  int64_t extra = slices - static_cast<int64_t>(domains.size()) * threshold;
  if (domains.empty() || extra < 0) return std::nullopt;
  std::vector<Pick> picks;
  for (const Domain* domain : domains) {
    const bool host = leader && picks.empty();
    const int64_t room = host ? domain->room.slices_with_leader : domain->room.slices;
    if (room < threshold || (host && !domain->room.leader)) return std::nullopt;
    const int64_t more = std::min(room - threshold, extra);
    picks.push_back({domain->index, threshold + more, host, 0});
    extra -= more;
  }
  if (extra > 0) return std::nullopt;
  return picks;
}

class Balancer {
 public:
  Balancer(const DomainTree& tree, const RoomsByLevel& rooms, size_t level, size_t slice_level, int64_t slices,
           bool leader)
      : tree_(tree), rooms_(rooms), level_(level), below_(level < slice_level), slices_(slices), leader_(leader) {}

  std::optional<BalancedStart> Run() {
    if (level_ == 0) {
      Consider(0, tree_.DomainsAt(0));
    } else {
      for (size_t parent = 0; parent < tree_.DomainsAt(level_ - 1); ++parent) {
        const auto [first, last] = tree_.ChildrenOf(level_ - 1, parent);
        Consider(first, last);
      }
    }
    if (threshold_ == 0) return std::nullopt;
    BalancedStart start{level_, {}};
    std::vector<const Domain*> domains = Pointers(best_);
    if (below_) {
      SortByEvenness(&domains);
      domains = Children(ChooseTightest(domains, slices_, leader_));
      ++start.level;
    }
    std::optional<std::vector<Pick>> picks =
        Share(ChooseTightest(domains, slices_, leader_), threshold_, slices_, leader_);
    if (!picks.has_value()) return std::nullopt;
    start.picks = *std::move(picks);
    return start;
  }

 private:
  // The domains [first, last) of the level asked for, which have one parent.
  void Consider(size_t first, size_t last) {
    std::vector<Domain> siblings;
    for (size_t i = first; i < last; ++i) {
      Domain& domain = siblings.emplace_back(Domain{i, rooms_[level_][i], {}});
      if (!below_) continue;
      const auto [child, end] = tree_.ChildrenOf(level_, i);
      for (size_t c = child; c < end; ++c) domain.children.push_back({c, rooms_[level_ + 1][c], {}});
    }
    const std::vector<const Domain*> all = Pointers(siblings);
    const std::optional<Greedy> greedy = ChooseGreedily(below_ ? Children(all) : all, slices_, leader_);
    if (!greedy.has_value()) return;
    if (Try(siblings, greedy->threshold)) return;
    if (greedy->threshold_with_leader < greedy->threshold) Try(siblings, greedy->threshold_with_leader);
  }

  // RETURNS: whether all have a place where each domain has at least so many.
  bool Try(std::vector<Domain> siblings, int64_t threshold) {
    if (threshold <= 0 || threshold < threshold_) return true;  // no better than what there is
    Prune(threshold, leader_, &siblings);
    const std::optional<Greedy> greedy = ChooseGreedily(Pointers(siblings), slices_, leader_);
    if (!greedy.has_value()) return false;
    if (threshold > threshold_ || greedy->chosen.size() < fewest_) {
      threshold_ = threshold;
      fewest_ = greedy->chosen.size();
      best_ = std::move(siblings);
    }
    return true;
  }

  const DomainTree& tree_;
  const RoomsByLevel& rooms_;
  size_t level_;
  bool below_;  // what is balanced is a level below
  int64_t slices_;
  bool leader_;

  int64_t threshold_ = 0;  // of the best so far
  size_t fewest_ = 0;      // domains of the level that it needs
  std::vector<Domain> best_;
};

}  // namespace

std::optional<BalancedStart> Balance(const DomainTree& tree, const RoomsByLevel& rooms, size_t level,
                                     size_t slice_level, int64_t slices, bool leader) {
  return Balancer(tree, rooms, level, slice_level, slices, leader).Run();
}

}  // namespace muster::gang
