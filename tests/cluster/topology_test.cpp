// The service as it ships on nodes in racks: the real pod scheduler puts a gang where its places are.

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "fixture/muster.h"
#include "fixture/text.h"

namespace muster::cluster {
namespace {

constexpr std::string_view kQueues = R"(
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: h100}
spec: {nodeLabels: {muster.dev/gpu: h100}, topologyName: racks}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: training}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 64}]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: jobs, namespace: team}
spec: {clusterQueue: training}
)";

constexpr std::string_view kTopology = R"(
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]}
)";

std::string Gang(const std::string& name, int pods) {
  return Cat(R"({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": ")", name,
             R"(", "labels": {"kueue.x-k8s.io/queue-name": "jobs"}},
  "spec": {"completionMode": "Indexed", "parallelism": )",
             pods, R"(, "completions": )", pods, R"(, "template": {
    "metadata": {"annotations": {"muster.dev/run-seconds": "600",
      "kueue.x-k8s.io/podset-required-topology": "example.com/rack"}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train",
      "resources": {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}}]}}}})");
}

// Two racks of two nodes; eight GPUs a node.
NodePool Rack(const std::string& name) {
  return {.name = name, .count = 2, .labels = {{"muster.dev/gpu", "h100"}, {"example.com/rack", name}}};
}

struct Team {
  ApiClient& api;

  Json Job(const std::string& name) { return api.Get("/apis/batch/v1/namespaces/team/jobs/" + name).json; }
  void Create(const std::string& name, int pods) {
    REQUIRE(api.Create("/apis/batch/v1/namespaces/team/jobs", Gang(name, pods)).status == 201);
  }
  bool Suspended(const std::string& name) { return Job(name).At("spec/suspend").Bool(); }
  // By completion index the node that each pod of the Job is on; of one that is on none: empty.
  std::map<std::string, std::string> Nodes(const std::string& job) {
    std::map<std::string, std::string> nodes;
    for (const Json& pod : api.Get("/api/v1/namespaces/team/pods?labelSelector=batch.kubernetes.io%2Fjob-name%3D" + job)
                               .json["items"]
                               .Items()) {
      nodes[pod.At("metadata/labels")["batch.kubernetes.io/job-completion-index"].Str()] =
          pod.At("spec/nodeName").Str();
    }
    return nodes;
  }
  Json Active() {
    return api.Get("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/training")
        .json.At("status/conditions")
        .Find("type", "Active");
  }
};

bool AllOnNodes(const std::map<std::string, std::string>& nodes, size_t pods) {
  return nodes.size() == pods &&
         std::all_of(nodes.begin(), nodes.end(), [](const auto& entry) { return !entry.second.empty(); });
}

// user_pains J
TEST_CASE("Gangs that need a rack run in one rack each, by rank, and one that has none waits") {
  auto started = Cluster::Start({.nodes = {Rack("red"), Rack("blue")}});
  INFO(started.status());
  REQUIRE(started.ok());
  Cluster& cluster = **started;
  for (const absl::Status& status : {cluster.InstallMuster(), cluster.ApplyText(std::string(kQueues))}) {
    INFO(status);
    REQUIRE(status.ok());
  }
  auto muster = Muster::Start(cluster);
  INFO(muster.status());
  REQUIRE(muster.ok());
  REQUIRE((*muster)->AwaitReady());
  Team team{cluster.Api()};

  // kueue_semantics 1.3
  REQUIRE(Eventually([&] { return team.Active()["reason"].Str() == "TopologyNotFound"; }));
  CHECK(team.Active()["message"].Str() ==
        "Can't admit new workloads: there is no Topology \"racks\" for TAS flavor \"h100\".");
  REQUIRE(cluster.ApplyText(std::string(kTopology)).ok());
  REQUIRE(Eventually([&] { return team.Active()["status"].Str() == "True"; }));

  // Somebody's bare pod takes a GPU of red-0, so that seven pods of two have a place in red, and eight in blue.
  REQUIRE(cluster.Api()
              .Create("/api/v1/namespaces/team/pods",
                      R"({"metadata": {"name": "bare"}, "spec": {"nodeName": "red-0", "containers": [{"name": "main",
                      "image": "other", "resources": {"requests": {"nvidia.com/gpu": "1"},
                      "limits": {"nvidia.com/gpu": "1"}}}]}})")
              .status == 201);
  REQUIRE(Eventually([&] {
    return cluster.Api().Get("/api/v1/namespaces/team/pods/bare").json.At("status/phase").Str() == "Running";
  }));
  team.Create("eight", 8);
  INFO((*muster)->process().LogTail());
  REQUIRE(Eventually([&] { return AllOnNodes(team.Nodes("eight"), 8); }, std::chrono::minutes(1)));
  std::map<std::string, std::string> by_rank;
  for (int rank = 0; rank < 8; ++rank) by_rank[std::to_string(rank)] = rank < 4 ? "blue-0" : "blue-1";
  CHECK(team.Nodes("eight") == by_rank);
  const Json gates = team.Job("eight").At("spec/template/spec/schedulingGates");
  REQUIRE(gates.Items().size() == 1);
  CHECK(gates.Items()[0]["name"].Str() == "kueue.x-k8s.io/topology");

  // Red has no place for the eighth pod; seven go there at once.
  team.Create("other", 8);
  team.Create("seven", 7);
  REQUIRE(Eventually([&] { return AllOnNodes(team.Nodes("seven"), 7); }, std::chrono::minutes(1)));
  for (const auto& [rank, node] : team.Nodes("seven")) CHECK(node.starts_with("red-"));
  CHECK(team.Suspended("other"));

  // Another process knows where they are: nothing is given twice.
  (*muster)->process().Kill();
  muster = Muster::Start(cluster);
  REQUIRE(muster.ok());
  REQUIRE((*muster)->AwaitReady());
  REQUIRE(cluster.Api().Delete("/apis/batch/v1/namespaces/team/jobs/eight?propagationPolicy=Background").ok());
  REQUIRE(Eventually([&] { return AllOnNodes(team.Nodes("other"), 8); }, std::chrono::minutes(1)));
  for (const auto& [rank, node] : team.Nodes("other")) CHECK(node.starts_with("blue-"));

  AuditLog audit = cluster.Audit();
  const auto denied = audit.Select([](const AuditEvent& event) {
    return event.user == "system:serviceaccount:muster-system:muster" && event.code == 403;
  });
  for (const AuditEvent& event : denied) FAIL_CHECK("may not " << WriteKey(event) << " " << event.name);
}

}  // namespace
}  // namespace muster::cluster
