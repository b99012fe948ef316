#include "rules.h"

#include <algorithm>
#include <regex>

#include "muster/core/quantity.h"

namespace muster::golden {
namespace {

constexpr const char* kRecord = "muster.dev/admission";
constexpr const char* kHolder = "muster.dev/record";
constexpr const char* kClaim = "muster.dev/claim";
constexpr const char* kStopping = "kueue.x-k8s.io/stopping";

bool IsTrue(const Json& object, const char* condition) {
  return Text(At(object, "status", "conditions", condition, "status")) == "True";
}

// Neither admitted nor ended, and to be admitted one day.
bool Waits(const Json& workload) {
  return Flag(At(workload, "spec", "active"), true) && !IsTrue(workload, "QuotaReserved") &&
         !IsTrue(workload, "Finished");
}

void Add(Json* object, const char* key, int64_t count) {
  if (object->contains(key)) (*object)[key] = Number((*object)[key]) + count;
}

Amount AmountOf(const std::string& resource, const Json& quantity) {
  return Quantity::Parse(Text(quantity))->ToAmount(resource);
}

// What `pods` of a pod set hold is in use, for a queue that did not count it.
void AddUsage(const Json& pod_set, int64_t pods, Json* usage) {
  for (Json& flavor : *usage) {
    for (Json& resource : flavor["resources"]) {
      const std::string name = Text(Get(resource, "name"));
      if (Get(Get(pod_set, "flavors"), name) != flavor["name"]) continue;
      const int64_t all = AmountOf(name, At(pod_set, "resourceUsage", name)).value;
      const Amount held{all / Number(Get(pod_set, "count")) * pods};
      resource["total"] = FormatAmount(name, AmountOf(name, resource["total"]) + held);
    }
  }
}

// The statuses of the queues that it is admitted by.
template <typename F>
void ForEachQueueOf(const Json& workload, Json* view, const F& f) {
  const std::string cluster_queue = Text(At(workload, "status", "admission", "clusterQueue"));
  const std::string local_queue = Text(At(workload, "spec", "queueName"));
  for (const auto& [kind, queue] : {std::pair{"clusterQueues", cluster_queue}, {"localQueues", local_queue}}) {
    if ((*view)[kind].contains(queue)) f(&(*view)[kind][queue]["status"]);
  }
}

// The Job that a Workload is of; null where it is gone.
Json* JobOf(const Json& workload, Json* view) {
  const Json& owners = Get(workload, "ownerReferences");
  const std::string name = owners.empty() ? std::string() : Text(Get(owners[0], "name"));
  return (*view)["jobs"].contains(name) ? &(*view)["jobs"][name] : nullptr;
}

// ---- records ----

// The reference sets them back only as it restores the template; until then it has noted the stop on the Job.
void CountsAreSetBackAtOnce(const Moment&, Json* wanted, Json*) {
  for (auto& [name, workload] : (*wanted)["workloads"].items()) {
    Json* job = JobOf(workload, wanted);
    if (job == nullptr || !(*job)["annotations"].contains(kStopping)) continue;
    (*job)["spec"]["parallelism"] = At(workload, "spec", "podSets")[0]["count"];
  }
}

Json RecordOf(const Json& job) { return sim::ParseJson(Text(At(job, "annotations", kRecord))).value_or(Json()); }

void RecordOnTheJob(const Moment&, Json* wanted, Json* found) {
  for (auto& [name, workload] : (*found)["workloads"].items()) {
    Json* job = JobOf(workload, found);
    const Json record = job == nullptr ? Json() : RecordOf(*job);
    const Json& claim = Get(record, "claim");
    const bool held_by_itself = Get(workload["labels"], kHolder) == "workload";
    if (held_by_itself || claim.is_null() || Get(workload["annotations"], kClaim) == claim)
      workload["annotations"].erase(kClaim);
  }
  for (auto& [name, job] : (*found)["jobs"].items()) {
    const bool suspended = Flag(At(job, "spec", "suspend"));
    if (Text(Get(RecordOf(job), "state")) == (suspended ? "stopped" : "started")) job["annotations"].erase(kRecord);
  }
  for (auto& [name, workload] : (*wanted)["workloads"].items()) {
    const bool checked = !At(workload, "status", "admissionChecks").empty();
    workload["labels"][kHolder] = checked ? "workload" : "job";
  }
  // What the reference notes on a Job between its two writes of a stop is in the record here.
  for (auto& [name, job] : (*wanted)["jobs"].items()) job["annotations"].erase(kStopping);
}

void NoFinalizer(const Moment&, Json* wanted, Json*) {
  for (auto& [name, workload] : (*wanted)["workloads"].items()) workload["finalizers"] = Json::array();
}

// Fields of v1beta1 beside those of v1beta2 that say the same.
void Twins(const Moment&, Json*, Json* found) {
  const auto drop_equal = [](Json* status, const char* old_name, const char* name) {
    if (status->contains(old_name) && Get(*status, old_name) == Get(*status, name)) status->erase(old_name);
  };
  for (auto& [name, workload] : (*found)["workloads"].items()) {
    drop_equal(&workload["status"], "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds");
  }
  for (auto& [name, queue] : (*found)["localQueues"].items()) {
    drop_equal(&queue["status"], "flavorUsage", "flavorsUsage");
  }
}

// ---- life ----

// The reference tells of pods as soon as the Workload is there.
void PodsReadyBesideOthers(const Moment&, Json* wanted, Json*) {
  for (auto& [name, workload] : (*wanted)["workloads"].items()) {
    Json& conditions = workload["status"]["conditions"];
    if (conditions.size() == 1) conditions.erase("PodsReady");
  }
}

// The reference takes the pods that have ended from those that were asked for: of a partial admission nothing is given
// back until they are more than what was not admitted.
void EndedPodsOfAPartialAdmission(const Moment&, Json* wanted, Json*) {
  for (auto& [name, workload] : (*wanted)["workloads"].items()) {
    const Json& admission = At(workload, "status", "admission");
    const Json& reclaimable = At(workload, "status", "reclaimablePods");
    const bool counted = Flag(At(workload, "spec", "active"), true) && !IsTrue(workload, "Finished");
    if (!counted || admission.is_null() || reclaimable.is_null()) continue;
    const Json& pod_set = Get(admission, "podSetAssignments")[0];
    const int64_t admitted = Number(Get(pod_set, "count"));
    const int64_t asked = Number(At(workload, "spec", "podSets")[0]["count"]);
    const int64_t ended = Number(reclaimable[0]["count"]);
    const int64_t there = std::min(admitted, asked - ended);
    ForEachQueueOf(workload, wanted, [&](Json* status) {
      for (const char* usage : {"flavorsReservation", "flavorsUsage"}) {
        AddUsage(pod_set, admitted - ended - there, &(*status)[usage]);
      }
    });
  }
}

// The job controller makes no more pods than are left, so the user's parallelism stays where those fit.
void ParallelismAboveWhatIsLeft(const Moment&, Json* wanted, Json*) {
  for (auto& [name, workload] : (*wanted)["workloads"].items()) {
    const Json& pod_sets = At(workload, "status", "admission", "podSetAssignments");
    Json* job = JobOf(workload, wanted);
    if (pod_sets.is_null() || job == nullptr) continue;
    // Of a start that came after they had ended.
    const int64_t ended = Number(At(*job, "status", "succeeded"));
    if (ended == 0 || !At(*job, "status", "startTime").is_null()) continue;
    if (Number(At(*job, "spec", "completions")) - ended > Number(pod_sets[0]["count"])) continue;
    (*job)["spec"]["parallelism"] = At(workload, "spec", "podSets")[0]["count"];
  }
}

// A status without active pods is no proof that a Job just started has none: its controller has to say so.
void StopIsConfirmed(const Moment&, Json* wanted, Json* found) {
  for (auto& [name, job] : (*found)["jobs"].items()) {
    const Json& recorded = At(*wanted, "jobs", name);
    if (Flag(At(recorded, "spec", "suspend")) && !IsTrue(recorded, "Suspended")) {
      job["status"]["conditions"].erase("Suspended");
    }
  }
}

// Only before the template is restored must the start time be gone, and the job controller of 1.36 clears it.
void StartTimeIsTheJobControllers(const Moment&, Json* wanted, Json* found) {
  for (auto& [name, job] : (*found)["jobs"].items()) {
    const Json& recorded = At(*wanted, "jobs", name);
    if (Flag(At(job, "spec", "suspend")) && Get(Get(recorded, "status"), "startTime").is_null()) {
      job["status"].erase("startTime");
    }
  }
}

// The reference deactivates it again at once. Here it runs as before, for all of its time; by the end of the step that
// is over again.
void TimeStartsAnew(const Moment& moment, Json* wanted, Json*) {
  for (const Json& op : moment.ops) {
    const std::string name = Text(Get(op, "name"));
    const bool activates = Text(Get(op, "kind")) == "Workload" && Flag(At(op, "patch", "spec", "active"));
    if (!activates || !(*wanted)["workloads"].contains(name)) continue;
    Json& workload = (*wanted)["workloads"][name];
    const Json& target = At(workload, "status", "conditions", "DeactivationTarget");
    if (Text(Get(target, "reason")) != "MaximumExecutionTimeExceeded") continue;
    for (Json& eviction : workload["status"]["schedulingStats"]["evictions"]) {
      if (eviction["underlyingCause"] == target["reason"]) Add(&eviction, "count", 1);
    }
    const Json& job = workload["ownerReferences"][0]["name"];
    for (const Json& event : moment.earlier) {
      const bool about_it = event["name"] == name || event["name"] == job;
      if (about_it && event["reason"] != "CreatedWorkload") (*wanted)["events"].push_back(event);
    }
  }
}

// The reference leaves it waiting for ever, since it still tells that it was not queued again. Here it is tried as
// before, as often as it may; by the end of the step that is over again.
void RequeuesStartAnew(const Moment& moment, Json* wanted, Json*) {
  for (const Json& op : moment.ops) {
    const std::string name = Text(Get(op, "name"));
    const bool activates = Text(Get(op, "kind")) == "Workload" && Flag(At(op, "patch", "spec", "active"));
    if (!activates || !(*wanted)["workloads"].contains(name)) continue;
    Json& workload = (*wanted)["workloads"][name];
    Json& conditions = workload["status"]["conditions"];
    if (Text(At(conditions, "Requeued", "reason")) != "DeactivatedDueToRequeuingLimitExceeded") continue;
    workload["spec"]["active"] = false;
    conditions["QuotaReserved"]["reason"] = "Deactivated";
    conditions["QuotaReserved"]["message"] = "The workload is deactivated";
    for (Json& eviction : workload["status"]["schedulingStats"]["evictions"]) Add(&eviction, "count", 1);
    const std::string local_queue = Text(At(workload, "spec", "queueName"));
    Add(&(*wanted)["localQueues"][local_queue]["status"], "pendingWorkloads", -1);
    const auto cluster_queue = moment.queues.cluster_queue_of.find(local_queue);
    Add(&(*wanted)["clusterQueues"][cluster_queue->second]["status"], "pendingWorkloads", -1);
    const Json& job = workload["ownerReferences"][0]["name"];
    for (const Json& event : moment.earlier) {
      const bool about_it = event["name"] == name || event["name"] == job;
      if (about_it && event["reason"] != "CreatedWorkload") (*wanted)["events"].push_back(event);
    }
  }
}

// ---- quota ----

void CountHeld(const Json& workload, Json* status) {
  Add(status, "reservingWorkloads", 1);
  Add(status, "admittedWorkloads", 1);
  for (const Json& pod_set : At(workload, "status", "admission", "podSetAssignments")) {
    int64_t pods = Number(Get(pod_set, "count"));
    for (const Json& ended : At(workload, "status", "reclaimablePods")) {
      if (Get(ended, "name") == Get(pod_set, "name")) pods -= Number(Get(ended, "count"));
    }
    for (const char* usage : {"flavorsReservation", "flavorsUsage"}) AddUsage(pod_set, pods, &(*status)[usage]);
  }
}

// The reference forgets at once what a deactivated Workload holds, while its pods still run.
void QuotaIsHeldUntilPodsAreInactive(const Moment&, Json* wanted, Json*) {
  for (auto& [name, workload] : (*wanted)["workloads"].items()) {
    const bool inactive = !Flag(At(workload, "spec", "active"), true);
    if (!inactive || !IsTrue(workload, "QuotaReserved") || IsTrue(workload, "Finished")) continue;
    ForEachQueueOf(workload, wanted, [&held = workload](Json* status) { CountHeld(held, status); });
  }
}

// ---- checks ----

void Take(const Json& pod_set, Json* usage) {
  for (Json& flavor : *usage) {
    for (Json& resource : flavor["resources"]) {
      const std::string name = Text(Get(resource, "name"));
      if (Get(Get(pod_set, "flavors"), name) != flavor["name"]) continue;
      const Amount held = AmountOf(name, At(pod_set, "resourceUsage", name));
      resource["total"] = FormatAmount(name, AmountOf(name, resource["total"]) - held);
    }
  }
}

// The reference holds the quota for as long as the check says, and evicts then.
void RetriesGiveQuotaBackAtOnce(const Moment&, Json* wanted, Json*) {
  const auto condition = [](const char* status, const std::string& reason, const std::string& message) {
    return Json{{"status", status}, {"reason", reason}, {"message", message}};
  };
  for (auto& [name, workload] : (*wanted)["workloads"].items()) {
    Json& status = workload["status"];
    const Json& checks = Get(status, "admissionChecks");
    if (checks.size() != 1 || Get(checks[0], "requeueAfterSeconds").is_null()) continue;
    Json& events = (*wanted)["events"];
    if (Get(checks[0], "state") != "Retry") {
      // Told in the step before.
      std::erase_if(events.get_ref<Json::array_t&>(), [&name = name](const Json& event) {
        return event["name"] == name && event["reason"] == "EvictedDueToAdmissionCheck";
      });
      continue;
    }
    ForEachQueueOf(workload, wanted, [&held = workload](Json* queue) {
      Add(queue, "reservingWorkloads", -1);
      Add(queue, "pendingWorkloads", 1);
      for (const Json& pod_set : At(held, "status", "admission", "podSetAssignments")) {
        Take(pod_set, &(*queue)["flavorsReservation"]);
      }
    });
    const std::string why = "Evicted due to AdmissionCheck in Retry state: \"" + Text(Get(checks[0], "name")) + "\" (" +
                            Text(Get(checks[0], "message")) + ")";
    status.erase("admission");
    status["conditions"]["Evicted"] = condition("True", "AdmissionCheck", why);
    status["conditions"]["Requeued"] = condition("False", "AdmissionCheck", why);
    status["conditions"]["QuotaReserved"] = condition("False", "PendingEvaluation", why);
    status["conditions"]["Admitted"] = condition("False", "NoReservation", "The workload has no reservation");
    Json& check = status["admissionChecks"][0];
    check["state"] = "Pending";
    check["message"] = "Reset to Pending after eviction. Previously: Retry";
    check["retryCount"] = 1;
    status["schedulingStats"]["evictions"] =
        Json::array({{{"reason", "AdmissionCheck"}, {"underlyingCause", ""}, {"count", 1}}});
    events.push_back({{"kind", "Workload"},
                      {"name", name},
                      {"type", "Normal"},
                      {"reason", "EvictedDueToAdmissionCheck"},
                      {"message", why},
                      {"count", 1},
                      {"source", "kueue-workload-controller"}});
  }
}

// ---- who is pending ----

void LostWaitNowhere(const Moment& moment, Json* wanted, Json*) {
  for (auto& [name, workload] : (*wanted)["workloads"].items()) {
    const std::string local_queue = Text(At(workload, "spec", "queueName"));
    const auto lost = moment.queues.cluster_queue_of.find(local_queue);
    if (!Waits(workload) || lost == moment.queues.cluster_queue_of.end() ||
        (*wanted)["localQueues"].contains(local_queue)) {
      continue;
    }
    Json& cluster_queues = (*wanted)["clusterQueues"];
    if (cluster_queues.contains(lost->second)) Add(&cluster_queues[lost->second]["status"], "pendingWorkloads", -1);
  }
}

void WhatIsLookedAtIsPending(const Moment& moment, Json* wanted, Json*) {
  for (auto& [name, queue] : (*wanted)["localQueues"].items()) {
    const auto it = moment.queues.cluster_queue_of.find(name);
    if (it == moment.queues.cluster_queue_of.end()) continue;
    bool looked_at = moment.queues.strict.contains(it->second);
    int64_t waiting = 0;
    for (const auto& [key, workload] : (*wanted)["workloads"].items()) {
      if (!Waits(workload) || Text(At(workload, "spec", "queueName")) != name) continue;
      ++waiting;
      const Json& reserved = At(workload, "status", "conditions", "QuotaReserved", "reason");
      looked_at = looked_at || Text(reserved) == "WaitingForPreemptedWorkloads";
    }
    if (looked_at) queue["status"]["pendingWorkloads"] = waiting;
  }
}

// ---- words ----

// Each text of conditions and Events.
template <typename F>
void ForEachMessage(Json* view, const F& f) {
  for (const char* kind : {"workloads", "clusterQueues", "localQueues"}) {
    for (auto& [name, object] : (*view)[kind].items()) {
      for (auto& [type, condition] : object["status"]["conditions"].items()) f(&condition["message"]);
    }
  }
  for (Json& event : (*view)["events"]) f(&event["message"]);
}

void TaintsAsKubectlTakesThem(const Moment&, Json* wanted, Json*) {
  static const std::regex printed(R"(untolerated taint \{(\S+) (\S*) (\S+) \S+\})");
  ForEachMessage(wanted, [](Json* message) {
    *message = std::regex_replace(Text(*message), printed, "untolerated taint $1=$2:$3");
  });
}

// At once, and so before its Workload is written.
void PreemptorMayHaveNoWorkloadYet(const Moment&, Json*, Json* found) {
  static const std::regex unknown(R"(Preempted to accommodate a workload \(UID: UNKNOWN, )");
  ForEachMessage(found, [](Json* message) {
    *message =
        std::regex_replace(Text(*message), unknown, "Preempted to accommodate a workload (UID: <workload-uid>, ");
  });
}

// Nobody who was preempted comes into the pass in which its preemptor starts.
void VictimsDoNotCompete(const Moment&, Json* wanted, Json*) {
  Json& events = (*wanted)["events"];
  for (auto it = events.begin(); it != events.end();) {
    const Json& workload = Get((*wanted)["workloads"], Text(Get(*it, "name")));
    const bool lost = Text(Get(*it, "message")) == "Workload no longer fits after processing another workload";
    it = lost && IsTrue(workload, "Preempted") ? events.erase(it) : std::next(it);
  }
}

void PassedFlavorsAreNotListed(const Moment&, Json* wanted, Json*) {
  static const std::string list = "; Flavors considered: ";
  for (Json& event : (*wanted)["events"]) {
    const std::string message = Text(Get(event, "message"));
    event["message"] = message.substr(0, message.find(list));
  }
}

}  // namespace

const std::vector<Rule>& Rules() {
  static const std::vector<Rule> rules = {
      {"A stop sets the counts of a partially admitted Job back", &CountsAreSetBackAtOnce},
      {"A Job's admission is written on the Job itself", &RecordOnTheJob},
      {"Workloads of Jobs have no finalizer", &NoFinalizer},
      {"Fields that the versions name differently stand in both schemas", &Twins},
      {"`PodsReady` is told beside other conditions", &PodsReadyBesideOthers},
      {"A stop is over once the job controller has said", &StopIsConfirmed},
      {"What has ended of a partially admitted gang gives its quota back", &EndedPodsOfAPartialAdmission},
      {"A Job of which pods have ended keeps its parallelism", &ParallelismAboveWhatIsLeft},
      {"A stop leaves the Job's start time to the job controller", &StartTimeIsTheJobControllers},
      {"A Workload that was deactivated because its maximum execution time was over may run for all of that time again",
       &TimeStartsAnew},
      {"A Workload that was deactivated since its pods did not get ready is queued again once it is activated",
       &RequeuesStartAnew},
      {"Quota of an evicted gang is free when none of its pods is active", &QuotaIsHeldUntilPodsAreInactive},
      {"A check that is to be tried again later gives the quota back at once", &RetriesGiveQuotaBackAtOnce},
      {"What has lost its LocalQueue counts as pending in no ClusterQueue", &LostWaitNowhere},
      {"The workload that a ClusterQueue is just looking at", &WhatIsLookedAtIsPending},
      {"A taint in a message is written", &TaintsAsKubectlTakesThem},
      {"Flavors that were passed over", &PassedFlavorsAreNotListed},
      {"A preemptor whose Workload is not written yet", &PreemptorMayHaveNoWorkloadYet},
      {"Room that a preemptor frees is kept for it", &VictimsDoNotCompete},
  };
  return rules;
}

}  // namespace muster::golden
