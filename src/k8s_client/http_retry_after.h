// The Retry-After header. The API server sends seconds; dates are not read.
//
// Threading: values.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "muster/core/time.h"

namespace muster::k8s {

// RETURNS: nothing where `text` is no number of seconds. At most a day.
inline std::optional<Duration> ParseRetryAfter(std::string_view text) {
  constexpr int64_t kSecondsMax = 24 * 60 * 60;
  if (text.empty()) return std::nullopt;
  int64_t seconds = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    seconds = std::min(seconds * 10 + (c - '0'), kSecondsMax);
  }
  return std::chrono::seconds(seconds);
}

}  // namespace muster::k8s
