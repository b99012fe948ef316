// What holds after every event, on random trees of cohorts and random orders of events.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "cluster.h"
#include "model.h"

namespace muster::engine {

namespace {

std::optional<Amount> AnyLimit() {
  if (*rc::gen::inRange(0, 2) == 0) return std::nullopt;
  return Amount{*rc::gen::inRange<int64_t>(0, 8)};
}

std::vector<ResourceGroup> AnyQuotas(bool limits) {
  ResourceGroup group{kResources, {}};
  for (const std::string& flavor : kFlavors) {
    FlavorQuotas quotas{flavor, {}};
    for (const std::string& resource : kResources) {
      ResourceQuota quota{resource, Amount{*rc::gen::inRange<int64_t>(0, 8)}, std::nullopt, std::nullopt};
      if (limits) {
        quota.borrowing_limit = AnyLimit();
        quota.lending_limit = AnyLimit();
      }
      quotas.resources.push_back(quota);
    }
    group.flavors.push_back(quotas);
  }
  return {group};
}

std::string AnyName(const std::string& prefix, int count) {
  return prefix + std::to_string(*rc::gen::inRange(0, count));
}
std::string AnyCohort() { return *rc::gen::inRange(0, 4) == 0 ? std::string() : AnyName("c", 4); }
bool OneIn(int n) { return *rc::gen::inRange(0, n) == 0; }

StopPolicy AnyStopPolicy() {
  return *rc::gen::elementOf(
      std::vector{StopPolicy::kNone, StopPolicy::kNone, StopPolicy::kHold, StopPolicy::kHoldAndDrain});
}

gang::ShapePtr AnyShape() {
  gang::Shape shape;
  shape.requests["cpu"] = Amount{*rc::gen::inRange(0, 3)};
  if (OneIn(3)) shape.requests["gpu"] = Amount{*rc::gen::inRange(0, 2)};
  return std::make_shared<const gang::Shape>(std::move(shape));
}

// Pods that it is content with.
int32_t LeastPods(const Workload& workload) {
  const PodSet& pods = workload.pod_sets.at(0);
  return pods.min_count.value_or(pods.count);
}

class Run {
 public:
  Run() : engine_({}, &room_) {
    for (const std::string& flavor : kFlavors) SetFlavor(flavor, true);
    Apply(NamespaceChanged{Namespace{"ns", {}}});
    for (int i = 0; i < 4; ++i) SetLocalQueue(LocalTo("q" + std::to_string(i)));
  }

  void RandomEvent() {
    switch (*rc::gen::inRange(0, 24)) {
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
      case 8:
      case 9:
        return MoveClaim();
      case 10:
        return ChangeLocalQueue();
      case 11:
        return ChangeSurroundings();
      case 12:
        return ChangeWorkload();
      default:
        return Submit();
    }
  }

  void Decide() {
    now_ = now_ + std::chrono::seconds(1);
    std::set<std::string> due;
    for (const auto& [uid, holding] : model_.holdings) {
      if (model_.MustGo(uid) && !holding.evicted) due.insert(uid);
    }
    std::set<std::string> given;  // "queue/flavor/resource"
    for (const Decision& decision : engine_.Decide(now_)) {
      if (const auto* admit = std::get_if<Admit>(&decision)) TakeAdmission(*admit, &given);
      if (const auto* evict = std::get_if<Evict>(&decision)) {
        RC_ASSERT(due.erase(evict->uid) == 1);
        Model::Holding& holding = model_.holdings.at(evict->uid);
        RC_ASSERT(holding.id == evict->claim);
        holding.evicted = true;
      }
    }
    RC_ASSERT(due.empty());
    steps_.emplace_back(now_);
    Check(given);
  }

