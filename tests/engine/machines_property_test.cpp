// What holds at rest after any history of nodes, pods and gangs, held against a count of everything from the objects.
#include <rapidcheck.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "draws.h"
#include "on_machines.h"

namespace muster::engine {

namespace {

std::string AnyName(const std::string& prefix, int count) { return prefix + std::to_string(Draw(0, count)); }

// Small clusters: what fits can be found by trying.
class Run {
 public:
  explicit Run(EngineOptions options) : options_(options), engine_(options) {
    for (const char* name : {"a", "b"}) Apply(FlavorChanged{Pool(name)});
    Apply(FlavorChanged{ResourceFlavor{"all", {}, {}, {}, ""}});
    Apply(NamespaceChanged{Namespace{"ns", {}}});
    const std::vector<std::vector<std::string>> flavors = {{"a"}, {"b", "a"}, {"all"}};
    for (size_t i = 0; i < flavors.size(); ++i) {
      ClusterQueue queue = PoolQueue("q" + std::to_string(i), flavors[i], 12);
      if (i != 2) queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
      Apply(ClusterQueueChanged{queue});
      Apply(LocalQueueChanged{LocalTo(queue.name)});
    }
    // A flavor without any node would be unchecked while there is none at all.
    SetNode(PoolNode("always", "c", 0));
    // Without some to begin with, most histories are over before there is anything to preempt.
    for (int i = 0; i < 4; ++i) SetNode(PoolNode("n" + std::to_string(i), i % 2 == 0 ? "a" : "b", 4));
  }

  void RandomEvent() {
    switch (Draw(0, 14)) {
      case 0:
      case 1:
        return ChangeNode();
      case 2:
        return ChangeStranger();
      case 3:
      case 4:
        return BindPod();
      case 5:
        return LosePod();
      case 6:
      case 7:
        return Finish();
      case 8:
        return Move();
      case 9:
      case 10:
        return Resize();
      default:
        return Submit();
    }
  }

  // Until nothing more is decided; each start succeeds at once.
  void Decide() {
    now_ = now_ + std::chrono::seconds(1);
    for (int i = 0; DecideOnce(); ++i) RC_ASSERT(i < 50);
    // Each decision to admit took its places, and nothing else did: neither refused attempts nor rooms that are kept.
    RC_ASSERT(engine_.MachineCounts().reservations == admitted_ + grown_);
    NobodyWaitsWhoFits();
  }

  void Replay() const {
    EngineSet again(options_);
    for (const auto& step : steps_) {
      if (const auto* event = std::get_if<Event>(&step)) {
        again.Apply(*event);
      } else {
        again.Decide(std::get<WallTime>(step));
      }
    }
    RC_ASSERT(again.StateHash() == engine_.StateHash());
  }

  // All that is evicted leaves, with its pods; all ends, and nothing is left in the book.
  void End() {
    while (!holdings_.empty()) Delete(holdings_.begin()->first);
    while (!pods_.empty()) Remove(pods_.begin()->first);
    while (!workloads_.empty()) Delete(workloads_.begin()->first);
    Decide();
    // Each machine has all of its room again.
    for (const auto& [name, node] : nodes_) {
      if (!node.ready || node.unschedulable || name == "always") continue;
      Workload probe = Big("probe", node.labels.at("pool") == "a" ? "q0" : "q1", 1, node.allocatable.at("cpu").value);
      gang::Shape shape = *probe.pod_sets[0].shape;
      shape.required_affinity.push_back({{}, {{"metadata.name", Requirement::Operator::kIn, {name}}}});
      probe.pod_sets[0].shape = std::make_shared<const gang::Shape>(shape);
      Change(probe);
      Decide();
      RC_ASSERT(holdings_.contains("probe"));
      Delete("probe");
    }
  }

  uint64_t grown() const { return grown_; }
  uint64_t kept() const { return engine_.MachineCounts().kept; }
  int64_t refused() const { return refused_; }
  int64_t waited() const { return waited_; }
  int64_t preempted() const { return preempted_; }
  int64_t reserved() const { return reserved_; }
  int64_t moved() const { return moved_; }

