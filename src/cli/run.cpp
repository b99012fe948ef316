#include "run.h"

#include <absl/strings/str_cat.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "logging.h"
#include "memory.h"
#include "muster/cli/configuration.h"
#include "muster/controller/policies.h"
#include "muster/core/log_fields.h"
#include "muster/core/small_file.h"
#include "muster/k8s_client/connection.h"
#include "service.h"
#include "version.h"

namespace muster::cli {
namespace {

// As much as a ConfigMap can hold.
constexpr size_t kConfigurationBytesMax = 1024 * 1024;
constexpr const char* kDefaultNamespace = "muster-system";
constexpr Duration kReleasePoll = std::chrono::milliseconds(500);
// Shorter than the 30 s that a pod gets.
constexpr Duration kStopMax = std::chrono::seconds(25);

// RETURNS: nothing where there are errors, which have been printed.
std::optional<Configuration> LoadConfiguration(const std::string& path, const std::string& ns) {
  if (path.empty()) return DefaultConfiguration(ns);
  const absl::StatusOr<std::string> text = ReadSmallFile(path, kConfigurationBytesMax);
  if (!text.ok()) {
    std::fprintf(stderr, "%s\n", std::string(text.status().message()).c_str());
    return std::nullopt;
  }
  auto result = ParseConfiguration(*text, ns);
  if (auto* config = std::get_if<Configuration>(&result)) return std::move(*config);
  for (const ConfigError& error : std::get<std::vector<ConfigError>>(result)) {
    std::fprintf(stderr, "%s\n", error.ToString(path).c_str());
  }
  return std::nullopt;
}

absl::StatusOr<k8s::ConnectionConfig> Connect(const RunFlags& flags) {
  const bool in_cluster = std::getenv("KUBERNETES_SERVICE_HOST") != nullptr;
  if (flags.kubeconfig.empty() && flags.context.empty() && in_cluster) return k8s::InClusterConfig();
  return k8s::LoadKubeconfig(flags.kubeconfig, flags.context);
}

// client-go's form: host name and something that no other process has.
std::string NewIdentity(Random* random) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  char suffix[40];
  std::snprintf(suffix, sizeof suffix, "_%016llx%016llx", static_cast<unsigned long long>(random->Next()),
                static_cast<unsigned long long>(random->Next()));
  return std::string(host) + suffix;
}

// One run of the process, from the first connection to the exit code.
class Process {
 public:
  int Run(const RunFlags& flags);

 private:
  bool Listen();
  bool ListenOn(const char* what, const Listener& listener, std::map<std::string, server::Handler> routes,
                server::HttpServerOptions options, std::unique_ptr<server::HttpServer>* server);
  void AwaitRelease();
  void Terminate();
  void Stop();
  void End(int code) {
    exit_code_ = code;
    executor_.Stop();
  }

