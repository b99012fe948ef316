#include "rest.h"

#include <prometheus/metric_family.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace muster::sim_campaign {
namespace {

constexpr const char* kQueueName = "kueue.x-k8s.io/queue-name";
constexpr const char* kRecord = "muster.dev/admission";
constexpr const char* kMinParallelism = "kueue.x-k8s.io/job-min-parallelism";
constexpr const char* kFlavorLabel = "muster.dev/flavor";
// What is decided by a cache that is behind leaves within 2 s of the decision; this is how far behind it may be where
// no watch stalls, and 10 s more for a write that has to be made again.
constexpr Duration kLateMax = std::chrono::seconds(100);
// Of Workloads of elastic Jobs, which another has replaced.
constexpr const char* kReplaced = "True/WorkloadSliceReplaced";
// Why one waits that was looked at.
const std::vector<std::string> kLookedAt = {"WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor", "Misconfigured",
                                            "TopologyPlacementFailed"};
const std::vector<std::string> kResources = {"cpu", "nvidia.com/gpu"};

std::string NameOf(const Json& object) {
  const std::string ns = Text(At(object, "metadata", "namespace"));
  const std::string name = Text(At(object, "metadata", "name"));
  return ns.empty() ? name : ns + "/" + name;
}

std::map<std::string, Json> ByName(const std::vector<Json>& objects) {
  std::map<std::string, Json> out;
  for (const Json& object : objects) out[NameOf(object)] = object;
  return out;
}

std::string Condition(const Json& object, const std::string& type) {
  const Json& condition = sim::FindCondition(At(object, "status", "conditions"), type);
  return condition.is_null() ? "" : Text(Get(condition, "status")) + "/" + Text(Get(condition, "reason"));
}

int64_t RequestOf(const Json& job, const std::string& resource) {
  const Json& requests = At(job, "spec", "template", "spec")["containers"][0]["resources"]["requests"];
  return std::stoll(Text(Get(requests, resource), "0"));
}

}  // namespace

int64_t PodsOf(const Json& job) {
  const int64_t parallelism = Number(At(job, "spec", "parallelism"), 1);
  return std::min(parallelism, Number(At(job, "spec", "completions"), parallelism));
}

std::optional<double> Sample(const std::vector<prometheus::MetricFamily>& families, const std::string& name,
                             const std::map<std::string, std::string>& labels) {
  std::optional<double> sum;
  for (const prometheus::MetricFamily& family : families) {
    if (family.name != name) continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      size_t found = 0;
      for (const auto& label : metric.label) {
        const auto wanted = labels.find(label.name);
        found += wanted != labels.end() && wanted->second == label.value ? 1 : 0;
      }
      if (found == labels.size()) sum = sum.value_or(0) + metric.gauge.value;
    }
  }
  return sum;
}

Rest::Rest(const Cluster* cluster, const std::set<std::string>& without_workload, const Places* places)
    : cluster_(cluster), without_workload_(without_workload), places_(places) {
  ReadObjects();
}

void Rest::ReadObjects() {
  queues_ = ByName(cluster_->List("clusterqueues"));
  local_queues_ = ByName(cluster_->List("localqueues"));
  flavors_ = ByName(cluster_->List("resourceflavors"));
  namespaces_ = ByName(cluster_->List("namespaces"));
  for (const Json& workload : cluster_->List("workloads")) {
    std::string owner;
    for (const Json& reference : At(workload, "metadata", "ownerReferences")) owner = Text(Get(reference, "uid"));
    workloads_[owner].push_back(workload);
  }
  for (const Json& line : cluster_->job_lines()) {
    if (Text(Get(line, "type")) == "ADDED") made_[Text(At(line, "object", "metadata", "uid"))] = line["object"];
  }
  for (const auto& [name, queue] : queues_) tree_.AddQueue(name, scenarios::QuotaTree::Read(queue));
  for (const Json& cohort : cluster_->List("cohorts")) {
    tree_.AddCohort(NameOf(cohort), scenarios::QuotaTree::Read(cohort));
  }
  tree_.SetUsage(&usage_);
}

