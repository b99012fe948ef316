// What random histories are drawn from.
//
// Threading: within a property that RapidCheck checks.
#pragma once

#include <rapidcheck.h>

namespace muster::engine {

// Of the whole range in each history: by itself a range begins with its least value alone, and all would be alike.
template <typename T>
T Draw(T least, T below) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(least, below));
}

// Chance is not shrunk: what always happens has other consequences than what may.
inline bool OneIn(int n) { return *rc::gen::noShrink(rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, n))) == 0; }

}  // namespace muster::engine
