#include "reservation.h"

#include <algorithm>
#include <utility>

#include "muster/controller/names.h"
#include "muster/k8s_client/resources.h"
#include "text.h"

namespace muster::controller {
namespace {

using How = ReservationEnd::How;

constexpr int kConflict = 409;
constexpr int kNotFound = 404;
// Somebody writes it all the time.
constexpr int kConflictsMax = 20;
constexpr Duration kAskPause = std::chrono::seconds(1);

bool Names(const Labels& map, std::string_view key, std::string_view value) {
  const auto it = map.find(key);
  return it != map.end() && it->second == value;
}

bool NamesClaim(const Workload& workload, engine::ClaimId claim) {
  return Names(workload.meta.annotations, kClaimAnnotation, claim.ToString()) &&
         Names(workload.meta.labels, kRecordHolderLabel, kHeldByWorkload);
}

}  // namespace

std::shared_ptr<void> Reservations::Reserve(ReservationOrder order, Done done) {
  std::shared_ptr<void> token = std::make_shared<bool>();
  auto run = std::make_shared<Run>();
  run->newest = order.workload;
  run->order = std::move(order);
  run->done = std::move(done);
  run->wanted = token;
  env_.executor->Post([this, run] {
    if (!run->wanted.expired()) Step(run);
  });
  return token;
}

// One write, or the end. What is known is newer than any write that may still be on its way, or that is waited for.
void Reservations::Step(const RunPtr& run) {
  // What was just learned may have ended it: the quota may be another's by now.
  if (run->wanted.expired()) return;
  const Workload& workload = *run->newest;
  const Workload& basis = *run->order.workload;
  if (NamesClaim(workload, run->order.claim) && HoldsQuota(workload) &&
      workload.status.admission == ToApi(run->order.admission)) {
    return End(run, {How::kShown, "", Duration(0)});
  }
  const std::string& version = workload.meta.resource_version;
  if (workload.meta.uid != basis.meta.uid || workload.meta.generation != basis.meta.generation ||
      workload.meta.deletion.IsSet() || HoldsQuota(workload) || k8s::IsTrue(workload.status.conditions, "Finished")) {
    return End(run, {How::kChanged, "", Duration(0)});
  }
  if (run->doubtful == version) {
    const MonoTime now = env_.clock->Mono();
    if (now >= run->landed_by) return End(run, {How::kRefused, run->message, Duration(0)});
    if (now >= run->repeat_until) return AskAt(run, run->landed_by);
  }
  if (!NamesClaim(workload, run->order.claim)) {
    return Patch(run, "",
                 EncodeMetaPatch(workload, {{std::string(kClaimAnnotation), run->order.claim.ToString()}},
                                 {{std::string(kRecordHolderLabel), std::string(kHeldByWorkload)}}));
  }
  WorkloadFacts facts;
  if (run->order.checks.empty()) {
    facts.state = WorkloadFacts::State::kAdmitted;
  } else {
    facts.state = WorkloadFacts::State::kReserved;
    facts.checks = run->order.checks;
    facts.waits_for = WaitsForChecks({}, run->order.checks, run->order.admission.cluster_queue);
  }
  facts.admission = run->order.admission;
  facts.reserved_at = run->order.reserved_at;
  facts.eviction = run->order.eviction;
  const WorkloadStatus status = ProjectStatus(workload.status, workload.meta.generation, facts, env_.clock->Now());
  Patch(run, "status", EncodeStatusPatch(workload, status));
}

void Reservations::Patch(const RunPtr& run, std::string_view subresource, std::string body) {
  const Workload& workload = *run->newest;
  // A start: nothing else of the gang can happen before it.
  client_->Patch(
      k8s::Lane::kStart, k8s::kWorkloads, workload.meta.key(), subresource, k8s::PatchType::kMergePatch,
      std::move(body),
      [this, run, status = !subresource.empty(), base = workload.meta.resource_version](const k8s::Result& result) {
        if (!run->wanted.expired()) Answered(run, status, base, result);
      });
}

void Reservations::Answered(const RunPtr& run, bool status, const std::string& base, const k8s::Result& result) {
  if (result.ok()) {
    if (!Learn(run, result.body) || run->newest->meta.resource_version == base) {
      // An answer that is none, or a write without effect.
      run->message = "the Workload does not show what was written";
      return AskAt(run, env_.clock->Mono() + kAskPause);
    }
    return Step(run);
  }
  if (result.outcome == k8s::Outcome::kUnknown) {
    run->message = result.code == 0 ? Cat("no answer: ", result.message) : Cat(result.code, ": ", result.message);
    if (status) {
      if (run->doubtful != base) run->repeat_until = result.landed_by;
      run->doubtful = base;
      run->landed_by = std::max(run->landed_by, result.landed_by);
    }
    return AskAt(run, env_.clock->Mono() + run->backoff.Next());
  }
  if (result.code == kConflict && ++run->conflicts < kConflictsMax) return Ask(run);
  if (result.code == kNotFound) return End(run, {How::kChanged, "", Duration(0)});
  if (run->doubtful == base) {
    // An earlier one may still be applied.
    run->message = result.message;
    run->repeat_until = env_.clock->Mono();
    return AskAt(run, run->landed_by);
  }
  End(run, {How::kRefused, result.message, result.retry_after.value_or(Duration(0))});
}

void Reservations::AskAt(const RunPtr& run, MonoTime when) {
  env_.executor->PostAt(when, [this, run] {
    if (!run->wanted.expired()) Ask(run);
  });
}

void Reservations::Ask(const RunPtr& run) {
  client_->Get(k8s::Lane::kStart, k8s::kWorkloads, run->order.workload->meta.key(),
               [this, run](const k8s::Result& result) {
                 if (!run->wanted.expired()) Asked(run, result);
               });
}

void Reservations::Asked(const RunPtr& run, const k8s::Result& result) {
  if (result.code == kNotFound) return End(run, {How::kChanged, "", Duration(0)});
  if (result.ok() && !Learn(run, result.body)) {
    const std::string version = k8s::ReadMeta(result.body).resource_version;
    if (!version.empty() && version != run->doubtful)
      return End(run, {How::kRefused, "it cannot be read", Duration(0)});
    return AskAt(run, env_.clock->Mono() + kAskPause);
  }
  if (!result.ok()) {
    return AskAt(run, env_.clock->Mono() + std::max(kAskPause, result.retry_after.value_or(Duration(0))));
  }
  Step(run);
}

bool Reservations::Learn(const RunPtr& run, const std::string& json) {
  auto workload = DecodeWorkload(json);
  if (!workload.ok() || workload->meta.name.empty()) return false;
  run->newest = std::make_shared<const Workload>(*std::move(workload));
  returned_(json);
  return true;
}

void Reservations::End(const RunPtr& run, ReservationEnd end) { std::exchange(run->done, nullptr)(end); }

}  // namespace muster::controller
