// What holds after every event, on random trees of cohorts and random orders of events.
//
// The invariants are those of the reference's accounting (kueue_semantics 5.1), worked out from scratch from
// the objects and from the admissions that were decided.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "cluster.h"

namespace muster::engine {

namespace {

const std::vector<std::string> kFlavors = {"f", "g"};

struct Quota {
  int64_t nominal = 0;
  std::optional<int64_t> borrowing, lending;
};

// The objects that exist, and who holds what.
struct World {
  std::map<std::string, Cohort> cohorts;
  std::map<std::string, ClusterQueue> queues;
  std::map<std::string, Workload> workloads;
  struct Holding {
    ClaimId id;
    ClaimState state = ClaimState::kPlanned;
    Admission admission;
  };
  std::map<std::string, Holding> holdings;

  static Quota QuotaOf(const std::vector<ResourceGroup>& groups, const std::string& flavor) {
    for (const ResourceGroup& group : groups) {
      for (const FlavorQuotas& quotas : group.flavors) {
        if (quotas.flavor != flavor) continue;
        const ResourceQuota& cpu = quotas.resources.at(0);
        Quota quota{cpu.nominal.value, std::nullopt, std::nullopt};
        if (cpu.borrowing_limit.has_value()) quota.borrowing = cpu.borrowing_limit->value;
        if (cpu.lending_limit.has_value()) quota.lending = cpu.lending_limit->value;
        return quota;
      }
    }
    return {};
  }
};

// The formulas of 5.1 for one flavor; nodes are "q/NAME" and "c/NAME".
struct Formulas {
  std::map<std::string, std::string> parent;  // empty: root
  std::map<std::string, Quota> quota;
  std::map<std::string, int64_t> taken;
  std::set<std::string> on_cycle;

  Formulas(const World& world, const std::string& flavor) {
    const auto declared = [&](const std::string& cohort) {
      const auto it = world.cohorts.find(cohort);
      return it == world.cohorts.end() ? std::string() : it->second.parent;
    };
    std::set<std::string> named;
    for (const auto& [name, cohort] : world.cohorts) named.insert({name, cohort.parent});
    for (const auto& [name, queue] : world.queues) named.insert(queue.cohort);
    named.erase("");
    for (const std::string& name : named) {
      std::string at = declared(name);
      for (size_t i = 0; i < named.size() && at != name && !at.empty(); ++i) at = declared(at);
      if (at == name) on_cycle.insert("c/" + name);
    }
    for (const std::string& name : named) {
      const std::string id = "c/" + name;
      parent[id] = declared(name).empty() || on_cycle.contains(id) ? "" : "c/" + declared(name);
      const auto known = world.cohorts.find(name);
      if (known != world.cohorts.end()) quota[id] = World::QuotaOf(known->second.resource_groups, flavor);
    }
    for (const auto& [name, queue] : world.queues) {
      parent["q/" + name] = queue.cohort.empty() ? "" : "c/" + queue.cohort;
      quota["q/" + name] = World::QuotaOf(queue.resource_groups, flavor);
    }
    for (const auto& [uid, holding] : world.holdings) {
      const PodSetAssignment& pod_set = holding.admission.pod_sets.at(0);
      if (pod_set.flavors.at(0).second == flavor) {
        taken["q/" + holding.admission.cluster_queue] += pod_set.usage.at(0).second.value;
      }
    }
  }

