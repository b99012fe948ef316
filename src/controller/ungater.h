// Gives the pods of gangs their places: a pod waits behind the scheduling gate kueue.x-k8s.io/topology until one write
// names its domain in the node selector and lifts the gate.
//
// Driven by levels: whenever pods of a gang or claims change, it looks at the pods as they are and at what the engine
// holds for them. A pod whose write is on its way counts as placed until the answer is there.
//
// Source: kueue_semantics 9.9.5.
// Threading: used from the executor only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "machine_watch.h"
#include "muster/core/backoff.h"
#include "muster/core/clock.h"
#include "muster/engine/engine.h"
#include "muster/k8s_client/client.h"

namespace muster::controller {

class Ungater {
 public:
  struct Deps {
    Environment env;
    k8s::Client* client = nullptr;
    MachineWatch* machines = nullptr;
    // Of the workload; nothing while nobody leads here, or where it is not known.
    std::function<std::optional<engine::WorkloadView>(const std::string& uid)> view;
    // The node of that hostname has failed for the workload, or will once no pod of it runs there: none is let go to
    // it.
    std::function<bool(const std::string& uid, const std::string& hostname)> fails;
  };

  explicit Ungater(Deps deps) : deps_(std::move(deps)) {}

  // Pods of it have come, changed or gone; `gang`: as of GangOf.
  void GangChanged(const std::string& gang);
  // Claims may have changed: gangs that had no places yet are looked at again.
  void ClaimsChanged();
  // A write that lets a pod of the gang go to that node may have been applied, or may still be.
  bool LetsGoTo(const std::string& hostname, const std::string& gang) const;

 private:
  struct Pending {
    std::string gang;
    bool busy = false;            // its write is on its way, or waits for the next try
    std::optional<Labels> place;  // of a write that may have been applied, or may still be
    Backoff backoff{std::chrono::milliseconds(500), std::chrono::seconds(60)};
  };

  void LookSoon();
  void Look();
  // RETURNS: false where the gang has pods that wait for a claim to change.
  bool Place(const std::string& gang);
  enum class Placed : uint8_t { kAll, kAllButThoseOfFailingNodes, kUntilTooManyWereOnTheirWay };
  Placed PlacePodSet(const std::string& gang, const std::string& uid, const engine::PodSetAssignment& assigned,
                     const std::vector<std::shared_ptr<const UnboundPod>>& unbound);
  void Send(const std::string& gang, const UnboundPod& pod, Labels place);
  bool IsBusy(const std::string& uid) const;
  void TryAgain(const std::string& uid);
  void Answered(const std::string& uid, const std::string& pod, const k8s::Result& result);

  Deps deps_;
  std::set<std::string> changed_;           // to be looked at
  std::set<std::string> waiting_;           // without an admission that runs, or with places on nodes that fail
  std::map<std::string, Pending> pending_;  // by the pod's uid
  int in_flight_ = 0;
  bool posted_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
