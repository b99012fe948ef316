#include "exec_transport.h"

#include <absl/strings/str_cat.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "muster/core/check.h"
#include "muster/core/log_fields.h"

namespace muster::k8s {
class ExecTransport::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Environment env, ConnectionConfig config, MakeTransport make, ExecOptions options)
      : env_(env),
        config_(std::move(config)),
        make_(std::move(make)),
        options_(options),
        pause_(options.failed_pause) {
    MUSTER_CHECK(config_.exec.has_value());
  }

  // Before the last reference goes, which a task may hold.
  void Close();
  void Call(HttpRequest request, Done done);
  std::unique_ptr<WatchStream> Watch(HttpRequest request, WatchHandler* handler);

 private:
  class WatchState;
  class Stream;
  // A transport with one set of credentials.
  struct Backend {
    std::unique_ptr<Transport> transport;
    int uses = 0;
  };
  // Something that needs credentials, once.
  struct Waiter {
    std::function<void(const absl::Status&)> then;  // not OK: there are none, and why
    Executor::TimerId timer = 0;
  };
  using Waiters = std::list<std::shared_ptr<Waiter>>;
  struct PendingCall {
    HttpRequest request;
    Done done;
    MonoTime deadline;
    std::optional<MonoTime> leave_by;
    bool retried = false;
  };

  WallTime Now() const { return env_.clock->Now(); }
  bool Usable() const { return current_ != nullptr && !(expires_.IsSet() && Now() >= expires_); }
  // Calls `then` when there are credentials, or there will be none for now; with an error too when `deadline` comes
  // first. Never inside the call.
  void WithCredentials(MonoTime deadline, std::function<void(const absl::Status&)> then);
  void RunPlugin();
  void PluginEnded(absl::StatusOr<ExecCredential> result);
  absl::Status Take(const ExecCredential& credential);
  // The server refused what `backend` sends. RETURNS: whether trying again can help.
  bool Renew(const Backend* backend);
  void Proceed(const std::shared_ptr<PendingCall>& call);
  void Send(const std::shared_ptr<PendingCall>& call);
  static void Fail(const std::shared_ptr<PendingCall>& call, std::string error);
  void Use(Backend* backend) { ++backend->uses; }
  void Unuse(Backend* backend);

  const Environment env_;
  const ConnectionConfig config_;
  const MakeTransport make_;
  const ExecOptions options_;
  bool closed_ = false;
  std::vector<std::unique_ptr<Backend>> backends_;
  Backend* current_ = nullptr;  // among them
  ExecCredential credential_;   // of it
  WallTime expires_;
  WallTime renew_at_;
  MonoTime renewed_at_{};
  Waiters waiters_;
  std::vector<std::weak_ptr<WatchState>> watches_;

  std::thread runner_;
  std::atomic<bool> cancel_{false};
  bool running_ = false;
  absl::Status failure_;  // of the last run
  Duration pause_;
  MonoTime pause_until_{};
};

// A watch from its opening to its end, over one or two connections.
class ExecTransport::Impl::WatchState final : public WatchHandler, public std::enable_shared_from_this<WatchState> {
 public:
  WatchState(Impl* owner, HttpRequest request, WatchHandler* handler)
      : owner_(owner), request_(std::move(request)), handler_(handler) {}

  void Open() {
    const MonoTime deadline = owner_->env_.clock->Mono() + request_.timeout;
    owner_->WithCredentials(deadline, [weak = weak_from_this()](const absl::Status& status) {
      if (const auto self = weak.lock()) self->Connect(status);
    });
  }
  // Nothing is told from here on.
  void Detach() {
    handler_ = nullptr;
    Disconnect();
    owner_ = nullptr;
  }

  void OnOpen() override { handler_->OnOpen(); }
  void OnLine(std::string_view line) override { handler_->OnLine(line); }
  void OnClose(absl::Status status, int http_status, std::string body, std::optional<Duration> retry_after) override {
    if (http_status == 401 && !retried_ && owner_->Renew(backend_)) {
      retried_ = true;
      // Not here: the stream that calls must not be destroyed by its own callback.
      owner_->env_.executor->Post([weak = weak_from_this()] {
        const auto self = weak.lock();
        if (self == nullptr || self->owner_ == nullptr) return;
        self->Disconnect();
        self->Open();
      });
      return;
    }
    handler_->OnClose(std::move(status), http_status, std::move(body), retry_after);
  }

