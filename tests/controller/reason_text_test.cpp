#include "muster/controller/reason_text.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

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
  CHECK(engine::Name(reason.code) == "WaitingForQuota");
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

TEST_CASE("Waiting for one's turn has the reference's words") {
  CHECK(ReasonMessage({}) == "Workload is pending evaluation in the scheduling queue");
}

TEST_CASE("A value that is out of its range is told with resource, value, limit and whose limit it is") {
  Obstacle o;
  o.kind = ObstacleKind::kRequestsExceedLimits;
  o.field = "containers[0].resources.requests";
  o.resource = "cpu";
  o.requested = Amount{2000};
  o.limit = Amount{1500};
  const auto told = [&o] {
    const Reason reason{ReasonCode::kMisconfigured, {o}, {}};
    return ReasonMessage(reason) + " | " + std::string(engine::Name(engine::WaitCodeOf(reason))) + ": " +
           WaitMessage(reason);
  };
  CHECK(
      told() ==
      "resources validation failed: containers[0].resources.requests[cpu]: 2 is above its limit of 1500m | "
      "RequestsAboveLimits: containers[0].resources.requests[cpu]: 2 is above its limit of 1500m; cleared when the Job "
      "is changed");
  o.kind = ObstacleKind::kLimitRange;
  o.field = "resources";
  o.resource = "memory";
  o.requested = Amount{1 << 20};
  o.limit = Amount{4 << 20};
  o.below = true;
  o.object = "team-limits";
  CHECK(told() ==
        "resources didn't satisfy LimitRange constraints: resources[memory]: 1Mi is below the min of 4Mi of LimitRange "
        "team-limits | OutsideLimitRange: resources[memory]: 1Mi is below the min of 4Mi of LimitRange team-limits; "
        "cleared when the Job or the LimitRange is changed");
  o.kind = ObstacleKind::kRuntimeClassMissing;
  o.object = "gvisor";
  CHECK(
      told() ==
      "RuntimeClass gvisor doesn't exist | RuntimeClassMissing: RuntimeClass gvisor doesn't exist; cleared when it is "
      "created");
}

// user_pains D9
TEST_CASE("What a ResourceQuota does not let in is told in the API server's words, with its name and numbers") {
  Obstacle o;
  o.kind = ObstacleKind::kResourceQuota;
  o.object = "team-quota";
  o.resource = "requests.cpu";
  o.requested = Amount{8000};
  o.used = Amount{500};
  o.limit = Amount{4000};
  const auto told = [&o](ReasonCode code) {
    const Reason reason{code, {o}, {}};
    return ReasonMessage(reason) + " | " + std::string(engine::Name(engine::WaitCodeOf(reason))) + ": " +
           WaitMessage(reason);
  };
  CHECK(told(ReasonCode::kExceedsMaxQuota) ==
        "exceeded quota: team-quota, requested: requests.cpu=8, used: requests.cpu=500m, limited: requests.cpu=4 | "
        "ResourceQuota: all its pods together ask for 8 of requests.cpu: of ResourceQuota team-quota 500m of 4 is "
        "used; cleared when pods of the namespace go, or the ResourceQuota is raised");
  o.assumed = Amount{1000};
  CHECK(
      told(ReasonCode::kWaitingForQuota) ==
      "exceeded quota: team-quota, requested: requests.cpu=8, used: requests.cpu=1500m, limited: requests.cpu=4 | "
      "ResourceQuota: all its pods together ask for 8 of requests.cpu: of ResourceQuota team-quota 500m of 4 is "
      "used, and 1 is for pods that are still to come; cleared when pods of the namespace go, or the ResourceQuota is "
      "raised");
  // Its own request is worth a write, what others use is not.
  Obstacle other = o;
  other.used = Amount{700};
  CHECK(SameKind({ReasonCode::kWaitingForQuota, {o}, {}}, {ReasonCode::kWaitingForQuota, {other}, {}}));
  other.requested = Amount{6000};
  CHECK_FALSE(SameKind({ReasonCode::kWaitingForQuota, {o}, {}}, {ReasonCode::kWaitingForQuota, {other}, {}}));
  o.kind = ObstacleKind::kResourceQuotaUnset;
  o.pod_set = "main";
  CHECK(told(ReasonCode::kMisconfigured) ==
        "failed quota: team-quota: must specify requests.cpu in pod set main | ResourceQuota: ResourceQuota team-quota "
        "lets in only pods whose containers all specify requests.cpu, and one of pod set main does not; cleared when "
        "the Job or the ResourceQuota is changed");
}

