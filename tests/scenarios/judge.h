// What must hold at every moment, judged from the outside: the versions of the Jobs in the order of the API server,
// and the quotas as the scenario wrote them.
//
// Threading: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/sim/json.h"

namespace muster::scenarios {

class Judge {
 public:
  // A ClusterQueue as the API server stored it.
  void Queue(const sim::Json& cluster_queue);
  // `version`: a resourceVersion from after the deletion.
  void QueueDeleted(const std::string& name, const std::string& version);

  // RETURNS: what was broken by these lines of a watch of Jobs, from the first on. The rules, at each start (a queued
  // Job goes from suspended to running):
  //   the Job carries the record of a started admission of its own, with all its pods and the flavors' labels;
  //   no claim starts a gang twice, unless somebody else suspended it meanwhile;
  //   with it, its ClusterQueue and its cohort are within quota and limits, counting all that have started and not
  //   ended, and those suspended whose pods are still there.
  // And always: no more pods than the gang has, none of a queued Job that was never started.
  std::vector<std::string> Findings(const std::vector<sim::Json>& lines) const;

 private:
  struct Limits {
    std::string cohort;
    // By "flavor/resource".
    std::map<std::string, int64_t> nominal;
    std::map<std::string, int64_t> borrowing;  // absent: no limit
    std::map<std::string, int64_t> lending;
    bool deleted = false;
  };
  using Usage = std::map<std::string, std::map<std::string, int64_t>>;  // by ClusterQueue and "flavor/resource"

  class Run;
  std::map<std::string, Limits> LimitsAt(int64_t version) const;
  static std::string Excess(const std::map<std::string, Limits>& limits, const Usage& usage, const std::string& queue);

  std::map<std::string, std::map<int64_t, Limits>> queues_;  // by name and resourceVersion
};

// How often each Job, by name, went from suspended to running.
std::map<std::string, int> StartsOf(const std::vector<sim::Json>& lines);

}  // namespace muster::scenarios
