#include "muster/server/http_server.h"

#include <absl/strings/str_cat.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>

#include "muster/core/check.h"
#include "server_tls.h"

namespace muster::server {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
namespace net = boost::asio;
using tcp = net::ip::tcp;
using ErrorCode = boost::system::error_code;
using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

// "%41+b" -> "A b"; what is not valid percent-encoding stays as it is.
std::string Decode(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
      out.push_back(static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])));
      i += 2;
    } else {
      out.push_back(text[i] == '+' ? ' ' : text[i]);
    }
  }
  return out;
}

HttpRequest ParseTarget(std::string_view target) {
  HttpRequest request;
  const size_t mark = target.find('?');
  request.path = std::string(target.substr(0, mark));
  std::string_view query = mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
  while (!query.empty()) {
    const size_t end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    query = end == std::string_view::npos ? std::string_view() : query.substr(end + 1);
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    request.query.emplace_back(Decode(pair.substr(0, equals)),
                               equals == std::string_view::npos ? "" : Decode(pair.substr(equals + 1)));
  }
  return request;
}

// Lets an answer find the server's thread for as long as that exists.
struct Gate {
  std::mutex mutex;
  net::io_context* io = nullptr;  // null: the server is gone

  template <typename F>
  void Post(F function) {
    const std::lock_guard lock(mutex);
    if (io != nullptr) net::post(*io, std::move(function));
  }
};

}  // namespace

class HttpServer::Impl {
 public:
  // `tls` null: plain HTTP.
  Impl(std::map<std::string, Handler> routes, HttpServerOptions options, std::unique_ptr<ServerTls> tls)
      : routes_(std::move(routes)), options_(std::move(options)), tls_(std::move(tls)) {
    gate_->io = &io_;
  }
  ~Impl();

  absl::Status Listen(const Address& address);
  const Address& address() const { return address_; }

 private:
  class Session;
  template <typename Stream>
  class SessionOver;
  using Sessions = std::list<std::shared_ptr<Session>>;

  void Accept();
  void Admit(tcp::socket socket);
  const Handler* Find(const std::string& path) const {
    const auto it = routes_.find(path);
    return it == routes_.end() ? nullptr : &it->second;
  }

  const std::map<std::string, Handler> routes_;
  const HttpServerOptions options_;
  const std::unique_ptr<ServerTls> tls_;
  Address address_;
  net::io_context io_{1};
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  tcp::acceptor acceptor_{io_};
  net::steady_timer accept_pause_{io_};
  Sessions sessions_;  // those that have waited longest for a request first
  std::thread thread_;
};

// One connection: read a request, have it answered, write the answer, read the next.
class HttpServer::Impl::Session {
 public:
  virtual ~Session() = default;
  virtual void Start(Sessions::iterator self) = 0;
  // It is the client's turn.
  virtual bool reading() const = 0;
  virtual void Close() = 0;
};

template <typename Stream>
class HttpServer::Impl::SessionOver final : public Session, public std::enable_shared_from_this<SessionOver<Stream>> {
 public:
  static constexpr bool kTls = std::is_same_v<Stream, TlsStream>;

  SessionOver(Impl* server, tcp::socket socket)
    requires(!kTls)
      : server_(server), stream_(std::move(socket)), buffer_(kBufferMax), answer_timer_(server->io_) {}
  SessionOver(Impl* server, tcp::socket socket, std::unique_ptr<net::ssl::context> context)
    requires kTls
      : server_(server),
        context_(std::move(context)),
        stream_(std::move(socket), *context_),
        buffer_(kBufferMax),
        answer_timer_(server->io_) {}

  void Start(Sessions::iterator self) override {
    self_ = self;
    if constexpr (kTls) {
      Handshake();
    } else {
      Read();
    }
  }
  bool reading() const override { return reading_; }

  void Close() override {
    if (closed_) return;
    closed_ = true;
    answer_timer_.cancel();
    ErrorCode ignored;
    Tcp().socket().shutdown(tcp::socket::shutdown_both, ignored);
    Tcp().close();
    server_->sessions_.erase(self_);  // may end this object: nothing follows
  }

 private:
  static constexpr size_t kBufferMax = 16 * 1024;

  std::shared_ptr<SessionOver> Self() { return this->shared_from_this(); }
  beast::tcp_stream& Tcp() { return beast::get_lowest_layer(stream_); }

  void AwaitClient() {
    reading_ = true;
    server_->sessions_.splice(server_->sessions_.end(), server_->sessions_, self_);
    Tcp().expires_after(server_->options_.request_timeout);
  }

