#include "muster/controller/controller.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "catalog.h"
#include "check_finalizers.h"
#include "conversion_check.h"
#include "elastic_pods.h"
#include "evictions.h"
#include "finished_workloads.h"
#include "identity_check.h"
#include "informers.h"
#include "job_controller.h"
#include "kueue_check.h"
#include "machine_watch.h"
#include "muster/core/check.h"
#include "muster/core/log_fields.h"
#include "muster/k8s_client/event_recorder.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/resources.h"
#include "node_failures.h"
#include "policy_check.h"
#include "queue_status_writer.h"
#include "retention.h"
#include "rights_check.h"
#include "server_check.h"
#include "spec_problems.h"
#include "surroundings.h"
#include "text.h"
#include "ungater.h"
#include "unserved_quota.h"
#include "watched.h"
#include "workload_controller.h"

namespace muster::controller {
namespace {

constexpr Duration kPoll = std::chrono::milliseconds(20);
// Workloads are written at leisure before a record goes.
constexpr Duration kReleasePoll = std::chrono::milliseconds(500);
// How often a leader looks whether its late renewal was answered after all.
constexpr Duration kGatePoll = std::chrono::milliseconds(100);

}  // namespace

class Controller::Impl {
 public:
  Impl(Environment env, k8s::Client* client, Options options, engine::Telemetry* telemetry,
       std::function<void(std::string why)> lost_leadership);
  ~Impl();

  void Start();
  void Stop(std::function<void()> done);
  Health health() const;
  const engine::EngineSet* engine() const { return engine_.get(); }
  const FinishedCounts& finished() const { return finished_.counts(); }
  std::map<std::string, EvictingCount> evicting() const { return evictions_.Counts(); }

 private:
  Evictions::Deps EvictionDeps();
  SourceDeps CommonDeps();
  JobController::Deps JobDeps();
  WorkloadController::Deps WorkloadDeps();
  InformerDeps InformersDeps() { return {env_, client_, &spec_problems_}; }
  MachineWatch::Deps MachineDeps();
  Ungater::Deps UngaterDeps();
  std::string UidOfWorkload(const k8s::ObjectKey& key) const;
  template <typename T>
  Informer<T> Watch(const k8s::Resource& resource, typename k8s::Informer<T>::Decode decode,
                    std::function<void(const std::shared_ptr<const T>& object)> changed,
                    std::function<void(const T& last)> deleted, bool metadata_only = false);
  void WatchQueues();
  void WatchNamespaces();
  void WatchJobs();
  void WatchChecks();
  void ClusterQueueChanged(const WatchedClusterQueue& object);
  void LocalQueueChanged(const WatchedLocalQueue& object);
  void NamespaceChanged(const WatchedNamespace& object);
  void WorkloadChanged(const std::shared_ptr<const Workload>& object);
  void Judged(const std::string& ns);
  void ChecksChanged(const std::string& cluster_queue);
  void QueueStopChanged(const std::string& ns, const std::string& local_queue, const std::string& cluster_queue);

  template <typename Visit>
  void ForEachInformer(Visit visit) const;
  bool Synced() const;
  void KueueChanged();
  void GiveUp(const std::string& why);
  void Elect();
  void TakeOver(uint64_t term);
  void RelistAll(std::function<void()> done);
  void OnceReady(std::function<void()> then);
  void LeadAbove(uint64_t term);
  void Lead(uint64_t epoch);
  void Apply(engine::Event event);
  void DecideSoon();
  void Decide();
  void ReleaseRecords();
  void ArmDue();
  void DecideAt(MonoTime when);
  void Drain(MonoTime deadline, std::function<void()> done);
  bool MayWrite() const;

  Environment env_;
  k8s::Client* client_;
  Options options_;
  engine::Telemetry* telemetry_;
  std::function<void(std::string why)> lost_leadership_;

  TextTable texts_;
  Catalog catalog_;
  AdoptedClaims adopted_;
  k8s::EventRecorder events_;
  ServerCheck server_;
  SpecProblems spec_problems_{&events_};
  FinishedWorkloads finished_;
  UnservedQuotaCheck unserved_quota_;
  PolicyCheck policies_;
  KueueCheck kueue_;
  ConversionCheck conversion_;
  IdentityCheck identity_;
  RightsCheck rights_;
  Evictions evictions_{EvictionDeps()};
  std::unique_ptr<engine::EngineSet> engine_;  // before what uses it
  JobController jobs_;
  ElasticPods elastic_pods_;
  Retention retention_;
  WorkloadController workload_controller_;
  CheckFinalizers check_finalizers_;
  QueueStatusWriter cluster_queue_status_;
  QueueStatusWriter local_queue_status_;
  QueueStatusWriter cohort_status_;
  std::unique_ptr<k8s::LeaderElector> elector_;

