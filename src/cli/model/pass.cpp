#include "pass.h"

#include <algorithm>
#include <utility>

namespace muster::cli::model {

namespace {

using engine::PreemptionPolicy;
using engine::QueueingStrategy;

using Gangs = std::vector<Gang*>;

struct Entry {
  Gang* gang = nullptr;
  Plan plan;
  bool keeps = false;  // waits on, in the room that is kept for it
  Gangs free_of;       // whose rooms do not bind it
  bool processed = false;
  bool lost = false;  // to others of the pass
};

// For as long a head may stay that nothing is decided on, and those wait who were parked half way.
constexpr Duration kPatience = std::chrono::seconds(10);

// Where the next scan starts; empty: everywhere with the first flavor.
std::vector<int> StartOf(std::vector<int> tried) {
  if (std::none_of(tried.begin(), tried.end(), [](int index) { return index >= 0; })) return {};
  for (int& index : tried) index = std::max(index, Scan::kLast);
  return tried;
}

// What holds for one of them holds for both.
bool AreAlike(const Gang& a, const Gang& b) {
  return a.spec.priority == b.spec.priority &&
         std::equal(a.spec.pod_sets.begin(), a.spec.pod_sets.end(), b.spec.pod_sets.begin(), b.spec.pod_sets.end(),
                    [](const engine::PodSet& x, const engine::PodSet& y) {
                      return x.name == y.name && x.count == y.count && x.min_count == y.min_count &&
                             *x.shape == *y.shape;
                    });
}

class Pass {
 public:
  Pass(State* state, int root, int64_t number, int64_t turn, WallTime now)
      : state_(*state), root_(root), number_(number), turn_(turn), now_(now), books_(BooksOf(*state)) {}

  Expected Run();

 private:
  const engine::ClusterQueue& SpecOf(const Gang& gang) const { return state_.SpecOf(gang.waits_in); }
  const std::string& QueueNameOf(const Gang& gang) const { return state_.tree.node(gang.waits_in).name; }
  Gangs Keeping() const;

  // ---- rooms
  bool MayUseRoom(const Gang& gang) const;
  void EndRooms();
  void RestoreRooms();
  void KeepRoom(Gang* gang, const Plan& plan, WallTime until);
  void GiveUpRoom(Gang* gang);
  void LoseRoom(Gang* gang);
  bool MayKeepRoom(const Gang& gang) const;
  bool RoomHolds(Gang* gang) const;
  void RecheckRooms(const Gangs& whose);
  Gangs OpenTo(const Gang& gang, bool borrows) const;
  Books Without(const Gangs& rooms) const;

  // ---- nomination
  void Nominate();
  Entry NominateOne(Gang* gang);
  void TryOpenRooms(Entry* entry) const;

  // ---- order
  Entry* Next();
  Entry* Winner(int node);
  bool GoesFirst(int a_side, const Entry& a, int b_side, const Entry& b) const;

  // ---- processing
  void Process(Entry* entry);
  void OnFits(Entry* entry);
  void OnNeedsOthersToGo(Entry* entry);
  void Preempt(Entry* entry);
  void ReserveForBlocked(const Entry& entry);
  void OnNoFit(const Entry& entry);
  void OnLost(Entry* entry);
  void WaitForVictims(Gang* gang);
  void Park(Gang* gang);
  void ParkWithEquals(Gang* gang);
  bool KeepScan(const Entry& entry);
  void NoteStalls();

