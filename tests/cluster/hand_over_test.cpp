// One cluster changes from Kueue to Muster and back while a gang runs. Kueue is played: its objects and its server-side
// applies are those of its recorded behaviour (golden case insufficient-quota), its controller is not there.

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "fixture/muster.h"
#include "fixture/text.h"

namespace muster::cluster {
namespace {

constexpr std::string_view kQueues = R"(
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: h100, finalizers: [kueue.x-k8s.io/resource-in-use]}
spec: {nodeLabels: {muster.dev/gpu: h100}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: training, finalizers: [kueue.x-k8s.io/resource-in-use]}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: jobs, namespace: team}
spec: {clusterQueue: training}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: kueue-validating-webhook-configuration}
webhooks: []
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: c1f6bfd2.kueue.x-k8s.io, namespace: kueue-system}
spec: {holderIdentity: kueue-0, leaseDurationSeconds: 15}
)";

constexpr std::string_view kJobs = "/apis/batch/v1/namespaces/team/jobs";
constexpr std::string_view kWorkloads = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads";
constexpr std::string_view kLease =
    "/apis/coordination.k8s.io/v1/namespaces/kueue-system/leases/c1f6bfd2.kueue.x-k8s.io";
constexpr std::string_view kWebhooks =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kueue-validating-webhook-configuration";

std::string PodSpec() {
  return R"({"restartPolicy": "Never", "containers": [{"name": "main", "image": "train",
      "resources": {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}}]})";
}

std::string Condition(const std::string& type, bool value, const std::string& reason, const std::string& message) {
  return Cat(R"({"type": ")", type, R"(", "status": ")", value ? "True" : "False", R"(", "reason": ")", reason,
             R"(", "message": ")", message,
             R"(", "observedGeneration": 1, "lastTransitionTime": "2026-01-02T03:04:05Z"})");
}

// Kueue's side of things.
class Kueue {
 public:
  explicit Kueue(ApiClient* api) : api_(*api) {}

  // Two pods of two GPUs each.
  void Submit(const std::string& name) {
    const ApiResponse job = api_.Create(
        kJobs, Cat(R"({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": ")", name,
                   R"(", "labels": {"kueue.x-k8s.io/queue-name": "jobs"}}, "spec": {"suspend": true, "parallelism": 2,
                   "completions": 2, "template": {"metadata": {"annotations": {"muster.dev/run-seconds": "600"}},
                   "spec": )",
                   PodSpec(), "}}}"));
    INFO(job.text);
    REQUIRE(job.status == 201);
    const std::string uid = job.json.At("metadata/uid").Str();
    const ApiResponse workload = api_.Create(
        kWorkloads, Cat(R"({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "job-)",
                        name, R"(-00000", "labels": {"kueue.x-k8s.io/job-uid": ")", uid,
                        R"("}, "finalizers": ["kueue.x-k8s.io/resource-in-use"], "ownerReferences": [{"apiVersion":
                        "batch/v1", "kind": "Job", "name": ")",
                        name, R"(", "uid": ")", uid,
                        R"(", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"active": true, "queueName":
                        "jobs", "priority": 0, "podSets": [{"name": "main", "count": 2, "template": {"metadata": {},
                        "spec": )",
                        PodSpec(), "}}]}}"));
    INFO(workload.text);
    REQUIRE(workload.status == 201);
  }

  // One server-side apply of all that it owns, as each of its writes.
  ApiResponse Apply(const std::string& job, const std::string& status) {
    return api_.Call("PATCH", Cat(kWorkloads, "/job-", job, "-00000/status?fieldManager=kueue-admission&force=true"),
                     Cat(R"({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "job-)",
                         job, R"(-00000", "namespace": "team"}, "status": )", status, "}"),
                     "application/apply-patch+yaml");
  }
  ApiResponse Admit(const std::string& job) {
    return Apply(job, Cat(R"({"admission": {"clusterQueue": "training", "podSetAssignments": [{"name": "main", "count":
        2, "flavors": {"nvidia.com/gpu": "h100"}, "resourceUsage": {"nvidia.com/gpu": "4"}}]}, "conditions": [)",
                          Condition("QuotaReserved", true, "QuotaReserved", "Quota reserved in ClusterQueue training"),
                          ", ", Condition("Admitted", true, "Admitted", "The workload is admitted"), "]}"));
  }
  ApiResponse Unsuspend(const std::string& job) {
    return api_.MergePatch(
        Cat(kJobs, "/", job),
        Cat(R"({"spec": {"suspend": false, "template": {"metadata": {"labels": {"kueue.x-k8s.io/podset": "main",
        "kueue.x-k8s.io/cluster-queue-name": "training", "kueue.x-k8s.io/local-queue-name": "jobs"},
        "annotations": {"kueue.x-k8s.io/workload": "job-)",
            job, R"(-00000"}}, "spec": {"nodeSelector": {"muster.dev/gpu": "h100"}}}}})"));
  }

 private:
  ApiClient& api_;
};

