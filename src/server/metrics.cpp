#include "muster/server/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <set>
#include <utility>

#include "machine_gauges.h"
#include "metric_vec.h"
#include "muster/core/check.h"
#include "queue_gauges.h"

namespace muster::server {
namespace {

constexpr std::string_view kRoleLabel = "replica_role";

std::string RoleName(ReplicaRole role) {
  switch (role) {
    case ReplicaRole::kLeader:
      return "leader";
    case ReplicaRole::kFollower:
      return "follower";
    case ReplicaRole::kStandalone:
      return "standalone";
  }
  MUSTER_CHECK(false);
}

// A pair of series, by ClusterQueue and by LocalQueue, that one observation adds to.
struct QueueCounter {
  CounterVec cluster_queue;
  CounterVec local_queue;
};
struct QueueHistogram {
  HistogramVec cluster_queue;
  HistogramVec local_queue;
};

QueueCounter MakeCounter(const std::string& name, const std::string& help, std::vector<std::string> more) {
  std::vector<std::string> cq = {"cluster_queue"};
  std::vector<std::string> lq = {"name", "namespace"};
  cq.insert(cq.end(), more.begin(), more.end());
  lq.insert(lq.end(), more.begin(), more.end());
  return {CounterVec(MetricOwner::kClusterQueue, {"kueue_" + name, help + ", by ClusterQueue", cq}),
          CounterVec(MetricOwner::kLocalQueue, {"kueue_local_queue_" + name, help + ", by LocalQueue", lq})};
}

// Of times that can be days.
QueueHistogram MakeHistogram(const std::string& name, const std::string& help) {
  constexpr int kBounds = 20;
  return {HistogramVec(MetricOwner::kClusterQueue,
                       {"kueue_" + name, help + ", by ClusterQueue", {"cluster_queue", "priority_class"}},
                       KueueBuckets(kBounds)),
          HistogramVec(MetricOwner::kLocalQueue,
                       {"kueue_local_queue_" + name, help + ", by LocalQueue", {"name", "namespace", "priority_class"}},
                       KueueBuckets(kBounds))};
}

}  // namespace

class Metrics::Impl {
 public:
  Impl(MetricsOptions options, BuildInfo build, MetricsSource source)
      : options_(options), build_(std::move(build)), source_(std::move(source)) {}

  void Count(QueueCounter& counter, const engine::QueueRef& queue, std::vector<std::string> labels) {
    if (options_.local_queues && !queue.local_queue.empty()) {
      LabelValues values = {queue.local_queue, queue.ns};
      values.insert(values.end(), labels.begin(), labels.end());
      counter.local_queue.Add(values);
    }
    if (queue.cluster_queue.empty()) return;
    labels.insert(labels.begin(), queue.cluster_queue);
    counter.cluster_queue.Add(labels);
  }

  void Observe(QueueHistogram& histogram, const engine::QueueRef& queue, Duration value) {
    if (options_.local_queues && !queue.local_queue.empty()) {
      histogram.local_queue.Observe({queue.local_queue, queue.ns, queue.priority_class}, value);
    }
    if (!queue.cluster_queue.empty()) {
      histogram.cluster_queue.Observe({queue.cluster_queue, queue.priority_class}, value);
    }
  }

  void CountInCohorts(const engine::QueueRef& queue) {
    const engine::EngineSet* engine = source_.engine();
    if (engine == nullptr) return;
    for (const std::string& cohort : engine->CohortsOf(queue.cluster_queue)) {
      cohort_admitted.Add({cohort, queue.priority_class});
    }
  }

  // Calls f on each vector of this class.
  template <typename F>
  void ForEach(F f) {
    f(attempts);
    f(attempt_duration);
    for (QueueCounter* c : {&quota_reserved, &admitted, &evicted, &finished}) {
      f(c->cluster_queue);
      f(c->local_queue);
    }
    for (QueueHistogram* h :
         {&quota_reserved_wait, &admission_wait, &checks_wait, &execution, &ready_wait, &until_ready}) {
      f(h->cluster_queue);
      f(h->local_queue);
    }
    f(cohort_admitted);
    f(evicted_once);
    f(evicted_pods);
    f(preempted);
    f(recomputations);
    f(replaced_slices);
    f(eviction_latency);
    f(ready_to_evicted);
    f(creation_latency);
    f(writes);
    f(write_duration);
    f(events_dropped);
  }