 private:
  struct Holding {
    ClaimId id;
    Admission admission;
    bool evicted = false;
    std::set<std::string> pods;  // keys of those that were bound
  };

  // RETURNS: whether anybody was admitted or evicted.
  bool DecideOnce() {
    const std::vector<Decision> decisions = engine_.Decide(now_);
    steps_.emplace_back(now_);
    engine_.Validate();
    bool any = false;
    for (const Decision& decision : decisions) {
      if (const auto* admit = std::get_if<Admit>(&decision)) {
        any = true;
        RC_ASSERT(!holdings_.contains(admit->uid));
        ++admitted_;
        OnAdmit(*admit);
      }
      if (const auto* grow = std::get_if<Grow>(&decision)) {
        any = true;
        ++grown_;
        OnGrow(*grow);
      }
      if (const auto* evict = std::get_if<Evict>(&decision)) {
        any = true;
        RC_ASSERT(!holdings_.at(evict->uid).evicted);
        holdings_.at(evict->uid).evicted = true;
        ++(evict->reason == EvictionReason::kDefragmentation ? moved_ : preempted_);
      }
    }
    return any;
  }

  // The API server refuses some writes.
  void OnAdmit(const Admit& admit) {
    if (OneIn(8)) {
      ++refused_;
      return Apply(ClaimRefused{admit.uid, admit.claim, {}, ""});
    }
    holdings_[admit.uid] = {admit.claim, admit.admission, false, {}};
    Apply(ClaimWritten{admit.uid, admit.claim});
  }
  void OnGrow(const Grow& grow) {
    if (OneIn(8)) {
      ++refused_;
      return Apply(GrowthRefused{grow.uid, grow.claim, {}, ""});
    }
    holdings_.at(grow.uid).admission = grow.admission;
    Apply(GrowthWritten{grow.uid, grow.claim});
  }

  // ---- what the objects say is taken, by node
  std::map<std::string, int64_t> Booked() const {
    std::map<std::string, int64_t> booked;
    for (const auto& [key, pod] : pods_) booked[pod.node] += pod.requests.at("cpu").value;
    return booked;
  }
  // Pods of its own that are bound.
  int64_t BoundOf(const std::string& uid) const {
    const std::set<std::string>& keys = holdings_.at(uid).pods;
    return std::count_if(keys.begin(), keys.end(), [&](const std::string& key) { return pods_.contains(key); });
  }

  // Whether so many pods of so much fit beside what is bound and what others were promised, wherever those are put: if
  // not, nobody can say that it waits without need.
  bool FitsForSure(const Workload& workload, const std::string& flavor) const {
    const PodSet& pods = workload.pod_sets.at(0);
    const int64_t each = pods.shape->requests.at("cpu").value;
    const std::map<std::string, int64_t> bound = Booked();
    int64_t places = 0;
    int64_t promised = 0;  // pods of others that have no node yet: each may spoil one machine's places
    for (const auto& [uid, holding] : holdings_) {
      const int64_t left = holding.admission.pod_sets.at(0).count - BoundOf(uid);
      const int64_t size = workloads_.at(uid).pod_sets.at(0).shape->requests.at("cpu").value;
      promised += std::max<int64_t>(left, 0) * ((size + each - 1) / each + 1);
    }
    for (const auto& [name, node] : nodes_) {
      if (!node.ready || node.unschedulable) continue;
      if (flavor != "all" && node.labels.at("pool") != flavor) continue;
      const auto taken = bound.find(name);
      const int64_t free = node.allocatable.at("cpu").value - (taken == bound.end() ? 0 : taken->second);
      if (free > 0) places += free / each;
    }
    return places - promised >= pods.count;
  }

  bool IsReservedFor(const std::string& uid) const {
    const Reason reason = engine_.ViewWorkload(uid)->reason;
    return std::any_of(reason.obstacles.begin(), reason.obstacles.end(), [](const Obstacle& obstacle) {
      return obstacle.kind == ObstacleKind::kNoRoom && obstacle.count > 0;
    });
  }

