#include "conformance_driver.h"

#include <algorithm>
#include <tuple>

#include "muster/controller/decode.h"
#include "muster/core/quantity.h"

namespace muster::cli {

using k8s::JsonValue;

namespace {

// No recorded step takes as many passes; the reference's own driver stopped at 120.
constexpr int kMaxPasses = 1000;
// Ids of claims that exist from the start; no engine gives this epoch.
constexpr uint64_t kLoadedEpoch = 1'000'000;

// "level/level: value/value=2 value/value=1".
std::string TopologyText(const gang::TopologyAssignment& assignment) {
  const auto join = [](const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) text.append(text.empty() ? "" : "/").append(part);
    return text;
  };
  std::string text = join(assignment.levels) + ":";
  for (const gang::TopologyDomain& domain : assignment.domains) {
    text.append(" ").append(join(domain.values)).append("=").append(std::to_string(domain.count));
  }
  return text;
}

}  // namespace

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
    case engine::EvictionReason::kNodeFailures:
      return "NodeFailures";
    case engine::EvictionReason::kDefragmentation:
      return "Defragmentation";
  }
  return "";
}

std::string AdmissionLine(const std::string& workload, const engine::Admission& admission) {
  std::string line = workload + " in " + admission.cluster_queue;
  for (const engine::PodSetAssignment& pod_set : admission.pod_sets) {
    line += ", " + std::to_string(pod_set.count) + " of " + pod_set.name;
    for (const auto& [resource, flavor] : pod_set.flavors) line.append(" ").append(resource).append("=").append(flavor);
    if (pod_set.topology.has_value()) line += " at " + TopologyText(*pod_set.topology);
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

void ConformanceDriver::Load(JsonValue objects) {
  objects["topologies"].ForEach(
      [&](JsonValue item) { ApplyObject(engine::TopologyChanged{controller::DecodeTopology(item)}); });
  objects["nodes"].ForEach([&](JsonValue item) { ApplyObject(engine::NodeChanged{controller::DecodeNode(item)}); });
  objects["pods"].ForEach([&](JsonValue item) { SetPod(item); });
  objects["resourceFlavors"].ForEach(
      [&](JsonValue item) { ApplyObject(engine::FlavorChanged{controller::DecodeResourceFlavor(item)}); });
  objects["cohorts"].ForEach(
      [&](JsonValue item) { ApplyObject(engine::CohortChanged{controller::DecodeCohort(item)}); });
  objects["clusterQueues"].ForEach(
      [&](JsonValue item) { ApplyObject(engine::ClusterQueueChanged{controller::DecodeClusterQueue(item)}); });
  objects["namespaces"].ForEach(
      [&](JsonValue item) { ApplyObject(engine::NamespaceChanged{controller::DecodeNamespace(item)}); });
  objects["localQueues"].ForEach([&](JsonValue item) {
    engine::LocalQueue queue = controller::DecodeLocalQueue(item);
    stopped_[queue.name] = queue.stop_policy;
    ApplyObject(engine::LocalQueueChanged{std::move(queue)});
  });
  objects["workloads"].ForEach([&](JsonValue item) { AddWorkload(item); });
  broken_from_the_start_ = FaultOf(Loaded()).has_value();
}

std::optional<std::string> ConformanceDriver::FaultOf(const std::map<std::string, engine::Admission>& admissions) {
  PlaceJudge::Admissions known;
  for (const auto& [name, admission] : admissions) {
    const auto uid = uids_.find(name);
    if (uid != uids_.end()) known.emplace_back(&workloads_.at(uid->second), admission);
  }
  return judge_.FaultOf(known);
}

std::map<std::string, engine::Admission> ConformanceDriver::Loaded() const {
  std::map<std::string, engine::Admission> loaded;
  for (const auto& [uid, workload] : workloads_) {
    if (workload.held.has_value()) loaded[workload.name] = workload.held->admission;
  }
  return loaded;
}

void ConformanceDriver::SetPod(JsonValue pod) {
  if (auto placed = controller::DecodePlacedPod(pod)) ApplyObject(*std::move(placed));
}

void ConformanceDriver::AddRoom(const engine::Workload& workload) {
  if (!options_.machines) return;
  for (const engine::Event& event : objects_) {
    const auto* changed = std::get_if<engine::FlavorChanged>(&event);
    if (changed != nullptr) flavors_[changed->flavor.name] = changed->flavor;
  }
  for (const engine::PodSet& pod_set : workload.pod_sets) {
    for (const auto& [name, flavor] : flavors_) {
      gang::Node node;
      node.name = "room-" + name + "-" + workload.name + "-" + pod_set.name;
      node.labels = flavor.node_labels;
      node.labels.insert(pod_set.shape->node_selector.begin(), pod_set.shape->node_selector.end());
      node.ready = true;
      node.allocatable["pods"] = Amount::Unlimited();
      for (const auto& [resource, amount] : pod_set.shape->OnNode()) node.allocatable[resource] = Amount::Unlimited();
      ApplyObject(engine::NodeChanged{std::move(node)});
    }
  }
}

void ConformanceDriver::AddWorkload(JsonValue object) {
  engine::Workload workload = controller::DecodeWorkloadObject(object, {}, &shapes_);
  AddRoom(workload);
  uids_[workload.name] = workload.uid;
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
  workloads_[workload.uid] = workload;
  Tell(engine::WorkloadChanged{std::move(workload)});
}

void ConformanceDriver::UpdateClusterQueue(JsonValue value) {
  engine::ClusterQueue queue = controller::DecodeClusterQueue(value);
  queue.name = value["name"].String();
  queue.generation = ++generations_[queue.name];
  ApplyObject(engine::ClusterQueueChanged{std::move(queue)});
}

void ConformanceDriver::UpdateLocalQueue(JsonValue value) {
  engine::LocalQueue queue = controller::DecodeLocalQueue(value);
  queue.name = value["name"].String();
  queue.ns = value["namespace"].String();
  stopped_[queue.name] = queue.stop_policy;
  ApplyObject(engine::LocalQueueChanged{std::move(queue)});
}

void ConformanceDriver::Finish(const std::string& name) {
  const auto uid = uids_.find(name);
  if (uid == uids_.end()) return;
  Tell(engine::WorkloadDeleted{uid->second});
  workloads_.erase(uid->second);
  victims_of_.erase(uid->second);
  last_evictions_.erase(uid->second);
  uids_.erase(uid);
}

void ConformanceDriver::ApplyAction(JsonValue action) {
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
      ApplyObject(engine::FlavorChanged{controller::DecodeResourceFlavor(value)});
    } else if (kind == "createNode" || kind == "updateNode") {
      ApplyObject(engine::NodeChanged{controller::DecodeNode(value)});
    } else if (kind == "deletePod") {
      ApplyObject(engine::PodGone{value.String()});
    } else {
      value.Fail("is not a known action");
    }
  });
}

