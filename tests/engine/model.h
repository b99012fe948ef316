// The objects that an engine was told of, and what must follow from them by the formulas of the reference's accounting
// (kueue_semantics 5.1), worked out from scratch at each question.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/engine/engine.h"

namespace muster::engine {

inline const std::vector<std::string> kFlavors = {"f", "g"};
inline const std::vector<std::string> kResources = {"cpu", "gpu"};

struct Quota {
  int64_t nominal = 0;
  std::optional<int64_t> borrowing, lending;
};

// The objects that exist, and who holds what. Everybody is in the namespace "ns".
struct Model {
  struct Holding {
    ClaimId id;
    ClaimState state = ClaimState::kPlanned;
    Admission admission;
    bool evicted = false;                      // was told to go
    std::string preemptor_uid{};               // for whom, if for somebody
    std::optional<Admission> before_growth{};  // while the write that adds pods has no answer
  };
  std::map<std::string, Cohort> cohorts;
  std::map<std::string, ClusterQueue> queues;
  std::map<std::string, LocalQueue> local_queues;
  std::map<std::string, Workload> workloads;
  std::map<std::string, Holding> holdings;
  std::map<std::string, WallTime> not_before;  // of those whose start, or growth, was refused
  std::set<std::string> flavors;
  Labels labels;  // of the namespace

  static Quota QuotaOf(const std::vector<ResourceGroup>& groups, const std::string& flavor,
                       const std::string& resource) {
    for (const ResourceGroup& group : groups) {
      for (const FlavorQuotas& quotas : group.flavors) {
        for (const ResourceQuota& of : quotas.resources) {
          if (quotas.flavor != flavor || of.resource != resource) continue;
          Quota quota{of.nominal.value, std::nullopt, std::nullopt};
          if (of.borrowing_limit.has_value()) quota.borrowing = of.borrowing_limit->value;
          if (of.lending_limit.has_value()) quota.lending = of.lending_limit->value;
          return quota;
        }
      }
    }
    return {};
  }

  // How many pods it waits for besides those that it holds; 0 unless it is elastic.
  int32_t MissingPods(const std::string& uid) const {
    const auto it = holdings.find(uid);
    const Workload& workload = workloads.at(uid);
    if (it == holdings.end() || !workload.elastic) return 0;
    const Holding& holding = it->second;
    if (holding.evicted || holding.before_growth.has_value()) return 0;
    if (holding.state != ClaimState::kWritten && holding.state != ClaimState::kActive) return 0;
    return workload.pod_sets.at(0).count - holding.admission.pod_sets.at(0).count;
  }

  // The ClusterQueue that a workload waits in; null: in none.
  const ClusterQueue* QueueOf(const Workload& workload) const {
    const auto local = local_queues.find(workload.local_queue);
    if (!workload.active || local == local_queues.end()) return nullptr;
    if (local->second.stop_policy != StopPolicy::kNone) return nullptr;
    const auto queue = queues.find(local->second.cluster_queue);
    return queue == queues.end() ? nullptr : &queue->second;
  }
  bool HasFlavors(const ClusterQueue& queue) const {
    for (const ResourceGroup& group : queue.resource_groups) {
      for (const FlavorQuotas& quotas : group.flavors) {
        if (!flavors.contains(quotas.flavor)) return false;
      }
    }
    return true;
  }
  bool Selects(const ClusterQueue& queue) const {
    return queue.namespace_selector.has_value() && queue.namespace_selector->Matches(labels);
  }
  // Its pods must go: its queues are drained, or it was deactivated.
  bool MustGo(const std::string& uid) const {
    const ClaimState state = holdings.at(uid).state;
    if (holdings.at(uid).before_growth.has_value()) return false;
    return (state == ClaimState::kWritten || state == ClaimState::kActive) && MayNotStay(uid);
  }
  bool MayNotStay(const std::string& uid) const {
    const Holding& holding = holdings.at(uid);
    const Workload& workload = workloads.at(uid);
    const auto queue = queues.find(holding.admission.cluster_queue);
    const auto local = local_queues.find(workload.local_queue);
    return !workload.active || (queue != queues.end() && queue->second.stop_policy == StopPolicy::kHoldAndDrain) ||
           (local != local_queues.end() && local->second.stop_policy == StopPolicy::kHoldAndDrain);
  }
};

// The formulas for one resource of one flavor; nodes are "q/NAME" and "c/NAME".
struct Formulas {
  std::map<std::string, std::string> parent;  // empty: root
  std::map<std::string, Quota> quota;
  std::map<std::string, int64_t> taken;
  std::set<std::string> on_cycle;

