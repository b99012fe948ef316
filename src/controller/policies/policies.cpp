#include "muster/controller/policies.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>
#include <rapidjson/document.h>
#include <rapidjson/error/en.h>

#include "muster/controller/options.h"
#include "muster/core/check.h"
#include "muster/core/hash.h"
#include "policies/policy.h"

namespace muster::controller {
namespace {

constexpr char kVersion[] = "admissionregistration.k8s.io/v1";
constexpr char kHashAnnotation[] = "muster.dev/policy-hash";

GeneratedPolicy MakeObject(std::string kind, std::string name, Node::Map spec) {
  GeneratedPolicy out{std::move(kind), std::move(name), {}, {}};
  Node spec_node(std::move(spec));
  out.hash = Sha256Hex(spec_node.ToCanonicalJson());
  const Node object(Node::Map{
      {"apiVersion", kVersion},
      {"kind", out.kind},
      {"metadata", Node::Map{{"name", out.name},
                             {"labels", Node::Map{{"app.kubernetes.io/name", "muster"}}},
                             {"annotations", Node::Map{{kHashAnnotation, out.hash}}}}},
      {"spec", std::move(spec_node)},
  });
  out.yaml = object.ToYaml(0);
  return out;
}

Node::List Expressions(const std::vector<NamedExpression>& expressions) {
  Node::List out;
  for (const auto& [name, expression] : expressions) {
    out.push_back(Node::Map{{"name", name}, {"expression", expression}});
  }
  return out;
}

// Fields that the API server would default are written out, so that what it returns equals what was sent.
Node::Map MatchConstraints(const PolicySpec& spec) {
  Node rule(Node::Map{{"apiGroups", Node::List{spec.group}},
                      {"apiVersions", StringList(spec.versions)},
                      {"operations", StringList(spec.operations)},
                      {"resources", StringList(spec.resources)},
                      {"scope", "*"}});
  return {{"matchPolicy", spec.exact_version ? "Exact" : "Equivalent"},
          {"namespaceSelector", spec.namespace_selector},
          {"objectSelector", spec.object_selector},
          {"resourceRules", Node::List{std::move(rule)}}};
}

// All rules as one expression, which gives every complaint. The API server evaluates the message of each validation
// whether it holds or not, so that one validation is much cheaper than one for each rule.
std::string Problems(const std::vector<Rule>& rules) {
  std::vector<std::string> texts;
  for (const Rule& rule : rules) {
    texts.push_back(absl::StrCat("(", rule.holds, ") ? '' :\n", rule.complaint));
  }
  return absl::StrCat("[\n", absl::StrJoin(texts, ",\n"), "\n].filter(problem, problem != '').join('; ')");
}

Node::Map PolicyBody(const PolicySpec& spec) {
  Node::Map body{{"failurePolicy", "Fail"}};
  if (spec.param) {
    body.emplace_back("paramKind", Node::Map{{"apiVersion", spec.param->api_version}, {"kind", spec.param->kind}});
  }
  body.emplace_back("matchConstraints", MatchConstraints(spec));
  if (!spec.conditions.empty()) body.emplace_back("matchConditions", Expressions(spec.conditions));
  Node::List variables = Expressions(spec.variables);
  if (!spec.rules.empty()) variables.push_back(Node::Map{{"name", "problems"}, {"expression", Problems(spec.rules)}});
  if (!variables.empty()) body.emplace_back("variables", std::move(variables));
  if (!spec.json_patch.empty()) {
    body.emplace_back("reinvocationPolicy", spec.reinvoked ? "IfNeeded" : "Never");
    body.emplace_back("mutations", Node::List{Node::Map{{"patchType", "JSONPatch"},
                                                        {"jsonPatch", Node::Map{{"expression", spec.json_patch}}}}});
  }
  if (!spec.rules.empty()) {
    body.emplace_back("validations", Node::List{Node::Map{{"expression", "variables.problems == ''"},
                                                          {"message", absl::StrCat("breaks the rules of ", spec.name)},
                                                          // The API server drops messages of more than 5 KiB.
                                                          {"messageExpression",
                                                           "variables.problems.size() <= 4000 ? variables.problems :\n"
                                                           "variables.problems.substring(0, 4000) + ' ...'"}}});
  }
  return body;
}

Node FromJson(const rapidjson::Value& value) {
  if (value.IsString()) return std::string(value.GetString(), value.GetStringLength());
  if (value.IsArray()) {
    Node::List list;
    for (const auto& item : value.GetArray()) list.push_back(FromJson(item));
    return list;
  }
  if (value.IsObject()) {
    Node::Map map;
    for (const auto& member : value.GetObject()) {
      map.emplace_back(std::string(member.name.GetString(), member.name.GetStringLength()), FromJson(member.value));
    }
    return map;
  }
  // Policies hold no other values; one that turned up must not hash like a string that reads the same.
  return Node::List{value.IsNull() ? "null" : value.IsBool() ? (value.GetBool() ? "true" : "false") : "number"};
}

Node::Map SelectorNode(const LabelSelector& selector) {
  Node::Map out;
  if (!selector.match_labels.empty()) {
    Node::Map labels;
    for (const auto& [key, value] : selector.match_labels) labels.emplace_back(key, value);
    out.emplace_back("matchLabels", std::move(labels));
  }
  if (selector.match_expressions.empty()) return out;
  Node::List expressions;
  for (const Requirement& r : selector.match_expressions) {
    Node::Map expression{{"key", r.key}};
    switch (r.op) {
      case Requirement::Operator::kIn:
        expression.emplace_back("operator", "In");
        break;
      case Requirement::Operator::kNotIn:
        expression.emplace_back("operator", "NotIn");
        break;
      case Requirement::Operator::kExists:
        expression.emplace_back("operator", "Exists");
        break;
      case Requirement::Operator::kDoesNotExist:
        expression.emplace_back("operator", "DoesNotExist");
        break;
      case Requirement::Operator::kGt:
      case Requirement::Operator::kLt:
        MUSTER_CHECK_MSG(false, "a label selector has no Gt or Lt");
    }
    if (!r.values.empty()) expression.emplace_back("values", StringList(r.values));
    expressions.push_back(std::move(expression));
  }
  out.emplace_back("matchExpressions", std::move(expressions));
  return out;
}

}  // namespace

std::string CelString(std::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(std::string(text), {{"\\", "\\\\"}, {"'", "\\'"}, {"\n", "\\n"}}), "'");
}

