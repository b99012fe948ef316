// What one pod asks for: from the resources written in a pod template to the amounts that quota counts.
//
// The steps, in order: RuntimeClass overhead, LimitRange defaults, limits that stand in for missing requests
// (AdjustResources); the sum over containers as the kube-scheduler computes it (PodRequests); excluded
// prefixes and transformations (Configure); rounding up to whole units, once (ToAmounts).
//
// Source: kueue_semantics 3.1, 3.2, 3.5; the notes of oracle category 12.
// Threading: values and pure functions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/amount.h"
#include "muster/core/quantity.h"

namespace muster::gang {

using ResourceList = std::map<std::string, Quantity, std::less<>>;

struct ResourceRequirements {
  ResourceList requests;
  ResourceList limits;
};

struct Container {
  std::string name;
  ResourceRequirements resources;
  // Of init containers only: a sidecar, which runs beside all that are started after it.
  bool restartable = false;
};

// The resources of a pod spec, as written.
struct PodResources {
  std::vector<Container> containers;
  std::vector<Container> init_containers;
  std::optional<ResourceRequirements> pod_level;  // spec.resources; present though empty is not absent
  ResourceList overhead;
  std::string runtime_class;
};

// The limits of one type ("Container", "Pod") of one LimitRange.
struct LimitRangeItem {
  std::string type;
  ResourceList max;
  ResourceList min;
  ResourceList default_limits;
  ResourceList default_requests;
};
using LimitRange = std::vector<LimitRangeItem>;

// All LimitRanges of a namespace in one: of each default the first, the least max, the greatest min.
class LimitRangeSummary {
 public:
  struct Type {
    LimitRangeItem item;
    // The LimitRanges that the bounds come from, by resource.
    std::map<std::string, std::string, std::less<>> max_from;
    std::map<std::string, std::string, std::less<>> min_from;
  };

  void Add(std::string_view name, const LimitRange& range);
  // Null where nothing limits that type.
  const Type* Find(std::string_view type) const;

 private:
  std::map<std::string, Type, std::less<>> types_;
};

// One resource turned into others, as the configuration file has it.
struct Transformation {
  std::string input;
  bool retain = true;       // the input stays, too
  std::string multiply_by;  // a resource; empty: none
  ResourceList outputs;     // for each unit of input
};

struct RequestConfig {
  std::vector<std::string> exclude_prefixes;
  std::vector<Transformation> transformations;
};

// Keeps of each resource the greater amount.
void KeepGreater(ResourceList* list, const ResourceList& other);

// `class_overhead`: of the pod's RuntimeClass; null where that does not exist.
void AdjustResources(PodResources* pod, const LimitRangeSummary& limits, const ResourceList* class_overhead);

// RETURNS: what the pod needs at most at any time. A resource that is mentioned with zero is in it.
ResourceList PodRequests(const PodResources& pod);
// Likewise, what it may use at most. Only of resources that some container has a limit of.
ResourceList PodLimits(const PodResources& pod);
// Which resources a pod can have as a whole.
bool IsPodLevel(std::string_view resource);

ResourceList Configure(const ResourceList& requests, const RequestConfig& config);

// RETURNS: base units, rounded up, never negative.
std::map<std::string, Amount, std::less<>> ToAmounts(const ResourceList& requests);

// One value of a pod that is wrong.
struct ResourceProblem {
  std::string field;  // "containers[0].resources.requests"; "resources" is the pod as a whole
  std::string resource;
  Quantity value;
  Quantity limit;
  bool below = false;       // `limit` is a minimum
  std::string limit_range;  // whose bound it is
  friend bool operator==(const ResourceProblem&, const ResourceProblem&) = default;
};

// Of an adjusted pod: requests that are above their limits.
std::vector<ResourceProblem> RequestsAboveLimits(const PodResources& pod);
// Of an adjusted pod: what is outside the ranges of its namespace.
std::vector<ResourceProblem> OutsideLimitRange(const PodResources& pod, const LimitRangeSummary& limits);

}  // namespace muster::gang
