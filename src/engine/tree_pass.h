// One visible pass over one tree: every queue that may nominates its head against the usage at the start of
// the pass; then the entries are processed in order on the running usage.
//
// Source: kueue_semantics 5.2, 4.4.
// Threading: needs external synchronisation with the tree's owner.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assigner.h"
#include "forest.h"
#include "machines.h"
#include "muster/engine/engine.h"
#include "nomination.h"
#include "placement.h"
#include "state.h"

namespace muster::engine {

// A queue's head in a pass.
struct Entry {
  ClusterQueueState* queue = nullptr;
  WorkloadState* workload = nullptr;
  Assignment assignment;
  bool keeps = false;                       // as of the Nomination
  std::vector<WorkloadState*> free_of{};    // likewise
  std::vector<WorkloadState*> backfills{};  // likewise
  bool lost = false;                        // to others of the pass
};

// In which order the entries of a pass are processed. Begin is given all of them; Next is asked after each
// was processed, so an order may depend on the running usage.
class PassOrder {
 public:
  virtual ~PassOrder() = default;
  virtual void Begin(std::vector<Entry>* entries) = 0;
  virtual Entry* Next() = 0;  // null: no more
};

// Those that borrow least far first, then the higher priority, the earlier queue time, the smaller uid.
class ClassicalOrder final : public PassOrder {
 public:
  void Begin(std::vector<Entry>* entries) override;
  Entry* Next() override;

 private:
  std::vector<Entry*> order_;
  size_t next_ = 0;
};

// What a pass needs from, and tells, the engine set.
class PassHost {
 public:
  virtual ~PassHost() = default;
  virtual WorkloadState* OfTicket(const queue::Ticket* ticket) = 0;
  virtual bool NamespaceMatches(const ClusterQueueState& queue, const WorkloadState& workload) = 0;
  virtual bool LaneMatches(const ClusterQueueState& queue, uint32_t lane) = 0;
  // Books the claim and records the decision; the workload has left its queue. `machines`: what is reserved for it.
  virtual void OnAdmit(WorkloadState* workload, ClusterQueueState* queue, const Assignment& assignment,
                       gang::Reservation machines) = 0;
  // Books that the victim is leaving, and records the decision.
  virtual void OnPreempt(const Victim& victim, const WorkloadState& preemptor, const ClusterQueueState& queue) = 0;
  // A head of the queue is looked at.
  virtual void OnNominate(ClusterQueueState* queue) = 0;
  // An attempt ended without a fit, for these reasons.
  virtual void OnNoFit(const std::vector<Obstacle>& obstacles) = 0;
  // It would preempt, and others of the pass take what it needs.
  virtual void OnPreemptionSkipped(ClusterQueueState* queue) = 0;
  virtual void OnTargetsRecomputed(const ClusterQueueState& queue, RecomputedTargets result) = 0;
  // One that is moved would wait where it was admitted, and nothing but its turn would be in its way. REQUIRES: it
  // holds a claim
  virtual bool ComesBack(const WorkloadState& workload) const = 0;
  // When the claim of that workload will be gone at the latest; unset: nobody knows.
  virtual WallTime EndOf(const std::string& uid) const = 0;
  // It has lost its last claim to that preemptor and has not started since, or to one of whom that holds; all of the
  // preemptor's tree, since others may decide meanwhile.
  virtual bool HadToGoFor(const WorkloadState& workload, const WorkloadState& preemptor) const = 0;
  // Those that it has preempted and that have not left yet, by uid.
  virtual std::vector<const WorkloadState*> VictimsOf(const WorkloadState& preemptor) const = 0;
  // Those that wait in the tree and have evicted others, in the order of queues, with the time of the last eviction;
  // but those who have started since, or for whom no room is kept any more.
  virtual std::vector<std::pair<WorkloadState*, WallTime>> Promised(const Tree& tree) = 0;
  virtual void SetReason(WorkloadState* workload, std::shared_ptr<const Reason> reason) = 0;
  // Asked of one that fits. RETURNS: why nobody may be admitted now; null: somebody may. Once that has changed, all who
  // wait are looked at again.
  virtual std::shared_ptr<const Reason> AdmissionBlocked() = 0;
  // A head of the queue that was moved, and must not start before the one that it was moved for. RETURNS: whether that
  // is so; it waits aside then.
  virtual bool GiveWay(WorkloadState* workload) = 0;
};

// The order of entries that ClassicalOrder has.
bool ComesBefore(const Entry& a, const Entry& b);

class TreePass {
 public:
  TreePass(Forest* forest, const Assigner* assigner, const TopologyPlacer* placer, const MachinePlacer* machines,
           PassHost* host, PassOrder* order, uint64_t number, WallTime now, const EngineOptions& options)
      : forest_(forest),
        assigner_(assigner),
        placer_(placer),
        machines_(machines),
        host_(host),
        order_(order),
        number_(number),
        now_(now),
        keep_room_for_(options.keep_room_for),
        reserve_after_(options.reserve_after),
        defragment_after_(options.defragment_after) {}

