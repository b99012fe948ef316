#include "muster/core/time.h"

#include <catch2/catch.hpp>
#include <limits>

namespace muster {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST_CASE("times are written as Kubernetes writes them") {
  // 1767323045 = date -u -d 2026-01-02T03:04:05Z +%s
  const WallTime t{1'767'323'045'123'456'789};
  CHECK(FormatTime(t) == "2026-01-02T03:04:05Z");
  CHECK(FormatMicroTime(t) == "2026-01-02T03:04:05.123456Z");
  CHECK(FormatTime(WallTime{0}) == "1970-01-01T00:00:00Z");
  CHECK(FormatMicroTime(WallTime{-1}) == "1969-12-31T23:59:59.999999Z");
  // 951782400 = date -u -d 2000-02-29 +%s: a leap day of a century that has one.
  CHECK(FormatTime(WallTime{951'782'400'000'000'000}) == "2000-02-29T00:00:00Z");
}

TEST_CASE("any RFC 3339 time is read") {
  const int64_t second = 1'767'323'045'000'000'000;
  const std::pair<const char*, int64_t> cases[] = {
      {"2026-01-02T03:04:05Z", second},
      {"2026-01-02t03:04:05z", second},
      {"2026-01-02T03:04:05.5Z", second + 500'000'000},
      {"2026-01-02T03:04:05.000001Z", second + 1'000},
      {"2026-01-02T03:04:05.123456789Z", second + 123'456'789},
      {"2026-01-02T05:34:05+02:30", second},
      {"2026-01-01T22:04:05-05:00", second},
      {"1969-12-31T23:59:59.25Z", -750'000'000},
      {"2024-02-29T00:00:00Z", 1'709'164'800'000'000'000},
  };
  for (const auto& [text, nanos] : cases) {
    INFO(text);
    const auto t = ParseTime(text);
    REQUIRE(t.ok());
    CHECK(t->unix_nanos == nanos);
  }
}

TEST_CASE("what is not a time is refused by name") {
  for (const char* text : {"",
                           "x",
                           "2026-01-02",
                           "2026-01-02T03:04:05",
                           "2026-01-02 03:04:05Z",
                           "2026-13-02T03:04:05Z",
                           "2026-02-30T03:04:05Z",
                           "2025-02-29T00:00:00Z",
                           "2026-01-02T24:04:05Z",
                           "2026-01-02T03:60:05Z",
                           "2026-01-02T03:04:60Z",
                           "2026-01-02T03:04:05.Z",
                           "2026-01-02T03:04:05.1234567890Z",
                           "2026-01-02T03:04:05+2:00",
                           "2026-01-02T03:04:05+24:00",
                           "2026-01-02T03:04:05Zx",
                           "0001-01-01T00:00:00Z",
                           "9999-12-31T23:59:59Z",
                           "-026-01-02T03:04:05Z",
                           "+2026-01-02T03:04:05Z"}) {
    INFO(text);
    const auto t = ParseTime(text);
    REQUIRE_FALSE(t.ok());
    CHECK_THAT(std::string(t.status().message()), Catch::Contains(std::string("\"").append(text).append("\"")));
  }
}

TEST_CASE("the whole range survives a round trip to the microsecond") {
  for (int64_t nanos : {std::numeric_limits<int64_t>::min() + 1'000, int64_t{-1'000}, int64_t{0},
                        int64_t{1'767'323'045'999'999'000}, std::numeric_limits<int64_t>::max()}) {
    const int64_t micros = nanos >= 0 ? nanos / 1000 * 1000 : nanos / 1000 * 1000;
    const auto t = ParseTime(FormatMicroTime(WallTime{micros}));
    REQUIRE(t.ok());
    CHECK(t->unix_nanos == micros);
  }
}

TEST_CASE("sums of points and durations end at the last ones, and do not wrap around") {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  CHECK(MonoTime{5} + Duration::max() == MonoTime{kMax});
  CHECK(MonoTime{5} + nanoseconds(2) == MonoTime{7});
  CHECK(MonoTime{-5} + Duration::min() == MonoTime{kMin});
  CHECK(MonoTime{kMax} - MonoTime{-1} == Duration::max());
  CHECK(MonoTime{kMin} - MonoTime{1} == Duration::min());
  CHECK(MonoTime{7} - MonoTime{5} == nanoseconds(2));
  CHECK(WallTime{5} + Duration::max() == WallTime{kMax});
  CHECK(WallTime{-5} - Duration::max() == WallTime{kMin});
  CHECK(WallTime{5} - Duration::min() == WallTime{kMax});
  CHECK(WallTime{kMax} - WallTime{-1} == Duration::max());
  CHECK(AddClamped(Duration::max(), seconds(1)) == Duration::max());
  CHECK(AddClamped(seconds(1), seconds(-2)) == seconds(-1));
  CHECK(SecondsClamped(-3) == seconds(-3));
  CHECK(SecondsClamped(9'223'372'036) == seconds(9'223'372'036));
  CHECK(SecondsClamped(9'223'372'037) == Duration::max());
  CHECK(SecondsClamped(kMin) == Duration::min());
}

TEST_CASE("Go durations are read exactly") {
  const std::pair<const char*, Duration> cases[] = {
      {"0", nanoseconds(0)},
      {"0s", nanoseconds(0)},
      {"1h30m", minutes(90)},
      {"500ms", milliseconds(500)},
      {"2.5s", milliseconds(2500)},
      {"-1s", seconds(-1)},
      {"+5m", minutes(5)},
      {".5s", milliseconds(500)},
      {"1.h", hours(1)},
      {"1h2m3s4ms5us6ns", hours(1) + minutes(2) + seconds(3) + milliseconds(4) + microseconds(5) + nanoseconds(6)},
      {"3\xc2\xb5s", microseconds(3)},
      {"3\xce\xbcs", microseconds(3)},
      {"0.1s", milliseconds(100)},
      {"0.30000000000000000000000000000000000000001s", milliseconds(300)},
      {"9223372036854775807ns", nanoseconds(std::numeric_limits<int64_t>::max())},
      {"-9223372036854775808ns", nanoseconds(std::numeric_limits<int64_t>::min())},
  };
  for (const auto& [text, wanted] : cases) {
    INFO(text);
    const auto d = ParseGoDuration(text);
    REQUIRE(d.ok());
    CHECK(*d == wanted);
  }
}

TEST_CASE("what is not a Go duration is refused by name") {
  for (const char* text : {"", "-", "5", "s", ".s", "1d", "1 s", "1s ", "--1s", "1h-1m", "9223372036854775808ns",
                           "2562048h", "99999999999999999999999999999999999999h", "1e3s", "0x1s"}) {
    INFO(text);
    const auto d = ParseGoDuration(text);
    REQUIRE_FALSE(d.ok());
    CHECK_THAT(std::string(d.status().message()), Catch::Contains(std::string("\"").append(text).append("\"")));
  }
}

}  // namespace
}  // namespace muster
