// Flavors with which the pods of a gang were not ready in time: others go first for a while, where the configuration
// says so. Remembered in the record of the eviction, then in the Workload's condition muster.dev/FlavorsTimedOut, whose
// message is read again by the next process.
//
// Source: user_pains I6.
// Threading: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/time.h"
#include "muster/engine/objects.h"

namespace muster::controller {

struct TimedOutFlavor {
  std::string pod_set;
  std::string flavor;
  int32_t count = 0;
  WallTime last;  // in whole seconds
  friend bool operator==(const TimedOutFlavor&, const TimedOutFlavor&) = default;
};

struct TimedOutFlavors {
  std::vector<TimedOutFlavor> flavors;  // sorted by pod set and flavor
  WallTime until;                       // in whole seconds: from then on all of it counts as forgotten
  friend bool operator==(const TimedOutFlavors&, const TimedOutFlavors&) = default;
};

// With the flavors of an admission that was decided at `decided`, whose pods were not ready in time at `at`. What was
// forgotten when it was decided is dropped.
TimedOutFlavors AddTimeOut(TimedOutFlavors known, const engine::Admission& admission, WallTime decided, WallTime at,
                           WallTime until);

// What the engine goes by. Empty once it is forgotten.
std::vector<engine::FlavorTimeOuts> Remembered(const TimedOutFlavors& known, WallTime now);

// "main on reserved: 2 time(s), last at 2026-03-01T10:00:00Z; other flavors go first until 2026-03-01T11:00:00Z".
std::string TimedOutMessage(const TimedOutFlavors& known);
// RETURNS: none, where the message is not one of those.
TimedOutFlavors ReadTimedOutMessage(std::string_view message);

}  // namespace muster::controller
