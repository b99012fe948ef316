// Amounts of a resource, and exact saturating arithmetic on them.
//
// Source: kueue_semantics 3.3 (all quota arithmetic saturates; the maximum means unlimited and absorbs).
// Threading: values.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace muster {

// Base units: milli for cpu, bytes for memory and storage, whole units for everything else. The greatest
// value means "unlimited": adding to it or taking from it leaves it unlimited.
struct Amount {
  int64_t value = 0;

  friend constexpr auto operator<=>(Amount, Amount) = default;

  static constexpr Amount Unlimited() { return {std::numeric_limits<int64_t>::max()}; }
  static constexpr Amount Lowest() { return {std::numeric_limits<int64_t>::min()}; }
  constexpr bool IsUnlimited() const { return value == std::numeric_limits<int64_t>::max(); }

  friend constexpr Amount operator+(Amount a, Amount b) {
    if (a.IsUnlimited() || b.IsUnlimited()) return Unlimited();
    int64_t out = 0;
    if (__builtin_add_overflow(a.value, b.value, &out)) return b.value > 0 ? Unlimited() : Lowest();
    return {out};
  }
  // Unlimited − x is unlimited; x − unlimited is the lowest amount.
  friend constexpr Amount operator-(Amount a, Amount b) {
    if (a.IsUnlimited()) return Unlimited();
    if (b.IsUnlimited()) return Lowest();
    int64_t out = 0;
    if (__builtin_sub_overflow(a.value, b.value, &out)) return b.value < 0 ? Unlimited() : Lowest();
    return {out};
  }
  friend constexpr Amount operator*(Amount a, int64_t n) {
    if (a.IsUnlimited() && n > 0) return Unlimited();
    int64_t out = 0;
    if (__builtin_mul_overflow(a.value, n, &out)) return (a.value > 0) == (n > 0) ? Unlimited() : Lowest();
    return {out};
  }
  constexpr Amount& operator+=(Amount b) { return *this = *this + b; }
  constexpr Amount& operator-=(Amount b) { return *this = *this - b; }
};

}  // namespace muster
