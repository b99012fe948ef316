#include "ungater.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "muster/controller/names.h"
#include "muster/controller/pod_places.h"
#include "muster/core/log_fields.h"
#include "muster/k8s_client/resources.h"
#include "scheduling_gate.h"
#include "text.h"

namespace muster::controller {
namespace {

constexpr int kNotFound = 404;
// Writes of Workloads take turns with these.
constexpr int kInFlightMax = 50;
// Pods of a gang come in bursts.
constexpr Duration kGather = std::chrono::milliseconds(20);

bool Runs(const engine::WorkloadView& view) {
  using engine::ClaimState;
  return view.place == engine::WorkloadView::Place::kHolding && !view.evicted.has_value() &&
         (view.claim_state == ClaimState::kWritten || view.claim_state == ClaimState::kActive);
}

// The domain whose values are those of the labels; nothing where there is none.
std::optional<size_t> DomainOf(const gang::TopologyAssignment& assignment, const Labels& labels) {
  std::vector<std::string> values;
  for (const std::string& level : assignment.levels) {
    const auto it = labels.find(level);
    if (it == labels.end()) return std::nullopt;
    values.push_back(it->second);
  }
  const auto& domains = assignment.domains;
  const auto found =
      std::find_if(domains.begin(), domains.end(), [&values](const auto& domain) { return domain.values == values; });
  return found == domains.end() ? std::nullopt : std::optional(static_cast<size_t>(found - domains.begin()));
}

std::string Body(const UnboundPod& pod, const Labels& place) {
  JsonPatch patch;
  LiftSchedulingGate(pod.meta, *pod.gate, kTopologyGate, &patch);
  if (pod.node_selector.empty()) patch.AddRaw("/spec/nodeSelector", "{}");
  for (const auto& [key, value] : place) patch.AddText(Pointer({"spec", "nodeSelector", key}), value);
  return patch.Take();
}

}  // namespace

void Ungater::GangChanged(const std::string& gang) {
  changed_.insert(gang);
  LookSoon();
}

void Ungater::ClaimsChanged() {
  if (waiting_.empty()) return;
  changed_.merge(waiting_);
  waiting_.clear();
  LookSoon();
}

bool Ungater::LetsGoTo(const std::string& hostname, const std::string& gang) const {
  return std::any_of(pending_.begin(), pending_.end(), [&](const auto& entry) {
    const Pending& pending = entry.second;
    if (pending.gang != gang || !pending.place.has_value()) return false;
    const auto host = pending.place->find(gang::kHostnameLabel);
    return host != pending.place->end() && host->second == hostname;
  });
}

void Ungater::LookSoon() {
  if (std::exchange(posted_, true)) return;
  deps_.env.executor->PostAt(deps_.env.clock->Mono() + kGather, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    posted_ = false;
    Look();
  });
}

void Ungater::Look() {
  while (!changed_.empty() && in_flight_ < kInFlightMax) {
    const std::string gang = *changed_.begin();
    changed_.erase(changed_.begin());
    waiting_.erase(gang);
    if (!Place(gang)) waiting_.insert(gang);
  }
}

bool Ungater::Place(const std::string& gang) {
  std::vector<std::shared_ptr<const UnboundPod>> unbound = deps_.machines->Unbound(gang);
  std::erase_if(pending_, [&](const auto& entry) {
    const auto is_it = [&](const auto& pod) { return pod->meta.uid == entry.first; };
    return entry.second.gang == gang && !entry.second.busy && std::none_of(unbound.begin(), unbound.end(), is_it);
  });
  std::erase_if(unbound, [](const auto& pod) { return pod->terminating; });
  const bool any = std::any_of(unbound.begin(), unbound.end(),
                               [this](const auto& pod) { return pod->gate.has_value() && !IsBusy(pod->meta.uid); });
  if (!any) return true;
  const std::string uid = deps_.machines->UidOf(gang);
  const std::optional<engine::WorkloadView> view = deps_.view(uid);
  if (!view.has_value() || !Runs(*view)) return false;
  bool all = true;
  for (const engine::PodSetAssignment& assigned : view->admission.pod_sets) {
    if (!assigned.topology.has_value()) continue;
    const Placed placed = PlacePodSet(gang, uid, assigned, unbound);
    if (placed == Placed::kUntilTooManyWereOnTheirWay) {
      changed_.insert(gang);  // once others have been written
      return true;
    }
    all = all && placed == Placed::kAll;
  }
  return all;
}

