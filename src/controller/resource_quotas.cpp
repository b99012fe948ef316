#include "resource_quotas.h"

#include <algorithm>
#include <optional>

#include "muster/k8s_client/resources.h"

namespace muster::controller {

namespace {

// Pods come and go in bursts, and each look is at all of a gang's.
constexpr Duration kBurst = std::chrono::milliseconds(100);
constexpr Duration kBetweenLooks = std::chrono::seconds(1);

}  // namespace

ResourceQuotas::ResourceQuotas(Deps deps) : deps_(std::move(deps)) {
  quotas_ = MakeInformer<WatchedResourceQuota>(
      deps_.informers, k8s::kResourceQuotas, DecodeResourceQuota,
      [this](const auto& object, const auto& previous) {
        if (previous != nullptr && previous->quota == object->quota) return;
        deps_.apply(engine::NamespaceQuotaChanged{object->quota});
      },
      [this](const WatchedResourceQuota& last) {
        deps_.apply(engine::NamespaceQuotaDeleted{last.meta.ns, last.meta.name});
      });
}

void ResourceQuotas::GangChanged(const std::string& gang) {
  if (!deps_.on || !changed_.insert(gang).second || changed_.size() > 1) return;
  const Environment& env = deps_.informers.env;
  env.executor->PostAt(env.clock->Mono() + kBurst, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) Look();
  });
}

void ResourceQuotas::Look() {
  for (const std::string& gang : std::exchange(changed_, {})) Look(gang);
}

void ResourceQuotas::Look(const std::string& name) {
  const Environment& env = deps_.informers.env;
  const MonoTime now = env.clock->Mono();
  Gang& gang = gangs_[name];
  std::map<std::string, MonoTime> seen;
  std::map<std::string, int64_t> counted;
  std::optional<MonoTime> uncounted;  // the first of those that are not said to be counted yet
  deps_.for_each_pod(name, [&](const GangPod& pod) {
    // Another is to come in its place.
    if (pod.terminating || seen.contains(pod.meta.uid)) return;
    const auto before = gang.seen.find(pod.meta.uid);
    const MonoTime since = before == gang.seen.end() ? now : before->second;
    seen.emplace(pod.meta.uid, since);
    if (now - since >= deps_.lag) {
      ++counted[pod.pod_set];
    } else {
      uncounted = std::min(uncounted.value_or(since), since);
    }
  });
  gang.seen = std::move(seen);
  const std::string uid = deps_.uid_of(name);
  if (gang.uid != uid) {
    for (const auto& [pod_set, pods] : std::exchange(gang.told, {})) {
      deps_.apply(engine::PodsCounted{gang.uid, pod_set, 0});
    }
    gang.uid = uid;
  }
  if (!uid.empty()) {
    for (const auto& [pod_set, pods] : gang.told) {
      if (!counted.contains(pod_set)) deps_.apply(engine::PodsCounted{uid, pod_set, 0});
    }
    for (const auto& [pod_set, pods] : counted) {
      const auto told = gang.told.find(pod_set);
      if (told == gang.told.end() || told->second != pods) deps_.apply(engine::PodsCounted{uid, pod_set, pods});
    }
    gang.told = std::move(counted);
  }
  if (gang.seen.empty()) {
    gangs_.erase(name);
  } else if (uncounted.has_value() && !std::exchange(gang.looks_again, true)) {
    LookAt(std::max(*uncounted + deps_.lag, now + kBetweenLooks), name);
  }
}

void ResourceQuotas::LookAt(MonoTime when, const std::string& name) {
  deps_.informers.env.executor->PostAt(when, [this, alive = std::weak_ptr<bool>(alive_), name] {
    if (alive.expired()) return;
    const auto gang = gangs_.find(name);
    if (gang == gangs_.end()) return;
    gang->second.looks_again = false;
    GangChanged(name);
  });
}

void ResourceQuotas::Lead() {
  if (!deps_.on) return;
  for (const auto& [key, quota] : quotas_->objects()) deps_.apply(engine::NamespaceQuotaChanged{quota->quota});
  for (auto& [name, gang] : gangs_) {
    gang.uid.clear();
    gang.told.clear();
    GangChanged(name);
  }
}

}  // namespace muster::controller
