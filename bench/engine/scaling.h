// What one turn costs while everything is full: a gang ends, what has room now starts, and a gang like the one that
// started arrives and waits.
//
// Threading: pure functions, but for the processor's clock.
#pragma once

#include <vector>

#include "muster/core/time.h"

namespace muster::bench {

struct TurnCost {
  int queues = 0;
  int64_t waiting = 0;
  int shapes = 0;
  Duration mean{0};  // of one turn, processor time
  Duration p50{0};
  Duration p99{0};
  int64_t resident_kib = 0;  // of the process, when it was measured
};

// `queues` ClusterQueues in cohorts of `queues_per_cohort`, each full and with two more gangs waiting.
TurnCost MeasureQueues(int queues, int queues_per_cohort, int turns);

// `waiting` gangs of `shapes` sizes wait in a cohort of ten full ClusterQueues, each size in one of them.
TurnCost MeasureWaiting(int64_t waiting, int shapes, int turns);

}  // namespace muster::bench
