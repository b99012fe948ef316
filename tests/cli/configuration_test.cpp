// Expected values and rules: kueue_semantics 1.9; where Muster is stricter or refuses, docs/configuration.md.

#include "muster/cli/configuration.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace muster::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kHeader = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n";  // two lines

std::string Errors(const std::string& text, const std::string& ns = "muster-system") {
  const auto result = ParseConfiguration(text, ns);
  std::string out;
  if (const auto* errors = std::get_if<std::vector<ConfigError>>(&result)) {
    for (const ConfigError& error : *errors) out += error.ToString("f") + "\n";
  }
  return out;
}

Configuration Good(const std::string& text) {
  auto result = ParseConfiguration(text, "muster-system");
  CHECK(Errors(text) == "");
  REQUIRE(std::holds_alternative<Configuration>(result));
  return std::get<Configuration>(std::move(result));
}

bool HasNote(const Configuration& config, const std::string& start) {
  for (const std::string& note : config.notes) {
    if (note.starts_with(start)) return true;
  }
  return false;
}

TEST_CASE("a file with nothing set gives Kueue's defaults") {
  const Configuration c = Good(kHeader);
  CHECK(c.controller.ns == "muster-system");
  CHECK(c.controller.leader_elect);
  CHECK(c.controller.lease.name == "c1f6bfd2.kueue.x-k8s.io");
  CHECK(c.controller.lease.ns == "muster-system");
  CHECK(c.controller.lease.lease_duration == seconds(15));
  CHECK(c.controller.lease.renew_deadline == seconds(10));
  CHECK(c.controller.lease.retry_period == seconds(2));
  CHECK(c.client.qps == 300);
  CHECK(c.client.burst == 500);
  CHECK(c.client.lease_timeout == seconds(5));
  CHECK(c.client.write_timeout == seconds(4));
  CHECK(c.client.leave_within == seconds(2));
  CHECK(c.controller.takeover_wait == seconds(6));  // 2 s to leave and 4 s to be applied
  CHECK_FALSE(c.controller.manage_jobs_without_queue_name);
  CHECK_FALSE(c.controller.wait_for_terminating_pods);
  CHECK_FALSE(c.controller.check_machines);
  CHECK(c.controller.place_timeout == seconds(60));
  CHECK(c.controller.reserve_after == seconds(0));
  CHECK(c.controller.defragment_after == seconds(0));
  CHECK(c.controller.managed_jobs_namespace_selector ==
        LabelSelector{
            {}, {{"kubernetes.io/metadata.name", Requirement::Operator::kNotIn, {"kube-system", "muster-system"}}}});
  CHECK(c.health.enabled);
  CHECK(c.health.address == server::Address{"", 8081});
  CHECK(c.readiness_endpoint == "readyz");
  CHECK(c.liveness_endpoint == "healthz");
  CHECK_FALSE(c.metrics_options.cluster_queue_resources);
  CHECK(c.metrics_options.local_queues);
  CHECK(c.metrics.enabled);
  CHECK(c.metrics.address == server::Address{"", 8443});
  CHECK(c.metrics_secured);
  CHECK(c.metrics_tls.certificate_file.empty());
  CHECK_FALSE(c.metrics_tls.tls13_only);
  REQUIRE(c.controller.wait_for_pods_ready.has_value());
  CHECK(c.controller.wait_for_pods_ready->timeout == std::chrono::minutes(30));
  CHECK(c.controller.wait_for_pods_ready->recovery_timeout == std::chrono::minutes(30));
  CHECK_FALSE(c.controller.wait_for_pods_ready->block_admission);
  CHECK(c.controller.wait_for_pods_ready->queue_since_eviction);
  CHECK(c.controller.wait_for_pods_ready->backoff_base == std::chrono::minutes(1));
  CHECK(c.controller.wait_for_pods_ready->backoff_max == std::chrono::hours(1));
  CHECK_FALSE(c.controller.wait_for_pods_ready->backoff_limit_count.has_value());
  CHECK(c.controller.pass_over_timed_out == Duration(0));
  CHECK_FALSE(HasNote(c, "waitForPodsReady"));
  CHECK(HasNote(c, "visibilityServer is on by default in Kueue and off here"));
  CHECK_FALSE(HasNote(c, "metrics are served"));
}

