// The server's URL, taken apart once.
//
// Threading: values.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::k8s {

struct ServerAddress {
  bool tls = true;
  std::string host;  // a DNS name, or an IP address without brackets
  uint16_t port = 443;
  std::string base_path;  // "" or "/prefix", without a slash at the end

  bool IsIpv4() const;
  bool IsIpv6() const;
  bool IsIp() const { return IsIpv4() || IsIpv6(); }
  bool IsLoopback() const;
  // As a URL and the Host header want it: an IPv6 address in brackets, the port always.
  std::string Authority() const;
};

// "https://host[:port][/prefix]" or http, host in brackets if it is an IPv6 address.
// ON FAILURE: InvalidArgument that names the URL and what is wrong with it.
absl::StatusOr<ServerAddress> ParseServerUrl(std::string_view url);

}  // namespace muster::k8s
