// A Transport whose credentials come from an exec plugin. The plugin runs on a thread of its own: before the first
// call, shortly before its credentials end, and when the server refuses them. Calls that need new ones wait, each no
// longer than its own time-out; where the plugin fails they fail with what it said, and it is not run again for a
// while.
//
// Each set of credentials has a transport of its own, since connections are made with them. A former one lives on
// until its last call or watch is over.
//
// Threading: used from the executor only; callbacks run there, never inside the call.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>

#include "exec_plugin.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/connection.h"
#include "muster/k8s_client/transport.h"

namespace muster::k8s {

struct ExecOptions {
  Duration plugin_max = std::chrono::minutes(1);
  // Credentials are renewed in the second half of their time, so long before their end at most.
  Duration renew_before_max = std::chrono::minutes(1);
  // A server that refuses what the plugin has just given will refuse it again.
  Duration refused_pause = std::chrono::seconds(10);
  // After a failure; doubled each time.
  Duration failed_pause = std::chrono::seconds(1);
  Duration failed_pause_max = std::chrono::minutes(1);
};

class ExecTransport final : public Transport {
 public:
  // With the credentials filled in, and without `exec`.
  using MakeTransport = std::function<absl::StatusOr<std::unique_ptr<Transport>>(const ConnectionConfig&)>;

  // REQUIRES: config.exec; env outlives it.
  ExecTransport(Environment env, ConnectionConfig config, MakeTransport make, ExecOptions options = {});
  // Ends the plugin, if it runs. No callback follows. Streams may be destroyed later.
  ~ExecTransport() override;
  ExecTransport(const ExecTransport&) = delete;
  ExecTransport& operator=(const ExecTransport&) = delete;

  void Call(HttpRequest request, Done done) override;
  std::unique_ptr<WatchStream> Watch(HttpRequest request, WatchHandler* handler) override;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster::k8s
