// What TLS needs, parsed once: whom to trust, which name the server must prove, and our own certificate.
// The server must present a chain to one of the given authorities (or the system's) and a subjectAltName
// that equals the expected name; the common name is not looked at, as in Go. TLS 1.2 is the least.
//
// Threading: safe for concurrent use.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <openssl/ssl.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http_address.h"
#include "muster/core/pem.h"
#include "muster/k8s_client/connection.h"

namespace muster::k8s {

// cpprestsdk loads the system's authorities for each connection before it asks for ours, and where
// $SSL_CERT_FILE names a bundle (as container images do) that costs some 40 ms of processor time each. This
// points the variable at nothing; TlsSettings reads the bundle once, from where it was, if it is wanted.
// Called before the first connection, while nobody else reads the environment; again: no effect.
void SpareSystemAuthorities();
// The environment variable that it changes, as this process was given it: for programs that are started.
const std::optional<std::string>& GivenCertFile();

class TlsSettings {
 public:
  // ON FAILURE: InvalidArgument that names the field of `config`.
  static absl::StatusOr<std::shared_ptr<const TlsSettings>> Make(const ConnectionConfig& config,
                                                                 const ServerAddress& address);

  // Makes `context` a client's with these settings. REQUIRES: this outlives every handshake of `context`.
  void Apply(SSL_CTX* context) const;

  bool verify() const { return verify_; }
  // The name the server must prove, and the one to send as SNI (empty: an IP address, which SNI excludes).
  const std::string& name() const { return name_; }
  const std::string& sni() const { return sni_; }
  // Why the newest verification failed; empty if it did not.
  std::string LastFailure() const;

 private:
  TlsSettings() = default;
  static int VerifyChain(X509_STORE_CTX* chain, void* settings);

  bool verify_ = true;
  std::string name_;
  std::string sni_;
  OpensslPtr<X509_STORE> trusted_;
  std::vector<OpensslPtr<X509>> own_chain_;
  OpensslPtr<EVP_PKEY> own_key_;

  mutable std::mutex mutex_;
  mutable std::string last_failure_;  // guarded by mutex_
};

}  // namespace muster::k8s
