// Claims: late, unknown and refused outcomes; what a leaving gang holds; what its end makes possible.
#include <catch2/catch.hpp>

#include "cluster.h"

namespace muster::engine {

using Uids = std::vector<std::string>;

TEST_CASE("a gang is admitted whole, with flavor and total, or not at all") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Gang("a", "q", 6, 1));
  cluster.Submit(Gang("b", "q", 5, 2));
  CHECK(cluster.Run() == Uids{"a"});
  const auto& admit = std::get<Admit>(cluster.last.front());
  CHECK(admit.claim == ClaimId{1, 1});
  CHECK(admit.generation == 1);
  CHECK(admit.admission.cluster_queue == "q");
  REQUIRE(admit.admission.pod_sets.size() == 1);
  CHECK(admit.admission.pod_sets[0] == PodSetAssignment{"main", 6, {{"cpu", "f"}}, {{"cpu", Amount{6}}}});
  CHECK(cluster.Reserved("q") == Amount{6});
  CHECK(cluster.PlaceOf("b") == WorkloadView::Place::kParked);
  const std::optional<Reason> reason = cluster.HoldOf("b");
  REQUIRE(reason.has_value());
  CHECK(reason->code == ReasonCode::kWaitingForQuota);
  REQUIRE(reason->obstacles.size() == 1);
  CHECK(reason->obstacles[0].kind == ObstacleKind::kInsufficientUnused);
  CHECK(reason->obstacles[0].requested == Amount{5});
  CHECK(reason->obstacles[0].missing == Amount{1});  // 5 wanted, 4 free
  cluster.Finish("a");
  CHECK(cluster.Run() == Uids{"b"});
}

TEST_CASE("outcomes that name another claim change nothing") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Gang("a", "q", 6));
  REQUIRE(cluster.Run() == Uids{"a"});
  const uint64_t before = cluster.engine.StateHash();
  const ClaimId other{1, 77};
  cluster.Apply(ClaimWritten{"a", other});
  cluster.Apply(ClaimRefused{"a", other, At(500), "late"});
  cluster.Apply(ClaimActive{"a", other});
  cluster.Apply(ClaimLeaving{"a", other});
  cluster.Apply(ClaimGone{"a", other});
  cluster.Apply(ClaimGone{"nobody", ClaimId{1, 1}});
  CHECK(cluster.engine.StateHash() == before);
}

TEST_CASE("a refused start is tried again from its time on") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Gang("a", "q", 6, 1));
  cluster.Submit(Gang("b", "q", 6, 2));
  const std::vector<Decision> first = cluster.engine.Decide(At(100));
  const auto& admit = std::get<Admit>(first.front());
  REQUIRE(admit.uid == "a");
  CHECK(cluster.engine.unwritten_claims() == 1);
  cluster.Apply(ClaimRefused{"a", admit.claim, At(105), "denied by policy"});
  CHECK(cluster.engine.unwritten_claims() == 0);
  CHECK(cluster.engine.NextDue() == At(105));
  // Meanwhile its room goes to the next.
  CHECK(cluster.Run(At(101)) == Uids{"b"});
  const std::optional<Reason> reason = cluster.HoldOf("a");
  REQUIRE(reason.has_value());
  REQUIRE(reason->obstacles.size() == 1);
  CHECK(reason->obstacles[0].kind == ObstacleKind::kStartRefused);
  CHECK(reason->obstacles[0].object == "denied by policy");
  // A refusal of the claim that is gone is late.
  cluster.Apply(ClaimWritten{"a", admit.claim});
  cluster.Finish("b");
  CHECK(cluster.Run(At(104)).empty());
  CHECK(cluster.Run(At(105)) == Uids{"a"});
  CHECK(cluster.claims["a"] != admit.claim);
}

// user_pains A11: what runs counts, or others would be admitted on room that is not there.
TEST_CASE("what a running gang has given back is booked again if its pods run after all, up to its admission") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Gang("a", "q", 10, 1));
  REQUIRE(cluster.Run() == Uids{"a"});
  cluster.Submit(Gang("a", "q", 1, 1));
  CHECK(cluster.Reserved("q") == Amount{1});
  cluster.Submit(Gang("b", "q", 9, 2));
  REQUIRE(cluster.Run() == Uids{"b"});
  cluster.Submit(Gang("a", "q", 10, 1));
  CHECK(cluster.Reserved("q") == Amount{19});
  cluster.Submit(Gang("a", "q", 1000, 1));
  CHECK(cluster.Reserved("q") == Amount{19});
  // Over the quota, and nobody else gets in before it is below again.
  cluster.Submit(Gang("c", "q", 1, 3));
  CHECK(cluster.Run().empty());
  cluster.Submit(Gang("a", "q", 1, 1));
  CHECK(cluster.Run().empty());
  cluster.Submit(Gang("a", "q", 0, 1));
  CHECK(cluster.Run() == Uids{"c"});
}

TEST_CASE("a start that was applied cannot be refused any more") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Gang("a", "q", 6));
  REQUIRE(cluster.Run() == Uids{"a"});
  cluster.Apply(ClaimRefused{"a", cluster.claims["a"], WallTime{}, "a repetition of the write"});
  CHECK(cluster.PlaceOf("a") == WorkloadView::Place::kHolding);
}