  // With room that is kept for others nothing is sure; quota is asked of the views.
  void NobodyWaitsWhoFits() {
    const int64_t reserved_before = reserved_;
    for (const auto& [uid, workload] : workloads_) {
      if (!holdings_.contains(uid)) reserved_ += IsReservedFor(uid) ? 1 : 0;
    }
    if (reserved_ > reserved_before) return;
    for (const auto& [uid, workload] : workloads_) {
      if (engine_.ViewWorkload(uid)->kept_room.has_value()) return;
    }
    for (const auto& [uid, workload] : workloads_) {
      if (holdings_.contains(uid)) continue;
      ++waited_;
      const PodSet& pods = workload.pod_sets.at(0);
      const int64_t asked = pods.count * pods.shape->requests.at("cpu").value;
      for (const FlavorUsage& usage : engine_.ViewClusterQueue(workload.local_queue).usage) {
        if (usage.reserved.value + asked > usage.nominal.value) continue;
        RC_ASSERT(!FitsForSure(workload, usage.flavor));
      }
    }
  }

  // ---- events
  void Apply(const Event& event) {
    steps_.emplace_back(event);
    engine_.Apply(event);
    engine_.Validate();
  }
  void SetNode(const gang::Node& node) {
    nodes_[node.name] = node;
    Apply(NodeChanged{node});
  }
  void ChangeNode() {
    const std::string name = AnyName("n", 5);
    if (nodes_.contains(name) && OneIn(4)) {
      nodes_.erase(name);
      Apply(NodeDeleted{name});
      // Its pods go with it.
      std::vector<std::string> gone;
      for (const auto& [key, pod] : pods_) {
        if (pod.node == name) gone.push_back(key);
      }
      for (const std::string& key : gone) Remove(key);
      return;
    }
    const char* const pool = OneIn(2) ? "a" : "b";
    gang::Node node = PoolNode(name, pool, Draw(1, 7));
    node.unschedulable = OneIn(6);
    node.ready = !OneIn(6);
    SetNode(node);
  }
  void Place(const PodPlaced& pod) {
    pods_[pod.key] = pod;
    Apply(pod);
  }
  void Remove(std::string key) {
    pods_.erase(key);
    Apply(PodGone{key});
  }
  void ChangeStranger() {
    const std::string key = AnyName("stranger", 3);
    if (pods_.contains(key)) return Remove(key);
    const std::string node = AnyName("n", 5);
    Place({key, node, {{"cpu", Amount{Draw<int64_t>(0, 4)}}}});
  }
  // Of a gang that holds a claim; on any node, as the scheduler likes.
  void BindPod() {
    const std::string uid = AnyName("w", 8);
    const auto holding = holdings_.find(uid);
    if (holding == holdings_.end() || BoundOf(uid) >= holding->second.admission.pod_sets.at(0).count) return;
    const std::string node = AnyName("n", 5);
    if (!nodes_.contains(node)) return;
    const std::string key = uid + "-" + std::to_string(serial_++);
    holding->second.pods.insert(key);
    Place({key, node, workloads_.at(uid).pod_sets.at(0).shape->requests, uid, "main"});
  }
  void LosePod() {
    if (pods_.empty()) return;
    auto pod = pods_.begin();
    std::advance(pod, Draw<size_t>(0, pods_.size()));
    Remove(pod->first);
  }
  void Submit() {
    const std::string uid = AnyName("w", 8);
    if (workloads_.contains(uid)) return;
    // Gangs are moved within their tree, and only where nobody would be preempted.
    const bool moves = options_.defragment_after > Duration(0);
    const std::string queue = moves && OneIn(2) ? "q2" : AnyName("q", 3);
    const int pods = Draw(1, 5);
    const int cpus = Draw(1, 5);
    const int created = Draw(1, 6);
    Workload workload = Big(uid, queue, pods, cpus, created, Draw(0, 3));
    if (options_.reserve_after > Duration(0) && OneIn(2)) {
      workload.max_execution = std::chrono::seconds(Draw(1, 20));
    }
    workload.movable = moves && !OneIn(4);
    workload.elastic = OneIn(2);
    Change(workload);
  }
  // More or fewer pods of an elastic one; who holds less at once, and more once that is decided.
  void Resize() {
    const auto it = workloads_.find(AnyName("w", 8));
    if (it == workloads_.end() || !it->second.elastic) return;
    Workload workload = it->second;
    workload.pod_sets[0].count = Draw(1, 6);
    ++workload.generation;
    Change(workload);
    const auto holding = holdings_.find(workload.uid);
    if (holding != holdings_.end()) holding->second.admission = engine_.ViewWorkload(workload.uid)->admission;
  }
  void Change(const Workload& workload) {
    workloads_[workload.uid] = workload;
    Apply(WorkloadChanged{workload});
  }
  void Delete(std::string uid) {
    workloads_.erase(uid);
    holdings_.erase(uid);
    Apply(WorkloadDeleted{uid});
  }
  void Finish() {
    const std::string uid = AnyName("w", 8);
    if (workloads_.contains(uid)) Delete(uid);
  }
  // One that was evicted leaves.
  void Move() {
    for (const auto& [uid, holding] : holdings_) {
      if (!holding.evicted) continue;
      const std::string leaver = uid;
      Apply(ClaimLeaving{leaver, holding.id});
      Apply(ClaimGone{leaver, holding.id});
      holdings_.erase(leaver);
      return;
    }
  }

