#include "muster/core/time.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <array>
#include <cstdio>
#include <limits>
#include <optional>

namespace muster {
namespace {

using std::chrono::day;
using std::chrono::days;
using std::chrono::month;
using std::chrono::sys_days;
using std::chrono::year;
using std::chrono::year_month_day;

constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kSecondsPerDay = 86'400;

struct Civil {
  int year, month, day, hour, minute, second;
  int64_t nanos;
};

Civil ToCivil(WallTime t) {
  int64_t seconds = t.unix_nanos / kNanosPerSecond;
  int64_t nanos = t.unix_nanos % kNanosPerSecond;
  if (nanos < 0) {
    nanos += kNanosPerSecond;
    --seconds;
  }
  int64_t day_number = seconds / kSecondsPerDay;
  int64_t rest = seconds % kSecondsPerDay;
  if (rest < 0) {
    rest += kSecondsPerDay;
    --day_number;
  }
  const year_month_day date{sys_days{days{day_number}}};
  return {static_cast<int>(date.year()),
          static_cast<int>(static_cast<unsigned>(date.month())),
          static_cast<int>(static_cast<unsigned>(date.day())),
          static_cast<int>(rest / 3600),
          static_cast<int>(rest / 60 % 60),
          static_cast<int>(rest % 60),
          nanos};
}

// Takes text from the front; once something did not fit, `ok` stays false.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  bool ok() const { return ok_; }
  bool AtEnd() const { return text_.empty(); }
  char Peek() const { return text_.empty() ? '\0' : text_.front(); }
  void Skip() { text_.remove_prefix(1); }

  int Digits(int count) {
    int value = 0;
    for (int i = 0; i < count; ++i) {
      if (!IsDigit()) {
        ok_ = false;
        return 0;
      }
      value = value * 10 + (Peek() - '0');
      Skip();
    }
    return value;
  }
  void Expect(char upper, char lower) {
    if (Peek() != upper && Peek() != lower) {
      ok_ = false;
    } else {
      Skip();
    }
  }
  bool IsDigit() const { return Peek() >= '0' && Peek() <= '9'; }

 private:
  std::string_view text_;
  bool ok_ = true;
};

// RETURNS: ".123" as nanoseconds, 0 where there is no fraction; nothing where it is malformed.
std::optional<int64_t> ParseFraction(Cursor* in) {
  if (in->Peek() != '.') return 0;
  in->Skip();
  int64_t nanos = 0;
  int digits = 0;
  for (; in->IsDigit(); in->Skip(), ++digits) {
    if (digits == 9) return std::nullopt;
    nanos = nanos * 10 + (in->Peek() - '0');
  }
  if (digits == 0) return std::nullopt;
  for (; digits < 9; ++digits) nanos *= 10;
  return nanos;
}

// RETURNS: the zone's distance from UTC in seconds.
std::optional<int64_t> ParseZone(Cursor* in) {
  const char c = in->Peek();
  if (c == 'Z' || c == 'z') {
    in->Skip();
    return 0;
  }
  if (c != '+' && c != '-') return std::nullopt;
  in->Skip();
  const int hours = in->Digits(2);
  in->Expect(':', ':');
  const int minutes = in->Digits(2);
  if (!in->ok() || hours > 23 || minutes > 59) return std::nullopt;
  const int64_t offset = int64_t{hours} * 3600 + minutes * 60;
  return c == '-' ? -offset : offset;
}

// RETURNS: the unit's length in nanoseconds; 0 for no unit.
int64_t UnitNanos(std::string_view unit) {
  if (unit == "ns") return 1;
  // U+00B5 (micro sign) and U+03BC (Greek mu) are both accepted, as Go does.
  if (unit == "us" || unit == "\xc2\xb5s" || unit == "\xce\xbcs") return 1'000;
  if (unit == "ms") return 1'000'000;
  if (unit == "s") return kNanosPerSecond;
  if (unit == "m") return 60 * kNanosPerSecond;
  if (unit == "h") return 3600 * kNanosPerSecond;
  return 0;
}

// One "1.5h". RETURNS: its nanoseconds; nothing where it is malformed or too great.
std::optional<__int128> ParseDurationPart(std::string_view* text) {
  constexpr __int128 kLimit = __int128{1} << 64;
  const auto is_digit = [&](size_t i) { return i < text->size() && (*text)[i] >= '0' && (*text)[i] <= '9'; };
  size_t i = 0;
  __int128 whole = 0;
  for (; is_digit(i); ++i) {
    whole = whole * 10 + ((*text)[i] - '0');
    if (whole > kLimit) return std::nullopt;
  }
  size_t digits = i;
  __int128 fraction = 0;
  __int128 scale = 1;
  if (i < text->size() && (*text)[i] == '.') {
    for (++i; is_digit(i); ++i, ++digits) {
      if (scale >= kNanosPerSecond * __int128{1'000'000}) continue;  // below any unit's nanosecond
      fraction = fraction * 10 + ((*text)[i] - '0');
      scale *= 10;
    }
  }
  if (digits == 0) return std::nullopt;
  size_t end = i;
  while (end < text->size() && (*text)[end] != '.' && !is_digit(end)) ++end;
  const int64_t unit = UnitNanos(text->substr(i, end - i));
  if (unit == 0) return std::nullopt;
  text->remove_prefix(end);
  return whole * unit + fraction * unit / scale;
}

}  // namespace

