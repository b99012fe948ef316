#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <charconv>

#include "engine_impl.h"
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

EngineSet::EngineSet(EngineOptions options, const gang::Room* room) : impl_(std::make_unique<Impl>(options, room)) {}
EngineSet::~EngineSet() = default;

void EngineSet::Apply(const Event& event) {
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
std::vector<std::string> EngineSet::CohortNames() const { return impl_->CohortNames(); }
std::vector<std::pair<std::string, std::string>> EngineSet::LocalQueueNames() const { return impl_->LocalQueueNames(); }
std::optional<WorkloadView> EngineSet::ViewWorkload(const std::string& uid) const { return impl_->ViewWorkload(uid); }
PendingView EngineSet::ViewPending(const std::string& cluster_queue) const { return impl_->ViewPending(cluster_queue); }
WaitCounts EngineSet::WaitingWithoutLocalQueue() const { return impl_->WaitingWithoutLocalQueue(); }
std::vector<std::string> EngineSet::CohortsOf(const std::string& cluster_queue) const {
  return impl_->CohortsOf(cluster_queue);
}
ChangedQueues EngineSet::TakeChangedQueues() { return impl_->TakeChangedQueues(); }
int64_t EngineSet::unwritten_claims() const { return impl_->unwritten_claims(); }
uint64_t EngineSet::StateHash() const { return impl_->StateHash(); }
void EngineSet::Validate() const { impl_->Validate(); }

// ---- passes -------------------------------------------------------------------------------------

EngineSet::Impl::Impl(EngineOptions options, const gang::Room* room) : options_(options), room_(room) {
  MUSTER_CHECK(options.epoch != 0 && room != nullptr);
}

PassResult EngineSet::Impl::RunPass(WallTime now) {
  PassResult result = RunOnePass(now);
  TakeHolds(&result.decisions);
  return result;
}

std::vector<Decision> EngineSet::Impl::Decide(WallTime now) {
  std::vector<Decision> decisions;
  while (true) {
    PassResult result = RunOnePass(now);
    std::move(result.decisions.begin(), result.decisions.end(), std::back_inserter(decisions));
    if (!result.more || AtClaimLimit()) break;
  }
  TakeHolds(&decisions);
  return decisions;
}

PassResult EngineSet::Impl::RunOnePass(WallTime now) {
  now_ = std::max(now_, now);
  PassResult result;
  decisions_ = &result.decisions;
  forest_.ReleaseDue(now_);
  IssueEvictions(&result.decisions);
  if (result.decisions.empty() && !AtClaimLimit()) {
    ++pass_;
    const std::vector<Tree*> trees(forest_.active_trees().begin(), forest_.active_trees().end());
    for (Tree* tree : trees) {
      const Assigner assigner(&catalog_, &tree->ledger, room_, &victims_, options_.ignore_undeclared_resources);
      ClassicalOrder order;
      TreePass pass(&forest_, &assigner, this, &order, pass_, now_);
      if (!pass.Run(tree) || tree->ready.empty()) forest_.active_trees().erase(tree);
    }
  }
  result.more = !forest_.active_trees().empty();
  decisions_ = nullptr;
  return result;
}

void EngineSet::Impl::IssueEvictions(std::vector<Decision>* decisions) {
  for (WorkloadState* workload : evictions_due_) {
    const std::optional<EvictionReason> reason = EvictionDue(*workload);
    if (!reason.has_value()) continue;
    workload->claim->eviction_issued = true;
    decisions->push_back(Evict{workload->spec.uid, workload->claim->id, *reason, ""});
  }
  evictions_due_.clear();
}

void EngineSet::Impl::TakeHolds(std::vector<Decision>* decisions) {
  for (WorkloadState* workload : reasons_changed_) {
    workload->reason_changed = false;
    if (workload->claim != nullptr || workload->reason_hash == workload->reported_hash) continue;
    workload->reported_hash = workload->reason_hash;
    decisions->push_back(Hold{workload->spec.uid, workload->spec.generation,
                              workload->reason == nullptr ? Reason{} : *workload->reason});
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

void EngineSet::Impl::OnAdmit(WorkloadState* workload, ClusterQueueState* queue, const Assignment& assignment) {
  auto claim = std::make_unique<Claim>();
  claim->id = {options_.epoch, ++sequence_};
  claim->state = ClaimState::kPlanned;
  claim->admission = MakeAdmission(*workload, *queue, assignment);
  claim->reserved_at = now_;
  claim->usage = UsageOf(workload->spec, claim->admission);
  workload->claim = std::move(claim);
  ++unwritten_claims_;
  CountPending(*workload, queue, -1);
  forest_.Attach(workload, queue);
  CountInLocalQueue(workload, 1);
  SetReason(workload, nullptr);
  workload->reported_hash = 0;
  workload->scan = {};
  workload->scan_history.reset();
  workload->start_refused.clear();
  decisions_->push_back(
      Admit{workload->spec.uid, workload->spec.generation, workload->claim->id, workload->claim->admission});
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
    hash.Add(static_cast<int64_t>(obstacle.below)).Add(static_cast<int64_t>(obstacle.inactive));
    for (const std::string& name : obstacle.names) hash.Add(name);
  }
  for (const Blocker& blocker : reason.blockers) hash.Add(blocker.uid);
  return hash.value();
}

}  // namespace

void EngineSet::Impl::SetReason(WorkloadState* workload, std::shared_ptr<const Reason> reason) {
  const uint64_t hash = reason == nullptr ? 0 : HashOf(*reason);
  workload->reason = std::move(reason);
  CountWaiting(workload);
  if (hash == workload->reason_hash) return;
  workload->reason_hash = hash;
  if (workload->reason_changed) return;
  workload->reason_changed = true;
  reasons_changed_.insert(workload);
}

WorkloadState* EngineSet::Impl::FindWorkload(std::string_view uid) const {
  const auto it = workloads_.find(uid);
  return it == workloads_.end() ? nullptr : it->second.get();
}

WorkloadState* EngineSet::Impl::FindHolder(std::string_view uid, ClaimId claim) const {
  WorkloadState* workload = FindWorkload(uid);
  return workload == nullptr || workload->claim == nullptr || workload->claim->id != claim ? nullptr : workload;
}

}  // namespace muster::engine
