#include "muster/cli/configuration.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <limits>
#include <set>

#include "config_reader.h"
#include "config_values.h"
#include "feature_gates.h"
#include "yaml_document.h"

namespace muster::cli {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kNamespaceLabel = "kubernetes.io/metadata.name";
constexpr std::string_view kJobFramework = "batch/job";
constexpr int64_t kNanosPerUnit = 1'000'000'000;
// Of a resource in admission fair sharing; a sum of usages times this does not overflow.
constexpr int64_t kWeightMax = 1'000'000;
// More threads than any machine has use for are a slip.
constexpr int64_t kDecidersMax = 64;

// Kueue's other frameworks.
const std::set<std::string>& OtherFrameworks() {
  static const auto& names = *new std::set<std::string>{"deployment",
                                                        "jobset.x-k8s.io/jobset",
                                                        "kubeflow.org/jaxjob",
                                                        "kubeflow.org/mpijob",
                                                        "kubeflow.org/paddlejob",
                                                        "kubeflow.org/pytorchjob",
                                                        "kubeflow.org/tfjob",
                                                        "kubeflow.org/xgboostjob",
                                                        "leaderworkerset.x-k8s.io/leaderworkerset",
                                                        "pod",
                                                        "ray.io/raycluster",
                                                        "ray.io/rayjob",
                                                        "ray.io/rayservice",
                                                        "sparkoperator.k8s.io/sparkapplication",
                                                        "statefulset",
                                                        "trainer.kubeflow.org/trainjob",
                                                        "workload.codeflare.dev/appwrapper"};
  return names;
}

std::string Text(Duration d) {
  const int64_t ms = duration_cast<milliseconds>(d).count();
  return ms % 1000 == 0 ? absl::StrCat(ms / 1000, "s") : absl::StrCat(ms, "ms");
}

// One file being turned into a Configuration, part by part.
class Builder {
 public:
  Builder(ConfigReader* reader, std::string_view ns) : reader_(*reader), config_(DefaultConfiguration(ns)) {}

  Configuration Build() {
    ReadHeader();
    ReadLeaderElection();
    ReadClient();
    ReadManagedJobs();
    ReadIntegrations();
    ReadResources();
    ReadFairSharing();
    ReadAdmissionFairSharing();
    ReadRetention();
    ReadPodsReady();
    ReadHealth();
    ReadMetrics();
    ReadTls();
    CheckListeners();
    ReadFeatureGates();
    ReadMuster();
    NoteWhatIsOff();
    return std::move(config_);
  }

 private:
  void ReadHeader();
  void ReadLeaderElection();
  void ReadClient();
  void ReadManagedJobs();
  void ReadIntegrations();
  void ReadResources();
  void ReadTransformation(const std::string& at);
  void ReadFairSharing();
  void ReadAdmissionFairSharing();
  void ReadRetention();
  void ReadPodsReady();
  void ReadHealth();
  void ReadMetrics();
  void ReadTls();
  void ReadListener(const std::string& path, Listener* listener);
  void CheckListeners();
  void ReadFeatureGates();
  void ReadMuster();
  void NoteWhatIsOff();

