// Events (events.k8s.io/v1): aggregated, capped, and the first thing dropped under pressure. Equal events
// on one object, message included, with no more than a window between them become one Event whose series
// counts them: the second is written at once, later ones at most every ten seconds. One object may have 25
// different events at once and one more every five minutes, as with client-go's filter.
//
// Events about cluster-scoped objects go to the namespace "default".
//
// Threading: used from the executor only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"

namespace muster::k8s {

struct ObjectReference {
  std::string api_version;
  std::string kind;
  std::string ns;
  std::string name;
  std::string uid;
};

struct EventRecorderOptions {
  std::string instance;    // reportingInstance
  int waiting_max = 1000;  // more are dropped and counted
  Duration aggregate = std::chrono::minutes(6);
};

class EventRecorder {
 public:
  // `dropped`: called for each event, and each count of one, that is given up.
  EventRecorder(Environment env, Client* client, EventRecorderOptions options, std::function<void()> dropped);
  ~EventRecorder();

  // `controller`: reportingController, e.g. "batch/job-kueue-controller". `type`: Normal or Warning. The
  // message is cut at 1024 bytes with the suffix " ...". REQUIRES: none of them empty (the server refuses it).
  void Record(const ObjectReference& object, std::string_view controller, std::string_view type,
              std::string_view reason, std::string_view action, std::string message);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::k8s
