// What one turn takes with one decider and with several, where many trees look for machines at a time.
//
// Threading: call it from one thread; it starts others.
#pragma once

#include <cstdint>

#include "muster/core/time.h"

namespace muster::bench {

struct DecidersCost {
  int trees = 0;
  int nodes = 0;
  int64_t admitted = 0;  // by each of the two, alike
  int64_t held = 0;      // reasons told
  Duration one_p50{0};   // of a turn, real time
  Duration many_p50{0};
};

// A gang of three shapes arrives in each of 16 trees, and as many end, on 4,000 nodes that are half full; two engines
// do the same by turns. `shared`: all trees have all nodes; else each has its own.
DecidersCost MeasureDeciders(bool shared, int deciders, int turns);

}  // namespace muster::bench
