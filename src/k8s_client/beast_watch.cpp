#include "beast_watch.h"

#include <absl/container/flat_hash_set.h>
#include <absl/strings/str_cat.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <limits>
#include <thread>
#include <type_traits>
#include <utility>

#include "beast_receiver.h"
#include "http_retry_after.h"
#include "line_splitter.h"
#include "muster/core/check.h"

namespace muster::k8s {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using SteadyTime = std::chrono::steady_clock::time_point;
using asio::ip::tcp;

constexpr size_t kReadBytes = 32 * 1024;
constexpr size_t kRefusalBytesMax = 1024 * 1024;
constexpr std::uint32_t kHeaderBytesMax = 64 * 1024;
// From the start to the head of the answer, unless the request allows less.
constexpr Duration kSetupMax = std::chrono::seconds(30);

// What every connection needs to know.
struct Target {
  ServerAddress address;
  std::shared_ptr<const TlsSettings> tls;
  std::string user_agent;
};

SteadyTime After(Duration d) {
  static_assert(std::is_same_v<std::chrono::steady_clock::duration, Duration>);
  return SteadyTime(AddClamped(std::chrono::steady_clock::now().time_since_epoch(), d));
}

// A peer that vanished without a word is noticed within a minute, also where the watch tolerates more silence.
void KeepAlive(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  socket.set_option(tcp::no_delay(true), ignored);
  const int fd = socket.native_handle();
  const auto set = [fd](int option, int value) { ::setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value)); };
  set(TCP_KEEPIDLE, 30);
  set(TCP_KEEPINTVL, 10);
  set(TCP_KEEPCNT, 3);
}

http::request<http::empty_body> WatchRequest(const Target& target, const HttpRequest& request,
                                             const std::string& token) {
  http::request<http::empty_body> out;
  out.version(11);
  out.method(http::verb::get);
  out.target(absl::StrCat(target.address.base_path, request.path, request.query.empty() ? "" : "?", request.query));
  out.set(http::field::host, target.address.Authority());
  out.set(http::field::user_agent, target.user_agent);
  out.set(http::field::accept, request.accept.empty() ? "application/json" : request.accept);
  if (!token.empty()) out.set(http::field::authorization, absl::StrCat("Bearer ", token));
  return out;
}

// One connection from its start to its end, on the reading thread. `Stream` is a socket or TLS over one.
template <typename Stream>
class Connection final : public WatchConnection, public std::enable_shared_from_this<Connection<Stream>> {
 public:
  static constexpr bool kTls = !std::is_same_v<Stream, tcp::socket>;

  template <typename... StreamArgs>
  Connection(asio::io_context* io, const Target* target, std::shared_ptr<WatchReceiver> receiver,
             const HttpRequest& request, const std::string& token, StreamArgs&&... stream_args)
      : io_(*io),
        target_(*target),
        receiver_(std::move(receiver)),
        silence_max_(request.timeout),
        request_(WatchRequest(*target, request, token)),
        resolver_(*io),
        stream_(*io, std::forward<StreamArgs>(stream_args)...),
        timer_(*io) {
    // Not boost::none: Beast 1.74 takes any Content-Length as more than that.
    parser_.body_limit(std::numeric_limits<uint64_t>::max());
    parser_.header_limit(kHeaderBytesMax);
  }

  void Start() override {
    asio::post(io_, [self = Self()] { self->Resolve(); });
  }
  void Resume() override {
    asio::post(io_, [self = Self()] {
      if (self->ended_) return;
      self->Expect(self->silence_max_);
      self->ReadBody();
    });
  }
  void Abort() override {
    asio::post(io_, [self = Self()] { self->Close(); });
  }

 private:
  std::shared_ptr<Connection> Self() { return this->shared_from_this(); }