  const EngineOptions options_;
  EngineSet engine_;
  std::map<std::string, gang::Node> nodes_;
  std::map<std::string, PodPlaced> pods_;
  std::map<std::string, Workload> workloads_;
  std::map<std::string, Holding> holdings_;
  std::vector<std::variant<Event, WallTime>> steps_;
  WallTime now_ = At(100);
  uint64_t admitted_ = 0;
  uint64_t grown_ = 0;
  int64_t refused_ = 0;
  int64_t serial_ = 0;
  int64_t waited_ = 0;
  int64_t preempted_ = 0;
  int64_t reserved_ = 0;
  int64_t moved_ = 0;
};

}  // namespace

TEST_CASE("the books of machines are what the objects say, and nobody waits who fits") {
  EngineOptions options = WithMachines();
  const auto [reserves, moves] = GENERATE(table<bool, bool>({{false, false}, {true, false}, {false, true}}));
  CAPTURE(reserves, moves);
  // Time goes on by a second with each decision.
  if (reserves) options.reserve_after = std::chrono::seconds(3);
  if (moves) options.defragment_after = std::chrono::seconds(2);
  int64_t waited = 0;
  int64_t preempted = 0;
  int64_t reserved = 0;
  int64_t moved = 0;
  int64_t refused = 0;
  uint64_t grown = 0;
  uint64_t kept = 0;
  int round = 0;
  const auto history = [&] {
    // Each check begins with the same seed.
    for (int drawn = 0; drawn < round; ++drawn) OneIn(2);
    Run run(options);
    const int steps = Draw(1, 60);
    for (int i = 0; i < steps; ++i) {
      run.RandomEvent();
      if (!OneIn(3)) run.Decide();
    }
    run.Replay();
    run.End();
    waited += run.waited();
    preempted += run.preempted();
    reserved += run.reserved();
    moved += run.moved();
    refused += run.refused();
    grown += run.grown();
    kept += run.kept();
  };
  const bool by_option = reserves || moves;
  const auto dull = [&] {
    return waited == 0 || preempted == 0 || refused == 0 || grown == 0 || kept == 0 ||
           (by_option && reserved + moved == 0);
  };
  // A hundred random histories may all be dull.
  for (; round == 0 || (round < 50 && dull()); ++round) CHECK(rc::check(history));
  CHECK(waited > 0);
  CHECK(preempted > 0);
  CHECK(refused > 0);
  CHECK(grown > 0);
  CHECK(kept > 0);
  CHECK((reserved > 0) == reserves);
  CHECK((moved > 0) == moves);
}

}  // namespace muster::engine
