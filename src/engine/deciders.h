// The threads that look for what trees could have, while nothing changes: a fork, and the join at once.
//
// Threading: ForEach is called by one thread at a time.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <memory>

namespace muster::engine {

class Deciders {
 public:
  // `count`: with the caller of ForEach, who is the first. REQUIRES: at least 1
  explicit Deciders(int count);
  ~Deciders();
  Deciders(const Deciders&) = delete;
  Deciders& operator=(const Deciders&) = delete;

  size_t count() const { return count_; }

  // Calls run(task, decider) once for each task below `tasks`, several at a time, no decider twice at a time; returns
  // when all have returned. The lower tasks begin first.
  void ForEach(size_t tasks, absl::FunctionRef<void(size_t task, size_t decider)> run);

 private:
  struct Pool;

  size_t count_;
  std::unique_ptr<Pool> pool_;  // null: the caller alone
};

}  // namespace muster::engine
