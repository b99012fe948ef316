// Nodes and pods, which nobody else makes in the world in memory.
#pragma once

#include <string>

#include "world.h"

namespace muster::controller {

inline constexpr const char* kHost = "kubernetes.io/hostname";

// Ready, with the labels of flavor "f".
void MakeNode(World& world, const std::string& name, const std::string& rack, int cpu);

// As the job controller would make it from the Job's template. `node`: where the scheduler puts it; empty: nowhere.
void MakePod(World& world, const std::string& job, int index, bool indexed = true, const std::string& node = "");

}  // namespace muster::controller
