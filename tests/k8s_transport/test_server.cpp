#include "test_server.h"

#include <absl/strings/str_cat.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <limits>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "muster/core/check.h"

namespace muster::testing {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

template <typename Stream>
class ConnectionOf final : public TestServer::Connection {
 public:
  ConnectionOf(Stream* stream, tcp::socket* socket, int number) : stream_(*stream), socket_(*socket), number_(number) {}

  std::optional<TestServer::Request> Read() override {
    error_code error;
    http::request_parser<http::string_body> parser;
    parser.body_limit(std::numeric_limits<uint64_t>::max());
    http::read(stream_, buffer_, parser, error);
    if (error) return std::nullopt;
    auto message = std::make_shared<http::request<http::string_body>>(parser.release());
    TestServer::Request out;
    out.method = std::string(message->method_string());
    out.target = std::string(message->target());
    out.body = message->body();
    out.header = [message](std::string_view name) {
      return std::string((*message)[boost::beast::string_view(name.data(), name.size())]);
    };
    return out;
  }
  bool Send(std::string_view bytes) override {
    error_code error;
    asio::write(stream_, asio::buffer(bytes.data(), bytes.size()), error);
    return !error;
  }
  void Close() override {
    error_code ignored;
    if constexpr (!std::is_same_v<Stream, tcp::socket>) {
      socket_.shutdown(tcp::socket::shutdown_receive, ignored);  // or the next line would wait for the client
      stream_.shutdown(ignored);
    }
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }
  void Cut() override {
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
  }
  std::string sni() const override {
    if constexpr (std::is_same_v<Stream, tcp::socket>) {
      return {};
    } else {
      const char* name = SSL_get_servername(stream_.native_handle(), TLSEXT_NAMETYPE_host_name);
      return name == nullptr ? "" : name;
    }
  }
  std::string client_common_name() const override {
    if constexpr (std::is_same_v<Stream, tcp::socket>) {
      return {};
    } else {
      X509* certificate = SSL_get1_peer_certificate(stream_.native_handle());
      if (certificate == nullptr) return {};
      char text[256] = {};
      X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, text, sizeof(text));
      X509_free(certificate);
      return text;
    }
  }
  int number() const override { return number_; }

 private:
  Stream& stream_;
  tcp::socket& socket_;
  const int number_;
  boost::beast::flat_buffer buffer_;
};

}  // namespace

void TestServer::Connection::Answer(int status, std::string_view body, std::string_view extra_headers) {
  Send(absl::StrCat("HTTP/1.1 ", status, " Whatever\r\nContent-Type: application/json\r\nContent-Length: ", body.size(),
                    "\r\n", std::string(extra_headers), "\r\n", std::string(body)));
}

class TestServer::Impl {
 public:
  Impl(Options options, Script script) : script_(std::move(script)) {
    if (options.certificate) {
      tls_.emplace(asio::ssl::context::tls_server);
      tls_->use_certificate_chain(asio::buffer(options.certificate->pem));
      tls_->use_private_key(asio::buffer(options.certificate->key_pem), asio::ssl::context::pem);
      if (!options.client_authority_pem.empty()) {
        tls_->add_certificate_authority(asio::buffer(options.client_authority_pem));
        tls_->set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
      }
    }
    accepting_ = std::thread([this] { Accept(); });
  }

  ~Impl() {
    StopListening();
    accepting_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
    }
    for (auto& thread : threads_) thread.join();
  }

  void StopListening() { ::shutdown(acceptor_.native_handle(), SHUT_RDWR); }  // wakes accept()
  uint16_t port() const { return acceptor_.local_endpoint().port(); }
  int connections() const { return connections_; }

 private:
  void Accept() {
    while (true) {
      error_code error;
      tcp::socket socket = acceptor_.accept(error);
      if (error) return;
      const int number = ++connections_;
      {
        const std::lock_guard lock(mutex_);
        sockets_.insert(socket.native_handle());
      }
      threads_.emplace_back([this, number, accepted = std::move(socket)]() mutable { Serve(&accepted, number); });
    }
  }

  void Serve(tcp::socket* socket, int number) {
    error_code error;
    socket->set_option(tcp::no_delay(true), error);
    if (!tls_) {
      ConnectionOf<tcp::socket> connection(socket, socket, number);
      script_(connection);
    } else {
      asio::ssl::stream<tcp::socket&> stream(*socket, *tls_);
      stream.handshake(asio::ssl::stream_base::server, error);
      if (!error) {
        ConnectionOf<asio::ssl::stream<tcp::socket&>> connection(&stream, socket, number);
        script_(connection);
      }
    }
    const std::lock_guard lock(mutex_);
    sockets_.erase(socket->native_handle());
    socket->close(error);
  }

  const Script script_;
  asio::io_context io_;
  tcp::acceptor acceptor_{io_, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0)};
  std::optional<asio::ssl::context> tls_;
  std::atomic<int> connections_{0};
  std::mutex mutex_;
  std::set<int> sockets_;             // guarded by mutex_
  std::vector<std::thread> threads_;  // of the accepting thread; the destructor's after its end
  std::thread accepting_;
};

TestServer::TestServer(Options options, Script script)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(script))) {}
TestServer::~TestServer() = default;
void TestServer::StopListening() { impl_->StopListening(); }
uint16_t TestServer::port() const { return impl_->port(); }
int TestServer::connections() const { return impl_->connections(); }

}  // namespace muster::testing
