// Each harm the proxy can do, seen from both sides: what the client gets, and what the real API server did.

#include "fixture/proxy.h"

#include <absl/strings/substitute.h>

#include <catch2/catch.hpp>
#include <future>
#include <mutex>

#include "fixture/cluster.h"
#include "fixture/text.h"

namespace muster::cluster {
namespace {

using Catch::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// One API server for all of these tests: each uses names of its own.
Cluster& Shared() {
  static const std::unique_ptr<Cluster> cluster = [] {
    auto started = Cluster::Start({.scheduler = false, .kwok = false, .controllers = false});
    INFO(started.status());
    REQUIRE(started.ok());
    const absl::Status granted =
        (*started)->Grant("client", R"([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}])",
                          R"({"kind": "ServiceAccount", "namespace": "default", "name": "client"})");
    REQUIRE(granted.ok());
    const char* account = R"({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "client"}})";
    REQUIRE((*started)->Api().Create("/api/v1/namespaces/default/serviceaccounts", account).status == 201);
    return *std::move(started);
  }();
  return *cluster;
}

constexpr std::string_view kPath = "/api/v1/namespaces/default/configmaps";

struct Bench {
  Bench() {
    auto started = FaultProxy::Start(Shared().authority(), Shared().port());
    REQUIRE(started.ok());
    proxy = *std::move(started);
    const absl::StatusOr<std::string> token = Shared().ServiceAccountToken("default", "client");
    REQUIRE(token.ok());
    client =
        std::make_unique<ApiClient>(proxy->port(), Shared().authority().cert(), Credentials{{}, *token, "victim/1"});
    other = std::make_unique<ApiClient>(proxy->port(), Shared().authority().cert(), Credentials{{}, *token, "other/1"});
  }

  // Of the object as the server has it, past the proxy; -1 without such an object.
  int64_t Value(const std::string& name) const {
    const ApiResponse response = Shared().Api().Get(Cat(kPath, "/", name));
    return response.ok() ? std::stoll(response.json.At("data/value").Str("0")) : -1;
  }
  void Make(const std::string& name) const {
    REQUIRE(Shared().Api().Create(kPath, Cat(R"({"metadata":{"name":")", name, R"("},"data":{"value":"0"}})")).ok());
  }
  ApiResponse Set(const std::string& name, int value, milliseconds patience = seconds(60)) const {
    return client->Call("PATCH", Cat(kPath, "/", name), Cat(R"({"data":{"value":")", value, R"("}})"),
                        "application/merge-patch+json", patience);
  }

  std::unique_ptr<FaultProxy> proxy;
  std::unique_ptr<ApiClient> client;
  std::unique_ptr<ApiClient> other;
};

// The lines of a watch as they come, and how it ended.
class Watcher {
 public:
  Watcher(ApiClient& client, const std::string& name) {
    watch_ = client.StartWatch(
        Cat(kPath, "?watch=true&fieldSelector=metadata.name%3D", name),
        [this](const Json& line) {
          const std::lock_guard lock(mutex_);
          lines_.push_back(line);
        },
        [this](const std::string& why) {
          const std::lock_guard lock(mutex_);
          end_ = why;
        });
  }
  std::vector<Json> Lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  std::string End() {
    const std::lock_guard lock(mutex_);
    return end_;
  }
  bool AwaitLines(size_t count) {
    return Eventually([&] { return Lines().size() >= count; });
  }
  bool AwaitEnd() {
    return Eventually([&] { return !End().empty(); });
  }