  void Handshake() {
    AwaitClient();
    stream_.async_handshake(net::ssl::stream_base::server, [self = Self()](ErrorCode error) {
      if (self->closed_) return;
      if (!error) return self->Read();
      const bool plain = error.category() == net::error::get_ssl_category() &&
                         ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST;
      return plain ? self->AnswerPlainHttp() : self->Close();
    });
  }

  // Whoever forgot the "s" of https gets to know.
  void AnswerPlainHttp() {
    static constexpr std::string_view kAnswer =
        "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
        "this port speaks HTTPS\n";
    net::async_write(Tcp(), net::buffer(kAnswer.data(), kAnswer.size()),
                     [self = Self()](ErrorCode, size_t) { self->Close(); });
  }

  void Read() {
    AwaitClient();
    parser_.emplace();
    parser_->header_limit(server_->options_.header_bytes_max);
    parser_->body_limit(server_->options_.body_bytes_max);
    http::async_read(stream_, buffer_, *parser_, [self = Self()](ErrorCode error, size_t) { self->OnRead(error); });
  }

  void OnRead(ErrorCode error) {
    if (closed_) return;
    reading_ = false;
    Tcp().expires_never();
    if (!error) return Serve();
    // After a malformed request nobody knows where the next one begins: answer, then close.
    keep_alive_ = false;
    head_ = false;
    version_ = 11;
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      return Write({431, kPlain, "the request's header is too large\n"});
    }
    if (error == http::error::body_limit) return Write({413, kPlain, "the request's body is too large\n"});
    if (error.category() == ErrorCode(http::error::bad_method).category() && error != http::error::end_of_stream &&
        error != http::error::partial_message) {
      return Write({400, kPlain, absl::StrCat("not a valid HTTP request: ", error.message(), "\n")});
    }
    Close();
  }

  void Serve() {
    const auto& message = parser_->get();
    keep_alive_ = message.keep_alive();
    version_ = message.version();
    head_ = message.method() == http::verb::head;
    if (!head_ && message.method() != http::verb::get) return Write({405, kPlain, "only GET and HEAD are served\n"});
    HttpRequest request = ParseTarget({message.target().data(), message.target().size()});
    if (head_) request.method = "head";
    if (message.count(http::field::authorization) == 1) {
      request.authorization = std::string(message[http::field::authorization]);
    }
    const Handler* handler = server_->Find(request.path);
    if (handler == nullptr) return Write({404, kPlain, "no such page\n"});

    const uint64_t turn = ++turn_;
    answer_timer_.expires_after(server_->options_.handler_timeout);
    answer_timer_.async_wait([self = Self(), turn](ErrorCode error) {
      if (error || self->turn_ != turn) return;
      self->keep_alive_ = false;
      self->Answer(turn, {503, kPlain, "no answer in time: the process is busy or stuck\n"});
    });
    (*handler)(request, [gate = server_->gate_, weak = this->weak_from_this(),
                         turn](absl::AnyInvocable<HttpReply()> render) {
      // Shared, since Asio copies what it is given.
      auto shared = std::make_shared<absl::AnyInvocable<HttpReply()>>(std::move(render));
      gate->Post([weak, turn, shared] {
        const auto self = weak.lock();
        if (self != nullptr && self->turn_ == turn) self->Answer(turn, (*shared)());
      });
    });
  }

  void Answer(uint64_t turn, HttpReply reply) {
    if (closed_ || turn != turn_) return;
    ++turn_;  // a second answer finds no turn of its own
    answer_timer_.cancel();
    Write(std::move(reply));
  }

  void Write(HttpReply reply) {
    response_ = {};
    response_.version(version_);
    response_.result(static_cast<unsigned>(reply.status));
    response_.set(http::field::content_type, reply.content_type);
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    if (reply.status == 405) response_.set(http::field::allow, "GET, HEAD");
    if (reply.status == 401) response_.set(http::field::www_authenticate, "Bearer");
    response_.keep_alive(keep_alive_);
    response_.content_length(reply.body.size());
    if (!head_) response_.body() = std::move(reply.body);
    Tcp().expires_after(server_->options_.write_timeout);
    http::async_write(stream_, response_, [self = Self()](ErrorCode error, size_t) { self->OnWritten(error); });
  }

  void OnWritten(ErrorCode error) {
    if (closed_) return;
    if (error) return Close();
    return keep_alive_ ? Read() : End();
  }

  // With a word of farewell, where the protocol has one: without it, a client may take the answer for cut off.
  void End() {
    if constexpr (kTls) {
      AwaitClient();
      stream_.async_shutdown([self = Self()](ErrorCode) { self->Close(); });
    } else {
      Close();
    }
  }

  static constexpr const char* kPlain = "text/plain; charset=utf-8";

  Impl* server_;
  Sessions::iterator self_;
  std::unique_ptr<net::ssl::context> context_;  // null without TLS
  Stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  net::steady_timer answer_timer_;
  uint64_t turn_ = 0;  // which request the answer must belong to
  unsigned version_ = 11;
  bool reading_ = false;
  bool keep_alive_ = false;
  bool head_ = false;
  bool closed_ = false;
};

