// A real control plane as a world, with the program as a process of its own.
//
// Threading: one thread.
#pragma once

#include <memory>

#include "world.h"

namespace muster::scenarios {

// API server, job controller, garbage collection, scheduler, kwok for the machines of the flavors, and Muster with the
// rights and policies that it ships with.
std::unique_ptr<World> NewRealWorld();

// The API server alone, with Muster's CRDs and the namespace `team`.
std::unique_ptr<World> NewRealServer();

}  // namespace muster::scenarios