TEST_CASE("every supported field is used") {
  const Configuration c = Good(kHeader + R"(
namespace: batch
manageJobsWithoutQueueName: true
managedJobsNamespaceSelector:
  matchLabels: {team: a}
  matchExpressions:
  - {key: example.com/env, operator: In, values: [dev, "2"]}
  - {key: gone, operator: DoesNotExist}
health: {healthProbeBindAddress: "0", readinessEndpointName: ready, livenessEndpointName: alive}
metrics:
  bindAddress: :9090
  enableClusterQueueResources: true
  localQueueMetrics: {enable: false}
leaderElection:
  leaderElect: false
  leaseDuration: 60s
  renewDeadline: 40s
  retryPeriod: 500ms
  resourceLock: leases
  resourceName: other
  resourceNamespace: elsewhere
clientConnection: {qps: -1, burst: 0}
integrations:
  frameworks: [batch/job]
  labelKeysToCopy: [example.com/cost-center, team]
objectRetentionPolicies: {workloads: {afterFinished: 0s, afterDeactivatedByKueue: 1h30m}}
featureGates: {TopologyAwareScheduling: true, DisableWaitForPodsReady: true, TASCacheTopologyTree: false}
muster:
  allowedStarters: ["system:serviceaccount:bench:starter"]
  deciders: 4
  defragmentAfter: 20s
  kueueNamespace: kueue
  machines: {enable: true, placeTimeout: 15s, reserveAfter: 10m}
  parents:
  - {user: "system:serviceaccount:jobset-system:jobset", group: jobset.x-k8s.io, kind: JobSet}
  - {user: "system:serviceaccount:jobset-system:jobset", group: jobset.x-k8s.io, kind: Other}
  plainHTTPMetrics: true
  waitForTerminatingPods: true
)");
  CHECK(c.controller.ns == "batch");
  CHECK(c.controller.manage_jobs_without_queue_name);
  CHECK(c.controller.managed_jobs_namespace_selector ==
        LabelSelector{{{"team", "a"}},
                      {{"example.com/env", Requirement::Operator::kIn, {"dev", "2"}},
                       {"gone", Requirement::Operator::kDoesNotExist, {}}}});
  CHECK_FALSE(c.health.enabled);
  CHECK(c.readiness_endpoint == "ready");
  CHECK(c.liveness_endpoint == "alive");
  CHECK(c.metrics.address == server::Address{"", 9090});
  CHECK(c.metrics_options.cluster_queue_resources);
  CHECK_FALSE(c.metrics_options.local_queues);
  CHECK_FALSE(c.controller.leader_elect);
  CHECK(c.controller.lease.lease_duration == seconds(60));
  CHECK(c.controller.lease.renew_deadline == seconds(40));
  CHECK(c.controller.lease.retry_period == milliseconds(500));
  CHECK(c.controller.lease.name == "other");
  CHECK(c.controller.lease.ns == "elsewhere");
  CHECK(c.client.qps == -1);
  CHECK(c.client.burst == 0);
  CHECK(c.client.lease_timeout == seconds(20));  // half of 40 s, as client-go has it
  CHECK(c.client.write_timeout == seconds(16));  // four fifths of 60 s - 40 s
  CHECK(c.client.leave_within == seconds(8));
  CHECK(c.controller.takeover_wait == seconds(24));
  CHECK(c.controller.label_keys_to_copy == std::vector<std::string>{"example.com/cost-center", "team"});
  CHECK(c.controller.allowed_starters == std::vector<std::string>{"system:serviceaccount:bench:starter"});
  CHECK(c.controller.wait_for_terminating_pods);
  CHECK(c.controller.deciders == 4);
  CHECK(c.controller.check_machines);
  CHECK(c.controller.place_timeout == seconds(15));
  CHECK(c.controller.reserve_after == std::chrono::minutes(10));
  CHECK(c.controller.defragment_after == seconds(20));
  CHECK(c.controller.retention.after_finished == seconds(0));
  CHECK(c.controller.retention.after_deactivated == seconds(5400));
  CHECK(c.controller.kueue_namespace == "kueue");
  REQUIRE(c.controller.parents.size() == 2);
  CHECK(c.controller.parents[0].user == "system:serviceaccount:jobset-system:jobset");
  CHECK(c.controller.parents[0].group == "jobset.x-k8s.io");
  CHECK(c.controller.parents[0].kind == "JobSet");
  CHECK(c.controller.parents[1].kind == "Other");
}

TEST_CASE("metrics are plain HTTP on loopback, HTTPS elsewhere, unless it is said") {
  const auto secured = [](const std::string& address, const std::string& plain) {
    return Good(kHeader + "metrics: {bindAddress: '" + address + "'}\n" +
                (plain.empty() ? "" : "muster: {plainHTTPMetrics: " + plain + "}\n"))
        .metrics_secured;
  };
  CHECK_FALSE(secured("127.0.0.1:8443", ""));
  CHECK_FALSE(secured("[::1]:8443", ""));
  CHECK(secured(":8443", ""));
  CHECK(secured("10.0.0.1:8443", ""));
  CHECK(secured("127.0.0.1:8443", "false"));
  CHECK_FALSE(secured(":8443", "true"));
  CHECK(HasNote(Good(kHeader + "metrics: {bindAddress: 'localhost:1'}\n"),
                "metrics are served on 127.0.0.1:1 over plain HTTP"));
}

