// bench-jobs: how fast a controller starts Jobs on a real API server, and how fast a client without
// decisions would.
//
//   bench-jobs --kubeconfig admin.conf --namespace bench                  whatever controller runs there
//   bench-jobs --kubeconfig admin.conf --namespace bench --phase start-only --bare-kubeconfig starter.conf
//   bench-jobs --kubeconfig admin.conf --namespace bench --phase all-writes --bare-kubeconfig starter.conf
//
//   bench-jobs --kubeconfig admin.conf --namespace bench --phase waiting  the queue has no quota: all wait
//   bench-jobs --kubeconfig admin.conf --phase list                       how long a client lists Jobs and Workloads
//
// For the two ceilings no controller may run; scripts/bench-jobs runs all three in turn, each on a server of its own.
// Prints one line of name=value, and with --audit-log the writes a Job by client and kind below it. What it made stays.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>

#include "bare.h"
#include "list.h"
#include "load.h"
#include "muster/k8s_client/connection.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/resources.h"
#include "server_stats.h"

namespace muster::bench {
namespace {

struct Arguments {
  std::string kubeconfig;
  std::string bare_kubeconfig;
  std::string phase = "controller";
  std::string audit_log;
  LoadOptions load;
  int pace_ms = 0;
  int limit_seconds = 600;

  // Some controller is at work, and gets a queue.
  bool ForController() const { return phase == "controller" || phase == "waiting"; }
  bool ForBareClient() const { return phase == "start-only" || phase == "all-writes"; }
};

constexpr Duration kPoll = std::chrono::milliseconds(100);
// Before the load, for caches to fill.
constexpr Duration kSettle = std::chrono::seconds(2);
// After it, so that what a controller writes behind (queue status, Events) counts as well.
constexpr Duration kWriteBehind = std::chrono::seconds(3);

double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

double Percentile(std::vector<Duration> samples, double share) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const auto index = static_cast<size_t>(share * static_cast<double>(samples.size()));
  return Seconds(samples[std::min(index, samples.size() - 1)]);
}

// One connection with its own identity.
struct Connection {
  std::unique_ptr<k8s::Transport> transport;
  std::unique_ptr<k8s::Client> client;
};

absl::StatusOr<Connection> Connect(Environment env, const std::string& kubeconfig) {
  auto config = k8s::LoadKubeconfig(kubeconfig, "");
  if (!config.ok()) return config.status();
  auto transport = k8s::NewHttpTransport(env, *config, {.user_agent = "bench-jobs"});
  if (!transport.ok()) return transport.status();
  k8s::ClientOptions options;
  options.qps = -1;
  Connection connection{std::move(*transport), nullptr};
  connection.client = std::make_unique<k8s::Client>(env, connection.transport.get(), options);
  return connection;
}

class Bench {
 public:
  Bench(Arguments arguments, k8s::AsioExecutor* executor)
      : arguments_(std::move(arguments)), executor_(executor), env_{&clock_, &random_, executor} {}

  absl::Status Connect() {
    auto admin = bench::Connect(env_, arguments_.kubeconfig);
    if (!admin.ok()) return admin.status();
    admin_ = std::move(*admin);
    if (!arguments_.ForBareClient()) return absl::OkStatus();
    auto bare = bench::Connect(env_, arguments_.bare_kubeconfig);
    if (!bare.ok()) return bare.status();
    bare_connection_ = std::move(*bare);
    return absl::OkStatus();
  }

  void Run() {
    executor_->PostAt(clock_.Mono() + std::chrono::seconds(arguments_.limit_seconds), [this] {
      std::fprintf(stderr, "time limit: %s\n", load_ ? load_->Progress().c_str() : "not begun");
      Stop(1);
    });
    arguments_.phase == "list" ? List() : SetUp();
    executor_->Run();
  }
  int exit_code() const { return exit_code_; }

 private:
  void List() {
    lists_ = std::make_unique<Lists>(env_, admin_.client.get(), [this](const ListResult& result) {
      std::printf("phase=list jobs=%lld workloads=%lld bytes=%lld list_s=%.3f\n", static_cast<long long>(result.jobs),
                  static_cast<long long>(result.workloads), static_cast<long long>(result.bytes),
                  Seconds(result.took));
      Stop(0);
    });
    lists_->Start();
  }

