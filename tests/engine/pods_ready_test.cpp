// Admissions that wait until the pods of all who were admitted are ready (kueue_semantics 7.1, blockAdmission).
#include <catch2/catch.hpp>

#include "cluster.h"

namespace muster::engine {
namespace {

using Uids = std::vector<std::string>;

EngineOptions Blocking() {
  EngineOptions options;
  options.block_admission = true;
  return options;
}

void Ready(Cluster* cluster, const std::string& uid, bool ready = true) {
  cluster->Apply(ClaimPodsReady{uid, cluster->claims[uid], ready});
}

std::vector<std::string> BlockersOf(const Reason& reason) {
  std::vector<std::string> uids;
  for (const Blocker& blocker : reason.blockers) uids.push_back(blocker.uid);
  return uids;
}

TEST_CASE("one gang is admitted at a time, over all trees, each when the pods of those before are ready") {
  Cluster cluster(Blocking());
  cluster.AddQueue(CpuQueue("p", "", 10));
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Gang("a", "p", 2, 1));
  cluster.Submit(Gang("b", "q", 2, 2));
  cluster.Submit(Gang("c", "p", 2, 3));
  CHECK(cluster.Run() == Uids{"a"});
  for (const char* uid : {"b", "c"}) {
    const std::optional<Reason> reason = cluster.HoldOf(uid);
    REQUIRE(reason.has_value());
    CHECK(reason->code == ReasonCode::kWaitingForPodsReady);
    CHECK(WaitCodeOf(*reason) == WaitCode::kPodsNotReady);
    CHECK(BlockersOf(*reason) == Uids{"a"});
  }
  cluster.Apply(ClaimActive{"a", cluster.claims["a"]});
  CHECK(cluster.Run().empty());
  Ready(&cluster, "a");
  // The earlier of the two, though its tree comes after the other's by name.
  CHECK(cluster.Run() == Uids{"b"});
  CHECK(BlockersOf(*cluster.HoldOf("c")) == Uids{"b"});
  Ready(&cluster, "b");
  CHECK(cluster.Run() == Uids{"c"});
}

TEST_CASE("without the option nobody waits for the pods of others") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Gang("a", "q", 2, 1));
  cluster.Submit(Gang("b", "q", 2, 2));
  CHECK(cluster.Run() == Uids{"a", "b"});
}

TEST_CASE("a gang whose pods are lost again is waited for once more") {
  Cluster cluster(Blocking());
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Gang("a", "q", 2, 1));
  REQUIRE(cluster.Run() == Uids{"a"});
  Ready(&cluster, "a");
  Ready(&cluster, "a", false);
  cluster.Submit(Gang("b", "q", 2, 2));
  CHECK(cluster.Run().empty());
  Ready(&cluster, "a");
  CHECK(cluster.Run() == Uids{"b"});
}

TEST_CASE("a gang that is stopped, refused or gone is not waited for, and what it holds counts on") {
  Cluster cluster(Blocking());
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Gang("a", "q", 6, 1));
  cluster.Submit(Gang("b", "q", 6, 2));
  cluster.Submit(Gang("c", "q", 4, 3));
  const std::vector<Decision> first = cluster.engine.Decide(At(100));
  const auto& admit = std::get<Admit>(first.front());
  REQUIRE(admit.uid == "a");
  SECTION("stopped") {
    cluster.Apply(ClaimWritten{"a", admit.claim});
    CHECK(cluster.Run().empty());
    cluster.Apply(ClaimLeaving{"a", admit.claim});
    // b does not fit beside what a still holds.
    CHECK(cluster.Run() == Uids{"c"});
  }
  SECTION("refused") {
    cluster.Apply(ClaimRefused{"a", admit.claim, At(500), "no"});
    CHECK(cluster.Run() == Uids{"b"});
  }
  SECTION("gone") {
    cluster.Finish("a");
    CHECK(cluster.Run() == Uids{"b"});
  }
}

