// The trees: which ClusterQueue and cohort belongs to which, what their quotas are, and which trees have
// something to decide.
//
// A ClusterQueue that changes cohort, and a cohort that is re-parented, move with everything in them: their
// claims are taken out of the old tree's ledger and booked in the new one, their waiting workloads go along.
// Both trees then look at their parked workloads again. A cycle of cohorts is cut: each cohort on it becomes
// the root of a tree that decides nothing until the cycle is mended; what is booked in it stays booked.
//
// Source: kueue_semantics 1.3, 1.4, 5.1.
// Threading: owned by the EngineSet.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "state.h"

namespace muster::engine {

class Forest {
 public:
  Forest(Catalog* catalog, gang::TopologyBook* topologies, NamespaceQuotas* namespace_quotas)
      : catalog_(catalog), topologies_(topologies), namespace_quotas_(namespace_quotas) {}
  Forest(const Forest&) = delete;
  Forest& operator=(const Forest&) = delete;

  // The state of that name, made if need be.
  ClusterQueueState* Queue(std::string_view name);
  // Null where nobody has named it.
  ClusterQueueState* FindQueue(std::string_view name) const;
  CohortState* FindCohort(std::string_view name) const;

  void SetQueue(const ClusterQueue& spec);
  void RemoveQueue(ClusterQueueState* queue);
  // Forgets it if nothing refers to it any more.
  void DropIfUnused(ClusterQueueState* queue);

  void SetCohort(const Cohort& spec);
  void RemoveCohort(std::string_view name);

  // What the flavor means has changed: the queues that use it may have become active or not, and their
  // parked workloads are looked at again.
  void FlavorChanged(FlavorId flavor);

  // Likewise, of the queues that ask for the check.
  void CheckChanged(std::string_view check);
  // Something became free on the nodes of the flavor.
  void FlavorGained(FlavorId flavor);
  // Machines of the flavor have more room: those that wait for that are looked at again.
  void MachinesGained(FlavorId flavor);
  // Somebody in it may pass over flavors.
  void NotePassesOver(ClusterQueueState* queue);
  // Some flavor may have fewer machines: those who passed over others for it are looked at again.
  void MachinesLost();

  // The claim is in `queue`, which need not exist yet; its usage is booked while it does.
  void Attach(WorkloadState* workload, ClusterQueueState* queue);
  void Detach(WorkloadState* workload);
  // REQUIRES: the claim is attached.
  void ChangeUsage(WorkloadState* workload, std::vector<std::pair<FlavorResource, Amount>> usage);

  // What the claim takes of topologies. REQUIRES: it is attached.
  void SetPlaces(WorkloadState* workload, std::vector<gang::PlacedPodSet> places);
  // Whose claims have places on the node of that hostname; null: nobody's.
  const absl::btree_set<WorkloadState*, ByUid>* HoldersOn(std::string_view hostname) const;
  std::vector<std::string> HostsWithPlaces() const;  // sorted
  // Claims, or rooms that are kept, take something of topologies.
  bool HasPlaces() const { return booked_places_ != 0; }

  // To be called after each change of whether the claim is leaving. RETURNS: whether it was one.
  // REQUIRES: it is attached.
  bool UpdateLeaving(WorkloadState* workload);
  // To be called before, and after, a change of the workload's priority. REQUIRES: the claim is attached.
  void Unlist(WorkloadState* workload);
  void List(WorkloadState* workload);

  // Keeps `room` for the workload, which waits in an existing queue, instead of what was kept before.
  void KeepRoom(WorkloadState* workload, Room room);
  // Whose turn it is not in a StrictFIFO queue cannot use room; one whose start was refused is waited for, and one that
  // was moved comes back first.
  static bool MayUseRoom(const WorkloadState& workload);
  // Those for whom machines are reserved, in all trees.
  const absl::btree_set<WorkloadState*, ByUid>& reserving() const { return reserving_; }
  // Keeps none any more, if any was.
  void GiveUpRoom(WorkloadState* workload);
  // Keeps `room` for one that is moved, for when it waits. REQUIRES: its claim leaves, and none is kept yet
  void KeepOnward(WorkloadState* workload, Room room);
  // That is not kept any more. RETURNS: what was; null: nothing. REQUIRES: it holds a claim
  std::unique_ptr<Room> TakeOnward(WorkloadState* workload);
  // Likewise, of what is kept for it, because it went to others or is of no use to it.
  void LoseRoom(WorkloadState* workload);