  std::string Root(std::string id) const {
    while (!parent.at(id).empty()) id = parent.at(id);
    return id;
  }
  Quota Of(const std::string& id) const {
    const auto it = quota.find(id);
    return it == quota.end() ? Quota{} : it->second;
  }
  template <typename F>
  int64_t SumOfChildren(const std::string& id, F amount) const {
    int64_t sum = 0;
    for (const auto& [child, above] : parent) {
      if (above == id) sum += amount(child);
    }
    return sum;
  }
  int64_t Subtree(const std::string& id) const {
    return Of(id).nominal + SumOfChildren(id, [this](const std::string& c) { return Subtree(c) - Local(c); });
  }
  int64_t Local(const std::string& id) const {
    const Quota own = Of(id);
    return own.lending.has_value() ? std::max<int64_t>(0, Subtree(id) - *own.lending) : 0;
  }
  int64_t Usage(const std::string& id) const {
    if (const auto it = taken.find(id); it != taken.end()) return it->second;
    return SumOfChildren(id, [this](const std::string& c) { return std::max<int64_t>(0, Usage(c) - Local(c)); });
  }
  int64_t Available(const std::string& id) const {
    if (parent.at(id).empty()) return Subtree(id) - Usage(id);
    int64_t from_parent = Available(parent.at(id));
    if (const Quota own = Of(id); own.borrowing.has_value()) {
      from_parent = std::min(from_parent,
                             (Subtree(id) - Local(id)) - std::max<int64_t>(0, Usage(id) - Local(id)) + *own.borrowing);
    }
    return std::max<int64_t>(0, Local(id) - Usage(id)) + from_parent;
  }
};

int64_t Asked(const Workload& workload) {
  return workload.pod_sets.at(0).shape->requests.at("cpu").value * workload.pod_sets.at(0).count;
}

std::optional<Amount> AnyLimit() {
  if (*rc::gen::inRange(0, 2) == 0) return std::nullopt;
  return Amount{*rc::gen::inRange<int64_t>(0, 8)};
}

std::vector<ResourceGroup> AnyQuotas(bool limits) {
  ResourceGroup group{{"cpu"}, {}};
  for (const std::string& flavor : kFlavors) {
    ResourceQuota quota{"cpu", Amount{*rc::gen::inRange<int64_t>(0, 8)}, std::nullopt, std::nullopt};
    if (limits) {
      quota.borrowing_limit = AnyLimit();
      quota.lending_limit = AnyLimit();
    }
    group.flavors.push_back({flavor, {quota}});
  }
  return {group};
}

std::string AnyName(const std::string& prefix, int count) {
  return prefix + std::to_string(*rc::gen::inRange(0, count));
}
std::string AnyCohort() { return *rc::gen::inRange(0, 4) == 0 ? std::string() : AnyName("c", 4); }

class Run {
 public:
  Run() : engine_({}, &room_) {
    for (const std::string& flavor : kFlavors) Apply(FlavorChanged{ResourceFlavor{flavor, {}, {}, {}, ""}});
    Apply(NamespaceChanged{Namespace{"ns", {}}});
    for (int i = 0; i < 4; ++i) Apply(LocalQueueChanged{LocalTo("q" + std::to_string(i))});
  }

  void RandomEvent() {
    switch (*rc::gen::inRange(0, 16)) {
      case 0:
      case 1:
        return ChangeQueue();
      case 2:
        return ChangeCohort();
      case 3:
        return Delete();
      case 4:
      case 5:
      case 6:
        return Finish();
      case 7:
        return MoveClaim();
      default:
        return Submit();
    }
  }

  void Decide() {
    now_ = now_ + std::chrono::seconds(1);
    std::set<std::string> admitted_in;
    for (const Decision& decision : engine_.Decide(now_)) {
      if (const auto* admit = std::get_if<Admit>(&decision)) {
        RC_ASSERT(!world_.holdings.contains(admit->uid));
        RC_ASSERT(admit->admission.pod_sets.at(0).count == world_.workloads.at(admit->uid).pod_sets.at(0).count);
        world_.holdings[admit->uid] = {admit->claim, ClaimState::kPlanned, admit->admission};
        // What asks for nothing may start although too much is in use.
        const PodSetAssignment& pod_set = admit->admission.pod_sets.at(0);
        if (pod_set.usage.at(0).second == Amount{0}) continue;
        admitted_in.insert(admit->admission.cluster_queue + "/" + pod_set.flavors.at(0).second);
      }
      RC_ASSERT(!std::holds_alternative<Evict>(decision));
    }
    steps_.emplace_back(now_);
    Check(admitted_in);
  }

  void Check(const std::set<std::string>& admitted_in) {
    engine_.Validate();
    for (const std::string& flavor : kFlavors) {
      const Formulas formulas(world_, flavor);
      for (const auto& [name, queue] : world_.queues) {
        const ClusterQueueView view = engine_.ViewClusterQueue(name);
        for (const FlavorUsage& usage : view.usage) {
          if (usage.flavor == flavor) RC_ASSERT(usage.reserved == Amount{formulas.Usage("q/" + name)});
        }
        RC_ASSERT(view.active == !formulas.on_cycle.contains(formulas.Root("q/" + name)));
        if (admitted_in.contains(name + "/" + flavor)) RC_ASSERT(formulas.Available("q/" + name) >= 0);
      }
    }
    NobodyWaitsWhoFits();
  }

