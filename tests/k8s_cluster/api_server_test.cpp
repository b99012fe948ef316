// The client against a real API server: what the scripted server of tests/k8s_transport takes for granted.
#include <absl/strings/str_cat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "fixture/cluster.h"
#include "fixture/proxy.h"
#include "json_patch.h"
#include "loop.h"
#include "muster/k8s_client/client.h"
#include "muster/k8s_client/informer.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/resources.h"
#include "muster/sim/json.h"
#include "muster/sim/json_patch.h"

namespace muster::k8s {
namespace {

using cluster::Cluster;
using cluster::Component;
using testing::Loop;

std::unique_ptr<Cluster> StartApiServer() {
  auto started = Cluster::Start({.scheduler = false, .kwok = false, .controllers = false});
  INFO(started.status());
  REQUIRE(started.ok());
  REQUIRE((*started)->CreateNamespace("team").ok());
  REQUIRE((*started)
              ->Api()
              .Create("/api/v1/namespaces/team/serviceaccounts",
                      R"({"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"muster"}})")
              .ok());
  return *std::move(started);
}

// The whole client with a connection from a kubeconfig.
class Connected {
 public:
  explicit Connected(const std::string& kubeconfig) : config_(LoadKubeconfig(kubeconfig, "")) {
    INFO(config_.status());
    REQUIRE(config_.ok());
    Connect();
  }
  Connected(const std::string& kubeconfig, const std::string& token_file) : config_(LoadKubeconfig(kubeconfig, "")) {
    REQUIRE(config_.ok());
    config_->token.clear();
    config_->token_file = token_file;
    Connect();
  }

  Result Create(const std::string& body) {
    return Await([&](Client::Done done) { client->Create(Lane::kStart, kJobs, "team", body, std::move(done)); });
  }
  Result Get(const std::string& name) {
    return Await([&](Client::Done done) { client->Get(kJobs, {"team", name}, std::move(done)); });
  }
  Result Patch(const std::string& name, PatchType type, const std::string& body) {
    return Await([&](Client::Done done) {
      client->Patch(Lane::kStart, kJobs, {"team", name}, "", type, body, std::move(done));
    });
  }
  Result Delete(const std::string& name, const std::string& uid) {
    return Await([&](Client::Done done) {
      client->Delete(Lane::kStart, kJobs, {"team", name}, uid, "Background", std::move(done));
    });
  }

  Loop loop;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Client> client;

 private:
  void Connect() {
    auto made = NewHttpTransport(loop.env(), *config_, {.user_agent = "muster-test"});
    REQUIRE(made.ok());
    transport = *std::move(made);
    client = std::make_unique<Client>(loop.env(), transport.get(), ClientOptions());
  }
  template <typename Call>
  Result Await(Call call) {
    std::optional<Result> out;
    call([&out](Result result) { out = std::move(result); });
    REQUIRE(loop.RunUntil([&out] { return out.has_value(); }));
    return *std::move(out);
  }

  absl::StatusOr<ConnectionConfig> config_;
};

std::string Job(const std::string& name) {
  return absl::StrCat(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":")", name,
                      R"("},"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never",)",
                      R"("containers":[{"name":"main","image":"train"}]}}}})");
}

struct Meta {
  ObjectMeta meta;
};

absl::StatusOr<Meta> DecodeAny(std::string_view json) {
  JsonDocument document(json);
  Meta out{DecodeMeta(document.root())};
  if (auto status = document.Finish("Job"); !status.ok()) return status;
  return out;
}

Meta MetaOf(const Result& result) {
  auto decoded = DecodeAny(result.body);
  REQUIRE(decoded.ok());
  return *std::move(decoded);
}

