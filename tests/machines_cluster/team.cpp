#include "team.h"

#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "fixture/text.h"

namespace muster::cluster {
namespace {

constexpr char kRequiredTopology[] = "kueue.x-k8s.io/podset-required-topology";

constexpr char kFlavor[] = R"(
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: NAME}
spec: {nodeLabels: {muster.dev/team: NODES}TOPOLOGY}
)";

constexpr char kClusterQueue[] = R"(
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: NAME}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: PREEMPTION}
  resourceGroups:
  - coveredResources: [COVERED]
    flavors: [{name: NAME, resources: [QUOTAS]}]
)";

constexpr char kNamespace[] = R"(
apiVersion: v1
kind: Namespace
metadata: {name: NAME}
)";

constexpr char kLocalQueue[] = R"(
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

// As `kubectl apply --server-side` does, of which a process for each of many teams takes most of a test's time.
void ApplyQueues(ApiClient& api, const std::string& name, const TeamOptions& options) {
  const auto quota = [](std::string* out, const auto& entry) {
    *out += Cat("{name: ", entry.first, ", nominalQuota: ", Quote(entry.second), "}");
  };
  const auto resource = [](std::string* out, const auto& entry) { *out += entry.first; };
  const auto apply = [&](const std::string& path, const std::string& yaml) {
    const std::string text =
        absl::StrReplaceAll(yaml, {{"NAME", name},
                                   {"NODES", options.nodes_of.empty() ? name : options.nodes_of},
                                   {"TOPOLOGY", options.racks ? Cat(", topologyName: ", name) : std::string()},
                                   {"PREEMPTION", options.preemption},
                                   {"COVERED", absl::StrJoin(options.quota, ", ", resource)},
                                   {"QUOTAS", absl::StrJoin(options.quota, ", ", quota)}});
    // The API server may not serve a kind yet, right after it has taken its definition.
    ApiResponse response;
    const bool applied = Eventually([&] {
      response = api.Call("PATCH", path + "?fieldManager=team&force=true", text, "application/apply-patch+yaml");
      return response.ok();
    });
    INFO(response.text);
    REQUIRE(applied);
  };
  const std::string kueue = "/apis/kueue.x-k8s.io/v1beta2/";
  if (options.racks) apply(Cat(kueue, "topologies/", name), TopologyOf(name, {kRackLabel, kHostnameLabel}));
  apply(Cat(kueue, "resourceflavors/", name), kFlavor);
  apply(Cat(kueue, "clusterqueues/", name), kClusterQueue);
  apply("/api/v1/namespaces/" + name, kNamespace);
  apply(Cat(kueue, "namespaces/", name, "/localqueues/jobs"), kLocalQueue);
}

}  // namespace

std::string TopologyOf(const std::string& name, const std::vector<std::string>& levels) {
  const auto level = [](std::string* out, const std::string& label) { *out += Cat("{nodeLabel: ", label, "}"); };
  return Cat("apiVersion: kueue.x-k8s.io/v1beta2\nkind: Topology\nmetadata: {name: ", name, "}\nspec: {levels: [",
             absl::StrJoin(levels, ", ", level), "]}\n");
}

Gang InRack(Gang gang, bool racks) {
  if (racks) gang.annotations[kRequiredTopology] = kRackLabel;
  return gang;
}

Amounts Gpus(int count) { return {{"nvidia.com/gpu", std::to_string(count)}}; }

std::string MachinesConfig(bool enable) {
  return Cat(ShippedConfig(), "waitForPodsReady:\n  requeuingStrategy: {backoffLimitCount: 1}\n",
             "muster:\n  machines: {enable: ", enable ? "true" : "false", ", placeTimeout: 2s}\n");
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
  looks_at_machines_ = options.config.find("machines: {enable: true") != std::string::npos;
}