TEST_CASE("the certificate and the settings of TLS") {
  const Configuration c = Good(kHeader + R"(
tls:
  minVersion: VersionTLS12
  cipherSuites: [TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
  curvePreferences: [29, 23]
muster: {metricsCertDir: /certs}
)");
  CHECK(c.metrics_tls.certificate_file == "/certs/tls.crt");
  CHECK(c.metrics_tls.key_file == "/certs/tls.key");
  CHECK_FALSE(c.metrics_tls.tls13_only);
  CHECK(c.metrics_tls.cipher_suites ==
        std::vector<std::string>{"TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"});
  CHECK(c.metrics_tls.curves == std::vector<int64_t>{29, 23});
  CHECK(Good(kHeader + "tls: {minVersion: VersionTLS13}\n").metrics_tls.tls13_only);
}

TEST_CASE("the defaults follow the namespace of the file") {
  const Configuration c = Good(kHeader + "namespace: batch\n");
  CHECK(c.controller.lease.ns == "batch");
  CHECK(c.controller.managed_jobs_namespace_selector.match_expressions[0].values ==
        std::vector<std::string>{"kube-system", "batch"});
}

TEST_CASE("what of a pod's requests is counted, and as what") {
  CHECK_FALSE(Good(kHeader).controller.ignore_undeclared_resources);
  CHECK(Good(kHeader + "resources: {quotaCheckStrategy: IgnoreUndeclared}\n").controller.ignore_undeclared_resources);
  const Configuration c = Good(kHeader + R"(
resources:
  excludeResourcePrefixes: [example.com/]
  transformations:
  - input: nvidia.com/gpumem
    strategy: Replace
    multiplyBy: nvidia.com/gpu
    outputs: {nvidia.com/total-gpumem: 1}
  - input: nvidia.com/mig-1g.5gb
    outputs: {gpu-memory: 5Gi, credits: 500m}
)");
  const gang::RequestConfig& requests = c.controller.requests;
  CHECK(requests.exclude_prefixes == std::vector<std::string>{"example.com/"});
  REQUIRE(requests.transformations.size() == 2);
  const gang::Transformation& memory = requests.transformations[0];
  CHECK(memory.input == "nvidia.com/gpumem");
  CHECK_FALSE(memory.retain);
  CHECK(memory.multiply_by == "nvidia.com/gpu");
  CHECK(memory.outputs.at("nvidia.com/total-gpumem") == Quantity::FromInteger(1));
  const gang::Transformation& mig = requests.transformations[1];
  CHECK(mig.retain);
  CHECK(mig.outputs.at("gpu-memory") == *Quantity::Parse("5Gi"));
  CHECK(mig.outputs.at("credits") == *Quantity::Parse("0.5"));
}

TEST_CASE("fields that mean nothing here are accepted and named") {
  const Configuration c = Good(kHeader + R"(
webhook: {port: 9443, host: "", certDir: /certs}
internalCertManagement: {enable: true, webhookServiceName: a, webhookSecretName: b}
controller:
  groupKindConcurrency: {Job.batch: 5, Workload.kueue.x-k8s.io: 10}
  cacheSyncTimeout: 120000000000
resources: {quotaCheckStrategy: BlockUndeclared, excludeResourcePrefixes: [], transformations: []}
integrations: {frameworks: [], externalFrameworks: []}
objectRetentionPolicies: {workloads: {afterFinished: null, afterDeactivatedByKueue: ~}}
waitForPodsReady:
pprofBindAddress: "0"
tls: {minVersion: "", cipherSuites: []}
multiKueue: {}
)");
  for (const std::string field :
       {"webhook", "internalCertManagement", "controller.groupKindConcurrency", "controller.cacheSyncTimeout"}) {
    CAPTURE(field);
    CHECK(HasNote(c, field + " has no effect: "));
  }
}

TEST_CASE("Kueue's own file is refused for what it asks for, field by field") {
  // The shipped configuration of Kueue 0.20, without its comments.
  CHECK(Errors(R"(apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health:
  healthProbeBindAddress: :8081
metrics:
  bindAddress: :8443
webhook:
  port: 9443
leaderElection:
  leaderElect: true
  resourceName: c1f6bfd2.kueue.x-k8s.io
controller:
  groupKindConcurrency:
    Job.batch: 5
clientConnection:
  qps: 300
  burst: 500
integrations:
  frameworks:
  - "batch/job"
  - "ray.io/rayjob"
  - "pod"
)") == "f:21: integrations.frameworks[1]: \"ray.io/rayjob\": not supported yet\n"
       "f:22: integrations.frameworks[2]: \"pod\": not supported yet\n");
}

struct Case {
  const char* text;      // after the two lines of the header
  const char* expected;  // all errors
};

// user_pains G5
TEST_CASE("mistakes are reported with line, path, value and remedy") {
  const Case kCases[] = {
      // keys
      {"metrics:\n  bindAdress: x\n", "f:4: metrics.bindAdress: x: unknown field; did you mean bindAddress?\n"},
      {"Metrics: {}\n", "f:3: Metrics: a map of 0: unknown field; did you mean metrics?\n"},
      {"zzzzzzzzzzzz: 1\n", "f:3: zzzzzzzzzzzz: 1: unknown field\n"},
      {"metrics.bindAddress: x\n", "f:3: metrics.bindAddress: x: unknown field\n"},
      {"\"integrations.frameworks[]\": x\n", "f:3: integrations.frameworks[]: x: unknown field\n"},
      {"clientConnection:\n  qps: 1\n  qps: 2\n", "f:5: clientConnection.qps: 2: set twice\n"},
      {"featureGates:\n  MultiKueue: false\n  MultiKueue: false\n",
       "f:5: featureGates[MultiKueue]: false: set twice\n"},
      {"kind: Configuration\n", "f:3: kind: Configuration: set twice\n"},
      // types
      {"metrics: x\n", "f:3: metrics: x: must be a map\n"},
      {"metrics:\n- a\n", "f:3: metrics: a list of 1: must be a map\n"},
      {"manageJobsWithoutQueueName: yes\n", "f:3: manageJobsWithoutQueueName: yes: must be true or false\n"},
      {"manageJobsWithoutQueueName: \"true\"\n", "f:3: manageJobsWithoutQueueName: \"true\": must be true or false\n"},
      {"namespace: 12\n", "f:3: namespace: 12: must be text; write it in quotes\n"},
      {"namespace: on\n", "f:3: namespace: on: must be text; write it in quotes\n"},
      {"metrics: {bindAddress: 0}\n", "f:3: metrics.bindAddress: 0: must be text; write it in quotes\n"},
      {"integrations: {frameworks: batch/job}\n", "f:3: integrations.frameworks: batch/job: must be a list\n"},
      {"integrations: {frameworks: [batch/job, 3]}\n",
       "f:3: integrations.frameworks[1]: 3: must be text; write it in quotes\n"},
      {"clientConnection: {burst: 1.5}\n", "f:3: clientConnection.burst: 1.5: must be a whole number\n"},
      {"clientConnection: {burst: 99999999999999999999}\n",
       "f:3: clientConnection.burst: 99999999999999999999: must be a whole number\n"},
      {"clientConnection: {qps: .inf}\n", "f:3: clientConnection.qps: .inf: must be a number\n"},
      {"clientConnection: {qps: \"5\"}\n", "f:3: clientConnection.qps: \"5\": must be a number\n"},
      {"featureGates: {MultiKueue: null}\n", "f:3: featureGates[MultiKueue]: null: must be true or false\n"},
      {"leaderElection: {leaseDuration: 15}\n",
       "f:3: leaderElection.leaseDuration: 15: must be a duration with units, such as 15s, 500ms or 1h30m\n"},
      {"leaderElection: {leaseDuration: 15 s}\n",
       "f:3: leaderElection.leaseDuration: 15 s: must be a duration with units, such as 15s, 500ms or 1h30m\n"},
      {"waitForPodsReady: {timeout: soon}\n",
       "f:3: waitForPodsReady.timeout: soon: must be a duration with units, such as 15s, 500ms or 1h30m\n"},
      {"resources:\n  transformations:\n  - input: a\n    outputs: {cpu: 1x}\n",
       "f:6: resources.transformations[0].outputs[cpu]: 1x: must be a quantity, such as 500m, 4 or 2Gi\n"},
      {"resources:\n  transformations:\n  - input: a\n  - input: a\n  - {multiplyBy: a b, input: c}\n",
       "f:6: resources.transformations[1].input: a: is transformed twice\n"
       "f:7: resources.transformations[2].multiplyBy: a b: must be the name of a resource, such as nvidia.com/gpu\n"},
      {"resources: {transformations: [{outputs: {cpu: 1}}]}\n",
       "f:3: resources.transformations[0].input: must be the name of a resource, such as nvidia.com/gpu\n"},
      {"resources: {excludeResourcePrefixes: [example.com/], quotaCheckStrategy: IgnoreUndeclared}\n",
       "f:3: resources.excludeResourcePrefixes[0]: example.com/: must not be set beside quotaCheckStrategy "
       "IgnoreUndeclared\n"},
      {"resources: {excludeResourcePrefixes: ['']}\n",
       "f:3: resources.excludeResourcePrefixes[0]: \"\": must not be empty: every resource begins with it\n"},
      {"resources: {quotaCheckStrategy: Ignore}\n",
       "f:3: resources.quotaCheckStrategy: Ignore: must be one of BlockUndeclared, IgnoreUndeclared\n"},
      // leader election
      {"leaderElection: {leaseDuration: 10s}\n",
       "f:3: leaderElection.leaseDuration: 10s: must exceed renewDeadline, which is 10s, by 1s or more\n"},
      {"leaderElection:\n  renewDeadline: 2400ms\n",
       "f:4: leaderElection.renewDeadline: 2400ms: must be more than 1.2 times retryPeriod, which is 2s\n"},
      {"leaderElection: {retryPeriod: 9s}\n",
       "f:3: leaderElection.renewDeadline: must be more than 1.2 times retryPeriod, which is 9s\n"},
      {"leaderElection: {leaseDuration: 1500ms, renewDeadline: 1s, retryPeriod: 100ms}\n",
       "f:3: leaderElection.leaseDuration: 1500ms: must be whole seconds, from 1s to 1h\n"},
      {"leaderElection: {leaseDuration: -15s}\n",
       "f:3: leaderElection.leaseDuration: -15s: must be whole seconds, from 1s to 1h\n"},
      {"leaderElection: {retryPeriod: 0s}\n", "f:3: leaderElection.retryPeriod: 0s: must be from 100ms to 1h\n"},
      {"leaderElection: {retryPeriod: 2000000h}\n",
       "f:3: leaderElection.retryPeriod: 2000000h: must be from 100ms to 1h\n"},
      {"leaderElection: {renewDeadline: 2000000h}\n",
       "f:3: leaderElection.renewDeadline: 2000000h: must be more than 0s, and 1h at most\n"},
      {"leaderElection: {renewDeadline: -2000000h}\n",
       "f:3: leaderElection.renewDeadline: -2000000h: must be more than 0s, and 1h at most\n"},
      {"leaderElection: {resourceLock: configmaps}\n",
       "f:3: leaderElection.resourceLock: configmaps: must be leases\n"},
      {"leaderElection: {resourceName: A_B}\n",
       "f:3: leaderElection.resourceName: A_B: must be a DNS name: lower-case letters, digits, '-' and '.', at most "
       "253\n"},
      // client
      {"clientConnection: {qps: 0}\n",
       "f:3: clientConnection.qps: 0: must not be 0; a negative number means no limit\n"},
      {"clientConnection: {qps: 0.0000001}\n",
       "f:3: clientConnection.qps: 0.0000001: must be at least 1; a negative number means no limit\n"},
      {"clientConnection: {burst: 0}\n", "f:3: clientConnection.burst: 0: must be from 1 to 1000000\n"},
      {"clientConnection: {burst: -5}\n", "f:3: clientConnection.burst: -5: must be from 1 to 1000000\n"},
      {"clientConnection: {qps: -1, burst: -5}\n", "f:3: clientConnection.burst: -5: must be from 0 to 1000000\n"},
      // selectors
      {"managedJobsNamespaceSelector: {}\n",
       "f:3: managedJobsNamespaceSelector: a map of 0: must not match the namespace kube-system; exclude it by "
       "kubernetes.io/metadata.name\n"},
      {"managedJobsNamespaceSelector:\n  matchExpressions:\n  - {key: kubernetes.io/metadata.name, operator: NotIn, "
       "values: [kube-system]}\n",
       "f:3: managedJobsNamespaceSelector: a map of 1: must not match the namespace muster-system; exclude it by "
       "kubernetes.io/metadata.name\n"},
      {"managedJobsNamespaceSelector:\n  matchLabels: {a/b/c: x, ok: '-'}\n",
       "f:4: managedJobsNamespaceSelector.matchLabels[a/b/c]: x: the key must be a label key: a name of at most 63 "
       "letters, digits, '-', '_' and '.', with an optional DNS prefix and '/'\n"
       "f:4: managedJobsNamespaceSelector.matchLabels[ok]: \"-\": must be a label value: at most 63 letters, digits, "
       "'-', '_' and '.'\n"},
      {"managedJobsNamespaceSelector:\n  matchExpressions:\n  - operator: In\n  - {key: a, operator: Equals}\n  - "
       "{key: "
       "a, operator: Exists, values: [b]}\n  - {key: a}\n",
       "f:5: managedJobsNamespaceSelector.matchExpressions[0].key: must be set\n"
       "f:5: managedJobsNamespaceSelector.matchExpressions[0].values: must be set for In\n"
       "f:6: managedJobsNamespaceSelector.matchExpressions[1].operator: Equals: must be one of In, NotIn, Exists, "
       "DoesNotExist\n"
       "f:7: managedJobsNamespaceSelector.matchExpressions[2].values: a list of 1: must not be set for Exists\n"
       "f:8: managedJobsNamespaceSelector.matchExpressions[3].operator: must be In, NotIn, Exists or DoesNotExist\n"},
      // integrations
      {"integrations: {frameworks: [batch/jobs]}\n",
       "f:3: integrations.frameworks[0]: batch/jobs: unknown framework\n"
       "f:3: integrations.frameworks: a list of 1: must have batch/job, the only framework there is so far\n"},
      {"integrations: {frameworks: [batch/job, batch/job]}\n",
       "f:3: integrations.frameworks[1]: batch/job: listed twice\n"},
      {"integrations: {labelKeysToCopy: [a b]}\n",
       "f:3: integrations.labelKeysToCopy[0]: a b: must be a label key: a name of at most 63 letters, digits, '-', "
       "'_' and '.', with an optional DNS prefix and '/'\n"},
      // addresses
      {"health: {healthProbeBindAddress: 8081x}\n",
       "f:3: health.healthProbeBindAddress: 8081x: want HOST:PORT, where HOST is an IP address (IPv6 in brackets), "
       "localhost or empty, or \"0\" for none\n"},
      {"health: {healthProbeBindAddress: ':70000'}\n",
       "f:3: health.healthProbeBindAddress: \":70000\": the port must be a number from 0 to 65535, or \"0\" for "
       "none\n"},
      {"health: {healthProbeBindAddress: '127.0.0.1:8443'}\n",
       "f:3: health.healthProbeBindAddress: \"127.0.0.1:8443\": is the default of metrics.bindAddress; set one of them "
       "to another\n"},
      {"health: {healthProbeBindAddress: ':9'}\nmetrics: {bindAddress: '[::1]:9'}\n",
       "f:4: metrics.bindAddress: \"[::1]:9\": is the address of health.healthProbeBindAddress too\n"},
      {"health: {readinessEndpointName: a/b}\n",
       "f:3: health.readinessEndpointName: a/b: must be one path segment of letters, digits, '-' and '_', without "
       "'/'\n"},
      {"health: {livenessEndpointName: readyz}\n",
       "f:3: health.livenessEndpointName: readyz: is the name of the readiness endpoint\n"},
      // gates
      {"featureGates: {MultiKueues: true}\n",
       "f:3: featureGates[MultiKueues]: true: unknown feature gate; did you mean MultiKueue?\n"},
      {"featureGates: {TASRespectNodeAffinityPreferred: true}\n",
       "f:3: featureGates[TASRespectNodeAffinityPreferred]: true: not supported yet\n"},
      {"featureGates: {AdmissionGatedBy: false}\n",
       "f:3: featureGates[AdmissionGatedBy]: false: cannot be turned off: Muster always does this\n"},
      // pods that do not get ready
      {"waitForPodsReady: {timeout: 0s, recoveryTimeout: -1s}\n",
       "f:3: waitForPodsReady.timeout: 0s: must be more than 0s\n"
       "f:3: waitForPodsReady.recoveryTimeout: -1s: must be 0s, for no limit, or more\n"},
      {"waitForPodsReady: {requeuingStrategy: {timestamp: Now, backoffLimitCount: -1, backoffBaseSeconds: 2147483648, "
       "backoffMaxSeconds: -5}}\n",
       "f:3: waitForPodsReady.requeuingStrategy.timestamp: Now: must be one of Creation, Eviction\n"
       "f:3: waitForPodsReady.requeuingStrategy.backoffBaseSeconds: 2147483648: must be from 0 to 2147483647\n"
       "f:3: waitForPodsReady.requeuingStrategy.backoffMaxSeconds: -5: must be from 0 to 2147483647\n"
       "f:3: waitForPodsReady.requeuingStrategy.backoffLimitCount: -1: must be from 0 to 2147483647\n"},
      // Muster's own
      {"muster: {allowedStarters: ['', a, a]}\n",
       "f:3: muster.allowedStarters[0]: \"\": must be the name of a user, such as "
       "system:serviceaccount:NAMESPACE:NAME\n"
       "f:3: muster.allowedStarters[2]: a: listed twice\n"},
      {"tls: {minVersion: VersionTLS11}\n",
       "f:3: tls.minVersion: VersionTLS11: must be one of VersionTLS12, VersionTLS13\n"},
      {"tls: {cipherSuites: [TLS_RSA_WITH_RC4_128_SHA, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}\n",
       "f:3: tls.cipherSuites[0]: TLS_RSA_WITH_RC4_128_SHA: must be a cipher suite that Go calls secure, such as "
       "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n"},
      {"tls: {cipherSuites: [TLS_AES_128_GCM_SHA256]}\n",
       "f:3: tls.cipherSuites: a list of 1: has none of TLS 1.2; to have 1.3 alone, set minVersion to VersionTLS13\n"},
      {"tls: {minVersion: VersionTLS13, cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}\n",
       "f:3: tls.cipherSuites: a list of 1: must not be set beside minVersion VersionTLS13: its suites are fixed\n"},
      {"tls: {curvePreferences: [4588]}\n",
       "f:3: tls.curvePreferences[0]: 4588: must be one of 23 (P-256), 24 (P-384), 25 (P-521), 29 (X25519)\n"},
      {"metrics: {bindAddress: '127.0.0.1:1'}\nmuster: {metricsCertDir: /c}\n",
       "f:4: muster.metricsCertDir: /c: must not be set where metrics are plain HTTP\n"},
      {"muster: {deciders: 0}\n", "f:3: muster.deciders: 0: must be between 1 and 64\n"},
      {"muster: {deciders: 65}\n", "f:3: muster.deciders: 65: must be between 1 and 64\n"},
      {"muster: {kueueNamespace: A_B}\n",
       "f:3: muster.kueueNamespace: A_B: must be a DNS label: at most 63 lower-case letters, digits and '-'\n"},
      {"muster:\n  parents:\n  - {user: u, group: g.io, kind: K}\n  - {user: '', group: g_, kind: jobset}\n"
       "  - {user: u, group: g.io}\n  - none\n  - {user: u, group: g.io, kind: K}\n",
       "f:6: muster.parents[1].user: \"\": must be the name of a user, such as system:serviceaccount:NAMESPACE:NAME\n"
       "f:6: muster.parents[1].group: g_: must be a DNS name: lower-case letters, digits, '-' and '.', at most 253\n"
       "f:6: muster.parents[1].kind: jobset: must be the kind of an object, such as JobSet\n"
       "f:7: muster.parents[2].kind: must be set\n"
       "f:8: muster.parents[3]: none: must be a map\n"
       "f:9: muster.parents[4]: a map of 3: listed twice\n"},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.text);
    CHECK(Errors(kHeader + c.text) == c.expected);
  }
}

