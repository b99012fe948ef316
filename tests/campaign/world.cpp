#include "world.h"

#include <absl/strings/substitute.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "fixture/text.h"

namespace muster::campaign {

using cluster::AuditEvent;
using cluster::Cat;
using cluster::Cluster;
using cluster::Credentials;
using cluster::FaultProxy;
using cluster::Match;
using cluster::Muster;
using cluster::Quote;
using std::chrono::seconds;

namespace {

constexpr std::string_view kKueue = "/apis/kueue.x-k8s.io/v1beta2/";

constexpr char kConfig[] = R"(apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: "127.0.0.1:0"}
metrics: {bindAddress: "127.0.0.1:0", enableClusterQueueResources: true}
leaderElection: {leaderElect: true, leaseDuration: $0, renewDeadline: $1, retryPeriod: $2}
)";

std::string ConfigOf(Lease lease) {
  switch (lease) {
    case Lease::kShipped:
      return absl::Substitute(kConfig, "15s", "10s", "2s");
    case Lease::kHasty:
      return absl::Substitute(kConfig, "4s", "2500ms", "500ms");
  }
  return "";
}

std::string Jobs(const std::string& ns) { return Cat("/apis/batch/v1/namespaces/", ns, "/jobs"); }

bool Has(const Json& job, std::string_view condition) {
  return job.At("status/conditions").Find("type", condition)["status"].Str() == "True";
}
bool IsOver(const Json& job) { return Has(job, "Complete") || Has(job, "Failed"); }

void Must(const ApiResponse& response) {
  INFO(response.status << " " << response.text);
  REQUIRE(response.ok());
}

// A new kind is unknown to the admission policies for a moment.
void CreateSoon(ApiClient& api, const std::string& path, const std::string& body) {
  ApiResponse response;
  cluster::Eventually([&] { return (response = api.Create(path, body)).status != 503; });
  Must(response);
}

struct Count {
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t gpus = 0;
};

std::string Differs(const std::string& what, const std::string& is, const std::string& counted) {
  return is == counted ? "" : Cat(what, " is ", is, ", counted ", counted);
}

std::string QueueDiffers(const std::string& what, const Json& status, const Count& count) {
  const std::pair<const char*, int64_t> numbers[] = {
      {"pendingWorkloads", count.waiting}, {"reservingWorkloads", count.running}, {"admittedWorkloads", count.running}};
  for (const auto& [field, counted] : numbers) {
    const std::string diff = Differs(Cat(what, " ", field), Cat(status[field].Int()), Cat(counted));
    if (!diff.empty()) return diff;
  }
  for (const char* field : {"flavorsReservation", "flavorsUsage"}) {
    const std::string diff =
        Differs(Cat(what, " ", field), status[field].At("0/resources/0/total").Str(), Cat(count.gpus));
    if (!diff.empty()) return diff;
  }
  return "";
}

// Pods that can still run.
int64_t PodsLeft(const Json& job) {
  const int64_t left = job.At("spec/completions").Int() - job.At("status/succeeded").Int();
  return std::clamp<int64_t>(left, 0, job.At("spec/parallelism").Int());
}

// Adds the Job to the count, and says what its Workload says otherwise.
std::string JobDiffers(const Json& job, const Json& workload, Count* count) {
  const bool over = IsOver(job);
  const bool running = !over && !job.At("spec/suspend").Bool();
  count->running += running ? 1 : 0;
  count->waiting += !over && !running ? 1 : 0;
  count->gpus += running ? PodsLeft(job) : 0;
  const std::string name = job.At("metadata/name").Str();
  // A Job that ended before a process looked gets none any more.
  if (workload.IsNull()) return over ? "" : Cat("no Workload of the Job ", name);
  const bool shown = Has(workload, "Finished") == over && (over || Has(workload, "Admitted") == running);
  if (!shown) return Cat("Workload of ", name, ": ", workload.At("status").Dump());
  if (running && job.At("spec/template/spec/nodeSelector")["muster.dev/gpu"].Str() != "h100") {
    return Cat("Job ", name, " runs without its flavor");
  }
  return "";
}

std::string MetricsDiffer(const std::string& metrics, const std::string& cluster_queue, const Count& count) {
  const std::pair<const char*, int64_t> gauges[] = {{"kueue_pending_workloads", count.waiting},
                                                    {"kueue_reserving_active_workloads", count.running},
                                                    {"kueue_admitted_active_workloads", count.running},
                                                    {"kueue_cluster_queue_resource_reservation", count.gpus},
                                                    {"kueue_cluster_queue_resource_usage", count.gpus}};
  for (const auto& [name, counted] : gauges) {
    const std::optional<double> value = cluster::Metric(metrics, name, {{"cluster_queue", cluster_queue}});
    const std::string diff =
        Differs(name, value.has_value() ? Cat(static_cast<int64_t>(*value)) : "missing", Cat(counted));
    if (!diff.empty()) return diff;
  }
  return "";
}

}  // namespace

