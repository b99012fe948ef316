// What ResourceQuotas promise after any history, held against a count of everything from the objects: nobody is
// admitted whom a ResourceQuota would cut, and nobody waits whom none would, since there is ample room of everything
// else.
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "draws.h"
#include "on_machines.h"

namespace muster::engine {

namespace {

std::string AnyOf(const std::string& prefix, int count) { return prefix + std::to_string(Draw(0, count)); }

class Run {
 public:
  Run() : engine_(WithMachines()) {
    for (const char* name : {"a", "b"}) Apply(FlavorChanged{Pool(name)});
    Apply(NodeChanged{PoolNode("n", "a", 1'000'000, 1'000'000)});
    for (const char* queue : {"q0", "q1"}) {
      Apply(ClusterQueueChanged{PoolQueue(queue, {"a"}, 1'000'000)});
      for (const char* ns : {"ns0", "ns1"}) {
        LocalQueue local = LocalTo(queue);
        local.ns = ns;
        Apply(LocalQueueChanged{local});
      }
    }
    for (const char* ns : {"ns0", "ns1"}) Apply(NamespaceChanged{Namespace{ns, {}}});
  }

  void RandomEvent() {
    switch (Draw(0, 10)) {
      case 0:
      case 1:
        return SetQuota();
      case 2: {
        const std::pair<std::string, std::string> key = AnyQuota();
        quotas_.erase(key);
        return Apply(NamespaceQuotaDeleted{key.first, key.second});
      }
      case 3:
      case 4:
        return CountPods();
      case 5:
        return Stop();
      case 6:
        return Delete(AnyOf("w", 8));
      default:
        return Submit();
    }
  }

  void Decide() {
    ++seconds_;
    for (const Decision& decision : engine_.Decide(At(seconds_))) {
      const auto* admit = std::get_if<Admit>(&decision);
      if (admit == nullptr) continue;
      const Workload& workload = workloads_.at(admit->uid);
      const int32_t pods = admit->admission.pod_sets.at(0).count;
      RC_ASSERT(GetsIn(workload, pods));
      RC_ASSERT(pods == workload.pod_sets[0].count || !GetsIn(workload, pods + 1));
      holdings_[admit->uid] = {admit->claim, pods, false};
      Apply(ClaimWritten{admit->uid, admit->claim});
      ++admitted_;
    }
    engine_.Validate();
    for (const auto& [uid, workload] : workloads_) {
      if (holdings_.contains(uid)) continue;
      ++waited_;
      RC_ASSERT(!GetsIn(workload, workload.pod_sets[0].min_count.value_or(workload.pod_sets[0].count)));
      RC_ASSERT(WaitCodeOf(engine_.ViewWorkload(uid)->reason) == WaitCode::kResourceQuota);
    }
  }

  int64_t admitted() const { return admitted_; }
  int64_t waited() const { return waited_; }

 private:
  struct Holding {
    ClaimId claim;
    int64_t pods = 0;
    bool leaving = false;
  };

  void Apply(const Event& event) {
    engine_.Apply(event);
    engine_.Validate();
  }

  std::pair<std::string, std::string> AnyQuota() {
    const std::string ns = AnyOf("ns", 2);
    return {ns, AnyOf("quota", 2)};
  }

  // One limits the cpu of all pods, the other the number of urgent ones.
  void SetQuota() {
    const std::pair<std::string, std::string> key = AnyQuota();
    const bool urgent = key.second == "quota1";
    NamespaceQuota quota{key.first, key.second, {}, {}};
    const int64_t hard = Draw(0, 16);
    const int64_t used = Draw(0, 8);
    quota.limits = {{urgent ? "pods" : "requests.cpu", Amount{hard}, Amount{used}}};
    if (urgent) {
      quota.scopes = {{gang::QuotaScopeKind::kPriorityClass,
                       {std::string(gang::kPriorityClassScope), Requirement::Operator::kExists, {}}}};
    }
    quotas_[key] = quota;
    Apply(NamespaceQuotaChanged{quota});
  }