  SystemClock clock_;
  SeededRandom random_ = SeededRandom::FromSystem();
  k8s::AsioExecutor executor_;
  Configuration config_;
  std::unique_ptr<k8s::Transport> transport_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<server::HttpServer> health_server_;
  std::unique_ptr<server::HttpServer> metrics_server_;
  bool stay_ = false;
  bool stopping_ = false;
  int exit_code_ = kExitFailed;
  int stopped_code_ = kExitOk;  // of an orderly stop
};

int Process::Run(const RunFlags& flags) {
  const auto connection = Connect(flags);
  if (!connection.ok()) {
    spdlog::error("no way to the API server{}", LogFields({{"error", std::string(connection.status().message())}}));
    return kExitFailed;
  }
  std::string ns = flags.ns;
  if (ns.empty() && !connection->token_file.empty()) ns = connection->ns;
  auto config = LoadConfiguration(flags.config, ns.empty() ? kDefaultNamespace : ns);
  if (!config) return kExitUsage;
  config_ = *std::move(config);
  config_.controller.lease.identity = NewIdentity(&random_);
  config_.controller.release = flags.release;
  stay_ = flags.stay;
  for (const std::string& note : config_.notes) spdlog::info("{}", note);

  const Environment env{&clock_, &random_, &executor_};
  k8s::TransportOptions transport_options;
  transport_options.user_agent = absl::StrCat("muster/", GetBuildInfo().version);
  auto transport = k8s::NewHttpTransport(env, *connection, transport_options);
  if (!transport.ok()) {
    spdlog::error("no way to the API server{}", LogFields({{"error", std::string(transport.status().message())}}));
    return kExitFailed;
  }
  transport_ = *std::move(transport);
  spdlog::info("muster serves a cluster{}", LogFields({{"version", GetBuildInfo().version},
                                                       {"server", connection->server},
                                                       {"namespace", config_.controller.ns},
                                                       {"identity", config_.controller.lease.identity}}));
  service_ = std::make_unique<Service>(env, transport_.get(), config_, GetBuildInfo(), [this](const std::string& why) {
    spdlog::error("the process ends{}", LogFields({{"reason", why}}));
    End(kExitFailed);
  });
  executor_.Post([this] { service_->Start(); });
  if (flags.release) {
    stopped_code_ = kExitFailed;
    executor_.Post([this] { AwaitRelease(); });
  }
  executor_.OnTerminate([this] { Terminate(); });  // from the log's next line on, a signal ends it in order
  if (!Listen()) return kExitFailed;
  executor_.Run();
  // The servers first: they ask the service.
  metrics_server_.reset();
  health_server_.reset();
  service_.reset();
  transport_.reset();
  spdlog::info("exit{}", LogFields({{"code", std::to_string(exit_code_)}}));
  return exit_code_;
}

bool Process::Listen() {
  server::HttpServerOptions metrics;
  if (config_.metrics_secured) metrics.tls = config_.metrics_tls;
  return ListenOn("health endpoints", config_.health, service_->HealthRoutes(), {}, &health_server_) &&
         ListenOn("metrics", config_.metrics, service_->MetricsRoutes(), std::move(metrics), &metrics_server_);
}

bool Process::ListenOn(const char* what, const Listener& listener, std::map<std::string, server::Handler> routes,
                       server::HttpServerOptions options, std::unique_ptr<server::HttpServer>* server) {
  if (!listener.enabled) return true;
  const bool tls = options.tls.has_value();
  auto started = server::HttpServer::Start(listener.address, std::move(routes), std::move(options));
  if (!started.ok()) {
    spdlog::error("{} cannot be served{}", what, LogFields({{"error", std::string(started.status().message())}}));
    return false;
  }
  *server = *std::move(started);
  spdlog::info("{} on {}{}", what, (*server)->address().ToString(), tls ? ", HTTPS with authorization" : "");
  return true;
}

void Process::AwaitRelease() {
  if (service_->release_left() != size_t{0}) {
    executor_.PostAt(clock_.Mono() + kReleasePoll, [this] { AwaitRelease(); });
    return;
  }
  stopped_code_ = kExitOk;
  spdlog::info("no Job carries an admission record any more{}",
               LogFields({{"next", "delete the policies and Muster, then start Kueue"}}));
  if (!stay_) Stop();
}

void Process::Terminate() {
  spdlog::info("asked to stop: no more decisions, writes in flight end, the lease is released");
  Stop();
}

void Process::Stop() {
  if (std::exchange(stopping_, true)) return;
  executor_.PostAt(clock_.Mono() + kStopMax, [this] {
    spdlog::error("the stop took too long");
    End(kExitFailed);
  });
  service_->Stop([this] { End(stopped_code_); });
}

}  // namespace

int Run(const RunFlags& flags) {
  SetUpMemory();
  SetUpLogging(flags.log_format, flags.log_level);
  return Process().Run(flags);
}

int CheckConfig(const std::string& path, const std::string& ns) {
  const auto config = LoadConfiguration(path, ns.empty() ? kDefaultNamespace : ns);
  if (!config) return kExitUsage;
  for (const std::string& note : config->notes) std::printf("note: %s\n", note.c_str());
  std::printf("%s: ok\n", path.c_str());
  return kExitOk;
}

int PrintPolicies(const std::string& path, const std::string& ns, const std::string& kinds) {
  const auto config = LoadConfiguration(path, ns.empty() ? kDefaultNamespace : ns);
  if (!config) return kExitUsage;
  const auto wanted = kinds == "mutating"     ? controller::PolicyKinds::kMutating
                      : kinds == "validating" ? controller::PolicyKinds::kValidating
                                              : controller::PolicyKinds::kAll;
  std::fputs(controller::GeneratePolicies(controller::PolicyOptionsOf(config->controller), wanted).c_str(), stdout);
  return kExitOk;
}

}  // namespace muster::cli
