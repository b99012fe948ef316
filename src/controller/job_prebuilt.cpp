// Jobs whose Workload their user made: the Job becomes its controller, the Workload queues in the Job's place and holds
// the record of the admission until the Job has started.
#include <spdlog/spdlog.h>

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
    TakePrebuilt(entry, *found);
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
          return Wake(e, e->backoff.Next());
        }
        const std::string uid = e->job->meta.uid;
        deps_.workload_returned(result.body);
        if (Entry* found = Find(uid); found != nullptr) Reconcile(found);
      }));
}

void JobController::ReservePrebuilt(Entry* entry) {
  const Claim& claim = *entry->claim;
  ReservationOrder order;
  order.workload = workloads_.Known(entry->job->meta.uid);
  if (order.workload == nullptr || order.workload->meta.name != entry->workload) {
    DropClaim(entry, {}, "");
    return;
  }
  order.claim = claim.record.claim;
  order.admission = claim.record.admission;
  order.reserved_at = claim.record.reserved_at;
  const Record* record = entry->job->record.get();
  if (record != nullptr && record->eviction.has_value() && !ShowsEviction(order.workload->status, *record->eviction)) {
    order.eviction = record->eviction;
  }
  entry->reservation =
      reservations_.Reserve(std::move(order), [this, uid = entry->job->meta.uid](const ReservationEnd& end) {
        Entry* found = Find(uid);
        if (found == nullptr || !leading()) return;
        found->reservation.reset();
        ReservationEnded(found, end);
      });
}

void JobController::ReservationEnded(Entry* entry, const ReservationEnd& end) {
  switch (end.how) {
    case ReservationEnd::How::kChanged:
      return DropClaim(entry, {}, "");
    case ReservationEnd::How::kRefused:
      return RefuseStart(entry, end.wait, end.message);
    case ReservationEnd::How::kShown:
      break;
  }
  entry->claim->reserved = true;
  entry->backoff.Reset();
  entry->not_before = {};
  entry->reason.reset();
  Apply(engine::ClaimWritten{entry->job->meta.uid, entry->claim->record.claim});
  NoteReserved(entry);
  Reconcile(entry);
}

bool JobController::KeepReserved(Entry* entry) {
  Claim& claim = *entry->claim;
  // What may still be applied comes first.
  if (claim.unsure.has_value()) return true;
  const auto known = workloads_.Known(entry->job->meta.uid);
  if (known == nullptr || !HoldsQuota(*known)) {
    if (claim.eviction.has_value()) NoteEviction(entry);
    Release(entry);
    return false;
  }
  if (claim.eviction.has_value()) {
    GiveBack(entry, {});
    return false;
  }
  if (entry->job->deleting() || deps_.options->release) return false;
  if (!InSync(*entry->job, *known)) {
    Fail(entry, "OutOfSync", "The prebuilt workload is out of sync with its user job");
    GiveBack(entry, {});
    return false;
  }
  // It was decided on the Workload: what else changes of the Job changes nothing.
  claim.basis = entry->job;
  return true;
}

void JobController::GiveBack(Entry* entry, WallTime not_before) {
  Claim& claim = *entry->claim;
  claim.state = ClaimState::kLeaving;
  claim.basis.reset();
  claim.unsure.reset();
  entry->not_before = not_before;
  entry->reason.reset();
  Apply(engine::ClaimLeaving{entry->job->meta.uid, claim.record.claim});
  if (claim.eviction.has_value()) NoteEviction(entry);
  TouchWorkload(*entry, Urgency::kNow);
}

}  // namespace muster::controller
