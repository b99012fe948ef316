// The second scheduler that judges recorded cases: its figures against those that were worked out by hand, and whether
// it notices what is wrong.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "conformance_judge.h"
#include "model/quota_tree.h"

namespace muster::cli {

namespace {

using model::Amounts;
using model::Fr;
using model::QuotaTree;
using model::Usage;

engine::ClusterQueue QueueOf(const std::string& name, const std::string& cohort, engine::ResourceQuota quota) {
  engine::ClusterQueue queue;
  queue.name = name;
  queue.cohort = cohort;
  queue.namespace_selector.emplace();
  quota.resource = "cpu";
  queue.resource_groups.push_back({{"cpu"}, {{"f", {quota}}}});
  return queue;
}

// An engine and a judge that are told the same.
struct World {
  World() {
    Tell(engine::NamespaceChanged{{"n", {}}});
    Tell(engine::FlavorChanged{
        {.name = "f", .node_labels = {}, .node_taints = {}, .tolerations = {}, .topology_name = ""}});
    engine::ClusterQueue queue = QueueOf("q", "", {"cpu", Amount{2}, {}, {}});
    queue.within_cluster_queue = engine::PreemptionPolicy::kLowerPriority;
    Tell(engine::ClusterQueueChanged{std::move(queue)});
    engine::LocalQueue local;
    local.ns = "n";
    local.name = "l";
    local.cluster_queue = "q";
    Tell(engine::LocalQueueChanged{std::move(local)});
  }

  void Tell(const engine::Event& event) {
    judge.Apply(event);
    engine.Apply(event);
  }

  // Of one pod; later ones have waited less.
  void Submit(const std::string& name, int64_t cpu, int32_t priority) {
    now = now + std::chrono::seconds(1);
    engine::Workload workload;
    workload.uid = workload.name = name;
    workload.ns = "n";
    workload.local_queue = "l";
    workload.priority = priority;
    workload.queue_time = now;
    gang::Shape shape;
    shape.requests["cpu"] = Amount{cpu};
    workload.pod_sets.push_back({"main", 1, {}, shapes.Intern(std::move(shape)), {}});
    Tell(engine::WorkloadChanged{std::move(workload)});
  }

  // What the engine decides in a pass; the judge is asked before it.
  std::vector<engine::Decision> Pass() {
    now = now + std::chrono::seconds(1);
    judge.BeforePass(engine, now);
    return engine.RunPass(now).decisions;
  }

  void PassAsDecided() {
    const std::vector<engine::Decision> decisions = Pass();
    judge.AfterPass(decisions);
    for (const engine::Decision& decision : decisions) {
      if (const auto* admit = std::get_if<engine::Admit>(&decision)) {
        engine.Apply(engine::ClaimActive{admit->uid, admit->claim});
      }
    }
  }

