// What pods count for in ResourceQuotas. The rules are those of k8s.io/kubernetes pkg/quota/v1/evaluator/core/pods.go;
// the numbers are worked out by hand.
#include "muster/gang/pod_charge.h"

#include <catch2/catch.hpp>

namespace muster::gang {

namespace {

Quantity Q(const std::string& text) {
  const absl::StatusOr<Quantity> quantity = Quantity::Parse(text);
  REQUIRE(quantity.ok());
  return *quantity;
}

Container Asking(const ResourceList& requests, const ResourceList& limits = {}) {
  Container container;
  container.resources = {requests, limits};
  return container;
}

using Amounts = std::map<std::string, Amount, std::less<>>;
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a pod counts under each name that a quota may have for what it asks for, and may use") {
  PodResources pod;
  pod.containers = {Asking({{"cpu", Q("1500m")}, {"memory", Q("1Gi")}, {"nvidia.com/gpu", Q("2")}},
                           {{"cpu", Q("2")}, {"nvidia.com/gpu", Q("2")}}),
                    Asking({{"cpu", Q("500m")}, {"hugepages-2Mi", Q("4Mi")}, {"ephemeral-storage", Q("1M")}})};
  pod.overhead = {{"cpu", Q("100m")}, {"memory", Q("1Mi")}};
  // Overhead is added to limits that there are. Devices are known by their requests alone.
  CHECK(ChargeOf(pod).amounts == Amounts{{"pods", {1}},
                                         {"count/pods", {1}},
                                         {"cpu", {2100}},
                                         {"requests.cpu", {2100}},
                                         {"limits.cpu", {2100}},
                                         {"memory", {1025 << 20}},
                                         {"requests.memory", {1025 << 20}},
                                         {"requests.nvidia.com/gpu", {2}},
                                         {"hugepages-2Mi", {4 << 20}},
                                         {"requests.hugepages-2Mi", {4 << 20}},
                                         {"ephemeral-storage", {1'000'000}},
                                         {"requests.ephemeral-storage", {1'000'000}}});
  CHECK(ResourceOfLimit("limits.cpu") == "cpu");
  CHECK(ResourceOfLimit("requests.nvidia.com/gpu") == "nvidia.com/gpu");
  CHECK(ResourceOfLimit("pods") == "pods");
}

TEST_CASE("each container is to say what it asks for of cpu and memory, unless the pod does as a whole") {
  const ResourceList both = {{"cpu", Q("1")}, {"memory", Q("1Gi")}};
  PodResources pod;
  pod.containers = {Asking(both, both), Asking(both, {{"memory", Q("1Gi")}})};
  CHECK(ChargeOf(pod).unset == Names{"limits.cpu"});
  pod.init_containers = {Asking({{"cpu", Q("1")}}, both)};
  CHECK(ChargeOf(pod).unset == Names{"limits.cpu", "memory", "requests.memory"});
  pod.pod_level = ResourceRequirements{{{"cpu", Q("4")}}, {}};
  CHECK(ChargeOf(pod).unset.empty());
  CHECK(ChargeOf(pod).amounts.at("cpu") == Amount{4000});
}

TEST_CASE("best effort is a pod that asks for no cpu and no memory, whatever devices it has") {
  PodResources pod;
  pod.containers = {Asking({{"nvidia.com/gpu", Q("1")}}), Asking({{"cpu", Q("0")}})};
  CHECK(ChargeOf(pod).best_effort);
  pod.init_containers = {Asking({}, {{"memory", Q("1Mi")}})};
  CHECK_FALSE(ChargeOf(pod).best_effort);
  pod.pod_level = ResourceRequirements{};
  CHECK(ChargeOf(pod).best_effort);
}

TEST_CASE("a quota's scopes match by what the pod is, and its priority class by the operators of selectors") {
  using Kind = QuotaScopeKind;
  using Operator = Requirement::Operator;
  PodCharge pod;
  pod.best_effort = true;
  const auto matches = [&pod](Kind kind) { return Matches({kind, {}}, pod); };
  CHECK(matches(Kind::kBestEffort));
  CHECK_FALSE(matches(Kind::kNotBestEffort));
  CHECK(matches(Kind::kNotTerminating));
  CHECK_FALSE(matches(Kind::kTerminating));
  CHECK_FALSE(matches(Kind::kCrossNamespacePodAffinity));
  CHECK_FALSE(matches(Kind::kOfNoPod));
  pod.terminating = pod.cross_namespace_affinity = true;
  pod.best_effort = false;
  CHECK(matches(Kind::kNotBestEffort));
  CHECK(matches(Kind::kTerminating));
  CHECK_FALSE(matches(Kind::kNotTerminating));
  CHECK(matches(Kind::kCrossNamespacePodAffinity));

  const auto of_class = [&pod](Operator op, std::vector<std::string> values) {
    return Matches({Kind::kPriorityClass, {std::string(kPriorityClassScope), op, std::move(values)}}, pod);
  };
  CHECK_FALSE(of_class(Operator::kExists, {}));
  CHECK(of_class(Operator::kDoesNotExist, {}));
  CHECK_FALSE(of_class(Operator::kIn, {"urgent"}));
  CHECK(of_class(Operator::kNotIn, {"urgent"}));
  pod.priority_class = "urgent";
  CHECK(of_class(Operator::kExists, {}));
  CHECK_FALSE(of_class(Operator::kDoesNotExist, {}));
  CHECK(of_class(Operator::kIn, {"usual", "urgent"}));
  CHECK_FALSE(of_class(Operator::kNotIn, {"urgent"}));
}

}  // namespace muster::gang
