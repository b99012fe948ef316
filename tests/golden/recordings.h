// The recorded cases, and which of them Muster is expected to follow.
//
// Threading: values and functions.
#pragma once

#include <string>
#include <vector>

#include "muster/sim/json.h"

namespace muster::golden {

using sim::At;
using sim::Flag;
using sim::Get;
using sim::Json;
using sim::Number;
using sim::Text;

// All of jobs.jsonl.gz, as the README beside it says. Fails the test where the file cannot be read.
std::vector<Json> Recordings();

// What of the configuration is not as by default, as YAML; empty: nothing.
std::string ConfigOf(const Json& recording);

// The job controller and the scheduler worked on it; in the others the recording plays the job controller.
bool HasJobController(const Json& recording);

// What the step leaves behind is shown for a moment only: it runs for a limited time, or waits for one.
bool IsMoment(const Json& recording, const Json& step);
bool HasMoments(const Json& recording);

}  // namespace muster::golden