  gang::ShapeTable shapes;
  engine::EngineSet engine{{}};
  PassJudge judge{{}};
  WallTime now{1'700'000'000'000'000'000};
};

}  // namespace

// kueue_semantics 12, examples 1 and 2: in C are a with 5 and b with 3, of which it lends 1.
TEST_CASE("the model's quotas are those that were worked out by hand") {
  QuotaTree tree;
  tree.Build({{"a", QueueOf("a", "C", {"cpu", Amount{5}, {}, {}})},
              {"b", QueueOf("b", "C", {"cpu", Amount{3}, {}, Amount{1}})}},
             {});
  const Fr cpu = tree.FrOf("f", "cpu");
  const int a = tree.QueueOf("a");
  const int b = tree.QueueOf("b");
  CHECK(tree.Subtree(tree.RootOf(a), cpu) == Amount{6});
  CHECK(tree.Potential(a, cpu) == Amount{6});
  CHECK(tree.Potential(b, cpu) == Amount{8});
  CHECK(tree.Height(tree.RootOf(a)) == 1);
  Usage usage(&tree);
  CHECK(usage.Available(a, cpu) == Amount{6});
  CHECK(usage.LevelOf(a, cpu, Amount{5}).height == 0);
  CHECK(usage.LevelOf(a, cpu, Amount{6}).height == 1);
  usage.Add(a, Amounts{{cpu, Amount{6}}});
  CHECK(usage.Used(tree.RootOf(a), cpu) == Amount{6});
  CHECK(usage.Available(b, cpu) == Amount{2});
  CHECK_FALSE(usage.WithinQuota(a, {cpu}));

  tree.Build({{"a", QueueOf("a", "C", {"cpu", Amount{5}, Amount{1}, {}})},
              {"b", QueueOf("b", "C", {"cpu", Amount{3}, {}, Amount{1}})}},
             {});
  Usage limited(&tree);
  CHECK(limited.Available(a, cpu) == Amount{6});
  limited.Add(a, Amounts{{cpu, Amount{5}}});
  CHECK(limited.Available(a, cpu) == Amount{1});
}

// Example 3: 8 in use of 5, 10 to be lent, weight 2: 150 of a thousand.
TEST_CASE("the model's shares are those that were worked out by hand") {
  engine::ClusterQueue a = QueueOf("a", "C", {"cpu", Amount{5}, {}, {}});
  a.fair_weight.nanos = 2'000'000'000;
  QuotaTree tree;
  tree.Build({{"a", a}, {"b", QueueOf("b", "C", {"cpu", Amount{5}, {}, {}})}}, {});
  Usage usage(&tree);
  usage.Add(tree.QueueOf("a"), Amounts{{tree.FrOf("f", "cpu"), Amount{8}}});
  const model::Share share = usage.ShareOf(tree.QueueOf("a"));
  const model::Share expected{Amount{150}, Amount{1000}, 1'000'000'000};
  CHECK_FALSE(Less(share, expected));
  CHECK_FALSE(Less(expected, share));
  CHECK(usage.ShareOf(tree.QueueOf("b")).IsZero());
}

TEST_CASE("what the engine decides is by the rules") {
  World world;
  world.Submit("first", 2, 0);
  world.PassAsDecided();
  world.Submit("second", 1, 1);
  world.PassAsDecided();
  CHECK(world.judge.faults().empty());
  CHECK(world.judge.passes() == 2);
}

TEST_CASE("an admission that is missing, or of another than whose turn it is, is noticed") {
  World world;
  world.Submit("first", 2, 0);
  world.Submit("second", 2, 0);
  std::vector<engine::Decision> decisions = world.Pass();
  REQUIRE(!decisions.empty());
  SECTION("none") {
    world.judge.AfterPass({});
    CHECK(world.judge.faults() ==
          std::vector<std::string>{"by the rules, and not decided: admit first in q, 1 of main cpu=f"});
  }
  SECTION("the other") {
    auto* admit = std::get_if<engine::Admit>(&decisions.front());
    REQUIRE(admit != nullptr);
    admit->uid = "second";
    world.judge.AfterPass(decisions);
    CHECK(world.judge.faults() ==
          std::vector<std::string>{"by the rules, and not decided: admit first in q, 1 of main cpu=f",
                                   "decided, and not by the rules: admit second in q, 1 of main cpu=f"});
  }
}

TEST_CASE("one victim too many, or for another reason, is noticed") {
  World world;
  world.Submit("older", 1, 0);
  world.PassAsDecided();
  world.Submit("newer", 1, 0);
  world.PassAsDecided();
  world.Submit("urgent", 1, 1);
  std::vector<engine::Decision> decisions = world.Pass();
  REQUIRE(!decisions.empty());
  const auto* evict = std::get_if<engine::Evict>(&decisions.front());
  REQUIRE(evict != nullptr);
  CHECK(evict->uid == "newer");
  SECTION("too many") {
    engine::Evict more = *evict;
    more.uid = "older";
    decisions.emplace_back(more);
    world.judge.AfterPass(decisions);
    CHECK(world.judge.faults() ==
          std::vector<std::string>{"decided, and not by the rules: evict older InClusterQueue for urgent"});
  }
  SECTION("another reason") {
    engine::Evict other = *evict;
    other.reason = engine::EvictionReason::kInCohortReclamation;
    world.judge.AfterPass({other});
    CHECK(world.judge.faults().size() == 2);
  }
}

// 1 of 2 in use, and who asks for 2 may evict nobody: it waits for quota. It would fit if nobody were there.
TEST_CASE("a wrong reason of waiting is noticed") {
  World world;
  world.Submit("first", 1, 0);
  world.PassAsDecided();
  world.Submit("second", 2, 0);
  std::vector<engine::Decision> decisions = world.Pass();
  REQUIRE(!decisions.empty());
  auto* hold = std::get_if<engine::Hold>(&decisions.front());
  REQUIRE(hold != nullptr);
  CHECK(hold->reason.code == engine::ReasonCode::kWaitingForQuota);
  hold->reason.code = engine::ReasonCode::kExceedsMaxQuota;
  world.judge.AfterPass(decisions);
  CHECK(world.judge.faults() ==
        std::vector<std::string>{"waits with reason ExceedsMaxQuota, and not WaitingForQuota: second"});
}

TEST_CASE("whoever waits at rest although it fits is noticed") {
  World world;
  world.Submit("first", 2, 0);
  world.PassAsDecided();
  world.Submit("second", 1, 0);
  world.PassAsDecided();
  world.judge.AtRest();
  CHECK(world.judge.faults().empty());
  // The judge alone is told that there is room.
  world.judge.Apply(engine::WorkloadDeleted{"first"});
  world.judge.AtRest();
  CHECK(world.judge.faults() == std::vector<std::string>{"waits although it fits: second in q, 1 of main cpu=f"});
}

}  // namespace muster::cli