  // The workload, which waits in `queue`, has preempted others: it is the first of a BestEffortFIFO queue.
  void SetPreemptor(ClusterQueueState* queue, WorkloadState* workload);
  // To be called before it leaves the queue.
  void ForgetPreemptor(ClusterQueueState* queue, const WorkloadState* workload);

  // To be called after each change of what waits in `queue`, or of whether it may be looked at.
  void Refresh(ClusterQueueState* queue);
  // Parked workloads of the tree are looked at again in the next pass.
  void RequestFlush(Tree* tree);
  // Something in the tree became free or possible.
  void Gained(Tree* tree);
  // The head of `queue` does not fit, and cannot until its tree gains something.
  void Block(ClusterQueueState* queue);

  // The head of a BestEffortFIFO queue was looked at in a pass that changed nothing, and is still the head:
  // it loses each time, or goes round its flavors for ever. After a while it is parked, so that those behind
  // it have their turn; one that `lost` a while later, since those it lost to may have been parked themselves.
  void Stall(ClusterQueueState* queue, bool lost, WallTime now);
  // A workload of `queue` was parked that had not been tried on all its flavors in one go: what it tried
  // first may have become possible since. After a while, and once all in the queue have had their turn, those that are
  // parked in it have another.
  void RecheckLater(ClusterQueueState* queue, WallTime now);

  // At that time somebody in the queue may have machines reserved: the tree is looked at again.
  void RecheckForMachines(ClusterQueueState* queue, WallTime when);

  // Trees with something to look at, in the order of their roots' names.
  absl::btree_set<Tree*, ByRoot>& active_trees() { return active_trees_; }
  const absl::btree_set<Tree*, ByRoot>& active_trees() const { return active_trees_; }
  // Trees in which nothing gets on, and heads that look for places in topologies: what they keep for themselves in a
  // pass they keep in those of other trees, too.
  absl::btree_set<Tree*, ByRoot>& resting_trees() { return resting_trees_; }
  // Takes in what has backed off until now, parks heads that have stalled until now, and gives up room that was kept
  // until now.
  void ReleaseDue(WallTime now);
  WallTime NextDue() const;

  // Queues that have become active or not, or are inactive for another reason, since the last call.
  std::vector<ClusterQueueState*> TakeActivityChanges();
  void MarkChanged(ClusterQueueState* queue);
  // Queues of which anything visible has changed since the last call, in no order, and the names of those of them that
  // are gone.
  std::vector<ClusterQueueState*> TakeChangedQueues(std::vector<std::string>* gone);
  const std::vector<ClusterQueueState*>& changed_queues() const { return changed_queues_; }  // until then
  // Whether any quota, weight or place in a tree has changed since the last call.
  bool TakeQuotasChanged() { return std::exchange(quotas_changed_, false); }

  uint64_t GenerationOf(const ClusterQueueState& queue) const;
  // A turn is all that is decided without anything happening meanwhile: an event, or that a time is over.
  uint64_t turn() const { return turn_; }
  void BeginTurn() { ++turn_; }
  const absl::btree_map<std::string, std::unique_ptr<ClusterQueueState>, std::less<>>& queues() const {
    return queues_;
  }
  const absl::btree_map<std::string, std::unique_ptr<CohortState>, std::less<>>& cohorts() const { return cohorts_; }
  // Existing queues with a namespace selector that does not match everything.
  const absl::btree_set<ClusterQueueState*, ByName>& selective_queues() const { return selective_queues_; }

  void Validate() const;

 private:
  // Those that use the flavor, and for which `wakes` says so, look again.
  template <typename Wakes>
  void WakeUsers(FlavorId flavor, Wakes wakes);
  struct ByDue {
    bool operator()(const ClusterQueueState* a, const ClusterQueueState* b) const {
      return a->due != b->due ? a->due < b->due : a->name < b->name;
    }
  };

