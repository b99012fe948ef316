#include "bare.h"

#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"
#include "muster/k8s_client/resources.h"

namespace muster::bench {
namespace {

// As large as a real admission's record, and not one: another annotation, so that no controller reads it.
constexpr std::string_view kRecord =
    R"({"claim":"1-1","state":"started","clusterQueue":"bench","podSets":[{"name":"main","count":4,"flavors":)"
    R"({"cpu":"bench"}}],"inject":{"nodeSelector":{},"labels":["kueue.x-k8s.io/podset"]}})";

std::string StartPatch(const WatchedJob& job) {
  k8s::JsonWriter w;
  w.StartArray();
  const auto test = [&w](std::string_view path) -> k8s::JsonWriter& {
    return w.StartObject().Field("op", "test").Field("path", path).Key("value");
  };
  test("/metadata/uid").String(job.meta.uid).EndObject();
  test("/metadata/generation").Int(job.meta.generation).EndObject();
  test("/spec/suspend").Bool(true).EndObject();
  test("/metadata/labels/kueue.x-k8s.io~1queue-name").String("bench").EndObject();
  w.StartObject().Field("op", "add").Field("path", "/metadata/annotations").Key("value");
  w.Map({{"bench.muster.dev/record", std::string(kRecord)}}).EndObject();
  w.StartObject().Field("op", "add").Field("path", "/spec/template/metadata/labels/kueue.x-k8s.io~1podset");
  w.Field("value", "main").EndObject();
  w.StartObject().Field("op", "replace").Field("path", "/spec/suspend").Field("value", false).EndObject();
  return w.EndArray().Take();
}

}  // namespace

BareClient::BareClient(Environment env, k8s::Client* client, std::string ns, int pods, bool all_writes)
    : env_(env),
      client_(client),
      ns_(std::move(ns)),
      pods_(pods),
      all_writes_(all_writes),
      jobs_(env, client, k8s::kJobs, {}, DecodeWatchedJob,
            {.upserted =
                 [this](const auto& job, const auto&) {
                   if (job->suspended && job->meta.ns == ns_ && seen_.insert(job->meta.name).second) StartJob(*job);
                 },
             .deleted = [](const auto&) {},
             .undecodable = [](const k8s::ObjectMeta&, const absl::Status&) {}}) {
  for (const k8s::Resource& resource :
       {k8s::kWorkloads, k8s::kClusterQueues, k8s::kLocalQueues, k8s::kCohorts, k8s::kResourceFlavors, k8s::kNamespaces,
        k8s::kLimitRanges, k8s::kRuntimeClasses, k8s::kPriorityClasses, k8s::kWorkloadPriorityClasses}) {
    k8s::InformerOptions options;
    options.metadata_only = resource.plural == k8s::kNamespaces.plural;
    others_.push_back(std::make_unique<k8s::Informer<WatchedWorkload>>(
        env, client, resource, options, DecodeWatchedWorkload,
        k8s::Informer<WatchedWorkload>::Handler{.upserted = [](const auto&, const auto&) {},
                                                .deleted = [](const auto&) {},
                                                .undecodable = [](const k8s::ObjectMeta&, const absl::Status&) {}}));
  }
}

void BareClient::Start() {
  jobs_.Start();
  for (const auto& other : others_) other->Start();
}

bool BareClient::synced() const {
  for (const auto& other : others_) {
    if (!other->synced()) return false;
  }
  return jobs_.synced();
}

void BareClient::StartJob(const WatchedJob& job) {
  client_->Patch(k8s::Lane::kStart, k8s::kJobs, job.meta.key(), "", k8s::PatchType::kJsonPatch, StartPatch(job),
                 [this, name = job.meta.name, uid = job.meta.uid](const k8s::Result& result) {
                   if (!result.ok()) {
                     ++failed_;
                   } else if (all_writes_) {
                     CreateWorkload(name, uid);
                   }
                 });
}

void BareClient::CreateWorkload(const std::string& name, const std::string& uid) {
  k8s::JsonDocument job(JobManifest(name, pods_));
  k8s::JsonWriter w;
  w.StartObject().Field("apiVersion", "kueue.x-k8s.io/v1beta2").Field("kind", "Workload");
  w.Key("metadata").StartObject().Field("name", "job-" + name).Key("labels").Map({{"kueue.x-k8s.io/job-uid", uid}});
  w.Key("ownerReferences").StartArray().StartObject().Field("apiVersion", "batch/v1").Field("kind", "Job");
  w.Field("name", name).Field("uid", uid).Field("controller", true).Field("blockOwnerDeletion", true);
  w.EndObject().EndArray().EndObject();
  w.Key("spec").StartObject().Field("queueName", "bench").Field("priority", 0).Field("active", true);
  w.Key("podSets").StartArray().StartObject().Field("name", "main").Field("count", pods_);
  w.Key("template").Raw(job.root()["spec"]["template"].Raw()).EndObject().EndArray().EndObject().EndObject();
  client_->Create(k8s::Lane::kWorkload, k8s::kWorkloads, ns_, w.Take(),
                  [this, workload = "job-" + name](const k8s::Result& result) {
                    if (!result.ok()) {
                      ++failed_;
                    } else {
                      PatchStatus(workload, result.body);
                    }
                  });
}

void BareClient::PatchStatus(const std::string& name, const std::string& body) {
  k8s::JsonDocument created(body);
  std::vector<k8s::Condition> conditions;
  const WallTime now = env_.clock->Now();
  k8s::SetCondition(&conditions,
                    {"QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue bench", now, 1}, now);
  k8s::SetCondition(&conditions, {"Admitted", "True", "Admitted", "The workload is admitted", now, 1}, now);
  k8s::JsonWriter w;
  w.StartObject().Key("metadata").StartObject();
  w.Field("resourceVersion", created.root()["metadata"]["resourceVersion"].String()).EndObject();
  w.Key("status").StartObject().Key("conditions").Conditions(conditions);
  w.Key("admission").StartObject().Field("clusterQueue", "bench").Key("podSetAssignments").StartArray();
  w.StartObject().Field("name", "main").Field("count", pods_).Key("flavors").Map({{"cpu", "bench"}});
  w.Key("resourceUsage").Map({{"cpu", std::to_string(pods_)}}).EndObject().EndArray().EndObject().EndObject().EndObject();
  client_->Patch(k8s::Lane::kWorkload, k8s::kWorkloads, {ns_, name}, "status", k8s::PatchType::kMergePatch, w.Take(),
                 [this](const k8s::Result& result) { failed_ += result.ok() ? 0 : 1; });
}

}  // namespace muster::bench