 private:
  void Connect(const absl::Status& status) {
    if (owner_ == nullptr) return;
    if (!status.ok()) return handler_->OnClose(status, 0, "", std::nullopt);
    backend_ = owner_->current_;
    owner_->Use(backend_);
    stream_ = backend_->transport->Watch(request_, this);
  }
  void Disconnect() {
    stream_.reset();
    if (backend_ != nullptr && owner_ != nullptr) owner_->Unuse(backend_);
    backend_ = nullptr;
  }

  Impl* owner_;  // null: it is over
  const HttpRequest request_;
  WatchHandler* handler_;
  Backend* backend_ = nullptr;
  std::unique_ptr<WatchStream> stream_;
  bool retried_ = false;
};

class ExecTransport::Impl::Stream final : public WatchStream {
 public:
  explicit Stream(std::shared_ptr<WatchState> state) : state_(std::move(state)) {}
  ~Stream() override { state_->Detach(); }

 private:
  const std::shared_ptr<WatchState> state_;
};

void ExecTransport::Impl::Close() {
  closed_ = true;
  cancel_ = true;
  if (runner_.joinable()) runner_.join();
  for (const auto& waiter : waiters_) env_.executor->Cancel(waiter->timer);
  waiters_.clear();
  for (const auto& weak : watches_) {
    if (const auto state = weak.lock()) state->Detach();
  }
  current_ = nullptr;
  backends_.clear();
}

// ---- credentials --------------------------------------------------------------------------------

void ExecTransport::Impl::WithCredentials(MonoTime deadline, std::function<void(const absl::Status&)> then) {
  const bool usable = Usable();
  const bool paused = env_.clock->Mono() < pause_until_;
  const bool due = !usable || (renew_at_.IsSet() && Now() >= renew_at_);
  if (due && !running_ && !paused) RunPlugin();
  if (usable || !running_) {
    env_.executor->Post([self = shared_from_this(), usable, then = std::move(then)] {
      if (self->closed_) return;
      then(usable && self->current_ != nullptr ? absl::OkStatus() : self->failure_);
    });
    return;
  }
  auto waiter = std::make_shared<Waiter>();
  waiter->then = std::move(then);
  waiter->timer = env_.executor->PostAt(deadline, [this, waiter] {
    waiters_.remove(waiter);
    waiter->then(absl::UnavailableError(absl::StrCat(config_.exec->name, ": gave no credentials in time")));
  });
  waiters_.push_back(std::move(waiter));
}

void ExecTransport::Impl::RunPlugin() {
  running_ = true;
  if (runner_.joinable()) runner_.join();  // it has nothing left to do
  runner_ = std::thread([this, weak = weak_from_this()] {
    auto result = RunExecPlugin(config_, options_.plugin_max, cancel_);
    if (cancel_) return;
    env_.executor->Post([weak, result = std::move(result)]() mutable {
      const auto self = weak.lock();
      if (self != nullptr && !self->closed_) self->PluginEnded(std::move(result));
    });
  });
}

void ExecTransport::Impl::PluginEnded(absl::StatusOr<ExecCredential> result) {
  running_ = false;
  const absl::Status status = result.ok() ? Take(*result) : result.status();
  if (status.ok()) {
    pause_ = options_.failed_pause;
    pause_until_ = {};
  } else {
    spdlog::warn("no credentials from the plugin{}", LogFields({{"error", std::string(status.message())}}));
    failure_ = status;
    pause_until_ = env_.clock->Mono() + pause_;
    pause_ = std::min(pause_ * 2, options_.failed_pause_max);
  }
  const absl::Status outcome = Usable() ? absl::OkStatus() : failure_;
  const Waiters waiters = std::exchange(waiters_, {});
  for (const auto& waiter : waiters) {
    env_.executor->Cancel(waiter->timer);
    waiter->then(outcome);
    if (closed_) return;
  }
}

