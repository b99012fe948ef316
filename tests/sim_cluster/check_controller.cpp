#include "check_controller.h"

#include <algorithm>

#include "muster/core/time.h"

namespace muster::sim_campaign {
namespace {

bool Asks(const Json& workload) {
  return sim::HasCondition(workload, "QuotaReserved") && !sim::HasCondition(workload, "Finished") &&
         !sim::HasCondition(workload, "Evicted");
}

}  // namespace

CheckController::CheckController(Cluster* cluster, bool rejects)
    : cluster_(cluster), rejects_(rejects), random_(cluster->executor.NewRandom("checks")) {
  cluster->store.Subscribe([this](const sim::Change& change) {
    if (change.kind->plural == "workloads" && change.type != sim::Change::Type::kDeleted) Observe(*change.object);
  });
}

void CheckController::MakeCheck() {
  cluster_->Create({{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                    {"kind", "AdmissionCheck"},
                    {"metadata", {{"name", kCheck}}},
                    {"spec", {{"controllerName", "example.com/chaos"}}}});
  const Json active = {{"type", "Active"},
                       {"status", "True"},
                       {"reason", "Active"},
                       {"message", ""},
                       {"lastTransitionTime", "2026-01-01T00:00:00Z"}};
  cluster_->Patch("admissionchecks", "", kCheck, {{"status", {{"conditions", Json::array({active})}}}}, "status");
}

void CheckController::Settle() {
  settled_ = true;
  for (const Json& workload : cluster_->List("workloads")) Observe(workload);
}

void CheckController::Observe(const Json& workload) {
  if (!Asks(workload) || At(workload, "status", "admissionChecks").empty()) return;
  const auto wait = std::chrono::milliseconds(static_cast<int64_t>(random_.Below(4'000)));
  cluster_->executor.PostAt(cluster_->executor.clock()->Mono() + wait,
                            [this, ns = Text(At(workload, "metadata", "namespace")),
                             name = Text(At(workload, "metadata", "name"))] { Answer(ns, name); });
}

void CheckController::Answer(const std::string& ns, const std::string& name) {
  const Json workload = cluster_->Find("workloads", ns, name);
  if (workload.is_null() || !Asks(workload)) return;
  Json list = At(workload, "status", "admissionChecks");
  for (Json& item : list) {
    if (Text(Get(item, "name")) != kCheck) continue;
    const Json state = AnyState(item, sim::HasCondition(workload, "Admitted"));
    if (state.is_null()) return;
    item.merge_patch(state);
    item["lastTransitionTime"] = FormatTime(cluster_->executor.clock()->Now());
    Json patch = {{"status", {{"admissionChecks", list}}}};
    if (random_.Below(2) == 0) patch["metadata"]["resourceVersion"] = At(workload, "metadata", "resourceVersion");
    cluster_->Patch("workloads", ns, name, patch, "status");
  }
}

Json CheckController::AnyState(const Json& known, bool runs) {
  const bool pending = Text(Get(known, "state")) == "Pending";
  const uint64_t roll = settled_ ? 0 : random_.Below(20);
  if (runs && (!rejects_ || roll < 18)) return pending ? Json{{"state", "Ready"}, {"message", "late"}} : Json();
  if (!runs && !pending) return Json();
  if (rejects_ && roll == 19) return {{"state", "Rejected"}, {"message", "no"}};
  if (roll >= 14) return {{"state", "Retry"}, {"message", "later"}, {"requeueAfterSeconds", random_.Below(5)}};
  const Json update = {{"name", "main"}, {"annotations", {{"muster.dev/order", std::to_string(roll)}}}};
  return {{"state", "Ready"}, {"message", "granted"}, {"podSetUpdates", Json::array({update})}};
}

}  // namespace muster::sim_campaign