  // In a tree where a StrictFIFO head waits, it may keep room for itself.
  void NobodyWaitsWhoFits() {
    std::set<std::string> kept;
    const Formulas structure(world_, kFlavors[0]);
    for (const auto& [uid, workload] : world_.workloads) {
      const auto queue = world_.queues.find(workload.local_queue);
      if (queue == world_.queues.end() || world_.holdings.contains(uid)) continue;
      if (queue->second.queueing_strategy == QueueingStrategy::kStrictFIFO)
        kept.insert(structure.Root("q/" + queue->first));
    }
    for (const auto& [uid, workload] : world_.workloads) {
      const std::optional<WorkloadView> view = engine_.ViewWorkload(uid);
      RC_ASSERT(view.has_value());
      RC_ASSERT((view->place == WorkloadView::Place::kHolding) == world_.holdings.contains(uid));
      if (world_.holdings.contains(uid) || !world_.queues.contains(workload.local_queue)) continue;
      const std::string root = structure.Root("q/" + workload.local_queue);
      if (kept.contains(root) || structure.on_cycle.contains(root)) continue;
      somebody_waited_ = true;
      for (const std::string& flavor : kFlavors) {
        RC_ASSERT(Formulas(world_, flavor).Available("q/" + workload.local_queue) < Asked(workload));
      }
    }
    strict_waits_ = !kept.empty();
  }

  // The same events and times give the same state.
  void Replay() const {
    EngineSet again({}, &room_);
    for (const auto& step : steps_) {
      if (const auto* event = std::get_if<Event>(&step)) {
        again.Apply(*event);
      } else {
        again.Decide(std::get<WallTime>(step));
      }
    }
    RC_ASSERT(again.StateHash() == engine_.StateHash());
  }

  // Two new engines that find the objects in different orders have the same state, book what the old one
  // has booked, and have nothing to decide.
  void Restart() const {
    EngineOptions options;
    options.epoch = 2;
    EngineSet one(options, &room_);
    EngineSet other(options, &room_);
    const std::vector<Event> events = Objects();
    for (const Event& event : events) one.Apply(event);
    for (const Event& event : Shuffled(events)) other.Apply(event);
    one.Validate();
    other.Validate();
    RC_ASSERT(one.StateHash() == other.StateHash());
    for (const auto& [name, queue] : world_.queues) {
      const std::vector<FlavorUsage> before = engine_.ViewClusterQueue(name).usage;
      const std::vector<FlavorUsage> after = other.ViewClusterQueue(name).usage;
      RC_ASSERT(before.size() == after.size());
      for (size_t i = 0; i < before.size(); ++i) RC_ASSERT(before[i].reserved == after[i].reserved);
    }
    if (strict_waits_) return;
    for (const Decision& decision : other.Decide(now_)) RC_ASSERT(std::holds_alternative<Hold>(decision));
  }

  // Of those who could be held against the formulas.
  bool somebody_waited() const { return somebody_waited_; }

 private:
  void Apply(const Event& event) {
    steps_.emplace_back(event);
    engine_.Apply(event);
    engine_.Validate();
  }

  static std::vector<Event> Shuffled(const std::vector<Event>& events) {
    // Events have no operator<<; the keys are what is drawn.
    const auto keys = *rc::gen::container<std::vector<uint32_t>>(events.size(), rc::gen::arbitrary<uint32_t>());
    std::vector<size_t> order(events.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&keys](size_t a, size_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; });
    std::vector<Event> out;
    for (const size_t i : order) out.push_back(events[i]);
    return out;
  }

  std::vector<Event> Objects() const {
    std::vector<Event> events;
    for (const std::string& flavor : kFlavors)
      events.emplace_back(FlavorChanged{ResourceFlavor{flavor, {}, {}, {}, ""}});
    events.emplace_back(NamespaceChanged{Namespace{"ns", {}}});
    for (int i = 0; i < 4; ++i) events.emplace_back(LocalQueueChanged{LocalTo("q" + std::to_string(i))});
    for (const auto& [name, cohort] : world_.cohorts) events.emplace_back(CohortChanged{cohort});
    for (const auto& [name, queue] : world_.queues) events.emplace_back(ClusterQueueChanged{queue});
    for (const auto& [uid, workload] : world_.workloads) {
      Workload object = workload;
      if (const auto it = world_.holdings.find(uid); it != world_.holdings.end()) {
        object.held = HeldClaim{it->second.id, ClaimState::kActive, it->second.admission, At(50)};
      }
      events.emplace_back(WorkloadChanged{std::move(object)});
    }
    return events;
  }

