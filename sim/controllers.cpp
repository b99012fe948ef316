#include "muster/sim/controllers.h"

#include <algorithm>
#include <utility>

#include "garbage_collector.h"
#include "job_controller.h"

namespace muster::sim {
namespace {

constexpr const char* kTtlUser = "system:serviceaccount:kube-system:ttl-after-finished-controller";
constexpr const char* kNamespaceUser = "system:serviceaccount:kube-system:namespace-controller";
constexpr Duration kNamespaceRetry = std::chrono::milliseconds(500);

// When the Job ended, by its conditions.
WallTime EndOf(const Json& job) {
  for (const char* type : {"Complete", "Failed"}) {
    const Json& condition = FindCondition(At(job, "status", "conditions"), type);
    if (Text(Get(condition, "status")) != "True") continue;
    return ParseTime(Text(Get(condition, "lastTransitionTime"))).value_or(WallTime{});
  }
  return {};
}

}  // namespace

class SimControllers::Impl {
 public:
  Impl(SimExecutor* executor, SimStore* store, const ControllerOptions& options)
      : executor_(executor),
        store_(store),
        options_(options),
        source_(executor->NewSource("controllers")),
        random_(executor->NewRandom("controllers")),
        jobs_(executor, store, source_.get(), options),
        collector_(
            executor, store, source_.get(), options, [this](const std::string& uid) { return jobs_.HasPods(uid); },
            [this](const std::string& uid) { jobs_.DeletePods(uid); }) {
    store_->Subscribe([this](const Change& change) { Observe(change); });
  }

  PodCounts PodsOf(const std::string& uid) const { return jobs_.PodsOf(uid); }
  void SetPaused(bool paused) { source_->SetPaused(paused); }

 private:
  // A commit reaches the caches in order, each a little later.
  void Observe(const Change& change) {
    const auto span = static_cast<uint64_t>((options_.cache.max - options_.cache.min).count());
    const MonoTime now = executor_->Mono();
    const MonoTime wanted = now + options_.cache.min + Duration(static_cast<int64_t>(random_.Below(span + 1)));
    cache_time_ = std::max(cache_time_, wanted);
    source_->PostAt(cache_time_, [this, change] {
      if (options_.jobs) jobs_.OnChange(change);
      collector_.OnChange(change);
      if (change.type == Change::Type::kDeleted) return;
      if (change.kind->plural == "jobs") CheckTtl(*change.object);
      if (change.kind->plural == "namespaces") CheckNamespace(*change.object);
    });
  }

  void CheckTtl(const Json& job) {
    const Json& ttl = At(job, "spec", "ttlSecondsAfterFinished");
    const WallTime end = EndOf(job);
    if (!ttl.is_number_integer() || !end.IsSet() || !At(job, "metadata", "deletionTimestamp").is_null()) return;
    const Duration left = end + std::chrono::seconds(Number(ttl)) - executor_->Now();
    const Target target{store_->FindKind("batch", "jobs"), "v1", Text(At(job, "metadata", "namespace")),
                        Text(At(job, "metadata", "name")), ""};
    DeleteOptions options;
    options.propagation = "Foreground";
    options.uid = Text(At(job, "metadata", "uid"));
    source_->PostAt(executor_->Mono() + std::max(left, Duration(0)), [this, target, options] {
      const JsonPtr present = store_->Peek(target.kind, target.ns, target.name);
      if (present != nullptr && At(*present, "metadata", "deletionTimestamp").is_null()) {
        store_->Delete(kTtlUser, target, options);
      }
    });
  }

  void CheckNamespace(const Json& object) {
    if (!At(object, "metadata", "deletionTimestamp").is_null()) EmptyNamespace(Text(At(object, "metadata", "name")));
  }

  void EmptyNamespace(const std::string& name) {
    bool empty = true;
    DeleteOptions options;
    options.propagation = "Background";
    for (const auto& kind : store_->kinds()) {
      if (!kind->namespaced) continue;
      const Target target{kind.get(), kind->versions.front(), name, "", ""};
      store_->DeleteCollection(kNamespaceUser, target, {}, options);
      empty = empty && store_->List(target, {}).body["items"].empty();
    }
    const JsonPtr present = store_->Peek(store_->FindKind("", "namespaces"), "", name);
    if (present == nullptr) return;
    if (empty) {
      store_->FinalizeNamespace(name);
    } else {
      source_->PostAt(executor_->Mono() + kNamespaceRetry, [this, name] { EmptyNamespace(name); });
    }
  }

  SimExecutor* executor_;
  SimStore* store_;
  ControllerOptions options_;
  std::unique_ptr<SimSource> source_;
  SeededRandom random_;
  MonoTime cache_time_;
  JobController jobs_;
  GarbageCollector collector_;
};

SimControllers::SimControllers(SimExecutor* executor, SimStore* store, ControllerOptions options)
    : impl_(std::make_unique<Impl>(executor, store, options)) {}
SimControllers::~SimControllers() = default;
PodCounts SimControllers::PodsOf(const std::string& job_uid) const { return impl_->PodsOf(job_uid); }
void SimControllers::SetPaused(bool paused) { impl_->SetPaused(paused); }

}  // namespace muster::sim