  // Namespace and, for a controller, one queue: roomy, or without quota. What exists already is left as it is.
  void SetUp() {
    struct Item {
      k8s::Resource resource;
      std::string ns;
      std::string body;
    };
    const std::string& ns = arguments_.load.ns;
    std::vector<Item> items = {
        {k8s::kNamespaces, "", R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":")" + ns + R"("}})"}};
    if (arguments_.ForController()) {
      const std::string quota = arguments_.phase == "waiting" ? "0" : "1000000";
      const std::string head = R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":")";
      items.push_back({k8s::kResourceFlavors, "", head + R"(ResourceFlavor","metadata":{"name":"bench"}})"});
      items.push_back(
          {k8s::kClusterQueues, "",
           head + R"(ClusterQueue","metadata":{"name":"bench"},"spec":{"namespaceSelector":{},"resourceGroups":[)" +
               R"({"coveredResources":["cpu"],"flavors":[{"name":"bench","resources":[{"name":"cpu",)" +
               R"("nominalQuota":")" + quota + R"("}]}]}]}})"});
      items.push_back({k8s::kLocalQueues, ns,
                       head + R"(LocalQueue","metadata":{"name":"bench","namespace":")" + ns +
                           R"("},"spec":{"clusterQueue":"bench"}})"});
    }
    auto remaining = std::make_shared<std::vector<Item>>(items.rbegin(), items.rend());
    SetUpNext(remaining);
  }
  template <typename Items>
  void SetUpNext(const std::shared_ptr<Items>& remaining) {
    if (remaining->empty()) return Settle();
    const auto item = remaining->back();
    remaining->pop_back();
    admin_.client->Create(k8s::Lane::kStart, item.resource, item.ns, item.body,
                          [this, remaining](const k8s::Result& result) {
                            if (!result.ok() && result.code != 409) {
                              std::fprintf(stderr, "set-up: %d %s\n", result.code, result.message.c_str());
                              return Stop(1);
                            }
                            SetUpNext(remaining);
                          });
  }

  // Begins once the controller has taken up its queue, or the bare client has its watches open.
  void Settle() {
    if (arguments_.ForController()) return AwaitQueue();
    bare_ = std::make_unique<BareClient>(env_, bare_connection_.client.get(), arguments_.load.ns, arguments_.load.pods,
                                         arguments_.phase == "all-writes");
    bare_->Start();
    AwaitBare();
  }
  void AwaitBare() {
    if (bare_->synced()) return Begin();
    executor_->PostAt(clock_.Mono() + kPoll, [this] { AwaitBare(); });
  }
  void AwaitQueue() {
    admin_.client->Get(k8s::kClusterQueues, {"", "bench"}, [this](const k8s::Result& result) {
      if (result.ok()) {
        k8s::JsonDocument queue(result.body);
        if (k8s::IsTrue(k8s::DecodeConditions(queue.root()["status"]["conditions"]), "Active")) return Begin();
      }
      executor_->PostAt(clock_.Mono() + kPoll, [this] { AwaitQueue(); });
    });
  }

  void Begin() {
    executor_->PostAt(clock_.Mono() + kSettle, [this] {
      ReadCpu([this](std::optional<double> cpu) {
        cpu_before_ = cpu;
        audit_offset_ = FileSize(arguments_.audit_log);
        load_ = std::make_unique<Load>(env_, admin_.client.get(), arguments_.load,
                                       [this](const LoadResult& result) { Loaded(result); });
        load_->Start();
      });
    });
  }

  void Loaded(const LoadResult& result) {
    executor_->PostAt(clock_.Mono() + kWriteBehind, [this, result] {
      ReadCpu([this, result](std::optional<double> cpu) {
        Report(result, cpu);
        Stop(result.failed_creates == 0 ? 0 : 1);
      });
    });
  }