std::vector<std::string> Rest::Findings() {
  for (const Json& job : cluster_->List("jobs")) LookAtJob(job);
  LookAtOrphans();
  LookAtReasons();
  RecountQueues();
  RecountMetrics();
  const Process* leader = cluster_->Leader();
  leader->controller->engine()->Validate();
  for (const std::string& problem : leader->controller->health().problems) {
    if (places_ == nullptr || !places_->Explains(problem)) Report("a standing problem: " + problem);
  }
  if (places_ != nullptr) {
    for (const std::string& finding : places_->Findings(*leader)) Report(finding);
  }
  return findings_;
}

// ---- Jobs ---------------------------------------------------------------------------------------

void Rest::LookAtJob(const Json& job) {
  const std::string name = "Job " + NameOf(job);
  if (!At(job, "metadata", "deletionTimestamp").is_null()) return Report(name + " is still being deleted");
  const bool ended = sim::HasCondition(job, "Complete") || sim::HasCondition(job, "Failed");
  const std::string uid = Text(At(job, "metadata", "uid"));
  const auto it = workloads_.find(uid);
  if (it == workloads_.end()) {
    // What ended while nobody led may have had none yet.
    if (!ended || (cluster_->deaths() == 0 && !without_workload_.contains(uid))) Report(name + " has no Workload");
    return;
  }
  std::vector<Json> now = it->second;
  std::erase_if(now, [](const Json& workload) { return Condition(workload, "Finished") == kReplaced; });
  if (now.size() != 1) return Report(name + " has " + std::to_string(now.size()) + " Workloads");
  const Json& workload = now[0];
  if (ended) {
    LookAtEnd(name, workload);
  } else if (Flag(At(job, "spec", "suspend"))) {
    LookAtWaiting(name, job, workload);
  } else {
    LookAtRunning(name, job, workload);
  }
}

void Rest::LookAtEnd(const std::string& name, const Json& workload) {
  if (!sim::HasCondition(workload, "Finished")) Report(name + " has ended, and its Workload has not");
}

void Rest::LookAtRunning(const std::string& name, const Json& job, const Json& workload) {
  const Json record = sim::ParseJson(Text(At(job, "metadata", "annotations", kRecord))).value_or(Json());
  if (!Chaos::IsEndless(job)) Report(name + " has not ended: " + Get(job, "status").dump());
  if (Text(Get(record, "state")) != "started") return Report(name + " runs without a record");
  if (Number(At(job, "status", "active")) != PodsOf(job)) Report(name + " runs in part: " + Get(job, "status").dump());
  if (!sim::HasCondition(workload, "Admitted") || !sim::HasCondition(workload, "QuotaReserved")) {
    Report(name + " runs, and its Workload is not admitted: " + Get(workload, "status").dump());
  }
  if (sim::HasCondition(workload, "Evicted") || sim::HasCondition(workload, "Finished")) {
    Report(name + " runs, and its Workload says otherwise: " + Get(workload, "status").dump());
  }
  const int64_t pods = Chaos::IsElastic(job) ? LookAtSize(name, job, workload, record) : PodsOf(job);
  const std::string queue = Text(Get(record, "clusterQueue"));
  for (const auto& [resource, flavor] : record["podSets"][0]["flavors"].items()) {
    usage_[queue][Text(flavor) + "/" + resource] += RequestOf(job, resource) * pods;
  }
  ++by_queue_[queue].holding;
  ++by_local_queue_[Text(At(job, "metadata", "namespace")) + "/" + Text(At(job, "metadata", "labels", kQueueName))]
        .holding;
}

