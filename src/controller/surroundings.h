// What decides how much a pod asks for and how urgent it is, beside itself: LimitRanges, RuntimeClasses, and both kinds
// of priority class.
//
// Threading: used from the executor only.
#pragma once

#include <functional>
#include <string>

#include "catalog.h"
#include "informers.h"

namespace muster::controller {

class Surroundings {
 public:
  // Keeps what the catalog knows of them. `judged`: Jobs of that namespace, empty: all, may ask for something else now.
  Surroundings(const InformerDeps& deps, Catalog* catalog, std::function<void(const std::string& ns)> judged);

  template <typename Visit>
  void ForEach(Visit visit) const {
    visit("LimitRange", *limit_ranges_);
    visit("RuntimeClass", *runtime_classes_);
    visit("PriorityClass", *priority_classes_);
    visit("WorkloadPriorityClass", *workload_priority_classes_);
  }

 private:
  Informer<PriorityClass> WatchClasses(const InformerDeps& deps, const k8s::Resource& resource,
                                       PriorityClasses* classes);

  std::function<void(const std::string& ns)> judged_;
  Informer<WatchedLimitRange> limit_ranges_;
  Informer<WatchedRuntimeClass> runtime_classes_;
  Informer<PriorityClass> priority_classes_;
  Informer<PriorityClass> workload_priority_classes_;
};

}  // namespace muster::controller
