// A server that does exactly what a test tells it, byte for byte: one thread a connection, each running the
// test's script.
//
// Threading: scripts run on threads of the server; everything else belongs to the test's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "certificates.h"

namespace muster::testing {

class TestServer {
 public:
  struct Request {
    std::string method;
    std::string target;
    std::string body;
    // The value of a header; empty if there is none.
    std::function<std::string(std::string_view)> header;
  };

  class Connection {
   public:
    virtual ~Connection() = default;
    // RETURNS: nothing once the client has closed.
    virtual std::optional<Request> Read() = 0;
    // RETURNS: false once the client has closed.
    virtual bool Send(std::string_view bytes) = 0;
    // With the end marks of TLS and TCP.
    virtual void Close() = 0;
    // TCP's end only, as when a proxy in between dies.
    virtual void Cut() = 0;
    virtual std::string sni() const = 0;
    virtual std::string client_common_name() const = 0;
    virtual int number() const = 0;  // 1 for the first connection

    // Returns once the client has closed.
    void AwaitClose() {
      while (Read()) {
      }
    }
    void Answer(int status, std::string_view body = "{}", std::string_view extra_headers = "");
  };

  using Script = std::function<void(Connection&)>;

  struct Options {
    std::optional<Certificate> certificate;  // none: plain HTTP
    std::string client_authority_pem;        // not empty: a client certificate is required
  };

  TestServer(Options options, Script script);
  // Cuts all connections and waits for their scripts.
  ~TestServer();

  // Refuses new connections from here on. Scripts may call it, too.
  void StopListening();

  uint16_t port() const;
  int connections() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::testing
