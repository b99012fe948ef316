#include "cpprest_calls.h"

#include <absl/container/flat_hash_set.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <cpprest/containerstream.h>
#include <cpprest/http_client.h>
#include <pplx/threadpool.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <exception>
#include <future>
#include <mutex>
#include <utility>
#include <vector>

#include "http_retry_after.h"
#include "muster/core/check.h"

namespace muster::k8s {
namespace {

namespace http = web::http;

// How long the calls that are ended with the transport may take to let go of what they use.
constexpr std::chrono::seconds kEndMax{2};

// What cpprestsdk's progress handler throws to stop a call.
struct CallEnded : std::exception {};
struct WouldSendAgain : std::exception {};
struct LeavesTooLate : std::exception {};
struct AnswerTooLong : std::exception {};
struct StaleConnection : std::exception {};

// The pool belongs to the process. One thread: see the header.
boost::asio::io_service& Pool() {
  static boost::asio::io_service& service = []() -> boost::asio::io_service& {
    bool first = true;
    try {
      crossplat::threadpool::initialize_with_threads(1);
    } catch (const std::exception&) {
      first = false;
    }
    MUSTER_CHECK_MSG(first, "cpprestsdk's pool was used before the first transport was made");
    return crossplat::threadpool::shared_instance().service();
  }();
  return service;
}

const char* MethodName(Method method) {
  switch (method) {
    case Method::kGet:
      return "GET";
    case Method::kPost:
      return "POST";
    case Method::kPut:
      return "PUT";
    case Method::kPatch:
      return "PATCH";
    case Method::kDelete:
      return "DELETE";
  }
  MUSTER_CHECK(false);
}

// cpprestsdk's words for what fails before the first byte of a request is written. Where they should change,
// a call without body is "may have been sent", which is true of any.
bool FailedBeforeSending(std::string_view what) {
  constexpr std::array<std::string_view, 4> kTexts = {"Error resolving address", "Failed to resolve address",
                                                      "Failed to connect to any resolved endpoint",
                                                      "Error in SSL handshake"};
  for (const std::string_view text : kTexts) {
    if (what == text) return true;
  }
  return false;
}

// A connection that rests in the pool has nothing to read, unless the server has closed it.
void RefuseIfStale(boost::asio::ip::tcp::socket& socket) {
  if (!socket.is_open()) return;  // a new one
  char byte = 0;
  const ssize_t got = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) throw StaleConnection();
}

}  // namespace

class CpprestCalls::Impl {
 public:
  Impl(Environment env, const ServerAddress& address, std::shared_ptr<const TlsSettings> tls, std::string user_agent,
       int64_t response_bytes_max)
      : env_(env), back_(std::make_shared<WayBack>()) {
    Pool();  // before the first client, which would make a larger one
    back_->executor = env.executor;
    back_->owner = this;
    auto gone = std::make_shared<std::promise<void>>();
    setup_gone_ = gone->get_future();
    std::shared_ptr<Setup> setup(new Setup, [gone = std::move(gone)](Setup* dead) {
      delete dead;
      gone->set_value();
    });
    setup->authority = address.Authority();
    setup->base_path = address.base_path;
    setup->user_agent = std::move(user_agent);
    setup->response_bytes_max = response_bytes_max;
    setup->tls = tls;
    if (tls != nullptr && tls->name() != address.host) setup->host_header = tls->name();
    setup->client = std::make_unique<http::client::http_client>(
        http::uri(absl::StrCat(address.tls ? "https://" : "http://", address.Authority())), Config(std::move(tls)));
    setup_ = std::move(setup);
  }

  ~Impl() {
    for (const auto& call : under_way_) {
      env_.executor->Cancel(call->timer);
      call->done = nullptr;
      Abandon(call);
    }
    back_->owner = nullptr;
    {
      const std::lock_guard lock(back_->mutex);
      back_->executor = nullptr;
    }
    // The pooled connections end on the pool's thread, like all else of theirs. A process that ends right after this
    // must not leave them half way.
    Pool().post([setup = std::move(setup_)]() mutable { setup.reset(); });
    if (setup_gone_.wait_for(kEndMax) == std::future_status::ready) AwaitPool();
  }

  void Start(std::shared_ptr<const HttpRequest> request, const std::string& token, Limits limits,
             Transport::Done done) {
    auto call = std::make_shared<CallState>();
    call->has_body = !request->body.empty();
    call->request = std::move(request);
    call->token = token;
    call->done = std::move(done);
    call->clock = env_.clock;
    call->leave_by = limits.leave_by;
    call->timer = env_.executor->PostAt(limits.deadline, [this, call] { TimedOut(call); });
    under_way_.insert(call);
    Pool().post([setup = setup_, back = back_, call] { Send(setup, back, call); });
  }

 private:
  enum class Phase : uint8_t { kBefore, kSending, kAbandoned };