  tcp::socket& Socket() {
    if constexpr (kTls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  // Calls `step` with the results, unless the connection has ended in the meantime or `what` failed.
  template <typename... Results>
  auto Then(const char* what, void (Connection::*step)(Results...)) {
    return [self = Self(), what, step](const error_code& error, Results... results) {
      if (self->ended_) return;
      if (error) {
        self->Fail(what, error);
      } else {
        (self.get()->*step)(std::forward<Results>(results)...);
      }
    };
  }

  void Resolve() {
    if (ended_) return;
    Expect(std::min(kSetupMax, silence_max_));
    resolver_.async_resolve(target_.address.host, std::to_string(target_.address.port),
                            Then("cannot resolve the server's name", &Connection::Connect));
  }

  void Connect(const tcp::resolver::results_type& endpoints) {
    asio::async_connect(Socket(), endpoints, Then("cannot connect", &Connection::Connected));
  }

  void Connected(const tcp::endpoint& /*endpoint*/) {
    KeepAlive(Socket());
    if constexpr (kTls) {
      if (const std::string& sni = target_.tls->sni(); !sni.empty()) {
        SSL_set_tlsext_host_name(stream_.native_handle(), sni.c_str());
      }
      stream_.async_handshake(asio::ssl::stream_base::client, Then("TLS handshake failed", &Connection::Write));
    } else {
      Write();
    }
  }

  void Write() { http::async_write(stream_, request_, Then("cannot send the request", &Connection::ReadHead)); }

  void ReadHead(size_t /*bytes*/) {
    http::async_read_header(stream_, buffer_, parser_, Then("no answer", &Connection::GotHead));
  }

  void GotHead(size_t /*bytes*/) {
    const auto& head = parser_.get();
    if (const auto coding = head[http::field::content_encoding]; !coding.empty() && coding != "identity") {
      Finish({absl::DataLossError(absl::StrCat("the server encoded its answer unasked: ", std::string(coding)))});
      return;
    }
    if (head.result_int() == 200) {
      receiver_->Opened();
    } else {
      const auto after = head[http::field::retry_after];
      refusal_.emplace();
      refusal_->status = absl::FailedPreconditionError(absl::StrCat("the server answered ", head.result_int()));
      refusal_->http_status = static_cast<int>(head.result_int());
      refusal_->retry_after = ParseRetryAfter({after.data(), after.size()});
    }
    Expect(silence_max_);
    if (parser_.is_done()) {
      BodyEnded();
    } else {
      ReadBody();
    }
  }

  void ReadBody() {
    if (receiver_->PauseIfFull()) {
      deadline_ = SteadyTime::max();
      return;
    }
    parser_.get().body().data = block_.data();
    parser_.get().body().size = block_.size();
    http::async_read_some(stream_, buffer_, parser_, [self = Self()](const error_code& error, size_t /*bytes*/) {
      if (!self->ended_) self->GotBody(error);
    });
  }

  void GotBody(const error_code& error) {
    const std::string_view bytes(block_.data(), block_.size() - parser_.get().body().size);
    if (refusal_) {
      refusal_->body.append(bytes.substr(0, kRefusalBytesMax - refusal_->body.size()));
    } else if (!bytes.empty() && !Split(bytes)) {
      return;
    }
    if (error && error != http::error::need_buffer) {
      // Of a refusal, the code and what came of the body are worth more than how the body broke off.
      refusal_ ? BodyEnded() : Fail("the stream was cut", error);
    } else if (parser_.is_done()) {
      BodyEnded();
    } else {
      ReadBody();
    }
  }

  // RETURNS: false if that ended the connection.
  bool Split(std::string_view bytes) {
    std::string lines;
    const bool fits = splitter_.Feed(bytes, &lines);
    if (!lines.empty()) {
      receiver_->Lines(std::move(lines));
      deadline_ = After(silence_max_);
    }
    if (!fits) {
      Finish({absl::DataLossError(absl::StrCat("a line is longer than ", kWatchLineBytesMax, " bytes"))});
    }
    return fits;
  }

  void BodyEnded() {
    if (refusal_) {
      Finish(*std::move(refusal_));
    } else if (splitter_.within_line()) {
      Finish({absl::UnavailableError("the stream ended within a line")});
    } else {
      Finish({absl::OkStatus()});
    }
  }

  // The connection ends if nothing calls this, or moves deadline_, within `patience`.
  void Expect(Duration patience) {
    deadline_ = After(patience);
    WaitForDeadline();
  }

  void WaitForDeadline() {
    timer_.expires_at(deadline_);
    timer_.async_wait([self = Self()](const error_code& error) {
      if (error || self->ended_) return;
      if (std::chrono::steady_clock::now() < self->deadline_) {
        self->WaitForDeadline();
      } else {
        self->Finish({absl::DeadlineExceededError("nothing came from the server for too long")});
      }
    });
  }

  void Fail(const char* what, const error_code& error) {
    std::string text = absl::StrCat(target_.address.Authority(), ": ", what, ": ", error.message());
    if (kTls && error.category() == asio::error::get_ssl_category()) {
      if (const std::string reason = target_.tls->LastFailure(); !reason.empty()) absl::StrAppend(&text, ": ", reason);
    }
    const bool malformed = error.category() == make_error_code(http::error::bad_version).category() &&
                           error != http::error::end_of_stream && error != http::error::partial_message;
    Finish({malformed ? absl::DataLossError(text) : absl::UnavailableError(text)});
  }

  void Finish(WatchEnd end) {
    if (ended_) return;
    Close();
    receiver_->Ended(std::move(end));
  }

  void Close() {
    ended_ = true;
    error_code ignored;
    timer_.cancel(ignored);
    resolver_.cancel();
    Socket().close(ignored);
  }

  asio::io_context& io_;
  const Target& target_;
  const std::shared_ptr<WatchReceiver> receiver_;
  const Duration silence_max_;

  http::request<http::empty_body> request_;
  http::response_parser<http::buffer_body> parser_;
  boost::beast::flat_buffer buffer_;
  std::array<char, kReadBytes> block_;
  LineSplitter splitter_{kWatchLineBytesMax};
  std::optional<WatchEnd> refusal_;

  tcp::resolver resolver_;
  Stream stream_;
  asio::steady_timer timer_;
  SteadyTime deadline_ = SteadyTime::max();
  bool ended_ = false;
};

class Stream final : public WatchStream {
 public:
  explicit Stream(std::shared_ptr<WatchReceiver> receiver) : receiver_(std::move(receiver)) {}
  ~Stream() override { receiver_->Detach(); }

 private:
  const std::shared_ptr<WatchReceiver> receiver_;
};

}  // namespace

class BeastWatches::Impl {
 public:
  Impl(Environment env, const ServerAddress& address, std::shared_ptr<const TlsSettings> tls, std::string user_agent,
       Credentials* credentials)
      : env_(env), target_{address, std::move(tls), std::move(user_agent)}, credentials_(credentials) {
    if (target_.tls != nullptr) target_.tls->Apply(tls_context_.native_handle());
    thread_ = std::thread([this] { io_.run(); });
  }

