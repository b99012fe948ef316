// The whole service on the simulated API server: what probes and scrapes see at each stage of its life.

#include "service.h"

#include <absl/strings/str_cat.h>

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/sim/controllers.h"
#include "muster/sim/server.h"

namespace muster::cli {
namespace {

using std::chrono::seconds;

// One process: its tasks, its connection, its service.
struct Process {
  // `adjust` (may be null) changes the configuration, which has metrics on loopback.
  Process(sim::SimExecutor* executor, sim::SimServer* server, const std::string& name,
          const std::function<void(Configuration*)>& adjust = nullptr)
      : source(executor->NewSource(name)), random(executor->NewRandom(name)) {
    transport = server->Connect("system:serviceaccount:muster-system:muster", source.get(), nullptr);
    Configuration config = DefaultConfiguration("muster-system");
    config.controller.lease.identity = name;
    config.metrics_options.cluster_queue_resources = true;
    config.metrics.address = {"127.0.0.1", 0};
    config.metrics_secured = false;
    if (adjust) adjust(&config);
    service = std::make_unique<Service>(Environment{executor->clock(), &random, source.get()}, transport.get(), config,
                                        server::BuildInfo{"v1", "", "", "", ""},
                                        [this](const std::string& why) { ended = why; });
  }

  std::unique_ptr<sim::SimSource> source;
  SeededRandom random;
  std::unique_ptr<k8s::Transport> transport;
  std::string ended;
  std::unique_ptr<Service> service;
};

struct World {
  World()
      : executor(1),
        store(executor.clock(), executor.NewRandom("store")),
        server(&executor, &store, {}),
        controllers(&executor, &store, {}) {
    Make(R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"muster-system"}})");
    Make(R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team"}})");
  }

  void Make(const std::string& text) {
    const auto object = sim::ParseJson(text);
    REQUIRE(object.has_value());
    const sim::Kind* kind = store.FindKindOf(*object);
    REQUIRE(kind != nullptr);
    const std::string api_version = sim::Text(sim::Get(*object, "apiVersion"));
    const sim::Target target{kind, api_version.substr(api_version.rfind('/') + 1),
                             sim::Text(sim::At(*object, "metadata", "namespace")), "", ""};
    REQUIRE(store.Create("admin", target, *object).ok());
  }

  server::HttpReply Ask(const server::Handler& handler, const server::HttpRequest& request = {}) {
    std::optional<server::HttpReply> reply;
    handler(request, [&reply](auto render) { reply = render(); });
    REQUIRE(executor.RunUntil([&reply] { return reply.has_value(); }, seconds(1)));
    return *reply;
  }
  server::HttpReply Ready(Process* process) {
    return Ask(process->service->HealthRoutes().at("/readyz"), {"/readyz", {{"verbose", ""}}});
  }
  server::HttpReply Live(Process* process) { return Ask(process->service->HealthRoutes().at("/livez")); }
  std::string Metrics(Process* process) { return Ask(process->service->MetricsRoutes().at("/metrics")).body; }

  sim::SimExecutor executor;
  sim::SimStore store;
  sim::SimServer server;
  sim::SimControllers controllers;
};

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("a leader is ready, says so, and counts what it did") {
  World world;
  world.Make(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ResourceFlavor","metadata":{"name":"f"},"spec":{}})");
  world.Make(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ClusterQueue","metadata":{"name":"cq"},"spec":{
    "namespaceSelector":{},"resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[
    {"name":"cpu","nominalQuota":"2"}]}]}]}})");
  world.Make(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"LocalQueue","metadata":{"name":"lq","namespace":"team"},
    "spec":{"clusterQueue":"cq"}})");
  Process process(&world.executor, &world.server, "one");
  CHECK(world.Ready(&process).status == 500);
  CHECK(Has(world.Ready(&process).body, "[-]caches failed: not listed yet: "));
  CHECK(world.Live(&process).status == 200);

  process.service->Start();
  world.executor.RunFor(seconds(10));
  const server::HttpReply ready = world.Ready(&process);
  CHECK(ready.status == 200);
  CHECK(Has(ready.body, "[+]caches ok\n"));
  CHECK(Has(ready.body, "[+]leader-election ok: leading\n"));
  // Nobody has applied the admission policies here. Others can reach the probes, so they are not told what it is.
  CHECK(Has(ready.body, "[!]problem warning: withheld; "));
  CHECK_FALSE(Has(ready.body, "muster-jobs"));
  CHECK(Has(world.Ask(process.service->MetricsRoutes().at("/debug/readyz")).body,
            "[!]problem warning: MutatingAdmissionPolicy muster-jobs is missing\n"));

  // 3 gangs of one cpu, quota for two.
  for (const std::string name : {"a", "b", "c"}) {
    world.Make(absl::StrCat(
        R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":")", name,
        R"(","namespace":"team","labels":{"kueue.x-k8s.io/queue-name":"lq"}},"spec":{"suspend":true,"parallelism":1,
        "completions":1,"template":{"metadata":{"annotations":{"muster.dev/run-seconds":"600"}},"spec":{
        "restartPolicy":"Never","containers":[{"name":"m","image":"i","resources":{"requests":{"cpu":"1"}}}]}}}})"));
  }
  world.executor.RunFor(seconds(10));
  const std::string metrics = world.Metrics(&process);
  CHECK(
      Has(metrics, R"(kueue_admitted_workloads_total{cluster_queue="cq",priority_class="",replica_role="leader"} 2)"));
  CHECK(Has(metrics, R"(kueue_pending_workloads{cluster_queue="cq",status="inadmissible",replica_role="leader"} 1)"));
  CHECK(Has(metrics, R"(kueue_cluster_queue_resource_usage{cohort="",cluster_queue="cq",flavor="f",resource="cpu",)"
                     R"(replica_role="leader"} 2)"));
  CHECK(Has(metrics, R"(muster_api_writes_total{resource="jobs",verb="patch",code="200",replica_role="leader"} 2)"));
  CHECK(Has(metrics, R"(muster_informer_lists_total{kind="Job",replica_role="leader"} )"));
  CHECK(Has(metrics, R"(muster_unwritten_claims{replica_role="leader"} 0)"));
  CHECK(process.ended.empty());
}

