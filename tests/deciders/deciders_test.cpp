// Engines with one decider and with several live through the same history of trees that share machines, topologies and
// ResourceQuotas. What all must decide is what the first decides, which has no threads: one by one, to the last number
// of each reason. Run with ThreadSanitizer, too: nominations of several trees overlap here all the time.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "on_machines.h"

namespace muster::engine {

namespace {

const std::vector<std::string> kNamespaces = {"ns0", "ns1", "ns2"};

// ---- decisions as text ----------------------------------------------------------------------------

std::string TextOf(const Admission& admission) {
  std::string text;
  for (const PodSetAssignment& pods : admission.pod_sets) {
    text += " " + pods.name + "*" + std::to_string(pods.count);
    for (const auto& [resource, flavor] : pods.flavors) text += " " + resource + "=" + flavor;
    if (!pods.topology.has_value()) continue;
    for (const gang::TopologyDomain& domain : pods.topology->domains) {
      for (const std::string& value : domain.values) text += " " + value;
      text += ":" + std::to_string(domain.count);
    }
  }
  return text;
}

std::string TextOf(const Reason& reason) {
  std::string text = " " + std::to_string(static_cast<int>(reason.code));
  for (const Obstacle& obstacle : reason.obstacles) {
    text += " [" + std::to_string(static_cast<int>(obstacle.kind)) + " " + obstacle.flavor + " " + obstacle.object;
    for (const Amount amount :
         {obstacle.requested, obstacle.assumed, obstacle.limit, obstacle.missing, obstacle.used}) {
      text += " " + std::to_string(amount.value);
    }
    text += " " + std::to_string(obstacle.count) + " " + std::to_string(obstacle.until.unix_nanos);
    if (obstacle.placement.has_value()) text += " fit " + std::to_string(obstacle.placement->fit);
    if (obstacle.machines.has_value()) {
      const gang::RoomProblem& problem = *obstacle.machines;
      text += " placed " + std::to_string(problem.placed) + " largest " + std::to_string(problem.largest.value);
      text += " on " + problem.node + (problem.kept ? " kept" : "");
    }
    text += "]";
  }
  for (const Blocker& blocker : reason.blockers) text += " <" + blocker.uid;
  return text;
}

struct ToText {
  std::string operator()(const Admit& admit) const {
    return "admit " + admit.uid + " " + admit.claim.ToString() + TextOf(admit.admission);
  }
  std::string operator()(const Grow& grow) const { return "grow " + grow.uid + TextOf(grow.admission); }
  std::string operator()(const Replace& replace) const {
    return "replace " + replace.uid + " " + replace.hostname + TextOf(replace.admission);
  }
  std::string operator()(const Evict& evict) const {
    return "evict " + evict.uid + " " + evict.claim.ToString() + " for " + evict.preemptor_uid;
  }
  std::string operator()(const Withdraw& withdraw) const { return "withdraw " + withdraw.uid; }
  std::string operator()(const Hold& hold) const { return "hold " + hold.uid + TextOf(hold.reason); }
};

std::vector<std::string> TextsOf(const std::vector<Decision>& decisions) {
  std::vector<std::string> texts;
  for (const Decision& decision : decisions) texts.push_back(std::visit(ToText(), decision));
  return texts;
}

// ---- the histories --------------------------------------------------------------------------------

gang::Node Machine(const std::string& name, const std::string& pool, int64_t cpu, int number) {
  gang::Node node = PoolNode(name, pool, cpu, 20);
  node.labels["rack"] = pool + std::to_string(number / 3);
  node.labels["disk"] = number % 2 == 0 ? "fast" : "slow";
  node.labels[std::string(gang::kHostnameLabel)] = name;
  return node;
}

// What shares what.
struct World {
  bool machines = true;       // are looked at
  bool topologies = false;    // one flavor has one
  bool quotas = false;        // namespaces have ResourceQuotas
  bool nodes_change = false;  // and pods are bound
  bool reserves = false;      // machines, for gangs that wait long
  bool moves = false;         // others are moved for them
  bool fair = false;          // shares decide
  bool blocks = false;        // one gang at a time waits for its pods
};

class History {
 public:
  History(const World& world, uint64_t seed, const std::vector<int>& deciders) : world_(world), random_(seed) {
    EngineOptions options;
    options.machines = world.machines;
    if (world.fair) options.fair_sharing = FairSharing{};
    options.block_admission = world.blocks;
    if (world.reserves) options.reserve_after = std::chrono::seconds(4);
    if (world.moves) options.defragment_after = std::chrono::seconds(2);
    for (const int count : deciders) {
      options.deciders = count;
      engines_.push_back(std::make_unique<EngineSet>(options));
    }
    SetUp();
  }