HttpServer::Impl::~Impl() {
  {
    const std::lock_guard lock(gate_->mutex);
    gate_->io = nullptr;
  }
  io_.stop();
  if (thread_.joinable()) thread_.join();
  ErrorCode ignored;
  acceptor_.close(ignored);
  while (!sessions_.empty()) {
    const std::shared_ptr<Session> keep = sessions_.front();
    keep->Close();
  }
}

absl::Status HttpServer::Impl::Listen(const Address& address) {
  const auto failed = [&address](const ErrorCode& error) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address.ToString(), ": ", error.message()));
  };
  ErrorCode error;
  tcp::endpoint endpoint;
  if (address.host.empty()) {
    endpoint = {tcp::v6(), address.port};
  } else {
    const auto ip = net::ip::make_address(address.host, error);
    if (error) return failed(error);
    endpoint = {ip, address.port};
  }
  acceptor_.open(endpoint.protocol(), error);
  if (error && address.host.empty()) {  // a machine without IPv6
    endpoint = {tcp::v4(), address.port};
    acceptor_.open(endpoint.protocol(), error);
  }
  if (error) return failed(error);
  acceptor_.set_option(net::socket_base::reuse_address(true), error);
  if (address.host.empty() && endpoint.protocol() == tcp::v6()) acceptor_.set_option(net::ip::v6_only(false), error);
  acceptor_.bind(endpoint, error);
  if (error) return failed(error);
  acceptor_.listen(net::socket_base::max_listen_connections, error);
  if (error) return failed(error);
  address_ = address;
  address_.port = acceptor_.local_endpoint(error).port();
  if (error) return failed(error);
  Accept();
  thread_ = std::thread([this] { io_.run(); });
  return absl::OkStatus();
}

void HttpServer::Impl::Accept() {
  acceptor_.async_accept([this](ErrorCode error, tcp::socket socket) {
    if (error == net::error::operation_aborted) return;
    if (!error) {
      Admit(std::move(socket));
      return Accept();
    }
    // Out of descriptors, or a connection that ended while it waited: go on, but do not spin.
    accept_pause_.expires_after(std::chrono::milliseconds(100));
    accept_pause_.async_wait([this](ErrorCode cancelled) {
      if (!cancelled) Accept();
    });
  });
}

void HttpServer::Impl::Admit(tcp::socket socket) {
  if (sessions_.size() >= static_cast<size_t>(options_.connections_max)) {
    // Make room at the cost of whoever has kept us waiting longest. Where all are being answered, the
    // newcomer must wait for its client's next try.
    const auto oldest = std::find_if(sessions_.begin(), sessions_.end(), [](const auto& s) { return s->reading(); });
    if (oldest == sessions_.end()) return;
    const std::shared_ptr<Session> keep = *oldest;
    keep->Close();
  }
  ErrorCode ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  if (tls_ == nullptr) {
    sessions_.push_back(std::make_shared<SessionOver<PlainStream>>(this, std::move(socket)));
  } else {
    const std::shared_ptr<SSL_CTX> settings = tls_->Context(std::chrono::steady_clock::now());
    SSL_CTX_up_ref(settings.get());  // Asio's context takes one
    sessions_.push_back(std::make_shared<SessionOver<TlsStream>>(
        this, std::move(socket), std::make_unique<net::ssl::context>(settings.get())));
  }
  sessions_.back()->Start(std::prev(sessions_.end()));
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const Address& address,
                                                              std::map<std::string, Handler> routes,
                                                              HttpServerOptions options) {
  MUSTER_CHECK(options.connections_max > 0);
  std::unique_ptr<ServerTls> tls;
  if (options.tls) {
    auto made = ServerTls::Make(*options.tls);
    if (!made.ok()) return made.status();
    tls = *std::move(made);
  }
  auto impl = std::make_unique<Impl>(std::move(routes), std::move(options), std::move(tls));
  if (absl::Status status = impl->Listen(address); !status.ok()) return status;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
const Address& HttpServer::address() const { return impl_->address(); }

}  // namespace muster::server