TEST_CASE("create, get, patch, delete and watch a Job on a real API server") {
  const auto cluster = StartApiServer();
  REQUIRE(cluster
              ->Grant("jobs", R"([{"apiGroups":["batch"],"resources":["jobs"],"verbs":["*"]}])",
                      R"({"kind":"User","name":"me","apiGroup":"rbac.authorization.k8s.io"})")
              .ok());
  Connected me(cluster->Identity("me"));

  InformerOptions options;
  options.ns = "team";
  std::vector<std::string> seen;
  Informer<Meta> informer(
      me.loop.env(), me.client.get(), kJobs, options, DecodeAny,
      {.upserted =
           [&](const Informer<Meta>::Ptr& object, const Informer<Meta>::Ptr& previous) {
             seen.push_back((previous == nullptr ? "new " : "changed ") + object->meta.name);
           },
       .deleted = [&](const Informer<Meta>::Ptr& last) { seen.push_back("gone " + last->meta.name); },
       .undecodable = [](const k8s::ObjectMeta&, const absl::Status& status) { FAIL(status); }});
  informer.Start();
  REQUIRE(me.loop.RunUntil([&] { return informer.synced(); }));

  const Result created = me.Create(Job("a"));
  CHECK(created.outcome == Outcome::kDone);
  CHECK(created.code == 201);
  const Meta job = MetaOf(created);
  const Result again = me.Create(Job("a"));
  CHECK(again.outcome == Outcome::kRefused);
  CHECK(again.code == 409);
  CHECK(again.reason == "AlreadyExists");
  const Result invalid = me.Create(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"b"}})");
  CHECK(invalid.code == 422);
  CHECK(invalid.reason == "Invalid");

  CHECK(
      me.Patch(
            "a", PatchType::kJsonPatch,
            R"([{"op":"test","path":"/spec/suspend","value":true},{"op":"replace","path":"/spec/suspend","value":false}])")
          .outcome == Outcome::kDone);
  const Result tested = me.Patch("a", PatchType::kJsonPatch, R"([{"op":"test","path":"/spec/suspend","value":true}])");
  CHECK(tested.outcome == Outcome::kRefused);
  CHECK(tested.code == 422);
  const Result stale = me.Patch(
      "a", PatchType::kMergePatch,
      absl::StrCat(R"({"metadata":{"labels":{"x":"y"},"resourceVersion":")", job.meta.resource_version, R"("}})"));
  CHECK(stale.code == 409);
  CHECK(stale.reason == "Conflict");

  const Result got = me.Get("a");
  CHECK(got.code == 200);
  CHECK(MetaOf(got).meta.uid == job.meta.uid);
  CHECK(me.Get("none").code == 404);
  CHECK(me.Delete("a", "another-uid").code == 409);
  CHECK(me.Delete("a", job.meta.uid).outcome == Outcome::kDone);
  REQUIRE(me.loop.RunUntil([&] { return informer.objects().empty(); }));
  CHECK(seen == std::vector<std::string>{"new a", "changed a", "gone a"});
  CHECK(informer.reflector().watch_cuts() == 0);
}

TEST_CASE("a test in a JSON patch compares encoded text, on the server as in the simulator") {
  const auto cluster = StartApiServer();
  Connected admin(cluster->AdminKubeconfig());
  std::string controls;
  for (char c = 1; c < ' '; ++c) controls += c;
  const std::string path = controller::Pointer({"metadata", "annotations", "example.com/x"});
  int number = 0;
  for (const std::string& text : {std::string("a<b"), std::string("a>b"), std::string("a&b"), std::string("\u2028"),
                                  std::string("\u2029"), controls, std::string("\x7f"), std::string("\"\\/'+=é😀")}) {
    const std::string name = absl::StrCat("job-", ++number);
    sim::Json job = sim::Json::parse(Job(name));
    job["metadata"]["annotations"]["example.com/x"] = text;
    const Result created = admin.Create(job.dump());
    REQUIRE(created.code == 201);
    // Ours always applies; plain JSON only where Go would write the same.
    const std::string ours = controller::JsonPatch().TestText(path, text).AddText(path, text).Take();
    const std::string plain = sim::Json::array({{{"op", "test"}, {"path", path}, {"value", text}}}).dump();
    for (const std::string& patch : {ours, plain}) {
      INFO(patch);
      const int code = admin.Patch(name, PatchType::kJsonPatch, patch).code;
      CHECK(code == (patch == ours || number > 5 ? 200 : 422));
      sim::Json document = sim::Json::parse(created.body);
      CHECK(sim::ApplyJsonPatch(patch, &document).ok() == (code == 200));
    }
    CHECK(sim::Json::parse(admin.Get(name).body)["metadata"]["annotations"]["example.com/x"] == text);
  }
}

class Bookmarks final : public WatchHandler {
 public:
  void OnOpen() override { open = true; }
  void OnLine(std::string_view line) override {
    if (line.find(R"("type":"BOOKMARK")") != std::string_view::npos) ++bookmarks;
  }
  void OnClose(absl::Status status, int /*http_status*/, std::string /*body*/,
               std::optional<Duration> /*after*/) override {
    end = std::move(status);
  }
  bool open = false;
  int bookmarks = 0;
  std::optional<absl::Status> end;
};

TEST_CASE("a watch gets a bookmark before the server ends it in order") {
  const auto cluster = StartApiServer();
  Connected admin(cluster->AdminKubeconfig());
  Bookmarks handler;
  HttpRequest request;
  request.path = "/api/v1/namespaces";
  request.query = "watch=1&allowWatchBookmarks=true&timeoutSeconds=6&resourceVersion=0";
  const auto stream = admin.transport->Watch(request, &handler);
  REQUIRE(admin.loop.RunUntil([&] { return handler.end.has_value(); }));
  CHECK(handler.open);
  CHECK(handler.bookmarks >= 1);
  CHECK(handler.end->ok());
}

TEST_CASE("a token that the server refuses is read again from its file") {
  const auto cluster = StartApiServer();
  const auto kubeconfig = cluster->ServiceAccount("team", "muster");
  const auto token = cluster->ServiceAccountToken("team", "muster");
  INFO(kubeconfig.status());
  REQUIRE(kubeconfig.ok());
  REQUIRE(token.ok());
  const std::string file = cluster->dir() + "/token";
  const auto write = [&file](const std::string& text) { std::ofstream(file) << text; };
  write("not-a-token");
  Connected pod(*kubeconfig, file);
  CHECK(pod.Get("a").code == 401);
  write(*token);
  CHECK(pod.Get("a").code == 403);  // known now, though nothing was granted
}

