#include "queue_gauges.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "metric_vec.h"
#include "muster/core/check.h"

namespace muster::server {
namespace {

// In the units people use: whole cpus, bytes.
double ToUnits(const std::string& resource, Amount amount) {
  if (amount.IsUnlimited()) return std::numeric_limits<double>::infinity();
  const auto value = static_cast<double>(amount.value);
  return resource == "cpu" ? value / 1000 : value;
}

double LimitToUnits(const std::string& resource, const std::optional<Amount>& limit) {
  return limit ? ToUnits(resource, *limit) : std::numeric_limits<double>::infinity();
}

std::string CauseName(engine::ReasonCode code) {
  switch (code) {
    case engine::ReasonCode::kPendingEvaluation:
      return "PendingEvaluation";
    case engine::ReasonCode::kNoMatchingFlavor:
      return "NoMatchingFlavor";
    case engine::ReasonCode::kWaitingForQuota:
      return "WaitingForQuota";
    case engine::ReasonCode::kExceedsMaxQuota:
      return "ExceedsMaxQuota";
    case engine::ReasonCode::kWaitingForPreemptedWorkloads:
      return "WaitingForPreemptedWorkloads";
    case engine::ReasonCode::kTopologyPlacementFailed:
      return "TopologyPlacementFailed";
    case engine::ReasonCode::kMisconfigured:
      return "Misconfigured";
    case engine::ReasonCode::kSuspended:
      return "Suspended";
    case engine::ReasonCode::kAdmissionGated:
      return "AdmissionGated";
    case engine::ReasonCode::kDeactivated:
      return "Deactivated";
  }
  MUSTER_CHECK(false);
}

// The reason of Admitted=False of a workload without quota.
constexpr const char* kNoReservation = "NoReservation";

using ByReason = std::map<engine::ReasonCode, int64_t>;

struct ClusterQueueGauges {
  GaugeFamily pending{{"kueue_pending_workloads",
                       "Workloads that wait; active: to be looked at, inadmissible: known not to fit for now",
                       {"cluster_queue", "status"}}};
  GaugeFamily unadmitted{{"kueue_unadmitted_workloads",
                          "Workloads that wait, by why they are not admitted",
                          {"cluster_queue", "reason", "underlying_cause"}}};
  GaugeFamily reserving{{"kueue_reserving_active_workloads", "Workloads that hold quota", {"cluster_queue"}}};
  GaugeFamily admitted{{"kueue_admitted_active_workloads", "Admitted Workloads not finished", {"cluster_queue"}}};
  GaugeFamily status{{"kueue_cluster_queue_status",
                      "1 for the status that the ClusterQueue is in, 0 for the others",
                      {"cluster_queue", "status"}}};
  GaugeFamily info{{"kueue_cluster_queue_info",
                    "1, with the place in the tree of cohorts in the labels",
                    {"cluster_queue", "parent_cohort", "root_cohort"}}};
  GaugeFamily cohort_info{
      {"kueue_cohort_info", "1, with the cohort's place in the labels", {"cohort", "parent_cohort", "root_cohort"}}};

  static MetricName OfResource(const std::string& name, const std::string& help) {
    return {"kueue_cluster_queue_" + name, help, {"cohort", "cluster_queue", "flavor", "resource"}};
  }
  GaugeFamily reservation{OfResource("resource_reservation", "Quota held")};
  GaugeFamily usage{OfResource("resource_usage", "Quota held by admitted Workloads")};
  GaugeFamily nominal{OfResource("nominal_quota", "Nominal quota")};
  GaugeFamily borrowing{OfResource("borrowing_limit", "Borrowing limit; +Inf: none")};
  GaugeFamily lending{OfResource("lending_limit", "Lending limit; +Inf: none")};

