#include "node_failures.h"

#include <algorithm>
#include <utility>

namespace muster::controller {

void NodeFailures::AllTold() {
  suspects_.clear();
  if (*deps_.engine == nullptr) return;
  for (const std::string& hostname : (*deps_.engine)->HostsWithPlaces()) NodeChanged(hostname);
}

void NodeFailures::NodeChanged(const std::string& hostname) {
  if (*deps_.engine == nullptr) return;
  for (const engine::HolderOnNode& holder : (*deps_.engine)->HoldersOn(hostname)) Look(hostname, holder);
}

void NodeFailures::GangChanged(const std::string& gang) {
  if (suspects_.empty() || *deps_.engine == nullptr) return;
  const std::string uid = deps_.machines->UidOf(gang);
  const auto it = suspects_.find(uid);
  if (it == suspects_.end()) return;
  for (const std::string& hostname : std::exchange(it->second, {})) {
    for (const engine::HolderOnNode& holder : (*deps_.engine)->HoldersOn(hostname)) {
      if (holder.uid == uid) Look(hostname, holder);
    }
  }
  if (const auto left = suspects_.find(uid); left != suspects_.end() && left->second.empty()) suspects_.erase(left);
}

bool NodeFailures::Fails(const std::string& uid, const std::string& hostname) const {
  if (*deps_.engine == nullptr) return false;
  const std::vector<engine::HolderOnNode> holders = (*deps_.engine)->HoldersOn(hostname);
  return std::any_of(holders.begin(), holders.end(), [&uid](const engine::HolderOnNode& holder) {
    return holder.uid == uid && (holder.gone || holder.unfit);
  });
}

void NodeFailures::Look(const std::string& hostname, const engine::HolderOnNode& holder) {
  if (!holder.gone && !holder.unfit) return;
  const std::string name = deps_.name_of_workload(holder.uid);
  const std::string& gang = name.empty() ? holder.uid : name;
  // Those that were let go to it may be bound at any moment, unless it is gone.
  const bool waits = holder.gone ? deps_.machines->looks_at_all() && LetGoTo(hostname, gang)
                                 : RunsOn(hostname, gang) || LetGoTo(hostname, gang);
  if (waits) {
    suspects_[holder.uid].insert(hostname);
    return;
  }
  deps_.apply(engine::PlaceFailed{holder.uid, holder.claim, hostname});
}

bool NodeFailures::RunsOn(const std::string& hostname, const std::string& gang) const {
  const auto bound = deps_.machines->Bound(gang);
  return std::any_of(bound.begin(), bound.end(), [&](const auto& pod) {
    const auto node = deps_.machines->FindNode(pod->node);
    return !pod->terminating && node != nullptr && HostnameOf(node->node) == hostname;
  });
}

bool NodeFailures::LetGoTo(const std::string& hostname, const std::string& gang) const {
  const auto unbound = deps_.machines->Unbound(gang);
  return deps_.ungater->LetsGoTo(hostname, gang) || std::any_of(unbound.begin(), unbound.end(), [&](const auto& pod) {
           const auto selected = pod->node_selector.find(gang::kHostnameLabel);
           return !pod->terminating && !pod->gate.has_value() && selected != pod->node_selector.end() &&
                  selected->second == hostname;
         });
}

}  // namespace muster::controller
