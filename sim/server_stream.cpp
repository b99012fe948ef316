#include "server_stream.h"

#include <absl/strings/numbers.h>

#include <algorithm>
#include <utility>

#include "text.h"

namespace muster::sim {
namespace {

// A last bookmark goes out this long before the server ends a watch.
constexpr Duration kLastBookmark = std::chrono::seconds(2);

std::string EventLine(std::string_view type, const Json& object) {
  return Dump({{"type", std::string(type)}, {"object", object}});
}

std::string GoneLine(const std::string& message) { return EventLine("ERROR", Expired(message).body); }

}  // namespace

void SimServer::Stream::Open(Selector selector) {
  selector_ = std::move(selector);
  serving_ = true;
  Send({Event::kOpen, "", {}, 0, {}});
  const std::string from = request_.Query("resourceVersion");
  int64_t version = 0;
  const bool initial = from.empty() || from == "0" || request_.Query("sendInitialEvents") == "true";
  if (initial) {
    SendInitialEvents();
  } else if (absl::SimpleAtoi(from, &version) && !server_->store_->IsCompacted(version)) {
    for (const Change& change : server_->store_->ChangesSince(request_.target.kind, version)) OnChange(change);
  } else {
    SendLine(GoneLine(Concat("too old resource version: ", from, " (", server_->store_->compacted(), ")")));
    End(absl::OkStatus());
  }
  if (!serving_) return;

  int64_t seconds = 0;
  const Duration standard = server_->Draw({server_->options_.watch_timeout, server_->options_.watch_timeout * 2});
  const bool asked = absl::SimpleAtoi(request_.Query("timeoutSeconds"), &seconds) && seconds > 0;
  const Duration timeout = asked ? SecondsClamped(seconds) : standard;
  const MonoTime end = server_->executor_->Mono() + timeout;
  end_timer_ = server_->source_->PostAt(end, [self = shared_from_this()] { self->End(absl::OkStatus()); });
  if (request_.Query("allowWatchBookmarks") != "true" && request_.Query("allowWatchBookmarks") != "1") return;
  ScheduleBookmark();
  if (timeout <= kLastBookmark) return;
  last_bookmark_timer_ = server_->source_->PostAt(end + -kLastBookmark, [self = shared_from_this()] {
    if (self->serving_) self->SendBookmark(/*initial_events_end=*/false);
  });
}

void SimServer::Stream::SendInitialEvents() {
  for (const JsonPtr& object : server_->store_->PeekAll(request_.target.kind)) {
    const bool inside = request_.target.ns.empty() || Text(At(*object, "metadata", "namespace")) == request_.target.ns;
    if (serving_ && inside && selector_->Matches(*object)) SendObject("ADDED", *object);
  }
  const bool bookmarks = !request_.Query("allowWatchBookmarks").empty();
  if (serving_ && bookmarks) SendBookmark(/*initial_events_end=*/true);
}

void SimServer::Stream::ScheduleBookmark() {
  const Duration interval =
      server_->Draw({server_->options_.bookmark_interval * 3 / 4, server_->options_.bookmark_interval * 5 / 4});
  bookmark_timer_ = server_->source_->PostAt(server_->executor_->Mono() + interval, [self = shared_from_this()] {
    if (!self->serving_) return;
    self->SendBookmark(/*initial_events_end=*/false);
    self->ScheduleBookmark();
  });
}

void SimServer::Stream::SendBookmark(bool initial_events_end) {
  const Kind& kind = *request_.target.kind;
  Json object = {{"apiVersion", kind.ApiVersion(request_.target.version)},
                 {"kind", kind.kind},
                 {"metadata", {{"resourceVersion", std::to_string(server_->store_->version())}}}};
  if (initial_events_end) object["metadata"]["annotations"] = {{"k8s.io/initial-events-end", "true"}};
  if (request_.metadata_only) {
    object["apiVersion"] = "meta.k8s.io/v1";
    object["kind"] = "PartialObjectMetadata";
  } else if (kind.plural == "jobs") {  // a typed server sends the zero value of the type
    object["spec"]["template"] = {{"metadata", Json::object()}, {"spec", {{"containers", nullptr}}}};
    object["status"] = Json::object();
  }
  SendLine(EventLine("BOOKMARK", object));
}

void SimServer::Stream::OnChange(const Change& change) {
  if (!serving_ || change.kind != request_.target.kind) return;
  const std::string ns = Text(At(*change.object, "metadata", "namespace"));
  if (!request_.target.ns.empty() && ns != request_.target.ns) return;
  const bool was = change.previous != nullptr && selector_->Matches(*change.previous);
  const bool is = change.type != Change::Type::kDeleted && selector_->Matches(*change.object);
  if (was && is) {
    SendObject("MODIFIED", *change.object);
  } else if (is) {
    SendObject("ADDED", *change.object);
  } else if (was) {
    // As it was when it was last shown: a watch with a selector does not see what took the object away from it.
    Json last = *change.previous;
    last["metadata"]["resourceVersion"] = std::to_string(change.version);
    SendObject("DELETED", last);
  }
}

void SimServer::Stream::SendObject(std::string_view type, const Json& object) {
  const Target& target = request_.target;
  SendLine(EventLine(type, SimStore::Render(*target.kind, target.version, object, request_.metadata_only)));
}

void SimServer::Stream::SendLine(std::string line) {
  std::optional<Fault> strike;
  if (fault_.has_value() && lines_ >= fault_->lines) {
    strike = std::exchange(fault_, std::nullopt);
  } else {
    strike = server_->faults_.OnWatchLine(client_->user);
  }
  ++lines_;
  if (strike.has_value()) {
    Strike(*strike);
  } else {
    Send({Event::kLine, std::move(line), {}, 0, {}});
  }
}

void SimServer::Stream::Strike(const Fault& fault) {
  if (!serving_) return;
  switch (fault.kind) {
    case Fault::Kind::kGoneInStream:
      Send({Event::kLine, GoneLine("too old resource version"), {}, 0, {}});
      End(absl::OkStatus());
      return;
    case Fault::Kind::kGarbage:
      Send({Event::kLine, R"({"type":"MODIFIED","object":{"kind":)", {}, 0, {}});
      return;
    case Fault::Kind::kStall:
      serving_ = false;
      CancelTimers();
      return;
    case Fault::Kind::kCut:
    case Fault::Kind::kRefuse:
    case Fault::Kind::kDelayRequest:
    case Fault::Kind::kDelayAnswer:
    case Fault::Kind::kAnswer:
    case Fault::Kind::kApplyAndAnswer:
    case Fault::Kind::kLoseRequest:
    case Fault::Kind::kLoseAnswer:
    case Fault::Kind::kHang:
    case Fault::Kind::kHold:
    case Fault::Kind::kHoldAnswer:
      End(absl::UnavailableError("connection reset by peer"));
      return;
  }
}

void SimServer::Stream::Refuse(int status, std::string body, std::optional<Duration> retry_after) {
  Send({Event::kClose, std::move(body), absl::UnavailableError(Concat("HTTP ", status)), status, retry_after});
}

void SimServer::Stream::FailToConnect(std::string why) {
  Send({Event::kClose, "", absl::UnavailableError(why), 0, {}});
}

void SimServer::Stream::End(absl::Status status) {
  if (!serving_) return;
  serving_ = false;
  CancelTimers();
  Send({Event::kClose, "", std::move(status), 0, {}});
}

void SimServer::Stream::CancelTimers() {
  for (const Executor::TimerId id : {end_timer_, bookmark_timer_, last_bookmark_timer_}) server_->source_->Cancel(id);
}

void SimServer::Stream::Abandon() {
  listening_ = false;
  serving_ = false;
  CancelTimers();
  server_->source_->Cancel(silence_timer_);
}

// In order: nothing overtakes what was sent before.
void SimServer::Stream::Send(Delivery delivery) {
  const MonoTime now = server_->executor_->Mono();
  last_delivery_ = std::max(last_delivery_, now + server_->Draw(server_->options_.watch));
  server_->source_->PostAt(last_delivery_, [self = shared_from_this(), delivery = std::move(delivery)]() mutable {
    if (!self->listening_ || !self->client_->alive) return;  // and its executor may be gone with it
    self->ExpectLine();
    self->client_->executor->Post([self, delivery = std::move(delivery)] { self->Deliver(delivery); });
  });
}

void SimServer::Stream::ExpectLine() {
  server_->source_->Cancel(silence_timer_);
  silence_timer_ = server_->source_->PostAt(server_->executor_->Mono() + silence_max_, [self = shared_from_this()] {
    if (!self->listening_) return;
    self->serving_ = false;
    self->CancelTimers();
    self->client_->executor->Post([self] {
      self->Deliver({Event::kClose, "", absl::DeadlineExceededError("no line for too long"), 0, {}});
    });
  });
}

void SimServer::Stream::Deliver(const Delivery& delivery) {
  if (!listening_ || !client_->alive) return;
  switch (delivery.event) {
    case Event::kOpen:
      client_->Log("open", request_.Resource());
      handler_->OnOpen();
      return;
    case Event::kLine:
      client_->Log("line", delivery.text);
      handler_->OnLine(delivery.text);
      return;
    case Event::kClose:
      client_->Log("close", Concat(request_.Resource(), " ", delivery.http_status, " ", delivery.status.ToString()));
      listening_ = false;
      server_->source_->Cancel(silence_timer_);
      handler_->OnClose(delivery.status, delivery.http_status, delivery.text, delivery.retry_after);
      return;
  }
}

}  // namespace muster::sim
