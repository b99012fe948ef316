// Cases with steps: who is admitted where, who is evicted for whom, what is in use.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "conformance.h"
#include "muster/controller/decode.h"
#include "muster/core/quantity.h"
#include "muster/engine/engine.h"

namespace muster::cli {

using k8s::JsonValue;

namespace {

// No recorded step takes as many passes; the reference's own driver stopped at 120.
constexpr int kMaxPasses = 1000;

std::string_view ReasonText(engine::EvictionReason reason) {
  switch (reason) {
    case engine::EvictionReason::kInClusterQueue:
      return "InClusterQueue";
    case engine::EvictionReason::kInCohortReclamation:
      return "InCohortReclamation";
    case engine::EvictionReason::kInCohortFairSharing:
      return "InCohortFairSharing";
    case engine::EvictionReason::kInCohortReclaimWhileBorrowing:
      return "InCohortReclaimWhileBorrowing";
    case engine::EvictionReason::kClusterQueueStopped:
      return "ClusterQueueStopped";
    case engine::EvictionReason::kLocalQueueStopped:
      return "LocalQueueStopped";
    case engine::EvictionReason::kDeactivated:
      return "Deactivated";
  }
  return "";
}

// Everything comparable as text lines: sets of lines are compared, so that each difference is one of them.
using Lines = std::multiset<std::string>;

std::string AdmissionLine(const std::string& workload, const engine::Admission& admission) {
  std::string line = workload + " in " + admission.cluster_queue;
  for (const engine::PodSetAssignment& pod_set : admission.pod_sets) {
    line += ", " + std::to_string(pod_set.count) + " of " + pod_set.name;
    for (const auto& [resource, flavor] : pod_set.flavors) line.append(" ").append(resource).append("=").append(flavor);
  }
  return line;
}

std::string EvictionLine(std::string_view workload, std::string_view reason, std::string_view preemptor) {
  std::string line(workload);
  line.append(" ").append(reason);
  if (!preemptor.empty()) line.append(" for ").append(preemptor);
  return line;
}

std::string UsageLine(std::string_view queue, std::string_view flavor, std::string_view resource, Amount amount) {
  std::string line(queue);
  line.append(" ").append(flavor).append(" ").append(resource).append(" ").append(FormatAmount(resource, amount));
  return line;
}

void Compare(const std::string& what, const Lines& expected, const Lines& got, std::vector<std::string>* differences) {
  std::vector<std::string> missing;
  std::vector<std::string> extra;
  std::set_difference(expected.begin(), expected.end(), got.begin(), got.end(), std::back_inserter(missing));
  std::set_difference(got.begin(), got.end(), expected.begin(), expected.end(), std::back_inserter(extra));
  for (const std::string& line : missing) differences->push_back(what + ": expected, not found: " + line);
  for (const std::string& line : extra) differences->push_back(what + ": found, not expected: " + line);
}

class Driver {
 public:
  Driver(std::vector<std::string>* differences, std::vector<std::string>* trace)
      : differences_(differences), trace_(trace), engine_(engine::EngineOptions{}, &room_) {}

  void Load(JsonValue objects);
  void RunStep(JsonValue step, int64_t index);

 private:
  // Ids of claims that exist from the start; no engine gives this epoch.
  static constexpr uint64_t kLoadedEpoch = 1'000'000;

  void AddWorkload(JsonValue object);
  void UpdateClusterQueue(JsonValue queue);
  void UpdateLocalQueue(JsonValue queue);
  void Finish(const std::string& name);
  void ApplyAction(JsonValue action);
  // Passes until the engine is at rest.
  void Settle(const std::string& step);
  void Answer(const engine::Decision& decision);
  void Trace(const std::string& pass, const engine::Decision& decision);
  void CompareStep(JsonValue step, const std::string& prefix);
  Lines ExpectedAdmitted(JsonValue admitted) const;
  Lines ExpectedUsage(JsonValue usage) const;
  std::string NameOf(const std::string& uid) const;