void Ground::CheckRest() {
  // But the leader's lease. Of one scrape, or a renewal between two would count; nothing: none came.
  const auto writes = [this]() -> std::optional<double> {
    const std::string name = "muster_api_writes_total";
    const std::string metrics = muster_->Metrics();
    const std::optional<double> leases = Metric(metrics, name, {{"resource", "leases"}});
    if (!leases.has_value()) return std::nullopt;
    return Metric(metrics, name).value_or(0) - *leases;
  };
  std::optional<double> before;
  int still = 0;
  CHECK(Eventually(
      [&] {
        const std::optional<double> now = writes();
        if (!now.has_value()) return false;
        still = std::exchange(before, now) == now ? still + 1 : 0;
        return still == 2;
      },
      kRestPatience, std::chrono::seconds(3)));
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
    : ground_(ground), name_(std::move(name)), quota_(options.quota), owns_nodes_(options.nodes_of.empty()) {
  // Those alike that follow each other in one pool, since each is waited for.
  for (auto first = nodes.begin(); first != nodes.end();) {
    const auto last = std::find_if(first, nodes.end(), [&](const Amounts& amounts) { return amounts != *first; });
    AddNodes(static_cast<int>(last - first), *first);
    first = last;
  }
  ApplyQueues(ground_.api(), name_, options);
  const bool active = Eventually([&] {
    const Json queue =
        ground_.api().Get(Cat("/apis/kueue.x-k8s.io/v1beta2/namespaces/", name_, "/localqueues/jobs")).json;
    return queue.At("status/conditions").Find("type", "Active")["status"].Str() == "True";
  });
  if (!active) FAIL(ground_.Diagnosis());
}

void Team::Check(std::string (Team::*wrong)()) {
  std::string told;
  if (!Eventually([&] { return (told = (this->*wrong)()).empty(); })) FAIL_CHECK(told);
}

void Team::End(const std::vector<Team*>& teams) {
  const bool failed = std::uncaught_exceptions() > 0;
  std::vector<Team*> left;
  std::copy_if(teams.begin(), teams.end(), std::back_inserter(left), [](const Team* team) { return !team->ended_; });
  if (left.empty()) return;
  if (!left.front()->ground_.Runs()) FAIL_CHECK(left.front()->ground_.Diagnosis());
  for (Team* team : left) {
    if (!failed) team->Check(&Team::Miscounted);
  }
  for (Team* team : left) {
    team->ground_.api().Delete(team->Path("jobs") + "?propagationPolicy=Background");
    team->ground_.api().Delete(team->Path("pods") + "?gracePeriodSeconds=0");
  }
  for (Team* team : left) {
    Eventually([&] { return team->ground_.api().Get(team->Path("pods")).json["items"].Items().empty(); });
  }
  // Those whose nodes another has hold nothing on them by now.
  for (Team* team : left) {
    if (!failed) team->Check(&Team::Leaked);
  }
  for (Team* team : left) {
    team->ground_.api().Delete("/api/v1/nodes?labelSelector=muster.dev%2Fteam%3D" + team->name_);
    team->ended_ = true;
  }
}

std::string Team::Miscounted() {
  const Json status = ground_.api().Get("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/" + name_).json["status"];
  int64_t pending = 0;
  int64_t reserving = 0;
  int64_t admitted = 0;
  for (const Json& workload : ground_.api().Get(Path("workloads")).json["items"].Items()) {
    const Json conditions = workload.At("status/conditions");
    const auto is = [&](const char* type) { return conditions.Find("type", type)["status"].Str() == "True"; };
    if (is("Finished")) continue;
    reserving += is("QuotaReserved") ? 1 : 0;
    admitted += is("Admitted") ? 1 : 0;
    pending += !is("QuotaReserved") && workload.At("spec/active").Bool(true) ? 1 : 0;
  }
  const auto counts = [](int64_t waiting, int64_t holding, int64_t started) {
    return Cat(waiting, " pending, ", holding, " reserving, ", started, " admitted");
  };
  const std::string told =
      counts(status["pendingWorkloads"].Int(), status["reservingWorkloads"].Int(), status["admittedWorkloads"].Int());
  const std::string are = counts(pending, reserving, admitted);
  return told == are ? "" : Cat("ClusterQueue ", name_, " says ", told, "; there are ", are);
}

std::string Team::Leaked() {
  const Json status = ground_.api().Get("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/" + name_).json["status"];
  for (const char* usage : {"flavorsReservation", "flavorsUsage"}) {
    for (const Json& flavor : status[usage].Items()) {
      for (const Json& resource : flavor["resources"].Items()) {
        if (resource["total"].Str() == "0") continue;
        return Cat("of ClusterQueue ", name_, " nothing runs, and ", usage, " is ", status[usage].Dump());
      }
    }
  }
  const bool flavor = ground_.api().Get("/apis/kueue.x-k8s.io/v1beta2/resourceflavors/" + name_).ok();
  if (!ground_.LooksAtMachines() || !owns_nodes_ || !flavor) return "";
  std::map<std::string, int64_t> usable;
  for (const Json& node :
       ground_.api().Get("/api/v1/nodes?labelSelector=muster.dev%2Fteam%3D" + name_).json["items"].Items()) {
    const bool ready = node.At("status/conditions").Find("type", "Ready")["status"].Str() == "True";
    if (!ready || node.At("spec/unschedulable").Bool() || !node.At("spec/taints").Items().empty()) continue;
    for (const auto& [resource, amount] : quota_) {
      usable[resource] += std::atoll(node.At("status/allocatable")[resource].Str("0").c_str());
    }
  }
  for (const auto& [resource, amount] : usable) {
    const double free =
        ground_.muster().Metric("muster_flavor_free", {{"flavor", name_}, {"resource", resource}}).value_or(-1);
    if (free == static_cast<double>(amount)) continue;
    return Cat("on nodes of flavor ", name_, " nothing is, they have ", amount, " of ", resource, ", and ",
               std::to_string(free), " is said to be free");
  }
  return "";
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

void Team::Delete(const std::string& job) { DeleteJobs({{this, job}}); }

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

void Team::CreateWorkload(const std::string& workload, const std::vector<std::pair<std::string, Gang>>& pod_sets) {
  const auto pod_set = [](std::string* out, const std::pair<std::string, Gang>& of) {
    const auto& [name, gang] = of;
    const auto rack = gang.annotations.find(kRequiredTopology);
    const std::string request =
        rack == gang.annotations.end() ? "" : Cat(R"("topologyRequest": {"required": )", Quote(rack->second), "}, ");
    *out += Cat(R"({"name": )", Quote(name), R"(, "count": )", gang.pods, ", ", request,
                R"("template": {"spec": {"restartPolicy": "Never", "containers": [)", Container(gang.each), "]}}}");
  };
  const ApiResponse response = ground_.api().Create(
      Path("workloads"),
      Cat(R"({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": )", Quote(workload),
          R"(}, "spec": {"queueName": "jobs", "podSets": [)", absl::StrJoin(pod_sets, ", ", pod_set), "]}}"));
  INFO(response.text);
  REQUIRE(response.status == 201);
}

void Team::DeleteWorkload(const std::string& workload) {
  REQUIRE(ground_.api().Delete(Path("workloads/" + workload)).ok());
}

Json Team::Condition(const std::string& workload, const std::string& type) {
  return ground_.api().Get(Path("workloads/" + workload)).json.At("status/conditions").Find("type", type);
}

void Team::CreatePodOf(const std::string& workload, const std::string& pod_set, const std::string& pod,
                       const Amounts& amounts, int node) {
  const ApiResponse response = ground_.api().Create(
      Path("pods"),
      Cat(R"({"metadata": {"name": )", Quote(pod), R"(, "labels": {"kueue.x-k8s.io/podset": )", Quote(pod_set),
          R"(}, "annotations": {"kueue.x-k8s.io/workload": )", Quote(workload), R"(}}, "spec": {"nodeName": )",
          Quote(Node(node)), R"(, "containers": [)", Container(amounts), "]}}"));
  INFO(response.text);
  REQUIRE(response.status == 201);
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

void DeleteJobs(const std::vector<std::pair<Team*, std::string>>& jobs) {
  for (const auto& [team, job] : jobs) {
    REQUIRE(team->ground().api().Delete(team->Path("jobs/" + job) + "?propagationPolicy=Background").ok());
  }
  for (const auto& of : jobs) REQUIRE(Eventually([&] { return of.first->HasNoPods(of.second); }));
}

// ---- Teams --------------------------------------------------------------------------------------

Teams::Teams(Ground& ground, const std::string& name, int count, const std::vector<Amounts>& nodes,
             const TeamOptions& options) {
  for (int i = 0; i < count; ++i) Add(ground, Cat(name, "-", i), nodes, options);
}

Team& Teams::Add(Ground& ground, const std::string& name, const std::vector<Amounts>& nodes,
                 const TeamOptions& options) {
  teams_.push_back(std::make_unique<Team>(ground, name, nodes, options));
  all_.push_back(teams_.back().get());
  return *all_.back();
}

void Teams::Delete(const std::string& job) const {
  std::vector<std::pair<Team*, std::string>> jobs;
  for (Team* team : all_) jobs.emplace_back(team, job);
  DeleteJobs(jobs);
}

bool Teams::All(const std::function<bool(Team& team)>& holds) const {
  bool all = true;
  for (Team* team : all_) all = holds(*team) && all;
  return all;
}

}  // namespace muster::cluster