  void Submit() {
    const std::string uid = AnyOf("w", 8);
    if (workloads_.contains(uid)) return;
    const std::string queue = AnyOf("q", 2);
    const int32_t pods = Draw(1, 6);
    Workload workload = Gang(uid, queue, pods, seconds_);
    workload.ns = AnyOf("ns", 2);
    if (OneIn(3) && pods > 1) workload.pod_sets[0].min_count = Draw(1, pods);
    gang::Shape shape = *workload.pod_sets[0].shape;
    const int64_t cpu = Draw(1, 4);
    shape.requests["cpu"] = Amount{cpu};
    gang::PodCharge& charge = shape.charge.emplace();
    charge.amounts = {{"pods", Amount{1}}, {"requests.cpu", Amount{cpu}}};
    if (OneIn(2)) charge.priority_class = "urgent";
    workload.pod_sets[0].shape = std::make_shared<const gang::Shape>(std::move(shape));
    workloads_[uid] = workload;
    Apply(WorkloadChanged{workload});
  }

  void Delete(const std::string& uid) {
    workloads_.erase(uid);
    holdings_.erase(uid);
    Apply(WorkloadDeleted{uid});
  }

  void CountPods() {
    const std::string uid = AnyOf("w", 8);
    const int64_t pods = Draw(0, 6);
    counted_[uid] = pods;
    Apply(PodsCounted{uid, "main", pods});
  }

  void Stop() {
    const std::string uid = AnyOf("w", 8);
    const auto it = holdings_.find(uid);
    if (it == holdings_.end()) return;
    const ClaimId claim = it->second.claim;
    if (!std::exchange(it->second.leaving, true)) return Apply(ClaimLeaving{uid, claim});
    holdings_.erase(it);
    Apply(ClaimGone{uid, claim});
  }

  static Amount AmountOf(const gang::PodCharge& charge, const NamespaceQuota& quota) {
    if (!quota.scopes.empty() && charge.priority_class.empty()) return {};
    return charge.amounts.at(quota.limits[0].name);
  }

  bool GetsIn(const Workload& workload, int64_t pods) const {
    return std::all_of(quotas_.begin(), quotas_.end(), [&](const auto& entry) {
      const NamespaceQuota& quota = entry.second;
      const Amount asked = AmountOf(*workload.pod_sets[0].shape->charge, quota) * pods;
      if (quota.ns != workload.ns || asked == Amount{}) return true;
      Amount sum = quota.limits[0].used + asked;
      for (const auto& [uid, holding] : holdings_) {
        const Workload& holder = workloads_.at(uid);
        if (holder.ns != quota.ns || holding.leaving) continue;
        const auto counted = counted_.find(uid);
        const int64_t there = counted == counted_.end() ? 0 : counted->second;
        sum += AmountOf(*holder.pod_sets[0].shape->charge, quota) * std::max<int64_t>(0, holding.pods - there);
      }
      return sum <= quota.limits[0].hard;
    });
  }

  EngineSet engine_;
  int64_t seconds_ = 1;
  std::map<std::pair<std::string, std::string>, NamespaceQuota> quotas_;
  std::map<std::string, Workload> workloads_;
  std::map<std::string, Holding> holdings_;
  std::map<std::string, int64_t> counted_;
  int64_t admitted_ = 0;
  int64_t waited_ = 0;
};

}  // namespace

TEST_CASE("no gang is admitted that a ResourceQuota would cut, and none waits that would get in") {
  int64_t admitted = 0;
  int64_t waited = 0;
  CHECK(rc::check([&] {
    Run run;
    const int steps = Draw(10, 80);
    for (int i = 0; i < steps; ++i) {
      run.RandomEvent();
      if (OneIn(2)) run.Decide();
    }
    run.Decide();
    admitted += run.admitted();
    waited += run.waited();
  }));
  // It would say nothing otherwise.
  CHECK(admitted > 0);
  CHECK(waited > 0);
}

}  // namespace muster::engine
