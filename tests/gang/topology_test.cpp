// Placement in a tree of domains. Expected places are worked out by hand from KEP 2724's rules; feasibility is compared
// with trying everything.
#include "muster/gang/topology.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>

namespace muster::gang {

namespace {

using Mode = PlacementRequest::Mode;
using Pods = std::vector<std::pair<size_t, int64_t>>;

// Two blocks, of two racks and one, of two nodes each: leaves 0..5.
DomainTree Blocks() {
  return DomainTree({"block", "rack", "host"}, {{"b1", "r1", "n1"},
                                                {"b1", "r1", "n2"},
                                                {"b1", "r2", "n3"},
                                                {"b1", "r2", "n4"},
                                                {"b2", "r1", "n5"},
                                                {"b2", "r1", "n6"}});
}

std::vector<LeafRoom> Rooms(const std::vector<int64_t>& pods) {
  std::vector<LeafRoom> rooms;
  for (const int64_t count : pods) rooms.push_back({count, false, count});
  return rooms;
}

PlacementRequest Ask(Mode mode, size_t level, int64_t count, std::vector<SliceLayer> slices = {}) {
  PlacementRequest request;
  request.mode = mode;
  request.level = level;
  request.count = count;
  request.slices = std::move(slices);
  return request;
}

}  // namespace

TEST_CASE("a tree numbers its domains in the order of their values") {
  const DomainTree tree = Blocks();
  CHECK(tree.depth() == 3);
  CHECK(tree.DomainsAt(0) == 2);
  CHECK(tree.DomainsAt(1) == 3);
  CHECK(tree.leaves() == 6);
  CHECK(tree.ChildrenOf(0, 0) == std::pair<size_t, size_t>{0, 2});
  CHECK(tree.ChildrenOf(0, 1) == std::pair<size_t, size_t>{2, 3});
  CHECK(tree.ChildrenOf(1, 1) == std::pair<size_t, size_t>{2, 4});
  CHECK(tree.LeavesOf(0, 0) == std::pair<size_t, size_t>{0, 4});
  CHECK(tree.LeavesOf(2, 5) == std::pair<size_t, size_t>{5, 6});
  CHECK(tree.LevelOf("rack") == 1);
  CHECK_FALSE(tree.LevelOf("zone").has_value());
}

TEST_CASE("required: the domain with the least room that takes all, and in it as few nodes as do") {
  // Racks have 5, 3 and 4; the rack of 3 takes 3 pods, and its nodes have 2 and 1.
  const PlacementResult three = Place(Blocks(), Rooms({3, 2, 2, 1, 2, 2}), Ask(Mode::kRequired, 1, 3));
  REQUIRE(three.fits);
  CHECK(three.pods == Pods{{2, 2}, {3, 1}});
  // 2 pods: the same rack, whose first node takes both.
  CHECK(Place(Blocks(), Rooms({3, 2, 2, 1, 2, 2}), Ask(Mode::kRequired, 1, 2)).pods == Pods{{2, 2}});
  // 1 pod: its node with the least room.
  CHECK(Place(Blocks(), Rooms({3, 2, 2, 1, 2, 2}), Ask(Mode::kRequired, 1, 1)).pods == Pods{{3, 1}});
  const PlacementResult six = Place(Blocks(), Rooms({3, 2, 2, 1, 2, 2}), Ask(Mode::kRequired, 1, 6));
  CHECK_FALSE(six.fits);
  CHECK(six.fit == 5);
  CHECK(six.wanted == 6);
}

TEST_CASE("preferred: a level up where no domain takes all, and in the end several domains of the top") {
  // No rack takes 6, the blocks have 8 and 4: block b1, racks of 5 and 3; the largest first, then the tightest.
  const PlacementResult six = Place(Blocks(), Rooms({3, 2, 2, 1, 2, 2}), Ask(Mode::kPreferred, 1, 6));
  REQUIRE(six.fits);
  CHECK(six.pods == Pods{{0, 3}, {1, 2}, {3, 1}});
  // 10 of 12: block b1 whole, then 2 of b2; of the children all together, the nodes with the most room come first.
  const PlacementResult ten = Place(Blocks(), Rooms({3, 2, 2, 1, 2, 2}), Ask(Mode::kPreferred, 1, 10));
  REQUIRE(ten.fits);
  CHECK(ten.pods == Pods{{0, 3}, {1, 2}, {2, 2}, {3, 1}, {4, 2}});
  const PlacementResult much = Place(Blocks(), Rooms({3, 2, 2, 1, 2, 2}), Ask(Mode::kPreferred, 1, 13));
  CHECK_FALSE(much.fits);
  CHECK(much.fit == 12);
}

TEST_CASE("unconstrained: the nodes with the least room, one that takes all before several") {
  CHECK(Place(Blocks(), Rooms({3, 2, 2, 1, 2, 4}), Ask(Mode::kUnconstrained, 2, 2)).pods == Pods{{1, 2}});
  CHECK(Place(Blocks(), Rooms({3, 2, 2, 1, 2, 4}), Ask(Mode::kUnconstrained, 2, 6)).pods ==
        Pods{{1, 2}, {2, 2}, {3, 1}, {4, 1}});
}

TEST_CASE("slices: each whole in one domain of its level") {
  // Slices of 2 by node: nodes have 1, 1, 1, 0, 1 and 1 of them.
  const PlacementResult four = Place(Blocks(), Rooms({3, 2, 2, 1, 2, 2}), Ask(Mode::kRequired, 0, 4, {{2, 2}}));
  REQUIRE(four.fits);
  CHECK(four.pods == Pods{{4, 2}, {5, 2}});
  const PlacementResult eight = Place(Blocks(), Rooms({3, 2, 2, 1, 2, 2}), Ask(Mode::kRequired, 0, 8, {{2, 2}}));
  CHECK_FALSE(eight.fits);
  CHECK(eight.fit == 3);
  CHECK(eight.wanted == 4);
  // Slices of 3 by rack: racks take 1, 1 and 1 of them. Below the slice level the smallest nodes are taken up first.
  const PlacementResult six = Place(Blocks(), Rooms({3, 2, 2, 1, 2, 2}), Ask(Mode::kPreferred, 0, 6, {{1, 3}}));
  REQUIRE(six.fits);
  CHECK(six.pods == Pods{{0, 1}, {1, 2}, {2, 2}, {3, 1}});
}

TEST_CASE("two layers of slices") {
  // 4 pods a rack, of which 2 a node. Nodes hold 3, 2 | 2, 1 | 2, 2: racks hold 4, 2 and 4 in twos.
  const PlacementRequest request = Ask(Mode::kPreferred, 0, 8, {{1, 4}, {2, 2}});
  const PlacementResult eight = Place(Blocks(), Rooms({3, 2, 2, 1, 2, 2}), request);
  REQUIRE(eight.fits);
  CHECK(eight.pods == Pods{{0, 2}, {1, 2}, {4, 2}, {5, 2}});
  const PlacementResult none = Place(Blocks(), Rooms({3, 1, 2, 1, 2, 1}), request);
  CHECK_FALSE(none.fits);
  CHECK(none.layers == std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {2, 4}});
}

