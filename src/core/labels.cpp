#include "muster/core/labels.h"

#include <absl/strings/numbers.h>

#include <algorithm>

namespace muster {

namespace {

bool Contains(const std::vector<std::string>& values, const std::string& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Kubernetes compares the label's value with the single value of the requirement, both as integers.
bool CompareIntegers(const Requirement& requirement, const std::string& value) {
  int64_t have = 0;
  int64_t bound = 0;
  if (requirement.values.size() != 1 || !absl::SimpleAtoi(value, &have) ||
      !absl::SimpleAtoi(requirement.values.front(), &bound)) {
    return false;
  }
  return requirement.op == Requirement::Operator::kGt ? have > bound : have < bound;
}

}  // namespace

bool Requirement::Matches(const Labels& labels) const {
  const auto it = labels.find(key);
  const bool present = it != labels.end();
  switch (op) {
    case Operator::kIn:
      return present && Contains(values, it->second);
    case Operator::kNotIn:
      return !present || !Contains(values, it->second);
    case Operator::kExists:
      return present;
    case Operator::kDoesNotExist:
      return !present;
    case Operator::kGt:
    case Operator::kLt:
      return present && CompareIntegers(*this, it->second);
  }
  return false;
}

bool LabelSelector::Matches(const Labels& labels) const {
  for (const auto& [key, value] : match_labels) {
    const auto it = labels.find(key);
    if (it == labels.end() || it->second != value) return false;
  }
  return std::all_of(match_expressions.begin(), match_expressions.end(),
                     [&](const Requirement& requirement) { return requirement.Matches(labels); });
}

}  // namespace muster
