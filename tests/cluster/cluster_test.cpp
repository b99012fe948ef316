// The fixture against the real thing: what every other test of the real control plane relies on.

#include "fixture/cluster.h"

#include <absl/strings/substitute.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <mutex>
#include <set>

#include "fixture/text.h"

namespace muster::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using Catch::Contains;

constexpr std::string_view kJobs = "/apis/batch/v1/namespaces/team/jobs";

std::string JobJson(const std::string& name, int pods, const std::string& annotations = "{}", int backoff_limit = 0) {
  return absl::Substitute(R"({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": $0}, "spec": {
      "parallelism": $1, "completions": $1, "backoffLimit": $3, "template": {"metadata": {"annotations": $2}, "spec": {
      "restartPolicy": "Never", "containers": [{"name": "main", "image": "train",
      "resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}}]}}}})",
                          Quote(name), pods, annotations, backoff_limit);
}

Json GetJob(ApiClient& api, const std::string& name) { return api.Get(Cat(kJobs, "/", name)).json; }

bool JobHas(ApiClient& api, const std::string& name, std::string_view condition) {
  return GetJob(api, name).At("status/conditions").Find("type", condition)["status"].Str() == "True";
}

std::unique_ptr<Cluster> StartCluster(const ClusterOptions& options) {
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Cluster::Start(options);
  INFO(cluster.status());
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

TEST_CASE("A Job runs to its end on kwok nodes, for as long as its annotations say") {
  const auto cluster = StartCluster({.nodes = {{.name = "gpu", .count = 2}}});
  ApiClient& api = cluster->Api();
  REQUIRE(cluster->CreateNamespace("team").ok());

  REQUIRE(api.Create(kJobs, JobJson("done", 16, R"({"muster.dev/run-seconds": "2.5"})")).status == 201);
  REQUIRE(api.Create(kJobs, JobJson("fails", 1, R"({"muster.dev/exit-code": "3"})")).status == 201);
  REQUIRE(Eventually([&] { return JobHas(api, "done", "Complete"); }));
  CHECK(GetJob(api, "done").At("status/succeeded").Int() == 16);
  REQUIRE(Eventually([&] { return JobHas(api, "fails", "Failed"); }));
  CHECK(GetJob(api, "fails").At("status/failed").Int() == 1);

  // 16 pods on 2 nodes of 8 GPUs: each node got 8, by the real scheduler; each container ran 2.5 s, as far as
  // timestamps of whole seconds can tell.
  std::map<std::string, int> pods_on;
  for (const Json& pod : api.Get("/api/v1/namespaces/team/pods?labelSelector=job-name%3Ddone").json["items"].Items()) {
    ++pods_on[pod.At("spec/nodeName").Str()];
    CHECK(pod.At("status/phase").Str() == "Succeeded");
    CHECK(pod.At("status/containerStatuses/0/state/terminated/exitCode").Int(-1) == 0);
  }
  CHECK(pods_on == std::map<std::string, int>{{"gpu-0", 8}, {"gpu-1", 8}});
}

TEST_CASE("Suspending a Job takes its pods away, as slowly as they ask to") {
  const auto cluster = StartCluster({.nodes = {{.name = "gpu", .count = 1}}});
  ApiClient& api = cluster->Api();
  REQUIRE(cluster->CreateNamespace("team").ok());
  REQUIRE(api.Create(kJobs,
                     JobJson("long", 2, R"({"muster.dev/run-seconds": "3600", "muster.dev/termination-seconds": "2"})"))
              .status == 201);
  const auto status = [&](const char* field) { return GetJob(api, "long")["status"][field].Int(); };
  REQUIRE(Eventually([&] { return status("ready") == 2; }));

  const SteadyTime suspended = std::chrono::steady_clock::now();
  REQUIRE(api.MergePatch(Cat(kJobs, "/long"), R"({"spec": {"suspend": true}})").ok());
  REQUIRE(Eventually([&] { return JobHas(api, "long", "Suspended") && status("active") == 0; }));
  const auto pods = [&] { return api.Get("/api/v1/namespaces/team/pods").json["items"].Items().size(); };
  CHECK(Eventually([&] { return pods() == 0; }));
  CHECK(std::chrono::steady_clock::now() - suspended >= seconds(2));

  REQUIRE(api.MergePatch(Cat(kJobs, "/long"), R"({"spec": {"suspend": false}})").ok());
  CHECK(Eventually([&] { return status("ready") == 2; }));
}

TEST_CASE("Each client is someone, may do what RBAC grants, and shows in the audit log") {
  const auto cluster = StartCluster({.scheduler = false, .kwok = false});
  ApiClient& api = cluster->Api();
  REQUIRE(cluster->CreateNamespace("team").ok());
  AuditLog audit = cluster->Audit();
  audit.Next();

  const auto kubectl = [&](const std::string& kubeconfig, std::vector<std::string> args,
                           const std::string& input = "") {
    args.insert(args.begin(), "--kubeconfig=" + kubeconfig);
    absl::StatusOr<Output> output = cluster->Kubectl(args, input);
    REQUIRE(output.ok());
    return *output;
  };
  const std::string submitter = cluster->SubmitterKubeconfig();
  CHECK(kubectl(submitter, {"create", "-n", "team", "-f", "-"}, JobJson("mine", 1)).exit_code == 0);
  const Output refused = kubectl(submitter, {"delete", "namespace", "team"});
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.err, Contains("User \"submitter\" cannot delete resource \"namespaces\""));

  REQUIRE(cluster->CreateNamespace("muster-system").ok());
  REQUIRE(api.Create("/api/v1/namespaces/muster-system/serviceaccounts",
                     R"({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "muster"}})")
              .status == 201);
  const absl::StatusOr<std::string> account = cluster->ServiceAccount("muster-system", "muster");
  REQUIRE(account.ok());
  CHECK_THAT(kubectl(*account, {"get", "jobs", "-n", "team"}).err,
             Contains("User \"system:serviceaccount:muster-system:muster\" cannot list resource \"jobs\""));
  REQUIRE(cluster
              ->Grant("muster-reads-jobs", R"([{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]}])",
                      R"({"kind": "ServiceAccount", "namespace": "muster-system", "name": "muster"})")
              .ok());
  CHECK(Eventually([&] { return kubectl(*account, {"get", "jobs", "-n", "team"}).exit_code == 0; }));

  std::vector<std::string> submitted;
  for (const AuditEvent& event : audit.Next()) {
    if (event.user == "submitter" && event.IsWrite()) {
      submitted.push_back(Cat(WriteKey(event), " ", event.ns, "/", event.name, " ", event.code));
      CHECK(event.answered >= event.received);
      CHECK(event.received > std::chrono::sys_days(std::chrono::year(2020) / 1 / 1));
    }
  }
  CHECK(submitted == std::vector<std::string>{"create jobs team/mine 201", "delete namespaces team/team 403"});
  CHECK(audit.Select([](const AuditEvent& e) { return e.user.ends_with(":muster") && e.code == 200; }).size() == 1);
}

TEST_CASE("What an administrator applies to install Muster is accepted, at once and again") {
  const auto cluster = StartCluster({.scheduler = false, .kwok = false, .controllers = false});
  for (int time = 0; time < 2; ++time) {
    const absl::Status status = cluster->InstallMuster();
    INFO(status);
    CHECK(status.ok());
  }
  const absl::StatusOr<std::string> account = cluster->ServiceAccount("muster-system", "muster");
  REQUIRE(account.ok());
  const absl::StatusOr<Output> queues = cluster->Kubectl({"--kubeconfig", *account, "get", "clusterqueues"});
  REQUIRE(queues.ok());
  CHECK(queues->err == "No resources found\n");
}

TEST_CASE("The API server may die and come back at the same address with the same objects") {
  const auto cluster = StartCluster({.scheduler = false, .kwok = false, .controllers = false});
  ApiClient& api = cluster->Api();
  REQUIRE(cluster->CreateNamespace("team").ok());
  std::mutex mutex;
  std::set<std::string> seen;
  std::string end;
  const auto watch = api.StartWatch(
      "/api/v1/namespaces?watch=true",
      [&](const Json& line) {
        const std::lock_guard lock(mutex);
        seen.insert(line.At("object/metadata/name").Str());
      },
      [&](const std::string& why) {
        const std::lock_guard lock(mutex);
        end = why;
      });
  const auto locked = [&](const auto& read) {
    const std::lock_guard lock(mutex);
    return read();
  };
  REQUIRE(Eventually([&] { return locked([&] { return seen.contains("team"); }); }));

  cluster->Part(Component::kApiServer).Kill();
  CHECK(Eventually([&] { return locked([&] { return !end.empty() && end != "OK"; }); }));
  const ApiResponse down = api.Get("/api/v1/namespaces/team");
  CHECK(down.status == 0);
  CHECK_THAT(down.text, Contains("refused"));

  REQUIRE(cluster->Restart(Component::kApiServer).ok());
  CHECK(api.Get("/api/v1/namespaces/team").status == 200);

  cluster->Part(Component::kApiServer).Pause();
  CHECK(api.Call("GET", "/api/v1/namespaces/team", "", "", milliseconds(500)).status == 0);
  cluster->Part(Component::kApiServer).Resume();
  CHECK(Eventually([&] { return api.Get("/api/v1/namespaces/team").status == 200; }));
  CHECK(cluster->Part(Component::kApiServer).CpuTime() > milliseconds(100));
}

TEST_CASE("A component that cannot start is named, with the end of its log") {
  const absl::StatusOr<std::unique_ptr<Cluster>> cluster =
      Cluster::Start({.controllers = false, .api_server_flags = {"--no-such-flag"}});
  REQUIRE_FALSE(cluster.ok());
  CHECK_THAT(std::string(cluster.status().message()), Contains("kube-apiserver ended by itself"));
  CHECK_THAT(std::string(cluster.status().message()), Contains("unknown flag: --no-such-flag"));
}

}  // namespace
}  // namespace muster::cluster
