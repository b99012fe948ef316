// The server's side of TLS: its certificate, and the settings that each connection begins with.
//
// Threading: needs external synchronisation.
#pragma once

#include <absl/status/statusor.h>
#include <openssl/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "muster/server/tls.h"

namespace muster::server {

struct CertificatePem {
  std::string certificate;
  std::string key;
  friend bool operator==(const CertificatePem&, const CertificatePem&) = default;
};

// For localhost, good for a year: who wants to be sure whom they talk to needs another.
CertificatePem MakeSelfSigned();

class ServerTls {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  // ON FAILURE: names the file and what is wrong with it.
  static absl::StatusOr<std::unique_ptr<ServerTls>> Make(TlsOptions options);

  // What a connection that begins at `now` uses. The files are looked at every ten seconds at most; what cannot be
  // used is logged, and the certificate before it stays. REQUIRES: `now` does not go back.
  std::shared_ptr<SSL_CTX> Context(SteadyTime now);

 private:
  explicit ServerTls(TlsOptions options) : options_(std::move(options)) {}
  absl::Status Load(SteadyTime now);
  absl::StatusOr<CertificatePem> ReadFiles() const;
  absl::StatusOr<std::shared_ptr<SSL_CTX>> NewContext(const CertificatePem& pem) const;

  const TlsOptions options_;
  CertificatePem pem_;
  std::shared_ptr<SSL_CTX> context_;
  SteadyTime look_at_;  // not before this
  std::string failure_;
};

}  // namespace muster::server