  void Sweep() {
    const engine::EngineSet* engine = source_.engine();
    if (engine == nullptr) return;
    const std::vector<std::string> cq_names = engine->ClusterQueueNames();
    const std::set<std::string> cqs(cq_names.begin(), cq_names.end());
    const auto lq_names = engine->LocalQueueNames();
    const std::set<std::pair<std::string, std::string>> lqs(lq_names.begin(), lq_names.end());
    const std::vector<std::string> cohort_names = engine->CohortNames();
    const std::set<std::string> cohorts(cohort_names.begin(), cohort_names.end());
    const auto gone = [&](MetricOwner owner, const LabelValues& labels) {
      switch (owner) {
        case MetricOwner::kProcess:
          return false;
        case MetricOwner::kClusterQueue:
          return !cqs.contains(labels[0]);
        case MetricOwner::kLocalQueue:
          return !lqs.contains({labels[1], labels[0]});
        case MetricOwner::kCohort:
          return !cohorts.contains(labels[0]);
      }
      MUSTER_CHECK(false);
    };
    ForEach([&gone](auto& vec) {
      vec.EraseIf([&gone, owner = vec.owner()](const LabelValues& labels) { return gone(owner, labels); });
    });
  }

  std::vector<prometheus::MetricFamily> Collect() {
    Sweep();
    std::vector<prometheus::MetricFamily> families;
    ForEach([&families](auto& vec) { families.push_back(vec.Collect()); });
    if (const engine::EngineSet* engine = source_.engine(); engine != nullptr) {
      AppendQueueGauges(*engine, source_.finished(), options_, &families);
      AppendEvicting(*engine, &families);
      AppendMachineGauges(*engine, &families);
    }
    AppendInformers(&families);
    GaugeFamily problems({"muster_standing_problems", "Problems that /debug/readyz lists", {}});
    problems.Set({}, static_cast<double>(source_.problems()));
    families.push_back(std::move(problems).Take());
    const std::string role = RoleName(source_.role());
    for (prometheus::MetricFamily& family : families) {
      for (prometheus::ClientMetric& metric : family.metric) metric.label.push_back({std::string(kRoleLabel), role});
    }
    families.push_back(BuildInfoFamily());
    std::erase_if(families, [](const prometheus::MetricFamily& family) { return family.metric.empty(); });
    return families;
  }

  CounterVec attempts{MetricOwner::kProcess,
                      {"kueue_admission_attempts_total",
                       "Runs of the engine with something to decide on; result is success where anybody was admitted "
                       "or evicted, else inadmissible",
                       {"result"}}};
  HistogramVec attempt_duration{MetricOwner::kProcess,
                                {"kueue_admission_attempt_duration_seconds", "Time of such a run", {"result"}},
                                DefaultBuckets()};
  QueueCounter quota_reserved =
      MakeCounter("quota_reserved_workloads_total", "Workloads that got their quota", {"priority_class"});
  QueueCounter admitted = MakeCounter("admitted_workloads_total", "Workloads admitted", {"priority_class"});
  QueueCounter evicted =
      MakeCounter("evicted_workloads_total", "Evictions", {"reason", "underlying_cause", "priority_class"});
  QueueCounter finished = MakeCounter("finished_workloads_total", "Workloads finished", {"priority_class"});
  QueueHistogram quota_reserved_wait = MakeHistogram("quota_reserved_wait_time_seconds",
                                                     "Time from creation or the last requeue until quota was reserved");
  QueueHistogram admission_wait =
      MakeHistogram("admission_wait_time_seconds", "Time from creation or the last requeue until admission");
  QueueHistogram checks_wait =
      MakeHistogram("admission_checks_wait_time_seconds", "Time from the quota reservation until admission");
  QueueHistogram execution =
      MakeHistogram("execution_time_seconds", "Time that finished Workloads were admitted in all");
  CounterVec cohort_admitted{MetricOwner::kCohort,
                             {"kueue_cohort_subtree_admitted_workloads_total",
                              "Workloads admitted in the ClusterQueues below the Cohort",
                              {"cohort", "priority_class"}}};
  CounterVec evicted_once{MetricOwner::kClusterQueue,
                          {"kueue_evicted_workloads_once_total",
                           "Workloads evicted for the first time for that reason and cause",
                           {"cluster_queue", "reason", "underlying_cause", "priority_class"}}};
  CounterVec evicted_pods{MetricOwner::kClusterQueue,
                          {"muster_evicted_pods_total",
                           "Pods of evicted Workloads that had not ended",
                           {"cluster_queue", "reason", "underlying_cause"}}};
  CounterVec preempted{MetricOwner::kClusterQueue,
                       {"kueue_preempted_workloads_total",
                        "Workloads evicted to make room for others, by the ClusterQueue of those",
                        {"preempting_cluster_queue", "reason"}}};
  CounterVec recomputations{MetricOwner::kClusterQueue,
                            {"kueue_preemption_target_recomputations_total",
                             "Times that workloads to preempt were looked for anew, since others of the pass preempt "
                             "some of them, by what came of it",
                             {"cluster_queue", "result"}}};
  CounterVec replaced_slices{MetricOwner::kClusterQueue,
                             {"kueue_replaced_workload_slices_total",
                              "Times that more pods of a running elastic Job were admitted",
                              {"cluster_queue"}}};
  HistogramVec eviction_latency{MetricOwner::kClusterQueue,
                                {"kueue_workload_eviction_latency_seconds",
                                 "Time from the eviction until the quota was free",
                                 {"cluster_queue", "reason"}},
                                KueueBuckets(20)};
  QueueHistogram ready_wait =
      MakeHistogram("ready_wait_time_seconds", "Time from creation or the last requeue until all pods were ready");
  QueueHistogram until_ready =
      MakeHistogram("admitted_until_ready_wait_time_seconds", "Time from admission until all pods were ready");
  HistogramVec ready_to_evicted{MetricOwner::kClusterQueue,
                                {"kueue_pods_ready_to_evicted_time_seconds",
                                 "Time for which the pods of an evicted Workload had been ready",
                                 {"cluster_queue", "reason", "underlying_cause"}},
                                KueueBuckets(20)};
  HistogramVec creation_latency{MetricOwner::kProcess,
                                {"kueue_workload_creation_latency_seconds",
                                 "Time from the creation of a job until its Workload existed",
                                 {"job_kind"}},
                                DoublingBuckets(std::chrono::milliseconds(10), 11)};
  CounterVec writes{MetricOwner::kProcess,
                    {"muster_api_writes_total",
                     "Writes to the API server that ended; code 0 is no answer",
                     {"resource", "verb", "code"}}};
  HistogramVec write_duration{
      MetricOwner::kProcess,
      {"muster_api_write_duration_seconds", "Time from sending a write until its end", {"resource", "verb"}},
      DefaultBuckets()};
  CounterVec events_dropped{MetricOwner::kProcess,
                            {"muster_events_dropped_total", "Events that were not written, for lack of room", {}}};

