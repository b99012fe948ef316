#include "team.h"

#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

#include "fixture/text.h"

namespace muster::cluster {
namespace {

constexpr char kQueues[] = R"(
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: NAME}
spec: {nodeLabels: {muster.dev/team: NODES}TOPOLOGY}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: NAME}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: PREEMPTION}
  resourceGroups:
  - coveredResources: [COVERED]
    flavors: [{name: NAME, resources: [QUOTAS]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: NAME}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: jobs, namespace: NAME}
spec: {clusterQueue: NAME}
)";

std::string Members(const std::map<std::string, std::string>& members) {
  return Cat("{",
             absl::StrJoin(members, ",",
                           [](std::string* out, const auto& member) {
                             *out += Cat(Quote(member.first), ":", Quote(member.second));
                           }),
             "}");
}

// Extended resources must have both.
std::string Container(const Amounts& amounts) {
  return Cat(R"({"name": "main", "image": "train", "resources": {"requests": )", Members(amounts), R"(, "limits": )",
             Members(amounts), "}}");
}

std::string QueuesOf(const std::string& name, const TeamOptions& options) {
  const auto quota = [](std::string* out, const auto& entry) {
    *out += Cat("{name: ", entry.first, ", nominalQuota: ", Quote(entry.second), "}");
  };
  const auto resource = [](std::string* out, const auto& entry) { *out += entry.first; };
  return absl::StrReplaceAll(kQueues, {{"NAME", name},
                                       {"NODES", options.nodes_of.empty() ? name : options.nodes_of},
                                       {"TOPOLOGY", options.racks ? Cat(", topologyName: ", name) : std::string()},
                                       {"PREEMPTION", options.preemption},
                                       {"COVERED", absl::StrJoin(options.quota, ", ", resource)},
                                       {"QUOTAS", absl::StrJoin(options.quota, ", ", quota)}});
}

}  // namespace

std::string TopologyOf(const std::string& name, const std::vector<std::string>& levels) {
  const auto level = [](std::string* out, const std::string& label) { *out += Cat("{nodeLabel: ", label, "}"); };
  return Cat("apiVersion: kueue.x-k8s.io/v1beta2\nkind: Topology\nmetadata: {name: ", name, "}\nspec: {levels: [",
             absl::StrJoin(levels, ", ", level), "]}\n---\n");
}

Amounts Gpus(int count) { return {{"nvidia.com/gpu", std::to_string(count)}}; }

std::string MachinesConfig(bool enable) {
  return Cat(ShippedConfig(), "muster:\n  machines: {enable: ", enable ? "true" : "false", ", placeTimeout: 2s}\n");
}

// ---- Ground -------------------------------------------------------------------------------------

Ground::Ground(const MusterOptions& options) {
  auto started = Cluster::Start();
  INFO(started.status());
  REQUIRE(started.ok());
  cluster_ = *std::move(started);
  const absl::Status installed = cluster_->InstallMuster();
  INFO(installed);
  REQUIRE(installed.ok());
  Restart(options);
}

Ground& Ground::Shared() {
  static Ground ground;
  return ground;
}

void Ground::Restart(const MusterOptions& options) {
  muster_.reset();
  auto started = Muster::Start(*cluster_, options);
  INFO(started.status());
  REQUIRE(started.ok());
  muster_ = *std::move(started);
  REQUIRE(muster_->AwaitReady());
}

bool Ground::Runs() { return muster_ != nullptr && muster_->process().Running(); }

std::string Ground::Diagnosis() {
  if (muster_ == nullptr) return "Muster is not started";
  Process& process = muster_->process();
  std::string ended;
  if (!process.Running()) ended = Cat(", and has ended with ", process.Wait(std::chrono::seconds(1)).value_or(-1));
  return Cat("Muster says of itself:\n", muster_->HealthText("/livez?verbose"), muster_->HealthText("/readyz?verbose"),
             ended, "\nIts log ends:\n", process.LogTail());
}

// ---- Team ---------------------------------------------------------------------------------------

Team::Team(Ground& ground, std::string name, const std::vector<Amounts>& nodes, const TeamOptions& options)
    : ground_(ground), name_(std::move(name)) {
  for (const Amounts& amounts : nodes) AddNode(amounts);
  const std::string topology = options.racks ? TopologyOf(name_, {kRackLabel, kHostnameLabel}) : std::string();
  const absl::Status applied = ground_.cluster().ApplyText(topology + QueuesOf(name_, options));
  INFO(applied);
  REQUIRE(applied.ok());
  const bool active = Eventually([&] {
    const Json queue =
        ground_.api().Get(Cat("/apis/kueue.x-k8s.io/v1beta2/namespaces/", name_, "/localqueues/jobs")).json;
    return queue.At("status/conditions").Find("type", "Active")["status"].Str() == "True";
  });
  if (!active) FAIL(ground_.Diagnosis());
}

Team::~Team() {
  if (!ground_.Runs()) FAIL_CHECK(ground_.Diagnosis());
  ground_.api().Delete(Path("jobs") + "?propagationPolicy=Background");
  ground_.api().Delete(Path("pods") + "?gracePeriodSeconds=0");
  Eventually([&] { return ground_.api().Get(Path("pods")).json["items"].Items().empty(); });
  ground_.api().Delete("/api/v1/nodes?labelSelector=muster.dev%2Fteam%3D" + name_);
}

std::string Team::Node(int i) const { return nodes_.at(i); }

