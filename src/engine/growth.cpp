// Elastic workloads: fewer pods are given back at once, more wait for the difference and are added to the claim.
//
// There is one claim, of the old size until the growth is decided, and of the new one from then on: at no time do both
// sizes count.
//
// Source: kueue_semantics 2.10.
#include <algorithm>
#include <utility>

#include "engine_impl.h"
#include "muster/core/check.h"
#include "muster/engine/totals.h"

namespace muster::engine {

namespace {

// RETURNS: whether its claim follows its pod counts.
bool IsElastic(const WorkloadState& workload) {
  const Claim* claim = workload.claim.get();
  return workload.spec.elastic && claim != nullptr &&
         std::equal(workload.spec.pod_sets.begin(), workload.spec.pod_sets.end(), claim->admission.pod_sets.begin(),
                    claim->admission.pod_sets.end(), [](const PodSet& pod_set, const PodSetAssignment& assigned) {
                      return pod_set.name == assigned.name && !assigned.topology.has_value();
                    });
}

bool MayGrow(const Claim& claim) {
  return claim.admitted && !claim.leaving && !claim.before_growth.has_value() && claim.state != ClaimState::kPlanned;
}

// What the pods are that it has more than it was admitted with, as a workload that waits. REQUIRES: IsElastic.
Workload GrowthOf(const WorkloadState& workload) {
  Workload growth = workload.spec;
  growth.not_before = {};
  if (growth.growth_queue_time.IsSet()) growth.queue_time = growth.growth_queue_time;
  for (size_t i = 0; i < growth.pod_sets.size(); ++i) {
    PodSet& pod_set = growth.pod_sets[i];
    pod_set.count = std::max(0, pod_set.count - workload.claim->admission.pod_sets[i].count);
    pod_set.min_count.reset();
  }
  return growth;
}

bool HasPods(const Workload& workload) {
  return std::any_of(workload.pod_sets.begin(), workload.pod_sets.end(),
                     [](const PodSet& pod_set) { return pod_set.count > 0; });
}

// Adds what is in `more` to what is in `sum`, by resource; both are sorted by it.
template <typename Value, typename Add>
void Merge(const std::vector<std::pair<std::string, Value>>& more, std::vector<std::pair<std::string, Value>>* sum,
           Add add) {
  for (const auto& entry : more) {
    const auto at = std::lower_bound(sum->begin(), sum->end(), entry,
                                     [](const auto& a, const auto& b) { return a.first < b.first; });
    if (at != sum->end() && at->first == entry.first) {
      add(&at->second, entry.second);
    } else {
      sum->insert(at, entry);
    }
  }
}

void AddTo(const Admission& more, Admission* admission) {
  for (size_t i = 0; i < admission->pod_sets.size(); ++i) {
    PodSetAssignment& sum = admission->pod_sets[i];
    const PodSetAssignment& added = more.pod_sets[i];
    if (added.count == 0) continue;
    sum.count += added.count;
    Merge(added.flavors, &sum.flavors, [](std::string*, const std::string&) {});
    Merge(added.usage, &sum.usage, [](Amount* total, Amount amount) { *total += amount; });
  }
}

// RETURNS: whether it is for fewer pods now.
bool Shrink(const Workload& spec, Admission* admission) {
  bool shrunk = false;
  for (size_t i = 0; i < admission->pod_sets.size(); ++i) {
    PodSetAssignment& assigned = admission->pod_sets[i];
    auto [count, usage] = StillHeld(assigned, spec.pod_sets[i].count);
    shrunk = shrunk || count < assigned.count;
    assigned.count = count;
    assigned.usage = std::move(usage);
  }
  return shrunk;
}

}  // namespace

// ---- events -------------------------------------------------------------------------------------

WorkloadState* EngineSet::Impl::EndGrowth(std::string_view uid, ClaimId claim) {
  WorkloadState* workload = FindHolder(uid, claim);
  if (workload == nullptr || !workload->claim->before_growth.has_value()) return nullptr;
  --unwritten_claims_;
  return workload;
}

void EngineSet::Impl::Apply(const GrowthWritten& event) {
  WorkloadState* workload = EndGrowth(event.uid, event.claim);
  if (workload == nullptr) return;
  workload->claim->before_growth.reset();
  promises_.erase(event.uid);
  if (admission_shares_.has_value()) admission_shares_->Settle(workload);
  CheckEviction(workload);
  Resize(workload);
}

void EngineSet::Impl::Apply(const GrowthRefused& event) {
  WorkloadState* workload = EndGrowth(event.uid, event.claim);
  if (workload == nullptr) return;
  workload->claim->admission = *std::exchange(workload->claim->before_growth, std::nullopt);
  if (admission_shares_.has_value()) admission_shares_->Leave(workload);
  UpdateClaimUsage(workload);
  ShareChanged(workload->local_queue);
  CheckEviction(workload);
  Resize(workload, &event);
}

// ---- following the counts -----------------------------------------------------------------------

void EngineSet::Impl::NoteSize(WorkloadState* workload) {
  if (workload->spec.elastic || workload->growth != nullptr) sizes_due_.insert(workload);
}

void EngineSet::Impl::SettleSizes() {
  while (!sizes_due_.empty()) {
    WorkloadState* workload = *sizes_due_.begin();
    sizes_due_.erase(sizes_due_.begin());
    Resize(workload);
  }
}

void EngineSet::Impl::Resize(WorkloadState* workload, const GrowthRefused* refused) {
  const bool elastic = IsElastic(*workload);
  if (elastic) {
    // What is booked follows the counts already; from now on more of them have to be asked for.
    Claim* claim = workload->claim.get();
    if (Shrink(workload->spec, &claim->admission)) forest_.MarkChanged(claim->queue);
    if (claim->before_growth.has_value()) Shrink(workload->spec, &*claim->before_growth);
  }
  Workload wanted;
  if (elastic && MayGrow(*workload->claim)) wanted = GrowthOf(*workload);
  if (!HasPods(wanted)) {
    RemoveGrowth(workload);
    return;
  }
  const bool is_new = workload->growth == nullptr;
  if (is_new) {
    workload->growth = std::make_unique<WorkloadState>();
    workload->growth->grows = workload;
    workload->growth->preempted = workload->preempted;
    workload->growth->preempted_at = workload->preempted_at;
  }
  WorkloadState* growth = workload->growth.get();
  if (refused != nullptr) {
    wanted.not_before = refused->not_before;
    growth->start_refused = refused->message;
  } else if (!growth->start_refused.empty()) {
    wanted.not_before = growth->spec.not_before;
  }
  if (!is_new && QueuesAlike(growth->spec, wanted)) {
    growth->spec.generation = wanted.generation;
  } else {
    Change(growth, wanted, is_new);
  }
}

void EngineSet::Impl::RemoveGrowth(WorkloadState* workload) {
  WorkloadState* growth = workload->growth.get();
  if (growth == nullptr) return;
  if (growth->waiting_in != nullptr) Unqueue(growth);
  WakeAfter(*growth);
  Leave(growth);
  reasons_changed_.erase(growth);
  workload->preempted = std::move(growth->preempted);
  workload->preempted_at = growth->preempted_at;
  workload->growth.reset();
}

// ---- growing ------------------------------------------------------------------------------------

void EngineSet::Impl::OnGrow(WorkloadState* growth, const ClusterQueueState& queue, const Assignment& assignment,
                             gang::Reservation machines) {
  WorkloadState* workload = growth->grows;
  Claim* claim = workload->claim.get();
  MUSTER_CHECK_MSG(!claim->before_growth.has_value() && claim->queue == &queue, workload->spec.uid);
  const Admission more = MakeAdmission(*growth, queue, assignment);
  CountPending(*growth, growth->grows->claim->queue, -1);
  if (admission_shares_.has_value()) admission_shares_->Enter(workload, UsageOf(growth->spec, more), now_);
  claim->before_growth = claim->admission;
  AddTo(more, &claim->admission);
  // Its claim takes over the places that were kept for them.
  machines.ReleaseQuietly();
  NoteNeededPods(workload);
  ++unwritten_claims_;
  Rebook(workload);
  ShareChanged(workload->local_queue);
  SetReason(growth, nullptr);
  NoteSize(workload);
  decisions_->push_back(Grow{workload->spec.uid, workload->spec.generation, claim->id, claim->admission});
}

}  // namespace muster::engine