void ConformanceDriver::Answer(const engine::Decision& decision) {
  if (const auto* admit = std::get_if<engine::Admit>(&decision)) {
    victims_of_.erase(admit->uid);
    last_evictions_.erase(admit->uid);
    engine_.Apply(engine::ClaimWritten{admit->uid, admit->claim});
    engine_.Apply(engine::ClaimActive{admit->uid, admit->claim});
  } else if (const auto* evict = std::get_if<engine::Evict>(&decision)) {
    NoteEvicted(*evict);
    engine_.Apply(engine::ClaimLeaving{evict->uid, evict->claim});
    engine_.Apply(engine::ClaimGone{evict->uid, evict->claim});
  }
}

// Does it start, or lose to another, while somebody waits for his victims whom it comes after? Or is it decided on at
// all while somebody waits so in another tree, for places?
void ConformanceDriver::NoteContender(const engine::Decision& decision) {
  std::string uid;
  if (const auto* admit = std::get_if<engine::Admit>(&decision)) uid = admit->uid;
  if (const auto* hold = std::get_if<engine::Hold>(&decision);
      hold != nullptr && !hold->reason.obstacles.empty() &&
      hold->reason.obstacles.front().kind == engine::ObstacleKind::kLostToAnother) {
    uid = hold->uid;
  }
  if (const auto* evict = std::get_if<engine::Evict>(&decision)) NoteContenderForPlaces(evict->preemptor_uid);
  if (uid.empty()) return;
  NoteContenderForPlaces(uid);
  const auto key = [this](const std::string& of) {
    const engine::Workload& workload = workloads_.at(of);
    return std::tuple(-int64_t{workload.priority}, workload.queue_time, of);
  };
  for (const auto& [preemptor, victims] : victims_of_) {
    if (preemptor != uid && (victims.contains(uid) || key(preemptor) < key(uid))) room_mattered_ = true;
  }
}

