// ResourceQuotas as events of the engine, and which pods of gangs they count already. They are watched only where
// machines are checked.
//
// The API server counts a pod before it stores it. But the watch of ResourceQuotas may be behind that of pods, so that
// a pod is said to be counted a while after it was seen.
//
// Threading: used from the executor only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "informers.h"
#include "muster/controller/decode.h"
#include "muster/engine/engine.h"
#include "watched_machines.h"

namespace muster::controller {

class ResourceQuotas {
 public:
  struct Deps {
    InformerDeps informers;
    bool on = false;
    Duration lag{};  // of one watch behind another, at most
    std::function<void(engine::Event event)> apply;
    // Visits the pods of the gang that there are, some of them twice.
    std::function<void(const std::string& gang, const std::function<void(const GangPod& pod)>& visit)> for_each_pod;
    std::function<std::string(const std::string& gang)> uid_of;  // as the engine knows it; empty: it does not
  };

  explicit ResourceQuotas(Deps deps);

  // Pods of it have come or gone, or begun to go.
  void GangChanged(const std::string& gang);
  // The engine is new, and knows of nothing.
  void Lead();

  template <typename Visit>
  void ForEach(Visit visit) const {
    if (deps_.on) visit("ResourceQuota", *quotas_);
  }

 private:
  struct Gang {
    std::map<std::string, MonoTime> seen;  // pods by uid: since when
    std::string uid;                       // under which the engine was told
    std::map<std::string, int64_t> told;   // by pod set
    bool looks_again = false;              // when more of its pods may be said to be counted
  };

  void LookAt(MonoTime when, const std::string& name);
  void Look();
  void Look(const std::string& name);

  Deps deps_;
  Informer<WatchedResourceQuota> quotas_;
  std::map<std::string, Gang> gangs_;
  std::set<std::string> changed_;  // to be looked at
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
