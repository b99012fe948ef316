// Workloads that no Job stands behind. One that was made by hand queues by its own spec, and its status holds the
// record: the write that shows the reservation is the admission (reservation.h), and it counts for as long as it is
// shown, until the Workload is finished or deleted. Evicted, it is out at once: nobody else stops anything.
//
// One that another controller owns, of a kind that Muster does not know, is not admitted, since nobody may be there who
// would start it. What Kueue admitted of them counts, and after an eviction until the owner gives it back.
//
// Source: record.md; kueue_semantics 0.4, 2.8, 5.3, 5.4, 7.2.
// Threading: used from the executor only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "catalog.h"
#include "muster/controller/adoption.h"
#include "muster/controller/options.h"
#include "muster/core/backoff.h"
#include "muster/engine/engine.h"
#include "muster/engine/telemetry.h"
#include "muster/k8s_client/client.h"
#include "muster/k8s_client/event_recorder.h"
#include "prepare.h"
#include "reservation.h"
#include "workload_writer.h"

namespace muster::controller {

class WorkloadController final : public WorkloadSource {
 public:
  struct Deps {
    Environment env;
    k8s::Client* client = nullptr;
    k8s::EventRecorder* events = nullptr;
    engine::Telemetry* telemetry = nullptr;
    const Options* options = nullptr;
    const Catalog* catalog = nullptr;
    AdoptedClaims* adopted = nullptr;
    // Whether a Job of this uid exists.
    std::function<bool(const std::string& uid)> job_exists;
    // As of JobController.
    std::function<void(const std::string& json)> workload_returned;
    std::function<void()> decide;
  };

  explicit WorkloadController(Deps deps);
  ~WorkloadController() override;
  WorkloadController(const WorkloadController&) = delete;
  WorkloadController& operator=(const WorkloadController&) = delete;

  // Of Workloads without a Job, also while somebody else leads.
  void WorkloadChanged(std::shared_ptr<const Workload> workload);
  // It is gone, or a Job's by now.
  void WorkloadLeft(const std::string& uid);
  // As of JobController.
  void CatalogChanged(const std::string& ns);
  void QueueChanged(const std::string& ns, const std::string& local_queue, const std::string& cluster_queue);
  void Lead(engine::EngineSet* engine);
  void StopWriting() { engine_ = nullptr; }

  // RETURNS: whether the decision is about a Workload of this controller; else nothing is done.
  bool Decided(const engine::Decision& decision);

  // Whether any Workload holds quota, and the highest term of a leader that they tell of.
  bool AnyRecord() const;
  uint64_t HighestTerm() const;

  // WorkloadSource; holders are the Workloads themselves.
  std::optional<WantedWorkload> Want(const std::string& uid) override;
  bool IsOf(const k8s::ObjectMeta& workload, const std::string& uid) const override;
  bool IsExpected(const k8s::ObjectMeta&, const std::string&) const override { return true; }
  void WorkloadKnown(const std::string&) override {}
  void WorkloadCreated(const std::string&) override {}
  void WorkloadUpdated(const std::string&, bool) override {}
  void WorkloadRemoved(const std::string&, const k8s::ObjectKey&) override {}
  void WorkloadRefused(const std::string& uid, const std::string& message) override;

 private:
  struct Claim {
    engine::ClaimState state = engine::ClaimState::kPlanned;
    engine::ClaimId id;
    engine::Admission admission;
    WallTime reserved_at;
    std::optional<Eviction> eviction;    // ordered
    int64_t past_execution_seconds = 0;  // of an ordered eviction: all execution until then
  };
  // What the engine was last told.
  struct Told {
    int64_t generation = 0;
    std::string gated_by;
    std::map<std::string, int32_t, std::less<>> reclaimable_pods;
    WallTime not_before;
    uint64_t catalog = 0;
    bool holds = false;
    friend bool operator==(const Told&, const Told&) = default;
  };
  struct Entry {
    std::shared_ptr<const Workload> workload;
    std::shared_ptr<const Prepared> prepared;
    std::optional<Told> told;  // unset: the engine does not know it
    std::optional<Claim> claim;
    std::shared_ptr<void> reservation;  // under way, of a planned claim
    bool finished = false;
    std::string problem;  // of its status, as said
    Backoff backoff{std::chrono::seconds(1), std::chrono::minutes(5)};
    WallTime not_before;
    WallTime queued_since;
    std::optional<engine::Reason> reason;  // as shown
    std::optional<Eviction> eviction;      // the last, until the Workload shows that it is over
  };

  Entry* Find(const std::string& uid);
  bool leading() const { return engine_ != nullptr; }
  void Apply(engine::Event event);
  // It was made from a Job which let it go when it was deleted.
  bool IsOrphan(const Workload& workload) const;
  void Reconcile(Entry* entry);
  bool Adopt(Entry* entry);
  void Tell(Entry* entry, const std::optional<Held>& held);
  void Untell(Entry* entry);
  void ReconcileClaim(Entry* entry);
  void HandleAdmit(Entry* entry, const engine::Admit& admit);
  void Reserved(Entry* entry, const ReservationEnd& end);
  void DropClaim(Entry* entry, WallTime not_before, std::string message);
  void HandleEvict(Entry* entry, const engine::Evict& evict);
  void HandleHold(Entry* entry, const engine::Hold& hold);
  void NoteEvicted(Entry* entry);
  void GiveBack(Entry* entry);
  void Finish(Entry* entry);
  WorkloadFacts Facts(const Entry& entry) const;
  engine::QueueRef Queue(const Entry& entry) const;
  void Event(const Workload& workload, std::string_view reporter, std::string_view type, std::string_view reason,
             std::string_view action, std::string message);

  Deps deps_;
  engine::EngineSet* engine_ = nullptr;
  gang::ShapeTable shapes_;
  std::map<std::string, Entry> entries_;  // by uid
  WorkloadWriter writer_;
  Reservations reservations_;
};

}  // namespace muster::controller