void ConformanceDriver::NoteContenderForPlaces(const std::string& uid) {
  if (!watch_.LooksInTopologies(uid)) return;
  for (const auto& [preemptor, victims] : victims_of_) {
    if (watch_.LooksInTopologies(preemptor) && watch_.TreeOf(preemptor) != watch_.TreeOf(uid)) room_mattered_ = true;
  }
}

void ConformanceDriver::NoteEvicted(const engine::Evict& evict) {
  evicted_.insert(EvictionLine(NameOf(evict.uid), ReasonText(evict.reason), NameOf(evict.preemptor_uid)));
  const auto stopped = stopped_.find(workloads_.at(evict.uid).local_queue);
  if (evict.reason == engine::EvictionReason::kClusterQueueStopped && stopped != stopped_.end() &&
      stopped->second == engine::StopPolicy::kHold) {
    drained_on_hold_.insert(NameOf(evict.uid));
  }
  preempted_.emplace(evict.preemptor_uid, evict.uid);
  last_evictions_[evict.uid] = {now_, evict.preemptor_uid};
  if (evict.preemptor_uid.empty() || victims_of_[evict.preemptor_uid].insert(evict.uid).second) return;
  repeated_.push_back(NameOf(evict.uid) + " is evicted once more for " + NameOf(evict.preemptor_uid));
}

void ConformanceDriver::Settle(const std::string& step) {
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    now_ = now_ + std::chrono::seconds(1);
    watch_.BeforePass();
    pass_judge_.BeforePass(engine_, now_);
    const engine::PassResult result = engine_.RunPass(now_);
    watch_.AfterPass(result.decisions);
    pass_judge_.AfterPass(result.decisions);
    for (const engine::Decision& decision : result.decisions) NoteContender(decision);
    for (const engine::Decision& decision : result.decisions) {
      Answer(decision);
      if (trace_ != nullptr) Trace(step + " pass " + std::to_string(pass + 1), decision);
    }
    if (!result.more) pass_judge_.AtRest();
    if (!pass_judge_.faults().empty() && violations_.empty()) {
      for (const std::string& fault : pass_judge_.faults()) {
        violations_.push_back(step + ", pass " + std::to_string(pass + 1) + ": " + fault);
      }
    }
    if (!result.more) return;
  }
  violations_.push_back(step + ": did not come to rest");
}