// Those pods run that are admitted, and the others are held. RETURNS: how many are admitted.
int64_t Rest::LookAtSize(const std::string& name, const Json& job, const Json& workload, const Json& record) {
  const int64_t admitted = Number(Get(record["podSets"][0], "count"));
  const int64_t more = PodsOf(job) - admitted;
  if (more < 0) Report(name + " has fewer pods than its record");
  int64_t free = 0;
  for (const Json& pod : cluster_->List("pods")) {
    const Json& owners = At(pod, "metadata", "ownerReferences");
    const bool own = !owners.empty() && Get(owners[0], "uid") == At(job, "metadata", "uid");
    free += own && At(pod, "spec", "schedulingGates").empty() && !sim::HasEnded(pod) ? 1 : 0;
  }
  if (free != admitted) {
    Report(name + " runs with " + std::to_string(free) + " pods, and " + std::to_string(admitted) + " are admitted");
  }
  if (Number(At(workload, "status", "admission", "podSetAssignments")[0]["count"]) != admitted) {
    Report(name + ": its Workload tells of another size: " + Get(workload, "status").dump());
  }
  if (sim::HasCondition(workload, "muster.dev/Waiting") != (more > 0)) {
    Report(name + " waits for " + std::to_string(more) +
           " more pods, and its Workload says otherwise: " + Get(workload, "status").dump());
  }
  if (more <= 0) return admitted;
  ++waiting_;
  Waiting waiting{job, workload, name, "", ""};
  waiting.local_queue = Text(At(job, "metadata", "namespace")) + "/" + Text(Get(record, "localQueue"));
  const auto local = local_queues_.find(waiting.local_queue);
  if (local != local_queues_.end()) waiting.cluster_queue = Text(At(local->second, "spec", "clusterQueue"));
  waiting.more_pods = more;
  for (const auto& [resource, flavor] : record["podSets"][0]["flavors"].items()) {
    waiting.more[Text(flavor) + "/" + resource] += RequestOf(job, resource) * more;
  }
  if (WhyNotQueued(waiting).empty()) {
    ++by_queue_[waiting.cluster_queue].pending;
    ++by_local_queue_[waiting.local_queue].pending;
    if (IsStrict(waiting.cluster_queue)) ++strict_[waiting.cluster_queue];
    growing_.push_back(std::move(waiting));
  }
  return admitted;
}

void Rest::LookAtWaiting(const std::string& name, const Json& job, const Json& workload) {
  ++waiting_;
  if (Number(At(job, "status", "active")) != 0) Report(name + " waits with pods");
  if (At(job, "metadata", "annotations").contains(kRecord)) Report(name + " waits with a record");
  const Json& made = made_[Text(At(job, "metadata", "uid"))];
  if (At(made, "spec", "template") != At(job, "spec", "template")) {
    Report(name + " waits with another template than it was made with: " + At(job, "spec", "template").dump());
  }
  if (At(made, "metadata", "annotations").contains(kMinParallelism) &&
      At(made, "spec", "parallelism") != At(job, "spec", "parallelism")) {
    Report(name + " waits with fewer pods than it was made with");
  }
  if (sim::HasCondition(workload, "Admitted") || sim::HasCondition(workload, "QuotaReserved") ||
      sim::HasCondition(workload, "Finished")) {
    Report(name + " waits, and its Workload says otherwise: " + Get(workload, "status").dump());
  }
  Waiting waiting{job, workload, name, "", ""};
  waiting.local_queue = Text(At(job, "metadata", "namespace")) + "/" + Text(At(job, "metadata", "labels", kQueueName));
  if (!Flag(At(workload, "spec", "active"), true)) {
    if (!TellsDeactivation(job, workload)) {
      Report(name + " is deactivated, and its Workload says otherwise: " + Get(workload, "status").dump());
    }
    return;
  }
  const auto local = local_queues_.find(waiting.local_queue);
  if (local != local_queues_.end()) waiting.cluster_queue = Text(At(local->second, "spec", "clusterQueue"));
  const std::string reason = WhyNotQueued(waiting);
  if (!queues_.contains(waiting.cluster_queue) && local != local_queues_.end()) {
    ++by_local_queue_[waiting.local_queue].pending;
  }
  if (!reason.empty()) {
    if (Condition(workload, "QuotaReserved") != "False/" + reason) {
      Report(name + " should wait as " + reason + ": " + Get(workload, "status").dump());
    }
    return;
  }
  ++by_queue_[waiting.cluster_queue].pending;
  ++by_local_queue_[waiting.local_queue].pending;
  if (IsStrict(waiting.cluster_queue)) ++strict_[waiting.cluster_queue];
  queued_.push_back(std::move(waiting));
}