  State& state_;
  int root_;
  int64_t number_;
  int64_t turn_;
  WallTime now_;
  Books books_;
  std::set<const Gang*> lifted_;  // their rooms are not in the books for the moment
  bool wakes_ = false;            // somebody has lost his room
  std::vector<Entry> entries_;
  Expected expected_;
};

Gangs Pass::Keeping() const {
  Gangs keeping;
  for (auto& [uid, gang] : state_.gangs) {
    if (gang.room.has_value() && state_.tree.RootOf(gang.waits_in) == root_) keeping.push_back(&gang);
  }
  return keeping;
}

// ---- rooms --------------------------------------------------------------------------------------

bool Pass::MayKeepRoom(const Gang& gang) const {
  return state_.keep_room_for > Duration::zero() && !gang.room_spent && gang.room_lost_in != turn_;
}

void Pass::GiveUpRoom(Gang* gang) {
  if (!gang->room.has_value()) return;
  books_.planned.Remove(gang->waits_in, gang->room->amounts);
  gang->room.reset();
}

void Pass::LoseRoom(Gang* gang) {
  GiveUpRoom(gang);
  gang->room_lost_in = turn_;
  wakes_ = true;
}

void Pass::KeepRoom(Gang* gang, const Plan& plan, WallTime until) {
  GiveUpRoom(gang);
  books_.planned.Add(gang->waits_in, plan.needs);
  if (MayKeepRoom(*gang)) gang->room = Room{plan.needs, plan.borrow > 0, until};
}

bool Pass::RoomHolds(Gang* gang) const {
  return FitsIn(Without({gang}).planned, gang->waits_in, gang->room->amounts, true);
}

void Pass::RecheckRooms(const Gangs& whose) {
  for (Gang* gang : whose) {
    if (gang->room.has_value() && !RoomHolds(gang)) LoseRoom(gang);
  }
}

Books Pass::Without(const Gangs& rooms) const {
  Books books = books_;
  for (const Gang* gang : rooms) {
    if (gang->room.has_value() && !lifted_.contains(gang)) {
      books.planned.Remove(gang->waits_in, gang->room->amounts);
    }
  }
  return books;
}

Gangs Pass::OpenTo(const Gang& gang, bool borrows) const {
  Gangs open;
  for (Gang* keeper : Keeping()) {
    if (keeper == &gang || state_.HadToGoFor(gang, *keeper)) continue;
    const bool before = keeper->waits_in == gang.waits_in  ? state_.StandsBefore(gang, *keeper)
                        : borrows != keeper->room->borrows ? keeper->room->borrows
                                                           : Earlier(gang, *keeper);
    if (before) open.push_back(keeper);
  }
  return open;
}

// The head of a StrictFIFO ClusterQueue alone can use any.
bool Pass::MayUseRoom(const Gang& gang) const {
  return state_.IsActive(gang.waits_in) &&
         (SpecOf(gang).queueing_strategy != QueueingStrategy::kStrictFIFO || state_.HeadOf(gang.waits_in) == &gang);
}

void Pass::EndRooms() {
  for (Gang* gang : Keeping()) {
    if (!MayUseRoom(*gang)) LoseRoom(gang);
  }
}

void Pass::RestoreRooms() {
  Gangs promised;
  for (auto& [uid, gang] : state_.gangs) {
    if (gang.waits_in < 0 || state_.tree.RootOf(gang.waits_in) != root_ || !gang.promised_at.IsSet()) continue;
    if (gang.promised_at + state_.keep_room_for > now_) promised.push_back(&gang);
  }
  std::sort(promised.begin(), promised.end(), [](Gang* a, Gang* b) { return Earlier(*a, *b); });
  for (Gang* gang : promised) {
    if (gang->room.has_value() || !MayKeepRoom(*gang) || !MayUseRoom(*gang)) continue;
    const Plan plan = MakePlan(state_, books_, *gang, gang->waits_in, {});
    if (plan.mode == Mode::kNoFit || !plan.victims.targets.empty()) continue;
    if (!FitsIn(books_.planned, gang->waits_in, plan.needs, true)) continue;
    KeepRoom(gang, plan, gang->promised_at + state_.keep_room_for);
    if (SpecOf(*gang).queueing_strategy == QueueingStrategy::kBestEffortFIFO) {
      std::string& first = state_.MemoryOf(gang->waits_in).preemptor;
      if (first.empty()) first = gang->spec.uid;
    }
  }
}

// ---- nomination -----------------------------------------------------------------------------------

void Pass::Nominate() {
  Gangs keepers;
  Gangs others;
  for (const int queue : state_.tree.QueuesBelow(root_)) {
    Gang* head = state_.IsActive(queue) ? state_.HeadOf(queue) : nullptr;
    if (head == nullptr) continue;
    if (!state_.NamespaceMatches(queue, *head)) {
      expected_.waiting[head->spec.uid] = engine::ReasonCode::kMisconfigured;
      Park(head);
    } else if (!head->spec.invalid.empty()) {
      if (state_.SpecOf(queue).queueing_strategy == QueueingStrategy::kBestEffortFIFO) Park(head);
    } else {
      (head->room.has_value() ? keepers : others).push_back(head);
    }
  }
  for (Gang* gang : keepers) entries_.push_back(NominateOne(gang));
  // What is kept for those who start now is nominated for as if it were free; they come first when it is their turn.
  const Books all = books_;
  Gangs starting;
  for (const Entry& entry : entries_) {
    if (entry.plan.mode == Mode::kFit) starting.push_back(entry.gang);
  }
  books_ = Without(starting);
  lifted_ = {starting.begin(), starting.end()};
  for (Gang* gang : others) entries_.push_back(NominateOne(gang));
  lifted_.clear();
  books_ = all;
}

Entry Pass::NominateOne(Gang* gang) {
  Scan& scan = gang->scan;
  if (number_ - scan.pass > 1 && state_.MemoryOf(gang->waits_in).generation > scan.generation) scan = {};
  gang->looked_at = now_;
  Entry entry;
  entry.gang = gang;
  if (gang->room.has_value()) {
    entry.plan = MakePlan(state_, Without({gang}), *gang, gang->waits_in, scan.tried);
    if (entry.plan.mode != Mode::kFit) entry.plan = MakePlan(state_, Without({gang}), *gang, gang->waits_in, {});
    if (entry.plan.mode == Mode::kFit) {
      entry.free_of = OpenTo(*gang, entry.plan.borrow > 0);
      entry.free_of.push_back(gang);
      return entry;
    }
    entry.keeps = RoomHolds(gang);
    if (entry.keeps) return entry;
    LoseRoom(gang);
  }
  entry.plan = MakePlan(state_, books_, *gang, gang->waits_in, scan.tried);
  if (entry.plan.mode != Mode::kFit) TryOpenRooms(&entry);
  entry.free_of = OpenTo(*gang, entry.plan.borrow > 0);
  return entry;
}

// In the rooms of those whom it comes before.
void Pass::TryOpenRooms(Entry* entry) const {
  const Gang& gang = *entry->gang;
  Gangs open = OpenTo(gang, false);
  if (open.empty()) return;
  Plan plan = MakePlan(state_, Without(open), gang, gang.waits_in, gang.scan.tried);
  if (plan.borrow > 0) {
    const Gangs fewer = OpenTo(gang, true);
    if (fewer.empty()) return;
    if (fewer != open) plan = MakePlan(state_, Without(fewer), gang, gang.waits_in, gang.scan.tried);
  }
  if (plan.mode == Mode::kFit || (plan.victims.Found() && !entry->plan.victims.Found())) entry->plan = plan;
}

// ---- order ----------------------------------------------------------------------------------------

Entry* Pass::Next() {
  if (state_.fair_sharing.has_value()) return Winner(root_);
  Entry* first = nullptr;
  for (Entry& entry : entries_) {
    if (entry.processed) continue;
    const bool before =
        first == nullptr || (entry.plan.borrow != first->plan.borrow ? entry.plan.borrow < first->plan.borrow
                                                                     : Earlier(*entry.gang, *first->gang));
    if (before) first = &entry;
  }
  return first;
}

// Of a tournament: at each cohort, who of its children would not borrow what it asks for, then whose share is smaller.
Entry* Pass::Winner(int node) {
  if (state_.tree.node(node).is_queue) {
    const auto own = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return !entry.processed && entry.gang->waits_in == node; });
    return own == entries_.end() ? nullptr : &*own;
  }
  Entry* first = nullptr;
  int first_side = -1;
  for (const int child : state_.tree.node(node).children) {
    Entry* entry = Winner(child);
    if (entry == nullptr || (first != nullptr && !GoesFirst(child, *entry, first_side, *first))) continue;
    first = entry;
    first_side = child;
  }
  return first;
}

