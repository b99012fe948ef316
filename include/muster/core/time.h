// Points in time. Wall time is what objects carry; monotonic time is what deadlines use. They are
// different types so that one cannot be mistaken for the other. Sums end at the first and last point that can be
// said, so that "never" is Duration::max() from any moment.
//
// Threading: values.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace muster {

using Duration = std::chrono::nanoseconds;

constexpr int64_t AddClamped(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}
constexpr int64_t SubtractClamped(int64_t a, int64_t b) {
  int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return b < 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

constexpr Duration AddClamped(Duration a, Duration b) { return Duration(AddClamped(a.count(), b.count())); }
// For numbers that others have written.
constexpr Duration SecondsClamped(int64_t seconds) {
  constexpr int64_t kMax = std::chrono::duration_cast<std::chrono::seconds>(Duration::max()).count();
  return seconds > kMax ? Duration::max() : seconds < -kMax ? Duration::min() : std::chrono::seconds(seconds);
}

// Nanoseconds since the Unix epoch, UTC. Zero means "not set" wherever a field is optional in the API.
struct WallTime {
  int64_t unix_nanos = 0;

  friend constexpr auto operator<=>(WallTime, WallTime) = default;
  friend constexpr WallTime operator+(WallTime t, Duration d) { return {AddClamped(t.unix_nanos, d.count())}; }
  friend constexpr WallTime operator-(WallTime t, Duration d) { return {SubtractClamped(t.unix_nanos, d.count())}; }
  friend constexpr Duration operator-(WallTime a, WallTime b) {
    return Duration(SubtractClamped(a.unix_nanos, b.unix_nanos));
  }
  constexpr bool IsSet() const { return unix_nanos != 0; }
};

// Nanoseconds since an arbitrary start; never jumps.
struct MonoTime {
  int64_t nanos = 0;

  friend constexpr auto operator<=>(MonoTime, MonoTime) = default;
  friend constexpr MonoTime operator+(MonoTime t, Duration d) { return {AddClamped(t.nanos, d.count())}; }
  friend constexpr Duration operator-(MonoTime a, MonoTime b) { return Duration(SubtractClamped(a.nanos, b.nanos)); }
};

// metav1.Time as Kubernetes writes it: RFC 3339, UTC, whole seconds ("2026-01-02T03:04:05Z").
std::string FormatTime(WallTime t);

// metav1.MicroTime: RFC 3339 with six decimals ("2026-01-02T03:04:05.000000Z"); leases and events use it.
std::string FormatMicroTime(WallTime t);

// RETURNS: the time, for any RFC 3339 text (fraction of up to nine digits, numeric zone or Z).
// ON FAILURE: InvalidArgument that names the text.
absl::StatusOr<WallTime> ParseTime(std::string_view text);

// A Go duration as the Configuration file writes it ("1h30m", "500ms", "2.5s", "-1s", "0").
// ON FAILURE: InvalidArgument that names the text.
absl::StatusOr<Duration> ParseGoDuration(std::string_view text);

}  // namespace muster
