// Kueue's feature gates, and how Muster behaves in respect of each. A gate that is set to what
// Muster does is accepted, any other setting is refused; few can be switched.
//
// Source: kueue_semantics 10.
// Threading: constant.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace muster::cli {

enum class GateBehaviour : uint8_t {
  kOn,
  kOff,
  kEither,  // about Kueue's own workings; it makes no difference here
  kSwitch,  // as it says
};

struct FeatureGate {
  std::string_view name;
  GateBehaviour behaviour = GateBehaviour::kOff;
};

const std::vector<FeatureGate>& FeatureGates();

}  // namespace muster::cli
