// What a scenario file says: queues, classes of workloads that arrive in each of them at a steady pace, and machines
// where these are placed.
//
// Threading: values.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "world.h"

namespace muster::bench {

// Workloads of one kind. `count` of them arrive in every queue, the first at time zero.
struct ScenarioClass {
  std::string name;
  int count = 0;
  Duration every{0};
  Duration run{0};
  int32_t priority = 0;
  int32_t pods = 1;
  Amount cpu_per_pod;              // milli-cpu
  gang::TopologyRequest topology;  // of racks; empty: none
};

struct Scenario {
  int cohorts = 0;
  int queues_per_cohort = 0;
  QueueOptions queue;
  std::vector<ScenarioClass> classes;
  std::optional<MachineOptions> machines;
  // The least time in which anybody could finish everything: the work of a cohort on its quota, or the last
  // arrival and its run, whichever takes longer.
  Duration BestPossible() const;
  // Of all cohorts, in milli-cpu.
  double Capacity() const;
};

// ON FAILURE: InvalidArgument that names file, line, field and value; a field that asks for what the engine does not
// do is refused by name.
absl::StatusOr<Scenario> ReadScenario(const std::string& path);

}  // namespace muster::bench
