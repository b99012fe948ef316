// Writes Workloads behind the decisions: for each holder of a record, a Job or a Workload without one, it compares the
// Workload that should be with the one that is, and writes the difference, one write at a time for one Workload. States
// that come and go faster than writes are skipped. Under load there are at most `kInFlightMax` writes on their way, and
// no more than the client lets beside starts; all else waits here, not yet turned into a body, so that what is written
// is always the newest.
//
// A Job has one Workload: the one of the expected name; without it, one that a former controller reserved quota for.
// Any other that names the Job as its controller says nothing about it and is deleted (kueue_semantics 2.5).
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
#include <vector>

#include "muster/controller/projection.h"
#include "muster/controller/workload.h"
#include "muster/core/backoff.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"
#include "write_progress.h"

namespace muster::controller {

// What the Workload of one holder should be. Holders are named by uid.
struct WantedWorkload {
  k8s::ObjectKey key;
  bool create = true;         // false: only an existing one is kept in step
  bool remove_others = true;  // those that are of this holder and not its own
  bool resizes = false;       // its pod counts may change while quota is reserved
  bool deactivate = false;    // spec.active has to become false before the status tells of it
  engine::ClaimId claim;      // set: the admission that the status tells of
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
  virtual std::optional<WantedWorkload> Want(const std::string& holder) = 0;
  // Whether the Workload is of this holder.
  virtual bool IsOf(const k8s::ObjectMeta& workload, const std::string& holder) const = 0;
  // Whether it is the one that counts. REQUIRES: it is of this holder.
  virtual bool IsExpected(const k8s::ObjectMeta& workload, const std::string& holder) const = 0;
  // The first time that the Workload is seen, whoever created it.
  virtual void WorkloadKnown(const std::string& holder) = 0;
  // This writer has just created it.
  virtual void WorkloadCreated(const std::string& holder) = 0;
  // A write was accepted that changed the spec of a waiting Workload or its priority class.
  virtual void WorkloadUpdated(const std::string& holder, bool priority_only) = 0;
  // One that was not the Job's own was deleted.
  virtual void WorkloadRemoved(const std::string& holder, const k8s::ObjectKey& key) = 0;
  // A create, patch or delete was refused; it is tried again later.
  virtual void WorkloadRefused(const std::string& holder, const std::string& message) = 0;
  // As far as is known, a write was not applied, for whatever reason; what is wanted is asked for again.
  virtual void WorkloadFailed(const std::string& holder) = 0;
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
  void Touch(const std::string& holder, Urgency urgency);
  // The newest state.
  void Observe(const std::string& holder, std::shared_ptr<const Workload> workload);
  // The object is gone. RETURNS: true where it was not the Job's own.
  bool Deleted(const std::string& holder, const std::string& workload_uid);
  // Those of other names than this are not the holder's any more. RETURNS: them.
  std::vector<std::shared_ptr<const Workload>> GiveUpOthers(const std::string& holder, const std::string& name);
  // What the source answers to IsExpected may have changed.
  void Choose(const std::string& holder);
  // Nothing more is to be written for this holder.
  void Forget(const std::string& holder);

  // Those that are not their Job's own are passed too.
  void ForEach(const std::function<void(const std::string& holder, const Workload&)>& visit) const;
  // Whether that is the last priority that was written for this holder.
  bool Wrote(const std::string& holder, int32_t priority) const;
  // Nothing is to be written, as far as is known, and nothing is on its way.
  bool Settled(const std::string& holder) const;
  // Null: not known to exist.
  std::shared_ptr<const Workload> Known(const std::string& holder) const;

 private:
  using Ptr = std::shared_ptr<const Workload>;
  struct Entry {
    Ptr known;
    std::vector<Ptr> others;                      // that name the same Job
    std::map<std::string, std::string> removing;  // of those, uid and the version that was acted on last
    bool busy = false;
    bool dirty = false;
    bool queued = false;
    WriteProgress progress;
    std::optional<int32_t> sent_priority;
    Executor::TimerId timer = 0;
    Backoff backoff{std::chrono::milliseconds(500), std::chrono::seconds(60)};
  };

  int Rank(const Workload& workload, const std::string& holder) const;
  void Choose(const std::string& holder, Entry* entry);
  void RemoveOthers(const std::string& holder, Entry* entry, bool wanted);
  void Remove(const std::string& holder, const Workload& other);
  void RemoveAnswered(const std::string& holder, const k8s::ObjectMeta& other, bool deleted, const k8s::Result& result);
  void Queue(const std::string& holder, Entry* entry);
  void Delay(const std::string& holder, Entry* entry, Duration delay);
  void Pump();
  void SchedulePump();
  void Sync(const std::string& holder, Entry* entry);
  void Create(const std::string& holder, Entry* entry, const WantedWorkload& wanted);
  // Patches outside the status.
  void Patch(const std::string& holder, Entry* entry, const WantedWorkload& wanted, std::string body,
             std::optional<bool> priority_only);
  void PatchSpec(const std::string& holder, Entry* entry, const WantedWorkload& wanted);
  void Sent(Entry* entry);
  void Answered(const std::string& holder, const WantedWorkload& wanted, bool create, const k8s::Result& result);
  void Fetch(const std::string& holder, const k8s::ObjectKey& key);
  void Fetched(const std::string& holder, const k8s::Result& result);
  void Learn(const std::string& holder, Entry* entry, const std::string& json, bool created);
  void Failed(const std::string& holder, Entry* entry, const k8s::Result& result);
  Entry* Find(const std::string& holder);

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