Ungater::Placed Ungater::PlacePodSet(const std::string& gang, const std::string& uid,
                                     const engine::PodSetAssignment& assigned,
                                     const std::vector<std::shared_ptr<const UnboundPod>>& unbound) {
  const gang::TopologyAssignment& topology = *assigned.topology;
  const bool on_hosts = !topology.levels.empty() && topology.levels.back() == gang::kHostnameLabel;
  Placed result = Placed::kAll;
  std::vector<PodToPlace> pods;
  std::vector<const UnboundPod*> waiting;  // of each pod; null where it has a place
  for (const auto& pod : unbound) {
    if (pod->pod_set != assigned.name) continue;
    const auto pending = pending_.find(pod->meta.uid);
    const bool placed = pending != pending_.end() && pending->second.place.has_value();
    const Labels& where = placed ? *pending->second.place : pod->node_selector;
    const bool waits = pod->gate.has_value() && !placed;
    pods.push_back({pod->meta.name, pod->rank, waits, waits ? std::nullopt : DomainOf(topology, where)});
    waiting.push_back(waits ? pod.get() : nullptr);
  }
  for (const auto& pod : deps_.machines->Bound(gang)) {
    if (pod->pod_set != assigned.name || pod->terminating) continue;
    const auto node = deps_.machines->FindNode(pod->node);
    pods.push_back(
        {pod->meta.name, pod->rank, false, node == nullptr ? std::nullopt : DomainOf(topology, node->node.labels)});
    waiting.push_back(nullptr);
  }
  const std::vector<std::optional<size_t>> chosen = ChoosePlaces(topology, pods);
  for (size_t i = 0; i < pods.size(); ++i) {
    // One that failed waits for its next try.
    if (waiting[i] == nullptr || !chosen[i].has_value() || IsBusy(waiting[i]->meta.uid)) continue;
    if (on_hosts && deps_.fails(uid, topology.domains[*chosen[i]].values.back())) {
      result = Placed::kAllButThoseOfFailingNodes;
      continue;
    }
    if (in_flight_ >= kInFlightMax) return Placed::kUntilTooManyWereOnTheirWay;
    Labels place;
    for (size_t level = 0; level < topology.levels.size(); ++level) {
      place.insert_or_assign(topology.levels[level], topology.domains[*chosen[i]].values[level]);
    }
    Send(gang, *waiting[i], std::move(place));
  }
  return result;
}

void Ungater::Send(const std::string& gang, const UnboundPod& pod, Labels place) {
  ++in_flight_;
  std::string body = Body(pod, place);
  Pending& pending = pending_[pod.meta.uid];
  pending.gang = gang;
  pending.busy = true;
  pending.place = std::move(place);
  deps_.client->Patch(k8s::Lane::kWorkload, k8s::kPods, pod.meta.key(), "", k8s::PatchType::kJsonPatch, std::move(body),
                      [this, alive = std::weak_ptr<bool>(alive_), uid = pod.meta.uid,
                       name = pod.meta.key().ToString()](const k8s::Result& result) {
                        if (!alive.expired()) Answered(uid, name, result);
                      });
}

void Ungater::Answered(const std::string& uid, const std::string& pod, const k8s::Result& result) {
  --in_flight_;
  const auto it = pending_.find(uid);
  LookSoon();
  if (it == pending_.end()) return;
  if (result.ok() || result.code == kNotFound) {
    // What it returns is known before it stops to count as placed.
    if (result.ok()) deps_.machines->PodReturned(result.body);
    pending_.erase(uid);
    return;
  }
  if (result.outcome == k8s::Outcome::kRefused) {
    spdlog::warn("a pod could not be given its place{}", LogFields({{"pod", pod}, {"error", result.message}}));
    it->second.place.reset();
  }
  // One without an answer may have been applied: until then its place is not another's.
  MonoTime again = deps_.env.clock->Mono() + it->second.backoff.Next();
  if (result.outcome == k8s::Outcome::kUnknown) again = std::max(again, result.landed_by);
  deps_.env.executor->PostAt(again, [this, alive = std::weak_ptr<bool>(alive_), uid] {
    if (!alive.expired()) TryAgain(uid);
  });
}

bool Ungater::IsBusy(const std::string& uid) const {
  const auto it = pending_.find(uid);
  return it != pending_.end() && it->second.busy;
}

void Ungater::TryAgain(const std::string& uid) {
  const auto it = pending_.find(uid);
  if (it == pending_.end()) return;
  const std::string gang = it->second.gang;
  const auto pods = deps_.machines->Unbound(gang);
  const bool waits = std::any_of(pods.begin(), pods.end(),
                                 [&uid](const auto& pod) { return pod->meta.uid == uid && pod->gate.has_value(); });
  it->second.busy = false;
  it->second.place.reset();
  if (!waits) pending_.erase(it);
  GangChanged(gang);
}

}  // namespace muster::controller
