#include "machine_gauges.h"

#include <string>
#include <utility>

#include "metric_vec.h"
#include "units.h"

namespace muster::server {
namespace {

MetricName OfResource(const std::string& name, const std::string& help) {
  return {"muster_flavor_" + name, help, {"flavor", "resource"}};
}

void AppendRoom(const std::vector<engine::FlavorRoomView>& views, std::vector<prometheus::MetricFamily>* families) {
  GaugeFamily nodes({"muster_flavor_nodes", "Nodes with the labels of the flavor", {"flavor"}});
  GaugeFamily nominal(OfResource("nominal_quota", "Nominal quota of all ClusterQueues and Cohorts"));
  GaugeFamily allocatable(OfResource("allocatable", "Allocatable on all nodes of the flavor, whatever is on them"));
  GaugeFamily free(OfResource("free", "Free for gangs on the nodes of the flavor"));
  GaugeFamily largest(OfResource("largest_free_block", "The most of it that is free on one node"));
  GaugeFamily pods({"muster_flavor_room_pods",
                    "Pods with so many devices each, and nothing else, that have places at the same time",
                    {"flavor", "resource", "devices"}});
  std::string of_nodes;
  for (const engine::FlavorRoomView& view : views) {
    if (std::exchange(of_nodes, view.flavor) != view.flavor) nodes.Set({view.flavor}, static_cast<double>(view.nodes));
    const LabelValues labels = {view.flavor, view.resource};
    nominal.Set(labels, ToUnits(view.resource, view.nominal));
    allocatable.Set(labels, ToUnits(view.resource, view.allocatable));
    free.Set(labels, ToUnits(view.resource, view.free));
    largest.Set(labels, ToUnits(view.resource, view.largest_free));
    for (size_t i = 0; i < view.pods.size(); ++i) {
      pods.Set({view.flavor, view.resource, std::to_string(engine::kDeviceCounts.at(i))},
               static_cast<double>(view.pods[i]));
    }
  }
  for (GaugeFamily* family : {&nodes, &nominal, &allocatable, &free, &largest, &pods}) {
    families->push_back(std::move(*family).Take());
  }
}

void AppendUnserved(const std::vector<engine::UnservedQuota>& quotas, std::vector<prometheus::MetricFamily>* families) {
  const std::string help = "Nominal quota beyond what all nodes of the flavor have";
  GaugeFamily queues({"muster_cluster_queue_unserved_quota", help, {"cluster_queue", "flavor", "resource"}});
  GaugeFamily cohorts({"muster_cohort_unserved_quota", help, {"cohort", "flavor", "resource"}});
  for (const engine::UnservedQuota& quota : quotas) {
    const double beyond = ToUnits(quota.resource, quota.nominal - quota.allocatable);
    if (quota.cohort.empty()) {
      queues.Set({quota.cluster_queue, quota.flavor, quota.resource}, beyond);
    } else {
      cohorts.Set({quota.cohort, quota.flavor, quota.resource}, beyond);
    }
  }
  families->push_back(std::move(queues).Take());
  families->push_back(std::move(cohorts).Take());
}

void AppendFitFailures(const std::vector<engine::FitFailures>& failures,
                       std::vector<prometheus::MetricFamily>* families) {
  CounterVec attempts(MetricOwner::kProcess,
                      {"muster_fit_failures_total",
                       "Attempts to admit a Workload that ended since its pods have no places on nodes of the flavor",
                       {"flavor", "cause", "resource"}});
  for (const engine::FitFailures& of : failures) {
    attempts.Add({of.flavor, std::string(engine::Name(of.cause)), of.resource}, of.count);
  }
  families->push_back(attempts.Collect());
}

void AppendTaken(const gang::RoomCounts& counts, std::vector<prometheus::MetricFamily>* families) {
  CounterVec reservations(
      MetricOwner::kProcess,
      {"muster_machine_reservations_total", "Decisions to admit, or to grow, that took places on machines", {}});
  reservations.Add({}, counts.reservations);
  families->push_back(reservations.Collect());
}

}  // namespace

void AppendMachineGauges(const engine::EngineSet& engine, std::vector<prometheus::MetricFamily>* families) {
  AppendRoom(engine.ViewFlavorRoom(), families);
  AppendUnserved(*engine.UnservedQuotas(), families);
  AppendFitFailures(engine.ViewFitFailures(), families);
  AppendTaken(engine.MachineCounts(), families);
}

}  // namespace muster::server