std::string OwnUserName(const PolicyOptions& options) {
  return absl::StrCat("system:serviceaccount:", options.ns, ":", options.service_account);
}

std::string OwnUser(const PolicyOptions& options) { return CelString(OwnUserName(options)); }

std::string FromOthers(const PolicyOptions& options) {
  std::vector<std::string> users{OwnUser(options)};
  for (const std::string& user : options.allowed_starters) users.push_back(CelString(user));
  return absl::StrCat("!(request.userInfo.username in [", absl::StrJoin(users, ", "), "])");
}

std::vector<GeneratedPolicy> Objects(const PolicySpec& spec) {
  const bool mutating = !spec.json_patch.empty();
  MUSTER_CHECK(mutating == spec.rules.empty());
  const std::string kind = mutating ? "MutatingAdmissionPolicy" : "ValidatingAdmissionPolicy";
  Node::Map binding{{"policyName", spec.name}};
  if (spec.param) {
    Node::Map ref{{"name", spec.param->name}};
    if (!spec.param->ns.empty()) ref.emplace_back("namespace", spec.param->ns);
    // Denied, every write of everybody would be, and finalizers with them.
    ref.emplace_back("parameterNotFoundAction", "Allow");
    binding.emplace_back("paramRef", std::move(ref));
  }
  if (!mutating) binding.emplace_back("validationActions", Node::List{"Deny"});
  return {MakeObject(kind, spec.name, PolicyBody(spec)), MakeObject(kind + "Binding", spec.name, std::move(binding))};
}

LabelSelector DefaultManagedNamespaces(std::string_view own_namespace) {
  LabelSelector out;
  out.match_expressions.push_back(
      {"kubernetes.io/metadata.name", Requirement::Operator::kNotIn, {"kube-system", std::string(own_namespace)}});
  return out;
}

PolicyOptions PolicyOptionsOf(const Options& options) {
  PolicyOptions out;
  out.ns = options.ns;
  out.service_account = options.service_account;
  out.managed_jobs_namespace_selector = options.managed_jobs_namespace_selector;
  out.manage_jobs_without_queue_name = options.manage_jobs_without_queue_name;
  out.allowed_starters = options.allowed_starters;
  out.parents = options.parents;
  out.fence = options.leader_elect;
  out.lease_namespace = options.lease.ns;
  out.lease_name = options.lease.name;
  return out;
}

std::vector<GeneratedPolicy> Policies(const PolicyOptions& options) {
  std::vector<PolicySpec> specs = JobPolicies(options);
  for (PolicySpec& spec : specs) spec.namespace_selector = SelectorNode(options.managed_jobs_namespace_selector);
  for (PolicySpec& spec : QueuePolicies(options)) specs.push_back(std::move(spec));
  std::vector<GeneratedPolicy> out;
  for (const PolicySpec& spec : specs) {
    for (GeneratedPolicy& object : Objects(spec)) out.push_back(std::move(object));
  }
  return out;
}

std::string GeneratePolicies(const PolicyOptions& options, PolicyKinds kinds) {
  std::string out =
      "# Generated from Muster's configuration; do not edit. Muster reports where the cluster's differ.\n";
  for (const GeneratedPolicy& object : Policies(options)) {
    const bool mutating = object.kind.starts_with("Mutating");
    if (kinds == PolicyKinds::kMutating && !mutating) continue;
    if (kinds == PolicyKinds::kValidating && mutating) continue;
    absl::StrAppend(&out, "---\n", object.yaml);
  }
  return out;
}

std::vector<PolicyExpectation> ExpectedPolicies(const PolicyOptions& options) {
  std::vector<PolicyExpectation> out;
  for (GeneratedPolicy& object : Policies(options)) {
    out.push_back({std::move(object.kind), std::move(object.name), std::move(object.hash)});
  }
  return out;
}

absl::StatusOr<std::string> LivePolicyHash(std::string_view object_json) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(object_json.data(), object_json.size());
  if (document.HasParseError()) {
    return absl::InvalidArgumentError(absl::StrCat("policy: ", rapidjson::GetParseError_En(document.GetParseError()),
                                                   " at byte ", document.GetErrorOffset()));
  }
  if (!document.IsObject()) return absl::InvalidArgumentError("policy: not a JSON object");
  const auto spec = document.FindMember("spec");
  if (spec == document.MemberEnd() || !spec->value.IsObject()) {
    return absl::InvalidArgumentError("policy: spec is missing or not an object");
  }
  return Sha256Hex(FromJson(spec->value).ToCanonicalJson());
}

}  // namespace muster::controller
