// The life of each Job, from its creation in a queue to its end: one small state machine a Job. It is driven by
// levels, not edges: whenever anything about a Job changes, Reconcile looks at the Job as it is now and at the
// claim that the engine holds for it, and does the one thing that is due, if any. At most one request for a Job is
// on its way at any time.
//
//   no claim        the Job waits in the engine's queue (suspended, no pods), or runs without leave and is suspended
//   kPlanned        the engine admitted it: the start is being written (job_start.cpp). Where the Workload holds the
//                   record, that shows the reservation first, and its checks have to be ready (job_checks.cpp)
//   kWritten/Active the gang runs: the record is kept, a suspension by others is undone (job_start.cpp)
//                   the pod counts of an elastic Job may change, and the record follows (job_size.cpp)
//   kLeaving        the gang is stopped, its pods are still going (job_stop.cpp)
//
// States that are older than an own write's answer are ignored; what cannot be known (a write without an answer)
// is asked for by reading the Job, and nothing is decided in the meantime.
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

#include "boxed.h"
#include "muster/controller/job.h"
#include "muster/controller/job_patch.h"
#include "muster/core/backoff.h"
#include "muster/engine/engine.h"
#include "prepare.h"
#include "queue_index.h"
#include "reservation.h"
#include "source_deps.h"
#include "told_reasons.h"
#include "workload_writer.h"

namespace muster::controller {

// Starts of a planned claim that may have been, or may still be applied.
struct UnsureStart {
  int64_t generation = 0;  // that they test
  MonoTime repeat_until;   // the start is not sent again after
  MonoTime landed_by;      // none of them is applied after
  bool given_up = false;   // not to be sent again: the claim goes when they cannot be applied any more
  std::string message;     // what is told then; empty: the Job is decided on again at once
};

// A write of other counts into the record of a running Job that has been sent, and is not seen in the Job.
struct SizeWrite {
  engine::Admission admission;
  int64_t generation = 0;  // that it tests
  bool grows = false;      // of more pods
  MonoTime landed_by;      // it may be applied until then; zero: it is known not to have been
  bool given_up = false;   // refused: not to be sent again
  std::string message;     // why
};

class JobController final : public WorkloadSource {
 public:
  struct Deps : SourceDeps {
    TextTable* texts = nullptr;
    // RETURNS: the Workload of that name, whosever it is, or null.
    std::function<std::shared_ptr<const Workload>(const k8s::ObjectKey& key)> find_workload;
    // The server keeps the start time of suspended Jobs (before 1.36): clear it without waiting.
    std::function<bool()> keeps_start_time;
    // As workload_returned, of a Job.
    std::function<void(const std::string& json)> job_returned;
    // What Counts() says of Workloads that name this Job may have changed.
    std::function<void(const std::string& uid)> claim_changed;
    // What AdmittedPods() says of the Job may have changed.
    std::function<void(const std::string& uid)> size_changed;
  };

  explicit JobController(Deps deps);
  // Whether the Job is still the one that this Workload tells of, and out: managed, suspended, holding nothing.
  bool IsOut(const std::string& job_uid, const std::string& workload_uid) const;
  ~JobController() override;
  JobController(const JobController&) = delete;
  JobController& operator=(const JobController&) = delete;

  // From the informers, also while somebody else leads.
  void JobChanged(std::shared_ptr<const Job> job);
  // To be given each Job as it is decoded, before JobChanged: takes the template's text out of it, since thousands may
  // wait for long, and keeps it until the Workload is written at most. Where it is needed later, the Job is read again.
  void TakeTemplate(Job* job);
  void JobDeleted(const Job& last);
  void WorkloadChanged(std::shared_ptr<const Workload> workload);
  void WorkloadDeleted(const Workload& last);
  // No Job's by what it says, or by now: it names none as its controller.
  void WorkloadLeft(const Workload& workload);
  // A Workload came, changed or went that may be prebuilt.
  void PrebuiltChanged(const k8s::ObjectKey& key);
  // What Jobs are judged by has changed (see Catalog::version). `ns` empty: everywhere.
  void CatalogChanged(const std::string& ns);
  // A LocalQueue, or its ClusterQueue, was stopped or started: what Workloads say of being queued again may change.
  void QueueChanged(const QueueIndex::Queue& queue);
  // The checks of a ClusterQueue may be others.
  void ChecksChanged(const std::string& cluster_queue);

