// Room that is promised to preemptors: from the eviction of others until their start is accepted, whether or not it was
// refused meanwhile, and whoever leads. Else their victims could be started again in front of them, and would go once
// more.
#include <algorithm>

#include "engine_impl.h"

namespace muster::engine {

namespace {

int64_t WholeSeconds(WallTime time) { return time.unix_nanos / 1'000'000'000; }

const Tree* TreeOf(const WorkloadState& workload) {
  const ClusterQueueState* queue = workload.claim != nullptr ? workload.claim->queue : workload.waiting_in;
  return queue == nullptr ? nullptr : queue->tree;
}

// What it was promised for that eviction, it has had.
bool HasStartedSince(const WorkloadState& workload, WallTime eviction) {
  const std::optional<PastEviction>& own = workload.last_eviction;
  if (own.has_value() && WholeSeconds(own->at) > WholeSeconds(eviction)) return true;
  const Claim* claim = workload.grows == nullptr ? workload.claim.get() : workload.grows->claim.get();
  return claim != nullptr && WholeSeconds(claim->reserved_at) >= WholeSeconds(eviction);
}

}  // namespace

void EngineSet::Impl::NotePromise(const std::string& preemptor_uid, WallTime eviction) {
  if (preemptor_uid.empty()) return;
  WallTime& promised = promises_[preemptor_uid];
  promised = std::max(promised, eviction);
  const WorkloadState* preemptor = FindPreemptor(preemptor_uid);
  if (preemptor != nullptr && preemptor->waiting_in != nullptr) preemptor->waiting_in->tree->restore_rooms = true;
}

std::vector<std::pair<WorkloadState*, WallTime>> EngineSet::Impl::Promised(const Tree& tree) {
  std::vector<std::pair<WorkloadState*, WallTime>> promised;
  absl::erase_if(promises_, [&](const auto& promise) {
    WorkloadState* preemptor = FindPreemptor(promise.first);
    if (promise.second + options_.keep_room_for <= now_) {
      if (preemptor != nullptr && WasMoved(*preemptor)) preemptor->last_eviction->moved = false;
      return true;
    }
    if (preemptor == nullptr || preemptor->waiting_in == nullptr || preemptor->waiting_in->tree != &tree) return false;
    if (HasStartedSince(*preemptor, promise.second)) return true;
    promised.emplace_back(preemptor, promise.second);
    return false;
  });
  std::sort(promised.begin(), promised.end(),
            [](const auto& a, const auto& b) { return queue::Earlier()(&a.first->ticket, &b.first->ticket); });
  return promised;
}

bool EngineSet::Impl::HadToGoFor(const WorkloadState& workload, const WorkloadState& preemptor) const {
  std::vector<const WorkloadState*> seen;
  for (const WorkloadState* at = &workload; at != nullptr && std::ranges::find(seen, at) == seen.end();) {
    seen.push_back(at);
    const std::string* uid = nullptr;
    if (at->claim != nullptr && at->claim->leaving && at->claim->eviction.has_value()) {
      uid = &at->claim->eviction->preemptor_uid;
    } else if (at->last_eviction.has_value()) {
      uid = &at->last_eviction->preemptor_uid;
    }
    if (uid == nullptr) return false;
    if (*uid == preemptor.spec.uid) return true;
    at = FindWorkload(*uid);
    if (at != nullptr && TreeOf(*at) != TreeOf(preemptor)) return false;
  }
  return false;
}

}  // namespace muster::engine
