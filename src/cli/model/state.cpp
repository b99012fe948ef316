#include "state.h"

#include <algorithm>
#include <tuple>

namespace muster::cli::model {

bool Earlier(const Gang& a, const Gang& b) {
  return std::tuple(-int64_t{a.spec.priority}, a.spec.queue_time, a.spec.uid) <
         std::tuple(-int64_t{b.spec.priority}, b.spec.queue_time, b.spec.uid);
}

bool GoesBefore(const Gang& a, const Gang& b) {
  if (a.spec.priority != b.spec.priority) return a.spec.priority < b.spec.priority;
  if (a.reserved_at != b.reserved_at) {
    const bool both = a.reserved_at.IsSet() && b.reserved_at.IsSet();
    return both ? a.reserved_at > b.reserved_at : !a.reserved_at.IsSet();
  }
  return a.spec.uid < b.spec.uid;
}

bool State::IsActive(int queue) const {
  const engine::ClusterQueue& spec = SpecOf(queue);
  if (spec.stop_policy != engine::StopPolicy::kNone || tree.node(queue).on_cycle) return false;
  for (const engine::ResourceGroup& group : spec.resource_groups) {
    for (const engine::FlavorQuotas& flavor : group.flavors) {
      if (!flavors.contains(flavor.flavor)) return false;
    }
  }
  return true;
}

int State::HeldIn(const Gang& gang) const {
  return gang.admission.has_value() ? tree.QueueOf(gang.admission->cluster_queue) : -1;
}

Amounts State::AmountsOf(const Gang& gang) const {
  Amounts amounts;
  for (const engine::PodSetAssignment& assigned : gang.admission->pod_sets) {
    const auto pod_set = std::find_if(gang.spec.pod_sets.begin(), gang.spec.pod_sets.end(),
                                      [&](const engine::PodSet& one) { return one.name == assigned.name; });
    if (pod_set == gang.spec.pod_sets.end()) continue;
    for (const auto& [resource, flavor] : assigned.flavors) {
      const Fr fr = tree.FrOf(flavor, resource);
      const auto request = pod_set->shape->requests.find(resource);
      if (resource == "pods") {
        amounts[fr] += Amount{assigned.count};
      } else if (request != pod_set->shape->requests.end()) {
        amounts[fr] += request->second * assigned.count;
      }
    }
  }
  return amounts;
}

bool State::HadToGoFor(const Gang& gang, const Gang& preemptor) const {
  std::set<std::string> seen;
  for (std::string uid = gang.evicted_for; !uid.empty() && seen.insert(uid).second;) {
    if (uid == preemptor.spec.uid) return true;
    const auto next = gangs.find(uid);
    const int at = next == gangs.end() ? -1 : std::max(next->second.waits_in, HeldIn(next->second));
    uid = at < 0 || tree.RootOf(at) != tree.RootOf(preemptor.waits_in) ? std::string() : next->second.evicted_for;
  }
  return false;
}

bool State::StandsBefore(const Gang& a, const Gang& b) const {
  const auto known = memory.find(tree.node(a.waits_in).name);
  if (known != memory.end()) {
    const std::string& first = known->second.preemptor;
    if ((first == a.spec.uid) != (first == b.spec.uid)) return first == a.spec.uid;
  }
  return Earlier(a, b);
}

TreeMemory& State::TreeOf(int node) {
  const Node& root = tree.node(tree.RootOf(node));
  return trees[(root.is_queue ? "ClusterQueue " : "Cohort ") + root.name];
}

bool State::NamespaceMatches(int queue, const Gang& gang) const {
  const std::optional<LabelSelector>& selector = SpecOf(queue).namespace_selector;
  const auto ns = namespaces.find(gang.spec.ns);
  return selector.has_value() && selector->Matches(ns == namespaces.end() ? Labels{} : ns->second.labels);
}

std::vector<Gang*> State::WaitingIn(int queue) {
  std::vector<Gang*> waiting;
  for (auto& [uid, gang] : gangs) {
    if (gang.waits_in == queue) waiting.push_back(&gang);
  }
  std::sort(waiting.begin(), waiting.end(), [this](const Gang* a, const Gang* b) { return StandsBefore(*a, *b); });
  return waiting;
}

Gang* State::HeadOf(int queue) {
  for (Gang* gang : WaitingIn(queue)) {
    if (!gang->parked) return gang;
  }
  return nullptr;
}

}  // namespace muster::cli::model
