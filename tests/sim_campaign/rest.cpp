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

int64_t PodsOf(const Json& job) {
  const int64_t parallelism = Number(At(job, "spec", "parallelism"), 1);
  return std::min(parallelism, Number(At(job, "spec", "completions"), parallelism));
}

int64_t RequestOf(const Json& job, const std::string& resource) {
  const Json& requests = At(job, "spec", "template", "spec")["containers"][0]["resources"]["requests"];
  return std::stoll(Text(Get(requests, resource), "0"));
}

// The sum of the samples with these labels; nothing where there is none.
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

}  // namespace

Rest::Rest(const Cluster* cluster, const std::set<std::string>& without_workload)
    : cluster_(cluster), without_workload_(without_workload) {
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
  for (const Waiting& waiting : queued_) LookAtReason(waiting);
  RecountQueues();
  RecountMetrics();
  const Process* leader = cluster_->Leader();
  leader->controller->engine()->Validate();
  for (const std::string& problem : leader->controller->health().problems) Report("a standing problem: " + problem);
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
  if (it->second.size() != 1) return Report(name + " has several Workloads");
  const Json& workload = it->second[0];
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
  const std::string queue = Text(Get(record, "clusterQueue"));
  for (const auto& [resource, flavor] : record["podSets"][0]["flavors"].items()) {
    usage_[queue][Text(flavor) + "/" + resource] += RequestOf(job, resource) * PodsOf(job);
  }
  ++by_queue_[queue].holding;
  ++by_local_queue_[Text(At(job, "metadata", "namespace")) + "/" + Text(At(job, "metadata", "labels", kQueueName))]
        .holding;
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
    if (Condition(workload, "Evicted") != "True/Deactivated") Report(name + " is deactivated, and nothing says so");
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
  if (Text(At(queues_.at(waiting.cluster_queue), "spec", "queueingStrategy")) == "StrictFIFO") {
    ++strict_[waiting.cluster_queue];
  }
  queued_.push_back(std::move(waiting));
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
  const bool partial = At(job, "metadata", "annotations").contains(kMinParallelism);
  const int64_t pods = partial ? 1 : PodsOf(job);
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
      fit = std::max(fit, never ? Fit::kNever : full ? Fit::kFull : Fit::kFits);
    }
    room.fit = std::min(room.fit, fit);
  }
  return room;
}

void Rest::LookAtReason(const Waiting& waiting) {
  const std::string shown = Condition(waiting.workload, "QuotaReserved");
  const auto accept = [&](const std::vector<std::string>& reasons) {
    for (const std::string& reason : reasons) {
      if (shown == "False/" + reason) return;
    }
    Report(waiting.name + " should wait as " + reasons[0] + ": " + Get(waiting.workload, "status").dump());
  };
  if (IsInactive(waiting.cluster_queue)) return accept({"Suspended"});
  // Whoever is behind the head of a strict queue is not looked at, and a strict head may keep room for itself.
  const auto strict = strict_.find(waiting.cluster_queue);
  if (strict != strict_.end() && strict->second > 1) return;
  const std::string root = RootOf(waiting.cluster_queue);
  for (const auto& [queue, count] : strict_) {
    if (queue != waiting.cluster_queue && !IsInactive(queue) && RootOf(queue) == root) return;
  }
  const Json& wanted = At(queues_.at(waiting.cluster_queue), "spec", "namespaceSelector", "matchLabels");
  const Json& ns = namespaces_.at(Text(At(waiting.job, "metadata", "namespace")));
  for (const auto& [key, value] : wanted.items()) {
    if (At(ns, "metadata", "labels", key) != value) return accept({"Misconfigured"});
  }
  const Room room = RoomFor(waiting);
  const bool partial = At(waiting.job, "metadata", "annotations").contains(kMinParallelism);
  switch (room.fit) {
    case Fit::kFits:
      return Report(waiting.name + " waits though it fits: " + Get(waiting.workload, "status").dump());
    case Fit::kFull:
      // What is told of a gang that would start with fewer pods is about all of them.
      return partial ? accept({"WaitingForQuota", "ExceedsMaxQuota"}) : accept({"WaitingForQuota"});
    case Fit::kNever:
      // The first resource that is in the way is told, be it one that may come back.
      return room.full ? accept({"ExceedsMaxQuota", "NoMatchingFlavor", "WaitingForQuota"})
                       : accept({"ExceedsMaxQuota", "NoMatchingFlavor"});
  }
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
