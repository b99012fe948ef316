// The priority of a Job: its WorkloadPriorityClass, else its pods' PriorityClass, else the cluster's default.
//
// Source: kueue_semantics 2.3.
// Threading: values and pure functions.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <string_view>

#include "muster/controller/projection.h"
#include "muster/k8s_client/object.h"

namespace muster::controller {

// A WorkloadPriorityClass or PriorityClass; both have the same fields in use.
struct PriorityClass {
  k8s::ObjectMeta meta;
  int32_t value = 0;
  bool global_default = false;
};

absl::StatusOr<PriorityClass> DecodePriorityClass(std::string_view json);

using PriorityClasses = std::map<std::string, PriorityClass, std::less<>>;

// Of pods that name none; null: there is none. Several: the lowest counts.
const PriorityClass* GlobalDefault(const PriorityClasses& pod_classes);

// ON FAILURE: NotFound that names the WorkloadPriorityClass of the label. A missing PriorityClass cannot happen to
// pods that exist; it counts as none.
absl::StatusOr<Priority> ResolvePriority(const Job& job, const PriorityClasses& workload_classes,
                                         const PriorityClasses& pod_classes);

}  // namespace muster::controller
