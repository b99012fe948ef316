// The simulator as a world: the store, the job controller and garbage collection of sim/, and the whole Controller of
// Muster on the real client and informers, in virtual time.
//
// Threading: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "world.h"

namespace muster::scenarios {

// The administrator as a client of a simulated server, which runs while it waits for an answer.
std::unique_ptr<World> NewSimWorld(uint64_t seed);

// Without job controller, policies and flavors: whoever plays the job controller may write whatever it would.
// `config`: as of World::Configure.
std::unique_ptr<World> NewSimWorldWithoutJobController(uint64_t seed, const std::string& config = "");

// The API server alone, with the namespace `team`.
std::unique_ptr<World> NewSimServer(uint64_t seed);

}  // namespace muster::scenarios