TEST_CASE("fields not supported yet are refused by name where they ask for something") {
  const std::pair<const char*, const char*> kCases[] = {
      {"metrics: {localQueueMetrics: {enable: true, localQueueSelector: {}}}\n",
       "metrics.localQueueMetrics.localQueueSelector"},
      {"metrics: {customLabels: [{name: team}]}\n", "metrics.customLabels"},
      {"integrations: {externalFrameworks: [Foo.v1.example.com]}\n", "integrations.externalFrameworks"},
      {"pprofBindAddress: ':8083'\n", "pprofBindAddress"},
      {"visibilityServer: {bindPort: 8082}\n", "visibilityServer.bindPort"},
      {"resources: {deviceClassMappings: [{name: a, deviceClassNames: [b], sources: [{counter: {name: c}}]}]}\n",
       "resources.deviceClassMappings"},
      {"multiKueue: {gcInterval: 1m}\n", "multiKueue.gcInterval"},
      {"multiKueue: {clusterProfile: {accessProviders: []}}\n", "multiKueue.clusterProfile"},
      {"multiKueue: {incrementalDispatcherConfig: {stepSize: 3}}\n", "multiKueue.incrementalDispatcherConfig"},
      {"integrations: {frameworks: [batch/job, jobset.x-k8s.io/jobset]}\n", "integrations.frameworks[1]"},
  };
  for (const auto& [text, path] : kCases) {
    CAPTURE(text);
    const auto result = ParseConfiguration(kHeader + text, "muster-system");
    REQUIRE(std::holds_alternative<std::vector<ConfigError>>(result));
    const auto& errors = std::get<std::vector<ConfigError>>(result);
    REQUIRE(errors.size() == 1);
    CHECK(errors[0].line == 3);
    CHECK(errors[0].path == path);
    CHECK(errors[0].message == "not supported yet");
  }
}

