// Calls and watches behind one Transport, with one set of credentials.
#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <utility>

#include "beast_watch.h"
#include "cpprest_calls.h"
#include "exec_transport.h"
#include "http_address.h"
#include "http_credentials.h"
#include "http_tls.h"
#include "muster/k8s_client/connection.h"

namespace muster::k8s {
namespace {

class HttpTransport final : public Transport {
 public:
  HttpTransport(Environment env, const ConnectionConfig& config, const ServerAddress& address,
                const std::shared_ptr<const TlsSettings>& tls, const TransportOptions& options)
      : env_(env),
        credentials_(env.clock, config.token, config.token_file),
        calls_(env, address, tls, options.user_agent, options.response_bytes_max),
        watches_(env, address, tls, options.user_agent, &credentials_) {}
  ~HttpTransport() override { *alive_ = false; }

  void Call(HttpRequest request, Done done) override {
    const MonoTime now = env_.clock->Mono();
    CpprestCalls::Limits limits{now + request.timeout, MonoTime{INT64_MAX}};
    if (request.leave_within > Duration(0)) limits.leave_by = now + request.leave_within;
    Start(std::make_shared<const HttpRequest>(std::move(request)), limits, /*retry=*/true, std::move(done));
  }

  std::unique_ptr<WatchStream> Watch(HttpRequest request, WatchHandler* handler) override {
    return watches_.Open(std::move(request), handler);
  }

 private:
  void Start(std::shared_ptr<const HttpRequest> request, CpprestCalls::Limits limits, bool retry, Done done) {
    const auto token = credentials_.Token();
    if (!token.ok()) {
      HttpResponse response;
      response.error = std::string(token.status().message());
      env_.executor->Post([alive = alive_, response = std::move(response), done = std::move(done)]() mutable {
        if (*alive) done(std::move(response));
      });
      return;
    }
    calls_.Start(request, *token, limits,
                 [this, request, token = *token, limits, retry, done = std::move(done)](HttpResponse response) mutable {
                   // A request that was not let in has not been applied: it may be sent again.
                   if (response.status == 401 && retry && credentials_.Renew(token)) {
                     Start(std::move(request), limits, /*retry=*/false, std::move(done));
                     return;
                   }
                   response.error = Redact(std::move(response.error), token);
                   done(std::move(response));
                 });
  }

  const Environment env_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  Credentials credentials_;
  CpprestCalls calls_;
  BeastWatches watches_;
};

// With credentials that stay, or that are read from a file.
absl::StatusOr<std::unique_ptr<Transport>> Make(Environment env, const ConnectionConfig& config,
                                                const TransportOptions& options) {
  const auto address = ParseServerUrl(config.server);
  if (!address.ok()) return address.status();
  if (address->IsIpv6()) {
    return absl::InvalidArgumentError(
        absl::StrCat("server ", config.server, ": an IPv6 address cannot be used; give a DNS name that leads to it"));
  }
  const bool has_credentials = !(config.token.empty() && config.token_file.empty() && config.client_key_pem.empty());
  if (!address->tls && has_credentials && !address->IsLoopback()) {
    return absl::InvalidArgumentError(
        absl::StrCat("server ", config.server, ": credentials are not sent without TLS, loopback apart"));
  }
  std::shared_ptr<const TlsSettings> tls;
  if (address->tls) {
    SpareSystemAuthorities();
    auto settings = TlsSettings::Make(config, *address);
    if (!settings.ok()) return settings.status();
    tls = *std::move(settings);
  }
  if (!config.token.empty()) {
    if (const auto fit = CheckToken(config.token); !fit.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("token: ", fit.message()));
    }
  }
  return std::make_unique<HttpTransport>(env, config, *address, tls, options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> NewHttpTransport(Environment env, const ConnectionConfig& config,
                                                            TransportOptions options) {
  auto transport = Make(env, config, options);  // of a plugin, what can be wrong before it has run
  if (!transport.ok() || !config.exec.has_value()) return transport;
  return std::make_unique<ExecTransport>(
      env, config, [env, options](const ConnectionConfig& with) { return Make(env, with, options); });
}

}  // namespace muster::k8s
