#include "cluster.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "muster/core/check.h"

namespace muster::sim_campaign {
namespace {

// Nobody who waits, for an answer or to try again, waits longer.
constexpr Duration kRest = std::chrono::minutes(6);

// What matters of a Job or a Workload; empty for others.
std::string InShort(const Json& object) {
  const std::string kind = Text(Get(object, "kind"));
  std::string text;
  if (kind == "Job") {
    const Json record =
        sim::ParseJson(Text(At(object, "metadata", "annotations", "muster.dev/admission"))).value_or(Json());
    text = Flag(At(object, "spec", "suspend")) ? "suspended" : "runs";
    text += " uid=" + Text(At(object, "metadata", "uid"));
    for (const char* key : {"state", "claim"}) text += " " + Text(Get(record, key));
    for (const char* key : {"reason", "preemptor"}) text += " " + Text(At(record, "eviction", key));
  } else if (kind == "Workload") {
    text = Flag(At(object, "spec", "active"), true) ? "active" : "inactive";
    for (const Json& condition : At(object, "status", "conditions")) {
      for (const char* key : {"type", "status", "reason"}) text += " " + Text(Get(condition, key));
    }
  }
  return text;
}

server::MetricsSource SourceOf(const Process* process) {
  const auto leads = [process] { return process->controller != nullptr && process->controller->health().leading; };
  server::MetricsSource source;
  source.engine = [process, leads]() -> const engine::EngineSet* {
    return leads() ? process->controller->engine() : nullptr;
  };
  source.role = [leads] { return leads() ? server::ReplicaRole::kLeader : server::ReplicaRole::kFollower; };
  source.problems = [process] { return static_cast<int64_t>(process->controller->health().problems.size()); };
  source.informers = [] { return std::vector<server::InformerCounts>(); };
  source.finished = [] { return server::FinishedCounts(); };
  source.evicting = [process] {
    std::map<std::string, server::EvictingCount> out;
    for (const auto& [queue, count] : process->controller->evicting()) out[queue] = {count.workloads, count.oldest};
    return out;
  };
  return source;
}

// Pods that are lost are made anew within the time that is rest.
sim::ControllerOptions OptionsOf(const ClusterOptions& options) {
  sim::ControllerOptions out;
  out.pod_objects = options.muster.check_machines;
  if (out.pod_objects) out.backoff_max = std::chrono::minutes(1);
  return out;
}

}  // namespace

Process::~Process() {
  source->Close();
  controller.reset();
  client.reset();
  transport.reset();
}

Cluster::Cluster(uint64_t seed, ClusterOptions options)
    : executor(seed),
      store(executor.clock(), executor.NewRandom("store")),
      server(&executor, &store, {}),
      controllers(&executor, &store, OptionsOf(options)),
      random_(executor.NewRandom("processes")),
      processes_(options.replicas),
      muster_(std::move(options.muster)) {
  if (muster_.check_machines) nodes.emplace(&executor, &store, sim::NodesOptions{});
  sim::AddMusterPolicies({}, &store.admission());
  store.Subscribe([this](const sim::Change& change) { Observe(change); });
  for (const char* ns : {"muster-system", "team-a", "team-b"}) {
    MUSTER_CHECK(Create({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns}}}}));
  }
  for (size_t i = 0; i < processes_.size(); ++i) Start(i);
}

Cluster::~Cluster() { processes_.clear(); }

void Cluster::Observe(const sim::Change& change) {
  if (spdlog::should_log(spdlog::level::info)) Tell(change);
  commits_.push_back({change.version, executor.Mono()});
  const std::string& plural = change.kind->plural;
  const bool deleted = change.type == sim::Change::Type::kDeleted;
  if (plural == "jobs") {
    const char* type = deleted ? "DELETED" : change.previous == nullptr ? "ADDED" : "MODIFIED";
    job_lines_.push_back({{"type", type}, {"object", *change.object}});
  }
  if (plural == "workloads" && !deleted) ObserveWorkload(change);
  if (plural != "clusterqueues" && plural != "cohorts") return;
  const bool queue = plural == "clusterqueues";
  const std::string name = Text(At(*change.object, "metadata", "name"));
  if (deleted) {
    const std::string version = std::to_string(change.version);
    queue ? judge_.QueueDeleted(name, version) : judge_.CohortDeleted(name, version);
  } else if (change.previous == nullptr || Get(*change.previous, "spec") != Get(*change.object, "spec")) {
    queue ? judge_.Queue(*change.object) : judge_.Cohort(*change.object);
  }
}