void Team::AddNodes(int count, const Amounts& amounts, const std::string& rack) {
  // A pool of its own, since the nodes of one pool are numbered from 0.
  NodePool pool{
      .name = Cat(name_, "-", pools_++), .count = count, .labels = {{"muster.dev/team", name_}, {kRackLabel, rack}}};
  for (int i = 0; i < count; ++i) nodes_.push_back(Cat(pool.name, "-", i));
  pool.capacity.erase("nvidia.com/gpu");
  for (const auto& [resource, amount] : amounts) pool.capacity.insert_or_assign(resource, amount);
  const absl::Status created = ground_.cluster().CreateNodes(pool);
  INFO(created);
  REQUIRE(created.ok());
}

void Team::Cordon(int node, bool cordoned) {
  PatchNode(node, Cat(R"({"spec": {"unschedulable": )", cordoned ? "true" : "null", "}}"));
}

void Team::PatchNode(int node, const std::string& patch, const std::string& subresource) {
  const ApiResponse response = ground_.api().MergePatch(Cat("/api/v1/nodes/", Node(node), subresource), patch);
  INFO(response.text);
  REQUIRE(response.ok());
}

void Team::DeleteNode(int node) { REQUIRE(ground_.api().Delete("/api/v1/nodes/" + Node(node)).ok()); }

std::string Team::Path(const std::string& of) const {
  const char* group = of.starts_with("jobs")        ? "/apis/batch/v1"
                      : of.starts_with("workloads") ? "/apis/kueue.x-k8s.io/v1beta2"
                                                    : "/api/v1";
  return Cat(group, "/namespaces/", name_, "/", of);
}

void Team::Create(const std::string& job, const Gang& gang) {
  const ApiResponse response = TryCreate(job, gang);
  INFO(response.text);
  REQUIRE(response.status == 201);
}

ApiResponse Team::TryCreate(const std::string& job, const Gang& gang) {
  std::map<std::string, std::string> labels = {{"kueue.x-k8s.io/queue-name", "jobs"}};
  if (!gang.priority.empty()) labels["kueue.x-k8s.io/priority-class"] = gang.priority;
  return ground_.api().Create(
      Path("jobs"),
      Cat(R"({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": )", Quote(job), R"(, "labels": )",
          Members(labels), R"(, "annotations": )", Members(gang.job_annotations),
          R"(}, "spec": {"completionMode": "Indexed", "parallelism": )", gang.pods, R"(, "completions": )", gang.pods,
          R"(, "template": {"metadata": {"annotations": )", Members(gang.annotations),
          R"(}, "spec": {"restartPolicy": "Never", "containers": [)", Container(gang.each), "]}}}}"));
}

void Team::Delete(const std::string& job) {
  REQUIRE(ground_.api().Delete(Path("jobs/" + job) + "?propagationPolicy=Background").ok());
  REQUIRE(Eventually([&] { return HasNoPods(job); }));
}

Json Team::Job(const std::string& job) { return ground_.api().Get(Path("jobs/" + job)).json; }

bool Team::Suspended(const std::string& job) { return Job(job).At("spec/suspend").Bool(); }

Json Team::WorkloadOf(const std::string& job) {
  for (const Json& workload : ground_.api().Get(Path("workloads")).json["items"].Items()) {
    if (!workload.At("metadata/ownerReferences").Find("name", job).IsNull()) return workload;
  }
  return {};
}

std::string Team::WaitsFor(const std::string& job) {
  const Json condition = WorkloadOf(job).At("status/conditions").Find("type", "QuotaReserved");
  return condition["status"].Str() == "False" ? condition["message"].Str() : "";
}

std::map<std::string, std::string> Team::Nodes(const std::string& job) {
  std::map<std::string, std::string> nodes;
  const std::string selector = "?labelSelector=batch.kubernetes.io%2Fjob-name%3D" + job;
  for (const Json& pod : ground_.api().Get(Path("pods") + selector).json["items"].Items()) {
    const std::string phase = pod.At("status/phase").Str();
    if (phase == "Succeeded" || phase == "Failed") continue;
    nodes[pod.At("metadata/name").Str()] = pod.At("spec/nodeName").Str();
  }
  return nodes;
}

bool Team::Runs(const std::string& job, size_t pods) {
  const std::map<std::string, std::string> nodes = Nodes(job);
  return nodes.size() == pods &&
         std::none_of(nodes.begin(), nodes.end(), [](const auto& entry) { return entry.second.empty(); });
}

bool Team::Completed(const std::string& job) {
  return Job(job).At("status/conditions").Find("type", "Complete")["status"].Str() == "True";
}

int64_t Team::Evictions(const std::string& job, const std::string& reason) {
  int64_t count = 0;
  for (const Json& evictions : WorkloadOf(job).At("status/schedulingStats/evictions").Items()) {
    if (evictions["reason"].Str() == reason) count += evictions["count"].Int();
  }
  return count;
}

void Team::CreateBare(const std::string& pod, const Amounts& amounts, int node) {
  const ApiResponse response = TryCreateBare(pod, amounts, node);
  INFO(response.text);
  REQUIRE(response.status == 201);
}

ApiResponse Team::TryCreateBare(const std::string& pod, const Amounts& amounts, int node) {
  const std::string place = node < 0 ? Cat(R"("nodeSelector": {"muster.dev/team": )", Quote(name_), "}")
                                     : Cat(R"("nodeName": )", Quote(Node(node)));
  return ground_.api().Create(Path("pods"), Cat(R"({"metadata": {"name": )", Quote(pod), R"(}, "spec": {)", place,
                                                R"(, "containers": [)", Container(amounts), "]}}"));
}

Json Team::Pod(const std::string& pod) { return ground_.api().Get(Path("pods/" + pod)).json; }

void Team::DeletePod(const std::string& pod) {
  REQUIRE(ground_.api().Delete(Path("pods/" + pod) + "?gracePeriodSeconds=0").ok());
}

}  // namespace muster::cluster