  struct CallState {
    std::shared_ptr<const HttpRequest> request;
    bool has_body = false;
    std::string token;
    const Clock* clock = nullptr;
    MonoTime leave_by;
    // Of the executor:
    Transport::Done done;
    Executor::TimerId timer = 0;
    // Of both: the body leaves only by the step kBefore -> kSending, an end is final by kAbandoned.
    std::atomic<Phase> phase{Phase::kBefore};
    // Of the pool:
    pplx::cancellation_token_source cancel;
    concurrency::streams::container_buffer<std::vector<uint8_t>> answer;
    uint64_t received = 0;
    bool left = false;  // without a body: the head was written, if only once of several tries
  };
  using Call = std::shared_ptr<CallState>;

  // What outlives us, in the pool's closures.
  struct Setup {
    std::string authority;  // for errors
    std::string base_path;
    std::string user_agent;
    std::string host_header;  // empty: cpprestsdk's own
    int64_t response_bytes_max = 0;
    std::shared_ptr<const TlsSettings> tls;
    std::unique_ptr<http::client::http_client> client;
  };

  // From the pool to the executor.
  struct WayBack {
    void Post(Executor::Task task) {
      const std::lock_guard lock(mutex);
      if (executor != nullptr) executor->Post(std::move(task));
    }
    std::mutex mutex;
    Executor* executor = nullptr;  // guarded by mutex; null: we are gone
    Impl* owner = nullptr;         // of the executor; null: we are gone
  };

  static http::client::http_client_config Config(std::shared_ptr<const TlsSettings> tls) {
    http::client::http_client_config config;
    config.set_max_redirects(0);
    config.set_timeout(std::chrono::hours(1));  // the real one is the call's own
    config.set_chunksize(256 * 1024);
    config.set_request_compressed_response(false);
    // Called with the connection each time before it is used.
    config.set_nativehandle_options([with_tls = tls != nullptr](http::client::native_handle connection) {
      using boost::asio::ip::tcp;
      if (with_tls) {
        RefuseIfStale(static_cast<boost::asio::ssl::stream<tcp::socket&>*>(connection)->next_layer());
      } else {
        RefuseIfStale(*static_cast<tcp::socket*>(connection));
      }
    });
    if (tls != nullptr) {
      config.set_validate_certificates(tls->verify());
      config.set_tlsext_sni_enabled(!tls->sni().empty());
      config.set_ssl_context_callback(
          [tls](boost::asio::ssl::context& context) { tls->Apply(context.native_handle()); });
    }
    return config;
  }

  // --- on the pool's thread ---

  static void Send(const std::shared_ptr<Setup>& setup, const std::shared_ptr<WayBack>& back, const Call& call) {
    if (call->phase == Phase::kAbandoned) return;
    const auto finish = [setup, back, call](HttpResponse response) {
      back->Post([back, call, response = std::move(response)]() mutable {
        if (back->owner != nullptr) back->owner->Finish(call, std::move(response));
      });
    };
    try {
      setup->client->request(Build(*setup, call), call->cancel.get_token())
          .then([](const http::http_response& response) { return response.content_ready(); })
          .then([setup, back, call, finish](const pplx::task<http::http_response>& task) {
            HttpResponse response;
            if (Outcome(*setup, call, task, &response)) {
              finish(std::move(response));
            } else {
              Send(setup, back, call);
            }
          });
    } catch (const std::exception& error) {  // a path that is no URI
      HttpResponse response;
      response.error = absl::StrCat("the request cannot be made: ", error.what());
      finish(std::move(response));
    }
  }

  static http::http_request Build(const Setup& setup, const Call& call) {
    const HttpRequest& request = *call->request;
    http::http_request out(MethodName(request.method));
    out.set_request_uri(
        http::uri(absl::StrCat(setup.base_path, request.path, request.query.empty() ? "" : "?", request.query)));
    if (!setup.host_header.empty()) out.headers().add("Host", setup.host_header);
    out.headers().add("User-Agent", setup.user_agent);
    out.headers().add("Accept", request.accept.empty() ? "application/json" : request.accept);
    if (!call->token.empty()) out.headers().add("Authorization", absl::StrCat("Bearer ", call->token));
    if (call->has_body) {
      // As bytes: its text body casts one type of buffer to another that it is not.
      out.set_body(std::vector<unsigned char>(request.body.begin(), request.body.end()));
      out.headers().set_content_type(request.content_type);
    }
    out.set_response_stream(call->answer.create_ostream());
    out.set_progress_handler([call, bytes_max = static_cast<uint64_t>(setup.response_bytes_max)](
                                 http::message_direction::direction direction, uint64_t bytes) {
      if (direction == http::message_direction::upload) {
        Uploading(call.get(), bytes);
      } else {
        if (bytes < call->received || bytes > bytes_max) throw AnswerTooLong();
        call->received = bytes;
      }
    });
    return out;
  }

