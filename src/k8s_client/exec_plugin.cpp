#include "exec_plugin.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>

#include <cstdlib>

#include "child_process.h"
#include "http_credentials.h"
#include "muster/core/check.h"
#include "muster/core/hash.h"
#include "muster/core/pem.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"

namespace muster::k8s {
namespace {

constexpr size_t kOutBytesMax = 1024 * 1024;
constexpr size_t kShownBytesMax = 500;

absl::Status Bad(std::string_view what) { return absl::InvalidArgumentError(std::string(what)); }

// One line for a message.
std::string Shown(std::string text) {
  text = std::string(absl::StripAsciiWhitespace(text));
  if (text.size() > kShownBytesMax) text = absl::StrCat("...", text.substr(text.size() - kShownBytesMax));
  for (char& c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  return text;
}

// Text, or absent. RETURNS: false where it is something else, which must not be shown.
bool ReadText(JsonValue value, std::string* out) {
  if (value.present() && !value.IsString()) return false;
  *out = value.String();
  return true;
}

absl::StatusOr<ExecCredential> ReadStatus(JsonValue status) {
  ExecCredential out;
  std::string expires;
  if (!ReadText(status["token"], &out.token)) return Bad("status.token must be text");
  if (!ReadText(status["clientCertificateData"], &out.client_cert_pem)) {
    return Bad("status.clientCertificateData must be text");
  }
  if (!ReadText(status["clientKeyData"], &out.client_key_pem)) return Bad("status.clientKeyData must be text");
  if (!ReadText(status["expirationTimestamp"], &expires)) return Bad("status.expirationTimestamp must be text");
  if (out.token.empty() && out.client_cert_pem.empty() && out.client_key_pem.empty()) {
    return Bad("status holds neither token nor client certificate");
  }
  if (!out.token.empty()) {
    if (const absl::Status fit = CheckToken(out.token); !fit.ok()) {
      return Bad(absl::StrCat("status.token ", fit.message()));
    }
  }
  if (out.client_cert_pem.empty() != out.client_key_pem.empty()) {
    return Bad("status.clientCertificateData and clientKeyData must be given together");
  }
  if (!out.client_cert_pem.empty()) {
    if (const absl::Status fit = CheckKeyPair(out.client_cert_pem, out.client_key_pem); !fit.ok()) {
      return Bad(absl::StrCat("status.clientCertificateData: ", fit.message()));
    }
  }
  if (!expires.empty()) {
    const auto time = ParseTime(expires);
    if (!time.ok()) return Bad(absl::StrCat("status.expirationTimestamp: ", time.status().message()));
    out.expires = *time;
  }
  return out;
}

std::string WhyNotStarted(const absl::Status& status, const ExecPlugin& plugin) {
  std::string out(status.message());
  if (absl::IsNotFound(status) && !plugin.install_hint.empty()) absl::StrAppend(&out, ". ", Shown(plugin.install_hint));
  return out;
}

}  // namespace

std::string ExecInfo(const ConnectionConfig& config) {
  MUSTER_CHECK(config.exec.has_value());
  JsonWriter json;
  json.StartObject().Field("kind", "ExecCredential").Field("apiVersion", config.exec->api_version);
  json.Key("spec").StartObject();
  if (config.exec->provide_cluster_info) {
    json.Key("cluster").StartObject().Field("server", config.server);
    if (!config.tls_server_name.empty()) json.Field("tls-server-name", config.tls_server_name);
    if (config.insecure) json.Field("insecure-skip-tls-verify", true);
    if (!config.ca_pem.empty()) json.Field("certificate-authority-data", Base64Encode(config.ca_pem));
    if (!config.exec->cluster_config.empty()) json.Key("config").Raw(config.exec->cluster_config);
    json.EndObject();
  }
  return json.Field("interactive", false).EndObject().EndObject().Take();
}

absl::StatusOr<ExecCredential> ParseExecCredential(std::string_view text, std::string_view api_version) {
  JsonDocument document(text);
  const JsonValue root = document.root();
  // The parser's own words would show what stands there.
  if (!root.IsObject()) return Bad("its output is no JSON object");
  std::string kind;
  std::string version;
  if (!ReadText(root["kind"], &kind) || kind != "ExecCredential") {
    return Bad("its output is no ExecCredential: kind must be that");
  }
  if (!ReadText(root["apiVersion"], &version) || version != api_version) {
    return Bad(absl::StrCat("its output must have apiVersion ", std::string(api_version)));
  }
  if (!root["status"].IsObject()) return Bad("its output has no status");
  return ReadStatus(root["status"]);
}

absl::StatusOr<ExecCredential> RunExecPlugin(const ConnectionConfig& config, Duration timeout,
                                             const std::atomic<bool>& cancel) {
  MUSTER_CHECK(config.exec.has_value());
  const ExecPlugin& plugin = *config.exec;
  const auto failed = [&plugin](std::string_view why) {
    return absl::UnavailableError(absl::StrCat(plugin.name, ": ", std::string(why)));
  };
  Program program{plugin.command, plugin.args, plugin.env};
  program.env.emplace_back("KUBERNETES_EXEC_INFO", ExecInfo(config));
  const auto end = RunProgram(program, timeout, kOutBytesMax, cancel);
  if (!end.ok()) return failed(WhyNotStarted(end.status(), plugin));
  const std::string said = end->err.empty() ? "" : absl::StrCat("; it said: ", Shown(end->err));
  if (end->exit_code != 0) {
    const char* how = end->exit_code < 0 ? "ended by signal " : "failed with exit code ";
    return failed(absl::StrCat(how, std::abs(end->exit_code), said));
  }
  auto credential = ParseExecCredential(end->out, plugin.api_version);
  if (!credential.ok()) return failed(absl::StrCat(credential.status().message(), said));
  return credential;
}

}  // namespace muster::k8s
