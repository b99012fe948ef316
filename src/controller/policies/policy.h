// The parts of an admission policy, and the objects made from them. The files beside this one write down one
// group of policies each.
//
// Threading: values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/controller/policies.h"
#include "policies/node.h"

namespace muster::controller {

// A named CEL expression.
using NamedExpression = std::pair<std::string, std::string>;

struct Rule {
  // CEL: true where nothing is wrong.
  std::string holds;
  // CEL, evaluated only where the rule does not hold: names the field, its value and what is wrong with it.
  std::string complaint;
};

// An object that a policy looks at beside the one that is written. The policy rests where there is none.
struct PolicyParam {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string ns;  // empty: that of the object written
};

struct PolicySpec {
  std::string name;
  std::string group;
  std::vector<std::string> versions;
  std::vector<std::string> operations;
  std::vector<std::string> resources;
  Node::Map namespace_selector;
  Node::Map object_selector;
  std::vector<NamedExpression> conditions;
  std::vector<NamedExpression> variables;
  // Validating policies have rules, mutating policies a CEL expression that makes a list of JSONPatch.
  std::vector<Rule> rules;
  std::string json_patch;
  std::optional<PolicyParam> param;
  // A mutating policy is asked again where a later one has changed the object.
  bool reinvoked = false;
  // Writes in a version that is not listed pass by, instead of being converted.
  bool exact_version = false;
};

// The policy and its binding, in this order.
std::vector<GeneratedPolicy> Objects(const PolicySpec& spec);

// `text` as a CEL string literal.
std::string CelString(std::string_view text);
// Muster's own user, as a CEL string literal.
std::string OwnUser(const PolicyOptions& options);
// CEL: whether the request comes from neither Muster nor a starter that the configuration allows.
std::string FromOthers(const PolicyOptions& options);

std::vector<PolicySpec> JobPolicies(const PolicyOptions& options);
std::vector<PolicySpec> QueuePolicies(const PolicyOptions& options);

}  // namespace muster::controller