bool Pass::GoesFirst(int a_side, const Entry& a, int b_side, const Entry& b) const {
  const auto of = [this](int side, const Entry& entry) {
    Usage with = Without({entry.gang}).planned;
    with.Add(entry.gang->waits_in, entry.plan.needs);
    std::set<Fr> asked;
    for (const auto& [fr, amount] : entry.plan.needs) asked.insert(fr);
    return std::pair(!with.WithinQuota(side, asked), with.ShareOf(side));
  };
  const auto [a_borrows, a_share] = of(a_side, a);
  const auto [b_borrows, b_share] = of(b_side, b);
  if (a_borrows != b_borrows) return b_borrows;
  if (Less(a_share, b_share) || Less(b_share, a_share)) return Less(a_share, b_share);
  return Earlier(*a.gang, *b.gang);
}

// ---- processing -----------------------------------------------------------------------------------

// RETURNS: whether the next attempt starts where none has started since anything changed.
bool Pass::KeepScan(const Entry& entry) {
  Gang& gang = *entry.gang;
  const std::vector<int> next = StartOf(entry.plan.tried);
  const std::vector<int> start = StartOf(gang.scan.tried);
  // Whoever lost to others may find that they have gone: once.
  if (!entry.lost || !gang.lost_starts.insert(start).second) gang.starts.insert(start);
  gang.scan = {entry.plan.tried, number_, state_.MemoryOf(gang.waits_in).generation};
  return (!start.empty() || !next.empty()) && !gang.starts.contains(next);
}