  void Turn() {
    for (int64_t events = 1 + Below(6); events > 0; --events) RandomEvent();
    now_ = now_ + std::chrono::seconds(1);
    const std::vector<Decision> decisions = engines_.front()->Decide(now_);
    const std::vector<std::string> expected = TextsOf(decisions);
    for (size_t i = 1; i < engines_.size(); ++i) {
      REQUIRE(TextsOf(engines_[i]->Decide(now_)) == expected);
      REQUIRE(engines_[i]->StateHash() == engines_.front()->StateHash());
    }
    Take(decisions);
    if (!world_.nodes_change && world_.machines) CountMachines();
  }

  // The books, counted again from what is known and held.
  void Validate() const {
    for (const auto& engine : engines_) engine->Validate();
  }

  int64_t admitted() const { return admitted_; }
  int64_t evicted() const { return evicted_; }
  int64_t held() const { return held_; }
  int64_t moved() const { return moved_; }
  int64_t turns_of_many() const { return turns_of_many_; }

 private:
  struct Holding {
    ClaimId id;
    std::string flavor;
    int64_t cpu = 0;
    int64_t pods = 0;
    bool evicted = false;
  };

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool OneIn(int64_t n) { return Below(n) == 0; }

  void Apply(const Event& event) {
    for (const auto& engine : engines_) engine->Apply(event);
  }

  void SetUp() {
    for (const char* name : {"a", "b"}) Apply(FlavorChanged{Pool(name)});
    Apply(FlavorChanged{ResourceFlavor{"all", {}, {}, {}, ""}});
    if (world_.topologies) {
      Apply(TopologyChanged{{"topo", {"rack", std::string(gang::kHostnameLabel)}}});
      Apply(FlavorChanged{ResourceFlavor{"t", {{"pool", "a"}}, {}, {}, "topo"}});
    }
    for (const std::string& ns : kNamespaces) Apply(NamespaceChanged{Namespace{ns, {}}});
    for (int i = 0; i < 12; ++i) SetNode(i, 8);
    // Six trees of one queue, and two of three.
    const std::vector<std::vector<std::string>> flavors = {
        {"a"}, {"a", "b"}, {"b", "a"}, {"all"}, {"b"}, {"all", "a"}, {"a"}, {"b"}, {"all"}, {"a"}, {"b", "a"}, {"b"}};
    for (size_t i = 0; i < flavors.size(); ++i) {
      const std::string cohort = i < 6 ? "" : i < 9 ? "c" : "d";
      AddQueue("q" + std::to_string(i), flavors[i], cohort, i % 4 != 3);
    }
    if (world_.topologies) {
      AddQueue("q12", {"t"}, "", true);
      AddQueue("q13", {"t", "b"}, "", true);
    }
  }

  void AddQueue(const std::string& name, const std::vector<std::string>& flavors, const std::string& cohort,
                bool preempts) {
    ClusterQueue queue = PoolQueue(name, flavors, cohort.empty() ? 40 : 16, cohort);
    if (preempts) {
      queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
      queue.reclaim_within_cohort = PreemptionPolicy::kAny;
    }
    Apply(ClusterQueueChanged{queue});
    for (const std::string& ns : kNamespaces) {
      LocalQueue local = LocalTo(name);
      local.ns = ns;
      Apply(LocalQueueChanged{local});
    }
    ++queues_;
  }

  void SetNode(int number, int64_t cpu) {
    const std::string pool = number % 3 == 2 ? "b" : "a";
    const std::string name = "n" + std::to_string(number);
    capacity_[pool] += cpu;
    nodes_.insert(name);
    Apply(NodeChanged{Machine(name, pool, cpu, number)});
  }