// kueue_semantics 1.9: presence turns it on; three lists of strategies are legal.
TEST_CASE("fair sharing is on where it is there, with both strategies unless it names one") {
  using engine::PreemptionStrategy;
  const auto strategies = [](const std::string& list) {
    const auto sharing =
        Good(kHeader + "fairSharing: {preemptionStrategies: [" + list + "]}\n").controller.fair_sharing;
    REQUIRE(sharing.has_value());
    return sharing->preemption_strategies;
  };
  const PreemptionStrategy final_share = PreemptionStrategy::kLessThanOrEqualToFinalShare;
  const PreemptionStrategy initial_share = PreemptionStrategy::kLessThanInitialShare;
  CHECK_FALSE(Good(kHeader).controller.fair_sharing.has_value());
  CHECK_FALSE(Good(kHeader + "fairSharing: null\n").controller.fair_sharing.has_value());
  CHECK(Good(kHeader + "fairSharing: {}\n").controller.fair_sharing->preemption_strategies ==
        std::vector{final_share, initial_share});
  CHECK(strategies("") == std::vector{final_share, initial_share});
  CHECK(strategies("LessThanOrEqualToFinalShare") == std::vector{final_share});
  CHECK(strategies("LessThanInitialShare") == std::vector{initial_share});
  CHECK(strategies("LessThanOrEqualToFinalShare, LessThanInitialShare") == std::vector{final_share, initial_share});
  for (const char* wrong :
       {"LessThanInitialShare, LessThanOrEqualToFinalShare", "LessThanInitialShare, LessThanInitialShare"}) {
    CHECK(Errors(kHeader + "fairSharing: {preemptionStrategies: [" + wrong + "]}\n") ==
          "f:3: fairSharing.preemptionStrategies: a list of 2: must be one of the two, or LessThanOrEqualToFinalShare "
          "and "
          "then LessThanInitialShare\n");
  }
  CHECK(Errors(kHeader + "fairSharing: {enable: true, preemptionStrategies: [Fair]}\n") ==
        "f:3: fairSharing.enable: true: a field of config.kueue.x-k8s.io/v1beta1 only\n"
        "f:3: fairSharing.preemptionStrategies[0]: Fair: must be one of LessThanOrEqualToFinalShare, "
        "LessThanInitialShare\n");
}

