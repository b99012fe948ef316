#include "load.h"

#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"
#include "muster/k8s_client/resources.h"

namespace muster::bench {
namespace {

k8s::InformerOptions InNamespace(const std::string& ns) {
  k8s::InformerOptions options;
  options.ns = ns;
  return options;
}

std::string JobName(int index) { return "bench-" + std::to_string(index); }

}  // namespace

absl::StatusOr<WatchedJob> DecodeWatchedJob(std::string_view json) {
  k8s::JsonDocument document(json);
  WatchedJob job{.meta = k8s::DecodeMeta(document.root()), .suspended = document.root()["spec"]["suspend"].Bool()};
  if (auto status = document.Finish("Job"); !status.ok()) return status;
  return job;
}

absl::StatusOr<WatchedWorkload> DecodeWatchedWorkload(std::string_view json) {
  k8s::JsonDocument document(json);
  WatchedWorkload workload{.meta = k8s::DecodeMeta(document.root()),
                           .conditions = k8s::DecodeConditions(document.root()["status"]["conditions"])};
  if (auto status = document.Finish("Workload"); !status.ok()) return status;
  return workload;
}

std::string JobManifest(const std::string& name, int pods, int template_bytes) {
  k8s::JsonWriter w;
  w.StartObject().Field("apiVersion", "batch/v1").Field("kind", "Job");
  w.Key("metadata").StartObject().Field("name", name);
  w.Key("labels").Map({{"kueue.x-k8s.io/queue-name", "bench"}}).EndObject();
  w.Key("spec").StartObject().Field("suspend", true).Field("parallelism", pods).Field("completions", pods);
  w.Key("template").StartObject().Key("spec").StartObject().Field("restartPolicy", "Never");
  w.Key("containers").StartArray().StartObject().Field("name", "main").Field("image", "registry.k8s.io/pause:3.10");
  if (template_bytes > 0) {
    std::string text;
    while (text.size() < static_cast<size_t>(template_bytes)) text.append(name).append(" ");
    w.Key("env").StartArray().StartObject().Field("name", "TEXT").Field("value", text).EndObject().EndArray();
  }
  w.Key("resources").StartObject().Key("requests").Map({{"cpu", "1"}}).EndObject();
  w.EndObject().EndArray().EndObject().EndObject().EndObject().EndObject();
  return w.Take();
}

Load::Load(Environment env, k8s::Client* client, LoadOptions options, std::function<void(LoadResult)> done)
    : env_(env),
      client_(client),
      options_(options),
      done_(std::move(done)),
      jobs_(env, client, k8s::kJobs, InNamespace(options.ns), DecodeWatchedJob,
            {.upserted =
                 [this](const auto& job, const auto&) {
                   if (!job->suspended) SeenStarted(job->meta.name);
                 },
             .deleted = [](const auto&) {},
             .undecodable = [](const k8s::ObjectMeta&, const absl::Status&) {}}),
      watched_workloads_(env, client, k8s::kWorkloads, InNamespace(options.ns), DecodeWatchedWorkload,
                         {.upserted =
                              [this](const auto& workload, const auto&) {
                                if (Reached(*workload) && workloads_.insert(workload->meta.name).second) {
                                  result_.workloads = env_.clock->Mono() - first_;
                                  MaybeDone();
                                }
                              },
                          .deleted = [](const auto&) {},
                          .undecodable = [](const k8s::ObjectMeta&, const absl::Status&) {}}) {}

void Load::Start() {
  jobs_.Start();
  if (options_.goal != Goal::kStarted) watched_workloads_.Start();
  CreateMore();
}

void Load::CreateMore() {
  if (!jobs_.synced() || (options_.goal != Goal::kStarted && !watched_workloads_.synced())) {
    env_.executor->PostAt(env_.clock->Mono() + std::chrono::milliseconds(20), [this] { CreateMore(); });
    return;
  }
  if (!begun_) {
    begun_ = true;
    first_ = env_.clock->Mono();
  }
  if (options_.pace > Duration(0)) {
    if (next_ >= options_.jobs) return;
    CreateOne();
    env_.executor->PostAt(env_.clock->Mono() + options_.pace, [this] { CreateMore(); });
    return;
  }
  while (next_ < options_.jobs && in_flight_ < options_.creators) CreateOne();
}

void Load::CreateOne() {
  const std::string name = JobName(next_++);
  ++in_flight_;
  created_[name] = env_.clock->Mono();
  client_->Create(k8s::Lane::kStart, k8s::kJobs, options_.ns, JobManifest(name, options_.pods, options_.template_bytes),
                  [this, name](const k8s::Result& result) { Created(name, result); });
}

void Load::Created(const std::string& name, const k8s::Result& result) {
  --in_flight_;
  result_.creating = env_.clock->Mono() - first_;
  if (!result.ok()) {
    ++result_.failed_creates;
    created_.erase(name);
  }
  if (options_.pace == Duration(0)) CreateMore();
  MaybeDone();
}

void Load::SeenStarted(const std::string& name) {
  const auto it = created_.find(name);
  if (it == created_.end() || !started_.insert(name).second) return;
  const MonoTime now = env_.clock->Mono();
  result_.create_to_start.push_back(now - it->second);
  result_.started = now - first_;
  MaybeDone();
}

std::string Load::Progress() const {
  return std::to_string(next_) + " created, " + std::to_string(started_.size()) + " started, " +
         std::to_string(workloads_.size()) + " Workloads as they should be";
}

bool Load::Reached(const WatchedWorkload& workload) const {
  if (options_.goal == Goal::kWaiting) return k8s::FindCondition(workload.conditions, "QuotaReserved") != nullptr;
  return k8s::IsTrue(workload.conditions, "Admitted");
}

void Load::MaybeDone() {
  const size_t expected = static_cast<size_t>(options_.jobs - result_.failed_creates);
  if (next_ < options_.jobs || in_flight_ > 0) return;
  if (options_.goal != Goal::kWaiting && started_.size() < expected) return;
  if (options_.goal != Goal::kStarted && workloads_.size() < expected) return;
  if (done_) std::exchange(done_, nullptr)(result_);
}

}  // namespace muster::bench
