// Elastic Jobs: their pod counts may change while they run. Fewer pods are written into the record as they are, and
// free from then on; more are asked of the engine, and written once they are admitted. Until then scheduling gates hold
// them (elastic_pods.h).
//
// Source: kueue_semantics 2.10.
#include <absl/strings/numbers.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "job_controller.h"
#include "log.h"
#include "muster/controller/names.h"
#include "muster/engine/totals.h"
#include "text.h"

namespace muster::controller {
namespace {

using engine::ClaimState;
using Urgency = WorkloadWriter::Urgency;

constexpr Duration kRepeatMax = std::chrono::seconds(15);
// The engine hears of a stop when it is made.
constexpr Duration kStopsSoon = std::chrono::seconds(1);

int32_t PodsOf(const engine::Admission& admission) { return admission.pod_sets.front().count; }

}  // namespace

bool JobController::Resizes(const Entry& entry) const {
  if (!entry.claim.has_value() || !entry.job->elastic() || !HoldsPodsBack(*entry.job)) return false;
  const Claim& claim = *entry.claim;
  if (claim.state != ClaimState::kWritten && claim.state != ClaimState::kActive) return false;
  // Checks have passed what they were shown.
  const std::optional<CheckNames> checks = ChecksOf(entry);
  // Places are given whole; for the engine it is not elastic then.
  return claim.record.admission.pod_sets.size() == 1 && !claim.record.placed && checks.has_value() && checks->empty();
}

int32_t JobController::AdmittedPods(const std::string& uid) const {
  const auto it = entries_.find(uid);
  if (it == entries_.end() || !leading() || !it->second.claim.has_value()) return 0;
  const Claim& claim = *it->second.claim;
  const bool runs = claim.state == ClaimState::kWritten || claim.state == ClaimState::kActive;
  if (!runs || claim.eviction.has_value() || claim.record.admission.pod_sets.empty()) return 0;
  const int32_t allowed = PodsAllowed(it->second);
  // The record may say less already: nobody is let go any more on what is being given back.
  const bool shrinks = claim.size_write.has_value() && !claim.size_write->grows;
  return shrinks ? std::min(allowed, PodsOf(claim.size_write->admission)) : allowed;
}

// By the record, less what was given back since: that may be another's.
int32_t JobController::PodsAllowed(const Entry& entry) const {
  const Record& record = entry.claim->record;
  const int32_t written = PodsOf(record.admission);
  const std::optional<engine::Admission> held = HeldNow(entry);
  return held.has_value() ? std::min(written, PodsOf(*held)) : written;
}

std::optional<engine::Admission> JobController::HeldNow(const Entry& entry) const {
  std::optional<engine::WorkloadView> view = engine_->ViewWorkload(entry.job->meta.uid);
  if (!view.has_value() || view->claim != entry.claim->record.claim || view->admission.pod_sets.empty()) {
    return std::nullopt;
  }
  return std::move(view->admission);
}

// They came later than the Job, and take their turn.
WallTime JobController::GrowthQueueTime(Entry* entry) {
  if (!Resizes(*entry) || NeededPods(*entry) <= PodsAllowed(*entry)) {
    entry->grows_since = {};
    entry->growth_reason.reset();
  } else if (!entry->grows_since.IsSet()) {
    // A former process may have told since when.
    const auto known = workloads_.Known(entry->job->meta.uid);
    const k8s::Condition* waits =
        known == nullptr ? nullptr : k8s::FindCondition(known->status.conditions, kWaitingCondition);
    const bool told = waits != nullptr && waits->status == "True";
    entry->grows_since = told ? waits->last_transition : deps_.env.clock->Now();
  }
  return entry->grows_since;
}

std::optional<engine::Reason> JobController::WhyNotMore(const Entry& entry) const {
  const bool told = entry.growth_reason.has_value() && !entry.growth_reason->obstacles.empty();
  return told && !deps_.options->release ? entry.growth_reason : std::nullopt;
}

// ---- what the engine decides ----------------------------------------------------------------------

void JobController::HandleGrow(const engine::Grow& grow) {
  Entry* entry = Find(grow.uid);
  if (entry == nullptr || !entry->claim.has_value() || entry->claim->record.claim != grow.claim) return;
  Claim& claim = *entry->claim;
  claim.growth = grow;
  if (claim.eviction.has_value()) {
    RefuseGrowth(entry, deps_.env.clock->Now() + kStopsSoon, "it is being stopped");
  } else {
    Reconcile(entry);
  }
}

void JobController::RefuseGrowth(Entry* entry, WallTime not_before, std::string message) {
  const engine::ClaimId id = entry->claim->record.claim;
  entry->claim->growth.reset();
  Apply(engine::GrowthRefused{entry->job->meta.uid, id, not_before, std::move(message)});
}

// ---- writing --------------------------------------------------------------------------------------

void JobController::ReconcileSize(Entry* entry) {
  Claim& claim = *entry->claim;
  const Job& job = *entry->job;
  if (job.deleting() || deps_.options->release) return;
  if (claim.size_write.has_value()) return ContinueSizeWrite(entry);
  if (claim.growth.has_value()) {
    // Counts may be others than those that were decided on.
    if (job.meta.generation == claim.growth->generation) {
      return SendSize(entry, engine::Admission(claim.growth->admission), true);
    }
    RefuseGrowth(entry, {}, "");
  }
  if (!Resizes(*entry) || CurrentShape(job).pod_count() >= claim.record.pod_count()) return;
  std::optional<engine::Admission> held = HeldNow(*entry);
  if (!held.has_value()) return;
  engine::PodSetAssignment& pods = held->pod_sets.front();
  std::tie(pods.count, pods.usage) = engine::StillHeld(pods, PodsLeft(job, CurrentShape(job)));
  if (pods.count < PodsOf(claim.record.admission)) SendSize(entry, *held, false);
}

void JobController::SendSize(Entry* entry, const engine::Admission& admission, bool grows) {
  const Job& job = *entry->job;
  JobPatch patch = BuildSize(job, admission, grows);
  const MonoTime landed_by = entry->claim->size_write.has_value() ? entry->claim->size_write->landed_by : MonoTime{};
  entry->claim->size_write = SizeWrite{admission, job.meta.generation, grows, landed_by, false, {}};
  Send(entry, std::move(patch.body),
       [this, admission](Entry* e, const k8s::Result& result) { SizeAnswered(e, admission, result); });
}

void JobController::SizeAnswered(Entry* entry, const engine::Admission& admission, const k8s::Result& result) {
  const bool current = entry->claim.has_value() && entry->claim->size_write.has_value() &&
                       entry->claim->size_write->admission == admission;
  if (result.ok() || !current) {
    Continue(entry, result);
    return;
  }
  SizeWrite& write = *entry->claim->size_write;
  if (result.outcome == k8s::Outcome::kUnknown) {
    write.landed_by = result.landed_by;
  } else {
    write.given_up = true;
    write.message = result.message;
  }
  // What the Job shows decides, whatever the answer.
  Refresh(entry, [this](Entry* e) {
    if (e->claim.has_value() && e->claim->size_write.has_value() && !e->claim->size_write->given_up) {
      Wake(e, std::min(e->backoff.Next(), kRepeatMax));
    }
  });
}

// It was sent, and the Job does not show it.
void JobController::ContinueSizeWrite(Entry* entry) {
  SizeWrite& write = *entry->claim->size_write;
  // It tests the generation.
  if (entry->job->meta.generation != write.generation) return EndSizeWrite(entry, Duration(0), "");
  if (!write.given_up) return SendSize(entry, engine::Admission(write.admission), write.grows);
  if (write.landed_by == MonoTime{}) {
    EndSizeWrite(entry, entry->backoff.Next(), std::string(write.message));  // `write` ends there
  } else if (!WaitsUntil(entry, write.landed_by)) {
    // Read once more, when no earlier try can be applied any more.
    write.landed_by = {};
    Refresh(entry, [](Entry*) {});
  }
}

void JobController::EndSizeWrite(Entry* entry, Duration wait, const std::string& message) {
  const bool grows = entry->claim->size_write->grows && entry->claim->growth.has_value();
  entry->claim->size_write.reset();
  deps_.size_changed(entry->job->meta.uid);
  if (!message.empty()) {
    spdlog::warn("the new size of a job was refused{}", JobFields(*entry->job, {{"error", message}}));
    JobEvent(*entry->job, "Warning", "ResizeRefused", "Resize", message);
  }
  if (grows) RefuseGrowth(entry, wait > Duration(0) ? deps_.env.clock->Now() + wait : WallTime{}, message);
  if (wait == Duration(0)) {
    ReconcileSize(entry);
  } else if (!grows) {
    Wake(entry, std::min(wait, kRepeatMax));
  }
}

void JobController::SeeSizeWritten(Entry* entry) {
  Claim& claim = *entry->claim;
  const Job& job = *entry->job;
  if (!claim.size_write.has_value() || job.record == nullptr || job.record->claim != claim.record.claim ||
      job.record->admission != claim.size_write->admission) {
    return;
  }
  const bool grown = claim.size_write->grows;
  claim.size_write.reset();
  entry->backoff.Reset();
  const int32_t before = PodsOf(claim.record.admission);
  claim.record.admission = job.record->admission;
  claim.record.pods = job.record->pods;
  claim.record.slice = job.record->slice;
  const std::string& queue = claim.record.admission.cluster_queue;
  if (grown) {
    claim.growth.reset();
    entry->grows_since = {};
    entry->growth_reason.reset();
    Apply(engine::GrowthWritten{job.meta.uid, claim.record.claim});
    deps_.telemetry->SliceReplaced(Queue(*entry));
    entry->slice = job.record->slice;
    ReplaceSlice(entry);
  } else if (entry->told.has_value() && entry->told->pods > PodsOf(claim.record.admission)) {
    // The Job may ask for more again by now. What it has given back is another's all the same, and is asked for anew.
    entry->told->pods = PodsOf(claim.record.admission);
    Apply(engine::WorkloadChanged{AsTold(*entry)});
  }
  spdlog::info("a job was resized{}", JobFields(job, {{"clusterQueue", queue},
                                                      {"before", std::to_string(before)},
                                                      {"pods", std::to_string(PodsOf(claim.record.admission))}}));
  deps_.size_changed(job.meta.uid);
  TouchWorkload(*entry, Urgency::kNow);
}

// ---- Workloads, one for each size that was added to -----------------------------------------------

void JobController::TakeSliceName(const k8s::ObjectMeta& workload, Entry* entry) {
  const Job& job = *entry->job;
  const auto slice = workload.annotations.find(kSliceAnnotation);
  int64_t generation = 0;
  if (job.record != nullptr || slice == workload.annotations.end()) return;
  if (!absl::SimpleAtoi(slice->second, &generation) || workload.name != SliceName(job, generation)) return;
  entry->slice = generation;
  entry->workload = workload.name;
}

void JobController::ReplaceSlice(Entry* entry) {
  const Job& job = *entry->job;
  entry->workload = SliceName(job, entry->slice);
  for (const std::shared_ptr<const Workload>& old : workloads_.GiveUpOthers(job.meta.uid, entry->workload)) {
    replaced_.insert(old->meta.uid);
    entry->replaced.push_back(old->meta.uid);
    entry->replaces = old->meta.key().ToString();
    workloads_.Observe(old->meta.uid, old);
  }
  FinishReplaced(entry);
}

void JobController::AddSliceAnnotations(const Entry& entry, Labels* annotations) const {
  if (!entry.slice.has_value()) return;
  const Job& job = *entry.job;
  annotations->insert_or_assign(std::string(kSliceAnnotation), std::to_string(*entry.slice));
  annotations->insert_or_assign(std::string(kSliceNameAnnotation), SliceName(job, std::nullopt));
  if (!entry.replaces.empty()) {
    annotations->insert_or_assign(std::string(kSliceReplacementAnnotation), entry.replaces);
  }
}

void JobController::FinishReplaced(Entry* entry) {
  const auto known = workloads_.Known(entry->job->meta.uid);
  if (!leading() || known == nullptr || known->meta.name != entry->workload) return;
  for (const std::string& uid : std::exchange(entry->replaced, {})) {
    const auto old = workloads_.Known(uid);
    if (old == nullptr) continue;
    WantedWorkload wanted;
    wanted.key = old->meta.key();
    wanted.create = false;
    wanted.spec = old->spec;
    wanted.facts.state = WorkloadFacts::State::kFinished;
    wanted.facts.finished_reason = kSliceReplaced;
    wanted.facts.finished_message = Cat("Replaced to accommodate a workload (UID: ", known->meta.uid,
                                        ", JobUID: ", entry->job->meta.uid, ") due to workload slice aggregation");
    deps_.events->Record({"kueue.x-k8s.io/v1beta2", "Workload", old->meta.ns, old->meta.name, uid}, kWorkloadReporter,
                         "Normal", kSliceReplaced, "Replace", wanted.facts.finished_message);
    departed_.insert_or_assign(uid, std::move(wanted));
    workloads_.Touch(uid, Urgency::kNow);
  }
}

std::string JobController::HolderOf(const k8s::ObjectMeta& workload, const std::string& job_uid) const {
  return replaced_.contains(workload.uid) ? workload.uid : job_uid;
}

// It says so: nothing is left to be done for it.
bool JobController::IsReplaced(const Workload& workload) {
  const k8s::Condition* finished = k8s::FindCondition(workload.status.conditions, "Finished");
  if (finished == nullptr || finished->status != "True" || finished->reason != kSliceReplaced) return false;
  if (HasKueueFinalizer(workload)) return false;
  departed_.erase(workload.meta.uid);
  workloads_.Forget(workload.meta.uid);
  replaced_.insert(workload.meta.uid);
  return true;
}

}  // namespace muster::controller
