#include "surroundings.h"

#include <utility>

#include "muster/k8s_client/resources.h"

namespace muster::controller {

Surroundings::Surroundings(const InformerDeps& deps, Catalog* catalog,
                           std::function<void(const std::string& ns)> judged)
    : judged_(std::move(judged)) {
  limit_ranges_ = MakeInformer<WatchedLimitRange>(
      deps, k8s::kLimitRanges, [](std::string_view json) { return DecodeLimitRange(json); },
      [this, catalog](const auto& object, const auto&) {
        catalog->limit_ranges[object->meta.ns].insert_or_assign(object->meta.name, *object);
        judged_(object->meta.ns);
      },
      [this, catalog](const WatchedLimitRange& last) {
        catalog->limit_ranges[last.meta.ns].erase(last.meta.name);
        judged_(last.meta.ns);
      });
  runtime_classes_ = MakeInformer<WatchedRuntimeClass>(
      deps, k8s::kRuntimeClasses, [](std::string_view json) { return DecodeRuntimeClass(json); },
      [this, catalog](const auto& object, const auto&) {
        catalog->runtime_classes.insert_or_assign(object->meta.name, *object);
        judged_("");
      },
      [this, catalog](const WatchedRuntimeClass& last) {
        catalog->runtime_classes.erase(last.meta.name);
        judged_("");
      });
  priority_classes_ = WatchClasses(deps, k8s::kPriorityClasses, &catalog->pod_priority_classes);
  workload_priority_classes_ = WatchClasses(deps, k8s::kWorkloadPriorityClasses, &catalog->workload_priority_classes);
}

Informer<PriorityClass> Surroundings::WatchClasses(const InformerDeps& deps, const k8s::Resource& resource,
                                                   PriorityClasses* classes) {
  return MakeInformer<PriorityClass>(
      deps, resource, DecodePriorityClass,
      [this, classes](const auto& object, const auto&) {
        classes->insert_or_assign(object->meta.name, *object);
        judged_("");
      },
      [this, classes](const PriorityClass& last) {
        classes->erase(last.meta.name);
        judged_("");
      });
}

}  // namespace muster::controller
