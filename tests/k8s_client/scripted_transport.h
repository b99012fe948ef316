// A transport that records each request and answers when and as the test says: the protocol of HTTP without
// an object store behind it. (Whatever needs a store uses the simulator.)
//
// Threading: needs external synchronisation.
#pragma once

#include <absl/strings/str_cat.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/core/check.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/transport.h"

namespace muster::k8s {

class ScriptedTransport final : public Transport {
 public:
  struct PendingCall {
    HttpRequest request;
    Done done;
  };
  struct OpenWatch {
    HttpRequest request;
    WatchHandler* handler = nullptr;
    bool closed = false;  // by the client
  };

  explicit ScriptedTransport(Executor* executor) : executor_(executor) {}

  void Call(HttpRequest request, Done done) override {
    requests.push_back(request);
    pending_.push_back({std::move(request), std::move(done)});
  }

  std::unique_ptr<WatchStream> Watch(HttpRequest request, WatchHandler* handler) override {
    watches.push_back(std::make_shared<OpenWatch>(OpenWatch{std::move(request), handler}));
    return std::make_unique<Stream>(watches.back());
  }

  size_t pending() const { return pending_.size(); }
  const HttpRequest& next() const {
    MUSTER_CHECK(!pending_.empty());
    return pending_.front().request;
  }

  // Answers the oldest call.
  void Answer(HttpResponse response) {
    MUSTER_CHECK(!pending_.empty());
    PendingCall call = std::move(pending_.front());
    pending_.pop_front();
    executor_->Post(
        [done = std::move(call.done), response = std::move(response)]() mutable { done(std::move(response)); });
  }
  void Answer(int status, std::string body = "{}", std::optional<Duration> retry_after = {}) {
    HttpResponse response;
    response.status = status;
    response.sent = true;
    response.body = std::move(body);
    response.retry_after = retry_after;
    Answer(std::move(response));
  }
  void AnswerStatus(int status, const std::string& reason, const std::string& message) {
    Answer(status, StatusBody(status, reason, message));
  }
  void Fail(bool sent, const std::string& error) {
    HttpResponse response;
    response.sent = sent;
    response.error = error;
    Answer(std::move(response));
  }

  // The newest watch.
  OpenWatch& watch() {
    MUSTER_CHECK(!watches.empty());
    return *watches.back();
  }
  bool watching() const { return !watches.empty() && !watches.back()->closed; }
  void Open() {
    OnWatch([](WatchHandler* h) { h->OnOpen(); });
  }
  void Line(std::string line) {
    OnWatch([line = std::move(line)](WatchHandler* h) { h->OnLine(line); });
  }
  void Close(absl::Status status, int http_status = 0, std::string body = {},
             std::optional<Duration> retry_after = {}) {
    OnWatch([=](WatchHandler* h) { h->OnClose(status, http_status, body, retry_after); });
  }

  static std::string StatusBody(int code, const std::string& reason, const std::string& message,
                                const std::string& details = "{}") {
    return absl::StrCat(R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":")", message,
                        R"(","reason":")", reason, R"(","details":)", details, R"(,"code":)", code, "}");
  }

  std::vector<HttpRequest> requests;
  std::vector<std::shared_ptr<OpenWatch>> watches;

 private:
  class Stream final : public WatchStream {
   public:
    explicit Stream(std::shared_ptr<OpenWatch> watch) : watch_(std::move(watch)) {}
    ~Stream() override { watch_->closed = true; }

   private:
    std::shared_ptr<OpenWatch> watch_;
  };

  template <typename F>
  void OnWatch(F f) {
    executor_->Post([f = std::move(f), watch = watches.back()] {
      if (!watch->closed) f(watch->handler);
    });
  }

  Executor* executor_;
  std::deque<PendingCall> pending_;
};

}  // namespace muster::k8s