// Whoever is deactivated is evicted for it, unless it was evicted for something else already (kueue_semantics 7.3):
// that was told while it was active; or it was decided before Muster could know of the deactivation, and then the
// record of the stop names it, or it was told soon, where there was no gang to stop.
bool Rest::TellsDeactivation(const Json& job, const Json& workload) const {
  const std::string evicted = Condition(workload, "Evicted");
  if (!evicted.starts_with("True/") || Condition(workload, "QuotaReserved") != "False/Deactivated") return false;
  if (evicted.starts_with("True/Deactivated")) return true;
  const Cluster::EvictionTold& told = cluster_->eviction_told(Text(At(workload, "metadata", "uid")));
  if (told.active || told.late <= kLateMax) return true;
  std::string stopped;  // for what it was last
  for (const Json& line : cluster_->job_lines()) {
    if (At(line, "object", "metadata", "uid") != At(job, "metadata", "uid")) continue;
    const Json record = sim::ParseJson(Text(At(line, "object", "metadata", "annotations", kRecord))).value_or(Json());
    if (Text(Get(record, "state")) == "stopped") stopped = Text(At(record, "eviction", "reason"));
  }
  return evicted == "True/" + stopped;
}

// Why it is in no queue; empty: it is.
std::string Rest::WhyNotQueued(const Waiting& waiting) const {
  const auto local = local_queues_.find(waiting.local_queue);
  if (local == local_queues_.end()) return "Misconfigured";
  if (Text(At(local->second, "spec", "stopPolicy"), "None") != "None") return "Suspended";
  return queues_.contains(waiting.cluster_queue) ? "" : "Misconfigured";
}

bool Rest::IsInactive(const std::string& cluster_queue) const {
  const Json& spec = Get(queues_.at(cluster_queue), "spec");
  if (Text(Get(spec, "stopPolicy"), "None") != "None" || tree_.OnCycle(cluster_queue)) return true;
  const Json& flavors = spec["resourceGroups"][0]["flavors"];
  return std::any_of(flavors.begin(), flavors.end(),
                     [this](const Json& flavor) { return !flavors_.contains(Text(Get(flavor, "name"))); });
}

bool Rest::IsStrict(const std::string& cluster_queue) const {
  return Text(At(queues_.at(cluster_queue), "spec", "queueingStrategy")) == "StrictFIFO";
}

std::string Rest::RootOf(const std::string& cluster_queue) const {
  std::string root = Text(At(queues_.at(cluster_queue), "spec", "cohortName"));
  if (root.empty()) return "ClusterQueue " + cluster_queue;
  std::set<std::string> seen;
  while (seen.insert(root).second) {
    const std::string parent = Text(At(cluster_->Find("cohorts", "", root), "spec", "parentName"));
    if (parent.empty()) break;
    root = parent;
  }
  return root;
}

Rest::Room Rest::RoomFor(const Waiting& waiting) const {
  const Json& job = waiting.job;
  const int64_t pods = IsPartial(waiting) ? 1 : PodsOf(job);
  const std::string wanted =
      Text(At(made_.at(Text(At(job, "metadata", "uid"))), "spec", "template", "spec", "nodeSelector", kFlavorLabel));
  Room room;
  const Json& spec = Get(queues_.at(waiting.cluster_queue), "spec");
  for (const Json& flavor : spec["resourceGroups"][0]["flavors"]) {
    const std::string name = Text(Get(flavor, "name"));
    if (!wanted.empty() && wanted != name) continue;
    Fit fit = Fit::kFits;
    for (const std::string& resource : kResources) {
      const int64_t amount = RequestOf(job, resource) * pods;
      if (amount == 0) continue;
      const std::string key = name + "/" + resource;
      const bool never = amount > tree_.Potential(waiting.cluster_queue, key);
      const bool full = amount > tree_.Available(waiting.cluster_queue, key);
      room.full = room.full || (full && !never);
      room.never = room.never || never;
      fit = std::max(fit, never ? Fit::kNever : full ? Fit::kFull : Fit::kFits);
    }
    if (places_ != nullptr && !places_->Fit(job, pods, name)) {
      fit = std::max(fit, Fit::kNoPlaces);
      room.no_places = true;
    }
    room.fit = std::min(room.fit, fit);
  }
  return room;
}

