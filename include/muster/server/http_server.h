// A small HTTP/1.1 server for probes and scrapes: GET and HEAD, fixed paths, plain text over TCP or TLS. It has a
// thread of its own, so that a slow or hostile client costs the executor nothing: sizes, times and the
// number of connections are limited, and where there are too many, the one that has kept the server waiting
// longest is closed to let the next one in.
//
// Threading: Start and the destructor from one thread; routes are called on the server's thread, and may answer
// from any.
#pragma once

#include <absl/functional/any_invocable.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/core/time.h"
#include "muster/server/tls.h"

namespace muster::server {

struct Address {
  std::string host;   // an IP address, or empty: every interface
  uint16_t port = 0;  // 0: a free one

  bool IsLoopback() const;
  std::string ToString() const;  // "host:port", "[v6]:port", ":port"
  friend bool operator==(const Address&, const Address&) = default;
};

// Go's form "host:port", as Kueue's configuration has it; "localhost" is taken as 127.0.0.1.
// ON FAILURE: InvalidArgument that says what the form is.
absl::StatusOr<Address> ParseAddress(std::string_view text);

struct HttpRequest {
  std::string path;
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in order
  std::string method = "get";                              // or "head"
  std::string authorization = {};                          // the header, if there is exactly one
};

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// To be called once, from any thread. What it is given runs on the server's thread, which is the place for
// slow rendering. Where it is never called, the client gets a 503 after `handler_timeout`.
using Respond = absl::AnyInvocable<void(absl::AnyInvocable<HttpReply()>)>;
// Runs on the server's thread, or where the handler around it says.
using Handler = std::function<void(const HttpRequest&, Respond)>;

struct HttpServerOptions {
  std::optional<TlsOptions> tls;  // none: plain HTTP
  int connections_max = 64;
  // From the first wait for a request to its last byte; the same again for a handshake before.
  Duration request_timeout = std::chrono::seconds(10);
  Duration handler_timeout = std::chrono::seconds(10);
  Duration write_timeout = std::chrono::seconds(30);
  uint32_t header_bytes_max = 8 * 1024;
  uint32_t body_bytes_max = 4 * 1024;  // read and ignored
};

class HttpServer {
 public:
  // Listens and serves from here on. `routes`: by exact path.
  // ON FAILURE: names the address, or the certificate.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const Address& address,
                                                           std::map<std::string, Handler> routes,
                                                           HttpServerOptions options = {});
  // Closes all connections. Answers that come later are dropped.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // With the real port.
  const Address& address() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::server
