// Credentials from a program: client-go's exec plugins (client.authentication.k8s.io), with shell scripts as plugins.
#include "exec_plugin.h"

#include <absl/strings/str_cat.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <thread>

#include "exec_transport.h"
#include "harness.h"
#include "http_tls.h"
#include "muster/k8s_client/json_writer.h"

namespace muster::k8s {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Authority;
using testing::Get;
using testing::Post;
using testing::TempDir;
using testing::TestServer;

constexpr const char* kV1 = "client.authentication.k8s.io/v1";

// An ExecCredential, without its braces' doubles: a status in the form of JSON fields.
std::string Credential(const std::string& status, const std::string& version = kV1) {
  return absl::StrCat(R"({"kind":"ExecCredential","apiVersion":")", version, R"(","status":{)", status, "}}");
}

struct Script {
  // `body`: of a shell script.
  explicit Script(const std::string& body) {
    const std::string path = files.Write("plugin", "#!/bin/sh\n" + body + "\n");
    REQUIRE(chmod(path.c_str(), 0700) == 0);
    config.server = "https://api.example";
    config.exec = ExecPlugin{};
    config.exec->name = "exec plugin x";
    config.exec->api_version = kV1;
    config.exec->command = path;
  }
  absl::StatusOr<ExecCredential> Run(Duration timeout = seconds(30)) { return RunExecPlugin(config, timeout, cancel); }
  std::string Error(Duration timeout = seconds(30)) {
    const auto result = Run(timeout);
    return result.ok() ? "no error" : std::string(result.status().message());
  }
  std::string File(const std::string& name) const {
    std::ifstream in(files.Path(name));
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  TempDir files;
  ConnectionConfig config;
  std::atomic<bool> cancel{false};
};

TEST_CASE("a plugin gives a token, and gets arguments, variables and the question") {
  Script script(absl::StrCat("printf '%s|' \"$@\" >\"$DIR/args\"; echo \"$KUBERNETES_EXEC_INFO\" >\"$DIR/info\"; ",
                             "echo \"$REGION $HOME\" >\"$DIR/env\"; cat >\"$DIR/stdin\"; echo chatter >&2; echo '",
                             Credential(R"("token":"t-1","expirationTimestamp":"2030-01-02T03:04:05Z")"), "'"));
  script.config.exec->args = {"--cluster", "a b", ""};
  script.config.exec->env = {{"DIR", script.files.path()}, {"REGION", "east"}, {"HOME", "/other"}};
  const auto credential = script.Run();
  INFO(credential.status().ToString());
  REQUIRE(credential.ok());
  CHECK(credential->token == "t-1");
  CHECK(FormatTime(credential->expires) == "2030-01-02T03:04:05Z");
  CHECK(script.File("args") == "--cluster|a b||");
  CHECK(script.File("env") == "east /other\n");  // over the process's own
  CHECK(script.File("info") ==
        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"spec\":{\"interactive\":"
        "false}}\n");
  CHECK(script.File("stdin").empty());
}

TEST_CASE("a plugin finds the system's authorities where this process was told of them") {
  SpareSystemAuthorities();  // as the transport does, for itself alone
  Script script(absl::StrCat("echo \"${SSL_CERT_FILE-unset}\" >\"$DIR/authorities\"; echo '",
                             Credential(R"("token":"t-1")"), "'"));
  script.config.exec->env = {{"DIR", script.files.path()}};
  REQUIRE(script.Run().ok());
  CHECK(script.File("authorities") == GivenCertFile().value_or("unset") + "\n");
  CHECK(script.File("authorities") != "/dev/null\n");
}

TEST_CASE("the cluster is told of where that is asked for") {
  Script script("true");
  ConnectionConfig& config = script.config;
  config.exec->api_version = "client.authentication.k8s.io/v1beta1";
  config.exec->provide_cluster_info = true;
  config.exec->cluster_config = R"({"audience":"x"})";
  config.tls_server_name = "other.example";
  config.ca_pem = "PEM";
  CHECK(ExecInfo(config) ==
        R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","spec":{"cluster":{)"
        R"("server":"https://api.example","tls-server-name":"other.example","certificate-authority-data":"UEVN",)"
        R"("config":{"audience":"x"}},"interactive":false}})");
  config.ca_pem.clear();
  config.tls_server_name.clear();
  config.insecure = true;
  config.exec->cluster_config.clear();
  CHECK(ExecInfo(config) ==
        R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","spec":{"cluster":{)"
        R"("server":"https://api.example","insecure-skip-tls-verify":true},"interactive":false}})");
}

TEST_CASE("a plugin that fails is named, with what it said") {
  CHECK(Script("echo no such profile >&2; echo again >&2; exit 3").Error() ==
        "exec plugin x: failed with exit code 3; it said: no such profile again");
  CHECK(Script("kill -9 $$").Error() == "exec plugin x: ended by signal 9");
  CHECK(Script("exit 1").Error() == "exec plugin x: failed with exit code 1");
  // The last of much.
  const std::string much = Script("i=0; while [ $i -lt 2000 ]; do echo line-$i >&2; i=$((i+1)); done; exit 1").Error();
  CHECK(much.size() < 700);
  CHECK(much.ends_with("line-1998 line-1999"));
}

TEST_CASE("a plugin that is not there: the error says where to get it") {
  Script script("true");
  script.config.exec->install_hint = "See https://example.com/install\n";
  script.config.exec->command = script.files.Path("absent");
  CHECK(script.Error() == "exec plugin x: No such file or directory. See https://example.com/install");
  script.config.exec->command = "muster-no-such-program";
  CHECK_THAT(script.Error(), Catch::StartsWith("exec plugin x: No such file or directory"));
  script.config.exec->command = script.files.Write("plain", "not a program");
  CHECK(script.Error() == "exec plugin x: Permission denied");
  script.config.exec->command = "sh";  // from $PATH
  script.config.exec->args = {"-c", "echo '" + Credential(R"("token":"t")") + "'"};
  CHECK(script.Run()->token == "t");
}

TEST_CASE("a plugin that takes too long is killed, with what it started") {
  Script script("sleep 1000 & echo $! >\"$DIR/pid\"; wait");
  script.config.exec->env = {{"DIR", script.files.path()}};
  CHECK(script.Error(seconds(1)) == "exec plugin x: took longer than 1s");
  const pid_t pid = std::atoi(script.File("pid").c_str());
  REQUIRE(pid > 0);
  for (int i = 0; i < 500 && kill(pid, 0) == 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  CHECK(kill(pid, 0) != 0);
}

// client-go waits for the plugin and leaves all else alone: it may have started an agent.
TEST_CASE("what a plugin leaves in the background runs on, and does not keep its answer from being taken") {
  Script script(absl::StrCat("sleep 1000 & echo $! >\"$DIR/pid\"; echo '", Credential(R"("token":"t")"), "'"));
  script.config.exec->env = {{"DIR", script.files.path()}};
  CHECK(script.Run()->token == "t");
  const pid_t pid = std::atoi(script.File("pid").c_str());
  REQUIRE(pid > 0);
  std::this_thread::sleep_for(milliseconds(100));
  CHECK(kill(pid, 0) == 0);
  kill(pid, SIGKILL);
}

TEST_CASE("what a plugin that fails has started is killed with it") {
  Script script("sleep 1000 & echo $! >\"$DIR/pid\"; exit 3");
  script.config.exec->env = {{"DIR", script.files.path()}};
  CHECK(script.Error() == "exec plugin x: failed with exit code 3");
  const pid_t pid = std::atoi(script.File("pid").c_str());
  REQUIRE(pid > 0);
  for (int i = 0; i < 500 && kill(pid, 0) == 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  CHECK(kill(pid, 0) != 0);
}

TEST_CASE("a plugin can be cancelled, and one that prints for ever is stopped") {
  Script script("sleep 1000");
  std::thread canceller([&script] {
    std::this_thread::sleep_for(milliseconds(100));
    script.cancel = true;
  });
  CHECK(script.Error() == "exec plugin x: was ended");
  canceller.join();
  CHECK(Script("while :; do echo 0123456789012345678901234567890123456789; done").Error() ==
        "exec plugin x: printed more than 1048576 bytes");
}

TEST_CASE("an answer that is no ExecCredential is refused, without showing it") {
  const std::string own_key = testing::Issue(Authority(), {"x", ""}).key_pem;
  const testing::Certificate me = testing::Issue(Authority(), {"me", ""});
  const auto json = [](const std::string& text) { return JsonWriter().String(text).Take(); };
  const std::pair<std::string, std::string> kCases[] = {
      {"", "its output is no JSON object"},
      {"s3cret", "its output is no JSON object"},
      {"[\"s3cret\"]", "its output is no JSON object"},
      {"{\"s3cret\":", "its output is no JSON object"},
      {R"({"kind":"s3cret"})", "its output is no ExecCredential: kind must be that"},
      {R"({"kind":"ExecCredential","apiVersion":"s3cret","status":{"token":"t"}})",
       "its output must have apiVersion client.authentication.k8s.io/v1"},
      {R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1"})", "its output has no status"},
      {Credential(""), "status holds neither token nor client certificate"},
      {Credential(R"("token":["s3cret"])"), "status.token must be text"},
      {Credential(R"("token":"s3cret value")"),
       "status.token holds a character that cannot stand in a header (space, line end, ...)"},
      {Credential(R"("clientCertificateData":"s3cret")"),
       "status.clientCertificateData and clientKeyData must be given together"},
      {Credential(R"("clientCertificateData":"s3cret","clientKeyData":"s3cret")"),
       "status.clientCertificateData: the certificate holds no PEM certificate"},
      {Credential(absl::StrCat(R"("clientCertificateData":)", json(me.pem), R"(,"clientKeyData":)", json(own_key))),
       "status.clientCertificateData: the key does not belong to the certificate"},
  };
  for (const auto& [text, expected] : kCases) {
    CAPTURE(text);
    const auto credential = ParseExecCredential(text, kV1);
    REQUIRE_FALSE(credential.ok());
    CHECK(std::string(credential.status().message()) == expected);
  }
  CHECK_FALSE(ParseExecCredential(Credential(R"("token":"t","expirationTimestamp":"soon")"), kV1).ok());
  const auto both = ParseExecCredential(Credential(absl::StrCat(R"("token":"t","clientCertificateData":)", json(me.pem),
                                                                R"(,"clientKeyData":)", json(me.key_pem))),
                                        kV1);
  REQUIRE(both.ok());
  CHECK(both->client_cert_pem == me.pem);
  CHECK_FALSE(both->expires.IsSet());
}

// ---- behind a transport -------------------------------------------------------------------------

// Answers with the credentials that it got, as JSON; 401 where `refuses` says so.
struct Server {
  explicit Server(std::function<bool(const std::string& authorization)> refuses = nullptr,
                  TestServer::Options options = testing::Tls())
      : server(std::move(options), [refuses = std::move(refuses)](TestServer::Connection& c) {
          while (const auto request = c.Read()) {
            const std::string authorization = request->header("Authorization");
            const bool refused = refuses && refuses(authorization);
            c.Answer(refused ? 401 : 200, absl::StrCat(authorization, "/", c.client_common_name()));
          }
        }) {}
  TestServer server;
};

// A plugin that counts its runs in a file, and prints the credential of "$DIR/credential".
struct CountingPlugin {
  explicit CountingPlugin(const TestServer& server, const std::string& before = "") {
    const std::string path = files.Write("plugin", absl::StrCat("#!/bin/sh\necho x >>'", files.Path("runs"), "'\n",
                                                                before, "\ncat '", files.Path("credential"), "'\n"));
    REQUIRE(chmod(path.c_str(), 0700) == 0);
    config = testing::ConfigFor(server);
    config.exec = ExecPlugin{};
    config.exec->name = "exec plugin counting";
    config.exec->api_version = kV1;
    config.exec->command = path;
  }
  void Gives(const std::string& status) const { files.Write("credential", Credential(status)); }
  void GivesToken(const std::string& token, Duration for_long) const {
    const WallTime end = SystemClock().Now() + for_long;
    Gives(absl::StrCat(R"("token":")", token, R"(","expirationTimestamp":")", FormatTime(end), R"(")"));
  }
  int runs() const {
    std::ifstream in(files.Path("runs"));
    return static_cast<int>(std::count(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>(), 'x'));
  }

  TempDir files;
  ConnectionConfig config;
};

// Whose date the test sets.
class ShiftedClock final : public Clock {
 public:
  WallTime Now() const override { return system_.Now() + shift; }
  MonoTime Mono() const override { return system_.Mono(); }
  Duration shift{0};

 private:
  SystemClock system_;
};

constexpr milliseconds kPause{200};

struct Client {
  explicit Client(const ConnectionConfig& config) {
    ExecOptions options;
    options.refused_pause = kPause;
    options.failed_pause = kPause;
    Environment env = loop.env();
    env.clock = &clock;
    transport = std::make_unique<ExecTransport>(
        env, config, [env](const ConnectionConfig& with) { return NewHttpTransport(env, with, {}); }, options);
  }
  std::optional<HttpResponse> Call(HttpRequest request) {
    std::optional<HttpResponse> out;
    transport->Call(std::move(request), [&out](HttpResponse response) { out = std::move(response); });
    loop.RunUntil([&out] { return out.has_value(); });
    return out;
  }
  void AfterPause() { loop.RunFor(kPause + milliseconds(50)); }

  testing::Loop loop;
  ShiftedClock clock;
  std::unique_ptr<Transport> transport;
};

TEST_CASE("calls wait for the first credentials, which all of them use") {
  Server server;
  CountingPlugin plugin(server.server);
  plugin.Gives(R"("token":"one")");
  Client client(plugin.config);
  int answered = 0;
  for (int i = 0; i < 5; ++i) {
    client.transport->Call(Get("/x"), [&](const HttpResponse& response) {
      CHECK(response.status == 200);
      CHECK(response.body == "Bearer one/");
      ++answered;
    });
  }
  REQUIRE(client.loop.RunUntil([&] { return answered == 5; }));
  CHECK(client.Call(Post("/y", "{}"))->body == "Bearer one/");
  CHECK(plugin.runs() == 1);
}

TEST_CASE("credentials are renewed when their time is over") {
  Server server;
  CountingPlugin plugin(server.server);
  plugin.GivesToken("one", std::chrono::hours(1));
  Client client(plugin.config);
  CHECK(client.Call(Get("/x"))->body == "Bearer one/");
  plugin.GivesToken("two", std::chrono::hours(9));
  client.clock.shift = std::chrono::minutes(58);
  CHECK(client.Call(Get("/x"))->body == "Bearer one/");
  CHECK(plugin.runs() == 1);
  client.clock.shift = std::chrono::minutes(61);
  CHECK(client.Call(Get("/x"))->body == "Bearer two/");
  CHECK(plugin.runs() == 2);
  CHECK(client.Call(Get("/x"))->body == "Bearer two/");
  CHECK(plugin.runs() == 2);
}

TEST_CASE("shortly before their end credentials are renewed while calls go on with them") {
  Server server;
  // The second run takes until a file appears.
  CountingPlugin plugin(server.server, "[ -e \"$DIR/second\" ] && while [ ! -e \"$DIR/go\" ]; do sleep 0.02; done");
  plugin.config.exec->env = {{"DIR", plugin.files.path()}};
  plugin.GivesToken("one", std::chrono::hours(1));
  Client client(plugin.config);
  CHECK(client.Call(Get("/x"))->body == "Bearer one/");
  plugin.files.Write("second", "");
  plugin.GivesToken("two", std::chrono::hours(9));
  client.clock.shift = std::chrono::minutes(59) + seconds(30);
  CHECK(client.Call(Get("/x"))->body == "Bearer one/");  // does not wait
  plugin.files.Write("go", "");
  std::string body;
  for (int i = 0; i < 1000 && body != "Bearer two/"; ++i) {
    client.loop.RunFor(milliseconds(10));
    body = client.Call(Get("/x"))->body;
  }
  CHECK(body == "Bearer two/");
  CHECK(plugin.runs() == 2);
}

TEST_CASE("credentials that the server refuses are renewed once, and the call is sent again") {
  std::atomic<bool> refuse_one{false};
  Server server([&refuse_one](const std::string& a) { return refuse_one && a == "Bearer one"; });
  CountingPlugin plugin(server.server);
  plugin.Gives(R"("token":"one")");
  Client client(plugin.config);
  CHECK(client.Call(Get("/x"))->status == 200);
  client.AfterPause();  // a refusal right after a run is believed
  refuse_one = true;
  // The plugin has nothing better: the refusal is passed on.
  CHECK(client.Call(Get("/x"))->status == 401);
  CHECK(plugin.runs() == 2);
  plugin.Gives(R"("token":"two")");
  client.AfterPause();
  const auto answer = client.Call(Post("/x", "{}"));
  CHECK(answer->status == 200);
  CHECK(answer->body == "Bearer two/");
  CHECK(plugin.runs() == 3);
}

TEST_CASE("a client certificate from the plugin is shown, and the next one on new connections") {
  TestServer::Options options = testing::Tls();
  options.client_authority_pem = Authority().pem;
  Server server(nullptr, options);
  CountingPlugin plugin(server.server);
  const auto give = [&plugin](const std::string& name, Duration for_long) {
    const testing::Certificate certificate = testing::Issue(Authority(), {name, ""});
    plugin.Gives(absl::StrCat(R"("clientCertificateData":)", JsonWriter().String(certificate.pem).Take(),
                              R"(,"clientKeyData":)", JsonWriter().String(certificate.key_pem).Take(),
                              R"(,"expirationTimestamp":")", FormatTime(SystemClock().Now() + for_long), R"(")"));
  };
  give("ada", std::chrono::hours(1));
  Client client(plugin.config);
  CHECK(client.Call(Get("/x"))->body == "/ada");
  give("eve", std::chrono::hours(9));
  client.clock.shift = std::chrono::hours(2);
  CHECK(client.Call(Get("/x"))->body == "/eve");
}

TEST_CASE("where the plugin fails, calls fail with what it said, and it gets time to recover") {
  Server server;
  CountingPlugin plugin(server.server, "[ -e \"$DIR/credential\" ] || { echo log in first >&2; exit 1; }");
  plugin.config.exec->env = {{"DIR", plugin.files.path()}};
  Client client(plugin.config);
  const auto first = client.Call(Get("/x"));
  REQUIRE(first.has_value());
  CHECK(first->status == 0);
  CHECK_FALSE(first->sent);
  CHECK(first->error == "exec plugin counting: failed with exit code 1; it said: log in first");
  // In the pause it is not run for each call.
  int answered = 0;
  for (int i = 0; i < 20; ++i) {
    client.transport->Call(Get("/x"), [&](const HttpResponse& response) {
      CHECK(response.error == first->error);
      ++answered;
    });
  }
  REQUIRE(client.loop.RunUntil([&] { return answered == 20; }));
  CHECK(plugin.runs() <= 2);
  plugin.Gives(R"("token":"one")");
  client.AfterPause();
  client.AfterPause();
  CHECK(client.Call(Get("/x"))->body == "Bearer one/");
}

TEST_CASE("a plugin that hangs keeps a call no longer than its time-out, and the loop not at all") {
  Server server;
  CountingPlugin plugin(server.server, "sleep 1000");
  auto client = std::make_unique<Client>(plugin.config);
  HttpRequest request = Get("/x");
  request.timeout = milliseconds(300);
  const auto answer = client->Call(request);
  REQUIRE(answer.has_value());
  CHECK(answer->status == 0);
  CHECK_FALSE(answer->sent);
  CHECK(answer->error == "exec plugin counting: gave no credentials in time");
  HttpRequest write = Post("/x", "{}");
  write.leave_within = milliseconds(100);
  CHECK(client->Call(write)->error == "exec plugin counting: gave no credentials in time");
  client.reset();  // ends the plugin, and does not wait for it
}

TEST_CASE("credentials that have ended already are an error") {
  Server server;
  CountingPlugin plugin(server.server);
  plugin.Gives(R"("token":"old","expirationTimestamp":"2020-01-02T03:04:05Z")");
  Client client(plugin.config);
  CHECK(client.Call(Get("/x"))->error ==
        "exec plugin counting: its credentials have ended already, at 2020-01-02T03:04:05Z");
}

struct Heard final : WatchHandler {
  void OnOpen() override { opened = true; }
  void OnLine(std::string_view line) override { lines += std::string(line) + ";"; }
  void OnClose(absl::Status status, int http_status, std::string, std::optional<Duration>) override {
    closed = true;
    error = std::string(status.message());
    code = http_status;
  }
  bool opened = false;
  bool closed = false;
  std::string lines;
  std::string error;
  int code = 0;
};

TEST_CASE("a watch waits for credentials, and is opened again with others where they are refused") {
  std::atomic<bool> refuse_one{false};
  TestServer server(testing::Tls(), [&refuse_one](TestServer::Connection& c) {
    while (const auto request = c.Read()) {
      const std::string authorization = request->header("Authorization");
      const bool refused = refuse_one && authorization == "Bearer one";
      c.Answer(refused ? 401 : 200, authorization + "\n");
    }
  });
  CountingPlugin plugin(server);
  plugin.Gives(R"("token":"one")");
  Client client(plugin.config);
  Heard first;
  auto stream = client.transport->Watch(Get("/watch"), &first);
  REQUIRE(client.loop.RunUntil([&] { return !first.lines.empty(); }));
  CHECK(first.lines == "Bearer one;");
  stream.reset();
  client.AfterPause();
  refuse_one = true;
  plugin.Gives(R"("token":"two")");
  Heard second;
  stream = client.transport->Watch(Get("/watch"), &second);
  REQUIRE(client.loop.RunUntil([&] { return !second.lines.empty() || second.closed; }));
  CHECK(second.lines == "Bearer two;");
  stream.reset();

  // A stream outlives its transport, and one that waits for the plugin is told what it said.
  CountingPlugin broken(server, "echo broken >&2; exit 1");
  auto other = std::make_unique<Client>(broken.config);
  Heard third;
  auto waiting = other->transport->Watch(Get("/watch"), &third);
  REQUIRE(other->loop.RunUntil([&] { return third.closed; }));
  CHECK(third.error == "exec plugin counting: failed with exit code 1; it said: broken");
  CHECK(third.code == 0);
  other->transport.reset();
  waiting.reset();
}

}  // namespace
}  // namespace muster::k8s
