// The order of a pass with fair sharing: a tournament up the tree of cohorts, on the running usage.
//
// Source: kueue_semantics 5.2, "Ordering fair sharing".
// Threading: as TreePass.
#pragma once

#include <absl/container/btree_set.h>
#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <vector>

#include "muster/quota/fair_share.h"
#include "tree_pass.h"

namespace muster::engine {

// At each cohort the best of its children goes on; whoever wins at the root is next. One child is better than
// another if it would not borrow any of what its entry asks for, while the other would; then if its share,
// entry included, is smaller; then by priority, queue time and uid of the entries.
//
// Shares are those of the planned book: whoever has been told to go counts as gone, and what is kept for a preemptor
// counts as used. What an entry changes is the usage of the nodes above it, and above those who go for it, so after
// each one only the contests on these ways to the root are held again: a pass takes O((entries + victims) × depth)
// shares.
class FairOrder final : public PassOrder {
 public:
  // REQUIRES: the tree outlives it.
  explicit FairOrder(Tree* tree) : tree_(tree) {}

  // REQUIRES: the entries are of the tree, at most one for each queue.
  void Begin(std::vector<Entry>* entries) override;
  Entry* Next() override;

 private:
  // A child of a cohort, with the entry that has won below it.
  struct Contender {
    bool borrows = false;
    quota::FairShare share;
    Entry* entry = nullptr;
    quota::NodeId child = quota::kNoNode;
    bool operator<(const Contender& other) const;
  };
  struct Contest {
    absl::btree_set<Contender> contenders;
    absl::flat_hash_map<quota::NodeId, Contender> by_child;
  };

  // `entry` is the best below `child` now; null: nobody is left there. Holds the contests above it again.
  void Offer(quota::NodeId child, Entry* entry);
  // The usage below `child` has changed: holds the contests from there on again.
  void Reconsider(quota::NodeId child);
  Contender MakeContender(quota::NodeId child, Entry* entry);

  Tree* tree_;
  absl::flat_hash_map<quota::NodeId, Contest> contests_;  // by cohort
  Entry* winner_ = nullptr;                               // at the root
  Entry* processed_ = nullptr;                            // was returned last
};

}  // namespace muster::engine