absl::Status ExecTransport::Impl::Take(const ExecCredential& credential) {
  const WallTime now = Now();
  if (credential.expires.IsSet() && credential.expires <= now) {
    return absl::UnavailableError(absl::StrCat(config_.exec->name, ": its credentials have ended already, at ",
                                               FormatTime(credential.expires)));
  }
  ExecCredential known = credential_;
  known.expires = credential.expires;
  if (current_ == nullptr || known != credential) {
    ConnectionConfig config = config_;
    config.exec.reset();
    config.token = credential.token;
    config.client_cert_pem = credential.client_cert_pem;
    config.client_key_pem = credential.client_key_pem;
    auto transport = make_(config);
    if (!transport.ok()) return transport.status();
    auto* former = current_;
    backends_.push_back(std::make_unique<Backend>(Backend{*std::move(transport), 0}));
    current_ = backends_.back().get();
    if (former != nullptr && former->uses == 0) {
      std::erase_if(backends_, [former](const auto& b) { return b.get() == former; });
    }
  }
  credential_ = credential;
  expires_ = credential.expires;
  renewed_at_ = env_.clock->Mono();
  renew_at_ = {};
  if (expires_.IsSet()) renew_at_ = expires_ - std::min((expires_ - now) / 2, options_.renew_before_max);
  return absl::OkStatus();
}

bool ExecTransport::Impl::Renew(const Backend* backend) {
  if (backend != current_) return true;  // there are others by now
  if (running_) {
    expires_ = Now();  // there will be
    return true;
  }
  if (env_.clock->Mono() - renewed_at_ < options_.refused_pause || env_.clock->Mono() < pause_until_) return false;
  expires_ = Now();  // whatever it said
  return true;
}

void ExecTransport::Impl::Unuse(Backend* backend) {
  if (--backend->uses > 0 || backend == current_) return;
  // Not here: it may be the one that calls.
  env_.executor->Post([weak = weak_from_this(), backend] {
    const auto self = weak.lock();
    if (self == nullptr || self->closed_) return;
    std::erase_if(self->backends_, [&](const auto& b) { return b.get() == backend && b->uses == 0; });
  });
}

// ---- calls --------------------------------------------------------------------------------------

void ExecTransport::Impl::Call(HttpRequest request, Done done) {
  const MonoTime now = env_.clock->Mono();
  auto call = std::make_shared<PendingCall>();
  call->deadline = now + request.timeout;
  if (request.leave_within > Duration(0)) call->leave_by = now + request.leave_within;
  call->request = std::move(request);
  call->done = std::move(done);
  // Without a detour where all is well.
  const bool due = renew_at_.IsSet() && Now() >= renew_at_;
  Usable() && !due ? Send(call) : Proceed(call);
}

void ExecTransport::Impl::Proceed(const std::shared_ptr<PendingCall>& call) {
  WithCredentials(std::min(call->deadline, call->leave_by.value_or(call->deadline)),
                  [this, call](const absl::Status& status) {
                    status.ok() ? Send(call) : Fail(call, std::string(status.message()));
                  });
}

void ExecTransport::Impl::Fail(const std::shared_ptr<PendingCall>& call, std::string error) {
  HttpResponse response;
  response.error = std::move(error);
  call->done(std::move(response));
}

// It was not sent before, or not let in: nothing of it has been applied.
void ExecTransport::Impl::Send(const std::shared_ptr<PendingCall>& call) {
  const MonoTime now = env_.clock->Mono();
  HttpRequest request = call->request;
  request.timeout = std::max(call->deadline - now, Duration(1));
  if (call->leave_by.has_value()) request.leave_within = std::max(*call->leave_by - now, Duration(1));
  Backend* backend = current_;
  Use(backend);
  backend->transport->Call(std::move(request), [this, call, backend](HttpResponse response) {
    const bool again = response.status == 401 && !call->retried && Renew(backend);
    Unuse(backend);
    if (!again) return call->done(std::move(response));
    call->retried = true;
    Proceed(call);
  });
}

std::unique_ptr<WatchStream> ExecTransport::Impl::Watch(HttpRequest request, WatchHandler* handler) {
  auto state = std::make_shared<WatchState>(this, std::move(request), handler);
  std::erase_if(watches_, [](const auto& weak) { return weak.expired(); });
  watches_.push_back(state);
  state->Open();
  return std::make_unique<Stream>(std::move(state));
}

// ---- the public face ----------------------------------------------------------------------------

ExecTransport::ExecTransport(Environment env, ConnectionConfig config, MakeTransport make, ExecOptions options)
    : impl_(std::make_shared<Impl>(env, std::move(config), std::move(make), options)) {}
ExecTransport::~ExecTransport() { impl_->Close(); }
void ExecTransport::Call(HttpRequest request, Done done) { impl_->Call(std::move(request), std::move(done)); }
std::unique_ptr<WatchStream> ExecTransport::Watch(HttpRequest request, WatchHandler* handler) {
  return impl_->Watch(std::move(request), handler);
}

}  // namespace muster::k8s