  void RandomEvent() {
    switch (Below(world_.nodes_change || world_.quotas ? 12 : 9)) {
      case 0:
      case 1:
        return Finish();
      case 2:
      case 3:
      case 4:
        return Leave();
      case 9:
        if (world_.quotas) SetQuota();
        return;
      case 10:
        if (world_.nodes_change) ChangeNode();
        return;
      case 11:
        if (world_.nodes_change) ChangePod();
        return;
      default:
        return Submit();
    }
  }

  void Submit() {
    const std::string uid = "w" + std::to_string(Below(80));
    if (!known_.insert(uid).second) return;
    const int64_t queue = Below(queues_);
    const auto pods = static_cast<int32_t>(1 + Below(6));
    const int64_t cpu = 1 + Below(6);
    const int64_t created = 1 + Below(50);
    const auto priority = static_cast<int32_t>(Below(3));
    Workload workload = Big(uid, "q" + std::to_string(queue), pods, cpu, created, priority);
    workload.ns = kNamespaces[static_cast<size_t>(Below(3))];
    gang::Shape shape = *workload.pod_sets[0].shape;
    if (OneIn(3)) shape.node_selector["disk"] = OneIn(2) ? "fast" : "slow";
    if (world_.quotas) shape.charge.emplace().amounts = {{"pods", Amount{1}}, {"requests.cpu", Amount{cpu}}};
    workload.pod_sets[0].shape = std::make_shared<const gang::Shape>(std::move(shape));
    if (queue >= 12 && OneIn(2)) workload.pod_sets[0].topology.required = "rack";
    if (OneIn(3)) workload.max_execution = std::chrono::seconds(1 + Below(20));
    workload.movable = world_.moves && !OneIn(3);
    cpu_[uid] = cpu;
    Apply(WorkloadChanged{workload});
  }
  void Finish() {
    if (known_.empty()) return;
    auto it = known_.begin();
    std::advance(it, Below(static_cast<int64_t>(known_.size())));
    const std::string uid = *it;
    known_.erase(it);
    holdings_.erase(uid);
    Apply(WorkloadDeleted{uid});
  }
  void Leave() {
    for (auto it = holdings_.begin(); it != holdings_.end(); ++it) {
      if (!it->second.evicted || OneIn(4)) continue;
      Apply(ClaimLeaving{it->first, it->second.id});
      Apply(ClaimGone{it->first, it->second.id});
      holdings_.erase(it);
      return;
    }
  }
  void SetQuota() {
    const std::string ns = kNamespaces[static_cast<size_t>(Below(3))];
    const Amount hard{20 + Below(100)};
    Apply(NamespaceQuotaChanged{NamespaceQuota{ns, "team-quota", {{"requests.cpu", hard, Amount{Below(5)}}}, {}}});
  }
  void ChangeNode() {
    const auto number = static_cast<int>(Below(12));
    const std::string name = "n" + std::to_string(number);
    if (OneIn(4) && nodes_.erase(name) > 0) return Apply(NodeDeleted{name});
    SetNode(number, 1 + Below(12));
  }
  void ChangePod() {
    const std::string key = "stranger" + std::to_string(Below(6));
    if (strangers_.erase(key) > 0) return Apply(PodGone{key});
    strangers_.insert(key);
    Apply(PodPlaced{key, "n" + std::to_string(Below(12)), {{"cpu", Amount{Below(5)}}}});
  }

  // Each start succeeds, but a few. An admission comes later in the order of claims than all before it.
  void Take(const std::vector<Decision>& decisions) {
    std::set<std::string> trees;
    for (const Decision& decision : decisions) {
      if (const auto* admit = std::get_if<Admit>(&decision)) {
        REQUIRE(last_claim_ < admit->claim.sequence);
        last_claim_ = admit->claim.sequence;
        ++admitted_;
        if (OneIn(10)) {
          Apply(ClaimRefused{admit->uid, admit->claim, now_ + std::chrono::seconds(2), "refused"});
          continue;
        }
        const PodSetAssignment& pods = admit->admission.pod_sets.at(0);
        holdings_[admit->uid] = {admit->claim, pods.flavors.at(0).second, cpu_.at(admit->uid) * pods.count, pods.count};
        Apply(ClaimWritten{admit->uid, admit->claim});
        if (world_.blocks) Apply(ClaimPodsReady{admit->uid, admit->claim, true});
      } else if (const auto* evict = std::get_if<Evict>(&decision)) {
        ++evicted_;
        moved_ += evict->reason == EvictionReason::kDefragmentation ? 1 : 0;
        holdings_.at(evict->uid).evicted = true;
      } else if (std::holds_alternative<Hold>(decision)) {
        ++held_;
      }
    }
    turns_of_many_ += decisions.size() > 2 ? 1 : 0;
  }

