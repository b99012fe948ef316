#include "muster/controller/reason_text.h"

#include <algorithm>
#include <vector>

#include "muster/controller/names.h"
#include "muster/core/check.h"
#include "muster/core/quantity.h"
#include "text.h"

namespace muster::controller {
namespace {

using engine::InactiveReason;
using engine::Obstacle;
using engine::ObstacleKind;
using engine::Reason;
using engine::ReasonCode;
using engine::WaitCode;

std::string Quantity(const Obstacle& o, Amount amount) { return FormatAmount(o.resource, amount); }

std::string Joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += Cat(out.empty() ? "" : ", ", name);
  return out;
}

// A value that is above or below what it may be, and whose limit that is.
std::string FieldText(const Obstacle& o) {
  const std::string what = Cat(o.field, "[", o.resource, "]: ", Quantity(o, o.requested));
  if (o.kind == ObstacleKind::kRequestsExceedLimits) {
    return Cat(what, " is above its limit of ", Quantity(o, o.limit));
  }
  return Cat(what, o.below ? " is below the min of " : " is above the max of ", Quantity(o, o.limit), " of LimitRange ",
             o.object);
}

// Why the topology of a flavor has no place.
std::string PlacementText(const gang::PlacementProblem& p) {
  using Kind = gang::PlacementProblem::Kind;
  switch (p.kind) {
    case Kind::kNoLevel:
      return Cat("no requested topology level: ", p.level);
    case Kind::kNoDomains:
      return Cat("no topology domains at level: ", p.level);
    case Kind::kSlicesAbove:
      return Cat("slice topology ", p.level, " is above the level that it must be within");
    case Kind::kSliceSize:
      return Cat("slice size ", std::to_string(p.size), " at level ", p.level,
                 " is not positive or does not divide the size around it");
    case Kind::kNoTopology:
      return "no flavor with a topology has the pods' resources";
    case Kind::kSeveral:
      return "the pods' resources come from several flavors with a topology";
    case Kind::kNoFit:
      break;
  }
  std::string out = Cat("topology \"", p.topology, "\"");
  if (!p.layers.empty()) {
    out += " doesn't allow to fit";
    for (size_t i = 0; i < p.layers.size(); ++i) {
      out += Cat("; ", std::to_string(p.layers[i].first), "/", std::to_string(p.layers[i].second),
                 " slice(s) fit on level ", p.layer_levels[i]);
    }
  } else {
    out += p.fit == 0 ? std::string(" doesn't allow to fit any of ")
                      : Cat(" allows to fit only ", std::to_string(p.fit), " out of ");
    out += Cat(std::to_string(p.wanted), p.slices ? " slice(s)" : " pod(s)");
  }
  std::vector<std::string> excluded;
  const auto add = [&](const std::string& what, int64_t count) {
    if (count > 0) excluded.push_back(Cat(what, ": ", std::to_string(count)));
  };
  add("nodeSelector", p.exclusions.node_selector);
  add("affinity", p.exclusions.affinity);
  for (const auto& [taint, count] : p.exclusions.taints) add(Cat("taint \"", taint, "\""), count);
  for (const auto& [resource, count] : p.exclusions.resources) add(Cat("resource \"", resource, "\""), count);
  if (excluded.empty()) return out;
  std::sort(excluded.begin(), excluded.end());
  return Cat(out, ". Total nodes: ", std::to_string(p.exclusions.domains), "; excluded: ", Joined(excluded));
}

// What the workload itself asks for is no number of the cluster's: it changes with the workload alone.
bool AsksTheSame(const Obstacle& a, const Obstacle& b) {
  if (a.kind == ObstacleKind::kResourceQuota && a.requested != b.requested) return false;
  if (!a.machines.has_value() || !b.machines.has_value()) return a.machines.has_value() == b.machines.has_value();
  return a.machines->wanted == b.machines->wanted && a.machines->kept == b.machines->kept &&
         (a.count > 0) == (b.count > 0);
}

// `where`: " of flavor a", or nothing.
std::string NoNodeText(gang::RoomLack lack, const std::string& where) {
  switch (lack) {
    case gang::RoomLack::kNode:
      return Cat("there is no node", where);
    case gang::RoomLack::kNodeSelector:
      return Cat("no node", where, " has the labels that they select");
    case gang::RoomLack::kNodeAffinity:
      return Cat("no node", where, " meets their required node affinity");
    case gang::RoomLack::kToleration:
      return Cat("each node", where, " that they could be on has a taint that they do not tolerate");
    case gang::RoomLack::kOpenNode:
      return Cat("each node", where, " that they could be on is cordoned or not ready");
    case gang::RoomLack::kDomain:
    case gang::RoomLack::kResource:
      return Cat("no node", where, " takes such pods");
  }
  return "";
}

// Why the machines of a flavor have no place. An obstacle of this kind has the numbers.
std::string RoomText(const Obstacle& o) {
  const gang::RoomProblem& p = *o.machines;
  const std::string where = o.flavor.empty() ? std::string() : Cat(" of flavor ", o.flavor);
  const auto amount = [&p](Amount of) { return FormatAmount(p.resource, of); };
  std::string out = Cat(std::to_string(p.placed), " of ", std::to_string(p.wanted), " pods have a place: ");
  if (p.resource.empty()) {
    out += NoNodeText(p.lack, where);
  } else if (p.largest >= p.needed) {
    out += Cat("no node", where, " has all that one more asks for, most of them lack ", p.resource);
  } else {
    out += Cat("the largest free block of ", p.resource, o.flavor.empty() ? "" : Cat(" on flavor ", o.flavor), " is ",
               amount(p.largest), ", on node ", p.node, "; ", amount(p.needed), " needed");
  }
  if (!p.proven) out += " (the search ended before this was proven)";
  if (p.kept) out += "; as much is free, and kept for others";
  if (o.count > 0) {
    out += Cat("; ", o.count, " node(s) are reserved for it",
               o.until.IsSet() ? Cat(", and free at the latest at ", FormatTime(o.until)) : std::string());
  }
  return out;
}

// An obstacle in the way of one pod set, to be listed behind "couldn't assign flavors to pod set".
std::string PodSetText(const Obstacle& o) {
  switch (o.kind) {
    case ObstacleKind::kResourceNotCovered:
      return Cat("resource ", o.resource, " unavailable in ClusterQueue");
    case ObstacleKind::kFlavorNotFound:
      return Cat("flavor ", o.flavor, " not found");
    case ObstacleKind::kUntoleratedTaint:
      return Cat("untolerated taint ", o.object, " in flavor ", o.flavor);
    case ObstacleKind::kNodeSelectorMismatch:
    case ObstacleKind::kNodeAffinityMismatch:
      return Cat("flavor ", o.flavor, " doesn't match node affinity");
    case ObstacleKind::kExceedsMaximum:
      return Cat("insufficient quota for ", o.resource, " in flavor ", o.flavor,
                 ", previously considered podsets requests (", Quantity(o, o.assumed), ") + current podset request (",
                 Quantity(o, o.requested), ") > maximum capacity (", Quantity(o, o.limit), ")");
    case ObstacleKind::kInsufficientUnused:
      return Cat("insufficient unused quota for ", o.resource, " in flavor ", o.flavor, ", ", Quantity(o, o.missing),
                 " more needed");
    case ObstacleKind::kNoRoom:
      return RoomText(o);
    case ObstacleKind::kFlavorOnlyTopology:
      return Cat("Flavor \"", o.flavor, "\" supports only TopologyAwareScheduling");
    case ObstacleKind::kFlavorWithoutTopology:
      return Cat("Flavor \"", o.flavor, "\" does not support TopologyAwareScheduling");
    case ObstacleKind::kTopologyLevelMissing:
      return Cat("Flavor \"", o.flavor, "\" does not contain the requested level");
    case ObstacleKind::kNoPlacement:
      return PlacementText(*o.placement);
    case ObstacleKind::kOriginalFlavor:
      return Cat("could not assign ", o.flavor, " flavor since the original workload is assigned: ", o.object);
    case ObstacleKind::kFlavorTimedOut:
      return Cat("flavor ", o.flavor, " is passed over since its pods were not ready in time there (",
                 o.count == 1 ? "once" : Cat(o.count, " times"), ")");
    case ObstacleKind::kAdmissionGated:
    case ObstacleKind::kLocalQueueMissing:
    case ObstacleKind::kLocalQueueStopped:
    case ObstacleKind::kLocalQueueMisconfigured:
    case ObstacleKind::kClusterQueueMissing:
    case ObstacleKind::kClusterQueueInactive:
    case ObstacleKind::kNamespaceMismatch:
    case ObstacleKind::kPreemptionGated:
    case ObstacleKind::kPendingPreemption:
    case ObstacleKind::kDeferredFit:
    case ObstacleKind::kOverlappingTargets:
    case ObstacleKind::kVictimSearchEnded:
    case ObstacleKind::kLostToAnother:
    case ObstacleKind::kBehindStrictHead:
    case ObstacleKind::kStartRefused:
    case ObstacleKind::kBackingOff:
    case ObstacleKind::kRequestsExceedLimits:
    case ObstacleKind::kLimitRange:
    case ObstacleKind::kRuntimeClassMissing:
    case ObstacleKind::kOriginalQueue:
    case ObstacleKind::kPodsNotReady:
    case ObstacleKind::kGivesWay:
    case ObstacleKind::kResourceQuota:
    case ObstacleKind::kResourceQuotaUnset:
    case ObstacleKind::kChecksPending:
      return "";
  }
  CheckFailed(__FILE__, __LINE__, "known obstacle kind");
}

// An amount of a ResourceQuota's limit.
std::string LimitText(const Obstacle& o, Amount amount) {
  return FormatAmount(gang::ResourceOfLimit(o.resource), amount);
}

// In the words that the API server has for it.
std::string ExceededQuota(const Obstacle& o) {
  if (o.kind == ObstacleKind::kResourceQuotaUnset) {
    return Cat("failed quota: ", o.object, ": must specify ", o.resource, " in pod set ", o.pod_set);
  }
  const auto amount = [&o](Amount of) { return Cat(o.resource, "=", LimitText(o, of)); };
  return Cat("exceeded quota: ", o.object, ", requested: ", amount(o.requested), ", used: ", amount(o.used + o.assumed),
             ", limited: ", amount(o.limit));
}

// An obstacle in the way of the whole workload: a message of its own.
std::string WholeText(const Obstacle& o) {
  switch (o.kind) {
    case ObstacleKind::kAdmissionGated:
      return Cat("Admission is gated by: ", o.object);
    case ObstacleKind::kLocalQueueMissing:
      return o.object.empty() ? "No LocalQueue is named" : Cat("LocalQueue ", o.object, " doesn't exist");
    case ObstacleKind::kLocalQueueStopped:
      return Cat("LocalQueue ", o.object, " is inactive");
    case ObstacleKind::kLocalQueueMisconfigured:
      return Cat("LocalQueue ", o.object, " cannot be read: ", Joined(o.names));
    case ObstacleKind::kClusterQueueMissing:
      return Cat("ClusterQueue ", o.object, " doesn't exist");
    case ObstacleKind::kClusterQueueInactive:
      return Cat("ClusterQueue ", o.object, " is inactive");
    case ObstacleKind::kNamespaceMismatch:
      return "workload namespace doesn't match ClusterQueue selector";
    case ObstacleKind::kPreemptionGated:
      return std::string(kPreemptionGatedMessage);
    case ObstacleKind::kDeferredFit:
      return "Workload has overlapping preemption targets with another workload, but will fit after these preemptions "
             "complete";
    case ObstacleKind::kOverlappingTargets:
      return "Workload has overlapping preemption targets with another workload";
    case ObstacleKind::kLostToAnother:
      return "Workload no longer fits after processing another workload";
    case ObstacleKind::kBehindStrictHead:
      return "Workload is pending evaluation in the scheduling queue";
    case ObstacleKind::kStartRefused:
      return Cat("The start was refused and will be tried again: ", o.object);
    case ObstacleKind::kBackingOff:
      return "Workload is backing off before the next attempt";
    case ObstacleKind::kRequestsExceedLimits:
      return Cat("resources validation failed: ", FieldText(o));
    case ObstacleKind::kLimitRange:
      return Cat("resources didn't satisfy LimitRange constraints: ", FieldText(o));
    case ObstacleKind::kRuntimeClassMissing:
      return Cat("RuntimeClass ", o.object, " doesn't exist");
    case ObstacleKind::kOriginalQueue:
      return Cat("the original workload is admitted by ClusterQueue ", o.object,
                 ", and its LocalQueue leads elsewhere");
    case ObstacleKind::kPodsNotReady:
      return "waiting for all admitted workloads to be in PodsReady condition";
    case ObstacleKind::kGivesWay:
      return "waiting for the pods of the workload that this one was moved for to be on nodes";
    case ObstacleKind::kChecksPending:
      return Cat("quota is reserved in ClusterQueue ", o.object, ", and ",
                 o.names.size() == 1 ? "this check is" : "these checks are", " not ready: ", Joined(o.names));
    case ObstacleKind::kResourceQuota:
    case ObstacleKind::kResourceQuotaUnset:
      return ExceededQuota(o);
    case ObstacleKind::kResourceNotCovered:
    case ObstacleKind::kFlavorNotFound:
    case ObstacleKind::kUntoleratedTaint:
    case ObstacleKind::kNodeSelectorMismatch:
    case ObstacleKind::kNodeAffinityMismatch:
    case ObstacleKind::kExceedsMaximum:
    case ObstacleKind::kInsufficientUnused:
    case ObstacleKind::kNoRoom:
    case ObstacleKind::kOriginalFlavor:
    case ObstacleKind::kFlavorTimedOut:
    case ObstacleKind::kPendingPreemption:
    case ObstacleKind::kVictimSearchEnded:
    case ObstacleKind::kFlavorOnlyTopology:
    case ObstacleKind::kFlavorWithoutTopology:
    case ObstacleKind::kTopologyLevelMissing:
    case ObstacleKind::kNoPlacement:
      return "";
  }
  CheckFailed(__FILE__, __LINE__, "known obstacle kind");
}

// What is added to the messages of pod sets.
std::string PreemptionSuffix(const std::vector<Obstacle>& obstacles) {
  for (const Obstacle& o : obstacles) {
    if (o.kind == ObstacleKind::kPendingPreemption) return Cat("Pending the preemption of ", o.count, " workload(s)");
    if (o.kind == ObstacleKind::kVictimSearchEnded) {
      return Cat("The search for workloads to preempt ended after ", o.count,
                 " steps: that there are none is not proven");
    }
  }
  return "";
}

std::string PodSetMessages(const std::vector<Obstacle>& obstacles) {
  std::vector<std::string> order;
  for (const Obstacle& o : obstacles) {
    if (!PodSetText(o).empty() && std::find(order.begin(), order.end(), o.pod_set) == order.end()) {
      order.push_back(o.pod_set);
    }
  }
  std::string out;
  for (const std::string& pod_set : order) {
    std::vector<std::string> texts;
    for (const Obstacle& o : obstacles) {
      if (o.pod_set == pod_set) texts.push_back(PodSetText(o));
    }
    std::sort(texts.begin(), texts.end());
    out += Cat(out.empty() ? "" : "; ", "couldn't assign flavors to pod set ", pod_set, ": ");
    bool first = true;
    for (const std::string& text : texts) {
      if (text.empty()) continue;
      out += Cat(first ? "" : ", ", text);
      first = false;
    }
  }
  return out;
}

// ---- what it waits for, and what clears it --------------------------------------------------------

std::string Where(const Obstacle& o) { return Cat(o.of_cohort ? "Cohort " : "ClusterQueue ", o.object); }

std::string Asks(const Obstacle& o) {
  return Cat("pod set ", o.pod_set, " asks for ", Quantity(o, o.assumed + o.requested), " of ", o.resource,
             " in flavor ", o.flavor);
}

// Too little is free.
std::string ShortageText(const Obstacle& o) {
  const std::string asks = Cat(Asks(o), ", ", Quantity(o, o.missing), " more than is free: ");
  switch (o.bound) {
    case quota::Bound::kQuota:
      return Cat(asks, Where(o), " uses ", Quantity(o, o.used), " of ", Quantity(o, o.bound_limit));
    case quota::Bound::kBorrowingLimit:
      return Cat(asks, Where(o), " has borrowed ", Quantity(o, o.used), " of the ", Quantity(o, o.bound_limit),
                 " that its borrowingLimit allows");
    case quota::Bound::kLendingLimit:
      return Cat(asks, "lending limits in ", Where(o), " keep back ", Quantity(o, o.bound_limit), " that is unused");
  }
  CheckFailed(__FILE__, __LINE__, "known bound");
}

// There never is enough.
std::string MaximumText(const Obstacle& o) {
  const std::string asks = Cat(Asks(o), ", and can have ", Quantity(o, o.limit), " at most: ");
  const std::string limit = Quantity(o, o.bound_limit);
  switch (o.bound) {
    case quota::Bound::kQuota:
      return Cat(asks, "the quota of ", Where(o), " is ", limit);
    case quota::Bound::kBorrowingLimit:
      return Cat(asks, "the borrowingLimit of ", Where(o), " is ", limit);
    case quota::Bound::kLendingLimit:
      return Cat(asks, "lending limits in ", Where(o), " keep back ", limit);
  }
  CheckFailed(__FILE__, __LINE__, "known bound");
}

std::string InactiveText(const Obstacle& o) {
  const std::string queue = Cat("ClusterQueue ", o.object);
  const std::string names = Joined(o.names);
  switch (o.inactive) {
    case InactiveReason::kTerminating:
      return Cat(queue, " is being deleted");
    case InactiveReason::kStopped:
      return Cat(queue, " is stopped");
    case InactiveReason::kMisconfigured:
      return Cat(queue, " cannot be read: ", names);
    case InactiveReason::kFlavorNotFound:
      return Cat(queue, " refers to missing ResourceFlavor(s): ", names);
    case InactiveReason::kFlavorMisconfigured:
    case InactiveReason::kCohortMisconfigured:
      return Cat(queue, " depends on what cannot be read: ", names);
    case InactiveReason::kCohortCycle:
      return Cat("the cohorts of ", queue, " form a cycle: ", names);
    case InactiveReason::kAdmissionCheckNotFound:
      return Cat(queue, " refers to missing AdmissionCheck(s): ", names);
    case InactiveReason::kAdmissionCheckInactive:
      return Cat(queue, " refers to AdmissionCheck(s) that are not active: ", names);
    case InactiveReason::kMultipleMultiKueueChecks:
      return Cat(queue, " refers to more than one MultiKueue AdmissionCheck: ", names);
    case InactiveReason::kMultiKueueCheckPerFlavor:
      return Cat(queue, " has a MultiKueue AdmissionCheck for some flavors only: ", names);
    case InactiveReason::kMultiKueueWithProvisioningRequest:
      return Cat(queue, " has ProvisioningRequest AdmissionCheck(s) beside MultiKueue: ", names);
    case InactiveReason::kTopologyNotFound:
      return Cat(queue, " has a flavor without its Topology: there is no ", names);
  }
  CheckFailed(__FILE__, __LINE__, "known inactive reason");
}

std::string BlockersText(const std::vector<engine::Blocker>& blockers) {
  std::vector<std::string> names;
  for (const engine::Blocker& b : blockers) {
    names.push_back(b.name.empty() ? Cat("a Job of another namespace (UID ", b.uid, ")") : Cat("Job ", b.name));
  }
  return names.empty() ? std::string("another Job") : Joined(names);
}

std::string VictimsText(const Reason& reason, const Obstacle& o) {
  return Cat("it waits for ", o.count, " workload(s) that were preempted to leave, ", BlockersText(reason.blockers),
             " among them; ",
             o.until.IsSet() ? Cat("the room is kept for it until ", FormatTime(o.until))
                             : std::string("the room is not kept for it any more"));
}

std::string ResourceQuotaText(const Obstacle& o) {
  if (o.kind == ObstacleKind::kResourceQuotaUnset) {
    return Cat("ResourceQuota ", o.object, " lets in only pods whose containers all specify ", o.resource,
               ", and one of pod set ", o.pod_set, " does not");
  }
  const std::string to_come =
      o.assumed > Amount{} ? Cat(", and ", LimitText(o, o.assumed), " is for pods that are still to come") : "";
  return Cat("all its pods together ask for ", LimitText(o, o.requested), " of ", o.resource, ": of ResourceQuota ",
             o.object, " ", LimitText(o, o.used), " of ", LimitText(o, o.limit), " is used", to_come);
}

// Why the pods do not suit the flavor.
std::string MismatchText(const Obstacle& o) {
  if (o.kind == ObstacleKind::kUntoleratedTaint) {
    return Cat("pod set ", o.pod_set, " does not tolerate the taint ", o.object, " of flavor ", o.flavor);
  }
  if (o.kind == ObstacleKind::kNodeSelectorMismatch) {
    return Cat("the node selector of pod set ", o.pod_set, " wants ", o.object, ", and flavor ", o.flavor,
               " has another value");
  }
  return Cat("the required node affinity of pod set ", o.pod_set, " excludes flavor ", o.flavor);
}

std::string KeptText(const Obstacle& o) {
  if (o.machines.has_value()) return PodSetText(o);
  return Cat(Asks(o), ", and ", Quantity(o, o.missing),
             " of what is free is kept for workloads that wait for those they preempted");
}

// `o`: the decisive obstacle.
std::string WaitText(const Reason& reason, const Obstacle& o) {
  switch (engine::WaitCodeOf(reason)) {
    case WaitCode::kPendingEvaluation:
      return "it has not been looked at yet";
    case WaitCode::kQuotaInUse:
    case WaitCode::kBorrowingLimit:
    case WaitCode::kLendingLimit:
      return ShortageText(o);
    case WaitCode::kNeverFits:
      return MaximumText(o);
    case WaitCode::kResourceNotCovered:
      return Cat("no resource group of ClusterQueue ", o.object, " covers ", o.resource);
    case WaitCode::kFlavorMissing:
      return o.kind == ObstacleKind::kClusterQueueInactive ? InactiveText(o) : PodSetText(o);
    case WaitCode::kUntoleratedTaint:
    case WaitCode::kNodeSelectorMismatch:
    case WaitCode::kNodeAffinityMismatch:
      return MismatchText(o);
    case WaitCode::kNoRoom:
    case WaitCode::kFlavorOnlyTopology:
    case WaitCode::kFlavorWithoutTopology:
    case WaitCode::kTopologyLevelMissing:
    case WaitCode::kOriginalFlavor:
      return PodSetText(o);
    case WaitCode::kPendingPreemption:
      return VictimsText(reason, o);
    case WaitCode::kPreemptionGated:
      return Cat("others would have to leave for it, and it may not preempt while these gates are closed: ",
                 Joined(o.names));
    case WaitCode::kRoomKept:
      return KeptText(o);
    case WaitCode::kNoPlacement:
      return o.flavor.empty() ? PodSetText(o) : Cat("flavor ", o.flavor, ": ", PodSetText(o));
    case WaitCode::kLostToAnother:
      return Cat(BlockersText(reason.blockers), " took the room in ClusterQueue ", o.object, " first");
    case WaitCode::kBehindStrictHead:
      return Cat("it stands behind the head of its StrictFIFO queue, which was ", BlockersText(reason.blockers));
    case WaitCode::kNamespaceMismatch:
      return Cat("the namespaceSelector of ClusterQueue ", o.object, " does not match the namespace");
    case WaitCode::kLocalQueueStopped:
      return Cat("LocalQueue ", o.object, " is stopped");
    case WaitCode::kClusterQueueStopped:
    case WaitCode::kClusterQueueTerminating:
    case WaitCode::kClusterQueueMisconfigured:
    case WaitCode::kTopologyMissing:
      return InactiveText(o);
    case WaitCode::kAdmissionCheck:
      return o.kind == ObstacleKind::kChecksPending ? WholeText(o) : InactiveText(o);
    case WaitCode::kLocalQueueMissing:
    case WaitCode::kLocalQueueMisconfigured:
    case WaitCode::kClusterQueueMissing:
    case WaitCode::kRuntimeClassMissing:
    case WaitCode::kStartRefused:
    case WaitCode::kBackingOff:
    case WaitCode::kAdmissionGated:
    case WaitCode::kOriginalQueue:
      return WholeText(o);
    case WaitCode::kRequestsAboveLimits:
    case WaitCode::kOutsideLimitRange:
      return FieldText(o);
    case WaitCode::kPodsNotReady:
      return o.kind == ObstacleKind::kGivesWay
                 ? Cat("it was moved for ", BlockersText(reason.blockers), ", whose pods go to their nodes first")
                 : Cat("it fits, but the pods of ", BlockersText(reason.blockers), " are not ready yet");
    case WaitCode::kResourceQuota:
      return ResourceQuotaText(o);
    case WaitCode::kDeactivated:
      return "it is deactivated";
  }
  CheckFailed(__FILE__, __LINE__, "known code");
}

std::string ClearsChecks(const Obstacle& o) {
  if (o.kind == ObstacleKind::kChecksPending) return o.names.size() == 1 ? "it is Ready" : "they are Ready";
  switch (o.inactive) {
    case InactiveReason::kAdmissionCheckNotFound:
      return "it is created";
    case InactiveReason::kAdmissionCheckInactive:
      return "its controller sets its condition Active to True";
    case InactiveReason::kMultipleMultiKueueChecks:
    case InactiveReason::kMultiKueueCheckPerFlavor:
    case InactiveReason::kMultiKueueWithProvisioningRequest:
    case InactiveReason::kTerminating:
    case InactiveReason::kStopped:
    case InactiveReason::kMisconfigured:
    case InactiveReason::kFlavorNotFound:
    case InactiveReason::kFlavorMisconfigured:
    case InactiveReason::kCohortCycle:
    case InactiveReason::kCohortMisconfigured:
    case InactiveReason::kTopologyNotFound:
      return "that is mended";
  }
  CheckFailed(__FILE__, __LINE__, "known inactive reason");
}

// Where what the pods ask for is in the way.
std::string ClearsRequests(const Obstacle& o) {
  if (o.kind == ObstacleKind::kLimitRange) return "the Job or the LimitRange is changed";
  if (o.kind == ObstacleKind::kResourceQuotaUnset) return "the Job or the ResourceQuota is changed";
  if (o.kind == ObstacleKind::kResourceQuota) return "pods of the namespace go, or the ResourceQuota is raised";
  return "the Job is changed";
}

// What has to happen.
std::string ClearedBy(WaitCode code, const Obstacle& o) {
  switch (code) {
    case WaitCode::kPendingEvaluation:
      return "its turn comes";
    case WaitCode::kQuotaInUse:
      return Cat(Quantity(o, o.missing), " is released there, or the quota is raised");
    case WaitCode::kBorrowingLimit:
      return Cat(Quantity(o, o.missing), " is released there, or the limit is raised");
    case WaitCode::kLendingLimit:
      return Cat(Quantity(o, o.missing), " of what is lent is released, or a limit is raised");
    case WaitCode::kNeverFits:
      return "that is raised, or the Job asks for less";
    case WaitCode::kResourceNotCovered:
      return "one does, or the Job does not ask for it";
    case WaitCode::kUntoleratedTaint:
    case WaitCode::kNodeSelectorMismatch:
    case WaitCode::kNodeAffinityMismatch:
    case WaitCode::kFlavorOnlyTopology:
    case WaitCode::kFlavorWithoutTopology:
    case WaitCode::kTopologyLevelMissing:
      return "the Job or the flavor is changed";
    case WaitCode::kNoRoom:
    case WaitCode::kNoPlacement:
      return "machines become free";
    case WaitCode::kPendingPreemption:
      return "they have left";
    case WaitCode::kPreemptionGated:
      return "they are Open in its status.preemptionGates, or there is room without that";
    case WaitCode::kRoomKept:
      return "they have started, and something is released";
    case WaitCode::kLostToAnother:
    case WaitCode::kStartRefused:
    case WaitCode::kBackingOff:
      return "it is tried again";
    case WaitCode::kBehindStrictHead:
      return "that starts or goes";
    case WaitCode::kNamespaceMismatch:
      return "the namespace's labels or the selector change";
    case WaitCode::kFlavorMissing:
    case WaitCode::kLocalQueueMissing:
    case WaitCode::kClusterQueueMissing:
    case WaitCode::kRuntimeClassMissing:
    case WaitCode::kTopologyMissing:
      return "it is created";
    case WaitCode::kClusterQueueTerminating:
      return "there is one of that name again";
    case WaitCode::kLocalQueueStopped:
    case WaitCode::kClusterQueueStopped:
      return "its spec.stopPolicy is None";
    case WaitCode::kLocalQueueMisconfigured:
    case WaitCode::kClusterQueueMisconfigured:
      return "that is mended";
    case WaitCode::kAdmissionCheck:
      return ClearsChecks(o);
    case WaitCode::kRequestsAboveLimits:
    case WaitCode::kOutsideLimitRange:
    case WaitCode::kResourceQuota:
      return ClearsRequests(o);
    case WaitCode::kAdmissionGated:
      return "its annotation kueue.x-k8s.io/admission-gated-by is removed";
    case WaitCode::kPodsNotReady:
      return "they are, or have had their time";
    case WaitCode::kDeactivated:
      return "spec.active of the Workload is true";
    case WaitCode::kOriginalFlavor:
      return "its ClusterQueue has that flavor again, or the Job its former size";
    case WaitCode::kOriginalQueue:
      return "it leads there again, or the Job has its former size";
  }
  CheckFailed(__FILE__, __LINE__, "known code");
}

}  // namespace