TEST_CASE("a gang that is no multiple of the slice size ends in one smaller slice") {
  // 5 pods in slices of 2 by node.
  const PlacementResult whole = Place(Blocks(), Rooms({2, 2, 2, 2, 0, 0}), Ask(Mode::kRequired, 0, 5, {{2, 2}}));
  REQUIRE(whole.fits);
  CHECK(whole.pods == Pods{{0, 2}, {1, 2}, {2, 1}});
  // Where no third slice fits, the odd pod goes where one pod does.
  const PlacementResult odd = Place(Blocks(), Rooms({1, 1, 1, 2, 2, 3}), Ask(Mode::kRequired, 0, 5, {{2, 2}}));
  REQUIRE(odd.fits);
  CHECK(odd.pods == Pods{{4, 2}, {5, 3}});
  CHECK_FALSE(Place(Blocks(), Rooms({1, 1, 1, 2, 2, 2}), Ask(Mode::kRequired, 0, 5, {{2, 2}})).fits);
}

TEST_CASE("a leader has a place beside its workers") {
  PlacementRequest request = Ask(Mode::kRequired, 1, 3);
  request.leader = true;
  // Every rack has 4 places; in the first the leader may nowhere be, in the second it costs two places.
  std::vector<LeafRoom> rooms = Rooms({2, 2, 2, 2, 2, 2});
  rooms[2] = {2, true, 0};
  rooms[5] = {2, true, 1};
  const PlacementResult result = Place(Blocks(), rooms, request);
  REQUIRE(result.fits);
  CHECK(result.pods == Pods{{4, 2}, {5, 1}});
  CHECK(result.leader == 5);

  request.count = 4;
  const PlacementResult four = Place(Blocks(), rooms, request);
  CHECK_FALSE(four.fits);
  // Preferred: over the racks of several blocks, the leader where it costs the least.
  request.mode = Mode::kPreferred;
  request.count = 11;
  const PlacementResult eleven = Place(Blocks(), rooms, request);
  REQUIRE(eleven.fits);
  CHECK(eleven.leader == 5);
  request.count = 12;
  CHECK_FALSE(Place(Blocks(), rooms, request).fits);
}

