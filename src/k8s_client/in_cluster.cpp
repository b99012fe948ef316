#include <absl/status/status.h>
#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>

#include <cstdlib>

#include "http_address.h"
#include "http_credentials.h"
#include "muster/core/pem.h"
#include "muster/core/small_file.h"
#include "muster/k8s_client/connection.h"

namespace muster::k8s {
namespace {

constexpr size_t kFileBytesMax = 1024 * 1024;

absl::StatusOr<std::string> Variable(const char* name) {
  const char* value = std::getenv(name);
  if (value != nullptr && *value != '\0') return std::string(value);
  return absl::NotFoundError(absl::StrCat("in-cluster configuration: $", name, " is not set; is this a pod?"));
}

absl::Status InFile(const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("in-cluster configuration: ", status.message()));
}

}  // namespace

absl::StatusOr<ConnectionConfig> InClusterConfig(const std::string& directory) {
  const auto host = Variable("KUBERNETES_SERVICE_HOST");
  if (!host.ok()) return host.status();
  const auto port = Variable("KUBERNETES_SERVICE_PORT");
  if (!port.ok()) return port.status();

  ConnectionConfig out;
  ServerAddress service;
  service.host = *host;
  // cpprestsdk cannot connect to an IPv6 address (it resolves the brackets too); the service's name is in
  // every API server's certificate.
  if (service.IsIpv6()) service.host = "kubernetes.default.svc";
  out.server = absl::StrCat("https://", service.host, ":", *port);
  if (const auto address = ParseServerUrl(out.server); !address.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("in-cluster configuration: $KUBERNETES_SERVICE_HOST and _PORT: ", address.status().message()));
  }

  out.token_file = directory + "/token";
  const auto token = ReadTokenFile(out.token_file);
  if (!token.ok()) return InFile(token.status());
  auto ca = ReadSmallFile(directory + "/ca.crt", kFileBytesMax);
  if (!ca.ok()) return InFile(ca.status());
  if (const auto parsed = ParseCertificates(*ca); !parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("in-cluster configuration: ", directory, "/ca.crt: ", parsed.status().message()));
  }
  out.ca_pem = *std::move(ca);
  const auto ns = ReadSmallFile(directory + "/namespace", kFileBytesMax);
  if (!ns.ok()) return InFile(ns.status());
  out.ns = std::string(absl::StripAsciiWhitespace(*ns));
  if (out.ns.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("in-cluster configuration: ", directory, "/namespace: is empty"));
  }
  return out;
}

}  // namespace muster::k8s
