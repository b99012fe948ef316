#include "muster/gang/pod_charge.h"

#include <algorithm>

#include "muster/core/check.h"

namespace muster::gang {

namespace {

constexpr std::string_view kRequests = "requests.";
constexpr std::string_view kLimits = "limits.";
// Those that each container must say something of.
constexpr std::string_view kDemanded[] = {"cpu", "memory"};

std::string Named(std::string_view prefix, std::string_view resource) { return std::string(prefix).append(resource); }

bool IsHugePages(std::string_view resource) { return resource.starts_with("hugepages-"); }

// One of the cluster's devices: neither Kubernetes' own nor the name of a limit.
bool IsExtended(std::string_view resource) {
  return resource.find('/') != std::string_view::npos && resource.find("kubernetes.io/") == std::string_view::npos &&
         !resource.starts_with(kRequests);
}

bool IsOfNodes(std::string_view resource) {
  return resource == "cpu" || resource == "memory" || resource == "ephemeral-storage";
}

void AddRequests(const ResourceList& requests, PodCharge* charge) {
  for (const auto& [resource, amount] : ToAmounts(requests)) {
    const bool by_own_name = IsOfNodes(resource) || IsHugePages(resource);
    if (by_own_name) charge->amounts.emplace(resource, amount);
    if (by_own_name || IsExtended(resource)) charge->amounts.emplace(Named(kRequests, resource), amount);
  }
}

bool HasPodLevel(const PodResources& pod) {
  if (!pod.pod_level.has_value()) return false;
  const auto any = [](const ResourceList& list) {
    return std::any_of(list.begin(), list.end(), [](const auto& entry) { return IsPodLevel(entry.first); });
  };
  return any(pod.pod_level->requests) || any(pod.pod_level->limits);
}

template <typename Predicate>
bool AnyContainer(const PodResources& pod, Predicate predicate) {
  return std::any_of(pod.containers.begin(), pod.containers.end(), predicate) ||
         std::any_of(pod.init_containers.begin(), pod.init_containers.end(), predicate);
}

std::vector<std::string> UnsetNames(const PodResources& pod) {
  std::vector<std::string> unset;
  if (HasPodLevel(pod)) return unset;
  for (const std::string_view resource : kDemanded) {
    const auto lacks = [&](ResourceList ResourceRequirements::*part) {
      return AnyContainer(pod,
                          [&](const Container& container) { return !(container.resources.*part).contains(resource); });
    };
    if (lacks(&ResourceRequirements::requests)) {
      unset.emplace_back(resource);
      unset.push_back(Named(kRequests, resource));
    }
    if (lacks(&ResourceRequirements::limits)) unset.push_back(Named(kLimits, resource));
  }
  std::sort(unset.begin(), unset.end());
  return unset;
}

bool IsBestEffort(const PodResources& pod) {
  const auto has = [](const ResourceRequirements& resources) {
    const auto any = [](const ResourceList& list) {
      return std::any_of(list.begin(), list.end(), [](const auto& entry) {
        return (entry.first == "cpu" || entry.first == "memory") && !entry.second.IsZero();
      });
    };
    return any(resources.requests) || any(resources.limits);
  };
  if (pod.pod_level.has_value()) return !has(*pod.pod_level);
  return !AnyContainer(pod, [&has](const Container& container) { return has(container.resources); });
}

}  // namespace

PodCharge ChargeOf(const PodResources& pod) {
  PodCharge charge;
  charge.amounts = {{"pods", Amount{1}}, {"count/pods", Amount{1}}};
  AddRequests(PodRequests(pod), &charge);
  for (const auto& [resource, amount] : ToAmounts(PodLimits(pod))) {
    if (IsOfNodes(resource)) charge.amounts.emplace(Named(kLimits, resource), amount);
  }
  charge.unset = UnsetNames(pod);
  charge.best_effort = IsBestEffort(pod);
  return charge;
}

void AddToHash(const PodCharge& charge, StateHash* hash) {
  for (const auto& [name, amount] : charge.amounts) hash->Add(name).Add(amount.value);
  for (const std::string& name : charge.unset) hash->Add(name);
  hash->Add(static_cast<int64_t>(charge.best_effort)).Add(static_cast<int64_t>(charge.terminating));
  hash->Add(static_cast<int64_t>(charge.cross_namespace_affinity)).Add(charge.priority_class);
}

std::string_view ResourceOfLimit(std::string_view name) {
  for (const std::string_view prefix : {kRequests, kLimits}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

bool Matches(const QuotaScope& scope, const PodCharge& charge) {
  switch (scope.kind) {
    case QuotaScopeKind::kTerminating:
      return charge.terminating;
    case QuotaScopeKind::kNotTerminating:
      return !charge.terminating;
    case QuotaScopeKind::kBestEffort:
      return charge.best_effort;
    case QuotaScopeKind::kNotBestEffort:
      return !charge.best_effort;
    case QuotaScopeKind::kPriorityClass: {
      Labels labels;
      if (!charge.priority_class.empty()) labels.emplace(kPriorityClassScope, charge.priority_class);
      return scope.priority_classes.Matches(labels);
    }
    case QuotaScopeKind::kCrossNamespacePodAffinity:
      return charge.cross_namespace_affinity;
    case QuotaScopeKind::kOfNoPod:
      return false;
  }
  CheckFailed(__FILE__, __LINE__, "known scope");
}

}  // namespace muster::gang
