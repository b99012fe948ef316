// What holds after every event, on random trees of cohorts and random orders of events.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "cluster.h"
#include "draws.h"
#include "model.h"

namespace muster::engine {

namespace {

std::optional<Amount> AnyLimit() {
  if (OneIn(2)) return std::nullopt;
  return Amount{Draw<int64_t>(0, 8)};
}

std::vector<ResourceGroup> AnyQuotas(bool limits) {
  ResourceGroup group{kResources, {}};
  for (const std::string& flavor : kFlavors) {
    FlavorQuotas quotas{flavor, {}};
    for (const std::string& resource : kResources) {
      ResourceQuota quota{resource, Amount{Draw<int64_t>(0, 8)}, std::nullopt, std::nullopt};
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

std::string AnyName(const std::string& prefix, int count) { return prefix + std::to_string(Draw(0, count)); }
std::string AnyCohort() { return OneIn(4) ? std::string() : AnyName("c", 4); }

PreemptionPolicy AnyPreemptionPolicy() {
  return *rc::gen::elementOf(std::vector{PreemptionPolicy::kNever, PreemptionPolicy::kLowerPriority,
                                         PreemptionPolicy::kLowerOrNewerEqualPriority, PreemptionPolicy::kAny});
}

StopPolicy AnyStopPolicy() {
  return *rc::gen::elementOf(
      std::vector{StopPolicy::kNone, StopPolicy::kNone, StopPolicy::kHold, StopPolicy::kHoldAndDrain});
}

gang::ShapePtr AnyShape() {
  gang::Shape shape;
  shape.requests["cpu"] = Amount{Draw(0, 3)};
  if (OneIn(3)) shape.requests["gpu"] = Amount{Draw(0, 2)};
  return std::make_shared<const gang::Shape>(std::move(shape));
}

// Pods that it is content with.
int32_t LeastPods(const Workload& workload) {
  const PodSet& pods = workload.pod_sets.at(0);
  return pods.min_count.value_or(pods.count);
}

class Run {
 public:
  Run() : engine_(EngineOptions{}) {
    for (const std::string& flavor : kFlavors) SetFlavor(flavor, true);
    Apply(NamespaceChanged{Namespace{"ns", {}}});
    for (int i = 0; i < 4; ++i) SetLocalQueue(LocalTo("q" + std::to_string(i)));
  }

  // What is drawn is small at first: what comes late in this list comes in the later histories only.
  void RandomEvent() {
    const int drawn = Draw(0, 34);
    if (drawn < 2) return ChangeQueue();
    if (drawn < 3) return ChangeCohort();
    if (drawn < 4) return Delete();
    if (drawn < 6) return Finish();
    if (drawn < 16) return Submit();
    if (drawn < 20) return MoveClaim();
    if (drawn < 25) return ChangeWorkload();
    if (drawn < 26) return ChangeLocalQueue();
    if (drawn < 27) return ChangeSurroundings();
    if (drawn < 28) return RefuseEviction();
    Submit();
  }

  void Decide() {
    now_ = now_ + std::chrono::seconds(1);
    std::set<std::string> due;
    for (const auto& [uid, holding] : model_.holdings) {
      const auto not_before = no_eviction_before_.find(uid);
      const bool may = not_before == no_eviction_before_.end() || not_before->second <= now_;
      if (model_.MustGo(uid) && !holding.evicted && may) due.insert(uid);
    }
    std::set<std::string> given;  // "queue/flavor/resource"
    for (const Decision& decision : engine_.Decide(now_)) {
      if (const auto* admit = std::get_if<Admit>(&decision)) TakeAdmission(*admit, &given);
      if (const auto* grow = std::get_if<Grow>(&decision)) TakeGrowth(*grow, &given);
      if (const auto* evict = std::get_if<Evict>(&decision)) {
        const bool wanted = due.erase(evict->uid) == 1;
        RC_ASSERT((wanted || !evict->preemptor_uid.empty()));
        TakeEviction(*evict);
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

  // While everybody does as told, there is an end of evictions and starts.
  void Quiesce() {
    // Of whom somebody was told to go for before, the room may have been kept for as long as it is: that is over.
    AnswerAll();
    Decide();
    victims_of_.clear();
    quiescing_ = true;
    int idle = 0;
    for (int i = 0; idle < 5; ++i) {
      RC_ASSERT(i < 300);
      idle = AnswerAll() ? 0 : idle + 1;
      now_ = std::max(now_, engine_.NextDue());
      Decide();
    }
  }

  // The same events and times give the same state.
  void Replay() const {
    EngineSet again(EngineOptions{});
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
    EngineSet one(options);
    EngineSet other(options);
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
      // Evictions that were decided and not begun are not in the objects: who waits for them looks anew, and may find
      // room for fewer pods first.
      if (const auto* admit = std::get_if<Admit>(&decision)) {
        const std::vector<Obstacle> known = engine_.ViewWorkload(admit->uid)->reason.obstacles;
        RC_ASSERT(std::any_of(known.begin(), known.end(), [](const Obstacle& obstacle) {
          return obstacle.kind == ObstacleKind::kPendingPreemption || obstacle.kind == ObstacleKind::kDeferredFit;
        }));
      }
      if (const auto* grow = std::get_if<Grow>(&decision)) {
        // Not while an answer was awaited.
        const Model::Holding& holding = model_.holdings.at(grow->uid);
        RC_ASSERT((holding.before_growth.has_value() || holding.state == ClaimState::kPlanned));
      }
      // A parked preemptor is not looked at because others have started; a new engine looks at everybody once.
      const auto* evict = std::get_if<Evict>(&decision);
      const bool allowed = evict == nullptr || !evict->preemptor_uid.empty() || model_.MayNotStay(evict->uid);
      RC_ASSERT(allowed);
    }
  }

  // Of those who could be held against the formulas.
  bool somebody_waited() const { return somebody_waited_; }
  int64_t preemptions() const { return preemptions_; }
  int64_t growths() const { return growths_; }
  int64_t passed_over() const { return passed_over_; }

 private:
  void TakeEviction(const Evict& evict) {
    Model::Holding& holding = model_.holdings.at(evict.uid);
    RC_ASSERT(holding.id == evict.claim);
    RC_ASSERT(!holding.evicted);
    RC_ASSERT(holding.state == ClaimState::kWritten || holding.state == ClaimState::kActive);
    holding.evicted = true;
    holding.preemptor_uid = evict.preemptor_uid;
    if (evict.preemptor_uid.empty()) return;
    ++preemptions_;
    RC_ASSERT(evict.preemptor_uid != evict.uid);
    // Who was chosen goes, once its start has been written, whatever has become of the preemptor meanwhile.
    const bool chosen_before = chosen_.contains({evict.uid, evict.claim});
    const bool waits = model_.workloads.contains(evict.preemptor_uid) &&
                       model_.QueueOf(model_.workloads.at(evict.preemptor_uid)) != nullptr &&
                       (!model_.holdings.contains(evict.preemptor_uid) || model_.MissingPods(evict.preemptor_uid) > 0);
    RC_ASSERT((waits || chosen_before));
    // While nothing happens from outside, nobody is evicted for the same one twice.
    const bool first = victims_of_[evict.preemptor_uid].insert(evict.uid).second;
    RC_ASSERT((first || !quiescing_));
  }

  // All writes arrive, and who was told to go is gone. RETURNS: whether there was any such.
  bool AnswerAll() {
    bool any = false;
    const std::map<std::string, Model::Holding> holdings = model_.holdings;
    for (const auto& [uid, holding] : holdings) {
      if (holding.state == ClaimState::kPlanned) {
        any = true;
        Apply(ClaimWritten{uid, holding.id});
        model_.holdings.at(uid).state = ClaimState::kWritten;
      } else if (holding.before_growth.has_value()) {
        any = true;
        AnswerGrowth(uid, true);
      } else if (holding.evicted || holding.state == ClaimState::kLeaving) {
        any = true;
        Apply(ClaimLeaving{uid, holding.id});
        Apply(ClaimGone{uid, holding.id});
        model_.holdings.erase(uid);
      }
    }
    return any;
  }

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
    for (const auto& [resource, flavor] : pod_set.flavors) RC_ASSERT(!IsPassedOver(workload, queue->name, flavor));
    model_.holdings[admit.uid] = {admit.claim, ClaimState::kPlanned, admit.admission, false};
    model_.not_before.erase(admit.uid);
    victims_of_.erase(admit.uid);
    // What asks for nothing may start although too much is in use. Both lists are in the order of resources.
    RC_ASSERT(pod_set.usage.size() == pod_set.flavors.size());
    for (size_t i = 0; i < pod_set.usage.size(); ++i) {
      const auto& [resource, flavor] = pod_set.flavors[i];
      RC_ASSERT(pod_set.usage[i].first == resource);
      if (pod_set.usage[i].second == Amount{0}) continue;
      given->insert(admit.admission.cluster_queue + "/" + flavor + "/" + resource);
    }
  }

  // Counted by hand: what it holds is what so many of its pods ask for, in the flavors that they have already.
  void TakeGrowth(const Grow& grow, std::set<std::string>* given) {
    RC_ASSERT(model_.MissingPods(grow.uid) > 0);
    const Workload& workload = model_.workloads.at(grow.uid);
    Model::Holding& holding = model_.holdings.at(grow.uid);
    RC_ASSERT(grow.claim == holding.id);
    RC_ASSERT(model_.QueueOf(workload)->name == grow.admission.cluster_queue);
    PodSetAssignment wanted = holding.admission.pod_sets.at(0);
    wanted.count = workload.pod_sets.at(0).count;
    for (auto& [resource, amount] : wanted.usage) {
      amount = workload.pod_sets[0].shape->requests.at(resource) * wanted.count;
      if (amount == Amount{0}) continue;
      given->insert(grow.admission.cluster_queue + "/" + wanted.flavors.at(0).second + "/" + resource);
    }
    RC_ASSERT(grow.admission.pod_sets == std::vector{wanted});
    holding.before_growth = std::exchange(holding.admission, grow.admission);
    model_.not_before.erase(grow.uid);
    victims_of_.erase(grow.uid);
    ++growths_;
  }
  void AnswerGrowth(const std::string& uid, bool written) {
    Model::Holding& holding = model_.holdings.at(uid);
    const std::optional<Admission> before = std::exchange(holding.before_growth, std::nullopt);
    if (written) return Apply(GrowthWritten{uid, holding.id});
    holding.admission = *before;
    const WallTime not_before = OneIn(2) ? WallTime{} : now_ + std::chrono::seconds(3);
    if (not_before.IsSet()) model_.not_before[uid] = not_before;
    Apply(GrowthRefused{uid, holding.id, not_before, not_before.IsSet() ? "no" : ""});
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

  static bool Fits(const Model& model, const Workload& workload, const std::string& queue, const std::string& flavor,
                   int32_t pods) {
    for (const std::string& resource : kResources) {
      const auto& requests = workload.pod_sets.at(0).shape->requests;
      const auto request = requests.find(resource);
      const int64_t asked = request == requests.end() ? 0 : request->second.value * pods;
      if (asked > 0 && Formulas(model, flavor, resource).Available("q/" + queue) < asked) return false;
    }
    return true;
  }

  static int32_t TimeOuts(const Workload& workload, const std::string& flavor) {
    int32_t count = 0;
    for (const FlavorTimeOuts& entry : workload.timed_out) count += entry.flavor == flavor ? entry.count : 0;
    return count;
  }
  // It was out of time there more often than with a flavor that it could have if nobody held anything.
  bool IsPassedOver(const Workload& workload, const std::string& queue, const std::string& flavor) const {
    Model empty = model_;
    empty.holdings.clear();
    return std::any_of(kFlavors.begin(), kFlavors.end(), [&](const std::string& other) {
      return TimeOuts(workload, other) < TimeOuts(workload, flavor) &&
             Fits(empty, workload, queue, other, LeastPods(workload));
    });
  }

  // In a tree where a StrictFIFO head waits, it may keep room for itself; as it is kept for preemptors. Who would do
  // with fewer pods may wait for all of them while others leave.
  void NobodyWaitsWhoFits() {
    std::set<std::string> kept;
    std::set<std::string> some_leave;
    const Formulas structure(model_, kFlavors[0], kResources[0]);
    for (const auto& [uid, holding] : model_.holdings) {
      const bool chosen = engine_.ViewWorkload(uid)->evicted.has_value();
      if (chosen) chosen_.emplace(uid, holding.id);
      const bool leaves = holding.state == ClaimState::kLeaving || chosen;
      const std::string& queue = holding.admission.cluster_queue;
      if (leaves && model_.queues.contains(queue)) some_leave.insert(structure.Root("q/" + queue));
    }
    for (const auto& [uid, workload] : model_.workloads) {
      const ClusterQueue* queue = model_.QueueOf(workload);
      if (queue == nullptr || (model_.holdings.contains(uid) && model_.MissingPods(uid) == 0)) continue;
      if (queue->queueing_strategy == QueueingStrategy::kStrictFIFO ||
          engine_.ViewWorkload(uid)->kept_room.has_value()) {
        kept.insert(structure.Root("q/" + queue->name));
      }
    }
    for (const auto& [uid, workload] : model_.workloads) {
      const std::optional<WorkloadView> view = engine_.ViewWorkload(uid);
      RC_ASSERT(view.has_value());
      RC_ASSERT((view->place == WorkloadView::Place::kHolding) == model_.holdings.contains(uid));
      const ClusterQueue* queue = model_.QueueOf(workload);
      const bool grows = !view->evicted.has_value() && model_.MissingPods(uid) > 0;
      RC_ASSERT(view->growth.has_value() == grows);
      if ((model_.holdings.contains(uid) && !grows) || queue == nullptr) continue;
      if (grows && queue->name != view->cluster_queue) continue;
      const bool active = engine_.ViewClusterQueue(queue->name).active;
      const std::vector<Obstacle>& obstacles = grows ? view->growth->obstacles : view->reason.obstacles;
      const bool told_inactive = !obstacles.empty() && obstacles[0].kind == ObstacleKind::kClusterQueueInactive;
      RC_ASSERT(told_inactive == !active);
      if (!active || !model_.Selects(*queue) || !workload.invalid.empty()) continue;
      if (const auto it = model_.not_before.find(uid); it != model_.not_before.end() && it->second > now_) continue;
      if (kept.contains(structure.Root("q/" + queue->name))) continue;
      somebody_waited_ = true;
      if (grows) {
        const std::string& flavor = view->admission.pod_sets.at(0).flavors.at(0).second;
        RC_ASSERT(!Fits(model_, workload, queue->name, flavor, model_.MissingPods(uid)));
        continue;
      }
      const bool all = some_leave.contains(structure.Root("q/" + queue->name));
      const int32_t pods = all ? workload.pod_sets.at(0).count : LeastPods(workload);
      for (const std::string& flavor : kFlavors) {
        const bool passed_over = IsPassedOver(workload, queue->name, flavor);
        RC_ASSERT((passed_over || !Fits(model_, workload, queue->name, flavor, pods)));
        passed_over_ += passed_over ? 1 : 0;
      }
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
        // The last write arrived: of the start, or of the stop.
        const bool stopped = it->second.evicted;
        const ClaimState state = std::max(it->second.state, stopped ? ClaimState::kLeaving : ClaimState::kWritten);
        object.held = HeldClaim{it->second.id, state, it->second.admission, At(50)};
        if (stopped) {
          object.held->evicted = EvictionReason::kInClusterQueue;
          object.held->preemptor_uid = it->second.preemptor_uid;
          object.held->evicted_at = now_;
        }
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
    queue.within_cluster_queue = AnyPreemptionPolicy();
    queue.reclaim_within_cohort = AnyPreemptionPolicy();
    if (OneIn(2)) queue.borrow_within_cohort = {PreemptionPolicy::kLowerPriority, std::nullopt};
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
    if (OneIn(2)) {
      const std::string flavor = *rc::gen::elementOf(kFlavors);
      return SetFlavor(flavor, !OneIn(3));
    }
    model_.labels.clear();
    if (OneIn(2)) model_.labels["tier"] = "gold";
    Apply(NamespaceChanged{Namespace{"ns", model_.labels}});
  }
  void Submit() {
    const std::string uid = AnyName("w", 12);
    // What runs keeps its shape.
    if (model_.holdings.contains(uid)) return;
    const std::string queue = AnyName("q", 4);
    const int pods = Draw(1, 5);
    const int created = Draw(1, 5);
    Workload workload = Gang(uid, queue, pods, created, Draw(0, 2));
    workload.pod_sets[0].shape = AnyShape();
    workload.elastic = OneIn(3);
    if (!workload.elastic && OneIn(4)) workload.pod_sets[0].min_count = 1;
    for (const std::string& flavor : kFlavors) {
      if (OneIn(4)) workload.timed_out.push_back({"main", flavor, Draw(1, 3)});
    }
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
    if (workload.elastic && !OneIn(4)) {
      workload.pod_sets[0].count = Draw(0, 6);
    } else if (OneIn(2)) {
      workload.active = !workload.active;
    } else {
      workload.priority = Draw(0, 3);
    }
    Change(workload);
  }
  void RefuseEviction() {
    const std::string uid = AnyName("w", 12);
    const auto it = model_.holdings.find(uid);
    if (it == model_.holdings.end() || !it->second.evicted || it->second.state == ClaimState::kLeaving) return;
    it->second.evicted = false;
    victims_of_[it->second.preemptor_uid].erase(uid);
    no_eviction_before_[uid] = OneIn(2) ? WallTime{} : now_ + std::chrono::seconds(2);
    Apply(EvictionRefused{uid, it->second.id, no_eviction_before_[uid]});
  }
  void Change(const Workload& workload) {
    victims_of_.erase(workload.uid);
    model_.workloads[workload.uid] = workload;
    if (const auto it = model_.holdings.find(workload.uid); it != model_.holdings.end() && workload.elastic) {
      Shrink(workload, &it->second.admission);
      if (it->second.before_growth.has_value()) Shrink(workload, &*it->second.before_growth);
    }
    Apply(WorkloadChanged{workload});
  }
  static void Shrink(const Workload& workload, Admission* admission) {
    PodSetAssignment& pod_set = admission->pod_sets.at(0);
    pod_set.count = std::min(pod_set.count, workload.pod_sets.at(0).count);
    for (auto& [resource, amount] : pod_set.usage) {
      amount = workload.pod_sets[0].shape->requests.at(resource) * pod_set.count;
    }
  }
  void Finish() {
    if (model_.workloads.empty()) return;
    const std::string uid = AnyName("w", 12);
    model_.workloads.erase(uid);
    model_.holdings.erase(uid);
    model_.not_before.erase(uid);
    victims_of_.erase(uid);
    Apply(WorkloadDeleted{uid});
  }
  void MoveClaim() {
    const std::string uid = AnyName("w", 12);
    const auto it = model_.holdings.find(uid);
    if (it == model_.holdings.end()) return;
    Model::Holding& holding = it->second;
    if (holding.before_growth.has_value() && OneIn(2)) return AnswerGrowth(uid, !OneIn(3));
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

  EngineSet engine_;
  Model model_;
  std::vector<std::variant<Event, WallTime>> steps_;
  WallTime now_ = At(100);
  bool somebody_waited_ = false;
  bool quiescing_ = false;
  int64_t preemptions_ = 0;
  int64_t growths_ = 0;
  int64_t passed_over_ = 0;  // flavors of those that waited
  std::map<std::string, WallTime> no_eviction_before_;
  std::set<std::pair<std::string, ClaimId>> chosen_;         // those that were to go after an earlier decision
  std::map<std::string, std::set<std::string>> victims_of_;  // since the preemptor came, changed or started
};

}  // namespace

// user_pains C18: after each history a fresh engine on the same objects decides the same.
TEST_CASE("usage is what the claims say, nothing is given beyond quota, and nobody waits who fits") {
  int64_t waited = 0;
  int64_t preemptions = 0;
  int64_t growths = 0;
  int64_t passed_over = 0;
  int round = 0;
  const auto history = [&waited, &preemptions, &growths, &passed_over, &round] {
    // Each check begins with the same seed.
    for (int drawn = 0; drawn < round; ++drawn) OneIn(2);
    Run run;
    const int steps = Draw(1, 60);
    for (int i = 0; i < steps; ++i) {
      run.RandomEvent();
      if (!OneIn(3)) run.Decide();
    }
    run.Settle();
    run.Replay();
    run.Restart();
    run.Quiesce();
    run.Restart();
    waited += run.somebody_waited() ? 1 : 0;
    preemptions += run.preemptions();
    growths += run.growths();
    passed_over += run.passed_over();
  };
  // A hundred random histories may all be dull.
  const auto dull = [&] { return waited == 0 || preemptions == 0 || growths == 0 || passed_over == 0; };
  for (; round == 0 || (round < 500 && dull()); ++round) CHECK(rc::check(history));
  CHECK(waited > 0);
  CHECK(preemptions > 0);
  CHECK(growths > 0);
  CHECK(passed_over > 0);
}

}  // namespace muster::engine
