// Reasons and obstacles with the fields that each kind has (reason.h says which).
//
// Threading: values.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/engine/reason.h"
#include "state.h"

namespace muster::engine {

inline constexpr size_t kBlockersMax = 4;

inline Obstacle ObjectObstacle(ObstacleKind kind, std::string object = {}) {
  Obstacle obstacle;
  obstacle.kind = kind;
  obstacle.object = std::move(object);
  return obstacle;
}

inline Obstacle FlavorObstacle(ObstacleKind kind, std::string pod_set, std::string flavor, std::string object = {}) {
  Obstacle obstacle = ObjectObstacle(kind, std::move(object));
  obstacle.pod_set = std::move(pod_set);
  obstacle.flavor = std::move(flavor);
  return obstacle;
}

inline std::shared_ptr<const Reason> MakeReason(ReasonCode code, std::vector<Obstacle> obstacles = {},
                                                std::vector<Blocker> blockers = {}) {
  auto reason = std::make_shared<Reason>();
  reason->code = code;
  reason->obstacles = std::move(obstacles);
  reason->blockers = std::move(blockers);
  return reason;
}

inline Blocker BlockerOf(const WorkloadState& workload) {
  return {workload.spec.uid, workload.spec.ns, workload.spec.name};
}

inline std::shared_ptr<const Reason> BehindStrictHead(const WorkloadState& head) {
  return MakeReason(ReasonCode::kPendingEvaluation, {ObjectObstacle(ObstacleKind::kBehindStrictHead, head.spec.uid)},
                    {BlockerOf(head)});
}

}  // namespace muster::engine