TEST_CASE("where rights cannot be looked up nobody reads metrics, and readiness says why") {
  World world;
  Process process(&world.executor, &world.server, "one", [](Configuration* config) {
    config->metrics.address = {"", 8443};
    config->metrics_secured = true;
  });
  process.service->Start();
  world.executor.RunFor(seconds(10));
  const auto routes = process.service->MetricsRoutes();
  CHECK(world.Ask(routes.at("/metrics")).status == 401);
  CHECK(world.Ask(routes.at("/debug/readyz")).status == 401);
  // The simulated API server has no TokenReview.
  for (const std::string path : {"/metrics", "/debug/readyz"}) {
    CHECK(world.Ask(routes.at(path), {path, {}, "get", "Bearer t"}).status == 503);
  }
  CHECK(Has(world.Ready(&process).body, "[!]problem warning: who may read metrics cannot be asked (/apis/authen"));
}

TEST_CASE("plain HTTP that others reach tells nothing but the metrics") {
  World world;
  Process process(&world.executor, &world.server, "one", [](Configuration* config) {
    config->metrics.address = {"", 8443};
  });
  CHECK(process.service->MetricsRoutes().size() == 1);
}

TEST_CASE("a standby is ready too, and takes over after a clean stop") {
  World world;
  Process first(&world.executor, &world.server, "one");
  first.service->Start();
  world.executor.RunFor(seconds(5));
  Process second(&world.executor, &world.server, "two");
  second.service->Start();
  world.executor.RunFor(seconds(10));
  const server::HttpReply standby = world.Ready(&second);
  CHECK(standby.status == 200);
  CHECK(Has(standby.body, "[+]leader-election ok: standing by\n"));
  CHECK(Has(world.Metrics(&second), R"(muster_standing_problems{replica_role="follower"})"));

  bool stopped = false;
  first.service->Stop([&stopped] { stopped = true; });
  const server::HttpReply leaving = world.Ready(&first);
  CHECK(leaving.status == 500);
  CHECK(Has(leaving.body, "[-]shutdown failed: the process is shutting down\n"));
  REQUIRE(world.executor.RunUntil([&stopped] { return stopped; }, seconds(20)));
  CHECK(first.ended.empty());
  world.executor.RunFor(seconds(20));
  CHECK(Has(world.Ready(&second).body, "[+]leader-election ok: leading\n"));
}

TEST_CASE("a hand-over is ready once no Job carries a record") {
  World world;
  Process process(&world.executor, &world.server, "one", [](Configuration* config) {
    config->controller.release = true;
    config->health.address.host = "127.0.0.1";
  });
  world.Make(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"team","labels":{
    "kueue.x-k8s.io/queue-name":"lq"},"annotations":{"muster.dev/admission":"no record"}},"spec":{"suspend":true,
    "template":{"spec":{"restartPolicy":"Never","containers":[{"name":"m","image":"i"}]}}}})");
  process.service->Start();
  world.executor.RunFor(seconds(3));
  CHECK_FALSE(process.service->release_left().has_value());
  CHECK(world.Ready(&process).status == 500);
  CHECK(Has(world.Ready(&process).body, "[-]release failed: not leading yet\n"));
  world.executor.RunFor(seconds(20));
  CHECK(process.service->release_left() == size_t{0});
  CHECK(world.Ready(&process).status == 200);
}

TEST_CASE("without an API server the process lives and is not ready, and recovers by itself") {
  World world;
  world.server.SetDown(true);
  Process process(&world.executor, &world.server, "one");
  process.service->Start();
  world.executor.RunFor(std::chrono::minutes(5));
  CHECK(world.Live(&process).status == 200);
  CHECK(world.Ready(&process).status == 500);
  CHECK(Has(world.Ready(&process).body, "ClusterQueue"));
  world.server.SetDown(false);
  world.executor.RunFor(std::chrono::minutes(2));
  CHECK(world.Ready(&process).status == 200);
}

TEST_CASE("a process whose loop hangs is not live") {
  World world;
  Process process(&world.executor, &world.server, "one");
  process.service->Start();
  world.executor.RunFor(seconds(5));
  CHECK(world.Live(&process).status == 200);
  process.source->SetPaused(true);
  world.executor.RunFor(seconds(40));
  // Liveness does not need the loop to answer.
  std::optional<server::HttpReply> reply;
  process.service->HealthRoutes().at("/livez")({}, [&reply](auto render) { reply = render(); });
  REQUIRE(reply.has_value());
  CHECK(reply->status == 500);
  CHECK(Has(reply->body, "[-]executor failed: no heartbeat for "));
}

}  // namespace
}  // namespace muster::cli
