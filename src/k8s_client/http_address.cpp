#include "http_address.h"

#include <absl/status/status.h>
#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <arpa/inet.h>

#include <algorithm>

namespace muster::k8s {
namespace {

bool ParsesAs(int family, const std::string& host) {
  unsigned char address[sizeof(in6_addr)];
  return ::inet_pton(family, host.c_str(), address) == 1;
}

bool IsHostCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
}

bool IsPathCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("/-._~%!$&'()*+,;=:@").find(c) != std::string_view::npos;
}

// Cuts `prefix` from the front of `text`, whatever its case.
bool ConsumePrefix(std::string_view* text, std::string_view prefix) {
  if (absl::AsciiStrToLower(std::string(text->substr(0, prefix.size()))) != prefix) return false;
  text->remove_prefix(prefix.size());
  return true;
}

}  // namespace

bool ServerAddress::IsIpv4() const { return ParsesAs(AF_INET, host); }
bool ServerAddress::IsIpv6() const { return ParsesAs(AF_INET6, host); }

bool ServerAddress::IsLoopback() const {
  return host == "localhost" || host == "::1" || (IsIpv4() && host.compare(0, 4, "127.") == 0);
}

std::string ServerAddress::Authority() const {
  return IsIpv6() ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<ServerAddress> ParseServerUrl(std::string_view url) {
  const auto bad = [url](std::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("server URL \"", std::string(url), "\": ", std::string(why)));
  };
  ServerAddress out;
  std::string_view rest = url;
  if (ConsumePrefix(&rest, "http://")) {
    out.tls = false;
    out.port = 80;
  } else if (!ConsumePrefix(&rest, "https://")) {
    return bad("must begin with https:// or http://");
  }

  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  std::string_view path = rest.substr(slash);
  if (authority.find('@') != std::string_view::npos) return bad("user and password in the URL are not supported");
  std::string_view port;
  if (!authority.empty() && authority.front() == '[') {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) return bad("the bracket is not closed");
    out.host = std::string(authority.substr(1, end - 1));
    port = authority.substr(end + 1);
    if (!out.IsIpv6()) return bad("no IPv6 address within the brackets");
  } else {
    const size_t colon = std::min(authority.find(':'), authority.size());
    out.host = absl::AsciiStrToLower(std::string(authority.substr(0, colon)));
    port = authority.substr(colon);
    if (out.host.empty()) return bad("no host");
    if (!std::all_of(out.host.begin(), out.host.end(), IsHostCharacter)) return bad("the host has an unfit character");
  }
  if (!port.empty()) {
    uint32_t number = 0;
    if (port.front() != ':' || !absl::SimpleAtoi(absl::string_view(port.data() + 1, port.size() - 1), &number) ||
        number == 0 || number > 65535) {
      return bad("the port must be a number between 1 and 65535");
    }
    out.port = static_cast<uint16_t>(number);
  }
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  if (!std::all_of(path.begin(), path.end(), IsPathCharacter)) return bad("the path has an unfit character");
  out.base_path = std::string(path);
  return out;
}

}  // namespace muster::k8s
