#include "sim_world.h"

#include <catch2/catch.hpp>
#include <optional>

#include "muster/cli/configuration.h"
#include "muster/controller/controller.h"
#include "muster/k8s_client/client.h"
#include "muster/sim/controllers.h"
#include "muster/sim/executor.h"
#include "muster/sim/input_log.h"
#include "muster/sim/server.h"
#include "muster/sim/store.h"

namespace muster::scenarios {
namespace {

constexpr const char* kMuster = "system:serviceaccount:muster-system:muster";
constexpr std::chrono::milliseconds kLook{20};

k8s::Method MethodOf(std::string_view method) {
  if (method == "GET") return k8s::Method::kGet;
  if (method == "POST") return k8s::Method::kPost;
  if (method == "PUT") return k8s::Method::kPut;
  return method == "PATCH" ? k8s::Method::kPatch : k8s::Method::kDelete;
}

k8s::HttpRequest RequestOf(std::string_view method, const std::string& target) {
  k8s::HttpRequest request;
  request.method = MethodOf(method);
  const size_t question = target.find('?');
  request.path = target.substr(0, question);
  if (question != std::string::npos) request.query = target.substr(question + 1);
  return request;
}

class SimWatch final : public WatchLines, private k8s::WatchHandler {
 public:
  SimWatch(k8s::Transport* transport, const std::string& target) {
    k8s::HttpRequest request = RequestOf("GET", target);
    request.query += std::string(request.query.empty() ? "" : "&") + "watch=true&timeoutSeconds=100000000";
    request.timeout = std::chrono::hours(24 * 365);
    stream_ = transport->Watch(std::move(request), this);
  }
  std::vector<Json> Lines() const override { return lines_; }

 private:
  void OnOpen() override {}
  void OnLine(std::string_view line) override { lines_.push_back(sim::ParseJson(line).value_or(Json())); }
  void OnClose(absl::Status, int, std::string, std::optional<Duration>) override {}

  std::vector<Json> lines_;
  std::unique_ptr<k8s::WatchStream> stream_;
};

class NoTelemetry final : public engine::Telemetry {
  void AdmissionAttempt(bool, Duration) override {}
  void QuotaReserved(const engine::QueueRef&, Duration) override {}
  void Admitted(const engine::QueueRef&, Duration, Duration) override {}
  void Evicted(const engine::QueueRef&, const std::string&, const std::string&, int64_t, bool) override {}
  void Preempted(const std::string&, const std::string&) override {}
  void TargetsRecomputed(const engine::TargetRecomputations&) override {}
  void SliceReplaced(const engine::QueueRef&) override {}
  void EvictionDone(const engine::QueueRef&, const std::string&, Duration) override {}
  void PodsReady(const engine::QueueRef&, Duration, Duration) override {}
  void ReadyPodsEvicted(const engine::QueueRef&, const std::string&, const std::string&, Duration) override {}
  void Finished(const engine::QueueRef&, Duration) override {}
  void WorkloadCreated(const std::string&, Duration) override {}
  void Write(const std::string&, const std::string&, int, Duration) override {}
  void EventDropped() override {}
};

// One run of Muster's process.
struct Process {
  std::unique_ptr<sim::SimSource> source;
  SeededRandom random{1};
  std::unique_ptr<k8s::Transport> transport;
  std::unique_ptr<k8s::Client> client;
  NoTelemetry telemetry;
  std::unique_ptr<controller::Controller> controller;

  ~Process() {
    source->Close();
    controller.reset();
    client.reset();
    transport.reset();
  }
};

class SimWorld final : public World {
 public:
  explicit SimWorld(uint64_t seed)
      : executor_(seed),
        store_(executor_.clock(), executor_.NewRandom("store")),
        server_(&executor_, &store_, {}),
        log_(60),
        admin_(server_.Connect("admin", &executor_, nullptr)) {}
  ~SimWorld() override {
    if (process_ != nullptr && process_->controller->engine() != nullptr) process_->controller->engine()->Validate();
    KillMuster();
  }

  void AddControllers(const sim::ControllerOptions& options) {
    controllers_ = std::make_unique<sim::SimControllers>(&executor_, &store_, options);
  }
  void AddPolicies() {
    sim::MusterPolicyOptions options;
    options.default_queue = [this](const std::string& ns) {
      const sim::JsonPtr queue = store_.Peek(store_.FindKind("kueue.x-k8s.io", "localqueues"), ns, "default");
      return queue == nullptr ? Json() : *queue;
    };
    sim::AddMusterPolicies(options, &store_.admission());
  }

