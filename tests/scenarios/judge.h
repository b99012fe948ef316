// What must hold at every moment, judged from the outside: the versions of the Jobs in the order of the API server,
// and the quotas as the scenario wrote them.
//
// Threading: values.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "muster/sim/json.h"
#include "quota_tree.h"

namespace muster::scenarios {

class Judge {
 public:
  // A ClusterQueue or Cohort as the API server stored it.
  void Queue(const sim::Json& cluster_queue);
  void Cohort(const sim::Json& cohort);
  // `version`: a resourceVersion from after the deletion.
  void QueueDeleted(const std::string& name, const std::string& version);
  void CohortDeleted(const std::string& name, const std::string& version);

  // Who decides may know of a change of the queues only a little later: the oldest resourceVersion at which they may
  // have been as they were when a start that took effect at `version` was decided on.
  using Since = std::function<int64_t(int64_t version)>;

  // RETURNS: what was broken by these lines of a watch of Jobs, from the first on. The rules, at each start (a queued
  // Job goes from suspended to running):
  //   the Job carries the record of a started admission of its own, with all its pods and the flavors' labels;
  //   no claim starts a gang twice, unless somebody else suspended it meanwhile;
  //   with it, its ClusterQueue and all cohorts above are within quota and limits, counting all that have started and
  //   not ended, and those suspended whose pods are still there. Without `since` the limits are those of that moment;
  //   with it any since then, and what was decided on later does not count.
  // And always: no more pods are made than the gang has, none of a queued Job that was never started.
  std::vector<std::string> Findings(const std::vector<sim::Json>& lines, const Since& since = nullptr) const;

 private:
  using Versions = std::map<int64_t, QuotaTree::Node>;  // by resourceVersion
  class Run;
  static QuotaTree TreeAt(const std::map<std::string, Versions>& queues, int64_t queues_at,
                          const std::map<std::string, Versions>& cohorts, int64_t cohorts_at);
  std::string Excess(int64_t version, int64_t since, const std::string& queue, const QuotaTree::Amounts& started,
                     const QuotaTree::Usage& usage) const;

  std::map<std::string, Versions> queues_;  // by name
  std::map<std::string, Versions> cohorts_;
};

// How often each Job, by name, went from suspended to running.
std::map<std::string, int> StartsOf(const std::vector<sim::Json>& lines);

}  // namespace muster::scenarios
