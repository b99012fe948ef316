#include "unserved_quota.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <utility>

#include "muster/controller/names.h"
#include "muster/core/quantity.h"
#include "text.h"

namespace muster::controller {
namespace {

std::string Text(const engine::UnservedQuota& quota, size_t more) {
  const std::string object =
      quota.cohort.empty() ? Cat("ClusterQueue ", quota.cluster_queue) : Cat("Cohort ", quota.cohort);
  const std::string what = quota.nodes == 0 ? Cat("no node has the labels of ResourceFlavor ", quota.flavor)
                                            : Cat("no node of ResourceFlavor ", quota.flavor, " has ", quota.resource);
  return Cat("quota that no node can serve: ", object, ": ", quota.field, ": ",
             FormatAmount(quota.resource, quota.nominal), " of ", quota.resource, ": ", what,
             more == 0 ? std::string() : Cat(" (and ", more, " more such quotas)"),
             "; nodes that come once pods wait: ", "annotate the flavor with ", kAutoscaledAnnotation, ": \"true\"");
}

}  // namespace

void UnservedQuotaCheck::Look(const engine::EngineSet& engine) {
  const auto quotas = engine.UnservedQuotas();
  if (quotas == as_of_) return;
  as_of_ = quotas;
  // By flavor, and by resource where the flavor has nodes.
  std::map<std::pair<std::string, std::string>, std::vector<const engine::UnservedQuota*>> groups;
  for (const engine::UnservedQuota& quota : *quotas) {
    if (quota.allocatable > Amount{0}) continue;
    groups[{quota.flavor, quota.nodes == 0 ? std::string() : quota.resource}].push_back(&quota);
  }
  std::vector<std::string> found;
  for (const auto& [key, group] : groups) {
    found.push_back(Text(*group.front(), group.size() - 1));
    if (std::find(problems_.begin(), problems_.end(), found.back()) == problems_.end())
      spdlog::warn("{}", found.back());
  }
  problems_ = std::move(found);
}

}  // namespace muster::controller
