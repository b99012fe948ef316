#include "tree_pass.h"

#include <algorithm>
#include <tuple>

#include "muster/core/check.h"
#include "muster/core/hash.h"
#include "obstacles.h"

namespace muster::engine {

namespace {

// Of where an attempt starts; all that start with every first flavor are one.
uint64_t StartHash(const ScanProgress& scan) {
  if (!scan.HasUntried()) return 0;
  StateHash hash;
  for (const int16_t index : scan.tried) hash.Add(static_cast<int64_t>(std::max(index, ScanProgress::kLast)));
  return hash.value();
}

// Reasons are told in the order in which queues are looked at, and that of a hash set is random.
std::vector<ClusterQueueState*> InOrder(const absl::flat_hash_set<ClusterQueueState*>& queues) {
  std::vector<ClusterQueueState*> out(queues.begin(), queues.end());
  std::sort(out.begin(), out.end(), ByName());
  return out;
}

}  // namespace

void ClassicalOrder::Begin(std::vector<Entry>* entries) {
  order_.clear();
  next_ = 0;
  for (Entry& entry : *entries) order_.push_back(&entry);
  std::sort(order_.begin(), order_.end(), [](const Entry* a, const Entry* b) {
    if (a->assignment.borrow != b->assignment.borrow) return a->assignment.borrow < b->assignment.borrow;
    return queue::Earlier()(&a->workload->ticket, &b->workload->ticket);
  });
}

Entry* ClassicalOrder::Next() { return next_ < order_.size() ? order_[next_++] : nullptr; }

bool TreePass::Run(Tree* tree) {
  tree_ = tree;
  progress_ = false;
  winners_.clear();
  entries_.clear();
  if (tree->flush_requested) Flush(tree);
  Nominate(tree);
  reserved_ = std::make_unique<quota::ScopedTake>(&tree->ledger);
  order_->Begin(&entries_);
  while (Entry* entry = order_->Next()) Process(entry);
  reserved_.reset();
  if (!progress_) NoteStalls();
  return progress_;
}

void TreePass::NoteStalls() {
  for (const Entry& entry : entries_) {
    const queue::WaitingQueue& waiting = entry.queue->waiting;
    if (waiting.strategy() == queue::Strategy::kBestEffortFIFO && waiting.Head() == &entry.workload->ticket) {
      forest_->Stall(entry.queue, now_);
    }
  }
}

void TreePass::Flush(Tree* tree) {
  tree->flush_requested = false;
  for (ClusterQueueState* queue : InOrder(tree->parked)) {
    queue->bypass.clear();
    std::function<bool(uint32_t)> eligible;
    if (queue->selective) eligible = [&](uint32_t lane) { return host_->LaneMatches(*queue, lane); };
    queue->waiting.Wake(eligible);
    forest_->Refresh(queue);
  }
}

void TreePass::Nominate(Tree* tree) {
  const std::vector<ClusterQueueState*> ready = InOrder(tree->ready);
  entries_.reserve(ready.size());
  for (ClusterQueueState* queue : ready) {
    WorkloadState* workload = host_->OfTicket(queue->waiting.Head());
    if (!CheckValid(queue, workload)) continue;
    ScanProgress& scan = workload->scan;
    // What was tried before something changed says nothing any more; two attempts in a row are one scan.
    if (number_ - scan.pass > 1 && forest_->GenerationOf(*queue) > scan.generation) scan = {};
    entries_.push_back({queue, workload, assigner_->Assign(*workload, *queue, scan)});
  }
}

bool TreePass::CheckValid(ClusterQueueState* queue, WorkloadState* workload) {
  if (!host_->NamespaceMatches(*queue, *workload)) {
    host_->SetReason(workload, MakeReason(ReasonCode::kMisconfigured,
                                          {ObjectObstacle(ObstacleKind::kNamespaceMismatch, queue->name)}));
    queue->waiting.Park(&workload->ticket);
    forest_->Refresh(queue);
    progress_ = true;
    return false;
  }
  if (workload->spec.invalid.empty()) return true;
  host_->SetReason(workload, MakeReason(ReasonCode::kMisconfigured, workload->spec.invalid));
  if (queue->waiting.strategy() == queue::Strategy::kStrictFIFO) {
    TellThoseBehind(queue);
    forest_->Block(queue);
  } else {
    queue->waiting.ParkMisfit(&workload->ticket);
    forest_->Refresh(queue);
    progress_ = true;
  }
  return false;
}

void TreePass::Process(Entry* entry) {
  const Assignment& assignment = entry->assignment;
  switch (assignment.mode) {
    case Mode::kNoFit:
      OnNoFit(entry);
      return;
    case Mode::kNoCandidates:
    case Mode::kPreempt:
    case Mode::kReclaim:
      // It waits for others to go. Unless it could claim everything back at any time, keep for it what is
      // free of its own, so that those after it in this pass do not take that too.
      if (entry->queue->spec.reclaim_within_cohort != PreemptionPolicy::kAny) ReserveForBlocked(*entry);
      OnNoFit(entry);
      return;
    case Mode::kFit:
      break;
  }
  for (const auto& [cell, amount] : assignment.usage) {
    if (!tree_->ledger.Fits(cell, amount)) {
      OnLost(entry);
      return;
    }
  }
  progress_ = true;
  for (const auto& [cell, amount] : assignment.usage) {
    winners_.emplace_back(tree_->ledger.flavor_resource(cell), entry->workload);
  }
  entry->queue->waiting.Remove(&entry->workload->ticket);
  entry->workload->waiting_in = nullptr;
  host_->OnAdmit(entry->workload, entry->queue, assignment);
  forest_->Refresh(entry->queue);
}

void TreePass::ReserveForBlocked(const Entry& entry) {
  for (const auto& [cell, amount] : entry.assignment.usage) {
    const quota::Limits& limits = tree_->ledger.limits(cell);
    const Amount used = tree_->ledger.Usage(cell, quota::Book::kActual);
    Amount keep = amount;
    if (entry.assignment.borrow == 0) {
      keep = std::min(amount, limits.nominal - used);
    } else if (limits.borrowing_limit.has_value()) {
      keep = std::min(amount, limits.nominal + *limits.borrowing_limit - used);
    }
    if (keep <= Amount{0}) continue;
    reserved_->Take(cell, keep);
    winners_.emplace_back(tree_->ledger.flavor_resource(cell), entry.workload);
  }
}

void TreePass::OnNoFit(Entry* entry) {
  WorkloadState* workload = entry->workload;
  host_->SetReason(workload, MakeReason(entry->assignment.code, entry->assignment.obstacles));
  const bool whole = !workload->scan.HasUntried();  // every flavor was tried
  const bool goes_on = KeepProgress(entry);
  if (!goes_on) TellThoseBehind(entry->queue);
  if (workload->scan.HasUntried()) {
    progress_ = progress_ || goes_on;
    return;
  }
  workload->scan_history.reset();
  if (entry->queue->waiting.strategy() == queue::Strategy::kBestEffortFIFO) {
    ParkWithEquivalents(entry);
    if (!whole) forest_->RecheckLater(entry->queue, now_);
    return;
  }
  progress_ = progress_ || goes_on;
  // A head that keeps something for itself must do so in each pass.
  if (whole && entry->assignment.mode == Mode::kNoFit) forest_->Block(entry->queue);
}

bool TreePass::KeepProgress(Entry* entry) {
  ScanProgress& scan = entry->workload->scan;
  const uint64_t start = StartHash(scan);
  const uint64_t next = StartHash(entry->assignment.scan);
  bool goes_on = false;
  if (start != 0 || next != 0) {
    std::unique_ptr<ScanHistory>& history = entry->workload->scan_history;
    if (history == nullptr) history = std::make_unique<ScanHistory>();
    if (history->tree_version != tree_->version) *history = {tree_->version, {}};
    history->starts.insert(start);
    goes_on = !history->starts.contains(next);
  }
  scan = entry->assignment.scan;
  scan.pass = number_;
  scan.generation = forest_->GenerationOf(*entry->queue);
  return goes_on;
}

void TreePass::ParkWithEquivalents(Entry* entry) {
  ClusterQueueState* queue = entry->queue;
  queue::Ticket* ticket = &entry->workload->ticket;
  const std::shared_ptr<const Reason>& reason = entry->workload->reason;
  queue->bypass[ticket->equivalence] = {reason, entry->workload->spec.uid};
  // Zero is no note.
  const auto note = static_cast<uint8_t>(static_cast<uint8_t>(reason->code) + 1);
  for (const queue::Ticket* other : queue->waiting.ParkEquivalents(ticket, note)) {
    host_->SetReason(host_->OfTicket(other), reason);
  }
  forest_->Refresh(queue);
  progress_ = true;
}

void TreePass::TellThoseBehind(ClusterQueueState* queue) {
  if (queue->waiting.strategy() != queue::Strategy::kStrictFIFO) return;
  const queue::Ticket* head = queue->waiting.Head();
  const std::vector<queue::Ticket*> behind = queue->waiting.TakeUntold(head);
  if (behind.empty()) return;
  const auto reason = BehindStrictHead(*host_->OfTicket(head));
  for (const queue::Ticket* ticket : behind) host_->SetReason(host_->OfTicket(ticket), reason);
}

void TreePass::OnLost(Entry* entry) {
  if (KeepProgress(entry)) {
    progress_ = true;
  } else {
    TellThoseBehind(entry->queue);
  }
  std::vector<Blocker> blockers;
  for (const auto& [cell, amount] : entry->assignment.usage) {
    const FlavorResource fr = tree_->ledger.flavor_resource(cell);
    for (auto it = winners_.rbegin(); it != winners_.rend() && blockers.size() < kBlockersMax; ++it) {
      const Blocker blocker = BlockerOf(*it->second);
      if (it->first == fr && std::find(blockers.begin(), blockers.end(), blocker) == blockers.end()) {
        blockers.push_back(blocker);
      }
    }
  }
  host_->SetReason(entry->workload,
                   MakeReason(ReasonCode::kWaitingForQuota,
                              {ObjectObstacle(ObstacleKind::kLostToAnother, entry->queue->name)}, std::move(blockers)));
}

}  // namespace muster::engine
