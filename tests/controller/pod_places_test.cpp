// Which place each pod of a gang gets (kueue_semantics 9.9.5), counted by hand.
#include "muster/controller/pod_places.h"

#include <catch2/catch.hpp>

namespace muster::controller {
namespace {

using Places = std::vector<std::optional<size_t>>;

// n1 has two places, n2 three.
gang::TopologyAssignment Assignment() { return {{"host"}, {{{"n1"}, 2}, {{"n2"}, 3}}}; }

PodToPlace Waiting(const std::string& name, std::optional<int64_t> rank = std::nullopt) {
  return {name, rank, true, std::nullopt};
}
PodToPlace Placed(const std::string& name, std::optional<size_t> domain, std::optional<int64_t> rank = std::nullopt) {
  return {name, rank, false, domain};
}

TEST_CASE("Pods with ranks go by them, whoever comes first") {
  CHECK(ChoosePlaces(Assignment(), {Waiting("e", 4), Waiting("a", 0), Waiting("c", 2), Waiting("b", 1)}) ==
        Places{1, 0, 1, 0});
  // One at a time gives the same.
  CHECK(ChoosePlaces(Assignment(), {Waiting("c", 2)}) == Places{1});
  CHECK(ChoosePlaces(Assignment(), {Placed("c", 1, 2), Waiting("b", 1)}) == Places{1, 0});
}

TEST_CASE("Pods without ranks get what is free, by their names") {
  CHECK(ChoosePlaces(Assignment(), {Waiting("d"), Waiting("b"), Waiting("a"), Waiting("c")}) == Places{1, 0, 0, 1});
  CHECK(ChoosePlaces(Assignment(), {Placed("z", 1), Placed("y", 1), Waiting("a"), Waiting("b"), Waiting("c"),
                                    Waiting("d")}) == Places{1, 1, 0, 0, 1, std::nullopt});
  // One that is nowhere in the assignment takes no place of it.
  CHECK(ChoosePlaces(Assignment(), {Placed("z", std::nullopt), Waiting("a")}) == Places{std::nullopt, 0});
}

TEST_CASE("Ranks that are not those of the assignment do not count") {
  // Too high: fewer run at once than there are indexes.
  CHECK(ChoosePlaces(Assignment(), {Waiting("a", 5), Waiting("b", 1)}) == Places{0, 0});
  // Twice the same.
  CHECK(ChoosePlaces(Assignment(), {Waiting("a", 3), Waiting("b", 3), Waiting("c", 4)}) == Places{0, 0, 1});
  // Somebody sits where another rank belongs.
  CHECK(ChoosePlaces(Assignment(), {Placed("a", 0, 4), Waiting("b", 0), Waiting("c", 1)}) == Places{0, 0, 1});
}

}  // namespace
}  // namespace muster::controller
