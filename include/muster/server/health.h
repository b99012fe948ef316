// Health endpoints in the form of Kubernetes' own components: "ok", or a line for each check. `?verbose`
// lists all of them, `?exclude=NAME` leaves one out.
//
// Liveness is answered without the executor, from a heartbeat that the executor gives: a process whose
// loop hangs is dead even though its HTTP thread answers. It never depends on the API server. Readiness is
// asked on the executor.
//
// Source: k8s.io/apiserver healthz; cpp_ecosystem section 11.
// Threading: as stated at each.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "muster/core/clock.h"
#include "muster/server/http_server.h"

namespace muster::server {

struct Check {
  std::string name;
  bool ok = true;
  std::string detail;  // why not; or what to add to an "ok"
  // Passed, but to be seen even where nobody asks for it.
  bool warning = false;
  // The detail names objects of some team, which not everybody may see.
  bool names_objects = false;
};

enum class Details : uint8_t {
  kAll,
  kPublic,  // without those that name objects
};

// Threading: pure. RETURNS: 200, or 500 where a check that is not excluded fails. The body lists all checks
// where one fails or warns.
HttpReply RenderChecks(std::string_view endpoint, const std::vector<Check>& checks, Details details,
                       const HttpRequest& request);

// Threading: safe for concurrent use.
class Heartbeat {
 public:
  // `clock` outlives it. Until the first beat it counts from now.
  explicit Heartbeat(const Clock* clock);
  // On the executor, every second or so. `lease_healthy`: client-go's rule for a leader.
  void Beat(bool lease_healthy);
  // Checks "ping", "executor" (no beat for `silence_max`: the loop hangs) and "leader-election".
  std::vector<Check> Checks(Duration silence_max) const;

 private:
  const Clock* clock_;
  mutable std::mutex mutex_;
  MonoTime last_;
  bool lease_healthy_ = true;
};

// `heartbeat` outlives the server that the handler is given to.
Handler LivenessHandler(std::string endpoint, const Heartbeat* heartbeat,
                        Duration silence_max = std::chrono::seconds(30));

// `checks` is called on the executor.
Handler ReadinessHandler(std::string endpoint, Executor* executor, std::function<std::vector<Check>()> checks,
                         Details details);

}  // namespace muster::server
