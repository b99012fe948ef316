#include "muster/core/pem.h"

#include <absl/strings/str_cat.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

namespace muster {
namespace {

// OpenSSL would ask for the passphrase of an encrypted key on the terminal, and wait.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*user*/) { return 0; }

OpensslPtr<BIO> Reader(std::string_view text) {
  if (text.size() > 16 * 1024 * 1024) return nullptr;
  return OpensslPtr<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

}  // namespace

void OpensslFree::operator()(X509* p) const { X509_free(p); }
void OpensslFree::operator()(X509_STORE* p) const { X509_STORE_free(p); }
void OpensslFree::operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
void OpensslFree::operator()(BIO* p) const { BIO_free_all(p); }

absl::StatusOr<std::vector<OpensslPtr<X509>>> ParseCertificates(std::string_view pem) {
  const OpensslPtr<BIO> reader = Reader(pem);
  if (reader == nullptr) return absl::InvalidArgumentError("is too long");
  std::vector<OpensslPtr<X509>> out;
  while (X509* certificate = PEM_read_bio_X509(reader.get(), nullptr, NoPassphrase, nullptr)) {
    out.emplace_back(certificate);
  }
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  // Reading ends with "no start line" where the text ends in order.
  if (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE) {
    return absl::InvalidArgumentError(
        absl::StrCat("certificate ", out.size() + 1, " is damaged: ", ERR_reason_error_string(error)));
  }
  if (out.empty()) return absl::InvalidArgumentError("holds no PEM certificate");
  return out;
}

absl::StatusOr<OpensslPtr<EVP_PKEY>> ParsePrivateKey(std::string_view pem) {
  const OpensslPtr<BIO> reader = Reader(pem);
  if (reader == nullptr) return absl::InvalidArgumentError("is too long");
  OpensslPtr<EVP_PKEY> key(PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr) return absl::InvalidArgumentError("holds no PEM private key without passphrase");
  return key;
}

absl::Status CheckKeyPair(std::string_view certificate_pem, std::string_view key_pem) {
  const auto chain = ParseCertificates(certificate_pem);
  if (!chain.ok()) return absl::InvalidArgumentError(absl::StrCat("the certificate ", chain.status().message()));
  const auto key = ParsePrivateKey(key_pem);
  if (!key.ok()) return absl::InvalidArgumentError(absl::StrCat("the key ", key.status().message()));
  const bool fits = X509_check_private_key(chain->front().get(), key->get()) == 1;
  ERR_clear_error();
  return fits ? absl::OkStatus() : absl::InvalidArgumentError("the key does not belong to the certificate");
}

}  // namespace muster
