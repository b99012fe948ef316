// One visible pass over one tree: every queue that may nominates its head against the usage at the start of
// the pass; then the entries are processed in order on the running usage.
//
// Source: kueue_semantics 5.2, 4.4.
// Threading: needs external synchronisation with the tree's owner.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "assigner.h"
#include "forest.h"
#include "state.h"

namespace muster::engine {

// A queue's head in a pass.
struct Entry {
  ClusterQueueState* queue = nullptr;
  WorkloadState* workload = nullptr;
  Assignment assignment;
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
  // Books the claim and records the decision; the workload has left its queue.
  virtual void OnAdmit(WorkloadState* workload, ClusterQueueState* queue, const Assignment& assignment) = 0;
  virtual void SetReason(WorkloadState* workload, std::shared_ptr<const Reason> reason) = 0;
};

class TreePass {
 public:
  TreePass(Forest* forest, const Assigner* assigner, PassHost* host, PassOrder* order, uint64_t number, WallTime now)
      : forest_(forest), assigner_(assigner), host_(host), order_(order), number_(number), now_(now) {}

  // RETURNS: whether anything changed that could make a further pass decide something.
  bool Run(Tree* tree);

 private:
  void Flush(Tree* tree);
  void Nominate(Tree* tree);
  // RETURNS: false where the workload may not be admitted as it is; it was given its reason.
  bool CheckValid(ClusterQueueState* queue, WorkloadState* workload);
  void Process(Entry* entry);
  void NoteStalls();
  void OnNoFit(Entry* entry);
  void OnLost(Entry* entry);
  void ReserveForBlocked(const Entry& entry);
  // Remembers how far the scan came. RETURNS: whether the next attempt starts from somewhere new.
  bool KeepProgress(Entry* entry);
  void ParkWithEquivalents(Entry* entry);
  // The head of a StrictFIFO queue waits: those behind it are told so.
  void TellThoseBehind(ClusterQueueState* queue);

  Forest* forest_;
  const Assigner* assigner_;
  PassHost* host_;
  PassOrder* order_;
  uint64_t number_;
  WallTime now_;

  Tree* tree_ = nullptr;
  std::unique_ptr<quota::ScopedTake> reserved_;
  std::vector<Entry> entries_;
  // Who took or keeps something in this pass, and of what; for the reasons of those who lost.
  std::vector<std::pair<FlavorResource, const WorkloadState*>> winners_;
  bool progress_ = false;
};

}  // namespace muster::engine
