// The service as it ships, for one Job: the way through that everything else builds on.

#include "fixture/muster.h"

#include <catch2/catch.hpp>

#include "fixture/text.h"

namespace muster::cluster {
namespace {

constexpr std::string_view kQueues = R"(
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: h100}
spec: {nodeLabels: {muster.dev/gpu: h100}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: training}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 4}]}]
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

constexpr std::string_view kJob = R"({"apiVersion": "batch/v1", "kind": "Job",
  "metadata": {"name": "NAME", "labels": {"kueue.x-k8s.io/queue-name": "jobs"}},
  "spec": {"parallelism": 2, "completions": 2, "template": {
    "metadata": {"annotations": {"muster.dev/run-seconds": "5"}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train",
      "resources": {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}}]}}}})";

TEST_CASE("Two Jobs that fit one after the other: the second waits, both end, as Muster's own ServiceAccount") {
  auto started = Cluster::Start({.nodes = {{.count = 2, .labels = {{"muster.dev/gpu", "h100"}}}}});
  INFO(started.status());
  REQUIRE(started.ok());
  Cluster& cluster = **started;
  ApiClient& api = cluster.Api();
  for (const absl::Status& status : {cluster.InstallMuster(), cluster.ApplyText(std::string(kQueues))}) {
    INFO(status);
    REQUIRE(status.ok());
  }
  auto muster = Muster::Start(cluster);
  INFO(muster.status());
  REQUIRE(muster.ok());
  REQUIRE((*muster)->AwaitReady());

  const std::string jobs = "/apis/batch/v1/namespaces/team/jobs";
  const auto job = [&](const std::string& name) { return api.Get(Cat(jobs, "/", name)).json; };
  const auto create = [&](const char* name) {
    std::string body(kJob);
    REQUIRE(api.Create(jobs, body.replace(body.find("NAME"), 4, name)).status == 201);
  };
  const auto suspended = [&](const char* name) { return job(name).At("spec/suspend").Bool(); };
  // One after the other, or they may be of the same second, which has no order.
  create("first");
  REQUIRE(Eventually([&] { return !suspended("first"); }));
  create("second");
  CHECK(suspended("second"));  // 4 GPUs of quota, and the first takes them
  CHECK(job("first").At("spec/template/spec/nodeSelector")["muster.dev/gpu"].Str() == "h100");
  for (const char* name : {"first", "second"}) {
    const auto complete = [&] {
      return job(name).At("status/conditions").Find("type", "Complete")["status"].Str() == "True";
    };
    INFO((*muster)->process().LogTail());
    REQUIRE(Eventually(complete, std::chrono::minutes(2)));
  }
  // The second started only when the first had ended.
  CHECK(job("second").At("status/startTime").Str() >= job("first").At("status/completionTime").Str());

  // Of Muster, as itself and nobody else: each Job's start is one patch of it.
  AuditLog audit = cluster.Audit();
  const auto is_muster = [](const AuditEvent& event) {
    return event.user == "system:serviceaccount:muster-system:muster";
  };
  const auto patches =
      audit.Select([&](const AuditEvent& event) { return is_muster(event) && WriteKey(event) == "patch jobs"; });
  CHECK(patches.size() == 2);
  for (const AuditEvent& patch : patches) CHECK(patch.code == 200);
  // Others are refused too, while policies have not found what they refer to.
  const auto denied = audit.Select([&](const AuditEvent& event) { return is_muster(event) && event.code == 403; });
  for (const AuditEvent& event : denied) FAIL_CHECK("may not " << WriteKey(event) << " " << event.name);

  CHECK((*muster)->Metric("kueue_admitted_workloads_total", {{"cluster_queue", "training"}}) == 2);
  CHECK(Eventually([&] {
    return (*muster)->Metric("kueue_admitted_active_workloads", {{"cluster_queue", "training"}}) == 0;
  }));
  CHECK((*muster)->Metric("kueue_no_such_metric") == std::nullopt);
  CHECK(WEXITSTATUS((*muster)->process().Terminate(std::chrono::seconds(60))) == 0);
}

}  // namespace
}  // namespace muster::cluster
