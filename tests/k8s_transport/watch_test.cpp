// Watches over the real transport against a scripted server.
#include <absl/strings/str_cat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "beast_watch.h"
#include "harness.h"

namespace muster::testing {
namespace {

using k8s::ConnectionConfig;
using k8s::HttpRequest;
using Connection = TestServer::Connection;
using std::chrono::milliseconds;

constexpr const char* kChunkedHead =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string Chunk(std::string_view bytes) {
  return absl::StrCat(absl::Hex(bytes.size()), "\r\n", std::string(bytes), "\r\n");
}

// Keeps what it is told, and checks the order of it.
class Recorder : public k8s::WatchHandler {
 public:
  void OnOpen() override {
    CHECK_FALSE(closed);
    ++opens;
  }
  void OnLine(std::string_view line) override {
    CHECK(opens == 1);
    CHECK_FALSE(closed);
    lines.emplace_back(line);
    if (on_line) on_line();
  }
  void OnClose(absl::Status status, int code, std::string text, std::optional<Duration> after) override {
    CHECK_FALSE(closed);
    closed = true;
    end = std::move(status);
    http_status = code;
    body = std::move(text);
    retry_after = after;
    if (on_close) on_close();
  }

  int opens = 0;
  std::vector<std::string> lines;
  bool closed = false;
  absl::Status end;
  int http_status = -1;
  std::string body;
  std::optional<Duration> retry_after;
  std::function<void()> on_line;
  std::function<void()> on_close;
};

HttpRequest WatchOf(std::string path, Duration silence_max = std::chrono::seconds(20)) {
  HttpRequest request = Get(std::move(path));
  request.query = "watch=1&allowWatchBookmarks=true";
  request.timeout = silence_max;
  return request;
}

// Watches until the stream ends.
struct Watched : Recorder {
  explicit Watched(const ConnectionConfig& config, Duration silence_max = std::chrono::seconds(20)) : client(config) {
    stream = client.transport->Watch(WatchOf("/pods", silence_max), this);
    CHECK(client.loop.RunUntil([this] { return closed; }));
  }
  Client client;
  std::unique_ptr<k8s::WatchStream> stream;
};

TEST_CASE("lines arrive whole however they are cut into chunks and packets") {
  const std::string text =
      "{\"type\":\"ADDED\"}\n{\"a\":\"\xc3\xa9\"}\n\n{\"long\":\"" + std::string(100'000, 'z') + "\"}\nlast\n";
  const std::vector<std::string> expected = {"{\"type\":\"ADDED\"}", "{\"a\":\"\xc3\xa9\"}",
                                             "{\"long\":\"" + std::string(100'000, 'z') + "\"}", "last"};
  const size_t chunk = GENERATE(size_t{1000}, size_t{7}, size_t{1'000'000});
  const size_t packet = GENERATE(size_t{1'000'000}, size_t{999});
  const bool plain = GENERATE(false, true);
  TestServer server(plain ? TestServer::Options() : Tls(), [&](Connection& connection) {
    connection.Read();
    std::string answer = kChunkedHead;
    for (size_t at = 0; at < text.size(); at += chunk) answer += Chunk(text.substr(at, chunk));
    answer += "0\r\n\r\n";
    for (size_t at = 0; at < answer.size(); at += packet) connection.Send(answer.substr(at, packet));
    connection.AwaitClose();
  });
  ConnectionConfig config = ConfigFor(server);
  if (plain) config.server = absl::StrCat("http://127.0.0.1:", server.port());
  const Watched watch(config);
  CHECK(watch.opens == 1);
  CHECK(watch.lines == expected);
  CHECK(watch.end.ok());
  CHECK(watch.http_status == 0);
}

TEST_CASE("a stream that ends with the connection: in order only with the end mark of TLS") {
  const bool in_order = GENERATE(true, false);
  TestServer server(Tls(), [&](Connection& connection) {
    connection.Read();
    connection.Send("HTTP/1.1 200 OK\r\n\r\none\ntwo\n");
    in_order ? connection.Close() : connection.Cut();
  });
  const Watched watch(ConfigFor(server));
  CHECK(watch.lines == std::vector<std::string>{"one", "two"});
  CHECK(watch.end.ok() == in_order);
  CHECK(watch.http_status == 0);
}

TEST_CASE("a line cut by the end of the stream is not delivered") {
  const int form = GENERATE(0, 1, 2, 3);
  TestServer server(Tls(), [&](Connection& connection) {
    connection.Read();
    switch (form) {
      case 0:  // chunked, cut within a chunk
        connection.Send(absl::StrCat(kChunkedHead, Chunk("one\n"), "100\r\ntw"));
        return connection.Cut();
      case 1:  // chunked, cut between chunks
        connection.Send(absl::StrCat(kChunkedHead, Chunk("one\ntw")));
        return connection.Cut();
      case 2:  // chunked, ended in order within a line
        connection.Send(absl::StrCat(kChunkedHead, Chunk("one\ntw"), "0\r\n\r\n"));
        return connection.AwaitClose();
      default:  // ends with the connection
        connection.Send("HTTP/1.1 200 OK\r\n\r\none\ntw");
        return connection.Close();
    }
  });
  const Watched watch(ConfigFor(server));
  CHECK(watch.lines == std::vector<std::string>{"one"});
  CHECK(absl::IsUnavailable(watch.end));
  CHECK(watch.http_status == 0);
}

TEST_CASE("what is sent is what was asked, and no compression") {
  std::promise<TestServer::Request> request;
  std::promise<std::string> sni;
  TestServer server({Issue(Authority(), {"x", "DNS:api.example"}), ""}, [&](Connection& connection) {
    sni.set_value(connection.sni());
    request.set_value(*connection.Read());
    connection.Answer(200, "");
  });
  ConnectionConfig config = ConfigFor(server);
  config.server += "/prefix/";
  config.token = "secret-token";
  config.tls_server_name = "api.example";
  const Watched watch(config);
  CHECK(watch.opens == 1);
  CHECK(watch.end.ok());
  const TestServer::Request seen = request.get_future().get();
  CHECK(seen.method == "GET");
  CHECK(seen.target == "/prefix/pods?watch=1&allowWatchBookmarks=true");
  CHECK(seen.header("Authorization") == "Bearer secret-token");
  CHECK(seen.header("Accept") == "application/json");
  CHECK(seen.header("User-Agent") == "muster");
  CHECK(seen.header("Host") == absl::StrCat("127.0.0.1:", server.port()));
  CHECK(seen.header("Accept-Encoding") == "");
  CHECK(sni.get_future().get() == "api.example");
}

// --- refusals ---

TEST_CASE("an answer other than 200 is handed over with its body") {
  struct Case {
    std::string answer;
    int status;
    std::string body;
    std::optional<Duration> retry_after;
  };
  const std::string gone = R"({"kind":"Status","code":410,"reason":"Expired"})";
  const Case c = GENERATE_COPY(
      Case{absl::StrCat("HTTP/1.1 410 Gone\r\nContent-Length: ", gone.size(), "\r\n\r\n", gone), 410, gone,
           std::nullopt},
      Case{absl::StrCat("HTTP/1.1 410 Gone\r\nTransfer-Encoding: chunked\r\n\r\n", Chunk(gone), "0\r\n\r\n"), 410, gone,
           std::nullopt},
      Case{"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n", 429, "",
           std::chrono::seconds(3)},
      Case{"HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nhalf", 500, "half", std::nullopt},
      Case{"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", 401, "", std::nullopt},
      Case{"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", 302, "", std::nullopt});
  TestServer server(Tls(), [&](Connection& connection) {
    connection.Read();
    connection.Send(c.answer);
    connection.Close();
  });
  const Watched watch(ConfigFor(server));
  CHECK(watch.opens == 0);
  CHECK(watch.lines.empty());
  CHECK_FALSE(watch.end.ok());
  CHECK(watch.http_status == c.status);
  CHECK(watch.body == c.body);
  CHECK(watch.retry_after == c.retry_after);
  CHECK(server.connections() == 1);
}

TEST_CASE("an answer that is no HTTP, or compressed, or too long a line, is malformed") {
  const std::string answer =
      GENERATE(std::string("\x16\x03\x01 garbage\r\n\r\n"),
               std::string("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nabc\n"),
               absl::StrCat(kChunkedHead, "zz\r\n"), absl::StrCat(kChunkedHead, "-1\r\nabc\n\r\n"),
               absl::StrCat("HTTP/1.1 200 OK\r\nX: ", std::string(70'000, 'x'), "\r\n\r\n"),
               absl::StrCat("HTTP/1.1 200 OK\r\n\r\n", std::string(k8s::kWatchLineBytesMax + 1, 'x'), "\n"));
  TestServer server(Tls(), [&](Connection& connection) {
    connection.Read();
    connection.Send(answer);
    connection.AwaitClose();
  });
  const Watched watch(ConfigFor(server));
  CHECK(watch.lines.empty());
  CHECK(absl::IsDataLoss(watch.end));
  CHECK(watch.http_status == 0);
}

TEST_CASE("the longest line allowed is delivered, and what came before a longer one too") {
  const std::string longest(k8s::kWatchLineBytesMax, 'x');
  TestServer server(Tls(), [&](Connection& connection) {
    connection.Read();
    connection.Send(absl::StrCat("HTTP/1.1 200 OK\r\n\r\nfirst\n", longest, "\n", longest, "y"));
    connection.AwaitClose();
  });
  const Watched watch(ConfigFor(server));
  REQUIRE(watch.lines.size() == 2);
  CHECK(watch.lines[0] == "first");
  CHECK((watch.lines[1] == longest));
  CHECK(absl::IsDataLoss(watch.end));
}

TEST_CASE("a watch does not open to a server that does not prove its name") {
  const Wanted wanted =
      GENERATE(Wanted{"x", "DNS:other.example"}, Wanted{"127.0.0.1", ""}, Wanted{"x", "IP:127.0.0.2"});
  TestServer server({Issue(Authority(), wanted), ""}, [](Connection& connection) { connection.Answer(200, "x\n"); });
  const Watched watch(ConfigFor(server));
  CHECK(watch.opens == 0);
  CHECK(absl::IsUnavailable(watch.end));
  CHECK_THAT(std::string(watch.end.message()), Catch::Contains("not for 127.0.0.1"));
}

TEST_CASE("a watch does not open to a server of another authority") {
  TestServer server({Issue(MakeAuthority("a stranger"), {"x", "IP:127.0.0.1"}), ""},
                    [](Connection& connection) { connection.Answer(200, "x\n"); });
  const Watched watch(ConfigFor(server));
  CHECK(watch.opens == 0);
  CHECK_THAT(std::string(watch.end.message()), Catch::Contains("certificate not trusted"));
}

TEST_CASE("a watch presents the client certificate") {
  TestServer server({ServerCertificate(), Authority().pem}, [](Connection& connection) {
    connection.Read();
    connection.Answer(200, connection.client_common_name() + "\n");
  });
  ConnectionConfig config = ConfigFor(server);
  const Certificate own = Issue(Authority(), {"system:muster", ""});
  config.client_cert_pem = own.pem;
  config.client_key_pem = own.key_pem;
  const Watched watch(config);
  CHECK(watch.lines == std::vector<std::string>{"system:muster"});
}

TEST_CASE("no connection: the watch ends with what failed") {
  uint16_t port = 0;
  {
    TestServer server(Tls(), [](Connection&) {});
    port = server.port();
  }
  ConnectionConfig config;
  config.server = GENERATE_COPY(absl::StrCat("https://127.0.0.1:", port), std::string("https://muster-test.invalid"));
  const Watched watch(config);
  CHECK(absl::IsUnavailable(watch.end));
  CHECK_THAT(std::string(watch.end.message()), Catch::Contains("cannot connect") || Catch::Contains("cannot resolve"));
}

// --- tokens ---

TEST_CASE("a watch refused with 401 is opened once more with the renewed token") {
  const bool renewed_in_time = GENERATE(true, false);
  TempDir files;
  TestServer server(Tls(), [&](Connection& connection) {
    const auto request = connection.Read();
    if (request->header("Authorization") == "Bearer new") return connection.Answer(200, "hello\n");
    files.Write("token", renewed_in_time ? "new" : absl::StrCat("stale", connection.number()));
    connection.Answer(401, "no");
  });
  ConnectionConfig config = ConfigFor(server);
  config.token_file = files.Write("token", "old");
  const Watched watch(config);
  CHECK(server.connections() == 2);
  if (renewed_in_time) {
    CHECK(watch.lines == std::vector<std::string>{"hello"});
    CHECK(watch.end.ok());
  } else {
    CHECK(watch.opens == 0);
    CHECK(watch.http_status == 401);
    CHECK(watch.body == "no");
  }
}

TEST_CASE("a watch without a readable token ends, and the file is named") {
  TestServer server(Tls(), [](Connection&) {});
  ConnectionConfig config = ConfigFor(server);
  config.token_file = "/nonexistent/token";
  const Watched watch(config);
  CHECK_THAT(std::string(watch.end.message()), Catch::Contains("/nonexistent/token"));
  CHECK(server.connections() == 0);
}

// --- silence ---

// Patience enough for a slow machine to get as far as the step in question.
constexpr Duration kSilence = std::chrono::seconds(2);

TEST_CASE("a watch that falls silent is ended, at whatever step") {
  const int step = GENERATE(0, 1, 2, 3);
  TestServer server(step == 0 ? TestServer::Options() : Tls(), [&](Connection& connection) {
    if (step == 0) {  // takes the connection, says nothing of TLS
      std::this_thread::sleep_for(kSilence * 2);
      return;
    }
    connection.Read();
    if (step == 2) connection.Send(kChunkedHead);
    if (step == 3) {
      connection.Send(absl::StrCat(kChunkedHead, Chunk("one\n")));
      while (connection.Send(Chunk("x"))) std::this_thread::sleep_for(milliseconds(20));  // bytes, but no line
    }
    connection.AwaitClose();
  });
  const Watched watch(ConfigFor(server), kSilence);
  CHECK(absl::IsDeadlineExceeded(watch.end));
  CHECK(watch.lines.size() == (step == 3 ? 1 : 0));
}

TEST_CASE("a watch whose lines keep coming lives on beyond the silence tolerated") {
  TestServer server(Tls(), [&](Connection& connection) {
    connection.Read();
    connection.Send(kChunkedHead);
    for (int i = 0; i < 10; ++i) {
      connection.Send(Chunk("line\n"));
      std::this_thread::sleep_for(kSilence / 5);
    }
    connection.Send("0\r\n\r\n");
  });
  const Watched watch(ConfigFor(server), kSilence);
  CHECK(watch.lines.size() == 10);
  CHECK(watch.end.ok());
}

TEST_CASE("a watch without a limit to its silence lives on") {
  TestServer server(Tls(), [&](Connection& connection) {
    connection.Read();
    connection.Send(kChunkedHead);
    std::this_thread::sleep_for(milliseconds(50));  // time for a deadline that has already passed to show
    connection.Send(Chunk("line\n"));
    connection.Send("0\r\n\r\n");
  });
  const Watched watch(ConfigFor(server), Duration::max());
  CHECK(watch.lines.size() == 1);
  CHECK(watch.end.ok());
}

// --- ends from our side ---

// Sends lines until the client has closed.
void SendForEver(Connection& connection) {
  connection.Read();
  connection.Send(kChunkedHead);
  while (connection.Send(Chunk("line\nline\nline\n"))) {
  }
}

TEST_CASE("destroying the stream closes it, and no callback follows") {
  std::promise<void> closed;
  TestServer server(Tls(), [&](Connection& connection) {
    SendForEver(connection);
    closed.set_value();
  });
  Client client(ConfigFor(server));
  Recorder recorder;
  std::unique_ptr<k8s::WatchStream> stream;
  recorder.on_line = [&] {
    if (recorder.lines.size() == 5) stream.reset();  // in the midst of a batch
  };
  stream = client.transport->Watch(WatchOf("/pods"), &recorder);
  CHECK(client.loop.RunUntil([&] { return recorder.lines.size() == 5; }));
  CHECK(closed.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  client.loop.RunFor(milliseconds(20));
  CHECK(recorder.lines.size() == 5);
  CHECK_FALSE(recorder.closed);
}

TEST_CASE("a stream may be destroyed before it has opened") {
  TestServer server(Tls(), SendForEver);
  Client client(ConfigFor(server));
  Recorder recorder;
  client.transport->Watch(WatchOf("/pods"), &recorder).reset();
  client.loop.RunFor(milliseconds(50));
  CHECK(recorder.opens == 0);
  CHECK_FALSE(recorder.closed);
}

TEST_CASE("a handler may destroy its stream, and open the next, in OnClose") {
  TestServer server(Tls(), [](Connection& connection) {
    connection.Read();
    connection.Answer(200, absl::StrCat(connection.number(), "\n"));
  });
  Client client(ConfigFor(server));
  Recorder first;
  Recorder second;
  std::unique_ptr<k8s::WatchStream> stream;
  first.on_close = [&] { stream = client.transport->Watch(WatchOf("/pods"), &second); };
  stream = client.transport->Watch(WatchOf("/pods"), &first);
  CHECK(client.loop.RunUntil([&] { return second.closed; }));
  CHECK(first.lines == std::vector<std::string>{"1"});
  CHECK(second.lines == std::vector<std::string>{"2"});
}

TEST_CASE("the transport may go before its streams: no callback follows") {
  TestServer server(Tls(), SendForEver);
  Client client(ConfigFor(server));
  Recorder recorder;
  Recorder other;
  const auto stream = client.transport->Watch(WatchOf("/pods"), &recorder);
  const auto unopened = client.transport->Watch(WatchOf("/pods"), &other);
  CHECK(client.loop.RunUntil([&] { return recorder.lines.size() > 10; }));
  client.transport.reset();
  const size_t before = recorder.lines.size() + other.lines.size();
  client.loop.RunFor(milliseconds(20));
  CHECK(recorder.lines.size() + other.lines.size() == before);
  CHECK_FALSE(recorder.closed);
}

TEST_CASE("a stream faster than its reader is held back, and nothing of it is lost") {
  constexpr size_t kLines = 64;
  const std::string filler(1'000'000, 'x');
  std::atomic<size_t> sent{0};
  TestServer server(Tls(), [&](Connection& connection) {
    connection.Read();
    connection.Send("HTTP/1.1 200 OK\r\n\r\n");
    for (size_t i = 0; i < kLines; ++i, ++sent) connection.Send(absl::StrCat(i, " ", filler, "\n"));
    connection.Close();
  });
  Client client(ConfigFor(server));
  Recorder recorder;
  std::vector<size_t> numbers;
  recorder.on_line = [&] {
    numbers.push_back(std::stoul(recorder.lines.back()));
    recorder.lines.back().clear();
  };
  // The executor does not run, so nothing is taken. What can be under way is our own bound, and the sockets'
  // buffers (some MB at the most).
  const auto stream = client.transport->Watch(WatchOf("/pods", kSilence), &recorder);
  size_t before = 0;
  do {
    before = sent;
    std::this_thread::sleep_for(kSilence * 5 / 4);  // longer than the silence tolerated: a pause is not one
  } while (sent != before || sent == 0);
  CHECK(sent < 40);
  CHECK(client.loop.RunUntil([&] { return recorder.closed; }));
  CHECK(recorder.end.ok());
  REQUIRE(numbers.size() == kLines);
  for (size_t i = 0; i < kLines; ++i) CHECK(numbers[i] == i);
}

TEST_CASE("several watches and calls go side by side") {
  TestServer server(Tls(), [](Connection& connection) {
    while (auto request = connection.Read()) {
      if (request->target.find("watch=1") == std::string::npos) {
        connection.Answer(200, request->target);
        continue;
      }
      connection.Send(kChunkedHead);
      for (int i = 0; i < 200; ++i) connection.Send(Chunk(absl::StrCat(request->target, "\n")));
      connection.Send("0\r\n\r\n");
    }
  });
  Client client(ConfigFor(server));
  constexpr size_t kWatches = 12;
  std::vector<Recorder> recorders(kWatches);
  std::vector<std::unique_ptr<k8s::WatchStream>> streams;
  size_t answered = 0;
  for (size_t i = 0; i < kWatches; ++i) {
    streams.push_back(client.transport->Watch(WatchOf(absl::StrCat("/kind", i)), &recorders[i]));
    client.transport->Call(Get("/call"), [&](const k8s::HttpResponse& response) {
      CHECK(response.body == "/call");
      ++answered;
    });
  }
  CHECK(client.loop.RunUntil([&] {
    return answered == kWatches && std::all_of(recorders.begin(), recorders.end(), [](auto& r) { return r.closed; });
  }));
  for (size_t i = 0; i < kWatches; ++i) {
    REQUIRE(recorders[i].lines.size() == 200);
    CHECK(recorders[i].lines[199] == absl::StrCat("/kind", i, "?watch=1&allowWatchBookmarks=true"));
  }
}

}  // namespace
}  // namespace muster::testing
