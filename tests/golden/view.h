// What is compared: the parts of objects and Events that do not differ from one run of the reference to the next.
//
// A view is {jobs, workloads, clusterQueues, localQueues: an object by name; events: a list}. In an object,
// conditions are by type, times are "<time>". An Event is {kind, name, type, reason, message, source, count}.
//
// Threading: pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "recordings.h"

namespace muster::golden {

// Of `then` of a recorded step.
Json ViewOf(const Json& then);

// Objects of an API server, by kind as a view names them, and Events of the group events.k8s.io under "events".
using Objects = std::map<std::string, std::vector<Json>>;
Json ViewOf(const Objects& objects);

// Everything in which two views differ, apart from Events, as "jobs/train/spec/suspend: wanted true, found false".
std::vector<std::string> Differences(const Json& wanted, const Json& found);

}  // namespace muster::golden
