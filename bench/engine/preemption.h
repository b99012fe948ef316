// What a preemption costs among many that run: the search for victims, their evictions, and the start of the preemptor.
//
// Threading: pure functions, but for the processor's clock.
#pragma once

#include <cstdint>

#include "muster/core/time.h"

namespace muster::bench {

struct PreemptionCost {
  int64_t running = 0;
  int64_t preemptions = 0;  // measured
  int64_t victims = 0;      // of all of them
  // Processor time: of choosing the victims of one preemptor, and of all that follows too, until it has started.
  struct Quantiles {
    Duration p50{0};
    Duration p99{0};
  };
  Quantiles search;
  Quantiles whole;
};

// `running` gangs of one pod, of a hundred priorities, in a cohort of ten ClusterQueues that are all full and nine of
// which borrow. Preemptors of 1 to 100 pods come to the tenth, whose quota the others use, or to one that borrows and
// may evict its own; each ends before the next comes, and its victims start again.
PreemptionCost MeasurePreemption(int64_t running, int turns);

}  // namespace muster::bench