void Cluster::Tell(const sim::Change& change) const {
  const std::string now = change.type == sim::Change::Type::kDeleted ? "deleted" : InShort(*change.object);
  if (now.empty() || (change.previous != nullptr && InShort(*change.previous) == now)) return;
  const double at = static_cast<double>((executor.Mono() - MonoTime{}).count()) / 1e9;
  spdlog::info("{:.3f} s: {} {} {}", at, change.kind->kind, Text(At(*change.object, "metadata", "name")), now);
}

void Cluster::ObserveWorkload(const sim::Change& change) {
  const auto reserves = [](const Json& workload) { return sim::HasCondition(workload, "QuotaReserved"); };
  if (reserves(*change.object) && (change.previous == nullptr || !reserves(*change.previous))) {
    for (const Json& owner : At(*change.object, "metadata", "ownerReferences")) {
      reservations_.emplace_back(job_lines_.size(), Text(Get(owner, "uid")));
    }
  }
  const auto active = [](const Json& workload) { return Flag(At(workload, "spec", "active"), true); };
  const auto evicted = [](const Json& workload) {
    const Json& condition = sim::FindCondition(At(workload, "status", "conditions"), "Evicted");
    return Text(Get(condition, "status")) == "True" ? Text(Get(condition, "reason")) : std::string();
  };
  const std::string uid = Text(At(*change.object, "metadata", "uid"));
  const bool is_active = active(*change.object);
  if (!is_active && (change.previous == nullptr || active(*change.previous))) deactivated_[uid] = executor.Mono();
  const std::string reason = evicted(*change.object);
  if (reason.empty() || (change.previous != nullptr && evicted(*change.previous) == reason)) return;
  evictions_told_[uid] = {is_active, is_active ? Duration(0) : executor.Mono() - deactivated_[uid]};
}

// ---- processes ----------------------------------------------------------------------------------

void Cluster::Start(size_t replica) {
  processes_[replica] = std::make_unique<Process>();
  Process* process = processes_[replica].get();
  const std::string name = "muster-" + std::to_string(++runs_);
  process->source = executor.NewSource(name);
  process->random = executor.NewRandom(name);
  process->transport = server.Connect(kMuster, process->source.get(), &process->log);
  const Environment env{executor.clock(), &process->random, process->source.get()};
  process->client = std::make_unique<k8s::Client>(env, process->transport.get(), k8s::ClientOptions{});
  process->metrics = std::make_unique<server::Metrics>(server::MetricsOptions{.cluster_queue_resources = true},
                                                       server::BuildInfo{}, SourceOf(process));
  controller::Options options = muster_;
  options.managed_jobs_namespace_selector = controller::DefaultManagedNamespaces("muster-system");
  options.check_policies = false;  // here they are functions, not objects
  options.lease.identity = name;
  options.lease.retry_period = std::chrono::seconds(5);  // most of what happens at rest
  process->controller =
      std::make_unique<controller::Controller>(env, process->client.get(), options, process->metrics.get(),
                                               [process](const std::string&) { process->ended = true; });
  process->source->Post([process] { process->controller->Start(); });
}

void Cluster::Die(size_t replica, Duration down) {
  ++deaths_;
  processes_[replica] = nullptr;
  executor.PostAt(executor.Mono() + down, [this, replica] { Start(replica); });
}

void Cluster::KillAfter(size_t replica, int64_t inputs) {
  if (Process* process = processes_[replica].get()) process->dies_at = process->log.size() + inputs;
}

void Cluster::SetPaused(size_t replica, bool paused) {
  if (processes_[replica] != nullptr) processes_[replica]->source->SetPaused(paused);
}

void Cluster::Replace() {
  for (auto& process : processes_) process = nullptr;
  for (size_t i = 0; i < processes_.size(); ++i) Start(i);
}

