// Jobs whose Workload their user made: the Job becomes its controller, the Workload queues in the Job's place and holds
// the record of the admission until the Job has started.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "job_controller.h"
#include "json_patch.h"
#include "log.h"
#include "muster/controller/names.h"
#include "muster/k8s_client/resources.h"
#include "text.h"

namespace muster::controller {
namespace {

using engine::ClaimState;
using Urgency = WorkloadWriter::Urgency;

// A stop must not wait long for it.
constexpr Duration kTakeAgainMax = std::chrono::seconds(15);

// What the reference compares, with requests in place of whole containers: the API server fills those of Jobs up.
bool InSync(const Job& job, const Workload& workload) {
  if (workload.spec.pod_sets.size() != 1 || workload.templates.size() != 1) return false;
  const WorkloadPodSet& pod_set = workload.spec.pod_sets.front();
  const JobShape shape = OriginalShape(job);
  const auto min_count = MinParallelism(job);
  const auto max_seconds = MaxExecutionSeconds(job);
  return min_count.ok() && max_seconds.ok() && pod_set.count == shape.pod_count() && pod_set.min_count == *min_count &&
         workload.spec.max_execution_seconds == *max_seconds && pod_set.tolerations == shape.view.tolerations &&
         RequestsOf(workload.templates.front().pod) == RequestsOf(job.pod);
}

// Whether it was this Job's, whoever owns it now.
bool WasTakenBy(const Workload& workload, const std::string& job_uid) {
  const auto label = workload.meta.labels.find(kJobUidLabel);
  return label != workload.meta.labels.end() && label->second == job_uid;
}

std::string BuildTake(const Job& job, const Workload& workload) {
  JsonPatch patch;
  patch.TestText("/metadata/uid", workload.meta.uid);
  patch.TestText("/metadata/resourceVersion", workload.meta.resource_version);
  k8s::JsonWriter owner;
  if (workload.meta.owners.empty()) owner.StartArray();
  owner.StartObject().Field("apiVersion", "batch/v1").Field("kind", "Job").Field("name", job.meta.name);
  owner.Field("uid", job.meta.uid).Field("controller", true).Field("blockOwnerDeletion", true).EndObject();
  if (workload.meta.owners.empty()) owner.EndArray();
  patch.AddRaw(workload.meta.owners.empty() ? "/metadata/ownerReferences" : "/metadata/ownerReferences/-",
               owner.Take());
  if (workload.meta.labels.empty()) patch.AddRaw("/metadata/labels", "{}");
  patch.AddText(Pointer({"metadata", "labels", kJobUidLabel}), job.meta.uid);
  patch.AddText(Pointer({"metadata", "labels", kRecordHolderLabel}), kHeldByWorkload);
  return patch.Take();
}

}  // namespace

void JobController::NameWorkload(Entry* entry) {
  const Job& job = *entry->job;
  entry->workload = WorkloadNameOf(job);
  if (job.record != nullptr) entry->slice = job.record->slice;
  if (const auto known = workloads_.Known(job.meta.uid); known != nullptr) TakeSliceName(known->meta, entry);
  if (!job.prebuilt().empty()) prebuilt_[{job.meta.ns, entry->workload}].insert(job.meta.uid);
  workloads_.Choose(job.meta.uid);
}

void JobController::ForgetPrebuilt(const Entry& entry) {
  if (entry.job == nullptr || entry.job->prebuilt().empty()) return;
  const auto it = prebuilt_.find({entry.job->meta.ns, entry.workload});
  if (it == prebuilt_.end()) return;
  it->second.erase(entry.job->meta.uid);
  if (it->second.empty()) prebuilt_.erase(it);
}

void JobController::PrebuiltChanged(const k8s::ObjectKey& key) {
  const auto it = prebuilt_.find(key);
  if (it == prebuilt_.end() || !leading()) return;
  const std::set<std::string> uids = it->second;
  for (const std::string& uid : uids) {
    if (Entry* entry = Find(uid); entry != nullptr) Reconcile(entry);
  }
}

bool JobController::HasPrebuilt(Entry* entry) {
  const Job& job = *entry->job;
  const auto refuse = [this, entry, &job](std::string_view why) {
    ReportProblem(entry, absl::FailedPreconditionError(Cat(kPrebuiltWorkloadName, ": Workload \"", job.meta.ns, "/",
                                                           entry->workload, "\" ", why)));
    return false;
  };
  const auto known = workloads_.Known(job.meta.uid);
  if (known == nullptr || known->meta.name != entry->workload) {
    const auto found = deps_.find_workload({job.meta.ns, entry->workload});
    if (found == nullptr) return refuse("does not exist");
    if (const k8s::OwnerReference* owner = found->meta.Controller(); owner != nullptr) {
      return refuse(Cat("is controlled by ", owner->kind, " \"", owner->name, "\""));
    }
    if (found->meta.deletion.IsSet()) return refuse("is being deleted");
    // A record of an admission with another is nothing for this one to show: it goes first.
    if (job.record == nullptr || WasTakenBy(*found, job.meta.uid)) TakePrebuilt(entry, *found);
    return false;
  }
  if (known->meta.deletion.IsSet()) return refuse("is being deleted");
  if (k8s::IsTrue(known->status.conditions, "Finished")) return false;
  if (!Prepare(entry)) return false;
  if (HoldsQuota(*known)) {
    // Of an admission that is over, as the Job's record says: the Workload is told first.
    TouchWorkload(*entry, Urgency::kNow);
    return false;
  }
  if (!InSync(job, *known)) {
    Fail(entry, "OutOfSync", "The prebuilt workload is out of sync with its user job");
    return false;
  }
  if (known->spec.queue_name == entry->prepared->workload.local_queue) return true;
  // It may not change any more once quota is reserved.
  TouchWorkload(*entry, Urgency::kNow);
  return false;
}

void JobController::TakePrebuilt(Entry* entry, const Workload& workload) {
  deps_.client->Patch(
      k8s::Lane::kWorkload, k8s::kWorkloads, workload.meta.key(), "", k8s::PatchType::kJsonPatch,
      BuildTake(*entry->job, workload), Callback(entry, [this](Entry* e, const k8s::Result& result) {
        if (!result.ok()) {
          spdlog::warn("a prebuilt workload could not be taken{}", JobFields(*e->job, {{"error", result.message}}));
          return Wake(e, std::min(e->backoff.Next(), kTakeAgainMax));
        }
        const std::string uid = e->job->meta.uid;
        deps_.workload_returned(result.body);
        if (Entry* found = Find(uid); found != nullptr) Reconcile(found);
      }));
}

// Before its Job took it, it may have preempted others, whose records name it.
void JobController::CollectTaken() {
  taken_.clear();
  for (const auto& [key, job_uids] : prebuilt_) {
    for (const std::string& uid : job_uids) {
      const auto known = workloads_.Known(uid);
      if (known != nullptr && known->meta.key() == key) taken_.emplace(known->meta.uid, uid);
    }
  }
}

std::string JobController::QueuesAs(const std::string& uid) const {
  const auto taken = taken_.find(uid);
  return taken == taken_.end() ? uid : taken->second;
}

bool JobController::TakeBack(Entry* entry) {
  const Job& job = *entry->job;
  if (job.prebuilt().empty() || job.deleting() || workloads_.Known(job.meta.uid) != nullptr) return false;
  const auto found = deps_.find_workload({job.meta.ns, entry->workload});
  if (found == nullptr || found->meta.Controller() != nullptr || found->meta.deletion.IsSet() ||
      !WasTakenBy(*found, job.meta.uid)) {
    return false;
  }
  TakePrebuilt(entry, *found);
  return true;
}

bool JobController::Counts(const Workload& workload) const {
  const auto label = workload.meta.labels.find(kJobUidLabel);
  if (label == workload.meta.labels.end()) return false;
  const auto it = entries_.find(label->second);
  if (it == entries_.end()) return false;
  const Entry& entry = it->second;
  return (entry.claim.has_value() || entry.finished) && !entry.job->prebuilt().empty() &&
         entry.job->meta.ns == workload.meta.ns && entry.workload == workload.meta.name;
}

bool JobController::StillDescribes(const Entry& entry, const Workload& workload) const {
  const Job& job = *entry.job;
  if (!job.prebuilt().empty()) return InSync(job, workload);
  WorkloadSpec wanted =
      ProjectSpec(job, PriorityOf(entry), entry.prepared->min_count, entry.prepared->max_execution_seconds);
  wanted.priority = workload.spec.priority;
  wanted.priority_class = workload.spec.priority_class;
  return workload.spec == wanted;
}

}  // namespace muster::controller
