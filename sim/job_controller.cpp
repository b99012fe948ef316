#include "job_controller.h"

#include <absl/strings/numbers.h>

#include <algorithm>
#include <set>
#include <utility>

#include "text.h"

namespace muster::sim {
namespace {

constexpr const char* kUser = "system:serviceaccount:kube-system:job-controller";
constexpr Duration kConflictRetry = std::chrono::seconds(1);
constexpr Duration kBackoff = std::chrono::seconds(10);

bool Finished(const Json& job) { return HasCondition(job, "Complete") || HasCondition(job, "Failed"); }

bool IsTrue(const Json& status, const char* type) {
  return Text(Get(FindCondition(Get(status, "conditions"), type), "status")) == "True";
}

int64_t Version(const Json& object) {
  int64_t version = 0;
  return absl::SimpleAtoi(Text(At(object, "metadata", "resourceVersion")), &version) ? version : 0;
}

int64_t CountOf(const Json& list) { return list.is_array() ? static_cast<int64_t>(list.size()) : 0; }

// {0,1,2,5} -> "0-2,5".
std::string IndexRanges(const std::set<int64_t>& indexes) {
  std::string out;
  for (auto it = indexes.begin(); it != indexes.end();) {
    const int64_t first = *it;
    int64_t last = first;
    for (++it; it != indexes.end() && *it == last + 1; ++it) last = *it;
    out += Concat(out.empty() ? "" : ",", first);
    if (last > first) out += Concat("-", last);
  }
  return out;
}

std::set<int64_t> ParseIndexRanges(const std::string& text) {
  std::set<int64_t> indexes;
  if (text.empty()) return indexes;
  for (const std::string& range : Split(text, ',')) {
    const size_t dash = range.find('-');
    int64_t first = 0;
    int64_t last = 0;
    if (!absl::SimpleAtoi(range.substr(0, dash), &first)) continue;
    if (dash == std::string::npos || !absl::SimpleAtoi(range.substr(dash + 1), &last)) last = first;
    for (int64_t i = first; i <= last; ++i) indexes.insert(i);
  }
  return indexes;
}

void SetCount(Json* status, const char* key, int64_t value) {
  if (value == 0) {
    status->erase(key);
  } else {
    (*status)[key] = value;
  }
}

bool IsIndexed(const Json& spec) { return Text(Get(spec, "completionMode")) == "Indexed"; }

}  // namespace

PodPlan PlanFromAnnotations(const Json& job) {
  const Json& annotations = At(job, "spec", "template", "metadata", "annotations");
  const auto seconds = [&annotations](const char* key, Duration absent) {
    double value = 0;
    if (!absl::SimpleAtod(Text(Get(annotations, key)), &value)) return absent;
    return Duration(static_cast<int64_t>(value * 1e9));
  };
  PodPlan plan;
  plan.start = seconds("muster.dev/start-seconds", plan.start);
  plan.run = seconds("muster.dev/run-seconds", plan.run);
  plan.termination = seconds("muster.dev/termination-seconds", plan.termination);
  plan.fails = Text(Get(annotations, "muster.dev/exit-code"), "0") != "0";
  return plan;
}

JobController::JobController(SimExecutor* executor, SimStore* store, Executor* source, const ControllerOptions& options)
    : executor_(executor),
      store_(store),
      source_(source),
      options_(options),
      random_(executor->NewRandom("job-controller")) {
  if (!options_.plan) options_.plan = [](const Json& job, int64_t) { return PlanFromAnnotations(job); };
}

Duration JobController::Draw(const Latency& latency) {
  return latency.min +
         Duration(static_cast<int64_t>(random_.Below(static_cast<uint64_t>((latency.max - latency.min).count()) + 1)));
}

void JobController::OnChange(const Change& change) {
  if (change.kind->plural == "pods") OnPodObject(change);
  if (change.kind->plural != "jobs") return;
  const std::string uid = Text(At(*change.object, "metadata", "uid"));
  if (change.type == Change::Type::kDeleted) {
    const auto it = jobs_.find(uid);
    if (it == jobs_.end()) return;
    if (options_.pod_objects) {  // the garbage collector sees to them
      source_->Cancel(it->second.timer);
      jobs_.erase(it);
      return;
    }
    const Json& finalizers = At(*change.object, "metadata", "finalizers");
    if (std::ranges::find(finalizers, Json("orphan")) == finalizers.end()) DeletePods(uid);
    std::erase_if(it->second.pods, [](const Pod& pod) { return pod.ended(); });
    it->second.cached = nullptr;  // kept until its last pod is gone
    if (it->second.pods.empty()) jobs_.erase(it);
    return;
  }
  Entry& entry = jobs_[uid];
  if (entry.cached != nullptr && Version(*entry.cached) >= Version(*change.object)) return;  // an own write's echo
  entry.cached = change.object;
  Enqueue(uid, Duration(0));
}

PodCounts JobController::PodsOf(const std::string& uid) const {
  PodCounts counts;
  const auto it = jobs_.find(uid);
  if (it == jobs_.end()) return counts;
  for (const Pod& pod : it->second.pods) {
    if (pod.ended()) continue;
    ++(pod.terminating ? counts.terminating : counts.active);
    if (!pod.terminating && pod.state == Pod::State::kReady) ++counts.ready;
  }
  return counts;
}

bool JobController::HasPods(const std::string& uid) const {
  const PodCounts counts = PodsOf(uid);
  return counts.active + counts.terminating > 0;
}

void JobController::DeletePods(const std::string& uid) {
  const auto it = jobs_.find(uid);
  if (it == jobs_.end() || it->second.cached == nullptr) return;
  for (Pod& pod : it->second.pods) {
    if (pod.active()) DeletePod(uid, *it->second.cached, &pod);
  }
}

void JobController::Enqueue(const std::string& uid, Duration delay) {
  Entry& entry = jobs_.at(uid);
  if (entry.writing && delay <= Duration(0)) {
    entry.dirty = true;
    return;
  }
  const MonoTime due = executor_->Mono() + delay;
  if (entry.timer != 0 && entry.due <= due) return;
  source_->Cancel(entry.timer);
  entry.due = due;
  entry.timer = source_->PostAt(due, [this, uid] {
    const auto it = jobs_.find(uid);
    if (it == jobs_.end()) return;
    it->second.timer = 0;
    Sync(uid);
  });
}

int64_t JobController::Active(const Entry& entry) const {
  return std::ranges::count_if(entry.pods, [](const Pod& pod) { return pod.active(); });
}

// What a look does: moves pods at once, then writes the status it made from what it saw, a little later.
void JobController::Sync(const std::string& uid) {
  Entry& entry = jobs_.at(uid);
  if (entry.cached == nullptr || Finished(*entry.cached)) return;
  if (entry.writing) {
    entry.dirty = true;
    return;
  }
  Look look{&uid, &entry, Get(*entry.cached, "status"), {}, false, false};
  if (look.status.is_null()) look.status = Json::object();
  CountEndedPods(&look);
  const bool deleting = !At(*entry.cached, "metadata", "deletionTimestamp").is_null();
  if (!DecideEnd(&look) && !deleting) ManagePods(&look);
  Report(&look);
  if (look.status == Get(*entry.cached, "status")) {
    if (look.again) Enqueue(uid, Duration(0));
    return;
  }
  Json job = *entry.cached;
  job["status"] = std::move(look.status);
  entry.writing = true;
  entry.dirty = look.again;
  const Duration delay = Draw(look.pods_moved ? options_.pod_sync : options_.sync);
  source_->PostAt(executor_->Mono() + delay,
                  [this, uid, job = std::move(job), counted = std::move(look.counted)]() mutable {
                    Write(uid, std::move(job), counted);
                  });
}

void JobController::Write(const std::string& uid, Json job, const std::set<std::string>& counted) {
  const auto it = jobs_.find(uid);
  if (it == jobs_.end()) return;
  Entry& entry = it->second;
  entry.writing = false;
  const Target target{store_->FindKind("batch", "jobs"), "v1", Text(At(job, "metadata", "namespace")),
                      Text(At(job, "metadata", "name")), "status"};
  const Answer answer = store_->Update(kUser, target, std::move(job));
  const bool dirty = std::exchange(entry.dirty, false);
  if (entry.cached == nullptr) return;
  if (answer.ok()) {
    const JsonPtr now = store_->Peek(target.kind, target.ns, target.name);
    if (now != nullptr) entry.cached = now;
    std::erase_if(entry.pods, [&](const Pod& pod) { return counted.contains(pod.uid); });
    if (dirty) Enqueue(uid, Duration(0));
  } else {
    Enqueue(uid, dirty ? Duration(0) : kConflictRetry);
  }
}

// Ended pods are first listed as uncounted, then counted in a second write, so that none is counted twice.
void JobController::CountEndedPods(Look* look) {
  Json& uncounted = look->status["uncountedTerminatedPods"];
  if (uncounted.is_null()) uncounted = Json::object();
  auto& pods = look->entry->pods;
  if (!uncounted.empty()) {
    std::set<int64_t> indexes = ParseIndexRanges(Text(Get(look->status, "completedIndexes")));
    for (const char* list : {"succeeded", "failed"}) {
      const Json& uids = Get(uncounted, list);
      SetCount(&look->status, list, Number(Get(look->status, list)) + CountOf(uids));
      for (const Json& uid : uids) {
        const auto pod = std::ranges::find(pods, Text(uid), &Pod::uid);
        if (pod != pods.end() && pod->state == Pod::State::kSucceeded) indexes.insert(pod->index);
        look->counted.insert(Text(uid));
      }
    }
    if (IsIndexed(look->spec()) && !indexes.empty()) look->status["completedIndexes"] = IndexRanges(indexes);
    uncounted = Json::object();
  }
  for (const Pod& pod : pods) {
    if (!pod.ended() || look->counted.contains(pod.uid)) continue;
    uncounted[pod.state == Pod::State::kSucceeded ? "succeeded" : "failed"].push_back(pod.uid);
    look->again = true;
  }
}

void JobController::SetJobCondition(Look* look, const std::string& type, const std::string& status,
                                    const std::string& reason, const std::string& message) {
  const std::string now = FormatTime(executor_->Now());
  Json condition = {{"type", type},     {"status", status},  {"lastProbeTime", now}, {"lastTransitionTime", now},
                    {"reason", reason}, {"message", message}};
  Json& conditions = look->status["conditions"];
  if (conditions.is_null()) conditions = Json::array();
  for (Json& present : conditions) {
    if (Text(Get(present, "type")) != type) continue;
    if (Text(Get(present, "status")) != status) present = std::move(condition);
    return;
  }
  conditions.push_back(std::move(condition));
}

// RETURNS: whether the Job is ending, so that no pods are made any more.
bool JobController::DecideEnd(Look* look) {
  Json& status = look->status;
  const Json& spec = look->spec();
  const Json& uncounted = Get(status, "uncountedTerminatedPods");
  const int64_t succeeded = Number(Get(status, "succeeded")) + CountOf(Get(uncounted, "succeeded"));
  const int64_t failed = Number(Get(status, "failed")) + CountOf(Get(uncounted, "failed"));
  const Json& completions = Get(spec, "completions");
  const bool suspended = Flag(Get(spec, "suspend"));
  if (!IsTrue(status, "FailureTarget") && !IsTrue(status, "SuccessCriteriaMet")) {
    const bool enough = completions.is_null() ? succeeded > 0 && Active(*look->entry) == 0
                                              : succeeded >= Number(completions) && (!suspended || succeeded > 0);
    const auto started = ParseTime(Text(Get(status, "startTime")));
    const Duration deadline = std::chrono::seconds(Number(Get(spec, "activeDeadlineSeconds")));
    const bool limited = deadline > Duration(0) && started.ok() && !suspended;
    if (failed > Number(Get(spec, "backoffLimit"), 6)) {
      SetJobCondition(look, "FailureTarget", "True", "BackoffLimitExceeded",
                      "Job has reached the specified backoff limit");
    } else if (limited && executor_->Now() >= *started + deadline) {
      SetJobCondition(look, "FailureTarget", "True", "DeadlineExceeded",
                      "Job was active longer than specified deadline");
    } else if (enough) {
      SetJobCondition(look, "SuccessCriteriaMet", "True", "CompletionsReached",
                      "Reached expected number of succeeded pods");
    } else {
      if (limited) Enqueue(*look->uid, *started + deadline - executor_->Now());
      return false;
    }
  }
  for (Pod& pod : look->entry->pods) {
    if (!pod.active()) continue;
    pod.counts_as_failure = IsTrue(status, "FailureTarget");
    DeletePod(*look->uid, *look->entry->cached, &pod);
    look->pods_moved = true;
  }
  if (!uncounted.empty() || PodsOf(*look->uid).terminating > 0) return true;
  const Json target =
      FindCondition(status["conditions"], IsTrue(status, "FailureTarget") ? "FailureTarget" : "SuccessCriteriaMet");
  const bool failure = Text(Get(target, "type")) == "FailureTarget";
  SetJobCondition(look, failure ? "Failed" : "Complete", "True", Text(Get(target, "reason")),
                  Text(Get(target, "message")));
  if (!failure) status["completionTime"] = FormatTime(executor_->Now());
  if (!status.contains("startTime")) status["startTime"] = FormatTime(executor_->Now());
  return true;
}

void JobController::ManagePods(Look* look) {
  if (Flag(Get(look->spec(), "suspend"))) {
    Suspend(look);
  } else {
    Resume(look);
  }
}

void JobController::Suspend(Look* look) {
  for (Pod& pod : look->entry->pods) {
    if (!pod.active()) continue;
    DeletePod(*look->uid, *look->entry->cached, &pod);
    look->pods_moved = true;
  }
  if (!options_.keeps_start_time) look->status.erase("startTime");
  SetJobCondition(look, "Suspended", "True", "JobSuspended", "Job suspended");
}

void JobController::Resume(Look* look) {
  Json& status = look->status;
  Entry* entry = look->entry;
  const Json& spec = look->spec();
  if (IsTrue(status, "Suspended")) {
    SetJobCondition(look, "Suspended", "False", "JobResumed", "Job resumed");
    status.erase("startTime");
  }
  if (!status.contains("startTime")) status["startTime"] = FormatTime(executor_->Now());
  const int64_t active = Active(*entry);
  const int64_t succeeded =
      Number(Get(status, "succeeded")) + CountOf(At(status, "uncountedTerminatedPods", "succeeded"));
  const Json& completions = Get(spec, "completions");
  int64_t wanted = Number(Get(spec, "parallelism"), 1);
  if (!completions.is_null()) {
    wanted = std::min(wanted, Number(completions) - succeeded);
  } else if (succeeded > 0) {
    wanted = std::min(wanted, active);
  }
  if (Text(Get(spec, "podReplacementPolicy")) == "Failed") wanted -= PodsOf(*look->uid).terminating;
  if (wanted > active && executor_->Mono() < entry->no_pods_before) {
    Enqueue(*look->uid, entry->no_pods_before - executor_->Mono());
    return;
  }
  for (int64_t i = active; i < wanted; ++i) MakePod(*look->uid, entry);
  look->pods_moved = look->pods_moved || wanted != active;
  int64_t surplus = active - std::max<int64_t>(wanted, 0);
  // Those first that have not even been scheduled.
  for (const bool gated : {true, false}) {
    for (auto pod = entry->pods.rbegin(); pod != entry->pods.rend() && surplus > 0; ++pod) {
      if (!pod->active() || pod->gated != gated) continue;
      DeletePod(*look->uid, *entry->cached, &*pod);
      --surplus;
    }
  }
}

void JobController::Report(Look* look) {
  const PodCounts counts = PodsOf(*look->uid);
  SetCount(&look->status, "active", counts.active);
  look->status["ready"] = counts.ready;
  look->status["terminating"] = counts.terminating;
}

void JobController::MakePod(const std::string& uid, Entry* entry) {
  const PodPlan plan = options_.plan(*entry->cached, entry->pods_made);
  std::set<int64_t> taken = ParseIndexRanges(Text(At(*entry->cached, "status", "completedIndexes")));
  for (const Pod& pod : entry->pods) {
    if (pod.active() || pod.state == Pod::State::kSucceeded) taken.insert(pod.index);
  }
  Pod pod;
  pod.uid = Concat(uid, "-", entry->pods_made++);
  pod.plan = plan;
  while (taken.contains(pod.index)) ++pod.index;
  const bool gates = !At(*entry->cached, "spec", "template", "spec", "schedulingGates").empty();
  if (options_.pod_objects || gates) MakeObject(*entry->cached, &pod);
  if (options_.pod_objects && pod.object.empty()) return;  // refused
  if (!pod.gated) StartPod(uid, &pod);
  entry->pods.push_back(std::move(pod));
}

void JobController::MakeObject(const Json& job, Pod* pod) {
  const Json& meta = Get(job, "metadata");
  const Json& from = At(job, "spec", "template");
  const std::string name = Text(Get(meta, "name"));
  Json object = {{"apiVersion", "v1"}, {"kind", "Pod"}, {"spec", Get(from, "spec")}, {"metadata", Json::object()}};
  if (const Json& copied = Get(from, "metadata"); copied.is_object()) object["metadata"] = copied;
  pod->object = Concat(name, "-", pod->uid.substr(0, 5), pod->uid.substr(pod->uid.rfind('-')));
  object["metadata"]["name"] = pod->object;
  object["metadata"]["namespace"] = Get(meta, "namespace");
  object["metadata"]["ownerReferences"] = {{{"apiVersion", "batch/v1"},
                                            {"kind", "Job"},
                                            {"name", name},
                                            {"uid", Get(meta, "uid")},
                                            {"controller", true},
                                            {"blockOwnerDeletion", true}}};
  if (Text(At(job, "spec", "completionMode")) == "Indexed") {
    object["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = std::to_string(pod->index);
  }
  object["status"] = {{"phase", "Pending"}};
  if (options_.pod_objects) object["metadata"]["finalizers"] = {"batch.kubernetes.io/job-tracking"};
  const Target target{store_->FindKind("", "pods"), "v1", Text(Get(meta, "namespace")), "", ""};
  pod->gated = store_->Create(kUser, target, std::move(object)).ok();
  if (!pod->gated) pod->object.clear();
}

void JobController::DeleteObject(const Json& job, Pod* pod) {
  if (pod->object.empty()) return;
  const Target target{store_->FindKind("", "pods"), "v1", Text(At(job, "metadata", "namespace")), pod->object, ""};
  if (!options_.pod_objects) pod->object.clear();
  store_->Delete(kUser, target, {});
}

void JobController::OnPodObject(const Change& change) {
  const Json& owners = At(*change.object, "metadata", "ownerReferences");
  if (owners.empty()) return;
  const std::string uid = Text(Get(owners[0], "uid"));
  const auto it = jobs_.find(uid);
  if (it == jobs_.end()) return;
  const auto pod = std::ranges::find(it->second.pods, Text(At(*change.object, "metadata", "name")), &Pod::object);
  if (pod == it->second.pods.end()) return;
  if (options_.pod_objects) {
    OnPodLife(change, &it->second, &*pod);
    Enqueue(uid, options_.pod_batch);
  } else if (change.type != Change::Type::kDeleted && At(*change.object, "spec", "schedulingGates").empty()) {
    OnUngated(uid, &*pod);
  }
}

// Its gates have gone.
void JobController::OnUngated(const std::string& uid, Pod* pod) {
  if (std::exchange(pod->gated, false)) StartPod(uid, pod);
}

// One that somebody else deletes has failed; so has one that goes since its Job has.
void JobController::OnPodLife(const Change& change, Entry* entry, Pod* pod) {
  if (pod->ended()) return;
  const Json& object = *change.object;
  const std::string phase = Text(At(object, "status", "phase"));
  const bool deleted = !At(object, "metadata", "deletionTimestamp").is_null();
  pod->gated = Text(At(object, "spec", "nodeName")).empty();
  if (deleted && !std::exchange(pod->terminating, true)) {
    pod->lost = true;
    Failed(entry);
  }
  if (phase == "Succeeded") {
    pod->state = Pod::State::kSucceeded;
  } else if (phase == "Failed" && (!pod->terminating || pod->lost || pod->counts_as_failure)) {
    pod->state = Pod::State::kFailed;
    if (!pod->terminating) Failed(entry);
  } else if (change.type == Change::Type::kDeleted) {
    if (pod->lost || pod->counts_as_failure) {
      pod->state = Pod::State::kFailed;
    } else {
      entry->pods.erase(entry->pods.begin() + (pod - entry->pods.data()));
    }
  } else if (sim::HasCondition(object, "Ready")) {
    pod->state = Pod::State::kReady;
  }
}

void JobController::Failed(Entry* entry) {
  const int64_t failures = Number(At(*entry->cached, "status", "failed"));
  const Duration wait = failures < 6 ? kBackoff * (int64_t{1} << failures) : options_.backoff_max;
  entry->no_pods_before = executor_->Mono() + std::min(wait, options_.backoff_max);
}

void JobController::StartPod(const std::string& uid, Pod* pod) {
  const std::string pod_uid = pod->uid;
  const PodPlan plan = pod->plan;
  pod->timer = source_->PostAt(executor_->Mono() + plan.start, [this, uid, pod_uid, plan] {
    OnPod(uid, pod_uid, [&](Entry*, Pod* started) {
      started->state = Pod::State::kReady;
      started->timer = source_->PostAt(executor_->Mono() + plan.run, [this, uid, pod_uid, plan] {
        OnPod(uid, pod_uid, [&](Entry* owner, Pod* ended) {
          ended->state = plan.fails ? Pod::State::kFailed : Pod::State::kSucceeded;
          if (owner->cached != nullptr) DeleteObject(*owner->cached, ended);
          if (plan.fails) Failed(owner);
        });
      });
    });
  });
}

void JobController::DeletePod(const std::string& uid, const Json& job, Pod* pod) {
  source_->Cancel(pod->timer);
  pod->terminating = true;
  const Duration dying = pod->gated ? Duration(0) : options_.plan(job, 0).termination;
  DeleteObject(job, pod);
  if (options_.pod_objects) return;
  const std::string pod_uid = pod->uid;
  pod->timer = source_->PostAt(executor_->Mono() + dying, [this, uid, pod_uid] {
    OnPod(uid, pod_uid, [](Entry* owner, Pod* gone) {
      if (gone->counts_as_failure) {
        gone->state = Pod::State::kFailed;
      } else {
        owner->pods.erase(owner->pods.begin() + (gone - owner->pods.data()));
      }
    });
  });
}

// News of a pod: what it changes is seen by the next look, which gathers such news for a while.
void JobController::OnPod(const std::string& uid, const std::string& pod_uid,
                          const std::function<void(Entry*, Pod*)>& change) {
  const auto it = jobs_.find(uid);
  if (it == jobs_.end()) return;
  Entry& entry = it->second;
  const auto pod = std::ranges::find(entry.pods, pod_uid, &Pod::uid);
  if (pod == entry.pods.end()) return;
  const bool starts = pod->state == Pod::State::kPending && !pod->terminating;
  if (entry.cached == nullptr && !starts) {  // the Job is gone, and now this pod
    entry.pods.erase(pod);
    if (entry.pods.empty()) jobs_.erase(it);
    return;
  }
  change(&entry, &*pod);
  if (entry.cached != nullptr) Enqueue(uid, options_.pod_batch);
}

}  // namespace muster::sim