  // From here on decides and writes. Everything that the objects show as admitted becomes a held claim.
  // REQUIRES: all informers are complete; `engine` outlives this and knows all queue objects.
  void Lead(engine::EngineSet* engine);
  // No request may leave any more.
  void StopWriting() { engine_ = nullptr; }

  void Decided(const engine::Decision& decision);
  bool Exists(const std::string& uid) const { return entries_.contains(uid); }
  // By which uid the engine knows whom others made way for as `uid`: that of a Workload, which a Job may have taken.
  std::string QueuesAs(const std::string& uid) const;
  // Whether a Job's own claim stands for what this Workload, prebuilt for it and without an owner, shows as admitted.
  bool Counts(const Workload& workload) const;
  // As of Evictions::Deps. RETURNS: nothing, or false, where it is no Job of Muster's.
  std::optional<Party> FindParty(const std::string& uid) const;
  bool Tell(const std::string& uid, const Evictions::Event& event);

  // How many pods of a Job that holds its others back may run.
  int32_t AdmittedPods(const std::string& uid) const;

  // The highest term of a leader that Jobs and Workloads tell of.
  uint64_t HighestTerm() const;

  // Hand-over: takes the record of each Job away as soon as its Workload says the same.
  // REQUIRES: nothing is decided any more.
  struct ReleaseProgress {
    size_t left = 0;        // Jobs that still carry one, or have an admission that their Workload does not show
    std::string waits_for;  // a few of them: "team/a, team/b"
    std::vector<std::string> problems;  // of a few whose Workloads the API server does not take
  };
  ReleaseProgress ReleaseRecords();

  // WorkloadSource:
  std::optional<WantedWorkload> Want(const std::string& job_uid) override;
  bool IsOf(const k8s::ObjectMeta& workload, const std::string& job_uid) const override;
  bool IsExpected(const k8s::ObjectMeta& workload, const std::string& job_uid) const override;
  void WorkloadKnown(const std::string& job_uid) override;
  void WorkloadCreated(const std::string& job_uid) override;
  void WorkloadUpdated(const std::string& job_uid, bool priority_only) override;
  void WorkloadRemoved(const std::string& job_uid, const k8s::ObjectKey& key) override;
  void WorkloadRefused(const std::string& job_uid, const std::string& message) override;
  void WorkloadFailed(const std::string& /*job_uid*/) override {}

