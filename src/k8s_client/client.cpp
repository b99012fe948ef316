#include "muster/k8s_client/client.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <deque>

#include "muster/core/backoff.h"
#include "muster/core/check.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"
#include "token_bucket.h"
#include "yielding_window.h"

namespace muster::k8s {
namespace {

constexpr int kReadTriesMax = 10;
constexpr int kReadsInFlightMax = 32;
constexpr Duration kReadBackoffMin = std::chrono::milliseconds(500);
constexpr Duration kReadBackoffMax = std::chrono::seconds(30);
// For the way on the wire: how much longer than a write can take to be applied we wait for its answer.
constexpr Duration kAnswerSlack = std::chrono::seconds(2);

size_t Index(Lane lane) { return static_cast<size_t>(lane); }

std::string_view ContentType(PatchType type) {
  switch (type) {
    case PatchType::kJsonPatch:
      return "application/json-patch+json";
    case PatchType::kMergePatch:
      return "application/merge-patch+json";
  }
  MUSTER_CHECK(false);
}

// Reason, message and retryAfterSeconds of a Status; a body that is none is taken as the message.
void ReadStatus(Result* result) {
  JsonDocument document(result->body);
  const JsonValue status = document.root();
  const JsonValue after = status["details"]["retryAfterSeconds"];
  if (status["kind"].String() != "Status") {
    constexpr size_t kMax = 300;
    result->message = result->body.substr(0, kMax);
    return;
  }
  result->reason = status["reason"].String();
  result->message = status["message"].String();
  const int64_t seconds = after.Int();
  if (!result->retry_after && seconds > 0) result->retry_after = std::chrono::seconds(std::min<int64_t>(seconds, 3600));
}

Result ToResult(HttpResponse response, bool write) {
  Result result;
  result.code = response.status;
  result.body = std::move(response.body);
  result.retry_after = response.retry_after;
  if (response.status == 0) {
    result.outcome = write && response.sent ? Outcome::kUnknown : Outcome::kNotSent;
    result.message = std::move(response.error);
    return result;
  }
  if (response.status >= 200 && response.status < 300) {
    result.outcome = Outcome::kDone;
    return result;
  }
  result.outcome = write && response.status >= 500 ? Outcome::kUnknown : Outcome::kRefused;
  ReadStatus(&result);
  return result;
}

}  // namespace

class Client::Impl {
 public:
  Impl(Environment env, Transport* transport, ClientOptions options)
      : env_(env),
        transport_(transport),
        options_(options),
        bucket_(options.qps, options.burst, env.clock->Mono()),
        window_(options.writes_in_flight_max) {
    MUSTER_CHECK(options.writes_in_flight_max > 0);
  }
  ~Impl() { env_.executor->Cancel(timer_); }

  void Write(Lane lane, std::string resource, std::string_view verb, HttpRequest request, Done done) {
    const Duration limit = lane == Lane::kLease ? options_.lease_timeout : options_.write_timeout;
    const int64_t millis = std::max<int64_t>(1, limit / std::chrono::milliseconds(1));
    request.query = absl::StrCat("fieldManager=muster&timeout=", millis, "ms");
    request.timeout = limit;
    if (lane != Lane::kLease) {
      request.leave_within = options_.leave_within;
      request.timeout = AddClamped(options_.lands_within(), kAnswerSlack);
    }
    lanes_[Index(lane)].push_back({std::move(request), std::move(done), std::move(resource), std::string(verb)});
    Pump();
  }

  void Read(Lane lane, HttpRequest request, Done done) {
    if (lane == Lane::kLease) {
      request.timeout = options_.lease_timeout;
      lanes_[Index(lane)].push_back({std::move(request), std::move(done), {}, {}});
    } else {
      request.timeout = options_.call_timeout;
      reads_.push_back({std::move(request), std::move(done), {}, {}});
    }
    Pump();
  }

  WriteGate gate_;
  WriteObserver observer_;

  Transport* transport() const { return transport_; }
  const ClientOptions& options() const { return options_; }
  int64_t queued(Lane lane) const { return static_cast<int64_t>(lanes_[Index(lane)].size()); }
  int64_t in_flight() const { return writes_in_flight_; }
  int yielding_slots() const { return window_.Slots(env_.clock->Mono()); }

 private:
  struct Call {
    HttpRequest request;
    Done done;
    std::string resource;
    std::string verb;  // empty: a read
    int tries = 0;
    Backoff backoff{kReadBackoffMin, kReadBackoffMax};  // of a read
  };

  // Sends what may leave now, and arranges to come back for the rest.
  void Pump() {
    auto& lease = lanes_[Index(Lane::kLease)];
    while (!lease.empty()) SendLease(Pop(&lease));
    while (!reads_.empty() && reads_in_flight_ < kReadsInFlightMax) {
      if (!TakeToken(0)) return;
      SendRead(Pop(&reads_));
    }
    for (const Lane lane : {Lane::kStart, Lane::kWorkload, Lane::kStatus, Lane::kEvent}) {
      if (!PumpLane(lane)) return;
    }
  }