std::string WaitMessage(const Reason& reason) {
  static const Obstacle kNone;
  const Obstacle* decisive = engine::DecisiveObstacle(reason);
  const Obstacle& o = decisive == nullptr ? kNone : *decisive;
  const std::string cleared = Cat("; cleared when ", ClearedBy(engine::WaitCodeOf(reason), o));
  return Truncated(WaitText(reason, o), kConditionMessageMax - cleared.size()) + cleared;
}

std::string ReasonMessage(const Reason& reason) {
  std::string out;
  for (const Obstacle& o : reason.obstacles) {
    const std::string text = WholeText(o);
    if (!text.empty()) out += Cat(out.empty() ? "" : "; ", text);
  }
  // What stands in the way of the whole workload comes first: nothing else matters until it is cleared.
  if (out.empty()) {
    out = PodSetMessages(reason.obstacles);
    const std::string suffix = PreemptionSuffix(reason.obstacles);
    if (!suffix.empty()) out += Cat(out.empty() ? "" : ". ", suffix);
  }
  if (out.empty() && reason.code == ReasonCode::kDeactivated) out = "The workload is deactivated";
  if (out.empty()) out = "Workload is pending evaluation in the scheduling queue";
  return Truncated(std::move(out), kConditionMessageMax);
}

bool SameKind(const Reason& a, const Reason& b) {
  return a.code == b.code && std::equal(a.obstacles.begin(), a.obstacles.end(), b.obstacles.begin(), b.obstacles.end(),
                                        [](const Obstacle& x, const Obstacle& y) {
                                          return x.kind == y.kind && x.pod_set == y.pod_set && x.flavor == y.flavor &&
                                                 x.resource == y.resource &&
                                                 (x.object == y.object || x.kind == ObstacleKind::kBehindStrictHead) &&
                                                 x.bound == y.bound && x.kept == y.kept && x.inactive == y.inactive &&
                                                 x.names == y.names && AsksTheSame(x, y);
                                        });
}

