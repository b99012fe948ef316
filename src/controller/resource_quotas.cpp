#include "resource_quotas.h"

#include <algorithm>

#include "muster/k8s_client/resources.h"

namespace muster::controller {

ResourceQuotas::ResourceQuotas(Deps deps) : deps_(std::move(deps)) {
  quotas_ = MakeInformer<WatchedResourceQuota>(
      deps_.informers, k8s::kResourceQuotas, DecodeResourceQuota,
      [this](const auto& object, const auto&) { deps_.apply(engine::NamespaceQuotaChanged{object->quota}); },
      [this](const WatchedResourceQuota& last) {
        deps_.apply(engine::NamespaceQuotaDeleted{last.meta.ns, last.meta.name});
      });
}

// Pods come in bursts: all that are waiting to be heard of are looked at in one go.
void ResourceQuotas::GangChanged(const std::string& gang) {
  if (!deps_.on || !changed_.insert(gang).second || changed_.size() > 1) return;
  deps_.informers.env.executor->Post([this, alive = std::weak_ptr<bool>(alive_)] {
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
  bool is_new = false;
  deps_.for_each_pod(name, [&](const GangPod& pod) {
    // Another is to come in its place.
    if (pod.terminating || seen.contains(pod.meta.uid)) return;
    const auto before = gang.seen.find(pod.meta.uid);
    const MonoTime since = before == gang.seen.end() ? now : before->second;
    seen.emplace(pod.meta.uid, since);
    is_new = is_new || since == now;
    if (now - since >= deps_.lag) ++counted[pod.pod_set];
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
  } else if (is_new) {
    LookLater(name);
  }
}

void ResourceQuotas::LookLater(const std::string& gang) {
  const Environment& env = deps_.informers.env;
  env.executor->PostAt(env.clock->Mono() + deps_.lag, [this, alive = std::weak_ptr<bool>(alive_), gang] {
    if (!alive.expired()) GangChanged(gang);
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
