#include "deciders.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "muster/core/check.h"
#include "muster/core/clock.h"
#include "muster/engine/engine.h"
#include "muster/gang/shape.h"
#include "world.h"

namespace muster::bench {
namespace {

constexpr int kTrees = 16;
constexpr int kNodes = 4'000;
constexpr size_t kRunning = 12;  // gangs of a tree, at most
constexpr size_t kWaiting = 12;

gang::ShapePtr ShapeOf(int64_t gpus) {
  gang::Shape shape;
  shape.requests = {{"cpu", Amount{gpus * 4'000}}, {"nvidia.com/gpu", Amount{gpus}}};
  return std::make_shared<const gang::Shape>(std::move(shape));
}

// One engine, its gangs, and how long its turns took.
class Side {
 public:
  Side(bool shared, int deciders) : engine_(OptionsOf(deciders)), running_(kTrees), waiting_(kTrees) {
    const int flavors = shared ? 1 : kTrees;
    for (int i = 0; i < flavors; ++i) {
      engine_.Apply(
          engine::FlavorChanged{{absl::StrCat("flavor-", i), {{"pool", absl::StrCat("pool-", i)}}, {}, {}, ""}});
    }
    engine_.Apply(engine::NamespaceChanged{{"bench", {}}});
    for (int i = 0; i < kTrees; ++i) AddTree(i, i % flavors);
    for (int i = 0; i < kNodes; ++i) AddNode(i, i % flavors);
  }

  // One gang more in each tree, and one less where too many run or wait.
  void Turn(int number, const std::vector<std::vector<int32_t>>& sizes) {
    for (int tree = 0; tree < kTrees; ++tree) {
      const auto at = static_cast<size_t>(tree);
      if (running_[at].size() > kRunning) End(&running_[at]);
      if (waiting_[at].size() > kWaiting) End(&waiting_[at]);
      Submit(tree, number, sizes[at]);
    }
    const auto start = std::chrono::steady_clock::now();
    const std::vector<engine::Decision> decisions = engine_.Decide(WallTime{number + 2});
    took_.push_back(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - start));
    for (const engine::Decision& decision : decisions) {
      if (const auto* admit = std::get_if<engine::Admit>(&decision)) {
        ++admitted_;
        const auto tree = static_cast<size_t>(std::stoi(admit->uid));
        std::erase(waiting_[tree], admit->uid);
        running_[tree].push_back(admit->uid);
        engine_.Apply(engine::ClaimWritten{admit->uid, admit->claim});
      }
      held_ += std::holds_alternative<engine::Hold>(decision) ? 1 : 0;
    }
  }

  int64_t admitted() const { return admitted_; }
  int64_t held() const { return held_; }
  uint64_t StateHash() const { return engine_.StateHash(); }
  Duration p50() {
    std::sort(took_.begin(), took_.end());
    return took_[took_.size() / 2];
  }

 private:
  static engine::EngineOptions OptionsOf(int deciders) {
    engine::EngineOptions options;
    options.machines = true;
    options.deciders = deciders;
    return options;
  }

  void AddTree(int tree, int flavor) {
    engine::ClusterQueue queue;
    queue.name = QueueName(tree);
    queue.namespace_selector = LabelSelector{};
    queue.resource_groups = {{{"cpu", "nvidia.com/gpu"},
                              {{absl::StrCat("flavor-", flavor),
                                {{"cpu", Amount{1'000'000'000}, std::nullopt, std::nullopt},
                                 {"nvidia.com/gpu", Amount{1'000'000}, std::nullopt, std::nullopt}}}}}};
    engine_.Apply(engine::ClusterQueueChanged{queue});
    engine::LocalQueue local;
    local.ns = "bench";
    local.name = queue.name;
    local.cluster_queue = queue.name;
    engine_.Apply(engine::LocalQueueChanged{local});
  }

  void AddNode(int index, int pool) {
    gang::Node node;
    node.name = absl::StrCat("node-", index);
    node.labels = {{"pool", absl::StrCat("pool-", pool)}};
    node.ready = true;
    node.allocatable = {{"cpu", Amount{128'000}}, {"nvidia.com/gpu", Amount{8}}, {"pods", Amount{110}}};
    engine_.Apply(engine::NodeChanged{node});
    const auto gpus = static_cast<int64_t>(random_.Below(9));
    engine_.Apply(
        engine::PodPlaced{absl::StrCat("pod-", index), node.name, {{"nvidia.com/gpu", Amount{gpus}}}, "", ""});
  }

  void Submit(int tree, int number, const std::vector<int32_t>& sizes) {
    engine::Workload workload;
    workload.uid = absl::StrCat(tree, "-", number);
    workload.ns = "bench";
    workload.name = workload.uid;
    workload.local_queue = QueueName(tree);
    workload.generation = 1;
    workload.queue_time = WallTime{number + 1};
    for (size_t i = 0; i < sizes.size(); ++i) {
      engine::PodSet pods;
      pods.name = absl::StrCat("set-", i);
      pods.count = sizes[i];
      pods.shape = shapes_[i];
      workload.pod_sets.push_back(std::move(pods));
    }
    waiting_[static_cast<size_t>(tree)].push_back(workload.uid);
    engine_.Apply(engine::WorkloadChanged{workload});
  }

  void End(std::deque<std::string>* gangs) {
    engine_.Apply(engine::WorkloadDeleted{gangs->front()});
    gangs->pop_front();
  }

  engine::EngineSet engine_;
  SeededRandom random_{1};
  const std::vector<gang::ShapePtr> shapes_ = {ShapeOf(2), ShapeOf(3), ShapeOf(5)};
  std::vector<std::deque<std::string>> running_;
  std::vector<std::deque<std::string>> waiting_;
  std::vector<Duration> took_;
  int64_t admitted_ = 0;
  int64_t held_ = 0;
};

}  // namespace

DecidersCost MeasureDeciders(bool shared, int deciders, int turns) {
  Side one(shared, 1);
  Side many(shared, deciders);
  SeededRandom random(7);
  for (int turn = 0; turn < turns; ++turn) {
    std::vector<std::vector<int32_t>> sizes(kTrees);
    for (std::vector<int32_t>& of_tree : sizes) {
      for (int i = 0; i < 3; ++i) of_tree.push_back(static_cast<int32_t>(1 + random.Below(24)));
    }
    one.Turn(turn, sizes);
    many.Turn(turn, sizes);
  }
  MUSTER_CHECK(one.admitted() == many.admitted() && one.StateHash() == many.StateHash());
  return {kTrees, kNodes, one.admitted(), one.held(), one.p50(), many.p50()};
}

}  // namespace muster::bench
