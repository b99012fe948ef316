// Kubernetes before 1.36 as far as it can be had here: an API server that serves no mutating admission policies.

#include <catch2/catch.hpp>

#include "fixture/muster.h"
#include "fixture/text.h"

namespace muster::cluster {
namespace {

constexpr std::string_view kQueues = R"(
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: f}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: f, resources: [{name: cpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: team}
spec: {clusterQueue: cq}
)";

std::string Job(const std::string& name, bool suspend) {
  return Cat(R"({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": ")", name,
             R"(", "labels": {"kueue.x-k8s.io/queue-name": "lq"}}, "spec": {"suspend": )", suspend ? "true" : "false",
             R"(, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train",
             "resources": {"requests": {"cpu": "1"}}}]}}}})");
}

TEST_CASE("Without mutating policies Muster says what does not work, and queues what is created suspended") {
  const std::string group = "admissionregistration.k8s.io/v1/mutatingadmissionpolic";
  auto started = Cluster::Start({.scheduler = false,
                                 .kwok = false,
                                 .api_server_flags = {Cat("--runtime-config=", group, "ies=false,", group,
                                                          "ybindings=false"),
                                                      "--disable-admission-plugins=MutatingAdmissionPolicy"}});
  INFO(started.status());
  REQUIRE(started.ok());
  Cluster& cluster = **started;
  const std::string config = MUSTER_SOURCE_DIR "/config/";
  for (const absl::Status& status :
       {cluster.Apply(config + "crd"), cluster.Apply(config + "manager"), cluster.Apply(config + "rbac"),
        cluster.Apply(config + "policies/validating.yaml"), cluster.CreateNamespace("team"),
        cluster.ApplyText(std::string(kQueues))}) {
    INFO(status);
    REQUIRE(status.ok());
  }
  auto muster = Muster::Start(cluster);
  INFO(muster.status());
  REQUIRE(muster.ok());
  REQUIRE((*muster)->AwaitReady());
  const std::string jobs = "/apis/batch/v1/namespaces/team/jobs";
  REQUIRE(Eventually([&] { return cluster.Api().Create(jobs + "?dryRun=All", Job("a", false)).status == 422; }));
  const auto health = [&] { return (*muster)->HealthText("/readyz?verbose"); };
  REQUIRE(Eventually([&] { return health().find("ok: leading") != std::string::npos; }));
  INFO(health());
  CHECK_THAT(health(), Catch::Contains("does not serve MutatingAdmissionPolicy v1: queued Jobs must be created with "
                                       "suspend: true"));
  CHECK(health().find("is missing") == std::string::npos);
  CHECK(health().find("cannot be read") == std::string::npos);
  REQUIRE(cluster.Api().Create(jobs, Job("a", true)).status == 201);
  CHECK(Eventually([&] { return !cluster.Api().Get(jobs + "/a").json.At("spec/suspend").Bool(true); }));
}

}  // namespace
}  // namespace muster::cluster