// In a StrictFIFO queue only the head is looked at: whoever is behind it is told that it is still to be looked at. One
// of the most urgent is the head, and is told what is true.
void Rest::LookAtReasons() {
  std::map<std::string, std::map<int64_t, int>> waiting_in;  // StrictFIFO ClusterQueues: how many, by priority
  for (const Waiting& waiting : queued_) {
    if (strict_.contains(waiting.cluster_queue)) ++waiting_in[waiting.cluster_queue][PriorityOf(waiting)];
  }
  // Where more pods wait, they may be the head.
  std::set<std::string> growing_in;
  for (const Waiting& waiting : growing_) growing_in.insert(waiting.cluster_queue);
  std::map<std::string, std::string> heads;  // what is wrong with all who may be the head, by ClusterQueue
  for (const Waiting& waiting : queued_) {
    const std::string name = Text(At(waiting.workload, "metadata", "name"));
    const std::string wrong = WrongReason(waiting);
    const auto strict = waiting_in.find(waiting.cluster_queue);
    if (IsToldByScan(waiting)) {
      alike_[name] = {"WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor", "TopologyPlacementFailed"};
    }
    const bool grows = growing_in.contains(waiting.cluster_queue);
    const bool first =
        strict == waiting_in.end() || (strict->second.size() == 1 && strict->second.begin()->second == 1 && !grows);
    if (first || IsInactive(waiting.cluster_queue)) {
      if (!wrong.empty()) Report(wrong);
      continue;
    }
    std::vector<std::string> behind = {"PendingEvaluation"};
    if (!TakesNamespace(waiting)) {
      behind.emplace_back("Misconfigured");
      alike_[name] = {behind.begin(), behind.end()};
    }
    const auto& [highest, count] = *strict->second.rbegin();
    if (PriorityOf(waiting) == highest && wrong.empty()) {
      heads[waiting.cluster_queue].clear();
      continue;
    }
    if (PriorityOf(waiting) == highest && !grows) {
      heads.emplace(waiting.cluster_queue, wrong);
      if (count == 1) continue;
    }
    // Nothing is said of one that nobody has looked at yet, as in Kueue.
    if (Condition(waiting.workload, "QuotaReserved").empty()) continue;
    const std::string odd = Unless(waiting, behind);
    if (!odd.empty()) Report(odd);
  }
  for (const Waiting& waiting : growing_) LookAtGrowing(waiting);
  for (const auto& [queue, wrong] : heads) {
    if (!wrong.empty()) Report("of the head of " + queue + ": " + wrong);
  }
}

// More pods wait for room in the flavors of those that run, or behind the head of a StrictFIFO queue.
void Rest::LookAtGrowing(const Waiting& waiting) {
  if (IsInactive(waiting.cluster_queue) || !TakesNamespace(waiting)) return;
  const std::string root = RootOf(waiting.cluster_queue);
  for (const auto& [queue, count] : strict_) {
    if (!IsInactive(queue) && RootOf(queue) == root) return;
  }
  const Json& flavors = At(queues_.at(waiting.cluster_queue), "spec")["resourceGroups"][0]["flavors"];
  for (const auto& [key, amount] : waiting.more) {
    const bool offered = std::any_of(flavors.begin(), flavors.end(), [&key = key](const Json& flavor) {
      return key.starts_with(Text(Get(flavor, "name")) + "/");
    });
    if (!offered || amount > tree_.Available(waiting.cluster_queue, key)) return;
    if (places_ != nullptr && !places_->Fit(waiting.job, waiting.more_pods, key.substr(0, key.find('/')))) return;
  }
  Report(waiting.name + " waits for more pods though they fit: " + Get(waiting.workload, "status").dump());
}

bool Rest::TakesNamespace(const Waiting& waiting) const {
  const Json& wanted = At(queues_.at(waiting.cluster_queue), "spec", "namespaceSelector", "matchLabels");
  const Json& ns = namespaces_.at(Text(At(waiting.job, "metadata", "namespace")));
  for (const auto& [key, value] : wanted.items()) {
    if (At(ns, "metadata", "labels", key) != value) return false;
  }
  return true;
}

