// How much of a usage is still remembered after some time, in fixed point.
//
// Threading: values.
#pragma once

#include <array>
#include <cstdint>

#include "muster/core/amount.h"
#include "muster/core/product.h"
#include "muster/core/time.h"

namespace muster::engine {

// An amount that is never negative, in units of 2^-16 base units, so that small parts are not lost on the way.
using FineAmount = Wide;
inline constexpr int kFineBits = 16;

inline FineAmount Fine(Amount amount) {
  return amount > Amount{0} ? FineAmount{static_cast<uint64_t>(amount.value)} << kFineBits : 0;
}
// Rounded to the nearest.
inline Amount Coarse(FineAmount amount) {
  const FineAmount rounded = (amount + (FineAmount{1} << (kFineBits - 1))) >> kFineBits;
  return rounded >= FineAmount{INT64_MAX} ? Amount::Unlimited() : Amount{static_cast<int64_t>(rounded)};
}

class Decay {
 public:
  static constexpr int kBits = 40;
  static constexpr uint64_t kOne = uint64_t{1} << kBits;

  // With a half-life of zero nothing is remembered, and nothing is learnt either. REQUIRES: >= 0.
  explicit Decay(Duration half_life);

  // 0.5^(elapsed / half-life), in units of 2^-40. REQUIRES: elapsed >= 0.
  uint64_t Factor(Duration elapsed) const;
  // What was consumed, after `elapsed` in which so much was in use.
  FineAmount After(FineAmount consumed, FineAmount in_use, Duration elapsed) const;
  // What `amount` that has been in use for `elapsed` has added.
  FineAmount Part(FineAmount amount, Duration elapsed) const;

 private:
  Duration half_life_;
  std::array<uint64_t, kBits + 1> roots_{};  // 2^-(2^-k) in units of 2^-62
};

}  // namespace muster::engine
