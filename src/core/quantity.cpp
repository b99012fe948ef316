#include "muster/core/quantity.h"

#include <array>
#include <boost/multiprecision/cpp_int.hpp>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace muster {

namespace {

using Integer = boost::multiprecision::cpp_int;

// Far above anything that does not saturate, and small enough that no text can make a number grow without
// bound: quantities beyond 10^kMaxDigits units are that many units.
constexpr int kMaxDigits = 60;

// Decimals that a Quantity keeps: three times the nine of a parsed one.
constexpr int kDecimals = 27;

// REQUIRES: 0 <= n < 256.
const Integer& Pow10(int n) {
  static const std::vector<Integer>* const kPowers = [] {
    auto* powers = new std::vector<Integer>{1};
    while (powers->size() < 256) powers->push_back(powers->back() * 10);
    return powers;
  }();
  return kPowers->at(static_cast<size_t>(n));
}

// value / divisor, away from zero.
Integer DivideUp(const Integer& value, const Integer& divisor) {
  Integer quotient;
  Integer remainder;
  boost::multiprecision::divide_qr(value, divisor, quotient, remainder);
  if (remainder > 0) ++quotient;
  if (remainder < 0) --quotient;
  return quotient;
}

struct Scale {
  int exponent10 = 0;
  int exponent1024 = 0;
};

// The suffixes of resource.Quantity. Unset: not a suffix.
std::optional<Scale> ParseSuffix(std::string_view suffix) {
  struct Known {
    std::string_view text;
    Scale scale;
  };
  static constexpr std::array<Known, 16> kKnown = {{{"", {}},
                                                    {"n", {-9, 0}},
                                                    {"u", {-6, 0}},
                                                    {"m", {-3, 0}},
                                                    {"k", {3, 0}},
                                                    {"M", {6, 0}},
                                                    {"G", {9, 0}},
                                                    {"T", {12, 0}},
                                                    {"P", {15, 0}},
                                                    {"E", {18, 0}},
                                                    {"Ki", {0, 1}},
                                                    {"Mi", {0, 2}},
                                                    {"Gi", {0, 3}},
                                                    {"Ti", {0, 4}},
                                                    {"Pi", {0, 5}},
                                                    {"Ei", {0, 6}}}};
  for (const Known& known : kKnown) {
    if (known.text == suffix) return known.scale;
  }
  if (suffix.size() < 2 || (suffix[0] != 'e' && suffix[0] != 'E')) return std::nullopt;
  std::string_view digits = suffix.substr(1);
  if (digits[0] == '+') {
    digits.remove_prefix(1);
    if (!digits.empty() && digits[0] == '-') return std::nullopt;
  }
  // The API server reads 64 bits of an exponent, and goes on with the lower 32.
  int64_t exponent = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return Scale{static_cast<int32_t>(exponent), 0};
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// mantissa * 10^(9 + exponent), in nano units, rounded away from zero; bounded by kMaxDigits.
Integer ToNanos(const Integer& mantissa, int64_t digits, int64_t exponent10) {
  if (mantissa == 0) return 0;
  const int64_t exponent = exponent10 + 9;
  if (digits + exponent > kMaxDigits + 9) return Pow10(kMaxDigits + 9);
  if (digits + exponent < 0) return 1;  // finer than one nano unit
  if (exponent >= 0) return mantissa * Pow10(static_cast<int>(exponent));
  return DivideUp(mantissa, Pow10(static_cast<int>(-exponent)));
}

absl::Status Malformed(std::string_view text) {
  std::string message = "\"";
  message.append(text.substr(0, 80)).append("\" is not a quantity");
  return absl::InvalidArgumentError(message);
}

}  // namespace

struct Quantity::Value {
  Integer number;  // with kDecimals decimals
};

Quantity Quantity::Of(Value value) {
  if (value.number == 0) return {};
  return Quantity(std::make_shared<const Value>(std::move(value)));
}

const Quantity::Value& Quantity::value() const {
  static const Value kZero{0};
  return value_ == nullptr ? kZero : *value_;
}

Quantity Quantity::FromInteger(int64_t units) { return Of({Integer(units) * Pow10(kDecimals)}); }

bool Quantity::IsZero() const { return value_ == nullptr; }

bool Quantity::IsNegative() const { return value().number < 0; }

absl::StatusOr<Quantity> Quantity::Parse(std::string_view text) {
  std::string_view rest = text;
  bool negative = false;
  if (!rest.empty() && (rest[0] == '+' || rest[0] == '-')) {
    negative = rest[0] == '-';
    rest.remove_prefix(1);
  }
  // Digits before and after the point; at least one of them.
  std::string digits;
  int64_t fraction = 0;
  bool any = false;
  bool point = false;
  size_t i = 0;
  for (; i < rest.size() && (IsDigit(rest[i]) || (rest[i] == '.' && !point)); ++i) {
    if (rest[i] == '.') {
      point = true;
      continue;
    }
    any = true;
    if (point) ++fraction;
    if (rest[i] != '0' || !digits.empty()) digits += rest[i];
  }
  if (!any) return Malformed(text);
  const std::optional<Scale> scale = ParseSuffix(rest.substr(i));
  if (!scale.has_value()) return Malformed(text);
  // Digits beyond any that can matter are dropped; a dropped one that is not zero counts as one more.
  constexpr size_t kSignificant = 200;
  int64_t dropped = 0;
  bool inexact = false;
  if (digits.size() > kSignificant) {
    inexact = digits.find_first_not_of('0', kSignificant) != std::string::npos;
    dropped = static_cast<int64_t>(digits.size() - kSignificant);
    digits.resize(kSignificant);
  }
  Integer mantissa = digits.empty() ? Integer(0) : Integer(digits);
  if (inexact) ++mantissa;
  const auto length = static_cast<int64_t>(digits.size());
  const int64_t exponent10 = static_cast<int64_t>(scale->exponent10) - fraction + dropped;
  Integer nanos;
  if (scale->exponent1024 > 0) {
    mantissa <<= static_cast<unsigned>(10 * scale->exponent1024);
    nanos = ToNanos(mantissa, length + 3 * scale->exponent1024 + 1, exponent10);
    const Integer cap = Integer(std::numeric_limits<int64_t>::max()) * 1'000'000'000;
    if (!negative && nanos > cap) nanos = cap;
  } else {
    nanos = ToNanos(mantissa, length, exponent10);
  }
  nanos *= Pow10(kDecimals - 9);
  if (negative) nanos = -nanos;
  return Of({std::move(nanos)});
}

Amount Quantity::ToAmount(std::string_view resource) const {
  const Integer units = DivideUp(value().number, Pow10(resource == "cpu" ? kDecimals - 3 : kDecimals));
  if (units >= Integer(std::numeric_limits<int64_t>::max())) return Amount::Unlimited();
  if (units <= Integer(std::numeric_limits<int64_t>::min())) return Amount::Lowest();
  return {static_cast<int64_t>(units)};
}

Quantity operator+(const Quantity& a, const Quantity& b) { return Quantity::Of({a.value().number + b.value().number}); }

Quantity operator-(const Quantity& a, const Quantity& b) { return Quantity::Of({a.value().number - b.value().number}); }

Quantity operator*(const Quantity& a, const Quantity& b) {
  return Quantity::Of({DivideUp(a.value().number * b.value().number, Pow10(kDecimals))});
}

bool operator==(const Quantity& a, const Quantity& b) { return a.value().number == b.value().number; }

bool operator<(const Quantity& a, const Quantity& b) { return a.value().number < b.value().number; }

namespace {

bool IsBinary(std::string_view resource) {
  return resource == "memory" || resource == "storage" || resource.ends_with(".storage") ||
         resource == "ephemeral-storage" || resource.starts_with("hugepages-");
}

// `value` * base^-n with the suffix of n, for the greatest n that leaves no remainder.
std::string WithSuffix(int64_t value, int64_t base, const std::array<std::string_view, 7>& suffixes) {
  size_t n = 0;
  while (value != 0 && value % base == 0 && n + 1 < suffixes.size()) {
    value /= base;
    ++n;
  }
  return std::to_string(value).append(suffixes[n]);
}

}  // namespace

std::string FormatAmount(std::string_view resource, Amount amount) {
  static constexpr std::array<std::string_view, 7> kBinary = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  static constexpr std::array<std::string_view, 7> kDecimal = {"", "k", "M", "G", "T", "P", "E"};
  static constexpr std::array<std::string_view, 7> kMilli = {"m", "", "k", "M", "G", "T", "P"};
  if (amount.value == 0) return "0";
  if (resource == "cpu") return WithSuffix(amount.value, 1000, kMilli);
  return IsBinary(resource) ? WithSuffix(amount.value, 1024, kBinary) : WithSuffix(amount.value, 1000, kDecimal);
}

}  // namespace muster
