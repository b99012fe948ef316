// The parts of an admission policy, and the objects made from them. The files beside this one write down one
// group of policies each.
//
// Threading: values.
#pragma once

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

struct PolicySpec {
  std::string name;
  std::string group;
  std::vector<std::string> versions;
  std::vector<std::string> operations;
  std::string resource;
  Node::Map namespace_selector;
  Node::Map object_selector;
  std::vector<NamedExpression> conditions;
  std::vector<NamedExpression> variables;
  // Validating policies have rules, mutating policies a CEL expression that makes a list of JSONPatch.
  std::vector<Rule> rules;
  std::string json_patch;
  // The policy looks at the LocalQueue `default` of the object's namespace, and rests where there is none.
  bool for_default_queue = false;
};

// The policy and its binding, in this order.
std::vector<GeneratedPolicy> Objects(const PolicySpec& spec);

// `text` as a CEL string literal.
std::string CelString(std::string_view text);
// CEL: whether the request comes from neither Muster nor a starter that the configuration allows.
std::string FromOthers(const PolicyOptions& options);

std::vector<PolicySpec> JobPolicies(const PolicyOptions& options);
std::vector<PolicySpec> QueuePolicies(const PolicyOptions& options);

}  // namespace muster::controller
