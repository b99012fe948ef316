// The server behind TLS: what it agrees to, which certificate it shows, and who cannot harm it.

#include <openssl/x509v3.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>

#include "muster/core/pem.h"
#include "muster/server/http_server.h"
#include "server_tls.h"
#include "tls_client.h"

namespace muster::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kGet = "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

std::unique_ptr<HttpServer> Serve(TlsOptions tls = {}, HttpServerOptions options = {}) {
  options.tls = std::move(tls);
  const Handler hello = [](const HttpRequest&, Respond respond) {
    respond([] { return HttpReply{200, "text/plain", "hello"}; });
  };
  auto server = HttpServer::Start({"127.0.0.1", 0}, {{"/a", hello}}, std::move(options));
  REQUIRE(server.ok());
  return *std::move(server);
}

// What a client with these settings gets; empty where there is no handshake.
std::string Get(const HttpServer& server, const std::function<void(SSL_CTX*)>& set_up = nullptr) {
  TlsClient client(server.address().port, set_up);
  if (!client.connected() || !client.Send(kGet)) return {};
  return client.ReadAll();
}

// A folder with tls.crt and tls.key, as a Secret is mounted.
struct CertificateFiles {
  CertificateFiles() {
    char name[] = "/tmp/muster-tls-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    directory = name;
    Write(MakeSelfSigned());
  }
  ~CertificateFiles() { std::filesystem::remove_all(directory); }
  void Write(const CertificatePem& pem) const {
    std::ofstream(directory + "/tls.crt") << pem.certificate;
    std::ofstream(directory + "/tls.key") << pem.key;
  }
  TlsOptions options() const {
    TlsOptions out;
    out.certificate_file = directory + "/tls.crt";
    out.key_file = directory + "/tls.key";
    return out;
  }
  std::string directory;
};

TEST_CASE("a request over TLS is answered, and the connection ends in order") {
  const auto server = Serve();
  TlsClient client(server->address().port);
  REQUIRE(client.connected());
  CHECK(client.version() == "TLSv1.3");
  REQUIRE(client.Send(kGet));
  const std::string answer = client.ReadAll();
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(answer.ends_with("hello"));
  CHECK(client.ended_in_order());
}

TEST_CASE("several requests share a connection") {
  const auto server = Serve();
  TlsClient client(server->address().port);
  REQUIRE(client.connected());
  REQUIRE(client.Send(std::string("GET /a HTTP/1.1\r\nHost: x\r\n\r\n") + kGet));
  const std::string answers = client.ReadAll();
  CHECK(answers.find("hello") != answers.rfind("hello"));
}

TEST_CASE("the self-signed certificate is for localhost, for a year, and another each time") {
  const auto parsed = ParseCertificates(MakeSelfSigned().certificate);
  REQUIRE(parsed.ok());
  X509* certificate = parsed->front().get();
  CHECK(X509_check_host(certificate, "localhost", 0, 0, nullptr) == 1);
  CHECK(X509_check_ip_asc(certificate, "127.0.0.1", 0) == 1);
  CHECK(X509_check_ip_asc(certificate, "::1", 0) == 1);
  int days = 0;
  int rest = 0;
  REQUIRE(ASN1_TIME_diff(&days, &rest, nullptr, X509_get0_notAfter(certificate)) == 1);
  CHECK((days == 364 || days == 365));
  CHECK(X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0);
  CHECK(MakeSelfSigned().certificate != MakeSelfSigned().certificate);

  // Whoever trusts it can check it.
  const auto server = Serve();
  const std::string shown = TlsClient(server->address().port).certificate();
  const auto trust = [&shown](SSL_CTX* context) {
    const auto authority = ParseCertificates(shown);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority->front().get());
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    X509_VERIFY_PARAM_set1_host(SSL_CTX_get0_param(context), "localhost", 0);
  };
  CHECK(Get(*server, trust).ends_with("hello"));
}

TEST_CASE("TLS before 1.2 is refused, and 1.2 too where 1.3 is asked for") {
  const auto only = [](int version) {
    return [version](SSL_CTX* context) {
      SSL_CTX_set_min_proto_version(context, version);
      SSL_CTX_set_max_proto_version(context, version);
    };
  };
  const auto server = Serve();
  CHECK(Get(*server, only(TLS1_1_VERSION)).empty());
  CHECK(Get(*server, only(TLS1_2_VERSION)).ends_with("hello"));
  TlsOptions newest;
  newest.tls13_only = true;
  const auto strict = Serve(newest);
  CHECK(Get(*strict, only(TLS1_2_VERSION)).empty());
  CHECK(Get(*strict, only(TLS1_3_VERSION)).ends_with("hello"));
}

