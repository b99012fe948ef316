#include "conversion_check.h"

#include <absl/strings/str_join.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/resources.h"
#include "text.h"

namespace muster::controller {
namespace {

constexpr Duration kInterval = std::chrono::minutes(1);

std::string ProblemOf(const std::vector<std::string>& crds) {
  if (crds.empty()) return "";
  return Cat("objects are converted by Kueue's webhook still, so that those stored in v1beta1 cannot be read, by ",
             "CustomResourceDefinition ", absl::StrJoin(crds, ", "), "; for each: kubectl patch crd NAME --type=merge ",
             R"(-p '{"spec":{"conversion":{"strategy":"None","webhook":null}}}')");
}

}  // namespace

std::vector<std::string> ReadCrds() {
  std::vector<std::string> out;
  for (const k8s::Resource* kind :
       {&k8s::kAdmissionChecks, &k8s::kClusterQueues, &k8s::kCohorts, &k8s::kLocalQueues, &k8s::kResourceFlavors,
        &k8s::kTopologies, &k8s::kWorkloadPriorityClasses, &k8s::kWorkloads}) {
    out.push_back(Cat(kind->plural, ".", kind->group));
  }
  return out;
}

ConversionCheck::~ConversionCheck() { env_.executor->Cancel(timer_); }

void ConversionCheck::Look() {
  found_.clear();
  const std::vector<std::string> crds = ReadCrds();
  outstanding_ = crds.size();
  for (const std::string& crd : crds) {
    client_->Get(k8s::kCustomResourceDefinitions, {"", crd},
                 [this, alive = std::weak_ptr<bool>(alive_), crd](const k8s::Result& result) {
                   if (!alive.expired()) Seen(crd, result);
                 });
  }
}

void ConversionCheck::Seen(const std::string& crd, const k8s::Result& result) {
  if (result.ok()) {
    k8s::JsonDocument document(result.body);
    if (document.root()["spec"]["conversion"]["strategy"].String() == "Webhook") found_.push_back(crd);
  }
  if (--outstanding_ > 0) return;
  std::sort(found_.begin(), found_.end());
  std::string problem = ProblemOf(found_);
  if (problem != problem_ && !problem.empty()) spdlog::warn("{}", problem);
  problem_ = std::move(problem);
  timer_ = env_.executor->PostAt(env_.clock->Mono() + kInterval, [this] { Look(); });
}

}  // namespace muster::controller
