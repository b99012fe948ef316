// Calls over the real transport against a scripted server.
#include <absl/strings/str_cat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "cpprest_calls.h"
#include "harness.h"
#include "http_address.h"
#include "http_credentials.h"
#include "http_tls.h"

namespace muster::testing {
namespace {

using k8s::ConnectionConfig;
using k8s::HttpRequest;
using k8s::HttpResponse;
using k8s::Method;
using Connection = TestServer::Connection;
using std::chrono::milliseconds;

void AnswerAll(Connection& connection) {
  while (connection.Read()) connection.Answer(200, R"({"kind":"Status"})");
}

TEST_CASE("a call over verified TLS is answered, by address and by name") {
  TestServer server(Tls(), AnswerAll);
  ConnectionConfig config = ConfigFor(server);
  if (GENERATE(false, true)) config.server = absl::StrCat("https://localhost:", server.port());
  Client client(config);
  const auto response = client.Call(Get("/version"));
  REQUIRE(response);
  CHECK(response->error == "");
  CHECK(response->status == 200);
  CHECK(response->sent);
  CHECK(response->body == R"({"kind":"Status"})");
}

TEST_CASE("what is sent is what was asked, byte for byte") {
  std::mutex mutex;
  std::vector<TestServer::Request> seen;
  TestServer server(Tls(), [&](Connection& connection) {
    while (auto request = connection.Read()) {
      const std::lock_guard lock(mutex);
      seen.push_back(*request);
      connection.Answer(201);
    }
  });
  ConnectionConfig config = ConfigFor(server);
  config.server += "/prefix";
  config.token = "secret-token";
  Client client(config, {.user_agent = "muster/test (linux)"});

  HttpRequest patch = Post("/apis/batch/v1/namespaces/a%2Fb/jobs/%C3%A9", R"([{"op":"test"}])");
  patch.method = Method::kPatch;
  patch.query = "labelSelector=a%3Db%2Cc&fieldManager=x%20y&continue=a%2Bb%3D%3D&empty=";
  patch.content_type = "application/json-patch+json";
  patch.accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
  REQUIRE(client.Call(patch)->status == 201);
  REQUIRE(client.Call(Get("/plain"))->status == 201);
  HttpRequest big = Post("/big", std::string(1'000'000, 'x'));
  big.method = Method::kPut;
  REQUIRE(client.Call(big)->status == 201);
  HttpRequest removal = Get("/gone");
  removal.method = Method::kDelete;
  REQUIRE(client.Call(removal)->status == 201);

  REQUIRE(seen.size() == 4);
  CHECK(seen[0].method == "PATCH");
  CHECK(seen[0].target == absl::StrCat("/prefix", patch.path, "?", patch.query));
  CHECK(seen[0].body == patch.body);
  CHECK(seen[0].header("Content-Type") == patch.content_type);
  CHECK(seen[0].header("Accept") == patch.accept);
  CHECK(seen[0].header("User-Agent") == "muster/test (linux)");
  CHECK(seen[0].header("Authorization") == "Bearer secret-token");
  CHECK(seen[0].header("Host") == absl::StrCat("127.0.0.1:", server.port()));
  CHECK(seen[0].header("Accept-Encoding") == "");
  CHECK(seen[1].method == "GET");
  CHECK(seen[1].target == "/prefix/plain");
  CHECK(seen[1].header("Accept") == "application/json");
  CHECK(seen[1].header("Content-Type") == "");
  CHECK(seen[2].method == "PUT");
  CHECK(seen[2].body == big.body);
  CHECK(seen[3].method == "DELETE");
  CHECK(server.connections() == 1);  // all over one connection
}

TEST_CASE("plain HTTP works on loopback") {
  TestServer server({}, AnswerAll);
  ConnectionConfig config;
  config.server = absl::StrCat("http://127.0.0.1:", server.port());
  config.token = "t";
  Client client(config);
  CHECK(client.Call(Get("/"))->status == 200);
}

// --- whom to trust ---

struct Distrust {
  Wanted certificate;
  std::string tls_server_name;
  std::string reason;
};

TEST_CASE("a server that does not prove its name is refused, and the reason is told") {
  const Distrust c = GENERATE(
      Distrust{{"x", "DNS:other.example,IP:10.0.0.1"}, "", "it is for other.example, 10.0.0.1, not for 127.0.0.1"},
      Distrust{{"127.0.0.1", ""}, "", "it is for no name, not for 127.0.0.1"},  // the common name does not count
      Distrust{{"x", "IP:127.0.0.1"}, "api.example", "it is for 127.0.0.1, not for api.example"},
      Distrust{{"x", "IP:127.0.0.1", /*expired=*/true}, "", "certificate has expired"});
  std::atomic<int> requests{0};
  TestServer server({Issue(Authority(), c.certificate), ""}, [&](Connection& connection) {
    while (connection.Read()) ++requests;
  });
  ConnectionConfig config = ConfigFor(server);
  config.tls_server_name = c.tls_server_name;
  Client client(config);
  for (const HttpRequest& request : {Get("/"), Post("/", "{}")}) {
    const auto response = client.Call(request);
    REQUIRE(response);
    CHECK(response->status == 0);
    CHECK_FALSE(response->sent);
    CHECK_THAT(response->error, Catch::Contains("TLS handshake failed") && Catch::Contains(c.reason));
  }
  CHECK(requests == 0);
}

TEST_CASE("a server of another authority is refused") {
  const Certificate stranger = MakeAuthority("a stranger");
  TestServer server({Issue(stranger, {"server", "IP:127.0.0.1"}), ""}, AnswerAll);
  ConnectionConfig config = ConfigFor(server);
  if (GENERATE(false, true)) config.ca_pem.clear();  // the system's authorities do not know it either
  Client client(config);
  const auto response = client.Call(Post("/", "{}"));
  REQUIRE(response);
  CHECK(response->status == 0);
  CHECK_FALSE(response->sent);
  CHECK_THAT(response->error, Catch::Contains("certificate not trusted: "));
}

TEST_CASE("insecure trusts anybody") {
  TestServer server({Issue(MakeAuthority("a stranger"), {"x", "DNS:other.example"}), ""}, AnswerAll);
  ConnectionConfig config = ConfigFor(server);
  config.ca_pem.clear();
  config.insecure = true;
  Client client(config);
  CHECK(client.Call(Get("/"))->status == 200);
}

TEST_CASE("a given certificate is trusted by itself, root or not") {
  TestServer server(Tls(), AnswerAll);
  ConnectionConfig config = ConfigFor(server);
  config.ca_pem = ServerCertificate().pem;  // the leaf; its issuer is not given
  Client client(config);
  CHECK(client.Call(Get("/"))->status == 200);
}

TEST_CASE("tls_server_name is the name to prove, and the SNI") {
  std::promise<std::string> sni;
  TestServer server({Issue(Authority(), {"x", "DNS:api.example"}), ""}, [&](Connection& connection) {
    sni.set_value(connection.sni());
    AnswerAll(connection);
  });
  ConnectionConfig config = ConfigFor(server);
  config.tls_server_name = "api.example";
  Client client(config);
  CHECK(client.Call(Get("/"))->status == 200);
  CHECK(sni.get_future().get() == "api.example");
}

TEST_CASE("an address is not sent as SNI") {
  std::promise<std::string> sni;
  TestServer server(Tls(), [&](Connection& connection) {
    sni.set_value(connection.sni());
    AnswerAll(connection);
  });
  Client client(ConfigFor(server));
  CHECK(client.Call(Get("/"))->status == 200);
  CHECK(sni.get_future().get() == "");
}

TEST_CASE("a client certificate is presented where one is wanted") {
  std::promise<std::string> name;
  TestServer server({ServerCertificate(), Authority().pem}, [&](Connection& connection) {
    name.set_value(connection.client_common_name());
    AnswerAll(connection);
  });
  ConnectionConfig config = ConfigFor(server);
  SECTION("with") {
    const Certificate own = Issue(Authority(), {"system:muster", ""});
    config.client_cert_pem = own.pem;
    config.client_key_pem = own.key_pem;
    Client client(config);
    CHECK(client.Call(Get("/"))->status == 200);
    CHECK(name.get_future().get() == "system:muster");
  }
  SECTION("without") {
    Client client(config);
    const auto response = client.Call(Get("/"));
    REQUIRE(response);
    CHECK(response->status == 0);
    CHECK(response->error != "");
  }
}

TEST_CASE("what cannot work is refused when the transport is made") {
  struct Case {
    std::string server;
    std::string token;
    std::string error;
  };
  const Case c =
      GENERATE(Case{"https://[::1]:6443", "", "an IPv6 address cannot be used"},
               Case{"ftp://host", "", "must begin with https:// or http://"}, Case{"https://", "", "no host"},
               Case{"https://h:0", "", "the port must be a number"}, Case{"https://u:p@h", "", "user and password"},
               Case{"http://api.example", "t", "credentials are not sent without TLS"},
               Case{"https://h", "a\r\nX: y", "cannot stand in a header"});
  Loop loop;
  ConnectionConfig config;
  config.server = c.server;
  config.token = c.token;
  const auto made = k8s::NewHttpTransport(loop.env(), config, {});
  REQUIRE_FALSE(made.ok());
  CHECK_THAT(std::string(made.status().message()), Catch::Contains(c.error));
}

// --- tokens ---

TEST_CASE("a token that was renewed is read again after a 401, and the call is sent once more") {
  std::mutex mutex;
  std::vector<std::string> seen;
  TempDir files;
  TestServer server(Tls(), [&](Connection& connection) {
    while (auto request = connection.Read()) {
      const std::lock_guard lock(mutex);
      seen.push_back(request->header("Authorization") + " " + request->body);
      connection.Answer(request->header("Authorization") == "Bearer new" ? 201 : 401);
    }
  });
  ConnectionConfig config = ConfigFor(server);
  config.token_file = files.Write("token", "old\n");
  Client client(config);

  SECTION("renewed") {
    CHECK(client.Call(Post("/", "a"))->status == 401);  // not yet renewed: no second try
    files.Write("token", "new");
    CHECK(client.Call(Post("/", "b"))->status == 201);
    CHECK(client.Call(Post("/", "c"))->status == 201);
    CHECK(seen == std::vector<std::string>{"Bearer old a", "Bearer old b", "Bearer new b", "Bearer new c"});
  }
  SECTION("gone: the old one goes on") {
    CHECK(client.Call(Post("/", "a"))->status == 401);
    std::filesystem::remove(files.Path("token"));
    CHECK(client.Call(Post("/", "b"))->status == 401);
    CHECK(seen == std::vector<std::string>{"Bearer old a", "Bearer old b"});
  }
}

TEST_CASE("a server that refuses every token is asked twice a call at most") {
  TempDir files;
  std::atomic<int> requests{0};
  TestServer server(Tls(), [&](Connection& connection) {
    while (connection.Read()) {
      files.Write("token", absl::StrCat("token", ++requests));
      connection.Answer(401);
    }
  });
  ConnectionConfig config = ConfigFor(server);
  config.token_file = files.Write("token", "token0");
  Client client(config);
  CHECK(client.Call(Get("/"))->status == 401);
  CHECK(requests == 2);
}

TEST_CASE("a static token is not tried twice") {
  std::atomic<int> requests{0};
  TestServer server(Tls(), [&](Connection& connection) {
    while (connection.Read()) {
      ++requests;
      connection.Answer(401);
    }
  });
  ConnectionConfig config = ConfigFor(server);
  config.token = "t";
  Client client(config);
  CHECK(client.Call(Get("/"))->status == 401);
  CHECK(requests == 1);
}

TEST_CASE("without a readable token nothing is sent, and the file is named") {
  TestServer server(Tls(), AnswerAll);
  ConnectionConfig config = ConfigFor(server);
  config.token_file = "/nonexistent/token";
  Client client(config);
  const auto response = client.Call(Post("/", "{}"));
  REQUIRE(response);
  CHECK(response->status == 0);
  CHECK_FALSE(response->sent);
  CHECK_THAT(response->error, Catch::Contains("/nonexistent/token"));
  CHECK(server.connections() == 0);
}

// --- what is known when there is no answer ---

TEST_CASE("no connection: not sent") {
  uint16_t port = 0;
  {
    TestServer server(Tls(), AnswerAll);
    port = server.port();
  }
  ConnectionConfig config;
  config.server = absl::StrCat("https://127.0.0.1:", port);
  Client client(config);
  for (const HttpRequest& request : {Get("/"), Post("/", "{}")}) {
    const auto response = client.Call(request);
    REQUIRE(response);
    CHECK(response->status == 0);
    CHECK_FALSE(response->sent);
    CHECK_THAT(response->error, Catch::Contains("Failed to connect"));
  }
}

TEST_CASE("a name that does not resolve: not sent") {
  ConnectionConfig config;
  config.server = "https://muster-test.invalid";
  Client client(config);
  const auto response = client.Call(Get("/"));
  REQUIRE(response);
  CHECK(response->status == 0);
  CHECK_FALSE(response->sent);
}

TEST_CASE("time-out before the request could leave: a write was not sent, and is not sent later") {
  std::promise<void> accepted;
  std::promise<void> go_on;
  std::atomic<int> requests{0};
  TestServer plain({}, [&](Connection& connection) {  // takes the connection, and says nothing of TLS
    accepted.set_value();
    go_on.get_future().wait();
    while (connection.Read()) ++requests;
  });
  Client client(ConfigFor(plain), {}, /*hold_timers=*/true);
  std::optional<HttpResponse> response;
  client.transport->Call(Post("/", "{}"), [&](HttpResponse r) { response = std::move(r); });
  accepted.get_future().wait();
  client.loop.RunFor(milliseconds(10));
  CHECK_FALSE(response);
  client.timers.GoOff();
  REQUIRE(client.loop.RunUntil([&] { return response.has_value(); }));
  CHECK(response->status == 0);
  CHECK_FALSE(response->sent);
  CHECK_THAT(response->error, Catch::Contains("time-out"));
  go_on.set_value();
  client.loop.RunFor(milliseconds(50));
  CHECK(requests == 0);
}

// As in a process that was paused and wakes: its timers have not run yet.
TEST_CASE("a write that cannot leave in time is not sent, whether or not timers run") {
  std::atomic<int> requests{0};
  TestServer server(Tls(), [&](Connection& connection) {
    while (connection.Read()) {
      ++requests;
      connection.Answer(200);
    }
  });
  Client client(ConfigFor(server), {}, /*hold_timers=*/true);
  HttpRequest late = Post("/jobs", "{}");
  late.leave_within = std::chrono::nanoseconds(1);
  const auto response = client.Call(std::move(late));
  REQUIRE(response);
  CHECK(response->status == 0);
  CHECK_FALSE(response->sent);
  CHECK_THAT(response->error, Catch::Contains("could not leave in time"));
  HttpRequest early = Post("/jobs", "{}");
  early.leave_within = std::chrono::minutes(1);
  const auto answered = client.Call(std::move(early));
  REQUIRE(answered);
  CHECK(answered->status == 200);
  CHECK(requests == 1);
}

TEST_CASE("time-out after the request left: it may have been applied") {
  const bool answering = GENERATE(false, true);
  std::promise<void> got;
  std::atomic<bool> stop{false};
  TestServer server(Tls(), [&](Connection& connection) {
    connection.Read();
    if (answering) connection.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    got.set_value();
    // The time-out is for the whole call, however alive it looks.
    while (answering && !stop && connection.Send("1\r\nx\r\n")) std::this_thread::sleep_for(milliseconds(1));
    connection.AwaitClose();
  });
  Client client(ConfigFor(server), {}, /*hold_timers=*/true);
  std::optional<HttpResponse> response;
  client.transport->Call(Post("/", "{}"), [&](HttpResponse r) { response = std::move(r); });
  got.get_future().wait();
  client.loop.RunFor(milliseconds(10));
  CHECK_FALSE(response);
  client.timers.GoOff();
  REQUIRE(client.loop.RunUntil([&] { return response.has_value(); }));
  CHECK(response->status == 0);
  CHECK(response->sent);
  CHECK_THAT(response->error, Catch::Contains("time-out"));
  stop = true;
}

TEST_CASE("the time-out of a request is the one that ends it") {
  TestServer server(Tls(), [](Connection& connection) { connection.AwaitClose(); });
  Client client(ConfigFor(server));
  HttpRequest request = Get("/");
  request.timeout = milliseconds(200);
  const auto begin = std::chrono::steady_clock::now();
  const auto response = client.Call(request);
  REQUIRE(response);
  CHECK(std::chrono::steady_clock::now() - begin >= milliseconds(200));
  CHECK(response->status == 0);
  CHECK_THAT(response->error, Catch::Contains("time-out"));
}

TEST_CASE("an answer that breaks off or makes no sense: it may have been applied") {
  const std::string answer =
      GENERATE(std::string(""), std::string("HTTP/1.1 200 OK\r\nContent-"),
               std::string("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":"),
               std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n"),
               std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
               std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n-1\r\nxx\r\n"),
               std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n"),
               std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n-4\r\n"),
               std::string("HTTP/1.1 0 OK\r\nContent-Length: 0\r\n\r\n"), std::string("HTTP/1.1 100 Continue\r\n\r\n"),
               std::string("HTTP/1.1 777 OK\r\nContent-Length: 0\r\n\r\n"), std::string("\x16\x03\x01\x02\r\n\r\n"),
               std::string("no protocol at all\r\n\r\n"),
               std::string("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"));
  CAPTURE(answer);
  std::atomic<int> requests{0};
  TestServer server(Tls(), [&](Connection& connection) {
    connection.Read();
    ++requests;
    connection.Send(answer);
    connection.Cut();
  });
  Client client(ConfigFor(server));
  const auto response = client.Call(Post("/", "{}"));
  REQUIRE(response);
  CHECK(response->status == 0);
  CHECK(response->sent);
  CHECK(response->error != "");
  CHECK(requests == 1);
}

TEST_CASE("an answer that is too long ends the call") {
  TestServer server(Tls(), [](Connection& connection) {
    connection.Read();
    connection.Answer(200, std::string(2'000'000, 'x'));
  });
  Client client(ConfigFor(server), {.response_bytes_max = 1'000'000});
  const auto response = client.Call(Get("/"));
  REQUIRE(response);
  CHECK(response->status == 0);
  CHECK_THAT(response->error, Catch::Contains("longer than 1000000 bytes"));
}

TEST_CASE("answers of every form arrive whole") {
  const std::string body(3'000'000, 'y');
  const int form = GENERATE(0, 1, 2);
  TestServer server(Tls(), [&](Connection& connection) {
    while (connection.Read()) {
      if (form == 0) {
        connection.Answer(200, body);
      } else if (form == 1) {
        connection.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        connection.Send(absl::StrCat(absl::Hex(body.size() - 1), "\r\n", body.substr(1), "\r\n1\r\ny\r\n0\r\n\r\n"));
      } else {
        connection.Send(absl::StrCat("HTTP/1.1 200 OK\r\n\r\n", body));
        connection.Close();
        return;
      }
    }
  });
  Client client(ConfigFor(server));
  for (int i = 0; i < 2; ++i) {
    const auto response = client.Call(Get("/"));
    REQUIRE(response);
    CHECK(response->error == "");
    CHECK(response->status == 200);
    CHECK(response->body == body);
  }
}

TEST_CASE("a pooled connection that the server has closed is not used") {
  std::atomic<int> posts{0};
  std::promise<void> closed;
  TestServer server(Tls(), [&](Connection& connection) {
    while (auto request = connection.Read()) {
      if (request->method == "POST") ++posts;
      connection.Answer(200);
      if (connection.number() == 1) break;
    }
    if (connection.number() != 1) return;
    connection.Close();
    closed.set_value();
  });
  Client client(ConfigFor(server));
  CHECK(client.Call(Get("/"))->status == 200);
  closed.get_future().wait();
  client.loop.RunFor(milliseconds(50));  // the close is on its way over loopback
  const auto response = client.Call(Post("/", "{}"));
  REQUIRE(response);
  CHECK(response->error == "");
  CHECK(response->status == 200);
  CHECK(posts == 1);
  CHECK(server.connections() == 2);
}

TEST_CASE("a close that crosses the request: a read is sent again, a write is not") {
  const bool write = GENERATE(false, true);
  std::atomic<int> requests{0};
  TestServer server(Tls(), [&](Connection& connection) {
    while (connection.Read()) {
      ++requests;
      if (connection.number() == 1 && requests == 2) return;  // read, perhaps applied, never answered
      connection.Answer(200);
    }
  });
  Client client(ConfigFor(server));
  CHECK(client.Call(Get("/"))->status == 200);
  const auto response = client.Call(write ? Post("/", "{}") : Get("/"));
  REQUIRE(response);
  if (write) {
    CHECK(response->status == 0);
    CHECK(response->sent);
    CHECK(requests == 2);
  } else {
    CHECK(response->status == 200);
    CHECK(requests == 3);
  }
}

TEST_CASE("a request without body that left once is not 'not sent', however its second try failed") {
  std::optional<TestServer> server;
  std::atomic<int> requests{0};
  server.emplace(Tls(), [&](Connection& connection) {
    while (connection.Read()) {
      if (++requests == 2) return server->StopListening();  // perhaps applied, never answered
      connection.Answer(200);
    }
  });
  Client client(ConfigFor(*server));
  CHECK(client.Call(Get("/"))->status == 200);
  HttpRequest removal = Get("/");
  removal.method = Method::kDelete;
  const auto response = client.Call(removal);
  REQUIRE(response);
  CHECK(requests == 2);
  CHECK(response->status == 0);
  CHECK(response->sent);
  CHECK_THAT(response->error, Catch::Contains("Failed to connect"));
}

TEST_CASE("a call without a limit to its time is answered") {
  TestServer server(Tls(), AnswerAll);
  Client client(ConfigFor(server));
  HttpRequest request = Get("/");
  request.timeout = Duration::max();
  CHECK(client.Call(request)->status == 200);
}

// --- the rest ---

TEST_CASE("a redirect is handed back, not followed") {
  std::atomic<int> strays{0};
  TestServer elsewhere(Tls(), [&](Connection& connection) {
    while (connection.Read()) ++strays;
  });
  TestServer server(Tls(), [&](Connection& connection) {
    while (connection.Read()) {
      connection.Answer(307, "", absl::StrCat("Location: https://127.0.0.1:", elsewhere.port(), "/\r\n"));
    }
  });
  ConnectionConfig config = ConfigFor(server);
  config.token = "t";
  Client client(config);
  CHECK(client.Call(Get("/"))->status == 307);
  CHECK(client.Call(Post("/", "{}"))->status == 307);
  CHECK(strays == 0);
  CHECK(elsewhere.connections() == 0);
}

TEST_CASE("Retry-After is read where it is a number of seconds") {
  struct Case {
    std::string header;
    std::optional<Duration> expected;
  };
  const Case c = GENERATE(Case{"Retry-After: 7\r\n", std::chrono::seconds(7)}, Case{"retry-after: 0\r\n", Duration(0)},
                          Case{"", std::nullopt}, Case{"Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n", std::nullopt},
                          Case{"Retry-After: -1\r\n", std::nullopt},
                          Case{"Retry-After: 99999999999999999999\r\n", std::chrono::hours(24)});
  TestServer server(Tls(), [&](Connection& connection) {
    while (connection.Read()) connection.Answer(429, "{}", c.header);
  });
  Client client(ConfigFor(server));
  const auto response = client.Call(Get("/"));
  REQUIRE(response);
  CHECK(response->status == 429);
  CHECK(response->retry_after == c.expected);
}

TEST_CASE("the callback never runs inside the call") {
  TestServer server(Tls(), AnswerAll);
  ConnectionConfig config = ConfigFor(server);
  if (GENERATE(false, true)) config.token_file = "/nonexistent";
  Client client(config);
  bool called = false;
  client.transport->Call(Get("/"), [&](const HttpResponse&) { called = true; });
  CHECK_FALSE(called);
  CHECK(client.loop.RunUntil([&] { return called; }));
}

TEST_CASE("many calls at once each get their own answer") {
  TestServer server(Tls(), [](Connection& connection) {
    while (auto request = connection.Read()) connection.Answer(200, request->target);
  });
  Client client(ConfigFor(server));
  constexpr int kCalls = 300;
  std::set<std::string> seen;
  for (int i = 0; i < kCalls; ++i) {
    const std::string path = absl::StrCat("/", i);
    client.transport->Call(Get(path), [&seen, path](const HttpResponse& response) {
      CHECK(response.error == "");
      CHECK(response.body == path);
      seen.insert(response.body);
    });
  }
  CHECK(client.loop.RunUntil([&] { return seen.size() == kCalls; }));
}

TEST_CASE("calls under way end without a word when the transport goes") {
  std::promise<void> got;
  TestServer server(Tls(), [&](Connection& connection) {
    connection.Read();
    if (connection.number() == 1) got.set_value();
    connection.AwaitClose();
  });
  Client client(ConfigFor(server));
  HttpRequest request = Post("/", "{}");
  request.timeout = milliseconds(200);
  client.transport->Call(request, [](const HttpResponse&) { FAIL("called back"); });
  got.get_future().wait();
  client.transport->Call(request, [](const HttpResponse&) { FAIL("called back"); });
  client.transport.reset();
  client.loop.RunFor(milliseconds(300));
}

TEST_CASE("once the transport has gone, so have its calls and all that they used") {
  // Otherwise a process that ends now leaves them half way, for LeakSanitizer to find.
  std::promise<void> got;
  TestServer server(Tls(), [&](Connection& connection) {
    connection.Read();
    got.set_value();
    connection.AwaitClose();
  });
  Loop loop;
  const ConnectionConfig config = ConfigFor(server);
  const auto address = k8s::ParseServerUrl(config.server);
  REQUIRE(address.ok());
  auto tls = k8s::TlsSettings::Make(config, *address);
  REQUIRE(tls.ok());
  const std::weak_ptr<const k8s::TlsSettings> used = *tls;
  auto calls = std::make_unique<k8s::CpprestCalls>(loop.env(), *address, *std::move(tls), "muster-test", 1'000'000);
  calls->Start(std::make_shared<const HttpRequest>(Post("/", "{}")), "",
               {MonoTime{0} + Duration::max(), MonoTime{0} + Duration::max()},
               [](const HttpResponse&) { FAIL("called back"); });
  got.get_future().wait();
  REQUIRE_FALSE(used.expired());
  calls.reset();
  CHECK(used.expired());
}

TEST_CASE("a callback may end the transport") {
  TestServer server(Tls(), AnswerAll);
  Client client(ConfigFor(server));
  bool called = false;
  client.transport->Call(Get("/"), [&](const HttpResponse&) {
    called = true;
    client.transport.reset();
  });
  CHECK(client.loop.RunUntil([&] { return called; }));
  client.loop.RunFor(milliseconds(20));
}

TEST_CASE("a path that is no URI is an error, not a crash") {
  TestServer server(Tls(), AnswerAll);
  Client client(ConfigFor(server));
  const auto response = client.Call(Post("/a b\r\nX: y", "{}"));
  REQUIRE(response);
  CHECK(response->status == 0);
  CHECK_FALSE(response->sent);
  CHECK(response->error != "");
}

}  // namespace
}  // namespace muster::testing
