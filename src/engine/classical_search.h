// Victims by priority and by quota: those of the own queue, and those that use what belongs to others.
//
// Candidates come from the ordered list of each ClusterQueue, and are looked at one by one, so a search ends as soon as
// the preemptor fits, without having seen the rest.
//
// Source: kueue_semantics 6.2.
// Threading: needs external synchronisation with the tree's owner.
#pragma once

#include "victims.h"

namespace muster::engine {

class ClassicalSearch final : public VictimSearch {
 public:
  using VictimSearch::VictimSearch;
  VictimAnswer Find(const VictimQuery& query) const override;
  bool PreemptsWhileBorrowing(const ClusterQueue& spec) const override {
    return spec.borrow_within_cohort.policy != PreemptionPolicy::kNever;
  }
};

}  // namespace muster::engine