 private:
  std::mutex mutex_;
  std::vector<Json> lines_;
  std::string end_;
  std::unique_ptr<ApiClient::Watch> watch_;
};

TEST_CASE("Without rules the proxy changes nothing, and kubectl works through it") {
  const Bench bench;
  REQUIRE(bench.client->Create(kPath, R"({"metadata": {"name": "plain"}, "data": {"value": "1"}})").status == 201);
  CHECK(bench.Set("plain", 2).status == 200);
  const ApiResponse through = bench.client->Get(Cat(kPath, "/plain"));
  CHECK(through.text == Shared().Api().Get(Cat(kPath, "/plain")).text);
  CHECK(FindHeader(through.headers, "content-type") == "application/json");
  CHECK(bench.client->Get(Cat(kPath, "/absent")).status == 404);
  CHECK(bench.client->Get("/api/v1/nodes").status == 403);

  const absl::StatusOr<std::string> kubeconfig = Shared().ServiceAccount("default", "client", bench.proxy->url());
  REQUIRE(kubeconfig.ok());
  const absl::StatusOr<Output> got =
      Shared().Kubectl({"--kubeconfig", *kubeconfig, "get", "configmap", "plain", "-o", "jsonpath={.data.value}"});
  REQUIRE(got.ok());
  INFO(got->err);
  CHECK(got->out == "2");

  CHECK(bench.client->Delete(Cat(kPath, "/plain")).status == 200);
  CHECK(bench.Value("plain") == -1);
  const std::vector<FaultProxy::Seen> log = bench.proxy->Log();
  CHECK(log.at(0).method == "POST");
  CHECK(log.at(0).status == 201);
  CHECK(log.at(1).method == "PATCH");
  CHECK(log.at(1).target == Cat(kPath, "/plain"));
  CHECK(log.at(1).body == R"({"data":{"value":"2"}})");
}

TEST_CASE("An answer of the proxy's own leaves the server alone") {
  const Bench bench;
  bench.Make("answered");
  for (const auto& [status, reason] : std::vector<std::pair<int, std::string>>{{409, "Conflict"},
                                                                               {429, "TooManyRequests"},
                                                                               {500, "InternalError"},
                                                                               {503, "ServiceUnavailable"},
                                                                               {410, "Expired"}}) {
    const FaultProxy::RuleId rule = bench.proxy->Add({.method = "PATCH"}, Answer(status, status == 429 ? 7 : 0));
    const ApiResponse response = bench.Set("answered", status);
    CHECK(response.status == status);
    CHECK(response.json["kind"].Str() == "Status");
    CHECK(response.json["code"].Int() == status);
    CHECK(response.json["reason"].Str() == reason);
    CHECK(FindHeader(response.headers, "Retry-After") == (status == 429 ? "7" : ""));
    CHECK(bench.proxy->Hits(rule) == 1);
    CHECK(bench.Value("answered") == 0);
    CHECK_FALSE(bench.proxy->Log().back().forwarded);
  }
  CHECK(bench.Set("answered", 5).status == 200);  // each rule was for one request
  CHECK(bench.Value("answered") == 5);
}

TEST_CASE("A rule strikes the requests that match, after those it skips, as often as it says") {
  const Bench bench;
  bench.Make("matched");
  bench.Make("spared");
  const FaultProxy::RuleId rule = bench.proxy->Add(
      {.method = "PATCH", .target = "configmaps/matched$", .body = "\"value\"", .user_agent = "victim"}, Answer(500), 1,
      2);
  CHECK(bench.Set("spared", 1).status == 200);
  CHECK(bench.client->Get(Cat(kPath, "/matched")).status == 200);
  CHECK(bench.client->MergePatch(Cat(kPath, "/matched"), R"({"data": {"else": "1"}})").status == 200);
  CHECK(bench.other->MergePatch(Cat(kPath, "/matched"), R"({"data": {"value": "1"}})").status == 200);
  CHECK(bench.Set("matched", 2).status == 200);  // skipped
  CHECK(bench.Set("matched", 3).status == 500);
  CHECK(bench.Set("matched", 4).status == 500);
  CHECK(bench.Set("matched", 5).status == 200);
  CHECK(bench.proxy->Hits(rule) == 2);

  const FaultProxy::RuleId always = bench.proxy->Add({}, Answer(503), 0, FaultProxy::kForEver);
  for (int i = 0; i < 5; ++i) CHECK(bench.client->Get(Cat(kPath, "/matched")).status == 503);
  bench.proxy->Remove(always);
  CHECK(bench.client->Get(Cat(kPath, "/matched")).status == 200);
}

TEST_CASE("A connection broken before the server was asked, and one broken after it did the work") {
  const Bench bench;
  bench.Make("broken");
  bench.proxy->Add({.method = "PATCH"}, Refuse());
  CHECK(bench.Set("broken", 1).status == 0);
  CHECK(bench.Value("broken") == 0);

  bench.proxy->Add({.method = "PATCH"}, LoseAnswer());
  const ApiResponse lost = bench.Set("broken", 2);
  CHECK(lost.status == 0);
  CHECK(bench.Value("broken") == 2);
  CHECK(bench.proxy->Log().back().status == 200);
  CHECK(bench.Set("broken", 3).status == 200);  // over a new connection
}

TEST_CASE("Answers that come too late, or never") {
  const Bench bench;
  bench.Make("late");
  bench.proxy->Add({.method = "PATCH"}, Hang());
  CHECK_THAT(bench.Set("late", 1, milliseconds(300)).text, Contains("DEADLINE"));
  CHECK(bench.Value("late") == 0);

  // Timed out after the write was applied.
  const FaultProxy::RuleId rule = bench.proxy->Add({.method = "PATCH"}, DelayAnswer(seconds(600)));
  std::future<ApiResponse> late = std::async(std::launch::async, [&] { return bench.Set("late", 2, seconds(2)); });
  REQUIRE(bench.proxy->AwaitHits(rule));
  CHECK(bench.Value("late") == 2);
  CHECK_THAT(late.get().text, Contains("DEADLINE"));

  bench.proxy->Add({.method = "PATCH"}, Delay(milliseconds(300)));
  const auto start = steady_clock::now();
  CHECK(bench.Set("late", 3).status == 200);
  CHECK(steady_clock::now() - start >= milliseconds(300));
  CHECK(bench.Value("late") == 3);
}

TEST_CASE("A held request reaches the server when it is let go, or never; its sender may be dead by then") {
  const Bench bench;
  bench.Make("held");
  FaultProxy::RuleId rule = bench.proxy->Add({.method = "PATCH"}, Hold());
  std::future<ApiResponse> held = std::async(std::launch::async, [&] { return bench.Set("held", 1); });
  REQUIRE(bench.proxy->AwaitHits(rule));
  CHECK(bench.Value("held") == 0);
  bench.proxy->Release(rule);
  CHECK(held.get().status == 200);
  CHECK(bench.Value("held") == 1);

  rule = bench.proxy->Add({.method = "PATCH"}, Hold());
  held = std::async(std::launch::async, [&] { return bench.Set("held", 2); });
  REQUIRE(bench.proxy->AwaitHits(rule));
  bench.proxy->Release(rule, /*forward=*/false);
  CHECK(held.get().status == 0);
  CHECK(bench.Value("held") == 1);

  rule = bench.proxy->Add({.method = "PATCH"}, Hold());
  held = std::async(std::launch::async, [&] { return bench.Set("held", 2); });
  REQUIRE(bench.proxy->AwaitHits(rule));
  bench.proxy->Remove(rule, /*forward=*/false);
  CHECK(held.get().status == 0);
  CHECK(bench.Value("held") == 1);

  // The client is gone when the write is let through: it is applied all the same.
  rule = bench.proxy->Add({.method = "PATCH"}, Hold());
  CHECK(bench.Set("held", 3, milliseconds(200)).status == 0);
  REQUIRE(bench.proxy->AwaitHits(rule));
  bench.proxy->Release(rule);
  CHECK(Eventually([&] { return bench.Value("held") == 3; }));

  rule = bench.proxy->Add({.method = "PATCH"}, HoldAnswer());
  held = std::async(std::launch::async, [&] { return bench.Set("held", 4); });
  REQUIRE(bench.proxy->AwaitHits(rule));
  CHECK(bench.Value("held") == 4);
  CHECK(held.wait_for(milliseconds(100)) == std::future_status::timeout);
  bench.proxy->Release(rule);
  CHECK(held.get().status == 200);
}

TEST_CASE("Garbage instead of an answer") {
  const Bench bench;
  bench.Make("garbage");
  bench.proxy->Add({.method = "PATCH"}, Garbage());
  const ApiResponse garbage = bench.Set("garbage", 1);
  CHECK(garbage.status == 0);
  CHECK_THAT(garbage.text, Contains("bad version"));
  CHECK(bench.Value("garbage") == 1);

  bench.proxy->Add({.method = "PATCH"}, BadBody());
  const ApiResponse bad = bench.Set("garbage", 2);
  CHECK(bad.status == 200);
  CHECK(bad.json.IsNull());
  CHECK_FALSE(bad.text.empty());
  CHECK(bench.Value("garbage") == 2);
}

TEST_CASE("A watch streams through, and can be cut, ended or spoilt at any line") {
  const Bench bench;
  bench.Make("watched");
  const Match watches{.method = "WATCH", .target = "name%3Dwatched"};
  Watcher plain(*bench.client, "watched");
  REQUIRE(plain.AwaitLines(1));
  REQUIRE(bench.Set("watched", 1).ok());
  REQUIRE(plain.AwaitLines(2));
  CHECK(plain.Lines().at(1)["type"].Str() == "MODIFIED");
  CHECK(plain.Lines().at(1).At("object/data/value").Str() == "1");

  // A rule strikes streams that are open already. The client reports a connection that broke within a line.
  const FaultProxy::RuleId cut = bench.proxy->Add(watches, CutLine(), /*skip=*/1);
  REQUIRE(bench.Set("watched", 2).ok());
  REQUIRE(plain.AwaitLines(3));
  REQUIRE(bench.Set("watched", 3).ok());
  REQUIRE(plain.AwaitEnd());
  CHECK(plain.Lines().size() == 3);
  CHECK(plain.End() != "OK");
  CHECK(bench.proxy->Hits(cut) == 1);

  bench.proxy->Add(watches, GoneLine(), /*skip=*/1);
  Watcher gone(*bench.client, "watched");
  REQUIRE(gone.AwaitLines(1));
  REQUIRE(bench.Set("watched", 4).ok());
  REQUIRE(gone.AwaitEnd());
  CHECK(gone.End() == "OK");  // the server's own 410 ends the stream in order too
  REQUIRE(gone.Lines().size() == 2);
  CHECK(gone.Lines().at(1)["type"].Str() == "ERROR");
  CHECK(gone.Lines().at(1).At("object/code").Int() == 410);
  CHECK(gone.Lines().at(1).At("object/reason").Str() == "Expired");

  bench.proxy->Add(watches, Answer(410));
  Watcher refused(*bench.client, "watched");
  REQUIRE(refused.AwaitEnd());
  CHECK_THAT(refused.End(), Contains("410: {"));

  bench.proxy->Add(watches, GarbageLine());
  Watcher spoilt(*bench.client, "watched");
  REQUIRE(spoilt.AwaitEnd());
  CHECK_THAT(spoilt.End(), Contains("not JSON"));
}

TEST_CASE("A watch whose client goes away is closed at the server too") {
  const Bench bench;
  bench.Make("left");
  const auto ended = [&] {
    return Shared()
        .Audit()
        .Select([](const AuditEvent& event) {
          return event.verb == "watch" && event.uri.find("name%3Dleft") != std::string::npos;
        })
        .size();
  };
  {
    Watcher watcher(*bench.client, "left");
    REQUIRE(watcher.AwaitLines(1));
    CHECK(ended() == 0);  // the audit log tells of a watch when it is over
  }
  CHECK(Eventually([&] { return ended() == 1; }));
}

TEST_CASE("The proxy can go away as a whole, and come back") {
  const Bench bench;
  bench.Make("away");
  Watcher watcher(*bench.client, "away");
  REQUIRE(watcher.AwaitLines(1));
  bench.proxy->BreakConnections();
  REQUIRE(watcher.AwaitEnd());
  CHECK(watcher.End() != "OK");
  CHECK(bench.Set("away", 1).status == 200);

  bench.proxy->StopListening();
  const ApiResponse refused = bench.Set("away", 2);
  CHECK(refused.status == 0);
  CHECK_THAT(refused.text, Contains("Connection refused"));
  CHECK(bench.Value("away") == 1);
  REQUIRE(bench.proxy->ListenAgain().ok());
  CHECK(bench.Set("away", 3).status == 200);
}

}  // namespace
}  // namespace muster::cluster
