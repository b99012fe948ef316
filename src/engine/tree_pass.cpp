#include "tree_pass.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "muster/core/check.h"
#include "muster/core/hash.h"
#include "obstacles.h"

namespace muster::engine {

namespace {

std::shared_ptr<const Reason> NamespaceMismatch(const ClusterQueueState& queue) {
  return MakeReason(ReasonCode::kMisconfigured, {ObjectObstacle(ObstacleKind::kNamespaceMismatch, queue.name)});
}

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

bool ComesBefore(const Entry& a, const Entry& b) {
  if (a.assignment.borrow != b.assignment.borrow) return a.assignment.borrow < b.assignment.borrow;
  return queue::Earlier()(&a.workload->ticket, &b.workload->ticket);
}

void ClassicalOrder::Begin(std::vector<Entry>* entries) {
  order_.clear();
  next_ = 0;
  for (Entry& entry : *entries) order_.push_back(&entry);
  std::sort(order_.begin(), order_.end(), [](const Entry* a, const Entry* b) { return ComesBefore(*a, *b); });
}

Entry* ClassicalOrder::Next() { return next_ < order_.size() ? order_[next_++] : nullptr; }

void TreePass::Begin(Tree* tree) {
  tree_ = tree;
  progress_ = false;
  winners_.clear();
  entries_.clear();
  if (tree->flush_requested) Flush(tree, forest_, host_);
  for (ClusterQueueState* queue : InOrder(tree->parked)) {
    if (queue->recheck_due) Wake(queue, forest_, host_);
  }
  if (std::exchange(tree->restore_rooms, false)) RestoreRooms();
  nominated_at_ = tree_->version;
  std::vector<std::pair<ClusterQueueState*, WorkloadState*>> keepers;
  to_nominate_.clear();
  const std::vector<ClusterQueueState*> ready = InOrder(tree_->ready);
  for (ClusterQueueState* queue : ready) {
    WorkloadState* workload = host_->OfTicket(queue->waiting.Head());
    if (!CheckValid(queue, workload)) continue;
    if (host_->GiveWay(workload)) {
      progress_ = true;
      continue;
    }
    if (!workload->spec.timed_out.empty()) forest_->NotePassesOver(queue);
    (workload->room != nullptr ? keepers : to_nominate_).emplace_back(queue, workload);
  }
  entries_.reserve(ready.size());
  for (const auto& [queue, workload] : keepers) NominateHead(queue, workload);
}

void TreePass::NominateOthers() {
  // Those who start in the room that is kept for them do it in this pass: others are nominated as if nothing were kept
  // for them, lose to them when their turn comes, and look elsewhere in the next pass.
  std::vector<WorkloadState*> starting;
  for (const Entry& entry : entries_) {
    if (entry.assignment.mode == Mode::kFit) starting.push_back(entry.workload);
  }
  {
    const WithoutRooms without(tree_, starting);
    for (const auto& [queue, workload] : to_nominate_) NominateHead(queue, workload);
  }
  reserved_ = std::make_unique<quota::ScopedTake>(&tree_->ledger);
  order_->Begin(&entries_);
  next_ = order_->Next();
}

void TreePass::Step() {
  Process(next_);
  next_ = order_->Next();
}

bool TreePass::Finish() {
  reserved_.reset();
  for (const auto& [place, book] : reserved_places_) placer_->book()->Release(place, book);
  reserved_places_.clear();
  for (gang::Reservation& reservation : reserved_machines_) reservation.Cancel();
  reserved_machines_.clear();
  if (!progress_) NoteStalls();
  return progress_;
}

bool TreePass::LooksForPlaces() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.assignment.HasPlaces(); });
}

bool TreePass::LooksInTopologies() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.assignment.HasTopology(); });
}

void TreePass::NoteStalls() {
  for (const Entry& entry : entries_) {
    const queue::WaitingQueue& waiting = entry.queue->waiting;
    if (waiting.strategy() == queue::Strategy::kBestEffortFIFO && waiting.Head() == &entry.workload->ticket) {
      forest_->Stall(entry.queue, entry.lost, now_);
    }
  }
}

