#include "muster/gang/shape.h"

#include <algorithm>

namespace muster::gang {

namespace {

bool KeepsPodsAway(const Taint& taint) { return taint.effect == "NoSchedule" || taint.effect == "NoExecute"; }

bool ToleratedBy(const std::vector<Toleration>& tolerations, const Taint& taint) {
  return std::any_of(tolerations.begin(), tolerations.end(),
                     [&](const Toleration& toleration) { return toleration.Tolerates(taint); });
}

// Looks only at the keys that the nodes' labels have; a term with none of them left matches.
bool MatchesTerm(const NodeSelectorTerm& term, const Labels& node_labels) {
  return std::all_of(term.match_expressions.begin(), term.match_expressions.end(), [&](const Requirement& requirement) {
    return !node_labels.contains(requirement.key) || requirement.Matches(node_labels);
  });
}

void AddToHash(const Requirement& requirement, StateHash* hash) {
  hash->Add(requirement.key).Add(static_cast<int64_t>(requirement.op));
  hash->Add(static_cast<int64_t>(requirement.values.size()));
  for (const std::string& value : requirement.values) hash->Add(value);
}

}  // namespace

bool Toleration::Tolerates(const Taint& taint) const {
  if (!effect.empty() && effect != taint.effect) return false;
  if (!key.empty() && key != taint.key) return false;
  if (op == "Exists") return true;
  return (op.empty() || op == "Equal") && !key.empty() && value == taint.value;
}

const Taint* FirstUntolerated(const std::vector<Taint>& taints, const std::vector<Toleration>& tolerations,
                              const std::vector<Toleration>& more_tolerations) {
  for (const Taint& taint : taints) {
    if (KeepsPodsAway(taint) && !ToleratedBy(tolerations, taint) && !ToleratedBy(more_tolerations, taint)) {
      return &taint;
    }
  }
  return nullptr;
}

const std::string* MismatchedSelector(const Shape& shape, const Labels& node_labels) {
  for (const auto& [key, value] : shape.node_selector) {
    const auto it = node_labels.find(key);
    if (it != node_labels.end() && it->second != value) return &key;
  }
  return nullptr;
}

bool MatchesAffinity(const Shape& shape, const Labels& node_labels) {
  const std::vector<NodeSelectorTerm>& terms = shape.required_affinity;
  if (terms.empty()) return true;
  return std::any_of(terms.begin(), terms.end(),
                     [&](const NodeSelectorTerm& term) { return MatchesTerm(term, node_labels); });
}

bool SelectsNode(const Shape& shape, const Labels& node_labels) {
  return std::all_of(shape.node_selector.begin(), shape.node_selector.end(), [&](const auto& entry) {
    const auto it = node_labels.find(entry.first);
    return it != node_labels.end() && it->second == entry.second;
  });
}

bool AffinityAdmitsNode(const Shape& shape, const std::string& node_name, const Labels& node_labels) {
  if (shape.required_affinity.empty()) return true;
  const Labels fields = {{"metadata.name", node_name}};
  const auto all_match = [](const std::vector<Requirement>& requirements, const Labels& labels) {
    return std::all_of(requirements.begin(), requirements.end(),
                       [&](const Requirement& requirement) { return requirement.Matches(labels); });
  };
  return std::any_of(shape.required_affinity.begin(), shape.required_affinity.end(), [&](const NodeSelectorTerm& term) {
    if (term.match_expressions.empty() && term.match_fields.empty()) return false;
    return all_match(term.match_expressions, node_labels) && all_match(term.match_fields, fields);
  });
}

void AddToHash(const Shape& shape, StateHash* hash) {
  hash->Add(static_cast<int64_t>(shape.requests.size()));
  for (const auto& [resource, amount] : shape.requests) hash->Add(resource).Add(amount.value);
  hash->Add(static_cast<int64_t>(shape.node_requests.has_value() ? shape.node_requests->size() + 1 : 0));
  if (shape.node_requests.has_value()) {
    for (const auto& [resource, amount] : *shape.node_requests) hash->Add(resource).Add(amount.value);
  }
  hash->Add(static_cast<int64_t>(shape.node_selector.size()));
  for (const auto& [key, value] : shape.node_selector) hash->Add(key).Add(value);
  hash->Add(static_cast<int64_t>(shape.required_affinity.size()));
  for (const NodeSelectorTerm& term : shape.required_affinity) {
    for (const auto* requirements : {&term.match_expressions, &term.match_fields}) {
      hash->Add(static_cast<int64_t>(requirements->size()));
      for (const Requirement& requirement : *requirements) AddToHash(requirement, hash);
    }
  }
  hash->Add(static_cast<int64_t>(shape.tolerations.size()));
  for (const Toleration& toleration : shape.tolerations) {
    hash->Add(toleration.key).Add(toleration.op).Add(toleration.value).Add(toleration.effect);
    hash->Add(static_cast<int64_t>(toleration.has_toleration_seconds)).Add(toleration.toleration_seconds);
  }
  if (shape.charge.has_value()) AddToHash(*shape.charge, hash);
}

ShapePtr ShapeTable::Intern(Shape shape) {
  StateHash hash;
  AddToHash(shape, &hash);
  std::vector<std::weak_ptr<const Shape>>& bucket = shapes_[hash.value()];
  std::erase_if(bucket, [](const std::weak_ptr<const Shape>& entry) { return entry.expired(); });
  for (const std::weak_ptr<const Shape>& entry : bucket) {
    if (ShapePtr known = entry.lock(); known != nullptr && *known == shape) return known;
  }
  auto made = std::make_shared<const Shape>(std::move(shape));
  bucket.push_back(made);
  if (++since_sweep_ > 2 * shapes_.size() + 64) Sweep();
  return made;
}

void ShapeTable::Sweep() {
  since_sweep_ = 0;
  std::erase_if(shapes_, [](const auto& entry) {
    return std::all_of(entry.second.begin(), entry.second.end(), [](const auto& shape) { return shape.expired(); });
  });
}

size_t ShapeTable::size() const {
  size_t count = 0;
  for (const auto& [hash, bucket] : shapes_) {
    count += static_cast<size_t>(
        std::count_if(bucket.begin(), bucket.end(), [](const auto& entry) { return !entry.expired(); }));
  }
  return count;
}

}  // namespace muster::gang
