#include "watched_machines.h"

#include <absl/strings/numbers.h>

#include <utility>

#include "muster/controller/decode.h"
#include "muster/controller/job.h"
#include "muster/controller/names.h"
#include "muster/k8s_client/json_reader.h"
#include "scheduling_gate.h"
#include "text.h"

namespace muster::controller {
namespace {

using k8s::JsonValue;

k8s::ObjectMeta IdentityOf(JsonValue object) {
  const JsonValue meta = object["metadata"];
  k8s::ObjectMeta out;
  out.ns = meta["namespace"].String();
  out.name = meta["name"].String();
  out.uid = meta["uid"].String();
  out.resource_version = meta["resourceVersion"].String();
  return out;
}

// Any of the two has it, by the version of Kubernetes.
std::optional<int64_t> RankOf(JsonValue meta) {
  for (const std::string_view map : {"labels", "annotations"}) {
    int64_t rank = 0;
    if (absl::SimpleAtoi(meta[map][kCompletionIndexLabel].String(), &rank) && rank >= 0) return rank;
  }
  return std::nullopt;
}

void ReadGang(JsonValue object, GangPod* out) {
  out->meta = IdentityOf(object);
  const JsonValue meta = object["metadata"];
  meta["ownerReferences"].ForEach([out](JsonValue owner) {
    if (owner["controller"].Bool() && owner["kind"].String() == "Job" &&
        owner["apiVersion"].String().starts_with("batch/")) {
      out->job_uid = owner["uid"].String();
    }
  });
  if (out->job_uid.empty()) out->workload_name = meta["annotations"][kWorkloadAnnotation].String();
  out->pod_set = meta["labels"][kPodSetLabel].String();
  out->rank = RankOf(meta);
  out->terminating = meta["deletionTimestamp"].present();
}

}  // namespace

absl::StatusOr<WatchedTopology> DecodeWatchedTopology(std::string_view json) {
  k8s::JsonDocument document(json);
  WatchedTopology out;
  out.meta = k8s::DecodeMeta(document.root());
  if (const absl::Status s = document.Finish(Cat("Topology ", out.meta.name)); !s.ok()) return s;
  out.topology = DecodeTopology(document.root());
  out.misconfigured = document.problem();
  return out;
}

absl::StatusOr<WatchedNode> DecodeWatchedNode(std::string_view json) {
  k8s::JsonDocument document(json);
  WatchedNode out{IdentityOf(document.root()), DecodeNode(document.root())};
  if (const absl::Status s = document.Finish(Cat("Node ", out.meta.name)); !s.ok()) return s;
  return out;
}

absl::StatusOr<WatchedPod> DecodeWatchedPod(std::string_view json, gang::ShapeTable* shapes) {
  k8s::JsonDocument document(json);
  const JsonValue object = document.root();
  WatchedPod out;
  ReadGang(object, &out);
  out.node = object["spec"]["nodeName"].String();
  gang::Shape shape;
  shape.requests = DecodePodRequests(object);
  if (const absl::Status s = document.Finish(Cat("Pod ", out.meta.key().ToString())); !s.ok()) return s;
  out.shape = shapes->Intern(std::move(shape));
  return out;
}

absl::StatusOr<UnboundPod> DecodeUnboundPod(std::string_view json) {
  k8s::JsonDocument document(json);
  const JsonValue object = document.root();
  UnboundPod out;
  ReadGang(object, &out);
  out.node_selector = object["spec"]["nodeSelector"].Map();
  out.gate = FindSchedulingGate(object, kTopologyGate);
  if (const absl::Status s = document.Finish(Cat("Pod ", out.meta.key().ToString())); !s.ok()) return s;
  return out;
}

std::string GangOf(const GangPod& pod) {
  if (pod.pod_set.empty() || !pod.job_uid.empty()) return pod.pod_set.empty() ? std::string() : pod.job_uid;
  return pod.workload_name.empty() ? std::string() : Cat(pod.meta.ns, "/", pod.workload_name);
}

std::string HostnameOf(const gang::Node& node) {
  const auto label = node.labels.find(gang::kHostnameLabel);
  return label == node.labels.end() ? std::string() : label->second;
}

engine::PodPlaced ToPodPlaced(const WatchedPod& pod, std::string workload) {
  return {pod.meta.key().ToString(), pod.node, pod.shape->requests, std::move(workload), pod.pod_set};
}

bool TakesTheSame(const WatchedPod& a, const WatchedPod& b) {
  return a.node == b.node && a.shape == b.shape && a.job_uid == b.job_uid && a.workload_name == b.workload_name &&
         a.pod_set == b.pod_set;
}

}  // namespace muster::controller
