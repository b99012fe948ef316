#include "muster/sim/server.h"

#include <absl/strings/numbers.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "server_stream.h"
#include "text.h"

namespace muster::sim {
namespace {

// How long a broken connection takes to be noticed.
constexpr Duration kReset = std::chrono::milliseconds(5);
constexpr const char* kTimeoutMessage =
    "Timeout: request did not complete within requested timeout - context deadline exceeded";

Answer FaultAnswer(const ApiRequest& request, int status) {
  switch (status) {
    case 409:
      return ModifiedConflict(*request.target.kind, request.target.name);
    case 410:
      return Expired("The resourceVersion for the provided watch is too old.");
    case 429:
      return Failure(429, "TooManyRequests", "Too many requests, please try again later.");
    case 503:
      return Failure(503, "ServiceUnavailable", "the server is currently unable to handle the request");
    case 504:
      return Failure(504, "Timeout", kTimeoutMessage, {{"retryAfterSeconds", 0}});
    default:
      return Failure(status, "InternalError", "Internal error occurred: injected");
  }
}

}  // namespace

// A client's side: requests go out here, and nothing comes back once it is destroyed.
class SimTransport final : public k8s::Transport {
 public:
  SimTransport(SimServer* server, std::shared_ptr<ClientEnd> client) : server_(server), client_(std::move(client)) {}
  ~SimTransport() override {
    client_->alive = false;
    for (const auto& stream : server_->streams_) {
      if (&stream->client() == client_.get()) stream->Abandon();
    }
  }

  void Call(k8s::HttpRequest http, Done done) override {
    auto call = std::make_shared<SimServer::Call>();
    call->client = client_;
    call->http = std::move(http);
    call->done = std::move(done);
    server_->Start(std::move(call));
  }

  std::unique_ptr<k8s::WatchStream> Watch(k8s::HttpRequest http, k8s::WatchHandler* handler) override {
    class Handle final : public k8s::WatchStream {
     public:
      explicit Handle(std::shared_ptr<SimServer::Stream> stream) : stream_(std::move(stream)) {}
      ~Handle() override { stream_->Abandon(); }

     private:
      std::shared_ptr<SimServer::Stream> stream_;
    };
    auto parsed = server_->Parse(client_->user, http);
    const auto* request = std::get_if<ApiRequest>(&parsed);
    auto stream = std::make_shared<SimServer::Stream>(server_, client_, handler,
                                                      request == nullptr ? ApiRequest() : *request, http.timeout);
    if (request == nullptr) {
      const auto& reply = std::get<SimServer::Reply>(parsed);
      stream->Refuse(reply.status, reply.body, reply.retry_after);
    } else {
      server_->OpenWatch(stream);
    }
    return std::make_unique<Handle>(std::move(stream));
  }

