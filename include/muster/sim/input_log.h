// Everything that came into the product from outside, with the virtual time: answers, watch lines, timers.
// Two runs of one seed must agree here; where they do not, something in the product depends on more than
// its inputs.
//
// Threading: needs external synchronisation.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "muster/core/hash.h"
#include "muster/core/time.h"

namespace muster::sim {

class InputLog {
 public:
  // Remembers the texts of the last `keep` inputs; all of them count in the hash.
  explicit InputLog(size_t keep = 1000) : keep_(keep) {}

  // `kind`: "answer", "open", "line", "close", "timer".
  void Add(MonoTime at, std::string_view kind, std::string_view text);

  // Inputs so far: the number of a crash point between two of them.
  int64_t size() const { return size_; }
  uint64_t hash() const { return hash_.value(); }
  // The remembered inputs, one a line, for the report of a failed run.
  std::string Tail() const;

 private:
  size_t keep_;
  int64_t size_ = 0;
  StateHash hash_;
  std::deque<std::string> tail_;
};

}  // namespace muster::sim
