// Workload: pod sets, admission, reclaimable pods.
#include <algorithm>

#include "muster/controller/decode.h"
#include "muster/controller/workload.h"

namespace muster::controller {

using k8s::JsonValue;

std::vector<PodSetTemplate> DecodePodSets(JsonValue pod_sets) {
  std::vector<PodSetTemplate> decoded;
  pod_sets.ForEach([&](JsonValue item) {
    PodSetTemplate pod_set;
    pod_set.name = item["name"].String("main");
    pod_set.count = item["count"].Count(1);
    pod_set.min_count = item["minCount"].OptionalCount();
    pod_set.pod = DecodePodTemplate(item["template"]);
    pod_set.topology = DecodeTopologyRequest(item["topologyRequest"]);
    decoded.push_back(std::move(pod_set));
  });
  return decoded;
}

engine::Admission DecodeAdmission(JsonValue admission) {
  auto decoded = FromApi(DecodeWorkloadAdmission(admission));
  if (decoded.ok()) return *std::move(decoded);
  admission.Fail(std::string(decoded.status().message()));
  return {};
}

std::map<std::string, int32_t, std::less<>> DecodeReclaimablePods(JsonValue reclaimable) {
  std::map<std::string, int32_t, std::less<>> decoded;
  reclaimable.ForEach([&](JsonValue item) { decoded.insert_or_assign(item["name"].String(), item["count"].Count()); });
  return decoded;
}

engine::Workload DecodeWorkloadObject(JsonValue object, const RequestContext& context, gang::ShapeTable* shapes) {
  const k8s::ObjectMeta meta = k8s::DecodeMeta(object);
  const JsonValue spec = object["spec"];
  engine::Workload workload;
  workload.uid = meta.uid;
  workload.ns = meta.ns;
  workload.name = meta.name;
  workload.local_queue = spec["queueName"].String();
  workload.generation = meta.generation;
  workload.priority = spec["priority"].Int32();
  const JsonValue reference = spec["priorityClassRef"];
  workload.priority_class =
      reference.present() ? reference["name"].String() : spec["priorityClassName"].String();  // v1beta1
  workload.queue_time = meta.creation;
  workload.active = spec["active"].Bool(true);
  const std::map<std::string, int32_t, std::less<>> reclaimable =
      DecodeReclaimablePods(object["status"]["reclaimablePods"]);
  for (const PodSetTemplate& pod_set : DecodePodSets(spec["podSets"])) {
    engine::PodSet decoded;
    decoded.name = pod_set.name;
    decoded.count = pod_set.count;
    if (const auto done = reclaimable.find(pod_set.name); done != reclaimable.end()) {
      decoded.count -= std::min(done->second, pod_set.count);
    }
    decoded.min_count = pod_set.min_count;
    decoded.topology = pod_set.topology;
    ShapedPod shaped = MakeShape(pod_set.pod, context, pod_set.name);
    decoded.shape = shapes->Intern(std::move(shaped.shape));
    workload.invalid.insert(workload.invalid.end(), shaped.invalid.begin(), shaped.invalid.end());
    workload.pod_sets.push_back(std::move(decoded));
  }
  return workload;
}

}  // namespace muster::controller