std::string FormatTime(WallTime t) {
  const Civil c = ToCivil(t);
  std::array<char, 40> buffer;
  const int size = std::snprintf(buffer.data(), buffer.size(), "%04d-%02d-%02dT%02d:%02d:%02dZ", c.year, c.month, c.day,
                                 c.hour, c.minute, c.second);
  return std::string(buffer.data(), static_cast<size_t>(size));
}

std::string FormatMicroTime(WallTime t) {
  const Civil c = ToCivil(t);
  std::array<char, 48> buffer;
  const int size = std::snprintf(buffer.data(), buffer.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", c.year, c.month,
                                 c.day, c.hour, c.minute, c.second, static_cast<int>(c.nanos / 1000));
  return std::string(buffer.data(), static_cast<size_t>(size));
}

absl::StatusOr<WallTime> ParseTime(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("not an RFC 3339 time", std::string(why), ": \"", std::string(text), "\""));
  };
  Cursor in(text);
  const int y = in.Digits(4);
  in.Expect('-', '-');
  const int mo = in.Digits(2);
  in.Expect('-', '-');
  const int d = in.Digits(2);
  in.Expect('T', 't');
  const int h = in.Digits(2);
  in.Expect(':', ':');
  const int mi = in.Digits(2);
  in.Expect(':', ':');
  const int s = in.Digits(2);
  if (!in.ok()) return bad("");
  const auto nanos = ParseFraction(&in);
  const auto zone = ParseZone(&in);
  const year_month_day date{year{y}, month{static_cast<unsigned>(mo)}, day{static_cast<unsigned>(d)}};
  if (!nanos || !zone || !in.AtEnd()) return bad("");
  if (!date.ok() || h > 23 || mi > 59 || s > 59) return bad(" (a field is out of range)");
  const int64_t seconds =
      int64_t{sys_days{date}.time_since_epoch().count()} * kSecondsPerDay + h * 3600 + mi * 60 + s - *zone;
  const __int128 total = __int128{seconds} * kNanosPerSecond + *nanos;
  if (total > std::numeric_limits<int64_t>::max() || total < std::numeric_limits<int64_t>::min()) {
    return bad(" (only the years 1678 to 2261 are supported)");
  }
  return WallTime{static_cast<int64_t>(total)};
}

absl::StatusOr<Duration> ParseGoDuration(std::string_view text) {
  const auto bad = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("not a duration such as \"1h30m\" or \"500ms\": \"", std::string(text), "\""));
  };
  std::string_view rest = text;
  const bool negative = !rest.empty() && rest.front() == '-';
  if (!rest.empty() && (rest.front() == '-' || rest.front() == '+')) rest.remove_prefix(1);
  if (rest == "0") return Duration(0);
  if (rest.empty()) return bad();
  __int128 total = 0;
  while (!rest.empty()) {
    const auto part = ParseDurationPart(&rest);
    if (!part) return bad();
    total += *part;
    if (total > __int128{std::numeric_limits<int64_t>::max()} + (negative ? 1 : 0)) return bad();
  }
  return Duration(static_cast<int64_t>(negative ? -total : total));
}

}  // namespace muster
