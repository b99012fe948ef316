#include "muster/sim/nodes.h"

#include <absl/strings/numbers.h>

#include <algorithm>
#include <utility>

#include "muster/sim/controllers.h"
#include "text.h"

namespace muster::sim {
namespace {

constexpr const char* kScheduler = "system:kube-scheduler";
constexpr const char* kKubelet = "system:node:any";
constexpr const char* kCollector = "system:serviceaccount:kube-system:pod-garbage-collector";
constexpr const char* kEvicter = "system:serviceaccount:kube-system:node-controller";
constexpr int64_t kMilli = 1000;
// How often a kubelet that is cut off tries again.
constexpr Duration kRetry = std::chrono::seconds(1);

int64_t ParseMilli(const Json& quantity) {
  if (quantity.is_number_integer()) return quantity.get<int64_t>() * kMilli;
  std::string text = Text(quantity);
  int64_t value = 0;
  if (text.ends_with('m')) {
    text.pop_back();
    return absl::SimpleAtoi(text, &value) ? value : 0;
  }
  return absl::SimpleAtoi(text, &value) ? value * kMilli : 0;
}

bool IsTolerated(const Json& taint, const Json& tolerations) {
  return std::ranges::any_of(tolerations, [&](const Json& toleration) {
    const std::string effect = Text(Get(toleration, "effect"));
    if (!effect.empty() && effect != Text(Get(taint, "effect"))) return false;
    const std::string key = Text(Get(toleration, "key"));
    if (Text(Get(toleration, "operator")) == "Exists") return key.empty() || key == Text(Get(taint, "key"));
    return key == Text(Get(taint, "key")) && Text(Get(toleration, "value")) == Text(Get(taint, "value"));
  });
}

bool MayRunOn(const Json& pod, const Json& node) {
  if (Flag(At(node, "spec", "unschedulable")) || !HasCondition(node, "Ready")) return false;
  for (const auto& [key, value] : At(pod, "spec", "nodeSelector").items()) {
    if (At(node, "metadata", "labels", key) != value) return false;
  }
  return std::ranges::all_of(At(node, "spec", "taints"), [&](const Json& taint) {
    return Text(Get(taint, "effect")) == "PreferNoSchedule" || IsTolerated(taint, At(pod, "spec", "tolerations"));
  });
}

bool IsDeleted(const Json& object) { return !At(object, "metadata", "deletionTimestamp").is_null(); }

bool Waits(const Json& pod) {
  return Text(At(pod, "spec", "nodeName")).empty() && !IsDeleted(pod) && !HasEnded(pod) &&
         At(pod, "spec", "schedulingGates").empty();
}

PodPlan PlanOf(const Json& pod) {
  return PlanFromAnnotations({{"spec", {{"template", {{"metadata", Get(pod, "metadata")}}}}}});
}

}  // namespace

Amounts RequestsOfPod(const Json& pod) {
  Amounts out = {{"pods", kMilli}};
  for (const Json& container : At(pod, "spec", "containers")) {
    for (const auto& [resource, quantity] : At(container, "resources", "requests").items()) {
      out[resource] += ParseMilli(quantity);
    }
  }
  return out;
}

Amounts AllocatableOf(const Json& node) {
  Amounts out;
  for (const auto& [resource, quantity] : At(node, "status", "allocatable").items())
    out[resource] = ParseMilli(quantity);
  return out;
}

bool HasEnded(const Json& pod) {
  const std::string phase = Text(At(pod, "status", "phase"));
  return phase == "Succeeded" || phase == "Failed";
}

SimNodes::SimNodes(SimExecutor* executor, SimStore* store, NodesOptions options)
    : executor_(executor),
      store_(store),
      options_(options),
      source_(executor->NewSource("nodes")),
      random_(executor->NewRandom("nodes")),
      pods_(store->FindKind("", "pods")),
      nodes_(store->FindKind("", "nodes")) {
  store_->Subscribe([this](const Change& change) { OnChange(change); });
}

Duration SimNodes::Draw(const Latency& latency) {
  const auto span = static_cast<uint64_t>((latency.max - latency.min).count());
  return latency.min + Duration(static_cast<int64_t>(random_.Below(span + 1)));
}

Target SimNodes::TargetOf(const PodName& pod, const std::string& subresource) const {
  return {pods_, "v1", pod.ns, pod.name, subresource};
}

JsonPtr SimNodes::Find(const PodName& pod) const {
  JsonPtr found = store_->Peek(pods_, pod.ns, pod.name);
  return found != nullptr && Text(At(*found, "metadata", "uid")) == pod.uid ? found : nullptr;
}

JsonPtr SimNodes::NodeOf(const Json& pod) const { return store_->Peek(nodes_, "", Text(At(pod, "spec", "nodeName"))); }

void SimNodes::OnChange(const Change& change) {
  if (change.kind == nodes_) OnNode(change);
  if (change.kind != pods_) return;
  if (change.type == Change::Type::kDeleted) {
    const std::string uid = Text(At(*change.object, "metadata", "uid"));
    begun_.erase(uid);
    stopped_.erase(uid);
    Wake();
  } else {
    OnPod(*change.object);
  }
}

void SimNodes::OnPod(const Json& pod) {
  Wake();  // who ends leaves room, and who came waits
  const Json& meta = Get(pod, "metadata");
  const PodName name{Text(Get(meta, "namespace")), Text(Get(meta, "name")), Text(Get(meta, "uid"))};
  const bool bound = !Text(At(pod, "spec", "nodeName")).empty();
  if (IsDeleted(pod)) {
    const bool runs = bound && !HasEnded(pod);
    if (!stopped_.insert(name.uid).second && runs) return;
    After(runs ? PlanOf(pod).termination : Duration(0), [this, name] { Stop(name); });
  } else if (bound && !HasEnded(pod) && begun_.insert(name.uid).second) {
    After(PlanOf(pod).start, [this, name] { Begin(name); });
  }
}

void SimNodes::OnNode(const Change& change) {
  Wake();
  const std::string name = Text(At(*change.object, "metadata", "name"));
  if (change.type == Change::Type::kDeleted) {
    After(Draw(options_.collect), [this, name] { LosePods(name); });
  } else if (change.previous != nullptr && HasCondition(*change.previous, "Ready") &&
             !HasCondition(*change.object, "Ready")) {
    After(Draw(options_.evict), [this, name] { EvictPods(name); });
  }
}

// ---- scheduler ----------------------------------------------------------------------------------

void SimNodes::Wake() {
  if (std::exchange(awake_, true)) return;
  const Latency& latency = random_.Below(10) == 0 ? options_.late_bind : options_.bind;
  After(Draw(latency), [this] {
    awake_ = false;
    Bind();
  });
}

// One of those that can be. Its own news wakes it for the next.
void SimNodes::Bind() {
  std::vector<JsonPtr> waiting;
  for (const JsonPtr& pod : store_->PeekAll(pods_)) {
    if (Waits(*pod)) waiting.push_back(pod);
  }
  while (!waiting.empty()) {
    std::swap(waiting[random_.Below(waiting.size())], waiting.back());
    const JsonPtr pod = waiting.back();
    waiting.pop_back();
    const std::vector<std::string> fitting = NodesFor(*pod);
    if (fitting.empty()) continue;
    const Json& meta = Get(*pod, "metadata");
    const PodName name{Text(Get(meta, "namespace")), Text(Get(meta, "name")), ""};
    const Json patch = {{"spec", {{"nodeName", fitting[random_.Below(fitting.size())]}}}};
    store_->Patch(kScheduler, TargetOf(name), PatchKind::kMergePatch, Dump(patch));
    return;
  }
}

std::vector<std::string> SimNodes::NodesFor(const Json& pod) const {
  std::vector<std::string> out;
  const Amounts requests = RequestsOfPod(pod);
  for (const JsonPtr& node : store_->PeekAll(nodes_)) {
    if (!MayRunOn(pod, *node)) continue;
    const std::string name = Text(At(*node, "metadata", "name"));
    Amounts free = AllocatableOf(*node);
    for (const JsonPtr& other : PodsOn(name)) {
      if (HasEnded(*other)) continue;
      for (const auto& [resource, amount] : RequestsOfPod(*other)) free[resource] -= amount;
    }
    const bool fits = std::ranges::all_of(
        requests, [&](const auto& request) { return request.second == 0 || request.second <= free[request.first]; });
    if (fits) out.push_back(name);
  }
  return out;
}

// ---- kubelets -----------------------------------------------------------------------------------

void SimNodes::SetPhase(const PodName& name, const std::string& phase) {
  const Json conditions = Json::array({{{"type", "Ready"}, {"status", phase == "Running" ? "True" : "False"}}});
  const Json patch = {{"status", {{"phase", phase}, {"conditions", conditions}}}};
  store_->Patch(kKubelet, TargetOf(name, "status"), PatchKind::kMergePatch, Dump(patch));
}

void SimNodes::Begin(const PodName& name) {
  const JsonPtr pod = Find(name);
  if (pod == nullptr || IsDeleted(*pod) || HasEnded(*pod)) return;
  const JsonPtr node = NodeOf(*pod);
  if (node == nullptr || !HasCondition(*node, "Ready")) {
    After(kRetry, [this, name] { Begin(name); });
    return;
  }
  SetPhase(name, "Running");
  After(PlanOf(*pod).run, [this, name] { End(name); });
}

void SimNodes::End(const PodName& name) {
  const JsonPtr pod = Find(name);
  if (pod == nullptr || IsDeleted(*pod) || HasEnded(*pod)) return;
  const JsonPtr node = NodeOf(*pod);
  if (node == nullptr || !HasCondition(*node, "Ready")) {
    After(kRetry, [this, name] { End(name); });
    return;
  }
  SetPhase(name, PlanOf(*pod).fails ? "Failed" : "Succeeded");
}

void SimNodes::Stop(const PodName& name) {
  const JsonPtr pod = Find(name);
  if (pod == nullptr) return;
  const JsonPtr node = NodeOf(*pod);
  const bool runs = !Text(At(*pod, "spec", "nodeName")).empty() && !HasEnded(*pod);
  if (runs && (node == nullptr || !HasCondition(*node, "Ready"))) {
    After(kRetry, [this, name] { Stop(name); });
    return;
  }
  Remove(name);
}

void SimNodes::Remove(const PodName& name) {
  store_->Patch(kKubelet, TargetOf(name), PatchKind::kMergePatch, Dump({{"metadata", {{"finalizers", nullptr}}}}));
}

// ---- nodes that are lost ------------------------------------------------------------------------

std::vector<JsonPtr> SimNodes::PodsOn(const std::string& node) const {
  std::vector<JsonPtr> out = store_->PeekAll(pods_);
  std::erase_if(out, [&](const JsonPtr& pod) { return Text(At(*pod, "spec", "nodeName")) != node; });
  return out;
}

void SimNodes::LosePods(const std::string& node) {
  if (store_->Peek(nodes_, "", node) != nullptr) return;
  for (const JsonPtr& pod : PodsOn(node)) {
    const Json& meta = Get(*pod, "metadata");
    const PodName name{Text(Get(meta, "namespace")), Text(Get(meta, "name")), Text(Get(meta, "uid"))};
    if (!HasEnded(*pod)) SetPhase(name, "Failed");
    store_->Delete(kCollector, TargetOf(name), {});
    if (Find(name) != nullptr) Remove(name);
  }
}

void SimNodes::EvictPods(const std::string& node) {
  const JsonPtr present = store_->Peek(nodes_, "", node);
  if (present == nullptr || HasCondition(*present, "Ready")) return;
  for (const JsonPtr& pod : PodsOn(node)) {
    if (HasEnded(*pod) || IsDeleted(*pod)) continue;
    const Json& meta = Get(*pod, "metadata");
    const PodName name{Text(Get(meta, "namespace")), Text(Get(meta, "name")), ""};
    store_->Delete(kEvicter, TargetOf(name), {});
  }
}

}  // namespace muster::sim