void ConformanceDriver::Trace(const std::string& pass, const engine::Decision& decision) {
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

bool ConformanceDriver::IsDueBefore(JsonValue step) const {
  return engine_.NextDue().IsSet() && engine_.NextDue() <= step["time"].Time();
}

// In order, the last of each object is what it is now.
void ConformanceDriver::ApplyObject(engine::Event event) {
  judge_.Apply(event);
  Tell(event);
  objects_.push_back(std::move(event));
}

void ConformanceDriver::Tell(const engine::Event& event) {
  pass_judge_.Apply(event);
  engine_.Apply(event);
}

bool ConformanceDriver::LosesToHead(const std::string& uid) const {
  const std::optional<engine::WorkloadView> view = engine_.ViewWorkload(uid);
  if (!view.has_value() || engine::WaitCodeOf(view->reason) != engine::WaitCode::kLostToAnother) return false;
  return std::any_of(view->reason.blockers.begin(), view->reason.blockers.end(),
                     [this](const engine::Blocker& blocker) {
                       const std::optional<engine::WorkloadView> head = engine_.ViewWorkload(blocker.uid);
                       return head.has_value() && head->place == engine::WorkloadView::Place::kActive;
                     });
}

void ConformanceDriver::CheckRest(const std::string& step, bool preemptions) {
  for (int i = 0; i < kMaxPasses && engine_.NextDue().IsSet(); ++i) {
    now_ = std::max(now_, engine_.NextDue());
    Settle(step + " after a while");
  }
  engine_.Validate();
  engine::EngineOptions options = options_;
  options.epoch = kLoadedEpoch + 1;
  engine::EngineSet anew(options);
  for (const engine::Event& event : objects_) anew.Apply(event);
  for (const auto& [uid, workload] : workloads_) {
    engine::Workload object = workload;
    const std::optional<engine::WorkloadView> view = engine_.ViewWorkload(uid);
    if (view.has_value() && view->place == engine::WorkloadView::Place::kHolding) {
      object.held = engine::HeldClaim{view->claim, view->claim_state, view->admission, view->reserved_at};
    } else if (const auto eviction = last_evictions_.find(uid); eviction != last_evictions_.end()) {
      object.last_eviction = eviction->second;
    }
    anew.Apply(engine::WorkloadChanged{std::move(object)});
  }
  for (const engine::Decision& decision : anew.Decide(now_)) {
    if (const auto* admit = std::get_if<engine::Admit>(&decision)) {
      if (LosesToHead(admit->uid)) continue;
      violations_.push_back(step + ": waits although it fits: " + AdmissionLine(NameOf(admit->uid), admit->admission));
    } else if (const auto* evict = std::get_if<engine::Evict>(&decision)) {
      if (!preemptions && !evict->preemptor_uid.empty()) continue;
      if (preempted_.contains({evict->preemptor_uid, evict->uid})) continue;
      violations_.push_back(step + ": still to be evicted: " +
                            EvictionLine(NameOf(evict->uid), ReasonText(evict->reason), NameOf(evict->preemptor_uid)));
    }
  }
}

// What the admitted ask for, pod by pod, where they were given it.
Lines ConformanceDriver::UsageOf(const std::map<std::string, engine::Admission>& admissions) const {
  std::map<std::tuple<std::string, std::string, std::string>, Amount> sums;  // ClusterQueue, flavor, resource
  for (const auto& [name, admission] : admissions) {
    const engine::Workload& workload = workloads_.at(uids_.at(name));
    for (const engine::PodSetAssignment& assigned : admission.pod_sets) {
      const auto pod_set =
          std::find_if(workload.pod_sets.begin(), workload.pod_sets.end(),
                       [&](const engine::PodSet& candidate) { return candidate.name == assigned.name; });
      if (pod_set == workload.pod_sets.end()) continue;
      for (const auto& [resource, flavor] : assigned.flavors) {
        Amount& sum = sums[{admission.cluster_queue, flavor, resource}];
        for (const auto& [requested, amount] : pod_set->shape->requests) {
          if (requested == resource && resource != "pods") sum += amount * assigned.count;
        }
        if (resource == "pods") sum += Amount{assigned.count};
      }
    }
  }
  Lines lines;
  for (const auto& [key, amount] : sums) {
    const auto& [queue, flavor, resource] = key;
    if (amount != Amount{0}) lines.insert(UsageLine(queue, flavor, resource, amount));
  }
  return lines;
}

Outcome ConformanceDriver::RunStep(JsonValue step, const std::string& prefix) {
  now_ = std::max(now_, step["time"].Time());
  evicted_.clear();
  preempted_.clear();
  step["actions"].ForEach([&](JsonValue action) { ApplyAction(action); });
  Settle(prefix);
  engine_.Validate();
  Outcome outcome;
  outcome.evicted = evicted_;
  std::map<std::string, engine::Admission> admissions;
  for (const auto& [name, uid] : uids_) {
    const std::optional<engine::WorkloadView> view = engine_.ViewWorkload(uid);
    if (view.has_value() && view->place == engine::WorkloadView::Place::kHolding) {
      outcome.admitted.insert(AdmissionLine(name, view->admission));
      admissions.emplace(name, view->admission);
    }
  }
  const std::optional<std::string> fault = FaultOf(admissions);
  if (fault.has_value() && !broken_from_the_start_) violations_.push_back(prefix + " breaks: " + *fault);
  for (const std::string& queue : engine_.ClusterQueueNames()) {
    for (const engine::FlavorUsage& entry : engine_.ViewClusterQueue(queue).usage) {
      if (entry.reserved == Amount{0}) continue;
      outcome.usage.insert(UsageLine(queue, entry.flavor, entry.resource, entry.reserved));
    }
  }
  if (outcome.usage != UsageOf(admissions)) violations_.push_back(prefix + ": usage is not what the admitted ask for");
  return outcome;
}

std::string ConformanceDriver::NameOf(const std::string& uid) const {
  const auto it = workloads_.find(uid);
  return it == workloads_.end() ? uid : it->second.name;
}

}  // namespace muster::cli
