// The queue objects and their surroundings as informers hold them: metadata beside what the engine uses.
//
// Threading: values and pure functions.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "muster/controller/decode.h"
#include "muster/controller/queue_status.h"
#include "muster/engine/objects.h"
#include "muster/k8s_client/object.h"

namespace muster::controller {

struct WatchedClusterQueue {
  k8s::ObjectMeta meta;
  engine::ClusterQueue queue;
  QueueStatus status;
};
struct WatchedLocalQueue {
  k8s::ObjectMeta meta;
  engine::LocalQueue queue;
  QueueStatus status;
};
struct WatchedFlavor {
  k8s::ObjectMeta meta;
  engine::ResourceFlavor flavor;
};
struct WatchedCohort {
  k8s::ObjectMeta meta;
  engine::Cohort cohort;
  QueueStatus status;
};
struct WatchedAdmissionCheck {
  k8s::ObjectMeta meta;
  engine::AdmissionCheck check;
  std::string misconfigured;  // it is not active then
};
// Metadata only.
struct WatchedNamespace {
  k8s::ObjectMeta meta;
};

// What of a spec cannot be read stands in the `misconfigured` of what is decoded, by field and value.
// ON FAILURE: not an object at all; names what can be named.
absl::StatusOr<WatchedClusterQueue> DecodeWatchedClusterQueue(std::string_view json);
absl::StatusOr<WatchedLocalQueue> DecodeWatchedLocalQueue(std::string_view json);
absl::StatusOr<WatchedFlavor> DecodeWatchedFlavor(std::string_view json);
absl::StatusOr<WatchedCohort> DecodeWatchedCohort(std::string_view json);
absl::StatusOr<WatchedAdmissionCheck> DecodeWatchedAdmissionCheck(std::string_view json);
absl::StatusOr<WatchedNamespace> DecodeWatchedNamespace(std::string_view json);

}  // namespace muster::controller
