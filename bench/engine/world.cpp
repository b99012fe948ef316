#include "world.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <ctime>
#include <variant>

namespace muster::bench {
namespace {

constexpr const char* kNamespace = "bench";
constexpr const char* kFlavor = "machines";

engine::EngineOptions Options() {
  engine::EngineOptions options;
  options.balanced_placement = true;
  return options;
}

}  // namespace

Duration ProcessorTime() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

std::string QueueName(int index) { return absl::StrFormat("queue-%05d", index); }

World::World() : engine_(Options()) {
  engine_.Apply(engine::NamespaceChanged{{kNamespace, {}}});
  engine::ResourceFlavor flavor;
  flavor.name = kFlavor;
  engine_.Apply(engine::FlavorChanged{flavor});
}

void World::AddMachines(const MachineOptions& machines) {
  engine_.Apply(engine::TopologyChanged{{kFlavor, {kBlockLabel, kRackLabel, std::string(gang::kHostnameLabel)}}});
  engine::ResourceFlavor flavor;
  flavor.name = kFlavor;
  flavor.node_labels = {{"bench", "true"}};
  flavor.topology_name = kFlavor;
  engine_.Apply(engine::FlavorChanged{flavor});
  for (int i = 0; i < machines.blocks * machines.racks_per_block * machines.nodes_per_rack; ++i) {
    const int rack = i / machines.nodes_per_rack;
    gang::Node node;
    node.name = absl::StrFormat("node-%06d", i);
    node.labels = {{"bench", "true"},
                   {kBlockLabel, absl::StrFormat("block-%04d", rack / machines.racks_per_block)},
                   {kRackLabel, absl::StrFormat("rack-%05d", rack)},
                   {std::string(gang::kHostnameLabel), node.name}};
    node.ready = true;
    node.allocatable = {{"cpu", machines.cpu}, {"pods", Amount{110}}};
    engine_.Apply(engine::NodeChanged{std::move(node)});
  }
}

void World::AddQueue(int index, const std::string& cohort, const QueueOptions& options) {
  engine::ClusterQueue queue;
  queue.name = QueueName(index);
  queue.generation = 1;
  queue.cohort = cohort;
  queue.namespace_selector = LabelSelector{};
  queue.reclaim_within_cohort = options.reclaim_within_cohort;
  queue.within_cluster_queue = options.within_cluster_queue;
  engine::ResourceQuota quota;
  quota.resource = "cpu";
  quota.nominal = options.nominal;
  quota.borrowing_limit = options.borrowing_limit;
  queue.resource_groups = {{{"cpu"}, {{kFlavor, {quota}}}}};
  engine_.Apply(engine::ClusterQueueChanged{queue});
  engine::LocalQueue local;
  local.ns = kNamespace;
  local.name = queue.name;
  local.cluster_queue = queue.name;
  engine_.Apply(engine::LocalQueueChanged{local});
}

std::string World::Submit(int queue, int64_t number, int32_t pods, const gang::ShapePtr& shape, int32_t priority,
                          WallTime now, const gang::TopologyRequest& topology) {
  engine::Workload workload;
  workload.uid = absl::StrFormat("%05d-%09d", queue, number);
  workload.ns = kNamespace;
  workload.name = workload.uid;
  workload.local_queue = QueueName(queue);
  workload.generation = 1;
  workload.priority = priority;
  workload.queue_time = now;
  workload.pod_sets.push_back({"main", pods, std::nullopt, shape, topology});
  std::string uid = workload.uid;
  engine_.Apply(engine::WorkloadChanged{std::move(workload)});
  return uid;
}

void World::Finish(const std::string& uid) { engine_.Apply(engine::WorkloadDeleted{uid}); }

Decided World::Decide(WallTime now) {
  Decided out;
  while (true) {
    const size_t before = out.changes.size();
    const Duration start = ProcessorTime();
    const std::vector<engine::Decision> decisions = engine_.Decide(now);
    if (out.decisions == 0) out.first = ProcessorTime() - start;
    for (const engine::Decision& decision : decisions) {
      ++out.decisions;
      if (const auto* admit = std::get_if<engine::Admit>(&decision)) {
        engine_.Apply(engine::ClaimWritten{admit->uid, admit->claim});
        engine_.Apply(engine::ClaimActive{admit->uid, admit->claim});
        out.changes.push_back({admit->uid, true});
      } else if (const auto* evict = std::get_if<engine::Evict>(&decision)) {
        engine_.Apply(engine::ClaimLeaving{evict->uid, evict->claim});
        engine_.Apply(engine::ClaimGone{evict->uid, evict->claim});
        out.changes.push_back({evict->uid, false});
      }
    }
    engine_.TakeChangedQueues();  // as the writer of status does
    if (out.changes.size() == before) return out;
  }
}

gang::ShapePtr World::Shape(Amount cpu) {
  gang::Shape shape;
  shape.requests["cpu"] = cpu;
  return shapes_.Intern(std::move(shape));
}

}  // namespace muster::bench
