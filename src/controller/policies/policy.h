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

struct Validation {
  std::string expression;
  // A CEL expression; its value names the field, the value it has and what is wrong.
  std::string message_expression;
  // What the API server says where the other cannot be had (it is too long, say).
  std::string message;
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
  // Validating policies have validations, mutating policies a CEL expression that makes a list of JSONPatch.
  std::vector<Validation> validations;
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