  ~Impl() {
    io_.stop();
    thread_.join();
    for (const auto& weak : receivers_) {
      if (const auto receiver = weak.lock()) receiver->Detach();
    }
  }

  std::unique_ptr<WatchStream> Open(HttpRequest request, WatchHandler* handler) {
    auto open = std::make_shared<Opening>();
    open->request = std::move(request);
    auto receiver = std::make_shared<WatchReceiver>(
        env_.executor, handler, [this, open](const WatchEnd& end) { return Retry(open.get(), end); });
    open->receiver = receiver;
    std::erase_if(receivers_, [](const auto& weak) { return weak.expired(); });
    receivers_.push_back(receiver);
    Connect(open.get(), receiver);
    return std::make_unique<Stream>(std::move(receiver));
  }

 private:
  // What is needed to connect once more.
  struct Opening {
    HttpRequest request;
    std::string token;
    bool retried = false;
    std::weak_ptr<WatchReceiver> receiver;
  };

  void Connect(Opening* open, const std::shared_ptr<WatchReceiver>& receiver) {
    auto token = credentials_->Token();
    if (!token.ok()) {
      receiver->Ended({absl::UnavailableError(token.status().message())});
      return;
    }
    open->token = *std::move(token);
    if (target_.tls == nullptr) {
      receiver->Connect(
          std::make_shared<Connection<tcp::socket>>(&io_, &target_, receiver, open->request, open->token));
    } else {
      receiver->Connect(std::make_shared<Connection<asio::ssl::stream<tcp::socket>>>(
          &io_, &target_, receiver, open->request, open->token, tls_context_));
    }
  }

  // Once, and only with another token than the one refused.
  bool Retry(Opening* open, const WatchEnd& end) {
    if (end.http_status != 401 || open->retried || !credentials_->Renew(open->token)) return false;
    open->retried = true;
    Connect(open, open->receiver.lock());
    return true;
  }

  const Environment env_;
  const Target target_;
  Credentials* const credentials_;
  std::vector<std::weak_ptr<WatchReceiver>> receivers_;

  asio::ssl::context tls_context_{asio::ssl::context::tls_client};
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  std::thread thread_;
};

BeastWatches::BeastWatches(Environment env, const ServerAddress& address, std::shared_ptr<const TlsSettings> tls,
                           std::string user_agent, Credentials* credentials)
    : impl_(std::make_unique<Impl>(env, address, std::move(tls), std::move(user_agent), credentials)) {}
BeastWatches::~BeastWatches() = default;

std::unique_ptr<WatchStream> BeastWatches::Open(HttpRequest request, WatchHandler* handler) {
  return impl_->Open(std::move(request), handler);
}

}  // namespace muster::k8s
