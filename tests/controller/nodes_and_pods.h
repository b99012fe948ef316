// Nodes and pods, which nobody else makes in the world in memory.
#pragma once

#include <string>

#include "world.h"

namespace muster::controller {

inline constexpr const char* kHost = "kubernetes.io/hostname";

// Ready, with the labels of flavor "f".
void MakeNode(World& world, const std::string& name, const std::string& rack, int cpu);

// Topology "racks" of label "rack" and the hostname.
void MakeTopology(World& world);

// "lq" with `quota` of flavor "f" with Topology "racks": rack r1 {n1: 2 cpu}, r2 {n2: 2, n3: 2}.
void MakePlaces(World& world, const std::string& quota = "100");

// What a Job has besides that asks for places: by the annotation kueue.x-k8s.io/podset-...
sim::Json Asks(const std::string& annotation, const std::string& value);

bool Started(const World& world, const std::string& job);

// As the job controller would make it from the Job's template. `node`: where the scheduler puts it; empty: nowhere.
void MakePod(World& world, const std::string& job, int index, bool indexed = true, const std::string& node = "");

}  // namespace muster::controller
