// Where a scenario plays: an API server with the controllers of Kubernetes, and Muster on it. Requests are those of
// an administrator, and the admission policies that Muster ships are in force.
//
// Threading: one thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/time.h"
#include "muster/sim/json.h"

namespace muster::scenarios {

using sim::At;
using sim::Flag;
using sim::Json;
using sim::Number;
using sim::Text;

struct Response {
  int code = 0;
  Json body;
  bool ok() const { return code >= 200 && code < 300; }
};

inline constexpr std::string_view kJson = "application/json";
inline constexpr std::string_view kMergePatch = "application/merge-patch+json";
inline constexpr std::string_view kJsonPatch = "application/json-patch+json";

// The lines of one watch, as they came.
class WatchLines {
 public:
  virtual ~WatchLines() = default;
  virtual std::vector<Json> Lines() const = 0;
};

// One client of an API server.
class Api {
 public:
  virtual ~Api() = default;
  // `target` is path and query. A code of 0: no answer.
  virtual Response Call(std::string_view method, const std::string& target, const std::string& body = "",
                        std::string_view type = kJson) = 0;
  // `target` without watch=true. Ends with the object.
  virtual std::unique_ptr<WatchLines> Watch(const std::string& target) = 0;
};

class World : public Api {
 public:
  // Asks again and again until it holds, for so long at most. RETURNS: whether it held.
  virtual bool Await(const std::function<bool()>& holds, std::chrono::seconds patience) = 0;
  // Lets so much time pass.
  virtual void Pass(std::chrono::milliseconds time) = 0;
  virtual WallTime Now() const = 0;
  // More of Muster's configuration, from its next start on: YAML, after what each world has.
  virtual void Configure(const std::string& yaml) = 0;
  // The quota of an evicted gang is free once none of its pods is terminating either (muster.waitForTerminatingPods).
  virtual void StartMuster() = 0;
  // As SIGKILL.
  virtual void KillMuster() = 0;
  // What Muster did and heard last, for the report of a failure.
  virtual std::string Diagnostics() const = 0;
};

// What every world has: flavors `a`, `b`, and `tainted`, whose machines have the taint dedicated=batch:NoSchedule that
// the flavor's toleration lets pods onto. Each flavor names its machines by the label muster.dev/flavor.
std::vector<Json> Flavors();

}  // namespace muster::scenarios