void Pass::Park(Gang* gang) {
  gang->parked = true;
  expected_.goes_on = true;
}

void Pass::ParkWithEquals(Gang* gang) {
  Park(gang);
  for (Gang* other : state_.WaitingIn(gang->waits_in)) {
    if (other->parked || !AreAlike(*gang, *other)) continue;
    other->parked = true;
    other->looked_at = now_;
  }
}

void Pass::OnNoFit(const Entry& entry) {
  expected_.waiting[entry.gang->spec.uid] = entry.plan.code;
  const bool whole = StartOf(entry.gang->scan.tried).empty();
  const bool goes_on = KeepScan(entry);
  if (!StartOf(entry.gang->scan.tried).empty()) {
    expected_.goes_on = expected_.goes_on || goes_on;
    return;
  }
  entry.gang->ForgetStarts();
  if (SpecOf(*entry.gang).queueing_strategy == QueueingStrategy::kStrictFIFO) {
    expected_.goes_on = expected_.goes_on || goes_on;
    return;
  }
  ParkWithEquals(entry.gang);
  QueueMemory& memory = state_.MemoryOf(entry.gang->waits_in);
  if (!whole && !memory.recheck_at.IsSet()) memory.recheck_at = now_ + kPatience;
}

void Pass::OnLost(Entry* entry) {
  entry->lost = true;
  expected_.waiting[entry->gang->spec.uid] = engine::ReasonCode::kWaitingForQuota;
  if (KeepScan(*entry)) expected_.goes_on = true;
}

void Pass::WaitForVictims(Gang* gang) {
  expected_.waiting[gang->spec.uid] = engine::ReasonCode::kWaitingForPreemptedWorkloads;
  if (SpecOf(*gang).queueing_strategy == QueueingStrategy::kStrictFIFO) return;
  state_.MemoryOf(gang->waits_in).preemptor = gang->spec.uid;
  Park(gang);
}

void Pass::Process(Entry* entry) {
  entry->processed = true;
  if (entry->keeps) {
    if (entry->gang->room.has_value()) WaitForVictims(entry->gang);
  } else if (entry->plan.mode == Mode::kFit) {
    OnFits(entry);
  } else if (entry->plan.mode == Mode::kNoFit) {
    OnNoFit(*entry);
  } else {
    OnNeedsOthersToGo(entry);
  }
}