void TreePass::Flush(Tree* tree, Forest* forest, PassHost* host) {
  tree->flush_requested = false;
  tree->flush_when_idle = false;
  for (ClusterQueueState* queue : InOrder(tree->parked)) Wake(queue, forest, host);
}

void TreePass::Wake(ClusterQueueState* queue, Forest* forest, PassHost* host) {
  queue->recheck_due = false;
  queue->bypass.clear();
  std::function<bool(uint32_t)> eligible;
  if (queue->selective) eligible = [&](uint32_t lane) { return host->LaneMatches(*queue, lane); };
  queue->waiting.Wake(eligible);
  forest->Refresh(queue);
}

void TreePass::NominateHead(ClusterQueueState* queue, WorkloadState* workload) {
  if (workload->preempted_at != tree_->outside) workload->preempted.clear();
  workload->preempted_at = tree_->outside;
  host_->OnNominate(queue);
  ScanProgress& scan = workload->scan;
  // What was tried before something changed says nothing any more; two attempts in a row are one scan.
  if (number_ - scan.pass > 1 && forest_->GenerationOf(*queue) > scan.generation) scan = {};
  Nomination nomination = Nominate(*host_, forest_, tree_, *assigner_, workload, queue, now_);
  entries_.push_back({queue, workload, std::move(nomination.assignment), nomination.keeps,
                      std::move(nomination.free_of), std::move(nomination.backfills)});
}

