#include "elastic_pods.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "muster/controller/names.h"
#include "muster/core/log_fields.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/resources.h"
#include "scheduling_gate.h"
#include "text.h"

namespace muster::controller {
namespace {

constexpr int kNotFound = 404;

std::string OwnerOf(const ElasticPod& pod) {
  const k8s::OwnerReference* owner = pod.meta.Controller();
  return owner == nullptr ? std::string() : owner->uid;
}

// Neither over nor about to be.
bool Counts(const ElasticPod& pod) { return !pod.ended && !pod.meta.deletion.IsSet(); }

}  // namespace

absl::StatusOr<ElasticPod> DecodeElasticPod(std::string_view json) {
  k8s::JsonDocument document(json);
  const k8s::JsonValue root = document.root();
  ElasticPod pod;
  pod.meta = k8s::DecodeMeta(root);
  pod.gate = FindSchedulingGate(root, kElasticJobAnnotation);
  const std::string phase = root["status"]["phase"].String();
  pod.ended = phase == "Succeeded" || phase == "Failed";
  if (const absl::Status s = document.Finish(Cat("Pod ", pod.meta.key().ToString())); !s.ok()) return s;
  return pod;
}

ElasticPods::ElasticPods(Environment env, k8s::Client* client,
                         std::function<int32_t(const std::string& job_uid)> admitted)
    : env_(env), client_(client), admitted_(std::move(admitted)) {
  k8s::Informer<ElasticPod>::Handler handler;
  handler.upserted = [this](const auto& pod, const auto& previous) {
    if (previous != nullptr && OwnerOf(*previous) != OwnerOf(*pod)) Deleted(*previous);
    Changed(*pod);
  };
  handler.deleted = [this](const auto& last) { Deleted(*last); };
  handler.undecodable = [](const k8s::ObjectMeta& meta, const absl::Status& status) {
    spdlog::error("a pod cannot be read, its scheduling gate stays{}",
                  LogFields({{"namespace", meta.ns}, {"pod", meta.name}, {"error", std::string(status.message())}}));
  };
  k8s::InformerOptions options;
  options.label_selector = Cat(kElasticPodLabel, "=true");
  informer_ = std::make_unique<k8s::Informer<ElasticPod>>(env, client, k8s::kPods, options, DecodeElasticPod,
                                                          std::move(handler));
}

void ElasticPods::Changed(const ElasticPod& pod) {
  const std::string job = OwnerOf(pod);
  if (job.empty()) return;
  JobPods& of = jobs_[job];
  if (!pod.gate.has_value()) of.opening.erase(pod.meta.uid);
  of.pods.insert_or_assign(pod.meta.name, pod);
  Touch(job);
}

void ElasticPods::Deleted(const ElasticPod& last) {
  const std::string job = OwnerOf(last);
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return;
  it->second.pods.erase(last.meta.name);
  it->second.opening.erase(last.meta.uid);
  if (it->second.pods.empty()) {
    jobs_.erase(it);
  } else {
    Touch(job);
  }
}

void ElasticPods::Touch(const std::string& job_uid) {
  const auto it = jobs_.find(job_uid);
  if (it == jobs_.end() || it->second.waits) return;
  JobPods& of = it->second;
  int64_t left = admitted_(job_uid);
  std::vector<const ElasticPod*> gated;
  for (const auto& [name, pod] : of.pods) {
    if (!Counts(pod)) continue;
    if (!pod.gate.has_value() || of.opening.contains(pod.meta.uid)) {
      --left;
    } else {
      gated.push_back(&pod);
    }
  }
  // The oldest first.
  std::sort(gated.begin(), gated.end(), [](const ElasticPod* a, const ElasticPod* b) {
    return std::tie(a->meta.creation, a->meta.name) < std::tie(b->meta.creation, b->meta.name);
  });
  for (const ElasticPod* pod : gated) {
    if (left-- <= 0) return;
    Open(job_uid, *pod);
  }
}

void ElasticPods::Open(const std::string& job_uid, const ElasticPod& pod) {
  const std::string& uid = pod.meta.uid;
  jobs_.at(job_uid).opening.insert(uid);
  JsonPatch patch;
  LiftSchedulingGate(pod.meta, *pod.gate, kElasticJobAnnotation, &patch);
  client_->Patch(k8s::Lane::kWorkload, k8s::kPods, pod.meta.key(), "", k8s::PatchType::kJsonPatch, patch.Take(),
                 [this, alive = std::weak_ptr<bool>(alive_), job_uid, uid](const k8s::Result& result) {
                   if (!alive.expired()) Answered(job_uid, uid, result);
                 });
}

void ElasticPods::Answered(const std::string& job_uid, const std::string& pod_uid, const k8s::Result& result) {
  const auto it = jobs_.find(job_uid);
  if (it == jobs_.end()) return;
  if (result.ok()) {
    it->second.backoff.Reset();
    informer_->Observe(result.body);
    return;
  }
  // Should it have been applied all the same, the next try fails by its tests, and the watch shows the pod.
  it->second.opening.erase(pod_uid);
  if (result.code == kNotFound) return;
  spdlog::warn("the scheduling gate of a pod could not be removed{}",
               LogFields({{"jobUid", job_uid}, {"podUid", pod_uid}, {"error", result.message}}));
  if (std::exchange(it->second.waits, true)) return;  // one look at all of them is enough
  env_.executor->PostAt(env_.clock->Mono() + it->second.backoff.Next(),
                        [this, alive = std::weak_ptr<bool>(alive_), job_uid] {
                          if (alive.expired()) return;
                          if (const auto found = jobs_.find(job_uid); found != jobs_.end()) found->second.waits = false;
                          Touch(job_uid);
                        });
}

}  // namespace muster::controller
