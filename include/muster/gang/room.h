// The one question that everybody asks about machines: would these pods have a place on the nodes of
// this flavor, if that were freed and this were taken? Flavor choice and preemption both go through it.
//
// Today no flavor has known nodes, so the answer is always kUnchecked and quota alone decides; the machine
// book takes this interface's place behind the same call.
//
// Threading: implementations must be safe for concurrent use; answers are linearizable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/gang/shape.h"

namespace muster::gang {

struct PodGroup {
  ShapePtr shape;
  int64_t count = 0;  // pods
};

// Changes to assume on top of what is known: claims (by id) whose room counts as free, and groups that
// count as placed.
struct WhatIf {
  std::vector<std::string> freed_claims;
  std::vector<PodGroup> taken;
};

struct FitAnswer {
  enum class Verdict : uint8_t {
    kUnchecked,  // the flavor's machines are not known, or it is autoscaled: quota alone decides
    kFits,
    kDoesNotFit,  // proven
    kNotFound,    // the search ended at its step limit
  };
  Verdict verdict = Verdict::kUnchecked;
  int64_t placed = 0;  // pods that do have a place
};

class Room {
 public:
  virtual ~Room() = default;
  virtual FitAnswer Fit(const PodGroup& group, std::string_view flavor, const WhatIf& what_if) const = 0;
};

// Every flavor's machines are unknown.
class UncheckedRoom final : public Room {
 public:
  FitAnswer Fit(const PodGroup&, std::string_view, const WhatIf&) const override { return {}; }
};

}  // namespace muster::gang
