// What must not be in the way of others, and what must not be lost by being looked at often.
//
// Rules: kueue_semantics 4.4, 5.6. The numbers of user_pains stand at each.
#include <catch2/catch.hpp>

#include "cluster.h"

namespace muster::engine {

namespace {

using Uids = std::vector<std::string>;
using Place = WorkloadView::Place;

// The one machine of flavor `a` has no place for anybody, that of `b` for all.
void AddMachines(EngineSet* engine) {
  for (const char* name : {"a", "b"}) {
    engine->Apply(FlavorChanged{ResourceFlavor{name, {{"pool", name}}, {}, {}, ""}});
    gang::Node node;
    node.name = std::string("n") + name;
    node.labels = {{"pool", name}};
    node.ready = true;
    node.allocatable = {{"cpu", Amount{name == std::string("a") ? 0 : 100}}, {"pods", Amount{100}}};
    engine->Apply(NodeChanged{node});
  }
}

ClusterQueue WithFlavors(const std::string& name, const std::string& cohort, const std::vector<std::string>& flavors) {
  ClusterQueue queue = CpuQueue(name, cohort, 0);
  queue.resource_groups = {{{"cpu"}, {}}};
  for (const std::string& flavor : flavors) {
    queue.resource_groups[0].flavors.push_back({flavor, {{"cpu", Amount{8}, std::nullopt, std::nullopt}}});
  }
  return queue;
}

}  // namespace

// C5
TEST_CASE("a gang with one pod set that has no quota is parked, whatever flavors the other might try") {
  Cluster cluster;
  for (const char* name : {"a", "b", "c"}) cluster.Apply(FlavorChanged{ResourceFlavor{name, {}, {}, {}, ""}});
  ClusterQueue queue = WithFlavors("q", "", {"a", "b", "c"});
  queue.resource_groups.push_back({{"gpu"}, {{"f", {{"gpu", Amount{0}, std::nullopt, std::nullopt}}}}});
  cluster.AddQueue(queue);
  Workload large = Gang("large", "q", 1, 1);
  gang::Shape gpu;
  gpu.requests["gpu"] = Amount{1};
  large.pod_sets[0].shape = std::make_shared<const gang::Shape>(std::move(gpu));
  large.pod_sets.push_back(Gang("", "q", 1).pod_sets[0]);
  large.pod_sets[1].name = "workers";
  cluster.Submit(large);
  cluster.Submit(Gang("small", "q", 1, 2));
  CHECK(cluster.Run() == Uids{"small"});
  CHECK(cluster.PlaceOf("large") == Place::kParked);
  // And nothing is left to be tried.
  CHECK_FALSE(cluster.engine.RunPass(At(101)).more);
}

// C7: an event of the cohort between any two passes, and not one is enough for both flavors.
TEST_CASE("the search goes on at the second flavor though something changes all the time") {
  EngineOptions options;
  options.machines = true;
  EngineSet engine(options);
  AddMachines(&engine);
  engine.Apply(NamespaceChanged{Namespace{"ns", {}}});
  for (const char* name : {"q", "busy"}) {
    engine.Apply(ClusterQueueChanged{WithFlavors(name, "all", name == std::string("q") ? Uids{"a", "b"} : Uids{"b"})});
    engine.Apply(LocalQueueChanged{LocalTo(name)});
  }
  engine.Apply(WorkloadChanged{Gang("patient", "q", 2, 1)});
  int passes = 0;
  for (bool admitted = false; !admitted && passes < 20; ++passes) {
    const std::string other = "other-" + std::to_string(passes);
    engine.Apply(WorkloadChanged{Gang(other, "busy", 1, 2)});
    for (const Decision& decision : engine.RunPass(At(100 + passes)).decisions) {
      const auto* admit = std::get_if<Admit>(&decision);
      if (admit == nullptr) continue;
      admitted = admitted || admit->uid == "patient";
      if (admit->uid == "patient") CHECK(admit->admission.pod_sets[0].flavors[0].second == "b");
    }
    engine.Apply(WorkloadDeleted{other});
    engine.Validate();
  }
  CHECK(passes <= 2);  // one for each flavor
}

// F11
TEST_CASE("the numbers of the waiting are the same however often their LocalQueue is stopped") {
  Cluster cluster;
  cluster.AddQueue(CpuQueue("q", "", 2));
  cluster.Submit(Gang("running", "q", 2));
  CHECK(cluster.Run() == Uids{"running"});
  for (int i = 0; i < 3; ++i) cluster.Submit(Gang("w" + std::to_string(i), "q", 1 + i, 2 + i));
  CHECK(cluster.Run().empty());
  const auto pending = [&cluster] {
    const ClusterQueueView view = cluster.engine.ViewClusterQueue("q");
    const LocalQueueView local = cluster.engine.ViewLocalQueue("ns", "q");
    CHECK(local.pending_active + local.pending_inadmissible == view.pending_active + view.pending_inadmissible);
    return view.pending_active + view.pending_inadmissible;
  };
  CHECK(pending() == 3);
  LocalQueue queue = LocalTo("q");
  for (int i = 0; i < 100; ++i) {
    queue.stop_policy = StopPolicy::kHold;
    cluster.Apply(LocalQueueChanged{queue});
    if (i % 2 == 0) cluster.Run();
    CHECK(pending() == 0);
    queue.stop_policy = StopPolicy::kNone;
    cluster.Apply(LocalQueueChanged{queue});
    CHECK(cluster.Run().empty());
    CHECK(pending() == 3);
  }
}

TEST_CASE(
    "who stays parked while its queue is stopped and opened again is told why it is parked, not that it was stopped") {
  const bool mismatch = GENERATE(false, true);
  CAPTURE(mismatch);
  Cluster cluster;
  ClusterQueue queue = CpuQueue("q", "", 2);
  if (mismatch) queue.namespace_selector->match_labels["team"] = "research";
  cluster.AddQueue(queue);
  Workload workload = Gang("w", "q", 1);
  if (!mismatch) {
    workload.invalid.emplace_back();
    workload.invalid.back().kind = ObstacleKind::kRequestsExceedLimits;
  }
  cluster.Submit(workload);
  CHECK(cluster.Run().empty());
  queue.stop_policy = StopPolicy::kHold;
  cluster.Apply(ClusterQueueChanged{queue});
  CHECK(cluster.Run().empty());
  CHECK(cluster.HoldOf("w")->code == ReasonCode::kSuspended);
  queue.stop_policy = StopPolicy::kNone;
  cluster.Apply(ClusterQueueChanged{queue});
  CHECK(cluster.Run().empty());
  REQUIRE(cluster.HoldOf("w").has_value());
  CHECK(cluster.HoldOf("w")->code == ReasonCode::kMisconfigured);
  CHECK(cluster.HoldOf("w")->obstacles.at(0).kind ==
        (mismatch ? ObstacleKind::kNamespaceMismatch : ObstacleKind::kRequestsExceedLimits));
}

TEST_CASE("a LocalQueue without its ClusterQueue has changed with each that comes or goes, and when the other does") {
  Cluster cluster;
  const auto changed = [&cluster] {
    cluster.Run();
    const auto names = cluster.engine.TakeChangedQueues().local_queues;
    return names == std::vector<std::pair<std::string, std::string>>{{"ns", "q"}};
  };
  const auto pending = [&cluster] { return cluster.engine.ViewLocalQueue("ns", "q").pending_inadmissible; };
  cluster.Apply(LocalQueueChanged{LocalTo("q")});
  CHECK(changed());
  cluster.Submit(Gang("one", "q", 4));
  CHECK(changed());
  CHECK(pending() == 1);
  cluster.Submit(Gang("two", "q", 4));
  CHECK(changed());
  CHECK(pending() == 2);
  cluster.Finish("one");
  CHECK(changed());
  CHECK(pending() == 1);
  ClusterQueue queue = CpuQueue("q", "", 2);
  cluster.Apply(ClusterQueueChanged{queue});
  CHECK(changed());
  queue.resource_groups[0].flavors.push_back({"other", queue.resource_groups[0].flavors[0].resources});
  cluster.Apply(ClusterQueueChanged{queue});
  CHECK(changed());
  CHECK(cluster.engine.ViewLocalQueue("ns", "q").usage.size() == 2);
  cluster.Apply(ClusterQueueDeleted{"q"});
  CHECK(changed());
}

}  // namespace muster::engine
