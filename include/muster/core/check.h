// Always-on invariant checks. A failed check prints where and what, and aborts: a wrong admission is
// worse than a restart, and every state can be rebuilt from the API objects.
//
// Threading: safe for concurrent use.
#pragma once

#include <string_view>

namespace muster {

// ON FAILURE: does not return.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, std::string_view detail = {});

}  // namespace muster

#define MUSTER_CHECK(cond)                                                           \
  do {                                                                               \
    if (!(cond)) [[unlikely]] ::muster::CheckFailed(__FILE__, __LINE__, #cond);      \
  } while (false)

// `detail` is evaluated only on failure.
#define MUSTER_CHECK_MSG(cond, detail)                                                        \
  do {                                                                                        \
    if (!(cond)) [[unlikely]] ::muster::CheckFailed(__FILE__, __LINE__, #cond, (detail));     \
  } while (false)
