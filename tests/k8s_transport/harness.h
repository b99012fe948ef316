// The usual server, a client that trusts it, and files of a test's own.
//
// Threading: one thread, the server's scripts apart.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "certificates.h"
#include "loop.h"
#include "muster/core/check.h"
#include "muster/k8s_client/connection.h"
#include "muster/k8s_client/transport.h"
#include "test_server.h"

namespace muster::testing {

// Certificates are made once: they are what costs time.
inline const Certificate& Authority() {
  static const Certificate authority = MakeAuthority("test authority");
  return authority;
}
inline const Certificate& ServerCertificate() {
  static const Certificate certificate = Issue(Authority(), {"server", "DNS:localhost,IP:127.0.0.1"});
  return certificate;
}
inline TestServer::Options Tls() { return {ServerCertificate(), ""}; }

inline k8s::ConnectionConfig ConfigFor(const TestServer& server) {
  k8s::ConnectionConfig config;
  config.server = "https://127.0.0.1:" + std::to_string(server.port());
  config.ca_pem = Authority().pem;
  return config;
}

inline k8s::HttpRequest Get(std::string path) {
  k8s::HttpRequest request;
  request.path = std::move(path);
  return request;
}
inline k8s::HttpRequest Post(std::string path, std::string body) {
  k8s::HttpRequest request;
  request.method = k8s::Method::kPost;
  request.path = std::move(path);
  request.content_type = "application/json";
  request.body = std::move(body);
  return request;
}

// A loop with a transport.
class Client {
 public:
  explicit Client(const k8s::ConnectionConfig& config, k8s::TransportOptions options = {}, bool hold_timers = false) {
    auto made = k8s::NewHttpTransport(hold_timers ? loop.env(&timers) : loop.env(), config, std::move(options));
    MUSTER_CHECK_MSG(made.ok(), std::string(made.status().message()));
    transport = *std::move(made);
  }

  // RETURNS: nothing where no answer came to the caller within half a minute.
  std::optional<k8s::HttpResponse> Call(k8s::HttpRequest request) {
    std::optional<k8s::HttpResponse> out;
    transport->Call(std::move(request), [&out](k8s::HttpResponse response) { out = std::move(response); });
    loop.RunUntil([&out] { return out.has_value(); });
    return out;
  }

  Loop loop;
  HeldTimers timers{loop.executor()};
  std::unique_ptr<k8s::Transport> transport;
};

// A file of the test's own, gone with it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  // Replaces the file in one step, as kubelet does. RETURNS: its path.
  std::string Write(const std::string& name, const std::string& content) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace muster::testing
