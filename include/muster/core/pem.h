// Certificates and private keys as PEM text, for both ends of TLS.
//
// Threading: pure functions.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <openssl/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct OpensslFree {
  void operator()(X509* p) const;
  void operator()(X509_STORE* p) const;
  void operator()(EVP_PKEY* p) const;
  void operator()(BIO* p) const;
};
template <typename T>
using OpensslPtr = std::unique_ptr<T, OpensslFree>;

// ON FAILURE: InvalidArgument that says what is wrong, never what the text holds.
absl::StatusOr<std::vector<OpensslPtr<X509>>> ParseCertificates(std::string_view pem);
absl::StatusOr<OpensslPtr<EVP_PKEY>> ParsePrivateKey(std::string_view pem);
// Both, and that the first certificate belongs to the key.
absl::Status CheckKeyPair(std::string_view certificate_pem, std::string_view key_pem);

}  // namespace muster
