// The part of a pod template that an admission touches, and how it is touched: what the assigned flavors add,
// and how that is taken away again.
//
// Source: kueue_semantics 2.6, 2.7.
// Threading: values and pure functions.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/labels.h"
#include "muster/engine/objects.h"
#include "muster/gang/shape.h"

namespace muster::controller {

// The places that injection writes to.
struct TemplateView {
  Labels labels;
  Labels annotations;
  Labels node_selector;
  std::vector<gang::Toleration> tolerations;
  std::vector<std::string> scheduling_gates{};
  friend bool operator==(const TemplateView&, const TemplateView&) = default;
};

// What an admission wants in the template; or, once applied, exactly what it added: keys that were there
// before with the same value, and tolerations and gates that were there, are not part of it.
using Injection = TemplateView;

struct Injected {
  TemplateView result;
  Injection added;
};

// Flavors by name, as far as an admission needs them.
using FlavorMap = std::map<std::string, engine::ResourceFlavor, std::less<>>;

// What the pods of one pod set get: node selector and tolerations of its flavors (each once, in the order of
// their resources), and the labels and the annotation by which pods name their queues and Workload.
// ON FAILURE: NotFound that names a flavor which does not exist.
absl::StatusOr<Injection> MakeInjection(const engine::PodSetAssignment& assignment, std::string_view cluster_queue,
                                        std::string_view local_queue, std::string_view workload,
                                        const FlavorMap& flavors);

// ON FAILURE: FailedPrecondition that names a key which the template has with another value.
absl::StatusOr<Injected> Inject(const TemplateView& base, const Injection& wanted);

// Takes away what was added. What somebody changed since (another value under an added key) stays.
TemplateView Restore(const TemplateView& current, const Injection& added);

// Whether everything that was added is still there.
bool StillInjected(const TemplateView& current, const Injection& added);

}  // namespace muster::controller