void Pass::OnFits(Entry* entry) {
  Gang* gang = entry->gang;
  if (!Without(entry->free_of).Fits(gang->waits_in, entry->plan.needs)) {
    OnLost(entry);
    return;
  }
  expected_.goes_on = true;
  GiveUpRoom(gang);
  books_.actual.Add(gang->waits_in, entry->plan.needs);
  books_.planned.Add(gang->waits_in, entry->plan.needs);
  ++state_.MemoryOf(gang->waits_in).generation;
  engine::Admission admission;
  admission.cluster_queue = QueueNameOf(*gang);
  for (size_t i = 0; i < entry->plan.counts.size(); ++i) {
    engine::PodSetAssignment& assigned = admission.pod_sets.emplace_back();
    assigned.name = gang->spec.pod_sets[i].name;
    assigned.count = entry->plan.counts[i];
    assigned.flavors.assign(entry->plan.flavors[i].begin(), entry->plan.flavors[i].end());
  }
  expected_.admitted.push_back({gang->spec.uid, std::move(admission)});
  RecheckRooms(entry->free_of);
}

void Pass::OnNeedsOthersToGo(Entry* entry) {
  Gang* gang = entry->gang;
  const auto& targets = entry->plan.victims.targets;
  if (std::any_of(targets.begin(), targets.end(),
                  [&](const Target& one) { return books_.leaving.contains(one.gang); })) {
    entry->plan = PlanAgain(state_, Without(entry->free_of), *gang, gang->waits_in, entry->plan);
  }
  if (entry->plan.NeedsOthersToGo() && entry->plan.victims.Found()) {
    Usage after = Without(entry->free_of).planned;
    for (const Target& target : entry->plan.victims.targets) {
      after.Remove(state_.HeldIn(*target.gang), state_.AmountsOf(*target.gang));
    }
    if (FitsIn(after, gang->waits_in, entry->plan.needs, true)) return Preempt(entry);
    return OnLost(entry);
  }
  if (entry->plan.NeedsOthersToGo() && SpecOf(*gang).reclaim_within_cohort != PreemptionPolicy::kAny) {
    ReserveForBlocked(*entry);
  }
  OnNoFit(*entry);
}

void Pass::Preempt(Entry* entry) {
  Gang* gang = entry->gang;
  expected_.goes_on = true;
  for (const Target& target : entry->plan.victims.targets) {
    const int queue = state_.HeldIn(*target.gang);
    books_.planned.Remove(queue, state_.AmountsOf(*target.gang));
    books_.leaving.insert(target.gang);
    ++state_.MemoryOf(queue).generation;
    if (state_.keep_room_for > Duration::zero()) gang->preempted.insert(target.gang->spec.uid);
    gang->promised_at = now_;
    expected_.evicted.push_back({target.gang->spec.uid, target.reason, gang->spec.uid});
  }
  if (!entry->plan.victims.targets.empty()) {
    gang->room_spent = false;
    gang->room_lost_in = -1;
  }
  gang->scan = {};
  gang->ForgetStarts();
  KeepRoom(gang, entry->plan, now_ + state_.keep_room_for);
  WaitForVictims(gang);
  if (gang->room.has_value()) RecheckRooms(entry->free_of);
}

// What is free of its own is kept from those after it, for this pass; room that is kept for others is not free.
void Pass::ReserveForBlocked(const Entry& entry) {
  const int queue = entry.gang->waits_in;
  const bool promised = !Keeping().empty();
  for (const auto& [fr, amount] : entry.plan.needs) {
    const Quota quota = state_.tree.QuotaOf(queue, fr);
    const Amount used = books_.actual.Used(queue, fr);
    Amount keep = amount;
    if (entry.plan.borrow == 0) {
      keep = std::min(amount, quota.nominal - used);
    } else if (quota.borrowing_limit.has_value()) {
      keep = std::min(amount, quota.nominal + *quota.borrowing_limit - used);
    }
    if (promised) keep = std::min(keep, books_.planned.Available(queue, fr));
    if (keep <= Amount{0}) continue;
    books_.actual.Add(queue, {{fr, keep}});
    books_.planned.Add(queue, {{fr, keep}});
  }
}

