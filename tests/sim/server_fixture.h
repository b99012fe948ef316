// A simulated API server with one client, for tests.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/sim/server.h"

namespace muster::sim {

// Remembers what a watch delivered.
struct WatchLog final : k8s::WatchHandler {
  int opened = 0;
  std::vector<std::string> lines;
  bool closed = false;
  absl::Status status;
  int http_status = 0;
  std::string body;

  void OnOpen() override { ++opened; }
  void OnLine(std::string_view line) override { lines.emplace_back(line); }
  void OnClose(absl::Status end, int code, std::string text, std::optional<Duration>) override {
    CHECK_FALSE(closed);
    closed = true;
    status = std::move(end);
    http_status = code;
    body = std::move(text);
  }
  // "ADDED a 5", or "ERROR 410".
  std::vector<std::string> Events() const {
    std::vector<std::string> events;
    for (const std::string& line : lines) {
      const auto json = ParseJson(line);
      if (!json.has_value()) {
        events.push_back("garbage");
        continue;
      }
      const Json& object = Get(*json, "object");
      const std::string name = Text(At(object, "metadata", "name"));
      const int64_t code = Number(Get(object, "code"));
      std::string event = Text(Get(*json, "type"));
      if (!name.empty()) event += " " + name;
      if (code != 0) event += " " + std::to_string(code);
      events.push_back(std::move(event));
    }
    return events;
  }
};

struct ServerFixture {
  explicit ServerFixture(uint64_t seed = 1, ServerOptions options = {})
      : executor(seed), store(executor.clock(), executor.NewRandom("store")), server(&executor, &store, options) {
    process = executor.NewSource("process");
    transport = server.Connect("muster", process.get(), &log);
    const Answer made = store.Create("admin", {store.FindKind("", "namespaces"), "v1", "", "", ""},
                                     {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", "p"}}}});
    REQUIRE(made.ok());
  }

  SimExecutor executor;
  SimStore store;
  SimServer server;
  InputLog log;
  std::unique_ptr<SimSource> process;
  std::unique_ptr<k8s::Transport> transport;

  static constexpr const char* kWorkloads = "/apis/kueue.x-k8s.io/v1beta2/namespaces/p/workloads";

  static k8s::HttpRequest Request(k8s::Method method, std::string path, std::string body = "",
                                  std::string content_type = "application/json", std::string query = "") {
    k8s::HttpRequest request;
    request.method = method;
    request.path = std::move(path);
    request.body = std::move(body);
    request.content_type = std::move(content_type);
    request.query = std::move(query);
    return request;
  }
  // Sends and waits for the answer, for up to a virtual minute.
  k8s::HttpResponse Call(k8s::HttpRequest request) {
    std::optional<k8s::HttpResponse> answer;
    transport->Call(std::move(request), [&](k8s::HttpResponse response) { answer = std::move(response); });
    CHECK_FALSE(answer.has_value());  // never inside the call
    REQUIRE(executor.RunUntil([&] { return answer.has_value(); }, std::chrono::minutes(1)));
    return *answer;
  }
  k8s::HttpResponse Fetch(std::string path, std::string query = "") {
    return Call(Request(k8s::Method::kGet, std::move(path), "", "", std::move(query)));
  }
  static std::string WorkloadText(const std::string& name) {
    return R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{"name":")" + name +
           R"("},"spec":{"active":true}})";
  }
  k8s::HttpResponse Create(const std::string& name) {
    return Call(Request(k8s::Method::kPost, kWorkloads, WorkloadText(name)));
  }
  std::unique_ptr<k8s::WatchStream> Watch(WatchLog* watch, std::string query, std::string path = kWorkloads) {
    k8s::HttpRequest request = Request(k8s::Method::kGet, std::move(path), "", "", "watch=1&" + query);
    request.timeout = std::chrono::minutes(5);
    return transport->Watch(std::move(request), watch);
  }
};

}  // namespace muster::sim