 private:
  struct Claim {
    engine::ClaimState state = engine::ClaimState::kPlanned;
    Record record;  // as written, or as it will be; of a planned claim only id, admission and time are set
    // Decided: the gang has to be stopped.
    std::optional<Eviction> eviction;
    WallTime evicted_at;
    std::optional<engine::Evict> decision;  // the engine's, if it is that one's
    std::shared_ptr<void> watched;          // by Evictions, from then on
    // The stop failed: the engine is asked again, and if it does not want it any more by then, it is no eviction.
    std::optional<Eviction> refused;
    MonoTime refused_until;
    // The Workload holds the record until the Job has started: it is prebuilt, the ClusterQueue has checks, or its pods
    // have places in topologies.
    bool on_workload = false;
    CheckNames checks;  // of the decision
    // The Workload shows it, and the Job is not started yet: without the Job's record it is this that counts, and its
    // quota is free once the Workload shows so.
    bool reserved = false;
    bool admitted = false;  // of a reserved one: its checks were ready, and the Workload shows so
    // Of one that is given back since its queue was stopped: why it will wait.
    std::optional<engine::Reason> withdrawn;
    PodsReady pods_ready;  // while it runs; of one that leaves as it was at the end
    // Of a planned claim: the Job as it was decided on.
    std::shared_ptr<const Job> basis;
    std::optional<UnsureStart> unsure;
    // Of a running one: more pods were admitted, and the record does not say so yet.
    std::optional<engine::Grow> growth;
    std::optional<SizeWrite> size_write;
  };
  // What the engine was last told of the Job, beside its labels and annotations.
  struct Told {
    int64_t generation = 0;
    bool active = true;
    WallTime not_before;
    WallTime queue_time;  // unset: its creation
    uint64_t catalog = 0;
    bool deleting = false;
    bool holds = false;  // a claim
    int32_t pods = 0;    // that are needed
    bool resizes = false;
    WallTime growth_queue_time;
    int32_t priority = 0;
    int64_t prebuilt_generation = 0;
    Labels prebuilt_annotations;
    std::vector<std::string> preemption_gates;  // of the Workload, that are closed
    std::vector<engine::FlavorTimeOuts> timed_out;
    friend bool operator==(const Told&, const Told&) = default;
  };
  // The last admission of a Job that has ended.
  struct End {
    engine::Admission admission;
    WallTime reserved_at;
    WallTime since;  // when it began to count as executing
    std::optional<Eviction> eviction;
    std::optional<PodsReady> pods_ready;  // unset: not seen
  };
  using WorkloadEvent = Evictions::Event;
  struct Entry {
    std::shared_ptr<const Job> job;
    std::string workload;                      // the name that its Workload has to have
    std::optional<int64_t> slice;              // as of Record, and as long as that Workload is there
    std::string replaces;                      // "namespace/name" of the Workload before that one
    std::vector<std::string> replaced;         // uids of Workloads that wait for that one to take their place
    std::shared_ptr<const Prepared> prepared;  // null: cannot be queued, `problem` says why
    std::string problem;
    std::string record_problem;          // as said
    std::optional<Told> told;            // unset: the engine does not know the Job
    std::shared_ptr<const Job> told_of;  // a state of the Job that `told` is true of, labels and annotations too
    Boxed<Claim> claim;
    bool busy = false;                  // a request is on its way
    std::shared_ptr<void> reservation;  // of a planned claim, on its way to the prebuilt Workload
    bool finished = false;              // the end was handled
    bool failed = false;                // it can never start
    std::string failure_reason;
    std::string failure;
    bool adopted_finished = false;  // it had ended before this process looked
    MonoTime wait_until;            // no request before
    Executor::TimerId timer = 0;
    MonoTime timer_due;
    Backoff backoff{std::chrono::seconds(1), std::chrono::minutes(5)};
    WallTime not_before;
    WallTime queued_since;
    std::optional<engine::Reason> reason;         // as shown
    std::optional<engine::Reason> growth_reason;  // why more pods wait
    WallTime grows_since;       // since when there are more pods than are admitted; unset: there are not
    std::string check_message;  // of checks that are pending, as told
    std::optional<int64_t> past_execution_seconds;
    std::string past_workload;                 // uid of the Workload whose time that is; empty: none was known
    Boxed<End> end;                            // of a finished Job that was admitted, until its Workload shows it
    std::optional<int32_t> priority_set_over;  // the value of its class that somebody overruled
    bool workload_seen = false;
    bool workload_deleted = false;               // while the Job held a claim; why is not known yet
    std::vector<WorkloadEvent> workload_events;  // until the Workload's uid is known
    SharedText spec_rest;                        // until the Workload is written
    bool reading_template = false;
    MonoTime suspended_since;  // since when the start time stays; zero: it does not
  };