 private:
  void AppendInformers(std::vector<prometheus::MetricFamily>* families) const {
    CounterVec lists(
        MetricOwner::kProcess,
        {"muster_informer_lists_total", "Lists of a kind; more than one: its watch could not be resumed", {"kind"}});
    CounterVec cuts(MetricOwner::kProcess,
                    {"muster_informer_watch_cuts_total", "Watches of a kind that ended out of order", {"kind"}});
    GaugeFamily objects({"muster_informer_objects", "Objects of a kind that are known", {"kind"}});
    for (const InformerCounts& informer : source_.informers()) {
      objects.Set({informer.kind}, static_cast<double>(informer.objects));
      lists.Add({informer.kind}, static_cast<uint64_t>(informer.lists));
      cuts.Add({informer.kind}, static_cast<uint64_t>(informer.watch_cuts));
    }
    families->push_back(std::move(objects).Take());
    families->push_back(lists.Collect());
    families->push_back(cuts.Collect());
  }

  void AppendEvicting(const engine::EngineSet& engine, std::vector<prometheus::MetricFamily>* families) const {
    GaugeFamily workloads(
        {"muster_evicting_workloads", "Workloads that are evicted and still hold their quota", {"cluster_queue"}});
    GaugeFamily oldest({"muster_oldest_eviction_timestamp_seconds",
                        "Unix time since when the one of them is evicted that takes longest",
                        {"cluster_queue"}});
    const std::vector<std::string> names = engine.ClusterQueueNames();
    for (const auto& [cluster_queue, count] : source_.evicting()) {
      if (!std::binary_search(names.begin(), names.end(), cluster_queue)) continue;
      workloads.Set({cluster_queue}, static_cast<double>(count.workloads));
      oldest.Set({cluster_queue}, static_cast<double>(count.oldest.unix_nanos) / 1e9);
    }
    families->push_back(std::move(workloads).Take());
    families->push_back(std::move(oldest).Take());
  }

  prometheus::MetricFamily BuildInfoFamily() const {
    GaugeFamily family({"kueue_build_info",
                        "1, with what runs in the labels",
                        {"git_version", "git_commit", "build_date", "go_version", "compiler", "platform"}});
    family.Set({build_.version, build_.commit, build_.date, "", build_.compiler, build_.platform}, 1);
    return std::move(family).Take();
  }