TEST_CASE("admission fair sharing has a half-life, an interval and weights") {
  CHECK_FALSE(Good(kHeader).controller.admission_fair_sharing.has_value());
  const auto defaults = Good(kHeader + "admissionFairSharing: {}\n").controller.admission_fair_sharing;
  REQUIRE(defaults.has_value());
  CHECK(defaults->usage_half_life_time == Duration(0));
  CHECK(defaults->usage_sampling_interval == std::chrono::minutes(5));
  CHECK(defaults->resource_weights.empty());
  const auto all = Good(kHeader +
                        "admissionFairSharing: {usageHalfLifeTime: 168h, usageSamplingInterval: 1m, "
                        "resourceWeights: {cpu: 0.5, example.com/card: 1000, memory: 0}}\n")
                       .controller.admission_fair_sharing;
  REQUIRE(all.has_value());
  CHECK(all->usage_half_life_time == std::chrono::hours(168));
  CHECK(all->usage_sampling_interval == std::chrono::minutes(1));
  CHECK(all->resource_weights == std::vector<std::pair<std::string, int64_t>>{
                                     {"cpu", 500'000'000}, {"example.com/card", 1'000'000'000'000}, {"memory", 0}});
  CHECK(Errors(kHeader + "admissionFairSharing: {usageHalfLifeTime: -1s, usageSamplingInterval: 0s, "
                         "resourceWeights: {cpu: -1, memory: 20000000, 'a b': 1, pods: many}}\n") ==
        "f:3: admissionFairSharing.resourceWeights[pods]: many: must be a number\n"
        "f:3: admissionFairSharing.usageHalfLifeTime: -1s: must be 0s or more\n"
        "f:3: admissionFairSharing.usageSamplingInterval: 0s: must be 1s or more\n"
        "f:3: admissionFairSharing.resourceWeights[cpu]: -1: must be from 0 to 1000000\n"
        "f:3: admissionFairSharing.resourceWeights[memory]: 20000000: must be from 0 to 1000000\n"
        "f:3: admissionFairSharing.resourceWeights[a b]: 1: must be the name of a resource, such as nvidia.com/gpu\n");
}

