#include "machine_watch.h"

#include <algorithm>
#include <utility>

#include "muster/controller/names.h"
#include "muster/k8s_client/resources.h"

namespace muster::controller {
namespace {

constexpr Duration kPoll = std::chrono::milliseconds(20);
// How far one watch is behind another, at most.
constexpr Duration kTransit = std::chrono::seconds(5);
// On a node, and not ended.
constexpr std::string_view kOnNode = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

constexpr std::string_view kWithoutNode = "spec.nodeName=,status.phase=Pending";

// RETURNS: the gang, empty: none.
std::string Note(const GangPod& pod, bool there, PodsByGang* index) {
  std::string gang = GangOf(pod);
  if (gang.empty()) return gang;
  if (there) {
    (*index)[gang].insert(pod.meta.key());
  } else if (const auto it = index->find(gang); it != index->end()) {
    it->second.erase(pod.meta.key());
    if (it->second.empty()) index->erase(it);
  }
  return gang;
}

template <typename T>
std::vector<std::shared_ptr<const T>> PodsOf(const std::string& gang, const PodsByGang& index,
                                             const k8s::Informer<T>& informer) {
  std::vector<std::shared_ptr<const T>> out;
  const auto it = index.find(gang);
  if (it == index.end()) return out;
  for (const k8s::ObjectKey& key : it->second) {
    if (auto pod = informer.Get(key); pod != nullptr) out.push_back(std::move(pod));
  }
  return out;
}

}  // namespace

MachineWatch::MachineWatch(Deps deps) : deps_(std::move(deps)), quotas_(QuotaDeps()), needed_(deps_.check_machines) {
  deps_.catalog->charges_pods = deps_.check_machines;
  WatchTopologies(deps_.informers);
  WatchNodes(deps_.informers);
  WatchPods(deps_.informers);
  WatchUnbound(deps_.informers);
}

ResourceQuotas::Deps MachineWatch::QuotaDeps() {
  ResourceQuotas::Deps deps;
  deps.informers = deps_.informers;
  deps.on = deps_.check_machines;
  deps.lag = kTransit;
  deps.apply = deps_.apply;
  deps.for_each_pod = [this](const std::string& gang, const std::function<void(const GangPod&)>& visit) {
    for (const auto& pod : Bound(gang)) visit(*pod);
    for (const auto& pod : Unbound(gang)) visit(*pod);
  };
  deps.uid_of = [this](const std::string& gang) { return UidOf(gang); };
  return deps;
}

void MachineWatch::WatchTopologies(const InformerDeps& deps) {
  topologies_ = MakeInformer<WatchedTopology>(
      deps, k8s::kTopologies, DecodeWatchedTopology,
      [this, problems = deps.problems](const auto& object, const auto&) {
        problems->Note(k8s::kTopologies, object->meta, object->misconfigured);
        deps_.catalog->topologies.insert_or_assign(object->meta.name, object->topology);
        deps_.apply(engine::TopologyChanged{object->topology});
        Look();
      },
      [this, problems = deps.problems](const WatchedTopology& last) {
        problems->Forget(k8s::kTopologies, last.meta.key());
        deps_.catalog->topologies.erase(last.meta.name);
        deps_.apply(engine::TopologyDeleted{last.meta.name});
      });
}

void MachineWatch::WatchNodes(const InformerDeps& deps) {
  nodes_ = MakeInformer<WatchedNode>(
      deps, k8s::kNodes, DecodeWatchedNode,
      [this](const auto& object, const auto& previous) {
        // A heartbeat is no news.
        const bool same = previous != nullptr && previous->node == object->node;
        if (!complete_ || same) return;
        Tell(engine::NodeChanged{object->node}, object->node);
        if (previous != nullptr && HostnameOf(previous->node) != HostnameOf(object->node)) {
          deps_.node_changed(HostnameOf(previous->node));
        }
      },
      [this](const WatchedNode& last) { Tell(engine::NodeDeleted{last.meta.name}, last.node); });
}

void MachineWatch::WatchPods(const InformerDeps& deps) {
  k8s::InformerOptions options;
  options.field_selector = kOnNode;
  pods_ = MakeInformer<WatchedPod>(
      deps, k8s::kPods, [this](std::string_view json) { return DecodeWatchedPod(json, &shapes_); },
      [this](const auto& object, const auto& previous) {
        if (complete_ && (previous == nullptr || !TakesTheSame(*previous, *object))) Tell(*object);
        in_transit_.erase(object->meta.uid);
        PodChanged(*object, previous.get(), &bound_of_);
      },
      [this](const WatchedPod& last) {
        deps_.apply(engine::PodGone{last.meta.key().ToString()});
        GangChanged(Note(last, false, &bound_of_));
      },
      std::move(options));
}

void MachineWatch::WatchUnbound(const InformerDeps& deps) {
  k8s::InformerOptions options;
  options.label_selector = kPodSetLabel;
  options.field_selector = kWithoutNode;
  unbound_ = MakeInformer<UnboundPod>(
      deps, k8s::kPods, DecodeUnboundPod,
      [this](const auto& object, const auto& previous) { PodChanged(*object, previous.get(), &unbound_of_); },
      [this](const UnboundPod& last) {
        LeftUnbound(last);
        GangChanged(Note(last, false, &unbound_of_));
      },
      std::move(options));
}

// It was bound, or deleted: where the other watch does not show it soon, it was that.
void MachineWatch::LeftUnbound(const UnboundPod& last) {
  const auto bound = pods_->Get(last.meta.key());
  if (last.gate.has_value() || last.terminating || (bound != nullptr && bound->meta.uid == last.meta.uid)) return;
  in_transit_.insert_or_assign(last.meta.uid, std::make_shared<const UnboundPod>(last));
  const Environment& env = deps_.informers.env;
  env.executor->PostAt(env.clock->Mono() + kTransit, [this, alive = std::weak_ptr<bool>(alive_), last] {
    if (!alive.expired() && in_transit_.erase(last.meta.uid) > 0) GangChanged(GangOf(last));
  });
}

// `previous`: null: it is new.
void MachineWatch::PodChanged(const GangPod& pod, const GangPod* previous, PodsByGang* index) {
  if (previous != nullptr && GangOf(*previous) != GangOf(pod)) GangChanged(Note(*previous, false, index));
  const std::string gang = Note(pod, true, index);
  // What else becomes of a pod, ResourceQuotas do not look at.
  const bool counts_as_before = previous != nullptr && previous->meta.uid == pod.meta.uid &&
                                previous->pod_set == pod.pod_set && previous->terminating == pod.terminating &&
                                GangOf(*previous) == gang;
  if (!counts_as_before) return GangChanged(gang);
  if (!gang.empty()) deps_.gang_changed(gang);
}

void MachineWatch::GangChanged(const std::string& gang) {
  if (gang.empty()) return;
  quotas_.GangChanged(gang);
  deps_.gang_changed(gang);
}

std::vector<std::shared_ptr<const UnboundPod>> MachineWatch::Unbound(const std::string& gang) const {
  std::vector<std::shared_ptr<const UnboundPod>> out = PodsOf(gang, unbound_of_, *unbound_);
  for (const auto& [uid, pod] : in_transit_) {
    if (GangOf(*pod) == gang) out.push_back(pod);
  }
  return out;
}

std::vector<std::shared_ptr<const WatchedPod>> MachineWatch::Bound(const std::string& gang) const {
  return PodsOf(gang, bound_of_, *pods_);
}

std::string MachineWatch::UidOf(const std::string& gang) const {
  const size_t slash = gang.find('/');
  return slash == std::string::npos ? gang : deps_.uid_of_workload({gang.substr(0, slash), gang.substr(slash + 1)});
}

void MachineWatch::Start() {
  running_ = true;
  if (needed_) AwaitComplete();
}

void MachineWatch::Look() {
  const Catalog& catalog = *deps_.catalog;
  const bool used = std::any_of(catalog.flavors.begin(), catalog.flavors.end(), [&catalog](const auto& flavor) {
    return catalog.topologies.contains(flavor.second.topology_name);
  });
  if (used) Need();
}

void MachineWatch::Need() {
  if (std::exchange(needed_, true) || !running_) return;
  nodes_->Start();
  pods_->Start();
  unbound_->Start();
  AwaitComplete();
}

void MachineWatch::AwaitComplete() {
  if (complete_) return;
  if (nodes_->synced() && pods_->synced()) {
    complete_ = true;
    TellAll();
    return;
  }
  const Environment& env = deps_.informers.env;
  env.executor->PostAt(env.clock->Mono() + kPoll, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) AwaitComplete();
  });
}

void MachineWatch::Lead() {
  quotas_.Lead();
  complete_ = needed_ && nodes_->synced() && pods_->synced();
  if (complete_) TellAll();
}

void MachineWatch::TellAll() {
  for (const auto& [key, pod] : pods_->objects()) Tell(*pod);
  for (const auto& [key, node] : nodes_->objects()) deps_.apply(engine::NodeChanged{node->node});
  deps_.all_told();
}

void MachineWatch::Tell(engine::Event event, const gang::Node& node) {
  deps_.apply(std::move(event));
  if (complete_) deps_.node_changed(HostnameOf(node));
}

void MachineWatch::Tell(const WatchedPod& pod) {
  std::string workload = pod.job_uid;
  if (!pod.workload_name.empty()) workload = deps_.uid_of_workload({pod.meta.ns, pod.workload_name});
  deps_.apply(ToPodPlaced(pod, std::move(workload)));
}

}  // namespace muster::controller