  const MetricsOptions options_;
  const BuildInfo build_;
  const MetricsSource source_;
};

Metrics::Metrics(MetricsOptions options, BuildInfo build, MetricsSource source)
    : impl_(std::make_unique<Impl>(options, std::move(build), std::move(source))) {}
Metrics::~Metrics() = default;

void Metrics::AdmissionAttempt(bool admitted, Duration took) {
  const std::string result = admitted ? "success" : "inadmissible";
  impl_->attempts.Add({result});
  impl_->attempt_duration.Observe({result}, took);
}

void Metrics::QuotaReserved(const engine::QueueRef& queue, Duration wait) {
  impl_->Count(impl_->quota_reserved, queue, {queue.priority_class});
  impl_->Observe(impl_->quota_reserved_wait, queue, wait);
}

void Metrics::Admitted(const engine::QueueRef& queue, Duration wait, Duration checks_wait) {
  impl_->Count(impl_->admitted, queue, {queue.priority_class});
  impl_->Observe(impl_->admission_wait, queue, wait);
  impl_->Observe(impl_->checks_wait, queue, checks_wait);
  impl_->CountInCohorts(queue);
}

void Metrics::Evicted(const engine::QueueRef& queue, const std::string& reason, const std::string& underlying_cause,
                      int64_t pods, bool first_for_reason) {
  impl_->Count(impl_->evicted, queue, {reason, underlying_cause, queue.priority_class});
  if (queue.cluster_queue.empty()) return;
  impl_->evicted_pods.Add({queue.cluster_queue, reason, underlying_cause}, static_cast<uint64_t>(pods));
  if (first_for_reason) {
    impl_->evicted_once.Add({queue.cluster_queue, reason, underlying_cause, queue.priority_class});
  }
}

void Metrics::Preempted(const std::string& preempting_cluster_queue, const std::string& reason) {
  impl_->preempted.Add({preempting_cluster_queue, reason});
}

void Metrics::TargetsRecomputed(const engine::TargetRecomputations& made) {
  impl_->recomputations.Add({made.cluster_queue, std::string(engine::Name(made.result))},
                            static_cast<uint64_t>(made.count));
}

void Metrics::SliceReplaced(const engine::QueueRef& queue) {
  if (!queue.cluster_queue.empty()) impl_->replaced_slices.Add({queue.cluster_queue});
}

void Metrics::EvictionDone(const engine::QueueRef& queue, const std::string& reason, Duration took) {
  if (!queue.cluster_queue.empty()) impl_->eviction_latency.Observe({queue.cluster_queue, reason}, took);
}

void Metrics::PodsReady(const engine::QueueRef& queue, Duration wait, Duration since_admission) {
  impl_->Observe(impl_->ready_wait, queue, wait);
  impl_->Observe(impl_->until_ready, queue, since_admission);
}

void Metrics::ReadyPodsEvicted(const engine::QueueRef& queue, const std::string& reason,
                               const std::string& underlying_cause, Duration ready_for) {
  if (queue.cluster_queue.empty()) return;
  impl_->ready_to_evicted.Observe({queue.cluster_queue, reason, underlying_cause}, ready_for);
}

void Metrics::Finished(const engine::QueueRef& queue, Duration execution) {
  impl_->Count(impl_->finished, queue, {queue.priority_class});
  impl_->Observe(impl_->execution, queue, execution);
}

void Metrics::WorkloadCreated(const std::string& job_kind, Duration latency) {
  impl_->creation_latency.Observe({job_kind}, latency);
}

void Metrics::Write(const std::string& resource, const std::string& verb, int code, Duration took) {
  impl_->writes.Add({resource, verb, std::to_string(code)});
  impl_->write_duration.Observe({resource, verb}, took);
}

void Metrics::EventDropped() { impl_->events_dropped.Add({}); }

void Metrics::Sweep() { impl_->Sweep(); }

std::vector<prometheus::MetricFamily> Metrics::Collect() const { return impl_->Collect(); }

std::string RenderMetrics(const std::vector<prometheus::MetricFamily>& families) {
  return prometheus::TextSerializer().Serialize(families);
}

Handler MetricsHandler(Executor* executor, const Metrics* metrics) {
  return [executor, metrics](const HttpRequest& /*request*/, Respond respond) {
    executor->Post([metrics, respond = std::move(respond)]() mutable {
      respond([families = metrics->Collect()] {
        return HttpReply{200, "text/plain; version=0.0.4; charset=utf-8", RenderMetrics(families)};
      });
    });
  };
}

}  // namespace muster::server
