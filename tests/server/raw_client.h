// A TCP client that sends bytes as they are and reads what comes, for requests that no HTTP library would send.
//
// Threading: needs external synchronisation.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>

#include "muster/core/check.h"

namespace muster::server {

class RawClient {
 public:
  explicit RawClient(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MUSTER_CHECK(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  int fd() const { return fd_; }

  // RETURNS: false where the server has closed the connection.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  // Reads until the server closes, or nothing has come for `patience`.
  std::string ReadAll(std::chrono::milliseconds patience = std::chrono::seconds(20)) {
    std::string all;
    while (true) {
      const std::string part = ReadSome(patience);
      if (part.empty()) return all;
      all += part;
    }
  }

  // Reads until `text` is among what has come; what came before it stays in the result.
  std::string ReadUntil(std::string_view text) {
    std::string all;
    while (all.find(text) == std::string::npos) {
      const std::string part = ReadSome(std::chrono::seconds(20));
      if (part.empty()) return all;
      all += part;
    }
    return all;
  }

 private:
  std::string ReadSome(std::chrono::milliseconds patience) {
    pollfd waiting{fd_, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(patience.count())) != 1) return {};
    char buffer[4096];
    const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
    return n <= 0 ? std::string() : std::string(buffer, static_cast<size_t>(n));
  }

  int fd_;
};

}  // namespace muster::server