  std::vector<std::string>* differences_;
  std::vector<std::string>* trace_;
  gang::UncheckedRoom room_;
  gang::ShapeTable shapes_;
  engine::EngineSet engine_;
  std::map<std::string, std::string> uids_;   // workload name -> uid
  std::map<std::string, std::string> names_;  // and back
  std::map<std::string, int64_t> generations_;
  uint64_t loaded_claims_ = 0;
  WallTime now_;
  Lines evicted_;
};

void Driver::Load(JsonValue objects) {
  objects["resourceFlavors"].ForEach(
      [&](JsonValue item) { engine_.Apply(engine::FlavorChanged{controller::DecodeResourceFlavor(item)}); });
  objects["cohorts"].ForEach(
      [&](JsonValue item) { engine_.Apply(engine::CohortChanged{controller::DecodeCohort(item)}); });
  objects["clusterQueues"].ForEach(
      [&](JsonValue item) { engine_.Apply(engine::ClusterQueueChanged{controller::DecodeClusterQueue(item)}); });
  objects["namespaces"].ForEach(
      [&](JsonValue item) { engine_.Apply(engine::NamespaceChanged{controller::DecodeNamespace(item)}); });
  objects["localQueues"].ForEach(
      [&](JsonValue item) { engine_.Apply(engine::LocalQueueChanged{controller::DecodeLocalQueue(item)}); });
  objects["workloads"].ForEach([&](JsonValue item) { AddWorkload(item); });
}

void Driver::AddWorkload(JsonValue object) {
  engine::Workload workload = controller::DecodeWorkloadObject(object, {}, &shapes_);
  uids_[workload.name] = workload.uid;
  names_[workload.uid] = workload.name;
  const JsonValue admission = object["status"]["admission"];
  if (admission.present()) {
    engine::HeldClaim held;
    held.id = {kLoadedEpoch, ++loaded_claims_};
    held.state = engine::ClaimState::kActive;
    held.admission = controller::DecodeAdmission(admission);
    const std::vector<k8s::Condition> conditions = k8s::DecodeConditions(object["status"]["conditions"]);
    if (const k8s::Condition* reserved = k8s::FindCondition(conditions, "QuotaReserved")) {
      held.reserved_at = reserved->last_transition;
    }
    workload.held = std::move(held);
  }
  engine_.Apply(engine::WorkloadChanged{std::move(workload)});
}

void Driver::UpdateClusterQueue(JsonValue value) {
  engine::ClusterQueue queue = controller::DecodeClusterQueue(value);
  queue.name = value["name"].String();
  queue.generation = ++generations_[queue.name];
  engine_.Apply(engine::ClusterQueueChanged{std::move(queue)});
}

void Driver::UpdateLocalQueue(JsonValue value) {
  engine::LocalQueue queue = controller::DecodeLocalQueue(value);
  queue.name = value["name"].String();
  queue.ns = value["namespace"].String();
  engine_.Apply(engine::LocalQueueChanged{std::move(queue)});
}

void Driver::Finish(const std::string& name) {
  const auto uid = uids_.find(name);
  if (uid == uids_.end()) return;
  engine_.Apply(engine::WorkloadDeleted{uid->second});
  names_.erase(uid->second);
  uids_.erase(uid);
}

void Driver::ApplyAction(JsonValue action) {
  action.ForEachField([&](std::string_view kind, JsonValue value) {
    if (kind == "finishWorkload" || kind == "deleteWorkload") {
      Finish(value.String());
    } else if (kind == "createWorkload") {
      AddWorkload(value);
    } else if (kind == "updateClusterQueue") {
      UpdateClusterQueue(value);
    } else if (kind == "updateLocalQueue") {
      UpdateLocalQueue(value);
    } else if (kind == "createResourceFlavor") {
      engine_.Apply(engine::FlavorChanged{controller::DecodeResourceFlavor(value)});
    } else {
      value.Fail("is not a known action");
    }
  });
}

void Driver::Answer(const engine::Decision& decision) {
  if (const auto* admit = std::get_if<engine::Admit>(&decision)) {
    engine_.Apply(engine::ClaimWritten{admit->uid, admit->claim});
    engine_.Apply(engine::ClaimActive{admit->uid, admit->claim});
  } else if (const auto* evict = std::get_if<engine::Evict>(&decision)) {
    evicted_.insert(EvictionLine(NameOf(evict->uid), ReasonText(evict->reason), NameOf(evict->preemptor_uid)));
    engine_.Apply(engine::ClaimLeaving{evict->uid, evict->claim});
    engine_.Apply(engine::ClaimGone{evict->uid, evict->claim});
  }
}

void Driver::Settle(const std::string& step) {
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    now_ = now_ + std::chrono::seconds(1);
    const engine::PassResult result = engine_.RunPass(now_);
    for (const engine::Decision& decision : result.decisions) {
      Answer(decision);
      if (trace_ != nullptr) Trace(step + " pass " + std::to_string(pass + 1), decision);
    }
    if (!result.more) return;
  }
  differences_->push_back(step + ": did not come to rest");
}

void Driver::Trace(const std::string& pass, const engine::Decision& decision) {
  if (const auto* admit = std::get_if<engine::Admit>(&decision)) {
    trace_->push_back(pass + ": admit " + AdmissionLine(NameOf(admit->uid), admit->admission));
  } else if (const auto* evict = std::get_if<engine::Evict>(&decision)) {
    trace_->push_back(pass + ": evict " + EvictionLine(NameOf(evict->uid), ReasonText(evict->reason), ""));
  } else if (const auto* hold = std::get_if<engine::Hold>(&decision)) {
    std::string line =
        pass + ": hold " + NameOf(hold->uid) + " code " + std::to_string(int{static_cast<uint8_t>(hold->reason.code)});
    for (const engine::Obstacle& obstacle : hold->reason.obstacles) {
      line += "; " + std::to_string(int{static_cast<uint8_t>(obstacle.kind)}) + " " + obstacle.pod_set + " " +
              obstacle.flavor + " " + obstacle.resource + " " + obstacle.object;
    }
    trace_->push_back(std::move(line));
  }
}

void Driver::RunStep(JsonValue step, int64_t index) {
  const std::string prefix = "step " + std::to_string(index);
  now_ = std::max(now_, step["time"].Time());
  evicted_.clear();
  step["actions"].ForEach([&](JsonValue action) { ApplyAction(action); });
  Settle(prefix);
  engine_.Validate();
  CompareStep(step, prefix);
}

Lines Driver::ExpectedAdmitted(JsonValue admitted) const {
  Lines lines;
  admitted.ForEachField([&](std::string_view name, JsonValue value) {
    engine::Admission admission;
    admission.cluster_queue = value["clusterQueue"].String();
    value["podSets"].ForEach([&](JsonValue item) {
      engine::PodSetAssignment pod_set;
      pod_set.name = item["name"].String();
      pod_set.count = item["count"].Count();
      for (const auto& [resource, flavor] : item["flavors"].Map()) pod_set.flavors.emplace_back(resource, flavor);
      admission.pod_sets.push_back(std::move(pod_set));
    });
    lines.insert(AdmissionLine(std::string(name), admission));
  });
  return lines;
}

Lines Driver::ExpectedUsage(JsonValue usage) const {
  Lines lines;
  usage.ForEachField([&](std::string_view queue, JsonValue flavors) {
    flavors.ForEachField([&](std::string_view flavor, JsonValue resources) {
      resources.ForEachField([&](std::string_view resource, JsonValue quantity) {
        lines.insert(UsageLine(queue, flavor, resource, controller::DecodeAmount(quantity, resource)));
      });
    });
  });
  return lines;
}

void Driver::CompareStep(JsonValue step, const std::string& prefix) {
  Lines admitted;
  for (const auto& [name, uid] : uids_) {
    const std::optional<engine::WorkloadView> view = engine_.ViewWorkload(uid);
    if (view.has_value() && view->place == engine::WorkloadView::Place::kHolding) {
      admitted.insert(AdmissionLine(name, view->admission));
    }
  }
  Compare(prefix + " admitted", ExpectedAdmitted(step["admitted"]), admitted, differences_);
  Lines evicted;
  step["evicted"].ForEach([&](JsonValue item) {
    evicted.insert(EvictionLine(item["workload"].String(), item["reason"].String(), item["preemptor"].String()));
  });
  Compare(prefix + " evicted", evicted, evicted_, differences_);
  Lines usage;
  for (const std::string& queue : engine_.ClusterQueueNames()) {
    for (const engine::FlavorUsage& entry : engine_.ViewClusterQueue(queue).usage) {
      if (entry.reserved == Amount{0}) continue;
      usage.insert(UsageLine(queue, entry.flavor, entry.resource, entry.reserved));
    }
  }
  Compare(prefix + " usage", ExpectedUsage(step["usage"]), usage, differences_);
}

std::string Driver::NameOf(const std::string& uid) const {
  const auto it = names_.find(uid);
  return it == names_.end() ? uid : it->second;
}

}  // namespace

void RunSchedulingCase(JsonValue root, std::vector<std::string>* differences, std::vector<std::string>* trace) {
  Driver driver(differences, trace);
  driver.Load(root["objects"]);
  int64_t index = 0;
  root["steps"].ForEach([&](JsonValue step) { driver.RunStep(step, index++); });
}

}  // namespace muster::cli
