#include "queue_gauges.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "metric_vec.h"
#include "muster/core/check.h"
#include "units.h"

namespace muster::server {
namespace {

double LimitToUnits(const std::string& resource, const std::optional<Amount>& limit) {
  return limit ? ToUnits(resource, *limit) : std::numeric_limits<double>::infinity();
}

// The reasons of Admitted=False of workloads without quota, and of those with.
constexpr const char* kNoReservation = "NoReservation";
constexpr const char* kUnsatisfiedChecks = "UnsatisfiedAdmissionChecks";

void Add(const engine::WaitCounts& counts, engine::WaitCounts* sum) {
  for (size_t i = 0; i < engine::kReasonCodes; ++i) sum->by_reason[i] += counts.by_reason[i];
  for (size_t i = 0; i < engine::kWaitCodes; ++i) sum->by_code[i] += counts.by_code[i];
}

// A series for each reason that anybody waits for. `reserved`: with quota, and checks to be passed.
void SetUnadmitted(const engine::WaitCounts& waiting, int64_t reserved, const LabelValues& labels,
                   GaugeFamily* family) {
  if (reserved > 0) {
    LabelValues all = labels;
    all.emplace_back(kUnsatisfiedChecks);
    all.emplace_back("");
    family->Set(all, static_cast<double>(reserved));
  }
  for (size_t i = 0; i < engine::kReasonCodes; ++i) {
    if (waiting.by_reason[i] == 0) continue;
    LabelValues all = labels;
    all.emplace_back(kNoReservation);
    all.emplace_back(engine::Name(static_cast<engine::ReasonCode>(i)));
    family->Set(all, static_cast<double>(waiting.by_reason[i]));
  }
}

double Exact(const engine::WeightedShare& share) {
  if (share.borrowed == 0) return 0;
  if (share.weight_nanos == 0) return std::numeric_limits<double>::quiet_NaN();
  const double ratio = 1000 * static_cast<double>(share.borrowed) / static_cast<double>(share.lendable);
  return ratio * 1e9 / static_cast<double>(share.weight_nanos);
}

struct ClusterQueueGauges {
  GaugeFamily pending{{"kueue_pending_workloads",
                       "Workloads that wait; active: to be looked at, inadmissible: known not to fit for now",
                       {"cluster_queue", "status"}}};
  GaugeFamily unadmitted{{"kueue_unadmitted_workloads",
                          "Workloads that wait, by why they are not admitted",
                          {"cluster_queue", "reason", "underlying_cause"}}};
  GaugeFamily waiting{{"muster_waiting_workloads",
                       "Workloads that are not admitted, by the first thing in their way",
                       {"cluster_queue", "code"}}};
  GaugeFamily oldest{{"muster_oldest_waiting_timestamp_seconds",
                      "Unix time since when the Workload has waited that has waited longest",
                      {"cluster_queue"}}};
  GaugeFamily hashes{{"kueue_pending_scheduling_hashes",
                      "Different kinds of Workloads that wait; those of one kind fit, or fail to, alike",
                      {"cluster_queue", "status"}}};
  GaugeFamily requested{
      {"kueue_cluster_queue_resource_pending", "Asked for by all that wait", {"cluster_queue", "resource"}}};
  GaugeFamily finished{{"kueue_finished_workloads", "Finished Workloads that still exist", {"cluster_queue"}}};
  GaugeFamily reserving{{"kueue_reserving_active_workloads", "Workloads that hold quota", {"cluster_queue"}}};
  GaugeFamily admitted{{"kueue_admitted_active_workloads", "Admitted Workloads not finished", {"cluster_queue"}}};
  GaugeFamily lacking{{"muster_workloads_lacking_places",
                       "Workloads that hold quota, with pods that are on no node and have no place on any",
                       {"cluster_queue"}}};
  GaugeFamily skips{{"kueue_admission_cycle_preemption_skips",
                     "Preemptors that lost to others of their passes, in the last run of the engine that looked at the "
                     "ClusterQueue",
                     {"cluster_queue"}}};
  GaugeFamily status{{"kueue_cluster_queue_status",
                      "1 for the status that the ClusterQueue is in, 0 for the others",
                      {"cluster_queue", "status"}}};
  GaugeFamily info{{"kueue_cluster_queue_info",
                    "1, with the place in the tree of cohorts in the labels",
                    {"cluster_queue", "parent_cohort", "root_cohort"}}};

