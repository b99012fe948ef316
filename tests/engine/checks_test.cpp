// Two-phase admission (kueue_semantics 1.3, 5.5, 7.4): quota is reserved first, and admitted once the checks are ready.
#include <catch2/catch.hpp>

#include "cluster.h"

namespace muster::engine {
namespace {

using Uids = std::vector<std::string>;
using Place = WorkloadView::Place;

const AdmissionCheck kActive{"budget", "example.com/budget", true};

ClusterQueue Checked(const std::string& name, std::vector<AdmissionCheckRule> rules = {{"budget", {}}}) {
  ClusterQueue queue = CpuQueue(name, "", 10);
  queue.admission_checks = std::move(rules);
  return queue;
}

std::vector<InactiveReason> WhyInactive(const Cluster& cluster, const std::string& queue) {
  std::vector<InactiveReason> reasons;
  for (const Inactivity& why : cluster.engine.ViewClusterQueue(queue).inactive) reasons.push_back(why.reason);
  return reasons;
}

const Withdraw* WithdrawalOf(const Cluster& cluster, const std::string& uid) {
  for (const Decision& decision : cluster.last) {
    if (const auto* withdraw = std::get_if<Withdraw>(&decision); withdraw != nullptr && withdraw->uid == uid) {
      return withdraw;
    }
  }
  return nullptr;
}

// With `a`, who holds 6 of 10 and is not admitted.
struct Reserved : Cluster {
  Reserved() {
    Apply(AdmissionCheckChanged{kActive});
    AddQueue(Checked("q"));
    Submit(Gang("a", "q", 6));
    REQUIRE(Run() == Uids{"a"});
  }
};

TEST_CASE("what is reserved holds quota and is not admitted before its checks are ready") {
  Reserved cluster;
  CHECK(std::get<Admit>(cluster.last.front()).checks == std::vector<std::string>{"budget"});
  ClusterQueueView view = cluster.engine.ViewClusterQueue("q");
  CHECK(view.reserving == 1);
  CHECK(view.admitted == 0);
  CHECK(view.usage[0].reserved == Amount{6});
  CHECK(view.usage[0].used == Amount{0});
  LocalQueueView local = cluster.engine.ViewLocalQueue("ns", "q");
  CHECK(local.reserving == 1);
  CHECK(local.admitted == 0);
  CHECK(local.usage[0].used == Amount{0});
  cluster.Submit(Gang("b", "q", 6));
  CHECK(cluster.Run().empty());
  cluster.Apply(ClaimAdmitted{"a", cluster.claims["a"]});
  view = cluster.engine.ViewClusterQueue("q");
  CHECK(view.reserving == 1);
  CHECK(view.admitted == 1);
  CHECK(view.usage[0].used == Amount{6});
  local = cluster.engine.ViewLocalQueue("ns", "q");
  CHECK(local.admitted == 1);
  CHECK(local.usage[0].used == Amount{6});
}

TEST_CASE("a reservation that is found at start-up is one") {
  Cluster cluster;
  cluster.Apply(AdmissionCheckChanged{kActive});
  cluster.AddQueue(Checked("q"));
  Workload a = Gang("a", "q", 6);
  a.held = HeldClaim{
      {7, 3}, ClaimState::kWritten, {"q", {PodSetAssignment{"main", 6, {{"cpu", "f"}}, {{"cpu", Amount{6}}}}}}, At(50)};
  a.held->admitted = false;
  cluster.Submit(a);
  CHECK(cluster.Reserved("q") == Amount{6});
  CHECK(cluster.engine.ViewClusterQueue("q").admitted == 0);
}

TEST_CASE("checks for flavors apply where one of them was assigned") {
  Cluster cluster;
  cluster.Apply(FlavorChanged{ResourceFlavor{"g", {}, {}, {}, ""}});
  for (const char* name : {"all", "on-f", "on-g"}) {
    cluster.Apply(AdmissionCheckChanged{AdmissionCheck{name, "example.com/c", true}});
  }
  ClusterQueue queue = Checked("q", {{"on-g", {"g"}}, {"on-f", {"f"}}, {"all", {}}});
  FlavorQuotas second = queue.resource_groups[0].flavors[0];
  second.flavor = "g";
  queue.resource_groups[0].flavors.push_back(second);
  cluster.AddQueue(queue);
  cluster.Submit(Gang("a", "q", 10, 1));
  cluster.Submit(Gang("b", "q", 10, 2));
  REQUIRE(cluster.Run() == Uids{"a", "b"});
  CHECK(std::get<Admit>(cluster.last[0]).checks == std::vector<std::string>{"all", "on-f"});
  CHECK(std::get<Admit>(cluster.last[1]).checks == std::vector<std::string>{"all", "on-g"});
  CHECK(ApplicableChecks(queue, nullptr) == std::vector<std::string>{"all"});
}

TEST_CASE("a queue without active checks is inactive, in the reference's order, and wakes with them") {
  Cluster cluster;
  cluster.AddQueue(Checked("q", {{"budget", {}}, {"other", {}}}));
  cluster.Submit(Gang("a", "q", 6));
  CHECK(cluster.Run().empty());
  CHECK(WhyInactive(cluster, "q") == std::vector{InactiveReason::kAdmissionCheckNotFound});
  CHECK(cluster.HoldOf("a")->code == ReasonCode::kSuspended);
  cluster.Apply(AdmissionCheckChanged{AdmissionCheck{"budget", "example.com/budget", false}});
  CHECK(WhyInactive(cluster, "q") ==
        std::vector{InactiveReason::kAdmissionCheckNotFound, InactiveReason::kAdmissionCheckInactive});
  cluster.Apply(AdmissionCheckChanged{AdmissionCheck{"other", "example.com/other", true}});
  CHECK(WhyInactive(cluster, "q") == std::vector{InactiveReason::kAdmissionCheckInactive});
  cluster.Apply(AdmissionCheckChanged{kActive});
  CHECK(cluster.Run() == Uids{"a"});
  cluster.Apply(AdmissionCheckDeleted{"budget"});
  CHECK(WhyInactive(cluster, "q") == std::vector{InactiveReason::kAdmissionCheckNotFound});
  // What is reserved stays so.
  cluster.Run();
  CHECK(cluster.PlaceOf("a") == Place::kHolding);
  CHECK(cluster.last.empty());
}

TEST_CASE("MultiKueue checks stand alone and apply to all flavors") {
  Cluster cluster;
  for (const char* name : {"m1", "m2"}) {
    cluster.Apply(AdmissionCheckChanged{AdmissionCheck{name, "kueue.x-k8s.io/multikueue", true}});
  }
  cluster.Apply(AdmissionCheckChanged{AdmissionCheck{"p", "kueue.x-k8s.io/provisioning-request", true}});
  cluster.AddQueue(Checked("q", {{"m1", {}}}));
  CHECK(WhyInactive(cluster, "q").empty());
  cluster.AddQueue(Checked("q", {{"m1", {}}, {"m2", {}}}));
  CHECK(WhyInactive(cluster, "q") == std::vector{InactiveReason::kMultipleMultiKueueChecks});
  cluster.AddQueue(Checked("q", {{"m1", {"f"}}}));
  CHECK(WhyInactive(cluster, "q") == std::vector{InactiveReason::kMultiKueueCheckPerFlavor});
  cluster.AddQueue(Checked("q", {{"m1", {}}, {"p", {}}}));
  CHECK(WhyInactive(cluster, "q") == std::vector{InactiveReason::kMultiKueueWithProvisioningRequest});
  cluster.AddQueue(Checked("q", {{"p", {"f"}}}));
  CHECK(WhyInactive(cluster, "q").empty());
}

TEST_CASE("a stopped or missing queue takes back what is reserved, and leaves what is admitted") {
  Reserved cluster;
  cluster.Submit(Gang("b", "q", 4));
  REQUIRE(cluster.Run() == Uids{"b"});
  cluster.Apply(ClaimAdmitted{"b", cluster.claims["b"]});
  ReasonCode code = ReasonCode::kSuspended;
  ClusterQueue queue = Checked("q");
  SECTION("the ClusterQueue is on hold") {
    queue.stop_policy = StopPolicy::kHold;
    cluster.Apply(ClusterQueueChanged{queue});
  }
  SECTION("the ClusterQueue is being deleted") {
    queue.terminating = true;
    cluster.Apply(ClusterQueueChanged{queue});
  }
  SECTION("the ClusterQueue is gone") {
    code = ReasonCode::kMisconfigured;
    cluster.Apply(ClusterQueueDeleted{"q"});
  }
  SECTION("the LocalQueue is on hold") {
    LocalQueue local = LocalTo("q");
    local.stop_policy = StopPolicy::kHold;
    cluster.Apply(LocalQueueChanged{local});
  }
  SECTION("the LocalQueue is gone") {
    code = ReasonCode::kMisconfigured;
    cluster.Apply(LocalQueueDeleted{"ns", "q"});
  }
  cluster.Run();
  REQUIRE(WithdrawalOf(cluster, "a") != nullptr);
  CHECK(WithdrawalOf(cluster, "a")->claim == cluster.claims["a"]);
  CHECK(WithdrawalOf(cluster, "a")->reason.code == code);
  CHECK(WithdrawalOf(cluster, "b") == nullptr);
  CHECK(cluster.Evictions().empty());
  cluster.Apply(ClaimLeaving{"a", cluster.claims["a"]});
  cluster.Apply(ClaimGone{"a", cluster.claims["a"]});
  cluster.Run();
  CHECK(cluster.PlaceOf("a") != Place::kHolding);
  CHECK(cluster.PlaceOf("b") == Place::kHolding);
}

TEST_CASE("a drained queue withdraws what is reserved, and evicts it once it is admitted") {
  Reserved cluster;
  ClusterQueue queue = Checked("q");
  queue.stop_policy = StopPolicy::kHoldAndDrain;
  const bool admitted = GENERATE(false, true);
  if (admitted) cluster.Apply(ClaimAdmitted{"a", cluster.claims["a"]});
  cluster.Apply(ClusterQueueChanged{queue});
  cluster.Run();
  CHECK((WithdrawalOf(cluster, "a") != nullptr) == !admitted);
  CHECK((cluster.Evictions().size() == 1) == admitted);
  cluster.Run();
  CHECK(cluster.last.empty());  // once
}

TEST_CASE("a deactivated reservation is evicted") {
  Reserved cluster;
  Workload a = Gang("a", "q", 6);
  a.active = false;
  cluster.Submit(a);
  cluster.Run();
  REQUIRE(cluster.Evictions().size() == 1);
  CHECK(cluster.Evictions()[0].reason == EvictionReason::kDeactivated);
}

}  // namespace
}  // namespace muster::engine
