// What all API objects have in common.
//
// Threading: values.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/labels.h"
#include "muster/core/time.h"

namespace muster::k8s {

// A kind of object, as a URL needs it. Instances are constants in resources.h.
struct Resource {
  std::string_view group;  // empty: core
  std::string_view version;
  std::string_view plural;
  std::string_view kind;
  bool namespaced = true;
};

struct ObjectKey {
  std::string ns;  // empty for cluster-scoped objects
  std::string name;
  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
  std::string ToString() const { return ns.empty() ? name : ns + "/" + name; }
};

struct OwnerReference {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
  friend bool operator==(const OwnerReference&, const OwnerReference&) = default;
};

struct ObjectMeta {
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;  // opaque; compare for equality only
  int64_t generation = 0;
  WallTime creation;
  WallTime deletion;  // set: being deleted
  Labels labels;
  Labels annotations;
  std::vector<OwnerReference> owners;
  std::vector<std::string> finalizers;
  friend bool operator==(const ObjectMeta&, const ObjectMeta&) = default;

  ObjectKey key() const { return {ns, name}; }
  // RETURNS: the owner with controller = true, or null.
  const OwnerReference* Controller() const;
};

// metav1.Condition.
struct Condition {
  std::string type;
  std::string status;  // True, False, Unknown
  std::string reason;
  std::string message;
  WallTime last_transition;
  int64_t observed_generation = 0;
  friend bool operator==(const Condition&, const Condition&) = default;
};

// RETURNS: the condition of that type, or null.
const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type);
bool IsTrue(const std::vector<Condition>& conditions, std::string_view type);

// Sets a condition by the usual rule: the transition time changes only when the status flips. Appends a
// type that is not there yet. RETURNS: whether anything changed.
bool SetCondition(std::vector<Condition>* conditions, Condition wanted, WallTime now);

}  // namespace muster::k8s
