// An engine with queues of cpu, and the answers that an API server and pods would give.
//
// Threading: needs external synchronisation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/engine/engine.h"
#include "muster/gang/shape.h"

namespace muster::bench {

// Of this process so far. Other than real time, it does not depend on what else the machine does.
Duration ProcessorTime();

// ClusterQueue i of the world; its LocalQueue has the same name and is in namespace "bench".
std::string QueueName(int index);

// A ClusterQueue of one flavor and cpu alone, in milli-cpu.
struct QueueOptions {
  Amount nominal;
  std::optional<Amount> borrowing_limit = std::nullopt;
  engine::PreemptionPolicy reclaim_within_cohort = engine::PreemptionPolicy::kNever;
  engine::PreemptionPolicy within_cluster_queue = engine::PreemptionPolicy::kNever;
};

// Blocks of racks of nodes, all alike.
inline constexpr char kBlockLabel[] = "bench/block";
inline constexpr char kRackLabel[] = "bench/rack";
struct MachineOptions {
  int blocks = 1;
  int racks_per_block = 1;
  int nodes_per_rack = 1;
  Amount cpu;  // milli-cpu, of each
};

// What came of deciding.
struct Decided {
  struct Change {
    std::string uid;
    bool starts = false;  // false: it is stopped
  };
  std::vector<Change> changes;  // in order
  int64_t decisions = 0;        // Holds as well
  Duration first{0};            // processor time of the first decisions, before anything of them is done
};

class World {
 public:
  World();

  // The flavor has a topology from here on, and these nodes.
  void AddMachines(const MachineOptions& machines);
  // `cohort` empty: none.
  void AddQueue(int index, const std::string& cohort, const QueueOptions& options);
  // One gang of `pods` equal pods. RETURNS: its uid.
  std::string Submit(int queue, int64_t number, int32_t pods, const gang::ShapePtr& shape, int32_t priority,
                     WallTime now, const gang::TopologyRequest& topology = {});
  // Its pods have ended and its Job is gone.
  void Finish(const std::string& uid);
  // Decides until nothing more can be decided. Each start and each stop succeeds at once.
  Decided Decide(WallTime now);
  WallTime NextDue() const { return engine_.NextDue(); }

  // cpu alone, in milli-cpu; equal ones are one object.
  gang::ShapePtr Shape(Amount cpu);

 private:
  gang::ShapeTable shapes_;
  engine::EngineSet engine_;
};

}  // namespace muster::bench
