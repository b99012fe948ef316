// What one pod counts for in the ResourceQuotas of its namespace, and which of them count it: by the rules of the API
// server, which refuses a pod that is too much for one of them.
//
// Source: k8s.io/kubernetes pkg/quota/v1/evaluator/core/pods.go.
// Units: Amount's, of the resource that a name is about ("limits.cpu": milli).
// Threading: values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "muster/core/amount.h"
#include "muster/core/hash.h"
#include "muster/core/labels.h"
#include "muster/gang/requests.h"

namespace muster::gang {

struct PodCharge {
  // By each name that a ResourceQuota may limit it under: "pods", "cpu", "requests.cpu", "limits.memory",
  // "requests.nvidia.com/gpu".
  std::map<std::string, Amount, std::less<>> amounts;
  // Of cpu and memory the names of which some container says nothing: a ResourceQuota that limits one of them lets no
  // such pod in. Sorted.
  std::vector<std::string> unset;
  // What scopes ask for.
  bool best_effort = false;
  bool terminating = false;  // it has an active deadline
  bool cross_namespace_affinity = false;
  std::string priority_class;  // empty: none

  auto Tied() const {
    return std::tie(amounts, unset, best_effort, terminating, cross_namespace_affinity, priority_class);
  }
  friend bool operator==(const PodCharge& a, const PodCharge& b) { return a.Tied() == b.Tied(); }
  friend bool operator<(const PodCharge& a, const PodCharge& b) { return a.Tied() < b.Tied(); }
};

// `pod`: adjusted. What scopes ask for beside its resources is left to the caller.
PodCharge ChargeOf(const PodResources& pod);

void AddToHash(const PodCharge& charge, StateHash* hash);

// The resource that the name of a limit is about: "limits.cpu" -> "cpu".
std::string_view ResourceOfLimit(std::string_view name);

enum class QuotaScopeKind : uint8_t {
  kTerminating,
  kNotTerminating,
  kBestEffort,
  kNotBestEffort,
  kPriorityClass,
  kCrossNamespacePodAffinity,
  kOfNoPod,  // one of other objects
};

struct QuotaScope {
  QuotaScopeKind kind = QuotaScopeKind::kOfNoPod;
  Requirement priority_classes{};  // of kPriorityClass
  friend bool operator==(const QuotaScope&, const QuotaScope&) = default;
};

// The key of `priority_classes`.
inline constexpr std::string_view kPriorityClassScope = "PriorityClass";

bool Matches(const QuotaScope& scope, const PodCharge& charge);

}  // namespace muster::gang