void Cluster::LookAtProcesses() {
  for (size_t i = 0; i < processes_.size(); ++i) {
    const Process* process = processes_[i].get();
    if (process == nullptr) continue;
    if (process->ended || (process->dies_at >= 0 && process->log.size() >= process->dies_at)) {
      Die(i, Duration(static_cast<int64_t>(random_.Below(10'000)) * 1'000'000));
    }
  }
}

const Process* Cluster::Leader() const {
  for (const auto& process : processes_) {
    if (process != nullptr && process->controller->health().leading) return process.get();
  }
  return nullptr;
}

void Cluster::Run(Duration time) {
  RunUntil([] { return false; }, time);
}

bool Cluster::RunUntil(const std::function<bool()>& holds, Duration limit) {
  return executor.RunUntil(
      [&] {
        LookAtProcesses();
        return holds();
      },
      limit);
}

bool Cluster::AwaitRest() {
  const MonoTime end = executor.Mono() + 40 * kRest;
  const auto& writes = server.writes();
  MonoTime rests_since = executor.Mono();
  for (size_t looked_at = writes.size(); executor.Mono() < end;) {
    Run(std::chrono::seconds(20));
    for (; looked_at < writes.size(); ++looked_at) {
      const sim::WriteRecord& write = writes[looked_at];
      if (write.user == kMuster && write.resource != "leases") rests_since = executor.Mono();
    }
    if (executor.Mono() - rests_since >= kRest && Leader() != nullptr) return true;
  }
  return false;
}

// ---- the administrator --------------------------------------------------------------------------

sim::Target Cluster::TargetOf(const std::string& plural, const std::string& ns, const std::string& name) const {
  for (const auto& kind : store.kinds()) {
    if (kind->plural == plural) return {kind.get(), kind->versions.front(), ns, name, ""};
  }
  MUSTER_CHECK_MSG(false, "no kind " + plural);
  return {};
}

bool Cluster::Create(Json object) {
  const sim::Kind* kind = store.FindKindOf(object);
  MUSTER_CHECK(kind != nullptr);
  const sim::Target target{kind, kind->versions.front(), Text(At(object, "metadata", "namespace")), "", ""};
  return store.Create("admin", target, std::move(object)).ok();
}

bool Cluster::Patch(const std::string& plural, const std::string& ns, const std::string& name, const Json& merge,
                    const std::string& subresource) {
  sim::Target target = TargetOf(plural, ns, name);
  target.subresource = subresource;
  return store.Patch("admin", target, sim::PatchKind::kMergePatch, merge.dump()).ok();
}

bool Cluster::Delete(const std::string& plural, const std::string& ns, const std::string& name,
                     const std::string& propagation) {
  sim::DeleteOptions options;
  options.propagation = propagation;
  return store.Delete("admin", TargetOf(plural, ns, name), options).ok();
}

Json Cluster::Find(const std::string& plural, const std::string& ns, const std::string& name) const {
  const sim::JsonPtr found = store.Peek(TargetOf(plural, ns, name).kind, ns, name);
  return found == nullptr ? Json() : *found;
}

std::vector<Json> Cluster::List(const std::string& plural) const {
  std::vector<Json> out;
  for (const sim::JsonPtr& object : store.PeekAll(TargetOf(plural, "", "").kind)) out.push_back(*object);
  return out;
}

// ---- judging ------------------------------------------------------------------------------------

std::vector<std::string> Cluster::Findings(std::optional<Duration> lag) const {
  if (!lag.has_value()) return judge_.Findings(job_lines_);
  return judge_.Findings(job_lines_, [this, lag](int64_t version) {
    const auto by_version = [](const Commit& commit, int64_t v) { return commit.version < v; };
    const auto by_time = [](const Commit& commit, MonoTime t) { return commit.at < t; };
    const auto start = std::lower_bound(commits_.begin(), commits_.end(), version, by_version);
    const auto oldest = std::lower_bound(commits_.begin(), start, start->at + -*lag, by_time);
    return oldest->version - 1;
  });
}

std::string Cluster::Diagnostics() const {
  std::string out;
  for (const auto& process : processes_) {
    if (process != nullptr) out += process->source->name() + " heard last:\n" + process->log.Tail();
  }
  return out;
}

}  // namespace muster::sim_campaign
