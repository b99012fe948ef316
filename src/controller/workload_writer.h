// Writes Workloads behind the decisions: for each Job it compares the Workload that should be with the one that
// is, and writes the difference, one write at a time for one Workload. States that come and go faster than writes
// are skipped. Under load there are at most `kInFlightMax` writes on their way, and no more than the client lets
// beside starts; all else waits here, not yet turned into a body, so that what is written is always the newest.
//
// Threading: used from the executor only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "backoff.h"
#include "muster/controller/projection.h"
#include "muster/controller/workload.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"

namespace muster::controller {

// What the Workload of one Job should be.
struct WantedWorkload {
  k8s::ObjectKey key;
  bool create = true;       // false: only an existing one is kept in step
  bool deactivate = false;  // spec.active has to become false before the status tells of it
  engine::ClaimId claim;    // set: the admission that the status tells of
  // Annotations: kueue.x-k8s.io/admission-gated-by and muster.dev/priority-set-over; empty: none; unset: as it is.
  std::optional<std::string> gated_by;
  std::optional<std::string> priority_note;
  WorkloadSpec spec;
  WorkloadFacts facts;
  // The whole object to create, or the texts of its pod sets. Nothing where the Job's template has to be read
  // again first; the source then does so and touches the Workload when it has it.
  std::function<std::optional<WorkloadBody>()> body;
};

class WorkloadSource {
 public:
  virtual ~WorkloadSource() = default;
  // Nothing: leave it as it is for now.
  virtual std::optional<WantedWorkload> Want(const std::string& job_uid) = 0;
  // The first time that the Workload is seen, whoever created it.
  virtual void WorkloadKnown(const std::string& job_uid) = 0;
  // This writer has just created it.
  virtual void WorkloadCreated(const std::string& job_uid) = 0;
  // A write was accepted that changed the spec of a waiting Workload or its priority class.
  virtual void WorkloadUpdated(const std::string& job_uid, bool priority_only) = 0;
  // A create or patch was refused; it is tried again later.
  virtual void WorkloadRefused(const std::string& job_uid, const std::string& message) = 0;
};

class WorkloadWriter {
 public:
  enum class Urgency : uint8_t { kNow, kLeisure };

  // Given the object that an own write returned; it comes back by Observe, unless the watch has passed it.
  using Returned = std::function<void(const std::string& json)>;

  WorkloadWriter(Environment env, k8s::Client* client, WorkloadSource* source, Returned returned);
  ~WorkloadWriter();
  WorkloadWriter(const WorkloadWriter&) = delete;
  WorkloadWriter& operator=(const WorkloadWriter&) = delete;

  // Until then nothing is written.
  void Open() { open_ = true; }

  // The wanted state may have changed.
  void Touch(const std::string& job_uid, Urgency urgency);
  // The newest state.
  void Observe(const std::string& job_uid, std::shared_ptr<const Workload> workload);
  // The object is gone.
  void Deleted(const std::string& job_uid, const std::string& workload_uid);
  // Nothing more is to be written for this Job.
  void Forget(const std::string& job_uid);

  void ForEachKnown(const std::function<void(const std::string& job_uid, const Workload&)>& visit) const;
  // Whether that is the last priority that was written for this Job.
  bool Wrote(const std::string& job_uid, int32_t priority) const;
  // Nothing is to be written, as far as is known, and nothing is on its way.
  bool Settled(const std::string& job_uid) const;
  // Null: not known to exist.
  std::shared_ptr<const Workload> Known(const std::string& job_uid) const;

 private:
  struct Entry {
    std::shared_ptr<const Workload> known;
    bool busy = false;
    bool dirty = false;
    bool queued = false;
    bool unreadable = false;   // as it is on the server; nothing is written until it can be read again
    std::string sent_version;  // that the write on its way was made for
    std::optional<int32_t> sent_priority;
    Executor::TimerId timer = 0;
    Backoff backoff{std::chrono::milliseconds(500), std::chrono::seconds(60)};
  };

  void Queue(const std::string& job_uid, Entry* entry);
  void Delay(const std::string& job_uid, Entry* entry, Duration delay);
  void Pump();
  void SchedulePump();
  void Sync(const std::string& job_uid, Entry* entry);
  void Create(const std::string& job_uid, Entry* entry, const WantedWorkload& wanted);
  // Patches outside the status.
  void Patch(const std::string& job_uid, Entry* entry, const WantedWorkload& wanted, std::string body,
             std::optional<bool> priority_only);
  void PatchSpec(const std::string& job_uid, Entry* entry, const WantedWorkload& wanted);
  void Sent(Entry* entry);
  void Answered(const std::string& job_uid, const WantedWorkload& wanted, bool create, const k8s::Result& result);
  void Fetch(const std::string& job_uid, const k8s::ObjectKey& key);
  void Fetched(const std::string& job_uid, const k8s::Result& result);
  void Learn(const std::string& job_uid, Entry* entry, const std::string& json, bool created);
  void Failed(const std::string& job_uid, Entry* entry, const k8s::Result& result);
  Entry* Find(const std::string& job_uid);

  Environment env_;
  k8s::Client* client_;
  WorkloadSource* source_;
  Returned returned_;
  bool open_ = false;
  std::map<std::string, Entry> entries_;
  std::deque<std::string> ready_;
  int in_flight_ = 0;
  bool pump_posted_ = false;
  // Callbacks that outlive the writer find this gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