TEST_CASE("workers go to their leader first, wherever else there is more room") {
  // As the reference does (oracle 11-topology-p132): no host and no block takes all. Beside the leader is room for one
  // worker, so it is with him, and the other five are in the block that has room for eight.
  const DomainTree tree({"block", "host"}, {{"b1", "n1"}, {"b1", "n2"}, {"b2", "n3"}});
  std::vector<LeafRoom> rooms = {{8, false, 8}, {2, false, 2}, {2, true, 1}};
  PlacementRequest request = Ask(Mode::kPreferred, 1, 6);
  request.leader = true;
  const PlacementResult result = Place(tree, rooms, request);
  REQUIRE(result.fits);
  CHECK(result.leader == 2);
  CHECK(result.pods == Pods{{0, 5}, {2, 1}});
}

TEST_CASE("a gang of nobody, and a tree without nodes") {
  CHECK(Place(Blocks(), Rooms({0, 0, 0, 0, 0, 0}), Ask(Mode::kRequired, 0, 0)).fits);
  const DomainTree none({"host"}, {});
  const PlacementResult result = Place(none, {}, Ask(Mode::kUnconstrained, 0, 1));
  CHECK_FALSE(result.fits);
  CHECK(result.fit == 0);
  CHECK(result.wanted == 1);
}

// ---- properties ---------------------------------------------------------------------------------

