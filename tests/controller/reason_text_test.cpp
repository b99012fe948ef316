#include "muster/controller/reason_text.h"

#include <catch2/catch.hpp>

namespace muster::controller {
namespace {

using engine::Obstacle;
using engine::ObstacleKind;
using engine::Reason;
using engine::ReasonCode;

Obstacle Quota(ObstacleKind kind, const std::string& resource, int64_t requested, int64_t limit_or_missing) {
  Obstacle o;
  o.kind = kind;
  o.pod_set = "main";
  o.flavor = "f";
  o.resource = resource;
  o.requested = Amount{requested};
  (kind == ObstacleKind::kExceedsMaximum ? o.limit : o.missing) = Amount{limit_or_missing};
  return o;
}

Obstacle Named(ObstacleKind kind, const std::string& object) {
  Obstacle o;
  o.kind = kind;
  o.object = object;
  return o;
}

// Golden case insufficient-quota.
TEST_CASE("Missing quota is told for each resource, in the order of the texts") {
  const Reason reason{ReasonCode::kWaitingForQuota,
                      {Quota(ObstacleKind::kInsufficientUnused, "memory", 0, 332LL << 20),
                       Quota(ObstacleKind::kInsufficientUnused, "cpu", 0, 1000)},
                      {}};
  CHECK(ReasonName(reason.code) == "WaitingForQuota");
  CHECK(ReasonMessage(reason) ==
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 1 more needed, "
        "insufficient unused quota for memory in flavor f, 332Mi more needed");
}

// Golden case workload-priorityclass.
TEST_CASE("A request above what can ever be had is told with the most there is") {
  const Reason reason{ReasonCode::kExceedsMaxQuota, {Quota(ObstacleKind::kExceedsMaximum, "cpu", 1000, 500)}, {}};
  CHECK(
      ReasonMessage(reason) ==
      "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor f, previously considered podsets "
      "requests (0) + current podset request (1) > maximum capacity (500m)");
}

// Golden cases queue-missing, clusterqueue-missing, localqueue-hold, flavor-missing, namespace-mismatch.
TEST_CASE("Queues that are missing or stopped are named") {
  const auto text = [](ObstacleKind kind, const std::string& object) {
    return ReasonMessage({ReasonCode::kMisconfigured, {Named(kind, object)}, {}});
  };
  CHECK(text(ObstacleKind::kLocalQueueMissing, "lq") == "LocalQueue lq doesn't exist");
  CHECK(text(ObstacleKind::kClusterQueueMissing, "cq") == "ClusterQueue cq doesn't exist");
  CHECK(text(ObstacleKind::kLocalQueueStopped, "lq") == "LocalQueue lq is inactive");
  CHECK(text(ObstacleKind::kClusterQueueInactive, "cq") == "ClusterQueue cq is inactive");
  CHECK(text(ObstacleKind::kNamespaceMismatch, "cq") == "workload namespace doesn't match ClusterQueue selector");
}

// Oracle category 10.
TEST_CASE("Waiting for one's turn and failing along with an equal are told apart") {
  CHECK(ReasonMessage({}) == "Workload is pending evaluation in the scheduling queue");
  CHECK(ReasonMessage({ReasonCode::kPendingEvaluation, {Named(ObstacleKind::kEquivalentFailed, "")}, {}}) ==
        "Bypassed scheduling evaluation because an equivalent workload recently failed");
}

TEST_CASE("Fresh numbers alone are not another reason") {
  const Reason a{ReasonCode::kWaitingForQuota, {Quota(ObstacleKind::kInsufficientUnused, "cpu", 0, 1)}, {"x"}};
  Reason b = a;
  b.obstacles[0].missing = Amount{5};
  b.blockers = {"y"};
  CHECK(SameKind(a, b));
  b.obstacles[0].resource = "memory";
  CHECK_FALSE(SameKind(a, b));
  b = a;
  b.code = ReasonCode::kExceedsMaxQuota;
  CHECK_FALSE(SameKind(a, b));
  b = a;
  b.obstacles.push_back(b.obstacles[0]);
  CHECK_FALSE(SameKind(a, b));
}

TEST_CASE("Only workloads that reached a queue have been evaluated") {
  CHECK_FALSE(WasEvaluated({}));
  CHECK_FALSE(WasEvaluated({ReasonCode::kSuspended, {Named(ObstacleKind::kLocalQueueStopped, "lq")}, {}}));
  CHECK(WasEvaluated({ReasonCode::kMisconfigured, {Named(ObstacleKind::kNamespaceMismatch, "cq")}, {}}));
}

// Golden case preemption.
TEST_CASE("A preemption names both sides, and what is not known as UNKNOWN") {
  CHECK(EvictedMessage(engine::EvictionReason::kInClusterQueue, {"", "862e", "/preemption-cq", "/preemption-cq"}) ==
        "Preempted to accommodate a workload (UID: UNKNOWN, JobUID: 862e) due to prioritization in the ClusterQueue; "
        "preemptor path: /preemption-cq; preemptee path: /preemption-cq");
  CHECK(EvictedMessage(engine::EvictionReason::kClusterQueueStopped, {}) == "The ClusterQueue is stopped");
  CHECK(EvictedMessage(engine::EvictionReason::kLocalQueueStopped, {}) == "The LocalQueue is stopped");
  CHECK(EvictedMessage(engine::EvictionReason::kDeactivated, {}) == "The workload is deactivated");
}

TEST_CASE("A long text is cut between characters") {
  CHECK(Truncated("short", 10) == "short");
  CHECK(Truncated("0123456789x", 10) == "012345 ...");
  CHECK(Truncated("01234\xC3\xA4"
                  "6789x",
                  10) == "01234 ...");
}

}  // namespace
}  // namespace muster::controller
