// What a pass over one tree of cohorts must decide: each active ClusterQueue nominates the first that waits in it, on
// what is in use at the start; then they are processed in order on what is in use by then.
//
// Source: kueue_semantics 5.2; docs/kueue-compatibility.md for room that is kept.
// Threading: owned by its user.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan.h"

namespace muster::cli::model {

struct Admitted {
  std::string uid;
  engine::Admission admission;  // without places
};

struct Evicted {
  std::string uid;
  engine::EvictionReason reason = engine::EvictionReason::kInClusterQueue;
  std::string preemptor;
};

struct Expected {
  std::vector<Admitted> admitted;
  std::vector<Evicted> evicted;
  // Of those that were nominated and wait: by uid, why.
  std::map<std::string, engine::ReasonCode> waiting;
  bool goes_on = false;  // another pass could decide something
};

// Below `root`, or of that ClusterQueue. Changes what `state` remembers of scans, rooms and preemptors; who holds what
// is changed by whoever carries it out. `turn` differs from that of a pass before which anything was told or carried
// out.
Expected RunPass(State* state, int root, int64_t number, int64_t turn, WallTime now);

// What time alone changes before a pass: of all trees. Source: docs/kueue-compatibility.md.
void LetTimePass(State* state, WallTime now);
// Whoever waits for the tree to change is looked at again.
void Wake(State* state, int node);

// What is in use, with the rooms of those who wait.
Books BooksOf(const State& state);

}  // namespace muster::cli::model