bool TreePass::CheckValid(ClusterQueueState* queue, WorkloadState* workload) {
  if (!host_->NamespaceMatches(*queue, *workload)) {
    host_->SetReason(workload, NamespaceMismatch(*queue));
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
  if (const WorkloadState* grows = entry->workload->grows; grows != nullptr && grows->claim->leaving) {
    // Another of the pass has preempted what it was to be added to.
    OnLost(entry, ObstacleKind::kLostToAnother);
    return;
  }
  if (entry->keeps) {
    // Without the room, it is looked at anew in the next pass.
    if (entry->workload->room == nullptr) return;
    return entry->workload->room->future.has_value() ? WaitForMachines(entry) : WaitForVictims(entry);
  }
  CheckNamespace(entry);
  if (MoveOthers(entry)) return;
  switch (entry->assignment.mode) {
    case Mode::kNoFit:
      OnNoFit(entry);
      return;
    case Mode::kNoCandidates:
    case Mode::kPreempt:
    case Mode::kReclaim:
      OnNeedsOthersToGo(entry);
      return;
    case Mode::kFit:
      OnFits(entry);
      return;
  }
}

void TreePass::CheckNamespace(Entry* entry) const {
  if (entry->assignment.mode == Mode::kNoFit) return;
  const WithoutRooms without(tree_, entry->free_of);
  std::vector<int32_t> counts;
  for (const PodSetChoice& choice : entry->assignment.pod_sets) counts.push_back(choice.count);
  if (!tree_->namespaces.Refusal(entry->workload->spec, counts).has_value()) return;
  entry->assignment = assigner_->Assign(*entry->workload, *entry->queue, {});
}

void TreePass::OnFits(Entry* entry) {
  const Assignment& assignment = entry->assignment;
  bool fits = false;
  bool crowded = false;  // only machines are missing
  std::optional<gang::Reservation> machines;
  {
    const WithoutRooms without(tree_, entry->free_of, entry->backfills);
    fits = std::all_of(assignment.usage.begin(), assignment.usage.end(),
                       [&](const auto& usage) { return tree_->ledger.Fits(usage.first, usage.second); });
    if (fits && !placer_->StillFits(*entry->workload, assignment, gang::PlaceView::kBoth)) {
      // Only the places are taken: there may be others.
      entry->assignment = assigner_->AssignAgain(*entry->workload, *entry->queue, assignment);
      fits = assignment.mode == Mode::kFit;
    }
    if (fits) machines = ReserveMachines(entry);
    crowded = fits && !machines.has_value();
    fits = machines.has_value();
  }
  if (!fits) {
    if (assignment.NeedsOthersToGo()) {
      OnNeedsOthersToGo(entry);
    } else if (crowded && assignment.mode == Mode::kNoFit) {
      OnNoFit(entry);
    } else {
      OnLost(entry, ObstacleKind::kLostToAnother);
    }
    return;
  }
  if (auto blocked = host_->AdmissionBlocked(); blocked != nullptr) {
    OnBlocked(entry, std::move(blocked), *std::move(machines));
    return;
  }
  progress_ = true;
  for (const auto& [cell, amount] : assignment.usage) {
    winners_.emplace_back(tree_->ledger.flavor_resource(cell), entry->workload);
  }
  forest_->GiveUpRoom(entry->workload);
  forest_->ForgetPreemptor(entry->queue, entry->workload);
  entry->queue->waiting.Remove(&entry->workload->ticket);
  entry->workload->waiting_in = nullptr;
  host_->OnAdmit(entry->workload, entry->queue, assignment, *std::move(machines));
  forest_->Refresh(entry->queue);
  RecheckRooms(entry->free_of);
}

std::optional<gang::Reservation> TreePass::ReserveMachines(Entry* entry) {
  std::optional<gang::Reservation> machines = machines_->Reserve(*entry->workload, entry->assignment);
  if (machines.has_value()) return machines;
  // Somebody was first: there may be other places in these flavors, or in others.
  entry->assignment = assigner_->AssignAgain(*entry->workload, *entry->queue, entry->assignment);
  if (entry->assignment.mode != Mode::kFit) {
    entry->assignment = assigner_->Assign(*entry->workload, *entry->queue, {});
  }
  if (entry->assignment.mode != Mode::kFit) return std::nullopt;
  return machines_->Reserve(*entry->workload, entry->assignment);
}

void TreePass::OnNeedsOthersToGo(Entry* entry) {
  const Assignment& assignment = entry->assignment;
  const bool had_targets = assignment.preemption.Found();
  const bool overlaps = RecomputeTargets(entry);
  if (assignment.preemption.Found() && PlacesLost(*entry)) {
    // Perhaps only the places are taken: there may be others.
    const WithoutRooms without(tree_, entry->free_of);
    entry->assignment = assigner_->AssignAgain(*entry->workload, *entry->queue, assignment);
  }
  if (assignment.NeedsOthersToGo() && assignment.preemption.Found()) {
    const bool gated = !entry->workload->spec.preemption_gates.empty() && !assignment.preemption.victims.empty();
    if (gated) return OnGated(entry);
    if (FitsAfterPreemption(*entry)) return Preempt(entry);
    host_->OnPreemptionSkipped(entry->queue);
    return OnLost(entry, overlaps ? ObstacleKind::kOverlappingTargets : ObstacleKind::kLostToAnother);
  }
  if (had_targets) host_->OnPreemptionSkipped(entry->queue);
  // Unless it could claim everything back at any time, keep for it what is free of its own, so that those after it in
  // this pass do not take that too.
  if (assignment.NeedsOthersToGo() && entry->queue->spec.reclaim_within_cohort != PreemptionPolicy::kAny) {
    ReserveForBlocked(*entry);
  }
  OnNoFit(entry);
}

bool TreePass::RecomputeTargets(Entry* entry) {
  const VictimAnswer& found = entry->assignment.preemption;
  // What those leave open may be enough, or ask for more.
  const bool overlaps = std::any_of(found.victims.begin(), found.victims.end(),
                                    [](const Victim& victim) { return victim.workload->claim->leaving; });
  if (!overlaps) return false;
  {
    const WithoutRooms without(tree_, entry->free_of);
    entry->assignment = assigner_->Reassign(*entry->workload, *entry->queue, entry->assignment);
  }
  RecomputedTargets result = RecomputedTargets::kSkipped;
  if (found.Found()) {
    result = found.victims.empty() ? RecomputedTargets::kDeferredFit : RecomputedTargets::kNewTargets;
  }
  host_->OnTargetsRecomputed(*entry->queue, result);
  return true;
}

bool TreePass::FitsAfterPreemption(const Entry& entry) const {
  const WithoutRooms without(tree_, entry.free_of);
  const WithoutVictims gone(tree_, entry.assignment.preemption.victims);
  return quota::FitsPlanned(tree_->ledger, entry.assignment.usage, true) &&
         placer_->StillFits(*entry.workload, entry.assignment, gang::PlaceView::kPlanned) &&
         machines_->FitsPlanned(*entry.workload, entry.assignment);
}

bool TreePass::PlacesLost(const Entry& entry) const {
  if (entry.assignment.HasTopology()) return !FitsAfterPreemption(entry);
  if (!entry.assignment.on_machines) return false;
  const WithoutRooms without(tree_, entry.free_of);
  const WithoutVictims gone(tree_, entry.assignment.preemption.victims);
  return quota::FitsPlanned(tree_->ledger, entry.assignment.usage, true) &&
         !machines_->FitsPlanned(*entry.workload, entry.assignment);
}

// It keeps nothing for itself.
void TreePass::OnGated(Entry* entry) {
  Assignment& assignment = entry->assignment;
  Obstacle gated = ObjectObstacle(ObstacleKind::kPreemptionGated);
  gated.names = entry->workload->spec.preemption_gates;
  assignment.obstacles.push_back(std::move(gated));
  assignment.code = ReasonCode::kAdmissionGated;
  assignment.mode = Mode::kNoFit;
  OnNoFit(entry);
}

void TreePass::Preempt(Entry* entry) {
  WorkloadState* workload = entry->workload;
  const Assignment& assignment = entry->assignment;
  const bool for_others = !assignment.preemption.victims.empty();
  for (const Victim& victim : assignment.preemption.victims) TellToGo(victim, entry);
  StartWaiting(entry, for_others);
  // Others of the pass have what it would have started with: what was kept for it before is as good. Given up and kept
  // again, it would wake all who wait for machines, and the same would follow.
  const bool has_room = workload->room != nullptr && !workload->room->future.has_value();
  if (for_others || !has_room) KeepRoom(entry, now_ + keep_room_for_);
  WaitForVictims(entry);
  // What is kept for nobody beyond this pass takes no room from others.
  if (workload->room != nullptr) RecheckRooms(entry->free_of);
}

void TreePass::TellToGo(const Victim& victim, Entry* entry) {
  host_->OnPreempt(victim, *entry->workload, *entry->queue);
  if (keep_room_for_ > Duration::zero()) entry->workload->preempted.insert(victim.workload->spec.uid);
}

void TreePass::StartWaiting(Entry* entry, bool for_others) {
  WorkloadState* workload = entry->workload;
  progress_ = true;
  for (const auto& [cell, amount] : entry->assignment.usage) {
    winners_.emplace_back(tree_->ledger.flavor_resource(cell), workload);
  }
  // A time that is over begins anew only for others than those who were waited for.
  if (for_others || tree_->leaving.empty()) workload->room_spent = false;
  if (for_others) workload->room_lost_in = 0;
  workload->scan = {};
  workload->scan_history.reset();
}

// Those who stand first take the room of those behind them, but who stands first may itself depend on what is kept:
// who has lost its room has another only for further victims, or in another turn. Otherwise preemptors could take it
// from each other for ever.
bool TreePass::MayKeepRoom(const WorkloadState& workload) const {
  return keep_room_for_ > Duration::zero() && !workload.room_spent && workload.room_lost_in != forest_->turn();
}

void TreePass::KeepRoom(Entry* entry, WallTime until) {
  const Assignment& assignment = entry->assignment;
  if (!MayKeepRoom(*entry->workload)) {
    for (const auto& [cell, amount] : assignment.usage) reserved_->Take(cell, amount, quota::Book::kPlanned);
    ReservePlaces(*entry, gang::PlaceBook::kPlanned);
    if (auto machines = KeepMachines(*entry); machines.has_value()) reserved_machines_.push_back(*std::move(machines));
    return;
  }
  std::optional<gang::Reservation> machines = KeepMachines(*entry);
  // Quota alone would be kept from others in vain.
  if (!machines.has_value()) return;
  forest_->KeepRoom(entry->workload, MakeRoom(*entry->workload, assignment, until, std::move(machines)));
}

Room TreePass::MakeRoom(const WorkloadState& workload, const Assignment& assignment, WallTime until,
                        std::optional<gang::Reservation> machines) const {
  Room room{{},
            placer_->PlacesOf(workload, assignment),
            std::make_shared<const Assignment>(assignment),
            assignment.borrow,
            until,
            std::move(machines)};
  for (const auto& [cell, amount] : assignment.usage) {
    room.usage.emplace_back(tree_->ledger.flavor_resource(cell), amount);
  }
  room.to_come = AllToCome(workload, assignment);
  return room;
}

PodsToCome TreePass::AllToCome(const WorkloadState& workload, const Assignment& assignment) {
  PodsToCome to_come{workload.spec.ns, {}};
  for (size_t i = 0; i < assignment.pod_sets.size(); ++i) {
    to_come.Add(workload.spec.pod_sets[i], assignment.pod_sets[i].count);
  }
  return to_come;
}

std::optional<gang::Reservation> TreePass::KeepMachines(const Entry& entry) {
  const WithoutRooms without(tree_, entry.free_of);
  return machines_->Keep(*entry.workload, entry.assignment);
}

void TreePass::WaitForVictims(Entry* entry) {
  WorkloadState* workload = entry->workload;
  ClusterQueueState* queue = entry->queue;
  std::vector<Obstacle> obstacles = entry->assignment.obstacles;
  Obstacle pending = ObjectObstacle(ObstacleKind::kDeferredFit);
  std::vector<Blocker> blockers;
  for (const WorkloadState* victim : host_->VictimsOf(*workload)) {
    pending.kind = ObstacleKind::kPendingPreemption;
    ++pending.count;
    if (blockers.size() < kBlockersMax) blockers.push_back(BlockerOf(*victim));
  }
  if (workload->room != nullptr) pending.until = workload->room->until;
  obstacles.push_back(std::move(pending));
  host_->SetReason(workload,
                   MakeReason(ReasonCode::kWaitingForPreemptedWorkloads, std::move(obstacles), std::move(blockers)));
  forest_->SetPreemptor(queue, workload);
  // Whatever leaves the tree wakes it.
  if (queue->waiting.strategy() == queue::Strategy::kBestEffortFIFO) {
    progress_ = true;
    queue->waiting.Park(&workload->ticket);
    forest_->Refresh(queue);
  } else {
    TellThoseBehind(queue);
    BlockBehind(*entry);
  }
}

void TreePass::BlockBehind(const Entry& entry) {
  if (entry.queue->waiting.Head() == &entry.workload->ticket) {
    forest_->Block(entry.queue);
  } else {
    progress_ = true;
  }
}

void TreePass::RecheckRooms(const std::vector<WorkloadState*>& whose) {
  for (WorkloadState* workload : whose) {
    if (workload->room == nullptr || RoomHolds(tree_, workload)) continue;
    forest_->LoseRoom(workload);
  }
}

void TreePass::RestoreRooms() {
  for (const auto& [workload, eviction] : host_->Promised(*tree_)) {
    ClusterQueueState* queue = workload->waiting_in;
    if (workload->room != nullptr || !queue->active || !Forest::MayUseRoom(*workload)) continue;
    if (!MayKeepRoom(*workload)) {
      if (workload->room_lost_in == forest_->turn()) tree_->restore_rooms = true;  // in the next one
      continue;
    }
    Entry entry{queue, workload, assigner_->Assign(*workload, *queue, {})};
    const Assignment& assignment = entry.assignment;
    const bool fits = assignment.mode == Mode::kFit;
    if (!fits && (!assignment.NeedsOthersToGo() || !assignment.preemption.victims.empty())) continue;
    // Whether policy would still let it evict them is no matter any more.
    if (!quota::FitsPlanned(tree_->ledger, assignment.usage, true)) continue;
    KeepRoom(&entry, eviction + keep_room_for_);
    if (workload->room != nullptr && queue->preemptor == nullptr) forest_->SetPreemptor(queue, workload);
  }
}

// It would be admitted, and is not yet: what it would take is nobody else's in this pass, and those behind it are
// looked at for their reasons.
void TreePass::OnBlocked(Entry* entry, std::shared_ptr<const Reason> reason, gang::Reservation machines) {
  WorkloadState* workload = entry->workload;
  reserved_machines_.push_back(std::move(machines));
  for (const auto& [cell, amount] : entry->assignment.usage) {
    reserved_->Take(cell, amount, quota::Book::kActual);
    if (workload->room == nullptr) reserved_->Take(cell, amount, quota::Book::kPlanned);
    winners_.emplace_back(tree_->ledger.flavor_resource(cell), workload);
  }
  ReservePlaces(*entry, gang::PlaceBook::kActual);
  if (workload->room == nullptr) ReservePlaces(*entry, gang::PlaceBook::kPlanned);
  workload->scan = {};
  workload->scan_history.reset();
  host_->SetReason(workload, std::move(reason));
  if (entry->queue->waiting.strategy() == queue::Strategy::kBestEffortFIFO) {
    ParkWithEquivalents(entry);
    return;
  }
  TellThoseBehind(entry->queue);
  BlockBehind(*entry);
}

void TreePass::ReservePlaces(const Entry& entry, gang::PlaceBook book) {
  for (gang::PlacedPodSet& place : placer_->PlacesOf(*entry.workload, entry.assignment)) {
    placer_->book()->Take(place, book);
    reserved_places_.emplace_back(std::move(place), book);
  }
}

void TreePass::ReserveForBlocked(const Entry& entry) {
  for (const gang::PlaceBook book : gang::kPlaceBooks) ReservePlaces(entry, book);
  for (const auto& [cell, amount] : entry.assignment.usage) {
    const quota::Limits& limits = tree_->ledger.limits(cell);
    const Amount used = tree_->ledger.Usage(cell, quota::Book::kActual);
    Amount keep = amount;
    if (entry.assignment.borrow == 0) {
      keep = std::min(amount, limits.nominal - used);
    } else if (limits.borrowing_limit.has_value()) {
      keep = std::min(amount, limits.nominal + *limits.borrowing_limit - used);
    }
    // Room that is kept for others is promised; this is not.
    if (!tree_->keeping.empty()) keep = std::min(keep, tree_->ledger.Available(cell, quota::Book::kPlanned));
    if (keep <= Amount{0}) continue;
    for (const quota::Book book : quota::kBooks) reserved_->Take(cell, keep, book);
    winners_.emplace_back(tree_->ledger.flavor_resource(cell), entry.workload);
  }
}

void TreePass::OnNoFit(Entry* entry) {
  WorkloadState* workload = entry->workload;
  host_->OnNoFit(entry->assignment.obstacles);
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
  if (whole && entry->assignment.mode == Mode::kNoFit) BlockBehind(*entry);
}

bool TreePass::KeepProgress(Entry* entry) {
  ScanProgress& scan = entry->workload->scan;
  const uint64_t start = StartHash(scan);
  const uint64_t next = StartHash(entry->assignment.scan);
  bool goes_on = false;
  if (start != 0 || next != 0) {
    std::unique_ptr<ScanHistory>& history = entry->workload->scan_history;
    if (history == nullptr) history = std::make_unique<ScanHistory>();
    if (history->tree_version != nominated_at_) *history = {nominated_at_, {}, {}};
    if (!entry->lost || !history->lost.insert(start).second) history->starts.insert(start);
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
    WorkloadState* like = host_->OfTicket(other);
    // What stands in the way of one is not what does so of its like from a namespace that the queue does not take.
    host_->SetReason(like, host_->NamespaceMatches(*queue, *like) ? reason : NamespaceMismatch(*queue));
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

void TreePass::OnLost(Entry* entry, ObstacleKind kind) {
  entry->lost = true;
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
  host_->SetReason(entry->workload, MakeReason(ReasonCode::kWaitingForQuota, {ObjectObstacle(kind, entry->queue->name)},
                                               std::move(blockers)));
}

}  // namespace muster::engine