  // RETURNS: false where nothing more can leave for want of tokens.
  bool PumpLane(Lane lane) {
    auto& queue = lanes_[Index(lane)];
    const bool event = lane == Lane::kEvent;
    while (!queue.empty()) {
      if (gate_ && !gate_()) {
        Refuse(Pop(&queue));
        continue;
      }
      if (writes_in_flight_ >= options_.writes_in_flight_max) return true;
      if (lane != Lane::kStart && yielding_in_flight_ >= yielding_slots()) return true;
      if (event && events_in_flight_ >= std::max(1, options_.writes_in_flight_max / 4)) return true;
      if (!TakeToken(event ? options_.burst / 4 : 0)) return false;
      SendWrite(Pop(&queue), lane);
    }
    return true;
  }

  bool TakeToken(int keep) {
    const auto wait = bucket_.Take(env_.clock->Mono(), keep);
    if (wait <= Duration(0)) return true;
    // An earlier timer serves as well: it looks again.
    if (timer_ == 0) {
      timer_ = env_.executor->PostAt(env_.clock->Mono() + wait, [this] {
        timer_ = 0;
        Pump();
      });
    }
    return false;
  }

  static Call Pop(std::deque<Call>* queue) {
    Call call = std::move(queue->front());
    queue->pop_front();
    return call;
  }

  void Refuse(Call call) {
    env_.executor->Post([done = std::move(call.done), alive = Alive()]() mutable {
      if (alive.expired()) return;
      Result result;
      result.message = "not sent: this process does not lead, or its lease is overdue";
      done(std::move(result));
    });
  }

  void Observe(const Call& call, const HttpResponse& response, MonoTime left) {
    if (observer_) observer_(call.resource, call.verb, response.status, env_.clock->Mono() - left);
  }

  void SendLease(Call call) {
    HttpRequest request = std::move(call.request);
    const MonoTime left = env_.clock->Mono();
    transport_->Call(std::move(request), Guard([this, left, call = std::move(call)](HttpResponse response) mutable {
                       const bool write = !call.verb.empty();
                       if (write) Observe(call, response, left);
                       call.done(ToResult(std::move(response), write));
                     }));
  }

  void CountInFlight(Lane lane, int by) {
    writes_in_flight_ += by;
    yielding_in_flight_ += lane == Lane::kStart ? 0 : by;
    events_in_flight_ += lane == Lane::kEvent ? by : 0;
  }

  void SendWrite(Call call, Lane lane) {
    HttpRequest request = std::move(call.request);
    const MonoTime left = env_.clock->Mono();
    CountInFlight(lane, 1);
    transport_->Call(std::move(request),
                     Guard([this, left, lane, call = std::move(call)](HttpResponse response) mutable {
                       CountInFlight(lane, -1);
                       Observe(call, response, left);
                       if (lane == Lane::kStart && response.status != 0) window_.Foreground(left, env_.clock->Mono());
                       Pump();
                       Result result = ToResult(std::move(response), true);
                       result.landed_by = left + AddClamped(options_.lands_within(), kAnswerSlack);
                       call.done(std::move(result));
                     }));
  }

  void SendRead(Call call) {
    ++reads_in_flight_;
    ++call.tries;
    HttpRequest request = call.request;
    transport_->Call(std::move(request), Guard([this, call = std::move(call)](HttpResponse response) mutable {
                       --reads_in_flight_;
                       Pump();
                       Result result = ToResult(std::move(response), false);
                       const bool busy = result.code == 429 || (result.code >= 500 && result.retry_after);
                       if (!busy || call.tries >= kReadTriesMax) return call.done(std::move(result));
                       const Duration wait = std::max(call.backoff.Next(), result.retry_after.value_or(Duration(0)));
                       const auto again = std::make_shared<Call>(std::move(call));
                       env_.executor->PostAt(env_.clock->Mono() + env_.random->Jitter(wait, 20),
                                             [this, again, alive = Alive()] {
                                               if (alive.expired()) return;
                                               reads_.push_back(std::move(*again));
                                               Pump();
                                             });
                     }));
  }

  // Answers that come after the client is gone are dropped.
  std::weak_ptr<int> Alive() const { return alive_; }
  template <typename F>
  Transport::Done Guard(F f) {
    return [f = std::move(f), alive = Alive()](HttpResponse response) mutable {
      if (!alive.expired()) f(std::move(response));
    };
  }

