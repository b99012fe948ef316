#include "memory.h"

#include <malloc.h>

#include <algorithm>

namespace muster::cli {
namespace {

constexpr int kArenasMax = 2;
constexpr int kMappedFrom = 256 * 1024;
constexpr size_t kWorthIt = 8 * 1024 * 1024;

}  // namespace

void SetUpMemory() {
  mallopt(M_ARENA_MAX, kArenasMax);
  mallopt(M_MMAP_THRESHOLD, kMappedFrom);
}

void MemoryTrimmer::Look() {
  const size_t free_now = mallinfo2().fordblks;
  free_then_ = std::min(free_then_, free_now);
  if (free_now < free_then_ + kWorthIt) return;
  malloc_trim(0);
  // What was given back counts as free all the same.
  free_then_ = mallinfo2().fordblks;
}

}  // namespace muster::cli
