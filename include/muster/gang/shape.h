// A shape is what one pod of a pod set asks of a machine. Equal shapes are one object: a thousand Jobs
// from one template share it, and "does it fit" is asked once for all of them.
//
// Units: Amount's (milli-cpu, bytes, whole devices), per pod.
// Threading: shapes are immutable once interned; ShapeTable needs external synchronisation.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/core/amount.h"
#include "muster/core/hash.h"
#include "muster/core/labels.h"
#include "muster/gang/pod_charge.h"

namespace muster::gang {

struct Taint {
  std::string key;
  std::string value;
  std::string effect;  // NoSchedule, PreferNoSchedule or NoExecute
  friend bool operator==(const Taint&, const Taint&) = default;
};

struct Toleration {
  std::string key;
  std::string op;  // Equal or Exists; empty means Equal
  std::string value;
  std::string effect;  // empty: any
  // Carried so that an injected toleration is written whole; it does not change what is tolerated.
  bool has_toleration_seconds = false;
  int64_t toleration_seconds = 0;

  // Source: k8s.io/component-helpers corev1.Toleration.ToleratesTaint.
  bool Tolerates(const Taint& taint) const;
  friend bool operator==(const Toleration&, const Toleration&) = default;
};

// Required node affinity: an OR of terms, each an AND of matchExpressions. Absent = no constraint.
struct NodeSelectorTerm {
  std::vector<Requirement> match_expressions;
  std::vector<Requirement> match_fields;
  friend bool operator==(const NodeSelectorTerm&, const NodeSelectorTerm&) = default;
};

struct Shape {
  // A resource that is mentioned with 0 is present with 0: "asks for none of it" is not "does not mention it".
  std::map<std::string, Amount, std::less<>> requests;
  // What it takes on a node, where the configuration makes quota count something else; absent: as `requests`.
  std::optional<std::map<std::string, Amount, std::less<>>> node_requests;
  Labels node_selector;
  std::vector<NodeSelectorTerm> required_affinity;
  std::vector<Toleration> tolerations;
  std::optional<PodCharge> charge{};  // absent: ResourceQuotas are not looked at

  const std::map<std::string, Amount, std::less<>>& OnNode() const {
    return node_requests.has_value() ? *node_requests : requests;
  }
  friend bool operator==(const Shape&, const Shape&) = default;
};

using ShapePtr = std::shared_ptr<const Shape>;

// The first taint that keeps pods away (NoSchedule or NoExecute) and that neither list tolerates; null if
// none does.
const Taint* FirstUntolerated(const std::vector<Taint>& taints, const std::vector<Toleration>& tolerations,
                              const std::vector<Toleration>& more_tolerations);

// Whether nodes with exactly these labels would do for the pod, looking at no other label keys: selectors and terms
// of other keys are left out, and a term with nothing left admits everything.
// Source: kueue_semantics 5.6.
// RETURNS: a key of the node selector that wants another value; null if none does.
const std::string* MismatchedSelector(const Shape& shape, const Labels& node_labels);
bool MatchesAffinity(const Shape& shape, const Labels& node_labels);

// Whether a node would do for the pod, by all its labels, as the pod scheduler sees it. A term without requirements
// matches no node.
bool SelectsNode(const Shape& shape, const Labels& node_labels);
bool AffinityAdmitsNode(const Shape& shape, const std::string& node_name, const Labels& node_labels);

// RETURNS: a hash that is equal for equal shapes in every process.
void AddToHash(const Shape& shape, StateHash* hash);

// Keeps one object for each distinct shape that somebody still uses.
class ShapeTable {
 public:
  ShapePtr Intern(Shape shape);
  // Distinct shapes in use.
  size_t size() const;

 private:
  // Drops the entries of shapes that nobody uses any more.
  void Sweep();

  std::map<uint64_t, std::vector<std::weak_ptr<const Shape>>> shapes_;
  size_t since_sweep_ = 0;  // shapes made since the last sweep
};

}  // namespace muster::gang
