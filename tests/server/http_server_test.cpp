// What a client may do to the server, well-behaved or not. Expected statuses are those of RFC 9110.

#include "muster/server/http_server.h"

#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "raw_client.h"

namespace muster::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Handler Text(std::string text) {
  return [text](const HttpRequest&, Respond respond) {
    respond([text] { return HttpReply{200, "text/plain", text}; });
  };
}

std::unique_ptr<HttpServer> Serve(std::map<std::string, Handler> routes, HttpServerOptions options = {}) {
  auto server = HttpServer::Start({"127.0.0.1", 0}, std::move(routes), options);
  REQUIRE(server.ok());
  return *std::move(server);
}

std::string Ask(const HttpServer& server, const std::string& request) {
  RawClient client(server.address().port);
  client.Send(request);
  return client.ReadAll();
}

std::string Get(const HttpServer& server, const std::string& target) {
  return Ask(server, "GET " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

size_t Count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST_CASE("a request is answered with the body, its length and its type") {
  const auto server = Serve({{"/a", Text("hello")}});
  const std::string answer = Get(*server, "/a");
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(answer.find("\r\nContent-Length: 5\r\n") != std::string::npos);
  CHECK(answer.find("\r\nContent-Type: text/plain\r\n") != std::string::npos);
  CHECK(answer.ends_with("\r\n\r\nhello"));
}

TEST_CASE("HEAD gets the header of GET without the body") {
  const auto server = Serve({{"/a", Text("hello")}});
  const std::string answer = Ask(*server, "HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(answer.find("\r\nContent-Length: 5\r\n") != std::string::npos);
  CHECK(answer.ends_with("\r\n\r\n"));
}

TEST_CASE("the query is decoded, in order, repetitions included") {
  std::promise<HttpRequest> seen;
  const auto server = Serve({{"/a", [&seen](const HttpRequest& request, Respond respond) {
                                seen.set_value(request);
                                respond([] { return HttpReply{}; });
                              }}});
  Get(*server, "/a?verbose&exclude=a%2Fb&exclude=c+d&&x=%zz&=y");
  const HttpRequest request = seen.get_future().get();
  CHECK(request.path == "/a");
  CHECK(request.query == std::vector<std::pair<std::string, std::string>>{
                             {"verbose", ""}, {"exclude", "a/b"}, {"exclude", "c d"}, {"x", "%zz"}, {"", "y"}});
}

TEST_CASE("unknown paths and methods are refused, and the connection goes on") {
  const auto server = Serve({{"/a", Text("hello")}});
  RawClient client(server->address().port);
  client.Send("GET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(client.ReadUntil("no such page\n").starts_with("HTTP/1.1 404 "));
  client.Send("DELETE /a HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string refused = client.ReadUntil("are served\n");
  CHECK(refused.starts_with("HTTP/1.1 405 "));
  CHECK(refused.find("\r\nAllow: GET, HEAD\r\n") != std::string::npos);
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  CHECK(client.ReadAll().ends_with("hello"));
}

TEST_CASE("pipelined requests are answered in their order") {
  const auto server = Serve({{"/a", Text("<first>")}, {"/b", Text("<second>")}});
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    requests += "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n";
  }
  requests += "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  const std::string answers = Ask(*server, requests);
  CHECK(Count(answers, "<first>") == 51);
  CHECK(Count(answers, "<second>") == 50);
  size_t at = 0;
  for (int i = 0; i < 50; ++i) {
    at = answers.find("<first>", at);
    REQUIRE(at != std::string::npos);
    const size_t next = answers.find("<first>", at + 1);
    at = answers.find("<second>", at);
    REQUIRE(at < next);
  }
}

TEST_CASE("what is not HTTP gets 400 and the end of the connection") {
  const auto server = Serve({{"/a", Text("hello")}});
  for (const std::string& garbage :
       {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello\r\n\r\n"), std::string("GET\r\n\r\n"),
        std::string("GET /a HTTP/9.9\r\n\r\n"), std::string("GET /a HTTP/1.1\r\nno colon\r\n\r\n"),
        std::string("GET /a HTTP/1.1\r\nContent-Length: minus\r\n\r\n"), std::string("\0\0\0\0\r\n\r\n", 8)}) {
    CAPTURE(garbage);
    CHECK(Ask(*server, garbage).starts_with("HTTP/1.1 400 "));
  }
  CHECK(Get(*server, "/a").ends_with("hello"));
}

TEST_CASE("a header or body beyond the limit is refused without being kept") {
  const auto server = Serve({{"/a", Text("hello")}});
  CHECK(Ask(*server, "GET /a HTTP/1.1\r\nX: " + std::string(9 * 1024, 'x') + "\r\n\r\n").starts_with("HTTP/1.1 431 "));
  CHECK(Ask(*server, "GET /" + std::string(9 * 1024, 'x') + " HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 431 "));
  CHECK(Ask(*server, "GET /a HTTP/1.1\r\nContent-Length: 1000000000000\r\n\r\n").starts_with("HTTP/1.1 413 "));
  CHECK(Ask(*server, "GET /a HTTP/1.1\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc").ends_with("hello"));
  CHECK(Get(*server, "/a").ends_with("hello"));
}

TEST_CASE("random bytes never harm the server") {
  const auto server = Serve({{"/a", Text("hello")}});
  std::mt19937 random(7);  // NOLINT: the same bytes each time
  for (int i = 0; i < 200; ++i) {
    std::string bytes = i % 2 == 0 ? "" : "GET /a HTTP/1.1\r\n";
    for (int n = static_cast<int>(random() % 300); n > 0; --n) bytes.push_back(static_cast<char>(random() % 256));
    RawClient client(server->address().port);
    client.Send(bytes);
  }
  CHECK(Get(*server, "/a").ends_with("hello"));
}

TEST_CASE("a client that sends too slowly is closed") {
  HttpServerOptions options;
  options.request_timeout = milliseconds(100);
  const auto server = Serve({{"/a", Text("hello")}}, options);
  RawClient client(server->address().port);
  client.Send("GET /a HT");
  CHECK(client.ReadAll() == "");
  CHECK(Get(*server, "/a").ends_with("hello"));
}

TEST_CASE("too many connections cost the one that has waited longest, not the next client") {
  HttpServerOptions options;
  options.connections_max = 4;
  options.request_timeout = seconds(300);
  const auto server = Serve({{"/a", Text("hello")}}, options);
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 4; ++i) {
    slow.push_back(std::make_unique<RawClient>(server->address().port));
    slow.back()->Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    slow.back()->ReadUntil("hello");
  }
  CHECK(Get(*server, "/a").ends_with("hello"));
  CHECK(slow[0]->ReadAll() == "");
  slow[3]->Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(slow[3]->ReadUntil("hello").ends_with("hello"));
}

TEST_CASE("a handler that never answers costs 503, and a late answer is dropped") {
  HttpServerOptions options;
  options.handler_timeout = milliseconds(50);
  std::promise<Respond> late;
  const auto server =
      Serve({{"/stuck", [&late](const HttpRequest&, Respond respond) { late.set_value(std::move(respond)); }},
             {"/a", Text("hello")}},
            options);
  CHECK(Get(*server, "/stuck").starts_with("HTTP/1.1 503 "));
  late.get_future().get()([] { return HttpReply{200, "text/plain", "late"}; });
  CHECK(Get(*server, "/a").ends_with("hello"));
}

TEST_CASE("an answer may come from another thread, and is rendered on the server's") {
  std::promise<Respond> handed_over;
  std::promise<std::thread::id> handler_thread;
  std::promise<std::thread::id> render_thread;
  const auto server = Serve({{"/a", [&](const HttpRequest&, Respond respond) {
                                handler_thread.set_value(std::this_thread::get_id());
                                handed_over.set_value(std::move(respond));
                              }}});
  RawClient client(server->address().port);
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  handed_over.get_future().get()([&render_thread] {
    render_thread.set_value(std::this_thread::get_id());
    return HttpReply{200, "text/plain", "elsewhere"};
  });
  CHECK(client.ReadAll().ends_with("elsewhere"));
  CHECK(render_thread.get_future().get() == handler_thread.get_future().get());
}

TEST_CASE("a server ends with connections open and answers outstanding, which are dropped") {
  std::promise<Respond> kept;
  auto server = Serve({{"/a", [&kept](const HttpRequest&, Respond respond) { kept.set_value(std::move(respond)); }}});
  RawClient waiting(server->address().port);
  waiting.Send("GET /a HTTP/1.1\r\n\r\n");
  RawClient idle(server->address().port);
  Respond respond = kept.get_future().get();
  server.reset();
  CHECK(waiting.ReadAll() == "");
  CHECK(idle.ReadAll() == "");
  respond([] { return HttpReply{}; });
}

TEST_CASE("an address in use is an error that names it") {
  const auto server = Serve({});
  const auto second = HttpServer::Start(server->address(), {});
  REQUIRE(!second.ok());
  CHECK(second.status().ToString().find(server->address().ToString() + ": Address already in use") !=
        std::string::npos);
}

TEST_CASE("an empty host listens on every interface") {
  const auto server = HttpServer::Start({"", 0}, {{"/a", Text("hello")}});
  REQUIRE(server.ok());
  CHECK(Get(**server, "/a").ends_with("hello"));
}

TEST_CASE("addresses are read in Go's form") {
  const auto parse = [](std::string_view text) { return ParseAddress(text); };
  CHECK(*parse(":8081") == Address{"", 8081});
  CHECK(*parse("127.0.0.1:0") == Address{"127.0.0.1", 0});
  CHECK(*parse("localhost:80") == Address{"127.0.0.1", 80});
  CHECK(*parse("[::1]:65535") == Address{"::1", 65535});
  CHECK(parse("[::1]:65535")->ToString() == "[::1]:65535");
  CHECK(parse(":8081")->ToString() == ":8081");
  for (const std::string_view bad : {"", "8081", "::1:80", "[127.0.0.1]:80", "host.example:80", ":", ":x", ":65536",
                                     ":-1", ":+1", ": 80", "127.0.0.1", "[]:80", "127.0.0.1:99999999999999999999"}) {
    CAPTURE(bad);
    CHECK(parse(bad).status().code() == absl::StatusCode::kInvalidArgument);
  }
  CHECK(parse("127.5.0.1:80")->IsLoopback());
  CHECK(parse("[::1]:80")->IsLoopback());
  CHECK(!parse(":80")->IsLoopback());
  CHECK(!parse("10.0.0.1:80")->IsLoopback());
}

}  // namespace
}  // namespace muster::server