  void ChangeQueue() {
    ClusterQueue queue;
    queue.name = AnyName("q", 4);
    queue.generation = static_cast<int64_t>(steps_.size());
    queue.cohort = AnyCohort();
    queue.namespace_selector = LabelSelector{};
    queue.resource_groups = AnyQuotas(true);
    if (*rc::gen::inRange(0, 4) == 0) queue.queueing_strategy = QueueingStrategy::kStrictFIFO;
    world_.queues[queue.name] = queue;
    Apply(ClusterQueueChanged{queue});
  }
  void ChangeCohort() {
    Cohort cohort;
    cohort.name = AnyName("c", 4);
    cohort.parent = AnyCohort();
    cohort.resource_groups = AnyQuotas(true);
    world_.cohorts[cohort.name] = cohort;
    Apply(CohortChanged{cohort});
  }
  void Delete() {
    if (*rc::gen::inRange(0, 2) == 0) {
      const std::string name = AnyName("c", 4);
      world_.cohorts.erase(name);
      Apply(CohortDeleted{name});
    } else {
      const std::string name = AnyName("q", 4);
      world_.queues.erase(name);
      Apply(ClusterQueueDeleted{name});
    }
  }
  void Submit() {
    const std::string uid = AnyName("w", 12);
    // What runs keeps its shape.
    if (world_.holdings.contains(uid)) return;
    Workload workload =
        Gang(uid, AnyName("q", 4), *rc::gen::inRange(1, 5), *rc::gen::inRange(1, 5), *rc::gen::inRange(0, 2));
    workload.pod_sets[0].shape = CpuShape(*rc::gen::inRange(0, 3));
    world_.workloads[uid] = workload;
    Apply(WorkloadChanged{workload});
  }
  void Finish() {
    if (world_.workloads.empty()) return;
    const std::string uid = AnyName("w", 12);
    world_.workloads.erase(uid);
    world_.holdings.erase(uid);
    Apply(WorkloadDeleted{uid});
  }
  void MoveClaim() {
    const std::string uid = AnyName("w", 12);
    const auto it = world_.holdings.find(uid);
    if (it == world_.holdings.end()) return;
    World::Holding& holding = it->second;
    switch (holding.state) {
      case ClaimState::kPlanned:
        if (*rc::gen::inRange(0, 3) == 0) {
          Apply(ClaimRefused{uid, holding.id, WallTime{}, ""});
          world_.holdings.erase(it);
          return;
        }
        Apply(ClaimWritten{uid, holding.id});
        holding.state = ClaimState::kWritten;
        return;
      case ClaimState::kWritten:
        Apply(ClaimActive{uid, holding.id});
        holding.state = ClaimState::kActive;
        return;
      case ClaimState::kActive:
        Apply(ClaimLeaving{uid, holding.id});
        holding.state = ClaimState::kLeaving;
        return;
      case ClaimState::kLeaving:
        Apply(ClaimGone{uid, holding.id});
        world_.holdings.erase(it);
        return;
      case ClaimState::kGone:
        return;
    }
  }

  gang::UncheckedRoom room_;
  EngineSet engine_;
  World world_;
  std::vector<std::variant<Event, WallTime>> steps_;
  WallTime now_ = At(100);
  bool strict_waits_ = false;
  bool somebody_waited_ = false;
};

}  // namespace

TEST_CASE("usage is what the claims say, nothing is given beyond quota, and nobody waits who fits") {
  int64_t waited = 0;
  CHECK(rc::check([&waited] {
    Run run;
    const int steps = *rc::gen::inRange(1, 50);
    for (int i = 0; i < steps; ++i) {
      run.RandomEvent();
      if (*rc::gen::inRange(0, 3) != 0) run.Decide();
    }
    run.Decide();
    run.Replay();
    run.Restart();
    waited += run.somebody_waited() ? 1 : 0;
  }));
  CHECK(waited > 0);
}

}  // namespace muster::engine
