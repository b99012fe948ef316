// ResourceFlavor, ClusterQueue, Cohort, LocalQueue, Namespace.
#include "muster/controller/decode.h"
#include "muster/controller/names.h"

namespace muster::controller {

using k8s::JsonValue;

namespace {

template <typename T>
struct Choice {
  std::string_view text;
  T value;
};

// An enumeration: absent is `absent`, an unknown word is an error.
template <typename T, size_t N>
T DecodeChoice(JsonValue value, T absent, const Choice<T> (&choices)[N]) {
  const std::string text = value.String();
  if (text.empty()) return absent;
  for (const Choice<T>& choice : choices) {
    if (choice.text == text) return choice.value;
  }
  value.Fail("\"" + text.substr(0, 80) + "\" is not a known value");
  return absent;
}

constexpr Choice<engine::PreemptionPolicy> kPreemptionPolicies[] = {
    {"Never", engine::PreemptionPolicy::kNever},
    {"LowerPriority", engine::PreemptionPolicy::kLowerPriority},
    {"LowerOrNewerEqualPriority", engine::PreemptionPolicy::kLowerOrNewerEqualPriority},
    {"Any", engine::PreemptionPolicy::kAny}};
constexpr Choice<engine::StopPolicy> kStopPolicies[] = {{"None", engine::StopPolicy::kNone},
                                                        {"Hold", engine::StopPolicy::kHold},
                                                        {"HoldAndDrain", engine::StopPolicy::kHoldAndDrain}};
constexpr Choice<engine::QueueingStrategy> kStrategies[] = {
    {"BestEffortFIFO", engine::QueueingStrategy::kBestEffortFIFO},
    {"StrictFIFO", engine::QueueingStrategy::kStrictFIFO}};
// Borrow and Preempt are the names of v1beta1.
constexpr Choice<engine::FungibilityPolicy> kFungibility[] = {
    {"MayStopSearch", engine::FungibilityPolicy::kMayStopSearch},
    {"Borrow", engine::FungibilityPolicy::kMayStopSearch},
    {"Preempt", engine::FungibilityPolicy::kMayStopSearch},
    {"TryNextFlavor", engine::FungibilityPolicy::kTryNextFlavor}};
constexpr Choice<engine::FungibilityPreference> kPreferences[] = {
    {"BorrowingOverPreemption", engine::FungibilityPreference::kBorrowingOverPreemption},
    {"PreemptionOverBorrowing", engine::FungibilityPreference::kPreemptionOverBorrowing}};
constexpr Choice<bool> kAdmissionModes[] = {{"NoAdmissionFairSharing", false},
                                            {"UsageBasedAdmissionFairSharing", true}};

// Of two names of one field, the one that is there.
JsonValue Either(JsonValue object, std::string_view name, std::string_view other) {
  const JsonValue value = object[name];
  return value.present() ? value : object[other];
}

// Of a quota; nothing is ever computed with a negative one.
Amount DecodeLimit(JsonValue quantity, std::string_view resource) {
  const Amount amount = DecodeAmount(quantity, resource);
  if (amount >= Amount{0}) return amount;
  quantity.Fail("must not be negative, got " + quantity.Scalar().substr(0, 80));
  return {};
}

std::optional<Amount> DecodeOptionalLimit(JsonValue quantity, std::string_view resource) {
  if (!quantity.present()) return std::nullopt;
  return DecodeLimit(quantity, resource);
}

std::vector<engine::ResourceGroup> DecodeResourceGroups(JsonValue groups) {
  std::vector<engine::ResourceGroup> decoded;
  groups.ForEach([&](JsonValue item) {
    engine::ResourceGroup group;
    item["coveredResources"].ForEach([&](JsonValue name) { group.covered_resources.push_back(name.String()); });
    item["flavors"].ForEach([&](JsonValue flavor_item) {
      engine::FlavorQuotas flavor;
      flavor.flavor = flavor_item["name"].String();
      flavor_item["resources"].ForEach([&](JsonValue quota_item) {
        engine::ResourceQuota quota;
        quota.resource = quota_item["name"].String();
        quota.nominal = DecodeLimit(quota_item["nominalQuota"], quota.resource);
        quota.borrowing_limit = DecodeOptionalLimit(quota_item["borrowingLimit"], quota.resource);
        quota.lending_limit = DecodeOptionalLimit(quota_item["lendingLimit"], quota.resource);
        flavor.resources.push_back(std::move(quota));
      });
      group.flavors.push_back(std::move(flavor));
    });
    decoded.push_back(std::move(group));
  });
  return decoded;
}

engine::FairWeight DecodeFairWeight(JsonValue spec) {
  const JsonValue weight = spec["fairSharing"]["weight"];
  if (!weight.present()) return {};
  absl::StatusOr<Quantity> quantity = Quantity::Parse(weight.Scalar());
  if (!quantity.ok()) {
    weight.Fail(std::string(quantity.status().message()));
    return {};
  }
  if (quantity->IsNegative()) {
    weight.Fail("must not be negative");
    return {};
  }
  const Quantity nanos = *quantity * Quantity::FromInteger(1'000'000'000);
  return {nanos.ToAmount("").value};
}

std::vector<engine::AdmissionCheckRule> DecodeAdmissionChecks(JsonValue spec) {
  std::vector<engine::AdmissionCheckRule> checks;
  spec["admissionChecksStrategy"]["admissionChecks"].ForEach([&](JsonValue item) {
    engine::AdmissionCheckRule rule{item["name"].String(), {}};
    item["onFlavors"].ForEach([&](JsonValue name) { rule.on_flavors.push_back(name.String()); });
    checks.push_back(std::move(rule));
  });
  if (!checks.empty()) return checks;
  spec["admissionChecks"].ForEach([&](JsonValue name) { checks.push_back({name.String(), {}}); });  // v1beta1
  return checks;
}

void DecodePreemption(JsonValue preemption, engine::ClusterQueue* queue) {
  using engine::PreemptionPolicy;
  queue->reclaim_within_cohort =
      DecodeChoice(preemption["reclaimWithinCohort"], PreemptionPolicy::kNever, kPreemptionPolicies);
  queue->within_cluster_queue =
      DecodeChoice(preemption["withinClusterQueue"], PreemptionPolicy::kNever, kPreemptionPolicies);
  const JsonValue borrow = preemption["borrowWithinCohort"];
  queue->borrow_within_cohort.policy = DecodeChoice(borrow["policy"], PreemptionPolicy::kNever, kPreemptionPolicies);
  queue->borrow_within_cohort.max_priority_threshold = borrow["maxPriorityThreshold"].OptionalInt32();
}

}  // namespace

engine::ResourceFlavor DecodeResourceFlavor(JsonValue object) {
  const JsonValue spec = object["spec"];
  engine::ResourceFlavor flavor;
  flavor.name = object["metadata"]["name"].String();
  flavor.node_labels = spec["nodeLabels"].Map();
  flavor.node_taints = DecodeTaints(spec["nodeTaints"]);
  flavor.tolerations = DecodeTolerations(spec["tolerations"]);
  flavor.topology_name = spec["topologyName"].String();
  flavor.autoscaled = object["metadata"]["annotations"][kAutoscaledAnnotation].String() == "true";
  return flavor;
}

engine::ClusterQueue DecodeClusterQueue(JsonValue object) {
  const k8s::ObjectMeta meta = k8s::DecodeMeta(object);
  const JsonValue spec = object["spec"];
  engine::ClusterQueue queue;
  queue.name = meta.name;
  queue.generation = meta.generation;
  queue.terminating = meta.deletion.IsSet();
  queue.cohort = Either(spec, "cohortName", "cohort").String();
  queue.resource_groups = DecodeResourceGroups(spec["resourceGroups"]);
  queue.queueing_strategy =
      DecodeChoice(spec["queueingStrategy"], engine::QueueingStrategy::kBestEffortFIFO, kStrategies);
  if (spec["namespaceSelector"].present()) queue.namespace_selector = DecodeLabelSelector(spec["namespaceSelector"]);
  const JsonValue fungibility = spec["flavorFungibility"];
  queue.when_can_borrow =
      DecodeChoice(fungibility["whenCanBorrow"], engine::FungibilityPolicy::kMayStopSearch, kFungibility);
  queue.when_can_preempt =
      DecodeChoice(fungibility["whenCanPreempt"], engine::FungibilityPolicy::kTryNextFlavor, kFungibility);
  queue.preference = DecodeChoice(fungibility["preference"], engine::FungibilityPreference::kUnset, kPreferences);
  DecodePreemption(spec["preemption"], &queue);
  queue.admission_checks = DecodeAdmissionChecks(spec);
  queue.stop_policy = DecodeChoice(spec["stopPolicy"], engine::StopPolicy::kNone, kStopPolicies);
  queue.fair_weight = DecodeFairWeight(spec);
  queue.usage_based_admission = DecodeChoice(spec["admissionScope"]["admissionMode"], false, kAdmissionModes);
  return queue;
}

engine::Cohort DecodeCohort(JsonValue object) {
  const JsonValue spec = object["spec"];
  engine::Cohort cohort;
  cohort.name = object["metadata"]["name"].String();
  cohort.parent = spec["parentName"].String();
  cohort.resource_groups = DecodeResourceGroups(spec["resourceGroups"]);
  cohort.fair_weight = DecodeFairWeight(spec);
  return cohort;
}

engine::LocalQueue DecodeLocalQueue(JsonValue object) {
  const k8s::ObjectMeta meta = k8s::DecodeMeta(object);
  const JsonValue spec = object["spec"];
  engine::LocalQueue queue;
  queue.ns = meta.ns;
  queue.name = meta.name;
  queue.cluster_queue = spec["clusterQueue"].String();
  queue.stop_policy = DecodeChoice(spec["stopPolicy"], engine::StopPolicy::kNone, kStopPolicies);
  queue.fair_weight = DecodeFairWeight(spec);
  return queue;
}

engine::Namespace DecodeNamespace(JsonValue object) {
  return {object["metadata"]["name"].String(), object["metadata"]["labels"].Map()};
}

}  // namespace muster::controller