TEST_CASE("while admissions wait, all others are told why they do not fit, and stop policies are carried out") {
  Cluster cluster(Blocking());
  ClusterQueue queue = CpuQueue("q", "", 10);
  cluster.AddQueue(queue);
  cluster.AddQueue(CpuQueue("other", "", 10));
  cluster.Submit(Gang("a", "other", 1, 1));
  REQUIRE(cluster.Run() == Uids{"a"});
  Ready(&cluster, "a");
  cluster.Submit(Gang("b", "q", 6, 2));
  REQUIRE(cluster.Run() == Uids{"b"});
  // Behind the one that waits for pods: one that has no quota, and one that never fits.
  cluster.Submit(Gang("waits", "q", 4, 3));
  cluster.Submit(Gang("short", "q", 5, 4));
  cluster.Submit(Gang("never", "q", 11, 5));
  CHECK(cluster.Run().empty());
  CHECK(cluster.HoldOf("waits")->code == ReasonCode::kWaitingForPodsReady);
  CHECK(cluster.HoldOf("short")->code == ReasonCode::kWaitingForQuota);
  CHECK(cluster.HoldOf("never")->code == ReasonCode::kExceedsMaxQuota);
  ClusterQueue other = CpuQueue("other", "", 10);
  other.generation = 2;
  other.stop_policy = StopPolicy::kHoldAndDrain;
  cluster.Apply(ClusterQueueChanged{other});
  CHECK(cluster.Run().empty());
  REQUIRE(cluster.Evictions().size() == 1);
  CHECK(cluster.Evictions()[0].uid == "a");
}

TEST_CASE("what waits for pods takes the room first, in a StrictFIFO queue too") {
  Cluster cluster(Blocking());
  ClusterQueue queue = CpuQueue("q", "", 10);
  queue.queueing_strategy = GENERATE(QueueingStrategy::kStrictFIFO, QueueingStrategy::kBestEffortFIFO);
  cluster.AddQueue(queue);
  cluster.Submit(Gang("a", "q", 2, 1));
  REQUIRE(cluster.Run() == Uids{"a"});
  cluster.Submit(Gang("first", "q", 8, 2));
  cluster.Submit(Gang("second", "q", 2, 3));
  CHECK(cluster.Run().empty());
  CHECK(cluster.HoldOf("first")->code == ReasonCode::kWaitingForPodsReady);
  Ready(&cluster, "a");
  CHECK(cluster.Run() == Uids{"first"});
}

TEST_CASE("whoever waited for pods at the head of a StrictFIFO queue and was overtaken does not go on saying so") {
  Cluster cluster(Blocking());
  ClusterQueue queue = CpuQueue("q", "", 10);
  queue.queueing_strategy = QueueingStrategy::kStrictFIFO;
  cluster.AddQueue(queue);
  cluster.Submit(Gang("a", "q", 2, 1));
  REQUIRE(cluster.Run() == Uids{"a"});
  cluster.Submit(Gang("head", "q", 2, 3));
  cluster.Submit(Gang("before", "q", 2, 2));
  REQUIRE(cluster.Run().empty());
  cluster.Finish("before");
  REQUIRE(cluster.Run().empty());
  REQUIRE(cluster.HoldOf("head")->code == ReasonCode::kWaitingForPodsReady);
  cluster.Submit(Gang("never", "q", 11, 4, 1));
  CHECK(cluster.Run().empty());
  Ready(&cluster, "a");
  CHECK(cluster.Run().empty());
  const Reason reason = cluster.engine.ViewWorkload("head")->reason;
  CHECK(WaitCodeOf(reason) == WaitCode::kBehindStrictHead);
  CHECK(BlockersOf(reason) == Uids{"never"});
}

TEST_CASE("what is found held counts as ready or not as it was") {
  for (const bool ready : {false, true}) {
    INFO(ready);
    Cluster cluster(Blocking());
    cluster.AddQueue(CpuQueue("q", "", 10));
    Workload held = Gang("a", "q", 2, 1);
    HeldClaim claim;
    claim.id = {1, 50};
    claim.admission = {"q", {PodSetAssignment{"main", 2, {{"cpu", "f"}}, {{"cpu", Amount{2}}}}}};
    claim.reserved_at = At(5);
    claim.pods_ready = ready;
    held.held = claim;
    cluster.Submit(held);
    cluster.Submit(Gang("b", "q", 2, 2));
    CHECK(cluster.Run() == (ready ? Uids{"b"} : Uids{}));
  }
}

}  // namespace
}  // namespace muster::engine