namespace {

// Up to three levels and eight leaves.
DomainTree AnyTree() {
  const auto depth = *rc::gen::inRange<size_t>(1, 4);
  const auto wanted = *rc::gen::inRange<size_t>(1, 9);
  std::vector<std::vector<std::string>> leaves;
  for (size_t leaf = 0; leaf < wanted; ++leaf) {
    std::vector<std::string> values;
    for (size_t level = 0; level + 1 < depth; ++level) {
      values.push_back(std::string(1, static_cast<char>('a' + *rc::gen::inRange(0, 2))));
    }
    values.push_back("n" + std::to_string(leaf));
    leaves.push_back(std::move(values));
  }
  std::sort(leaves.begin(), leaves.end());
  const std::vector<std::string> levels = {"block", "rack", "host"};
  return DomainTree({levels.end() - static_cast<ptrdiff_t>(depth), levels.end()}, std::move(leaves));
}

std::vector<LeafRoom> AnyRooms(size_t leaves, bool leader) {
  std::vector<LeafRoom> rooms(leaves);
  for (LeafRoom& room : rooms) {
    room.pods = *rc::gen::inRange(0, 5);
    room.pods_with_leader = room.pods;
    room.leader = leader && *rc::gen::inRange(0, 2) == 1;
    if (room.leader) room.pods_with_leader -= *rc::gen::inRange<int64_t>(0, room.pods + 1);
  }
  return rooms;
}

PlacementRequest AnyRequest(size_t depth, bool leader) {
  PlacementRequest request;
  request.mode = static_cast<Mode>(*rc::gen::inRange(0, leader ? 2 : 3));
  request.count = *rc::gen::inRange(1, 13);
  request.leader = leader;
  request.level = request.mode == Mode::kUnconstrained ? depth - 1 : *rc::gen::inRange<size_t>(0, depth);
  if (leader || *rc::gen::inRange(0, 2) == 0) return request;
  if (request.mode == Mode::kUnconstrained) request.level = 0;
  request.slices.push_back({*rc::gen::inRange<size_t>(request.level, depth), *rc::gen::inRange(1, 5)});
  return request;
}

size_t DomainOf(const DomainTree& tree, size_t level, size_t leaf) {
  for (size_t domain = 0;; ++domain) {
    if (leaf < tree.LeavesOf(level, domain).second) return domain;
  }
}

// Pods that a required domain of one level, or all domains, can hold in slices that are whole but for the last.
int64_t Capacity(const DomainTree& tree, const std::vector<int64_t>& pods, size_t first, size_t last, size_t level,
                 int64_t size) {
  int64_t slices = 0;
  int64_t odd = 0;
  for (size_t domain = 0; domain < tree.DomainsAt(level); ++domain) {
    const auto [from, to] = tree.LeavesOf(level, domain);
    if (from < first || to > last) continue;
    const int64_t room = std::accumulate(pods.begin() + static_cast<ptrdiff_t>(from),
                                         pods.begin() + static_cast<ptrdiff_t>(to), int64_t{0});
    slices += room / size;
    odd = std::max(odd, room % size);
  }
  return slices * size + odd;
}

// Tries each place of the leader and each domain.
bool IsFeasible(const DomainTree& tree, const std::vector<LeafRoom>& rooms, const PlacementRequest& request) {
  const size_t slice_level = request.slices.empty() ? tree.depth() - 1 : request.slices.front().level;
  const int64_t size = request.slices.empty() ? 1 : request.slices.front().size;
  const bool required = request.mode == Mode::kRequired;
  const size_t domains = required ? tree.DomainsAt(request.level) : 1;
  for (size_t domain = 0; domain < domains; ++domain) {
    const auto [first, last] =
        required ? tree.LeavesOf(request.level, domain) : std::pair<size_t, size_t>{0, tree.leaves()};
    for (size_t host = first; host < last; ++host) {
      if (request.leader && !rooms[host].leader) continue;
      std::vector<int64_t> pods;
      for (const LeafRoom& room : rooms) pods.push_back(room.pods);
      if (request.leader) pods[host] = rooms[host].pods_with_leader;
      if (Capacity(tree, pods, first, last, slice_level, size) >= request.count) return true;
      if (!request.leader) break;
    }
  }
  return false;
}

void CheckPlaces(const DomainTree& tree, const std::vector<LeafRoom>& rooms, const PlacementRequest& request,
                 const PlacementResult& result) {
  int64_t total = 0;
  std::vector<int64_t> of_slice_domain(tree.leaves(), 0);
  const size_t slice_level = request.slices.empty() ? tree.depth() - 1 : request.slices.front().level;
  const int64_t size = request.slices.empty() ? 1 : request.slices.front().size;
  std::vector<size_t> used;
  for (const auto& [leaf, pods] : result.pods) {
    RC_ASSERT(pods > 0);
    RC_ASSERT((used.empty() || used.back() < leaf));
    RC_ASSERT(pods <= (result.leader == leaf ? rooms[leaf].pods_with_leader : rooms[leaf].pods));
    used.push_back(leaf);
    total += pods;
    of_slice_domain[DomainOf(tree, slice_level, leaf)] += pods;
  }
  RC_ASSERT(total == request.count);
  RC_ASSERT(result.leader.has_value() == request.leader);
  if (request.leader) {
    RC_ASSERT(rooms[*result.leader].leader);
    used.push_back(*result.leader);
  }
  if (request.mode == Mode::kRequired) {
    for (const size_t leaf : used) {
      RC_ASSERT(DomainOf(tree, request.level, leaf) == DomainOf(tree, request.level, used.front()));
    }
  }
  const auto broken =
      std::count_if(of_slice_domain.begin(), of_slice_domain.end(), [&](int64_t pods) { return pods % size != 0; });
  RC_ASSERT(broken <= (request.count % size == 0 ? 0 : 1));
}

}  // namespace

TEST_CASE("what is placed keeps to all rules, and what is not has no place") {
  CHECK(rc::check([] {
    const DomainTree tree = AnyTree();
    const bool leader = *rc::gen::inRange(0, 3) == 0;
    const std::vector<LeafRoom> rooms = AnyRooms(tree.leaves(), leader);
    const PlacementRequest request = AnyRequest(tree.depth(), leader);
    const PlacementResult result = Place(tree, rooms, request);
    RC_ASSERT(result.fits == IsFeasible(tree, rooms, request));
    RC_CLASSIFY(result.fits);
    if (result.fits) {
      CheckPlaces(tree, rooms, request, result);
    } else {
      RC_ASSERT(result.fit < result.wanted);
    }
  }));
}

