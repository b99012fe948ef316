// How this process uses the C library's allocator: it lives for months, and after each burst most of what it took for
// bodies and events is free again, in pieces between what stays.
//
// Threading: SetUpMemory before any other thread exists; MemoryTrimmer is used by one thread.
#pragma once

#include <cstddef>

namespace muster::cli {

// Few arenas, since one thread does nearly all; and what is large is mapped by itself, so that its end is its end.
void SetUpMemory();

class MemoryTrimmer {
 public:
  // Gives whole free pages back to the system, where there may be enough of them. To be called once in a while.
  void Look();

 private:
  size_t free_then_ = 0;  // bytes, when that was last done, or less since
};

}  // namespace muster::cli
