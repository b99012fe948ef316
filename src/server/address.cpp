#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <arpa/inet.h>

#include "muster/server/http_server.h"

namespace muster::server {
namespace {

enum class Family : uint8_t { kNone, kV4, kV6 };

Family FamilyOf(const std::string& host) {
  in6_addr buffer;
  if (inet_pton(AF_INET, host.c_str(), &buffer) == 1) return Family::kV4;
  if (inet_pton(AF_INET6, host.c_str(), &buffer) == 1) return Family::kV6;
  return Family::kNone;
}

}  // namespace

bool Address::IsLoopback() const { return host == "::1" || host.starts_with("127."); }

std::string Address::ToString() const {
  return FamilyOf(host) == Family::kV6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<Address> ParseAddress(std::string_view text) {
  constexpr std::string_view kForm =
      "want HOST:PORT, where HOST is an IP address (IPv6 in brackets), localhost or empty";
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return absl::InvalidArgumentError(std::string(kForm));
  const std::string_view port = text.substr(colon + 1);
  std::string host(text.substr(0, colon));
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  const Family family = FamilyOf(host);
  if (bracketed != (family == Family::kV6) || (family == Family::kNone && !host.empty())) {
    return absl::InvalidArgumentError(std::string(kForm));
  }
  uint32_t number = 0;
  if (port.empty() || port.find_first_not_of("0123456789") != std::string_view::npos ||
      !absl::SimpleAtoi(absl::string_view(port.data(), port.size()), &number) || number > 65535) {
    return absl::InvalidArgumentError("the port must be a number from 0 to 65535");
  }
  return Address{std::move(host), static_cast<uint16_t>(number)};
}

}  // namespace muster::server