// ---- balanced placement ----------------------------------------------------------------------------

namespace {

PlacementRequest AskBalanced(size_t level, int64_t count, std::vector<SliceLayer> slices = {}) {
  PlacementRequest request = Ask(Mode::kPreferred, level, count, std::move(slices));
  request.balanced = true;
  return request;
}

}  // namespace

TEST_CASE("balanced: the rack is taken whose nodes share evenly, not the tightest first") {
  const std::vector<LeafRoom> rooms = Rooms({6, 2, 4, 4, 0, 0});
  CHECK(Place(Blocks(), rooms, Ask(Mode::kPreferred, 1, 8)).pods == Pods{{0, 6}, {1, 2}});
  CHECK(Place(Blocks(), rooms, AskBalanced(1, 8)).pods == Pods{{2, 4}, {3, 4}});
  // Only who prefers a domain is balanced.
  PlacementRequest required = AskBalanced(1, 8);
  required.mode = Mode::kRequired;
  CHECK(Place(Blocks(), rooms, required).pods == Pods{{0, 6}, {1, 2}});
}

TEST_CASE("balanced: no node has fewer than the fewest nodes allow, and what is over goes to the first with room") {
  // 5 + 3 + 3 are the fewest nodes for nine: three each.
  const std::vector<LeafRoom> rooms = Rooms({5, 1, 3, 3, 0, 0});
  CHECK(Place(Blocks(), rooms, Ask(Mode::kPreferred, 1, 9)).pods == Pods{{0, 5}, {1, 1}, {2, 3}});
  CHECK(Place(Blocks(), rooms, AskBalanced(1, 9)).pods == Pods{{0, 3}, {2, 3}, {3, 3}});
  CHECK(Place(Blocks(), rooms, AskBalanced(1, 10)).pods == Pods{{0, 4}, {2, 3}, {3, 3}});
  // Twelve need the small node too, so that one pod is all that each must have.
  CHECK(Place(Blocks(), rooms, AskBalanced(1, 12)).pods == Pods{{0, 5}, {1, 1}, {2, 3}, {3, 3}});
}

TEST_CASE("balanced: of the blocks that take all, the one with the greater share, then the one with fewer racks") {
  CHECK(Place(Blocks(), Rooms({2, 2, 2, 2, 4, 4}), AskBalanced(1, 8)).pods == Pods{{4, 4}, {5, 4}});
  CHECK(Place(Blocks(), Rooms({4, 0, 4, 0, 4, 4}), AskBalanced(1, 8)).pods == Pods{{4, 4}, {5, 4}});
  // No block takes all: as without.
  CHECK(Place(Blocks(), Rooms({1, 1, 1, 1, 1, 1}), AskBalanced(1, 6)).pods ==
        Pods{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}});
}

TEST_CASE("balanced: of the sets of nodes that are as few, the one that leaves the least room over") {
  // One rack with four nodes. Six need two nodes; 5 + 4 would do, and 3 + 3 leave nothing over.
  const DomainTree tree({"rack", "host"}, {{"r1", "n1"}, {"r1", "n2"}, {"r1", "n3"}, {"r1", "n4"}});
  CHECK(Place(tree, Rooms({3, 5, 4, 3}), AskBalanced(0, 6)).pods == Pods{{0, 3}, {3, 3}});
}

TEST_CASE("balanced: slices are whole, on nodes or on racks") {
  CHECK(Place(Blocks(), Rooms({6, 2, 4, 4, 0, 0}), AskBalanced(1, 8, {{2, 2}})).pods == Pods{{2, 4}, {3, 4}});
  // Slices of two in racks: three have room in r1 and two in r2; two each. In r1 that is as few nodes as do.
  const std::vector<LeafRoom> rooms = Rooms({3, 3, 4, 0, 0, 0});
  CHECK(Place(Blocks(), rooms, AskBalanced(1, 8, {{1, 2}})).pods == Pods{{0, 3}, {1, 1}, {2, 4}});
  CHECK(Place(Blocks(), rooms, Ask(Mode::kPreferred, 1, 8, {{1, 2}})).pods == Pods{{0, 3}, {1, 3}, {2, 2}});
}

