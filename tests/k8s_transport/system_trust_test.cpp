// The system's authorities, read from where they were when the process began.
#include <stdlib.h>

#include <catch2/catch.hpp>

#include "harness.h"

namespace muster::testing {
namespace {

// Set before main, and so before the first transport looks.
const bool kSystemTrustsOurs = [] {
  static const TempDir files;
  return ::setenv("SSL_CERT_FILE", files.Write("bundle.pem", Authority().pem).c_str(), 1) == 0;
}();

TEST_CASE("without an authority of its own, a connection trusts those of the system") {
  REQUIRE(kSystemTrustsOurs);
  TestServer server(Tls(), [](TestServer::Connection& connection) {
    while (connection.Read()) connection.Answer(200, "{}");
  });
  k8s::ConnectionConfig config = ConfigFor(server);
  config.ca_pem.clear();
  Client client(config);
  for (int i = 0; i < 2; ++i) CHECK(client.Call(Get("/"))->status == 200);
  Client second(config);
  CHECK(second.Call(Get("/"))->status == 200);
}

TEST_CASE("with an authority of its own, a connection trusts that one only") {
  TestServer server(Tls(), [](TestServer::Connection& connection) { connection.AwaitClose(); });
  k8s::ConnectionConfig config = ConfigFor(server);
  config.ca_pem = MakeAuthority("another").pem;
  Client client(config);
  const auto response = client.Call(Get("/"));
  REQUIRE(response);
  CHECK_THAT(response->error, Catch::Contains("certificate not trusted"));
}

}  // namespace
}  // namespace muster::testing
