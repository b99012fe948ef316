// The verbs of the API, over a Transport: paths, patch types, error bodies, rate limit, bounded in-flight
// writes, and the leader's gate.
//
// Writes wait in lanes and leave in this order: starts and stops before Workloads before queue status
// before events (design, decision 6). Reads leave before writes. A token bucket (qps, burst) covers every
// call but the lease's and watches, as client-go's does. Events leave the last quarter of the bucket's burst
// and three quarters of the slots to others. While the API server answers starts late, the lanes behind them yield:
// fewer of their writes are on their way at once.
//
// A read that is answered 429, or 5xx with Retry-After, is tried again here, up to ten times. A write never
// is: its state may have moved on, so its caller decides.
//
// Threading: used from the executor only; callbacks run there, never inside the call.
#pragma once

#include <absl/functional/any_invocable.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "muster/core/clock.h"
#include "muster/k8s_client/object.h"
#include "muster/k8s_client/transport.h"

namespace muster::k8s {

enum class PatchType : uint8_t { kJsonPatch, kMergePatch };

// In the order in which they leave.
enum class Lane : uint8_t { kLease, kStart, kWorkload, kStatus, kEvent };
inline constexpr int kLaneCount = 5;

// What is known of a call afterwards.
enum class Outcome : uint8_t {
  kDone,     // 2xx
  kRefused,  // the server answered otherwise: not applied
  // A write may or may not have been applied: no answer came, or a 5xx (a server that timed out waiting for
  // its own storage answers so, and so does a proxy before it). `code` tells them apart.
  kUnknown,
  // It certainly was not applied: no connection, or not allowed to write any more. A read without an answer
  // ends so, too.
  kNotSent,
};

struct Result {
  Outcome outcome = Outcome::kNotSent;
  int code = 0;         // HTTP status; 0 without answer
  std::string body;     // the object, or the Status
  std::string reason;   // Status.reason ("Conflict", "AlreadyExists", "Invalid", ...)
  std::string message;  // Status.message, or the connection's error
  std::optional<Duration> retry_after;
  // Of a write that ended kUnknown: if it has not been applied by then, it never is.
  MonoTime landed_by;

  bool ok() const { return outcome == Outcome::kDone; }
};

struct ClientOptions {
  double qps = 300;  // zero or negative: no limit
  int burst = 500;
  int writes_in_flight_max = 32;
  Duration call_timeout = std::chrono::seconds(30);
  // Within this from the moment when the gate let it go, a guarded write has left, or it does not leave any more.
  Duration leave_within = std::chrono::seconds(2);
  // Of guarded writes, and sent to the server as ?timeout=: how long the server may take to apply one.
  Duration write_timeout = std::chrono::seconds(4);
  // From the gate to the last moment at which a write can be applied. A new leader waits for so long before it reads
  // what it decides on; the way on the wire has the gap between renewDeadline and leaseDuration.
  Duration lands_within() const { return AddClamped(leave_within, write_timeout); }
  // Of the lease's calls. client-go takes half the renew deadline.
  Duration lease_timeout = std::chrono::seconds(5);
};

class Client {
 public:
  using Done = absl::AnyInvocable<void(Result)>;
  // Asked at the moment when a guarded write would leave; false: it ends with kNotSent.
  using WriteGate = absl::AnyInvocable<bool() const>;
  // Told of every write that left and is over: resource ("jobs", "workloads/status"), verb ("create",
  // "patch", "update", "delete"), HTTP status (0: no answer), time since it left.
  using WriteObserver = absl::AnyInvocable<void(std::string_view, std::string_view, int, Duration)>;

  // REQUIRES: `transport` and what `env` points to outlive the client.
  Client(Environment env, Transport* transport, ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Until set, nothing is gated. Lane kLease is never gated.
  void SetWriteGate(WriteGate gate);
  void SetWriteObserver(WriteObserver observer);

  // By quorum read.
  void Get(const Resource& resource, const ObjectKey& key, Done done);
  // Lane kLease goes past the bucket.
  void Get(Lane lane, const Resource& resource, const ObjectKey& key, Done done);
  void Create(Lane lane, const Resource& resource, const std::string& ns, std::string body, Done done);
  // `subresource`: "" or "status".
  void Patch(Lane lane, const Resource& resource, const ObjectKey& key, std::string_view subresource, PatchType type,
             std::string body, Done done);
  void Update(Lane lane, const Resource& resource, const ObjectKey& key, std::string body, Done done);
  // `preconditions_uid` empty: none.
  void Delete(Lane lane, const Resource& resource, const ObjectKey& key, const std::string& preconditions_uid,
              std::string_view propagation, Done done);

  // Reads that no other verb covers (lists with query, /version, /readyz); not gated. `accept` empty:
  // application/json.
  void Read(std::string path, std::string query, Done done) {
    Read(std::move(path), std::move(query), {}, std::move(done));
  }
  void Read(std::string path, std::string query, std::string accept, Done done);
  Transport* transport() const;
  const ClientOptions& options() const;

  // Writes that wait for a token or a slot, by lane.
  int64_t queued(Lane lane) const;
  int64_t in_flight() const;
  // How many writes of the lanes behind kStart may be on their way now; at least one.
  int yielding_slots() const;

  static std::string Path(const Resource& resource, const std::string& ns);
  static std::string Path(const Resource& resource, const ObjectKey& key, std::string_view subresource = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Percent-encodes one path segment or query value.
std::string UrlEncode(std::string_view text);

}  // namespace muster::k8s
