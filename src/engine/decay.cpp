#include "decay.h"

#include "muster/core/check.h"

namespace muster::engine {

namespace {

constexpr int kRootBits = 62;

uint64_t SquareRoot(Wide of) {
  Wide low = 0;
  Wide high = Wide{1} << 63;
  while (low < high) {
    const Wide middle = low + (high - low + 1) / 2;
    if (middle * middle <= of) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return static_cast<uint64_t>(low);
}

}  // namespace

Decay::Decay(Duration half_life) : half_life_(half_life) {
  MUSTER_CHECK(half_life >= Duration(0));
  roots_[0] = uint64_t{1} << (kRootBits - 1);
  for (size_t k = 1; k < roots_.size(); ++k) roots_[k] = SquareRoot(Wide{roots_[k - 1]} << kRootBits);
}

uint64_t Decay::Factor(Duration elapsed) const {
  MUSTER_CHECK(elapsed >= Duration(0));
  if (elapsed == Duration(0)) return kOne;
  if (half_life_ == Duration(0)) return 0;
  const auto whole = static_cast<uint64_t>(elapsed / half_life_);
  if (whole > kBits) return 0;
  const auto rest = static_cast<uint64_t>((elapsed % half_life_).count());
  const auto fraction = static_cast<uint64_t>((Wide{rest} << kBits) / static_cast<uint64_t>(half_life_.count()));
  Wide factor = Wide{1} << kRootBits;
  for (int k = 1; k <= kBits; ++k) {
    if ((fraction >> (kBits - k) & 1) != 0) factor = (factor * roots_[static_cast<size_t>(k)]) >> kRootBits;
  }
  return static_cast<uint64_t>(factor >> (kRootBits - kBits)) >> whole;
}

FineAmount Decay::After(FineAmount consumed, FineAmount in_use, Duration elapsed) const {
  if (half_life_ == Duration(0)) return 0;
  const uint64_t factor = Factor(elapsed);
  return (consumed * factor + in_use * (kOne - factor) + kOne / 2) >> kBits;
}

FineAmount Decay::Part(FineAmount amount, Duration elapsed) const { return After(0, amount, elapsed); }

}  // namespace muster::engine
