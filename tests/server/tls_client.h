// A blocking TLS client that says what was agreed on, and how the connection ended.
//
// Threading: needs external synchronisation.
#pragma once

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <functional>
#include <string>
#include <string_view>

#include "raw_client.h"

namespace muster::server {

class TlsClient {
 public:
  // `set_up` (may be null) changes what the client offers and trusts; by default it trusts everybody.
  explicit TlsClient(uint16_t port, const std::function<void(SSL_CTX*)>& set_up = nullptr)
      : tcp_(port), context_(SSL_CTX_new(TLS_client_method())) {
    signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
    SSL_CTX_set_security_level(context_, 0);  // to offer what the server must refuse
    if (set_up) set_up(context_);
    const timeval patience{20, 0};
    setsockopt(tcp_.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, tcp_.fd());
    connected_ = SSL_connect(ssl_) == 1;
    ERR_clear_error();
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  bool connected() const { return connected_; }
  std::string version() const { return SSL_get_version(ssl_); }
  std::string cipher() const { return SSL_CIPHER_standard_name(SSL_get_current_cipher(ssl_)); }
  // Of the server, as PEM.
  std::string certificate() const {
    X509* peer = SSL_get1_peer_certificate(ssl_);
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, peer);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string out(data, static_cast<size_t>(size));
    BIO_free(bio);
    X509_free(peer);
    return out;
  }

  bool Send(std::string_view bytes) { return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) > 0; }
  // Until the server ends the connection.
  std::string ReadAll() {
    std::string all;
    char buffer[4096];
    for (int n = 0; (n = SSL_read(ssl_, buffer, sizeof buffer)) > 0;) all.append(buffer, static_cast<size_t>(n));
    ended_in_order_ = SSL_get_error(ssl_, 0) == SSL_ERROR_ZERO_RETURN;
    ERR_clear_error();
    return all;
  }
  // By TLS's own word, not by a cut.
  bool ended_in_order() const { return ended_in_order_; }

 private:
  RawClient tcp_;
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
  bool connected_ = false;
  bool ended_in_order_ = false;
};

}  // namespace muster::server
