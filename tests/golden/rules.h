// Where Muster differs from the recordings on purpose, as rules: each turns what was recorded into what must be found
// instead. docs/kueue-compatibility.md tells users.
//
// Threading: pure functions.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "recordings.h"

namespace muster::golden {

// The queues of a case, also those that are gone by now.
struct Queues {
  std::map<std::string, std::string> cluster_queue_of;  // by LocalQueue
  std::set<std::string> strict;                         // ClusterQueues with the strategy StrictFIFO
};

// Where in a case it is. Names are those of this run.
struct Moment {
  const Queues& queues;
  const Json& ops;      // of the step
  const Json& earlier;  // Events of the steps before
};

struct Rule {
  // The page says so.
  std::string documented;
  // `wanted`: the view that was recorded at the end of a step; `found`: what is shown now. What Muster adds to objects
  // is taken out of `found` where it is as it must be.
  void (*apply)(const Moment& moment, Json* wanted, Json* found);
};

const std::vector<Rule>& Rules();

}  // namespace muster::golden