  // `bytes` of the body were written; zero: the head was. Without a body that comes too late to stop it.
  static void Uploading(CallState* call, uint64_t bytes) {
    if (!call->has_body) call->left = true;
    if (!call->has_body || bytes > 0) return;
    Phase expected = Phase::kBefore;
    if (call->phase == expected && call->clock->Mono() > call->leave_by) throw LeavesTooLate();
    if (call->phase.compare_exchange_strong(expected, Phase::kSending)) return;
    if (expected == Phase::kAbandoned) throw CallEnded();
    throw WouldSendAgain();
  }

  // RETURNS: false where nothing was sent since the connection was stale; each such connection is dropped,
  // so trying again ends with a new one.
  static bool Outcome(const Setup& setup, const Call& call, const pplx::task<http::http_response>& task,
                      HttpResponse* response) {
    HttpResponse& out = *response;
    out.sent = !call->has_body || call->phase != Phase::kBefore;
    try {
      out = Answer(task.get(), call);
    } catch (const StaleConnection&) {
      return false;
    } catch (const CallEnded&) {
      out.error = "the call was ended";
    } catch (const WouldSendAgain&) {
      out.error = "the server closed the connection without an answer";
    } catch (const LeavesTooLate&) {
      out.error = "not sent: it could not leave in time";
    } catch (const AnswerTooLong&) {
      out.error = absl::StrCat("the answer is malformed or longer than ", setup.response_bytes_max, " bytes");
    } catch (const http::http_exception& error) {
      if (!call->has_body && !call->left && FailedBeforeSending(error.what())) out.sent = false;
      out.error = Describe(setup, error);
    } catch (const std::exception& error) {
      out.error = error.what();
    }
    return true;
  }

  static HttpResponse Answer(const http::http_response& response, const Call& call) {
    HttpResponse out;
    out.sent = true;
    if (const auto coding = response.headers().find("Content-Encoding");
        coding != response.headers().end() && coding->second != "identity") {
      out.error = absl::StrCat("the server encoded its answer unasked: ", coding->second);
      return out;
    }
    if (response.status_code() < 200 || response.status_code() > 599) {
      out.error = absl::StrCat("the server's status ", response.status_code(), " ends no call");
      return out;
    }
    out.status = response.status_code();
    const std::vector<uint8_t>& bytes = call->answer.collection();
    out.body.assign(bytes.begin(), bytes.end());
    if (const auto after = response.headers().find("Retry-After"); after != response.headers().end()) {
      out.retry_after = ParseRetryAfter(after->second);
    }
    return out;
  }

  static std::string Describe(const Setup& setup, const http::http_exception& error) {
    const std::string_view what = error.what();
    if (what == "Error in SSL handshake") {
      const std::string reason = setup.tls == nullptr ? std::string() : setup.tls->LastFailure();
      return absl::StrCat(setup.authority, ": TLS handshake failed", reason.empty() ? "" : ": ", reason);
    }
    const int code = error.error_code().value();
    std::string reason;
    if (code == EHOSTUNREACH) {
      reason = "connection refused, broken, or no route to host";  // it makes one of the three
    } else if (code < 200) {  // codes of OpenSSL come under the wrong category, and mean nothing
      reason = error.error_code().message();
    }
    return absl::StrCat(setup.authority, ": ", error.what(), reason.empty() ? "" : ": ", reason);
  }

  // --- on the executor ---

  // Returns once the pool has come back from what it does now.
  static void AwaitPool() {
    const auto idle = std::make_shared<std::promise<void>>();
    Pool().post([idle] { idle->set_value(); });
    idle->get_future().wait_for(kEndMax);
  }

  void TimedOut(const Call& call) {
    HttpResponse out;
    const Phase before = Abandon(call);
    out.sent = !call->has_body || before == Phase::kSending;
    out.error = "the call took longer than its time-out";
    Finish(call, std::move(out));
  }

  // RETURNS: the phase before. No body leaves after this.
  static Phase Abandon(const Call& call) {
    const Phase before = call->phase.exchange(Phase::kAbandoned);
    Pool().post([call] { call->cancel.cancel(); });
    return before;
  }

  void Finish(const Call& call, HttpResponse response) {
    if (under_way_.erase(call) == 0) return;  // its time was over
    env_.executor->Cancel(call->timer);
    Transport::Done done = std::move(call->done);
    done(std::move(response));
  }

  const Environment env_;
  const std::shared_ptr<WayBack> back_;
  std::shared_ptr<Setup> setup_;
  std::future<void> setup_gone_;
  absl::flat_hash_set<Call> under_way_;
};

CpprestCalls::CpprestCalls(Environment env, const ServerAddress& address, std::shared_ptr<const TlsSettings> tls,
                           std::string user_agent, int64_t response_bytes_max)
    : impl_(std::make_unique<Impl>(env, address, std::move(tls), std::move(user_agent), response_bytes_max)) {}
CpprestCalls::~CpprestCalls() = default;
void CpprestCalls::Start(std::shared_ptr<const HttpRequest> request, const std::string& token, Limits limits,
                         Transport::Done done) {
  impl_->Start(std::move(request), token, limits, std::move(done));
}

}  // namespace muster::k8s
