// Where decisions about places differ from recorded ones for a reason that is known: which of the rules of
// docs/kueue-compatibility.md a case has met. Each is found in what the engine decides, pass by pass; none names a
// case.
//
// Threading: not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/engine/engine.h"

namespace muster::cli {

class PlaceRuleWatch {
 public:
  using Workloads = std::map<std::string, engine::Workload>;  // by uid
  // REQUIRES: both outlive this.
  PlaceRuleWatch(const engine::EngineSet* engine, const Workloads* workloads)
      : engine_(engine), workloads_(workloads) {}

  void BeforePass();
  // `decisions`: of the pass, before they are answered.
  void AfterPass(const std::vector<engine::Decision>& decisions);
  // The rule that was met first, unless somebody was woken from another tree, which weighs more; nothing: none was.
  const std::optional<std::string>& met() const { return met_; }

  // The root of its tree of cohorts, or its ClusterQueue where that has none; empty where it has neither.
  std::string TreeOf(const std::string& uid) const;
  bool LooksInTopologies(const std::string& uid) const;

 private:
  void Meet(const char* rule);

  const engine::EngineSet* engine_;
  const Workloads* workloads_;
  std::set<std::string> parked_;  // before the pass
  std::set<std::string> freed_;   // trees of whom the pass before evicted
  std::optional<std::string> met_;
};

}  // namespace muster::cli