  ConfigReader& reader_;
  Configuration config_;
};

void Builder::ReadHeader() {
  const auto version = reader_.String("apiVersion");
  if (version && *version != kConfigV1Beta2 && *version != kConfigV1Beta1) {
    reader_.Fail("apiVersion",
                 absl::StrCat("must be ", std::string(kConfigV1Beta2), " or ", std::string(kConfigV1Beta1)));
  } else if (!version) {
    reader_.Fail("apiVersion", absl::StrCat("must be set to ", std::string(kConfigV1Beta2)));
  }
  const auto kind = reader_.String("kind");
  if (kind && *kind != "Configuration") {
    reader_.Fail("kind", "must be Configuration");
  } else if (!kind) {
    reader_.Fail("kind", "must be set to Configuration");
  }
  if (const auto ns = reader_.String("namespace"); ns && !ns->empty()) {
    reader_.FailIf("namespace", CheckDnsLabel(*ns));
    config_ = DefaultConfiguration(*ns);
  }
}

void Builder::ReadLeaderElection() {
  k8s::LeaseOptions& lease = config_.controller.lease;
  const std::string at = "leaderElection.";
  config_.controller.leader_elect = reader_.Bool(at + "leaderElect").value_or(true);
  lease.lease_duration = reader_.Time(at + "leaseDuration").value_or(lease.lease_duration);
  lease.renew_deadline = reader_.Time(at + "renewDeadline").value_or(lease.renew_deadline);
  lease.retry_period = reader_.Time(at + "retryPeriod").value_or(lease.retry_period);
  if (const auto name = reader_.String(at + "resourceName"); name && !name->empty()) {
    reader_.FailIf(at + "resourceName", CheckDnsSubdomain(*name));
    lease.name = *name;
  }
  if (const auto ns = reader_.String(at + "resourceNamespace"); ns && !ns->empty()) {
    reader_.FailIf(at + "resourceNamespace", CheckDnsLabel(*ns));
    lease.ns = *ns;
  }
  if (lease.lease_duration < seconds(1) || lease.lease_duration > k8s::kLeaseDurationMax ||
      lease.lease_duration % seconds(1) != Duration(0)) {
    reader_.Fail(at + "leaseDuration", "must be whole seconds, from 1s to 1h");
    return;
  }
  if (lease.retry_period < milliseconds(100) || lease.retry_period > k8s::kLeaseDurationMax) {
    reader_.Fail(at + "retryPeriod", "must be from 100ms to 1h");
    return;
  }
  if (lease.renew_deadline <= Duration(0) || lease.renew_deadline > k8s::kLeaseDurationMax) {
    reader_.Fail(at + "renewDeadline", "must be more than 0s, and 1h at most");
    return;
  }
  // Each rule in whole tenths, so that the comparison is exact.
  if (lease.renew_deadline * 10 <= lease.retry_period * 12) {
    reader_.Fail(at + "renewDeadline",
                 absl::StrCat("must be more than 1.2 times retryPeriod, which is ", Text(lease.retry_period)));
    return;
  }
  // A write of a former leader must have ended before its successor decides, so it gets what lies between.
  const Duration gap = lease.lease_duration - lease.renew_deadline;
  if (gap < seconds(1)) {
    reader_.Fail(at + "leaseDuration",
                 absl::StrCat("must exceed renewDeadline, which is ", Text(lease.renew_deadline), ", by 1s or more"));
    return;
  }
  config_.client.write_timeout = std::min<Duration>(gap / 5 * 4, config_.client.call_timeout);
  config_.client.leave_within = config_.client.write_timeout / 2;
  // One renewal without an answer must leave time for another.
  config_.client.lease_timeout = std::min<Duration>(lease.renew_deadline / 2, config_.client.call_timeout);
  config_.controller.takeover_wait = config_.client.lands_within();
}

void Builder::ReadClient() {
  const auto qps = reader_.Number("clientConnection.qps");
  const auto burst = reader_.Int("clientConnection.burst");
  config_.client.qps = qps.value_or(config_.client.qps);
  if (config_.client.qps == 0) {
    reader_.Fail("clientConnection.qps", "must not be 0; a negative number means no limit");
  } else if (config_.client.qps > 0 && config_.client.qps < 1) {
    reader_.Fail("clientConnection.qps", "must be at least 1; a negative number means no limit");
  } else if (config_.client.qps > 1e6) {
    reader_.Fail("clientConnection.qps", "must be at most 1000000; a negative number means no limit");
  }
  if (!burst) return;
  const bool limited = config_.client.qps > 0;
  if (*burst > 1'000'000 || *burst < (limited ? 1 : 0)) {
    reader_.Fail("clientConnection.burst", limited ? "must be from 1 to 1000000" : "must be from 0 to 1000000");
  } else {
    config_.client.burst = static_cast<int>(*burst);
  }
}

void Builder::ReadManagedJobs() {
  const std::string at = "managedJobsNamespaceSelector";
  controller::Options& options = config_.controller;
  options.manage_jobs_without_queue_name =
      reader_.Bool("manageJobsWithoutQueueName").value_or(options.manage_jobs_without_queue_name);
  if (auto selector = reader_.Selector(at)) {
    for (const std::string& ns : {std::string("kube-system"), options.ns}) {
      if (!reader_.IsSet(at) || !selector->Matches({{std::string(kNamespaceLabel), ns}})) continue;
      reader_.Fail(at,
                   absl::StrCat("must not match the namespace ", ns, "; exclude it by ", std::string(kNamespaceLabel)));
    }
    options.managed_jobs_namespace_selector = *std::move(selector);
  }
}

void Builder::ReadIntegrations() {
  const std::string at = "integrations.frameworks";
  std::set<std::string> seen;
  for (const auto& [path, name] : reader_.Strings(at)) {
    if (!seen.insert(name).second) {
      reader_.Fail(path, "listed twice");
    } else if (OtherFrameworks().contains(name)) {
      reader_.Fail(path, "not supported yet");
    } else if (name != kJobFramework) {
      reader_.Fail(path, "unknown framework");
    }
  }
  // Kueue takes an empty list for an absent one.
  if (!seen.empty() && !seen.contains(std::string(kJobFramework))) {
    reader_.Fail(at, "must have batch/job, the only framework there is so far");
  }
  for (const auto& [path, key] : reader_.Strings("integrations.labelKeysToCopy")) {
    reader_.FailIf(path, CheckQualifiedName(key));
    config_.controller.label_keys_to_copy.push_back(key);
  }
}

void Builder::ReadResources() {
  controller::Options& options = config_.controller;
  options.ignore_undeclared_resources = reader_.String("resources.quotaCheckStrategy") == "IgnoreUndeclared";
  for (const auto& [path, prefix] : reader_.Strings("resources.excludeResourcePrefixes")) {
    if (prefix.empty()) {
      reader_.Fail(path, "must not be empty: every resource begins with it");
    } else if (options.ignore_undeclared_resources) {
      reader_.Fail(path, "must not be set beside quotaCheckStrategy IgnoreUndeclared");
    }
    options.requests.exclude_prefixes.push_back(prefix);
  }
  for (const std::string& at : reader_.Objects("resources.transformations")) ReadTransformation(at);
}

void Builder::ReadTransformation(const std::string& at) {
  const auto check = [this](const std::string& path, const std::string& name) {
    if (!CheckQualifiedName(name).empty()) reader_.Fail(path, "must be the name of a resource, such as nvidia.com/gpu");
  };
  std::vector<gang::Transformation>& all = config_.controller.requests.transformations;
  gang::Transformation transformation;
  transformation.input = reader_.String(at + ".input").value_or("");
  transformation.retain = reader_.String(at + ".strategy") != "Replace";
  transformation.multiply_by = reader_.String(at + ".multiplyBy").value_or("");
  if (std::any_of(all.begin(), all.end(), [&](const auto& other) { return other.input == transformation.input; })) {
    reader_.Fail(at + ".input", "is transformed twice");
  } else {
    check(at + ".input", transformation.input);
  }
  if (!transformation.multiply_by.empty()) check(at + ".multiplyBy", transformation.multiply_by);
  for (const ConfigReader::QuantityEntry& output : reader_.Quantities(at + ".outputs")) {
    check(output.path, output.key);
    transformation.outputs.insert_or_assign(output.key, output.value);
  }
  all.push_back(std::move(transformation));
}

void Builder::ReadFairSharing() {
  using engine::PreemptionStrategy;
  const std::string at = "fairSharing.preemptionStrategies";
  std::vector<PreemptionStrategy> strategies;
  for (const auto& [path, name] : reader_.Strings(at)) {
    strategies.push_back(name == "LessThanInitialShare" ? PreemptionStrategy::kLessThanInitialShare
                                                        : PreemptionStrategy::kLessThanOrEqualToFinalShare);
  }
  const std::vector<PreemptionStrategy> both = engine::FairSharing{}.preemption_strategies;
  if (strategies.empty()) strategies = both;
  if (strategies.size() > 1 && strategies != both) {
    reader_.Fail(at, "must be one of the two, or LessThanOrEqualToFinalShare and then LessThanInitialShare");
  }
  const bool on =
      reader_.IsSet("fairSharing") && (!reader_.v1beta1() || reader_.Bool("fairSharing.enable").value_or(false));
  if (on) config_.controller.fair_sharing = engine::FairSharing{std::move(strategies)};
}

void Builder::ReadAdmissionFairSharing() {
  const std::string at = "admissionFairSharing";
  if (!reader_.IsSet(at)) return;
  engine::AdmissionFairSharing sharing;
  sharing.usage_half_life_time = reader_.Time(at + ".usageHalfLifeTime").value_or(sharing.usage_half_life_time);
  if (sharing.usage_half_life_time < Duration(0)) reader_.Fail(at + ".usageHalfLifeTime", "must be 0s or more");
  sharing.usage_sampling_interval =
      reader_.Time(at + ".usageSamplingInterval").value_or(sharing.usage_sampling_interval);
  if (sharing.usage_sampling_interval < seconds(1)) {
    reader_.Fail(at + ".usageSamplingInterval", "must be 1s or more");
  }
  for (const ConfigReader::QuantityEntry& weight : reader_.Quantities(at + ".resourceWeights")) {
    if (!CheckQualifiedName(weight.key).empty()) {
      reader_.Fail(weight.path, "must be the name of a resource, such as nvidia.com/gpu");
    } else if (weight.value.IsNegative() || Quantity::FromInteger(kWeightMax) < weight.value) {
      reader_.Fail(weight.path, absl::StrCat("must be from 0 to ", kWeightMax));
    } else {
      const Quantity nanos = weight.value * Quantity::FromInteger(kNanosPerUnit);
      sharing.resource_weights.emplace_back(weight.key, nanos.ToAmount("").value);
    }
  }
  config_.controller.admission_fair_sharing = std::move(sharing);
}

void Builder::ReadListener(const std::string& path, Listener* listener) {
  const auto text = reader_.String(path);
  if (!text || text->empty()) return;  // Kueue fills in the default for an empty text too
  if (*text == "0") {
    listener->enabled = false;
    return;
  }
  auto address = server::ParseAddress(*text);
  if (!address.ok()) {
    reader_.Fail(path, std::string(address.status().message()) + ", or \"0\" for none");
    return;
  }
  *listener = {true, *std::move(address)};
}

void Builder::ReadRetention() {
  const auto read = [this](const std::string& key) {
    const std::string path = "objectRetentionPolicies.workloads." + key;
    const std::optional<Duration> time = reader_.Time(path);
    if (time.has_value() && *time < Duration(0)) reader_.Fail(path, "must be 0s or more");
    return time;
  };
  config_.controller.retention.after_finished = read("afterFinished");
  config_.controller.retention.after_deactivated = read("afterDeactivatedByKueue");
}

// In v1beta2 it is on unless a gate turns it off, in v1beta1 where `enable` says so.
void Builder::ReadPodsReady() {
  const std::string at = "waitForPodsReady.";
  const bool old = reader_.v1beta1();
  const auto gates = reader_.Bools("featureGates");
  const bool gated_off = std::any_of(gates.begin(), gates.end(), [](const auto& gate) {
    return gate.first == "DisableWaitForPodsReady" && gate.second;
  });
  std::optional<controller::WaitForPodsReadyOptions>& target = config_.controller.wait_for_pods_ready;
  controller::WaitForPodsReadyOptions options;
  if (old) options.timeout = std::chrono::minutes(5);
  options.timeout = reader_.Time(at + "timeout").value_or(options.timeout);
  if (options.timeout <= Duration(0)) reader_.Fail(at + "timeout", "must be more than 0s");
  options.recovery_timeout = reader_.Time(at + "recoveryTimeout").value_or(options.timeout);
  if (options.recovery_timeout < Duration(0)) {
    reader_.Fail(at + "recoveryTimeout", "must be 0s, for no limit, or more");
  }
  options.block_admission = reader_.Bool(at + "blockAdmission").value_or(old);
  const std::string strategy = at + "requeuingStrategy.";
  options.queue_since_eviction = reader_.String(strategy + "timestamp") != "Creation";
  const auto count = [&](const std::string& key, int64_t unset) {
    const int64_t value = reader_.Int(strategy + key).value_or(unset);
    if (value < 0 || value > std::numeric_limits<int32_t>::max()) {
      reader_.Fail(strategy + key, "must be from 0 to 2147483647");
    }
    return value;
  };
  options.backoff_base = SecondsClamped(count("backoffBaseSeconds", 60));
  options.backoff_max = SecondsClamped(count("backoffMaxSeconds", 3600));
  if (reader_.Int(strategy + "backoffLimitCount").has_value()) {
    options.backoff_limit_count = static_cast<int32_t>(count("backoffLimitCount", 0));
  }
  const bool on = old ? reader_.Bool(at + "enable").value_or(false) : !gated_off;
  if (gated_off && reader_.IsSet("waitForPodsReady")) {
    reader_.Note("waitForPodsReady has no effect: the feature gate DisableWaitForPodsReady turns it off");
  }
  target = on && !gated_off ? std::optional(options) : std::nullopt;
}

void Builder::ReadHealth() {
  ReadListener("health.healthProbeBindAddress", &config_.health);
  const auto name = [this](const std::string& path, std::string* out) {
    if (const auto text = reader_.String(path); text && !text->empty()) {
      reader_.FailIf(path, CheckEndpointName(*text));
      *out = *text;
    }
  };
  name("health.readinessEndpointName", &config_.readiness_endpoint);
  name("health.livenessEndpointName", &config_.liveness_endpoint);
  if (config_.readiness_endpoint == "livez" || config_.readiness_endpoint == "healthz") {
    reader_.Fail("health.readinessEndpointName", "is the name of the liveness endpoint");
  }
  if (config_.liveness_endpoint == "readyz" || config_.liveness_endpoint == config_.readiness_endpoint) {
    reader_.Fail("health.livenessEndpointName", "is the name of the readiness endpoint");
  }
}

void Builder::ReadMetrics() {
  ReadListener("metrics.bindAddress", &config_.metrics);
  const bool loopback = config_.metrics.address.IsLoopback();
  config_.metrics_secured = !reader_.Bool("muster.plainHTTPMetrics").value_or(loopback);
  if (const auto directory = reader_.String("muster.metricsCertDir"); directory && !directory->empty()) {
    // The keys of a Secret of type kubernetes.io/tls.
    config_.metrics_tls.certificate_file = *directory + "/tls.crt";
    config_.metrics_tls.key_file = *directory + "/tls.key";
    if (!config_.metrics_secured) reader_.Fail("muster.metricsCertDir", "must not be set where metrics are plain HTTP");
  }
  server::MetricsOptions& options = config_.metrics_options;
  options.cluster_queue_resources =
      reader_.Bool("metrics.enableClusterQueueResources").value_or(options.cluster_queue_resources);
  // An object without `enable` means false in Kueue: its default is that of the whole object.
  if (reader_.IsSet("metrics.localQueueMetrics")) {
    options.local_queues = reader_.Bool("metrics.localQueueMetrics.enable").value_or(false);
  }
}

// Names and rules are those of Go's command line flags, which Kueue checks by.
void Builder::ReadTls() {
  server::TlsOptions& tls = config_.metrics_tls;
  const std::string version = reader_.String("tls.minVersion").value_or("");
  if (!version.empty() && version != "VersionTLS12" && version != "VersionTLS13") {
    reader_.Fail("tls.minVersion", "must be one of VersionTLS12, VersionTLS13");
  }
  tls.tls13_only = version == "VersionTLS13";
  bool names_tls12 = false;
  const auto suites = reader_.Strings("tls.cipherSuites");
  for (const auto& [path, name] : suites) {
    const server::CipherSuite suite = server::FindCipherSuite(name);
    if (suite == server::CipherSuite::kUnknown) {
      reader_.Fail(path, "must be a cipher suite that Go calls secure, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256");
    }
    names_tls12 |= suite == server::CipherSuite::kTls12;
    tls.cipher_suites.push_back(name);
  }
  if (!suites.empty() && tls.tls13_only) {
    reader_.Fail("tls.cipherSuites", "must not be set beside minVersion VersionTLS13: its suites are fixed");
  } else if (!suites.empty() && !names_tls12) {
    reader_.Fail("tls.cipherSuites", "has none of TLS 1.2; to have 1.3 alone, set minVersion to VersionTLS13");
  }
  for (const std::string& path : reader_.Elements("tls.curvePreferences")) {
    const int64_t id = reader_.Int(path).value_or(0);
    if (!server::IsKnownCurve(id)) reader_.Fail(path, "must be one of 23 (P-256), 24 (P-384), 25 (P-521), 29 (X25519)");
    tls.curves.push_back(id);
  }
}

void Builder::CheckListeners() {
  const Listener& health = config_.health;
  const Listener& metrics = config_.metrics;
  if (!health.enabled || !metrics.enabled || health.address.port != metrics.address.port || health.address.port == 0) {
    return;
  }
  const bool overlap =
      health.address.host.empty() || metrics.address.host.empty() || health.address.host == metrics.address.host;
  if (!overlap) return;
  if (reader_.IsSet("metrics.bindAddress")) {
    reader_.Fail("metrics.bindAddress", "is the address of health.healthProbeBindAddress too");
  } else {
    reader_.Fail("health.healthProbeBindAddress", "is the default of metrics.bindAddress; set one of them to another");
  }
}

void Builder::ReadFeatureGates() {
  for (const auto& [name, value] : reader_.Bools("featureGates")) {
    const std::string path = absl::StrCat("featureGates[", name, "]");
    const auto& gates = FeatureGates();
    const auto gate =
        std::find_if(gates.begin(), gates.end(), [&name = name](const auto& g) { return g.name == name; });
    if (gate == gates.end()) {
      std::vector<std::string_view> names;
      for (const FeatureGate& g : gates) names.push_back(g.name);
      const std::string near = NearestName(name, names);
      reader_.Fail(path, near.empty() ? "unknown feature gate" : "unknown feature gate; did you mean " + near + "?");
    } else if (gate->behaviour == GateBehaviour::kOn && !value) {
      reader_.Fail(path, "cannot be turned off: Muster always does this");
    } else if (gate->behaviour == GateBehaviour::kOff && value) {
      reader_.Fail(path, "not supported yet");
    } else if (name == "TASBalancedPlacement") {
      config_.controller.balanced_placement = value;
    }
  }
}

void Builder::ReadMuster() {
  std::set<std::string> seen;
  for (const auto& [path, user] : reader_.Strings("muster.allowedStarters")) {
    if (std::string problem = CheckUserName(user); !problem.empty()) {
      reader_.Fail(path, std::move(problem));
    } else if (!seen.insert(user).second) {
      reader_.Fail(path, "listed twice");
    } else {
      config_.controller.allowed_starters.push_back(user);
    }
  }
  std::set<std::vector<std::string>> parents;
  for (const std::string& path : reader_.Elements("muster.parents")) {
    controller::ParentController parent{reader_.Required(path + ".user", CheckUserName),
                                        reader_.Required(path + ".group", CheckDnsSubdomain),
                                        reader_.Required(path + ".kind", CheckKind)};
    if (!parents.insert({parent.user, parent.group, parent.kind}).second) reader_.Fail(path, "listed twice");
    config_.controller.parents.push_back(std::move(parent));
  }
  if (const auto ns = reader_.String("muster.kueueNamespace"); ns && !ns->empty()) {
    reader_.FailIf("muster.kueueNamespace", CheckDnsLabel(*ns));
    config_.controller.kueue_namespace = *ns;
  }
  if (const std::optional<int64_t> deciders = reader_.Int("muster.deciders"); deciders.has_value()) {
    if (*deciders < 1 || *deciders > kDecidersMax) {
      reader_.Fail("muster.deciders", absl::StrCat("must be between 1 and ", kDecidersMax));
    } else {
      config_.controller.deciders = static_cast<int>(*deciders);
    }
  }
  config_.controller.check_machines =
      reader_.Bool("muster.machines.enable").value_or(config_.controller.check_machines);
  config_.controller.place_timeout =
      reader_.Time("muster.machines.placeTimeout").value_or(config_.controller.place_timeout);
  if (config_.controller.place_timeout < Duration(0)) {
    reader_.Fail("muster.machines.placeTimeout", "must be 0s or more");
  }
  config_.controller.reserve_after =
      reader_.Time("muster.machines.reserveAfter").value_or(config_.controller.reserve_after);
  if (config_.controller.reserve_after < Duration(0)) {
    reader_.Fail("muster.machines.reserveAfter", "must be 0s or more");
  } else if (config_.controller.reserve_after > Duration(0) && !config_.controller.check_machines) {
    reader_.Fail("muster.machines.reserveAfter", "needs muster.machines.enable: true");
  }
  config_.controller.defragment_after =
      reader_.Time("muster.defragmentAfter").value_or(config_.controller.defragment_after);
  if (config_.controller.defragment_after < Duration(0)) {
    reader_.Fail("muster.defragmentAfter", "must be 0s or more");
  }
  const std::string pass_over = "muster.passOverTimedOutFlavors";
  config_.controller.pass_over_timed_out = reader_.Time(pass_over).value_or(config_.controller.pass_over_timed_out);
  if (config_.controller.pass_over_timed_out < std::chrono::seconds(1) &&
      config_.controller.pass_over_timed_out != Duration(0)) {
    reader_.Fail(pass_over, "must be 0s, or 1s or more");
  } else if (config_.controller.pass_over_timed_out > Duration(0) &&
             !config_.controller.wait_for_pods_ready.has_value()) {
    reader_.Fail(pass_over, "needs waitForPodsReady");
  }
  config_.controller.wait_for_terminating_pods =
      reader_.Bool("muster.waitForTerminatingPods").value_or(config_.controller.wait_for_terminating_pods);
}

void Builder::NoteWhatIsOff() {
  config_.notes = reader_.TakeNotes();
  const Configuration defaults = DefaultConfiguration(config_.controller.ns);
  config_.notes.insert(config_.notes.end(), defaults.notes.begin(), defaults.notes.end());
  if (reader_.v1beta1()) {
    config_.notes.push_back(absl::StrCat(std::string(kConfigV1Beta1), " is deprecated in Kueue: ",
                                         std::string(kConfigV1Beta2), " has the same fields, but for `enable`"));
  }
  if (!config_.metrics.enabled) {
    config_.notes.push_back("metrics are not served");
  } else if (!config_.metrics_secured) {
    config_.notes.push_back(absl::StrCat("metrics are served on ", config_.metrics.address.ToString(),
                                         " over plain HTTP, to whoever can reach it"));
  }
}

}  // namespace