TEST_CASE("a kubeconfig's exec plugin gives the token, and another when the server refuses it") {
  const auto cluster = StartApiServer();
  REQUIRE(cluster
              ->Grant("jobs", R"([{"apiGroups":["batch"],"resources":["jobs"],"verbs":["*"]}])",
                      R"({"kind":"ServiceAccount","name":"muster","namespace":"team"})")
              .ok());
  const auto token = cluster->ServiceAccountToken("team", "muster");
  REQUIRE(token.ok());
  const std::string credential = cluster->dir() + "/credential";
  const auto give = [&credential](const std::string& text) {
    std::ofstream(credential) << R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":)"
                              << R"({"token":")" << text << R"("}})";
  };
  const std::string kubeconfig = cluster->dir() + "/exec.kubeconfig";
  std::ofstream(kubeconfig) << "{apiVersion: v1, current-context: c, contexts: [{name: c, context: {cluster: c, user: "
                               "u}}], clusters: [{name: c, cluster: {server: \""
                            << cluster->server() << "\", certificate-authority: pki/ca.crt}}], users: [{name: u, user: "
                            << "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: "
                            << "cat, args: [\"" << credential << "\"]}}}]}\n";
  give("not-a-token");
  Connected me(kubeconfig);
  CHECK(me.Create(Job("a")).code == 401);  // refused, and the plugin has no other
  give(*token);
  // What it has just given is not asked for again at once.
  CHECK(cluster::Eventually([&] { return me.Create(Job("a")).ok(); }));
  CHECK(me.Get("a").ok());
}

TEST_CASE("the API server dies and comes back under the same client") {
  const auto cluster = StartApiServer();
  Connected admin(cluster->AdminKubeconfig());
  REQUIRE(admin.Create(Job("before")).ok());
  Bookmarks handler;
  HttpRequest request;
  request.path = "/api/v1/namespaces";
  request.query = "watch=1";
  const auto stream = admin.transport->Watch(request, &handler);
  REQUIRE(admin.loop.RunUntil([&] { return handler.open; }));

  cluster->Part(Component::kApiServer).Kill();
  REQUIRE(admin.loop.RunUntil([&] { return handler.end.has_value(); }));
  CHECK(absl::IsUnavailable(*handler.end));
  const Result down = admin.Create(Job("during"));
  CHECK(down.outcome == Outcome::kNotSent);
  CHECK(down.message != "");

  REQUIRE(cluster->Restart(Component::kApiServer).ok());
  CHECK(admin.Get("during").code == 404);  // as was said
  CHECK(admin.Create(Job("after")).ok());
}

TEST_CASE("through a proxy that loses answers, what is known of a write is true") {
  const auto cluster = StartApiServer();
  const auto proxy = cluster::FaultProxy::Start(cluster->authority(), cluster->port());
  REQUIRE(proxy.ok());
  const auto kubeconfig = cluster->ServiceAccount("team", "muster", (*proxy)->url());
  REQUIRE(kubeconfig.ok());
  REQUIRE(cluster
              ->Grant("jobs", R"([{"apiGroups":["batch"],"resources":["jobs"],"verbs":["*"]}])",
                      R"({"kind":"ServiceAccount","name":"muster","namespace":"team"})")
              .ok());
  Connected pod(*kubeconfig);
  REQUIRE(pod.Get("warm-up").code == 404);

  (*proxy)->Add({.method = "POST"}, cluster::LoseAnswer());
  CHECK(pod.Create(Job("lost")).outcome == Outcome::kUnknown);
  CHECK(pod.Get("lost").code == 200);  // it was applied, once: nothing was sent again
  (*proxy)->Add({.method = "POST"}, cluster::Refuse());
  CHECK(pod.Create(Job("refused")).outcome == Outcome::kUnknown);  // cannot be told apart from the above
  CHECK(pod.Get("refused").code == 404);
  (*proxy)->Add({.method = "POST"}, cluster::Garbage());
  CHECK(pod.Create(Job("garbage")).outcome == Outcome::kUnknown);
  CHECK(pod.Get("garbage").code == 200);
  (*proxy)->StopListening();
  CHECK(pod.Create(Job("unreachable")).outcome == Outcome::kNotSent);
  REQUIRE((*proxy)->ListenAgain().ok());
  CHECK(pod.Create(Job("unreachable")).code == 201);
  std::map<std::string, int> posts;
  for (const auto& entry : (*proxy)->Log()) {
    if (entry.method == "POST") ++posts[entry.body];
  }
  for (const auto& [body, count] : posts) CHECK(count == 1);
}

}  // namespace
}  // namespace muster::k8s
