#include "muster/k8s_client/object.h"

#include <algorithm>

namespace muster::k8s {

const OwnerReference* ObjectMeta::Controller() const {
  const auto it = std::find_if(owners.begin(), owners.end(), [](const OwnerReference& o) { return o.controller; });
  return it == owners.end() ? nullptr : &*it;
}

const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type) {
  const auto it =
      std::find_if(conditions.begin(), conditions.end(), [&](const Condition& c) { return c.type == type; });
  return it == conditions.end() ? nullptr : &*it;
}

bool IsTrue(const std::vector<Condition>& conditions, std::string_view type) {
  const Condition* condition = FindCondition(conditions, type);
  return condition != nullptr && condition->status == "True";
}

bool SetCondition(std::vector<Condition>* conditions, Condition wanted, WallTime now) {
  const auto it =
      std::find_if(conditions->begin(), conditions->end(), [&](const Condition& c) { return c.type == wanted.type; });
  if (it == conditions->end()) {
    if (!wanted.last_transition.IsSet()) wanted.last_transition = now;
    conditions->push_back(std::move(wanted));
    return true;
  }
  if (it->status == wanted.status) {
    wanted.last_transition = it->last_transition;
  } else if (!wanted.last_transition.IsSet()) {
    wanted.last_transition = now;
  }
  if (*it == wanted) return false;
  *it = std::move(wanted);
  return true;
}

}  // namespace muster::k8s
