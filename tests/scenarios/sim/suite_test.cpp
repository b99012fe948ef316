// The scenarios on the simulator. Which order events take is drawn from the seed: what is shown at the end must not
// depend on it.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "sim_world.h"
#include "stage.h"

namespace muster::scenarios {

void Play(const std::string& name, Scenario scenario) {
  const uint64_t seeds = std::getenv("MUSTER_LONG") == nullptr ? 3 : 30;
  std::vector<Checkpoint> first;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO(name << " with seed " << seed);
    const std::unique_ptr<World> world = NewSimWorld(seed);
    Stage stage(world.get(), name, seed == 1 ? nullptr : &first);
    scenario(stage);
    stage.Check("the end");
    stage.CheckInvariants();
    if (seed == 1) first = stage.checkpoints();
  }
}

}  // namespace muster::scenarios
