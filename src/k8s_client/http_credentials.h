// The bearer token: given, or in a file that someone else renews.
//
// Threading: used from the executor only.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>

#include "muster/core/clock.h"

namespace muster::k8s {

// RETURNS: the token in `path`, without white space around it.
// ON FAILURE: names the file and what is wrong, never the token.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);
// Whether `token` can stand in a header.
absl::Status CheckToken(std::string_view token);

class Credentials {
 public:
  // `file` empty: `token` for ever, which may be empty too. Else the newest readable content of `file`
  // counts, and `token` until there is one.
  Credentials(const Clock* clock, std::string token, std::string file);

  // The token to send; empty: none. Reads the file at most once a minute; where that fails, the token read
  // before goes on being used. ON FAILURE: there is no token at all.
  absl::StatusOr<std::string> Token();

  // The server refused `used`. RETURNS: whether there is another token to try, having read the file at once.
  bool Renew(const std::string& used);

 private:
  absl::Status Read();

  const Clock* const clock_;
  std::string token_;
  const std::string file_;
  std::optional<MonoTime> read_at_;
};

// `text` with every occurrence of `secret` masked.
std::string Redact(std::string text, std::string_view secret);

}  // namespace muster::k8s