TEST_CASE("of TLS 1.2 only the cipher suites that were chosen are spoken") {
  TlsOptions options;
  options.cipher_suites = {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"};
  options.curves = {24};
  const auto server = Serve(options);
  const auto offer = [](const char* suites, const char* groups) {
    return [suites, groups](SSL_CTX* context) {
      SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
      SSL_CTX_set_cipher_list(context, suites);
      SSL_CTX_set1_groups_list(context, groups);
    };
  };
  TlsClient client(server->address().port, offer("DEFAULT", "P-256:P-384"));
  REQUIRE(client.connected());
  CHECK(client.cipher() == "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384");
  CHECK(Get(*server, offer("ECDHE-ECDSA-AES128-GCM-SHA256", "P-256:P-384")).empty());
  CHECK(Get(*server, offer("DEFAULT", "P-521")).empty());

  CHECK(FindCipherSuite("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256") == CipherSuite::kTls12);
  CHECK(FindCipherSuite("TLS_AES_256_GCM_SHA384") == CipherSuite::kTls13);
  CHECK(FindCipherSuite("TLS_RSA_WITH_RC4_128_SHA") == CipherSuite::kUnknown);  // Go calls it insecure
  CHECK(IsKnownCurve(29));
  CHECK_FALSE(IsKnownCurve(4588));  // X25519MLKEM768, which OpenSSL 3.0 does not have
}

TEST_CASE("every cipher suite that can be asked for can be set") {
  for (const char* name :
       {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"}) {
    CAPTURE(name);
    TlsOptions options;
    options.cipher_suites = {name};
    options.curves = {23, 24, 25, 29};
    const auto tls = ServerTls::Make(options);
    REQUIRE(tls.ok());
    const auto context = (*tls)->Context(std::chrono::steady_clock::now());
    // Beside those of TLS 1.3, which come first.
    const auto* suites = SSL_CTX_get_ciphers(context.get());
    CHECK(SSL_CIPHER_standard_name(sk_SSL_CIPHER_value(suites, sk_SSL_CIPHER_num(suites) - 1)) == std::string(name));
  }
}

TEST_CASE("plain HTTP to the TLS port is answered with a hint") {
  const auto server = Serve();
  RawClient client(server->address().port);
  client.Send(kGet);
  const std::string answer = client.ReadAll();
  CHECK(answer.starts_with("HTTP/1.0 400 Bad Request\r\n"));
  CHECK(answer.ends_with("this port speaks HTTPS\n"));
}

TEST_CASE("random bytes and clients that never shake hands do not harm the server") {
  HttpServerOptions options;
  options.connections_max = 4;
  options.request_timeout = milliseconds(300);
  const auto server = Serve({}, options);
  RawClient silent(server->address().port);
  std::mt19937 random(7);  // NOLINT: the same bytes each time
  for (int i = 0; i < 100; ++i) {
    std::string bytes = i % 2 == 0 ? "" : "\x16\x03\x01";
    for (int n = static_cast<int>(random() % 300); n > 0; --n) bytes.push_back(static_cast<char>(random() % 256));
    RawClient client(server->address().port);
    client.Send(bytes);
  }
  CHECK(silent.ReadAll().empty());
  CHECK(Get(*server).ends_with("hello"));
}

TEST_CASE("a certificate from files is shown, and files that do not fit are an error that names them") {
  const CertificateFiles files;
  const CertificatePem pem = MakeSelfSigned();
  files.Write(pem);
  const auto server = Serve(files.options());
  CHECK(TlsClient(server->address().port).certificate() == pem.certificate);

  files.Write({pem.certificate, MakeSelfSigned().key});
  const auto mixed = ServerTls::Make(files.options());
  REQUIRE(!mixed.ok());
  CHECK(std::string(mixed.status().message()) == files.directory + "/tls.crt, " + files.directory +
                                                     "/tls.key: the key does not belong to the certificate");
  std::filesystem::remove(files.directory + "/tls.key");
  const auto absent = HttpServer::Start({"127.0.0.1", 0}, {}, {.tls = files.options()});
  REQUIRE(!absent.ok());
  CHECK(std::string(absent.status().message()) == files.directory + "/tls.key: No such file or directory");
}

// user_pains F15
TEST_CASE("files are looked at every ten seconds, and what cannot be used changes nothing") {
  const CertificateFiles files;
  const auto tls = ServerTls::Make(files.options());
  REQUIRE(tls.ok());
  const auto start = std::chrono::steady_clock::now();
  const auto at = [&](seconds later) { return (*tls)->Context(start + later); };
  const auto first = at(seconds(0));
  CHECK(at(seconds(20)) == first);  // looked, and nothing has changed

  const CertificatePem next = MakeSelfSigned();
  files.Write(next);
  CHECK(at(seconds(29)) == first);
  const auto second = at(seconds(31));
  CHECK(second != first);

  files.Write({"", next.key});
  CHECK(at(seconds(50)) == second);
  files.Write({next.certificate, MakeSelfSigned().key});  // caught between the two
  CHECK(at(seconds(70)) == second);
  std::filesystem::remove(files.directory + "/tls.crt");
  CHECK(at(seconds(90)) == second);
  files.Write(MakeSelfSigned());
  CHECK(at(seconds(110)) != second);
}

TEST_CASE("a self-signed certificate is replaced long before it ends") {
  const auto tls = ServerTls::Make({});
  REQUIRE(tls.ok());
  const auto start = std::chrono::steady_clock::now();
  const auto first = (*tls)->Context(start);
  CHECK((*tls)->Context(start + std::chrono::hours(180 * 24)) == first);
  CHECK((*tls)->Context(start + std::chrono::hours(183 * 24)) != first);
}

}  // namespace
}  // namespace muster::server
