// Runs a scenario against the engine in virtual time: workloads arrive, run for their time and end, and nothing
// takes time but that. What is preempted starts from zero again.
//
// Threading: values and pure functions, but for the machine's clocks.
#pragma once

#include <string>
#include <vector>

#include "scenario.h"

namespace muster::bench {

// One workload's times since the start.
struct WorkloadSample {
  int queue = 0;
  int cls = 0;  // index in the scenario
  Duration created{0};
  Duration started{0};  // the last start
  Duration finished{0};
  int starts = 0;
  Duration Wait() const { return started - created; }
};

// One moment at which something happened, and what deciding on it took.
struct StepSample {
  Duration at{0};
  int64_t events = 0;
  int64_t decisions = 0;
  Duration took{0};  // processor time, the bookkeeping of the simulation included
  bool idle = true;  // nothing was started or stopped
};

struct SimulationResult {
  std::vector<WorkloadSample> workloads;
  std::vector<StepSample> steps;
  int64_t unfinished = 0;  // that the engine never started: nothing was left to happen
  int64_t preempted = 0;
  Duration makespan{0};
  double useful = 0;      // milli-cpu × nanoseconds of runs that ended
  double lost = 0;        // of runs that were cut short
  Duration wall{0};       // real time of it all
  Duration processor{0};  // processor time of it all
};

SimulationResult Simulate(const Scenario& scenario);

}  // namespace muster::bench