  // Nobody moves, so what is held was free when it was given: never more than there is, and what is told to be free is
  // not more than the rest.
  void CountMachines() const {
    std::map<std::string, int64_t> held;
    int64_t anywhere = 0;
    for (const auto& [uid, holding] : holdings_) {
      const std::string pool = holding.flavor == "t" ? "a" : holding.flavor;
      (pool == "all" ? anywhere : held[pool]) += holding.cpu;
    }
    const int64_t all = capacity_.at("a") + capacity_.at("b");
    REQUIRE(held["a"] <= capacity_.at("a"));
    REQUIRE(held["b"] <= capacity_.at("b"));
    REQUIRE(held["a"] + held["b"] + anywhere <= all);
    for (const FlavorRoomView& room : engines_.back()->ViewFlavorRoom()) {
      if (room.flavor == "all" && room.resource == "cpu") {
        REQUIRE(room.free.value <= all - held["a"] - held["b"] - anywhere);
      }
    }
  }

  const World world_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<EngineSet>> engines_;
  int64_t queues_ = 0;
  std::map<std::string, int64_t> capacity_;  // by pool
  std::set<std::string> nodes_;
  std::set<std::string> strangers_;
  std::set<std::string> known_;
  std::map<std::string, int64_t> cpu_;  // of one pod
  std::map<std::string, Holding> holdings_;
  WallTime now_ = At(100);
  uint64_t last_claim_ = 0;
  int64_t admitted_ = 0;
  int64_t evicted_ = 0;
  int64_t held_ = 0;
  int64_t moved_ = 0;
  int64_t turns_of_many_ = 0;
};

}  // namespace

TEST_CASE("how many deciders there are changes no decision, whatever trees share") {
  const int seeds = std::getenv("MUSTER_LONG") != nullptr ? 10 * MUSTER_SEEDS : MUSTER_SEEDS;
  const auto [name, world] = GENERATE(table<std::string, World>({
      {"quota alone", {.machines = false}},
      {"quota alone, one gang at a time", {.machines = false, .blocks = true}},
      {"machines", {}},
      {"machines and fair shares", {.fair = true}},
      {"machines that come and go", {.nodes_change = true}},
      {"ResourceQuotas", {.quotas = true, .nodes_change = true}},
      {"topologies", {.topologies = true, .nodes_change = true}},
      {"topologies without machines", {.machines = false, .topologies = true}},
      {"reserved machines", {.quotas = true, .reserves = true}},
      {"gangs that are moved", {.quotas = true, .moves = true}},
      {"gangs that are moved in topologies", {.topologies = true, .nodes_change = true, .moves = true}},
      {"all of it",
       {.topologies = true,
        .quotas = true,
        .nodes_change = true,
        .reserves = true,
        .moves = true,
        .fair = true,
        .blocks = true}},
  }));
  CAPTURE(name);
  int64_t admitted = 0;
  int64_t evicted = 0;
  int64_t held = 0;
  int64_t moved = 0;
  int64_t turns_of_many = 0;
  int played = 0;
  // Moves are rare: until there was one.
  for (int seed = 1; seed <= seeds || (world.moves && moved == 0 && seed <= 30); ++seed, ++played) {
    CAPTURE(seed);
    History history(world, static_cast<uint64_t>(seed), {1, 2, 4});
    for (int turn = 0; turn < 100; ++turn) {
      CAPTURE(turn);
      history.Turn();
      if (turn % 10 == 0) history.Validate();
    }
    history.Validate();
    admitted += history.admitted();
    evicted += history.evicted();
    held += history.held();
    moved += history.moved();
    turns_of_many += history.turns_of_many();
  }
  // None of these histories is dull.
  CAPTURE(admitted, evicted, held, moved, turns_of_many);
  CHECK((moved > 0) == world.moves);
  CHECK(admitted > 20 * played);
  CHECK(evicted > 0);
  CHECK(held > 20 * played);
  CHECK(turns_of_many > 10 * played);
}

}  // namespace muster::engine