  // Until time alone changes nothing any more.
  void Settle() {
    for (int i = 0; i < 100 && engine_.NextDue().IsSet(); ++i) {
      now_ = std::max(now_, engine_.NextDue());
      Decide();
    }
    Decide();
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

  // Two new engines that find the objects in different orders have the same state, book what the old one has booked,
  // and have nothing new to decide.
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
    for (const auto& [name, queue] : model_.queues) {
      const std::vector<FlavorUsage> before = engine_.ViewClusterQueue(name).usage;
      const std::vector<FlavorUsage> after = other.ViewClusterQueue(name).usage;
      RC_ASSERT(before.size() == after.size());
      for (size_t i = 0; i < before.size(); ++i) RC_ASSERT(before[i].reserved == after[i].reserved);
    }
    for (const Decision& decision : other.Decide(now_)) {
      RC_ASSERT(!std::holds_alternative<Admit>(decision));
      // That somebody was told to go is not in the objects until it is being stopped.
      if (const auto* evict = std::get_if<Evict>(&decision)) RC_ASSERT(model_.MayNotStay(evict->uid));
    }
  }

  // Of those who could be held against the formulas.
  bool somebody_waited() const { return somebody_waited_; }

 private:
  void TakeAdmission(const Admit& admit, std::set<std::string>* given) {
    RC_ASSERT(!model_.holdings.contains(admit.uid));
    const Workload& workload = model_.workloads.at(admit.uid);
    const ClusterQueue* queue = model_.QueueOf(workload);
    RC_ASSERT(queue != nullptr);
    RC_ASSERT(queue->name == admit.admission.cluster_queue);
    RC_ASSERT(queue->stop_policy == StopPolicy::kNone);
    RC_ASSERT(model_.Selects(*queue));
    RC_ASSERT(workload.invalid.empty());
    if (const auto it = model_.not_before.find(admit.uid); it != model_.not_before.end()) RC_ASSERT(it->second <= now_);
    const PodSetAssignment& pod_set = admit.admission.pod_sets.at(0);
    RC_ASSERT(pod_set.count >= LeastPods(workload));
    RC_ASSERT(pod_set.count <= workload.pod_sets.at(0).count);
    model_.holdings[admit.uid] = {admit.claim, ClaimState::kPlanned, admit.admission, false};
    model_.not_before.erase(admit.uid);
    // What asks for nothing may start although too much is in use. Both lists are in the order of resources.
    RC_ASSERT(pod_set.usage.size() == pod_set.flavors.size());
    for (size_t i = 0; i < pod_set.usage.size(); ++i) {
      const auto& [resource, flavor] = pod_set.flavors[i];
      RC_ASSERT(pod_set.usage[i].first == resource);
      if (pod_set.usage[i].second == Amount{0}) continue;
      given->insert(admit.admission.cluster_queue + "/" + flavor + "/" + resource);
    }
  }

  void Check(const std::set<std::string>& given) {
    engine_.Validate();
    for (const std::string& flavor : kFlavors) {
      for (const std::string& resource : kResources) CheckUsage(flavor, resource, given);
    }
    NobodyWaitsWhoFits();
  }

  void CheckUsage(const std::string& flavor, const std::string& resource, const std::set<std::string>& given) {
    const Formulas formulas(model_, flavor, resource);
    for (const auto& [name, queue] : model_.queues) {
      const ClusterQueueView view = engine_.ViewClusterQueue(name);
      for (const FlavorUsage& usage : view.usage) {
        if (usage.flavor != flavor || usage.resource != resource) continue;
        RC_ASSERT(usage.reserved == Amount{formulas.Usage("q/" + name)});
      }
      const bool active = !formulas.on_cycle.contains(formulas.Root("q/" + name)) && model_.HasFlavors(queue) &&
                          queue.stop_policy == StopPolicy::kNone;
      RC_ASSERT(view.active == active);
      if (given.contains(name + "/" + flavor + "/" + resource)) RC_ASSERT(formulas.Available("q/" + name) >= 0);
    }
  }

  bool Fits(const Workload& workload, const std::string& queue, const std::string& flavor) const {
    for (const std::string& resource : kResources) {
      const auto& requests = workload.pod_sets.at(0).shape->requests;
      const auto request = requests.find(resource);
      const int64_t asked = request == requests.end() ? 0 : request->second.value * LeastPods(workload);
      if (asked > 0 && Formulas(model_, flavor, resource).Available("q/" + queue) < asked) return false;
    }
    return true;
  }

