// Who reads the metrics of a Muster that others can reach: decided by the API server, with real tokens and the roles
// that ship.

#include <catch2/catch.hpp>
#include <filesystem>

#include "fixture/muster.h"
#include "fixture/text.h"

namespace muster::cluster {
namespace {

ApiResponse Get(const Cluster& cluster, const Muster& muster, const std::string& token, const std::string& path) {
  ApiClient client(muster.metrics_port(), cluster.authority().cert(), {.cert = {}, .token = token});
  return client.Get(path);
}

absl::Status MakeServiceAccount(Cluster& cluster, const std::string& name, const std::string& role) {
  std::string yaml = Cat("{apiVersion: v1, kind: ServiceAccount, metadata: {name: ", name, ", namespace: watchers}}\n");
  if (!role.empty()) {
    yaml += Cat("---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: ", name,
                "}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ", role,
                "}, subjects: [{kind: ServiceAccount, name: ", name, ", namespace: watchers}]}\n");
  }
  return cluster.ApplyText(yaml);
}

// user_pains F15: as config/prometheus reads them.
TEST_CASE("Metrics over HTTPS: read by those who may, and by nobody else") {
  auto started = Cluster::Start({.scheduler = false, .kwok = false});
  INFO(started.status());
  REQUIRE(started.ok());
  Cluster& cluster = **started;
  const std::string certificates = cluster.dir() + "/metrics";
  std::filesystem::create_directory(certificates);
  const KeyPair pair = cluster.authority().IssueServer();
  WriteFile(certificates + "/tls.crt", pair.cert);
  WriteFile(certificates + "/tls.key", pair.key);
  for (const absl::Status& status :
       {cluster.InstallMuster(), cluster.CreateNamespace("watchers"),
        MakeServiceAccount(cluster, "prometheus", "muster-metrics-reader"),
        MakeServiceAccount(cluster, "sre", "muster-debug-reader"), MakeServiceAccount(cluster, "nosy", "")}) {
    INFO(status);
    REQUIRE(status.ok());
  }
  const std::string secured = Cat("muster: {plainHTTPMetrics: false, metricsCertDir: ", certificates, "}\n");
  auto muster = Muster::Start(cluster, {.config = ShippedConfig() + secured});
  INFO(muster.status());
  REQUIRE(muster.ok());
  REQUIRE((*muster)->AwaitReady());
  const auto token = [&](const std::string& name) {
    const auto made = cluster.ServiceAccountToken("watchers", name);
    REQUIRE(made.ok());
    return *made;
  };
  const std::string prometheus = token("prometheus");
  // The role's binding may be younger than what the API server's authorizer has seen.
  REQUIRE(Eventually([&] { return Get(cluster, **muster, prometheus, "/metrics").status == 200; }));
  CHECK_THAT(Get(cluster, **muster, prometheus, "/metrics").text, Catch::Contains("\nkueue_build_info{"));
  CHECK(Get(cluster, **muster, prometheus, "/debug/readyz").status == 403);

  const std::string nosy = token("nosy");
  const ApiResponse refused = Get(cluster, **muster, nosy, "/metrics");
  CHECK(refused.status == 403);
  CHECK(refused.text == "user system:serviceaccount:watchers:nosy has no right to get /metrics\n");
  CHECK(Get(cluster, **muster, "", "/metrics").status == 401);
  CHECK(Get(cluster, **muster, "guessed", "/metrics").status == 401);
  CHECK(Get(cluster, **muster, prometheus + "x", "/metrics").status == 401);

  const std::string sre = token("sre");
  REQUIRE(Eventually([&] { return Get(cluster, **muster, sre, "/debug/readyz?verbose").status == 200; }));
  CHECK_THAT(Get(cluster, **muster, sre, "/debug/readyz?verbose").text, Catch::Contains("[+]caches ok\n"));
  CHECK(Get(cluster, **muster, sre, "/metrics").status == 403);

  // A right that is given works soon, without a restart.
  REQUIRE(MakeServiceAccount(cluster, "nosy", "muster-metrics-reader").ok());
  CHECK(Eventually([&] { return Get(cluster, **muster, nosy, "/metrics").status == 200; }));
}

}  // namespace
}  // namespace muster::cluster
