#include "certificates.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <atomic>

#include "muster/core/check.h"
#include "muster/core/pem.h"

namespace muster::testing {
namespace {

std::string Text(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

OpensslPtr<X509> Blank(EVP_PKEY* key, const std::string& common_name, bool expired) {
  static std::atomic<long> serial{1};
  OpensslPtr<X509> out(X509_new());
  X509_set_version(out.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(out.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(out.get()), -7200);
  X509_gmtime_adj(X509_getm_notAfter(out.get()), expired ? -3600 : 86400);
  X509_set_pubkey(out.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(out.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0);
  return out;
}

void Extend(X509* certificate, int nid, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  MUSTER_CHECK(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

Certificate Sign(X509* certificate, EVP_PKEY* key, EVP_PKEY* signer) {
  MUSTER_CHECK(X509_sign(certificate, signer, EVP_sha256()) > 0);
  const OpensslPtr<BIO> pem(BIO_new(BIO_s_mem()));
  const OpensslPtr<BIO> key_pem(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(pem.get(), certificate);
  PEM_write_bio_PrivateKey(key_pem.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return {Text(pem.get()), Text(key_pem.get())};
}

}  // namespace

Certificate MakeAuthority(const std::string& common_name) {
  const OpensslPtr<EVP_PKEY> key(EVP_EC_gen("P-256"));
  const OpensslPtr<X509> certificate = Blank(key.get(), common_name, /*expired=*/false);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
  Extend(certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  Extend(certificate.get(), NID_key_usage, "critical,keyCertSign");
  return Sign(certificate.get(), key.get(), key.get());
}

Certificate Issue(const Certificate& authority, const Wanted& wanted) {
  const auto issuer = ParseCertificates(authority.pem);
  const auto signer = ParsePrivateKey(authority.key_pem);
  MUSTER_CHECK(issuer.ok() && signer.ok());
  const OpensslPtr<EVP_PKEY> key(EVP_EC_gen("P-256"));
  const OpensslPtr<X509> certificate = Blank(key.get(), wanted.common_name, wanted.expired);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer->front().get()));
  if (!wanted.alternative_names.empty()) Extend(certificate.get(), NID_subject_alt_name, wanted.alternative_names);
  return Sign(certificate.get(), key.get(), signer->get());
}

}  // namespace muster::testing
