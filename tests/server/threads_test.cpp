// Where the server's thread meets the loop, with the executor that the product has. What is looked for is a race, so
// this is worth most under ThreadSanitizer.

#include <absl/strings/str_cat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/k8s_client/connection.h"
#include "muster/server/health.h"
#include "muster/server/http_server.h"
#include "muster/server/metrics.h"
#include "raw_client.h"

namespace muster::server {
namespace {

// A loop that always has something to do, and all that the product serves of it.
struct Served {
  Served()
      : metrics({}, {"v1", "abc", "today", "gcc", "linux/amd64"},
                {[] { return nullptr; }, [this] { return role; }, [this] { return problems; },
                 [this] {
                   return std::vector<InformerCounts>{{"Job", problems, 0}};
                 },
                 [] { return FinishedCounts{}; },
                 [] {
                   return std::map<std::string, EvictingCount>{};
                 }}) {
    auto started =
        HttpServer::Start({"127.0.0.1", 0}, {{"/metrics", MetricsHandler(&executor, &metrics)},
                                             {"/livez", LivenessHandler("livez", &heartbeat)},
                                             {"/readyz", ReadinessHandler(
                                                             "readyz", &executor, [this] { return Checks(); },
                                                             Details::kAll)}});
    REQUIRE(started.ok());
    server = *std::move(started);
    executor.Post([this] { Work(); });
    loop = std::thread([this] { executor.Run(); });
  }
  ~Served() {
    executor.Stop();
    loop.join();
  }

  std::vector<Check> Checks() const { return {{"caches", true, absl::StrCat(problems)}}; }

  void Work() {
    ++problems;
    role = problems % 2 == 0 ? ReplicaRole::kLeader : ReplicaRole::kFollower;
    heartbeat.Beat(true);
    metrics.AdmissionAttempt(true, std::chrono::milliseconds(1));
    metrics.Write("jobs", "patch", 200, std::chrono::milliseconds(2));
    executor.Post([this] { Work(); });
  }

  SystemClock clock;
  k8s::AsioExecutor executor;
  Heartbeat heartbeat{&clock};
  int64_t problems = 0;  // of the executor, as all that the sources read
  ReplicaRole role = ReplicaRole::kLeader;
  Metrics metrics;
  std::unique_ptr<HttpServer> server;
  std::thread loop;
};

constexpr const char* kPaths[] = {"/metrics", "/livez", "/readyz?verbose"};

TEST_CASE("probes and scrapes are answered while the loop works") {
  constexpr int kRounds = 20;
  Served served;
  std::atomic<int> answered{0};
  std::vector<std::thread> clients;
  for (const char* path : kPaths) {
    clients.emplace_back([&, path] {
      for (int i = 0; i < kRounds; ++i) {
        RawClient client(served.server->address().port);
        client.Send(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        if (client.ReadAll().starts_with("HTTP/1.1 200 ")) ++answered;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  CHECK(answered == kRounds * 3);
}

TEST_CASE("the server may end before its answers come, and while they come") {
  for (int round = 0; round < 10; ++round) {
    Served served;
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 12; ++i) {
      clients.push_back(std::make_unique<RawClient>(served.server->address().port));
      clients.back()->Send(absl::StrCat("GET ", kPaths[i % 3], " HTTP/1.1\r\nHost: x\r\n\r\n"));
    }
    served.server.reset();
    // Each got its answer, a part of it, or nothing; all are closed.
    for (const auto& client : clients) {
      const std::string answer = client->ReadAll();
      CHECK((answer.empty() || answer.starts_with("HTTP/1.1 200 ")));
    }
  }
}

}  // namespace
}  // namespace muster::server
