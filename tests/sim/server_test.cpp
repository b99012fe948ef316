#include "muster/sim/server.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "server_fixture.h"

namespace muster::sim {
namespace {

using k8s::Method;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using V = std::vector<std::string>;

TEST_CASE_METHOD(ServerFixture, "the verbs over HTTP", "[server]") {
  const auto created = Create("w");
  CHECK(created.status == 201);
  CHECK(created.sent);
  const std::string path = std::string(kWorkloads) + "/w";
  CHECK(Get(*ParseJson(Fetch(path).body), "kind") == "Workload");
  CHECK(Call(Request(Method::kPatch, path, R"({"spec":{"active":false}})", "application/merge-patch+json")).status ==
        200);
  CHECK(Call(Request(Method::kPatch, path, R"([{"op":"test","path":"/spec/active","value":true}])",
                     "application/json-patch+json"))
            .status == 422);
  CHECK(Call(Request(Method::kPatch, path, "{}", "application/strategic-merge-patch+json")).status == 415);
  CHECK(
      Call(Request(Method::kPatch, path + "/status", R"({"status":{"x":1}})", "application/merge-patch+json")).status ==
      200);
  CHECK(Call(Request(Method::kPut, path, Fetch(path).body)).status == 200);
  CHECK(Call(Request(Method::kPost, kWorkloads, "{")).status == 400);
  CHECK(Get(*ParseJson(Fetch(kWorkloads, "limit=10&labelSelector=a%3Db").body), "items").empty());
  CHECK(Get(*ParseJson(Fetch("/apis/kueue.x-k8s.io/v1beta2/workloads").body), "items").size() == 1);
  CHECK(Call(Request(Method::kDelete, path, R"({"preconditions":{"uid":"x"}})")).status == 409);
  CHECK(Call(Request(Method::kDelete, path, R"({"propagationPolicy":"Background"})")).status == 200);
  CHECK(Fetch(path).status == 404);
}

TEST_CASE_METHOD(ServerFixture, "paths that lead nowhere", "[server]") {
  CHECK(Fetch("/apis/kueue.x-k8s.io/v1beta2/foos").status == 404);
  CHECK(Fetch("/apis/nope/v1/foos").body == "404 page not found\n");
  CHECK(Fetch("/apis/kueue.x-k8s.io/v1alpha1/workloads").status == 404);
  CHECK(Fetch("/apis/kueue.x-k8s.io/v1beta2/resourceflavors/f/status").status == 404);
  CHECK(Call(Request(Method::kPost, std::string(kWorkloads) + "/w", "{}")).status == 405);
  CHECK(Call(Request(Method::kPost, "/apis/kueue.x-k8s.io/v1beta2/workloads", WorkloadText("w"))).status == 405);
}

TEST_CASE_METHOD(ServerFixture, "what is no resource", "[server]") {
  CHECK(Fetch("/readyz").body == "ok");
  CHECK(Get(*ParseJson(Fetch("/version").body), "minor") == "36");
  const Json resources = Get(*ParseJson(Fetch("/apis/kueue.x-k8s.io/v1beta2").body), "resources");
  CHECK(std::any_of(resources.begin(), resources.end(),
                    [](const Json& r) { return Text(Get(r, "name")) == "workloads/status"; }));
}

TEST_CASE_METHOD(ServerFixture, "answers take time, and may overtake each other", "[server]") {
  std::set<std::string> orders;
  for (int round = 0; round < 40; ++round) {
    std::string order;
    const MonoTime start = executor.Mono();
    for (const char* name : {"a", "b"}) {
      transport->Call(Request(Method::kGet, std::string(kWorkloads) + "/" + name, "", ""),
                      [&order, name](k8s::HttpResponse) { order += name; });
    }
    REQUIRE(executor.RunUntil([&] { return order.size() == 2; }, minutes(1)));
    CHECK(executor.Mono() - start >= milliseconds(0) + std::chrono::microseconds(300));
    CHECK(executor.Mono() - start < milliseconds(5));
    orders.insert(order);
  }
  CHECK(orders.size() == 2);
}

TEST_CASE_METHOD(ServerFixture, "a watch without a version begins with what is there", "[server]") {
  Create("a");
  WatchLog watch;
  const auto stream = Watch(&watch, "allowWatchBookmarks=true");
  executor.RunFor(seconds(1));
  CHECK(watch.opened == 1);
  CHECK(watch.Events() == V{"ADDED a", "BOOKMARK"});
  CHECK(At(*ParseJson(watch.lines[1]), "object", "metadata", "annotations", "k8s.io/initial-events-end") == "true");
  Create("b");
  Call(Request(Method::kDelete, std::string(kWorkloads) + "/a"));
  executor.RunFor(seconds(1));
  CHECK(watch.Events() == V{"ADDED a", "BOOKMARK", "ADDED b", "DELETED a"});
  CHECK_FALSE(watch.closed);
}

TEST_CASE_METHOD(ServerFixture, "a watch from a version misses nothing and repeats nothing", "[server]") {
  Create("a");
  const std::string version = std::to_string(store.version());
  Create("b");
  Call(Request(Method::kPatch, std::string(kWorkloads) + "/a", R"({"spec":{"x":1}})", "application/merge-patch+json"));
  WatchLog watch;
  const auto stream = Watch(&watch, "resourceVersion=" + version);
  Create("c");
  executor.RunFor(seconds(1));
  CHECK(watch.Events() == V{"ADDED b", "MODIFIED a", "ADDED c"});
}

TEST_CASE_METHOD(ServerFixture, "an object that leaves or enters a watch's selector is DELETED or ADDED", "[server]") {
  Create("a");
  WatchLog watch;
  const auto stream = Watch(&watch, "labelSelector=x%3Dy&resourceVersion=" + std::to_string(store.version()));
  const auto label = [&](const char* value) {
    Call(Request(Method::kPatch, std::string(kWorkloads) + "/a",
                 R"({"metadata":{"labels":{"x":")" + std::string(value) + R"("}}})", "application/merge-patch+json"));
  };
  label("y");
  label("z");
  label("w");
  executor.RunFor(seconds(1));
  CHECK(watch.Events() == V{"ADDED a", "DELETED a"});
}

TEST_CASE_METHOD(ServerFixture, "metadata-only watches and lists", "[server]") {
  Create("a");
  k8s::HttpRequest request = Request(Method::kGet, kWorkloads, "", "", "watch=1");
  request.accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
  WatchLog watch;
  const auto stream = transport->Watch(request, &watch);
  executor.RunFor(seconds(1));
  REQUIRE(watch.lines.size() == 1);
  const Json object = Get(*ParseJson(watch.lines[0]), "object");
  CHECK(object["kind"] == "PartialObjectMetadata");
  CHECK_FALSE(object.contains("spec"));
  request.query = "";
  request.accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
  CHECK(Get(*ParseJson(Call(request).body), "kind") == "PartialObjectMetadataList");
}

TEST_CASE_METHOD(ServerFixture, "bookmarks about once a minute, one before the end, and an orderly end", "[server]") {
  WatchLog watch;
  const auto stream =
      Watch(&watch, "allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=" + std::to_string(store.version()));
  executor.RunFor(seconds(150));
  const size_t early = watch.lines.size();
  CHECK(early >= 2);
  CHECK(early <= 4);
  executor.RunFor(seconds(147));
  const size_t before_last = watch.lines.size();
  executor.RunFor(seconds(2));
  CHECK(watch.lines.size() == before_last + 1);
  CHECK_FALSE(watch.closed);
  executor.RunFor(seconds(2));
  CHECK(watch.closed);
  CHECK(watch.status.ok());
  for (const std::string& event : watch.Events()) CHECK(event == "BOOKMARK");
}

TEST_CASE("a watch from a compacted version is told in the stream, or by HTTP", "[server]") {
  ServerOptions options;
  options.gone_as_http = GENERATE(false, true);
  ServerFixture f(1, options);
  f.Create("a");
  f.Create("b");
  f.store.Compact(f.store.version());
  WatchLog watch;
  const auto stream = f.Watch(&watch, "resourceVersion=101");
  f.executor.RunFor(seconds(1));
  CHECK(watch.closed);
  if (options.gone_as_http) {
    CHECK(watch.opened == 0);
    CHECK(watch.http_status == 410);
    CHECK(Get(*ParseJson(watch.body), "reason") == "Expired");
  } else {
    CHECK(watch.opened == 1);
    CHECK(watch.Events() == V{"ERROR 410"});
    CHECK(watch.status.ok());
  }
}

TEST_CASE_METHOD(ServerFixture, "a watch that makes no sense is refused", "[server]") {
  WatchLog bad_selector;
  WatchLog bad_path;
  WatchLog bad_version;
  const auto a = Watch(&bad_selector, "fieldSelector=spec.x%3D1");
  const auto b = Watch(&bad_path, "", "/apis/kueue.x-k8s.io/v1beta2/foos");
  const auto c = Watch(&bad_version, "resourceVersion=abc");
  executor.RunFor(seconds(1));
  CHECK(bad_selector.http_status == 400);
  CHECK(bad_path.http_status == 404);
  CHECK(bad_version.http_status == 500);
}

TEST_CASE_METHOD(ServerFixture, "nothing comes to a stream or transport that is gone", "[server]") {
  WatchLog watch;
  auto stream = Watch(&watch, "");
  executor.RunFor(seconds(1));
  Create("a");
  stream.reset();
  executor.RunFor(seconds(1));
  CHECK(watch.Events().size() <= 1);
  CHECK_FALSE(watch.closed);
  CHECK(server.open_watches() == 0);

  bool answered = false;
  transport->Call(Request(Method::kPost, kWorkloads, WorkloadText("b")), [&](k8s::HttpResponse) { answered = true; });
  WatchLog second;
  auto other = Watch(&second, "");
  transport.reset();
  executor.RunFor(seconds(120));
  CHECK_FALSE(answered);
  CHECK(second.opened == 0);
  CHECK(store.Peek(store.FindKind("kueue.x-k8s.io", "workloads"), "p", "b") != nullptr);  // it was already sent
}

TEST_CASE_METHOD(ServerFixture, "rights", "[server]") {
  server.SetAuthorizer([](const ApiRequest& request) { return request.verb == "get"; });
  const auto refused = Create("a");
  CHECK(refused.status == 403);
  CHECK(Get(*ParseJson(refused.body), "message") ==
        "workloads.kueue.x-k8s.io \"\" is forbidden: User \"muster\" cannot create resource \"workloads\" in API group "
        "\"kueue.x-k8s.io\" in the namespace \"p\"");
  CHECK(Fetch(std::string(kWorkloads) + "/a").status == 404);
  WatchLog watch;
  const auto stream = Watch(&watch, "");
  executor.RunFor(seconds(1));
  CHECK(watch.http_status == 403);
}

TEST_CASE_METHOD(ServerFixture, "each write is recorded with its user and outcome", "[server]") {
  Create("a");
  Create("a");
  Fetch(kWorkloads);
  REQUIRE(server.writes().size() == 2);
  CHECK(server.writes()[0].user == "muster");
  CHECK(server.writes()[0].verb == "create");
  CHECK(server.writes()[0].resource == "workloads");
  CHECK(server.writes()[0].name == "a");
  CHECK(server.writes()[0].code == 201);
  CHECK(server.writes()[1].code == 409);
}

// A run with traffic of two clients. RETURNS: hash of what the client saw, of the store, of the path taken.
std::vector<uint64_t> Run(uint64_t seed) {
  ServerFixture f(seed);
  WatchLog watch;
  const auto stream = f.Watch(&watch, "allowWatchBookmarks=true");
  f.server.faults().SetRandom(f.executor.NewRandom("faults"), {"", 100, 100, 50, seconds(2)});
  auto other = f.server.Connect("other", &f.executor, nullptr);
  for (int i = 0; i < 60; ++i) {
    const std::string name = "w" + std::to_string(i % 7);
    const std::string path = std::string(ServerFixture::kWorkloads) + "/" + name;
    const auto ignore = [](k8s::HttpResponse) {};
    f.transport->Call(f.Request(Method::kPost, f.kWorkloads, f.WorkloadText(name)), ignore);
    other->Call(
        f.Request(Method::kPatch, path, R"({"spec":{"n":)" + std::to_string(i) + "}}", "application/merge-patch+json"),
        ignore);
    if (i % 5 == 0) other->Call(f.Request(Method::kDelete, path), ignore);
    f.executor.RunFor(milliseconds(1));
  }
  f.executor.RunFor(minutes(2));
  return {f.log.hash(), f.store.StateHash(), f.executor.trace_hash(), static_cast<uint64_t>(f.log.size())};
}

TEST_CASE_METHOD(ServerFixture, "a process that dies takes what is under way to it along", "[server]") {
  WatchLog watch;
  bool answered = false;
  auto stream = Watch(&watch, "");
  executor.RunFor(seconds(1));
  Create("a");  // its line is under way, and so is the next answer
  transport->Call(Request(Method::kGet, kWorkloads), [&](k8s::HttpResponse) { answered = true; });
  const size_t lines = watch.lines.size();
  stream.reset();
  transport.reset();
  process.reset();
  executor.RunFor(minutes(1));
  CHECK(watch.lines.size() == lines);
  CHECK_FALSE(watch.closed);
  CHECK_FALSE(answered);
}

TEST_CASE("a run is repeatable from its seed", "[server]") {
  std::set<std::vector<uint64_t>> runs;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const auto first = Run(seed);
    CHECK(first == Run(seed));
    CHECK(first[3] > 60);
    runs.insert(first);
  }
  CHECK(runs.size() == 8);
}

}  // namespace
}  // namespace muster::sim
