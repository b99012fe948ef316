// Deletes what has been over for as long as it was to be kept: Workloads that are finished, and Jobs whose Workloads
// Muster has deactivated. What nobody set a time for is kept.
//
// Source: kueue_semantics 2.4, 2.8 and 1.9 (objectRetentionPolicies).
// Threading: used from the executor only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "muster/controller/options.h"
#include "muster/controller/workload.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"
#include "muster/k8s_client/event_recorder.h"

namespace muster::controller {

class Retention {
 public:
  // Whether a Job whose Workload was deactivated is still out; asked at the moment when it is to be deleted.
  using IsOut = std::function<bool(const std::string& job_uid, const std::string& workload_uid)>;

  Retention(Environment env, k8s::Client* client, k8s::EventRecorder* events, RetentionOptions options, IsOut is_out);
  ~Retention();
  Retention(const Retention&) = delete;
  Retention& operator=(const Retention&) = delete;

  // Until then nothing is deleted.
  void Open();
  // The newest state of a Workload.
  void Observe(const Workload& workload);
  void Deleted(const Workload& last);

 private:
  struct Item {
    WallTime due;
    bool job = false;  // the Job is to be deleted, not the Workload
    k8s::ObjectReference object;
    std::string workload_uid;
  };

  std::optional<Item> ItemOf(const Workload& workload) const;
  void Add(const k8s::ObjectKey& workload, Item item);
  void Drop(const k8s::ObjectKey& workload);
  void Arm();
  void Flush();
  void Delete(const k8s::ObjectKey& workload, Item item);
  void Answered(const k8s::ObjectKey& workload, const Item& item, const k8s::Result& result);

  Environment env_;
  k8s::Client* client_;
  k8s::EventRecorder* events_;
  RetentionOptions options_;
  IsOut is_out_;
  bool open_ = false;
  int in_flight_ = 0;
  std::map<k8s::ObjectKey, Item> items_;  // by Workload
  std::set<std::pair<WallTime, k8s::ObjectKey>> due_;
  Executor::TimerId timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