TEST_CASE("What is short is told with the numbers of the quota or limit in the way, and what clears it") {
  Obstacle o = Quota(ObstacleKind::kInsufficientUnused, "cpu", 3000, 2000);
  o.object = "cq";
  o.bound_limit = Amount{4000};
  o.used = Amount{3000};
  const auto told = [&o](ReasonCode code) {
    const Reason reason{code, {o}, {}};
    return std::string(engine::Name(engine::WaitCodeOf(reason))) + ": " + WaitMessage(reason);
  };
  CHECK(told(ReasonCode::kWaitingForQuota) ==
        "QuotaInUse: pod set main asks for 3 of cpu in flavor f, 2 more than is free: ClusterQueue cq uses 3 of 4; "
        "cleared when 2 is released there, or the quota is raised");
  o.bound = quota::Bound::kBorrowingLimit;
  o.bound_limit = Amount{1000};
  o.used = Amount{500};
  CHECK(told(ReasonCode::kWaitingForQuota) ==
        "BorrowingLimit: pod set main asks for 3 of cpu in flavor f, 2 more than is free: ClusterQueue cq has borrowed "
        "500m of the 1 that its borrowingLimit allows; cleared when 2 is released there, or the limit is raised");
  o.bound = quota::Bound::kLendingLimit;
  o.object = "all";
  o.of_cohort = true;
  CHECK(told(ReasonCode::kWaitingForQuota) ==
        "LendingLimit: pod set main asks for 3 of cpu in flavor f, 2 more than is free: lending limits in Cohort all "
        "keep back 1 that is unused; cleared when 2 of what is lent is released, or a limit is raised");
  o.kind = ObstacleKind::kExceedsMaximum;
  o.limit = Amount{2000};
  o.bound = quota::Bound::kQuota;
  o.bound_limit = Amount{2000};
  CHECK(told(ReasonCode::kExceedsMaxQuota) ==
        "NeverFits: pod set main asks for 3 of cpu in flavor f, and can have 2 at most: the quota of Cohort all is 2; "
        "cleared when that is raised, or the Job asks for less");
}

TEST_CASE("Room on machines is told with how many have a place, and the largest free block") {
  Obstacle o;
  o.kind = ObstacleKind::kNoRoom;
  o.pod_set = "main";
  o.flavor = "h100";
  o.machines = gang::RoomProblem{3, 8, "nvidia.com/gpu", Amount{8}, Amount{6}, "n17", true};
  const auto text = [&o] { return WaitMessage({ReasonCode::kTopologyPlacementFailed, {o}, {}}); };
  CHECK(
      text() ==
      "3 of 8 pods have a place: the largest free block of nvidia.com/gpu on flavor h100 is 6, on node n17; 8 needed; "
      "cleared when machines become free");
  CHECK(ReasonMessage({ReasonCode::kTopologyPlacementFailed, {o}, {}}) ==
        "couldn't assign flavors to pod set main: 3 of 8 pods have a place: the largest free block of nvidia.com/gpu "
        "on flavor h100 is 6, on node n17; 8 needed");
  o.machines->resource = "memory";
  o.machines->needed = Amount{2LL << 30};
  o.machines->largest = Amount{512LL << 20};
  o.machines->proven = false;
  CHECK(text() ==
        "3 of 8 pods have a place: the largest free block of memory on flavor h100 is 512Mi, on node n17; 2Gi needed "
        "(the search ended before this was proven); cleared when machines become free");
  o.machines = gang::RoomProblem{0, 8, "memory", Amount{1}, Amount{1}, "n17", true};
  CHECK(text() ==
        "0 of 8 pods have a place: no node of flavor h100 has all that one more asks for, most of them lack memory; "
        "cleared when machines become free");
  o.machines = gang::RoomProblem{0, 8, "", {}, {}, "", true};
  using gang::RoomLack;
  for (const auto& [lack, why] : std::vector<std::pair<RoomLack, std::string>>{
           {RoomLack::kNode, "there is no node of flavor h100"},
           {RoomLack::kNodeSelector, "no node of flavor h100 has the labels that they select"},
           {RoomLack::kNodeAffinity, "no node of flavor h100 meets their required node affinity"},
           {RoomLack::kToleration,
            "each node of flavor h100 that they could be on has a taint that they do not tolerate"},
           {RoomLack::kOpenNode, "each node of flavor h100 that they could be on is cordoned or not ready"},
           {RoomLack::kDomain, "no node of flavor h100 takes such pods"}}) {
    o.machines->lack = lack;
    CHECK(text() == "0 of 8 pods have a place: " + why + "; cleared when machines become free");
  }
}