  Response Call(std::string_view method, const std::string& target, const std::string& body,
                std::string_view type) override {
    k8s::HttpRequest request = RequestOf(method, target);
    request.body = body;
    if (!body.empty()) request.content_type = type;
    std::optional<k8s::HttpResponse> answer;
    admin_->Call(std::move(request), [&](k8s::HttpResponse response) { answer = std::move(response); });
    if (!executor_.RunUntil([&] { return answer.has_value(); }, std::chrono::minutes(1))) return {};
    return {answer->status, sim::ParseJson(answer->body).value_or(Json(answer->body))};
  }

  std::unique_ptr<WatchLines> Watch(const std::string& target) override {
    return std::make_unique<SimWatch>(admin_.get(), target);
  }

  bool Await(const std::function<bool()>& holds, std::chrono::seconds patience) override {
    const MonoTime end = executor_.Mono() + patience;
    while (!holds()) {
      if (executor_.Mono() >= end) return false;
      executor_.RunFor(kLook);
    }
    return true;
  }

  void Pass(std::chrono::milliseconds time) override { executor_.RunFor(time); }
  WallTime Now() const override { return executor_.Now(); }

  void StartMuster() override {
    process_ = std::make_unique<Process>();
    const std::string name = "muster-" + std::to_string(++runs_);
    process_->source = executor_.NewSource(name);
    process_->random = executor_.NewRandom(name);
    process_->transport = server_.Connect(kMuster, process_->source.get(), &log_);
    const Environment env{executor_.clock(), &process_->random, process_->source.get()};
    process_->client = std::make_unique<k8s::Client>(env, process_->transport.get(), k8s::ClientOptions{});
    controller::Options options = ReadOptions();
    options.check_policies = false;  // here they are functions, not objects
    options.leader_elect = false;
    options.wait_for_terminating_pods = true;
    process_->controller = std::make_unique<controller::Controller>(
        env, process_->client.get(), options, &process_->telemetry, [](const std::string& why) { FAIL(why); });
    process_->source->Post([process = process_.get()] { process->controller->Start(); });
    // Nothing is to be waited for beside its wait for a predecessor's writes, of which a scenario's first has none.
    if (runs_ == 1)
      executor_.RunUntil([this] { return process_->controller->health().leading; }, std::chrono::minutes(1));
  }

  void Configure(const std::string& yaml) override { config_ = yaml; }
  void KillMuster() override { process_.reset(); }

  std::string Diagnostics() const override { return "Muster heard last:\n" + log_.Tail(); }

 private:
  controller::Options ReadOptions() const {
    const std::string text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n" + config_;
    auto read = cli::ParseConfiguration(text, "muster-system");
    if (const auto* errors = std::get_if<std::vector<cli::ConfigError>>(&read))
      FAIL(errors->front().ToString("config"));
    return std::get<cli::Configuration>(std::move(read)).controller;
  }

  sim::SimExecutor executor_;
  sim::SimStore store_;
  sim::SimServer server_;
  sim::InputLog log_;
  std::unique_ptr<k8s::Transport> admin_;
  std::unique_ptr<sim::SimControllers> controllers_;
  std::unique_ptr<Process> process_;
  std::string config_;
  int runs_ = 0;
};

void MakeNamespace(World& world, const std::string& name) {
  const Json ns = {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name}}}};
  REQUIRE(world.Call("POST", "/api/v1/namespaces", ns.dump()).ok());
}

}  // namespace

std::unique_ptr<World> NewSimServer(uint64_t seed) {
  auto world = std::make_unique<SimWorld>(seed);
  MakeNamespace(*world, "team");
  return world;
}

std::unique_ptr<World> NewSimWorld(uint64_t seed) {
  auto world = std::make_unique<SimWorld>(seed);
  world->AddControllers({});
  world->AddPolicies();
  MakeNamespace(*world, "muster-system");
  for (const Json& flavor : Flavors()) {
    REQUIRE(world->Call("POST", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors", flavor.dump(), kJson).ok());
  }
  world->StartMuster();
  return world;
}

std::unique_ptr<World> NewSimWorldWithoutJobController(uint64_t seed, const std::string& config) {
  auto world = std::make_unique<SimWorld>(seed);
  sim::ControllerOptions options;
  options.jobs = false;
  world->AddControllers(options);
  world->Configure(config);
  MakeNamespace(*world, "muster-system");
  world->StartMuster();
  return world;
}

}  // namespace muster::scenarios
