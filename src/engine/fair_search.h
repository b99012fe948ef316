// Victims by fair shares: who borrows most gives way to who would borrow less.
//
// Source: kueue_semantics 6.3.
// Threading: needs external synchronisation with the tree's owner.
#pragma once

#include <utility>

#include "muster/engine/fair_sharing.h"
#include "victims.h"

namespace muster::engine {

// The queue to take from is looked for from the root down, always the child with the greatest share, and again after
// each victim. Of the own queue a victim is taken as it is; of another one,
// - if the preemptor uses no more than its queue's own quota, as it is: what belongs to it is claimed back whatever
// else
//   it borrows;
// - else if the strategy allows it: shares are compared at the children of the lowest cohort above both, the
//   preemptor's with what it asks for.
// Those whom the first strategy does not allow are tried once more with the second.
class FairSearch final : public VictimSearch {
 public:
  FairSearch(Tree* tree, int64_t steps_max, FairSharing sharing)
      : VictimSearch(tree, steps_max), sharing_(std::move(sharing)) {}
  VictimAnswer Find(const VictimQuery& query) const override;
  bool PreemptsWhileBorrowing(const ClusterQueue& spec) const override {
    return spec.reclaim_within_cohort != PreemptionPolicy::kNever ||
           spec.borrow_within_cohort.policy != PreemptionPolicy::kNever;
  }

 private:
  FairSharing sharing_;
};

}  // namespace muster::engine