bool IsPreemptionGated(const Reason& reason) {
  const Obstacle* decisive = engine::DecisiveObstacle(reason);
  return decisive != nullptr && decisive->kind == ObstacleKind::kPreemptionGated;
}

bool WasEvaluated(const Reason& reason) {
  if (reason.obstacles.empty()) return false;
  return std::none_of(reason.obstacles.begin(), reason.obstacles.end(), [](const Obstacle& o) {
    return o.kind == ObstacleKind::kAdmissionGated || o.kind == ObstacleKind::kLocalQueueMissing ||
           o.kind == ObstacleKind::kLocalQueueStopped || o.kind == ObstacleKind::kLocalQueueMisconfigured ||
           o.kind == ObstacleKind::kClusterQueueMissing || o.kind == ObstacleKind::kClusterQueueInactive;
  });
}

void HideForeign(std::string_view ns, engine::Reason* reason) {
  for (engine::Blocker& blocker : reason->blockers) {
    if (blocker.ns != ns) blocker.ns = blocker.name = "";
  }
}

std::optional<HoldEvent> EventOf(const engine::Reason& reason) {
  if (reason.code == engine::ReasonCode::kAdmissionGated && !IsPreemptionGated(reason)) {
    return HoldEvent{kWorkloadReporter, "Normal", "AdmissionGated"};
  }
  if (!WasEvaluated(reason) || reason.code == engine::ReasonCode::kPendingEvaluation) return std::nullopt;
  return HoldEvent{kAdmissionReporter, "Warning", std::string(engine::Name(reason.code))};
}

std::string Truncated(std::string text, size_t max) {
  static constexpr std::string_view kSuffix = " ...";
  if (text.size() <= max) return text;
  size_t end = max - kSuffix.size();
  // Not inside a character: continuation bytes are 10xxxxxx.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text.append(kSuffix);
}

}  // namespace muster::controller
