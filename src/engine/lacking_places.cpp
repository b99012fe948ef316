// Gangs that hold claims and lack places on machines: late surprises. Until a place comes the pods wait, and what the
// others of the gang hold is of no use; so a gang that gets none in time goes whole, and waits for all its places like
// anybody else. That cannot go round: it is admitted again only where the book has all of them, and lacks some again
// only if machines lose room once more.
//
// Source: user_pains D2, D8, D11.
#include <utility>

#include "engine_impl.h"

namespace muster::engine {

void EngineSet::Impl::FollowLackingPlaces() {
  for (const std::string& uid : machines_.TakeLackChanged()) lacking_unsure_.insert(uid);
  for (const std::string& uid : std::exchange(lacking_unsure_, {})) {
    WorkloadState* workload = FindWorkload(uid);
    // Who is leaving needs no places, and is looked at once more should it stay after all.
    if (workload == nullptr || workload->claim == nullptr || workload->claim->leaving) continue;
    SetLackingSince(workload, workload->claim->machines.Lacking() > 0 ? now_ : WallTime{});
  }
}

void EngineSet::Impl::StopLackingPlaces() {
  while (!lacking_.empty() && LackingDue(*(*lacking_.begin())->claim) <= now_) {
    const std::string& uid = (*lacking_.begin())->spec.uid;
    lacking_.erase(lacking_.begin());
    CheckEviction(FindWorkload(uid));
  }
}

void EngineSet::Impl::SetLackingSince(WorkloadState* workload, WallTime since) {
  Claim& claim = *workload->claim;
  if (claim.lacking_since.IsSet() == since.IsSet()) return;
  lacking_.erase(workload);
  claim.lacking_since = since;
  claim.queue->lacking_places += since.IsSet() ? 1 : -1;
  if (since.IsSet() && options_.place_timeout > Duration(0)) lacking_.insert(workload);
}

}  // namespace muster::engine
