// How the HTTP server proves who it is, and which TLS it speaks. The certificate comes from files, which are read
// again as they change, or is made at the start and signed by itself.
//
// Names are Go's, as Kueue's configuration has them.
//
// Threading: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::server {

struct TlsOptions {
  // PEM: a chain, and the key of its first certificate. Both empty: self-signed.
  std::string certificate_file;
  std::string key_file;
  bool tls13_only = false;  // else 1.2 or 1.3
  // Of TLS 1.2: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256". Empty: OpenSSL's defaults.
  std::vector<std::string> cipher_suites;
  // Go's CurveIDs: 23 is P-256. Empty: OpenSSL's defaults.
  std::vector<int64_t> curves;
};

enum class CipherSuite : uint8_t {
  kUnknown,  // or not served: too weak
  kTls12,
  kTls13,  // always on
};
CipherSuite FindCipherSuite(std::string_view name);
bool IsKnownCurve(int64_t id);

}  // namespace muster::server
