#include "real_world.h"

#include <catch2/catch.hpp>
#include <mutex>
#include <thread>

#include "fixture/cluster.h"
#include "fixture/muster.h"
#include "muster/core/clock.h"

namespace muster::scenarios {
namespace {

using cluster::Cluster;

// No lease: a test that kills Muster need not wait until it runs out. Pods that take time to end hold their quota.
constexpr std::string_view kConfig = R"(apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: "127.0.0.1:0"}
metrics: {bindAddress: "127.0.0.1:0"}
leaderElection: {leaderElect: false}
muster: {waitForTerminatingPods: true}
)";

void Must(const absl::Status& status) {
  INFO(status);
  REQUIRE(status.ok());
}

Json Parse(const std::string& text) { return sim::ParseJson(text).value_or(Json(text)); }

class RealWatch final : public WatchLines {
 public:
  RealWatch(cluster::ApiClient& api, const std::string& target) {
    const std::string path = target + (target.find('?') == std::string::npos ? "?" : "&") + "watch=true";
    watch_ = api.StartWatch(path + "&timeoutSeconds=7200", [this](const cluster::Json& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(Parse(line.Dump()));
    });
  }
  std::vector<Json> Lines() const override {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Json> lines_;
  std::unique_ptr<cluster::ApiClient::Watch> watch_;  // ends before what its thread writes to
};

class RealWorld final : public World {
 public:
  explicit RealWorld(const cluster::ClusterOptions& options) {
    auto started = Cluster::Start(options);
    Must(started.status());
    cluster_ = *std::move(started);
  }

  Cluster& cluster() { return *cluster_; }

  // Neither suspended nor refused.
  bool LetsQueuedJobsRun() {
    const Response probe = Call("POST", "/apis/batch/v1/namespaces/default/jobs?dryRun=All",
                                R"({"metadata":{"name":"probe","labels":{"kueue.x-k8s.io/queue-name":"lq"}},
        "spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"train:1"}]}}}})",
                                kJson);
    return probe.ok() && !Flag(At(probe.body, "spec", "suspend"));
  }

  // Until the garbage collector knows of Workloads it deletes none, and orphans none either.
  void AwaitCollectionOfWorkloads() {
    const std::string workloads = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads";
    const Response made = Call("POST", workloads, R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload",
        "metadata":{"name":"probe","ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"gone","uid":"gone"}]},
        "spec":{"podSets":[{"name":"main","count":1,"template":{"spec":{"containers":[]}}}]}})",
                               kJson);
    INFO(made.body);
    REQUIRE(made.ok());
    REQUIRE(Await([&] { return Call("GET", workloads + "/probe", "", kJson).code == 404; }, std::chrono::seconds(90)));
  }

  Response Call(std::string_view method, const std::string& target, const std::string& body,
                std::string_view type) override {
    const cluster::ApiResponse response = cluster_->Api().Call(method, target, body, type);
    return {response.status, Parse(response.text)};
  }

  std::unique_ptr<WatchLines> Watch(const std::string& target) override {
    return std::make_unique<RealWatch>(cluster_->Api(), target);
  }

  bool Await(const std::function<bool()>& holds, std::chrono::seconds patience) override {
    return cluster::Eventually(holds, patience, std::chrono::milliseconds(40));
  }

  void Pass(std::chrono::milliseconds time) override { std::this_thread::sleep_for(time); }
  WallTime Now() const override { return SystemClock().Now(); }

  void StartMuster() override {
    auto muster = cluster::Muster::Start(*cluster_, {.config = std::string(kConfig) + config_});
    Must(muster.status());
    muster_ = *std::move(muster);
  }

  void Configure(const std::string& yaml) override { config_ = yaml; }

  void KillMuster() override {
    muster_->process().Kill();
    muster_.reset();
  }

  std::string Diagnostics() const override {
    return muster_ == nullptr ? "Muster does not run" : "Muster's log ends:\n" + muster_->process().LogTail(20);
  }

 private:
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<cluster::Muster> muster_;
  std::string config_;
};

cluster::NodePool Machines(const std::string& flavor) {
  return {.name = flavor,
          .count = 2,
          .labels = {{"muster.dev/flavor", flavor}},
          .capacity = {{"cpu", "96"}, {"memory", "1Ti"}, {"pods", "110"}, {"nvidia.com/gpu", "8"}}};
}

}  // namespace

std::unique_ptr<World> NewRealServer() {
  auto world =
      std::make_unique<RealWorld>(cluster::ClusterOptions{.scheduler = false, .kwok = false, .controllers = false});
  Must(world->cluster().Apply(MUSTER_SOURCE_DIR "/config/crd"));
  Must(world->cluster().CreateNamespace("team"));
  return world;
}

std::unique_ptr<World> NewRealWorld() {
  auto world = std::make_unique<RealWorld>(
      cluster::ClusterOptions{.nodes = {Machines("a"), Machines("b"), Machines("tainted")}});
  for (int i = 0; i < 2; ++i) {
    const std::string node = "/api/v1/nodes/tainted-" + std::to_string(i);
    REQUIRE(world
                ->Call("PATCH", node,
                       R"({"spec":{"taints":[{"key":"dedicated","value":"batch","effect":"NoSchedule"}]}})",
                       kMergePatch)
                .ok());
  }
  Must(world->cluster().InstallMuster());
  for (const Json& flavor : Flavors()) {
    Response response;
    // A kind that is new is unknown to the admission policies for a moment.
    world->Await(
        [&] {
          response = world->Call("POST", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors", flavor.dump(), kJson);
          return response.code != 503;
        },
        std::chrono::seconds(60));
    INFO(response.body);
    REQUIRE(response.ok());
  }
  world->StartMuster();
  return world;
}

std::unique_ptr<World> NewRealWorldWithoutJobController() {
  auto world = std::make_unique<RealWorld>(cluster::ClusterOptions{
      .scheduler = false,
      .kwok = false,
      .controller_names = {"garbage-collector-controller", "namespace-controller", "ttl-after-finished-controller",
                           "clusterrole-aggregation-controller"}});
  Must(world->cluster().InstallMuster());
  for (const char* bindings : {"mutatingadmissionpolicybindings", "validatingadmissionpolicybindings"}) {
    const std::string target = std::string("/apis/admissionregistration.k8s.io/v1/").append(bindings);
    REQUIRE(world->Call("DELETE", target + "/muster-jobs", "", kJson).ok());
  }
  REQUIRE(world->Await([&] { return world->LetsQueuedJobsRun(); }, std::chrono::seconds(60)));
  // The garbage collector looks for new kinds every 30 seconds, and as it starts.
  Must(world->cluster().Restart(cluster::Component::kControllers));
  world->AwaitCollectionOfWorkloads();
  world->StartMuster();
  return world;
}

std::unique_ptr<World> NewRealWorldOfLastingPods(const std::map<std::string, std::string>& node_labels) {
  auto world = std::make_unique<RealWorld>(
      cluster::ClusterOptions{.nodes = {{.name = "node", .count = 2, .labels = node_labels}}, .pods_end = false});
  Must(world->cluster().InstallMuster());
  world->StartMuster();
  return world;
}

}  // namespace muster::scenarios