  static MetricName OfResource(const std::string& name, const std::string& help) {
    return {"kueue_cluster_queue_" + name, help, {"cohort", "cluster_queue", "flavor", "resource"}};
  }
  GaugeFamily reservation{OfResource("resource_reservation", "Quota held")};
  GaugeFamily usage{OfResource("resource_usage", "Quota held by admitted Workloads")};
  GaugeFamily nominal{OfResource("nominal_quota", "Nominal quota")};
  GaugeFamily borrowing{OfResource("borrowing_limit", "Borrowing limit; +Inf: none")};
  GaugeFamily lending{OfResource("lending_limit", "Lending limit; +Inf: none")};
  GaugeFamily weighted_share{{"kueue_cluster_queue_weighted_share",
                              "What the ClusterQueue borrows, in thousandths of what could be lent to it, by its "
                              "weight; NaN: it borrows with weight 0",
                              {"cluster_queue", "cohort"}}};

  void Add(const engine::ClusterQueueView& view, bool resources);
  void AddPending(const std::string& name, const engine::PendingView& view);
  void AddWaiting(const std::string& name, const engine::WaitCounts& counts);
  void Append(std::vector<prometheus::MetricFamily>* families) &&;
};

void ClusterQueueGauges::Add(const engine::ClusterQueueView& view, bool resources) {
  // What an inactive queue holds back is not looked at, whatever the engine calls it.
  const int64_t all = view.pending_active + view.pending_inadmissible;
  pending.Set({view.name, "active"}, static_cast<double>(view.active ? view.pending_active : 0));
  pending.Set({view.name, "inadmissible"}, static_cast<double>(view.active ? view.pending_inadmissible : all));
  reserving.Set({view.name}, static_cast<double>(view.reserving));
  admitted.Set({view.name}, static_cast<double>(view.admitted));
  lacking.Set({view.name}, static_cast<double>(view.lacking_places));
  skips.Set({view.name}, static_cast<double>(view.preemption_skips));
  const bool terminating = std::any_of(view.inactive.begin(), view.inactive.end(), [](const engine::Inactivity& why) {
    return why.reason == engine::InactiveReason::kTerminating;
  });
  status.Set({view.name, "pending"}, !view.active && !terminating ? 1 : 0);
  status.Set({view.name, "active"}, view.active && !terminating ? 1 : 0);
  status.Set({view.name, "terminating"}, terminating ? 1 : 0);
  info.Set({view.name, view.cohort, view.root_cohort}, 1);
  if (view.weighted_share.has_value()) weighted_share.Set({view.name, view.cohort}, Exact(*view.weighted_share));
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

void ClusterQueueGauges::AddPending(const std::string& name, const engine::PendingView& view) {
  hashes.Set({name, "active"}, static_cast<double>(view.equivalences_active));
  hashes.Set({name, "inadmissible"}, static_cast<double>(view.equivalences_inadmissible));
  for (const auto& [resource, amount] : view.resources) requested.Set({name, resource}, ToUnits(resource, amount));
  if (view.oldest.IsSet()) oldest.Set({name}, static_cast<double>(view.oldest.unix_nanos) / 1e9);
}

// `name` is empty for those of no ClusterQueue.
void ClusterQueueGauges::AddWaiting(const std::string& name, const engine::WaitCounts& counts) {
  for (size_t i = 0; i < engine::kWaitCodes; ++i) {
    if (counts.by_code[i] == 0) continue;
    waiting.Set({name, std::string(engine::Name(static_cast<engine::WaitCode>(i)))},
                static_cast<double>(counts.by_code[i]));
  }
}

void ClusterQueueGauges::Append(std::vector<prometheus::MetricFamily>* families) && {
  for (GaugeFamily* family :
       {&pending, &unadmitted, &waiting, &oldest, &hashes, &requested, &finished, &reserving, &admitted, &lacking,
        &skips, &status, &info, &reservation, &usage, &nominal, &borrowing, &lending, &weighted_share}) {
    families->push_back(std::move(*family).Take());
  }
}

struct CohortGauges {
  GaugeFamily info{
      {"kueue_cohort_info", "1, with the cohort's place in the labels", {"cohort", "parent_cohort", "root_cohort"}}};
  GaugeFamily quota{{"kueue_cohort_subtree_quota",
                     "Quota of the Cohort and of all below it, as far as they lend it",
                     {"cohort", "flavor", "resource"}}};
  GaugeFamily reservations{{"kueue_cohort_subtree_resource_reservations",
                            "Quota held in the ClusterQueues below the Cohort",
                            {"cohort", "flavor", "resource"}}};
  GaugeFamily admitted{{"kueue_cohort_subtree_admitted_active_workloads",
                        "Admitted Workloads not finished, in the ClusterQueues below the Cohort",
                        {"cohort"}}};
  GaugeFamily weighted_share{{"kueue_cohort_weighted_share",
                              "What the Cohort borrows, in thousandths of what could be lent to it, by its weight; "
                              "NaN: it borrows with weight 0",
                              {"cohort"}}};

  void Add(const engine::CohortView& view);
  void Append(std::vector<prometheus::MetricFamily>* families) &&;
};

void CohortGauges::Add(const engine::CohortView& view) {
  info.Set({view.name, view.parent, view.root}, 1);
  admitted.Set({view.name}, static_cast<double>(view.admitted));
  if (view.weighted_share.has_value()) weighted_share.Set({view.name}, Exact(*view.weighted_share));
  for (const engine::CohortQuota& q : view.quotas) {
    const LabelValues labels = {view.name, q.flavor, q.resource};
    // Nothing of a resource is no series, as in Kueue.
    if (q.quota > Amount{0}) quota.Set(labels, ToUnits(q.resource, q.quota));
    if (q.reserved > Amount{0}) reservations.Set(labels, ToUnits(q.resource, q.reserved));
  }
}

void CohortGauges::Append(std::vector<prometheus::MetricFamily>* families) && {
  for (GaugeFamily* family : {&info, &quota, &reservations, &admitted, &weighted_share}) {
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
  GaugeFamily finished{
      {"kueue_local_queue_finished_workloads", "Finished Workloads that still exist", {"name", "namespace"}}};
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
  GaugeFamily consumed{{"kueue_local_queue_admission_fair_sharing_usage",
                        "What the LocalQueue has consumed, by the weights of resources and its own; who has less goes "
                        "first",
                        {"name", "namespace", "cluster_queue"}}};

  void Add(const engine::LocalQueueView& view);
  void Append(std::vector<prometheus::MetricFamily>* families) &&;
};

void LocalQueueGauges::Add(const engine::LocalQueueView& view) {
  const int64_t waiting = view.pending_active + view.pending_inadmissible;
  pending.Set({view.name, view.ns, "active"}, static_cast<double>(view.active ? view.pending_active : 0));
  pending.Set({view.name, view.ns, "inadmissible"},
              static_cast<double>(view.active ? view.pending_inadmissible : waiting));
  SetUnadmitted(view.waiting, view.reserving - view.admitted, {view.name, view.ns, view.cluster_queue}, &unadmitted);
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
  if (view.consumption.has_value()) {
    const engine::LocalQueueConsumption& of = *view.consumption;
    const bool last = of.denominator == 0;
    consumed.Set({view.name, view.ns, view.cluster_queue},
                 last ? std::numeric_limits<double>::infinity()
                      : static_cast<double>(of.numerator) / static_cast<double>(of.denominator));
  }
}

void LocalQueueGauges::Append(std::vector<prometheus::MetricFamily>* families) && {
  for (GaugeFamily* family :
       {&pending, &unadmitted, &finished, &reserving, &admitted, &status, &reservation, &usage, &consumed}) {
    families->push_back(std::move(*family).Take());
  }
}

}  // namespace

void AppendQueueGauges(const engine::EngineSet& engine, const FinishedCounts& finished, const MetricsOptions& options,
                       std::vector<prometheus::MetricFamily>* families) {
  ClusterQueueGauges cluster_queues;
  LocalQueueGauges local_queues;
  std::map<std::string, engine::WaitCounts> waiting;  // by ClusterQueue
  Add(engine.WaitingWithoutLocalQueue(), &waiting[""]);
  for (const auto& [ns, name] : engine.LocalQueueNames()) {
    const engine::LocalQueueView view = engine.ViewLocalQueue(ns, name);
    Add(view.waiting, &waiting[view.cluster_queue]);
    if (!options.local_queues) continue;
    local_queues.Add(view);
    const auto ended = finished.by_local_queue.find({ns, name});
    local_queues.finished.Set({name, ns},
                              static_cast<double>(ended == finished.by_local_queue.end() ? 0 : ended->second));
  }
  for (const std::string& name : engine.ClusterQueueNames()) {
    const engine::ClusterQueueView view = engine.ViewClusterQueue(name);
    const int64_t reserved = view.reserving - view.admitted;
    cluster_queues.Add(view, options.cluster_queue_resources);
    cluster_queues.AddPending(name, engine.ViewPending(name));
    SetUnadmitted(waiting[name], reserved, {name}, &cluster_queues.unadmitted);
    waiting[name].by_code[static_cast<size_t>(engine::WaitCode::kAdmissionCheck)] += reserved;
    const auto ended = finished.by_cluster_queue.find(name);
    cluster_queues.finished.Set({name},
                                static_cast<double>(ended == finished.by_cluster_queue.end() ? 0 : ended->second));
  }
  for (const auto& [name, counts] : waiting) cluster_queues.AddWaiting(name, counts);
  CohortGauges cohorts;
  for (const engine::CohortView& view : engine.ViewCohorts()) cohorts.Add(view);
  std::move(cluster_queues).Append(families);
  std::move(cohorts).Append(families);
  std::move(local_queues).Append(families);

  GaugeFamily unwritten(
      {"muster_unwritten_claims", "Admissions decided that the API server has not confirmed yet", {}});
  unwritten.Set({}, static_cast<double>(engine.unwritten_claims()));
  families->push_back(std::move(unwritten).Take());
}

}  // namespace muster::server
