// What one pod asks for, step by step, with the numbers that the pod scheduler would use.
//
// Rules: kueue_semantics 3.1 (adjustments and their order), 3.2 (the sum, exclusion, transformations).
#include "muster/gang/requests.h"

#include <catch2/catch.hpp>

namespace muster::gang {

namespace {

Quantity Q(const std::string& text) {
  const absl::StatusOr<Quantity> quantity = Quantity::Parse(text);
  REQUIRE(quantity.ok());
  return *quantity;
}

ResourceList Cpu(const std::string& text) { return {{"cpu", Q(text)}}; }

Container Asking(const std::string& cpu, bool restartable = false) {
  Container container;
  container.resources.requests = Cpu(cpu);
  container.restartable = restartable;
  return container;
}

int64_t MilliCpu(const PodResources& pod) { return ToAmounts(PodRequests(pod)).at("cpu").value; }

}  // namespace

TEST_CASE("a pod asks for the sum of its containers, or for its greatest init container") {
  PodResources pod;
  pod.containers = {Asking("1"), Asking("500m")};
  CHECK(MilliCpu(pod) == 1500);
  pod.init_containers = {Asking("1"), Asking("4")};
  CHECK(MilliCpu(pod) == 4000);
}

// user_pains A15
TEST_CASE("a sidecar runs beside the main containers and beside the init containers after it") {
  PodResources pod;
  pod.containers = {Asking("1")};
  pod.init_containers = {Asking("1", true), Asking("3")};
  CHECK(MilliCpu(pod) == 4000);  // sidecar 1 and init 3
  pod.init_containers = {Asking("3"), Asking("1", true)};
  CHECK(MilliCpu(pod) == 3000);  // init 3 alone, before the sidecar
  pod.init_containers = {Asking("2", true), Asking("2", true)};
  CHECK(MilliCpu(pod) == 5000);
}

// user_pains A15
TEST_CASE("pod-level requests replace the sum for cpu, and overhead is added on top") {
  PodResources pod;
  pod.containers = {Asking("1")};
  pod.overhead = Cpu("250m");
  CHECK(MilliCpu(pod) == 1250);
  pod.pod_level = ResourceRequirements{Cpu("3"), {}};
  CHECK(MilliCpu(pod) == 3250);
}

// user_pains A15
TEST_CASE("limits stand in for requests that are missing, defaults of the namespace before them") {
  PodResources pod;
  pod.containers.resize(1);
  pod.containers[0].resources.limits = Cpu("2");
  PodResources plain = pod;
  AdjustResources(&plain, {}, nullptr);
  CHECK(MilliCpu(plain) == 2000);
  LimitRangeItem item;
  item.type = "Container";
  item.default_requests = Cpu("1");
  item.default_limits = Cpu("9");
  LimitRangeSummary limits;
  limits.Add("defaults", {item});
  AdjustResources(&pod, limits, nullptr);
  CHECK(MilliCpu(pod) == 1000);
}

TEST_CASE("of several LimitRanges the first default, the least max and the greatest min count") {
  LimitRangeItem first;
  first.type = "Container";
  first.default_requests = Cpu("1");
  first.max = Cpu("4");
  first.min = Cpu("100m");
  LimitRangeItem second = first;
  second.default_requests = Cpu("2");
  second.max = Cpu("3");
  second.min = Cpu("200m");
  LimitRangeSummary limits;
  limits.Add("first", {first});
  limits.Add("second", {second});
  const LimitRangeSummary::Type* both = limits.Find("Container");
  REQUIRE(both != nullptr);
  CHECK(both->item.default_requests.at("cpu") == Q("1"));
  CHECK(both->item.max.at("cpu") == Q("3"));
  CHECK(both->item.min.at("cpu") == Q("200m"));
  CHECK(limits.Find("Pod") == nullptr);
  PodResources pod;
  pod.containers = {Asking("50m")};
  CHECK(OutsideLimitRange(pod, limits) ==
        std::vector<ResourceProblem>{{"containers[0].resources", "cpu", Q("50m"), Q("200m"), true, "second"}});
  pod.containers = {Asking("3")};
  CHECK(OutsideLimitRange(pod, limits).empty());
  pod.containers = {Asking("3001m")};
  CHECK(OutsideLimitRange(pod, limits) ==
        std::vector<ResourceProblem>{{"containers[0].resources", "cpu", Q("3001m"), Q("3"), false, "second"}});
}

TEST_CASE("what all containers ask for together is named as the pod's, with the LimitRange that is the tightest") {
  LimitRangeItem loose;
  loose.type = "Pod";
  loose.max = Cpu("9");
  LimitRangeItem tight = loose;
  tight.max = Cpu("3");
  LimitRangeSummary limits;
  limits.Add("tight", {tight});
  limits.Add("loose", {loose});
  PodResources pod;
  pod.containers = {Asking("2"), Asking("2")};
  CHECK(OutsideLimitRange(pod, limits) ==
        std::vector<ResourceProblem>{{"resources", "cpu", Q("4"), Q("3"), false, "tight"}});
}

// user_pains A15
TEST_CASE("a RuntimeClass gives its overhead to a pod that has none") {
  PodResources pod;
  pod.containers = {Asking("1")};
  const ResourceList overhead = Cpu("100m");
  AdjustResources(&pod, {}, &overhead);
  CHECK(MilliCpu(pod) == 1100);
  const ResourceList more = Cpu("5");
  AdjustResources(&pod, {}, &more);
  CHECK(MilliCpu(pod) == 1100);
}

TEST_CASE("a request above its limit is named with container and resource") {
  PodResources pod;
  pod.containers = {Asking("2")};
  pod.containers[0].resources.limits = Cpu("1");
  CHECK(RequestsAboveLimits(pod) ==
        std::vector<ResourceProblem>{{"containers[0].resources.requests", "cpu", Q("2"), Q("1"), false, ""}});
}

TEST_CASE("a pod-level request above its limit is named as the pod's") {
  PodResources pod;
  pod.pod_level = ResourceRequirements{Cpu("2"), Cpu("1500m")};
  CHECK(RequestsAboveLimits(pod) ==
        std::vector<ResourceProblem>{{"resources.requests", "cpu", Q("2"), Q("1500m"), false, ""}});
}

TEST_CASE("excluded prefixes are dropped before anything is turned into something else") {
  RequestConfig config;
  config.exclude_prefixes = {"example.com/"};
  Transformation transformation;
  transformation.input = "example.com/gpu";
  transformation.outputs = {{"credits", Q("10")}};
  config.transformations = {transformation};
  const ResourceList out = Configure({{"example.com/gpu", Q("2")}, {"cpu", Q("1")}}, config);
  CHECK(out.size() == 1);
  CHECK(out.at("cpu") == Q("1"));
}

TEST_CASE("cards times memory: outputs are multiplied by another request, inputs are kept or dropped") {
  Transformation transformation;
  transformation.input = "nvidia.com/gpumem";
  transformation.retain = false;
  transformation.multiply_by = "nvidia.com/gpu";
  transformation.outputs = {{"nvidia.com/total-gpumem", Q("1")}};
  RequestConfig config;
  config.transformations = {transformation};
  ResourceList out = Configure({{"nvidia.com/gpu", Q("2")}, {"nvidia.com/gpumem", Q("1024")}}, config);
  CHECK(out.at("nvidia.com/total-gpumem") == Q("2048"));
  CHECK(out.at("nvidia.com/gpu") == Q("2"));
  CHECK_FALSE(out.contains("nvidia.com/gpumem"));
  // Nothing to multiply by: once.
  out = Configure({{"nvidia.com/gpumem", Q("1024")}}, config);
  CHECK(out.at("nvidia.com/total-gpumem") == Q("1024"));
}

TEST_CASE("a MIG profile becomes the memory that it has, on top of what is asked for directly") {
  Transformation transformation;
  transformation.input = "nvidia.com/mig-1g.5gb";
  transformation.outputs = {{"gpu-memory", Q("5Gi")}};
  RequestConfig config;
  config.transformations = {transformation};
  const ResourceList out = Configure({{"nvidia.com/mig-1g.5gb", Q("3")}, {"gpu-memory", Q("1Gi")}}, config);
  CHECK(out.at("gpu-memory") == Q("16Gi"));
  CHECK(out.at("nvidia.com/mig-1g.5gb") == Q("3"));
}

// user_pains A8
TEST_CASE("what is negative counts as nothing, and fractions are rounded up once") {
  PodResources pod;
  pod.containers = {Asking("-4"), Asking("1")};
  CHECK(MilliCpu(pod) == 0);
  pod.containers = {Asking("0.0004"), Asking("0.0004")};
  CHECK(MilliCpu(pod) == 1);  // 0.8 of a milli unit, not twice one
  const auto amounts = ToAmounts({{"cpu", Q("0")}});
  CHECK(amounts.contains("cpu"));  // asked for with zero is not the same as not asked for
}

}  // namespace muster::gang
