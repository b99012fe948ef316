#include "muster/controller/queue_status.h"

#include <algorithm>

#include "muster/controller/reason_text.h"
#include "muster/core/check.h"
#include "muster/core/quantity.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"
#include "text.h"

namespace muster::controller {
namespace {

using engine::InactiveReason;
using k8s::JsonValue;
using k8s::JsonWriter;

constexpr int64_t kNanosPerSecond = 1'000'000'000;

// ---- reading ------------------------------------------------------------------------------------

std::vector<FlavorUsageStatus> ReadUsage(JsonValue list) {
  std::vector<FlavorUsageStatus> out;
  list.ForEach([&out](JsonValue flavor) {
    FlavorUsageStatus& added = out.emplace_back();
    added.name = flavor["name"].String();
    flavor["resources"].ForEach([&added](JsonValue resource) {
      added.resources.push_back({resource["name"].String(), resource["total"].Scalar(), resource["borrowed"].Scalar()});
    });
  });
  return out;
}

// An entry that somebody has spoilt is known too: it is overwritten, or taken away.
engine::ConsumedResources ReadConsumed(JsonValue status) {
  engine::ConsumedResources consumed;
  status["consumedResources"].ForEachField([&consumed](std::string_view resource, JsonValue value) {
    const absl::StatusOr<Quantity> quantity = Quantity::Parse(value.Scalar());
    consumed.amounts.emplace_back(resource, quantity.ok() ? quantity->ToAmount(resource) : Amount::Lowest());
  });
  std::sort(consumed.amounts.begin(), consumed.amounts.end());
  consumed.as_of = status["lastUpdate"].Time();
  return consumed;
}

// ---- projecting ---------------------------------------------------------------------------------

std::vector<FlavorUsageStatus> Usage(const std::vector<engine::FlavorUsage>& usage, Amount engine::FlavorUsage::*amount,
                                     bool with_borrowed) {
  std::vector<FlavorUsageStatus> out;
  for (const engine::FlavorUsage& entry : usage) {
    auto flavor = std::find_if(out.begin(), out.end(), [&entry](const auto& f) { return f.name == entry.flavor; });
    if (flavor == out.end()) flavor = out.insert(out.end(), {entry.flavor, {}});
    ResourceUsage resource{entry.resource, FormatAmount(entry.resource, entry.*amount), ""};
    if (with_borrowed) resource.borrowed = FormatAmount(entry.resource, entry.borrowed);
    flavor->resources.push_back(std::move(resource));
  }
  return out;
}

void SetActive(bool active, std::string_view reason, std::string message, int64_t generation, WallTime now,
               QueueStatus* status) {
  k8s::Condition wanted;
  wanted.type = "Active";
  wanted.status = active ? "True" : "False";
  wanted.reason = reason;
  wanted.message = Truncated(std::move(message), kConditionMessageMax);
  wanted.observed_generation = generation;
  k8s::SetCondition(&status->conditions, std::move(wanted), {now.unix_nanos / kNanosPerSecond * kNanosPerSecond});
}

std::string_view ReasonName(InactiveReason reason) {
  switch (reason) {
    case InactiveReason::kTerminating:
      return "Terminating";
    case InactiveReason::kStopped:
      return "Stopped";
    case InactiveReason::kMisconfigured:
      return "Misconfigured";
    case InactiveReason::kFlavorNotFound:
      return "FlavorNotFound";
    case InactiveReason::kFlavorMisconfigured:
      return "FlavorMisconfigured";
    case InactiveReason::kCohortCycle:
      return "CohortCycle";
    case InactiveReason::kCohortMisconfigured:
      return "CohortMisconfigured";
    case InactiveReason::kAdmissionCheckNotFound:
      return "AdmissionCheckNotFound";
    case InactiveReason::kAdmissionCheckInactive:
      return "AdmissionCheckInactive";
    case InactiveReason::kMultipleMultiKueueChecks:
      return "MultipleMultiKueueAdmissionChecks";
    case InactiveReason::kMultiKueueCheckPerFlavor:
      return "MultiKueueAdmissionCheckAppliedPerFlavor";
    case InactiveReason::kMultiKueueWithProvisioningRequest:
      return "MultiKueueWithProvisioningRequest";
    case InactiveReason::kTopologyNotFound:
      return "TopologyNotFound";
  }
  CheckFailed(__FILE__, __LINE__, "known inactive reason");
}

std::string Joined(const std::vector<std::string>& names, std::string_view separator) {
  std::string out;
  for (const std::string& name : names) out += Cat(out.empty() ? std::string_view() : separator, name);
  return out;
}

std::string ReasonText(const engine::Inactivity& why) {
  switch (why.reason) {
    case InactiveReason::kTerminating:
      return "clusterQueue is terminating";
    case InactiveReason::kStopped:
      return "is stopped";
    case InactiveReason::kMisconfigured:
    case InactiveReason::kFlavorMisconfigured:
    case InactiveReason::kCohortMisconfigured:
      return Cat("cannot read ", Joined(why.names, ", "));
    case InactiveReason::kFlavorNotFound:
      return Cat("references missing ResourceFlavor(s): ", Joined(why.names, ","));  // as the reference does
    case InactiveReason::kCohortCycle:
      return Cat("its cohorts form a cycle: ", Joined(why.names, ", "));
    case InactiveReason::kAdmissionCheckNotFound:
      return Cat("references missing AdmissionCheck(s): ", Joined(why.names, ","));
    case InactiveReason::kAdmissionCheckInactive:
      return Cat("references inactive AdmissionCheck(s): ", Joined(why.names, ","));
    case InactiveReason::kMultipleMultiKueueChecks:
      return Cat("has more than one MultiKueue AdmissionCheck: ", Joined(why.names, ","));
    case InactiveReason::kMultiKueueCheckPerFlavor:
      return Cat("has a MultiKueue AdmissionCheck for some flavors only: ", Joined(why.names, ","));
    case InactiveReason::kMultiKueueWithProvisioningRequest:
      return Cat("has ProvisioningRequest AdmissionCheck(s) beside MultiKueue: ", Joined(why.names, ","));
    case InactiveReason::kTopologyNotFound:
      return Cat("there is no Topology ", Joined(why.names, ", there is no Topology "));
  }
  CheckFailed(__FILE__, __LINE__, "known inactive reason");
}

// The terminating queue's message is a sentence of its own in the reference.
std::string InactiveMessage(const engine::ClusterQueueView& view) {
  if (view.inactive.front().reason == InactiveReason::kTerminating) {
    return "Can't admit new workloads; clusterQueue is terminating";
  }
  std::vector<std::string> texts;
  for (const engine::Inactivity& why : view.inactive) texts.push_back(ReasonText(why));
  return Cat("Can't admit new workloads: ", Joined(texts, ", "), ".");
}

template <typename View>
QueueStatus ProjectCounts(const QueueStatus& known, const View& view, bool cluster_queue) {
  QueueStatus out = known;
  out.present = true;
  out.legible = true;
  out.pending = view.pending_active + view.pending_inadmissible;
  out.reserving = view.reserving;
  out.admitted = view.admitted;
  out.flavors_reservation = Usage(view.usage, &engine::FlavorUsage::reserved, cluster_queue);
  out.flavors_usage = Usage(view.usage, &engine::FlavorUsage::used, cluster_queue);
  return out;
}

std::optional<int64_t> ShareOf(const std::optional<engine::WeightedShare>& share) {
  return share.has_value() ? std::optional(share->permille) : std::nullopt;
}

// ---- writing ------------------------------------------------------------------------------------

void WriteUsage(std::string_view key, const std::vector<FlavorUsageStatus>& usage, bool cluster_queue,
                JsonWriter* out) {
  out->Key(key).StartArray();
  for (const FlavorUsageStatus& flavor : usage) {
    out->StartObject().Field("name", flavor.name).Key("resources").StartArray();
    for (const ResourceUsage& resource : flavor.resources) {
      out->StartObject().Field("name", resource.name).Field("total", resource.total);
      if (cluster_queue) out->Field("borrowed", resource.borrowed);
      out->EndObject();
    }
    out->EndArray().EndObject();
  }
  out->EndArray();
}

void WriteFairSharing(const QueueStatus& from, const QueueStatus& wanted, JsonWriter* out) {
  out->Key("fairSharing");
  if (!wanted.weighted_share.has_value()) {
    out->Null();
    return;
  }
  out->StartObject().Field("weightedShare", *wanted.weighted_share);
  if (wanted.consumed.has_value()) {
    const auto& amounts = wanted.consumed->amounts;
    out->Key("admissionFairSharingStatus").StartObject().Key("consumedResources").StartObject();
    for (const auto& [resource, amount] : amounts) out->Field(resource, FormatAmount(resource, amount));
    // A merge leaves what is not named.
    for (const auto& [resource, amount] : from.consumed.value_or(engine::ConsumedResources{}).amounts) {
      const bool stays = std::any_of(amounts.begin(), amounts.end(),
                                     [&name = resource](const auto& entry) { return entry.first == name; });
      if (!stays) out->Key(resource).Null();
    }
    out->EndObject().Field("lastUpdate", FormatTime(wanted.consumed->as_of)).EndObject();
  }
  out->EndObject();
}

}  // namespace

QueueStatus DecodeQueueStatus(std::string_view json) {
  k8s::JsonDocument document(json);
  const JsonValue status = document.root()["status"];
  QueueStatus out;
  out.conditions = k8s::DecodeConditions(status["conditions"]);
  out.flavors_reservation = ReadUsage(status["flavorsReservation"]);
  out.flavors_usage = ReadUsage(status["flavorsUsage"]);
  out.present = status["pendingWorkloads"].present();
  out.pending = status["pendingWorkloads"].Count();
  out.reserving = status["reservingWorkloads"].Count();
  out.admitted = status["admittedWorkloads"].Count();
  const JsonValue fair = status["fairSharing"];
  if (fair.present()) out.weighted_share = fair["weightedShare"].Int();
  const JsonValue consumed = fair["admissionFairSharingStatus"];
  if (consumed.present()) out.consumed = ReadConsumed(consumed);
  if (document.problem().empty()) return out;
  QueueStatus illegible;
  illegible.legible = false;
  return illegible;
}

QueueStatus ProjectStatus(const QueueStatus& known, int64_t generation, const engine::ClusterQueueView& view,
                          WallTime now) {
  QueueStatus out = ProjectCounts(known, view, true);
  out.weighted_share = ShareOf(view.weighted_share);
  if (view.active || view.inactive.empty()) {
    SetActive(view.active, view.active ? "Ready" : "Unknown", "Can admit new workloads", generation, now, &out);
  } else {
    SetActive(false, ReasonName(view.inactive.front().reason), InactiveMessage(view), generation, now, &out);
  }
  return out;
}

QueueStatus ProjectStatus(const QueueStatus& known, int64_t generation, const engine::LocalQueueView& view,
                          WallTime now) {
  QueueStatus out = ProjectCounts(known, view, false);
  out.weighted_share.reset();
  out.consumed.reset();
  if (view.consumption.has_value()) {
    out.weighted_share = 0;  // a LocalQueue has none, and the field is required
    out.consumed = view.consumption->resources;
    out.consumed->as_of.unix_nanos -= out.consumed->as_of.unix_nanos % kNanosPerSecond;
    // That time has passed in which nothing changed is not worth a write.
    if (known.consumed.has_value() && known.consumed->amounts == out.consumed->amounts) out.consumed = known.consumed;
  }
  if (view.stopped) {
    SetActive(false, "Stopped", "LocalQueue is stopped", generation, now, &out);
  } else if (!view.misconfigured.empty()) {
    SetActive(false, "Misconfigured", Cat("Can't submit new workloads to localQueue: cannot read ", view.misconfigured),
              generation, now, &out);
  } else if (!view.cluster_queue_exists) {
    SetActive(false, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue", generation, now, &out);
  } else if (!view.active) {
    SetActive(false, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue", generation, now, &out);
  } else {
    SetActive(true, "Ready", "Can submit new workloads to localQueue", generation, now, &out);
  }
  return out;
}

QueueStatus ProjectStatus(const QueueStatus& known, const engine::CohortView& view) {
  QueueStatus out = known;
  out.legible = true;
  out.weighted_share = ShareOf(view.weighted_share);
  return out;
}

std::string EncodeStatusPatch(const QueueObject& known, const QueueStatus& wanted, QueueKind kind) {
  const QueueStatus& from = known.status;
  if (from == wanted) return "";
  JsonWriter out;
  out.StartObject().Key("metadata").StartObject();
  out.Field("uid", known.meta.uid).Field("resourceVersion", known.meta.resource_version).EndObject();
  out.Key("status").StartObject();
  const bool all = !from.legible;
  if (all || from.weighted_share != wanted.weighted_share || from.consumed != wanted.consumed) {
    WriteFairSharing(from, wanted, &out);
  }
  if (kind == QueueKind::kCohort) return out.EndObject().EndObject().Take();
  const bool cluster_queue = kind == QueueKind::kClusterQueue;
  if (all || from.conditions != wanted.conditions) out.Key("conditions").Conditions(wanted.conditions);
  if (all || from.flavors_reservation != wanted.flavors_reservation) {
    WriteUsage("flavorsReservation", wanted.flavors_reservation, cluster_queue, &out);
  }
  if (all || from.flavors_usage != wanted.flavors_usage) {
    WriteUsage("flavorsUsage", wanted.flavors_usage, cluster_queue, &out);
    // The name a LocalQueue has for it in v1beta1.
    if (!cluster_queue) WriteUsage("flavorUsage", wanted.flavors_usage, cluster_queue, &out);
  }
  if (!from.present || from.pending != wanted.pending) out.Field("pendingWorkloads", wanted.pending);
  if (!from.present || from.reserving != wanted.reserving) out.Field("reservingWorkloads", wanted.reserving);
  if (!from.present || from.admitted != wanted.admitted) out.Field("admittedWorkloads", wanted.admitted);
  return out.EndObject().EndObject().Take();
}

}  // namespace muster::controller