// ---- watching -----------------------------------------------------------------------------------

JobWatch::JobWatch(ApiClient& api) {
  watch_ = api.StartWatch(
      "/apis/batch/v1/jobs?watch=true&timeoutSeconds=7200", [this](const Json& line) { Take(line); },
      [this](const std::string& why) {
        const std::lock_guard lock(mutex_);
        end_ = why.empty() ? "ended" : why;
      });
}

void JobWatch::Take(const Json& line) {
  const Json job = line["object"];
  const std::string ns = job.At("metadata/namespace").Str();
  const std::lock_guard lock(mutex_);
  const auto [it, first] = jobs_[ns].emplace(job.At("metadata/name").Str(), Seen{});
  Seen& seen = it->second;
  const bool suspended = job.At("spec/suspend").Bool();
  if (!first && seen.suspended && !suspended) ++seen.starts;
  seen.suspended = suspended;
  seen.job = job;
  const bool holds =
      line["type"].Str() != "DELETED" && !IsOver(job) && (!suspended || job.At("status/active").Int() > 0);
  seen.gpus = holds ? PodsLeft(job) : 0;
  int64_t sum = 0;
  for (const auto& [name, other] : jobs_[ns]) sum += other.gpus;
  most_[ns] = std::max(most_[ns], sum);
}

int JobWatch::Starts(const std::string& ns, const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto jobs = jobs_.find(ns);
  if (jobs == jobs_.end()) return -1;
  const auto job = jobs->second.find(name);
  return job == jobs->second.end() ? -1 : job->second.starts;
}

int JobWatch::Starts(const std::string& ns) const {
  const std::lock_guard lock(mutex_);
  const auto jobs = jobs_.find(ns);
  if (jobs == jobs_.end()) return 0;
  int sum = 0;
  for (const auto& [name, seen] : jobs->second) sum += seen.starts;
  return sum;
}

Json JobWatch::Job(const std::string& ns, const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto jobs = jobs_.find(ns);
  if (jobs == jobs_.end()) return {};
  const auto job = jobs->second.find(name);
  return job == jobs->second.end() ? Json() : job->second.job;
}

int64_t JobWatch::MostGpus(const std::string& ns) const {
  const std::lock_guard lock(mutex_);
  const auto most = most_.find(ns);
  return most == most_.end() ? 0 : most->second;
}

std::string JobWatch::End() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

// ---- the world ----------------------------------------------------------------------------------

World::World() {
  auto cluster = Cluster::Start({.nodes = {{.name = "gpu", .count = 24, .labels = {{"muster.dev/gpu", "h100"}}}}});
  INFO(cluster.status());
  REQUIRE(cluster.ok());
  cluster_ = *std::move(cluster);
  const absl::Status installed = cluster_->InstallMuster();
  INFO(installed);
  REQUIRE(installed.ok());
  CreateSoon(admin(), Cat(kKueue, "resourceflavors"),
             R"({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "h100"},
                 "spec": {"nodeLabels": {"muster.dev/gpu": "h100"}}})");
  auto proxy = FaultProxy::Start(cluster_->authority(), cluster_->port());
  REQUIRE(proxy.ok());
  proxy_ = *std::move(proxy);
  cluster_->SubmitterKubeconfig();  // grants the rights
  Credentials credentials;
  credentials.cert = cluster_->authority().IssueClient("submitter", {});
  user_ = std::make_unique<ApiClient>(cluster_->port(), cluster_->authority().cert(), credentials);
  watched_ = std::make_unique<JobWatch>(admin());
}

