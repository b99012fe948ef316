// A sum of amounts from which each summand can be taken out again. Plain saturating arithmetic cannot do
// that: once a sum has reached "unlimited", nothing brings it back.
//
// Threading: values.
#pragma once

#include <cstdint>

#include "muster/core/amount.h"

namespace muster::quota {

class ExactSum {
 public:
  void Add(Amount amount) { Change(amount, 1); }
  // REQUIRES: `amount` is part of the sum.
  void Remove(Amount amount) { Change(amount, -1); }

  // Unlimited while any summand is; else the sum, saturated.
  Amount Value() const {
    if (unlimited_ > 0) return Amount::Unlimited();
    if (finite_ >= Wide{Amount::Unlimited().value}) return Amount::Unlimited();
    if (finite_ <= Wide{Amount::Lowest().value}) return Amount::Lowest();
    return {static_cast<int64_t>(finite_)};
  }
  bool IsZero() const { return unlimited_ == 0 && finite_ == 0; }
  bool IsNegative() const { return unlimited_ < 0 || finite_ < 0; }
  friend bool operator==(const ExactSum&, const ExactSum&) = default;

 private:
  __extension__ using Wide = __int128;

  void Change(Amount amount, int sign) {
    if (amount.IsUnlimited()) {
      unlimited_ += sign;
    } else {
      finite_ += Wide{amount.value} * sign;
    }
  }

  Wide finite_ = 0;
  int64_t unlimited_ = 0;  // summands that are unlimited
};

}  // namespace muster::quota