int64_t Rest::PriorityOf(const Waiting& waiting) { return Number(At(waiting.workload, "spec", "priority")); }

// What is wrong if it waits for none of these reasons; else empty.
std::string Rest::Unless(const Waiting& waiting, const std::vector<std::string>& reasons) {
  const std::string shown = Condition(waiting.workload, "QuotaReserved");
  for (const std::string& reason : reasons) {
    if (shown == "False/" + reason) return "";
  }
  return waiting.name + " should wait as " + reasons[0] + ": " + Get(waiting.workload, "status").dump();
}

// The head of a StrictFIFO queue that waits may keep room for itself in all of its tree.
bool Rest::BesideStrictHead(const Waiting& waiting) const {
  const std::string root = RootOf(waiting.cluster_queue);
  return std::any_of(strict_.begin(), strict_.end(), [&](const auto& entry) {
    return entry.first != waiting.cluster_queue && !IsInactive(entry.first) && RootOf(entry.first) == root;
  });
}

bool Rest::IsPartial(const Waiting& waiting) {
  return At(waiting.job, "metadata", "annotations").contains(kMinParallelism);
}

// Several reasons would be true.
bool Rest::IsToldByScan(const Waiting& waiting) const {
  if (IsInactive(waiting.cluster_queue) || !TakesNamespace(waiting)) return false;
  const Room room = RoomFor(waiting);
  return BesideStrictHead(waiting) || room.full || room.no_places || IsPartial(waiting);
}

// What is wrong with what one is told that was looked at; empty: nothing.
std::string Rest::WrongReason(const Waiting& waiting) const {
  if (IsInactive(waiting.cluster_queue)) return Unless(waiting, {"Suspended"});
  if (!TakesNamespace(waiting)) return Unless(waiting, {"Misconfigured"});
  if (BesideStrictHead(waiting)) return Unless(waiting, kLookedAt);
  const Room room = RoomFor(waiting);
  const bool partial = IsPartial(waiting);
  // What is in the way in any flavor may be what is told; of one that would start with fewer pods, it is of all of
  // them.
  if (room.no_places && room.fit != Fit::kFits) {
    std::vector<std::string> reasons = {"TopologyPlacementFailed"};
    if (room.full || partial) reasons.emplace_back("WaitingForQuota");
    if (room.never || partial) reasons.emplace_back("ExceedsMaxQuota");
    // In a topology others' quota is named where they hold the places; the cause tells of these.
    if (Condition(waiting.workload, "muster.dev/Waiting") == "True/NoPlacement")
      reasons.emplace_back("WaitingForQuota");
    return Unless(waiting, reasons);
  }
  switch (room.fit) {
    case Fit::kFits:
      return waiting.name + " waits though it fits: " + Get(waiting.workload, "status").dump();
    case Fit::kNoPlaces:
      return "";  // told above
    case Fit::kFull:
      // What is told of a gang that would start with fewer pods is about all of them.
      return partial ? Unless(waiting, {"WaitingForQuota", "ExceedsMaxQuota"}) : Unless(waiting, {"WaitingForQuota"});
    case Fit::kNever:
      // The first resource that is in the way is told, be it one that may come back.
      return room.full ? Unless(waiting, {"ExceedsMaxQuota", "NoMatchingFlavor", "WaitingForQuota"})
                       : Unless(waiting, {"ExceedsMaxQuota", "NoMatchingFlavor"});
  }
  return "";
}

void Rest::LookAtOrphans() {
  std::set<std::string> alive;
  for (const Json& job : cluster_->List("jobs")) alive.insert(Text(At(job, "metadata", "uid")));
  for (const auto& [owner, workloads] : workloads_) {
    for (const Json& workload : workloads) {
      if (!alive.contains(owner) && !sim::HasCondition(workload, "Finished")) {
        Report("Workload " + NameOf(workload) + " of no Job is not finished: " + workload.dump());
      }
    }
  }
}

