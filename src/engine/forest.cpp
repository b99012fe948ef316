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
  MUSTER_CHECK(std::erase(*items, item) == 1);
}

bool MatchesEverything(const std::optional<LabelSelector>& selector) {
  return selector.has_value() && selector->match_labels.empty() && selector->match_expressions.empty();
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
  resting_trees_.erase(tree);
}

// ---- cohorts ------------------------------------------------------------------------------------

std::vector<CohortState*> Forest::CycleThrough(CohortState* cohort) {
  std::vector<CohortState*> members;
  absl::flat_hash_set<const CohortState*> seen;
  for (CohortState* at = cohort; at != nullptr && seen.insert(at).second; at = at->declared_parent) {
    members.push_back(at);
    if (at->declared_parent == cohort) return members;
  }
  return {};
}

std::unique_ptr<Tree> Forest::NewTree(const std::string& name) const {
  return std::make_unique<Tree>(name, topologies_, namespace_quotas_);
}

void Forest::MakeRoot(CohortState* cohort) {
  cohort->own_tree = NewTree(cohort->name);
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
  ledger.SetWeight(cohort->node, cohort->spec.fair_weight.nanos);
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
    queue->own_tree = NewTree(queue->name);
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
  if (spec.queueing_strategy == QueueingStrategy::kStrictFIFO &&
      queue->waiting.strategy() != queue::Strategy::kStrictFIFO) {
    ForgetPreemptor(queue, queue->preemptor);
    GiveUpRooms(queue);
  }
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
  queue->reserve_at = {};
  Refresh(queue);
  RecomputeActivity(queue);
  MarkChanged(queue);
}

void Forest::Uproot(ClusterQueueState* queue) {
  Tree* tree = queue->tree;
  GiveUpRooms(queue);
  for (WorkloadState* holder : queue->holders) Book(holder, false);
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
  for (WorkloadState* holder : queue->holders) Book(holder, true);
  queue->tree->restore_rooms = true;
  RecomputeActivity(queue);
  Refresh(queue);
}

void Forest::ApplyQuotas(ClusterQueueState* queue) {
  quota::Ledger& ledger = queue->tree->ledger;
  ledger.SetWeight(queue->node, queue->spec.fair_weight.nanos);
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
  std::vector<std::string> without_topology;
  for (const FlavorId flavor : queue.flavors) {
    const ResourceFlavor* known = catalog_->FindFlavor(flavor);
    if (known == nullptr) {
      missing.push_back(catalog_->FlavorName(flavor));
      continue;
    }
    if (!known->misconfigured.empty()) {
      misconfigured.push_back(absl::StrCat("ResourceFlavor ", known->name, ": ", known->misconfigured));
    }
    if (!known->topology_name.empty() && catalog_->FindTopology(known->topology_name) == nullptr) {
      without_topology.push_back(absl::StrCat("\"", known->topology_name, "\" for TAS flavor \"", known->name, "\""));
    }
  }
  add(InactiveReason::kFlavorNotFound, std::move(missing));
  add(InactiveReason::kFlavorMisconfigured, std::move(misconfigured));
  AddCheckProblems(spec, &inactive);
  add(InactiveReason::kTopologyNotFound, std::move(without_topology));
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
  return inactive;
}

// Source: kueue_semantics 1.3, 9.10, 9.11.
void Forest::AddCheckProblems(const ClusterQueue& spec, std::vector<Inactivity>* inactive) const {
  constexpr std::string_view kMultiKueue = "kueue.x-k8s.io/multikueue";
  constexpr std::string_view kProvisioning = "kueue.x-k8s.io/provisioning-request";
  std::vector<std::string> missing;
  std::vector<std::string> idle;
  std::vector<std::string> multi_kueue;
  std::vector<std::string> per_flavor;
  std::vector<std::string> provisioning;
  for (const AdmissionCheckRule& rule : spec.admission_checks) {
    const AdmissionCheck* check = catalog_->FindCheck(rule.name);
    if (check == nullptr) {
      missing.push_back(rule.name);
      continue;
    }
    if (!check->active) idle.push_back(rule.name);
    if (check->controller_name == kProvisioning) provisioning.push_back(rule.name);
    if (check->controller_name != kMultiKueue) continue;
    multi_kueue.push_back(rule.name);
    if (!rule.on_flavors.empty()) per_flavor.push_back(rule.name);
  }
  if (multi_kueue.empty()) provisioning.clear();
  if (multi_kueue.size() < 2) multi_kueue.clear();
  const auto add = [inactive](InactiveReason reason, std::vector<std::string> names) {
    std::sort(names.begin(), names.end());
    if (!names.empty()) inactive->push_back({reason, std::move(names)});
  };
  add(InactiveReason::kAdmissionCheckNotFound, std::move(missing));
  add(InactiveReason::kAdmissionCheckInactive, std::move(idle));
  add(InactiveReason::kMultipleMultiKueueChecks, std::move(multi_kueue));
  add(InactiveReason::kMultiKueueCheckPerFlavor, std::move(per_flavor));
  add(InactiveReason::kMultiKueueWithProvisioningRequest, std::move(provisioning));
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
  if (active) {
    RequestFlush(queue->tree);
    queue->tree->restore_rooms = true;
  } else {
    GiveUpRooms(queue);
  }
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
    ++queue->tree->outside;
    RequestFlush(queue->tree);
  }
}