  Formulas(const Model& model, const std::string& flavor, const std::string& resource) {
    const auto declared = [&](const std::string& cohort) {
      const auto it = model.cohorts.find(cohort);
      return it == model.cohorts.end() ? std::string() : it->second.parent;
    };
    std::set<std::string> named;
    for (const auto& [name, cohort] : model.cohorts) named.insert({name, cohort.parent});
    for (const auto& [name, queue] : model.queues) named.insert(queue.cohort);
    named.erase("");
    for (const std::string& name : named) {
      std::string at = declared(name);
      for (size_t i = 0; i < named.size() && at != name && !at.empty(); ++i) at = declared(at);
      if (at == name) on_cycle.insert("c/" + name);
    }
    for (const std::string& name : named) {
      const std::string id = "c/" + name;
      parent[id] = declared(name).empty() || on_cycle.contains(id) ? "" : "c/" + declared(name);
      const auto known = model.cohorts.find(name);
      if (known != model.cohorts.end()) quota[id] = Model::QuotaOf(known->second.resource_groups, flavor, resource);
    }
    for (const auto& [name, queue] : model.queues) {
      parent["q/" + name] = queue.cohort.empty() ? "" : "c/" + queue.cohort;
      quota["q/" + name] = Model::QuotaOf(queue.resource_groups, flavor, resource);
    }
    for (const auto& [uid, holding] : model.holdings) Take(holding.admission, flavor, resource);
  }

  std::string Root(std::string id) const {
    while (!parent.at(id).empty()) id = parent.at(id);
    return id;
  }
  Quota Of(const std::string& id) const {
    const auto it = quota.find(id);
    return it == quota.end() ? Quota{} : it->second;
  }
  template <typename F>
  int64_t SumOfChildren(const std::string& id, F amount) const {
    int64_t sum = 0;
    for (const auto& [child, above] : parent) {
      if (above == id) sum += amount(child);
    }
    return sum;
  }
  int64_t Subtree(const std::string& id) const {
    return Of(id).nominal + SumOfChildren(id, [this](const std::string& c) { return Subtree(c) - Local(c); });
  }
  int64_t Local(const std::string& id) const {
    const Quota own = Of(id);
    return own.lending.has_value() ? std::max<int64_t>(0, Subtree(id) - *own.lending) : 0;
  }
  int64_t Usage(const std::string& id) const {
    if (const auto it = taken.find(id); it != taken.end()) return it->second;
    return SumOfChildren(id, [this](const std::string& c) { return std::max<int64_t>(0, Usage(c) - Local(c)); });
  }
  int64_t Available(const std::string& id) const {
    if (parent.at(id).empty()) return Subtree(id) - Usage(id);
    int64_t from_parent = Available(parent.at(id));
    if (const Quota own = Of(id); own.borrowing.has_value()) {
      from_parent = std::min(from_parent,
                             (Subtree(id) - Local(id)) - std::max<int64_t>(0, Usage(id) - Local(id)) + *own.borrowing);
    }
    return std::max<int64_t>(0, Local(id) - Usage(id)) + from_parent;
  }

 private:
  void Take(const Admission& admission, const std::string& flavor, const std::string& resource) {
    const PodSetAssignment& pod_set = admission.pod_sets.at(0);
    for (const auto& [name, of] : pod_set.flavors) {
      if (name != resource || of != flavor) continue;
      for (const auto& [used, amount] : pod_set.usage) {
        if (used == resource) taken["q/" + admission.cluster_queue] += amount.value;
      }
    }
  }
};

}  // namespace muster::engine
