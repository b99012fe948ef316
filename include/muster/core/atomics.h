// Which atomics a lock-free template is made of: a policy, so that the code that ships can also be run one atomic
// step at a time.
//
// A policy has a member template Atomic<T> with load, store, exchange, compare_exchange_strong, fetch_add and
// fetch_sub as std::atomic has them. There are no stand-alone fences in it: ThreadSanitizer does not know them, and
// what they would order is ordered by sequentially consistent operations.
//
// Threading: types only.
#pragma once

#include <atomic>

namespace muster {

struct StdAtomics {
  template <typename T>
  using Atomic = std::atomic<T>;
};

}  // namespace muster