// Two racks of two hosts with room for six: three slices of four have two hosts of one rack and one of the other,
// though the pods that a rack has room for would be three slices.
TEST_CASE("balanced: slices far below the level that is preferred are whole") {
  const DomainTree tree(
      {"center", "block", "rack", "host"},
      {{"c", "b", "r1", "n1"}, {"c", "b", "r1", "n2"}, {"c", "b", "r2", "n3"}, {"c", "b", "r2", "n4"}});
  CHECK(Place(tree, Rooms({6, 6, 6, 6}), AskBalanced(0, 12, {{3, 4}})).pods == Pods{{0, 4}, {1, 4}, {2, 4}});
  rc::check([&] {
    const std::vector<int64_t> pods =
        *rc::gen::container<std::vector<int64_t>>(4, rc::gen::inRange<int64_t>(0, 12)).as("room of each host");
    const auto size = *rc::gen::inRange<int64_t>(1, 5).as("size of a slice");
    const auto slices = *rc::gen::inRange<int64_t>(1, 7).as("slices");
    const size_t level = *rc::gen::inRange<size_t>(0, 4).as("level");
    const size_t slice_level = *rc::gen::inRange<size_t>(level, 4).as("level of slices");
    const std::vector<SliceLayer> layers = {{slice_level, size}};
    const PlacementResult plain = Place(tree, Rooms(pods), Ask(Mode::kPreferred, level, slices * size, layers));
    const PlacementResult balanced = Place(tree, Rooms(pods), AskBalanced(level, slices * size, layers));
    RC_ASSERT(balanced.fits == plain.fits);
    if (!balanced.fits) return;
    int64_t sum = 0;
    std::map<std::vector<std::string>, int64_t> by_domain;
    for (const auto& [leaf, placed] : balanced.pods) {
      RC_ASSERT(placed <= pods[leaf]);
      sum += placed;
      const std::vector<std::string>& values = tree.ValuesOf(leaf);
      by_domain[{values.begin(), values.begin() + static_cast<ptrdiff_t>(slice_level) + 1}] += placed;
    }
    RC_ASSERT(sum == slices * size);
    for (const auto& [domain, placed] : by_domain) RC_ASSERT(placed % size == 0);
  });
}

TEST_CASE("balanced: the leader is where the share fits beside it") {
  // Beside the leader n1 has room for two and n3 for three: with six pods on two nodes only n3 can have it.
  std::vector<LeafRoom> rooms = Rooms({3, 4, 4, 4, 0, 0});
  rooms[0] = {3, true, 2};
  rooms[2] = {4, true, 3};
  PlacementRequest request = AskBalanced(1, 6);
  request.leader = true;
  const PlacementResult result = Place(Blocks(), rooms, request);
  CHECK(result.pods == Pods{{2, 3}, {3, 3}});
  CHECK(result.leader == 2);
}

TEST_CASE("balanced: whatever there is room for is placed, within it, and no worse off than the emptiest it must use") {
  rc::check([] {
    const std::vector<int64_t> pods =
        *rc::gen::container<std::vector<int64_t>>(6, rc::gen::inRange<int64_t>(0, 7)).as("room of each node");
    const auto count = *rc::gen::inRange<int64_t>(1, 20).as("pods");
    const size_t level = *rc::gen::inRange<size_t>(0, 3).as("level");
    std::vector<LeafRoom> rooms = Rooms(pods);
    const PlacementResult plain = Place(Blocks(), rooms, Ask(Mode::kPreferred, level, count));
    const PlacementResult balanced = Place(Blocks(), rooms, AskBalanced(level, count));
    RC_ASSERT(balanced.fits == plain.fits);
    if (!balanced.fits) return;
    int64_t sum = 0;
    int64_t fewest = count;
    for (const auto& [leaf, placed] : balanced.pods) {
      RC_ASSERT(placed > 0);
      RC_ASSERT(placed <= pods[leaf]);
      sum += placed;
      fewest = std::min(fewest, placed);
    }
    RC_ASSERT(sum == count);
    if (level != 1) return;
    int64_t fewest_plain = count;
    for (const auto& [leaf, placed] : plain.pods) fewest_plain = std::min(fewest_plain, placed);
    // Among nodes of one block it is never less even than the best fit on as many nodes.
    const bool one_block =
        std::all_of(balanced.pods.begin(), balanced.pods.end(), [](const auto& p) { return p.first < 4; });
    if (one_block && balanced.pods.size() == plain.pods.size()) RC_ASSERT(fewest >= fewest_plain);
  });
}

}  // namespace muster::gang