// ---- recounts -----------------------------------------------------------------------------------

void Rest::Expect(const std::string& what, double expected, double actual) {
  if (std::abs(expected - actual) > 1e-6) {
    Report(what + " is " + std::to_string(actual) + ", a recount gives " + std::to_string(expected));
  }
}

void Rest::RecountQueues() {
  const auto counts = [this](const std::string& what, const Json& queue, const Counts& counted) {
    const Json& status = Get(queue, "status");
    Expect(what + " pendingWorkloads", counted.pending, static_cast<double>(Number(Get(status, "pendingWorkloads"))));
    for (const char* key : {"reservingWorkloads", "admittedWorkloads"}) {
      Expect(what + " " + key, counted.holding, static_cast<double>(Number(Get(status, key))));
    }
  };
  for (const auto& [name, queue] : queues_) {
    counts("ClusterQueue " + name, queue, by_queue_[name]);
    RecountUsage(name, queue);
    const bool active = sim::HasCondition(queue, "Active");
    if (active == IsInactive(name))
      Report("ClusterQueue " + name + (active ? " says it is active" : " says it is not"));
  }
  for (const auto& [name, queue] : local_queues_) counts("LocalQueue " + name, queue, by_local_queue_[name]);
}

void Rest::RecountUsage(const std::string& name, const Json& queue) {
  for (const char* list : {"flavorsReservation", "flavorsUsage"}) {
    for (const Json& flavor : At(queue, "status", list)) {
      for (const Json& resource : Get(flavor, "resources")) {
        const std::string key = Text(Get(flavor, "name")) + "/" + Text(Get(resource, "name"));
        Expect("ClusterQueue " + name + " " + list + " " + key, static_cast<double>(usage_[name][key]),
               std::stod(Text(Get(resource, "total"), "0")));
      }
    }
  }
}

void Rest::RecountMetrics() {
  const std::vector<prometheus::MetricFamily> families = cluster_->Leader()->metrics->Collect();
  const auto expect = [&](const std::string& metric, const std::map<std::string, std::string>& labels, double value) {
    std::string what = metric;
    for (const auto& [label, text] : labels) what += " " + label + "=" + text;
    Expect(what, value, Sample(families, metric, labels).value_or(0));
  };
  for (const auto& [name, queue] : queues_) {
    const Counts& counts = by_queue_[name];
    expect("kueue_pending_workloads", {{"cluster_queue", name}}, counts.pending);
    expect("kueue_reserving_active_workloads", {{"cluster_queue", name}}, counts.holding);
    expect("kueue_admitted_active_workloads", {{"cluster_queue", name}}, counts.holding);
    for (const Json& flavor : At(queue, "spec")["resourceGroups"][0]["flavors"]) {
      for (const std::string& resource : kResources) {
        const std::string of = Text(Get(flavor, "name"));
        expect("kueue_cluster_queue_resource_reservation",
               {{"cluster_queue", name}, {"flavor", of}, {"resource", resource}},
               static_cast<double>(usage_[name][of + "/" + resource]));
      }
    }
  }
  for (const auto& [name, queue] : local_queues_) {
    const size_t slash = name.find('/');
    const std::map<std::string, std::string> labels = {{"namespace", name.substr(0, slash)},
                                                       {"name", name.substr(slash + 1)}};
    expect("kueue_local_queue_pending_workloads", labels, by_local_queue_[name].pending);
    expect("kueue_local_queue_reserving_active_workloads", labels, by_local_queue_[name].holding);
  }
  expect("muster_unwritten_claims", {}, 0);
  expect("muster_evicting_workloads", {}, 0);
  for (const prometheus::MetricFamily& family : families) {
    // These tell of who waits for a queue that is not there, under its name.
    if (family.name == "muster_waiting_workloads" || family.name.starts_with("kueue_local_queue_")) continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      for (const auto& label : metric.label) {
        if (label.name == "cluster_queue" && !label.value.empty() && !queues_.contains(label.value)) {
          Report(family.name + " tells of ClusterQueue " + label.value + ", which is gone");
        }
      }
    }
  }
}

}  // namespace muster::sim_campaign
