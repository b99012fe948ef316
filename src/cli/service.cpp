#include "service.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "memory.h"
#include "muster/controller/controller.h"
#include "muster/k8s_client/access_review.h"
#include "muster/k8s_client/client.h"
#include "muster/server/access.h"

namespace muster::cli {
namespace {

constexpr Duration kHeartbeat = std::chrono::seconds(1);
constexpr int kBeatsBetweenSweeps = 60;
constexpr int kBeatsBetweenTrims = 5;

server::ReplicaRole RoleOf(const controller::Health& health, bool leader_elect) {
  if (!leader_elect) return server::ReplicaRole::kStandalone;
  return health.leading ? server::ReplicaRole::kLeader : server::ReplicaRole::kFollower;
}

std::vector<server::InformerCounts> CountsOf(const controller::Health& health) {
  std::vector<server::InformerCounts> counts;
  for (const auto& informer : health.informers) {
    counts.push_back({informer.kind, informer.lists, informer.watch_cuts, informer.objects});
  }
  return counts;
}

}  // namespace

class Service::Impl {
 public:
  Impl(Environment env, k8s::Transport* transport, Configuration config, server::BuildInfo build,
       std::function<void(const std::string&)> fatal)
      : env_(env),
        config_(std::move(config)),
        client_(env, transport, config_.client),
        metrics_(config_.metrics_options, std::move(build),
                 {[this] { return controller_.engine(); },
                  [this] { return RoleOf(controller_.health(), config_.controller.leader_elect); },
                  [this] { return Problems(); }, [this] { return CountsOf(controller_.health()); },
                  [this] { return Finished(); }, [this] { return Evicting(); }}),
        heartbeat_(env.clock),
        access_review_(env, transport),
        controller_(env, &client_, config_.controller, &metrics_, std::move(fatal)) {}

  ~Impl() { env_.executor->Cancel(beat_timer_); }

  void Start() {
    controller_.Start();
    Beat();
  }

  void Stop(std::function<void()> done) {
    stopping_ = true;
    controller_.Stop(std::move(done));
  }

  std::optional<size_t> release_left() const { return controller_.health().release_left; }

  std::map<std::string, server::Handler> HealthRoutes() {
    std::map<std::string, server::Handler> routes;
    for (const std::string& name : {std::string("livez"), std::string("healthz"), config_.liveness_endpoint}) {
      routes["/" + name] = server::LivenessHandler(name, &heartbeat_);
    }
    for (const std::string& name : {std::string("readyz"), config_.readiness_endpoint}) {
      routes["/" + name] =
          Readiness(name, config_.health.address.IsLoopback() ? server::Details::kAll : server::Details::kPublic);
    }
    return routes;
  }

  std::map<std::string, server::Handler> MetricsRoutes() {
    std::map<std::string, server::Handler> routes = {{"/metrics", server::MetricsHandler(env_.executor, &metrics_)}};
    if (config_.metrics_secured || config_.metrics.address.IsLoopback()) {
      routes["/debug/readyz"] = Readiness("readyz", server::Details::kAll);
    }
    if (!config_.metrics_secured) return routes;
    for (auto& [path, handler] : routes) {
      handler = server::RequireAccess(env_.executor, &access_review_, std::move(handler));
    }
    return routes;
  }

 private:
  server::Handler Readiness(const std::string& name, server::Details details) {
    return server::ReadinessHandler(
        name, env_.executor, [this] { return ReadinessChecks(); }, details);
  }

  void Beat() {
    heartbeat_.Beat(controller_.health().lease_healthy);
    if (++beats_ % kBeatsBetweenSweeps == 0) metrics_.Sweep();
    if (beats_ % kBeatsBetweenTrims == 0) memory_.Look();
    beat_timer_ = env_.executor->PostAt(env_.clock->Mono() + kHeartbeat, [this] { Beat(); });
  }

  int64_t Problems() const {
    return static_cast<int64_t>(controller_.health().problems.size()) + (access_review_.problem().empty() ? 0 : 1);
  }

  server::FinishedCounts Finished() const {
    const controller::FinishedCounts& counts = controller_.finished();
    return {counts.by_cluster_queue, counts.by_local_queue};
  }

  std::map<std::string, server::EvictingCount> Evicting() const {
    std::map<std::string, server::EvictingCount> out;
    for (const auto& [cluster_queue, count] : controller_.evicting()) {
      out[cluster_queue] = {count.workloads, count.oldest};
    }
    return out;
  }

  std::vector<server::Check> ReadinessChecks() const {
    const controller::Health health = controller_.health();
    const server::ReplicaRole role = RoleOf(health, config_.controller.leader_elect);
    std::vector<server::Check> checks;
    checks.push_back({"shutdown", !stopping_, stopping_ ? "the process is shutting down" : ""});
    checks.push_back({"caches", health.synced,
                      health.synced ? "" : absl::StrCat("not listed yet: ", absl::StrJoin(health.not_synced, ", "))});
    checks.push_back({"leader-election", health.lease_healthy,
                      health.lease_healthy ? role == server::ReplicaRole::kFollower ? "standing by" : "leading"
                                           : "leading, but the lease could not be renewed in time"});
    if (config_.controller.release) {
      const bool known = health.release_left.has_value();
      checks.push_back(
          {"release", known && *health.release_left == 0,
           known ? absl::StrCat(*health.release_left, " Jobs still carry an admission record") : "not leading yet"});
    }
    // They concern some objects or some rules; the rest goes on, so they do not make the process unready.
    for (const std::string& problem : health.problems) {
      checks.push_back({"problem", true, problem, /*warning=*/true, /*names_objects=*/true});
    }
    if (!access_review_.problem().empty()) checks.push_back({"problem", true, access_review_.problem(), true});
    return checks;
  }

  const Environment env_;
  const Configuration config_;
  k8s::Client client_;
  server::Metrics metrics_;
  server::Heartbeat heartbeat_;
  k8s::ApiAccessReview access_review_;
  controller::Controller controller_;
  Executor::TimerId beat_timer_ = 0;
  int beats_ = 0;
  MemoryTrimmer memory_;
  bool stopping_ = false;
};

Service::Service(Environment env, k8s::Transport* transport, Configuration config, server::BuildInfo build,
                 std::function<void(const std::string&)> fatal)
    : impl_(std::make_unique<Impl>(env, transport, std::move(config), std::move(build), std::move(fatal))) {}
Service::~Service() = default;
void Service::Start() { impl_->Start(); }
std::optional<size_t> Service::release_left() const { return impl_->release_left(); }
void Service::Stop(std::function<void()> done) { impl_->Stop(std::move(done)); }
std::map<std::string, server::Handler> Service::HealthRoutes() { return impl_->HealthRoutes(); }
std::map<std::string, server::Handler> Service::MetricsRoutes() { return impl_->MetricsRoutes(); }

}  // namespace muster::cli
