#include "world.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "muster/sim/json_patch.h"

namespace muster::controller {

using sim::Json;

World::World(uint64_t s, bool play_controllers, sim::ServerOptions server_options,
             sim::ControllerOptions controller_options)
    : executor(s),
      store(executor.clock(), executor.NewRandom("store")),
      server(&executor, &store, server_options),
      seed(s) {
  if (play_controllers) {
    controllers = std::make_unique<sim::SimControllers>(&executor, &store, std::move(controller_options));
  }
  for (const char* ns : {"team", "muster-system"}) {
    Create({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns}}}});
  }
}

World::~World() {
  for (auto& process : processes) Kill(*process);
}

Options World::DefaultOptions() {
  Options options;
  options.managed_jobs_namespace_selector = DefaultManagedNamespaces("muster-system");
  options.check_policies = false;
  return options;
}

Process& World::Start(const std::string& identity, Options options) {
  Process& process = Launch(identity, std::move(options));
  if (identity.empty() && processes.size() == 1) RunUntil([&process] { return process.controller->health().leading; });
  return process;
}

Process& World::Launch(const std::string& identity, Options options) {
  processes.push_back(std::make_unique<Process>());
  Process& process = *processes.back();
  process.identity = identity;
  const std::string name = "muster-" + std::to_string(processes.size());
  process.source = executor.NewSource(name);
  process.random = executor.NewRandom(name);
  process.transport = server.Connect(kMuster, process.source.get(), nullptr);
  const Environment env{executor.clock(), &process.random, process.source.get()};
  process.client = std::make_unique<k8s::Client>(env, process.transport.get(), k8s::ClientOptions{});
  options.leader_elect = !identity.empty();
  options.lease.identity = identity;
  process.controller = std::make_unique<Controller>(env, process.client.get(), options, &process.telemetry,
                                                    [&process](const std::string&) { process.lost_leadership = true; });
  process.source->Post([&process] { process.controller->Start(); });
  return process;
}

void World::Kill(Process& process) {
  if (process.source != nullptr) process.source->Close();
  process.controller.reset();
  process.client.reset();
  process.transport.reset();
}

sim::Target World::TargetOf(const std::string& plural, const std::string& ns, const std::string& name,
                            const std::string& subresource) const {
  for (const auto& kind : store.kinds()) {
    if (kind->plural != plural || (plural == "events" && kind->group.empty())) continue;
    return {kind.get(), kind->versions.front(), ns, name, subresource};
  }
  FAIL("no kind " << plural);
  return {};
}

Json World::Create(Json object) {
  const sim::Kind* kind = store.FindKindOf(object);
  REQUIRE(kind != nullptr);
  const sim::Target target{kind, kind->versions.front(), sim::Text(sim::At(object, "metadata", "namespace")), "", ""};
  const sim::Answer answer = store.Create("admin", target, std::move(object));
  INFO(answer.body.dump());
  REQUIRE(answer.ok());
  return answer.body;
}

void World::Patch(const std::string& plural, const std::string& ns, const std::string& name, const Json& merge,
                  const std::string& subresource) {
  const sim::Answer answer =
      store.Patch("admin", TargetOf(plural, ns, name, subresource), sim::PatchKind::kMergePatch, merge.dump());
  INFO(answer.body.dump());
  REQUIRE(answer.ok());
}

void World::Delete(const std::string& plural, const std::string& ns, const std::string& name,
                   const std::string& propagation) {
  sim::DeleteOptions options;
  options.propagation = propagation;
  const sim::Answer answer = store.Delete("admin", TargetOf(plural, ns, name), options);
  INFO(answer.body.dump());
  REQUIRE(answer.ok());
}

Json World::Get(const std::string& plural, const std::string& ns, const std::string& name) const {
  const sim::JsonPtr found = store.Peek(TargetOf(plural, ns, name).kind, ns, name);
  return found == nullptr ? Json() : *found;
}

std::vector<Json> World::List(const std::string& plural, const std::string& ns) const {
  std::vector<Json> out;
  for (const sim::JsonPtr& object : store.PeekAll(TargetOf(plural, ns, "").kind)) {
    if (ns.empty() || sim::Text(sim::At(*object, "metadata", "namespace")) == ns) out.push_back(*object);
  }
  return out;
}

void World::MakeQueues(const std::string& cpu) {
  Create(Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ResourceFlavor","metadata":{"name":"f"},
    "spec":{"nodeLabels":{"tier":"std"}}})"));
  Json queue = Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ClusterQueue","metadata":{"name":"cq"},
    "spec":{"namespaceSelector":{},"queueingStrategy":"BestEffortFIFO","stopPolicy":"None","resourceGroups":[
      {"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[{"name":"cpu","nominalQuota":"0"}]}]}]}})");
  queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = cpu;
  Create(std::move(queue));
  Create(Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"LocalQueue",
    "metadata":{"name":"lq","namespace":"team"},"spec":{"clusterQueue":"cq","stopPolicy":"None"}})"));
  const bool led = std::ranges::any_of(
      processes, [](const auto& p) { return p->controller != nullptr && p->controller->health().leading; });
  if (!led) return;
  AwaitActive("clusterqueues", "", "cq");
  AwaitActive("localqueues", "team", "lq");
}

void World::AwaitActive(const std::string& plural, const std::string& ns, const std::string& name) {
  REQUIRE(RunUntil([&] {
    const Json now = Get(plural, ns, name);
    const Json& active = sim::FindCondition(sim::At(now, "status", "conditions"), "Active");
    const int64_t generation = sim::Number(sim::At(now, "metadata", "generation"), -1);
    return sim::Text(sim::Get(active, "status")) == "True" &&
           sim::Number(sim::Get(active, "observedGeneration")) == generation;
  }));
}

Json World::MakeJob(const std::string& name, int pods, int seconds, const std::string& queue, const Json& merge) {
  Json job = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"team","labels":{}},
    "spec":{"suspend":true,"template":{"metadata":{"annotations":{}},"spec":{"restartPolicy":"Never","containers":[
      {"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}})");
  job["metadata"]["name"] = name;
  job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue;
  job["spec"]["parallelism"] = pods;
  job["spec"]["completions"] = pods;
  job["spec"]["template"]["metadata"]["annotations"]["muster.dev/run-seconds"] = std::to_string(seconds);
  sim::ApplyMergePatch(merge, &job);
  return Create(std::move(job));
}

bool World::Finished(const std::string& name) const {
  const Json job = Get("jobs", "team", name);
  return sim::HasCondition(job, "Complete") || sim::HasCondition(job, "Failed");
}

Json World::WorkloadOf(const std::string& job) const {
  const std::string uid = sim::Text(sim::At(Get("jobs", "team", job), "metadata", "uid"));
  for (Json& workload : List("workloads", "team")) {
    if (sim::Text(sim::At(workload, "metadata", "labels", "kueue.x-k8s.io/job-uid")) == uid) return workload;
  }
  return {};
}

std::map<std::string, int> World::Writes(size_t from) const {
  std::map<std::string, int> out;
  for (size_t i = from; i < server.writes().size(); ++i) {
    const sim::WriteRecord& write = server.writes()[i];
    if (write.user == kMuster) ++out[write.verb + " " + write.resource];
  }
  return out;
}

}  // namespace muster::controller