TEST_CASE("leaving holds quota; gone frees it, wakes the parked, and the gang queues again") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Gang("a", "q", 6, 1));
  cluster.Submit(Gang("b", "q", 6, 2));
  REQUIRE(cluster.Run() == Uids{"a"});
  cluster.Apply(ClaimActive{"a", cluster.claims["a"]});
  cluster.Apply(ClaimLeaving{"a", cluster.claims["a"]});
  CHECK(cluster.Reserved("q") == Amount{6});
  CHECK(cluster.Run().empty());
  cluster.Apply(ClaimGone{"a", cluster.claims["a"]});
  CHECK(cluster.Reserved("q") == Amount{0});
  // a keeps its queue time, so it is first again.
  CHECK(cluster.Run() == Uids{"a"});
  CHECK(cluster.PlaceOf("b") == WorkloadView::Place::kParked);
}

TEST_CASE("a claim found at start-up is booked as it is, whatever the object asks for now") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  Workload a = Gang("a", "q", 20);
  a.held = HeldClaim{
      {7, 3}, ClaimState::kActive, {"q", {PodSetAssignment{"main", 4, {{"cpu", "f"}}, {{"cpu", Amount{4}}}}}}, At(50)};
  cluster.Submit(a);
  CHECK(cluster.Reserved("q") == Amount{4});
  CHECK(cluster.Run().empty());
  // Two of the four pods are done and will not run again.
  a.pod_sets[0].count = 2;
  cluster.Submit(a);
  CHECK(cluster.Reserved("q") == Amount{2});
  // They run after all.
  a.pod_sets[0].count = 20;
  cluster.Submit(a);
  CHECK(cluster.Reserved("q") == Amount{4});
  // An object that still shows the claim after it went is late.
  cluster.Apply(ClaimGone{"a", {7, 3}});
  a.generation = 9;
  cluster.Submit(a);
  CHECK(cluster.Reserved("q") == Amount{0});
}

TEST_CASE("a claim waits for its ClusterQueue to be known") {
  Cluster cluster;
  Workload a = Gang("a", "q", 4);
  a.held = HeldClaim{
      {7, 3}, ClaimState::kWritten, {"q", {PodSetAssignment{"main", 4, {{"cpu", "f"}}, {{"cpu", Amount{4}}}}}}, At(50)};
  cluster.Submit(a);
  cluster.Submit(Gang("b", "q", 8));
  cluster.AddQueue(CpuQueue("q", "", 10));
  CHECK(cluster.Reserved("q") == Amount{4});
  CHECK(cluster.Run().empty());
  CHECK(cluster.PlaceOf("b") == WorkloadView::Place::kParked);
}

TEST_CASE("at the limit of unwritten claims nothing more is admitted until answers come") {
  EngineOptions options;
  options.unwritten_claims_max = 2;
  Cluster cluster(options);
  cluster.AddQueue(CpuQueue("q", "", 100));
  for (const char* uid : {"a", "b", "c", "d"}) cluster.Submit(Gang(uid, "q", 1));
  const std::vector<Decision> first = cluster.engine.Decide(At(100));
  REQUIRE(first.size() == 2);
  CHECK(cluster.engine.unwritten_claims() == 2);
  CHECK(cluster.engine.Decide(At(101)).empty());
  cluster.Apply(ClaimWritten{"a", std::get<Admit>(first[0]).claim});
  CHECK(cluster.Run(At(102)) == Uids{"c"});
  cluster.Apply(WorkloadDeleted{"b"});
  CHECK(cluster.Run(At(103)) == Uids{"d"});
}

TEST_CASE("an eviction whose write was refused comes again when its time has come, while it is still wanted") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 10));
  cluster.Submit(Gang("a", "q", 4));
  REQUIRE(cluster.Run() == Uids{"a"});
  Workload stopped = Gang("a", "q", 4);
  stopped.active = false;
  cluster.Submit(stopped);
  cluster.Run();
  REQUIRE(cluster.Evictions().size() == 1);
  cluster.Run(At(101));
  CHECK(cluster.Evictions().empty());

  cluster.Apply(EvictionRefused{"a", cluster.claims["a"], At(110)});
  CHECK(cluster.engine.NextDue() == At(110));
  cluster.Run(At(109));
  CHECK(cluster.Evictions().empty());
  cluster.Run(At(110));
  REQUIRE(cluster.Evictions().size() == 1);
  CHECK(cluster.Evictions()[0].reason == EvictionReason::kDeactivated);
  CHECK(cluster.Evictions()[0].claim == cluster.claims["a"]);

  // What is due first counts: that, or the end of another's back-off.
  for (const int64_t back_off : {115, 125}) {
    cluster.Apply(EvictionRefused{"a", cluster.claims["a"], At(120)});
    Workload later = Gang("later", "q", 1);
    later.not_before = At(back_off);
    cluster.Submit(later);
    CHECK(cluster.engine.NextDue() == At(std::min<int64_t>(back_off, 120)));
    cluster.Apply(WorkloadDeleted{"later"});
    cluster.Run(At(120));
    REQUIRE(cluster.Evictions().size() == 1);
  }

  // It may stay after all.
  cluster.Apply(EvictionRefused{"a", cluster.claims["a"], WallTime{}});
  cluster.Submit(Gang("a", "q", 4));
  cluster.Run(At(121));
  CHECK(cluster.Evictions().empty());
  CHECK(cluster.PlaceOf("a") == WorkloadView::Place::kHolding);
}

TEST_CASE("claim ids are read back as they are written") {
  CHECK(ClaimId{12, 345}.ToString() == "12-345");
  CHECK(ClaimId::Parse("12-345") == ClaimId{12, 345});
  for (const char* bad : {"", "-", "12", "12-", "-3", "1-2-3", "x-1", "1-+2", "99999999999999999999-1"}) {
    INFO(bad);
    CHECK(!ClaimId::Parse(bad).has_value());
  }
}

}  // namespace muster::engine
