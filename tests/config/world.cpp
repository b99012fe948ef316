#include "world.h"

#include <catch2/catch.hpp>

#include "fixture/text.h"

namespace muster::config_test {

using cluster::Cat;
using cluster::Cluster;
using cluster::Credentials;
using cluster::Eventually;
using cluster::Quote;

namespace {

constexpr std::string_view kYaml = "application/yaml";

// Policies work some time after they were written; all are known when one of each kind, the last in order, works.
void AwaitPolicies(World& world) {
  REQUIRE(Eventually([&] {
    const ApiResponse job =
        Create(world.admin(), Jobs("homed"), JobYaml("probe", "labels: {a: b}", "suspend: false"), "dryRun=All");
    return job.json.At("spec/suspend").Bool();
  }));
  REQUIRE(Eventually([&] {
    const ApiResponse queue =
        Create(world.admin(), Kueue(kV2, "clusterqueues"),
               "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: probe}, "
               "spec: {cohortName: x}}",
               "dryRun=All");
    return queue.json.At("spec/cohort").Str() == "x";
  }));
  REQUIRE(Eventually([&] {
    return !Create(world.admin(), Kueue(kV2, "resourceflavors"),
                   "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: probe}, "
                   "spec: {nodeLabels: {-bad: x}}}",
                   "dryRun=All")
                .ok();
  }));
  REQUIRE(Eventually(
      [&] { return !Create(world.admin(), Jobs("team"), QueuedJob("probe", "Bad_Name"), "dryRun=All").ok(); }));
}

World* StartShared() {
  auto* world = new World;
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Cluster::Start(
      {.scheduler = false,
       .kwok = false,
       .controller_names = {"job-controller", "cronjob-controller", "clusterrole-aggregation-controller"}});
  INFO(cluster.status());
  REQUIRE(cluster.ok());
  world->cluster = *std::move(cluster);
  const absl::Status applied = world->cluster->Apply(Cat(MUSTER_SOURCE_DIR, "/config/default"));
  INFO(applied);
  REQUIRE(applied.ok());
  for (const char* ns : {"team", "spare", "homed"}) REQUIRE(world->cluster->CreateNamespace(ns).ok());
  world->cluster->SubmitterKubeconfig();  // grants the rights
  world->user = ClientAs(*world->cluster, "submitter");
  world->muster = MusterClient(*world->cluster);
  REQUIRE(Create(world->admin(), Kueue(kV2, "localqueues", "homed"),
                 "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: default}, "
                 "spec: {clusterQueue: homed}}")
              .status == 201);
  AwaitPolicies(*world);
  return world;
}

std::string WithQuery(const std::string& path, std::string_view query) {
  return Cat(path, "?fieldValidation=Strict", query.empty() ? "" : "&", query);
}

}  // namespace

std::string Kueue(std::string_view version, std::string_view resource, std::string_view ns) {
  return Cat("/apis/kueue.x-k8s.io/", version, ns.empty() ? "" : "/namespaces/", ns, "/", resource);
}

std::string Jobs(std::string_view ns) { return Cat("/apis/batch/v1/namespaces/", ns, "/jobs"); }

ApiResponse Create(ApiClient& client, const std::string& path, const std::string& yaml, std::string_view query) {
  return client.Call("POST", WithQuery(path, query), yaml, kYaml);
}

ApiResponse Replace(ApiClient& client, const std::string& path, const std::string& yaml) {
  return client.Call("PUT", WithQuery(path, ""), yaml, kYaml);
}

ApiResponse Patch(ApiClient& client, const std::string& path, const std::string& json) {
  return client.MergePatch(WithQuery(path, ""), json);
}

ApiResponse ServerSideApply(ApiClient& client, const std::string& path, const std::string& yaml,
                            const std::string& manager, bool force) {
  return client.Call("PATCH", WithQuery(path, Cat("fieldManager=", manager, force ? "&force=true" : "")), yaml,
                     "application/apply-patch+yaml");
}

std::string Refusal(const ApiResponse& response) {
  if (response.ok()) return "accepted: " + response.json.Dump();
  // 422 from CRDs and policies alike; anything else is an answer to another question.
  if (response.status != 422) return Cat("status ", response.status, ": ", response.text);
  return response.json["message"].Str();
}

void Accept(ApiClient& client, const std::string& path, const std::string& yaml) {
  const ApiResponse response = Create(client, path, yaml, "dryRun=All");
  INFO(yaml);
  INFO(response.text);
  CHECK(response.status == 201);
}

World& Shared() {
  static const std::unique_ptr<World> world(StartShared());
  return *world;
}

std::unique_ptr<ApiClient> ClientAs(Cluster& cluster, const std::string& user) {
  Credentials credentials;
  credentials.cert = cluster.authority().IssueClient(user, {});
  return std::make_unique<ApiClient>(cluster.port(), cluster.authority().cert(), credentials);
}

std::unique_ptr<ApiClient> MusterClient(Cluster& cluster) {
  const absl::StatusOr<std::string> token = cluster.ServiceAccountToken("muster-system", "muster");
  INFO(token.status());
  REQUIRE(token.ok());
  Credentials credentials;
  credentials.token = *token;
  return std::make_unique<ApiClient>(cluster.port(), cluster.authority().cert(), credentials);
}

std::string JobYaml(const std::string& name, const std::string& metadata, const std::string& spec) {
  return Cat("{apiVersion: batch/v1, kind: Job, metadata: {name: ", name, metadata.empty() ? "" : ", ", metadata,
             "}, spec: {managedBy: example.com/nobody, ", spec, spec.empty() ? "" : ", ",
             "template: {spec: {restartPolicy: Never, containers: [{name: main, image: train}]}}}}");
}

std::string QueuedJob(const std::string& name, const std::string& queue, const std::string& spec) {
  return JobYaml(name, Cat("labels: {kueue.x-k8s.io/queue-name: ", Quote(queue), "}"), spec);
}

}  // namespace muster::config_test
