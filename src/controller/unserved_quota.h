// Quota of what no node has: gangs would wait for it for ever. The log says so at once, /debug/readyz while it lasts.
//
// Threading: used from the executor only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/engine/engine.h"

namespace muster::controller {

class UnservedQuotaCheck {
 public:
  // To be called after each run of the engine.
  void Look(const engine::EngineSet& engine);
  // One for each flavor without nodes, and for each resource that no node of a flavor has: the first object that has
  // quota of it, with field and value.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  std::shared_ptr<const std::vector<engine::UnservedQuota>> as_of_;
  std::vector<std::string> problems_;
};

}  // namespace muster::controller
