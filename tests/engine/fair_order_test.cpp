// Who goes first with fair sharing: orders by hand after kueue_semantics 5.2, and random trees against a tournament
// that is held from scratch before each entry.
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <map>

#include "cluster.h"
#include "draws.h"
#include "muster/quota/fair_share.h"

namespace muster::engine {

namespace {

EngineOptions Fair() {
  EngineOptions options;
  options.fair_sharing.emplace();
  return options;
}

FairWeight Weight(int64_t halves) { return {halves * 500'000'000}; }

ClusterQueue Weighted(ClusterQueue queue, int64_t halves) {
  queue.fair_weight = Weight(halves);
  return queue;
}

Cohort CohortOf(const std::string& name, const std::string& parent, int64_t halves = 2) {
  Cohort cohort;
  cohort.name = name;
  cohort.parent = parent;
  cohort.fair_weight = Weight(halves);
  return cohort;
}

// `gpu` in the same group and flavor.
ClusterQueue WithGpu(ClusterQueue queue, int64_t nominal) {
  queue.resource_groups[0].covered_resources.emplace_back("gpu");
  queue.resource_groups[0].flavors[0].resources.push_back({"gpu", Amount{nominal}, std::nullopt, std::nullopt});
  return queue;
}

Workload Asking(const std::string& uid, const std::string& queue, int64_t cpu, int64_t gpu, int64_t created) {
  Workload workload = Gang(uid, queue, 1, created);
  gang::Shape shape;
  if (cpu > 0) shape.requests["cpu"] = Amount{cpu};
  if (gpu > 0) shape.requests["gpu"] = Amount{gpu};
  workload.pod_sets[0].shape = std::make_shared<const gang::Shape>(std::move(shape));
  return workload;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("the entry goes first with which its queue's share is smaller") {
  for (const bool fair : {false, true}) {
    Cluster cluster(fair ? Fair() : EngineOptions{});
    cluster.AddQueue(CpuQueue("lender", "c", 4));
    cluster.AddQueue(CpuQueue("a", "c", 0));
    cluster.AddQueue(CpuQueue("b", "c", 0));
    cluster.Submit(Gang("three", "a", 3, 1, 10));  // 3/4, with the higher priority
    cluster.Submit(Gang("two", "b", 2, 2));        // 2/4
    CHECK(cluster.Run() == Names{fair ? "two" : "three"});
  }
}

TEST_CASE("a share is divided by the queue's weight, and with weight 0 it comes last") {
  const auto first = [](int64_t a, int64_t b) {
    Cluster cluster(Fair());
    cluster.AddQueue(CpuQueue("lender", "c", 4));
    cluster.AddQueue(Weighted(CpuQueue("a", "c", 0), a));
    cluster.AddQueue(Weighted(CpuQueue("b", "c", 0), b));
    cluster.Submit(Gang("three", "a", 3, 1));
    cluster.Submit(Gang("two", "b", 2, 2));
    return cluster.Run().at(0);
  };
  CHECK(first(2, 2) == "two");
  CHECK(first(4, 2) == "three");  // 3/4/2 < 2/4
  CHECK(first(3, 2) == "three");  // of 3/4/1.5 and 2/4 neither is less: the earlier
  CHECK(first(2, 0) == "three");
  CHECK(first(0, 0) == "two");
}

TEST_CASE("of equal shares the priority decides, then the time, then the uid") {
  const auto first = [](int32_t a_priority, int64_t a_time) {
    Cluster cluster(Fair());
    cluster.AddQueue(CpuQueue("lender", "c", 3));
    cluster.AddQueue(CpuQueue("a", "c", 0));
    cluster.AddQueue(CpuQueue("b", "c", 0));
    cluster.Submit(Gang("of-a", "a", 2, a_time, a_priority));
    cluster.Submit(Gang("of-b", "b", 2, 5));
    return cluster.Run().at(0);
  };
  CHECK(first(1, 9) == "of-a");
  CHECK(first(0, 9) == "of-b");
  CHECK(first(0, 4) == "of-a");
  CHECK(first(0, 5) == "of-a");
}

TEST_CASE("who borrows nothing of what it asks for goes before who does, whatever else it borrows") {
  Cluster cluster(Fair());
  cluster.AddQueue(WithGpu(CpuQueue("lender", "c", 2), 4));
  cluster.AddQueue(WithGpu(CpuQueue("a", "c", 2), 0));
  cluster.AddQueue(WithGpu(CpuQueue("b", "c", 0), 0));
  cluster.Submit(Asking("gpus", "a", 0, 4, 1));
  CHECK(cluster.Run() == Names{"gpus"});  // the share of `a` is 4/4 now
  cluster.Submit(Asking("within", "a", 2, 0, 3));
  cluster.Submit(Asking("borrows", "b", 3, 0, 2));  // 3/4 of what can be lent
  CHECK(cluster.Run() == Names{"within"});
}

TEST_CASE("shares are those of the running usage, at each level of the tree") {
  for (const bool fair : {false, true}) {
    Cluster cluster(fair ? Fair() : EngineOptions{});
    for (const char* name : {"left", "right"}) cluster.Apply(CohortChanged{CohortOf(name, "root")});
    cluster.AddQueue(CpuQueue("lender", "root", 6));
    cluster.AddQueue(CpuQueue("l1", "left", 0));
    cluster.AddQueue(CpuQueue("l2", "left", 0));
    cluster.AddQueue(CpuQueue("r", "right", 0));
    cluster.Submit(Gang("first", "l1", 2, 1));
    cluster.Submit(Gang("second", "l2", 2, 2));
    cluster.Submit(Gang("third", "r", 3, 3));
    // Once `first` is in, `left` would have 4/6 with `second`, and `right` 3/6 with `third`: the 4 left are too few for
    // both.
    CHECK(cluster.Run() == (fair ? Names{"first", "third"} : Names{"first", "second"}));
  }
}

TEST_CASE("views have the share of each queue and cohort, and tell which may have changed") {
  Cluster cluster(Fair());
  cluster.Apply(CohortChanged{CohortOf("left", "root")});
  cluster.AddQueue(CpuQueue("lender", "root", 5));
  cluster.AddQueue(Weighted(CpuQueue("a", "left", 3), 4));
  cluster.AddQueue(Weighted(CpuQueue("zero", "root", 0), 0));
  CHECK(cluster.engine.TakeChangedQueues().cohorts == Names{"left", "root"});
  CHECK(cluster.engine.TakeChangedQueues().cohorts.empty());
  cluster.Submit(Gang("w", "a", 5));
  cluster.Submit(Gang("z", "zero", 1));
  CHECK(cluster.Run().size() == 2);
  CHECK(cluster.engine.TakeChangedQueues().cohorts == Names{"left", "root"});
  CHECK(cluster.engine.ViewClusterQueue("a").weighted_share == WeightedShare{125, 2, 8, 2'000'000'000});  // 2/8/2
  CHECK(cluster.engine.ViewCohort("left").weighted_share == WeightedShare{250, 2, 8, 1'000'000'000});
  CHECK(cluster.engine.ViewCohort("root").weighted_share == WeightedShare{});
  CHECK(cluster.engine.ViewClusterQueue("zero").weighted_share == WeightedShare{INT64_MAX, 1, 8, 0});
  CHECK(cluster.engine.ViewCohorts()[0] == cluster.engine.ViewCohort("left"));
  // Whatever changes a quota changes what can be lent to all others.
  cluster.Apply(ClusterQueueChanged{CpuQueue("lender", "root", 13)});
  const ChangedQueues changed = cluster.engine.TakeChangedQueues();
  CHECK(changed.cluster_queues == Names{"a", "lender", "zero"});
  CHECK(changed.cohorts == Names{"left", "root"});
  CHECK(cluster.engine.ViewClusterQueue("a").weighted_share == WeightedShare{63, 2, 16, 2'000'000'000});

  Cluster classical;
  classical.AddQueue(CpuQueue("a", "c", 1));
  CHECK_FALSE(classical.engine.ViewClusterQueue("a").weighted_share.has_value());
  CHECK_FALSE(classical.engine.ViewCohort("c").weighted_share.has_value());
  CHECK(classical.engine.TakeChangedQueues().cohorts.empty());
}

// ---- against a tournament from scratch ------------------------------------------------------------

namespace {

constexpr quota::FlavorResource kCpu{quota::FlavorId{0}, quota::ResourceId{0}};

struct Player {
  std::string uid;
  quota::NodeId node = quota::kNoNode;
  quota::CellId cell = quota::kNoCell;
  int64_t amount = 0;
  int64_t created = 0;
};

// The same tree beside the engine's.
struct Tournament {
  quota::Ledger ledger;
  quota::FairShares shares{&ledger};
  std::map<std::string, quota::NodeId> cohorts;
  std::vector<Player> players;

  // What could never fit has no flavor, and so no usage; it takes part all the same.
  bool Possible(const Player& player) const { return Amount{player.amount} <= ledger.PotentialAvailable(player.cell); }
  // The standing of `child` with the player's usage in it.
  std::pair<bool, quota::FairShare> Standing(quota::NodeId child, const Player& player) {
    quota::ScopedTake with(&ledger);
    if (Possible(player)) with.Take(player.cell, Amount{player.amount}, quota::Book::kActual);
    const quota::CellId cell = ledger.FindCell(child, kCpu);
    return {ledger.Usage(cell, quota::Book::kActual) > ledger.SubtreeQuota(cell),
            shares.Of(child, quota::Book::kActual)};
  }
  // The winner below `node`; null: nobody is there.
  const Player* Winner(quota::NodeId node) {
    const Player* best = nullptr;
    quota::NodeId best_child = quota::kNoNode;
    const auto meet = [&](quota::NodeId child, const Player* player) {
      if (player == nullptr) return;
      if (best != nullptr) {
        const auto [borrows, share] = Standing(child, *player);
        const auto [best_borrows, best_share] = Standing(best_child, *best);
        if (borrows != best_borrows ? borrows
            : share != best_share   ? best_share < share
                                    : best->created < player->created)
          return;
      }
      best = player;
      best_child = child;
    };
    for (const auto& [name, cohort] : cohorts) {
      if (ledger.Parent(cohort) == node) meet(cohort, Winner(cohort));
    }
    for (const Player& player : players) {
      if (ledger.Parent(player.node) == node) meet(player.node, &player);
    }
    return best;
  }
  Names Play(quota::NodeId root) {
    Names admitted;
    while (const Player* winner = Winner(root)) {
      if (ledger.Fits(winner->cell, Amount{winner->amount})) {
        ledger.TakeBoth(winner->cell, Amount{winner->amount});
        admitted.push_back(winner->uid);
      }
      const std::string uid = winner->uid;
      std::erase_if(players, [&](const Player& player) { return player.uid == uid; });
    }
    return admitted;
  }
};

}  // namespace

TEST_CASE("each entry of a pass is the winner of a tournament on what is used by then") {
  CHECK(rc::check([] {
    Cluster cluster(Fair());
    Tournament model;
    model.cohorts["c0"] = model.ledger.AddNode(quota::kNoNode, quota::Ledger::Kind::kCohort);
    const int cohorts = Draw(1, 5);
    for (int i = 1; i < cohorts; ++i) {
      const std::string parent = "c" + std::to_string(Draw(0, i));
      const int64_t halves = Draw<int64_t>(0, 4);
      const std::string name = "c" + std::to_string(i);
      cluster.Apply(CohortChanged{CohortOf(name, parent, halves)});
      model.cohorts[name] = model.ledger.AddNode(model.cohorts.at(parent), quota::Ledger::Kind::kCohort);
      model.ledger.SetWeight(model.cohorts.at(name), Weight(halves).nanos);
    }
    const int queues = Draw(2, 9);
    for (int i = 0; i < queues; ++i) {
      const std::string name = "q" + std::to_string(i);
      const std::string cohort = "c" + std::to_string(Draw(0, cohorts));
      const int64_t nominal = Draw<int64_t>(0, 6);
      const int64_t halves = Draw<int64_t>(0, 4);
      std::optional<int64_t> lending;
      if (OneIn(3)) lending = Draw<int64_t>(0, 4);
      cluster.AddQueue(Weighted(CpuQueue(name, cohort, nominal, std::nullopt, lending), halves));
      Player player;
      player.node = model.ledger.AddNode(model.cohorts.at(cohort), quota::Ledger::Kind::kClusterQueue);
      model.ledger.SetWeight(player.node, Weight(halves).nanos);
      player.cell = model.ledger.Cell(player.node, kCpu);
      quota::Limits limits{Amount{nominal}, std::nullopt, std::nullopt};
      if (lending.has_value()) limits.lending_limit = Amount{*lending};
      model.ledger.SetLimits(player.cell, limits);
      player.uid = "w" + std::to_string(i);
      player.amount = Draw<int64_t>(1, 6);
      player.created = i;
      cluster.Submit(Gang(player.uid, name, static_cast<int32_t>(player.amount), player.created));
      model.players.push_back(player);
    }
    Names admitted;
    for (const Decision& decision : cluster.engine.RunPass(At(100)).decisions) {
      if (const auto* admit = std::get_if<Admit>(&decision)) admitted.push_back(admit->uid);
    }
    RC_ASSERT(admitted == model.Play(model.cohorts.at("c0")));
  }));
}

}  // namespace muster::engine