void Forest::CheckChanged(std::string_view check) {
  for (const auto& [name, queue] : queues_) {
    const std::vector<AdmissionCheckRule>& rules = queue->spec.admission_checks;
    const bool asks = std::any_of(rules.begin(), rules.end(), [check](const auto& rule) { return rule.name == check; });
    if (asks) RecomputeActivity(queue.get());
  }
}

template <typename Wakes>
void Forest::WakeUsers(FlavorId flavor, Wakes wakes) {
  const auto users = flavor_users_.find(flavor);
  if (users == flavor_users_.end()) return;
  for (ClusterQueueState* queue : users->second) {
    if (!wakes(queue)) continue;
    Gained(queue->tree);
    RequestFlush(queue->tree);
  }
}

void Forest::FlavorGained(FlavorId flavor) {
  WakeUsers(flavor, [](ClusterQueueState*) { return true; });
}

void Forest::MachinesGained(FlavorId flavor) {
  WakeUsers(flavor, [](ClusterQueueState* queue) { return std::exchange(queue->waits_for_machines, false); });
}

void Forest::NotePassesOver(ClusterQueueState* queue) {
  queue->passes_over = true;
  some_pass_over_ = true;
}

void Forest::MachinesLost() {
  if (!std::exchange(some_pass_over_, false)) return;  // it is asked for each node
  for (const auto& [name, queue] : queues_) {
    if (!std::exchange(queue->passes_over, false) || queue->tree == nullptr) continue;
    Gained(queue->tree);
    RequestFlush(queue->tree);
  }
}

std::vector<ClusterQueueState*> Forest::TakeActivityChanges() {
  std::vector<ClusterQueueState*> changes(activity_changes_.begin(), activity_changes_.end());
  activity_changes_.clear();
  return changes;
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
  GiveUpUselessRooms(queue);
  WallTime due = queue->waiting.NextDue();
  const WallTime room_ends = queue->keeping.empty() ? WallTime{} : (*queue->keeping.begin())->room->until;
  for (const WallTime other : {queue->stall_ends, queue->recheck_at, queue->reserve_at, room_ends}) {
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

void Forest::Stall(ClusterQueueState* queue, bool lost, WallTime now) {
  const queue::Ticket* head = queue->waiting.Head();
  if (queue->stalled_head == head) return;
  queue->stalled_head = head;
  queue->stall_lost = lost;
  queue->stall_ends = now + kStallPatience;
  Refresh(queue);
}

void Forest::RecheckLater(ClusterQueueState* queue, WallTime now) {
  if (queue->recheck_at.IsSet()) return;
  queue->recheck_at = now + kStallPatience;
  Refresh(queue);
}

void Forest::RecheckForMachines(ClusterQueueState* queue, WallTime when) {
  if (queue->reserve_at.IsSet() && queue->reserve_at <= when) return;
  queue->reserve_at = when;
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
  ++tree->outside;
  quotas_changed_ = true;
  RequestFlush(tree);
}

void Forest::ReleaseDue(WallTime now) {
  while (!due_queues_.empty() && (*due_queues_.begin())->due <= now) {
    ClusterQueueState* queue = *due_queues_.begin();
    if (queue->stall_ends.IsSet() && queue->stall_ends <= now) {
      if (std::exchange(queue->stall_lost, false)) {
        queue->stall_ends = now + kStallPatience;
        active_trees_.insert(queue->tree);
      } else {
        queue->waiting.Park(queue->waiting.Head());
      }
    }
    queue->waiting.ReleaseDue(now);
    const auto room_ends = [queue] { return (*queue->keeping.begin())->room->until; };
    while (!queue->keeping.empty() && room_ends().IsSet() && room_ends() <= now) {
      WorkloadState* workload = *queue->keeping.begin();
      workload->room_spent = true;
      BeginTurn();
      GiveUpRoom(workload);
      if (WasMoved(*workload)) workload->last_eviction->moved = false;  // from now on it waits like others
      RequestFlush(queue->tree);
    }
    if (queue->reserve_at.IsSet() && queue->reserve_at <= now) {
      queue->reserve_at = {};
      RequestFlush(queue->tree);
    }
    if (queue->recheck_at.IsSet() && queue->recheck_at <= now) {
      // First those behind them have their turn, or it would never come. What is closed is looked at once it opens.
      const bool busy = queue->active && queue->waiting.Head() != nullptr;
      queue->recheck_at = busy ? now + kStallPatience : WallTime{};
      queue->recheck_due = queue->active && !busy;
      if (queue->recheck_due) active_trees_.insert(queue->tree);
    }
    Refresh(queue);
  }
}

WallTime Forest::NextDue() const { return due_queues_.empty() ? WallTime{} : (*due_queues_.begin())->due; }

uint64_t Forest::GenerationOf(const ClusterQueueState& queue) const {
  return std::max(queue.capacity_generation, queue.tree->quota_generation);
}

}  // namespace muster::engine