  Environment env_;
  Transport* transport_;
  ClientOptions options_;
  TokenBucket bucket_;
  std::array<std::deque<Call>, kLaneCount> lanes_;
  std::deque<Call> reads_;
  YieldingWindow window_;
  int writes_in_flight_ = 0;
  int yielding_in_flight_ = 0;  // all but starts and stops
  int events_in_flight_ = 0;
  int reads_in_flight_ = 0;
  Executor::TimerId timer_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

Client::Client(Environment env, Transport* transport, ClientOptions options)
    : impl_(std::make_unique<Impl>(env, transport, options)) {}
Client::~Client() = default;

void Client::SetWriteGate(WriteGate gate) { impl_->gate_ = std::move(gate); }
void Client::SetWriteObserver(WriteObserver observer) { impl_->observer_ = std::move(observer); }

void Client::Get(const Resource& resource, const ObjectKey& key, Done done) {
  Get(Lane::kStart, resource, key, std::move(done));
}

void Client::Get(Lane lane, const Resource& resource, const ObjectKey& key, Done done) {
  HttpRequest request;
  request.path = Path(resource, key);
  impl_->Read(lane, std::move(request), std::move(done));
}

void Client::Create(Lane lane, const Resource& resource, const std::string& ns, std::string body, Done done) {
  HttpRequest request;
  request.method = Method::kPost;
  request.path = Path(resource, ns);
  request.content_type = "application/json";
  request.body = std::move(body);
  impl_->Write(lane, std::string(resource.plural), "create", std::move(request), std::move(done));
}

void Client::Patch(Lane lane, const Resource& resource, const ObjectKey& key, std::string_view subresource,
                   PatchType type, std::string body, Done done) {
  HttpRequest request;
  request.method = Method::kPatch;
  request.path = Path(resource, key, subresource);
  request.content_type = std::string(ContentType(type));
  request.body = std::move(body);
  std::string name(resource.plural);
  if (!subresource.empty()) absl::StrAppend(&name, "/", std::string(subresource));
  impl_->Write(lane, std::move(name), "patch", std::move(request), std::move(done));
}

void Client::Update(Lane lane, const Resource& resource, const ObjectKey& key, std::string body, Done done) {
  HttpRequest request;
  request.method = Method::kPut;
  request.path = Path(resource, key);
  request.content_type = "application/json";
  request.body = std::move(body);
  impl_->Write(lane, std::string(resource.plural), "update", std::move(request), std::move(done));
}

void Client::Delete(Lane lane, const Resource& resource, const ObjectKey& key, const std::string& preconditions_uid,
                    std::string_view propagation, Done done) {
  JsonWriter body;
  body.StartObject().Field("apiVersion", "v1").Field("kind", "DeleteOptions");
  if (!preconditions_uid.empty()) {
    body.Key("preconditions").StartObject().Field("uid", preconditions_uid).EndObject();
  }
  if (!propagation.empty()) body.Field("propagationPolicy", propagation);
  body.EndObject();
  HttpRequest request;
  request.method = Method::kDelete;
  request.path = Path(resource, key);
  request.content_type = "application/json";
  request.body = body.Take();
  impl_->Write(lane, std::string(resource.plural), "delete", std::move(request), std::move(done));
}

void Client::Read(std::string path, std::string query, std::string accept, Done done) {
  HttpRequest request;
  request.path = std::move(path);
  request.query = std::move(query);
  request.accept = std::move(accept);
  impl_->Read(Lane::kStart, std::move(request), std::move(done));
}

Transport* Client::transport() const { return impl_->transport(); }
const ClientOptions& Client::options() const { return impl_->options(); }
int64_t Client::queued(Lane lane) const { return impl_->queued(lane); }
int64_t Client::in_flight() const { return impl_->in_flight(); }
int Client::yielding_slots() const { return impl_->yielding_slots(); }

std::string Client::Path(const Resource& resource, const std::string& ns) {
  std::string path = resource.group.empty()
                         ? absl::StrCat("/api/", std::string(resource.version))
                         : absl::StrCat("/apis/", std::string(resource.group), "/", std::string(resource.version));
  if (resource.namespaced && !ns.empty()) absl::StrAppend(&path, "/namespaces/", UrlEncode(ns));
  absl::StrAppend(&path, "/", std::string(resource.plural));
  return path;
}

std::string Client::Path(const Resource& resource, const ObjectKey& key, std::string_view subresource) {
  MUSTER_CHECK(!key.name.empty());
  MUSTER_CHECK(resource.namespaced == !key.ns.empty());
  std::string path = absl::StrCat(Path(resource, key.ns), "/", UrlEncode(key.name));
  if (!subresource.empty()) absl::StrAppend(&path, "/", std::string(subresource));
  return path;
}

std::string UrlEncode(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    if (plain) {
      out.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out.push_back('%');
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 0xf]);
    }
  }
  return out;
}

}  // namespace muster::k8s
