// What the controllers of Jobs, and of Workloads without a Job, need alike.
//
// Threading: as the controllers.
#pragma once

#include <functional>
#include <string>

#include "catalog.h"
#include "evictions.h"
#include "muster/controller/adoption.h"
#include "muster/controller/options.h"
#include "muster/engine/telemetry.h"
#include "muster/k8s_client/client.h"
#include "muster/k8s_client/event_recorder.h"

namespace muster::controller {

struct SourceDeps {
  Environment env;
  k8s::Client* client = nullptr;
  k8s::EventRecorder* events = nullptr;
  engine::Telemetry* telemetry = nullptr;
  const Options* options = nullptr;
  const Catalog* catalog = nullptr;
  AdoptedClaims* adopted = nullptr;
  Evictions* evictions = nullptr;
  // Given a Workload that an own request returned; it comes back by WorkloadChanged before this returns, unless the
  // watch has passed it.
  std::function<void(const std::string& json)> workload_returned;
  // Something was applied to the engine: decide soon.
  std::function<void()> decide;
};

}  // namespace muster::controller
