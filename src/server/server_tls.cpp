#include "server_tls.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "muster/core/check.h"
#include "muster/core/log_fields.h"
#include "muster/core/pem.h"
#include "muster/core/small_file.h"

namespace muster::server {
namespace {

constexpr size_t kFileBytesMax = 1024 * 1024;
constexpr auto kLookEvery = std::chrono::seconds(10);
constexpr auto kSelfSignedFor = std::chrono::hours(365 * 24);
constexpr auto kMakeAnotherAfter = kSelfSignedFor / 2;

struct NamedSuite {
  std::string_view name;
  const char* openssl;  // null: of TLS 1.3
};
// Those that Go calls secure.
constexpr NamedSuite kSuites[] = {
    {"TLS_AES_128_GCM_SHA256", nullptr},
    {"TLS_AES_256_GCM_SHA384", nullptr},
    {"TLS_CHACHA20_POLY1305_SHA256", nullptr},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"},
};

struct NamedCurve {
  int64_t id;
  const char* openssl;
};
constexpr NamedCurve kCurves[] = {{23, "P-256"}, {24, "P-384"}, {25, "P-521"}, {29, "X25519"}};

const NamedSuite* FindSuite(std::string_view name) {
  const auto* it = std::find_if(std::begin(kSuites), std::end(kSuites), [&](const auto& s) { return s.name == name; });
  return it == std::end(kSuites) ? nullptr : it;
}

std::string Text(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

void Extend(X509* certificate, int nid, const char* value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
  MUSTER_CHECK(extension != nullptr);
  MUSTER_CHECK(X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

// OpenSSL's own lists of names are joined by colons.
template <typename Ids, typename Name>
std::string Joined(const Ids& ids, Name name) {
  std::vector<std::string> names;
  for (const auto& id : ids) {
    if (const char* found = name(id); found != nullptr) names.emplace_back(found);
  }
  return absl::StrJoin(names, ":");
}

}  // namespace

CipherSuite FindCipherSuite(std::string_view name) {
  const NamedSuite* suite = FindSuite(name);
  if (suite == nullptr) return CipherSuite::kUnknown;
  return suite->openssl == nullptr ? CipherSuite::kTls13 : CipherSuite::kTls12;
}

bool IsKnownCurve(int64_t id) {
  return std::any_of(std::begin(kCurves), std::end(kCurves), [id](const NamedCurve& c) { return c.id == id; });
}

CertificatePem MakeSelfSigned() {
  const OpensslPtr<EVP_PKEY> key(EVP_EC_gen("P-256"));
  const OpensslPtr<X509> certificate(X509_new());
  MUSTER_CHECK(key != nullptr && certificate != nullptr);
  X509_set_version(certificate.get(), 2);
  // Two certificates of one issuer must not have one number: browsers refuse that.
  int64_t serial = 0;
  MUSTER_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1);
  ASN1_INTEGER_set_int64(X509_get_serialNumber(certificate.get()), serial & INT64_MAX);
  constexpr long kClocksApart = 3600;
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kClocksApart);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()),
                  static_cast<long>(std::chrono::seconds(kSelfSignedFor).count()));
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>("muster"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  Extend(certificate.get(), NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1,IP:::1");
  Extend(certificate.get(), NID_ext_key_usage, "serverAuth");
  MUSTER_CHECK(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0);
  const OpensslPtr<BIO> certificate_pem(BIO_new(BIO_s_mem()));
  const OpensslPtr<BIO> key_pem(BIO_new(BIO_s_mem()));
  MUSTER_CHECK(PEM_write_bio_X509(certificate_pem.get(), certificate.get()) == 1);
  MUSTER_CHECK(PEM_write_bio_PrivateKey(key_pem.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return {Text(certificate_pem.get()), Text(key_pem.get())};
}

absl::StatusOr<std::unique_ptr<ServerTls>> ServerTls::Make(TlsOptions options) {
  std::unique_ptr<ServerTls> tls(new ServerTls(std::move(options)));
  if (absl::Status status = tls->Load(std::chrono::steady_clock::now()); !status.ok()) return status;
  return tls;
}

std::shared_ptr<SSL_CTX> ServerTls::Context(SteadyTime now) {
  if (now < look_at_) return context_;
  const absl::Status status = Load(now);
  std::string failure = status.ok() ? "" : std::string(status.message());
  if (!failure.empty() && failure != failure_) {
    spdlog::warn("the certificate cannot be renewed, the one before stays in use{}", LogFields({{"error", failure}}));
  }
  failure_ = std::move(failure);
  return context_;
}

absl::Status ServerTls::Load(SteadyTime now) {
  const bool from_files = !options_.certificate_file.empty();
  look_at_ = now + (from_files ? SteadyTime::duration(kLookEvery) : SteadyTime::duration(kMakeAnotherAfter));
  const absl::StatusOr<CertificatePem> pem = from_files ? ReadFiles() : MakeSelfSigned();
  if (!pem.ok()) return pem.status();
  if (context_ != nullptr && *pem == pem_) return absl::OkStatus();
  auto context = NewContext(*pem);
  if (!context.ok()) return context.status();
  if (context_ != nullptr) spdlog::info("the certificate was renewed");
  pem_ = *pem;
  context_ = *std::move(context);
  return absl::OkStatus();
}

absl::StatusOr<CertificatePem> ServerTls::ReadFiles() const {
  auto certificate = ReadSmallFile(options_.certificate_file, kFileBytesMax);
  if (!certificate.ok()) return certificate.status();
  auto key = ReadSmallFile(options_.key_file, kFileBytesMax);
  if (!key.ok()) return key.status();
  if (const absl::Status fit = CheckKeyPair(*certificate, *key); !fit.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options_.certificate_file, ", ", options_.key_file, ": ", fit.message()));
  }
  return CertificatePem{*std::move(certificate), *std::move(key)};
}

// REQUIRES: CheckKeyPair holds for `pem`.
absl::StatusOr<std::shared_ptr<SSL_CTX>> ServerTls::NewContext(const CertificatePem& pem) const {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  MUSTER_CHECK(context != nullptr);
  SSL_CTX_set_min_proto_version(context.get(), options_.tls13_only ? TLS1_3_VERSION : TLS1_2_VERSION);
  // Scrapes are few: a full handshake each time leaves no key of a former connection around.
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  const std::string suites = Joined(options_.cipher_suites, [](const std::string& name) -> const char* {
    const NamedSuite* suite = FindSuite(name);
    return suite == nullptr ? nullptr : suite->openssl;
  });
  const std::string curves = Joined(options_.curves, [](int64_t id) -> const char* {
    for (const NamedCurve& curve : kCurves) {
      if (curve.id == id) return curve.openssl;
    }
    return nullptr;
  });
  const bool settings_fit = (suites.empty() || SSL_CTX_set_cipher_list(context.get(), suites.c_str()) == 1) &&
                            (curves.empty() || SSL_CTX_set1_groups_list(context.get(), curves.c_str()) == 1);
  const auto chain = ParseCertificates(pem.certificate);
  const auto key = ParsePrivateKey(pem.key);
  MUSTER_CHECK(chain.ok() && key.ok());
  bool fits = settings_fit && SSL_CTX_use_certificate(context.get(), chain->front().get()) == 1;
  for (size_t i = 1; fits && i < chain->size(); ++i) {
    fits = SSL_CTX_add1_chain_cert(context.get(), (*chain)[i].get()) == 1;
  }
  fits = fits && SSL_CTX_use_PrivateKey(context.get(), key->get()) == 1;
  if (!fits) {
    const unsigned long error = ERR_peek_last_error();
    ERR_clear_error();
    const char* reason = ERR_reason_error_string(error);
    return absl::InvalidArgumentError(
        absl::StrCat(settings_fit ? absl::StrCat("certificate ", options_.certificate_file) : "the settings of tls",
                     " cannot be used: ", reason == nullptr ? "OpenSSL gives no reason" : reason));
  }
  return context;
}

}  // namespace muster::server