std::string ConfigError::ToString(std::string_view file) const {
  std::string out(file);
  if (line > 0) absl::StrAppend(&out, ":", line);
  for (const std::string* part : {&path, &value, &message}) {
    if (!part->empty()) absl::StrAppend(&out, ": ", OneLine(*part, 400));
  }
  return out;
}

Configuration DefaultConfiguration(std::string_view ns) {
  Configuration config;
  config.controller.ns = std::string(ns);
  config.controller.lease.ns = std::string(ns);
  config.controller.takeover_wait = config.client.lands_within();
  config.controller.managed_jobs_namespace_selector.match_expressions = {
      {std::string(kNamespaceLabel), Requirement::Operator::kNotIn, {"kube-system", std::string(ns)}}};
  config.controller.wait_for_pods_ready.emplace();
  config.health = {true, {"", 8081}};
  config.metrics = {true, {"", 8443}};
  config.notes = {
      "visibilityServer is on by default in Kueue and off here: the visibility API is not served",
      "multiKueue is on by default in Kueue and off here: jobs are not dispatched to other clusters",
  };
  return config;
}

std::variant<Configuration, std::vector<ConfigError>> ParseConfiguration(std::string_view text, std::string_view ns) {
  const auto document = ParseYaml(text);
  if (const auto* problem = std::get_if<YamlProblem>(&document)) {
    return std::vector<ConfigError>{{problem->line, "", "", problem->message}};
  }
  const YamlNode& root = std::get<YamlNode>(document);
  if (root.kind != YamlNode::Kind::kMap) {
    return std::vector<ConfigError>{{root.line, "", ShowValue(root), "the document must be a map"}};
  }
  ConfigReader reader(root);
  Configuration config = Builder(&reader, ns).Build();
  if (std::vector<ConfigError> errors = reader.TakeErrors(); !errors.empty()) return errors;
  return config;
}

}  // namespace muster::cli
