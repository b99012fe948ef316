#include "chaos.h"

#include <algorithm>

#include "stage.h"

namespace muster::sim_campaign {
namespace {

using sim::Fault;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kQueueName = "kueue.x-k8s.io/queue-name";
constexpr const char* kMinParallelism = "kueue.x-k8s.io/job-min-parallelism";
constexpr const char* kElastic = "kueue.x-k8s.io/elastic-job";
constexpr const char* kEndlessSeconds = "1000000";
const std::vector<std::string> kFlavors = {"a", "b", "tainted"};
constexpr const char* kPriorityClass = "kueue.x-k8s.io/priority-class";
// WorkloadPriorityClasses p0, p1, p2 with those values.
constexpr uint64_t kPriorities = 3;

Json Kueue(const std::string& kind, const std::string& name, Json spec) {
  return {{"apiVersion", "kueue.x-k8s.io/v1beta2"}, {"kind", kind}, {"metadata", {{"name", name}}}, {"spec", spec}};
}

}  // namespace

Chaos::Chaos(Cluster* cluster, ChaosOptions options)
    : cluster_(cluster),
      options_(std::move(options)),
      random_(cluster->executor.NewRandom("chaos")),
      checks_(cluster, options_.edits_jobs) {
  Add(40, &Chaos::Submit);
  Add(10, &Chaos::ResizeJob);
  if (options_.faults) AddFaults();
  if (options_.edits_jobs) {
    Add(4, &Chaos::DeleteJob);
    Add(4, &Chaos::ScaleJob);
    Add(4, &Chaos::SuspendJob);
    Add(4, &Chaos::RelabelJob);
    Add(2, &Chaos::RaisePriority);
    Add(4, &Chaos::Deactivate);
    Add(2, &Chaos::DeleteWorkload);
  }
  if (options_.edits_queues) {
    Add(4, &Chaos::EditQuota);
    Add(6, &Chaos::EditQueue);
    Add(3, &Chaos::RecreateQueue);
    Add(3, &Chaos::EditCohort);
    Add(1, &Chaos::DeleteCohort);
    Add(2, &Chaos::StopLocalQueue);
    Add(2, &Chaos::RecreateLocalQueue);
    Add(2, &Chaos::RecreateFlavor);
    Add(1, &Chaos::RelabelNamespace);
  }
}

void Chaos::AddFaults() {
  Add(6, &Chaos::Kill);
  Add(3, &Chaos::Pause);
  Add(4, &Chaos::BreakWatches);
  Add(2, &Chaos::Compact);
  Add(2, &Chaos::GoDown);
  Add(1, &Chaos::PauseControllers);
  Add(8, &Chaos::StrikeNext);
  sim::RandomFaults rates;
  rates.user = Cluster::kMuster;
  rates.write_permille = 100;
  rates.read_permille = 30;
  // What a stalled watch hides for minutes would hide edits of queues from whoever is judged by them.
  rates.watch_line_permille = options_.edits_queues ? 0 : 5;
  cluster_->server.faults().SetRandom(cluster_->executor.NewRandom("faults"), rates);
}

void Chaos::Add(int weight, std::function<void()> happen) {
  things_.push_back({weight, std::move(happen)});
  weight_ += weight;
}

void Chaos::Happen(int things) {
  for (int i = 0; i < things; ++i) {
    int at = static_cast<int>(Below(static_cast<uint64_t>(weight_)));
    for (const Thing& thing : things_) {
      at -= thing.weight;
      if (at >= 0) continue;
      thing.happen();
      break;
    }
    cluster_->Run(milliseconds(static_cast<int64_t>(Below(OneIn(4) ? 6000 : 600))));
  }
}

void Chaos::End() {
  cluster_->server.faults().Clear();
  cluster_->server.SetDown(false);
  cluster_->controllers.SetPaused(false);
  for (size_t i = 0; i < cluster_->replicas(); ++i) cluster_->SetPaused(i, false);
  checks_.Settle();
}

// ---- queues -------------------------------------------------------------------------------------

Json Chaos::AnyResource(const std::string& name, uint64_t most, bool limits) {
  Json resource = {{"name", name}, {"nominalQuota", std::to_string(Below(most + 1))}};
  if (limits && OneIn(3)) resource["borrowingLimit"] = std::to_string(Below(most));
  if (limits && OneIn(3)) resource["lendingLimit"] = std::to_string(Below(most));
  return resource;
}

Json Chaos::AnyGroups(bool limits) {
  Json flavors = Json::array();
  std::vector<std::string> names = kFlavors;
  const size_t count = 1 + Below(2);
  for (size_t i = 0; i < count; ++i) {
    const size_t pick = Below(names.size());
    flavors.push_back({{"name", names[pick]},
                       {"resources", {AnyResource("cpu", 8, limits), AnyResource("nvidia.com/gpu", 4, limits)}}});
    names.erase(names.begin() + static_cast<std::ptrdiff_t>(pick));
  }
  return Json::array({{{"coveredResources", {"cpu", "nvidia.com/gpu"}}, {"flavors", flavors}}});
}

// Null: none.
Json Chaos::AnyChecks() {
  if (!OneIn(3)) return Json();
  return {{"admissionChecks", Json::array({{{"name", CheckController::kCheck}}})}};
}

Json Chaos::AnyPreemption() {
  if (OneIn(3)) return Json::object();
  Json out = {{"withinClusterQueue", AnyOf({"Never", "LowerPriority", "LowerOrNewerEqualPriority"})},
              {"reclaimWithinCohort", AnyOf({"Never", "LowerPriority", "Any"})}};
  if (out["reclaimWithinCohort"] == "Never" || !OneIn(3)) return out;
  out["borrowWithinCohort"] = {{"policy", "LowerPriority"}};
  if (OneIn(2)) out["borrowWithinCohort"]["maxPriorityThreshold"] = Below(kPriorities);
  return out;
}

Json Chaos::AnyQueueSpec() {
  const std::string cohort = OneIn(4) ? "" : AnyCohort();
  Json spec = {{"namespaceSelector", Json::object()},
               {"queueingStrategy", OneIn(4) ? "StrictFIFO" : "BestEffortFIFO"},
               {"stopPolicy", "None"},
               {"flavorFungibility", {{"whenCanBorrow", OneIn(2) ? "MayStopSearch" : "TryNextFlavor"}}},
               {"resourceGroups", AnyGroups(!cohort.empty())}};
  if (const Json preemption = AnyPreemption(); !preemption.empty()) spec["preemption"] = preemption;
  if (!cohort.empty()) spec["cohortName"] = cohort;
  if (Json checks = AnyChecks(); !checks.is_null()) spec["admissionChecksStrategy"] = std::move(checks);
  return spec;
}

Json Chaos::AnyCohortSpec(const std::string& parent) {
  Json spec = Json::object();
  if (!parent.empty()) spec["parentName"] = parent;
  if (OneIn(2)) spec["resourceGroups"] = AnyGroups(!parent.empty());
  return spec;
}

void Chaos::MakeFlavor(const std::string& name) {
  for (Json flavor : scenarios::Flavors()) {
    if (!options_.topology.empty()) flavor["spec"]["topologyName"] = options_.topology;
    if (Text(At(flavor, "metadata", "name")) == name) cluster_->Create(std::move(flavor));
  }
}

void Chaos::MakeQueue(const std::string& name) { cluster_->Create(Kueue("ClusterQueue", name, AnyQueueSpec())); }

void Chaos::MakeLocalQueue(const std::string& ns, const std::string& name) {
  Json queue = Kueue("LocalQueue", name, {{"clusterQueue", "cq" + name.substr(2)}, {"stopPolicy", "None"}});
  queue["metadata"]["namespace"] = ns;
  cluster_->Create(std::move(queue));
}

void Chaos::MakeQueues() {
  for (const std::string& name : kFlavors) MakeFlavor(name);
  checks_.MakeCheck();
  for (uint64_t value = 0; value < kPriorities; ++value) {
    Json priority = Kueue("WorkloadPriorityClass", "p" + std::to_string(value), Json());
    priority.erase("spec");
    priority["value"] = value;
    cluster_->Create(std::move(priority));
  }
  cluster_->Create(Kueue("Cohort", "c0", AnyCohortSpec("")));
  for (uint64_t i = 1; i < kCohorts; ++i) {
    if (OneIn(3)) continue;
    const std::string parent = OneIn(3) ? "" : "c" + std::to_string(Below(i));
    cluster_->Create(Kueue("Cohort", "c" + std::to_string(i), AnyCohortSpec(parent)));
  }
  for (uint64_t i = 0; i < kQueues; ++i) {
    MakeQueue("cq" + std::to_string(i));
    for (const char* ns : {"team-a", "team-b"}) MakeLocalQueue(ns, "lq" + std::to_string(i));
  }
}

void Chaos::EditQuota() {
  const std::string name = AnyQueue("cq");
  cluster_->Patch("clusterqueues", "", name, {{"spec", {{"resourceGroups", AnyGroups(true)}}}});
}

void Chaos::EditQueue() {
  Json spec;
  switch (Below(6)) {
    case 0:
      spec = {{"cohortName", OneIn(3) ? Json() : Json(AnyCohort())}};
      break;
    case 1:
      spec = {{"queueingStrategy", OneIn(2) ? "StrictFIFO" : "BestEffortFIFO"}};
      break;
    case 2:
      spec = {{"stopPolicy", AnyOf({"None", "Hold", "HoldAndDrain"})}};
      break;
    case 3:
      spec = {{"admissionChecksStrategy", AnyChecks()}};
      break;
    case 4:
      spec = {{"preemption", AnyPreemption()}};
      break;
    default:
      spec = {
          {"namespaceSelector", OneIn(2) ? Json{{"matchLabels", {{"tier", "gold"}}}} : Json{{"matchLabels", nullptr}}}};
  }
  cluster_->Patch("clusterqueues", "", AnyQueue("cq"), {{"spec", spec}});
}

void Chaos::RecreateQueue() {
  const std::string name = AnyQueue("cq");
  if (!cluster_->Delete("clusterqueues", "", name)) return MakeQueue(name);
  if (OneIn(2)) MakeQueue(name);
}

void Chaos::EditCohort() {
  const std::string name = AnyCohort();
  const std::string parent = OneIn(2) ? "" : AnyCohort();
  const Json spec = AnyCohortSpec(parent);
  if (cluster_->Create(Kueue("Cohort", name, spec))) return;
  cluster_->Patch(
      "cohorts", "", name,
      {{"spec", {{"parentName", Get(spec, "parentName")}, {"resourceGroups", Get(spec, "resourceGroups")}}}});
}

void Chaos::DeleteCohort() { cluster_->Delete("cohorts", "", AnyCohort()); }

void Chaos::StopLocalQueue() {
  const std::string ns = AnyNamespace();
  const std::string name = AnyQueue("lq");
  cluster_->Patch("localqueues", ns, name, {{"spec", {{"stopPolicy", AnyOf({"None", "Hold", "HoldAndDrain"})}}}});
}

void Chaos::RecreateLocalQueue() {
  const std::string ns = AnyNamespace();
  const std::string name = AnyQueue("lq");
  if (!cluster_->Delete("localqueues", ns, name) || OneIn(2)) MakeLocalQueue(ns, name);
}

void Chaos::RecreateFlavor() {
  const std::string name = AnyOf(kFlavors);
  if (!cluster_->Delete("resourceflavors", "", name) || OneIn(2)) MakeFlavor(name);
}

void Chaos::RelabelNamespace() {
  const std::string ns = AnyNamespace();
  cluster_->Patch("namespaces", "", ns, {{"metadata", {{"labels", {{"tier", OneIn(2) ? Json("gold") : Json()}}}}}});
}

void Chaos::Repair() {
  for (const std::string& name : kFlavors) MakeFlavor(name);
  for (uint64_t i = 0; i < kCohorts; ++i) cluster_->Delete("cohorts", "", "c" + std::to_string(i));
  Json flavors = Json::array();
  for (const std::string& name : kFlavors) {
    const Json cpu = {{"name", "cpu"}, {"nominalQuota", "1000"}};
    const Json gpu = {{"name", "nvidia.com/gpu"}, {"nominalQuota", "1000"}};
    flavors.push_back({{"name", name}, {"resources", {cpu, gpu}}});
  }
  const Json groups = Json::array({{{"coveredResources", {"cpu", "nvidia.com/gpu"}}, {"flavors", flavors}}});
  for (uint64_t i = 0; i < kQueues; ++i) {
    const std::string name = "cq" + std::to_string(i);
    cluster_->Delete("clusterqueues", "", name);
    cluster_->Create(Kueue("ClusterQueue", name,
                           {{"namespaceSelector", Json::object()},
                            {"queueingStrategy", "BestEffortFIFO"},
                            {"stopPolicy", "None"},
                            {"resourceGroups", groups}}));
    for (const char* ns : {"team-a", "team-b"}) {
      cluster_->Delete("localqueues", ns, "lq" + std::to_string(i));
      MakeLocalQueue(ns, "lq" + std::to_string(i));
    }
  }
  for (const Json& workload : cluster_->List("workloads")) {
    if (Flag(At(workload, "spec", "active"), true)) continue;
    const Json& meta = Get(workload, "metadata");
    cluster_->Patch("workloads", Text(Get(meta, "namespace")), Text(Get(meta, "name")), {{"spec", {{"active", true}}}});
  }
}

// ---- Jobs ---------------------------------------------------------------------------------------

bool Chaos::IsEndless(const Json& job) {
  return Text(At(job, "spec", "template", "metadata", "annotations", "muster.dev/run-seconds")) == kEndlessSeconds;
}

Json Chaos::AnyJobObject(const std::string& ns, const std::string& name) {
  scenarios::JobSpec spec;
  spec.name = name;
  spec.pods = 1 + static_cast<int>(Below(4));
  spec.cpu = static_cast<int>(Below(3));
  spec.seconds = OneIn(8) ? std::string(kEndlessSeconds) : std::to_string(1 + Below(12));
  spec.queue = AnyQueue("lq");
  if (spec.pods > 1 && OneIn(5)) spec.annotations[kMinParallelism] = "1";
  if (OneIn(12)) spec.exit_code = "1";
  if (OneIn(3)) spec.dying = std::to_string(Below(20));
  if (!OneIn(3)) spec.labels[kPriorityClass] = "p" + std::to_string(Below(kPriorities));
  if (OneIn(6)) spec.spec["ttlSecondsAfterFinished"] = Below(10);
  if (OneIn(5)) spec.spec["completions"] = spec.pods + static_cast<int>(Below(3));
  if (OneIn(5)) {
    // Its pods neither end nor are they made anew, so that their number is as its user says.
    spec.annotations = {{kElastic, "true"}};
    spec.spec["completions"] = nullptr;
    spec.seconds = kEndlessSeconds;
  }
  Json job = scenarios::Stage::JobObject(spec);
  job["metadata"]["namespace"] = ns;
  job["spec"]["suspend"] = OneIn(2);
  Json& pod = job["spec"]["template"]["spec"];
  if (OneIn(4)) pod["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1";
  if (OneIn(6)) pod["nodeSelector"]["muster.dev/flavor"] = AnyOf(kFlavors);
  if (options_.shape_job) options_.shape_job(&job);
  return job;
}

void Chaos::Submit() {
  const std::string ns = AnyNamespace();
  cluster_->Create(AnyJobObject(ns, "job-" + std::to_string(jobs_++)));
}

std::pair<std::string, std::string> Chaos::AnyJob() {
  const std::vector<Json> jobs = cluster_->List("jobs");
  if (jobs.empty()) return {"team-a", "nobody"};
  const Json& meta = Get(jobs[Below(jobs.size())], "metadata");
  return {Text(Get(meta, "namespace")), Text(Get(meta, "name"))};
}

void Chaos::DeleteJob() {
  const auto [ns, name] = AnyJob();
  const std::string uid = Text(At(cluster_->Find("jobs", ns, name), "metadata", "uid"));
  if (!cluster_->Delete("jobs", ns, name, AnyPropagation())) return;
  deleted_.insert(uid);
  // Under its name comes another, if that is free yet.
  if (OneIn(3)) cluster_->Create(AnyJobObject(ns, name));
}

void Chaos::ScaleJob() {
  const auto [ns, name] = AnyJob();
  // Muster's policies refuse it where Muster scales the Job itself.
  if (At(cluster_->Find("jobs", ns, name), "metadata", "annotations").contains(kMinParallelism)) return;
  cluster_->Patch("jobs", ns, name, {{"spec", {{"parallelism", 1 + Below(4)}}}});
}

bool Chaos::IsElastic(const Json& job) { return At(job, "metadata", "annotations").contains(kElastic); }

void Chaos::ResizeJob() {
  std::vector<Json> jobs = cluster_->List("jobs");
  std::erase_if(jobs, [](const Json& job) { return !IsElastic(job); });
  if (jobs.empty()) return;
  const Json& meta = Get(jobs[Below(jobs.size())], "metadata");
  cluster_->Patch("jobs", Text(Get(meta, "namespace")), Text(Get(meta, "name")),
                  {{"spec", {{"parallelism", 1 + Below(6)}}}});
}

void Chaos::SuspendJob() {
  const auto [ns, name] = AnyJob();
  cluster_->Patch("jobs", ns, name, {{"spec", {{"suspend", true}}}});
}

void Chaos::RelabelJob() {
  const auto [ns, name] = AnyJob();
  cluster_->Patch("jobs", ns, name, {{"metadata", {{"labels", {{kQueueName, AnyQueue("lq")}}}}}});
}

void Chaos::RaisePriority() {
  const auto [ns, name] = AnyJob();
  cluster_->Patch("jobs", ns, name,
                  {{"metadata", {{"labels", {{kPriorityClass, "p" + std::to_string(Below(kPriorities))}}}}}});
}

void Chaos::Deactivate() {
  const std::vector<Json> workloads = cluster_->List("workloads");
  if (workloads.empty()) return;
  const Json& meta = Get(workloads[Below(workloads.size())], "metadata");
  cluster_->Patch("workloads", Text(Get(meta, "namespace")), Text(Get(meta, "name")),
                  {{"spec", {{"active", OneIn(2)}}}});
}

void Chaos::DeleteWorkload() {
  const std::vector<Json> workloads = cluster_->List("workloads");
  if (workloads.empty()) return;
  const Json& meta = Get(workloads[Below(workloads.size())], "metadata");
  for (const Json& owner : Get(meta, "ownerReferences")) without_workload_.insert(Text(Get(owner, "uid")));
  cluster_->Delete("workloads", Text(Get(meta, "namespace")), Text(Get(meta, "name")));
}

// ---- faults -------------------------------------------------------------------------------------

void Chaos::Kill() {
  const size_t replica = AnyReplica() % cluster_->replicas();
  cluster_->KillAfter(replica, static_cast<int64_t>(Below(OneIn(2) ? 12 : 300)));
}

void Chaos::Pause() {
  const size_t replica = AnyReplica() % cluster_->replicas();
  cluster_->SetPaused(replica, true);
  cluster_->Run(milliseconds(static_cast<int64_t>(Below(OneIn(3) ? 30'000 : 3'000))));
  cluster_->SetPaused(replica, false);
}

void Chaos::BreakWatches() {
  constexpr Fault::Kind kKinds[] = {Fault::Kind::kCut, Fault::Kind::kGoneInStream, Fault::Kind::kGarbage};
  Fault fault;
  fault.kind = kKinds[Below(std::size(kKinds))];
  fault.lines = static_cast<int>(Below(3));
  cluster_->server.BreakWatches(AnyOf({"", "jobs", "workloads", "clusterqueues", "localqueues"}), fault);
}

void Chaos::Compact() {
  cluster_->store.Compact(cluster_->store.version());
  cluster_->server.BreakWatches("", Fault{Fault::Kind::kCut, 0, {}, {}, 0});
}

void Chaos::GoDown() {
  cluster_->server.SetDown(true);
  cluster_->Run(milliseconds(static_cast<int64_t>(Below(12'000))));
  cluster_->server.SetDown(false);
}

void Chaos::PauseControllers() {
  cluster_->controllers.SetPaused(true);
  cluster_->Run(milliseconds(static_cast<int64_t>(Below(8'000))));
  cluster_->controllers.SetPaused(false);
}

// The next writes of one kind meet one fault, which need not be one that chance has.
void Chaos::StrikeNext() {
  struct Way {
    Fault::Kind kind;
    int status = 0;
  };
  constexpr Way kWays[] = {{Fault::Kind::kRefuse},
                           {Fault::Kind::kAnswer, 403},
                           {Fault::Kind::kAnswer, 409},
                           {Fault::Kind::kAnswer, 422},
                           {Fault::Kind::kAnswer, 429},
                           {Fault::Kind::kAnswer, 500},
                           {Fault::Kind::kApplyAndAnswer, 500},
                           {Fault::Kind::kLoseRequest},
                           {Fault::Kind::kLoseAnswer},
                           {Fault::Kind::kApplyAndAnswer, 504},
                           {Fault::Kind::kHang},
                           {Fault::Kind::kDelayRequest},
                           {Fault::Kind::kDelayAnswer}};
  const Way way = kWays[Below(std::size(kWays))];
  sim::FaultRule rule;
  rule.user = Cluster::kMuster;
  rule.verbs = {"create", "update", "patch", "delete"};
  rule.resource = AnyOf({"jobs", "jobs", "workloads", "workloads/status", "clusterqueues/status", "leases"});
  rule.times = 1 + static_cast<int>(Below(3));
  rule.fault.kind = way.kind;
  rule.fault.status = way.status;
  rule.fault.delay = milliseconds(static_cast<int64_t>(Below(8'000)));
  cluster_->server.faults().Add(rule);
}

}  // namespace muster::sim_campaign
