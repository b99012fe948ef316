#include "namespace_quotas.h"

#include <algorithm>
#include <iterator>

#include "muster/core/check.h"
#include "obstacles.h"

namespace muster::engine {

namespace {

bool Counts(const NamespaceQuota& quota, const gang::PodCharge& charge) {
  return std::all_of(quota.scopes.begin(), quota.scopes.end(),
                     [&charge](const gang::QuotaScope& scope) { return gang::Matches(scope, charge); });
}

Amount AmountOf(const gang::PodCharge& charge, const std::string& name) {
  const auto it = charge.amounts.find(name);
  return it == charge.amounts.end() ? Amount{} : it->second;
}

const NamespaceQuotaLimit* LimitOf(const NamespaceQuota& quota, const std::string& name) {
  const auto it = std::find_if(quota.limits.begin(), quota.limits.end(),
                               [&name](const NamespaceQuotaLimit& limit) { return limit.name == name; });
  return it == quota.limits.end() ? nullptr : &*it;
}

// Whether `now` lets in what `before` did not.
bool IsEasier(const NamespaceQuota& before, const NamespaceQuota& now) {
  if (before.scopes != now.scopes) return true;
  return std::any_of(before.limits.begin(), before.limits.end(), [&now](const NamespaceQuotaLimit& old) {
    const NamespaceQuotaLimit* limit = LimitOf(now, old.name);
    return limit == nullptr || limit->hard - limit->used > old.hard - old.used;
  });
}

// The first name that the quota limits, and of which some container of such pods says nothing.
std::optional<Obstacle> Unset(const NamespaceQuota& quota, const PodSet& pod_set) {
  for (const std::string& name : pod_set.shape->charge->unset) {
    if (LimitOf(quota, name) == nullptr) continue;
    Obstacle obstacle = ObjectObstacle(ObstacleKind::kResourceQuotaUnset, quota.name);
    obstacle.pod_set = pod_set.name;
    obstacle.resource = name;
    return obstacle;
  }
  return std::nullopt;
}

int64_t Total(const PodsToCome& pods) {
  int64_t total = 0;
  for (const auto& [shape, count] : pods.pods) total += count;
  return total;
}

}  // namespace

void NamespaceQuotas::Set(const NamespaceQuota& quota) {
  auto& quotas = namespaces_[quota.ns].quotas;
  const auto [it, is_new] = quotas.try_emplace(quota.name, quota);
  if (is_new) {
    ++quotas_;
    return;
  }
  const bool easier = IsEasier(it->second, quota);
  it->second = quota;
  if (easier) Eased(quota.ns);
}

void NamespaceQuotas::Remove(std::string_view ns, std::string_view name) {
  const auto of = namespaces_.find(ns);
  if (of == namespaces_.end()) return;
  const auto it = of->second.quotas.find(name);
  if (it == of->second.quotas.end()) return;
  of->second.quotas.erase(it);
  --quotas_;
  Eased(of->first);
  DropIfUnused(std::string(ns));
}

void NamespaceQuotas::SetCounted(const std::string& workload, const std::string& pod_set, int64_t pods) {
  if (pods > 0) {
    counted_[workload][pod_set] = pods;
    return;
  }
  const auto of = counted_.find(workload);
  if (of == counted_.end()) return;
  of->second.erase(pod_set);
  if (of->second.empty()) counted_.erase(of);
}

int64_t NamespaceQuotas::Counted(std::string_view workload, std::string_view pod_set) const {
  const auto of = counted_.find(workload);
  if (of == counted_.end()) return 0;
  const auto it = of->second.find(pod_set);
  return it == of->second.end() ? 0 : it->second;
}

void NamespaceQuotas::Plan(const PodsToCome& before, const PodsToCome& now) {
  Change(now, 1);
  Change(before, -1);
  if (Total(now) < Total(before)) Eased(before.ns);
  DropIfUnused(before.ns);
}

void NamespaceQuotas::Add(const PodsToCome& pods, int sign, Planned* planned) {
  for (const auto& [shape, count] : pods.pods) {
    const auto it = planned->try_emplace(*shape->charge).first;
    it->second += sign * count;
    if (it->second == 0) planned->erase(it);
  }
}

void NamespaceQuotas::Change(const PodsToCome& pods, int sign) {
  if (!pods.pods.empty()) Add(pods, sign, &namespaces_[pods.ns].planned);
}

void NamespaceQuotas::Eased(const std::string& ns) {
  const auto it = namespaces_.find(ns);
  if (it != namespaces_.end() && it->second.refused.exchange(false)) eased_.insert(ns);
}

void NamespaceQuotas::DropIfUnused(const std::string& ns) {
  const auto it = namespaces_.find(ns);
  if (it != namespaces_.end() && it->second.quotas.empty() && it->second.planned.empty()) namespaces_.erase(it);
}

std::vector<std::string> NamespaceQuotas::TakeEased() {
  std::vector<std::string> eased(eased_.begin(), eased_.end());
  eased_.clear();
  return eased;
}

void NamespaceQuotas::AddToHash(StateHash* hash) const {
  for (const auto& [ns, of] : namespaces_) {
    hash->Add(ns);
    for (const auto& [name, quota] : of.quotas) {
      hash->Add(name);
      for (const NamespaceQuotaLimit& limit : quota.limits) {
        hash->Add(limit.name).Add(limit.hard.value).Add(limit.used.value);
      }
      for (const gang::QuotaScope& scope : quota.scopes) {
        hash->Add(static_cast<int64_t>(scope.kind)).Add(static_cast<int64_t>(scope.priority_classes.op));
        for (const std::string& value : scope.priority_classes.values) hash->Add(value);
      }
    }
    for (const auto& [charge, pods] : of.planned) {
      gang::AddToHash(charge, hash);
      hash->Add(pods);
    }
  }
  for (const auto& [workload, pod_sets] : counted_) {
    hash->Add(workload);
    for (const auto& [pod_set, pods] : pod_sets) hash->Add(pod_set).Add(pods);
  }
}

void NamespaceQuotas::Validate(const std::vector<PodsToCome>& planned) const {
  std::map<std::string, Planned, std::less<>> recounted;
  for (const PodsToCome& pods : planned) {
    for (const auto& [shape, count] : pods.pods) recounted[pods.ns][*shape->charge] += count;
  }
  for (const auto& [ns, of] : namespaces_) {
    const auto it = recounted.find(ns);
    const bool same = it == recounted.end() ? of.planned.empty() : of.planned == it->second;
    MUSTER_CHECK_MSG(same && (!of.quotas.empty() || !of.planned.empty()), ns);
    if (it != recounted.end()) recounted.erase(it);
  }
  MUSTER_CHECK(recounted.empty());
  int64_t quotas = 0;
  for (const auto& [ns, of] : namespaces_) quotas += static_cast<int64_t>(of.quotas.size());
  MUSTER_CHECK(quotas == quotas_);
}

// ---- NamespaceAsker -----------------------------------------------------------------------------

void NamespaceAsker::Lift(const PodsToCome& pods) {
  if (!pods.pods.empty()) NamespaceQuotas::Add(pods, 1, &lifted_[pods.ns]);
}

void NamespaceAsker::PutBack(const PodsToCome& pods) {
  if (pods.pods.empty()) return;
  const auto it = lifted_.find(pods.ns);
  NamespaceQuotas::Add(pods, -1, &it->second);
  if (it->second.empty()) lifted_.erase(it);
}

Amount NamespaceAsker::PlannedOf(const NamespaceQuotas::OfNamespace& of, const NamespaceQuota& quota,
                                 const std::string& limit, std::string_view ns) const {
  const auto lifted = lifted_.find(ns);
  Amount planned;
  for (const auto& [charge, pods] : of.planned) {
    if (!Counts(quota, charge)) continue;
    int64_t left = pods;
    if (lifted != lifted_.end()) {
      const auto out = lifted->second.find(charge);
      if (out != lifted->second.end()) left -= out->second;
    }
    planned += AmountOf(charge, limit) * left;
  }
  return planned;
}

std::optional<Obstacle> NamespaceAsker::Refusal(const Workload& workload, const std::vector<int32_t>& counts) const {
  const auto it = quotas_->namespaces_.find(workload.ns);
  if (it == quotas_->namespaces_.end()) return std::nullopt;
  NamespaceQuotas::OfNamespace& of = it->second;
  for (const auto& [name, quota] : of.quotas) {
    std::vector<std::pair<const gang::PodCharge*, int64_t>> asked;
    for (size_t i = 0; i < counts.size(); ++i) {
      const PodSet& pod_set = workload.pod_sets[i];
      const std::optional<gang::PodCharge>& charge = pod_set.shape->charge;
      if (counts[i] == 0 || !charge.has_value() || !Counts(quota, *charge)) continue;
      asked.emplace_back(&*charge, counts[i]);
      if (auto unset = Unset(quota, pod_set); unset.has_value()) {
        of.refused = true;
        return unset;
      }
    }
    for (const NamespaceQuotaLimit& limit : quota.limits) {
      Amount requested;
      for (const auto& [charge, pods] : asked) requested += AmountOf(*charge, limit.name) * pods;
      if (requested <= Amount{}) continue;
      const Amount planned = PlannedOf(of, quota, limit.name, workload.ns);
      if (limit.used + planned + requested <= limit.hard) continue;
      of.refused = true;
      Obstacle obstacle = ObjectObstacle(ObstacleKind::kResourceQuota, name);
      obstacle.resource = limit.name;
      obstacle.requested = requested;
      obstacle.limit = limit.hard;
      obstacle.used = limit.used;
      obstacle.assumed = planned;
      return obstacle;
    }
  }
  return std::nullopt;
}

}  // namespace muster::engine
