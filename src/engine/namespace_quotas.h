// The ResourceQuotas of namespaces, and what is to come there: the API server refuses a pod that is too much for one of
// them, so a gang starts only where all of its pods get in.
//
// What a ResourceQuota says is used lags behind. Pods of a gang that is admitted, or that room is kept for, are counted
// here from the decision until they are known to be counted there.
//
// Threading: owned by the EngineSet; NamespaceAsker says how it is asked.
#pragma once

#include <absl/container/btree_set.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/core/hash.h"
#include "muster/engine/objects.h"
#include "muster/engine/reason.h"

namespace muster::engine {

// Pods that are to come in a namespace: of each kind so many.
struct PodsToCome {
  std::string ns;
  std::vector<std::pair<gang::ShapePtr, int64_t>> pods;

  void Add(const PodSet& pod_set, int64_t count) {
    if (pod_set.shape->charge.has_value() && count > 0) pods.emplace_back(pod_set.shape, count);
  }
};

class NamespaceQuotas {
 public:
  void Set(const NamespaceQuota& quota);
  void Remove(std::string_view ns, std::string_view name);

  // So many pods of that pod set exist, and are counted as used. The workload need not be known.
  void SetCounted(const std::string& workload, const std::string& pod_set, int64_t pods);
  int64_t Counted(std::string_view workload, std::string_view pod_set) const;

  // Some namespace has any.
  bool any() const { return quotas_ > 0; }

  // `now` is to come, instead of `before`.
  void Plan(const PodsToCome& before, const PodsToCome& now);
  // The namespaces of those who were refused, in which there may be more room since; sorted.
  std::vector<std::string> TakeEased();

  void AddToHash(StateHash* hash) const;
  // Aborts where anything else is to come than this.
  void Validate(const std::vector<PodsToCome>& planned) const;

 private:
  friend class NamespaceAsker;
  using Planned = std::map<gang::PodCharge, int64_t>;
  struct OfNamespace {
    std::map<std::string, NamespaceQuota, std::less<>> quotas;
    Planned planned;
    std::atomic<bool> refused = false;  // somebody, since it was last eased
  };

  static void Add(const PodsToCome& pods, int sign, Planned* planned);
  void Change(const PodsToCome& pods, int sign);
  void Eased(const std::string& ns);
  void DropIfUnused(const std::string& ns);

  std::map<std::string, OfNamespace, std::less<>> namespaces_;
  // By workload and pod set.
  std::map<std::string, std::map<std::string, int64_t, std::less<>>, std::less<>> counted_;
  absl::btree_set<std::string> eased_;
  int64_t quotas_ = 0;  // in all namespaces
};

// Asks about ResourceQuotas. What it lifts is out of the way of its own questions alone.
//
// Threading: while nothing else is done with the quotas, several may ask at once, each of them by one thread.
class NamespaceAsker {
 public:
  // REQUIRES: the quotas outlive it.
  explicit NamespaceAsker(NamespaceQuotas* quotas) : quotas_(quotas) {}

  // For questions until PutBack: as if these were not to come. REQUIRES: they are
  void Lift(const PodsToCome& pods);
  void PutBack(const PodsToCome& pods);

  // Whether so many pods of each pod set get in, all of them. RETURNS: kResourceQuota or kResourceQuotaUnset of the
  // first limit that keeps some out; nothing: they do.
  std::optional<Obstacle> Refusal(const Workload& workload, const std::vector<int32_t>& counts) const;

 private:
  // Of that limit, what pods take that are to come.
  Amount PlannedOf(const NamespaceQuotas::OfNamespace& of, const NamespaceQuota& quota, const std::string& limit,
                   std::string_view ns) const;

  NamespaceQuotas* quotas_;
  std::map<std::string, NamespaceQuotas::Planned, std::less<>> lifted_;
};

}  // namespace muster::engine