void World::Start(Lease lease) {
  lease_ = lease;
  muster_.reset();
  auto muster = Muster::Start(*cluster_, {.server = proxy_->url(), .config = ConfigOf(lease)});
  INFO(muster.status());
  REQUIRE(muster.ok());
  muster_ = *std::move(muster);
}

std::unique_ptr<Muster> World::StartAnother(Lease lease) {
  auto muster = Muster::Start(*cluster_, {.name = "another", .config = ConfigOf(lease)});
  INFO(muster.status());
  REQUIRE(muster.ok());
  return *std::move(muster);
}

void World::Stop() {
  proxy_->Clear();
  if (muster_ != nullptr) muster_->process().Terminate();
  muster_.reset();
}

void World::KeepRunning() {
  if (muster_ == nullptr || muster_->process().Running()) return;
  ++restarts_;
  Start(lease_);
}

bool World::Leads(const Muster& muster) {
  return muster.Metric("muster_standing_problems", {{"replica_role", "leader"}}).has_value();
}

bool World::Await(const std::function<bool()>& holds, seconds patience) {
  const bool held = cluster::Eventually(
      [&] {
        KeepRunning();
        return holds();
      },
      patience, std::chrono::milliseconds(100));
  if (!held) UNSCOPED_INFO("Muster's log ends:\n" << muster_->process().LogTail(8));
  return held;
}

void World::MakeQueue(const std::string& ns, int gpus) {
  const absl::Status status = cluster_->CreateNamespace(ns);
  INFO(status);
  REQUIRE(status.ok());
  CreateSoon(admin(), Cat(kKueue, "clusterqueues"),
             absl::Substitute(R"({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue",
      "metadata": {"name": $0}, "spec": {"namespaceSelector": {}, "resourceGroups": [{
      "coveredResources": ["nvidia.com/gpu"],
      "flavors": [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "$1"}]}]}]}})",
                              Quote(ns), gpus));
  MakeLocalQueue(ns, "lq");
}

void World::MakeLocalQueue(const std::string& ns, const std::string& name) {
  CreateSoon(admin(), Cat(kKueue, "namespaces/", ns, "/localqueues"),
             absl::Substitute(R"({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
      "metadata": {"name": $1}, "spec": {"clusterQueue": $0}})",
                              Quote(ns), Quote(name)));
}

void World::MakeClass(const std::string& name, int value) {
  CreateSoon(admin(), Cat(kKueue, "workloadpriorityclasses"),
             absl::Substitute(R"({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass",
      "metadata": {"name": $0}, "value": $1})",
                              Quote(name), value));
}

void World::PatchClusterQueue(const std::string& name, const std::string& spec) {
  Must(admin().MergePatch(Cat(kKueue, "clusterqueues/", name), Cat(R"({"spec": )", spec, "}")));
}

