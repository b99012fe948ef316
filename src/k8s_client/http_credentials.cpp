#include "http_credentials.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "muster/core/log_fields.h"
#include "muster/core/small_file.h"

namespace muster::k8s {
namespace {
constexpr Duration kReadEvery = std::chrono::minutes(1);
constexpr size_t kTokenBytesMax = 1024 * 1024;
}  // namespace

absl::Status CheckToken(std::string_view token) {
  if (token.empty()) return absl::InvalidArgumentError("is empty");
  const bool visible = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7f; });
  return visible ? absl::OkStatus()
                 : absl::InvalidArgumentError("holds a character that cannot stand in a header (space, line end, ...)");
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  auto text = ReadSmallFile(path, kTokenBytesMax);
  if (!text.ok()) return text.status();
  std::string token(absl::StripAsciiWhitespace(*text));
  if (const auto fit = CheckToken(token); !fit.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("token file ", path, " ", fit.message()));
  }
  return token;
}

Credentials::Credentials(const Clock* clock, std::string token, std::string file)
    : clock_(clock), token_(std::move(token)), file_(std::move(file)) {}

absl::StatusOr<std::string> Credentials::Token() {
  if (file_.empty()) return token_;
  if (!read_at_ || clock_->Mono() - *read_at_ >= kReadEvery || token_.empty()) {
    if (const auto status = Read(); !status.ok()) {
      if (token_.empty()) return status;
      spdlog::warn("the token could not be read again, the one before stays in use{}",
                   LogFields({{"error", std::string(status.message())}}));
    }
  }
  return token_;
}

bool Credentials::Renew(const std::string& used) {
  if (file_.empty()) return false;
  // Calls that were under way with the old token come one by one; the first has read the new one.
  if (token_ == used) {
    if (const auto status = Read(); !status.ok()) {
      spdlog::warn("the server refused the token, and a new one could not be read{}",
                   LogFields({{"error", std::string(status.message())}}));
    }
  }
  return !token_.empty() && token_ != used;
}

absl::Status Credentials::Read() {
  read_at_ = clock_->Mono();
  auto token = ReadTokenFile(file_);
  if (!token.ok()) return token.status();
  token_ = *std::move(token);
  return absl::OkStatus();
}

std::string Redact(std::string text, std::string_view secret) {
  if (secret.empty()) return text;
  return absl::StrReplaceAll(text, {{absl::string_view(secret.data(), secret.size()), "[redacted]"}});
}

}  // namespace muster::k8s
