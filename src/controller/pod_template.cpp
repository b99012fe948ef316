#include "muster/controller/pod_template.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>

#include "muster/controller/names.h"

namespace muster::controller {
namespace {

absl::Status InjectMap(std::string_view what, const Labels& wanted, Labels* result, Labels* added) {
  for (const auto& [key, value] : wanted) {
    const auto [it, inserted] = result->emplace(key, value);
    if (inserted) {
      added->emplace(key, value);
    } else if (it->second != value) {
      return absl::FailedPreconditionError(absl::StrCat(std::string(what), "[", key, "]: the template has \"",
                                                        it->second, "\", the admission needs \"", value, "\""));
    }
  }
  return absl::OkStatus();
}

void RestoreMap(const Labels& added, Labels* map) {
  for (const auto& [key, value] : added) {
    const auto it = map->find(key);
    if (it != map->end() && it->second == value) map->erase(it);
  }
}

bool Contains(const Labels& map, const Labels& part) {
  return std::all_of(part.begin(), part.end(), [&map](const auto& entry) {
    const auto it = map.find(entry.first);
    return it != map.end() && it->second == entry.second;
  });
}

// An operator that is not given is Equal.
bool Same(gang::Toleration a, gang::Toleration b) {
  for (gang::Toleration* toleration : {&a, &b}) {
    if (toleration->op.empty()) toleration->op = "Equal";
  }
  return a == b;
}

bool Contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool Contains(const std::vector<gang::Toleration>& list, const gang::Toleration& toleration) {
  return std::any_of(list.begin(), list.end(), [&](const gang::Toleration& t) { return Same(t, toleration); });
}

}  // namespace

absl::StatusOr<Injection> MakeInjection(const engine::PodSetAssignment& assignment, std::string_view cluster_queue,
                                        std::string_view local_queue, std::string_view workload,
                                        const FlavorMap& flavors) {
  Injection out;
  std::set<std::string_view> seen;
  for (const auto& [resource, name] : assignment.flavors) {
    if (!seen.insert(name).second) continue;
    const auto it = flavors.find(name);
    if (it == flavors.end()) return absl::NotFoundError(absl::StrCat("ResourceFlavor ", name, " does not exist"));
    for (const auto& [key, value] : it->second.node_labels) {
      const auto [slot, inserted] = out.node_selector.emplace(key, value);
      if (!inserted && slot->second != value) {
        return absl::FailedPreconditionError(absl::StrCat("nodeSelector[", key, "]: the assigned flavors need both \"",
                                                          slot->second, "\" and \"", value, "\""));
      }
    }
    for (const gang::Toleration& toleration : it->second.tolerations) {
      if (!Contains(out.tolerations, toleration)) out.tolerations.push_back(toleration);
    }
  }
  out.labels.emplace(kPodSetLabel, assignment.name);
  if (IsLabelValue(local_queue)) out.labels.emplace(kLocalQueueNameLabel, local_queue);
  if (IsDnsLabel(cluster_queue)) out.labels.emplace(kClusterQueueNameLabel, cluster_queue);
  out.annotations.emplace(kWorkloadAnnotation, workload);
  return out;
}

absl::StatusOr<Injected> Inject(const TemplateView& base, const Injection& wanted) {
  Injected out;
  out.result = base;
  if (auto s = InjectMap("template.metadata.labels", wanted.labels, &out.result.labels, &out.added.labels); !s.ok()) {
    return s;
  }
  if (auto s = InjectMap("template.metadata.annotations", wanted.annotations, &out.result.annotations,
                         &out.added.annotations);
      !s.ok()) {
    return s;
  }
  if (auto s = InjectMap("template.spec.nodeSelector", wanted.node_selector, &out.result.node_selector,
                         &out.added.node_selector);
      !s.ok()) {
    return s;
  }
  for (const gang::Toleration& toleration : wanted.tolerations) {
    if (Contains(out.result.tolerations, toleration)) continue;
    out.result.tolerations.push_back(toleration);
    out.added.tolerations.push_back(toleration);
  }
  for (const std::string& gate : wanted.scheduling_gates) {
    if (Contains(out.result.scheduling_gates, gate)) continue;
    out.result.scheduling_gates.push_back(gate);
    out.added.scheduling_gates.push_back(gate);
  }
  return out;
}

TemplateView Restore(const TemplateView& current, const Injection& added) {
  TemplateView out = current;
  RestoreMap(added.labels, &out.labels);
  RestoreMap(added.annotations, &out.annotations);
  RestoreMap(added.node_selector, &out.node_selector);
  // Added tolerations stand behind the template's own, so the last of equal ones is the added one.
  for (auto it = added.tolerations.rbegin(); it != added.tolerations.rend(); ++it) {
    const auto found = std::find(out.tolerations.rbegin(), out.tolerations.rend(), *it);
    if (found != out.tolerations.rend()) out.tolerations.erase(std::next(found).base());
  }
  std::erase_if(out.scheduling_gates, [&added](const std::string& g) { return Contains(added.scheduling_gates, g); });
  return out;
}

bool StillInjected(const TemplateView& current, const Injection& added) {
  return Contains(current.labels, added.labels) && Contains(current.annotations, added.annotations) &&
         Contains(current.node_selector, added.node_selector) &&
         std::all_of(added.tolerations.begin(), added.tolerations.end(),
                     [&current](const gang::Toleration& t) { return Contains(current.tolerations, t); }) &&
         std::all_of(added.scheduling_gates.begin(), added.scheduling_gates.end(),
                     [&current](const std::string& gate) { return Contains(current.scheduling_gates, gate); });
}

}  // namespace muster::controller
