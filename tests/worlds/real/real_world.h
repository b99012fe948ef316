// A real control plane as a world, with the program as a process of its own.
//
// Threading: one thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "world.h"

namespace muster::scenarios {

// API server, job controller, garbage collection, scheduler, kwok for the machines of the flavors, and Muster with the
// rights and policies that it ships with.
std::unique_ptr<World> NewRealWorld();

// Without job controller, scheduler, kwok, and without the admission policies for Jobs: whoever plays the job
// controller may write whatever it would.
std::unique_ptr<World> NewRealWorldWithoutJobController();

// As NewRealWorld, with two machines of these labels and no flavors; pods run until somebody writes how they ended.
std::unique_ptr<World> NewRealWorldOfLastingPods(const std::map<std::string, std::string>& node_labels);

// The API server alone, with Muster's CRDs and the namespace `team`.
std::unique_ptr<World> NewRealServer();

}  // namespace muster::scenarios