  Informer<WatchedNamespace> namespaces_;
  Surroundings surroundings_{InformersDeps(), &catalog_, [this](const std::string& ns) { Judged(ns); }};
  MachineWatch machines_{MachineDeps()};
  Ungater ungater_{UngaterDeps()};
  NodeFailures node_failures_{{&machines_, &engine_, [this](engine::Event event) { Apply(std::move(event)); },
                               [this](const std::string& uid) { return workload_controller_.NameOf(uid); }, &ungater_}};
  Informer<WatchedFlavor> flavor_informer_;
  Informer<WatchedCohort> cohorts_;
  Informer<WatchedAdmissionCheck> admission_checks_;
  Informer<WatchedClusterQueue> cluster_queues_;
  Informer<WatchedLocalQueue> local_queues_;
  Informer<Workload> workloads_;
  Informer<Job> job_informer_;

  bool decide_posted_ = false;
  bool stands_ = false;  // for election
  MonoTime ready_from_{};
  bool gave_up_ = false;
  bool stopping_ = false;
  std::optional<size_t> release_left_;
  std::vector<std::string> release_problems_;
  std::string release_told_;  // in the log
  Executor::TimerId due_timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

Controller::Impl::Impl(Environment env, k8s::Client* client, Options options, engine::Telemetry* telemetry,
                       std::function<void(std::string why)> lost_leadership)
    : env_(env),
      client_(client),
      options_(std::move(options)),
      telemetry_(telemetry),
      lost_leadership_(std::move(lost_leadership)),
      events_(env, client, {.instance = options_.lease.identity.empty() ? "muster" : options_.lease.identity},
              [telemetry] { telemetry->EventDropped(); }),
      server_(env, client),
      policies_(env, client, ExpectedPolicies(PolicyOptionsOf(options_)),
                [this] { return server_.mutating_policies(); }),
      kueue_(
          env, client, options_.kueue_namespace,
          options_.leader_elect ? std::optional(k8s::ObjectKey{options_.lease.ns, options_.lease.name}) : std::nullopt),
      conversion_(env, client),
      identity_(env, client, PolicyOptionsOf(options_)),
      rights_(env, client, RequiredRights(options_)),
      jobs_(JobDeps()),
      elastic_pods_(env, client, [this](const std::string& job_uid) { return jobs_.AdmittedPods(job_uid); }),
      retention_(env, client, &events_, options_.retention,
                 [this](const std::string& job_uid, const std::string& workload_uid) {
                   return jobs_.IsOut(job_uid, workload_uid);
                 }),
      workload_controller_(WorkloadDeps()),
      check_finalizers_(
          env, client, [this](const std::string& name) { return catalog_.AsksFor(name); },
          [this](const std::string& json) { admission_checks_->Observe(json); }),
      cluster_queue_status_(
          env, client, k8s::kClusterQueues, QueueKind::kClusterQueue,
          [this](const QueueObject& object) -> std::optional<QueueStatus> {
            if (engine_ == nullptr || !catalog_.cluster_queues.contains(object.meta.name)) return std::nullopt;
            return ProjectStatus(object.status, object.meta.generation, engine_->ViewClusterQueue(object.meta.name),
                                 env_.clock->Now());
          },
          [this](const std::string& json) { cluster_queues_->Observe(json); }),
      local_queue_status_(
          env, client, k8s::kLocalQueues, QueueKind::kLocalQueue,
          [this](const QueueObject& object) -> std::optional<QueueStatus> {
            if (engine_ == nullptr || !catalog_.local_queues.contains({object.meta.ns, object.meta.name})) {
              return std::nullopt;
            }
            return ProjectStatus(object.status, object.meta.generation,
                                 engine_->ViewLocalQueue(object.meta.ns, object.meta.name), env_.clock->Now());
          },
          [this](const std::string& json) { local_queues_->Observe(json); }),
      cohort_status_(
          env, client, k8s::kCohorts, QueueKind::kCohort,
          [this](const QueueObject& object) -> std::optional<QueueStatus> {
            if (engine_ == nullptr || !catalog_.cohorts.contains(object.meta.name)) return std::nullopt;
            return ProjectStatus(object.status, engine_->ViewCohort(object.meta.name));
          },
          [this](const std::string& json) { cohorts_->Observe(json); }) {
  client_->SetWriteGate([this] { return MayWrite(); });
  client_->SetWriteObserver([this](std::string_view resource, std::string_view verb, int code, Duration took) {
    telemetry_->Write(std::string(resource), std::string(verb), code, took);
  });
  WatchNamespaces();
  WatchChecks();
  WatchQueues();
  WatchJobs();
}

Controller::Impl::~Impl() {
  env_.executor->Cancel(due_timer_);
  client_->SetWriteGate([] { return false; });
  client_->SetWriteObserver([](std::string_view, std::string_view, int, Duration) {});
}

Evictions::Deps Controller::Impl::EvictionDeps() {
  Evictions::Deps deps;
  deps.env = env_;
  deps.events = &events_;
  deps.telemetry = telemetry_;
  deps.catalog = &catalog_;
  deps.find = [this](const std::string& uid) {
    std::optional<Party> job = jobs_.FindParty(uid);
    return job.has_value() ? job : workload_controller_.FindParty(uid);
  };
  deps.tell = [this](const std::string& uid, const Evictions::Event& event) {
    if (!jobs_.Tell(uid, event)) workload_controller_.Tell(uid, event);
  };
  return deps;
}

SourceDeps Controller::Impl::CommonDeps() {
  SourceDeps deps;
  deps.env = env_;
  deps.client = client_;
  deps.events = &events_;
  deps.telemetry = telemetry_;
  deps.options = &options_;
  deps.catalog = &catalog_;
  deps.adopted = &adopted_;
  deps.evictions = &evictions_;
  deps.workload_returned = [this](const std::string& json) { workloads_->Observe(json); };
  deps.decide = [this] { DecideSoon(); };
  return deps;
}

JobController::Deps Controller::Impl::JobDeps() {
  JobController::Deps deps;
  static_cast<SourceDeps&>(deps) = CommonDeps();
  deps.texts = &texts_;
  deps.keeps_start_time = [this] { return server_.keeps_start_time(); };
  deps.job_returned = [this](const std::string& json) { job_informer_->Observe(json); };
  deps.find_workload = [this](const k8s::ObjectKey& key) { return workloads_->Get(key); };
  deps.claim_changed = [this](const std::string& uid) { workload_controller_.JobChanged(uid); };
  deps.size_changed = [this](const std::string& uid) { elastic_pods_.Touch(uid); };
  return deps;
}

WorkloadController::Deps Controller::Impl::WorkloadDeps() {
  WorkloadController::Deps deps;
  static_cast<SourceDeps&>(deps) = CommonDeps();
  deps.job_exists = [this](const std::string& uid) { return jobs_.Exists(uid); };
  deps.job_counts = [this](const Workload& workload) { return jobs_.Counts(workload); };
  deps.queues_as = [this](const std::string& uid) { return jobs_.QueuesAs(uid); };
  return deps;
}

MachineWatch::Deps Controller::Impl::MachineDeps() {
  MachineWatch::Deps deps;
  deps.informers = InformersDeps();
  deps.catalog = &catalog_;
  deps.check_machines = options_.check_machines;
  deps.apply = [this](engine::Event event) { Apply(std::move(event)); };
  deps.uid_of_workload = [this](const k8s::ObjectKey& key) { return UidOfWorkload(key); };
  deps.gang_changed = [this](const std::string& gang) {
    node_failures_.GangChanged(gang);
    ungater_.GangChanged(gang);
  };
  deps.all_told = [this] { node_failures_.AllTold(); };
  deps.node_changed = [this](const std::string& hostname) { node_failures_.NodeChanged(hostname); };
  return deps;
}

Ungater::Deps Controller::Impl::UngaterDeps() {
  Ungater::Deps deps;
  deps.env = env_;
  deps.client = client_;
  deps.machines = &machines_;
  deps.view = [this](const std::string& uid) { return engine_ == nullptr ? std::nullopt : engine_->ViewWorkload(uid); };
  deps.fails = [this](const auto& uid, const auto& hostname) { return node_failures_.Fails(uid, hostname); };
  return deps;
}

std::string Controller::Impl::UidOfWorkload(const k8s::ObjectKey& key) const {
  const auto workload = workloads_->Get(key);
  return workload == nullptr ? std::string() : workload->meta.uid;
}

// ---- watching -----------------------------------------------------------------------------------

template <typename T>
Informer<T> Controller::Impl::Watch(const k8s::Resource& resource, typename k8s::Informer<T>::Decode decode,
                                    std::function<void(const std::shared_ptr<const T>&)> changed,
                                    std::function<void(const T& last)> deleted, bool metadata_only) {
  k8s::InformerOptions options;
  options.metadata_only = metadata_only;
  return MakeInformer<T>(
      InformersDeps(), resource, std::move(decode),
      [changed = std::move(changed)](const auto& object, const auto&) { changed(object); }, std::move(deleted),
      options);
}

void Controller::Impl::Judged(const std::string& ns) {
  ++catalog_.version;
  jobs_.CatalogChanged(ns);
  workload_controller_.CatalogChanged(ns);
}

void Controller::Impl::WatchNamespaces() {
  namespaces_ = Watch<WatchedNamespace>(
      k8s::kNamespaces, DecodeWatchedNamespace,
      [this](const std::shared_ptr<const WatchedNamespace>& object) { NamespaceChanged(*object); },
      [this](const WatchedNamespace& last) {
        catalog_.namespaces.erase(last.meta.name);
        Apply(engine::NamespaceDeleted{last.meta.name});
      },
      true);
}

void Controller::Impl::NamespaceChanged(const WatchedNamespace& object) {
  const auto it = catalog_.namespaces.find(object.meta.name);
  if (it != catalog_.namespaces.end() && it->second == object.meta.labels) return;
  catalog_.namespaces.insert_or_assign(object.meta.name, object.meta.labels);
  Apply(engine::NamespaceChanged{{object.meta.name, object.meta.labels}});
  Judged(object.meta.name);
}

void Controller::Impl::WatchQueues() {
  flavor_informer_ = Watch<WatchedFlavor>(
      k8s::kResourceFlavors, DecodeWatchedFlavor,
      [this](const std::shared_ptr<const WatchedFlavor>& object) {
        spec_problems_.Note(k8s::kResourceFlavors, object->meta, object->flavor.misconfigured);
        catalog_.flavors.insert_or_assign(object->meta.name, object->flavor);
        Apply(engine::FlavorChanged{object->flavor});
        machines_.FlavorChanged();
      },
      [this](const WatchedFlavor& last) {
        spec_problems_.Forget(k8s::kResourceFlavors, last.meta.key());
        catalog_.flavors.erase(last.meta.name);
        Apply(engine::FlavorDeleted{last.meta.name});
      });
  cohorts_ = Watch<WatchedCohort>(
      k8s::kCohorts, DecodeWatchedCohort,
      [this](const std::shared_ptr<const WatchedCohort>& object) {
        spec_problems_.Note(k8s::kCohorts, object->meta, object->cohort.misconfigured);
        const auto it = catalog_.cohorts.find(object->meta.name);
        if (it == catalog_.cohorts.end() || it->second != object->cohort) {
          catalog_.cohorts.insert_or_assign(object->meta.name, object->cohort);
          Apply(engine::CohortChanged{object->cohort});
        }
        cohort_status_.Observe(std::make_shared<const QueueObject>(QueueObject{object->meta, object->status}));
      },
      [this](const WatchedCohort& last) {
        spec_problems_.Forget(k8s::kCohorts, last.meta.key());
        catalog_.cohorts.erase(last.meta.name);
        cohort_status_.Deleted(last.meta.key());
        Apply(engine::CohortDeleted{last.meta.name});
      });
  cluster_queues_ = Watch<WatchedClusterQueue>(
      k8s::kClusterQueues, DecodeWatchedClusterQueue,
      [this](const std::shared_ptr<const WatchedClusterQueue>& object) { ClusterQueueChanged(*object); },
      [this](const WatchedClusterQueue& last) {
        spec_problems_.Forget(k8s::kClusterQueues, last.meta.key());
        catalog_.cluster_queues.erase(last.meta.name);
        check_finalizers_.TouchAll();
        cluster_queue_status_.Deleted(last.meta.key());
        Apply(engine::ClusterQueueDeleted{last.meta.name});
      });
  local_queues_ = Watch<WatchedLocalQueue>(
      k8s::kLocalQueues, DecodeWatchedLocalQueue,
      [this](const std::shared_ptr<const WatchedLocalQueue>& object) { LocalQueueChanged(*object); },
      [this](const WatchedLocalQueue& last) {
        spec_problems_.Forget(k8s::kLocalQueues, last.meta.key());
        catalog_.DropLocalQueue({last.meta.ns, last.meta.name});
        local_queue_status_.Deleted(last.meta.key());
        Apply(engine::LocalQueueDeleted{last.meta.ns, last.meta.name});
      });
}

void Controller::Impl::WatchChecks() {
  admission_checks_ = Watch<WatchedAdmissionCheck>(
      k8s::kAdmissionChecks, DecodeWatchedAdmissionCheck,
      [this](const std::shared_ptr<const WatchedAdmissionCheck>& object) {
        spec_problems_.Note(k8s::kAdmissionChecks, object->meta, object->misconfigured);
        catalog_.admission_checks.insert_or_assign(object->meta.name, object->check);
        check_finalizers_.Observe(object->meta);
        Apply(engine::AdmissionCheckChanged{object->check});
      },
      [this](const WatchedAdmissionCheck& last) {
        spec_problems_.Forget(k8s::kAdmissionChecks, last.meta.key());
        catalog_.admission_checks.erase(last.meta.name);
        check_finalizers_.Deleted(last.meta.name);
        Apply(engine::AdmissionCheckDeleted{last.meta.name});
      });
}

// Also where a LocalQueue points to it by now.
void Controller::Impl::ChecksChanged(const std::string& cluster_queue) {
  jobs_.ChecksChanged(cluster_queue);
  workload_controller_.ChecksChanged(cluster_queue);
  check_finalizers_.TouchAll();
}

void Controller::Impl::ClusterQueueChanged(const WatchedClusterQueue& object) {
  spec_problems_.Note(k8s::kClusterQueues, object.meta, object.queue.misconfigured);
  const auto it = catalog_.cluster_queues.find(object.meta.name);
  const bool known = it != catalog_.cluster_queues.end();
  const bool same = known && it->second == object.queue;
  const bool stop_changed = !known || it->second.stop_policy != object.queue.stop_policy;
  const bool checks_changed =
      known ? it->second.admission_checks != object.queue.admission_checks : !object.queue.admission_checks.empty();
  if (!same) {
    catalog_.cluster_queues.insert_or_assign(object.meta.name, object.queue);
    Apply(engine::ClusterQueueChanged{object.queue});
  }
  cluster_queue_status_.Observe(std::make_shared<const QueueObject>(QueueObject{object.meta, object.status}));
  if (stop_changed) QueueStopChanged("", "", object.meta.name);
  if (checks_changed) ChecksChanged(object.meta.name);
}

void Controller::Impl::LocalQueueChanged(const WatchedLocalQueue& object) {
  spec_problems_.Note(k8s::kLocalQueues, object.meta, object.queue.misconfigured);
  const auto key = std::pair(object.meta.ns, object.meta.name);
  const auto it = catalog_.local_queues.find(key);
  const bool known = it != catalog_.local_queues.end();
  const bool same = known && it->second == object.queue;
  const bool stop_changed = !known || it->second.stop_policy != object.queue.stop_policy;
  const bool moved = known && it->second.cluster_queue != object.queue.cluster_queue;
  if (!same) {
    catalog_.PutLocalQueue(key, object.queue);
    Apply(engine::LocalQueueChanged{object.queue});
  }
  local_queue_status_.Observe(std::make_shared<const QueueObject>(QueueObject{object.meta, object.status}));
  if (stop_changed) QueueStopChanged(object.meta.ns, object.meta.name, "");
  if (moved) ChecksChanged(object.queue.cluster_queue);
}

void Controller::Impl::QueueStopChanged(const std::string& ns, const std::string& local_queue,
                                        const std::string& cluster_queue) {
  for (const Catalog::QueueKey& queue : catalog_.QueuesMeant(ns, local_queue, cluster_queue)) {
    jobs_.QueueChanged(queue);
    workload_controller_.QueueChanged(queue);
  }
}

// A Workload can become a Job's, and be let go by it.
void Controller::Impl::WorkloadChanged(const std::shared_ptr<const Workload>& object) {
  if (JobOf(object->meta).has_value()) {
    workload_controller_.WorkloadLeft(object->meta.uid);
    jobs_.WorkloadChanged(object);
  } else {
    jobs_.WorkloadLeft(*object);
    workload_controller_.WorkloadChanged(object);
  }
  jobs_.PrebuiltChanged(object->meta.key());
}

void Controller::Impl::WatchJobs() {
  workloads_ = Watch<Workload>(
      k8s::kWorkloads, DecodeWorkload,
      [this](const std::shared_ptr<const Workload>& object) {
        retention_.Observe(*object);
        finished_.Observe(*object);
        if (ShowsPlaces(*object)) machines_.Need();
        WorkloadChanged(object);
      },
      [this](const Workload& last) {
        retention_.Deleted(last);
        finished_.Forget(last.meta.key());
        workload_controller_.WorkloadLeft(last.meta.uid);
        jobs_.WorkloadDeleted(last);
        jobs_.PrebuiltChanged(last.meta.key());
      });
  job_informer_ = Watch<Job>(
      k8s::kJobs,
      [this](std::string_view json) {
        auto job = DecodeJob(json, &texts_);
        if (job.ok()) jobs_.TakeTemplate(&*job);
        return job;
      },
      [this](const std::shared_ptr<const Job>& object) { jobs_.JobChanged(object); },
      [this](const Job& last) { jobs_.JobDeleted(last); });
}

template <typename Visit>
void Controller::Impl::ForEachInformer(Visit visit) const {
  visit("Namespace", *namespaces_);
  surroundings_.ForEach(visit);
  machines_.ForEach(visit);
  visit("ResourceFlavor", *flavor_informer_);
  visit("Cohort", *cohorts_);
  visit("AdmissionCheck", *admission_checks_);
  visit("ClusterQueue", *cluster_queues_);
  visit("LocalQueue", *local_queues_);
  visit("Workload", *workloads_);
  visit("Job", *job_informer_);
  visit("Pod", elastic_pods_.informer());
}

bool Controller::Impl::Synced() const {
  bool synced = true;
  ForEachInformer([&synced](const char*, const auto& informer) { synced = synced && informer.synced(); });
  return synced;
}

// ---- leadership ---------------------------------------------------------------------------------

void Controller::Impl::Start() {
  machines_.Start();
  ForEachInformer([](const char*, auto& informer) { informer.Start(); });
  server_.Start();
  if (options_.check_policies) policies_.Start();
  kueue_.Start([this] { KueueChanged(); });
  conversion_.Start();
  identity_.Start();
  rights_.Start();
}

void Controller::Impl::KueueChanged() {
  if (!kueue_.clear()) {
    if (engine_ != nullptr) GiveUp(kueue_.problem());
  } else if (!std::exchange(stands_, true)) {
    Elect();
  }
}

void Controller::Impl::GiveUp(const std::string& why) {
  gave_up_ = true;
  jobs_.StopWriting();
  workload_controller_.StopWriting();
  if (!stopping_) lost_leadership_(why);
}

void Controller::Impl::Elect() {
  if (stopping_) return;
  if (!options_.leader_elect) {
    // Unique to this run, as a leader's term would be.
    return TakeOver(static_cast<uint64_t>(env_.clock->Now().unix_nanos));
  }
  k8s::LeaderElector::Callbacks callbacks;
  callbacks.started_leading = [this](uint64_t term) { TakeOver(term); };
  callbacks.stopped_leading = [this] { GiveUp("leadership was lost"); };
  callbacks.new_leader = [](const std::string& identity) {
    spdlog::info("there is a new leader{}", LogFields({{"identity", identity}}));
  };
  elector_ = std::make_unique<k8s::LeaderElector>(env_, client_, options_.lease, std::move(callbacks));
  elector_->Start();
}

// The predecessor's last write may still be on its way: wait as long as it can be, and read everything after that.
// In the first term of a lease too, which may have been deleted, and without election: a start that is still to be
// applied shows nowhere.
void Controller::Impl::TakeOver(uint64_t term) {
  if (stopping_) return;
  spdlog::info("leader; waiting for writes of a predecessor{}", LogFields({{"term", std::to_string(term)}}));
  env_.executor->PostAt(env_.clock->Mono() + options_.takeover_wait, [this, alive = std::weak_ptr<bool>(alive_), term] {
    if (alive.expired() || stopping_) return;
    ready_from_ = env_.clock->Mono();
    kueue_.Look();
    RelistAll([this, term] { OnceReady([this, term] { LeadAbove(term); }); });
  });
}

// Records of a later term than the lease tells of: it was deleted. No two claims may have one id.
void Controller::Impl::LeadAbove(uint64_t term) {
  const uint64_t highest = std::max(jobs_.HighestTerm(), workload_controller_.HighestTerm());
  if (elector_ == nullptr || highest < term) return Lead(term);
  elector_->RaiseTerm(highest, [this](uint64_t raised) {
    if (!stopping_ && !gave_up_) Lead(raised);
  });
}

void Controller::Impl::RelistAll(std::function<void()> done) {
  auto left = std::make_shared<int>(1);
  auto one_done = [left, done = std::move(done), alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired() && --*left == 0) done();
  };
  ForEachInformer([&left, &one_done](const char*, auto& informer) {
    ++*left;
    informer.Relist(one_done);
  });
  one_done();
}

// All objects are known, and Kueue was seen not to be at work since this began.
void Controller::Impl::OnceReady(std::function<void()> then) {
  if (stopping_ || gave_up_) return;
  if (Synced() && kueue_.clear() && kueue_.as_of() >= ready_from_) return then();
  env_.executor->PostAt(env_.clock->Mono() + kPoll,
                        [this, alive = std::weak_ptr<bool>(alive_), then = std::move(then)]() mutable {
                          if (!alive.expired()) OnceReady(std::move(then));
                        });
}

void Controller::Impl::Lead(uint64_t epoch) {
  engine::EngineOptions options = EngineOptionsOf(options_);
  options.epoch = epoch;
  engine_ = std::make_unique<engine::EngineSet>(options);
  catalog_.TellAll(engine_.get());
  spec_problems_.Lead();
  ForEachInformer([this](const char*, const auto& informer) {
    for (const auto& [key, unreadable] : informer.unreadable()) {
      spec_problems_.WriteEvent(informer.resource(), unreadable.meta, unreadable.message);
    }
  });
  cluster_queue_status_.Open();
  local_queue_status_.Open();
  cohort_status_.Open();
  adopted_.Begin(epoch);
  jobs_.Lead(engine_.get());
  workload_controller_.Lead(engine_.get());
  machines_.Lead();
  if (!options_.release) {
    retention_.Open();
    check_finalizers_.Open();
  }
  for (const auto& [name, queue] : catalog_.cluster_queues) cluster_queue_status_.Touch({"", name});
  for (const auto& [key, queue] : catalog_.local_queues) local_queue_status_.Touch({key.first, key.second});
  for (const auto& [name, cohort] : catalog_.cohorts) cohort_status_.Touch({"", name});
  spdlog::info("leading{}", LogFields({{"epoch", std::to_string(epoch)}}));
  DecideSoon();
}

bool Controller::Impl::MayWrite() const {
  if (stopping_ || gave_up_ || engine_ == nullptr) return false;
  return !options_.leader_elect || (elector_ != nullptr && elector_->MayWrite());
}

// ---- deciding -----------------------------------------------------------------------------------

void Controller::Impl::Apply(engine::Event event) {
  if (engine_ == nullptr) return;
  engine_->Apply(event);
  DecideSoon();
}

// After everything that is already waiting to be heard: one run for a burst of events.
void Controller::Impl::DecideSoon() {
  if (engine_ == nullptr || std::exchange(decide_posted_, true)) return;
  env_.executor->Post([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    decide_posted_ = false;
    Decide();
  });
}

void Controller::Impl::Decide() {
  if (stopping_ || gave_up_) return;
  if (!MayWrite()) {
    // Between the write gate's deadline and the elector's a renewal may still come through: nothing may be lost.
    if (elector_ != nullptr && elector_->leading()) DecideAt(env_.clock->Mono() + kGatePoll);
    return;
  }
  if (options_.release) return ReleaseRecords();
  const MonoTime begun = env_.clock->Mono();
  const std::vector<engine::Decision> decisions = engine_->Decide(env_.clock->Now());
  if (!decisions.empty()) {
    const bool admitted = std::any_of(decisions.begin(), decisions.end(), [](const engine::Decision& d) {
      return !std::holds_alternative<engine::Hold>(d);
    });
    telemetry_->AdmissionAttempt(admitted, env_.clock->Mono() - begun);
  }
  for (const auto& made : engine_->TakeTargetRecomputations()) telemetry_->TargetsRecomputed(made);
  for (const engine::Decision& decision : decisions) {
    if (!workload_controller_.Decided(decision)) jobs_.Decided(decision);
  }
  unserved_quota_.Look(*engine_);
  ungater_.ClaimsChanged();
  const engine::ChangedQueues changed = engine_->TakeChangedQueues();
  for (const std::string& name : changed.cluster_queues) cluster_queue_status_.Touch({"", name});
  for (const auto& [ns, name] : changed.local_queues) local_queue_status_.Touch({ns, name});
  for (const std::string& name : changed.cohorts) cohort_status_.Touch({"", name});
  ArmDue();
}

void Controller::Impl::ReleaseRecords() {
  JobController::ReleaseProgress progress = jobs_.ReleaseRecords();
  std::string told = LogFields({{"jobs", std::to_string(progress.left)}, {"waitsFor", progress.waits_for}});
  if (told != release_told_) spdlog::info("admission records are left{}", told);
  release_told_ = std::move(told);
  release_left_ = progress.left;
  release_problems_ = std::move(progress.problems);
  if (progress.left > 0) DecideAt(env_.clock->Mono() + kReleasePoll);
}

void Controller::Impl::ArmDue() {
  env_.executor->Cancel(std::exchange(due_timer_, 0));
  const WallTime due = engine_->NextDue();
  if (!due.IsSet()) return;
  DecideAt(env_.clock->Mono() + std::max(due - env_.clock->Now(), Duration(std::chrono::milliseconds(1))));
}

void Controller::Impl::DecideAt(MonoTime when) {
  env_.executor->Cancel(due_timer_);
  due_timer_ = env_.executor->PostAt(when, [this] {
    due_timer_ = 0;
    DecideSoon();
  });
}

// ---- the end ------------------------------------------------------------------------------------

void Controller::Impl::Stop(std::function<void()> done) {
  stopping_ = true;
  jobs_.StopWriting();
  workload_controller_.StopWriting();
  // What is still on its way then can no longer be applied, or has no answer to come.
  Drain(env_.clock->Mono() + client_->options().lands_within(), std::move(done));
}

void Controller::Impl::Drain(MonoTime deadline, std::function<void()> done) {
  if (client_->in_flight() > 0 && env_.clock->Mono() < deadline) {
    env_.executor->PostAt(env_.clock->Mono() + kPoll,
                          [this, alive = std::weak_ptr<bool>(alive_), deadline, done = std::move(done)]() mutable {
                            if (!alive.expired()) Drain(deadline, std::move(done));
                          });
    return;
  }
  if (elector_ == nullptr) {
    done();
    return;
  }
  elector_->Release(std::move(done));
}

Health Controller::Impl::health() const {
  Health out;
  out.leading = engine_ != nullptr && !stopping_ && !gave_up_;
  out.lease_healthy = elector_ == nullptr || elector_->healthy();
  ForEachInformer([&out](const char* kind, const auto& informer) {
    if (!informer.synced()) out.not_synced.emplace_back(kind);
    out.informers.push_back({kind, informer.reflector().lists(), informer.reflector().watch_cuts(),
                             static_cast<int64_t>(informer.objects().size())});
    if (!informer.reflector().problem().empty()) {
      out.problems.push_back(Cat("watch of ", kind, ": ", informer.reflector().problem()));
    }
    if (const auto& unreadable = informer.unreadable(); !unreadable.empty()) {
      // One for each kind: there may be thousands.
      const size_t more = unreadable.size() - 1;
      out.problems.push_back(Cat("cannot be read: ", unreadable.begin()->second.message,
                                 more == 0 ? std::string() : Cat(" (and ", more, " more of kind ", kind, ")")));
    }
  });
  for (std::string& problem : spec_problems_.Standing()) out.problems.push_back(std::move(problem));
  out.synced = out.not_synced.empty();
  for (const std::string& problem :
       {kueue_.problem(), server_.problem(), conversion_.problem(), identity_.problem(), rights_.problem()}) {
    if (!problem.empty()) out.problems.push_back(problem);
  }
  for (const auto* problems : {&policies_.problems(), &release_problems_, &unserved_quota_.problems()}) {
    out.problems.insert(out.problems.end(), problems->begin(), problems->end());
  }
  out.release_left = release_left_;
  return out;
}

// ---- the public face ----------------------------------------------------------------------------

Controller::Controller(Environment env, k8s::Client* client, Options options, engine::Telemetry* telemetry,
                       std::function<void(std::string why)> lost_leadership)
    : impl_(std::make_unique<Impl>(env, client, std::move(options), telemetry, std::move(lost_leadership))) {}

Controller::~Controller() = default;

void Controller::Start() { impl_->Start(); }
void Controller::Stop(std::function<void()> done) { impl_->Stop(std::move(done)); }
Health Controller::health() const { return impl_->health(); }
const engine::EngineSet* Controller::engine() const { return impl_->engine(); }
const FinishedCounts& Controller::finished() const { return impl_->finished(); }
std::map<std::string, EvictingCount> Controller::evicting() const { return impl_->evicting(); }

}  // namespace muster::controller
