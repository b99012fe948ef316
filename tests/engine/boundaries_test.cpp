// Boundaries that faults made by scripts/mutation-check were seen to move without any other test failing.
#include <catch2/catch.hpp>

#include "cluster.h"

namespace muster::engine {
namespace {

Amount Borrowed(const Cluster& cluster, const std::string& queue) {
  return cluster.engine.ViewClusterQueue(queue).usage.at(0).borrowed;
}

// status.flavorsUsage[].resources[].borrowed: usage above nominal, and never less than nothing.
TEST_CASE("borrowed is what is used above the nominal quota, to the unit") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("a", "all", 4));
  cluster.AddQueue(CpuQueue("b", "all", 4));
  CHECK(Borrowed(cluster, "a") == Amount{0});
  cluster.Submit(Gang("three", "a", 3, 1));
  cluster.Run();
  CHECK(Borrowed(cluster, "a") == Amount{0});
  cluster.Submit(Gang("one", "a", 1, 2));
  cluster.Run();
  CHECK(Borrowed(cluster, "a") == Amount{0});
  cluster.Submit(Gang("two", "a", 2, 3));
  cluster.Run();
  CHECK(Borrowed(cluster, "a") == Amount{2});
  CHECK(Borrowed(cluster, "b") == Amount{0});
}

// kueue_semantics 5.7: step i of n takes floor(spare * i / n) from each pod set, where n is the sum of what may be
// taken. Here 5 and 3 may be, so step 5 of 8 takes 3 and 1; no other step takes 4.
TEST_CASE("a partial admission takes no more from several pod sets than it has to") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 6));
  Workload w = Gang("w", "q", 6);
  w.pod_sets[0].min_count = 1;
  w.pod_sets.push_back(w.pod_sets[0]);
  w.pod_sets[1].name = "more";
  w.pod_sets[1].count = 4;
  cluster.Submit(w);
  CHECK(cluster.Run() == std::vector<std::string>{"w"});
  const auto* admit = std::get_if<Admit>(&cluster.last.at(0));
  REQUIRE(admit != nullptr);
  CHECK(admit->admission.pod_sets.at(0).count == 3);
  CHECK(admit->admission.pod_sets.at(1).count == 3);
}

// kueue_semantics 5.6: a later flavor is taken instead only where it is better.
TEST_CASE("of two flavors that are borrowed alike the first is kept") {
  Cluster cluster;
  for (const char* name : {"a", "b"}) cluster.Apply(FlavorChanged{ResourceFlavor{name, {}, {}, {}, ""}});
  const auto queue = [](const std::string& name, int64_t nominal) {
    ClusterQueue out = CpuQueue(name, "all", nominal);
    const ResourceQuota quota{"cpu", Amount{nominal}, std::nullopt, std::nullopt};
    out.resource_groups = {ResourceGroup{{"cpu"}, {FlavorQuotas{"a", {quota}}, FlavorQuotas{"b", {quota}}}}};
    return out;
  };
  ClusterQueue borrower = queue("q", 1);
  borrower.when_can_borrow = FungibilityPolicy::kTryNextFlavor;
  cluster.AddQueue(borrower);
  cluster.AddQueue(queue("lender", 4));
  cluster.Submit(Gang("w", "q", 2));
  REQUIRE(cluster.Run() == std::vector<std::string>{"w"});
  CHECK(cluster.engine.ViewWorkload("w")->admission.pod_sets.at(0).flavors.at(0).second == "a");
}

}  // namespace
}  // namespace muster::engine
