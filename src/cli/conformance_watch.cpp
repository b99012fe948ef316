#include "conformance_watch.h"

#include <algorithm>

namespace muster::cli {

namespace {

using engine::ObstacleKind;

// After a flavor had quota and no places, others were tried.
bool PassedOver(const engine::Reason& reason) {
  const auto placed =
      std::find_if(reason.obstacles.begin(), reason.obstacles.end(),
                   [](const engine::Obstacle& obstacle) { return obstacle.kind == ObstacleKind::kNoPlacement; });
  return placed != reason.obstacles.end() &&
         std::any_of(placed + 1, reason.obstacles.end(),
                     [](const engine::Obstacle& later) { return !later.flavor.empty(); });
}

// Who is decided on, or for.
std::string SubjectOf(const engine::Decision& decision) {
  if (const auto* admit = std::get_if<engine::Admit>(&decision)) return admit->uid;
  if (const auto* hold = std::get_if<engine::Hold>(&decision)) return hold->uid;
  if (const auto* evict = std::get_if<engine::Evict>(&decision)) return evict->preemptor_uid;
  return "";
}

}  // namespace

std::string PlaceRuleWatch::TreeOf(const std::string& uid) const {
  const std::optional<engine::WorkloadView> view = engine_->ViewWorkload(uid);
  if (!view.has_value() || view->cluster_queue.empty()) return "";
  const std::vector<std::string> cohorts = engine_->CohortsOf(view->cluster_queue);
  return cohorts.empty() ? "ClusterQueue " + view->cluster_queue : "cohort " + cohorts.back();
}

bool PlaceRuleWatch::LooksInTopologies(const std::string& uid) const {
  const auto workload = workloads_->find(uid);
  return workload != workloads_->end() &&
         std::any_of(workload->second.pod_sets.begin(), workload->second.pod_sets.end(),
                     [](const engine::PodSet& pod_set) { return pod_set.topology.IsExplicit(); });
}

void PlaceRuleWatch::Meet(const char* rule) {
  if (!met_.has_value()) met_ = rule;
}

void PlaceRuleWatch::BeforePass() {
  parked_.clear();
  for (const auto& [uid, workload] : *workloads_) {
    const std::optional<engine::WorkloadView> view = engine_->ViewWorkload(uid);
    if (view.has_value() && view->place == engine::WorkloadView::Place::kParked) parked_.insert(uid);
  }
}

void PlaceRuleWatch::AfterPass(const std::vector<engine::Decision>& decisions) {
  std::set<std::string> freed;
  std::set<std::string> preemptors;
  for (const engine::Decision& decision : decisions) {
    const std::string subject = SubjectOf(decision);
    if (subject.empty() || !LooksInTopologies(subject)) continue;
    if (!freed_.empty() && parked_.contains(subject) && !freed_.contains(TreeOf(subject))) {
      met_ = "what is freed in one tree of cohorts wakes those who wait for the same nodes in others";
    }
    if (const auto* hold = std::get_if<engine::Hold>(&decision); hold != nullptr && PassedOver(hold->reason)) {
      Meet("a flavor with quota and no places is passed over at once");
    }
    if (const auto* evict = std::get_if<engine::Evict>(&decision)) {
      preemptors.insert(subject);
      freed.insert(TreeOf(evict->uid));
    }
  }
  if (preemptors.size() > 1) Meet("places of those who leave are not counted beside those of whom they leave for");
  freed_ = std::move(freed);
}

}  // namespace muster::cli