TEST_CASE("a wrong kind or version is refused, and so is a missing one") {
  CHECK(Errors("apiVersion: config.kueue.x-k8s.io/v1alpha1\nkind: Config\n") ==
        "f:1: apiVersion: config.kueue.x-k8s.io/v1alpha1: must be config.kueue.x-k8s.io/v1beta2 or "
        "config.kueue.x-k8s.io/v1beta1\n"
        "f:2: kind: Config: must be Configuration\n");
  CHECK(Errors("namespace: a\n") ==
        "f: apiVersion: must be set to config.kueue.x-k8s.io/v1beta2\n"
        "f: kind: must be set to Configuration\n");
}

// kueue_semantics 1.9: in v1beta1 waitForPodsReady and fairSharing are off unless `enable: true`.
TEST_CASE("the older version has the same fields, and a switch where the newer one has none") {
  const std::string header = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n";
  const Configuration c = Good(header + R"(
manageJobsWithoutQueueName: true
clientConnection: {qps: 50, burst: 100}
waitForPodsReady: {enable: false, timeout: 5m, blockAdmission: true, requeuingStrategy: {backoffLimitCount: 3}}
fairSharing: {preemptionStrategies: [LessThanInitialShare]}
queueVisibility: {clusterQueues: {maxCount: 0}, updateIntervalSeconds: 5}
integrations:
  frameworks: [batch/job]
  podOptions: {namespaceSelector: {matchExpressions: [{key: a, operator: Exists}]}, podSelector: {}}
)");
  CHECK(c.controller.manage_jobs_without_queue_name);
  CHECK(c.client.qps == 50);
  CHECK(HasNote(c, "queueVisibility has no effect: "));
  CHECK(HasNote(c, "integrations.podOptions has no effect: "));
  CHECK(HasNote(c, "config.kueue.x-k8s.io/v1beta1 is deprecated"));
  CHECK_FALSE(c.controller.wait_for_pods_ready.has_value());
  CHECK(HasNote(c, "multiKueue is on by default"));

  CHECK_FALSE(c.controller.fair_sharing.has_value());
  CHECK(Good(header + "fairSharing: {enable: true}\n").controller.fair_sharing == engine::FairSharing{});

  CHECK(Errors(header + "waitForPodsReady: {enable: true}\nfairSharing: {enable: 1}\n") ==
        "f:4: fairSharing.enable: 1: must be true or false\n");
  // As strict as the newer one, also about what is off.
  CHECK(Errors(header + "waitForPodsReady: {enable: no, timeOut: 5m}\nqueueVisibility: {maxCount: 1}\n") ==
        "f:3: waitForPodsReady.enable: no: must be true or false\n"
        "f:3: waitForPodsReady.timeOut: 5m: unknown field; did you mean timeout?\n"
        "f:4: queueVisibility.maxCount: 1: unknown field\n");
  CHECK(Errors(header + "clientConnection: {qps: 0}\nwebhooks: {}\n") ==
        "f:3: clientConnection.qps: 0: must not be 0; a negative number means no limit\n"
        "f:4: webhooks: a map of 0: unknown field; did you mean webhook?\n");
}

