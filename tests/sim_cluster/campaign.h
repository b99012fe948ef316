// One history from a seed: chance does what it likes, then faults end, all processes are replaced, and there is room
// for all. What must hold at every moment and at each rest is judged.
//
// Threading: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "chaos.h"
#include "cluster.h"
#include "rest.h"

namespace muster::sim_campaign {

// What is in a world besides. Unset: nothing.
struct Beside {
  std::function<void()> begin;  // the queues are made, and nothing has happened
  std::function<void()> end;    // faults have ended
  std::function<void()> repair;
  const Places* places = nullptr;
};

struct Outcome {
  uint64_t trace = 0;
  uint64_t state = 0;
  int deaths = 0;
  int waited = 0;  // when faults had ended
  int stops = 0;   // where nobody edits anything
  int growths = 0;
  int shrinks = 0;

  // Of several; trace and state are those of the last.
  Outcome& operator+=(const Outcome& other);
};

// Fails the test where anything is wrong.
Outcome Play(Cluster* cluster, Chaos* chaos, const Beside& beside);

// Off, as by default, or so short that many gangs are stopped and tried again; then others edit too, so that starts are
// not counted.
std::optional<controller::WaitForPodsReadyOptions> PodsReadyOf(uint64_t seed);

// Seeds from 1, ten times as many with MUSTER_LONG, whose sum `sum` gets; or MUSTER_SEED alone, with all that is logged
// and its trace. RETURNS: false: it was one alone, of which nothing more is to be asked.
bool PlaySeeds(uint64_t seeds, const std::function<Outcome(uint64_t seed)>& play, Outcome* sum);

}  // namespace muster::sim_campaign
