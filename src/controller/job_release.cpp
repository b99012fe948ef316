// Handing Jobs over to Kueue: it knows Workloads, and no records.
//
// Source: record.md, "Hand-over to Kueue".
#include "job_controller.h"
#include "muster/controller/names.h"
#include "text.h"

namespace muster::controller {
namespace {

using engine::ClaimState;

constexpr size_t kNamedMax = 5;

bool CarriesRecord(const Job& job) { return job.meta.annotations.contains(kRecordAnnotation); }

bool ShowsRunning(const Workload* workload, const engine::Admission& admission) {
  if (workload == nullptr || workload->status.admission != ToApi(admission)) return false;
  const std::vector<k8s::Condition>& conditions = workload->status.conditions;
  return k8s::IsTrue(conditions, "QuotaReserved") && k8s::IsTrue(conditions, "Admitted") &&
         !k8s::IsTrue(conditions, "Evicted");
}

}  // namespace

JobController::ReleaseProgress JobController::ReleaseRecords() {
  ReleaseProgress progress;
  for (auto& [uid, entry] : entries_) {
    const bool settled = workloads_.Settled(uid);
    if (!CarriesRecord(*entry.job) && (settled || !entry.claim.has_value())) continue;
    const std::string name = entry.job->meta.key().ToString();
    if (progress.left < kNamedMax) progress.waits_for += Cat(progress.left == 0 ? "" : ", ", name);
    if (progress.left == kNamedMax) progress.waits_for += ", ...";
    ++progress.left;
    if (const auto refused = refusals_.find(uid);
        !settled && refused != refusals_.end() && progress.problems.size() < kNamedMax) {
      progress.problems.push_back(
          Cat("the release waits for Job ", name, ": its Workload was refused: ", refused->second));
    }
    if (!settled || entry.busy || !CarriesRecord(*entry.job) || !MayRelease(&entry)) continue;
    Send(&entry, BuildRelease(*entry.job), [this](Entry* e, const k8s::Result& result) { Continue(e, result); });
  }
  return progress;
}

// REQUIRES: it carries a record, and its Workload is settled.
bool JobController::MayRelease(Entry* entry) {
  const Job& job = *entry->job;
  const auto known = workloads_.Known(job.meta.uid);
  if (job.Outcome() != nullptr) return known == nullptr || k8s::IsTrue(known->status.conditions, "Finished");
  if (entry->claim.has_value()) {
    const Claim& claim = *entry->claim;
    const bool runs = claim.state == ClaimState::kWritten || claim.state == ClaimState::kActive;
    return runs && !claim.eviction.has_value() && ShowsRunning(known.get(), claim.record.admission);
  }
  if (job.record != nullptr && job.record->state == Record::State::kStopped && job.suspend) {
    RestoreIfShown(entry);  // the template goes back with the record
    return false;
  }
  return true;
}

}  // namespace muster::controller
