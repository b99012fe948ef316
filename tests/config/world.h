// What the tests of config/ share: one real API server with config/default applied as the repository has it, and
// the people who talk to it. Objects are written as YAML, with strict field validation.
//
// Threading: one thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "fixture/cluster.h"

namespace muster::config_test {

using cluster::ApiClient;
using cluster::ApiResponse;
using cluster::Json;

inline constexpr std::string_view kV1 = "v1beta1";
inline constexpr std::string_view kV2 = "v1beta2";

// "/apis/kueue.x-k8s.io/v1beta2/clusterqueues", with a namespace where one is given.
std::string Kueue(std::string_view version, std::string_view resource, std::string_view ns = "");
std::string Jobs(std::string_view ns);

// `query` is appended to the path's own: "dryRun=All".
ApiResponse Create(ApiClient& client, const std::string& path, const std::string& yaml, std::string_view query = "");
ApiResponse Replace(ApiClient& client, const std::string& path, const std::string& yaml);
ApiResponse Patch(ApiClient& client, const std::string& path, const std::string& json);
ApiResponse ServerSideApply(ApiClient& client, const std::string& path, const std::string& yaml,
                            const std::string& manager, bool force = false);
// The message of a refusal; what came instead, if it was accepted.
std::string Refusal(const ApiResponse& response);
// A dry run of its creation; a refusal fails the test.
void Accept(ApiClient& client, const std::string& path, const std::string& yaml);

struct World {
  std::unique_ptr<cluster::Cluster> cluster;
  std::unique_ptr<ApiClient> user;    // "submitter", with rights on Jobs
  std::unique_ptr<ApiClient> muster;  // the ServiceAccount, with the rights it ships with
  ApiClient& admin() { return cluster->Api(); }
};

// Started once. Namespaces: `team`, `spare`, and `homed`, which has a LocalQueue named default.
World& Shared();

std::unique_ptr<ApiClient> ClientAs(cluster::Cluster& cluster, const std::string& user);
std::unique_ptr<ApiClient> MusterClient(cluster::Cluster& cluster);

// A Job of one pod that never runs by itself, since its controller is nobody. `metadata` and `spec` are YAML flow
// entries: "labels: {a: b}", "parallelism: 3".
std::string JobYaml(const std::string& name, const std::string& metadata = "", const std::string& spec = "");
// The same with a queue name.
std::string QueuedJob(const std::string& name, const std::string& queue = "lq", const std::string& spec = "");

}  // namespace muster::config_test
