// Who would have to go so that a workload fits: the question that a pass asks, and the policies that answer it.
//
// A search looks at the planned book: those that are leaving count as gone, and are nobody's victims again. It puts the
// book back as it was.
//
// Source: kueue_semantics 6, 9.12.
// Threading: needs external synchronisation with the tree's owner.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/quota/removal.h"
#include "state.h"

namespace muster::engine {

// From worst to best. All between kNoFit and kFit need somebody else to go first.
enum class Mode : uint8_t { kNoFit, kNoCandidates, kPreempt, kReclaim, kFit };

struct Victim {
  WorkloadState* workload = nullptr;
  EvictionReason reason = EvictionReason::kInClusterQueue;
};

// Places in topologies that a workload needs besides quota, in what is planned.
class PlaceQuery {
 public:
  virtual ~PlaceQuery() = default;
  virtual void Move(const WorkloadState& claim, bool out) = 0;
  virtual bool Fits() = 0;
};

struct VictimQuery {
  const WorkloadState* preemptor = nullptr;
  const ClusterQueueState* queue = nullptr;  // that it waits in
  quota::CellAmounts request;                // all that it would take
  // Of that, what it does not fit in. Each victim uses one of them.
  std::vector<FlavorResource> needed;
  PlaceQuery* places = nullptr;  // null: it needs none
};

struct VictimAnswer {
  std::vector<Victim>
      victims;  // in the order in which they are to be evicted; empty: none are needed, or there are none
  // It fits without further victims once those have left that are leaving, and of them it might evict some itself.
  bool waits = false;
  bool waits_in_own_queue = false;  // some of those are in its own ClusterQueue
  bool ended = false;               // the search was given up, so `victims` is empty for no reason that was proven

  bool Found() const { return waits || !victims.empty(); }
};

class VictimSearch {
 public:
  // REQUIRES: both outlive this.
  VictimSearch(Tree* tree, int64_t steps_max) : tree_(tree), steps_max_(steps_max) {}
  virtual ~VictimSearch() = default;

  virtual VictimAnswer Find(const VictimQuery& query) const = 0;
  // Others may have to go for it even where it borrows in the end and nobody could take that back.
  virtual bool PreemptsWhileBorrowing(const ClusterQueue& spec) const = 0;
  int64_t steps_max() const { return steps_max_; }

  struct Outlook {
    Mode mode = Mode::kNoCandidates;  // kNoCandidates, kPreempt or kReclaim
    quota::BorrowLevel level;         // once the victims are gone
    bool ended = false;
  };
  // Would evictions make room for this much in one cell?
  Outlook Simulate(const WorkloadState& preemptor, const ClusterQueueState& queue, quota::CellId cell,
                   Amount amount) const;

 protected:
  Tree* tree_;
  int64_t steps_max_;
};

// Those of a ClusterQueue who are not leaving, in the order in which they are to go. Where admission fair sharing
// decides there who goes in first, those of the LocalQueue that has consumed most are the first to go; else, and among
// those of LocalQueues that have consumed alike, VictimOrder decides.
class CandidateList {
 public:
  // REQUIRES: nobody of the queue comes or goes while this exists.
  explicit CandidateList(const ClusterQueueState& queue);

  WorkloadState* first() const { return first_; }  // null: none are left
  void Next();
  // Those that follow have no lower priority.
  bool by_priority() const { return !by_share_; }

 private:
  struct ByShare;

  VictimOrderSet::const_iterator at_, end_;
  bool by_share_ = false;
  std::vector<WorkloadState*> heap_;  // of those that follow, where shares decide
  WorkloadState* first_ = nullptr;
};

// `workload` may have to go for `preemptor` by `policy`, as far as priorities and queue times say.
bool PolicyAllows(PreemptionPolicy policy, const WorkloadState& preemptor, const WorkloadState& workload);
// Its claim uses one of them. REQUIRES: it holds one.
bool Uses(const WorkloadState& workload, const std::vector<FlavorResource>& of);
// What its claim has booked. REQUIRES: it holds one, in a tree.
quota::CellAmounts BookedBy(const WorkloadState& workload);
// Sets `waits` if the query is answered by those that are leaving. RETURNS: whether the search is over.
bool AnsweredByLeaving(const Tree& tree, const VictimQuery& query, VictimAnswer* answer);

}  // namespace muster::engine
