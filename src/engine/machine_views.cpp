// What people see of machines: their room by flavor, quota that they cannot serve, and why gangs found no place.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine_impl.h"
#include "muster/core/check.h"

namespace muster::engine {

// One quota of a resource that machines have, in the order of the objects' names.
struct QuotaOnMachines {
  const ClusterQueueState* queue = nullptr;
  const CohortState* cohort = nullptr;  // where the queue is null
  const std::string* flavor = nullptr;
  const ResourceQuota* quota = nullptr;
  size_t group_index = 0, flavor_index = 0, resource_index = 0;  // where it stands in the spec
};

namespace {

// Source: k8s.io/kubernetes pkg/apis/core/v1/helper IsExtendedResourceName.
bool IsExtended(std::string_view resource) {
  return resource.find('/') != std::string_view::npos && resource.find("kubernetes.io/") == std::string_view::npos;
}

std::optional<FitFailureCause> CauseOnMachines(const gang::RoomProblem& problem) {
  if (!problem.proven) return FitFailureCause::kSearchEnded;
  switch (problem.lack) {
    case gang::RoomLack::kNode:
      return FitFailureCause::kNode;
    case gang::RoomLack::kNodeSelector:
      return FitFailureCause::kNodeSelector;
    case gang::RoomLack::kNodeAffinity:
      return FitFailureCause::kNodeAffinity;
    case gang::RoomLack::kToleration:
      return FitFailureCause::kTaint;
    case gang::RoomLack::kOpenNode:
      return FitFailureCause::kUnschedulable;
    case gang::RoomLack::kDomain:
      return FitFailureCause::kTopology;
    case gang::RoomLack::kResource:
      return problem.resource == "pods" ? FitFailureCause::kPodsPerNode : FitFailureCause::kResource;
  }
  return std::nullopt;
}

// Nothing where it is no matter of machines.
std::optional<FitFailureCause> CauseOf(const Obstacle& obstacle) {
  if (obstacle.kind == ObstacleKind::kNoRoom) return CauseOnMachines(*obstacle.machines);
  if (obstacle.kind == ObstacleKind::kUntoleratedTaint) return FitFailureCause::kTaint;
  if (obstacle.kind == ObstacleKind::kNodeSelectorMismatch) return FitFailureCause::kNodeSelector;
  if (obstacle.kind == ObstacleKind::kNodeAffinityMismatch) return FitFailureCause::kNodeAffinity;
  if (obstacle.kind == ObstacleKind::kNoPlacement) return FitFailureCause::kTopology;
  if (obstacle.kind == ObstacleKind::kTopologyLevelMissing) return FitFailureCause::kTopologyLevel;
  return std::nullopt;
}

}  // namespace

std::string_view Name(FitFailureCause cause) {
  switch (cause) {
    case FitFailureCause::kResource:
      return "Resource";
    case FitFailureCause::kPodsPerNode:
      return "PodsPerNode";
    case FitFailureCause::kNode:
      return "Node";
    case FitFailureCause::kNodeSelector:
      return "NodeSelector";
    case FitFailureCause::kNodeAffinity:
      return "NodeAffinity";
    case FitFailureCause::kTaint:
      return "Taint";
    case FitFailureCause::kUnschedulable:
      return "Unschedulable";
    case FitFailureCause::kTopology:
      return "Topology";
    case FitFailureCause::kTopologyLevel:
      return "TopologyLevel";
    case FitFailureCause::kSearchEnded:
      return "SearchEnded";
  }
  MUSTER_CHECK(false);
}

std::vector<QuotaOnMachines> EngineSet::Impl::QuotasOnMachines() const {
  std::vector<QuotaOnMachines> out;
  if (!machines_.on()) return out;
  const auto add = [&](QuotaOnMachines of, const std::vector<ResourceGroup>& groups) {
    for (of.group_index = 0; of.group_index < groups.size(); ++of.group_index) {
      const std::vector<FlavorQuotas>& flavors = groups[of.group_index].flavors;
      for (of.flavor_index = 0; of.flavor_index < flavors.size(); ++of.flavor_index) {
        const FlavorQuotas& flavor = flavors[of.flavor_index];
        of.flavor = &flavor.flavor;
        for (of.resource_index = 0; of.resource_index < flavor.resources.size(); ++of.resource_index) {
          of.quota = &flavor.resources[of.resource_index];
          if (!options_.derived_resources.contains(of.quota->resource)) out.push_back(of);
        }
      }
    }
  };
  for (const auto& [name, queue] : forest_.queues()) {
    QuotaOnMachines of;
    of.queue = queue.get();
    if (queue->exists) add(of, queue->spec.resource_groups);
  }
  for (const auto& [name, cohort] : forest_.cohorts()) {
    QuotaOnMachines of;
    of.cohort = cohort.get();
    if (cohort->exists) add(of, cohort->spec.resource_groups);
  }
  return out;
}

std::vector<FlavorRoomView> EngineSet::Impl::ViewFlavorRoom() const {
  std::map<std::string, std::map<std::string, Amount>> nominal;  // by flavor and resource
  for (const QuotaOnMachines& of : QuotasOnMachines()) nominal[*of.flavor][of.quota->resource] += of.quota->nominal;
  const std::vector<int64_t> sizes(kDeviceCounts.begin(), kDeviceCounts.end());
  std::vector<FlavorRoomView> out;
  for (const auto& [flavor, quotas] : nominal) {
    std::vector<std::string> resources;
    for (const auto& [resource, amount] : quotas) resources.push_back(resource);
    if (!machines_.FactsOf(flavor, "").has_value()) continue;
    std::vector<gang::FlavorRoom> room = machines_.RoomOf(flavor, resources, sizes);
    for (size_t i = 0; i < resources.size(); ++i) {
      const gang::FlavorFacts facts = *machines_.FactsOf(flavor, resources[i]);
      if (!IsExtended(resources[i])) room[i].pods.clear();
      out.push_back({flavor, resources[i], facts.nodes, quotas.at(resources[i]), facts.allocatable, room[i].free,
                     room[i].largest, std::move(room[i].pods)});
    }
  }
  return out;
}

std::shared_ptr<const std::vector<UnservedQuota>> EngineSet::Impl::UnservedQuotas() const {
  const std::pair as_of(quota_version_, machines_.facts_version());
  if (unserved_ != nullptr && unserved_as_of_ == as_of) return unserved_;
  std::vector<UnservedQuota> out;
  for (const QuotaOnMachines& of : QuotasOnMachines()) {
    const std::optional<gang::FlavorFacts> facts = machines_.FactsOf(*of.flavor, of.quota->resource);
    if (!facts.has_value() || facts->autoscaled || of.quota->nominal <= facts->allocatable) continue;
    UnservedQuota& unserved = out.emplace_back();
    (of.queue != nullptr ? unserved.cluster_queue : unserved.cohort) =
        of.queue != nullptr ? of.queue->name : of.cohort->name;
    unserved.field = absl::StrCat("spec.resourceGroups[", of.group_index, "].flavors[", of.flavor_index, "].resources[",
                                  of.resource_index, "].nominalQuota");
    unserved.flavor = *of.flavor;
    unserved.resource = of.quota->resource;
    unserved.nominal = of.quota->nominal;
    unserved.allocatable = facts->allocatable;
    unserved.nodes = facts->nodes;
  }
  unserved_ = std::make_shared<const std::vector<UnservedQuota>>(std::move(out));
  unserved_as_of_ = as_of;
  return unserved_;
}

namespace {

bool IsOfFlavor(const Obstacle& obstacle) {
  return obstacle.kind == ObstacleKind::kUntoleratedTaint || obstacle.kind == ObstacleKind::kNodeSelectorMismatch ||
         obstacle.kind == ObstacleKind::kNodeAffinityMismatch;
}

bool IsOfQuota(const Obstacle& obstacle) {
  return obstacle.kind == ObstacleKind::kInsufficientUnused || obstacle.kind == ObstacleKind::kExceedsMaximum;
}

}  // namespace

void EngineSet::Impl::OnNoFit(const std::vector<Obstacle>& obstacles) {
  // Who waits for quota waits for no machine, whatever flavors do not suit it.
  const bool flavors_matter =
      options_.machines && std::none_of(obstacles.begin(), obstacles.end(), [](const auto& o) { return IsOfQuota(o); });
  std::set<std::tuple<std::string, FitFailureCause, std::string>> failures;
  for (const Obstacle& obstacle : obstacles) {
    const std::optional<FitFailureCause> cause = CauseOf(obstacle);
    if (!cause.has_value() || (IsOfFlavor(obstacle) && !flavors_matter)) continue;
    // Of machines it names all flavors of the pods; no name of one has a comma.
    const std::vector<std::string> flavors = absl::StrSplit(obstacle.flavor, ", ");
    for (const std::string& flavor : flavors) {
      if (flavor.empty()) continue;
      std::string resource;
      if (*cause == FitFailureCause::kResource) {
        // Names that no node knows are anybody's.
        const std::optional<gang::FlavorFacts> facts = machines_.FactsOf(flavor, obstacle.machines->resource);
        if (facts.has_value() && facts->allocatable > Amount{}) resource = obstacle.machines->resource;
      }
      failures.emplace(flavor, *cause, std::move(resource));
    }
  }
  for (const auto& failure : failures) ++fit_failures_[failure];
}

void EngineSet::Impl::ForgetFitFailures(const std::string& flavor) {
  std::erase_if(fit_failures_, [&flavor](const auto& entry) { return std::get<0>(entry.first) == flavor; });
}

std::vector<FitFailures> EngineSet::Impl::ViewFitFailures() const {
  std::vector<FitFailures> out;
  for (const auto& [key, count] : fit_failures_) {
    out.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), count});
  }
  return out;
}

}  // namespace muster::engine
