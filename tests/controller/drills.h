// Faults and deaths that tests of several areas go through, and what must be true after any of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/sim/faults.h"
#include "world.h"

namespace muster::controller {

// A way in which a write can fail, or seem to.
struct Way {
  sim::Fault::Kind kind = sim::Fault::Kind::kRefuse;
  int status = 0;
  std::string Name() const;
};
const std::vector<Way>& AllWays();

// The next `times` writes of Muster's of this kind go that way; late ones by 3 s. `body_contains`: of those only.
sim::FaultRule Strike(const Way& way, std::string_view verb, std::string_view resource, int times,
                      std::string body_contains = "");

// Sees the writes of Muster's, Events apart, one by one.
class WriteCounter {
 public:
  // Of those that reach the API server from here on, or that were applied.
  WriteCounter(World* world, sim::SimServer::Phase phase);
  ~WriteCounter();
  WriteCounter(const WriteCounter&) = delete;
  WriteCounter& operator=(const WriteCounter&) = delete;
  int seen() const { return seen_; }

 private:
  World* world_;
  int seen_ = 0;
};

// Counts are those that a recount gives, and nothing is written any more but the lease. `settle`: until then.
void ComesToRest(World& world, Process& muster, Duration settle = std::chrono::minutes(1));

// All that there was has ended and is told so: nothing holds quota, and nothing waits. A watch that has fallen silent
// is noticed after three minutes.
void AtRest(World& world, Process& muster);

bool Suspended(const World& world, const std::string& job);
// By the status of ClusterQueue "cq"; negative: not said yet.
int64_t Reserving(const World& world, const std::string& queue = "cq");
int64_t Pending(const World& world, const std::string& queue = "cq");
// "True/Preempted"; empty where there is none.
std::string ConditionOf(const sim::Json& object, const std::string& type);
std::string MessageOf(const sim::Json& object, const std::string& type);
// How often it was evicted, by what the Workload says; for that reason only, if one is given.
int64_t EvictionsIn(const sim::Json& workload, const std::string& reason = "");

}  // namespace muster::controller