  // In a tree where a StrictFIFO head waits, it may keep room for itself.
  void NobodyWaitsWhoFits() {
    std::set<std::string> kept;
    const Formulas structure(model_, kFlavors[0], kResources[0]);
    for (const auto& [uid, workload] : model_.workloads) {
      const ClusterQueue* queue = model_.QueueOf(workload);
      if (queue == nullptr || model_.holdings.contains(uid)) continue;
      if (queue->queueing_strategy == QueueingStrategy::kStrictFIFO) kept.insert(structure.Root("q/" + queue->name));
    }
    for (const auto& [uid, workload] : model_.workloads) {
      const std::optional<WorkloadView> view = engine_.ViewWorkload(uid);
      RC_ASSERT(view.has_value());
      RC_ASSERT((view->place == WorkloadView::Place::kHolding) == model_.holdings.contains(uid));
      const ClusterQueue* queue = model_.QueueOf(workload);
      if (model_.holdings.contains(uid) || queue == nullptr) continue;
      const bool active = engine_.ViewClusterQueue(queue->name).active;
      const std::vector<Obstacle>& obstacles = view->reason.obstacles;
      const bool told_inactive = !obstacles.empty() && obstacles[0].kind == ObstacleKind::kClusterQueueInactive;
      RC_ASSERT(told_inactive == !active);
      if (!active || !model_.Selects(*queue) || !workload.invalid.empty()) continue;
      if (const auto it = model_.not_before.find(uid); it != model_.not_before.end() && it->second > now_) continue;
      if (kept.contains(structure.Root("q/" + queue->name))) continue;
      somebody_waited_ = true;
      for (const std::string& flavor : kFlavors) RC_ASSERT(!Fits(workload, queue->name, flavor));
    }
  }

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
    for (const std::string& flavor : model_.flavors) {
      events.emplace_back(FlavorChanged{ResourceFlavor{flavor, {}, {}, {}, ""}});
    }
    events.emplace_back(NamespaceChanged{Namespace{"ns", model_.labels}});
    for (const auto& [name, queue] : model_.local_queues) events.emplace_back(LocalQueueChanged{queue});
    for (const auto& [name, cohort] : model_.cohorts) events.emplace_back(CohortChanged{cohort});
    for (const auto& [name, queue] : model_.queues) events.emplace_back(ClusterQueueChanged{queue});
    for (const auto& [uid, workload] : model_.workloads) {
      Workload object = workload;
      if (const auto it = model_.holdings.find(uid); it != model_.holdings.end()) {
        const ClaimState state = std::max(it->second.state, ClaimState::kWritten);  // the last write arrived
        object.held = HeldClaim{it->second.id, state, it->second.admission, At(50)};
      }
      events.emplace_back(WorkloadChanged{std::move(object)});
    }
    return events;
  }

  void SetFlavor(const std::string& name, bool exists) {
    if (exists) {
      model_.flavors.insert(name);
      Apply(FlavorChanged{ResourceFlavor{name, {}, {}, {}, ""}});
    } else {
      model_.flavors.erase(name);
      Apply(FlavorDeleted{name});
    }
  }
  void SetLocalQueue(const LocalQueue& queue) {
    model_.local_queues[queue.name] = queue;
    Apply(LocalQueueChanged{queue});
  }

