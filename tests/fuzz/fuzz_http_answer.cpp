// Any bytes as what a server answers: to a watch if the first byte is even, to a call otherwise. Nothing may
// crash; each ends exactly once, a watch's lines are whole, and a call without status says why.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "beast_watch.h"
#include "muster/core/check.h"
#include "muster/k8s_client/connection.h"

namespace muster::k8s {
namespace {

// Answers each connection with the bytes set, whatever is asked, and closes.
class Server {
 public:
  Server() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    MUSTER_CHECK(::bind(listener_, generic, length) == 0 && ::listen(listener_, 16) == 0);
    MUSTER_CHECK(::getsockname(listener_, generic, &length) == 0);
    port_ = ntohs(address.sin_port);
    std::thread([this] { Serve(); }).detach();  // until the process ends
  }

  void SetAnswer(std::string answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  int port() const { return port_; }

 private:
  void Serve() {
    while (true) {
      const int client = ::accept(listener_, nullptr, nullptr);
      if (client < 0) continue;
      char request[4096];
      const ssize_t got = ::recv(client, request, sizeof(request), 0);
      std::string answer;
      {
        const std::lock_guard lock(mutex_);
        answer = answer_;
      }
      if (got > 0) ::send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
      ::shutdown(client, SHUT_WR);
      // A close before all of the request has come would take the answer away; the client may close late.
      std::thread([client] {
        char rest[4096];
        while (::recv(client, rest, sizeof(rest), 0) > 0) {
        }
        ::close(client);
      }).detach();
    }
  }

  const int listener_;
  int port_ = 0;
  std::mutex mutex_;
  std::string answer_;  // guarded by mutex_
};

class Checked final : public WatchHandler {
 public:
  explicit Checked(AsioExecutor* executor) : executor_(executor) {}
  void OnOpen() override { MUSTER_CHECK(!std::exchange(open_, true)); }
  void OnLine(std::string_view line) override {
    MUSTER_CHECK(open_ && !closed_ && !line.empty() && line.size() <= kWatchLineBytesMax);
    MUSTER_CHECK(line.find('\n') == std::string_view::npos);
  }
  void OnClose(absl::Status status, int http_status, std::string /*body*/, std::optional<Duration> /*after*/) override {
    MUSTER_CHECK(!std::exchange(closed_, true));
    MUSTER_CHECK(http_status == 0 || (!open_ && !status.ok()));
    executor_->Stop();
  }
  bool closed() const { return closed_; }

 private:
  AsioExecutor* const executor_;
  bool open_ = false;
  bool closed_ = false;
};

class World {
 public:
  World() {
    ConnectionConfig config;
    config.server = "http://127.0.0.1:" + std::to_string(server_.port());
    auto made = NewHttpTransport({&clock_, &random_, &executor_}, config, {.response_bytes_max = 1 << 20});
    MUSTER_CHECK(made.ok());
    transport_ = *std::move(made);
  }

  void Watch(std::string answer) {
    server_.SetAnswer(std::move(answer));
    Checked handler(&executor_);
    HttpRequest request;
    request.path = "/pods";
    const auto stream = transport_->Watch(request, &handler);
    executor_.Run();
    MUSTER_CHECK(handler.closed());
  }

  void Call(std::string answer) {
    server_.SetAnswer(std::move(answer));
    HttpRequest request;
    request.method = Method::kPost;
    request.path = "/pods";
    request.body = std::string(2, 'x');
    request.content_type = "application/json";
    int ends = 0;
    transport_->Call(request, [this, &ends](const HttpResponse& response) {
      MUSTER_CHECK(++ends == 1);
      MUSTER_CHECK((response.status == 0) == !response.error.empty());
      MUSTER_CHECK(response.body.size() <= 1 << 20);
      executor_.Stop();
    });
    executor_.Run();
    MUSTER_CHECK(ends == 1);
  }

 private:
  SystemClock clock_;
  SeededRandom random_{1};
  AsioExecutor executor_;
  Server server_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace
}  // namespace muster::k8s

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* world = new muster::k8s::World;  // its threads live as long as the process
  if (size == 0) return 0;
  std::string answer(reinterpret_cast<const char*>(data) + 1, size - 1);
  data[0] % 2 == 0 ? world->Watch(std::move(answer)) : world->Call(std::move(answer));
  return 0;
}