  void ReadCpu(std::function<void(std::optional<double>)> done) {
    admin_.client->Read("/metrics", "", [done](const k8s::Result& result) { done(CpuSeconds(result.body)); });
  }

  void Report(const LoadResult& r, std::optional<double> cpu) {
    const double jobs = arguments_.load.jobs - r.failed_creates;
    std::printf("phase=%s%s jobs=%.0f created_per_s=%.1f", arguments_.phase.c_str(),
                arguments_.pace_ms > 0 ? "-paced" : "", jobs, jobs / Seconds(r.creating));
    if (arguments_.load.goal != Goal::kWaiting) {
      std::printf(" started_per_s=%.1f p50_ms=%.1f p99_ms=%.1f", jobs / Seconds(r.started),
                  Percentile(r.create_to_start, 0.50) * 1000, Percentile(r.create_to_start, 0.99) * 1000);
    }
    if (arguments_.load.goal != Goal::kStarted) std::printf(" workloads_true_s=%.2f", Seconds(r.workloads));
    if (cpu && cpu_before_) std::printf(" apiserver_cpu_ms_per_job=%.2f", (*cpu - *cpu_before_) * 1000 / jobs);
    std::printf(" failed_creates=%d", r.failed_creates);
    if (bare_) std::printf(" failed_bare_writes=%d", bare_->failed());
    std::printf("\n");
    if (arguments_.audit_log.empty()) return;
    for (const auto& [key, count] : AuditedWrites(arguments_.audit_log, audit_offset_, arguments_.load.ns)) {
      std::printf("  writes a Job: %5.2f  %s  %s\n", count / jobs, key.second.c_str(), key.first.c_str());
    }
  }

  void Stop(int code) {
    exit_code_ = code;
    executor_->Stop();
  }

  Arguments arguments_;
  k8s::AsioExecutor* executor_;
  SystemClock clock_;
  SeededRandom random_ = SeededRandom::FromSystem();
  Environment env_;
  Connection admin_;
  Connection bare_connection_;
  std::unique_ptr<BareClient> bare_;
  std::unique_ptr<Load> load_;
  std::unique_ptr<Lists> lists_;
  std::optional<double> cpu_before_;
  long audit_offset_ = 0;
  int exit_code_ = 0;
};

int Main(int argc, char** argv) {
  Arguments a;
  CLI::App app("Creates suspended gang Jobs and measures how they are started.");
  app.add_option("--kubeconfig", a.kubeconfig, "an administrator's")->required();
  app.add_option("--bare-kubeconfig", a.bare_kubeconfig, "of the client that stands for the ceiling");
  app.add_option("--phase", a.phase)
      ->check(CLI::IsMember({"controller", "start-only", "all-writes", "waiting", "list"}))
      ->capture_default_str();
  app.add_option("--namespace", a.load.ns, "made if it is not there")->capture_default_str();
  app.add_option("--jobs", a.load.jobs);
  app.add_option("--pods", a.load.pods, "parallelism of each Job");
  app.add_option("--template-bytes", a.load.template_bytes, "added to each Job's template, different in each");
  app.add_option("--creators", a.load.creators, "creates in flight");
  app.add_option("--pace-ms", a.pace_ms, "time between two creations; 0: as fast as possible");
  app.add_option("--audit-log", a.audit_log, "of the API server, to count writes by client and kind");
  app.add_option("--limit-seconds", a.limit_seconds);
  CLI11_PARSE(app, argc, argv);
  a.load.pace = std::chrono::milliseconds(a.pace_ms);
  a.load.goal = a.phase == "start-only" ? Goal::kStarted : a.phase == "waiting" ? Goal::kWaiting : Goal::kAdmitted;
  if (a.ForBareClient() && a.bare_kubeconfig.empty()) {
    std::cerr << "--bare-kubeconfig is needed for the phase " << a.phase << "\n";
    return 2;
  }
  k8s::AsioExecutor executor;
  Bench bench(a, &executor);
  if (auto status = bench.Connect(); !status.ok()) {
    std::cerr << status.message() << "\n";
    return 2;
  }
  bench.Run();
  return bench.exit_code();
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) { return muster::bench::Main(argc, argv); }