TEST_CASE("Room on machines that is kept for others, and nodes that are reserved, are told") {
  Obstacle o;
  o.kind = ObstacleKind::kNoRoom;
  o.pod_set = "main";
  o.flavor = "h100";
  o.machines = gang::RoomProblem{3, 8, "nvidia.com/gpu", Amount{8}, Amount{6}, "n17", true};
  const Reason reason{ReasonCode::kTopologyPlacementFailed, {o}, {}};
  const std::string room =
      "3 of 8 pods have a place: the largest free block of nvidia.com/gpu on flavor h100 is 6, on node n17; 8 needed";
  const std::string cleared = "; cleared when machines become free";
  Reason holder = reason;
  holder.obstacles[0].count = 5;
  CHECK(WaitMessage(holder) == room + "; 5 node(s) are reserved for it" + cleared);
  CHECK_FALSE(SameKind(reason, holder));
  holder.obstacles[0].until = WallTime{60'000'000'000};
  CHECK(WaitMessage(holder) ==
        room + "; 5 node(s) are reserved for it, and free at the latest at 1970-01-01T00:01:00Z" + cleared);
  Reason other = reason;
  other.obstacles[0].machines->kept = true;
  CHECK(WaitMessage(other) ==
        room + "; as much is free, and kept for others; cleared when they have started, and something is released");
  CHECK_FALSE(SameKind(reason, other));
}

TEST_CASE("Of more pods of an elastic Job it is told what binds them to those that run") {
  Obstacle other = Quota(ObstacleKind::kOriginalFlavor, "cpu", 0, 0);
  other.object = "g";
  const Reason flavor{ReasonCode::kNoMatchingFlavor, {other}, {}};
  CHECK(
      ReasonMessage(flavor) ==
      "couldn't assign flavors to pod set main: could not assign f flavor since the original workload is assigned: g");
  CHECK(WaitMessage(flavor) ==
        "could not assign f flavor since the original workload is assigned: g; cleared when its ClusterQueue has that "
        "flavor again, or the Job its former size");
  const Reason queue{ReasonCode::kNoMatchingFlavor, {Named(ObstacleKind::kOriginalQueue, "cq")}, {}};
  CHECK(engine::Name(engine::WaitCodeOf(queue)) == "OriginalClusterQueue");
  CHECK(
      WaitMessage(queue) ==
      "the original workload is admitted by ClusterQueue cq, and its LocalQueue leads elsewhere; cleared when it leads "
      "there again, or the Job has its former size");
}

TEST_CASE("A blocker is named where its name is known, else by its UID") {
  Reason reason{ReasonCode::kPendingEvaluation, {Named(ObstacleKind::kBehindStrictHead, "u")}, {{"u", "team", "big"}}};
  CHECK(WaitMessage(reason) ==
        "it stands behind the head of its StrictFIFO queue, which was Job big; cleared when that starts or goes");
  reason.blockers = {{"u", "", ""}};
  CHECK(WaitMessage(reason) ==
        "it stands behind the head of its StrictFIFO queue, which was a Job of another namespace (UID u); cleared when "
        "that starts or goes");
}

TEST_CASE("An inactive queue tells a waiting workload why it is") {
  Obstacle o = Named(ObstacleKind::kClusterQueueInactive, "cq");
  o.inactive = engine::InactiveReason::kCohortMisconfigured;
  o.names = {"Cohort all: spec.x: bad"};
  const Reason reason{ReasonCode::kSuspended, {o}, {}};
  CHECK(ReasonMessage(reason) == "ClusterQueue cq is inactive");  // the reference's
  CHECK(WaitMessage(reason) ==
        "ClusterQueue cq depends on what cannot be read: Cohort all: spec.x: bad; cleared when that is mended");
}

TEST_CASE("One that was moved is told for whom it gives way, as far as it may know") {
  Reason reason{ReasonCode::kWaitingForPodsReady, {Named(ObstacleKind::kGivesWay, "")}, {{"u", "team", "big"}}};
  CHECK(ReasonMessage(reason) == "waiting for the pods of the workload that this one was moved for to be on nodes");
  CHECK(engine::Name(engine::WaitCodeOf(reason)) == "PodsNotReady");
  CHECK(WaitMessage(reason) ==
        "it was moved for Job big, whose pods go to their nodes first; cleared when they are, or have had their time");
  reason.blockers = {{"u", "", ""}};
  CHECK(
      WaitMessage(reason) ==
      "it was moved for a Job of another namespace (UID u), whose pods go to their nodes first; cleared when they are, "
      "or have had their time");
}

// What no scenario reaches has a text all the same, and every code another name.
TEST_CASE("Every code has a name of its own") {
  std::set<std::string_view> names;
  for (size_t i = 0; i < engine::kWaitCodes; ++i) names.insert(engine::Name(static_cast<engine::WaitCode>(i)));
  CHECK(names.size() == engine::kWaitCodes);
}

TEST_CASE("Fresh numbers alone are not another reason") {
  const Reason a{
      ReasonCode::kWaitingForQuota, {Quota(ObstacleKind::kInsufficientUnused, "cpu", 0, 1)}, {{"x", "", ""}}};
  Reason b = a;
  b.obstacles[0].missing = Amount{5};
  b.blockers = {{"y", "", ""}};
  CHECK(SameKind(a, b));
  b.obstacles[0].resource = "memory";
  CHECK_FALSE(SameKind(a, b));
  b = a;
  b.obstacles[0].bound = quota::Bound::kBorrowingLimit;
  CHECK_FALSE(SameKind(a, b));
  b = a;
  b.code = ReasonCode::kExceedsMaxQuota;
  CHECK_FALSE(SameKind(a, b));
  b = a;
  b.obstacles.push_back(b.obstacles[0]);
  CHECK_FALSE(SameKind(a, b));
}

TEST_CASE("A gang that was resized is told anew how many of its pods have a place") {
  Reason a{ReasonCode::kTopologyPlacementFailed, {Obstacle{}}, {}};
  a.obstacles[0].kind = ObstacleKind::kNoRoom;
  a.obstacles[0].machines = gang::RoomProblem{4, 8, "cpu", Amount{1}, Amount{0}, "n1", true};
  Reason b = a;
  b.obstacles[0].machines->placed = 3;
  CHECK(SameKind(a, b));
  b.obstacles[0].machines->wanted = 5;
  CHECK_FALSE(SameKind(a, b));
}

TEST_CASE("Only workloads that reached a queue have been evaluated") {
  CHECK_FALSE(WasEvaluated({}));
  CHECK_FALSE(WasEvaluated({ReasonCode::kSuspended, {Named(ObstacleKind::kLocalQueueStopped, "lq")}, {}}));
  CHECK(WasEvaluated({ReasonCode::kMisconfigured, {Named(ObstacleKind::kNamespaceMismatch, "cq")}, {}}));
}

std::string Cut(const std::string& text, const std::string& before) { return text.substr(0, text.find(before)); }

// Golden case preemption.
TEST_CASE("A preemption names both sides, and what is not known as UNKNOWN") {
  CHECK(EvictedMessage(engine::EvictionReason::kInClusterQueue, {"", "862e", "/preemption-cq", "/preemption-cq"}) ==
        "Preempted to accommodate a workload (UID: UNKNOWN, JobUID: 862e) due to prioritization in the ClusterQueue; "
        "preemptor path: /preemption-cq; preemptee path: /preemption-cq");
  CHECK(EvictedMessage(engine::EvictionReason::kDefragmentation, {"", "862e", "/cq", "/cq"}) ==
        "Preempted to accommodate a workload (UID: UNKNOWN, JobUID: 862e) due to defragmentation, since its pods have "
        "other places; preemptor path: /cq; preemptee path: /cq");
  CHECK(DecidedReason("Preempted", "Defragmentation") == engine::EvictionReason::kDefragmentation);
  CHECK(EvictedMessage(engine::EvictionReason::kClusterQueueStopped, {}) == "The ClusterQueue is stopped");
  CHECK(EvictedMessage(engine::EvictionReason::kLocalQueueStopped, {}) == "The LocalQueue is stopped");
  CHECK(EvictedMessage(engine::EvictionReason::kDeactivated, {}) == "The workload is deactivated");
  EvictionFacts facts;
  facts.without_place = 2;
  CHECK(EvictedMessage(engine::EvictionReason::kNodeFailures, facts) ==
        "No node had a place for 2 of its pods for too long");
}

TEST_CASE("Of a message about preemption the preemptor can be read again") {
  const auto message = [](const std::string& workload, const std::string& job) {
    return EvictedMessage(engine::EvictionReason::kInCohortReclamation, {workload, job, "/all/a", "/all/b"});
  };
  CHECK(PreemptorIn(message("w-1", "j-1")) == "j-1");
  CHECK(PreemptorIn(message("", "j-1")) == "j-1");
  CHECK(PreemptorIn(message("w-1", "")) == "w-1");  // no Job stands behind it
  CHECK(PreemptorIn(message("", "")).empty());
  CHECK(PreemptorIn(Cut(message("w-1", "j-1"), ") due to ")).empty());
  CHECK(PreemptorIn(Cut(message("w-1", "j-1"), ", JobUID: ")).empty());
  CHECK(PreemptorIn("Job is " + message("w-1", "j-1")).empty());
  CHECK(PreemptorIn("The ClusterQueue is stopped").empty());
  CHECK(PreemptorIn("").empty());
}

TEST_CASE("The reason of an eviction is found again in what the objects show of it") {
  using engine::EvictionReason;
  for (const EvictionReason reason :
       {EvictionReason::kInClusterQueue, EvictionReason::kInCohortReclamation, EvictionReason::kInCohortFairSharing,
        EvictionReason::kInCohortReclaimWhileBorrowing, EvictionReason::kClusterQueueStopped,
        EvictionReason::kLocalQueueStopped, EvictionReason::kDeactivated}) {
    CHECK(DecidedReason(EvictedReason(reason), PreemptedReason(reason)) == reason);
  }
  // No engine's: a gang that was edited, one that ran too long, and what nobody ever decided.
  CHECK_FALSE(DecidedReason("NoMatchingWorkload", "").has_value());
  CHECK_FALSE(DecidedReason("DeactivatedDueToMaximumExecutionTimeExceeded", "").has_value());
  CHECK_FALSE(DecidedReason("Preempted", "").has_value());
  CHECK_FALSE(DecidedReason("ClusterQueueStopped", "InClusterQueue").has_value());
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