void World::Submit(const std::string& ns, const JobSpec& spec) {
  const std::string priority =
      spec.priority.empty() ? "" : Cat(R"(, "kueue.x-k8s.io/priority-class": )", Quote(spec.priority));
  Must(user().Create(Jobs(ns), absl::Substitute(R"({"apiVersion": "batch/v1", "kind": "Job",
      "metadata": {"name": $0, "labels": {"kueue.x-k8s.io/queue-name": $3$5}}, "spec": {"suspend": $4,
      "parallelism": $1, "completions": $1, "backoffLimit": 0, "template": {
      "metadata": {"annotations": {"muster.dev/run-seconds": $2}}, "spec": {
      "restartPolicy": "Never", "containers": [{"name": "main", "image": "train",
      "resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}}]}}}})",
                                                Quote(spec.name), spec.pods, Quote(spec.run_seconds), Quote(spec.queue),
                                                spec.suspend ? "true" : "false", priority)));
}

void World::LetEnd(const std::string& ns, const std::string& name) {
  const std::string pods = Cat("/api/v1/namespaces/", ns, "/pods");
  const Json list = admin().Get(Cat(pods, "?labelSelector=batch.kubernetes.io%2Fjob-name%3D", name)).json;
  int running = 0;
  for (const Json& pod : list["items"].Items()) {
    if (!pod.At("metadata/deletionTimestamp").IsNull()) continue;  // of a start before this one
    ++running;
    Must(admin().MergePatch(Cat(pods, "/", pod.At("metadata/name").Str()),
                            R"({"metadata": {"annotations": {"muster.dev/run-seconds": "0"}}})"));
  }
  REQUIRE(running > 0);
}

Json World::Job(const std::string& ns, const std::string& name) { return admin().Get(Cat(Jobs(ns), "/", name)).json; }

bool World::Ended(const std::string& ns, const std::string& name) { return Has(Job(ns, name), "Complete"); }

bool World::Running(const std::string& ns, const std::string& name) {
  const Json job = Job(ns, name);
  return !job.At("spec/suspend").Bool() && job.At("status/ready").Int() == job.At("spec/parallelism").Int(-1);
}

bool World::Waiting(const std::string& ns, const std::string& name) { return Job(ns, name).At("spec/suspend").Bool(); }

bool World::Restored(const std::string& ns, const std::string& name) {
  const Json job = watched_->Job(ns, name);
  return job.At("spec/suspend").Bool() && job.At("status/active").Int() == 0 &&
         job.At("metadata/annotations")["muster.dev/admission"].IsNull();
}

Json World::Workload(const std::string& ns, const std::string& job) {
  const Json list = admin().Get(Cat(kKueue, "namespaces/", ns, "/workloads")).json;
  for (const Json& workload : list["items"].Items()) {
    if (workload.At("metadata/ownerReferences/0/name").Str() == job) return workload;
  }
  return {};
}

Json World::Condition(const std::string& ns, const std::string& job, std::string_view type) {
  return Workload(ns, job).At("status/conditions").Find("type", type);
}

int64_t World::Evictions(const Json& workload) {
  int64_t sum = 0;
  for (const Json& count : workload.At("status/schedulingStats/evictions").Items()) sum += count["count"].Int();
  return sum;
}

bool World::AwaitEnd(const std::string& ns, const std::vector<std::string>& but) {
  std::string open;
  const bool ended = Await([&] {
    open.clear();
    const Json list = admin().Get(Jobs(ns)).json;
    for (const Json& job : list["items"].Items()) {
      const std::string name = job.At("metadata/name").Str();
      if (std::find(but.begin(), but.end(), name) != but.end()) continue;
      if (!Has(job, "Complete") || !Has(watched_->Job(ns, name), "Complete")) open += " " + name;
    }
    return open.empty() && !list["items"].Items().empty();
  });
  if (!ended) UNSCOPED_INFO("not complete in " << ns << ":" << open);
  return ended;
}

Snapshot World::Look() {
  Snapshot seen;
  const auto list = [this](const std::string& path) { return admin().Get(path).json["items"].Items(); };
  for (const Json& job : list("/apis/batch/v1/jobs")) seen.jobs[job.At("metadata/namespace").Str()].push_back(job);
  for (const Json& workload : list(Cat(kKueue, "workloads"))) {
    seen.workloads[workload.At("metadata/namespace").Str()].push_back(workload);
  }
  for (const Json& queue : list(Cat(kKueue, "clusterqueues"))) {
    seen.cluster_queues.insert_or_assign(queue.At("metadata/name").Str(), queue);
  }
  for (const Json& queue : list(Cat(kKueue, "localqueues"))) {
    if (queue.At("metadata/name").Str() == "lq") {
      seen.local_queues.insert_or_assign(queue.At("metadata/namespace").Str(), queue);
    }
  }
  seen.metrics = muster_->Metrics();
  return seen;
}

std::string World::Recount(const Snapshot& seen, const std::string& ns) {
  Count count;
  std::map<std::string, Json> workloads;  // by the uid of the Job
  for (const Json& workload : seen.workloads.contains(ns) ? seen.workloads.at(ns) : std::vector<Json>()) {
    const std::string uid = workload.At("metadata/ownerReferences/0/uid").Str();
    if (!workloads.emplace(uid, workload).second) return Cat("two Workloads of the Job ", uid);
  }
  for (const Json& job : seen.jobs.contains(ns) ? seen.jobs.at(ns) : std::vector<Json>()) {
    const std::string diff = JobDiffers(job, workloads[job.At("metadata/uid").Str()], &count);
    if (!diff.empty()) return diff;
  }
  if (!seen.cluster_queues.contains(ns) || !seen.local_queues.contains(ns)) return "a queue is missing";
  std::string diff = QueueDiffers("ClusterQueue", seen.cluster_queues.at(ns)["status"], count);
  if (diff.empty()) diff = QueueDiffers("LocalQueue", seen.local_queues.at(ns)["status"], count);
  if (diff.empty()) diff = MetricsDiffer(seen.metrics, ns, count);
  return diff;
}

void World::CheckRecount(const std::vector<std::string>& namespaces) {
  std::string diff;
  const bool agrees = Await(
      [&] {
        const Snapshot seen = Look();
        for (const std::string& ns : namespaces) {
          if (diff = Recount(seen, ns); !diff.empty()) {
            diff = Cat(ns, ": ", diff);
            return false;
          }
        }
        return true;
      },
      seconds(120));
  INFO(diff);
  CHECK(agrees);
  CHECK(watched_->End().empty());
}

std::map<std::string, int> World::Writes(const std::string& ns) {
  std::map<std::string, int> writes;
  for (const AuditEvent& event : cluster_->Audit().Select([&](const AuditEvent& e) {
         return e.user == kMusterUser && e.IsWrite() && e.ns == ns && e.resource != "events" && e.code < 300;
       })) {
    ++writes[Cat(WriteKey(event), " ", event.verb == "create" ? "" : event.name)];
  }
  return writes;
}

World& Shared() {
  static const std::unique_ptr<World> world = std::make_unique<World>();
  return *world;
}

bool Long() { return std::getenv("MUSTER_LONG") != nullptr; }

// ---- which write --------------------------------------------------------------------------------

namespace {

Match JobPatch(const std::string& ns, const std::string& job, std::string_view body) {
  return {.method = "PATCH", .target = Cat("/namespaces/", ns, "/jobs/", job, "\\?"), .body = std::string(body)};
}

}  // namespace

Match StartPatch(const std::string& ns, const std::string& job) {
  return JobPatch(ns, job, R"("op":"add","path":"/spec/suspend","value":false)");
}
Match StopPatch(const std::string& ns, const std::string& job) {
  return JobPatch(ns, job, R"("op":"add","path":"/spec/suspend","value":true)");
}
Match RestorePatch(const std::string& ns, const std::string& job) {
  return JobPatch(ns, job, R"("op":"remove","path":"/metadata/annotations/muster.dev~1admission")");
}
Match WorkloadCreate(const std::string& ns, const std::string& job) {
  return {.method = "POST", .target = Cat("/namespaces/", ns, "/workloads"), .body = Cat(R"("name":")", job, "\"")};
}
Match WorkloadStatus(const std::string& ns, const std::string& job) {
  return {.method = "PATCH", .target = Cat("/namespaces/", ns, "/workloads/job-", job, "-[^/]*/status")};
}
Match LeaseUpdate() { return {.method = "PUT", .target = "/leases/"}; }

}  // namespace muster::campaign