  void ChangeQueue() {
    ClusterQueue queue;
    queue.name = AnyName("q", 4);
    queue.generation = static_cast<int64_t>(steps_.size());
    queue.cohort = AnyCohort();
    queue.namespace_selector = LabelSelector{};
    if (OneIn(4)) queue.namespace_selector->match_labels["tier"] = "gold";
    queue.resource_groups = AnyQuotas(true);
    if (OneIn(4)) queue.queueing_strategy = QueueingStrategy::kStrictFIFO;
    if (OneIn(2)) queue.when_can_borrow = FungibilityPolicy::kTryNextFlavor;
    queue.stop_policy = AnyStopPolicy();
    model_.queues[queue.name] = queue;
    Apply(ClusterQueueChanged{queue});
  }
  void ChangeCohort() {
    Cohort cohort;
    cohort.name = AnyName("c", 4);
    cohort.parent = AnyCohort();
    cohort.resource_groups = AnyQuotas(true);
    model_.cohorts[cohort.name] = cohort;
    Apply(CohortChanged{cohort});
  }
  void Delete() {
    if (OneIn(2)) {
      const std::string name = AnyName("c", 4);
      model_.cohorts.erase(name);
      Apply(CohortDeleted{name});
    } else {
      const std::string name = AnyName("q", 4);
      model_.queues.erase(name);
      Apply(ClusterQueueDeleted{name});
    }
  }
  void ChangeLocalQueue() {
    LocalQueue queue = LocalTo(AnyName("q", 4));
    if (OneIn(4)) {
      model_.local_queues.erase(queue.name);
      Apply(LocalQueueDeleted{queue.ns, queue.name});
      return;
    }
    queue.cluster_queue = AnyName("q", 4);
    queue.stop_policy = AnyStopPolicy();
    SetLocalQueue(queue);
  }
  void ChangeSurroundings() {
    if (OneIn(2)) return SetFlavor(*rc::gen::elementOf(kFlavors), !OneIn(3));
    model_.labels.clear();
    if (OneIn(2)) model_.labels["tier"] = "gold";
    Apply(NamespaceChanged{Namespace{"ns", model_.labels}});
  }
  void Submit() {
    const std::string uid = AnyName("w", 12);
    // What runs keeps its shape.
    if (model_.holdings.contains(uid)) return;
    Workload workload =
        Gang(uid, AnyName("q", 4), *rc::gen::inRange(1, 5), *rc::gen::inRange(1, 5), *rc::gen::inRange(0, 2));
    workload.pod_sets[0].shape = AnyShape();
    if (OneIn(4)) workload.pod_sets[0].min_count = 1;
    if (OneIn(12)) {
      workload.invalid.emplace_back();
      workload.invalid.back().kind = ObstacleKind::kRequestsExceedLimits;
    }
    Change(workload);
  }
  // Of one that waits or runs.
  void ChangeWorkload() {
    const auto it = model_.workloads.find(AnyName("w", 12));
    if (it == model_.workloads.end()) return;
    Workload workload = it->second;
    if (OneIn(2)) {
      workload.active = !workload.active;
    } else {
      workload.priority = *rc::gen::inRange(0, 3);
    }
    Change(workload);
  }
  void Change(const Workload& workload) {
    model_.workloads[workload.uid] = workload;
    Apply(WorkloadChanged{workload});
  }
  void Finish() {
    if (model_.workloads.empty()) return;
    const std::string uid = AnyName("w", 12);
    model_.workloads.erase(uid);
    model_.holdings.erase(uid);
    model_.not_before.erase(uid);
    Apply(WorkloadDeleted{uid});
  }
  void MoveClaim() {
    const std::string uid = AnyName("w", 12);
    const auto it = model_.holdings.find(uid);
    if (it == model_.holdings.end()) return;
    Model::Holding& holding = it->second;
    switch (holding.state) {
      case ClaimState::kPlanned:
        if (OneIn(3)) return Refuse(uid);
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
        model_.holdings.erase(it);
        return;
      case ClaimState::kGone:
        return;
    }
  }
  void Refuse(const std::string& uid) {
    const ClaimId claim = model_.holdings.at(uid).id;
    const WallTime not_before = OneIn(2) ? WallTime{} : now_ + std::chrono::seconds(3);
    model_.holdings.erase(uid);
    if (not_before.IsSet()) model_.not_before[uid] = not_before;
    Apply(ClaimRefused{uid, claim, not_before, not_before.IsSet() ? "no" : ""});
  }

  gang::UncheckedRoom room_;
  EngineSet engine_;
  Model model_;
  std::vector<std::variant<Event, WallTime>> steps_;
  WallTime now_ = At(100);
  bool somebody_waited_ = false;
};

}  // namespace

TEST_CASE("usage is what the claims say, nothing is given beyond quota, and nobody waits who fits") {
  int64_t waited = 0;
  CHECK(rc::check([&waited] {
    Run run;
    const int steps = *rc::gen::inRange(1, 60);
    for (int i = 0; i < steps; ++i) {
      run.RandomEvent();
      if (*rc::gen::inRange(0, 3) != 0) run.Decide();
    }
    run.Settle();
    run.Replay();
    run.Restart();
    waited += run.somebody_waited() ? 1 : 0;
  }));
  CHECK(waited > 0);
}

}  // namespace muster::engine
