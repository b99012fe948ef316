// The scenarios on a real control plane, one for all of them, each compared with what the simulator showed.
#include <catch2/catch.hpp>

#include "real_world.h"
#include "sim_world.h"
#include "stage.h"

namespace muster::scenarios {

void Play(const std::string& name, Scenario scenario) {
  std::vector<Checkpoint> simulated;
  {
    INFO(name << " on the simulator");
    const std::unique_ptr<World> world = NewSimWorld(1);
    Stage stage(world.get(), name, nullptr);
    scenario(stage);
    stage.Check("the end");
    simulated = stage.checkpoints();
  }
  INFO(name << " on a real control plane");
  static const std::unique_ptr<World> world = NewRealWorld();
  Stage stage(world.get(), name, &simulated);
  scenario(stage);
  stage.Check("the end");
  stage.CheckInvariants();
  stage.Close();
}

}  // namespace muster::scenarios