  void Add(const engine::ClusterQueueView& view, bool resources);
  void Append(std::vector<prometheus::MetricFamily>* families) &&;
};

void ClusterQueueGauges::Add(const engine::ClusterQueueView& view, bool resources) {
  // What an inactive queue holds back is not looked at, whatever the engine calls it.
  const int64_t waiting = view.pending_active + view.pending_inadmissible;
  pending.Set({view.name, "active"}, static_cast<double>(view.active ? view.pending_active : 0));
  pending.Set({view.name, "inadmissible"}, static_cast<double>(view.active ? view.pending_inadmissible : waiting));
  reserving.Set({view.name}, static_cast<double>(view.reserving));
  admitted.Set({view.name}, static_cast<double>(view.admitted));
  const bool terminating = std::any_of(view.inactive.begin(), view.inactive.end(), [](const engine::Inactivity& why) {
    return why.reason == engine::InactiveReason::kTerminating;
  });
  status.Set({view.name, "pending"}, !view.active && !terminating ? 1 : 0);
  status.Set({view.name, "active"}, view.active && !terminating ? 1 : 0);
  status.Set({view.name, "terminating"}, terminating ? 1 : 0);
  info.Set({view.name, view.cohort, view.root_cohort}, 1);
  if (!resources) return;
  for (const engine::FlavorUsage& u : view.usage) {
    const LabelValues labels = {view.cohort, view.name, u.flavor, u.resource};
    reservation.Set(labels, ToUnits(u.resource, u.reserved));
    usage.Set(labels, ToUnits(u.resource, u.used));
    nominal.Set(labels, ToUnits(u.resource, u.nominal));
    borrowing.Set(labels, LimitToUnits(u.resource, u.borrowing_limit));
    lending.Set(labels, LimitToUnits(u.resource, u.lending_limit));
  }
}

void ClusterQueueGauges::Append(std::vector<prometheus::MetricFamily>* families) && {
  for (GaugeFamily* family : {&pending, &unadmitted, &reserving, &admitted, &status, &info, &cohort_info, &reservation,
                              &usage, &nominal, &borrowing, &lending}) {
    families->push_back(std::move(*family).Take());
  }
}

struct LocalQueueGauges {
  GaugeFamily pending{{"kueue_local_queue_pending_workloads",
                       "Workloads that wait; active: to be looked at, inadmissible: known not to fit for now",
                       {"name", "namespace", "status"}}};
  GaugeFamily unadmitted{{"kueue_local_queue_unadmitted_workloads",
                          "Workloads that wait, by why they are not admitted",
                          {"name", "namespace", "cluster_queue", "reason", "underlying_cause"}}};
  GaugeFamily reserving{
      {"kueue_local_queue_reserving_active_workloads", "Workloads that hold quota", {"name", "namespace"}}};
  GaugeFamily admitted{
      {"kueue_local_queue_admitted_active_workloads", "Admitted Workloads not finished", {"name", "namespace"}}};
  GaugeFamily status{{"kueue_local_queue_status",
                      "1 for the value that the Active condition has, 0 for the others",
                      {"name", "namespace", "active"}}};
  GaugeFamily reservation{
      {"kueue_local_queue_resource_reservation", "Quota held", {"name", "namespace", "flavor", "resource"}}};
  GaugeFamily usage{{"kueue_local_queue_resource_usage",
                     "Quota held by admitted Workloads",
                     {"name", "namespace", "flavor", "resource"}}};

  void Add(const engine::LocalQueueView& view, const ByReason& by_reason);
  void Append(std::vector<prometheus::MetricFamily>* families) &&;
};

void LocalQueueGauges::Add(const engine::LocalQueueView& view, const ByReason& by_reason) {
  const int64_t waiting = view.pending_active + view.pending_inadmissible;
  pending.Set({view.name, view.ns, "active"}, static_cast<double>(view.active ? view.pending_active : 0));
  pending.Set({view.name, view.ns, "inadmissible"},
              static_cast<double>(view.active ? view.pending_inadmissible : waiting));
  for (const auto& [code, count] : by_reason) {
    unadmitted.Set({view.name, view.ns, view.cluster_queue, kNoReservation, CauseName(code)},
                   static_cast<double>(count));
  }
  reserving.Set({view.name, view.ns}, static_cast<double>(view.reserving));
  admitted.Set({view.name, view.ns}, static_cast<double>(view.admitted));
  status.Set({view.name, view.ns, "True"}, view.active ? 1 : 0);
  status.Set({view.name, view.ns, "False"}, view.active ? 0 : 1);
  status.Set({view.name, view.ns, "Unknown"}, 0);
  for (const engine::FlavorUsage& u : view.usage) {
    const LabelValues labels = {view.name, view.ns, u.flavor, u.resource};
    reservation.Set(labels, ToUnits(u.resource, u.reserved));
    usage.Set(labels, ToUnits(u.resource, u.used));
  }
}

void LocalQueueGauges::Append(std::vector<prometheus::MetricFamily>* families) && {
  for (GaugeFamily* family : {&pending, &unadmitted, &reserving, &admitted, &status, &reservation, &usage}) {
    families->push_back(std::move(*family).Take());
  }
}

}  // namespace

void AppendQueueGauges(const engine::EngineSet& engine, const MetricsOptions& options,
                       std::vector<prometheus::MetricFamily>* families) {
  ClusterQueueGauges cluster_queues;
  LocalQueueGauges local_queues;
  std::map<std::string, ByReason> waiting;  // by ClusterQueue
  for (const auto& [ns, name] : engine.LocalQueueNames()) {
    const engine::LocalQueueView view = engine.ViewLocalQueue(ns, name);
    const ByReason by_reason = engine.WaitingByReason(ns, name);
    for (const auto& [code, count] : by_reason) waiting[view.cluster_queue][code] += count;
    if (options.local_queues) local_queues.Add(view, by_reason);
  }
  for (const std::string& name : engine.ClusterQueueNames()) {
    const engine::ClusterQueueView view = engine.ViewClusterQueue(name);
    cluster_queues.Add(view, options.cluster_queue_resources);
    for (const auto& [code, count] : waiting[name]) {
      cluster_queues.unadmitted.Set({name, kNoReservation, CauseName(code)}, static_cast<double>(count));
    }
  }
  for (const engine::CohortView& view : engine.ViewCohorts()) {
    cluster_queues.cohort_info.Set({view.name, view.parent, view.root}, 1);
  }
  std::move(cluster_queues).Append(families);
  std::move(local_queues).Append(families);

  GaugeFamily unwritten(
      {"muster_unwritten_claims", "Admissions decided that the API server has not confirmed yet", {}});
  unwritten.Set({}, static_cast<double>(engine.unwritten_claims()));
  families->push_back(std::move(unwritten).Take());
}

}  // namespace muster::server
