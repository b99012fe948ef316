// What evictions have in common, whoever holds the record of what is evicted, a Job or a Workload: who preempts whom,
// in words, Events and metrics; and which of them take long.
//
// Source: kueue_semantics 6.4, 7.2, 8.1, 8.2; user_pains B7.
// Threading: used from the executor only.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog.h"
#include "muster/controller/controller.h"
#include "muster/controller/projection.h"
#include "muster/controller/record.h"
#include "muster/core/clock.h"
#include "muster/engine/engine.h"
#include "muster/engine/telemetry.h"
#include "muster/k8s_client/event_recorder.h"

namespace muster::controller {

// One side of a preemption.
struct Party {
  std::string job_uid;       // empty: no Job stands behind it
  std::string workload_uid;  // empty: it has no Workload yet
  std::string workload;      // "namespace/name" of that
};

class Evictions {
 public:
  // What somebody tells of an eviction on a Workload.
  struct Event {
    std::string_view reporter;
    std::string_view type;
    std::string reason;
    std::string_view action;
    std::string message;
  };
  using Emit = std::function<void(Event event)>;

  struct Deps {
    Environment env;
    k8s::EventRecorder* events = nullptr;
    engine::Telemetry* telemetry = nullptr;
    const Catalog* catalog = nullptr;
    // Nothing: nobody of that uid waits, runs or leaves.
    std::function<std::optional<Party>(const std::string& uid)> find;
    // An Event on the Workload of that uid, as soon as it has one.
    std::function<void(const std::string& uid, Event event)> tell;
  };

  explicit Evictions(Deps deps) : deps_(std::move(deps)) {}
  ~Evictions();
  Evictions(const Evictions&) = delete;
  Evictions& operator=(const Evictions&) = delete;

  // Reason, message, preemptor and time of what was decided about a workload of that ClusterQueue.
  Eviction Describe(const engine::Evict& evict, const std::string& cluster_queue) const;

  // The objects show the eviction of so many pods: it is counted and told, on the victim by `emit`. `decision`: the
  // engine's, where this process knows of one.
  void Note(const Eviction& eviction, const engine::QueueRef& queue, const Party& victim, int64_t pods,
            const std::optional<engine::Evict>& decision, const Emit& emit) const;

  // From the decision until the quota is free: as long as what is returned exists. What takes long gets a warning Event
  // on `object`.
  [[nodiscard]] std::shared_ptr<void> Watch(const Eviction& eviction, const std::string& cluster_queue,
                                            k8s::ObjectReference object);
  // Those that are watched, by ClusterQueue.
  std::map<std::string, EvictingCount> Counts() const;

 private:
  struct Watched {
    WallTime at;
    std::string reason;
    std::string cluster_queue;
    k8s::ObjectReference object;
    Executor::TimerId timer = 0;
  };
  void TellOverdue(const Watched& watched) const;

  Deps deps_;
  std::list<Watched> watched_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