 private:
  SimServer* server_;
  std::shared_ptr<ClientEnd> client_;
};

SimServer::SimServer(SimExecutor* executor, SimStore* store, ServerOptions options)
    : executor_(executor),
      store_(store),
      options_(options),
      random_(executor->NewRandom("server")),
      source_(executor->NewSource("server")) {
  store_->Subscribe([this](const Change& change) { OnChange(change); });
}

SimServer::~SimServer() = default;

std::unique_ptr<k8s::Transport> SimServer::Connect(std::string user, Executor* client, InputLog* log) {
  auto end = std::make_shared<ClientEnd>();
  end->user = std::move(user);
  end->executor = client;
  end->log = log;
  end->clock = executor_;
  return std::make_unique<SimTransport>(this, std::move(end));
}

Duration SimServer::Draw(const Latency& latency) {
  const auto span = static_cast<uint64_t>((latency.max - latency.min).count());
  return latency.min + Duration(static_cast<int64_t>(random_.Below(span + 1)));
}

int64_t SimServer::open_watches() const {
  return std::ranges::count_if(streams_, [](const auto& stream) { return stream->serving(); });
}

void SimServer::Start(std::shared_ptr<Call> call) {
  auto parsed = Parse(call->client->user, call->http);
  if (auto* request = std::get_if<ApiRequest>(&parsed)) {
    call->request = std::move(*request);
    if (auto strike = faults_.OnRequest(*call->request)) {
      call->fault = std::move(strike->fault);
      call->rule = strike->rule;
    }
    if (observer_ && !call->request->verb.empty()) observer_(*call->request, Phase::kSent);
  } else {
    call->misunderstood = std::get<Reply>(parsed);
  }
  const Duration there = Draw(options_.network);
  const MonoTime now = executor_->Mono();
  call->timeout = source_->PostAt(now + call->http.timeout, [this, call] {
    Finish(call, {0, /*sent=*/true, "", std::nullopt, "timed out"});
  });
  const bool refused = down_ || (call->fault.has_value() && call->fault->kind == Fault::Kind::kRefuse);
  source_->PostAt(now + there, [this, call, refused] {
    if (refused) {
      Finish(call, {0, /*sent=*/false, "", std::nullopt, "connection refused"});
    } else {
      Arrive(call);
    }
  });
}

void SimServer::Arrive(std::shared_ptr<Call> call) {
  const Fault fault = call->fault.value_or(Fault{Fault::Kind::kAnswer, 0, {}, {}, 0});
  if (fault.kind == Fault::Kind::kLoseRequest) {
    source_->PostAt(executor_->Mono() + kReset, [this, call] {
      Finish(call, {0, /*sent=*/true, "", std::nullopt, "connection reset by peer"});
    });
    return;
  }
  const bool write = call->request.has_value() && call->request->IsWrite();
  Duration work = Draw(write ? options_.write : options_.read);
  if (fault.kind == Fault::Kind::kDelayRequest) work += fault.delay;
  if (write) {
    const auto limit = ParseGoDuration(call->request->Query("timeout"));
    if (limit.ok() && *limit > Duration(0) && work > *limit) {
      source_->PostAt(executor_->Mono() + *limit, [this, call] {
        AnswerCall(call, {504, Dump(FaultAnswer(*call->request, 504).body), std::nullopt});
      });
      return;
    }
  }
  if (fault.kind == Fault::Kind::kHold && Hold(call->rule, [this, call] { Reach(call); })) return;
  source_->PostAt(executor_->Mono() + work, [this, call] { Reach(call); });
}

bool SimServer::Hold(FaultPlan::RuleId rule, std::function<void()> go_on) {
  if (released_.contains(rule)) return false;
  held_.emplace(rule, std::move(go_on));
  return true;
}

void SimServer::Release(FaultPlan::RuleId rule) {
  released_.insert(rule);
  const auto [first, last] = held_.equal_range(rule);
  for (auto it = first; it != last; ++it) source_->Post(std::move(it->second));
  held_.erase(first, last);
}

void SimServer::Reach(std::shared_ptr<Call> call) {
  if (!call->request.has_value()) return AnswerCall(call, call->misunderstood);
  const ApiRequest& request = *call->request;
  const Fault fault = call->fault.value_or(Fault{Fault::Kind::kDelayAnswer, 0, {}, {}, 0});
  if (down_) {
    return Finish(call, {0, /*sent=*/true, "", std::nullopt, "connection reset by peer"});
  }
  Reply injected{fault.status, "", fault.retry_after};
  if (fault.kind == Fault::Kind::kAnswer || fault.kind == Fault::Kind::kApplyAndAnswer) {
    injected.body = Dump(FaultAnswer(request, fault.status).body);
  }
  if (fault.kind == Fault::Kind::kAnswer) return AnswerCall(call, injected);
  Reply reply = Serve(request, call->http);
  if (observer_ && !request.verb.empty()) observer_(request, Phase::kApplied);
  switch (fault.kind) {
    case Fault::Kind::kHang:
      return;
    case Fault::Kind::kHoldAnswer:
      if (!Hold(call->rule, [this, call, reply] { AnswerCall(call, reply); })) AnswerCall(call, reply);
      return;
    case Fault::Kind::kLoseAnswer:
      source_->PostAt(executor_->Mono() + kReset, [this, call] {
        Finish(call, {0, /*sent=*/true, "", std::nullopt, "connection reset by peer"});
      });
      return;
    case Fault::Kind::kApplyAndAnswer:
      return AnswerCall(call, injected);
    case Fault::Kind::kDelayAnswer:
      source_->PostAt(executor_->Mono() + fault.delay, [this, call, reply] { AnswerCall(call, reply); });
      return;
    case Fault::Kind::kRefuse:
    case Fault::Kind::kDelayRequest:
    case Fault::Kind::kAnswer:
    case Fault::Kind::kLoseRequest:
    case Fault::Kind::kHold:
    case Fault::Kind::kCut:
    case Fault::Kind::kGoneInStream:
    case Fault::Kind::kGarbage:
    case Fault::Kind::kStall:
      return AnswerCall(call, reply);
  }
}

void SimServer::AnswerCall(std::shared_ptr<Call> call, Reply reply) {
  source_->PostAt(executor_->Mono() + Draw(options_.network), [this, call, reply = std::move(reply)] {
    if (observer_ && call->request.has_value() && !call->request->verb.empty()) {
      observer_(*call->request, Phase::kAnswered);
    }
    Finish(call, {reply.status, /*sent=*/true, reply.body, reply.retry_after, ""});
  });
}

void SimServer::Finish(const std::shared_ptr<Call>& call, k8s::HttpResponse response) {
  if (std::exchange(call->finished, true)) return;
  source_->Cancel(call->timeout);
  if (!call->client->alive) return;  // and its executor may be gone with it
  call->client->executor->Post([call, response = std::move(response)]() mutable {
    if (!call->client->alive) return;
    call->client->Log("answer", Concat(call->http.path, " ", response.status, " ", response.error, response.body));
    call->done(std::move(response));
  });
}

void SimServer::OpenWatch(std::shared_ptr<Stream> stream) {
  std::erase_if(streams_, [](const auto& old) { return old->abandoned(); });
  streams_.push_back(stream);
  std::optional<Fault> fault;
  if (auto strike = faults_.OnRequest(stream->request())) fault = std::move(strike->fault);
  if (down_ || (fault.has_value() && fault->kind == Fault::Kind::kRefuse)) {
    return stream->FailToConnect("connection refused");
  }
  stream->set_fault(fault);
  Duration there = Draw(options_.network);
  there += Draw(options_.read);  // one draw a statement: the order of operands is the compiler's choice
  if (fault.has_value()) there += fault->delay;
  source_->PostAt(executor_->Mono() + there, [this, stream] {
    if (stream->abandoned()) return;
    const ApiRequest& request = stream->request();
    if (down_) return stream->FailToConnect("connection reset by peer");
    if (const auto& struck = stream->fault(); struck.has_value() && struck->kind == Fault::Kind::kAnswer) {
      return stream->Refuse(struck->status, Dump(FaultAnswer(request, struck->status).body), struck->retry_after);
    }
    if (auto refused = CheckAccess(request)) return stream->Refuse(refused->code, Dump(refused->body), std::nullopt);
    auto selector =
        Selector::Parse(*request.target.kind, request.Query("labelSelector"), request.Query("fieldSelector"));
    if (!selector.ok()) {
      return stream->Refuse(400, Dump(BadRequest(std::string(selector.status().message())).body), std::nullopt);
    }
    int64_t version = 0;
    const std::string from = request.Query("resourceVersion");
    if (!from.empty() && !absl::SimpleAtoi(from, &version)) {
      const Answer bad = Failure(500, "", Concat("resourceVersion: Invalid value: \"", from, "\""));
      return stream->Refuse(bad.code, Dump(bad.body), std::nullopt);
    }
    if (options_.gone_as_http && version > 0 && store_->IsCompacted(version)) {
      return stream->Refuse(410, Dump(Expired("too old resource version: " + from).body), std::nullopt);
    }
    stream->Open(*std::move(selector));
  });
}

void SimServer::OnChange(const Change& change) {
  for (const auto& stream : streams_) stream->OnChange(change);
}

void SimServer::BreakWatches(const std::string& resource, Fault fault) {
  for (const auto& stream : streams_) {
    if (resource.empty() || stream->request().Resource() == resource) stream->Strike(fault);
  }
}

void SimServer::SetDown(bool down) {
  down_ = down;
  if (down) BreakWatches("", Fault{Fault::Kind::kCut, 0, {}, {}, 0});
}

}  // namespace muster::sim