  // Takes in what was asked to be looked at again, and nominates those for whom room is kept.
  void Begin(Tree* tree);
  // Calls visit(workload) for each that is still to be nominated.
  template <typename F>
  void ForEachToNominate(F visit) const {
    for (const auto& [queue, workload] : to_nominate_) visit(*workload);
  }
  // Nominates all others. Nothing changes by it but this tree, and in this nothing that is booked: all trees may do it
  // at once, but those that look in topologies, and of each asker of machines one. Then each Step processes an entry,
  // while there is a next one.
  void NominateOthers();
  // Those of the entries whose time it is to have machines reserved: each may be, before the first Step.
  std::vector<Entry*> DueForMachines();
  // RETURNS: whether it has some now.
  bool ReserveMachinesAhead(Entry* entry);
  const Entry* next() const { return next_; }
  void Step();
  // RETURNS: whether anything changed that could make a further pass decide something.
  bool Finish();
  // Some entry is to have places, in topologies or on machines.
  bool LooksForPlaces() const;
  bool LooksInTopologies() const;

  // Takes in what was asked to be looked at again.
  static void Flush(Tree* tree, Forest* forest, PassHost* host);
  // Likewise, in one queue.
  static void Wake(ClusterQueueState* queue, Forest* forest, PassHost* host);

 private:
  void NominateHead(ClusterQueueState* queue, WorkloadState* workload);
  // It waits for machines that are reserved for it.
  void WaitForMachines(Entry* entry);
  // RETURNS: false where the workload may not be admitted as it is; it was given its reason.
  bool CheckValid(ClusterQueueState* queue, WorkloadState* workload);
  void Process(Entry* entry);
  // Others of the pass may have been first: where a ResourceQuota is in its way now, it is assigned anew.
  void CheckNamespace(Entry* entry) const;
  void NoteStalls();
  void OnNoFit(Entry* entry);
  void OnLost(Entry* entry, ObstacleKind kind);
  void OnFits(Entry* entry);
  // The machines' part of an admission; it may be assigned anew if others were first. RETURNS: nothing where it does
  // not fit any more.
  std::optional<gang::Reservation> ReserveMachines(Entry* entry);
  void OnNeedsOthersToGo(Entry* entry);
  // Where some were told to go for another in this pass. RETURNS: whether there were any.
  bool RecomputeTargets(Entry* entry);
  // It fits in the planned book once its victims are gone.
  bool FitsAfterPreemption(const Entry& entry) const;
  bool PlacesLost(const Entry& entry) const;
  // It could preempt, and may not.
  void OnGated(Entry* entry);
  void Preempt(Entry* entry);
  void TellToGo(const Victim& victim, Entry* entry);
  // `for_others`: somebody was told to go for it.
  void StartWaiting(Entry* entry, bool for_others);
  // It has quota and no places, and has had so for that long, since `not_before` at least; else it is looked at again
  // by then.
  bool IsCrowdedFor(const Entry& entry, Duration duration, WallTime not_before = {});
  // Where nothing else helps it, and its time has come. RETURNS: whether any are moved for it.
  bool MoveOthers(Entry* entry);
  bool IsDueToMoveOthers(const Entry& entry);
  // Its StrictFIFO queue waits with it, while it is the head: it may have lost that with its room.
  void BlockBehind(const Entry& entry);
  bool MayKeepRoom(const WorkloadState& workload) const;
  void KeepRoom(Entry* entry, WallTime until);
  Room MakeRoom(const WorkloadState& workload, const Assignment& assignment, WallTime until,
                std::optional<gang::Reservation> machines) const;
  static PodsToCome AllToCome(const WorkloadState& workload, const Assignment& assignment);
  std::optional<gang::Reservation> KeepMachines(const Entry& entry);
  // It waits for those who are leaving.
  void WaitForVictims(Entry* entry);
  // After something was taken that was kept for others: they look for room anew where it is too little now.
  void RecheckRooms(const std::vector<WorkloadState*>& whose);
  // Keeps room again for those to whom it was promised and who have none: found so, moved, or refused.
  void RestoreRooms();
  void OnBlocked(Entry* entry, std::shared_ptr<const Reason> reason, gang::Reservation machines);
  void ReserveForBlocked(const Entry& entry);
  // For the rest of the pass.
  void ReservePlaces(const Entry& entry, gang::PlaceBook book);
  // Remembers how far the scan came. RETURNS: whether the next attempt starts from somewhere new.
  bool KeepProgress(Entry* entry);
  void ParkWithEquivalents(Entry* entry);
  // The head of a StrictFIFO queue waits: those behind it are told so.
  void TellThoseBehind(ClusterQueueState* queue);

  Forest* forest_;
  const Assigner* assigner_;
  const TopologyPlacer* placer_;
  const MachinePlacer* machines_;
  PassHost* host_;
  PassOrder* order_;
  uint64_t number_;
  WallTime now_;
  Duration keep_room_for_;
  Duration reserve_after_;
  Duration defragment_after_;

  Tree* tree_ = nullptr;
  std::unique_ptr<quota::ScopedTake> reserved_;
  std::vector<std::pair<gang::PlacedPodSet, gang::PlaceBook>> reserved_places_;
  std::vector<gang::Reservation> reserved_machines_;
  std::vector<Entry> entries_;
  std::vector<std::pair<ClusterQueueState*, WorkloadState*>> to_nominate_;
  Entry* next_ = nullptr;
  // Who took or keeps something in this pass, and of what; for the reasons of those who lost.
  std::vector<std::pair<FlavorResource, const WorkloadState*>> winners_;
  uint64_t nominated_at_ = 0;  // version of the tree that the entries were nominated against
  bool progress_ = false;
};

}  // namespace muster::engine
