#include "muster/controller/pod_template.h"

#include <catch2/catch.hpp>

#include "test_jobs.h"

namespace muster::controller {
namespace {

Injection Blue() {
  auto wanted = MakeInjection(BlueAdmission(2).pod_sets[0], "cq", "lq", "job-train-0d852", Flavors());
  REQUIRE(wanted.ok());
  return *wanted;
}

// What the reference injects: golden case inject-and-restore.
TEST_CASE("An admission wants its flavors' labels and tolerations and the names of its queues") {
  const Injection wanted = Blue();
  CHECK(wanted.node_selector == Labels{{"pool", "blue"}, {"zone", "z1"}});
  CHECK(wanted.tolerations == Flavors().at("blue").tolerations);
  CHECK(wanted.labels == Labels{{"kueue.x-k8s.io/podset", "main"},
                                {"kueue.x-k8s.io/local-queue-name", "lq"},
                                {"kueue.x-k8s.io/cluster-queue-name", "cq"}});
  CHECK(wanted.annotations == Labels{{"kueue.x-k8s.io/workload", "job-train-0d852"}});
}

TEST_CASE("A ClusterQueue whose name is no DNS label is not named on pods") {
  const auto wanted = MakeInjection(BlueAdmission(2).pod_sets[0], "cq.example.com", "lq", "w", Flavors());
  REQUIRE(wanted.ok());
  CHECK_FALSE(wanted->labels.contains("kueue.x-k8s.io/cluster-queue-name"));
}

TEST_CASE("A flavor that is gone is named") {
  const auto wanted = MakeInjection(BlueAdmission(2).pod_sets[0], "cq", "lq", "w", {});
  CHECK(absl::IsNotFound(wanted.status()));
  CHECK_THAT(std::string(wanted.status().message()), Catch::Contains("blue"));
}

TEST_CASE("What is injected can be taken back to the byte, and what was there before stays") {
  TemplateView base;
  base.labels = {{"app", "x"}};
  base.node_selector = {{"disk", "ssd"}, {"zone", "z1"}};  // zone is asked for by the flavor too
  gang::Toleration own;
  own.key = "own";
  own.op = "Exists";
  base.tolerations = {own, Flavors().at("blue").tolerations[1]};  // spot is tolerated already
  const auto injected = Inject(base, Blue());
  REQUIRE(injected.ok());
  CHECK(injected->result.node_selector == Labels{{"disk", "ssd"}, {"pool", "blue"}, {"zone", "z1"}});
  CHECK(injected->added.node_selector == Labels{{"pool", "blue"}});
  REQUIRE(injected->result.tolerations.size() == 3);
  CHECK(injected->result.tolerations[2].key == "dedicated");
  CHECK(injected->added.tolerations.size() == 1);
  CHECK(StillInjected(injected->result, injected->added));
  CHECK(Restore(injected->result, injected->added) == base);
}

TEST_CASE("A key that the template has with another value is a contradiction") {
  TemplateView base;
  base.node_selector = {{"pool", "red"}};
  const auto injected = Inject(base, Blue());
  REQUIRE(absl::IsFailedPrecondition(injected.status()));
  const std::string message(injected.status().message());
  CHECK_THAT(message, Catch::Contains("pool"));
  CHECK_THAT(message, Catch::Contains("red"));
  CHECK_THAT(message, Catch::Contains("blue"));
}

TEST_CASE("Restoring leaves what somebody changed since") {
  const auto injected = Inject({}, Blue());
  REQUIRE(injected.ok());
  TemplateView edited = injected->result;
  edited.node_selector["zone"] = "z9";
  CHECK_FALSE(StillInjected(edited, injected->added));
  CHECK(Restore(edited, injected->added).node_selector == Labels{{"zone", "z9"}});
}

}  // namespace
}  // namespace muster::controller
