// ResourceQuota: what pods of a namespace may take.
//
// Source: k8s.io/kubernetes pkg/quota/v1/evaluator/core/pods.go; apiserver plugin/resourcequota controller.go.
#include <algorithm>

#include "muster/controller/decode.h"
#include "text.h"

namespace muster::controller {
namespace {

using gang::QuotaScope;
using gang::QuotaScopeKind;
using k8s::JsonValue;

QuotaScopeKind KindOf(std::string_view name) {
  if (name == "Terminating") return QuotaScopeKind::kTerminating;
  if (name == "NotTerminating") return QuotaScopeKind::kNotTerminating;
  if (name == "BestEffort") return QuotaScopeKind::kBestEffort;
  if (name == "NotBestEffort") return QuotaScopeKind::kNotBestEffort;
  if (name == gang::kPriorityClassScope) return QuotaScopeKind::kPriorityClass;
  if (name == "CrossNamespacePodAffinity") return QuotaScopeKind::kCrossNamespacePodAffinity;
  return QuotaScopeKind::kOfNoPod;
}

Requirement::Operator OperatorOf(JsonValue value) {
  const std::string name = value.String();
  if (name == "In") return Requirement::Operator::kIn;
  if (name == "NotIn") return Requirement::Operator::kNotIn;
  if (name == "DoesNotExist") return Requirement::Operator::kDoesNotExist;
  if (name != "Exists") value.Fail("\"" + name + "\" is not an operator");
  return Requirement::Operator::kExists;
}

std::vector<QuotaScope> DecodeScopes(JsonValue spec) {
  std::vector<QuotaScope> scopes;
  const auto add = [&scopes](const std::string& name, Requirement::Operator op) -> QuotaScope& {
    return scopes.emplace_back(QuotaScope{KindOf(name), {std::string(gang::kPriorityClassScope), op, {}}});
  };
  spec["scopes"].ForEach([&add](JsonValue scope) { add(scope.String(), Requirement::Operator::kExists); });
  spec["scopeSelector"]["matchExpressions"].ForEach([&add](JsonValue expression) {
    QuotaScope& scope = add(expression["scopeName"].String(), OperatorOf(expression["operator"]));
    expression["values"].ForEach(
        [&scope](JsonValue value) { scope.priority_classes.values.push_back(value.String()); });
  });
  return scopes;
}

}  // namespace

absl::StatusOr<WatchedResourceQuota> DecodeResourceQuota(std::string_view json) {
  k8s::JsonDocument document(json);
  const JsonValue object = document.root();
  WatchedResourceQuota out;
  out.meta = k8s::DecodeMeta(object);
  out.quota.ns = out.meta.ns;
  out.quota.name = out.meta.name;
  const JsonValue spec = object["spec"];
  const JsonValue status = object["status"];
  spec["hard"].ForEachField([&](std::string_view name, JsonValue hard) {
    const JsonValue enforced = status["hard"][name];
    if (!enforced.present()) return;
    const std::string_view resource = gang::ResourceOfLimit(name);
    out.quota.limits.push_back({std::string(name),
                                std::min(DecodeAmount(hard, resource), DecodeAmount(enforced, resource)),
                                DecodeAmount(status["used"][name], resource)});
  });
  std::sort(out.quota.limits.begin(), out.quota.limits.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  out.quota.scopes = DecodeScopes(spec);
  if (const absl::Status s = document.Finish(Cat("ResourceQuota ", out.meta.key().ToString())); !s.ok()) return s;
  return out;
}

}  // namespace muster::controller
