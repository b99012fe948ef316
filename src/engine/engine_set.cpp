#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

#include "classical_search.h"
#include "engine_impl.h"
#include "fair_order.h"
#include "fair_search.h"
#include "muster/core/check.h"

namespace muster::engine {

std::string ClaimId::ToString() const { return absl::StrCat(epoch, "-", sequence); }

std::optional<ClaimId> ClaimId::Parse(std::string_view text) {
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto number = [](std::string_view digits) -> std::optional<uint64_t> {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || digits.empty()) return std::nullopt;
    return value;
  };
  const std::optional<uint64_t> epoch = number(text.substr(0, dash));
  const std::optional<uint64_t> sequence = number(text.substr(dash + 1));
  if (!epoch.has_value() || !sequence.has_value()) return std::nullopt;
  return ClaimId{*epoch, *sequence};
}

// ---- the set ------------------------------------------------------------------------------------

EngineSet::EngineSet(EngineOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
EngineSet::~EngineSet() = default;

void EngineSet::Apply(const Event& event) {
  impl_->BeginTurn();
  std::visit([this](const auto& change) { impl_->Apply(change); }, event);
  impl_->AfterEvent();
}

PassResult EngineSet::RunPass(WallTime now) { return impl_->RunPass(now); }
std::vector<Decision> EngineSet::Decide(WallTime now) { return impl_->Decide(now); }
WallTime EngineSet::NextDue() const { return impl_->NextDue(); }
ClusterQueueView EngineSet::ViewClusterQueue(const std::string& name) const { return impl_->ViewClusterQueue(name); }
LocalQueueView EngineSet::ViewLocalQueue(const std::string& ns, const std::string& name) const {
  return impl_->ViewLocalQueue(ns, name);
}
std::vector<std::string> EngineSet::ClusterQueueNames() const { return impl_->ClusterQueueNames(); }
std::vector<CohortView> EngineSet::ViewCohorts() const { return impl_->ViewCohorts(); }
CohortView EngineSet::ViewCohort(const std::string& name) const { return impl_->ViewCohort(name); }
std::vector<std::string> EngineSet::CohortNames() const { return impl_->CohortNames(); }
std::vector<std::pair<std::string, std::string>> EngineSet::LocalQueueNames() const { return impl_->LocalQueueNames(); }
std::optional<WorkloadView> EngineSet::ViewWorkload(const std::string& uid) const { return impl_->ViewWorkload(uid); }
PendingView EngineSet::ViewPending(const std::string& cluster_queue) const { return impl_->ViewPending(cluster_queue); }
WaitCounts EngineSet::WaitingWithoutLocalQueue() const { return impl_->WaitingWithoutLocalQueue(); }
std::vector<std::string> EngineSet::CohortsOf(const std::string& cluster_queue) const {
  return impl_->CohortsOf(cluster_queue);
}
ChangedQueues EngineSet::TakeChangedQueues() { return impl_->TakeChangedQueues(); }
std::vector<TargetRecomputations> EngineSet::TakeTargetRecomputations() { return impl_->TakeTargetRecomputations(); }
int64_t EngineSet::unwritten_claims() const { return impl_->unwritten_claims(); }
gang::RoomCounts EngineSet::MachineCounts() const { return impl_->MachineCounts(); }
std::vector<FlavorRoomView> EngineSet::ViewFlavorRoom() const { return impl_->ViewFlavorRoom(); }
std::shared_ptr<const std::vector<UnservedQuota>> EngineSet::UnservedQuotas() const { return impl_->UnservedQuotas(); }
std::vector<FitFailures> EngineSet::ViewFitFailures() const { return impl_->ViewFitFailures(); }
std::vector<HolderOnNode> EngineSet::HoldersOn(std::string_view hostname) const { return impl_->HoldersOn(hostname); }
std::vector<std::string> EngineSet::HostsWithPlaces() const { return impl_->HostsWithPlaces(); }
uint64_t EngineSet::StateHash() const { return impl_->StateHash(); }
void EngineSet::Validate() const { impl_->Validate(); }

// ---- passes -------------------------------------------------------------------------------------

EngineSet::Impl::Impl(EngineOptions options) : options_(std::move(options)) {
  MUSTER_CHECK(options_.epoch != 0);
  if (options_.admission_fair_sharing.has_value()) {
    admission_shares_.emplace(*options_.admission_fair_sharing, &catalog_);
  }
}

std::vector<std::unique_ptr<gang::RoomAsker>> EngineSet::Impl::MakeAskers() {
  std::vector<std::unique_ptr<gang::RoomAsker>> askers;
  while (askers.size() < deciders_.count()) askers.push_back(std::make_unique<gang::RoomAsker>(&machines_));
  return askers;
}

PassResult EngineSet::Impl::RunPass(WallTime now) {
  ++run_;
  PassResult result = RunOnePass(now);
  TakeHolds(&result.decisions);
  return result;
}

bool EngineSet::Impl::MayStay(WorkloadState* victim) {
  const Claim& claim = *victim->claim;
  if (claim.queue->tree == nullptr) return false;
  // Where it was to go is kept for it, which would count it twice.
  std::unique_ptr<Room> onward = forest_.TakeOnward(victim);
  bool fits = quota::FitsPlanned(claim.queue->tree->ledger, BookedBy(*victim), true) &&
              topologies_.Fits(claim.places, gang::PlaceView::kPlanned);
  {
    LiftedMachines lifted(askers_.front().get());
    if (onward != nullptr && onward->machines.has_value()) lifted.Lift(*onward->machines);
    fits = fits && askers_.front()->Holds(claim.machines);
  }
  if (!fits && onward != nullptr) forest_.KeepOnward(victim, std::move(*onward));
  return fits;
}

std::vector<Decision> EngineSet::Impl::Decide(WallTime now) {
  ++run_;
  std::vector<Decision> decisions;
  std::map<std::string, std::vector<std::string>> taken_back;  // uids of victims, by preemptor
  // Nobody was told of it yet, and others took the room that it was to make: the victim would start again, only to go
  // once more when there is room for its preemptor. It stays, unless others count on what it leaves.
  const auto take_back = [&](const Decision& decision) {
    const auto* evict = std::get_if<Evict>(&decision);
    if (evict == nullptr) return false;
    WorkloadState* victim = FindHolder(evict->uid, evict->claim);
    const WorkloadState* preemptor = FindPreemptor(evict->preemptor_uid);
    if (victim == nullptr || preemptor == nullptr || preemptor->room_lost_in != forest_.turn()) return false;
    if (!MayStay(victim)) return false;
    SetEviction(victim, std::nullopt);
    CheckEviction(victim);
    taken_back[evict->preemptor_uid].push_back(evict->uid);
    return true;
  };
  for (bool more = true; more;) {
    PassResult result = RunOnePass(now);
    std::move(result.decisions.begin(), result.decisions.end(), std::back_inserter(decisions));
    const bool limited = AtClaimLimit();
    if (result.more && !limited) continue;
    more = std::erase_if(decisions, take_back) > 0 && !limited;
  }
  for (const auto& [preemptor_uid, victims] : taken_back) {
    WorkloadState* preemptor = FindPreemptor(preemptor_uid);
    for (const std::string& victim : victims) preemptor->preempted.erase(victim);  // it may evict them in another turn
    promises_.erase(preemptor_uid);
    for (const WorkloadState* victim : VictimsOf(*preemptor)) NotePromise(preemptor_uid, victim->claim->eviction->at);
    if (WasMoved(*preemptor)) NotePromise(preemptor_uid, preemptor->last_eviction->at);
  }
  for (auto it = workloads_.begin(); !taken_back.empty() && it != workloads_.end(); ++it) {
    const std::optional<PastEviction>& past = it->second->last_eviction;
    if (past.has_value() && taken_back.contains(past->preemptor_uid)) NotePromise(past->preemptor_uid, past->at);
  }
  TakeHolds(&decisions);
  return decisions;
}

// A pass of one tree, with what it needs.
struct TreeRun {
  TreeRun(Tree* of, const Catalog* catalog, const TopologyPlacer* placer, gang::RoomAsker* asker, Forest* forest,
          PassHost* host, const EngineOptions& options, uint64_t number, WallTime now)
      : tree(of),
        classical(of, options.victim_search_steps_max),
        fair(of, options.victim_search_steps_max, options.fair_sharing.value_or(FairSharing{})),
        machines(catalog, asker),
        assigner(catalog, &of->ledger,
                 options.fair_sharing.has_value() ? static_cast<const VictimSearch*>(&fair) : &classical, placer,
                 &machines, &of->namespaces, options.ignore_undeclared_resources),
        fair_order(of),
        pass(forest, &assigner, placer, &machines, host,
             options.fair_sharing.has_value() ? static_cast<PassOrder*>(&fair_order) : &classical_order, number, now,
             options) {
    tree->machines = asker;
  }

  // Machines are looked at by that one from now on.
  void Ask(gang::RoomAsker* asker) {
    machines.Ask(asker);
    tree->machines = asker;
  }

  Tree* tree;
  ClassicalSearch classical;
  FairSearch fair;
  MachinePlacer machines;
  Assigner assigner;
  ClassicalOrder classical_order;
  FairOrder fair_order;
  TreePass pass;
};

namespace {

// Trees share nothing but nodes. Where several look for places there, the entries of all are processed in one order.
TreePass* NextOf(const TreeRuns& runs, bool in_one_order) {
  TreePass* first = nullptr;
  for (const std::unique_ptr<TreeRun>& run : runs) {
    const Entry* next = run->pass.next();
    if (next == nullptr || (first != nullptr && !ComesBefore(*next, *first->next()))) continue;
    first = &run->pass;
    if (!in_one_order) break;
  }
  return first;
}

// Whoever lost a place in topologies, or keeps one from others for the length of a pass, is looked at again for as long
// as any tree that looks there gets on. `looks_there`: when all were nominated: who has lost its place to another may
// look nowhere by now.
void FinishTrees(const TreeRuns& runs, std::vector<bool> looks_there, Forest* forest) {
  std::vector<bool> progress;
  bool gets_on = false;
  for (size_t i = 0; i < runs.size(); ++i) {
    looks_there[i] = looks_there[i] || runs[i]->pass.LooksInTopologies();
    progress.push_back(runs[i]->pass.Finish());
    gets_on = gets_on || (progress.back() && looks_there[i]);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    Tree* tree = runs[i]->tree;
    const bool goes_on = progress[i] || (gets_on && looks_there[i]);
    forest->resting_trees().erase(tree);
    if (goes_on && !tree->ready.empty()) continue;
    forest->active_trees().erase(tree);
    if (looks_there[i] && !tree->ready.empty()) forest->resting_trees().insert(tree);
    if (std::exchange(tree->flush_when_idle, false)) forest->RequestFlush(tree);
  }
}

// For the first of all trees in each flavor.
void ReserveMachinesAhead(const TreeRuns& runs) {
  std::vector<std::pair<Entry*, TreePass*>> due;
  for (const std::unique_ptr<TreeRun>& run : runs) {
    for (Entry* entry : run->pass.DueForMachines()) due.emplace_back(entry, &run->pass);
  }
  std::sort(due.begin(), due.end(), [](const auto& a, const auto& b) {
    return queue::Earlier()(&a.first->workload->ticket, &b.first->workload->ticket);
  });
  bool any = false;
  for (const auto& [entry, pass] : due) any = pass->ReserveMachinesAhead(entry) || any;
  // Others were nominated before: who does not get through now may still be let in there.
  for (const std::unique_ptr<TreeRun>& run : runs) run->tree->flush_when_idle = run->tree->flush_when_idle || any;
}

void ProcessEntries(const TreeRuns& runs) {
  const bool in_one_order =
      std::count_if(runs.begin(), runs.end(), [](const auto& run) { return run->pass.LooksForPlaces(); }) > 1;
  while (TreePass* pass = NextOf(runs, in_one_order)) pass->Step();
}

}  // namespace

// Topologies are put back as they were after each question: who asks about them is one after the other.
void EngineSet::Impl::NominateAll(std::span<const std::unique_ptr<TreeRun>> runs) {
  std::vector<std::vector<TreeRun*>> tasks;
  std::vector<TreeRun*> in_topologies;
  const bool topologies = topologies_.HasFlavors() || forest_.HasPlaces();
  for (const std::unique_ptr<TreeRun>& run : runs) {
    run->pass.ForEachToNominate([this](const WorkloadState& workload) {
      for (const PodSet& pod_set : workload.spec.pod_sets) machines_.Announce(*pod_set.shape);
    });
    if (topologies && LooksInTopologies(*run->tree)) {
      in_topologies.push_back(run.get());
    } else {
      tasks.push_back({run.get()});
    }
  }
  if (!in_topologies.empty()) tasks.insert(tasks.begin(), std::move(in_topologies));
  machines_.Share(true);
  deciders_.ForEach(tasks.size(), [&](size_t task, size_t decider) {
    for (TreeRun* run : tasks[task]) {
      run->Ask(askers_[decider].get());
      run->pass.NominateOthers();
    }
  });
  machines_.Share(false);
  for (const std::unique_ptr<TreeRun>& run : runs) run->Ask(askers_.front().get());
}

bool EngineSet::Impl::LooksInTopologies(const Tree& tree) const {
  return std::any_of(tree.queues.begin(), tree.queues.end(), [this](const ClusterQueueState* queue) {
    const auto has_topology = [this](FlavorId flavor) {
      return topologies_.FindFlavor(catalog_.FlavorName(flavor)) != nullptr;
    };
    const auto has_places = [](const WorkloadState* workload) { return !workload->claim->places.empty(); };
    const auto keeps_places = [](const WorkloadState* workload) { return !workload->room->places.empty(); };
    return std::any_of(queue->flavors.begin(), queue->flavors.end(), has_topology) ||
           std::any_of(queue->holders.begin(), queue->holders.end(), has_places) ||
           std::any_of(queue->keeping.begin(), queue->keeping.end(), keeps_places);
  });
}

void EngineSet::Impl::RunTrees() {
  TreeRuns runs;
  PassHost* host = this;
  size_t nominated = 0;
  const auto nominate = [&] {
    NominateAll(std::span(runs).subspan(nominated));
    nominated = runs.size();
  };
  const auto finish = [&] {
    nominate();
    ReserveMachinesAhead(runs);
    std::vector<bool> looks_there;
    for (const std::unique_ptr<TreeRun>& run : runs) looks_there.push_back(run->pass.LooksInTopologies());
    ProcessEntries(runs);
    FinishTrees(runs, std::move(looks_there), &forest_);
    runs.clear();
    nominated = 0;
  };
  // Where trees share anything, all of them nominate on what there is before any of them decides.
  const bool together = deciders_.count() > 1 || topologies_.HasFlavors() || machines_.on() || namespace_quotas_.any();
  for (Tree* tree : TreesInTurn()) {
    // Room that it finds or loses as it begins is for those after it to see.
    if (tree->restore_rooms || !tree->keeping.empty()) nominate();
    runs.push_back(std::make_unique<TreeRun>(tree, &catalog_, &placer_, askers_.front().get(), &forest_, host, options_,
                                             pass_, now_));
    runs.back()->pass.Begin(tree);
    if (!together) finish();
  }
  finish();
}

PassResult EngineSet::Impl::RunOnePass(WallTime now) {
  now_ = std::max(now_, now);
  PassResult result;
  decisions_ = &result.decisions;
  forest_.ReleaseDue(now_);
  SampleConsumption();
  WakeByMachines();
  WakeByNamespaceQuotas();
  ReplacePlaces(&result.decisions);
  FollowLackingPlaces();
  EndGivingWay();
  StopLackingPlaces();
  IssueEvictions(&result.decisions);
  ReplacePlaces(&result.decisions);  // of those who stay after all
  if (result.decisions.empty() && !AtClaimLimit()) {
    ++pass_;
    refusals_before_pass_ = machines_.refusals();
    RunTrees();
    WakeByMachines();
    WakeByNamespaceQuotas();
  }
  FollowLackingPlaces();
  SettleSizes();
  result.more = !forest_.active_trees().empty();
  decisions_ = nullptr;
  return result;
}

void EngineSet::Impl::IssueEvictions(std::vector<Decision>* decisions) {
  while (!evictions_due_.empty() && ByEvictionTime::Of(**evictions_due_.begin()) <= now_) {
    WorkloadState* workload = *evictions_due_.begin();
    evictions_due_.erase(evictions_due_.begin());
    SetEviction(workload, EvictionDue(*workload));
    Claim* claim = workload->claim.get();
    if (claim->eviction.has_value()) {
      Issue(workload, decisions);
    } else if (std::optional<Reason> why = WithdrawalDue(*workload); why.has_value()) {
      claim->withdrawn = true;
      decisions->push_back(Withdraw{workload->spec.uid, claim->id, *std::move(why)});
    }
  }
}

void EngineSet::Impl::Issue(WorkloadState* workload, std::vector<Decision>* decisions) {
  Claim* claim = workload->claim.get();
  ClaimEviction& eviction = *claim->eviction;
  eviction.issued = true;
  const int64_t lacked = eviction.reason == EvictionReason::kNodeFailures ? claim->machines.Lacking() : 0;
  decisions->push_back(Evict{workload->spec.uid, claim->id, eviction.reason, eviction.preemptor_uid,
                             eviction.preemptor_queue, eviction.preemptor_priority, workload->spec.priority,
                             eviction.nodes, lacked});
}

WallTime EngineSet::Impl::NextDue() const {
  WallTime due = forest_.NextDue();
  if (!evictions_due_.empty()) {
    const WallTime eviction = ByEvictionTime::Of(**evictions_due_.begin());
    if (eviction.IsSet()) due = due.IsSet() ? std::min(due, eviction) : eviction;
  }
  if (!lacking_.empty()) {
    const WallTime lacking = LackingDue(*(*lacking_.begin())->claim);
    due = due.IsSet() ? std::min(due, lacking) : lacking;
  }
  const WallTime sample = admission_shares_.has_value() ? admission_shares_->NextDue() : WallTime{};
  if (sample.IsSet()) due = due.IsSet() ? std::min(due, sample) : sample;
  return due;
}

void EngineSet::Impl::TakeHolds(std::vector<Decision>* decisions) {
  for (WorkloadState* workload : reasons_changed_) {
    workload->reason_changed = false;
    if (workload->claim != nullptr || workload->reason_hash == workload->reported_hash) continue;
    workload->reported_hash = workload->reason_hash;
    decisions->push_back(Hold{workload->spec.uid, workload->spec.generation,
                              workload->reason == nullptr ? Reason{} : *workload->reason, workload->grows != nullptr});
  }
  reasons_changed_.clear();
}

// ---- PassHost -----------------------------------------------------------------------------------

WorkloadState* EngineSet::Impl::OfTicket(const queue::Ticket* ticket) {
  return static_cast<WorkloadState*>(ticket->owner);
}

bool EngineSet::Impl::NamespaceMatches(const ClusterQueueState& queue, const std::string& ns) const {
  const std::optional<LabelSelector>& selector = queue.spec.namespace_selector;
  return selector.has_value() && selector->Matches(catalog_.NamespaceLabels(ns));
}

bool EngineSet::Impl::NamespaceMatches(const ClusterQueueState& queue, const WorkloadState& workload) {
  return NamespaceMatches(queue, workload.spec.ns);
}

bool EngineSet::Impl::LaneMatches(const ClusterQueueState& queue, uint32_t lane) {
  return NamespaceMatches(queue, lanes_[lane]->ns);
}

void EngineSet::Impl::OnAdmit(WorkloadState* workload, ClusterQueueState* queue, const Assignment& assignment,
                              gang::Reservation machines) {
  if (workload->grows != nullptr) return OnGrow(workload, *queue, assignment, std::move(machines));
  auto claim = std::make_unique<Claim>(std::move(machines));
  claim->id = {options_.epoch, ++sequence_};
  claim->state = ClaimState::kPlanned;
  claim->admission = MakeAdmission(*workload, *queue, assignment);
  claim->reserved_at = now_;
  claim->usage = UsageOf(workload->spec, claim->admission);
  std::vector<std::string> checks = ApplicableChecks(queue->spec, &claim->admission);
  claim->admitted = checks.empty();
  workload->claim = std::move(claim);
  ++unwritten_claims_;
  CountPending(*workload, queue, -1);
  if (admission_shares_.has_value()) admission_shares_->Enter(workload, workload->claim->usage, now_);
  forest_.Attach(workload, queue);
  forest_.SetPlaces(workload, placer_.PlacesOf(*workload, workload->claim->admission));
  FollowPodsToCome(workload);
  CountInLocalQueue(workload, 1);
  ShareChanged(workload->local_queue);
  CheckPodsReady(workload);
  SetReason(workload, nullptr);
  workload->reported_hash = 0;
  workload->scan = {};
  workload->scan_history.reset();
  workload->start_refused.clear();
  workload->room_spent = false;
  workload->crowded_since = {};
  decisions_->push_back(Admit{workload->spec.uid, workload->spec.generation, workload->claim->id,
                              workload->claim->admission, std::move(checks)});
}

namespace {

uint64_t HashOf(const Reason& reason) {
  muster::StateHash hash;
  hash.Add(static_cast<int64_t>(reason.code));
  for (const Obstacle& obstacle : reason.obstacles) {
    hash.Add(static_cast<int64_t>(obstacle.kind)).Add(obstacle.pod_set).Add(obstacle.flavor).Add(obstacle.resource);
    hash.Add(obstacle.object).Add(obstacle.field);
    for (const Amount amount : {obstacle.requested, obstacle.assumed, obstacle.limit, obstacle.missing,
                                obstacle.bound_limit, obstacle.used}) {
      hash.Add(amount.value);
    }
    hash.Add(static_cast<int64_t>(obstacle.bound)).Add(static_cast<int64_t>(obstacle.of_cohort));
    hash.Add(static_cast<int64_t>(obstacle.kept)).Add(obstacle.count).Add(obstacle.until.unix_nanos);
    hash.Add(static_cast<int64_t>(obstacle.below)).Add(static_cast<int64_t>(obstacle.inactive));
    for (const std::string& name : obstacle.names) hash.Add(name);
    if (obstacle.placement.has_value()) gang::AddToHash(*obstacle.placement, &hash);
    if (obstacle.machines.has_value()) gang::AddToHash(*obstacle.machines, &hash);
  }
  for (const Blocker& blocker : reason.blockers) hash.Add(blocker.uid);
  return hash.value();
}

}  // namespace

void EngineSet::Impl::OnPreempt(const Victim& victim, const WorkloadState& preemptor, const ClusterQueueState& queue) {
  WorkloadState* workload = victim.workload;
  ClaimEviction eviction{victim.reason, now_, preemptor.spec.uid, queue.name, preemptor.spec.priority, false, {}, {}};
  promises_[preemptor.spec.uid] = now_;
  SetEviction(workload, std::move(eviction));
  // One whose start or growth has no answer yet is told when it has one.
  const Claim& claim = *workload->claim;
  if (claim.state != ClaimState::kPlanned && !claim.before_growth.has_value()) Issue(workload, decisions_);
}

void EngineSet::Impl::OnNominate(ClusterQueueState* queue) {
  if (std::exchange(queue->looked_at_in, run_) != run_) queue->preemption_skips = 0;
}

void EngineSet::Impl::SetReason(WorkloadState* workload, std::shared_ptr<const Reason> reason) {
  const uint64_t hash = reason == nullptr ? 0 : HashOf(*reason);
  workload->reason = std::move(reason);
  CountWaiting(workload);
  // More room on machines could change it, whatever it names.
  const bool refused = machines_.refusals() != refusals_before_pass_;
  if (refused && workload->waiting_in != nullptr) workload->waiting_in->waits_for_machines = true;
  if (hash == workload->reason_hash) return;
  workload->reason_hash = hash;
  if (workload->reason_changed) return;
  workload->reason_changed = true;
  reasons_changed_.insert(workload);
}

bool EngineSet::Impl::ComesBack(const WorkloadState& workload) const {
  std::shared_ptr<const Reason> why;
  const ClusterQueueState* queue = WaitingPlace(workload, &why);
  return queue != nullptr && queue == workload.claim->queue && workload.spec.invalid.empty() &&
         NamespaceMatches(*queue, workload.spec.ns) &&
         ApplicableChecks(queue->spec, &workload.claim->admission).empty();
}

WallTime EngineSet::Impl::EndOf(const std::string& uid) const {
  const WorkloadState* workload = FindWorkload(uid);
  if (workload == nullptr || workload->claim == nullptr) return {};
  if (workload->claim->leaving) return now_;
  const std::optional<Duration>& most = workload->spec.max_execution;
  return most.has_value() ? std::max(now_, workload->claim->reserved_at + *most) : WallTime{};
}

WorkloadState* EngineSet::Impl::FindWorkload(std::string_view uid) const {
  const auto it = workloads_.find(uid);
  return it == workloads_.end() ? nullptr : it->second.get();
}

WorkloadState* EngineSet::Impl::FindPreemptor(std::string_view uid) const {
  WorkloadState* workload = FindWorkload(uid);
  return workload != nullptr && workload->growth != nullptr ? workload->growth.get() : workload;
}

WorkloadState* EngineSet::Impl::FindHolder(std::string_view uid, ClaimId claim) const {
  WorkloadState* workload = FindWorkload(uid);
  return workload == nullptr || workload->claim == nullptr || workload->claim->id != claim ? nullptr : workload;
}

}  // namespace muster::engine
