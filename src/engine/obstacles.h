// Reasons and obstacles with the fields that each kind has (reason.h says which).
//
// Threading: values.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/engine/reason.h"
#include "muster/queue/waiting_queue.h"

namespace muster::engine {

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
                                                std::vector<std::string> blockers = {}) {
  auto reason = std::make_shared<Reason>();
  reason->code = code;
  reason->obstacles = std::move(obstacles);
  reason->blockers = std::move(blockers);
  return reason;
}

inline std::shared_ptr<const Reason> BehindStrictHead(const queue::Ticket& head) {
  const std::string uid(head.uid);
  return MakeReason(ReasonCode::kPendingEvaluation, {ObjectObstacle(ObstacleKind::kBehindStrictHead, uid)}, {uid});
}

}  // namespace muster::engine