  // ---- job_controller.cpp: intake and the order of things
  Entry* Find(const std::string& uid);
  // Muster's to queue and to start.
  bool IsQueued(const Job& job) const;
  bool leading() const { return engine_ != nullptr; }
  void Apply(engine::Event event);
  void Reconcile(Entry* entry);
  void ReconcileUnmanaged(Entry* entry);
  void LeaveToOthers(Entry* entry);
  void ReconcileFree(Entry* entry);
  void ReconcileClaim(Entry* entry);
  void Tell(Entry* entry, const std::optional<Held>& held);
  // REQUIRES: the engine was told of the Job.
  engine::Workload AsTold(const Entry& entry) const;
  void Untell(Entry* entry);
  Priority PriorityOf(const Entry& entry) const;
  void NotePriorityEdit(Entry* entry, const Workload* before, const Workload& now);
  std::string PriorityNote(const Entry& entry) const;
  int32_t NeededPods(const Entry& entry) const;
  void SayIfGateCleared(Entry* entry, const Job& told_of);
  void SayPodsRunAgain(const Entry& entry, int32_t more);
  bool Prepare(Entry* entry);
  void KeepPriority(const Entry& entry, Prepared* prepared) const;
  Prepared PrepareOf(const Job& job);
  void ReportProblem(Entry* entry, const absl::Status& problem);
  bool AdoptHeld(Entry* entry);
  void CompleteRecord(Entry* entry);
  void DisbelieveRecord(Entry* entry, std::string why);
  void SayRecordProblem(Entry* entry);
  void Adopt(Entry* entry, Held held);
  void TellHeld(Entry* entry, const Held& held);
  void Finish(Entry* entry);
  bool WaitsUntil(Entry* entry, MonoTime when);
  void Wake(Entry* entry, Duration delay);
  void HandleHold(const engine::Hold& hold);
  // As of ToldReasons.
  bool RenewNumbers(const std::string& uid);
  void HandleEvict(const engine::Evict& evict);
  void HandleWithdraw(const engine::Withdraw& withdraw);
  void HandleReplace(const engine::Replace& replace);
  // Marks a request as sent, and unmarks it and finds the Job's entry in the answer's callback.
  using OnAnswer = std::function<void(Entry*, const k8s::Result&)>;
  void Send(Entry* entry, std::string body, OnAnswer on_answer);
  k8s::Client::Done Callback(Entry* entry, OnAnswer on_answer);
  // Reads the Job until there is an answer; `then` finds the newest state in the entry. A Job that is gone is
  // left to the watch.
  void Refresh(Entry* entry, std::function<void(Entry*)> then);
  // RETURNS: the entry with the state that the answer holds, or a newer one; null where the Job is gone.
  Entry* AcceptAnswer(Entry* entry, const k8s::Result& result);
  // Goes on with what an own write returned; where it failed, with what the Job says.
  void Continue(Entry* entry, const k8s::Result& result);
  Record LostRecord(const Entry& entry, const Held& held) const;
  void AskWhyDeleted(Entry* entry);
  void AskForOwner();
  void DeclareOrphan(const std::string& uid);

  // ---- job_start.cpp
  void HandleAdmit(const engine::Admit& admit);
  void ReconcilePlanned(Entry* entry);
  void SendStart(Entry* entry);
  void StartAnswered(Entry* entry, engine::ClaimId claim, std::shared_ptr<const Job> basis, const k8s::Result& result);
  void StartVerified(Entry* entry, engine::ClaimId claim, const Job& basis, const k8s::Result& first);
  void ReconcileUnsure(Entry* entry, bool stands);
  void StartConcluded(Entry* entry, engine::ClaimId claim);
  void RefuseStart(Entry* entry, Duration wait, const std::string& message);
  void Started(Entry* entry);
  void NoteStarted(Entry* entry);
  void CatchUp(Entry* entry);
  void DropClaim(Entry* entry, WallTime not_before, std::string message);
  void FailToStart(Entry* entry, const std::string& message);
  void Fail(Entry* entry, std::string reason, std::string message);
  void NoteReserved(Entry* entry);
  void ReconcileRunning(Entry* entry);
  // What runs is not what was admitted any more. RETURNS: true: it is being stopped.
  bool StopIfChanged(Entry* entry);
  void Resume(Entry* entry);
  void WriteRecordAgain(Entry* entry);
  // Whether the template may be edited now; if not, sees to it that it will be. RETURNS: true: go on.
  bool UnlockTemplate(Entry* entry);

