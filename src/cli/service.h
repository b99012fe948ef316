// The service without its process: client, controller, metrics and health checks wired together, so that it
// runs on the simulator as it runs on the machine.
//
// Threading: used from the executor only; the handlers may be called from anywhere.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/cli/configuration.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/transport.h"
#include "muster/server/health.h"
#include "muster/server/http_server.h"
#include "muster/server/metrics.h"

namespace muster::cli {

class Service {
 public:
  // REQUIRES: what the pointers point to outlives it. `fatal`: the process must end at once, writing nothing.
  Service(Environment env, k8s::Transport* transport, Configuration config, server::BuildInfo build,
          std::function<void(const std::string& why)> fatal);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  void Start();
  // Not ready from here on; decides nothing more, lets writes end, releases the lease, then calls `done`.
  void Stop(std::function<void()> done);

  // Of a hand-over: Jobs that still carry a record; unset: not known yet.
  std::optional<size_t> release_left() const;

  // Good for as long as the service is.
  std::map<std::string, server::Handler> HealthRoutes();
  std::map<std::string, server::Handler> MetricsRoutes();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::cli
