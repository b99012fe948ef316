// Exact products for comparing fractions of 64- and 128-bit numbers.
//
// Threading: values.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

namespace muster {

__extension__ using Wide = unsigned __int128;

// The product of a 128-bit and a 64-bit number, in 192 bits.
class Product {
 public:
  Product(Wide a, uint64_t b) {
    const Wide low = (a & UINT64_MAX) * b;
    const Wide high = (a >> 64) * b + (low >> 64);
    limbs_ = {static_cast<uint64_t>(high >> 64), static_cast<uint64_t>(high), static_cast<uint64_t>(low)};
  }
  friend auto operator<=>(const Product&, const Product&) = default;

 private:
  std::array<uint64_t, 3> limbs_;  // the highest first
};

}  // namespace muster
