// Nodes that are reserved for a gang which small ones would keep from them.
#include <absl/strings/str_replace.h>

#include <catch2/catch.hpp>

#include "fixture/text.h"
#include "team.h"

namespace muster::cluster {

// Whatever comes free on one of the two nodes would go to a single pod, of which some wait all the while.
TEST_CASE("A gang of two whole nodes starts amid small ones that would take each device that comes free") {
  const std::string config =
      absl::StrReplaceAll(MachinesConfig(true), {{"placeTimeout: 2s", "placeTimeout: 2s, reserveAfter: 3s"}});
  REQUIRE(config != MachinesConfig(true));
  Ground ground({.config = config});
  Team team(ground, "crowd", {Gpus(4), Gpus(4)});
  const Gang small = {.pods = 1,
                      .annotations = {{"muster.dev/start-seconds", "0.05"}, {"muster.dev/run-seconds", "3"}}};
  constexpr int kBefore = 10;
  constexpr int kAll = 90;
  for (int i = 0; i < kBefore; ++i) team.Create(Cat("small-", i), small);
  team.Create("big", {.pods = 2, .each = Gpus(4)});
  for (int i = kBefore; i < kAll; ++i) team.Create(Cat("small-", i), small);
  REQUIRE(Eventually([&] {
    return team.WaitsFor("big").find("2 node(s) are reserved for it") != std::string::npos || !team.Suspended("big");
  }));
  REQUIRE(Eventually([&] { return team.Runs("big", 2); }));
  // Those who were behind it still wait.
  CHECK(team.Suspended(Cat("small-", kAll - 1)));
  CHECK(team.Evictions("big", "NodeFailures") == 0);
  team.Delete("big");
  REQUIRE(Eventually([&] { return team.Completed(Cat("small-", kAll - 1)); }));
}

}  // namespace muster::cluster