  // ---- job_size.cpp: elastic Jobs
  // Its pod counts may change while it runs.
  bool Resizes(const Entry& entry) const;
  // REQUIRES: a claim, and leading.
  int32_t PodsAllowed(const Entry& entry) const;
  // What the engine holds under the claim of the record; nothing where it knows another, or none. REQUIRES: a claim.
  std::optional<engine::Admission> HeldNow(const Entry& entry) const;
  WallTime GrowthQueueTime(Entry* entry);
  // Unset: it does not wait for more pods, or only for its turn.
  std::optional<engine::Reason> WhyNotMore(const Entry& entry) const;
  void HandleGrow(const engine::Grow& grow);
  void RefuseGrowth(Entry* entry, WallTime not_before, std::string message);
  // Whether the Job shows the counts that were written.
  void SeeSizeWritten(Entry* entry);
  // Without a record its Workload alone tells which of them it is.
  static void TakeSliceName(const k8s::ObjectMeta& workload, Entry* entry);
  // The Job has another Workload from now on.
  void ReplaceSlice(Entry* entry);
  void AddSliceAnnotations(const Entry& entry, Labels* annotations) const;
  // That is there: those before it are over.
  void FinishReplaced(Entry* entry);
  // Whose Workload it is, as the writer knows it: the Job's uid, or its own where it was replaced.
  std::string HolderOf(const k8s::ObjectMeta& workload, const std::string& job_uid) const;
  bool IsReplaced(const Workload& workload);
  void ReconcileSize(Entry* entry);
  void SendSize(Entry* entry, const engine::Admission& admission, bool grows);
  void SizeAnswered(Entry* entry, const engine::Admission& admission, const k8s::Result& result);
  void ContinueSizeWrite(Entry* entry);
  void EndSizeWrite(Entry* entry, Duration wait, const std::string& message);

  // ---- job_prebuilt.cpp: Jobs whose Workload their user made, and which holds the record until they start
  void NameWorkload(Entry* entry);
  void ForgetPrebuilt(const Entry& entry);
  // RETURNS: whether the Job has its prebuilt Workload, and may wait with it. If not, sees to what can be done.
  bool HasPrebuilt(Entry* entry);
  void TakePrebuilt(Entry* entry, const Workload& workload);
  void CollectTaken();
  // Somebody has taken the owner of its prebuilt Workload away. RETURNS: true: it is being taken again.
  bool TakeBack(Entry* entry);

  // ---- job_checks.cpp: admissions that the Workload shows first, and the checks before the start
  // Once there is a Workload as it was decided on.
  void ReserveOnWorkload(Entry* entry);
  void SendReservation(Entry* entry, std::shared_ptr<const Workload> workload);
  void ReservationEnded(Entry* entry, const ReservationEnd& end);
  // RETURNS: whether the start may go on.
  bool KeepReserved(Entry* entry);
  // The reservation is taken back from the Workload; `not_before`: when the next may be tried.
  void GiveBack(Entry* entry, WallTime not_before);
  // The spec of the Workload is still that of the Job.
  bool StillDescribes(const Entry& entry, const Workload& workload) const;
  // Those that apply; nothing where its ClusterQueue does not exist.
  std::optional<CheckNames> ChecksOf(const Entry& entry) const;
  // RETURNS: true: a check is to be tried again or was rejected, and the gang goes.
  bool FailsChecks(Entry* entry);
  // RETURNS: whether all are ready, and the Workload shows that it is admitted.
  bool PassesChecks(Entry* entry);
  void NoteAdmitted(Entry* entry);
  void SayPendingChecks(Entry* entry, const Workload& workload);

  // ---- job_stop.cpp
  Eviction NewEviction(const Entry& entry, std::string reason, std::string message, std::string cause = "") const;
  // How often, and after how long.
  void CompleteEviction(const Entry& entry, Eviction* eviction) const;
  // `decision`: the engine's, if it is that one's.
  void OrderStop(Entry* entry, Eviction eviction, const std::optional<engine::Evict>& decision = std::nullopt);
  void WatchEviction(Entry* entry);
  void SendStop(Entry* entry);
  void StopFailed(Entry* entry);
  bool AwaitsDecision(Entry* entry);
  void Stopped(Entry* entry);
  void NoteStopped(Entry* entry);
  void NoteEviction(Entry* entry);
  void ReconcileLeaving(Entry* entry);
  void Release(Entry* entry);
  void SuspendUnadmitted(Entry* entry);
  void RestoreIfShown(Entry* entry);