void Pass::NoteStalls() {
  for (const Entry& entry : entries_) {
    const int queue = entry.gang->waits_in;
    if (SpecOf(*entry.gang).queueing_strategy != QueueingStrategy::kBestEffortFIFO) continue;
    QueueMemory& memory = state_.MemoryOf(queue);
    if (state_.HeadOf(queue) != entry.gang || memory.stalled_head == entry.gang->spec.uid) continue;
    memory.stalled_head = entry.gang->spec.uid;
    memory.stall_ends = now_ + kPatience;
    memory.stall_lost = entry.lost;
  }
}

Expected Pass::Run() {
  TreeMemory& memory = state_.TreeOf(root_);
  for (const int queue : state_.tree.QueuesBelow(root_)) {
    if (!memory.wakes && !state_.MemoryOf(queue).recheck_due) continue;
    state_.MemoryOf(queue).recheck_due = false;
    for (Gang* gang : state_.WaitingIn(queue)) {
      if (gang->spec.invalid.empty() && state_.NamespaceMatches(queue, *gang)) gang->parked = false;
    }
  }
  memory.wakes = false;
  EndRooms();
  RestoreRooms();
  Nominate();
  while (Entry* entry = Next()) Process(entry);
  if (!expected_.goes_on) NoteStalls();
  memory.wakes = wakes_;
  memory.active = expected_.goes_on || wakes_;
  return std::move(expected_);
}

}  // namespace

void Wake(State* state, int node) {
  TreeMemory& memory = state->TreeOf(node);
  memory.wakes = true;
  memory.active = true;
  for (auto& [uid, gang] : state->gangs) {
    if (gang.waits_in >= 0 && state->tree.RootOf(gang.waits_in) == state->tree.RootOf(node)) gang.ForgetStarts();
  }
}

void LetTimePass(State* state, WallTime now) {
  for (const auto& [name, spec] : state->queues) {
    const int queue = state->tree.QueueOf(name);
    QueueMemory& memory = state->MemoryOf(queue);
    const Gang* head = state->HeadOf(queue);
    if (head == nullptr || head->spec.uid != memory.stalled_head) memory.stalled_head.clear();
    if (!memory.stalled_head.empty() && memory.stall_ends <= now) {
      if (std::exchange(memory.stall_lost, false)) {
        memory.stall_ends = now + kPatience;
        state->TreeOf(queue).active = true;
      } else {
        state->HeadOf(queue)->parked = true;
        state->TreeOf(queue).active = true;
        memory.stalled_head.clear();
      }
    }
    if (memory.recheck_at.IsSet() && memory.recheck_at <= now) {
      const bool busy = state->IsActive(queue) && state->HeadOf(queue) != nullptr;
      memory.recheck_at = busy ? now + kPatience : WallTime{};
      memory.recheck_due = state->IsActive(queue) && !busy;
      if (memory.recheck_due) state->TreeOf(queue).active = true;
    }
  }
  for (auto& [uid, gang] : state->gangs) {
    if (!gang.room.has_value() || now < gang.room->until) continue;
    gang.room.reset();
    gang.room_spent = true;
    Wake(state, gang.waits_in);
  }
}

Books BooksOf(const State& state) {
  Books books(&state.tree);
  for (const auto& [uid, gang] : state.gangs) {
    if (const int queue = state.HeldIn(gang); queue >= 0) {
      books.actual.Add(queue, state.AmountsOf(gang));
      books.planned.Add(queue, state.AmountsOf(gang));
    }
    if (gang.room.has_value()) books.planned.Add(gang.waits_in, gang.room->amounts);
  }
  return books;
}

Expected RunPass(State* state, int root, int64_t number, int64_t turn, WallTime now) {
  return Pass(state, root, number, turn, now).Run();
}

}  // namespace muster::cli::model
