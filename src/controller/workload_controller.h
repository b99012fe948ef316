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
#include <set>
#include <string>
#include <vector>

#include "muster/core/backoff.h"
#include "muster/engine/engine.h"
#include "prepare.h"
#include "queue_index.h"
#include "reservation.h"
#include "source_deps.h"
#include "told_reasons.h"
#include "workload_writer.h"

namespace muster::controller {

class WorkloadController final : public WorkloadSource {
 public:
  struct Deps : SourceDeps {
    // Whether a Job of this uid exists.
    std::function<bool(const std::string& uid)> job_exists;
    // JobController::Counts.
    std::function<bool(const Workload& workload)> job_counts;
    // JobController::QueuesAs.
    std::function<std::string(const std::string& uid)> queues_as;
  };

  explicit WorkloadController(Deps deps);
  ~WorkloadController() override;
  WorkloadController(const WorkloadController&) = delete;
  WorkloadController& operator=(const WorkloadController&) = delete;

  // Of Workloads without a Job, also while somebody else leads.
  void WorkloadChanged(std::shared_ptr<const Workload> workload);
  // It is gone, or a Job's by now.
  void WorkloadLeft(const std::string& uid);
  // What holds of Workloads that name this Job may have changed.
  void JobChanged(const std::string& job_uid);
  // As of JobController.
  void CatalogChanged(const std::string& ns);
  void QueueChanged(const QueueIndex::Queue& queue);
  void ChecksChanged(const std::string& cluster_queue);
  void Lead(engine::EngineSet* engine);
  void StopWriting() { engine_ = nullptr; }

  // RETURNS: whether the decision is about a Workload of this controller; else nothing is done.
  bool Decided(const engine::Decision& decision);

  // "namespace/name"; empty: it is none of them.
  std::string NameOf(const std::string& uid) const;
  // As of JobController.
  std::optional<Party> FindParty(const std::string& uid) const;
  void Tell(const std::string& uid, const Evictions::Event& event);

  // The highest term of a leader that they tell of.
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
  void WorkloadFailed(const std::string& uid) override;

 private:
  struct Claim {
    engine::ClaimState state = engine::ClaimState::kPlanned;
    engine::ClaimId id;
    engine::Admission admission;
    bool replaced = false;  // it has other places than those it was given
    WallTime reserved_at;
    CheckNames checks;                        // of the decision
    bool admitted = false;                    // else its checks are to be passed
    WallTime admitted_at;                     // unset: as it was reserved
    std::optional<engine::Reason> withdrawn;  // the reservation is taken back: why it will wait
    std::optional<Eviction> eviction;         // ordered
    std::optional<engine::Evict> decision;    // as of JobController's, as are the next two
    std::shared_ptr<void> watched;
    std::optional<Eviction> refused;
    int64_t past_execution_seconds = 0;  // of an ordered eviction: all execution until then
  };
  // What the engine was last told.
  struct Told {
    int64_t generation = 0;
    std::string gated_by;
    std::vector<std::string> preemption_gates;  // those that are closed
    std::map<std::string, int32_t, std::less<>> reclaimable_pods;
    WallTime not_before;
    WallTime queue_time;
    uint64_t catalog = 0;
    bool holds = false;
    bool movable = false;
    friend bool operator==(const Told&, const Told&) = default;
  };
  struct Entry {
    std::shared_ptr<const Workload> workload;
    std::shared_ptr<const Prepared> prepared;
    std::optional<Told> told;  // unset: the engine does not know it
    std::optional<Claim> claim;
    std::shared_ptr<void> reservation;  // under way, of a planned claim
    Executor::TimerId timer = 0;        // until its time is over
    bool finished = false;
    std::string problem;  // of its status, as said
    Backoff backoff{std::chrono::seconds(1), std::chrono::minutes(5)};
    WallTime not_before;
    WallTime queued_since;
    std::optional<engine::Reason> reason;  // as shown
    std::optional<Eviction> eviction;      // the last, until the Workload shows that it is over
  };

  Entry* Find(const std::string& uid);
  void Unindex(const std::string& uid, const Entry& entry);
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
  void HandleReplace(Entry* entry, const engine::Replace& replace);
  void Reserved(Entry* entry, const ReservationEnd& end);
  void DropClaim(Entry* entry, WallTime not_before, std::string message);
  void WatchEviction(Entry* entry);
  void HandleEvict(Entry* entry, const engine::Evict& evict);
  void HandleWithdraw(Entry* entry, const engine::Withdraw& withdraw);
  // Those that apply; nothing where its ClusterQueue does not exist.
  std::optional<CheckNames> ChecksOf(const Entry& entry) const;
  void ReconcileChecks(Entry* entry);
  void NoteAdmitted(Entry* entry);
  void ShowBackOffEnd(Entry* entry);
  void OrderEviction(Entry* entry, Eviction eviction, const std::optional<engine::Evict>& decision = std::nullopt);
  std::optional<Duration> TimeLeft(const Entry& entry) const;
  void EvictIfTimeOver(Entry* entry);
  void HandleHold(Entry* entry, const engine::Hold& hold);
  // As of ToldReasons.
  bool RenewNumbers(const std::string& uid);
  void NoteEvicted(Entry* entry);
  void GiveBack(Entry* entry);
  void Finish(Entry* entry);
  WorkloadFacts Facts(const Entry& entry) const;
  bool TellsWhileHolding(const Entry& entry) const;
  engine::QueueRef Queue(const Entry& entry) const;
  static Party PartyOf(const Entry& entry);
  void Event(const Workload& workload, std::string_view reporter, std::string_view type, std::string_view reason,
             std::string_view action, std::string message);

  Deps deps_;
  engine::EngineSet* engine_ = nullptr;
  gang::ShapeTable shapes_;
  std::map<std::string, Entry> entries_;  // by uid
  QueueIndex by_queue_;
  std::map<std::string, std::set<std::string>> by_job_;  // uids of those that name a Job, by its uid
  ToldReasons told_reasons_;
  WorkloadWriter writer_;
  Reservations reservations_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
