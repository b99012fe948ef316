// What a scrape of the metrics of machines costs.
//
// Threading: pure functions, but for the processor's clock.
#pragma once

#include "muster/core/time.h"

namespace muster::bench {

struct MachinesCost {
  int nodes = 0;
  int flavors = 0;
  Duration room_p50{0};  // the room of all flavors, processor time
  Duration room_p99{0};
  Duration quotas{0};  // quota that no node can serve, after a change of nodes
};

// Nodes of eight devices with some taken, as many of each flavor, and ten ClusterQueues with quota in all of them.
MachinesCost MeasureMachines(int nodes, int flavors, int times);

}  // namespace muster::bench