  // ---- job_deactivation.cpp
  // What the gang has run in admissions before the one it has, if it has one.
  int64_t PastExecutionSeconds(const Entry& entry) const;
  // What the Workload does not tell of that, if anything.
  std::optional<int64_t> CountedSeconds(const Entry& entry) const;
  void CountSeconds(Entry* entry, int64_t seconds);
  // REQUIRES: a claim. RETURNS: 0: for ever.
  int64_t MaxExecutionSecondsOf(const Entry& entry) const;
  bool OwesDeactivation(const Entry& entry) const;
  bool IsActive(const Entry& entry) const;
  bool StopIfTimeOver(Entry* entry);
  void CountStopped(Entry* entry);

  // ---- job_pods_ready.cpp
  struct Turn {
    WallTime not_before;
    WallTime queue_time;  // unset: its creation
  };
  Turn TurnOf(const Entry& entry) const;
  std::optional<Eviction> LastEviction(const Entry& entry) const;
  std::optional<engine::PastEviction> PastEviction(const Entry& entry) const;
  const Eviction* UnshownEviction(const Entry& entry) const;
  int32_t RequeueCount(const Entry& entry) const;
  TimedOutFlavors TimedOut(const Entry& entry) const;
  std::vector<engine::FlavorTimeOuts> PassesOver(Entry* entry);
  void AwaitRequeue(Entry* entry);
  WallTime AdmittedAt(const Entry& entry) const;
  PodsReady FoundPodsReady(const Entry& entry) const;
  void SeePodsReady(Entry* entry);
  bool StopIfNotReady(Entry* entry);

  // ---- job_release.cpp
  bool MayRelease(Entry* entry);

  // ---- job_workload.cpp: what the Workload and the events say
  WorkloadFacts Facts(const Entry& entry) const;
  // `known`: as the API server has it; null: not at all.
  void AddHeld(const Claim& claim, const Workload* known, WorkloadFacts* facts) const;
  void AddWaiting(const Entry& entry, const Workload* known, WorkloadFacts* facts) const;
  bool TellsWhilePlanned(const Entry& entry) const;
  std::optional<WorkloadBody> Body(Entry* entry);
  void ReadTemplate(Entry* entry);
  void TouchWorkload(const Entry& entry, WorkloadWriter::Urgency urgency);
  void JobEvent(const Job& job, std::string_view type, std::string_view reason, std::string_view action,
                std::string message);
  void QueueWorkloadEvent(Entry* entry, WorkloadEvent event);
  void SendWorkloadEvents(Entry* entry);
  engine::QueueRef Queue(const Entry& entry) const;
  Party PartyOf(const Entry& entry) const;
  void Depart(Entry entry);

  Deps deps_;
  engine::EngineSet* engine_ = nullptr;
  gang::ShapeTable shapes_;
  SharedText arriving_template_;          // of the Job that was decoded last
  std::map<std::string, Entry> entries_;  // by Job uid
  QueueIndex by_queue_;
  // Jobs that are gone while their Workload remains; and by their own uid, Workloads that were replaced.
  std::map<std::string, WantedWorkload> departed_;
  std::set<std::string> replaced_;  // uids of Workloads of elastic Jobs that others have taken the place of
  std::map<k8s::ObjectKey, std::set<std::string>> prebuilt_;  // Workloads that Jobs name, and their uids
  // The uids of Workloads that Jobs had taken when this process began to lead, to the Jobs'.
  std::map<std::string, std::string> taken_;
  std::deque<std::string> orphans_;  // uids of Jobs that may be gone
  // By Job: why a write of its Workload was refused last. They count only while the writer is not done with it.
  std::map<std::string, std::string> refusals_;
  ToldReasons told_reasons_;
  WorkloadWriter workloads_;
  Reservations reservations_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
