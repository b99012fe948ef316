// Label maps and selectors with Kubernetes' meaning.
//
// Source: k8s.io/apimachinery labels.Selector, metav1.LabelSelector.
// Threading: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster {

using Labels = std::map<std::string, std::string, std::less<>>;

// One requirement of a label selector, a node selector term or a set-based label query.
struct Requirement {
  enum class Operator : uint8_t { kIn, kNotIn, kExists, kDoesNotExist, kGt, kLt };
  std::string key;
  Operator op = Operator::kIn;
  std::vector<std::string> values;

  // kNotIn and kDoesNotExist match where the key is absent; kGt and kLt compare integers and match nothing else.
  bool Matches(const Labels& labels) const;
  friend bool operator==(const Requirement&, const Requirement&) = default;
};

// An empty selector matches everything. "No selector" (nil) is an absent optional wherever the API tells
// the two apart, and matches nothing there.
struct LabelSelector {
  Labels match_labels;
  std::vector<Requirement> match_expressions;

  bool Matches(const Labels& labels) const;
  friend bool operator==(const LabelSelector&, const LabelSelector&) = default;
};

}  // namespace muster
