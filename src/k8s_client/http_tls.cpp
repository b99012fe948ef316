#include "http_tls.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <cstdlib>

#include "muster/core/check.h"

namespace muster::k8s {
namespace {

// The names a certificate is good for, as a reader of the error needs them.
std::string NamesOf(X509* certificate) {
  std::vector<std::string> names;
  auto* list = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(list); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(list, i);
    if (name->type == GEN_DNS) {
      names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                         static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      const int length = ASN1_STRING_length(name->d.iPAddress);
      char text[INET6_ADDRSTRLEN] = {};
      if (length == 4 || length == 16) {
        ::inet_ntop(length == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(name->d.iPAddress), text, sizeof(text));
        names.emplace_back(text);
      }
    }
  }
  GENERAL_NAMES_free(list);
  return names.empty() ? "no name" : absl::StrJoin(names, ", ");
}

struct SystemAuthorities {
  std::string file;
  std::string directory;
};

// Where the system's authorities were when the process began.
const SystemAuthorities& WhereSystemAuthoritiesAre() {
  static const SystemAuthorities where = [] {
    const auto from = [](const char* variable, const char* otherwise) {
      const char* value = std::getenv(variable);
      return std::string(value != nullptr ? value : otherwise);
    };
    return SystemAuthorities{from(X509_get_default_cert_file_env(), X509_get_default_cert_file()),
                             from(X509_get_default_cert_dir_env(), X509_get_default_cert_dir())};
  }();
  return where;
}

OpensslPtr<X509_STORE> StoreOf(const std::vector<OpensslPtr<X509>>& authorities) {
  OpensslPtr<X509_STORE> store(X509_STORE_new());
  MUSTER_CHECK(store != nullptr);
  for (const auto& authority : authorities) X509_STORE_add_cert(store.get(), authority.get());
  ERR_clear_error();  // a certificate given twice
  return store;
}

OpensslPtr<X509_STORE> SystemStore() {
  OpensslPtr<X509_STORE> store = StoreOf({});
  const SystemAuthorities& where = WhereSystemAuthoritiesAre();
  X509_STORE_load_file(store.get(), where.file.c_str());
  X509_STORE_load_path(store.get(), where.directory.c_str());
  ERR_clear_error();  // either may be missing: then nobody is trusted, and the handshake says so
  return store;
}

}  // namespace

const std::optional<std::string>& GivenCertFile() {
  static const std::optional<std::string> given = [] {
    const char* value = std::getenv(X509_get_default_cert_file_env());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }();
  return given;
}

void SpareSystemAuthorities() {
  static std::once_flag once;
  std::call_once(once, [] {
    GivenCertFile();
    WhereSystemAuthoritiesAre();
    ::setenv(X509_get_default_cert_file_env(), "/dev/null", /*overwrite=*/1);
  });
}

absl::StatusOr<std::shared_ptr<const TlsSettings>> TlsSettings::Make(const ConnectionConfig& config,
                                                                     const ServerAddress& address) {
  std::shared_ptr<TlsSettings> out(new TlsSettings);
  ServerAddress named = address;
  if (!config.tls_server_name.empty()) named.host = config.tls_server_name;
  out->verify_ = !config.insecure;
  out->name_ = named.host;
  out->sni_ = named.IsIp() ? std::string() : named.host;
  if (!config.ca_pem.empty()) {
    auto authorities = ParseCertificates(config.ca_pem);
    if (!authorities.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("certificate authority: ", authorities.status().message()));
    }
    out->trusted_ = StoreOf(*authorities);
  } else {
    out->trusted_ = SystemStore();
  }
  if (config.client_cert_pem.empty() != config.client_key_pem.empty()) {
    return absl::InvalidArgumentError("client certificate and client key must be given together");
  }
  if (!config.client_cert_pem.empty()) {
    if (auto status = CheckKeyPair(config.client_cert_pem, config.client_key_pem); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("client certificate: ", status.message()));
    }
    out->own_chain_ = *ParseCertificates(config.client_cert_pem);
    out->own_key_ = *ParsePrivateKey(config.client_key_pem);
  }
  return std::shared_ptr<const TlsSettings>(std::move(out));
}

void TlsSettings::Apply(SSL_CTX* context) const {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // Replaces what a library may have loaded: with authorities given, the system's count for nothing.
  SSL_CTX_set1_cert_store(context, trusted_.get());
  if (own_key_ != nullptr) {
    MUSTER_CHECK(SSL_CTX_use_certificate(context, own_chain_.front().get()) == 1);
    for (size_t i = 1; i < own_chain_.size(); ++i) SSL_CTX_add1_chain_cert(context, own_chain_[i].get());
    MUSTER_CHECK(SSL_CTX_use_PrivateKey(context, own_key_.get()) == 1);
  }
  if (!verify_) {
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
    return;
  }
  X509_VERIFY_PARAM* rules = SSL_CTX_get0_param(context);
  // A given certificate is trusted by itself, also if it is not a root, as in Go.
  X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_PARTIAL_CHAIN);
  X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  if (sni_.empty()) {
    MUSTER_CHECK(X509_VERIFY_PARAM_set1_ip_asc(rules, name_.c_str()) == 1);
  } else {
    MUSTER_CHECK(X509_VERIFY_PARAM_set1_host(rules, name_.data(), name_.size()) == 1);
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(context, &TlsSettings::VerifyChain, const_cast<TlsSettings*>(this));
}

// OpenSSL's own verification, with its reason kept: the libraries above only say "handshake failed".
int TlsSettings::VerifyChain(X509_STORE_CTX* chain, void* settings) {
  const auto* self = static_cast<const TlsSettings*>(settings);
  const int verified = X509_verify_cert(chain);
  std::string failure;
  if (verified != 1) {
    const int error = X509_STORE_CTX_get_error(chain);
    failure = absl::StrCat("certificate not trusted: ", X509_verify_cert_error_string(error));
    if (error == X509_V_ERR_HOSTNAME_MISMATCH || error == X509_V_ERR_IP_ADDRESS_MISMATCH) {
      absl::StrAppend(&failure, ": it is for ", NamesOf(X509_STORE_CTX_get0_cert(chain)), ", not for ", self->name_);
    }
  }
  const std::lock_guard lock(self->mutex_);
  self->last_failure_ = std::move(failure);
  return verified;
}

std::string TlsSettings::LastFailure() const {
  const std::lock_guard lock(mutex_);
  return last_failure_;
}

}  // namespace muster::k8s
