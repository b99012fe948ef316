// The simulated job controller. Internal to the simulated controllers.
//
// Threading: one thread, that of the executor.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "muster/sim/controllers.h"

namespace muster::sim {

class JobController {
 public:
  JobController(SimExecutor* executor, SimStore* store, Executor* source, const ControllerOptions& options);

  // A commit has reached the cache.
  void OnChange(const Change& change);
  PodCounts PodsOf(const std::string& uid) const;
  // Pods that are not gone yet, ended ones excluded.
  bool HasPods(const std::string& uid) const;
  void DeletePods(const std::string& uid);

 private:
  struct Pod {
    enum class State { kPending, kReady, kSucceeded, kFailed };
    std::string uid;
    int64_t index = 0;
    State state = State::kPending;
    bool terminating = false;
    bool counts_as_failure = false;  // deleted because the Job has failed
    std::string object;              // the name of the object; empty: it has none
    bool gated = false;              // with pod_objects: on no node yet
    bool lost = false;               // somebody else has deleted it
    PodPlan plan;
    Executor::TimerId timer = 0;

    bool ended() const { return state == State::kSucceeded || state == State::kFailed; }
    bool active() const { return !ended() && !terminating; }
  };
  struct Entry {
    JsonPtr cached;
    std::vector<Pod> pods;
    int64_t pods_made = 0;
    Executor::TimerId timer = 0;
    MonoTime due;
    bool writing = false;
    bool dirty = false;
    MonoTime no_pods_before;  // back-off after failures
  };
  // One look at a Job: the status being made.
  struct Look {
    const std::string* uid = nullptr;
    Entry* entry = nullptr;
    Json status;
    std::set<std::string> counted;  // pods that are no longer needed once this status is written
    bool pods_moved = false;
    bool again = false;

    const Json& spec() const { return Get(*entry->cached, "spec"); }
  };

  void Enqueue(const std::string& uid, Duration delay);
  void Sync(const std::string& uid);
  void CountEndedPods(Look* look);
  bool DecideEnd(Look* look);
  void ManagePods(Look* look);
  void Suspend(Look* look);
  void Resume(Look* look);
  void Report(Look* look);
  void Write(const std::string& uid, Json job, const std::set<std::string>& counted);

  int64_t Active(const Entry& entry) const;
  void MakePod(const std::string& uid, Entry* entry);
  void MakeObject(const Json& job, Pod* pod);
  void DeleteObject(const Json& job, Pod* pod);
  void StartPod(const std::string& uid, Pod* pod);
  void OnPodObject(const Change& change);
  void OnUngated(const std::string& uid, Pod* pod);
  void OnPodLife(const Change& change, Entry* entry, Pod* pod);
  void Failed(Entry* entry);
  void DeletePod(const std::string& uid, const Json& job, Pod* pod);
  void OnPod(const std::string& uid, const std::string& pod_uid, const std::function<void(Entry*, Pod*)>& change);
  void SetJobCondition(Look* look, const std::string& type, const std::string& status, const std::string& reason,
                       const std::string& message);
  Duration Draw(const Latency& latency);

  SimExecutor* executor_;
  SimStore* store_;
  Executor* source_;
  ControllerOptions options_;
  SeededRandom random_;
  std::map<std::string, Entry> jobs_;  // by uid
};

}  // namespace muster::sim
