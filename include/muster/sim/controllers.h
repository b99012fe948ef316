// The controllers of Kubernetes that Muster lives with, in virtual time: jobs and their pods, garbage
// collection, time-to-live, namespaces. They work on the store as the real ones do, from a cache that lags a
// little and with writes that race with everybody else's.
//
// A pod here is only a record inside the job controller, and where its template has scheduling gates an object too: it
// does not start before somebody has taken them away. With `pod_objects` each is an object, and what becomes of it
// there is what becomes of it: nodes.h binds, runs and ends it. How long it takes to start, run and die is read from
// annotations of the pod template, the same that the kwok stages of the cluster tests read: muster.dev/start-seconds,
// run-seconds, exit-code, termination-seconds.
//
// Source: traces of kube-controller-manager 1.36.3.
// Threading: one thread, that of the executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "muster/core/time.h"
#include "muster/sim/executor.h"
#include "muster/sim/json.h"
#include "muster/sim/server.h"
#include "muster/sim/store.h"

namespace muster::sim {

struct PodPlan {
  Duration start = std::chrono::milliseconds(200);  // creation to ready
  Duration run = std::chrono::seconds(1);           // ready to the end
  bool fails = false;
  Duration termination{0};  // deletion to gone
};

// Reads the annotations of the Job's pod template.
PodPlan PlanFromAnnotations(const Json& job);

struct ControllerOptions {
  Latency cache{std::chrono::microseconds(500), std::chrono::milliseconds(5)};     // commit to the cache
  Latency sync{std::chrono::milliseconds(2), std::chrono::milliseconds(10)};       // a look that moves no pods
  Latency pod_sync{std::chrono::milliseconds(15), std::chrono::milliseconds(90)};  // one that makes or deletes some
  Latency collect{std::chrono::milliseconds(5), std::chrono::milliseconds(200)};   // of the garbage collector
  bool keeps_start_time = false;                                                   // of suspended Jobs, as up to 1.35
  bool jobs = true;                                                                // false: nobody controls Jobs
  Duration pod_batch = std::chrono::seconds(1);  // news of pods are gathered for so long
  bool pod_objects = false;
  Duration backoff_max = std::chrono::minutes(10);  // after failures, before other pods are made
  // Of the given pod (counted from 0 over the life of the Job).
  std::function<PodPlan(const Json& job, int64_t pod)> plan;  // unset: PlanFromAnnotations
};

struct PodCounts {
  int64_t active = 0;  // neither ended nor told to end
  int64_t ready = 0;
  int64_t terminating = 0;
};

class SimControllers {
 public:
  SimControllers(SimExecutor* executor, SimStore* store, ControllerOptions options);
  ~SimControllers();
  SimControllers(const SimControllers&) = delete;
  SimControllers& operator=(const SimControllers&) = delete;

  // What really runs for a Job at this instant, whatever its status says yet.
  PodCounts PodsOf(const std::string& job_uid) const;
  // Nothing happens in the controllers until they go on: an overloaded or restarting control plane.
  void SetPaused(bool paused);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::sim
