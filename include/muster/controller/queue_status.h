// status of ClusterQueues, LocalQueues and Cohorts: what it should be, as a pure function of the engine's view.
//
// Source: kueue_semantics 1.3-1.5; golden cases.
// Threading: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/engine/engine.h"
#include "muster/k8s_client/object.h"

namespace muster::controller {

enum class QueueKind : uint8_t { kClusterQueue, kLocalQueue, kCohort };

struct ResourceUsage {
  std::string name;
  std::string total;
  std::string borrowed;  // of ClusterQueues only
  friend bool operator==(const ResourceUsage&, const ResourceUsage&) = default;
};

struct FlavorUsageStatus {
  std::string name;
  std::vector<ResourceUsage> resources;
  friend bool operator==(const FlavorUsageStatus&, const FlavorUsageStatus&) = default;
};

struct QueueStatus {
  std::vector<k8s::Condition> conditions;
  std::vector<FlavorUsageStatus> flavors_reservation;
  std::vector<FlavorUsageStatus> flavors_usage;
  int64_t pending = 0;
  int64_t reserving = 0;
  int64_t admitted = 0;
  // fairSharing.weightedShare of ClusterQueues and Cohorts; unset: no such field.
  std::optional<int64_t> weighted_share;
  // fairSharing.admissionFairSharingStatus of LocalQueues; what cannot be read has the lowest amount.
  std::optional<engine::ConsumedResources> consumed;
  // Whether the counts are there at all: an empty status is not one with zeros.
  bool present = false;
  // Somebody has spoilt it: it counts as empty, and is written whole.
  bool legible = true;
  friend bool operator==(const QueueStatus&, const QueueStatus&) = default;
};

// A ClusterQueue, LocalQueue or Cohort, for its status alone.
struct QueueObject {
  k8s::ObjectMeta meta;
  QueueStatus status;
};

// Of any of them.
QueueStatus DecodeQueueStatus(std::string_view json);

QueueStatus ProjectStatus(const QueueStatus& known, int64_t generation, const engine::ClusterQueueView& view,
                          WallTime now);
QueueStatus ProjectStatus(const QueueStatus& known, int64_t generation, const engine::LocalQueueView& view,
                          WallTime now);

// Of a Cohort the share is all there is.
QueueStatus ProjectStatus(const QueueStatus& known, const engine::CohortView& view);

// Merge patch of the status, with resourceVersion and the whole conditions. RETURNS: empty where nothing differs.
std::string EncodeStatusPatch(const QueueObject& known, const QueueStatus& wanted, QueueKind kind);

}  // namespace muster::controller