std::string PodUids(ApiClient& api) {
  std::vector<std::string> uids;
  for (const Json& pod : api.Get("/api/v1/namespaces/team/pods").json["items"].Items()) {
    uids.push_back(pod.At("metadata/uid").Str());
  }
  std::sort(uids.begin(), uids.end());
  std::string out;
  for (const std::string& uid : uids) out += uid + " ";
  return out;
}

// Of every CRD of the group.
void SetConversion(ApiClient& api, const std::string& conversion) {
  const std::string path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  for (const Json& crd : api.Get(path).json["items"].Items()) {
    if (crd.At("spec/group").Str() != "kueue.x-k8s.io") continue;
    const ApiResponse patched = api.MergePatch(Cat(path, "/", crd.At("metadata/name").Str()),
                                               Cat(R"({"spec": {"conversion": )", conversion, "}}"));
    INFO(patched.text);
    REQUIRE(patched.ok());
  }
}

TEST_CASE("A gang runs on while its cluster changes from Kueue to Muster, back, and to Muster again") {
  auto started = Cluster::Start({.nodes = {{.count = 2, .labels = {{"muster.dev/gpu", "h100"}}}}});
  INFO(started.status());
  REQUIRE(started.ok());
  Cluster& cluster = **started;
  ApiClient& api = cluster.Api();
  for (const absl::Status& status :
       {cluster.CreateNamespace("team"), cluster.CreateNamespace("kueue-system"),
        cluster.Apply(Cat(MUSTER_SOURCE_DIR, "/config/crd")), cluster.ApplyText(std::string(kQueues))}) {
    INFO(status);
    REQUIRE(status.ok());
  }
  const auto job = [&](const std::string& name) { return api.Get(Cat(kJobs, "/", name)).json; };
  const auto workload = [&](const std::string& name) { return api.Get(Cat(kWorkloads, "/job-", name, "-00000")).json; };
  const auto record = [&](const std::string& name) {
    return job(name).At("metadata/annotations")["muster.dev/admission"].Str();
  };
  const auto condition = [&](const std::string& name, const std::string& type) {
    return workload(name).At("status/conditions").Find("type", type);
  };

  Kueue kueue(&api);
  kueue.Submit("runs");
  kueue.Submit("waits");
  REQUIRE(kueue.Admit("runs").ok());
  REQUIRE(kueue.Unsuspend("runs").ok());
  REQUIRE(kueue.Apply("waits", Cat(R"({"conditions": [)",
                                   Condition("QuotaReserved", false, "WaitingForQuota", "it waits"), ", ",
                                   Condition("Admitted", false, "NoReservation", "The workload has no reservation"),
                                   "]}"))
              .ok());
  REQUIRE(Eventually([&] { return job("runs").At("status/ready").Int() == 2; }));
  const std::string pods = PodUids(api);
  const std::string spec = job("runs")["spec"].Dump();
  const std::string start_time = job("runs").At("status/startTime").Str();

  // With Kueue, its conversion goes; where its CRDs are not changed first, Muster's cannot take their place.
  SetConversion(api, R"({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig":
      {"service": {"name": "kueue-webhook-service", "namespace": "kueue-system", "path": "/convert"}}}})");
  SetConversion(api, R"({"strategy": "None", "webhook": null})");

  // Kueue's webhook is still there, and so is its lease for a while.
  REQUIRE(cluster.InstallMuster().ok());
  auto muster = Muster::Start(cluster);
  INFO(muster.status());
  REQUIRE(muster.ok());
  const auto health = [&] { return (*muster)->HealthText("/readyz?verbose"); };
  REQUIRE(Eventually([&] { return health().find("Kueue's webhooks remain") != std::string::npos; }));
  CHECK(health().find("leading") == std::string::npos);
  CHECK(record("runs").empty());
  REQUIRE(api.MergePatch(kLease, R"({"spec": {"holderIdentity": ""}})").ok());
  REQUIRE(api.Delete(kWebhooks).ok());

  REQUIRE(Eventually([&] { return !record("runs").empty(); }, std::chrono::minutes(2)));
  REQUIRE(Eventually([&] { return workload("runs").At("metadata/finalizers").IsNull(); }));
  CHECK(job("runs")["spec"].Dump() == spec);
  CHECK(job("runs").At("status/startTime").Str() == start_time);
  CHECK(condition("runs", "Admitted")["lastTransitionTime"].Str() == "2026-01-02T03:04:05Z");
  CHECK(job("waits").At("spec/suspend").Bool());
  CHECK(Eventually([&] { return workload("waits").At("metadata/finalizers").IsNull(); }));
  CHECK(condition("waits", "QuotaReserved")["status"].Str() == "False");

  // Back: nobody admits anything any more, and Kueue finds in Workloads what it needs.
  (*muster)->process().Terminate();
  const auto kubeconfig = cluster.ServiceAccount("muster-system", "muster");
  REQUIRE(kubeconfig.ok());
  const std::string config = cluster.dir() + "/release.yaml";
  WriteFile(config, ShippedConfig());
  const absl::StatusOr<Output> released =
      Run({.args = {MUSTER_BIN_DIR "/muster", "release", "--config", config, "--kubeconfig", *kubeconfig}},
          std::chrono::minutes(2));
  REQUIRE(released.ok());
  INFO(released->err);
  REQUIRE(released->exit_code == 0);
  CHECK(record("runs").empty());
  CHECK(job("runs")["spec"].Dump() == spec);
  CHECK(PodUids(api) == pods);
  CHECK(condition("runs", "Admitted")["status"].Str() == "True");
  CHECK(workload("runs").At("status/admission/clusterQueue").Str() == "training");
  REQUIRE(cluster.Kubectl({"delete", "-k", Cat(MUSTER_SOURCE_DIR, "/config/policies")})->exit_code == 0);
  // Kueue applies its fields over what Muster has written: each condition stays one.
  const ApiResponse applied = kueue.Admit("runs");
  INFO(applied.text);
  REQUIRE(applied.ok());
  CHECK(applied.json.At("status/admission/podSetAssignments").Items().size() == 1);
  int admitted = 0;
  for (const Json& c : applied.json.At("status/conditions").Items()) admitted += c["type"].Str() == "Admitted" ? 1 : 0;
  CHECK(admitted == 1);

  // And to Muster again.
  REQUIRE(cluster.InstallMuster().ok());
  muster = Muster::Start(cluster, {.name = "again"});
  INFO(muster.status());
  REQUIRE(muster.ok());
  REQUIRE(Eventually([&] { return !record("runs").empty(); }, std::chrono::minutes(2)));
  CHECK(job("runs")["spec"].Dump() == spec);
  CHECK(PodUids(api) == pods);
  CHECK(job("waits").At("spec/suspend").Bool());
  REQUIRE(api.Delete(Cat(kJobs, "/runs"), R"({"propagationPolicy": "Background"})").ok());
  CHECK(Eventually([&] { return !job("waits").At("spec/suspend").Bool(true); }, std::chrono::minutes(2)));
}

}  // namespace
}  // namespace muster::cluster