// kueue_semantics 1.9.
TEST_CASE("pods have their time in each version as in Kueue's") {
  const auto wait = [](const std::string& text) { return Good(text).controller.wait_for_pods_ready; };
  const std::string old = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n";
  CHECK_FALSE(wait(old).has_value());
  const auto by_old = wait(old + "waitForPodsReady: {enable: true}\n");
  REQUIRE(by_old.has_value());
  CHECK(by_old->timeout == std::chrono::minutes(5));
  CHECK(by_old->recovery_timeout == std::chrono::minutes(5));
  CHECK(by_old->block_admission);
  const auto all = wait(kHeader + R"(
waitForPodsReady:
  timeout: 10m
  recoveryTimeout: 0s
  blockAdmission: true
  requeuingStrategy: {timestamp: Creation, backoffLimitCount: 3, backoffBaseSeconds: 0, backoffMaxSeconds: 90}
)");
  REQUIRE(all.has_value());
  CHECK(all->timeout == std::chrono::minutes(10));
  CHECK(all->recovery_timeout == Duration(0));
  CHECK(all->block_admission);
  CHECK_FALSE(all->queue_since_eviction);
  CHECK(all->backoff_limit_count == 3);
  CHECK(all->backoff_base == Duration(0));
  CHECK(all->backoff_max == std::chrono::seconds(90));
  CHECK(wait(kHeader + "waitForPodsReady: {timeout: 1m}\n")->recovery_timeout == std::chrono::minutes(1));
  CHECK(wait(kHeader + "featureGates: {DisableWaitForPodsReady: false}\n").has_value());
  CHECK_FALSE(wait(kHeader + "featureGates: {DisableWaitForPodsReady: true}\n").has_value());
  const Configuration both =
      Good(kHeader + "waitForPodsReady: {timeout: 1m}\nfeatureGates: {DisableWaitForPodsReady: true}\n");
  CHECK_FALSE(both.controller.wait_for_pods_ready.has_value());
  CHECK(HasNote(both, "waitForPodsReady has no effect"));
}

TEST_CASE("flavors are passed over for a time, where pods have theirs") {
  const std::string hour = "muster: {passOverTimedOutFlavors: 1h}\n";
  CHECK(Good(kHeader + hour).controller.pass_over_timed_out == std::chrono::hours(1));
  CHECK(Errors(kHeader + "muster: {passOverTimedOutFlavors: -1s}\n") ==
        "f:3: muster.passOverTimedOutFlavors: -1s: must be 0s, or 1s or more\n");
  CHECK(Errors(kHeader + "muster: {passOverTimedOutFlavors: 500ms}\n") ==
        "f:3: muster.passOverTimedOutFlavors: 500ms: must be 0s, or 1s or more\n");
  CHECK(Errors(kHeader + "featureGates: {DisableWaitForPodsReady: true}\n" + hour) ==
        "f:4: muster.passOverTimedOutFlavors: 1h: needs waitForPodsReady\n");
}

TEST_CASE("fields that only the older version has are refused in the newer one, by name") {
  CHECK(Errors(kHeader + "waitForPodsReady: {enable: false}\n") ==
        "f:3: waitForPodsReady.enable: false: a field of config.kueue.x-k8s.io/v1beta1 only\n");
  CHECK(Errors(kHeader + "queueVisibility: {}\nintegrations: {podOptions: {}}\n") ==
        "f:3: queueVisibility: a map of 0: a field of config.kueue.x-k8s.io/v1beta1 only\n"
        "f:4: integrations.podOptions: a map of 0: a field of config.kueue.x-k8s.io/v1beta1 only\n");
}

TEST_CASE("what is not one plain YAML document is refused") {
  CHECK(Errors("") == "f: the document is empty\n");
  CHECK(Errors("# only a comment\n") == "f: the document is empty\n");
  CHECK(Errors("- a\n") == "f:1: a list of 1: the document must be a map\n");
  CHECK(Errors("text") == "f:1: text: the document must be a map\n");
  CHECK(Errors(kHeader + "---\n" + kHeader) == "f:3: a second document; the file must have exactly one\n");
  CHECK(Errors(kHeader + "namespace: &a x\n") == "f:3: anchors are not allowed\n");
  CHECK(Errors("a: &x {}\nb: *x\n") == "f:1: anchors are not allowed\n");
  CHECK(Errors(kHeader + "namespace: !!str 12\n") == "f:3: tags are not allowed\n");
  CHECK(Errors(kHeader + "? [a]\n: b\n") == "f:3: a key must be text\n");
  CHECK(Errors(kHeader + "metrics: {\n").starts_with("f:4: not valid YAML: "));
  CHECK(Errors(kHeader + "\tmetrics: 1\n").starts_with("f:3: not valid YAML: "));
  CHECK(Errors(kHeader + "a: " + std::string(100, '[') + std::string(100, ']') + "\n") == "f:3: nested too deeply\n");
  CHECK(Errors(kHeader + "a: " + std::string(100'000, '[')).starts_with("f:3: not valid YAML: "));
  CHECK(Errors(",a: b\n") == "f:1: a second document; the file must have exactly one\n");  // yaml-cpp never ends here
  CHECK(Errors(std::string(2 << 20, ' ')) == "f: the file is larger than 1 MiB\n");
}

TEST_CASE("a value is shown shortened and without control characters") {
  CHECK(Errors(kHeader + "namespace: \"a\\nb\\e\"\n").starts_with("f:3: namespace: \"a?b?\": must be a DNS label"));
  CHECK(Errors(kHeader + "namespace: " + std::string(500, 'a') + "\n")
            .starts_with("f:3: namespace: " + std::string(60, 'a') + "...: must be"));
  CHECK(Errors(kHeader + "\"a\\nb\": 1\n") == "f:3: a?b: 1: unknown field\n");
}

}  // namespace
}  // namespace muster::cli