  CohortState* GetCohort(std::string_view name);
  void DropIfUnused(CohortState* cohort);
  // RETURNS: the parent it had until now, which nobody may refer to any more; null if it keeps its parent or
  // had none. To be dropped by the caller, who still needs `cohort`: they may be the same.
  CohortState* SetDeclaredParent(CohortState* cohort, std::string_view parent);
  void Move(CohortState* cohort, CohortState* parent);
  void MakeRoot(CohortState* cohort);
  std::unique_ptr<Tree> NewTree(const std::string& name) const;
  void UprootSubtree(CohortState* cohort);
  void PlantSubtree(CohortState* cohort, Tree* tree);
  void Uproot(ClusterQueueState* queue);
  void Plant(ClusterQueueState* queue);
  void EnterCohort(ClusterQueueState* queue, std::string_view cohort);
  void LeaveCohort(ClusterQueueState* queue);
  void ApplyQuotas(ClusterQueueState* queue);
  void ApplyQuotas(CohortState* cohort);
  void Book(WorkloadState* holder, bool take);
  static void BookPlanned(const ClusterQueueState& queue, const std::vector<std::pair<FlavorResource, Amount>>& usage,
                          bool take);
  // In the index of those who have places on nodes.
  void ListPlaces(WorkloadState* workload, bool add);
  void BookPlaces(const std::vector<gang::PlacedPodSet>& places, gang::PlaceBook book, bool take);
  // What of a room is in no tree.
  void BookOutsideTrees(const WorkloadState& workload, const Room& room, bool take);
  void GiveUpRooms(ClusterQueueState* queue);
  // Of those that may not use it.
  void GiveUpUselessRooms(ClusterQueueState* queue);
  void QuotaChanged(Tree* tree);
  std::vector<Inactivity> InactivityOf(const ClusterQueueState& queue) const;
  void AddCheckProblems(const ClusterQueue& spec, std::vector<Inactivity>* inactive) const;
  void RecomputeActivity(ClusterQueueState* queue);
  void RecomputeActivity(Tree* tree);
  void RecomputeActivity(CohortState* cohort);  // of all below it
  void ReferToFlavors(ClusterQueueState* queue, bool refer);
  void ForgetTree(Tree* tree);
  static void ValidateBooks(const ClusterQueueState& queue);
  // The cohorts on the cycle through `cohort`; empty if it is on none.
  static std::vector<CohortState*> CycleThrough(CohortState* cohort);
  // It counts as gone in the planned book.
  static bool Leaves(const Claim& claim);

  Catalog* catalog_;
  gang::TopologyBook* topologies_;
  NamespaceQuotas* namespace_quotas_;
  absl::btree_map<std::string, std::unique_ptr<ClusterQueueState>, std::less<>> queues_;
  absl::btree_map<std::string, std::unique_ptr<CohortState>, std::less<>> cohorts_;
  // Of queues that exist, and so are in a tree.
  absl::flat_hash_map<FlavorId, absl::btree_set<ClusterQueueState*, ByName>> flavor_users_;
  absl::btree_set<ClusterQueueState*, ByName> selective_queues_;
  absl::btree_set<Tree*, ByRoot> active_trees_;
  absl::btree_set<Tree*, ByRoot> resting_trees_;
  StringMap<absl::btree_set<WorkloadState*, ByUid>> on_host_;
  int64_t booked_places_ = 0;
  bool some_pass_over_ = false;  // in some queue, since machines were last lost
  absl::btree_set<WorkloadState*, ByUid> reserving_;
  absl::btree_set<ClusterQueueState*, ByDue> due_queues_;
  absl::btree_set<ClusterQueueState*, ByName> activity_changes_;
  std::vector<ClusterQueueState*> changed_queues_;
  std::vector<std::string> changed_queues_gone_;
  uint64_t generation_ = 0;
  uint64_t turn_ = 1;
  bool quotas_changed_ = false;
};

}  // namespace muster::engine
