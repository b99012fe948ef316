// Kueue's feature gates, and how Muster behaves in respect of each. Nothing can be switched: a gate that is
// set to what Muster does is accepted, any other setting is refused.
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
};

struct FeatureGate {
  std::string_view name;
  GateBehaviour behaviour = GateBehaviour::kOff;
};

const std::vector<FeatureGate>& FeatureGates();

}  // namespace muster::cli
