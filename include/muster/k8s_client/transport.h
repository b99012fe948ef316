// HTTP to the API server, as little of it as Kubernetes needs. Everything above (informers, writes, lease)
// is written against this interface; the product implements it with cpprestsdk (calls) and Beast (watches),
// the simulator with a cluster in memory.
//
// Threading: Call and Watch may be called from the executor only; callbacks run on the executor, never
// inside the call that caused them.
#pragma once

#include <absl/functional/any_invocable.h>
#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/core/time.h"

namespace muster::k8s {

enum class Method : uint8_t { kGet, kPost, kPut, kPatch, kDelete };

struct HttpRequest {
  Method method = Method::kGet;
  std::string path;          // "/apis/batch/v1/namespaces/a/jobs/b", percent-encoded
  std::string query;         // "limit=500&continue=...", percent-encoded, without '?'
  std::string content_type;  // empty without body
  std::string accept;        // empty: application/json
  std::string body;
  // For the whole call. A call that ends by it has an unknown outcome.
  Duration timeout = std::chrono::seconds(30);
  // Of a request with a body: it is not sent any more, and the call ends as not sent, where it has not left within
  // this. Looked at when the body is about to be written, so that a process which was paused does not send it when it
  // wakes. Zero: no limit.
  Duration leave_within{0};
};

struct HttpResponse {
  // 0 = no answer. Then `sent` tells whether the server may have got the request: if so, a write may or may
  // not have been applied.
  int status = 0;
  bool sent = false;
  std::string body;
  std::optional<Duration> retry_after;
  std::string error;  // of the connection, where status is 0
};

class WatchHandler {
 public:
  virtual ~WatchHandler() = default;
  // The server accepted the watch (HTTP 200).
  virtual void OnOpen() = 0;
  // One line of the stream, without its newline. A line cut off by the end of the stream is not delivered.
  virtual void OnLine(std::string_view line) = 0;
  // The stream is over, and nothing follows. `http_status` is what the server answered if not 200, else 0;
  // `body` is that answer's body. OK = the server ended it in order.
  virtual void OnClose(absl::Status status, int http_status, std::string body, std::optional<Duration> retry_after) = 0;
};

// Destroying it closes the stream; no callback follows.
class WatchStream {
 public:
  virtual ~WatchStream() = default;
};

class Transport {
 public:
  using Done = absl::AnyInvocable<void(HttpResponse)>;
  virtual ~Transport() = default;
  virtual void Call(HttpRequest request, Done done) = 0;
  // The request's timeout is the longest silence tolerated between two lines. `handler` outlives the stream.
  [[nodiscard]] virtual std::unique_ptr<WatchStream> Watch(HttpRequest request, WatchHandler* handler) = 0;
};

}  // namespace muster::k8s
