#include "forest.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "muster/core/check.h"
#include "obstacles.h"

namespace muster::engine {

namespace {

// Longer than the passes of any burst take, shorter than anybody would look at a queue that stands still.
constexpr Duration kStallPatience = std::chrono::seconds(10);

template <typename T>
void EraseFrom(std::vector<T*>* items, T* item) {
  const auto it = std::find(items->begin(), items->end(), item);
  MUSTER_CHECK(it != items->end());
  *it = items->back();
  items->pop_back();
}

bool MatchesEverything(const std::optional<LabelSelector>& selector) {
  return selector.has_value() && selector->match_labels.empty() && selector->match_expressions.empty();
}

// The cohorts on the cycle through `cohort`; empty if it is on none.
std::vector<CohortState*> CycleThrough(CohortState* cohort) {
  // Two speeds: the fast one meets `cohort` again, or the end, or goes round on a cycle that it is not on.
  std::vector<CohortState*> members;
  absl::flat_hash_set<const CohortState*> seen;
  for (CohortState* at = cohort; at != nullptr && seen.insert(at).second; at = at->declared_parent) {
    members.push_back(at);
    if (at->declared_parent == cohort) return members;
  }
  return {};
}

}  // namespace

// ---- names --------------------------------------------------------------------------------------

ClusterQueueState* Forest::Queue(std::string_view name) {
  std::unique_ptr<ClusterQueueState>& slot = queues_[std::string(name)];
  if (slot == nullptr) {
    slot = std::make_unique<ClusterQueueState>();
    slot->name = name;
    slot->spec.name = name;
  }
  return slot.get();
}

ClusterQueueState* Forest::FindQueue(std::string_view name) const {
  const auto it = queues_.find(name);
  return it == queues_.end() ? nullptr : it->second.get();
}

CohortState* Forest::FindCohort(std::string_view name) const {
  const auto it = cohorts_.find(name);
  return it == cohorts_.end() ? nullptr : it->second.get();
}

CohortState* Forest::GetCohort(std::string_view name) {
  std::unique_ptr<CohortState>& slot = cohorts_[std::string(name)];
  if (slot == nullptr) {
    slot = std::make_unique<CohortState>();
    slot->name = name;
    slot->spec.name = name;
    MakeRoot(slot.get());
  }
  return slot.get();
}

void Forest::DropIfUnused(ClusterQueueState* queue) {
  if (queue->exists || !queue->local_queues.empty() || !queue->holders.empty()) return;
  MUSTER_CHECK(queue->waiting.empty());
  activity_changes_.erase(queue);
  if (queue->changed) {
    EraseFrom(&changed_queues_, queue);
    changed_queues_gone_.push_back(queue->name);
  }
  queues_.erase(queue->name);
}

void Forest::DropIfUnused(CohortState* cohort) {
  if (cohort->exists || cohort->declared_children > 0 || !cohort->queues.empty()) return;
  MUSTER_CHECK(cohort->parent == nullptr && cohort->children.empty());
  ForgetTree(cohort->own_tree.get());
  cohorts_.erase(cohort->name);
}

void Forest::ForgetTree(Tree* tree) {
  MUSTER_CHECK(tree->queues.empty());
  active_trees_.erase(tree);
}

// ---- cohorts ------------------------------------------------------------------------------------

void Forest::MakeRoot(CohortState* cohort) {
  cohort->own_tree = std::make_unique<Tree>();
  cohort->own_tree->name = cohort->name;
  cohort->own_tree->of_cohort = true;
  PlantSubtree(cohort, cohort->own_tree.get());
}

void Forest::SetCohort(const Cohort& spec) {
  CohortState* cohort = GetCohort(spec.name);
  if (cohort->exists && cohort->spec == spec) return;
  cohort->exists = true;
  const bool legible_as_before = cohort->spec.misconfigured == spec.misconfigured;
  cohort->spec = spec;
  ApplyQuotas(cohort);
  if (!legible_as_before) RecomputeActivity(cohort);
  CohortState* left = SetDeclaredParent(cohort, spec.parent);
  QuotaChanged(cohort->tree);
  if (left != nullptr) DropIfUnused(left);
}

void Forest::RemoveCohort(std::string_view name) {
  CohortState* cohort = FindCohort(name);
  if (cohort == nullptr || !cohort->exists) return;
  cohort->exists = false;
  cohort->spec = Cohort{};
  cohort->spec.name = cohort->name;
  ApplyQuotas(cohort);
  RecomputeActivity(cohort);
  QuotaChanged(cohort->tree);
  CohortState* left = SetDeclaredParent(cohort, "");
  QuotaChanged(cohort->tree);
  // A cohort may have been its own parent: each is dropped once, and looked at no more.
  if (left != nullptr && left != cohort) DropIfUnused(left);
  DropIfUnused(cohort);
}

CohortState* Forest::SetDeclaredParent(CohortState* cohort, std::string_view name) {
  CohortState* old = cohort->declared_parent;
  CohortState* parent = name.empty() ? nullptr : GetCohort(name);
  if (old == parent) return nullptr;
  // Only the parent of `cohort` changes, and whether those on the old and on the new cycle are cut.
  std::vector<CohortState*> affected = {cohort};
  const std::vector<CohortState*> before = CycleThrough(cohort);
  cohort->declared_parent = parent;
  if (old != nullptr) --old->declared_children;
  if (parent != nullptr) ++parent->declared_children;
  const std::vector<CohortState*> after = CycleThrough(cohort);
  for (const auto* cycle : {&before, &after}) {
    for (CohortState* member : *cycle) {
      if (std::find(affected.begin(), affected.end(), member) == affected.end()) affected.push_back(member);
    }
  }
  for (CohortState* member : affected) {
    member->on_cycle = std::find(after.begin(), after.end(), member) != after.end();
    if (member->on_cycle && member->parent != nullptr) Move(member, nullptr);
  }
  // `cohort` comes first, so at no time is there a cycle: every edge but its own old one is final.
  for (CohortState* member : affected) {
    if (!member->on_cycle && member->parent != member->declared_parent) Move(member, member->declared_parent);
  }
  for (CohortState* member : affected) {
    if (member->parent != nullptr || (member->tree->on_cycle == member->on_cycle && !member->on_cycle)) continue;
    member->tree->on_cycle = member->on_cycle;
    // Also where it stays on a cycle: that may be another one now.
    RecomputeActivity(member->tree);
  }
  return old;
}

void Forest::Move(CohortState* cohort, CohortState* parent) {
  Tree* old = cohort->tree;
  UprootSubtree(cohort);
  std::unique_ptr<Tree> old_own = std::move(cohort->own_tree);
  if (cohort->parent != nullptr) {
    EraseFrom(&cohort->parent->children, cohort);
    QuotaChanged(old);
  } else {
    ForgetTree(old);
  }
  cohort->parent = parent;
  if (parent == nullptr) {
    MakeRoot(cohort);
  } else {
    parent->children.push_back(cohort);
    PlantSubtree(cohort, parent->tree);
  }
  QuotaChanged(cohort->tree);
}

void Forest::UprootSubtree(CohortState* cohort) {
  for (ClusterQueueState* queue : cohort->queues) Uproot(queue);
  for (CohortState* child : cohort->children) UprootSubtree(child);
  cohort->tree->ledger.RemoveNode(cohort->node);
  cohort->node = quota::kNoNode;
  cohort->tree = nullptr;
  cohort->limited.clear();
}

void Forest::PlantSubtree(CohortState* cohort, Tree* tree) {
  cohort->tree = tree;
  cohort->node = tree->ledger.AddNode(cohort->parent == nullptr ? quota::kNoNode : cohort->parent->node,
                                      quota::Ledger::Kind::kCohort);
  ApplyQuotas(cohort);
  for (CohortState* child : cohort->children) PlantSubtree(child, tree);
  for (ClusterQueueState* queue : cohort->queues) Plant(queue);
}

void Forest::ApplyQuotas(CohortState* cohort) {
  quota::Ledger& ledger = cohort->tree->ledger;
  std::vector<quota::CellId> limited;
  for (const ResourceGroup& group : cohort->spec.resource_groups) {
    for (const FlavorQuotas& flavor : group.flavors) {
      for (const ResourceQuota& quota : flavor.resources) {
        if (std::find(group.covered_resources.begin(), group.covered_resources.end(), quota.resource) ==
            group.covered_resources.end()) {
          continue;
        }
        const FlavorResource fr{catalog_->Flavor(flavor.flavor), catalog_->Resource(quota.resource)};
        const quota::CellId cell = ledger.Cell(cohort->node, fr);
        ledger.SetLimits(cell, {quota.nominal, quota.borrowing_limit, quota.lending_limit});
        limited.push_back(cell);
      }
    }
  }
  for (const quota::CellId cell : cohort->limited) {
    if (std::find(limited.begin(), limited.end(), cell) == limited.end()) ledger.SetLimits(cell, {});
  }
  cohort->limited = std::move(limited);
}

// ---- ClusterQueues ------------------------------------------------------------------------------

void Forest::EnterCohort(ClusterQueueState* queue, std::string_view name) {
  if (name.empty()) {
    queue->own_tree = std::make_unique<Tree>();
    queue->own_tree->name = queue->name;
    return;
  }
  queue->cohort = GetCohort(name);
  queue->cohort_index = queue->cohort->queues.size();
  queue->cohort->queues.push_back(queue);
}

void Forest::LeaveCohort(ClusterQueueState* queue) {
  CohortState* cohort = queue->cohort;
  if (cohort == nullptr) {
    ForgetTree(queue->own_tree.get());
    queue->own_tree.reset();
    return;
  }
  cohort->queues.back()->cohort_index = queue->cohort_index;
  std::swap(cohort->queues[queue->cohort_index], cohort->queues.back());
  cohort->queues.pop_back();
  queue->cohort = nullptr;
  QuotaChanged(cohort->tree);
  DropIfUnused(cohort);
}

void Forest::SetQueue(const ClusterQueue& spec) {
  ClusterQueueState* queue = Queue(spec.name);
  if (queue->exists && queue->spec == spec) return;
  const bool moves = !queue->exists || queue->spec.cohort != spec.cohort;
  if (moves && queue->exists) {
    Uproot(queue);
    LeaveCohort(queue);
  }
  ReferToFlavors(queue, false);
  queue->exists = true;
  queue->spec = spec;
  queue->flavors.clear();
  for (const ResourceGroup& group : spec.resource_groups) {
    for (const FlavorQuotas& flavor : group.flavors) queue->flavors.push_back(catalog_->Flavor(flavor.flavor));
  }
  ReferToFlavors(queue, true);
  queue->waiting.SetStrategy(spec.queueing_strategy == QueueingStrategy::kStrictFIFO
                                 ? queue::Strategy::kStrictFIFO
                                 : queue::Strategy::kBestEffortFIFO);
  queue->selective = !MatchesEverything(spec.namespace_selector);
  if (queue->selective) {
    selective_queues_.insert(queue);
  } else {
    selective_queues_.erase(queue);
  }
  if (moves) {
    EnterCohort(queue, spec.cohort);
    Plant(queue);
  } else {
    ApplyQuotas(queue);
  }
  QuotaChanged(queue->tree);
  RecomputeActivity(queue);
  Refresh(queue);
}

void Forest::RemoveQueue(ClusterQueueState* queue) {
  MUSTER_CHECK(queue->exists && queue->waiting.empty());
  Uproot(queue);
  LeaveCohort(queue);
  ReferToFlavors(queue, false);
  selective_queues_.erase(queue);
  queue->exists = false;
  queue->spec = ClusterQueue{};
  queue->spec.name = queue->name;
  queue->flavors.clear();
  queue->bypass.clear();
  queue->recheck_at = {};
  Refresh(queue);
  RecomputeActivity(queue);
  MarkChanged(queue);
}

void Forest::Uproot(ClusterQueueState* queue) {
  Tree* tree = queue->tree;
  for (const WorkloadState* holder : queue->holders) Book(*holder->claim, false);
  tree->ledger.RemoveNode(queue->node);
  queue->node = quota::kNoNode;
  queue->tree = nullptr;
  queue->groups.clear();
  queue->group_of.clear();
  queue->blocked_head = nullptr;
  tree->queues.erase(queue);
  for (auto* set : {&tree->ready, &tree->parked, &tree->blocked}) set->erase(queue);
}

void Forest::Plant(ClusterQueueState* queue) {
  queue->tree = queue->cohort == nullptr ? queue->own_tree.get() : queue->cohort->tree;
  queue->node = queue->tree->ledger.AddNode(queue->cohort == nullptr ? quota::kNoNode : queue->cohort->node,
                                            quota::Ledger::Kind::kClusterQueue);
  queue->tree->queues.insert(queue);
  queue->capacity_generation = ++generation_;
  ApplyQuotas(queue);
  for (const WorkloadState* holder : queue->holders) Book(*holder->claim, true);
  RecomputeActivity(queue);
  Refresh(queue);
}

void Forest::ApplyQuotas(ClusterQueueState* queue) {
  quota::Ledger& ledger = queue->tree->ledger;
  absl::flat_hash_set<quota::CellId> listed;
  queue->groups.clear();
  queue->group_of.clear();
  for (const ResourceGroup& group : queue->spec.resource_groups) {
    GroupState state;
    for (const std::string& resource : group.covered_resources) {
      state.resources.push_back(catalog_->Resource(resource));
      queue->group_of.emplace(state.resources.back(), queue->groups.size());
    }
    for (const FlavorQuotas& flavor : group.flavors) {
      FlavorOption option{catalog_->Flavor(flavor.flavor), {}};
      for (const ResourceId resource : state.resources) {
        const quota::CellId cell = ledger.Cell(queue->node, {option.flavor, resource});
        option.cells.push_back(cell);
        listed.insert(cell);
        // A covered resource that the flavor does not list has no quota of it.
        const auto quota = std::find_if(
            flavor.resources.begin(), flavor.resources.end(),
            [&](const ResourceQuota& entry) { return entry.resource == catalog_->ResourceName(resource); });
        ledger.SetLimits(cell, quota == flavor.resources.end()
                                   ? quota::Limits{}
                                   : quota::Limits{quota->nominal, quota->borrowing_limit, quota->lending_limit});
      }
      state.flavors.push_back(std::move(option));
    }
    queue->groups.push_back(std::move(state));
  }
  ledger.ForEachCell(queue->node, [&](quota::CellId cell) {
    if (!listed.contains(cell)) ledger.SetLimits(cell, {});
  });
}

void Forest::ReferToFlavors(ClusterQueueState* queue, bool refer) {
  for (const FlavorId flavor : queue->flavors) {
    absl::btree_set<ClusterQueueState*, ByName>& users = flavor_users_[flavor];
    if (refer) {
      users.insert(queue);
    } else {
      users.erase(queue);
    }
    if (users.empty()) flavor_users_.erase(flavor);
  }
}

// ---- activity -----------------------------------------------------------------------------------

std::vector<Inactivity> Forest::InactivityOf(const ClusterQueueState& queue) const {
  const ClusterQueue& spec = queue.spec;
  std::vector<Inactivity> inactive;
  const auto add = [&inactive](InactiveReason reason, std::vector<std::string> names) {
    if (!names.empty()) inactive.push_back({reason, std::move(names)});
  };
  if (spec.terminating) inactive.push_back({InactiveReason::kTerminating, {}});
  if (spec.stop_policy != StopPolicy::kNone) inactive.push_back({InactiveReason::kStopped, {}});
  if (!spec.misconfigured.empty()) add(InactiveReason::kMisconfigured, {spec.misconfigured});
  std::vector<std::string> missing;
  std::vector<std::string> misconfigured;
  std::vector<std::string> unsupported;
  for (const FlavorId flavor : queue.flavors) {
    const ResourceFlavor* known = catalog_->FindFlavor(flavor);
    if (known == nullptr) {
      missing.push_back(catalog_->FlavorName(flavor));
      continue;
    }
    if (!known->misconfigured.empty()) {
      misconfigured.push_back(absl::StrCat("ResourceFlavor ", known->name, ": ", known->misconfigured));
    }
    if (!known->topology_name.empty()) {
      unsupported.push_back(absl::StrCat("spec.topologyName of ResourceFlavor ", known->name));
    }
  }
  add(InactiveReason::kFlavorNotFound, std::move(missing));
  add(InactiveReason::kFlavorMisconfigured, std::move(misconfigured));
  std::vector<std::string> names;
  if (queue.tree != nullptr && queue.tree->on_cycle) {
    for (const CohortState* member : CycleThrough(FindCohort(queue.tree->name))) names.push_back(member->name);
  }
  add(InactiveReason::kCohortCycle, std::exchange(names, {}));
  for (const CohortState* cohort = queue.cohort; cohort != nullptr; cohort = cohort->parent) {
    if (cohort->spec.misconfigured.empty()) continue;
    names.push_back(absl::StrCat("Cohort ", cohort->name, ": ", cohort->spec.misconfigured));
  }
  add(InactiveReason::kCohortMisconfigured, std::move(names));
  if (!spec.admission_checks.empty()) add(InactiveReason::kAdmissionChecks, {"spec.admissionChecksStrategy"});
  add(InactiveReason::kUnsupported, std::move(unsupported));
  return inactive;
}

void Forest::RecomputeActivity(ClusterQueueState* queue) {
  std::vector<Inactivity> inactive = InactivityOf(*queue);
  const bool active = queue->exists && inactive.empty();
  if (active == queue->active && inactive == queue->inactive) return;
  activity_changes_.insert(queue);
  queue->active = active;
  queue->inactive = std::move(inactive);
  queue->inactive_reason.reset();
  if (!queue->inactive.empty()) {
    Obstacle obstacle = ObjectObstacle(ObstacleKind::kClusterQueueInactive, queue->name);
    obstacle.inactive = queue->inactive.front().reason;
    obstacle.names = queue->inactive.front().names;
    queue->inactive_reason = MakeReason(ReasonCode::kSuspended, {std::move(obstacle)});
  }
  if (queue->tree == nullptr) return;
  if (active) RequestFlush(queue->tree);
  Refresh(queue);
}

void Forest::RecomputeActivity(Tree* tree) {
  for (ClusterQueueState* queue : tree->queues) RecomputeActivity(queue);
}

void Forest::RecomputeActivity(CohortState* cohort) {
  for (ClusterQueueState* queue : cohort->queues) RecomputeActivity(queue);
  for (CohortState* child : cohort->children) RecomputeActivity(child);
}

void Forest::FlavorChanged(FlavorId flavor) {
  const auto users = flavor_users_.find(flavor);
  if (users == flavor_users_.end()) return;
  for (ClusterQueueState* queue : users->second) {
    RecomputeActivity(queue);
    if (queue->tree != nullptr) RequestFlush(queue->tree);
  }
}

std::vector<ClusterQueueState*> Forest::TakeActivityChanges() {
  std::vector<ClusterQueueState*> changes(activity_changes_.begin(), activity_changes_.end());
  activity_changes_.clear();
  return changes;
}

// ---- claims -------------------------------------------------------------------------------------

void Forest::Book(const Claim& claim, bool take) {
  quota::Ledger& ledger = claim.queue->tree->ledger;
  for (const auto& [fr, amount] : claim.usage) {
    const quota::CellId cell = ledger.Cell(claim.queue->node, fr);
    if (take) {
      ledger.TakeBoth(cell, amount);
    } else {
      ledger.ReleaseBoth(cell, amount);
    }
  }
  ++claim.queue->tree->version;
  claim.queue->capacity_generation = ++generation_;
}

void Forest::Attach(WorkloadState* workload, ClusterQueueState* queue) {
  Claim* claim = workload->claim.get();
  claim->queue = queue;
  claim->queue_index = queue->holders.size();
  queue->holders.push_back(workload);
  MarkChanged(queue);
  if (queue->tree != nullptr) Book(*claim, true);
}

void Forest::Detach(WorkloadState* workload) {
  Claim* claim = workload->claim.get();
  ClusterQueueState* queue = claim->queue;
  if (queue->tree != nullptr) {
    Book(*claim, false);
    Gained(queue->tree);
  }
  WorkloadState* last = queue->holders.back();
  last->claim->queue_index = claim->queue_index;
  queue->holders[claim->queue_index] = last;
  queue->holders.pop_back();
  claim->queue = nullptr;
  MarkChanged(queue);
  DropIfUnused(queue);
}

void Forest::ChangeUsage(WorkloadState* workload, std::vector<std::pair<FlavorResource, Amount>> usage) {
  Claim* claim = workload->claim.get();
  MarkChanged(claim->queue);
  if (claim->queue->tree == nullptr) {
    claim->usage = std::move(usage);
    return;
  }
  Book(*claim, false);
  claim->usage = std::move(usage);
  Book(*claim, true);
  Gained(claim->queue->tree);
}

// ---- what is to be looked at ----------------------------------------------------------------------

void Forest::MarkChanged(ClusterQueueState* queue) {
  if (!std::exchange(queue->changed, true)) changed_queues_.push_back(queue);
}

std::vector<ClusterQueueState*> Forest::TakeChangedQueues(std::vector<std::string>* gone) {
  for (ClusterQueueState* queue : changed_queues_) queue->changed = false;
  *gone = std::exchange(changed_queues_gone_, {});
  return std::exchange(changed_queues_, {});
}

void Forest::Refresh(ClusterQueueState* queue) {
  MarkChanged(queue);
  const queue::Ticket* head = queue->waiting.Head();
  if (queue->stalled_head != head) {
    queue->stalled_head = nullptr;
    queue->stall_ends = {};
  }
  WallTime due = queue->waiting.NextDue();
  for (const WallTime other : {queue->stall_ends, queue->recheck_at}) {
    if (other.IsSet()) due = due.IsSet() ? std::min(due, other) : other;
  }
  if (due != queue->due) {
    if (queue->due.IsSet()) due_queues_.erase(queue);
    queue->due = due;
    if (due.IsSet()) due_queues_.insert(queue);
  }
  Tree* tree = queue->tree;
  if (tree == nullptr) return;
  if (queue->blocked_head != nullptr && queue->blocked_head != head) {
    queue->blocked_head = nullptr;
    tree->blocked.erase(queue);
  }
  if (queue->waiting.HasParked()) {
    tree->parked.insert(queue);
  } else {
    tree->parked.erase(queue);
  }
  if (queue->active && head != nullptr && queue->blocked_head == nullptr) {
    tree->ready.insert(queue);
    active_trees_.insert(tree);
  } else {
    tree->ready.erase(queue);
  }
}

void Forest::Block(ClusterQueueState* queue) {
  queue->blocked_head = queue->waiting.Head();
  queue->tree->blocked.insert(queue);
  Refresh(queue);
}

void Forest::Stall(ClusterQueueState* queue, WallTime now) {
  const queue::Ticket* head = queue->waiting.Head();
  if (queue->stalled_head == head) return;
  queue->stalled_head = head;
  queue->stall_ends = now + kStallPatience;
  Refresh(queue);
}

void Forest::RecheckLater(ClusterQueueState* queue, WallTime now) {
  if (queue->recheck_at.IsSet()) return;
  queue->recheck_at = now + kStallPatience;
  Refresh(queue);
}

void Forest::Gained(Tree* tree) {
  ++tree->version;
  const auto blocked = std::exchange(tree->blocked, {});
  for (ClusterQueueState* queue : blocked) {
    queue->blocked_head = nullptr;
    Refresh(queue);
  }
  if (!tree->ready.empty()) active_trees_.insert(tree);
}

void Forest::RequestFlush(Tree* tree) {
  tree->flush_requested = true;
  active_trees_.insert(tree);
  Gained(tree);
}

void Forest::QuotaChanged(Tree* tree) {
  tree->quota_generation = ++generation_;
  RequestFlush(tree);
}

void Forest::ReleaseDue(WallTime now) {
  while (!due_queues_.empty() && (*due_queues_.begin())->due <= now) {
    ClusterQueueState* queue = *due_queues_.begin();
    if (queue->stall_ends.IsSet() && queue->stall_ends <= now) queue->waiting.Park(queue->waiting.Head());
    queue->waiting.ReleaseDue(now);
    if (queue->recheck_at.IsSet() && queue->recheck_at <= now) {
      queue->recheck_at = {};
      if (queue->tree != nullptr) RequestFlush(queue->tree);
    }
    Refresh(queue);
  }
}

WallTime Forest::NextDue() const { return due_queues_.empty() ? WallTime{} : (*due_queues_.begin())->due; }

uint64_t Forest::GenerationOf(const ClusterQueueState& queue) const {
  return std::max(queue.capacity_generation, queue.tree->quota_generation);
}

// ---- checks -------------------------------------------------------------------------------------

void Forest::Validate() const {
  for (const auto& [name, cohort] : cohorts_) {
    MUSTER_CHECK(cohort->on_cycle == !CycleThrough(cohort.get()).empty());
    MUSTER_CHECK(cohort->parent == (cohort->on_cycle ? nullptr : cohort->declared_parent));
    MUSTER_CHECK((cohort->own_tree != nullptr) == (cohort->parent == nullptr));
    MUSTER_CHECK(cohort->tree == (cohort->parent == nullptr ? cohort->own_tree.get() : cohort->parent->tree));
    if (cohort->own_tree != nullptr) {
      MUSTER_CHECK(cohort->own_tree->on_cycle == cohort->on_cycle);
      cohort->own_tree->ledger.Validate();
    }
  }
  for (const auto& [name, queue] : queues_) {
    queue->waiting.Validate();
    MUSTER_CHECK(queue->exists == (queue->tree != nullptr));
    if (!queue->exists) {
      MUSTER_CHECK(queue->waiting.empty() && !queue->active);
      continue;
    }
    const Tree* tree = queue->tree;
    if (queue->own_tree != nullptr) queue->own_tree->ledger.Validate();
    auto* key = queue.get();
    MUSTER_CHECK(!queue->changed ||
                 std::find(changed_queues_.begin(), changed_queues_.end(), key) != changed_queues_.end());
    MUSTER_CHECK(tree->queues.contains(key));
    MUSTER_CHECK(tree->parked.contains(key) == queue->waiting.HasParked());
    MUSTER_CHECK(tree->blocked.contains(key) == (queue->blocked_head != nullptr));
    MUSTER_CHECK(tree->ready.contains(key) ==
                 (queue->active && queue->waiting.Head() != nullptr && queue->blocked_head == nullptr));
    // What is booked is what the claims say, in both books while no eviction is planned.
    absl::flat_hash_map<FlavorResource, quota::ExactSum> expected;
    for (const WorkloadState* holder : queue->holders) {
      MUSTER_CHECK(holder->claim->queue == key);
      for (const auto& [fr, amount] : holder->claim->usage) expected[fr].Add(amount);
    }
    tree->ledger.ForEachCell(queue->node, [&](quota::CellId cell) {
      const Amount sum = expected[tree->ledger.flavor_resource(cell)].Value();
      for (const quota::Book book : quota::kBooks) MUSTER_CHECK(tree->ledger.Usage(cell, book) == sum);
    });
    for (const auto& [fr, sum] : expected) {
      MUSTER_CHECK(sum.IsZero() || tree->ledger.FindCell(queue->node, fr) != quota::kNoCell);
    }
  }
}

}  // namespace muster::engine
